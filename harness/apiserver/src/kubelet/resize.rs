//! Resizes of running pods, and the resources of pods as a whole. PURE. See `handlePodResourcesResize` in
//! `pkg/kubelet/allocation/allocation_manager.go`, `convertToAPIPodLevelResourcesStatus` in
//! `pkg/kubelet/kubelet_pods.go`, and `pkg/kubelet/events/resize.go`.

use super::pod_conditions::condition;
use super::runs::LISTS;
use crate::json::fields::{array_field, is_empty_value};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::patch::strategic::without_conditions;
use crate::quantity::Quantity;
use crate::registry::resource_list::{ResourceList, pod_resources};

/// The condition of a pod whose resize waits.
const PENDING: &str = "PodResizePending";

/// The conditions of a resize.
const CONDITIONS: [&str; 2] = [PENDING, "PodResizeInProgress"];

/// Returns a pod with the resources that its containers have; `None` if they are those of its spec.
pub(super) fn allocated(pod: &Value) -> Option<Value> {
    let mut allocated: Option<Value> = None;
    for (list, statuses) in LISTS {
        for (index, container) in array_field(&pod["spec"], list).iter().enumerate() {
            let states = array_field(&pod["status"], statuses);
            let status = states.iter().find(|status| status["name"] == container["name"]).unwrap_or(&Value::Null);
            if is_changed(container, status) {
                let own = &mut allocated.get_or_insert_with(|| pod.clone())["spec"][list][index];
                own["resources"] = status["resources"].clone();
            }
        }
    }
    allocated
}

/// Returns true if a running container has other resources than its spec says.
fn is_changed(container: &Value, status: &Value) -> bool {
    let amount = |owner: &Value, kind: &str, name: &str| owner["resources"][kind].get(name).and_then(Quantity::of);
    let differs = |kind: &str, name: &str| amount(container, kind, name) != amount(status, kind, name);
    status["state"]["running"].is_object()
        && status["resources"].is_object()
        && ["requests", "limits"].iter().any(|kind| differs(kind, "cpu") || differs(kind, "memory"))
}

/// Returns true if the resize of a pod waits for room.
pub(super) fn is_deferred(pod: &Value) -> bool {
    pending(pod).is_some_and(|known| known["reason"] == "Deferred")
}

fn pending(pod: &Value) -> Option<&Value> {
    array_field(&pod["status"], "conditions").iter().find(|known| known["type"] == PENDING)
}

/// Returns the condition of a resize that waits, in a patch; `None` if it is known for this generation.
pub(super) fn deferred(pod: &Value, message: &str, moment: &str) -> Option<Value> {
    let generation = metadata::generation(pod);
    let is_known = pending(pod).is_some_and(|known| known["observedGeneration"].as_i64() == Some(generation));
    (!is_known).then(|| condition(pod, PENDING, true, "Deferred", message, moment))
}

/// Returns the patch of the conditions of a pod that is resized.
pub(super) fn without_conditions_of_resize(pod: &Value) -> Vec<Value> {
    without_conditions(pod, &CONDITIONS)
}

/// Returns the message of an Event about a resize: `podResizeMessage`.
pub(super) fn event_message(pod: &Value, what: &str, error: &str) -> String {
    let mut summary = Map::new();
    for list in ["initContainers", "containers"] {
        let all = array_field(&pod["spec"], list).iter();
        let all: Vec<Value> =
            all.map(|one| json!({"name": one["name"], "resources": shown(&one["resources"])})).collect();
        if !all.is_empty() {
            summary.insert(list, Value::from(all));
        }
    }
    let parts = ["initContainers", "containers"].iter().filter_map(|list| Some((list, summary.get(*list)?)));
    // The order is that of the fields in Go.
    let mut text: Vec<String> = parts.map(|(list, all)| format!("\"{list}\":{all}")).collect();
    text.push(format!("\"generation\":{}", metadata::generation(pod)));
    if !error.is_empty() {
        text.push(format!("\"error\":{}", json!(error)));
    }
    format!("Pod resize {what}: {{{}}}", text.join(","))
}

fn shown(resources: &Value) -> Value {
    let mut shown = json!({});
    for kind in ["claims", "limits", "requests"] {
        if let Some(amounts) = resources.get(kind).filter(|amounts| !is_empty_value(Some(amounts))) {
            shown[kind] = amounts.clone();
        }
    }
    shown
}

/// Sets the resources of a pod as a whole in its new status: what it requests, and what its control group has once it
/// runs.
pub(super) fn set_of_pod(status: &mut Value, pod: &Value) {
    let spec = json!({"spec": pod["spec"]});
    let [requests, limits] = ["requests", "limits"].map(|field| pod_resources(&spec, field));
    let is_running = status["phase"] == "Running";
    let own = |kind: &str, name: &str| pod["spec"]["resources"][kind].get(name).is_some();
    let lists = ["initContainers", "containers"];
    let all_limit = |name: &str| {
        let mut all = lists.iter().flat_map(|list| array_field(&pod["spec"], list));
        all.all(|one| one["resources"]["limits"].get(name).and_then(Quantity::of).is_some_and(|most| most.sign() > 0))
    };
    let is_shown = |kind: &str, name: &str| {
        let of_group = matches!(name, "cpu" | "memory") && (kind == "requests" || all_limit(name));
        !is_running || own(kind, name) || of_group
    };
    let list = |kind: &'static str, amounts: &ResourceList| {
        let shown = amounts.iter().filter(|(name, _)| is_shown(kind, name));
        shown.map(|(name, amount)| (name.clone(), json!(amount.to_string()))).collect::<Map>()
    };
    let mut resources = json!({});
    for (kind, amounts) in [("limits", list("limits", &limits)), ("requests", list("requests", &requests))] {
        let known = &pod["status"]["resources"][kind];
        if let Some(amounts) = replaced(known, amounts) {
            resources[kind] = amounts;
        }
    }
    status["resources"] = resources;
    let allocated = requests.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string()))).collect();
    if let Some(amounts) = replaced(&pod["status"]["allocatedResources"], allocated) {
        status["allocatedResources"] = amounts;
    }
}

/// Returns a map in a patch that removes the other members of the known one; `None` if there is nothing in both.
fn replaced(known: &Value, mut wanted: Map) -> Option<Value> {
    for (name, _) in known.as_object().into_iter().flatten() {
        if wanted.get(name.as_str()).is_none() {
            wanted.insert(name.clone(), Value::Null);
        }
    }
    (!wanted.is_empty()).then_some(Value::Object(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::fields::str_field;

    /// Returns the resources of a pod's containers by their names.
    fn by_name(pod: &Value) -> Vec<(&str, &Value)> {
        array_field(&pod["spec"], "containers").iter().map(|one| (str_field(one, "name"), &one["resources"])).collect()
    }

    fn container(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
    }

    fn status(name: &str, cpu: &str) -> Value {
        let mut status = container(name, cpu);
        status["state"] = json!({"running": {}});
        status
    }

    #[test]
    fn a_pod_has_what_its_containers_have() {
        let mut pod = json!({"spec": {"containers": [container("a", "1"), container("b", "2")]},
            "status": {"containerStatuses": [status("a", "1000m"), status("b", "2")]}});
        assert_eq!(allocated(&pod), None);
        pod["status"]["containerStatuses"][1] = status("b", "1");
        let found = allocated(&pod).expect("a resize");
        let expected = [("a", &json!({"requests": {"cpu": "1"}})), ("b", &json!({"requests": {"cpu": "1"}}))];
        assert_eq!(by_name(&found), expected);
    }

    /// `TestPodResizeCompletedMsg` and `TestPodResizePendingMsg` in `pkg/kubelet/events/resize_test.go`.
    #[test]
    fn events_name_the_resources() {
        let limited = json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}});
        let mut pod = json!({"metadata": {"generation": 2}, "spec": {
            "initContainers": [{"name": "c0", "resources": limited}],
            "containers": [{"name": "c1", "resources": {"limits": {"memory": "200"}, "requests": {"memory": "100"}}},
                {"name": "c2", "resources": {"requests": {"cpu": "200m", "memory": "100"}}}]}});
        let expected = "Pod resize completed: {\"initContainers\":[{\"name\":\"c0\",\"resources\":{\"limits\":{\"cpu\":\
            \"200m\"},\"requests\":{\"cpu\":\"100m\"}}}],\"containers\":[{\"name\":\"c1\",\"resources\":{\"limits\":{\
            \"memory\":\"200\"},\"requests\":{\"memory\":\"100\"}}},{\"name\":\"c2\",\"resources\":{\"requests\":{\"cpu\":\
            \"200m\",\"memory\":\"100\"}}}],\"generation\":2}";
        assert_eq!(event_message(&pod, "completed", ""), expected);
        pod["spec"] = json!({"containers": [{"name": "c0"}]});
        let expected = "Pod resize Deferred: {\"containers\":[{\"name\":\"c0\",\"resources\":{}}],\"generation\":2,\
            \"error\":\"no room\"}";
        assert_eq!(event_message(&pod, "Deferred", "no room"), expected);
    }

    /// `getEffectiveAllocatedResources`, and `ResourceConfigForPod` in `pkg/kubelet/cm/helpers_linux.go`: a control
    /// group has a limit only if all containers have one.
    #[test]
    fn a_pod_shows_what_its_containers_request_together() {
        let resources = |limits: Value| json!({"requests": {"cpu": "100m", "example.com/x": "1"}, "limits": limits});
        let mut pod = json!({"spec": {"containers": [
            {"name": "a", "resources": resources(json!({"cpu": "1", "memory": "1Gi"}))},
            {"name": "b", "resources": resources(json!({"memory": "1Gi"}))}]}});
        let mut status = json!({"phase": "Running"});
        set_of_pod(&mut status, &pod);
        let expected = json!({"limits": {"memory": "2Gi"}, "requests": {"cpu": "200m"}});
        assert_eq!(status["resources"], expected);
        assert_eq!(status["allocatedResources"], json!({"cpu": "200m", "example.com/x": "2"}));
        let mut pending = json!({"phase": "Pending"});
        set_of_pod(&mut pending, &pod);
        let expected =
            json!({"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "200m", "example.com/x": "2"}});
        assert_eq!(pending["resources"], expected);
        // A patch takes away what is not there any more.
        pod["status"] = pending;
        let mut status = json!({"phase": "Running"});
        set_of_pod(&mut status, &pod);
        let expected =
            json!({"limits": {"cpu": null, "memory": "2Gi"}, "requests": {"cpu": "200m", "example.com/x": null}});
        assert_eq!(status["resources"], expected);
        let mut none = json!({"phase": "Running"});
        set_of_pod(&mut none, &json!({"spec": {"containers": [{"name": "c"}]}}));
        assert_eq!(none, json!({"phase": "Running", "resources": {}}));
    }
}
