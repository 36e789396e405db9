//! Temporary folders of a run, all below one root that is removed when the run ends, for any reason.
//!
//! ```text
//! /tmp/plumbline-…/        one per run, removed at its end; by the crash cleanup if the harness is killed
//!   logs/                  logs of programs and servers, unless --logs names another folder; kept after failures
//!   kubeconfig-…/          and other secrets, for as long as they are in use
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

use crate::cluster::provision::afterwards::{Afterwards, Armed};

/// The root folder of the current run; `None` in tests and libraries.
static ROOT: Mutex<Option<PathBuf>> = Mutex::new(None);

const PREFIX: &str = "plumbline-";
const LOGS: &str = "logs";

/// The root folder of a run.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// `None` after the folder was kept.
    root: Option<(TempDir, Option<Armed>)>,
    logs: PathBuf,
}

impl Scratch {
    /// Creates the folder; logs go to `logs` if given.
    ///
    /// # Errors
    ///
    /// Returns an error if no folder can be created, with the next step.
    pub(crate) fn begin(logs: Option<&Path>) -> Result<Self, String> {
        let root = tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(|error| NoRoom(error).to_string())?;
        let todo = Afterwards { folder: Some(root.path().to_owned()), ..Afterwards::default() };
        // Without the helper a SIGKILL leaves the folder behind; that does not prevent the run.
        let armed = todo
            .arm()
            .inspect_err(
                |error| tracing::warn!(%error, "crash cleanup helper did not start; files may be left after SIGKILL"),
            )
            .ok();
        let logs = logs.map_or_else(|| root.path().join(LOGS), Path::to_owned);
        fs::create_dir_all(&logs)
            .map_err(|error| format!("unable to create the folder {}: {error}", logs.display()))?;
        *ROOT.lock().unwrap_or_else(PoisonError::into_inner) = Some(root.path().to_owned());
        Ok(Self { root: Some((root, armed)), logs })
    }

    /// The folder for logs.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }

    /// Keeps the logs, if there are any, and returns their folder.
    pub(crate) fn keep_logs(&mut self) -> Option<PathBuf> {
        let is_empty = fs::read_dir(&self.logs).map_or(true, |mut inside| inside.next().is_none());
        if is_empty {
            return None;
        }
        let inside = self.root.as_ref().is_some_and(|(root, _)| self.logs.starts_with(root.path()));
        if inside && let Some((root, armed)) = self.root.take() {
            forget(root.path());
            armed.into_iter().for_each(Armed::call_off);
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

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some((root, armed)) = self.root.take() {
            forget(root.path());
            // First the folder, then the helper, so that a kill in between leaves nothing.
            drop(root);
            armed.into_iter().for_each(Armed::call_off);
        }
    }
}

fn forget(root: &Path) {
    let mut known = ROOT.lock().unwrap_or_else(PoisonError::into_inner);
    if known.as_deref() == Some(root) {
        *known = None;
    }
}

/// Creates a folder that is removed when dropped, inside the run's root if there is one.
///
/// # Errors
///
/// Returns an error if it cannot be created.
pub(crate) fn folder() -> Result<TempDir, NoRoom> {
    let root = ROOT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut builder = tempfile::Builder::new();
    let made = match root {
        Some(root) => builder.prefix("part-").tempdir_in(root),
        None => builder.prefix(PREFIX).tempdir(),
    };
    made.map_err(NoRoom)
}

/// No temporary folder can be created. The message includes the next step.
#[derive(Debug, thiserror::Error)]
#[error("{}\n  next: {}", self.what(), Self::NEXT)]
pub(crate) struct NoRoom(std::io::Error);

impl NoRoom {
    /// The next step.
    pub(crate) const NEXT: &str = "free some space there, or set TMPDIR to another folder";

    /// The failure.
    pub(crate) fn what(&self) -> String {
        format!("unable to create a folder in {}: {}", std::env::temp_dir().display(), self.0)
    }
}
