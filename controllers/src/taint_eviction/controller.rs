//! SHELL: node and pod events to shards, shards to the schedule, the schedule to evictions.
//!
//! ```text
//!  nodes ─► node queue ─┐            ┌► shard 0 ─┐
//!                       ├─ by FNV-1a ┤    …      ├─► schedule ─► evictions ─► [`super::evict`]
//!  pods ──► pod queue ──┘            └► shard 7 ─┘   (timers)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{join, join_all, join4};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::decide::{decide, no_execute, shard};
use super::evict::{EVICTION_WORKERS, Evictor};
use super::schedule::{PodRef, TaintSource};
use super::{NODE_UPDATE_CHANNEL_SIZE, POD_UPDATE_CHANNEL_SIZE, UPDATE_WORKER_SIZE};
use crate::api::View as _;
use crate::api::node::NodeView;
use crate::api::object_key::ObjectKey;
use crate::api::pod::{BY_NODE, PodView};
use crate::api::taint::{NO_EXECUTE, Taint};
use crate::context::{ControllerContext, ControllerFuture};
use crate::runtime::cache::{Change, Lister};
use crate::runtime::queue::WorkQueue;
use crate::runtime::workers;

/// A pod to evaluate, and the node it was bound to when the event arrived; the node determines the shard.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct PodUpdate {
    node: Arc<str>,
    pod: PodRef,
}

/// Creates the controller; returns its work.
pub fn start(context: &ControllerContext) -> ControllerFuture {
    let (nodes, pods) = (context.informer::<NodeView>(), context.informer::<PodView>());
    let node_updates = context.queue::<Arc<str>>("noexec_taint_node");
    let pod_updates = context.queue::<PodUpdate>("noexec_taint_pod");
    let evictor = Arc::new(Evictor::new(context, pods.lister(), nodes.lister()));
    let timers = Arc::downgrade(&evictor);
    context.register_pending("taint_evictions_scheduled", move || {
        timers.upgrade().map_or(0, |evictor| evictor.scheduled())
    });
    let controller = TaintEvictionController {
        nodes: nodes.lister(),
        pods: pods.lister(),
        node_updates,
        pod_updates,
        evictor,
        stop: context.stop.clone(),
    };
    Box::pin(async move {
        // Pods first: the first evaluation of each node includes all pods that exist at that time.
        pods.add_event_handler_without_replay({
            let (updates, nodes) = (controller.pod_updates.clone(), nodes.lister());
            move |change| pod_changed(&updates, &nodes, change)
        });
        nodes.add_event_handler({
            let updates = controller.node_updates.clone();
            move |change| node_changed(&updates, change)
        });
        controller.run().await;
    })
}

/// Queues a node that was added, deleted, or whose `NoExecute` taints changed.
fn node_changed(updates: &WorkQueue<Arc<str>>, change: &Change<NodeView>) {
    if let Change::Updated { old, new } = change
        && (old.spec.taints.ptr_eq(&new.spec.taints) || no_execute(&old.spec.taints) == no_execute(&new.spec.taints))
    {
        return;
    }
    updates.add(Arc::clone(&change.object().metadata.name));
}

/// Queues a pod that was added, deleted, or whose tolerations or node changed.
///
/// A pod on a node without `NoExecute` taint is not queued: when the node is added or gets a taint, its own update
/// evaluates all its pods.
fn pod_changed(updates: &WorkQueue<PodUpdate>, nodes: &Lister<NodeView>, change: &Change<PodView>) {
    let pod = change.object();
    match change {
        Change::Updated { old, new } if old.spec == new.spec => return,
        Change::Added(_) | Change::Updated { .. } => {
            let node = nodes.get(&ObjectKey::cluster(pod.spec.node_name.to_arc()));
            if !node.is_some_and(|node| node.spec.taints.iter().any(|taint| taint.effect == NO_EXECUTE)) {
                return;
            }
        }
        Change::Deleted(_) => {}
    }
    updates.add(PodUpdate { node: pod.spec.node_name.to_arc(), pod: pod_ref(pod) });
}

fn pod_ref(pod: &PodView) -> PodRef {
    PodRef { uid: Arc::clone(&pod.metadata.uid), key: pod.key() }
}

struct TaintEvictionController {
    nodes: Lister<NodeView>,
    pods: Lister<PodView>,
    node_updates: WorkQueue<Arc<str>>,
    pod_updates: WorkQueue<PodUpdate>,
    evictor: Arc<Evictor>,
    stop: CancellationToken,
}

/// The worker of one shard: the taints of its nodes and its input channels.
struct Shard {
    /// `NoExecute` taints by node; nodes without such taints are absent.
    tainted: BTreeMap<Arc<str>, Vec<Taint>>,
    node_updates: mpsc::Receiver<Arc<str>>,
    pod_updates: mpsc::Receiver<PodUpdate>,
}

impl TaintEvictionController {
    async fn run(&self) {
        let mut shards = Vec::with_capacity(UPDATE_WORKER_SIZE);
        let (mut to_nodes, mut to_pods) = (Vec::new(), Vec::new());
        for _ in 0..UPDATE_WORKER_SIZE {
            let (to_node, node_updates) = mpsc::channel(NODE_UPDATE_CHANNEL_SIZE);
            let (to_pod, pod_updates) = mpsc::channel(POD_UPDATE_CHANNEL_SIZE);
            to_nodes.push(to_node);
            to_pods.push(to_pod);
            shards.push(Shard { tainted: BTreeMap::new(), node_updates, pod_updates });
        }
        let dispatch = join(
            dispatch(&self.node_updates, &self.stop, to_nodes, |node| shard(node, UPDATE_WORKER_SIZE)),
            dispatch(&self.pod_updates, &self.stop, to_pods, |update| shard(&update.node, UPDATE_WORKER_SIZE)),
        );
        let work = join_all(shards.into_iter().map(|shard| self.work(shard)));
        let evict = workers::run("taint_evictions", self.evictor.queue(), EVICTION_WORKERS, &self.stop, |due| {
            self.evictor.evict(due)
        });
        join4(dispatch, work, self.evictor.fire_timers(&self.stop), evict).await;
    }

    /// Processes node updates first: a pod is evaluated with the current taints of its node (BR-32-04).
    async fn work(&self, mut shard: Shard) {
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                Some(node) = shard.node_updates.recv() => self.node_updated(&mut shard.tainted, &node),
                Some(update) = shard.pod_updates.recv() => {
                    while let Ok(node) = shard.node_updates.try_recv() {
                        self.node_updated(&mut shard.tainted, &node);
                    }
                    self.pod_updated(&shard.tainted, &update);
                }
                else => return,
            }
        }
    }

    fn node_updated(&self, tainted: &mut BTreeMap<Arc<str>, Vec<Taint>>, name: &Arc<str>) {
        self.evaluate_node(tainted, name);
        self.node_updates.done(name);
    }

    /// Records the taints of a node and evaluates its pods. Deleting a node does not stop the countdowns of its pods
    /// (N-088).
    fn evaluate_node(&self, tainted: &mut BTreeMap<Arc<str>, Vec<Taint>>, name: &Arc<str>) {
        let Some(node) = self.nodes.get(&ObjectKey::cluster(Arc::clone(name))) else {
            tainted.remove(name);
            return;
        };
        let taints = no_execute(&node.spec.taints);
        // A pod may have been bound after the node was tainted.
        let source = if tainted.contains_key(name) { TaintSource::AlreadyKnown } else { TaintSource::NodeUpdate };
        for pod in self.pods.by_index(BY_NODE, name) {
            self.evictor.apply_plan(&pod_ref(&pod), (decide(&taints, &pod.spec.tolerations), source));
        }
        if taints.is_empty() {
            tainted.remove(name);
        } else {
            tainted.insert(Arc::clone(name), taints);
        }
    }

    fn pod_updated(&self, tainted: &BTreeMap<Arc<str>, Vec<Taint>>, update: &PodUpdate) {
        self.evaluate_pod(tainted, update);
        self.pod_updates.done(update);
    }

    fn evaluate_pod(&self, tainted: &BTreeMap<Arc<str>, Vec<Taint>>, update: &PodUpdate) {
        let Some(pod) = self.pods.get(&update.pod.key).filter(|pod| pod.uid() == &*update.pod.uid) else {
            // Deleted, or replaced by another pod with the same name, which has its own update.
            self.evictor.pod_deleted(&update.pod);
            return;
        };
        if pod.spec.node_name != *update.node {
            // The pod was bound in the meantime; that update goes to the shard of its node.
            return;
        }
        // The node has no taints, or its first update is still to come and will evaluate all its pods.
        let Some(taints) = tainted.get(&update.node) else { return };
        self.evictor.apply_plan(&update.pod, (decide(taints, &pod.spec.tolerations), TaintSource::AlreadyKnown));
    }
}

/// Passes every item of `queue` to its shard until `stop` is cancelled. The shard calls `done`.
async fn dispatch<T: Ord + Clone>(
    queue: &WorkQueue<T>,
    stop: &CancellationToken,
    shards: Vec<mpsc::Sender<T>>,
    shard_of: impl Fn(&T) -> usize,
) {
    loop {
        let next = async {
            let item = queue.get().await;
            shards[shard_of(&item)].send(item).await.ok()
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            handed_over = next => if handed_over.is_none() { return },
        }
    }
}
