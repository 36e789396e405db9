//! Disturbances of the subject's work, from the record of a run: requests that failed or were answered late, news that
//! came late, and starts. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::requests;
use plumbline::expect::world::Key;
use plumbline::explore::entries::is_start;
use plumbline::rules::queue::backoff;
use plumbline::rules::recorder::SENDING;
use plumbline::transcript::{Actor, Attributed as _, Exchange, RecordedReply, TranscriptEntry};

use super::known::clock_steps;
use crate::explore::run::explored::ExploredRun;
use crate::explore::run::observation::RequestKey;

/// The disturbances of a run.
#[derive(Debug, Default)]
pub(super) struct Disturbances {
    /// The end of the last one.
    pub(super) until: Duration,
    /// Their number; news that come late together are one.
    pub(super) count: u32,
    /// Number of those that are writes which met another write: in another order of the same requests there are others.
    pub(super) conflicts: u32,
    /// Number of starts after the first.
    pub(super) starts: u32,
    /// True if an informer showed a change late.
    pub(super) late_news: bool,
    /// True if all of them are requests about Events.
    pub(super) only_events: bool,
    /// The largest step of the controllers' wall clock: until it is right again, times in objects seem to be in the
    /// future.
    pub(super) clock: Duration,
    /// Number of failed requests by controller, resource and name.
    failures: BTreeMap<(Actor, String, String), u32>,
}

impl Disturbances {
    /// Reads the disturbances until the quiet window ends.
    pub(super) fn of(explored: ExploredRun<'_>) -> Self {
        let entries = explored.until_quiet();
        let mut found = Self { only_events: true, ..Self::default() };
        for (entry, exchange) in requests(entries).filter(|(entry, _)| entry.actor().is_subject()) {
            let is_prompt = |reply: &RecordedReply| !is_failure(reply) && reply.at == entry.at;
            // Watches last until they end.
            if exchange.reply.as_ref().is_some_and(is_prompt) || is_open_watch(exchange) {
                continue;
            }
            let end = exchange.reply.as_ref().map_or(entry.at, |reply| reply.at);
            found.note(end, exchange.request.resource == "events");
            let is_conflict = |reply: &RecordedReply| reply.status == 409 && !reply.lost && reply.at == entry.at;
            found.conflicts += u32::from(exchange.reply.as_ref().is_some_and(is_conflict));
            if exchange.reply.as_ref().is_none_or(is_failure) {
                let name = exchange.request.name.clone().unwrap_or_default();
                *found.failures.entry((entry.actor(), exchange.request.resource.clone(), name)).or_default() += 1;
            }
        }
        for start in entries.iter().filter(|entry| is_start(entry)) {
            found.starts += 1;
            found.note(start.at, false);
        }
        found.clock = clock_steps(entries).map(|(_, offset)| offset.unsigned_abs()).max().unwrap_or_default();
        for at in explored.knowledge.late_news(|_| true) {
            if !found.late_news || at > found.until {
                found.note(at, false);
            }
            found.late_news = true;
        }
        found
    }

    fn note(&mut self, at: Duration, about_events: bool) {
        self.until = self.until.max(at);
        self.count += 1;
        self.only_events &= about_events;
    }

    /// Returns the longest back-off of a write's key after its failures. The sync of a budget asks for other objects,
    /// and follows what the other controllers do late.
    pub(super) fn backoff(&self, key: &RequestKey) -> Duration {
        let resource = key.resource.split('/').next().unwrap_or_default();
        let concerns = |(actor, of, name): &(Actor, String, String)| {
            key.actor == Actor::Disruption || *actor == key.actor && of == resource && *name == key.name
        };
        let failures: u32 = self.failures.iter().filter(|(of, _)| concerns(of)).map(|(_, count)| count).sum();
        failures.checked_sub(1).map_or(Duration::ZERO, backoff)
    }
}

/// Returns true if a reply tells of a failure. An object that is gone is none.
fn is_failure(reply: &RecordedReply) -> bool {
    reply.lost || reply.status >= 400 && reply.status != 404
}

fn is_open_watch(exchange: &Exchange) -> bool {
    exchange.request.verb == "watch" && exchange.reply.is_none()
}

/// Returns true if nothing disturbs the run.
pub(super) fn is_calm(explored: ExploredRun<'_>) -> bool {
    let disturbances = Disturbances::of(explored);
    disturbances.count == 0 && disturbances.clock.is_zero()
}

/// Returns true if an informer showed a change of such an object late.
pub(super) fn is_seen_late(explored: ExploredRun<'_>, is_meant: impl Fn(&Key) -> bool) -> bool {
    explored.knowledge.late_news(is_meant).next().is_some()
}

/// Returns true if controllers ended while their recorder may have had an Event to send once more: it keeps Events in
/// memory, so these are lost with it, as in client-go.
pub(super) fn lost_with_memory(entries: &[TranscriptEntry]) -> bool {
    let failed = requests(entries).filter(|(entry, exchange)| {
        exchange.request.resource == "events"
            && entry.actor().is_subject()
            && exchange.reply.as_ref().is_none_or(is_failure)
    });
    let times: Vec<Duration> = failed.map(|(entry, _)| entry.at).collect();
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return false };
    let period = *first..=last.saturating_add(SENDING);
    entries.iter().any(|entry| is_start(entry) && period.contains(&entry.at))
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::by_object::STARTS;
    use plumbline::transcript::{RecordedRequest, Transcript};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::explore::judge::testing::{History, exchange};

    fn node() -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
    }

    #[test]
    fn the_record_shows_what_disturbed_the_controllers() {
        let mut history = History::new(&[node()]);
        history.fails(5, Actor::Ttl, "patch nodes/a", 500);
        history.fails(6, Actor::Ttl, "get nodes/a", 404);
        history.asks(10, Actor::Ttl, "patch nodes/a", 3);
        history.happens_unseen(20, "nodes/a", Some(node()));
        history.informs(25, "nodes/a");
        history.starts(30);
        let found = history.judged("ttl", |_, _, explored| Disturbances::of(explored));
        assert_eq!((found.count, found.starts, found.late_news), (4, 1, true), "{found:?}");
        assert_eq!(found.until, Duration::from_secs(30));
        assert!(!found.only_events);
    }

    #[rstest]
    #[case::while_it_waits_to_send_again(12, true)]
    #[case::before_the_failure(9, false)]
    #[case::after_the_last_try(133, false)]
    fn a_restart_may_lose_events(#[case] at: u64, #[case] lost: bool) {
        let transcript = Transcript::new();
        let request = |at: u64| {
            let create = RecordedRequest {
                verb: "create".to_owned(),
                resource: "events".to_owned(),
                ..RecordedRequest::default()
            };
            let reply = RecordedReply { lost: true, ..RecordedReply::new(Duration::from_secs(at), 201) };
            exchange(&transcript, Duration::from_secs(at), "ttl-controller", create, reply);
        };
        let note = || transcript.note(Duration::from_secs(at), STARTS);
        if at < 10 {
            note();
        }
        request(10);
        if at >= 10 {
            note();
        }
        assert_eq!(lost_with_memory(&transcript.entries()), lost);
    }
}
