//! Stored objects, the change log's entries, and drafts, which are encoded objects on their way into the store.
//! See `staging/src/k8s.io/apiserver/pkg/storage/etcd3/event.go`.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::content::{Content, ContentBuilder};
use crate::go_json::{self, TypeCursor};
use crate::json::{Map, Value};

/// Returns the key of an object within its resource: `namespace/name`, or `name` without a namespace.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The selectable fields of an object with their values.
pub(crate) type SelectableValues = Vec<(Cow<'static, str>, String)>;

/// A stored object.
#[derive(Debug)]
pub struct StoredObject {
    pub(super) key: Arc<str>,
    pub(super) revision: u64,
    uid: Arc<str>,
    labels: Box<[(Arc<str>, Arc<str>)]>,
    pub(super) fields: Box<[(Cow<'static, str>, Arc<str>)]>,
    content: Content,
    /// The offset in `content` of the fields after kind and apiVersion.
    tail: u32,
    /// The offset and length of the owner references in the content's own bytes.
    owners: (u32, u32),
    /// The offset of the status in the content's own bytes, if it is the last field.
    status: Option<NonZeroU32>,
    /// The object has a deletionTimestamp.
    terminating: bool,
    /// The object has finalizers.
    finalizers: bool,
    /// The protobuf message, once a client asked for it.
    protobuf: OnceLock<Bytes>,
    /// The decoded object, once it was read in the record.
    recorded: OnceLock<Box<serde_json::Value>>,
}

const EVENT_END: &[u8] = b"}\n";
/// Number of digits of the largest resourceVersion.
const DIGITS_MAX: usize = 20;

impl StoredObject {
    /// Returns the key, `namespace/name` or `name`.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Returns the namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// Returns the uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the uid as a shared string.
    pub fn shared_uid(&self) -> &Arc<str> {
        &self.uid
    }

    /// Returns `metadata.ownerReferences` as JSON; empty if there are none.
    pub fn owner_references(&self) -> &[u8] {
        self.content.own(self.owners.0, self.owners.1)
    }

    /// If `text` is this object's encoding except for the status, returns the status in `text`.
    pub(crate) fn strip_to_status<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let status = self.content.strip_encoded_prefix(text, self.status?.get(), self.revision)?;
        status.trim_ascii_end().strip_suffix(b"}")
    }

    /// Returns true if the object has a deletionTimestamp.
    pub fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// Returns true if the object has finalizers.
    pub fn has_finalizers(&self) -> bool {
        self.finalizers
    }

    /// Returns the resourceVersion.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the labels in key order.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Returns the value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.binary_search_by(|(key, _)| (**key).cmp(name)).ok().map(|at| &*self.labels[at].1)
    }

    /// Returns the value of a selectable field, or `None` if the resource has no such field.
    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(self.name()),
            "metadata.namespace" => Some(self.namespace()),
            _ => self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| &**value),
        }
    }

    /// Returns the object as JSON.
    pub fn bytes(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.size());
        self.write(&mut bytes);
        bytes.into()
    }

    /// Returns the object as a JSON document that ends with a line feed.
    pub fn document(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.size() + 1);
        self.write(&mut bytes);
        bytes.push(b'\n');
        bytes.into()
    }

    /// Appends the object as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.content.write(out, 0, self.revision);
    }

    /// Appends the object without `{`, kind and apiVersion but with the closing `}`, the form of items in typed
    /// lists.
    pub fn write_tail(&self, out: &mut Vec<u8>) {
        self.content.write(out, self.tail, self.revision);
    }

    /// Returns the decoded object.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap_or(Value::Null)
    }

    /// Returns the decoded object as the record shows it. The first reader decodes it for all.
    pub(crate) fn recorded(&self) -> &serde_json::Value {
        self.recorded.get_or_init(|| Box::new(serde_json::from_slice(&self.bytes()).unwrap_or_default()))
    }

    /// Returns the object as a protobuf message, which the first client that asks for it makes for all.
    pub(crate) fn protobuf(&self, encode: impl FnOnce(&Value) -> Vec<u8>) -> Bytes {
        // It stays as long as the object, so it takes no more memory than it needs.
        self.protobuf.get_or_init(|| encode(&self.value()).into_boxed_slice().into()).clone()
    }

    /// Returns the maximum length of the encoded object in bytes.
    pub fn size(&self) -> usize {
        self.content.len() + DIGITS_MAX
    }

    /// Returns true if the objects differ at most in their resourceVersion.
    pub(super) fn content_eq(&self, other: &Self) -> bool {
        self.content == other.content
    }

    /// Returns the shared string equal to `wanted` among the object's labels and fields.
    fn shared_string(&self, wanted: &str) -> Option<&Arc<str>> {
        let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
        self.fields.iter().map(|(_, value)| value).chain(labels).find(|word| &***word == wanted)
    }

    /// Returns the same object with another resourceVersion.
    pub(super) fn with_revision(&self, revision: u64) -> Self {
        Self {
            key: self.key.clone(),
            revision,
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            content: self.content.clone(),
            tail: self.tail,
            owners: self.owners,
            status: self.status,
            terminating: self.terminating,
            finalizers: self.finalizers,
            protobuf: OnceLock::new(),
            recorded: OnceLock::new(),
        }
    }

    /// Encodes this state as a watch event.
    ///
    /// `revision` is the resourceVersion in the event: a deletion carries the last state with the resourceVersion of
    /// the deletion.
    pub fn event_as(&self, event_type: EventType, revision: u64) -> Bytes {
        let prefix = event_type.prefix();
        let mut event = Vec::with_capacity(prefix.len() + self.size() + EVENT_END.len());
        event.extend_from_slice(prefix);
        self.content.write(&mut event, 0, revision);
        event.extend_from_slice(EVENT_END);
        event.into()
    }
}

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// The object was created or started to match the watch's selector.
    Added,
    /// The object's content changed.
    Modified,
    /// The object was deleted or stopped matching the watch's selector.
    Deleted,
}

impl EventType {
    /// Returns the type's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// Returns the bytes of an event of this type before its object.
    pub fn prefix(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

/// A change of an object.
#[derive(Debug)]
pub(crate) struct LogEntry {
    /// The type of the change.
    pub event_type: EventType,
    /// The new state; for a deletion the last state, with the resourceVersion of the deletion.
    pub current: Arc<StoredObject>,
    /// The previous state; `None` for a creation.
    pub previous: Option<Arc<StoredObject>>,
    event: OnceLock<Bytes>,
}

impl LogEntry {
    /// Creates the entry of a change.
    pub(crate) fn new(event_type: EventType, current: Arc<StoredObject>, previous: Option<Arc<StoredObject>>) -> Self {
        Self { event_type, current, previous, event: OnceLock::new() }
    }

    /// Returns the change as a watch event, newline included. The first watcher encodes it for all.
    pub(crate) fn event(&self) -> &Bytes {
        self.event.get_or_init(|| self.current.event_as(self.event_type, self.current.revision))
    }

    /// Returns the approximate length of the event in bytes, encoded or not.
    pub(super) fn size(&self) -> usize {
        self.event_type.prefix().len() + self.current.size() + EVENT_END.len()
    }
}

/// An object ready to be stored: encoded except for its resourceVersion.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(super) key: String,
    uid: String,
    labels: Vec<(String, String)>,
    fields: SelectableValues,
    encoding: ContentBuilder,
    tail_at: usize,
    owners: (u32, u32),
    status_at: Option<usize>,
    terminating: bool,
    finalizers: bool,
}

impl Draft {
    /// Encodes `object`, which has its name, namespace and uid. `fields` are the values for field selectors.
    pub(crate) fn new(object: &Value, fields: SelectableValues) -> Self {
        let empty = Map::new();
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut labels: Vec<_> = metadata
            .get("labels")
            .and_then(Value::as_object)
            .map(|labels| {
                labels.iter().map(|(k, v)| (k.as_str().to_owned(), v.as_str().unwrap_or_default().to_owned())).collect()
            })
            .unwrap_or_default();
        labels.sort();

        let schema = go_json::schema_for(object);
        let place = schema.as_deref().map(|schema| (schema, schema.root()));
        let mut writer =
            DraftWriter { encoding: ContentBuilder::default(), tail_at: 0, owners: (0, 0), status_at: None };
        writer.object(place, object);
        let DraftWriter { encoding, tail_at, owners, status_at } = writer;
        Self {
            key: key(text("namespace"), text("name")),
            uid: text("uid").to_owned(),
            labels,
            fields,
            encoding,
            tail_at,
            owners,
            status_at,
            terminating: metadata.get("deletionTimestamp").is_some_and(|moment| !moment.is_null()),
            finalizers: metadata.get("finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty()),
        }
    }

    /// Returns the key, `namespace/name` or `name`.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Takes the encoded content out, for [`Draft::assemble`]. Parts are shared with `old` or else come from `find`.
    pub(super) fn share(&mut self, old: Option<&StoredObject>, find: &mut dyn FnMut(&[u8]) -> Arc<[u8]>) -> Content {
        std::mem::take(&mut self.encoding).share(old.map(|old| &old.content), find)
    }

    /// Assembles the object with `content`, without a resourceVersion. Strings are shared with `old` or else come
    /// from `find`.
    pub(super) fn assemble(
        self,
        content: Content,
        old: Option<&StoredObject>,
        find: &mut dyn FnMut(&str) -> Arc<str>,
    ) -> StoredObject {
        let same = |text: String, of: fn(&StoredObject) -> &Arc<str>| {
            old.map(of).filter(|known| ***known == *text).map_or_else(|| text.into(), Arc::clone)
        };
        let mut word =
            |word: String| old.and_then(|old| old.shared_string(&word)).map_or_else(|| find(&word), Arc::clone);
        StoredObject {
            key: same(self.key, |old| &old.key),
            revision: 0,
            uid: same(self.uid, |old| &old.uid),
            labels: self.labels.into_iter().map(|(k, v)| (word(k), word(v))).collect(),
            fields: self.fields.into_iter().map(|(name, value)| (name, word(value))).collect(),
            status: self.status_at.and_then(|at| NonZeroU32::new(content.to_own_offset(at))),
            content,
            tail: self.tail_at as u32,
            owners: self.owners,
            terminating: self.terminating,
            finalizers: self.finalizers,
            protobuf: OnceLock::new(),
            recorded: OnceLock::new(),
        }
    }

    /// Returns the approximate length of the encoded object in bytes.
    pub(crate) fn size(&self) -> usize {
        self.encoding.head.len() + self.encoding.rest.len()
    }
}

/// Encodes an object and records the offsets of its parts.
struct DraftWriter {
    encoding: ContentBuilder,
    tail_at: usize,
    owners: (u32, u32),
    /// The offset of the status, if it is the last field so far and follows the resourceVersion.
    status_at: Option<usize>,
}

impl DraftWriter {
    fn object(&mut self, place: TypeCursor<'_>, object: &Value) {
        let empty = Map::new();
        let map = object.as_object().unwrap_or(&empty);
        self.encoding.rest.push(b'{');
        for member in go_json::fields(place, map) {
            self.status_at = None;
            match (member.name.as_str(), member.value) {
                ("metadata", Value::Object(metadata)) => {
                    self.tail_at = self.encoding.rest.len();
                    self.metadata(member.place, metadata);
                }
                // Parts are shared only after the digits of the resourceVersion.
                (name @ ("spec" | "status"), Value::Object(part)) if !self.encoding.head.is_empty() => {
                    let from = self.encoding.head.len() + self.encoding.shared_member(&member, part);
                    self.status_at = (name == "status").then_some(from);
                }
                _ => _ = self.encoding.member(&member),
            }
        }
        self.encoding.rest.pop();
        self.encoding.rest.push(b'}');
    }

    /// Encodes the metadata. The bytes before the resourceVersion's digits become the head; the digits are left out.
    fn metadata(&mut self, place: TypeCursor<'_>, metadata: &Map) {
        let mut metadata = Cow::Borrowed(metadata);
        if !metadata.contains_key("resourceVersion") {
            metadata.to_mut().insert("resourceVersion", Value::Null);
        }
        let encoding = &mut self.encoding;
        encoding.rest.extend_from_slice(b"\"metadata\":{");
        for member in go_json::fields(place, &metadata) {
            match (member.name.as_str(), member.value) {
                ("resourceVersion", _) => {
                    encoding.rest.extend_from_slice(b"\"resourceVersion\":\"");
                    encoding.head = std::mem::replace(&mut encoding.rest, Vec::with_capacity(4096));
                    encoding.rest.extend_from_slice(b"\",");
                }
                // Parts are shared only after the digits. Custom resources sort members by name, so theirs come
                // before and are not shared.
                ("managedFields", Value::Array(entries)) if !encoding.head.is_empty() => {
                    encoding.managed_fields(&member, entries);
                }
                _ => {
                    let from = encoding.head.len() + encoding.member(&member);
                    if member.name == "ownerReferences" {
                        let end = encoding.head.len() + encoding.rest.len() - 1;
                        self.owners = (from as u32, (end - from) as u32);
                    }
                }
            }
        }
        encoding.rest.pop();
        encoding.rest.extend_from_slice(b"},");
    }
}
