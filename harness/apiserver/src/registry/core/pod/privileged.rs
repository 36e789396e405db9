//! Privileged containers, where the server does not allow them: `--allow-privileged=false`. See
//! `ValidateSecurityContext` and `validateWindowsHostProcessPod` in `pkg/apis/core/validation/validation.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::array_field;
use crate::registry::core::pod::windows;
use crate::registry::served_resource::Resource;

/// Returns the errors of privileged containers in a pod or in the template of a workload.
pub(crate) fn refused(kind: &Resource, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let fields: &[&str] = match (&*kind.group, &*kind.plural) {
        ("", "pods") => &["spec"],
        ("", "podtemplates") => &["template", "spec"],
        ("", "replicationcontrollers")
        | ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs") => &["spec", "template", "spec"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return errors,
    };
    check(object, fields, None, &mut errors);
    errors
}

fn check(object: &Value, fields: &[&str], path: Option<&Path<'_>>, errors: &mut ErrorList) {
    if let [field, rest @ ..] = fields {
        let path = path.map_or_else(|| Path::new(field), |path| path.child(field));
        return check(&object[*field], rest, Some(&path), errors);
    }
    let Some(path) = path else { return };
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let root = path.child(list);
        for (index, container) in array_field(object, list).iter().enumerate() {
            if container.pointer("/securityContext/privileged") == Some(&Value::Bool(true)) {
                let path = root.index(index);
                let path = path.child("securityContext");
                errors.forbidden(&path.child("privileged"), "disallowed by cluster policy");
            }
        }
    }
    if windows::has_host_processes(object) {
        errors.forbidden(path, "hostProcess containers are disallowed by cluster policy");
    }
}
