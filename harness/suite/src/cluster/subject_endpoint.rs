//! Attributes what arrives over a socket to the subject.

use std::sync::Arc;

use plumbline::time::Clock;
use plumbline::transcript::Agents;
use plumbline_apiserver::listener::RequestHandler;
use plumbline_apiserver::{ApiRequest, Reply};

use super::drawn::Drawn;

/// A server as the subject reaches it over a socket: all requests are attributed to the subject.
#[derive(Clone)]
pub(super) struct SubjectEndpoint<H> {
    server: H,
    agents: Arc<Agents>,
    /// The names that the subject cannot know, if some were drawn.
    drawn: Option<Arc<Drawn>>,
}

impl<H> SubjectEndpoint<H> {
    /// Wraps `server`.
    pub(super) fn new(server: H, agents: Agents) -> Self {
        Self { server, agents: Arc::new(agents), drawn: None }
    }

    /// Watches for names that the subject cannot know.
    pub(super) fn with_drawn(self, drawn: Option<Arc<Drawn>>) -> Self {
        Self { drawn, ..self }
    }
}

impl<H: RequestHandler> RequestHandler for SubjectEndpoint<H> {
    async fn handle(&self, mut request: ApiRequest) -> Reply {
        if let Some(drawn) = &self.drawn {
            drawn.look_for_known_names(&request);
        }
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
