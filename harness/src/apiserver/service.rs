//! The server as a `tower::Service`: what an in-process `kube::Client` talks to, in virtual time.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;

use super::request::{ApiRequest, Reply, ReplyBody};
use super::server::ApiServer;

/// Error that a client sees when a fault cuts its connection.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by peer")]
pub struct ConnectionReset;

/// Body of a reply, in process and over sockets.
pub type HttpBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// The server as a service for `kube::Client::new`.
#[derive(Clone, Debug)]
pub struct InProcess {
    server: ApiServer,
    user_agent: Option<http::HeaderValue>,
}

impl ApiServer {
    /// The server as a service for `kube::Client::new`.
    pub fn service(&self) -> InProcess {
        InProcess { server: self.clone(), user_agent: None }
    }

    /// A client of this server that introduces itself as `user_agent`. Make it inside a tokio runtime.
    pub fn client(&self, user_agent: &str) -> kube::Client {
        let service = InProcess { server: self.clone(), user_agent: http::HeaderValue::from_str(user_agent).ok() };
        kube::Client::new(service, "default")
    }
}

impl tower::Service<Request<Body>> for InProcess {
    type Response = Response<HttpBody>;
    type Error = tower::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.server.clone();
        let user_agent = self.user_agent.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            if let Some(user_agent) = user_agent {
                parts.headers.insert(http::header::USER_AGENT, user_agent);
            }
            let request = ApiRequest {
                method: parts.method,
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                headers: parts.headers,
                body: body.collect().await?.to_bytes(),
            };
            let reply = server.handle(request).await;
            if reply.drop_connection {
                return Err(ConnectionReset.into());
            }
            Ok(into_response(reply))
        })
    }
}

/// A reply as an HTTP response.
pub fn into_response(reply: Reply) -> Response<HttpBody> {
    let body = match reply.body {
        ReplyBody::Full(bytes) => http_body_util::Full::new(bytes).map_err(never).boxed_unsync(),
        ReplyBody::Pieces(pieces) => {
            StreamBody::new(stream::iter(pieces).map(|piece| Ok(Frame::data(piece)))).boxed_unsync()
        }
        ReplyBody::Stream(chunks) => StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data))).boxed_unsync(),
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(reply.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = reply.headers;
    response
}

fn never(never: Infallible) -> std::io::Error {
    match never {}
}
