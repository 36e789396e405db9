//! Selects the pods to delete. PURE.
//!
//! Every selection reads the same snapshot and keeps its order (namespace, name) unless a pass sorts. The selections
//! are independent: several passes may select the same pod.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::api::View;
use crate::api::condition::{PodCondition, types};
use crate::api::node::NodeView;
use crate::api::pod::{PodView, phases};

/// The passes of a cycle, in order; [`Reason::as_str`] is the metrics label.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// The number of finished pods exceeds the threshold.
    Terminated,
    /// Terminating on a node that is down and has the out-of-service taint.
    OutOfService,
    /// The node does not exist.
    Orphaned,
    /// Terminating without ever having been bound to a node.
    Unscheduled,
}

impl Reason {
    /// Returns the value of the metrics label `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

/// Returns the finished pods in excess of `threshold`: evicted ones first, then the oldest, then by name (BR-24-01).
///
/// A threshold of 0 disables the pass (G-002). Only Pending, Running and Unknown pods are not finished; an empty phase
/// is finished (G-009).
pub fn terminated(pods: &[Arc<PodView>], threshold: usize) -> Vec<Arc<PodView>> {
    if threshold == 0 {
        return Vec::new();
    }
    let mut finished: Vec<_> = pods.iter().filter(|pod| is_finished(pod)).cloned().collect();
    let excess = finished.len().saturating_sub(threshold);
    finished.sort_by(|a, b| by_eviction_and_age(a, b));
    finished.truncate(excess);
    finished
}

/// Returns the terminating pods whose node, looked up with `node`, is not ready and out of service (BR-24-02).
pub fn out_of_service(pods: &[Arc<PodView>], node: impl Fn(&str) -> Option<Arc<NodeView>>) -> Vec<Arc<PodView>> {
    let lost = |pod: &PodView| node(&pod.spec.node_name).is_some_and(|node| is_lost(&node));
    let mut selected: Vec<_> = pods.iter().filter(|pod| pod.is_terminating() && lost(pod)).cloned().collect();
    selected.sort_by(|a, b| by_eviction_and_age(a, b));
    selected
}

/// Returns true if the node is not ready and marked out of service.
pub fn is_lost(node: &NodeView) -> bool {
    !node.is_ready() && node.is_out_of_service()
}

/// Returns the names of nodes that have pods but are not `known`, ordered by their first pod.
pub fn unknown_nodes<'a>(pods: &'a [Arc<PodView>], known: &BTreeSet<String>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let names = pods.iter().map(|pod| pod.spec.node_name.as_str());
    names.filter(|name| !name.is_empty() && !known.contains(*name) && seen.insert(*name)).collect()
}

/// Returns the pods bound to one of the `gone` nodes, no matter when they were bound (G-036).
pub fn orphaned(pods: &[Arc<PodView>], gone: &BTreeSet<String>) -> Vec<Arc<PodView>> {
    pods.iter().filter(|pod| gone.contains(pod.spec.node_name.as_str())).cloned().collect()
}

/// Returns the terminating pods that have no node.
pub fn unscheduled(pods: &[Arc<PodView>]) -> Vec<Arc<PodView>> {
    pods.iter().filter(|pod| pod.is_terminating() && pod.spec.node_name.is_empty()).cloned().collect()
}

/// Returns true if the pod must be marked Failed before it is deleted (BR-24-05).
pub fn must_fail_first(pod: &PodView) -> bool {
    !pod.is_terminal()
}

/// Returns the condition that an orphan gets with its phase; the other passes set none (BR-24-04, G-054).
pub fn condition(pod: &PodView, reason: Reason) -> Option<PodCondition> {
    (reason == Reason::Orphaned).then(|| PodCondition {
        kind: types::DISRUPTION_TARGET.to_owned(),
        status: types::TRUE.to_owned(),
        reason: "DeletionByPodGC".to_owned(),
        message: "PodGC: node no longer exists".to_owned(),
        observed_generation: pod.generation(),
        ..PodCondition::default()
    })
}

fn is_finished(pod: &PodView) -> bool {
    !matches!(pod.status.phase.as_str(), phases::PENDING | phases::RUNNING | phases::UNKNOWN)
}

fn by_eviction_and_age(a: &PodView, b: &PodView) -> Ordering {
    let age = |pod: &PodView| pod.metadata.created.get().unwrap_or(Timestamp::MIN);
    b.is_evicted().cmp(&a.is_evicted()).then_with(|| age(a).cmp(&age(b))).then_with(|| a.name().cmp(b.name()))
}
