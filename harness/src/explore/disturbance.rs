//! The kinds of fault, and their translation into the faults and steps of a fixture. Pure.

use std::fmt;
use std::time::Duration;

use serde_json::json;

use super::point::{FaultPoint, Site};
use crate::fixture::pattern::Verb;
use crate::fixture::{Action, Control, Effect, Fault, Operation, PatchKind, UserRequest, WatchFault};

/// The annotation that [`Disturbance::Touch`] sets.
pub const TOUCH: &str = "plumbline.test/touch";

/// Time between a request and the write of another client that takes effect before it.
const TOUCH_DELAY: Duration = Duration::from_secs(2);

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
}

/// All disturbances with their names in tokens, from the weakest to the strongest of each family.
const NAMES: [(&str, Disturbance); 24] = [
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
        let Site::Request(verb) = point.site else {
            return self.is_watch_fault();
        };
        let writes = matches!(verb, Verb::Post | Verb::Put | Verb::Patch | Verb::Delete);
        let events = point.target.resource.plural == "events";
        match self {
            // A conflict of a delete means that its precondition failed.
            Self::Reply(409) => matches!(verb, Verb::Put | Verb::Patch) && !events,
            Self::Reply(410) => matches!(verb, Verb::List | Verb::Watch),
            Self::Reply(_) | Self::Drop | Self::Slow(_) | Self::CrashBefore => true,
            Self::LostReply | Self::AppliedTimeout | Self::CrashAfter | Self::LateReply(_) => writes,
            Self::Touch => matches!(verb, Verb::Put | Verb::Patch | Verb::Delete) && !events,
            Self::Hold(_) | Self::Coalesce(_) | Self::Relist(_) | Self::CloseWatch | Self::StaleRestart(_) => false,
        }
    }

    /// Returns weaker disturbances of the same family, the weakest first.
    #[must_use]
    pub fn weaker(self) -> Vec<Self> {
        let family: &[Self] = match self {
            Self::CrashAfter => &[Self::Reply(500), Self::Drop, Self::CrashBefore, Self::LostReply],
            Self::CrashBefore | Self::LostReply | Self::AppliedTimeout => &[Self::Reply(500), Self::Drop],
            Self::Reply(409 | 429 | 503 | 504) | Self::Drop => &[Self::Reply(500)],
            Self::Slow(40) => &[Self::Reply(500), Self::Slow(5)],
            Self::LateReply(40) => &[Self::Reply(500), Self::LateReply(5)],
            Self::Hold(30) => &[Self::CloseWatch, Self::Hold(1)],
            Self::Coalesce(_) => &[Self::CloseWatch, Self::Hold(1), Self::Coalesce(1), Self::Hold(30)],
            Self::Relist(_) => &[Self::CloseWatch, Self::Hold(1), Self::Coalesce(1), Self::Relist(1)],
            Self::StaleRestart(_) => &[Self::CloseWatch, Self::Hold(1), Self::Hold(30)],
            _ => &[],
        };
        family.iter().copied().filter(|weaker| *weaker != self).collect()
    }

    /// Returns true if the controllers start again.
    #[must_use]
    pub const fn restarts(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter | Self::StaleRestart(_))
    }

    /// Returns true if the subject may repeat a write that already took effect, because it cannot know of it.
    #[must_use]
    pub const fn hides_effects(self) -> bool {
        !matches!(self, Self::Reply(_) | Self::Drop | Self::CrashBefore)
    }

    /// Returns true if the subject learns of changes late when this happens at `point`.
    #[must_use]
    pub fn delays_information(self, point: &FaultPoint) -> bool {
        self.is_watch_fault() || matches!(point.site, Site::Request(Verb::List | Verb::Watch))
    }

    /// Returns true if it works through watches instead of requests.
    #[must_use]
    pub const fn is_watch_fault(self) -> bool {
        matches!(self, Self::Hold(_) | Self::Coalesce(_) | Self::Relist(_) | Self::CloseWatch | Self::StaleRestart(_))
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
            Self::Touch => Effect::Delay { by: TOUCH_DELAY, applied: false },
            Self::Hold(_) | Self::Coalesce(_) | Self::Relist(_) | Self::CloseWatch | Self::StaleRestart(_) => {
                return self.inject_into_watches(point);
            }
        };
        let fault = Fault { name: None, on: point.pattern(), nth: point.occurrence, count: Some(1), effect };
        let steps = match self {
            Self::Touch => vec![(point.at + TOUCH_DELAY / 2, vec![touch(point)])],
            _ => Vec::new(),
        };
        Injection { fault: Some(fault), before_start: Vec::new(), steps }
    }

    fn inject_into_watches(self, point: &FaultPoint) -> Injection {
        let resource = || point.target.resource.clone();
        let (at, second) = (point.at, Duration::from_secs(1));
        let after = |by: u16| at + Duration::from_secs(u64::from(by));
        let let_go = |coalesce| Action::Watch(WatchFault::Release { resource: resource(), coalesce });
        let mut begin = vec![WatchFault::Hold(resource())];
        let steps = match self {
            Self::Hold(by) => vec![(after(by), vec![let_go(false)])],
            Self::Coalesce(by) => vec![(after(by), vec![let_go(true)])],
            Self::Relist(by) => {
                let lose = Action::Watch(WatchFault::Drop(Some(resource())));
                vec![(after(by), vec![Action::Compact, lose, let_go(false)])]
            }
            Self::StaleRestart(by) => {
                begin.push(WatchFault::StaleList(resource()));
                let fresh = Action::Watch(WatchFault::FreshList(resource()));
                vec![(at + second, vec![Action::Control(Control::Restart)]), (after(by), vec![fresh, let_go(false)])]
            }
            _ => vec![(at + second, vec![Action::Watch(WatchFault::Drop(Some(resource()))), let_go(false)])],
        };
        match at.checked_sub(Duration::from_millis(1)) {
            None => Injection { fault: None, before_start: begin, steps },
            Some(before) => {
                let begin = begin.into_iter().map(Action::Watch).collect();
                let steps = std::iter::once((before, begin)).chain(steps).collect();
                Injection { fault: None, before_start: Vec::new(), steps }
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
#[derive(Debug, Clone, PartialEq)]
pub struct Injection {
    /// A fault of requests, armed before the controllers start.
    pub fault: Option<Fault>,
    /// Watch faults in force before the controllers start.
    pub before_start: Vec<WatchFault>,
    /// Actions at times of the run.
    pub steps: Vec<(Duration, Vec<Action>)>,
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
}
