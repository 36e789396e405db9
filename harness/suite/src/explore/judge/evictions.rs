//! Excuses for deletions by taint eviction: marks that another client replaced, and countdowns that began with an
//! outdated node.

use plumbline::expect::world::ObjectStates;
use plumbline::expect::{BrokenPromise, Run, requests};
use plumbline::explore::faults::FaultTrait;
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::metadata;
use plumbline::rules::pods::disruption_reason;
use plumbline::rules::quarantine::DELETION_BY_POD_GC;
use plumbline::rules::taints::DELETION_BY_TAINT_MANAGER;
use plumbline::transcript::{Actor, Attributed as _, EntryKind, Exchange, TranscriptEntry};
use serde_json::Value;

use super::news::is_uninformed_at;
use crate::explore::run::entries::{changes_object_of, request_of};

/// Returns true if another client replaced the taint eviction's condition by its own: an eviction of a pod that is
/// terminating already, or `PodGC` between the mark and the deletion. Upstream does not mark the pod again either. The
/// same holds for any client while a busy server makes the deletion wait, and since the controller last read the pod.
pub(super) fn is_marked_over(promise: &BrokenPromise, begin: &ObjectStates, run: &Run<'_>, plan: &FaultPlan) -> bool {
    if promise.check != "invariant condition_before_delete" {
        return false;
    }
    let Some(deletion) = request_of(promise, run) else { return false };
    let is_busy = plan.has(FaultTrait::AsksToWait);
    let entries = &run.entries[..promise.seq];
    let before = begin.clone().after(entries);
    before.all("pods").any(|(key, pod)| {
        let has = |reason: &str| disruption_reason(pod, "True") == Some(reason);
        deletion.request.name.as_ref() == Some(&key.name)
            && deletion.request.namespace == key.namespace
            && ((!plan.faults.is_empty() && is_taken_back(pod, DELETION_BY_TAINT_MANAGER))
                || (metadata::is_terminating(pod) && has("EvictionByEvictionAPI"))
                || ((has(DELETION_BY_POD_GC) || is_busy || is_unread(pod, deletion, entries))
                    && was_marked(pod, entries)))
    })
}

/// Returns true if another client changed the pod after the controller had begun to read or mark it for this deletion:
/// the deletion is decided upon with what was read, as upstream.
fn is_unread(pod: &Value, deletion: &Exchange, entries: &[TranscriptEntry]) -> bool {
    let uid = metadata::uid(pod);
    let is_others = |entry: &TranscriptEntry| match &entry.what {
        EntryKind::Change(change) if change.resource == "pods" && entry.actor() != Actor::TaintEviction => {
            change.new.as_deref().is_some_and(|new| metadata::uid(new) == uid)
        }
        _ => false,
    };
    let deleted = &deletion.request;
    let last = requests(entries).rfind(|(entry, exchange)| {
        let request = &exchange.request;
        entry.actor() == Actor::TaintEviction
            && request.resource == "pods"
            && (&request.namespace, &request.name) == (&deleted.namespace, &deleted.name)
    });
    // A deletion that is repeated was decided upon before; the pod has to be read again.
    last.is_some_and(|(entry, exchange)| {
        matches!(exchange.request.verb.as_str(), "get" | "patch" | "update")
            && entries[entry.seq..].iter().any(is_others)
    })
}

/// Returns true if the pod of a deletion was bound while a fault delayed the subject's information: a countdown that
/// begins by an outdated node goes on when the node has gone, as upstream.
pub(super) fn is_bound_uninformed(promise: &BrokenPromise, run: &Run<'_>, plan: &FaultPlan) -> bool {
    fn node(pod: Option<&Value>) -> &str {
        pod.and_then(|pod| pod["spec"]["nodeName"].as_str()).unwrap_or_default()
    }
    let Some(deletion) = request_of(promise, run) else { return false };
    let bound = run.entries[..promise.seq].iter().rfind(|entry| {
        changes_object_of(entry, &deletion.request)
            .is_some_and(|change| node(change.old.as_deref()) != node(change.new.as_deref()))
    });
    bound.is_some_and(|entry| is_uninformed_at(entry.at, plan))
}

/// Returns true if another client set its own condition to false just before the patch of a controller, which leaves
/// out what seems unchanged, as client-go's: the condition is false for `reason`, that of the controller.
pub(super) fn is_taken_back(pod: &Value, reason: &str) -> bool {
    disruption_reason(pod, "False") == Some(reason)
}

/// Returns true if taint eviction has marked this pod before.
fn was_marked(pod: &Value, entries: &[TranscriptEntry]) -> bool {
    entries.iter().any(|entry| match &entry.what {
        EntryKind::Change(change) if change.resource == "pods" && entry.actor() == Actor::TaintEviction => {
            change.new.as_deref().is_some_and(|new| {
                metadata::uid(new) == metadata::uid(pod)
                    && disruption_reason(new, "True") == Some(DELETION_BY_TAINT_MANAGER)
            })
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::Transcript;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::explore::judge::testing::change_in;

    fn pod(uid: &str, reason: &str) -> Value {
        let mark = json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
        json!({"metadata": {"name": "a", "uid": uid}, "status": {"conditions": [mark]}})
    }

    #[rstest]
    #[case::this_pod("u", "DeletionByTaintManager", true)]
    #[case::one_of_the_same_name("v", "DeletionByTaintManager", false)]
    #[case::for_another_reason("u", "DeletionByPodGC", false)]
    fn a_mark_belongs_to_a_pod(#[case] uid: &str, #[case] reason: &str, #[case] marked: bool) {
        let transcript = Transcript::new();
        let objects = [Some(json!({})), Some(pod(uid, reason))];
        change_in(Some("default"), &transcript, 5, Some("taint-eviction-controller"), "pods", objects);
        assert_eq!(was_marked(&pod("u", "DeletionByPodGC"), &transcript.entries()), marked);
    }

    #[rstest]
    #[case::the_subjects_reason("False", "DeletionByTaintManager", true)]
    #[case::marked("True", "DeletionByTaintManager", false)]
    #[case::of_another("False", "PreemptionByScheduler", false)]
    fn a_condition_that_another_client_took_back(#[case] status: &str, #[case] reason: &str, #[case] taken: bool) {
        let mut pod = pod("u", reason);
        pod["status"]["conditions"][0]["status"] = status.into();
        assert_eq!(is_taken_back(&pod, DELETION_BY_TAINT_MANAGER), taken);
    }
}
