//! Reasons why a measurement failed.

/// Reasons why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// Conflicting flags.
    #[error("{0}")]
    Usage(String),
    /// The cluster or a program did not start, or ended.
    #[error("{0}")]
    Environment(String),
    /// The load failed.
    #[error(transparent)]
    Bench(#[from] crate::bench::BenchError),
    /// A watch of the load generator ended.
    #[error("the watch of {path} ended: {why}")]
    Watch {
        /// The watched path.
        path: &'static str,
        /// The reason.
        why: String,
    },
}
