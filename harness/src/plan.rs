//! Selects the fixtures to run and records why the others do not run. Pure: fixtures × capabilities × filter → plan.
//!
//! Every selected fixture is in the plan, either to be run or as a [`Skip`] with its reason.
//!
//! ```
//! use std::path::Path;
//! use plumbline::fixture::{Capability, parse};
//! use plumbline::plan::{Capabilities, Filter, Plan};
//!
//! let text = "promise: The server forgets old versions.\nrule: D-001\nlevel: core\nfeature: api.watch\n\
//!             steps: [{ compact: now }, { expect: { absent: pods/a } }]";
//! let (fixtures, _) = parse::read(Path::new("compaction.yaml"), "api", text);
//!
//! let mut offered = Capabilities::everything();
//! offered.capabilities.remove(&Capability::Compaction);
//! let plan = Plan::new(&fixtures, &offered, &Filter::default());
//! assert_eq!(plan.runs().count(), 0);
//! assert_eq!(plan.entries[0].skip.as_ref().unwrap().to_string(), "the cluster does not support: compaction");
//! ```

use std::collections::BTreeSet;
use std::fmt;

use crate::fixture::pattern::glob;
use crate::fixture::{Capability, Controller, Fixture, Level};

/// The capabilities of cluster and subject combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The capabilities of the cluster.
    pub capabilities: BTreeSet<Capability>,
    /// The controllers of the subject.
    pub controllers: BTreeSet<Controller>,
    /// Features of level `extended` that the subject declares, or globs such as `podgc.*`. Features of other levels
    /// need no declaration.
    pub features: BTreeSet<String>,
}

impl Capabilities {
    /// All capabilities, controllers and features.
    pub fn everything() -> Self {
        Self {
            capabilities: Capability::ALL.into_iter().collect(),
            controllers: Controller::ALL.into_iter().collect(),
            features: BTreeSet::from(["*".to_owned()]),
        }
    }
}

/// The fixtures that the user wants to run; empty parts select everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// A fixture must match one of these: a part of its id, a glob over the whole id (`podgc/*-40s`), or a rule id
    /// (`BR-24-03`).
    pub patterns: Vec<String>,
    /// Only these suites.
    pub suites: Vec<String>,
    /// Only these levels.
    pub levels: Vec<Level>,
}

impl Filter {
    /// Returns true if the filter selects this fixture.
    pub fn selects(&self, fixture: &Fixture) -> bool {
        let named = |pattern: &String| {
            fixture.rules.contains(pattern)
                || if pattern.contains('*') {
                    glob(pattern, &fixture.id)
                } else {
                    fixture.id.contains(pattern.as_str())
                }
        };
        (self.patterns.is_empty() || self.patterns.iter().any(named))
            && (self.suites.is_empty() || self.suites.contains(&fixture.suite))
            && (self.levels.is_empty() || self.levels.contains(&fixture.level))
    }
}

/// The reason why a fixture does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    /// The cluster lacks capabilities that the fixture requires.
    Lacks(Vec<Capability>),
    /// The subject does not have these controllers.
    NoController(Vec<Controller>),
    /// The subject does not declare the fixture's optional feature.
    Undeclared(String),
}

impl Skip {
    /// Returns true if the subject is the reason (reported as `unsupported`), not the cluster (`skip`).
    pub const fn is_unsupported(&self) -> bool {
        matches!(self, Self::NoController(_) | Self::Undeclared(_))
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacks(missing) => write!(f, "the cluster does not support: {}", list(missing)),
            Self::NoController(missing) => write!(f, "the subject does not run: {}", list(missing)),
            Self::Undeclared(feature) => write!(f, "the subject does not declare {feature}"),
        }
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// One entry of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanEntry<'a> {
    /// The fixture.
    pub fixture: &'a Fixture,
    /// The reason why it does not run; `None` if it runs.
    pub skip: Option<Skip>,
}

/// All selected fixtures, ordered by id.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan<'a> {
    /// The entries.
    pub entries: Vec<PlanEntry<'a>>,
}

impl<'a> Plan<'a> {
    /// Plans `fixtures` for `offered`. An empty plan means that the filter selects nothing, which a caller
    /// must treat as an error.
    pub fn new(fixtures: &'a [Fixture], offered: &Capabilities, filter: &Filter) -> Self {
        let mut entries: Vec<_> = fixtures
            .iter()
            .filter(|fixture| filter.selects(fixture))
            .map(|fixture| PlanEntry { fixture, skip: skip(fixture, offered) })
            .collect();
        entries.sort_by(|a, b| a.fixture.id.cmp(&b.fixture.id));
        Self { entries }
    }

    /// Returns the fixtures that run.
    pub fn runs(&self) -> impl Iterator<Item = &'a Fixture> + '_ {
        self.entries.iter().filter(|entry| entry.skip.is_none()).map(|entry| entry.fixture)
    }

    /// Returns the fixtures that do not run, with the reason.
    pub fn skips(&self) -> impl Iterator<Item = (&'a Fixture, &Skip)> + '_ {
        self.entries.iter().filter_map(|entry| entry.skip.as_ref().map(|skip| (entry.fixture, skip)))
    }
}

fn skip(fixture: &Fixture, offered: &Capabilities) -> Option<Skip> {
    let controllers: Vec<_> =
        fixture.controllers.iter().copied().filter(|c| !offered.controllers.contains(c)).collect();
    if !controllers.is_empty() {
        return Some(Skip::NoController(controllers));
    }
    let declared = || offered.features.iter().any(|pattern| glob(pattern, &fixture.feature));
    if fixture.level == Level::Extended && !declared() {
        return Some(Skip::Undeclared(fixture.feature.clone()));
    }
    let missing: Vec<_> = fixture.requires.difference(&offered.capabilities).copied().collect();
    (!missing.is_empty()).then_some(Skip::Lacks(missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InitialState, Traffic};

    fn fixture(id: &str, level: Level, feature: &str, requires: &[Capability]) -> Fixture {
        Fixture {
            id: id.to_owned(),
            suite: id.split('/').next().unwrap_or_default().to_owned(),
            file: "x.yaml".into(),
            row: None,
            promise: String::new(),
            rules: vec!["BR-24-03".to_owned()],
            level,
            feature: feature.to_owned(),
            source: Vec::new(),
            controllers: vec![Controller::PodGc],
            flags: std::collections::BTreeMap::new(),
            requires: requires.iter().copied().collect(),
            given: InitialState::default(),
            steps: Vec::new(),
            expect: Vec::new(),
            traffic: Traffic::default(),
            waive: std::collections::BTreeMap::new(),
            tolerance: std::time::Duration::from_secs(1),
            late: std::time::Duration::ZERO,
        }
    }

    fn skips(fixture: &Fixture, offered: &Capabilities) -> Option<String> {
        let all = [fixture.clone()];
        let plan = Plan::new(&all, offered, &Filter::default());
        plan.entries[0].skip.as_ref().map(ToString::to_string)
    }

    #[test]
    fn every_skip_has_a_reason() {
        let mut offered = Capabilities::everything();
        let plain = fixture("podgc/a", Level::Core, "podgc.orphaned", &[]);
        assert_eq!(skips(&plain, &offered), None);

        offered.capabilities.remove(&Capability::Faults);
        let faulty = fixture("podgc/a", Level::Core, "podgc.orphaned", &[Capability::Faults]);
        assert_eq!(skips(&faulty, &offered).as_deref(), Some("the cluster does not support: faults"));

        offered.features = BTreeSet::from(["ttl.*".to_owned()]);
        let extended = fixture("podgc/a", Level::Extended, "podgc.x", &[]);
        assert_eq!(skips(&extended, &offered).as_deref(), Some("the subject does not declare podgc.x"));
        assert_eq!(skips(&plain, &offered), None, "core features need no declaration");

        offered.controllers.remove(&Controller::PodGc);
        assert_eq!(skips(&plain, &offered).as_deref(), Some("the subject does not run: podgc"));
    }

    #[test]
    fn filters_select_by_id_glob_rule_suite_and_level() {
        let one = fixture("podgc/orphan[a]", Level::Core, "podgc.orphaned", &[]);
        let select = |patterns: &[&str], suites: &[&str], levels: &[Level]| {
            Filter {
                patterns: patterns.iter().map(|p| (*p).to_owned()).collect(),
                suites: suites.iter().map(|s| (*s).to_owned()).collect(),
                levels: levels.to_vec(),
            }
            .selects(&one)
        };
        assert!(select(&[], &[], &[]));
        assert!(select(&["orph"], &[], &[]));
        assert!(select(&["podgc/*]"], &[], &[]));
        assert!(select(&["BR-24-03"], &["podgc"], &[Level::Core]));
        assert!(!select(&["BR-24-0"], &[], &[]));
        assert!(!select(&["ttl/*"], &[], &[]));
        assert!(!select(&[], &["ttl"], &[]));
        assert!(!select(&[], &[], &[Level::Hardened]));
    }

    #[test]
    fn the_plan_is_in_order_of_ids() {
        let all = [fixture("b/b", Level::Core, "x", &[]), fixture("a/a", Level::Core, "x", &[])];
        let plan = Plan::new(&all, &Capabilities::everything(), &Filter::default());
        assert_eq!(plan.runs().map(|f| f.id.as_str()).collect::<Vec<_>>(), ["a/a", "b/b"]);
        assert_eq!(plan.skips().count(), 0);
    }
}
