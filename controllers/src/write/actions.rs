//! Writes as plain data: created by pure code, executed by [`Writer`](super::Writer).

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::api::View as _;
use crate::api::condition::PodCondition;
use crate::api::meta::TTL_ANNOTATION;
use crate::api::object_key::ObjectKey;
use crate::api::pdb::PdbView;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// PUT `poddisruptionbudgets/status`. Fails with a conflict unless the budget still has this
    /// `metadata.resourceVersion`.
    UpdatePdbStatus {
        /// The budget as read, with its new status. It is complete because a PUT drops fields that are absent.
        pdb: Box<PdbView>,
    },
    /// Replaces one condition of a pod by PUT `pods/status` on top of a live read. Fails with a conflict if the live
    /// pod is not the one that the decision was based on.
    ResetDisruptionTarget {
        /// The pod.
        pod: ObjectKey,
        /// The UID that the decision was based on.
        uid: Arc<str>,
        /// The version that the decision was based on.
        resource_version: Arc<str>,
        /// The new condition; replaces the one of its type.
        condition: Box<PodCondition>,
    },
    /// Strategic merge PATCH of `pods/status` with the UID as precondition.
    PatchPodStatus {
        /// The pod.
        pod: ObjectKey,
        /// The UID.
        uid: Arc<str>,
        /// The `status` part of the patch, see [`status_patch`].
        status: Value,
    },
    /// DELETE of a pod with the UID as precondition.
    DeletePod {
        /// The pod.
        pod: ObjectKey,
        /// The UID.
        uid: Arc<str>,
        /// `gracePeriodSeconds`; `None` for the pod's own.
        grace_seconds: Option<u32>,
    },
    /// Strategic merge PATCH of a node's [`TTL_ANNOTATION`].
    PatchNodeTtl {
        /// The node.
        node: Arc<str>,
        /// The new value in seconds.
        ttl_seconds: i64,
    },
}

/// Formats as `verb resource namespace/name`, for logs.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpdatePdbStatus { pdb } => {
                write!(f, "PUT poddisruptionbudgets/status {}/{}", pdb.namespace(), pdb.name())
            }
            Self::ResetDisruptionTarget { pod, .. } => write!(f, "PUT pods/status {pod}"),
            Self::PatchPodStatus { pod, .. } => write!(f, "PATCH pods/status {pod}"),
            Self::DeletePod { pod, .. } => write!(f, "DELETE pods {pod}"),
            Self::PatchNodeTtl { node, .. } => write!(f, "PATCH nodes {node}"),
        }
    }
}

/// Returns the body of a PATCH of a pod's status that fails unless the pod has `uid`.
pub fn pod_status_body(uid: &str, status: &Value) -> Value {
    json!({ "metadata": { "uid": uid }, "status": status })
}

/// Returns the body of a PATCH of a node's [`TTL_ANNOTATION`].
pub fn node_ttl_body(ttl_seconds: i64) -> Value {
    json!({ "metadata": { "annotations": { TTL_ANNOTATION: ttl_seconds.to_string() } } })
}

/// Returns the strategic merge patch from one pod status to another, in the form of client-go's two-way patch.
///
/// Both are JSON objects with scalar fields and, optionally, `conditions` (merged by `type`). `None` if they are equal.
pub fn status_patch(old: &Value, new: &Value) -> Option<Value> {
    let empty = Map::new();
    let old = old.as_object().unwrap_or(&empty);
    let new = new.as_object().unwrap_or(&empty);
    let mut patch = Map::new();
    for (field, value) in new {
        if field == "conditions" || old.get(field) == Some(value) {
            continue;
        }
        patch.insert(field.clone(), value.clone());
    }
    for field in old.keys().filter(|field| !new.contains_key(*field) && *field != "conditions") {
        patch.insert(field.clone(), Value::Null);
    }
    let old = conditions(old);
    let new = conditions(new);
    let changed = condition_changes(old, new);
    if !changed.is_empty() {
        let order: Vec<Value> = new.iter().map(|condition| json!({ "type": condition["type"] })).collect();
        patch.insert("$setElementOrder/conditions".into(), order.into());
        patch.insert("conditions".into(), changed.into());
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn conditions(status: &Map<String, Value>) -> &[Value] {
    status.get("conditions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn condition_changes(old: &[Value], new: &[Value]) -> Vec<Value> {
    let find = |list: &[Value], kind: &Value| list.iter().find(|condition| condition["type"] == *kind).cloned();
    let mut changes = Vec::new();
    for condition in new {
        let Some(was) = find(old, &condition["type"]) else {
            changes.push(condition.clone());
            continue;
        };
        let (Some(is), Some(was)) = (condition.as_object(), was.as_object()) else { continue };
        let mut change = Map::new();
        change.extend(
            is.iter().filter(|(field, value)| was.get(*field) != Some(*value)).map(|(f, v)| (f.clone(), v.clone())),
        );
        change.extend(was.keys().filter(|field| !is.contains_key(*field)).map(|field| (field.clone(), Value::Null)));
        if !change.is_empty() {
            change.insert("type".into(), condition["type"].clone());
            changes.push(Value::Object(change));
        }
    }
    for condition in old.iter().filter(|condition| find(new, &condition["type"]).is_none()) {
        changes.push(json!({ "$patch": "delete", "type": condition["type"] }));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn condition(kind: &str, status: &str) -> Value {
        json!({ "type": kind, "status": status, "lastProbeTime": null })
    }

    #[rstest]
    #[case::nothing_differs(
        json!({ "phase": "Running", "conditions": [condition("Ready", "True")] }),
        json!({ "phase": "Running", "conditions": [condition("Ready", "True")] }),
        None
    )]
    #[case::phase_only(json!({ "phase": "Running" }), json!({ "phase": "Failed" }), Some(json!({ "phase": "Failed" })))]
    #[case::field_gone(json!({ "reason": "x" }), json!({}), Some(json!({ "reason": null })))]
    #[case::first_condition(
        json!({}),
        json!({ "conditions": [condition("DisruptionTarget", "True")] }),
        Some(json!({
            "$setElementOrder/conditions": [{ "type": "DisruptionTarget" }],
            "conditions": [condition("DisruptionTarget", "True")],
        }))
    )]
    #[case::another_condition_names_all_in_order(
        json!({ "phase": "Running", "conditions": [condition("Ready", "True"), condition("PodScheduled", "True")] }),
        json!({ "phase": "Failed", "conditions": [condition("Ready", "True"), condition("PodScheduled", "True"),
            condition("DisruptionTarget", "True")] }),
        Some(json!({
            "phase": "Failed",
            "$setElementOrder/conditions": [{ "type": "Ready" }, { "type": "PodScheduled" },
                { "type": "DisruptionTarget" }],
            "conditions": [condition("DisruptionTarget", "True")],
        }))
    )]
    #[case::a_changed_condition_sends_what_changed(
        json!({ "conditions": [{ "type": "A", "status": "False", "reason": "r", "message": "m" }] }),
        json!({ "conditions": [{ "type": "A", "status": "True", "reason": "r" }] }),
        Some(json!({
            "$setElementOrder/conditions": [{ "type": "A" }],
            "conditions": [{ "type": "A", "status": "True", "message": null }],
        }))
    )]
    fn status_patches(#[case] old: Value, #[case] new: Value, #[case] expected: Option<Value>) {
        assert_eq!(status_patch(&old, &new), expected);
    }

    #[test]
    fn bodies_carry_their_preconditions() {
        let body = pod_status_body("u1", &json!({ "phase": "Failed" }));
        assert_eq!(body, json!({ "metadata": { "uid": "u1" }, "status": { "phase": "Failed" } }));
        let body = json!({ "metadata": { "annotations": { "node.alpha.kubernetes.io/ttl": "300" } } });
        assert_eq!(node_ttl_body(300), body);
    }

    #[test]
    fn actions_print_as_requests() {
        let pod = ObjectKey::new("ns", "p");
        let action = Action::DeletePod { pod, uid: "u".into(), grace_seconds: Some(0) };
        assert_eq!(action.to_string(), "DELETE pods ns/p");
        let action = Action::PatchNodeTtl { node: "n".into(), ttl_seconds: 0 };
        assert_eq!(action.to_string(), "PATCH nodes n");
    }
}
