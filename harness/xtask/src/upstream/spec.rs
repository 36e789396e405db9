//! A spec of the test program.

use serde::Serialize;

/// A test of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    /// Full text: the texts of its containers and its own, joined by spaces.
    pub(crate) text: String,
    /// The special interest group that owns it, such as `api-machinery`.
    pub(crate) suite: String,
    /// True if every conformant cluster must pass it.
    pub(crate) conformance: bool,
    /// True if no other spec may run beside it.
    pub(crate) serial: bool,
}
