//! The clocks of a guest and the arithmetic of deadlines. Pure.

/// A deadline that is never reached.
pub(crate) const NEVER: u64 = u64::MAX;

/// The grain in which time moves: one millisecond, in nanoseconds. It is also that of `plumbline serve`.
pub(crate) const GRAIN: u64 = 1_000_000;

/// One second in nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// A family of clocks that show the same virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Time since 1970: `CLOCK_REALTIME`, `_COARSE`, `_ALARM`, `CLOCK_TAI`.
    Realtime,
    /// Time since the machine's start: `CLOCK_MONOTONIC`, `_RAW`, `_COARSE`, `CLOCK_BOOTTIME`, `_ALARM`.
    Monotonic,
}

impl Family {
    /// Returns the family of a clock's number; `None` for clocks of processor time and unknown ones.
    pub(crate) fn of(clock: i32) -> Option<Self> {
        match clock {
            0 | 5 | 8 | 11 => Some(Self::Realtime),
            1 | 4 | 6 | 7 | 9 => Some(Self::Monotonic),
            _ => None,
        }
    }
}

/// Virtual time. All values are in nanoseconds; deadlines count from the start of the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    /// Virtual time since the start.
    pub(crate) elapsed: u64,
    /// The monotonic clocks at the start.
    pub(crate) monotonic_start: u64,
    /// The realtime clocks at the start.
    pub(crate) realtime_start: u64,
}

impl Clocks {
    /// Returns what a clock shows.
    pub(crate) fn now(&self, family: Family) -> u64 {
        self.start(family) + self.elapsed
    }

    /// Returns the deadline `length` after now.
    pub(crate) fn after(&self, length: u64) -> u64 {
        self.elapsed.saturating_add(length)
    }

    /// Returns the deadline at which a clock shows `time`. A time before the start is a deadline at the start.
    pub(crate) fn at(&self, family: Family, time: u64) -> u64 {
        if time == NEVER { NEVER } else { time.saturating_sub(self.start(family)) }
    }

    /// Returns the time from now to a deadline; 0 if it is over.
    pub(crate) fn left(&self, deadline: u64) -> u64 {
        deadline.saturating_sub(self.elapsed)
    }

    fn start(&self, family: Family) -> u64 {
        match family {
            Family::Realtime => self.realtime_start,
            Family::Monotonic => self.monotonic_start,
        }
    }
}

/// Rounds a deadline up to the grain of time.
pub(crate) fn round_up(deadline: u64) -> u64 {
    deadline.checked_next_multiple_of(GRAIN).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_count_from_the_start() {
        let clocks = Clocks { elapsed: 5 * SECOND, monotonic_start: 100 * SECOND, realtime_start: 1000 * SECOND };
        assert_eq!(clocks.now(Family::Realtime), 1005 * SECOND);
        assert_eq!(clocks.at(Family::Monotonic, 107 * SECOND), 7 * SECOND);
        assert_eq!(clocks.at(Family::Monotonic, SECOND), 0);
        assert_eq!(clocks.at(Family::Realtime, NEVER), NEVER);
        assert_eq!(clocks.after(NEVER - 1), NEVER);
        assert_eq!(clocks.left(4 * SECOND), 0);
        assert_eq!(clocks.left(7 * SECOND), 2 * SECOND);
    }

    #[test]
    fn deadlines_are_rounded_up() {
        assert_eq!([0, 1, GRAIN, GRAIN + 1, NEVER].map(round_up), [0, GRAIN, GRAIN, 2 * GRAIN, NEVER]);
    }
}
