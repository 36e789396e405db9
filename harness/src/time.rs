//! Time in the harness: the API server's [`Clock`] with [`settle`], and a stopwatch for reports.

use std::time::Duration;

pub use plumbline_apiserver::clock::{Clock, epoch, is_paused, run_virtual, run_virtual_with_io, run_wall, settle};

/// A wall-clock stopwatch, for reports only: nothing is decided by it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts measuring.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "wall time for reports and watchdogs")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Wall time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Reads a duration such as `250ms`, `5s` or `1m30s`.
///
/// # Errors
///
/// Returns the reason, with the form to use.
#[cfg(feature = "suite")]
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|error| format!("{error} (write it like 250ms, 5s, 1m30s)"))?;
    Duration::try_from(duration).map_err(|_| "a duration cannot be negative".to_owned())
}
