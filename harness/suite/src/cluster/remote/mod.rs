//! A real API server that fixtures share, each in namespaces and on nodes of its own.
//!
//! ```text
//!  subject ──► proxy ──► API server        steps go through the proxy too
//!                │            │
//!                │ requests   │ watches
//!                ▼            ▼
//!            transcript ◄── tracker         expectations look at both
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`names`] | maps between the fixture's names and the server's |
//! | [`proxy`] | records requests, applies faults, forwards |
//! | [`stream`] | the subject's watches, with watch faults applied |
//! | [`tracker`], [`follow`] | tracks objects by watches and attributes each change to a request |
//! | [`error`] | failures of requests to the server |
//! | [`seed`] | creates the fixture's objects and deletes everything afterwards |
//!
//! Fixtures that need something a real server cannot do are refused, with the reason.

mod error;
mod follow;
mod names;
mod proxy;
mod seed;
mod stream;
mod tracker;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use plumbline::expect::world::{Key, kinds};
use plumbline::fixture::pattern::Resources;
use plumbline::fixture::{Action, Capability, Fixture, parse};
use plumbline::metadata;
use plumbline::time::Clock;
use plumbline::transcript::{Agents, RecordedJson, Transcript};
use plumbline_apiserver::ResourceId;
use plumbline_apiserver::faults::Faults;
use plumbline_apiserver::listener::{ConnectionGate, ListenOptions, listen};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::call::{Answer, Call};
use super::client;
use super::drawn::{self, Drawn};
use super::error::{ClusterError, SeedError};
use super::provision::{Bystanders, EnvironmentError, Server, random_token};
use super::sandbox::{Access, Cluster, ClusterTime, Sandbox};
use crate::cluster::subject_endpoint::SubjectEndpoint;
use crate::guest;
use crate::process::signals;
use error::ServerError;
use follow::ResourceFollower;
use parking_lot::Mutex;
use proxy::{Proxy, ProxyConfig};

/// Time limit for the cleanup after a fixture: a server without storage blocks each request for a minute.
const CLEAR_LIMIT: Duration = Duration::from_secs(30);

/// Looks for objects that are left, and the pause after one that found some.
const LOOKS: u32 = 40;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Namespaces that exist in every fixture.
const ALWAYS: [&str; 2] = ["default", "kube-system"];

/// A real API server that fixtures run on.
#[derive(Debug)]
pub struct RemoteCluster {
    name: &'static str,
    image: Option<String>,
    version: String,
    kubeconfig: PathBuf,
    allows_disruption: bool,
    bystanders: Bystanders,
    /// True if the subject connects to the server directly, so that its requests are not recorded.
    unseen: bool,
    /// Seed of the names that are drawn for each fixture; `None` draws none.
    seed: Option<u64>,
    /// Prefix shared by all suffixes of this run.
    run: String,
    sandboxes: AtomicU64,
    server: Mutex<Option<Server>>,
    /// The runtime in which the server was started; its tasks live there.
    runtime: tokio::runtime::Runtime,
}

impl RemoteCluster {
    /// Starts a server with `start`, which runs in a new runtime.
    ///
    /// # Errors
    ///
    /// Returns the errors of `start`, and an error if no runtime can be created.
    pub fn start<F>(start: impl FnOnce() -> F) -> Result<Self, ClusterError>
    where
        F: Future<Output = Result<Server, EnvironmentError>>,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| ClusterError::Client(format!("unable to create a runtime: {error}")))?;
        let server = runtime.block_on(async {
            tokio::select! {
                started = start() => started.map_err(ClusterError::from),
                signal = signals::signalled() => Err(ClusterError::Interrupted(signal)),
            }
        })?;
        let mut run = random_token()?;
        run.truncate(6);
        Ok(Self {
            name: server.name,
            image: server.image.clone(),
            version: server.version.clone(),
            kubeconfig: server.kubeconfig.clone(),
            allows_disruption: server.allows_disruption,
            bystanders: server.bystanders,
            unseen: false,
            seed: None,
            run,
            sandboxes: AtomicU64::new(0),
            server: Mutex::new(Some(server)),
            runtime,
        })
    }

    /// Returns the same cluster for a subject that connects directly, so that its requests are not recorded.
    #[must_use]
    pub fn unseen(self) -> Self {
        Self { unseen: true, ..self }
    }

    /// Returns the same cluster with names that are drawn for each fixture.
    #[must_use]
    pub fn with_seed(self, seed: Option<u64>) -> Self {
        Self { seed, ..self }
    }

    /// The tested controllers whose built-in versions run in this cluster.
    pub fn built_in(&self) -> Vec<plumbline::fixture::Controller> {
        let server = self.server.lock();
        server.as_ref().map(|server| server.built_in.clone()).unwrap_or_default()
    }
}

impl Cluster for RemoteCluster {
    fn name(&self) -> &str {
        self.name
    }

    fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    fn kubernetes(&self) -> Result<String, ClusterError> {
        Ok(self.version.clone())
    }

    fn capabilities(&self) -> BTreeSet<Capability> {
        use Capability::{
            ClusterScope, Compaction, Crash, Faults, ManyNodes, Metrics, Replicas, Seeding, SingleThread, Skew,
            VirtualTime, WatchFaults,
        };
        Capability::ALL
            .into_iter()
            .filter(|capability| match capability {
                VirtualTime | SingleThread | Skew | Compaction => false,
                Faults | WatchFaults | Crash | Metrics => !self.unseen,
                // Only in part: see `refuses`. Of replicas the subject decides.
                Seeding | ClusterScope | ManyNodes | Replicas => true,
            })
            .collect()
    }

    fn time(&self) -> ClusterTime {
        if guest::is_inside() { ClusterTime::Traced } else { ClusterTime::Wall }
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn seed(&self) -> Option<u64> {
        self.seed
    }

    fn refuses(&self, fixture: &Fixture) -> Option<String> {
        if !self.allows_disruption && !fixture.is_confined() {
            return Some(NOT_CONFINED.to_owned());
        }
        is_disturbed(fixture, self.bystanders).or_else(|| cannot_be_seeded(fixture))
    }

    fn must_be_alone(&self, fixture: &Fixture) -> bool {
        if self.unseen {
            return !fixture.is_confined();
        }
        let shared = |group: &str, plural: &str| !(group.is_empty() && matches!(plural, "nodes" | "namespaces"));
        let defines = fixture.given.objects.iter().any(|object| object["kind"] == "CustomResourceDefinition");
        let writes = fixture.steps.iter().flat_map(parse::step_actions).any(|action| match action {
            Action::Request(request) => {
                let resource = &request.target.resource;
                !resource.namespaced && request.operation.writes() && shared(&resource.group, &resource.plural)
            }
            _ => false,
        });
        defines || writes
    }

    fn broken(&self) -> Option<String> {
        let mut server = self.server.lock();
        let server = server.as_mut()?;
        self.runtime.block_on(server.ended())
    }

    fn stop(&self) -> Result<(), ClusterError> {
        let server = self.server.lock().take();
        let Some(server) = server else { return Ok(()) };
        Ok(self.runtime.block_on(server.stop())?)
    }

    fn sandbox<'a>(
        &'a self,
        fixture: &'a Fixture,
        clock: &'a Clock,
        agents: Agents,
    ) -> LocalBoxFuture<'a, Result<Box<dyn Sandbox>, ClusterError>> {
        let number = self.sandboxes.fetch_add(1, Ordering::Relaxed);
        let suffix = format!("-pl{}{number:03x}", self.run);
        async move {
            let sandbox = self.open(fixture, clock, suffix, agents).await?;
            Ok(Box::new(sandbox) as Box<dyn Sandbox>)
        }
        .boxed_local()
    }
}

impl RemoteCluster {
    async fn open(
        &self,
        fixture: &Fixture,
        clock: &Clock,
        suffix: String,
        agents: Agents,
    ) -> Result<RemoteSandbox, ClusterError> {
        let failed = |error: &dyn std::fmt::Display| ClusterError::Sandbox(error.to_string());
        let resources = kinds(&*fixture.given.objects);
        let drawn = self.seed.map(|seed| Arc::new(Drawn::names_only(fixture, seed)));
        let hidden = |name: &str| drawn.as_ref().map_or(name, |drawn| drawn.names().hidden(name)).to_owned();
        let (made, namespaces) = namespaces(fixture);
        let visible: Vec<&String> = namespaces.iter().filter(|name| *name != "kube-system").collect();
        let speaks_of_system = speaks_of(fixture).any(|name| name == "kube-system" || name == "*");
        let only = (visible.len() == 1 && !speaks_of_system).then(|| hidden(visible[0]));
        let definitions: Vec<&Value> =
            fixture.given.objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition").collect();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let custom = definitions.iter().filter(|object| object["spec"]["scope"] == "Namespaced");
        let custom =
            custom.map(|object| (text(&object["spec"]["group"]), text(&object["spec"]["names"]["plural"]))).collect();
        let definitions = definitions.iter().map(|object| metadata::name(object).to_owned()).collect();

        let client = client::from_file(&self.kubeconfig)?;
        let recorded_names = drawn.as_ref().map(Drawn::recorded_names).unwrap_or_default();
        let proxy = Proxy::new(ProxyConfig { client, suffix, recorded_names, clock: clock.clone(), custom, only });
        let missing: Vec<String> =
            namespaces.iter().filter(|name| !made.contains(*name)).map(|name| hidden(name)).collect();
        seed::namespaces(&proxy, &missing).await.map_err(|error| ClusterError::Sandbox(error.to_string()))?;
        let own = fixture.given.objects.iter().map(|object| metadata::name(object).to_owned());
        let own = own.chain(follow::targets(fixture).map(|target| target.name.clone()));
        let own: Vec<String> = own.map(|name| hidden(&name)).collect();
        let follower = |resource| ResourceFollower { proxy: proxy.clone(), resource, own: own.clone() };
        let followers = follow::resources(fixture, &resources).into_iter().map(follower).collect();

        let endpoint = SubjectEndpoint::new(proxy.clone(), agents).with_drawn(drawn.clone());
        let listening = listen(endpoint, ListenOptions::loopback()).await.map_err(|error| failed(&error))?;
        let folder = crate::process::tempdir::create().map_err(|error| failed(&error))?;
        let own_kubeconfig = folder.path().join("kubeconfig");
        listening.write_kubeconfig(&own_kubeconfig).map_err(|error| failed(&error))?;
        let stop = CancellationToken::new();
        let gate = listening.gate();
        let serving = tokio::spawn(listening.serve(stop.clone()));
        let namespaces = namespaces.iter().map(|name| hidden(name)).collect();
        Ok(RemoteSandbox {
            proxy,
            drawn,
            kubeconfig: own_kubeconfig,
            stop,
            gate,
            tasks: Mutex::new(vec![serving]),
            resources,
            followers,
            namespaces,
            definitions,
            is_seen: !self.unseen,
            _folder: folder,
        })
    }
}

/// Reason for skipping a fixture that changes cluster-wide objects.
const NOT_CONFINED: &str =
    "it changes nodes or other cluster-scoped objects; allow it with --allow-disruptive, on a disposable cluster only";

/// Returns true if this is the name of a real API server in reports.
#[must_use]
pub fn is_real(cluster: &str) -> bool {
    matches!(cluster, "envtest" | "k3s" | "kind" | "kubeconfig")
}

/// Returns every reason for which a real server may refuse this fixture ([`Cluster::refuses`]), under any set of
/// permissions and bystanders. Used to verify reports.
#[must_use]
pub fn refusals(fixture: &Fixture) -> Vec<String> {
    let confined = (!fixture.is_confined()).then(|| NOT_CONFINED.to_owned());
    let bystanders = [(true, false), (false, true)].map(|(scheduler, meddlers)| Bystanders { scheduler, meddlers });
    let disturbed = bystanders.into_iter().filter_map(|by| is_disturbed(fixture, by));
    confined.into_iter().chain(disturbed).chain(cannot_be_seeded(fixture)).collect()
}

/// Returns true if `reason` is a real server's rejection of an invalid object ([`SeedError::Refused`]).
#[must_use]
pub fn is_refusal(reason: &str) -> bool {
    reason.starts_with(seed::REFUSES) && reason.contains(&format!(" with {}: ", seed::INVALID))
}

/// Time that a node without a kubelet stays untouched by a node controller: less than its grace period.
const NODES_LAST: Duration = Duration::from_secs(40);

/// Returns the reason if other controllers in the cluster would disturb a fixture.
fn is_disturbed(fixture: &Fixture, by: Bystanders) -> Option<String> {
    let given = &fixture.given.objects;
    let is = |object: &Value, kind: &str| object["kind"] == kind;
    let loose = |object: &Value| is(object, "Pod") && object["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    if by.scheduler && given.iter().any(loose) {
        return Some("the cluster's scheduler would bind its pods".to_owned());
    }
    if !by.meddlers {
        return None;
    }
    let owned = |object: &Value| !metadata::owner_references(object).is_empty();
    let works = |object: &Value| {
        matches!(object["apiVersion"].as_str(), Some("apps/v1" | "batch/v1")) || is(object, "ReplicationController")
    };
    if given.iter().any(|object| owned(object) || works(object)) {
        return Some("the cluster's own workload controllers would act on its owners".to_owned());
    }
    (given.iter().any(|object| is(object, "Node")) && fixture.end() > NODES_LAST)
        .then(|| "the cluster's node controller would taint its nodes, which have no kubelet".to_owned())
}

/// Returns the reason if a fixture's objects cannot be created on a real server.
fn cannot_be_seeded(fixture: &Fixture) -> Option<String> {
    if !fixture.requires.contains(&Capability::Seeding) {
        return None;
    }
    let mut reasons = fixture.given.objects.iter().filter_map(|object| {
        let what = || format!("{} {}", object["kind"].as_str().unwrap_or_default(), metadata::name(object));
        if metadata::text(object, "creationTimestamp").is_some_and(|time| time != "now") {
            return Some(Err(format!("the server sets creation times itself, and {} must be older", what())));
        }
        if !metadata::is_terminating(object) {
            return None;
        }
        let bound = object["kind"] == "Pod" && object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        // The server does not wait for a kubelet to delete a pod that has finished.
        let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let has_finalizers = !metadata::finalizers(object).is_empty();
        Some(if (bound && !ended) || has_finalizers {
            Ok(())
        } else {
            Err(format!("{} must be terminating, but has neither a finalizer nor a grace period to keep it", what()))
        })
    });
    let Some(first) = reasons.next() else {
        return Some("it seeds objects that no client can create".to_owned());
    };
    first.err().or_else(|| reasons.find_map(Result::err))
}

/// A fixture's slice of a shared server.
struct RemoteSandbox {
    proxy: Proxy,
    drawn: Option<Arc<Drawn>>,
    kubeconfig: PathBuf,
    stop: CancellationToken,
    gate: ConnectionGate,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    resources: Resources,
    followers: Vec<ResourceFollower>,
    /// Namespaces of the fixture, by the names that the subject sees.
    namespaces: Vec<String>,
    definitions: Vec<String>,
    /// True if the subject's requests go through the proxy.
    is_seen: bool,
    _folder: tempfile::TempDir,
}

impl RemoteSandbox {
    /// Seeds the objects, starts to follow the resources and returns all objects that exist then.
    async fn seed_and_follow(&self, objects: Vec<Value>) -> Result<Vec<RecordedJson>, SeedError> {
        seed::objects(&self.proxy, &self.resources, objects).await?;
        for follower in &self.followers {
            let at = follower.list().await?;
            let task = tokio::spawn(follower.clone().follow(at));
            self.tasks.lock().push(task);
        }
        Ok(self.proxy.tracker().record())
    }

    /// Deletes what the fixture left and looks again: a run that a signal ends can have created objects of which no
    /// watch has brought word.
    async fn clear_until_nothing_is_left(&self) -> Result<(), ServerError> {
        self.proxy.writes_answered().await;
        let known = self.proxy.tracker().objects();
        let mut known: Vec<(Key, Value)> = known.into_iter().map(|(key, object)| (key, (*object).clone())).collect();
        for _ in 0..LOOKS {
            seed::clear(&self.proxy, &self.resources, known, &self.namespaces, &self.definitions).await?;
            known = Vec::new();
            for follower in &self.followers {
                known.extend(follower.leftovers().await?);
            }
            if known.is_empty() {
                return Ok(());
            }
            Clock::wall().sleep(LOOK_PAUSE).await;
        }
        let left = known.iter().map(|(key, _)| {
            let names = self.proxy.names();
            let namespace = key.namespace.as_deref().map(|namespace| format!("{}:", names.cluster_name(namespace)));
            let name = if key.resource == "nodes" { names.cluster_name(&key.name) } else { key.name.clone() };
            format!("{}{}/{name}", namespace.unwrap_or_default(), key.resource)
        });
        Err(ServerError::Leftovers(left.collect::<Vec<_>>().join(", ")))
    }
}

/// Returns the namespaces that steps, checks and objects refer to.
fn speaks_of(fixture: &Fixture) -> impl Iterator<Item = &str> {
    let objects = fixture.given.objects.iter().filter_map(|object| metadata::text(object, "namespace"));
    let targets = follow::targets(fixture).filter_map(|target| target.namespace.as_deref());
    objects.chain(targets).chain(Some(fixture.given.namespace.as_str()).filter(|name| !name.is_empty()))
}

/// Returns the namespaces that the fixture creates itself, and all of them.
fn namespaces(fixture: &Fixture) -> (BTreeSet<String>, Vec<String>) {
    let named = |object: &&Value| object["kind"] == "Namespace";
    let made: BTreeSet<String> = fixture
        .given
        .objects
        .iter()
        .filter(named)
        .filter_map(|object| metadata::text(object, "name").map(str::to_owned))
        .collect();
    let mut all: BTreeSet<String> = ALWAYS.iter().map(|name| (*name).to_owned()).collect();
    all.extend(speaks_of(fixture).filter(|name| !name.contains('*')).map(str::to_owned));
    all.extend(made.iter().cloned());
    (made, all.into_iter().collect())
}

impl Sandbox for RemoteSandbox {
    fn transcript(&self) -> &Transcript {
        self.proxy.transcript()
    }

    fn faults(&self) -> Option<&Faults> {
        Some(self.proxy.faults())
    }

    fn revision(&self) -> u64 {
        self.proxy.tracker().revision()
    }

    fn hold_events(&self, resource: &ResourceId) -> bool {
        let free = !self.proxy.faults().is_held(resource);
        if free {
            self.proxy.faults().hold(resource);
        }
        free
    }

    fn release_events(&self, resource: &ResourceId) {
        self.proxy.faults().release(resource, Some(self.revision()));
    }

    /// Holds readers that connect through the proxy.
    fn hold_readers(&self) -> bool {
        if self.is_seen {
            self.proxy.faults().block_readers(true);
        }
        self.is_seen
    }

    fn release_readers(&self) {
        self.proxy.faults().block_readers(false);
    }

    /// Does nothing: no client can compact, so the capability is missing.
    fn compact(&self) {}

    /// Creates definitions before changes are tracked, so that they are not recorded as changes.
    fn define(&self, definitions: Vec<Value>) -> LocalBoxFuture<'_, Result<(), SeedError>> {
        seed::objects(&self.proxy, &self.resources, definitions).boxed_local()
    }

    fn failure(&self) -> Option<String> {
        self.proxy.failure()
    }

    fn own_names(&self, text: String) -> String {
        drawn::own_names(text, self.drawn.as_deref())
    }

    fn misuse(&self) -> BTreeSet<String> {
        drawn::misuse(self.transcript(), self.drawn.as_deref())
    }

    fn seed(&self, objects: Vec<Value>) -> LocalBoxFuture<'_, Result<Vec<RecordedJson>, SeedError>> {
        let Some(drawn) = &self.drawn else { return self.seed_and_follow(objects).boxed_local() };
        async move {
            let seeded = self.seed_and_follow(drawn.objects(objects)).await;
            seeded.map(|stored| drawn.stored(stored)).map_err(|error| match error {
                SeedError::Refused(why) => SeedError::Refused(self.own_names(why)),
                SeedError::Failed(why) => SeedError::Failed(self.own_names(why)),
            })
        }
        .boxed_local()
    }

    fn send(&self, call: Call) -> LocalBoxFuture<'_, Answer> {
        drawn::send(&self.proxy, call, self.drawn.as_deref()).boxed_local()
    }

    fn access(&self) -> Access<'_> {
        Access::Kubeconfig(&self.kubeconfig)
    }

    fn gate(&self) -> ConnectionGate {
        self.gate.clone()
    }

    fn clear(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), ClusterError>> {
        async move {
            self.stop.cancel();
            for task in self.tasks.lock().drain(..) {
                task.abort();
            }
            if self.proxy.failure().is_some() {
                // The server does not respond: what is left goes with the server.
                return Ok(());
            }
            let clear = self.clear_until_nothing_is_left();
            let cleared = Clock::wall().timeout(CLEAR_LIMIT, clear).await.unwrap_or_else(|| {
                let left: Vec<String> =
                    self.namespaces.iter().map(|name| self.proxy.names().cluster_name(name)).collect();
                Err(ServerError::Silent { limit: CLEAR_LIMIT, namespaces: left.join(", ") })
            });
            cleared.map_err(|error| ClusterError::Leftovers(error.to_string()))
        }
        .boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plumbline::fixture::parse::read;
    use plumbline::time::run_wall;
    use plumbline::transcript::AgentRules;
    use plumbline_apiserver::faults::FaultRuleSpec;
    use plumbline_apiserver::{ApiServer, ApiServerConfig};

    use super::*;
    use crate::cluster::provision::kubeconfig::{ExistingClusterOptions, start};

    /// Takes the second node a second after its request.
    const SLOW: &str = "{on: {verbs: [create], resource: nodes}, nth: 2, verdict: {delay: {milliseconds: 1000}}}";
    const NODES: &str = "\
promise: A node gets its annotation.
rule: BR-19-07
level: core
feature: ttl.annotation
given: { nodes: [n1, n2] }
steps: [{ by: 5s, eventually: { exists: nodes/n1 } }]
";

    /// Seeding is cut off, as a signal does, while one node exists and the request for the other one is under way.
    #[test]
    fn nothing_is_left_of_a_fixture_that_is_cut_off() {
        let serving = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
        let listening = serving.block_on(listen(server.clone(), ListenOptions::loopback())).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        listening.write_kubeconfig(&kubeconfig).unwrap();
        serving.spawn(listening.serve(CancellationToken::new()));
        let rule: FaultRuleSpec = serde_saphyr::from_str(SLOW).unwrap();
        server.faults().arm(rule.into());
        let options = ExistingClusterOptions {
            kubeconfig: Some(kubeconfig),
            allow_disruptive: true,
            ..ExistingClusterOptions::default()
        };
        let cluster = RemoteCluster::start(|| start(&options, Path::new("unused"))).unwrap();
        let (fixtures, problems) = read(Path::new("nodes.yaml"), "ttl", NODES);
        assert!(problems.is_empty(), "{problems:?}");
        let nodes = || server.list(&ResourceId::new("", "nodes"), None).len();
        run_wall(async {
            let clock = Clock::wall();
            let agents = Agents::new(AgentRules::default(), &[]);
            let sandbox = cluster.sandbox(&fixtures[0], &clock, agents).await.unwrap();
            let first = async {
                while nodes() == 0 {
                    clock.sleep(Duration::from_millis(5)).await;
                }
            };
            let node = |name: &str| serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            tokio::select! {
                seeded = sandbox.seed(vec![node("n1"), node("n2")]) => panic!("too fast: {seeded:?}"),
                () = first => {}
            }
            assert_eq!(nodes(), 1);
            sandbox.clear().await.unwrap();
            assert_eq!(nodes(), 0);
            clock.sleep(Duration::from_millis(1200)).await;
            assert_eq!(nodes(), 0, "no request is under way any more");
        })
        .unwrap();
        cluster.stop().unwrap();
    }
}
