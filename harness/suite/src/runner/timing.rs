//! The time of a fixture: exact in virtual time, as exact as a busy machine allows on the wall clock.
//!
//! On the wall clock it is not observable when everything is idle. Instead, [`calm`] waits for a short time without an
//! entry in the transcript; steps wait for the expected state, within the fixture's tolerance; and trailing windows, in
//! which nothing more should happen, are cut short.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::fixture::{Controller, Fixture, Step};
use plumbline::time::Clock;
use plumbline::transcript::{Actor, Attributed as _, EntryKind, RecordedRequest, Transcript, TranscriptEntry};

use super::drive::RunContext;
use crate::cluster::ClusterTime;

/// Time without an entry after which the cluster counts as quiet, and the maximum time to wait for that.
const CALM: Duration = Duration::from_millis(120);
const CALM_LIMIT: Duration = Duration::from_secs(3);
/// Time given to a subject to request everything, from its first read until its reads are answered. A subject that
/// reads one resource after another requests no more until the first read is answered.
pub(super) const READERS_LIMIT: Duration = Duration::from_secs(2);
/// Interval at which to check whether a subject has died, and for state that leaves no entry.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Entries within this time are evaluated together.
pub(super) const BURST: Duration = Duration::from_millis(20);
/// Delay of a reaction that is allowed to programs in virtual time: client-go looks only so often whether its informers
/// have their objects (`syncedPollPeriod` of `tools/cache/shared_informer.go`). After a restart its controllers begin
/// to work that much later, and what they do at intervals stays late by as much.
const SYNCED_POLL: Duration = Duration::from_millis(100);
/// Length to which trailing windows are cut.
pub(super) const TAIL: Duration = Duration::from_secs(3);

/// The kind of time a fixture runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeMode {
    /// Time advances only when all tasks wait.
    Virtual,
    /// The wall clock, of this process as of the subject, advances only when all programs wait.
    Traced {
        /// Additional delay allowed for reactions.
        late: Duration,
    },
    /// Real time, or virtual time beside a server that needs some of it.
    Wall {
        /// Allowed deviation of times.
        tolerance: Duration,
        /// Additional delay allowed for reactions.
        late: Duration,
    },
}

impl TimeMode {
    pub(super) fn new(fixture: &Fixture, context: &RunContext<'_>) -> Self {
        match context.cluster.time() {
            ClusterTime::Virtual => Self::Virtual,
            ClusterTime::Traced if context.cluster.is_exact() => Self::Traced { late: fixture.late + SYNCED_POLL },
            ClusterTime::Traced | ClusterTime::Wall => Self::Wall { tolerance: fixture.tolerance, late: fixture.late },
        }
    }

    pub(super) const fn tolerance(self) -> Duration {
        match self {
            Self::Virtual | Self::Traced { .. } => Duration::ZERO,
            Self::Wall { tolerance, .. } => tolerance,
        }
    }

    /// Returns the additional delay allowed for reactions.
    pub(super) const fn late(self) -> Duration {
        match self {
            Self::Virtual => Duration::ZERO,
            Self::Traced { late } | Self::Wall { late, .. } => late,
        }
    }

    /// Returns the time to wait for checks that do not hold yet; `None` if they are judged at their time.
    pub(super) fn patience(self) -> Option<Duration> {
        match self {
            Self::Virtual => None,
            Self::Traced { late } => Some(late),
            Self::Wall { tolerance, late } => Some(tolerance + late),
        }
    }

    /// Returns true if the subject has threads that race, and its record of watch events is complete.
    pub(super) const fn races(self) -> bool {
        matches!(self, Self::Traced { .. })
    }

    /// Returns true if time advances only when nothing is left to do.
    pub(super) const fn is_exact(self) -> bool {
        matches!(self, Self::Virtual | Self::Traced { .. })
    }

    /// Returns the end of each step.
    pub(super) fn ends(self, fixture: &Fixture) -> Vec<Duration> {
        match self {
            Self::Virtual | Self::Traced { .. } => fixture.steps.iter().map(Step::end).collect(),
            Self::Wall { .. } => fixture.wall_ends(TAIL),
        }
    }
}

/// Waits until nothing new was recorded for a short time, or until a limit. Reads that repeat earlier ones are nothing
/// new: a subject may poll instead of watching.
pub(super) async fn wait_until_quiet(transcript: &Transcript, clock: &Clock) {
    let limit = clock.elapsed() + CALM_LIMIT;
    let mut activity = Activity::default();
    transcript.with(|entries| activity.observe(entries));
    let mut active_at = clock.elapsed();
    loop {
        let changed = transcript.changed();
        let left = (active_at + CALM).min(limit).saturating_sub(clock.elapsed());
        if left.is_zero() || clock.timeout(left, changed).await.is_none() {
            return;
        }
        if transcript.with(|entries| activity.observe(entries)) {
            active_at = clock.elapsed();
        }
    }
}

/// Distinguishes activity from polling while a transcript grows.
#[derive(Debug, Default)]
struct Activity {
    /// Number of entries observed so far.
    observed: usize,
    /// Verb and path of all reads so far.
    reads: BTreeSet<(String, String)>,
    /// Indices of requests without a reply that do not repeat an earlier read.
    pending: Vec<usize>,
}

impl Activity {
    /// Returns true if, since the last call, anything was recorded but repeated reads and their replies.
    fn observe(&mut self, entries: &[TranscriptEntry]) -> bool {
        let pending = self.pending.len();
        self.pending.retain(|index| entries.get(*index).is_some_and(is_pending));
        let mut active = self.pending.len() < pending;
        for (index, entry) in entries.iter().enumerate().skip(self.observed) {
            if !self.is_repeated(entry) {
                active = true;
                self.pending.extend(is_pending(entry).then_some(index));
            }
        }
        self.observed = entries.len();
        active
    }

    fn is_repeated(&mut self, entry: &TranscriptEntry) -> bool {
        let EntryKind::Request(exchange) = &entry.what else { return false };
        let request = &exchange.request;
        !request.is_write() && !self.reads.insert((request.verb.clone(), request.path.clone()))
    }
}

/// Returns true for a request without a reply.
fn is_pending(entry: &TranscriptEntry) -> bool {
    matches!(&entry.what, EntryKind::Request(exchange) if exchange.reply.is_none())
}

/// Returns true for the requests with which an informer starts.
fn is_informer(request: &RecordedRequest) -> bool {
    request.name.is_none() && matches!(request.verb.as_str(), "list" | "watch")
}

/// Returns true if any informer has started to read.
pub(super) fn has_reads(entries: &[TranscriptEntry]) -> bool {
    plumbline::expect::requests(entries).any(|(_, exchange)| is_informer(&exchange.request))
}

/// Returns the resources that the fixture's controllers need, with the time of the first informer request for each.
fn first_requests(fixture: &Fixture, entries: &[TranscriptEntry]) -> BTreeMap<&'static str, Option<Duration>> {
    let wanted = fixture.controllers.iter().flat_map(|controller| watched(*controller));
    let mut asked: BTreeMap<&str, Option<Duration>> = wanted.map(|resource| (*resource, None)).collect();
    for (entry, exchange) in plumbline::expect::requests(entries) {
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

/// Returns the user agents of the subject's clients that read what its controllers need and name no controller. With
/// one controller under test there are none.
pub(super) fn unnamed_agents(fixture: &Fixture, entries: &[TranscriptEntry]) -> BTreeSet<String> {
    let wanted: BTreeSet<&str> =
        fixture.controllers.iter().flat_map(|controller| watched(*controller)).copied().collect();
    plumbline::expect::requests(entries)
        .filter(|(entry, _)| matches!(entry.actor(), Actor::Bystander(_)))
        .filter(|(_, exchange)| is_informer(&exchange.request) && wanted.contains(exchange.request.resource.as_str()))
        .filter_map(|(entry, _)| entry.origin.user_agent().map(str::to_owned))
        .collect()
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

#[cfg(test)]
mod tests {
    use plumbline::transcript::{Origin, RecordedReply};

    use super::*;

    fn read(transcript: &Transcript, verb: &str, path: &str) -> usize {
        let request = RecordedRequest { verb: verb.to_owned(), path: path.to_owned(), ..RecordedRequest::default() };
        transcript.request(Duration::ZERO, Origin::client("x", ""), request)
    }

    #[test]
    fn repeated_reads_are_no_activity() {
        let transcript = Transcript::new();
        let mut activity = Activity::default();
        let mut observe = || transcript.with(|entries| activity.observe(entries));
        assert!(!observe(), "nothing happened");
        let first = read(&transcript, "list", "/api/v1/nodes");
        assert!(observe(), "a first read");
        transcript.reply(first, RecordedReply::new(Duration::ZERO, 200));
        assert!(observe(), "the reply to a first read");
        let second = read(&transcript, "list", "/api/v1/nodes");
        assert!(!observe(), "the same read again");
        transcript.reply(second, RecordedReply::new(Duration::ZERO, 200));
        assert!(!observe(), "and its reply");
        let write = read(&transcript, "patch", "/api/v1/nodes/a");
        assert!(observe(), "a write");
        transcript.reply(write, RecordedReply::new(Duration::ZERO, 200));
        read(&transcript, "list", "/api/v1/nodes");
        assert!(observe(), "a reply to the write, beside a repeated read");
        read(&transcript, "patch", "/api/v1/nodes/a");
        assert!(observe(), "writes count each time");
    }
}
