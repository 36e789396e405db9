//! Histories that lead to the same objects of other clients, and should lead to the same end: a watch may skip the
//! states between two updates, so that what is left must not depend on them.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::fixture::parse::step_actions;
use plumbline::fixture::{Action, Fixture, Operation, Step, Target};

use super::job::{StepMerge, WorkerJob, millis};
use super::launch::Launcher;
use super::reference::Reference;
use super::state::{LEFT, StateDifference};
use super::subject::ScenarioSubject;

/// Most pairs of updates that are tried.
const MOST_PAIRS: usize = 4;

/// Resources whose objects are there to record what was before.
const RECORDS: [&str; 3] = ["replicasets", "controllerrevisions", "jobs"];

/// Makes runs in which a watch skips the state between two updates, and returns the objects that are left or missing
/// because of it, with what happens.
#[must_use]
pub fn skipped(subject: &ScenarioSubject, launcher: &Launcher, reference: &Reference) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for merge in pairs(&subject.fixture).into_iter().take(MOST_PAIRS) {
        let facts = launcher.run(0, WorkerJob { merge: Some(merge), ..subject.job(&[], Some(reference), false) });
        if facts.ending.is_some() || !facts.exits.is_empty() {
            continue;
        }
        let differences = reference.expected.state.differences(&facts.state, &reference.expected.volatile);
        let at = |index: usize| subject.fixture.steps.get(index).map_or(0, |step| millis(step.at) / 1000);
        let (first, second) = (at(merge.first), at(merge.last));
        for difference in differences.into_iter().filter(is_lasting) {
            let seen = if difference.kind == LEFT { "does not exist" } else { "exists" };
            let skipped = if difference.kind == LEFT { "exists" } else { "does not" };
            let text = format!(
                "it {seen} at the end; it {skipped} if a watch skips the state between the updates at {first} s and \
                 {second} s, as watches may"
            );
            found.entry(difference.object).or_insert(text);
        }
    }
    found
}

/// Returns true for objects that are left or missing, but for records and those with random names.
fn is_lasting(difference: &StateDifference) -> bool {
    difference.is_about_existence()
        && !RECORDS.contains(&difference.resource())
        && !difference.object.contains("(random)")
}

/// Returns pairs of steps that follow each other and update the same objects.
fn pairs(fixture: &Fixture) -> Vec<StepMerge> {
    let updated: Vec<Option<BTreeSet<String>>> = fixture.steps.iter().map(updates).collect();
    let same = |(first, pair): (usize, &[Option<BTreeSet<String>>])| match pair {
        [Some(one), Some(other)] if one.is_subset(other) => Some(StepMerge { first, last: first + 1, ahead: false }),
        _ => None,
    };
    updated.windows(2).enumerate().filter_map(same).collect()
}

/// Returns the objects that a step updates, if it does nothing else.
fn updates(step: &Step) -> Option<BTreeSet<String>> {
    let actions = step_actions(step);
    let updated = |action: &Action| match action {
        Action::Request(request) => match request.operation {
            Operation::Update { .. } | Operation::Replace { .. } | Operation::Patch { .. } => {
                Some(object(&request.target))
            }
            _ => None,
        },
        _ => None,
    };
    if actions.is_empty() { None } else { actions.iter().map(updated).collect() }
}

fn object(target: &Target) -> String {
    format!("{} {:?} {}", target.resource.plural, target.namespace, target.name)
}

/// Returns the merge of the last step until `after` (milliseconds) with all later ones ahead of it; `None` unless
/// these only create objects that no step before them is about.
#[must_use]
pub fn additions(fixture: &Fixture, after: u64) -> Option<StepMerge> {
    let steps = &fixture.steps;
    let first = steps.iter().rposition(|step| millis(step.at) <= after)?;
    let last = steps.len() - 1;
    let request = |action: &Action| match action {
        Action::Request(request) => Some(object(&request.target)),
        _ => None,
    };
    let known: BTreeSet<String> = steps[..=first].iter().flat_map(step_actions).filter_map(request).collect();
    let adds = |action: &Action| {
        matches!(action, Action::Request(request) if matches!(request.operation, Operation::Create { .. }))
            && request(action).is_some_and(|object| !known.contains(&object))
    };
    let mut later = steps[first + 1..].iter().map(step_actions);
    let only_adds = later.all(|actions| !actions.is_empty() && actions.iter().all(adds));
    (last > first && only_adds).then_some(StepMerge { first, last, ahead: true })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plumbline::fixture::parse;
    use plumbline::fixture::pattern::Resources;

    use super::*;

    fn scenario(steps: &str) -> Fixture {
        let text = format!("steps:\n{steps}");
        parse::scenario(Path::new("a.yaml"), &text, Resources::default()).expect("a scenario")
    }

    #[test]
    fn pairs_are_updates_of_the_same_objects() {
        let found = scenario(
            "- { at: 1s, label: { nodes/a: { x: '1' } } }\n- { at: 2s, label: { nodes/a: { x: '2' } } }\n\
             - { at: 3s, label: { nodes/b: { x: '2' } } }\n- { at: 4s, delete: nodes/b }\n\
             - { at: 5s, label: { nodes/a: { x: '3' } } }\n",
        );
        assert_eq!(pairs(&found), [StepMerge { first: 0, last: 1, ahead: false }]);
    }

    #[test]
    fn additions_take_nothing_back() {
        let create = |at: u32, name: &str| {
            format!("- {{ at: {at}s, create: {{ apiVersion: v1, kind: Secret, metadata: {{ name: {name} }} }} }}\n")
        };
        let found = |steps: &[String]| additions(&scenario(&steps.concat()), 1_500);
        assert_eq!(
            found(&[create(1, "a"), create(2, "b"), create(3, "c")]),
            Some(StepMerge { first: 0, last: 2, ahead: true })
        );
        assert_eq!(found(&[create(1, "a"), create(2, "b"), "- { at: 3s, delete: secrets/a }\n".to_owned()]), None);
        assert_eq!(found(&[create(1, "a"), create(2, "a")]), None, "it was there before");
        assert_eq!(found(&[create(1, "a")]), None, "nothing follows");
    }
}
