//! Tries plans: the runs without faults first, then single faults, pairs and random combinations until all are done or
//! the budget ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plumbline::explore::breach::{Breach, END_STATE};
use plumbline::explore::faults::plan::{FaultPlan, Token};
use plumbline::explore::findings::Findings;
use plumbline::time::Stopwatch;

use super::candidates::{Candidates, FaultProfile, candidates, pairs};
use super::coverage::FaultCoverage;
use super::delayed::Delayed;
use super::history;
use super::job::{EndingKind, Facts, PlannedFault, WorkerJob};
use super::launch::Launcher;
use super::oracles;
use super::reference::{Reference, ReferenceError};
use super::rights::UsedRights;
use super::subject::ScenarioSubject;
use crate::explore::search::runs::UnknownPoint;
use crate::explore::search::{Progress, Strategy};
use crate::process::signals;
use crate::runner::isolate::{self, JobOutcome, JobTimer};

/// Number of plans of a kind that are tried without the steps that may have mended what they led to.
const MOST_STRAYS: u32 = 2;

/// Random combinations without a budget.
const RANDOM: usize = 200;

/// Time beyond the limit of a run until its thread is given up: the run itself is killed at its limit.
const LEEWAY: Duration = Duration::from_mins(1);

/// The plans that an exploration tries, and how.
#[derive(Debug, Clone)]
pub struct ProgramOptions {
    /// Number of runs at the same time.
    pub jobs: usize,
    /// Decides the order of plans, and random combinations.
    pub seed: u64,
    /// The plans to try.
    pub strategy: Strategy,
    /// The kinds of fault.
    pub profile: FaultProfile,
    /// No run begins after this wall time.
    pub budget: Option<Duration>,
    /// Number of plans to try at most.
    pub plans: Option<usize>,
    /// This part of the plans, of so many parts.
    pub shard: (u64, u64),
    /// No run begins after the first finding.
    pub fail_fast: bool,
    /// Least part of the requests that runs without faults have in common.
    pub runs_alike: f64,
    /// Number of runs without faults.
    pub references: usize,
    /// Oracles that do not judge.
    pub without: BTreeSet<String>,
}

/// A finding's run, for the report.
#[derive(Debug, Clone)]
pub struct Example {
    /// The plan.
    pub plan: Vec<PlannedFault>,
    /// The transcript of the run.
    pub transcript: String,
    /// Number of runs of the plan that showed the breach, and of all runs of it.
    pub repeated: (u32, u32),
}

/// The result of the exploration of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Explored {
    /// The scenario's id.
    pub scenario: String,
    /// The runs without faults.
    pub reference: Reference,
    /// The findings.
    pub findings: Findings,
    /// An example of each finding, by fingerprint.
    pub examples: BTreeMap<String, Example>,
    /// Number of runs.
    pub runs: u64,
    /// Number of plans.
    pub planned: usize,
    /// Number of plans that were tried.
    pub tried: usize,
    /// Number of plans that were left out because another has the same run.
    pub equal: usize,
    /// The plans by kind of fault.
    pub faults: FaultCoverage,
    /// The rights that the program needed in its runs.
    pub rights: UsedRights,
    /// Number of runs that no request came to the fault's point of.
    pub unfit: u64,
    /// Number of runs that were over before their last checkpoint, because their state was right.
    pub early: u64,
    /// Wall time of all runs together.
    pub run_time: Duration,
    /// Wall time of the exploration.
    pub wall: Duration,
    /// Runs that failed for reasons of the environment: the first reason, and how many.
    pub failed: Option<(String, u64)>,
    /// The plans whose runs end well, but had other objects before this step, which may have mended that.
    pub strayed: BTreeMap<usize, Vec<Vec<PlannedFault>>>,
    /// The number of strayed plans by step, fault and request.
    strays: BTreeMap<(usize, String), u32>,
}

/// Returns the text of a plan: `scenario/web:crash-after@POST:pods#1`.
#[must_use]
pub fn token(scenario: &str, plan: &[PlannedFault]) -> Token {
    let faults = plan.iter().map(|(fault, point)| (*fault, point.point().to_string())).collect();
    Token { fixture: scenario.to_owned(), faults }
}

/// Runs the scenario without faults.
///
/// # Errors
///
/// Returns the reason if it cannot be explored.
pub fn reference(
    subject: &ScenarioSubject,
    launcher: &Launcher,
    options: &ProgramOptions,
) -> Result<Reference, ReferenceError> {
    watched_reference(subject, launcher, options, |_, _| ())
}

/// Runs the scenario without faults; `ended` gets the number of runs that have ended, and the facts of the last one.
///
/// # Errors
///
/// Returns the reason if it cannot be explored.
pub fn watched_reference(
    subject: &ScenarioSubject,
    launcher: &Launcher,
    options: &ProgramOptions,
    mut ended: impl FnMut(usize, &Facts),
) -> Result<Reference, ReferenceError> {
    let count = options.references.max(2);
    let mut runs: Vec<Option<Facts>> = vec![None; count];
    let job = subject.job(&[], None, false);
    let mut count_of_ended = 0;
    each(
        (launcher, options.jobs),
        count,
        move |_| job.clone(),
        |index, facts| {
            count_of_ended += 1;
            ended(count_of_ended, &facts);
            runs[index] = Some(facts);
            true
        },
    );
    let is_quiet = !options.without.contains("quiet");
    let mut reference = Reference::new(runs.into_iter().flatten().collect(), options.runs_alike, is_quiet)?;
    if !options.without.contains(oracles::HISTORY) {
        reference.facts.skipped = history::skipped(subject, launcher, &reference);
    }
    Ok(reference)
}

/// Makes runs, so many at a time; `job` makes the job of each. `done` gets its facts and returns whether to go on.
fn each(
    (launcher, jobs): (&Launcher, usize),
    count: usize,
    job: impl Fn(usize) -> WorkerJob + Send + Sync + 'static,
    mut done: impl FnMut(usize, Facts) -> bool,
) {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let limit = launcher.limit + LEEWAY;
    let launcher = launcher.clone();
    let run = move |index: usize, _: &JobTimer| launcher.run(NUMBER.fetch_add(1, Ordering::Relaxed), job(index));
    isolate::run_each(count, jobs, limit, run, |index, outcome| {
        let ended = |kind: EndingKind, text: String| Facts {
            ending: Some(super::job::Ending { kind, text }),
            ..Facts::default()
        };
        let facts = match outcome {
            JobOutcome::Returned(facts) => facts,
            JobOutcome::Panicked(text) => ended(EndingKind::Environment, text),
            JobOutcome::Hung(limit) => {
                ended(EndingKind::Hang, format!("a run had not ended after {} s", limit.as_secs()))
            }
        };
        done(index, facts)
    });
}

/// Returns the plans of the strategy.
fn plans(reference: &Reference, options: &ProgramOptions) -> (Vec<Vec<PlannedFault>>, Candidates) {
    let found = candidates(reference.points(), options.seed, options.profile);
    let single = || found.plans.iter().map(|fault| vec![fault.clone()]);
    let paired = || pairs(&found.plans, reference.points());
    let random = || random(&found.plans, options);
    let all: Vec<Vec<PlannedFault>> = match options.strategy {
        Strategy::Single | Strategy::Order => single().collect(),
        Strategy::Pairs => paired(),
        Strategy::Random => random(),
        Strategy::All => single().chain(paired()).chain(random()).collect(),
    };
    let part = options.shard.0.saturating_sub(1);
    let parts = options.shard.1.max(1);
    let mine = all.into_iter().enumerate().filter(|(index, _)| *index as u64 % parts == part);
    (mine.map(|(_, plan)| plan).take(options.plans.unwrap_or(usize::MAX)).collect(), found)
}

/// Returns random combinations of two and three faults.
fn random(single: &[PlannedFault], options: &ProgramOptions) -> Vec<Vec<PlannedFault>> {
    let mut state = options.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap_or_default()
    };
    let count = if single.is_empty() { 0 } else { options.plans.unwrap_or(RANDOM) };
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let mut plan: Vec<PlannedFault> = (0..2 + draw(2)).map(|_| single[draw(single.len())].clone()).collect();
        plan.sort_by_key(|(_, point)| (point.at, point.occurrence));
        plan.dedup();
        all.push(plan);
    }
    all
}

/// Explores a scenario after its runs without faults: with these plans, or with those of the strategy.
pub fn explore(
    (subject, given): (&ScenarioSubject, Option<&[Vec<PlannedFault>]>),
    reference: Reference,
    launcher: &Launcher,
    options: &ProgramOptions,
    mut progress: impl FnMut(&Progress),
) -> Explored {
    let watch = Stopwatch::start();
    let id = subject.fixture.id.clone();
    let mut explored = Explored { scenario: id.clone(), runs: options.references.max(2) as u64, ..Explored::default() };
    let calm = FaultPlan::calm(&id);
    for breach in counted(oracles::judge_alone(&reference.facts), options) {
        explored.add(&calm, &[], &breach, &reference.facts);
    }
    let mut delayed = Delayed::new(subject, launcher);
    let own = subject.has_own_faults();
    let (plans, found) = match given {
        Some(given) => (given.to_vec(), Candidates::default()),
        None if own => (vec![Vec::new()], Candidates::default()),
        None => plans(&reference, options),
    };
    (explored.planned, explored.equal) = (plans.len(), found.equal());
    explored.faults = FaultCoverage::new(&found, &plans);
    explored.rights.clone_from(&reference.facts.rights);
    let plans = Arc::new(plans);
    let job = jobs_of(subject, &reference, plans.clone(), own);
    each((launcher, options.jobs), plans.len(), job, |index, facts| {
        explored.tried += 1;
        explored.judge((&reference, &mut delayed), &plans[index], &facts, options);
        let wall = watch.elapsed();
        progress(&Progress {
            runs: explored.runs,
            done: explored.tried,
            planned: explored.planned,
            findings: explored.findings.len(),
            wall,
        });
        let found = options.fail_fast && !explored.findings.is_empty();
        let is_over = options.budget.is_some_and(|budget| wall >= budget);
        !(found || is_over || signals::requested().is_some())
    });
    explored.confirm(subject, &reference, launcher, options);
    explored.reference = reference;
    explored.wall = watch.elapsed();
    explored
}

/// Returns what makes the job of each plan: all of them together would fill the memory.
fn jobs_of(
    subject: &ScenarioSubject,
    reference: &Reference,
    plans: Arc<Vec<Vec<PlannedFault>>>,
    own_faults: bool,
) -> impl Fn(usize) -> WorkerJob + Send + Sync + use<> {
    let job = subject.job(&[], Some(reference), own_faults);
    move |index| WorkerJob {
        faults: plans[index].iter().map(|(fault, point)| (fault.name().to_owned(), point.clone())).collect(),
        ..job.clone()
    }
}

/// Leaves out breaches of oracles that do not judge.
fn counted(breaches: Vec<Breach>, options: &ProgramOptions) -> impl Iterator<Item = Breach> {
    let without = options.without.clone();
    breaches.into_iter().filter(move |breach| !without.contains(&breach.oracle))
}

impl Explored {
    /// Returns plans per hour of wall time.
    #[must_use]
    #[expect(clippy::cast_sign_loss, reason = "a count by a time")]
    pub fn plans_per_hour(&self) -> u64 {
        let seconds = self.wall.as_secs_f64();
        if seconds > 0.0 { (self.tried as f64 * 3600.0 / seconds).round() as u64 } else { 0 }
    }

    fn add(&mut self, token: &FaultPlan, plan: &[PlannedFault], breach: &Breach, facts: &Facts) {
        self.findings.add(token, breach);
        let simplest = self.findings.simplest().find(|(_, found)| found.fingerprint() == breach.fingerprint());
        if simplest.is_some_and(|(simplest, _)| simplest == token) {
            let example = Example { plan: plan.to_vec(), transcript: facts.transcript.clone(), repeated: (1, 1) };
            self.examples.insert(breach.fingerprint(), example);
        }
    }

    fn judge(
        &mut self,
        (reference, delayed): (&Reference, &mut Delayed<'_>),
        plan: &[PlannedFault],
        facts: &Facts,
        options: &ProgramOptions,
    ) {
        self.runs += 1;
        self.run_time += Duration::from_micros(facts.wall);
        self.early += u64::from(facts.early);
        if let Some(ending) = facts.ending.as_ref().filter(|ending| ending.kind == EndingKind::Environment) {
            let (_, count) = self.failed.get_or_insert_with(|| (ending.text.clone(), 0));
            *count += 1;
            return;
        }
        self.unfit += u64::from(!facts.idle_faults.is_empty());
        self.faults.add(plan, facts.idle_faults.is_empty());
        self.rights.extend(facts.rights.iter().cloned());
        let token = plan_of(&self.scenario, plan);
        let breaches: Vec<Breach> = counted(oracles::judge(reference, facts), options).collect();
        self.note_stray(plan, facts, &breaches);
        for breach in breaches {
            if delayed.confirms(reference, plan, (&breach, facts)) {
                self.add(&token, plan, &breach, facts);
            }
        }
    }

    /// Notes a plan whose run ends well and had other objects before a step, unless enough of its kind were noted. Of
    /// such steps the first counts: those that come while the program has not recovered may make another end right.
    fn note_stray(&mut self, plan: &[PlannedFault], facts: &Facts, breaches: &[Breach]) {
        let ends_well = facts.ending.is_none() && breaches.iter().all(|breach| breach.oracle != END_STATE);
        let Some(step) = facts.strayed.first().copied().filter(|_| ends_well && !plan.is_empty()) else { return };
        let name = |(fault, point): &PlannedFault| format!("{fault}@{} {}", point.verb, point.plural);
        let kind = plan.iter().map(name).collect::<Vec<_>>().join(",");
        let count = self.strays.entry((step, kind)).or_default();
        *count += 1;
        if *count <= MOST_STRAYS {
            self.strayed.entry(step).or_default().push(plan.to_vec());
        }
    }

    /// Runs the plan of each finding again: what does not repeat is a race of the program.
    fn confirm(
        &mut self,
        subject: &ScenarioSubject,
        reference: &Reference,
        launcher: &Launcher,
        options: &ProgramOptions,
    ) {
        let own = subject.has_own_faults();
        let found: Vec<(String, Vec<PlannedFault>)> =
            self.examples.iter().map(|(name, example)| (name.clone(), example.plan.clone())).collect();
        // Those of the run without faults were seen in each of these runs.
        let alone: BTreeSet<String> = oracles::judge_alone(&reference.facts).iter().map(Breach::fingerprint).collect();
        let found: Vec<_> =
            found.into_iter().filter(|(name, plan)| !plan.is_empty() || own && !alone.contains(name)).collect();
        let plans = Arc::new(found.iter().map(|(_, plan)| plan.clone()).collect::<Vec<_>>());
        let job = jobs_of(subject, reference, plans, own);
        let mut again = BTreeMap::new();
        each((launcher, options.jobs), found.len(), job, |index, facts| {
            let (name, _) = &found[index];
            let repeated = oracles::judge(reference, &facts).iter().any(|breach| breach.fingerprint() == *name);
            again.insert(name.clone(), repeated);
            signals::requested().is_none()
        });
        self.runs += again.len() as u64;
        for (name, repeated) in again {
            if let Some(example) = self.examples.get_mut(&name) {
                example.repeated = (1 + u32::from(repeated), 2);
            }
        }
    }
}

/// Returns a plan as findings have it.
fn plan_of(scenario: &str, plan: &[PlannedFault]) -> FaultPlan {
    FaultPlan {
        fixture: scenario.to_owned(),
        faults: plan.iter().map(|(fault, point)| (*fault, point.point())).collect(),
    }
}

/// Finds the faults of a token among the points of the run without faults.
///
/// # Errors
///
/// Returns the first point that does not exist.
pub fn resolve(reference: &Reference, token: &Token) -> Result<Vec<PlannedFault>, UnknownPoint> {
    let found = |(fault, text): &(plumbline::explore::faults::Disturbance, String)| {
        let point = reference.points().iter().find(|point| point.point().to_string() == *text);
        point.map(|point| (*fault, point.clone())).ok_or_else(|| UnknownPoint(text.clone()))
    };
    token.faults.iter().map(found).collect()
}

/// Makes one run, for a replay.
#[must_use]
pub fn run(
    subject: &ScenarioSubject,
    launcher: &Launcher,
    plan: &[PlannedFault],
    reference: Option<&Reference>,
) -> Facts {
    let own = plan.is_empty() && subject.has_own_faults();
    launcher.run(0, subject.job(plan, reference, own))
}
