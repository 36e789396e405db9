//! Runs a test again in virtual time, with all programs that it starts: waiting costs nothing, and a busy machine
//! changes no time that the test sees.

use std::io::Read as _;
use std::time::Duration;

use plumbline_guest::{Guest, Stdio, TIME_SOCKET};

/// The limit of real time of a test.
const LIMIT: Duration = Duration::from_mins(10);

/// Runs the body of the calling test in virtual time. It runs on the wall clock where programs cannot be traced, and in
/// a test program with one thread, in which a test does not know its name.
#[track_caller]
pub(crate) fn in_virtual_time(body: impl FnOnce()) {
    if std::env::var_os(TIME_SOCKET).is_some() {
        return body();
    }
    // The name of a test's thread is that of the test.
    let Some(test) = std::thread::current().name().filter(|name| *name != "main").map(str::to_owned) else {
        return body();
    };
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let errors = writer.try_clone().expect("a copy");
    let guest = Guest::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &test, "--nocapture"])
        .stdin(Stdio::Null)
        .stdout(writer)
        .stderr(errors)
        .real_limit(LIMIT);
    let Ok(running) = guest.start() else { return body() };
    let mut output = Vec::new();
    reader.read_to_end(&mut output).expect("output");
    let outcome = running.wait().expect("an outcome");
    let output = String::from_utf8_lossy(&output);
    let has_passed = outcome.status.success() && output.contains("test result: ok. 1 passed");
    assert!(has_passed, "{test} in virtual time: {:?}\n{output}\n{}", outcome.end, outcome.report);
}
