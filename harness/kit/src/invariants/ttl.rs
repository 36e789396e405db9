//! Invariants of the TTL controller.

use serde_json::Value;

use super::{JudgeContext, Violation};
use crate::object_meta;
use crate::transcript::Actor;

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// See [`super::ALL`].
pub(super) fn ttl_values(context: &JudgeContext<'_>) -> Vec<Violation> {
    context.changes(&Actor::Ttl, "nodes", |entry, _, old, new| {
        let value = object_meta::annotation(new, ANNOTATION).unwrap_or("nothing");
        if !["0", "15", "30", "60", "300"].contains(&value) {
            return Some(Violation::new(entry, format!("the value is {value:?}")));
        }
        (old.map(|old| others(old)) != Some(others(new)))
            .then(|| Violation::new(entry, "more than the annotation changed"))
    })
}

/// Returns the node without the annotation.
fn others(node: &Value) -> Value {
    let mut node = object_meta::without_bookkeeping(node);
    let Some(metadata) = object_meta::fields_mut(&mut node) else { return node };
    let is_empty = match metadata.get_mut("annotations") {
        Some(Value::Object(annotations)) => {
            annotations.remove(ANNOTATION);
            annotations.is_empty()
        }
        annotations => annotations.is_none_or(|annotations| annotations.is_null()),
    };
    if is_empty {
        metadata.remove("annotations");
    }
    node
}
