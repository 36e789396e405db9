//! JSON merge patches (RFC 7386), by which a timeline stores the versions of an object. PURE.

use serde_json::{Map, Value};

/// Returns the merge patch from `old` to `new`; `None` if `new` contains a null that `old` lacks.
pub(super) fn between(old: &Value, new: &Value) -> Option<Value> {
    let patch = diff(old, new);
    (applied(old, &patch) == *new).then_some(patch)
}

fn diff(old: &Value, new: &Value) -> Value {
    let (Value::Object(a), Value::Object(b)) = (old, new) else { return new.clone() };
    let gone = a.keys().filter(|key| !b.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = b.iter().filter_map(|(key, value)| match a.get(key) {
        Some(before) if before == value => None,
        Some(before) => Some((key.clone(), diff(before, value))),
        None => Some((key.clone(), value.clone())),
    });
    gone.chain(changed).collect::<Map<_, _>>().into()
}

fn applied(old: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut out = old.as_object().cloned().unwrap_or_default();
    for (key, change) in changes {
        if change.is_null() {
            out.remove(key);
        } else {
            let value = applied(out.get(key).unwrap_or(&Value::Null), change);
            out.insert(key.clone(), value);
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_has_only_the_differences() {
        let old = json!({"a": {"b": 1, "c": [1]}, "d": 2});
        let new = json!({"a": {"b": 1, "c": [1, 2]}, "e": {"f": {}}});
        assert_eq!(between(&old, &new), Some(json!({"a": {"c": [1, 2]}, "d": null, "e": {"f": {}}})));
        assert_eq!(between(&old, &json!({"a": null})), None, "a null cannot be written in a merge patch");
    }
}
