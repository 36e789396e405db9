//! Oracle `early`: no pod is evicted or collected without a reason that the controller could know.
//!
//! - `PodGC` touches a pod of a node only if the last live read of the node in the same work did not find it, or found
//!   it out of service. It marks an orphan only after its node was missing for 40 s.
//! - Taint eviction deletes a pod whose stay was limited, and over, in a state that it could have in mind. It does not
//!   if the last live read of the node before the deletion says that the pod may stay; and a pod that came to its node
//!   when the taints were known already is deleted only after such a read.
//!
//! Pure. Sources: `pkg/controller/podgc/gc_controller.go` (`discoverDeletedNodes` reads a node before its pods are
//! orphans; `gcTerminating` reads the cache alone, which kubernetes/kubernetes#142331 is about and rule G-057 forbids),
//! `pkg/controller/tainteviction/taint_eviction.go` (`handleNodeUpdate` stores the taints that `handlePodUpdate` meets;
//! 1.36 reads no node live, which kubernetes/kubernetes#119862 and #139992 are about, #140198 adds the read, and rule
//! I-N3 demands it).

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::world::{Key, ObjectStates};
use plumbline::expect::{line, requests};
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::{changes, key_of_request};
use plumbline::explore::knowledge::{Knowledge, KnownStep, Sighting, View};
use plumbline::explore::work::WorkWindow;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::nodes::NodeState;
use plumbline::rules::pods::{DISRUPTION_TARGET, condition, is_terminated};
use plumbline::rules::quarantine::{DELETION_BY_POD_GC, QUARANTINE, THRESHOLD};
use plumbline::rules::taints::{toleration_limit_of, toleration_limit_on};
use plumbline::transcript::{Actor, Attributed as _, Change, EntryKind, Exchange, RecordedJson, TranscriptEntry};
use serde_json::{Value, json};

use super::breaches::of_change;
use super::known::{ReplacedStates, last_read, node_key, pod_states, took_effect};
use super::leader::LeaseView;
use crate::explore::run::explored::ExploredRun;

/// The oracle.
const ORACLE: &str = "early";

/// Returns the first pod that `PodGC` fails or deletes although no live read of its node gave a reason.
pub(super) fn collection(fixture: &Fixture, _: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    if !fixture.controllers.contains(&Controller::PodGc) {
        return Vec::new();
    }
    let threshold = fixture.flags.contains_key(THRESHOLD);
    let found = changes(explored.until_quiet(), Actor::PodGc, "pods").find_map(|(entry, change)| {
        let old = change.old.as_deref()?;
        let node = old["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
        let window = explored.knowledge.window(change.request?);
        let why = match last_read(explored.knowledge, node, window) {
            _ if threshold && is_terminated(old) => return None,
            Some(NodeState::Missing | NodeState::OutOfService) => return None,
            Some(NodeState::There) => "found it in service",
            None => "has had no reply",
        };
        let text = format!(
            "podgc changes pods/{} at {:?}, and its last live read of nodes/{node} {why}",
            change.name, entry.at
        );
        Some(of_change(ORACLE, change, "podgc".to_owned(), entry.at, text))
    });
    found.into_iter().collect()
}

/// Returns the first orphan that `PodGC` marks although the last live read did not find its node missing, or before the
/// node was missing for 40 s, as far as the controller could know.
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
        let is_confirmed = last_read(explored.knowledge, node, window) == Some(NodeState::Missing);
        let begin = explored.entries.get(started).filter(|_| started > 0).map_or(Duration::ZERO, |start| start.at);
        let missing = match seen().find(|sighting| sighting.state.is_none()) {
            Some(sighting) => Some(sighting.at),
            None => seen().next().is_none().then_some(begin),
        };
        let is_over = missing.is_some_and(|since| since + QUARANTINE <= entry.at + explored.record.tolerance);
        let why = match (is_confirmed, is_over) {
            (false, _) => format!("the last live read of nodes/{node} before was not answered 404"),
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
    /// True if the pod came to its node when the taints were known already: the scheduler may know that they are gone.
    needs_read: bool,
}

/// The deadlines of the pods of a known world, by uid.
#[derive(Debug)]
struct KnownDeadlines {
    world: ObjectStates,
    of_pod: BTreeMap<String, Vec<KnownDeadline>>,
    replaced_states: ReplacedStates,
    arrivals: Arrivals,
    lease: LeaseView,
}

impl KnownDeadlines {
    /// Begins with controllers whose informers have all their first lists at `synced`.
    fn new(begin: &ObjectStates, synced: Duration) -> Self {
        let replaced_states = ReplacedStates::default();
        let arrivals = Arrivals { synced, ..Arrivals::default() };
        let world = begin.without_objects();
        Self { world, of_pod: BTreeMap::new(), replaced_states, arrivals, lease: LeaseView::default() }
    }

    /// Records a change of the lease.
    fn lease_changes(&mut self, change: &Change, at: Duration) {
        if self.lease.begins_with(change, at) {
            self.arrivals.begin(at);
            self.of_pod.values_mut().flatten().for_each(|deadline| deadline.needs_read = false);
        }
    }

    /// Records the state of an object that an informer shows.
    fn put(&mut self, key: &Key, sighting: &Sighting<'_>) {
        self.replaced_states.note(key, self.world.get(key), sighting.at);
        self.arrivals.note(key, self.world.get(key), sighting);
        self.world.put(key.clone(), sighting.state.cloned());
    }

    /// Updates the deadlines of the pods of a node, or of a pod, after a sighting.
    fn update(&mut self, is_concerned: impl Fn(&Value) -> bool, position: usize, now: Duration) {
        for (_, pod) in self.world.all("pods").filter(|(_, pod)| is_concerned(pod)) {
            let replaced = self.replaced_states.toleration_limit(pod);
            let is_late = self.arrivals.is_late(pod);
            let deadlines = self.of_pod.entry(metadata::uid(pod).unwrap_or_default().to_owned()).or_default();
            let running = deadlines.last().and_then(|last| last.due);
            let replaced = replaced.filter(|_| running.is_none());
            if let Some(limit) = replaced {
                let due = Some(now.saturating_add(limit));
                deadlines.push(KnownDeadline { position, at: now, due, needs_read: false });
            }
            // A state that does not outlast its instant may remain unseen.
            let before = deadlines.iter().rposition(|deadline| deadline.at < now).unwrap_or_default();
            let possible = deadlines[before..].iter().filter(|deadline| deadline.due.is_some());
            // A countdown that goes on keeps its origin.
            let needs_read = is_late && possible.clone().all(|deadline| deadline.needs_read);
            let possible = possible.filter_map(|deadline| deadline.due).min();
            let due = if let Some(limit) = toleration_limit_of(&self.world, pod) {
                possible.into_iter().chain([now.saturating_add(limit)]).min()
            } else {
                // The deletion of a node ends no countdown.
                let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
                possible.filter(|_| !self.world.all("nodes").any(|(key, _)| key.name == node))
            };
            let is_same = |last: &KnownDeadline| (last.due, last.needs_read) == (due, needs_read);
            if replaced.is_some() || !deadlines.last().is_some_and(is_same) {
                deadlines.push(KnownDeadline { position, at: now, due, needs_read });
            }
        }
    }

    /// Returns the deadlines of a pod that were over at `now` in a state of this window.
    fn over(&self, uid: &str, window: WorkWindow, now: Duration) -> impl Iterator<Item = (Duration, &KnownDeadline)> {
        let deadlines = self.of_pod.get(uid).map_or(&[][..], Vec::as_slice);
        let ends = deadlines.iter().skip(1).map(|next| next.position).chain([usize::MAX]);
        let in_window = deadlines.iter().zip(ends).filter(move |(_, end)| *end > window.begin);
        in_window.filter_map(move |(deadline, _)| Some((deadline.due.filter(|due| *due <= now)?, deadline)))
    }

    /// Returns true if a pod may be evicted at `now`, by what was known in this window.
    ///
    /// The replies to live reads of nodes do not tell which pod they are for. Only if no other pod of the node can be
    /// evicted at that time are they all for this one, and the last decides.
    fn allows(&self, pod: &Value, knowledge: &Knowledge<'_>, window: WorkWindow, now: Duration) -> bool {
        let uid = metadata::uid(pod).unwrap_or_default();
        let Some(due) = self.over(uid, window, now).map(|(due, _)| due).min() else { return false };
        let cached = self.over(uid, window, now).any(|(_, deadline)| !deadline.needs_read);
        let Some(node) = pod["spec"]["nodeName"].as_str() else { return cached };
        // The first try begins with the deadline, and its read may take long.
        let begin = window.begin.min(knowledge.position_at(due));
        let tries = WorkWindow { begin, ..window };
        let reads = knowledge.live_reads(&node_key(node), tries);
        let confirms = |read: Option<&RecordedJson>| read.is_none_or(|node| toleration_limit_on(node, pod).is_some());
        if self.has_other(uid, node, tries, now) {
            return cached || reads.into_iter().any(confirms);
        }
        reads.last().map_or(cached, |read| confirms(*read))
    }

    /// Returns true if another pod of the node can be evicted in this window.
    fn has_other(&self, uid: &str, node: &str, window: WorkWindow, now: Duration) -> bool {
        let others = self.arrivals.pods.iter().filter(|(other, on)| *other != uid && on.node == node);
        let mut there = others.filter(|(_, on)| on.gone.is_none_or(|gone| gone > window.begin));
        there.any(|(other, _)| self.over(other, window, now).next().is_some())
    }
}

/// A pod on a node, as an informer shows it.
#[derive(Debug)]
struct PodOnNode {
    node: String,
    since: Duration,
    /// Number of entries before the moment at which the informer shows that it is gone.
    gone: Option<usize>,
}

/// The times at which pods came to their nodes, and taints to nodes.
#[derive(Debug, Default)]
struct Arrivals {
    /// The time before which the controllers act on nothing.
    synced: Duration,
    /// The time since which a node always had `NoExecute` taints, by name.
    taints: BTreeMap<String, Duration>,
    /// The pods by uid.
    pods: BTreeMap<String, PodOnNode>,
}

impl Arrivals {
    /// Records the state of an object that an informer shows after `old`.
    fn note(&mut self, key: &Key, old: Option<&RecordedJson>, sighting: &Sighting<'_>) {
        let uid = |object: Option<&RecordedJson>| object.and_then(|it| metadata::uid(it)).map(str::to_owned);
        let is_same = uid(old) == uid(sighting.state);
        let now = sighting.at.max(self.synced);
        if key.resource == "nodes" {
            if !is_same || !sighting.state.is_some_and(|node| has_no_execute(node)) {
                self.taints.remove(&key.name);
            }
            if sighting.state.is_some_and(|node| has_no_execute(node)) {
                self.taints.entry(key.name.clone()).or_insert(now);
            }
            return;
        }
        if let Some(gone) = uid(old).filter(|_| !is_same).and_then(|uid| self.pods.get_mut(&uid)) {
            gone.gone = Some(sighting.position);
        }
        let node = sighting.state.and_then(|pod| pod["spec"]["nodeName"].as_str()).filter(|name| !name.is_empty());
        if let Some((uid, node)) = uid(sighting.state).zip(node) {
            let on = PodOnNode { node: node.to_owned(), since: now, gone: None };
            self.pods.entry(uid).or_insert(on).gone = None;
        }
    }

    /// Records that the controllers begin at this moment: they meet all taints and pods at once.
    fn begin(&mut self, at: Duration) {
        self.synced = self.synced.max(at);
        let pods = self.pods.values_mut().map(|on| &mut on.since);
        self.taints.values_mut().chain(pods).for_each(|since| *since = at);
    }

    /// Returns true if the pod came to its node when the taints there were known already. News of the same instant may
    /// be read in any order.
    fn is_late(&self, pod: &Value) -> bool {
        let on = metadata::uid(pod).and_then(|uid| self.pods.get(uid));
        on.is_some_and(|on| self.taints.get(&on.node).is_some_and(|since| *since < on.since))
    }
}

/// Returns true if a node has a taint that evicts pods.
fn has_no_execute(node: &Value) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["effect"] == "NoExecute")
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
    let mut synced = explored.knowledge.first_lists(replica).into_iter();
    let mut first_lists = || synced.next().and_then(|(_, at)| at).unwrap_or(Duration::MAX);
    let mut deadlines = KnownDeadlines::new(begin, first_lists());
    for step in explored.knowledge.steps(replica, View::Possible) {
        match step {
            KnownStep::Starts(_) => deadlines = KnownDeadlines::new(begin, first_lists()),
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
                let exchange = match &entry.what {
                    EntryKind::Request(exchange) => exchange,
                    EntryKind::Change(change) if change.resource == "leases" => {
                        deadlines.lease_changes(change, entry.at);
                        continue;
                    }
                    EntryKind::Change(_) | EntryKind::Note(_) => continue,
                };
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
    let is_meant = |pod: &&RecordedJson| wanted.is_none_or(|wanted| metadata::uid(pod) == Some(wanted));
    let now = entry.at + explored.record.tolerance;
    if known.into_iter().flatten().filter(is_meant).any(|pod| deadlines.allows(pod, explored.knowledge, window, now)) {
        return None;
    }
    let name = exchange.request.name.clone().unwrap_or_default();
    Some(Breach {
        oracle: ORACLE.to_owned(),
        resource: "pods".to_owned(),
        kind: "eviction".to_owned(),
        at: entry.at,
        text: format!(
            "pods/{name} is evicted at {:?}, and may stay in each state that was known, or needed a live read of its \
             node that confirms its taints",
            entry.at
        ),
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
        history.reads(60, Actor::PodGc, "nodes/a");
        let failed = pod("Failed", reason);
        history.writes(60, Actor::PodGc, "patch pods/p/status", json!({"status": {}}), Some(failed));
        assert_eq!(judged("podgc", history), found);
    }

    /// The node of a terminating pod recovers, which no informer shows, at one of these moments, and is read at others.
    #[rstest]
    #[case::after_the_read(&["read", "recovers"], &[])]
    #[case::before_the_read(&["recovers", "read"], &["early · pods · podgc"])]
    #[case::between_two_reads(&["read", "recovers", "read"], &["early · pods · podgc"])]
    #[case::before_the_last_read_it_is_lost_again(&["recovers", "read", "is lost", "read"], &[])]
    #[case::without_a_read(&[], &["early · pods · podgc"])]
    #[case::a_read_that_fails(&["fails"], &["early · pods · podgc"])]
    #[case::a_read_of_the_cycle_before(&["read", "later"], &["early · pods · podgc"])]
    fn the_last_live_read_of_a_node_decides(#[case] moments: &[&str], #[case] found: &[&str]) {
        let mut history = History::new(&[node("False", OUT_OF_SERVICE), pod("Failed", "")]);
        let mut at = 60;
        for moment in moments {
            match *moment {
                "read" => history.reads(at, Actor::PodGc, "nodes/a"),
                "fails" => history.fails(at, Actor::PodGc, "get nodes/a", 500),
                "recovers" => history.happens_unseen(at, "nodes/a", Some(node("True", OUT_OF_SERVICE))),
                "is lost" => history.happens_unseen(at, "nodes/a", Some(node("False", OUT_OF_SERVICE))),
                _ => at += 20,
            }
        }
        history.writes(at, Actor::PodGc, "delete pods/p", json!({}), None);
        assert_eq!(judged("podgc", history), found);
    }

    /// Another controller's read says nothing to `PodGC`.
    #[test]
    fn a_read_is_known_to_its_reader_alone() {
        let mut history = History::new(&[node("False", OUT_OF_SERVICE), pod("Failed", "")]);
        history.reads(60, Actor::TaintEviction, "nodes/a");
        history.writes(60, Actor::PodGc, "delete pods/p", json!({}), None);
        assert_eq!(judged("podgc", history), ["early · pods · podgc"]);
    }

    /// A node goes at 20 s, and its pod is marked at `marked`, with a live read before it if `asks`. The node may be
    /// back before it, which no informer shows.
    #[rstest]
    #[case::after_the_quarantine(60, true, false, &[])]
    #[case::a_second_early(59, true, false, &["early · pods · orphan"])]
    #[case::without_a_live_read(60, false, false, &["early · pods · podgc", "early · pods · orphan"])]
    #[case::the_read_finds_it(60, true, true, &["early · pods · podgc", "early · pods · orphan"])]
    fn orphans_are_confirmed(#[case] marked: u64, #[case] asks: bool, #[case] is_back: bool, #[case] found: &[&str]) {
        let mut history = History::new(&[node("True", "x"), pod("Running", "")]);
        history.happens(20, "nodes/a", None);
        if is_back {
            history.happens_unseen(marked, "nodes/a", Some(node("True", "x")));
        }
        if asks {
            history.reads(marked, Actor::PodGc, "nodes/a");
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

    /// Pods come to a node whose taint was known since the start, and `moments` follow. The taint may have gone, which
    /// no informer shows. Then the pod `p` is evicted.
    #[rstest]
    #[case::confirmed(&["bound", "read"], &[])]
    #[case::without_a_read(&["bound"], &["early · pods · eviction"])]
    #[case::a_read_that_fails(&["bound", "fails"], &["early · pods · eviction"])]
    #[case::the_taint_is_gone(&["bound", "untainted", "read"], &["early · pods · eviction"])]
    #[case::another_taint_is_left(&["bound", "another effect", "read"], &["early · pods · eviction"])]
    #[case::the_node_is_gone(&["bound", "no node", "read"], &[])]
    #[case::the_taint_is_back(&["bound", "untainted", "read", "tainted", "read"], &[])]
    #[case::it_goes_between_two_reads(&["bound", "read", "untainted", "read"], &["early · pods · eviction"])]
    #[case::with_the_start(&["starts", "bound"], &[])]
    #[case::with_a_new_leader(&["bound", "leader"], &[])]
    #[case::with_a_leader_that_had_given_up(&["led 20 s before", "bound", "leader"], &[])]
    #[case::with_a_leader_that_renews(&["led 5 s before", "bound", "leader"], &["early · pods · eviction"])]
    #[case::either_read_may_be_for_the_other_pod(&["bound", "other", "read", "untainted", "read"], &[])]
    #[case::no_read_is_right_for_two(&["bound", "other", "untainted", "read"], &["early · pods · eviction"])]
    fn a_pod_that_comes_after_the_taint_needs_a_live_read(#[case] moments: &[&str], #[case] found: &[&str]) {
        let mut history = History::new(&[node("True", "k")]);
        let intolerant = |name: &str| {
            let mut pod = pod("Running", "");
            pod["spec"] = json!({"nodeName": "a"});
            pod["metadata"]["name"] = json!(name);
            pod["metadata"]["uid"] = json!(format!("uid of {name}"));
            Some(pod)
        };
        let mut weaker = node("True", "k");
        weaker["spec"]["taints"][0]["effect"] = json!("NoSchedule");
        for moment in moments {
            match *moment {
                "bound" => history.happens(60, "pods/p", intolerant("p")),
                "other" => history.happens(60, "pods/q", intolerant("q")),
                "read" => history.reads(60, Actor::TaintEviction, "nodes/a"),
                "fails" => history.fails(60, Actor::TaintEviction, "get nodes/a", 500),
                "another effect" => history.happens_unseen(60, "nodes/a", Some(weaker.clone())),
                "untainted" => history.happens_unseen(60, "nodes/a", Some(node_without_taints())),
                "tainted" => history.happens_unseen(60, "nodes/a", Some(node("True", "k"))),
                "no node" => history.happens_unseen(60, "nodes/a", None),
                "leader" => history.happens_unseen(60, "leases.coordination.k8s.io/l", Some(lease())),
                "led 5 s before" => history.happens_unseen(55, "leases.coordination.k8s.io/l", Some(lease())),
                "led 20 s before" => history.happens_unseen(40, "leases.coordination.k8s.io/l", Some(lease())),
                _ => history.starts(60),
            }
        }
        history.writes(60, Actor::TaintEviction, "delete pods/p", json!({}), None);
        assert_eq!(judged("taint-eviction", history), found);
    }

    fn node_without_taints() -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
    }

    fn lease() -> Value {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "l", "namespace": "default"}, "spec": {"holderIdentity": "replica-1"}})
    }

    #[test]
    fn a_restart_begins_countdowns_again() {
        let mut history = History::new(&[node("True", "k"), pod("Running", "")]);
        history.starts(50);
        history.writes(60, Actor::TaintEviction, "delete pods/p", json!({}), None);
        assert_eq!(judged("taint-eviction", history), ["early · pods · eviction"]);
    }
}
