//! The trait of the views that an informer can cache.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::labels::Labels;
use super::object_key::ObjectKey;
use super::protobuf::ProtoError;

/// Parses a protobuf message.
pub type Decode<V> = fn(&[u8]) -> Result<V, ProtoError>;

/// What an informer can hold: a slim, deserializable view of one Kubernetes kind.
///
/// The view keeps only the fields somebody reads; everything else in the server's answer is skipped while parsing.
pub trait CacheObject: DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static {
    /// The k8s-openapi type whose group, version, plural and scope this view reads.
    type Resource: kube::Resource<DynamicType = ()> + 'static;

    /// Names of the indexes kept for this kind. `by_namespace` needs none: the store is ordered by namespace.
    const INDEXES: &'static [&'static str] = &[];

    /// Parses the protobuf message of this kind; `None` for a view that is only read from JSON.
    const PROTOBUF: Option<Decode<Self>> = None;

    /// Namespace and name.
    fn key(&self) -> ObjectKey;

    /// The same as [`Self::key`], borrowed: the order of the cache.
    fn key_ref(&self) -> (&str, &str);

    /// The labels by which [`Lister::select`] finds it; `None` for a kind that is never selected.
    fn labels(&self) -> Option<&Labels> {
        None
    }

    /// `metadata.uid`.
    fn uid(&self) -> &str;

    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;

    /// The value under which `index` (one of [`Self::INDEXES`]) finds this object, `None` to leave it out.
    fn index_value(&self, index: &str) -> Option<Arc<str>> {
        let _ = index;
        None
    }
}
