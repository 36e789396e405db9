//! A run to judge, and the run without faults to compare it with. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plumbline::expect::world::ObjectStates;
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::explore::faults::point::FaultPoint;
use plumbline::explore::knowledge::Knowledge;
use plumbline::explore::state::ChangedObjects;
use plumbline::fixture::Fixture;
use plumbline::transcript::TranscriptEntry;

use super::moments::Moment;
use super::observation::Observation;
use crate::runner::RunRecord;

/// The run of a fixture without faults.
#[derive(Debug, Clone)]
pub struct ReferenceRun {
    /// The fixture.
    pub fixture: Arc<Fixture>,
    /// The points at which faults can happen.
    pub points: Vec<FaultPoint>,
    /// The circumstances of each point.
    pub moments: Vec<Moment>,
    /// An upper bound of the number of objects of each resource, see [`populations`](super::moments::populations).
    pub populations: BTreeMap<String, usize>,
    /// The facts of the run.
    pub observation: Observation,
    /// The objects that the run changed, at the end of the quiet window.
    pub objects: ChangedObjects,
    /// True if the subject elects a leader.
    pub elects: bool,
    /// The names of the oracles that the run breaks without any fault.
    pub broken: Vec<String>,
    /// The marks of the run, see [`super::marks`].
    pub marks: BTreeSet<String>,
}

/// A run to judge.
#[derive(Debug, Clone, Copy)]
pub struct ExploredRun<'a> {
    /// The plan.
    pub plan: &'a FaultPlan,
    /// The record of the run.
    pub record: &'a RunRecord,
    /// The objects before its first entry.
    pub begin: &'a ObjectStates,
    /// The entries of its transcript.
    pub entries: &'a [TranscriptEntry],
    /// The facts of the run.
    pub observation: &'a Observation,
    /// The states of objects that the subject could know.
    pub knowledge: &'a Knowledge<'a>,
}

impl<'a> ExploredRun<'a> {
    /// Returns the entries until the quiet window ends.
    #[must_use]
    pub fn until_quiet(&self) -> &'a [TranscriptEntry] {
        self.until(self.observation.quiet_at)
    }

    /// Returns the entries before the entry at `seq`.
    #[must_use]
    pub fn until(&self, seq: usize) -> &'a [TranscriptEntry] {
        &self.entries[..seq.min(self.entries.len())]
    }

    /// Returns the objects as they were before the entry at `seq`.
    #[must_use]
    pub fn objects_before(&self, seq: usize) -> ObjectStates {
        self.begin.clone().after(self.until(seq))
    }
}
