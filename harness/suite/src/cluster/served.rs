//! The fake API server over HTTPS, in wall time: for subjects that are separate processes.
//!
//! Each fixture gets its own server, in the fixture's runtime, on a free loopback port, so fixtures run in parallel
//! without sharing anything, cluster-scoped objects included. All requests over the socket come from the subject; steps
//! call the server in process.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use plumbline::fixture::{Capability, Fixture};
use plumbline::time::Clock;
use plumbline::transcript::{Agents, RecordedJson, Transcript};
use plumbline_apiserver::faults::Faults;
use plumbline_apiserver::listener::{ConnectionGate, ListenOptions, listen};
use plumbline_apiserver::{ApiServer, ApiServerConfig, KubernetesVersion, ResourceId};
use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::call::{Answer, Call};
use super::drawn::{self, Drawn};
use super::embedded::seed;
use super::error::{ClusterError, SeedError};
use super::role::Role;
use super::sandbox::{Access, Cluster, ClusterTime, Sandbox};
use crate::cluster::subject_endpoint::SubjectEndpoint;
use crate::guest;

/// A fake server over HTTPS for each fixture, in wall time, which is virtual if this process is traced. It has every
/// capability except, on a real clock, virtual time.
#[derive(Clone, Debug, Default)]
pub struct ServedCluster {
    /// Role that restricts the subject; `None` allows everything.
    pub role: Option<Role>,
    /// The release of Kubernetes that the server behaves as.
    pub kubernetes: KubernetesVersion,
    /// Plain HTTP instead of HTTPS.
    pub plain: bool,
    /// True if the fixtures run in other processes, which are traced.
    pub is_elsewhere: bool,
    /// Seed of what is drawn for each fixture, such as the names of its objects; `None` draws nothing.
    pub seed: Option<u64>,
    /// The parts of a cluster that run beside the server, if there are some.
    pub around: Option<Around>,
}

/// The cluster around a program: the settings of its server, and its other parts, such as kubelets.
#[derive(Clone)]
pub struct Around {
    /// Changes the settings of the server.
    pub configure: Arc<dyn Fn(&mut ApiServerConfig) + Send + Sync>,
    /// Seeds the server with the objects of the cluster and starts its parts; they end when the set is dropped.
    pub start: Arc<StartAround>,
}

/// Starts what runs beside a server.
pub type StartAround = dyn Fn(&ApiServer) -> Result<JoinSet<()>, AroundError> + Send + Sync;

/// A reason for which nothing runs beside a server.
#[derive(Debug, thiserror::Error)]
pub enum AroundError {
    /// Flags of the server are unfit.
    #[error("{0}")]
    Flags(String),
    /// The server refuses an object of the cluster.
    #[error(transparent)]
    Seed(#[from] plumbline_apiserver::SeedError),
}

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}

impl Cluster for ServedCluster {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn kubernetes(&self) -> Result<String, ClusterError> {
        Ok(self.kubernetes.git_version().to_owned())
    }

    fn capabilities(&self) -> BTreeSet<Capability> {
        let has = |capability: &Capability| match capability {
            Capability::VirtualTime => self.is_virtual(),
            Capability::SingleThread => false,
            _ => true,
        };
        Capability::ALL.into_iter().filter(has).collect()
    }

    fn time(&self) -> ClusterTime {
        if self.is_elsewhere || guest::is_inside() { ClusterTime::Traced } else { ClusterTime::Wall }
    }

    fn seed(&self) -> Option<u64> {
        self.seed
    }

    fn sandbox<'a>(
        &'a self,
        fixture: &'a Fixture,
        clock: &'a Clock,
        agents: Agents,
    ) -> LocalBoxFuture<'a, Result<Box<dyn Sandbox>, ClusterError>> {
        async move {
            let drawn = self.seed.map(|seed| Arc::new(Drawn::new(fixture, seed)));
            let defaults = ApiServerConfig::new(clock.clone());
            let config = ApiServerConfig {
                kubernetes_version: self.kubernetes,
                own_paths: false,
                seed: drawn.as_ref().map_or(defaults.seed, |drawn| drawn.server_seed),
                recorded_names: drawn.as_ref().map(Drawn::recorded_names).unwrap_or_default(),
                ..defaults
            };
            let mut config = config;
            if let Some(around) = &self.around {
                (around.configure)(&mut config);
            }
            let server = ApiServer::new(Role::enforced(self.role.as_ref(), config));
            let failed = |error: &dyn fmt::Display| ClusterError::Sandbox(error.to_string());
            server.seed(self.role.as_ref().map_or_else(Vec::new, Role::objects)).map_err(|error| failed(&error))?;
            let endpoint = SubjectEndpoint::new(server.clone(), agents).with_drawn(drawn.clone());
            let listening = listen(endpoint, ListenOptions { plain: self.plain, ..ListenOptions::loopback() }).await;
            let listening = listening.map_err(|error| failed(&error))?;
            let folder = crate::process::tempdir::create().map_err(|error| failed(&error))?;
            let kubeconfig = folder.path().join("kubeconfig");
            listening.write_kubeconfig(&kubeconfig).map_err(|error| failed(&error))?;
            let stop = CancellationToken::new();
            let gate = listening.gate();
            let serving = tokio::spawn(listening.serve(stop.clone()));
            let around = self.around.as_ref().map(|around| (around.start)(&server)).transpose();
            let around = around.map_err(|error| failed(&error))?;
            let sandbox = ServedSandbox { server, drawn, kubeconfig, stop, gate, serving, around, _folder: folder };
            Ok(Box::new(sandbox) as Box<dyn Sandbox>)
        }
        .boxed_local()
    }
}

/// The server of one fixture and its socket.
struct ServedSandbox {
    server: ApiServer,
    drawn: Option<Arc<Drawn>>,
    kubeconfig: PathBuf,
    stop: CancellationToken,
    gate: ConnectionGate,
    serving: JoinHandle<()>,
    /// The parts of a cluster beside the server. With them objects are seeded as a cluster would have stored them.
    around: Option<JoinSet<()>>,
    _folder: tempfile::TempDir,
}

impl Sandbox for ServedSandbox {
    fn transcript(&self) -> &Transcript {
        self.server.transcript()
    }

    fn faults(&self) -> Option<&Faults> {
        Some(self.server.faults())
    }

    fn revision(&self) -> u64 {
        self.server.revision()
    }

    fn hold_events(&self, resource: &ResourceId) -> bool {
        let faults = self.server.faults();
        let free = !faults.is_held(resource);
        if free {
            faults.hold(resource);
        }
        free
    }

    fn release_events(&self, resource: &ResourceId) {
        self.server.faults().release(resource, Some(self.revision()));
    }

    fn hold_readers(&self) -> bool {
        self.server.faults().block_readers(true);
        true
    }

    fn release_readers(&self) {
        self.server.faults().block_readers(false);
    }

    fn start_delay(&self) -> Duration {
        self.drawn.as_ref().map_or(Duration::ZERO, |drawn| drawn.delay)
    }

    fn own_names(&self, text: String) -> String {
        drawn::own_names(text, self.drawn.as_deref())
    }

    fn misuse(&self) -> BTreeSet<String> {
        drawn::misuse(self.transcript(), self.drawn.as_deref())
    }

    fn compact(&self) {
        self.server.compact(self.server.revision());
    }

    fn define(&self, definitions: Vec<Value>) -> LocalBoxFuture<'_, Result<(), SeedError>> {
        let seeded = self.server.seed(definitions);
        async { seeded.map(drop).map_err(|error| SeedError::Failed(error.to_string())) }.boxed_local()
    }

    fn seed(&self, objects: Vec<Value>) -> LocalBoxFuture<'_, Result<Vec<RecordedJson>, SeedError>> {
        let Some(drawn) = &self.drawn else {
            let seeded = seed(&self.server, objects, self.around.is_some());
            return async { seeded }.boxed_local();
        };
        let seeded = seed(&self.server, drawn.objects(objects), self.around.is_some());
        let seeded = seeded.map(|stored| drawn.stored(stored));
        async { seeded }.boxed_local()
    }

    fn send(&self, call: Call) -> LocalBoxFuture<'_, Answer> {
        drawn::send(&self.server, call, self.drawn.as_deref()).boxed_local()
    }

    fn access(&self) -> Access<'_> {
        Access::Kubeconfig(Path::new(&self.kubeconfig))
    }

    fn gate(&self) -> ConnectionGate {
        self.gate.clone()
    }

    fn clear(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), ClusterError>> {
        async move {
            self.stop.cancel();
            self.serving.abort();
            Ok(())
        }
        .boxed_local()
    }
}
