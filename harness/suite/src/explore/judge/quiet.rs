//! Oracle `quiet`: converged controllers do not write. Pure.

use plumbline::expect::requests;
use plumbline::explore::breach::{Breach, QUIET, converged_text};
use plumbline::explore::entries::has_failed;
use plumbline::transcript::{Exchange, TranscriptEntry};

use super::backoff::is_backed_off;
use super::breaches::of_write;
use super::disturbances::Disturbances;
use super::held::is_held;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};
use crate::explore::run::observation::{SubjectWrite, subject_write};

fn breach(write: &SubjectWrite) -> Breach {
    of_write(QUIET, write, converged_text(&write.text))
}

/// Returns the first write of converged controllers in a run with faults, if there is none without.
pub(super) fn writes(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    if explored.observation.late.is_empty() {
        return Vec::new();
    }
    let disturbances = Disturbances::of(explored);
    let waits = |write: &SubjectWrite| {
        is_held(explored, write)
            || is_repeated(explored, write)
            || is_backed_off(explored, &disturbances, &write.key, write.at)
    };
    let mut late = explored.observation.late.iter().filter(|_| reference.observation.late.is_empty());
    late.find(|write| !waits(write)).map(breach).into_iter().collect()
}

/// Returns the first write of converged controllers in a run without faults.
pub(super) fn calm_write(explored: ExploredRun<'_>) -> Option<Breach> {
    let waits = |write: &SubjectWrite| is_held(explored, write) || is_repeated(explored, write);
    explored.observation.late.iter().find(|write| !waits(write)).map(breach)
}

/// Returns true if the server refuses the write, or refused it before: a refused write is repeated.
fn is_repeated(explored: ExploredRun<'_>, write: &SubjectWrite) -> bool {
    let is_same = |(entry, _): &(&TranscriptEntry, &Exchange)| subject_write(entry).as_ref() == Some(&write.key);
    let until = write.seq.saturating_add(1).min(explored.entries.len());
    let mut last = requests(&explored.entries[..until]).rev().filter(is_same).take(2);
    last.any(|(_, exchange)| has_failed(exchange))
}
