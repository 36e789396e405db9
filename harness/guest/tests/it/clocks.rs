//! Clocks: what programs read, and what clients order.

use std::io::Read as _;
use std::time::Duration;

use plumbline_guest::{Epoch, Guest};

use super::roles::role;
use super::support::{epoch, python, run, shell, start};

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
    for clock in real: assert read(clock) == time.clock_gettime_ns(clock) == time.time_ns(), clock
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
print(time.time_ns(), time.monotonic_ns())
",
    ));
    let elapsed: u64 = 3 * 12_345_000_000;
    let real = 1_893_456_000_000_000_000 + elapsed;
    let monotonic = 86_400_000_000_000 + elapsed;
    assert_eq!(finished.lines(), [format!("{real} {monotonic}")]);
    assert!(finished.report().warnings.is_empty(), "{finished:?}");
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
