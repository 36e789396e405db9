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

/// The exit code of `plumbline` when fixtures failed.
const FAILED: i32 = 100;
/// The one when nothing is selected.
const NOTHING: i32 = 4;

/// The suites of a controller each.
const SUITES: [&str; 4] = ["disruption", "podgc", "taint-eviction", "ttl"];

/// Runs the suite.
pub struct Runner {
    program: PathBuf,
    fixtures: PathBuf,
    report: PathBuf,
    jobs: Vec<String>,
    timeout: Duration,
    hints: Caught,
}

impl Runner {
    /// Checks that nothing fails while nothing is switched on: else no failure would say anything.
    pub fn new(repository: &Path, program: &Path, args: &Args) -> Result<Self, Failure> {
        let jobs = args.jobs.iter().flat_map(|jobs| ["--jobs".to_owned(), jobs.clone()]).collect();
        let mut runner = Self {
            program: program.to_owned(),
            fixtures: repository.join("fixtures"),
            report: program.with_extension("report.json"),
            jobs,
            timeout: Duration::from_mins(10),
            hints: Caught::new(),
        };
        let begin = Instant::now();
        if let Some(fixture) = runner.run(0, &[])? {
            return Err(format!("without any mutant {fixture} fails").into());
        }
        let usual = (begin.elapsed() * 3).max(Duration::from_secs(20));
        runner.timeout = args.timeout.map_or(usual, Duration::from_secs);
        Ok(runner)
    }

    /// Tries these fixtures first.
    pub fn with_hints(self, hints: Caught) -> Self {
        Self { hints, ..self }
    }

    /// Switches `subject` on and looks which fixture fails first: the one that caught it last time, those of its controller,
    /// then all others.
    pub fn judge(&self, subject: &Subject) -> Result<Outcome, Failure> {
        let begin = Instant::now();
        let suite = SUITES.into_iter().find(|suite| subject.place.contains(&format!("/{}/", suite.replace('-', "_"))));
        let hint = self.hints.get(&subject.name).map(|fixture| vec![fixture.as_str()]);
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

    /// Runs fixtures; `None` if they all pass, else the first that does not.
    fn run(&self, id: usize, select: &[&str]) -> Result<Option<String>, Failure> {
        let _ = fs::remove_file(&self.report);
        let mut child = Command::new(&self.program)
            .args(["run", "--fail-fast", "--format", "json", "--fixtures"])
            .arg(&self.fixtures)
            .arg("--output")
            .arg(&self.report)
            .args(&self.jobs)
            .args(select)
            .env("PLUMBLINE_MUTANT", id.to_string())
            .env("RUST_LOG", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let Some(code) = wait(&mut child, self.timeout)? else { return Ok(Some("(hangs)".to_owned())) };
        match code {
            0 => Ok(None),
            FAILED => Ok(Some(first_failure(&self.report)?)),
            // A fixture that was renamed since it was remembered.
            NOTHING => Ok(None),
            // A panic that took the whole harness along, or memory that ran out, is noticed too.
            other => Ok(Some(format!("(exit code {other})"))),
        }
    }
}

/// The exit code, or `None` if there was none in time.
fn wait(child: &mut Child, timeout: Duration) -> Result<Option<i32>, Failure> {
    let begin = Instant::now();
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
