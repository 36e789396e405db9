//! Reasons why a run has no result.

use std::path::{Path, PathBuf};

/// Reasons why a run has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// A file of rules is invalid.
    #[error("{file}: {why}")]
    Rules {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
    /// No spec is selected.
    #[error("none of the {0} specs of the test program is selected: widen --focus, or list them with --list")]
    Nothing(usize),
    /// A program did not start, or ended.
    #[error("{0}")]
    Process(String),
    /// A file or folder cannot be used.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The report of the test program cannot be read.
    #[error("the report of {program} cannot be read: {why}; run it by hand with --ginkgo.dry-run")]
    Report {
        /// The test program.
        program: String,
        /// The reason.
        why: String,
    },
    /// A signal ended the run.
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
}

impl UpstreamError {
    /// Adds the path to an error of the operating system.
    pub(super) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
