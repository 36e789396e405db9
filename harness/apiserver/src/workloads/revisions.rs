//! The history of stateful sets and daemon sets: one `ControllerRevision` for each template. See
//! `pkg/controller/history/controller_history.go` and `pkg/controller/daemon/update.go`.

use super::namespace_controller::NamespaceController;
use super::workload_fields::count;
use crate::controllers::MERGE_PATCH;
use crate::json::{Value, json};
use crate::metadata;
use crate::store::ResourceId;

/// The label of revisions of stateful sets with the hash of their data.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The label of pods, and of revisions of daemon sets, with the revision.
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";
/// The value of `spec.revisionHistoryLimit` unless it is set.
const HISTORY_LIMIT: i64 = 10;

/// The revisions of a set, in order; the last one is that of its template.
pub(super) struct RevisionHistory {
    revisions: Vec<Value>,
}

impl RevisionHistory {
    /// Reads the revisions of a set. The present template becomes the newest revision: by a new one, or by a higher
    /// number of the one that had it. Returns `None` if that is refused.
    pub(super) async fn sync(controller: &NamespaceController, set: &Value) -> Option<Self> {
        if !metadata::is_deleted(set) {
            controller.claim("apps", "controllerrevisions", set).await;
        }
        let mut revisions = controller.controlled_objects("apps", "controllerrevisions", set);
        revisions.sort_by_key(|revision| (number(revision), metadata::name(revision).to_owned()));
        let next = revisions.last().map_or(0, number) + 1;
        let data = data(set);
        match revisions.iter().rposition(|revision| revision["data"] == data) {
            Some(known) if known + 1 == revisions.len() => {}
            Some(known) => {
                let mut revision = revisions.remove(known);
                let path = path(controller, metadata::name(&revision));
                if !controller.agent.patch(&path, MERGE_PATCH, &json!({"revision": next})).await.is_ok() {
                    return None;
                }
                revision["revision"] = json!(next);
                revisions.push(revision);
            }
            None => revisions.push(create(controller, set, &data, next).await?),
        }
        Some(Self { revisions })
    }

    /// The name of the revision of the present template.
    pub(super) fn update(&self) -> &str {
        self.revisions.last().map_or("", metadata::name)
    }

    /// Returns the hash of the present template, for the pods of a DaemonSet.
    pub(super) fn hash(&self) -> &str {
        self.revisions.last().and_then(|revision| metadata::label(revision, REVISION_LABEL)).unwrap_or_default()
    }

    /// Returns the template of the revision with this name.
    pub(super) fn template(&self, name: &str) -> Option<Value> {
        let revision = self.revisions.iter().find(|revision| metadata::name(revision) == name)?;
        let mut template = revision["data"]["spec"]["template"].clone();
        template.as_object_mut()?.remove("$patch");
        Some(template)
    }

    /// Deletes the oldest revisions beyond the limit of those that nothing uses.
    pub(super) async fn truncate(&self, controller: &NamespaceController, set: &Value, is_live: impl Fn(&str) -> bool) {
        let limit = set.pointer("/spec/revisionHistoryLimit").and_then(Value::as_i64).unwrap_or(HISTORY_LIMIT);
        let update = self.update();
        let names = self.revisions.iter().map(metadata::name);
        let idle: Vec<&str> = names.filter(|name| *name != update && !is_live(name)).collect();
        let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        for name in &idle[..surplus] {
            controller.agent.delete(&path(controller, name), None).await;
        }
    }
}

fn number(revision: &Value) -> i64 {
    count(revision, "/revision")
}

fn path(controller: &NamespaceController, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/apps/v1/namespaces/{}/controllerrevisions{slash}{name}", controller.namespace)
}

/// Returns a patch that restores the template.
fn data(set: &Value) -> Value {
    let mut template = set["spec"]["template"].clone();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// Creates a revision; its name changes while there are others of this name: `CreateControllerRevision`. Returns `None`
/// if it is refused.
async fn create(controller: &NamespaceController, set: &Value, data: &Value, number: i64) -> Option<Value> {
    for collisions in 0.. {
        let revision = new_revision(controller, set, data, number, collisions);
        let reply = controller.agent.create(&path(controller, ""), &revision).await;
        if reply.is_ok() {
            return Some(revision);
        }
        if !reply.has_reason("AlreadyExists") {
            break;
        }
        let resource = ResourceId::new("apps", "controllerrevisions");
        let known = controller.agent.server().get(&resource, &controller.namespace, metadata::name(&revision))?;
        let known = controller.decoded(&known);
        if known["data"] == *data {
            return Some(known);
        }
    }
    None
}

fn new_revision(controller: &NamespaceController, set: &Value, data: &Value, number: i64, collisions: i64) -> Value {
    let hash = super::deployment::template_hash(&set["spec"]["template"], collisions);
    let label = if &*controller.kind.kind == "DaemonSet" { REVISION_LABEL } else { HASH_LABEL };
    let mut labels = set["spec"]["template"]["metadata"]["labels"].clone();
    labels[label] = json!(hash);
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": data, "metadata": {
        "name": format!("{}-{hash}", metadata::name(set)), "namespace": controller.namespace, "labels": labels,
        "annotations": set["metadata"]["annotations"], "ownerReferences": controller.owner_references(set)}})
}
