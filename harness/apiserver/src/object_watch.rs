//! Waits for changes of a resource's objects, for replies that follow one of them, as a kubelet does with its pods
//! (`pkg/kubelet/kubelet.go`).

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::server::ApiServer;
use super::store::{EventPoll, KeyRange, ResourceId, WatchCursor};

/// Maximum number of events read at once.
const BATCH: usize = 256;
/// A range without objects: only the position in the log is wanted.
const NOTHING: KeyRange<'_> = KeyRange { namespace: Some(""), name: Some(""), node: None, after: None };

/// A position in the log of a resource. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct ObjectWatch {
    server: ApiServer,
    resource: ResourceId,
    cursor: WatchCursor,
}

impl ObjectWatch {
    /// Starts at the present; look at the objects after this.
    pub(crate) fn new(server: &ApiServer, resource: ResourceId) -> Self {
        let (_, _, cursor) = server.store().list_and_watch(&resource, NOTHING);
        Self { server: server.clone(), resource, cursor }
    }

    /// Waits until objects of the resource have changed since the last call.
    pub(crate) async fn changed(&mut self) {
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let mut is_changed = false;
        loop {
            match self.server.store().poll_events(&mut self.cursor, BATCH, context) {
                EventPoll::Events(_) => is_changed = true,
                EventPoll::Compacted(_) => {
                    *self = Self::new(&self.server, self.resource.clone());
                    return Poll::Ready(());
                }
                EventPoll::Idle { .. } if is_changed => return Poll::Ready(()),
                EventPoll::Idle { .. } => return Poll::Pending,
            }
        }
    }
}

impl Drop for ObjectWatch {
    fn drop(&mut self) {
        self.server.store().unwatch(&self.cursor);
    }
}
