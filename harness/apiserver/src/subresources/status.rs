//! `/status`: the only endpoint that changes a status.

use crate::json::Value;
use crate::registry::{self, Resource, StrategyContext};
use crate::status::Status;

/// Prepares and validates `new`, an update of the status of `old`.
///
/// # Errors
/// 422 with the field errors.
pub fn apply(kind: &Resource, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    kind.strategy.prepare_for_status_update(new, old, ctx);
    let errors = registry::validate_status_update(kind, new, old);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&kind.group, &kind.kind, registry::meta::name(new), &errors))
}
