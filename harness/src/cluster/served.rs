//! The fake API server over HTTPS, in wall time: for subjects that are separate processes.
//!
//! Each fixture gets its own server, in the fixture's runtime, on a free loopback port, so fixtures run in parallel
//! without sharing anything, cluster-scoped objects included. All requests over the socket come from the subject; steps
//! call the server in process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::embedded::{seed, send};
use super::{Access, Answer, Call, Cluster, Role, Stage, Unplanted};
use crate::apiserver::discovery::KUBERNETES_VERSION;
use crate::apiserver::faults::Faults;
use crate::apiserver::listener::{Door, ListenOptions, listen};
use crate::apiserver::{ApiServer, ApiServerConfig, ResourceId};
use crate::fixture::{Capability, Fixture};
use crate::time::Clock;
use crate::transcript::Transcript;

/// A fake server over HTTPS for each fixture, in wall time. It has every capability except virtual time.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Role that restricts the subject; `None` allows everything.
    pub role: Option<Role>,
}

impl Cluster for Served {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn kubernetes(&self) -> Result<String, String> {
        Ok(KUBERNETES_VERSION.to_owned())
    }

    fn capabilities(&self) -> BTreeSet<Capability> {
        Capability::ALL.into_iter().filter(|capability| *capability != Capability::VirtualTime).collect()
    }

    fn stage<'a>(&'a self, _: &'a Fixture, clock: &'a Clock) -> LocalBoxFuture<'a, Result<Box<dyn Stage>, String>> {
        async {
            let server = ApiServer::new(Role::enforced(self.role.as_ref(), ApiServerConfig::new(clock.clone())));
            let objects = self.role.as_ref().map_or_else(Vec::new, Role::objects);
            server.seed(objects).map_err(|error| error.to_string())?;
            let listening =
                listen(server.clone(), ListenOptions::loopback()).await.map_err(|error| error.to_string())?;
            let folder = crate::scratch::folder().map_err(|no_room| no_room.to_string())?;
            let kubeconfig = folder.path().join("kubeconfig");
            listening.write_kubeconfig(&kubeconfig).map_err(|error| error.to_string())?;
            let (stop, door) = (CancellationToken::new(), listening.door());
            let serving = tokio::spawn(listening.serve(stop.clone()));
            Ok(Box::new(ServedStage { server, kubeconfig, stop, door, serving, _folder: folder }) as Box<dyn Stage>)
        }
        .boxed_local()
    }
}

/// The server of one fixture and its socket.
struct ServedStage {
    server: ApiServer,
    kubeconfig: PathBuf,
    stop: CancellationToken,
    door: Door,
    serving: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Stage for ServedStage {
    fn transcript(&self) -> &Transcript {
        self.server.transcript()
    }

    fn faults(&self) -> Option<&Faults> {
        Some(self.server.faults())
    }

    fn revision(&self) -> u64 {
        self.server.store().revision()
    }

    fn keep_back(&self, resource: &ResourceId) -> bool {
        let faults = self.server.faults();
        let free = !faults.is_held(resource);
        if free {
            faults.hold(resource);
        }
        free
    }

    fn let_go(&self, resource: &ResourceId) {
        self.server.faults().release(resource, Some(self.revision()));
    }

    fn keep_readers_waiting(&self) -> bool {
        self.server.faults().keep_readers_waiting(true);
        true
    }

    fn let_readers_in(&self) {
        self.server.faults().keep_readers_waiting(false);
    }

    fn compact(&self) {
        self.server.compact(self.server.store().revision());
    }

    fn seed(&self, objects: Vec<Value>) -> LocalBoxFuture<'_, Result<Vec<Value>, Unplanted>> {
        let seeded = seed(&self.server, objects);
        async { seeded.map_err(Unplanted::from) }.boxed_local()
    }

    fn send(&self, call: Call) -> LocalBoxFuture<'_, Answer> {
        send(&self.server, call).boxed_local()
    }

    fn access(&self) -> Access<'_> {
        Access::Kubeconfig(Path::new(&self.kubeconfig))
    }

    fn door(&self) -> Door {
        self.door.clone()
    }

    fn clear(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), String>> {
        async move {
            self.stop.cancel();
            self.serving.abort();
            Ok(())
        }
        .boxed_local()
    }
}
