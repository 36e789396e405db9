//! Amounts of resources: lists of them, and what a pod requests. See `pkg/apis/core/types.go` (`ResourceList`) and
//! `staging/src/k8s.io/component-helpers/resource/helpers.go`. PURE.

use std::collections::BTreeMap;

use crate::json::fields::{array_field, object_mut, str_field};
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
    let of = |container: &Value| amounts(container.pointer(&format!("/resources/{field}")));
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

/// Returns the resources of a pod: its own or those of its containers, plus the overhead.
pub(crate) fn pod_resources(pod: &Value, field: &str) -> ResourceList {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut total = container_resources(spec, field);
    total.extend(amounts(spec.pointer(&format!("/resources/{field}"))));
    for (name, amount) in amounts(spec.get("overhead")) {
        match total.get_mut(&name) {
            Some(own) => *own = own.plus(amount),
            None if field == "requests" => {
                total.insert(name, amount);
            }
            None => {}
        }
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
        let parsed = match &*value {
            Value::String(text) => Quantity::parse(text),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        };
        if let Some(quantity) = parsed {
            let canonical = quantity.rounded_to_milli().to_string();
            if value.as_str() != Some(canonical.as_str()) {
                *value = canonical.into();
            }
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
