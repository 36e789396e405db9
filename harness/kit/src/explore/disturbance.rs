//! The kinds of fault, and their translation into the faults and steps of a fixture. Pure.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;

use super::point::{FaultPoint, LONGEST_ACROSS, Site};
use crate::fixture::pattern::{Resources, Verb};
use crate::fixture::{
    Action, Control, Effect, Fault, Interference, Operation, PatchKind, RequestPattern, Target, UserRequest, WatchFault,
};

/// The annotation that [`Disturbance::Touch`] sets.
pub const TOUCH: &str = "plumbline.test/touch";

/// Time between a request and the write of another client that takes effect before it.
const TOUCH_DELAY: Duration = Duration::from_secs(2);

/// Time after an event at which a countdown that it began is still running: the quarantine of a node begins up to 20 s
/// after the event and takes 40 s.
const COUNTDOWN: Duration = Duration::from_secs(25);

/// Time between two things of which one is to be just before the other: the resolution of virtual time.
const SHORTLY: Duration = Duration::from_millis(1);

/// Time after the next step of the history at which a request that a fault delays until then goes on.
const ACROSS: Duration = Duration::from_secs(1);

/// The delay of such a request if no step follows soon.
const NO_STEP: Duration = Duration::from_secs(5);

/// Number of requests that a flaky server refuses, one after every request that it serves.
const FLAKY: u32 = 16;
/// Time after which a flaky server refuses nothing more. Sixteen failures in a row take 164 s of the work queue's
/// back-off; a key that fails for other reasons, too, is tried again before the controllers have to have converged.
pub const FLAKY_TIME: Duration = Duration::from_mins(4);
/// Name of the faults of a flaky server.
pub const FLAKY_NAME: &str = "flaky";

/// Time after which standbys take a lease that is not renewed, 15 s, with that until they look at it.
const LEASE_EXPIRES: Duration = Duration::from_secs(20);

/// The longest back-off of a work queue, as in client-go: a key that failed often is processed again after this time.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(1000);

/// The lease of our controllers, by the defaults of their flags.
const LEASE: &str = "kube-system:leases/plumbline-controllers";

/// The holder of a lease that was taken by force.
const OTHER_HOLDER: &str = "another";

/// The name of the fault of requests while the controllers are cut off.
const PARTITION: &str = "partition";

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disturbance {
    /// The controllers crash at the request, before it takes effect.
    CrashBefore,
    /// The controllers crash at the request, after it took effect.
    CrashAfter,
    /// The connection breaks before the request takes effect.
    Drop,
    /// The connection breaks after the request took effect.
    LostReply,
    /// The request takes effect, and its reply is 504.
    AppliedTimeout,
    /// The reply has this status code, and the request has no effect.
    Reply(u16),
    /// The request takes effect after this many seconds.
    Slow(u16),
    /// The request takes effect at once and its reply comes after this many seconds.
    LateReply(u16),
    /// The request takes effect just after the next step of the history.
    SlowAcross,
    /// The request takes effect at once and its reply comes just after the next step of the history.
    LateAcross,
    /// Every second request like this one is refused with 500, for a while.
    Flaky,
    /// The controllers reach the API server no more, for this many minutes; the history goes on.
    Partition(u16),
    /// Lists of the resource have pages of one object.
    Pages,
    /// Another client changes the object before the request takes effect.
    Touch,
    /// Events of the resource are held back for this many seconds.
    Hold(u16),
    /// Events of the resource are held back for this many seconds, and only the last state of each object is delivered.
    Coalesce(u16),
    /// Events of the resource are held back for this many seconds and then lost, so that clients have to list again.
    Relist(u16),
    /// The watches of the resource close before they deliver the event.
    CloseWatch,
    /// The controllers start again on an API server that lags behind by this many seconds.
    StaleRestart(u16),
    /// Events of the resource come just after everything else of that moment.
    Last,
    /// Each event of the resource of that moment is delivered twice.
    Duplicate,
    /// The watches of the resource get a bookmark instead of the event, and close.
    Bookmark,
    /// The controllers are asked to stop, and others take over.
    HandOver,
    /// Another holder takes the lease of the controllers' leader by force between two renewals, and is silent then.
    LeaseTaken,
    /// The controllers' wall clock steps ahead by this many minutes.
    ClockAhead(u16),
    /// The controllers' wall clock steps back by this many minutes.
    ClockBack(u16),
    /// Another client deletes the object before the request takes effect.
    Deleted,
    /// Another client deletes the object and creates an equal one before the request takes effect.
    Recreated,
    /// Simultaneous requests and events proceed in another order, which changes this many times, less one.
    Order(u16),
}

/// All disturbances with their names in tokens, from the weakest to the strongest of each family.
const NAMES: [(&str, Disturbance); 41] = [
    ("409", Disturbance::Reply(409)),
    ("410", Disturbance::Reply(410)),
    ("429", Disturbance::Reply(429)),
    ("500", Disturbance::Reply(500)),
    ("503", Disturbance::Reply(503)),
    ("504", Disturbance::Reply(504)),
    ("drop", Disturbance::Drop),
    ("touch", Disturbance::Touch),
    ("slow-5s", Disturbance::Slow(5)),
    ("slow-40s", Disturbance::Slow(40)),
    ("late-5s", Disturbance::LateReply(5)),
    ("late-40s", Disturbance::LateReply(40)),
    ("slow-across", Disturbance::SlowAcross),
    ("late-across", Disturbance::LateAcross),
    ("flaky", Disturbance::Flaky),
    ("pages", Disturbance::Pages),
    ("partition-3m", Disturbance::Partition(3)),
    ("partition-20m", Disturbance::Partition(20)),
    ("504-applied", Disturbance::AppliedTimeout),
    ("lost-reply", Disturbance::LostReply),
    ("crash-before", Disturbance::CrashBefore),
    ("crash-after", Disturbance::CrashAfter),
    ("close-watch", Disturbance::CloseWatch),
    ("hold-1s", Disturbance::Hold(1)),
    ("hold-30s", Disturbance::Hold(30)),
    ("coalesce-1s", Disturbance::Coalesce(1)),
    ("coalesce-30s", Disturbance::Coalesce(30)),
    ("relist-1s", Disturbance::Relist(1)),
    ("relist-30s", Disturbance::Relist(30)),
    ("stale-restart-30s", Disturbance::StaleRestart(30)),
    ("last", Disturbance::Last),
    ("duplicate", Disturbance::Duplicate),
    ("bookmark", Disturbance::Bookmark),
    ("hand-over", Disturbance::HandOver),
    ("lease-taken", Disturbance::LeaseTaken),
    ("clock-ahead-10m", Disturbance::ClockAhead(10)),
    ("clock-back-10m", Disturbance::ClockBack(10)),
    ("deleted", Disturbance::Deleted),
    ("recreated", Disturbance::Recreated),
    ("order-2", Disturbance::Order(2)),
    ("order-3", Disturbance::Order(3)),
];

impl Disturbance {
    /// Returns the disturbance of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, disturbance)| *disturbance)
    }

    /// Returns all names, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Returns the disturbances that can happen at a point.
    pub fn at(point: &FaultPoint) -> impl Iterator<Item = Self> + '_ {
        NAMES.iter().map(|(_, disturbance)| *disturbance).filter(|disturbance| disturbance.suits(point))
    }

    /// Returns true if a correct server can behave in this way at `point`, and if it could matter there.
    fn suits(self, point: &FaultPoint) -> bool {
        let verb = match point.site {
            Site::Request(verb) => verb,
            Site::Event => {
                return self.is_watch_fault()
                    || matches!(self, Self::HandOver | Self::ClockAhead(_) | Self::ClockBack(_) | Self::Partition(_));
            }
            Site::Run => return matches!(self, Self::Order(_)),
        };
        let writes = matches!(verb, Verb::Post | Verb::Put | Verb::Patch | Verb::Delete);
        let events = point.target.resource.plural == "events";
        match self {
            // A conflict of a delete means that its precondition failed.
            Self::Reply(409) => matches!(verb, Verb::Put | Verb::Patch) && !events,
            Self::Reply(410) => matches!(verb, Verb::List | Verb::Watch),
            Self::Reply(_) | Self::Drop | Self::Slow(_) | Self::CrashBefore => true,
            Self::SlowAcross => point.next_step.is_some(),
            Self::LateAcross => writes && point.next_step.is_some(),
            Self::Pages => verb == Verb::List,
            Self::LostReply | Self::AppliedTimeout | Self::CrashAfter | Self::LateReply(_) => writes,
            Self::Flaky
            | Self::Partition(_)
            | Self::HandOver
            | Self::LeaseTaken
            | Self::ClockAhead(_)
            | Self::ClockBack(_) => writes && !events,
            Self::Touch | Self::Deleted | Self::Recreated => {
                matches!(verb, Verb::Put | Verb::Patch | Verb::Delete) && !events
            }
            _ => false,
        }
    }

    /// Returns weaker disturbances of the same family, the weakest first.
    #[must_use]
    pub fn weaker(self) -> Vec<Self> {
        let family: &[Self] = match self {
            Self::CrashAfter => &[Self::Reply(500), Self::Drop, Self::CrashBefore, Self::LostReply],
            Self::CrashBefore | Self::LostReply | Self::AppliedTimeout => &[Self::Reply(500), Self::Drop],
            Self::Reply(409 | 429 | 503 | 504) | Self::Drop | Self::Flaky => &[Self::Reply(500)],
            Self::Slow(40) => &[Self::Reply(500), Self::Slow(5)],
            Self::LateReply(40) => &[Self::Reply(500), Self::LateReply(5)],
            Self::SlowAcross => &[Self::Slow(5), Self::Slow(40)],
            Self::LateAcross => &[Self::LateReply(5), Self::LateReply(40)],
            Self::Partition(20) => &[Self::Partition(3)],
            Self::Hold(30) => &[Self::CloseWatch, Self::Hold(1)],
            Self::Coalesce(_) => &[Self::CloseWatch, Self::Hold(1), Self::Coalesce(1), Self::Hold(30)],
            Self::Relist(_) => &[Self::CloseWatch, Self::Hold(1), Self::Coalesce(1), Self::Relist(1)],
            Self::StaleRestart(_) => &[Self::CloseWatch, Self::Hold(1), Self::Hold(30)],
            Self::Hold(_) | Self::Bookmark => &[Self::Last],
            Self::Recreated => &[Self::Deleted],
            Self::Order(3) => &[Self::Order(2)],
            _ => &[],
        };
        family.iter().copied().filter(|weaker| *weaker != self).collect()
    }

    /// Returns true if the controllers start again.
    #[must_use]
    pub const fn restarts(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter | Self::StaleRestart(_) | Self::HandOver | Self::LeaseTaken)
    }

    /// Returns true if it starts or stops the controllers at a time of its own, which a fixture that does so itself
    /// does not allow.
    #[must_use]
    pub const fn controls_subject(self) -> bool {
        matches!(self, Self::StaleRestart(_) | Self::HandOver)
    }

    /// Returns true if it changes the objects that the controllers work on, so that another outcome is right.
    #[must_use]
    pub const fn changes_history(self) -> bool {
        matches!(self, Self::Deleted | Self::Recreated)
    }

    /// Returns true if fixtures have words for it.
    #[must_use]
    pub const fn has_words(self) -> bool {
        !matches!(
            self,
            Self::Duplicate | Self::Bookmark | Self::Deleted | Self::Recreated | Self::Order(_) | Self::LeaseTaken
        )
    }

    /// Returns the time for which it keeps the controllers from their work at most.
    #[must_use]
    pub fn duration(self) -> Duration {
        match self {
            Self::Slow(by)
            | Self::LateReply(by)
            | Self::Hold(by)
            | Self::Coalesce(by)
            | Self::Relist(by)
            | Self::StaleRestart(by) => Duration::from_secs(u64::from(by)),
            Self::SlowAcross | Self::LateAcross => LONGEST_ACROSS,
            Self::Partition(minutes) => Duration::from_mins(u64::from(minutes)) + LONGEST_BACKOFF,
            Self::LeaseTaken => LEASE_EXPIRES,
            Self::ClockBack(minutes) => Duration::from_mins(u64::from(minutes)),
            _ => TOUCH_DELAY,
        }
    }

    /// Returns true if it needs controllers that elect a leader.
    #[must_use]
    pub const fn concerns_leader(self) -> bool {
        matches!(self, Self::LeaseTaken)
    }

    /// Returns the time for which the controllers are cut off from the API server.
    #[must_use]
    pub fn cut_off(self) -> Option<Duration> {
        match self {
            Self::Partition(minutes) => Some(Duration::from_mins(u64::from(minutes))),
            _ => None,
        }
    }

    /// Returns true if the subject learns late that a request took effect.
    #[must_use]
    pub const fn delays_reply(self) -> bool {
        matches!(self, Self::LateReply(_) | Self::LateAcross)
    }

    /// Returns true if the request takes effect late.
    #[must_use]
    pub const fn delays_request(self) -> bool {
        matches!(self, Self::Slow(_) | Self::SlowAcross)
    }

    /// Returns the number of requests that it refuses one by one.
    #[must_use]
    pub const fn refusals(self) -> u32 {
        if matches!(self, Self::Flaky) { FLAKY } else { 0 }
    }

    /// Returns true if it sets the controllers' wall clock.
    #[must_use]
    pub const fn steps_clock(self) -> bool {
        matches!(self, Self::ClockAhead(_) | Self::ClockBack(_))
    }

    /// Returns true if the subject may repeat a write that already took effect, because it cannot know of it.
    #[must_use]
    pub const fn hides_effects(self) -> bool {
        !matches!(self, Self::Reply(_) | Self::Drop | Self::CrashBefore | Self::Flaky | Self::Pages)
    }

    /// Returns true if the subject learns of changes late when this happens at `point`.
    #[must_use]
    pub fn delays_information(self, point: &FaultPoint) -> bool {
        self.is_watch_fault()
            || matches!(self, Self::Order(_) | Self::Partition(_))
            || matches!(point.site, Site::Request(Verb::List | Verb::Watch))
    }

    /// Returns true if it works through watches instead of requests.
    #[must_use]
    pub const fn is_watch_fault(self) -> bool {
        matches!(
            self,
            Self::Hold(_)
                | Self::Coalesce(_)
                | Self::Relist(_)
                | Self::CloseWatch
                | Self::StaleRestart(_)
                | Self::Last
                | Self::Duplicate
                | Self::Bookmark
        )
    }

    /// Translates the disturbance at `point`. Crashed controllers start again after `restart_after`.
    #[must_use]
    pub fn inject(self, point: &FaultPoint, restart_after: Duration) -> Injection {
        let reply = |code, applied| Effect::Reply {
            code,
            reason: None,
            message: None,
            retry_after: (code == 429).then_some(2),
            applied,
        };
        let seconds = |seconds: u16| Duration::from_secs(u64::from(seconds));
        let effect = match self {
            Self::CrashBefore => Effect::Crash { applied: false, restart_after },
            Self::CrashAfter => Effect::Crash { applied: true, restart_after },
            Self::Drop => Effect::Drop { applied: false },
            Self::LostReply => Effect::Drop { applied: true },
            Self::AppliedTimeout => reply(504, true),
            Self::Reply(code) => reply(code, false),
            Self::Slow(by) => Effect::Delay { by: seconds(by), applied: false },
            Self::LateReply(by) => Effect::Delay { by: seconds(by), applied: true },
            Self::SlowAcross => Effect::Delay { by: across(point), applied: false },
            Self::LateAcross => Effect::Delay { by: across(point), applied: true },
            Self::LeaseTaken => return take_lease(point),
            Self::Flaky => return flaky(point, &reply(500, false)),
            Self::Partition(minutes) => return partition(point, minutes),
            Self::Touch | Self::Deleted | Self::Recreated => Effect::Delay { by: TOUCH_DELAY, applied: false },
            Self::HandOver if point.site != Site::Event => Effect::Delay { by: TOUCH_DELAY, applied: false },
            Self::HandOver | Self::ClockAhead(_) | Self::ClockBack(_) => return self.inject_into_subject(point),
            Self::Order(depth) => {
                let order = WatchFault::Order { seed: u64::from(point.occurrence), depth: u32::from(depth) };
                return Injection { before_start: vec![order], ..Injection::default() };
            }
            Self::Pages => {
                let pages = WatchFault::Pages { resource: point.target.resource.clone(), limit: Some(1) };
                return match point.at.checked_sub(SHORTLY) {
                    None => Injection { before_start: vec![pages], ..Injection::default() },
                    Some(before) => Injection::of_steps(vec![(before, vec![Action::Watch(pages)])]),
                };
            }
            _ => return self.inject_into_watches(point),
        };
        let fault = Fault { name: None, on: point.pattern(), nth: point.occurrence, count: Some(1), effect };
        let steps = match self {
            Self::Touch => vec![(point.at + TOUCH_DELAY / 2, vec![touch(point)])],
            Self::Deleted | Self::Recreated => {
                let (target, again) = (point.target.object(), self == Self::Recreated);
                let delete = Action::Interfere(Interference::Delete { target, again });
                vec![(point.at + TOUCH_DELAY / 2, vec![delete])]
            }
            Self::HandOver => vec![(point.at + TOUCH_DELAY / 2, hand_over())],
            _ => Vec::new(),
        };
        Injection { faults: vec![fault], steps, ..Injection::default() }
    }

    /// Translates what happens to the controllers themselves. The clock steps just before a request, and during what an
    /// event began; others take over just after the point.
    fn inject_into_subject(self, point: &FaultPoint) -> Injection {
        let minutes = |minutes: u16| SignedDuration::from_mins(i64::from(minutes));
        let step = |by| vec![Action::StepClock(by)];
        let stepped = clock_step(point);
        let (at, actions) = match self {
            Self::ClockAhead(by) => (stepped, step(minutes(by))),
            Self::ClockBack(by) => (stepped, step(-minutes(by))),
            _ => (point.at + SHORTLY, hand_over()),
        };
        Injection::of_steps(vec![(at, actions)])
    }

    fn inject_into_watches(self, point: &FaultPoint) -> Injection {
        let resource = || point.target.resource.clone();
        let (at, second) = (point.at, Duration::from_secs(1));
        let after = |by: u16| at + Duration::from_secs(u64::from(by));
        let let_go = |coalesce| Action::Watch(WatchFault::Release { resource: resource(), coalesce });
        let lose = || Action::Watch(WatchFault::Drop(Some(resource())));
        let mut begin = vec![WatchFault::Hold(resource())];
        let steps = match self {
            Self::Hold(by) => vec![(after(by), vec![let_go(false)])],
            Self::Coalesce(by) => vec![(after(by), vec![let_go(true)])],
            Self::Relist(by) => {
                vec![(after(by), vec![Action::Compact, lose(), let_go(false)])]
            }
            Self::StaleRestart(by) => {
                begin.push(WatchFault::StaleList(resource()));
                let fresh = Action::Watch(WatchFault::FreshList(resource()));
                vec![(at + second, vec![Action::Control(Control::Restart)]), (after(by), vec![fresh, let_go(false)])]
            }
            Self::Last => vec![(at + SHORTLY, vec![let_go(false)])],
            Self::Duplicate => {
                begin = vec![WatchFault::Repeat { resource: resource(), twice: true }];
                let once = WatchFault::Repeat { resource: resource(), twice: false };
                vec![(at + second, vec![Action::Watch(once)])]
            }
            Self::Bookmark => {
                let bookmark = Action::Watch(WatchFault::Bookmark(resource()));
                vec![(at + second, vec![bookmark]), (at + second * 2, vec![lose(), let_go(false)])]
            }
            _ => vec![(at + second, vec![lose(), let_go(false)])],
        };
        match at.checked_sub(SHORTLY) {
            None => Injection { faults: Vec::new(), before_start: begin, steps },
            Some(before) => {
                let begin = begin.into_iter().map(Action::Watch).collect();
                let steps = std::iter::once((before, begin)).chain(steps).collect();
                Injection::of_steps(steps)
            }
        }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(NAMES.iter().find(|(_, known)| known == self).map_or("unknown", |(name, _)| name))
    }
}

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
    fn of_steps(steps: Vec<(Duration, Vec<Action>)>) -> Self {
        Self { steps, ..Self::default() }
    }
}

/// Returns the time at which the controllers' clock is set.
pub fn clock_step(point: &FaultPoint) -> Duration {
    if point.site == Site::Event { point.at + COUNTDOWN } else { point.at.saturating_sub(SHORTLY) }
}

/// Returns the time from a request until just after the next step of the history.
pub fn across(point: &FaultPoint) -> Duration {
    point.next_step.map_or(NO_STEP, |next| next.saturating_sub(point.at) + ACROSS)
}

/// Refuses every second request from the point on, for some minutes.
fn flaky(point: &FaultPoint, effect: &Effect) -> Injection {
    let name = Some(FLAKY_NAME.to_owned());
    // A request that one fault refuses is not counted by the next fault, so each begins one request later.
    let fault = |number: u32| Fault {
        name: name.clone(),
        on: point.pattern(),
        nth: point.occurrence + number,
        count: Some(1),
        effect: effect.clone(),
    };
    let faults = (0..FLAKY).map(fault).collect();
    Injection { faults, ..Injection::of_steps(vec![(point.at + FLAKY_TIME, vec![Action::Heal(name)])]) }
}

/// Returns the pattern of all requests of the controllers.
pub const ALL_REQUESTS: &str = "ANY */*/*";

fn partition(point: &FaultPoint, minutes: u16) -> Injection {
    let from = point.at.saturating_sub(SHORTLY);
    let until = point.at + Duration::from_mins(u64::from(minutes));
    let Ok(on) = RequestPattern::parse(ALL_REQUESTS, "default", &Resources::default()) else {
        return Injection::default();
    };
    let name = Some(PARTITION.to_owned());
    let fault = Fault { name: name.clone(), on, nth: 1, count: None, effect: Effect::Drop { applied: false } };
    let begin = vec![Action::Fault(fault), Action::Watch(WatchFault::Drop(None))];
    Injection::of_steps(vec![(from, begin), (until, vec![Action::Heal(name)])])
}

/// Writes another holder into the lease, just before the point.
fn take_lease(point: &FaultPoint) -> Injection {
    let Ok(target) = Target::parse(LEASE, "default", &Resources::default()) else { return Injection::default() };
    let body = json!({"spec": {"holderIdentity": OTHER_HOLDER}});
    let take = Action::Request(UserRequest {
        actor: "user".to_owned(),
        target,
        operation: Operation::Patch { kind: PatchKind::Merge, body },
        query: Vec::new(),
        together: None,
    });
    Injection::of_steps(vec![(point.at.saturating_sub(SHORTLY), vec![take])])
}

/// An orderly stop of the controllers, and the start of others.
fn hand_over() -> Vec<Action> {
    vec![Action::Control(Control::Stop), Action::Control(Control::Start)]
}

/// A write of another client to the object of `point`.
fn touch(point: &FaultPoint) -> Action {
    Action::Request(UserRequest {
        actor: "user".to_owned(),
        target: point.target.object(),
        operation: Operation::Patch {
            kind: PatchKind::Merge,
            body: json!({"metadata": {"annotations": {TOUCH: "1"}}}),
        },
        query: Vec::new(),
        together: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_can_be_parsed() {
        for (name, disturbance) in NAMES {
            assert_eq!(Disturbance::parse(name), Some(disturbance));
            assert_eq!(disturbance.to_string(), name);
            for weaker in disturbance.weaker() {
                assert!(Disturbance::parse(&weaker.to_string()).is_some(), "{name}: {weaker:?} has no name");
            }
        }
    }

    /// Shrinking ends because no chain of weaker disturbances returns to its start.
    #[test]
    fn weakening_ends() {
        for (_, disturbance) in NAMES {
            let mut open = disturbance.weaker();
            let mut steps = 0;
            while let Some(next) = open.pop() {
                assert_ne!(next, disturbance);
                open.extend(next.weaker());
                steps += 1;
                assert!(steps < 1000, "{disturbance} gets weaker without an end");
            }
        }
    }

    fn put(occurrence: u32, next_step: Option<Duration>) -> FaultPoint {
        let target = Target::parse("pdb/b/status", "default", &Resources::default()).expect("a target");
        let at = Duration::from_secs(10);
        FaultPoint { site: Site::Request(Verb::Put), target, occurrence, at, seq: 0, next_step }
    }

    #[test]
    fn a_flaky_server_refuses_every_second_request() {
        let injection = Disturbance::Flaky.inject(&put(3, None), Duration::ZERO);
        let (mut seen, mut hits) = (vec![0; injection.faults.len()], vec![0; injection.faults.len()]);
        let mut refused = Vec::new();
        for request in 1..=40 {
            let hit = injection.faults.iter().enumerate().find(|(number, fault)| {
                seen[*number] += 1;
                seen[*number] >= fault.nth && hits[*number] < fault.count.unwrap_or(u32::MAX)
            });
            if let Some((number, _)) = hit {
                hits[number] += 1;
                refused.push(request);
            }
        }
        assert_eq!(refused, (0..16).map(|number| 3 + 2 * number).collect::<Vec<_>>());
    }

    #[test]
    fn a_request_goes_on_just_after_the_next_step() {
        let delay = |point: &FaultPoint| match &Disturbance::LateAcross.inject(point, Duration::ZERO).faults[0].effect {
            Effect::Delay { by, applied: true } => by.as_secs(),
            other => panic!("{other:?}"),
        };
        let (followed, last) = (put(1, Some(Duration::from_secs(17))), put(1, None));
        assert_eq!((delay(&followed), delay(&last)), (8, 5));
        let across = |point: &FaultPoint| Disturbance::at(point).any(|fault| fault == Disturbance::LateAcross);
        assert!(across(&followed) && !across(&last), "only a step that follows makes it another fault");
    }

    #[test]
    fn a_partition_ends() {
        let steps = Disturbance::Partition(3).inject(&put(1, None), Duration::ZERO).steps;
        assert!(matches!(&steps[0].1[..], [Action::Fault(_), Action::Watch(WatchFault::Drop(None))]), "{steps:?}");
        let healed = Action::Heal(Some("partition".to_owned()));
        assert_eq!(steps[1], (Duration::from_secs(190), vec![healed]));
    }
}
