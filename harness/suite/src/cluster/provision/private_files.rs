//! The folders, files and tokens of a server, for its owner only.

use std::path::{Path, PathBuf};

use super::environment_error::{EnvironmentError, FailureKind};
use crate::process::tempdir::{self, TempDirError};

/// Creates a temporary folder for a server's files.
pub(super) fn temporary_folder() -> Result<tempfile::TempDir, EnvironmentError> {
    tempdir::create().map_err(|error| EnvironmentError::new(FailureKind::Failed, error.what(), TempDirError::NEXT))
}

/// Creates the folder for logs and returns its absolute path: programs have their own working folders.
pub(super) fn log_folder(folder: &Path) -> Result<PathBuf, EnvironmentError> {
    std::fs::create_dir_all(folder).and_then(|()| std::path::absolute(folder)).map_err(|error| {
        let what = format!("unable to create the log folder {}: {error}", folder.display());
        EnvironmentError::new(FailureKind::Failed, what, "choose another one with --logs")
    })
}

/// Writes a file that only its owner can read.
pub(super) fn write_private(path: &Path, content: &str) -> Result<(), EnvironmentError> {
    plumbline_apiserver::listener::write_private_file(path, content).map_err(|error| {
        let what = format!("unable to write {}: {error}", path.display());
        EnvironmentError::new(FailureKind::Failed, what, "free some space there, or set TMPDIR to another folder")
    })
}

/// Returns a random token of 128 bits in hexadecimal digits.
pub(crate) fn random_token() -> Result<String, EnvironmentError> {
    plumbline_apiserver::listener::random_token().map_err(|_| {
        EnvironmentError::new(FailureKind::Failed, "the system has no source of random numbers", "check /dev/urandom")
    })
}
