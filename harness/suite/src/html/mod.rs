//! A run as one HTML file: an overview, and a timeline of each fixture.
//!
//! The file is complete: it opens from disk, loads nothing, and its policy permits only its own script and style. Names
//! and messages come from fixtures and from subjects, so all of them are escaped.
//!
//! ```text
//! JudgedRun ─► timeline (watches, causes, notes, steps) ─► blocks ─┐
//! RunReport ─► overview, history ──────────────────────────────────┴► page
//! ```
//!
//! - [`model`]: the data of a timeline · [`timeline`]: from the record to a timeline
//! - `watches`, `causes`, `notes`, `steps`, `patch`: watch events, arrows, periods of faults, checks, object versions
//! - `blocks`: compression and the limit on the page's size · [`history`]: New, Fixed, Still failing
//! - `comparison`, `accepted`, `snapshot_timeline`: two subjects side by side; a failed run and its accepted snapshot;
//!   two versions of a snapshot
//! - [`chart`]: curves of measurements
//! - `overview`, `page`: the markup; the script and the style are plain files next to this one

mod accepted;
mod blocks;
mod causes;
pub mod chart;
mod comparison;
pub mod history;
pub mod model;
mod notes;
mod overview;
mod page;
mod patch;
mod snapshot_timeline;
mod steps;
mod timeline;
mod watches;

pub(crate) use page::head;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use blocks::{TimelineArchive, TimelineText};
use comparison::TranscriptPair;
pub use comparison::{TimelineTexts, comparison_page};
use maud::Markup;
use model::AlignedLines;
use page::PageParts;
use plumbline::fixture::Fixture;
use serde_json::json;
pub use timeline::timeline;

use crate::conformance::compare::aligned;
use crate::report::{Event, JudgedRun, Outcome, Reporter, RunReport};

/// Writes the page when the run has ended.
pub struct Html<W> {
    out: W,
    title: String,
    fixtures: BTreeMap<String, Fixture>,
    before: Vec<RunReport>,
    timelines: Vec<TimelineText>,
}

impl<W: Write> Html<W> {
    /// Creates a reporter for a run of `fixtures`.
    pub fn new(out: W, title: &str, fixtures: &[Fixture]) -> Self {
        let fixtures = fixtures.iter().map(|fixture| (fixture.id.clone(), fixture.clone())).collect();
        Self { out, title: title.to_owned(), fixtures, before: Vec::new(), timelines: Vec::new() }
    }

    /// Adds former runs to compare with, the oldest one first.
    #[must_use]
    pub fn since(mut self, before: Vec<RunReport>) -> Self {
        self.before = before;
        self
    }

    fn keep(&mut self, judged: &JudgedRun) -> io::Result<()> {
        let report = &judged.report;
        if judged.entries.is_empty() && !report.outcome.has_run() {
            return Ok(());
        }
        let fixture = self.fixtures.get(&report.id);
        let mut timeline = timeline(fixture, judged);
        if report.outcome == Outcome::Fail {
            timeline.accepted = fixture.and_then(|fixture| difference_from_snapshot(fixture, judged));
        }
        self.timelines.push(TimelineText {
            id: report.id.clone(),
            file: report.file.clone(),
            is_important: report.outcome != Outcome::Pass,
            json: serde_json::to_string(&timeline)?,
        });
        Ok(())
    }

    fn write(&mut self, report: &RunReport) -> io::Result<()> {
        let history = history::compare(&self.before, report);
        let timelines = std::mem::take(&mut self.timelines);
        let ran = timelines.len();
        let packed = blocks::pack(timelines, blocks::ALL_BLOCKS, |file| source(Path::new(file)));
        let overview = overview::overview(report, history.as_ref());
        let page = page::page(&PageParts { title: &self.title, overview, packed: &packed, ran });
        self.out.write_all(page.as_bytes())?;
        self.out.flush()
    }
}

/// Two versions of a transcript, for a page of changes.
#[derive(Clone, Copy, Debug)]
pub struct TranscriptChange<'a> {
    /// The fixture's id, or another name: the anchor in the page.
    pub id: &'a str,
    /// The promise, in a sentence.
    pub promise: &'a str,
    /// The fixture's rules.
    pub rules: &'a [String],
    /// The transcripts, empty if there is none.
    pub texts: [&'a str; 2],
}

/// Returns a page with the timelines of both versions of each transcript. `names` are those of the versions.
#[must_use]
pub fn changes_page(title: &str, content: Markup, names: [&str; 2], changes: &[TranscriptChange<'_>]) -> String {
    let text = |change: &TranscriptChange<'_>| {
        let TranscriptChange { id, promise, rules, texts } = *change;
        let [before, after] = texts;
        let lines = AlignedLines::around_first_difference(&aligned(before, after, Duration::ZERO));
        let pair = TranscriptPair { id, file: "", promise, names, absent: "no transcript", lines };
        let timeline = |text: &str| {
            let timeline = (!text.trim().is_empty()).then(|| snapshot_timeline::of_text(id, promise, rules, text));
            json!(timeline).to_string()
        };
        let [before, after] = texts.map(timeline);
        pair.text([&before, &after])
    };
    let texts: Vec<TimelineText> = changes.iter().map(text).collect();
    let ran = texts.len();
    let packed = blocks::pack(texts, blocks::ALL_BLOCKS, |_| String::new());
    page::page(&PageParts { title, overview: content, packed: &packed, ran })
}

/// Returns a page without timelines.
#[must_use]
pub fn plain_page(title: &str, content: Markup) -> String {
    page::page(&PageParts { title, overview: content, packed: &TimelineArchive::default(), ran: 0 })
}

/// Returns the accepted snapshot and the transcript side by side; `None` if they are equal or there is no snapshot.
fn difference_from_snapshot(fixture: &Fixture, judged: &JudgedRun) -> Option<AlignedLines> {
    let snapshot = accepted::path(fixture).and_then(|path| std::fs::read_to_string(path).ok())?;
    let row = fixture.row.as_ref().map(|row| row.id.as_str());
    accepted::lines(&snapshot, row, &judged.transcript)
}

/// Returns the text of a fixture's file for the page; empty if it cannot be read.
#[must_use]
pub fn source(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

impl<W: Write> Reporter for Html<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Started { .. } => Ok(()),
            Event::Finished(judged) => self.keep(judged),
            Event::Ended(report) => self.write(report),
        }
    }
}

#[cfg(test)]
mod tests;
