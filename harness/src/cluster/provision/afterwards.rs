//! Cleans up after a harness that was killed: containers, clusters of other programs, temporary folders.
//!
//! Processes have their guard ([`crate::process`]). For everything else this very program waits, under a hidden verb and in
//! a process group of its own, for the end of a pipe from the harness. Then it does what it was told to: runs a program,
//! removes containers by their label, removes a folder. Whoever has cleaned up itself calls it off.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use super::{EnvironmentError, Kind, containers};

/// The hidden verb.
pub const VERB: &str = "__afterwards";
/// How often something is tried again that does not go at once, and the pause between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// How long something that the harness began may still go on after its end.
const AFTERMATH: Duration = Duration::from_secs(3);

/// What to do when the harness has gone, in this order.
#[derive(Clone, Debug, Default)]
pub struct Afterwards {
    /// A program and its arguments. It runs twice, the second time when nothing goes on any more that the harness began.
    pub run: Vec<OsString>,
    /// Remove the containers with this label, `name=value`.
    pub containers: Option<String>,
    /// Remove this folder.
    pub folder: Option<PathBuf>,
}

/// Somebody who waits for the harness's end. Dropping it is such an end: the cleaning begins at once, and nobody waits.
#[derive(Debug)]
pub struct Armed {
    child: Child,
    orders: Option<ChildStdin>,
}

impl Afterwards {
    /// Begins to wait.
    ///
    /// # Errors
    ///
    /// When this program cannot be started once more.
    pub fn arm(&self) -> Result<Armed, EnvironmentError> {
        let failed = |error: io::Error| {
            let what = format!("unable to start what cleans up after a crash: {error}");
            EnvironmentError::new(Kind::Failed, what, "make room for another process")
        };
        let mut command = Command::new(crate::process::program().map_err(failed)?);
        command.arg(VERB);
        if let Some(label) = &self.containers {
            command.arg("--containers").arg(label);
        }
        if let Some(folder) = &self.folder {
            command.arg("--folder").arg(folder);
        }
        command.arg("--").args(&self.run);
        // Ctrl-C in the terminal is for the harness; its end is what counts here.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let orders = child.stdin.take();
        Ok(Armed { child, orders })
    }
}

impl Armed {
    /// There is nothing left to clean up.
    pub fn call_off(mut self) {
        if let Some(mut orders) = self.orders.take() {
            // A pipe has room for a word. One that is broken has nobody at its end.
            let _ = orders.write_all(b"off\n");
        }
        let _ = self.child.wait();
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.orders.take();
        // It has its own life now; if it has ended already, it is reaped.
        let _ = self.child.try_wait();
    }
}

/// The hidden verb itself: `[--containers LABEL=VALUE] [--folder DIR] -- [PROGRAM ARGUMENT…]`. Returns the exit code.
#[must_use]
pub fn main(arguments: &[OsString]) -> u8 {
    let Some(todo) = parse(arguments) else { return 2 };
    let mut word = String::new();
    // The end of the pipe, however it comes, means the end of the harness.
    let _ = io::stdin().lock().read_to_string(&mut word);
    if word == "off\n" {
        return 0;
    }
    u8::from(!todo.clean())
}

fn parse(arguments: &[OsString]) -> Option<Afterwards> {
    let mut todo = Afterwards::default();
    let mut arguments = arguments.iter();
    loop {
        match arguments.next()?.to_str()? {
            "--containers" => todo.containers = Some(arguments.next()?.to_str()?.to_owned()),
            "--folder" => todo.folder = Some(arguments.next()?.into()),
            "--" => break,
            _ => return None,
        }
    }
    todo.run = arguments.cloned().collect();
    Some(todo)
}

impl Afterwards {
    /// Does it now. Says whether everything went.
    fn clean(&self) -> bool {
        let once = || {
            let ran = self.run.split_first().is_none_or(|(program, arguments)| {
                let mut command = Command::new(program);
                command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            });
            ran & self.containers.as_deref().is_none_or(remove_containers)
        };
        let mut clean = once();
        if !self.run.is_empty() || self.containers.is_some() {
            std::thread::sleep(AFTERMATH);
            clean = once();
        }
        clean & self.folder.as_deref().is_none_or(remove_folder)
    }
}

/// Removes the containers with a label.
fn remove_containers(label: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.is_ok_and(|runtime| runtime.block_on(containers::remove(label)).is_ok())
}

/// Removes a folder. Processes that write there may take a moment to die.
fn remove_folder(folder: &Path) -> bool {
    (0..TRIES).any(|_| {
        let _ = std::fs::remove_dir_all(folder);
        let gone = !folder.exists();
        if !gone {
            std::thread::sleep(PAUSE);
        }
        gone
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn arguments_are_read() {
        let todo = parse(&words(&["--containers", "a=b", "--folder", "/x", "--", "rm", "--folder"])).unwrap();
        assert_eq!(todo.containers.as_deref(), Some("a=b"));
        assert_eq!(todo.folder.as_deref(), Some(Path::new("/x")));
        assert_eq!(todo.run, words(&["rm", "--folder"]));
        for bad in [&["--folder"][..], &["--folder", "/x"], &["rm", "--"], &[]] {
            assert!(parse(&words(bad)).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn programs_run_and_folders_go() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, trace) = (folder.path().join("inner"), folder.path().join("trace"));
        std::fs::create_dir_all(inner.join("deep")).unwrap();
        let run = words(&["touch", trace.to_str().unwrap()]);
        assert!(Afterwards { run, containers: None, folder: Some(inner.clone()) }.clean());
        assert!(trace.exists() && !inner.exists());
        assert!(!Afterwards { run: words(&["/no/such/program"]), ..Afterwards::default() }.clean());
    }
}
