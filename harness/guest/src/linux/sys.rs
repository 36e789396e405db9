//! The system calls for which Rust has no safe function. Each wrapper is safe to call; its reason is next to the
//! `unsafe` block. Nothing else in this package is unsafe.
#![expect(unsafe_code, reason = "ptrace, fork, shared memory and timers of threads have no safe interface")]

use std::ffi::{CString, c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use libc::c_uint;

/// The general registers of a thread.
pub(crate) type Registers = libc::user_regs_struct;

/// The event of `PTRACE_INTERRUPT`, of group stops and of a thread's first stop.
pub(crate) const EVENT_STOP: i32 = libc::PTRACE_EVENT_STOP;

/// The mark of a stop at a system call.
pub(crate) const CALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// Returns an error of the C library for -1.
fn check(result: i64) -> io::Result<i64> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn ptrace(request: c_uint, thread: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: a request changes the traced thread only, except for those that fill `data`, whose callers below hand in
    // a place that lives as long as the call and has the size that the request writes.
    check(unsafe { libc::ptrace(request, thread, address as *mut c_void, data as *mut c_void) })?;
    Ok(())
}

/// Starts to trace a process; it is killed when the calling thread ends.
pub(crate) fn seize(process: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEVFORKDONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_EXITKILL;
    ptrace(libc::PTRACE_SEIZE, process, 0, options as usize)
}

/// Stops a thread as soon as it can, also in a wait.
pub(crate) fn interrupt(thread: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0)
}

/// Continues a stopped thread with a signal, or 0; up to the next entry or exit of a system call if `to_call`.
pub(crate) fn resume(thread: i32, to_call: bool, signal: i32) -> io::Result<()> {
    let request = if to_call { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
    ptrace(request, thread, 0, signal as usize)
}

/// Leaves a thread in its group stop until the group is continued.
pub(crate) fn listen(thread: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_LISTEN, thread, 0, 0)
}

/// Reads the registers of a stopped thread.
pub(crate) fn registers(thread: i32) -> io::Result<Registers> {
    // SAFETY: plain integers; zero is a value of each.
    let mut registers: Registers = unsafe { zeroed() };
    ptrace(libc::PTRACE_GETREGS, thread, 0, &raw mut registers as usize)?;
    Ok(registers)
}

/// Writes the registers of a stopped thread.
pub(crate) fn set_registers(thread: i32, registers: &Registers) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS, thread, 0, &raw const *registers as usize)
}

/// Returns the message of the event at which a thread has stopped.
pub(crate) fn event_message(thread: i32) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, thread, 0, &raw mut message as usize)?;
    Ok(message)
}

/// An event of a traced thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// The thread.
    pub(crate) thread: i32,
    /// Its status, as of `wait`.
    pub(crate) status: i32,
    /// The processor time of its process, its threads and children that have ended included, in nanoseconds.
    pub(crate) processor_time: u64,
}

/// Returns the next event of a traced thread or child of the calling thread. `None` if there is none now, or if a
/// blocking call was interrupted; `ECHILD` if nothing is traced.
pub(crate) fn next_event(block: bool) -> io::Result<Option<Event>> {
    let mut status: c_int = 0;
    // SAFETY: plain integers; zero is a value of each.
    let mut usage: libc::rusage = unsafe { zeroed() };
    let flags = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    // SAFETY: `status` and `usage` outlive the call.
    match check(i64::from(unsafe { libc::wait4(-1, &raw mut status, flags, &raw mut usage) })) {
        Ok(0) => Ok(None),
        Ok(thread) => {
            let time = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
            let processor_time = time(usage.ru_utime) + time(usage.ru_stime);
            Ok(Some(Event { thread: thread as i32, status, processor_time }))
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

fn vector(bytes: *mut u8, length: usize) -> libc::iovec {
    libc::iovec { iov_base: bytes.cast(), iov_len: length }
}

/// Fills `bytes` from the memory of a traced thread; false if it has no such memory.
pub(crate) fn read_memory(thread: i32, address: u64, bytes: &mut [u8]) -> bool {
    let local = vector(bytes.as_mut_ptr(), bytes.len());
    let remote = vector(address as *mut u8, bytes.len());
    // SAFETY: the kernel writes at most `bytes.len()` bytes to `bytes`, and checks the remote address.
    let read = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    if read == -1 && is_forbidden(errno()) {
        return memory_file(thread).is_some_and(|memory| memory.read_exact_at(bytes, address).is_ok());
    }
    read == bytes.len() as isize
}

/// Writes `bytes` to the memory of a traced thread; false if it has no such writable memory.
pub(crate) fn write_memory(thread: i32, address: u64, bytes: &[u8]) -> bool {
    let local = vector(bytes.as_ptr().cast_mut(), bytes.len());
    let remote = vector(address as *mut u8, bytes.len());
    // SAFETY: the kernel only reads from `bytes`, and checks the remote address.
    let written = unsafe { libc::process_vm_writev(thread, &raw const local, 1, &raw const remote, 1, 0) };
    if written == -1 && is_forbidden(errno()) {
        return memory_file(thread).is_some_and(|memory| memory.write_all_at(bytes, address).is_ok());
    }
    written == bytes.len() as isize
}

/// Returns true for the errors of a call that the machine or the filter of a container forbids.
const fn is_forbidden(error: i32) -> bool {
    matches!(error, libc::EPERM | libc::ENOSYS | libc::EACCES)
}

/// Opens the memory of a traced thread. Containers with the default profile of older versions of Docker permit this,
/// but not the calls above.
fn memory_file(thread: i32) -> Option<File> {
    File::options().read(true).write(true).open(format!("/proc/{thread}/mem")).ok()
}

/// Sends a signal to a process.
pub(crate) fn kill(process: i32, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved. Callers name processes that they trace.
    check(i64::from(unsafe { libc::kill(process, signal) }))?;
    Ok(())
}

/// The beginning of `siginfo_t` for timers, as the kernel lays it out on 64-bit machines.
#[repr(C)]
struct TimerSignal {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    timer: c_int,
    overrun: c_int,
    value: u64,
    rest: [u64; 12],
}

/// Returns the POSIX timer whose signal a thread has stopped with; `None` for other signals.
pub(crate) fn stopped_by_timer(thread: i32) -> Option<i32> {
    let info = signal_information(thread)?;
    (info.code == libc::SI_TIMER).then_some(info.timer)
}

fn signal_information(thread: i32) -> Option<TimerSignal> {
    // SAFETY: plain integers; zero is a value of each.
    let mut info: TimerSignal = unsafe { zeroed() };
    ptrace(libc::PTRACE_GETSIGINFO, thread, 0, &raw mut info as usize).ok()?;
    Some(info)
}

/// Returns true for a signal with this code and sender that this process has sent. In a namespace, it has no number.
pub(crate) fn is_own_signal(code: i32, sender: i32) -> bool {
    code == libc::SI_USER && [0, std::process::id() as i32].contains(&sender)
}

/// Shows an alarm with which a thread has stopped as one of the kernel, if it is the tracer's.
pub(crate) fn show_alarm(thread: i32) {
    if let Some(mut info) = signal_information(thread)
        && is_own_signal(info.code, info.timer)
    {
        (info.code, info.timer, info.overrun) = (libc::SI_KERNEL, 0, 0);
        // A thread that was killed at this moment needs no signal.
        let _ = ptrace(libc::PTRACE_SETSIGINFO, thread, 0, &raw const info as usize);
    }
}

/// Writes the overrun of the timer's signal with which a thread has stopped.
pub(crate) fn set_overrun(thread: i32, overrun: i32) {
    if let Some(mut info) = signal_information(thread) {
        info.overrun = overrun;
        // A thread that was killed at this moment needs no signal.
        let _ = ptrace(libc::PTRACE_SETSIGINFO, thread, 0, &raw const info as usize);
    }
}

/// Sends the signal of a POSIX timer to a process, or to one of its threads.
pub(crate) fn send_timer_signal(process: i32, thread: Option<i32>, signal: i32, timer: i32, value: u64) {
    let code = libc::SI_TIMER;
    let info = TimerSignal { signal, error: 0, code, padding: 0, timer, overrun: 0, value, rest: [0; 12] };
    let info = &raw const info;
    // SAFETY: `info` has the size of `siginfo_t`, 128 bytes, and outlives the call. A signal that cannot be sent, since
    // the process has just ended, is lost as it is with the kernel's timers.
    unsafe {
        match thread {
            Some(thread) => libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info),
            None => libc::syscall(libc::SYS_rt_sigqueueinfo, process, signal, info),
        };
    }
}

/// Returns a file of another process, which shares its state.
pub(crate) fn file_of(process: i32, file: i32) -> io::Result<OwnedFd> {
    // SAFETY: both calls return a new file or an error, and take no memory.
    unsafe {
        let handle = check(libc::syscall(libc::SYS_pidfd_open, process, 0))?;
        let handle = OwnedFd::from_raw_fd(handle as RawFd);
        let copy = check(libc::syscall(libc::SYS_pidfd_getfd, handle.as_raw_fd(), file, 0))?;
        Ok(OwnedFd::from_raw_fd(copy as RawFd))
    }
}

/// Returns true if a file of another process exists, but must not be shared.
pub(crate) fn cannot_share(process: i32, file: i32) -> bool {
    file_of(process, file).is_err_and(|error| error.raw_os_error().is_some_and(is_forbidden))
}

/// Returns the seconds of a timeout of a socket; `None` for other files.
pub(crate) fn socket_timeout(socket: &OwnedFd, is_sending: bool) -> Option<u64> {
    let option = if is_sending { libc::SO_SNDTIMEO } else { libc::SO_RCVTIMEO };
    let mut value = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = size_of::<libc::timeval>() as libc::socklen_t;
    let socket = socket.as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to `value`, and both outlive the call.
    let result =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, option, (&raw mut value).cast(), &raw mut length) };
    (result == 0).then_some(value.tv_sec as u64)
}

/// Returns true for a socket of the Internet's families.
pub(crate) fn is_internet_socket(socket: &OwnedFd) -> bool {
    let mut family = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    let (socket, option) = (socket.as_raw_fd(), libc::SO_DOMAIN);
    // SAFETY: the kernel writes at most `length` bytes to `family`, and both outlive the call.
    let result =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, option, (&raw mut family).cast(), &raw mut length) };
    result == 0 && [libc::AF_INET, libc::AF_INET6].contains(&family)
}

/// Returns `VMIN` and `VTIME` of a terminal; `None` for other files, and for a terminal that is read by lines.
pub(crate) fn raw_terminal(file: OwnedFd) -> Option<(u8, u8)> {
    // SAFETY: numbers only, which may all be zero; the kernel fills them, and they outlive the call.
    let mut settings: libc::termios = unsafe { zeroed() };
    let result = unsafe { libc::tcgetattr(file.as_raw_fd(), &raw mut settings) };
    let is_raw = result == 0 && settings.c_lflag & libc::ICANON == 0;
    is_raw.then_some((settings.c_cc[libc::VMIN], settings.c_cc[libc::VTIME]))
}

/// Sets a timer file to expire after seconds and nanoseconds of real time, and then each `interval` seconds.
pub(crate) fn set_timer_file(file: &OwnedFd, (seconds, nanoseconds): (u64, i64), interval: u64) -> io::Result<()> {
    let time = |tv_sec: u64, tv_nsec| libc::timespec { tv_sec: tv_sec as i64, tv_nsec };
    let value = libc::itimerspec { it_interval: time(interval, 0), it_value: time(seconds, nanoseconds) };
    // SAFETY: `value` outlives the call, and the old value is not asked for.
    check(i64::from(unsafe { libc::timerfd_settime(file.as_raw_fd(), 0, &raw const value, null_mut()) }))?;
    Ok(())
}

/// Sets the number of unread expirations of a timer file and wakes its readers.
pub(crate) fn set_ticks(file: &OwnedFd, ticks: u64) -> io::Result<()> {
    /// `TFD_IOC_SET_TICKS` of `linux/timerfd.h`.
    const SET_TICKS: libc::c_ulong = 0x4008_5400;
    // SAFETY: the request reads eight bytes, which outlive the call.
    check(i64::from(unsafe { libc::ioctl(file.as_raw_fd(), SET_TICKS, &raw const ticks) }))?;
    Ok(())
}

/// Returns the real monotonic clock in nanoseconds.
pub(crate) fn real_monotonic() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Returns the real time since 1970 in nanoseconds.
pub(crate) fn real_time() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// Returns the processor time of the calling thread in nanoseconds.
pub(crate) fn processor_time() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call, which cannot fail for these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The soft and the hard limit of open files.
pub(crate) type FileLimit = (u64, u64);

/// Raises the soft limit of open files to the hard one, and returns the limits before.
pub(crate) fn raise_file_limit() -> FileLimit {
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: `limit` outlives both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised);
        }
    }
    (limit.rlim_cur, limit.rlim_max)
}

/// A segment of shared memory that traced processes map, too. It vanishes with its last user, also after a crash.
pub(crate) struct SharedMemory {
    id: i32,
    start: *mut AtomicU64,
    length: usize,
}

impl SharedMemory {
    /// Makes a segment with the given content.
    pub(crate) fn new(content: &[u8]) -> io::Result<Self> {
        let length = content.len();
        // SAFETY: the segment is new and at least `length` bytes long, the kernel chooses where it is mapped, and
        // nothing else in this process knows it.
        unsafe {
            let id = check(i64::from(libc::shmget(libc::IPC_PRIVATE, length, libc::IPC_CREAT | 0o755)))? as i32;
            let start = libc::shmat(id, null(), 0);
            let mapped = check(start as i64);
            // Traced processes map it by its number afterwards, which Linux allows while somebody uses it.
            libc::shmctl(id, libc::IPC_RMID, null_mut());
            mapped?;
            start.cast::<u8>().copy_from_nonoverlapping(content.as_ptr(), length);
            Ok(Self { id, start: start.cast(), length })
        }
    }

    /// The number by which other processes map it.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Stores a number at an offset, which is a multiple of 8 inside the segment.
    pub(crate) fn store(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length, "an offset of the segment");
        // SAFETY: aligned and inside the mapping, which lives as long as `self`; others only read it.
        unsafe { (*self.start.add(offset / 8)).store(value, Ordering::SeqCst) };
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; nothing borrows from it.
        unsafe { libc::shmdt(self.start.cast()) };
    }
}

/// A timer that interrupts blocking calls of the thread that made it.
pub(crate) struct Interrupter {
    timer: libc::timer_t,
}

extern "C" fn do_nothing(_: c_int) {}

impl Interrupter {
    /// Makes the timer and a handler of its signal, which only interrupts.
    pub(crate) fn new() -> io::Result<Self> {
        let signal = libc::SIGRTMAX() - 1;
        // SAFETY: the structures are plain integers and outlive the calls; the handler touches nothing.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = do_nothing as extern "C" fn(c_int) as usize;
            check(i64::from(libc::sigaction(signal, &raw const action, null_mut())))?;
            let mut set: libc::sigset_t = zeroed();
            libc::sigaddset(&raw mut set, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = zeroed();
            check(i64::from(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)))?;
            libc::prctl(libc::PR_SET_TIMERSLACK, 1);
            Ok(Self { timer })
        }
    }

    /// Interrupts after so many nanoseconds, and again each millisecond, since the first signal may come before the
    /// call that it is to interrupt. 0 ends that.
    pub(crate) fn set(&self, nanoseconds: u64) {
        let again = if nanoseconds == 0 { 0 } else { 1_000_000 };
        let spec = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: again },
            it_value: libc::timespec { tv_sec: 0, tv_nsec: nanoseconds.min(999_999_999) as i64 },
        };
        // SAFETY: `spec` outlives the call, and the timer lives as long as `self`.
        unsafe { libc::timer_settime(self.timer, 0, &raw const spec, null_mut()) };
    }
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        // SAFETY: made by `new`, deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// The order that signals to this process give.
static SIGNAL_ORDER: OnceLock<Arc<AtomicU8>> = OnceLock::new();

/// The signal that has given the order; [`FROM_TERMINAL`] if the terminal has sent it to the command as well.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

const FROM_TERMINAL: i32 = -1;

extern "C" fn order_end(signal: c_int, information: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid structure to a handler with SA_SIGINFO.
    let is_from_terminal = unsafe { (*information).si_code } == libc::SI_KERNEL;
    // Safe in a handler of signals: atomic operations.
    SIGNAL.store(if is_from_terminal { FROM_TERMINAL } else { signal }, Ordering::SeqCst);
    if let Some(order) = SIGNAL_ORDER.get() {
        order.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns the signal that the command is to get when it is to end; `None` if it has got it already.
pub(crate) fn end_signal() -> Option<c_int> {
    match SIGNAL.load(Ordering::SeqCst) {
        FROM_TERMINAL => None,
        0 => Some(libc::SIGTERM),
        signal => Some(signal),
    }
}

/// Adds one to `order` at each `SIGINT`, `SIGTERM` and `SIGHUP` to this process. The first call counts.
pub(crate) fn order_on_signals(order: Arc<AtomicU8>) -> io::Result<()> {
    SIGNAL_ORDER.get_or_init(|| order);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: plain integers, which outlive the call; the handler is safe in any thread.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = order_end;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
            check(i64::from(libc::sigaction(signal, &raw const action, null_mut())))?;
        }
    }
    Ok(())
}

/// Returns true if one of the files has something to read, or has ended.
pub(crate) fn is_readable(files: &[RawFd]) -> bool {
    wait_readable(files, 0)
}

/// Returns the process at the other end of a Unix socket.
pub(crate) fn peer(socket: RawFd) -> Option<i32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `peer`, which has that size.
    let result = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut length)
    };
    (result == 0).then_some(peer.pid)
}

/// Waits until one of the files has something to read, or so many nanoseconds. Returns true if one has.
pub(crate) fn wait_readable(files: &[RawFd], nanoseconds: u64) -> bool {
    let poll = |file: &RawFd| libc::pollfd { fd: *file, events: libc::POLLIN, revents: 0 };
    let mut polls: Vec<libc::pollfd> = files.iter().map(poll).collect();
    let limit = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds.min(999_999_999) as i64 };
    // SAFETY: the kernel reads and writes `polls`, which has the length given, and reads `limit`.
    unsafe { libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, &raw const limit, null()) > 0 }
}

/// Lets other threads run.
pub(crate) fn yield_now() {
    std::thread::yield_now();
}

/// A program that is about to start. Everything that the child needs is made before the fork, because the child may
/// not allocate.
pub(crate) struct Launch {
    /// The file to execute.
    pub(crate) program: CString,
    /// Its arguments, with its name.
    pub(crate) arguments: Vec<CString>,
    /// Its environment, `NAME=value`.
    pub(crate) environment: Vec<CString>,
    /// Its working directory; as this process's if `None`.
    pub(crate) directory: Option<CString>,
    /// Standard input, output and error; inherited where `None`.
    pub(crate) standard: [Option<OwnedFd>; 3],
    /// The filter of system calls.
    pub(crate) filter: seccompiler::BpfProgram,
    /// For a network namespace of its own: the messages that set its routes.
    pub(crate) network: Option<Vec<Vec<u8>>>,
    /// The lines of `uid_map` and `gid_map` for a user namespace.
    pub(crate) maps: [CString; 2],
    /// The limit of open files that the program gets.
    pub(crate) files: FileLimit,
}

/// The child's end of the pipes over which it is started.
struct ChildPipes {
    report: RawFd,
    go: RawFd,
}

/// A step at which a child can fail; the first byte of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The network namespace. The child goes on without it.
    Network = 1,
    /// The standard files or the directory.
    Files = 2,
    /// The filter of system calls.
    Filter = 3,
    /// The execution of the program.
    Exec = 4,
}

/// A forked child that waits until it may execute its program.
pub(crate) struct Child {
    /// Its process id.
    pub(crate) process: i32,
    report: File,
    go: Option<File>,
}

impl Child {
    /// Lets the child go on. The end of the pipe would not do: a child that is forked at the same time keeps a copy.
    pub(crate) fn go(&mut self) {
        use std::io::Write as _;
        if let Some(mut go) = self.go.take() {
            // A child that was killed meets its end.
            let _ = go.write_all(&[1]);
        }
    }

    /// Reads the child's next message: the step that failed and the error number, 0 for none. `None` at the end,
    /// after the program was executed. Blocks.
    pub(crate) fn message(&mut self) -> Option<(Step, i32)> {
        use std::io::Read as _;
        let mut bytes = [0; 5];
        self.report.read_exact(&mut bytes).ok()?;
        let step = match bytes[0] {
            1 => Step::Network,
            2 => Step::Files,
            3 => Step::Filter,
            _ => Step::Exec,
        };
        Some((step, i32::from_ne_bytes([bytes[1], bytes[2], bytes[3], bytes[4]])))
    }
}

/// Forks a child that waits for [`Child::go`] before it executes the program of `launch`.
pub(crate) fn fork(launch: &Launch) -> io::Result<Child> {
    let pointers = |strings: &[CString]| {
        strings.iter().map(|string| string.as_ptr()).chain([null()]).collect::<Vec<*const libc::c_char>>()
    };
    let arguments = pointers(&launch.arguments);
    let environment = pointers(&launch.environment);
    let (report, child_report) = pipe()?;
    let (child_go, go) = pipe()?;
    // SAFETY: the child calls only functions that are safe after a fork of a process with threads: system calls on
    // memory that was prepared above.
    let process = unsafe { libc::fork() };
    if process == 0 {
        drop(go);
        let pipes = ChildPipes { report: child_report.as_raw_fd(), go: child_go.as_raw_fd() };
        // SAFETY: as above; the pointers end with null, and `launch` owns the strings.
        unsafe { run_child(launch, &arguments, &environment, &pipes) };
    }
    check(i64::from(process))?;
    Ok(Child { process, report, go: Some(go) })
}

/// Makes a pipe: its reading and its writing end.
fn pipe() -> io::Result<(File, File)> {
    let (read, write) = io::pipe()?;
    Ok((File::from(OwnedFd::from(read)), File::from(OwnedFd::from(write))))
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// The child between fork and exec.
///
/// # Safety
///
/// For the child of a fork only; the vectors of pointers end with null.
unsafe fn run_child(
    launch: &Launch,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    pipes: &ChildPipes,
) -> ! {
    let say = |step: Step, error: i32| {
        let mut bytes = [step as u8; 5];
        bytes[1..].copy_from_slice(&error.to_ne_bytes());
        // SAFETY: five bytes that outlive the call.
        unsafe { libc::write(pipes.report, bytes.as_ptr().cast(), bytes.len()) };
    };
    let fail = |step: Step, error: i32| -> ! {
        say(step, error);
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(127) }
    };
    // SAFETY: only system calls, on memory of `launch` and of this frame.
    unsafe {
        say(Step::Network, launch.network.as_ref().map_or(0, |routes| own_network(&launch.maps, routes)));
        // A copy of the pipe in another child may outlive the parent.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let mut byte = 0_u8;
        let mut length = -1;
        while length < 0 {
            length = libc::read(pipes.go, (&raw mut byte).cast(), 1);
        }
        // The byte says go: the parent traces this process now. Without it, the parent is gone.
        if length == 0 {
            libc::_exit(127);
        }
        for (target, source) in launch.standard.iter().enumerate() {
            let Some(source) = source else { continue };
            let source = source.as_raw_fd();
            let target = target as c_int;
            let result =
                if source == target { libc::fcntl(source, libc::F_SETFD, 0) } else { libc::dup2(source, target) };
            if result < 0 {
                fail(Step::Files, errno());
            }
        }
        if launch.directory.as_ref().is_some_and(|directory| libc::chdir(directory.as_ptr()) != 0) {
            fail(Step::Files, errno());
        }
        let limit = libc::rlimit { rlim_cur: launch.files.0, rlim_max: launch.files.1 };
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        let mut none: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if let Err(error) = seccompiler::apply_filter(&launch.filter) {
            let error = match error {
                seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error.raw_os_error(),
                _ => None,
            };
            fail(Step::Filter, error.unwrap_or(libc::EINVAL));
        }
        libc::execve(launch.program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
        fail(Step::Exec, errno())
    }
}

/// Moves the calling process to a network namespace of its own with a loopback device. Returns an error number or 0.
///
/// # Safety
///
/// For the child of a fork only.
unsafe fn own_network(maps: &[CString; 2], routes: &[Vec<u8>]) -> i32 {
    // SAFETY: only system calls, on strings that end with null and a structure of this frame.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNET) != 0 {
            if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) != 0 {
                return errno();
            }
            let deny = c"deny";
            let lines = [
                (c"/proc/self/setgroups", deny),
                (c"/proc/self/uid_map", maps[0].as_c_str()),
                (c"/proc/self/gid_map", maps[1].as_c_str()),
            ];
            for (path, line) in lines {
                let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                libc::write(file, line.as_ptr().cast(), line.to_bytes().len());
                libc::close(file);
            }
        }
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let result = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        let error = if result == 0 { 0 } else { errno() };
        libc::close(socket);
        let socket = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE);
        for message in routes {
            // The kernel handles it before it returns. Without IPv6, some fail.
            libc::send(socket, message.as_ptr().cast(), message.len(), 0);
        }
        libc::close(socket);
        error
    }
}

/// Returns the ids of the user and group that this process runs as.
pub(crate) fn user_and_group() -> (u32, u32) {
    // SAFETY: neither call can fail or takes memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

const _: () = assert!(size_of::<TimerSignal>() == 128);
