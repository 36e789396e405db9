//! Amounts of resources: lists of them, and what a pod requests. See `pkg/apis/core/types.go` (`ResourceList`) and
//! `staging/src/k8s.io/component-helpers/resource/helpers.go`. PURE.

use std::collections::BTreeMap;

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, non_null, object_mut, str_field};
use crate::json::{Map, Value};
use crate::quantity::Quantity;

/// Amounts by resource name.
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

/// Returns the amounts of a resource list, without malformed ones.
pub(super) fn amounts(list: Option<&Value>) -> ResourceList {
    let list = list.and_then(Value::as_object).into_iter().flatten();
    list.filter_map(|(name, amount)| Some((name.to_string(), Quantity::of(amount)?))).collect()
}

/// Returns the resources of the containers of a pod: their sum or the peak of the init phase.
pub(super) fn container_resources(spec: &Value, field: &str) -> ResourceList {
    total_of_containers(spec, |container| amounts(container.pointer(&format!("/resources/{field}"))))
}

/// Like [`container_resources`] with the resources that `of` returns for each container.
fn total_of_containers(spec: &Value, of: impl Fn(&Value) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::new();
    for container in array_field(spec, "containers") {
        add_all(&mut total, &of(container));
    }
    let mut beside = ResourceList::new();
    let mut most = ResourceList::new();
    for container in array_field(spec, "initContainers") {
        let mut own = of(container);
        if str_field(container, "restartPolicy") == "Always" {
            add_all(&mut total, &own);
            add_all(&mut beside, &own);
            own.clone_from(&beside);
        } else {
            add_all(&mut own, &beside);
        }
        max_all(&mut most, &own);
    }
    max_all(&mut total, &most);
    total
}

/// Returns the resources of a pod: its own or those of its containers, plus the overhead. While it is resized, the
/// larger of what is wanted and what there is counts: `PodRequests` and `PodLimits` with `UseStatusResources`.
pub(crate) fn pod_resources(pod: &Value, field: &str) -> ResourceList {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut total = total_of_containers(spec, |container| {
        let state = state_of(pod, container).unwrap_or(&Value::Null);
        effective(pod, container, state, field)
    });
    let own =
        |(name, _): &(String, Quantity)| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
    total.extend(amounts(spec.pointer(&format!("/resources/{field}"))).into_iter().filter(own));
    for (name, amount) in amounts(spec.get("overhead")) {
        match total.get_mut(&name) {
            Some(own) if field == "requests" || own.sign() != 0 => *own = own.plus(amount),
            None if field == "requests" => {
                total.insert(name, amount);
            }
            _ => {}
        }
    }
    total
}

/// Returns the status of a container that can be resized.
fn state_of<'p>(pod: &'p Value, container: &Value) -> Option<&'p Value> {
    let name = str_field(container, "name");
    let of_list = |list: &str| array_field(&pod["status"], list).iter().find(|state| str_field(state, "name") == name);
    of_list("containerStatuses")
        .or_else(|| of_list("initContainerStatuses").filter(|_| str_field(container, "restartPolicy") == "Always"))
}

/// Returns the resources that count for a container: `determineEffectiveRequests` and `determineEffectiveLimits`.
fn effective(pod: &Value, container: &Value, state: &Value, field: &str) -> ResourceList {
    let wanted = amounts(container.pointer(&format!("/resources/{field}")));
    let Some(actual) = non_null(state, "resources") else { return wanted };
    let pending = array_field(&pod["status"], "conditions").iter().find(|one| one["type"] == "PodResizePending");
    let is_infeasible = pending.is_some_and(|condition| condition["reason"] == "Infeasible");
    let mut total = if is_infeasible { ResourceList::new() } else { wanted };
    max_all(&mut total, &amounts(actual.get(field)));
    if field == "requests" {
        max_all(&mut total, &amounts(state.get("allocatedResources")));
    }
    total
}

/// Adds amounts to a total.
pub(super) fn add_all(total: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        let sum = total.get(name).map_or(*amount, |own| own.plus(*amount));
        total.insert(name.clone(), sum);
    }
}

/// Raises amounts to those of `to`.
pub(super) fn max_all(total: &mut ResourceList, to: &ResourceList) {
    for (name, amount) in to {
        if total.get(name).is_none_or(|own| amount > own) {
            total.insert(name.clone(), *amount);
        }
    }
}

/// Converts the quantities of `limits` and `requests` to canonical form.
pub(super) fn resource_lists(resources: &mut Map) {
    for field in ["limits", "requests"] {
        quantities(resources, field);
    }
}

/// Converts the quantities in the map under `field` to canonical form, rounded up to thousandths.
pub(super) fn quantities(map: &mut Map, field: &str) {
    let Some(list) = object_mut(map, field) else { return };
    for value in list.values_mut() {
        let text = quantity_text(value);
        let Some(amount) = Quantity::parse(&text) else { continue };
        let rounded = amount.rounded_to_milli();
        let shown = if rounded == amount { Quantity::shown(&text).unwrap_or(text) } else { rounded.to_string() };
        if value.as_str() != Some(shown.as_str()) {
            *value = shown.into();
        }
    }
}

/// Returns the text of a quantity, which may be a JSON number.
pub(super) fn quantity_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// Refuses a negative amount: `validateBasicResource` in `pkg/apis/core/validation/validation.go`. It shows the value
/// rounded away from zero, as by `Quantity.Value`.
pub(super) fn basic_resource(amount: Quantity, path: &Path<'_>, errors: &mut ErrorList) {
    let value = amount.value();
    if value < 0 {
        errors.invalid(path, value, "must be a valid resource quantity");
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    /// `TestPodResourceRequests` and `TestPodResourceLimits` in
    /// `staging/src/k8s.io/component-helpers/resource/helpers_test.go`.
    #[rstest]
    #[case::no_state(json!({}), "1", "2")]
    #[case::smaller(json!({"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}},
        "allocatedResources": {"cpu": "5"}}]}), "5", "4")]
    #[case::larger(json!({"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}}]}),
        "1", "2")]
    #[case::infeasible(json!({"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}], "containerStatuses": [
        {"name": "c", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}}]}), "500m", "1")]
    #[case::other(json!({"containerStatuses": [{"name": "d", "resources": {"requests": {"cpu": "3"}}}]}), "1", "2")]
    fn the_state_of_a_resized_pod_counts(#[case] status: Value, #[case] requests: &str, #[case] limits: &str) {
        let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
        let pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}, "status": status});
        let cpu = |field: &str| pod_resources(&pod, field)["cpu"].to_string();
        assert_eq!((cpu("requests"), cpu("limits")), (requests.to_owned(), limits.to_owned()));
    }

    #[test]
    fn an_overhead_adds_to_limits_that_are_set() {
        let resources = json!({"requests": {"x.io/a": "1"}, "limits": {"cpu": "0", "memory": "1"}});
        let spec =
            json!({"containers": [{"name": "c", "resources": resources}], "overhead": {"cpu": "1", "memory": "1"}});
        let shown = |field: &str| -> Vec<String> {
            let all = pod_resources(&json!({"spec": spec}), field).into_iter();
            all.map(|(name, amount)| format!("{name}={amount}")).collect()
        };
        assert_eq!(shown("requests"), ["cpu=1", "memory=1", "x.io/a=1"]);
        assert_eq!(shown("limits"), ["cpu=0", "memory=2"]);
    }
}
