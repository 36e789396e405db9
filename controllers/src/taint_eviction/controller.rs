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
    let nodes = context.informer::<NodeView>();
    let pods = context.informer::<PodView>();
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
            let updates = controller.pod_updates.clone();
            let nodes = nodes.lister();
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

/// The sending ends of the channels of all shards, in their order.
struct ShardInputs {
    nodes: Vec<mpsc::Sender<Arc<str>>>,
    pods: Vec<mpsc::Sender<PodUpdate>>,
}

/// Creates the shards and their channels.
fn shards() -> (Vec<Shard>, ShardInputs) {
    let mut shards = Vec::new();
    let mut inputs = ShardInputs { nodes: Vec::new(), pods: Vec::new() };
    for _ in 0..UPDATE_WORKER_SIZE {
        let (to_node, node_updates) = mpsc::channel(NODE_UPDATE_CHANNEL_SIZE);
        let (to_pod, pod_updates) = mpsc::channel(POD_UPDATE_CHANNEL_SIZE);
        inputs.nodes.push(to_node);
        inputs.pods.push(to_pod);
        shards.push(Shard { tainted: BTreeMap::new(), node_updates, pod_updates });
    }
    (shards, inputs)
}

impl TaintEvictionController {
    async fn run(&self) {
        let (shards, inputs) = shards();
        let dispatch = join(
            dispatch(&self.node_updates, &self.stop, inputs.nodes, |node| shard(node, UPDATE_WORKER_SIZE)),
            dispatch(&self.pod_updates, &self.stop, inputs.pods, |update| shard(&update.node, UPDATE_WORKER_SIZE)),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::context::testing::{context, is_list, items, run_informers};
    use crate::runtime::clock::Clock;
    use crate::runtime::metrics::Metrics;
    use crate::runtime::queue::WatchedQueue as _;
    use crate::runtime::testing::MockResponse;

    fn clock() -> Clock {
        Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn there_are_eight_workers_with_upstreams_channels() {
        let (shards, inputs) = shards();
        assert_eq!((shards.len(), inputs.nodes.len(), inputs.pods.len()), (8, 8, 8));
        assert!(inputs.nodes.iter().all(|channel| channel.max_capacity() == 10));
        assert!(inputs.pods.iter().all(|channel| channel.max_capacity() == 1));
    }

    /// Lets `dispatch` run until it waits, and returns what the shards received.
    async fn received(
        queue: &WorkQueue<Arc<str>>,
        (inputs, shards): (&ShardInputs, &mut [Shard]),
    ) -> Vec<(usize, Arc<str>)> {
        let stop = CancellationToken::new();
        let senders = inputs.nodes.clone();
        let dispatching = dispatch(queue, &stop, senders, |node| shard(node, UPDATE_WORKER_SIZE));
        let _ = clock().timeout(Duration::from_secs(1), dispatching).await;
        let mut received = Vec::new();
        for (index, shard) in shards.iter_mut().enumerate() {
            while let Ok(node) = shard.node_updates.try_recv() {
                received.push((index, node));
            }
        }
        received
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_has_one_worker_and_is_handed_out_again_only_when_it_is_done() {
        let queue: WorkQueue<Arc<str>> = WorkQueue::new(clock(), Metrics::new().queue("test"));
        let (mut shards, inputs) = shards();
        let nodes: Vec<Arc<str>> = (0..32).map(|number| format!("node-{number}").into()).collect();
        for node in &nodes {
            queue.add(Arc::clone(node));
        }
        let first = received(&queue, (&inputs, &mut shards)).await;
        assert_eq!(first.len(), nodes.len());
        let mut used: Vec<usize> = first.iter().map(|(worker, _)| *worker).collect();
        used.dedup();
        assert!(used.len() > 4, "the nodes are spread over the workers: {used:?}");
        for node in &nodes {
            queue.add(Arc::clone(node));
        }
        assert!(received(&queue, (&inputs, &mut shards)).await.is_empty(), "all are still being processed");
        for node in &nodes {
            queue.done(node);
        }
        let mut again = received(&queue, (&inputs, &mut shards)).await;
        let mut first = first;
        again.sort();
        first.sort();
        assert_eq!(again, first, "each node has the same worker as before");
    }

    /// A node that lost its taint and a pod that was bound to it are in the channels of their shard: the pod is
    /// evaluated without the taint (BR-32-04).
    #[tokio::test(start_paused = true)]
    async fn a_worker_takes_nodes_before_pods() {
        let clock = clock();
        let node = json!({ "metadata": { "name": "n1", "uid": "n", "resourceVersion": "3" } });
        let pod = json!({ "metadata": { "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "3" },
            "spec": { "nodeName": "n1" } });
        let (context, _) = context(&clock, move |seen| match () {
            () if is_list(seen, "pods") => items(std::slice::from_ref(&pod)),
            () if is_list(seen, "nodes") => items(std::slice::from_ref(&node)),
            () => MockResponse::Hang,
        });
        let nodes = context.informer::<NodeView>();
        let pods = context.informer::<PodView>();
        let _running = run_informers(&context).await;
        let controller = TaintEvictionController {
            nodes: nodes.lister(),
            pods: pods.lister(),
            node_updates: context.queue("nodes"),
            pod_updates: context.queue("pods"),
            evictor: Arc::new(Evictor::new(&context, pods.lister(), nodes.lister())),
            stop: context.stop.clone(),
        };
        let (mut shards, inputs) = shards();
        let mut first = shards.remove(0);
        let taint: Taint = serde_json::from_value(json!({ "key": "k", "effect": "NoExecute" })).unwrap();
        first.tainted.insert("n1".into(), vec![taint]);
        let update = PodUpdate { node: "n1".into(), pod: PodRef { uid: "u".into(), key: ObjectKey::new("ns", "p") } };
        inputs.pods[0].try_send(update).unwrap();
        inputs.nodes[0].try_send("n1".into()).unwrap();
        let _ = clock.timeout(Duration::from_secs(1), controller.work(first)).await;
        assert_eq!(controller.evictor.scheduled(), 0);
        assert_eq!(controller.evictor.queue().status().ready, 0, "no eviction was begun with the old taint");
    }
}
