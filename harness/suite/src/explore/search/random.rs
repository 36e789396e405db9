//! The exploration of random histories. Each is run without faults and then with a few random ones; which kinds of
//! fault are possible differs from history to history ("Swarm testing", ISSTA 2012). Histories that show something for
//! the first time get more runs.
//!
//! Histories are run in rounds, and what is new is decided in the order of their seeds, so that the result does not
//! depend on the number of jobs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use plumbline::explore::faults::plan::FaultPlan;
use plumbline::explore::faults::point::{FaultPoint, Site};
use plumbline::explore::faults::{Disturbance, FaultTrait};
use plumbline::fixture::pattern::Verb;

use super::coverage::Coverage;
use super::exploration::Exploration;
use super::options::ExploreOptions;
use super::runs::{HANG, hang, reference, reference_once, try_plan};
use crate::explore::histories::draw::Draw;
use crate::explore::histories::facts::{controls_subject, disturbs_watches};
use crate::explore::histories::random as histories;
use crate::explore::judge::OracleVerdict;
use crate::explore::run::explored::ReferenceRun;
use crate::explore::run::marks::marks;
use crate::process::signals;
use crate::runner::isolate::{self, JobOutcome, JobTimer};
use crate::runner::suite::TestBed;

/// Number of histories in a round.
const ROUND: u64 = 32;
/// Number of histories if neither a number nor a budget is given.
const HISTORIES: u64 = 256;
/// Number of fault plans for each history.
const PLANS: u64 = 4;
/// Number of further plans for a history that showed something new.
const MORE_PLANS: u64 = 12;
/// Largest number of faults of a plan.
const MOST_FAULTS: u64 = 3;
/// Every history of this many is run twice, to notice a subject that is not deterministic.
const TWICE: u64 = 16;
/// Percentage of faults that are to concern a write.
const WRITES: u64 = 50;
/// Percentage of plans with another order of simultaneous work.
const REORDERED: u64 = 15;

/// Seeds of histories per seed of an exploration.
const SEEDS: u64 = 1_000_000_000;

/// The runs of a history.
#[derive(Debug, Default)]
struct HistoryRuns {
    runs: Vec<(FaultPlan, OracleVerdict)>,
    /// Number of runs without faults.
    calm: u64,
    points: usize,
    coverage: Coverage,
    divergence: Option<String>,
}

/// Explores random histories until `is_over` returns true or all histories are done.
pub(super) fn explore(
    test_bed: &TestBed,
    options: &ExploreOptions,
    exploration: &mut Exploration,
    is_over: &dyn Fn() -> bool,
    on_progress: &mut dyn FnMut(&Exploration),
) {
    let most = options.worlds.unwrap_or(if options.budget.is_some() { u64::MAX } else { HISTORIES });
    let is_over = |exploration: &Exploration| {
        is_over() || signals::requested().is_some() || (options.fail_fast && !exploration.findings.is_empty())
    };
    let parts = options.shard.1.max(1);
    let part = options.shard.0.saturating_sub(1);
    let mut first = 0;
    while first < most && !is_over(exploration) {
        let numbers = first..most.min(first + ROUND);
        let seeds: Vec<u64> =
            numbers.filter(|number| number % parts == part).map(|number| options.seed * SEEDS + number).collect();
        let mut novel = Vec::new();
        run_round(test_bed, options.jobs, &seeds, 0..PLANS, |seed, runs| {
            if let JobOutcome::Returned(history) = &runs
                && history.coverage.marks().iter().any(|mark| !exploration.coverage.has(mark))
            {
                novel.push(seed);
            }
            exploration.worlds += 1;
            exploration.record_history(seed, runs);
            on_progress(exploration);
            !is_over(exploration)
        });
        run_round(test_bed, options.jobs, &novel, PLANS..PLANS + MORE_PLANS, |seed, runs| {
            exploration.record_history(seed, runs);
            on_progress(exploration);
            !is_over(exploration)
        });
        first += ROUND;
    }
}

/// Runs histories in parallel and passes their runs on in the order of `seeds`.
fn run_round(
    test_bed: &TestBed,
    jobs: usize,
    seeds: &[u64],
    plans: Range<u64>,
    mut done: impl FnMut(u64, JobOutcome<HistoryRuns>) -> bool,
) {
    let shared: Arc<[u64]> = seeds.into();
    let work = {
        let shared = shared.clone();
        let test_bed = test_bed.clone();
        move |index: usize, timer: &JobTimer| run_history(&test_bed, shared[index], plans.clone(), timer)
    };
    let mut outcomes = BTreeMap::new();
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

/// Runs a history without faults and with the random plans of these numbers. The time limit counts for each plan.
fn run_history(test_bed: &TestBed, seed: u64, plans: Range<u64>, timer: &JobTimer) -> HistoryRuns {
    let fixture = match histories::fixture(seed) {
        Ok(fixture) => Arc::new(fixture),
        Err(problem) => return HistoryRuns { divergence: Some(problem.to_string()), ..HistoryRuns::default() },
    };
    let twice = plans.start == 0 && seed.is_multiple_of(TWICE);
    let result = if twice { reference(test_bed, &fixture) } else { Ok(reference_once(test_bed, &fixture)) };
    let (reference, verdict) = match result {
        Ok(result) => result,
        Err(divergence) => {
            return HistoryRuns { calm: 2, divergence: Some(divergence.to_string()), ..HistoryRuns::default() };
        }
    };
    let mut runs =
        HistoryRuns { calm: if twice { 2 } else { 1 }, points: reference.points.len(), ..HistoryRuns::default() };
    runs.coverage.add(&FaultPlan::calm(&fixture.id), reference.marks.iter().cloned());
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
    history: &mut HistoryRuns,
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
        let result =
            try_plan(test_bed, reference, plan.clone(), true, |_, entries| history.coverage.add(&plan, marks(entries)));
        let failed = !result.verdict.breaches.is_empty();
        points = result.points;
        history.runs.push((plan.clone(), result.verdict));
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
    let controls = controls_subject(&reference.fixture);
    let watches = disturbs_watches(&reference.fixture);
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
    fn record_history(&mut self, seed: u64, outcome: JobOutcome<HistoryRuns>) {
        let plan = FaultPlan::calm(&format!("random/{seed}"));
        match outcome {
            JobOutcome::Returned(history) => {
                self.runs += history.calm;
                self.points += history.points;
                self.coverage.merge(history.coverage);
                for (plan, verdict) in history.runs {
                    self.runs += u64::from(!plan.faults.is_empty());
                    self.judge(&plan, &verdict);
                }
                if let Some(divergence) = history.divergence {
                    self.divergent.insert(plan.fixture, divergence);
                }
            }
            JobOutcome::Panicked(text) => self.broke(&plan, "a panic", text),
            JobOutcome::Hung(limit) => self.broke(&plan, "a run without end", hang(limit)),
        }
    }
}
