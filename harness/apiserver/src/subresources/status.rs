//! `/status`: the only endpoint that changes a status.

use crate::json::Value;
use crate::kinds::{self, Context, Kind};
use crate::status::Status;

/// Prepares and validates `new`, an update of the status of `old`.
///
/// # Errors
/// 422 with the field errors.
pub fn apply(kind: &Kind, new: &mut Value, old: &Value, ctx: &Context<'_>) -> Result<(), Status> {
    kind.strategy.prepare_for_status_update(new, old, ctx);
    let errors = kinds::validate_status_update(kind, new, old);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&kind.group, &kind.kind, kinds::meta::name(new), &errors))
}
