//! Core `v1` Namespace. See `pkg/registry/core/namespace/strategy.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, is_empty_value, object_or_insert, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::meta;
use crate::registry::names::{self, NameFormat};
use crate::registry::prepare::copy_field;
use crate::registry::strategy::{Strategy, StrategyContext};

/// The resource `namespaces`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "namespaces", "Namespace", "io.k8s.api.core.v1.Namespace")
        .cluster()
        .short(&["ns"])
        .verbs(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .sub("finalize", "", "", "Namespace", &["update"])
        .status()
        .resets("finalize", &[&["status"]])
        .hash("Q3oi5N2YM8M=")
        .fields(&[("status.phase", "")])
        .rules(Namespace)
        .columns(COLUMNS)
}

/// The strategy of namespaces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Namespace;

const METADATA: Path<'static> = Path::new("metadata");

/// The finalizer of new namespaces.
const FINALIZER_KUBERNETES: &str = "kubernetes";

impl Strategy for Namespace {
    fn default(&self, object: &mut Value) {
        set_name_label(object);
        object_or_insert(object, "spec");
        if let Some(status) = object_or_insert(object, "status")
            && is_empty_value(status.get("phase"))
        {
            status.insert("phase", "Active".into());
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        set_name_label(object);
        if let Some(map) = object.as_object_mut() {
            map.insert("status", json!({"phase": "Active"}));
        }
        let Some(spec) = object_or_insert(object, "spec") else { return };
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if finalizers.is_null() {
            *finalizers = json!([]);
        }
        if let Some(finalizers) = finalizers.as_array_mut()
            && finalizers.iter().all(|f| f != FINALIZER_KUBERNETES)
        {
            finalizers.push(FINALIZER_KUBERNETES.into());
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, false, NameFormat::Label, &METADATA);
        let path = Path::new("spec");
        let path = path.child("finalizers");
        for finalizer in array_field(object.get("spec").unwrap_or(&Value::Null), "finalizers") {
            validate_finalizer(finalizer.as_str().unwrap_or_default(), &path, &mut errors);
        }
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        set_name_label(new);
        copy_field(new, old, "status");
        copy_field(new, old, "spec");
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(new);
        errors.append(meta::validate_update(new, old, &METADATA));
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        let deleted = metadata::is_deleted(new);
        let phase = new.get("status").map_or("", |s| str_field(s, "phase"));
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
}

/// Validates a write to `/finalize`.
pub(crate) fn validate_finalize(new: &Value, old: &Value) -> ErrorList {
    let mut errors = meta::validate_update(new, old, &METADATA);
    let path = Path::new("spec");
    let path = path.child("finalizers");
    for (i, finalizer) in array_field(new.get("spec").unwrap_or(&Value::Null), "finalizers").iter().enumerate() {
        validate_finalizer(finalizer.as_str().unwrap_or_default(), &path.index(i), &mut errors);
    }
    errors
}

fn set_name_label(object: &mut Value) {
    let name = metadata::name(object).to_owned();
    if name.is_empty() {
        return;
    }
    let Some(metadata) = object.get_mut("metadata") else { return };
    if let Some(labels) = object_or_insert(metadata, "labels") {
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

/// The columns of `namespaces`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string("Status", Description::Text("The status of the namespace"), CellSource::Text("/status/phase", "")),
    AGE,
];
