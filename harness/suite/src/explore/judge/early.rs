//! Oracle `early`: no pod is evicted or collected without a reason that the controller could know.
//!
//! - `PodGC` touches a pod of a node that was missing or out of service in a state that it could have in mind. It marks
//!   an orphan only after its node was missing for 40 s and a live read did not find it.
//! - Taint eviction deletes a pod whose stay was limited, and over, in such a state.
//!
//! Pure. Sources: `pkg/controller/podgc/gc_controller.go`, `pkg/controller/tainteviction/taint_eviction.go`.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::world::{Key, ObjectStates};
use plumbline::expect::{line, requests};
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::{changes, key_of_request};
use plumbline::explore::knowledge::{KnownStep, Sighting, View};
use plumbline::explore::work::WorkWindow;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::nodes::NodeState;
use plumbline::rules::pods::{DISRUPTION_TARGET, condition, is_terminated};
use plumbline::rules::quarantine::{DELETION_BY_POD_GC, QUARANTINE, THRESHOLD};
use plumbline::rules::taints::toleration_limit_of;
use plumbline::transcript::{Actor, Attributed as _, EntryKind, Exchange, TranscriptEntry};
use serde_json::{Value, json};

use super::breaches::of_change;
use super::known::{ReplacedStates, node_key, node_states, pod_states, took_effect};
use crate::explore::run::explored::ExploredRun;

/// The oracle.
const ORACLE: &str = "early";

/// Returns the first pod that `PodGC` fails or deletes without a reason.
pub(super) fn collection(fixture: &Fixture, _: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    if !fixture.controllers.contains(&Controller::PodGc) {
        return Vec::new();
    }
    let threshold = fixture.flags.contains_key(THRESHOLD);
    let found = changes(explored.until_quiet(), Actor::PodGc, "pods").find_map(|(entry, change)| {
        let old = change.old.as_deref()?;
        let node = old["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
        let window = explored.knowledge.window(change.request?);
        let is_lost = |state: &NodeState| matches!(state, NodeState::Missing | NodeState::OutOfService);
        if threshold && is_terminated(old) || node_states(explored.knowledge, node, window).iter().any(is_lost) {
            return None;
        }
        let text = format!(
            "podgc changes pods/{} at {:?}, and all that it could know of nodes/{node} is that it is there",
            change.name, entry.at
        );
        Some(of_change(ORACLE, change, "podgc".to_owned(), entry.at, text))
    });
    found.into_iter().collect()
}

/// Returns the first orphan that `PodGC` marks although no live read of its node failed, or before the node was missing
/// for 40 s, as far as the controller could know.
pub(super) fn unconfirmed(fixture: &Fixture, _: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    if !fixture.controllers.contains(&Controller::PodGc) {
        return Vec::new();
    }
    let found = requests(explored.until_quiet()).find_map(|(entry, exchange)| {
        if !marks_orphan(entry, exchange) || !took_effect(explored.entries, entry.seq) {
            return None;
        }
        let window = explored.knowledge.window(entry.seq);
        let pods = pod_states(explored.knowledge, &exchange.request, window);
        let node = pods.iter().find_map(|pod| pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty()))?;
        let key = node_key(node);
        let replica = explored.knowledge.replica_of(entry.seq);
        let started = explored.knowledge.started(entry.seq);
        let seen = || {
            let seen = explored.knowledge.sightings(&key, replica);
            seen.filter(|sighting| (started..=entry.seq).contains(&sighting.position))
        };
        let is_new = |position: usize| position > window.begin;
        let is_confirmed = explored.knowledge.replies(&key, window).iter().any(Option::is_none)
            || seen().any(|sighting| is_new(sighting.position) && sighting.state.is_none());
        let begin = explored.entries.get(started).filter(|_| started > 0).map_or(Duration::ZERO, |start| start.at);
        let missing = match seen().find(|sighting| sighting.state.is_none()) {
            Some(sighting) => Some(sighting.at),
            None => seen().next().is_none().then_some(begin),
        };
        let is_over = missing.is_some_and(|since| since + QUARANTINE <= entry.at + explored.record.tolerance);
        let why = match (is_confirmed, is_over) {
            (false, _) => format!("no live read of nodes/{node} was answered 404 before"),
            (true, false) => format!("nodes/{node} was missing since {missing:?}, as far as it could know"),
            (true, true) => return None,
        };
        Some(Breach {
            oracle: ORACLE.to_owned(),
            resource: "pods".to_owned(),
            kind: "orphan".to_owned(),
            at: entry.at,
            text: format!("{}: {why}", line(entry, exchange)),
            expected: json!({ "quiet": true }),
        })
    });
    found.into_iter().collect()
}

/// Returns true if the request marks a pod as deleted by `PodGC`.
fn marks_orphan(entry: &TranscriptEntry, exchange: &Exchange) -> bool {
    let body = exchange.request.body.as_deref();
    exchange.request.resource == "pods"
        && entry.actor() == Actor::PodGc
        && body.and_then(|body| condition(body, DISRUPTION_TARGET)).is_some_and(|it| it["reason"] == DELETION_BY_POD_GC)
}

/// The deadline of a pod's countdown from a moment on.
#[derive(Debug, Clone, Copy)]
struct KnownDeadline {
    /// Number of entries before it.
    position: usize,
    /// Its begin.
    at: Duration,
    /// The time at which the pod may be evicted; `None`: it may stay.
    due: Option<Duration>,
}

/// The deadlines of the pods of a known world, by uid.
#[derive(Debug)]
struct KnownDeadlines {
    world: ObjectStates,
    of_pod: BTreeMap<String, Vec<KnownDeadline>>,
    replaced_states: ReplacedStates,
}

impl KnownDeadlines {
    fn new(begin: &ObjectStates) -> Self {
        let replaced_states = ReplacedStates::default();
        Self { world: begin.without_objects(), of_pod: BTreeMap::new(), replaced_states }
    }

    /// Records the state of an object that an informer shows.
    fn put(&mut self, key: &Key, sighting: &Sighting<'_>) {
        self.replaced_states.note(key, self.world.get(key), sighting.at);
        self.world.put(key.clone(), sighting.state.cloned());
    }

    /// Updates the deadlines of the pods of a node, or of a pod, after a sighting.
    fn update(&mut self, is_concerned: impl Fn(&Value) -> bool, position: usize, now: Duration) {
        for (_, pod) in self.world.all("pods").filter(|(_, pod)| is_concerned(pod)) {
            let replaced = self.replaced_states.toleration_limit(pod);
            let deadlines = self.of_pod.entry(metadata::uid(pod).unwrap_or_default().to_owned()).or_default();
            let running = deadlines.last().and_then(|last| last.due);
            let replaced = replaced.filter(|_| running.is_none());
            if let Some(limit) = replaced {
                deadlines.push(KnownDeadline { position, at: now, due: Some(now.saturating_add(limit)) });
            }
            // A state that does not outlast its instant may remain unseen.
            let before = deadlines.iter().rposition(|deadline| deadline.at < now).unwrap_or_default();
            let possible = deadlines[before..].iter().filter_map(|deadline| deadline.due).min();
            let due = if let Some(limit) = toleration_limit_of(&self.world, pod) {
                possible.into_iter().chain([now.saturating_add(limit)]).min()
            } else {
                // The deletion of a node ends no countdown.
                let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
                possible.filter(|_| !self.world.all("nodes").any(|(key, _)| key.name == node))
            };
            if due != running || replaced.is_some() || deadlines.is_empty() {
                deadlines.push(KnownDeadline { position, at: now, due });
            }
        }
    }

    /// Returns true if the stay of a pod was over at `now` in a state of this window.
    fn is_over(&self, uid: &str, window: WorkWindow, now: Duration) -> bool {
        let deadlines = self.of_pod.get(uid).map_or(&[][..], Vec::as_slice);
        let ends = deadlines.iter().skip(1).map(|next| next.position).chain([usize::MAX]);
        let mut in_window = deadlines.iter().zip(ends).filter(|(_, end)| *end > window.begin);
        in_window.any(|(deadline, _)| deadline.due.is_some_and(|due| due <= now))
    }
}

/// Returns the first eviction of a pod that may stay on its node, as far as the controller could know.
pub(super) fn eviction(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    if !fixture.controllers.contains(&Controller::TaintEviction) {
        return Vec::new();
    }
    let replicas = explored.knowledge.replicas();
    replicas.into_iter().find_map(|replica| early_eviction(replica, begin, explored)).into_iter().collect()
}

fn early_eviction(replica: Option<u8>, begin: &ObjectStates, explored: ExploredRun<'_>) -> Option<Breach> {
    let mut deadlines = KnownDeadlines::new(begin);
    for step in explored.knowledge.steps(replica, View::Possible) {
        match step {
            KnownStep::Starts(_) => deadlines = KnownDeadlines::new(begin),
            KnownStep::Sees(key, sighting) => {
                if !matches!(key.resource.as_str(), "pods" | "nodes") {
                    continue;
                }
                deadlines.put(key, &sighting);
                let is_node = key.resource == "nodes";
                let uid = sighting.state.and_then(|pod| metadata::uid(pod));
                let is_concerned = |pod: &Value| {
                    if is_node { pod["spec"]["nodeName"] == *key.name } else { metadata::uid(pod) == uid }
                };
                deadlines.update(is_concerned, sighting.position, sighting.at);
            }
            KnownStep::Entry(entry) => {
                let EntryKind::Request(exchange) = &entry.what else { continue };
                let breach = is_eviction(entry, exchange, replica, explored)
                    .then(|| early(&deadlines, entry, exchange, explored));
                if let Some(breach) = breach.flatten() {
                    return Some(breach);
                }
            }
        }
    }
    None
}

fn is_eviction(entry: &TranscriptEntry, exchange: &Exchange, replica: Option<u8>, explored: ExploredRun<'_>) -> bool {
    let request = &exchange.request;
    request.verb == "delete"
        && request.resource == "pods"
        && entry.actor() == Actor::TaintEviction
        && explored.knowledge.replica_of(entry.seq) == replica
        && took_effect(explored.entries, entry.seq)
}

fn early(
    deadlines: &KnownDeadlines,
    entry: &TranscriptEntry,
    exchange: &Exchange,
    explored: ExploredRun<'_>,
) -> Option<Breach> {
    let window = explored.knowledge.window(entry.seq);
    let known = explored.knowledge.states(&key_of_request(&exchange.request)?, window);
    let wanted = exchange.request.body.as_deref().and_then(|body| body["preconditions"]["uid"].as_str());
    let pods = known.iter().flatten().filter_map(|pod| metadata::uid(pod));
    let mut pods = pods.filter(|uid| wanted.is_none_or(|wanted| wanted == *uid));
    if pods.any(|uid| deadlines.is_over(uid, window, entry.at + explored.record.tolerance)) {
        return None;
    }
    let name = exchange.request.name.clone().unwrap_or_default();
    Some(Breach {
        oracle: ORACLE.to_owned(),
        resource: "pods".to_owned(),
        kind: "eviction".to_owned(),
        at: entry.at,
        text: format!("pods/{name} is evicted at {:?}, and may stay in each state that was known", entry.at),
        expected: json!({ "exists": format!("pods/{name}") }),
    })
}

#[cfg(test)]
mod tests {
    use plumbline::rules::nodes::OUT_OF_SERVICE;
    use rstest::rstest;

    use super::*;
    use crate::explore::judge::condition::unexplained;
    use crate::explore::judge::testing::History;

    fn judged(controller: &str, history: History) -> Vec<String> {
        history.judged(controller, |fixture, begin, explored| {
            let oracles = [collection, unconfirmed, unexplained, eviction];
            let found = oracles.into_iter().flat_map(|oracle| oracle(fixture, begin, explored));
            found.map(|breach| breach.fingerprint()).collect()
        })
    }

    fn node(ready: &str, taint: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn pod(phase: &str, reason: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 1},
            "spec": {"nodeName": "a", "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 60}]},
            "status": {"phase": phase, "conditions": [{"type": "DisruptionTarget", "status": "True",
                "reason": reason, "message": "gone", "observedGeneration": 1}]}})
    }

    #[rstest]
    #[case::out_of_service(Some(node("False", OUT_OF_SERVICE)), "", &[])]
    #[case::ready(Some(node("True", OUT_OF_SERVICE)), "", &["early · pods · podgc"])]
    #[case::another_taint(Some(node("False", "k")), "", &["early · pods · podgc"])]
    #[case::gone_without_a_word(None, "", &["condition · pods · podgc"])]
    fn podgc_has_a_reason(#[case] node: Option<Value>, #[case] reason: &str, #[case] found: &[&str]) {
        let objects: Vec<Value> = [pod("Running", "")].into_iter().chain(node).collect();
        let mut history = History::new(&objects);
        let failed = pod("Failed", reason);
        history.writes(60, Actor::PodGc, "patch pods/p/status", json!({"status": {}}), Some(failed));
        assert_eq!(judged("podgc", history), found);
    }

    #[rstest]
    #[case::recovered_at_once(60, true, &[])]
    #[case::recovered_before(50, true, &["early · pods · podgc"])]
    #[case::and_no_informer_shows_it(50, false, &[])]
    fn a_recovery_counts_once_it_is_known(#[case] at: u64, #[case] is_seen: bool, #[case] found: &[&str]) {
        let mut history = History::new(&[node("False", OUT_OF_SERVICE), pod("Failed", "")]);
        history.happens_unseen(at, "nodes/a", Some(node("True", OUT_OF_SERVICE)));
        if is_seen {
            history.informs(at, "nodes/a");
        }
        history.writes(60, Actor::PodGc, "delete pods/p", json!({}), None);
        assert_eq!(judged("podgc", history), found);
    }

    /// A node goes at 20 s, and its pod is marked at `marked`, with a live read before it if `asks`.
    #[rstest]
    #[case::after_the_quarantine(60, true, &[])]
    #[case::a_second_early(59, true, &["early · pods · orphan"])]
    #[case::without_a_live_read(60, false, &["early · pods · orphan"])]
    fn orphans_are_confirmed(#[case] marked: u64, #[case] asks: bool, #[case] found: &[&str]) {
        let mut history = History::new(&[node("True", "x"), pod("Running", "")]);
        history.happens(20, "nodes/a", None);
        if asks {
            history.fails(marked, Actor::PodGc, "get nodes/a", 404);
        }
        let orphan = pod("Failed", DELETION_BY_POD_GC);
        let body = json!({"status": orphan["status"]});
        history.writes(marked, Actor::PodGc, "patch pods/p/status", body, Some(orphan));
        assert_eq!(judged("podgc", history), found);
    }

    /// The pod tolerates the taint of its node for 60 s from 10 s on, and the taint goes at `gone`.
    #[rstest]
    #[case::in_time(70, None, &[])]
    #[case::a_second_early(69, None, &["early · pods · eviction"])]
    #[case::called_off(70, Some((30, true)), &["early · pods · eviction"])]
    #[case::called_off_at_once(70, Some((70, true)), &[])]
    #[case::called_off_unseen(70, Some((30, false)), &[])]
    fn evictions_wait(#[case] at: u64, #[case] gone: Option<(u64, bool)>, #[case] found: &[&str]) {
        let untainted = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}});
        let mut history = History::new(&[untainted, pod("Running", "")]);
        history.happens(10, "nodes/a", Some(node("True", "k")));
        if let Some((gone, is_seen)) = gone {
            history.happens_unseen(
                gone,
                "nodes/a",
                Some(json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "a"}})),
            );
            if is_seen {
                history.informs(gone, "nodes/a");
            }
        }
        history.writes(at, Actor::TaintEviction, "delete pods/p", json!({}), None);
        assert_eq!(judged("taint-eviction", history), found);
    }

    /// The taint of the node goes at `seen`, and the pod comes at 60 s, with a countdown or without. The node may go,
    /// too.
    #[rstest]
    #[case::together(60, false, 60, &[])]
    #[case::the_node_before(59, false, 60, &["early · pods · eviction"])]
    #[case::a_countdown_that_nothing_ends(60, true, 120, &[])]
    #[case::the_node_is_gone_before(59, true, 120, &["early · pods · eviction"])]
    fn the_news_of_a_pod_may_be_read_before_those_of_its_node(
        #[case] seen: u64,
        #[case] goes: bool,
        #[case] evicted: u64,
        #[case] found: &[&str],
    ) {
        let untainted = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}});
        let (mut unbound, mut intolerant) = (pod("Pending", ""), pod("Running", ""));
        unbound["spec"] = json!({});
        if !goes {
            intolerant["spec"] = json!({"nodeName": "a"});
        }
        let mut history = History::new(&[node("True", "k")]);
        history.happens(seen, "nodes/a", Some(untainted));
        history.happens(60, "pods/p", Some(unbound));
        history.happens(60, "pods/p", Some(intolerant));
        if goes {
            history.happens(60, "nodes/a", None);
        }
        history.writes(evicted, Actor::TaintEviction, "delete pods/p", json!({}), None);
        assert_eq!(judged("taint-eviction", history), found);
    }

    #[test]
    fn a_restart_begins_countdowns_again() {
        let mut history = History::new(&[node("True", "k"), pod("Running", "")]);
        history.starts(50);
        history.writes(60, Actor::TaintEviction, "delete pods/p", json!({}), None);
        assert_eq!(judged("taint-eviction", history), ["early · pods · eviction"]);
    }
}
