//! The API `metrics.k8s.io/v1beta1` for `kubectl top`, optional: figures from annotations, because nothing runs. In a
//! cluster metrics-server serves it (`staging/src/k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go` has the types).
//!
//! `plumbline.dev/usage: cpu=100m,memory=64Mi` of a pod is what each of its containers uses, `plumbline.dev/usage.NAME`
//! what one uses. The same annotation of a node is what the node uses; without it, that is the sum of its pods.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::backoff::Retries;
use crate::container_log::container_annotation;
use crate::controllers::{ControllerClient, WatchChange, WatchMux, WatchSet};
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::object_lifecycle::rfc3339;
use crate::pod_fields::sidecars;
use crate::quantity::Quantity;
use crate::server::ApiServer;
use crate::store::{ResourceId, StoredObject};

const GROUP: &str = "metrics.k8s.io";
const USAGE: &str = "plumbline.dev/usage";
const PATH: &str = "/apis/metrics.k8s.io/v1beta1";
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// A pod or a node. Pods come first, because the figures of a node follow from theirs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Measured {
    is_node: bool,
    namespace: String,
    name: String,
}

impl Measured {
    fn node(name: &str) -> Self {
        Self { is_node: true, namespace: String::new(), name: name.to_owned() }
    }

    const fn plural(&self) -> &'static str {
        if self.is_node { "nodes" } else { "pods" }
    }

    /// The path of its figures or, with an empty `name`, of all in its namespace.
    fn path(&self, name: &str) -> String {
        let namespace = if self.is_node { String::new() } else { format!("/namespaces/{}", self.namespace) };
        let slash = if name.is_empty() { "" } else { "/" };
        format!("{PATH}{namespace}/{}{slash}{name}", self.plural())
    }
}

/// Serves the figures of pods and nodes. Never returns.
pub async fn publish_usage(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/metrics-server");
    let resources = ["pods", "nodes"].map(|plural| ResourceId::new("", plural)).to_vec();
    let mut feed = WatchMux::new(&server, WatchSet::Resources(resources));
    let mut retries: Retries<Measured> = Retries::default();
    let mut figures = Figures { agent: agent.clone(), of_nodes: BTreeMap::new(), node_of: BTreeMap::new() };
    loop {
        let changes = feed.next_until(retries.next()).await;
        let mut due = retries.due(server.clock().now());
        for (resource, change) in changes {
            let is_node = resource == ResourceId::new("", "nodes");
            if matches!(change, WatchChange::Replace(_)) {
                // What is gone has figures still.
                due.extend(figures.published(is_node));
            }
            due.extend(change.objects().iter().map(|stored| measured(is_node, stored)));
        }
        define(&agent).await;
        while let Some(one) = due.pop_first() {
            if !one.is_node {
                due.extend(figures.count(&one).iter().map(|node| Measured::node(node)));
            }
            figures.publish(&one).await;
            retries.settle(&one, agent.take_refusal(), server.clock().now());
        }
    }
}

fn measured(is_node: bool, stored: &StoredObject) -> Measured {
    Measured { is_node, namespace: stored.namespace().to_owned(), name: stored.name().to_owned() }
}

/// Defines the two kinds, unless they are there.
async fn define(agent: &ControllerClient) {
    let definitions = ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions");
    for (plural, kind, scope) in [("nodes", "NodeMetrics", "Cluster"), ("pods", "PodMetrics", "Namespaced")] {
        let name = format!("{plural}.{GROUP}");
        if agent.server().get(&definitions, "", &name).is_some() {
            continue;
        }
        let version = json!({"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let names = json!({"plural": plural, "kind": kind});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, of a simulated metrics-server"}},
            "spec": {"group": GROUP, "scope": scope, "names": names, "versions": [version]}});
        agent.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    }
}

/// The usage of the running pods.
struct Figures {
    agent: ControllerClient,
    /// By node, the usage of each container of each pod.
    of_nodes: BTreeMap<String, BTreeMap<Measured, Vec<Value>>>,
    node_of: BTreeMap<Measured, String>,
}

impl Figures {
    /// Returns what has figures at the server.
    fn published(&self, is_node: bool) -> Vec<Measured> {
        let plural = if is_node { "nodes" } else { "pods" };
        let all = self.agent.server().list(&ResourceId::new(GROUP, plural), None);
        all.iter().map(|stored| measured(is_node, stored)).collect()
    }

    /// Counts a pod for its node, and no longer for the one it was on. Returns the names of these nodes.
    fn count(&mut self, pod: &Measured) -> Vec<String> {
        let mut nodes = Vec::new();
        if let Some(node) = self.node_of.remove(pod) {
            if let Some(pods) = self.of_nodes.get_mut(&node) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.of_nodes.remove(&node);
                }
            }
            nodes.push(node);
        }
        if let Some((found, containers)) = self.containers(pod) {
            let node = str_field(&found["spec"], "nodeName").to_owned();
            let usage = containers.iter().map(|container| container["usage"].clone()).collect();
            self.of_nodes.entry(node.clone()).or_default().insert(pod.clone(), usage);
            self.node_of.insert(pod.clone(), node.clone());
            nodes.push(node);
        }
        nodes
    }

    /// Returns a running pod, and its containers that have figures; `None` if there are none.
    fn containers(&self, pod: &Measured) -> Option<(Value, Vec<Value>)> {
        let server = self.agent.server();
        let stored = server.get(&ResourceId::new("", "pods"), &pod.namespace, &pod.name)?;
        let pod = server.decoded(&stored);
        if pod["status"]["phase"] != "Running" {
            return None;
        }
        let containers: Vec<Value> = sidecars(&pod)
            .chain(array_field(&pod["spec"], "containers"))
            .filter_map(|container| {
                let name = str_field(container, "name");
                let usage = usage(container_annotation(&pod, USAGE, name)?)?;
                Some(json!({"name": name, "usage": usage}))
            })
            .collect();
        (!containers.is_empty()).then_some((pod, containers))
    }

    /// Returns the object with the figures of a pod or a node.
    fn metrics(&self, one: &Measured) -> Option<Value> {
        let server = self.agent.server();
        let now = server.clock().now();
        if !one.is_node {
            let (pod, containers) = self.containers(one)?;
            let mut metrics = metrics("PodMetrics", &pod, now);
            metrics["containers"] = containers.into();
            return Some(metrics);
        }
        let stored = server.get(&ResourceId::new("", "nodes"), "", &one.name)?;
        let node = server.decoded(&stored);
        let sum = || self.of_nodes.get(&one.name).map(|pods| sum(pods.values().flatten()));
        let usage = metadata::annotation(&node, USAGE).and_then(usage).or_else(sum)?;
        let mut metrics = metrics("NodeMetrics", &node, now);
        metrics["usage"] = usage;
        Some(metrics)
    }

    /// Creates, changes or removes the object with the figures of a pod or a node.
    async fn publish(&self, one: &Measured) {
        let known = self.agent.server().get(&ResourceId::new(GROUP, one.plural()), &one.namespace, &one.name);
        match (known.map(|stored| stored.value()), self.metrics(one)) {
            (None, None) => {}
            (None, Some(wanted)) => drop(self.agent.create(&one.path(""), &wanted).await),
            (Some(_), None) => drop(self.agent.delete(&one.path(&one.name), None).await),
            (Some(known), Some(mut wanted)) => {
                let same = |field: &str| known.get(field) == wanted.get(field);
                if !same("containers") || !same("usage") || metadata::labels(&known) != metadata::labels(&wanted) {
                    metadata::set(&mut wanted, "resourceVersion", metadata::resource_version(&known));
                    self.agent.replace(&one.path(&one.name), &wanted).await;
                }
            }
        }
    }
}

fn metrics(kind: &str, of: &Value, now: Timestamp) -> Value {
    let mut own = json!({"name": metadata::name(of)});
    if !metadata::namespace(of).is_empty() {
        own["namespace"] = metadata::namespace(of).into();
    }
    if let Some(labels) = metadata::labels(of) {
        own["labels"] = Value::Object(labels.clone());
    }
    json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": kind, "metadata": own, "timestamp": rfc3339(now), "window": "30s"})
}

/// Reads `cpu=100m,memory=64Mi`; `None` if a part is no quantity of one of these.
fn usage(text: &str) -> Option<Value> {
    let mut usage = json!({});
    for part in text.split(',') {
        let (name, amount) = part.trim().split_once('=')?;
        let amount = Quantity::parse(amount).filter(|amount| RESOURCES.contains(&name) && amount.sign() >= 0)?;
        usage[name] = amount.to_string().into();
    }
    Some(usage)
}

fn sum<'v>(all: impl Iterator<Item = &'v Value> + Clone) -> Value {
    let mut total = json!({});
    for name in RESOURCES {
        let amounts = all.clone().filter_map(|usage| Quantity::of(usage.get(name)?));
        let amount = amounts.reduce(Quantity::plus);
        total[name] = amount.map_or_else(|| "0".to_owned(), |amount| amount.to_string()).into();
    }
    total
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rstest::rstest;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::controllers::MERGE_PATCH;

    #[rstest]
    #[case("cpu=100m,memory=64Mi", Some(json!({"cpu": "100m", "memory": "64Mi"})))]
    #[case(" cpu=1 , memory=1Gi ", Some(json!({"cpu": "1", "memory": "1Gi"})))]
    #[case("cpu", None)]
    #[case("cpu=x", None)]
    #[case("cpu=-1", None)]
    #[case("disk=1", None)]
    fn figures(#[case] text: &str, #[case] expected: Option<Value>) {
        assert_eq!(usage(text), expected);
    }

    #[test]
    fn annotated_pods_and_their_nodes_have_figures() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let pod = |name: &str, usage: &str| {
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
                    "annotations": {USAGE: usage}}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
                    "status": {"phase": "Running"}})
            };
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
            server.seed([node, pod("a", "cpu=100m,memory=64Mi"), pod("b", "cpu=200m,memory=64Mi"), pod("c", "?")]).unwrap();
            tokio::spawn(publish_usage(server.clone()));
            settle().await;
            let client = ControllerClient::new(&server, "user");
            let get = async |path: &str| client.send(Method::GET, &format!("{PATH}/{path}"), "", None).await.body();
            let pods = get("pods").await;
            let names: Vec<&str> = array_field(&pods, "items").iter().map(metadata::name).collect();
            assert_eq!(names, ["a", "b"]);
            assert_eq!(pods["items"][0]["containers"], json!([{"name": "c", "usage": {"cpu": "100m", "memory": "64Mi"}}]));
            assert_eq!(get("nodes/n").await["usage"], json!({"cpu": "300m", "memory": "128Mi"}));
            let path = "/api/v1/namespaces/default/pods/a";
            assert!(client.delete(path, Some(&json!({"gracePeriodSeconds": 0}))).await.is_ok());
            settle().await;
            assert_eq!(get("nodes/n").await["usage"], json!({"cpu": "200m", "memory": "64Mi"}));
            let revision = server.revision();
            settle().await;
            assert_eq!(server.revision(), revision);
            // A change of one pod is written to its figures and those of its node, and nothing else is.
            let usage = json!({"metadata": {"annotations": {USAGE: "cpu=50m,memory=64Mi"}}});
            let path = "/api/v1/namespaces/default/pods/b";
            assert!(client.patch(path, MERGE_PATCH, &usage).await.is_ok());
            settle().await;
            assert_eq!(get("nodes/n").await["usage"], json!({"cpu": "50m", "memory": "64Mi"}));
            assert_eq!(server.revision() - revision, 3);
            assert!(client.delete("/api/v1/nodes/n", None).await.is_ok());
            settle().await;
            assert_eq!(get("nodes/n").await["code"], 404);
            assert_eq!(array_field(&get("pods").await, "items").len(), 1);
        })
        .unwrap();
    }
}
