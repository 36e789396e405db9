//! One run of the suite for one mutant.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Failure;
use crate::build::Subject;
use crate::report::Outcome;

/// The exit code of `plumbline` when fixtures failed.
const FAILED: i32 = 100;

/// Runs the suite.
pub struct Runner {
    program: PathBuf,
    fixtures: PathBuf,
    report: PathBuf,
    timeout: Duration,
}

impl Runner {
    /// Checks that nothing fails while nothing is switched on: else no failure would say anything.
    pub fn new(repository: &Path, program: &Path, timeout: u64) -> Result<Self, Failure> {
        let runner = Self {
            program: program.to_owned(),
            fixtures: repository.join("fixtures"),
            report: program.with_extension("report.json"),
            timeout: Duration::from_secs(timeout),
        };
        match runner.run(0, &[])? {
            None => Ok(runner),
            Some(fixture) => Err(format!("without any mutant {fixture} fails").into()),
        }
    }

    /// Switches `subject` on and looks which fixture fails first: those of its controller, then all others.
    pub fn judge(&self, subject: &Subject) -> Result<Outcome, Failure> {
        let begin = Instant::now();
        let suite = ["disruption", "podgc", "taint-eviction", "ttl"]
            .into_iter()
            .find(|suite| subject.place.contains(&format!("/{}/", suite.replace('-', "_"))));
        let mut caught_by = None;
        if let Some(suite) = suite {
            caught_by = self.run(subject.id, &["--suite", suite])?;
        }
        if caught_by.is_none() {
            caught_by = self.run(subject.id, &[])?;
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
