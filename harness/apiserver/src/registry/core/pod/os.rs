//! Validation of fields that depend on the pod's operating system.
//!
//! See `validateWindows` and `validateLinux` in `pkg/apis/core/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::array_field;

/// Pod fields that are not allowed on Windows, by the path under which upstream reports them.
const WINDOWS_FORBIDDEN_POD_FIELDS: &[&str] = &[
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];

/// Fields of a container's `securityContext` that are not allowed on Windows.
const WINDOWS_FORBIDDEN_CONTAINER_FIELDS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Validates a spec for its operating system.
pub(super) fn validate(spec: &Value, system: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let (of_pod, of_container, why) = match system {
        "windows" => {
            (WINDOWS_FORBIDDEN_POD_FIELDS, WINDOWS_FORBIDDEN_CONTAINER_FIELDS, "cannot be set for a windows pod")
        }
        "linux" => (
            &["securityContext.windowsOptions"][..],
            &["windowsOptions"][..],
            "windows options cannot be set for a linux pod",
        ),
        _ => return,
    };
    for field in of_pod {
        let value = field.split('.').try_fold(spec, |value, step| value.get(step));
        let said = value.is_some_and(|v| !v.is_null() && v.as_array().is_none_or(|list| !list.is_empty()));
        // These two are plain flags, so false counts as absent.
        let plain = matches!(*field, "hostPID" | "hostIPC") && value == Some(&Value::Bool(false));
        if said && !plain {
            errors.forbidden(&path.child(field), why);
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let all = path.child(list);
        for (i, container) in array_field(spec, list).iter().enumerate() {
            let path = all.index(i);
            let path = path.child("securityContext");
            let context = container.get("securityContext").unwrap_or(&Value::Null);
            for field in of_container.iter().filter(|field| context.get(**field).is_some_and(|v| !v.is_null())) {
                errors.forbidden(&path.child(field), why);
            }
        }
    }
}
