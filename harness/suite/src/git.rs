//! Runs git.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// A failure of git.
#[derive(Debug, thiserror::Error)]
#[error("git {verb}: {message}")]
pub struct GitError {
    verb: String,
    message: String,
}

/// Runs git in `folder`, with an index of its own if given, and returns its output.
pub(crate) fn git(folder: &Path, arguments: &[&str], index: Option<&Path>) -> Result<Vec<u8>, GitError> {
    let verb = arguments.first().copied().unwrap_or_default();
    let failed = |message: String| GitError { verb: verb.to_owned(), message };
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    // A hook's repository is not the one of the folder.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command.envs(index.map(|index| ("GIT_INDEX_FILE", AsRef::<OsStr>::as_ref(index))));
    let output = command.output().map_err(|error| failed(format!("unable to run it: {error}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Runs git in `folder` and returns its output as text without the white space around it.
pub(crate) fn line(folder: &Path, arguments: &[&str]) -> Result<String, GitError> {
    git(folder, arguments, None).map(|output| String::from_utf8_lossy(&output).trim().to_owned())
}
