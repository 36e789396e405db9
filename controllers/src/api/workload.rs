//! Workloads whose scale the disruption controller reads from its caches.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use serde::Deserialize;

use super::cache_object::Decode;
use super::meta::{self, BY_CONTROLLER, Meta, OwnerOnly, view};
use super::owner::Owner;
use super::protobuf::ProtoError;

/// The field of a workload's spec that sets its scale.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct ReplicasSpec {
    /// Desired number of pods. The API server always sets it; if absent, the API default 1 applies.
    pub replicas: Option<i32>,
}

macro_rules! workloads {
    ($($(#[$doc:meta])* $view:ident of $kind:ident $(, $index:ident by $value:expr)*;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize, PartialEq)]
        pub struct $view {
            /// Identity and controller.
            pub metadata: Meta<OwnerOnly>,
            /// The desired scale.
            #[serde(default)]
            pub spec: ReplicasSpec,
        }

        view!($view as $kind $(, $index by $value)*;
            const PROTOBUF: Option<Decode<Self>> = Some($view::protobuf);
        );

        impl $view {
            /// Decodes the protobuf message of this kind.
            ///
            /// # Errors
            /// [`ProtoError`] if the bytes are not such a message.
            pub fn protobuf(workload: &[u8]) -> Result<Self, ProtoError> {
                let parts = meta::object_parts(workload)?;
                // A pointer in Go, field 1 of every spec that has it: encoded only if set.
                let mut replicas = None;
                for field in parts.spec() {
                    if let (1, value) = field? {
                        replicas = Some(value.integer32()?);
                    }
                }
                Ok(Self { metadata: parts.metadata()?, spec: ReplicasSpec { replicas } })
            }
        }

        impl Workload for $view {
            fn replicas(&self) -> i32 {
                self.spec.replicas.unwrap_or(1)
            }

            fn controller_ref(&self) -> Option<&Owner> {
                self.metadata.projection.owner.as_deref()
            }
        }
    )+};
}

/// A workload with a scale.
pub trait Workload: super::View {
    /// `spec.replicas`
    fn replicas(&self) -> i32;

    /// Returns the controller of the workload.
    fn controller_ref(&self) -> Option<&Owner>;
}

workloads! {
    /// A `v1` `ReplicationController`.
    ReplicationControllerView of ReplicationController;
    /// An `apps/v1` `ReplicaSet`.
    ReplicaSetView of ReplicaSet, BY_CONTROLLER by |set| set.controller_ref().map(|owner| &owner.uid);
    /// An `apps/v1` `Deployment`.
    DeploymentView of Deployment;
    /// An `apps/v1` `StatefulSet`.
    StatefulSetView of StatefulSet;
}
