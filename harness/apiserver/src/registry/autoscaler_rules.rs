//! Validation of horizontal pod autoscalers. See `pkg/apis/autoscaling/validation/validation.go`. PURE.

use super::checks;
use super::label_selector::array_field;
use super::meta::{self, non_null, spec_of};
use super::names;
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::quantity::Quantity;

const SPEC: Path<'static> = Path::new("spec");

/// Types of metrics, and for each the field with its source.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Validates an autoscaler of version v2.
pub(super) fn autoscaler(object: &Value) -> ErrorList {
    let mut errors = common(object);
    let spec = spec_of(object);
    let root = SPEC.child("metrics");
    for (index, one) in array_field(spec, "metrics").iter().enumerate() {
        metric(one, &root.index(index), &mut errors);
    }
    let path = SPEC.child("behavior");
    for field in ["scaleUp", "scaleDown"] {
        if let Some(rules) = non_null(&spec["behavior"], field) {
            scaling_rules(rules, &path.child(field), &mut errors);
        }
    }
    errors
}

/// Validates the fields that version v1 has as well.
pub(super) fn common(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let (least, most) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        errors.invalid(&SPEC.child("minReplicas"), least, "must be greater than or equal to 1");
    }
    let path = SPEC.child("maxReplicas");
    match most {
        0 => errors.required(&path, "must be set and greater than 0"),
        ..0 => errors.invalid(&path, most, "must be greater than or equal to 1"),
        _ => {}
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(&path, most, "must be greater than or equal to `minReplicas`");
    }
    reference(&spec["scaleTargetRef"], false, &SPEC.child("scaleTargetRef"), &mut errors);
    errors
}

fn segment(text: &str) -> Vec<String> {
    names::path_segment(text, false)
}

/// Validates the reference to an object, whose group may be missing if it is only measured.
fn reference(reference: &Value, measured: bool, path: &Path<'_>, errors: &mut ErrorList) {
    checks::required_format(reference, "kind", segment, path, errors);
    checks::required_format(reference, "name", segment, path, errors);
    // The core group has no scalable kind but replication controllers, whose version is written `v1`.
    let version = meta::str_field(reference, "apiVersion");
    match version.matches('/').count() {
        0 if !measured && !version.is_empty() && version != "v1" => {
            errors.invalid(&path.child("apiVersion"), version, "apiVersion must specify API group");
        }
        0 | 1 => {}
        _ => {
            let why = format!("unexpected GroupVersion string: {version}");
            errors.invalid(&path.child("apiVersion"), version, why);
        }
    }
}

fn metric(metric: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = meta::str_field(metric, "type");
    let expected = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric source type");
    }
    if expected.is_none() {
        errors.not_supported(&path.child("type"), kind, &TYPES);
    }
    // Only the first source is looked into.
    let order = ["object", "external", "pods", "resource", "containerResource"];
    let present: Vec<&str> = order.into_iter().filter(|field| non_null(metric, field).is_some()).collect();
    if let Some(first) = present.first() {
        source(first, &metric[*first], &path.child(first), errors);
    }
    match expected {
        None => errors.not_supported(&path.child("type"), kind, &TYPES),
        Some(field) if !present.contains(&field) => {
            errors.required(&path.child(field), "must populate information for the given metric source");
        }
        Some(_) => {}
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| Some(**field) != expected) {
            errors.forbidden(&path.child(field), "must populate the given metric source only");
        }
    }
}

fn source(field: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match field {
        "object" | "external" | "pods" => {
            if field == "object" {
                reference(&source["describedObject"], true, &path.child("describedObject"), errors);
            }
            let path = path.child("metric");
            match meta::str_field(&source["metric"], "name") {
                "" => errors.required(&path.child("name"), "must specify a metric name"),
                name => checks::format(name, segment, &path.child("name"), errors),
            }
        }
        _ => {
            if meta::str_field(source, "name").is_empty() {
                errors.required(&path.child("name"), "must specify a resource name");
            }
            if field == "containerResource" && meta::str_field(source, "container").is_empty() {
                errors.required(&path.child("container"), "must specify a container");
            }
        }
    }
    let (target, path) = (&source["target"], path.child("target"));
    metric_target(target, &path, errors);
    let given = |field: &str| non_null(target, field).is_some();
    let (value, average) = (given("value"), given("averageValue"));
    match (field, value || average, value && average) {
        ("object", false, _) => {
            errors.required(&path.child("averageValue"), "must set either a target value or averageValue");
        }
        ("external", false, _) => {
            let why = "must set either a target value for metric or a per-pod target";
            errors.required(&path.child("averageValue"), why);
        }
        ("external", _, true) => {
            let why = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(&path.child("value"), why);
        }
        ("pods", ..) if !average => {
            errors.required(&path.child("averageValue"), "must specify a positive target averageValue");
        }
        ("resource" | "containerResource", ..) => match (given("averageUtilization"), average) {
            (false, false) => {
                let why = "must set either a target raw value or a target utilization";
                errors.required(&path.child("averageUtilization"), why);
            }
            (true, true) => {
                let why = "may not set both a target raw value and a target utilization";
                errors.forbidden(&path.child("averageValue"), why);
            }
            _ => {}
        },
        _ => {}
    }
}

fn metric_target(target: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = meta::str_field(target, "type");
    if kind.is_empty() {
        errors.required(&path.child("type"), "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        errors.invalid(&path.child("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        if let Some(amount) = Quantity::of(&target[field]).filter(|amount| amount.sign() != 1) {
            errors.invalid(&path.child(field), amount.to_string(), "must be positive");
        }
    }
    if let Some(percent) = target["averageUtilization"].as_i64().filter(|percent| *percent < 1) {
        errors.invalid(&path.child("averageUtilization"), percent, "must be greater than 0");
    }
}

fn scaling_rules(rules: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    /// Longest stabilization window in seconds, and longest period of a policy.
    const WINDOW_MAX: i64 = 3600;
    const PERIOD_MAX: i64 = 1800;
    let window = path.child("stabilizationWindowSeconds");
    match rules["stabilizationWindowSeconds"].as_i64() {
        Some(seconds @ ..0) => errors.invalid(&window, seconds, "must be greater than or equal to zero"),
        Some(seconds) if seconds > WINDOW_MAX => {
            errors.invalid(&window, seconds, format!("must be less than or equal to {WINDOW_MAX}"));
        }
        _ => {}
    }
    checks::one_of(rules, "selectPolicy", &["Disabled", "Max", "Min"], path, errors);
    let (root, policies) = (path.child("policies"), array_field(rules, "policies"));
    if policies.is_empty() {
        errors.required(&root, "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = root.index(index);
        let kind = meta::str_field(policy, "type");
        if !["Percent", "Pods"].contains(&kind) {
            errors.not_supported(&path.child("type"), kind, &["Percent", "Pods"]);
        }
        let number = |field: &str| policy[field].as_i64().unwrap_or(0);
        for field in ["value", "periodSeconds"] {
            if number(field) <= 0 {
                errors.invalid(&path.child(field), number(field), "must be greater than zero");
            }
        }
        let period = number("periodSeconds");
        if period > PERIOD_MAX {
            let why = format!("must be less than or equal to {PERIOD_MAX}");
            errors.invalid(&path.child("periodSeconds"), period, why);
        }
    }
}
