//! Stops at system calls: a timed wait becomes one without a limit, and its result is the one that it would have had.

use super::arch::{Architecture as _, SYSTEM_CALL};
use super::calls::{self, Bytes, Change, Ending, Form, Notification, Plan, Setting, Wait, encode, encode_setting};
use super::clocks::{Family, GRAIN, NEVER, SECOND};
use super::device_io;
use super::filter::SENDS;
use super::state::{ProgramMemory, Tracer};
use super::sys::{self, Registers};
use super::table::{ActiveWait, Activity, Pending, Restart};
use super::watch;

/// The naps of a thread that end at rest between two moves of time. Later ones are sleeps.
const NAPS: u32 = 64;

/// The frequency of `times`.
const TICKS: u64 = 100;

/// The way in which the report names a program that the tracer may not read since it runs as another user.
pub(crate) const HIDDEN: &str = "change of the user (killed: its clocks would be real; run everything as one user, or \
                                 with --cap-add SYS_PTRACE)";

const FAULT: i64 = -(libc::EFAULT as i64);

impl Tracer {
    /// Handles a stop of the filter.
    pub(crate) fn on_call(&mut self, thread: i32) {
        // A thread that was killed at this moment reports its end by itself.
        let Ok(mut registers) = sys::registers(thread) else { return };
        let call = registers.call();
        if self.is_hidden(thread, &registers) {
            return;
        }
        let base = self.table.image(thread);
        let zero = base.and_then(|base| self.image.as_ref().map(|image| image.zero(base)));
        let plan = if SENDS.contains(&call.number) {
            Plan::TransferAll(call.arguments[0] as i32, true)
        } else {
            calls::plan(&call, &ProgramMemory(thread), &self.clocks, zero)
        };
        if let Some(entry) = self.table.threads.get_mut(&thread) {
            entry.interrupted = None;
            if !matches!(plan, Plan::Wait(_) | Plan::TransferAll(..)) {
                // Nothing is restarted any more, or without a time that is left.
                entry.restart = None;
            }
        }
        match plan {
            Plan::Pass => self.resume(thread, 0),
            Plan::Note(name) => {
                self.note(name, false, thread);
                self.resume(thread, 0);
            }
            Plan::Connect(address) => {
                self.note_connection(address, thread);
                self.resume(thread, 0);
            }
            Plan::Refuse(name, error) => {
                self.note(name, true, thread);
                self.answer(thread, &mut registers, -i64::from(error));
            }
            Plan::Answer(result, writes) => {
                let write = |Bytes { address, bytes }: &Bytes| Self::write(thread, *address, bytes);
                let is_written = writes.iter().all(write);
                self.answer(thread, &mut registers, if is_written { result } else { FAULT });
            }
            Plan::Wait(wait) => self.begin_wait(thread, self.limit_by_socket(thread, wait), registers),
            Plan::ReadRealtime(address) => {
                let time = encode(self.count(thread, 1), Form::Timespec);
                let is_written = Self::write(thread, address, &time);
                self.answer(thread, &mut registers, if is_written { 0 } else { FAULT });
            }
            Plan::Random(address, length) => {
                let result = self.random(thread, address, length);
                self.answer(thread, &mut registers, result);
            }
            Plan::OpenTerminal => {
                self.has_terminals = true;
                self.resume(thread, 0);
            }
            Plan::SetTerminalTimeout(file) => self.set_terminal_timeout(thread, file),
            // The tracer sees the end of a child before its parent does, but a pidfd shows it at once.
            Plan::LookForChildren => self.looking.push(thread),
            Plan::Submit(context, list) => {
                self.follow(thread, Pending::Submit(context, list, device_io::end(thread, context)));
            }
            Plan::ReadAdjustment(address) => self.follow(thread, Pending::Adjustment(address)),
            Plan::Times => self.follow(thread, Pending::Times),
            Plan::SystemInformation(address) => self.follow(thread, Pending::SystemInformation(address)),
            Plan::SetSocketTimeout(file, is_sending, length, value) => {
                self.set_socket_timeout(thread, (file, is_sending), (length, value), registers);
            }
            Plan::GetSocketTimeout(value, length) => self.follow(thread, Pending::GetTimeout(value, length)),
            Plan::TransferAll(file, is_sending) => self.transfer_all(thread, (file, is_sending), registers),
            Plan::CreateTimer(family, notification, address) => {
                self.follow(thread, Pending::CreateTimer(family, notification, address));
            }
            plan => match self.timer_call(thread, &plan) {
                Some(result) => self.answer(thread, &mut registers, result),
                None => self.resume(thread, 0),
            },
        }
    }

    /// Kills a process that has changed its user, if the tracer may not read its memory since: it would wait in real
    /// time. Returns true then.
    fn is_hidden(&mut self, thread: i32, registers: &Registers) -> bool {
        let process = self.table.threads.get(&thread).map_or(thread, |thread| thread.process);
        if sys::read_memory(thread, registers.stack(), &mut [0; 8]) || !watch::is_of_another_user(process) {
            return false;
        }
        self.note(HIDDEN, true, thread);
        // One that was killed at this moment reports its end by itself.
        let _ = sys::kill(process, libc::SIGKILL);
        true
    }

    /// Answers a call on a timer. `None` leaves it to the kernel.
    fn timer_call(&mut self, thread: i32, plan: &Plan) -> Option<i64> {
        let process = self.table.threads.get(&thread)?.process;
        let clocks = self.clocks;
        let put = |address, setting, form| {
            if Self::write(thread, address, &encode_setting(setting, form)) { 0 } else { FAULT }
        };
        match *plan {
            Plan::Alarm(seconds) => {
                let setting = Setting { first: seconds * SECOND, interval: 0 };
                let left = self.timers.set_alarm(process, &clocks, setting).first;
                // To the nearest second, but not to 0 while an alarm is pending.
                Some(((left + SECOND / 2) / SECOND).max(u64::from(left > 0)) as i64)
            }
            Plan::SetInterval(setting, old) => {
                Some(put(old, self.timers.set_alarm(process, &clocks, setting), Form::Timeval))
            }
            Plan::GetInterval(address) => Some(put(address, self.timers.alarm(process, &clocks), Form::Timeval)),
            Plan::SetTimerFile(file, is_absolute, setting, old) => {
                let Some(before) = self.timers.set_file((process, file), &clocks, is_absolute, setting) else {
                    if sys::cannot_share(process, file) {
                        self.note("timerfd_settime (a sandbox forbids pidfd_getfd)", false, thread);
                    }
                    return None;
                };
                Some(put(old, before, Form::Timespec))
            }
            Plan::GetTimerFile(file, address) => {
                Some(put(address, self.timers.file(process, file, &clocks)?, Form::Timespec))
            }
            Plan::SetTimer(number, is_absolute, setting, old) => {
                let before = self.timers.set_posix((process, number), &clocks, is_absolute, setting)?;
                Some(put(old, before, Form::Timespec))
            }
            Plan::GetTimer(number, address) => {
                Some(put(address, self.timers.posix(process, number, &clocks)?, Form::Timespec))
            }
            Plan::GetOverrun(number) => self.timers.overrun(process, number).map(i64::from),
            Plan::DeleteTimer(number) => {
                self.timers.delete(process, number);
                None
            }
            _ => None,
        }
    }

    /// Lets the kernel do the call, and stops at its result.
    pub(super) fn follow(&mut self, thread: i32, pending: Pending) {
        if let Some(entry) = self.table.threads.get_mut(&thread) {
            entry.probe = None;
            entry.activity = Activity::Calling(pending);
        }
        self.resume(thread, 0);
    }

    /// Changes the result of a call that the kernel has done.
    pub(crate) fn on_result(&mut self, thread: i32, pending: Pending) {
        self.set_activity(thread, Activity::Running);
        let Ok(mut registers) = sys::registers(thread) else { return };
        let process = self.table.threads.get(&thread).map_or(0, |thread| thread.process);
        match pending {
            Pending::Times => {
                let ticks = self.clocks.now(Family::Monotonic) / (SECOND / TICKS);
                registers.set_result(ticks as i64);
                let _ = sys::set_registers(thread, &registers);
            }
            Pending::Adjustment(address) if registers.result() >= 0 => self.on_adjustment(thread, address),
            Pending::SystemInformation(address) if registers.result() == 0 => {
                let seconds = self.clocks.now(Family::Monotonic) / SECOND;
                sys::write_memory(thread, address, &seconds.to_ne_bytes());
            }
            Pending::CreateTimer(family, notification, address) if registers.result() == 0 => {
                let mut number = [0; 4];
                if sys::read_memory(thread, address, &mut number) {
                    let receiver = notification.thread.and_then(|number| self.table.numbered(process, number));
                    let notification = Notification { thread: receiver, ..notification };
                    self.timers.create(process, i32::from_ne_bytes(number), family, notification);
                }
            }
            Pending::Submit(context, list, Some(end)) => {
                let count = u64::try_from(registers.result()).unwrap_or(0);
                self.on_requests(process, (context, list, end), count);
            }
            Pending::SetTimeout(value, former) => Self::on_timeout_set(thread, value, former, registers),
            Pending::StopAtSends(original) => {
                let mut again = *original;
                again.prepare(original.instruction() - SYSTEM_CALL.len() as u64, &original.call());
                let _ = sys::set_registers(thread, &again);
            }
            Pending::GetTimeout(value, length) if registers.result() == 0 => {
                Self::on_timeout_read(thread, value, length);
            }
            Pending::Submit(..)
            | Pending::SystemInformation(_)
            | Pending::Adjustment(_)
            | Pending::CreateTimer(..)
            | Pending::GetTimeout(..) => {}
        }
        self.resume(thread, 0);
    }

    /// Writes the time of day to what `adjtimex` has read.
    fn on_adjustment(&self, thread: i32, address: u64) {
        /// The places of the state and of the time in `struct timex`, and the state's flag for nanoseconds.
        const STATE: u64 = 40;
        const TIME: u64 = 72;
        const HAS_NANOSECONDS: u32 = libc::STA_NANO as u32;
        let mut state = [0; 4];
        if sys::read_memory(thread, address.wrapping_add(STATE), &mut state) {
            let has_nanoseconds = u32::from_ne_bytes(state) & HAS_NANOSECONDS != 0;
            let form = if has_nanoseconds { Form::Timespec } else { Form::Timeval };
            Self::write(thread, address.wrapping_add(TIME), &encode(self.clocks.now(Family::Realtime), form));
        }
    }

    /// Begins a wait.
    pub(super) fn begin_wait(&mut self, thread: i32, mut wait: Wait, mut registers: Registers) {
        self.report.waits += 1;
        let Some(entry) = self.table.threads.get_mut(&thread) else { return };
        entry.probe = None;
        let original = registers;
        let is_restart = |restart: &Restart| {
            restart.call == wait.call
                && restart.instruction == original.instruction()
                && restart.stack == original.stack()
        };
        let left = self.clocks.left(wait.deadline);
        let is_counted = left <= self.clocks.most_counted();
        let mut nap_end = None;
        if let Some(restart) = entry.restart.take().filter(is_restart) {
            (wait.deadline, nap_end) = (restart.deadline, restart.nap_end);
        } else if wait.is_sleep && left < GRAIN || is_counted {
            if entry.naps.0 != self.clocks.elapsed {
                entry.naps = (self.clocks.elapsed, 0);
            }
            if left > 0 && entry.naps.1 < NAPS {
                entry.naps.1 += 1;
                self.report.naps += 1;
                nap_end = Some(sys::real_monotonic() + left);
                wait.deadline = self.clocks.elapsed;
                if is_counted {
                    // The rest of a wait for a time of day, after which that is there.
                    self.count(thread, left);
                }
            }
        }
        match wait.change {
            Change::Pause => registers.set_number(Registers::PAUSE),
            Change::Argument(index, value) => registers.set_argument(index, value),
        }
        let active = ActiveWait { wait, original, nap_end, is_over: false };
        self.set_activity(thread, Activity::Waiting(Box::new(active)));
        let _ = sys::set_registers(thread, &registers);
        self.resume(thread, 0);
    }

    /// Ends a wait: the program gets its arguments back, and the result that it expects.
    pub(crate) fn end_wait(&mut self, thread: i32, active: &ActiveWait) {
        self.set_activity(thread, Activity::Running);
        let Ok(registers) = sys::registers(thread) else { return };
        let ActiveWait { wait, mut original, nap_end, is_over } = *active;
        let entry = self.table.threads.get_mut(&thread);
        let is_ordered = entry.is_some_and(|entry| std::mem::take(&mut entry.is_ordered));
        let ending = calls::ending(&wait, registers.result(), is_over);
        let (result, left) = match ending {
            Ending::Woken(result) => {
                if wait.call.number == libc::SYS_rt_sigtimedwait && result > 0 {
                    self.on_awaited_signal(thread, result, wait.call.arguments[1]);
                }
                (result, self.clocks.left(wait.deadline))
            }
            Ending::TimedOut(result) => {
                self.report.timeouts += 1;
                if let Some(thread) = self.table.threads.get_mut(&thread) {
                    thread.timed_out_at = Some(self.clocks.elapsed);
                }
                (result, 0)
            }
            Ending::Interrupted(result) => {
                // A call that ends only by its event has no deadline any more.
                let deadline = if is_over { NEVER } else { wait.deadline };
                let call = wait.call;
                let instruction = original.instruction();
                let stack = original.stack();
                let is_ordered = is_ordered && result == -i64::from(libc::EINTR);
                let result = if is_ordered { calls::RESTARTED } else { result };
                if let Some(thread) = self.table.threads.get_mut(&thread) {
                    let restart = Some(Restart { call, instruction, stack, deadline, nap_end });
                    let is_restarted = result != -i64::from(libc::EINTR);
                    (thread.restart, thread.interrupted) = if is_restarted { (restart, None) } else { (None, restart) };
                }
                (result, self.clocks.left(wait.deadline))
            }
        };
        let is_interrupted = matches!(ending, Ending::Interrupted(_));
        if let Some(rest) = wait.remainder.filter(|rest| is_interrupted || !rest.after_signal) {
            Self::write(thread, rest.address, &encode(left, rest.form));
        }
        original.set_result(result);
        let _ = sys::set_registers(thread, &original);
        self.resume(thread, 0);
    }

    /// Writes the overrun of a POSIX timer whose signal a thread has waited for, to its `siginfo_t`, and that an alarm
    /// is the kernel's.
    fn on_awaited_signal(&mut self, thread: i32, signal: i64, information: u64) {
        /// The places of the code and of the timer's number, before its overrun.
        const CODE: u64 = 8;
        const TIMER: u64 = 16;
        let read = |place| {
            let mut number = [0; 4];
            let is_read = information != 0 && sys::read_memory(thread, information + place, &mut number);
            is_read.then_some(i32::from_ne_bytes(number))
        };
        let process = self.table.threads.get(&thread).map_or(0, |thread| thread.process);
        if signal == i64::from(libc::SIGALRM)
            && let (Some(code), Some(sender)) = (read(CODE), read(TIMER))
            && sys::is_own_signal(code, sender)
        {
            Self::write(thread, information + CODE, &libc::SI_KERNEL.to_ne_bytes());
            Self::write(thread, information + TIMER, &[0; 8]);
        }
        if read(CODE) == Some(libc::SI_TIMER)
            && let Some(overrun) = read(TIMER).and_then(|number| self.timers.deliver(process, number))
        {
            Self::write(thread, information + TIMER + 4, &overrun.to_ne_bytes());
        }
    }

    /// Counts nanoseconds in the time of day that a thread's program reads, and returns that time.
    fn count(&mut self, thread: i32, by: u64) -> u64 {
        let reading = self.clocks.counted(self.last_reading(thread), by);
        let process = self.table.threads.get(&thread).map(|thread| thread.process);
        if let Some(entry) = process.and_then(|process| self.table.processes.get_mut(&process)) {
            entry.last = reading;
        }
        if let Some(place) = self.place_of_last(thread) {
            sys::write_memory(thread, place, &reading.to_ne_bytes());
        }
        reading
    }

    /// Returns the time of day that a thread's program has read last.
    pub(crate) fn last_reading(&self, thread: i32) -> u64 {
        let mut bytes = [0; 8];
        if self.place_of_last(thread).is_some_and(|place| sys::read_memory(thread, place, &mut bytes)) {
            return u64::from_ne_bytes(bytes);
        }
        let process = self.table.threads.get(&thread).map(|thread| thread.process);
        process.and_then(|process| self.table.processes.get(&process)).map_or(0, |entry| entry.last)
    }

    fn place_of_last(&self, thread: i32) -> Option<u64> {
        self.table.image(thread).and_then(|base| self.image.as_ref().map(|image| image.last(base)))
    }

    /// Fills a program's memory with numbers of its thread's sequence. Returns the result of `getrandom`.
    fn random(&mut self, thread: i32, address: u64, length: u64) -> i64 {
        /// The most that one call returns; programs ask again.
        const MOST: u64 = 65536;
        let length = length.min(MOST);
        let Some(entry) = self.table.threads.get_mut(&thread) else { return FAULT };
        let mut bytes = Vec::with_capacity(length as usize + 8);
        while bytes.len() < length as usize {
            bytes.extend(next_random(&mut entry.random).to_ne_bytes());
        }
        bytes.truncate(length as usize);
        if sys::write_memory(thread, address, &bytes) || length == 0 { length as i64 } else { FAULT }
    }
}

/// Returns the next number of a sequence, by `SplitMix64`.
pub(crate) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
