//! Temporary folders of a run, all below one root that is removed when the run ends, for any reason.
//!
//! ```text
//! /tmp/plumbline-…/        one per run, removed at its end; by the crash cleanup if the harness is killed,
//!                          by the next run if the crash cleanup was killed with it, as inside a tracer
//!   logs/                  logs of programs and servers, unless --logs names another folder; kept after failures
//!   kubeconfig-…/          and other secrets, for as long as they are in use
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use plumbline_guest::TemporaryFolder;
use tempfile::TempDir;

use super::crash_cleanup::{CleanupGuard, CrashCleanup};

/// The root folder of the current run; `None` in tests and libraries.
static ROOT: Mutex<Option<PathBuf>> = Mutex::new(None);

const PREFIX: &str = "plumbline-";
const LOGS: &str = "logs";

/// The root folder of a run.
#[derive(Debug)]
pub struct RunDir {
    /// `None` after the folder was kept.
    root: Option<(TemporaryFolder, Option<CleanupGuard>)>,
    logs: PathBuf,
}

impl RunDir {
    /// Creates the folder; logs go to `logs` if given.
    ///
    /// # Errors
    ///
    /// Returns an error if no folder can be created, with the next step.
    pub fn create(logs: Option<&Path>) -> Result<Self, RunDirError> {
        let root = TemporaryFolder::new("").map_err(TempDirError)?;
        let cleanup = CrashCleanup { folder: Some(root.path().to_owned()), ..CrashCleanup::default() };
        // Without the helper a SIGKILL leaves the folder behind; that does not prevent the run.
        let guard = cleanup
            .start()
            .inspect_err(
                |error| tracing::warn!(%error, "crash cleanup helper did not start; files may be left after SIGKILL"),
            )
            .ok();
        let logs = logs.map_or_else(|| root.path().join(LOGS), Path::to_owned);
        fs::create_dir_all(&logs).map_err(|error| RunDirError::Logs { path: logs.clone(), error })?;
        *ROOT.lock() = Some(root.path().to_owned());
        Ok(Self { root: Some((root, guard)), logs })
    }

    /// The folder for logs.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// The root, which is removed at the end of the run; `None` if logs are kept in it.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_ref().map(|(root, _)| root.path())
    }

    /// Keeps the logs, if there are any, and returns their folder.
    pub fn keep_logs(&mut self) -> Option<PathBuf> {
        let is_empty = fs::read_dir(&self.logs).map_or(true, |mut inside| inside.next().is_none());
        if is_empty {
            return None;
        }
        let inside = self.root.as_ref().is_some_and(|(root, _)| self.logs.starts_with(root.path()));
        if inside && let Some((root, guard)) = self.root.take() {
            clear_root(root.path());
            guard.into_iter().for_each(CleanupGuard::cancel);
            // Keep logs, remove secrets.
            for entry in fs::read_dir(root.path()).into_iter().flatten().flatten() {
                if entry.path() != self.logs {
                    let _ = fs::remove_dir_all(entry.path());
                }
            }
            let _ = root.keep();
        }
        Some(self.logs.clone())
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if let Some((root, guard)) = self.root.take() {
            clear_root(root.path());
            // First the folder, then the helper, so that a kill in between leaves nothing.
            drop(root);
            guard.into_iter().for_each(CleanupGuard::cancel);
        }
    }
}

fn clear_root(root: &Path) {
    let mut known = ROOT.lock();
    if known.as_deref() == Some(root) {
        *known = None;
    }
}

/// Creates a folder that is removed when dropped, inside the run's root if there is one.
///
/// # Errors
///
/// Returns an error if it cannot be created.
pub fn create() -> Result<TempDir, TempDirError> {
    let root = ROOT.lock().clone();
    let mut builder = tempfile::Builder::new();
    let made = match root {
        Some(root) => builder.prefix("part-").tempdir_in(root),
        None => builder.prefix(PREFIX).tempdir(),
    };
    made.map_err(TempDirError)
}

/// The folders of a run cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// The temporary folder.
    #[error(transparent)]
    Root(#[from] TempDirError),
    /// The folder for logs.
    #[error("unable to create the folder {}: {error}", path.display())]
    Logs {
        /// The folder.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
}

/// No temporary folder can be created. The message includes the next step.
#[derive(Debug, thiserror::Error)]
#[error("{}\n  next: {}", self.what(), Self::NEXT)]
pub struct TempDirError(std::io::Error);

impl TempDirError {
    /// The next step.
    pub const NEXT: &str = "free some space there, or set TMPDIR to another folder";

    /// The failure.
    pub fn what(&self) -> String {
        format!("unable to create a folder in {}: {}", std::env::temp_dir().display(), self.0)
    }
}
