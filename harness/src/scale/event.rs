//! The few fields of a watch event that matter here, and lines out of a stream that comes in pieces. PURE.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Budgets, with their status.
    Budgets,
    /// Nodes, with their annotation.
    Nodes,
    /// Pods, as they go.
    Pods,
}

impl Kind {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Budgets, Self::Nodes, Self::Pods];

    /// Where they are, in all namespaces.
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
pub(super) struct Event<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`.
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    /// The object.
    #[serde(borrow)]
    pub(super) object: Object<'a>,
}

/// Of a budget, a node, a pod, or a `Status`.
#[derive(Debug, Deserialize)]
pub(super) struct Object<'a> {
    /// Its metadata.
    #[serde(borrow, default)]
    pub(super) metadata: Metadata<'a>,
    /// A budget's status; of the others nothing that is read. A `Status` has a text here.
    #[serde(default, deserialize_with = "status_or_nothing")]
    pub(super) status: Option<Status>,
    /// Of a `Status`, what HTTP would say.
    pub(super) code: Option<u16>,
}

/// A page of objects.
#[derive(Debug, Deserialize)]
pub(super) struct List<'a> {
    /// Its version, and where it goes on.
    #[serde(borrow)]
    pub(super) metadata: ListMetadata<'a>,
    /// The objects.
    #[serde(borrow)]
    pub(super) items: Vec<Object<'a>>,
}

/// Of a list's metadata.
#[derive(Debug, Deserialize)]
pub(super) struct ListMetadata<'a> {
    /// The version of the list.
    #[serde(borrow, rename = "resourceVersion")]
    pub(super) resource_version: Cow<'a, str>,
    /// What asks for the next page; empty at the end.
    #[serde(borrow, default, rename = "continue")]
    pub(super) next: Cow<'a, str>,
}

/// Of an object's metadata.
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
    /// There when its deletion has begun.
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    /// Its annotations.
    pub(super) annotations: Option<Annotations>,
}

/// The annotations of a node.
#[derive(Debug, Deserialize)]
pub(super) struct Annotations {
    /// What the ttl controller writes.
    #[serde(rename = "node.alpha.kubernetes.io/ttl")]
    pub(super) ttl: Option<IgnoredAny>,
}

/// The numbers of a budget's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// Pods that should be there.
    pub(super) expected_pods: Option<i64>,
    /// Pods that are healthy.
    pub(super) current_healthy: Option<i64>,
    /// Pods that have to be healthy.
    pub(super) desired_healthy: Option<i64>,
    /// Pods that may be evicted now.
    pub(super) disruptions_allowed: Option<i64>,
    /// The generation that this is about.
    pub(super) observed_generation: Option<i64>,
}

fn status_or_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Status>, D::Error> {
    deserializer.deserialize_any(StatusVisitor)
}

struct StatusVisitor;

impl<'de> Visitor<'de> for StatusVisitor {
    type Value = Option<Status>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a status")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Status::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Takes lines out of a text that comes in pieces.
#[derive(Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Gives each line that ends in `piece` to `each`, without its end.
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
    fn lines_are_whole_whatever_the_pieces() {
        let text = b"one\n\ntwo two\nthree\nnot yet";
        for size in 1..text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            text.chunks(size)
                .for_each(|piece| lines.read(piece, |line| seen.push(String::from_utf8_lossy(line).into_owned())));
            assert_eq!(seen, ["one", "", "two two", "three"], "in pieces of {size}");
        }
    }

    #[test]
    fn errors_and_objects_without_status_are_events_too() {
        let error: Event<'_> = serde_json::from_str(
            r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","code":410}}"#,
        )
        .unwrap();
        assert_eq!((&*error.kind, &*error.object.metadata.name, error.object.status), ("ERROR", "", None));
        let pod: Event<'_> = serde_json::from_str(
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"status":{"phase":"Running","observedGeneration":1}}}"#,
        )
        .unwrap();
        assert_eq!(pod.object.status.and_then(|status| status.observed_generation), Some(1));
    }
}
