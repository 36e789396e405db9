//! Oracle `retry`: a failed request is repeated when the work queue hands its key out again, neither sooner nor later.
//! Pure.
//!
//! [`queue`](plumbline::rules::queue) has the delays. Taint eviction tries several times before its key goes to its
//! queue; the retries after that are N-086's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

use plumbline::expect::line;
use plumbline::expect::world::Key;
use plumbline::explore::breach::Breach;
use plumbline::explore::knowledge::{KnownStep, View};
use plumbline::fixture::{Controller, Effect, Fault, Fixture};
use plumbline::rules::queue::{EVICTION_PAUSE, EVICTION_TRIES, TokenBucket, backoff};
use plumbline::transcript::{Actor, Attributed as _, EntryKind, Exchange, TranscriptEntry};
use serde_json::json;

use crate::explore::histories::facts::own_faults;
use crate::explore::run::explored::ExploredRun;

/// Difference of times that count as equal.
const SAME: Duration = Duration::from_millis(1);

/// Returns the first request that repeats a failed one at the wrong time.
pub(super) fn untimely(fixture: &Fixture, explored: ExploredRun<'_>) -> Option<Breach> {
    // The client itself waits as long as the server asks it to.
    let asks_to_wait = |fault: &Fault| matches!(fault.effect, Effect::Reply { retry_after: Some(_), .. });
    let is_judged = !fixture.flags.contains_key("kube-api-qps")
        && !own_faults(fixture).any(asks_to_wait)
        && explored.knowledge.replicas().iter().all(Option::is_none);
    if !is_judged {
        return None;
    }
    let mut policies = fixture.controllers.iter().filter_map(|controller| match controller {
        Controller::Ttl => Some(RetryPolicy { actor: Actor::Ttl, resource: "nodes", tries: 0 }),
        Controller::TaintEviction => {
            Some(RetryPolicy { actor: Actor::TaintEviction, resource: "pods", tries: EVICTION_TRIES - 1 })
        }
        Controller::Disruption | Controller::PodGc => None,
    });
    policies.find_map(|policy| Retries::new(policy).judge(explored))
}

/// The way in which a controller repeats failed requests.
#[derive(Debug, Clone)]
struct RetryPolicy {
    actor: Actor,
    /// The resource of the objects, whose names are the keys.
    resource: &'static str,
    /// Number of failures in a row that are repeated after [`EVICTION_PAUSE`], without the queue.
    tries: u32,
}

/// Namespace and name.
type Name = (String, String);

/// A failed key, or one that has failed.
#[derive(Debug, Clone, Copy, Default)]
struct FailedKey {
    /// Failures in a row; `None` if the queue may have forgotten them in between.
    failures: Option<u32>,
    /// The group of times of which the next request has one, see [`Retries::groups`].
    due: Option<usize>,
}

/// The failures of a controller so far.
#[derive(Debug)]
struct Retries {
    policy: RetryPolicy,
    keys: BTreeMap<Name, FailedKey>,
    /// The times at which the failed keys of an instant are due. Which of them waits for which token is open.
    groups: Vec<Vec<Duration>>,
    tokens: TokenBucket,
    /// False after a failure that may have gone to the queue or not.
    tokens_known: bool,
    /// The objects that the informers show.
    present: BTreeSet<Key>,
}

impl Retries {
    fn new(policy: RetryPolicy) -> Self {
        let tokens = TokenBucket::default();
        let present = BTreeSet::new();
        Self { policy, keys: BTreeMap::new(), groups: Vec::new(), tokens, tokens_known: true, present }
    }

    fn judge(mut self, explored: ExploredRun<'_>) -> Option<Breach> {
        let mut failed: Vec<Name> = Vec::new();
        let mut now = Duration::ZERO;
        for step in explored.knowledge.steps(None, View::Possible) {
            if step.at() > now {
                self.wait(std::mem::take(&mut failed), now);
                now = step.at();
            }
            match step {
                KnownStep::Sees(key, sighting) => {
                    let author = sighting.change.and_then(|change| explored.entries.get(change));
                    let is_own = author.is_some_and(|entry| entry.actor() == self.policy.actor);
                    self.disturb(key, sighting.state.is_some(), is_own, &failed);
                }
                KnownStep::Entry(entry) if entry.seq >= explored.observation.quiet_at => break,
                KnownStep::Entry(entry) => {
                    if let EntryKind::Request(exchange) = &entry.what
                        && entry.actor() == self.policy.actor
                        && let ControlFlow::Break(found) = self.request(entry, exchange, &mut failed)
                    {
                        return found;
                    }
                }
                KnownStep::Starts(_) => {
                    // Controllers that start again know of no failure.
                    self = Self::new(self.policy);
                    failed.clear();
                }
            }
        }
        None
    }

    /// Follows a request of the controller. Breaks off with the breach, or if the next times are not known.
    fn request(
        &mut self,
        entry: &TranscriptEntry,
        exchange: &Exchange,
        failed: &mut Vec<Name>,
    ) -> ControlFlow<Option<Breach>> {
        let resource = exchange.request.resource.as_str();
        if resource == "events" || matches!(exchange.request.verb.as_str(), "list" | "watch") {
            return ControlFlow::Continue(());
        }
        // The client waits for late replies, and as long as a busy server asks it to.
        let reply = exchange.reply.as_ref().filter(|reply| !reply.lost && reply.at == entry.at);
        let Some(reply) = reply else { return ControlFlow::Break(None) };
        let fails = reply.status >= 400 && reply.status != 404;
        if resource != self.policy.resource && !fails {
            return ControlFlow::Continue(());
        }
        // A request about another object fails for a key that it does not name.
        if reply.status == 429 || resource != self.policy.resource {
            return ControlFlow::Break(None);
        }
        if let Some(breach) = self.repeat(entry, exchange) {
            return ControlFlow::Break(Some(breach));
        }
        self.finish(exchange, reply.status, failed);
        ControlFlow::Continue(())
    }

    /// Notes that the informers show a state: a key that waits, or has just failed, may be handed out for it, and be
    /// forgotten then.
    fn disturb(&mut self, seen: &Key, is_there: bool, is_own: bool, failed: &[Name]) {
        let was_there = if is_there { !self.present.insert(seen.clone()) } else { self.present.remove(seen) };
        if is_own {
            return;
        }
        let concerns_all = seen.resource == "nodes" && (was_there != is_there || self.policy.resource != "nodes");
        let changed = (seen.namespace.clone().unwrap_or_default(), seen.name.clone());
        let is_concerned = |name: &Name| concerns_all || seen.resource == self.policy.resource && *name == changed;
        for (_, key) in self.keys.iter_mut().filter(|(name, key)| key.due.is_some() && is_concerned(name)) {
            *key = FailedKey::default();
        }
        for name in failed.iter().filter(|name| is_concerned(name)) {
            self.keys.insert(name.clone(), FailedKey::default());
        }
        if seen.resource == self.policy.resource && !was_there {
            self.keys.remove(&changed);
        }
    }

    /// Checks the time of a request that may repeat a failed one.
    fn repeat(&mut self, entry: &TranscriptEntry, exchange: &Exchange) -> Option<Breach> {
        let failed = self.keys.get_mut(&name_of(exchange))?;
        let times = &mut self.groups[failed.due.take()?];
        let Some(found) = times.iter().position(|due| due.abs_diff(entry.at) <= SAME) else {
            let due = times.first().copied().unwrap_or_default();
            return Some(Breach {
                oracle: "retry".to_owned(),
                resource: exchange.request.resource_path(),
                kind: self.policy.actor.to_string(),
                at: entry.at,
                text: format!("{} repeats a failed request, which is due at {due:?}", line(entry, exchange)),
                expected: json!({ "quiet": true }),
            });
        };
        times.swap_remove(found);
        None
    }

    /// Notes the reply to a request.
    fn finish(&mut self, exchange: &Exchange, status: u16, failed: &mut Vec<Name>) {
        let name = name_of(exchange);
        let ends = self.policy.tries == 0 || exchange.request.verb == "delete";
        match status {
            200..300 if ends => {
                failed.retain(|other| *other != name);
                self.keys.remove(&name);
            }
            404 => _ = self.keys.insert(name, FailedKey::default()),
            400.. => {
                if failed.contains(&name) {
                    self.keys.insert(name.clone(), FailedKey::default());
                }
                failed.push(name);
            }
            _ => {}
        }
    }

    /// Computes when the keys that failed at `now` are due.
    fn wait(&mut self, names: Vec<Name>, now: Duration) {
        let mut waits: Vec<(Name, Duration, Duration)> = Vec::new();
        for name in names {
            let known = FailedKey { failures: Some(0), due: None };
            let key = self.keys.entry(name.clone()).or_insert(known);
            let Some(failures) = key.failures else {
                self.tokens_known = self.policy.tries == 0 && self.tokens_known;
                self.tokens.take(now);
                continue;
            };
            key.failures = Some(failures + 1);
            match failures.checked_sub(self.policy.tries) {
                None => {
                    key.due = Some(self.groups.len());
                    self.groups.push(vec![now + EVICTION_PAUSE]);
                }
                Some(earlier) => waits.push((name, backoff(earlier), self.tokens.take(now))),
            }
        }
        let alike = waits.iter().all(|(_, delay, _)| *delay == waits[0].1);
        let is_free = waits.iter().all(|(_, delay, token)| token <= delay);
        if !self.tokens_known || !(alike || is_free) {
            return;
        }
        let times = waits.iter().map(|(_, delay, token)| now + *delay.max(token)).collect();
        let group = self.groups.len();
        if is_free {
            self.groups.extend(waits.iter().map(|(_, delay, _)| vec![now + *delay]));
        } else {
            self.groups.push(times);
        }
        for (number, (name, ..)) in waits.into_iter().enumerate() {
            let due = Some(group + if is_free { number } else { 0 });
            self.keys.entry(name).and_modify(|key| key.due = due);
        }
    }
}

fn name_of(exchange: &Exchange) -> Name {
    let request = &exchange.request;
    (request.namespace.clone().unwrap_or_default(), request.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::{RecordedReply, RecordedRequest, Transcript};
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::explore::judge::testing::{History, exchange, judged_by};

    /// Requests by their time in milliseconds, the name of their object, and the status of their reply.
    type Requests<'a> = &'a [(u64, &'a str, u16)];

    fn ask(transcript: &Transcript, agent: &str, verb: &str, resource: &str, (at, name, status): (u64, &str, u16)) {
        let request = RecordedRequest {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            name: Some(name.to_owned()),
            ..RecordedRequest::default()
        };
        let at = Duration::from_millis(at);
        exchange(transcript, at, agent, request, RecordedReply::new(at, status));
    }

    fn is_found(controller: &str, transcript: &Transcript) -> bool {
        judged_by(controller, transcript, Vec::<Value>::new(), |fixture, _, explored| {
            untimely(fixture, explored).is_some()
        })
    }

    #[rstest]
    #[case::doubled_after_each_failure(&[(0, "n", 500), (5, "n", 500), (15, "n", 500), (35, "n", 200)], false)]
    #[case::too_late(&[(0, "n", 500), (10, "n", 200)], true)]
    #[case::too_early(&[(0, "n", 500), (0, "n", 500), (5, "m", 500), (6, "m", 200)], true)]
    #[case::forgotten_after_a_success(&[(0, "n", 500), (5, "n", 200), (9, "n", 500), (14, "n", 200)], false)]
    #[case::not_forgotten(&[(0, "n", 500), (5, "n", 200), (9, "n", 500), (19, "n", 200)], true)]
    #[case::a_busy_server(&[(0, "n", 429), (2000, "n", 200)], false)]
    fn a_failed_key_waits(#[case] requests: Requests<'_>, #[case] found: bool) {
        let transcript = Transcript::new();
        for request in requests {
            ask(&transcript, "ttl-controller", "patch", "nodes", *request);
        }
        assert_eq!(is_found("ttl", &transcript), found);
    }

    /// Of 102 failures at once, the last two wait 100 ms and 200 ms for their tokens.
    #[rstest]
    #[case::ten_per_second(200, false)]
    #[case::no_limit(5, true)]
    #[case::one_per_second(2000, true)]
    fn many_failures_wait_for_tokens(#[case] last: u64, #[case] found: bool) {
        let transcript = Transcript::new();
        let names: Vec<String> = (0..102).map(|number| format!("n{number}")).collect();
        let ask = |at, name: &str, status| ask(&transcript, "ttl-controller", "patch", "nodes", (at, name, status));
        for name in &names {
            ask(0, name, 500);
        }
        for name in &names[1..101] {
            ask(5, name, 200);
        }
        ask(100.min(last), &names[0], 200);
        ask(last, &names[101], 200);
        assert_eq!(is_found("ttl", &transcript), found);
    }

    #[rstest]
    #[case::five_tries_and_a_back_off(&[0, 10, 20, 30, 40, 45, 55], false)]
    #[case::six_tries(&[0, 10, 20, 30, 40, 50], true)]
    fn an_eviction_is_tried_quickly(#[case] times: &[u64], #[case] found: bool) {
        let transcript = Transcript::new();
        for at in times {
            ask(&transcript, "taint-eviction-controller", "delete", "pods", (*at, "p", 500));
        }
        assert_eq!(is_found("taint-eviction", &transcript), found);
    }

    #[rstest]
    #[case::that_the_informer_shows(true, false)]
    #[case::that_no_informer_shows(false, true)]
    fn a_change_of_the_object_hands_its_key_out(#[case] is_seen: bool, #[case] found: bool) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}});
        let mut history = History::new(std::slice::from_ref(&node));
        history.fails(0, Actor::Ttl, "patch nodes/a", 500);
        if is_seen {
            history.happens(0, "nodes/a", Some(node));
        } else {
            history.happens_unseen(0, "nodes/a", Some(node));
        }
        history.asks(1, Actor::Ttl, "patch nodes/a", 0);
        assert_eq!(history.judged("ttl", |fixture, _, explored| untimely(fixture, explored)).is_some(), found);
    }
}
