//! Metadata as the caches keep it, and the accessors shared by all views.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};

use crate::runtime::cache::ObjectKey;

/// Index of pods and `ReplicaSets` by the UID of the owner that manages them.
pub const BY_CONTROLLER: &str = "metadata.ownerReferences.controller";

/// What every view can be asked.
///
/// Absent text is `""` and an absent generation is 0, as Go's zero values are.
pub trait View {
    /// The (slimmed) metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// `metadata.name`
    fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// `metadata.namespace`, empty for a cluster-scoped object.
    fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// Namespace and name.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    /// `metadata.uid`
    fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// `metadata.resourceVersion`
    fn resource_version(&self) -> &str {
        self.metadata().resource_version.as_deref().unwrap_or_default()
    }

    /// `metadata.generation`
    fn generation(&self) -> i64 {
        self.metadata().generation.unwrap_or_default()
    }

    /// `metadata.labels`; empty when the view's kind drops them.
    fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.metadata().labels.as_ref().unwrap_or(&NONE)
    }

    /// Whether deletion has been asked for.
    fn is_terminating(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// `metadata.creationTimestamp`
    fn created(&self) -> Option<Timestamp> {
        self.metadata().creation_timestamp.as_ref().map(|time| time.0)
    }

    /// The owner that manages this object: the first reference with `controller: true`.
    fn controller_ref(&self) -> Option<&OwnerReference> {
        self.metadata().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }

    /// The UID of that owner.
    fn controller_uid(&self) -> Option<&str> {
        self.controller_ref().map(|owner| owner.uid.as_str())
    }
}

/// Implements [`View`] and, for kinds an informer may hold, `CacheObject`, for structs whose metadata is
/// the field `metadata`. Indexes are pairs of a name and the field they go by; `None` leaves an object out.
macro_rules! view {
    ($view:ty) => {
        impl $crate::views::View for $view {
            fn metadata(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
        }
    };
    ($view:ty as $kind:ty $(, $index:ident by $value:expr)* $(,)?) => {
        $crate::views::meta::view!($view);

        impl $crate::runtime::cache::CacheObject for $view {
            type Resource = $kind;

            const INDEXES: &'static [&'static str] = &[$($index),*];

            fn key(&self) -> $crate::runtime::cache::ObjectKey {
                $crate::views::View::key(self)
            }

            fn uid(&self) -> &str {
                $crate::views::View::uid(self)
            }

            fn resource_version(&self) -> &str {
                $crate::views::View::resource_version(self)
            }

            fn index_value(&self, index: &str) -> Option<std::sync::Arc<str>> {
                match index {
                    $($index => {
                        let value: fn(&Self) -> Option<&str> = $value;
                        value(self).map(Into::into)
                    })*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use view;

/// Defines a deserializer that parses the identity of an object and the fields named, and skips the
/// rest of its metadata unread.
///
/// One flat struct each: serde's `flatten` would first buffer what is to be skipped, managed fields
/// above all.
macro_rules! slim {
    ($(#[$doc:meta])* $deserializer:ident keeps $($field:ident: $type:ty),+) => {
        $(#[$doc])*
        pub(super) fn $deserializer<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
            #[derive(Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Kept {
                name: Option<String>,
                namespace: Option<String>,
                uid: Option<String>,
                resource_version: Option<String>,
                generation: Option<i64>,
                creation_timestamp: Option<Time>,
                deletion_timestamp: Option<Time>,
                $($field: Option<$type>,)+
            }
            let kept = Kept::deserialize(from)?;
            Ok(ObjectMeta {
                name: kept.name,
                namespace: kept.namespace,
                uid: kept.uid,
                resource_version: kept.resource_version,
                generation: kept.generation,
                creation_timestamp: kept.creation_timestamp,
                deletion_timestamp: kept.deletion_timestamp,
                $($field: kept.$field,)+
                ..ObjectMeta::default()
            })
        }
    };
}

slim! {
    /// Keeps identity, labels and owners: for pods and workloads.
    labels_and_owners keeps labels: BTreeMap<String, String>, owner_references: Vec<OwnerReference>
}

slim! {
    /// Keeps identity and annotations: for nodes.
    annotations keeps annotations: BTreeMap<String, String>
}

/// Keeps all but `managedFields`: for objects that are written back whole. A write without
/// `managedFields` leaves the stored ones alone.
pub(super) fn writable<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = ObjectMeta::deserialize(from)?;
    metadata.managed_fields = None;
    Ok(metadata)
}
