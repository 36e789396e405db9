//! Commands that cannot run, do not end, or end badly: an error says what happened, and nothing is left behind.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use plumbline_guest::{End, Guest, GuestError};

use super::support::{python, python_program, run, shell, skip, start};

#[test]
fn programs_that_cannot_be_executed_are_errors() {
    let error = Guest::new("/nonexistent/program").run().expect_err("no such file");
    assert!(error.to_string().contains("/nonexistent/program: No such file"), "{error}");
    let error = Guest::new("no-such-program").run().expect_err("not in the path");
    assert!(matches!(&error, GuestError::Program { source, .. } if source.kind() == std::io::ErrorKind::NotFound));
    let error = Guest::new("/etc/passwd").run().expect_err("not executable");
    assert!(error.to_string().contains("Permission denied"), "{error}");
    let error = Guest::new("true").current_dir("/nonexistent").run().expect_err("no such folder");
    assert!(error.to_string().contains("No such file"), "{error}");
    let error = Guest::new("true").arg("a\0b").run().expect_err("a zero byte");
    assert!(error.to_string().contains("zero byte"), "{error}");
}

#[test]
fn programs_for_another_machine_are_errors() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("program");
    // The header of an ELF file for aarch64.
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0\x01\0\0\0".to_vec();
    header.resize(64, 0);
    std::fs::write(&file, header).expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("permissions");
    let error = Guest::new(&file).run().expect_err("another machine");
    assert!(error.to_string().contains("made for another machine"), "{error}");
}

#[test]
fn exit_codes_and_signals_are_those_of_the_command() {
    assert_eq!(run(shell("exit 7")).outcome.status.code(), Some(7));
    assert_eq!(run(shell("kill -9 $$")).outcome.status.signal(), Some(9));
    assert_eq!(run(shell("sleep 5; kill -TERM $$")).outcome.status.signal(), Some(15));
}

#[test]
fn what_ends_with_the_command_is_not_left_over() {
    let reader = "
import os
read, write = os.pipe()
if os.fork() == 0:
    os.close(write); os.read(read, 1); sum(range(10_000)); os._exit(0)
";
    let finished = run(python(reader));
    assert_eq!(finished.report().left_over, 0, "{finished:?}");
    assert_eq!(run(shell("sleep 1000 & sleep 1")).report().left_over, 1);
}

#[test]
fn limits_end_everything() {
    let finished = run(shell("while :; do sleep 60; done").virtual_limit(Duration::from_secs(3601)));
    assert_eq!(finished.outcome.end, End::VirtualLimit);
    assert_eq!(finished.outcome.report.virtual_time, Duration::from_secs(3601));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let outcome = Guest::new("cat").stdin(reader).real_limit(Duration::from_millis(300)).run().expect("an outcome");
    assert_eq!((outcome.end, outcome.status.signal()), (End::RealLimit, Some(15)));
    drop(writer);
    let bomb = "bomb() { sleep 1000 & bomb & wait; }; bomb";
    let finished = run(shell(bomb).process_limit(50));
    assert_eq!(finished.outcome.end, End::TooManyProcesses);
    // The sleeps, and the shells that start them.
    let warnings = finished.report().warnings.join("\n");
    assert!(warnings.contains(" of the 51 processes at the limit were of "), "{warnings}");
}

#[test]
fn clocks_cannot_show_every_time_of_day() {
    for (time, is_possible) in [
        ("1969-12-31T23:59:59Z", false),
        ("1970-01-01T00:00:00Z", true),
        ("2499-12-31T23:59:59Z", true),
        ("2500-01-01T00:00:00Z", false),
        ("9900-01-01T00:00:00Z", false),
    ] {
        let epoch = plumbline_guest::Epoch::Fixed(time.parse().expect("a time"));
        match Guest::new("date").args(["-u", "+%FT%TZ"]).epoch(epoch).stdout(plumbline_guest::Stdio::Null).start() {
            Ok(_) => assert!(is_possible, "{time}"),
            Err(error) => assert!(!is_possible && error.to_string().contains("from 1970 to 2499"), "{time}: {error}"),
        }
    }
    let finished =
        run(shell("date -u +%FT%TZ")
            .epoch(plumbline_guest::Epoch::Fixed("2499-12-31T23:59:59Z".parse().expect("a time"))));
    assert_eq!(finished.lines(), ["2499-12-31T23:59:59Z"]);
}

/// Time flows past somebody who is asked for something at a terminal.
#[test]
fn a_program_that_waits_for_a_person_is_named() {
    let spawn = "import pty, sys; pty.spawn(sys.argv[1:])";
    let output = |script: &str| {
        let guest = [env!("CARGO_BIN_EXE_plumbline-guest"), "--", "sh", "-c", script];
        let mut terminal = Command::new("python3");
        terminal.args(["-c", spawn]).args(guest).stdin(Stdio::null());
        String::from_utf8_lossy(&terminal.output().expect("python3").stdout).into_owned()
    };
    let text = output("(sleep 3600; kill $$) & read line");
    assert!(text.contains("waited for input from the terminal while virtual time passed"), "{text}");
    assert!(text.contains("virtual time: 3600."), "{text}");
    let text = output("sleep 3600");
    assert!(text.contains("virtual time: 3600.") && !text.contains("waited for input"), "{text}");
}

#[test]
fn the_folder_of_a_killed_tracer_is_removed_by_the_next_one() {
    let place = tempfile::tempdir().expect("a folder");
    let tracer = |script: &str| {
        let mut tracer = Command::new(env!("CARGO_BIN_EXE_plumbline-guest"));
        tracer.args(["--", "sh", "-c", script]).env("TMPDIR", place.path());
        tracer.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        tracer
    };
    let folders = || std::fs::read_dir(place.path()).expect("a folder").count();
    let mut killed = tracer("echo started; read line").spawn().expect("a tracer");
    let mut word = [0; 7];
    killed.stdout.as_mut().expect("a pipe").read_exact(&mut word).expect("a word");
    killed.kill().expect("SIGKILL");
    killed.wait().expect("an end");
    assert_eq!((&word, folders()), (b"started", 1));
    assert!(tracer("true").status().expect("a tracer").success());
    assert_eq!(folders(), 0);
}

#[test]
fn nothing_outlives_the_command() {
    let (_running, reader) = {
        let (running, reader) = start(shell("(trap '' TERM HUP INT; while :; do sleep 1; done) & sleep 10; echo end"));
        let outcome = running.wait().expect("an outcome");
        assert!(outcome.report.left_over >= 1, "{}", outcome.report);
        (outcome, reader)
    };
    // The pipe ends only when the last process that has it open has ended.
    let mut output = String::new();
    { reader }.read_to_string(&mut output).expect("an end");
    assert_eq!(output, "end\n");
}

#[test]
fn commands_are_terminated_and_then_killed() {
    let wait_for = |reader: &mut std::io::PipeReader| {
        let mut line = [0; 6];
        reader.read_exact(&mut line).expect("a line");
    };
    let (running, mut reader) = start(shell("trap 'echo over; exit 3' TERM; echo ready; cat /dev/zero").manual());
    wait_for(&mut reader);
    drop(running);
    // Nothing has the pipe open any more.
    reader.read_to_end(&mut Vec::new()).expect("an end");
    let script = "trap 'sleep 5; exit 3' TERM; echo ready; while :; do sleep 1; done";
    let (running, mut reader) = start(shell(script));
    wait_for(&mut reader);
    running.terminate();
    let outcome = running.wait().expect("an outcome");
    assert_eq!((outcome.status.code(), outcome.end), (Some(3), End::Terminated));
    let ignores = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)
while True: signal.pause()";
    let (running, mut reader) = start(python(ignores).grace(Duration::from_millis(100)));
    wait_for(&mut reader);
    running.terminate();
    let outcome = running.wait().expect("an outcome");
    assert_eq!((outcome.status.signal(), outcome.end), (Some(9), End::Terminated));
}

#[test]
fn a_killed_tracer_leaves_nothing() {
    let program = env!("CARGO_BIN_EXE_plumbline-guest");
    let script = "trap '' TERM; sleep 1000000 & (kill -STOP 0) & cat /dev/zero >/dev/null & wait; wait";
    // A killed tracer cannot remove its own folder.
    let folder = tempfile::tempdir().expect("a folder");
    // The first ones meet a child that the tracer does not trace yet.
    for milliseconds in (0..20).chain([200, 300]) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut tracer = Command::new(program)
            .args(["-q", "--manual", "--", "setsid", "-w", "sh", "-c", script])
            .env("TMPDIR", folder.path())
            .stdout(writer)
            .spawn()
            .expect("a tracer");
        std::thread::sleep(Duration::from_millis(milliseconds));
        tracer.kill().expect("killed");
        tracer.wait().expect("an end");
        let mut output = String::new();
        { reader }.read_to_string(&mut output).expect("the pipe ends with the last process");
    }
}

#[test]
fn programs_that_are_killed_while_they_are_stopped_end() {
    let stops = "for i in 1 2 3; do sleep 1000000 & done; echo $$; kill -STOP $$";
    let finished = run(shell(&format!("sh -c '{stops}' & sleep 1; kill -9 $!; wait $!; echo $?")));
    assert!(finished.output.ends_with("137\n") && finished.report().left_over == 3, "{finished:?}");
    let (running, mut reader) = start(shell(stops));
    let mut process = String::new();
    while !process.ends_with('\n') {
        let mut byte = [0];
        reader.read_exact(&mut byte).expect("a number");
        process.push(byte[0].into());
    }
    let process = process.trim();
    let is_stopped = || std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a state").contains(") t ");
    while !is_stopped() {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-9", process]).status().expect("kill").success());
    let outcome = running.wait().expect("an outcome");
    assert_eq!((outcome.status.signal(), outcome.end), (Some(9), End::Exited));
    // Nothing has the pipe open any more.
    reader.read_to_end(&mut Vec::new()).expect("an end");
}

#[test]
fn peers_outside_are_out_of_reach() {
    let connect = "
import socket
try: print(socket.create_connection(('192.0.2.1', 443), timeout=5))
except OSError as error: print(error.strerror)
";
    let finished = run(python(connect));
    let warnings = &finished.report().warnings;
    if warnings.len() == 1 && warnings[0].contains("connects to 192.0.2.1:443, outside") {
        assert_eq!(finished.lines(), ["Network is unreachable"]);
    } else {
        skip("guest: unshare", &warnings.join("; "));
    }
}

#[test]
fn calls_that_are_not_virtual_are_named() {
    let finished = run(python(
        "
import ctypes, fcntl, socket, struct, tempfile
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    result = libc.syscall(*arguments)
    print(result, ctypes.get_errno())
call(425, 8, (ctypes.c_char * 256)())
call(227, 0, (ctypes.c_long * 2)(1, 0))
call(56, 0x00800000 | 17, 0, 0, 0, 0)
call(101, 0, 0, 0, 0)
call(435, (ctypes.c_ulonglong * 11)(0x00800000, 0, 0, 0, 17), 88)
with tempfile.TemporaryFile() as file: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
libc.syscall(250, 15, -1, 60)
assert libc.prctl(4, 0, 0, 0, 0) == 0 and libc.prctl(3, 0, 0, 0, 0) == 1
for linger in (0, 5): socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, linger))
",
    ));
    assert_eq!(finished.lines(), ["-1 38", "-1 1", "-1 1", "-1 1", "-1 1"]);
    let names: Vec<&str> = finished.report().unvirtual.iter().map(|call| call.call.as_str()).collect();
    let expected = [
        "clock_settime",
        "clone(CLONE_UNTRACED)",
        "clone3(CLONE_UNTRACED)",
        "fcntl(F_SETLEASE)",
        "io_uring_setup",
        "keyctl(KEYCTL_SET_TIMEOUT)",
        "prctl(PR_SET_DUMPABLE) (without effect)",
        "ptrace (no debugger, strace or rr inside)",
        "setsockopt(SO_LINGER)",
    ];
    assert_eq!(names, expected);
    assert!(finished.report().unvirtual.iter().all(|call| call.count == 1 && call.program.starts_with("python")));
    let real: Vec<bool> = finished.report().unvirtual.iter().map(|call| call.is_refused).collect();
    assert_eq!(real, [true, true, true, false, true, false, true, true, false]);
}

#[test]
fn a_command_hears_of_a_limit_before_it_is_killed() {
    let script = "trap 'date +%H:%M; exit 3' TERM; sleep 1d & wait";
    for (script, farewells) in [(script, 1), ("trap '' TERM; while :; do sleep 1d; done", 0)] {
        let guest = shell(script).virtual_limit(Duration::from_hours(2)).grace(Duration::from_millis(300));
        let finished = run(guest);
        let report = finished.report();
        assert_eq!((finished.outcome.end, report.virtual_time), (End::VirtualLimit, Duration::from_hours(2)));
        assert_eq!((finished.outcome.exit_code(), finished.output.lines().count()), (124, farewells), "{finished:?}");
    }
}

#[test]
fn connections_to_other_machines_are_named() {
    let finished = run(python(
        "
import socket
for family, address in ((socket.AF_INET, '192.0.2.7'), (socket.AF_INET6, '2001:db8::7'), (socket.AF_INET, '127.0.0.1')):
    try: socket.socket(family, socket.SOCK_DGRAM).connect((address, 53))
    except OSError as error: pass
",
    ));
    let text = finished.outcome.to_string();
    if !text.contains("no network namespace of its own") {
        assert!(text.contains(" connects to 192.0.2.7:53, outside") && text.contains("[2001:db8::7]:53"), "{text}");
    }
    assert!(!text.contains("127.0.0.1"), "{text}");
}

#[test]
fn only_the_owner_moves_a_clock_of_its_own() {
    let script = "
import os, socket, subprocess, sys, time
if len(sys.argv) == 1: subprocess.run([sys.executable, __file__, 'child'])
clock = socket.socket(socket.AF_UNIX)
clock.connect(os.environ['PLUMBLINE_TIME_SOCKET'])
try: clock.sendall(b'advance 1h\\n'); print(len(clock.recv(200)) > 0)
except OSError: print(False)
";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("clock.py");
    std::fs::write(&file, script).expect("a file");
    let finished = run(Guest::new(python_program()).arg(&file).own_clock());
    assert_eq!(finished.lines(), ["False", "True"], "{finished:?}");
    assert_eq!(finished.report().virtual_time, Duration::from_hours(1));
    let text = finished.outcome.to_string();
    assert!(text.contains(" tried to move the time, which is not its own; its orders were refused"), "{text}");
}
