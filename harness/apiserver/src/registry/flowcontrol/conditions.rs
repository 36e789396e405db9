//! Conditions in the status of flow schemas and priority levels: `ValidateFlowSchemaStatus` and
//! `ValidatePriorityLevelConfigurationStatus` in `pkg/apis/flowcontrol/validation/validation.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::registry::checks;

/// Validates the conditions of an object: each has a type of its own.
pub(super) fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let path = path.child("conditions");
    let conditions = array_field(&object["status"], "conditions");
    let repeated = checks::repeated(conditions, |condition| str_field(condition, "type"));
    for (index, condition) in conditions.iter().enumerate() {
        let kind = str_field(condition, "type");
        let path = path.index(index);
        if repeated[index] {
            errors.duplicate(&path.child("type"), kind);
        }
        if kind.is_empty() {
            errors.required(&path.child("type"), "");
        }
    }
    errors
}
