//! Runs fixtures: each in its own sandbox, in the cluster's time, on its own thread.
//!
//! - [`suite`]: a whole plan, several fixtures at a time, with events for reporters
//! - [`guests`]: processes that run fixtures in virtual time
//! - [`isolate`]: threads, panics, hangs
//! - [`repeat`]: the same fixtures many times, until something differs
//! - [`drive`]: one fixture from seed to end · [`next`]: shortened runs · `timing`: virtual and wall time
//! - `monitor`: load of the machine during a fixture · `starts`: the number of subjects that start at the same time
//! - [`calls`]: requests of the steps · `storm`: programs that request without an end
//! - [`error`]: reasons why a run ended early · [`verdict`]: from the record to a report · [`log`]: the subject's log
//!
//! Order of events at a time T: tasks with a timer due at T run until they are idle, then the steps at T run in the
//! order of the file, each until everything is idle, then time advances. Results do not depend on the number of
//! parallel fixtures.

pub mod calls;
pub mod drive;
pub mod error;
pub mod guests;
pub mod isolate;
pub mod log;
mod monitor;
pub mod next;
pub mod repeat;
mod starts;
mod storm;
pub mod suite;
mod timing;
pub mod verdict;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

pub use error::{RunError, StartUpError};
pub use starts::StartLimit;

use plumbline::expect::{Run, StepReply};
use plumbline::transcript::{Delivery, RecordedJson, Transcript, TranscriptEntry};

use crate::load::{RunLoad, StartCost};
use crate::subject::BystanderWrites;

/// Records a run while it goes on, so that the record survives a panic or a hang of the fixture.
#[derive(Clone, Debug, Default)]
pub struct RunRecorder {
    inner: Arc<Mutex<RunRecord>>,
}

/// The content of [`RunRecorder`].
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// The time at `t=+0s`.
    pub start: Timestamp,
    /// The server's transcript.
    pub transcript: Transcript,
    /// All objects before the controllers started.
    pub initial: Arc<[RecordedJson]>,
    /// Replies to the steps' requests.
    pub replies: Vec<StepReply>,
    /// Length of the transcript after each step, when everything was idle.
    pub marks: Vec<usize>,
    /// The subject's metrics and the times at which they were read.
    pub scrapes: Vec<(Duration, String)>,
    /// The subject's warnings.
    pub log: Vec<String>,
    /// Elapsed time, virtual or real.
    pub end: Duration,
    /// Allowed deviation of times; zero in virtual time.
    pub tolerance: Duration,
    /// The reason why the environment cannot run this fixture, found during the run; the fixture counts as skipped.
    pub skip: Option<String>,
    /// Additional delay allowed for reactions; zero in virtual time.
    pub late: Duration,
    /// The watch events of a finished run whose subject's threads race.
    pub deliveries: Option<Arc<[Delivery]>>,
    /// Faults that affected no request, in virtual time: such a fixture would pass without them. On the wall clock
    /// another subject may not make the request that our controllers make.
    pub idle_faults: Vec<String>,
    /// Treatment of writes by clients of the subject that are none of the controllers under test.
    pub bystander_writes: BystanderWrites,
    /// Sentences about requests that only a subject makes that knows of the test.
    pub misuse: BTreeSet<String>,
    /// Load of the machine, on the wall clock.
    pub load: RunLoad,
    /// Cost of the first start, on the wall clock.
    pub start_cost: Option<StartCost>,
    /// Wall time that the fixture waited for other fixtures.
    pub queued: Duration,
    /// Number of permits to start that the fixture's thread holds.
    pub permits: usize,
    /// Length of the transcript when a program started; 0 for controllers under test.
    pub begin: usize,
    /// The times at which a program ended by itself.
    pub exits: Vec<ProgramExit>,
    /// Reasons why the run was interrupted or cannot be trusted.
    pub errors: Vec<Arc<RunError>>,
}

/// The end of a program by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramExit {
    /// Its time.
    pub at: Duration,
    /// The exit code or signal, with the end of its log.
    pub reason: String,
    /// The last lines of its output.
    pub log: Vec<String>,
}

impl RunRecord {
    /// Returns everything that judging needs. `entries` are the transcript's entries, `end` is the end of the run.
    #[must_use]
    pub fn run<'a>(&'a self, entries: &'a [TranscriptEntry], end: Duration) -> Run<'a> {
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
            deliveries: self.deliveries.as_deref(),
        }
    }
}

impl RunRecorder {
    /// Updates the record.
    pub fn update<T>(&self, change: impl FnOnce(&mut RunRecord) -> T) -> T {
        change(&mut self.inner.lock())
    }

    /// Records an error of the run.
    pub fn fail(&self, error: RunError) {
        self.update(|record| record.errors.push(Arc::new(error)));
    }

    /// Returns a copy of the record so far.
    #[must_use]
    pub fn record(&self) -> RunRecord {
        self.update(|record| record.clone())
    }
}
