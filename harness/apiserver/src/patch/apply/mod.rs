//! Server-side apply. Follows `Updater.Apply` in `merge/update.go` of `sigs.k8s.io/structured-merge-diff/v6` and
//! `staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal` of Kubernetes 1.36.
//!
//! The applied object is merged into the live one. Fields that the manager applied before and now leaves out are
//! removed unless another manager owns them. Changing a field of another manager is a conflict unless forced.

mod fieldset;
mod merge;
mod prune;
mod validate;

use crate::json::{Map, Value};

pub(crate) use merge::merge;
pub(crate) use validate::{fits, misfit};

use super::super::managedfields::{
    BEFORE_FIRST_APPLY, Changes, FieldSet, ManagedEntries, ManagedFieldsEntry, Operation, OwnershipError,
    VersionedObject, Versions, WriteInfo, compare, move_ownership, stamp, take_managed_fields,
};
use super::super::schema::{self, Schema};
use super::super::status::{Cause, Status};

/// An apply request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplyRequest<'a> {
    /// Manager, version, subresource, reset fields and time.
    pub write: WriteInfo<'a>,
    /// `force=true`: conflicts are ignored.
    pub force: bool,
    /// Kind that the endpoint serves.
    pub kind: &'a str,
}

/// Returns why a configuration does not fit its schema.
pub(crate) fn schema_error(schema: &Schema, config: &Value) -> Option<String> {
    let errors = validate::validate(schema, config);
    (!errors.is_empty()).then(|| validate::message(&errors))
}

/// Checks that an applied object that is not of the endpoint's kind, such as a Scale, fits its type.
///
/// # Errors
/// 500, as kube-apiserver answers.
pub(crate) fn check_fit(schema: &Schema, config: &Value) -> Result<(), Status> {
    let errors = validate::validate(schema, config);
    if errors.is_empty() {
        return Ok(());
    }
    let whose = describe(config, &shown_kind(config));
    Err(internal_error(format!("failed to create typed patch object ({whose}): {}", validate::message(&errors))))
}

/// Merges an applied object that is not of the endpoint's kind into the present one.
///
/// # Errors
/// 500 if the result cannot be converted to its type.
pub(crate) fn merged(schema: &Schema, live: &Value, config: &Value) -> Result<Value, Status> {
    let merged = merge(schema, live, config).map_err(|e| internal_error(format!("failed to merge config: {e}")))?;
    converted(schema, merged, config, &shown_kind(config))
}

/// Converts what a configuration was merged into to the type of `kind`.
fn converted(schema: &Schema, merged: Value, config: &Value, kind: &str) -> Result<Value, Status> {
    let converted = schema.convert_unstructured(merged).map_err(|error| {
        let whose = describe(config, kind);
        let why = format!("unable to convert unstructured object to {kind}: {error}");
        internal_error(format!("failed to convert new object ({whose}) to proper version: {why}"))
    })?;
    Ok(converted.value)
}

/// Returns group, version and kind of an object as [`show_kind`] does.
pub(crate) fn shown_kind(object: &Value) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    show_kind(text("apiVersion"), text("kind"))
}

/// The annotation in which kubectl's client-side apply stores the applied object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Largest total size of all annotations in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Applies `config` (the decoded body) to `live` (`None` if the object does not exist yet). Returns the new object with
/// its managedFields, typed and normalized but not defaulted.
///
/// # Errors
/// 400 for a body of another kind or with managedFields, 409 for conflicts, 500 for a body that does not fit the type.
pub(crate) fn apply(
    schema: &Schema,
    live: Option<&Value>,
    config: Value,
    request: &ApplyRequest<'_>,
) -> Result<Value, Status> {
    let config = check(schema, config, request)?;
    let mut live = live.cloned().unwrap_or_else(|| typed_empty(schema, request));
    let stored = take_managed_fields(&mut live).unwrap_or(Value::Null);
    let mut entries =
        ManagedEntries::read(stored).map_err(|e| internal_error(format!("failed to decode managed fields: {e}")))?;
    if entries.is_empty() {
        let write = WriteInfo { manager: BEFORE_FIRST_APPLY, ..request.write };
        move_ownership(schema, None, &live, &mut entries, &write)
            .map_err(|e| internal_error(format!("failed to create manager for existing fields: {e}")))?;
    }
    entries.retain_group(&request.write);
    let (mut object, entries) = match merge_config(schema, &live, &config, entries.clone(), request, request.force)? {
        MergeOutcome::Done(object, entries) => (object, entries),
        MergeOutcome::Conflicts(conflicts) => {
            let conflicts = drop_client_side_apply_conflicts(schema, &live, conflicts, request);
            if !conflicts.is_empty() {
                return Err(conflict_error(conflicts));
            }
            match merge_config(schema, &live, &config, entries, request, true)? {
                MergeOutcome::Done(object, entries) => (object, entries),
                MergeOutcome::Conflicts(conflicts) => return Err(conflict_error(conflicts)),
            }
        }
    };
    if request.write.manager == "kubectl" {
        sync_last_applied(&mut object, config);
    }
    entries.write(&mut object);
    Ok(object)
}

/// Returns an object that has only its type.
fn typed_empty(schema: &Schema, request: &ApplyRequest<'_>) -> Value {
    let mut object = schema.empty().clone();
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion", Value::from(request.write.api_version));
        map.insert("kind", Value::from(request.kind));
    }
    object
}

fn internal_error(message: String) -> Status {
    Status::failure(500, "", message)
}

/// Checks that the body is an object of the endpoint's kind, has no managedFields and fits the type.
fn check(schema: &Schema, config: Value, request: &ApplyRequest<'_>) -> Result<Value, Status> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let api_version = text("apiVersion");
    let kind = text("kind");
    if api_version != request.write.api_version || kind != request.kind {
        return Err(Status::bad_request(format!("invalid object type: {}", show_kind(&api_version, &kind))));
    }
    if has_managed_fields(&config) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let errors = validate::validate(schema, &config);
    if errors.is_empty() {
        return Ok(config);
    }
    let whose = describe(&config, &show_kind(&api_version, &kind));
    Err(internal_error(format!("failed to create typed patch object ({whose}): {}", validate::message(&errors))))
}

/// Returns true if `Unstructured.GetManagedFields` finds entries in a body, or an empty list. Other values are left to
/// the check of the type.
fn has_managed_fields(config: &Value) -> bool {
    let entry = schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry");
    let is_entry = |item: &Value| {
        item.is_object() && entry.as_ref().is_none_or(|entry| entry.decode(item.to_string().as_bytes()).is_ok())
    };
    let listed = config.pointer("/metadata/managedFields").and_then(Value::as_array);
    listed.is_some_and(|list| list.iter().all(is_entry))
}

/// Returns namespace, name and kind of an object for messages.
fn describe(object: &Value, kind: &str) -> String {
    let meta = |name: &str| object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}; {kind}", meta("namespace"), meta("name"))
}

/// Returns group, version and kind as Go prints them: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`. Of a version that
/// cannot be parsed nothing is left, as in `Unstructured.GroupVersionKind`.
fn show_kind(api_version: &str, kind: &str) -> String {
    if api_version.matches('/').count() > 1 {
        return "/, Kind=".to_owned();
    }
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

enum MergeOutcome {
    Done(Value, ManagedEntries),
    Conflicts(Vec<Conflict>),
}

/// Fields that another manager owns and the request changes.
struct Conflict {
    manager: String,
    set: FieldSet,
}

fn merge_config(
    schema: &Schema,
    live: &Value,
    config: &Value,
    mut entries: ManagedEntries,
    request: &ApplyRequest<'_>,
    force: bool,
) -> Result<MergeOutcome, Status> {
    let write = &request.write;
    let merged = merge(schema, live, config).map_err(|e| internal_error(format!("failed to merge config: {e}")))?;
    let mut set = fieldset::to_field_set(schema, config);
    if let Some(reset) = write.reset {
        set.recursive_difference(reset);
    }
    let last = entries.find_mut(write, Operation::Apply).map(|e| (std::mem::take(&mut e.set), e.api_version.clone()));
    match entries.find_mut(write, Operation::Apply) {
        Some(entry) => {
            entry.set = set;
            write.api_version.clone_into(&mut entry.api_version);
        }
        None => entries.push(ManagedFieldsEntry::of(write, Operation::Apply, set)),
    }
    let merged = match last {
        Some((last, version)) if !last.is_empty() => {
            let versions = Versions::of(schema, write);
            let merged = VersionedObject::of_request(schema, merged);
            prune::prune(&versions, merged, (&last, &version), &entries)
                .map_err(|e| internal_error(format!("failed to prune fields: {e}")))?
        }
        _ => merged,
    };
    let conflicts =
        transfer_ownership(schema, live, &merged, &mut entries, write).map_err(|e| internal_error(e.to_string()))?;
    if !force && !conflicts.is_empty() {
        return Ok(MergeOutcome::Conflicts(conflicts));
    }
    let changed = merged != *live;
    if let Some(entry) = entries.find_mut(write, Operation::Apply) {
        entry.set.strip_meta();
        if changed {
            entry.time = Some(stamp(write.now));
        }
    }
    entries.remove_empty();
    if !changed {
        return Ok(MergeOutcome::Done(merged, entries));
    }
    let object = converted(schema, merged, config, &show_kind(write.api_version, request.kind))?;
    Ok(MergeOutcome::Done(object, entries))
}

/// Removes the changed fields from the other managers. Changed fields that another manager owned are conflicts.
fn transfer_ownership(
    schema: &Schema,
    live: &Value,
    merged: &Value,
    entries: &mut ManagedEntries,
    write: &WriteInfo<'_>,
) -> Result<Vec<Conflict>, OwnershipError> {
    let by_applier = |entry: &ManagedFieldsEntry| entry.belongs_to(write, Operation::Apply);
    let changes = Changes::between(schema, (Some(live), merged), entries, write, by_applier)?;
    let mut conflicts: Vec<(&ManagedFieldsEntry, FieldSet)> = entries
        .iter()
        .filter(|e| !by_applier(e))
        .map(|e| {
            let mut changed = e.set.intersection(&changes.of(e).modified);
            changed.union(e.set.intersection(&changes.of(e).added));
            (e, changed)
        })
        .filter(|(_, set)| !set.is_empty())
        .collect();
    conflicts.sort_by(|a, b| a.0.identity().cmp(&b.0.identity()));
    let conflicts = conflicts.into_iter().map(|(e, set)| Conflict { manager: e.describe(), set }).collect();
    entries.release_others(write, &changes);
    Ok(conflicts)
}

/// Drops the conflicts over fields that kubectl's own client-side apply set before.
fn drop_client_side_apply_conflicts(
    schema: &Schema,
    live: &Value,
    conflicts: Vec<Conflict>,
    request: &ApplyRequest<'_>,
) -> Vec<Conflict> {
    if request.write.manager != "kubectl" {
        return conflicts;
    }
    let Some(allowed) = last_applied_set(schema, live, request) else { return conflicts };
    let remaining = conflicts.into_iter().map(|mut conflict| {
        conflict.set.difference(&allowed);
        conflict
    });
    remaining.filter(|c| !c.set.is_empty()).collect()
}

/// Returns the fields that client-side apply set and that have not changed since.
fn last_applied_set(schema: &Schema, live: &Value, request: &ApplyRequest<'_>) -> Option<FieldSet> {
    let text = live.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
    let applied: Value = serde_json::from_str(text).ok()?;
    if applied.get("apiVersion")?.as_str()? != request.write.api_version {
        return None;
    }
    if !validate::validate(schema, &applied).is_empty() {
        return None;
    }
    let comparison = compare(schema, &applied, live).ok()?;
    let mut set = fieldset::to_field_set(schema, &applied);
    for different in [&comparison.modified, &comparison.added, &comparison.removed] {
        set.difference(different);
    }
    Some(set)
}

/// Updates the annotation of client-side apply after kubectl's server-side apply, if the object has it.
fn sync_last_applied(object: &mut Value, mut config: Value) {
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else { return };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    if let Some(applied) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        applied.remove(LAST_APPLIED);
    }
    let text = format!("{config}\n");
    let size = |map: &Map| -> usize {
        let others = map.iter().filter(|(key, _)| *key != LAST_APPLIED);
        others.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
    };
    if size(annotations) + LAST_APPLIED.len() + text.len() > MAX_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    } else {
        annotations.insert(LAST_APPLIED, text.into());
    }
}

fn conflict_error(conflicts: Vec<Conflict>) -> Status {
    let all: Vec<(String, Vec<String>)> = conflicts.into_iter().map(|c| (c.manager, c.set.paths())).collect();
    let causes: Vec<Cause> = all
        .iter()
        .flat_map(|(manager, paths)| {
            paths.iter().map(move |path| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {manager}"),
                field: path.clone(),
            })
        })
        .collect();
    let message = match (causes.as_slice(), all.as_slice()) {
        ([only], _) => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
        (causes, all) => {
            let mut lines = Vec::new();
            for (manager, paths) in all {
                lines.push(format!("conflicts with {manager}:"));
                lines.extend(paths.iter().map(|path| format!("- {path}")));
            }
            format!("Apply failed with {} conflicts: {}", causes.len(), lines.join("\n"))
        }
    };
    Status::apply_conflict(causes, message)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `ParseGroupVersion` in `k8s.io/apimachinery/pkg/runtime/schema/group_version.go`.
    #[rstest]
    #[case("v1", "/v1, Kind=Pod")]
    #[case("apps/v1", "apps/v1, Kind=Pod")]
    #[case("a/b/c", "/, Kind=")]
    fn kinds_in_messages(#[case] version: &str, #[case] expected: &str) {
        assert_eq!(show_kind(version, "Pod"), expected);
    }
}
