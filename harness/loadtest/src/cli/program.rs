//! The name of the program.

/// The name of the program in its messages.
pub(super) const PROGRAM: &str = "plumbline-loadtest";
