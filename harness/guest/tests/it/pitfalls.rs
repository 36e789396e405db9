//! A test for each way in which virtual time can go wrong.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::support::{python, run, shell, skip, start};

/// Threads that set the state of a sleeper before they check again, such as a parent that reaps a child.
#[test]
fn a_thread_that_is_about_to_sleep_is_busy() {
    let script = "i=0; while [ $i -lt 150 ]; do (exit 0); true | true; i=$((i+1)); done; sleep 1 & wait; date -u +%T";
    assert_eq!(run(shell(script)).lines(), ["00:00:01"]);
}

#[test]
fn naps_do_not_move_time_until_there_are_many() {
    let finished = run(python(
        "
import time
start = time.monotonic_ns()
for _ in range(20): time.sleep(0.0002)
print(time.monotonic_ns() - start)
deadline = start + 20_000_000
while time.monotonic_ns() < deadline: time.sleep(0.0002)
print(time.monotonic_ns() >= deadline)
",
    ));
    assert_eq!(finished.lines(), ["0", "True"]);
    assert!(finished.report().naps > 20, "{finished:?}");
}

/// A virtual machine for Java waits so for its threads before it collects garbage.
#[test]
fn naps_beside_a_busy_program_do_not_move_time() {
    let finished = run(python(
        "
import subprocess, sys, time
start = time.monotonic_ns()
busy = 'import select, sys\\nwhile not select.select([sys.stdin], [], [], 0)[0]: pass'
child = subprocess.Popen([sys.executable, '-S', '-E', '-c', busy], stdin=subprocess.PIPE)
for _ in range(100): time.sleep(0.00001)
child.stdin.close()
child.wait()
print(time.monotonic_ns() - start)
",
    ));
    assert_eq!(finished.lines(), ["0"]);
    assert!(finished.report().naps >= 100, "{finished:?}");
}

/// The end of a nap is due in real time also where the tracer's turns on a processor are rare, and events frequent.
#[test]
fn naps_end_on_a_crowded_machine() {
    let finished = run(python(
        "
import subprocess, sys, time
start = time.monotonic_ns()
def run(program): return subprocess.Popen([sys.executable, '-S', '-E', '-c', program], stdin=subprocess.PIPE)
crowd = [run('while True: pass') for _ in range(6)]
child = run('import select, sys\\nwhile not select.select([sys.stdin], [], [], 0)[0]: pass')
for _ in range(100): time.sleep(0.00001)
child.stdin.close()
child.wait()
for busy in crowd: busy.kill(); busy.wait()
print(time.monotonic_ns() - start)
",
    ));
    assert_eq!(finished.lines(), ["0"]);
}

/// The kernel starts the call of a sleep again after a signal that is ignored.
#[test]
fn an_interrupted_nap_ends() {
    let finished = run(python(
        "
import subprocess, sys, time
start = time.monotonic_ns()
busy = '''
import os, select, signal, sys
while not select.select([sys.stdin], [], [], 0)[0]: os.kill(os.getppid(), signal.SIGURG)
'''
child = subprocess.Popen([sys.executable, '-S', '-E', '-c', busy], stdin=subprocess.PIPE)
for _ in range(100): time.sleep(0.0009)
child.stdin.close()
child.wait()
print(time.monotonic_ns() - start)
",
    ));
    assert_eq!(finished.lines(), ["0"]);
}

/// The reader of the output lives in real time, and begins late. Each of its reads wakes the program from outside.
#[test]
fn full_output_does_not_move_time() {
    let program = "
import subprocess, sys, time
subprocess.Popen(['sleep', '7777777'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
start = time.monotonic()
print('x' * 6_000_000, flush=True)
print(time.monotonic() - start)
";
    let (running, mut reader) = start(python(program));
    std::thread::sleep(Duration::from_millis(300));
    let mut output = String::new();
    reader.read_to_string(&mut output).expect("output");
    assert!(output.ends_with("x\n0.0\n"), "{}", &output[output.len().saturating_sub(100)..]);
    assert!(running.wait().expect("an outcome").status.success());
}

/// A file system that a program outside serves, until it is dropped.
struct Served<'a>(&'a Path);

impl<'a> Served<'a> {
    /// Mounts a copy of a folder; `None` where that is not possible.
    fn mount(lower: &Path, place: &'a Path) -> Option<Self> {
        let option = format!("lowerdir={}", lower.display());
        let status = Command::new("fuse-overlayfs").args(["-o", &option]).arg(place).output().ok()?.status;
        status.success().then_some(Self(place))
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy"]).arg(self.0).status();
    }
}

/// The layers of a container without root, and folders that a virtual machine shares, are such file systems.
#[test]
fn a_file_system_outside_does_not_move_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let [lower, place] = ["lower", "mounted"].map(|name| folder.path().join(name));
    for path in [&lower, &place] {
        std::fs::create_dir(path).expect("a folder");
    }
    for index in 0..50 {
        std::fs::write(lower.join(index.to_string()), vec![0; 200_000]).expect("a file");
    }
    let Some(served) = Served::mount(&lower, &place) else {
        skip("guest: fuse", "fuse-overlayfs is not there, or may not mount");
        return;
    };
    let script = "sleep 7777777 & start=$(date +%s); cat mounted/* | wc -c; echo $(($(date +%s) - start))";
    let finished = run(shell(script).current_dir(folder.path()));
    drop(served);
    assert_eq!(finished.lines(), ["10000000", "0"]);
}

#[test]
fn unread_data_of_a_sleeper_does_not_stop_time() {
    let finished = run(python(
        "
import socket, time
one, other = socket.socketpair()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
one.sendall(b'unread'); client.sendall(b'unread')
start = time.monotonic()
time.sleep(3600)
print(time.monotonic() - start, other.recv(9), accepted.recv(9))
",
    ));
    assert_eq!(finished.lines(), ["3600.0 b'unread' b'unread'"]);
}

#[test]
fn timeouts_of_sockets_are_virtual() {
    let finished = run(python(
        "
import socket, struct, threading, time
start = time.monotonic()
def at(what): print(what, round((time.monotonic() - start) * 1000))
one, other = socket.socketpair()
one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 2, 500000))
print(struct.unpack('ll', one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)))
try: one.recv(1)
except BlockingIOError: at('receive')
threading.Timer(1, lambda: other.sendall(b'x')).start()
print(one.recv(1)); at('received')
# The deadline of the wait that data has ended passes in a sleep, and does not end the next wait.
time.sleep(10)
try: one.recv(1)
except BlockingIOError: at('receive again')
other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('ll', 7, 0))
# The last part that fits is sent at the first timeout, and nothing at the second one.
try:
    while True: other.sendall(b'x' * 65536)
except BlockingIOError: at('send')
server = socket.create_server(('127.0.0.1', 0))
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 100, 0))
try: server.accept()
except BlockingIOError: at('accept')
",
    ));
    let expected =
        ["(2, 500000)", "receive 2500", "b'x'", "received 3500", "receive again 16000", "send 30000", "accept 130000"];
    assert_eq!(finished.lines(), expected);
}

/// `sk_stream_wait_memory` of `net/core/stream.c` takes what a wait has used from the time of the whole call.
///
/// TCP's own timers are real, and a receiver whose buffer is full may drop a packet: virtual time passes before it is
/// sent again. Such a run shows nothing and is repeated.
#[test]
fn a_send_in_pieces_has_one_timeout() {
    const TRIES: usize = 5;
    let expected = "(5, 0)\nTrue 5.0\nTrue 5.0\nTrue 5.0\nTrue 17.0\ntimers ";
    for attempt in 1..=TRIES {
        let finished = run(python(SENDS));
        if finished.output.starts_with(expected) {
            return;
        }
        let has_waited = finished.output.lines().any(|line| line.starts_with("timers ") && line != "timers 0");
        assert!(has_waited && attempt < TRIES, "{finished:?}");
    }
}

/// Sends more than fits, and prints at the end how often TCP's own timers or full buffers played a part.
const SENDS: &str = "
import atexit, os, socket, struct, threading, time
def timers():
    lines = [line.split() for line in open('/proc/net/netstat') if line.startswith('TcpExt:')]
    counts = dict(zip(*lines))
    print('timers', sum(int(counts.get(name, 0)) for name in ('TCPTimeouts', 'TCPWinProbe', 'RcvPruned', 'TCPRcvQDrop')))
atexit.register(timers)
TIMEOUT = socket.SOL_SOCKET, socket.SO_SNDTIMEO
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
client.setsockopt(*TIMEOUT, struct.pack('ll', 5, 0))
print(struct.unpack('ll', client.getsockopt(*TIMEOUT, 16)))
peer = server.accept()[0]
peer.setblocking(False)
def read():
    while True:
        time.sleep(2)
        try:
            while peer.recv(1 << 20): pass
        except BlockingIOError: pass
threading.Thread(target=read, daemon=True).start()
size = 1 << 28
for send in (client.send, lambda data: os.write(client.fileno(), data), lambda data: client.sendmsg([data])):
    begin = time.monotonic()
    print(0 < send(bytes(size)) < size, round(time.monotonic() - begin, 3))
    time.sleep(10 - (time.monotonic() - begin))
# A socket of another family begins another wait with each piece: `sock_alloc_send_pskb` of `net/core/sock.c`.
one, other = socket.socketpair()
one.setsockopt(*TIMEOUT, struct.pack('ll', 5, 0))
def read():
    for _ in range(4):
        time.sleep(3)
        other.recv(1 << 20)
threading.Thread(target=read, daemon=True).start()
begin = time.monotonic()
print(0 < one.send(bytes(size)) < size, round(time.monotonic() - begin, 3))
";

#[test]
fn a_spin_ends_and_is_reported() {
    let program = "
import threading
done = []
threading.Timer(0.02, lambda: done.append(1)).start()
while not done: pass
print('over')
";
    let finished = run(python(program).spin_guard(Duration::from_millis(150)));
    assert_eq!(finished.lines(), ["over"]);
    let spin = &finished.report().spins[0];
    assert!(spin.program.starts_with("python") && spin.processor_time >= Duration::from_millis(150), "{spin:?}");
    assert!(spin.stack.iter().any(|place| place.contains("python")), "{spin:?}");
    // Each process of this one is short.
    let script = "until [ $(date +%s) -ge 1893456001 ]; do :; done; echo over";
    let finished = run(shell(script).spin_guard(Duration::from_millis(150)));
    assert_eq!(finished.lines(), ["over"]);
    assert_eq!(finished.report().spins.len(), 1, "{finished:?}");
    let calm = run(python("for _ in range(3_000_000): pass"));
    assert!(calm.report().spins.is_empty() && calm.seconds() == 0.0, "{calm:?}");
}

#[test]
fn forks_and_execs_of_all_kinds_keep_the_time() {
    let finished = run(python(
        "
import os, subprocess, sys, time
def at(what): print(what, round(time.time()) - 1893456000, flush=True)
if os.fork() == 0: time.sleep(5); at('forked'); os._exit(0)
os.wait()
subprocess.run(['sleep', '5']); at('vforked')
pid = os.posix_spawn('/bin/sleep', ['sleep', '5'], {}); os.waitpid(pid, 0); at('spawned')
if os.fork() == 0: os.execv('/bin/sh', ['sh', '-c', 'sleep 5; exec sleep 5'])
os.wait(); at('executed')
import threading
def replace(): time.sleep(5); os.execv('/bin/sh', ['sh', '-c', 'sleep 5; date -u +%T'])
threading.Thread(target=lambda: time.sleep(1000)).start()
threading.Thread(target=replace).start()
time.sleep(1000)
",
    ));
    let expected = ["forked 5", "vforked 10", "spawned 15", "executed 25", "00:00:35"];
    assert_eq!(finished.lines(), expected);
    assert!(finished.report().warnings.is_empty(), "{finished:?}");
}

#[test]
fn signals_interrupt_and_restart_waits() {
    let finished = run(python(
        "
import os, signal, subprocess, sys, threading, time
start = time.monotonic()
def at(what): print(what, round((time.monotonic() - start) * 1000))
signal.signal(signal.SIGUSR1, lambda *_: at('signal'))
def later(seconds, number): threading.Timer(seconds, lambda: os.kill(os.getpid(), number)).start()
later(3, signal.SIGUSR1); time.sleep(10); at('slept')
later(3, signal.SIGURG); time.sleep(10); at('ignored')
child = subprocess.Popen(['sleep', '20'])
later(5, signal.SIGCHLD)
time.sleep(1); child.send_signal(signal.SIGSTOP); time.sleep(6); child.send_signal(signal.SIGCONT)
child.wait(); at('stopped and continued')
child = subprocess.Popen(['sleep', '20'])
time.sleep(1); child.send_signal(signal.SIGSTOP); time.sleep(60); child.send_signal(signal.SIGCONT)
child.wait(); at('late')
child = subprocess.Popen(['sleep', '1000'])
time.sleep(2); child.kill(); print(child.wait()); at('killed')
",
    ));
    let expected = [
        "signal 3000",
        "slept 10000",
        "ignored 20000",
        "stopped and continued 40000",
        "late 101000",
        "-9",
        "killed 103000",
    ];
    assert_eq!(finished.lines(), expected);
}

#[test]
fn timer_files_are_virtual_and_their_copies_too() {
    let finished = run(python(
        "
import ctypes, os, select, struct, time
libc = ctypes.CDLL(None)
start = time.monotonic()
def at(what): print(what, round((time.monotonic() - start) * 1000))
def setting(interval, first):
    split = lambda seconds: (int(seconds), int(seconds % 1 * 1e9))
    return (ctypes.c_long * 4)(*split(interval), *split(first))
def ticks(file): return struct.unpack('Q', os.read(file, 8))[0]
timer = libc.timerfd_create(1, 0)
assert libc.timerfd_settime(timer, 0, setting(10, 5), None) == 0
print(ticks(timer)); at('first')
print(ticks(timer)); at('second')
time.sleep(35); print(ticks(timer)); at('late')
copy = os.dup(timer); os.close(timer)
print(ticks(copy)); at('copy')
left = (ctypes.c_long * 4)(); libc.timerfd_gettime(copy, left); print(list(left))
libc.timerfd_settime(copy, 1, setting(0, time.monotonic() + 3), left); print(list(left))
epoll = select.epoll(); epoll.register(copy, select.EPOLLIN)
print(len(epoll.poll(100))); at('absolute')
if os.fork() == 0:
    libc.timerfd_settime(copy, 0, setting(0, 4), None); os._exit(0)
os.wait(); ticks(copy); at('set by a child')
libc.timerfd_settime(copy, 0, setting(1, 1), None); os.close(copy); epoll.close()
time.sleep(1000); at('closed')
",
    ));
    let expected = [
        "1",
        "first 5000",
        "1",
        "second 15000",
        "3",
        "late 50000",
        "1",
        "copy 55000",
        "[10, 0, 10, 0]",
        "[10, 0, 10, 0]",
        "1",
        "absolute 58000",
        "set by a child 62000",
        "closed 1062000",
    ];
    assert_eq!(finished.lines(), expected);
    assert!(finished.report().hops < 60, "the closed timer ticks on: {finished:?}");
}

#[test]
fn posix_timers_send_their_signals() {
    let finished = run(python(
        "
import ctypes, signal, time
libc = ctypes.CDLL(None)
start = time.monotonic()
def at(what): print(what, round((time.monotonic() - start) * 1000))
signal.signal(signal.SIGUSR1, lambda *_: at('signal'))
event = (ctypes.c_int * 16)(42, 0, int(signal.SIGUSR1), 0)
timer = ctypes.c_int()
assert libc.syscall(222, 1, event, ctypes.byref(timer)) == 0
assert libc.syscall(223, timer, 0, (ctypes.c_long * 4)(10, 0, 5, 0), None) == 0
time.sleep(1)
left = (ctypes.c_long * 4)(); libc.syscall(224, timer, left); print(list(left))
time.sleep(30); at('slept')
assert libc.syscall(226, timer) == 0
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
event[2] = int(signal.SIGUSR2)
assert libc.syscall(222, 0, event, ctypes.byref(timer)) == 0
assert libc.syscall(223, timer, 0, (ctypes.c_long * 4)(0, 0, 7, 0), None) == 0
information = signal.sigwaitinfo([signal.SIGUSR2]); at(f'waited {information.si_code}')
",
    ));
    let expected = ["[10, 0, 4, 0]", "signal 5000", "signal 15000", "signal 25000", "slept 31000", "waited -2 38000"];
    assert_eq!(finished.lines(), expected);
}

#[test]
fn other_timed_calls_are_virtual() {
    let finished = run(python(
        "
import ctypes, errno, mmap, os, struct, time
libc = ctypes.CDLL(None, use_errno=True)
start = time.monotonic()
def now(): return round((time.monotonic() - start) * 1000)
def at(what, result): print(what, result, errno.errorcode.get(ctypes.get_errno()), now())
def spec(seconds): return (ctypes.c_long * 2)(int(seconds), int(seconds % 1 * 1e9))
def call(what, *arguments): ctypes.set_errno(0); at(what, libc.syscall(*arguments))
word = ctypes.c_uint(1)
place = ctypes.byref(word)
call('wait', 202, place, 0, 1, spec(1), None, 0)
call('changed', 202, place, 0, 2, spec(1), None, 0)
call('bitset', 202, place, 9, 1, spec(time.monotonic() + 2), None, 0xffffffff)
call('realtime', 202, place, 9 | 256, 1, spec(time.time() + 2), None, 0xffffffff)
call('past', 202, place, 9, 1, spec(1), None, 0xffffffff)
call('past, changed', 202, place, 9, 2, spec(1), None, 0xffffffff)
call('zero', 202, place, 0, 1, spec(0), None, 0)
call('broken', 202, place, 0, 1, (ctypes.c_long * 2)(0, 10**9), None, 0)
vector = (ctypes.c_ulong * 3)(1, ctypes.addressof(word), 2)
call('waitv', 449, vector, 1, 0, spec(time.monotonic() + 3), 1)
semaphores = libc.semget(0, 1, 0o600)
call('semaphore', 220, semaphores, (ctypes.c_short * 3)(0, -1, 0), 1, spec(4))
libc.semctl(semaphores, 0, 0)
queue = libc.syscall(240, b'plumbline-%d' % os.getpid(), os.O_CREAT | os.O_RDWR, 0o600, None)
call('queue', 243, queue, ctypes.create_string_buffer(8192), 8192, None, spec(time.time() + 5))
shape = (ctypes.c_long * 8)(0, 1, 8)
full = libc.syscall(240, b'plumbline-full-%d' % os.getpid(), os.O_CREAT | os.O_RDWR, 0o600, shape)
call('first', 242, full, b'1', 1, 0, spec(time.time() + 5))
call('full', 242, full, b'2', 1, 0, spec(time.time() + 5))
for name in (b'plumbline-%d', b'plumbline-full-%d'): libc.syscall(241, name % os.getpid())
call('sleep', 230, 1, 1, spec(time.monotonic() + 6), None)
call('sleep, over', 230, 0, 1, spec(5), None)
context = ctypes.c_ulong()
assert libc.syscall(206, 1, ctypes.byref(context)) == 0
call('events', 208, context, 1, 1, ctypes.create_string_buffer(64), (ctypes.c_long * 2)(5, 2 * 10**9))
call('signals', 333, context, 1, 1, ctypes.create_string_buffer(64), spec(0.5), None)
timeout = spec(8); call('ppoll', 271, None, 0, timeout, None, 8); print(list(timeout))
timeout = (ctypes.c_long * 2)(9, 0); call('select', 23, 0, None, None, None, timeout); print(list(timeout))
timeout = (ctypes.c_long * 2)(1, 1_500_000)
call('select, more than a second', 23, 0, None, None, None, timeout); print(list(timeout))
print('read only', libc.syscall(230, 4, 0, spec(1), None), ctypes.get_errno() == errno.EOPNOTSUPP)
call('waitv, read only', 449, vector, 1, 0, spec(time.monotonic() + 3), 4)
epoll = libc.epoll_create(1)
call('epoll_pwait2', 441, epoll, ctypes.create_string_buffer(12), 1, spec(10.5), None, 8)
call('bad address', 228, 0, 8)
",
    ));
    let expected = [
        "wait -1 ETIMEDOUT 1000",
        "changed -1 EAGAIN 1000",
        "bitset -1 ETIMEDOUT 3000",
        "realtime -1 ETIMEDOUT 5000",
        "past -1 ETIMEDOUT 5000",
        "past, changed -1 EAGAIN 5000",
        "zero -1 ETIMEDOUT 5000",
        "broken -1 EINVAL 5000",
        "waitv -1 ETIMEDOUT 8000",
        "semaphore -1 EAGAIN 12000",
        "queue -1 ETIMEDOUT 17000",
        "first 0 None 17000",
        "full -1 ETIMEDOUT 22000",
        "sleep 0 None 28000",
        "sleep, over 0 None 28000",
        "events 0 None 35000",
        "signals 0 None 35500",
        "ppoll 0 None 43500",
        "[0, 0]",
        "select 0 None 52500",
        "[0, 0]",
        "select, more than a second 0 None 55000",
        "[0, 0]",
        "read only -1 True",
        "waitv, read only -1 EINVAL 55000",
        "epoll_pwait2 0 None 65500",
        "bad address -1 EFAULT 65500",
    ];
    assert_eq!(finished.lines(), expected);
}

/// `futex_wait` of Linux 6.7. An older kernel has none, and says so.
#[test]
fn futexes_of_the_new_kind_time_out() {
    let finished = run(python(
        "
import ctypes, errno, time
libc = ctypes.CDLL(None, use_errno=True)
start = time.monotonic()
word = ctypes.c_uint(1)
def wait(expected, clock, until):
    ctypes.set_errno(0)
    limit = (ctypes.c_long * 2)(until, 0)
    result = libc.syscall(455, ctypes.byref(word), expected, ctypes.c_ulong(0xffffffff), 2, limit, clock)
    print(result, errno.errorcode.get(ctypes.get_errno()), round((time.monotonic() - start) * 1000))
wait(2, 1, int(time.monotonic()) + 3)
wait(1, 1, int(time.monotonic()) + 3)
wait(1, 0, int(time.time()) + 4)
wait(1, 1, 1)
",
    ));
    let missing = ["-1 ENOSYS 0"; 4];
    let expected = ["-1 EAGAIN 0", "-1 ETIMEDOUT 3000", "-1 ETIMEDOUT 7000", "-1 ETIMEDOUT 7000"];
    assert!(finished.lines() == expected || finished.lines() == missing, "{finished:?}");
}

/// The kernel looks at the timeout of `recvmmsg` after each message only.
#[test]
fn several_messages_are_received_within_a_time() {
    let finished = run(python(
        "
import ctypes, os, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
class Message(ctypes.Structure):
    _fields_ = [('name', ctypes.c_void_p), ('namelen', ctypes.c_uint), ('iov', ctypes.c_void_p),
                ('iovlen', ctypes.c_size_t), ('control', ctypes.c_void_p), ('controllen', ctypes.c_size_t),
                ('flags', ctypes.c_int), ('padding', ctypes.c_int), ('length', ctypes.c_uint)]
assert ctypes.sizeof(Message) == 64
start = time.monotonic()
one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
buffer = ctypes.create_string_buffer(16)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 16)
def receive(seconds):
    messages = (Message * 2)()
    for message in messages: message.iov, message.iovlen = ctypes.addressof(vector), 1
    limit = (ctypes.c_long * 2)(seconds, 0)
    result = libc.syscall(299, one.fileno(), messages, 2, 0, limit)
    print(result, round((time.monotonic() - start) * 1000), list(limit))
def later(seconds, count): threading.Timer(seconds, lambda: [other.send(b'x') for _ in range(count)]).start()
later(1, 2); receive(5)
later(7, 1); receive(5)
later(2, 2); receive(5)
",
    ));
    assert_eq!(finished.lines(), ["2 1000 [4, 0]", "1 8000 [0, 0]", "2 10000 [3, 0]"]);
}

/// Go's runtime sends itself `SIGURG` to preempt its threads, and its handler restarts calls.
#[test]
fn a_signal_with_a_handler_does_not_change_the_deadline() {
    let finished = run(python(
        "
import os, select, signal, threading, time
start = time.monotonic()
def at(what): print(what, round((time.monotonic() - start) * 1000))
count = 0
def handle(*_):
    global count
    count += 1
signal.signal(signal.SIGURG, handle)
signal.siginterrupt(signal.SIGURG, False)
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    for _ in range(300): time.sleep(0.02); os.kill(os.getppid(), signal.SIGURG)
    os.write(writer, b'x'); os._exit(0)
time.sleep(1); at('sleep')
lock = threading.Lock(); lock.acquire()
lock.acquire(timeout=1); at('lock')
select.select([reader], [], [], 1); at('select')
poll = select.epoll(); poll.register(reader, select.EPOLLIN); poll.poll(1); at('epoll')
os.read(reader, 1); at('read')
os.waitpid(child, 0); print(count > 100)
",
    ));
    assert_eq!(finished.lines(), ["sleep 1000", "lock 2000", "select 3000", "epoll 4000", "read 6000", "True"]);
}

/// A kernel or a container without shared memory of System V: the programs ask the kernel for the time, and stop.
#[test]
fn clocks_are_virtual_without_the_shared_page_too() {
    let script = "echo 0 > /proc/sys/kernel/shmmax && exec \"$0\" --epoch 2030-01-01T00:00:00Z --network shared \
                  -- sh -c 'date -u +%T; sleep 3600; date -u +%T.%N'";
    let output = Command::new("unshare")
        .args(["--ipc", "--mount-proc", "--fork", "--pid", "sh", "-c", script, env!("CARGO_BIN_EXE_plumbline-guest")])
        .output();
    let Ok(output) = output.map_err(|error| skip("guest: unshare", &error.to_string())) else { return };
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !errors.contains("plumbline-guest:") {
        skip("guest: unshare", errors.trim());
        return;
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "00:00:00\n01:00:00.000000000\n", "{errors}");
    assert!(errors.contains("programs cannot share a page of clocks"), "{errors}");
}

#[test]
fn two_programs_over_a_pipe_and_over_tcp() {
    let finished = run(python(
        "
import os, socket, sys, time
start = time.monotonic()
server = socket.create_server(('127.0.0.1', 0))
if os.fork() == 0:
    client = socket.create_connection(server.getsockname())
    stream = client.makefile('rw')
    for number in range(50):
        time.sleep(1.5); stream.write(f'{number}\\n'); stream.flush()
        stream.readline()
    os._exit(0)
connection, _ = server.accept()
stream = connection.makefile('rw')
for number in range(50):
    assert stream.readline() == f'{number}\\n'
    time.sleep(0.5); stream.write('ok\\n'); stream.flush()
os.wait()
print(time.monotonic() - start)
",
    ));
    assert_eq!(finished.lines(), ["100.0"]);
    let script =
        "(for i in 1 2 3; do sleep 2; echo $i; done) | while read line; do sleep 1; date -u +\"$line %T\"; done";
    assert_eq!(run(shell(script)).lines(), ["1 00:00:03", "2 00:00:05", "3 00:00:07"]);
}

/// The kernel delays the acknowledgement of a small segment by 40 ms of real time, for which the sender of the next one
/// waits. Time must not move on then.
#[test]
fn data_that_waits_for_an_acknowledgement_is_in_flight() {
    let finished = run(python(
        "
import os, socket, time
server = socket.create_server(('127.0.0.1', 0))
if os.fork() == 0:
    connection, _ = server.accept()
    while data := connection.recv(1):
        if data == b'2': connection.sendall(b'ok')
    os._exit(0)
client = socket.create_connection(server.getsockname())
client.settimeout(5)
start = time.monotonic()
for _ in range(20):
    client.sendall(b'1'); client.sendall(b'2')
    assert client.recv(2) == b'ok'
print(time.monotonic() - start)
",
    ));
    assert_eq!(finished.lines(), ["0.0"]);
}

#[test]
fn a_day_of_ticks_drifts_by_nothing() {
    let finished = run(python(
        "
import time
start = time.monotonic_ns()
for tick in range(1, 24 * 60 + 1):
    time.sleep(60)
    assert time.monotonic_ns() - start == tick * 60 * 10**9, tick
print(time.strftime('%F %T', time.gmtime()))
",
    ));
    assert_eq!(finished.lines(), ["2030-01-02 00:00:00"]);
    assert_eq!(finished.report().hops, 1440);
}
