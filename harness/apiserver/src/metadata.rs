//! Typed access to an object's `metadata` (`staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go`, `ObjectMeta`).
//! Missing fields and fields of another type read as empty. [`crate::object_lifecycle`] has the steps of an object's
//! life.

#[cfg(any(test, feature = "controllers"))]
use crate::json::json;
use crate::json::{Map, Value};

/// Returns `metadata`; null if it is missing.
fn metadata(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}

/// Returns `metadata`, inserting it if it is missing.
pub(crate) fn fields_mut(object: &mut Value) -> &mut Map {
    object_or_replace(object_or_replace(object).entry("metadata").or_insert(Value::Null))
}

/// Returns `value` as an object, replacing it if it is something else.
fn object_or_replace(value: &mut Value) -> &mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

/// Returns the text of a field of `metadata`.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    metadata(object).get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Returns `metadata.generateName`.
pub(crate) fn generate_name(object: &Value) -> &str {
    text(object, "generateName")
}

/// Returns the name of an object in refusals of admission, which come before a name is generated: the name, or what it
/// is generated from. See `extractResourceName` in `staging/src/k8s.io/apiserver/pkg/admission/errors.go`.
pub(crate) fn admitted_name(object: &Value) -> &str {
    let given = [name(object), generate_name(object)].into_iter().find(|name| !name.is_empty());
    given.unwrap_or("Unknown")
}

/// Returns `metadata.namespace`.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// Returns `metadata.uid`.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// Returns `metadata.resourceVersion`.
pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// Returns `metadata.generation`; 0 if it is missing.
pub(crate) fn generation(object: &Value) -> i64 {
    metadata(object).get("generation").and_then(Value::as_i64).unwrap_or(0)
}

/// Returns true if the object has a deletionTimestamp.
pub(crate) fn is_deleted(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// Returns `metadata.labels`.
pub(crate) fn labels(object: &Value) -> Option<&Map> {
    metadata(object).get("labels").and_then(Value::as_object)
}

/// Returns `metadata.annotations`.
pub(crate) fn annotations(object: &Value) -> Option<&Map> {
    metadata(object).get("annotations").and_then(Value::as_object)
}

/// Returns the text of a label.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    labels(object)?.get(key).and_then(Value::as_str)
}

/// Returns the text of an annotation.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotations(object)?.get(key).and_then(Value::as_str)
}

/// Sets a field of `metadata`.
pub(crate) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    fields_mut(object).insert(field, value.into());
}

/// Sets a label.
#[cfg(feature = "controllers")]
pub(crate) fn set_label(object: &mut Value, key: &str, value: impl Into<Value>) {
    object_or_replace(fields_mut(object).entry("labels").or_insert(Value::Null)).insert(key, value.into());
}

/// Sets an annotation.
#[cfg(feature = "controllers")]
pub(crate) fn set_annotation(object: &mut Value, key: &str, value: impl Into<Value>) {
    object_or_replace(fields_mut(object).entry("annotations").or_insert(Value::Null)).insert(key, value.into());
}

/// Returns the reference to an object of a kind, as events and claims have it.
#[cfg(feature = "controllers")]
pub(crate) fn reference(api_version: &str, kind: &str, object: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "namespace": namespace(object), "name": name(object),
        "uid": uid(object), "resourceVersion": resource_version(object)})
}

/// Returns `metadata.ownerReferences`.
pub(crate) fn owner_references(object: &Value) -> &[Value] {
    metadata(object).get("ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the owner reference of the controller.
pub(crate) fn controller(object: &Value) -> Option<&Value> {
    owner_references(object).iter().find(|owner| owner["controller"] == true)
}

/// Returns true if an owner reference is to an object of this kind.
#[cfg(feature = "controllers")]
pub(crate) fn refers_to(owner: &Value, api_version: &str, kind: &str) -> bool {
    owner["apiVersion"] == *api_version && owner["kind"] == *kind
}

/// Returns the names in `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    metadata(object).get("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns true if the object has finalizers.
pub(crate) fn has_finalizers(object: &Value) -> bool {
    finalizers(object).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn fields_are_read() {
        let object = json!({"metadata": {
            "name": "n", "namespace": "s", "uid": "u", "resourceVersion": "7", "generation": 3,
            "deletionTimestamp": "2030-01-01T00:00:00Z", "labels": {"l": "1"}, "annotations": {"a": "2"},
            "finalizers": ["f", "g"], "ownerReferences": [{"uid": "x"}, {"uid": "y", "controller": true}],
        }});
        assert_eq!([name(&object), namespace(&object), uid(&object), resource_version(&object)], ["n", "s", "u", "7"]);
        assert_eq!((generation(&object), is_deleted(&object)), (3, true));
        assert_eq!(labels(&object).and_then(|labels| labels.get("l")), Some(&json!("1")));
        assert_eq!(annotation(&object, "a"), Some("2"));
        assert_eq!(finalizers(&object).collect::<Vec<_>>(), ["f", "g"]);
        assert_eq!(owner_references(&object).len(), 2);
        assert_eq!(controller(&object).map(|owner| &owner["uid"]), Some(&json!("y")));
    }

    #[test]
    fn fields_are_set_where_they_were_missing() {
        let mut object = json!({"metadata": {"labels": {"k": "v"}}});
        set(&mut object, "name", "n");
        assert_eq!(object, json!({"metadata": {"labels": {"k": "v"}, "name": "n"}}));
        let mut object = json!({});
        set(&mut object, "name", "n");
        set_label(&mut object, "l", "1");
        set_annotation(&mut object, "a", "2");
        set_annotation(&mut object, "b", "3");
        let expected = json!({"metadata": {"name": "n", "labels": {"l": "1"}, "annotations": {"a": "2", "b": "3"}}});
        assert_eq!(object, expected);
    }

    #[test]
    fn missing_and_malformed_fields_are_empty() {
        for object in
            [json!(null), json!({}), json!({"metadata": {"name": 1, "deletionTimestamp": null, "labels": []}})]
        {
            assert_eq!((name(&object), generation(&object), is_deleted(&object)), ("", 0, false));
            assert!(labels(&object).is_none() && annotation(&object, "a").is_none());
            assert_eq!(finalizers(&object).count(), 0);
            assert!(owner_references(&object).is_empty() && controller(&object).is_none());
        }
    }
}
