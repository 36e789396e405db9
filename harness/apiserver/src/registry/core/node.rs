//! Core `v1` Node.
//!
//! See `pkg/registry/core/node/strategy.go`, `plugin/pkg/admission/nodetaint/admission.go` and `ValidateNode` in
//! `pkg/apis/core/validation/validation.go`.

use std::cmp::Ordering;

use crate::field_errors::{BadValue, ErrorList, FieldError, Path};
use crate::json::fields::{array_field, is_empty_value, non_null, object_or_insert, str_field};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::duration;
use crate::printers::format::{NONE, flag, items, text, text_or};
use crate::quantity::Quantity;
use crate::registry::addresses::{self, Cidr};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::lister::AdmissionPlugin;
use crate::registry::names::{self, NameFormat};
use crate::registry::prepare::{copy_field, reset_all_but_status};
use crate::registry::resource_list;
use crate::registry::resource_names::is_integer_resource;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::{checks, meta};
use crate::status::Status;

/// The resource `nodes`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "nodes", "Node", "io.k8s.api.core.v1.Node")
        .cluster()
        .short(&["no"])
        .sub("proxy", "", "", "NodeProxyOptions", &["create", "delete", "get", "patch", "update"])
        .status()
        .hash("XwShjMxG9Fs=")
        .fields(&[("spec.unschedulable", "false")])
        .rules(Node)
        .columns(COLUMNS)
}

/// The strategy of nodes. The status may be set on create; labels and taints have no update restrictions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node;

const METADATA: Path<'static> = Path::new("metadata");

/// The taint that `TaintNodesByCondition` adds to new nodes until they are ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// String fields of `status.nodeInfo`, which are always encoded.
const NODE_INFO_FIELDS: [&str; 10] = [
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
];

/// Returns the warnings about deprecated fields.
fn warnings(node: &Value) -> Vec<String> {
    let Some(spec) = node.get("spec") else { return Vec::new() };
    let mut described = Vec::new();
    if spec.get("configSource").is_some_and(|source| !source.is_null()) {
        described.push("spec.configSource: the feature is removed".to_owned());
    }
    if !str_field(spec, "externalID").is_empty() {
        described.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    for (index, cidr) in array_field(spec, "podCIDRs").iter().filter_map(Value::as_str).enumerate() {
        described.extend(addresses::cidr_warnings(&format!("spec.podCIDRs[{index}]"), cidr));
    }
    described
}

impl Strategy for Node {
    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        warnings(object)
    }

    fn warnings_on_update(&self, new: &Value, _old: &Value) -> Vec<String> {
        warnings(new)
    }

    fn default(&self, object: &mut Value) {
        if let Some(spec) = object_or_insert(object, "spec") {
            if spec.get("unschedulable") == Some(&Value::Bool(false)) {
                spec.remove("unschedulable");
            }
            pod_cidrs(spec);
        }
        let Some(status) = object_or_insert(object, "status") else { return };
        resource_list::quantities(status, "capacity");
        resource_list::quantities(status, "allocatable");
        if is_empty_value(status.get("allocatable"))
            && let Some(capacity) = status.get("capacity").filter(|c| !is_empty_value(Some(c))).cloned()
        {
            status.insert("allocatable", capacity);
        }
        for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(condition) = condition.as_object_mut() {
                for field in ["lastHeartbeatTime", "lastTransitionTime"] {
                    condition.entry(field).or_insert(Value::Null);
                }
            }
        }
        status.entry("daemonEndpoints").or_insert_with(|| json!({"kubeletEndpoint": {"Port": 0}}));
        let info = status.entry("nodeInfo").or_insert_with(|| Value::Object(Map::new()));
        if let Some(info) = info.as_object_mut() {
            for field in NODE_INFO_FIELDS {
                info.entry(field).or_insert_with(|| "".into());
            }
        }
    }

    fn admit_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        if !ctx.lookup.admits_by(AdmissionPlugin::TaintNodesByCondition) {
            return Ok(());
        }
        let Some(spec) = object_or_insert(object, "spec") else { return Ok(()) };
        let taints = spec.entry("taints").or_insert_with(|| json!([]));
        if taints.is_null() {
            *taints = json!([]);
        }
        if let Some(taints) = taints.as_array_mut() {
            let there = |t: &Value| str_field(t, "key") == NOT_READY && str_field(t, "effect") == "NoSchedule";
            if !taints.iter().any(there) {
                taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
            }
        }
        Ok(())
    }

    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        if let Some(spec) = object_or_insert(object, "spec") {
            spec.remove("configSource");
        }
        if let Some(status) = object_or_insert(object, "status") {
            status.remove("config");
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = validate_node(object);
        let swap = object.pointer("/status/nodeInfo/swap/capacity").and_then(Value::as_i64);
        if let Some(capacity) = swap.filter(|capacity| *capacity <= 0) {
            let path = Path::new("metadata");
            let path = path.child("nodeSwapStatus");
            errors.invalid(&path.child("capacity"), capacity, "must be greater than zero");
        }
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        copy_field(new, old, "status");
        if old.pointer("/spec/configSource").is_none()
            && let Some(spec) = object_or_insert(new, "spec")
        {
            spec.remove("configSource");
        }
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        reset_all_but_status(new, old);
        // `nodeStatusConfigInUse` in `pkg/registry/core/node/strategy.go`.
        if non_null(&old["status"], "config").is_none()
            && let Some(status) = new.get_mut("status").and_then(Value::as_object_mut)
        {
            status.remove("config");
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_node(new);
        errors.append(validate_node_update(new, old));
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        validate_node_update(new, old)
    }
}

fn pod_cidrs(spec: &mut Map) {
    let single = spec.get("podCIDR").filter(|c| !is_empty_value(Some(c))).cloned();
    let first = spec.get("podCIDRs").and_then(Value::as_array).and_then(|c| c.first()).cloned();
    match (single, first) {
        (Some(single), None) => {
            spec.insert("podCIDRs", json!([single]));
        }
        (Some(single), Some(first)) if single != first => {
            spec.insert("podCIDRs", json!([single]));
        }
        (None, Some(first)) => {
            spec.insert("podCIDR", first);
        }
        _ => {}
    }
}

fn validate_node(node: &Value) -> ErrorList {
    let mut errors = meta::validate(node, false, NameFormat::Subdomain, &METADATA);
    let taints = array_field(node.get("spec").unwrap_or(&Value::Null), "taints");
    validate_taints(taints, &METADATA.child("taints"), &mut errors);
    validate_resources(node, &mut errors);
    declared_features(node, &mut errors);
    pod_cidrs_fit(array_field(node.get("spec").unwrap_or(&Value::Null), "podCIDRs"), &mut errors);
    errors
}

/// Validates the ranges of pods: each, and that two of them are one per family.
fn pod_cidrs_fit(cidrs: &[Value], errors: &mut ErrorList) {
    let path = Path::new("spec");
    let path = path.child("podCIDRs");
    let texts: Vec<&str> = cidrs.iter().map(|cidr| cidr.as_str().unwrap_or_default()).collect();
    for (i, cidr) in texts.iter().enumerate() {
        addresses::legacy_cidr(cidr, &path.index(i), errors);
    }
    if cidrs.len() < 2 {
        return;
    }
    let ranges: Vec<Option<Cidr>> = texts.iter().map(|cidr| Cidr::parse(cidr)).collect();
    if let Some(i) = ranges.iter().position(Option::is_none) {
        // Upstream shows the range that could not be read, which is none.
        let text = texts[i];
        let why = format!("invalid CIDR[{i}]: <nil> (invalid CIDR address: {text})");
        errors.push(FieldError::internal(
            &path,
            format!("invalid PodCIDRs. failed to check with dual stack with error:{why}"),
        ));
    }
    let families: Option<Vec<bool>> = ranges.iter().map(|range| range.as_ref().map(Cidr::is_ipv6)).collect();
    if !matches!(families.as_deref(), Some([true, false] | [false, true])) {
        let why = "may specify no more than one CIDR for each IP family";
        errors.invalid(&path, Value::Array(cidrs.to_vec()), why);
    }
}

/// Validates the features that the kubelet declares, which are sorted.
fn declared_features(node: &Value, errors: &mut ErrorList) {
    let path = Path::new("status");
    let path = path.child("declaredFeatures");
    let mut before = None;
    let features = array_field(node.get("status").unwrap_or(&Value::Null), "declaredFeatures");
    for (index, feature) in features.iter().filter_map(Value::as_str).enumerate() {
        match before.map(|before: &str| before.cmp(feature)) {
            Some(Ordering::Equal) => errors.duplicate(&path.index(index), feature),
            Some(Ordering::Greater) => {
                errors.invalid(&path.index(index), feature, "list must be sorted alphabetically");
            }
            _ => {}
        }
        if let Some(why) = feature_name(feature) {
            errors.invalid(&path.index(index), feature, why);
        }
        before = Some(feature);
    }
}

/// Returns the error of the name of a declared feature, such as `Feature/part`.
fn feature_name(name: &str) -> Option<String> {
    const LONGEST: usize = 253;
    if name.len() > LONGEST {
        return Some(format!("invalid feature name {name:?}: must be no more than {LONGEST} characters"));
    }
    let segment = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let fine = name.starts_with(|first: char| first.is_ascii_uppercase()) && name.split('/').all(segment);
    (!fine).then(|| format!("invalid feature name {name:?}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"))
}

fn validate_resources(node: &Value, errors: &mut ErrorList) {
    let path = Path::new("status");
    for field in ["capacity", "allocatable"] {
        let path = path.child(field);
        let list = node.get("status").and_then(|s| s.get(field)).and_then(Value::as_object);
        for (name, value) in list.into_iter().flatten() {
            validate_quantity(name, value, &path.child(name), errors);
        }
    }
}

/// Validates an entry of a resource list.
fn validate_quantity(name: &str, value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let text = resource_list::quantity_text(value);
    let Some(quantity) = Quantity::parse(&text) else { return };
    if quantity.sign() < 0 {
        errors.invalid(path, text.as_str(), checks::NON_NEGATIVE_MESSAGE);
    }
    if is_integer_resource(name) && !quantity.is_whole() {
        errors.invalid(path, text, "must be an integer");
    }
}

fn validate_node_update(new: &Value, old: &Value) -> ErrorList {
    let empty = Value::Null;
    let mut errors = meta::validate_update(new, old, &METADATA);
    validate_resources(new, &mut errors);
    declared_features(new, &mut errors);
    let path = Path::new("status");
    let path = path.child("addresses");
    let addresses = array_field(new.get("status").unwrap_or(&empty), "addresses");
    let repeated = checks::repeated(addresses, |address| ["type", "address"].map(|field| str_field(address, field)));
    for (i, address) in addresses.iter().enumerate().filter(|(i, _)| repeated[*i]) {
        let shown = format!(
            "{{\"Type\":{},\"Address\":{}}}",
            Value::from(str_field(address, "type")),
            Value::from(str_field(address, "address"))
        );
        errors.duplicate(&path.index(i), BadValue::Raw(shown));
    }
    let spec = new.get("spec").unwrap_or(&empty);
    let before = old.get("spec").unwrap_or(&empty);
    validate_spec_update(spec, before, &mut errors);
    errors
}

fn validate_spec_update(spec: &Value, before: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec");
    let now = array_field(spec, "podCIDRs");
    let was = array_field(before, "podCIDRs");
    if !was.is_empty() {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        let changed = if now.len() == was.len() { now.iter().zip(was).filter(|(a, b)| a != b).count() } else { 1 };
        for _ in 0..changed {
            errors.forbidden(&path.child("podCIDRs"), why);
        }
    }
    let provider = str_field(before, "providerID");
    if !provider.is_empty() && provider != str_field(spec, "providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&path.child("providerID"), why);
    }
    validate_taints(array_field(spec, "taints"), &METADATA.child("taints"), errors);
    if str_field(spec, "externalID") != str_field(before, "externalID") {
        errors.forbidden(&path.child("externalID"), "may not be updated");
    }
}

/// Validates the taints of a node; upstream reports errors under `metadata.taints`.
fn validate_taints(taints: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let again = checks::repeated(taints, |taint| (str_field(taint, "key"), str_field(taint, "effect")));
    for (i, taint) in taints.iter().enumerate() {
        let path = path.index(i);
        let key = str_field(taint, "key");
        let value = str_field(taint, "value");
        let effect = str_field(taint, "effect");
        for message in names::qualified_name(key) {
            errors.invalid(&path.child("key"), key, message);
        }
        let messages = names::label_value(value);
        if !messages.is_empty() {
            errors.invalid(&path.child("value"), value, messages.join(";"));
        }
        if effect.is_empty() {
            errors.required(&path.child("effect"), "");
        } else if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            errors.not_supported(&path.child("effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
        if again[i] {
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                Value::from(key),
                Value::from(value),
                Value::from(effect),
                taint.get("timeAdded").unwrap_or(&Value::Null)
            );
            let mut error = FieldError::duplicate(&path, BadValue::Raw(shown));
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            errors.push(error);
        }
    }
}

/// The columns of `nodes`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Status",
        Description::Text("The status of the node"),
        CellSource::Custom(|node, _| json!(node_status(node))),
    ),
    Column::string(
        "Roles",
        Description::Text("The roles of the node"),
        CellSource::Custom(|node, _| json!(node_roles(node))),
    ),
    AGE,
    Column::string(
        "Version",
        Description::Field("api.core.v1.NodeSystemInfo", "kubeletVersion"),
        CellSource::Text("/status/nodeInfo/kubeletVersion", ""),
    ),
    Column::string(
        "Internal-IP",
        Description::Field("api.core.v1.NodeStatus", "addresses"),
        CellSource::Custom(|node, _| json!(node_address(node, "InternalIP"))),
    )
    .wide(),
    Column::string(
        "External-IP",
        Description::Field("api.core.v1.NodeStatus", "addresses"),
        CellSource::Custom(|node, _| json!(node_address(node, "ExternalIP"))),
    )
    .wide(),
    Column::string(
        "OS-Image",
        Description::Field("api.core.v1.NodeSystemInfo", "osImage"),
        CellSource::Text("/status/nodeInfo/osImage", duration::UNKNOWN),
    )
    .wide(),
    Column::string(
        "Kernel-Version",
        Description::Field("api.core.v1.NodeSystemInfo", "kernelVersion"),
        CellSource::Custom(|node, _| json!(node_kernel(node))),
    )
    .wide(),
    Column::string(
        "Container-Runtime",
        Description::Field("api.core.v1.NodeSystemInfo", "containerRuntimeVersion"),
        CellSource::Text("/status/nodeInfo/containerRuntimeVersion", duration::UNKNOWN),
    )
    .wide(),
];

fn node_status(node: &Value) -> String {
    let ready = items(node, "/status/conditions").iter().rfind(|condition| text(condition, "/type") == "Ready");
    let mut shown = match ready {
        Some(condition) if text(condition, "/status") == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(node, "/spec/unschedulable") {
        shown.push_str(",SchedulingDisabled");
    }
    shown
}

fn node_roles(node: &Value) -> String {
    let mut roles: Vec<&str> = metadata::labels(node)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn node_address<'a>(node: &'a Value, kind: &str) -> &'a str {
    items(node, "/status/addresses").iter().find(|a| text(a, "/type") == kind).map_or(NONE, |a| text(a, "/address"))
}

fn node_kernel(node: &Value) -> String {
    let kernel = text_or(node, "/status/nodeInfo/kernelVersion", duration::UNKNOWN);
    match text(node, "/status/nodeInfo/architecture") {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `ValidateNode` in `pkg/apis/core/validation/validation.go`, `ParseCIDRs` and `IsDualStackCIDRs` of k8s.io/utils.
    #[rstest]
    #[case::both_families(json!(["10.0.0.0/24", "fd00::/64"]), &[])]
    #[case::second_unreadable(json!(["10.0.0.0/24", "x"]), &[
        "spec.podCIDRs[1]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[1]: <nil> (invalid CIDR address: x)",
        "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"x\"]: may specify no more than one CIDR for each IP family"])]
    #[case::only_one_unreadable(json!(["x"]), &[
        "spec.podCIDRs[0]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"])]
    #[case::twice(json!(["10.0.0.0/24", "10.0.0.0/24"]), &[
        "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.0.0/24\"]: may specify no more than one CIDR for each IP family"])]
    #[case::three(json!(["10.0.0.0/24", "fd00::/64", "fd01::/64"]), &[
        "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"fd00::/64\",\"fd01::/64\"]: may specify no more than one CIDR for each IP family"])]
    fn ranges_of_pods(#[case] cidrs: Value, #[case] expected: &[&str]) {
        let mut errors = ErrorList::new();
        pod_cidrs_fit(cidrs.as_array().expect("a list"), &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }
}
