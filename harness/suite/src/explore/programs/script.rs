//! The steps of a program's run: those of the scenario, the faults of the plan, times at which the run may be over, a
//! quiet window, and a fresh start at the end. Pure.

use std::time::Duration;

use plumbline::explore::faults::Disturbance;
use plumbline::explore::faults::inject::RESTART_AFTER;
use plumbline::fixture::{Action, Control, Fixture, Step, StepKind, Traffic};

use super::job::{PlannedFault, StepDelay, StepMerge, WorkerJob};
use crate::explore::run::script::Builder;

/// A fixture to run, and the places of its parts.
#[derive(Debug, Clone)]
pub struct ProgramScript {
    /// The fixture.
    pub fixture: Fixture,
    /// Indexes of the steps after which the run may be over.
    pub checkpoints: Vec<usize>,
    /// Index of the step with which the quiet window begins.
    pub converged: usize,
    /// Index of the step with which the quiet window ends.
    pub quiet: usize,
    /// The steps of the scenario that come later than those before them: index and time.
    pub later: Vec<(usize, Duration)>,
}

/// A fault that no program knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fault")]
pub struct UnknownFault(String);

/// Returns the faults of a job.
///
/// # Errors
///
/// Returns the first fault that does not exist.
pub fn faults(job: &WorkerJob) -> Result<Vec<PlannedFault>, UnknownFault> {
    let named = |(name, point): &(String, super::job::Point)| {
        let fault = Disturbance::parse(name).ok_or_else(|| UnknownFault(name.clone()))?;
        Ok((fault, point.clone()))
    };
    job.faults.iter().map(named).collect()
}

/// Returns true for actions that disturb the program rather than give it work.
fn is_fault(action: &Action) -> bool {
    matches!(
        action,
        Action::Control(_)
            | Action::Fault(_)
            | Action::Heal(_)
            | Action::Watch(_)
            | Action::Compact
            | Action::Skew(_)
            | Action::StepClock(_)
            | Action::Outage(_)
            | Action::Interfere(_)
    )
}

/// Returns true if the scenario has faults of its own.
#[must_use]
pub fn has_faults(fixture: &Fixture) -> bool {
    let given = &fixture.given;
    let mut actions = fixture.steps.iter().flat_map(plumbline::fixture::parse::step_actions);
    !given.faults.is_empty() || !given.watches.is_empty() || actions.any(is_fault)
}

/// Returns the scenario without its faults.
#[must_use]
pub fn calm(fixture: &Fixture) -> Fixture {
    let mut calm = fixture.clone();
    calm.given.faults.clear();
    calm.given.watches.clear();
    for step in &mut calm.steps {
        if let StepKind::Do { actions, .. } = &mut step.kind {
            actions.retain(|action| !is_fault(action));
        }
    }
    calm.steps.retain(|step| !matches!(&step.kind, StepKind::Do { actions, .. } if actions.is_empty()));
    calm
}

/// Builds the script of `job` for its scenario.
#[must_use]
pub fn script(fixture: &Fixture, job: &WorkerJob, faults: &[PlannedFault]) -> ProgramScript {
    let mut fixture = if job.own_faults { fixture.clone() } else { calm(fixture) };
    if let Some(merge) = job.merge {
        merge_steps(&mut fixture.steps, merge);
    }
    if let Some(StepDelay { after, by }) = job.delay {
        let late = |step: &&mut Step| step.at > Duration::from_millis(after);
        fixture.steps.iter_mut().filter(late).for_each(|step| step.delay(Duration::from_millis(by)));
    }
    let times: Vec<Duration> = fixture.steps.iter().map(|step| step.at).collect();
    let later = times.iter().copied().enumerate().skip(1).filter(|(index, at)| *at > times[index - 1]).collect();
    let mut given = fixture.given.clone();
    let mut injected: Vec<(Duration, Vec<Action>)> = Vec::new();
    let mut armed = Vec::new();
    let mut end = fixture.end();
    for (disturbance, point) in faults {
        let point = point.point();
        let injection = disturbance.inject(&point, RESTART_AFTER);
        armed.extend(injection.faults);
        given.watches.extend(injection.before_start);
        injected.extend(injection.steps);
        end = end.max(point.at + disturbance.duration());
    }
    armed.append(&mut given.faults);
    given.faults = armed;
    injected.sort_by_key(|(at, _)| *at);
    end = end.max(injected.last().map(|(at, _)| *at).unwrap_or_default());

    let mut builder = Builder::default();
    let mut injected = injected.into_iter().peekable();
    for step in &fixture.steps {
        while let Some((at, actions)) = injected.next_if(|(injected, _)| *injected <= step.end()) {
            builder.act(at, actions);
        }
        builder.original(step);
    }
    for (at, actions) in injected {
        builder.act(at, actions);
    }
    let mut checkpoints: Vec<usize> =
        job.checkpoints.iter().map(|after| builder.wait(end + Duration::from_millis(*after))).collect();
    let converged = checkpoints.pop().unwrap_or_else(|| builder.wait(end));
    let quiet = builder.wait(builder.now + Duration::from_millis(job.quiet));
    builder.act(builder.now, vec![Action::Control(Control::Restart)]);
    builder.wait(builder.now + Duration::from_millis(job.fresh));
    let steps = builder.steps;
    let fixture = Fixture { given, steps, expect: Vec::new(), traffic: Traffic::default(), ..fixture };
    checkpoints.push(converged);
    ProgramScript { fixture, checkpoints, converged, quiet, later }
}

/// Lets steps come at once, without the program acting between them.
fn merge_steps(steps: &mut Vec<Step>, StepMerge { first, last, ahead }: StepMerge) {
    if first >= last || last >= steps.len() {
        return;
    }
    let mut merged: Vec<Step> = steps.drain(first..=last).collect();
    let at = if ahead { merged[0].at } else { merged[merged.len() - 1].at };
    if ahead {
        merged.rotate_left(1);
    }
    let Some(mut together) = merged.pop() else { return };
    if let StepKind::Do { actions, .. } = &mut together.kind {
        let before = merged.iter().flat_map(plumbline::fixture::parse::step_actions).cloned();
        *actions = before.chain(std::mem::take(actions)).collect();
    }
    together.at = at;
    steps.insert(first, together);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plumbline::fixture::parse;
    use plumbline::fixture::pattern::Resources;

    use super::*;

    #[test]
    fn later_steps_are_delayed() {
        let text = "steps:\n- { at: 5s, delete: nodes/a }\n- { at: 7s, delete: nodes/b }\n";
        let fixture = parse::scenario(Path::new("a.yaml"), text, Resources::default()).expect("a scenario");
        let delay = Some(StepDelay { after: 5_000, by: 60_000 });
        let script = script(&fixture, &WorkerJob { delay, checkpoints: vec![1_000], ..WorkerJob::default() }, &[]);
        let times: Vec<u64> = script.fixture.steps.iter().map(|step| step.at.as_secs()).collect();
        assert_eq!(times, [5, 5, 67, 67, 68, 68, 68, 68]);
    }

    #[test]
    fn steps_come_at_once() {
        let text =
            "steps:\n- { at: 5s, delete: nodes/a }\n- { at: 7s, delete: nodes/b }\n- { at: 9s, delete: nodes/c }\n";
        let fixture = parse::scenario(Path::new("a.yaml"), text, Resources::default()).expect("a scenario");
        let merged = |first, last, ahead| {
            let mut steps = fixture.steps.clone();
            merge_steps(&mut steps, StepMerge { first, last, ahead });
            let names = |step: &Step| -> Vec<String> {
                let target = |action: &Action| match action {
                    Action::Request(request) => request.target.name.clone(),
                    _ => String::new(),
                };
                parse::step_actions(step).iter().map(target).collect()
            };
            steps.iter().map(|step| (step.at.as_secs(), names(step).concat())).collect::<Vec<_>>()
        };
        let text = |steps: &[(u64, &str)]| steps.iter().map(|(at, name)| (*at, (*name).to_owned())).collect::<Vec<_>>();
        assert_eq!(merged(1, 2, false), text(&[(5, "a"), (9, "bc")]));
        assert_eq!(merged(0, 2, true), text(&[(5, "bca")]));
        assert_eq!(merged(1, 3, false).len(), 3, "there is no such step");
    }

    #[test]
    fn a_scenario_becomes_a_run() {
        let text = "given: { nodes: [n1], faults: [{ on: PATCH nodes/n1, drop: before }] }\nsteps:\n\
            - { at: 5s, delete: nodes/n1 }\n- { at: 7s, controllers: restart }\n";
        let fixture = parse::scenario(Path::new("a.yaml"), text, Resources::default()).expect("a scenario");
        assert!(has_faults(&fixture) && !has_faults(&calm(&fixture)));
        let job = WorkerJob { checkpoints: vec![30_000, 60_000], quiet: 10_000, fresh: 20_000, ..WorkerJob::default() };
        let script = script(&fixture, &job, &[]);
        let times: Vec<u64> = script.fixture.steps.iter().map(|step| step.at.as_secs()).collect();
        assert_eq!(times, [5, 5, 35, 65, 75, 75, 95]);
        assert_eq!((script.checkpoints, script.converged, script.quiet), (vec![2, 3], 3, 4));
    }
}
