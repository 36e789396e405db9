//! Objects at rest and the change events they are slices of.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::common::Common;
use super::content::{Content, Encoding};
use crate::encoding::{self, Place};
use crate::json::{Map, Value};

/// The key of an object within its resource: `namespace/name`, or `name` where there is no namespace.
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Named values of an object that field selectors look at.
pub type Fields = Vec<(Cow<'static, str>, String)>;

/// An object at rest.
#[derive(Debug)]
pub struct Stored {
    pub(super) key: Arc<str>,
    pub(super) revision: u64,
    uid: Arc<str>,
    labels: Box<[(Arc<str>, Arc<str>)]>,
    pub(super) fields: Box<[(Cow<'static, str>, Arc<str>)]>,
    content: Content,
    /// Where the object's fields after kind and apiVersion begin in `content`.
    tail: u32,
    /// Where the owner references are in the content's own bytes, and how long they are.
    owners: (u32, u32),
    /// Where the status begins in the content's own bytes, if that is the last field.
    status: Option<NonZeroU32>,
    /// It has a deletionTimestamp.
    terminating: bool,
    /// It has finalizers.
    finalizers: bool,
}

const EVENT_END: &[u8] = b"}\n";
/// Digits of the largest resourceVersion.
const DIGITS_MAX: usize = 20;

impl Stored {
    /// `namespace/name` or `name`.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Object's namespace; empty for cluster-scoped ones.
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// Object's name.
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// Object's uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Object's uid, shared with the object.
    pub fn shared_uid(&self) -> &Arc<str> {
        &self.uid
    }

    /// `metadata.ownerReferences` as JSON; empty where there are none.
    pub fn owner_references(&self) -> &[u8] {
        self.content.own(self.owners.0, self.owners.1)
    }

    /// The status in `text`, if that is this object as it is sent, but with another status.
    pub(crate) fn status_in<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let status = self.content.behind(text, self.status?.get(), self.revision)?;
        status.trim_ascii_end().strip_suffix(b"}")
    }

    /// Whether the object is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// Whether the object has finalizers.
    pub fn has_finalizers(&self) -> bool {
        self.finalizers
    }

    /// resourceVersion.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Labels in order of their keys.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.binary_search_by(|(key, _)| (**key).cmp(name)).ok().map(|at| &*self.labels[at].1)
    }

    /// The value of a selectable field: `None` where the kind has no such field.
    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(self.name()),
            "metadata.namespace" => Some(self.namespace()),
            _ => self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| &**value),
        }
    }

    /// The object as JSON.
    pub fn bytes(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.size());
        self.write(&mut bytes);
        bytes.into()
    }

    /// The object as a JSON document: with a line feed at its end.
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

    /// Appends the object's fields without `{`, kind and apiVersion, but with the closing `}`: what items of typed lists show.
    pub fn write_tail(&self, out: &mut Vec<u8>) {
        self.content.write(out, self.tail, self.revision);
    }

    /// The object, decoded.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap_or(Value::Null)
    }

    /// Bytes of the encoded object, at most.
    pub fn size(&self) -> usize {
        self.content.len() + DIGITS_MAX
    }

    /// Whether the objects are the same but for their resourceVersion.
    pub(super) fn has_content_of(&self, other: &Self) -> bool {
        self.content == other.content
    }

    /// A word of the object's labels and fields.
    fn word(&self, wanted: &str) -> Option<&Arc<str>> {
        let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
        self.fields.iter().map(|(_, value)| value).chain(labels).find(|word| &***word == wanted)
    }

    /// The same object under another resourceVersion.
    pub(super) fn renumbered(&self, revision: u64) -> Self {
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
        }
    }

    /// This state as a watch event.
    ///
    /// `revision` is the resourceVersion the event carries (a deletion shows the old state under the new number).
    pub fn event_as(&self, event_type: EventType, revision: u64) -> Bytes {
        let prefix = event_type.prefix();
        let mut event = Vec::with_capacity(prefix.len() + self.size() + EVENT_END.len());
        event.extend_from_slice(prefix);
        self.content.write(&mut event, 0, revision);
        event.extend_from_slice(EVENT_END);
        event.into()
    }
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// It is new, or new to the watcher.
    Added,
    /// It has another content.
    Modified,
    /// It is gone, or gone from the watcher's sight.
    Deleted,
}

impl EventType {
    /// The text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// The beginning of an event of this type, up to its object.
    pub fn prefix(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

/// One change of one object.
#[derive(Debug)]
pub struct LogEntry {
    /// What became of it.
    pub event_type: EventType,
    /// The state it brought; for a deletion the last state, under the resourceVersion of the deletion.
    pub current: Arc<Stored>,
    /// The state before; `None` where there was none.
    pub previous: Option<Arc<Stored>>,
    event: OnceLock<Bytes>,
}

impl LogEntry {
    /// The entry of a change.
    pub fn new(event_type: EventType, current: Arc<Stored>, previous: Option<Arc<Stored>>) -> Self {
        Self { event_type, current, previous, event: OnceLock::new() }
    }

    /// The change as a watch event, newline included: encoded once for all watchers, by the first of them.
    pub fn event(&self) -> &Bytes {
        self.event.get_or_init(|| self.current.event_as(self.event_type, self.current.revision))
    }

    /// Bytes of the event, about, whether it has been encoded or not.
    pub(super) fn size(&self) -> usize {
        self.event_type.prefix().len() + self.current.size() + EVENT_END.len()
    }
}

/// An object made ready to be stored: encoded but for its resourceVersion.
#[derive(Debug)]
pub struct Draft {
    pub(super) key: String,
    uid: String,
    labels: Vec<(String, String)>,
    fields: Fields,
    encoding: Encoding,
    tail_at: usize,
    owners: (u32, u32),
    status_at: Option<usize>,
    terminating: bool,
    finalizers: bool,
}

impl Draft {
    /// Encodes `object`, whose name, namespace and uid are set. `fields` are what field selectors see.
    pub fn new(object: &Value, fields: Fields) -> Self {
        let empty = Map::new();
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut labels: Vec<_> = metadata
            .get("labels")
            .and_then(Value::as_object)
            .map(|labels| {
                labels.iter().map(|(k, v)| (k.to_string(), v.as_str().unwrap_or_default().to_owned())).collect()
            })
            .unwrap_or_default();
        labels.sort();

        let schema = encoding::schema_for(object);
        let place = schema.as_deref().map(|schema| (schema, schema.root()));
        let mut writer = Writer { encoding: Encoding::default(), tail_at: 0, owners: (0, 0), status_at: None };
        writer.object(place, object);
        let Writer { encoding, tail_at, owners, status_at } = writer;
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

    /// `namespace/name` or `name`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Takes the encoded content out: for [`Draft::assemble`].
    pub(super) fn share(&mut self, known: &mut Common<[u8]>) -> Content {
        std::mem::take(&mut self.encoding).share(known)
    }

    /// The object with `content`, without a resourceVersion. Words are those of `old`, others come from `find`.
    pub(super) fn assemble(
        self,
        content: Content,
        old: Option<&Stored>,
        find: &mut dyn FnMut(&str) -> Arc<str>,
    ) -> Stored {
        let same = |text: String, of: fn(&Stored) -> &Arc<str>| {
            old.map(of).filter(|known| ***known == *text).map_or_else(|| text.into(), Arc::clone)
        };
        let mut word = |word: String| old.and_then(|old| old.word(&word)).map_or_else(|| find(&word), Arc::clone);
        Stored {
            key: same(self.key, |old| &old.key),
            revision: 0,
            uid: same(self.uid, |old| &old.uid),
            labels: self.labels.into_iter().map(|(k, v)| (word(k), word(v))).collect(),
            fields: self.fields.into_iter().map(|(name, value)| (name, word(value))).collect(),
            status: self.status_at.and_then(|at| NonZeroU32::new(content.own_place(at))),
            content,
            tail: self.tail_at as u32,
            owners: self.owners,
            terminating: self.terminating,
            finalizers: self.finalizers,
        }
    }

    /// Bytes of the encoded object, about.
    pub fn size(&self) -> usize {
        self.encoding.head.len() + self.encoding.rest.len()
    }
}

/// Encodes an object and notes where its parts are.
struct Writer {
    encoding: Encoding,
    tail_at: usize,
    owners: (u32, u32),
    /// Where the status begins, if that is the last field so far and all before it is written.
    status_at: Option<usize>,
}

impl Writer {
    fn object(&mut self, place: Place<'_>, object: &Value) {
        let empty = Map::new();
        let map = object.as_object().unwrap_or(&empty);
        self.encoding.rest.push(b'{');
        for member in encoding::fields(place, map) {
            self.status_at = None;
            match (member.name.as_str(), member.value) {
                ("metadata", Value::Object(metadata)) => {
                    self.tail_at = self.encoding.rest.len();
                    self.metadata(member.place, metadata);
                }
                ("spec", Value::Object(spec)) => self.encoding.shared_member(&member, spec),
                _ => {
                    let from = self.encoding.head.len() + self.encoding.member(&member);
                    self.status_at = (member.name == "status" && !self.encoding.head.is_empty()).then_some(from);
                }
            }
        }
        self.encoding.rest.pop();
        self.encoding.rest.push(b'}');
    }

    /// Encodes the metadata; the resourceVersion's digits are left out, and what stands before them is the head.
    fn metadata(&mut self, place: Place<'_>, metadata: &Map) {
        let mut metadata = Cow::Borrowed(metadata);
        if !metadata.contains_key("resourceVersion") {
            metadata.to_mut().insert("resourceVersion", Value::Null);
        }
        let encoding = &mut self.encoding;
        encoding.rest.extend_from_slice(b"\"metadata\":{");
        for member in encoding::fields(place, &metadata) {
            match (member.name.as_str(), member.value) {
                ("resourceVersion", _) => {
                    encoding.rest.extend_from_slice(b"\"resourceVersion\":\"");
                    encoding.head = std::mem::replace(&mut encoding.rest, Vec::with_capacity(4096));
                    encoding.rest.extend_from_slice(b"\",");
                }
                // Parts are shared behind the digits only: those of a custom resource, in order of their names, are not.
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
