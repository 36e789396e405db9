//! The fixture that a plan runs: the original without its checks, with the plan's faults, time to converge, a quiet
//! window, and fresh controllers at the end. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use plumbline::explore::disturbance::{Disturbance, FLAKY_TIME, FaultTrait, RESTART_AFTER};
use plumbline::explore::point::FaultPoint;
use plumbline::fixture::check::Count;
use plumbline::fixture::parse::step_actions;
use plumbline::fixture::{
    Action, Check, CheckKind, Control, Controller, Fault, Fixture, Operation, Step, StepKind, Traffic, UserRequest,
    WatchFault,
};
use plumbline::rules::queue::MAX_DELAY;
use plumbline::rules::taints::DEFAULT_TOLERATION;
use serde_json::Value;

use super::plan::FaultPlan;
use super::worlds;

/// Time for the controllers to converge after the last step and the last fault.
const CONVERGE: Duration = Duration::from_mins(5);
/// Length of the window in which converged controllers must not write.
const QUIET: Duration = Duration::from_mins(5);
/// Time in which fresh controllers must agree with the final state.
const FRESH: Duration = Duration::from_mins(2);
/// Countdowns of pods up to this length end before the quiet window begins.
pub(super) const LONGEST_COUNTDOWN: Duration = Duration::from_hours(1);

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
    let end = end + CONVERGE + countdown(fixture) * countdowns;
    let converged = builder.wait(end);
    let quiet_end = end + QUIET;
    // The metrics are read in runs without faults only: the others would take longer and show nothing else.
    let checks = if plan.faults.is_empty() { vec![scrape()] } else { Vec::new() };
    let quiet = builder.push(0, quiet_end, StepKind::Expect { checks });
    if !fixture.controllers.is_empty() {
        builder.act(builder.now, vec![Action::Control(Control::Restart)]);
    }
    builder.wait(builder.now + FRESH);
    let Builder { steps, boundaries, .. } = builder;
    let fixture = Fixture { given, steps, expect: Vec::new(), traffic: Traffic::default(), ..fixture.clone() };
    Script { fixture, boundaries, converged, quiet }
}

/// Returns a check that makes the runner read the subject's metrics.
fn scrape() -> Check {
    let (name, labels, count) = (String::new(), Vec::new(), Count::at_least(0));
    Check { line: 0, kind: CheckKind::Metric { name, labels, count } }
}

/// Separates the id of a fixture from the number of its first steps that are kept.
const CUT: char = '~';

/// Returns the fixture's beginning: its first `keep` steps with actions. `None` if it has no more, or if its steps
/// disturb the subject. A fault then has time to show its consequences before another step changes the world.
#[must_use]
pub fn beginning(fixture: &Fixture, keep: usize) -> Option<Fixture> {
    let acts = |step: &Step| matches!(step.kind, StepKind::Do { .. });
    // Without its later steps the fixture's own disturbance would never end.
    let disturbed = disturbs_watches(fixture)
        || controls_subject(fixture)
        || actions(fixture).any(|action| matches!(action, Action::Fault(_) | Action::Heal(_) | Action::Skew(_)));
    if disturbed || keep >= fixture.steps.iter().filter(|step| acts(step)).count() {
        return None;
    }
    let last = fixture.steps.iter().enumerate().filter(|(_, step)| acts(step)).take(keep).last();
    let steps = fixture.steps[..last.map_or(0, |(index, _)| index + 1)].to_vec();
    Some(Fixture { id: format!("{}{CUT}{keep}", fixture.id), steps, ..fixture.clone() })
}

/// Returns the fixture of that id, or the beginning of one: `podgc/a~2`.
#[must_use]
pub fn find(fixtures: &[Fixture], id: &str) -> Option<Fixture> {
    let named = |id: &str| fixtures.iter().find(|fixture| fixture.id == id).cloned().or_else(|| worlds::find(id));
    let cut = || {
        let (id, keep) = id.rsplit_once(CUT)?;
        beginning(&named(id)?, keep.parse().ok()?)
    };
    named(id).or_else(cut)
}

/// Returns true if the id is that of a beginning.
#[must_use]
pub fn is_beginning(id: &str) -> bool {
    id.contains(CUT)
}

/// Returns the id of the whole fixture.
#[must_use]
pub fn whole_id(id: &str) -> &str {
    id.rsplit_once(CUT).map_or(id, |(whole, _)| whole)
}

/// Returns true if the fixture itself starts or stops the controllers.
#[must_use]
pub fn controls_subject(fixture: &Fixture) -> bool {
    fixture.given.stopped || actions(fixture).any(|action| matches!(action, Action::Control(_)))
}

/// Returns true if the fixture itself interferes with watches, lists or the whole server.
#[must_use]
pub fn disturbs_watches(fixture: &Fixture) -> bool {
    !fixture.given.watches.is_empty()
        || actions(fixture).any(|action| matches!(action, Action::Watch(_) | Action::Compact | Action::Outage(_)))
}

/// Returns the times of the steps that do something.
#[must_use]
pub fn step_times(fixture: &Fixture) -> Vec<Duration> {
    let acts = |step: &&Step| matches!(step.kind, StepKind::Do { .. });
    fixture.steps.iter().filter(acts).map(|step| step.at).collect()
}

/// Returns the time of the first outage of the fixture itself.
#[must_use]
pub fn first_outage(fixture: &Fixture) -> Option<Duration> {
    let is_outage = |step: &&Step| step_actions(step).iter().any(|action| matches!(action, Action::Outage(_)));
    fixture.steps.iter().find(is_outage).map(|step| step.at)
}

/// Returns the faults of requests that the fixture itself injects.
pub(super) fn own_faults(fixture: &Fixture) -> impl Iterator<Item = &Fault> {
    let steps = actions(fixture).filter_map(|action| match action {
        Action::Fault(fault) => Some(fault),
        _ => None,
    });
    fixture.given.faults.iter().chain(steps)
}

/// Returns true if the fixture itself injects faults of requests, or removes them.
#[must_use]
pub fn has_faults(fixture: &Fixture) -> bool {
    !fixture.given.faults.is_empty()
        || actions(fixture).any(|action| matches!(action, Action::Fault(_) | Action::Heal(_) | Action::Outage(_)))
}

/// Returns true if the fixture itself holds watch events back, or serves old lists, until its end: what the controllers
/// do not know then depends on the time at which they listed.
#[must_use]
pub fn stays_uninformed(fixture: &Fixture) -> bool {
    let given = fixture.given.watches.iter();
    let steps = actions(fixture).filter_map(|action| match action {
        Action::Watch(fault) => Some(fault),
        _ => None,
    });
    let mut open: BTreeSet<(bool, &str)> = BTreeSet::new();
    for fault in given.chain(steps) {
        match fault {
            WatchFault::Hold(resource) => _ = open.insert((true, &resource.plural)),
            WatchFault::StaleList(resource) => _ = open.insert((false, &resource.plural)),
            WatchFault::Release { resource, .. } => _ = open.remove(&(true, &*resource.plural)),
            WatchFault::FreshList(resource) => _ = open.remove(&(false, &*resource.plural)),
            _ => {}
        }
    }
    !open.is_empty()
}

fn actions(fixture: &Fixture) -> impl Iterator<Item = &Action> {
    fixture.steps.iter().flat_map(step_actions)
}

/// Returns the largest difference between the clocks of the server and the controllers in the fixture's own steps.
pub(super) fn skew(fixture: &Fixture) -> Duration {
    let steps = actions(fixture).filter_map(|action| match action {
        Action::Skew(by) | Action::StepClock(by) => Some(by.unsigned_abs()),
        _ => None,
    });
    steps.max().unwrap_or_default()
}

/// Returns the longest time for which a pod of the fixture tolerates a taint, up to [`LONGEST_COUNTDOWN`].
pub(super) fn countdown(fixture: &Fixture) -> Duration {
    if !fixture.controllers.contains(&Controller::TaintEviction) {
        return Duration::ZERO;
    }
    let bodies = actions(fixture).filter_map(|action| match action {
        Action::Request(UserRequest {
            operation:
                Operation::Create { object: body }
                | Operation::Replace { object: body }
                | Operation::Patch { body, .. }
                | Operation::Update { edit: plumbline::fixture::Edit::Merge(body) },
            ..
        }) => Some(body),
        _ => None,
    });
    let longest = fixture.given.objects.iter().chain(bodies).filter_map(toleration_seconds).max();
    Duration::from_secs(longest.unwrap_or_default().unsigned_abs()).clamp(DEFAULT_TOLERATION, LONGEST_COUNTDOWN)
}

/// Returns the largest `tolerationSeconds` of a pod, or of a patch of one.
fn toleration_seconds(object: &Value) -> Option<i64> {
    let tolerations = object["spec"]["tolerations"].as_array()?;
    tolerations.iter().filter_map(|toleration| toleration["tolerationSeconds"].as_i64()).filter(|s| *s > 0).max()
}

/// Collects the steps of a script in order of time.
#[derive(Default)]
struct Builder {
    steps: Vec<Step>,
    boundaries: Vec<Boundary>,
    now: Duration,
}

impl Builder {
    fn push(&mut self, line: u64, at: Duration, kind: StepKind) -> usize {
        self.now = self.now.max(at);
        self.steps.push(Step { line, at: self.now, kind, note: None });
        self.steps.len() - 1
    }

    /// Lets time pass until `at`.
    fn wait(&mut self, at: Duration) -> usize {
        self.push(0, at, StepKind::Expect { checks: Vec::new() })
    }

    fn act(&mut self, at: Duration, actions: Vec<Action>) {
        self.push(0, at, StepKind::Do { actions, reply: None });
    }

    fn original(&mut self, step: &Step) {
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

    use plumbline::explore::point::Site;
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

    #[test]
    fn beginnings_have_the_first_steps() {
        let (fixtures, _) = parse::read(Path::new("a.yaml"), "podgc", TEXT);
        let none = find(&fixtures, "podgc/a~0").expect("a beginning");
        assert!(none.steps.is_empty() && is_beginning(&none.id), "{none:?}");
        assert_eq!(find(&fixtures, "podgc/a~1"), None, "that is the whole fixture");
        assert_eq!(find(&fixtures, "podgc/a").map(|fixture| fixture.steps.len()), Some(2));
    }
}
