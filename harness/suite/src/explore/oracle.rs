//! Oracles: judge a run with faults without the expectations of its fixture. Pure.
//!
//! | oracle | holds if |
//! |---|---|
//! | `invariant NAME` | the always-on invariant holds at each step |
//! | `alive` | the controllers neither panic nor end by themselves, and stop when asked |
//! | `end state` | after the faults have ended and time has passed, the objects are those of the run without faults |
//! | `quiet` | converged controllers do not write |
//! | `fresh` | controllers that start on the final state change nothing: no key was lost, no cache is stale |
//! | `model` | the objects agree with each other: numbers of budgets, TTL values, no pods on lost or tainted nodes |
//! | `uid` | the subject writes to no object that is newer than the request, or that it has just seen gone |
//! | `late` | what the run without faults writes is not written much later than the faults explain, evictions neither |
//! | `early` | no pod is evicted or collected of which the controllers know that it may stay |
//! | `condition`, `claim`, `ttl`, `repeats` | single writes are justified, see [`super::decisions`] |
//! | `event` | Events say what the controllers do, see [`super::events`] |
//! | `retry` | failed requests are repeated when the work queue's back-off ends, see [`super::retries`] |
//! | `quarantine` | no orphan is collected less than 40 s after the first cycle without its node |
//! | `server` | dry runs change nothing, and preconditions that hold refuse nothing |
//! | `metrics` | no measured time is longer than the run, and deletions are counted by their reasons |
//! | `clock` | durations are not measured on the wall clock |
//! | `leader` | a replica that has lost the lease sends no write |
//! | `writes` | an object is not written more often than the run without faults and the faults explain |
//!
//! A fault can legitimately change the outcome: an eviction that a crash delays can be called off by a later step. So
//! the end states are compared only if the state before each step, and the reply to it, are those of the run without
//! faults. The other oracles hold for every history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use plumbline::expect::world::ObjectStates;
use plumbline::expect::{BrokenPromise, Run, is_subject_write, requests};
use plumbline::explore::disturbance::{Disturbance, FaultTrait};
use plumbline::explore::point::{FaultPoint, Site};
use plumbline::explore::state::{ChangedObjects, StateDifference, changed_objects, differences};
use plumbline::fixture::pattern::Verb;
use plumbline::fixture::{Effect, Fault, Fixture};
use plumbline::invariants::{self, STORM};
use plumbline::object_meta;
use plumbline::rules::budgets::{BUDGET_STATUS, BUDGETS, says_sync_failed};
use plumbline::rules::nodes::{TTL_ANNOTATION, allows_ttl};
use plumbline::rules::quarantine::{CYCLE, THRESHOLD};
use plumbline::rules::queue::MAX_DELAY;
use plumbline::transcript::{Actor, Attributed as _, Change, EntryKind, Exchange, RecordedRequest, TranscriptEntry};
use serde_json::{Value, json};

use super::equal::Moment;
use super::evictions::{is_bound_uninformed, is_marked_over};
use super::model::{self, ModelMoment};
use super::observation::{Observation, SubjectWrite, WriteKey};
use super::plan::FaultPlan;
use super::script::{countdown, has_faults, stays_uninformed};
use super::{deadlines, decisions, events, exceptions, metrics, quarantine, replicas, rest, retries, server, uids};
use crate::runner::{RunError, RunRecord};

/// The oracle of the way in which a run ends.
pub const ALIVE: &str = "alive";
/// The oracle of the models.
pub const MODEL: &str = "model";
/// Time after which a write counts as late, in addition to that of the faults. A node that cannot be read waits another
/// 40 s in quarantine, until the cycle after that.
const LATE: Duration = Duration::from_secs(90);
/// Number of answers by a fixture's own faults above which its outcome depends on the number of failures: controllers
/// may give up after several.
const OWN_FAULTS: usize = 2;
/// Time after a fault in which the subject may not know the current state.
const UNINFORMED: Duration = Duration::from_mins(1);
/// Time before a fault from which its event may be held.
const SOON: Duration = Duration::from_millis(1);
/// Additional writes of an object that each fault explains.
const WRITES_PER_FAULT: u32 = 2;
/// Additional writes of an object that changed timing explains.
const WRITES_BY_TIMING: u32 = 2;

/// The run of a fixture without faults.
#[derive(Debug, Clone)]
pub struct ReferenceRun {
    /// The fixture.
    pub fixture: Arc<Fixture>,
    /// The points at which faults can happen.
    pub points: Vec<FaultPoint>,
    /// The circumstances of each point.
    pub moments: Vec<Moment>,
    /// An upper bound of the number of objects of each resource, see [`populations`](super::equal::populations).
    pub populations: BTreeMap<String, usize>,
    /// The facts of the run.
    pub observation: Observation,
    /// The objects that the run changed, at the end of the quiet window.
    pub objects: ChangedObjects,
    /// True if the subject elects a leader.
    pub elects: bool,
    /// The names of the oracles that the run breaks without any fault.
    pub broken: Vec<String>,
    /// The marks of the run, see [`super::marks`].
    pub marks: BTreeSet<String>,
}

/// A breach of an oracle by a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The oracle.
    pub oracle: String,
    /// The resource of the object concerned; empty if it concerns none.
    pub resource: String,
    /// The kind of the breach; equal for breaches with the same cause.
    pub kind: String,
    /// Time of the breach, as an offset from the start.
    pub at: Duration,
    /// Description with the object and its values.
    pub text: String,
    /// The checks of a fixture that this breach fails. Invariants need none: they are always checked.
    pub expected: Value,
}

impl Breach {
    /// Creates the breach of a run that ended in the wrong way.
    #[must_use]
    pub fn of_ending(kind: &str, at: Duration, text: String) -> Self {
        let (oracle, kind) = (ALIVE.to_owned(), kind.to_owned());
        Self { oracle, resource: String::new(), kind, at, text, expected: json!({ "quiet": true }) }
    }

    /// Returns the text that is equal for breaches with the same cause.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let parts = [&self.oracle, &self.resource, &self.kind];
        parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join(" · ")
    }
}

/// The result of a run with faults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OracleVerdict {
    /// The breaches, in order of the oracles.
    pub breaches: Vec<Breach>,
    /// True if a fault changed the history, so that the end states were not compared.
    pub diverged: bool,
    /// The reason if the plan cannot be run with this fixture.
    pub unfit: Option<String>,
}

/// A run to judge.
#[derive(Debug, Clone, Copy)]
pub struct ExploredRun<'a> {
    /// The plan.
    pub plan: &'a FaultPlan,
    /// The record of the run.
    pub record: &'a RunRecord,
    /// The entries of its transcript.
    pub entries: &'a [TranscriptEntry],
    /// The facts of the run.
    pub observation: &'a Observation,
}

/// Judges a run by `reference`, the run of the same fixture without faults.
#[must_use]
pub fn judge(reference: &ReferenceRun, explored: ExploredRun<'_>) -> OracleVerdict {
    let OracleVerdict { mut breaches, unfit, .. } = judge_alone(&reference.fixture, explored);
    breaches.retain(|breach| !reference.broken.contains(&breach.oracle));
    if unfit.is_some() || breaches.iter().any(|breach| breach.oracle == ALIVE) {
        return OracleVerdict { breaches, diverged: false, unfit };
    }
    let (normal, found) = (&reference.observation, explored.observation);
    let about_failures = normal.faulted > OWN_FAULTS || stays_uninformed(&reference.fixture);
    let changed = explored.plan.has(FaultTrait::ChangesHistory);
    let diverged = changed
        || displaces_refusal(&reference.fixture, explored.plan)
        || normal.replies != found.replies
        || normal.boundaries != found.boundaries;
    if !diverged && !about_failures {
        if normal.state != found.state {
            breaches.extend(end_state(reference, explored));
        }
        breaches.extend(writes(normal, explored));
        breaches.extend(late(reference, explored));
        breaches.extend(deadlines::follows_wall_clock(reference, explored));
        breaches.extend(deadlines::lost_event(reference, explored));
    }
    if !about_failures && !reference.broken.iter().any(|oracle| oracle == "late") {
        breaches.extend(deadlines::stays_away(&reference.fixture, explored));
    }
    let held = |write: &SubjectWrite| is_held(&reference.fixture, explored, write);
    let waits = |write: &SubjectWrite| held(write) || deadlines::is_backed_off(explored, &write.key, write.at);
    if normal.late.is_empty()
        && let Some(write) = found.late.iter().find(|write| !waits(write))
    {
        breaches.push(breach("quiet", write, format!("{} after everything has converged", write.text)));
    }
    let restarted_differently = |write: &&SubjectWrite| {
        let same_actor = normal.fresh.iter().any(|other| other.key.actor == write.key.actor);
        // Near a bound the TTL depends on the history of the number of nodes, which a restart loses.
        let is_ttl = write.key.actor == Actor::Ttl && (changed || had_right_ttl(&reference.fixture, explored, write));
        // A fault that first happens to the fresh controllers explains what they write.
        let faulted = || {
            let since = explored.observation.quiet_at.min(write.seq);
            requests(&explored.entries[since..write.seq.min(explored.entries.len())])
                .any(|(_, exchange)| exchange.reply.as_ref().is_none_or(|reply| reply.fault.is_some()))
        };
        !same_actor && !is_ttl && !held(write) && !faulted()
    };
    if !about_failures && let Some(write) = found.fresh.iter().find(restarted_differently) {
        let text = format!("{}: controllers that start on the final state still change it", write.text);
        breaches.push(breach("fresh", write, text));
    }
    breaches.retain(|breach| {
        !exceptions::is_listed(&reference.fixture.id, &breach.oracle) && !is_late_owner(breach, explored)
    });
    OracleVerdict { breaches, diverged, unfit: None }
}

/// Returns true for a budget whose numbers follow an owner of which the subject learns late: the deletion of an owner,
/// and the scale of one, lead to no sync by themselves, as upstream.
fn is_late_owner(breach: &Breach, explored: ExploredRun<'_>) -> bool {
    const OWNERS: [&str; 4] = ["replicasets", "replicationcontrollers", "statefulsets", "deployments"];
    let owner_changes_within = |from: Duration, until: Duration| {
        explored.entries.iter().any(|entry| match &entry.what {
            EntryKind::Change(change) => (from..=until).contains(&entry.at) && OWNERS.contains(&&*change.resource),
            _ => false,
        })
    };
    let is_late = |(disturbance, point): &(Disturbance, FaultPoint)| match disturbance.cut_off() {
        // Afterwards each informer lists its objects again, and pods may come before their owners.
        Some(_) => owner_changes_within(point.at, point.at + disturbance.duration()),
        None => disturbance.delays_information(point) && OWNERS.contains(&&*point.target.resource.plural),
    };
    breach.resource.starts_with(BUDGETS)
        && ["end state", "fresh", MODEL].contains(&breach.oracle.as_str())
        && explored.plan.faults.iter().any(is_late)
}

/// Judges a run without faults: there is nothing to compare it with.
#[must_use]
pub fn judge_alone(fixture: &Fixture, explored: ExploredRun<'_>) -> OracleVerdict {
    let (mut breaches, unfit) = ends(explored.record);
    if unfit.is_none() {
        let run = explored.record.run(explored.entries, explored.record.end);
        let begin = ObjectStates::new(&run, &fixture.given.namespace);
        breaches.extend(broken_invariants(fixture, &begin, explored));
        breaches.extend(decisions::unjustified(fixture, &begin, explored));
        breaches.extend(events::breaches(fixture, &begin, explored));
        breaches.extend(retries::untimely(fixture, explored));
        breaches.extend(quarantine::too_short(fixture, explored));
        let informed = !stays_uninformed(fixture);
        if informed && breaches.iter().all(|breach| breach.oracle != ALIVE) {
            breaches.extend(broken_models(fixture, &begin, explored));
            breaches.extend(uids::unknown_objects(explored.entries));
            breaches.extend(uids::seen_gone(explored.entries));
            breaches.extend(replicas::writes_after_loss(explored.entries));
            breaches.extend(deadlines::overdue(fixture, &begin, explored));
            breaches.extend(deadlines::needless(fixture, &begin, explored));
            breaches.extend(server::misbehaves(&begin, explored));
            breaches.extend(metrics::impossible(&explored.record.scrapes));
            breaches.extend(metrics::miscounted(fixture, explored));
        }
    }
    OracleVerdict { breaches, diverged: false, unfit }
}

/// Judges a run without faults by the oracles that otherwise compare with it: converged controllers do not write, and
/// fresh ones agree with the final state.
#[must_use]
pub fn judge_calm(fixture: &Fixture, explored: ExploredRun<'_>) -> Vec<Breach> {
    let observation = explored.observation;
    let held = |write: &SubjectWrite| is_held(fixture, explored, write);
    let late = observation.late.iter().find(|write| !held(write));
    let late = late.map(|write| breach("quiet", write, format!("{} after everything has converged", write.text)));
    // Near a bound the TTL depends on the history of the number of nodes, which a restart loses.
    let fresh = observation.fresh.iter().find(|write| write.key.actor != Actor::Ttl && !held(write));
    let fresh = fresh.map(|write| {
        let text = format!("{}: controllers that start on the final state still change it", write.text);
        breach("fresh", write, text)
    });
    late.into_iter().chain(fresh).collect()
}

/// Compares the converged objects with each other, and those between the steps of a run without faults.
fn broken_models(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let entries = &explored.entries[..explored.observation.quiet_at.min(explored.entries.len())];
    let sizes = numbers_of_nodes(begin, entries);
    let world = begin.clone().after(entries);
    let end = SignedDuration::try_from(explored.record.end).unwrap_or_default();
    let now = explored.record.start.checked_add(end).unwrap_or_default();
    let to_breach = |(at, found): (Duration, model::ModelBreach)| Breach {
        oracle: MODEL.to_owned(),
        resource: found.key.resource,
        kind: found.kind,
        at,
        text: found.text,
        expected: found.expected,
    };
    let moment = ModelMoment { now, sizes, calm: rest::is_calm(fixture, explored) };
    let at_end = model::breaches(&world, fixture, moment).into_iter().map(|found| (explored.record.end, found));
    rest::disagreement(fixture, begin, explored).into_iter().chain(at_end).map(to_breach).collect()
}

/// Returns the smallest and the largest number of nodes of a history.
fn numbers_of_nodes(begin: &ObjectStates, entries: &[TranscriptEntry]) -> (usize, usize) {
    let mut count = begin.all("nodes").count();
    let (mut least, mut most) = (count, count);
    for entry in entries {
        let EntryKind::Change(change) = &entry.what else { continue };
        match (change.resource.as_str(), change.old.is_some(), change.new.is_some()) {
            ("nodes", false, true) => count += 1,
            ("nodes", true, false) => count = count.saturating_sub(1),
            _ => {}
        }
        (least, most) = (least.min(count), most.max(count));
    }
    (least, most)
}

/// Returns true if a fault of the plan lets a request take effect that a fault of the fixture itself refuses. Then the
/// end is another one.
fn displaces_refusal(fixture: &Fixture, plan: &FaultPlan) -> bool {
    let refuses = |effect: &Effect| match effect {
        Effect::Reply { applied, .. } | Effect::Drop { applied } => !applied,
        _ => false,
    };
    plan.faults.iter().any(|(disturbance, FaultPoint { site, target, .. })| {
        let Site::Request(verb) = site else { return false };
        !disturbance.is(FaultTrait::IsPlain)
            && fixture.given.faults.iter().any(|fault| {
                let own = &fault.on.target;
                refuses(&fault.effect)
                    && (fault.on.verb == *verb || fault.on.verb == Verb::Any)
                    && own.subresource == target.subresource
                    && own.covers(
                        &target.resource.group,
                        &target.resource.plural,
                        target.namespace.as_deref(),
                        &target.name,
                    )
            })
    })
}

/// Returns the times at which the run created each object for the last time, by resource, namespace and name.
fn creations(entries: &[TranscriptEntry]) -> BTreeMap<(&str, &str, &str), Duration> {
    let mut creations = BTreeMap::new();
    for entry in entries {
        if let EntryKind::Change(change) = &entry.what
            && change.old.is_none()
        {
            let namespace = change.namespace.as_deref().unwrap_or_default();
            creations.insert((change.resource.as_str(), namespace, change.name.as_str()), entry.at);
        }
    }
    creations
}

/// Returns the first write that comes later than the faults explain. A write to an object that was created after the
/// usual time is no late one: the usual write was to another object of that name.
fn late(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Option<Breach> {
    let plan = explored.plan;
    let delay: Duration = plan.faults.iter().map(|(disturbance, _)| disturbance.duration() + LATE).sum();
    // After each restart countdowns begin again, and a taint that was never seen begins none.
    let repeats = |(disturbance, point): &&(Disturbance, FaultPoint)| {
        disturbance.is(FaultTrait::Restarts) || disturbance.delays_information(point)
    };
    let repeats = u32::try_from(plan.faults.iter().filter(repeats).count()).unwrap_or(u32::MAX);
    let delay = delay + (countdown(&reference.fixture) + LATE) * repeats;
    // A budget whose sync fails for other reasons, too, waits for the whole back-off after one more failure.
    let is_refused = plan.faults.iter().any(|(disturbance, _)| disturbance.refusals() > 0);
    // What a late fault causes is not late.
    let last = plan.faults.iter().map(|(_, point)| point.at).max().unwrap_or_default();
    let normal = &reference.observation.last_writes;
    let creations = creations(&explored.entries[..explored.observation.quiet_at.min(explored.entries.len())]);
    let creation = |key: &WriteKey| {
        let resource = key.resource.split('/').next().unwrap_or_default();
        creations.get(&(resource, key.namespace.as_str(), key.name.as_str())).copied().unwrap_or_default()
    };
    let found = explored.observation.last_writes.iter().find_map(|(key, at)| {
        let usual = normal.get(key).filter(|usual| key.resource != "events" && creation(key) <= **usual)?;
        let delay = delay + if is_refused && key.resource == BUDGET_STATUS { MAX_DELAY } else { Duration::ZERO };
        let is_late = *at > last.max(*usual) + delay && !deadlines::is_backed_off(explored, key, *at);
        is_late.then_some((key, *at, *usual))
    });
    found.map(|(key, at, usual): (&WriteKey, Duration, Duration)| Breach {
        oracle: "late".to_owned(),
        resource: key.resource.clone(),
        kind: format!("{} {}", key.actor, key.verb),
        at,
        text: format!("{key} at {at:?}; without the fault at {usual:?}"),
        expected: json!({ "quiet": true }),
    })
}

fn breach(oracle: &str, write: &SubjectWrite, text: String) -> Breach {
    let kind = format!("{} {}", write.key.actor, write.key.verb);
    let (oracle, resource) = (oracle.to_owned(), write.key.resource.clone());
    Breach { oracle, resource, kind, at: write.at, text, expected: json!({ "quiet": true }) }
}

/// Returns breaches by the way in which the run ended, or the reason why the run says nothing about the subject.
fn ends(record: &RunRecord) -> (Vec<Breach>, Option<String>) {
    let mut breaches = Vec::new();
    let mut unfit = record.skip.clone();
    for error in &record.errors {
        let kind = match **error {
            RunError::Ended { .. } => "the controllers end by themselves",
            RunError::Panic(_) => "a panic",
            RunError::Stop(_) => "the controllers do not stop",
            _ => {
                unfit.get_or_insert_with(|| error.to_string());
                continue;
            }
        };
        breaches.push(Breach::of_ending(kind, record.end, error.to_string()));
    }
    (breaches, unfit)
}

/// Checks the invariants. A violation by a request that the server refused counts only if refusal cannot excuse it.
fn broken_invariants(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    let run = explored.record.run(explored.entries, explored.record.end);
    let broken = invariants::check_from(fixture, &run, begin);
    let broken = broken.into_iter().filter(|promise| {
        !is_excused(promise, &run, explored.plan, has_faults(fixture))
            && !is_marked_over(promise, begin, &run, explored.plan)
    });
    let to_breach = |promise: BrokenPromise| Breach {
        resource: explored.entries.get(promise.seq).map(resource_of).unwrap_or_default(),
        kind: explored.entries.get(promise.seq).map(actor_of).unwrap_or_default(),
        at: promise.at,
        text: format!("{}; {}", promise.observed, promise.expected),
        expected: json!({ "quiet": true }),
        oracle: promise.check,
    };
    broken.map(to_breach).collect()
}

fn actor_of(entry: &TranscriptEntry) -> String {
    entry.actor().to_string()
}

fn resource_of(entry: &TranscriptEntry) -> String {
    match &entry.what {
        EntryKind::Request(exchange) => exchange.request.resource_path(),
        EntryKind::Change(change) => change.resource.clone(),
        EntryKind::Note(_) => String::new(),
    }
}

/// Returns the request that broke a promise, if one did.
pub(super) fn request_of<'r>(promise: &BrokenPromise, run: &Run<'r>) -> Option<&'r Exchange> {
    match &run.entries.get(promise.seq)?.what {
        EntryKind::Request(exchange) => Some(exchange),
        EntryKind::Change(_) | EntryKind::Note(_) => None,
    }
}

/// Returns the change of an entry if it is one of the object of a request.
pub(super) fn changes_object_of<'e>(entry: &'e TranscriptEntry, request: &RecordedRequest) -> Option<&'e Change> {
    let EntryKind::Change(change) = &entry.what else { return None };
    let same = change.resource == request.resource
        && change.namespace == request.namespace
        && request.name.as_ref() == Some(&change.name);
    same.then_some(change)
}

/// Returns true if the faults of the run explain the violation: the subject repeats a write of which it does not know
/// that it took effect, the server refuses a write that comes from an old state, or a live read takes longer than a
/// cycle.
fn is_excused(promise: &BrokenPromise, run: &Run<'_>, plan: &FaultPlan, own_faults: bool) -> bool {
    let refused = || {
        request_of(promise, run).is_some_and(|exchange| match &exchange.reply {
            Some(reply) => matches!(reply.status, 404 | 409 | 422),
            // The controllers crash before they can see the refusal.
            None => plan.has(FaultTrait::Restarts) && !has_effect(promise.seq, run),
        })
    };
    match promise.check.as_str() {
        "invariant no_idle_writes" => {
            plan.faults.iter().any(|(disturbance, _)| !disturbance.is(FaultTrait::IsPlain))
                || (own_faults && plan.delays_information())
        }
        // The object that another client creates has the status of the one that it replaces.
        "invariant generation_never_falls" => plan.has(FaultTrait::ReplacesObject),
        // Events wait for the reply to the one before; a real client's limit of requests a second is off here. With old
        // lists, a key fails again and again: eight times in the first second of its back-off, with two writes each.
        "invariant no_storms" => {
            let of_events = run.entries.get(promise.seq).is_some_and(|entry| resource_of(entry) == "events");
            let outdated = || refused() && plan.delays_information();
            !plan.faults.is_empty() && (of_events || outdated() || is_caught_up(promise, run, plan))
        }
        "invariant orphans_are_confirmed" => {
            let delays = |fault: Disturbance| fault.is(FaultTrait::DelaysRequest) || fault.is(FaultTrait::DelaysReply);
            refused() || plan.faults.iter().any(|(fault, _)| delays(*fault) && fault.duration() >= CYCLE)
        }
        // While a reply is late, another client may write the same condition or phase.
        "invariant condition_before_delete" | "invariant failed_before_delete" => {
            refused() || plan.has(FaultTrait::DelaysReply) || plan.has(FaultTrait::ReplacesObject)
        }
        "invariant conditions_age_two_minutes" => plan.has(FaultTrait::SetsClockAhead),
        "invariant no_early_eviction" => {
            refused() || is_uninformed_at(promise.at, plan) || is_bound_uninformed(promise, run, plan)
        }
        _ => false,
    }
}

/// Returns true if the request at `seq` changed an object.
fn has_effect(seq: usize, run: &Run<'_>) -> bool {
    run.entries[seq..]
        .iter()
        .any(|entry| matches!(&entry.what, EntryKind::Change(change) if change.request == Some(seq)))
}

/// Returns true for a difference of pods that depends on more than the objects. After a restart countdowns begin again,
/// and those of pods on a deleted node end; upstream does the same (kubernetes/kubernetes#108268). The mark of a
/// terminating pod is that of the last client that wanted its deletion.
fn is_forgotten(difference: &StateDifference, end: &ObjectStates, reference: &ReferenceRun, plan: &FaultPlan) -> bool {
    let restarts = plan.has(FaultTrait::Restarts) || plan.delays_information();
    // A mark that was sent before its reason went takes effect late.
    let marked = difference.kind == "status.conditions"
        && plan.faults.iter().any(|(disturbance, point)| {
            disturbance.is(FaultTrait::DelaysRequest)
                && point.target.resource.plural == "pods"
                && point.target.name == difference.key.name
        });
    // Controllers that restart, or learn of the reason late, do not send a mark that the fixture's own delay lets take
    // effect after its reason went.
    let unmarked = || {
        let delays = |fault: &Fault| matches!(fault.effect, Effect::Delay { applied: false, .. });
        let of_pods = |fault: &&Fault| fault.on.target.resource.plural == "pods";
        difference.kind == "status.conditions"
            && restarts
            && reference.fixture.given.faults.iter().filter(of_pods).any(delays)
    };
    let Some(pod) = end.get(&difference.key).filter(|_| difference.key.resource == "pods") else { return false };
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let is_lost = || !node.is_empty() && !end.all("nodes").any(|(key, _)| key.name == node);
    let terminating = |pod: &Value| object_meta::is_terminating(pod);
    let usual = reference.objects.get(&difference.key).and_then(Option::as_ref);
    marked
        || unmarked()
        || (restarts && is_lost())
        || (difference.kind.starts_with("status") && terminating(pod) && usual.is_some_and(|usual| terminating(usual)))
}

fn end_state(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    let entries = &explored.entries[..explored.observation.quiet_at.min(explored.entries.len())];
    let run = explored.record.run(explored.entries, explored.record.end);
    let begin = ObjectStates::new(&run, &reference.fixture.given.namespace);
    let found = changed_objects(entries);
    let all = differences(|key| begin.get(key).cloned(), &reference.objects, &found);
    let end = begin.clone().after(entries);
    let nodes = end.all("nodes").count();
    let touched = explored.plan.has(FaultTrait::TouchesObject);
    let is_excused_pod = |difference: &StateDifference| {
        is_forgotten(difference, &end, reference, explored.plan) || is_uninformed(difference, entries, explored)
    };
    // The numbers of budgets follow from the pods; the models judge them.
    let excused_pods = all.iter().any(is_excused_pod);
    let counts = |difference: &StateDifference| {
        let is_ttl = difference.key.resource == "nodes" && difference.kind.contains("annotations");
        let value = end.get(&difference.key).and_then(|node| object_meta::annotation(node, TTL_ANNOTATION));
        let is_ttl = is_ttl && value.is_some_and(|value| allows_ttl(nodes, value));
        // The write of another client makes the server set the pod's defaults; the subject never writes a spec.
        let is_default = difference.kind.starts_with("spec") && touched;
        // A pod that a fault leaves marked as failed counts as finished, so an older one is deleted instead.
        let by_number = difference.field.is_none()
            && difference.key.resource == "pods"
            && reference.fixture.flags.contains_key(THRESHOLD);
        // After a failed sync the other fields are those of the last sync that succeeded, which a fault can prevent.
        let wanted = reference.objects.get(&difference.key).cloned().flatten();
        let is_failure = difference.kind.starts_with("status")
            && [wanted.as_ref(), end.get(&difference.key)]
                .iter()
                .all(|budget| budget.is_some_and(|it| has_failed_sync(it)));
        let is_consequence =
            excused_pods && difference.key.resource == BUDGETS && difference.kind.starts_with("status");
        !is_ttl && !is_default && !is_consequence && !by_number && !is_failure && !is_excused_pod(difference)
    };
    let to_breach = |difference: StateDifference| Breach {
        oracle: "end state".to_owned(),
        expected: difference.expected(&reference.fixture.given.namespace),
        text: format!("{}/{}: {}", difference.key.resource, difference.key.name, difference.text),
        resource: difference.key.resource,
        kind: difference.kind,
        at: explored.record.end,
    };
    all.into_iter().filter(counts).map(to_breach).collect()
}

/// Returns true for a budget that could not be synced and therefore allows no disruption.
fn has_failed_sync(budget: &Value) -> bool {
    budget["status"]["disruptionsAllowed"] == 0 && says_sync_failed(budget)
}

/// Returns true if the difference is that of a pod that the subject wrote while a fault delayed its information: it
/// could not know that the pod is to stay, and a deletion cannot be undone.
fn is_uninformed(difference: &StateDifference, entries: &[TranscriptEntry], explored: ExploredRun<'_>) -> bool {
    difference.key.resource == "pods"
        && requests(entries).any(|(entry, exchange)| {
            let request = &exchange.request;
            is_subject_write(entry, exchange)
                && request.resource == "pods"
                && request.name.as_ref() == Some(&difference.key.name)
                && request.namespace == difference.key.namespace
                && is_uninformed_at(entry.at, explored.plan)
        })
}

/// Returns true if the subject was cut off and then learned of as many changes of the object as it makes requests: each
/// of them is an event, handled with a list that shows none of the answers yet.
fn is_caught_up(promise: &BrokenPromise, run: &Run<'_>, plan: &FaultPlan) -> bool {
    let Some(exchange) = request_of(promise, run) else { return false };
    let changes =
        || run.entries[..promise.seq].iter().filter_map(|entry| changes_object_of(entry, &exchange.request)).count();
    plan.faults.iter().any(|(disturbance, _)| disturbance.cut_off().is_some()) && changes() >= STORM
}

/// Returns true if a fault of the plan delays the subject's information at the time `at`.
pub(super) fn is_uninformed_at(at: Duration, plan: &FaultPlan) -> bool {
    plan.faults.iter().any(|(disturbance, point)| {
        let uninformed = UNINFORMED + disturbance.cut_off().unwrap_or_default();
        disturbance.delays_information(point) && point.at <= at + SOON && at <= point.at + uninformed
    })
}

/// Returns the writes beyond those of the run without faults and those that the faults explain.
fn writes(normal: &Observation, explored: ExploredRun<'_>) -> Vec<Breach> {
    let (found, plan) = (explored.observation, explored.plan);
    let faults = u32::try_from(plan.faults.len()).unwrap_or(u32::MAX);
    let starts = plan.faults.iter().filter(|(disturbance, _)| disturbance.is(FaultTrait::Restarts)).count();
    let starts = 1 + u32::try_from(starts).unwrap_or(u32::MAX);
    let refusals: u32 = plan.faults.iter().map(|(disturbance, _)| disturbance.refusals()).sum();
    // In another order, changes that were handled together can be handled one by one.
    let is_ordered = plan.has(FaultTrait::Reorders);
    let changes_of_others = |key: &WriteKey| {
        let is_other = |entry: &&TranscriptEntry| match &entry.what {
            EntryKind::Change(change) => change.resource != "events" && !key.resource.starts_with(&change.resource),
            _ => false,
        };
        u32::try_from(explored.entries.iter().filter(is_other).count()).unwrap_or(u32::MAX)
    };
    let excess = found.writes.iter().filter(|(key, _)| key.resource != "events").find_map(|(key, count)| {
        let usual = normal.writes.get(key).copied().unwrap_or_default();
        let most = usual * starts + faults * WRITES_PER_FAULT + refusals + WRITES_BY_TIMING;
        let is_in_order = || !is_ordered || *count > usual.saturating_add(changes_of_others(key));
        (*count > most && is_in_order()).then_some((key, *count, usual))
    });
    let to_breach = |(key, count, usual): (&WriteKey, u32, u32)| Breach {
        oracle: "writes".to_owned(),
        resource: key.resource.clone(),
        kind: format!("{} {}", key.actor, key.verb),
        at: Duration::ZERO,
        text: format!("{key}: {count} times; without the fault {usual} times"),
        expected: json!({ "quiet": true }),
    };
    excess.map(to_breach).into_iter().collect()
}

/// Returns true if the node of this write had a TTL that the number of nodes allows, or allowed when the node changed
/// for the last time: a node gets its TTL with its own events only. A re-list after a gap shows new nodes before it
/// shows which ones are gone, so the number can pass a bound in between, as in client-go.
fn had_right_ttl(fixture: &Fixture, explored: ExploredRun<'_>, write: &SubjectWrite) -> bool {
    let before = objects_before(fixture, explored, write.seq);
    let of_node = |entry: &TranscriptEntry| match &entry.what {
        EntryKind::Change(change) => change.resource == "nodes" && change.name == write.key.name,
        _ => false,
    };
    let entries = &explored.entries[..write.seq.min(explored.entries.len())];
    let changed = entries.iter().rposition(of_node).map_or(0, |at| at + 1);
    let numbers = [&before, &objects_before(fixture, explored, changed)].map(|world| world.all("nodes").count());
    let mut written = before.all("nodes").filter(|(key, _)| key.name == write.key.name);
    written.any(|(_, node)| {
        object_meta::annotation(node, TTL_ANNOTATION)
            .is_some_and(|ttl| numbers.iter().any(|nodes| allows_ttl(*nodes, ttl)))
    })
}

/// Returns true if something else than the subject held the object of this write when it was sent.
fn is_held(fixture: &Fixture, explored: ExploredRun<'_>, write: &SubjectWrite) -> bool {
    is_terminating(&objects_before(fixture, explored, write.seq), write)
}

/// Returns the objects as they were before the entry at `seq`.
fn objects_before(fixture: &Fixture, explored: ExploredRun<'_>, seq: usize) -> ObjectStates {
    let run = explored.record.run(explored.entries, explored.record.end);
    let begin = ObjectStates::new(&run, &fixture.given.namespace);
    begin.after(&explored.entries[..seq.min(explored.entries.len())])
}

/// Returns true if the object of the write is being deleted: something else than the subject holds it.
fn is_terminating(world: &ObjectStates, write: &SubjectWrite) -> bool {
    let resource = write.key.resource.split('/').next().unwrap_or_default();
    world.all(resource).any(|(key, object)| {
        key.name == write.key.name
            && key.namespace.as_deref().unwrap_or_default() == write.key.namespace
            && object_meta::is_terminating(object)
    })
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::Transcript;

    use super::*;
    use crate::explore::decisions::tests::change_in;

    #[test]
    fn the_last_creation_of_a_name_counts() {
        let transcript = Transcript::new();
        for (at, old) in [(5, None), (9, None), (12, Some(json!({})))] {
            change_in(Some("default"), &transcript, at, Some("user"), "pods", [old, Some(json!({}))]);
        }
        let entries = transcript.entries();
        assert_eq!(creations(&entries), BTreeMap::from([(("pods", "default", "a"), Duration::from_secs(9))]));
    }
}
