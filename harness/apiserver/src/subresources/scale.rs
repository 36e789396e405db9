//! `/scale`: reads and writes the replicas of a workload as an `autoscaling/v1` Scale. Follows the `ScaleREST` types of
//! upstream's storages, such as `pkg/registry/apps/deployment/storage/storage.go` of Kubernetes 1.36, and
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go`.

use std::borrow::Cow;

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, object_or_insert, str_field};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::patch::go_text;
use crate::registry::{NameFormat, checks, meta};
use crate::status::Status;

/// The `subresources.scale` of a definition: the fields that a Scale reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// JSON path of the desired replicas, such as `.spec.replicas`.
    pub spec_replicas: String,
    /// JSON path of the observed replicas.
    pub status_replicas: String,
    /// JSON path of the selector in string form, if declared.
    pub label_selector: Option<String>,
}

impl Default for ScalePaths {
    fn default() -> Self {
        Self {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: None,
        }
    }
}

/// The replicas of a Scale whose object has none: the smallest number. A write has to replace it.
const NO_REPLICAS: i64 = i32::MIN as i64;

/// Returns the Scale of an object; `paths` are those of a custom resource, whose missing replicas count as zero.
///
/// # Errors
/// Replicas of a custom resource are not an integer, or its selector is not a text.
pub(crate) fn scale_of(object: &Value, paths: Option<&ScalePaths>) -> Result<Value, NestedFieldError> {
    match paths {
        Some(paths) => Ok(from_custom(object, paths)?.0),
        None => Ok(from_builtin(object)),
    }
}

/// Like [`scale_of`], for reads.
///
/// # Errors
/// 500 also for a custom resource without the desired replicas.
pub(crate) fn shown_scale(object: &Value, paths: Option<&ScalePaths>) -> Result<Value, Status> {
    let Some(paths) = paths else { return Ok(from_builtin(object)) };
    let (scale, found) = from_custom(object, paths).map_err(|error| Status::untyped_error(error.to_string()))?;
    let missing = || Status::internal(format!("the spec replicas field {:?} does not exist", paths.spec_replicas));
    found.then_some(scale).ok_or_else(missing)
}

/// Like [`scale_of`], for writes: missing replicas of a custom resource are the smallest number.
///
/// # Errors
/// 500 as for reads, but for missing replicas.
pub(crate) fn current_scale(object: &Value, paths: Option<&ScalePaths>) -> Result<Value, Status> {
    let Some(paths) = paths else { return Ok(from_builtin(object)) };
    let (mut scale, found) = from_custom(object, paths).map_err(|error| Status::untyped_error(error.to_string()))?;
    if !found {
        scale["spec"]["replicas"] = NO_REPLICAS.into();
    }
    Ok(scale)
}

/// Returns the refusal of a write that leaves the replicas of a custom resource missing.
pub(crate) fn check_replicas(replicas: Option<&Value>, paths: Option<&ScalePaths>) -> Result<(), Status> {
    let missing = replicas.and_then(Value::as_i64) == Some(NO_REPLICAS);
    match paths.filter(|_| missing) {
        None => Ok(()),
        Some(paths) => {
            let path = &paths.spec_replicas;
            Err(Status::bad_request(format!("the spec replicas field {path:?} cannot be empty")))
        }
    }
}

/// Returns the Scale of a built-in workload.
fn from_builtin(object: &Value) -> Value {
    let replicas = |part: &str| int_field(object, part, "replicas");
    let selector = object.get("spec").and_then(|s| s.get("selector"));
    build(object, replicas("spec"), replicas("status"), &selector_to_string(selector))
}

fn int_field(object: &Value, part: &str, field: &str) -> i64 {
    object.get(part).and_then(|p| p.get(field)).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns the Scale of a custom resource, and whether it has the desired replicas.
fn from_custom(object: &Value, paths: &ScalePaths) -> Result<(Value, bool), NestedFieldError> {
    let wanted = nested_int64(object, &paths.spec_replicas)?;
    let observed = nested_int64(object, &paths.status_replicas)?.unwrap_or(0);
    let selector = paths.label_selector.as_deref().map(|path| nested_string(object, path)).transpose()?.flatten();
    Ok((build(object, wanted.unwrap_or(0), observed, selector.unwrap_or_default()), wanted.is_some()))
}

/// A value that is not of the type that is read: `NestedFieldNoCopy` of
/// `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/helpers.go`.
#[derive(Debug, thiserror::Error)]
#[error("{path} accessor error: {shown} is of the type {found}, expected {wanted}")]
pub(crate) struct NestedFieldError {
    path: String,
    shown: String,
    found: &'static str,
    wanted: &'static str,
}

fn wrong_type(path: String, value: &Value, wanted: &'static str) -> NestedFieldError {
    let found = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    NestedFieldError { path, shown: go_text(value), found, wanted }
}

/// Returns the value at a path such as `.spec.replicas`; `None` if it is missing, or something on the way is null.
fn nested<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, NestedFieldError> {
    let mut value = object;
    let mut walked = String::new();
    for step in path.strip_prefix('.').unwrap_or(path).split('.') {
        walked.push('.');
        walked.push_str(step);
        match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(step) {
                Some(next) => value = next,
                None => return Ok(None),
            },
            other => return Err(wrong_type(walked, other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

/// Returns the integer at a path.
///
/// # Errors
/// The value is something else, or a value on the way is no object.
pub(crate) fn nested_int64(object: &Value, path: &str) -> Result<Option<i64>, NestedFieldError> {
    let Some(value) = nested(object, path)? else { return Ok(None) };
    let number = value.as_i64().filter(|_| !matches!(value, Value::Number(number) if number.is_f64()));
    number.map(Some).ok_or_else(|| wrong_type(full_path(path), value, "int64"))
}

/// Returns the text at a path.
///
/// # Errors
/// The value is something else, or a value on the way is no object.
pub(crate) fn nested_string<'a>(object: &'a Value, path: &str) -> Result<Option<&'a str>, NestedFieldError> {
    let Some(value) = nested(object, path)? else { return Ok(None) };
    value.as_str().map(Some).ok_or_else(|| wrong_type(full_path(path), value, "string"))
}

fn full_path(path: &str) -> String {
    format!(".{}", path.strip_prefix('.').unwrap_or(path))
}

fn build(object: &Value, wanted: i64, observed: i64, selector: &str) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.get("metadata").and_then(|m| m.get(field)) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut spec = Map::new();
    if wanted != 0 {
        spec.insert("replicas", wanted.into());
    }
    let mut status = Map::new();
    status.insert("replicas", observed.into());
    if !selector.is_empty() {
        status.insert("selector", selector.into());
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// Validates a Scale.
pub(crate) fn validate(scale: &Value) -> ErrorList {
    let mut errors = meta::validate(scale, true, NameFormat::Subdomain, &Path::new("metadata"));
    let spec = Path::new("spec");
    let replicas = scale.get("spec").and_then(|s| s.get("replicas"));
    checks::validate_non_negative(replicas, &spec.child("replicas"), &mut errors);
    errors
}

/// Writes the replicas of `scale` into `object` (`paths` is `None` for a built-in workload). The Scale's
/// resourceVersion becomes the object's, so that the store checks it.
///
/// # Errors
/// 422 for an invalid Scale, 400 for one whose replicas are still missing.
pub(crate) fn apply(object: &mut Value, scale: &Value, paths: Option<&ScalePaths>) -> Result<(), Status> {
    let errors = validate(scale);
    // For custom resources, their own validation refuses bad replicas.
    check_replicas(scale.pointer("/spec/replicas"), paths)?;
    if paths.is_none() && !errors.is_empty() {
        return Err(Status::invalid("autoscaling", "Scale", metadata::name(object), &errors));
    }
    let metadata = scale.get("metadata").unwrap_or(&Value::Null);
    let replicas = scale.get("spec").and_then(|s| s.get("replicas")).and_then(Value::as_i64).unwrap_or(0);
    match paths {
        None => {
            if let Some(spec) = object_or_insert(object, "spec") {
                spec.insert("replicas", replicas.into());
            }
        }
        Some(paths) => set_replicas(object, paths, replicas.into()),
    }
    let version = str_field(metadata, "resourceVersion");
    if let Some(own) = object_or_insert(object, "metadata") {
        if version.is_empty() {
            own.remove("resourceVersion");
        } else {
            own.insert("resourceVersion", version.into());
        }
    }
    Ok(())
}

/// Sets the desired replicas of a custom resource.
pub(crate) fn set_replicas(object: &mut Value, paths: &ScalePaths, replicas: Value) {
    set_at_path(object, &paths.spec_replicas, replicas);
}

fn set_at_path(object: &mut Value, path: &str, value: Value) {
    let mut steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).collect();
    let Some(last) = steps.pop() else { return };
    let mut place = object;
    for step in steps {
        let Some(map) = place.as_object_mut() else { return };
        place = map.entry(step).or_insert_with(|| Value::Object(Map::new()));
    }
    if let Some(map) = place.as_object_mut() {
        map.insert(last.to_owned(), value);
    }
}

/// Formats a selector as a query parameter, like `labels.Selector` in Go: requirements sorted by key.
pub(crate) fn selector_to_string(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let mut requirements: Vec<(&str, Cow<'_, str>)> = Vec::new();
    // ReplicationControllers have a plain map of labels.
    let bare = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let labels = if bare { selector.as_object() } else { selector.get("matchLabels").and_then(Value::as_object) };
    for (key, value) in labels.into_iter().flatten() {
        requirements.push((key, format!("{key}={}", value.as_str().unwrap_or_default()).into()));
    }
    for expression in array_field(selector, "matchExpressions") {
        let key = str_field(expression, "key");
        let mut values: Vec<&str> = array_field(expression, "values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let text = match str_field(expression, "operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        requirements.push((key, text.into()));
    }
    requirements.sort_by(|a, b| a.0.cmp(b.0));
    requirements.iter().map(|r| r.1.as_ref()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::labels(json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2")]
    #[case::expressions(
        json!({"matchLabels": {"m": "1"}, "matchExpressions": [
            {"key": "z", "operator": "NotIn", "values": ["v", "u"]},
            {"key": "a", "operator": "DoesNotExist"},
            {"key": "b", "operator": "Exists"},
        ]}),
        "!a,b,m=1,z notin (u,v)"
    )]
    #[case::bare_map(json!({"a": "b"}), "a=b")]
    #[case::empty(json!({}), "")]
    fn selectors_print_sorted(#[case] selector: Value, #[case] expected: &str) {
        assert_eq!(selector_to_string(Some(&selector)), expected);
    }

    fn deployment() -> Value {
        json!({"metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}}, "status": {"replicas": 2}})
    }

    #[test]
    fn a_scale_shows_replicas_and_selector() {
        let expected = json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}});
        assert_eq!(from_builtin(&deployment()), expected);
    }

    #[test]
    fn applying_a_scale_moves_replicas_and_version() {
        let mut object = deployment();
        let mut scale = from_builtin(&object);
        scale["spec"]["replicas"] = 5.into();
        scale["metadata"]["resourceVersion"] = "8".into();
        apply(&mut object, &scale, None).expect("valid");
        assert_eq!(object["spec"]["replicas"], 5);
        assert_eq!(object["metadata"]["resourceVersion"], "8");
        scale["spec"]["replicas"] = (-1).into();
        assert_eq!(apply(&mut object, &scale, None).expect_err("negative").code, 422);
    }

    #[test]
    fn custom_resources_are_scaled_by_their_paths() {
        let paths = ScalePaths { label_selector: Some(".status.sel".to_owned()), ..ScalePaths::default() };
        let object =
            json!({"metadata": {"name": "c"}, "spec": {"replicas": 4}, "status": {"replicas": 4, "sel": "a=b"}});
        let scale = scale_of(&object, Some(&paths)).expect("scale");
        assert_eq!(scale["spec"]["replicas"], 4);
        assert_eq!(scale["status"], json!({"replicas": 4, "selector": "a=b"}));
        let refused = shown_scale(&json!({"spec": {}}), Some(&paths)).expect_err("no replicas");
        let why = "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist";
        assert_eq!((refused.code, refused.message.as_str()), (500, why));
    }

    /// `NestedInt64` and `NestedString` of `unstructured/helpers.go`.
    #[rstest]
    #[case::text(json!({"spec": {"replicas": "x"}}), ".spec.replicas accessor error: x is of the type string, expected int64")]
    #[case::null(json!({"spec": {"replicas": null}}), ".spec.replicas accessor error: <nil> is of the type <nil>, expected int64")]
    #[case::float(json!({"spec": {"replicas": 1.5}}), ".spec.replicas accessor error: 1.5 is of the type float64, expected int64")]
    #[case::no_object(json!({"spec": [1, 2]}), ".spec.replicas accessor error: [1 2] is of the type []interface {}, expected map[string]interface{}")]
    #[case::status(json!({"spec": {"replicas": 1}, "status": {"replicas": {"a": 1}}}), ".status.replicas accessor error: map[a:1] is of the type map[string]interface {}, expected int64")]
    #[case::selector(json!({"spec": {"replicas": 1}, "status": {"sel": true}}), ".status.sel accessor error: true is of the type bool, expected string")]
    fn values_of_other_types_are_errors(#[case] object: Value, #[case] why: &str) {
        let paths = ScalePaths { label_selector: Some(".status.sel".to_owned()), ..ScalePaths::default() };
        assert_eq!(shown_scale(&object, Some(&paths)).expect_err("refused").message, why);
    }
}
