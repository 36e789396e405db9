//! Validation of limit ranges and resource quotas. Pure.
//!
//! See `ValidateLimitRange` and `ValidateResourceQuota` in `pkg/apis/core/validation/validation.go`.

use super::label_selector::array_field;
use super::pod::resources;
use super::quota::{ResourceList, amounts};
use super::{meta, names, node};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;
use crate::quantity::Quantity;

const SPEC: Path<'static> = Path::new("spec");
const STANDARD_LIMITS: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

fn quantity_value(quantity: Quantity) -> BadValue {
    BadValue::Quoted(quantity.to_string())
}

/// Validates a limit range.
pub(super) fn limit_range(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = SPEC.child("limits");
    let limits = object.get("spec").map_or(&[][..], |spec| array_field(spec, "limits"));
    for (at, limit) in limits.iter().enumerate() {
        let path = path.index(at);
        let kind = meta::str_field(limit, "type");
        let own = path.child("type");
        let malformed = names::qualified_name(kind);
        if malformed.is_empty() && !kind.contains('/') && !STANDARD_LIMITS.contains(&kind) {
            errors.invalid(&own, kind, "must be a standard limit type or fully qualified");
        }
        for why in malformed {
            errors.invalid(&own, kind, why);
        }
        if limits[..at].iter().any(|other| meta::str_field(other, "type") == kind) {
            errors.duplicate(&own, kind);
        }
        one_limit(kind, limit, &path, &mut errors);
    }
    errors
}

fn one_limit(kind: &str, limit: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let of = |field: &str| amounts(limit.get(field));
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if kind == "Pod" && field.starts_with("default") {
            continue;
        }
        let path = path.child(field);
        for name in of(field).keys() {
            if matches!(kind, "Pod" | "Container") {
                resources::container_name(name, &path.key(name), errors);
            } else {
                resources::any_name(name, &path.key(name), errors);
            }
        }
    }
    let (least, most, ratio) = (of("min"), of("max"), of("maxLimitRequestRatio"));
    let (mut limits, mut requests) = (of("default"), of("defaultRequest"));
    if kind == "Pod" {
        for (field, list) in [("default", &mut limits), ("defaultRequest", &mut requests)] {
            if !list.is_empty() {
                errors.forbidden(&path.child(field), "may not be specified when `type` is 'Pod'");
                list.clear();
            }
        }
    }
    if kind == "PersistentVolumeClaim" && !least.contains_key("storage") && !most.contains_key("storage") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(&path.child("limits"), why);
    }
    let mut names: Vec<&String> =
        [&most, &least, &limits, &requests].into_iter().flat_map(ResourceList::keys).collect();
    names.sort();
    names.dedup();
    for name in names {
        let get = |list: &ResourceList| list.get(name).copied();
        let (least, most, limit, request) = (get(&least), get(&most), get(&limits), get(&requests));
        let mut above =
            |low: Option<Quantity>, high: Option<Quantity>, field: &str, bad: Option<Quantity>, how: [&str; 2]| {
                if let (Some(low), Some(high), Some(bad)) = (low, high, bad)
                    && low > high
                {
                    let parent = path.child(field);
                    let why = format!("{} value {low} is greater than {} value {high}", how[0], how[1]);
                    errors.invalid(&parent.key(name), quantity_value(bad), why);
                }
            };
        above(least, most, "min", least, ["min", "max"]);
        above(least, request, "defaultRequest", request, ["min", "default request"]);
        above(request, most, "defaultRequest", request, ["default request", "max"]);
        above(request, limit, "defaultRequest", request, ["default request", "default limit"]);
        above(least, limit, "default", least, ["min", "default"]);
        above(limit, most, "default", most, ["default", "max"]);
        if let Some(ratio) = get(&ratio) {
            ratios(name, ratio, (least, most), path, errors);
        }
        if let (Some(limit), Some(request)) = (limit, request)
            && limit != request
            && !resources::may_overcommit(name)
        {
            let why = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
            errors.invalid(&path.child("defaultRequest").key(name), quantity_value(request), why);
        }
    }
}

fn ratios(
    name: &str,
    ratio: Quantity,
    (least, most): (Option<Quantity>, Option<Quantity>),
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let parent = path.child("maxLimitRequestRatio");
    let path = parent.key(name);
    if ratio < Quantity::from(1) {
        errors.invalid(&path, quantity_value(ratio), format!("ratio {ratio} is less than 1"));
    }
    if let (Some(least), Some(most)) = (least, most) {
        let widest = most.to_f64() / least.to_f64();
        if ratio.to_f64() > widest {
            errors.invalid(
                &path,
                quantity_value(ratio),
                format!("ratio {ratio} is greater than max/min = {widest:.6}"),
            );
        }
    }
}

/// Quota resources with fractional amounts, in addition to `count/…` and qualified names.
const FRACTIONAL_RESOURCES: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// Quota resources with integer amounts.
const WHOLE: [&str; 9] = [
    "pods",
    "services",
    "services.nodeports",
    "services.loadbalancers",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
];
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
pub(super) fn resource_quota(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let hard = SPEC.child("hard");
    for (name, amount) in amounts(spec.get("hard")) {
        let path = hard.key(&name);
        quota_resource(&name, &path, &mut errors);
        if amount.sign() < 0 {
            errors.invalid(&path, quantity_value(amount), "must be greater than or equal to 0");
        }
        if node::is_integer_resource(&name) && !amount.is_whole() {
            errors.invalid(&path, quantity_value(amount), "must be an integer");
        }
    }
    scopes(spec, &mut errors);
    if let Some(selector) = meta::non_null(spec, "scopeSelector") {
        scope_selector(spec, selector, &mut errors);
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

/// Returns the standard resources of a quota that a scope cannot count.
fn uncounted(spec: &Value, scope: &str) -> usize {
    let hard = amounts(spec.get("hard"));
    hard.keys().filter(|name| is_quota_resource(name) && !scope_counts(scope, name)).count()
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
        for _ in 0..times {
            errors.invalid(&path, Value::from(list.to_vec()), why);
        }
    };
    for scope in &given {
        report("unsupported scope", usize::from(!SCOPES.contains(scope)));
        report("unsupported scope applied to resource", uncounted(spec, scope));
    }
    report("conflicting scopes", conflicts(&given));
}

fn scope_selector(spec: &Value, selector: &Value, errors: &mut ErrorList) {
    const ONLY_EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
    let path = SPEC.child("scopeSelector");
    let path = path.child("matchExpressions");
    let requirements = array_field(selector, "matchExpressions");
    for requirement in requirements {
        let (scope, operator) = (meta::str_field(requirement, "scopeName"), meta::str_field(requirement, "operator"));
        if !SCOPES.contains(&scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..uncounted(spec, scope) {
            let shown = BadValue::Raw(scope_selector_json(requirements));
            errors.invalid(&path, shown, "unsupported scope applied to resource");
        }
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
    let given: Vec<&str> = requirements.iter().map(|one| meta::str_field(one, "scopeName")).collect();
    for _ in 0..conflicts(&given) {
        let shown = spec.get("scopes").unwrap_or(&Value::Null);
        errors.invalid(&path, shown, "conflicting scopes");
    }
}

/// Returns the JSON of upstream's internal type.
fn scope_selector_json(requirements: &[Value]) -> String {
    let all = requirements.iter().map(|one| {
        let text = |field: &str| Value::from(meta::str_field(one, field));
        let values = meta::non_null(one, "values").unwrap_or(&Value::Null);
        format!("{{\"ScopeName\":{},\"Operator\":{},\"Values\":{values}}}", text("scopeName"), text("operator"))
    });
    format!("{{\"MatchExpressions\":[{}]}}", all.collect::<Vec<_>>().join(","))
}

fn is_quota_resource(name: &str) -> bool {
    FRACTIONAL_RESOURCES.contains(&name)
        || WHOLE.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn quota_resource(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    resources::any_name(name, path, errors);
    if !name.contains('/') && !is_quota_resource(name) {
        errors.invalid(path, name, "must be a standard resource for quota");
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn described(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::fine(json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]), &[])]
    #[case::min_above_max(json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]), &["spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"])]
    #[case::resource(json!([{"type": "Container", "max": {"gpu": "1"}}]), &["spec.limits[0].max[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified", "spec.limits[0].max[gpu]: Invalid value: \"gpu\": must be a standard resource for containers"])]
    #[case::claim_resource(json!([{"type": "PersistentVolumeClaim", "max": {"storage": "1"}, "min": {"disks": "1"}}]), &["spec.limits[0].min[disks]: Invalid value: \"disks\": must be a standard resource type or fully qualified"])]
    #[case::unknown(json!([{"type": "Foo"}]), &["spec.limits[0].type: Invalid value: \"Foo\": must be a standard limit type or fully qualified"])]
    #[case::twice(json!([{"type": "Pod"}, {"type": "Pod", "default": {"cpu": "1"}}]), &["spec.limits[1].type: Duplicate value: \"Pod\"", "spec.limits[1].default: Forbidden: may not be specified when `type` is 'Pod'"])]
    #[case::claim(json!([{"type": "PersistentVolumeClaim"}]), &["spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"])]
    #[case::ratio(json!([{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}}]), &["spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000"])]
    fn ranges(#[case] given: Value, #[case] expected: &[&str]) {
        assert_eq!(described(&limit_range(&json!({"spec": {"limits": given}}))), expected);
    }

    #[rstest]
    #[case::fine(json!({"hard": {"pods": "1", "count/jobs.batch": "2", "requests.example.com/gpu": "1"}, "scopes": ["BestEffort"]}), &[])]
    #[case::negative(json!({"hard": {"pods": "-1"}}), &["spec.hard[pods]: Invalid value: \"-1\": must be greater than or equal to 0"])]
    #[case::unknown(json!({"hard": {"foo": "1"}}), &["spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified", "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota"])]
    #[case::selector(json!({"hard": {"secrets": "1"}, "scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "In"}]}}), &["spec.scopeSelector.matchExpressions: Invalid value: {\"MatchExpressions\":[{\"ScopeName\":\"BestEffort\",\"Operator\":\"In\",\"Values\":null}]}: unsupported scope applied to resource", "spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity", "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"])]
    #[case::conflict(json!({"scopes": ["Terminating", "NotTerminating"]}), &["spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes"])]
    #[case::scope(json!({"scopes": ["Bad"]}), &["spec.scopes: Invalid value: [\"Bad\"]: unsupported scope"])]
    fn quotas(#[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(described(&resource_quota(&json!({"spec": spec}))), expected);
    }
}
