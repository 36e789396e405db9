//! What the load is made of: objects as a real cluster holds them, encoded.
//!
//! An application is a replica set with its pods and a budget over them. A pod is what the replica set controller sends for
//! a template with one container, about 1 KB, with its node already chosen (the server's admission adds tolerations and
//! priority); its status is what a kubelet reports, about 1.3 KB.

use super::Shape;

/// Applications live in so many namespaces.
pub(super) const NAMESPACES: usize = 100;
/// Where the objects of the watch stage are.
pub(super) const WATCHED: &str = "bench-watched";

/// Namespace of an application.
pub(super) fn namespace(app: usize) -> String {
    format!("team-{:03}", app % NAMESPACES)
}

/// Name of an application, of its replica set and of its budget.
pub(super) fn app(app: usize) -> String {
    format!("shop-{app:05}")
}

/// Name of a node.
pub(super) fn node_name(node: usize) -> String {
    format!("node-{node:05}.cluster.example")
}

/// Body of a namespace.
pub(super) fn namespace_body(name: &str) -> String {
    format!(r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"{name}"}}}}"#)
}

/// Body of a node, as a kubelet registers it.
pub(super) fn node(number: usize) -> String {
    let (name, zone) = (node_name(number), number % 3);
    let conditions: Vec<String> = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    .into_iter()
    .map(|(kind, status, reason, message)| {
        format!(
            r#"{{"type":"{kind}","status":"{status}","lastHeartbeatTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"{reason}","message":"{message}"}}"#
        )
    })
    .collect();
    let resources =
        r#"{"cpu":"16","ephemeral-storage":"101430960Ki","hugepages-2Mi":"0","memory":"65535172Ki","pods":"110"}"#;
    format!(
        r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"{name}","labels":{{"beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux","kubernetes.io/arch":"amd64","kubernetes.io/hostname":"{name}","kubernetes.io/os":"linux","node.kubernetes.io/instance-type":"m6i.4xlarge","topology.kubernetes.io/region":"eu-1","topology.kubernetes.io/zone":"eu-1{zone}"}},"annotations":{{"node.alpha.kubernetes.io/ttl":"0","volumes.kubernetes.io/controller-managed-attach-detach":"true"}}}},"spec":{{"podCIDR":"10.{}.{}.0/24","podCIDRs":["10.{}.{}.0/24"],"providerID":"cloud://eu-1{zone}/{name}"}},"status":{{"capacity":{resources},"allocatable":{resources},"conditions":[{}],"addresses":[{{"type":"InternalIP","address":"{}"}},{{"type":"Hostname","address":"{name}"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":10250}}}},"nodeInfo":{{"machineID":"{number:032x}","systemUUID":"{number:032x}","bootID":"{number:032x}","kernelVersion":"6.8.0","osImage":"Debian GNU/Linux 13","containerRuntimeVersion":"containerd://2.1.0","kubeletVersion":"v1.36.0","kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64"}}}}}}"#,
        number / 256 % 256,
        number % 256,
        number / 256 % 256,
        number % 256,
        conditions.join(","),
        host_ip(number),
    )
}

/// Body of an application's replica set.
pub(super) fn replica_set(number: usize, replicas: usize) -> String {
    let (name, namespace) = (app(number), namespace(number));
    format!(
        r#"{{"kind":"ReplicaSet","apiVersion":"apps/v1","metadata":{{"name":"{name}","namespace":"{namespace}","labels":{}}},"spec":{{"replicas":{replicas},"selector":{{"matchLabels":{}}},"template":{{"metadata":{{"labels":{}}},"spec":{{"containers":[{{"name":"shop","image":"registry.example.com/shop/backend:1.24.3"}}]}}}}}}}}"#,
        labels(&name),
        selector(&name),
        labels(&name),
    )
}

/// Body of an application's budget.
pub(super) fn budget(number: usize) -> String {
    let (name, namespace) = (app(number), namespace(number));
    format!(
        r#"{{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"app.kubernetes.io/name":"{name}"}}}},"spec":{{"minAvailable":"80%","selector":{{"matchLabels":{}}},"unhealthyPodEvictionPolicy":"AlwaysAllow"}}}}"#,
        selector(&name),
    )
}

fn labels(app: &str) -> String {
    format!(
        r#"{{"app.kubernetes.io/component":"backend","app.kubernetes.io/name":"{app}","pod-template-hash":"7d9c5b6f48"}}"#
    )
}

fn selector(app: &str) -> String {
    format!(r#"{{"app.kubernetes.io/name":"{app}","pod-template-hash":"7d9c5b6f48"}}"#)
}

fn host_ip(node: usize) -> String {
    format!("172.16.{}.{}", node / 256 % 256, node % 256)
}

/// A pod of the load.
pub(super) struct Pod<'a> {
    /// Its namespace.
    pub(super) namespace: &'a str,
    /// Its name.
    pub(super) name: &'a str,
    /// Its application's name.
    pub(super) app: &'a str,
    /// uid of its replica set, if it has one.
    pub(super) owner: Option<&'a str>,
    /// Number of its node.
    pub(super) node: usize,
}

/// Number of the application and of the node of a pod.
pub(super) fn place(pod: usize, shape: &Shape) -> (usize, usize) {
    // Consecutive pods go to different namespaces and nodes, as they do where many controllers work at once.
    (pod % shape.apps(), pod % shape.nodes.max(1))
}

/// Name of a pod of an application.
pub(super) fn pod_name(app: &str, pod: usize) -> String {
    format!("{app}-{:05x}", (pod.wrapping_mul(7919)) & 0xf_ffff)
}

/// Body of a pod as its replica set's controller sends it, but for its node.
pub(super) fn pod(pod: &Pod<'_>) -> String {
    let Pod { namespace, name, app, owner, .. } = pod;
    let owners = owner.map_or_else(String::new, |uid| {
        format!(
            r#","ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{app}","uid":"{uid}","controller":true,"blockOwnerDeletion":true}}]"#
        )
    });
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","generateName":"{app}-","namespace":"{namespace}","labels":{}{owners}}},"spec":{{"containers":[{{"name":"shop","image":"registry.example.com/shop/backend:1.24.3","ports":[{{"containerPort":8080,"protocol":"TCP"}}],"resources":{{"limits":{{"memory":"256Mi"}},"requests":{{"cpu":"250m","memory":"256Mi"}}}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"{}","securityContext":{{}},"schedulerName":"default-scheduler"}}}}"#,
        labels(app),
        node_name(pod.node),
    )
}

/// The status that the kubelet of node number `node` reports for pod number `pod`, and the object's end.
pub(super) fn status(pod: usize, node: usize) -> String {
    let host = host_ip(node);
    let ip = format!("10.{}.{}.{}", 128 + pod / 65_536 % 64, pod / 256 % 256, pod % 256);
    let conditions: Vec<String> = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    .into_iter()
    .map(|kind| {
        format!(
            r#"{{"type":"{kind}","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:05Z"}}"#
        )
    })
    .collect();
    format!(
        r#""status":{{"phase":"Running","conditions":[{}],"hostIP":"{host}","hostIPs":[{{"ip":"{host}"}}],"podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"startTime":"2026-01-01T00:00:00Z","containerStatuses":[{{"name":"shop","state":{{"running":{{"startedAt":"2026-01-01T00:00:04Z"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example.com/shop/backend:1.24.3","imageID":"registry.example.com/shop/backend@sha256:6a5b1f8c0d9e4f3a2b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c","containerID":"containerd://{pod:064x}","started":true}}],"qosClass":"Burstable"}}}}"#,
        conditions.join(","),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_of_the_promised_size() {
        let pod_of =
            Pod { namespace: "team-001", name: "shop-00001-00abc", app: "shop-00001", owner: Some("u-1"), node: 7 };
        let body = pod(&pod_of);
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["spec"]["nodeName"], "node-00007.cluster.example");
        assert!((900..1100).contains(&body.len()), "{}", body.len());
        let status: serde_json::Value = serde_json::from_str(&format!("{{{}", status(70_000, 300))).unwrap();
        assert_eq!(status["status"]["podIP"], "10.129.17.112");
        for body in [node(300), replica_set(4, 50), budget(4), namespace_body("x")] {
            serde_json::from_str::<serde_json::Value>(&body).unwrap();
        }
    }

    #[test]
    fn pods_of_an_application_have_names_of_their_own() {
        let names: std::collections::BTreeSet<String> = (0..150_000).map(|pod| pod_name("a", pod)).collect();
        assert_eq!(names.len(), 150_000);
    }
}
