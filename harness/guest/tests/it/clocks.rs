//! Clocks: what programs read, and what clients order.

use std::io::Read as _;
use std::time::Duration;

use plumbline_guest::{Epoch, Guest};

use super::roles::role;
use super::support::{epoch, python, run, shell, skip, start};

#[test]
fn all_clocks_show_virtual_time() {
    let finished = run(python(
        "
import ctypes, time
libc = ctypes.CDLL(None)
def read(clock):
    pair = (ctypes.c_long * 2)()
    assert libc.syscall(228, clock, pair) == 0  # past the vDSO
    return pair[0] * 10**9 + pair[1]
real, monotonic = [0, 5, 8, 11], [1, 4, 6, 7, 9]
for _ in range(3):
    for clock in real: assert read(clock) // 1000 == time.clock_gettime_ns(clock) // 1000 == time.time_ns() // 1000
    for clock in real[1:]: assert read(clock) == time.clock_gettime_ns(clock) == time.time_ns() // 1000 * 1000, clock
    for clock in monotonic: assert read(clock) == time.clock_gettime_ns(clock) == time.monotonic_ns(), clock
    pair = (ctypes.c_long * 2)()
    for call in (lambda: libc.gettimeofday(pair, None), lambda: libc.syscall(96, pair, None)):
        assert call() == 0 and pair[0] * 10**9 + pair[1] * 1000 == time.time_ns() // 1000 * 1000
    assert libc.time(None) == libc.syscall(201, None) == int(time.time())
    assert libc.times((ctypes.c_long * 4)()) == time.monotonic_ns() // 10**7
    uptime = (ctypes.c_long * 16)()
    assert libc.sysinfo(uptime) == 0 and uptime[0] == int(time.monotonic())
    time.sleep(12.345)
assert time.process_time() < 10 and time.thread_time() < 10
print(time.time_ns() // 1000 * 1000, time.monotonic_ns())
",
    ));
    let elapsed: u64 = 3 * 12_345_000_000;
    let real = 1_893_456_000_000_000_000 + elapsed;
    let monotonic = 86_400_000_000_000 + elapsed;
    assert_eq!(finished.lines(), [format!("{real} {monotonic}")]);
    assert!(finished.report().warnings.is_empty(), "{finished:?}");
}

/// client-go names an Event after the nanosecond (`makeEvent` in tools/record/event.go): the second one of an instant
/// would be refused.
const READINGS: &str = "
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
start = 1893456000 * 10**9
def passed(): return time.time_ns() - start
def asked():
    pair = (ctypes.c_long * 2)()
    assert libc.syscall(228, 0, pair) == 0  # past the vDSO
    return pair[0] * 10**9 + pair[1] - start
print(passed(), passed(), asked(), passed())
time.sleep(1); print(passed(), asked(), time.clock_gettime_ns(5) - start, passed(), flush=True)
names = []
workers = [threading.Thread(target=lambda: names.extend(passed() for _ in range(50))) for _ in range(4)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(len(set(names)), max(names))
print(len({passed() for _ in range(1000)}), passed(), asked(), len({time.monotonic_ns() for _ in range(1000)}))
time.sleep(1); print(passed(), passed())
";

const COUNTED: [&str; 5] = [
    "0 1 2 3",
    "1000000003 1000000004 1000000000 1000000005",
    "200 1000000205",
    "294 1000000499 1000000499 1",
    "2000000000 2000000001",
];

#[test]
fn no_two_readings_of_the_time_of_day_are_equal() {
    assert_eq!(run(python(READINGS)).lines(), COUNTED);
}

/// In an IPC namespace of its own, a program asks the kernel.
#[test]
fn readings_of_a_program_that_asks_the_kernel_are_counted_too() {
    let command =
        ["--ipc", "--", super::support::python_program().to_str().expect("a path"), "-S", "-E", "-c", READINGS];
    let finished = run(Guest::new("unshare").args(command).epoch(epoch()));
    if finished.output.contains("unshare failed") {
        skip("guest: unshare", finished.output.trim());
        return;
    }
    assert_eq!(finished.lines(), COUNTED);
    assert!(finished.report().warnings[0].contains("could not map the clocks"), "{finished:?}");
}

/// `do_adjtimex` of `kernel/time/timekeeping.c` permits everybody to read.
#[test]
fn the_adjustment_of_the_time_of_day_is_read_with_it() {
    let finished = run(python(
        "
import ctypes, struct, time
libc = ctypes.CDLL(None, use_errno=True)
time.sleep(3600)
for call in ((159,), (305, 0)):
    for modes in (0, 0xa001, 0x4000):
        buffer = ctypes.create_string_buffer(struct.pack('I', modes), 208)
        is_read = libc.syscall(*call, buffer) >= 0
        print(is_read and struct.unpack_from('q', buffer, 72)[0] == int(time.time()), end=' ')
print(ctypes.get_errno())
",
    ));
    assert_eq!(finished.lines(), ["True True False True True False 1"]);
}

/// Programs that execute others count each from the beginning; forks go on.
#[test]
fn each_program_counts_its_own_readings() {
    let script = "date +%N; date +%N; sleep 0.5; date +%N";
    assert_eq!(run(shell(script)).lines(), ["000000000", "000000000", "500000000"]);
    let finished = run(python(
        "
import os, time
for _ in range(3):
    if os.fork() == 0: print(time.time_ns() % 1000, flush=True); os._exit(0)
    os.wait()
print(time.time_ns() % 1000)
",
    ));
    assert_eq!(finished.lines(), ["0", "1", "2", "3"]);
}

#[test]
fn an_hour_of_seconds_is_exact() {
    let finished = run(python(
        "
import time
start, day = time.monotonic_ns(), time.time_ns()
for second in range(1, 3601):
    deadline = time.time_ns() + 10**9
    while (left := deadline - time.time_ns()) > 0: time.sleep(left / 1e9)
    assert time.monotonic_ns() - start == second * 10**9, second
    assert (time.time_ns() - day) // 1000 == second * 10**6, second
print(time.strftime('%T', time.gmtime()))
",
    ));
    assert_eq!(finished.lines(), ["01:00:00"]);
    assert_eq!(finished.report().hops, 3600);
}

#[test]
fn the_time_of_day_begins_now_unless_it_is_fixed() {
    let guest = Guest::new("date").arg("+%s");
    let before: u64 = String::from_utf8(std::process::Command::new("date").arg("+%s").output().expect("date").stdout)
        .expect("a number")
        .trim()
        .parse()
        .expect("a number");
    let finished = run(guest.epoch(Epoch::Now));
    let seen: u64 = finished.lines()[0].parse().expect("a number");
    assert!((before..before + 60).contains(&seen), "{seen} after {before}");
}

#[test]
fn seeds_repeat_random_numbers() {
    let program = "
import os, subprocess, sys, threading
print(os.urandom(12).hex(), hash('a'))
worker = threading.Thread(target=lambda: print(os.urandom(3).hex()))
worker.start(); worker.join()
subprocess.run([sys.executable, '-S', '-c', 'import os; print(os.getrandom(5).hex())'])
";
    let draw = |seed: Option<u64>| {
        let guest = python(program);
        let guest = match seed {
            Some(seed) => guest.seed(seed),
            None => guest,
        };
        run(guest).lines().join(" ")
    };
    assert_eq!(draw(Some(7)), draw(Some(7)));
    assert_ne!(draw(Some(7)), draw(Some(8)));
    assert_ne!(draw(None), draw(None));
}

#[test]
fn a_client_outside_moves_time_by_orders() {
    let script = "for i in 1 2 3; do sleep 10; echo $i; done";
    let (running, mut reader) = start(shell(script).manual());
    let mut clock = running.clock().expect("a clock");
    let mut events = running.clock().expect("a clock").events().expect("events");
    assert_eq!(clock.now().expect("a reading").elapsed_ns, 0);
    let reading = clock.settle().expect("a reading");
    assert_eq!((reading.elapsed_ns, reading.next_ns), (0, Some(10_000_000_000)));
    assert_eq!(reading.now.to_string(), "2030-01-01T00:00:00Z");
    let reading = clock.advance(Duration::from_secs(10)).expect("a reading");
    assert_eq!((reading.elapsed_ns, reading.next_ns), (10_000_000_000, Some(20_000_000_000)));
    let mut line = [0; 2];
    reader.read_exact(&mut line).expect("the first line is there");
    assert_eq!(line, *b"1\n");
    let reading = clock.advance(Duration::from_nanos(9_999_999_999)).expect("a reading");
    assert_eq!((reading.elapsed_ns, reading.next_ns), (19_999_999_999, Some(20_000_000_000)));
    clock.auto().expect("a reading");
    let outcome = running.wait().expect("an outcome");
    assert_eq!(outcome.report.virtual_time, Duration::from_secs(30));
    let moments: Vec<u64> = events.by_ref().map_while(Result::ok).map(|reading| reading.elapsed_ns).collect();
    assert_eq!(moments, [10_000_000_000, 19_999_999_999, 20_000_000_000, 30_000_000_000]);
    assert!(clock.now().is_err(), "the guest has ended");
}

#[test]
fn a_program_inside_moves_its_own_time() {
    let finished = run(role("roles::orders", ""));
    let lines = finished.lines().join("\n");
    assert!(lines.contains("3600000 3600000\n0"), "{lines}");
}

#[test]
fn a_shell_can_order_time() {
    let program = "
import os, socket
client = socket.socket(socket.AF_UNIX)
client.connect(os.environ['PLUMBLINE_TIME_SOCKET'])
client.sendall(b'advance 90m\\nnonsense\\n')
print(client.makefile().readline().strip())
";
    let finished = run(python(program).epoch(epoch()));
    let expected = r#"{"now":"2030-01-01T01:30:00Z","elapsed_ns":5400000000000,"next_ns":null}"#;
    assert_eq!(finished.lines(), [expected]);
}
