//! How a fixture's time passes: in virtual time to the millisecond, on the wall clock as well as a busy machine can.
//!
//! On the wall clock nothing says exactly when the world has come to rest. What stands in for it: [`calm`], a short while
//! without an entry in the transcript; steps that wait for what they expect, within the fixture's tolerance; and
//! trailing windows, in which nothing more is to happen, that are cut short.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::drive::Place;
use crate::fixture::{Controller, Fixture, Step};
use crate::time::Clock;
use crate::transcript::{Entry, Request, Transcript};

/// Time without an entry after which the world counts as calm, and the longest to wait for that.
const CALM: Duration = Duration::from_millis(120);
const CALM_LIMIT: Duration = Duration::from_secs(3);
/// How long a subject that has begun to read is given to ask for everything, before it is let in: one that reads one thing
/// after another asks for no more until it is.
pub(super) const READERS_LIMIT: Duration = Duration::from_secs(2);
/// How many subjects start at the same time, for each core: programs that start are busy, and those that run beside them late.
const STARTS_PER_CORE: usize = 3;
/// How often to look whether a subject has died, and at what leaves no entry.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Entries that come this close together are looked at once.
pub(super) const BURST: Duration = Duration::from_millis(20);
/// What is left of trailing windows.
pub(super) const TAIL: Duration = Duration::from_secs(3);

/// Permits to start a subject on the wall clock.
pub(super) fn starts() -> Semaphore {
    Semaphore::new(STARTS_PER_CORE * std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// It stands still until everything waits.
    Virtual,
    /// It passes.
    Wall {
        /// How late (or early) things may be.
        tolerance: Duration,
        /// How much later still reactions may come.
        late: Duration,
    },
}

impl Pace {
    pub(super) fn new(fixture: &Fixture, place: &Place<'_>) -> Self {
        if place.cluster.is_virtual() {
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

    /// How much later than that reactions may come.
    pub(super) const fn late(self) -> Duration {
        match self {
            Self::Virtual => Duration::ZERO,
            Self::Wall { late, .. } => late,
        }
    }

    /// When each step is over.
    pub(super) fn ends(self, fixture: &Fixture) -> Vec<Duration> {
        match self {
            Self::Virtual => fixture.steps.iter().map(Step::end).collect(),
            Self::Wall { .. } => fixture.wall_ends(TAIL),
        }
    }
}

/// Waits until nothing was recorded for a while.
pub(super) async fn calm(transcript: &Transcript, clock: &Clock) {
    let limit = clock.elapsed() + CALM_LIMIT;
    loop {
        let news = transcript.news();
        let left = limit.saturating_sub(clock.elapsed()).min(CALM);
        if left.is_zero() || clock.timeout(left, news).await.is_none() {
            return;
        }
    }
}

/// Whether an informer asks so when it begins.
fn is_informer(request: &Request) -> bool {
    request.name.is_none() && matches!(request.verb.as_str(), "list" | "watch")
}

/// Whether anybody reads.
pub(super) fn reads(entries: &[Entry]) -> bool {
    crate::expect::requests(entries).any(|(_, exchange)| is_informer(&exchange.request))
}

/// The resources that the fixture's controllers must know: when each was first asked for in `entries`.
fn asked_for(fixture: &Fixture, entries: &[Entry]) -> BTreeMap<&'static str, Option<Duration>> {
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

/// The resources that the fixture's controllers must know and that nobody has asked for in `entries`.
pub(super) fn not_asked_for(fixture: &Fixture, entries: &[Entry]) -> Vec<&'static str> {
    let asked = asked_for(fixture, entries).into_iter();
    asked.filter(|(_, at)| at.is_none()).map(|(resource, _)| resource).collect()
}

/// When the last of the resources that the fixture's controllers must know was first asked for.
pub(super) fn all_asked_for(fixture: &Fixture, entries: &[Entry]) -> Option<Duration> {
    asked_for(fixture, entries).into_values().flatten().max()
}

/// What a controller cannot do without, however it is made.
const fn watched(controller: Controller) -> &'static [&'static str] {
    match controller {
        Controller::Disruption => &["poddisruptionbudgets", "pods"],
        Controller::PodGc | Controller::TaintEviction => &["nodes", "pods"],
        Controller::Ttl => &["nodes"],
    }
}
