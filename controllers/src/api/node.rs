//! Nodes.

use k8s_openapi::api::core::v1::Node;
use serde::Deserialize;

use super::cache_object::Decode;
use super::condition::types;
use super::intern::{Hasher, Internable, InternedSlice, InternedStr, Interner};
use super::meta::{self, Meta, TtlAnnotation, view};
use super::protobuf::ProtoError;
use super::taint::{self, OUT_OF_SERVICE, Taint};

/// The fields of a node that the four controllers read.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct NodeView {
    /// Identity and the ttl annotation; labels, owners, finalizers and managed fields are dropped.
    pub metadata: Meta<TtlAnnotation>,
    /// The taints.
    #[serde(default)]
    pub spec: NodeSpecView,
    /// The conditions.
    #[serde(default)]
    pub status: NodeStatusView,
}

/// `v1.NodeSpec`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct NodeSpecView {
    /// All taints, of any effect.
    pub taints: InternedSlice<Taint>,
}

/// `v1.NodeStatus`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct NodeStatusView {
    /// Conditions without heartbeat times, so that a heartbeat does not grow the cache.
    pub conditions: InternedSlice<NodeConditionView>,
}

/// `v1.NodeCondition`
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct NodeConditionView {
    /// `True`, `False` or `Unknown`.
    pub status: InternedStr,
    /// The condition's type.
    #[serde(rename = "type")]
    pub kind: InternedStr,
}

impl Internable for NodeConditionView {
    fn interner() -> &'static Interner<[Self]> {
        static INTERNER: Interner<[NodeConditionView]> = Interner::new();
        &INTERNER
    }

    fn digest(&self, hasher: Hasher) -> Hasher {
        hasher.text(&self.kind).text(&self.status)
    }
}

view!(NodeView as Node;
    const PROTOBUF: Option<Decode<Self>> = Some(NodeView::protobuf);
);

impl NodeView {
    /// Returns true if the Ready condition is True. A node without that condition is not ready (G-055).
    pub fn is_ready(&self) -> bool {
        let ready = self.status.conditions.iter().find(|condition| condition.kind == types::READY);
        ready.is_some_and(|ready| ready.status == types::TRUE)
    }

    /// Returns true if the node has the out-of-service taint, with any value and effect (G-051).
    pub fn is_out_of_service(&self) -> bool {
        self.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
    }

    /// Returns the annotation of the ttl controller ([`super::meta::TTL_ANNOTATION`]).
    pub fn ttl_annotation(&self) -> Option<&str> {
        self.metadata.projection.ttl.as_deref()
    }

    /// Decodes a protobuf `v1.Node`.
    ///
    /// # Errors
    /// [`ProtoError`] if the bytes are not such a message.
    pub fn protobuf(node: &[u8]) -> Result<Self, ProtoError> {
        let parts = meta::object_parts(node)?;
        let mut taints = Vec::new();
        let mut conditions = Vec::new();
        for field in parts.spec() {
            if let (5, value) = field? {
                taints.push(taint::taint(value.message()?)?);
            }
        }
        for field in parts.status() {
            if let (4, value) = field? {
                let mut condition = NodeConditionView::default();
                for field in value.message()? {
                    match field? {
                        (1, value) => condition.kind = value.text()?.into(),
                        (2, value) => condition.status = value.text()?.into(),
                        _ => {}
                    }
                }
                conditions.push(condition);
            }
        }
        Ok(Self {
            metadata: parts.metadata()?,
            spec: NodeSpecView { taints: InternedSlice::new(taints) },
            status: NodeStatusView { conditions: InternedSlice::new(conditions) },
        })
    }
}
