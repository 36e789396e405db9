//! Runs scripts, and compares the transcripts of two runs.

use plumbline::transcript::TranscriptEntry;
use plumbline::transcript::render::{render, to_text};

use super::script::Script;
use crate::runner::drive::{self, RunContext};
use crate::runner::isolate::JobTimer;
use crate::runner::next::NextStep;
use crate::runner::suite::TestBed;
use crate::runner::{RunError, RunRecord, RunRecorder, StartLimit};

/// Runs `script` and returns its record.
#[must_use]
pub fn execute(test_bed: &TestBed, script: &Script) -> RunRecord {
    execute_until(test_bed, script, |_| false)
}

/// Runs `script` until `is_over` returns true at the end of the quiet window, and returns its record.
pub fn execute_until(test_bed: &TestBed, script: &Script, is_over: impl Fn(&RunRecord) -> bool) -> RunRecord {
    let recorder = RunRecorder::default();
    let starts = StartLimit::new(1);
    let timer = JobTimer::default();
    let until = |step: usize| {
        let is_over = step == script.quiet && recorder.update(|record| is_over(record));
        if is_over { NextStep::None } else { NextStep::AT_ITS_TIME }
    };
    let context = RunContext {
        cluster: &*test_bed.cluster,
        subject: &*test_bed.subject,
        starts: &starts,
        timer: &timer,
        until: Some(&until),
    };
    if let Err(error) = drive::run(&script.fixture, context, &recorder) {
        recorder.fail(RunError::Runtime(error));
    }
    recorder.record()
}

/// The first difference between two runs of the same plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the first run has `{first}`, the second `{second}`")]
pub struct Divergence {
    first: String,
    second: String,
}

/// Returns the first line in which the transcripts of two runs differ.
#[must_use]
pub fn first_divergence(one: &RunRecord, other: &RunRecord) -> Option<Divergence> {
    let text = |record: &RunRecord| {
        record.transcript.with(|entries: &[TranscriptEntry]| to_text(&render(record.start, &record.initial, entries)))
    };
    let one = text(one);
    let other = text(other);
    if one == other {
        return None;
    }
    let mut was = one.lines();
    let mut is = other.lines();
    let mut pairs = std::iter::from_fn(|| Some((was.next(), is.next())));
    let (was, is) = pairs.find(|(was, is)| was != is || was.is_none()).unwrap_or_default();
    let line = |line: Option<&str>| line.unwrap_or("(end)").trim().to_owned();
    Some(Divergence { first: line(was), second: line(is) })
}
