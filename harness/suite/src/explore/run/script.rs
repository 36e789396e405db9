//! The fixture that a plan runs: the original without its checks, with the plan's faults, time to converge, a quiet
//! window, and fresh controllers at the end. Pure.

use std::time::Duration;

use plumbline::explore::faults::inject::{FLAKY_TIME, RESTART_AFTER};
use plumbline::explore::faults::plan::FaultPlan;
use plumbline::explore::faults::point::FaultPoint;
use plumbline::explore::faults::{Disturbance, FaultTrait};
use plumbline::explore::schedule::Settling;
use plumbline::fixture::check::Count;
use plumbline::fixture::{Action, Check, CheckKind, Control, Controller, Fixture, Step, StepKind, Traffic};
use plumbline::rules::queue::MAX_DELAY;

use crate::explore::histories::facts::{controls_subject, countdown, skew};

/// Times after the last step and the last fault.
const SETTLING: Settling = Settling::OF_FIXTURES;

/// A fixture to run, and the places of its parts.
#[derive(Debug, Clone)]
pub struct Script {
    /// The fixture.
    pub fixture: Fixture,
    /// Each step with actions of the original fixture.
    pub boundaries: Vec<Boundary>,
    /// Index of the step with which convergence ends and the quiet window begins.
    pub converged: usize,
    /// Index of the step with which the quiet window ends.
    pub quiet: usize,
}

/// The places of an original step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary {
    /// Index of the step just before it, at the same time.
    pub marker: usize,
    /// Its own index.
    pub action: usize,
}

/// Builds the script of `plan` for `fixture`.
#[must_use]
pub fn script(fixture: &Fixture, plan: &FaultPlan) -> Script {
    let restart_after = if controls_subject(fixture) { Duration::ZERO } else { RESTART_AFTER };
    let mut given = fixture.given.clone();
    let mut injected: Vec<(Duration, Vec<Action>)> = Vec::new();
    let mut faults = Vec::new();
    for (disturbance, point) in &plan.faults {
        let injection = disturbance.inject(point, restart_after);
        faults.extend(injection.faults);
        given.watches.extend(injection.before_start);
        injected.extend(injection.steps);
    }
    // The plan's faults decide before the fixture's own.
    faults.append(&mut given.faults);
    given.faults = faults;
    injected.sort_by_key(|(at, _)| *at);
    // A partition delays the work after it by the back-off of the requests that failed. So does a flaky server that of
    // a budget whose sync fails anyway.
    let disruption = fixture.controllers.contains(&Controller::Disruption);
    // Several partitions can follow each other; what another fault refuses after them waits as long once more.
    let cut_offs = || plan.faults.iter().filter(|(disturbance, _)| disturbance.cut_off().is_some());
    let refused_again = if cut_offs().count() < plan.faults.len() { MAX_DELAY } else { Duration::ZERO };
    let cut_off = refused_again + cut_offs().map(|(disturbance, _)| disturbance.duration()).sum::<Duration>();
    let explained = |(disturbance, point): &(Disturbance, FaultPoint)| {
        let of_scale = disruption && point.target.subresource.as_deref() == Some("scale");
        match disturbance.cut_off() {
            Some(_) => point.at + cut_off,
            None if disruption && disturbance.refusals() > 0 => point.at + FLAKY_TIME + MAX_DELAY,
            // The budget's next sync can be as far away, and shows the reason of the last one until then.
            None if of_scale => point.at + MAX_DELAY,
            None => point.at,
        }
    };
    let last = plan.faults.iter().map(explained).chain(injected.iter().map(|(at, _)| *at)).max();
    // Until a clock that was set back is right again, times in objects seem to be in the future.
    let clocks = plan.faults.iter().filter(|(disturbance, _)| disturbance.is(FaultTrait::SetsClockBack));
    let behind: Duration = clocks.map(|(disturbance, _)| disturbance.duration()).sum::<Duration>() + skew(fixture);
    let end = fixture.end().max(last.unwrap_or_default()) + behind;

    let mut builder = Builder::default();
    let mut injected = injected.into_iter().peekable();
    for step in &fixture.steps {
        let at = step.end();
        while let Some((at, actions)) = injected.next_if(|(injected, _)| *injected <= at) {
            builder.act(at, actions);
        }
        builder.original(step);
    }
    for (at, actions) in injected {
        builder.act(at, actions);
    }
    // Each restart begins the countdowns again. That of a single fault is in the time of its point.
    let restarts = plan.faults.iter().filter(|(disturbance, _)| disturbance.is(FaultTrait::Restarts)).count();
    let countdowns = if plan.faults.len() > 1 { 1 + u32::try_from(restarts).unwrap_or(u32::MAX) } else { 1 };
    let end = end + SETTLING.converge + countdown(fixture) * countdowns;
    let converged = builder.wait(end);
    let quiet_end = end + SETTLING.quiet;
    // The metrics are read in runs without faults only: the others would take longer and show nothing else.
    let checks = if plan.faults.is_empty() { vec![scrape()] } else { Vec::new() };
    let quiet = builder.push(0, quiet_end, StepKind::Expect { checks });
    if !fixture.controllers.is_empty() {
        builder.act(builder.now, vec![Action::Control(Control::Restart)]);
    }
    builder.wait(builder.now + SETTLING.fresh);
    let Builder { steps, boundaries, .. } = builder;
    let fixture = Fixture { given, steps, expect: Vec::new(), traffic: Traffic::default(), ..fixture.clone() };
    Script { fixture, boundaries, converged, quiet }
}

/// Returns a check that makes the runner read the subject's metrics.
fn scrape() -> Check {
    let name = String::new();
    let labels = Vec::new();
    let count = Count::at_least(0);
    Check { line: 0, kind: CheckKind::Metric { name, labels, count } }
}

/// Collects the steps of a script in order of time.
#[derive(Default)]
pub(in crate::explore) struct Builder {
    pub(in crate::explore) steps: Vec<Step>,
    boundaries: Vec<Boundary>,
    pub(in crate::explore) now: Duration,
}

impl Builder {
    fn push(&mut self, line: u64, at: Duration, kind: StepKind) -> usize {
        self.now = self.now.max(at);
        self.steps.push(Step { line, at: self.now, kind, note: None });
        self.steps.len() - 1
    }

    /// Lets time pass until `at`.
    pub(in crate::explore) fn wait(&mut self, at: Duration) -> usize {
        self.push(0, at, StepKind::Expect { checks: Vec::new() })
    }

    pub(in crate::explore) fn act(&mut self, at: Duration, actions: Vec<Action>) {
        self.push(0, at, StepKind::Do { actions, reply: None });
    }

    pub(in crate::explore) fn original(&mut self, step: &Step) {
        let marker = self.wait(step.end());
        if let StepKind::Do { actions, reply } = &step.kind {
            let kind = StepKind::Do { actions: actions.clone(), reply: reply.clone() };
            let action = self.push(step.line, step.at, kind);
            self.boundaries.push(Boundary { marker, action });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plumbline::explore::faults::point::Site;
    use plumbline::fixture::pattern::{Resources, Verb};
    use plumbline::fixture::{Target, parse};

    use super::*;

    const TEXT: &str = "promise: A pod of a missing node goes.\nrule: BR-24-03\nlevel: core\nfeature: podgc.orphaned\n\
        given: { nodes: [n1], pods: [a on n1] }\nsteps:\n- { at: 5s, delete: nodes/n1 }\n\
        - { by: 80s, eventually: { absent: pods/a } }\n";

    fn point(site: Site, target: &str, at: u64) -> FaultPoint {
        let target = Target::parse(target, "default", &Resources::default()).expect("a target");
        FaultPoint { site, target, occurrence: 2, at: Duration::from_secs(at), seq: 0, next_step: None }
    }

    #[test]
    fn faults_are_added_in_order_of_time_and_checks_are_gone() {
        let (fixtures, problems) = parse::read(Path::new("a.yaml"), "podgc", TEXT);
        assert!(problems.is_empty(), "{problems:?}");
        let mut plan = FaultPlan::calm("podgc/a");
        plan.faults.push((Disturbance::parse("hold-30s").expect("a fault"), point(Site::Event, "nodes/n1", 5)));
        plan.faults.push((
            Disturbance::parse("crash-after").expect("a fault"),
            point(Site::Request(Verb::Patch), "pods/a/status", 60),
        ));
        let script = script(&fixtures[0], &plan);
        let times: Vec<u128> = script.fixture.steps.iter().map(|step| step.at.as_millis()).collect();
        assert_eq!(times, [4999, 5000, 5000, 35_000, 80_000, 380_000, 680_000, 680_000, 800_000]);
        assert_eq!(script.boundaries, [Boundary { marker: 1, action: 2 }]);
        assert_eq!((script.converged, script.quiet), (5, 6));
        let fault = &script.fixture.given.faults[0];
        assert_eq!((fault.on.to_string().as_str(), fault.nth, fault.count), ("PATCH pods/a/status", 2, Some(1)));
        assert!(script.fixture.steps.iter().all(|step| parse::step_checks(step).is_empty()));
    }

    #[test]
    fn budgets_get_time_for_the_longest_back_off() {
        let converged = |controllers: &str| {
            let text = format!("controllers: [{controllers}]\n{TEXT}");
            let (fixtures, problems) = parse::read(Path::new("a.yaml"), "faults", &text);
            assert!(problems.is_empty(), "{problems:?}");
            let mut plan = FaultPlan::calm("faults/a");
            plan.faults.push((
                Disturbance::parse("flaky").expect("a fault"),
                point(Site::Request(Verb::Patch), "pods/a/status", 60),
            ));
            let script = script(&fixtures[0], &plan);
            script.fixture.steps[script.converged].at
        };
        assert_eq!(converged("disruption"), converged("podgc") + MAX_DELAY);
    }
}
