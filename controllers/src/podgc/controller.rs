//! SHELL: the periodic sweep: live GETs before irreversible steps, patch, then delete.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::decide::{self, Reason};
use super::node_queue::{NODE_QUEUE, NodeQueue};
use super::{DELETE_PARALLELISM, GC_CHECK_PERIOD};
use crate::api::View as _;
use crate::api::condition::update_pod_condition;
use crate::api::intern::InternedStr;
use crate::api::node::NodeView;
use crate::api::object_key::ObjectKey;
use crate::api::pod::{PodView, phases};
use crate::context::{ControllerContext, ControllerFuture};
use crate::runtime::cache::Lister;
use crate::runtime::client::names;
use crate::runtime::clock::Clock;
use crate::runtime::error::ApiError;
use crate::runtime::metrics::Metrics;
use crate::write::actions::{Action, status_patch};
use crate::write::{Reader, Writer};

/// Creates the controller; returns its work.
///
/// `terminated_threshold` is the number of finished pods that may remain in the whole cluster; 0 means unlimited.
pub fn start(context: &ControllerContext, terminated_threshold: usize) -> ControllerFuture {
    let controller = PodGcController {
        pods: context.informer::<PodView>().lister(),
        nodes: context.informer::<NodeView>().lister(),
        reader: context.reader(names::PODGC),
        writer: context.writer(names::PODGC),
        clock: context.clock.clone(),
        metrics: context.metrics.clone(),
        quarantined: Arc::default(),
        node_queue: NodeQueue::new(context.clock.clone(), context.metrics.queue(NODE_QUEUE)),
        terminated_threshold,
    };
    let quarantined = Arc::clone(&controller.quarantined);
    context.register_pending("podgc_nodes_in_quarantine", move || quarantined.load(Ordering::Relaxed));
    context.register_queue(controller.node_queue.clone());
    let stop = context.stop.clone();
    Box::pin(async move { controller.run(&stop).await })
}

struct PodGcController {
    pods: Lister<PodView>,
    nodes: Lister<NodeView>,
    reader: Reader,
    writer: Writer,
    clock: Clock,
    metrics: Metrics,
    /// Number of nodes in quarantine after the last cycle.
    quarantined: Arc<AtomicUsize>,
    /// The nodes in quarantine.
    node_queue: NodeQueue,
    terminated_threshold: usize,
}

/// One cycle: the pods that all passes read, and the UIDs of pods handled so far.
struct Cycle<'a> {
    stop: &'a CancellationToken,
    pods: Vec<Arc<PodView>>,
    handled: BTreeSet<String>,
}

impl PodGcController {
    async fn run(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.sweep(stop).await;
            self.quarantined.store(self.node_queue.waiting(), Ordering::Relaxed);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.clock.sleep(GC_CHECK_PERIOD) => {}
            }
        }
    }

    async fn sweep(&self, stop: &CancellationToken) {
        let mut cycle = Cycle { stop, pods: self.pods.list(), handled: BTreeSet::new() };
        let known: BTreeSet<String> = self.nodes.list().iter().map(|node| node.name().to_owned()).collect();

        let terminated = decide::terminated(&cycle.pods, self.terminated_threshold);
        self.delete_all(&mut cycle, terminated, Reason::Terminated).await;

        let out_of_service = self.confirmed_out_of_service(&cycle.pods).await;
        self.delete_all(&mut cycle, out_of_service, Reason::OutOfService).await;

        let gone = self.confirmed_gone(&cycle.pods, &known).await;
        let orphaned = decide::orphaned(&cycle.pods, &gone);
        self.delete_all(&mut cycle, orphaned, Reason::Orphaned).await;

        let unscheduled = decide::unscheduled(&cycle.pods);
        self.delete_all(&mut cycle, unscheduled, Reason::Unscheduled).await;
    }

    /// Returns the pods of out-of-service nodes, without those whose node the API server reports as healthy: the cache
    /// may be stale (G-057). A node that cannot be read counts as healthy until the next cycle.
    async fn confirmed_out_of_service(&self, pods: &[Arc<PodView>]) -> Vec<Arc<PodView>> {
        let mut pods = decide::out_of_service(pods, |name| self.nodes.get(&ObjectKey::cluster(name)));
        let mut lost: BTreeMap<InternedStr, bool> = BTreeMap::new();
        for pod in &pods {
            if let Entry::Vacant(unasked) = lost.entry(pod.spec.node_name.clone()) {
                let is_lost = self.is_lost(unasked.key()).await;
                unasked.insert(is_lost);
            }
        }
        pods.retain(|pod| lost.get(&pod.spec.node_name).copied().unwrap_or(false));
        pods
    }

    async fn is_lost(&self, name: &str) -> bool {
        match self.reader.get::<NodeView>(&ObjectKey::cluster(name)).await {
            Ok(live) if decide::is_lost(&live) => true,
            Ok(_) => {
                tracing::info!(node = name, "node is back in service, its pods are kept");
                false
            }
            Err(error) => {
                tracing::warn!(node = name, %error, "unable to confirm that the node is out of service, its pods stay");
                false
            }
        }
    }

    /// Returns the nodes whose quarantine is over and that do not exist on the API server (BR-24-03). A node that
    /// cannot be read waits once more (G-037).
    async fn confirmed_gone(&self, pods: &[Arc<PodView>], known: &BTreeSet<String>) -> BTreeSet<String> {
        let mut gone = BTreeSet::new();
        for name in self.node_queue.next(decide::unknown_nodes(pods, known), known) {
            let _processing = self.node_queue.begin();
            match self.reader.get::<NodeView>(&ObjectKey::cluster(name.as_str())).await {
                Ok(_) => tracing::debug!(node = name, "node exists but is not in the cache yet"),
                Err(ApiError::NotFound(_)) => {
                    gone.insert(name);
                }
                Err(error) => {
                    tracing::error!(node = name, %error, "unable to check whether the node exists, its pods are kept");
                }
            }
        }
        gone
    }

    /// Deletes `pods` with bounded parallelism, without those that this cycle has handled already (G-070). A failure
    /// does not stop the others; the next cycle tries again (G-071).
    async fn delete_all(&self, cycle: &mut Cycle<'_>, mut pods: Vec<Arc<PodView>>, reason: Reason) {
        pods.retain(|pod| cycle.handled.insert(pod.uid().to_owned()));
        if pods.is_empty() {
            return;
        }
        tracing::info!(reason = reason.as_str(), pods = pods.len(), "garbage collecting pods");
        let stop = cycle.stop;
        stream::iter(pods)
            .take_while(|_| std::future::ready(!stop.is_cancelled()))
            .for_each_concurrent(DELETE_PARALLELISM, |pod| async move { self.delete(&pod, reason).await })
            .await;
    }

    async fn delete(&self, pod: &PodView, reason: Reason) {
        self.metrics.force_delete(pod.namespace(), reason.as_str());
        if let Err(error) = self.fail_and_delete(pod, reason).await {
            self.metrics.force_delete_error(pod.namespace(), reason.as_str());
            tracing::error!(
                pod = %pod.key(),
                reason = reason.as_str(),
                %error,
                "pod was not deleted, the next cycle tries again"
            );
        }
    }

    async fn fail_and_delete(&self, pod: &PodView, reason: Reason) -> Result<(), ApiError> {
        let key = pod.key();
        let uid = Arc::clone(&pod.metadata.uid);
        if decide::must_fail_first(pod)
            && let Some(status) = self.failed_status(pod, reason)
        {
            let action = Action::PatchPodStatus { pod: key.clone(), uid: Arc::clone(&uid), status };
            self.writer.apply(&action, reason.as_str()).await?;
        }
        let action = Action::DeletePod { pod: key, uid, grace_seconds: Some(0) };
        self.writer.apply(&action, reason.as_str()).await
    }

    /// Returns the patch that sets the phase of `pod` to Failed; an orphan also gets the condition `DisruptionTarget`.
    fn failed_status(&self, pod: &PodView, reason: Reason) -> Option<Value> {
        let old = pod.status.to_status();
        let mut new = old.clone();
        phases::FAILED.clone_into(&mut new.phase);
        new.observed_generation = pod.generation();
        if let Some(condition) = decide::condition(pod, reason) {
            update_pod_condition(&mut new.conditions, condition, self.clock.now());
        }
        status_patch(&json!(old), &json!(new))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::context::testing::{context, is_list, items, run_informers};
    use crate::runtime::testing::{MockResponse, ReceivedRequest};

    #[tokio::test(start_paused = true)]
    async fn sixteen_pods_are_deleted_at_the_same_time() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let stuck = |number: u32| {
            let deleted = "2025-12-31T23:00:00Z";
            let metadata = json!({ "namespace": "ns", "name": format!("p{number}"), "uid": number.to_string(),
                "deletionTimestamp": deleted });
            json!({ "metadata": metadata, "status": { "phase": "Failed" } })
        };
        let pods: Vec<Value> = (0..40).map(stuck).collect();
        let (context, log) = context(&clock, move |seen| match () {
            () if is_list(seen, "pods") => items(&pods),
            () if is_list(seen, "nodes") => items(&[]),
            () => MockResponse::Hang,
        });
        let controller = start(&context, 0);
        let _running = run_informers(&context).await;
        let _ = clock.timeout(Duration::from_secs(1), controller).await;
        let deletes = |seen: &&ReceivedRequest| seen.line.starts_with("DELETE");
        assert_eq!(log.lock().iter().filter(deletes).count(), DELETE_PARALLELISM);
        assert_eq!(DELETE_PARALLELISM, 16);
    }
}
