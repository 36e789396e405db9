//! Timeouts of sockets, and the waits that these and the timeouts of terminals end.
//!
//! The kernel keeps them in a form in which they do not end there, so that copies share them and accepted sockets
//! inherit them as ever. A thread that rests in a call on such a socket waits until its timeout.

use super::arch::Architecture as _;
use super::calls::{self, Change, Form, Wait, encode};
use super::clocks::NEVER;
use super::state::{ProgramMemory, Tracer};
use super::sys::{self, Registers};
use super::table::{Activity, Pending, SocketWait};
use super::terminals;
use super::watch::{self, CallState};

/// The seconds of real time that the kernel keeps for a timeout of zero. Each microsecond of virtual time is one more.
/// The kernel takes up to twice as many.
const ENDLESS: u64 = 1 << 52;

/// The argument of `setsockopt` and `getsockopt` with the address of the value.
const VALUE: usize = 3;

const AGAIN: i64 = -(libc::EAGAIN as i64);
const INTERRUPTED: i64 = -(libc::EINTR as i64);

/// The result with which a wait without a timeout is interrupted.
const RESTART: i64 = -512;

/// Returns the seconds that mean a timeout in nanoseconds.
fn coded(nanoseconds: u64) -> u64 {
    ENDLESS + (nanoseconds / 1000).min(ENDLESS - 1)
}

/// Returns the timeout in nanoseconds that seconds mean; `None` for one that is not virtual.
fn decoded(seconds: u64) -> Option<u64> {
    seconds.checked_sub(ENDLESS).filter(|microseconds| *microseconds > 0).map(|microseconds| microseconds * 1000)
}

impl Tracer {
    /// Lets the kernel set a timeout that means a virtual one.
    pub(crate) fn set_socket_timeout(
        &mut self,
        thread: i32,
        (file, is_sending): (i32, bool),
        (length, value): (u64, u64),
        mut registers: Registers,
    ) {
        let Some(process) = self.table.threads.get(&thread).map(|thread| thread.process) else { return };
        self.has_timeouts |= length > 0;
        if is_sending && length > 0 && self.begin_to_stop_at_sends(thread, process, registers) {
            return;
        }
        if sys::cannot_share(process, file)
            && let Some(socket) = watch::socket_of(process, file)
        {
            self.sockets.entry(socket).or_default()[usize::from(is_sending)] = length;
        }
        if length == 0 {
            self.resume(thread, 0);
            return;
        }
        let base = self.table.image(thread);
        let place = base.and_then(|base| self.image.as_mut().map(|image| base + image.lend([coded(length), 0])));
        let mut former = [0; 16];
        if let Some(place) = place {
            registers.set_argument(VALUE, place);
            let _ = sys::set_registers(thread, &registers);
        } else if sys::read_memory(thread, value, &mut former) {
            Self::write(thread, value, &[coded(length).to_ne_bytes(), [0; 8]].concat());
        }
        self.follow(thread, Pending::SetTimeout(value, place.is_none().then_some(former)));
    }

    /// Gives a program its value back after it has set a timeout.
    pub(crate) fn on_timeout_set(thread: i32, value: u64, former: Option<[u8; 16]>, mut registers: Registers) {
        if let Some(former) = former {
            Self::write(thread, value, &former);
        } else {
            registers.set_argument(VALUE, value);
            let _ = sys::set_registers(thread, &registers);
        }
    }

    /// Shows a program the virtual timeout that the kernel's means.
    pub(crate) fn on_timeout_read(thread: i32, value: u64, length: u64) {
        let (mut size, mut seconds) = ([0; 4], [0; 8]);
        if sys::read_memory(thread, length, &mut size)
            && u32::from_ne_bytes(size) >= 16
            && sys::read_memory(thread, value, &mut seconds)
            && let Some(timeout) = decoded(u64::from_ne_bytes(seconds))
        {
            Self::write(thread, value, &encode(timeout, Form::Timeval));
        }
    }

    /// Ends a call that receives several messages within a time at the timeout of its socket, if that is earlier.
    pub(crate) fn limit_by_socket(&self, thread: i32, wait: Wait) -> Wait {
        let process = self.table.threads.get(&thread).map_or(0, |thread| thread.process);
        let is_limited = wait.call.number == libc::SYS_recvmmsg;
        let length = is_limited.then(|| self.socket_timeout(process, wait.call.arguments[0] as i32, false)).flatten();
        match length.map(|length| self.clocks.after(length)) {
            Some(deadline) if deadline < wait.deadline => {
                Wait { deadline, timeout: Some(AGAIN), remainder: None, ..wait }
            }
            _ => wait,
        }
    }

    /// Makes a program stop at calls that send, before its call that sets a timeout for them. Returns false if that is
    /// done, or not possible: then the timeout of a call that sends in pieces begins again with each.
    fn begin_to_stop_at_sends(&mut self, thread: i32, process: i32, registers: Registers) -> bool {
        let Some(entry) = self.table.processes.get_mut(&process) else { return false };
        let Some(base) = entry.image.filter(|_| !entry.stops_at_sends) else { return false };
        let Some(image) = &mut self.image else { return false };
        entry.stops_at_sends = true;
        let call = image.stop_at_sends(base);
        let mut changed = registers;
        changed.set_number(call.number);
        for (index, value) in call.arguments.iter().enumerate() {
            changed.set_argument(index, *value);
        }
        let _ = sys::set_registers(thread, &changed);
        self.follow(thread, Pending::StopAtSends(Box::new(registers)));
        true
    }

    /// Begins a call that sends or receives in pieces: all of them within one timeout.
    pub(crate) fn transfer_all(&mut self, thread: i32, (file, is_sending): (i32, bool), registers: Registers) {
        let process = self.table.threads.get(&thread).map_or(0, |thread| thread.process);
        // Sockets of other families begin another wait with each piece that they send.
        let is_one = !is_sending || sys::file_of(process, file).is_ok_and(|copy| sys::is_internet_socket(&copy));
        let Some(length) = self.socket_timeout(process, file, is_sending).filter(|_| is_one) else {
            self.resume(thread, 0);
            return;
        };
        let call = registers.call();
        let deadline = self.clocks.after(length);
        let change = Change::Argument(0, call.arguments[0]);
        let wait = Wait { call, deadline, change, timeout: Some(AGAIN), remainder: None, is_sleep: false };
        self.begin_wait(thread, wait, registers);
    }

    /// Returns the virtual timeout of a socket in nanoseconds; `None` if it has none.
    fn socket_timeout(&self, process: i32, file: i32, is_sending: bool) -> Option<u64> {
        if !self.has_timeouts {
            return None;
        }
        if let Ok(copy) = sys::file_of(process, file) {
            return decoded(sys::socket_timeout(&copy, is_sending)?);
        }
        // A sandbox forbids it: only what was set is known.
        let length = self.sockets.get(&watch::socket_of(process, file)?)?[usize::from(is_sending)];
        (length > 0).then_some(length)
    }

    /// Returns the deadline of a call that has begun to wait on a socket or a terminal, and its result then.
    fn timeout(&self, thread: i32, process: i32, (number, arguments): &(i64, Vec<u64>)) -> Option<(u64, Option<i64>)> {
        let (length, timeout) = calls::timed_files(*number).iter().find_map(|(index, is_sending)| {
            let file = *arguments.get(*index)? as i32;
            let Some(length) = self.socket_timeout(process, file, *is_sending) else {
                return terminals::timeout(process, file).filter(|_| !is_sending);
            };
            Some((length, Some(calls::timed_out(*number, arguments, &ProgramMemory(thread)))))
        })?;
        Some((self.clocks.after(length), timeout))
    }

    /// Looks for threads that have begun to wait on a socket or a terminal with a timeout. Time has not moved since:
    /// they began now.
    pub(crate) fn find_socket_waits(&mut self) -> bool {
        if !self.has_timeouts {
            return false;
        }
        let resting = self.table.threads.iter().filter_map(|(thread, entry)| {
            let account = entry.resting.filter(|_| matches!(entry.activity, Activity::Running))?;
            let is_known = entry.socket_wait.as_ref().is_some_and(|wait| wait.account == account);
            (!is_known).then_some((*thread, account))
        });
        let mut is_any = false;
        for (thread, account) in resting.collect::<Vec<_>>() {
            let Some(entry) = self.table.threads.get(&thread) else { continue };
            let call = match watch::current_call(thread) {
                Some(CallState::Blocked(number, arguments)) => (number, arguments),
                Some(CallState::Running) | None => Default::default(),
            };
            let restarted = entry.socket_wait.as_ref().filter(|wait| wait.is_restarted && wait.call == call);
            let restarted = restarted.map(|wait| (wait.deadline, wait.timeout));
            let found = restarted.or_else(|| self.timeout(thread, entry.process, &call));
            let (deadline, timeout) = found.unwrap_or((NEVER, None));
            let wait = SocketWait { account, call, deadline, timeout, is_over: false, is_restarted: false };
            if let Some(entry) = self.table.threads.get_mut(&thread) {
                entry.socket_wait = Some(wait);
            }
            is_any |= deadline != NEVER;
        }
        is_any
    }

    /// Ends the wait on a socket of a thread that was interrupted at its timeout. Returns false if it was another
    /// wait, or if the call has ended by itself.
    pub(crate) fn end_socket_wait(&mut self, thread: i32) -> bool {
        let Some(entry) = self.table.threads.get_mut(&thread) else { return false };
        let Some(wait) = entry.socket_wait.take_if(|wait| wait.is_over) else { return false };
        let Ok(mut registers) = sys::registers(thread) else { return false };
        if ![INTERRUPTED, RESTART].contains(&registers.result()) {
            return false;
        }
        let Some(timeout) = wait.timeout else {
            entry.socket_wait = Some(SocketWait { deadline: NEVER, is_over: false, is_restarted: true, ..wait });
            return false;
        };
        entry.timed_out_at = Some(self.clocks.elapsed);
        self.report.timeouts += 1;
        self.answer(thread, &mut registers, timeout);
        true
    }

    /// Lets a call with a timeout go on that was interrupted by nothing that the program may see. The kernel ends one
    /// on a socket with `EINTR`, also where it starts others again.
    pub(crate) fn restart_socket_wait(&mut self, thread: i32) {
        let Ok(mut registers) = sys::registers(thread) else { return };
        if ![INTERRUPTED, RESTART].contains(&registers.result())
            || calls::timed_files(registers.call().number).is_empty()
        {
            return;
        }
        let Some(entry) = self.table.threads.get_mut(&thread) else { return };
        if let Some(wait) = &mut entry.socket_wait {
            wait.is_restarted = true;
        }
        if registers.result() == INTERRUPTED {
            registers.set_result(calls::RESTARTED);
            let _ = sys::set_registers(thread, &registers);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn timeouts_are_kept_to_the_microsecond(microseconds in 1_u64..ENDLESS) {
            let seconds = coded(microseconds * 1000);
            prop_assert_eq!(decoded(seconds), Some(microseconds * 1000));
            // `MAX_SCHEDULE_TIMEOUT` at a thousand ticks a second.
            prop_assert!(seconds < i64::MAX as u64 / 1000 - 1);
        }

        #[test]
        fn other_timeouts_are_not_virtual(seconds in 0..=ENDLESS) {
            prop_assert_eq!(decoded(seconds), None);
        }
    }
}
