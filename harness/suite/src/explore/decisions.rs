//! Oracles of single decisions: writes that the objects of that moment do not justify. Pure.
//!
//! | oracle | holds if |
//! |---|---|
//! | `early` | `PodGC` touches a pod of an existing node only if that node is out of service |
//! | `condition` | a pod that `PodGC` fails because its node is gone says so in a condition |
//! | `claim` | a claim of a pod that is still there stays in its budget for two minutes |
//! | `ttl` | the TTL follows the number of nodes with hysteresis |
//! | `repeats` | an Event is counted once for each change |
//!
//! Sources: `pkg/controller/podgc/gc_controller.go`, `pkg/controller/disruption/disruption.go`,
//! `pkg/controller/ttl/ttl_controller.go`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use plumbline::expect::Run;
use plumbline::expect::world::{Key, ObjectStates};
use plumbline::explore::disturbance::FaultTrait;
use plumbline::fixture::{Controller, Fixture};
use plumbline::object_meta;
use plumbline::rules::budgets::{BUDGETS, DELETION_TIMEOUT, selects};
use plumbline::rules::nodes::{NodeState, TTL_ANNOTATION, TTL_RANGES, next_ttl_range};
use plumbline::rules::pods::{DISRUPTION_TARGET, condition, disruption_reason, is_finished, is_terminated};
use plumbline::rules::quarantine::{DELETION_BY_POD_GC, THRESHOLD};
use plumbline::rules::recorder::{SPAM_BURST, count_of, event_of};
use plumbline::transcript::{Actor, Attributed as _, Change, EntryKind, TranscriptEntry};
use serde_json::{Value, json};

use super::evictions::is_taken_back;
use super::oracle::{Breach, ExploredRun};
use super::plan::FaultPlan;
use super::script::{controls_subject, disturbs_watches, has_faults, skew};

/// Time in which controllers learn of a change and act on it.
const AT_ONCE: Duration = Duration::from_millis(500);
/// Time by which each fault delays a write that is already decided, in addition to its own duration.
const DELAY_PER_FAULT: Duration = Duration::from_secs(5);
/// Returns the writes of the run that nothing justifies. Runs in which the controllers learn of changes late are judged
/// by what `PodGC` does alone: it reads a node before it touches the node's pods.
pub(super) fn unjustified(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let plan = explored.plan;
    let own = disturbs_watches(fixture) || controls_subject(fixture) || has_faults(fixture);
    let informed = !(plan.delays_information() || own || plan.has(FaultTrait::Restarts));
    if plan.has(FaultTrait::ChangesHistory) {
        return Vec::new();
    }
    let entries = &explored.entries[..explored.observation.quiet_at.min(explored.entries.len())];
    let run = explored.record.run(explored.entries, explored.record.end);
    let moment = Moments { fixture, run, entries, begin, delay: delay(plan) };
    let mut breaches = Vec::new();
    for controller in &fixture.controllers {
        match controller {
            Controller::PodGc if !has_faults(fixture) => breaches.extend(moment.collected(plan)),
            Controller::Disruption if informed => breaches.extend(moment.claims(plan)),
            Controller::Ttl if informed => breaches.extend(moment.values()),
            _ => {}
        }
    }
    if informed && plan.faults.is_empty() {
        breaches.extend(moment.repeats());
    }
    breaches
}

/// Returns the time between a decision and its write at most.
fn delay(plan: &FaultPlan) -> Duration {
    let delays = plan.faults.iter().map(|(disturbance, _)| disturbance.duration() + DELAY_PER_FAULT);
    AT_ONCE + delays.sum::<Duration>()
}

/// Returns the breach of an oracle by a change.
pub(super) fn breach(oracle: &str, change: &Change, kind: String, at: Duration, text: String) -> Breach {
    let (oracle, resource) = (oracle.to_owned(), change.resource.clone());
    Breach { oracle, resource, kind, at, text, expected: json!({ "quiet": true }) }
}

/// Returns the changes of a resource's objects by `actor`.
pub(super) fn changes<'e>(
    entries: &'e [TranscriptEntry],
    actor: Actor,
    resource: &'static str,
) -> impl Iterator<Item = (&'e TranscriptEntry, &'e Change)> {
    entries.iter().filter_map(move |entry| match &entry.what {
        EntryKind::Change(change) if change.resource == resource && entry.actor() == actor => {
            Some((entry, change.as_ref()))
        }
        _ => None,
    })
}

/// A run to judge.
struct Moments<'a> {
    fixture: &'a Fixture,
    run: Run<'a>,
    /// The entries until the quiet window ends.
    entries: &'a [TranscriptEntry],
    begin: &'a ObjectStates,
    delay: Duration,
}

impl Moments<'_> {
    /// Returns the first pod that `PodGC` fails or deletes without a reason, and the first without its condition.
    fn collected(&self, plan: &FaultPlan) -> Option<Breach> {
        let threshold = self.fixture.flags.contains_key(THRESHOLD);
        let mut nodes = None;
        changes(self.entries, Actor::PodGc, "pods").find_map(|(entry, change)| {
            let old = change.old.as_deref()?;
            let node = old["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
            let nodes = nodes.get_or_insert_with(|| NodeTimes::new(self.begin, self.entries));
            let from = entry.at.saturating_sub(self.delay);
            let was = |state: NodeState| nodes.was(node, state, from, entry.at);
            let (name, at) = (&change.name, entry.at);
            let lost = was(NodeState::Missing) || was(NodeState::OutOfService);
            if !(lost || threshold && is_terminated(old)) {
                let text = format!("podgc changes pods/{name} at {at:?}, and nodes/{node} is not out of service");
                return Some(breach("early", change, "podgc".to_owned(), at, text));
            }
            let new = change.new.as_deref()?;
            let fails = !is_finished(old) && is_finished(new);
            let gone = !was(NodeState::There) && !was(NodeState::OutOfService);
            let taken_back = !plan.faults.is_empty() && is_taken_back(new, DELETION_BY_POD_GC);
            (fails && gone && !says_why(new) && !taken_back).then(|| {
                let text = format!("pods/{name} fails at {at:?} because nodes/{node} is gone; no condition says so");
                breach("condition", change, "podgc".to_owned(), at, text)
            })
        })
    }

    /// Returns the first claim that is dropped too soon.
    fn claims(&self, plan: &FaultPlan) -> Option<Breach> {
        let by_clock = plan.faults.iter().any(|(disturbance, _)| disturbance.steps_clock());
        if by_clock || plan.has(FaultTrait::DelaysRequest) || !skew(self.fixture).is_zero() {
            return None;
        }
        changes(self.entries, Actor::Disruption, BUDGETS).find_map(|(entry, change)| {
            let (old, new) = (change.old.as_deref()?, change.new.as_deref()?);
            let now = self.run.start.checked_add(entry.at).ok()?;
            let claimed = old["status"]["disruptedPods"].as_object()?.iter();
            let dropped = claimed.filter(|(pod, _)| new["status"]["disruptedPods"].get(pod).is_none());
            let soon = |since: &Value| {
                let since: Option<Timestamp> = since.as_str().and_then(|text| text.parse().ok());
                since.is_some_and(|since| now.duration_since(since) <= DELETION_TIMEOUT)
            };
            let mut early = dropped.filter(|(_, since)| soon(since)).map(|(pod, _)| pod);
            let pod = early.find(|pod| self.is_selected(old, change, pod, entry.seq))?;
            let text = format!("pdb/{}: the claim of pods/{pod} is dropped at {:?}, too early", change.name, entry.at);
            Some(breach("claim", change, "is dropped".to_owned(), entry.at, text))
        })
    }

    /// Returns true if the budget's selector selects a pod that is not being deleted.
    fn is_selected(&self, budget: &Value, change: &Change, pod: &str, seq: usize) -> bool {
        let world = self.begin.clone().after(&self.run.entries[..seq.min(self.run.entries.len())]);
        let key = Key {
            group: String::new(),
            resource: "pods".to_owned(),
            namespace: change.namespace.clone(),
            name: pod.to_owned(),
        };
        world.get(&key).is_some_and(|pod| {
            !object_meta::is_terminating(pod) && selects(&budget["spec"]["selector"], object_meta::labels(pod))
        })
    }

    /// Returns the first TTL that does not follow from the number of nodes.
    fn values(&self) -> Option<Breach> {
        let mut steps = None;
        changes(self.entries, Actor::Ttl, "nodes").find_map(|(entry, change)| {
            let value = object_meta::annotation(change.new.as_deref()?, TTL_ANNOTATION)?;
            let steps = steps.get_or_insert_with(|| ttl_steps(self.begin.all("nodes").count(), self.entries));
            let from = entry.at.saturating_sub(self.delay);
            let before = steps.partition_point(|(at, _)| *at <= from).saturating_sub(1);
            let possible = steps[before..].iter().take_while(|(at, _)| *at <= entry.at);
            let mut values = possible.map(|(_, step)| TTL_RANGES[*step].2);
            (!values.any(|possible| possible == value)).then(|| {
                let wanted = steps.iter().rev().find(|(at, _)| *at <= entry.at).map_or("", |(_, it)| TTL_RANGES[*it].2);
                let text = format!("nodes/{} gets the TTL {value} at {:?} instead of {wanted}", change.name, entry.at);
                breach("ttl", change, "value".to_owned(), entry.at, text)
            })
        })
    }

    /// Returns the first Event that is counted more often in an instant than anything changed. Objects with many Events
    /// are left out: those that the recorder's limit holds back are counted with the next one that it sends.
    fn repeats(&self) -> Option<Breach> {
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        for instant in self.entries.chunk_by(|one, next| one.at == next.at) {
            let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
            let mut causes = 0;
            for entry in instant {
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
                        return Some(breach("repeats", change, entry.actor().to_string(), entry.at, text));
                    }
                }
            }
        }
        None
    }
}

/// Returns true if a condition says that `PodGC` deletes the pod, with a message, and about a generation that it had.
fn says_why(pod: &Value) -> bool {
    let is_whole = condition(pod, DISRUPTION_TARGET).is_some_and(|found| {
        let (about, current) = (found["observedGeneration"].as_i64(), object_meta::generation(pod));
        let is_about_pod = current.is_none() || about.is_some() && about <= current;
        found["message"] != "" && !found["message"].is_null() && is_about_pod
    });
    disruption_reason(pod, "True") == Some(DELETION_BY_POD_GC) && is_whole
}

/// The states of all nodes over time.
struct NodeTimes(BTreeMap<String, Vec<(Duration, NodeState)>>);

impl NodeTimes {
    fn new(begin: &ObjectStates, entries: &[TranscriptEntry]) -> Self {
        let initial =
            begin.all("nodes").map(|(key, node)| (key.name.clone(), vec![(Duration::ZERO, NodeState::of(node))]));
        let mut times: BTreeMap<String, Vec<(Duration, NodeState)>> = initial.collect();
        for entry in entries {
            let EntryKind::Change(change) = &entry.what else { continue };
            if change.resource == "nodes" {
                let state = change.new.as_deref().map_or(NodeState::Missing, NodeState::of);
                let missing = || vec![(Duration::ZERO, NodeState::Missing)];
                times.entry(change.name.clone()).or_insert_with(missing).push((entry.at, state));
            }
        }
        Self(times)
    }

    /// Returns true if the node was in `state` at some time of this period, both ends included.
    fn was(&self, node: &str, state: NodeState, from: Duration, until: Duration) -> bool {
        let Some(times) = self.0.get(node) else { return state == NodeState::Missing };
        let ends = times.iter().skip(1).map(|(at, _)| *at).chain([Duration::MAX]);
        times.iter().zip(ends).any(|((begin, found), end)| *found == state && *begin <= until && end >= from)
    }
}

/// Returns the times at which the TTL changes, each with its place in [`TTL_RANGES`]. A controller that starts counts
/// the nodes one by one.
fn ttl_steps(nodes: usize, entries: &[TranscriptEntry]) -> Vec<(Duration, usize)> {
    let (mut count, mut step) = (nodes, 0);
    while count > TTL_RANGES[step].1 {
        step += 1;
    }
    let mut steps = vec![(Duration::ZERO, step)];
    for entry in entries {
        let EntryKind::Change(change) = &entry.what else { continue };
        match (change.resource.as_str(), change.old.is_some(), change.new.is_some()) {
            ("nodes", false, true) => count += 1,
            ("nodes", true, false) => count = count.saturating_sub(1),
            _ => continue,
        }
        step = next_ttl_range(step, count);
        steps.push((entry.at, step));
    }
    steps
}

#[cfg(test)]
pub(super) mod tests {
    use plumbline::rules::nodes::OUT_OF_SERVICE;
    use plumbline::transcript::{ChangeKind, Origin, RecordedJson, RecordedReply, RecordedRequest, Transcript};
    use rstest::rstest;

    use super::*;

    /// Records a change of an object without a namespace.
    pub(in crate::explore) fn change(
        transcript: &Transcript,
        at: u64,
        actor: Option<&str>,
        resource: &str,
        objects: [Option<Value>; 2],
    ) {
        change_in(None, transcript, at, actor, resource, objects);
    }

    /// Records a change of an object in a namespace.
    pub(in crate::explore) fn change_in(
        namespace: Option<&str>,
        transcript: &Transcript,
        at: u64,
        actor: Option<&str>,
        resource: &str,
        objects: [Option<Value>; 2],
    ) {
        let origin = actor.map_or(Origin::Server, |name| Origin::client(&format!("x/1 {name}"), ""));
        let [old, new] = objects.map(|object| object.map(RecordedJson::from));
        let kind = match (&old, &new) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Deleted,
            _ => ChangeKind::Modified,
        };
        let change = Change {
            request: None,
            kind,
            group: String::new(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "a".to_owned(),
            resource_version: at,
            old,
            new,
        };
        transcript.change(Duration::from_secs(at), origin, change);
    }

    /// Records a request of the client `name` and its reply.
    pub(in crate::explore) fn exchange(
        transcript: &Transcript,
        at: Duration,
        name: &str,
        request: RecordedRequest,
        reply: RecordedReply,
    ) {
        let agent = format!("x/1 {name}");
        let request = RecordedRequest { user_agent: agent.clone(), ..request };
        let seq = transcript.request(at, Origin::client(&agent, ""), request);
        transcript.reply(seq, reply);
    }

    /// Judges a run without faults that has this transcript and began with these objects.
    pub(in crate::explore) fn judged_by<T>(
        controller: &str,
        transcript: &Transcript,
        initial: Vec<Value>,
        judge: impl FnOnce(&Fixture, &ObjectStates, ExploredRun<'_>) -> T,
    ) -> T {
        let text = format!(
            "promise: x\nrule: T-001\nlevel: provisional\nfeature: ttl.annotation\ncontrollers: [{controller}]\nsteps:\n- \
             {{ at: 1s, expect: {{ quiet: true }} }}\n"
        );
        let (fixtures, problems) = plumbline::fixture::parse::read(std::path::Path::new("a.yaml"), "faults", &text);
        assert!(problems.is_empty(), "{problems:?}");
        let record = crate::runner::RunRecord {
            initial: initial.into_iter().map(RecordedJson::from).collect(),
            ..crate::runner::RunRecord::default()
        };
        let entries = transcript.entries();
        let observation = crate::explore::observation::Observation { quiet_at: entries.len(), ..Default::default() };
        let plan = FaultPlan::calm("faults/a");
        let explored = ExploredRun { plan: &plan, record: &record, entries: &entries, observation: &observation };
        let begin = ObjectStates::new(&record.run(&entries, Duration::ZERO), "default");
        judge(&fixtures[0], &begin, explored)
    }

    fn judged(controller: &str, transcript: &Transcript, initial: Vec<Value>) -> Vec<String> {
        judged_by(controller, transcript, initial, |fixture, begin, explored| {
            unjustified(fixture, begin, explored).into_iter().map(|breach| breach.fingerprint()).collect()
        })
    }

    fn node(ready: &str, taint: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn pod(phase: &str, reason: &str) -> Value {
        json!({"metadata": {"generation": 1}, "spec": {"nodeName": "a"}, "status": {"phase": phase,
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "gone",
                "observedGeneration": 1}]}})
    }

    #[rstest]
    #[case::out_of_service(Some(node("False", OUT_OF_SERVICE)), "", &[])]
    #[case::ready(Some(node("True", OUT_OF_SERVICE)), "", &["early · pods · podgc"])]
    #[case::another_taint(Some(node("False", "k")), "DeletionByPodGC", &["early · pods · podgc"])]
    #[case::gone(None, "DeletionByPodGC", &[])]
    #[case::gone_without_a_word(None, "", &["condition · pods · podgc"])]
    fn podgc_has_a_reason(#[case] node: Option<Value>, #[case] reason: &str, #[case] found: &[&str]) {
        let transcript = Transcript::new();
        let pods = [Some(pod("Running", "")), Some(pod("Failed", reason))];
        change(&transcript, 60, Some("pod-garbage-collector"), "pods", pods);
        assert_eq!(judged("podgc", &transcript, node.into_iter().collect()), found);
    }

    #[rstest]
    #[case::whole("message", json!("gone"), true)]
    #[case::without_a_message("message", json!(""), false)]
    #[case::of_no_generation("observedGeneration", json!(null), false)]
    #[case::of_a_later_generation("observedGeneration", json!(2), false)]
    fn a_condition_says_why(#[case] field: &str, #[case] value: Value, #[case] says: bool) {
        let mut pod = pod("Failed", "DeletionByPodGC");
        pod["status"]["conditions"][0][field] = value;
        assert_eq!(says_why(&pod), says);
    }

    #[rstest]
    #[case::recovered_at_once(60, &[])]
    #[case::recovered_before(50, &["early · pods · podgc"])]
    fn a_recovery_counts(#[case] at: u64, #[case] found: &[&str]) {
        let transcript = Transcript::new();
        let (lost, well) = (node("False", OUT_OF_SERVICE), node("True", OUT_OF_SERVICE));
        change(&transcript, at, None, "nodes", [Some(lost.clone()), Some(well)]);
        change(&transcript, 60, Some("pod-garbage-collector"), "pods", [Some(pod("Failed", "")), None]);
        assert_eq!(judged("podgc", &transcript, vec![lost]), found);
    }

    #[rstest]
    #[case::after_two_minutes(121, true)]
    #[case::in_the_last_instant(120, false)]
    fn claims_last_two_minutes(#[case] at: u64, #[case] fine: bool) {
        let transcript = Transcript::new();
        let budget = |claims: Value| json!({"metadata": {"name": "a"}, "spec": {"selector": {}}, "status": {"disruptedPods": claims}});
        let begin = budget(json!({"p": "1970-01-01T00:00:00Z"}));
        let budgets = [Some(begin), Some(budget(json!({})))];
        change(&transcript, at, Some("disruption-controller"), "poddisruptionbudgets", budgets);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
        let found = judged("disruption", &transcript, vec![pod]);
        assert_eq!(found.is_empty(), fine, "{found:?}");
    }

    #[rstest]
    #[case::rises_above_100(100, true, "15", true)]
    #[case::not_before(99, true, "15", false)]
    #[case::stays_at_90(101, false, "15", true)]
    #[case::does_not_fall_at_100(101, false, "0", false)]
    fn the_ttl_has_hysteresis(#[case] nodes: usize, #[case] grows: bool, #[case] value: &str, #[case] fine: bool) {
        let transcript = Transcript::new();
        let annotated = |value: &str| json!({"metadata": {"name": "a", "annotations": {TTL_ANNOTATION: value}}});
        let one = Some(annotated(""));
        change(&transcript, 10, None, "nodes", if grows { [None, one] } else { [one, None] });
        change(&transcript, 10, Some("ttl-controller"), "nodes", [Some(annotated("")), Some(annotated(value))]);
        let named = |number| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")}});
        assert_eq!(judged("ttl", &transcript, (0..nodes).map(named).collect()).is_empty(), fine);
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
