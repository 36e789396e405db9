//! The pods that a kubelet does not run although they are bound to its node: without room, on a node that their spec
//! excludes, with sysctls that are not allowed. PURE. See `pkg/kubelet/lifecycle/predicate.go`,
//! `pkg/kubelet/sysctl/allowlist.go` and `pkg/kubelet/preemption/preemption.go`.

use super::filters;
use super::fit::{PlacedPod, Placements, PodKey, priority_of};
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::patch::strategic::without_conditions;
use crate::quantity::Quantity;
use crate::registry::resource_list::pod_resources;
use crate::registry::resource_names::is_extended_resource;

/// The message about a pod that is ended for a critical one.
pub(super) const PREEMPTED: &str = "Preempted in order to admit critical pod";

/// The reason of such an end, and of the Event.
pub(super) const PREEMPTING: &str = "Preempting";

/// The priority from which on pods are critical: `SystemCriticalPriority`.
const CRITICAL_PRIORITY: i64 = 2_000_000_000;

/// The sysctls that are safe on Linux 6.1, by the namespace of the kernel that has them and the field that shares it:
/// `safeSysctls` in `pkg/kubelet/sysctl/safe_sysctls.go`.
const SAFE_SYSCTLS: [(&str, &str, &[&str]); 2] = [
    ("IPC", "hostIPC", &["kernel.shm_rmid_forced"]),
    (
        "Net",
        "hostNetwork",
        &[
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
            "net.ipv4.ip_local_reserved_ports",
            "net.ipv4.tcp_keepalive_time",
            "net.ipv4.tcp_fin_timeout",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
            "net.ipv4.tcp_rmem",
            "net.ipv4.tcp_wmem",
        ],
    ),
];

/// The reason why a kubelet does not run a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AdmissionFailure {
    pub(super) reason: String,
    pub(super) message: String,
}

impl AdmissionFailure {
    fn of(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }

    /// `PredicateFailureError`.
    fn predicate(name: &str, why: &str) -> Self {
        Self::of(name, format!("Predicate {name} failed: {why}"))
    }
}

/// A resource of which there is too little: `InsufficientResourceError`. The processor counts in thousandths.
#[derive(Debug, Clone)]
struct Shortage {
    resource: String,
    requested: i128,
    used: i128,
    capacity: i128,
}

/// Returns true for a pod that shows one of a kubelet's own files.
pub(super) fn is_mirror(pod: &Value) -> bool {
    metadata::annotation(pod, "kubernetes.io/config.mirror").is_some()
}

/// Decides whether a node takes a pod beside those that it has taken. Returns the pods that end to make room for a
/// critical one.
pub(super) fn admit(pod: &Value, node: &Value, admitted: &Placements) -> Result<Vec<PodKey>, AdmissionFailure> {
    sysctls(pod)?;
    for_system(pod, node)?;
    let shortages = shortages(pod, node, admitted);
    if let Some(other) = other_failure(pod, node, admitted)
        && (shortages.is_empty() || is_critical(priority_of(pod)))
    {
        return Err(other);
    }
    let Some(first) = shortages.first() else { return Ok(Vec::new()) };
    if !is_critical(priority_of(pod)) {
        let Shortage { resource, requested, used, capacity } = first;
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        );
        return Err(AdmissionFailure::of(&format!("OutOf{resource}"), message));
    }
    let needs = shortages.into_iter().map(|it| (it.requested - (it.capacity - it.used), it.resource)).collect();
    victims(priority_of(pod), admitted.on_node(metadata::name(node)), &Needs(needs)).map_err(|left| {
        let why = "Unexpected error while attempting to recover from admission failure: preemption: error finding a \
            set of pods to preempt: no set of running pods found to reclaim resources";
        AdmissionFailure::of("UnexpectedAdmissionError", format!("{why}: {left}"))
    })
}

/// Checks the sysctls: `Admit` of `patternAllowlist`.
fn sysctls(pod: &Value) -> Result<(), AdmissionFailure> {
    let spec = &pod["spec"];
    for sysctl in array_field(&spec["securityContext"], "sysctls") {
        let name = normalized(str_field(sysctl, "name"));
        let why = match SAFE_SYSCTLS.iter().find(|(_, _, names)| names.contains(&name.as_str())) {
            None => format!("{name:?} not allowlisted"),
            Some((space, of_host, _)) if spec[*of_host] == true => {
                format!("{name:?} not allowed with host {space} enabled")
            }
            Some(_) => continue,
        };
        return Err(AdmissionFailure::of("SysctlForbidden", format!("forbidden sysctl: {why}")));
    }
    Ok(())
}

/// Returns the name of a sysctl with dots: `NormalizeName`.
fn normalized(name: &str) -> String {
    if name.find(['.', '/']).is_none_or(|at| name[at..].starts_with('.')) {
        return name.to_owned();
    }
    let swapped = name.chars().map(|c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    });
    swapped.collect()
}

/// Checks what depends on the operating system of the node, and on its runtime.
fn for_system(pod: &Value, node: &Value) -> Result<(), AdmissionFailure> {
    const LABEL: &str = "kubernetes.io/os";
    let system = match str_field(&node["status"]["nodeInfo"], "operatingSystem") {
        "" => "linux",
        system => system,
    };
    if metadata::label(pod, LABEL).is_some_and(|label| label != system) {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Err(AdmissionFailure::of("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    if pod["spec"]["os"]["name"].as_str().is_some_and(|name| name != system) {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        return Err(AdmissionFailure::of("PodOSNotSupported", message));
    }
    let is_strict = pod["spec"]["securityContext"]["supplementalGroupsPolicy"] == "Strict";
    if is_strict && node["status"]["features"]["supplementalGroupsPolicy"] != true {
        let message = "SupplementalGroupsPolicy=Strict is not supported in this node";
        return Err(AdmissionFailure::of("SupplementalGroupsPolicyNotSupported", message));
    }
    Ok(())
}

/// Returns the first reason that no other pod's end can mend.
fn other_failure(pod: &Value, node: &Value, admitted: &Placements) -> Option<AdmissionFailure> {
    if !filters::is_selected(node, pod) {
        let why = "node(s) didn't match Pod's node affinity/selector";
        return Some(AdmissionFailure::predicate("NodeAffinity", why));
    }
    if let Some(taken) = admitted.ports(node, pod) {
        return Some(AdmissionFailure::predicate("NodePorts", &taken.reasons.concat()));
    }
    let mut taints = array_field(&node["spec"], "taints").iter();
    taints
        .any(|taint| taint["effect"] == "NoExecute" && !filters::tolerates(pod, taint))
        .then(|| AdmissionFailure::predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate"))
}

/// Returns the resources of which a node has too little for a pod, in the order of `fitsRequest`.
fn shortages(pod: &Value, node: &Value, admitted: &Placements) -> Vec<Shortage> {
    // A node that has not reported its size yet has room.
    let Some(allocatable) = node["status"]["allocatable"].as_object() else { return Vec::new() };
    let room = |name: &str| allocatable.get(name).and_then(Quantity::of).map_or(0, |room| number(name, room));
    let name = metadata::name(node);
    let pods = i128::try_from(admitted.on_node(name).count()).unwrap_or(i128::MAX);
    let mut found = Vec::new();
    if allocatable.contains_key("pods") && pods >= room("pods") {
        found.push(Shortage { resource: "pods".to_owned(), requested: 1, used: pods, capacity: room("pods") });
    }
    let requests = pod_resources(pod, "requests");
    let is_basic = |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage");
    // Those that nodes do not know are resources of the cluster.
    let is_local = |name: &str| !is_extended_resource(name) || allocatable.contains_key(name);
    let others = requests.keys().map(String::as_str).filter(|&name| !is_basic(name) && is_local(name));
    for resource in ["cpu", "memory", "ephemeral-storage"].into_iter().chain(others) {
        let requested = requests.get(resource).map_or(0, |amount| number(resource, *amount));
        let used = admitted.requested(name, resource).map_or(0, |amount| number(resource, amount));
        if requested > 0 && requested > room(resource) - used {
            found.push(Shortage { resource: resource.to_owned(), requested, used, capacity: room(resource) });
        }
    }
    found
}

/// Returns an amount in the unit in which kubelets count a resource.
fn number(resource: &str, amount: Quantity) -> i128 {
    if resource == "cpu" { amount.millis() } else { amount.ceil() }
}

fn is_critical(priority: i64) -> bool {
    priority >= CRITICAL_PRIORITY
}

/// Amounts of resources that are missing: `admissionRequirementList`.
#[derive(Debug, Clone)]
struct Needs(Vec<(i128, String)>);

impl std::fmt::Display for Needs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for (amount, resource) in &self.0 {
            write!(f, "(res: {resource}, q: {amount}), ")?;
        }
        f.write_str("]")
    }
}

impl Needs {
    /// Returns what is still missing once pods have ended.
    fn without<'p>(&self, pods: impl Iterator<Item = &'p PlacedPod> + Clone) -> Self {
        let left = |(amount, resource): &(i128, String)| {
            let freed: i128 = pods.clone().map(|pod| request_of(pod, resource)).sum();
            (amount - freed, resource.clone())
        };
        Self(self.0.iter().map(left).filter(|(amount, _)| *amount > 0).collect())
    }

    /// Returns how much of the needs a pod does not meet, as the sum of the squares of fractions.
    fn distance(&self, pod: &PlacedPod) -> f64 {
        let missing = |(amount, resource): &(i128, String)| {
            let rest = (amount - request_of(pod, resource)).max(0);
            (rest as f64 / *amount as f64).powi(2)
        };
        self.0.iter().map(missing).sum()
    }
}

fn request_of(pod: &PlacedPod, resource: &str) -> i128 {
    if resource == "pods" { 1 } else { pod.requests.get(resource).map_or(0, |amount| number(resource, *amount)) }
}

/// Chooses the pods that end so that a critical pod has room, or returns what nothing can free: `getPodsToPreempt`.
fn victims<'p>(
    priority: i64,
    pods: impl Iterator<Item = (&'p PodKey, &'p PlacedPod)>,
    needs: &Needs,
) -> Result<Vec<PodKey>, Needs> {
    type Candidates<'c> = Vec<(&'c PodKey, &'c PlacedPod)>;
    let may_end = |pod: &PlacedPod| is_critical(priority) && !is_critical(pod.priority) || priority > pod.priority;
    let all: Candidates<'_> = pods.filter(|(_, pod)| may_end(pod)).collect();
    let left = needs.without(all.iter().map(|(_, pod)| *pod));
    if !left.0.is_empty() {
        return Err(left);
    }
    let of_class = |class: &str| all.iter().copied().filter(|(_, pod)| pod.class == class).collect::<Candidates<'_>>();
    let (best_effort, burstable) = (of_class("BestEffort"), of_class("Burstable"));
    let freed = |first: &Candidates<'p>, second: &Candidates<'p>| {
        needs.without(first.iter().chain(second).map(|(_, pod)| *pod))
    };
    let guaranteed = nearest(of_class("Guaranteed"), freed(&burstable, &best_effort))?;
    let burstable = nearest(burstable, freed(&best_effort, &guaranteed))?;
    let best_effort = nearest(best_effort, freed(&burstable, &guaranteed))?;
    Ok([best_effort, burstable, guaranteed].concat().into_iter().map(|(key, _)| key.clone()).collect())
}

/// Chooses pods one by one, each the one that meets most of the needs: `getPodsToPreemptByDistance`.
fn nearest<'p>(
    mut pods: Vec<(&'p PodKey, &'p PlacedPod)>,
    mut needs: Needs,
) -> Result<Vec<(&'p PodKey, &'p PlacedPod)>, Needs> {
    let size = |pod: &PlacedPod| (request_of(pod, "memory"), request_of(pod, "cpu"));
    let mut chosen = Vec::new();
    while !needs.0.is_empty() {
        let in_order = |(_, (_, one)): &(usize, &(&PodKey, &PlacedPod)),
                        (_, (_, other)): &(usize, &(&PodKey, &PlacedPod))| {
            needs.distance(one).total_cmp(&needs.distance(other)).then(size(one).cmp(&size(other)))
        };
        let Some((index, _)) = pods.iter().enumerate().min_by(in_order) else { return Err(needs) };
        let pod = pods.swap_remove(index);
        needs = needs.without(std::iter::once(pod.1));
        chosen.push(pod);
    }
    Ok(chosen)
}

/// The conditions of a pod's status that kubelets own: `PodConditionsByKubelet` in
/// `pkg/kubelet/types/pod_status.go`.
const CONDITIONS_OF_KUBELETS: [&str; 8] = [
    "PodScheduled",
    "Ready",
    "Initialized",
    "PodReadyToStartContainers",
    "ContainersReady",
    "PodResizeInProgress",
    "PodResizePending",
    "AllContainersRestarting",
];

/// Returns the patch of the status of a pod that is rejected: `rejectPod` in `pkg/kubelet/kubelet.go`.
pub(super) fn rejected_status(pod: &Value, failure: &AdmissionFailure, moment: &str) -> Value {
    let dropped = without_conditions(pod, &CONDITIONS_OF_KUBELETS);
    let mut status = json!({"phase": "Failed", "reason": failure.reason,
        "message": format!("Pod was rejected: {}", failure.message)});
    if str_field(&pod["status"], "startTime").is_empty() {
        status["startTime"] = moment.into();
    }
    if !dropped.is_empty() {
        status["conditions"] = dropped.into();
    }
    super::pod_conditions::set_observed_generation(&mut status, pod);
    status
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::controllers::ControllerClient;
    use crate::server::{ApiServer, ApiServerConfig};
    use crate::store::ResourceId;

    fn requesting(cpu: &str, memory: &str) -> Value {
        json!({"containers": [{"resources": {"requests": {"cpu": cpu, "memory": memory}}}]})
    }

    fn pod(name: &str, spec: &Value) -> Value {
        let mut pod = json!({"metadata": {"namespace": "d", "name": name}, "spec": spec});
        pod["spec"]["nodeName"] = json!("n");
        pod
    }

    fn node() -> Value {
        json!({"metadata": {"name": "n", "labels": {"zone": "a"}},
            "spec": {"taints": [{"key": "k", "effect": "NoExecute"}, {"key": "s", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3", "example.com/gpu": "1"}}})
    }

    fn tolerant(mut spec: Value) -> Value {
        spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
        spec
    }

    fn outcome(placed: &[Value], spec: &Value) -> Result<Vec<String>, [String; 2]> {
        let mut admitted = Placements::default();
        for (index, spec) in placed.iter().enumerate() {
            admitted.note(&pod(&format!("p{index}"), spec));
        }
        let result = admit(&pod("p", spec), &node(), &admitted);
        result
            .map(|victims| victims.into_iter().map(|(_, name)| name).collect())
            .map_err(|failure| [failure.reason, failure.message])
    }

    /// As in `TestRemoveMissingExtendedResources`, `TestGeneralPredicates` and others of
    /// `pkg/kubelet/lifecycle/predicate_test.go`, and `TestAllowlist` of `pkg/kubelet/sysctl/allowlist_test.go`.
    #[rstest]
    #[case::fits(&[], requesting("2", "1Gi"), "", "")]
    #[case::cpu(&[requesting("500m", "0")], requesting("1600m", "2Gi"), "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 1600, used: 500, capacity: 2000")]
    #[case::memory(&[], requesting("1", "2Gi"), "OutOfmemory",
        "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824")]
    #[case::pods(&[json!({}), json!({}), json!({})], json!({}), "OutOfpods",
        "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3")]
    #[case::disk(&[], json!({"containers": [{"resources": {"requests": {"ephemeral-storage": "1"}}}]}),
        "OutOfephemeral-storage", "Node didn't have enough resource: ephemeral-storage, requested: 1, used: 0, capacity: 0")]
    #[case::device(&[], json!({"containers": [{"resources": {"requests": {"example.com/gpu": "2"}}}]}),
        "OutOfexample.com/gpu", "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1")]
    #[case::resource_of_the_cluster(&[], json!({"containers": [{"resources": {"requests": {"example.com/x": "2"}}}]}), "", "")]
    #[case::labels(&[], json!({"nodeSelector": {"zone": "b"}}), "NodeAffinity",
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")]
    #[case::ports(&[json!({"containers": [{"ports": [{"hostPort": 80}]}]})], json!({"containers": [{"ports": [{"hostPort": 80}]}]}),
        "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports")]
    #[case::room_comes_first(&[], json!({"nodeSelector": {"zone": "b"}, "containers": [{"resources": {"requests": {"cpu": "3"}}}]}),
        "OutOfcpu", "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000")]
    #[case::system(&[], json!({"os": {"name": "windows"}}), "PodOSNotSupported",
        "Failed to admit pod as the OS field doesn't match node OS")]
    #[case::groups(&[], json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}}), "SupplementalGroupsPolicyNotSupported",
        "SupplementalGroupsPolicy=Strict is not supported in this node")]
    #[case::sysctl(&[], json!({"securityContext": {"sysctls": [{"name": "kernel/msgmax"}]}}), "SysctlForbidden",
        "forbidden sysctl: \"kernel.msgmax\" not allowlisted")]
    #[case::safe_sysctl(&[], json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}), "", "")]
    #[case::sysctl_of_the_host(&[], json!({"hostNetwork": true, "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies"}]}}),
        "SysctlForbidden", "forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host Net enabled")]
    fn nodes_reject_what_does_not_fit(
        #[case] placed: &[Value],
        #[case] spec: Value,
        #[case] reason: &str,
        #[case] message: &str,
    ) {
        let expected = if reason.is_empty() { Ok(vec![]) } else { Err([reason.to_owned(), message.to_owned()]) };
        assert_eq!(outcome(placed, &tolerant(spec)), expected);
    }

    /// Only the effect `NoExecute` counts for kubelets.
    #[test]
    fn taints_that_evict_reject() {
        let why = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
        assert_eq!(outcome(&[], &json!({})), Err(["TaintToleration".to_owned(), why.to_owned()]));
        assert_eq!(outcome(&[], &tolerant(json!({}))), Ok(vec![]));
    }

    fn of_class(cpu: &str, class: &str) -> Value {
        let mut spec = requesting(cpu, "1Mi");
        if class == "Guaranteed" {
            spec["containers"][0]["resources"]["limits"] = json!({"cpu": cpu, "memory": "1Mi"});
        }
        spec
    }

    /// As `TestGetPodsToPreempt` of `pkg/kubelet/preemption/preemption_test.go`: pods of the lower class end first, and
    /// of a class the smallest that is enough.
    #[rstest]
    #[case::lower_class(&[of_class("1", "Guaranteed"), of_class("1", "Burstable")], Ok(&["p1"][..]))]
    #[case::both(&[of_class("1200m", "Guaranteed"), of_class("800m", "Burstable")], Ok(&["p0"][..]))]
    #[case::nearest(&[of_class("1500m", "Burstable"), of_class("500m", "Burstable")], Ok(&["p0"][..]))]
    #[case::critical(&[json!({"priority": 2_000_001_000, "containers": [{"resources": {"requests": {"cpu": "2"}}}]})],
        Err("[(res: cpu, q: 1000), ]"))]
    fn critical_pods_end_others(#[case] placed: &[Value], #[case] expected: Result<&[&str], &str>) {
        let mut spec = tolerant(requesting("1", "0"));
        spec["priority"] = json!(2_000_000_000);
        let found = outcome(placed, &spec);
        let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect()).map_err(|left| {
            let why = format!(
                "Unexpected error while attempting to recover from admission failure: preemption: error finding a set \
                 of pods to preempt: no set of running pods found to reclaim resources: {left}"
            );
            ["UnexpectedAdmissionError".to_owned(), why]
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_rejected_pod_keeps_what_others_wrote() {
        let mut rejected = pod("p", &json!({}));
        rejected["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "True"}, {"type": "example.com/x"}]);
        let failure = AdmissionFailure::of("OutOfcpu", "m");
        assert_eq!(
            rejected_status(&rejected, &failure, "t"),
            json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: m", "startTime": "t",
                "conditions": [{"$patch": "delete", "type": "PodScheduled"}]})
        );
    }

    /// Pods that name their node are rejected one after the other, as they come; the end of one makes room.
    #[test]
    fn a_full_node_rejects_pods() {
        run_virtual(async {
            let server = ApiServer::builder().build();
            tokio::spawn(crate::events::publish_events(server.clone()));
            tokio::spawn(crate::kubelet::run(server.clone(), crate::kubelet::KubeletOptions::default()));
            let client = ControllerClient::new(&server, "user");
            let node = |name: &str| {
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                    "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}}})
            };
            server.seed([node("n")]).expect("a node");
            let create = async |name: &str, node: &str| {
                let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}});
                let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                    "spec": {"nodeName": node, "containers": [container]}});
                assert!(client.create("/api/v1/namespaces/default/pods", &pod).await.is_ok());
            };
            let status = |name: &str| {
                let stored = server.get(&ResourceId::new("", "pods"), "default", name).expect("a pod");
                stored.value()["status"].clone()
            };
            // The second one by its name came first.
            create("q", "n").await;
            create("p", "n").await;
            create("early", "m").await;
            server.clock().sleep(Duration::from_secs(2)).await;
            settle().await;
            assert_eq!((&status("q")["phase"], &status("early")["phase"]), (&json!("Running"), &json!("Pending")));
            let why = "Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000";
            let rejected = status("p");
            assert_eq!(
                (&rejected["phase"], &rejected["reason"], &rejected["message"]),
                (&json!("Failed"), &json!("OutOfcpu"), &json!(format!("Pod was rejected: {why}")))
            );
            assert!(rejected["startTime"].is_string() && rejected.get("containerStatuses").is_none(), "{rejected}");
            let events = server.list(&ResourceId::new("", "events"), None);
            let event = events.iter().map(|event| event.value()).find(|event| event["reason"] == "OutOfcpu");
            let event = event.expect("an event");
            assert_eq!((&event["message"], &event["type"]), (&json!(why), &json!("Warning")));
            // The kubelet of a new node finds its pods.
            server.seed([node("m")]).expect("a node");
            let path = "/api/v1/namespaces/default/pods/q?gracePeriodSeconds=0";
            assert!(client.delete(path, None).await.is_ok());
            settle().await;
            create("r", "n").await;
            server.clock().sleep(Duration::from_secs(2)).await;
            settle().await;
            assert_eq!((&status("r")["phase"], &status("early")["phase"]), (&json!("Running"), &json!("Running")));
        })
        .expect("a runtime");
    }

    /// `TestHandleAdmissionFailure` of `pkg/kubelet/preemption/preemption_test.go`.
    #[test]
    fn a_critical_pod_ends_another() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(crate::kubelet::run(server.clone(), crate::kubelet::KubeletOptions::default()));
            let pod = |name: &str, priority: i64| {
                let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}});
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                    "spec": {"nodeName": "n", "priority": priority, "containers": [container]}})
            };
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
                "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}}});
            server.seed([node, pod("p", 0)]).expect("seeded");
            server.clock().sleep(Duration::from_secs(2)).await;
            server.seed([pod("critical", CRITICAL_PRIORITY)]).expect("seeded");
            server.clock().sleep(Duration::from_secs(2)).await;
            settle().await;
            let status = |name: &str| {
                let stored = server.get(&ResourceId::new("", "pods"), "default", name).expect("a pod");
                stored.value()["status"].clone()
            };
            assert_eq!(status("critical")["phase"], "Running");
            let ended = status("p");
            assert_eq!(
                (&ended["phase"], &ended["reason"], &ended["message"]),
                (&json!("Failed"), &json!("Preempting"), &json!(PREEMPTED))
            );
            let target = array_field(&ended, "conditions").iter().find(|one| one["type"] == "DisruptionTarget");
            assert_eq!(target.map(|target| &target["reason"]), Some(&json!("TerminationByKubelet")), "{ended}");
        })
        .expect("a runtime");
    }
}
