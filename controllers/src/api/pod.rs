//! Pods.

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use super::cache_object::Decode;
use super::condition::{Conditions, PodCondition, is_zero, types};
use super::intern::{InternedSlice, InternedStr};
use super::labels::Labels;
use super::meta::{self, BY_CONTROLLER, LabelsAndOwner, Meta, view};
use super::owner::Owner;
use super::protobuf::{Fields, ProtoError};
use super::taint::{self, Toleration};

/// Phases of a pod.
pub mod phases {
    /// Not all containers are running yet.
    pub const PENDING: &str = "Pending";
    /// At least one container is running or will be restarted.
    pub const RUNNING: &str = "Running";
    /// All containers terminated successfully.
    pub const SUCCEEDED: &str = "Succeeded";
    /// All containers terminated, at least one with a failure.
    pub const FAILED: &str = "Failed";
    /// The node does not report the pod's state.
    pub const UNKNOWN: &str = "Unknown";
}

/// The fields of a pod that the four controllers read: about 400 bytes per pod, with all common parts shared.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct PodView {
    /// Identity, labels and controller; annotations, finalizers and managed fields are dropped.
    pub metadata: Meta<LabelsAndOwner>,
    /// The node and the tolerations.
    #[serde(default)]
    pub spec: PodSpecView,
    /// Phase and conditions.
    #[serde(default)]
    pub status: PodStatusView,
}

/// `v1.PodSpec`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpecView {
    /// Name of the node; empty until the pod is bound.
    pub node_name: InternedStr,
    /// Tolerations in list order, which decides between several that match (N-003).
    pub tolerations: InternedSlice<Toleration>,
}

/// `v1.PodStatus`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatusView {
    /// One of [`phases`], or empty.
    pub phase: InternedStr,
    /// Reason of the phase; `Evicted` is used.
    pub reason: InternedStr,
    /// All conditions in order: a patch must name all of them.
    pub conditions: Conditions,
    /// `metadata.generation` that the status was computed for; 0 if absent.
    pub observed_generation: i64,
}

/// A mutable pod status; the difference of two of them, serialized, is a patch.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// One of [`phases`], or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Reason of the phase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// All conditions, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodCondition>,
    /// `metadata.generation` that the status was computed for; 0 if absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
}

impl PodStatusView {
    /// Returns a mutable copy of the status.
    pub fn to_status(&self) -> PodStatus {
        PodStatus {
            phase: self.phase.to_string(),
            reason: self.reason.to_string(),
            conditions: self.conditions.iter().collect(),
            observed_generation: self.observed_generation,
        }
    }
}

/// Index of pods by the node they are bound to.
pub const BY_NODE: &str = "spec.nodeName";

view!(PodView as Pod,
    BY_NODE by |pod| (!pod.spec.node_name.is_empty()).then_some(&pod.spec.node_name),
    BY_CONTROLLER by |pod| pod.controller_ref().map(|owner| &owner.uid);
    const PROTOBUF: Option<Decode<Self>> = Some(PodView::protobuf);
    fn labels(&self) -> Option<&Labels> {
        Some(&self.metadata.projection.labels)
    }
);

impl PodView {
    /// Returns the first condition of type `kind`.
    pub fn condition(&self, kind: &str) -> Option<PodCondition> {
        self.status.conditions.find(kind)
    }

    /// Returns true if the Ready condition is True; the phase is ignored (D-101).
    pub fn is_ready(&self) -> bool {
        self.status.conditions.status_of(types::READY) == Some(types::TRUE)
    }

    /// Returns true if deletion was requested.
    pub fn is_terminating(&self) -> bool {
        self.metadata.terminating
    }

    /// Returns true if the pod can never run again.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), phases::SUCCEEDED | phases::FAILED)
    }

    /// Returns true if the kubelet evicted the pod under node pressure.
    pub fn is_evicted(&self) -> bool {
        self.status.phase == phases::FAILED && self.status.reason == "Evicted"
    }

    /// `metadata.labels`
    pub fn labels(&self) -> &Labels {
        &self.metadata.projection.labels
    }

    /// Returns the controller of the pod.
    pub fn controller_ref(&self) -> Option<&Owner> {
        self.metadata.projection.owner.as_deref()
    }

    /// Decodes a protobuf `v1.Pod`.
    ///
    /// # Errors
    /// [`ProtoError`] if the bytes are not such a message.
    pub fn protobuf(pod: &[u8]) -> Result<Self, ProtoError> {
        let parts = meta::object_parts(pod)?;
        Ok(Self { metadata: parts.metadata()?, spec: spec(parts.spec())?, status: status(parts.status())? })
    }
}

fn spec(message: Fields<'_>) -> Result<PodSpecView, ProtoError> {
    let mut node_name = InternedStr::default();
    let mut tolerations = Vec::new();
    for field in message {
        match field? {
            (10, value) => node_name = value.text()?.into(),
            (22, value) => tolerations.push(taint::toleration(value.message()?)?),
            _ => {}
        }
    }
    Ok(PodSpecView { node_name, tolerations: InternedSlice::new(tolerations) })
}

fn status(message: Fields<'_>) -> Result<PodStatusView, ProtoError> {
    let mut status = PodStatusView { conditions: Conditions::protobuf(message, 2)?, ..PodStatusView::default() };
    for field in message {
        match field? {
            (1, value) => status.phase = value.text()?.into(),
            (4, value) => status.reason = value.text()?.into(),
            (17, value) => status.observed_generation = value.integer()?,
            _ => {}
        }
    }
    Ok(status)
}
