//! Broken transports over real sockets: nothing panics, everything is retried, and the server's delays are respected.
//!
//! Only transport is tested here; the servers have no state. Times are real, so limits are short.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "real sockets need real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::{Client, Config};
use plumbline_controllers::api::node::NodeView;
use plumbline_controllers::api::object_key::ObjectKey;
use plumbline_controllers::runtime::client::{ClientBuilder, Limits, names};
use plumbline_controllers::runtime::clock::Clock;
use plumbline_controllers::runtime::error::ApiError;
use plumbline_controllers::runtime::informer::Informer;
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_controllers::write::actions::Action;
use plumbline_controllers::write::{Reader, Writer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wiremock::matchers::{body_json, header, header_regex, method, path, query_param, query_param_is_missing};
use wiremock::{Mock, MockServer, ResponseTemplate};

const TIME_LIMIT: Duration = Duration::from_millis(300);

/// Awaits `future` and panics if that takes more than a minute.
async fn must_end<F: Future>(future: F) -> F::Output {
    let limit = Duration::from_mins(1);
    Clock::wall().timeout(limit, future).await.expect("the test waits for something that never happens")
}

fn plain(url: &str) -> Client {
    let mut config = Config::new(url.parse().unwrap());
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn builder() -> ClientBuilder {
    let limits = Limits { request_timeout: TIME_LIMIT, ..Limits::default() };
    ClientBuilder::new(names::TTL, Clock::wall(), limits)
}

fn writer(url: &str) -> Writer {
    Writer::new(builder().build(plain(url)))
}

fn reader(url: &str) -> Reader {
    Reader::new(builder().build(plain(url)), Clock::wall())
}

fn patch_ttl() -> Action {
    Action::PatchNodeTtl { node: "n1".into(), ttl_seconds: 15 }
}

fn node(version: &str) -> Value {
    json!({ "kind": "Node", "apiVersion": "v1",
        "metadata": { "name": "n1", "uid": "u1", "resourceVersion": version } })
}

fn failure(code: u16, reason: &str) -> ResponseTemplate {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("{reason} says the server") });
    ResponseTemplate::new(code).set_body_json(status)
}

/// Starts a server on a raw socket: each connection gets the next of these responses, then is closed (`None`: at once,
/// with a reset). The last one repeats.
async fn raw(answers: Vec<Option<String>>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let nth = counted.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4096];
            let _ = socket.read(&mut request).await;
            match &answers[nth.min(answers.len() - 1)] {
                Some(answer) => drop(socket.write_all(answer.as_bytes()).await),
                None => socket.set_zero_linger().unwrap(),
            }
        }
    });
    (url, connections)
}

fn whole(body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn torn() -> String {
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"kind\": \"No".to_owned()
}

#[tokio::test]
async fn a_write_carries_user_agent_content_type_and_body() {
    let server = MockServer::start().await;
    Mock::given(method("PATCH"))
        .and(path("/api/v1/nodes/n1"))
        .and(header("content-type", "application/strategic-merge-patch+json"))
        .and(header_regex(
            "user-agent",
            r"^plumbline-controllers/\d+\.\d+\.\d+ \(.+/.+\) kubernetes/1\.36/ttl-controller$",
        ))
        .and(body_json(json!({ "metadata": { "annotations": { "node.alpha.kubernetes.io/ttl": "15" } } })))
        .respond_with(ResponseTemplate::new(200).set_body_json(node("2")))
        .expect(1)
        .mount(&server)
        .await;
    writer(&server.uri()).apply(&patch_ttl(), "test").await.unwrap();
}

#[tokio::test]
async fn retry_after_is_waited_for_and_the_request_repeated() {
    let server = MockServer::start().await;
    let busy = failure(429, "TooManyRequests").insert_header("Retry-After", "1");
    Mock::given(method("PATCH")).respond_with(busy).up_to_n_times(1).expect(1).mount(&server).await;
    Mock::given(method("PATCH"))
        .respond_with(ResponseTemplate::new(200).set_body_json(node("2")))
        .expect(1)
        .mount(&server)
        .await;
    let start = Instant::now();
    writer(&server.uri()).apply(&patch_ttl(), "test").await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn without_retry_after_the_controller_decides() {
    let server = MockServer::start().await;
    Mock::given(method("PATCH")).respond_with(failure(429, "TooManyRequests")).expect(1).mount(&server).await;
    let error = writer(&server.uri()).apply(&patch_ttl(), "test").await.unwrap_err();
    assert!(matches!(error, ApiError::TooManyRequests { after: None, .. }), "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn classes_of_refusals() {
    for (code, class) in [
        (404, "not-found"),
        (409, "conflict"),
        (403, "refused"),
        (422, "refused"),
        (500, "transient"),
        (503, "transient"),
    ] {
        let server = MockServer::start().await;
        Mock::given(method("PATCH")).respond_with(failure(code, "Reason")).expect(1).mount(&server).await;
        let error = writer(&server.uri()).apply(&patch_ttl(), "test").await.unwrap_err();
        assert_eq!((error.class(), error.to_string().as_str()), (class, "Reason says the server"), "{code}");
    }
}

#[tokio::test]
async fn an_error_page_of_a_proxy_is_a_transient_error() {
    let server = MockServer::start().await;
    Mock::given(method("PATCH"))
        .respond_with(ResponseTemplate::new(502).set_body_string("<html>bad gateway"))
        .mount(&server)
        .await;
    let error = writer(&server.uri()).apply(&patch_ttl(), "test").await.unwrap_err();
    assert_eq!(error.class(), "transient", "{error:?}");
}

#[tokio::test]
async fn hanging_headers_end_at_the_time_limit() {
    let server = MockServer::start().await;
    let slow = ResponseTemplate::new(200).set_body_json(node("2")).set_delay(Duration::from_mins(1));
    Mock::given(method("PATCH")).respond_with(slow).mount(&server).await;
    let start = Instant::now();
    let error = writer(&server.uri()).apply(&patch_ttl(), "test").await.unwrap_err();
    assert!(matches!(error, ApiError::Timeout(_)) && error.is_retryable(), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_body_that_never_ends_ends_at_the_time_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await.unwrap();
        socket.write_all(torn().as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    let error = writer(&url).apply(&patch_ttl(), "test").await.unwrap_err();
    assert!(matches!(error, ApiError::Timeout(_)), "{error:?}");
}

#[tokio::test]
async fn a_write_over_a_broken_connection_is_not_repeated_blindly() {
    for answer in [None, Some(torn())] {
        let (url, connections) = raw(vec![answer]).await;
        let error = writer(&url).apply(&patch_ttl(), "test").await.unwrap_err();
        assert!(matches!(error, ApiError::Transport(_)) && error.is_retryable(), "{error:?}");
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_read_over_a_broken_connection_is_repeated_after_a_second() {
    for answer in [None, Some(torn())] {
        let (url, connections) = raw(vec![answer, Some(whole(&node("7")))]).await;
        let start = Instant::now();
        let node: NodeView = reader(&url).get(&ObjectKey::cluster("n1")).await.unwrap();
        assert_eq!(&*node.metadata.resource_version, "7");
        assert_eq!(connections.load(Ordering::SeqCst), 2);
        assert!(start.elapsed() >= Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_transport_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = reader(&url).get::<NodeView>(&ObjectKey::cluster("n1")).await.unwrap_err();
    assert!(matches!(error, ApiError::Transport(_)), "{error:?}");
}

#[tokio::test]
async fn the_informer_survives_a_torn_list_a_reset_and_a_dropped_watch() {
    let list =
        json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "5" }, "items": [node("4")] });
    let added = json!({ "type": "MODIFIED", "object": node("6") });
    let watch = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{added}\n{{\"type\": \"MODI");
    let (url, connections) = raw(vec![Some(torn()), None, Some(whole(&list)), Some(watch), None]).await;
    let informer = Arc::new(Informer::<NodeView>::new(Clock::wall(), &Metrics::new()));
    let mut running = tokio::task::JoinSet::new();
    let run = Arc::clone(&informer);
    running.spawn(async move { run.run(&builder(), plain(&url)).await });
    must_end(informer.wait_synced()).await;
    let lister = informer.lister();
    let start = Instant::now();
    while &*lister.get(&ObjectKey::cluster("n1")).unwrap().metadata.resource_version != "6" {
        assert!(start.elapsed() < Duration::from_secs(30), "the watch before the tear was lost");
        Clock::wall().sleep(Duration::from_millis(5)).await;
    }
    while connections.load(Ordering::SeqCst) < 6 {
        assert!(start.elapsed() < Duration::from_secs(30), "the informer gave up");
        Clock::wall().sleep(Duration::from_millis(5)).await;
    }
    assert!(!running.is_empty() && running.try_join_next().is_none(), "still running");
}

#[tokio::test]
async fn the_informer_lists_in_pages_and_starts_over_when_the_list_has_expired() {
    let server = MockServer::start().await;
    let page = |next: &str| {
        json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "5", "continue": next },
            "items": [node("4")] })
    };
    let list = || Mock::given(method("GET")).and(query_param_is_missing("watch"));
    list()
        .and(query_param("continue", "more"))
        .respond_with(failure(410, "Expired"))
        .up_to_n_times(1)
        .expect(1)
        .mount(&server)
        .await;
    list()
        .and(query_param_is_missing("continue"))
        .respond_with(ResponseTemplate::new(200).set_body_json(page("more")))
        .expect(2)
        .mount(&server)
        .await;
    list()
        .and(query_param("continue", "more"))
        .respond_with(ResponseTemplate::new(200).set_body_json(page("")))
        .expect(1)
        .mount(&server)
        .await;
    Mock::given(method("GET"))
        .and(query_param("watch", "true"))
        .respond_with(failure(500, "InternalError"))
        .mount(&server)
        .await;
    let informer = Arc::new(Informer::<NodeView>::new(Clock::wall(), &Metrics::new()));
    let mut running = tokio::task::JoinSet::new();
    let run = Arc::clone(&informer);
    let url = server.uri();
    running.spawn(async move { run.run(&builder(), plain(&url)).await });
    must_end(informer.wait_synced()).await;
    assert_eq!(informer.lister().len(), 1);
}
