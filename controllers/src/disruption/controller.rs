//! SHELL: the syncs of budgets and stale pods: gather, decide, act.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join3;
use parking_lot::Mutex;

use super::decide::{PdbDecision, decide, fail_safe};
use super::expected::{ExpectedCounts, expected_counts, needs_scales};
use super::handlers;
use super::queues::{Queues, delay, pod_reference};
use super::scale::{OwnerError, OwnerScaleFinder, OwnerScales};
use super::stale::{Staleness, reset_condition, staleness};
use crate::api::View as _;
use crate::api::condition::{types, update_pod_condition};
use crate::api::int_or_percent::{Rounding, ScaleError};
use crate::api::object_key::ObjectKey;
use crate::api::pdb::{PdbStatus, PdbView};
use crate::api::pod::PodView;
use crate::api::selector::SelectorError;
use crate::context::{ControllerContext, ControllerFuture};
use crate::runtime::cache::Lister;
use crate::runtime::client::names;
use crate::runtime::clock::Clock;
use crate::runtime::error::ApiError;
use crate::runtime::metrics::Metrics;
use crate::runtime::recorder::{EventType, ObjectReference, Recorder};
use crate::runtime::workers::{self, Outcome};
use crate::write::Writer;
use crate::write::actions::Action;

/// `source.component` of the events.
const COMPONENT: &str = "controllermanager";

/// Options of the controller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    /// Number of budgets synced concurrently; a budget is never synced twice at once.
    pub concurrent_syncs: usize,
    /// Rounding of a percentage in `maxUnavailable`.
    pub max_unavailable_rounding: Rounding,
}

impl Default for Options {
    fn default() -> Self {
        Self { concurrent_syncs: 5, max_unavailable_rounding: Rounding::Up }
    }
}

/// Creates the controller; returns its work.
pub fn start(context: &ControllerContext, options: Options) -> ControllerFuture {
    let queues = Queues::new(context);
    let recorder = context.recorder(names::DISRUPTION, COMPONENT);
    let register = handlers::register_handlers(context, &queues, &recorder);
    let controller = DisruptionController {
        pdbs: context.informer().lister(),
        pods: context.informer().lister(),
        owners: OwnerScaleFinder::new(context, context.reader(names::DISRUPTION)),
        writer: context.writer(names::DISRUPTION),
        fail_safe_versions: Mutex::default(),
        clock: context.clock.clone(),
        metrics: context.metrics.clone(),
        recorder,
        queues,
        options,
    };
    let stop = context.stop.clone();
    Box::pin(async move {
        register();
        // Events that the handlers recorded are processed before the workers start.
        tokio::task::yield_now().await;
        let Queues { budgets, rechecks, stale_pods, .. } = &controller.queues;
        let controller = &controller;
        join3(
            workers::run("disruption", budgets, controller.options.concurrent_syncs, &stop, |key| controller.sync(key)),
            workers::run("disruption_recheck", rechecks, 1, &stop, |key| async move {
                controller.queues.mark_changed(&key);
                controller.queues.budgets.add_rate_limited(key);
                Outcome::Forget
            }),
            workers::run("stale_pod_disruption", stale_pods, 1, &stop, |key| controller.sync_stale_pod(key)),
        )
        .await;
    })
}

struct DisruptionController {
    pdbs: Lister<PdbView>,
    pods: Lister<PodView>,
    owners: OwnerScaleFinder,
    writer: Writer,
    /// Versions of failing budgets on top of which the fail-safe status was written.
    fail_safe_versions: Mutex<BTreeMap<ObjectKey, String>>,
    clock: Clock,
    metrics: Metrics,
    recorder: Recorder,
    queues: Queues,
    options: Options,
}

/// Errors of a sync. `Display` goes into conditions and events.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error("{0}")]
    Selector(#[from] SelectorError),
    #[error("{0}")]
    Owners(#[from] OwnerError),
    #[error("{0}")]
    Bound(#[from] ScaleError),
    #[error("{0}")]
    Write(#[from] ApiError),
}

impl DisruptionController {
    async fn sync(&self, key: ObjectKey) -> Outcome {
        let is_changed = self.queues.take_changed(&key);
        let Some(pdb) = self.pdbs.get(&key) else {
            tracing::info!(budget = %key, "budget was deleted, nothing to sync");
            self.fail_safe_versions.lock().remove(&key);
            return Outcome::Forget;
        };
        if !is_changed && self.fail_safe_versions.lock().get(&key).is_some_and(|over| over == pdb.resource_version()) {
            // The cache does not contain our own last write yet, so there is nothing new to decide.
            return Outcome::Retry;
        }
        match self.try_sync(&pdb, is_changed).await {
            Ok(()) => {
                self.fail_safe_versions.lock().remove(&key);
                Outcome::Forget
            }
            // The budget was written concurrently and the retry sees the new version. The computed status is outdated,
            // not wrong.
            Err(SyncError::Write(ApiError::Conflict(_))) => {
                self.queues.mark_changed(&key);
                Outcome::Retry
            }
            Err(error) => {
                tracing::error!(budget = %key, %error, "failed to sync budget, no disruption is allowed until it succeeds");
                self.metrics.fail_safe("disruption");
                self.fail_safe(&pdb, &error.to_string()).await;
                Outcome::Retry
            }
        }
    }

    /// Ensures that a budget whose status cannot be computed allows no disruption (BR-25-06).
    async fn fail_safe(&self, pdb: &PdbView, error: &str) {
        let Some(status) = fail_safe(pdb, error, self.clock.now()) else { return };
        match self.write(pdb, status, "fail safe").await {
            Ok(()) => {
                self.fail_safe_versions.lock().insert(pdb.key(), pdb.resource_version().to_owned());
            }
            Err(error) => {
                tracing::error!(budget = %pdb.key(), %error, "unable to write the fail-safe status, trying again");
            }
        }
    }

    /// Syncs a budget. A failure is reported as an event if the budget `is_changed`, not at every retry.
    async fn try_sync(&self, pdb: &PdbView, is_changed: bool) -> Result<(), SyncError> {
        let failed = |reason, what, error: SyncError| {
            if is_changed {
                self.recorder.event(pdb_reference(pdb), EventType::Warning, reason, format!("{what}: {error}"));
            }
            error
        };
        let pods = self.selected(pdb).map_err(|error| failed("NoPods", "Failed to get pods", error))?;
        if pods.is_empty() {
            self.recorder.event(pdb_reference(pdb), EventType::Normal, "NoPods", "No matching pods found");
        }
        let (expected, unmanaged) = self.expected_counts(pdb, &pods).await.map_err(|error| {
            failed("CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods", error)
        })?;
        if !unmanaged.is_empty() {
            tracing::debug!(budget = %pdb.key(), pods = ?unmanaged, "budget selects pods without an owner");
            self.recorder.event(pdb_reference(pdb), EventType::Warning, "UnmanagedPods", unmanaged_text(pdb));
        }
        let now = self.clock.now();
        let PdbDecision { status, recheck_at, not_deleted } = decide(pdb, &pods, expected, now);
        for pod in not_deleted {
            tracing::info!(budget = %pdb.key(), pod = %pod.key(), "eviction was granted but the pod still exists");
            let namespace = pdb.namespace();
            // Upstream prints the namespace twice by mistake; users match on this text.
            let text = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
            self.recorder.event(pod_reference(&pod), EventType::Warning, "NotDeleted", text);
        }
        if let Some(status) = status {
            self.write(pdb, status, "the budget's pods or spec changed").await?;
        }
        if let Some(at) = recheck_at {
            self.queues.rechecks.add_after(pdb.key(), delay(now, at));
        }
        Ok(())
    }

    fn selected(&self, pdb: &PdbView) -> Result<Vec<Arc<PodView>>, SyncError> {
        let selector = pdb.selector().map_err(Clone::clone)?;
        Ok(self.pods.select(pdb.namespace(), selector))
    }

    async fn expected_counts(
        &self,
        pdb: &PdbView,
        pods: &[Arc<PodView>],
    ) -> Result<(ExpectedCounts, Vec<String>), SyncError> {
        let scales = if needs_scales(&pdb.spec) { self.owners.scales(pods).await? } else { OwnerScales::default() };
        let rounding = self.options.max_unavailable_rounding;
        let expected = expected_counts(&pdb.spec, pods.len(), scales.replicas.into_values(), rounding)?;
        if expected.saturated {
            tracing::warn!(budget = %pdb.key(), "the sum of the owners' scales exceeds 32 bits, using the maximum");
        }
        Ok((expected, scales.unmanaged))
    }

    async fn write(&self, pdb: &PdbView, status: PdbStatus, why: &str) -> Result<(), ApiError> {
        let pdb = Box::new(pdb.with_status(status));
        self.writer.apply(&Action::UpdatePdbStatus { pdb }, why).await
    }

    /// Sets a stale `DisruptionTarget` condition to False (BR-25-05).
    async fn sync_stale_pod(&self, key: ObjectKey) -> Outcome {
        let Some(pod) = self.pods.get(&key) else { return Outcome::Forget };
        let now = self.clock.now();
        match staleness(&pod, now) {
            Staleness::Never => return Outcome::Forget,
            Staleness::At(at) => {
                self.queues.stale_pods.add_after(key, delay(now, at));
                return Outcome::Forget;
            }
            Staleness::Stale => {}
        }
        let mut conditions = pod.status.conditions.iter().collect();
        update_pod_condition(&mut conditions, reset_condition(&pod), now);
        let Some(condition) = conditions.into_iter().find(|condition| condition.kind == types::DISRUPTION_TARGET)
        else {
            return Outcome::Forget;
        };
        let action = Action::ResetDisruptionTarget {
            pod: key,
            uid: pod.uid().into(),
            resource_version: pod.resource_version().into(),
            condition: Box::new(condition),
        };
        match self.writer.apply(&action, "the announced disruption did not happen").await {
            Ok(()) | Err(ApiError::NotFound(_)) => Outcome::Forget,
            Err(_) => Outcome::Retry,
        }
    }
}

fn pdb_reference(pdb: &PdbView) -> ObjectReference {
    ObjectReference::to(pdb)
}

fn unmanaged_text(pdb: &PdbView) -> String {
    let selector = pdb.spec.selector.as_ref().map_or_else(|| "nil".to_owned(), ToString::to_string);
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the \
         status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these \
         pods please set \".spec.minAvailable\" field of the PDB to an integer value."
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::context::testing::{context, is_list, items, run_informers};
    use crate::runtime::testing::{MockResponse, ReceivedRequest};

    #[rstest]
    #[case::one(1)]
    #[case::three(3)]
    #[case::default(Options::default().concurrent_syncs)]
    #[tokio::test(start_paused = true)]
    async fn as_many_budgets_are_synced_at_once_as_configured(#[case] concurrent_syncs: usize) {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let stored = |number: u32| {
            let metadata = json!({ "namespace": "ns", "name": format!("b{number}"), "uid": number.to_string(),
                "resourceVersion": "3", "generation": 1 });
            json!({ "metadata": metadata, "spec": { "minAvailable": 1, "selector": {} } })
        };
        let budgets: Vec<Value> = (0..12).map(stored).collect();
        let (context, log) = context(&clock, move |seen| match seen.line.contains("watch=") {
            _ if is_list(seen, "poddisruptionbudgets") => items(&budgets),
            false if seen.line.starts_with("GET") => items(&[]),
            _ => MockResponse::Hang,
        });
        let controller = start(&context, Options { concurrent_syncs, ..Options::default() });
        let _running = run_informers(&context).await;
        let _ = clock.timeout(Duration::from_secs(1), controller).await;
        let writes = |seen: &&ReceivedRequest| seen.line.starts_with("PUT");
        assert_eq!(log.lock().iter().filter(writes).count(), concurrent_syncs);
    }

    #[test]
    fn five_budgets_are_synced_at_once_by_default() {
        assert_eq!(Options::default().concurrent_syncs, 5);
    }
}
