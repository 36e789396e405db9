//! Core `v1` `ResourceQuota`. See `ValidateResourceQuota` in `pkg/apis/core/validation/validation.go`.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_errors::{BadValue, ErrorList, FieldError, Path};
use crate::json::fields::{array_field, non_null, str_field};
use crate::json::{Key, Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks::{self, quantity_value};
use crate::registry::generic::Generic;
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::resource_list::amounts;
use crate::registry::resource_names;
use crate::registry::resource_names::{COMPUTE_RESOURCES, COUNTED_RESOURCES};

const SPEC: Path<'static> = Path::new("spec");

/// The resource `resourcequotas`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "resourcequotas", "ResourceQuota", "io.k8s.api.core.v1.ResourceQuota")
        .short(&["quota"])
        .status()
        .hash("8uhSgffRX6w=")
        .rules(
            KindStrategy::new(Generic { status: true, ..Generic::NEW }, |_| {})
                .check_with(validate)
                .check_status_with(|new, _| validate_status(new))
                .check_update_with(validate_update)
                .warn_with(|quota, old| if old.is_none() { warnings(quota) } else { Vec::new() }),
        )
        .columns(COLUMNS)
}

/// Warns of requests above limits: `WarningsOnCreate` in `pkg/registry/core/resourcequota/strategy.go`.
fn warnings(quota: &Value) -> Vec<String> {
    let hard = amounts(quota.pointer("/spec/hard"));
    let warning = |name: &str| {
        let limits = format!("limits.{name}");
        let requests = format!("requests.{name}");
        let bare = matches!(name, "cpu" | "memory").then(|| hard.get_key_value(name)).flatten();
        let (requests, request) = hard.get_key_value(&requests).or(bare)?;
        let limit = hard.get(&limits).filter(|limit| request > *limit)?;
        Some(format!("ResourceQuota {requests} ({request}) should be less than {limits} ({limit})"))
    };
    ["cpu", "memory", "storage", "ephemeral-storage"].into_iter().filter_map(warning).collect()
}

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

/// Validates a resource quota.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    validate_amounts(spec.get("hard"), &SPEC.child("hard"), &mut errors);
    scopes(spec, &mut errors);
    if let Some(selector) = non_null(spec, "scopeSelector") {
        scope_selector(spec, selector, &mut errors);
    }
    errors
}

fn validate_amounts(list: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    for (name, amount) in amounts(list) {
        let path = path.key(&name);
        quota_resource(&name, &path, errors);
        if amount.sign() < 0 {
            errors.invalid(&path, quantity_value(amount), "must be greater than or equal to 0");
        }
        if resource_names::is_integer_resource(&name) && !amount.is_whole() {
            errors.invalid(&path, quantity_value(amount), "must be an integer");
        }
    }
}

/// Validates the status of a resource quota: `ValidateResourceQuotaStatusUpdate`.
fn validate_status(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    for field in ["hard", "used"] {
        validate_amounts(object["status"].get(field), &path.child(field), &mut errors);
    }
    errors
}

/// Validates an update of a resource quota.
fn validate_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let scopes = |quota: &Value| -> BTreeSet<String> {
        let all = array_field(quota.get("spec").unwrap_or(&Value::Null), "scopes");
        all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if scopes(new) != scopes(old) {
        let given = new.pointer("/spec/scopes").cloned().unwrap_or(Value::Null);
        errors.invalid(&SPEC.child("scopes"), given, checks::IMMUTABLE_MESSAGE);
    }
    errors
}

/// Returns true if a quota of a scope can count a resource.
fn scope_counts(scope: &str, resource: &str) -> bool {
    const COMPUTES: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            resource == "pods" || COMPUTES.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

/// Returns the number of standard resources of a quota that a scope cannot count, by scope.
fn uncounted(spec: &Value) -> BTreeMap<&'static str, usize> {
    let hard = amounts(spec.get("hard"));
    let of_scope =
        |scope: &str| hard.keys().filter(|name| is_quota_resource(name) && !scope_counts(scope, name)).count();
    SCOPES.iter().map(|scope| (*scope, of_scope(scope))).collect()
}

/// Returns true if a quota has both scopes of a pair that excludes each other, for each such pair.
fn conflicts(given: &[&str]) -> usize {
    let pairs = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];
    pairs.iter().filter(|(a, b)| given.contains(a) && given.contains(b)).count()
}

fn scopes(spec: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("scopes");
    let list = array_field(spec, "scopes");
    let given: Vec<&str> = list.iter().map(|scope| scope.as_str().unwrap_or_default()).collect();
    let mut report = |why: &str, times: usize| {
        errors.push_times(times, || FieldError::invalid(&path, Value::from(list.to_vec()), why));
    };
    let uncounted = uncounted(spec);
    for scope in &given {
        report("unsupported scope", usize::from(!SCOPES.contains(scope)));
        report("unsupported scope applied to resource", uncounted.get(scope).copied().unwrap_or(0));
    }
    report("conflicting scopes", conflicts(&given));
}

fn scope_selector(spec: &Value, selector: &Value, errors: &mut ErrorList) {
    const ONLY_EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
    let path = SPEC.child("scopeSelector");
    let path = path.child("matchExpressions");
    let requirements = array_field(selector, "matchExpressions");
    let uncounted = uncounted(spec);
    for requirement in requirements {
        let scope = str_field(requirement, "scopeName");
        let operator = str_field(requirement, "operator");
        if !SCOPES.contains(&scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        errors.push_times(uncounted.get(scope).copied().unwrap_or(0), || {
            let shown = BadValue::Raw(scope_selector_json(requirements));
            FieldError::invalid(&path, shown, "unsupported scope applied to resource")
        });
        let valued = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope) && !valued && operator != "Exists" {
            errors.invalid(&path.child("operator"), operator, ONLY_EXISTS);
        }
        let values = array_field(requirement, "values");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.required(&path.child("values"), why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.invalid(&path.child("values"), Value::from(values.to_vec()), why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
        }
    }
    let given: Vec<&str> = requirements.iter().map(|one| str_field(one, "scopeName")).collect();
    for _ in 0..conflicts(&given) {
        let shown = spec.get("scopes").unwrap_or(&Value::Null);
        errors.invalid(&path, shown, "conflicting scopes");
    }
}

/// Returns the JSON of upstream's internal type.
fn scope_selector_json(requirements: &[Value]) -> String {
    let all = requirements.iter().map(|one| {
        let text = |field: &str| Value::from(str_field(one, field));
        let values = non_null(one, "values").unwrap_or(&Value::Null);
        format!("{{\"ScopeName\":{},\"Operator\":{},\"Values\":{values}}}", text("scopeName"), text("operator"))
    });
    format!("{{\"MatchExpressions\":[{}]}}", all.collect::<Vec<_>>().join(","))
}

fn is_quota_resource(name: &str) -> bool {
    COMPUTE_RESOURCES.contains(&name)
        || COUNTED_RESOURCES.contains(&name)
        || name == "requests.storage"
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn quota_resource(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    resource_names::any_name(name, path, errors);
    if !name.contains('/') && !is_quota_resource(name) {
        errors.invalid(path, name, "must be a standard resource for quota");
    }
}

/// The columns of `resourcequotas`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Request",
        Description::Text("Request represents a minimum amount of cpu/memory that a container may consume."),
        CellSource::Custom(|quota, _| json!(format_usage(quota, false))),
    ),
    Column::string(
        "Limit",
        Description::Text(
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        ),
        CellSource::Custom(|quota, _| json!(format_usage(quota, true))),
    ),
    AGE,
];

/// Formats `name: used/hard` for resources whose name begins with `limits.`, or for the others, sorted by name.
fn format_usage(quota: &Value, limits: bool) -> String {
    let amount = |field: &str, name: &str| quota["status"][field][name].as_str().unwrap_or("0").to_owned();
    let hard = quota["status"]["hard"].as_object();
    let mut names: Vec<&Key> =
        hard.into_iter().flatten().map(|(name, _)| name).filter(|name| name.starts_with("limits.") == limits).collect();
    names.sort();
    let shown: Vec<String> =
        names.into_iter().map(|name| format!("{name}: {}/{}", amount("used", name), amount("hard", name))).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn described(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::fine(json!({"hard": {"pods": "1", "count/jobs.batch": "2", "requests.example.com/gpu": "1"}, "scopes": ["BestEffort"]}), &[])]
    #[case::negative(json!({"hard": {"pods": "-1"}}), &["spec.hard[pods]: Invalid value: \"-1\": must be greater than or equal to 0"])]
    #[case::unknown(json!({"hard": {"foo": "1"}}), &["spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified", "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota"])]
    #[case::selector(json!({"hard": {"secrets": "1"}, "scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "In"}]}}), &["spec.scopeSelector.matchExpressions: Invalid value: {\"MatchExpressions\":[{\"ScopeName\":\"BestEffort\",\"Operator\":\"In\",\"Values\":null}]}: unsupported scope applied to resource", "spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity", "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"])]
    #[case::conflict(json!({"scopes": ["Terminating", "NotTerminating"]}), &["spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes"])]
    #[case::scope(json!({"scopes": ["Bad"]}), &["spec.scopes: Invalid value: [\"Bad\"]: unsupported scope"])]
    fn quotas(#[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(described(&validate(&json!({"spec": spec}))), expected);
    }
}
