//! Owners of pods whose scale the disruption controller reads from its caches.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::meta::{self, BY_CONTROLLER, View as _, view};

/// The part of a workload's spec that is a scale.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct ReplicasSpec {
    /// Wanted pods. The API server always sets it; absent is read as its default, 1.
    pub replicas: Option<i32>,
}

macro_rules! workloads {
    ($($(#[$doc:meta])* $view:ident of $kind:ident / $name:literal $(, $index:ident by $value:expr)*;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize, PartialEq, kube::Resource)]
        #[resource(inherit = $name)]
        pub struct $view {
            /// Identity, labels and owners.
            #[serde(deserialize_with = "meta::labels_and_owners")]
            pub metadata: ObjectMeta,
            /// The scale.
            #[serde(default)]
            pub spec: ReplicasSpec,
        }

        view!($view as $kind $(, $index by $value)*);

        impl Workload for $view {
            fn replicas(&self) -> i32 {
                self.spec.replicas.unwrap_or(1)
            }
        }
    )+};
}

/// A workload with a scale.
pub trait Workload: super::View {
    /// `spec.replicas`
    fn replicas(&self) -> i32;
}

workloads! {
    /// A `v1` `ReplicationController`.
    ReplicationControllerView of ReplicationController / "ReplicationController";
    /// An `apps/v1` `ReplicaSet`.
    ReplicaSetView of ReplicaSet / "ReplicaSet", BY_CONTROLLER by |set| set.controller_uid();
    /// An `apps/v1` `Deployment`.
    DeploymentView of Deployment / "Deployment";
    /// An `apps/v1` `StatefulSet`.
    StatefulSetView of StatefulSet / "StatefulSet";
}
