//! Sandboxes around the tracer, such as that of a container.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

use super::roles::{has_role, untraced_role};
use super::support::{python, run, shell};

/// The calls that the default profile of Docker 20.10 forbids without the capability `SYS_PTRACE`. Later ones forbid
/// the last two.
const FORBIDDEN: [i64; 4] =
    [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_pidfd_getfd, libc::SYS_kcmp];

/// A guest whose tracer must not use these calls.
#[test]
fn guest_in_a_sandbox() {
    if !has_role("guest_in_a_sandbox") {
        return;
    }
    let rules: BTreeMap<_, _> = FORBIDDEN.map(|number| (number, Vec::new())).into_iter().collect();
    let forbid = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, forbid, TargetArch::x86_64).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a program");
    apply_filter(&program).expect("a sandbox");
    let finished = run(shell("date -u +%T; sleep 3600; date -u +%T"));
    println!("shell: {}", finished.lines().join(" "));
    let timer = "
import ctypes, time
libc = ctypes.CDLL(None)
file = libc.timerfd_create(1, 0)
assert libc.timerfd_settime(file, 0, (ctypes.c_long * 4)(0, 0, 0, 1000), None) == 0
time.sleep(100)
";
    let finished = run(python(timer));
    let calls: Vec<&str> = finished.report().unvirtual.iter().map(|call| call.call.as_str()).collect();
    println!("timer: {} {}", finished.outcome.status, calls.join(", "));
    let socket = "
import socket, struct, time
start = time.monotonic()
one, other = socket.socketpair()
one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 7, 500000))
print(struct.unpack('ll', one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)))
try: one.recv(1)
except BlockingIOError: print(time.monotonic() - start)
";
    println!("socket: {}", run(python(socket)).lines().join(" "));
}

#[test]
fn the_tracer_needs_no_capability() {
    let output = untraced_role("containers::guest_in_a_sandbox").output().expect("this program");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("shell: 00:00:00 01:00:00\n"), "{output:?}");
    let named = "timer: exit status: 0 timerfd_settime (a sandbox forbids pidfd_getfd)\n";
    assert!(text.contains(named), "{output:?}");
    assert!(text.contains("socket: (7, 500000) 7.5\n"), "{output:?}");
}
