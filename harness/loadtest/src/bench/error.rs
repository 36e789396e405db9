//! Reasons why a measurement failed.

use std::path::PathBuf;

/// Reasons why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The kubeconfig cannot be used.
    #[error("{path}: {why}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// Connections or processes failed.
    #[error("{doing} failed: {source}")]
    Io {
        /// The operation.
        doing: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The server refused a request of the load.
    #[error("{request} returned {status}: {body}")]
    Refused {
        /// Method and path.
        request: String,
        /// HTTP status code.
        status: u16,
        /// Beginning of the body.
        body: String,
    },
    /// The server's response lacks something.
    #[error("{0}")]
    Reply(String),
    /// A list does not contain everything that was written.
    #[error("the list {what} has {found} items, expected {expected}")]
    Incomplete {
        /// Path and query.
        what: String,
        /// Items found.
        found: u64,
        /// Items written.
        expected: u64,
    },
    /// A watcher did not get all events.
    #[error("a watcher did not get all events")]
    Lost,
    /// A task of the load failed.
    #[error("a task of the load ended early: {0}")]
    Task(String),
}
