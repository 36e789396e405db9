//! The clocks of a guest and the arithmetic of deadlines. Pure.

/// A deadline that is never reached.
pub(crate) const NEVER: u64 = u64::MAX;

/// The grain in which time moves: one millisecond, in nanoseconds. It is also that of `plumbline serve`.
pub(crate) const GRAIN: u64 = 1_000_000;

/// One second in nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// One microsecond in nanoseconds.
const MICROSECOND: u64 = 1000;

/// The most nanoseconds by which readings of `CLOCK_REALTIME` exceed the time. Since it is less than half a
/// microsecond, the nearest microsecond tells which deadline was meant.
const MOST_COUNTED: u64 = 499;

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

    /// Returns the most nanoseconds that readings of `CLOCK_REALTIME` count now. Inside a microsecond, where only a
    /// client stops time, they count none: the seconds and microseconds that programs show do not change.
    pub(crate) fn most_counted(&self) -> u64 {
        if self.now(Family::Realtime).is_multiple_of(MICROSECOND) { MOST_COUNTED } else { 0 }
    }

    /// Returns what `CLOCK_REALTIME` shows to a process to which it has shown `last`, once it has counted `by`
    /// nanoseconds; a reading is one. When time has moved, the count goes on where it was, so that no two readings are
    /// closer than the time between them. It begins again once it has become large.
    ///
    /// `arch::CODE` counts readings in the same way.
    pub(crate) fn counted(&self, last: u64, by: u64) -> u64 {
        let now = self.now(Family::Realtime);
        let most = self.most_counted();
        let before = match last.checked_sub(now) {
            Some(count) => Some(count),
            // The first reading after a move of time shows the same count as the last one before it.
            None => (last % MICROSECOND).checked_sub(1).filter(|count| *count + 1 < most / 2),
        };
        now + before.map_or(by.saturating_sub(1), |count| count.saturating_add(by)).min(most)
    }

    /// Returns the deadline `length` after now, to the nearest microsecond: a length that a program has computed from
    /// readings of `CLOCK_REALTIME` has their nanoseconds. A length is not rounded to nothing.
    pub(crate) fn after(&self, length: u64) -> u64 {
        let nearest = self.nearest(length);
        self.elapsed.saturating_add(if nearest == 0 { length } else { nearest })
    }

    /// Returns the deadline at which a clock shows `time`, to the nearest microsecond. A time before the start is a
    /// deadline at the start.
    pub(crate) fn at(&self, family: Family, time: u64) -> u64 {
        match time.checked_sub(self.now(family)) {
            _ if time == NEVER => NEVER,
            // The program has read it in this instant.
            Some(left) if family == Family::Realtime && self.nearest(left) == 0 => self.elapsed,
            Some(left) => self.after(left),
            None => time.saturating_sub(self.start(family)),
        }
    }

    fn nearest(&self, length: u64) -> u64 {
        if self.most_counted() == 0 {
            return length;
        }
        length.checked_add(MICROSECOND / 2).map_or(NEVER, |length| length / MICROSECOND * MICROSECOND)
    }

    /// Returns the time from now to a deadline; 0 if it is over.
    pub(crate) fn left(&self, deadline: u64) -> u64 {
        deadline.saturating_sub(self.elapsed)
    }

    /// Returns the last time that all clocks can show, in 2554.
    pub(crate) fn latest(&self) -> u64 {
        u64::MAX - SECOND - self.realtime_start.max(self.monotonic_start)
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
        assert!(clocks.latest() > 500 * 365 * 86_400 * SECOND && clocks.latest() < NEVER - 1000 * SECOND);
    }

    #[test]
    fn deadlines_are_those_that_were_meant() {
        let clocks = Clocks { elapsed: 5 * SECOND, monotonic_start: 100 * SECOND, realtime_start: 1000 * SECOND };
        let six = 6 * SECOND;
        for length in [SECOND - 499, SECOND - 1, SECOND, SECOND + 499] {
            assert_eq!(clocks.after(length), six, "{length}");
            assert_eq!(clocks.at(Family::Realtime, 1005 * SECOND + length), six, "{length}");
            assert_eq!(clocks.at(Family::Monotonic, 105 * SECOND + length), six, "{length}");
        }
        assert_eq!(clocks.after(SECOND + 500), six + 1000);
        assert_eq!(clocks.after(3), 5 * SECOND + 3, "a wait for three nanoseconds is one");
        assert_eq!(clocks.at(Family::Monotonic, 105 * SECOND + 3), 5 * SECOND + 3);
        assert_eq!(clocks.at(Family::Realtime, 1005 * SECOND + 499), 5 * SECOND, "it is over");
        let inside = Clocks { elapsed: 5 * SECOND + 7, ..clocks };
        assert_eq!(inside.after(SECOND - 7), six);
        assert_eq!(inside.at(Family::Realtime, 1006 * SECOND), six);
    }

    #[test]
    fn readings_count_until_there_are_many() {
        let clocks = Clocks { elapsed: 5 * SECOND, monotonic_start: 0, realtime_start: 1000 * SECOND };
        let now = 1005 * SECOND;
        assert_eq!(
            [0, now, now + 1, now + 498, now + 499, NEVER].map(|last| clocks.counted(last, 1) - now),
            [0, 1, 2, 499, 499, 499]
        );
        let later = Clocks { elapsed: 6 * SECOND, ..clocks };
        assert_eq!(
            [now, now + 7, now + 248, now + 249].map(|last| later.counted(last, 1) - now - SECOND),
            [0, 7, 248, 0]
        );
        assert_eq!([0, now, now + 200, now + 300].map(|last| clocks.counted(last, 248) - now), [247, 248, 448, 499]);
        let inside = Clocks { elapsed: 6 * SECOND + 1, ..clocks };
        assert_eq!([now, now + 7, now + SECOND + 1].map(|last| inside.counted(last, 1) - now - SECOND), [1, 1, 1]);
    }

    #[test]
    fn deadlines_are_rounded_up() {
        assert_eq!([0, 1, GRAIN, GRAIN + 1, NEVER].map(round_up), [0, GRAIN, GRAIN, 2 * GRAIN, NEVER]);
    }
}
