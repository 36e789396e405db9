//! PATCH.

use super::scope::Scope;
use super::write::{Part, Written};
use crate::apiserver::status::Status;

/// Content types of patches.
pub(crate) const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

impl Scope<'_> {
    /// PATCH of an object or of its status.
    pub(crate) fn patch(&self, part: Part) -> Result<Written, Status> {
        let _ = part;
        Err(Status::internal("patches are wired when the patch module has landed"))
    }
}
