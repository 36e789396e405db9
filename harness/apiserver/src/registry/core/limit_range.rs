//! Core `v1` `LimitRange`. See `ValidateLimitRange` in `pkg/apis/core/validation/validation.go`, and
//! `pkg/apis/core/v1/defaults.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, items_mut, object_or_default, str_field};
use crate::json::{Map, Value};
use crate::quantity::Quantity;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks::{self, quantity_value};
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::resource_list;
use crate::registry::resource_list::{ResourceList, amounts};
use crate::registry::{names, resource_names};

/// The resource `limitranges`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "limitranges", "LimitRange", "io.k8s.api.core.v1.LimitRange")
        .short(&["limits"])
        .hash("EBKMFVe6cwo=")
        .rules(
            KindStrategy::new(
                Generic { create_on_update: true, updates: MetadataRules::Whole, ..Generic::NEW },
                defaults,
            )
            .check_with(validate)
            .with_random_name(),
        )
}

const SPEC: Path<'static> = Path::new("spec");

const STANDARD_LIMITS: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

/// Validates a limit range.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = SPEC.child("limits");
    let limits = object.get("spec").map_or(&[][..], |spec| array_field(spec, "limits"));
    let repeated = checks::repeated(limits, |limit| str_field(limit, "type"));
    for (at, limit) in limits.iter().enumerate() {
        let path = path.index(at);
        let kind = str_field(limit, "type");
        let own = path.child("type");
        let malformed = names::qualified_name(kind);
        if malformed.is_empty() && !kind.contains('/') && !STANDARD_LIMITS.contains(&kind) {
            errors.invalid(&own, kind, "must be a standard limit type or fully qualified");
        }
        for why in malformed {
            errors.invalid(&own, kind, why);
        }
        if repeated[at] {
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
                resource_names::container_name(name, &path.key(name), errors);
            } else {
                resource_names::any_name(name, &path.key(name), errors);
            }
        }
    }
    let least = of("min");
    let most = of("max");
    let ratio = of("maxLimitRequestRatio");
    let mut limits = of("default");
    let mut requests = of("defaultRequest");
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
        [&most, &least, &limits, &requests, &ratio].into_iter().flat_map(ResourceList::keys).collect();
    names.sort();
    names.dedup();
    for name in names {
        let get = |list: &ResourceList| list.get(name).copied();
        let least = get(&least);
        let most = get(&most);
        let limit = get(&limits);
        let request = get(&requests);
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
            && !resource_names::may_overcommit(name)
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

/// Defaults of `LimitRange`: container limits and requests derived from each other and from `max` and `min`.
fn defaults(map: &mut Map) {
    let Some(spec) = object_or_default(map, "spec") else { return };
    for limit in items_mut(spec, "limits") {
        for field in ["max", "min", "default", "defaultRequest"] {
            resource_list::quantities(limit, field);
        }
        if limit.get("type") != Some(&Value::from("Container")) {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(given) = limit.get(from).and_then(Value::as_object).filter(|m| !m.is_empty()).cloned() else {
                continue;
            };
            let Some(target) = object_or_default(limit, to) else { continue };
            for (name, value) in given {
                target.entry(name).or_insert(value);
            }
        }
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
        assert_eq!(described(&validate(&json!({"spec": {"limits": given}}))), expected);
    }
}
