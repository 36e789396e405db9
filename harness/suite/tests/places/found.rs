//! Existing clusters: contexts, reachability, rights.

use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use plumbline::apiserver::listener::{ListenOptions, listen};
use plumbline::apiserver::{ApiServer, ApiServerConfig};
use plumbline::time::Clock;
use plumbline_suite::cluster::provision::kubeconfig::{ExistingClusterOptions, start};
use plumbline_suite::cluster::provision::{EnvironmentError, FailureKind, Server};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::tools::{folder, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("kubeconfig::a_cluster_that_answers_is_found", None, found),
        trial("kubeconfig::missing_rights_are_named", None, rights),
        trial("kubeconfig::who_does_not_answer_is_named", None, silent),
        trial("kubeconfig::contexts_are_named", None, contexts),
    ]
}

/// Writes a kubeconfig with the contexts `near` and `far`, which lead to `url`; `near` is the current one.
fn kubeconfig(test: &str, url: &str) -> PathBuf {
    let file = folder(test).join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "near",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [
            {"name": "near", "context": {"cluster": "c", "user": "u"}},
            {"name": "far", "context": {"cluster": "c", "user": "u"}},
        ],
    });
    std::fs::write(&file, config.to_string()).expect("a file");
    file
}

async fn begin(options: ExistingClusterOptions) -> Result<Server, EnvironmentError> {
    start(&options, Path::new("unused")).await
}

fn failure(result: Result<Server, EnvironmentError>) -> EnvironmentError {
    result.map(|server| panic!("it is usable: {server:?}")).expect_err("a failure")
}

async fn found() {
    let listening =
        listen(ApiServer::new(ApiServerConfig::new(Clock::wall())), ListenOptions::loopback()).await.expect("a port");
    let file = folder("kubeconfig-found").join("config");
    listening.write_kubeconfig(&file).expect("a kubeconfig");
    let stop = CancellationToken::new();
    let serving = tokio::spawn(listening.serve(stop.clone()));
    let options = ExistingClusterOptions { kubeconfig: Some(file.clone()), ..ExistingClusterOptions::default() };
    let mut server = begin(options).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(server.version.starts_with("v1."));
    assert!(!server.allows_disruption, "disruption was not allowed");
    assert_eq!(server.ended().await, None);
    stop.cancel();
    serving.await.expect("it stops");
    assert!(server.ended().await.is_some(), "the server no longer replies");
    server.stop().await.expect("there is nothing to stop");
    assert!(file.exists(), "the user's own file stays");
}

/// An API server that denies everyone deleting pods, changing nodes, updating the status of pods and creating events.
async fn strict() -> MockServer {
    let server = MockServer::start().await;
    let version = ResponseTemplate::new(200).set_body_json(json!({"gitVersion": "v1.36.0"}));
    Mock::given(method("GET")).and(path("/version")).respond_with(version).mount(&server).await;
    let answer = |request: &Request| {
        let mut review: Value = serde_json::from_slice(&request.body).expect("a review");
        let wanted = &review["spec"]["resourceAttributes"];
        let is = |verb: &str, resource: &str| wanted["verb"] == verb && wanted["resource"] == resource;
        let denied = is("delete", "pods")
            || is("patch", "nodes") && wanted["subresource"].is_null()
            || is("update", "pods") && wanted["subresource"] == "status"
            || is("create", "events");
        review["status"] = json!({"allowed": !denied});
        ResponseTemplate::new(201).set_body_json(review)
    };
    let reviews = path("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    Mock::given(method("POST")).and(reviews).respond_with(answer).mount(&server).await;
    server
}

async fn rights() {
    let server = strict().await;
    let file = kubeconfig("kubeconfig-rights", &server.uri());
    let error = failure(
        begin(ExistingClusterOptions { kubeconfig: Some(file.clone()), ..ExistingClusterOptions::default() }).await,
    );
    assert_eq!(error.kind, FailureKind::Forbidden);
    let missing = ["delete pods", "update pods/status", "create events", "create events.events.k8s.io"];
    assert_eq!(error.evidence, missing);
    let options = ExistingClusterOptions {
        kubeconfig: Some(file),
        allow_disruptive: true,
        context: Some("far".to_owned()),
        ..ExistingClusterOptions::default()
    };
    let error = failure(begin(options).await);
    assert_eq!(error.evidence, [&missing[..], &["patch nodes"]].concat());
    assert!(error.what.contains("\"far\""), "{error}");
}

async fn silent() {
    let file = kubeconfig("kubeconfig-silent", "http://127.0.0.1:1");
    let error =
        failure(begin(ExistingClusterOptions { kubeconfig: Some(file), ..ExistingClusterOptions::default() }).await);
    assert_eq!(error.kind, FailureKind::Unreachable);
    assert!(error.what.contains("\"near\" does not respond") && error.what.contains("refused"), "{error}");
    assert!(error.next.contains("kubectl --context near version"), "{error}");
}

async fn contexts() {
    let file = kubeconfig("kubeconfig-contexts", "http://127.0.0.1:1");
    let wanted = Some("nowhere".to_owned());
    let error = failure(
        begin(ExistingClusterOptions { kubeconfig: Some(file), context: wanted, ..ExistingClusterOptions::default() })
            .await,
    );
    assert_eq!((error.kind, error.evidence), (FailureKind::Missing, vec!["near".to_owned(), "far".to_owned()]));
    let absent = Some(PathBuf::from("/nowhere/config"));
    let error =
        failure(begin(ExistingClusterOptions { kubeconfig: absent, ..ExistingClusterOptions::default() }).await);
    assert!(error.kind == FailureKind::Missing && error.what.contains("/nowhere/config"), "{error}");
}
