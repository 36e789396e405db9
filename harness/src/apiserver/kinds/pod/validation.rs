//! Validation of pods and pod templates.

use serde_json::Value;

use crate::apiserver::field::{ErrorList, Path};
use crate::apiserver::kinds::{NameRule, meta};

/// Errors in a new pod.
pub(super) fn create(pod: &Value) -> ErrorList {
    meta::validate(pod, true, NameRule::Subdomain, &Path::new("metadata"))
}

/// Errors in an update of a pod.
pub(super) fn update(_new: &Value, _old: &Value) -> ErrorList {
    ErrorList::new()
}

/// Errors in a new status of a pod.
pub(super) fn status_update(_new: &Value, _old: &Value) -> ErrorList {
    ErrorList::new()
}

/// Errors in a pod template.
pub(in crate::apiserver::kinds) fn template(_template: &Value, _path: &Path<'_>, _errors: &mut ErrorList) {}
