//! The time of a fixture: exact in virtual time, as exact as a busy machine allows on the wall clock.
//!
//! On the wall clock it is not observable when everything is idle. Instead, [`calm`] waits for a short time without an
//! entry in the transcript; steps wait for the expected state, within the fixture's tolerance; and trailing windows, in
//! which nothing more should happen, are cut short.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::drive::RunContext;
use crate::fixture::{Controller, Fixture, Step};
use crate::time::Clock;
use crate::transcript::{RecordedRequest, Transcript, TranscriptEntry};

/// Time without an entry after which the cluster counts as quiet, and the maximum time to wait for that.
const CALM: Duration = Duration::from_millis(120);
const CALM_LIMIT: Duration = Duration::from_secs(3);
/// Time given to a subject to request everything, from its first read until its reads are answered. A subject that
/// reads one resource after another requests no more until the first read is answered.
pub(super) const READERS_LIMIT: Duration = Duration::from_secs(2);
/// Number of subjects that start at the same time, per core: programs that start use the CPU and delay those that run.
const STARTS_PER_CORE: usize = 3;
/// Interval at which to check whether a subject has died, and for state that leaves no entry.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Entries within this time are evaluated together.
pub(super) const BURST: Duration = Duration::from_millis(20);
/// Length to which trailing windows are cut.
pub(super) const TAIL: Duration = Duration::from_secs(3);

/// Creates the semaphore that limits concurrent starts of subjects on the wall clock.
pub(super) fn start_permits() -> Semaphore {
    Semaphore::new(STARTS_PER_CORE * std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// The kind of time a fixture runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeMode {
    /// Time advances only when all tasks wait.
    Virtual,
    /// Real time.
    Wall {
        /// Allowed deviation of times.
        tolerance: Duration,
        /// Additional delay allowed for reactions.
        late: Duration,
    },
}

impl TimeMode {
    pub(super) fn new(fixture: &Fixture, context: &RunContext<'_>) -> Self {
        if context.cluster.is_virtual() {
            Self::Virtual
        } else {
            Self::Wall { tolerance: fixture.tolerance, late: fixture.late }
        }
    }

    pub(super) const fn tolerance(self) -> Duration {
        match self {
            Self::Virtual => Duration::ZERO,
            Self::Wall { tolerance, .. } => tolerance,
        }
    }

    /// Returns the additional delay allowed for reactions.
    pub(super) const fn late(self) -> Duration {
        match self {
            Self::Virtual => Duration::ZERO,
            Self::Wall { late, .. } => late,
        }
    }

    /// Returns the end of each step.
    pub(super) fn ends(self, fixture: &Fixture) -> Vec<Duration> {
        match self {
            Self::Virtual => fixture.steps.iter().map(Step::end).collect(),
            Self::Wall { .. } => fixture.wall_ends(TAIL),
        }
    }
}

/// Waits until nothing was recorded for a short time, or until a limit.
pub(super) async fn wait_until_quiet(transcript: &Transcript, clock: &Clock) {
    let limit = clock.elapsed() + CALM_LIMIT;
    loop {
        let news = transcript.news();
        let left = limit.saturating_sub(clock.elapsed()).min(CALM);
        if left.is_zero() || clock.timeout(left, news).await.is_none() {
            return;
        }
    }
}

/// Returns true for the requests with which an informer starts.
fn is_informer(request: &RecordedRequest) -> bool {
    request.name.is_none() && matches!(request.verb.as_str(), "list" | "watch")
}

/// Returns true if any informer has started to read.
pub(super) fn has_reads(entries: &[TranscriptEntry]) -> bool {
    crate::expect::requests(entries).any(|(_, exchange)| is_informer(&exchange.request))
}

/// Returns the resources that the fixture's controllers need, with the time of the first informer request for each.
fn first_requests(fixture: &Fixture, entries: &[TranscriptEntry]) -> BTreeMap<&'static str, Option<Duration>> {
    let wanted = fixture.controllers.iter().flat_map(|controller| watched(*controller));
    let mut asked: BTreeMap<&str, Option<Duration>> = wanted.map(|resource| (*resource, None)).collect();
    for (entry, exchange) in crate::expect::requests(entries) {
        if is_informer(&exchange.request)
            && let Some(at) = asked.get_mut(exchange.request.resource.as_str())
        {
            at.get_or_insert(entry.at);
        }
    }
    asked
}

/// Returns the resources that the fixture's controllers need and that no informer has requested in `entries`.
pub(super) fn missing_requests(fixture: &Fixture, entries: &[TranscriptEntry]) -> Vec<&'static str> {
    let asked = first_requests(fixture, entries).into_iter();
    asked.filter(|(_, at)| at.is_none()).map(|(resource, _)| resource).collect()
}

/// Returns the time at which the last needed resource was first requested.
pub(super) fn last_first_request(fixture: &Fixture, entries: &[TranscriptEntry]) -> Option<Duration> {
    first_requests(fixture, entries).into_values().flatten().max()
}

/// Returns the resources that every implementation of a controller must watch.
const fn watched(controller: Controller) -> &'static [&'static str] {
    match controller {
        Controller::Disruption => &["poddisruptionbudgets", "pods"],
        Controller::PodGc | Controller::TaintEviction => &["nodes", "pods"],
        Controller::Ttl => &["nodes"],
    }
}
