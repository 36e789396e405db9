//! Failures of the environment.

use std::fmt;

use crate::process::crash_cleanup::HelperError;

/// Categories of environment failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A program, an image or a file is missing.
    Missing,
    /// Something did not start, ended early, or could not be stopped.
    Failed,
    /// Something runs but did not become ready in time.
    NotReady,
    /// Nothing responds, or the response is not that of a Kubernetes API server.
    Unreachable,
    /// The user lacks permissions that the suite needs.
    Forbidden,
}

/// A failure of the environment: [`crate::exit::Exit::Environment`]. The message names the cause and the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct EnvironmentError {
    /// The category.
    pub kind: FailureKind,
    /// The thing and its failure.
    pub what: String,
    /// Supporting lines: places searched, the end of a log.
    pub evidence: Vec<String>,
    /// The next step for the user.
    pub next: String,
}

impl EnvironmentError {
    pub(super) fn new(kind: FailureKind, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { kind, what: what.into(), evidence: Vec::new(), next: next.into() }
    }

    pub(super) fn with(mut self, evidence: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(evidence);
        self
    }
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for line in &self.evidence {
            write!(f, "\n    {line}")?;
        }
        write!(f, "\n  next: {}", self.next)
    }
}

impl From<HelperError> for EnvironmentError {
    fn from(error: HelperError) -> Self {
        Self::new(FailureKind::Failed, error.to_string(), "check the limit on processes (`ulimit -u`)")
    }
}

/// Number of log lines in an error.
pub(super) const EVIDENCE_LINES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_thing_and_the_next_step() {
        let error = EnvironmentError::new(FailureKind::Missing, "no etcd", "install it").with(["/a".to_owned()]);
        assert_eq!(error.to_string(), "no etcd\n    /a\n  next: install it");
    }
}
