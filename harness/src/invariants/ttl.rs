//! Invariants of the TTL controller.

use serde_json::Value;

use super::writes::essence;
use super::{JudgeContext, Violation};
use crate::transcript::Actor;

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// See [`super::ALL`].
pub(super) fn ttl_values(context: &JudgeContext<'_>) -> Vec<Violation> {
    context.changes(&Actor::Ttl, "nodes", |entry, _, old, new| {
        let value = new["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or("nothing");
        if !["0", "15", "30", "60", "300"].contains(&value) {
            return Some(Violation::new(entry, format!("the value is {value:?}")));
        }
        (old.map(|old| others(old)) != Some(others(new)))
            .then(|| Violation::new(entry, "more than the annotation changed"))
    })
}

/// Returns the node without the annotation.
fn others(node: &Value) -> Value {
    let mut node = essence(node);
    let annotations = node["metadata"]["annotations"].as_object_mut();
    let empty = annotations.is_some_and(|annotations| {
        annotations.remove(ANNOTATION);
        annotations.is_empty()
    });
    if empty && let Some(meta) = node["metadata"].as_object_mut() {
        meta.remove("annotations");
    }
    if node["metadata"]["annotations"].is_null()
        && let Some(meta) = node["metadata"].as_object_mut()
    {
        meta.remove("annotations");
    }
    node
}
