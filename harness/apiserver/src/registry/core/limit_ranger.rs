//! `LimitRanger` admission: default requests and limits of containers, and bounds of pods and volume claims.
//!
//! See `plugin/pkg/admission/limitranger/admission.go`.

use std::collections::BTreeSet;

use crate::json::fields::{array_field, object_or_insert, str_field};
use crate::json::{Map, Value};
use crate::metadata;
use crate::quantity::Quantity;
use crate::registry::resource_list::{ResourceList, amounts, container_resources};
use crate::registry::strategy::StrategyContext;
use crate::status::{GroupResource, Status};

const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

fn limits(range: &Value) -> &[Value] {
    range.get("spec").map_or(&[][..], |spec| array_field(spec, "limits"))
}

/// Returns the limit ranges for a pod that is new or resized; none for one that is being deleted.
fn ranges(pod: &Value, old: Option<&Value>, ctx: &StrategyContext<'_>) -> Vec<Value> {
    if old.is_some_and(metadata::is_deleted) {
        return Vec::new();
    }
    ctx.lookup.list("", "limitranges", metadata::namespace(pod))
}

/// Gives the containers of a pod that is new or resized the defaults of the limit ranges of its namespace.
pub(super) fn default_pod(pod: &mut Value, old: Option<&Value>, ctx: &StrategyContext<'_>) {
    for range in ranges(pod, old, ctx) {
        let of_containers: Vec<&Value> =
            limits(&range).iter().filter(|limit| str_field(limit, "type") == "Container").collect();
        set_defaults(pod, &of_containers);
    }
}

/// Checks a pod that is new or resized against the limit ranges of its namespace.
///
/// # Errors
///
/// 403 that lists all violated bounds.
pub(super) fn check_pod(pod: &Value, old: Option<&Value>, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    for range in ranges(pod, old, ctx) {
        let mut broken = Vec::new();
        for limit in limits(&range) {
            check(pod, limit, &mut broken);
        }
        forbid("pods", pod, broken)?;
    }
    Ok(())
}

/// Merges the defaults of a range's limits; later ones take precedence.
fn merge_defaults(limits: &[&Value], field: &str) -> Map {
    limits
        .iter()
        .filter_map(|l| l.get(field).and_then(Value::as_object))
        .flatten()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

fn set_defaults(pod: &mut Value, limits: &[&Value]) {
    let requests = merge_defaults(limits, "defaultRequest");
    let bounds = merge_defaults(limits, "default");
    if requests.is_empty() && bounds.is_empty() {
        return;
    }
    let mut notes = Vec::new();
    for field in CONTAINERS {
        let containers = pod.pointer_mut(&format!("/spec/{field}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let what = if field == "containers" { "container" } else { "init container" };
            let name = str_field(container, "name").to_owned();
            for (kind, values) in [("request", &requests), ("limit", &bounds)] {
                let set = fill_missing(container, &format!("{kind}s"), values);
                if !set.is_empty() {
                    notes.push(format!("{} {kind} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if notes.is_empty() {
        return;
    }
    let Some(metadata) = pod.get_mut("metadata") else { return };
    if let Some(annotations) = object_or_insert(metadata, "annotations") {
        let text = format!("LimitRanger plugin set: {}", notes.join("; "));
        annotations.insert("kubernetes.io/limit-ranger", text.into());
    }
}

/// Fills in missing resources; returns their names.
fn fill_missing(container: &mut Value, list: &str, values: &Map) -> Vec<String> {
    let mut set = Vec::new();
    if values.is_empty() {
        return set;
    }
    if object_or_insert(container, "resources").is_none() {
        return set;
    }
    let Some(target) = container.get_mut("resources").and_then(|r| object_or_insert(r, list)) else { return set };
    for (name, value) in values {
        if !target.contains_key(name) {
            target.insert(name.clone(), value.clone());
            set.push(name.to_string());
        }
    }
    set
}

/// Checks a limit against each container or against the pod as a whole, depending on its type.
fn check(pod: &Value, limit: &Value, broken: &mut Vec<String>) {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    match str_field(limit, "type") {
        "Container" => {
            for container in CONTAINERS.iter().flat_map(|field| array_field(spec, field)) {
                let of = |field: &str| amounts(container.pointer(&format!("/resources/{field}")));
                check_bounds("Container", limit, &of("requests"), Some(&of("limits")), broken);
            }
        }
        "Pod" => {
            check_bounds("Pod", limit, &pod_amounts(spec, "requests"), Some(&pod_amounts(spec, "limits")), broken);
        }
        _ => {}
    }
}

/// Returns the amounts of a pod, without its overhead: `podRequests` and `podLimits`.
fn pod_amounts(spec: &Value, field: &str) -> ResourceList {
    let mut total = container_resources(spec, field);
    let own = amounts(spec.pointer(&format!("/resources/{field}")));
    total.extend(own.into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")));
    total
}

/// Checks the bounds of one limit. `limits` is `None` for objects that have only requests.
fn check_bounds(
    what: &str,
    limit: &Value,
    requests: &ResourceList,
    limits: Option<&ResourceList>,
    broken: &mut Vec<String>,
) {
    let bounds = |field: &str| amounts(limit.get(field));
    let most_given = |name: &str| limits.and_then(|limits| limits.get(name)).copied();
    for (name, least) in bounds("min") {
        let broke = match (requests.get(&name), most_given(&name)) {
            (None, _) => "  No request is specified".to_owned(),
            (Some(request), _) if *request < least => format!("but request is {request}"),
            (_, Some(given)) if given < least => format!("but limit is {given}"),
            _ => continue,
        };
        broken.push(violation_message("minimum", &name, what, least, &broke));
    }
    for (name, most) in bounds("max") {
        let request = requests.get(&name).copied();
        let broke = match (most_given(&name), request) {
            (None, None) if limits.is_none() => "  No request is specified".to_owned(),
            (None, _) if limits.is_some() => "  No limit is specified".to_owned(),
            (Some(given), _) if given > most => format!("but limit is {given}"),
            (_, Some(request)) if request > most => format!("but request is {request}"),
            _ => continue,
        };
        broken.push(violation_message("maximum", &name, what, most, &broke));
    }
    for (name, widest) in bounds("maxLimitRequestRatio") {
        let start = format!("{name} max limit to request ratio per {what} is {widest}, but");
        let some = |amount: Option<Quantity>| amount.filter(|amount| amount.sign() != 0).map(Quantity::to_f64);
        match (some(requests.get(&name).copied()), some(most_given(&name))) {
            (None, _) => broken.push(format!("{start} no request is specified or request is 0")),
            (_, None) => broken.push(format!("{start} no limit is specified or limit is 0")),
            (Some(request), Some(given)) if given / request > widest.to_f64() => {
                broken.push(format!("{start} provided ratio is {:.6}", given / request));
            }
            _ => {}
        }
    }
}

fn violation_message(which: &str, name: &str, what: &str, bound: Quantity, broke: &str) -> String {
    let stop = if broke.starts_with(' ') { "." } else { ", " };
    format!("{which} {name} usage per {what} is {bound}{stop}{broke}")
}

/// Checks a volume claim against the limit ranges of its namespace.
///
/// # Errors
///
/// 403 that lists all violated bounds.
pub(in crate::registry) fn check_claim(claim: &Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
    let namespace = metadata::namespace(claim);
    let requests = amounts(claim.pointer("/spec/resources/requests"));
    for range in ctx.lookup.list("", "limitranges", namespace) {
        let mut broken = Vec::new();
        for limit in limits(&range).iter().filter(|limit| str_field(limit, "type") == "PersistentVolumeClaim") {
            check_bounds("PersistentVolumeClaim", limit, &requests, None, &mut broken);
        }
        forbid("persistentvolumeclaims", claim, broken)?;
    }
    Ok(())
}

/// Refuses an object with the texts of violations, each once: `NewAggregate` in
/// `staging/src/k8s.io/apimachinery/pkg/util/errors/errors.go`.
fn forbid(resource: &str, object: &Value, broken: Vec<String>) -> Result<(), Status> {
    let mut known = BTreeSet::new();
    let mut broken: Vec<String> = broken.into_iter().filter(|text| known.insert(text.clone())).collect();
    let why = match broken.len() {
        0 => return Ok(()),
        1 => broken.remove(0),
        _ => format!("[{}]", broken.join(", ")),
    };
    Err(Status::forbidden(GroupResource::new("", resource), metadata::admitted_name(object), &why))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    use crate::json::json;
    use crate::registry::lister::ObjectLister;

    struct Ranges(Value);

    impl ObjectLister for Ranges {
        fn get(&self, _: &str, _: &str, _: &str, _: &str) -> Option<Value> {
            None
        }

        fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
            vec![json!({"spec": {"limits": [self.0]}})]
        }
    }

    fn pod(resources: Value) -> Value {
        json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    #[test]
    fn containers_get_their_defaults() {
        let ranges = Ranges(json!({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}));
        let ctx = StrategyContext::of_test(&ranges);
        let mut given = pod(json!({}));
        default_pod(&mut given, None, &ctx);
        let expected = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}});
        assert_eq!(given["spec"]["containers"][0]["resources"], expected);
        let note = "LimitRanger plugin set: cpu request for container c; cpu limit for container c";
        assert_eq!(given["metadata"]["annotations"]["kubernetes.io/limit-ranger"], note);
    }

    #[rstest]
    #[case::max(json!({"type": "Container", "max": {"cpu": "1"}}), json!({"limits": {"cpu": "2"}}), "maximum cpu usage per Container is 1, but limit is 2")]
    #[case::nothing_said(json!({"type": "Container", "min": {"cpu": "1"}}), json!({}), "minimum cpu usage per Container is 1.  No request is specified")]
    #[case::pod(json!({"type": "Pod", "max": {"cpu": "1"}}), json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}), "maximum cpu usage per Pod is 1, but limit is 2")]
    #[case::ratio(json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "5"}}), json!({"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}), "cpu max limit to request ratio per Container is 5, but provided ratio is 10.000000")]
    #[case::two(json!({"type": "Container", "min": {"cpu": "2", "memory": "2"}}), json!({"requests": {"cpu": "1", "memory": "1"}}), "[minimum cpu usage per Container is 2, but request is 1, minimum memory usage per Container is 2, but request is 1]")]
    fn bounds_are_kept(#[case] limit: Value, #[case] resources: Value, #[case] why: &str) {
        let ranges = Ranges(limit);
        let ctx = StrategyContext::of_test(&ranges);
        let refused = check_pod(&pod(resources), None, &ctx).expect_err("out of bounds");
        assert_eq!(refused.message, format!("pods \"p\" is forbidden: {why}"));
    }

    #[test]
    fn the_amounts_of_a_pod_have_no_overhead() {
        let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}}}]);
        let own = json!({"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}});
        let spec = json!({"containers": containers, "overhead": {"cpu": "1"}, "resources": own});
        let found: Vec<String> =
            pod_amounts(&spec, "requests").into_iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(found, ["cpu=3", "hugepages-2Mi=2Mi"]);
    }

    #[test]
    fn the_same_violation_of_two_containers_is_named_once() {
        let ranges = Ranges(json!({"type": "Container", "min": {"cpu": "1"}}));
        let ctx = StrategyContext::of_test(&ranges);
        let two = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let refused = check_pod(&two, None, &ctx).expect_err("out of bounds");
        let why = "minimum cpu usage per Container is 1.  No request is specified";
        assert_eq!(refused.message, format!("pods \"p\" is forbidden: {why}"));
    }

    #[rstest]
    #[case("10Gi", Some("maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi"))]
    #[case("1Mi", Some("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"))]
    #[case("2Gi", None)]
    fn claims_are_bounded(#[case] wanted: &str, #[case] why: Option<&str>) {
        let limit = json!({"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}, "min": {"storage": "1Gi"}});
        let ranges = Ranges(limit);
        let ctx = StrategyContext::of_test(&ranges);
        let claim = json!({"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": wanted}}}});
        let refused = check_claim(&claim, &ctx).err().map(|refused| refused.message);
        assert_eq!(refused, why.map(|why| format!("persistentvolumeclaims \"c\" is forbidden: {why}")));
    }
}
