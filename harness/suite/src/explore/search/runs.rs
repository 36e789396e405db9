//! Runs of plans: reference runs, runs with faults, and the points of tokens.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use plumbline::expect::world::{ObjectStates, kinds};
use plumbline::explore::faults::FaultTrait;
use plumbline::explore::faults::plan::{FaultPlan, Token};
use plumbline::explore::faults::point::{FaultPoint, is_lease_or_review, points};
use plumbline::explore::knowledge::Knowledge;
use plumbline::explore::state::changed_objects;
use plumbline::fixture::Fixture;
use plumbline::transcript::TranscriptEntry;

use crate::explore::histories::beginnings::is_beginning;
use crate::explore::histories::facts::step_times;
use crate::explore::judge::leader::elects;
use crate::explore::judge::{self, OracleVerdict};
use crate::explore::run::execute::{Divergence, execute, execute_until, first_divergence};
use crate::explore::run::explored::{ExploredRun, ReferenceRun};
use crate::explore::run::marks::marks;
use crate::explore::run::moments;
use crate::explore::run::observation::{Observation, observe};
use crate::explore::run::script::{Script, script};
use crate::runner::RunRecord;
use crate::runner::suite::TestBed;

/// Wall time after which a run counts as hanging; most take milliseconds.
pub(in crate::explore) const HANG: Duration = Duration::from_mins(1);

/// Describes a run that hangs.
pub(super) fn hang(limit: Duration) -> String {
    format!("the run had not ended after {} s of wall time", limit.as_secs())
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
    let record = execute(test_bed, &script);
    let again = execute(test_bed, &script);
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
    let deliveries = record.transcript.deliveries();
    record.transcript.with(|entries| {
        let observation = observe(script, record, entries);
        let begin = ObjectStates::new(&record.run(&[], Duration::ZERO), &fixture.given.namespace);
        let knowledge = Knowledge::new(&begin, entries, &deliveries);
        let explored = ExploredRun {
            plan: &plan,
            record,
            begin: &begin,
            entries,
            observation: &observation,
            knowledge: &knowledge,
        };
        let mut verdict = judge::judge_alone(fixture, explored);
        if verdict.unfit.is_none() && !is_beginning(&fixture.id) {
            verdict.breaches.extend(judge::judge_calm(explored));
        }
        let broken = verdict.breaches.iter().map(|breach| breach.oracle.clone()).collect();
        let resources = kinds(record.initial.iter().map(|object| &**object));
        let quiet = observation.quiet_at.min(entries.len());
        let points = points(&entries[..quiet], &resources, &step_times(fixture), is_lease_or_review);
        let reference = ReferenceRun {
            fixture: fixture.clone(),
            moments: moments::moments(entries, &points),
            populations: moments::populations(&begin, entries, &points),
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
    let deliveries = record.transcript.deliveries();
    record.transcript.with(|entries| {
        let begin = ObjectStates::new(&record.run(&[], Duration::ZERO), &reference.fixture.given.namespace);
        let knowledge = Knowledge::new(&begin, entries, &deliveries);
        let explored = ExploredRun {
            plan: &plan,
            record,
            begin: &begin,
            entries,
            observation: &observation,
            knowledge: &knowledge,
        };
        let verdict = judge::judge(reference, explored);
        let points = if with_points {
            let resources = kinds(record.initial.iter().map(|object| &**object));
            {
                let entries = &entries[..observation.quiet_at.min(entries.len())];
                points(entries, &resources, &step_times(&reference.fixture), is_lease_or_review)
            }
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
