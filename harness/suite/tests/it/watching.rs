//! `plumbline run --watch`: runs again what a change touches.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::cli::{BAD, GOOD, folder};
use crate::support;

/// Time that the program has for a line.
const PATIENCE: Duration = Duration::from_mins(1);
/// The last line of a run.
const WATCHING: &str = "plumbline: watching ";

/// The program in a folder.
struct WatchingProgram {
    child: Child,
    lines: Receiver<String>,
}

impl WatchingProgram {
    fn start(program: &Path, root: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .current_dir(root)
            .env_remove("PLUMBLINE_FIXTURES")
            .args(["run", "--watch"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (sender, lines) = channel();
        let out = child.stdout.take().expect("a pipe");
        let err = child.stderr.take().expect("a pipe");
        let of_out = sender.clone();
        let of_err = sender;
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| of_out.send(line))
        });
        std::thread::spawn(move || {
            BufReader::new(err).lines().map_while(Result::ok).try_for_each(|line| of_err.send(line))
        });
        Self { child, lines }
    }

    /// Returns the lines until all of `parts` have been in one.
    fn until(&self, parts: &[&str]) -> String {
        let mut text = String::new();
        while !parts.iter().all(|part| text.contains(part)) {
            let line = self.lines.recv_timeout(PATIENCE);
            text.push_str(&line.unwrap_or_else(|error| panic!("{error}: expected {parts:?} in:\n{text}")));
            text.push('\n');
        }
        text
    }

    /// Interrupts the program and returns its exit code.
    fn interrupt(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
        self.child.wait().expect("an exit code").code()
    }
}

impl Drop for WatchingProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(root: &Path, name: &str, text: &str) {
    std::fs::write(root.join("fixtures").join(name), text).expect("a writable file");
}

#[test]
fn a_changed_fixture_runs_again_alone() {
    let root = folder("watch-fixtures", &[("podgc/good.yaml", GOOD), ("podgc/other.yaml", GOOD)]);
    let program = WatchingProgram::start(Path::new(support::PROGRAM), &root, &[]);
    program.until(&["2 passed of 2", WATCHING]);
    write(&root, "podgc/good.yaml", BAD);
    program.until(&["changed: fixtures/podgc/good.yaml", "FAIL podgc/good", "1 failed of 1", WATCHING]);
    write(&root, "podgc/good.yaml", "promise: 1\n");
    program.until(&["fixtures/podgc/good.yaml:1:", WATCHING]);
    write(&root, "podgc/new.yaml", GOOD);
    program.until(&["changed: fixtures/podgc/new.yaml", "1 passed of 1", WATCHING]);
    write(&root, "podgc/good.yaml", GOOD);
    program.until(&["changed: fixtures/podgc/good.yaml", "1 passed of 1", WATCHING]);
    assert_eq!(program.interrupt(), Some(0), "the code of the last run");
}

/// The program is replaced as a linker does it, and starts again in the same process.
#[test]
fn a_changed_program_starts_again() {
    let root = folder("watch-program", &[("podgc/good.yaml", GOOD)]);
    let link = |name: &str| -> PathBuf {
        let path = root.join(name);
        std::fs::copy(support::PROGRAM, &path).expect("a copy");
        path
    };
    let copy = link("me");
    let new = link("me.new");
    let program = WatchingProgram::start(&copy, &root, &["good"]);
    let text = program.until(&["1 passed of 1", WATCHING]);
    assert!(text.contains(&copy.display().to_string()), "{text}");
    std::fs::rename(new, &copy).expect("a new version");
    program.until(&["plumbline: changed: ", "1 fixture, 1 suite", "1 passed of 1", WATCHING]);
    assert_eq!(program.interrupt(), Some(0));
}
