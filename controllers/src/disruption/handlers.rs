//! SHELL: changes of objects to keys of budgets and pods.

use std::sync::{Arc, PoisonError, RwLock};

use super::budgets::Budgets;
use super::controller::{Queues, about_pod, delay};
use super::stale::{Staleness, staleness};
use crate::runtime::cache::{self, Change, Lister};
use crate::runtime::clock::Clock;
use crate::runtime::env::Env;
use crate::runtime::recorder::{EventType, Recorder};
use crate::views::go;
use crate::views::pdb::PdbView;
use crate::views::pod::PodView;
use crate::views::workload::{DeploymentView, ReplicaSetView, ReplicationControllerView, StatefulSetView, Workload};
use crate::views::{BY_CONTROLLER, View};

/// Registers all handlers of the controller.
pub(super) fn register(env: &Env, queues: &Queues, recorder: &Recorder) {
    // Budgets are listed first: pods that are listed after them find theirs.
    let budgets = env.informer::<PdbView>();
    let handlers = Handlers {
        budgets: RwLock::default(),
        pods: env.informer().lister(),
        replica_sets: env.informer().lister(),
        queues: queues.clone(),
        recorder: recorder.clone(),
        clock: env.clock.clone(),
    };
    let handlers = Arc::new(handlers);
    budgets.on_change({
        let handlers = Arc::clone(&handlers);
        move |change| handlers.budget_changed(change)
    });
    env.informer::<PodView>().on_change({
        let handlers = Arc::clone(&handlers);
        move |change| handlers.pod_changed(change)
    });
    handlers.watch_scale::<ReplicationControllerView>(env, Handlers::pods_changed_owner);
    handlers.watch_scale::<ReplicaSetView>(env, Handlers::pods_changed_owner);
    handlers.watch_scale::<StatefulSetView>(env, Handlers::pods_changed_owner);
    handlers.watch_scale::<DeploymentView>(env, |handlers, uid| {
        for set in handlers.replica_sets.by_index(BY_CONTROLLER, uid) {
            handlers.pods_changed_owner(View::uid(&*set));
        }
    });
}

struct Handlers {
    budgets: RwLock<Budgets>,
    pods: Lister<PodView>,
    replica_sets: Lister<ReplicaSetView>,
    queues: Queues,
    recorder: Recorder,
    clock: Clock,
}

impl Handlers {
    fn budget_changed(&self, change: &Change<PdbView>) {
        {
            let mut budgets = self.budgets.write().unwrap_or_else(PoisonError::into_inner);
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
            Staleness::Fine => {}
            Staleness::Until(at) => self.queues.stale_pods.add_after(pod.key(), delay(now, at)),
            Staleness::Stale => self.queues.stale_pods.add(pod.key()),
        }
    }

    /// Queues every budget of `pod`, and warns when there are several: the eviction API then refuses to
    /// evict it at all (D-110).
    fn enqueue_budgets(&self, pod: &PodView) {
        let budgets = self.budgets_of(pod);
        if let [first, _, ..] = budgets.as_slice() {
            let text = format!(
                "Pod {}/{} matches multiple PodDisruptionBudgets.  Chose {} arbitrarily.",
                go::quote(pod.namespace()),
                go::quote(pod.name()),
                go::quote(first.name()),
            );
            self.recorder.event(about_pod(pod), EventType::Warning, "MultiplePodDisruptionBudgets", text);
        }
        for pdb in budgets {
            self.queues.budget_changed(pdb.key());
        }
    }

    /// The budgets that select `pod`, by name.
    fn budgets_of(&self, pod: &PodView) -> Vec<Arc<PdbView>> {
        self.budgets.read().unwrap_or_else(PoisonError::into_inner).of(pod.namespace(), pod.labels())
    }

    /// Calls `changed` with the UID of every owner whose `spec.replicas` changes (D-108).
    fn watch_scale<V: cache::CacheObject + Workload>(self: &Arc<Self>, env: &Env, changed: fn(&Self, &str)) {
        let handlers = Arc::clone(self);
        env.informer::<V>().on_change(move |change| {
            if let Change::Updated { old, new } = change
                && old.replicas() != new.replicas()
            {
                changed(&handlers, View::uid(&**new));
            }
        });
    }

    /// Queues the budgets of all pods that this owner manages.
    fn pods_changed_owner(&self, uid: &str) {
        let pods = self.pods.by_index(BY_CONTROLLER, uid);
        // Pods of one owner mostly have the same labels, and so the same budgets.
        for pods in pods.chunk_by(|a, b| a.labels().is(b.labels()) && a.namespace() == b.namespace()) {
            let Some(pod) = pods.first() else { continue };
            self.budgets_of(pod).iter().for_each(|pdb| self.queues.budget_changed(pdb.key()));
        }
    }
}
