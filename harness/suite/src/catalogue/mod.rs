//! Maps Kubernetes' behaviours, rules and bugs to the fixtures that cover them.
//!
//! `fixtures/catalogue.yaml` lists every known behaviour, rule and bug; `fixtures/NOT-COVERED.md` lists those that
//! black-box tests cannot observe, with the reason. Every other id needs a fixture that cites it, or an always-on
//! invariant. [`CoverageMap::gaps`] lists the inconsistencies; a test and `cargo run -p xtask -- catalogue` fail if
//! there are any.
//!
//! ```text
//! catalogue.yaml ─┐
//! NOT-COVERED.md ─┼─► Map ─► rows: id, fixtures, snapshots, source ─► render ─► table, Markdown, HTML, JSON
//! fixtures, snaps ┘    └──► gaps
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use plumbline::fixture::{Fixture, ReleaseRange};
use plumbline::invariants;

use crate::snapshot;

pub mod read;

pub use read::{Catalogue, Exclusion};

/// A part of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// The upstream source: files and functions, or a document.
    pub source: String,
    /// The entries of the section.
    pub entries: Vec<CatalogueEntry>,
}

/// A behaviour, a rule, an invariant, or a bug.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// The id: `D-050`, `BR-24-03`, `I-G2`; for a bug `#82149` or `vcluster#699`.
    pub id: String,
    /// For a bug: further issue numbers.
    pub also: Vec<String>,
    /// Description in one line.
    pub what: String,
    /// The releases of Kubernetes in which it holds.
    pub releases: ReleaseRange,
    /// For a bug: the rules whose fixtures cover it.
    pub rules: Vec<String>,
    /// For a design document's rule: the cases at its boundary.
    pub at: Vec<String>,
    /// For a design document's rule: the cases beyond its boundary.
    pub beyond: Vec<String>,
}

impl CatalogueEntry {
    fn is_bug(&self) -> bool {
        self.id.contains('#')
    }

    /// Returns true if a source such as `kubernetes/kubernetes#82149` cites this bug.
    fn is_cited_by(&self, source: &str) -> bool {
        std::iter::once(&self.id).chain(&self.also).filter(|id| id.contains('#')).any(|id| {
            let ends = |at: usize| !source[at + id.len()..].starts_with(|c: char| c.is_ascii_digit());
            source.match_indices(id.as_str()).any(|(at, _)| ends(at) && (at > 0 || !id.starts_with('#')))
        })
    }
}

/// Returns a sentence for each rule of the catalogue in the fixtures folder `root`, with the design document that asks
/// for it, if one does; none if there is no catalogue that can be read.
#[must_use]
pub fn sentences(root: &Path) -> BTreeMap<String, String> {
    let sections = Catalogue::load(root).map(|catalogue| catalogue.sections).unwrap_or_default();
    let sentence = |section: &Section, entry: &CatalogueEntry| match section.source.split_once(',') {
        _ if !section.source.starts_with(DOCUMENT) => entry.what.clone(),
        document => format!("{} ({})", entry.what, document.map_or(section.source.as_str(), |(name, _)| name)),
    };
    let of_section = |section: &Section| {
        section.entries.iter().map(|entry| (entry.id.clone(), sentence(section, entry))).collect::<Vec<_>>()
    };
    sections.iter().flat_map(of_section).collect()
}

/// Start of the sources that are design documents; see `harness/KUBERNETES.md`.
const DOCUMENT: &str = "design document ";

/// A row of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoverageRow<'a> {
    /// The catalogue's entry.
    pub entry: &'a CatalogueEntry,
    /// The section's source.
    pub source: &'a str,
    /// The fixture files that cover it, and the number of cases in each.
    pub fixtures: Vec<(String, usize)>,
    /// The always-on invariants that check it.
    pub invariants: Vec<&'static str>,
    /// The reason why it is not covered.
    pub exclusion: Option<&'a str>,
}

impl CoverageRow<'_> {
    fn is_covered(&self) -> bool {
        !self.fixtures.is_empty() || !self.invariants.is_empty()
    }

    /// Returns the number of cases that cover it.
    #[must_use]
    pub fn cases(&self) -> usize {
        self.fixtures.iter().map(|(_, cases)| cases).sum()
    }

    /// Returns the paths of its fixtures' snapshots, relative to the root of the repository.
    #[must_use]
    pub fn snapshots(&self) -> Vec<PathBuf> {
        self.fixtures.iter().map(|(stem, _)| snapshot::file(Path::new("snapshots"), stem)).collect()
    }
}

/// The whole map.
#[derive(Clone, Debug)]
pub struct CoverageMap<'a> {
    /// The sections: title and rows.
    pub sections: Vec<(&'a str, Vec<CoverageRow<'a>>)>,
    /// The inconsistencies, one sentence each.
    pub gaps: Vec<String>,
}

impl<'a> CoverageMap<'a> {
    /// Maps `catalogue` to `fixtures`. Snapshots are expected in `snapshots`.
    #[must_use]
    pub fn new(catalogue: &'a Catalogue, fixtures: &[Fixture], snapshots: &Path) -> Self {
        let sections: Vec<(&str, Vec<CoverageRow<'_>>)> = catalogue
            .sections
            .iter()
            .map(|section| {
                let row = |entry| row(entry, section, &catalogue.exclusions, fixtures);
                (section.title.as_str(), section.entries.iter().map(row).collect())
            })
            .collect();
        let mut gaps = Vec::new();
        sections.iter().flat_map(|(_, rows)| rows).for_each(|row| gaps.extend(gap(row)));
        gaps.extend(unknown_ids(catalogue, fixtures));
        gaps.extend(bounds(catalogue, fixtures));
        gaps.extend(releases(catalogue, fixtures));
        let stems: BTreeSet<&str> = fixtures.iter().map(Fixture::stem).collect();
        let missing = stems.into_iter().filter(|stem| !snapshot::file(snapshots, stem).is_file());
        gaps.extend(missing.map(|stem| format!("{stem} has no snapshot")));
        Self { sections, gaps }
    }

    /// Returns all rows.
    pub fn rows(&self) -> impl Iterator<Item = &CoverageRow<'a>> {
        self.sections.iter().flat_map(|(_, rows)| rows)
    }
}

fn row<'a>(
    entry: &'a CatalogueEntry,
    section: &'a Section,
    exclusions: &'a [Exclusion],
    fixtures: &[Fixture],
) -> CoverageRow<'a> {
    let shows = |fixture: &&Fixture| {
        fixture.rules.iter().any(|rule| *rule == entry.id || entry.rules.contains(rule))
            || entry.is_bug() && fixture.source.iter().any(|source| entry.is_cited_by(source))
    };
    let mut stems: Vec<(String, usize)> = Vec::new();
    for fixture in fixtures.iter().filter(shows) {
        match stems.iter_mut().find(|(stem, _)| stem == fixture.stem()) {
            Some((_, cases)) => *cases += 1,
            None => stems.push((fixture.stem().to_owned(), 1)),
        }
    }
    let checks = |id: &str| *id == entry.id || entry.rules.iter().any(|rule| rule == id);
    let invariants = invariants::ALL.iter().filter(|one| one.ids.iter().any(|id| checks(id))).map(|one| one.name);
    let exclusion =
        exclusions.iter().find(|exclusion| exclusion.id == entry.id).map(|exclusion| exclusion.reason.as_str());
    CoverageRow { entry, source: &section.source, fixtures: stems, invariants: invariants.collect(), exclusion }
}

fn gap(row: &CoverageRow<'_>) -> Option<String> {
    let CatalogueEntry { id, what, .. } = row.entry;
    match row.exclusion {
        None if !row.is_covered() => {
            Some(format!("{id} ({what}) has no fixture: write one that cites it, or give the reason in NOT-COVERED.md"))
        }
        Some(_) if row.is_covered() => {
            let shown = row.fixtures.iter().map(|(stem, _)| stem.as_str());
            let checked = row.invariants.iter().copied();
            let by = shown.chain(checked).next().unwrap_or_default();
            Some(format!("{id} is covered by {by}, but NOT-COVERED.md lists it"))
        }
        None if id.starts_with("BR-") && (row.entry.at.is_empty() || row.entry.beyond.is_empty()) => Some(format!(
            "{id} ({what}) needs a case at its boundary and one beyond it: name them in `bounds` of catalogue.yaml"
        )),
        _ => None,
    }
}

/// Returns gaps for the boundary cases of rules: cases that do not exist, do not cite the rule, or are listed on both
/// sides.
fn bounds(catalogue: &Catalogue, fixtures: &[Fixture]) -> Vec<String> {
    let entries = catalogue.sections.iter().flat_map(|section| &section.entries);
    let named = entries.flat_map(|entry| entry.at.iter().chain(&entry.beyond).map(move |case| (entry, case)));
    let wrong = |(entry, case): (&CatalogueEntry, &String)| {
        let id = &entry.id;
        match fixtures.iter().find(|fixture| fixture.id == *case) {
            None => Some(format!("{id} names {case}, which is not a case of any fixture")),
            Some(fixture) if !fixture.rules.contains(id) => Some(format!("{id} names {case}, which does not cite it")),
            Some(_) if entry.at.contains(case) && entry.beyond.contains(case) => {
                Some(format!("{id} names {case} both at its boundary and beyond it"))
            }
            Some(_) => None,
        }
    };
    named.filter_map(wrong).collect()
}

/// Returns gaps for fixtures that also run in releases in which their rules do not hold.
fn releases(catalogue: &Catalogue, fixtures: &[Fixture]) -> Vec<String> {
    let limited = catalogue.sections.iter().flat_map(|section| &section.entries);
    let limited = limited.filter(|entry| !entry.releases.is_unlimited());
    let wider = limited.flat_map(|entry| {
        let cites = move |fixture: &&Fixture| fixture.rules.contains(&entry.id);
        let cited = fixtures.iter().filter(cites).filter(|fixture| !entry.releases.covers(&fixture.releases));
        cited.map(move |fixture| {
            let holds = entry.releases;
            let runs = fixture.releases;
            format!("{} cites {}, which is about {holds}, but is itself about {runs}", fixture.stem(), entry.id)
        })
    });
    let wider: BTreeSet<String> = wider.collect();
    wider.into_iter().collect()
}

/// Returns gaps for ids that the catalogue does not contain.
fn unknown_ids(catalogue: &Catalogue, fixtures: &[Fixture]) -> Vec<String> {
    let known: BTreeSet<&str> =
        catalogue.sections.iter().flat_map(|section| &section.entries).map(|entry| entry.id.as_str()).collect();
    let cited = fixtures.iter().flat_map(|fixture| {
        let whose = |rule: &'_ String| (rule.clone(), fixture.stem().to_owned());
        fixture.rules.iter().map(whose)
    });
    let cited =
        cited.chain(catalogue.exclusions.iter().map(|exclusion| (exclusion.id.clone(), "NOT-COVERED.md".to_owned())));
    let behind = catalogue.sections.iter().flat_map(|section| &section.entries);
    let behind = behind.flat_map(|entry| entry.rules.iter().map(|rule| (rule.clone(), entry.id.clone())));
    let unknown: BTreeSet<_> = cited.chain(behind).filter(|(id, _)| !known.contains(id.as_str())).collect();
    unknown.into_iter().map(|(id, whose)| format!("{whose} cites {id}, which is not in the catalogue")).collect()
}
