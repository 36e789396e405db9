//! The relevant fields of a watch event, and lines from a stream that arrives in chunks. PURE.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};

/// Followed resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchedKind {
    /// Budgets with their status.
    Budgets,
    /// Nodes with their annotation.
    Nodes,
    /// Pods and their deletion.
    Pods,
}

impl WatchedKind {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Budgets, Self::Nodes, Self::Pods];

    /// Path of the resource in all namespaces.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Budgets => "/apis/policy/v1/poddisruptionbudgets",
            Self::Nodes => "/api/v1/nodes",
            Self::Pods => "/api/v1/pods",
        }
    }
}

/// One line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct WatchEvent<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`.
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    /// The object.
    #[serde(borrow)]
    pub(super) object: WatchedObject<'a>,
}

/// A budget, node or pod, or a `Status` (in `ERROR` events).
#[derive(Debug, Deserialize)]
pub(super) struct WatchedObject<'a> {
    /// Its metadata.
    #[serde(borrow, default)]
    pub(super) metadata: Metadata<'a>,
    /// Status of a budget; unused for other kinds. In a `Status` this member is a text.
    #[serde(default, deserialize_with = "status_or_nothing")]
    pub(super) status: Option<BudgetNumbers>,
    /// HTTP status code, in a `Status`.
    pub(super) code: Option<u16>,
}

/// A page of objects.
#[derive(Debug, Deserialize)]
pub(super) struct ObjectPage<'a> {
    /// The metadata, with version and continue token.
    #[serde(borrow)]
    pub(super) metadata: PageMetadata<'a>,
    /// The objects.
    #[serde(borrow)]
    pub(super) items: Vec<WatchedObject<'a>>,
}

/// Metadata of a list.
#[derive(Debug, Deserialize)]
pub(super) struct PageMetadata<'a> {
    /// The version of the list.
    #[serde(borrow, rename = "resourceVersion")]
    pub(super) resource_version: Cow<'a, str>,
    /// Continue token of the next page; empty at the end.
    #[serde(borrow, default, rename = "continue")]
    pub(super) next: Cow<'a, str>,
}

/// Metadata of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    /// Its name.
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    /// Its version.
    #[serde(borrow, default)]
    pub(super) resource_version: Cow<'a, str>,
    /// Its generation.
    pub(super) generation: Option<i64>,
    /// Present if the deletion has begun.
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    /// Its annotations.
    pub(super) annotations: Option<Annotations>,
}

/// The annotations of a node.
#[derive(Debug, Deserialize)]
pub(super) struct Annotations {
    /// The annotation of the ttl controller.
    #[serde(rename = "node.alpha.kubernetes.io/ttl")]
    pub(super) ttl: Option<IgnoredAny>,
}

/// Numbers in a budget's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BudgetNumbers {
    /// Number of expected pods.
    pub(super) expected_pods: Option<i64>,
    /// Number of healthy pods.
    pub(super) current_healthy: Option<i64>,
    /// Required number of healthy pods.
    pub(super) desired_healthy: Option<i64>,
    /// Number of pods that may be evicted now.
    pub(super) disruptions_allowed: Option<i64>,
    /// The generation that this status describes.
    pub(super) observed_generation: Option<i64>,
}

fn status_or_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<BudgetNumbers>, D::Error> {
    deserializer.deserialize_any(StatusVisitor)
}

struct StatusVisitor;

impl<'de> Visitor<'de> for StatusVisitor {
    type Value = Option<BudgetNumbers>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a status")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        BudgetNumbers::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Splits a text that arrives in chunks into lines.
#[derive(Default)]
pub(super) struct LineSplitter {
    begun: Vec<u8>,
}

impl LineSplitter {
    /// Passes each line that ends in `piece` to `each`, without the line end.
    pub(super) fn read(&mut self, mut piece: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            if self.begun.is_empty() {
                each(&piece[..end]);
            } else {
                self.begun.extend_from_slice(&piece[..end]);
                each(&self.begun);
                self.begun.clear();
            }
            piece = &piece[end + 1..];
        }
        self.begun.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_for_all_pieces() {
        let text = b"one\n\ntwo two\nthree\nnot yet";
        for size in 1..text.len() {
            let mut lines = LineSplitter::default();
            let mut seen = Vec::new();
            text.chunks(size)
                .for_each(|piece| lines.read(piece, |line| seen.push(String::from_utf8_lossy(line).into_owned())));
            assert_eq!(seen, ["one", "", "two two", "three"], "in pieces of {size}");
        }
    }

    #[test]
    fn errors_and_objects_without_status_are_events_too() {
        let error: WatchEvent<'_> = serde_json::from_str(
            r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","code":410}}"#,
        )
        .unwrap();
        assert_eq!((&*error.kind, &*error.object.metadata.name, error.object.status), ("ERROR", "", None));
        let pod: WatchEvent<'_> = serde_json::from_str(
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"status":{"phase":"Running","observedGeneration":1}}}"#,
        )
        .unwrap();
        assert_eq!(pod.object.status.and_then(|status| status.observed_generation), Some(1));
    }
}
