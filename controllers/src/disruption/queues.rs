//! SHELL: the controller's work queues.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::api::object_key::ObjectKey;
use crate::api::pod::PodView;
use crate::context::ControllerContext;
use crate::runtime::queue::WorkQueue;
use crate::runtime::recorder::ObjectReference;

/// The controller's three queues.
#[derive(Clone)]
pub(super) struct Queues {
    /// Budgets to sync.
    pub(super) budgets: WorkQueue<ObjectKey>,
    /// Budgets with granted evictions, delayed until the first of them expires.
    pub(super) rechecks: WorkQueue<ObjectKey>,
    /// Pods with a `DisruptionTarget` condition, delayed until it becomes stale.
    pub(super) stale_pods: WorkQueue<ObjectKey>,
    /// Budgets that changed since their last sync. Other keys in `budgets` are retries.
    changed_since_sync: Arc<Mutex<BTreeSet<ObjectKey>>>,
}

impl Queues {
    pub(super) fn new(context: &ControllerContext) -> Self {
        Self {
            budgets: context.queue("disruption"),
            rechecks: context.queue("disruption_recheck"),
            stale_pods: context.queue("stale_pod_disruption"),
            changed_since_sync: Arc::default(),
        }
    }

    /// Queues a budget that has changed.
    pub(super) fn budget_changed(&self, key: ObjectKey) {
        self.mark_changed(&key);
        self.budgets.add(key);
    }

    pub(super) fn mark_changed(&self, key: &ObjectKey) {
        self.changed().insert(key.clone());
    }

    pub(super) fn take_changed(&self, key: &ObjectKey) -> bool {
        self.changed().remove(key)
    }

    fn changed(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.changed_since_sync.lock()
    }
}

/// Returns the time from `now` to `at`; zero if it has passed.
pub(super) fn delay(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

pub(super) fn pod_reference(pod: &PodView) -> ObjectReference {
    ObjectReference::to(pod)
}
