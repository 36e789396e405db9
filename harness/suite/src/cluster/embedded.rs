//! The embedded API server: in this process and in virtual time.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use plumbline::fixture::{Capability, Fixture, Release};
use plumbline::time::Clock;
use plumbline::transcript::{Agents, InProcessEndpoint, RecordedJson, Transcript};
use plumbline_apiserver::faults::Faults;
use plumbline_apiserver::listener::{ConnectionGate, RequestHandler};
use plumbline_apiserver::service::into_response;
use plumbline_apiserver::{ApiRequest, ApiServer, ApiServerConfig, KubernetesVersion};
use serde_json::Value;

use super::call::{Answer, Call};
use super::error::{ClusterError, SeedError};
use super::role::Role;
use super::sandbox::{Access, Cluster, ClusterTime, Sandbox};

/// An API server in this process for each fixture, in virtual time. It has every capability.
#[derive(Clone, Debug, Default)]
pub struct EmbeddedCluster {
    /// Role that restricts the subject; `None` allows everything.
    pub role: Option<Role>,
    /// The release of Kubernetes that the server behaves as.
    pub kubernetes: KubernetesVersion,
}

impl EmbeddedCluster {
    /// Returns the first release in which these fixtures hold and that the server can behave as.
    #[must_use]
    pub fn release_for(fixtures: &[Fixture]) -> Option<KubernetesVersion> {
        KubernetesVersion::ALL.into_iter().find(|version| {
            let release = Release::of_git_version(version.git_version());
            release.is_some_and(|release| fixtures.iter().all(|fixture| fixture.releases.contains(release)))
        })
    }
}

impl Cluster for EmbeddedCluster {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn kubernetes(&self) -> Result<String, ClusterError> {
        Ok(self.kubernetes.git_version().to_owned())
    }

    fn capabilities(&self) -> BTreeSet<Capability> {
        Capability::ALL.into_iter().collect()
    }

    fn time(&self) -> ClusterTime {
        ClusterTime::Virtual
    }

    fn sandbox<'a>(
        &'a self,
        _: &'a Fixture,
        clock: &'a Clock,
        agents: Agents,
    ) -> LocalBoxFuture<'a, Result<Box<dyn Sandbox>, ClusterError>> {
        let config = ApiServerConfig {
            kubernetes_version: self.kubernetes,
            own_paths: false,
            ..ApiServerConfig::new(clock.clone())
        };
        let server = ApiServer::new(Role::enforced_by_client(self.role.as_ref(), config));
        let seeded = server.seed(self.role.as_ref().map_or_else(Vec::new, Role::objects));
        async move {
            seeded.map_err(|error| ClusterError::Sandbox(error.to_string()))?;
            let endpoint = InProcessEndpoint::new(server.clone(), agents);
            Ok(Box::new(EmbeddedSandbox { server, endpoint }) as Box<dyn Sandbox>)
        }
        .boxed_local()
    }
}

/// The embedded server of one fixture.
struct EmbeddedSandbox {
    server: ApiServer,
    endpoint: InProcessEndpoint,
}

impl Sandbox for EmbeddedSandbox {
    fn transcript(&self) -> &Transcript {
        self.server.transcript()
    }

    fn faults(&self) -> Option<&Faults> {
        Some(self.server.faults())
    }

    fn revision(&self) -> u64 {
        self.server.revision()
    }

    fn compact(&self) {
        self.server.compact(self.server.revision());
    }

    fn seed(&self, objects: Vec<Value>) -> LocalBoxFuture<'_, Result<Vec<RecordedJson>, SeedError>> {
        let seeded = seed(&self.server, objects, false);
        async { seeded }.boxed_local()
    }

    fn send(&self, call: Call) -> LocalBoxFuture<'_, Answer> {
        send(&self.server, call).boxed_local()
    }

    fn access(&self) -> Access<'_> {
        Access::InProcess(&self.endpoint)
    }

    /// Nothing connects through this gate: the subject's own client factory cuts it off between two polls.
    fn gate(&self) -> ConnectionGate {
        ConnectionGate::default()
    }

    fn clear(self: Box<Self>) -> LocalBoxFuture<'static, Result<(), ClusterError>> {
        async { Ok(()) }.boxed_local()
    }
}

/// Seeds `objects` on `server`, possibly as if they had been created, and returns all objects that it then has.
pub(super) fn seed(server: &ApiServer, objects: Vec<Value>, as_created: bool) -> Result<Vec<RecordedJson>, SeedError> {
    let seeded = if as_created { server.seed_as_created(objects) } else { server.seed(objects) };
    seeded.map_err(|error| SeedError::Failed(error.to_string()))?;
    let resources = server.stored_resources();
    let stored = resources.iter().flat_map(|resource| server.list(resource, None));
    Ok(stored.map(RecordedJson::from).collect())
}

/// Sends `call` to `server` and waits for the complete answer.
pub(super) async fn send(server: &impl RequestHandler, call: Call) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    if let Ok(user_agent) = HeaderValue::from_str(&call.user_agent) {
        headers.insert(header::USER_AGENT, user_agent);
    }
    let body = match call.body {
        Some((content_type, body)) => {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            body.to_string().into()
        }
        None => bytes::Bytes::new(),
    };
    let request = ApiRequest { headers, body, ..ApiRequest::new(call.method, &call.path) };
    let reply = server.handle(request).await;
    if reply.drop_connection {
        return Answer { code: 0, retry_after: None, body: Value::Null };
    }
    let response = into_response(reply);
    let code = response.status().as_u16();
    let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let bytes = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let body =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Answer { code, retry_after, body }
}
