//! Typed access to the `metadata` of objects as JSON
//! (`staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go`, `ObjectMeta`). Missing fields and fields of another
//! type read as missing. PURE.

use serde_json::{Map, Value};

/// The fields that the server changes at each write.
const BOOKKEEPING: [&str; 2] = ["resourceVersion", "managedFields"];

/// Returns the text of a field.
pub fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object["metadata"][field].as_str()
}

/// Returns the name; empty if it is missing.
pub fn name(object: &Value) -> &str {
    text(object, "name").unwrap_or_default()
}

/// Returns the namespace of a namespaced object.
pub fn namespace(object: &Value) -> Option<&str> {
    text(object, "namespace").filter(|namespace| !namespace.is_empty())
}

/// Returns the UID.
pub fn uid(object: &Value) -> Option<&str> {
    text(object, "uid")
}

/// Returns the resourceVersion.
pub fn resource_version(object: &Value) -> Option<&str> {
    text(object, "resourceVersion")
}

/// Returns the generation.
pub fn generation(object: &Value) -> Option<i64> {
    object["metadata"]["generation"].as_i64()
}

/// Returns true if the object has a deletionTimestamp.
pub fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns the labels, an object or null.
pub fn labels(object: &Value) -> &Value {
    &object["metadata"]["labels"]
}

/// Returns an annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// Returns the finalizers.
pub fn finalizers(object: &Value) -> &[Value] {
    list(object, "finalizers")
}

/// Returns the owner references.
pub fn owner_references(object: &Value) -> &[Value] {
    list(object, "ownerReferences")
}

/// Returns the owner reference of the controller.
pub fn controller(object: &Value) -> Option<&Value> {
    owner_references(object).iter().find(|owner| owner["controller"] == true)
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object["metadata"][field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the fields to change them; `None` if the object has no `metadata`.
pub fn fields_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.as_object_mut()
}

/// Removes fields.
pub fn remove(object: &mut Value, fields: &[&str]) {
    if let Some(metadata) = fields_mut(object) {
        metadata.retain(|name, _| !fields.contains(&name.as_str()));
    }
}

/// Returns a copy without the fields that the server changes at each write.
pub(crate) fn without_bookkeeping(object: &Value) -> Value {
    let mut object = object.clone();
    remove(&mut object, &BOOKKEEPING);
    object
}

/// Returns true if two states of an object differ in nothing but what the server changes at each write.
pub(crate) fn is_same(old: &Value, new: &Value) -> bool {
    let (Some(one), Some(other)) = (old.as_object(), new.as_object()) else { return old == new };
    let is_equal = |(name, value): (&String, &Value)| match (name.as_str(), value, other.get(name)) {
        ("metadata", Value::Object(one), Some(Value::Object(other))) => {
            let counts = |name: &&String| !BOOKKEEPING.contains(&name.as_str());
            one.keys().chain(other.keys()).filter(counts).all(|name| one.get(name) == other.get(name))
        }
        (_, value, other) => Some(value) == other,
    };
    one.len() == other.len() && one.iter().all(is_equal)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_read() {
        let object = json!({"metadata": {
            "name": "n", "namespace": "s", "uid": "u", "resourceVersion": "7", "generation": 3, "labels": {"l": "1"},
            "deletionTimestamp": "2030-01-01T00:00:00Z", "annotations": {"a": "2"}, "finalizers": ["f"],
            "ownerReferences": [{"name": "x"}, {"name": "y", "controller": true}],
        }});
        assert_eq!((name(&object), namespace(&object), uid(&object)), ("n", Some("s"), Some("u")));
        assert_eq!((resource_version(&object), generation(&object)), (Some("7"), Some(3)));
        assert_eq!((annotation(&object, "a"), labels(&object)["l"].as_str()), (Some("2"), Some("1")));
        assert_eq!((finalizers(&object).len(), owner_references(&object).len()), (1, 2));
        assert_eq!(controller(&object).map(|owner| &owner["name"]), Some(&json!("y")));
        assert!(is_terminating(&object));
    }

    #[test]
    fn missing_and_malformed_fields_read_as_missing() {
        for object in [json!(null), json!({}), json!({"metadata": {"name": 1, "namespace": "", "finalizers": {}}})] {
            assert_eq!((name(&object), namespace(&object), uid(&object)), ("", None, None));
            assert_eq!((generation(&object), annotation(&object, "a")), (None, None));
            assert!(finalizers(&object).is_empty() && controller(&object).is_none() && !is_terminating(&object));
        }
        assert_eq!(fields_mut(&mut json!({})), None);
    }

    #[test]
    fn bookkeeping_is_removed_from_the_copy() {
        let object = json!({"metadata": {"name": "n", "resourceVersion": "7", "managedFields": []}, "spec": {}});
        assert_eq!(without_bookkeeping(&object), json!({"metadata": {"name": "n"}, "spec": {}}));
        assert_eq!(resource_version(&object), Some("7"));
        assert!(is_same(&object, &json!({"metadata": {"name": "n", "resourceVersion": "8"}, "spec": {}})));
        for other in [
            json!({"metadata": {"name": "n", "labels": {}}, "spec": {}}),
            json!({"metadata": {"name": "n"}, "spec": {"a": 1}}),
            json!({"metadata": {"name": "n"}, "status": {}}),
            json!({"metadata": {"name": "n"}}),
        ] {
            assert!(!is_same(&object, &other) && !is_same(&other, &object), "{other}");
        }
    }
}
