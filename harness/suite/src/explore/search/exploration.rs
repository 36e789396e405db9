//! The result of an exploration.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::explore::breach::Breach;
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::explore::findings::Findings;

use super::coverage::Coverage;
use super::options::Progress;
use super::runs::hang;
use crate::explore::histories::beginnings::whole_id;
use crate::explore::judge::OracleVerdict;
use crate::runner::isolate::JobOutcome;

/// The result of an exploration.
#[derive(Debug, Clone, Default)]
pub struct Exploration {
    /// Number of runs, including reference runs.
    pub runs: u64,
    /// Number of plans in this part.
    pub planned: usize,
    /// Number of plans of all parts that were left out because another plan has the same run.
    pub equal: usize,
    /// Number of histories that were left out because another fixture has the same one.
    pub equal_histories: usize,
    /// Number of plans that were tried.
    pub done: usize,
    /// Number of fixtures with a reference run.
    pub fixtures: usize,
    /// Number of points of all reference runs.
    pub points: usize,
    /// Number of runs whose end state was not compared because a fault changed their history.
    pub diverged: u64,
    /// Number of runs that say nothing: the plan does not fit the fixture.
    pub unfit: u64,
    /// The findings.
    pub findings: Findings,
    /// Fixtures that were left out, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Fixtures for which the subject is not deterministic, with the first divergence.
    pub divergent: BTreeMap<String, String>,
    /// The marks and rules that were reached.
    pub coverage: Coverage,
    /// The rules of the catalogue that each fixture, and those with the same history, cite.
    pub rules: BTreeMap<String, BTreeSet<String>>,
    /// Number of random worlds.
    pub worlds: u64,
    /// Wall time.
    pub wall: Duration,
}

/// The result of a job: the plans that ran, and the first divergence if a repeated run differed.
pub(super) struct JobResult {
    pub(super) runs: Vec<(FaultPlan, OracleVerdict)>,
    pub(super) divergence: Option<String>,
    pub(super) coverage: Coverage,
}

impl Exploration {
    /// Returns the progress so far.
    pub(super) fn progress(&self, wall: Duration) -> Progress {
        Progress { runs: self.runs, done: self.done, planned: self.planned, findings: self.findings.len(), wall }
    }

    /// Returns runs per hour of wall time.
    #[must_use]
    #[expect(clippy::cast_sign_loss, reason = "a count by a time")]
    pub fn runs_per_hour(&self) -> u64 {
        let seconds = self.wall.as_secs_f64();
        if seconds > 0.0 { (self.runs as f64 * 3600.0 / seconds).round() as u64 } else { 0 }
    }

    pub(super) fn record(&mut self, plan: &FaultPlan, outcome: JobOutcome<JobResult>) {
        match outcome {
            JobOutcome::Returned(result) => {
                for (plan, verdict) in result.runs {
                    self.runs += 1;
                    self.judge(&plan, &verdict);
                    self.cite(&plan);
                }
                self.coverage.merge(result.coverage);
                if let Some(divergence) = result.divergence {
                    self.divergent.insert(plan.fixture.clone(), divergence);
                }
            }
            JobOutcome::Panicked(text) => self.broke(plan, "a panic", text),
            JobOutcome::Hung(limit) => self.broke(plan, "a run without end", hang(limit)),
        }
    }

    /// Notes that the rules of the plan's fixture were explored.
    pub(super) fn cite(&mut self, plan: &FaultPlan) {
        if let Some(rules) = self.rules.get(whole_id(&plan.fixture)) {
            self.coverage.cite(plan, rules);
        }
    }

    pub(super) fn judge(&mut self, plan: &FaultPlan, verdict: &OracleVerdict) {
        self.diverged += u64::from(verdict.diverged);
        self.unfit += u64::from(verdict.unfit.is_some());
        for breach in &verdict.breaches {
            self.findings.add(plan, breach);
        }
    }

    pub(super) fn broke(&mut self, plan: &FaultPlan, kind: &str, text: String) {
        self.runs += 1;
        self.findings.add(plan, &Breach::of_ending(kind, Duration::ZERO, text));
    }
}
