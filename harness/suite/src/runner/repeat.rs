//! Runs the same fixtures repeatedly, each time in another order and with another number of jobs. Any difference from
//! the first run is a flake.
//!
//! Compares outcome, transcript, and the server's raw record with every uid, version and body.

use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;
use std::time::Duration;

use plumbline::fixture::Fixture;
use plumbline::time::Stopwatch;
use plumbline::transcript::by_object::by_object;
use ring::digest::{Context, SHA256};

use super::suite::{self, RunOptions, TestBed};
use crate::cluster::ClusterTime;
use crate::process::signals;
use crate::report::{JudgedRun, Outcome};

/// Rounds run for hours on a busy machine: a fixture that waits for a core does not hang.
const HANG_OF_ROUND: Duration = Duration::from_mins(30);

/// The number of rounds and their parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Number of runs per fixture, including the first, which is in order and runs one fixture at a time.
    pub runs: u32,
    /// Seed of the orders.
    pub seed: u64,
    /// Numbers of parallel fixtures, used in turn.
    pub jobs: RangeInclusive<usize>,
    /// No new round begins after this wall time.
    pub at_most: Option<Duration>,
    /// True for rounds that go on after a difference.
    pub goes_on: bool,
}

/// The progress of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundsResult {
    /// Number of completed runs per fixture.
    pub runs: u32,
    /// Wall time of the runs.
    pub wall: Duration,
}

/// The result of rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Number of completed runs per fixture.
    pub runs: u32,
    /// Wall time of the runs.
    pub wall: Duration,
    /// The fixtures whose runs differ, in the order in which that was found.
    pub flakes: Vec<Flake>,
}

/// A fixture whose runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flake {
    /// The fixture's id.
    pub id: String,
    /// The run that differed, from 2.
    pub run: u32,
    /// Number of parallel fixtures in that run.
    pub jobs: usize,
    /// The difference.
    pub what: String,
    /// Number of runs that differ from the first one.
    pub differing: u32,
}

impl fmt::Display for Flake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, run, jobs, what, differing } = self;
        write!(f, "{id} differs from its first run in run {run}, with {jobs} jobs: {what}")?;
        if *differing > 1 { write!(f, " (and in {} later ones)", differing - 1) } else { Ok(()) }
    }
}

/// The result of a fixture's first run.
#[derive(Clone, Debug)]
struct FirstResult {
    outcome: Outcome,
    transcript: String,
    /// The digest of the record; `None` if only what happens to each object at each time repeats.
    record: Option<[u8; 32]>,
}

impl FirstResult {
    /// Reads a run in this kind of time.
    fn of(judged: &JudgedRun, time: ClusterTime) -> Self {
        let outcome = judged.report.outcome;
        if time == ClusterTime::Virtual {
            return Self { outcome, record: Some(digest(judged)), transcript: judged.transcript.clone() };
        }
        // The threads of programs run side by side.
        Self { outcome, record: None, transcript: by_object(judged.start, &judged.entries) }
    }

    /// Returns the difference from a later run, if there is one.
    fn differs(&self, judged: &JudgedRun, time: ClusterTime) -> Option<String> {
        let now = Self::of(judged, time);
        if self.outcome != now.outcome {
            let reason =
                judged.report.failures.first().map_or(judged.report.reason.as_str(), |failure| &failure.message);
            return Some(format!(
                "the first run {}, this run {}: {reason}",
                self.outcome.participle(),
                now.outcome.participle()
            ));
        }
        if self.transcript != now.transcript {
            let mut was = self.transcript.lines();
            let mut is = now.transcript.lines();
            let mut pairs = std::iter::from_fn(|| Some((was.next(), is.next())));
            let pair = pairs.find(|(was, is)| was != is || was.is_none()).unwrap_or_default();
            let line = |line: Option<&str>| line.unwrap_or("(end)").to_owned();
            return Some(format!("the transcript had `{}`, now it has `{}`", line(pair.0), line(pair.1)));
        }
        (self.record != now.record).then(|| "the transcripts are equal, but uids, versions or bodies differ".to_owned())
    }
}

/// Writes into a digest, so that megabytes of record need not be held as text.
struct Digest(Context);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

fn digest(judged: &JudgedRun) -> [u8; 32] {
    let mut digest = Digest(Context::new(&SHA256));
    for entry in &judged.entries {
        // Writing into a digest cannot fail.
        let _ = writeln!(digest, "{entry:?}");
    }
    digest.0.finish().as_ref().try_into().unwrap_or_default()
}

/// Runs `fixtures` as `rounds` specifies, until a signal requests the end, or until something differs and the rounds do
/// not go on. Calls `on_round` after each round.
pub fn run(
    fixtures: &[Fixture],
    test_bed: &TestBed,
    rounds: &Rounds,
    mut on_round: impl FnMut(RoundsResult),
) -> Repeated {
    let stopwatch = Stopwatch::start();
    let time = test_bed.cluster.time();
    let mut first: Vec<Option<FirstResult>> = vec![None; fixtures.len()];
    // The objects of a program's run are compared.
    let keeps_records = test_bed.guests.is_some();
    let one_by_one = RunOptions { keeps_records, ..RunOptions::one_by_one() };
    suite::run_all(fixtures, test_bed, one_by_one, |index, judged| {
        first[index] = Some(FirstResult::of(&judged, time));
        signals::requested().is_none()
    });
    let mut result = Repeated { runs: 0, wall: stopwatch.elapsed(), flakes: Vec::new() };
    let mut finish = |result: &mut Repeated, runs| {
        (result.runs, result.wall) = (runs, stopwatch.elapsed());
        on_round(RoundsResult { runs, wall: result.wall });
    };
    if signals::requested().is_some() {
        return result;
    }
    finish(&mut result, 1);
    let mut random = fastrand::Rng::with_seed(rounds.seed);
    let mut order: Vec<usize> = (0..fixtures.len()).collect();
    for (run, jobs) in (2..=rounds.runs).zip(rounds.jobs.clone().cycle()) {
        if rounds.at_most.is_some_and(|limit| result.wall >= limit) {
            break;
        }
        random.shuffle(&mut order);
        let shuffled: Vec<Fixture> = order.iter().map(|index| fixtures[*index].clone()).collect();
        let options = RunOptions { jobs, hang: HANG_OF_ROUND, ..one_by_one };
        suite::run_all(&shuffled, test_bed, options, |place, judged| {
            if signals::requested().is_some() {
                // The signal of a terminal reaches the program of a subject as well, which ends within its run.
                return false;
            }
            let what = first[order[place]].as_ref().and_then(|first| first.differs(&judged, time));
            if let Some(what) = what {
                let id = judged.report.id;
                match result.flakes.iter_mut().find(|flake| flake.id == id) {
                    Some(flake) => flake.differing += 1,
                    None => result.flakes.push(Flake { id, run, jobs, what, differing: 1 }),
                }
            }
            rounds.goes_on || result.flakes.is_empty()
        });
        if signals::requested().is_some() || !rounds.goes_on && !result.flakes.is_empty() {
            // Only complete rounds count.
            break;
        }
        finish(&mut result, run);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::verdict;
    use std::path::Path;

    #[test]
    fn each_difference_is_reported() {
        let text = "promise: It is there.\nrule: D-001\nlevel: core\nfeature: api.objects\n\
                    steps: [{ at: 1s, expect: { absent: pods/a } }]\n";
        let (fixtures, problems) = plumbline::fixture::parse::read(Path::new("a.yaml"), "api", text);
        assert!(problems.is_empty(), "{problems:?}");
        let judged = |outcome, transcript: &str| JudgedRun {
            report: verdict::blank(&fixtures[0], outcome, "why"),
            transcript: transcript.to_owned(),
            clients: std::collections::BTreeSet::new(),
            entries: Vec::new(),
            deliveries: Vec::new(),
            initial: std::sync::Arc::default(),
            start: jiff::Timestamp::default(),
            leeway: Duration::ZERO,
            load: crate::load::RunLoad::default(),
            objects: Vec::new(),
        };
        let first = FirstResult::of(&judged(Outcome::Pass, "one\ntwo\n"), ClusterTime::Virtual);
        assert_eq!(first.differs(&judged(Outcome::Pass, "one\ntwo\n"), ClusterTime::Virtual), None);
        let described = |outcome, transcript| {
            first.differs(&judged(outcome, transcript), ClusterTime::Virtual).expect("a difference")
        };
        assert_eq!(described(Outcome::Fail, "one\ntwo\n"), "the first run passed, this run failed: why");
        assert_eq!(described(Outcome::Pass, "one\nthree\n"), "the transcript had `two`, now it has `three`");
        assert_eq!(described(Outcome::Pass, "one\n"), "the transcript had `two`, now it has `(end)`");
    }
}
