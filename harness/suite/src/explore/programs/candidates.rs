//! The plans that follow from the points of a run without faults, in the order in which they are tried. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use plumbline::explore::faults::point::Site;
use plumbline::explore::faults::{Disturbance, FaultTrait};
use plumbline::explore::schedule::in_turns_by;
use plumbline::fixture::pattern::Verb;

use super::job::{PlannedFault, Point};

/// Faults that no program is tried with: fixtures have them for controllers whose clock or order can be set.
const NOT_FOR_PROGRAMS: [&str; 4] = ["clock-ahead-10m", "clock-back-10m", "order-2", "order-3"];

/// The faults of a leader's lock.
const OF_LOCKS: [&str; 2] = ["lease-taken", "500"];

/// Most objects of a resource that have turns of their own.
const FEW: usize = 8;

/// A named selection of faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FaultProfile {
    /// All kinds of fault
    #[default]
    All,
    /// The scenarios of Kubernetes' framework for the robustness of controllers (k/k#139657): baseline, write
    /// conflicts, cache lag, flaky API, all of them combined, time-out of expectations
    Robustness,
}

/// The faults of the profile `robustness`, with the scenario that each is a part of.
const ROBUSTNESS: [(&str, &str); 9] = [
    ("409", "write conflicts"),
    ("touch", "write conflicts"),
    ("hold-30s", "cache lag"),
    ("coalesce-30s", "cache lag"),
    ("stale-restart-30s", "cache lag"),
    ("flaky", "flaky API"),
    ("500", "flaky API"),
    ("lost-reply", "flaky API"),
    ("hold-6m", "expectations' time-out"),
];

/// Returns the scenario of k/k#139657 that a fault is a part of.
#[must_use]
pub fn robustness_of(fault: &str) -> Option<&'static str> {
    ROBUSTNESS.iter().find(|(name, _)| *name == fault).map(|(_, scenario)| *scenario)
}

/// Plans of single faults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The plans, in the order in which they are tried.
    pub plans: Vec<PlannedFault>,
    /// Number of plans that were left out because another one has the same run, by kind of fault; 0 for kinds that no
    /// point suits.
    pub left_out: BTreeMap<&'static str, usize>,
}

impl Candidates {
    /// Returns the number of plans that were left out.
    #[must_use]
    pub fn equal(&self) -> usize {
        self.left_out.values().sum()
    }
}

/// Returns the single faults at these points.
#[must_use]
pub fn candidates(points: &[Point], seed: u64, profile: FaultProfile) -> Candidates {
    let mut met = BTreeSet::new();
    let kinds = Kinds::new(points);
    let mut all: Vec<(u64, String, PlannedFault)> = Vec::new();
    let of_profile = Disturbance::of_programs().filter(|disturbance| is_for_programs(*disturbance, profile));
    let mut left_out: BTreeMap<&'static str, usize> = of_profile.map(|disturbance| (disturbance.name(), 0)).collect();
    for (place, point) in points.iter().enumerate() {
        for disturbance in Disturbance::of_programs().filter(|disturbance| is_possible(*disturbance, point, profile)) {
            if !met.insert(circumstances(disturbance, point)) {
                *left_out.entry(disturbance.name()).or_default() += 1;
                continue;
            }
            let mut hasher = DefaultHasher::new();
            (seed, place, disturbance.name()).hash(&mut hasher);
            let class = format!("{} {disturbance}", kinds.kind(point));
            all.push((hasher.finish(), class, (disturbance, point.clone())));
        }
    }
    // The faults that programs meet most, at writes and events, before the others.
    let (likely, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, _, (fault, point))| is_likely(*fault, point));
    // The seed decides which kind comes first. Of a kind the first point, the last, and then those between.
    let ordered = |plans: Vec<(u64, String, PlannedFault)>| {
        let plans = plans.into_iter().map(|(hash, class, plan)| (class, (hash, plan)));
        in_turns_by(|(hash, _)| *hash, plans).into_iter().map(|(_, plan)| plan).collect::<Vec<_>>()
    };
    let plans = [ordered(likely), ordered(others)].concat();
    Candidates { plans, left_out }
}

/// The kinds of points: plans of each kind and fault have their turns.
struct Kinds<'p>(BTreeMap<(&'p str, &'p str), BTreeSet<&'p str>>);

impl<'p> Kinds<'p> {
    fn new(points: &'p [Point]) -> Self {
        let mut names: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for point in points {
            names.entry((&point.verb, &point.plural)).or_default().insert(object_of(point));
        }
        Self(names)
    }

    /// Returns the kind of a point. Objects of which there are few have kinds of their own: each has a purpose, as the
    /// certificates and the settings of a program have, while one of many is like the others.
    fn kind(&self, point: &Point) -> String {
        let subresource = point.subresource.as_deref().unwrap_or_default();
        let about = match point.point().site {
            Site::Event => point.about.as_str(),
            _ if self.has_few(point) => object_of(point),
            _ => "",
        };
        format!("{} {} {subresource} {about}", point.verb, point.plural)
    }

    fn has_few(&self, point: &Point) -> bool {
        self.0.get(&(&*point.verb, &*point.plural)).is_some_and(|names| names.len() <= FEW)
    }
}

/// Returns the name of the object that a request is about; that of a creation is not in its point.
fn object_of(point: &Point) -> &str {
    if point.name.is_empty() { &point.about } else { &point.name }
}

/// Returns true for a crash, an error, a lost reply and another client's change at a write, and for events that come
/// late or are lost.
fn is_likely(disturbance: Disturbance, point: &Point) -> bool {
    const AT_WRITES: [&str; 7] = ["crash-before", "crash-after", "lost-reply", "500", "409", "touch", "recreated"];
    const AT_EVENTS: [&str; 5] =
        ["hold-30s", "relist-30s", "stale-restart-30s", "time-travel-30s", "time-travel-across"];
    match point.point().site {
        Site::Request(Verb::Post | Verb::Put | Verb::Patch | Verb::Delete) => AT_WRITES.contains(&disturbance.name()),
        Site::Event => AT_EVENTS.contains(&disturbance.name()),
        _ => false,
    }
}

fn is_possible(disturbance: Disturbance, point: &Point, profile: FaultProfile) -> bool {
    let name = disturbance.name();
    let suits = disturbance.suits(&point.point());
    let can_be_taken = name != "lease-taken" || point.plural == "leases";
    let of_place =
        if point.lock { OF_LOCKS.contains(&name) && can_be_taken } else { !disturbance.is(FaultTrait::ConcernsLeader) };
    suits && of_place && is_for_programs(disturbance, profile)
}

/// Returns true for the kinds of fault of a profile, without those that no program is tried with.
fn is_for_programs(disturbance: Disturbance, profile: FaultProfile) -> bool {
    let name = disturbance.name();
    let of_profile = match profile {
        FaultProfile::All => true,
        FaultProfile::Robustness => robustness_of(name).is_some(),
    };
    of_profile && !NOT_FOR_PROGRAMS.contains(&name)
}

/// Returns what decides over the run with a fault: plans with the same circumstances have the same run.
fn circumstances(disturbance: Disturbance, point: &Point) -> String {
    let site = point.point().site;
    let name = disturbance.name();
    if disturbance.is(FaultTrait::CrashesBefore) {
        // Nothing has changed since the last point with this number.
        return format!("crash {}", point.before);
    }
    if disturbance.is(FaultTrait::CrashesAfter) {
        return format!("crash {}", point.after);
    }
    if disturbance.is_timed_at(site) {
        return format!("{name} {}", point.before);
    }
    if name == "denied-10m" {
        return format!("{name} {} {} {:?}", point.verb, point.plural, point.subresource);
    }
    if site == Site::Event {
        // Events of one resource at one moment are held, closed and lost together.
        return format!("{name} {} {}", point.plural, point.at);
    }
    // The same request again, without a change or a write in between: a program that polls.
    format!("{name} {} {:?} {}/{:?} {}", point.verb, point.plural, point.name, point.subresource, point.before)
}

/// Returns pairs: each single fault with one of the next requests after it.
#[must_use]
pub fn pairs(single: &[PlannedFault], points: &[Point]) -> Vec<Vec<PlannedFault>> {
    /// Faults that come second: what a program must survive while it repairs the first one.
    const SECOND: [&str; 4] = ["crash-after", "500", "409", "lost-reply"];
    const NEXT: usize = 3;
    let mut all = Vec::new();
    for (disturbance, point) in single {
        let later =
            points.iter().filter(|later| later.at >= point.at && later.before >= point.before && *later != point);
        for second in later.take(NEXT) {
            for name in SECOND {
                let Some(fault) = Disturbance::parse(name).filter(|fault| fault.suits(&second.point())) else {
                    continue;
                };
                all.push(vec![(*disturbance, point.clone()), (fault, second.clone())]);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(verb: &str, occurrence: u32, before: usize) -> Point {
        Point {
            verb: verb.to_owned(),
            plural: "pods".to_owned(),
            version: "v1".to_owned(),
            namespaced: true,
            namespace: Some("default".to_owned()),
            name: "a".to_owned(),
            occurrence,
            before,
            after: before + 1,
            ..Point::default()
        }
    }

    #[test]
    fn equal_plans_are_tried_once() {
        let points = [point("GET", 1, 3), point("GET", 2, 3), point("GET", 3, 4)];
        let found = candidates(&points, 1, FaultProfile::All);
        let of = |name: &str| found.plans.iter().filter(|(fault, _)| fault.name() == name).count();
        assert_eq!((of("500"), of("crash-before"), of("denied-10m"), of("409")), (2, 2, 1, 0));
        assert!(found.equal() > 0);
    }

    #[test]
    fn the_last_request_of_a_kind_comes_second() {
        let points: Vec<Point> = (1..=9).map(|number| point("PUT", number, number as usize)).collect();
        for seed in 1..4 {
            let found = candidates(&points, seed, FaultProfile::All);
            let of_kind = found.plans.iter().filter(|(fault, _)| fault.name() == "409");
            let order: Vec<u32> = of_kind.map(|(_, point)| point.occurrence).take(3).collect();
            assert_eq!(order, [1, 9, 5]);
        }
    }

    #[test]
    fn each_of_a_few_objects_has_its_turn() {
        let about = |count: u32| -> Vec<Point> {
            let made = |number: u32| Point {
                verb: "POST".to_owned(),
                name: String::new(),
                about: format!("o{number}"),
                ..point("POST", number, number as usize)
            };
            let other = Point { plural: "services".to_owned(), ..made(90) };
            (1..=count).map(made).chain([other]).collect()
        };
        // Returns the turn of the service, which is alone of its kind, or comes after all pods.
        let before = |count: u32| {
            let found = candidates(&about(count), 1, FaultProfile::All);
            let of_kind: Vec<&PlannedFault> =
                found.plans.iter().filter(|(fault, _)| fault.name() == "crash-after").collect();
            of_kind.iter().rposition(|(_, point)| point.plural == "services").expect("it has a turn")
        };
        let objects = about(8);
        let kinds = Kinds::new(&objects);
        assert_ne!(kinds.kind(&objects[0]), kinds.kind(&objects[1]));
        let objects = about(9);
        let kinds = Kinds::new(&objects);
        assert_eq!(kinds.kind(&objects[0]), kinds.kind(&objects[1]));
        assert!(before(9) <= 1, "of many pods one comes before the service at most");
    }

    #[test]
    fn events_have_turns_by_their_makers() {
        let event = |about: &str| Point { about: about.to_owned(), ..point("EVENT", 1, 1) };
        let objects = [event("changed by a step"), event("gone by the program")];
        let kinds = Kinds::new(&objects);
        assert_ne!(kinds.kind(&objects[0]), kinds.kind(&objects[1]));
    }

    #[test]
    fn the_profile_selects_faults() {
        let found = candidates(&[point("PUT", 1, 0)], 1, FaultProfile::Robustness);
        assert!(found.plans.iter().all(|(fault, _)| robustness_of(fault.name()).is_some()));
        assert!(found.plans.iter().any(|(fault, _)| fault.name() == "409"));
    }

    #[test]
    fn pairs_begin_with_each_single_fault() {
        let points = [point("PUT", 1, 0), point("PATCH", 1, 1)];
        let single = candidates(&points[..1], 1, FaultProfile::All).plans;
        let found = pairs(&single[..1], &points);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|pair| pair.len() == 2 && pair[1].1.verb == "PATCH"));
    }
}
