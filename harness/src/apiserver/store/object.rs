//! Objects at rest and the change events they are slices of.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

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
    /// The whole watch event, newline included.
    event: Bytes,
    /// Where the object begins in `event`.
    object: u32,
    /// Where the object's fields after kind and apiVersion begin in `event`.
    tail: u32,
    /// Where the digits of the resourceVersion begin in `event`.
    digits: u32,
    /// Where the owner references are, counted from behind those digits, and how long they are.
    owners: (u32, u32),
    /// It has a deletionTimestamp.
    terminating: bool,
    /// It has finalizers.
    finalizers: bool,
}

const EVENT_END: &[u8] = b"}\n";

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
        let from = self.owners.0 as usize;
        &self.around_digits().1[from..from + self.owners.1 as usize]
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

    /// The object as JSON, shared, not copied.
    pub fn bytes(&self) -> Bytes {
        self.event.slice(self.object as usize..self.event.len() - EVENT_END.len())
    }

    /// The object's fields without `{`, kind and apiVersion, but with the closing `}`: what items of typed lists show.
    pub fn tail(&self) -> Bytes {
        self.event.slice(self.tail as usize..self.event.len() - EVENT_END.len())
    }

    /// The watch event of the change that brought this state, newline included.
    pub fn event(&self) -> Bytes {
        self.event.clone()
    }

    /// The object, decoded.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.event[self.object as usize..self.event.len() - EVENT_END.len()])
            .unwrap_or(Value::Null)
    }

    /// Bytes held by this object (the shared buffer included).
    pub fn size(&self) -> usize {
        self.event.len()
    }

    pub(super) fn around_digits(&self) -> (&[u8], &[u8]) {
        let (start, end) = (self.digits as usize, self.event.len() - EVENT_END.len());
        let length = self.event[start..end].iter().take_while(|b| b.is_ascii_digit()).count();
        (&self.event[self.object as usize..start], &self.event[start + length..end])
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
}

/// An object made ready to be stored: encoded but for its resourceVersion.
#[derive(Debug)]
pub struct Draft {
    pub(super) key: String,
    uid: String,
    labels: Vec<(String, String)>,
    fields: Fields,
    head: Vec<u8>,
    tail_at: usize,
    rest: Vec<u8>,
    owners: (u32, u32),
    terminating: bool,
    finalizers: bool,
}

/// Order in which upstream prints `metadata`; the rest follows by name.
const METADATA_ORDER: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

impl Draft {
    /// Encodes `object`, whose name, namespace and uid are set. `fields` are what field selectors see.
    pub fn new(object: &Value, fields: Fields) -> Self {
        let empty = serde_json::Map::new();
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut labels: Vec<_> = metadata
            .get("labels")
            .and_then(Value::as_object)
            .map(|labels| labels.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect())
            .unwrap_or_default();
        labels.sort();

        let mut head = Vec::with_capacity(1024);
        head.push(b'{');
        for name in ["kind", "apiVersion"] {
            if let Some(value) = object.get(name) {
                put_member(&mut head, name, value);
            }
        }
        let tail_at = head.len();
        head.extend_from_slice(b"\"metadata\":{");
        for name in &METADATA_ORDER[..4] {
            if let Some(value) = metadata.get(*name) {
                put_member(&mut head, name, value);
            }
        }
        head.extend_from_slice(b"\"resourceVersion\":\"");

        let mut rest = Vec::with_capacity(2048);
        rest.extend_from_slice(b"\",");
        let mut owners = (0, 0);
        for name in &METADATA_ORDER[5..] {
            if let Some(value) = metadata.get(*name) {
                let from = rest.len() + name.len() + "\"\":".len();
                put_member(&mut rest, name, value);
                if *name == "ownerReferences" {
                    owners = (from as u32, rest.len().saturating_sub(from + 1) as u32);
                }
            }
        }
        for (name, value) in metadata {
            if !METADATA_ORDER.contains(&name.as_str()) {
                put_member(&mut rest, name, value);
            }
        }
        rest.pop();
        rest.extend_from_slice(b"},");
        if let Some(object) = object.as_object() {
            for (name, value) in object {
                if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
                    put_member(&mut rest, name, value);
                }
            }
        }
        rest.pop();
        rest.push(b'}');
        Self {
            key: key(text("namespace"), text("name")),
            uid: text("uid").to_owned(),
            labels,
            fields,
            head,
            tail_at,
            rest,
            owners,
            terminating: metadata.get("deletionTimestamp").is_some_and(|moment| !moment.is_null()),
            finalizers: metadata.get("finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty()),
        }
    }

    /// `namespace/name` or `name`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether this is what an object is already, told by its bytes before and after the resourceVersion.
    pub(super) fn is(&self, before: &[u8], after: &[u8]) -> bool {
        self.head == before && self.rest == after
    }

    /// The object under `revision`, as an event of `event_type`. `intern` gives one `Arc` per word.
    pub(super) fn assemble(
        self,
        event_type: EventType,
        revision: u64,
        intern: &mut dyn FnMut(String) -> Arc<str>,
    ) -> Stored {
        let prefix = event_type.prefix();
        let digits = revision.to_string();
        let size = prefix.len() + self.head.len() + digits.len() + self.rest.len() + EVENT_END.len();
        let mut event = Vec::with_capacity(size);
        for part in [prefix, &self.head, digits.as_bytes(), &self.rest, EVENT_END] {
            event.extend_from_slice(part);
        }
        Stored {
            key: self.key.into(),
            revision,
            uid: self.uid.into(),
            labels: self.labels.into_iter().map(|(k, v)| (intern(k), intern(v))).collect(),
            fields: self.fields.into_iter().map(|(name, value)| (name, intern(value))).collect(),
            object: prefix.len() as u32,
            tail: (prefix.len() + self.tail_at) as u32,
            digits: (prefix.len() + self.head.len()) as u32,
            owners: self.owners,
            terminating: self.terminating,
            finalizers: self.finalizers,
            event: event.into(),
        }
    }

    /// Bytes of the encoded object, about.
    pub fn size(&self) -> usize {
        self.head.len() + self.rest.len()
    }
}

fn put_member(out: &mut Vec<u8>, name: &str, value: &Value) {
    // Encoding strings and values into a Vec cannot fail; an error would only leave the member out.
    if serde_json::to_writer(&mut *out, name).is_ok() {
        out.push(b':');
        let _ = serde_json::to_writer(&mut *out, value);
        out.push(b',');
    }
}

impl Stored {
    /// The same object as an event of another type under another resourceVersion.
    pub(super) fn renumbered(&self, event_type: EventType, revision: u64) -> Self {
        let prefix = event_type.prefix();
        let (before, after) = self.around_digits();
        let number = revision.to_string();
        let mut event = Vec::with_capacity(prefix.len() + before.len() + number.len() + after.len() + EVENT_END.len());
        event.extend_from_slice(prefix);
        event.extend_from_slice(before);
        event.extend_from_slice(number.as_bytes());
        event.extend_from_slice(after);
        event.extend_from_slice(EVENT_END);
        Self {
            key: self.key.clone(),
            revision,
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            object: prefix.len() as u32,
            tail: self.tail - self.object + prefix.len() as u32,
            digits: (prefix.len() + before.len()) as u32,
            owners: self.owners,
            terminating: self.terminating,
            finalizers: self.finalizers,
            event: event.into(),
        }
    }

    /// This state as an event of another type: for objects that come into or go out of a watch's selection.
    ///
    /// `revision` is the resourceVersion the event carries (a deletion shows the old state under the new number).
    pub fn event_as(&self, event_type: EventType, revision: u64) -> Bytes {
        if self.event.starts_with(event_type.prefix()) && revision == self.revision {
            return self.event.clone();
        }
        self.renumbered(event_type, revision).event
    }
}
