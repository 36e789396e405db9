//! Selects the fixtures to run and records why the others do not run. Pure: fixtures × capabilities × filter → plan.
//!
//! Every selected fixture is in the plan, either to be run or as a [`Skip`] with its reason.

use std::collections::BTreeSet;
use std::fmt;

use plumbline::fixture::error::nearest;
use plumbline::fixture::pattern::glob;
use plumbline::fixture::{Capability, Controller, Fixture, Level, Release, ReleaseRange};

/// The capabilities of cluster and subject combined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The capabilities of the cluster.
    pub capabilities: BTreeSet<Capability>,
    /// The controllers of the subject.
    pub controllers: BTreeSet<Controller>,
    /// Optional features that the subject declares, or globs such as `podgc.*`: those of level `extended`, and those
    /// that are optional at any level. Other features need no declaration.
    pub features: BTreeSet<String>,
    /// The release of Kubernetes that is judged; `None` selects the fixtures of every release.
    pub release: Option<Release>,
}

impl Capabilities {
    /// All capabilities, controllers, features and releases.
    pub fn everything() -> Self {
        Self {
            capabilities: Capability::ALL.into_iter().collect(),
            controllers: Controller::ALL.into_iter().collect(),
            features: BTreeSet::from(["*".to_owned()]),
            release: None,
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
        let named = |pattern: &String| names(pattern, fixture);
        (self.patterns.is_empty() || self.patterns.iter().any(named)) && self.has_suite_and_level(fixture)
    }

    /// Returns false if the filter selects no fixture of the file `<suite>/<name>`, by that name alone.
    pub fn may_select(&self, file: &str) -> bool {
        let suite = file.split('/').next().unwrap_or_default();
        (self.suites.is_empty() || self.suites.iter().any(|known| known == suite))
            && (self.patterns.is_empty() || self.patterns.iter().any(|pattern| may_name(pattern, file)))
    }

    fn has_suite_and_level(&self, fixture: &Fixture) -> bool {
        (self.suites.is_empty() || self.suites.contains(&fixture.suite))
            && (self.levels.is_empty() || self.levels.contains(&fixture.level))
    }

    /// Returns the parts of the filter that select none of `fixtures`: suites and levels on their own, patterns among
    /// the fixtures of the suites and levels.
    pub fn idle_parts<'a>(&'a self, fixtures: &[Fixture]) -> Vec<FilterPart<'a>> {
        let suites = self.suites.iter().filter(|suite| !fixtures.iter().any(|fixture| fixture.suite == **suite));
        let levels = self.levels.iter().filter(|level| !fixtures.iter().any(|fixture| fixture.level == **level));
        let parts: Vec<FilterPart<'a>> =
            suites.map(|suite| FilterPart::Suite(suite)).chain(levels.map(|level| FilterPart::Level(*level))).collect();
        if !parts.is_empty() {
            return parts;
        }
        let selects =
            |pattern: &&String| fixtures.iter().any(|one| names(pattern, one) && self.has_suite_and_level(one));
        self.patterns.iter().filter(|pattern| !selects(pattern)).map(|pattern| FilterPart::Pattern(pattern)).collect()
    }
}

/// Returns true if `pattern` names the fixture: a part of its id, a glob over the whole id, or one of its rules.
fn names(pattern: &str, fixture: &Fixture) -> bool {
    fixture.rules.iter().any(|rule| rule == pattern)
        || if pattern.contains('*') { glob(pattern, &fixture.id) } else { fixture.id.contains(pattern) }
}

/// Returns false if `pattern` names no fixture of the file `<suite>/<name>`. The ids of rows, in brackets, have no
/// slash.
fn may_name(pattern: &str, file: &str) -> bool {
    if !pattern.contains('/') {
        return true;
    }
    let start = pattern.split(['*', '[']).next().unwrap_or_default();
    if pattern.contains('*') { file.starts_with(start) } else { file.contains(start) }
}

/// A part of a [`Filter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterPart<'a> {
    /// A pattern.
    Pattern(&'a str),
    /// A suite.
    Suite(&'a str),
    /// A level.
    Level(Level),
}

impl FilterPart<'_> {
    /// Returns `did you mean …` with the nearest thing that `fixtures` have.
    pub fn suggestion(&self, fixtures: &[Fixture]) -> Option<String> {
        let suites: BTreeSet<&str> = fixtures.iter().map(|fixture| fixture.suite.as_str()).collect();
        match self {
            Self::Suite(suite) => nearest(suite, suites.iter().copied()).map(str::to_owned),
            Self::Level(_) => None,
            Self::Pattern(pattern) => pattern_suggestion(pattern, &suites, fixtures),
        }
        .map(|near| format!("did you mean `{near}`?"))
    }
}

fn pattern_suggestion(pattern: &str, suites: &BTreeSet<&str>, fixtures: &[Fixture]) -> Option<String> {
    let id = |text: &str| nearest(text, fixtures.iter().flat_map(ids)).map(str::to_owned);
    let word = |text: &str| nearest(text, fixtures.iter().flat_map(words).chain(suites.iter().copied()));
    let Some((suite, name)) = pattern.split_once('/') else { return word(pattern).map(str::to_owned) };
    let word_of_name = || word(name.trim_matches(['*', '-'])).map(str::to_owned);
    if suites.contains(suite) {
        return id(pattern).or_else(word_of_name);
    }
    let Some(near) = nearest(suite, suites.iter().copied()) else {
        return id(pattern).or_else(word_of_name);
    };
    let mended = format!("{near}/{name}");
    if fixtures.iter().any(|fixture| names(&mended, fixture)) {
        return Some(mended);
    }
    id(&mended).or_else(|| Some(near.to_owned()))
}

/// Returns the id of a fixture, and its id without the row.
fn ids(fixture: &Fixture) -> [&str; 2] {
    [fixture.id.as_str(), fixture.id.split('[').next().unwrap_or_default()]
}

/// Returns everything that may be typed for a fixture: ids, the name in its suite, the parts of the name, rules.
fn words(fixture: &Fixture) -> impl Iterator<Item = &str> {
    let name = ids(fixture)[1].split('/').next_back().unwrap_or_default();
    let long = name.split('-').filter(|part| part.len() > 3);
    ids(fixture).into_iter().chain([name]).chain(long).chain(fixture.rules.iter().map(String::as_str))
}

/// The reason why a fixture does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    /// The cluster lacks capabilities that the fixture requires.
    Lacks(Vec<Capability>),
    /// The fixture is about other releases of Kubernetes than the judged one.
    OtherRelease {
        /// The releases of the fixture.
        holds: ReleaseRange,
        /// The judged release.
        judged: Release,
    },
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
            Self::OtherRelease { holds, judged } => write!(f, "is about {holds}; this run judges {judged}"),
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
    if let Some(judged) = offered.release.filter(|release| !fixture.releases.contains(*release)) {
        return Some(Skip::OtherRelease { holds: fixture.releases, judged });
    }
    let controllers: Vec<_> =
        fixture.controllers.iter().copied().filter(|c| !offered.controllers.contains(c)).collect();
    if !controllers.is_empty() {
        return Some(Skip::NoController(controllers));
    }
    let declared = || offered.features.iter().any(|pattern| glob(pattern, &fixture.feature));
    if fixture.needs_declaration() && !declared() {
        return Some(Skip::Undeclared(fixture.feature.clone()));
    }
    let missing: Vec<_> = fixture.requires.difference(&offered.capabilities).copied().collect();
    (!missing.is_empty()).then_some(Skip::Lacks(missing))
}

#[cfg(test)]
mod tests {
    use plumbline::fixture::Traffic;
    use rstest::rstest;

    use super::*;

    fn fixture(id: &str, level: Level, feature: &str, requires: &[Capability]) -> Fixture {
        Fixture {
            id: id.to_owned(),
            suite: id.split('/').next().unwrap_or_default().to_owned(),
            rules: vec!["BR-24-03".to_owned()],
            level,
            feature: feature.to_owned(),
            controllers: vec![Controller::PodGc],
            requires: requires.iter().copied().collect(),
            ..Fixture::of_expectations(Vec::new(), Traffic::default())
        }
    }

    fn skips(fixture: &Fixture, offered: &Capabilities) -> Option<String> {
        let all = [fixture.clone()];
        let plan = Plan::new(&all, offered, &Filter::default());
        plan.entries[0].skip.as_ref().map(ToString::to_string)
    }

    #[rstest]
    #[case::no_pattern("", "podgc/gone", true)]
    #[case::part_without_a_suite("gone", "ttl/a", true)]
    #[case::whole("podgc/gone", "podgc/gone", true)]
    #[case::part("gc/go", "podgc/gone", true)]
    #[case::row("podgc/gone[a%]", "podgc/gone", true)]
    #[case::longer_name_without_need("podgc/gone[a%]", "podgc/gone-b", true)]
    #[case::glob("podgc/*[a]", "podgc/gone", true)]
    #[case::glob_of_rows("podgc/gone[*", "podgc/gone", true)]
    #[case::glob_of_another_suite("ttl/*", "podgc/gone", false)]
    #[case::glob_from_the_start("*/gone", "podgc/gone", true)]
    #[case::another("ttl/gone", "podgc/gone", false)]
    fn files(#[case] pattern: &str, #[case] file: &str, #[case] expected: bool) {
        let patterns = Some(pattern.to_owned()).filter(|pattern| !pattern.is_empty()).into_iter().collect();
        let filter = Filter { patterns, ..Filter::default() };
        assert_eq!(filter.may_select(file), expected);
        let fixture = fixture(&format!("{file}[a%]"), Level::Core, "x", &[]);
        assert!(filter.may_select(file) || !filter.selects(&fixture));
        let other = Filter { suites: vec!["faults".to_owned()], ..filter };
        assert!(!other.may_select(file));
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
        let election = fixture("ttl/a", Level::Hardened, "faults.leader-election", &[]);
        let why = skips(&election, &offered);
        assert_eq!(why.as_deref(), Some("the subject does not declare faults.leader-election"), "at any level");

        offered.release = Release::parse("1.36");
        let newer = ReleaseRange { since: Release::parse("1.37"), until: None };
        let since = Fixture { releases: newer, ..plain.clone() };
        assert_eq!(
            skips(&since, &offered).as_deref(),
            Some("is about Kubernetes 1.37 and later; this run judges 1.36")
        );
        offered.release = Release::parse("1.37");
        assert_eq!(skips(&since, &offered), None);
        assert_eq!(skips(&plain, &offered), None, "without a range it holds in every release");

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

    #[rstest]
    #[case::each_pattern(&["podgc/*", "typo", "ttl/b"], &[], &[], "Pattern(typo)")]
    #[case::within_the_suite(&["ttl/b"], &["podgc"], &[], "Pattern(ttl/b)")]
    #[case::within_the_level(&["podgc/orphan"], &[], &[Level::Hardened], "Pattern(podgc/orphan)")]
    #[case::suites_and_levels_first(&["x"], &["podgc", "pdogc"], &[Level::Extended], "Suite(pdogc) Level(Extended)")]
    #[case::none(&["BR-24-03", "orphan"], &["podgc", "ttl"], &[Level::Core], "")]
    #[case::no_filter(&[], &[], &[], "")]
    fn parts_that_select_nothing(
        #[case] patterns: &[&str],
        #[case] suites: &[&str],
        #[case] levels: &[Level],
        #[case] expected: &str,
    ) {
        let all = [fixture("podgc/orphan[a]", Level::Core, "x", &[]), fixture("ttl/b", Level::Hardened, "x", &[])];
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let filter = Filter { patterns: owned(patterns), suites: owned(suites), levels: levels.to_vec() };
        let idle: Vec<String> =
            filter.idle_parts(&all).iter().map(|part| format!("{part:?}").replace('"', "")).collect();
        assert_eq!(idle.join(" "), expected);
    }

    #[rstest]
    #[case::id("podgc/orphned-quarantine", Some("podgc/orphaned-quarantine"))]
    #[case::row("podgc/orphaned-quarantine[39]", Some("podgc/orphaned-quarantine[40s]"))]
    #[case::suite("pdogc/*", Some("podgc/*"))]
    #[case::suite_and_name("pdogc/xyz*", Some("podgc"))]
    #[case::name("x/orphaned-quarantin", Some("orphaned-quarantine"))]
    #[case::part_of_a_name("orphanned", Some("orphaned"))]
    #[case::part_of_a_name_in_its_suite("podgc/orphanned", Some("orphaned"))]
    #[case::glob("podgc/orphanned-*", Some("orphaned"))]
    #[case::rule("BR-2403", Some("BR-24-03"))]
    #[case::nothing_is_near("nonsense", None)]
    fn nearest_words(#[case] typed: &str, #[case] near: Option<&str>) {
        let all = [fixture("podgc/orphaned-quarantine[40s]", Level::Core, "x", &[])];
        let described = FilterPart::Pattern(typed).suggestion(&all);
        assert_eq!(described, near.map(|near| format!("did you mean `{near}`?")));
        assert_eq!(FilterPart::Suite("pod-gc").suggestion(&all).as_deref(), Some("did you mean `podgc`?"));
    }

    #[test]
    fn the_plan_is_in_order_of_ids() {
        let all = [fixture("b/b", Level::Core, "x", &[]), fixture("a/a", Level::Core, "x", &[])];
        let plan = Plan::new(&all, &Capabilities::everything(), &Filter::default());
        assert_eq!(plan.runs().map(|f| f.id.as_str()).collect::<Vec<_>>(), ["a/a", "b/b"]);
        assert_eq!(plan.skips().count(), 0);
    }
}
