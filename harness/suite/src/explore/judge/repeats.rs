//! Oracle `repeats`: an Event is counted once for each change. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::requests;
use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::has_failed;
use plumbline::fixture::Fixture;
use plumbline::rules::recorder::{SENDING, SPAM_BURST, count_of, event_of};
use plumbline::transcript::{Attributed as _, EntryKind, TranscriptEntry};
use serde_json::Value;

use super::breaches::of_change;
use super::event::loses_events;
use super::known::{begin_of, clock_steps};
use super::leader;
use crate::explore::run::explored::ExploredRun;

/// Returns the first Event that is counted more often in an instant than anything changed, the informers showed, or a
/// request failed. Objects with many Events are left out: those that the recorder's limit holds back are counted with
/// the next one that it sends.
pub(super) fn repeated(_: &Fixture, _: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let entries = explored.until_quiet();
    if loses_events(entries) {
        return Vec::new();
    }
    let waits = waits(explored);
    let leaders = leader::begins(entries);
    // A step of the wall clock takes its claim from a leader until it renews the lease. Its Events wait for that.
    let steps: Vec<Duration> = clock_steps(entries).map(|(seq, _)| entries[seq].at).collect();
    let holds_back = |at: Duration| steps.iter().copied().find(|step| (*step..=*step + SENDING).contains(&at));
    let elects = leader::elects(entries);
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for instant in entries.chunk_by(|one, next| one.at == next.at) {
        let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        // What came up while a controller waited for a reply is handled in the instant of the reply.
        let mut causes = 0;
        if let Some(at) = instant.first().map(|entry| entry.at) {
            let since = waits.get(&at).copied().unwrap_or(at);
            // A new leader handles all that it knows.
            let since = if leaders.contains(&at) { Duration::ZERO } else { since };
            let since = holds_back(at).filter(|_| elects).map_or(since, |step| step.min(since));
            causes += explored.knowledge.sightings_between(since, at);
        }
        for entry in instant {
            causes += i64::from(fails(entry));
            let EntryKind::Change(change) = &entry.what else { continue };
            if change.resource != "events" {
                causes += 1;
            } else if entry.actor().is_subject() {
                let more = change.new.as_deref().map_or(0, count_of) - change.old.as_deref().map_or(0, count_of);
                let namespace = change.namespace.as_deref().unwrap_or_default();
                let total = counts.entry((namespace, &change.name)).or_default();
                *total += more;
                let about = change.new.as_deref().map(event_of).unwrap_or_default().0;
                let sums = sums.entry(about).or_default();
                *sums += more;
                if *total > 1 + causes && *sums <= i64::from(SPAM_BURST) {
                    let reason = change.new.as_deref().map_or(&Value::Null, |event| &event["reason"]);
                    let text = format!("an Event {reason} is counted {total} times at {:?}", entry.at);
                    return vec![of_change("repeats", change, entry.actor().to_string(), entry.at, text)];
                }
            }
        }
    }
    Vec::new()
}

/// Returns the times of requests of the subject and of replies to it, and when the work began that ends then.
fn waits(explored: ExploredRun<'_>) -> BTreeMap<Duration, Duration> {
    let mut waits: BTreeMap<Duration, Duration> = BTreeMap::new();
    for (entry, exchange) in requests(explored.until_quiet()).filter(|(entry, _)| entry.actor().is_subject()) {
        let begin = begin_of(explored.entries, explored.knowledge.window(entry.seq));
        for at in [entry.at].into_iter().chain(exchange.reply.as_ref().map(|reply| reply.at)) {
            waits.entry(at).and_modify(|since| *since = begin.min(*since)).or_insert(begin);
        }
    }
    waits
}

/// Returns true if the entry is a request of the subject that failed.
fn fails(entry: &TranscriptEntry) -> bool {
    match &entry.what {
        EntryKind::Request(exchange) => entry.actor().is_subject() && has_failed(exchange),
        EntryKind::Change(_) | EntryKind::Note(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::Transcript;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::explore::judge::testing::{change, judged_by};

    fn judged(controller: &str, transcript: &Transcript, initial: Vec<Value>) -> Vec<String> {
        judged_by(controller, transcript, initial, |fixture, begin, explored| {
            repeated(fixture, begin, explored).into_iter().map(|breach| breach.fingerprint()).collect()
        })
    }

    #[rstest]
    #[case::once(0, 1, true)]
    #[case::for_each_change(1, 2, true)]
    #[case::too_often(1, 3, false)]
    #[case::held_back_by_the_limit(1, 26, true)]
    fn events_are_counted_once(#[case] causes: usize, #[case] count: i64, #[case] fine: bool) {
        let transcript = Transcript::new();
        for _ in 0..causes {
            change(&transcript, 5, None, "pods", [Some(json!({})), Some(json!({}))]);
        }
        let event = json!({"reason": "UnmanagedPods", "count": count});
        change(&transcript, 5, Some("disruption-controller"), "events", [None, Some(event)]);
        assert_eq!(judged("disruption", &transcript, Vec::new()).is_empty(), fine);
    }
}
