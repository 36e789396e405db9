//! Runs fixtures: each on a stage of its own, in the cluster's time, on a thread of its own.
//!
//! - [`suite`]: a whole plan, side by side, with events for reporters · [`isolate`]: threads, panics, hangs
//! - [`repeat`]: the same many times, until something differs
//! - [`drive`]: one fixture from seed to end · `pace`: how time passes meanwhile · [`calls`], [`faults`]: what its steps do
//! - [`verdict`]: from the evidence to a report · [`log`]: what the subject said
//!
//! Order of things at a moment T: tasks whose timer is due at T run and come to rest, then the steps at T are done in the
//! order of the file with a rest after each, then time moves. Results do not depend on how many fixtures run side by side.

pub mod calls;
pub mod drive;
pub mod faults;
pub mod isolate;
pub mod log;
mod pace;
pub mod repeat;
pub mod suite;
pub mod verdict;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::expect::{Run, StepReply};
use crate::transcript::{Entry, Transcript};

/// What a run leaves behind, gathered while it goes on: it survives a panic or a hang of the fixture.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    inner: Arc<Mutex<Gathered>>,
}

/// The content of [`Evidence`].
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// The time at `t=+0s`.
    pub start: Timestamp,
    /// The record of the server.
    pub transcript: Transcript,
    /// All objects before the controllers started.
    pub initial: Arc<[Arc<Value>]>,
    /// Answers to the steps' requests.
    pub replies: Vec<StepReply>,
    /// Length of the transcript when the world had come to rest after each step.
    pub marks: Vec<usize>,
    /// The subject's metrics, and when.
    pub scrapes: Vec<(Duration, String)>,
    /// Warnings of the subject.
    pub log: Vec<String>,
    /// Time that passed, virtual or not.
    pub end: Duration,
    /// How far off times may be: nothing in virtual time.
    pub tolerance: Duration,
    /// Why the place cannot show this fixture, as came to light in the run; it counts as skipped.
    pub skip: Option<String>,
    /// How much later still reactions may come: nothing in virtual time.
    pub late: Duration,
    /// Faults that hit nothing, in virtual time: what the fixture says then, it says without them. On the wall clock a subject
    /// may do without a request that ours makes.
    pub idle_faults: Vec<String>,
    /// Why the run was broken off or is not to be trusted.
    pub troubles: Vec<String>,
}

impl Gathered {
    /// All that judging needs. `entries` are the transcript's, which was left at `end`.
    #[must_use]
    pub fn run<'a>(&'a self, entries: &'a [Entry], end: Duration) -> Run<'a> {
        Run {
            start: self.start,
            initial: &self.initial,
            entries,
            marks: &self.marks,
            replies: &self.replies,
            scrapes: &self.scrapes,
            end,
            tolerance: self.tolerance,
            late: self.late,
        }
    }
}

impl Evidence {
    /// Changes what was gathered.
    pub fn update<T>(&self, change: impl FnOnce(&mut Gathered) -> T) -> T {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A copy of what was gathered so far.
    #[must_use]
    pub fn gathered(&self) -> Gathered {
        self.update(|gathered| gathered.clone())
    }
}
