//! Objects that something else than the subject keeps from being deleted. Pure.

use plumbline::expect::world::ObjectStates;
use plumbline::metadata;

use crate::explore::run::explored::ExploredRun;
use crate::explore::run::observation::SubjectWrite;

/// Returns true if something else than the subject held the object of this write when it was sent.
pub(super) fn is_held(explored: ExploredRun<'_>, write: &SubjectWrite) -> bool {
    is_terminating(&explored.objects_before(write.seq), write)
}

/// Returns true if the object of the write is being deleted: something else than the subject holds it.
fn is_terminating(world: &ObjectStates, write: &SubjectWrite) -> bool {
    let resource = write.key.resource.split('/').next().unwrap_or_default();
    world.all(resource).any(|(key, object)| {
        key.name == write.key.name
            && key.namespace.as_deref().unwrap_or_default() == write.key.namespace
            && metadata::is_terminating(object)
    })
}
