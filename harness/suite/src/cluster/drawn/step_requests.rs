//! The requests of a fixture's steps.

use plumbline::fixture::{Action, Fixture, StepKind, UserRequest};

/// Returns the requests of a fixture's steps.
pub(super) fn requests(fixture: &Fixture) -> impl Iterator<Item = &UserRequest> {
    let actions = fixture.steps.iter().flat_map(|step| match &step.kind {
        StepKind::Do { actions, .. } => actions.as_slice(),
        _ => &[],
    });
    actions.filter_map(|action| match action {
        Action::Request(request) => Some(request),
        _ => None,
    })
}
