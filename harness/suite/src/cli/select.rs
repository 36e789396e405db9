//! Selection of fixtures by flags.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Args;
use plumbline::fixture::{Fixture, Level, parse};

use super::error::CliError;
use super::value::ValueError;
use crate::catalogue;
use crate::fixtures::embedded;
use crate::plan::{Capabilities, Filter, FilterPart, Plan};

/// Flags that select fixtures.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Selection {
    /// Part of a fixture id, a glob over the whole id (`podgc/*-40s`), or a rule id (`BR-24-03`); with several, any may
    /// match. One that matches nothing is an error
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,

    /// Only fixtures of this suite; may be repeated
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    suite: Vec<String>,

    /// Only fixtures of this level: core, extended, hardened, upstream, provisional
    #[arg(long, value_name = "LEVEL", value_delimiter = ',', value_parser = level)]
    level: Vec<Level>,

    #[command(flatten)]
    folder: FixturesFolder,
}

impl Selection {
    /// Returns true if no flag selects fixtures.
    pub(super) fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.suite.is_empty() && self.level.is_empty()
    }
}

/// The most files that are read to find out whether a folder has fixtures.
const MOST_LOOKS: usize = 100;

/// The archive of the fixtures that the program carries.
static CARRIED: OnceLock<&'static [u8]> = OnceLock::new();

/// Sets the archive of the fixtures that the program carries.
pub(super) fn carry(fixtures: &'static [u8]) {
    // The first call counts.
    let _ = CARRIED.set(fixtures);
}

/// Location of fixtures.
#[derive(Debug, Clone, Default, Args)]
pub struct FixturesFolder {
    /// Folder of the fixtures [default: a folder `fixtures` with fixtures, here or above; then its own]
    #[arg(long, value_name = "DIR", env = "PLUMBLINE_FIXTURES")]
    fixtures: Option<PathBuf>,
}

/// Returns true if fixtures are named by the environment, or are in this folder or one above it.
pub(super) fn has_fixtures_nearby() -> bool {
    let here = std::env::current_dir().unwrap_or_default();
    std::env::var_os("PLUMBLINE_FIXTURES").is_some() || nearest_fixtures(&here).is_some()
}

/// Returns the folder of fixtures in a folder, or in the nearest one above it.
fn nearest_fixtures(here: &Path) -> Option<PathBuf> {
    here.ancestors().map(|folder| folder.join("fixtures")).find(|folder| holds_fixtures(folder))
}

/// Returns true if a folder has a catalogue, or a file with a promise in one of its folders. Many projects have another
/// folder of that name.
fn holds_fixtures(folder: &Path) -> bool {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml");
    let has_promise = |path: PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.starts_with("promise:"))
    };
    folder.join(catalogue::read::FILE).is_file()
        || entries(folder).flat_map(|suite| entries(&suite)).filter(is_yaml).take(MOST_LOOKS).any(has_promise)
}

fn level(text: &str) -> Result<Level, ValueError> {
    let known = || Level::ALL.map(Level::as_str).join(", ");
    Level::parse(text).ok_or_else(|| ValueError::new(format!("expected one of {}", known())))
}

impl FixturesFolder {
    /// Returns the folder.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    pub fn find(&self) -> Result<PathBuf, CliError> {
        if let Some(folder) = &self.fixtures {
            let missing =
                || CliError::Environment(format!("the folder {} (--fixtures) does not exist", folder.display()));
            return folder.is_dir().then(|| folder.clone()).ok_or_else(missing);
        }
        let here = std::env::current_dir().unwrap_or_default();
        let found = match (nearest_fixtures(&here), CARRIED.get()) {
            (Some(folder), _) => folder,
            (None, Some(carried)) => embedded::unpack(carried).map_err(|error| {
                CliError::Environment(format!("unable to unpack the fixtures: {error}; set a folder with --fixtures"))
            })?,
            (None, None) => {
                let here = here.display();
                let message =
                    format!("no folder `fixtures` with fixtures in {here} or its parents; set it with --fixtures");
                return Err(CliError::Environment(message));
            }
        };
        // Relative paths are shorter in reports.
        Ok(found.strip_prefix(&here).map(Path::to_owned).unwrap_or(found))
    }

    /// Reads all fixtures, with the sentences of their rules; fails if one of them is invalid.
    pub fn load(&self) -> Result<Vec<Fixture>, CliError> {
        self.load_where(|_| true)
    }

    /// Reads the fixtures of the files that `wanted` names.
    fn load_where(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<Fixture>, CliError> {
        let root = self.find()?;
        let mut fixtures = parse::load_where(&root, wanted).map_err(CliError::BadFixtures)?;
        let sentences = catalogue::sentences(&root);
        for fixture in &mut fixtures {
            let known = fixture.rules.iter().filter_map(|rule| Some((rule.clone(), sentences.get(rule)?.clone())));
            fixture.rule_texts = known.collect();
        }
        Ok(fixtures)
    }
}

impl Selection {
    /// Selects the fixtures that match `filter`.
    pub(super) fn one(filter: &str, folder: &FixturesFolder) -> Self {
        Self { filters: vec![filter.to_owned()], folder: folder.clone(), ..Self::default() }
    }

    /// Returns the location of the fixtures.
    pub(super) const fn folder(&self) -> &FixturesFolder {
        &self.folder
    }

    /// Reads the fixtures of all files that could be selected.
    ///
    /// # Errors
    ///
    /// Returns an error if a fixture is invalid or a filter selects none.
    pub(super) fn load(&self) -> Result<Vec<Fixture>, CliError> {
        let filter = self.filter();
        let some = self.folder.load_where(|file| filter.may_select(file))?;
        if self.check(&some).is_ok() {
            return Ok(some);
        }
        // The message names what there is.
        let all = self.folder.load()?;
        self.check(&all)?;
        Ok(all)
    }

    /// Plans the selected fixtures; an empty selection is an error.
    pub(super) fn plan<'a>(&self, fixtures: &'a [Fixture], place: &Capabilities) -> Result<Plan<'a>, CliError> {
        let plan = Plan::new(fixtures, place, &self.filter());
        if plan.entries.is_empty() {
            let asked = self.asked();
            return Err(CliError::Nothing(format!("{asked} selects none of {} fixtures", fixtures.len())));
        }
        Ok(plan)
    }

    /// Returns the first filter.
    pub(super) fn first(&self) -> Option<&str> {
        self.filters.first().map(String::as_str)
    }

    fn filter(&self) -> Filter {
        Filter { patterns: self.filters.clone(), suites: self.suite.clone(), levels: self.level.clone() }
    }

    /// Fails if one of the filters selects nothing: it is probably misspelt.
    fn check(&self, fixtures: &[Fixture]) -> Result<(), CliError> {
        let filter = self.filter();
        let idle = filter.idle_parts(fixtures);
        let Some(first) = idle.first() else { return Ok(()) };
        let first = match first {
            FilterPart::Pattern(pattern) => Some((*pattern).to_owned()),
            FilterPart::Suite(_) | FilterPart::Level(_) => None,
        };
        let lines: Vec<String> = idle.iter().map(|part| idle_line(part, &filter, fixtures)).collect();
        let message = format!("{}; see `plumbline list`", lines.join("\n"));
        Err(CliError::IdleFilter { first, message })
    }

    /// Returns the filters and flags that select the same fixtures, quoted for a shell.
    pub(super) fn words(&self) -> String {
        let levels = self.level.iter().map(|level| format!("--level {level}"));
        let suites = self.suite.iter().map(|suite| format!("--suite {}", shell_words::quote(suite)));
        let filters = self.filters.iter().map(|filter| shell_words::quote(filter).into_owned());
        filters.chain(suites).chain(levels).collect::<Vec<_>>().join(" ")
    }

    fn asked(&self) -> String {
        let words = self.words();
        if words.is_empty() { "the fixtures folder".to_owned() } else { words }
    }
}

/// Describes a filter that selects nothing, with the nearest word.
fn idle_line(part: &FilterPart<'_>, filter: &Filter, fixtures: &[Fixture]) -> String {
    let (what, scope) = match part {
        FilterPart::Pattern(pattern) => {
            let suites = filter.suites.iter().map(|suite| format!(" --suite {suite}"));
            let levels = filter.levels.iter().map(|level| format!(" --level {level}"));
            (format!("`{pattern}`"), suites.chain(levels).collect::<String>())
        }
        FilterPart::Suite(suite) => (format!("--suite {suite}"), String::new()),
        FilterPart::Level(level) => (format!("--level {level}"), String::new()),
    };
    let scope = if scope.is_empty() { scope } else { format!(" with{scope}") };
    let suites: BTreeSet<&str> = fixtures.iter().map(|fixture| fixture.suite.as_str()).collect();
    let known = || format!("suites: {}", suites.into_iter().collect::<Vec<_>>().join(", "));
    let hint = part.suggestion(fixtures).unwrap_or_else(known);
    format!("{what}{scope} selects none of {} fixtures ({hint})", fixtures.len())
}
