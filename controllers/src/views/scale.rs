//! What the scale subresource answers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::meta::{self, view};

/// `autoscaling/v1.Scale`; the older groups' scales have the same two fields.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct ScaleView {
    /// Identity of the scaled object.
    #[serde(default, deserialize_with = "meta::labels_and_owners")]
    pub metadata: ObjectMeta,
    /// The wanted scale.
    #[serde(default)]
    pub spec: ScaleSpecView,
}

/// `autoscaling/v1.ScaleSpec`
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct ScaleSpecView {
    /// Wanted pods.
    pub replicas: i32,
}

view!(ScaleView);
