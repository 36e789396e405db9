//! Watch events as they leave the server.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::entry::ChangeKind;

/// A watch event that was sent to its client. Bookmarks and errors are not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Number of entries that the transcript had: the event was sent after the entry before this position.
    pub position: usize,
    /// Time since the clock's epoch.
    pub at: Duration,
    /// [`TranscriptEntry::seq`](super::TranscriptEntry::seq) of the watch's request.
    pub watch: usize,
    /// The object of the event.
    pub object: DeliveredObject,
}

/// The object of a watch event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveredObject {
    /// The type of the event.
    pub kind: ChangeKind,
    /// Namespace of the object.
    pub namespace: Option<Arc<str>>,
    /// Name of the object.
    pub name: Arc<str>,
    /// Resource version of the object in the event.
    pub resource_version: u64,
}
