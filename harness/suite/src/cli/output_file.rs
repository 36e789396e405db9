//! Files and folders that flags name for output. Those of long runs are tried before the run.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::CliError;

/// Checks before a run that a file can be written at its end. A file that is not there is created.
pub(super) fn ensure_writable(path: &Path) -> Result<(), CliError> {
    File::options().append(true).create(true).open(path).map(drop).map_err(|error| unwritable(path, &error))
}

/// Checks before a run that files can be written to a folder. A folder that is not there is created.
pub(super) fn ensure_writable_folder(folder: &Path) -> Result<(), CliError> {
    let created = fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    created.map(drop).map_err(|error| unwritable(folder, &error))
}

/// Creates the output: a file, or standard output.
pub(super) fn create(path: Option<&Path>) -> Result<Box<dyn Write>, CliError> {
    let Some(path) = path else { return Ok(Box::new(BufWriter::new(super::stdout()))) };
    let file = File::create(path).map_err(|error| unwritable(path, &error))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// Writes a file.
pub(super) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), CliError> {
    fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// Writes files to a folder, which is created.
pub(super) fn write_all<T: AsRef<[u8]>>(
    folder: &Path,
    files: impl IntoIterator<Item = (String, T)>,
) -> Result<(), CliError> {
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    files.into_iter().try_for_each(|(name, text)| write(&folder.join(name), text))
}

/// Returns the error of a file or folder that cannot be written.
pub(super) fn unwritable(path: &Path, error: &io::Error) -> CliError {
    let path = path.display();
    CliError::Environment(format!(
        "unable to write {path}: {error}; choose another file or folder, in one that you own"
    ))
}
