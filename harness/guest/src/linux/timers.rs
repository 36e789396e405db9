//! The timers of traced programs: alarms, timer files and POSIX timers. The kernel's own never expire.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::{Notification, Setting};
use super::clocks::{Clocks, Family, NEVER};
use super::sys;
use super::timer_files::{self, TimerFile};
use super::watch;

/// The expirations that may be due at a time, one after the other. More are one expiration that counts them, as for
/// intervals of nanoseconds.
const MOST_DUE: u64 = 16;

/// The object that a timer belongs to, which says how it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// `alarm` and `setitimer` of a process: a signal to it.
    Alarm(i32),
    /// A timer file, by the number that its object has here.
    File(u64),
    /// A POSIX timer: its process and its number there.
    Posix(i32, i32),
}

/// The signal of a POSIX timer. At most one of each timer is pending; further expirations are counted.
#[derive(Clone, Copy, Debug)]
struct Signal {
    notification: Notification,
    is_pending: bool,
    /// Expirations since the pending one.
    overrun: u64,
    /// Those of the last signal that was delivered.
    last_overrun: u64,
}

/// One timer.
#[derive(Clone, Copy, Debug)]
struct Timer {
    family: Family,
    deadline: u64,
    interval: u64,
    /// The signal of a POSIX timer.
    signal: Option<Signal>,
    /// A process that had the timer file open, and its number there.
    place: (i32, i32),
}

impl Timer {
    const fn new(family: Family) -> Self {
        Self { family, deadline: NEVER, interval: 0, signal: None, place: (0, 0) }
    }

    /// Returns the time that is left, and the interval.
    fn setting(&self, clocks: &Clocks) -> Setting {
        let first = if self.deadline == NEVER { 0 } else { clocks.left(self.deadline).max(1) };
        Setting { first, interval: self.interval }
    }

    /// Moves the deadline past an expiration, and returns the number of those that are over.
    fn pass(&mut self, elapsed: u64) -> u64 {
        let due = elapsed.saturating_sub(self.deadline).checked_div(self.interval).unwrap_or(0);
        let ticks = if due > MOST_DUE { due + 1 } else { 1 };
        self.deadline =
            if self.interval == 0 { NEVER } else { self.deadline.saturating_add(self.interval.saturating_mul(ticks)) };
        ticks
    }
}

/// All timers of a guest, and the deadlines of those that are set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_key: BTreeMap<Key, Timer>,
    deadlines: BTreeSet<(u64, Key)>,
    /// The number of timer files that were set for the first time.
    files: u64,
}

impl Timers {
    /// Sets the alarm of a process, and returns its setting before.
    pub(crate) fn set_alarm(&mut self, process: i32, clocks: &Clocks, setting: Setting) -> Setting {
        self.set(Key::Alarm(process), Timer::new(Family::Monotonic), clocks, false, setting)
    }

    /// Returns the setting of the alarm of a process.
    pub(crate) fn alarm(&self, process: i32, clocks: &Clocks) -> Setting {
        self.setting(Key::Alarm(process), clocks).unwrap_or_default()
    }

    /// Sets a timer file, and returns its setting before; `None` if the number is not that of one.
    pub(crate) fn set_file(
        &mut self,
        (process, number): (i32, i32),
        clocks: &Clocks,
        is_absolute: bool,
        setting: Setting,
    ) -> Option<Setting> {
        let file = TimerFile::open(process, number)?;
        let family = Family::of(file.clock)?;
        let old = file.mark.and_then(|mark| self.take(Key::File(mark)));
        let before = old.map(|timer| timer.setting(clocks)).unwrap_or_default();
        if setting.first == 0 {
            file.set(None);
            return Some(before);
        }
        let mark = file.mark.unwrap_or_else(|| {
            self.files += 1;
            self.files
        });
        // Unread expirations are forgotten.
        file.set(Some(mark));
        let key = Key::File(mark);
        let timer = Timer { place: (process, number), ..Timer::new(family) };
        self.set(key, timer, clocks, is_absolute, setting);
        let now = clocks.now(family);
        if is_absolute && (1..=now).contains(&setting.first) {
            // It expires at once, as often as it has missed, and keeps its phase.
            let missed = now - setting.first;
            let (ticks, deadline) = match missed.checked_div(setting.interval) {
                Some(periods) => (1 + periods, clocks.after(setting.interval - missed % setting.interval)),
                None => (1, NEVER),
            };
            file.add_ticks(ticks);
            if let Some(timer) = self.take(key) {
                self.put(key, Timer { deadline, ..timer });
            }
        }
        Some(before)
    }

    /// Returns the setting of a timer file; `None` if the number is not that of one that was set.
    pub(crate) fn file(&self, process: i32, number: i32, clocks: &Clocks) -> Option<Setting> {
        let mark = timer_files::mark(process, number)?;
        Some(self.setting(Key::File(mark), clocks).unwrap_or_default())
    }

    /// Adds a POSIX timer.
    pub(crate) fn create(&mut self, process: i32, number: i32, family: Family, notification: Notification) {
        let key = Key::Posix(process, number);
        self.take(key);
        let signal = Signal { notification, is_pending: false, overrun: 0, last_overrun: 0 };
        self.put(key, Timer { signal: Some(signal), ..Timer::new(family) });
    }

    /// Sets a POSIX timer, and returns its setting before; `None` if it is not virtual.
    pub(crate) fn set_posix(
        &mut self,
        (process, number): (i32, i32),
        clocks: &Clocks,
        is_absolute: bool,
        setting: Setting,
    ) -> Option<Setting> {
        let key = Key::Posix(process, number);
        let timer = *self.by_key.get(&key)?;
        Some(self.set(key, timer, clocks, is_absolute, setting))
    }

    /// Returns the setting of a POSIX timer; `None` if it is not virtual.
    pub(crate) fn posix(&self, process: i32, number: i32, clocks: &Clocks) -> Option<Setting> {
        self.setting(Key::Posix(process, number), clocks)
    }

    /// Returns the expirations that the last signal of a POSIX timer stood for beside its own; `None` if it is not
    /// virtual.
    pub(crate) fn overrun(&self, process: i32, number: i32) -> Option<i32> {
        let signal = self.by_key.get(&Key::Posix(process, number))?.signal?;
        Some(i32::try_from(signal.last_overrun).unwrap_or(i32::MAX))
    }

    /// Returns true if a process has POSIX timers.
    pub(crate) fn has_posix(&self, process: i32) -> bool {
        self.by_key.range(Key::Posix(process, i32::MIN)..=Key::Posix(process, i32::MAX)).next().is_some()
    }

    /// Notes that the signal of a POSIX timer was delivered, and returns its overrun; `None` if it is not virtual.
    pub(crate) fn deliver(&mut self, process: i32, number: i32) -> Option<i32> {
        let signal = self.by_key.get_mut(&Key::Posix(process, number))?.signal.as_mut()?;
        signal.deliver();
        self.overrun(process, number)
    }

    /// Removes a POSIX timer.
    pub(crate) fn delete(&mut self, process: i32, number: i32) {
        self.take(Key::Posix(process, number));
    }

    /// Removes the POSIX timers of a process that executes another program.
    pub(crate) fn execute(&mut self, process: i32) {
        let own = Key::Posix(process, i32::MIN)..=Key::Posix(process, i32::MAX);
        let keys: Vec<Key> = self.by_key.range(own).map(|(key, _)| *key).collect();
        for key in keys {
            self.take(key);
        }
    }

    /// Removes the timers of a process that has ended. Others may still have its timer files.
    pub(crate) fn end(&mut self, process: i32) {
        self.take(Key::Alarm(process));
        self.execute(process);
    }

    /// Returns the next deadline.
    pub(crate) fn next(&self) -> u64 {
        self.deadlines.first().map_or(NEVER, |(deadline, _)| *deadline)
    }

    /// Expires the timers with exactly this deadline. `processes` are those that live.
    pub(crate) fn expire(&mut self, deadline: u64, elapsed: u64, processes: &[i32]) {
        let due: Vec<Key> = self
            .deadlines
            .range((deadline, Key::Alarm(i32::MIN))..)
            .map_while(|(at, key)| (*at == deadline).then_some(*key))
            .collect();
        for key in due {
            let Some(mut timer) = self.take(key) else { continue };
            let ticks = timer.pass(elapsed);
            match key {
                Key::Alarm(process) => {
                    // A process that has just ended needs no signal.
                    let _ = sys::kill(process, libc::SIGALRM);
                }
                Key::File(mark) => match timer_files::find(mark, timer.place, processes) {
                    Some(place) => {
                        timer.place = place;
                        if let Some(file) = TimerFile::open(place.0, place.1) {
                            file.add_ticks(ticks);
                        }
                    }
                    // No process has it open any more.
                    None => continue,
                },
                Key::Posix(process, number) => {
                    if let Some(signal) = &mut timer.signal {
                        signal.send(process, number, ticks);
                    }
                }
            }
            self.put(key, timer);
        }
    }

    fn setting(&self, key: Key, clocks: &Clocks) -> Option<Setting> {
        self.by_key.get(&key).map(|timer| timer.setting(clocks))
    }

    /// Sets a timer, which is `new` if it was not set before, and returns its setting before.
    fn set(&mut self, key: Key, new: Timer, clocks: &Clocks, is_absolute: bool, setting: Setting) -> Setting {
        let mut timer = self.take(key).unwrap_or(new);
        let before = timer.setting(clocks);
        timer.interval = setting.interval;
        timer.deadline = match setting.first {
            0 => NEVER,
            time if is_absolute => clocks.at(timer.family, time),
            length => clocks.after(length),
        };
        self.put(key, timer);
        before
    }

    fn take(&mut self, key: Key) -> Option<Timer> {
        let timer = self.by_key.remove(&key)?;
        self.deadlines.remove(&(timer.deadline, key));
        Some(timer)
    }

    /// Puts a timer into the table. Only POSIX timers stay there while they are not set.
    fn put(&mut self, key: Key, timer: Timer) {
        if timer.deadline != NEVER {
            self.deadlines.insert((timer.deadline, key));
        }
        if timer.deadline != NEVER || timer.signal.is_some() {
            self.by_key.insert(key, timer);
        }
    }
}

impl Signal {
    fn deliver(&mut self) {
        self.is_pending = false;
        self.last_overrun = std::mem::take(&mut self.overrun);
    }

    /// Sends the signal for some expirations, or counts them if it is still pending.
    fn send(&mut self, process: i32, number: i32, ticks: u64) {
        let Notification { signal, value, thread } = self.notification;
        if signal == 0 {
            return;
        }
        if self.is_pending {
            if watch::is_pending(thread.unwrap_or(process), signal) {
                self.overrun = self.overrun.saturating_add(ticks);
                return;
            }
            // A file of signals has received it.
            self.deliver();
        }
        self.is_pending = true;
        self.overrun = ticks - 1;
        sys::send_timer_signal(process, thread, signal, number, value.unwrap_or(number as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCKS: Clocks = Clocks { elapsed: 10, monotonic_start: 100, realtime_start: 5000 };

    #[test]
    fn the_table_keeps_only_what_is_set() {
        let mut timers = Timers::default();
        let setting = |first, interval| Setting { first, interval };
        assert_eq!(timers.set_alarm(7, &CLOCKS, setting(5, 0)), setting(0, 0));
        assert_eq!((timers.next(), timers.alarm(7, &CLOCKS)), (15, setting(5, 0)));
        assert_eq!(timers.set_alarm(7, &CLOCKS, setting(0, 0)), setting(5, 0));
        assert!(timers.by_key.is_empty() && timers.next() == NEVER);
        let none = Notification { signal: 0, value: None, thread: None };
        timers.create(7, 1, Family::Realtime, none);
        assert_eq!(timers.set_posix((7, 1), &CLOCKS, true, setting(5020, 30)), Some(setting(0, 0)));
        assert_eq!((timers.next(), timers.set_posix((7, 2), &CLOCKS, true, setting(1, 1))), (20, None));
        timers.expire(20, 20, &[7]);
        assert_eq!((timers.next(), timers.overrun(7, 1), timers.has_posix(6)), (50, Some(0), false));
        timers.end(7);
        assert!(timers.by_key.is_empty() && timers.deadlines.is_empty());
    }

    #[test]
    fn many_expirations_are_one() {
        let mut timer = Timer { deadline: 10, interval: 2, ..Timer::new(Family::Monotonic) };
        assert_eq!((timer.pass(1000), timer.deadline), (496, 1002));
        assert_eq!((timer.pass(1003), timer.deadline), (1, 1004));
    }
}
