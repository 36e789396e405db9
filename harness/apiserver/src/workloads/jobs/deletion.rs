//! Deletion of jobs and of their pods, for `pkg/controller/{job,cronjob}`.

use super::super::namespace_controller::NamespaceController;
use crate::json::{Value, json};
use crate::metadata;

/// Deletes an object with a propagation policy.
///
/// # Errors
///
/// The message of the refusal; that the object is gone is none.
pub(super) async fn try_delete(
    controller: &NamespaceController,
    path: &str,
    object: &Value,
    policy: &str,
) -> Result<(), String> {
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy,
        "preconditions": {"uid": metadata::uid(object)}});
    let reply = controller.agent.delete(path, Some(&options)).await;
    if reply.is_ok() || reply.code == 404 { Ok(()) } else { Err(reply.message()) }
}
