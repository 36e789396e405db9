//! The time of day in the world of a thread.
//!
//! The names that are hidden from the documentation are shared with the suite, and have no stability: the API server's
//! clock, and a stopwatch for reports.

use std::cell::Cell;
use std::time::Duration;

use jiff::Timestamp;

#[doc(hidden)]
pub use plumbline_apiserver::clock::{Clock, epoch, is_paused, run_virtual, run_virtual_with_io, run_wall, settle};

thread_local! {
    /// The time of day at the start of this thread's world, and that moment in tokio's time.
    static WORLD: Cell<Option<(Duration, tokio::time::Instant)>> = const { Cell::new(None) };
    /// The time of day that was read last on this thread.
    static LAST: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The time that reading the clock takes: virtual time does not move while a controller works, and a controller that
/// writes the present time again and again would write the same.
const READING: Duration = Duration::from_millis(1);

/// Returns the time of day in the world of this thread, as time since 1970; `None` on a thread without a world.
///
/// `plumbline_entropy::follow(plumbline::time::time_of_day)` makes it the time that controllers read from the system's
/// clock. Each reading at the same moment is a millisecond later than the one before, as on a real machine.
#[must_use]
pub fn time_of_day() -> Option<Duration> {
    let (start, since) = WORLD.try_with(Cell::get).ok()??;
    let now = start + since.elapsed();
    let last = LAST.try_with(Cell::get).unwrap_or_default();
    let now = if now > last { now } else { last + READING };
    // A thread that ends has no last reading any more.
    let _ = LAST.try_with(|last| last.set(now));
    Some(now)
}

/// Starts the time of day of this thread's world, or ends it.
#[expect(clippy::disallowed_methods, reason = "a clock")]
pub(crate) fn set_time_of_day(start: Option<Timestamp>) {
    let since_1970 = |start: Timestamp| Duration::try_from(start.duration_since(Timestamp::UNIX_EPOCH)).ok();
    LAST.set(Duration::ZERO);
    WORLD.set(start.and_then(since_1970).map(|start| (start, tokio::time::Instant::now())));
}

/// A wall-clock stopwatch, for reports only: nothing is decided by it.
#[doc(hidden)]
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
