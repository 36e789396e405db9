//! Pods.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::condition::{PodCondition, find_pod_condition, is_zero, types};
use super::meta::{self, BY_CONTROLLER, View as _, view};
use super::taint::Toleration;

/// Phases of a pod.
pub mod phases {
    /// Not all containers run yet.
    pub const PENDING: &str = "Pending";
    /// At least one container runs or will run again.
    pub const RUNNING: &str = "Running";
    /// All containers ended well.
    pub const SUCCEEDED: &str = "Succeeded";
    /// All containers ended, one of them badly.
    pub const FAILED: &str = "Failed";
    /// The node does not say.
    pub const UNKNOWN: &str = "Unknown";
}

/// A pod, as far as the four controllers read it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, kube::Resource)]
#[resource(inherit = "Pod")]
pub struct PodView {
    /// Identity, labels and owners; annotations, finalizers and managed fields are dropped.
    #[serde(deserialize_with = "meta::labels_and_owners")]
    pub metadata: ObjectMeta,
    /// Where it runs and what it tolerates.
    #[serde(default)]
    pub spec: PodSpecView,
    /// How it is.
    #[serde(default)]
    pub status: PodStatusView,
}

/// `v1.PodSpec`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecView {
    /// The node; empty until bound.
    pub node_name: String,
    /// In the order that decides (N-003).
    pub tolerations: Vec<Toleration>,
}

/// `v1.PodStatus`; serialized, two of them make a patch.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatusView {
    /// One of [`phases`], or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Why the pod is in this phase; `Evicted` matters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// All conditions, in order: a patch must name them all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodCondition>,
    /// `metadata.generation` the status was computed for; 0 is absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
}

/// Index of pods by the node they are bound to.
pub const BY_NODE: &str = "spec.nodeName";

view!(PodView as Pod,
    BY_NODE by |pod| (!pod.spec.node_name.is_empty()).then_some(pod.spec.node_name.as_str()),
    BY_CONTROLLER by |pod| pod.controller_uid());

impl PodView {
    /// The first condition of `kind`.
    pub fn condition(&self, kind: &str) -> Option<&PodCondition> {
        find_pod_condition(&self.status.conditions, kind)
    }

    /// Whether the Ready condition is True; the phase is not asked (D-101).
    pub fn is_ready(&self) -> bool {
        self.condition(types::READY).is_some_and(|ready| ready.status == types::TRUE)
    }

    /// Whether it can never run again.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), phases::SUCCEEDED | phases::FAILED)
    }

    /// Whether the kubelet evicted it under node pressure.
    pub fn is_evicted(&self) -> bool {
        self.status.phase == phases::FAILED && self.status.reason == "Evicted"
    }
}
