//! The beginnings of fixtures: their first steps, so that a fault has time to show its consequences. Pure.

use plumbline::fixture::parse::step_actions;
use plumbline::fixture::{Action, Fixture, Step, StepKind};

use super::facts::{controls_subject, disturbs_watches};
use super::random;

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
        || fixture.given.faults.iter().any(|fault| fault.count.is_none())
        || fixture
            .steps
            .iter()
            .flat_map(step_actions)
            .any(|action| matches!(action, Action::Fault(_) | Action::Heal(_) | Action::Skew(_)));
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
    let named = |id: &str| fixtures.iter().find(|fixture| fixture.id == id).cloned().or_else(|| random::find(id));
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plumbline::fixture::parse;

    use super::*;

    const TEXT: &str = "promise: A pod of a missing node goes.\nrule: BR-24-03\nlevel: core\nfeature: podgc.orphaned\n\
        given: { nodes: [n1], pods: [a on n1] }\nsteps:\n- { at: 5s, delete: nodes/n1 }\n\
        - { by: 80s, eventually: { absent: pods/a } }\n";

    #[test]
    fn beginnings_have_the_first_steps() {
        let (fixtures, _) = parse::read(Path::new("a.yaml"), "podgc", TEXT);
        let none = find(&fixtures, "podgc/a~0").expect("a beginning");
        assert!(none.steps.is_empty() && is_beginning(&none.id), "{none:?}");
        assert_eq!(find(&fixtures, "podgc/a~1"), None, "that is the whole fixture");
        assert_eq!(find(&fixtures, "podgc/a").map(|fixture| fixture.steps.len()), Some(2));
    }
}
