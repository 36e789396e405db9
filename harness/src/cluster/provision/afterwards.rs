//! Crash cleanup: removes containers, foreign clusters and temporary folders after the harness was killed.
//!
//! Processes have their own guard ([`crate::process`]). For everything else a second instance of this program, started
//! with a hidden verb in its own process group, waits for the end of a pipe from the harness. It then runs the given
//! program, removes containers by label and removes a folder. A harness that cleans up itself calls it off.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use super::{EnvironmentError, Kind, containers};

/// The hidden verb.
pub const VERB: &str = "__afterwards";
/// Attempts to remove something, and the pause between attempts.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Time for which actions started by the harness may still run after its end.
const AFTERMATH: Duration = Duration::from_secs(3);

/// Actions to take when the harness is gone, in this order.
#[derive(Clone, Debug, Default)]
pub struct Afterwards {
    /// A program with arguments. It runs twice, the second time when nothing started by the harness runs any more.
    pub run: Vec<OsString>,
    /// Removes the containers with this label, `name=value`.
    pub containers: Option<String>,
    /// Removes this folder.
    pub folder: Option<PathBuf>,
}

/// A running cleanup helper. Dropping it starts the cleanup at once, without waiting for it.
#[derive(Debug)]
pub struct Armed {
    child: Child,
    orders: Option<ChildStdin>,
}

impl Afterwards {
    /// Starts the helper.
    ///
    /// # Errors
    ///
    /// Returns an error if this program cannot be started a second time.
    pub fn arm(&self) -> Result<Armed, EnvironmentError> {
        let failed = |error: io::Error| {
            let what = format!("unable to start the crash cleanup helper: {error}");
            EnvironmentError::new(Kind::Failed, what, "check the limit on processes (`ulimit -u`)")
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
        // Ctrl-C in the terminal is for the harness; the helper reacts to the harness's end.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let orders = child.stdin.take();
        Ok(Armed { child, orders })
    }
}

impl Armed {
    /// Ends the helper without a cleanup.
    pub fn call_off(mut self) {
        if let Some(mut orders) = self.orders.take() {
            // The pipe's buffer holds the word, so this does not block. A broken pipe means that the helper has ended.
            let _ = orders.write_all(b"off\n");
        }
        let _ = self.child.wait();
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.orders.take();
        // It continues on its own; if it has ended already, this reaps it.
        let _ = self.child.try_wait();
    }
}

/// Entry point of the hidden verb: `[--containers LABEL=VALUE] [--folder DIR] -- [PROGRAM ARGUMENT…]`. Returns the exit
/// code.
#[must_use]
pub fn main(arguments: &[OsString]) -> u8 {
    let Some(todo) = parse(arguments) else { return 2 };
    let mut word = String::new();
    // The pipe closes when the harness ends, for any reason.
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
    /// Cleans up now. Returns true if everything succeeded.
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

/// Removes a folder. Retries, because processes that write there may take a moment to die.
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
