//! Deletions by another client while a request of a controller is under way: of objects that the controllers work for.
//! The steps of the test that come later may need the object, so the test ends with that advance. The run without the
//! fault is one in which the same object is deleted when the controllers have converged. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::expect::world::{Key, ObjectStates, key_of_change};
use crate::explore::entries::is_of_subject;
use crate::explore::faults::inject::race_at;
use crate::explore::faults::point::FaultPoint;
use crate::explore::left::is_custom;
use crate::fixture::Target;
use crate::transcript::{EntryKind, TranscriptEntry};

/// Returns the custom objects of a run that the controllers did not make.
pub(super) fn custom_objects(before: &ObjectStates, entries: &[TranscriptEntry]) -> BTreeSet<Key> {
    let mut found: BTreeSet<Key> = before.keyed().map(|(key, _)| key.clone()).collect();
    for entry in entries {
        if let EntryKind::Change(change) = &entry.what
            && change.old.is_none()
        {
            let key = key_of_change(change);
            if is_of_subject(change, entries) {
                found.remove(&key)
            } else {
                found.insert(key)
            };
        }
    }
    found.retain(|key| is_custom(&key.group));
    found
}

/// Returns true if another client may delete the object of a request: one of these custom objects.
pub(super) fn can_be_deleted(custom: &BTreeSet<Key>, target: &Target) -> bool {
    custom.contains(&Key {
        group: target.resource.group.to_string(),
        resource: target.resource.plural.to_string(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
    })
}

/// Returns the number of the advance during which the object of the point is deleted; `None` if the test ends before.
pub(super) fn last_before_deletion(advances: &[Duration], point: &FaultPoint) -> Option<usize> {
    advances.iter().position(|end| *end >= race_at(point)).map(|index| index + 1)
}
