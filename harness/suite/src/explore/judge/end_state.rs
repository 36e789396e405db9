//! Oracle `end state`: after the faults have ended and time has passed, the objects are those of the run without
//! faults. Pure.

use plumbline::expect::world::ObjectStates;
use plumbline::expect::{is_subject_write, requests};
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::key_of_request;
use plumbline::explore::state::{StateDifference, changed_objects, differences};
use plumbline::fixture::{Effect, Fault};
use plumbline::metadata;
use plumbline::rules::budgets::{BUDGETS, says_sync_failed};
use plumbline::rules::nodes::{TTL_ANNOTATION, allows_ttl};
use plumbline::rules::quarantine::THRESHOLD;
use plumbline::transcript::TranscriptEntry;
use serde_json::Value;

use super::disturbances::{Disturbances, begins_late};
use super::known::node_key;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};

/// Returns true for a difference of pods that depends on more than the objects. After a restart countdowns begin again,
/// and those of pods on a deleted node end; upstream does the same (kubernetes/kubernetes#108268). The mark of a
/// terminating pod is that of the last client that wanted its deletion.
fn is_forgotten(
    difference: &StateDifference,
    end: &ObjectStates,
    reference: &ReferenceRun,
    explored: ExploredRun<'_>,
    restarts: bool,
) -> bool {
    // A mark that was sent before its reason went takes effect late.
    let marked = difference.kind == "status.conditions"
        && requests(explored.until_quiet()).any(|(entry, exchange)| {
            is_subject_write(entry, exchange)
                && key_of_request(&exchange.request).as_ref() == Some(&difference.key)
                && exchange.reply.as_ref().is_some_and(|reply| reply.at > entry.at)
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
    let terminating = |pod: &Value| metadata::is_terminating(pod);
    let usual = reference.objects.get(&difference.key).and_then(Option::as_ref);
    marked
        || unmarked()
        || (restarts && is_lost())
        || (difference.kind.starts_with("status") && terminating(pod) && usual.is_some_and(|usual| terminating(usual)))
}

/// Compares the final objects with those of the run without faults.
pub(super) fn differs(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    if reference.observation.state == explored.observation.state {
        return Vec::new();
    }
    let entries = explored.until_quiet();
    let begin = explored.begin;
    let found = changed_objects(entries);
    let all = differences(|key| begin.get(key).cloned(), &reference.objects, &found);
    let end = begin.clone().after(entries);
    let nodes = end.all("nodes").count();
    let disturbances = Disturbances::of(explored);
    let restarts = disturbances.starts > 0 || disturbances.late_news || begins_late(explored);
    let is_excused_pod = |difference: &StateDifference| {
        is_forgotten(difference, &end, reference, explored, restarts) || is_unaware(difference, entries, explored)
    };
    // The numbers of budgets follow from the pods; the models judge them.
    let excused_pods = all.iter().any(is_excused_pod);
    let counts = |difference: &StateDifference| {
        let is_ttl = difference.key.resource == "nodes" && difference.kind.contains("annotations");
        let value = end.get(&difference.key).and_then(|node| metadata::annotation(node, TTL_ANNOTATION));
        let is_ttl = is_ttl && value.is_some_and(|value| allows_ttl(nodes, value));
        // The write of another client makes the server set the pod's defaults; the subject never writes a spec.
        let is_default = difference.kind.starts_with("spec");
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
    let namespace = &reference.fixture.given.namespace;
    let found = all.into_iter().filter(counts);
    found.map(|difference| difference.into_breach(explored.record.end, namespace)).collect()
}

/// Returns true for a budget that could not be synced and therefore allows no disruption.
fn has_failed_sync(budget: &Value) -> bool {
    budget["status"]["disruptionsAllowed"] == 0 && says_sync_failed(budget)
}

/// Returns true if the difference is that of a pod that the subject wrote with an outdated state of the pod or of its
/// node in mind: a deletion cannot be undone.
fn is_unaware(difference: &StateDifference, entries: &[TranscriptEntry], explored: ExploredRun<'_>) -> bool {
    let knowledge = explored.knowledge;
    difference.key.resource == "pods"
        && requests(entries).any(|(entry, exchange)| {
            let writes = is_subject_write(entry, exchange)
                && key_of_request(&exchange.request).as_ref() == Some(&difference.key);
            writes && {
                let window = knowledge.window(entry.seq);
                let states = knowledge.states(&difference.key, window);
                let pods = states.iter().flatten();
                let mut nodes = pods.filter_map(|pod| pod["spec"]["nodeName"].as_str()).map(node_key);
                !knowledge.is_current(&difference.key, window) || nodes.any(|node| !knowledge.is_current(&node, window))
            }
        })
}
