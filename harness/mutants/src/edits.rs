//! `bugs.toml`: upstream's own bugs, brought back by hand, and wrong readings of the rules.

use std::path::Path;

use serde::Deserialize;

use crate::Failure;
use crate::find::Change;

/// The whole file.
#[derive(Deserialize)]
struct File {
    bug: Vec<Bug>,
}

/// One bug.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bug {
    /// Upstream's issue, or a word.
    pub id: String,
    /// What went wrong then, in one sentence.
    pub symptom: String,
    /// What brings it back; each text occurs exactly once in its file.
    pub edits: Vec<Edit>,
}

/// One replacement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file, from the root of the repository.
    pub file: String,
    /// What stands there.
    pub find: String,
    /// What stands there with the bug in it: `ON` is whether it is switched on, `$OLD` what stood there.
    pub replace: String,
}

impl Edit {
    /// The change of `text`, the file's, for the bug of that number.
    pub fn change(&self, id: usize, text: &str) -> Result<Change, Failure> {
        let mut places = text.match_indices(&self.find);
        let (Some((start, _)), None) = (places.next(), places.next()) else {
            return Err(format!("{}: this does not stand there exactly once: {}", self.file, self.find).into());
        };
        let whole = start..start + self.find.len();
        let schemata =
            if self.file.starts_with("harness/") { "plumbline_controllers::schemata" } else { "crate::schemata" };
        let replace = self.replace.replace("ON", &format!("{schemata}::on({id})"));
        let (before, after) = replace.split_once("$OLD").ok_or_else(|| format!("{}: no $OLD: {replace}", self.file))?;
        let range = match (before, after) {
            ("", _) => whole.end..whole.end,
            (_, "") => whole.start..whole.start,
            _ => whole,
        };
        Ok(Change::Around { range, before: before.to_owned(), after: after.to_owned() })
    }
}

/// Reads `harness/mutants/bugs.toml`.
pub fn load(repository: &Path) -> Result<Vec<Bug>, Failure> {
    let text = std::fs::read_to_string(repository.join("harness/mutants/bugs.toml"))?;
    let file: File = toml::from_str(&text)?;
    Ok(file.bug)
}
