//! What came of it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::build::Config;

/// What came of one mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// Its file and line.
    pub place: String,
    /// The first fixture that failed; none: it survived.
    pub caught_by: Option<String>,
    /// How long it took.
    pub seconds: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.caught_by {
            Some(fixture) => write!(f, "caught    {} by {fixture}", self.name),
            None => write!(f, "SURVIVED  {} ({})", self.name, self.place),
        }
    }
}

/// Reads a report.
pub fn load(path: &Path) -> Result<Vec<Outcome>, Failure> {
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

/// Writes a report.
pub fn write(path: &Path, outcomes: &[Outcome]) -> Result<(), Failure> {
    Ok(fs::write(path, serde_json::to_string_pretty(outcomes)?)?)
}

/// The report for people.
pub fn markdown(outcomes: &[Outcome], unviable: usize, config: &Config) -> String {
    let caught = outcomes.iter().filter(|outcome| outcome.caught_by.is_some()).count();
    let total = outcomes.len();
    let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    let mut text = format!(
        "{caught} of {total} caught by the fixtures ({:.1} %); {unviable} did not compile.\n\n",
        percent(caught, total)
    );
    let mut files: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for outcome in outcomes {
        let file = outcome.place.split(':').next().unwrap_or_default();
        let (caught, total) = files.entry(file).or_default();
        *caught += usize::from(outcome.caught_by.is_some());
        *total += 1;
    }
    text.push_str("| file | caught | of | % |\n| --- | --- | --- | --- |\n");
    for (file, (caught, total)) in files {
        let _ = writeln!(text, "| {file} | {caught} | {total} | {:.0} |", percent(caught, total));
    }
    let survivors: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.caught_by.is_none()).collect();
    if !survivors.is_empty() {
        text.push_str("\n| survivor | reason |\n| --- | --- |\n");
    }
    for survivor in survivors {
        let reason = config.reason(&survivor.name).unwrap_or("**none known: a fixture is missing**");
        let _ = writeln!(text, "| {} ({}) | {reason} |", survivor.name, survivor.place);
    }
    text
}
