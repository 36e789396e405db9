//! SHELL: node events to keys, one patch per node that has the wrong value.

use std::sync::Arc;

use parking_lot::Mutex;

use super::boundaries::ClusterSize;
use super::parse_ttl_annotation;
use crate::api::View as _;
use crate::api::node::NodeView;
use crate::api::object_key::ObjectKey;
use crate::context::{ControllerContext, ControllerFuture};
use crate::runtime::cache::{Change, Lister};
use crate::runtime::client::names;
use crate::runtime::queue::WorkQueue;
use crate::runtime::workers::{self, Outcome};
use crate::write::Writer;
use crate::write::actions::Action;

/// Number of concurrent syncs.
const WORKERS: usize = 5;

const NAME: &str = "ttlcontroller";

/// Creates the controller; returns its work.
pub fn start(context: &ControllerContext) -> ControllerFuture {
    let informer = context.informer::<NodeView>();
    let queue = context.queue::<ObjectKey>(NAME);
    let size = Arc::new(Mutex::new(ClusterSize::default()));
    let controller =
        TtlController { nodes: informer.lister(), size: Arc::clone(&size), writer: context.writer(names::TTL) };
    let stop = context.stop.clone();
    Box::pin(async move {
        informer.add_event_handler({
            let queue = queue.clone();
            move |change| handle_node_change(&size, &queue, change)
        });
        workers::run(NAME, &queue, WORKERS, &stop, |key| controller.sync(key)).await;
    })
}

/// Counts nodes, and queues added and changed ones. A deleted node needs no sync.
fn handle_node_change(size: &Mutex<ClusterSize>, queue: &WorkQueue<ObjectKey>, change: &Change<NodeView>) {
    let mut size = size.lock();
    match change {
        Change::Added(node) => {
            size.add();
            queue.add(node.key());
        }
        Change::Updated { new, .. } => queue.add(new.key()),
        Change::Deleted(_) => size.remove(),
    }
}

struct TtlController {
    nodes: Lister<NodeView>,
    size: Arc<Mutex<ClusterSize>>,
    writer: Writer,
}

impl TtlController {
    async fn sync(&self, key: ObjectKey) -> Outcome {
        let Some(node) = self.nodes.get(&key) else { return Outcome::Forget };
        let ttl_seconds = self.size.lock().ttl_seconds();
        if parse_ttl_annotation(node.ttl_annotation()) == Some(ttl_seconds) {
            return Outcome::Forget;
        }
        let action = Action::PatchNodeTtl { node: key.name, ttl_seconds };
        match self.writer.apply(&action, "the cluster size requires another ttl").await {
            Ok(()) => Outcome::Forget,
            // The node was deleted; the cache will be notified.
            Err(error) if error.is_not_found() => Outcome::Forget,
            Err(_) => Outcome::Retry,
        }
    }
}
