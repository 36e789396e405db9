//! Translates faults into the faults and steps of a fixture. Pure.
//!
//! Each function makes the injection of a fault at a point. The number is that of the fault's name: a status code,
//! seconds, minutes, or a number of changes of the order. Crashed controllers start again after the given time.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::point::{FaultPoint, Site};
use crate::fixture::pattern::Resources;
use crate::fixture::{
    Action, Control, Effect, Fault, Interference, Operation, PatchKind, RequestPattern, Target, UserRequest, WatchFault,
};
use crate::metadata;

/// The annotation that the fault `touch` sets.
pub const TOUCH: &str = "plumbline.test/touch";

/// The finalizer that the fault `finalizer` adds.
const HOLD: &str = "plumbline.test/hold";

/// Time from a request until another client takes its finalizer away again.
pub(super) const HELD: Duration = Duration::from_secs(4);

/// Time between a request and the write of another client that takes effect before it.
pub(super) const TOUCH_DELAY: Duration = Duration::from_secs(2);

/// Time after an event at which a countdown that it began is still running: the quarantine of a node begins up to 20 s
/// after the event and takes 40 s.
const COUNTDOWN: Duration = Duration::from_secs(25);

/// Time between two things of which one is to be just before the other: the resolution of virtual time.
const SHORTLY: Duration = Duration::from_millis(1);

/// Time after the next step of the history at which a request that a fault delays until then goes on.
const ACROSS: Duration = Duration::from_secs(1);

/// The delay of such a request if no step follows soon.
const NO_STEP: Duration = Duration::from_secs(5);

/// Time in which controllers act upon a step.
const ACTS: Duration = Duration::from_secs(9);

/// Time from an event until the watch that missed it breaks, or controllers start again.
const SOON_AFTER: Duration = Duration::from_secs(1);

/// Time until crashed controllers start again.
pub const RESTART_AFTER: Duration = Duration::from_secs(2);

/// Number of requests that a flaky server refuses, one after every request that it serves.
pub(super) const FLAKY: u32 = 16;
/// Time after which a flaky server refuses nothing more. Sixteen failures in a row take 164 s of the work queue's
/// back-off; a key that fails for other reasons, too, is tried again before the controllers have to have converged.
pub const FLAKY_TIME: Duration = Duration::from_mins(4);
/// Name of the faults of a flaky server.
const FLAKY_NAME: &str = "flaky";

/// Time after which standbys take a lease that is not renewed, 15 s, with that until they look at it.
pub(super) const LEASE_EXPIRES: Duration = Duration::from_secs(20);

/// The lease of our controllers, by the defaults of their flags.
const LEASE: &str = "kube-system:leases/plumbline-controllers";

/// The holder of a lease that was taken by force.
const OTHER_HOLDER: &str = "another";

/// The name of the fault of requests while the controllers are cut off.
const PARTITION: &str = "partition";

/// The name of the fault of requests for which the right is missing.
const DENIED: &str = "denied";

/// The pattern of all requests of the controllers.
const ALL_REQUESTS: &str = "ANY */*/*";

/// The parts of a fixture that a disturbance adds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Injection {
    /// Faults of requests, armed before the controllers start.
    pub faults: Vec<Fault>,
    /// Watch faults in force before the controllers start.
    pub before_start: Vec<WatchFault>,
    /// Actions at times of the run.
    pub steps: Vec<(Duration, Vec<Action>)>,
}

impl Injection {
    /// Gives the request of the point this effect.
    fn of_request(point: &FaultPoint, effect: Effect) -> Self {
        let fault = Fault { name: None, on: point.pattern(), nth: point.occurrence, count: Some(1), effect };
        Self { faults: vec![fault], ..Self::default() }
    }

    /// Delays the request of the point, and lets something happen in the meantime.
    fn of_race(point: &FaultPoint, actions: Vec<Action>) -> Self {
        let steps = vec![(race_at(point), actions)];
        Self { steps, ..Self::of_request(point, Effect::Delay { by: TOUCH_DELAY, applied: false }) }
    }

    fn of_steps(steps: Vec<(Duration, Vec<Action>)>) -> Self {
        Self { steps, ..Self::default() }
    }

    /// Begins watch faults just before the point, or before the start.
    fn of_watches(point: &FaultPoint, begin: Vec<WatchFault>, steps: Vec<(Duration, Vec<Action>)>) -> Self {
        match point.at.checked_sub(SHORTLY) {
            None => Self { faults: Vec::new(), before_start: begin, steps },
            Some(before) => {
                let begin = begin.into_iter().map(Action::Watch).collect();
                Self::of_steps(std::iter::once((before, begin)).chain(steps).collect())
            }
        }
    }
}

/// Returns a number of seconds.
pub(super) const fn secs(number: u16) -> Duration {
    Duration::from_secs(number as u64)
}

/// Returns a number of minutes.
pub(super) const fn mins(number: u16) -> Duration {
    Duration::from_mins(number as u64)
}

fn reply_effect(code: u16, applied: bool) -> Effect {
    let retry_after = (code == 429).then_some(2);
    Effect::Reply { code, reason: None, message: None, retry_after, applied }
}

pub(super) fn reply(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    Injection::of_request(point, reply_effect(number, false))
}

pub(super) fn applied_timeout(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    Injection::of_request(point, reply_effect(number, true))
}

pub(super) fn drop_before(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    Injection::of_request(point, Effect::Drop { applied: false })
}

pub(super) fn drop_after(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    Injection::of_request(point, Effect::Drop { applied: true })
}

pub(super) fn crash_before(_: u16, point: &FaultPoint, restart_after: Duration) -> Injection {
    Injection::of_request(point, Effect::Crash { applied: false, restart_after })
}

pub(super) fn crash_after(_: u16, point: &FaultPoint, restart_after: Duration) -> Injection {
    Injection::of_request(point, Effect::Crash { applied: true, restart_after })
}

pub(super) fn slow(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    Injection::of_request(point, Effect::Delay { by: secs(number), applied: false })
}

pub(super) fn late_reply(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    Injection::of_request(point, Effect::Delay { by: secs(number), applied: true })
}

pub(super) fn slow_across(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    Injection::of_request(point, Effect::Delay { by: across(point), applied: false })
}

pub(super) fn late_across(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    Injection::of_request(point, Effect::Delay { by: across(point), applied: true })
}

/// Returns the time from a request until just after the next step of the history.
fn across(point: &FaultPoint) -> Duration {
    point.next_step.map_or(NO_STEP, |next| next.saturating_sub(point.at) + ACROSS)
}

/// Refuses every second request from the point on, for some minutes.
pub(super) fn flaky(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let name = Some(FLAKY_NAME.to_owned());
    // A request that one fault refuses is not counted by the next fault, so each begins one request later.
    let fault = |number: u32| Fault {
        name: name.clone(),
        on: point.pattern(),
        nth: point.occurrence + number,
        count: Some(1),
        effect: reply_effect(500, false),
    };
    let faults = (0..FLAKY).map(fault).collect();
    Injection { faults, ..Injection::of_steps(vec![(point.at + FLAKY_TIME, vec![Action::Heal(name)])]) }
}

pub(super) fn pages(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let pages = WatchFault::Pages { resource: point.target.resource.clone(), limit: Some(1) };
    Injection::of_watches(point, vec![pages], Vec::new())
}

pub(super) fn partition(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    let from = point.at.saturating_sub(SHORTLY);
    let until = point.at + mins(number);
    let Ok(on) = RequestPattern::parse(ALL_REQUESTS, "default", &Resources::default()) else {
        return Injection::default();
    };
    let name = Some(PARTITION.to_owned());
    let fault = Fault { name: name.clone(), on, nth: 1, count: None, effect: Effect::Drop { applied: false } };
    let begin = vec![Action::Fault(fault), Action::Watch(WatchFault::Drop(None))];
    Injection::of_steps(vec![(from, begin), (until, vec![Action::Heal(name)])])
}

/// Takes the right to make requests like this one away, for some minutes.
pub(super) fn deny(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    let name = Some(DENIED.to_owned());
    let mut on = point.pattern();
    if !on.target.name.is_empty() {
        "*".clone_into(&mut on.target.name);
    }
    on.target.namespace = on.target.namespace.map(|_| "*".to_owned());
    let fault = Fault { name: name.clone(), on, nth: 1, count: None, effect: reply_effect(403, false) };
    let from = point.at.saturating_sub(SHORTLY);
    let begin = (from, vec![Action::Fault(fault)]);
    Injection::of_steps(vec![begin, (point.at + mins(number), vec![Action::Heal(name)])])
}

pub(super) fn touch(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let body = json!({"metadata": {"annotations": {TOUCH: "1"}}});
    Injection::of_race(point, vec![patch(point.target.object(), body)])
}

pub(super) fn delete(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let delete = Interference::Delete { target: point.target.object(), again: false };
    Injection::of_race(point, vec![Action::Interfere(delete)])
}

pub(super) fn recreate(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let recreate = Interference::Delete { target: point.target.object(), again: true };
    Injection::of_race(point, vec![Action::Interfere(recreate)])
}

pub(super) fn finalizer(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let hold = |is_held| vec![Action::Interfere(Interference::Hold { target: point.target.object(), is_held })];
    let mut injection = Injection::of_race(point, hold(true));
    injection.steps.push((point.at + HELD, hold(false)));
    injection
}

/// Returns the merge patch with which another client adds its finalizer to an object, or takes it away; `None` if there
/// is nothing to change, or the object is being deleted.
#[must_use]
pub fn hold_patch(object: &Value, is_held: bool) -> Option<Value> {
    let mut finalizers = metadata::finalizers(object).to_vec();
    match finalizers.iter().position(|finalizer| finalizer == HOLD) {
        None if is_held && !metadata::is_terminating(object) => finalizers.push(HOLD.into()),
        Some(place) if !is_held => drop(finalizers.remove(place)),
        _ => return None,
    }
    let version = metadata::resource_version(object);
    Some(json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}}))
}

/// Returns the time at which another client changes something while the request of the point is under way.
#[must_use]
pub fn race_at(point: &FaultPoint) -> Duration {
    point.at + TOUCH_DELAY / 2
}

/// Stops the controllers in order and starts others: while the request is under way, or just after the event.
pub(super) fn hand_over(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let actions = vec![Action::Control(Control::Stop), Action::Control(Control::Start)];
    if point.site == Site::Event {
        return Injection::of_steps(vec![(point.at + SHORTLY, actions)]);
    }
    Injection::of_race(point, actions)
}

/// Writes another holder into the lease of the point, or else into that of our controllers, just before the point.
pub(super) fn take_lease(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let ours = Target::parse(LEASE, "default", &Resources::default()).ok();
    let written = (&*point.target.resource.plural == "leases").then(|| point.target.object());
    let Some(target) = written.or(ours) else { return Injection::default() };
    let take = patch(target, json!({"spec": {"holderIdentity": OTHER_HOLDER}}));
    Injection::of_steps(vec![(point.at.saturating_sub(SHORTLY), vec![take])])
}

/// A merge patch by another client.
fn patch(target: Target, body: Value) -> Action {
    let operation = Operation::Patch { kind: PatchKind::Merge, body };
    Action::Request(UserRequest { actor: "user".to_owned(), target, operation, query: Vec::new(), together: None })
}

pub(super) fn clock_ahead(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    step_clock(point, SignedDuration::from_mins(i64::from(number)))
}

pub(super) fn clock_back(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    step_clock(point, -SignedDuration::from_mins(i64::from(number)))
}

/// Sets the controllers' clock just before a request, or during what an event began.
fn step_clock(point: &FaultPoint, by: SignedDuration) -> Injection {
    let at = if point.site == Site::Event { point.at + COUNTDOWN } else { point.at.saturating_sub(SHORTLY) };
    Injection::of_steps(vec![(at, vec![Action::StepClock(by)])])
}

fn hold_of(point: &FaultPoint) -> WatchFault {
    WatchFault::Hold(point.target.resource.clone())
}

fn release_of(point: &FaultPoint, coalesce: bool) -> Action {
    Action::Watch(WatchFault::Release { resource: point.target.resource.clone(), coalesce })
}

/// The watches of the resource break, and what they did not deliver is lost.
fn lose(point: &FaultPoint) -> Vec<Action> {
    vec![Action::Watch(WatchFault::Drop(Some(point.target.resource.clone()))), release_of(point, false)]
}

pub(super) fn hold(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    let steps = vec![(point.at + secs(number), vec![release_of(point, false)])];
    Injection::of_watches(point, vec![hold_of(point)], steps)
}

pub(super) fn coalesce(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    let steps = vec![(point.at + secs(number), vec![release_of(point, true)])];
    Injection::of_watches(point, vec![hold_of(point)], steps)
}

pub(super) fn relist(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    let lose = std::iter::once(Action::Compact).chain(lose(point)).collect();
    Injection::of_watches(point, vec![hold_of(point)], vec![(point.at + secs(number), lose)])
}

pub(super) fn close_watch(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    Injection::of_watches(point, vec![hold_of(point)], vec![(point.at + SOON_AFTER, lose(point))])
}

pub(super) fn stale_restart(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    let resource = point.target.resource.clone();
    let fresh = Action::Watch(WatchFault::FreshList(resource.clone()));
    let steps = vec![
        (point.at + SOON_AFTER, vec![Action::Control(Control::Restart)]),
        (point.at + secs(number), vec![fresh, release_of(point, false)]),
    ];
    Injection::of_watches(point, vec![hold_of(point), WatchFault::StaleList(resource)], steps)
}

/// Lets the controllers act upon the event, and start again on a server whose lists and watches are from before it.
pub(super) fn time_travel(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    travel(point, point.at + SOON_AFTER, point.at + secs(number))
}

/// The same, but the controllers start again after they have acted upon the next step of the history, too.
pub(super) fn time_travel_across(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    let start = point.at + across(point) + ACTS;
    travel(point, start, start + secs(number))
}

/// Starts the controllers at `start` on a server whose lists and watches are from before the event until `end`.
fn travel(point: &FaultPoint, start: Duration, end: Duration) -> Injection {
    let resource = point.target.resource.clone();
    let restart = vec![Action::Watch(hold_of(point)), Action::Control(Control::Restart)];
    let fresh = vec![Action::Watch(WatchFault::FreshList(resource.clone())), release_of(point, false)];
    Injection::of_watches(point, vec![WatchFault::StaleList(resource)], vec![(start, restart), (end, fresh)])
}

pub(super) fn last(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let steps = vec![(point.at + SHORTLY, vec![release_of(point, false)])];
    Injection::of_watches(point, vec![hold_of(point)], steps)
}

pub(super) fn duplicate(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let repeat = |twice| WatchFault::Repeat { resource: point.target.resource.clone(), twice };
    let steps = vec![(point.at + SOON_AFTER, vec![Action::Watch(repeat(false))])];
    Injection::of_watches(point, vec![repeat(true)], steps)
}

pub(super) fn bookmark(_: u16, point: &FaultPoint, _: Duration) -> Injection {
    let bookmark = Action::Watch(WatchFault::Bookmark(point.target.resource.clone()));
    let steps = vec![(point.at + SOON_AFTER, vec![bookmark]), (point.at + SOON_AFTER * 2, lose(point))];
    Injection::of_watches(point, vec![hold_of(point)], steps)
}

pub(super) fn order(number: u16, point: &FaultPoint, _: Duration) -> Injection {
    let order = WatchFault::Order { seed: u64::from(point.occurrence), depth: u32::from(number) };
    Injection { before_start: vec![order], ..Injection::default() }
}
