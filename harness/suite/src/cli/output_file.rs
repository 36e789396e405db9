//! Files and folders that flags name for output. Those of long runs are tried before the run.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::error::CliError;

/// The flag of most outputs.
pub(super) const OUTPUT: &str = "--output";

/// Checks before a run that a file can be written at its end. A file that is not there is created.
pub(super) fn ensure_writable(flag: &str, path: &Path) -> Result<(), CliError> {
    File::options().append(true).create(true).open(path).map(drop).map_err(|error| unwritable(flag, path, &error))
}

/// Checks before a run that files can be written to a folder. A folder that is not there is created.
pub(super) fn ensure_writable_folder(flag: &str, folder: &Path) -> Result<(), CliError> {
    let created = fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    created.map(drop).map_err(|error| unwritable(flag, folder, &error))
}

/// Creates the output: the file of `--output`, or standard output.
pub(super) fn create(path: Option<&Path>) -> Result<Box<dyn Write>, CliError> {
    let Some(path) = path else { return Ok(Box::new(BufWriter::new(super::streams::stdout()))) };
    let file = File::create(path).map_err(|error| unwritable(OUTPUT, path, &error))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// Writes the file of a flag.
pub(super) fn write(flag: &str, path: &Path, text: impl AsRef<[u8]>) -> Result<(), CliError> {
    fs::write(path, text).map_err(|error| unwritable(flag, path, &error))
}

/// Writes files to the folder of a flag, which is created.
pub(super) fn write_all<T: AsRef<[u8]>>(
    flag: &str,
    folder: &Path,
    files: impl IntoIterator<Item = (String, T)>,
) -> Result<(), CliError> {
    fs::create_dir_all(folder).map_err(|error| unwritable(flag, folder, &error))?;
    files.into_iter().try_for_each(|(name, text)| write(flag, &folder.join(name), text))
}

/// Returns the error of the file or folder of a flag that cannot be written.
pub(super) fn unwritable(flag: &str, path: &Path, error: &io::Error) -> CliError {
    let missing = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let name = path.display();
    CliError::Environment(match missing {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => {
            format!("unable to write {name}: there is no folder {}; create it, or change {flag}", folder.display())
        }
        _ => format!("unable to write {name}: {error}; name another place with {flag}, in a folder that you own"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_says_which_flag_was_wrong() {
        let root = tempfile::tempdir().expect("a folder");
        let says = |path: &Path| match ensure_writable(OUTPUT, path) {
            Err(CliError::Environment(why)) => why,
            other => panic!("{other:?}"),
        };
        let missing = says(&root.path().join("no/page.html"));
        assert!(missing.contains("there is no folder ") && missing.ends_with("/no; create it, or change --output"));
        let folder = says(root.path());
        assert!(folder.contains("name another place with --output"), "{folder}");
        assert!(ensure_writable(OUTPUT, &root.path().join("page.html")).is_ok());
    }
}
