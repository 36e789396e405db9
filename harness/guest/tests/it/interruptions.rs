//! Waits that end at exactly their deadline, and calls that are interrupted without an effect.

use std::time::Duration;

use plumbline_guest::End;

use super::support::{python, python_program, run};

/// Python waits until the clock shows more than the deadline, and polls until then.
#[test]
fn a_deadline_that_the_clock_has_to_exceed_is_exceeded() {
    let finished = run(python(
        "
import multiprocessing, subprocess, time
start = time.monotonic()
try: subprocess.run(['sleep', '60'], timeout=5, capture_output=True)
except subprocess.TimeoutExpired: print('timed out', round(time.monotonic() - start, 3))
one, other = multiprocessing.Pipe()
print(one.poll(10), round(time.monotonic() - start, 3))
",
    ));
    assert_eq!(finished.lines(), ["timed out 5.001", "False 15.002"]);
}

/// Python's deadline is the moment of the call then, and the clock has to exceed it while nothing else runs.
#[test]
fn a_poll_that_waits_for_no_time_ends() {
    let finished = run(python(
        "
import multiprocessing, time
from concurrent.futures import ProcessPoolExecutor
start = time.monotonic()
one, other = multiprocessing.Pipe()
print([one.poll() for _ in range(5)], time.monotonic() - start < 0.1)
with ProcessPoolExecutor(2) as pool: print(list(pool.map(time.sleep, [5, 5])), int(time.monotonic() - start))
",
    ));
    assert_eq!(finished.lines(), ["[False, False, False, False, False] True", "[None, None] 5"]);
    assert!(finished.report().spins.is_empty() && finished.report().real_time.as_secs() < 120, "{finished:?}");
}

/// Time is all that such a program can wait for while all others sleep.
#[test]
fn a_loop_without_work_passes_time_while_all_others_sleep() {
    let finished = run(python(
        "
import os, socket, threading, time
start = time.monotonic()
def at(what): print(what, 0.02 <= time.monotonic() - start < 0.2, flush=True)
def begin(): global start; start = time.monotonic()
while time.monotonic() < start + 0.02: os.sched_yield()
at('yield'); begin()
one, other = socket.socketpair(); one.setblocking(False)
while time.monotonic() < start + 0.02:
    try: one.recv(1)
    except BlockingIOError: pass
at('receive'); begin()
child = os.fork()
if child == 0: time.sleep(0.02); os._exit(0)
while os.waitpid(child, os.WNOHANG)[0] == 0: pass
at('child'); begin()
done = []; threading.Timer(0.02, lambda: done.append(1)).start()
while not done: time.sleep(0)
at('sleep')
",
    ));
    assert_eq!(finished.lines(), ["yield True", "receive True", "child True", "sleep True"]);
    assert!(finished.report().spins.is_empty(), "{finished:?}");
}

/// Such loops are how programs wait for less than a timer's grain, and how JavaScript sleeps.
#[test]
fn a_loop_that_reads_a_clock_ends_at_exactly_its_time() {
    let finished = run(python(
        "
import threading, time
for clock in (time.monotonic, time.time):
    start = clock()
    while clock() < start + 0.05: pass
    print(round(clock() - start, 4))
done = []
threading.Timer(0.03, lambda: done.append(1)).start()
start = time.monotonic()
while not done and time.monotonic() < start + 10: pass
# The interpreter hands over from thread to thread after five milliseconds.
print(0.03 <= time.monotonic() - start <= 0.04)
",
    ));
    assert_eq!(finished.lines(), ["0.05", "0.05", "True"]);
    assert!(finished.report().spins.is_empty(), "{finished:?}");
}

#[test]
fn a_loop_that_reads_a_clock_ends_at_the_limit() {
    let program = "import time\nwhile True: time.monotonic()";
    let finished = run(python(program).virtual_limit(Duration::from_millis(100)));
    assert_eq!((finished.outcome.end, finished.seconds()), (End::VirtualLimit, 0.1));
}

/// `KTIME_MAX` of `include/linux/ktime.h` is 292 years, after which the kernel's clocks end.
#[test]
fn a_sleep_beyond_the_end_of_clocks_does_not_end() {
    let sleep = "import ctypes; ctypes.CDLL(None).nanosleep((ctypes.c_long * 2)(17_000_000_000, 0), None)";
    let outcome = python(sleep).real_limit(Duration::from_millis(500)).run().expect("an outcome");
    assert_eq!((outcome.end, outcome.report.virtual_time), (End::RealLimit, Duration::ZERO));
}

/// `it_real_fn` of `kernel/time/itimer.c` sends the signal with `SEND_SIG_PRIV`.
#[test]
fn alarms_are_signals_of_the_kernel() {
    let finished = run(python(
        "
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
def show():
    information = signal.sigwaitinfo([signal.SIGALRM])
    print(information.si_code, information.si_pid == os.getpid())
signal.alarm(5); show()
os.kill(os.getpid(), signal.SIGALRM); show()
",
    ));
    assert_eq!(finished.lines(), ["128 False", "0 True"]);
}

/// A program that works for long at the moment of a deadline does not move time.
#[test]
fn work_at_a_deadline_does_not_move_time() {
    let finished = run(python(
        "
import os, select, time
start = time.monotonic()
select.select([], [], [], 5)
for _ in range(60_000):
    select.select([], [], [], 0)
    os.stat('/')
print(time.monotonic() - start)
",
    ));
    assert_eq!(finished.lines(), ["5.0"]);
}

/// A stop and its end do not end a call, also where sockets have timeouts.
#[test]
fn a_stopped_program_goes_on_with_its_call() {
    let finished = run(python(
        "
import os, signal, socket, struct, time
pair = socket.socketpair()
pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 2, 0))
try: pair[0].recv(1)
except BlockingIOError: print('timed out')
reader, writer = os.pipe()
child = os.fork()
if child == 0: os._exit(len(os.read(reader, 1)))
for order in [signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP, signal.SIGCONT]:
    time.sleep(10)
    os.kill(child, order)
time.sleep(10)
os.write(writer, b'x')
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
",
    ));
    assert_eq!(finished.lines(), ["timed out", "1"]);
}

/// Such a program has something to do once it gets a turn, for which its parent waits.
#[test]
fn a_stopped_program_that_is_killed_or_continued_does_not_rest() {
    let same = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])";
    let busy = format!("{same}\nwhile True: pass");
    let mut busy = std::process::Command::new(python_program()).args(["-c", &busy]).spawn().expect("a busy program");
    let finished = run(python(&format!(
        "{same}
import signal, time
sleeper = os.fork()
if sleeper == 0: time.sleep(1_000_000); os._exit(0)
for order in [signal.SIGKILL, signal.SIGCONT] * 10:
    child = os.fork()
    if child == 0:
        os.setpriority(os.PRIO_PROCESS, 0, 19)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    time.sleep(1)
    os.kill(child, order)
    os.waitpid(child, 0)
print(time.monotonic())
"
    )));
    busy.kill().and_then(|()| busy.wait()).expect("an end");
    assert_eq!(finished.lines(), ["86420.0"]);
}

/// The kernel does not wake a thread for a signal that its process ignores.
#[test]
fn an_ignored_signal_interrupts_nothing() {
    let finished = run(python(
        "
import ctypes, os, select, time
libc = ctypes.CDLL(None, use_errno=True)
start = time.monotonic()
child = os.fork()
if child == 0:
    time.sleep(2)
    os._exit(0)
epoll = select.epoll()
print(libc.epoll_wait(epoll.fileno(), ctypes.create_string_buffer(16), 1, 5000), time.monotonic() - start)
wait = (ctypes.c_long * 2)(5, 0)
print(libc.sigtimedwait(ctypes.create_string_buffer(128), None, wait), time.monotonic() - start)
",
    ));
    assert_eq!(finished.lines(), ["0 5.0", "-1 10.0"]);
}

/// The main thread of a process may end before the others.
#[test]
fn a_main_thread_that_has_ended_rests() {
    let finished = run(python(
        "
import ctypes, os, threading, time
def work():
    start = time.monotonic()
    for _ in range(3): time.sleep(10)
    print(time.monotonic() - start, flush=True)
    os._exit(0)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
",
    ));
    assert_eq!(finished.lines(), ["30.0"]);
}

/// A timer file whose first time has passed expires at once, as often as it has missed, and keeps its phase.
#[test]
fn a_timer_file_of_the_past_catches_up() {
    let finished = run(python(
        "
import ctypes, os, struct, time
libc = ctypes.CDLL(None)
time.sleep(20)
now = int(time.clock_gettime(time.CLOCK_REALTIME))
timer = libc.timerfd_create(0, os.O_NONBLOCK)
libc.timerfd_settime(timer, 1, (ctypes.c_long * 4)(0, 0, now - 5, 0), None)
print(struct.unpack('Q', os.read(timer, 8))[0])
libc.timerfd_settime(timer, 1, (ctypes.c_long * 4)(2, 0, now - 5, 0), None)
print(struct.unpack('Q', os.read(timer, 8))[0])
left = (ctypes.c_long * 4)()
libc.timerfd_gettime(timer, left)
print(list(left))
",
    ));
    assert_eq!(finished.lines(), ["1", "3", "[2, 0, 1, 0]"]);
}

/// `VMIN` and `VTIME`: a limit of the read, or one from each byte on.
#[test]
fn timeouts_of_terminals_are_virtual() {
    let finished = run(python(
        "
import os, pty, termios, threading, time, tty
start = time.monotonic()
def at(what, data): print(what, data, round((time.monotonic() - start) * 1000))
master, terminal = pty.openpty()
def settings(least, tenths):
    tty.setraw(terminal)
    values = termios.tcgetattr(terminal)
    values[6][termios.VMIN], values[6][termios.VTIME] = least, tenths
    termios.tcsetattr(terminal, termios.TCSANOW, values)
    assert termios.tcgetattr(terminal)[6][termios.VTIME] in (tenths, bytes([tenths]))
def later(seconds, data): threading.Timer(seconds, os.write, [master, data]).start()
settings(0, 205)
for _ in range(2): at('nothing', os.read(terminal, 9))
later(5, b'x'); at('in time', os.read(terminal, 9))
at('again', os.read(terminal, 9))
settings(3, 205)
later(100, b'a'); later(120, b'b'); at('two of three', os.read(terminal, 9))
later(5, b'abc'); at('three', os.read(terminal, 9))
settings(0, 0); at('no time', os.read(terminal, 9))
settings(1, 0); later(50, b'y'); at('one', os.read(terminal, 9))
",
    ));
    let expected = [
        "nothing b'' 20500",
        "nothing b'' 41000",
        "in time b'x' 46000",
        "again b'' 66500",
        "two of three b'ab' 207000",
        "three b'abc' 212000",
        "no time b'' 212000",
        "one b'y' 262000",
    ];
    assert_eq!(finished.lines(), expected);
    assert!(finished.report().unvirtual.is_empty(), "{finished:?}");
}
