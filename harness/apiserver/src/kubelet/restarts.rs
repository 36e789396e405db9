//! Running containers that are replaced, because their image or what they may use has changed. PURE. See
//! `computePodActions` and `computePodResizeAction` in `pkg/kubelet/kuberuntime/kuberuntime_manager.go`, and
//! `computeInitContainerActions` in `kuberuntime_container.go` there.

use super::runs::{EPHEMERAL, LISTS};
use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::quantity::Quantity;

/// A container that is replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContainerReplacement {
    pub(super) list: &'static str,
    pub(super) container: String,
    /// The message of the Event `Killing`.
    pub(super) message: String,
}

/// Returns the containers of a pod that are replaced now.
pub(super) fn planned(pod: &Value) -> Vec<ContainerReplacement> {
    let of_list = |(list, statuses): (&'static str, &str)| {
        let states = array_field(&pod["status"], statuses);
        let containers = array_field(&pod["spec"], list).iter();
        let replaced = containers.filter_map(move |container| {
            let status = states.iter().find(|status| status["name"] == container["name"])?;
            let message = message(list, container, status)?;
            Some(ContainerReplacement { list, container: str_field(container, "name").to_owned(), message })
        });
        replaced.collect::<Vec<_>>()
    };
    LISTS.into_iter().flat_map(of_list).collect()
}

/// Returns why a running container is replaced, as the Event says it.
pub(super) fn message(list: &str, container: &Value, status: &Value) -> Option<String> {
    let image = str_field(status, "image");
    // Containers whose state others write stay theirs.
    let is_ours = str_field(status, "imageID") == image_id(image);
    if !status["state"]["running"].is_object() || !is_ours || list == EPHEMERAL {
        return None;
    }
    let name = str_field(container, "name");
    if image != str_field(container, "image") {
        let restarted = format!("Container {name} definition changed, will be restarted");
        return Some(match list {
            "containers" => restarted,
            _ => format!("Init container {name} definition changed"),
        });
    }
    let changes = |resource: &str| ["requests", "limits"].iter().any(|kind| differs(container, status, kind, resource));
    let mut policies = array_field(container, "resizePolicy").iter();
    let is_restart = policies
        .any(|policy| policy["restartPolicy"] == "RestartContainer" && changes(str_field(policy, "resourceName")));
    is_restart.then(|| format!("Container {name} resize requires restart"))
}

/// Returns the identifier of an image of the simulation.
pub(super) fn image_id(image: &str) -> String {
    format!("plumbline://{image}")
}

fn differs(container: &Value, status: &Value, kind: &str, resource: &str) -> bool {
    let amount = |owner: &Value| owner["resources"][kind].get(resource).and_then(Quantity::of);
    amount(container) != amount(status)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    /// As `TestComputePodActions` and `TestComputePodActionsForPodResize` in `kuberuntime_manager_test.go`.
    #[rstest]
    #[case::same("containers", json!({}), None)]
    #[case::image("containers", json!({"image": "b"}), Some("Container c definition changed, will be restarted"))]
    #[case::sidecar("initContainers", json!({"image": "b", "restartPolicy": "Always"}), Some("Init container c definition changed"))]
    #[case::debugger("ephemeralContainers", json!({"image": "b"}), None)]
    #[case::cpu("containers", json!({"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}), None)]
    #[case::equal("containers", json!({"resources": {"requests": {"cpu": "1", "memory": "1024Mi"}}}), None)]
    #[case::memory("containers", json!({"resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}), Some("Container c resize requires restart"))]
    #[case::memory_limit("containers", json!({"resources": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}}),
        Some("Container c resize requires restart"))]
    fn changed_containers_are_replaced(#[case] list: &str, #[case] change: Value, #[case] expected: Option<&str>) {
        let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
        let mut container = json!({"name": "c", "image": "a", "resources": resources, "resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "RestartContainer"}]});
        container.as_object_mut().expect("fields").extend(change.as_object().expect("fields").clone());
        let mut status = json!({"name": "c", "image": "a", "imageID": image_id("a"), "resources": resources,
            "state": {"running": {}}});
        assert_eq!(message(list, &container, &status).as_deref(), expected);
        status["imageID"] = json!("sha256:0");
        assert_eq!(message(list, &container, &status), None, "of another kubelet");
    }
}
