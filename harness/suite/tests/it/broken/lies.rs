//! Our own controllers behind a connection that falsifies requests or replies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use clap::Parser as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use plumbline::apiserver::service::{HttpBody, InProcessService};
use plumbline::fixture::Controller;
use plumbline_controllers::app::App;
use plumbline_controllers::args::Args;
use plumbline_controllers::runtime::client::{ClientFactory, user_agent};
use plumbline_controllers::runtime::clock::Clock;
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_suite::cluster::Access;
use plumbline_suite::subject::client_factory::KillSwitch;
use plumbline_suite::subject::task::{RunningTask, TaskController};
use plumbline_suite::subject::{Launch, SubjectError};
use serde_json::Value;
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

impl TaskController for Lie {
    fn name(&self) -> String {
        format!("{self:?}")
    }

    fn controllers(&self) -> BTreeSet<Controller> {
        Controller::ALL.into()
    }

    fn start(&self, launch: &Launch<'_>) -> Result<RunningTask, SubjectError> {
        let Access::InProcess(server) = launch.access else {
            return Err(SubjectError::NotStarted("in this process only".to_owned()));
        };
        let names: Vec<&str> = launch.controllers.iter().map(|controller| controller.flag_name()).collect();
        let mut argv =
            vec!["x".to_owned(), format!("--controllers={}", names.join(",")), "--kube-api-qps=0".to_owned()];
        // The fixtures' own flags come last, except for the flag that is the flaw.
        argv.extend(launch.flags.iter().map(|(name, value)| format!("--{name}={value}")));
        if *self == Lie::RoundsDown && !launch.flags.contains_key("max-unavailable-rounding") {
            argv.push("--max-unavailable-rounding=down".to_owned());
        }
        let failed = |error: &dyn std::fmt::Display| SubjectError::NotStarted(error.to_string());
        let config = Args::try_parse_from(argv).map_err(|e| failed(&e))?.config().map_err(|e| failed(&e))?;
        let cut = KillSwitch::default();
        let lie = *self;
        let server = server.clone();
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
        let work = async move { Box::pin(app.run()).await };
        Ok(RunningTask::with_kill_switch(cut, work).stopped_by(stop))
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
            let mut request = if lie == Lie::MarksLost { without_mark(request) } else { request };
            let pods = request.uri().path().contains("/pods");
            if lie == Lie::FirstTolerationHidden {
                // Replies in protobuf would not be falsified.
                request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
            }
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
            Ok(data) => Frame::data(described(&data)),
            Err(frame) => frame,
        })
        .boxed_unsync()
    } else {
        let whole = body.collect().await?.to_bytes();
        Full::new(described(&whole)).map_err(|never| match never {}).boxed_unsync()
    };
    Ok(Response::from_parts(parts, body))
}

/// Removes first tolerations from each line. Text that is not JSON stays unchanged.
fn described(data: &Bytes) -> Bytes {
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
