//! Writes a table or compares it with the checked-in file.

use std::fs;
use std::path::Path;

use similar::TextDiff;

use crate::source::Error;

/// The result for one table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The checked-in file already has this text.
    Same,
    /// The file was written.
    Written,
    /// The file differs; a unified diff.
    Differs(String),
}

fn read(path: &Path) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| Error::Read { path: path.to_owned(), error }),
    }
}

/// Compares `text` with the file at `path`; a missing file is empty.
pub(crate) fn compare(path: &Path, text: &str) -> Result<Outcome, Error> {
    let before = read(path)?;
    if before == text {
        return Ok(Outcome::Same);
    }
    let diff = TextDiff::from_lines(before.as_str(), text).unified_diff().header("checked in", "generated").to_string();
    Ok(Outcome::Differs(diff))
}

/// Writes `text` to `path` unless the file already has it.
pub(crate) fn write(path: &Path, text: &str) -> Result<Outcome, Error> {
    if compare(path, text)? == Outcome::Same {
        return Ok(Outcome::Same);
    }
    fs::write(path, text).map_err(|error| Error::Write { path: path.to_owned(), error })?;
    Ok(Outcome::Written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_is_shown() {
        let path = std::env::temp_dir().join(format!("plumbline-xtask-{}", std::process::id()));
        fs::write(&path, "a\nb\n").unwrap();
        assert_eq!(compare(&path, "a\nb\n").unwrap(), Outcome::Same);
        let Outcome::Differs(diff) = compare(&path, "a\nc\n").unwrap() else { panic!("no difference") };
        assert!(diff.contains("-b\n+c\n"), "{diff}");
        assert_eq!(write(&path, "a\nc\n").unwrap(), Outcome::Written);
        assert_eq!(write(&path, "a\nc\n").unwrap(), Outcome::Same);
        fs::remove_file(&path).unwrap();
    }
}
