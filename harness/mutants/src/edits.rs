//! Handwritten bugs: from `bugs.toml` upstream's own and wrong readings of the rules, from `semantic.toml` and
//! `fresh.toml` mistakes that a person would make.

use std::path::Path;

use serde::Deserialize;

use crate::Failure;
use crate::find::Change;

/// The content of the file.
#[derive(Deserialize)]
struct File {
    bug: Vec<Bug>,
}

/// One bug.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bug {
    /// Number of the upstream issue, or a short name.
    pub(crate) id: String,
    /// The symptom, in one sentence.
    pub(crate) symptom: String,
    /// Edits that introduce the bug; each `find` text occurs exactly once in its file.
    pub(crate) edits: Vec<Edit>,
}

/// One replacement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// Path from the root of the repository.
    pub(crate) file: String,
    /// The original text.
    pub(crate) find: String,
    /// The text with the bug: `ON` is true if the bug is switched on, `$OLD` is the original text.
    pub(crate) replace: String,
}

impl Edit {
    /// Returns the change of `text`, the file's content, for the bug with this number.
    pub(crate) fn change(&self, id: usize, text: &str) -> Result<Change, Failure> {
        let mut places = text.match_indices(&self.find);
        let (Some((start, _)), None) = (places.next(), places.next()) else {
            return Err(format!("{}: this does not stand there exactly once: {}", self.file, self.find).into());
        };
        let whole = start..start + self.find.len();
        let replace = self.replace.replace("ON", &format!("crate::schemata::on({id})"));
        let (before, after) = replace.split_once("$OLD").ok_or_else(|| format!("{}: no $OLD: {replace}", self.file))?;
        let range = match (before, after) {
            ("", _) => whole.end..whole.end,
            (_, "") => whole.start..whole.start,
            _ => whole,
        };
        Ok(Change::Around { range, before: before.to_owned(), after: after.to_owned() })
    }
}

/// Reads a file in `harness/mutants/`.
pub(crate) fn load(repository: &Path, file: &str) -> Result<Vec<Bug>, Failure> {
    let text = std::fs::read_to_string(repository.join("harness/mutants").join(file))?;
    let file: File = toml::from_str(&text)?;
    Ok(file.bug)
}
