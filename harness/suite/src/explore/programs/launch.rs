//! Starts runs: each is this program again, inside a tracer of its own if time is to be virtual.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use plumbline::time::Stopwatch;
use plumbline_guest::{End, Epoch, Guest};

use super::job::{Ending, EndingKind, Facts, WorkerJob};
use super::worker::VERB;
use crate::guest::ProgramTime;

/// The time of day at which runs begin, so that programs that look at it behave alike.
const EPOCH: i64 = 1_893_456_000;

/// Processor time after which a program that waits in a loop lets time creep.
const SPIN: Duration = Duration::from_secs(5);

/// The settings with which runs are started.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The kind of time.
    pub time: ProgramTime,
    /// Wall time after which a run counts as hanging.
    pub limit: Duration,
    /// Folder for jobs, facts and logs.
    pub folder: PathBuf,
    /// The program that has the verb.
    pub worker: PathBuf,
}

impl Launcher {
    /// Makes a run. `number` distinguishes the runs of an exploration.
    #[must_use]
    pub fn run(&self, number: u64, job: WorkerJob) -> Facts {
        let watch = Stopwatch::start();
        let mut facts =
            self.started(number, job).unwrap_or_else(|ending| Facts { ending: Some(ending), ..Facts::default() });
        facts.wall = u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX);
        facts
    }

    fn started(&self, number: u64, mut job: WorkerJob) -> Result<Facts, Ending> {
        let failed = |what: &Path, why: &dyn std::fmt::Display| Ending {
            kind: EndingKind::Environment,
            text: format!("{}: {why}", what.display()),
        };
        let folder = self.folder.join(format!("run-{number}"));
        std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
        job.logs.clone_from(&folder);
        let asked = folder.join("job.json");
        let answered = folder.join("facts.json");
        let said = folder.join("said");
        let text = serde_json::to_vec(&job).map_err(|error| failed(&asked, &error))?;
        std::fs::write(&asked, text).map_err(|error| failed(&asked, &error))?;
        let words = File::create(&said).map_err(|error| failed(&said, &error))?;
        let ended = match self.time {
            ProgramTime::Virtual => self.traced(&asked, &answered, words)?,
            ProgramTime::Wall => self.untraced(&asked, &answered, words)?,
        };
        let facts = std::fs::read(&answered).ok().and_then(|text| serde_json::from_slice::<Facts>(&text).ok());
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        // Facts and logs of thousands of runs would fill the disk.
        let _ = std::fs::remove_dir_all(&folder);
        match (ended, facts) {
            (None, _) => {
                let text = format!("the run had not ended after {} s of wall time", self.limit.as_secs());
                Err(Ending { kind: EndingKind::Hang, text })
            }
            (Some(_), Some(facts)) => Ok(facts),
            (Some(status), None) => Err(Ending {
                kind: EndingKind::Environment,
                text: format!("the run ended with {status}: {}", said.trim()),
            }),
        }
    }

    /// Runs the worker inside a tracer. Returns `None` if it did not end in time.
    fn traced(&self, job: &Path, facts: &Path, words: File) -> Result<Option<ExitStatus>, Ending> {
        let epoch = jiff::Timestamp::from_second(EPOCH).map_or(Epoch::Now, Epoch::Fixed);
        let outcome = Guest::new(&self.worker)
            .arg(VERB)
            .arg(job)
            .arg(facts)
            // Programs keep certificates there, which others must not see.
            .env("TMPDIR", job.parent().unwrap_or(&self.folder))
            .epoch(epoch)
            .seed(1)
            .own_clock()
            .spin_guard(SPIN)
            .real_limit(self.limit)
            .stdin(plumbline_guest::Stdio::Null)
            .stdout(plumbline_guest::Stdio::Null)
            .stderr(words)
            .run();
        let outcome = outcome
            .map_err(|error| Ending { kind: EndingKind::Environment, text: format!("{error}; use --time wall") })?;
        Ok(matches!(outcome.end, End::Exited).then_some(outcome.status))
    }

    fn untraced(&self, job: &Path, facts: &Path, words: File) -> Result<Option<ExitStatus>, Ending> {
        let failed = |error: std::io::Error| Ending {
            kind: EndingKind::Environment,
            text: format!("unable to start {}: {error}", self.worker.display()),
        };
        let mut child = std::process::Command::new(&self.worker)
            .arg(VERB)
            .args([job, facts])
            // Programs keep certificates there, which others must not see.
            .env("TMPDIR", job.parent().unwrap_or(&self.folder))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(words)
            .spawn()
            .map_err(failed)?;
        child.wait().map(Some).map_err(failed)
    }
}
