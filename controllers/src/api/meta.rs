//! Object metadata as the caches store it, and accessors shared by all views.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::intern::InternedStr;
use super::labels::Labels;
use super::object_key::ObjectKey;
use super::owner::{Owner, owner_of, take_owner};
use super::protobuf::{FieldValue, Fields, ProtoError};
use super::time::CompactTimestamp;

/// The annotation that sets for how many seconds kubelets may cache secrets and config maps.
pub const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Index of pods and `ReplicaSets` by the UID of their controller.
pub const BY_CONTROLLER: &str = "metadata.ownerReferences.controller";

/// Accessors that every view has.
///
/// Absent strings are `""` and an absent generation is 0, as Go's zero values are.
pub trait View {
    /// `metadata.name`
    fn name(&self) -> &str;

    /// `metadata.namespace`, empty for a cluster-scoped object.
    fn namespace(&self) -> &str;

    /// Namespace and name.
    fn key(&self) -> ObjectKey;

    /// `metadata.uid`
    fn uid(&self) -> &str;

    /// `metadata.resourceVersion`
    fn resource_version(&self) -> &str;

    /// `metadata.generation`
    fn generation(&self) -> i64;
}

/// Metadata: identity, times, and the fields that the kind's projection `K` reads. All other fields are skipped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta<K> {
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.namespace`, empty for a cluster-scoped object.
    pub namespace: InternedStr,
    /// `metadata.uid`
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`
    pub resource_version: Box<str>,
    /// `metadata.generation`
    pub generation: i64,
    /// `metadata.creationTimestamp`
    pub created: CompactTimestamp,
    /// `true` if `metadata.deletionTimestamp` is set: deletion was requested.
    pub terminating: bool,
    /// The fields that only this kind reads.
    pub projection: K,
}

/// The fields of the metadata that a kind reads in addition to identity and times.
pub trait MetadataProjection: Default {
    /// Reads the value of `field` from JSON, or skips it.
    fn json<'de, A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error>;

    /// Decodes a protobuf `ObjectMeta`.
    fn protobuf(metadata: Fields<'_>) -> Result<Self, ProtoError>;
}

/// The metadata fields that at least one kind reads.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(field_identifier, rename_all = "camelCase")]
pub enum Field {
    /// `metadata.name`
    Name,
    /// `metadata.namespace`
    Namespace,
    /// `metadata.uid`
    Uid,
    /// `metadata.resourceVersion`
    ResourceVersion,
    /// `metadata.generation`
    Generation,
    /// `metadata.creationTimestamp`
    CreationTimestamp,
    /// `metadata.deletionTimestamp`
    DeletionTimestamp,
    /// `metadata.labels`
    Labels,
    /// `metadata.annotations`
    Annotations,
    /// `metadata.ownerReferences`
    OwnerReferences,
    /// Any other field; it is skipped.
    #[serde(other)]
    Other,
}

/// Reads the next value; `null` becomes the default.
pub(super) fn value<'de, T: Deserialize<'de> + Default, A: MapAccess<'de>>(map: &mut A) -> Result<T, A::Error> {
    map.next_value::<Option<T>>().map(Option::unwrap_or_default)
}

/// Skips the next value.
fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}

impl<'de, K: MetadataProjection> Deserialize<'de> for Meta<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MetaVisitor(PhantomData))
    }
}

struct MetaVisitor<K>(PhantomData<K>);

impl<'de, K: MetadataProjection> Visitor<'de> for MetaVisitor<K> {
    type Value = Meta<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta<K>, A::Error> {
        let mut meta = Meta::<K>::empty();
        while let Some(field) = map.next_key()? {
            match field {
                Field::Name => meta.name = value::<Arc<str>, _>(&mut map)?,
                Field::Namespace => meta.namespace = value(&mut map)?,
                Field::Uid => meta.uid = value::<Arc<str>, _>(&mut map)?,
                Field::ResourceVersion => meta.resource_version = value(&mut map)?,
                Field::Generation => meta.generation = value(&mut map)?,
                Field::CreationTimestamp => meta.created = map.next_value::<Option<Timestamp>>()?.into(),
                Field::DeletionTimestamp => meta.terminating = map.next_value::<Option<Timestamp>>()?.is_some(),
                Field::Other => skip(&mut map)?,
                field => meta.projection.json(field, &mut map)?,
            }
        }
        Ok(meta)
    }
}

impl<K: MetadataProjection> Meta<K> {
    fn empty() -> Self {
        Self {
            name: Arc::default(),
            namespace: InternedStr::default(),
            uid: Arc::default(),
            resource_version: Box::default(),
            generation: 0,
            created: CompactTimestamp::NONE,
            terminating: false,
            projection: K::default(),
        }
    }

    /// Decodes a protobuf `ObjectMeta`.
    pub(super) fn protobuf(message: Fields<'_>) -> Result<Self, ProtoError> {
        let mut meta = Self::empty();
        for field in message {
            match field? {
                (1, value) => meta.name = value.text()?.into(),
                (3, value) => meta.namespace = value.text()?.into(),
                (5, value) => meta.uid = value.text()?.into(),
                (6, value) => meta.resource_version = value.text()?.into(),
                (7, value) => meta.generation = value.integer()?,
                (8, value) => meta.created = value.time()?.into(),
                // A pointer in Go: it is encoded only if set.
                (9, _) => meta.terminating = true,
                _ => {}
            }
        }
        meta.projection = K::protobuf(message)?;
        Ok(meta)
    }
}

/// Labels and controller; used for pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelsAndOwner {
    /// `metadata.labels`
    pub labels: Labels,
    /// The controller of the object.
    pub owner: Option<Arc<Owner>>,
}

impl MetadataProjection for LabelsAndOwner {
    fn json<'de, A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        match field {
            Field::Labels => self.labels = value(map)?,
            Field::OwnerReferences => self.owner = owner_of(value(map)?),
            _ => skip(map)?,
        }
        Ok(())
    }

    fn protobuf(metadata: Fields<'_>) -> Result<Self, ProtoError> {
        let mut labels = BTreeMap::new();
        let mut owner = None;
        for field in metadata {
            match field? {
                (LABELS, value) => {
                    let (key, value) = map_entry(value)?;
                    labels.insert(key.into(), value.into());
                }
                (OWNER_REFERENCES, value) => take_owner(&mut owner, value)?,
                _ => {}
            }
        }
        Ok(Self { labels: Labels::new(labels), owner })
    }
}

/// The controller only; used for workloads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnerOnly {
    /// The controller of the object.
    pub owner: Option<Arc<Owner>>,
}

impl MetadataProjection for OwnerOnly {
    fn json<'de, A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        match field {
            Field::OwnerReferences => self.owner = owner_of(value(map)?),
            _ => skip(map)?,
        }
        Ok(())
    }

    fn protobuf(metadata: Fields<'_>) -> Result<Self, ProtoError> {
        let mut owner = None;
        for field in metadata {
            if let (OWNER_REFERENCES, value) = field? {
                take_owner(&mut owner, value)?;
            }
        }
        Ok(Self { owner })
    }
}

/// The annotation that the ttl controller reads; used for nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TtlAnnotation {
    /// The value of [`TTL_ANNOTATION`], if it is set.
    pub ttl: Option<InternedStr>,
}

impl MetadataProjection for TtlAnnotation {
    fn json<'de, A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error> {
        match field {
            Field::Annotations => self.ttl = map.next_value::<Option<TtlValue>>()?.and_then(|found| found.0),
            _ => skip(map)?,
        }
        Ok(())
    }

    fn protobuf(metadata: Fields<'_>) -> Result<Self, ProtoError> {
        let mut ttl = None;
        for field in metadata {
            if let (ANNOTATIONS, annotation) = field? {
                let (key, value) = map_entry(annotation)?;
                if key == TTL_ANNOTATION {
                    ttl = Some(value.into());
                }
            }
        }
        Ok(Self { ttl })
    }
}

/// The value of one annotation. The others, which may hold whole objects, are skipped.
struct TtlValue(Option<InternedStr>);

impl<'de> Deserialize<'de> for TtlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnnotationsVisitor;

        impl<'de> Visitor<'de> for AnnotationsVisitor {
            type Value = TtlValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TtlValue, A::Error> {
                let mut found = TtlValue(None);
                while let Some(TtlKey(is_ttl)) = map.next_key()? {
                    if is_ttl { found.0 = Some(map.next_value()?) } else { skip(&mut map)? }
                }
                Ok(found)
            }
        }

        deserializer.deserialize_map(AnnotationsVisitor)
    }
}

/// True for [`TTL_ANNOTATION`]. Compares a map key without allocating it.
struct TtlKey(bool);

impl<'de> Deserialize<'de> for TtlKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl Visitor<'_> for KeyVisitor {
            type Value = TtlKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the key of an annotation")
            }

            fn visit_str<E>(self, key: &str) -> Result<TtlKey, E> {
                Ok(TtlKey(key == TTL_ANNOTATION))
            }
        }

        deserializer.deserialize_str(KeyVisitor)
    }
}

/// Field number of `labels` in a protobuf `ObjectMeta`.
const LABELS: u32 = 11;
/// Field number of `annotations` in a protobuf `ObjectMeta`.
const ANNOTATIONS: u32 = 12;
/// Field number of `ownerReferences` in a protobuf `ObjectMeta`.
const OWNER_REFERENCES: u32 = 13;

/// Returns key and value of a protobuf map entry.
fn map_entry(entry: FieldValue<'_>) -> Result<(Cow<'_, str>, Cow<'_, str>), ProtoError> {
    let mut key = Cow::default();
    let mut value = Cow::default();
    for field in entry.message()? {
        match field? {
            (1, text) => key = text.text()?,
            (2, text) => value = text.text()?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// Splits a protobuf object into metadata, spec and status, which each view decodes itself.
pub(super) fn object_parts(object: &[u8]) -> Result<ObjectParts<'_>, ProtoError> {
    let mut parts = ObjectParts::default();
    for field in Fields::new(object) {
        match field? {
            (1, value) => parts.metadata = value.bytes()?,
            (2, value) => parts.spec = value.bytes()?,
            (3, value) => parts.status = value.bytes()?,
            _ => {}
        }
    }
    Ok(parts)
}

/// Encoded metadata, spec and status: fields 1, 2 and 3 of every kind.
#[derive(Default)]
pub(super) struct ObjectParts<'a> {
    metadata: &'a [u8],
    spec: &'a [u8],
    status: &'a [u8],
}

impl<'a> ObjectParts<'a> {
    pub(super) fn metadata<K: MetadataProjection>(&self) -> Result<Meta<K>, ProtoError> {
        Meta::protobuf(Fields::new(self.metadata))
    }

    pub(super) fn spec(&self) -> Fields<'a> {
        Fields::new(self.spec)
    }

    pub(super) fn status(&self) -> Fields<'a> {
        Fields::new(self.status)
    }
}

/// Implements [`View`] for a struct whose metadata is the field `metadata`, and `CacheObject` for kinds that an
/// informer may cache. Indexes are pairs of a name and a function that returns the indexed value; `None` leaves an
/// object out.
macro_rules! view {
    ($view:ty) => {
        impl $crate::api::meta::View for $view {
            fn name(&self) -> &str {
                &self.metadata.name
            }

            fn namespace(&self) -> &str {
                &self.metadata.namespace
            }

            fn key(&self) -> $crate::api::object_key::ObjectKey {
                let namespace = self.metadata.namespace.to_arc();
                let name = std::sync::Arc::clone(&self.metadata.name);
                $crate::api::object_key::ObjectKey { namespace, name }
            }

            fn uid(&self) -> &str {
                &self.metadata.uid
            }

            fn resource_version(&self) -> &str {
                &self.metadata.resource_version
            }

            fn generation(&self) -> i64 {
                self.metadata.generation
            }
        }
    };
    ($view:ty as $kind:ty $(, $index:ident by $value:expr)* $(; $($item:item)*)?) => {
        $crate::api::meta::view!($view);
        $crate::api::meta::cached!($view as $kind $(, $index by $value)* $(; $($item)*)?);
    };
}
pub(crate) use view;

/// Implements `CacheObject` for a [`View`].
macro_rules! cached {
    ($view:ty as $kind:ty $(, $index:ident by $value:expr)* $(; $($item:item)*)?) => {
        impl $crate::api::cache_object::CacheObject for $view {
            type Resource = $kind;

            const INDEXES: &'static [&'static str] = &[$($index),*];

            $($($item)*)?

            fn key(&self) -> $crate::api::object_key::ObjectKey {
                $crate::api::meta::View::key(self)
            }

            fn key_ref(&self) -> (&str, &str) {
                ($crate::api::meta::View::namespace(self), $crate::api::meta::View::name(self))
            }

            fn uid(&self) -> &str {
                $crate::api::meta::View::uid(self)
            }

            fn resource_version(&self) -> &str {
                $crate::api::meta::View::resource_version(self)
            }

            fn index_value(&self, index: &str) -> Option<std::sync::Arc<str>> {
                match index {
                    $($index => {
                        let value: fn(&Self) -> Option<&$crate::api::intern::InternedStr> = $value;
                        value(self).map($crate::api::intern::InternedStr::to_arc)
                    })*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use cached;
