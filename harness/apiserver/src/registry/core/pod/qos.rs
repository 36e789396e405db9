//! The quality-of-service class of a pod. See `pkg/apis/core/v1/helper/qos/qos.go`.

use crate::json::Value;
use crate::json::fields::array_field;
use crate::quantity::Quantity;
use crate::registry::resource_list;

/// Returns the class: `Guaranteed` if every container's cpu and memory limits equal its requests, `BestEffort` if no
/// container has requests or limits for them, otherwise `Burstable`. Pod-level resources take precedence over the
/// containers'.
pub(crate) fn class(spec: &Value) -> &'static str {
    let mut seen = false;
    let mut guaranteed = true;
    if let Some(resources) = spec.get("resources").filter(|r| is_given(r)) {
        update_class(resources, &mut seen, &mut guaranteed);
    } else {
        for field in ["containers", "initContainers"] {
            for container in array_field(spec, field) {
                update_class(container.get("resources").unwrap_or(&Value::Null), &mut seen, &mut guaranteed);
            }
        }
    }
    match (seen, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn is_given(resources: &Value) -> bool {
    ["limits", "requests"].iter().any(|f| resources.get(*f).and_then(Value::as_object).is_some_and(|m| !m.is_empty()))
}

fn update_class(resources: &Value, seen: &mut bool, guaranteed: &mut bool) {
    for name in ["cpu", "memory"] {
        let of = |field: &str| {
            let text = resource_list::quantity_text(resources.get(field)?.get(name)?);
            Quantity::parse(&text).filter(|q| q.sign() > 0)
        };
        let request = of("requests");
        let limit = of("limits");
        *seen |= request.is_some() || limit.is_some();
        *guaranteed &= limit.is_some() && limit == request;
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case::nothing(json!({}), "BestEffort")]
    #[case::requests(json!({"requests": {"cpu": "1"}}), "Burstable")]
    #[case::one_limit(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), "Burstable")]
    #[case::all_equal(json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}}), "Guaranteed")]
    #[case::unequal(json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}), "Burstable")]
    #[case::zero(json!({"requests": {"cpu": "0"}}), "BestEffort")]
    #[case::other(json!({"requests": {"ephemeral-storage": "1"}}), "BestEffort")]
    fn classes(#[case] resources: Value, #[case] expected: &str) {
        assert_eq!(class(&json!({"containers": [{"resources": resources}]})), expected);
    }
}
