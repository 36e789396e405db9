//! Disturbances of the subject's work, from the record of a run: requests that failed or were answered late, news that
//! came late, and starts. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::requests;
use plumbline::expect::world::Key;
use plumbline::explore::entries::{is_start, is_stop};
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

/// Returns true if controllers had their first lists after their start: they never saw what was there in between.
pub(super) fn begins_late(explored: ExploredRun<'_>) -> bool {
    let begin = |started: usize| if started == 0 { Duration::ZERO } else { explored.entries[started].at };
    explored.knowledge.replicas().into_iter().any(|replica| {
        let mut starts = explored.knowledge.first_lists(replica).into_iter();
        starts.any(|(started, done)| done.is_some_and(|done| done > begin(started)))
    })
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
    entries.iter().any(|entry| (is_start(entry) || is_stop(entry)) && period.contains(&entry.at))
}

/// Returns true if the history stops the controllers for good with work to do: before all their informers have had a
/// first list, while a request other than about Events has no reply, or in an instant with news.
pub(super) fn ends_at_work(explored: ExploredRun<'_>) -> bool {
    let entries = explored.until_quiet();
    let started = entries.iter().rposition(is_start).unwrap_or_default();
    let Some(stop) = entries[started..].iter().find(|entry| is_stop(entry)) else { return false };
    let lists = explored.knowledge.first_lists(None);
    let last = lists.into_iter().rfind(|(started, _)| *started <= stop.seq);
    let is_informed = last.is_some_and(|(_, informed)| informed.is_some_and(|at| at < stop.at));
    let is_open = |(entry, exchange): (&TranscriptEntry, &Exchange)| {
        let is_work = exchange.request.verb != "watch" && exchange.request.resource != "events";
        let has_reply = exchange.reply.as_ref().is_some_and(|reply| reply.at < stop.at);
        entry.actor().is_subject() && is_work && !has_reply
    };
    let has_news = explored.knowledge.sightings_between(stop.at, stop.at) > 0;
    !is_informed || has_news || requests(&entries[started..stop.seq]).any(is_open)
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::by_object::{STARTS, STOPPED, STOPS};
    use plumbline::transcript::{RecordedRequest, Transcript};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::explore::judge::testing::{History, exchange, judged_by};

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
    #[case::at_once(0, false)]
    #[case::late(40, true)]
    fn controllers_may_begin_late(#[case] listed: u64, #[case] expected: bool) {
        let transcript = Transcript::new();
        let request =
            RecordedRequest { verb: "list".to_owned(), resource: "nodes".to_owned(), ..RecordedRequest::default() };
        let reply = RecordedReply { revision: Some(1), ..RecordedReply::new(Duration::from_secs(listed), 200) };
        exchange(&transcript, Duration::ZERO, "shared-informers", request, reply);
        let is_late = judged_by("ttl", &transcript, vec![node()], |_, _, explored| begins_late(explored));
        assert_eq!(is_late, expected);
    }

    #[rstest]
    #[case::while_it_waits_to_send_again(12, true)]
    #[case::before_the_failure(9, false)]
    #[case::after_the_last_try(133, false)]
    fn an_end_may_lose_events(#[case] at: u64, #[case] lost: bool, #[values(STARTS, STOPS, STOPPED)] ends: &str) {
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
        let note = || transcript.note(Duration::from_secs(at), ends);
        if at < 10 {
            note();
        }
        request(10);
        if at >= 10 {
            note();
        }
        assert_eq!(lost_with_memory(&transcript.entries()), lost);
    }

    /// The list of nodes has its reply at `listed`, the controllers are asked to stop at 5 s, and may start again.
    /// A write begins at 3 s and has its reply at `written`.
    #[rstest]
    #[case::in_time(2, 4, false, false)]
    #[case::listed_too_late(6, 4, false, true)]
    #[case::written_too_late(2, 6, false, true)]
    #[case::they_start_again(6, 6, true, false)]
    fn controllers_may_end_at_work(
        #[case] listed: u64,
        #[case] written: u64,
        #[case] starts: bool,
        #[case] found: bool,
    ) {
        let transcript = Transcript::new();
        let secs = Duration::from_secs;
        let list = |at: u64, listed: u64| {
            let request =
                RecordedRequest { verb: "list".to_owned(), resource: "nodes".to_owned(), ..RecordedRequest::default() };
            let reply = RecordedReply { revision: Some(1), ..RecordedReply::new(secs(listed), 200) };
            exchange(&transcript, secs(at), "shared-informers", request, reply);
        };
        list(0, listed);
        let update =
            RecordedRequest { verb: "update".to_owned(), resource: "nodes".to_owned(), ..RecordedRequest::default() };
        exchange(&transcript, secs(3), "ttl-controller", update, RecordedReply::new(secs(written), 200));
        transcript.note(secs(5), STOPS);
        transcript.note(secs(7), STOPPED);
        if starts {
            transcript.note(secs(9), STARTS);
            list(9, 9);
        }
        let at_work = judged_by("ttl", &transcript, Vec::new(), |_, _, explored| ends_at_work(explored));
        assert_eq!(at_work, found);
    }
}
