//! Builders of the objects in the tables.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use plumbline_controllers::api::node::NodeView;
use plumbline_controllers::api::pdb::PdbView;
use plumbline_controllers::api::pod::PodView;
use serde_json::{Value, json};

/// The start time of all tables.
pub(crate) fn t0() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// `seconds` after [`t0`].
pub(crate) fn at(seconds: f64) -> Timestamp {
    t0() + SignedDuration::try_from_secs_f64(seconds).unwrap()
}

/// A pod of namespace `ns`, ready and running on `n1`, changed by the JSON merge patch `patch`.
pub(crate) fn pod(name: &str, patch: Value) -> Arc<PodView> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "generation": 1,
            "resourceVersion": "1", "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    merge(&mut pod, patch);
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// A budget `ns/budget` of generation 1.
pub(crate) fn pdb(patch: Value) -> PdbView {
    let mut pdb = json!({"metadata": {"name": "budget", "namespace": "ns", "uid": "uid-budget", "generation": 1}});
    merge(&mut pdb, patch);
    serde_json::from_value(pdb).unwrap()
}

/// A ready node.
pub(crate) fn node(name: &str, patch: Value) -> Arc<NodeView> {
    let mut node = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    merge(&mut node, patch);
    Arc::new(serde_json::from_value(node).unwrap())
}

pub(crate) fn names(pods: &[Arc<PodView>]) -> Vec<&str> {
    pods.iter().map(|pod| plumbline_controllers::api::View::name(&**pod)).collect()
}

fn merge(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (key, value) in fields {
                if value.is_null() {
                    target.as_object_mut().unwrap().remove(&key);
                } else {
                    merge(&mut target[&key], value);
                }
            }
        }
        other => *target = other,
    }
}
