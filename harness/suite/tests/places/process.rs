//! Guarded processes: they end on request, and when the harness that guards them dies.

use std::any::Any;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use plumbline_suite::process::{GuardedProcess, ProcessSpec};

use crate::tools::{Harness, eventually, folder, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("process::a_killed_harness_leaves_no_process", None, || async { killed_harness() }),
        trial("process::terminating_ends_children_too", None, terminating),
        trial("process::a_child_that_leaves_the_group_ends_too", None, escaped),
        trial("process::who_ignores_sigterm_is_killed", None, stubborn),
        trial("process::ends_are_reported", None, ends),
        trial("process::a_guard_that_is_asked_to_end_takes_its_process_along", None, guard_terminated),
    ]
}

fn shell(script: &str, log: &Path) -> GuardedProcess {
    let argv = ["sh", "-c", script].map(Into::into).into();
    ProcessSpec { argv, env: Vec::new(), folder: None, log: log.to_owned() }.spawn().expect("a shell")
}

/// Starts a process with a child that ignores SIGTERM, as faulty subjects do.
pub(crate) fn hold(words: &[String]) -> (String, Box<dyn Any>) {
    let log = Path::new(&words[0]).join("log");
    let process = shell("trap '' TERM; sleep 1000 & echo up; wait; sleep 1000", &log);
    eventually("the shell is up", || process.log_tail(1) == ["up"]);
    ("ready".to_owned(), Box::new(process))
}

fn killed_harness() {
    let folder = folder("killed-harness");
    let mut harness = Harness::start(&["process", &folder.display().to_string()]);
    let before = harness.descendants();
    // The guard, the shell, the sleep.
    assert!(before.len() >= 3 && before.iter().any(|line| line == "sleep 1000"), "{before:?}");
    harness.kill();
    eventually("everything that the harness started has ended", || harness.descendants().is_empty());
}

async fn terminating() {
    let folder = folder("terminating");
    let mut process = shell("sleep 1001 & echo $!; wait", &folder.join("log"));
    eventually("the child's number is logged", || process.log_tail(1).len() == 1);
    let child = process.log_tail(1).remove(0);
    assert!(Path::new("/proc").join(&child).exists());
    process.terminate(Duration::from_secs(30)).await.expect("it obeys");
    eventually("the child has ended", || !Path::new("/proc").join(&child).exists());
}

/// A daemon of the subject's in a session of its own, with a child that ignores SIGTERM and the log still open.
async fn escaped() {
    let folder = folder("escaped");
    let daemon = "trap \"\" TERM; sleep 1003 & echo $$ $!; wait; sleep 1003";
    let mut process = shell(&format!("setsid sh -c '{daemon}' & sleep 1003"), &folder.join("log"));
    eventually("the numbers are logged", || process.log_tail(1).len() == 1);
    let numbers = process.log_tail(1).remove(0);
    let runs = || numbers.split(' ').any(|number| Path::new("/proc").join(number).exists());
    assert!(runs());
    process.kill();
    eventually("the daemon and its child have ended", || !runs());
    eventually("the guard does not wait for ever", || process.ended().is_some());
}

async fn guard_terminated() {
    let folder = folder("guard-terminated");
    // Its parent is the guard.
    let mut process = shell("trap '' TERM; sleep 1002 & echo $PPID $!; wait; sleep 1002", &folder.join("log"));
    eventually("the numbers are logged", || process.log_tail(1).len() == 1);
    let numbers = process.log_tail(1).remove(0);
    let (guard, child) = numbers.split_once(' ').expect("two numbers");
    assert!(Path::new("/proc").join(child).exists());
    let killed = std::process::Command::new("kill").args(["-TERM", guard]).status().expect("kill");
    assert!(killed.success());
    eventually("the child has ended, though it ignores SIGTERM", || !Path::new("/proc").join(child).exists());
    eventually("the guard has ended", || process.ended().is_some());
}

async fn stubborn() {
    let folder = folder("stubborn");
    let mut process = shell("trap '' TERM; echo up; while true; do sleep 0.1; done", &folder.join("log"));
    eventually("the shell is up", || process.log_tail(1) == ["up"]);
    let error = process.terminate(Duration::from_secs(1)).await.expect_err("it ignores SIGTERM");
    assert_eq!(error.to_string(), "sh was still running 1 s after SIGTERM");
}

async fn ends() {
    let folder = folder("ends");
    let mut process = shell("echo why; exit 3", &folder.join("log"));
    let mut end = None;
    eventually("it has ended", || {
        end = process.ended();
        end.is_some()
    });
    assert_eq!(end.as_deref(), Some("sh exited with code 3"));
    assert_eq!(process.log_tail(5), ["why"]);
}
