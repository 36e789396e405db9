//! The life of an object in its metadata: system fields, generated names, finalizers and the phases of deletion.
//! [`crate::metadata`] reads the fields.
//!
//! Pure: time and randomness are arguments. The steps are those of
//! `staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update,delete,meta}.go` and
//! `staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go`.

use std::collections::BTreeMap;

use jiff::Timestamp;

pub(crate) use super::registry::time::rfc3339;
use super::registry::{Resource, Strategy, custom, names};
use super::request::{DeleteOptions, Propagation};
use super::status::{GroupResource, NumberError, Status, go_quote};
use crate::json::fields::{is_empty_value, semantic_equal, str_field};
use crate::json::{Map, Value};
use crate::metadata;
use crate::registry::prepare::set_generation;

/// Maximum number of names tried for a creation with `generateName`.
pub(crate) const GENERATE_NAME_ATTEMPTS: usize = 8;

/// The finalizer that makes the garbage collector orphan the dependents.
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";
/// The finalizer that makes the garbage collector delete the dependents first.
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// Removes the fields that clients may not set on new objects.
pub(crate) fn wipe_system_fields(object: &mut Value) {
    let metadata = metadata::fields_mut(object);
    for field in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

/// Sets the server-side fields of a new object.
pub(crate) fn fill_system_fields(object: &mut Value, now: Timestamp, uid: String) {
    let metadata = metadata::fields_mut(object);
    metadata.insert("creationTimestamp", rfc3339(now).into());
    metadata.insert("uid", uid.into());
}

/// Sets the request's namespace on the object.
///
/// # Errors
///
/// 400 if the object has another namespace.
pub(crate) fn ensure_namespace(object: &mut Value, expected: &str) -> Result<(), Status> {
    let found = metadata::namespace(object);
    if found == expected {
        return Ok(());
    }
    if expected.is_empty() {
        metadata::fields_mut(object).remove("namespace");
        return Ok(());
    }
    if !found.is_empty() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata::fields_mut(object).insert("namespace", expected.into());
    Ok(())
}

/// Checks the name of an object against the request path.
///
/// # Errors
///
/// 400 if the name is missing or differs.
pub(crate) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match metadata::name(object) {
        found if found == name => Ok(()),
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        found => Err(Status::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Checks that a name can be a part of a path: `NamespaceKeyFunc` in
/// `staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go`.
///
/// # Errors
///
/// 400 if it cannot.
pub(crate) fn check_name_in_path(name: &str) -> Result<(), Status> {
    let why = names::path_segment(name, false);
    if why.is_empty() {
        return Ok(());
    }
    Err(Status::bad_request(format!("Name parameter invalid: {}: {}", go_quote(name), why.join(";"))))
}

/// Removes duplicate owner references; returns the uids of the removed ones.
pub(crate) fn dedup_owners(object: &mut Value) -> Vec<String> {
    let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut again = Vec::new();
    // Only owners with the same texts are compared: a request can have a hundred thousand.
    let mut alike: BTreeMap<[String; 4], Vec<usize>> = BTreeMap::new();
    for owner in owners.drain(..) {
        let key = ["uid", "name", "kind", "apiVersion"].map(|field| str_field(&owner, field).to_owned());
        let same = alike.entry(key).or_default();
        if same.iter().any(|index| semantic_equal(Some(&kept[*index]), Some(&owner))) {
            again.push(str_field(&owner, "uid").to_owned());
        } else {
            same.push(kept.len());
            kept.push(owner);
        }
    }
    *owners = kept;
    again
}

/// Restores immutable metadata before the strategy's `prepare_for_update`.
pub(crate) fn preserve_generation(new: &mut Value, old: &Value) {
    let generation = old.pointer("/metadata/generation").cloned();
    set_or_remove(metadata::fields_mut(new), "generation", generation);
    metadata::fields_mut(new).remove("selfLink");
}

/// Restores immutable metadata after the strategy's `prepare_for_update`.
pub(crate) fn preserve_immutable_metadata(new: &mut Value, old: &Value) {
    let metadata = metadata::fields_mut(new);
    let before = |field: &str| old.get("metadata").and_then(|m| m.get(field)).filter(|v| !v.is_null()).cloned();
    if is_empty_value(metadata.get("uid")) {
        set_or_remove(metadata, "uid", before("uid"));
    }
    set_or_remove(metadata, "creationTimestamp", before("creationTimestamp"));
    if let Some(moment) = before("deletionTimestamp") {
        metadata.insert("deletionTimestamp", moment);
    }
    if let Some(seconds) = before("deletionGracePeriodSeconds")
        && is_empty_value(metadata.get("deletionGracePeriodSeconds"))
    {
        metadata.insert("deletionGracePeriodSeconds", seconds);
    }
}

fn set_or_remove(map: &mut Map, field: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(field.to_owned(), value),
        None => map.remove(field),
    };
}

/// Returns the object's resourceVersion; 0 if it has none.
///
/// # Errors
///
/// 500 with the text of Go's `strconv.ParseUint` if it is not a number, as upstream replies.
pub(crate) fn resource_version(object: &Value) -> Result<u64, Status> {
    let text = metadata::resource_version(object);
    if text.is_empty() { Ok(0) } else { parse_version(text).map_err(|error| Status::untyped_error(error.to_string())) }
}

/// Parses a resourceVersion.
///
/// # Errors
///
/// The error of Go's `strconv.ParseUint` if it is not a number.
pub(crate) fn parse_version(text: &str) -> Result<u64, NumberError> {
    let failed = |out_of_range| NumberError { function: "ParseUint", text: text.to_owned(), out_of_range };
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().map_err(|_| failed(true)) } else { Err(failed(false)) }
}

fn grace(object: &Value) -> Option<i64> {
    object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64)
}

fn deletion_moment(object: &Value) -> Option<Timestamp> {
    metadata::text(object, "deletionTimestamp").parse().ok()
}

/// Returns true if an update completes a deletion: no finalizer and no grace period is left.
pub(crate) fn should_delete_during_update(new: &Value, old: &Value) -> bool {
    let namespace_waits = new.get("kind").is_some_and(|kind| kind == "Namespace")
        && new.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    !metadata::has_finalizers(new) && !namespace_waits && metadata::is_deleted(old) && grace(old).unwrap_or(0) == 0
}

/// Sets deletionTimestamp to at most `now` and the grace period to 0.
pub(crate) fn mark_as_deleting(object: &mut Value, now: Timestamp) {
    if !metadata::is_deleted(object) {
        bump_generation(object);
    }
    if deletion_moment(object).is_none_or(|moment| moment > now) {
        metadata::fields_mut(object).insert("deletionTimestamp", rfc3339(now).into());
    }
    metadata::fields_mut(object).insert("deletionGracePeriodSeconds", 0.into());
}

fn bump_generation(object: &mut Value) {
    let generation = metadata::generation(object);
    if generation > 0 {
        set_generation(object, generation + 1);
    }
}

/// The next step of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionStep {
    /// No grace period is left: the object is removed now.
    Immediate,
    /// The object was marked and is to be removed after this many seconds.
    Graceful(i64),
    /// The object is terminating already and its grace period was not shortened.
    Pending,
}

/// Checks the preconditions of a deletion and, for resources with graceful deletion, marks `object`.
///
/// # Errors
///
/// 409 if a precondition fails.
pub(crate) fn before_delete(
    kind: &Resource,
    object: &mut Value,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<DeletionStep, Status> {
    preconditions(kind, object, options)?;
    let strategy: &dyn Strategy = &*kind.strategy;
    let wanted = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(period) = strategy.grace_period(object, wanted) else { return Ok(DeletionStep::Immediate) };
    if !metadata::is_deleted(object) {
        let end = now.checked_add(jiff::SignedDuration::from_secs(period)).unwrap_or(Timestamp::MAX);
        let metadata = metadata::fields_mut(object);
        metadata.insert("deletionTimestamp", rfc3339(end).into());
        metadata.insert("deletionGracePeriodSeconds", period.into());
        bump_generation(object);
        return Ok(DeletionStep::Graceful(period));
    }
    let left = grace(object).map_or(0, |seconds| if seconds < 0 { 1 } else { seconds });
    if left == 0 {
        return Ok(DeletionStep::Immediate);
    }
    match wanted {
        Some(seconds) if seconds < left => Ok(DeletionStep::Graceful(shorten_grace_period(object, left, seconds, now))),
        _ => Ok(DeletionStep::Pending),
    }
}

/// Shortens a running grace period; returns the new period.
fn shorten_grace_period(object: &mut Value, left: i64, mut seconds: i64, now: Timestamp) -> i64 {
    let change = jiff::SignedDuration::from_secs(seconds - left);
    let mut end = deletion_moment(object).unwrap_or(now).checked_add(change).unwrap_or(now);
    if end < now {
        end = now;
        // The period is over, but the request asked for a graceful end: leave the last step to the kubelet.
        seconds = seconds.min(1);
    }
    let metadata = metadata::fields_mut(object);
    metadata.insert("deletionTimestamp", rfc3339(end).into());
    metadata.insert("deletionGracePeriodSeconds", seconds.into());
    seconds
}

fn preconditions(kind: &Resource, object: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let name = metadata::name(object);
    let uid = metadata::uid(object);
    let version = metadata::resource_version(object);
    let qualified = GroupResource::new(&kind.group, &kind.kind);
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(qualified, name, &why));
    }
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        );
        return Err(Status::conflict(qualified, name, &why));
    }
    Ok(())
}

/// Sets the garbage collector's finalizers according to the deletion's policy. Returns true if they changed.
pub(crate) fn set_gc_finalizers(kind: &Resource, object: &mut Value, options: &DeleteOptions) -> bool {
    let before: Vec<String> = metadata::finalizers(object).map(str::to_owned).collect();
    let mut after: Vec<String> =
        before.iter().filter(|f| *f != ORPHAN_FINALIZER && *f != FOREGROUND_FINALIZER).cloned().collect();
    if should_orphan_dependents(kind, &before, options) {
        after.push(ORPHAN_FINALIZER.to_owned());
    }
    if should_delete_dependents(&before, options) {
        after.push(FOREGROUND_FINALIZER.to_owned());
    }
    // A custom resource definition remains until its objects are deleted.
    let is_definition = kind.group == custom::GROUP && kind.plural == custom::RESOURCE;
    if is_definition && !after.iter().any(|finalizer| finalizer == custom::CLEANUP_FINALIZER) {
        after.push(custom::CLEANUP_FINALIZER.to_owned());
    }
    let sorted = |list: &[String]| {
        let mut list = list.to_vec();
        list.sort();
        list.dedup();
        list
    };
    if sorted(&before) == sorted(&after) {
        return false;
    }
    let value = if after.is_empty() { None } else { Some(Value::from(after)) };
    set_or_remove(metadata::fields_mut(object), "finalizers", value);
    true
}

fn should_orphan_dependents(kind: &Resource, finalizers: &[String], options: &DeleteOptions) -> bool {
    if let Some(orphan) = options.orphan_dependents {
        return orphan;
    }
    if let Some(policy) = options.propagation {
        return policy == Propagation::Orphan;
    }
    for finalizer in finalizers {
        match finalizer.as_str() {
            ORPHAN_FINALIZER => return true,
            FOREGROUND_FINALIZER => return false,
            _ => {}
        }
    }
    orphans_by_default(kind)
}

/// Returns true for resources whose dependents are orphaned when a deletion has no policy.
pub(crate) fn orphans_by_default(kind: &Resource) -> bool {
    (kind.group == "batch" && kind.plural == "jobs") || kind.strategy.orphans_by_default()
}

fn should_delete_dependents(finalizers: &[String], options: &DeleteOptions) -> bool {
    if options.orphan_dependents.is_some() {
        return false;
    }
    if let Some(policy) = options.propagation {
        return policy == Propagation::Foreground;
    }
    let ours = finalizers.iter().find(|f| *f == ORPHAN_FINALIZER || *f == FOREGROUND_FINALIZER);
    ours.is_some_and(|finalizer| finalizer == FOREGROUND_FINALIZER)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;
    use crate::registry::Registry;

    fn now() -> Timestamp {
        "2030-01-01T00:00:00Z".parse().unwrap()
    }

    fn config_maps() -> std::sync::Arc<Resource> {
        Registry::builtin().get("", "v1", "configmaps").unwrap().clone()
    }

    #[rstest]
    #[case::nothing(json!({}), &[], false)]
    #[case::foreground(json!({"propagationPolicy": "Foreground"}), &["foregroundDeletion"], true)]
    #[case::orphan(json!({"propagationPolicy": "Orphan"}), &["orphan"], true)]
    #[case::old_orphan(json!({"orphanDependents": true}), &["orphan"], true)]
    #[case::background(json!({"propagationPolicy": "Background"}), &[], false)]
    fn policies_set_finalizers(#[case] options: Value, #[case] expected: &[&str], #[case] changed: bool) {
        let options = DeleteOptions::from_body(&options).unwrap();
        let mut object = json!({"metadata": {"name": "a"}});
        assert_eq!(set_gc_finalizers(&config_maps(), &mut object, &options), changed);
        assert_eq!(metadata::finalizers(&object).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_policy_replaces_the_finalizer_of_another() {
        let options = DeleteOptions::from_body(&json!({"propagationPolicy": "Orphan"})).unwrap();
        let mut object = json!({"metadata": {"name": "a", "finalizers": ["foregroundDeletion", "x/y"]}});
        assert!(set_gc_finalizers(&config_maps(), &mut object, &options));
        assert_eq!(metadata::finalizers(&object).collect::<Vec<_>>(), ["x/y", "orphan"]);
    }

    #[test]
    fn marking_twice_changes_the_generation_once() {
        let mut object = json!({"metadata": {"name": "a", "generation": 3}});
        mark_as_deleting(&mut object, now());
        mark_as_deleting(&mut object, now());
        assert_eq!(metadata::generation(&object), 4);
        assert_eq!(metadata::text(&object, "deletionTimestamp"), "2030-01-01T00:00:00Z");
        assert_eq!(grace(&object), Some(0));
    }

    #[rstest]
    #[case::shorter("2030-01-01T00:00:20Z", 30, 5, "2030-01-01T00:00:00Z", 1)]
    #[case::still_ahead("2030-01-01T00:00:29Z", 30, 10, "2030-01-01T00:00:09Z", 10)]
    #[case::zero("2030-01-01T00:00:10Z", 30, 0, "2030-01-01T00:00:00Z", 0)]
    fn shortening(#[case] end: &str, #[case] left: i64, #[case] wanted: i64, #[case] new: &str, #[case] period: i64) {
        let mut object = json!({"metadata": {"deletionTimestamp": end, "deletionGracePeriodSeconds": left}});
        assert_eq!(shorten_grace_period(&mut object, left, wanted, now()), period);
        assert_eq!(metadata::text(&object, "deletionTimestamp"), new);
    }

    #[rstest]
    #[case("7", Ok(7))]
    #[case("x", Err("strconv.ParseUint: parsing \"x\": invalid syntax"))]
    #[case("-1", Err("strconv.ParseUint: parsing \"-1\": invalid syntax"))]
    fn versions(#[case] text: &str, #[case] expected: Result<u64, &str>) {
        assert_eq!(parse_version(text).map_err(|error| error.to_string()), expected.map_err(str::to_owned));
    }

    #[test]
    fn owners_stand_once() {
        let owner = json!({"uid": "u", "name": "n"});
        let mut object = json!({"metadata": {"ownerReferences": [owner, owner, {"uid": "v"}]}});
        assert_eq!(dedup_owners(&mut object), ["u"]);
        assert_eq!(object["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
    }
}
