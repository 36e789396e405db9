//! Core `v1` `ReplicationController`.
//!
//! See `pkg/registry/core/replicationcontroller/strategy.go` and `ValidateReplicationController` in
//! `pkg/apis/core/validation/validation.go`.

use super::{METADATA, SPEC, meta, non_negative, spec, value_default};
use crate::field_errors::ErrorList;
use crate::json::Value;
use crate::registry::{NameFormat, Strategy, StrategyContext};

/// The strategy of replication controllers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplicationController;

impl Strategy for ReplicationController {
    fn default(&self, object: &mut Value) {
        super::status_default(object, &["replicas"]);
        let Some(spec) = meta::object_or_insert(object, "spec") else { return };
        value_default(spec, "replicas", 1);
        meta::drop_zero(spec, &["minReadySeconds"]);
        let mut labels = None;
        if spec.get("template").is_some_and(Value::is_object) {
            super::template_default(spec);
            labels = spec.get("template").and_then(|t| t.pointer("/metadata/labels")).cloned();
        }
        let Some(labels) = labels.filter(|l| !meta::is_empty_value(Some(l))) else { return };
        if meta::is_empty_value(spec.get("selector")) {
            spec.insert("selector", labels.clone());
        }
        if let Some(metadata) = meta::object_or_insert(object, "metadata")
            && meta::is_empty_value(metadata.get("labels"))
        {
            metadata.insert("labels", labels);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        super::prepare_new(object, &["replicas"]);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &METADATA);
        validate_spec(spec(object), &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        super::prepare_update(new, old);
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        meta::reset_all_but_status(new, old);
        // Missing labels default to those of the template, which is the old one.
        self.default(new);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validate_spec(spec(new), &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        super::replicaset::validate_status(super::status_of(new), &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        super::warnings(object, true)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        // Upstream swaps the old and the new object too.
        super::update_warnings(old, new)
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}

fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    non_negative(spec, "minReadySeconds", &SPEC, errors);
    let wanted = spec.get("selector").filter(|s| !meta::is_empty_value(Some(s)));
    if wanted.is_none() {
        errors.required(&SPEC.child("selector"), "");
    }
    non_negative(spec, "replicas", &SPEC, errors);
    let Some(template) = meta::non_null(spec, "template") else {
        errors.required(&SPEC.child("template"), "");
        return;
    };
    if let Some(wanted) = wanted {
        let labels = template.pointer("/metadata/labels");
        // The selector is a plain map: its entries are compared without validation.
        let mut pairs = wanted.as_object().into_iter().flatten();
        if pairs.any(|(key, value)| labels.and_then(|l| l.get(key)) != Some(value)) {
            let path = SPEC.child("template");
            let path = path.child("metadata");
            let shown = super::labels_json(labels);
            errors.invalid(&path.child("labels"), shown, "`selector` does not match template `labels`");
        }
    }
    super::deployment::validate_pod_template(spec, errors);
    super::validate_restart_policy(spec, "ReplicationController", &SPEC, errors);
}
