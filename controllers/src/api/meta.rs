//! Metadata as the caches keep it, and the accessors shared by all views.

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

/// The annotation that tells kubelets how long to cache secrets and config maps, in seconds.
pub const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Index of pods and `ReplicaSets` by the UID of the owner that manages them.
pub const BY_CONTROLLER: &str = "metadata.ownerReferences.controller";

/// What every view can be asked.
///
/// Absent text is `""` and an absent generation is 0, as Go's zero values are.
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

/// Metadata: identity, times, and what else a kind keeps of it. The rest is skipped unread.
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
    /// Whether there is a `metadata.deletionTimestamp`: deletion has been asked for.
    pub terminating: bool,
    /// What the kind keeps besides.
    pub projection: K,
}

/// What a kind keeps of the metadata besides identity and times.
pub trait MetadataProjection: Default {
    /// Takes in the value of `field` from JSON, or skips it.
    fn json<'de, A: MapAccess<'de>>(&mut self, field: Field, map: &mut A) -> Result<(), A::Error>;

    /// From a protobuf `ObjectMeta`.
    fn protobuf(metadata: Fields<'_>) -> Result<Self, ProtoError>;
}

/// The fields of the metadata that any kind reads.
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
    /// Any other: nobody reads it.
    #[serde(other)]
    Other,
}

/// The next value; `null` is the default.
pub(super) fn value<'de, T: Deserialize<'de> + Default, A: MapAccess<'de>>(map: &mut A) -> Result<T, A::Error> {
    map.next_value::<Option<T>>().map(Option::unwrap_or_default)
}

/// Steps over the next value.
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

    /// From a protobuf `ObjectMeta`.
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
                // A pointer in Go: it is sent when it is set.
                (9, _) => meta.terminating = true,
                _ => {}
            }
        }
        meta.projection = K::protobuf(message)?;
        Ok(meta)
    }
}

/// Labels and owner: for pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelsAndOwner {
    /// `metadata.labels`
    pub labels: Labels,
    /// The owner that manages it.
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
        let (mut labels, mut owner) = (BTreeMap::new(), None);
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

/// The owner alone: for workloads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnerOnly {
    /// The owner that manages it.
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

/// The annotation that the ttl controller reads: for nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TtlAnnotation {
    /// The value of [`TTL_ANNOTATION`], if it is there.
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

/// One annotation of many, the others skipped unread: some hold whole objects.
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

/// Whether a key is [`TTL_ANNOTATION`], found out without keeping the key.
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

/// The number of `labels` in a protobuf `ObjectMeta`.
const LABELS: u32 = 11;
/// The number of `annotations` in a protobuf `ObjectMeta`.
const ANNOTATIONS: u32 = 12;
/// The number of `ownerReferences` in a protobuf `ObjectMeta`.
const OWNER_REFERENCES: u32 = 13;

/// Key and value of a protobuf map's entry.
fn map_entry(entry: FieldValue<'_>) -> Result<(Cow<'_, str>, Cow<'_, str>), ProtoError> {
    let (mut key, mut value) = (Cow::default(), Cow::default());
    for field in entry.message()? {
        match field? {
            (1, text) => key = text.text()?,
            (2, text) => value = text.text()?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// A view as it comes in protobuf: metadata is field 1 of every kind, the rest is told by the view.
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

/// Metadata, spec and status, which have these numbers in every kind.
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

/// Implements [`View`] and, for kinds an informer may hold, `CacheObject`, for structs whose metadata is
/// the field `metadata`. Indexes are pairs of a name and the field they go by; `None` leaves an object out.
macro_rules! view {
    ($view:ty) => {
        impl $crate::api::View for $view {
            fn name(&self) -> &str {
                &self.metadata.name
            }

            fn namespace(&self) -> &str {
                &self.metadata.namespace
            }

            fn key(&self) -> $crate::api::object_key::ObjectKey {
                let (namespace, name) = (self.metadata.namespace.to_arc(), std::sync::Arc::clone(&self.metadata.name));
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
                $crate::api::View::key(self)
            }

            fn key_ref(&self) -> (&str, &str) {
                ($crate::api::View::namespace(self), $crate::api::View::name(self))
            }

            fn uid(&self) -> &str {
                $crate::api::View::uid(self)
            }

            fn resource_version(&self) -> &str {
                $crate::api::View::resource_version(self)
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
