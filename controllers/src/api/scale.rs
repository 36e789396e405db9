//! The response of the scale subresource.

use serde::Deserialize;

use super::meta::{Meta, OwnerOnly, view};

/// `autoscaling/v1.Scale`; the scales of the older groups have the same two fields.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct ScaleView {
    /// Identity of the scaled object.
    #[serde(default)]
    pub metadata: Meta<OwnerOnly>,
    /// The desired scale.
    #[serde(default)]
    pub spec: ScaleSpecView,
}

/// `autoscaling/v1.ScaleSpec`
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct ScaleSpecView {
    /// Desired number of pods.
    pub replicas: i32,
}

view!(ScaleView);
