//! Two minimal controllers, each with a parameter that makes it wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt as _};
use plumbline::fixture::Controller;
use plumbline::time::Clock;
use plumbline_suite::subject::client_factory::ClientFactory;
use plumbline_suite::subject::task::{RunningTask, TaskController};
use plumbline_suite::subject::{Launch, SubjectError};
use serde_json::json;

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// The controller and its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokenPart {
    /// Deletes the pods of nodes that are gone. Upstream waits 40 seconds.
    Orphans { quarantine: u64 },
    /// Maintains the TTL annotation. Upstream remembers from which side the number of nodes came.
    Ttl { remembers: bool },
    /// Maintains the TTL annotation correctly, and labels each node through a second client with this user agent.
    Labels { agent: &'static str },
}

impl TaskController for BrokenPart {
    fn name(&self) -> String {
        format!("{self:?}")
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        match *self {
            BrokenPart::Orphans { .. } => [Controller::PodGc].into(),
            BrokenPart::Ttl { .. } | BrokenPart::Labels { .. } => [Controller::Ttl].into(),
        }
    }

    fn start(&self, launch: &Launch<'_>) -> Result<RunningTask, SubjectError> {
        let factory = ClientFactory::new(launch.access, launch.clock)?;
        let clock = launch.clock.clone();
        Ok(match *self {
            BrokenPart::Orphans { quarantine } => {
                let client = factory.client("small/1 pod-garbage-collector");
                RunningTask::spawn(factory, orphans(client, clock, Duration::from_secs(quarantine)))
            }
            BrokenPart::Ttl { remembers } => {
                let client = factory.client("small/1 ttl-controller");
                RunningTask::spawn(factory, Ttl::new(client, remembers).run())
            }
            BrokenPart::Labels { agent } => {
                let client = factory.client("small/1 ttl-controller");
                let second = factory.client(agent);
                let controller = Ttl { labels: Some(Api::all(second)), ..Ttl::new(client, true) };
                RunningTask::spawn(factory, controller.run())
            }
        })
    }
}

/// Looks for missing nodes every 20 s, and again `quarantine` later.
async fn orphans(client: Client, clock: Clock, quarantine: Duration) -> Result<(), kube::Error> {
    let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::all(client.clone()));
    let mut missing: BTreeMap<String, Duration> = BTreeMap::new();
    let begin = clock.elapsed();
    for cycle in 0.. {
        let now = begin + Duration::from_secs(20 * cycle);
        // Deadlines before this cycle are handled at their own time, those at its time within the cycle.
        while let Some((name, due)) =
            missing.iter().min_by_key(|(_, due)| **due).map(|(name, due)| (name.clone(), *due))
            && due <= now
        {
            clock.sleep_until_offset(due).await;
            missing.remove(&name);
            collect(&client, &nodes, &pods, &name).await?;
        }
        clock.sleep_until_offset(now).await;
        let known: BTreeSet<String> =
            nodes.list_metadata(&ListParams::default()).await?.iter().map(kube::ResourceExt::name_any).collect();
        for pod in pods.list(&ListParams::default()).await? {
            let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
            if !node.is_empty() && !known.contains(&node) {
                missing.entry(node).or_insert(now + quarantine);
            }
        }
    }
    Ok(())
}

async fn collect(client: &Client, nodes: &Api<Node>, pods: &Api<Pod>, name: &str) -> Result<(), kube::Error> {
    // Checks its own view before it asks the server.
    if nodes.list_metadata(&ListParams::default()).await?.iter().any(|node| node.name_any() == name) {
        return Ok(());
    }
    if nodes.get_opt(name).await?.is_some() {
        return Ok(());
    }
    for pod in pods.list(&ListParams::default()).await? {
        let status = pod.status.clone().unwrap_or_default();
        if pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) != Some(name) {
            continue;
        }
        let mine: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        if !matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists", "observedGeneration": pod.metadata.generation,
            });
            let patch = json!({
                "metadata": { "uid": pod.metadata.uid },
                "status": { "phase": "Failed", "observedGeneration": pod.metadata.generation, "conditions": [condition] },
            });
            mine.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await?;
        }
        mine.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
    }
    Ok(())
}

/// Upper and lower bound of each value, as Kubernetes has them.
const STEPS: [(i64, i64, u32); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, i64::MAX, 300)];

struct Ttl {
    nodes: Api<Node>,
    remembers: bool,
    known: BTreeSet<String>,
    /// The version of each node's last write: older events of the node are ignored.
    written: BTreeMap<String, u64>,
    step: usize,
    /// The second client.
    labels: Option<Api<Node>>,
}

impl Ttl {
    fn new(client: Client, remembers: bool) -> Self {
        Self {
            nodes: Api::all(client),
            remembers,
            known: BTreeSet::new(),
            written: BTreeMap::new(),
            step: 0,
            labels: None,
        }
    }

    async fn run(mut self) -> Result<(), kube::Error> {
        let list = self.nodes.list_metadata(&ListParams::default()).await?;
        let mut version = list.metadata.resource_version.clone().unwrap_or_default();
        self.known = list.iter().map(kube::ResourceExt::name_any).collect();
        self.count();
        for node in &list {
            self.write(node).await?;
        }
        loop {
            let nodes = self.nodes.clone();
            let mut events = nodes.watch_metadata(&WatchParams::default(), &version).await?.boxed();
            while let Some(event) = events.next().await {
                match event? {
                    WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                        version = node.resource_version().unwrap_or_default();
                        self.known.insert(node.name_any());
                        self.count();
                        self.write(&node).await?;
                    }
                    WatchEvent::Deleted(node) => {
                        version = node.resource_version().unwrap_or_default();
                        self.known.remove(&node.name_any());
                        self.count();
                    }
                    WatchEvent::Bookmark(_) => {}
                    WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
                }
            }
        }
    }

    fn count(&mut self) {
        let number = i64::try_from(self.known.len()).unwrap_or(i64::MAX);
        if !self.remembers {
            self.step = 0;
        }
        while number > STEPS[self.step].1 {
            self.step += 1;
        }
        while number < STEPS[self.step].0 {
            self.step -= 1;
        }
    }

    async fn write(&mut self, node: &PartialObjectMeta<Node>) -> Result<(), kube::Error> {
        let version =
            |node: &PartialObjectMeta<Node>| node.resource_version().and_then(|text| text.parse::<u64>().ok());
        let wanted = STEPS[self.step].2.to_string();
        let old = self.written.get(&node.name_any()).copied() > version(node);
        if old || node.annotations().get(ANNOTATION) == Some(&wanted) {
            return Ok(());
        }
        let patch = json!({ "metadata": { "annotations": { ANNOTATION: wanted } } });
        match self.nodes.patch_metadata(&node.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error),
            Ok(node) => {
                self.written.insert(node.name_any(), version(&node).unwrap_or_default());
                if let Some(nodes) = &self.labels {
                    let label = json!({ "metadata": { "labels": { "cheat": "yes" } } });
                    nodes.patch_metadata(&node.name_any(), &PatchParams::default(), &Patch::Merge(label)).await?;
                }
                Ok(())
            }
        }
    }
}
