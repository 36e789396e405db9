//! Validation of resource slices: pools, devices, attributes, capacities and counters. See
//! `pkg/apis/resource/validation/validation.go`. PURE.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, items_mut, non_null, object_mut, spec_of, str_field, value_default};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::quantity::Quantity;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks::IMMUTABLE_MESSAGE;
use crate::registry::core::{internal_json, node_selector};
use crate::registry::generic::{Generation, Generic};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::resource::claim_spec::{attribute_name, entries, for_items, for_set, taint};
use crate::registry::storage::common;
use crate::registry::{checks, names, time};
use crate::status::go_quote;

/// The resource `resourceslices` of `resource.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", "io.k8s.api.resource.v1.ResourceSlice")
        .cluster()
        .hash("KsC072WgaEY=")
        .fields(&[("spec.nodeName", ""), ("spec.driver", "")])
        .rules(
            KindStrategy::new(Generic { generation: Generation::Spec, namespaced: false, ..Generic::NEW }, |_| {})
                .check_new_with(|object| slice(object, None))
                .check_update_with(|new, old| slice(new, Some(old)))
                .stamp_with(stamp_taints)
                .warn_with(warnings)
                .drop_late_with(drop_disabled_fields),
        )
        .columns(COLUMNS)
}

const SPEC: Path<'static> = Path::new("spec");

/// Returns the warning about the name of a driver.
fn warnings(slice: &Value, _old: Option<&Value>) -> Vec<String> {
    let driver = str_field(spec_of(slice), "driver");
    let why = format!("driver names should be lowercase; {} contains uppercase characters", go_quote(driver));
    Vec::from_iter((driver != driver.to_lowercase()).then(|| format!("spec.driver: {why}")))
}

/// Most devices of a slice, and of one whose devices have taints or consume counters.
const MOST_DEVICES: usize = 128;

const MOST_ADVANCED_DEVICES: usize = 64;

/// Most sets of counters, and counters of a set.
const MOST_SETS: usize = 8;

const MOST_COUNTERS: usize = 32;

/// Most sets that a device consumes.
const MOST_CONSUMED: usize = 2;

/// Most attributes and capacities of a device, and values of its attributes.
const MOST_ENTRIES: usize = 32;

const MOST_VALUES: usize = 48;

/// Most taints of a device.
const MOST_TAINTS: usize = 16;

/// Most conditions of a binding.
const MOST_CONDITIONS: usize = 4;

/// Most values of a capacity's request policy.
const MOST_OPTIONS: usize = 10;

/// Longest text of an attribute in bytes.
const LONGEST_TEXT: usize = 64;

/// Longest name of a pool in bytes.
const LONGEST_POOL: usize = 253;

static SEMVER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let number = r"(0|[1-9]\d*)";
    let build = "[0-9a-zA-Z-]+";
    let before = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)";
    let text = format!(r"^{number}\.{number}\.{number}(-{before}(\.{before})*)?(\+{build}(\.{build})*)?$");
    Regex::new(&text).ok()
});

fn name_of(item: &Value) -> &str {
    str_field(item, "name")
}

/// Gives new taints their time: `SetDefaults_DeviceTaint` of `pkg/apis/resource/v1/defaults.go`.
fn stamp_taints(object: &mut Value, now: Timestamp) {
    let Some(spec) = object.as_object_mut().and_then(|map| object_mut(map, "spec")) else { return };
    for device in items_mut(spec, "devices") {
        for taint in items_mut(device, "taints") {
            value_default(taint, "timeAdded", time::format_time(now));
        }
    }
}

/// Validates a `ResourceSlice` that is new, or that replaces `old`.
fn slice(object: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    common::csi_driver_name(str_field(spec, "driver"), &SPEC.child("driver"), &mut errors);
    pool(&spec["pool"], &SPEC.child("pool"), &mut errors);
    if let Some(old) = old {
        errors.append(slice_stays(object, old));
    }
    let set = node_fields(spec, "must be either unset or set to a non-empty string", &SPEC, &mut errors);
    slice_nodes(spec, set, &mut errors);
    let devices = array_field(spec, "devices");
    let counters = array_field(spec, "sharedCounters");
    if non_null(spec, "sharedCounters").is_some() && non_null(spec, "devices").is_some() {
        errors.invalid(&SPEC, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let advanced = |device: &Value| {
        !array_field(device, "taints").is_empty() || !array_field(device, "consumesCounters").is_empty()
    };
    let most = if devices.iter().any(advanced) { MOST_ADVANCED_DEVICES } else { MOST_DEVICES };
    let per_device = spec.get("perDeviceNodeSelection") == Some(&Value::Bool(true));
    for_set(devices, most, name_of, &SPEC.child("devices"), &mut errors, |item, path, errors| {
        device(item, per_device, path, errors);
    });
    for_set(counters, MOST_SETS, name_of, &SPEC.child("sharedCounters"), &mut errors, |set, path, errors| {
        checks::required_format(set, "name", names::dns1123_label, path, errors);
        counter_map(set, path, errors);
    });
    errors
}

/// Requires what identifies a `ResourceSlice` to be unchanged.
fn slice_stays(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let at = |object: &Value, pointer: &str| spec_of(object).pointer(pointer).cloned();
    let text = |object: &Value, pointer: &str| at(object, pointer).unwrap_or_else(|| "".into());
    let mut stays = |pointer: &str, path: &Path<'_>| {
        checks::validate_immutable(Some(&text(new, pointer)), Some(&text(old, pointer)), path, &mut errors);
    };
    stays("/pool/name", &SPEC.child("pool").child("name"));
    stays("/driver", &SPEC.child("driver"));
    // This one is behind a pointer, so that an empty name differs from none.
    let [now, before] = [new, old].map(|object| at(object, "/nodeName"));
    if now != before {
        errors.invalid(&SPEC.child("nodeName"), BadValue::json(now.as_ref()), IMMUTABLE_MESSAGE);
    }
    errors
}

/// Validates the name of a pool.
pub(super) fn pool_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > LONGEST_POOL {
        errors.too_long(path, LONGEST_POOL);
    }
    for part in name.split('/') {
        checks::format(part, names::dns1123_subdomain, path, errors);
    }
}

fn pool(pool: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    pool_name(name_of(pool), &path.child("name"), errors);
    let number = |field: &str| pool.get(field).and_then(Value::as_i64).unwrap_or(0);
    if number("resourceSliceCount") <= 0 {
        let path = path.child("resourceSliceCount");
        errors.invalid(&path, number("resourceSliceCount"), "must be greater than zero");
    }
    if number("generation") < 0 {
        let why = "must be greater than or equal to zero";
        errors.invalid(&path.child("generation"), number("generation"), why);
    }
}

/// Validates the fields that select nodes and returns those that are set, in backticks.
fn node_fields(holder: &Value, empty_name: &str, path: &Path<'_>, errors: &mut ErrorList) -> Vec<&'static str> {
    let mut set = Vec::new();
    if let Some(name) = non_null(holder, "nodeName").and_then(Value::as_str) {
        let path = path.child("nodeName");
        if name.is_empty() {
            errors.invalid(&path, name, empty_name);
        } else {
            set.push("`nodeName`");
            checks::format(name, names::dns1123_subdomain, &path, errors);
        }
    }
    if let Some(selector) = non_null(holder, "nodeSelector") {
        set.push("`nodeSelector`");
        node_selector::validate(selector, &path.child("nodeSelector"), errors);
    }
    if is_true(holder, "allNodes", path, errors) {
        set.push("`allNodes`");
    }
    set
}

/// Returns true if a flag is set; it must not be false.
fn is_true(holder: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    match non_null(holder, field).and_then(Value::as_bool) {
        Some(false) => {
            errors.invalid(&path.child(field), false, "must be either unset or set to true");
            false
        }
        flag => flag.is_some(),
    }
}

fn slice_nodes(spec: &Value, mut set: Vec<&'static str>, errors: &mut ErrorList) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    if let Some(selector) = non_null(spec, "nodeSelector") {
        let terms = array_field(selector, "nodeSelectorTerms");
        if terms.len() != 1 {
            let path = SPEC.child("nodeSelector");
            let shown = BadValue::Raw(internal_json::compact_list("NodeSelectorTerm", terms));
            errors.invalid(&path.child("nodeSelectorTerms"), shown, "must have exactly one node selector term");
        }
    }
    if is_true(spec, "perDeviceNodeSelection", &SPEC, errors) {
        set.push("`perDeviceNodeSelection`");
    }
    match set.len() {
        0 => errors.required(&SPEC, ONE),
        1 => {}
        _ => {
            let why = format!("{ONE}, but multiple fields are set");
            errors.invalid(&SPEC, format!("{{{}}}", set.join(", ")), why);
        }
    }
}

fn device(device: &Value, per_device: bool, path: &Path<'_>, errors: &mut ErrorList) {
    checks::format(name_of(device), names::dns1123_label, &path.child("name"), errors);
    let size = entries(device, "attributes").count() + entries(device, "capacity").count();
    if size > MOST_ENTRIES {
        let why = format!("the total number of attributes and capacities must not exceed {MOST_ENTRIES}");
        errors.invalid(path, size, why);
    }
    let values: usize = entries(device, "attributes").map(|(_, attribute)| value_count(attribute)).sum();
    if values > MOST_VALUES {
        let why = format!("the total number of attribute values must not exceed {MOST_VALUES}");
        errors.invalid(path, values, why);
    }
    let root = path.child("attributes");
    for (name, value) in entries(device, "attributes") {
        attribute_name(name, &root, errors);
        attribute(value, &root.key(name), errors);
    }
    let root = path.child("capacity");
    let shared = device.get("allowMultipleAllocations") == Some(&Value::Bool(true));
    for (name, value) in entries(device, "capacity") {
        attribute_name(name, &root, errors);
        capacity(value, shared, &root.key(name), errors);
    }
    for_items(array_field(device, "taints"), MOST_TAINTS, &path.child("taints"), errors, taint);
    let consumed = array_field(device, "consumesCounters");
    let set_of = |item| str_field(item, "counterSet");
    for_set(consumed, MOST_CONSUMED, set_of, &path.child("consumesCounters"), errors, |item, path, errors| {
        checks::required_format(item, "counterSet", names::dns1123_label, path, errors);
        counter_map(item, path, errors);
    });
    device_nodes(device, per_device, path, errors);
    binding_conditions(device, path, errors);
}

fn value_count(attribute: &Value) -> usize {
    let lists = ["bools", "ints", "strings", "versions"];
    let count: usize = lists.iter().map(|field| array_field(attribute, field).len()).sum();
    count.max(1)
}

fn attribute(attribute: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(text) = non_null(attribute, "string").and_then(Value::as_str)
        && text.len() > LONGEST_TEXT
    {
        errors.too_long(&path.child("string"), LONGEST_TEXT);
    }
    if let Some(text) = non_null(attribute, "version").and_then(Value::as_str) {
        let path = path.child("version");
        if SEMVER.as_ref().is_some_and(|format| !format.is_match(text)) {
            errors.invalid(&path, text, "must be a string compatible with semver.org spec 2.0.0");
        }
        if text.len() > LONGEST_TEXT {
            errors.too_long(&path, LONGEST_TEXT);
        }
    }
    let set = ["int", "bool", "string", "version"].iter().filter(|field| non_null(attribute, field).is_some()).count();
    match set {
        0 => errors.invalid(path, "", "exactly one value must be specified"),
        1 => {}
        _ => errors.invalid(path, BadValue::Raw(attribute_json(attribute)), "exactly one value must be specified"),
    }
}

/// Returns the JSON of upstream's internal type.
fn attribute_json(attribute: &Value) -> String {
    let fields = [
        ("IntValue", "int"),
        ("BoolValue", "bool"),
        ("StringValue", "string"),
        ("VersionValue", "version"),
        ("IntValues", "ints"),
        ("BoolValues", "bools"),
        ("StringValues", "strings"),
        ("VersionValues", "versions"),
    ];
    let shown = fields.map(|(go, name)| format!("\"{go}\":{}", attribute.get(name).unwrap_or(&Value::Null)));
    format!("{{{}}}", shown.join(","))
}

fn capacity(capacity: &Value, shared: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("requestPolicy");
    let Some(policy) = non_null(capacity, "requestPolicy") else { return };
    if !shared {
        return errors.forbidden(&path, "allowMultipleAllocations must be true");
    }
    let Some(most) = Quantity::of(&capacity["value"]) else { return };
    let values = array_field(policy, "validValues");
    let range = non_null(policy, "validRange");
    let default = Quantity::of(&policy["default"]);
    match (values.is_empty(), range) {
        (false, Some(_)) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.forbidden(&path, why);
        }
        (false, None) => match default {
            None => errors.required(&path.child("default"), "required when validValues is defined"),
            Some(default) => valid_values(values, default, most, &path.child("validValues"), errors),
        },
        (true, Some(range)) => match default {
            None => errors.required(&path.child("default"), "required when validRange is defined"),
            Some(default) => valid_range(range, default, most, &path.child("validRange"), errors),
        },
        (true, None) => {}
    }
}

fn valid_values(values: &[Value], default: Quantity, most: Quantity, path: &Path<'_>, errors: &mut ErrorList) {
    let amounts: Vec<Quantity> = values.iter().filter_map(Quantity::of).collect();
    for (index, pair) in amounts.windows(2).enumerate().filter(|(_, pair)| pair[0] > pair[1]) {
        errors.invalid(&path.index(index + 1), pair[1].to_string(), "values must be sorted in ascending order");
    }
    if amounts.len() > MOST_OPTIONS {
        errors.too_many(path, amounts.len(), MOST_OPTIONS);
    } else {
        for (index, amount) in amounts.iter().enumerate().filter(|(_, amount)| **amount > most) {
            let why = format!("option is larger than capacity value: {most}");
            errors.invalid(&path.index(index), amount.to_string(), why);
        }
        for (index, amount) in amounts.iter().enumerate() {
            if amounts[..index].iter().any(|other| other.ceil() == amount.ceil()) {
                errors.duplicate(&path.index(index), amount.ceil().to_string());
            }
        }
    }
    // Upstream looks for the default where it checks the values, which it does not if there are too many.
    if amounts.len() > MOST_OPTIONS || !amounts.contains(&default) {
        let why = "default value is not valid according to the requestPolicy";
        errors.invalid(path, default.to_string(), why);
    }
}

fn valid_range(range: &Value, default: Quantity, most: Quantity, path: &Path<'_>, errors: &mut ErrorList) {
    let of = |field: &str| Quantity::of(&range[field]);
    let path_of_min = path.child("min");
    let Some(min) = of("min") else { return errors.required(&path_of_min, "required when validRange is defined") };
    let mut refuse_if = |wrong: bool, path: &Path<'_>, value: Quantity, why: String| {
        if wrong {
            errors.invalid(path, value.to_string(), why);
        }
    };
    refuse_if(min > most, &path_of_min, min, format!("min is larger than capacity value: {most}"));
    refuse_if(default < min, &path_of_min, default, format!("default is less than min: {min}"));
    if let Some(max) = of("max") {
        let path = path.child("max");
        refuse_if(min > max, &path, min, format!("min is larger than max: {max}"));
        refuse_if(max > most, &path, max, format!("max is larger than capacity value: {most}"));
        refuse_if(default > max, &path, default, format!("default is more than max: {max}"));
    }
    let Some(step) = of("step") else { return };
    let path = path.child("step");
    let one = min.plus(step);
    refuse_if(one > most, &path, step, format!("one step {one} is larger than capacity value: {most}"));
    for value in [Some(default), of("max")].into_iter().flatten() {
        // Upstream divides by a step of zero and fails; here it divides nothing.
        let fits = step.ceil() != 0 && (value.ceil() - min.ceil()) % step.ceil() == 0;
        refuse_if(!fits, &path, value, format!("value is not a multiple of a given step ({step}) from ({min})"));
    }
}

fn counter_map(holder: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("counters");
    let size = entries(holder, "counters").count();
    if size == 0 {
        return errors.required(&path, "");
    }
    if size > MOST_COUNTERS {
        return errors.too_many(&path, size, MOST_COUNTERS);
    }
    for (name, _) in entries(holder, "counters") {
        checks::format(name, names::dns1123_label, &path, errors);
    }
}

fn device_nodes(device: &Value, per_device: bool, path: &Path<'_>, errors: &mut ErrorList) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    if per_device {
        let set = node_fields(device, "must not be empty", path, errors);
        match set.len() {
            0 => errors.required(path, ONE),
            1 => {}
            _ => errors.invalid(path, format!("{{{}}}", set.join(", ")), ONE),
        }
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| non_null(device, field).is_some()) {
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.invalid(path, BadValue::Raw("null".to_owned()), why);
    }
}

/// Validates the conditions that a device waits for, or fails by, before a pod is bound.
pub(super) fn binding_conditions(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let fields = ["bindingConditions", "bindingFailureConditions"];
    for field in fields {
        for_items(array_field(device, field), MOST_CONDITIONS, &path.child(field), errors, |item, path, errors| {
            checks::format(item.as_str().unwrap_or_default(), names::qualified_name, path, errors);
        });
    }
    let list = |field: &str| array_field(device, field).iter().filter_map(Value::as_str);
    let conditions: BTreeSet<&str> = list(fields[0]).collect();
    for field in fields {
        let path = path.child(field);
        let mut seen = BTreeSet::new();
        for (index, condition) in list(field).enumerate() {
            if !seen.insert(condition) {
                errors.duplicate(&path.index(index), condition);
            }
            if field == fields[1] && conditions.contains(condition) {
                let why = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(&path.index(index), condition, why);
            }
        }
    }
    let shown = |field: &str| device.get(field).unwrap_or(&Value::Null);
    match (conditions.is_empty(), list(fields[1]).next().is_none()) {
        (true, false) => {
            let why = "bindingConditions are required to use bindingFailureConditions";
            errors.invalid(&path.child(fields[0]), shown(fields[0]), why);
        }
        (false, true) => {
            let why = "bindingFailureConditions are required to use bindingConditions";
            errors.invalid(&path.child(fields[1]), shown(fields[1]), why);
        }
        _ => {}
    }
}

/// Drops the fields whose feature gates are off by default.
fn drop_disabled_fields(object: &mut Value) {
    let devices = object.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten().filter_map(Value::as_object_mut) {
        device.remove("nodeAllocatableResourceMappings");
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for (_, attribute) in attributes.into_iter().flat_map(|all| all.iter_mut()) {
            for field in ["ints", "bools", "strings", "versions"] {
                if let Some(attribute) = attribute.as_object_mut() {
                    attribute.remove(field);
                }
            }
        }
    }
}

/// The columns of `resourceslices`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string("Node", Description::Field(SLICE, "nodeName"), CellSource::Text("/spec/nodeName", "")),
    Column::string("Driver", Description::Field(SLICE, "driver"), CellSource::Text("/spec/driver", "")),
    Column::string(
        "Pool",
        Description::Field("api.resource.v1.ResourcePool", "name"),
        CellSource::Text("/spec/pool/name", ""),
    ),
    AGE,
];

const SLICE: &str = "api.resource.v1.ResourceSliceSpec";

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn messages(spec: Value) -> Vec<String> {
        slice(&json!({"spec": spec}), None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_slice_belongs_to_one_node() {
        let pool = json!({"name": "a/b", "resourceSliceCount": 1});
        assert_eq!(messages(json!({"driver": "d", "pool": pool.clone(), "nodeName": "n"})), [] as [&str; 0]);
        let found = messages(json!({"driver": "", "pool": {}, "nodeName": "n", "allNodes": true}));
        assert_eq!(
            found,
            [
                "spec.driver: Required value",
                "spec.pool.name: Required value",
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
            ]
        );
    }

    #[rstest]
    #[case::fine(json!({"name": "d", "attributes": {"a": {"version": "1.2.3-rc.1+b"}}, "capacity": {"c": {"value": "4"}}}), &[])]
    #[case::version(json!({"name": "d", "attributes": {"a": {"version": "1.2"}}}), &["spec.devices[0].attributes[a].version: Invalid value: \"1.2\": must be a string compatible with semver.org spec 2.0.0"])]
    #[case::two(json!({"name": "d", "attributes": {"a": {"int": 1, "bool": true}}}), &["spec.devices[0].attributes[a]: Invalid value: {\"IntValue\":1,\"BoolValue\":true,\"StringValue\":null,\"VersionValue\":null,\"IntValues\":null,\"BoolValues\":null,\"StringValues\":null,\"VersionValues\":null}: exactly one value must be specified"])]
    #[case::policy(json!({"name": "d", "capacity": {"c": {"value": "4", "requestPolicy": {}}}}), &["spec.devices[0].capacity[c].requestPolicy: Forbidden: allowMultipleAllocations must be true"])]
    #[case::values(json!({"name": "d", "allowMultipleAllocations": true, "capacity": {"c": {"value": "4", "requestPolicy": {"default": "3", "validValues": ["2", "1", "5"]}}}}), &[
        "spec.devices[0].capacity[c].requestPolicy.validValues[1]: Invalid value: \"1\": values must be sorted in ascending order",
        "spec.devices[0].capacity[c].requestPolicy.validValues[2]: Invalid value: \"5\": option is larger than capacity value: 4",
        "spec.devices[0].capacity[c].requestPolicy.validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy"])]
    #[case::range(json!({"name": "d", "allowMultipleAllocations": true, "capacity": {"c": {"value": "4", "requestPolicy": {"default": "2", "validRange": {"min": "1", "max": "4", "step": "2"}}}}}), &[
        "spec.devices[0].capacity[c].requestPolicy.validRange.step: Invalid value: \"2\": value is not a multiple of a given step (2) from (1)",
        "spec.devices[0].capacity[c].requestPolicy.validRange.step: Invalid value: \"4\": value is not a multiple of a given step (2) from (1)"])]
    #[case::nodes(json!({"name": "d", "nodeName": "n"}), &["spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"])]
    #[case::conditions(json!({"name": "d", "bindingConditions": ["a"]}), &["spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"])]
    fn devices(#[case] device: Value, #[case] expected: &[&str]) {
        let pool = json!({"name": "p", "resourceSliceCount": 1});
        let spec = json!({"driver": "d", "pool": pool, "nodeName": "n", "devices": [device]});
        assert_eq!(messages(spec), expected);
    }

    #[test]
    fn counters_have_names() {
        let pool = json!({"name": "p", "resourceSliceCount": 1});
        let sets = json!([{"name": "s", "counters": {"A": {"value": "1"}}}, {"name": "s"}]);
        let found = messages(json!({"driver": "d", "pool": pool, "nodeName": "n", "sharedCounters": sets}));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("spec.sharedCounters[0].counters: Invalid value: \"A\""), "{found:?}");
        assert_eq!(
            found[1..],
            ["spec.sharedCounters[1].counters: Required value", "spec.sharedCounters[1]: Duplicate value: \"s\""]
        );
    }
}
