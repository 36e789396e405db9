//! One run of the suite for one mutant.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::build::Subject;
use crate::report::{Caught, Outcome};
use crate::{Args, Failure};

/// Exit code of `plumbline` when fixtures failed.
const FAILED: i32 = 100;
/// Exit code of `plumbline` when no fixture is selected.
const NOTHING: i32 = 4;
/// An exploration had hardly begun when its budget was spent.
const INCONCLUSIVE: i32 = 102;

/// The suites that test one controller each.
const SUITES: [&str; 4] = ["disruption", "podgc", "taint-eviction", "ttl"];

/// Runs the suite.
pub(crate) struct Runner {
    program: PathBuf,
    fixtures: PathBuf,
    report: PathBuf,
    /// Flags of this program that `plumbline` has, too.
    flags: Vec<String>,
    /// The budget, if explorations judge.
    explore: Option<String>,
    strategy: String,
    timeout: Duration,
    hints: Caught,
}

impl Runner {
    /// Creates a runner. Checks that all fixtures pass without a mutant, since a failure would otherwise mean nothing.
    pub(crate) fn new(repository: &Path, program: &Path, args: &Args) -> Result<Self, Failure> {
        let passed = [("--jobs", &args.jobs), ("--replicas", &args.replicas)];
        let passed = passed.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value.clone()?]));
        let mut runner = Self {
            program: program.to_owned(),
            fixtures: repository.join("fixtures"),
            report: program.with_extension("report.json"),
            flags: passed.flatten().collect(),
            explore: args.explore.clone(),
            strategy: args.strategy.clone(),
            timeout: Duration::from_hours(1),
            hints: Caught::new(),
        };
        let begin = now();
        if let Some(fixture) = runner.run(0, &[])? {
            return Err(format!("without any mutant {fixture} fails").into());
        }
        let usual = (begin.elapsed() * 3).max(Duration::from_mins(1));
        runner.timeout = args.timeout.map_or(usual, Duration::from_secs);
        Ok(runner)
    }

    /// Sets the fixtures to try first.
    pub(crate) fn with_hints(self, hints: Caught) -> Self {
        Self { hints, ..self }
    }

    /// Switches `subject` on and finds the first fixture that fails: it tries the one that caught it last time, then
    /// those of its controller, then all others.
    pub(crate) fn judge(&self, subject: &Subject) -> Result<Outcome, Failure> {
        let begin = now();
        let suite = SUITES.into_iter().find(|suite| subject.place.contains(&format!("/{}/", suite.replace('-', "_"))));
        let hint = self.hints.get(&subject.name).map(|fixture| vec![fixture.as_str()]);
        let hint = hint.filter(|_| self.explore.is_none());
        let suite = suite.map(|suite| vec!["--suite", suite]);
        let mut caught_by = None;
        for select in hint.into_iter().chain(suite).chain([Vec::new()]) {
            caught_by = self.run(subject.id, &select)?;
            if caught_by.is_some() {
                break;
            }
        }
        let Subject { name, place, .. } = subject.clone();
        Ok(Outcome { name, place, caught_by, seconds: begin.elapsed().as_secs() })
    }

    /// Runs fixtures; returns the first that fails, or `None` if all pass.
    fn run(&self, id: usize, select: &[&str]) -> Result<Option<String>, Failure> {
        let _ = fs::remove_file(&self.report);
        let verb: &[&str] = match &self.explore {
            Some(budget) => &["explore", "--strategy", &self.strategy, "--budget", budget],
            None => &["run"],
        };
        let mut child = Command::new(&self.program)
            .args(verb)
            .args(["--fail-fast", "--format", "json", "--fixtures"])
            .arg(&self.fixtures)
            .arg("--output")
            .arg(&self.report)
            .args(&self.flags)
            .args(select)
            .env("PLUMBLINE_MUTANT", id.to_string())
            .env("RUST_LOG", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let Some(code) = wait(&mut child, self.timeout)? else { return Ok(Some("(hangs)".to_owned())) };
        match code {
            // The remembered fixture may have been renamed.
            0 | NOTHING => Ok(None),
            INCONCLUSIVE if self.explore.is_some() => Ok(None),
            FAILED if self.explore.is_some() => Ok(Some(first_finding(&self.report)?)),
            FAILED => Ok(Some(first_failure(&self.report)?)),
            // A panic of the whole harness or an out-of-memory kill counts as caught.
            other => Ok(Some(format!("(exit code {other})"))),
        }
    }
}

/// Waits for the exit code; `None` after `timeout`.
fn wait(child: &mut Child, timeout: Duration) -> Result<Option<i32>, Failure> {
    let begin = now();
    while begin.elapsed() < timeout {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

fn first_failure(report: &Path) -> Result<String, Failure> {
    let report: Value = serde_json::from_str(&fs::read_to_string(report)?)?;
    let failed = |fixture: &&Value| !matches!(fixture["outcome"].as_str(), Some("pass" | "not-run" | "skip"));
    let first = report["fixtures"].as_array().into_iter().flatten().find(failed);
    Ok(first.and_then(|fixture| fixture["id"].as_str()).unwrap_or("(a fixture)").to_owned())
}

fn first_finding(report: &Path) -> Result<String, Failure> {
    let report: Value = serde_json::from_str(&fs::read_to_string(report)?)?;
    let finding = &report["findings"][0];
    let text = |field: &str| finding[field].as_str().unwrap_or("(a finding)").to_owned();
    let lines = finding["fixture"].as_str().map_or(0, |fixture| fixture.lines().count());
    let seconds = report["wallMillis"].as_f64().unwrap_or_default() / 1000.0;
    let fingerprint = text("fingerprint");
    let plan = text("plan");
    let runs = &report["runs"];
    Ok(format!("{fingerprint} ({plan}; {runs} runs, {seconds:.1} s, shrunk to {lines} lines)"))
}

/// The time of the wall clock, for the limits of runs and for reports.
#[expect(clippy::disallowed_methods, reason = "this program has no other clock")]
fn now() -> Instant {
    Instant::now()
}
