//! `apps/v1` StatefulSet.
//!
//! See `pkg/registry/apps/statefulset/strategy.go` and `pkg/apis/apps/validation/validation.go`.

use std::collections::BTreeSet;

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{
    array_field, drop_zero, is_empty_value, non_null, object_or_insert, str_field, text_default, value_default,
};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME, containers, images};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::persistent_volume_claim;
use crate::registry::core::pod::validation;
use crate::registry::core::workload::{self, CONTAINERS, METADATA, SPEC, non_negative, spec};
use crate::registry::names::{self, NameFormat};
use crate::registry::prepare::values_equal;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{checks, int_or_percent, label_selector, meta};

/// The resource `statefulsets` of `apps/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("apps", "v1", "statefulsets", "StatefulSet", "io.k8s.api.apps.v1.StatefulSet")
        .short(&["sts"])
        .categories(&["all"])
        .scale()
        .status()
        .hash("H+vl74LkKdo=")
        .rules(StatefulSet)
        .columns(COLUMNS)
}

/// The strategy of stateful sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatefulSet;

const REQUIRED_COUNTERS: &[&str] = &["replicas", "availableReplicas"];

/// The mutable fields of the spec.
const MUTABLE_FIELDS: &[&str] = &[
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

impl Strategy for StatefulSet {
    fn default(&self, object: &mut Value) {
        workload::status_default(object, REQUIRED_COUNTERS);
        let Some(spec) = object_or_insert(object, "spec") else { return };
        text_default(spec, "podManagementPolicy", "OrderedReady");
        update_strategy(spec);
        value_default(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
        if let Some(policy) = spec.get_mut("persistentVolumeClaimRetentionPolicy").and_then(Value::as_object_mut) {
            text_default(policy, "whenDeleted", "Retain");
            text_default(policy, "whenScaled", "Retain");
        }
        value_default(spec, "replicas", 1);
        value_default(spec, "revisionHistoryLimit", 10);
        value_default(spec, "serviceName", "");
        drop_zero(spec, &["minReadySeconds"]);
        workload::template_default(spec);
        claim_templates(spec);
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        drop_disabled_fields(object);
        workload::prepare_new(object, REQUIRED_COUNTERS);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Label, &METADATA);
        validate_spec(spec(object), true, &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        drop_disabled_fields(new);
        workload::prepare_update(new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validate_spec(spec(new), false, &mut errors);
        let now = spec(new);
        let before = spec(old);
        let keys = |v: &Value| v.as_object().map_or_else(Vec::new, |m| m.keys().cloned().collect::<Vec<_>>());
        let frozen = keys(now).into_iter().chain(keys(before)).filter(|k| !MUTABLE_FIELDS.contains(&k.as_str()));
        if frozen.into_iter().any(|k| !values_equal(new, &["spec", k.as_str()], now.get(&k), before.get(&k))) {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            errors.forbidden(&SPEC, why);
        }
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let fields = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        workload::validate_status_counters(
            workload::status_of(new),
            &fields,
            &parts,
            "status.readyReplicas",
            &mut errors,
        );
        errors.append(meta::validate_update(new, old, &METADATA));
        workload::validate_collision_count(new, old, &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        let mut warnings = workload::warnings(object, false);
        warnings.extend(claim_warnings(object, ""));
        warnings.extend(history_warning(object));
        warnings
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        let mut warnings = workload::update_warnings(new, old);
        warnings.extend(claim_warnings(new, ".Spec"));
        warnings.extend(history_warning(new));
        warnings
    }
}

/// Returns the warnings about the templates of claims; `part` ends their paths, as upstream has it in updates only.
fn claim_warnings(object: &Value, part: &str) -> Vec<String> {
    let claims = array_field(spec(object), "volumeClaimTemplates").iter().enumerate();
    let path = |i: usize| format!("spec.volumeClaimTemplates[{i}]{part}");
    claims.flat_map(|(i, claim)| persistent_volume_claim::spec_warnings(&claim["spec"], &path(i))).collect()
}

fn history_warning(object: &Value) -> Option<String> {
    let text =
        "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
    (workload::number(spec(object), "revisionHistoryLimit") < 0).then(|| text.to_owned())
}

fn update_strategy(spec: &mut Map) {
    value_default(spec, "updateStrategy", json!({}));
    let Some(strategy) = spec.get_mut("updateStrategy").and_then(Value::as_object_mut) else { return };
    if is_empty_value(strategy.get("type")) {
        strategy.insert("type", "RollingUpdate".into());
        value_default(strategy, "rollingUpdate", json!({}));
    }
    if strategy.get("type") == Some(&Value::from("RollingUpdate"))
        && let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut)
    {
        value_default(rolling, "partition", 0);
    }
}

/// Drops `maxUnavailable`, which is behind a feature gate that is off by default; its writer owns it nevertheless.
fn drop_disabled_fields(object: &mut Value) {
    if let Some(rolling) = object.pointer_mut("/spec/updateStrategy/rollingUpdate").and_then(Value::as_object_mut) {
        rolling.remove("maxUnavailable");
    }
}

fn claim_templates(spec: &mut Map) {
    let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten();
    for claim in claims.filter_map(Value::as_object_mut) {
        claim.insert("kind", "PersistentVolumeClaim".into());
        claim.insert("apiVersion", "v1".into());
        value_default(claim, "metadata", json!({}));
        value_default(claim, "spec", json!({}));
        if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
            persistent_volume_claim::spec_defaults(spec);
        }
        value_default(claim, "status", json!({}));
        if let Some(status) = claim.get_mut("status").and_then(Value::as_object_mut) {
            text_default(status, "phase", "Pending");
        }
    }
}

fn validate_spec(spec: &Value, create: bool, errors: &mut ErrorList) {
    let policy = str_field(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        errors.invalid(&SPEC.child("podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'");
    }
    validate_update_strategy(spec.get("updateStrategy").unwrap_or(&Value::Null), errors);
    if let Some(policy) = spec.get("persistentVolumeClaimRetentionPolicy") {
        let path = SPEC.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            let value = str_field(policy, field);
            if !matches!(value, "Retain" | "Delete") {
                errors.not_supported(&path.child(field), value, &["Retain", "Delete"]);
            }
        }
    }
    if create {
        claim_specs(spec, errors);
    }
    non_negative(spec, "replicas", &SPEC, errors);
    non_negative(spec, "minReadySeconds", &SPEC, errors);
    if let Some(ordinals) = spec.get("ordinals") {
        checks::validate_non_negative(ordinals.get("start"), &SPEC.child("ordinals.start"), errors);
    }
    let service = str_field(spec, "serviceName");
    if create && !service.is_empty() {
        for message in names::dns1123_label(service) {
            errors.invalid(&SPEC.child("serviceName"), service, message);
        }
    }
    workload::required_selector(spec, "statefulset", &SPEC, errors);
    validate_template(spec, errors);
    workload::validate_restart_policy(spec, "StatefulSet", &SPEC, errors);
}

/// Validates the specs of claim templates.
fn claim_specs(spec: &Value, errors: &mut ErrorList) {
    let all = SPEC.child("volumeClaimTemplates");
    for (i, claim) in array_field(spec, "volumeClaimTemplates").iter().enumerate() {
        let path = all.index(i);
        let path = path.child("spec");
        let claim = claim.get("spec").unwrap_or(&Value::Null);
        persistent_volume_claim::validate_spec(claim, false, &path, errors);
    }
}

fn validate_template(spec: &Value, errors: &mut ErrorList) {
    if label_selector::matches(spec.get("selector"), None).is_none() {
        let shown = BadValue::Raw(label_selector::selector_json(spec.get("selector")));
        errors.invalid(&SPEC.child("selector"), shown, "");
        return;
    }
    workload::validate_selector_matches_template(spec, &SPEC, errors);
    let claims = array_field(spec, "volumeClaimTemplates");
    let template = spec.get("template").unwrap_or(&Value::Null);
    let path = SPEC.child("template");
    if claims.is_empty()
        && template.pointer("/spec/hostname").is_none()
        && template.pointer("/spec/subdomain").is_none()
    {
        validation::template(template, &path, errors);
        template_metadata(template, &path, errors);
        return;
    }
    // The controller overwrites these fields and adds a volume per claim template, so mounts of those are valid.
    let mut template = template.clone();
    if let Some(spec) = object_or_insert(&mut template, "spec") {
        spec.remove("hostname");
        spec.remove("subdomain");
        // Upstream has them in a map by name.
        let named: BTreeSet<&str> = claims.iter().map(metadata::name).collect();
        let mut volumes: Vec<Value> =
            named.iter().map(|c| json!({"name": c, "persistentVolumeClaim": {"claimName": c}})).collect();
        let own = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
        volumes.extend(own.filter(|v| !named.contains(str_field(v, "name"))).cloned());
        spec.insert("volumes", Value::Array(volumes));
    }
    validation::template(&template, &path, errors);
    template_metadata(&template, &path, errors);
}

/// Validates the template's labels and annotations again, as upstream does for stateful sets.
fn template_metadata(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(labels) = metadata::labels(template) {
        meta::validate_labels(labels, &path.child("labels"), errors);
    }
    if let Some(annotations) = metadata::annotations(template) {
        meta::validate_annotations(annotations, &path.child("annotations"), errors);
    }
}

fn validate_update_strategy(strategy: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("updateStrategy");
    let rolling = non_null(strategy, "rollingUpdate");
    match (str_field(strategy, "type"), rolling) {
        ("OnDelete", Some(rolling)) => {
            let shown = BadValue::Raw(rolling_json(rolling));
            let why = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid(&path.child("rollingUpdate"), shown, why);
        }
        ("RollingUpdate", Some(rolling)) => validate_rolling(rolling, &path.child("rollingUpdate"), errors),
        ("OnDelete" | "RollingUpdate", None) => {}
        (other, rolling) => {
            let rolling = rolling.map_or_else(|| "null".to_owned(), rolling_json);
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", Value::from(other));
            errors.invalid(&path, BadValue::Raw(shown), "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn rolling_json(rolling: &Value) -> String {
    let unavailable = rolling.get("maxUnavailable").unwrap_or(&Value::Null);
    format!("{{\"Partition\":{},\"MaxUnavailable\":{unavailable}}}", workload::number(rolling, "partition"))
}

fn validate_rolling(rolling: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    non_negative(rolling, "partition", path, errors);
    if let Some(unavailable) = non_null(rolling, "maxUnavailable") {
        let path = path.child("maxUnavailable");
        int_or_percent::validate_positive(unavailable, &path, errors);
        if int_or_percent::value(Some(unavailable)) == 0 {
            errors.invalid(&path, unavailable, "cannot be 0");
        }
        int_or_percent::validate_at_most_100_percent(unavailable, &path, errors);
    }
}

/// The columns of `statefulsets`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Ready",
        Description::Text("Number of the pod with ready state"),
        CellSource::Ratio("/status/readyReplicas", "/spec/replicas"),
    ),
    AGE,
    containers(CONTAINERS),
    images(CONTAINERS),
];
