//! The objects that a fresh cluster of kind has beside the API server's own: nodes, the storage class, and the
//! workloads of kube-system, as far as clients look at them: names, labels, owners and images of kind 0.32.

use serde_json::{Value, json};

/// Returns the node with this number. The first one of a cluster of kind is the control plane.
pub(crate) fn node(number: u16, is_control_plane: bool) -> Value {
    let name = node_name(number);
    let mut labels =
        json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
    if is_control_plane {
        labels["node-role.kubernetes.io/control-plane"] = json!("");
        labels["node.kubernetes.io/exclude-from-external-load-balancers"] = json!("");
    }
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
}

/// Returns the binding of the group of kind's administrator.
pub(crate) fn administrators() -> Value {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let name = "kubeadm:cluster-admins";
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "apiGroup": GROUP, "name": name}]})
}

fn node_name(number: u16) -> String {
    format!("node-{number}")
}

/// Returns the default storage class of kind.
pub(crate) fn standard_class() -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "rancher.io/local-path",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"})
}

/// Returns the workloads of kube-system with their configuration: the pods of the control plane, DNS, proxies, the
/// network, and the provisioner of volumes in a namespace of its own.
pub(crate) fn system_workloads(version: &str) -> Vec<Value> {
    let mut objects = configurations(version);
    objects.extend(provisioner());
    objects.extend([dns(), dns_service()]);
    objects.extend([
        daemon_set("kube-proxy", "kube-proxy", &format!("registry.k8s.io/kube-proxy:{version}")),
        daemon_set("kindnet", "kindnet-cni", "docker.io/kindest/kindnetd:v20260101"),
    ]);
    let components = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    objects.extend(components.map(|name| static_pod(name, &format!("registry.k8s.io/{name}:{version}"))));
    objects.push(static_pod("etcd", "registry.k8s.io/etcd:3.6.6-0"));
    objects
}

/// The configuration of DNS: the plugins that kubeadm turns on.
const COREFILE: &str = "\
.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf
    cache 30
    loop
    reload
    loadbalance
}
";

/// Returns the config maps that kubeadm leaves in kube-system, which programs read and change.
fn configurations(version: &str) -> Vec<Value> {
    let map = |name: &str, key: &str, text: String| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"},
            "data": {key: text}})
    };
    let kubeadm = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: kind\n\
         kubernetesVersion: {version}\nnetworking:\n  dnsDomain: cluster.local\n  podSubnet: 10.244.0.0/16\n  \
         serviceSubnet: 10.0.0.0/24\n"
    );
    let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n\
                   clusterDNS:\n- 10.0.0.10\nclusterDomain: cluster.local\n";
    let proxy = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
                 clusterCIDR: 10.244.0.0/16\nipvs:\n  strictARP: false\nmode: iptables\n";
    vec![
        map("coredns", "Corefile", COREFILE.to_owned()),
        map("kube-proxy", "config.conf", proxy.to_owned()),
        map("kubeadm-config", "ClusterConfiguration", kubeadm),
        map("kubelet-config", "kubelet", kubelet.to_owned()),
    ]
}

/// Returns the provisioner of the class `standard`.
fn provisioner() -> [Value; 3] {
    let name = "local-path-provisioner";
    let namespace = "local-path-storage";
    let account_name = format!("{name}-service-account");
    let labels = json!({"app": name});
    [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        account(namespace, &account_name),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"serviceAccountName": account_name,
                    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
                    "containers": [{"name": name, "image": "docker.io/kindest/local-path-provisioner:v20260101"}]}}}}),
    ]
}

fn dns() -> Value {
    let labels = json!({"k8s-app": "kube-dns"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system", "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": labels}, "spec": {
                "priorityClassName": "system-cluster-critical",
                "serviceAccountName": "coredns",
                "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"},
                    {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
                "containers": [{"name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.14.2",
                    "args": ["-conf", "/etc/coredns/Corefile"],
                    "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true}],
                    "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"},
                        {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
                        {"name": "metrics", "containerPort": 9153, "protocol": "TCP"}],
                    "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}}}],
                "volumes": [{"name": "config-volume", "configMap": {"name": "coredns",
                    "items": [{"key": "Corefile", "path": "Corefile"}]}}]}}}})
}

fn dns_service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns",
            "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}},
        "spec": {"selector": {"k8s-app": "kube-dns"}, "clusterIP": "10.0.0.10", "clusterIPs": ["10.0.0.10"],
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
                {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153}]}})
}

fn daemon_set(name: &str, app: &str, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"k8s-app": name}},
        "spec": {"selector": {"matchLabels": {"k8s-app": name}},
            "template": {"metadata": {"labels": {"k8s-app": name}}, "spec": {
                "hostNetwork": true,
                "priorityClassName": "system-node-critical",
                "serviceAccountName": name,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": app, "image": image, "securityContext": {"privileged": true}}]}}}})
}

/// Returns the pod that the kubelet of the control plane reports for one of its manifests.
fn static_pod(name: &str, image: &str) -> Value {
    let node = node_name(1);
    let annotations = json!({"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": name,
        "kubernetes.io/config.hash": name});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{name}-{node}"), "namespace": "kube-system", "annotations": annotations,
            "labels": {"component": name, "tier": "control-plane"}},
        "spec": {"nodeName": node, "hostNetwork": true, "priorityClassName": "system-node-critical",
            "priority": 2_000_001_000, "tolerations": [{"effect": "NoExecute", "operator": "Exists"}],
            "containers": [{"name": name, "image": image, "command": [name]}]}})
}

/// Returns the service accounts of the workloads of kube-system.
pub(crate) fn system_accounts() -> Vec<Value> {
    ["coredns", "kube-proxy", "kindnet"].map(|name| account("kube-system", name)).to_vec()
}

fn account(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
}
