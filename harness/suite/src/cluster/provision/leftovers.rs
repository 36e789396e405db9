//! Leftovers of killed runs in a shared cluster: found by a label on their namespaces that names the owner, and removed
//! by the next run on the same machine.

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::owner::ProcessOwner;

/// Label of namespaces that the suite creates in real clusters.
pub(crate) const LABEL: &str = "plumbline/owner";

/// Value of the label for this process.
pub(crate) fn owner() -> String {
    ProcessOwner::me().to_string()
}

/// Deletes leftovers of dead processes of this machine: namespaces, and nodes with the same suffix. Failures are
/// ignored.
pub(super) async fn remove(client: &Client) -> usize {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Ok(labelled) = namespaces.list(&ListParams::default().labels(LABEL)).await else { return 0 };
    let is_dead = |namespace: &&Namespace| {
        let owner = namespace.labels().get(LABEL).and_then(|text| ProcessOwner::parse(text));
        owner.is_some_and(|owner| owner.is_dead())
    };
    let dead: Vec<String> = labelled.items.iter().filter(is_dead).map(Namespace::name_any).collect();
    let suffixes: Vec<&str> = dead.iter().filter_map(|name| name.rfind("-pl").map(|at| &name[at..])).collect();
    for name in &dead {
        let pods: Api<Pod> = Api::namespaced(client.clone(), name);
        for pod in pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let has_finalizers = !pod.finalizers().is_empty();
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            if has_finalizers {
                let _ = pods.patch(&pod.name_any(), &PatchParams::default(), &free).await;
            }
            // No kubelet would finish the deletion.
            let _ = pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
        }
    }
    let nodes: Api<Node> = Api::all(client.clone());
    for node in nodes.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
        if suffixes.iter().any(|suffix| node.name_any().ends_with(suffix)) {
            let _ = nodes.delete(&node.name_any(), &DeleteParams::default()).await;
        }
    }
    for name in &dead {
        let _ = namespaces.delete(name, &DeleteParams::default()).await;
    }
    dead.len()
}
