//! The status of one container, as a kubelet reports it: `convertToAPIContainerStatuses` in
//! `pkg/kubelet/kubelet_pods.go`. PURE.

use super::restarts::{self, image_id};
use super::runs::{EPHEMERAL, killed_code};
use crate::json::fields::{array_field, is_empty_value, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::pod_fields::is_sidecar;

/// Returns the container that a status is about.
pub(super) fn container_of<'p>(pod: &'p Value, list: &str, status: &Value) -> Option<&'p Value> {
    array_field(&pod["spec"], list).iter().find(|one| one["name"] == status["name"])
}

/// Returns the number of times that a container has started again.
pub(super) fn restart_count(status: &Value) -> u64 {
    status["restartCount"].as_u64().unwrap_or(0)
}

/// Returns the state of a container that has begun, with the resources of its spec.
pub(super) fn kept(before: &Value, container: &Value) -> Value {
    let mut status = before.clone();
    if status["state"]["running"].is_object() {
        set_resources(&mut status, container);
    }
    status
}

/// Returns the state of a running container that is ended because another one takes its place; `None` if none does.
pub(super) fn replaced(pod: &Value, list: &str, container: &Value, status: &Value, moment: &str) -> Option<Value> {
    restarts::message(list, container, status)?;
    let mut ended = status.clone();
    ended["lastState"] = terminated(status, killed_code(pod), moment);
    Some(ended)
}

/// Returns the state of a container that starts now.
pub(super) fn running(pod: &Value, list: &str, container: &Value, before: Option<&Value>, moment: &str) -> Value {
    let image = str_field(container, "image");
    let is_init = list == "initContainers" && !is_sidecar(container);
    let restarts = before.map_or(0, restart_count);
    let mut status = json!({"name": container["name"], "image": image, "imageID": image_id(image),
        "containerID": container_id(pod, container, restarts), "ready": !is_init && list != EPHEMERAL,
        "restartCount": restarts, "state": {"running": {"startedAt": moment}}});
    if list != EPHEMERAL {
        status["started"] = json!(true);
    }
    keep_last_state(&mut status, before);
    set_mounts(&mut status, container);
    set_resources(&mut status, container);
    status
}

/// Returns the state of a container that starts again now.
pub(super) fn restarted(pod: &Value, list: &str, container: &Value, status: &Value, moment: &str) -> Value {
    let restarts = restart_count(status) + 1;
    let mut after = running(pod, list, container, Some(status), moment);
    after["restartCount"] = json!(restarts);
    after["containerID"] = json!(container_id(pod, container, restarts));
    after
}

/// Returns the identifier of a container, another one after each restart.
fn container_id(pod: &Value, container: &Value, restarts: u64) -> String {
    let id = format!("plumbline://{}/{}", metadata::uid(pod), str_field(container, "name"));
    if restarts == 0 { id } else { format!("{id}/{restarts}") }
}

/// Returns the state of a container that waits.
pub(super) fn waiting(list: &str, container: &Value, before: Option<&Value>, reason: &str, message: &str) -> Value {
    let mut state = json!({"reason": reason});
    if !message.is_empty() {
        state["message"] = message.into();
    }
    let mut status = json!({"name": container["name"], "image": str_field(container, "image"), "imageID": "",
        "ready": false, "restartCount": before.map_or(0, restart_count), "state": {"waiting": state}});
    if list != EPHEMERAL {
        status["started"] = json!(false);
    }
    keep_last_state(&mut status, before);
    set_mounts(&mut status, container);
    status
}

/// Returns the state of a container that ends now.
pub(super) fn terminated(status: &Value, code: i64, moment: &str) -> Value {
    let started = status["state"]["running"]["startedAt"].clone();
    let reason = if code == 0 { "Completed" } else { "Error" };
    let mut end = json!({"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": moment});
    if let Some(id) = status.get("containerID") {
        end["containerID"] = id.clone();
    }
    json!({"terminated": end})
}

fn keep_last_state(status: &mut Value, before: Option<&Value>) {
    if let Some(last) = before.and_then(|before| before.get("lastState")) {
        status["lastState"] = last.clone();
    }
}

/// Sets the mounts of a container. Those that are only read are so recursively if that is asked for.
fn set_mounts(status: &mut Value, container: &Value) {
    let mount = |mount: &Value| {
        let mut shown = json!({"name": mount["name"], "mountPath": mount["mountPath"]});
        if mount["readOnly"] == true {
            shown["readOnly"] = json!(true);
            let is_recursive = matches!(str_field(mount, "recursiveReadOnly"), "Enabled" | "IfPossible");
            shown["recursiveReadOnly"] = json!(if is_recursive { "Enabled" } else { "Disabled" });
        }
        shown
    };
    let mounts: Vec<Value> = array_field(container, "volumeMounts").iter().map(mount).collect();
    if !mounts.is_empty() {
        status["volumeMounts"] = mounts.into();
    }
}

/// Sets the resources that a container has: those of its spec. A kubelet that can change them reports them for every
/// container.
fn set_resources(status: &mut Value, container: &Value) {
    let resources = &container["resources"];
    let mut shown = json!({});
    for field in ["claims", "limits", "requests"] {
        if let Some(amounts) = resources.get(field).filter(|amounts| !is_empty_value(Some(amounts))) {
            shown[field] = amounts.clone();
        }
    }
    if let Some(requests) = shown.get("requests") {
        status["allocatedResources"] = requests.clone();
    }
    status["resources"] = shown;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `status.VolumeMounts` of `convertToAPIContainerStatuses`, and `resolveRecursiveReadOnly` in `kubelet_pods.go`.
    #[test]
    fn a_container_shows_its_mounts() {
        let mounts = json!([{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b", "readOnly": true},
            {"name": "c", "mountPath": "/c", "readOnly": true, "recursiveReadOnly": "IfPossible"}]);
        let container = json!({"name": "c", "image": "i", "volumeMounts": mounts});
        let shown = json!([{"name": "a", "mountPath": "/a"},
            {"name": "b", "mountPath": "/b", "readOnly": true, "recursiveReadOnly": "Disabled"},
            {"name": "c", "mountPath": "/c", "readOnly": true, "recursiveReadOnly": "Enabled"}]);
        let pod = json!({"metadata": {"uid": "u"}});
        assert_eq!(running(&pod, "containers", &container, None, "t")["volumeMounts"], shown);
        assert_eq!(waiting("containers", &container, None, "ContainerCreating", "")["volumeMounts"], shown);
    }

    #[test]
    fn a_replaced_container_is_another_one() {
        let pod = json!({"metadata": {"uid": "u"}, "spec": {"restartPolicy": "Always"}});
        let container = json!({"name": "c", "image": "a"});
        let first = running(&pod, "containers", &container, None, "t");
        assert_eq!(replaced(&pod, "containers", &container, &first, "u"), None);
        let changed = json!({"name": "c", "image": "b"});
        let ended = replaced(&pod, "containers", &changed, &first, "u").expect("another image");
        let second = restarted(&pod, "containers", &changed, &ended, "u");
        assert_eq!((&second["image"], &second["restartCount"]), (&json!("b"), &json!(1)));
        assert_eq!(second["state"]["running"]["startedAt"], "u");
        let last = &second["lastState"]["terminated"];
        assert_eq!((&last["exitCode"], &last["finishedAt"]), (&json!(0), &json!("u")));
        assert_eq!(last["containerID"], first["containerID"]);
        assert_ne!(second["containerID"], first["containerID"]);
    }
}
