//! The exploration: reference runs of all fixtures, then plans in a fixed order until all are done or the budget ends.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use plumbline::explore::breach::ALIVE;
use plumbline::explore::faults::Disturbance;
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::explore::faults::point::Site;
use plumbline::fixture::Fixture;
use plumbline::time::Stopwatch;

use super::candidates::{Candidate, candidates};
use super::coverage::Coverage;
use super::exploration::{Exploration, JobResult};
use super::options::{ExploreOptions, Progress, Strategy};
use super::runs::{HANG, hang, reference, reference_once, try_plan};
use super::{equal, random};
use crate::explore::histories::beginnings::{beginning, is_beginning, whole_id};
use crate::explore::run::explored::ReferenceRun;
use crate::explore::run::marks::marks;
use crate::process::signals;
use crate::runner::isolate::{self, JobOutcome, JobTimer};
use crate::runner::suite::TestBed;

/// Every plan of this many is run twice, to notice a subject that is not deterministic.
const SAMPLE: usize = 64;
/// Number of points after the first fault at which a pair has its second one.
const NEAREST: usize = 3;
/// Percentage of a budget after which [`Strategy::All`] goes on to random histories.
const BEFORE_RANDOM: u32 = 60;
/// The second faults of pairs.
const SECOND: [&str; 5] = ["500", "lost-reply", "crash-before", "crash-after", "touch"];

/// Runs the plans of a candidate.
fn run_candidate(test_bed: &TestBed, reference: &ReferenceRun, candidate: Candidate, twice: bool) -> JobResult {
    let plan = candidate.plan(reference);
    let mut coverage = Coverage::default();
    let with_points = twice || candidate.pairs;
    let result =
        try_plan(test_bed, reference, plan.clone(), with_points, |_, entries| coverage.add(&plan, marks(entries)));
    let mut divergence = None;
    if twice {
        let again = try_plan(test_bed, reference, plan.clone(), with_points, |_, _| {});
        if again.observation != result.observation || again.points != result.points {
            divergence = Some(format!("two runs of {plan} differ"));
        }
    }
    if !candidate.pairs {
        return JobResult { runs: vec![(plan, result.verdict)], divergence, coverage };
    }
    let begin = result.points.iter().position(|point| point.at >= plan.faults[0].1.at && *point == plan.faults[0].1);
    let later = result.points.iter().skip(begin.map_or(0, |at| at + 1)).filter(|point| point.at >= plan.faults[0].1.at);
    let nearest = later.filter(|point| matches!(point.site, Site::Request(_))).take(NEAREST);
    let mut runs = Vec::new();
    for point in nearest {
        for second in Disturbance::at(point).filter(|disturbance| SECOND.contains(&disturbance.name())) {
            let mut pair = plan.clone();
            pair.faults.push((second, point.clone()));
            let result =
                try_plan(test_bed, reference, pair.clone(), false, |_, entries| coverage.add(&pair, marks(entries)));
            runs.push((pair, result.verdict));
        }
    }
    JobResult { runs, divergence, coverage }
}

/// Explores `fixtures` with the subject of `test_bed`. Calls `on_progress` after each job.
pub fn explore(
    fixtures: &[Fixture],
    test_bed: &TestBed,
    options: &ExploreOptions,
    mut on_progress: impl FnMut(Progress),
) -> Exploration {
    let stopwatch = Stopwatch::start();
    let mut exploration = Exploration::default();
    let random = matches!(options.strategy, Strategy::Random | Strategy::All);
    let fixtures: &[Fixture] = if options.strategy == Strategy::Random { &[] } else { fixtures };
    let references = references(fixtures, test_bed, options, &mut exploration);
    let (candidates, left_out) = candidates(&references, options);
    (exploration.planned, exploration.equal) = (candidates.len(), left_out);
    let share = if options.strategy == Strategy::All { BEFORE_RANDOM } else { 100 };
    let spent = |share: u32| options.budget.is_some_and(|most| stopwatch.elapsed() >= most * share / 100);
    let is_over = || signals::requested().is_some() || spent(share);
    let shared = Arc::new(references);
    let queue = Arc::new(candidates);
    let work = {
        let shared = shared.clone();
        let queue = queue.clone();
        let test_bed = test_bed.clone();
        move |index: usize, _: &JobTimer| {
            let candidate = queue[index];
            run_candidate(&test_bed, &shared[candidate.reference], candidate, index.is_multiple_of(SAMPLE))
        }
    };
    let found = |exploration: &Exploration| options.fail_fast && !exploration.findings.is_empty();
    let count = if is_over() || found(&exploration) { 0 } else { queue.len() };
    isolate::run_each(count, options.jobs, HANG, work, |index, outcome| {
        let candidate = queue[index];
        let reference = &shared[candidate.reference];
        exploration.done += 1;
        exploration.record(&candidate.plan(reference), outcome);
        on_progress(exploration.progress(stopwatch.elapsed()));
        !is_over() && !found(&exploration)
    });
    if random {
        let mut on_world = |exploration: &Exploration| on_progress(exploration.progress(stopwatch.elapsed()));
        random::explore(test_bed, options, &mut exploration, &|| spent(100), &mut on_world);
    }
    exploration.wall = stopwatch.elapsed();
    exploration
}

/// Returns all fixtures to explore and their beginnings, each history once.
fn histories(fixtures: &[Fixture], options: &ExploreOptions, exploration: &mut Exploration) -> Vec<Arc<Fixture>> {
    let mut chosen: Vec<Arc<Fixture>> = Vec::new();
    for fixture in fixtures {
        let objects = fixture.given.objects.len();
        let why = if fixture.controllers.is_empty() {
            "it has no controllers".to_owned()
        } else if fixture.elects_leader() && fixture.replicas == 1 {
            "it is about a leader election; --replicas explores these".to_owned()
        } else if objects > options.most_objects {
            format!("it has {objects} objects")
        } else {
            chosen.push(Arc::new(fixture.clone()));
            continue;
        };
        exploration.left_out.insert(fixture.id.clone(), why);
    }
    // Whole fixtures first: a beginning is tried only from its last step on.
    let beginnings = chosen.iter().flat_map(|fixture| (0..).map_while(|keep| beginning(fixture, keep)));
    let beginnings: Vec<Arc<Fixture>> = beginnings.map(Arc::new).collect();
    chosen.extend(beginnings);
    let all = chosen.len();
    let mut met: BTreeMap<u64, String> = BTreeMap::new();
    chosen.retain(|fixture| {
        let known = met.entry(equal::history(fixture));
        let is_new = matches!(known, Entry::Vacant(_));
        let explored = known.or_insert_with(|| whole_id(&fixture.id).to_owned());
        if !is_beginning(&fixture.id) {
            exploration.rules.entry(explored.clone()).or_default().extend(fixture.rules.iter().cloned());
        }
        is_new
    });
    exploration.equal_histories = all - chosen.len();
    chosen
}

/// Runs all fixtures without faults.
fn references(
    fixtures: &[Fixture],
    test_bed: &TestBed,
    options: &ExploreOptions,
    exploration: &mut Exploration,
) -> Vec<Arc<ReferenceRun>> {
    let shared = Arc::new(histories(fixtures, options, exploration));
    let work = {
        let shared = shared.clone();
        let test_bed = test_bed.clone();
        move |index: usize, _: &JobTimer| {
            let fixture = &shared[index];
            if is_beginning(&fixture.id) {
                Ok(reference_once(&test_bed, fixture))
            } else {
                reference(&test_bed, fixture)
            }
        }
    };
    let mut references: BTreeMap<usize, Arc<ReferenceRun>> = BTreeMap::new();
    isolate::run_each(shared.len(), options.jobs, HANG, work, |index, outcome| {
        let fixture = &shared[index];
        exploration.runs += if is_beginning(&fixture.id) { 1 } else { 2 };
        let plan = FaultPlan::calm(&fixture.id);
        match outcome {
            JobOutcome::Returned(Ok((reference, verdict))) => {
                if let Some(why) = &verdict.unfit {
                    exploration.left_out.insert(fixture.id.clone(), why.clone());
                    return signals::requested().is_none();
                }
                let dead = verdict.breaches.iter().any(|breach| breach.oracle == ALIVE);
                exploration.judge(&plan, &verdict);
                if !dead {
                    exploration.points += reference.points.len();
                    exploration.coverage.add(&plan, reference.marks.iter().cloned());
                    exploration.cite(&plan);
                    references.insert(index, Arc::new(reference));
                }
            }
            JobOutcome::Returned(Err(divergence)) => {
                exploration.divergent.insert(fixture.id.clone(), divergence.to_string());
            }
            JobOutcome::Panicked(text) => exploration.broke(&plan, "a panic", text),
            JobOutcome::Hung(limit) => exploration.broke(&plan, "a run without end", hang(limit)),
        }
        signals::requested().is_none()
    });
    let divergent = &exploration.divergent;
    references.retain(|_, reference| !divergent.contains_key(whole_id(&reference.fixture.id)));
    exploration.fixtures = references.values().filter(|reference| !is_beginning(&reference.fixture.id)).count();
    references.into_values().collect()
}
