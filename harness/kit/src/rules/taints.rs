//! The time for which a pod may stay on a tainted node.
//!
//! Sources: `pkg/controller/tainteviction/taint_eviction.go` (`getMinTolerationTime`), `pkg/apis/core/v1/helper`
//! (`GetMatchingTolerations`), `plugin/pkg/admission/defaulttolerationseconds`.

use std::time::Duration;

use serde_json::Value;

use crate::expect::world::ObjectStates;
use crate::metadata;

/// The reason of the condition of a pod that is evicted because of a taint.
pub const DELETION_BY_TAINT_MANAGER: &str = "DeletionByTaintManager";
/// Time for which each pod tolerates that its node is not ready, by the API server's defaults.
pub const DEFAULT_TOLERATION: Duration = Duration::from_mins(5);

/// Returns how long the pod with this uid may stay on its node in the current state; `None`: indefinitely.
#[must_use]
pub fn toleration_limit(world: &ObjectStates, uid: &str) -> Option<Duration> {
    let (_, pod) = world.all("pods").find(|(_, pod)| metadata::uid(pod) == Some(uid))?;
    toleration_limit_of(world, pod)
}

/// Returns how long `pod` may stay on its node in the current state; `None`: indefinitely.
#[must_use]
pub fn toleration_limit_of(world: &ObjectStates, pod: &Value) -> Option<Duration> {
    let name = pod["spec"]["nodeName"].as_str()?;
    let (_, node) = world.all("nodes").find(|(key, _)| key.name == name)?;
    toleration_limit_on(node, pod)
}

/// Returns how long `pod` may stay on `node`; `None`: indefinitely.
#[must_use]
pub fn toleration_limit_on(node: &Value, pod: &Value) -> Option<Duration> {
    let taints = node["spec"]["taints"].as_array()?;
    let tolerations = pod["spec"]["tolerations"].as_array().map_or(&[][..], Vec::as_slice);
    let limits = taints.iter().filter(|taint| taint["effect"] == "NoExecute").filter_map(|taint| {
        match tolerations.iter().find(|toleration| tolerates(toleration, taint)) {
            None => Some(Duration::ZERO),
            Some(toleration) => {
                let seconds = toleration["tolerationSeconds"].as_i64()?;
                Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
            }
        }
    });
    limits.min()
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = text(&toleration["key"]);
    let effect = text(&toleration["effect"]);
    let fits = (effect.is_empty() || taint["effect"] == effect) && (key.is_empty() || taint["key"] == key);
    fits && match text(&toleration["operator"]).as_str() {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(&toleration["value"]) == text(&taint["value"]),
        _ => false,
    }
}
