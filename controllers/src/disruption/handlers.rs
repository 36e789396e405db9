//! SHELL: maps events of objects to keys of budgets and pods.

use std::sync::Arc;

use parking_lot::RwLock;

use super::budget_index::BudgetIndex;
use super::queues::{Queues, delay, pod_reference};
use super::stale::{Staleness, staleness};
use crate::api::cache_object;
use crate::api::go;
use crate::api::pdb::PdbView;
use crate::api::pod::PodView;
use crate::api::workload::{DeploymentView, ReplicaSetView, ReplicationControllerView, StatefulSetView, Workload};
use crate::api::{BY_CONTROLLER, View};
use crate::context::ControllerContext;
use crate::runtime::cache::{Change, Lister};
use crate::runtime::clock::Clock;
use crate::runtime::informer::Informer;
use crate::runtime::recorder::{EventType, Recorder};

/// Returns a closure that registers the event handlers; call it when the controller starts.
pub(super) fn register_handlers(
    context: &ControllerContext,
    queues: &Queues,
    recorder: &Recorder,
) -> impl FnOnce() + Send + use<> {
    let budgets = context.informer::<PdbView>();
    let pods = context.informer::<PodView>();
    let replica_sets = context.informer::<ReplicaSetView>();
    let controllers = context.informer::<ReplicationControllerView>();
    let stateful_sets = context.informer::<StatefulSetView>();
    let deployments = context.informer::<DeploymentView>();
    let handlers = Handlers {
        budgets: RwLock::default(),
        pods: pods.lister(),
        replica_sets: replica_sets.lister(),
        queues: queues.clone(),
        recorder: recorder.clone(),
        clock: context.clock.clone(),
    };
    let handlers = Arc::new(handlers);
    move || {
        // Budgets first, so that each pod finds its own.
        budgets.add_event_handler({
            let handlers = Arc::clone(&handlers);
            move |change| handlers.budget_changed(change)
        });
        pods.add_event_handler({
            let handlers = Arc::clone(&handlers);
            move |change| handlers.pod_changed(change)
        });
        handlers.watch_scale(&controllers, Handlers::pods_changed_owner);
        handlers.watch_scale(&replica_sets, Handlers::pods_changed_owner);
        handlers.watch_scale(&stateful_sets, Handlers::pods_changed_owner);
        handlers.watch_scale(&deployments, |handlers, uid| {
            for set in handlers.replica_sets.by_index(BY_CONTROLLER, uid) {
                handlers.pods_changed_owner(View::uid(&*set));
            }
        });
    }
}

struct Handlers {
    budgets: RwLock<BudgetIndex>,
    pods: Lister<PodView>,
    replica_sets: Lister<ReplicaSetView>,
    queues: Queues,
    recorder: Recorder,
    clock: Clock,
}

impl Handlers {
    fn budget_changed(&self, change: &Change<PdbView>) {
        {
            let mut budgets = self.budgets.write();
            match change {
                Change::Deleted(pdb) => budgets.remove(pdb),
                Change::Added(pdb) | Change::Updated { new: pdb, .. } => budgets.set(pdb),
            }
        }
        self.queues.budget_changed(change.object().key());
    }

    fn pod_changed(&self, change: &Change<PodView>) {
        let pod = change.object();
        self.enqueue_budgets(pod);
        match change {
            Change::Deleted(_) => return,
            Change::Updated { old, new } if old.labels() != new.labels() => {
                self.budgets_of(old).iter().for_each(|pdb| self.queues.budget_changed(pdb.key()));
            }
            Change::Added(_) | Change::Updated { .. } => {}
        }
        let now = self.clock.now();
        match staleness(pod, now) {
            Staleness::Never => {}
            Staleness::At(at) => self.queues.stale_pods.add_after(pod.key(), delay(now, at)),
            Staleness::Stale => self.queues.stale_pods.add(pod.key()),
        }
    }

    /// Queues every budget of `pod`. Records a warning if there are several: the eviction API then refuses to evict the
    /// pod (D-110).
    fn enqueue_budgets(&self, pod: &PodView) {
        let budgets = self.budgets_of(pod);
        if let [first, _, ..] = budgets.as_slice() {
            let text = format!(
                "Pod {}/{} matches multiple PodDisruptionBudgets.  Chose {} arbitrarily.",
                go::quote(pod.namespace()),
                go::quote(pod.name()),
                go::quote(first.name()),
            );
            self.recorder.event(pod_reference(pod), EventType::Warning, "MultiplePodDisruptionBudgets", text);
        }
        for pdb in budgets {
            self.queues.budget_changed(pdb.key());
        }
    }

    /// Returns the budgets that select `pod`, by name.
    fn budgets_of(&self, pod: &PodView) -> Vec<Arc<PdbView>> {
        self.budgets.read().matching(pod.namespace(), pod.labels())
    }

    /// Calls `changed` with the UID of an owner when it is added or its `spec.replicas` or controller changes (D-108):
    /// each of these changes the counts of its pods' budgets. Deletions are ignored: the owner's pods are deleted too
    /// and trigger their own events.
    fn watch_scale<V>(self: &Arc<Self>, owners: &Informer<V>, changed: fn(&Self, &str))
    where
        V: cache_object::CacheObject + Workload,
    {
        let handlers = Arc::clone(self);
        // The first sync of every budget reads the owners that exist at the start.
        owners.add_event_handler_without_replay(move |change| match change {
            Change::Updated { old, new }
                if old.replicas() == new.replicas() && old.controller_ref() == new.controller_ref() => {}
            Change::Added(owner) | Change::Updated { new: owner, .. } => changed(&handlers, View::uid(&**owner)),
            Change::Deleted(_) => {}
        });
    }

    /// Queues the budgets of all pods that the owner `uid` manages.
    fn pods_changed_owner(&self, uid: &str) {
        let pods = self.pods.by_index(BY_CONTROLLER, uid);
        // Pods of one owner usually have the same labels and therefore the same budgets.
        for pods in pods.chunk_by(|a, b| a.labels().ptr_eq(b.labels()) && a.namespace() == b.namespace()) {
            let Some(pod) = pods.first() else { continue };
            self.budgets_of(pod).iter().for_each(|pdb| self.queues.budget_changed(pdb.key()));
        }
    }
}
