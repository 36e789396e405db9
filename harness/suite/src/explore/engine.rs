//! The exploration: reference runs of all fixtures, then plans in a fixed order until all are done or the budget ends.
//!
//! The order depends on the seed alone. Plans of rare kinds come first: the first plan of each class (suite, request,
//! fault), then the second of each, and so on.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use plumbline::explore::disturbance::{Disturbance, FaultTrait};

use super::equal::{self, MetPlans};
use super::findings::Findings;
use super::marks::marks;
use super::observation::{Observation, observe};
use super::oracle::{self, Breach, ExploredRun, OracleVerdict, ReferenceRun};
use super::plan::{FaultPlan, Token};
use super::replicas::elects;
use super::script::{
    Script, beginning, controls_subject, disturbs_watches, first_outage, has_faults, is_beginning, script, step_times,
    whole_id,
};
use super::{exceptions, random};
use crate::process::signals;
use crate::runner::drive::{self, RunContext};
use crate::runner::isolate::{self, JobOutcome, JobTimer};
use crate::runner::suite::TestBed;
use crate::runner::{RunError, RunRecord, RunRecorder, StartLimit};

/// Wall time after which a run counts as hanging; most take milliseconds.
pub(super) const HANG: Duration = Duration::from_mins(1);
/// Every plan of this many is run twice, to notice a subject that is not deterministic.
const SAMPLE: usize = 64;
/// Number of points after the first fault at which a pair has its second one.
const NEAREST: usize = 3;
/// Number of random orders of each depth for each fixture.
const ORDERS: u32 = 3;
/// Percentage of a budget after which [`Strategy::All`] goes on to random worlds.
const BEFORE_RANDOM: u32 = 60;
/// The second faults of pairs.
const SECOND: [&str; 5] = ["500", "lost-reply", "crash-before", "crash-after", "touch"];

/// The plans to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Strategy {
    /// Each fault at each point
    Single,
    /// Two faults, the second at one of the next requests after the first
    Pairs,
    /// Simultaneous requests and events in another order
    Order,
    /// Random histories with random faults
    Random,
    /// All of these: single faults, orders, pairs, and random histories for the last part of the budget
    All,
}

/// Options of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct ExploreOptions {
    /// Number of runs at the same time.
    pub jobs: usize,
    /// Decides the order of the plans.
    pub seed: u64,
    /// The plans to try.
    pub strategy: Strategy,
    /// No run begins after this wall time.
    pub budget: Option<Duration>,
    /// This part of the plans, of so many parts: `(1, 1)` is all of them.
    pub shard: (u64, u64),
    /// Fixtures with more objects are left out, because each of their runs takes as long as many others.
    pub most_objects: usize,
    /// No run begins after the first finding.
    pub fail_fast: bool,
    /// Number of random worlds; `None`: as many as the budget allows, or 256 without a budget.
    pub worlds: Option<u64>,
}

impl Default for ExploreOptions {
    fn default() -> Self {
        Self {
            jobs: 1,
            seed: 1,
            strategy: Strategy::Single,
            budget: None,
            shard: (1, 1),
            most_objects: 200,
            fail_fast: false,
            worlds: None,
        }
    }
}

/// Progress of an exploration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of runs.
    pub runs: u64,
    /// Number of plans that are done.
    pub done: usize,
    /// Number of plans to do.
    pub planned: usize,
    /// Number of findings.
    pub findings: usize,
    /// Wall time since the start.
    pub wall: Duration,
}

/// The result of an exploration.
#[derive(Debug, Clone, Default)]
pub struct Exploration {
    /// Number of runs, including reference runs.
    pub runs: u64,
    /// Number of plans in this part.
    pub planned: usize,
    /// Number of plans of all parts that were left out because another plan has the same run.
    pub equal: usize,
    /// Number of histories that were left out because another fixture has the same one.
    pub equal_histories: usize,
    /// Number of plans that were tried.
    pub done: usize,
    /// Number of fixtures with a reference run.
    pub fixtures: usize,
    /// Number of points of all reference runs.
    pub points: usize,
    /// Number of runs whose end state was not compared because a fault changed their history.
    pub diverged: u64,
    /// Number of runs that say nothing: the plan does not fit the fixture.
    pub unfit: u64,
    /// The findings.
    pub findings: Findings,
    /// Fixtures that were left out, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Fixtures for which the subject is not deterministic, with the first divergence.
    pub divergent: BTreeMap<String, String>,
    /// Catalogue rules of the fixtures that were explored.
    pub rules: BTreeSet<String>,
    /// The marks that were reached, see [`marks`].
    pub marks: BTreeSet<String>,
    /// Number of random worlds.
    pub worlds: u64,
    /// Wall time.
    pub wall: Duration,
}

/// Runs `script` and returns its record.
fn execute(test_bed: &TestBed, script: &Script) -> RunRecord {
    execute_until(test_bed, script, |_| false)
}

/// Runs `script` until `is_over` returns true at the end of the quiet window, and returns its record.
fn execute_until(test_bed: &TestBed, script: &Script, is_over: impl Fn(&RunRecord) -> bool) -> RunRecord {
    let (recorder, starts, timer) = (RunRecorder::default(), StartLimit::new(1), JobTimer::default());
    let until = |step: usize| step == script.quiet && recorder.update(|record| is_over(record));
    let context = RunContext {
        cluster: &*test_bed.cluster,
        subject: &*test_bed.subject,
        starts: &starts,
        timer: &timer,
        until: Some(&until),
    };
    if let Err(error) = drive::run(&script.fixture, context, &recorder) {
        recorder.fail(RunError::Runtime(error));
    }
    recorder.record()
}

/// The first difference between two runs of the same plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the first run has `{first}`, the second `{second}`")]
pub struct Divergence {
    first: String,
    second: String,
}

/// A point of a token that the run with the faults before it does not come to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no point {0}")]
pub struct UnknownPoint(pub String);

/// A reference run and its verdict; the first divergence if a second run differs.
type ReferenceResult = Result<(ReferenceRun, OracleVerdict), Divergence>;

/// Runs `fixture` without faults, twice.
///
/// # Errors
///
/// Returns the first divergence if the two runs differ.
pub fn reference(test_bed: &TestBed, fixture: &Arc<Fixture>) -> ReferenceResult {
    let script = script(fixture, &FaultPlan::calm(&fixture.id));
    let (record, again) = (execute(test_bed, &script), execute(test_bed, &script));
    match first_divergence(&record, &again) {
        Some(divergence) => Err(divergence),
        None => Ok(reference_of(fixture, &script, &record)),
    }
}

/// Runs `fixture` without faults.
#[must_use]
pub fn reference_once(test_bed: &TestBed, fixture: &Arc<Fixture>) -> (ReferenceRun, OracleVerdict) {
    let script = script(fixture, &FaultPlan::calm(&fixture.id));
    reference_of(fixture, &script, &execute(test_bed, &script))
}

fn reference_of(fixture: &Arc<Fixture>, script: &Script, record: &RunRecord) -> (ReferenceRun, OracleVerdict) {
    let plan = FaultPlan::calm(&fixture.id);
    record.transcript.with(|entries| {
        let observation = observe(script, record, entries);
        let explored = ExploredRun { plan: &plan, record, entries, observation: &observation };
        let mut verdict = oracle::judge_alone(fixture, explored);
        if verdict.unfit.is_none() && !is_beginning(&fixture.id) {
            verdict.breaches.extend(oracle::judge_calm(fixture, explored));
        }
        let broken = verdict.breaches.iter().map(|breach| breach.oracle.clone()).collect();
        verdict.breaches.retain(|breach| !exceptions::is_declared(&fixture.id, &breach.oracle));
        let resources = kinds(record.initial.iter().map(|object| &**object));
        let quiet = observation.quiet_at.min(entries.len());
        let points = points(&entries[..quiet], &resources, &step_times(fixture));
        let begin = ObjectStates::new(&record.run(&[], Duration::ZERO), &fixture.given.namespace);
        let reference = ReferenceRun {
            fixture: fixture.clone(),
            moments: equal::moments(entries, &points),
            populations: equal::populations(&begin, entries, &points),
            points,
            objects: changed_objects(&entries[..quiet]),
            broken,
            elects: elects(entries),
            marks: marks(entries),
            observation,
        };
        (reference, verdict)
    })
}

/// Returns the first line in which the transcripts of two runs differ.
fn first_divergence(one: &RunRecord, other: &RunRecord) -> Option<Divergence> {
    let text = |record: &RunRecord| {
        record.transcript.with(|entries: &[TranscriptEntry]| to_text(&render(record.start, &record.initial, entries)))
    };
    let (one, other) = (text(one), text(other));
    if one == other {
        return None;
    }
    let (mut was, mut is) = (one.lines(), other.lines());
    let mut pairs = std::iter::from_fn(|| Some((was.next(), is.next())));
    let (was, is) = pairs.find(|(was, is)| was != is || was.is_none()).unwrap_or_default();
    let line = |line: Option<&str>| line.unwrap_or("(end)").trim().to_owned();
    Some(Divergence { first: line(was), second: line(is) })
}

/// A plan that ran.
#[derive(Debug, Clone)]
pub struct PlanResult {
    /// The plan.
    pub plan: FaultPlan,
    /// Its verdict.
    pub verdict: OracleVerdict,
    /// The facts of the run.
    pub observation: Observation,
    /// The points of the run. Empty after [`try_plan`] without them.
    pub points: Vec<FaultPoint>,
}

/// Runs `plan` on the fixture of `reference` and judges it. `look` gets the record before it is dropped.
pub fn run_plan(
    test_bed: &TestBed,
    reference: &ReferenceRun,
    plan: FaultPlan,
    look: impl FnOnce(&RunRecord, &[TranscriptEntry]),
) -> PlanResult {
    let script = script(&reference.fixture, &plan);
    let record = execute(test_bed, &script);
    let observation = record.transcript.with(|entries| observe(&script, &record, entries));
    judge_run(reference, plan, &record, observation, true, look)
}

/// Like [`run_plan`], but without the restart at the end if the run without faults ended in the same state: what fresh
/// controllers do depends on the state alone, so they do the same. A third of most runs is that restart.
pub fn try_plan(
    test_bed: &TestBed,
    reference: &ReferenceRun,
    plan: FaultPlan,
    with_points: bool,
    look: impl FnOnce(&RunRecord, &[TranscriptEntry]),
) -> PlanResult {
    // The state has neither times nor uids: fresh controllers with another clock, or other objects, may differ.
    let comparable = plan
        .faults
        .iter()
        .all(|(disturbance, _)| !disturbance.steps_clock() && !disturbance.is(FaultTrait::ChangesHistory));
    let script = script(&reference.fixture, &plan);
    let of = |record: &RunRecord| record.transcript.with(|entries| observe(&script, record, entries));
    let seen = RefCell::new(None);
    let record = execute_until(test_bed, &script, |record| {
        let same = comparable.then(|| of(record)).filter(|found| found.state == reference.observation.state);
        let is_over = same.is_some();
        *seen.borrow_mut() = same;
        is_over
    });
    let observation = seen.take().unwrap_or_else(|| of(&record));
    judge_run(reference, plan, &record, observation, with_points, look)
}

fn judge_run(
    reference: &ReferenceRun,
    plan: FaultPlan,
    record: &RunRecord,
    observation: Observation,
    with_points: bool,
    look: impl FnOnce(&RunRecord, &[TranscriptEntry]),
) -> PlanResult {
    record.transcript.with(|entries| {
        let explored = ExploredRun { plan: &plan, record, entries, observation: &observation };
        let verdict = oracle::judge(reference, explored);
        let points = if with_points {
            let resources = kinds(record.initial.iter().map(|object| &**object));
            points(&entries[..observation.quiet_at.min(entries.len())], &resources, &step_times(&reference.fixture))
        } else {
            Vec::new()
        };
        look(record, entries);
        PlanResult { plan, verdict, observation, points }
    })
}

/// Finds the points of `token` in runs: that of the first fault in the reference run, that of each further one in the
/// run with those before it.
///
/// # Errors
///
/// Returns the first point that does not exist.
pub fn resolve(test_bed: &TestBed, reference: &ReferenceRun, token: &Token) -> Result<FaultPlan, UnknownPoint> {
    let mut plan = FaultPlan::calm(&token.fixture);
    let mut points = reference.points.clone();
    for (index, (disturbance, text)) in token.faults.iter().enumerate() {
        if index > 0 {
            points = run_plan(test_bed, reference, plan.clone(), |_, _| {}).points;
        }
        let point = FaultPoint::parse_run(text);
        let point = point.or_else(|| points.iter().find(|point| point.to_string() == *text).cloned());
        plan.faults.push((*disturbance, point.ok_or_else(|| UnknownPoint(text.clone()))?));
    }
    Ok(plan)
}

/// A fault at a point, by their places in the tables of the exploration.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    reference: usize,
    point: usize,
    disturbance: Disturbance,
    /// True if pairs are to be tried that begin with this fault.
    pairs: bool,
    /// The seed of a fault that concerns the whole run.
    seed: Option<u32>,
}

impl Candidate {
    /// Returns the plan of the first fault alone.
    fn plan(&self, reference: &ReferenceRun) -> FaultPlan {
        let point = self.seed.map_or_else(|| reference.points[self.point].clone(), FaultPoint::of_run);
        FaultPlan { fixture: reference.fixture.id.clone(), faults: vec![(self.disturbance, point)] }
    }
}

/// Returns the orders of simultaneous work to try: all fixtures with the first seed, then with the next.
fn orders(references: &[Arc<ReferenceRun>], options: &ExploreOptions) -> Vec<Candidate> {
    let (part, parts) = (options.shard.0.saturating_sub(1), options.shard.1.max(1));
    let mut all = Vec::new();
    for number in 0..ORDERS {
        let seed = u32::try_from(options.seed).unwrap_or_default().wrapping_mul(ORDERS).wrapping_add(number + 1).max(1);
        for disturbance in Disturbance::all().filter(|disturbance| disturbance.is(FaultTrait::Reorders)) {
            let whole = references.iter().enumerate().filter(|(_, found)| !is_beginning(&found.fixture.id));
            let mine = whole.filter(|(index, _)| *index as u64 % parts == part);
            all.extend(mine.map(|(reference, _)| Candidate {
                reference,
                point: 0,
                disturbance,
                pairs: false,
                seed: Some(seed),
            }));
        }
    }
    all
}

/// Returns the plans of the strategy; `single` are the single faults.
fn of_strategy(single: Vec<Candidate>, references: &[Arc<ReferenceRun>], options: &ExploreOptions) -> Vec<Candidate> {
    let paired = |single: &[Candidate]| -> Vec<Candidate> {
        single.iter().map(|candidate| Candidate { pairs: true, ..*candidate }).collect()
    };
    match options.strategy {
        Strategy::Single => single,
        Strategy::Order => orders(references, options),
        Strategy::Random => Vec::new(),
        Strategy::Pairs => paired(&single),
        Strategy::All => {
            let pairs = paired(&single);
            single.into_iter().chain(orders(references, options)).chain(pairs).collect()
        }
    }
}

/// Returns the single faults of all reference runs in the order in which they are tried.
fn candidates(references: &[Arc<ReferenceRun>], options: &ExploreOptions) -> (Vec<Candidate>, usize) {
    let mut all: Vec<(u64, String, Candidate)> = Vec::new();
    let mut left_out = 0;
    for (index, reference) in references.iter().enumerate() {
        let (controls, watches) = (controls_subject(&reference.fixture), disturbs_watches(&reference.fixture));
        // A partition or a flaky server spreads what the fixture's own faults concern over the back-off.
        let faults = has_faults(&reference.fixture);
        // Requests that an outage drops are not counted by faults.
        let outage = first_outage(&reference.fixture);
        let (mut moments, mut met) = (BTreeSet::new(), MetPlans::default());
        // The whole fixture has the same points before the last step of a beginning.
        let from = if is_beginning(&reference.fixture.id) { reference.fixture.end() } else { Duration::ZERO };
        for (place, point) in reference.points.iter().enumerate().filter(|(_, point)| point.at >= from) {
            let event = point.site == Site::Event;
            // Events of one resource at one moment are held, closed and lost together.
            if !event && outage.is_some_and(|from| point.at >= from) {
                continue;
            }
            if event && (watches || !moments.insert((point.target.resource.plural.clone(), point.at))) {
                continue;
            }
            for disturbance in Disturbance::at(point) {
                let cut_off = disturbance.cut_off().is_some() || disturbance.refusals() > 0;
                if (controls && disturbance.is(FaultTrait::ControlsSubject))
                    || (cut_off && (faults || watches))
                    || (disturbance.is(FaultTrait::ConcernsLeader) && !reference.elects)
                    || !met.is_new(reference, place, disturbance)
                {
                    continue;
                }
                let mut hasher = DefaultHasher::new();
                (options.seed, &reference.fixture.id, place, disturbance.to_string()).hash(&mut hasher);
                let hash = hasher.finish();
                if hash % options.shard.1.max(1) != options.shard.0.saturating_sub(1) {
                    continue;
                }
                let target = &point.target;
                let subresource = target.subresource.as_deref().unwrap_or_default();
                let (suite, plural) = (&reference.fixture.suite, &target.resource.plural);
                let class = format!("{suite} {:?} {plural} {subresource} {disturbance}", point.site);
                all.push((
                    hash,
                    class,
                    Candidate { reference: index, point: place, disturbance, pairs: false, seed: None },
                ));
            }
        }
        left_out += met.left_out();
    }
    all.sort_by_key(|entry| entry.0);
    let mut ranks: BTreeMap<String, u32> = BTreeMap::new();
    let mut ranked: Vec<(u32, u64, Candidate)> = all
        .into_iter()
        .map(|(hash, class, candidate)| {
            let rank = ranks.entry(class).or_default();
            *rank += 1;
            (*rank, hash, candidate)
        })
        .collect();
    ranked.sort_by_key(|(rank, hash, _)| (*rank, *hash));
    let single = ranked.into_iter().map(|(_, _, candidate)| candidate).collect();
    (of_strategy(single, references, options), left_out)
}

/// The result of a job: the plans that ran, and the first divergence if a repeated run differed.
struct JobResult {
    runs: Vec<(FaultPlan, OracleVerdict)>,
    divergence: Option<String>,
    marks: BTreeSet<String>,
}

/// Runs the plans of a candidate.
fn run_candidate(test_bed: &TestBed, reference: &ReferenceRun, candidate: Candidate, twice: bool) -> JobResult {
    let plan = candidate.plan(reference);
    let mut seen = BTreeSet::new();
    let with_points = twice || candidate.pairs;
    let result = try_plan(test_bed, reference, plan.clone(), with_points, |_, entries| seen.extend(marks(entries)));
    let mut divergence = None;
    if twice {
        let again = try_plan(test_bed, reference, plan.clone(), with_points, |_, _| {});
        if again.observation != result.observation || again.points != result.points {
            divergence = Some(format!("two runs of {plan} differ"));
        }
    }
    if !candidate.pairs {
        return JobResult { runs: vec![(plan, result.verdict)], divergence, marks: seen };
    }
    let begin = result.points.iter().position(|point| point.at >= plan.faults[0].1.at && *point == plan.faults[0].1);
    let later = result.points.iter().skip(begin.map_or(0, |at| at + 1)).filter(|point| point.at >= plan.faults[0].1.at);
    let nearest = later.filter(|point| matches!(point.site, Site::Request(_))).take(NEAREST);
    let mut runs = Vec::new();
    for point in nearest {
        for second in Disturbance::at(point).filter(|disturbance| SECOND.contains(&disturbance.name())) {
            let mut pair = plan.clone();
            pair.faults.push((second, point.clone()));
            let result = try_plan(test_bed, reference, pair.clone(), false, |_, entries| seen.extend(marks(entries)));
            runs.push((pair, result.verdict));
        }
    }
    JobResult { runs, divergence, marks: seen }
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
    let (shared, queue) = (Arc::new(references), Arc::new(candidates));
    let work = {
        let (shared, queue, test_bed) = (shared.clone(), queue.clone(), test_bed.clone());
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
    let mut met = BTreeSet::new();
    chosen.retain(|fixture| {
        exploration.rules.extend(fixture.rules.iter().cloned());
        met.insert(equal::history(fixture))
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
        let (shared, test_bed) = (shared.clone(), test_bed.clone());
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
                let dead = verdict.breaches.iter().any(|breach| breach.oracle == oracle::ALIVE);
                exploration.judge(&plan, &verdict);
                if !dead {
                    exploration.points += reference.points.len();
                    exploration.marks.extend(reference.marks.iter().cloned());
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

pub(super) fn hang(limit: Duration) -> String {
    format!("the run had not ended after {} s of wall time", limit.as_secs())
}

impl Exploration {
    /// Returns runs per hour of wall time.
    #[must_use]
    #[expect(clippy::cast_sign_loss, reason = "a count by a time")]
    pub fn runs_per_hour(&self) -> u64 {
        let seconds = self.wall.as_secs_f64();
        if seconds > 0.0 { (self.runs as f64 * 3600.0 / seconds).round() as u64 } else { 0 }
    }

    fn record(&mut self, plan: &FaultPlan, outcome: JobOutcome<JobResult>) {
        match outcome {
            JobOutcome::Returned(result) => {
                for (plan, verdict) in result.runs {
                    self.runs += 1;
                    self.judge(&plan, &verdict);
                }
                self.marks.extend(result.marks);
                if let Some(divergence) = result.divergence {
                    self.divergent.insert(plan.fixture.clone(), divergence);
                }
            }
            JobOutcome::Panicked(text) => self.broke(plan, "a panic", text),
            JobOutcome::Hung(limit) => self.broke(plan, "a run without end", hang(limit)),
        }
    }

    pub(super) fn judge(&mut self, plan: &FaultPlan, verdict: &OracleVerdict) {
        self.diverged += u64::from(verdict.diverged);
        self.unfit += u64::from(verdict.unfit.is_some());
        for breach in &verdict.breaches {
            self.findings.add(plan, breach);
        }
    }

    pub(super) fn broke(&mut self, plan: &FaultPlan, kind: &str, text: String) {
        self.runs += 1;
        self.findings.add(plan, &Breach::of_ending(kind, Duration::ZERO, text));
    }
}
