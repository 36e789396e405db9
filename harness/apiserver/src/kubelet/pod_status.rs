//! The status that a kubelet reports for a pod: which containers start, the phase and the conditions. PURE. See
//! `getPhase` and `convertToAPIContainerStatuses` in `pkg/kubelet/kubelet_pods.go`, `pkg/kubelet/status/generate.go`
//! and `computeInitContainerActions` in `pkg/kubelet/kuberuntime/kuberuntime_container.go`.

use std::time::Duration;

use jiff::Timestamp;

use super::config_refs::{self, Lookup};
use super::images;
use super::runs::{self, CRASH_LOOP, LISTS};
use crate::json::fields::{array_field, is_empty_value, str_field};
use crate::json::{Value, json};
use crate::metadata;

/// The time after which a container that ended has no pause before its next start: twice the longest pause.
const RECOVERED: Duration = Duration::from_mins(10);

/// The images and objects that containers need to start.
pub(super) struct Runtime<'r> {
    pub(super) missing_images: &'r [String],
    pub(super) lookup: &'r Lookup<'r>,
}

/// Returns the status of a pod all of whose containers run that can, and that keeps what has started or ended.
/// `addresses` are those of the pod and of its node.
pub(super) fn synced(pod: &Value, runtime: &Runtime<'_>, addresses: (&str, &str), moment: &str) -> Value {
    let is_mounted = has_sandbox(pod) || config_refs::unmounted(pod, runtime.lookup).is_empty();
    let (mut init, is_initialized) =
        if is_mounted { init_statuses(pod, runtime, moment) } else { (waiting_all(pod, "initContainers"), false) };
    let regular = regular_statuses(pod, is_mounted && is_initialized, runtime, moment);
    let phase = phase(pod, &init, &regular, is_initialized);
    if matches!(phase, "Succeeded" | "Failed") {
        // Sidecars end with the others.
        for sidecar in init.iter_mut().filter(|status| status["state"]["running"].is_object()) {
            sidecar["state"] = terminated(sidecar, 0, moment);
            sidecar["ready"] = json!(false);
            sidecar["started"] = json!(false);
        }
    }
    let mut status = json!({"phase": phase});
    let conditions = conditions(pod, &status, (&init, &regular), (is_mounted, is_initialized), moment);
    status["conditions"] = conditions.into();
    let host = addresses.1;
    if str_field(&pod["status"], "startTime").is_empty() {
        status["startTime"] = moment.into();
    }
    (status["hostIP"], status["hostIPs"]) = (json!(host), json!([{"ip": host}]));
    if is_mounted {
        let address = addresses.0;
        (status["podIP"], status["podIPs"]) = (json!(address), json!([{"ip": address}]));
    }
    status["containerStatuses"] = regular.into();
    set_observed_generation(&mut status, pod);
    if !init.is_empty() {
        status["initContainerStatuses"] = init.into();
    }
    status
}

/// Returns true if the status says that the pod's volumes were mounted.
fn has_sandbox(pod: &Value) -> bool {
    !str_field(&pod["status"], "podIP").is_empty() || pod["status"]["phase"] == "Running"
}

/// Returns the status that is known of a container.
fn known<'p>(pod: &'p Value, statuses: &str, container: &Value) -> Option<&'p Value> {
    array_field(&pod["status"], statuses).iter().find(|status| status["name"] == container["name"])
}

/// Returns the container that a status is about.
fn container_of<'p>(pod: &'p Value, list: &str, status: &Value) -> Option<&'p Value> {
    array_field(&pod["spec"], list).iter().find(|one| one["name"] == status["name"])
}

/// Returns the reason of containers that have not been tried yet.
fn first_reason(pod: &Value) -> &'static str {
    if array_field(&pod["spec"], "initContainers").is_empty() { "ContainerCreating" } else { "PodInitializing" }
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn waiting_all(pod: &Value, list: &str) -> Vec<Value> {
    array_field(&pod["spec"], list).iter().map(|container| waiting(container, None, first_reason(pod), "")).collect()
}

/// Starts the containers of init one after the other. Returns their states, and true if all are done.
fn init_statuses(pod: &Value, runtime: &Runtime<'_>, moment: &str) -> (Vec<Value>, bool) {
    let mut is_done = true;
    let mut all = Vec::new();
    for container in array_field(&pod["spec"], "initContainers") {
        let before = known(pod, "initContainerStatuses", container);
        let state = before.map_or(&Value::Null, |status| &status["state"]);
        let has_begun =
            state["running"].is_object() || state["terminated"].is_object() || state["waiting"]["reason"] == CRASH_LOOP;
        let status = match before {
            Some(before) if has_begun => kept(before, container),
            _ if is_done => first_start(pod, "initContainers", container, before, runtime, moment),
            _ => waiting(container, before, first_reason(pod), ""),
        };
        is_done &= if is_sidecar(container) {
            has_begun || status["started"] == true
        } else {
            status["state"]["terminated"]["exitCode"] == 0
        };
        all.push(status);
    }
    (all, is_done)
}

/// Starts the containers that have not been started yet.
fn regular_statuses(pod: &Value, may_start: bool, runtime: &Runtime<'_>, moment: &str) -> Vec<Value> {
    let containers = array_field(&pod["spec"], "containers").iter();
    let statuses = containers.map(|container| {
        let before = known(pod, "containerStatuses", container);
        let state = before.map_or(&Value::Null, |status| &status["state"]);
        let is_waiting = state["waiting"].is_object() && state["waiting"]["reason"] != CRASH_LOOP;
        match before {
            Some(before) if !state.is_null() && !is_waiting => kept(before, container),
            _ if may_start => first_start(pod, "containers", container, before, runtime, moment),
            _ => waiting(container, before, first_reason(pod), ""),
        }
    });
    statuses.collect()
}

/// Returns the state of a container that has begun, with the resources of its spec.
fn kept(before: &Value, container: &Value) -> Value {
    let mut status = before.clone();
    if status["state"]["running"].is_object() {
        set_resources(&mut status, container);
    }
    status
}

/// Starts a container, unless its image or its variables are missing.
fn first_start(
    pod: &Value,
    list: &str,
    container: &Value,
    before: Option<&Value>,
    runtime: &Runtime<'_>,
    moment: &str,
) -> Value {
    let image = str_field(container, "image");
    if images::is_missing(image, runtime.missing_images) {
        return waiting(container, before, images::WAITING, &format!("Back-off pulling image {image:?}"));
    }
    if let Some(why) = config_refs::container_problem(pod, container, runtime.lookup) {
        return waiting(container, before, "CreateContainerConfigError", &why);
    }
    let mut status = running(pod, list, container, before, moment);
    let ends = runs::end_of(pod, list, container, None).is_some() || is_pause(container);
    if list == "initContainers" && !is_sidecar(container) && !ends {
        // What its command does is unknown; it is done at once.
        status["state"] = terminated(&status, 0, moment);
        status["ready"] = json!(true);
        status["started"] = json!(false);
    }
    status
}

/// Returns true if the command of a container never ends.
fn is_pause(container: &Value) -> bool {
    super::commands::exit_of(container).is_some_and(|end| end.after.is_none())
}

/// Returns the state of a container that starts now.
fn running(pod: &Value, list: &str, container: &Value, before: Option<&Value>, moment: &str) -> Value {
    let image = str_field(container, "image");
    let is_init = list == "initContainers" && !is_sidecar(container);
    let mut status = json!({"name": container["name"], "image": image, "imageID": format!("plumbline://{image}"),
        "containerID": format!("plumbline://{}/{}", metadata::uid(pod), str_field(container, "name")),
        "ready": !is_init, "started": true,
        "restartCount": before.map_or(0, restart_count), "state": {"running": {"startedAt": moment}}});
    if let Some(last) = before.and_then(|before| before.get("lastState")) {
        status["lastState"] = last.clone();
    }
    set_resources(&mut status, container);
    status
}

fn restart_count(status: &Value) -> u64 {
    status["restartCount"].as_u64().unwrap_or(0)
}

/// Returns the state of a container that waits.
fn waiting(container: &Value, before: Option<&Value>, reason: &str, message: &str) -> Value {
    let mut state = json!({"reason": reason});
    if !message.is_empty() {
        state["message"] = message.into();
    }
    let mut status = json!({"name": container["name"], "image": str_field(container, "image"), "imageID": "",
        "ready": false, "started": false, "restartCount": before.map_or(0, restart_count), "state": {"waiting": state}});
    if let Some(last) = before.and_then(|before| before.get("lastState")) {
        status["lastState"] = last.clone();
    }
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

/// Sets the resources that a container has: those of its spec. A kubelet that can change them reports them for every
/// container (`convertToAPIContainerStatuses`).
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

/// Returns the pod after the changes of its containers that are due now: they end, or start again.
pub(super) fn changed(pod: &Value, run_for: Option<Duration>, now: Timestamp, moment: &str) -> Value {
    let mut after = pod.clone();
    for (list, statuses) in LISTS {
        let mut all = array_field(&pod["status"], statuses).to_vec();
        for status in &mut all {
            let Some(container) = container_of(pod, list, status) else { continue };
            let due = runs::until_change(pod, list, container, status, run_for, now);
            if due.is_none_or(|due| due >= Duration::from_secs(1)) {
                continue;
            }
            *status = if status["state"]["running"].is_object() {
                ended(pod, list, container, status, run_for, moment)
            } else {
                restarted(pod, list, container, status, moment)
            };
        }
        if !all.is_empty() {
            after["status"][statuses] = all.into();
        }
    }
    after
}

/// Returns the state of a container after its end.
fn ended(pod: &Value, list: &str, container: &Value, status: &Value, run_for: Option<Duration>, moment: &str) -> Value {
    let (ran, code) = runs::end_of(pod, list, container, run_for).unwrap_or_default();
    let mut after = status.clone();
    let end = terminated(status, code, moment);
    if !runs::restarts(pod, list, container, code) {
        after["state"] = end;
        after["ready"] = json!(list == "initContainers" && code == 0);
        after["started"] = json!(false);
        return after;
    }
    after["lastState"] = end;
    let restarts = restart_count(status);
    let pause = if ran >= RECOVERED { Duration::ZERO } else { runs::pause_after(restarts) };
    if pause.is_zero() {
        return restarted(pod, list, container, &after, moment);
    }
    let name = str_field(container, "name");
    let (minutes, seconds) = (pause.as_secs() / 60, pause.as_secs() % 60);
    let shown = if minutes > 0 { format!("{minutes}m{seconds}s") } else { format!("{seconds}s") };
    let message = format!("back-off {shown} restarting failed container={name} pod={}", full_name(pod));
    after["state"] = json!({"waiting": {"reason": CRASH_LOOP, "message": message}});
    after["ready"] = json!(false);
    after["started"] = json!(false);
    after
}

/// Returns name, namespace and uid of a pod, as in messages: `format.Pod`.
pub(super) fn full_name(pod: &Value) -> String {
    format!("{}_{}({})", metadata::name(pod), metadata::namespace(pod), metadata::uid(pod))
}

fn restarted(pod: &Value, list: &str, container: &Value, status: &Value, moment: &str) -> Value {
    let mut after = running(pod, list, container, Some(status), moment);
    after["restartCount"] = json!(restart_count(status) + 1);
    after
}

/// Returns the exit code of a container that has ended, also if it waits for its next start.
fn exit_code(status: &Value) -> Option<i64> {
    let state = if status["state"]["waiting"].is_object() { &status["lastState"] } else { &status["state"] };
    state["terminated"]["exitCode"].as_i64()
}

/// Returns true if a container has ended and does not start again.
fn is_over(pod: &Value, list: &str, status: &Value) -> bool {
    container_of(pod, list, status)
        .zip(exit_code(status))
        .is_some_and(|(container, code)| !runs::restarts(pod, list, container, code))
}

/// Returns the phase of a pod: `getPhase`.
fn phase(pod: &Value, init: &[Value], regular: &[Value], is_initialized: bool) -> &'static str {
    let has_failed = |status: &Value| exit_code(status).is_some_and(|code| code != 0);
    if init.iter().any(|status| has_failed(status) && is_over(pod, "initContainers", status)) {
        return "Failed";
    }
    let is_running = |status: &Value| status["state"]["running"].is_object();
    if !is_initialized || regular.iter().any(|status| !is_running(status) && exit_code(status).is_none()) {
        return "Pending";
    }
    if regular.iter().any(is_running) || !regular.iter().all(|status| is_over(pod, "containers", status)) {
        return "Running";
    }
    if regular.iter().any(has_failed) { "Failed" } else { "Succeeded" }
}

/// Returns the conditions of a pod, in a patch.
fn conditions(
    pod: &Value,
    status: &Value,
    (init, regular): (&[Value], &[Value]),
    (is_mounted, is_initialized): (bool, bool),
    moment: &str,
) -> Vec<Value> {
    let phase = str_field(status, "phase");
    let names = |unready: Vec<&Value>| {
        unready.into_iter().map(|status| str_field(status, "name")).collect::<Vec<_>>().join(" ")
    };
    let is_of_sidecar = |status: &&Value| container_of(pod, "initContainers", status).is_some_and(is_sidecar);
    let sidecars = init.iter().filter(is_of_sidecar);
    let unready = names(sidecars.chain(regular).filter(|status| status["ready"] != true).collect());
    let of_containers = match phase {
        "Succeeded" => ("PodCompleted", String::new()),
        "Failed" => ("PodFailed", String::new()),
        _ if !unready.is_empty() => ("ContainersNotReady", format!("containers with unready status: [{unready}]")),
        _ => ("", String::new()),
    };
    let of_pod = if of_containers.0.is_empty() { unmet_gates(pod) } else { of_containers.clone() };
    let is_incomplete = |status: &&Value| status[if is_of_sidecar(status) { "started" } else { "ready" }] != true;
    let incomplete = names(init.iter().filter(is_incomplete).collect());
    let is_initialized = is_initialized || incomplete.is_empty();
    let of_init = match phase {
        "Succeeded" => ("PodCompleted", String::new()),
        _ if is_initialized => ("", String::new()),
        _ => ("ContainersNotInitialized", format!("containers with incomplete status: [{incomplete}]")),
    };
    let none = || ("", String::new());
    let all = [
        ("PodReadyToStartContainers", is_mounted && !matches!(phase, "Succeeded" | "Failed"), none()),
        ("Initialized", is_initialized, of_init),
        ("Ready", of_pod.0.is_empty(), of_pod),
        ("ContainersReady", of_containers.0.is_empty(), of_containers),
        ("PodScheduled", true, none()),
    ];
    all.into_iter()
        .map(|(kind, is_met, (reason, message))| condition(pod, kind, is_met, reason, &message, moment))
        .collect()
}

/// Returns a condition, in a patch that removes a reason or message that does not hold any more.
fn condition(pod: &Value, kind: &str, is_met: bool, reason: &str, message: &str, moment: &str) -> Value {
    let before = array_field(&pod["status"], "conditions").iter().find(|known| known["type"] == *kind);
    let status = if is_met { "True" } else { "False" };
    let since = before.filter(|known| known["status"] == status && known["lastTransitionTime"].is_string());
    let since = since.map_or_else(|| json!(moment), |known| known["lastTransitionTime"].clone());
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[field] = text.into();
        } else if before.is_some_and(|known| known.get(field).is_some()) {
            condition[field] = Value::Null;
        }
    }
    set_observed_generation(&mut condition, pod);
    condition
}

/// Sets the generation of a pod in its status or in a condition.
pub(super) fn set_observed_generation(part: &mut Value, pod: &Value) {
    let generation = metadata::generation(pod);
    if generation > 0 {
        part["observedGeneration"] = generation.into();
    }
}

/// Returns reason and message if a readiness gate of the pod is not met; empty texts otherwise:
/// `GeneratePodReadyCondition`.
pub(super) fn unmet_gates(pod: &Value) -> (&'static str, String) {
    let conditions = array_field(&pod["status"], "conditions");
    let gates = array_field(&pod["spec"], "readinessGates").iter().map(|gate| str_field(gate, "conditionType"));
    let unmet = gates.filter_map(|gate| match conditions.iter().find(|known| known["type"] == *gate) {
        None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
        Some(known) if known["status"] == "True" => None,
        Some(known) => {
            let status = str_field(known, "status");
            Some(format!("the status of pod readiness gate {gate:?} is not \"True\", but {status}"))
        }
    });
    let unmet: Vec<String> = unmet.collect();
    if unmet.is_empty() { ("", String::new()) } else { ("ReadinessGatesNotReady", unmet.join(", ")) }
}

/// Returns true if a patch of a pod's status changes nothing.
pub(super) fn is_noop(pod: &Value, status: &Value) -> bool {
    let same = |known: &Value, wanted: &Value| {
        let mut fields = wanted.as_object().into_iter().flatten();
        fields.all(|(field, value)| known.get(field.as_str()).unwrap_or(&Value::Null) == value)
    };
    let known_conditions = array_field(&pod["status"], "conditions");
    let mut conditions = array_field(status, "conditions").iter();
    let mut others = status.as_object().into_iter().flatten().filter(|(field, _)| field.as_str() != "conditions");
    conditions.all(|wanted| known_conditions.iter().any(|known| known["type"] == wanted["type"] && same(known, wanted)))
        && others.all(|(field, value)| pod["status"].get(field.as_str()).unwrap_or(&Value::Null) == value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::kubelet::config_refs::ConfigKind;

    const T0: &str = "2026-01-01T00:00:00Z";

    fn at(second: i64) -> Timestamp {
        T0.parse::<Timestamp>().expect("a time") + Duration::from_secs(second.unsigned_abs())
    }

    fn pod(spec: &Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": spec, "status": {}});
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
        }
        pod
    }

    /// Merges the conditions of a status as a strategic merge patch does.
    fn write(pod: &mut Value, status: &Value) {
        let mut conditions = array_field(&pod["status"], "conditions").to_vec();
        for wanted in array_field(status, "conditions") {
            match conditions.iter_mut().find(|known| known["type"] == wanted["type"]) {
                Some(known) => known.as_object_mut().expect("one").extend(wanted.as_object().expect("one").clone()),
                None => conditions.push(wanted.clone()),
            }
        }
        pod["status"].as_object_mut().expect("a status").extend(status.as_object().expect("a status").clone());
        pod["status"]["conditions"] = conditions.into();
    }

    fn sync(pod: &mut Value, there: bool) {
        let lookup = |_: ConfigKind, _: &str| there.then(|| json!({"data": {}}));
        let runtime = Runtime { missing_images: &["broken".to_owned()], lookup: &lookup };
        let status = synced(pod, &runtime, ("10.1.0.1", "172.18.0.2"), T0);
        write(pod, &status);
        assert!(is_noop(pod, &synced(pod, &runtime, ("10.1.0.1", "172.18.0.2"), "later")), "{pod}");
    }

    fn condition_of(pod: &Value, kind: &str) -> [String; 3] {
        let conditions = array_field(&pod["status"], "conditions");
        let found = conditions.iter().find(|known| known["type"] == *kind).expect("the condition");
        ["status", "reason", "message"].map(|field| str_field(found, field).to_owned())
    }

    fn reason(pod: &Value, statuses: &str, index: usize) -> String {
        let state = &pod["status"][statuses][index]["state"];
        let waits = str_field(&state["waiting"], "reason");
        if state["running"].is_object() {
            "running".to_owned()
        } else {
            format!("{waits}{}", str_field(&state["terminated"], "reason"))
        }
    }

    /// Returns the pod after its containers' changes of these seconds.
    fn after(pod: &mut Value, seconds: &[i64]) {
        for second in seconds {
            let now = at(*second);
            let mut next = changed(pod, None, now, &crate::registry::time::rfc3339(now));
            sync(&mut next, true);
            *pod = next;
        }
    }

    #[test]
    fn a_pod_runs() {
        let mut one = pod(&json!({}));
        sync(&mut one, true);
        assert_eq!(
            (&one["status"]["phase"], reason(&one, "containerStatuses", 0).as_str()),
            (&json!("Running"), "running")
        );
        assert_eq!(condition_of(&one, "Ready"), ["True", "", ""]);
        assert_eq!(condition_of(&one, "Initialized"), ["True", "", ""]);
    }

    /// `makeEnvironmentVariables` and `WaitForAttachAndMount` fail.
    #[test]
    fn a_pod_waits_for_its_configuration() {
        let mut env =
            pod(&json!({"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]}));
        sync(&mut env, false);
        let state = &env["status"]["containerStatuses"][0]["state"]["waiting"];
        assert_eq!(*state, json!({"reason": "CreateContainerConfigError", "message": "secret \"s\" not found"}));
        assert_eq!((&env["status"]["phase"], &env["status"]["podIP"]), (&json!("Pending"), &json!("10.1.0.1")));
        sync(&mut env, true);
        assert_eq!(env["status"]["phase"], "Running");

        let mut volume = pod(&json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}));
        sync(&mut volume, false);
        assert_eq!(reason(&volume, "containerStatuses", 0), "ContainerCreating");
        assert_eq!(condition_of(&volume, "PodReadyToStartContainers")[0], "False");
        assert_eq!((&volume["status"]["phase"], volume["status"].get("podIP")), (&json!("Pending"), None));
        assert_eq!(
            condition_of(&volume, "Ready"),
            ["False", "ContainersNotReady", "containers with unready status: [c]"]
        );
        sync(&mut volume, true);
        assert_eq!(
            (&volume["status"]["phase"], condition_of(&volume, "Ready")[0].as_str()),
            (&json!("Running"), "True")
        );
    }

    #[test]
    fn containers_of_init_run_one_after_the_other() {
        let mut one = pod(&json!({"restartPolicy": "Always", "initContainers": [
            {"name": "a", "image": "i", "command": ["sleep", "5"]}, {"name": "s", "image": "i", "restartPolicy": "Always"},
            {"name": "b", "image": "i"}]}));
        sync(&mut one, true);
        let states = |pod: &Value| [0, 1, 2].map(|index| reason(pod, "initContainerStatuses", index));
        assert_eq!(states(&one), ["running", "PodInitializing", "PodInitializing"]);
        assert_eq!(
            condition_of(&one, "Initialized"),
            ["False", "ContainersNotInitialized", "containers with incomplete status: [a s b]"]
        );
        assert_eq!(
            (&one["status"]["phase"], reason(&one, "containerStatuses", 0).as_str()),
            (&json!("Pending"), "PodInitializing")
        );
        after(&mut one, &[4]);
        assert_eq!(states(&one)[0], "running");
        after(&mut one, &[5]);
        assert_eq!(states(&one), ["Completed", "running", "Completed"]);
        assert_eq!(
            (&one["status"]["phase"], condition_of(&one, "Initialized")[0].as_str()),
            (&json!("Running"), "True")
        );
        assert_eq!(condition_of(&one, "Ready"), ["True", "", ""]);
    }

    #[rstest]
    #[case::never("Never", "Error", "Failed")]
    #[case::always("Always", "CrashLoopBackOff", "Pending")]
    fn a_container_of_init_fails(#[case] policy: &str, #[case] state: &str, #[case] phase: &str) {
        let mut one = pod(
            &json!({"restartPolicy": policy, "initContainers": [{"name": "a", "image": "i", "command": ["false"]}]}),
        );
        sync(&mut one, true);
        after(&mut one, &[1, 2]);
        assert_eq!(
            (reason(&one, "initContainerStatuses", 0).as_str(), &one["status"]["phase"]),
            (state, &json!(phase))
        );
        assert_eq!(reason(&one, "containerStatuses", 0), "PodInitializing");
    }

    #[test]
    fn a_container_that_fails_starts_again_after_a_pause() {
        let mut one =
            pod(&json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "i", "command": ["false"]}]}));
        sync(&mut one, true);
        after(&mut one, &[1]);
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].clone();
        assert_eq!((reason(&one, "containerStatuses", 0).as_str(), restarts(&one)), ("running", json!(1)));
        after(&mut one, &[2]);
        assert_eq!(one["status"]["phase"], "Running");
        let state = &one["status"]["containerStatuses"][0]["state"]["waiting"];
        let message = "back-off 10s restarting failed container=c pod=p_d(u)";
        assert_eq!(*state, json!({"reason": "CrashLoopBackOff", "message": message}));
        assert_eq!(one["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
        assert_eq!(condition_of(&one, "Ready"), ["False", "ContainersNotReady", "containers with unready status: [c]"]);
        after(&mut one, &[11]);
        assert_eq!(reason(&one, "containerStatuses", 0), "CrashLoopBackOff");
        after(&mut one, &[12]);
        assert_eq!((reason(&one, "containerStatuses", 0).as_str(), restarts(&one)), ("running", json!(2)));
        assert_eq!(condition_of(&one, "Ready"), ["True", "", ""]);
    }

    #[rstest]
    #[case("Never", "true", "Succeeded")]
    #[case("Never", "false", "Failed")]
    #[case("OnFailure", "true", "Succeeded")]
    #[case("OnFailure", "false", "Running")]
    fn a_pod_whose_containers_have_ended_ends(#[case] policy: &str, #[case] command: &str, #[case] phase: &str) {
        let container = |name: &str, command: &str| json!({"name": name, "image": "i", "command": [command]});
        let mut one =
            pod(&json!({"restartPolicy": policy, "containers": [container("a", command), container("b", "true")]}));
        one["spec"]["containers"][1]["command"] = json!(["sleep", "3"]);
        sync(&mut one, true);
        after(&mut one, &[1]);
        assert_eq!(one["status"]["phase"], "Running", "one of two runs");
        after(&mut one, &[3]);
        assert_eq!(one["status"]["phase"], *phase);
    }

    /// See `IsRestartableInitContainer` in `pkg/kubelet/prober/prober_manager.go`.
    #[test]
    fn a_sidecar_runs_as_long_as_its_pod() {
        let mut one = pod(
            &json!({"restartPolicy": "Never", "initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always"}],
            "containers": [{"name": "c", "image": "i", "command": ["true"]}]}),
        );
        sync(&mut one, true);
        assert_eq!(reason(&one, "initContainerStatuses", 0), "running");
        after(&mut one, &[1]);
        assert_eq!(
            (reason(&one, "initContainerStatuses", 0).as_str(), &one["status"]["phase"]),
            ("Completed", &json!("Succeeded"))
        );
    }

    /// `GeneratePodReadyCondition`.
    #[test]
    fn a_pod_waits_for_its_readiness_gates() {
        let mut one = pod(&json!({"readinessGates": [{"conditionType": "x.io/a"}]}));
        sync(&mut one, true);
        let absent = "corresponding condition of pod readiness gate \"x.io/a\" does not exist.";
        assert_eq!(condition_of(&one, "Ready"), ["False", "ReadinessGatesNotReady", absent]);
        assert_eq!(condition_of(&one, "ContainersReady")[0], "True");
        let set =
            |pod: &mut Value, status: &str| write(pod, &json!({"conditions": [{"type": "x.io/a", "status": status}]}));
        set(&mut one, "False");
        sync(&mut one, true);
        let unmet = "the status of pod readiness gate \"x.io/a\" is not \"True\", but False";
        assert_eq!(condition_of(&one, "Ready")[2], unmet);
        set(&mut one, "True");
        sync(&mut one, true);
        assert_eq!(condition_of(&one, "Ready"), ["True", "", ""]);
    }
}
