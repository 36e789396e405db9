//! Our own controllers behind a connection that falsifies requests or replies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use clap::Parser as _;
use futures::FutureExt as _;
use futures::future::{BoxFuture, LocalBoxFuture};
use http::{HeaderValue, Method, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use plumbline::apiserver::service::{HttpBody, InProcessService};
use plumbline::cluster::Access;
use plumbline::fixture::{Capability, Controller};
use plumbline::subject::client_factory::KillSwitch;
use plumbline::subject::{Identity, Launch, Running, Subject, SubjectError};
use plumbline_controllers::app::App;
use plumbline_controllers::args::Args;
use plumbline_controllers::runtime::client::{ClientFactory, user_agent};
use plumbline_controllers::runtime::clock::Clock;
use plumbline_controllers::runtime::metrics::Metrics;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::Service;

/// The flaw of the connection, or of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    None,
    RoundsDown,
    FirstTolerationHidden,
    MarksLost,
}

/// The controllers with a flaw.
pub(crate) struct Lied(pub(crate) Lie);

impl Subject for Lied {
    fn name(&self) -> &'static str {
        "lied-to"
    }

    fn identity(&self) -> Result<Identity, SubjectError> {
        Ok(Identity { kind: "in-process", what: format!("{:?}", self.0), ..Identity::default() })
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        Controller::ALL.into()
    }

    fn features(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    fn lacks(&self) -> BTreeSet<Capability> {
        [Capability::Metrics].into()
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Running>, SubjectError> {
        let Access::InProcess(server) = launch.access else {
            return Err(SubjectError::NotStarted("in this process only".to_owned()));
        };
        let names: Vec<&str> = launch.controllers.iter().map(|controller| controller.flag_name()).collect();
        let mut argv =
            vec!["x".to_owned(), format!("--controllers={}", names.join(",")), "--kube-api-qps=0".to_owned()];
        // The fixtures' own flags come last, except for the flag that is the flaw.
        argv.extend(launch.flags.iter().map(|(name, value)| format!("--{name}={value}")));
        if self.0 == Lie::RoundsDown && !launch.flags.contains_key("max-unavailable-rounding") {
            argv.push("--max-unavailable-rounding=down".to_owned());
        }
        let failed = |error: &dyn std::fmt::Display| SubjectError::NotStarted(error.to_string());
        let config = Args::try_parse_from(argv).map_err(|e| failed(&e))?.config().map_err(|e| failed(&e))?;
        let (cut, lie, server) = (KillSwitch::default(), self.0, server.clone());
        let clients: ClientFactory = {
            let cut = cut.clone();
            Arc::new(move |name: &str| {
                let agent = HeaderValue::from_str(&user_agent(name)).ok();
                let connection = Connection { inner: server.service(), agent, lie, cut: cut.clone() };
                kube::Client::new(connection, "default")
            })
        };
        let stop = CancellationToken::new();
        let clock = Clock::simulated(launch.clock.now());
        let app = App::new(&config, clients, clock, Metrics::new(), stop.clone());
        let task = tokio::spawn(async move { Box::pin(app.run()).await.map_err(|error| error.to_string()) });
        Ok(Box::new(Task { handle: task, cut, stop: Some(stop) }))
    }
}

/// A subject that runs as a task.
pub(crate) struct Task {
    pub(crate) handle: JoinHandle<Result<(), String>>,
    pub(crate) cut: KillSwitch,
    /// Set for subjects that support an orderly stop.
    pub(crate) stop: Option<CancellationToken>,
}

impl Running for Task {
    fn kill_switch(&self) -> KillSwitch {
        self.cut.clone()
    }

    fn crash(&mut self) {
        self.cut.trip();
        self.handle.abort();
    }

    fn stop(&mut self) -> LocalBoxFuture<'_, Result<(), SubjectError>> {
        async {
            match &self.stop {
                Some(stop) => stop.cancel(),
                None => self.handle.abort(),
            }
            (&mut self.handle).await.unwrap_or(Ok(())).map_err(SubjectError::NotStopped)
        }
        .boxed_local()
    }

    fn metrics(&self) -> LocalBoxFuture<'_, Result<String, SubjectError>> {
        async { Err(SubjectError::NoMetrics("none".to_owned())) }.boxed_local()
    }

    fn ended(&mut self) -> Option<String> {
        self.handle.is_finished().then(|| format!("{:?}", (&mut self.handle).now_or_never()))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

#[derive(Clone)]
struct Connection {
    inner: InProcessService,
    agent: Option<HeaderValue>,
    lie: Lie,
    cut: KillSwitch,
}

type Answer = Response<HttpBody>;

impl Service<Request<Body>> for Connection {
    type Response = Answer;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Answer, tower::BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(agent) = &self.agent {
            request.headers_mut().insert(header::USER_AGENT, agent.clone());
        }
        let Self { mut inner, lie, cut, .. } = self.clone();
        async move {
            if cut.is_tripped() {
                return std::future::pending().await;
            }
            let request = if lie == Lie::MarksLost { without_mark(request) } else { request };
            let pods = request.uri().path().contains("/pods");
            let watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            let answer = inner.call(request).await?;
            if cut.is_tripped() {
                return std::future::pending().await;
            }
            if lie == Lie::FirstTolerationHidden && pods { hide(answer, watch).await } else { Ok(answer) }
        }
        .boxed()
    }
}

/// Turns a patch of a pod's status into a read of the pod.
fn without_mark(request: Request<Body>) -> Request<Body> {
    let path = request.uri().path();
    let Some(pod) = path.strip_suffix("/status").filter(|path| path.contains("/pods/")) else { return request };
    if request.method() != Method::PATCH {
        return request;
    }
    let mut look = Request::get(pod).body(Body::empty()).expect("a path");
    look.headers_mut().extend(request.headers().get(header::USER_AGENT).cloned().map(|a| (header::USER_AGENT, a)));
    look
}

async fn hide(answer: Answer, watch: bool) -> Result<Answer, tower::BoxError> {
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = if watch {
        body.map_frame(|frame| match frame.into_data() {
            Ok(data) => Frame::data(told(&data)),
            Err(frame) => frame,
        })
        .boxed_unsync()
    } else {
        let whole = body.collect().await?.to_bytes();
        Full::new(told(&whole)).map_err(|never| match never {}).boxed_unsync()
    };
    Ok(Response::from_parts(parts, body))
}

/// Removes first tolerations from each line. Text that is not JSON stays unchanged.
fn told(data: &Bytes) -> Bytes {
    let mut out = Vec::with_capacity(data.len());
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        match serde_json::from_slice::<Value>(line) {
            Ok(mut value) => {
                forget(&mut value);
                out.extend(serde_json::to_vec(&value).expect("JSON"));
                out.push(b'\n');
            }
            Err(_) => out.extend(line),
        }
    }
    out.into()
}

fn forget(value: &mut Value) {
    if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(forget);
    }
    if let Some(object) = value.get_mut("object") {
        forget(object);
    }
    if let Some(tolerations) = value.pointer_mut("/spec/tolerations").and_then(Value::as_array_mut)
        && !tolerations.is_empty()
    {
        tolerations.remove(0);
    }
}
