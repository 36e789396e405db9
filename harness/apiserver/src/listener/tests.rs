//! Tests of sockets: credentials, limits, kubeconfigs.

use super::*;
use crate::ApiServerConfig;
use rstest::rstest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

async fn plain(limits: Limits) -> (SocketAddr, String, CancellationToken, tokio::task::JoinHandle<()>) {
    let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
    let options = ListenOptions { plain: true, limits, token: Some("t0ken".to_owned()), ..ListenOptions::loopback() };
    let listening = listen(server, options).await.unwrap();
    let address = listening.address();
    let stop = CancellationToken::new();
    let config = listening.kubeconfig();
    let task = tokio::spawn(listening.serve(stop.clone()));
    (address, config, stop, task)
}

async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[rstest]
#[case::no_token("GET /api HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "HTTP/1.1 403")]
#[case::wrong_token(
    "GET /api HTTP/1.1\r\nhost: x\r\nauthorization: Bearer no\r\nconnection: close\r\n\r\n",
    "HTTP/1.1 401"
)]
#[case::indented_for_curl(
    "GET /api HTTP/1.1\r\nhost: x\r\nauthorization: Bearer no\r\nuser-agent: curl/8\r\nconnection: close\r\n\r\n",
    "{\n  \"kind\": \"Status\","
)]
#[case::two_spaces(
    "GET /api HTTP/1.1\r\nhost: x\r\nauthorization: Bearer  t0ken\r\nconnection: close\r\n\r\n",
    "HTTP/1.1 403"
)]
#[case::health_is_open("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "HTTP/1.1 ")]
#[case::too_large(
    "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t0ken\r\ncontent-length: 104857600\r\n\r\nabc",
    "HTTP/1.1 413"
)]
#[case::garbage("\u{1}\u{2}\u{3}\r\n\r\n", "HTTP/1.1 400")]
#[tokio::test]
async fn answers(#[case] request: &str, #[case] start: &str) {
    let (address, _, stop, task) = plain(Limits::default()).await;
    let answer = exchange(address, request.as_bytes()).await;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    assert!(answer.starts_with(start) || body.starts_with(start), "{answer}");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn header_floods_and_silence_end_the_connection_only() {
    let limits = Limits { head_time: Duration::from_millis(200), ..Limits::default() };
    let (address, _, stop, task) = plain(limits).await;
    let flood = "h: v\r\n".repeat(500);
    let answer = exchange(address, format!("GET /healthz HTTP/1.1\r\n{flood}\r\n").as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_eq!(exchange(address, b"").await, "");
    let slow = exchange(address, b"GET /healthz HTTP/1.1\r\nhost: x\r\n").await;
    assert!(slow.is_empty() || slow.starts_with("HTTP/1.1 4"), "{slow}");
    assert!(!exchange(address, b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.is_empty());
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_connection_is_closed_when_it_has_been_idle() {
    let limits = Limits { idle_time: Duration::from_millis(200), ..Limits::default() };
    let (address, _, stop, task) = plain(limits).await;
    // Two requests on one connection, then silence: reading ends when the server closes the connection.
    let twice = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2);
    let answers = Clock::wall().timeout(Duration::from_secs(30), exchange(address, &twice)).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let limits = Limits { body_time: Duration::from_millis(200), ..Limits::default() };
    let (address, _, stop, task) = plain(limits).await;
    let head =
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t0ken\r\ncontent-length: 100\r\n\r\n{";
    assert!(exchange(address, head.as_bytes()).await.starts_with("HTTP/1.1 408"));
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn https_works_with_the_written_kubeconfig() {
    let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
    let listening = listen(server, ListenOptions::loopback()).await.unwrap();
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&listening.kubeconfig()).unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(listening.serve(stop.clone()));
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let request = Request::get("/nowhere").body(Vec::new()).unwrap();
    let error = client.request::<serde_json::Value>(request).await.unwrap_err();
    assert!(error.to_string().contains("404") || error.to_string().contains("find"), "{error}");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn other_addresses_must_be_allowed() {
    let server = || ApiServer::new(ApiServerConfig::new(Clock::wall()));
    let remote = ListenOptions { address: SocketAddr::from(([0, 0, 0, 0], 0)), ..ListenOptions::loopback() };
    assert!(matches!(listen(server(), remote.clone()).await, Err(ListenError::Remote(_))));
    let plain = ListenOptions { plain: true, allow_remote: true, ..remote.clone() };
    assert!(matches!(listen(server(), plain).await, Err(ListenError::PlainRemote(_))));
    let allowed = listen(server(), ListenOptions { allow_remote: true, ..remote }).await.unwrap();
    assert!(allowed.url().starts_with("https://127.0.0.1:"));
    let bad = ListenOptions { token: Some("a b".to_owned()), ..ListenOptions::loopback() };
    assert!(matches!(listen(server(), bad).await, Err(ListenError::Token)));
}

/// `bearertoken.go` next to other authenticators of upstream, and `writers.go` of its response writers.
#[tokio::test]
async fn headers_of_replies() {
    let (address, _, stop, task) = plain(Limits::default()).await;
    let get = async |path: &str, headers: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}connection: close\r\n\r\n");
        let answer = exchange(address, request.as_bytes()).await;
        answer.split("\r\n\r\n").next().unwrap_or_default().to_owned()
    };
    let two_spaces = get("/api", "authorization: Bearer  t0ken\r\n").await;
    assert!(
        two_spaces.contains("warning: 299 - \"the provided Authorization header contains extra space"),
        "{two_spaces}"
    );
    let token = "authorization: Bearer t0ken\r\n";
    let compressed = get("/openapi/v2", &format!("{token}accept-encoding: gzip\r\n")).await;
    assert!(compressed.contains("content-encoding: gzip"), "{compressed}");
    let short = get("/api/v1/namespaces", &format!("{token}accept-encoding: gzip\r\n")).await;
    let unasked = get("/openapi/v2", token).await;
    for plain in [short, unasked] {
        assert!(plain.starts_with("HTTP/1.1 200") && !plain.contains("content-encoding"), "{plain}");
    }
    stop.cancel();
    task.await.unwrap();
}
