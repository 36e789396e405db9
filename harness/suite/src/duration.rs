//! Durations on the command line and in small files.

use std::time::Duration;

/// A text that is no duration.
#[derive(Debug, thiserror::Error)]
pub enum DurationError {
    /// It has another form.
    #[error("{0} (write it like 250ms, 5s, 1m30s)")]
    Form(jiff::Error),
    /// It is less than zero.
    #[error("a duration cannot be negative")]
    Negative,
}

/// Reads a duration such as `250ms`, `5s` or `1m30s`.
///
/// # Errors
///
/// Returns the reason, with the form to use.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let duration: jiff::SignedDuration = text.parse().map_err(DurationError::Form)?;
    Duration::try_from(duration).map_err(|_| DurationError::Negative)
}
