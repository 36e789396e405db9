//! The scheduler: binds pods to nodes round-robin. Of kube-scheduler's filters it has node selectors, taints and
//! cordons. See `nodeaffinity`, `tainttoleration` and `nodeunschedulable` in `pkg/scheduler/framework/plugins`.

use std::collections::BTreeMap;

use crate::controllers::ControllerClient;
use crate::json::{Value, json};
use crate::metadata;
use crate::server::ApiServer;
use crate::store::ResourceId;

/// The pods that wait for a node.
pub(super) struct Scheduler {
    server: ApiServer,
    waiting: BTreeMap<(String, String), Value>,
    turn: usize,
    try_all: bool,
    fresh: Vec<(String, String)>,
}

impl Scheduler {
    pub(super) fn new(server: &ApiServer) -> Self {
        Self { server: server.clone(), waiting: BTreeMap::new(), turn: 0, try_all: false, fresh: Vec::new() }
    }

    /// Queues a pod without a node.
    pub(super) fn wait(&mut self, pod: &Value) {
        let key = (metadata::namespace(pod).to_owned(), metadata::name(pod).to_owned());
        if self.waiting.insert(key.clone(), pod.clone()).is_none() {
            self.fresh.push(key);
        }
    }

    /// Retries all waiting pods in the next round, since nodes have changed.
    pub(super) fn nodes_changed(&mut self) {
        self.try_all = true;
    }

    /// Binds the waiting pods for which there is a node.
    pub(super) async fn bind_waiting(&mut self, agent: &ControllerClient) {
        let keys = if std::mem::take(&mut self.try_all) {
            self.fresh.clear();
            self.waiting.keys().cloned().collect()
        } else {
            // Of pods that came together, the order must not depend on that of their creation.
            self.fresh.sort();
            std::mem::take(&mut self.fresh)
        };
        if keys.is_empty() {
            return;
        }
        let nodes: Vec<Value> =
            self.server.list(&ResourceId::new("", "nodes"), None).iter().map(|node| node.value()).collect();
        for key in keys {
            let current = self.server.get(&ResourceId::new("", "pods"), &key.0, &key.1).map(|stored| stored.value());
            let Some(pod) = current.filter(|pod| super::pods::next_action(pod) == super::pods::PodAction::Bind) else {
                self.waiting.remove(&key);
                continue;
            };
            let Some(node) = self.pick(&pod, &nodes) else { continue };
            let (namespace, name) = &key;
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
            if agent.create(&format!("/api/v1/namespaces/{namespace}/pods/{name}/binding"), &binding).await.is_ok() {
                self.waiting.remove(&key);
            }
        }
    }

    /// Returns the next node, round-robin, that accepts the pod.
    fn pick(&mut self, pod: &Value, nodes: &[Value]) -> Option<String> {
        let order = (0..nodes.len()).map(|offset| (self.turn + offset) % nodes.len());
        let index = order.into_iter().find(|&index| takes(&nodes[index], pod))?;
        self.turn = index + 1;
        Some(metadata::name(&nodes[index]).to_owned())
    }
}

/// Returns true if the node accepts the pod: schedulable, matching the node selector, and all taints tolerated.
pub(crate) fn takes(node: &Value, pod: &Value) -> bool {
    if node["spec"]["unschedulable"] == json!(true) || metadata::is_deleted(node) {
        return false;
    }
    let labels = metadata::labels(node);
    let selector = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    selector.into_iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        && taints.all(|taint| taint["effect"] == "PreferNoSchedule" || tolerates(pod, taint))
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    pod["spec"]["tolerations"].as_array().into_iter().flatten().any(|toleration| {
        let (key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
        let exists = toleration["operator"] == "Exists";
        (effect.is_empty() || effect == text(&taint["effect"]))
            && ((key.is_empty() && exists)
                || (key == text(&taint["key"]) && (exists || text(&toleration["value"]) == text(&taint["value"]))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(json!({}), json!({}), true)]
    #[case(json!({"spec": {"unschedulable": true}}), json!({}), false)]
    #[case(json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}}), json!({}), false)]
    #[case(json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}), json!({}), true)]
    #[case(json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}),
        json!({"spec": {"tolerations": [{"key": "k", "operator": "Equal", "value": "v"}]}}), true)]
    #[case(json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}), json!({"spec": {"tolerations": [{"operator": "Exists"}]}}), true)]
    #[case(json!({"metadata": {"labels": {"a": "b"}}}), json!({"spec": {"nodeSelector": {"a": "c"}}}), false)]
    fn nodes_take_pods(#[case] node: Value, #[case] pod: Value, #[case] expected: bool) {
        assert_eq!(takes(&node, &pod), expected);
    }
}
