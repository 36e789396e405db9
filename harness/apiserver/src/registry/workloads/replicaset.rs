//! `apps/v1` ReplicaSet.
//!
//! See `pkg/registry/apps/replicaset/strategy.go` and `pkg/apis/apps/validation/validation.go`.

use super::{METADATA, SPEC, meta, non_negative, spec, value_default};
use crate::field_errors::{BadValue, ErrorList};
use crate::json::Value;
use crate::registry::{NameFormat, Strategy, StrategyContext};

/// The strategy of replica sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn default(&self, object: &mut Value) {
        super::status_default(object, &["replicas"]);
        let Some(spec) = meta::object_or_insert(object, "spec") else { return };
        value_default(spec, "replicas", 1);
        super::template_default(spec);
        meta::drop_zero(spec, &["minReadySeconds"]);
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

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validate_spec(spec(new), &mut errors);
        super::immutable_selector(new, old, &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validate_status(super::status_of(new), &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        super::warnings(object, true)
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        super::update_warnings(new, old)
    }
}

/// Validates the status counters of replica sets and replication controllers.
pub(super) fn validate_status(status: &Value, errors: &mut ErrorList) {
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    super::validate_status_counters(status, &fields, &parts, "readyReplicas", errors);
}

fn validate_spec(spec: &Value, errors: &mut ErrorList) {
    non_negative(spec, "replicas", &SPEC, errors);
    non_negative(spec, "minReadySeconds", &SPEC, errors);
    super::required_selector(spec, "deployment", &SPEC, errors);
    validate_template(spec, errors);
}

/// Validates the template of replica sets and deployments.
pub(super) fn validate_template(spec: &Value, errors: &mut ErrorList) {
    if super::label_selector::matches(spec.get("selector"), None).is_none() {
        let shown = BadValue::Raw(meta::selector_json(spec.get("selector")));
        errors.invalid(&SPEC.child("selector"), shown, "invalid label selector");
        return;
    }
    // A missing selector matches nothing upstream, so the labels cannot match.
    super::validate_selector_matches_template(spec, &SPEC, errors);
    super::deployment::validate_pod_template(spec, errors);
    super::validate_restart_policy(spec, "ReplicaSet", &SPEC, errors);
}
