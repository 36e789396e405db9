//! Field ownership: updates `metadata.managedFields` with every write. Follows
//! `staging/src/k8s.io/apimachinery/pkg/util/managedfields` of Kubernetes 1.36, and `merge/update.go` of
//! `sigs.k8s.io/structured-merge-diff/v6`.
//!
//! Field sets stay in their wire form (`fieldsV1`) and are changed in place, because this runs on every write:
//!
//! ```text
//! set.rs       field sets: union, difference, intersection, paths
//! compare.rs   the fields that a write added, changed and removed
//! path_element.rs identity of list items
//! entry.rs     the entries of managedFields: reading, order, limits
//! reset.rs     fields that an endpoint never changes
//! versions.rs  objects in the versions of other entries
//! version_converter.rs conversion to them
//! write_info.rs the attributes of a write that determine ownership
//! ```
//!
//! [`update`] handles everything except server-side apply, which is in [`super::patch::apply`]. As in kube-apiserver,
//! call it with the decoded and defaulted object, converted to the request's version, before admission and before the
//! strategy prepares it.

mod compare;
mod entry;
mod path_element;
mod reset;
mod set;
mod version_converter;
mod versions;
mod write_info;

use crate::json::{Map, Value};

pub(crate) use compare::compare;
pub(crate) use entry::Operation;
pub(crate) use entry::{ManagedEntries, ManagedFieldsEntry, stamp};
pub(crate) use path_element::{PathElementError, index_key, list_item_path_element};
pub(crate) use reset::ResetFields;
pub(crate) use set::{FieldSet, build_node, format_path_element, is_member};
pub(crate) use version_converter::{OneVersion, VersionConversionError, VersionConverter};
pub(crate) use versions::{Changes, OwnershipError, VersionedObject, Versions};
pub(crate) use write_info::WriteInfo;

use super::schema::Schema;

/// Manager of the fields that existed before the first apply.
pub(crate) const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Updates `new.metadata.managedFields` for a create (`live` is `None`), update or patch.
///
/// Entries sent by the client replace the stored ones, unless they are absent or malformed or `write.subresource` is
/// set; `[]` or `[{}]` clears the ownership. If fields cannot be tracked, the object loses its managedFields, as
/// upstream.
pub(crate) fn update(schema: &Schema, live: Option<&Value>, new: &mut Value, write: &WriteInfo<'_>) {
    let sent = take_managed_fields(new);
    let stored = live.and_then(|l| l.get("metadata")).and_then(|m| m.get("managedFields"));
    let entries = if write.subresource.is_empty() && is_reset(sent.as_ref()) {
        Some(ManagedEntries::default())
    } else if write.subresource.is_empty() {
        let sent = sent.and_then(|value| ManagedEntries::read(value).ok()).filter(|entries| !entries.is_empty());
        sent.or_else(|| ManagedEntries::read(stored?.clone()).ok())
    } else {
        // Clients mostly send back the entries they received; then no copy is needed.
        let same = sent.filter(|sent| Some(sent) == stored);
        same.or_else(|| stored.cloned()).and_then(|value| ManagedEntries::read(value).ok())
    };
    let mut entries = entries.unwrap_or_default();
    let exists = live.is_some_and(|l| l.pointer("/metadata/uid").is_some());
    if entries.is_empty() && exists {
        return;
    }
    entries.retain_group(write);
    if move_ownership(schema, live, new, &mut entries, write).is_ok() {
        entries.write(new);
    }
}

/// Removes the field at `path` from all its owners.
pub(crate) fn remove_ownership(object: &mut Value, path: &[&str]) {
    let Some(mut entries) = take_managed_fields(object).and_then(|value| ManagedEntries::read(value).ok()) else {
        return;
    };
    entries.remove_fields(&FieldSet::of_fields(&[path]));
    entries.write(object);
}

/// Takes `metadata.managedFields` out of an object.
pub(crate) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// Returns true for `[]` and `[{}]`, which clear the ownership.
fn is_reset(sent: Option<&Value>) -> bool {
    match sent {
        Some(Value::Array(entries)) => match entries.as_slice() {
            [] => true,
            [Value::Object(only)] => only.values().all(|v| v.is_null() || v.as_str() == Some("")),
            _ => false,
        },
        _ => false,
    }
}

/// Moves the changed fields from the other managers to `write.manager`.
///
/// # Errors
/// Items of a list cannot be identified, or an object cannot be converted to the version of another manager.
pub(crate) fn move_ownership(
    schema: &Schema,
    live: Option<&Value>,
    new: &Value,
    entries: &mut ManagedEntries,
    write: &WriteInfo<'_>,
) -> Result<(), OwnershipError> {
    let changes = Changes::between(schema, (live, new), entries, write, |_| false)?;
    entries.release(&changes);
    let mut own = changes.own.added;
    own.union(changes.own.modified);
    own.strip_meta();
    if !own.is_empty() {
        entries.add_fields(write, own);
    }
    entries.cap();
    Ok(())
}

/// Restores the old timestamps in `new`'s managedFields if nothing else differs from `old`, so that a write without
/// changes stays a no-op. Follows `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go`.
pub(crate) fn ignore_timestamps(new: &mut Value, old: &Value) {
    let (Some(ours), Some(theirs)) = (entries_of(new), entries_of(old)) else { return };
    if ours.len() != theirs.len() || ours == theirs || !ours.iter().zip(theirs).all(|(a, b)| same_but_time(a, b)) {
        return;
    }
    let taken = take_managed_fields(new);
    let (Some(current), Some(before)) = (new.as_object(), old.as_object()) else { return };
    let same = current.len() == before.len()
        && current.iter().all(|(key, value)| match (key.as_str(), value, before.get(key)) {
            ("metadata", Value::Object(meta), Some(Value::Object(old_meta))) => {
                meta.len() + 1 == old_meta.len() && meta.iter().all(|(k, v)| old_meta.get(k) == Some(v))
            }
            (_, value, other) => other == Some(value),
        });
    let restored = if same { Some(Value::Array(theirs.clone())) } else { taken };
    if let (Some(meta), Some(restored)) = (new.get_mut("metadata").and_then(Value::as_object_mut), restored) {
        meta.insert("managedFields", restored);
    }
}

fn entries_of(object: &Value) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

fn same_but_time(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let timeless = |map| Map::iter(map).filter(|(key, _)| *key != "time");
    timeless(a).eq(timeless(b))
}

#[cfg(test)]
mod tests;
