//! JSON documents that are decoded when they are read for the first time: most of a record is never read.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::protobuf;
use crate::store::StoredObject;

/// A JSON document of the record. It reads as the value that it holds; clones share it.
#[derive(Clone)]
pub struct RecordedJson(Source);

#[derive(Clone)]
enum Source {
    /// A document as it was sent.
    Sent(Arc<SentDocument>),
    /// A version of an object. The store, and the changes that begin and end with it, share its decoded form.
    Stored(Arc<StoredObject>),
}

struct SentDocument {
    /// Empty for a document that was decoded from the beginning.
    bytes: Bytes,
    encoding: Encoding,
    value: OnceLock<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl RecordedJson {
    /// Records a document in an encoding. One that cannot be decoded reads as null.
    pub(crate) fn sent(bytes: Bytes, encoding: Encoding) -> Self {
        Self(Source::Sent(Arc::new(SentDocument { bytes, encoding, value: OnceLock::new() })))
    }

    /// Returns `metadata.uid`; the record of a stored object is not decoded for it.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        match &self.0 {
            Source::Stored(stored) => Some(stored.uid()).filter(|uid| !uid.is_empty()),
            Source::Sent(_) => self.pointer("/metadata/uid").and_then(Value::as_str),
        }
    }

    /// Returns the approximate number of bytes that the record holds for it, decoded or not.
    pub(super) fn size(&self) -> usize {
        match &self.0 {
            Source::Sent(sent) if sent.bytes.is_empty() => sent.value.get().map_or(0, size),
            Source::Sent(sent) => sent.bytes.len(),
            Source::Stored(stored) => stored.size(),
        }
    }
}

impl From<Value> for RecordedJson {
    fn from(value: Value) -> Self {
        Self(Source::Sent(Arc::new(SentDocument {
            bytes: Bytes::new(),
            encoding: Encoding::Json,
            value: OnceLock::from(value),
        })))
    }
}

impl From<Arc<StoredObject>> for RecordedJson {
    fn from(stored: Arc<StoredObject>) -> Self {
        Self(Source::Stored(stored))
    }
}

impl Deref for RecordedJson {
    type Target = Value;

    fn deref(&self) -> &Value {
        match &self.0 {
            Source::Sent(sent) => sent.value.get_or_init(|| match sent.encoding {
                Encoding::Json => serde_json::from_slice(&sent.bytes).unwrap_or_default(),
                Encoding::Protobuf => {
                    let json = protobuf::to_json(&sent.bytes).unwrap_or_default();
                    serde_json::from_slice(&json).unwrap_or_default()
                }
            }),
            Source::Stored(stored) => stored.recorded(),
        }
    }
}

impl AsRef<Value> for RecordedJson {
    fn as_ref(&self) -> &Value {
        self
    }
}

impl PartialEq for RecordedJson {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Serialize for RecordedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RecordedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Debug for RecordedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl fmt::Display for RecordedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Approximate size of a value without its strings, in bytes.
const VALUE: usize = 64;

fn size(value: &Value) -> usize {
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(map) => map.iter().map(|(key, item)| VALUE + key.len() + size(item)).sum(),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_read_as_what_was_sent() {
        let sent = RecordedJson::sent(Bytes::from_static(br#"{"a": [1, "b"]}"#), Encoding::Json);
        assert_eq!((sent.size(), &sent["a"][1]), (15, &json!("b")));
        assert_eq!(sent, RecordedJson::from(json!({"a": [1, "b"]})));
        assert_eq!(*RecordedJson::sent(Bytes::from_static(b"{"), Encoding::Json), Value::Null);
        assert!(RecordedJson::from(json!("x".repeat(1000))).size() >= 1000);
    }

    #[test]
    fn documents_have_a_uid_in_both_forms() {
        let object = |uid: &str| json!({"metadata": {"name": "a", "uid": uid}});
        let server = crate::ApiServer::builder().build();
        let mut map = object("u1");
        (map["apiVersion"], map["kind"]) = ("v1".into(), "ConfigMap".into());
        server.seed([crate::json::Value::from(map)]).unwrap();
        let stored = server.get(&crate::ResourceId::new("", "configmaps"), "", "a");
        let stored = stored.or_else(|| server.get(&crate::ResourceId::new("", "configmaps"), "default", "a"));
        assert_eq!(RecordedJson::from(stored.unwrap()).uid(), Some("u1"));
        assert_eq!(RecordedJson::from(object("u2")).uid(), Some("u2"));
        assert_eq!(RecordedJson::from(json!({})).uid(), None);
    }
}
