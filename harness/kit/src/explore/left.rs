//! Objects that controllers leave behind when those that they were made for are deleted. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::entries::is_of_subject;
use crate::expect::world::{Key, ObjectStates, key_of_change};
use crate::metadata;
use crate::transcript::{Change, EntryKind, TranscriptEntry};

/// The oracle of what is left.
pub const LEFT: &str = "left";

fn changes(entries: &[TranscriptEntry]) -> impl Iterator<Item = &Change> {
    entries.iter().filter_map(|entry| match &entry.what {
        EntryKind::Change(change) => Some(&**change),
        _ => None,
    })
}

/// Returns the objects that controllers left behind: those whose owners are gone, and those that they made for an
/// object that was deleted, each with the reason.
#[must_use]
pub fn left(states: &ObjectStates, entries: &[TranscriptEntry]) -> BTreeMap<Key, String> {
    let uids: BTreeSet<&str> = states.objects().filter_map(|object| object.uid()).collect();
    let made: BTreeSet<Key> = changes(entries)
        .filter(|change| change.old.is_none() && is_of_subject(change, entries))
        .map(key_of_change)
        .collect();
    let gone = deleted_by_users(entries, states);
    let mut found = BTreeMap::new();
    for (object_key, object) in states.keyed().filter(|(key, _)| made.contains(*key)) {
        let owners = metadata::owner_references(object);
        let of_gone = owners.iter().all(|owner| !uids.contains(owner["uid"].as_str().unwrap_or_default()));
        if owners.is_empty() {
            let is_meant = |gone: &&Key| names(object, &gone.name) && !is_explained(object_key, gone, (states, &made));
            if let Some(gone) = gone.iter().find(is_meant) {
                found.insert(
                    object_key.clone(),
                    format!("it was made for {}/{}, which is deleted", gone.resource, gone.name),
                );
            }
        } else if of_gone {
            let owner = &owners[0];
            let text = format!("its owner {} {} is gone", owner["kind"], owner["name"]);
            found.insert(object_key.clone(), text.replace('"', ""));
        }
    }
    found
}

/// Returns true if an object may have been made for another custom object than the one that is gone: for one of the
/// same name that is left. Objects in the namespace of the one that is gone were hardly made for those of others.
fn is_explained(object: &Key, gone: &Key, (states, made): (&ObjectStates, &BTreeSet<Key>)) -> bool {
    let is_near = |other: &Key| other.namespace.is_none() || other.namespace == object.namespace;
    let is_namesake = |key: &&Key| is_custom(&key.group) && key.name == gone.name && !made.contains(*key);
    let mut namesakes = states.keyed().map(|(key, _)| key).filter(is_namesake);
    namesakes.any(|other| is_near(other) || !is_near(gone))
}

/// Returns true for the groups of custom resources.
#[must_use]
pub fn is_custom(group: &str) -> bool {
    group.contains('.') && !group.ends_with(".k8s.io")
}

/// Returns the custom objects that steps deleted and that are gone at the end.
fn deleted_by_users(entries: &[TranscriptEntry], states: &ObjectStates) -> BTreeSet<Key> {
    let deleted = changes(entries).filter(|change| change.new.is_none() && is_custom(&change.group));
    deleted.map(key_of_change).filter(|key| states.get(key).is_none()).collect()
}

/// Returns true if the object's name or one of its labels or annotations has `name` in it.
fn names(object: &Value, name: &str) -> bool {
    // A name may have dashes, and a word with dashes is another name: `tier-a` is not about `a`.
    let has =
        |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-').any(|word| word == name);
    let values = |field: &str| {
        let values = object["metadata"][field].as_object().into_iter().flat_map(|fields| fields.values());
        values.filter_map(Value::as_str).any(has)
    };
    let own = metadata::name(object);
    own.starts_with(&format!("{name}-"))
        || own.ends_with(&format!("-{name}"))
        || values("labels")
        || values("annotations")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::annotation(json!({"name": "x", "annotations": {"owner": "default/my-cache"}}), "my-cache", true)]
    #[case::label(json!({"name": "x", "labels": {"cluster": "a"}}), "a", true)]
    #[case::another_name(json!({"name": "x", "labels": {"tier": "tier-a"}}), "a", false)]
    #[case::own_name(json!({"name": "a-web"}), "a", true)]
    #[case::longer_name(json!({"name": "data-a"}), "a", true)]
    #[case::nothing(json!({"name": "ax", "labels": {"app": "web"}}), "a", false)]
    fn objects_name_those_that_they_were_made_for(#[case] metadata: Value, #[case] name: &str, #[case] expected: bool) {
        assert_eq!(names(&json!({"metadata": metadata}), name), expected);
    }
}
