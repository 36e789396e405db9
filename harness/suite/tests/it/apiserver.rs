//! Sends the same scripted requests to the fake server and, where its binaries are installed, to a real kube-apiserver.
//!
//! `KUBEBUILDER_ASSETS` names the folder with `etcd` and `kube-apiserver` (envtest's layout). Without it the real half
//! reports that it is skipped and checks nothing.

mod real;
mod script;

use plumbline::apiserver::clock::epoch;
use plumbline::apiserver::{ApiRequest, ApiServer, ApiServerConfig, ReplyBody};
use plumbline::time::{Clock, run_virtual};

use script::{Answer, Line};

/// The scripts; each runs on a fresh server.
const SCRIPTS: [(&str, &str); 7] = [
    ("requests", include_str!("apiserver/requests.txt")),
    ("objects", include_str!("apiserver/objects.txt")),
    ("workloads", include_str!("apiserver/workloads.txt")),
    ("merging", include_str!("apiserver/merging.txt")),
    ("mutations", include_str!("apiserver/mutations.txt")),
    ("corners", include_str!("apiserver/corners.txt")),
    ("admission", include_str!("apiserver/admission.txt")),
];

async fn ask_fake(server: &ApiServer, line: &Line) -> Answer {
    let request = line.request();
    let reply = server.handle(request).await;
    let warnings = reply.headers.get_all(http::header::WARNING).iter();
    let warnings = warnings.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
    let body = match reply.body {
        _ if line.is_bodiless() => Vec::new(),
        ReplyBody::Full(bytes) => bytes.to_vec(),
        ReplyBody::Stream(_) => Vec::new(),
    };
    Answer::new(reply.status, warnings, &body)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn fake(clock: Clock) -> ApiServer {
    ApiServer::new(ApiServerConfig::new(clock))
}

#[test]
fn the_fake_answers_as_the_script_expects() {
    let ran = run_virtual(async {
        let mut wrong = Vec::new();
        for (name, text) in SCRIPTS {
            let server = fake(Clock::virtual_from(epoch()));
            for line in script::parse(text) {
                let answer = ask_fake(&server, &line).await;
                let title = line.title();
                let body = &answer.body;
                if answer.status != line.status {
                    wrong.push(format!("{name}: {title}: expected {}, got {}: {body}", line.status, answer.status));
                } else if answer.status >= 400 && !line.is_bodiless() && !answer.is_refusal() {
                    wrong.push(format!("{name}: {title}: no Status in {body}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
    });
    ran.expect("a runtime");
}

#[test]
fn two_runs_of_the_fake_are_the_same() {
    let ran = run_virtual(async {
        for (_, text) in SCRIPTS {
            let one = fake(Clock::virtual_from(epoch()));
            let two = fake(Clock::virtual_from(epoch()));
            for line in script::parse(text) {
                let first = ask_fake(&one, &line).await;
                let second = ask_fake(&two, &line).await;
                assert_eq!(script::differences(&first, &second), Vec::<String>::new(), "{}", line.title());
            }
            assert_eq!(one.revision(), two.revision());
        }
    });
    ran.expect("a runtime");
}

#[test]
fn the_real_one_answers_the_same() {
    let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") else {
        crate::skips::skip("apiserver", "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver");
        return;
    };
    runtime().block_on(async {
        let mut different = Vec::new();
        for (name, text) in SCRIPTS {
            let cluster = real::start(assets.as_ref()).await.expect("etcd and kube-apiserver start");
            let server = fake(Clock::wall());
            for line in script::parse(text) {
                let ours = ask_fake(&server, &line).await;
                let theirs = cluster.ask(&line).await;
                for difference in script::differences(&theirs, &ours) {
                    different.push(format!("{name}: {}\n    {difference}", line.title()));
                }
            }
        }
        assert!(different.is_empty(), "{} differences (real, then ours):\n{}", different.len(), different.join("\n"));
    });
}

#[test]
fn hostile_bodies_are_refused_and_the_server_lives() {
    runtime().block_on(async {
        let server = fake(Clock::wall());
        let path = "/api/v1/namespaces/default/configmaps";
        let deep = format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        let bodies: [(&str, Vec<u8>); 5] = [
            ("deep", deep.into_bytes()),
            ("deep list", "[".repeat(1_000_000).into_bytes()),
            ("not UTF-8", b"{\"metadata\":{\"name\":\"\xff\xfe\"}}".to_vec()),
            ("large", vec![b' '; 4 << 20]),
            ("many anchors", b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]".to_vec()),
        ];
        for (what, body) in bodies {
            for content_type in ["application/json", "application/yaml"] {
                let mut request = ApiRequest::new(http::Method::POST, path);
                request.headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
                request.body = body.clone().into();
                let reply = server.handle(request).await;
                assert!((400..500).contains(&reply.status), "{what} as {content_type}: {}", reply.status);
            }
        }
        let reply = server.handle(ApiRequest::new(http::Method::GET, path)).await;
        assert_eq!(reply.status, 200);
    });
}
