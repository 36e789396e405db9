//! Timer files (`timerfd`). The kernel's timer of each that is set never expires, and its interval marks the file, so
//! that it is known again under any number in any process. The tracer keeps no copy: a file that the programs have
//! closed is gone.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use super::sys;
use super::watch;

/// The interval of the kernel's timer of the file with the mark 0, in seconds. A century has fewer than twice as many.
const UNMARKED: u64 = 2_000_000_000;

/// A timer file of a program.
#[derive(Debug)]
pub(super) struct TimerFile {
    copy: OwnedFd,
    /// Its clock.
    pub(super) clock: i32,
    /// The mark, if it was set in virtual time.
    pub(super) mark: Option<u64>,
    /// Expirations that were not read.
    unread: u64,
}

impl TimerFile {
    /// Returns a file of a process; `None` if it is no timer file, or must not be shared.
    pub(super) fn open(process: i32, number: i32) -> Option<Self> {
        let (clock, unread, mark) = information(process, number)?;
        let copy = sys::file_of(process, number).ok()?;
        Some(Self { copy, clock, mark, unread })
    }

    /// Marks the file and forgets its unread expirations; without a mark, its timer is not set.
    pub(super) fn set(&self, mark: Option<u64>) {
        // It cannot fail for a timer file.
        let _ = match mark {
            Some(mark) => sys::set_timer_file(&self.copy, (UNMARKED + mark, 0), UNMARKED + mark),
            None => sys::set_timer_file(&self.copy, (0, 0), 0),
        };
    }

    /// Adds unread expirations.
    pub(super) fn add_ticks(&self, ticks: u64) {
        if sys::set_ticks(&self.copy, self.unread.saturating_add(ticks)).is_ok() {
            return;
        }
        // Kernels without checkpoints cannot count: there, the file expires once.
        let interval = UNMARKED + self.mark.unwrap_or(0);
        if sys::set_timer_file(&self.copy, (0, 1), interval).is_ok() {
            while !sys::is_readable(&[self.copy.as_raw_fd()]) {
                sys::yield_now();
            }
        }
    }
}

/// Returns the process that has the marked file open, and its number there. `place` is tried first.
pub(super) fn find(searched: u64, place: (i32, i32), processes: &[i32]) -> Option<(i32, i32)> {
    let is_it = |(process, number): (i32, i32)| mark(process, number) == Some(searched);
    if is_it(place) {
        return Some(place);
    }
    let is_timer = |name: &Path| name.to_string_lossy().contains("[timerfd]");
    let files = processes.iter().flat_map(|process| watch::files(*process).into_iter().map(|file| (*process, file)));
    let mut places = files.filter(|(_, (_, name))| is_timer(name)).map(|(process, (number, _))| (process, number));
    places.find(|place| is_it(*place))
}

/// Returns the mark of a file; `None` if it has none.
pub(super) fn mark(process: i32, number: i32) -> Option<u64> {
    information(process, number)?.2
}

/// Reads the clock, the unread expirations and the mark of a timer file; `None` for other files.
fn information(process: i32, number: i32) -> Option<(i32, u64, Option<u64>)> {
    parse(&fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).ok()?)
}

fn parse(text: &str) -> Option<(i32, u64, Option<u64>)> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let interval = field("it_interval:").and_then(|interval| interval.strip_prefix('(')?.split(',').next());
    let mark = interval.and_then(|seconds| seconds.parse::<u64>().ok()?.checked_sub(UNMARKED));
    Some((field("clockid:")?.parse().ok()?, field("ticks:")?.parse().ok()?, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read() {
        let text = |interval: &str| {
            format!("pos:\t0\nclockid: 1\nticks: 3\nsettime flags: 00\nit_value: (9, 1)\nit_interval: ({interval})\n")
        };
        assert_eq!(parse(&text("2000000007, 0")), Some((1, 3, Some(7))));
        assert_eq!(parse(&text("10, 0")), Some((1, 3, None)));
        assert_eq!(parse("pos:\t0\nflags: 02\n"), None);
    }
}
