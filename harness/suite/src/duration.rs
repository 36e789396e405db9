//! Durations on the command line and in small files.

use std::time::Duration;

/// Reads a duration such as `250ms`, `5s` or `1m30s`.
///
/// # Errors
///
/// Returns the reason, with the form to use.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|error| format!("{error} (write it like 250ms, 5s, 1m30s)"))?;
    Duration::try_from(duration).map_err(|_| "a duration cannot be negative".to_owned())
}
