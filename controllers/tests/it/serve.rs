//! Health, metrics and caches over a real HTTPS port, while the program runs.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;
use plumbline_controllers::app::{App, Config, ControllerName};
use plumbline_controllers::runtime::clock::Clock;
use plumbline_controllers::runtime::diagnostics::Diagnostics;
use plumbline_controllers::runtime::metrics::Metrics;
use plumbline_controllers::runtime::serve::tls::CertificateSource;
use plumbline_controllers::runtime::serve::{ServeError, ServeOptions, Server, respond};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::support::{clock, empty, failure, list, must_end, pass, serve};

async fn get(diagnostics: &Diagnostics, path: &str) -> (u16, String) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let answer = respond(diagnostics, &Method::GET, path, query, &HeaderMap::new());
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn node() -> Value {
    json!({ "metadata": { "name": "n1", "uid": "u", "resourceVersion": "3" } })
}

fn ttl() -> Config {
    Config { controllers: [ControllerName::Ttl].into(), ..Config::default() }
}

#[tokio::test(start_paused = true)]
async fn a_program_on_its_way_from_start_to_end() {
    let (clients, _) = serve(|line| if line == "GET /api/v1/nodes" { list(&[node()]) } else { empty() });
    let stop = CancellationToken::new();
    let app = App::new(&ttl(), clients, clock(), Metrics::new(), stop.clone());
    let diagnostics = app.diagnostics();
    assert_eq!(get(&diagnostics, "/healthz").await, (200, "ok".into()));
    let unready = "[+]ping ok\n[-]informer-sync failed: reason withheld\n[+]leaderElection ok\n[+]shutdown \
        ok\nreadyz check failed\n";
    assert_eq!(get(&diagnostics, "/readyz").await, (500, unready.into()));
    let why = "internal server error: caches not synced: nodes\n";
    assert_eq!(get(&diagnostics, "/readyz/informer-sync").await, (500, why.into()));
    let app = tokio::spawn(app.run());
    pass(Duration::from_secs(1)).await;
    let ready = "[+]ping ok\n[+]informer-sync ok\n[+]leaderElection ok\n[+]shutdown ok\nreadyz check passed\n";
    assert_eq!(get(&diagnostics, "/readyz?verbose").await, (200, ready.into()));
    let live = "[+]ping ok\n[+]leaderElection ok\n[+]queues ok\nlivez check passed\n";
    assert_eq!(get(&diagnostics, "/livez?verbose=true").await, (200, live.into()));
    let (_, caches) = get(&diagnostics, "/debug/caches").await;
    let caches: Value = serde_json::from_str(&caches).unwrap();
    assert_eq!((&caches["phase"], &caches["leader"]), (&json!("running"), &json!(true)));
    assert_eq!(caches["informers"][0]["resource"], "nodes");
    assert_eq!(caches["informers"][0]["objects"], 1);
    assert_eq!(caches["informers"][0]["lastContact"], "2026-01-01T00:00:00Z");
    assert_eq!(caches["queues"][0]["name"], "ttlcontroller");
    stop.cancel();
    must_end(app).await.unwrap().unwrap();
    assert_eq!(get(&diagnostics, "/readyz/shutdown").await, (500, "internal server error: stopping\n".into()));
}

#[tokio::test(start_paused = true)]
async fn metrics_have_upstreams_names() {
    let (clients, _) = serve(|line| match line {
        "GET /api/v1/nodes" => list(&[node()]),
        line if line.starts_with("PATCH") => failure(500, "InternalError"),
        _ => empty(),
    });
    let metrics = Metrics::new();
    metrics.requests().set_host("10.0.0.1:443");
    metrics.force_delete("default", "orphaned");
    metrics.taint_eviction(Duration::from_millis(700));
    let app = App::new(&ttl(), clients, clock(), metrics, CancellationToken::new());
    let diagnostics = app.diagnostics();
    let app = tokio::spawn(app.run());
    // The first attempt and one retry 5 ms later.
    pass(Duration::from_millis(8)).await;
    let (_, text) = get(&diagnostics, "/metrics").await;
    for line in [
        "# TYPE pod_gc_collector_force_delete_pods_total counter",
        "pod_gc_collector_force_delete_pods_total{namespace=\"default\",reason=\"orphaned\"} 1",
        "taint_eviction_controller_pod_deletions_total 1",
        "# TYPE taint_eviction_controller_pod_deletion_duration_seconds histogram",
        "taint_eviction_controller_pod_deletion_duration_seconds_bucket{le=\"1.0\"} 1",
        "workqueue_adds_total{name=\"ttlcontroller\"} 2",
        "workqueue_unfinished_work_seconds{name=\"ttlcontroller\"} 0.0",
        "workqueue_longest_running_processor_seconds{name=\"ttlcontroller\"} 0.0",
        "rest_client_requests_total{code=\"500\",method=\"PATCH\",host=\"10.0.0.1:443\"} 2",
        "rest_client_request_duration_seconds_count{verb=\"PATCH\",host=\"10.0.0.1:443\"} 2",
        "rest_client_rate_limiter_duration_seconds_count{verb=\"PATCH\",host=\"10.0.0.1:443\"} 2",
        "rest_client_request_size_bytes_bucket{le=\"64.0\",verb=\"PATCH\",host=\"10.0.0.1:443\"} 0",
        "rest_client_request_size_bytes_bucket{le=\"256.0\",verb=\"PATCH\",host=\"10.0.0.1:443\"} 2",
        "running_managed_controllers{manager=\"plumbline-controllers\",name=\"ttl-controller\"} 1",
        "plumbline_informer_synced{resource=\"nodes\"} 1",
        "plumbline_informer_objects{resource=\"nodes\"} 1",
        "plumbline_build_info{version=\"0.2.0\"} 1",
        "# TYPE process_cpu_seconds_total counter",
    ] {
        assert!(text.lines().any(|found| found == line), "no line {line}\n{text}");
    }
    assert!(!text.contains("# EOF"));
    let mut headers = HeaderMap::new();
    headers.insert("accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5".parse().unwrap());
    let answer = respond(&diagnostics, &Method::GET, "/metrics", "", &headers);
    assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    app.abort();
}

#[tokio::test(start_paused = true)]
async fn only_reading_what_exists() {
    let (clients, _) = serve(|_| empty());
    let diagnostics = App::new(&ttl(), clients, clock(), Metrics::new(), CancellationToken::new()).diagnostics();
    assert_eq!(get(&diagnostics, "/x").await.0, 404);
    assert_eq!(get(&diagnostics, "/healthz/x").await.0, 404);
    let answer = respond(&diagnostics, &Method::POST, "/healthz", "", &HeaderMap::new());
    assert_eq!((answer.status().as_u16(), &answer.headers()["allow"]), (405, &"GET, HEAD".parse().unwrap()));
}

fn diagnostics() -> Diagnostics {
    let (clients, _) = serve(|_| empty());
    App::new(&ttl(), clients, Clock::wall(), Metrics::new(), CancellationToken::new()).diagnostics()
}

async fn start(certificate: CertificateSource, tls13_only: bool, clock: Clock) -> SocketAddr {
    let options = ServeOptions { address: "127.0.0.1:0".parse().unwrap(), certificate, tls13_only };
    let server = Server::bind(options, diagnostics(), clock).await.unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run());
    address
}

/// Returns the certificate that the server presents, and its response to `GET path`.
async fn https(
    address: SocketAddr,
    path: &str,
    version: &'static rustls::SupportedProtocolVersion,
) -> Option<(Vec<u8>, String)> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(Anything)).with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let leaf = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    Some((leaf, answer))
}

#[tokio::test]
async fn a_certificate_is_made_where_none_is_given() {
    let names = CertificateSource::SelfSigned { names: vec!["localhost".into()] };
    let address = start(names.clone(), false, Clock::wall()).await;
    let (_, answer) = https(address, "/livez", &rustls::version::TLS12).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    let strict = start(names, true, Clock::wall()).await;
    assert!(https(strict, "/livez", &rustls::version::TLS12).await.is_none());
    assert!(https(strict, "/livez", &rustls::version::TLS13).await.is_some());
}

#[tokio::test]
async fn what_cannot_be_served_is_said_at_the_start() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = |certificate| ServeOptions { address: taken.local_addr().unwrap(), certificate, tls13_only: false };
    let names = CertificateSource::SelfSigned { names: vec!["localhost".into()] };
    let error = Server::bind(options(names), diagnostics(), Clock::wall()).await.err().unwrap();
    assert!(matches!(error, ServeError::Bind { .. }), "{error}");
    assert!(error.to_string().ends_with("choose another --secure-port, or 0 for none"), "{error}");
    let files = CertificateSource::Files { cert: "/nowhere/tls.crt".into(), key: "/nowhere/tls.key".into() };
    let error = Server::bind(options(files), diagnostics(), Clock::wall()).await.err().unwrap();
    assert!(error.to_string().starts_with("unable to read /nowhere/tls.crt: "), "{error}");
}

/// Accepts any certificate: the test inspects it itself.
#[derive(Debug)]
struct Anything;

impl rustls::client::danger::ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
