//! The result of an exploration as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use plumbline::explore::findings::Finding;
use plumbline::fixture::{Controller, Fixture};
use serde::{Deserialize, Serialize};

use crate::explore::run::marks;
use crate::explore::search::coverage::{Coverage, StrategyCoverage};
use crate::explore::search::{Exploration, ExploreOptions, Strategy};
use crate::plural::counted;

/// Number of fixtures and marks that the text lists; the JSON document has all of them.
const SHOWN: usize = 8;

/// The part of its plans that an exploration tries at least, as a divisor: without findings, fewer say little.
const LEAST_PART: usize = 10;

/// Returns the reason why no finding says little, if so few plans were tried.
pub(crate) fn too_few(tried: usize, planned: usize) -> Option<String> {
    let reason =
        || format!("only {tried} of {planned} plans were tried, so that no finding says little: raise --budget");
    (tried * LEAST_PART < planned).then(reason)
}

/// The document about an exploration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExploreReport {
    /// `plumbline/v1`
    pub api_version: String,
    /// `Exploration`
    pub kind: String,
    /// The subject's name.
    pub subject: String,
    /// The plans that were tried: `single`, `pairs`, `order`, `random`, `all`.
    pub strategy: String,
    /// Decides the order of the plans.
    pub seed: u64,
    /// This part and the number of parts.
    pub shard: (u64, u64),
    /// Number of runs, including those without faults.
    pub runs: u64,
    /// Runs per hour of wall time.
    pub runs_per_hour: u64,
    /// Wall time in milliseconds.
    pub wall_millis: u64,
    /// Number of fixtures that were explored.
    pub fixtures: usize,
    /// Number of random worlds.
    #[serde(default)]
    pub worlds: u64,
    /// Number of points at which faults can happen.
    pub points: usize,
    /// Number of plans to try.
    pub planned: usize,
    /// Number of plans of all parts that were left out because another plan has the same run.
    #[serde(default)]
    pub equal: usize,
    /// Number of histories that were left out because another fixture, or its beginning, has the same one.
    #[serde(default)]
    pub equal_histories: usize,
    /// Number of plans that were tried.
    pub tried: usize,
    /// Runs whose history a fault changed, so that their end state was not compared.
    pub diverged: u64,
    /// Runs that say nothing, because their plan does not fit the fixture.
    pub unfit: u64,
    /// True if the planted bug of the canary was found.
    pub canary: bool,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Fixtures that were not explored, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Fixtures on which the subject is not deterministic, with the first divergence.
    pub divergent: BTreeMap<String, String>,
    /// The marks.
    pub marks: Marks,
}

/// Marks of the catalogue that an exploration reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Marks {
    /// Number of rules whose fixtures were explored.
    pub rules: usize,
    /// Rules of the selected fixtures that were not explored.
    pub missed: BTreeSet<String>,
    /// Situations and invariants that were reached, see [`marks`].
    pub reached: BTreeSet<String>,
    /// Those that were never reached.
    pub unreached: BTreeSet<String>,
    /// The situations, invariants and rules that the runs of each strategy reached.
    #[serde(default)]
    pub strategies: Coverage,
}

impl Marks {
    /// Returns the situations and invariants that are not among `marks`, in order.
    pub fn without<'a>(&'a self, marks: &BTreeSet<String>) -> impl Iterator<Item = &'a str> {
        let all: BTreeSet<&str> = self.reached.iter().chain(&self.unreached).map(String::as_str).collect();
        all.into_iter().filter(|mark| !marks.contains(*mark))
    }
}

impl ExploreReport {
    /// Creates the document. `fixtures` are those that were selected, none for random histories alone.
    #[must_use]
    pub fn new(
        subject: &str,
        options: &ExploreOptions,
        exploration: &Exploration,
        canary: bool,
        fixtures: &[Fixture],
    ) -> Self {
        let rules: BTreeSet<String> = fixtures.iter().flat_map(|fixture| fixture.rules.iter().cloned()).collect();
        let others = other_controllers(fixtures);
        let is_wanted = |mark: &&String| !others.iter().any(|other| mark.split(' ').next() == Some(other.as_str()));
        let explored = exploration.coverage.rules();
        let reached = exploration.coverage.marks();
        let strategy = match options.strategy {
            Strategy::Single => "single",
            Strategy::Pairs => "pairs",
            Strategy::Order => "order",
            Strategy::Random => "random",
            Strategy::All => "all",
        };
        Self {
            api_version: "plumbline/v1".to_owned(),
            kind: "Exploration".to_owned(),
            subject: subject.to_owned(),
            strategy: strategy.to_owned(),
            seed: options.seed,
            shard: options.shard,
            runs: exploration.runs,
            runs_per_hour: exploration.runs_per_hour(),
            wall_millis: u64::try_from(exploration.wall.as_millis()).unwrap_or(u64::MAX),
            fixtures: exploration.fixtures,
            points: exploration.points,
            worlds: exploration.worlds,
            planned: exploration.planned,
            equal: exploration.equal,
            equal_histories: exploration.equal_histories,
            tried: exploration.done,
            diverged: exploration.diverged,
            unfit: exploration.unfit,
            canary,
            findings: exploration.findings.list(),
            left_out: exploration.left_out.clone(),
            divergent: exploration.divergent.clone(),
            marks: Marks {
                rules: explored.len(),
                missed: rules.difference(&explored).cloned().collect(),
                unreached: marks::wanted().difference(&reached).filter(is_wanted).cloned().collect(),
                reached,
                strategies: exploration.coverage.clone(),
            },
        }
    }

    /// Adds the document of another part of the same exploration.
    pub fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.planned += other.planned;
        self.tried += other.tried;
        self.diverged += other.diverged;
        self.unfit += other.unfit;
        self.canary &= other.canary;
        self.wall_millis = self.wall_millis.max(other.wall_millis);
        self.runs_per_hour += other.runs_per_hour;
        self.left_out.extend(other.left_out);
        self.divergent.extend(other.divergent);
        self.marks.rules = self.marks.rules.max(other.marks.rules);
        self.marks.missed.retain(|rule| other.marks.missed.contains(rule));
        self.marks.unreached.retain(|mark| other.marks.unreached.contains(mark));
        self.marks.reached.extend(other.marks.reached);
        self.marks.strategies.merge(other.marks.strategies);
        self.worlds += other.worlds;
        for finding in other.findings {
            match self.findings.iter_mut().find(|known| known.fingerprint == finding.fingerprint) {
                Some(known) => {
                    known.runs += finding.runs;
                    known.fixtures = known.fixtures.max(finding.fixtures);
                }
                None => self.findings.push(finding),
            }
        }
        self.findings.sort_by(|one, other| one.fingerprint.cmp(&other.fingerprint));
        self.shard = (1, 1);
    }

    /// Writes the document as JSON.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut out, self)?;
        writeln!(out)?;
        out.flush()
    }

    /// Writes the document as text.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn write_text(&self, mut out: impl Write) -> io::Result<()> {
        for finding in &self.findings {
            let Finding { fingerprint, breach, plan, runs, fixtures, also, fixture, .. } = finding;
            writeln!(
                out,
                "✗ {fingerprint}\n    {breach}\n    {} of {}",
                counted(*runs, "run"),
                counted(*fixtures as u64, "fixture")
            )?;
            writeln!(out, "    plumbline explore --replay '{plan}'")?;
            for other in also {
                writeln!(out, "    also {other}")?;
            }
            for line in fixture.iter().flat_map(|text| text.lines().skip(1)) {
                writeln!(out, "    | {line}")?;
            }
        }
        for (fixture, divergence) in &self.divergent {
            writeln!(out, "✗ not deterministic on {fixture}: {divergence}")?;
        }
        let seconds = self.wall_millis as f64 / 1000.0;
        writeln!(
            out,
            "{} of {} in {seconds:.1} s ({} per hour): {} of {} plans, {} points; seed {}, {}",
            counted(self.runs, "run"),
            self.histories(),
            self.runs_per_hour,
            self.tried,
            self.planned,
            self.points,
            self.seed,
            self.strategy
        )?;
        writeln!(
            out,
            "{} runs took another history than without faults (end states not compared), {} plans did not fit",
            self.diverged, self.unfit
        )?;
        self.write_gaps(&mut out)?;
        if !self.canary {
            writeln!(out, "the planted bug of each exploration was NOT found: no finding means nothing")?;
        }
        writeln!(out, "{}", counted(self.findings.len() as u64, "finding"))?;
        out.flush()
    }

    /// Returns the reason why the absence of findings says little: the exploration had hardly begun.
    #[must_use]
    pub fn too_few(&self) -> Option<String> {
        if self.findings.is_empty() { too_few(self.tried, self.planned) } else { None }
    }

    /// Returns the number of histories that were explored, in words.
    pub(super) fn histories(&self) -> String {
        let random = || counted(self.worlds, "random history");
        match (self.fixtures, self.worlds) {
            (_, 0) => counted(self.fixtures as u64, "fixture"),
            (0, _) => random(),
            _ => format!("{} and {}", counted(self.fixtures as u64, "fixture"), random()),
        }
    }

    fn write_gaps(&self, out: &mut impl Write) -> io::Result<()> {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (fixture, why) in &self.left_out {
            let reason = if why.ends_with("objects") { "too many objects (see --most-objects)" } else { why };
            reasons.entry(reason).or_default().push(fixture);
        }
        for (why, fixtures) in reasons {
            writeln!(
                out,
                "not explored: {}, {why} ({})",
                counted(fixtures.len() as u64, "fixture"),
                shortened(&fixtures)
            )?;
        }
        if let Some(why) = self.too_few() {
            writeln!(out, "✗ {why}")?;
        } else if self.tried < self.planned {
            let left = counted((self.planned - self.tried) as u64, "plan");
            writeln!(out, "not tried: {left}; increase --budget or split the work with --shard")?;
        }
        let missed: Vec<&str> = self.marks.missed.iter().map(String::as_str).collect();
        let Marks { rules, reached, unreached, strategies, .. } = &self.marks;
        let all = reached.len() + unreached.len();
        let reached = reached.len();
        writeln!(out, "marks: {rules} rules of the catalogue, {reached} of {all} situations and invariants")?;
        for (strategy, covered) in &strategies.0 {
            let StrategyCoverage { runs, marks, rules } = covered;
            let rest: Vec<&str> = self.marks.without(marks).collect();
            let rest = if rest.is_empty() { String::new() } else { format!("; not {}", shortened(&rest)) };
            let (name, marks, rules) = (strategy.name(), marks.len(), rules.len());
            writeln!(out, "marks by {name}: {rules} rules, {marks} of {all} in {runs} runs{rest}")?;
        }
        if !unreached.is_empty() {
            let names: Vec<&str> = unreached.iter().map(String::as_str).collect();
            writeln!(out, "marks not reached: {} situations ({})", names.len(), shortened(&names))?;
        }
        if !missed.is_empty() {
            writeln!(out, "marks not reached: {} rules ({})", missed.len(), shortened(&missed))?;
        }
        Ok(())
    }
}

/// Returns the controllers that no fixture is about. Random histories, without fixtures, are about all.
fn other_controllers(fixtures: &[Fixture]) -> Vec<Controller> {
    let is_other = |controller: &Controller| !fixtures.iter().any(|fixture| fixture.controllers.contains(controller));
    Controller::ALL.into_iter().filter(|controller| !fixtures.is_empty() && is_other(controller)).collect()
}

fn shortened(names: &[&str]) -> String {
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown}, …") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(shard: u64, fingerprints: &[&str]) -> ExploreReport {
        let options = ExploreOptions { shard: (shard, 2), ..ExploreOptions::default() };
        let exploration = Exploration { runs: 10, planned: 8, done: 7, ..Exploration::default() };
        let mut report = ExploreReport::new("x", &options, &exploration, true, &[]);
        let finding = |name: &&str| Finding { fingerprint: (*name).to_owned(), runs: 2, ..Finding::default() };
        report.findings = fingerprints.iter().map(finding).collect();
        report
    }

    #[test]
    fn parts_are_added() {
        let mut whole = part(1, &["b"]);
        whole.merge(part(2, &["a", "b"]));
        assert_eq!((whole.runs, whole.planned, whole.tried), (20, 16, 14));
        let findings: Vec<_> =
            whole.findings.iter().map(|finding| (finding.fingerprint.as_str(), finding.runs)).collect();
        assert_eq!(findings, [("a", 2), ("b", 4)]);
    }

    #[test]
    fn the_text_names_gaps_and_the_json_can_be_read() {
        let report = part(1, &["a"]);
        let mut text = Vec::new();
        let mut json = Vec::new();
        report.write_text(&mut text).expect("memory can be written");
        report.write_json(&mut json).expect("memory can be written");
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(
            text.contains("not tried: 1 plan;") && text.contains("✗ a\n") && text.contains("1 finding\n"),
            "{text}"
        );
        assert_eq!(serde_json::from_slice::<ExploreReport>(&json).expect("our own document"), report);
    }
}
