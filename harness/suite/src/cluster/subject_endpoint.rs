//! Attributes what arrives over a socket to the subject.

use std::sync::Arc;

use plumbline::time::Clock;
use plumbline::transcript::Agents;
use plumbline_apiserver::listener::RequestHandler;
use plumbline_apiserver::{ApiRequest, Reply};

/// A server as the subject reaches it over a socket: all requests are attributed to the subject.
#[derive(Clone)]
pub(super) struct SubjectEndpoint<H> {
    server: H,
    agents: Arc<Agents>,
}

impl<H> SubjectEndpoint<H> {
    /// Wraps `server`.
    pub(super) fn new(server: H, agents: Agents) -> Self {
        Self { server, agents: Arc::new(agents) }
    }
}

impl<H: RequestHandler> RequestHandler for SubjectEndpoint<H> {
    async fn handle(&self, mut request: ApiRequest) -> Reply {
        request.attribution = Some(self.agents.attribute(&request));
        self.server.handle(request).await
    }

    fn clock(&self) -> &Clock {
        self.server.clock()
    }

    fn rekey(&self, token: &str) {
        self.server.rekey(token);
    }

    fn issued_token(&self, token: &str) -> bool {
        self.server.issued_token(token)
    }
}
