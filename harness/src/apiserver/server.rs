//! The handle of one running server: everything that the verbs share.

use std::sync::Arc;

use super::request::{ApiRequest, Reply};
use super::status::Status;
use super::store::{HistoryLimits, ResourceId, Store, Stored};
use crate::time::Clock;
use crate::transcript::Transcript;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct ApiServerConfig {
    /// The server's time: creation timestamps, grace periods, watch timeouts.
    pub clock: Clock,
    /// Where uids and generated names come from: the same seed gives the same ones.
    pub seed: u64,
    /// How much of the past is kept for watches.
    pub history: HistoryLimits,
}

impl ApiServerConfig {
    /// The usual set-up on `clock`.
    pub fn new(clock: Clock) -> Self {
        Self { clock, seed: 0, history: HistoryLimits::default() }
    }
}

/// One server. Clones are handles of the same server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: ApiServerConfig,
    store: Store,
    transcript: Transcript,
}

impl ApiServer {
    /// A server with the namespaces every cluster has.
    pub fn new(config: ApiServerConfig) -> Self {
        let store = Store::new(config.history);
        Self { shared: Arc::new(Shared { config, store, transcript: Transcript::new() }) }
    }

    /// The server's clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.config.clock
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The record of everything that happened.
    pub fn transcript(&self) -> &Transcript {
        &self.shared.transcript
    }

    /// Answers a request.
    pub async fn handle(&self, request: ApiRequest) -> Reply {
        std::future::ready(()).await;
        tracing::debug!(path = request.path, "not served yet");
        Reply::status(&Status::unknown_resource())
    }

    /// The object at rest under `namespace` (empty for cluster-scoped kinds) and `name`.
    pub fn get(&self, resource: &ResourceId, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.shared.store.get(resource, &super::store::key(namespace, name))
    }

    /// Makes the past before `revision` unavailable, as etcd's compaction does: watches and lists that need it get 410.
    pub fn compact(&self, revision: u64) {
        self.shared.store.compact(revision);
    }
}
