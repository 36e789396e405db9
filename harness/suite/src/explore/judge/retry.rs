//! Oracle `retry`: a failed request is repeated when the work queue hands its key out again, neither sooner nor later.
//! Pure.
//!
//! [`queue`](plumbline::rules::queue) has the delays. Taint eviction tries several times before its key goes to its
//! queue; the retries after that are N-086's.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::line;
use plumbline::explore::breach::Breach;
use plumbline::explore::faults::point::FaultPoint;
use plumbline::explore::faults::{Disturbance, FaultTrait};
use plumbline::fixture::{Controller, Effect, Fault, Fixture};
use plumbline::rules::queue::{EVICTION_PAUSE, EVICTION_TRIES, TokenBucket, backoff};
use plumbline::transcript::{Actor, Attributed as _, Change, EntryKind, Exchange, TranscriptEntry};
use serde_json::json;

use crate::explore::histories::facts::{controls_subject, disturbs_watches, own_faults};
use crate::explore::run::explored::ExploredRun;

/// Difference of times that count as equal.
const SAME: Duration = Duration::from_millis(1);

/// Returns the first request that repeats a failed one at the wrong time.
pub(super) fn untimely(fixture: &Fixture, explored: ExploredRun<'_>) -> Option<Breach> {
    let excused = |(disturbance, point): &(Disturbance, FaultPoint)| {
        disturbance.is(FaultTrait::Restarts) || disturbance.delays_information(point)
    };
    // The client itself waits as long as the server asks it to, and controllers that start again know of no failure.
    let excuses =
        |fault: &Fault| matches!(fault.effect, Effect::Reply { retry_after: Some(_), .. } | Effect::Crash { .. });
    let disturbed = controls_subject(fixture)
        || disturbs_watches(fixture)
        || fixture.flags.contains_key("kube-api-qps")
        || own_faults(fixture).any(excuses)
        || explored.plan.faults.iter().any(excused);
    if disturbed || explored.observation.faulted == 0 {
        return None;
    }
    let entries = explored.until_quiet();
    let mut policies = fixture.controllers.iter().filter_map(|controller| match controller {
        Controller::Ttl => Some(RetryPolicy { actor: Actor::Ttl, resource: "nodes", tries: 0 }),
        Controller::TaintEviction => {
            Some(RetryPolicy { actor: Actor::TaintEviction, resource: "pods", tries: EVICTION_TRIES - 1 })
        }
        Controller::Disruption | Controller::PodGc => None,
    });
    policies.find_map(|policy| Retries::new(policy).judge(entries))
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
}

impl Retries {
    fn new(policy: RetryPolicy) -> Self {
        let tokens = TokenBucket::default();
        Self { policy, keys: BTreeMap::new(), groups: Vec::new(), tokens, tokens_known: true }
    }

    fn judge(mut self, entries: &[TranscriptEntry]) -> Option<Breach> {
        for instant in entries.chunk_by(|one, next| one.at == next.at) {
            let mut failed: Vec<Name> = Vec::new();
            for entry in instant {
                match &entry.what {
                    EntryKind::Change(change) if entry.actor() != self.policy.actor => self.disturb(change, &failed),
                    EntryKind::Request(exchange) if entry.actor() == self.policy.actor => {
                        let resource = exchange.request.resource.as_str();
                        let verb = exchange.request.verb.as_str();
                        if resource == "events" || matches!(verb, "list" | "watch") {
                            continue;
                        }
                        // The client waits for late replies, and as long as a busy server asks it to.
                        let reply = exchange.reply.as_ref().filter(|reply| !reply.lost && reply.at == entry.at)?;
                        let fails = reply.status >= 400 && reply.status != 404;
                        if resource != self.policy.resource && !fails {
                            continue;
                        }
                        // A request about another object fails for a key that it does not name.
                        if reply.status == 429 || resource != self.policy.resource {
                            return None;
                        }
                        if let Some(breach) = self.repeat(entry, exchange) {
                            return Some(breach);
                        }
                        self.finish(exchange, reply.status, &mut failed);
                    }
                    _ => {}
                }
            }
            self.wait(failed, instant.first().map_or(Duration::ZERO, |entry| entry.at));
        }
        None
    }

    /// Notes a change by another client: a key that waits, or has just failed, may be handed out for it, and be
    /// forgotten then.
    fn disturb(&mut self, change: &Change, failed: &[Name]) {
        let is_new_or_gone = change.old.is_none() || change.new.is_none();
        let concerns_all = change.resource == "nodes" && (is_new_or_gone || self.policy.resource != "nodes");
        let changed = (change.namespace.clone().unwrap_or_default(), change.name.clone());
        let is_concerned = |name: &Name| concerns_all || change.resource == self.policy.resource && *name == changed;
        for (_, key) in self.keys.iter_mut().filter(|(name, key)| key.due.is_some() && is_concerned(name)) {
            *key = FailedKey::default();
        }
        for name in failed.iter().filter(|name| is_concerned(name)) {
            self.keys.insert(name.clone(), FailedKey::default());
        }
        if change.resource == self.policy.resource && change.old.is_none() {
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
    use crate::explore::judge::testing::{change, exchange, judged_by};
    use crate::explore::run::observation::Observation;

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
            let observation = Observation { faulted: 1, ..explored.observation.clone() };
            untimely(fixture, ExploredRun { observation: &observation, ..explored }).is_some()
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

    #[test]
    fn a_change_of_the_object_hands_its_key_out() {
        let transcript = Transcript::new();
        ask(&transcript, "ttl-controller", "patch", "nodes", (0, "a", 500));
        change(&transcript, 0, None, "nodes", [Some(json!({})), Some(json!({}))]);
        ask(&transcript, "ttl-controller", "patch", "nodes", (1, "a", 200));
        assert!(!is_found("ttl", &transcript));
    }
}
