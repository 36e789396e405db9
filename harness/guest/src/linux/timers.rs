//! The timers of traced programs: alarms, timer files and POSIX timers. The kernel's own are never armed.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::calls::{Notification, Setting};
use super::clocks::{Clocks, Family, NEVER};
use super::sys;

/// The object that a timer belongs to, which says how it expires.
#[derive(Debug)]
pub(crate) enum Kind {
    /// `alarm` and `setitimer`: a signal to the process.
    Alarm,
    /// A timer file: the number under which it was set, and a copy of it.
    File(i32, OwnedFd),
    /// A POSIX timer: its number and its notification.
    Posix(i32, Notification),
}

/// One timer.
#[derive(Debug)]
pub(crate) struct Timer {
    process: i32,
    kind: Kind,
    family: Family,
    deadline: u64,
    interval: u64,
}

impl Timer {
    /// Makes a timer that is not set.
    pub(crate) fn new(process: i32, kind: Kind, family: Family) -> Self {
        Self { process, kind, family, deadline: NEVER, interval: 0 }
    }

    /// Sets the timer, and returns its setting before.
    pub(crate) fn set(&mut self, clocks: &Clocks, is_absolute: bool, setting: Setting) -> Setting {
        let before = self.setting(clocks);
        if let Kind::File(_, copy) = &self.kind {
            // Unread expirations are forgotten. It cannot fail for a timer file.
            let _ = sys::set_timer_file(copy, 0);
        }
        self.interval = setting.interval;
        self.deadline = match setting.first {
            0 => NEVER,
            time if is_absolute => clocks.at(self.family, time),
            length => clocks.after(length),
        };
        let now = clocks.now(self.family);
        if is_absolute && (1..=now).contains(&setting.first) {
            self.catch_up(clocks, now - setting.first);
        }
        before
    }

    /// Expires a timer file whose first time was so long ago, at once and as often as it has missed.
    fn catch_up(&mut self, clocks: &Clocks, missed: u64) {
        let Kind::File(_, copy) = &self.kind else { return };
        let (ticks, deadline) = match missed.checked_div(self.interval) {
            Some(periods) => (1 + periods, clocks.after(self.interval - missed % self.interval)),
            None => (1, NEVER),
        };
        add_ticks(copy, ticks);
        self.deadline = deadline;
    }

    /// Returns the time that is left, and the interval.
    pub(crate) fn setting(&self, clocks: &Clocks) -> Setting {
        let first = if self.deadline == NEVER { 0 } else { clocks.left(self.deadline).max(1) };
        Setting { first, interval: self.interval }
    }
}

/// All timers of a guest.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    timers: Vec<Timer>,
}

impl Timers {
    /// Returns the alarm of a process.
    pub(crate) fn alarm(&mut self, process: i32) -> &mut Timer {
        let is_it = |timer: &Timer| timer.process == process && matches!(timer.kind, Kind::Alarm);
        let make = || Timer::new(process, Kind::Alarm, Family::Monotonic);
        self.find_or_add(is_it, make)
    }

    /// Returns the timer of a timer file; `None` if the number is not that of one.
    pub(crate) fn file(&mut self, process: i32, number: i32) -> Option<&mut Timer> {
        let copy = sys::file_of(process, number).ok()?;
        let (clock, _) = file_information(&copy)?;
        let family = Family::of(clock)?;
        let same = |timer: &Timer| match &timer.kind {
            Kind::File(_, known) => sys::is_same_file(known, &copy),
            _ => false,
        };
        let index = self.timers.iter().position(same).unwrap_or_else(|| {
            self.timers.push(Timer::new(process, Kind::File(number, copy), family));
            self.timers.len() - 1
        });
        Some(&mut self.timers[index])
    }

    /// Returns a POSIX timer; `None` if it is not virtual.
    pub(crate) fn posix(&mut self, process: i32, number: i32) -> Option<&mut Timer> {
        self.timers.iter_mut().find(|timer| timer.is_posix(process, number))
    }

    /// Adds a POSIX timer.
    pub(crate) fn create(&mut self, process: i32, number: i32, family: Family, notification: Notification) {
        self.delete(process, number);
        self.timers.push(Timer::new(process, Kind::Posix(number, notification), family));
    }

    /// Removes a POSIX timer.
    pub(crate) fn delete(&mut self, process: i32, number: i32) {
        self.timers.retain(|timer| !timer.is_posix(process, number));
    }

    /// Removes the POSIX timers of a process that executes another program.
    pub(crate) fn execute(&mut self, process: i32) {
        self.timers.retain(|timer| timer.process != process || !matches!(timer.kind, Kind::Posix(..)));
    }

    /// Removes the timers of a process that has ended. Others may still have its timer files.
    pub(crate) fn end(&mut self, process: i32) {
        self.timers.retain(|timer| timer.process != process || matches!(timer.kind, Kind::File(..)));
    }

    /// Returns the next deadline.
    pub(crate) fn next(&self) -> u64 {
        self.timers.iter().map(|timer| timer.deadline).min().unwrap_or(NEVER)
    }

    /// Expires the timers with exactly this deadline. `processes` are those that live. Returns their number.
    pub(crate) fn expire(&mut self, deadline: u64, processes: &[i32]) -> usize {
        let mut expired = 0;
        self.timers.retain_mut(|timer| {
            if timer.deadline != deadline {
                return true;
            }
            if !timer.is_open(processes) {
                return false;
            }
            timer.deadline = if timer.interval == 0 { NEVER } else { timer.deadline.saturating_add(timer.interval) };
            timer.notify();
            expired += 1;
            true
        });
        expired
    }

    fn find_or_add(&mut self, is_it: impl Fn(&Timer) -> bool, make: impl FnOnce() -> Timer) -> &mut Timer {
        let index = self.timers.iter().position(is_it).unwrap_or_else(|| {
            self.timers.push(make());
            self.timers.len() - 1
        });
        &mut self.timers[index]
    }
}

impl Timer {
    fn is_posix(&self, process: i32, number: i32) -> bool {
        self.process == process && matches!(self.kind, Kind::Posix(known, _) if known == number)
    }

    /// Returns false for a timer file that no process has open any more.
    fn is_open(&mut self, processes: &[i32]) -> bool {
        let Kind::File(number, copy) = &mut self.kind else { return true };
        let is_it = |process: i32, number: i32| {
            sys::file_of(process, number).is_ok_and(|other| sys::is_same_file(copy, &other))
        };
        if is_it(self.process, *number) {
            return true;
        }
        for process in processes {
            let Some(other) = timer_files(*process).into_iter().find(|number| is_it(*process, *number)) else {
                continue;
            };
            (self.process, *number) = (*process, other);
            return true;
        }
        false
    }

    fn notify(&self) {
        match &self.kind {
            Kind::Alarm => {
                // A process that has just ended needs no signal.
                let _ = sys::kill(self.process, libc::SIGALRM);
            }
            Kind::File(_, copy) => add_ticks(copy, 1),
            Kind::Posix(_, Notification { signal: 0, .. }) => {}
            Kind::Posix(number, Notification { signal, value, thread }) => {
                let value = value.unwrap_or(*number as u64);
                sys::send_timer_signal(self.process, *thread, *signal, *number, value);
            }
        }
    }
}

/// Adds unread expirations to a timer file.
fn add_ticks(copy: &OwnedFd, ticks: u64) {
    let (_, unread) = file_information(copy).unwrap_or_default();
    // Kernels without checkpoints cannot count: there, the file expires once.
    if sys::set_ticks(copy, unread + ticks).is_err() && sys::set_timer_file(copy, 1).is_ok() {
        while file_information(copy).is_some_and(|(_, ticks)| ticks == 0) {
            sys::yield_now();
        }
    }
}

/// Returns the clock and the unread expirations of a timer file; `None` for other files.
fn file_information(file: &OwnedFd) -> Option<(i32, u64)> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Some((field("clockid:")?.parse().ok()?, field("ticks:")?.parse().ok()?))
}

/// Returns the numbers of a process's timer files.
fn timer_files(process: i32) -> Vec<i32> {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let is_timer =
        |path: &std::path::Path| fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("[timerfd]"));
    let files = files.flatten().filter(|file| is_timer(&file.path()));
    files.filter_map(|file| file.file_name().to_str()?.parse().ok()).collect()
}
