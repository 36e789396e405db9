//! Decides whether and when taints evict a pod. PURE.

use std::time::Duration;

use crate::api::condition::{PodCondition, types};
use crate::api::taint::{NO_EXECUTE, Taint, Toleration};

/// The consequence of a node's taints for a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EvictionPlan {
    /// The pod may stay.
    Keep,
    /// All taints are tolerated, but only for this time, which may be zero.
    After(Duration),
    /// A taint is not tolerated.
    Now,
}

/// Decides what the `NoExecute` taints of the node mean for a pod with `tolerations`.
///
/// For each taint, the first matching toleration in list order applies; the shortest of their times wins; a taint
/// without toleration means eviction now (BR-32-01, BR-32-02, BR-32-03, N-002, N-003).
///
/// ```
/// use std::time::Duration;
///
/// use plumbline_controllers::api::taint::{Taint, Toleration};
/// use plumbline_controllers::taint_eviction::decide::{EvictionPlan, decide};
///
/// let taint = Taint { key: "maintenance".into(), effect: "NoExecute".into(), ..Taint::default() };
/// let for_a_minute = Toleration {
///     key: "maintenance".into(),
///     operator: "Exists".into(),
///     toleration_seconds: Some(60),
///     ..Toleration::default()
/// };
/// assert_eq!(decide(&[taint.clone()], &[]), EvictionPlan::Now);
/// assert_eq!(decide(&[taint], &[for_a_minute]), EvictionPlan::After(Duration::from_secs(60)));
/// assert_eq!(decide(&[], &[]), EvictionPlan::Keep);
/// ```
pub fn decide(taints: &[Taint], tolerations: &[Toleration]) -> EvictionPlan {
    let mut limits = Vec::new();
    for taint in taints.iter().filter(|taint| taint.effect == NO_EXECUTE) {
        let Some(toleration) = tolerations.iter().find(|toleration| toleration.tolerates(taint)) else {
            return EvictionPlan::Now;
        };
        limits.extend(toleration.toleration_seconds);
    }
    match limits.into_iter().min() {
        None => EvictionPlan::Keep,
        Some(seconds) => EvictionPlan::After(Duration::from_secs(seconds.try_into().unwrap_or(0))),
    }
}

/// Returns the `NoExecute` taints among `taints`.
pub fn no_execute(taints: &[Taint]) -> Vec<Taint> {
    taints.iter().filter(|taint| taint.effect == NO_EXECUTE).cloned().collect()
}

/// Returns the condition that a pod gets before it is deleted.
pub fn condition(generation: i64) -> PodCondition {
    PodCondition {
        kind: types::DISRUPTION_TARGET.to_owned(),
        status: types::TRUE.to_owned(),
        reason: "DeletionByTaintManager".to_owned(),
        message: "Taint manager: deleting due to NoExecute taint".to_owned(),
        observed_generation: generation,
        ..PodCondition::default()
    }
}

/// Returns the shard of a node and of the pods on it: 32-bit FNV-1a of the node's name (BR-32-05).
pub fn shard(node: &str, shards: usize) -> usize {
    let hash = node.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash as usize % shards
}
