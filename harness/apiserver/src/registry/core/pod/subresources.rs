//! Updates through `/ephemeralcontainers` and `/resize`.
//!
//! See `pkg/registry/core/pod/strategy.go`, `ValidatePodEphemeralContainersUpdate` and `ValidatePodResize` in
//! `pkg/apis/core/validation/validation.go`, and `plugin/pkg/admission/podresize/admission.go`.

use crate::field_errors::{ErrorList, NO_FIELD, Path};
use crate::json::fields::{array_field, is_empty_value, object_or_insert, semantic_equal, spec_of, str_field};
use crate::json::{Map, Value};
use crate::metadata;
use crate::quantity::Quantity;
use crate::registry::core::internal_json;
use crate::registry::core::pod::annotations;
use crate::registry::core::pod::qos;
use crate::registry::core::pod::validation::{METADATA, SPEC, metadata_and_spec};
use crate::registry::meta;
use crate::registry::prepare::{copy_field, copy_member, copy_metadata_fields};
use crate::registry::resource_list;
use crate::registry::strategy::StrategyContext;
use crate::status::{GroupResource, Status};

/// Metadata that can be written only through the pod itself.
const KEPT_METADATA: [&str; 7] =
    ["annotations", "deletionTimestamp", "finalizers", "generation", "labels", "ownerReferences", "selfLink"];

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Resources that can be resized in place.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Restores the fields that a write through the subresource may not change.
pub(super) fn restrict_to_subresource(subresource: &str, new: &mut Value, old: &Value) {
    match subresource {
        "ephemeralcontainers" => {
            let wanted = spec_of(new).get("ephemeralContainers").cloned();
            restore_other_fields(new, old);
            let Some(spec) = object_or_insert(new, "spec") else { return };
            match wanted.filter(|list| !is_empty_value(Some(list))) {
                Some(list) => spec.insert("ephemeralContainers", list),
                None => spec.remove("ephemeralContainers"),
            };
        }
        "resize" => {
            let lists = ["containers", "initContainers"];
            let wanted = spec_of(new).clone();
            // Added, removed or moved containers are left for the validation to reject.
            if lists.iter().any(|list| array_field(&wanted, list).len() != array_field(spec_of(old), list).len()) {
                return;
            }
            restore_other_fields(new, old);
            let Some(spec) = object_or_insert(new, "spec") else { return };
            for list in lists {
                let wanted = array_field(&wanted, list);
                let Some(kept) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
                if kept.iter().zip(wanted).any(|(one, other)| str_field(one, "name") != str_field(other, "name")) {
                    *kept = wanted.to_vec();
                    continue;
                }
                for (container, wanted) in kept.iter_mut().zip(wanted) {
                    let Some(container) = container.as_object_mut() else { continue };
                    copy_member(container, wanted, "resources");
                    copy_member(container, wanted, "resizePolicy");
                }
            }
            copy_member(spec, &wanted, "resources");
        }
        _ => {}
    }
}

fn restore_other_fields(new: &mut Value, old: &Value) {
    for part in ["spec", "status"] {
        copy_field(new, old, part);
    }
    copy_metadata_fields(new, old, &KEPT_METADATA);
}

/// Validates a write through the subresource.
pub(super) fn validate(subresource: &str, new: &Value, old: &Value) -> ErrorList {
    let mut errors = meta::validate_update(new, old, &METADATA);
    metadata_and_spec(new, &mut errors);
    if subresource == "ephemeralcontainers" {
        annotations::validate_update(new, old, &mut errors);
    }
    let mirror = metadata::annotation(old, MIRROR).is_some();
    if mirror {
        let why = match subresource {
            "resize" => "static pods cannot be resized",
            _ => "static pods do not support ephemeral containers",
        };
        let mut only = ErrorList::new();
        only.forbidden(&Path::new(NO_FIELD), why);
        return only;
    }
    if subresource == "resize" {
        resize(new, old, &mut errors);
    } else {
        ephemeral(spec_of(new), spec_of(old), &mut errors);
    }
    errors
}

/// Validates that ephemeral containers are only added.
fn ephemeral(now: &Value, before: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("ephemeralContainers");
    let list = array_field(now, "ephemeralContainers");
    for old in array_field(before, "ephemeralContainers") {
        let name = str_field(old, "name");
        match list.iter().rfind(|new| str_field(new, "name") == name) {
            None => errors.forbidden(&path, format!("existing ephemeral containers \"{name}\" may not be removed\n")),
            Some(new) if !semantic_equal(Some(new), Some(old)) => {
                let difference = internal_json::difference_of("EphemeralContainer", old, new);
                let why = format!("existing ephemeral containers \"{name}\" may not be changed\n{difference}");
                errors.forbidden(&path, why);
            }
            Some(_) => {}
        }
    }
}

fn resize(new: &Value, old: &Value, errors: &mut ErrorList) {
    let now = spec_of(new);
    let before = spec_of(old);
    if before.pointer("/os/name").is_some_and(|name| name == "windows") {
        *errors = ErrorList::new();
        errors.forbidden(&Path::new(NO_FIELD), "windows pods cannot be resized");
        return;
    }
    let shown = new.get("status").map_or("", |status| str_field(status, "qosClass"));
    let present = old.get("status").map_or("", |status| str_field(status, "qosClass"));
    let present = if present.is_empty() { qos::class(before) } else { present };
    if present != qos::class(now) {
        errors.invalid(&SPEC, shown, "Pod QOS Class may not change as a result of resizing");
    }
    let running = array_field(old.get("status").unwrap_or(&Value::Null), "containerStatuses")
        .iter()
        .find(|status| status.pointer("/state/running").is_some_and(|state| !state.is_null()));
    if running.is_some_and(|status| status.get("resources").is_none_or(Value::is_null)) {
        errors.forbidden(&SPEC, "Pod running on node without support for resize");
    }
    if !same_containers(now, before, errors) {
        return;
    }
    let lists = ["initContainers", "containers"];
    for list in lists {
        let path = SPEC.child(list);
        for (i, (new, old)) in array_field(now, list).iter().zip(array_field(before, list)).enumerate() {
            let path = path.index(i);
            let path = path.child("resources");
            for (kind, what) in [("requests", "requests"), ("limits", "limits")] {
                if removes_resources(amounts(new, kind), amounts(old, kind)) {
                    errors.forbidden(&path.child(kind), format!("resource {what} cannot be removed"));
                }
            }
        }
    }
    for (new, old) in array_field(now, "containers").iter().zip(array_field(before, "containers")) {
        if !semantic_equal(Some(&with_old_resources(new, old)), Some(old)) {
            errors.forbidden(&SPEC, "only cpu and memory resources are mutable");
        }
    }
    let path = SPEC.child("initContainers");
    for (i, (new, old)) in
        array_field(now, "initContainers").iter().zip(array_field(before, "initContainers")).enumerate()
    {
        if !semantic_equal(Some(&with_old_resources(new, old)), Some(old)) {
            let why = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.forbidden(&path.index(i), why);
        }
        if str_field(new, "restartPolicy") != "Always" && !semantic_equal(Some(new), Some(old)) {
            let policies = array_field(new, "resizePolicy").iter();
            for _ in policies.filter(|policy| str_field(policy, "restartPolicy") == "RestartContainer") {
                let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.forbidden(&path.index(i), why);
            }
        }
    }
}

/// Returns true if the pod has the same containers in the same order, and adds errors otherwise.
fn same_containers(now: &Value, before: &Value, errors: &mut ErrorList) -> bool {
    let known = errors.len();
    for list in ["containers", "initContainers"] {
        let path = SPEC.child(list);
        let now = array_field(now, list);
        let before = array_field(before, list);
        if now.len() != before.len() {
            errors.forbidden(&path, format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (i, (new, old)) in now.iter().zip(before).enumerate() {
            if str_field(new, "name") != str_field(old, "name") {
                let why = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&path.index(i).child("name"), why);
            }
        }
    }
    errors.len() == known
}

fn amounts<'a>(container: &'a Value, kind: &str) -> Option<&'a Map> {
    container.get("resources")?.get(kind)?.as_object()
}

fn removes_resources(now: Option<&Map>, before: Option<&Map>) -> bool {
    before.is_some_and(|before| before.keys().any(|name| now.is_none_or(|now| !now.contains_key(name))))
}

/// Returns the container with the old amounts of resizable resources.
fn with_old_resources(new: &Value, old: &Value) -> Value {
    let mut munged = new.clone();
    for kind in ["limits", "requests"] {
        let Some(resources) = munged.get_mut("resources").and_then(Value::as_object_mut) else { continue };
        let Some(before) = amounts(old, kind) else {
            resources.remove(kind);
            continue;
        };
        let list = resources.entry(kind).or_insert_with(|| Value::Object(Map::new()));
        let Some(list) = list.as_object_mut() else { continue };
        for name in RESIZABLE {
            match before.get(name) {
                Some(amount) => list.insert(name.to_owned(), amount.clone()),
                None => list.remove(name),
            };
        }
    }
    munged
}

/// The features that a node must declare for a change of pod-level resources, and of those of init containers:
/// `staging/src/k8s.io/component-helpers/nodedeclaredfeatures/features/inplacepodresize`.
const POD_LEVEL_RESIZE: &str = "InPlacePodLevelResourcesVerticalScaling";
const INIT_RESIZE: &str = "InPlacePodVerticalScalingInitContainers";

/// The admission plugin `NodeDeclaredFeatureValidator`: the node of a pod supports what an update needs. Follows
/// `plugin/pkg/admission/nodedeclaredfeatures/admission.go`.
fn admit_features(new: &Value, old: &Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    let needed = needed_features(spec_of(new), spec_of(old));
    if needed.is_empty() {
        return Ok(());
    }
    let node_name = str_field(spec_of(new), "nodeName");
    let refuse = |why: &str| Status::forbidden(GroupResource::new("", "pods"), metadata::name(new), why);
    let Some(node) = ctx.lookup.get("", "nodes", "", node_name) else {
        return Err(refuse(&format!("node \"{node_name}\" not found")));
    };
    let declared = array_field(&node["status"], "declaredFeatures");
    let lacking: Vec<&str> =
        needed.into_iter().filter(|name| !declared.iter().any(|one| one.as_str() == Some(*name))).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let lacking = lacking.join(", ");
    Err(refuse(&format!("pod update requires features {lacking} which are not available on node \"{node_name}\"")))
}

/// Returns the features that an update needs: `InferForUpdate`.
fn needed_features(new: &Value, old: &Value) -> Vec<&'static str> {
    let mut needed = Vec::new();
    if !semantic_equal(new.get("resources"), old.get("resources")) {
        needed.push(POD_LEVEL_RESIZE);
    }
    let pairs = array_field(old, "initContainers").iter().zip(array_field(new, "initContainers"));
    let mut ordinary = pairs.filter(|(old, _)| old["restartPolicy"] != "Always");
    if ordinary.any(|(old, new)| !semantic_equal(new.get("resources"), old.get("resources"))) {
        needed.push(INIT_RESIZE);
    }
    needed
}

/// The admission plugins of updates: `NodeDeclaredFeatureValidator`, and `PodResizeValidator`, by which the requests of
/// a bound pod must fit its node.
pub(super) fn check_admission(
    subresource: &str,
    new: &Value,
    old: &Value,
    ctx: &StrategyContext<'_>,
) -> Result<(), Status> {
    let spec = spec_of(new);
    let node_name = str_field(spec, "nodeName");
    if node_name.is_empty() || metadata::generation(new) == metadata::generation(old) {
        return Ok(());
    }
    if matches!(subresource, "" | "resize") {
        admit_features(new, old, ctx)?;
    }
    if subresource != "resize" {
        return Ok(());
    }
    let refuse = |why: &str| Status::forbidden(GroupResource::new("", "pods"), metadata::name(new), why);
    let Some(node) = ctx.lookup.get("", "nodes", "", node_name) else {
        return Err(refuse(&format!("node \"{node_name}\" not found")));
    };
    let os = metadata::label(&node, "kubernetes.io/os").unwrap_or("linux");
    if os != "linux" {
        let why = format!("pod resize is only supported on linux nodes, node \"{node_name}\" is \"{os}\"");
        return Err(refuse(&why).with_cause("UnsupportedPlatform", String::new(), ""));
    }
    let mut lacking = Vec::new();
    for (name, unit) in [("cpu", 1000), ("memory", 1)] {
        let allocatable = node.pointer("/status/allocatable").and_then(|list| list.get(name));
        let allocatable = allocatable.map_or(0, |amount| quantity_in_units(amount, unit));
        let wanted = pod_request(spec, name, unit);
        if wanted > allocatable {
            lacking.push(format!("{name}, requested: {wanted}, allocatable: {allocatable}"));
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", lacking.join("; "));
    Err(refuse(&why).with_cause("NodeCapacity", String::new(), ""))
}

/// Converts an amount to units of `1/unit`, rounded up.
fn quantity_in_units(amount: &Value, unit: i128) -> i128 {
    let text = resource_list::quantity_text(amount);
    let Some(one) = Quantity::parse(&text) else { return 0 };
    let nothing = Quantity::parse("0").unwrap_or(one);
    (0..unit).fold(nothing, |sum, _| sum.plus(one)).ceil()
}

/// Returns a pod's request: the sum of containers and sidecars or the peak of the init phase, plus the overhead.
fn pod_request(spec: &Value, name: &str, unit: i128) -> i128 {
    let of = |container: &Value| {
        amounts(container, "requests").and_then(|list| list.get(name)).map_or(0, |a| quantity_in_units(a, unit))
    };
    let mut sidecars = 0;
    let mut start = 0;
    for container in array_field(spec, "initContainers") {
        if str_field(container, "restartPolicy") == "Always" {
            sidecars += of(container);
            start = start.max(sidecars);
        } else {
            start = start.max(sidecars + of(container));
        }
    }
    let running: i128 = array_field(spec, "containers").iter().map(of).sum::<i128>() + sidecars;
    let overhead =
        spec.get("overhead").and_then(|list| list.get(name)).map_or(0, |amount| quantity_in_units(amount, unit));
    running.max(start) + overhead
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn pod(spec: &Value) -> Value {
        json!({"metadata": {"name": "p", "namespace": "n", "labels": {"a": "b"}}, "spec": spec, "status": {}})
    }

    #[test]
    fn only_the_subresources_own_part_changes() {
        let old = pod(&json!({"containers": [{"name": "c", "image": "i"}]}));
        let mut new = pod(&json!({"nodeName": "x", "containers": [
            {"name": "c", "image": "other", "resources": {"requests": {"cpu": "1"}}}]}));
        new["metadata"]["labels"] = json!({});
        let mut ephemeral = new.clone();
        restrict_to_subresource("ephemeralcontainers", &mut ephemeral, &old);
        assert_eq!(ephemeral, old);
        restrict_to_subresource("resize", &mut new, &old);
        assert_eq!(
            new["spec"],
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]})
        );
        assert_eq!(new["metadata"], old["metadata"]);
    }

    #[rstest]
    #[case::more(json!({"requests": {"cpu": "2"}}), true)]
    #[case::new_limit(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}), true)]
    #[case::less(json!({"requests": {}}), false)]
    #[case::another(json!({"requests": {"cpu": "1", "example.com/x": "1"}}), false)]
    fn amounts_may_change(#[case] resources: Value, #[case] accepted: bool) {
        let old = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        let new = json!({"name": "c", "resources": resources});
        let same = semantic_equal(Some(&with_old_resources(&new, &old)), Some(&old));
        assert_eq!(same && !removes_resources(amounts(&new, "requests"), amounts(&old, "requests")), accepted);
    }

    #[rstest]
    #[case::nothing(json!({"initContainers": [{"name": "i"}]}), &[])]
    #[case::pod(json!({"resources": {"requests": {"cpu": "2"}}, "initContainers": [{"name": "i"}]}), &[POD_LEVEL_RESIZE])]
    #[case::init(json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]}), &[INIT_RESIZE])]
    fn updates_need_features(#[case] new: Value, #[case] expected: &[&str]) {
        let old = json!({"initContainers": [{"name": "i"}]});
        assert_eq!(needed_features(&new, &old), expected);
        let sidecar = json!({"initContainers": [{"name": "i", "restartPolicy": "Always"}]});
        assert!(!needed_features(&new, &sidecar).contains(&INIT_RESIZE));
    }

    #[test]
    fn requests_count_the_largest_moment() {
        let spec = json!({
            "initContainers": [{"resources": {"requests": {"cpu": "3"}}}, {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}],
            "containers": [{"resources": {"requests": {"cpu": "1"}}}, {}], "overhead": {"cpu": "10m"},
        });
        assert_eq!(pod_request(&spec, "cpu", 1000), 3010);
    }
}
