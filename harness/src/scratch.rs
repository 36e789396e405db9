//! The temporary folders of a run: all in one, which goes with the run, however that ends.
//!
//! ```text
//! /tmp/plumbline-…/        one for each run, removed at its end; by a helper if the harness is killed
//!   logs/                  what programs and servers logged, unless --logs names another folder; stays when something broke
//!   kubeconfig-…/          and other secrets, for as long as whoever needs them lives
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

use crate::cluster::provision::afterwards::{Afterwards, Armed};

/// The folder of the run that goes on; none in tests and libraries.
static ROOT: Mutex<Option<PathBuf>> = Mutex::new(None);

const PREFIX: &str = "plumbline-";
const LOGS: &str = "logs";

/// The folder of a run.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// `None` once it was given away.
    root: Option<(TempDir, Option<Armed>)>,
    logs: PathBuf,
}

impl Scratch {
    /// Makes it; logs go to `logs`, if a folder is named.
    ///
    /// # Errors
    ///
    /// When no folder can be made, with what to do.
    pub(crate) fn begin(logs: Option<&Path>) -> Result<Self, String> {
        let root = tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(|error| NoRoom(error).to_string())?;
        let todo = Afterwards { folder: Some(root.path().to_owned()), ..Afterwards::default() };
        // Without a helper SIGKILL leaves the folder behind; that is no reason not to run.
        let armed = todo.arm().inspect_err(|error| tracing::warn!(%error, "nobody cleans up after SIGKILL")).ok();
        let logs = logs.map_or_else(|| root.path().join(LOGS), Path::to_owned);
        fs::create_dir_all(&logs).map_err(|error| format!("unable to make the folder {}: {error}", logs.display()))?;
        *ROOT.lock().unwrap_or_else(PoisonError::into_inner) = Some(root.path().to_owned());
        Ok(Self { root: Some((root, armed)), logs })
    }

    /// Where logs go.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }

    /// Keeps the logs, if there are any, and says where they are.
    pub(crate) fn keep_logs(&mut self) -> Option<PathBuf> {
        let is_empty = fs::read_dir(&self.logs).map_or(true, |mut inside| inside.next().is_none());
        if is_empty {
            return None;
        }
        let inside = self.root.as_ref().is_some_and(|(root, _)| self.logs.starts_with(root.path()));
        if inside && let Some((root, armed)) = self.root.take() {
            forget(root.path());
            armed.into_iter().for_each(Armed::call_off);
            // Logs stay, secrets do not.
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
            // First the folder, then the helper: whoever is killed in between leaves nothing.
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

/// A folder that goes when it is dropped; in the run's, if a run goes on.
///
/// # Errors
///
/// When none can be made.
pub(crate) fn folder() -> Result<TempDir, NoRoom> {
    let root = ROOT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut builder = tempfile::Builder::new();
    let made = match root {
        Some(root) => builder.prefix("part-").tempdir_in(root),
        None => builder.prefix(PREFIX).tempdir(),
    };
    made.map_err(NoRoom)
}

/// No temporary folder can be made. Its text also says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}\n  next: {}", self.what(), Self::NEXT)]
pub(crate) struct NoRoom(std::io::Error);

impl NoRoom {
    /// What to do.
    pub(crate) const NEXT: &str = "free some space there, or set TMPDIR to another folder";

    /// What happened.
    pub(crate) fn what(&self) -> String {
        format!("unable to make a folder in {}: {}", std::env::temp_dir().display(), self.0)
    }
}
