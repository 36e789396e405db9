//! Nodes.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::condition::types;
use super::meta::{self, view};
use super::taint::{OUT_OF_SERVICE, Taint};

/// A node, as far as the four controllers read it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, kube::Resource)]
#[resource(inherit = "Node")]
pub struct NodeView {
    /// Identity and annotations; labels, owners, finalizers and managed fields are dropped.
    #[serde(deserialize_with = "meta::annotations")]
    pub metadata: ObjectMeta,
    /// What keeps pods away.
    #[serde(default)]
    pub spec: NodeSpecView,
    /// How it is.
    #[serde(default)]
    pub status: NodeStatusView,
}

/// `v1.NodeSpec`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct NodeSpecView {
    /// All taints, whatever their effect.
    pub taints: Vec<Taint>,
}

/// `v1.NodeStatus`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct NodeStatusView {
    /// Heartbeats are dropped, so that a heartbeat does not grow the cache.
    pub conditions: Vec<NodeConditionView>,
}

/// `v1.NodeCondition`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct NodeConditionView {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Which condition.
    #[serde(rename = "type")]
    pub kind: String,
}

view!(NodeView as Node);

impl NodeView {
    /// Whether the Ready condition is True. A node without one is not ready (G-055).
    pub fn is_ready(&self) -> bool {
        let ready = self.status.conditions.iter().find(|condition| condition.kind == types::READY);
        ready.is_some_and(|ready| ready.status == types::TRUE)
    }

    /// Whether the out-of-service taint is there, with any value and effect (G-051).
    pub fn is_out_of_service(&self) -> bool {
        self.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
    }

    /// One annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}
