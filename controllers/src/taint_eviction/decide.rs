//! Whether and when taints drive a pod from its node. PURE.

use std::time::Duration;

use crate::api::condition::{PodCondition, types};
use crate::api::taint::{NO_EXECUTE, Taint, Toleration};

/// What the taints of its node mean for a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EvictionPlan {
    /// It may stay.
    Keep,
    /// It is tolerated for so long, which may be not at all.
    After(Duration),
    /// It is not tolerated at all.
    Now,
}

/// Decides what happens to a pod with `tolerations` because of the `NoExecute` taints of its node.
///
/// Per taint the first toleration that matches counts, in list order; of these the shortest time wins;
/// a taint without one means now (BR-32-01, BR-32-02, BR-32-03, N-002, N-003).
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

/// The `NoExecute` taints among `taints`.
pub fn no_execute(taints: &[Taint]) -> Vec<Taint> {
    taints.iter().filter(|taint| taint.effect == NO_EXECUTE).cloned().collect()
}

/// The condition a pod gets before it is deleted.
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

/// The shard that handles a node and the pods on it: 32-bit FNV-1a of its name (BR-32-05).
pub fn shard(node: &str, shards: usize) -> usize {
    let hash = node.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash as usize % shards
}
