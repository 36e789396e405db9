//! The transcript of a world as text for people and for snapshots.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use jiff::Timestamp;

use crate::metadata;
use crate::transcript::render::{self, Paragraph, RenderedLine};
use crate::transcript::{Actor, Attributed as _, EntryKind, RecordedJson, TranscriptEntry, redact};

/// Fewest equal lines at equal distances that become one.
const REPEATS: usize = 3;

/// The record of all requests and changes, to filter and to show. Its `Display` form is the text.
///
/// The text is the same in each run of a deterministic test:
///
/// - uids, resource versions and times are replaced by names;
/// - lines of one instant are ordered by actor, kind of request and object, because kube-runtime reconciles objects
///   that are due at the same time in a random order ([`TranscriptView::in_order`] keeps the order of arrival);
/// - equal lines at equal distances become one, with the distance and the number.
#[derive(Clone, Debug)]
pub struct TranscriptView {
    epoch: Timestamp,
    initial: Vec<RecordedJson>,
    entries: Vec<TranscriptEntry>,
    actor: Option<String>,
    changes_only: bool,
    since: Duration,
    in_order: bool,
}

impl TranscriptView {
    pub(super) fn new(epoch: Timestamp, initial: Vec<RecordedJson>, entries: Vec<TranscriptEntry>) -> Self {
        Self { epoch, initial, entries, actor: None, changes_only: false, since: Duration::ZERO, in_order: false }
    }

    /// Keeps the requests of `actor`, such as a controller under test, `user` or `kubelet`, and notes about it.
    #[must_use]
    pub fn of(mut self, actor: &str) -> Self {
        self.actor = Some(actor.to_owned());
        self
    }

    /// Keeps what has changed an object, and notes.
    #[must_use]
    pub fn changes(mut self) -> Self {
        self.changes_only = true;
        self
    }

    /// Keeps what happened at this time or later.
    #[must_use]
    pub fn since(mut self, at: Duration) -> Self {
        self.since = at;
        self
    }

    /// Keeps the order of arrival within an instant.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Returns the entries of the record, unfiltered.
    #[must_use]
    pub fn entries(&self) -> &[TranscriptEntry] {
        &self.entries
    }

    /// Returns the last `count` lines.
    pub(super) fn last(&self, count: usize) -> Vec<String> {
        self.until(usize::MAX, count)
    }

    /// Returns the line of entry `seq` and at most `count` before it, in the order of arrival.
    pub(super) fn until(&self, seq: usize, count: usize) -> Vec<String> {
        let lines = self.clone().in_order().rendered();
        let end = lines.partition_point(|line| line.seq <= seq);
        let paragraphs = render::join_runs(&lines[..end]);
        let first = paragraphs.len().saturating_sub(count + 1);
        paragraphs[first..].iter().map(|paragraph| paragraph.text.replace('\n', "\n    ")).collect()
    }

    fn rendered(&self) -> Vec<RenderedLine> {
        let changes = render::changes_of_requests(&self.entries);
        let has_changed = |entry: &TranscriptEntry| match &entry.what {
            EntryKind::Request(_) => changes[entry.seq].iter().any(|change| {
                change.old.is_none() || change.new.is_none() || {
                    let old = change.old.as_deref();
                    let new = change.new.as_deref();
                    old.zip(new).is_none_or(|(old, new)| !metadata::is_same(old, new))
                }
            }),
            EntryKind::Change(_) | EntryKind::Note(_) => true,
        };
        let is_meant = |line: &RenderedLine| {
            let entry = &self.entries[line.seq];
            let by = self.actor.as_deref().is_none_or(|actor| match &entry.what {
                EntryKind::Note(text) => text.split_whitespace().next() == Some(actor),
                EntryKind::Request(_) | EntryKind::Change(_) => entry.actor().name() == actor,
            });
            by && entry.at >= self.since && (!self.changes_only || has_changed(entry))
        };
        let mut lines = render::lines(self.epoch, &self.initial, &self.entries);
        lines.retain(is_meant);
        if !self.in_order {
            self.order(&mut lines);
        }
        lines
    }

    /// Orders the lines between two notes or steps of the test within each instant.
    fn order(&self, lines: &mut [RenderedLine]) {
        let is_step = |line: &RenderedLine| matches!(self.entries[line.seq].actor(), Actor::User | Actor::Harness);
        let together = |one: &RenderedLine, next: &RenderedLine| one.at == next.at && !is_step(one) && !is_step(next);
        for group in lines.chunk_by_mut(together) {
            let mut actors = BTreeMap::new();
            let mut shapes = BTreeMap::new();
            for line in group.iter() {
                let count = actors.len();
                let actor = self.entries[line.seq].actor();
                actors.entry(actor).or_insert(count);
                let count = shapes.len();
                shapes.entry(shape(line)).or_insert(count);
            }
            group.sort_by_cached_key(|line| {
                let actor = actors[&self.entries[line.seq].actor()];
                (actor, shapes[&shape(line)], line.subject(), line.seq)
            });
        }
    }

    fn paragraphs(&self) -> Vec<Paragraph> {
        fold(render::join_runs(&self.rendered()))
    }
}

impl fmt::Display for TranscriptView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render::to_text(&self.paragraphs()))
    }
}

/// Returns the verb, the resource and the subresource of a line.
fn shape(line: &RenderedLine) -> String {
    let mut parts = line.object.split('/');
    format!("{} {} {}", line.verb, parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default())
}

/// Replaces paragraphs that repeat at equal distances by the first one.
fn fold(paragraphs: Vec<Paragraph>) -> Vec<Paragraph> {
    let mut equal: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, paragraph) in paragraphs.iter().enumerate() {
        equal.entry(essence(paragraph)).or_default().push(index);
    }
    let mut notes: BTreeMap<usize, String> = BTreeMap::new();
    let mut dropped = vec![false; paragraphs.len()];
    for indexes in equal.into_values() {
        let mut rest = &indexes[..];
        while rest.len() >= REPEATS {
            let distance = |pair: &[usize]| paragraphs[pair[1]].at.saturating_sub(paragraphs[pair[0]].at);
            let every = distance(&rest[..2]);
            let length = 1 + rest.windows(2).take_while(|pair| distance(pair) == every).count();
            if length < REPEATS || every.is_zero() {
                rest = &rest[1..];
                continue;
            }
            let last = redact::at(paragraphs[rest[length - 1]].at);
            let text = format!("\n        the same every {}, {length} times, until {last}", redact::seconds(every));
            notes.insert(rest[0], text);
            rest[1..length].iter().for_each(|index| dropped[*index] = true);
            rest = &rest[length..];
        }
    }
    let numbered = paragraphs.into_iter().enumerate().filter(|(index, _)| !dropped[*index]);
    numbered
        .map(|(index, mut paragraph)| {
            if let Some(note) = notes.get(&index) {
                paragraph.text.push_str(note);
            }
            paragraph
        })
        .collect()
}

/// Returns a paragraph's text with times relative to its own, and without the numbers of versions.
fn essence(paragraph: &Paragraph) -> String {
    let text = paragraph.text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['@', 't']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let after = &from[1..];
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        if from.starts_with('@') {
            out.push('@');
            rest = &after[digits(after)..];
        } else if let Some(time) = after.strip_prefix("=+").filter(|time| digits(time) > 0) {
            let seconds: f64 = time[..digits(time)].trim_end_matches('.').parse().unwrap_or_default();
            let offset = seconds - paragraph.at.as_secs_f64();
            _ = write!(out, "t{offset:+.3}");
            rest = &time[digits(time)..];
        } else {
            out.push('t');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Describes the first line in which two texts differ.
pub(super) fn first_difference(first: &str, next: &str) -> Option<String> {
    let mut one = first.lines();
    let mut two = next.lines();
    let mut number = 1;
    loop {
        match (one.next(), two.next()) {
            (None, None) => return None,
            (a, b) if a == b => number += 1,
            (a, b) => {
                let show = |line: Option<&str>| line.unwrap_or("(the end)").to_owned();
                return Some(format!(
                    "in line {number} of the transcript:\n  first: {}\n  then:  {}",
                    show(a),
                    show(b)
                ));
            }
        }
    }
}
