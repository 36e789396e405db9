//! Whole programs of several kinds: their time passes, and it costs nothing.

use super::roles::role;
use super::support::{Finished, has_program, python, run, shell, skip};

/// Fails unless the guest took much less real time than virtual time.
fn is_fast(finished: &Finished, at_least: f64) {
    assert!(finished.seconds() >= at_least, "{finished:?}");
    assert!(finished.report().real_time.as_secs_f64() < at_least / 5.0, "{finished:?}");
    assert!(finished.report().unvirtual.is_empty() && finished.report().spins.is_empty(), "{finished:?}");
}

#[test]
fn a_shell_sleeps_an_hour() {
    let finished = run(shell("date -u +%T; sleep 3600; date -u +%T; sleep 0.25; date -u +%T.%N"));
    assert_eq!(finished.lines(), ["00:00:00", "01:00:00", "01:00:00.250000000"]);
    is_fast(&finished, 3600.25);
    assert!(finished.seconds() < 3600.26);
}

#[test]
fn python_waits_in_every_way() {
    let finished = run(python(
        "
import asyncio, queue, select, signal, subprocess, threading, time
start = time.monotonic()
def at(what): print(what, round((time.monotonic() - start) * 1000))
time.sleep(100); at('sleep')
event = threading.Event()
threading.Timer(50, event.set).start()
assert event.wait(60); at('timer')
try: queue.Queue().get(timeout=10)
except queue.Empty: at('queue')
async def gather(): await asyncio.gather(*[asyncio.sleep(second) for second in range(10)])
asyncio.run(gather()); at('asyncio')
select.select([], [], [], 7); at('select')
poll = select.poll(); poll.poll(3000); at('poll')
epoll = select.epoll(); epoll.poll(2); at('epoll')
try: subprocess.run(['sleep', '100'], timeout=3)
except subprocess.TimeoutExpired: at('expired')
subprocess.run(['sleep', '1000']); at('child')
signal.signal(signal.SIGALRM, lambda *_: at('alarm'))
signal.alarm(30); signal.pause()
signal.setitimer(signal.ITIMER_REAL, 5, 10)
for _ in range(3): signal.pause()
signal.setitimer(signal.ITIMER_REAL, 0)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
assert signal.sigtimedwait([signal.SIGUSR1], 11) is None; at('sigtimedwait')
",
    ));
    let expected = [
        "sleep 100000",
        "timer 150000",
        "queue 160000",
        "asyncio 169000",
        "select 176000",
        "poll 179000",
        "epoll 181000",
        "expired 184000",
        "child 1184000",
        "alarm 1214000",
        "alarm 1219000",
        "alarm 1229000",
        "alarm 1239000",
        "sigtimedwait 1250000",
    ];
    assert_eq!(finished.lines(), expected);
    is_fast(&finished, 1250.0);
}

#[test]
fn threads_of_rust_wait_in_order() {
    let finished = run(role("roles::threads", "8"));
    let times: Vec<&str> = finished.lines().into_iter().filter_map(|line| line.strip_prefix("at ")).collect();
    assert_eq!(times, ["1000", "2000", "3000", "4000", "5000", "6000", "7000", "8000"]);
    let finished = run(role("roles::conditions", ""));
    let lines = finished.lines();
    for expected in ["Err(Timeout) 5000", "Ok(()) 20000", "120000"] {
        assert!(lines.contains(&expected), "{lines:?}");
    }
    is_fast(&finished, 120.0);
}

#[test]
fn java_sleeps_and_schedules() {
    if !has_program("java") {
        skip("guest: java", "there is no java");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("Sleeper.java");
    let text = "
import java.util.concurrent.*;
class Sleeper {
    public static void main(String[] arguments) throws Exception {
        long start = System.nanoTime();
        Thread.sleep(60_000);
        var executor = Executors.newScheduledThreadPool(2);
        var latch = new CountDownLatch(5);
        executor.scheduleAtFixedRate(latch::countDown, 0, 10, TimeUnit.SECONDS);
        latch.await();
        executor.shutdownNow();
        System.out.println((System.nanoTime() - start) / 1_000_000_000);
    }
}";
    std::fs::write(&source, text).expect("a file");
    let flags = ["-XX:-UsePerfData", "-XX:+UseSerialGC", "-Xint", "-Xshare:auto"];
    let guest = plumbline_guest::Guest::new("java").args(flags).arg(&source).epoch(super::support::epoch());
    let finished = run(guest);
    assert_eq!(finished.lines(), ["100"]);
}

/// Monitors, queues, futures, timers, HTTP in both roles, children, and a collector with threads of its own.
#[test]
fn java_waits_in_every_way() {
    if !has_program("java") {
        skip("guest: java", "there is no java");
        return;
    }
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/java/Waits.java");
    for collector in ["-XX:+UseParallelGC", "-XX:+UseG1GC"] {
        let flags = ["-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", collector];
        let guest = plumbline_guest::Guest::new("java").args(flags).arg(&source).epoch(super::support::epoch());
        let expected = [
            "wait 5000",
            "park 8000",
            "queue 18000",
            "future 38000",
            "timer 158000",
            "http ok 248000",
            "http timeout 263000",
            "socket timeout 275000",
            "garbage 275000",
            "process timeout 305000",
            "process 355000",
        ];
        assert_eq!(run(guest).lines(), expected, "{collector}");
    }
}

/// Go: its own test runner, timers, contexts, HTTP, the garbage collector and its signals.
#[test]
fn go_waits_in_every_way() {
    if !has_program("go") {
        skip("guest: go", "there is no go");
        return;
    }
    let module = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/go");
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("waits.test");
    let output = std::process::Command::new("go")
        .args(["test", "-c", "-o"])
        .arg(&program)
        .arg(".")
        .env("GOFLAGS", "-mod=mod")
        .current_dir(module)
        .output()
        .expect("go");
    assert!(output.status.success(), "{output:?}");
    for processors in ["1", "2", "4"] {
        let guest = plumbline_guest::Guest::new(&program).arg("-test.v").env("GOMAXPROCS", processors);
        let finished = run(guest.epoch(super::support::epoch()));
        let lines = finished.lines();
        assert_eq!(lines.iter().filter(|line| line.starts_with("--- PASS")).count(), 7, "{lines:#?}");
        is_fast(&finished, 4490.0);
        assert!(finished.seconds() < 4491.0, "{finished:?}");
    }
}
