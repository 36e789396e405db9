//! Core `v1` Namespace. See `pkg/registry/core/namespace/strategy.go`.

use super::selector::array;
use super::{Context, NameRule, Strategy, meta, names};
use crate::field::{ErrorList, Path};
use crate::json::{Value, json};
use crate::metadata;

/// The strategy of namespaces.
#[derive(Debug, Clone, Copy)]
pub struct Namespace;

const METADATA: Path<'static> = Path::new("metadata");

/// The finalizer of new namespaces.
const KUBERNETES: &str = "kubernetes";

impl Strategy for Namespace {
    fn default(&self, object: &mut Value) {
        label(object);
        meta::object_at(object, "spec");
        if let Some(status) = meta::object_at(object, "status")
            && meta::is_empty(status.get("phase"))
        {
            status.insert("phase", "Active".into());
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &Context<'_>) {
        label(object);
        if let Some(map) = object.as_object_mut() {
            map.insert("status", json!({"phase": "Active"}));
        }
        let Some(spec) = meta::object_at(object, "spec") else { return };
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if finalizers.is_null() {
            *finalizers = json!([]);
        }
        if let Some(finalizers) = finalizers.as_array_mut()
            && finalizers.iter().all(|f| f != KUBERNETES)
        {
            finalizers.push(KUBERNETES.into());
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, false, NameRule::Label, &METADATA);
        let path = Path::new("spec");
        let path = path.child("finalizers");
        for finalizer in array(object.get("spec").unwrap_or(&Value::Null), "finalizers") {
            validate_finalizer(finalizer.as_str().unwrap_or_default(), &path, &mut errors);
        }
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &Context<'_>) {
        label(new);
        meta::keep_field(new, old, "status");
        meta::keep_field(new, old, "spec");
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(new);
        errors.append(meta::validate_update(new, old, &METADATA));
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        let deleted = metadata::is_deleted(new);
        let phase = new.get("status").map_or("", |s| meta::text(s, "phase"));
        let path = Path::new("status");
        if !deleted && phase != "Active" {
            let why = "may only be 'Active' if `deletionTimestamp` is empty";
            errors.invalid(&path.child("Phase"), phase, why);
        }
        if deleted && phase != "Terminating" {
            let why = "may only be 'Terminating' if `deletionTimestamp` is not empty";
            errors.invalid(&path.child("Phase"), phase, why);
        }
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
}

/// Validates a write to `/finalize`.
pub fn validate_finalize(new: &Value, old: &Value) -> ErrorList {
    let mut errors = meta::validate_update(new, old, &METADATA);
    let path = Path::new("spec");
    let path = path.child("finalizers");
    for (i, finalizer) in array(new.get("spec").unwrap_or(&Value::Null), "finalizers").iter().enumerate() {
        validate_finalizer(finalizer.as_str().unwrap_or_default(), &path.index(i), &mut errors);
    }
    errors
}

fn label(object: &mut Value) {
    let name = meta::name(object).to_owned();
    if name.is_empty() {
        return;
    }
    let Some(metadata) = object.get_mut("metadata") else { return };
    if let Some(labels) = meta::object_at(metadata, "labels") {
        labels.insert("kubernetes.io/metadata.name", name.into());
    }
}

fn validate_finalizer(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    for message in names::qualified_name(name) {
        errors.invalid(path, name, message);
    }
    let standard = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
    if !name.contains('/') && !standard {
        errors.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified");
    }
}
