//! Objects of the load, encoded as a real cluster has them. [`LoadSpec`] defines their numbers and relations.
//!
//! An application is a replica set with its pods and a budget for them. A pod is the object that the replica set
//! controller sends for a template with one container, about 1 KB, with its node already set (the server's admission
//! adds tolerations and priority); its status is that of a kubelet, about 1.3 KB.

/// Namespace of the watch stage.
pub(crate) const WATCHED: &str = "bench-watched";

/// Numbers of objects and their relations. Objects are identified by number, so the same world always has the same
/// objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadSpec {
    /// Nodes.
    pub(crate) nodes: usize,
    /// Applications, each with a replica set, pods and a budget. At least 1.
    pub(crate) apps: usize,
    /// Pods of all applications together.
    pub(crate) pods: usize,
    /// Namespaces of the applications.
    pub(crate) namespaces: usize,
    /// Limit of the budgets, as a member of their spec.
    pub(crate) budget: &'static str,
    /// True if nodes already have the annotation of the ttl controller.
    pub(crate) annotated: bool,
}

impl LoadSpec {
    /// Returns the application and the node of a pod.
    pub(crate) fn place(&self, pod: usize) -> (usize, usize) {
        // Consecutive pods go to different namespaces and nodes, as with many concurrent controllers. The pods of one
        // application also go to different nodes, even if the numbers of nodes and applications have a common divisor.
        (pod % self.apps.max(1), (pod + pod / self.apps.max(1)) % self.nodes.max(1))
    }

    /// Returns the number of pods of an application.
    pub(crate) fn pods_of(&self, app: usize) -> usize {
        (self.pods + self.apps.max(1)).saturating_sub(app + 1) / self.apps.max(1)
    }

    /// Namespace of an application.
    pub(crate) fn namespace(&self, app: usize) -> String {
        namespace(app % self.namespaces.max(1))
    }
}

/// Name of a namespace.
pub(crate) fn namespace(number: usize) -> String {
    format!("team-{number:03}")
}

/// Name of an application, of its replica set and of its budget.
pub(crate) fn app(app: usize) -> String {
    format!("shop-{app:05}")
}

/// Name of a node.
pub(crate) fn node_name(node: usize) -> String {
    format!("node-{node:05}.cluster.example")
}

/// Returns the number of the application with this name.
pub(crate) fn app_number(name: &str) -> Option<usize> {
    name.strip_prefix("shop-")?.parse().ok()
}

/// Returns the number of the node with this name.
pub(crate) fn node_number(name: &str) -> Option<usize> {
    name.strip_prefix("node-")?.strip_suffix(".cluster.example")?.parse().ok()
}

/// Body of a namespace.
pub(crate) fn namespace_body(name: &str) -> String {
    format!(r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"{name}"}}}}"#)
}

/// Returns the body of a node as registered by a kubelet; with `annotated` it has the ttl controller's annotation.
pub(crate) fn node(number: usize, annotated: bool) -> String {
    let name = node_name(number);
    let zone = number % 3;
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
    let ttl = if annotated { r#""node.alpha.kubernetes.io/ttl":"0","# } else { "" };
    let resources =
        r#"{"cpu":"16","ephemeral-storage":"101430960Ki","hugepages-2Mi":"0","memory":"65535172Ki","pods":"110"}"#;
    format!(
        r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"{name}","labels":{{"beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux","kubernetes.io/arch":"amd64","kubernetes.io/hostname":"{name}","kubernetes.io/os":"linux","node.kubernetes.io/instance-type":"m6i.4xlarge","topology.kubernetes.io/region":"eu-1","topology.kubernetes.io/zone":"eu-1{zone}"}},"annotations":{{{ttl}"volumes.kubernetes.io/controller-managed-attach-detach":"true"}}}},"spec":{{"podCIDR":"10.{}.{}.0/24","podCIDRs":["10.{}.{}.0/24"],"providerID":"cloud://eu-1{zone}/{name}"}},"status":{{"capacity":{resources},"allocatable":{resources},"conditions":[{}],"addresses":[{{"type":"InternalIP","address":"{}"}},{{"type":"Hostname","address":"{name}"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":10250}}}},"nodeInfo":{{"machineID":"{number:032x}","systemUUID":"{number:032x}","bootID":"{number:032x}","kernelVersion":"6.8.0","osImage":"Debian GNU/Linux 13","containerRuntimeVersion":"containerd://2.1.0","kubeletVersion":"v1.36.0","kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64"}}}}}}"#,
        number / 256 % 256,
        number % 256,
        number / 256 % 256,
        number % 256,
        conditions.join(","),
        host_ip(number),
    )
}

/// Body of an application's replica set.
pub(crate) fn replica_set(world: &LoadSpec, number: usize) -> String {
    let name = app(number);
    let namespace = world.namespace(number);
    let replicas = world.pods_of(number);
    format!(
        r#"{{"kind":"ReplicaSet","apiVersion":"apps/v1","metadata":{{"name":"{name}","namespace":"{namespace}","labels":{}}},"spec":{{"replicas":{replicas},"selector":{{"matchLabels":{}}},"template":{{"metadata":{{"labels":{}}},"spec":{{"containers":[{{"name":"shop","image":"registry.example.com/shop/backend:1.24.3"}}]}}}}}}}}"#,
        labels(&name),
        selector(&name),
        labels(&name),
    )
}

/// Body of an application's budget.
pub(crate) fn budget(world: &LoadSpec, number: usize) -> String {
    let name = app(number);
    let namespace = world.namespace(number);
    let budget = world.budget;
    format!(
        r#"{{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"app.kubernetes.io/name":"{name}"}}}},"spec":{{{budget},"selector":{{"matchLabels":{}}},"unhealthyPodEvictionPolicy":"AlwaysAllow"}}}}"#,
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
pub(crate) struct LoadPod<'a> {
    /// Its namespace.
    pub(crate) namespace: &'a str,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its application's name.
    pub(crate) app: &'a str,
    /// uid of its replica set, if it has one.
    pub(crate) owner: Option<&'a str>,
    /// Number of its node.
    pub(crate) node: usize,
}

/// Exclusive upper limit of pod numbers.
pub(crate) const PODS_MAX: usize = 1 << 20;
/// Odd, so that pod numbers map to distinct digits.
const SCATTER: usize = 7919;

/// Name of a pod of an application.
pub(crate) fn pod_name(app: &str, pod: usize) -> String {
    format!("{app}-{:05x}", pod.wrapping_mul(SCATTER) % PODS_MAX)
}

/// Returns the number of the pod with this name.
pub(crate) fn pod_number(name: &str) -> Option<usize> {
    // Inverse of SCATTER modulo PODS_MAX.
    const BACK: usize = 315_407;
    const { assert!(BACK * SCATTER % PODS_MAX == 1) };
    let digits = name.rsplit_once('-')?.1;
    let scattered = usize::from_str_radix(digits, 16).ok().filter(|number| *number < PODS_MAX)?;
    Some(scattered * BACK % PODS_MAX)
}

/// Returns the body of a pod as sent by its replica set's controller, with the node set.
pub(crate) fn pod(pod: &LoadPod<'_>) -> String {
    let LoadPod { namespace, name, app, owner, .. } = pod;
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

/// Returns the status reported by the kubelet of node `node` for pod `pod`, and the end of the object.
pub(crate) fn status(pod: usize, node: usize) -> String {
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
            LoadPod { namespace: "team-001", name: "shop-00001-00abc", app: "shop-00001", owner: Some("u-1"), node: 7 };
        let body = pod(&pod_of);
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["spec"]["nodeName"], "node-00007.cluster.example");
        assert!((900..1100).contains(&body.len()), "{}", body.len());
        let status: serde_json::Value = serde_json::from_str(&format!("{{{}", status(70_000, 300))).unwrap();
        assert_eq!(status["status"]["podIP"], "10.129.17.112");
        let world = LoadSpec {
            nodes: 10,
            apps: 6,
            pods: 20,
            namespaces: 2,
            budget: r#""maxUnavailable":"10%""#,
            annotated: false,
        };
        let bodies =
            [node(300, true), node(300, false), replica_set(&world, 4), budget(&world, 4), namespace_body("x")];
        let values = bodies.map(|body| serde_json::from_str::<serde_json::Value>(&body).unwrap());
        let annotation = |value: &serde_json::Value| value["metadata"]["annotations"].as_object().unwrap().len();
        assert_eq!(
            values.each_ref().map(|value| &value["kind"]),
            ["Node", "Node", "ReplicaSet", "PodDisruptionBudget", "Namespace"]
        );
        assert_eq!((annotation(&values[0]), annotation(&values[1])), (2, 1));
        assert_eq!((&values[2]["spec"]["replicas"], &values[3]["spec"]["maxUnavailable"]), (&3.into(), &"10%".into()));
    }

    #[test]
    fn pods_of_an_application_have_names_of_their_own() {
        for pod in 0..PODS_MAX {
            assert_eq!(pod_number(&pod_name("a-1", pod)), Some(pod));
        }
        for other in ["a", "a-", "a-100000", "a-xyz"] {
            assert_eq!(pod_number(other), None, "{other}");
        }
    }

    #[test]
    fn names_lead_back_to_numbers() {
        assert_eq!((app_number(&app(7)), app_number("other-00007"), app_number("shop-x")), (Some(7), None, None));
        assert_eq!((node_number(&node_name(123_456)), node_number("node-00001")), (Some(123_456), None));
    }

    #[test]
    fn every_pod_has_its_application_and_its_node() {
        let world = LoadSpec { nodes: 4, apps: 3, pods: 11, namespaces: 2, budget: "", annotated: true };
        let mut counted = [0; 3];
        for pod in 0..world.pods {
            counted[world.place(pod).0] += 1;
        }
        let even = LoadSpec { apps: 4, ..world };
        assert_eq!(
            [0, 4, 8, 12].map(|pod| even.place(pod)),
            [(0, 0), (0, 1), (0, 2), (0, 3)],
            "each on a node of its own"
        );
        assert_eq!(counted, [world.pods_of(0), world.pods_of(1), world.pods_of(2)]);
        assert_eq!((0..3).map(|app| world.namespace(app)).collect::<Vec<_>>(), ["team-000", "team-001", "team-000"]);
    }
}
