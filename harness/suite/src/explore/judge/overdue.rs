//! Oracle `late` about evictions: pods that were evicted later than their tolerations allow, or not at all. Pure.
//!
//! A countdown begins when the controller sees the pod on a node with a taint that limits its stay. A request that
//! fails, or whose reply is late, delays the eviction until the queue repeats it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::expect::world::{Key, ObjectStates};
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::{has_failed, key_of_request};
use plumbline::explore::knowledge::{KnownStep, View};
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::queue::{EVICTION_TRIES, backoff};
use plumbline::rules::taints::toleration_limit_of;
use plumbline::transcript::{Actor, Attributed as _, Change, EntryKind, Exchange, TranscriptEntry};
use serde_json::{Value, json};

use super::known::{ReplacedStates, took_effect};
use super::late::LATE_ORACLE;
use crate::explore::run::explored::ExploredRun;

/// Time after which an eviction is overdue if no request failed.
const PROMPT: Duration = Duration::from_secs(15);

/// A pod that may not stay on its node.
#[derive(Debug, Clone, Copy)]
struct Stay {
    /// Since when a taint limits its stay, as far as the controller knows.
    since: Duration,
    /// The limit that counts: the first one of this stay, as in upstream's queue, or zero if no toleration is left.
    limit: Duration,
    /// Number of failed requests about the pod.
    failures: u32,
    /// The time until which these delay its eviction.
    delayed: Duration,
}

impl Stay {
    fn due(&self) -> Duration {
        self.delayed.max(self.since.saturating_add(self.limit))
    }
}

/// The stays of the pods that the controller knows, by uid.
#[derive(Debug)]
struct Stays {
    world: ObjectStates,
    of_pod: BTreeMap<String, Stay>,
    /// The uids of the pods that are deleted, or being deleted.
    gone: BTreeSet<String>,
    /// The resources and names of objects of which the informers show another state since this instant. States that do
    /// not outlast it may remain unseen.
    news: (Duration, BTreeSet<(String, String)>),
    replaced: ReplacedStates,
    /// The instant of the last requests of the controller, and the last time of their replies.
    sent: (Duration, Duration),
}

/// Returns pods that were evicted later than their tolerations allow, or not at all.
pub(super) fn evictions(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    // Limits of the client's rate delay everything. Of several replicas only the one with the lease evicts.
    let is_judged = fixture.controllers.contains(&Controller::TaintEviction)
        && !fixture.flags.contains_key("kube-api-qps")
        && explored.knowledge.replicas().iter().all(Option::is_none);
    if is_judged { late_eviction(begin, explored).into_iter().collect() } else { Vec::new() }
}

fn late_eviction(begin: &ObjectStates, explored: ExploredRun<'_>) -> Option<Breach> {
    let nothing = || Stays {
        world: begin.without_objects(),
        of_pod: BTreeMap::new(),
        gone: BTreeSet::new(),
        news: (Duration::ZERO, BTreeSet::new()),
        replaced: ReplacedStates::default(),
        sent: (Duration::ZERO, Duration::ZERO),
    };
    let mut stays = nothing();
    let end = explored.observation.quiet_at;
    for step in explored.knowledge.steps(None, View::Certain) {
        match step {
            KnownStep::Starts(_) => stays = nothing(),
            KnownStep::Sees(key, sighting) if matches!(key.resource.as_str(), "pods" | "nodes") => {
                if sighting.position > end {
                    break;
                }
                stays.settle(sighting.at);
                stays.replaced.note(key, stays.world.get(key), sighting.at);
                stays.world.put(key.clone(), sighting.state.cloned());
                stays.news.1.insert((key.resource.clone(), key.name.clone()));
            }
            KnownStep::Entry(entry) => {
                stays.settle(entry.at);
                match &entry.what {
                    EntryKind::Request(exchange) if entry.actor() == Actor::TaintEviction => {
                        let evicted = deleted_pod(exchange).filter(|_| took_effect(explored.entries, entry.seq));
                        let stay = evicted.as_ref().and_then(|pod| stays.end(pod));
                        if let Some((stay, pod)) = stay.zip(evicted).filter(|(stay, _)| is_late(stay, entry.at)) {
                            return Some(late(&pod.name, stay, entry.at));
                        }
                        stays.note(entry, exchange);
                    }
                    EntryKind::Change(change) if change.resource == "pods" && entry.seq < end => {
                        let overdue = stays.gone(change).filter(|stay| is_late(stay, entry.at));
                        if let Some(stay) = overdue {
                            return Some(late(&change.name, stay, entry.at));
                        }
                    }
                    _ => {}
                }
            }
            KnownStep::Sees(..) => {}
        }
    }
    None
}

fn is_late(stay: &Stay, at: Duration) -> bool {
    at > stay.due().saturating_add(PROMPT)
}

/// Returns the key of the pod that a request deletes.
fn deleted_pod(exchange: &Exchange) -> Option<Key> {
    let request = &exchange.request;
    key_of_request(request).filter(|key| request.verb == "delete" && key.resource == "pods")
}

impl Stays {
    /// Updates the stays by what the informers show at the end of an instant that is over at `now`.
    fn settle(&mut self, now: Duration) {
        if now > self.news.0 {
            self.notice();
            self.news.0 = now;
        }
    }

    /// Updates the stays by what the informers show now.
    fn notice(&mut self) {
        for (resource, name) in std::mem::take(&mut self.news.1) {
            self.update((&resource, &name), self.news.0);
        }
    }

    /// Updates the stays of the pods on a node, or of a pod, after a sighting.
    fn update(&mut self, (resource, name): (&str, &str), now: Duration) {
        let is_concerned = |pod: &Value| {
            if resource == "nodes" { pod["spec"]["nodeName"] == name } else { metadata::name(pod) == name }
        };
        // The controller may have seen the news of an instant before its requests in that instant.
        let delayed = if self.sent.0 == now { self.sent.1 } else { Duration::ZERO };
        for (_, pod) in self.world.all("pods").filter(|(_, pod)| is_concerned(pod)) {
            let uid = metadata::uid(pod).unwrap_or_default().to_owned();
            let live = !metadata::is_terminating(pod) && !self.gone.contains(&uid);
            // The deletion of a node ends no countdown.
            let is_lost = live && !self.world.all("nodes").any(|(key, _)| pod["spec"]["nodeName"] == *key.name);
            match toleration_limit_of(&self.world, pod).filter(|_| live) {
                None if is_lost => {}
                None => _ = self.of_pod.remove(&uid),
                Some(limit) => {
                    let node = self.world.all("nodes").find(|(key, _)| pod["spec"]["nodeName"] == *key.name);
                    let met = self.replaced.toleration_limits(pod, node.map(|(_, node)| node));
                    // The countdown of a state that did not outlast the instant may go on, unless the pod goes at once.
                    let longest = met.iter().copied().flatten().filter(|_| !limit.is_zero()).max();
                    let limit = longest.map_or(limit, |longest| longest.max(limit));
                    let new = Stay { since: now, limit, failures: 0, delayed };
                    if met.contains(&None) {
                        self.of_pod.remove(&uid);
                    }
                    let stay = self.of_pod.entry(uid).or_insert(new);
                    if limit.is_zero() && !stay.limit.is_zero() {
                        *stay = Stay { since: now, limit, ..*stay };
                    }
                }
            }
        }
    }

    /// Ends the stay of the known pod with this key, whose eviction was sent, and returns it.
    fn end(&mut self, pod: &Key) -> Option<Stay> {
        self.notice();
        let uid = metadata::uid(self.world.get(pod)?)?.to_owned();
        let stay = self.of_pod.remove(&uid);
        self.gone.insert(uid);
        stay
    }

    /// Ends the stay of a pod that is deleted by a change, and returns it.
    fn gone(&mut self, change: &Change) -> Option<Stay> {
        let is_there = change.new.as_deref().is_some_and(|pod| !metadata::is_terminating(pod));
        let uid = metadata::uid(change.old.as_deref().filter(|_| !is_there)?)?;
        self.gone.insert(uid.to_owned());
        self.of_pod.remove(uid)
    }

    /// Notes a request of the controller. While it waits for a reply its work waits; the back-off of a failure is that
    /// of the queue.
    fn note(&mut self, entry: &TranscriptEntry, exchange: &Exchange) {
        self.notice();
        let replied = exchange.reply.as_ref().map_or(Duration::MAX, |reply| reply.at);
        let earlier = if self.sent.0 == entry.at { self.sent.1 } else { Duration::ZERO };
        self.sent = (entry.at, earlier.max(replied));
        for stay in self.of_pod.values_mut().filter(|stay| stay.due() <= replied) {
            stay.delayed = stay.delayed.max(replied);
        }
        let Some(key) = key_of_request(&exchange.request).filter(|_| has_failed(exchange)) else { return };
        let is_concerned = |other: &Key, pod: &Value| match key.resource.as_str() {
            "pods" => *other == key,
            // The node of each pod is read before its eviction.
            "nodes" => pod["spec"]["nodeName"] == *key.name,
            _ => false,
        };
        for (_, pod) in self.world.all("pods").filter(|(other, pod)| is_concerned(other, pod)) {
            let stay = metadata::uid(pod).and_then(|uid| self.of_pod.get_mut(uid));
            let Some(stay) = stay.filter(|stay| stay.since.saturating_add(stay.limit) <= entry.at) else { continue };
            stay.failures += 1;
            let earlier = stay.failures.saturating_sub(EVICTION_TRIES);
            stay.delayed = stay.delayed.max(entry.at.max(replied).saturating_add(backoff(earlier)));
        }
    }
}

fn late(pod: &str, stay: Stay, at: Duration) -> Breach {
    let Stay { since, limit, .. } = stay;
    let due = stay.due();
    Breach {
        oracle: LATE_ORACLE.to_owned(),
        resource: "pods".to_owned(),
        kind: "eviction".to_owned(),
        at,
        text: format!(
            "pods/{pod} may stay on its node for {limit:?} from {since:?} on, is to be evicted at {due:?}, and goes at {at:?}"
        ),
        expected: json!({ "absent": format!("pods/{pod}") }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::explore::judge::testing::History;

    fn node(taints: &[&str]) -> Value {
        let taints: Vec<Value> = taints.iter().map(|key| json!({"key": key, "effect": "NoExecute"})).collect();
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"taints": taints}})
    }

    /// A pod that tolerates `k` for 30 s and `m` for 300 s.
    fn pod() -> Value {
        let tolerates =
            |key: &str, seconds: u64| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            "spec": {"nodeName": "a", "tolerations": [tolerates("k", 30), tolerates("m", 300)]}})
    }

    /// Judges an eviction at `evicted`.
    fn is_late(mut history: History, evicted: u64) -> bool {
        history.writes(evicted, Actor::TaintEviction, "delete pods/p", json!({}), None);
        !history.judged("taint-eviction", evictions).is_empty()
    }

    /// The node gets another taint at `tainted`, and the pod comes at 60 s.
    #[rstest]
    #[case::in_time(59, 105, false)]
    #[case::late(59, 106, true)]
    #[case::the_first_countdown_goes_on(61, 375, false)]
    #[case::it_may_have_begun_before_the_taint_was_read(60, 375, false)]
    #[case::later_than_either(60, 376, true)]
    fn the_first_countdown_counts(#[case] tainted: u64, #[case] evicted: u64, #[case] late: bool) {
        let mut history = History::new(&[node(&["m"])]);
        let both = || Some(node(&["m", "k"]));
        if tainted <= 60 {
            history.happens(tainted, "nodes/a", both());
        }
        history.happens(60, "pods/p", Some(pod()));
        if tainted > 60 {
            history.happens(tainted, "nodes/a", both());
        }
        assert_eq!(is_late(history, evicted), late);
    }

    /// The informer shows at 60 s, after a request of that instant, that a pod came to a node whose taint it does not
    /// tolerate. The request begins at `asked`, and its reply comes at 100 s.
    #[rstest]
    #[case::in_time(60, 115, false)]
    #[case::late(60, 116, true)]
    #[case::a_request_before_the_news(50, 115, true)]
    fn a_request_of_the_instant_of_the_news_may_be_for_them(
        #[case] asked: u64,
        #[case] evicted: u64,
        #[case] late: bool,
    ) {
        let mut history = History::new(&[node(&["x"])]);
        history.asks(asked, Actor::TaintEviction, "patch pods/p/status", 100 - asked);
        history.happens(60, "pods/p", Some(pod()));
        assert_eq!(is_late(history, evicted), late);
    }

    /// The taint goes at 20 s, or stays, and is there again at once.
    #[rstest]
    #[case::goes(&[], false)]
    #[case::stays(&["k"], true)]
    fn a_countdown_may_begin_again_within_an_instant(#[case] between: &[&str], #[case] late: bool) {
        let mut history = History::new(&[node(&["k"]), pod()]);
        history.happens(20, "nodes/a", Some(node(between)));
        history.happens(20, "nodes/a", Some(node(&["k"])));
        assert_eq!(is_late(history, 65), late);
    }
}
