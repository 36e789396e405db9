//! The result of an exploration of a program as text, JSON or `JUnit` XML.

use std::collections::BTreeMap;
use std::io::{self, Write};

use plumbline::explore::findings::Finding;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;

use super::coverage::FaultCoverage;
use super::oracles::ORACLES;
use super::rights::{ReportedRight, by_resource};
use super::search::Explored;
use crate::explore::findings::report::too_few;
use crate::plural::counted;

/// The result as a document.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramReport {
    /// `plumbline/v1`
    pub api_version: &'static str,
    /// `ProgramExploreReport`
    pub kind: &'static str,
    /// The name of the program.
    pub program: String,
    /// The command line.
    pub command: String,
    /// The flags that repeat runs.
    #[serde(skip)]
    pub flags: String,
    /// The result of each scenario.
    pub scenarios: Vec<ScenarioReport>,
}

/// The result of a scenario.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScenarioReport {
    /// Its id.
    pub scenario: String,
    /// Its file.
    pub file: String,
    /// The reason for which it could not be explored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The reason for which the exploration ended before this scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Number of runs.
    pub runs: u64,
    /// Number of plans that were tried.
    pub tried: usize,
    /// Number of plans.
    pub planned: usize,
    /// Number of plans that have the run of another plan.
    pub equal: usize,
    /// Number of runs in which the fault's point did not come.
    pub unfit: u64,
    /// Number of runs that ended at an early checkpoint.
    pub early: u64,
    /// The plans by kind of fault; kinds that nothing suits have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultCoverage>,
    /// The rights that the program's requests needed, in all runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rights: Vec<ReportedRight>,
    /// Number of points of the run without faults.
    pub points: usize,
    /// The part of the requests that the runs without faults have in common.
    pub alike: f64,
    /// Fields that differ between runs without faults.
    pub volatile: Vec<String>,
    /// Parts that may be missing around the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Wall time in milliseconds.
    pub wall_millis: u64,
    /// Plans per hour.
    pub plans_per_hour: u64,
    /// Mean wall time of a run in milliseconds.
    pub run_millis: u64,
    /// Runs that failed for reasons of the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<(String, u64)>,
    /// The findings.
    pub findings: Vec<ProgramFinding>,
    /// The transcript of the run without faults.
    #[serde(skip)]
    pub transcript: String,
}

/// A finding.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramFinding {
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
    /// Number of runs of its plan that showed it, and of all runs of its plan.
    pub repeated: (u32, u32),
    /// The transcript of its run.
    #[serde(skip)]
    pub transcript: String,
}

impl ScenarioReport {
    /// Makes the report of an exploration; `fixtures` are the shrunk findings by fingerprint.
    #[must_use]
    pub fn new(explored: &Explored, file: &str, fixtures: &BTreeMap<String, String>) -> Self {
        let finding = |finding: Finding| {
            let example = explored.examples.get(&finding.fingerprint);
            ProgramFinding {
                repeated: example.map_or((1, 1), |example| example.repeated),
                transcript: example.map(|example| example.transcript.clone()).unwrap_or_default(),
                finding: Finding { fixture: fixtures.get(&finding.fingerprint).cloned(), ..finding },
            }
        };
        let tried = u32::try_from(explored.tried).unwrap_or(u32::MAX).max(1);
        Self {
            scenario: explored.scenario.clone(),
            file: file.to_owned(),
            refused: None,
            left_out: None,
            runs: explored.runs,
            tried: explored.tried,
            planned: explored.planned,
            equal: explored.equal,
            unfit: explored.unfit,
            early: explored.early,
            faults: Some(explored.faults.clone()),
            rights: by_resource(&explored.rights),
            points: explored.reference.points().len(),
            alike: explored.reference.alike,
            volatile: explored.reference.expected.volatile.iter().cloned().collect(),
            remarks: Vec::new(),
            wall_millis: super::job::millis(explored.wall),
            plans_per_hour: explored.plans_per_hour(),
            run_millis: super::job::millis(explored.run_time / tried),
            failed: explored.failed.clone(),
            findings: explored.findings.list().into_iter().map(finding).collect(),
            transcript: explored.reference.facts.transcript.clone(),
        }
    }

    /// Returns the reason why the absence of findings says little: a budget or a signal ended the exploration when it
    /// had hardly begun.
    #[must_use]
    pub fn too_few(&self) -> Option<String> {
        let was_explored = self.refused.is_none() && self.left_out.is_none() && self.findings.is_empty();
        if was_explored { too_few(self.tried, self.planned) } else { None }
    }

    /// Makes the report of a scenario that could not be explored.
    #[must_use]
    pub fn refused(scenario: &str, file: &str, why: String) -> Self {
        Self { scenario: scenario.to_owned(), file: file.to_owned(), refused: Some(why), ..Self::default() }
    }

    /// Makes the report of a scenario before which the exploration ended.
    #[must_use]
    pub fn left_out(scenario: &str, file: &str, why: String) -> Self {
        Self { scenario: scenario.to_owned(), file: file.to_owned(), left_out: Some(why), ..Self::default() }
    }
}

impl ProgramReport {
    /// Returns true if there is a finding.
    #[must_use]
    pub fn has_findings(&self) -> bool {
        self.scenarios.iter().any(|scenario| !scenario.findings.is_empty())
    }

    /// Returns the line that repeats a finding.
    #[must_use]
    pub fn replay(&self, scenario: &ScenarioReport, finding: &Finding) -> String {
        format!("plumbline explore {}--scenario {} --replay '{}'", self.flags, scenario.file, finding.plan)
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
        for scenario in &self.scenarios {
            self.write_scenario(scenario, &mut out)?;
        }
        let count: usize = self.scenarios.iter().map(|scenario| scenario.findings.len()).sum();
        // Without a run, that there is no finding says nothing.
        if self.scenarios.iter().any(|scenario| scenario.refused.is_none() && scenario.left_out.is_none()) {
            writeln!(out, "{}", counted(count as u64, "finding"))?;
        }
        out.flush()
    }

    fn write_scenario(&self, scenario: &ScenarioReport, out: &mut impl Write) -> io::Result<()> {
        if let Some(why) = &scenario.refused {
            return writeln!(out, "✗ {} was not explored: {why}", scenario.scenario);
        }
        if let Some(why) = &scenario.left_out {
            return writeln!(out, "{}: not explored: {why}", scenario.scenario);
        }
        for ProgramFinding { finding, repeated, .. } in &scenario.findings {
            let Finding { fingerprint, breach, runs, also, fixture, .. } = finding;
            writeln!(out, "✗ {fingerprint}\n    {breach}\n    {}", counted(*runs, "run"))?;
            if repeated.0 < repeated.1 {
                writeln!(out, "    a race: the plan showed it in {} of {} runs", repeated.0, repeated.1)?;
            }
            writeln!(out, "    {}", self.replay(scenario, finding))?;
            for other in also {
                writeln!(out, "    also {other}")?;
            }
            for line in fixture.iter().flat_map(|text| text.lines().skip(1)) {
                writeln!(out, "    | {line}")?;
            }
        }
        let seconds = scenario.wall_millis as f64 / 1000.0;
        writeln!(
            out,
            "{}: {} of {} plans at {} points in {seconds:.1} s ({} per hour, {} ms each); {} more have the run of another \
             plan, {} did not come to their point",
            scenario.scenario,
            scenario.tried,
            scenario.planned,
            scenario.points,
            scenario.plans_per_hour,
            scenario.run_millis,
            scenario.equal,
            scenario.unfit
        )?;
        if scenario.alike < 1.0 {
            let part = scenario.alike * 100.0;
            writeln!(out, "    {part:.0} % of the requests are the same in all runs without faults")?;
        }
        if !scenario.volatile.is_empty() {
            writeln!(out, "    not compared, because runs without faults differ: {}", scenario.volatile.join(", "))?;
        }
        if let Some(faults) = &scenario.faults {
            for (why, kinds) in faults.unmet() {
                writeln!(out, "    kinds of fault that no run met, {why}: {}", kinds.join(", "))?;
            }
        }
        if !scenario.rights.is_empty() {
            let rights: Vec<String> = scenario.rights.iter().map(ReportedRight::line).collect();
            writeln!(out, "    rights that it needed: {}", rights.join("; "))?;
        }
        for remark in &scenario.remarks {
            writeln!(out, "    note: {remark}")?;
        }
        if let Some((why, count)) = &scenario.failed {
            writeln!(out, "    {} failed: {why}", counted(*count, "run"))?;
        }
        if let Some(why) = scenario.too_few() {
            writeln!(out, "✗ {}: {why}", scenario.scenario)?;
        } else if scenario.tried < scenario.planned {
            let left = counted((scenario.planned - scenario.tried) as u64, "plan");
            writeln!(out, "    not tried: {left}; raise --budget")?;
        }
        Ok(())
    }

    /// Writes the document as `JUnit` XML: a suite for each scenario, a case for each oracle.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn write_junit(&self, mut out: impl Write) -> io::Result<()> {
        let mut report = Report::new("plumbline explore");
        for scenario in &self.scenarios {
            let mut suite = TestSuite::new(scenario.scenario.as_str());
            suite.add_property(("command", self.command.as_str()));
            suite.add_property(("plans", scenario.tried.to_string().as_str()));
            for (oracle, promise) in ORACLES {
                let found: Vec<&ProgramFinding> =
                    scenario.findings.iter().filter(|found| oracle_of(&found.finding) == oracle).collect();
                let status = if let Some(why) = &scenario.refused {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
                    status.set_message(why.as_str());
                    status
                } else if let Some(why) = &scenario.left_out {
                    let mut status = TestCaseStatus::skipped();
                    status.set_message(why.as_str());
                    status
                } else if let Some(first) = found.first() {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(first.finding.breach.as_str());
                    let texts = found.iter().map(|found| {
                        let Finding { fingerprint, breach, .. } = &found.finding;
                        format!("{fingerprint}\n{breach}\n{}", self.replay(scenario, &found.finding))
                    });
                    status.set_description(texts.collect::<Vec<_>>().join("\n\n"));
                    status
                } else if let Some(why) = scenario.too_few() {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
                    status.set_message(why);
                    status
                } else {
                    TestCaseStatus::success()
                };
                let mut case = TestCase::new(format!("{oracle}: {promise}"), status);
                case.set_classname(scenario.scenario.as_str());
                suite.add_test_case(case);
            }
            report.add_test_suite(suite);
        }
        report.serialize(&mut out).map_err(io::Error::other)?;
        out.flush()
    }
}

fn oracle_of(finding: &Finding) -> &str {
    finding.fingerprint.split(" · ").next().unwrap_or_default()
}
