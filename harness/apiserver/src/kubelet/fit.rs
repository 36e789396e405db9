//! The nodes that have room for a pod, and the words about those that have not. PURE. See `noderesources/fit.go`,
//! `nodeports`, `volumerestrictions` and `interpodaffinity` in `pkg/scheduler/framework/plugins`, and `FitError` in
//! `pkg/scheduler/framework/types.go`.

use std::collections::{BTreeMap, BTreeSet};

use super::filters;
use super::pod_volumes::PodVolumes;
use super::rejection::Rejection;
use super::spread::Spread;
use crate::json::fields::array_field;
use crate::json::{Map, Value};
use crate::metadata;
use crate::pod_fields::{has_ended, sidecars};
use crate::quantity::Quantity;
use crate::registry::core::pod::qos;
use crate::registry::label_selector;
use crate::registry::resource_list::{ResourceList, pod_resources};

/// Namespace and name of a pod.
pub(super) type PodKey = (String, String);

/// Returns the key of a pod.
pub(super) fn key_of(pod: &Value) -> PodKey {
    (metadata::namespace(pod).to_owned(), metadata::name(pod).to_owned())
}

/// Returns the priority of a pod.
pub(super) fn priority_of(pod: &Value) -> i64 {
    pod["spec"]["priority"].as_i64().unwrap_or(0)
}

/// A pod on a node, or one that is to be there.
#[derive(Debug, Clone)]
pub(super) struct PlacedPod {
    pub(super) node: String,
    pub(super) labels: Value,
    pub(super) priority: i64,
    /// The time of its start; empty before.
    pub(super) started: String,
    /// The pod is being deleted.
    pub(super) is_leaving: bool,
    /// The pod is being deleted because the scheduler has preempted it.
    pub(super) is_preempted: bool,
    /// The class of its quality of service.
    pub(super) class: &'static str,
    pub(super) requests: ResourceList,
    ports: Vec<HostPort>,
    /// The terms of its required anti-affinity.
    avoids: Vec<Value>,
    /// The names of its claims.
    claims: BTreeSet<String>,
    /// Its volumes that are disks.
    disks: Vec<Value>,
}

impl PlacedPod {
    fn of(pod: &Value, node: &str) -> Self {
        let is_leaving = metadata::is_deleted(pod);
        let mut conditions = array_field(&pod["status"], "conditions").iter();
        let is_preempted =
            conditions.any(|one| one["type"] == "DisruptionTarget" && one["reason"] == "PreemptionByScheduler");
        let volumes = array_field(&pod["spec"], "volumes").iter();
        let claims = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
        Self {
            node: node.to_owned(),
            labels: pod["metadata"]["labels"].clone(),
            priority: priority_of(pod),
            started: pod["status"]["startTime"].as_str().unwrap_or_default().to_owned(),
            class: qos::class(&pod["spec"]),
            is_leaving,
            is_preempted: is_leaving && is_preempted,
            requests: pod_resources(pod, "requests"),
            ports: host_ports(pod).collect(),
            avoids: terms(pod, "podAntiAffinity").to_vec(),
            claims: claims.map(str::to_owned).collect(),
            disks: disks(pod).cloned().collect(),
        }
    }
}

/// A pod that is to be scheduled, with what the filters need to know about it.
pub(super) struct IncomingPod<'p> {
    pub(super) pod: &'p Value,
    pub(super) spread: Spread,
    pub(super) volumes: PodVolumes,
}

/// The pods of a node, and the sum of what they request.
#[derive(Debug, Default)]
struct NodeUsage {
    pods: BTreeSet<PodKey>,
    requests: BTreeMap<String, Quantity>,
}

/// The pods on nodes that have not ended, which are kept up to date from their changes.
#[derive(Debug, Default)]
pub(super) struct Placements {
    pods: BTreeMap<PodKey, PlacedPod>,
    usage: BTreeMap<String, NodeUsage>,
    /// Number of pods with host ports, and with required anti-affinity.
    special: (usize, usize),
    /// Number of pods that use a claim, by namespace and name.
    claims: BTreeMap<PodKey, usize>,
    /// The pods for which others were preempted, on the nodes that they shall have.
    nominated: BTreeMap<PodKey, PlacedPod>,
}

impl Placements {
    /// Notes the state of a pod. Returns true if it gave up its place.
    pub(super) fn note(&mut self, pod: &Value) -> bool {
        let key = key_of(pod);
        let had = self.forget(&key);
        if has_ended(pod) {
            return had;
        }
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let nominated = pod["status"]["nominatedNodeName"].as_str().unwrap_or_default();
        if !node.is_empty() {
            self.add(key, PlacedPod::of(pod, node));
            return false;
        }
        if !nominated.is_empty() && !metadata::is_deleted(pod) {
            self.nominated.insert(key, PlacedPod::of(pod, nominated));
            return false;
        }
        had
    }

    /// Returns true if the pod has a place.
    pub(super) fn has(&self, key: &PodKey) -> bool {
        self.pods.contains_key(key)
    }

    /// Returns what the pods of a node request of a resource.
    pub(super) fn requested(&self, node: &str, resource: &str) -> Option<Quantity> {
        self.usage.get(node)?.requests.get(resource).copied()
    }

    /// Removes a pod; `false` if it had no place.
    pub(super) fn forget(&mut self, key: &PodKey) -> bool {
        let was_nominated = self.nominated.remove(key).is_some();
        self.take(key).is_some() || was_nominated
    }

    /// Adds a pod to its node.
    pub(super) fn add(&mut self, key: PodKey, placed: PlacedPod) {
        let usage = self.usage.entry(placed.node.clone()).or_default();
        for (name, amount) in &placed.requests {
            let known = usage.requests.get(name).copied();
            usage.requests.insert(name.clone(), known.map_or(*amount, |known| known.plus(*amount)));
        }
        usage.pods.insert(key.clone());
        self.special.0 += usize::from(!placed.ports.is_empty());
        self.special.1 += usize::from(!placed.avoids.is_empty());
        for claim in &placed.claims {
            *self.claims.entry((key.0.clone(), claim.clone())).or_default() += 1;
        }
        self.pods.insert(key, placed);
    }

    /// Takes a pod from its node.
    pub(super) fn take(&mut self, key: &PodKey) -> Option<PlacedPod> {
        let placed = self.pods.remove(key)?;
        self.special.0 -= usize::from(!placed.ports.is_empty());
        self.special.1 -= usize::from(!placed.avoids.is_empty());
        for claim in &placed.claims {
            let claim = (key.0.clone(), claim.clone());
            if let Some(users) = self.claims.get_mut(&claim) {
                *users -= 1;
                if *users == 0 {
                    self.claims.remove(&claim);
                }
            }
        }
        if let Some(usage) = self.usage.get_mut(&placed.node) {
            usage.pods.remove(key);
            for (name, amount) in &placed.requests {
                if let Some(known) = usage.requests.get_mut(name) {
                    *known = known.minus(*amount);
                }
            }
            if usage.pods.is_empty() {
                self.usage.remove(&placed.node);
            }
        }
        Some(placed)
    }

    /// Returns the pods of a node.
    pub(super) fn on_node(&self, node: &str) -> impl Iterator<Item = (&PodKey, &PlacedPod)> {
        let keys = self.usage.get(node).into_iter().flat_map(|usage| &usage.pods);
        keys.filter_map(|key| self.pods.get_key_value(key))
    }

    /// Returns the pods of lower priority that are nominated for a node.
    pub(super) fn nominated_below(&self, node: &str, priority: i64) -> Vec<PodKey> {
        let below = self.nominated.iter().filter(|(_, placed)| placed.node == node && placed.priority < priority);
        below.map(|(key, _)| key.clone()).collect()
    }

    /// Returns why a node does not take a pod, also if the pods of its priority or a higher one that are nominated for
    /// the node were there: `RunFilterPluginsWithNominatedPods` in `pkg/scheduler/framework/runtime/framework.go`.
    pub(super) fn reject(
        &mut self,
        node: &Value,
        incoming: &mut IncomingPod<'_>,
        cluster: &Cluster<'_>,
    ) -> Option<Rejection> {
        let own = key_of(incoming.pod);
        let priority = priority_of(incoming.pod);
        let is_rival = |key: &PodKey, placed: &PlacedPod| {
            placed.node == metadata::name(node) && placed.priority >= priority && *key != own
        };
        let rivals: Vec<(PodKey, PlacedPod)> = self
            .nominated
            .iter()
            .filter(|(key, placed)| is_rival(key, placed))
            .map(|(key, placed)| (key.clone(), placed.clone()))
            .collect();
        if !rivals.is_empty() {
            for (key, placed) in &rivals {
                incoming.spread.count(node, key, placed, 1);
                self.add(key.clone(), placed.clone());
            }
            let rejection = self.filter(node, incoming, cluster);
            for (key, placed) in &rivals {
                incoming.spread.count(node, key, placed, -1);
                self.take(key);
            }
            if rejection.is_some() {
                return rejection;
            }
        }
        self.filter(node, incoming, cluster)
    }

    /// Returns why a node does not take a pod, in the order of the scheduler's plugins.
    fn filter(&self, node: &Value, incoming: &IncomingPod<'_>, cluster: &Cluster<'_>) -> Option<Rejection> {
        let pod = incoming.pod;
        if let Some(reason) = filters::rejection(node, pod) {
            return Some(Rejection::of(reason, false));
        }
        self.ports(node, pod)
            .or_else(|| self.resources(node, pod))
            .or_else(|| self.disks(node, pod))
            .or_else(|| self.exclusive_claims(incoming))
            .or_else(|| incoming.volumes.reject(node))
            .or_else(|| incoming.spread.reject(node))
            .or_else(|| self.affinity(node, pod, cluster))
    }

    /// Compares the claims of a pod that only one pod may use with those of the pods that are placed:
    /// `satisfyReadWriteOncePod`.
    fn exclusive_claims(&self, incoming: &IncomingPod<'_>) -> Option<Rejection> {
        let namespace = metadata::namespace(incoming.pod);
        let mut exclusive = incoming.volumes.exclusive.iter();
        let is_used = exclusive.any(|claim| self.claims.contains_key(&(namespace.to_owned(), claim.clone())));
        is_used.then(|| {
            let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already \
                in-use by another pod";
            Rejection::of(reason, true)
        })
    }

    /// Returns that a host port of a pod is taken.
    pub(super) fn ports(&self, node: &Value, pod: &Value) -> Option<Rejection> {
        if self.special.0 == 0 || host_ports(pod).next().is_none() {
            return None;
        }
        let mut others = self.on_node(metadata::name(node));
        let taken =
            others.any(|(_, placed)| host_ports(pod).any(|port| placed.ports.iter().any(|it| it.conflicts(&port))));
        taken.then(|| Rejection::of("node(s) didn't have free ports for the requested pod ports", true))
    }

    /// Returns that a disk of a pod is used by another: `satisfyVolumeConflicts`.
    fn disks(&self, node: &Value, pod: &Value) -> Option<Rejection> {
        let mut own = disks(pod).peekable();
        own.peek()?;
        let is_used = |disk: &Value| {
            let mut others = self.on_node(metadata::name(node));
            others.any(|(_, placed)| placed.disks.iter().any(|other| disks_conflict(disk, other)))
        };
        own.any(is_used).then(|| Rejection::of("node(s) had no available disk", true))
    }

    fn resources(&self, node: &Value, pod: &Value) -> Option<Rejection> {
        // A node that has not reported its size yet has room.
        let allocatable = node["status"]["allocatable"].as_object()?;
        let nothing = NodeUsage::default();
        let usage = self.usage.get(metadata::name(node)).unwrap_or(&nothing);
        let room = |name: &str| allocatable.get(name).and_then(Quantity::of);
        let mut reasons = Vec::new();
        let mut is_resolvable = true;
        if room("pods").is_some_and(|most| i128::try_from(usage.pods.len() + 1).unwrap_or(i128::MAX) > most.ceil()) {
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
        // Only pods that all terms select count.
        let is_wanted = |key: &PodKey, it: &PlacedPod| wants.iter().all(|term| selects(term, key, it));
        let is_near = |term: &Value| self.pods.iter().any(|(key, it)| is_wanted(key, it) && here(term, it));
        if !wants.iter().all(is_near) {
            let own = |term: &Value| cluster.selects(term, own_namespace, own_namespace, own_labels);
            // The first of a group of pods that want to be together.
            let is_first = !self.pods.iter().any(|(key, it)| is_wanted(key, it))
                && wants.iter().all(|term| own(term) && has_topology(term, node));
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
}

/// Returns the message about a pod that no node takes: `FitError.Error`. `reasons` are those of all nodes.
pub(super) fn message<'r>(nodes: usize, reasons: impl Iterator<Item = &'r str>) -> String {
    format!("0/{nodes} nodes are available: {}.", counted(reasons))
}

/// Returns the message about a pod that cannot be scheduled on any node for a reason of its own (`PreFilterMsg`).
pub(super) fn unresolvable(why: &str, nodes: usize) -> String {
    format!("0/{nodes} nodes are available: {why}.")
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

/// Nodes by name.
pub(super) type NodesByName<'n> = BTreeMap<&'n str, &'n Value>;

/// The nodes and namespaces that terms of affinity refer to.
pub(super) struct Cluster<'c> {
    pub(super) nodes: &'c NodesByName<'c>,
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

/// Returns true if a selector selects labels. An empty one selects all.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    label_selector::matches(Some(selector), Some(labels)) == Some(true)
}

/// Returns true if a selector selects labels, where an empty one selects none.
pub(super) fn matches_by_requirement(selector: &Value, labels: &Value) -> bool {
    let is_empty = selector["matchLabels"].as_object().is_none_or(Map::is_empty)
        && array_field(selector, "matchExpressions").is_empty();
    !is_empty && matches(selector, labels)
}

fn terms<'p>(pod: &'p Value, affinity: &str) -> &'p [Value] {
    array_field(&pod["spec"]["affinity"][affinity], "requiredDuringSchedulingIgnoredDuringExecution")
}

/// A port of a node that a container wants.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// The sources of volumes that not every number of pods can have at once.
const DISKS: [&str; 4] = ["gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"];

fn disks(pod: &Value) -> impl Iterator<Item = &Value> {
    let volumes = array_field(&pod["spec"], "volumes").iter();
    volumes.filter(|volume| DISKS.iter().any(|source| volume[*source].is_object()))
}

/// Returns true if two pods cannot have these volumes on one node: `isVolumeConflict`.
fn disks_conflict(one: &Value, other: &Value) -> bool {
    DISKS.into_iter().any(|source| {
        let [one, other] = [one, other].map(|volume| &volume[source]);
        let same = |field: &str| !one[field].is_null() && one[field] == other[field];
        let are_read = one["readOnly"] == true && other["readOnly"] == true;
        let share = |field: &str| array_field(one, field).iter().any(|it| array_field(other, field).contains(it));
        match source {
            "gcePersistentDisk" => same("pdName") && !are_read,
            "awsElasticBlockStore" => same("volumeID"),
            "iscsi" => same("iqn") && !are_read,
            _ => same("pool") && same("image") && share("monitors") && !are_read,
        }
    })
}

/// Returns the ports of the node that a pod wants all the time: those of sidecars, too.
fn host_ports(pod: &Value) -> impl Iterator<Item = HostPort> {
    let containers = sidecars(pod).chain(array_field(&pod["spec"], "containers"));
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

    /// `GetHostPorts` in `pkg/scheduler/util/utils.go`.
    #[test]
    fn sidecars_have_host_ports() {
        let port = |number: i64| json!([{"hostPort": number}]);
        let pod = json!({"spec": {"initContainers": [{"ports": port(1)}, {"ports": port(2), "restartPolicy": "Always"}],
            "containers": [{"ports": port(3)}]}});
        assert_eq!(host_ports(&pod).map(|port| port.port).collect::<Vec<_>>(), [2, 3]);
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
    #[case::disk(vec![("x", json!({"volumes": [{"awsElasticBlockStore": {"volumeID": "v"}}]}))],
        json!({"volumes": [{"awsElasticBlockStore": {"volumeID": "v"}}]}), Some(("node(s) had no available disk", true)))]
    #[case::read_disk(vec![("x", json!({"volumes": [{"iscsi": {"iqn": "q", "readOnly": true}}]}))],
        json!({"volumes": [{"iscsi": {"iqn": "q", "readOnly": true}}]}), None)]
    #[case::image(vec![("x", json!({"volumes": [{"rbd": {"monitors": ["a", "b"], "pool": "p", "image": "i", "readOnly": true}}]}))],
        json!({"volumes": [{"rbd": {"monitors": ["b"], "pool": "p", "image": "i"}}]}), Some(("node(s) had no available disk", true)))]
    #[case::selector(vec![], json!({"nodeSelector": {"a": "b"}}), Some(("node(s) didn't match Pod's node affinity/selector", false)))]
    #[case::affinity(vec![], affine("podAffinity", "b"), Some(("node(s) didn't match pod affinity rules", false)))]
    #[case::both_terms(vec![("x", json!({}))], json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"},
        {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": "zone"}]}}}), Some(("node(s) didn't match pod affinity rules", false)))]
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
        let nodes = BTreeMap::from([("n", &node)]);
        let cluster = Cluster { nodes: &nodes, namespace_labels: &|_| Value::Null };
        let incoming = pod("p", "", &spec);
        let mut incoming = IncomingPod { pod: &incoming, spread: Spread::default(), volumes: PodVolumes::default() };
        let found = placements.reject(&node, &mut incoming, &cluster);
        let shown = found.as_ref().map(|found| (found.reasons[0].as_str(), found.is_resolvable));
        assert_eq!(shown, expected);
        for (name, _) in &placed {
            assert!(placements.forget(&("d".to_owned(), (*name).to_owned())));
        }
        assert!(placements.usage.is_empty() && placements.special == (0, 0));
    }

    /// `addNominatedPods` in `pkg/scheduler/framework/runtime/framework.go`.
    #[rstest]
    #[case::higher(5, true)]
    #[case::equal(3, true)]
    #[case::lower(1, false)]
    fn a_place_is_kept_for_a_nominated_pod(#[case] priority: i64, #[case] expected: bool) {
        let mut placements = Placements::default();
        let mut rival = pod("x", "", &requesting("2"));
        rival["spec"]["priority"] = priority.into();
        rival["status"] = json!({"phase": "Pending", "nominatedNodeName": "n"});
        placements.note(&rival);
        let node = node("n");
        let nodes = BTreeMap::from([("n", &node)]);
        let cluster = Cluster { nodes: &nodes, namespace_labels: &|_| Value::Null };
        let mut own = pod("p", "", &requesting("1"));
        own["spec"]["priority"] = 3.into();
        let mut incoming = IncomingPod { pod: &own, spread: Spread::default(), volumes: PodVolumes::default() };
        assert_eq!(placements.reject(&node, &mut incoming, &cluster).is_some(), expected);
        assert!(placements.usage.is_empty(), "it is not there yet");
        assert!(placements.forget(&key_of(&rival)));
        assert_eq!(placements.reject(&node, &mut incoming, &cluster), None);
    }

    #[test]
    fn messages_count_the_nodes() {
        let reasons = ["Insufficient cpu", "node(s) had untolerated taint(s)", "Insufficient cpu"];
        let shown = message(3, reasons.into_iter());
        assert_eq!(shown, "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.");
    }
}
