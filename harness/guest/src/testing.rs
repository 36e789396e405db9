//! Tests of Rust's standard harness in virtual time.

use std::io::Read as _;
use std::time::Duration;

use crate::{Guest, Stdio, TIME_SOCKET};

/// The limit of real time of a test.
const LIMIT: Duration = Duration::from_mins(10);

/// Runs the body of the calling test in virtual time, with all programs that it starts: waiting costs nothing, and a
/// busy machine changes no time that the test sees.
///
/// ```no_run
/// #[test]
/// fn a_minute_passes() {
///     plumbline_guest::in_virtual_time(|| {
///         assert!(std::process::Command::new("sleep").arg("60").status().expect("sleep").success());
///     });
/// }
/// ```
///
/// The test program runs this one test again as a guest. The body runs on the wall clock where programs cannot be
/// traced, and in a test program with one thread, in which a test does not know its name.
///
/// # Panics
///
/// Panics if the test fails there, with its output, or takes more than ten minutes of real time.
#[track_caller]
pub fn in_virtual_time(body: impl FnOnce()) {
    if std::env::var_os(TIME_SOCKET).is_some() {
        return body();
    }
    // The name of a test's thread is that of the test.
    let Some(test) = std::thread::current().name().filter(|name| *name != "main").map(str::to_owned) else {
        return body();
    };
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let errors = writer.try_clone().expect("a copy of a pipe's end");
    let guest = Guest::new(std::env::current_exe().expect("the path of this program"))
        .args(["--exact", &test, "--nocapture"])
        .stdin(Stdio::Null)
        .stdout(writer)
        .stderr(errors)
        .real_limit(LIMIT);
    let Ok(running) = guest.start() else { return body() };
    let mut output = Vec::new();
    let read = reader.read_to_end(&mut output);
    let outcome = running.wait().expect("a tracer that ends");
    let output = String::from_utf8_lossy(&output);
    let has_passed = outcome.status.success() && output.contains("test result: ok. 1 passed");
    assert!(has_passed && read.is_ok(), "{test} in virtual time: {:?}\n{output}\n{}", outcome.end, outcome.report);
}
