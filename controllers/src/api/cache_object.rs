//! The trait that the types of the informers' caches implement.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::labels::Labels;
use super::object_key::ObjectKey;
use super::protobuf::ProtoError;

/// Decodes a protobuf message.
pub type Decode<V> = fn(&[u8]) -> Result<V, ProtoError>;

/// A slim, deserializable view of one Kubernetes kind that an informer can cache.
///
/// A view holds only the fields that a controller reads. All other fields of a response are skipped while parsing.
pub trait CacheObject: DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static {
    /// The k8s-openapi type whose group, version, plural and scope this view reads.
    type Resource: kube::Resource<DynamicType = ()> + 'static;

    /// Names of the indexes that the cache maintains for this kind. An index by namespace is not needed: the store is
    /// ordered by namespace.
    const INDEXES: &'static [&'static str] = &[];

    /// Decodes the protobuf message of this kind; `None` if the view is only read from JSON.
    const PROTOBUF: Option<Decode<Self>> = None;

    /// Namespace and name.
    fn key(&self) -> ObjectKey;

    /// The same as [`Self::key`], borrowed. Caches are ordered by it.
    fn key_ref(&self) -> (&str, &str);

    /// The labels that label selectors of a lister match; `None` for a kind that is never selected by labels.
    fn labels(&self) -> Option<&Labels> {
        None
    }

    /// `metadata.uid`.
    fn uid(&self) -> &str;

    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;

    /// The value of this object in `index`, one of [`Self::INDEXES`]. `None` leaves the object out of the index.
    fn index_value(&self, index: &str) -> Option<Arc<str>> {
        let _ = index;
        None
    }
}
