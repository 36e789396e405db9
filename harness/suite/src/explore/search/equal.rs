//! Leaves out plans whose runs cannot differ from the run of another plan. Pure.
//!
//! | plans | are equal because |
//! |---|---|
//! | of two histories with the same world, steps, controllers and flags | fixtures often share their beginning |
//! | with the same injection | the fault is a time alone, and several points have the same time |
//! | that crash the controllers at one moment, with no write and no change between | nothing of them is left |
//! | with `pages` for a resource that never has two objects | each of its lists has one page |
//! | of lists or watches of different resources that have no object, at one moment | the replies are equally empty |
//!
//! The first plan of each class is tried.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use plumbline::explore::faults::plan::FaultPlan;
use plumbline::explore::faults::point::Site;
use plumbline::explore::faults::{Disturbance, FaultTrait};
use plumbline::fixture::Fixture;
use plumbline::fixture::parse::step_actions;
use plumbline::fixture::pattern::Verb;
use plumbline::transcript::Actor;

use crate::explore::histories::facts::{disturbs_watches, has_faults};
use crate::explore::run::explored::ReferenceRun;

/// Returns a digest of everything in a fixture that its run depends on.
#[must_use]
pub fn history(fixture: &Fixture) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Fixture { given, controllers, flags, .. } = fixture;
    format!("{given:?} {controllers:?} {flags:?} {:?}", fixture.end()).hash(&mut hasher);
    for step in &fixture.steps {
        let actions = step_actions(step);
        if !actions.is_empty() {
            format!("{:?} {actions:?}", step.at).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The properties that plans of one history share if their runs are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Each list has one page.
    WithoutEffect,
    /// A crash at this time in nanoseconds, after so many changes and writes.
    Crash(u128, usize),
    /// A fault of a list or watch that returns no object: its verb, occurrence, sender, and time in nanoseconds.
    Empty(Disturbance, &'static str, u32, Option<Actor>, u128),
    /// The injected steps.
    Steps(String),
}

/// The plans of one history that were met so far.
#[derive(Debug, Default)]
pub struct MetPlans {
    classes: BTreeSet<Class>,
    left_out: usize,
}

impl MetPlans {
    /// Returns true if the run of this fault differs from those of all faults before it.
    pub fn is_new(&mut self, reference: &ReferenceRun, place: usize, disturbance: Disturbance) -> bool {
        let is_new = match class(reference, place, disturbance) {
            None => true,
            Some(Class::WithoutEffect) => false,
            Some(class) => self.classes.insert(class),
        };
        self.left_out += usize::from(!is_new);
        is_new
    }

    /// Returns the number of faults that were met again.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.left_out
    }
}

/// Returns the plans of each class that has several: the one that is tried, and those that are left out. A plan without
/// effect is equal to the run without faults.
#[must_use]
pub fn classes(reference: &ReferenceRun) -> Vec<(FaultPlan, Vec<FaultPlan>)> {
    let mut classes: BTreeMap<Class, Vec<FaultPlan>> = BTreeMap::new();
    let calm = FaultPlan::calm(&reference.fixture.id);
    for (place, point) in reference.points.iter().enumerate() {
        for disturbance in Disturbance::at(point) {
            if let Some(class) = class(reference, place, disturbance) {
                let plan = FaultPlan { faults: vec![(disturbance, point.clone())], ..calm.clone() };
                classes.entry(class).or_default().push(plan);
            }
        }
    }
    let split = |(class, mut plans): (Class, Vec<FaultPlan>)| {
        let tried = if class == Class::WithoutEffect { calm.clone() } else { plans.remove(0) };
        (!plans.is_empty()).then_some((tried, plans))
    };
    classes.into_iter().filter_map(split).collect()
}

fn class(reference: &ReferenceRun, place: usize, disturbance: Disturbance) -> Option<Class> {
    let point = reference.points.get(place)?;
    let moment = reference.moments.get(place)?;
    let plain = !has_faults(&reference.fixture) && !disturbs_watches(&reference.fixture);
    let population = reference.populations.get(&*point.target.resource.plural).copied().unwrap_or(usize::MAX);
    let at = point.at.as_nanos();
    match point.site {
        _ if plain && disturbance.is(FaultTrait::CrashesBefore) => Some(Class::Crash(at, moment.before)),
        _ if plain && disturbance.is(FaultTrait::CrashesAfter) => Some(Class::Crash(at, moment.after)),
        _ if plain && population <= 1 && disturbance.is(FaultTrait::ConcernsPages) => Some(Class::WithoutEffect),
        Site::Request(verb @ (Verb::List | Verb::Watch)) if plain && population == 0 => {
            Some(Class::Empty(disturbance, verb.as_str(), point.occurrence, moment.sender.clone(), at))
        }
        site if disturbance.is_timed_at(site) => {
            let steps = disturbance.inject(point, Duration::ZERO).steps;
            Some(Class::Steps(format!("{steps:?}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plumbline::fixture::parse;
    use rstest::rstest;

    use super::*;

    fn digest(text: &str) -> u64 {
        let head = "promise: It goes.\nrule: BR-24-03\nlevel: core\nfeature: podgc.orphaned\n";
        let (fixtures, problems) = parse::read(Path::new("a.yaml"), "podgc", &format!("{head}{text}"));
        assert!(problems.is_empty(), "{problems:?}");
        history(&fixtures[0])
    }

    const DELETED: &str = "given: { nodes: [n1], pods: [a on n1] }\nsteps:\n- { at: 5s, delete: nodes/n1 }\n\
        - { by: 80s, eventually: { absent: pods/a } }\n";

    #[test]
    fn expectations_are_no_part_of_a_history() {
        assert_eq!(digest(DELETED), digest(&DELETED.replace("absent: pods/a", "absent: pods/a, exists: nodes/n2")));
    }

    #[rstest]
    #[case::another_time("at: 5s", "at: 6s")]
    #[case::another_action("delete: nodes/n1", "delete: pods/a")]
    #[case::another_world("nodes: [n1]", "nodes: [n1, n2]")]
    #[case::longer("80s", "90s")]
    fn everything_else_is(#[case] old: &str, #[case] new: &str) {
        assert_ne!(digest(DELETED), digest(&DELETED.replace(old, new)));
    }
}
