//! References to objects of any kind: backends of ingresses and parameters of classes. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::non_null;
use crate::registry::{checks, names};

/// Validates a reference to an object of any kind in the same namespace.
pub(super) fn typed_reference(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(group) = non_null(reference, "apiGroup").and_then(Value::as_str) {
        checks::format(group, names::dns1123_subdomain, &path.child("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        checks::required_format(reference, field, |text| names::path_segment(text, false), path, errors);
    }
}
