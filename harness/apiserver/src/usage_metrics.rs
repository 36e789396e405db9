//! The API `metrics.k8s.io/v1beta1` for `kubectl top`, optional: figures from annotations, because nothing runs. In a
//! cluster metrics-server serves it (`staging/src/k8s.io/metrics/pkg/apis/metrics/v1beta1/types.go` has the types).
//!
//! `plumbline.dev/usage: cpu=100m,memory=64Mi` of a pod is what each of its containers uses, `plumbline.dev/usage.NAME`
//! what one uses. The same annotation of a node is what the node uses; without it, that is the sum of its pods.

use std::collections::BTreeMap;

use http::Method;
use jiff::Timestamp;

use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::object_lifecycle::rfc3339;
use crate::quantity::Quantity;
use crate::server::ApiServer;
use crate::store::ResourceId;

const GROUP: &str = "metrics.k8s.io";
const USAGE: &str = "plumbline.dev/usage";
const PATH: &str = "/apis/metrics.k8s.io/v1beta1";
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Serves the figures of pods and nodes. Never returns.
pub async fn publish_usage(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/metrics-server");
    let resources = ["pods", "nodes"].map(|plural| ResourceId::new("", plural)).to_vec();
    let mut feed = WatchMux::new(&server, WatchSet::Resources(resources));
    let mut retries: Retries<()> = Retries::default();
    loop {
        feed.next_until(retries.next()).await;
        define(&agent).await;
        publish(&agent).await;
        let refused = agent.take_refusal();
        retries.settle(&(), refused, server.clock().now());
    }
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

async fn publish(agent: &ControllerClient) {
    let server = agent.server();
    let now = server.clock().now();
    let mut of_nodes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut pods = Vec::new();
    for stored in server.list(&ResourceId::new("", "pods"), None) {
        let pod = server.decoded(&stored);
        if pod["status"]["phase"] != "Running" {
            continue;
        }
        let containers: Vec<Value> = array_field(&pod["spec"], "containers")
            .iter()
            .filter_map(|container| {
                let name = str_field(container, "name");
                let own = metadata::annotation(&pod, &format!("{USAGE}.{name}"));
                let usage = usage(own.or_else(|| metadata::annotation(&pod, USAGE))?)?;
                Some(json!({"name": name, "usage": usage}))
            })
            .collect();
        if containers.is_empty() {
            continue;
        }
        let all = of_nodes.entry(str_field(&pod["spec"], "nodeName").to_owned()).or_default();
        all.extend(containers.iter().map(|container| container["usage"].clone()));
        let mut shown = metrics("PodMetrics", &pod, now);
        shown["containers"] = containers.into();
        pods.push(shown);
    }
    let mut nodes = Vec::new();
    for stored in server.list(&ResourceId::new("", "nodes"), None) {
        let node = server.decoded(&stored);
        let sum = || of_nodes.get(stored.name()).map(|all| sum(all));
        if let Some(usage) = metadata::annotation(&node, USAGE).and_then(usage).or_else(sum) {
            let mut shown = metrics("NodeMetrics", &node, now);
            shown["usage"] = usage;
            nodes.push(shown);
        }
    }
    write(agent, "pods", pods).await;
    write(agent, "nodes", nodes).await;
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

/// Creates, changes and removes objects until they are these.
async fn write(agent: &ControllerClient, plural: &str, wanted: Vec<Value>) {
    let server = agent.server();
    let id = |object: &Value| (metadata::namespace(object).to_owned(), metadata::name(object).to_owned());
    let mut wanted: BTreeMap<(String, String), Value> =
        wanted.into_iter().map(|object| (id(&object), object)).collect();
    let collection = |namespace: &str| match namespace {
        "" => format!("{PATH}/{plural}"),
        namespace => format!("{PATH}/namespaces/{namespace}/{plural}"),
    };
    for stored in server.list(&ResourceId::new(GROUP, plural), None) {
        let known = stored.value();
        let path = format!("{}/{}", collection(stored.namespace()), stored.name());
        match wanted.remove(&id(&known)) {
            None => drop(agent.send(Method::DELETE, &path, "", None).await),
            Some(mut object) => {
                let same = |field: &str| known.get(field) == object.get(field);
                if !same("containers") || !same("usage") || metadata::labels(&known) != metadata::labels(&object) {
                    metadata::set(&mut object, "resourceVersion", metadata::resource_version(&known));
                    agent.replace(&path, &object).await;
                }
            }
        }
    }
    for ((namespace, _), object) in wanted {
        agent.create(&collection(&namespace), &object).await;
    }
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

fn sum(all: &[Value]) -> Value {
    let mut total = json!({});
    for name in RESOURCES {
        let amounts = all.iter().filter_map(|usage| Quantity::of(usage.get(name)?));
        let amount = amounts.reduce(Quantity::plus);
        total[name] = amount.map_or_else(|| "0".to_owned(), |amount| amount.to_string()).into();
    }
    total
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};

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
        })
        .unwrap();
    }
}
