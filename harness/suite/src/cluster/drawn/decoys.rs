//! Objects that a subject must leave alone: pods like those of the fixture, in a namespace of their own and on a node
//! that is there and has no taint.

use std::collections::BTreeSet;

use plumbline::fixture::{Action, Controller, Fixture, Operation, StepKind, WatchFault};
use plumbline::metadata;
use serde_json::{Value, json};

use super::names::{DrawnNames, uid_from};
use super::step_requests::requests;

/// Most decoys of a run.
const MOST: usize = 3;
/// The namespace of the decoys in the record.
const NAMESPACE: &str = "decoys";
/// The node of the decoys in the record.
const NODE: &str = "decoy-node";
/// Start of the names of the decoys in the record.
const DECOY_OF: &str = "decoy-of-";

/// The decoys of a run.
#[derive(Clone, Debug, Default)]
pub struct Decoys {
    /// Names of pods of the fixture, each with the name and the uid of the decoy that is like it.
    pods: Vec<(String, String, String)>,
    /// Drawn name of their namespace.
    namespace: String,
    /// Drawn name and uid of their node. `None` if all nodes of the fixture go: then the decoys have no node, so that
    /// it stays true that there is none.
    node: Option<(String, String)>,
}

impl Decoys {
    /// Draws decoys for `fixture`, and adds their names to `names`.
    pub(super) fn draw(fixture: &Fixture, names: &mut DrawnNames, random: &mut fastrand::Rng) -> Self {
        // A fixture may have the names of decoys itself.
        if names.hides(NAMESPACE) || names.hides(NODE) || !bears_decoys(fixture) {
            return Self::default();
        }
        let namespace = names.add(NAMESPACE.to_owned(), random);
        let node = has_lasting_node(fixture).then(|| (names.add(NODE.to_owned(), random), uid_from(random)));
        let pods = fixture.given.objects.iter().filter(|object| is_pod(object)).map(metadata::name);
        let models: BTreeSet<&str> = pods.collect();
        let mut decoy = |model: &str| {
            let name = names.add(format!("{DECOY_OF}{model}"), random);
            (model.to_owned(), name, uid_from(random))
        };
        let pods = models.into_iter().take(MOST).map(&mut decoy).collect();
        Self { pods, namespace, node }
    }

    /// Returns the manifests for the given objects, which have the fixture's names, in the order in which they are
    /// created.
    pub(super) fn objects(&self, given: &[Value]) -> Vec<Value> {
        if self.pods.is_empty() {
            return Vec::new();
        }
        let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})];
        objects.extend(self.node.as_ref().map(|(name, uid)| {
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            })
        }));
        for (model, name, uid) in &self.pods {
            let model = given.iter().find(|object| is_pod(object) && metadata::name(object) == model);
            objects.extend(model.map(|model| self.pod_like(model, name, uid)));
        }
        objects
    }

    /// Returns a pod like `model` that no controller has a reason to touch: running on the node of the decoys, or
    /// waiting for a node.
    fn pod_like(&self, model: &Value, name: &str, uid: &str) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "uid": uid},
            "spec": model["spec"],
            "status": {"phase": "Pending"},
        });
        for field in ["labels", "annotations", "creationTimestamp"] {
            if let Some(value) = model["metadata"].get(field) {
                pod["metadata"][field] = value.clone();
            }
        }
        if let Some(spec) = pod["spec"].as_object_mut() {
            spec.remove("nodeName");
        }
        if let Some((node, _)) = &self.node {
            pod["spec"]["nodeName"] = node.as_str().into();
            pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        }
        pod
    }

    /// Returns true if a stored object is one of them.
    pub(super) fn has(&self, stored: &Value) -> bool {
        let node = self.node.as_ref().map(|(name, _)| name.as_str());
        let is = |name: &str| !self.pods.is_empty() && (name == self.namespace || Some(name) == node);
        metadata::namespace(stored).is_some_and(is) || is(metadata::name(stored))
    }

    /// Describes a decoy by its name in the record.
    pub(super) fn describe(&self, namespace: Option<&str>, resource: &str, name: &str) -> Option<String> {
        let is_decoy = namespace == Some(NAMESPACE) || resource == "nodes" && name == NODE;
        (is_decoy && !self.pods.is_empty()).then(|| match name.strip_prefix(DECOY_OF) {
            Some(model) => format!(
                "{resource}/{name} is a decoy: a running pod like {resource}/{model}, on a node without a fault"
            ),
            None => format!("{resource}/{name} is a decoy: it is there to be left alone"),
        })
    }
}

fn is_pod(object: &Value) -> bool {
    object["kind"] == "Pod"
}

/// Returns true if a node of the fixture is there from the beginning to the end.
fn has_lasting_node(fixture: &Fixture) -> bool {
    let is_deleted = |name: &str| {
        requests(fixture).any(|request| {
            matches!(request.operation, Operation::Delete { .. } | Operation::DeleteCollection { .. })
                && request.target.resource.plural == "nodes"
                && (request.target.name == name || request.target.name.is_empty())
        })
    };
    let mut nodes = fixture.given.objects.iter().filter(|object| object["kind"] == "Node");
    nodes.any(|node| !is_deleted(metadata::name(node)))
}

/// Returns true if decoys change nothing about the promise of `fixture`. They do where the number of nodes counts,
/// where a step lists the objects of all namespaces, and where lists are cut into pages.
fn bears_decoys(fixture: &Fixture) -> bool {
    let has_pods = fixture.given.objects.iter().any(is_pod);
    let lists_all = |operation: &Operation| {
        matches!(operation, Operation::List { .. } | Operation::Follow { .. } | Operation::DeleteCollection { .. })
    };
    let is_wide = |namespace: &Option<String>| namespace.as_deref().is_none_or(|namespace| namespace == "*");
    let cuts_pages = |fault: &WatchFault| matches!(fault, WatchFault::Pages { .. });
    let actions = || {
        fixture.steps.iter().flat_map(|step| match &step.kind {
            StepKind::Do { actions, .. } => actions.as_slice(),
            _ => &[],
        })
    };
    has_pods
        && !fixture.controllers.contains(&Controller::Ttl)
        && !requests(fixture).any(|request| lists_all(&request.operation) && is_wide(&request.target.namespace))
        && !fixture.given.watches.iter().any(cuts_pages)
        && !actions().any(|action| matches!(action, Action::Watch(fault) if cuts_pages(fault)))
}
