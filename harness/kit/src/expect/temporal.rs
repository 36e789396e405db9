//! Judges the steps: at an instant, during a whole window, at some time of a window; and the replies to users.

use std::time::Duration;

use serde_json::Value;

use super::broken_promise::BrokenPromise;
use super::checks::{CheckPoint, Gap, covers, describe, evaluate, text_matches};
use super::judge_context::JudgeContext;
use super::requests::{is_subject_write, requests};
use super::run::Run;
use super::world::ObjectStates;
use crate::fixture::matching::{self, MatchContext};
use crate::fixture::{Check, CheckKind, ReplyPattern, Step, StepKind};
use crate::transcript::EntryKind;

/// Judges all steps.
pub(super) fn steps(context: JudgeContext<'_>) -> Vec<BrokenPromise> {
    let JudgeContext { fixture, run, begin: first } = context;
    let mut failures = Vec::new();
    let mut world = first.clone();
    let mut seen = 0;
    for (index, step) in fixture.steps.iter().enumerate() {
        let Some(&end) = run.marks.get(index) else {
            failures.push(not_reached(step, run));
            break;
        };
        let end = end.min(run.entries.len());
        // The end of the previous step.
        let over = index.checked_sub(1).map_or(0, |before| run.marks[before].min(end));
        let begin = match index {
            0 => run.entries[..end].partition_point(|entry| entry.at.is_zero()),
            _ => over,
        };
        let mut advance = |to: usize| {
            run.entries[seen.min(to)..to].iter().for_each(|entry| world.step(entry));
            seen = seen.max(to);
            world.clone()
        };
        match &step.kind {
            StepKind::Do { reply: wanted, .. } => {
                failures.extend(reply(index, step, wanted.as_ref(), run, &advance(end)));
            }
            StepKind::Expect { checks } => {
                let since = if run.tolerance.is_zero() {
                    end
                } else {
                    first_at(run, step.at.saturating_sub(run.tolerance), end).max(over)
                };
                let instant = Window { run, begin: since, end, from: step.at, to: step.at };
                failures.extend(instant.at_once(checks, advance(since)));
            }
            StepKind::Consistently { until, checks } => {
                let window = Window { run, begin, end, from: step.at, to: *until }.without_edges(step);
                let begin = window.begin;
                failures.extend(checks.iter().filter_map(|check| window.always(check, advance(begin))));
            }
            StepKind::Eventually { by, checks } => {
                let window = Window { run, begin, end, from: step.at, to: *by };
                failures.extend(window.some_time(checks, advance(begin)));
            }
        }
    }
    failures
}

/// Judges `expect:`.
pub(super) fn at_the_end(JudgeContext { fixture, run, begin }: JudgeContext<'_>) -> Vec<BrokenPromise> {
    if fixture.expect.is_empty() {
        return Vec::new();
    }
    let world = begin.clone().after(run.entries);
    let end = run.entries.len();
    let point = CheckPoint { run, world: &world, entries: run.entries, at: run.end, window: false };
    fixture.expect.iter().filter_map(|check| failed(check, point, end)).collect()
}

/// Judges `expect:` at the end of the run; `quiet` is about the entries from `window` on.
pub(super) fn at_the_end_of(
    JudgeContext { fixture, run, begin }: JudgeContext<'_>,
    window: usize,
) -> Vec<BrokenPromise> {
    let world = begin.clone().after(run.entries);
    let end = run.entries.len();
    let judge = |check: &Check| {
        let quiet = matches!(check.kind, CheckKind::Quiet);
        let entries = &run.entries[if quiet { window.min(end) } else { 0 }..];
        failed(check, CheckPoint { run, world: &world, entries, at: run.end, window: quiet }, end)
    };
    fixture.expect.iter().filter_map(judge).collect()
}

fn not_reached(step: &Step, run: &Run<'_>) -> BrokenPromise {
    BrokenPromise {
        line: step.line,
        at: run.end,
        seq: run.entries.len(),
        check: "the step is reached".to_owned(),
        expected: format!("a run until {}", matching::at(step.end())),
        observed: format!("the run ended at {}", matching::at(run.end)),
    }
}

fn failure(check: &Check, at: Duration, seq: usize, gap: Gap) -> BrokenPromise {
    BrokenPromise { line: check.line, at, seq, check: describe(check), expected: gap.expected, observed: gap.observed }
}

fn failed(check: &Check, point: CheckPoint<'_>, seq: usize) -> Option<BrokenPromise> {
    evaluate(check, point).err().map(|gap| failure(check, point.at, seq.saturating_sub(1), gap))
}

/// Returns the position of the first entry of `run` at or after `at`, at most `end`.
fn first_at(run: &Run<'_>, at: Duration, end: usize) -> usize {
    run.entries[..end].partition_point(|entry| entry.at < at)
}

/// A window of the transcript.
#[derive(Debug, Clone, Copy)]
struct Window<'a> {
    run: &'a Run<'a>,
    begin: usize,
    end: usize,
    from: Duration,
    to: Duration,
}

impl Window<'_> {
    /// Returns the window without the margins that may belong to the neighbouring steps, see [`Step::margin`].
    fn without_edges(mut self, step: &Step) -> Self {
        let margin = step.margin(self.run.tolerance);
        if !margin.is_zero() {
            self.from += margin;
            self.to -= margin;
            let after = self.run.entries[..self.end].partition_point(|entry| entry.at <= self.to);
            self.end = after.max(self.begin);
            self.begin = first_at(self.run, self.from, self.end).max(self.begin);
        }
        self
    }

    /// Evaluates checks that must hold together at `self.to`: at the window's end, or earlier or later by as much as
    /// the clock may be off.
    fn at_once(&self, checks: &[Check], mut world: ObjectStates) -> Vec<BrokenPromise> {
        let mut last = Vec::new();
        for position in self.begin..=self.end {
            if position > self.begin {
                world.step(&self.run.entries[position - 1]);
            }
            let fails = |check: &Check| {
                // `quiet` inspects the whole window: before a write every moment is quiet.
                let seen = if matches!(check.kind, CheckKind::Quiet) { self.end } else { position };
                let entries = &self.run.entries[..seen];
                failed(
                    check,
                    CheckPoint { run: self.run, world: &world, entries, at: self.to, window: false },
                    position,
                )
            };
            last = checks.iter().filter_map(fails).collect();
            if last.is_empty() {
                break;
            }
        }
        last
    }

    fn point<'w>(&'w self, world: &'w ObjectStates, position: usize) -> CheckPoint<'w> {
        let at = if position == self.begin { self.from } else { self.run.entries[position - 1].at };
        CheckPoint { run: self.run, world, entries: &self.run.entries[self.begin..position], at, window: true }
    }

    /// Evaluates a check that must hold during the whole window: after every change of an object. Checks of requests
    /// and metrics are evaluated once, at the end of the window.
    fn always(&self, check: &Check, mut world: ObjectStates) -> Option<BrokenPromise> {
        let whole = match &check.kind {
            CheckKind::Requests { .. } | CheckKind::Metric { .. } => true,
            CheckKind::Quiet => {
                let entries = &self.run.entries[self.begin..self.end];
                let (entry, _) = requests(entries).find(|(entry, exchange)| is_subject_write(entry, exchange))?;
                let gap = evaluate(check, self.point(&world, self.end)).err()?;
                return Some(failure(check, entry.at, entry.seq, gap));
            }
            CheckKind::Never(pattern) => {
                let entries = &self.run.entries[self.begin..self.end];
                let (entry, _) =
                    requests(entries).find(|(entry, exchange)| covers(pattern, entry, exchange, self.run))?;
                let gap = evaluate(check, self.point(&world, self.end)).err()?;
                return Some(failure(check, entry.at, entry.seq, gap));
            }
            _ => false,
        };
        if whole {
            let point = CheckPoint { at: self.to, ..self.point(&world, self.end) };
            return evaluate(check, point).err().map(|gap| failure(check, self.to, self.end.saturating_sub(1), gap));
        }
        for position in self.begin..=self.end {
            if position > self.begin {
                let entry = &self.run.entries[position - 1];
                if !matches!(entry.what, EntryKind::Change(_)) {
                    continue;
                }
                world.step(entry);
            }
            let point = self.point(&world, position);
            if let Err(gap) = evaluate(check, point) {
                return Some(failure(check, point.at, position.saturating_sub(1), gap));
            }
        }
        None
    }

    /// Evaluates checks that must hold together at some instant, after all entries of that instant.
    fn some_time(&self, checks: &[Check], mut world: ObjectStates) -> Vec<BrokenPromise> {
        let mut last = Vec::new();
        for position in self.begin..=self.end {
            if position > self.begin {
                world.step(&self.run.entries[position - 1]);
            }
            let more = |next: &crate::transcript::TranscriptEntry| {
                position > self.begin && next.at == self.run.entries[position - 1].at
            };
            if self.run.entries[..self.end].get(position).is_some_and(more) {
                continue;
            }
            let point = self.point(&world, position);
            let gaps = checks.iter().filter_map(|check| Some((check, evaluate(check, point).err()?)));
            last = gaps.map(|(check, gap)| failure(check, self.to, self.end.saturating_sub(1), gap)).collect();
            if last.is_empty() {
                break;
            }
        }
        for failure in &mut last {
            failure.check = format!("eventually {}", failure.check);
        }
        last
    }
}

fn reply(
    index: usize,
    step: &Step,
    wanted: Option<&ReplyPattern>,
    run: &Run<'_>,
    world: &ObjectStates,
) -> Vec<BrokenPromise> {
    let replies: Vec<_> = run.replies.iter().filter(|reply| reply.step == index).collect();
    let seq = run.marks[index].saturating_sub(1);
    let failure = |gap: Gap| BrokenPromise {
        line: step.line,
        at: step.at,
        seq,
        check: "reply".to_owned(),
        expected: gap.expected,
        observed: gap.observed,
    };
    let Some((last, others)) = replies.split_last() else {
        let gap = Gap { expected: "a reply".to_owned(), observed: "none".to_owned() };
        return wanted.map(|_| failure(gap)).into_iter().collect();
    };
    let success = ReplyPattern::default();
    let mut failures: Vec<_> =
        others.iter().filter_map(|reply| answer(&success, reply, run, world).err()).map(failure).collect();
    failures.extend(answer(wanted.unwrap_or(&success), last, run, world).err().map(failure));
    failures
}

fn answer(
    wanted: &ReplyPattern,
    reply: &super::run::StepReply,
    run: &Run<'_>,
    world: &ObjectStates,
) -> Result<(), Gap> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let reason = text(&reply.body["reason"]);
    let message = text(&reply.body["message"]);
    let causes = reply.body["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let retry_after = reply.body["details"]["retryAfterSeconds"].as_u64();
    let only_success = *wanted == ReplyPattern::default();
    let mut expected = Vec::new();
    let mut good = true;
    let mut demand = |text: String, holds: bool| {
        expected.push(text);
        good &= holds;
    };
    match wanted.code {
        Some(code) => demand(code.to_string(), reply.code == code),
        None if only_success => demand("success".to_owned(), (200..300).contains(&reply.code)),
        None => {}
    }
    if let Some(wanted) = &wanted.reason {
        demand(format!("reason {wanted}"), *wanted == reason);
    }
    if let Some(wanted) = &wanted.message {
        demand(format!("message {wanted:?}"), text_matches(wanted, &message));
    }
    if let Some(wanted) = &wanted.cause {
        demand(
            format!("a cause like {wanted:?}"),
            causes.iter().any(|cause| text_matches(wanted, &text(&cause["message"]))),
        );
    }
    if let Some(wanted) = &wanted.cause_reason {
        demand(format!("a cause with reason {wanted}"), causes.iter().any(|cause| text(&cause["reason"]) == *wanted));
    }
    if let Some(wanted) = wanted.retry_after {
        let agree = retry_after == Some(u64::from(wanted)) && reply.retry_after.is_none_or(|header| header == wanted);
        demand(format!("retry after {wanted} s"), agree);
    }
    if let Some(pattern) = &wanted.body {
        let uid = |name: &str| world.uid(name);
        let result = matching::matches(
            pattern,
            Some(&reply.body),
            MatchContext { start: run.start, tolerance: run.tolerance, uid: &uid },
        );
        demand(result.as_ref().err().map_or_else(|| "the body".to_owned(), ToString::to_string), result.is_ok());
    }
    if good {
        return Ok(());
    }
    let mut observed = format!("{} {reason}: {message}", reply.code);
    for cause in causes {
        observed = format!("{observed} [{}: {}]", text(&cause["reason"]), text(&cause["message"]));
    }
    if let Some(seconds) = retry_after.or(reply.retry_after.map(u64::from)) {
        observed = format!("{observed} (retry after {seconds} s)");
    }
    Err(Gap { expected: expected.join(", "), observed })
}
