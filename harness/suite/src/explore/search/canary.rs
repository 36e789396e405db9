//! The canary: a small controller with a planted bug. An exploration that does not find it would find nothing else
//! either, so each exploration begins with it.
//!
//! The controller sets the TTL annotation of each node. The bug: a write that fails is not repeated.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use plumbline::fixture::{Controller, Fixture};
use plumbline::rules::nodes::TTL_ANNOTATION;
use plumbline::time::Clock;
use serde_json::json;

use super::engine::explore;
use super::options::ExploreOptions;
use crate::cluster::EmbeddedCluster;
use crate::explore::histories::random::{HistoryError, read};
use crate::runner::suite::TestBed;
use crate::subject::client_factory::ClientFactory;
use crate::subject::task::{RunningTask, TaskController, TaskSubject};
use crate::subject::{Launch, SubjectError};

/// The history in which the bug is planted.
const FIXTURE: &str = "promise: Each node has a TTL.\nrule: T-001\nlevel: provisional\nfeature: ttl.annotation\n\
    given: { nodes: [n1] }\nsteps:\n- { at: 10s, create: { nodes: [n2] } }\n- { at: 20s, expect: { exists: nodes/n2 } }\n";

/// Time until the controller lists again after an error.
const RETRY: Duration = Duration::from_secs(1);

/// The controller with the planted bug.
#[derive(Clone, Copy, Debug, Default)]
pub struct Canary;

/// Returns the history of the canary.
///
/// # Errors
///
/// Returns the problem of the text, which is a bug of this module.
pub fn fixture() -> Result<Fixture, HistoryError> {
    read("canary.yaml", "ttl", FIXTURE)
}

/// Returns true if an exploration finds the planted bug.
///
/// # Errors
///
/// See [`fixture`].
pub fn is_found() -> Result<bool, HistoryError> {
    let test_bed = TestBed::new(Arc::new(EmbeddedCluster::default()), Arc::new(TaskSubject::new(Canary)));
    let exploration = explore(&[fixture()?], &test_bed, &ExploreOptions::default(), |_| {});
    Ok(exploration.findings.list().iter().any(|finding| finding.fingerprint.starts_with("end state")))
}

impl TaskController for Canary {
    fn name(&self) -> String {
        "canary".to_owned()
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        [Controller::Ttl].into()
    }

    fn start(&self, launch: &Launch<'_>) -> Result<RunningTask, SubjectError> {
        let factory = ClientFactory::new(launch.access, launch.clock)?;
        let work = control(factory.client("canary/1 ttl-controller"), launch.clock.clone());
        Ok(RunningTask::spawn(factory, work))
    }
}

/// Lists and watches nodes, again after each error.
async fn control(client: Client, clock: Clock) -> Result<(), Infallible> {
    let nodes: Api<Node> = Api::all(client);
    let mut handled = BTreeSet::new();
    loop {
        if follow(&nodes, &mut handled).await.is_err() {
            clock.sleep(RETRY).await;
        }
    }
}

async fn follow(nodes: &Api<Node>, handled: &mut BTreeSet<String>) -> Result<(), kube::Error> {
    let list = nodes.list(&ListParams::default()).await?;
    let version = list.metadata.resource_version.clone().unwrap_or_default();
    for node in &list {
        annotate(nodes, node, handled).await;
    }
    let mut events = nodes.watch(&WatchParams::default(), &version).await?.boxed();
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(node) => annotate(nodes, &node, handled).await,
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            WatchEvent::Modified(_) | WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}

async fn annotate(nodes: &Api<Node>, node: &Node, handled: &mut BTreeSet<String>) {
    if node.annotations().contains_key(TTL_ANNOTATION) || !handled.insert(node.name_any()) {
        return;
    }
    let patch = Patch::Merge(json!({"metadata": {"annotations": {TTL_ANNOTATION: "0"}}}));
    // The planted bug: the error is ignored and the node counts as handled. A real controller would try again.
    let _ = nodes.patch(&node.name_any(), &PatchParams::default(), &patch).await;
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_planted_bug_is_found() {
        assert_eq!(super::is_found(), Ok(true));
    }
}
