//! Selection of fixtures by flags.

use std::path::{Path, PathBuf};

use clap::Args;

use super::CliError;
use crate::fixture::{Fixture, Level, parse};
use crate::plan::{Capabilities, Filter, Plan};

/// Flags that select fixtures.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Selection {
    /// Part of a fixture id, a glob over the whole id (`podgc/*-40s`), or a rule id (`BR-24-03`); with several, any may
    /// match
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,

    /// Only fixtures of this suite; may be repeated
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    suite: Vec<String>,

    /// Only fixtures of this level: core, extended, hardened, provisional
    #[arg(long, value_name = "LEVEL", value_delimiter = ',', value_parser = level)]
    level: Vec<Level>,

    #[command(flatten)]
    folder: FixturesFolder,
}

/// Location of fixtures.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct FixturesFolder {
    /// Folder of the fixtures [default: `fixtures` in this folder or a parent, then plumbline's own]
    #[arg(long, value_name = "DIR", env = "PLUMBLINE_FIXTURES")]
    fixtures: Option<PathBuf>,
}

fn level(text: &str) -> Result<Level, String> {
    Level::parse(text).ok_or_else(|| format!("expected one of {}", Level::ALL.map(Level::as_str).join(", ")))
}

impl FixturesFolder {
    /// Returns the folder.
    pub(super) fn find(&self) -> Result<PathBuf, CliError> {
        if let Some(folder) = &self.fixtures {
            let missing =
                || CliError::Environment(format!("the folder {} (--fixtures) does not exist", folder.display()));
            return folder.is_dir().then(|| folder.clone()).ok_or_else(missing);
        }
        let here = std::env::current_dir().unwrap_or_default();
        let above = here.ancestors().map(|folder| folder.join("fixtures"));
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("fixtures");
        let found = above.chain([own]).find(|folder| folder.is_dir());
        let found = found.ok_or_else(|| {
            CliError::Environment(format!(
                "no folder `fixtures` in {} or its parents; set it with --fixtures",
                here.display()
            ))
        })?;
        // Relative paths are shorter in reports.
        Ok(found.strip_prefix(&here).map(Path::to_owned).unwrap_or(found))
    }

    /// Reads all fixtures; fails if one of them is invalid.
    pub(super) fn load(&self) -> Result<Vec<Fixture>, CliError> {
        parse::load(&self.find()?).map_err(CliError::BadFixtures)
    }
}

impl Selection {
    /// Selects the fixtures that match `filter`.
    pub(super) fn one(filter: &str, folder: &FixturesFolder) -> Self {
        Self { filters: vec![filter.to_owned()], folder: folder.clone(), ..Self::default() }
    }

    /// Reads all fixtures.
    pub(super) fn load(&self) -> Result<Vec<Fixture>, CliError> {
        self.folder.load()
    }

    /// Plans the selected fixtures; an empty selection is an error.
    pub(super) fn plan<'a>(&self, fixtures: &'a [Fixture], place: &Capabilities) -> Result<Plan<'a>, CliError> {
        let filter = Filter { patterns: self.filters.clone(), suites: self.suite.clone(), levels: self.level.clone() };
        let plan = Plan::new(fixtures, place, &filter);
        if plan.entries.is_empty() {
            let known =
                fixtures.iter().map(|fixture| fixture.suite.as_str()).collect::<std::collections::BTreeSet<_>>();
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            let asked = self.asked();
            let message =
                format!("{asked} selects none of {} fixtures (suites: {known}); see `plumbline list`", fixtures.len());
            return Err(CliError::Nothing(message));
        }
        Ok(plan)
    }

    fn asked(&self) -> String {
        let levels = self.level.iter().map(|level| format!("--level {level}"));
        let suites = self.suite.iter().map(|suite| format!("--suite {suite}"));
        let words: Vec<String> = self.filters.iter().cloned().chain(suites).chain(levels).collect();
        if words.is_empty() { "the fixtures folder".to_owned() } else { words.join(" ") }
    }
}
