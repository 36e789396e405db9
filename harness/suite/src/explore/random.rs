//! The exploration of random worlds. Each world is run without faults and then with a few random ones; which kinds of
//! fault are possible differs from world to world ("Swarm testing", ISSTA 2012). Worlds that show something for the
//! first time get more runs.
//!
//! Worlds are run in rounds, and what is new is decided in the order of their seeds, so that the result does not depend
//! on the number of jobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use plumbline::explore::disturbance::{Disturbance, FaultTrait};

use super::engine::{Exploration, ExploreOptions, HANG, Progress, hang, reference, reference_once, try_plan};
use super::marks::marks;
use super::oracle::{OracleVerdict, ReferenceRun};
use super::plan::FaultPlan;
use super::script::{controls_subject, disturbs_watches};
use super::worlds::{self, Draw};
use crate::process::signals;
use crate::runner::isolate::{self, JobOutcome, JobTimer};
use crate::runner::suite::TestBed;

/// Number of worlds in a round.
const ROUND: u64 = 32;
/// Number of worlds if neither a number nor a budget is given.
const WORLDS: u64 = 256;
/// Number of fault plans for each world.
const PLANS: u64 = 4;
/// Number of further plans for a world that showed something new.
const MORE_PLANS: u64 = 12;
/// Largest number of faults of a plan.
const MOST_FAULTS: u64 = 3;
/// Every world of this many is run twice, to notice a subject that is not deterministic.
const SAMPLE: u64 = 16;
/// Percentage of faults that are to concern a write.
const WRITES: u64 = 50;
/// Percentage of plans with another order of simultaneous work.
const REORDERED: u64 = 15;

/// Seeds of worlds per seed of an exploration.
const SEEDS: u64 = 1_000_000_000;

/// The runs of a world.
#[derive(Debug, Default)]
struct WorldRuns {
    runs: Vec<(FaultPlan, OracleVerdict)>,
    /// Number of runs without faults.
    calm: u64,
    points: usize,
    marks: BTreeSet<String>,
    divergence: Option<String>,
}

/// Explores random worlds until `is_over` returns true or all worlds are done.
pub(super) fn explore(
    test_bed: &TestBed,
    options: &ExploreOptions,
    exploration: &mut Exploration,
    is_over: &dyn Fn() -> bool,
    on_progress: &mut dyn FnMut(&Exploration),
) {
    let most = options.worlds.unwrap_or(if options.budget.is_some() { u64::MAX } else { WORLDS });
    let is_over = |exploration: &Exploration| {
        is_over() || signals::requested().is_some() || (options.fail_fast && !exploration.findings.is_empty())
    };
    let (parts, part) = (options.shard.1.max(1), options.shard.0.saturating_sub(1));
    let mut first = 0;
    while first < most && !is_over(exploration) {
        let numbers = first..most.min(first + ROUND);
        let seeds: Vec<u64> =
            numbers.filter(|number| number % parts == part).map(|number| options.seed * SEEDS + number).collect();
        let mut novel = Vec::new();
        run_round(test_bed, options.jobs, &seeds, 0..PLANS, |seed, runs| {
            if let JobOutcome::Returned(world) = &runs
                && !world.marks.is_subset(&exploration.marks)
            {
                novel.push(seed);
            }
            exploration.worlds += 1;
            exploration.record_world(seed, runs);
            on_progress(exploration);
            !is_over(exploration)
        });
        run_round(test_bed, options.jobs, &novel, PLANS..PLANS + MORE_PLANS, |seed, runs| {
            exploration.record_world(seed, runs);
            on_progress(exploration);
            !is_over(exploration)
        });
        first += ROUND;
    }
}

/// Runs worlds in parallel and passes their runs on in the order of `seeds`.
fn run_round(
    test_bed: &TestBed,
    jobs: usize,
    seeds: &[u64],
    plans: std::ops::Range<u64>,
    mut done: impl FnMut(u64, JobOutcome<WorldRuns>) -> bool,
) {
    let shared: Arc<[u64]> = seeds.into();
    let work = {
        let (shared, test_bed) = (shared.clone(), test_bed.clone());
        move |index: usize, timer: &JobTimer| run_world(&test_bed, shared[index], plans.clone(), timer)
    };
    let mut outcomes = std::collections::BTreeMap::new();
    let mut next = 0;
    isolate::run_each(shared.len(), jobs, HANG, work, |index, outcome| {
        outcomes.insert(index, outcome);
        let mut goes_on = true;
        while let Some(outcome) = outcomes.remove(&next) {
            goes_on &= done(shared[next], outcome);
            next += 1;
        }
        goes_on
    });
}

/// Runs a world without faults and with the random plans of these numbers. The time limit counts for each plan.
fn run_world(test_bed: &TestBed, seed: u64, plans: std::ops::Range<u64>, timer: &JobTimer) -> WorldRuns {
    let fixture = match worlds::fixture(seed) {
        Ok(fixture) => Arc::new(fixture),
        Err(problem) => return WorldRuns { divergence: Some(problem.to_string()), ..WorldRuns::default() },
    };
    let twice = plans.start == 0 && seed.is_multiple_of(SAMPLE);
    let result = if twice { reference(test_bed, &fixture) } else { Ok(reference_once(test_bed, &fixture)) };
    let (reference, verdict) = match result {
        Ok(result) => result,
        Err(divergence) => {
            return WorldRuns { calm: 2, divergence: Some(divergence.to_string()), ..WorldRuns::default() };
        }
    };
    let mut runs = WorldRuns {
        calm: if twice { 2 } else { 1 },
        points: reference.points.len(),
        marks: reference.marks.clone(),
        ..WorldRuns::default()
    };
    let unusable = verdict.unfit.is_some() || !verdict.breaches.is_empty();
    runs.runs.push((FaultPlan::calm(&fixture.id), verdict));
    if unusable {
        return runs;
    }
    let mut draw = Draw::new(&[seed, 1]);
    let mut kinds: Vec<Disturbance> = Disturbance::all().filter(|_| draw.chance(50)).collect();
    kinds.retain(|kind| reference.elects || !kind.is(FaultTrait::ConcernsLeader));
    for number in plans {
        timer.restart();
        run_random_plan(test_bed, &reference, &kinds, Draw::new(&[seed, 2, number]), &mut runs);
    }
    runs
}

/// Adds one random fault after another; each step is a run of its own.
fn run_random_plan(
    test_bed: &TestBed,
    reference: &ReferenceRun,
    kinds: &[Disturbance],
    mut draw: Draw,
    world: &mut WorldRuns,
) {
    let mut plan = FaultPlan::calm(&reference.fixture.id);
    let mut points = reference.points.clone();
    for number in 0..=draw.below(MOST_FAULTS) {
        let fault = if number == 0 && draw.chance(REORDERED) {
            let depth = if draw.chance(50) { "order-2" } else { "order-3" };
            let seed = u32::try_from(draw.below(1000)).unwrap_or_default() + 1;
            Disturbance::parse(depth).map(|order| (order, FaultPoint::of_run(seed)))
        } else {
            random_fault(reference, kinds, &points, &mut draw)
        };
        let Some(fault) = fault else { return };
        plan.faults.push(fault);
        let result = try_plan(test_bed, reference, plan.clone(), true, |_, entries| world.marks.extend(marks(entries)));
        let failed = !result.verdict.breaches.is_empty();
        points = result.points;
        world.runs.push((plan.clone(), result.verdict));
        // More faults would hide what this one did.
        if failed {
            return;
        }
    }
}

/// Chooses a fault: first its kind, so that rare kinds are as frequent as common ones, then one of the points at which
/// it can happen. Writes are chosen more often than reads: there are few of them.
fn random_fault(
    reference: &ReferenceRun,
    kinds: &[Disturbance],
    points: &[FaultPoint],
    draw: &mut Draw,
) -> Option<(Disturbance, FaultPoint)> {
    const TRIES: usize = 20;
    let (controls, watches) = (controls_subject(&reference.fixture), disturbs_watches(&reference.fixture));
    for _ in 0..TRIES {
        let disturbance = *draw.pick(kinds)?;
        if controls && disturbance.is(FaultTrait::ControlsSubject) {
            continue;
        }
        let only_writes = draw.chance(WRITES);
        let suits = |point: &&FaultPoint| {
            (!watches || point.site != Site::Event)
                && (!only_writes || is_write(point.site))
                && disturbance.suits(point)
        };
        let possible: Vec<&FaultPoint> = points.iter().filter(suits).collect();
        if let Some(point) = draw.pick(&possible) {
            return Some((disturbance, (*point).clone()));
        }
    }
    None
}

fn is_write(site: Site) -> bool {
    matches!(site, Site::Request(Verb::Post | Verb::Put | Verb::Patch | Verb::Delete))
}

impl Exploration {
    fn record_world(&mut self, seed: u64, outcome: JobOutcome<WorldRuns>) {
        let plan = FaultPlan::calm(&format!("random/{seed}"));
        match outcome {
            JobOutcome::Returned(world) => {
                self.runs += world.calm;
                self.points += world.points;
                self.marks.extend(world.marks);
                for (plan, verdict) in world.runs {
                    self.runs += u64::from(!plan.faults.is_empty());
                    self.judge(&plan, &verdict);
                }
                if let Some(divergence) = world.divergence {
                    self.divergent.insert(plan.fixture, divergence);
                }
            }
            JobOutcome::Panicked(text) => self.broke(&plan, "a panic", text),
            JobOutcome::Hung(limit) => self.broke(&plan, "a run without end", hang(limit)),
        }
    }

    /// Returns the progress so far.
    pub(super) fn progress(&self, wall: std::time::Duration) -> Progress {
        Progress { runs: self.runs, done: self.done, planned: self.planned, findings: self.findings.len(), wall }
    }
}
