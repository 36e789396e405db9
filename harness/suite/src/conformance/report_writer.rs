//! Fills a report while fixtures run, on disk too: a killed run leaves a valid report with `not-run` fixtures.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbline::time::Stopwatch;

use super::ConformanceError;
use super::archive::{EVIDENCE, MANIFEST};
use super::deviations;
use super::evidence::{EvidenceFolder, RunOrigin, replace};
use super::manifest;
use super::report::{ConformanceOutcome, ConformanceReport};
use super::tested_program;
use crate::report::junit::Junit;
use crate::report::{self, Event, FixtureReport, JudgedRun, Reporter, RunReport};

/// File and folder names below `--out`.
pub const YAML: &str = "report.yaml";
/// As [`YAML`].
pub const JSON: &str = "report.json";
/// As [`YAML`].
pub const JUNIT: &str = "junit.xml";

/// Reason of fixtures that are still `not-run` at the end.
pub const NOT_RUN: &str = "the run did not finish";

/// Minimum pause between two writes of the files while fixtures run. Each write replaces the whole document.
const PAUSE: Duration = Duration::from_secs(1);

/// Writes the report of a run in progress.
#[derive(Debug)]
pub struct ReportWriter {
    report: ConformanceReport,
    index: BTreeMap<String, usize>,
    evidence: EvidenceFolder,
    folder: PathBuf,
    written: Stopwatch,
}

impl ReportWriter {
    /// Writes `report`, with every fixture as `not-run`, to `folder`, and how the run is made to its evidence.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder or its files cannot be written.
    pub fn create(mut report: ConformanceReport, origin: &RunOrigin, folder: &Path) -> Result<Self, ConformanceError> {
        let failed = |error: io::Error| {
            ConformanceError::Unwritable(format!("unable to write to {}: {error}", folder.display()))
        };
        fs::create_dir_all(folder).map_err(failed)?;
        // The JUnit file of an earlier run is stale.
        match fs::remove_file(folder.join(JUNIT)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        for fixture in &mut report.fixtures {
            (fixture.outcome, fixture.reason) = (ConformanceOutcome::NotRun, NOT_RUN.to_owned());
        }
        report.seal();
        let index = report.fixtures.iter().enumerate().map(|(index, fixture)| (fixture.id.clone(), index)).collect();
        let folder_of_evidence = folder.join(EVIDENCE);
        let mut writer = Self {
            report,
            index,
            folder: folder.to_owned(),
            written: Stopwatch::start(),
            evidence: EvidenceFolder::create(&folder_of_evidence)?,
        };
        writer.evidence.put_origin(origin).map_err(failed)?;
        writer.write().map_err(failed)?;
        Ok(writer)
    }

    /// The report so far.
    #[must_use]
    pub const fn report(&self) -> &ConformanceReport {
        &self.report
    }

    /// Returns the number of fixtures with evidence.
    #[must_use]
    pub fn evidence(&self) -> usize {
        self.evidence.len()
    }

    /// Stores the server logs of a cluster that broke.
    ///
    /// # Errors
    ///
    /// Returns an error if the evidence cannot be written.
    pub fn keep_server_logs(&mut self, logs: &[PathBuf]) -> io::Result<()> {
        self.evidence.keep_server_logs(logs)?;
        self.write()
    }

    /// Records an outcome.
    fn put(&mut self, fixture: &FixtureReport) -> ConformanceOutcome {
        let Some(index) = self.index.get(&fixture.id) else { return fixture.outcome.into() };
        let result = &mut self.report.fixtures[*index];
        result.outcome = fixture.outcome.into();
        result.reason = if result.outcome.needs_reason() { fixture.reason.clone() } else { String::new() };
        result.bystanders = if result.outcome.has_run() { fixture.bystanders.clone() } else { Vec::new() };
        deviations::apply(&self.report.deviations, result);
        result.outcome
    }

    fn finished(&mut self, judged: &JudgedRun) -> io::Result<()> {
        let outcome = self.put(&judged.report);
        tested_program::add_clients(&mut self.report.subject, &judged.clients);
        match outcome {
            ConformanceOutcome::Fail => self.evidence.add(judged, "fail")?,
            ConformanceOutcome::KnownDeviation => self.evidence.add(judged, "known-deviation")?,
            ConformanceOutcome::Flaky => self.evidence.add(judged, "flaky")?,
            ConformanceOutcome::Inconclusive => self.evidence.add(judged, "inconclusive")?,
            ConformanceOutcome::NotRun => self.evidence.add(judged, "not-run")?,
            ConformanceOutcome::Pass => self.evidence.add_passed(judged)?,
            ConformanceOutcome::Skip | ConformanceOutcome::Unsupported => {}
        }
        if self.written.elapsed() < PAUSE { Ok(()) } else { self.write() }
    }

    fn ended(&mut self, run: &RunReport) -> io::Result<()> {
        self.report.load.clone_from(&run.load);
        for fixture in &run.fixtures {
            self.put(fixture);
        }
        self.write()?;
        let fixtures = run.fixtures.iter().map(|fixture| self.as_reported(fixture)).collect();
        let report = RunReport {
            load: run.load.clone(),
            seed: run.seed,
            ..RunReport::new(&run.subject, &run.cluster, run.wall_millis, fixtures)
        };
        let mut junit = Vec::new();
        Junit(&mut junit).event(Event::Ended(&report))?;
        replace(&self.folder.join(JUNIT), &String::from_utf8_lossy(&junit))
    }

    /// `JUnit` has no known deviations: they are written as skipped tests with a reason.
    fn as_reported(&self, fixture: &FixtureReport) -> FixtureReport {
        let result = self.index.get(&fixture.id).map(|index| &self.report.fixtures[*index]);
        match result {
            Some(result) if result.outcome == ConformanceOutcome::KnownDeviation => FixtureReport {
                outcome: report::Outcome::Skip,
                reason: format!("known deviation: {}", result.reason),
                failures: Vec::new(),
                ..fixture.clone()
            },
            _ => fixture.clone(),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        self.report.seal();
        replace(&self.folder.join(JSON), &self.report.to_json()?)?;
        let yaml = self.report.to_yaml()?;
        replace(&self.folder.join(YAML), &yaml)?;
        let manifest = manifest::text(&self.report.digest, self.evidence.digests());
        replace(&self.folder.join(MANIFEST), &manifest)?;
        self.written = Stopwatch::start();
        Ok(())
    }
}

impl Reporter for ReportWriter {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Started { .. } => Ok(()),
            Event::Finished(judged) => self.finished(judged),
            Event::Ended(run) => self.ended(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::conformance::archive::EvidenceSource;
    use crate::conformance::deviations::Deviation;
    use crate::conformance::report::tests::{fixture, report as sealed, result};
    use crate::runner::verdict;

    fn judged(id: &str, outcome: report::Outcome, reason: &str) -> JudgedRun {
        let report = verdict::blank(&fixture(id, "core"), outcome, reason);
        JudgedRun {
            report,
            clients: ["collector/v2".to_owned()].into(),
            transcript: String::new(),
            entries: Vec::new(),
            deliveries: Vec::new(),
            initial: std::sync::Arc::default(),
            start: Timestamp::default(),
            leeway: Duration::ZERO,
            load: crate::load::RunLoad::default(),
            objects: Vec::new(),
        }
    }

    fn on_disk(folder: &Path) -> ConformanceReport {
        let read = |name| fs::read_to_string(folder.join(name)).expect("a report");
        let yaml = ConformanceReport::read(&read(YAML)).expect("our own document");
        assert_eq!(ConformanceReport::read(&read(JSON)).as_ref(), Ok(&yaml));
        yaml
    }

    #[test]
    fn not_run_until_the_contrary_is_known() {
        let root = tempfile::tempdir().expect("a folder");
        let list = ["podgc/a", "podgc/b", "podgc/c", "podgc/d"].map(|id| result(id, "core", ConformanceOutcome::Pass));
        let mut begun = sealed("podgc", list.into());
        let reason = "As ever.".to_owned();
        begun.deviations.push(Deviation {
            fixtures: "podgc/b".to_owned(),
            reason,
            upstream: String::new(),
            sometimes: false,
        });
        let mut writer = ReportWriter::create(begun, &RunOrigin::default(), root.path()).expect("a writable folder");
        assert_eq!(
            on_disk(root.path()).with(ConformanceOutcome::NotRun).count(),
            4,
            "a kill at this point leaves this"
        );

        for (id, outcome, reason) in [
            ("podgc/a", report::Outcome::Fail, ""),
            ("podgc/b", report::Outcome::Fail, ""),
            ("podgc/c", report::Outcome::Flaky, "passed at attempt 2"),
        ] {
            let mut judged = judged(id, outcome, reason);
            judged.report.bystanders = vec!["python POST leases/me".to_owned()];
            writer.event(Event::Finished(&judged)).expect("a writable folder");
        }
        assert_eq!(writer.report().fixtures[0].bystanders, ["python POST leases/me"]);
        assert_eq!(writer.report().subject.clients, ["collector/v1.2", "collector/v2"]);
        assert_eq!(writer.evidence(), 3);
        let mut broken = judged("podgc/d", report::Outcome::NotRun, "the cluster broke");
        broken.report.bystanders = vec!["python POST leases/me".to_owned()];
        writer.event(Event::Finished(&broken)).expect("a writable folder");
        assert_eq!(writer.evidence(), 4, "the evidence of a server that died");
        assert_eq!(writer.report().fixtures[3].bystanders, <[&str; 0]>::default(), "it is no result");
        let d = verdict::blank(&fixture("podgc/d", "core"), report::Outcome::Skip, "needs more");
        let rest = ["podgc/a", "podgc/b"].map(|id| judged(id, report::Outcome::Fail, "").report);
        let c = judged("podgc/c", report::Outcome::Flaky, "passed at attempt 2").report;
        let mut run = RunReport::new("x", "y", 1, rest.into_iter().chain([c, d]).collect());
        run.load = Some(crate::load::MachineLoad { cores: 7, ..crate::load::MachineLoad::default() });
        writer.event(Event::Ended(&run)).expect("a writable folder");

        let read = on_disk(root.path());
        let described: Vec<_> = read.fixtures.iter().map(|one| (one.outcome, one.reason.as_str())).collect();
        assert_eq!(
            described,
            [
                (ConformanceOutcome::Fail, ""),
                (ConformanceOutcome::KnownDeviation, "As ever."),
                (ConformanceOutcome::Flaky, "passed at attempt 2"),
                (ConformanceOutcome::Skip, "needs more"),
            ]
        );
        assert_eq!(read.digest, read.digest());
        let mut evidence = EvidenceSource::open(root.path()).expect("a folder");
        assert_eq!(manifest::check(&mut evidence, &read.digest).expect("readable evidence"), []);
        let junit = fs::read_to_string(root.path().join(JUNIT)).expect("JUnit");
        assert!(junit.contains("failures=\"1\"") && junit.contains("known deviation: As ever."), "{junit}");
        assert!(junit.contains(r#"name="cores" value="7""#), "{junit}");
        let left: Vec<_> = fs::read_dir(root.path()).expect("a folder").filter_map(Result::ok).collect();
        assert_eq!(left.len(), 5, "no half-written file is left: {left:?}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("file");
        fs::write(&file, "").expect("a writable folder");
        let refused = ReportWriter::create(sealed("podgc", Vec::new()), &RunOrigin::default(), &file.join("out"))
            .expect_err("no folder")
            .to_string();
        assert!(refused.starts_with("unable to write to ") && refused.contains("file/out"), "{refused}");
    }
}
