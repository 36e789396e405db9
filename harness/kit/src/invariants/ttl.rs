//! Invariants of the TTL controller.

use serde_json::Value;

use super::violation::Violation;
use crate::expect::JudgeContext;
use crate::metadata;
use crate::rules::nodes::{TTL_ANNOTATION, TTL_RANGES};
use crate::transcript::Actor;

/// See [`super::ALL`].
pub(super) fn ttl_values(context: &JudgeContext<'_>) -> Vec<Violation> {
    context.changes(&Actor::Ttl, "nodes", |entry, _, old, new| {
        let value = metadata::annotation(new, TTL_ANNOTATION).unwrap_or("nothing");
        if !TTL_RANGES.iter().any(|(.., known)| *known == value) {
            return Some(Violation::new(entry, format!("the value is {value:?}")));
        }
        (old.map(|old| others(old)) != Some(others(new)))
            .then(|| Violation::new(entry, "more than the annotation changed"))
    })
}

/// Returns the node without the annotation.
fn others(node: &Value) -> Value {
    let mut node = metadata::without_bookkeeping(node);
    let Some(metadata) = metadata::fields_mut(&mut node) else { return node };
    let is_empty = match metadata.get_mut("annotations") {
        Some(Value::Object(annotations)) => {
            annotations.remove(TTL_ANNOTATION);
            annotations.is_empty()
        }
        annotations => annotations.is_none_or(|annotations| annotations.is_null()),
    };
    if is_empty {
        metadata.remove("annotations");
    }
    node
}
