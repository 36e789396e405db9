//! Helpers of these tests: skipping with a reason, a harness to kill, and a check for leftover processes.

use std::future::Future;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};

/// First argument of a harness to kill.
pub(crate) const HOLD: &str = "hold";
/// Environment variable that marks all processes of a harness to kill.
const MARK: &str = "PLUMBLINE_TEST_MARK";

/// Creates a test with its own runtime; `skip` is the reason why it cannot run here.
pub(crate) fn trial<F>(name: &'static str, skip: Option<&str>, test: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = ()>,
{
    let run = move || -> Result<(), Failed> {
        runtime().block_on(test());
        Ok(())
    };
    match skip {
        None => Trial::test(name, run),
        Some(reason) => {
            if !std::env::args().any(|argument| argument == "--list") {
                crate::skips::skip(name, reason);
            }
            Trial::test(name, run).with_kind(format!("skipped: {reason}")).with_ignored_flag(true)
        }
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Starts what `words` name, prints a line about it, and waits to be killed.
pub(crate) fn hold(words: &[String]) {
    runtime().block_on(async {
        let (kind, rest) = words.split_first().expect("what to hold");
        let (described, _kept): (String, Box<dyn std::any::Any>) = match kind.as_str() {
            "process" => crate::process::hold(rest),
            "k3s" => crate::k3s::hold(rest).await,
            "envtest" => crate::envtest::hold(rest).await,
            other => panic!("unknown: {other}"),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{described}").and_then(|()| out.flush()).expect("somebody reads");
        std::future::pending::<()>().await;
    });
}

/// A harness in a separate process.
pub(crate) struct Harness {
    child: Child,
    mark: String,
    /// The line that it printed after everything had started.
    pub(crate) described: String,
}

impl Harness {
    /// Starts this program with `hold WORDS…` and waits until everything has started.
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::start_with(words, &[])
    }

    /// Like [`Harness::start`], with environment variables.
    pub(crate) fn start_with(words: &[&str], variables: &[(&str, &str)]) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .arg(HOLD)
            .args(words)
            .env(MARK, &mark)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the harness starts");
        let mut described = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut described).expect("it tells");
        assert!(!described.is_empty(), "the harness of {words:?} ended before it was ready");
        Self { child, mark, described: described.trim().to_owned() }
    }

    /// Returns the command lines of the processes that it and its children started, without its own.
    pub(crate) fn descendants(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.mark);
        let entries = std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
        let mine = entries.filter(|entry| {
            let is_it = entry.file_name().to_string_lossy() == self.child.id().to_string();
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            !is_it && environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        });
        let lines = mine.map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned()
        });
        lines.filter(|line| !line.is_empty()).collect()
    }

    /// Kills it with SIGKILL, so that it cannot clean up.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ended");
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `what` returns true, at most a minute.
pub(crate) fn eventually(why: &str, mut what: impl FnMut() -> bool) {
    for _ in 0..600 {
        if what() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not within a minute: {why}");
}

/// Creates an empty folder for the test of this name.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("places").join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a writable folder");
    folder
}
