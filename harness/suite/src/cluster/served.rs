//! The fake API server over HTTPS, in wall time: for subjects that are separate processes.
//!
//! Each fixture gets its own server, in the fixture's runtime, on a free loopback port, so fixtures run in parallel
//! without sharing anything, cluster-scoped objects included. All requests over the socket come from the subject; steps
//! call the server in process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use plumbline::fixture::{Capability, Fixture};
use plumbline::time::Clock;
use plumbline::transcript::{Agents, RecordedJson, Transcript};
use plumbline_apiserver::faults::Faults;
use plumbline_apiserver::listener::{ConnectionGate, ListenOptions, listen};
use plumbline_apiserver::{ApiServer, ApiServerConfig, KubernetesVersion, ResourceId};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::embedded::{seed, send};
use super::{Access, Answer, Call, Cluster, ClusterError, ClusterTime, Role, Sandbox, SeedError};
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
        if guest::is_inside() { ClusterTime::Traced } else { ClusterTime::Wall }
    }

    fn sandbox<'a>(
        &'a self,
        _: &'a Fixture,
        clock: &'a Clock,
        agents: Agents,
    ) -> LocalBoxFuture<'a, Result<Box<dyn Sandbox>, ClusterError>> {
        async move {
            let config = ApiServerConfig { kubernetes_version: self.kubernetes, ..ApiServerConfig::new(clock.clone()) };
            let server = ApiServer::new(Role::enforced(self.role.as_ref(), config));
            let failed = |error: &dyn std::fmt::Display| ClusterError::Sandbox(error.to_string());
            server.seed(self.role.as_ref().map_or_else(Vec::new, Role::objects)).map_err(|error| failed(&error))?;
            let listening = listen(
                SubjectEndpoint::new(server.clone(), agents),
                ListenOptions { plain: self.plain, ..ListenOptions::loopback() },
            )
            .await;
            let listening = listening.map_err(|error| failed(&error))?;
            let folder = crate::process::tempdir::create().map_err(|error| failed(&error))?;
            let kubeconfig = folder.path().join("kubeconfig");
            listening.write_kubeconfig(&kubeconfig).map_err(|error| failed(&error))?;
            let stop = CancellationToken::new();
            let door = listening.door();
            let serving = tokio::spawn(listening.serve(stop.clone()));
            Ok(Box::new(ServedSandbox { server, kubeconfig, stop, door, serving, _folder: folder }) as Box<dyn Sandbox>)
        }
        .boxed_local()
    }
}

/// The server of one fixture and its socket.
struct ServedSandbox {
    server: ApiServer,
    kubeconfig: PathBuf,
    stop: CancellationToken,
    door: ConnectionGate,
    serving: JoinHandle<()>,
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

    fn compact(&self) {
        self.server.compact(self.server.revision());
    }

    fn seed(&self, objects: Vec<Value>) -> LocalBoxFuture<'_, Result<Vec<RecordedJson>, SeedError>> {
        let seeded = seed(&self.server, objects);
        async { seeded.map_err(SeedError::from) }.boxed_local()
    }

    fn send(&self, call: Call) -> LocalBoxFuture<'_, Answer> {
        send(&self.server, call).boxed_local()
    }

    fn access(&self) -> Access<'_> {
        Access::Kubeconfig(Path::new(&self.kubeconfig))
    }

    fn door(&self) -> ConnectionGate {
        self.door.clone()
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
