//! The annotations that a pod's streams follow.

/// The annotation with the script of commands.
pub(super) const EXEC: &str = "plumbline.dev/exec";

/// The start of the annotations with the addresses that ports lead to.
pub(super) const PORT_FORWARD: &str = "plumbline.dev/port-forward";
