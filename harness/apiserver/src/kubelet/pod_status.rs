//! The status that a kubelet reports for a pod: which containers start, the phase and the conditions. PURE. See
//! `getPhase` and `generateAPIPodStatus` in `pkg/kubelet/kubelet_pods.go`, `pkg/kubelet/status/generate.go` and
//! `computeInitContainerActions` in `pkg/kubelet/kuberuntime/kuberuntime_container.go`.

use std::time::Duration;

use jiff::Timestamp;

use super::config_refs::{self, Lookup};
use super::container_status::{container_of, kept, replaced, restart_count, restarted, running, terminated, waiting};
use super::pod_conditions::{conditions, set_observed_generation};
use super::runs::{self, CRASH_LOOP, EPHEMERAL, LISTS};
use super::{images, resize};
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::pod_fields::is_sidecar;

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
    let mut regular =
        statuses_of(pod, ("containers", "containerStatuses"), is_mounted && is_initialized, runtime, moment);
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
    // Those of containers of init keep the order of the spec.
    regular.sort_by_key(|status| str_field(status, "name").to_owned());
    status["containerStatuses"] = regular.into();
    set_observed_generation(&mut status, pod);
    if !init.is_empty() {
        status["initContainerStatuses"] = init.into();
    }
    // They need no container of init.
    let mut ephemeral = statuses_of(pod, (EPHEMERAL, "ephemeralContainerStatuses"), is_mounted, runtime, moment);
    if !ephemeral.is_empty() {
        ephemeral.sort_by_key(|status| str_field(status, "name").to_owned());
        status["ephemeralContainerStatuses"] = ephemeral.into();
    }
    resize::set_of_pod(&mut status, pod);
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

/// Returns the reason of containers that have not been tried yet.
fn first_reason(pod: &Value) -> &'static str {
    if array_field(&pod["spec"], "initContainers").is_empty() { "ContainerCreating" } else { "PodInitializing" }
}

fn waiting_all(pod: &Value, list: &str) -> Vec<Value> {
    let all = array_field(&pod["spec"], list).iter();
    all.map(|container| waiting(list, container, None, first_reason(pod), "")).collect()
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
        let ended = before.and_then(|before| replaced(pod, "initContainers", container, before, moment));
        let status = match before {
            _ if ended.is_some() => first_start(pod, "initContainers", container, ended.as_ref(), runtime, moment),
            Some(before) if has_begun => kept(before, container),
            _ if is_done => first_start(pod, "initContainers", container, before, runtime, moment),
            _ => waiting("initContainers", container, before, first_reason(pod), ""),
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

/// Starts the containers of a list that have not been started yet.
fn statuses_of(
    pod: &Value,
    (list, statuses): (&str, &str),
    may_start: bool,
    runtime: &Runtime<'_>,
    moment: &str,
) -> Vec<Value> {
    let statuses = array_field(&pod["spec"], list).iter().map(|container| {
        let before = known(pod, statuses, container);
        let state = before.map_or(&Value::Null, |status| &status["state"]);
        let is_waiting = state["waiting"].is_object() && state["waiting"]["reason"] != CRASH_LOOP;
        let ended = before.and_then(|before| replaced(pod, list, container, before, moment));
        match before {
            _ if ended.is_some() => first_start(pod, list, container, ended.as_ref(), runtime, moment),
            Some(before) if !state.is_null() && !is_waiting => kept(before, container),
            _ if may_start => first_start(pod, list, container, before, runtime, moment),
            _ => waiting(list, container, before, first_reason(pod), ""),
        }
    });
    statuses.collect()
}

/// Starts a container, for the first time or again, unless its image or its variables are missing.
fn first_start(
    pod: &Value,
    list: &str,
    container: &Value,
    before: Option<&Value>,
    runtime: &Runtime<'_>,
    moment: &str,
) -> Value {
    if let Some(problem) = images::problem(container, runtime.missing_images) {
        return waiting(list, container, before, problem.reason, &problem.message);
    }
    if let Some(why) = config_refs::container_problem(pod, container, runtime.lookup) {
        return waiting(list, container, before, "CreateContainerConfigError", &why);
    }
    // A state of zero values is no end.
    let mut status = match before.filter(|before| before["lastState"]["terminated"].is_object()) {
        Some(before) => restarted(pod, list, container, before, moment),
        None => running(pod, list, container, before, moment),
    };
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
        // As it is stored: a zero value is no end.
        one["status"]["containerStatuses"][0]["lastState"] = json!({});
        after(&mut one, &[5]);
        assert_eq!(states(&one), ["Completed", "running", "Completed"]);
        assert_eq!(one["status"]["containerStatuses"][0]["restartCount"], 0);
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

    /// `convertToAPIContainerStatuses`: statuses are sorted by name, the message keeps the order of the spec.
    #[test]
    fn statuses_are_in_the_order_of_their_names() {
        let mut one = pod(&json!({"containers": [{"name": "z", "image": "broken"}, {"name": "a", "image": "broken"}]}));
        sync(&mut one, true);
        let names: Vec<&str> =
            array_field(&one["status"], "containerStatuses").iter().map(|status| str_field(status, "name")).collect();
        assert_eq!(names, ["a", "z"]);
        assert_eq!(condition_of(&one, "Ready")[2], "containers with unready status: [z a]");
    }

    /// `computePodActions`: a container with another image starts again, once there is the image.
    #[test]
    fn a_container_with_another_image_is_replaced() {
        let mut one = pod(&json!({"restartPolicy": "Always"}));
        sync(&mut one, true);
        let state = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
        one["spec"]["containers"][0]["image"] = json!("broken");
        sync(&mut one, true);
        assert_eq!(reason(&one, "containerStatuses", 0), "ImagePullBackOff");
        assert_eq!((&state(&one)["restartCount"], &one["status"]["phase"]), (&json!(0), &json!("Running")));
        one["spec"]["containers"][0]["image"] = json!("j");
        sync(&mut one, true);
        let now = state(&one);
        assert_eq!((reason(&one, "containerStatuses", 0).as_str(), &now["image"]), ("running", &json!("j")));
        assert_eq!((&now["restartCount"], &now["lastState"]["terminated"]["exitCode"]), (&json!(1), &json!(0)));
    }

    /// `computePodActions`: ephemeral containers start when they are added, and never again.
    #[test]
    fn a_container_is_added_to_a_running_pod() {
        let mut one = pod(&json!({}));
        sync(&mut one, true);
        one["spec"]["ephemeralContainers"] =
            json!([{"name": "z", "image": "i"}, {"name": "d", "image": "i", "command": ["sleep", "5"]}]);
        sync(&mut one, true);
        assert_eq!(reason(&one, "ephemeralContainerStatuses", 0), "running");
        let shown = &one["status"]["ephemeralContainerStatuses"][0];
        assert_eq!((&shown["name"], &shown["ready"], shown.get("started")), (&json!("d"), &json!(false), None));
        assert_eq!(condition_of(&one, "Ready"), ["True", "", ""]);
        after(&mut one, &[5, 6]);
        let ends = [0, 1].map(|index| reason(&one, "ephemeralContainerStatuses", index));
        assert_eq!(
            (ends, &one["status"]["phase"]),
            (["Completed".to_owned(), "running".to_owned()], &json!("Running"))
        );
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
