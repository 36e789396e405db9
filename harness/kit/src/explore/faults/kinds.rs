//! The kinds of fault: a table with one row for each. Pure.

use std::fmt;
use std::time::Duration;

use super::inject::{self, FLAKY, HELD, Injection, LEASE_EXPIRES, TOUCH_DELAY, mins, secs};
use super::point::{FaultPoint, LONGEST_ACROSS, Site};
use crate::fixture::pattern::Verb;
use crate::rules::queue::MAX_DELAY;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Disturbance(usize);

/// The points at which a correct server can behave in a certain way, and where that could matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Each request.
    Request,
    /// Each request that a step of the history follows soon.
    RequestBeforeStep,
    /// Lists.
    List,
    /// Lists and watches.
    Read,
    /// Each write.
    Write,
    /// Each write that a step of the history follows soon.
    WriteBeforeStep,
    /// Writes, but not of Events.
    ObjectWrite,
    /// Updates and patches, but not of Events.
    Update,
    /// Updates, patches and deletions, but not of Events.
    Change,
    /// Reads of one object, but not of Events.
    ObjectRead,
    /// Events of watches.
    Event,
    /// Events that a step of the history follows soon.
    EventBeforeStep,
    /// The whole run.
    Run,
}

impl Place {
    fn includes(self, point: &FaultPoint) -> bool {
        let verb = match point.site {
            Site::Request(verb) => verb,
            Site::Event => {
                return self == Self::Event || self == Self::EventBeforeStep && point.next_step.is_some();
            }
            Site::Run => return self == Self::Run,
        };
        let writes = matches!(verb, Verb::Post | Verb::Put | Verb::Patch | Verb::Delete);
        let of_event = point.target.resource.plural == "events";
        match self {
            Self::Request => true,
            Self::RequestBeforeStep => point.next_step.is_some(),
            Self::List => verb == Verb::List,
            Self::Read => matches!(verb, Verb::List | Verb::Watch),
            Self::Write => writes,
            Self::WriteBeforeStep => writes && point.next_step.is_some(),
            Self::ObjectWrite => writes && !of_event,
            Self::Update => matches!(verb, Verb::Put | Verb::Patch) && !of_event,
            Self::Change => matches!(verb, Verb::Put | Verb::Patch | Verb::Delete) && !of_event,
            Self::ObjectRead => verb == Verb::Get && !of_event,
            Self::Event | Self::EventBeforeStep | Self::Run => false,
        }
    }
}

/// A property of a fault on which plans and oracles depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultTrait {
    /// The controllers start again.
    Restarts,
    /// It starts or stops the controllers at a time of its own, which a fixture that does so itself does not allow.
    ControlsSubject,
    /// It changes the objects that the controllers work on, so that another outcome is right.
    ChangesHistory,
    /// It needs controllers that elect a leader.
    ConcernsLeader,
    /// The controllers' wall clock is set ahead.
    SetsClockAhead,
    /// The controllers' wall clock is set back.
    SetsClockBack,
    /// Simultaneous work proceeds in another order.
    Reorders,
    /// The controllers crash at the request before it takes effect.
    CrashesBefore,
    /// The controllers crash at the request after it took effect.
    CrashesAfter,
    /// It matters only for lists of several objects.
    ConcernsPages,
    /// It depends on the time of the point alone.
    IsTimed,
    /// It depends on the time of an event alone.
    IsTimedAtEvents,
    /// Fixtures have no words for it.
    IsWordless,
    /// Tests with the kit try it.
    IsForTests,
    /// Only programs of which nothing is known try it.
    IsForProgramsAlone,
}

/// A row of the table: everything about a kind of fault.
struct Row {
    /// Its name in tokens.
    name: &'static str,
    /// The number of its name: a status code, seconds, minutes, or the number of changes of the order.
    number: u16,
    /// The points at which it can happen.
    at: &'static [Place],
    traits: &'static [FaultTrait],
    /// The time for which it keeps the controllers from their work at most.
    lasts: Duration,
    /// The time for which the controllers are cut off from the API server.
    cut_off: Option<Duration>,
    /// The number of requests that it refuses one by one.
    refusals: u32,
    /// Names of weaker faults of the same family, the weakest first.
    weaker: &'static [&'static str],
    inject: fn(u16, &FaultPoint, Duration) -> Injection,
}

/// A fault of a request, with what most of them have in common.
const REQUEST: Row = Row {
    name: "",
    number: 0,
    at: &[Place::Request],
    traits: &[],
    lasts: TOUCH_DELAY,
    cut_off: None,
    refusals: 0,
    weaker: &["500"],
    inject: inject::reply,
};

/// A reply with an error to a request that has no effect.
const REPLY: Row = Row { traits: &[FaultTrait::IsForTests], ..REQUEST };

/// A fault of watches.
const WATCH: Row = Row { at: &[Place::Event], weaker: &[], inject: inject::hold, ..REQUEST };

/// A change of the clock, or of who leads.
const SUBJECT: Row = Row { at: &[Place::ObjectWrite, Place::Event], weaker: &[], ..REQUEST };

use FaultTrait as T;

/// All kinds of fault, from the weakest to the strongest of each family.
static ROWS: [Row; 47] = [
    // A conflict of a delete means that its precondition failed.
    Row { name: "409", number: 409, at: &[Place::Update], ..REPLY },
    Row { name: "410", number: 410, at: &[Place::Read], weaker: &[], ..REPLY },
    Row { name: "429", number: 429, ..REPLY },
    Row { name: "500", number: 500, weaker: &[], ..REPLY },
    Row { name: "503", number: 503, ..REPLY },
    Row { name: "504", number: 504, ..REPLY },
    // The connection breaks before the request takes effect.
    Row { name: "drop", inject: inject::drop_before, ..REPLY },
    // Another client changes the object before the request takes effect.
    Row {
        name: "touch",
        at: &[Place::Change],
        traits: &[T::IsForTests],
        weaker: &[],
        inject: inject::touch,
        ..REQUEST
    },
    // Another client changes the object before it is read: what its reader did before knows nothing of the change.
    Row {
        name: "touch-read",
        at: &[Place::ObjectRead],
        traits: &[T::IsForTests, T::IsForProgramsAlone],
        weaker: &[],
        inject: inject::touch,
        ..REQUEST
    },
    // Another client adds its finalizer to the object before the request takes effect, and takes it away afterwards.
    Row {
        name: "finalizer",
        at: &[Place::Change],
        lasts: HELD,
        traits: &[T::IsWordless, T::IsForTests, T::IsForProgramsAlone],
        weaker: &["touch"],
        inject: inject::finalizer,
        ..REQUEST
    },
    // The request takes effect after this many seconds.
    Row {
        name: "slow-5s",
        number: 5,
        lasts: secs(5),
        traits: &[T::IsForTests],
        weaker: &[],
        inject: inject::slow,
        ..REQUEST
    },
    Row { name: "slow-40s", number: 40, lasts: secs(40), weaker: &["500", "slow-5s"], inject: inject::slow, ..REQUEST },
    // The request takes effect at once and its reply comes after this many seconds.
    Row {
        name: "late-5s",
        number: 5,
        at: &[Place::Write],
        lasts: secs(5),
        traits: &[T::IsForTests],
        weaker: &[],
        inject: inject::late_reply,
        ..REQUEST
    },
    Row {
        name: "late-40s",
        number: 40,
        at: &[Place::Write],
        lasts: secs(40),
        weaker: &["500", "late-5s"],
        inject: inject::late_reply,
        ..REQUEST
    },
    // The request takes effect, or its reply comes, just after the next step of the history.
    Row {
        name: "slow-across",
        at: &[Place::RequestBeforeStep],
        lasts: LONGEST_ACROSS,
        weaker: &["slow-5s", "slow-40s"],
        inject: inject::slow_across,
        ..REQUEST
    },
    Row {
        name: "late-across",
        at: &[Place::WriteBeforeStep],
        lasts: LONGEST_ACROSS,
        weaker: &["late-5s", "late-40s"],
        inject: inject::late_across,
        ..REQUEST
    },
    // Every second request like this one is refused with 500, for a while.
    Row { name: "flaky", at: &[Place::ObjectWrite], refusals: FLAKY, inject: inject::flaky, ..REPLY },
    // Lists of the resource have pages of one object.
    Row {
        name: "pages",
        at: &[Place::List],
        traits: &[T::ConcernsPages, T::IsForTests],
        weaker: &[],
        inject: inject::pages,
        ..REPLY
    },
    // The controllers reach the API server no more, for this many minutes; the history goes on.
    Row {
        name: "partition-3m",
        number: 3,
        lasts: MAX_DELAY.saturating_add(mins(3)),
        cut_off: Some(mins(3)),
        traits: &[T::IsTimed, T::IsForTests],
        inject: inject::partition,
        ..SUBJECT
    },
    Row {
        name: "partition-20m",
        number: 20,
        lasts: MAX_DELAY.saturating_add(mins(20)),
        cut_off: Some(mins(20)),
        traits: &[T::IsTimed],
        weaker: &["partition-3m"],
        inject: inject::partition,
        ..SUBJECT
    },
    // The request takes effect, and its reply is 504, or the connection breaks.
    Row {
        name: "504-applied",
        number: 504,
        at: &[Place::Write],
        traits: &[T::IsForTests],
        weaker: &["500", "drop"],
        inject: inject::applied_timeout,
        ..REQUEST
    },
    Row {
        name: "lost-reply",
        at: &[Place::Write],
        traits: &[T::IsForTests],
        weaker: &["500", "drop"],
        inject: inject::drop_after,
        ..REQUEST
    },
    Row {
        name: "crash-before",
        traits: &[T::Restarts, T::CrashesBefore, T::IsForTests],
        weaker: &["500", "drop"],
        inject: inject::crash_before,
        ..REQUEST
    },
    Row {
        name: "crash-after",
        at: &[Place::Write],
        traits: &[T::Restarts, T::CrashesAfter, T::IsForTests],
        weaker: &["500", "drop", "crash-before", "lost-reply"],
        inject: inject::crash_after,
        ..REQUEST
    },
    // The watches of the resource close before they deliver the event.
    Row { name: "close-watch", traits: &[T::IsForTests], inject: inject::close_watch, ..WATCH },
    // Events of the resource are held back for this many seconds.
    Row { name: "hold-1s", number: 1, lasts: secs(1), weaker: &["last"], ..WATCH },
    Row {
        name: "hold-30s",
        number: 30,
        lasts: secs(30),
        traits: &[T::IsForTests],
        weaker: &["close-watch", "hold-1s"],
        ..WATCH
    },
    // The same, and only the last state of each object is delivered.
    Row {
        name: "coalesce-1s",
        number: 1,
        lasts: secs(1),
        weaker: &["close-watch", "hold-1s", "hold-30s"],
        inject: inject::coalesce,
        ..WATCH
    },
    Row {
        name: "coalesce-30s",
        number: 30,
        lasts: secs(30),
        traits: &[T::IsForTests],
        weaker: &["close-watch", "hold-1s", "coalesce-1s", "hold-30s"],
        inject: inject::coalesce,
        ..WATCH
    },
    // The same, and the events are lost, so that clients have to list again.
    Row {
        name: "relist-1s",
        number: 1,
        lasts: secs(1),
        weaker: &["close-watch", "hold-1s", "coalesce-1s"],
        inject: inject::relist,
        ..WATCH
    },
    Row {
        name: "relist-30s",
        number: 30,
        lasts: secs(30),
        traits: &[T::IsForTests],
        weaker: &["close-watch", "hold-1s", "coalesce-1s", "relist-1s"],
        inject: inject::relist,
        ..WATCH
    },
    // The controllers start again on an API server that lags behind by this many seconds.
    Row {
        name: "stale-restart-30s",
        number: 30,
        lasts: secs(30),
        traits: &[T::Restarts, T::ControlsSubject, T::IsForTests],
        weaker: &["close-watch", "hold-1s", "hold-30s"],
        inject: inject::stale_restart,
        ..WATCH
    },
    // Events of the resource come just after everything else of that moment.
    Row { name: "last", inject: inject::last, ..WATCH },
    // Each event of the resource of that moment is delivered twice.
    Row { name: "duplicate", traits: &[T::IsWordless], inject: inject::duplicate, ..WATCH },
    // The watches of the resource get a bookmark instead of the event, and close.
    Row { name: "bookmark", traits: &[T::IsWordless], weaker: &["last"], inject: inject::bookmark, ..WATCH },
    // The controllers are asked to stop, and others take over.
    Row {
        name: "hand-over",
        traits: &[T::Restarts, T::ControlsSubject, T::IsTimedAtEvents],
        inject: inject::hand_over,
        ..SUBJECT
    },
    // Another holder takes the lease of the controllers' leader by force between two renewals, and is silent then.
    Row {
        name: "lease-taken",
        at: &[Place::ObjectWrite],
        lasts: LEASE_EXPIRES,
        traits: &[T::Restarts, T::ConcernsLeader, T::IsWordless],
        inject: inject::take_lease,
        ..SUBJECT
    },
    // The controllers' wall clock steps by this many minutes.
    Row {
        name: "clock-ahead-10m",
        number: 10,
        traits: &[T::SetsClockAhead, T::IsTimed],
        inject: inject::clock_ahead,
        ..SUBJECT
    },
    Row {
        name: "clock-back-10m",
        number: 10,
        lasts: mins(10),
        traits: &[T::SetsClockBack, T::IsTimed],
        inject: inject::clock_back,
        ..SUBJECT
    },
    // Another client deletes the object, and creates an equal one, before the request takes effect.
    Row {
        name: "deleted",
        at: &[Place::Change],
        traits: &[T::ChangesHistory, T::IsWordless, T::IsForTests],
        weaker: &[],
        inject: inject::delete,
        ..REQUEST
    },
    Row {
        name: "recreated",
        at: &[Place::Change],
        traits: &[T::ChangesHistory, T::IsWordless],
        weaker: &["deleted"],
        inject: inject::recreate,
        ..REQUEST
    },
    // Simultaneous requests and events proceed in another order, which changes this many times, less one.
    Row {
        name: "order-2",
        number: 2,
        at: &[Place::Run],
        traits: &[T::Reorders, T::IsWordless],
        weaker: &[],
        inject: inject::order,
        ..REQUEST
    },
    Row {
        name: "order-3",
        number: 3,
        at: &[Place::Run],
        traits: &[T::Reorders, T::IsWordless],
        weaker: &["order-2"],
        inject: inject::order,
        ..REQUEST
    },
    // The right to make requests like this one is missing, for this many minutes.
    Row {
        name: "denied-10m",
        number: 10,
        lasts: mins(10),
        traits: &[T::IsForTests, T::IsForProgramsAlone],
        inject: inject::deny,
        ..REQUEST
    },
    // Events of the resource are held back for longer than controllers wait for the creations and deletions that they
    // expect: five minutes.
    Row {
        name: "hold-6m",
        number: 360,
        lasts: mins(6),
        traits: &[T::IsForProgramsAlone],
        weaker: &["close-watch", "hold-1s", "hold-30s"],
        ..WATCH
    },
    // The controllers act upon the event, and start again on an API server that does not know it for this many seconds.
    Row {
        name: "time-travel-30s",
        number: 30,
        lasts: secs(30),
        traits: &[T::Restarts, T::ControlsSubject, T::IsForProgramsAlone],
        weaker: &["stale-restart-30s"],
        inject: inject::time_travel,
        ..WATCH
    },
    // The same, after the controllers acted upon the next step of the history, too.
    Row {
        name: "time-travel-across",
        number: 30,
        at: &[Place::EventBeforeStep],
        lasts: LONGEST_ACROSS.saturating_add(secs(40)),
        traits: &[T::Restarts, T::ControlsSubject, T::IsForProgramsAlone],
        weaker: &["time-travel-30s"],
        inject: inject::time_travel_across,
        ..WATCH
    },
];

impl Disturbance {
    /// Returns the disturbance of that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        ROWS.iter().position(|row| row.name == name).map(Self)
    }

    /// Returns all disturbances of fixtures, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::of_programs().filter(|disturbance| !disturbance.is(T::IsForProgramsAlone))
    }

    /// Returns all disturbances, in order: those of fixtures and those of programs alone.
    pub fn of_programs() -> impl Iterator<Item = Self> {
        (0..ROWS.len()).map(Self)
    }

    /// Returns the disturbances that can happen at a point.
    pub fn at(point: &FaultPoint) -> impl Iterator<Item = Self> + '_ {
        Self::all().filter(|disturbance| disturbance.suits(point))
    }

    /// Returns true if a correct server can behave in this way at `point`, and if it could matter there.
    #[must_use]
    pub fn suits(self, point: &FaultPoint) -> bool {
        self.row().at.iter().any(|place| place.includes(point))
    }

    fn row(self) -> &'static Row {
        &ROWS[self.0]
    }

    /// Returns its name in tokens.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns true if it has the property.
    #[must_use]
    pub fn is(self, property: FaultTrait) -> bool {
        self.row().traits.contains(&property)
    }

    /// Returns weaker disturbances of the same family, the weakest first.
    pub fn weaker(self) -> impl Iterator<Item = Self> {
        self.row().weaker.iter().filter_map(|name| Self::parse(name))
    }

    /// Returns the time for which it keeps the controllers from their work at most.
    #[must_use]
    pub fn duration(self) -> Duration {
        self.row().lasts
    }

    /// Returns the time for which the controllers are cut off from the API server.
    #[must_use]
    pub fn cut_off(self) -> Option<Duration> {
        self.row().cut_off
    }

    /// Returns the number of requests that it refuses one by one.
    #[must_use]
    pub fn refusals(self) -> u32 {
        self.row().refusals
    }

    /// Returns true if it sets the controllers' wall clock.
    #[must_use]
    pub fn steps_clock(self) -> bool {
        self.is(T::SetsClockAhead) || self.is(T::SetsClockBack)
    }

    /// Returns true if its injection depends on the time of its point alone.
    #[must_use]
    pub fn is_timed_at(self, site: Site) -> bool {
        self.is(T::IsTimed) || site == Site::Event && self.is(T::IsTimedAtEvents)
    }

    /// Translates the disturbance at `point`. Crashed controllers start again after `restart_after`.
    #[must_use]
    pub fn inject(self, point: &FaultPoint, restart_after: Duration) -> Injection {
        (self.row().inject)(self.row().number, point, restart_after)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::pattern::Resources;
    use crate::fixture::{Action, Effect, Target, WatchFault};

    #[test]
    fn names_are_unique_and_can_be_parsed() {
        for (place, row) in ROWS.iter().enumerate() {
            assert_eq!(Disturbance::parse(row.name), Some(Disturbance(place)));
            assert_eq!(Disturbance(place).to_string(), row.name);
            assert_eq!(Disturbance(place).weaker().count(), row.weaker.len(), "{}: {:?}", row.name, row.weaker);
        }
    }

    /// Shrinking ends because no chain of weaker disturbances returns to its start.
    #[test]
    fn weakening_ends() {
        for disturbance in Disturbance::all() {
            let mut open: Vec<Disturbance> = disturbance.weaker().collect();
            let mut steps = 0;
            while let Some(next) = open.pop() {
                assert_ne!(next, disturbance);
                open.extend(next.weaker());
                steps += 1;
                assert!(steps < 1000, "{disturbance} gets weaker without an end");
            }
        }
    }

    /// Injects the fault of that name.
    fn inject(name: &str, point: &FaultPoint) -> Injection {
        Disturbance::parse(name).expect(name).inject(point, Duration::ZERO)
    }

    fn put(occurrence: u32, next_step: Option<Duration>) -> FaultPoint {
        let target = Target::parse("pdb/b/status", "default", &Resources::default()).expect("a target");
        let at = Duration::from_secs(10);
        FaultPoint { site: Site::Request(Verb::Put), target, occurrence, at, seq: 0, next_step }
    }

    #[test]
    fn a_flaky_server_refuses_every_second_request() {
        let injection = inject("flaky", &put(3, None));
        let mut seen = vec![0; injection.faults.len()];
        let mut hits = vec![0; injection.faults.len()];
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
        let delay = |point: &FaultPoint| match &inject("late-across", point).faults[0].effect {
            Effect::Delay { by, applied: true } => by.as_secs(),
            other => panic!("{other:?}"),
        };
        let followed = put(1, Some(Duration::from_secs(17)));
        let last = put(1, None);
        assert_eq!((delay(&followed), delay(&last)), (8, 5));
        let across = |point: &FaultPoint| Disturbance::at(point).any(|fault| fault.name() == "late-across");
        assert!(across(&followed) && !across(&last), "only a step that follows makes it another fault");
    }

    #[test]
    fn a_partition_ends() {
        let steps = inject("partition-3m", &put(1, None)).steps;
        assert!(matches!(&steps[0].1[..], [Action::Fault(_), Action::Watch(WatchFault::Drop(None))]), "{steps:?}");
        let healed = Action::Heal(Some("partition".to_owned()));
        assert_eq!(steps[1], (Duration::from_secs(190), vec![healed]));
    }
}
