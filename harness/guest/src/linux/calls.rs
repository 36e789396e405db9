//! Reads a system call and its arguments, and plans how it is answered in virtual time. Pure.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::arch::Call;
use super::clocks::{Clocks, Family, GRAIN, NEVER, SECOND};

/// `futex_wait` of Linux 6.7, which the C library does not name yet.
pub(crate) const FUTEX_WAIT_CALL: i64 = 455;

/// `io_pgetevents`, which the C library does not name either.
pub(crate) const IO_PGETEVENTS: i64 = 333;

/// The futex operations that have a timeout: `WAIT`, `LOCK_PI`, `WAIT_BITSET`, `WAIT_REQUEUE_PI`,
/// `LOCK_PI2`.
pub(crate) const FUTEX_TIMED: [u64; 5] = [0, 6, 9, 11, 13];

/// The options `SO_RCVTIMEO` and `SO_SNDTIMEO` in their old and new forms.
pub(crate) const SOCKET_TIMEOUTS: [i32; 4] = [20, 21, 66, 67];

/// The request for a lease of a file, which is broken after a time.
pub(crate) const LEASE: u64 = libc::F_SETLEASE as u64;

/// The request for the end of a key's life.
pub(crate) const KEY_TIMEOUT: u64 = libc::KEYCTL_SET_TIMEOUT as u64;

/// The flag of `clone` for children that are not traced.
pub(crate) const CLONE_UNTRACED: u64 = 0x0080_0000;

/// `MSG_WAITALL`.
pub(crate) const ALL: u64 = libc::MSG_WAITALL as u64;

/// The request with which a program opens a pseudo-terminal: `TIOCSPTLCK`.
pub(crate) const UNLOCK_TERMINAL: u64 = 0x4004_5431;

/// The requests with which a program sets how it reads from a terminal: `TCSETS`, `TCSETSW`, `TCSETSF`, and the same
/// of `termios2`.
pub(crate) const SET_TERMINAL: [u64; 6] = [0x5402, 0x5403, 0x5404, 0x402c_542b, 0x402c_542c, 0x402c_542d];

/// `WNOHANG`.
pub(crate) const NO_WAIT: u64 = libc::WNOHANG as u64;

const FUTEX_CLOCK_REALTIME: u64 = 256;
const ABSOLUTE: u64 = 1;

/// The memory of a traced program.
pub(crate) trait Memory {
    /// Fills `bytes` from an address; false if that cannot be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

/// Bytes to be written to the memory of a program. An address of zero means nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The form in which the rest of a timeout is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Seconds and nanoseconds.
    Timespec,
    /// Seconds and microseconds.
    Timeval,
}

/// The place for the rest of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remainder {
    pub(crate) address: u64,
    pub(crate) form: Form,
    /// True if the kernel writes it only after a signal, as for `nanosleep`.
    pub(crate) after_signal: bool,
}

/// The change that makes a timed wait one without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It becomes a wait for a signal.
    Pause,
    /// An argument gets another value.
    Argument(usize, u64),
}

/// A wait that ends at a deadline of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) call: Call,
    pub(crate) deadline: u64,
    pub(crate) change: Change,
    /// The result at the deadline; `None` if the call goes on without one.
    pub(crate) timeout: Option<i64>,
    pub(crate) remainder: Option<Remainder>,
    /// True for a sleep, which is a nap if it is shorter than the grain of time.
    pub(crate) is_sleep: bool,
}

/// A setting of a timer: the first expiration and the interval, in nanoseconds; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) first: u64,
    pub(crate) interval: u64,
}

/// The notification of a POSIX timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notification {
    /// The signal; 0 for none.
    pub(crate) signal: i32,
    /// The value that the signal carries; the timer's number if `None`.
    pub(crate) value: Option<u64>,
    /// The thread that gets it.
    pub(crate) thread: Option<i32>,
}

/// The way in which a system call is treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The kernel does it as it is.
    Pass,
    /// The kernel does it, and the report names it: it is not virtual.
    Note(&'static str),
    /// The kernel does it: a connection to another machine, which there is not in a network of its own.
    Connect(SocketAddr),
    /// It fails with an error number, or succeeds without an effect if that is 0, and the report names it.
    Refuse(&'static str, i32),
    /// It is answered without the kernel.
    Answer(i64, Vec<Bytes>),
    /// It waits.
    Wait(Wait),
    /// `clock_gettime` of the time of day, with the place for it.
    ReadRealtime(u64),
    /// `getrandom`: an address and a length.
    Random(u64, u64),
    /// `alarm`, in seconds.
    Alarm(u64),
    /// `setitimer`, with the place for the old setting.
    SetInterval(Setting, u64),
    /// `getitimer`, with the place for the setting.
    GetInterval(u64),
    /// `timerfd_settime`: the file, whether the time is absolute, the setting, the place for the old one.
    SetTimerFile(i32, bool, Setting, u64),
    /// `timerfd_gettime`: the file, the place for the setting.
    GetTimerFile(i32, u64),
    /// `timer_create`: the clock, the notification, the place of the number.
    CreateTimer(Family, Notification, u64),
    /// `timer_settime`: the number, whether the time is absolute, the setting, the place for the old one.
    SetTimer(i32, bool, Setting, u64),
    /// `timer_gettime`: the number, the place for the setting.
    GetTimer(i32, u64),
    /// `timer_getoverrun`: the number.
    GetOverrun(i32),
    /// `timer_delete`: the number.
    DeleteTimer(i32),
    /// `setsockopt` of a timeout: the socket, true for sending, nanoseconds or 0, the place of the value.
    SetSocketTimeout(i32, bool, u64, u64),
    /// `getsockopt` of a timeout: the place of the value and of its length.
    GetSocketTimeout(u64, u64),
    /// A call that receives from a socket until it has all that it asked for, or, if true, sends to it in pieces.
    TransferAll(i32, bool),
    /// A pseudo-terminal is opened.
    OpenTerminal,
    /// A terminal gets a timeout.
    SetTerminalTimeout(i32),
    /// A look for children that have ended.
    LookForChildren,
    /// `io_submit`: the context and the list of requests.
    Submit(u64, u64),
    /// `adjtimex` and `clock_adjtime` that only read, with the place for the time.
    ReadAdjustment(u64),
    /// `times`, whose result is a time.
    Times,
    /// `sysinfo`, whose first field is a time.
    SystemInformation(u64),
}

fn long(memory: &impl Memory, address: u64) -> Option<i64> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes).then_some(i64::from_ne_bytes(bytes))
}

/// Reads two numbers.
fn pair(memory: &impl Memory, address: u64) -> Option<(i64, i64)> {
    let mut bytes = [0; 16];
    memory.read(address, &mut bytes).then_some(())?;
    Some((i64::from_ne_bytes(*bytes.first_chunk()?), i64::from_ne_bytes(*bytes.last_chunk()?)))
}

/// Reads seconds and parts of a second. `None` if the kernel would refuse them: then it does so itself.
fn time(memory: &impl Memory, address: u64, parts: i64) -> Option<u64> {
    let (seconds, part) = pair(memory, address)?;
    if seconds < 0 || part < 0 || part >= parts {
        return None;
    }
    let part = part as u64 * (SECOND / parts as u64);
    Some((seconds as u64).checked_mul(SECOND).and_then(|seconds| seconds.checked_add(part)).unwrap_or(NEVER))
}

/// Reads a `timespec`.
fn timespec(memory: &impl Memory, address: u64) -> Option<u64> {
    time(memory, address, 1_000_000_000)
}

/// Reads a `timeval`.
fn timeval(memory: &impl Memory, address: u64) -> Option<u64> {
    time(memory, address, 1_000_000)
}

/// Reads seconds and parts of a second, of which there may be more than a second has. `unit` is a part in nanoseconds.
fn loose_time(memory: &impl Memory, address: u64, unit: u64) -> Option<u64> {
    let (seconds, part) = pair(memory, address)?;
    let (seconds, part) = (u64::try_from(seconds).ok()?, u64::try_from(part).ok()?);
    Some(seconds.saturating_mul(SECOND).saturating_add(part.saturating_mul(unit)))
}

/// Encodes seconds and nanoseconds, or microseconds.
pub(crate) fn encode(nanoseconds: u64, form: Form) -> Vec<u8> {
    let part = match form {
        Form::Timespec => nanoseconds % SECOND,
        Form::Timeval => nanoseconds % SECOND / 1000,
    };
    [(nanoseconds / SECOND).to_ne_bytes(), part.to_ne_bytes()].concat()
}

/// Encodes a setting as `itimerspec` or `itimerval`.
pub(crate) fn encode_setting(setting: Setting, form: Form) -> Vec<u8> {
    // A timer that is set shows at least the smallest time.
    let first = if setting.first > 0 && form == Form::Timeval { setting.first.max(1000) } else { setting.first };
    [encode(setting.interval, form), encode(first, form)].concat()
}

/// Plans the treatment of a call. `zero` is the address of a `timespec` of zero in the program, if there is one.
pub(crate) fn plan(call: &Call, memory: &impl Memory, clocks: &Clocks, zero: Option<u64>) -> Plan {
    wait(call, memory, clocks, zero)
        .or_else(|| clock(call, clocks))
        .or_else(|| timer(call, memory))
        .or_else(|| socket(call, memory))
        .or_else(|| untraced_child(call, memory))
        .or_else(|| adjustment(call, memory))
        .or_else(|| connection(call, memory))
        .unwrap_or_else(|| other(call))
}

/// Refuses a child that the tracer would not see. The flags of `clone3` are the first field of its structure.
fn untraced_child(call: &Call, memory: &impl Memory) -> Option<Plan> {
    let mut flags = [0; 8];
    let is_untraced = call.number == libc::SYS_clone3
        && memory.read(call.arguments[0], &mut flags)
        && u64::from_ne_bytes(flags) & CLONE_UNTRACED != 0;
    is_untraced.then_some(Plan::Refuse("clone3(CLONE_UNTRACED)", libc::EPERM))
}

/// Plans a reading of how the time of day is adjusted: all but the time itself is the kernel's.
fn adjustment(call: &Call, memory: &impl Memory) -> Option<Plan> {
    let address = match call.number {
        libc::SYS_adjtimex => call.arguments[0],
        libc::SYS_clock_adjtime if call.arguments[0] as i32 == libc::CLOCK_REALTIME => call.arguments[1],
        _ => return None,
    };
    let mut modes = [0; 4];
    // The second one is `ADJ_OFFSET_SS_READ`, with which `adjtime` reads.
    let is_read = memory.read(address, &mut modes) && [0, 0xa001].contains(&u32::from_ne_bytes(modes));
    is_read.then_some(Plan::ReadAdjustment(address))
}

/// Plans a connection to another machine. An address begins with the number of its family and the port.
fn connection(call: &Call, memory: &impl Memory) -> Option<Plan> {
    if call.number != libc::SYS_connect {
        return None;
    }
    let place = call.arguments[1];
    let (mut head, mut rest) = ([0; 8], [0; 16]);
    let [first, second, high, low, address @ ..] = memory.read(place, &mut head).then_some(head)?;
    let address: IpAddr = match i32::from(u16::from_ne_bytes([first, second])) {
        libc::AF_INET => address.into(),
        libc::AF_INET6 if memory.read(place.checked_add(8)?, &mut rest) => Ipv6Addr::from(rest).to_canonical(),
        _ => return None,
    };
    let port = u16::from_be_bytes([high, low]);
    let is_outside = !address.is_loopback() && !address.is_unspecified();
    is_outside.then_some(Plan::Connect((address, port).into()))
}

/// Plans a call that is not virtual.
fn other(call: &Call) -> Plan {
    match call.number {
        libc::SYS_io_uring_setup => Plan::Refuse("io_uring_setup", libc::ENOSYS),
        libc::SYS_adjtimex => Plan::Refuse("adjtimex", libc::EPERM),
        libc::SYS_clock_adjtime => Plan::Refuse("clock_adjtime", libc::EPERM),
        libc::SYS_clock_settime => Plan::Refuse("clock_settime", libc::EPERM),
        libc::SYS_settimeofday => Plan::Refuse("settimeofday", libc::EPERM),
        libc::SYS_clone if call.arguments[0] & CLONE_UNTRACED != 0 => {
            Plan::Refuse("clone(CLONE_UNTRACED)", libc::EPERM)
        }
        libc::SYS_ioctl if call.arguments[1] & 0xffff_ffff == UNLOCK_TERMINAL => Plan::OpenTerminal,
        libc::SYS_wait4 if call.arguments[2] & NO_WAIT != 0 => Plan::LookForChildren,
        libc::SYS_waitid if call.arguments[3] & NO_WAIT != 0 => Plan::LookForChildren,
        libc::SYS_fcntl if call.arguments[1] & 0xffff_ffff == LEASE => Plan::Note("fcntl(F_SETLEASE)"),
        libc::SYS_keyctl if call.arguments[0] & 0xffff_ffff == KEY_TIMEOUT => Plan::Note("keyctl(KEYCTL_SET_TIMEOUT)"),
        // The tracer, unless it is privileged, could not read the program's memory any more.
        libc::SYS_prctl if call.arguments[0] as i32 == libc::PR_SET_DUMPABLE && call.arguments[1] == 0 => {
            Plan::Refuse("prctl(PR_SET_DUMPABLE) (without effect)", 0)
        }
        // The kernel would refuse it with the same error: a program has one tracer.
        libc::SYS_ptrace => Plan::Refuse("ptrace (no debugger, strace or rr inside)", libc::EPERM),
        libc::SYS_io_submit => Plan::Submit(call.arguments[0], call.arguments[2]),
        libc::SYS_clock_nanosleep if Family::of(call.arguments[0] as i32).is_none() => {
            Plan::Note("clock_nanosleep of processor time")
        }
        libc::SYS_getrandom => Plan::Random(call.arguments[0], call.arguments[1]),
        _ => Plan::Pass,
    }
}

/// Plans a call that reads a clock.
fn clock(call: &Call, clocks: &Clocks) -> Option<Plan> {
    let [first, second, ..] = call.arguments;
    let realtime = clocks.now(Family::Realtime);
    let plan = match call.number {
        libc::SYS_clock_gettime if first as i32 == libc::CLOCK_REALTIME => Plan::ReadRealtime(second),
        libc::SYS_clock_gettime => {
            let bytes = encode(clocks.now(Family::of(first as i32)?), Form::Timespec);
            Plan::Answer(0, vec![Bytes { address: second, bytes }])
        }
        libc::SYS_gettimeofday => {
            let time = Bytes { address: first, bytes: encode(realtime, Form::Timeval) };
            Plan::Answer(0, vec![time, Bytes { address: second, bytes: vec![0; 8] }])
        }
        libc::SYS_time => {
            let seconds = realtime / SECOND;
            let bytes = seconds.to_ne_bytes().to_vec();
            Plan::Answer(seconds as i64, vec![Bytes { address: first, bytes }])
        }
        libc::SYS_times => Plan::Times,
        libc::SYS_sysinfo => Plan::SystemInformation(first),
        _ => return None,
    };
    Some(plan)
}

/// Plans a call that sets or reads a timer.
fn timer(call: &Call, memory: &impl Memory) -> Option<Plan> {
    let [first, second, third, fourth, ..] = call.arguments;
    let setting = |address: u64, read: fn(_, u64) -> Option<u64>| {
        let interval = read(memory, address)?;
        Some(Setting { first: read(memory, address.wrapping_add(16))?, interval })
    };
    let number = first as i32;
    let plan = match call.number {
        libc::SYS_alarm => Plan::Alarm(first & 0xffff_ffff),
        libc::SYS_setitimer if number == 0 => {
            let setting = if second == 0 { Setting::default() } else { setting(second, timeval)? };
            Plan::SetInterval(setting, third)
        }
        libc::SYS_getitimer if number == 0 => Plan::GetInterval(second),
        // The clock is never set, which is what the second flag is about. The kernel refuses others.
        libc::SYS_timerfd_settime if second & 0xffff_fffc == 0 => {
            Plan::SetTimerFile(number, second & ABSOLUTE != 0, setting(third, timespec)?, fourth)
        }
        libc::SYS_timerfd_gettime => Plan::GetTimerFile(number, second),
        libc::SYS_timer_create => Plan::CreateTimer(Family::of(number)?, notification(memory, second)?, third),
        libc::SYS_timer_settime => Plan::SetTimer(number, second & ABSOLUTE != 0, setting(third, timespec)?, fourth),
        libc::SYS_timer_gettime => Plan::GetTimer(number, second),
        libc::SYS_timer_getoverrun => Plan::GetOverrun(number),
        libc::SYS_timer_delete => Plan::DeleteTimer(number),
        _ => return None,
    };
    Some(plan)
}

/// Reads a `sigevent`.
fn notification(memory: &impl Memory, address: u64) -> Option<Notification> {
    if address == 0 {
        return Some(Notification { signal: libc::SIGALRM, value: None, thread: None });
    }
    let value = long(memory, address)? as u64;
    let kinds = long(memory, address.wrapping_add(8))?;
    let signal = kinds as i32;
    let kind = (kinds >> 32) as i32;
    let thread = long(memory, address.wrapping_add(16))? as i32;
    match kind {
        libc::SIGEV_SIGNAL | libc::SIGEV_THREAD => Some(Notification { signal, value: Some(value), thread: None }),
        libc::SIGEV_THREAD_ID => Some(Notification { signal, value: Some(value), thread: Some(thread) }),
        libc::SIGEV_NONE => Some(Notification { signal: 0, value: Some(value), thread: None }),
        _ => None,
    }
}

/// The place of `VTIME` in `struct termios` and `struct termios2` of the kernel.
const TERMINAL_TIME: u64 = 17 + libc::VTIME as u64;

/// Plans a call that sets or reads the timeout of a socket or a terminal, or keeps to it in several steps.
fn socket(call: &Call, memory: &impl Memory) -> Option<Plan> {
    let [socket, level, option, value, length, _] = call.arguments;
    let is_timeout = level as i32 == libc::SOL_SOCKET && SOCKET_TIMEOUTS.contains(&(option as i32));
    match call.number {
        libc::SYS_setsockopt if is_timeout && length as i32 >= 16 => {
            Some(Plan::SetSocketTimeout(socket as i32, option % 2 == 1, timeval(memory, value)?, value))
        }
        libc::SYS_setsockopt if level as i32 == libc::SOL_SOCKET && option as i32 == libc::SO_LINGER => {
            let is_timed = long(memory, value).is_some_and(|linger| linger as i32 != 0 && linger >> 32 != 0);
            is_timed.then_some(Plan::Note("setsockopt(SO_LINGER)"))
        }
        libc::SYS_getsockopt if is_timeout => Some(Plan::GetSocketTimeout(value, length)),
        libc::SYS_recvfrom if value & ALL != 0 => Some(Plan::TransferAll(socket as i32, false)),
        libc::SYS_recvmsg if option & ALL != 0 => Some(Plan::TransferAll(socket as i32, false)),
        libc::SYS_ioctl if SET_TERMINAL.contains(&(level & 0xffff_ffff)) => {
            let mut time = [0];
            let is_set = memory.read(option.wrapping_add(TERMINAL_TIME), &mut time) && time != [0];
            is_set.then_some(Plan::SetTerminalTimeout(socket as i32))
        }
        _ => None,
    }
}

/// Plans a call that waits; `None` if it is none, has no limit, or has arguments that the kernel refuses.
fn wait(call: &Call, memory: &impl Memory, clocks: &Clocks, zero: Option<u64>) -> Option<Plan> {
    let again = Some(-i64::from(libc::EAGAIN));
    let timed_out = Some(-i64::from(libc::ETIMEDOUT));
    let [first, second, ..] = call.arguments;
    let writes = |index: usize, form| Some(Remainder { address: call.arguments[index], form, after_signal: false });
    let plan = |deadline: u64, change: Change, timeout: Option<i64>, remainder: Option<Remainder>| {
        Some(Plan::Wait(Wait { call: *call, deadline, change, timeout, remainder, is_sleep: change == Change::Pause }))
    };
    // A relative timeout of zero is left to the kernel, which answers at once.
    let relative = |length: Option<u64>| length.filter(|length| *length > 0).map(|length| clocks.after(length));
    let limited = |index: usize, timeout, remainder| {
        let length = timespec(memory, call.arguments[index]);
        plan(relative(length)?, Change::Argument(index, 0), timeout, remainder)
    };
    let absolute = |index: usize, family: Family| {
        let deadline = clocks.at(family, timespec(memory, call.arguments[index])?);
        // The kernel compares the value before it times out at once.
        let over = (deadline <= clocks.elapsed).then_some(zero).flatten();
        plan(deadline, Change::Argument(index, over.unwrap_or(0)), timed_out, None)
    };
    let milliseconds = |index: usize| {
        let milliseconds = u64::try_from(call.arguments[index] as i32).ok();
        relative(milliseconds.map(|milliseconds| milliseconds * GRAIN))
    };
    match call.number {
        libc::SYS_nanosleep => {
            let rest = Remainder { address: second, form: Form::Timespec, after_signal: true };
            plan(relative(timespec(memory, first))?, Change::Pause, Some(0), Some(rest))
        }
        libc::SYS_clock_nanosleep => clock_sleep(call, memory, clocks),
        libc::SYS_poll => plan(milliseconds(2)?, Change::Argument(2, u64::MAX), Some(0), None),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
            plan(milliseconds(3)?, Change::Argument(3, u64::MAX), Some(0), None)
        }
        libc::SYS_ppoll => limited(2, Some(0), writes(2, Form::Timespec)),
        libc::SYS_select => plan(
            relative(loose_time(memory, call.arguments[4], 1000))?,
            Change::Argument(4, 0),
            Some(0),
            writes(4, Form::Timeval),
        ),
        libc::SYS_pselect6 => limited(4, Some(0), writes(4, Form::Timespec)),
        libc::SYS_epoll_pwait2 => limited(3, Some(0), None),
        libc::SYS_futex => match second & 0x7f {
            0 => limited(3, timed_out, None),
            6 => absolute(3, Family::Realtime),
            9 | 11 | 13 if second & FUTEX_CLOCK_REALTIME != 0 => absolute(3, Family::Realtime),
            9 | 11 | 13 => absolute(3, Family::Monotonic),
            _ => None,
        },
        libc::SYS_futex_waitv => absolute(3, futex_family(call.arguments[4])?),
        FUTEX_WAIT_CALL => absolute(4, futex_family(call.arguments[5])?),
        // The result tells of the signals of timers.
        libc::SYS_rt_sigtimedwait if call.arguments[2] == 0 => plan(NEVER, Change::Argument(2, 0), again, None),
        libc::SYS_rt_sigtimedwait => limited(2, again, None),
        libc::SYS_semtimedop => limited(3, again, None),
        libc::SYS_mq_timedsend | libc::SYS_mq_timedreceive => absolute(4, Family::Realtime),
        // The kernel looks at the time after each message only: without one, it waits on, and after the next one it
        // finds that no time is left.
        libc::SYS_recvmmsg => limited(4, None, writes(4, Form::Timespec)),
        libc::SYS_io_getevents | IO_PGETEVENTS => {
            plan(relative(loose_time(memory, call.arguments[4], 1))?, Change::Argument(4, 0), Some(0), None)
        }
        _ => None,
    }
}

/// Returns the family of a clock that futexes of the new kind know.
fn futex_family(clock: u64) -> Option<Family> {
    Family::of(clock as i32).filter(|_| [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].contains(&(clock as i32)))
}

/// Plans `clock_nanosleep`. The kernel refuses clocks that are read only.
fn clock_sleep(call: &Call, memory: &impl Memory, clocks: &Clocks) -> Option<Plan> {
    const READ_ONLY: [i32; 3] = [libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_REALTIME_COARSE, libc::CLOCK_MONOTONIC_COARSE];
    let [clock, flags, request, rest, ..] = call.arguments;
    let family = Family::of(clock as i32).filter(|_| !READ_ONLY.contains(&(clock as i32)))?;
    let time = timespec(memory, request)?;
    let is_absolute = flags & ABSOLUTE != 0;
    let deadline = if is_absolute { clocks.at(family, time) } else { clocks.after(time) };
    if deadline <= clocks.elapsed {
        return Some(Plan::Answer(0, Vec::new()));
    }
    let rest = Remainder { address: rest, form: Form::Timespec, after_signal: true };
    Some(Plan::Wait(Wait {
        call: *call,
        deadline,
        change: Change::Pause,
        timeout: Some(0),
        remainder: (!is_absolute).then_some(rest),
        is_sleep: true,
    }))
}

const ERESTARTSYS: i64 = 512;
const ERESTARTNOINTR: i64 = 513;
const ERESTARTNOHAND: i64 = 514;
const ERESTART_RESTARTBLOCK: i64 = 516;

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It ended by itself: the kernel's result.
    Woken(i64),
    /// It timed out: the result.
    TimedOut(i64),
    /// A signal interrupted it: the result, after which the kernel may start it again.
    Interrupted(i64),
}

/// Judges the result with which a wait without a limit has returned. `is_over` is true if the tracer has interrupted
/// it at its deadline.
pub(crate) fn ending(wait: &Wait, result: i64, is_over: bool) -> Ending {
    let interrupted = -i64::from(libc::EINTR);
    let codes = [-ERESTARTSYS, -ERESTARTNOINTR, -ERESTARTNOHAND, -ERESTART_RESTARTBLOCK, interrupted];
    if !codes.contains(&result) {
        return Ending::Woken(result);
    }
    if is_over && let Some(timeout) = wait.timeout {
        return Ending::TimedOut(timeout);
    }
    // A wait with a limit is not restarted after a signal's handler: `restart_syscall` would have its own deadline.
    let is_futex = wait.call.number == libc::SYS_futex && result == -ERESTARTSYS;
    let result = if result == -ERESTART_RESTARTBLOCK || is_futex { -ERESTARTNOHAND } else { result };
    Ending::Interrupted(result)
}

/// The result after which the kernel starts a call again if no handler of a signal runs.
pub(crate) const RESTARTED: i64 = -ERESTARTNOHAND;

/// Returns true for calls that fail with `EINTR` after any signal; others are started again if no handler runs.
pub(crate) fn fails_at_signals(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_semop
            | libc::SYS_semtimedop
            | libc::SYS_io_getevents
    )
}

/// The part of a call in a loop that waits for the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopCall {
    /// It looks for events without waiting.
    Polls,
    /// It lets others run, or looks for children that have ended.
    Yields,
    /// It changes nothing.
    Looks,
    /// It waits, unless another thread has changed a word of memory.
    Compares,
    /// It does work, or waits.
    Works,
}

impl LoopCall {
    /// Classifies a call by its result as well: one with nothing to do has polled, and one that found a changed word
    /// has seen that another thread works.
    pub(crate) fn with_result(self, result: i64) -> Self {
        let was_in_vain = result == -i64::from(libc::EAGAIN);
        match self {
            Self::Works if was_in_vain => Self::Polls,
            Self::Compares if was_in_vain => Self::Looks,
            Self::Compares => Self::Works,
            other => other,
        }
    }
}

/// Classifies a call of a busy thread.
pub(crate) fn loop_call(call: &Call, memory: &impl Memory) -> LoopCall {
    // Zero is the same in all units.
    let is_zero = |index: usize| call.arguments[index] != 0 && timespec(memory, call.arguments[index]) == Some(0);
    let polls = match call.number {
        libc::SYS_poll => call.arguments[2] as i32 == 0,
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => call.arguments[3] as i32 == 0,
        libc::SYS_ppoll => is_zero(2),
        libc::SYS_select | libc::SYS_pselect6 => is_zero(4),
        libc::SYS_epoll_pwait2 => is_zero(3),
        // Sleeps for no time: others are waits.
        libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_sched_yield
        | libc::SYS_wait4
        | libc::SYS_waitid => return LoopCall::Yields,
        libc::SYS_clock_gettime
        | libc::SYS_gettimeofday
        | libc::SYS_time
        | libc::SYS_getpid
        | libc::SYS_gettid
        | libc::SYS_rt_sigprocmask => return LoopCall::Looks,
        // Threads that were woken by it show that they run.
        libc::SYS_futex if !FUTEX_TIMED.contains(&(call.arguments[1] & 0x7f)) => return LoopCall::Looks,
        libc::SYS_futex | FUTEX_WAIT_CALL | libc::SYS_futex_waitv => return LoopCall::Compares,
        _ => false,
    };
    if polls { LoopCall::Polls } else { LoopCall::Works }
}

/// Returns the arguments of a call that are files, on which it may wait as long as the timeout of a socket: true for
/// those to which it sends.
pub(crate) fn timed_files(number: i64) -> &'static [(usize, bool)] {
    match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_preadv2
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => &[(0, false)],
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwritev2
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_sendfile
        | libc::SYS_connect => &[(0, true)],
        libc::SYS_splice => &[(0, false), (2, true)],
        _ => &[],
    }
}

/// Returns the result with which such a call times out.
pub(crate) fn timed_out(number: i64, arguments: &[u64], memory: &impl Memory) -> i64 {
    let mut family = [0; 2];
    let is_connect = number == libc::SYS_connect && memory.read(arguments[1], &mut family);
    let is_under_way = is_connect && i32::from(u16::from_ne_bytes(family)) != libc::AF_UNIX;
    -i64::from(if is_under_way { libc::EINPROGRESS } else { libc::EAGAIN })
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Memory with the same two numbers everywhere; none at the addresses 0 and 13.
    pub(crate) struct Numbers(pub(crate) i64, pub(crate) i64);

    impl Memory for Numbers {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            let numbers = [self.0.to_ne_bytes(), self.1.to_ne_bytes()].concat();
            bytes.copy_from_slice(&numbers[..bytes.len()]);
            address != 13 && address != 0
        }
    }

    const CLOCKS: Clocks =
        Clocks { elapsed: 10 * SECOND, monotonic_start: 100 * SECOND, realtime_start: 5000 * SECOND };

    fn planned(number: i64, arguments: [u64; 6], memory: &Numbers) -> Plan {
        plan(&Call { number, arguments }, memory, &CLOCKS, Some(160))
    }

    fn wait_of(number: i64, arguments: [u64; 6], memory: &Numbers) -> Wait {
        match planned(number, arguments, memory) {
            Plan::Wait(wait) => wait,
            plan => panic!("{plan:?}"),
        }
    }

    #[test]
    fn calls_of_busy_threads_have_kinds() {
        let again = -i64::from(libc::EAGAIN);
        let seen = |number, arguments, result| {
            let call = loop_call(&Call { number, arguments }, &Numbers(0, 0)).with_result(result);
            (call == LoopCall::Polls, call == LoopCall::Looks, call == LoopCall::Works)
        };
        let polls = (true, false, false);
        let looks = (false, true, false);
        let works = (false, false, true);
        assert_eq!(seen(libc::SYS_poll, [16, 1, 0, 0, 0, 0], 0), polls);
        assert_eq!(seen(libc::SYS_read, [3, 16, 1, 0, 0, 0], again), polls, "there was nothing");
        assert_eq!(seen(libc::SYS_read, [3, 16, 1, 0, 0, 0], 1), works);
        assert_eq!(seen(libc::SYS_futex, [16, 128, 2, 0, 0, 0], again), looks, "another thread has changed the word");
        assert_eq!(seen(libc::SYS_futex, [16, 128, 2, 0, 0, 0], 0), works, "it has waited");
        assert_eq!(seen(libc::SYS_futex, [16, 129, 1, 0, 0, 0], 0), looks, "a wake");
    }

    #[test]
    fn relative_and_absolute_waits_have_their_deadlines() {
        let two_and_a_half = Numbers(2, 500_000_000);
        let sleep = wait_of(libc::SYS_nanosleep, [16, 32, 0, 0, 0, 0], &two_and_a_half);
        assert_eq!((sleep.deadline, sleep.change, sleep.is_sleep), (12_500_000_000, Change::Pause, true));
        let futex = |operation, memory| wait_of(libc::SYS_futex, [64, operation, 1, 16, 0, 0], memory);
        assert_eq!(futex(128, &two_and_a_half).deadline, 12_500_000_000);
        assert_eq!(futex(9, &Numbers(111, 0)).deadline, 11 * SECOND);
        assert_eq!(futex(9 | 128 | 256, &Numbers(5011, 0)).deadline, 11 * SECOND);
        assert_eq!(futex(9, &Numbers(111, 0)).change, Change::Argument(3, 0));
        assert_eq!(futex(9, &Numbers(110, 0)).change, Change::Argument(3, 160), "it is over: the kernel times out");
        assert_eq!(futex(6, &Numbers(5011, 0)).deadline, 11 * SECOND, "PI futexes use the time of day");
        assert_eq!(futex(13, &Numbers(111, 0)).deadline, 11 * SECOND, "but for LOCK_PI2");
        let poll = wait_of(libc::SYS_poll, [16, 1, 1500, 0, 0, 0], &two_and_a_half);
        assert_eq!((poll.deadline, poll.change), (11_500_000_000, Change::Argument(2, u64::MAX)));
        let select = wait_of(libc::SYS_select, [0, 0, 0, 0, 16, 0], &Numbers(1, 250_000));
        assert_eq!(select.deadline, 11_250_000_000);
        let select = wait_of(libc::SYS_select, [0, 0, 0, 0, 16, 0], &Numbers(1, 2_500_000));
        assert_eq!(select.deadline, 13_500_000_000);
        assert_eq!(wait_of(libc::SYS_nanosleep, [16, 0, 0, 0, 0, 0], &Numbers(i64::MAX, 0)).deadline, NEVER);
    }

    #[test]
    fn the_kernel_judges_arguments_that_are_wrong() {
        for memory in [Numbers(-1, 0), Numbers(0, -1), Numbers(0, 1_000_000_000)] {
            assert_eq!(planned(libc::SYS_nanosleep, [16, 0, 0, 0, 0, 0], &memory), Plan::Pass);
        }
        assert_eq!(planned(libc::SYS_nanosleep, [13, 0, 0, 0, 0, 0], &Numbers(1, 0)), Plan::Pass);
        assert_eq!(planned(libc::SYS_select, [0, 0, 0, 0, 16, 0], &Numbers(1, -1)), Plan::Pass);
        for clock in [libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_REALTIME_COARSE].map(|clock| clock as u64) {
            assert_eq!(planned(libc::SYS_clock_nanosleep, [clock, 0, 16, 0, 0, 0], &Numbers(1, 0)), Plan::Pass);
            assert_eq!(planned(libc::SYS_futex_waitv, [16, 1, 0, 16, clock, 0], &Numbers(111, 0)), Plan::Pass);
        }
        assert_eq!(planned(libc::SYS_nanosleep, [16, 0, 0, 0, 0, 0], &Numbers(0, 0)), Plan::Pass, "it does not wait");
    }

    #[test]
    fn results_of_waits_are_those_of_timed_ones() {
        let futex = wait_of(libc::SYS_futex, [64, 0, 1, 16, 0, 0], &Numbers(1, 0));
        assert_eq!(ending(&futex, 0, false), Ending::Woken(0));
        assert_eq!(ending(&futex, 0, true), Ending::Woken(0), "the event was first");
        assert_eq!(ending(&futex, -11, true), Ending::Woken(-11));
        assert_eq!(ending(&futex, -512, true), Ending::TimedOut(-110));
        assert_eq!(ending(&futex, -512, false), Ending::Interrupted(-514), "not restarted after a handler");
        let poll = wait_of(libc::SYS_poll, [16, 1, 1500, 0, 0, 0], &Numbers(0, 0));
        assert_eq!(ending(&poll, -516, false), Ending::Interrupted(-514));
        assert_eq!(ending(&poll, -4, false), Ending::Interrupted(-4));
        let messages = wait_of(libc::SYS_recvmmsg, [3, 16, 1, 0, 16, 0], &Numbers(1, 0));
        assert_eq!(ending(&messages, -512, true), Ending::Interrupted(-512), "it waits on");
    }

    #[test]
    fn timers_and_options_are_read() {
        let memory = Numbers(3, 0);
        let setting = Setting { first: 3 * SECOND, interval: 3 * SECOND };
        assert_eq!(
            planned(libc::SYS_timerfd_settime, [7, 1, 16, 64, 0, 0], &memory),
            Plan::SetTimerFile(7, true, setting, 64)
        );
        assert_eq!(planned(libc::SYS_setitimer, [0, 16, 0, 0, 0, 0], &memory), Plan::SetInterval(setting, 0));
        assert_eq!(planned(libc::SYS_setitimer, [1, 16, 0, 0, 0, 0], &memory), Plan::Pass, "processor time");
        assert_eq!(planned(libc::SYS_timer_create, [2, 0, 16, 0, 0, 0], &memory), Plan::Pass, "processor time");
        let notification = Notification { signal: libc::SIGALRM, value: None, thread: None };
        assert_eq!(
            planned(libc::SYS_timer_create, [1, 0, 16, 0, 0, 0], &memory),
            Plan::CreateTimer(Family::Monotonic, notification, 16)
        );
        let option = |number, name| planned(number, [5, 1, name, 16, 16, 0], &memory);
        assert_eq!(option(libc::SYS_setsockopt, 20), Plan::SetSocketTimeout(5, false, 3 * SECOND, 16));
        assert_eq!(option(libc::SYS_setsockopt, 67), Plan::SetSocketTimeout(5, true, 3 * SECOND, 16));
        assert_eq!(option(libc::SYS_getsockopt, 21), Plan::GetSocketTimeout(16, 16));
        assert_eq!(option(libc::SYS_setsockopt, 2), Plan::Pass);
    }

    /// Arguments at which decisions change, and any others.
    pub(crate) fn arguments() -> impl Strategy<Value = [u64; 6]> {
        let edges = vec![0, 1, 13, 16, u64::MAX, 0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 1 << 32, CLONE_UNTRACED];
        prop::array::uniform6(prop_oneof![prop::sample::select(edges), 0_u64..400, any::<u64>()])
    }

    proptest! {
        #[test]
        fn any_call_has_a_plan(number in 0_i64..470, arguments in arguments(), one: i64, other: i64) {
            let memory = Numbers(one, other);
            match planned(number, arguments, &memory) {
                Plan::Wait(wait) => {
                    let is_over = matches!(wait.change, Change::Argument(_, 160));
                    prop_assert!(wait.deadline > CLOCKS.elapsed || is_over);
                    for result in [0, 1, -4, -11, -110, -512, -513, -514, -516] {
                        let _ = ending(&wait, result, true);
                    }
                }
                Plan::Refuse(_, error) => prop_assert!(error >= 0),
                _ => {}
            }
        }
    }
}
