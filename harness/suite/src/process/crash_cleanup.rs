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

/// The hidden verb.
pub const VERB: &str = "__crash_cleanup";
/// Attempts to remove something, and the pause between attempts.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Time for which actions started by the harness may still run after its end.
const AFTERMATH: Duration = Duration::from_secs(3);

/// Actions to take when the harness is gone, in this order.
#[derive(Clone, Debug, Default)]
pub struct CrashCleanup {
    /// A program with arguments. It runs twice, the second time when nothing started by the harness runs any more.
    pub run: Vec<OsString>,
    /// Removes the containers with this label, `name=value`.
    pub containers: Option<String>,
    /// Removes this folder.
    pub folder: Option<PathBuf>,
}

/// The crash cleanup helper cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("unable to start the crash cleanup helper: {0}")]
pub struct HelperError(io::Error);

/// A running cleanup helper. Dropping it starts the cleanup at once, without waiting for it.
#[derive(Debug)]
pub struct CleanupGuard {
    child: Child,
    orders: Option<ChildStdin>,
}

impl CrashCleanup {
    /// Starts the helper.
    ///
    /// # Errors
    ///
    /// Returns an error if this program cannot be started a second time.
    pub fn start(&self) -> Result<CleanupGuard, HelperError> {
        let mut command = Command::new(super::program().map_err(HelperError)?);
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
        let mut child = command.spawn().map_err(HelperError)?;
        let orders = child.stdin.take();
        Ok(CleanupGuard { child, orders })
    }
}

impl CleanupGuard {
    /// Ends the helper without a cleanup.
    pub fn cancel(mut self) {
        if let Some(mut orders) = self.orders.take() {
            // The pipe's buffer holds the word, so this does not block. A broken pipe means that the helper has ended.
            let _ = orders.write_all(b"off\n");
        }
        let _ = self.child.wait();
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        self.orders.take();
        // It continues on its own; if it has ended already, this reaps it.
        let _ = self.child.try_wait();
    }
}

/// Entry point of the hidden verb: `[--containers LABEL=VALUE] [--folder DIR] -- [PROGRAM ARGUMENT…]`. Removes
/// containers with `remove_containers`, which gets the label and returns true on success. Returns the exit code.
#[must_use]
pub fn main(arguments: &[OsString], remove_containers: impl Fn(&str) -> bool) -> u8 {
    let Some(cleanup) = parse(arguments) else { return 2 };
    let mut word = String::new();
    // The pipe closes when the harness ends, for any reason.
    let _ = io::stdin().lock().read_to_string(&mut word);
    if word == "off\n" {
        return 0;
    }
    u8::from(!cleanup.clean(remove_containers))
}

fn parse(arguments: &[OsString]) -> Option<CrashCleanup> {
    let mut cleanup = CrashCleanup::default();
    let mut arguments = arguments.iter();
    loop {
        match arguments.next()?.to_str()? {
            "--containers" => cleanup.containers = Some(arguments.next()?.to_str()?.to_owned()),
            "--folder" => cleanup.folder = Some(arguments.next()?.into()),
            "--" => break,
            _ => return None,
        }
    }
    cleanup.run = arguments.cloned().collect();
    Some(cleanup)
}

impl CrashCleanup {
    /// Cleans up now. Returns true if everything succeeded.
    fn clean(&self, remove_containers: impl Fn(&str) -> bool) -> bool {
        let once = || {
            let ran = self.run.split_first().is_none_or(|(program, arguments)| {
                let mut command = Command::new(program);
                command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            });
            ran & self.containers.as_deref().is_none_or(&remove_containers)
        };
        let mut clean = once();
        if !self.run.is_empty() || self.containers.is_some() {
            std::thread::sleep(AFTERMATH);
            clean = once();
        }
        clean & self.folder.as_deref().is_none_or(remove_folder)
    }
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
        let cleanup = parse(&words(&["--containers", "a=b", "--folder", "/x", "--", "rm", "--folder"])).unwrap();
        assert_eq!(cleanup.containers.as_deref(), Some("a=b"));
        assert_eq!(cleanup.folder.as_deref(), Some(Path::new("/x")));
        assert_eq!(cleanup.run, words(&["rm", "--folder"]));
        for bad in [&["--folder"][..], &["--folder", "/x"], &["rm", "--"], &[]] {
            assert!(parse(&words(bad)).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn programs_run_and_folders_go() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let trace = folder.path().join("trace");
        std::fs::create_dir_all(inner.join("deep")).unwrap();
        let run = words(&["touch", trace.to_str().unwrap()]);
        assert!(CrashCleanup { run, containers: None, folder: Some(inner.clone()) }.clean(|_| false));
        assert!(trace.exists() && !inner.exists());
        assert!(!CrashCleanup { run: words(&["/no/such/program"]), ..CrashCleanup::default() }.clean(|_| true));
    }
}
