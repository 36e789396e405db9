//! The nodes that have room for a pod, and the words about those that have not. PURE. See `noderesources/fit.go`,
//! `nodeports`, `interpodaffinity` in `pkg/scheduler/framework/plugins`, and `FitError` in
//! `pkg/scheduler/framework/types.go`. Spread constraints are not looked at, and no pod is preempted.

use std::collections::BTreeMap;

use super::filters;
use crate::json::fields::array_field;
use crate::json::{Map, Value};
use crate::metadata;
use crate::quantity::Quantity;
use crate::registry::label_selector;
use crate::registry::resource_list::{ResourceList, pod_resources};

/// Namespace and name of a pod.
pub(super) type PodKey = (String, String);

/// Returns the key of a pod.
pub(super) fn key_of(pod: &Value) -> PodKey {
    (metadata::namespace(pod).to_owned(), metadata::name(pod).to_owned())
}

/// The reason why a node does not take a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) reasons: Vec<String>,
    /// The node could take the pod if others were gone.
    pub(super) is_resolvable: bool,
}

impl Rejection {
    fn of(reason: &str, is_resolvable: bool) -> Self {
        Self { reasons: vec![reason.to_owned()], is_resolvable }
    }
}

/// A pod on a node.
#[derive(Debug)]
struct PlacedPod {
    node: String,
    labels: Value,
    priority: i64,
    requests: ResourceList,
    ports: Vec<HostPort>,
    /// The terms of its required anti-affinity.
    avoids: Vec<Value>,
}

/// The sum of what the pods of a node request.
#[derive(Debug, Default)]
struct NodeUsage {
    pods: usize,
    requests: BTreeMap<String, Quantity>,
}

/// The pods on nodes that have not ended, which are kept up to date from their changes.
#[derive(Debug, Default)]
pub(super) struct Placements {
    pods: BTreeMap<PodKey, PlacedPod>,
    usage: BTreeMap<String, NodeUsage>,
    /// Number of pods with host ports, and with required anti-affinity.
    special: (usize, usize),
}

impl Placements {
    /// Notes the state of a pod. Returns true if it gave up its place.
    pub(super) fn note(&mut self, pod: &Value) -> bool {
        let key = key_of(pod);
        let had = self.forget(&key);
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() || matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return had;
        }
        let placed = PlacedPod {
            node: node.to_owned(),
            labels: pod["metadata"]["labels"].clone(),
            priority: pod["spec"]["priority"].as_i64().unwrap_or(0),
            requests: pod_resources(pod, "requests"),
            ports: host_ports(pod).collect(),
            avoids: terms(pod, "podAntiAffinity").to_vec(),
        };
        let usage = self.usage.entry(placed.node.clone()).or_default();
        usage.pods += 1;
        for (name, amount) in &placed.requests {
            let known = usage.requests.get(name).copied();
            usage.requests.insert(name.clone(), known.map_or(*amount, |known| known.plus(*amount)));
        }
        self.special.0 += usize::from(!placed.ports.is_empty());
        self.special.1 += usize::from(!placed.avoids.is_empty());
        self.pods.insert(key, placed);
        false
    }

    /// Removes a pod; `false` if it had no place.
    pub(super) fn forget(&mut self, key: &PodKey) -> bool {
        let Some(placed) = self.pods.remove(key) else { return false };
        self.special.0 -= usize::from(!placed.ports.is_empty());
        self.special.1 -= usize::from(!placed.avoids.is_empty());
        if let Some(usage) = self.usage.get_mut(&placed.node) {
            usage.pods -= 1;
            for (name, amount) in &placed.requests {
                if let Some(known) = usage.requests.get_mut(name) {
                    *known = known.minus(*amount);
                }
            }
            if usage.pods == 0 {
                self.usage.remove(&placed.node);
            }
        }
        true
    }

    /// Returns why a node does not take a pod, in the order of the scheduler's plugins.
    pub(super) fn reject(&self, node: &Value, pod: &Value, cluster: &Cluster<'_>) -> Option<Rejection> {
        if let Some(reason) = filters::rejection(node, pod) {
            return Some(Rejection::of(reason, false));
        }
        self.ports(node, pod).or_else(|| self.resources(node, pod)).or_else(|| self.affinity(node, pod, cluster))
    }

    fn ports(&self, node: &Value, pod: &Value) -> Option<Rejection> {
        if self.special.0 == 0 || host_ports(pod).next().is_none() {
            return None;
        }
        let mut others = self.pods.values().filter(|placed| placed.node == metadata::name(node));
        let taken = others.any(|placed| host_ports(pod).any(|port| placed.ports.iter().any(|it| it.conflicts(&port))));
        taken.then(|| Rejection::of("node(s) didn't have free ports for the requested pod ports", true))
    }

    fn resources(&self, node: &Value, pod: &Value) -> Option<Rejection> {
        // A node that has not reported its size yet has room.
        let allocatable = node["status"]["allocatable"].as_object()?;
        let nothing = NodeUsage::default();
        let usage = self.usage.get(metadata::name(node)).unwrap_or(&nothing);
        let room = |name: &str| allocatable.get(name).and_then(Quantity::of);
        let mut reasons = Vec::new();
        let mut is_resolvable = true;
        if room("pods").is_some_and(|most| i128::try_from(usage.pods + 1).unwrap_or(i128::MAX) > most.ceil()) {
            reasons.push("Too many pods".to_owned());
        }
        for (name, wanted) in pod_resources(pod, "requests") {
            if wanted.sign() <= 0 {
                continue;
            }
            let all = room(&name).unwrap_or_else(|| Quantity::from(0));
            let left = usage.requests.get(&name).map_or(all, |used| all.minus(*used));
            if left.minus(wanted).sign() < 0 {
                reasons.push(format!("Insufficient {name}"));
                is_resolvable &= all.minus(wanted).sign() >= 0;
            }
        }
        (!reasons.is_empty()).then_some(Rejection { reasons, is_resolvable })
    }

    /// Compares the required affinities of a pod and of those that are placed.
    fn affinity(&self, node: &Value, pod: &Value, cluster: &Cluster<'_>) -> Option<Rejection> {
        let wants = terms(pod, "podAffinity");
        let avoids = terms(pod, "podAntiAffinity");
        if wants.is_empty() && avoids.is_empty() && self.special.1 == 0 {
            return None;
        }
        let own_namespace = metadata::namespace(pod);
        let own_labels = &pod["metadata"]["labels"];
        let selects = |term: &Value, (namespace, _): &PodKey, placed: &PlacedPod| {
            cluster.selects(term, own_namespace, namespace, &placed.labels)
        };
        let here = |term: &Value, placed: &PlacedPod| cluster.are_together(term, node, &placed.node);
        let is_met = |term: &Value| self.pods.iter().any(|(key, it)| selects(term, key, it) && here(term, it));
        if !wants.iter().all(is_met) {
            let any = |term: &Value| self.pods.iter().any(|(key, it)| selects(term, key, it));
            let own = |term: &Value| cluster.selects(term, own_namespace, own_namespace, own_labels);
            // The first of a group of pods that want to be together.
            let is_first = !wants.iter().any(any) && wants.iter().all(|term| own(term) && has_topology(term, node));
            if !is_first {
                return Some(Rejection::of("node(s) didn't match pod affinity rules", false));
            }
        }
        if avoids.iter().any(is_met) {
            return Some(Rejection::of("node(s) didn't match pod anti-affinity rules", true));
        }
        let is_avoided = |((namespace, _), placed): (&PodKey, &PlacedPod)| {
            let mut terms = placed.avoids.iter();
            terms.any(|term| cluster.selects(term, namespace, own_namespace, own_labels) && here(term, placed))
        };
        if self.special.1 > 0 && self.pods.iter().any(is_avoided) {
            return Some(Rejection::of("node(s) didn't satisfy existing pods anti-affinity rules", true));
        }
        None
    }

    /// Returns true if a node has a pod of lower priority.
    fn has_victims(&self, node: &str, pod: &Value) -> bool {
        let priority = pod["spec"]["priority"].as_i64().unwrap_or(0);
        self.pods.values().any(|placed| placed.node == node && placed.priority < priority)
    }

    /// Returns the message about a pod that no node takes; `rejections` are those of the nodes.
    pub(super) fn message(&self, pod: &Value, rejections: &[(&str, Rejection)]) -> String {
        let all = rejections.len();
        if all == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let reasons = rejections.iter().flat_map(|(_, rejection)| rejection.reasons.iter().map(String::as_str));
        let mut hopeless = 0;
        let mut fruitless = 0;
        let mut refused = 0;
        for (node, rejection) in rejections {
            if !rejection.is_resolvable {
                hopeless += 1;
            } else if pod["spec"]["preemptionPolicy"] != "Never" && self.has_victims(node, pod) {
                refused += 1;
            } else {
                fruitless += 1;
            }
        }
        let preemption = [
            ("Preemption is not helpful for scheduling", hopeless),
            ("No preemption victims found for incoming pod", fruitless),
            ("pods of lower priority are not preempted by this simulation", refused),
        ];
        let preemption = preemption.into_iter().flat_map(|(reason, count)| std::iter::repeat_n(reason, count));
        let none = format!("0/{all} nodes are available:");
        let preemption = if pod["spec"]["preemptionPolicy"] == "Never" {
            "not eligible due to preemptionPolicy=Never.".to_owned()
        } else {
            format!("{none} {}.", counted(preemption))
        };
        format!("{none} {}. preemption: {preemption}", counted(reasons))
    }
}

/// Returns the message about a pod that cannot be scheduled on any node for a reason of its own.
pub(super) fn unresolvable(why: &str, nodes: usize) -> String {
    let none = format!("0/{nodes} nodes are available:");
    format!("{none} {why}. preemption: {none} {nodes} Preemption is not helpful for scheduling.")
}

/// Joins reasons with the numbers of their nodes.
fn counted<'r>(reasons: impl Iterator<Item = &'r str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut shown: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    shown.sort();
    shown.join(", ")
}

/// The nodes and namespaces that terms of affinity refer to.
pub(super) struct Cluster<'c> {
    /// The nodes by name.
    pub(super) nodes: BTreeMap<&'c str, &'c Value>,
    /// Returns the labels of a namespace.
    pub(super) namespace_labels: &'c dyn Fn(&str) -> Value,
}

impl Cluster<'_> {
    /// Returns true if a term of a pod in the namespace `own` selects a pod.
    fn selects(&self, term: &Value, own: &str, namespace: &str, labels: &Value) -> bool {
        let named = array_field(term, "namespaces");
        let selector = term.get("namespaceSelector").filter(|selector| selector.is_object());
        let in_namespace = if named.is_empty() && selector.is_none() {
            own == namespace
        } else {
            named.iter().any(|name| name == namespace)
                || selector.is_some_and(|selector| matches(selector, &(self.namespace_labels)(namespace)))
        };
        in_namespace && term.get("labelSelector").is_some_and(|selector| matches(selector, labels))
    }

    /// Returns true if two nodes are in one domain of a term's topology.
    fn are_together(&self, term: &Value, node: &Value, other: &str) -> bool {
        let key = term["topologyKey"].as_str().unwrap_or_default();
        let domain = metadata::label(node, key);
        domain.is_some() && self.nodes.get(other).and_then(|other| metadata::label(other, key)) == domain
    }
}

fn has_topology(term: &Value, node: &Value) -> bool {
    metadata::label(node, term["topologyKey"].as_str().unwrap_or_default()).is_some()
}

fn matches(selector: &Value, labels: &Value) -> bool {
    let none = Value::Object(Map::new());
    let labels = if labels.is_object() { labels } else { &none };
    label_selector::matches(Some(selector), Some(labels)) == Some(true)
}

fn terms<'p>(pod: &'p Value, affinity: &str) -> &'p [Value] {
    array_field(&pod["spec"]["affinity"][affinity], "requiredDuringSchedulingIgnoredDuringExecution")
}

/// A port of a node that a container wants.
#[derive(Debug, PartialEq, Eq)]
struct HostPort {
    address: String,
    protocol: String,
    port: i64,
}

impl HostPort {
    /// Returns true if both cannot be on one node.
    fn conflicts(&self, other: &Self) -> bool {
        let every = |address: &str| address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || every(&self.address) || every(&other.address))
    }
}

fn host_ports(pod: &Value) -> impl Iterator<Item = HostPort> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    ports.filter_map(|port| {
        let text = |field: &str, default: &str| {
            port[field].as_str().filter(|text| !text.is_empty()).unwrap_or(default).to_owned()
        };
        let number = port["hostPort"].as_i64().filter(|number| *number > 0)?;
        Some(HostPort { address: text("hostIP", "0.0.0.0"), protocol: text("protocol", "TCP"), port: number })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    #[rstest]
    #[case::same(json!({"hostPort": 80}), json!({"hostPort": 80}), true)]
    #[case::other_port(json!({"hostPort": 80}), json!({"hostPort": 81}), false)]
    #[case::other_protocol(json!({"hostPort": 80}), json!({"hostPort": 80, "protocol": "UDP"}), false)]
    #[case::other_address(json!({"hostPort": 80, "hostIP": "10.0.0.1"}), json!({"hostPort": 80, "hostIP": "10.0.0.2"}), false)]
    #[case::every_address(json!({"hostPort": 80, "hostIP": "10.0.0.1"}), json!({"hostPort": 80}), true)]
    #[case::none(json!({"containerPort": 80}), json!({"hostPort": 80}), false)]
    fn host_ports_conflict(#[case] one: Value, #[case] other: Value, #[case] expected: bool) {
        let [one, other] = [one, other].map(|port| json!({"spec": {"containers": [{"ports": [port]}]}}));
        let conflict = host_ports(&one).any(|one| host_ports(&other).any(|other| one.conflicts(&other)));
        assert_eq!(conflict, expected);
    }

    fn node(name: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {"zone": "z", "kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}}})
    }

    fn pod(name: &str, node: &str, spec: &Value) -> Value {
        let mut pod = json!({"metadata": {"namespace": "d", "name": name, "labels": {"app": "a"}}, "spec": spec});
        pod["spec"]["nodeName"] = json!(node);
        pod
    }

    fn requesting(cpu: &str) -> Value {
        json!({"containers": [{"resources": {"requests": {"cpu": cpu}}}]})
    }

    fn affine(kind: &str, selected: &str) -> Value {
        let term = json!({"labelSelector": {"matchLabels": {"app": selected}}, "topologyKey": "zone"});
        let mut spec = json!({"affinity": {}});
        spec["affinity"][kind] = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        spec
    }

    /// Reasons as in the tests of the plugins.
    #[rstest]
    #[case::fits(vec![("x", requesting("1"))], requesting("1"), None)]
    #[case::cpu(vec![("x", requesting("1500m"))], requesting("600m"), Some(("Insufficient cpu", true)))]
    #[case::never(vec![], requesting("3"), Some(("Insufficient cpu", false)))]
    #[case::extended(vec![], json!({"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]}), Some(("Insufficient example.com/gpu", false)))]
    #[case::pods(vec![("x", json!({})), ("y", json!({})), ("z", json!({}))], json!({}), Some(("Too many pods", true)))]
    #[case::ports(vec![("x", json!({"containers": [{"ports": [{"hostPort": 80}]}]}))], json!({"containers": [{"ports": [{"hostPort": 80}]}]}),
        Some(("node(s) didn't have free ports for the requested pod ports", true)))]
    #[case::selector(vec![], json!({"nodeSelector": {"a": "b"}}), Some(("node(s) didn't match Pod's node affinity/selector", false)))]
    #[case::affinity(vec![], affine("podAffinity", "b"), Some(("node(s) didn't match pod affinity rules", false)))]
    #[case::first_of_its_group(vec![], affine("podAffinity", "a"), None)]
    #[case::anti_affinity(vec![("x", json!({}))], affine("podAntiAffinity", "a"), Some(("node(s) didn't match pod anti-affinity rules", true)))]
    #[case::avoided(vec![("x", affine("podAntiAffinity", "a"))], json!({}), Some(("node(s) didn't satisfy existing pods anti-affinity rules", true)))]
    fn nodes_reject_pods(
        #[case] placed: Vec<(&str, Value)>,
        #[case] spec: Value,
        #[case] expected: Option<(&str, bool)>,
    ) {
        let mut placements = Placements::default();
        for (name, spec) in &placed {
            placements.note(&pod(name, "n", spec));
        }
        let node = node("n");
        let cluster = Cluster { nodes: BTreeMap::from([("n", &node)]), namespace_labels: &|_| Value::Null };
        let found = placements.reject(&node, &pod("p", "", &spec), &cluster);
        let shown = found.as_ref().map(|found| (found.reasons[0].as_str(), found.is_resolvable));
        assert_eq!(shown, expected);
        for (name, _) in &placed {
            assert!(placements.forget(&("d".to_owned(), (*name).to_owned())));
        }
        assert!(placements.usage.is_empty() && placements.special == (0, 0));
    }

    #[test]
    fn messages_count_the_nodes() {
        let mut placements = Placements::default();
        placements.note(&pod("x", "b", &requesting("2")));
        let incoming = pod("p", "", &requesting("1"));
        let rejections = [
            ("a", Rejection::of("node(s) had untolerated taint(s)", false)),
            ("b", Rejection::of("Insufficient cpu", true)),
        ];
        assert_eq!(
            placements.message(&incoming, &rejections),
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). preemption: 0/2 nodes are \
             available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
        );
        assert_eq!(placements.message(&incoming, &[]), "no nodes available to schedule pods");
        assert_eq!(
            unresolvable("persistentvolumeclaim \"c\" not found", 1),
            "0/1 nodes are available: persistentvolumeclaim \"c\" not found. preemption: 0/1 nodes are available: 1 \
             Preemption is not helpful for scheduling."
        );
    }
}
