//! Programs in C for calls that other languages do not show. What they print is what they print without a tracer.

use std::path::{Path, PathBuf};
use std::process::Command;

use plumbline_guest::{Guest, GuestError, Network};

use super::support::{Finished, epoch, python, run, shell, skip};

/// Compiles a program of the folder `c`.
fn compile(folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/c").join(name).with_extension("c");
    let output = Command::new("cc").args(["-Wall", "-pthread", "-o"]).arg(&program).arg(source).output();
    let output = output.expect("a C compiler");
    assert!(output.status.success(), "{output:?}");
    program
}

fn run_c(name: &str) -> Finished {
    let folder = tempfile::tempdir().expect("a folder");
    run(Guest::new(compile(folder.path(), name)).epoch(epoch()))
}

/// Waits of ten seconds each, and how they end.
const INTERRUPTED: &str = "\
epoll_wait 0|epoll_pwait 0|epoll_pwait2 0|poll 0|ppoll 0|select 0|pselect 0|nanosleep 0|clock_nanosleep 0|\
futex -1 ETIMEDOUT|bitset -1 ETIMEDOUT|futex_waitv -1 ETIMEDOUT|sigtimedwait -1 EAGAIN|mq_timedreceive -1 ETIMEDOUT|\
mq_timedsend -1 ETIMEDOUT|semtimedop -1 EAGAIN|io_getevents 0|io_pgetevents 0|read -1 EAGAIN|readv -1 EAGAIN|\
preadv2 -1 EAGAIN|recv -1 EAGAIN|recv all -1 EAGAIN|recvmsg -1 EAGAIN|recvmmsg -1 EAGAIN|recvmmsg, later -1 EAGAIN|\
accept -1 EAGAIN|terminal 0|connect -1 EINPROGRESS|write -1 EAGAIN|writev -1 EAGAIN|pwritev2 -1 EAGAIN|send -1 EAGAIN|\
sendmsg -1 EAGAIN|sendmmsg -1 EAGAIN|sendfile -1 EAGAIN|splice -1 EAGAIN|send, datagram -1 EAGAIN|\
connect, local -1 EAGAIN|endless epoll_wait 1|endless poll 1|endless select 1|pipe 1|eventfd 0|semop 0|msgrcv 8|\
sigwaitinfo 10|endless futex 0|endless io_getevents 1|inotify 1|fcntl 0|flock 0|wait 1|open 1";

/// The tracer's own orders to stop are no signals: no call fails with `EINTR`, and each ends at its time.
#[test]
fn orders_of_the_tracer_fail_no_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "interrupted");
    let guest = || Guest::new(&program).epoch(epoch());
    let [quiet, disturbed] = [guest(), guest().disturbed()].map(run);
    let expected = INTERRUPTED.split('|').zip(1..).map(|(line, number)| format!("{line} {number}0"));
    let expected: Vec<String> = expected.collect();
    assert_eq!(quiet.lines(), expected);
    assert_eq!(disturbed.lines(), expected);
    // Each of the three threads stops once more before each move of time.
    let least = quiet.report().stops + 3 * quiet.report().hops;
    assert!(disturbed.report().stops >= least, "{disturbed:?} {quiet:?}");
}

#[test]
fn timeouts_of_sockets_are_inherited_and_shared() {
    let expected = "accepted 0 0
35 0 16
inherited -1 EAGAIN 35
local ones are not 0 35
0 0 16
in pieces 6 70
the rest 2 75
each of several messages has a limit of its own 4 130
set by a copy -1 EAGAIN 150
set by a child -1 EAGAIN 155
of a passed copy -1 EAGAIN 160
a handler -1 EINTR 170
ignored -1 EAGAIN 215
a handler -1 EINTR 225
ignored -1 EAGAIN 270
stopped and continued -1 EINTR 290
connect -1 EINPROGRESS 310
none 0 310
0 0 16";
    assert_eq!(run_c("sockets").lines().join("\n"), expected);
}

#[test]
fn time_does_not_move_while_a_device_works() {
    // Not in a temporary folder, which may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let guest = Guest::new(compile(folder.path(), "device_io")).arg(folder.path().join("file")).epoch(epoch());
    let finished = run(guest);
    if finished.lines() == ["no direct file"] {
        skip("guest: aio", "the file system has no direct I/O");
        return;
    }
    assert_eq!(finished.lines(), ["done 80 0", "0.000"]);
}

const TIMERS: &str = "handler, overrun 4 55
counted 4 55
waited 0 85
counted 2 85
waited 0 90
counted 0 90
handler, overrun 0 125
handler, overrun 0 130
calls 5 190
open 1 200
closed 0 215
a copy is open 1 225
read 1 225
interval 10 225
left 10 225
long ago 1 225
interval 0 225
left 0 225
unknown flag -1 EINVAL 225
a nanosecond 1 225
each nanosecond 1 226";

#[test]
fn timers_count_expirations_that_were_missed() {
    let finished = run_c("timers");
    assert_eq!(finished.lines().join("\n"), TIMERS);
    assert!(finished.report().real_time.as_secs() < 120, "6,000 timers that are gone: {finished:?}");
}

/// The readings after a wait go on with the nanoseconds of those before, unless there were many.
#[test]
fn waits_for_a_time_of_day_end_when_it_is_there() {
    let expected = "semaphore once 5.000
condition once 10.000
sleep once 15.000
file once 20.000
timer once 25.000
rest once 30.000
semaphore again 35.000
condition again 40.000
sleep again 45.000
file again 50.000
timer again 55.000
rest again 60.000
over 60.000";
    assert_eq!(run_c("realtime").lines().join("\n"), expected);
}

/// The tracer's order finds such a loop at one of its calls most often.
#[test]
fn a_loop_of_sleeps_for_no_time_passes_time() {
    let finished = run_c("idle");
    assert_eq!(finished.lines(), ["over 1"]);
    assert!(finished.report().real_time.as_secs() < 120, "{finished:?}");
}

/// The threads of a process have other numbers in a PID namespace, and shared memory in an IPC namespace.
#[test]
fn timers_reach_threads_in_namespaces() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "timers");
    let finished = run(Guest::new("unshare").args(["--pid", "--ipc", "--fork"]).arg(program).epoch(epoch()));
    if finished.output.contains("unshare failed") {
        skip("guest: unshare", finished.output.trim());
        return;
    }
    assert_eq!(finished.lines().join("\n"), TIMERS);
    assert!(finished.report().warnings[0].contains("could not map the clocks"), "{finished:?}");
}

#[test]
fn a_readable_pidfd_has_a_child_to_wait_for() {
    let expected = ["missed 0 0", "poll 0 10", "epoll 0 20", "epoll 1 30", "waitid 0 30", "status 7 30"];
    assert_eq!(run_c("pidfds").lines(), expected);
}

/// A thread of the kernel carries data through a pseudo-terminal, while all others sleep.
#[test]
fn data_in_a_terminal_is_in_flight() {
    let finished = run(python(
        "
import os, pty, select, signal, time
sleeper = os.fork()
if sleeper == 0: time.sleep(7777777); os._exit(0)
child, terminal = pty.fork()
if child == 0:
    # A job in the background of a script ignores it, and a shell leaves it so for its commands.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp('sh', ['sh', '-i'])
start = time.monotonic()
def expect(text):
    seen = b''
    while text not in seen:
        assert select.select([terminal], [], [], 600)[0], seen
        seen += os.read(terminal, 1000)
for number in range(100):
    os.write(terminal, b'echo $((%d + 1))-\\n' % number)
    expect(b'%d-\\r' % (number + 1))
print('commands', time.monotonic() - start)
os.write(terminal, b'sleep 5; echo $((70 + 7))-\\n'); expect(b'77-'); print('slept', time.monotonic() - start)
os.write(terminal, b'sleep 100\\n'); time.sleep(3); os.write(terminal, b'\\x03')
time.sleep(1); os.write(terminal, b'echo $((80 + 8))-\\n'); expect(b'88-'); print('stopped', time.monotonic() - start)
os.write(terminal, b'exit\\n'); os.waitpid(child, 0)
os.kill(sleeper, 9); os.wait()
",
    ));
    assert_eq!(finished.lines(), ["commands 0.0", "slept 5.0", "stopped 9.0"]);
}

/// A program that may be executed but not read is closed to the tracer, unless that is privileged.
#[test]
fn programs_that_may_not_be_read_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("closed");
    // A file that this process writes may be open in a child that another test has just forked.
    let copy = |from: &str, to: &Path| Command::new("cp").arg(from).arg(to).status().expect("cp").success();
    assert!(copy("/bin/true", &program));
    let permit = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    permit(&program, 0o111).expect("permissions");
    permit(folder.path(), 0o755).expect("permissions");
    if std::fs::File::open(&program).is_ok() {
        let tracer = folder.path().join("plumbline-guest");
        assert!(copy(env!("CARGO_BIN_EXE_plumbline-guest"), &tracer));
        let rights = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let output = Command::new("setpriv").args(rights).arg(tracer).arg("--").arg(program).output();
        let Ok(output) = output.map_err(|error| skip("guest: setuid", &error.to_string())) else { return };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(126) && errors.contains("may be executed but not read"), "{errors}");
        return;
    }
    let error = Guest::new(program).run().expect_err("refused");
    assert!(matches!(error, GuestError::Refused { .. }) && error.to_string().contains("chmod +r"), "{error}");
}

#[test]
fn the_network_of_the_machine_is_a_warning() {
    let finished = run(shell("sleep 5").network(Network::Shared));
    assert!(finished.report().warnings[0].contains("peers outside live in real time"), "{finished:?}");
}
