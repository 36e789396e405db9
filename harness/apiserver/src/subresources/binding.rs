//! `pods/binding` and `bindings`: assigns a pod to a node. Follows `BindingREST` in
//! `pkg/registry/core/pod/storage/storage.go` and `plugin/pkg/admission/podtopologylabels/admission.go` of Kubernetes
//! 1.36.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, object_or_insert, str_field};
use crate::metadata;
use crate::registry::{ObjectLister, conditions, topology_labels};
use crate::status::{GroupResource, Status};

/// Validates a Binding.
pub(crate) fn validate(binding: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let target = binding.get("target").unwrap_or(&Value::Null);
    let path = Path::new("target");
    let kind = str_field(target, "kind");
    if !kind.is_empty() && kind != "Node" {
        errors.not_supported(&path.child("kind"), kind, &["Node", "<empty>"]);
    }
    if str_field(target, "name").is_empty() {
        errors.required(&path.child("name"), "");
    }
    errors
}

/// Checks a Binding against the name in the URL (`None` for the old `/bindings`, where the body names the pod).
///
/// # Errors
/// 400 for another name; 500 for an invalid body, because upstream returns the bare list of field errors.
pub(crate) fn check(binding: &Value, name: Option<&str>) -> Result<(), Status> {
    if name.is_some_and(|name| name != metadata::name(binding)) {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    match validate(binding).to_aggregate_message() {
        Some(message) => Err(Status::failure(500, "", message)),
        None => Ok(()),
    }
}

/// `PodTopologyLabels` admission: adds the labels of the node's zone and region, which the pod gets.
pub(crate) fn admit(binding: &mut Value, lookup: &dyn ObjectLister) {
    let node = binding.get("target").map_or("", |t| str_field(t, "name")).to_owned();
    let labels = topology_labels(lookup, &node);
    if labels.is_empty() {
        return;
    }
    let Some(metadata) = binding.get_mut("metadata") else { return };
    if let Some(own) = object_or_insert(metadata, "labels") {
        own.extend(labels);
    }
}

/// Binds `pod` by a checked Binding. `now` is server time as RFC 3339. The message of a failed precondition depends on
/// `dry_run`, which has keys without the prefix of etcd.
///
/// # Errors
/// 409 for a failed precondition, and for a pod that is bound, being deleted, or not ready to be scheduled.
pub(crate) fn apply(pod: &mut Value, binding: &Value, now: &str, dry_run: bool) -> Result<(), Status> {
    let name = metadata::name(pod).to_owned();
    check_preconditions(pod, binding, &name, if dry_run { "" } else { "/registry" })?;
    let empty = Value::Null;
    let spec = pod.get("spec").unwrap_or(&empty);
    let node = str_field(spec, "nodeName");
    let refusal = if metadata::is_deleted(pod) {
        Some(format!("pod {name} is being deleted, cannot be assigned to a host"))
    } else if !node.is_empty() {
        Some(format!("pod {name} is already assigned to node \"{node}\""))
    } else if !array_field(spec, "schedulingGates").is_empty() {
        Some(format!("pod {name} has non-empty .spec.schedulingGates"))
    } else {
        None
    };
    if let Some(why) = refusal {
        return Err(Status::conflict(GroupResource::new("", "pods/binding"), &name, &why));
    }
    let target = binding.get("target").map_or("", |t| str_field(t, "name"));
    if let Some(spec) = object_or_insert(pod, "spec") {
        spec.insert("nodeName", target.into());
    }
    for field in ["annotations", "labels"] {
        merge(pod, binding, field);
    }
    if object_or_insert(pod, "status").is_some()
        && let Some(status) = pod.get_mut("status")
    {
        if let Some(map) = status.as_object_mut() {
            map.remove("nominatedNodeName");
        }
        conditions::upsert_pod_condition(status, "PodScheduled", "True", "", "", now);
    }
    Ok(())
}

fn merge(pod: &mut Value, binding: &Value, field: &str) {
    let Some(given) = binding.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_object) else { return };
    if given.is_empty() {
        return;
    }
    let Some(metadata) = pod.get_mut("metadata") else { return };
    if let Some(own) = object_or_insert(metadata, field) {
        for (key, value) in given {
            own.insert(key.clone(), value.clone());
        }
    }
}

fn check_preconditions(pod: &Value, binding: &Value, name: &str, root: &str) -> Result<(), Status> {
    let empty = Value::Null;
    let wanted = binding.get("metadata").unwrap_or(&empty);
    let own = pod.get("metadata").unwrap_or(&empty);
    let namespace = str_field(own, "namespace");
    for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let precondition = str_field(wanted, field);
        let actual = str_field(own, field);
        if !precondition.is_empty() && precondition != actual {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {root}/pods/{namespace}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {precondition}, {what} in object meta: {actual}"
            );
            return Err(Status::conflict(GroupResource::new("", "pods"), name, &why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    const NOW: &str = "2024-01-01T00:00:00Z";

    fn pod() -> Value {
        json!({"metadata": {"name": "p", "uid": "u"}, "spec": {}, "status": {"phase": "Pending", "nominatedNodeName": "m"}})
    }

    fn binding() -> Value {
        json!({"metadata": {"name": "p", "labels": {"l": "m"}}, "target": {"kind": "Node", "name": "n"}})
    }

    #[test]
    fn a_pod_is_bound_once() {
        let mut pod = pod();
        apply(&mut pod, &binding(), NOW, false).expect("bound");
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["metadata"]["labels"], json!({"l": "m"}));
        assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
        assert_eq!(pod["status"].get("nominatedNodeName"), None);
        let refused = apply(&mut pod, &binding(), NOW, false).expect_err("bound already");
        assert_eq!(
            refused.message,
            "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\""
        );
    }

    #[test]
    fn preconditions_hold() {
        let mut wrong = binding();
        wrong["metadata"]["uid"] = "other".into();
        for (dry_run, key) in [(true, "Key: /pods/"), (false, "Key: /registry/pods/")] {
            let refused = apply(&mut pod(), &wrong, NOW, dry_run).expect_err("uid");
            assert!(refused.code == 409 && refused.message.contains(key), "{}", refused.message);
        }
    }

    #[test]
    fn bad_bodies_are_refused_as_upstream_does() {
        assert_eq!(check(&binding(), Some("q")).expect_err("name").code, 400);
        let refused = check(&json!({"target": {"kind": "Foo"}}), None).expect_err("kind");
        assert_eq!(refused.code, 500);
        assert_eq!(
            refused.message,
            "[target.kind: Unsupported value: \"Foo\": supported values: \"Node\", \"<empty>\", target.name: Required value]"
        );
    }
}
