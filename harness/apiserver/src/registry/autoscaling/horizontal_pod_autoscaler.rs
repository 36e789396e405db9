//! `autoscaling` `HorizontalPodAutoscaler`: stored as `v2`; `v1` has only a CPU target. See
//! `pkg/apis/autoscaling/v1/conversion.go`, `pkg/apis/autoscaling/v2/defaults.go` and
//! `pkg/apis/autoscaling/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{
    array_field, is_empty_value, non_null, object_or_default, object_or_insert, spec_of, str_field, value_default,
};
use crate::json::{Map, Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{NONE, UNSET, int_or_string, items, text};
use crate::quantity::Quantity;
use crate::registry::autoscaling::round_trip;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::Generic;
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::served_resource::Conversion;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{checks, names, resource_names};

/// The resource `horizontalpodautoscalers` of `autoscaling/v2`.
pub(in crate::registry) fn v2() -> ResourceBuilder {
    resource(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    )
    .short(&["hpa"])
    .categories(&["all"])
    .status()
    .hash("qwQve8ut294=")
    .rules(STRATEGY)
    .columns(COLUMNS)
}

/// The strategy of `v2`, whose types have the fields of upstream's internal ones.
const STRATEGY: KindStrategy = KindStrategy::new(Generic { status: true, ..Generic::NEW }, default_v2)
    .check_with(validate)
    .check_new_with(target_version)
    .check_update_with(target_version_update)
    .check_status_with(|new, _| validate_status(new));

/// The resource `horizontalpodautoscalers` of `autoscaling/v1`.
pub(in crate::registry) fn v1() -> ResourceBuilder {
    resource(
        "autoscaling",
        "v1",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler",
    )
    .short(&["hpa"])
    .categories(&["all"])
    .status()
    .hash("qwQve8ut294=")
    .with_conversion(&CONVERSION)
    .rules(FirstVersion)
    .columns(COLUMNS)
}

/// The strategy of `v1`: that of `v2`, for the objects converted there and back. So annotations that cannot be read
/// disappear, the current utilization is in an annotation, too, and the metrics in annotations are validated.
#[derive(Debug, Clone, Copy)]
struct FirstVersion;

impl FirstVersion {
    /// Changes an object of `v1` as one of `v2`.
    fn change(object: &mut Value, change: impl FnOnce(&mut Value)) {
        let mut converted = to_v2(std::mem::take(object));
        change(&mut converted);
        *object = to_v1(converted);
    }
}

impl Strategy for FirstVersion {
    fn default(&self, object: &mut Value) {
        let Some(map) = object.as_object_mut() else { return };
        default_v1(map);
        Self::change(object, |_| {});
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        Self::change(object, |object| STRATEGY.prepare_for_create(object, ctx));
    }

    fn validate(&self, object: &Value) -> ErrorList {
        STRATEGY.validate(&to_v2(object.clone()))
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        Self::change(new, |new| STRATEGY.prepare_for_update(new, &to_v2(old.clone()), ctx));
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        STRATEGY.validate_update(&to_v2(new.clone()), &to_v2(old.clone()))
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        Self::change(new, |new| STRATEGY.prepare_for_status_update(new, &to_v2(old.clone()), ctx));
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        STRATEGY.validate_status_update(&to_v2(new.clone()), &to_v2(old.clone()))
    }
}

/// Converts between `v2`, the storage version, and `v1`.
const CONVERSION: Conversion = Conversion { to_storage: to_v2, from_storage: to_v1 };

const PERCENTAGE: &str = "targetCPUUtilizationPercentage";

/// The utilization to aim at unless a metric is set (`DefaultCPUUtilization`).
const DEFAULT_PERCENTAGE: i64 = 80;

const CURRENT: &str = "currentCPUUtilizationPercentage";

fn to_v2(mut object: Value) -> Value {
    if !object.is_object() {
        return object;
    }
    object["apiVersion"] = "autoscaling/v2".into();
    let annotated = round_trip::take(&mut object);
    if let Some(spec) = object_or_insert(&mut object, "spec") {
        let mut metrics = annotated.metrics.unwrap_or_default();
        let percentage = spec.remove(PERCENTAGE).filter(|value| !value.is_null());
        // The default of v2 holds for v1, too.
        let percentage = percentage.or_else(|| metrics.is_empty().then_some(json!(DEFAULT_PERCENTAGE)));
        if let Some(percentage) = percentage {
            let target = json!({"type": "Utilization", "averageUtilization": percentage});
            metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
        }
        spec.insert("metrics", Value::Array(metrics));
        if let Some(behavior) = annotated.behavior {
            spec.insert("behavior", behavior);
        }
    }
    if let Some(status) = object_or_insert(&mut object, "status") {
        let current = status.remove(CURRENT).map(|percentage| {
            let current = json!({"averageUtilization": percentage, "averageValue": "0"});
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}])
        });
        // The annotation has more.
        let current = annotated.current_metrics.map(Value::Array).or(current);
        status.insert("currentMetrics", current.unwrap_or_default());
        if let Some(conditions) = annotated.conditions {
            status.insert("conditions", conditions);
        }
        if status.get("currentReplicas") == Some(&json!(0)) {
            status.remove("currentReplicas");
        }
    }
    object
}

fn to_v1(mut object: Value) -> Value {
    if !object.is_object() {
        return object;
    }
    object["apiVersion"] = "autoscaling/v1".into();
    if let Some(fields) = object.as_object_mut() {
        round_trip::drop_annotations(fields);
    }
    let spec = object["spec"].clone();
    let status = object["status"].clone();
    round_trip::annotate(&mut object, &spec, &status);
    let utilization =
        |list: &[Value], part: &str| list.iter().find_map(|metric| round_trip::processor_utilization(metric, part));
    if let Some(own) = object_or_insert(&mut object, "spec") {
        own.remove("metrics");
        own.remove("behavior");
        if let Some(percentage) = utilization(array_field(&spec, "metrics"), "target") {
            own.insert(PERCENTAGE, percentage);
        }
    }
    if let Some(own) = object_or_insert(&mut object, "status") {
        own.remove("currentMetrics");
        own.remove("conditions");
        if let Some(percentage) = utilization(array_field(&status, "currentMetrics"), "current") {
            own.insert(CURRENT, percentage);
        }
        for field in ["currentReplicas", "desiredReplicas"] {
            own.entry(field).or_insert(json!(0));
        }
    }
    object
}

/// Defaults of `v1`.
fn default_v1(map: &mut Map) {
    if let Some(spec) = map.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("minReplicas").or_insert(json!(1));
    }
    if let Some(status) = map.entry("status").or_insert_with(|| json!({})).as_object_mut() {
        for field in ["currentReplicas", "desiredReplicas"] {
            status.entry(field).or_insert(json!(0));
        }
    }
}

/// Defaults of `v2`'s scaling behavior, if it is set.
fn default_behavior(spec: &mut Map) {
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, policies) in [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))] {
        let rules = behavior.entry(direction).or_insert_with(|| json!({}));
        let Some(rules) = rules.as_object_mut() else { continue };
        rules.entry("selectPolicy").or_insert_with(|| "Max".into());
        // A list that is set and empty stays: validation refuses it.
        if rules.get("policies").is_none_or(Value::is_null) {
            rules.insert("policies", policies);
        }
        if direction == "scaleUp" {
            rules.entry("stabilizationWindowSeconds").or_insert(json!(0));
        }
    }
}

/// Defaults of `HorizontalPodAutoscaler` v2, which has no annotations of `v1`.
fn default_v2(map: &mut Map) {
    round_trip::drop_annotations(map);
    if let Some(spec) = object_or_default(map, "spec") {
        value_default(spec, "minReplicas", 1);
        if is_empty_value(spec.get("metrics")) {
            let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
            spec.insert("metrics", json!([{"type": "Resource", "resource": cpu}]));
        }
        default_behavior(spec);
    }
    if let Some(status) = object_or_default(map, "status") {
        value_default(status, "desiredReplicas", 0);
        status.entry("currentMetrics").or_insert(Value::Null);
    }
}

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

/// Validates an autoscaler: `ValidateHorizontalPodAutoscaler`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = validate_bounds(object);
    let spec = spec_of(object);
    let root = SPEC.child("metrics");
    for (index, one) in array_field(spec, "metrics").iter().enumerate() {
        metric(one, &root.index(index), &mut errors);
    }
    let scales_from_zero =
        array_field(spec, "metrics").iter().any(|one| matches!(str_field(one, "type"), "Object" | "External"));
    if spec["minReplicas"] == 0 && !scales_from_zero {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&root, why);
    }
    let path = SPEC.child("behavior");
    for field in ["scaleUp", "scaleDown"] {
        if let Some(rules) = non_null(&spec["behavior"], field) {
            scaling_rules(rules, &path.child(field), &mut errors);
        }
    }
    errors
}

/// Validates the numbers of replicas and the target.
fn validate_bounds(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let least = spec["minReplicas"].as_i64();
    let most = spec["maxReplicas"].as_i64().unwrap_or(0);
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
    reference(&spec["scaleTargetRef"], &SPEC.child("scaleTargetRef"), &mut errors);
    errors
}

/// Validates the version of the target, which has a group except for replication controllers:
/// `validationOptionsForHorizontalPodAutoscaler` in `pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go`.
fn target_version(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let target = &spec_of(object)["scaleTargetRef"];
    let path = SPEC.child("scaleTargetRef");
    api_version(target, str_field(target, "kind") == "ReplicationController", &path, &mut errors);
    errors
}

/// Like [`target_version`] for an update, which may keep a wrong version.
fn target_version_update(new: &Value, old: &Value) -> ErrorList {
    let target = |object: &Value| {
        ["apiVersion", "kind"].map(|field| str_field(&spec_of(object)["scaleTargetRef"], field).to_owned())
    };
    if target(new) == target(old) { ErrorList::new() } else { target_version(new) }
}

/// Validates the status: `ValidateHorizontalPodAutoscalerStatusUpdate`.
fn validate_status(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    for field in ["currentReplicas", "desiredReplicas"] {
        checks::validate_non_negative(object["status"].get(field), &path.child(field), &mut errors);
    }
    errors
}

fn segment(text: &str) -> Vec<String> {
    names::path_segment(text, false)
}

/// Validates the reference to an object, except for its version.
fn reference(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    checks::required_format(reference, "kind", segment, path, errors);
    checks::required_format(reference, "name", segment, path, errors);
}

/// Validates the version in a reference: `ValidateAPIVersion`.
fn api_version(reference: &Value, allows_core: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let version = str_field(reference, "apiVersion");
    let path = path.child("apiVersion");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if version.matches('/').count() > 1 {
        errors.invalid(&path, version, format!("unexpected GroupVersion string: {version}"));
    } else if group.is_empty() && !allows_core {
        errors.invalid(&path, version, "apiVersion must specify API group");
    }
}

fn metric(metric: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = str_field(metric, "type");
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
                let path = path.child("describedObject");
                reference(&source["describedObject"], &path, errors);
                api_version(&source["describedObject"], true, &path, errors);
            }
            let path = path.child("metric");
            match str_field(&source["metric"], "name") {
                "" => errors.required(&path.child("name"), "must specify a metric name"),
                name => checks::format(name, segment, &path.child("name"), errors),
            }
        }
        _ => {
            let of_container = field == "containerResource";
            match str_field(source, "name") {
                "" => errors.required(&path.child("name"), "must specify a resource name"),
                name if of_container => resource_names::container_name(name, &path.child("name"), errors),
                _ => {}
            }
            match str_field(source, "container") {
                _ if !of_container => {}
                "" => errors.required(&path.child("container"), "must specify a container"),
                name => checks::format(name, names::dns1123_label, &path.child("container"), errors),
            }
        }
    }
    let target = &source["target"];
    let path = path.child("target");
    metric_target(target, &path, errors);
    let given = |field: &str| non_null(target, field).is_some();
    let value = given("value");
    let average = given("averageValue");
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
    let kind = str_field(target, "type");
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
    let root = path.child("policies");
    let policies = array_field(rules, "policies");
    if policies.is_empty() {
        errors.required(&root, "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = root.index(index);
        let kind = str_field(policy, "type");
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
    if let Some(tolerance) = Quantity::of(&rules["tolerance"]).filter(|tolerance| tolerance.sign() < 0) {
        errors.invalid(&path.child("tolerance"), tolerance.to_string(), "must be greater than or equal to 0");
    }
}

/// The columns of `horizontalpodautoscalers`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Reference",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "scaleTargetRef"),
        CellSource::Custom(|hpa, _| {
            json!(format!("{}/{}", text(hpa, "/spec/scaleTargetRef/kind"), text(hpa, "/spec/scaleTargetRef/name")))
        }),
    ),
    Column::string(
        "Targets",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "metrics"),
        CellSource::Custom(|hpa, _| json!(targets(hpa))),
    ),
    Column::string(
        "MinPods",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas"),
        CellSource::Custom(|hpa, _| json!(int_or_string(hpa, "/spec/minReplicas", UNSET))),
    ),
    Column::string(
        "MaxPods",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerSpec", "maxReplicas"),
        CellSource::Number("/spec/maxReplicas"),
    ),
    Column::string(
        "Replicas",
        Description::Field("api.autoscaling.v2.HorizontalPodAutoscalerStatus", "currentReplicas"),
        CellSource::Number("/status/currentReplicas"),
    ),
    AGE,
];

const METRICS_SHOWN: usize = 2;

const UNKNOWN: &str = "<unknown>";

/// Formats current and target value of each metric.
fn targets(hpa: &Value) -> String {
    let specs = items(hpa, "/spec/metrics");
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let statuses = items(hpa, "/status/currentMetrics");
    let mut shown: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(index, spec)| target(spec, statuses.get(index).unwrap_or(&Value::Null)))
        .collect();
    let more = shown.len().saturating_sub(METRICS_SHOWN);
    shown.truncate(METRICS_SHOWN);
    let list = shown.join(", ");
    if more > 0 { format!("{list} + {more} more...") } else { list }
}

fn target(spec: &Value, status: &Value) -> String {
    let source = match text(spec, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let of_resource = matches!(source, "resource" | "containerResource");
    let wanted = &spec[source]["target"];
    let current = status.get(source).filter(|own| own.is_object()).map(|own| &own["current"]);
    let quantity = |from: &Value, field: &str| str_field(from, field).to_owned();
    let or_nil = |text: String| if text.is_empty() { "<nil>".to_owned() } else { text };
    let reported = |field: &str| current.map_or_else(|| UNKNOWN.to_owned(), |own| or_nil(quantity(own, field)));
    let percent = |from: Option<&Value>, absent: &str| {
        let value = from.and_then(|from| from["averageUtilization"].as_i64());
        value.map_or_else(|| absent.to_owned(), |percent| format!("{percent}%"))
    };
    let shown = match quantity(wanted, "averageValue") {
        average if of_resource && average.is_empty() => {
            format!("{}/{}", percent(current, UNKNOWN), percent(Some(wanted), "<auto>"))
        }
        average if of_resource || source == "pods" => format!("{}/{}", reported("averageValue"), or_nil(average)),
        average if average.is_empty() => format!("{}/{}", reported("value"), or_nil(quantity(wanted, "value"))),
        average => {
            let now = current.map(|own| quantity(own, "averageValue")).filter(|now| !now.is_empty());
            format!("{}/{average} (avg)", now.unwrap_or_else(|| UNKNOWN.to_owned()))
        }
    };
    if of_resource { format!("{}: {shown}", str_field(&spec[source], "name")) } else { shown }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `validateMetrics` in `pkg/apis/autoscaling/validation/validation.go`.
    #[rstest]
    #[case(json!([]), &["spec.minReplicas", "spec.metrics"])]
    #[case(json!([{"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}}]),
        &["spec.minReplicas"])]
    fn zero_replicas_need_a_metric(#[case] metrics: Value, #[case] expected: &[&str]) {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "n"});
        let spec = json!({"minReplicas": 0, "maxReplicas": 1, "metrics": metrics, "scaleTargetRef": target});
        let errors = validate(&json!({"spec": spec}));
        assert_eq!(errors.iter().map(|error| &*error.field).collect::<Vec<_>>(), expected);
    }

    /// `validationOptionsForHorizontalPodAutoscaler` in
    /// `pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go`.
    #[rstest]
    #[case("apps/v1", "Deployment", None)]
    #[case("v1", "ReplicationController", None)]
    #[case("", "ReplicationController", None)]
    #[case("v1", "Deployment", Some("apiVersion must specify API group"))]
    #[case("", "Deployment", Some("apiVersion must specify API group"))]
    #[case("a/b/c", "Deployment", Some("unexpected GroupVersion string: a/b/c"))]
    fn targets_have_groups(#[case] version: &str, #[case] kind: &str, #[case] expected: Option<&str>) {
        let autoscaler =
            |kind: &str| json!({"spec": {"scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "n"}}});
        let new = autoscaler(kind);
        let details = |errors: ErrorList| errors.iter().map(|error| error.detail.clone()).collect::<Vec<_>>();
        let expected = Vec::from_iter(expected);
        assert_eq!(details(target_version(&new)), expected);
        assert_eq!(details(target_version_update(&new, &autoscaler("Other"))), expected);
        assert!(target_version_update(&new, &new).is_empty());
    }

    #[test]
    fn the_processor_goes_there_and_back() {
        let first = json!({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 3, PERCENTAGE: 50},
            "status": {"currentReplicas": 0, "desiredReplicas": 0, CURRENT: 7}});
        let stored = to_v2(first.clone());
        assert_eq!(stored.pointer("/spec/metrics/0/resource/target/averageUtilization"), Some(&json!(50)));
        assert_eq!(stored["apiVersion"], "autoscaling/v2");
        let mut again = to_v1(stored);
        let annotations = again.as_object_mut().unwrap().remove("metadata").unwrap();
        let current = r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"0"}}]"#;
        assert_eq!(annotations, json!({"annotations": {"autoscaling.alpha.kubernetes.io/current-metrics": current}}));
        assert_eq!(again, first);
        let stored = to_v2(json!({"spec": {"maxReplicas": 3}}));
        assert_eq!(stored.pointer("/spec/metrics/0/resource/target/averageUtilization"), Some(&json!(80)));
    }

    /// `Convert_autoscaling_HorizontalPodAutoscaler_To_v1_HorizontalPodAutoscaler`: a write in v1 keeps what v2 has.
    #[test]
    fn other_metrics_survive_v1() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue",
            "averageValue": "1Gi"}}});
        let spec =
            json!({"maxReplicas": 3, "metrics": [memory], "behavior": {"scaleDown": {"selectPolicy": "Disabled"}}});
        let v2 = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "h"}, "spec": spec,
            "status": {"currentMetrics": null, "desiredReplicas": 0}});
        let v1 = to_v1(v2.clone());
        assert_eq!(v1["spec"], json!({"maxReplicas": 3}));
        assert_eq!(v1["metadata"]["annotations"].as_object().map(Map::len), Some(2));
        assert_eq!(to_v2(v1), v2);
    }

    #[test]
    fn both_directions_are_filled_in() {
        let mut spec = json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}});
        default_behavior(spec.as_object_mut().unwrap());
        assert_eq!(
            spec["behavior"],
            json!({
                "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                    {"type": "Pods", "value": 4, "periodSeconds": 15},
                    {"type": "Percent", "value": 100, "periodSeconds": 15}]},
                "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [
                    {"type": "Percent", "value": 100, "periodSeconds": 15}]},
            })
        );
    }
}
