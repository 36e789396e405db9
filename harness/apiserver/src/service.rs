//! The server as a `tower::Service`, which in-process `kube::Client`s use, in virtual time.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};

use super::request::{ApiRequest, Attributor, Reply, ReplyBody};
use super::server::ApiServer;

/// The transport error that an in-process client gets when a fault cuts its connection.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by peer")]
pub struct ConnectionReset;

/// The body of a reply, in process and over sockets.
pub type HttpBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// The server as a `tower::Service` over HTTP requests with any body, for `kube::Client::new` of any kube version.
#[derive(Clone)]
pub struct InProcessService {
    server: ApiServer,
    user_agent: Option<http::HeaderValue>,
    attributor: Option<Attributor>,
}

impl InProcessService {
    /// Attributes all requests of this service to the parties that `attributor` names, regardless of their user agents.
    #[must_use]
    pub fn attributed(self, attributor: Attributor) -> Self {
        Self { attributor: Some(attributor), ..self }
    }
}

impl ApiServer {
    /// Returns a service for `kube::Client::new`. Requests keep the user agent that the client sets.
    pub fn service(&self) -> InProcessService {
        InProcessService { server: self.clone(), user_agent: None, attributor: None }
    }

    /// Returns a client of this server that sends `user_agent`, with the default namespace `default`. A text that is
    /// not allowed in a header is not sent. Needs the feature `client`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kube::api::{Api, ListParams};
    /// use plumbline_apiserver::{ApiServer, clock};
    ///
    /// let names = clock::run_virtual(async {
    ///     let server = ApiServer::builder().build();
    ///     let namespaces: Api<Namespace> = Api::all(server.client("my-controller"));
    ///     let list = namespaces.list(&ListParams::default()).await?;
    ///     Ok::<_, kube::Error>(list.items.into_iter().filter_map(|item| item.metadata.name).collect::<Vec<_>>())
    /// })??;
    /// assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime: the client spawns a task.
    #[cfg(feature = "client")]
    pub fn client(&self, user_agent: &str) -> kube::Client {
        let user_agent = http::HeaderValue::from_str(user_agent).ok();
        kube::Client::new(InProcessService { user_agent, ..self.service() }, "default")
    }
}

impl<B> tower::Service<Request<B>> for InProcessService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<tower::BoxError>,
{
    type Response = Response<HttpBody>;
    type Error = tower::BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.server.clone();
        let user_agent = self.user_agent.clone();
        let attributor = self.attributor.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            if let Some(user_agent) = user_agent {
                parts.headers.insert(http::header::USER_AGENT, user_agent);
            }
            let mut request = ApiRequest {
                method: parts.method,
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                headers: parts.headers,
                body: body.collect().await.map_err(Into::into)?.to_bytes(),
                attribution: None,
                anonymous: false,
                certificate: None,
                peer: None,
            };
            request.attribution = attributor.map(|attributor| attributor(&request));
            let reply = server.handle(request).await;
            if reply.drop_connection {
                return Err(ConnectionReset.into());
            }
            Ok(into_response(reply))
        })
    }
}

/// Converts a reply into an HTTP response.
pub fn into_response(reply: Reply) -> Response<HttpBody> {
    let body = match reply.body {
        ReplyBody::Full(bytes) => http_body_util::Full::new(bytes).map_err(infallible).boxed_unsync(),
        ReplyBody::Stream(chunks) => StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data))).boxed_unsync(),
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(reply.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = reply.headers;
    response
}

fn infallible(never: Infallible) -> std::io::Error {
    match never {}
}

#[cfg(feature = "client")]
#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
    use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
    use serde_json::json;

    use super::*;
    use crate::clock::{Clock, epoch, run_virtual};
    use crate::server::ApiServerConfig;

    fn pod(name: &str, node: Option<&str>) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app": "x"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        }))
        .unwrap()
    }

    fn virtually<F: Future>(test: impl FnOnce(ApiServer) -> F) -> F::Output {
        run_virtual(async { test(ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())))).await }).unwrap()
    }

    #[test]
    fn a_pod_lives_and_dies_through_a_client() {
        virtually(|server| async move {
            let client = server.client("test/1 user");
            let pods: Api<Pod> = Api::default_namespaced(client.clone());
            let created = pods.create(&PostParams::default(), &pod("a", Some("n1"))).await.unwrap();
            assert!(created.metadata.uid.is_some());
            assert_eq!(created.metadata.creation_timestamp.unwrap().0, epoch());
            let listed = pods.list(&ListParams::default().fields("spec.nodeName=n1").labels("app=x")).await.unwrap();
            assert_eq!(listed.items.len(), 1);
            assert_eq!(pods.list(&ListParams::default().labels("app!=x")).await.unwrap().items.len(), 0);
            let options = DeleteParams::default().grace_period(0);
            pods.delete("a", &options).await.unwrap();
            let error = pods.get("a").await.unwrap_err();
            assert!(matches!(error, kube::Error::Api(status) if status.code == 404), "gone");
        });
    }

    #[test]
    fn watches_resume_and_select() {
        virtually(|server| async move {
            let client = server.client("test/1 user");
            let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
            let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
            let mut map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "m"}})).unwrap();
            maps.create(&PostParams::default(), &map).await.unwrap();
            map.metadata.labels = Some([("on".to_owned(), "yes".to_owned())].into());
            maps.replace("m", &PostParams::default(), &map).await.unwrap();
            map.metadata.labels = None;
            maps.replace("m", &PostParams::default(), &map).await.unwrap();
            let params = WatchParams::default().labels("on").timeout(10);
            let events: Vec<_> = maps.watch(&params, &start).await.unwrap().try_collect().await.unwrap();
            let kinds: Vec<_> = events
                .iter()
                .map(|event| match event {
                    WatchEvent::Added(_) => "added",
                    WatchEvent::Deleted(_) => "deleted",
                    WatchEvent::Modified(_) => "modified",
                    WatchEvent::Bookmark(_) => "bookmark",
                    WatchEvent::Error(_) => "error",
                })
                .collect();
            assert_eq!(kinds, ["added", "deleted", "bookmark"]);
            assert_eq!(server.clock().elapsed().as_secs(), 10);
        });
    }

    #[test]
    fn compacted_watches_get_410_as_an_event() {
        virtually(|server| async move {
            let client = server.client("test/1 user");
            let nodes: Api<Node> = Api::all(client);
            let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
            nodes.create(&PostParams::default(), &node).await.unwrap();
            server.compact(server.store().revision());
            let events: Vec<_> = nodes.watch(&WatchParams::default(), "1").await.unwrap().try_collect().await.unwrap();
            assert!(matches!(&events[..], [WatchEvent::Error(status)] if status.code == 410));
        });
    }
}
