//! Reasons why a verb failed.

use std::io;

use super::streams::StdoutClosed;

/// Reasons why a verb failed.
#[derive(Debug)]
pub enum CliError {
    /// Invalid fixtures.
    BadFixtures(plumbline::fixture::Problems),
    /// Invalid or conflicting flags.
    Usage(String),
    /// The filters select no fixture.
    Nothing(String),
    /// A filter selects no fixture.
    IdleFilter {
        /// The filter, if it is a word.
        first: Option<String>,
        /// The error.
        message: String,
    },
    /// A document is inconsistent.
    Refuted(String),
    /// The environment failed.
    Environment(String),
    /// The reader of standard output, such as `head`, has closed the pipe.
    StdoutClosed,
}

impl CliError {
    /// Returns the error of a part that a verb needs.
    pub(super) fn environment(error: impl std::fmt::Display) -> Self {
        Self::Environment(error.to_string())
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.get_ref() {
            Some(inner) if inner.is::<StdoutClosed>() => Self::StdoutClosed,
            _ => Self::Environment(format!("unable to write: {error}")),
        }
    }
}
