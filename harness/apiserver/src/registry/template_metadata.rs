//! Metadata of templates, of which labels and annotations can be set. See `pkg/apis/resource/validation/validation.go`.
//! PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::is_empty_value;
use crate::metadata;
use crate::registry::meta;

/// Fields of an object's metadata, in upstream's order.
pub(super) const FIELDS: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Validates metadata of which a template can set labels and annotations only.
pub(super) fn validate(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(annotations) = metadata::annotations(template) {
        meta::validate_annotations(annotations, &path.child("annotations"), errors);
    }
    if let Some(labels) = metadata::labels(template) {
        meta::validate_labels(labels, &path.child("labels"), errors);
    }
    let own = template.get("metadata").unwrap_or(&Value::Null);
    let forbidden = FIELDS.into_iter().filter(|field| !matches!(*field, "labels" | "annotations"));
    for field in forbidden.filter(|field| !is_empty_value(own.get(*field))) {
        let shown = if field == "uid" { "uID" } else { field };
        errors.forbidden(&path.child(shown), "cannot be set");
    }
}
