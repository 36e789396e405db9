//! Outcomes of mutants: state file, hints and report.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::build::{BUG, Config};

/// The outcome for one mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Its name.
    pub(crate) name: String,
    /// Its location: `file:line`.
    pub(crate) place: String,
    /// The first fixture that failed; `None` if the mutant survived.
    pub(crate) caught_by: Option<String>,
    /// Duration of its run.
    pub(crate) seconds: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.caught_by {
            Some(fixture) => write!(f, "caught    {} by {fixture}", self.name),
            None => write!(f, "SURVIVED  {} ({})", self.name, self.place),
        }
    }
}

/// Outcomes so far: an interrupted run resumes from here if nothing has changed since.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// The value of [`crate::build::stamp`].
    pub(crate) stamp: u64,
    /// In the order of the runs.
    pub(crate) outcomes: Vec<Outcome>,
}

impl State {
    /// Reads the state from `path`; empty if the file is missing or has another stamp.
    pub(crate) fn load(path: &Path, stamp: u64) -> Self {
        let state = fs::read_to_string(path).ok().and_then(|text| serde_json::from_str::<Self>(&text).ok());
        state.filter(|state| state.stamp == stamp).unwrap_or_else(|| Self { stamp, outcomes: Vec::new() })
    }

    /// Writes the state to `path`.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        Ok(fs::write(path, serde_json::to_string_pretty(self)?)?)
    }

    /// Returns the outcome of the mutant with this name.
    pub(crate) fn of(&self, name: &str) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.name == name)
    }
}

/// The fixture that caught each mutant in the last run. It is tried first, which only saves time.
pub(crate) type Caught = BTreeMap<String, String>;

/// Reads the hints.
pub(crate) fn caught(path: &Path) -> Result<Caught, Failure> {
    Ok(toml::from_str(&fs::read_to_string(path).unwrap_or_default())?)
}

/// Writes the hints of `outcomes`. Keeps the known hints of bugs if these are mutants, and those of mutants if these
/// are bugs.
pub(crate) fn remember(path: &Path, mut known: Caught, outcomes: &[Outcome]) -> Result<(), Failure> {
    let caught = |outcome: &Outcome| Some((outcome.name.clone(), outcome.caught_by.clone()?));
    let bugs = outcomes.first().is_some_and(|outcome| outcome.name.starts_with(BUG));
    known.retain(|name, _| name.starts_with(BUG) != bugs);
    known.extend(outcomes.iter().filter_map(caught).filter(|(_, by)| !by.starts_with('(')));
    let head = "# Which fixture caught which mutant last time; `just mutants --remember` writes it. Nothing depends on it but time:\n\
                # that fixture is tried first, then all the others.\n\n";
    Ok(fs::write(path, format!("{head}{}", toml::to_string(&known)?))?)
}

/// Renders the report in Markdown.
pub(crate) fn markdown(outcomes: &[Outcome], unviable: usize, config: &Config) -> String {
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
