//! Lists and watches against a server that supports protobuf, does not, or truncates its responses.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kube::Client;
use parking_lot::Mutex;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::api::View as _;
use crate::api::condition::types;
use crate::api::node::NodeView;
use crate::api::object_key::ObjectKey;
use crate::api::pod::PodView;
use crate::api::protobuf::tests::Message;
use crate::api::workload::{ReplicaSetView, Workload as _};
use crate::runtime::client::Encoding;
use crate::runtime::client::{ClientBuilder, Limits, names};
use crate::runtime::informer::Informer;
use crate::runtime::metrics::Metrics;

fn time(seconds: i64) -> Message {
    Message::default().number(1, seconds)
}

/// Metadata with the identity only.
fn metadata_of(name: &str, version: &str) -> Message {
    Message::default().text(1, name).text(3, "ns").text(5, "uid").text(6, version)
}

fn metadata(name: &str, version: &str) -> Message {
    let label = |key: &str, value: &str| Message::default().text(1, key).text(2, value);
    let owner = |kind: &str, controller| {
        let owner = Message::default().text(1, kind).text(3, "owner").text(4, "owner-uid").text(5, "apps/v1");
        owner.number(6, controller)
    };
    Message::default()
        .text(1, name)
        .text(2, "generated-")
        .text(3, "ns")
        .text(5, "uid")
        .text(6, version)
        .number(7, 3)
        .message(8, time(1_700_000_000))
        .message(11, label("b", "2"))
        .message(11, label("a", "1"))
        .message(12, label("node.alpha.kubernetes.io/ttl", "15"))
        .message(12, label("other", "big"))
        .message(13, owner("Node", 0))
        .message(13, owner("ReplicaSet", 1))
        .message(17, Message::default().text(1, "manager"))
}

fn pod(name: &str, version: &str) -> Message {
    let toleration = Message::default().text(1, "key").text(2, "Exists").text(4, "NoExecute").number(5, -7);
    let condition = Message::default().text(1, "Ready").text(2, "True").message(3, Message::default());
    let condition = condition.message(4, time(1_700_000_001)).text(5, "Reason").text(6, "message").number(7, 2);
    let spec =
        Message::default().message(2, Message::default().text(1, "container")).text(10, "n1").message(22, toleration);
    let status = Message::default().text(1, "Running").message(2, condition).text(4, "Why").number(17, 3);
    Message::default().message(1, metadata(name, version)).message(2, spec).message(3, status)
}

/// The same pod as JSON.
fn pod_json(name: &str, version: &str) -> serde_json::Value {
    serde_json::json!({
        "metadata": { "name": name, "namespace": "ns", "uid": "uid", "resourceVersion": version, "generation": 3,
            "creationTimestamp": "2023-11-14T22:13:20Z", "labels": {"a": "1", "b": "2"},
            "annotations": {"node.alpha.kubernetes.io/ttl": "15", "other": "big"},
            "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "Node", "name": "owner", "uid": "owner-uid", "controller": false },
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": "owner-uid",
                    "controller": true },
            ] },
        "spec": { "nodeName": "n1", "containers": [{ "name": "container" }],
            "tolerations": [{ "key": "key", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -7 }] },
        "status": { "phase": "Running", "reason": "Why", "observedGeneration": 3, "conditions": [{ "type": "Ready",
            "status": "True", "lastProbeTime": null, "lastTransitionTime": "2023-11-14T22:13:21Z", "reason": "Reason",
            "message": "message", "observedGeneration": 2 }] },
    })
}

#[test]
fn a_pod_is_the_same_in_both_encodings() {
    let view = PodView::protobuf(&pod("p", "7").0).unwrap();
    assert_eq!(view, serde_json::from_value(pod_json("p", "7")).unwrap());
    assert_eq!(view.controller_ref().unwrap().kind, "ReplicaSet");
    assert!(view.is_ready() && !view.is_terminating());
    assert_eq!(view.condition(types::READY).unwrap().last_probe_time, None);
    let going = Message::default().message(1, metadata("p", "7").message(9, time(1_700_000_002)));
    assert!(PodView::protobuf(&going.0).unwrap().is_terminating());
}

#[test]
fn a_node_is_the_same_in_both_encodings() {
    let taint = Message::default().text(1, "k").text(2, "v").text(3, "NoExecute").message(4, time(1));
    let ready = Message::default().text(1, "Ready").text(2, "False").message(3, time(1));
    let node = Message::default().message(1, metadata("n", "7")).message(2, Message::default().message(5, taint));
    let node = node.message(3, Message::default().message(4, ready));
    let view = NodeView::protobuf(&node.0).unwrap();
    let json = serde_json::json!({ "metadata": pod_json("n", "7")["metadata"],
        "spec": { "taints": [{ "key": "k", "value": "v", "effect": "NoExecute",
            "timeAdded": "1970-01-01T00:00:01Z" }] },
        "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    assert_eq!(view, serde_json::from_value(json).unwrap());
    assert_eq!(view.ttl_annotation(), Some("15"));
}

#[rstest]
#[case::set(Message::default().number(1, 5), 5)]
#[case::none(Message::default(), 1)]
#[case::zero(Message::default().number(1, 0), 0)]
fn a_scale_that_is_absent_is_one(#[case] spec: Message, #[case] replicas: i32) {
    let set = Message::default().message(1, metadata("rs", "7")).message(2, spec);
    let view = ReplicaSetView::protobuf(&set.0).unwrap();
    assert_eq!((view.replicas(), &*view.metadata.uid), (replicas, "uid"));
    assert_eq!(view.controller_ref().unwrap().uid, "owner-uid");
}

/// A `PodList` as a body.
fn list(version: &str, pods: &[&str]) -> Vec<u8> {
    let metadata = Message::default().text(2, version);
    let items = pods.iter().fold(Message::default().message(1, metadata), |list, name| list.message(2, pod(name, "4")));
    let mut body = items.sealed("PodList");
    // The envelope continues with contentEncoding and contentType, both empty.
    body.extend(Message::default().text(3, "").text(4, "").0);
    body
}

fn watch_event(kind: &str, object: Message, of: &str) -> Vec<u8> {
    let event = Message::default().text(1, kind).message(2, Message::default().bytes(1, &object.sealed(of)));
    [&u32::try_from(event.0.len()).unwrap().to_be_bytes()[..], &event.0].concat()
}

fn bookmark(version: &str, ends_list: bool) -> Vec<u8> {
    let mut metadata = Message::default().text(6, version);
    if ends_list {
        metadata = metadata.message(12, Message::default().text(1, LIST_ENDS).text(2, "true"));
    }
    watch_event("BOOKMARK", Message::default().message(1, metadata), "Pod")
}

fn refusal(code: i64, reason: &str) -> Message {
    Message::default().text(2, "Failure").text(3, "words").text(4, reason).number(6, code)
}

/// A response: code, content type, chunks of the body; whether it stays open.
#[derive(Clone)]
struct MockResponse(u16, &'static str, Vec<Vec<u8>>, bool);

const PROTO: &str = "application/vnd.kubernetes.protobuf";

fn whole(body: Vec<u8>) -> MockResponse {
    MockResponse(200, PROTO, vec![body], false)
}

fn quiet() -> MockResponse {
    MockResponse(200, PROTO, Vec::new(), true)
}

fn no_watch_list() -> MockResponse {
    MockResponse(200, PROTO, vec![watch_event("ERROR", refusal(500, "InternalError"), "Status")], false)
}

struct Setup {
    clock: Clock,
    informer: Arc<Informer<PodView>>,
    lines: Arc<Mutex<Vec<String>>>,
    _running: tokio::task::JoinSet<()>,
}

impl Setup {
    fn new(answers: Vec<MockResponse>) -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let answers = Mutex::new(VecDeque::from(answers));
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().trim_start_matches('&').to_owned();
            let accept = request.headers().get("accept").map_or("", |accept| accept.to_str().unwrap());
            seen.lock().push(format!("{}{query}", if accept.contains("protobuf") { "" } else { "json " }));
            let answer = answers.lock().pop_front().unwrap_or_else(quiet);
            async move {
                let MockResponse(code, kind, pieces, open) = answer;
                let pieces =
                    stream::iter(pieces).map(|piece| Ok::<_, tower::BoxError>(Frame::data(Bytes::from(piece))));
                let rest = if open { stream::pending().boxed() } else { stream::empty().boxed() };
                let body = StreamBody::new(pieces.chain(rest)).boxed_unsync();
                Response::builder().status(code).header("content-type", kind).body(body)
            }
        });
        let plain = Client::new(service, "default");
        let informer = Arc::new(Informer::<PodView>::new(clock.clone(), &Metrics::new()));
        let builder =
            ClientBuilder::new(names::INFORMERS, clock.clone(), Limits::default()).with_encoding(Encoding::Protobuf);
        let mut running = tokio::task::JoinSet::new();
        let run = Arc::clone(&informer);
        running.spawn(async move { run.run(&builder, plain).await });
        Self { clock, informer, lines, _running: running }
    }

    async fn after(&self, seconds: u64) -> Vec<String> {
        self.clock.sleep(Duration::from_millis(seconds * 1000 + 1)).await;
        let pods = self.informer.lister().list();
        pods.iter().map(|pod| format!("{}@{}", pod.name(), pod.metadata.resource_version)).collect()
    }

    /// Returns the queries without the parameters that all watches have.
    fn queries(&self) -> Vec<String> {
        let lines = self.lines.lock();
        lines
            .iter()
            .map(|line| line.replace("watch=true&timeoutSeconds=290&allowWatchBookmarks=true&", "watch "))
            .collect()
    }
}

const INITIAL: &str = "watch sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=";

#[tokio::test(start_paused = true)]
async fn a_watch_list_ends_with_its_bookmark_and_goes_on_as_a_watch() {
    let events = vec![
        watch_event("ADDED", pod("b", "3"), "Pod"),
        watch_event("ADDED", pod("a", "4"), "Pod"),
        bookmark("5", true),
        watch_event("MODIFIED", pod("a", "6"), "Pod"),
        watch_event("DELETED", pod("b", "7"), "Pod"),
        bookmark("9", false),
    ];
    let setup = Setup::new(vec![MockResponse(200, PROTO, events, false), quiet()]);
    assert_eq!(setup.after(1).await, ["a@6"]);
    assert!(setup.informer.has_synced());
    assert_eq!(setup.queries(), [INITIAL, "watch resourceVersion=9"]);
    assert_eq!(setup.informer.status().failures, 0);
}

/// A server that sends the bookmark after live events may report a deletion before the end of the list.
#[tokio::test(start_paused = true)]
async fn what_is_deleted_before_a_watch_list_ends_is_gone() {
    let events = vec![
        watch_event("ADDED", pod("a", "3"), "Pod"),
        watch_event("ADDED", pod("b", "4"), "Pod"),
        watch_event("DELETED", pod("a", "5"), "Pod"),
        bookmark("5", true),
    ];
    let setup = Setup::new(vec![MockResponse(200, PROTO, events, true)]);
    assert_eq!(setup.after(1).await, ["b@4"]);
}

/// Go accepts strings that are not UTF-8, and any user who may create pods may write one.
#[tokio::test(start_paused = true)]
async fn a_text_that_is_no_utf_8_spoils_no_list() {
    let owner = |name: &[u8]| Message::default().text(1, "K").bytes(3, name).text(4, "u").text(5, "x/v1").number(6, 1);
    let odd = |name: &str, version: &str| {
        Message::default().message(1, metadata_of(name, version).message(13, owner(b"\xffx")))
    };
    let events = vec![watch_event("ADDED", odd("b", "6"), "Pod"), watch_event("MODIFIED", pod("a", "7"), "Pod")];
    let list = Message::default().message(1, Message::default().text(2, "5")).message(2, odd("a", "4"));
    let setup =
        Setup::new(vec![no_watch_list(), whole(list.sealed("PodList")), MockResponse(200, PROTO, events, true)]);
    assert_eq!(setup.after(1).await, ["a@7", "b@6"]);
    let pod = setup.informer.lister().get(&ObjectKey::new("ns", "b")).unwrap();
    assert_eq!(pod.controller_ref().unwrap().name, "\u{fffd}x", "as the server would write it in JSON");
}

#[rstest]
#[case::in_the_stream(no_watch_list())]
#[case::as_an_answer(MockResponse(422, PROTO, vec![refusal(422, "Invalid").sealed("Status")], false))]
#[case::in_json(MockResponse(400, "application/json", vec![br#"{"kind":"Status","code":400}"#.to_vec()], false))]
#[case::by_ending(MockResponse(200, PROTO, vec![watch_event("ADDED", pod("gone", "3"), "Pod")], false))]
#[case::by_falling_silent(quiet())]
#[case::by_talking_nonsense(MockResponse(200, PROTO, vec![vec![0, 0, 0, 1, 0xff]], false))]
#[tokio::test(start_paused = true)]
async fn a_server_without_watch_lists_is_listed_at_once_and_never_asked_again(#[case] refused: MockResponse) {
    let gone = MockResponse(200, PROTO, vec![watch_event("ERROR", refusal(410, "Expired"), "Status")], false);
    let setup = Setup::new(vec![refused, whole(list("5", &["b", "a"])), gone, whole(list("8", &["a"])), quiet()]);
    assert_eq!(setup.after(400).await, ["a@4"]);
    let queries = setup.queries();
    assert_eq!(
        queries[..5],
        [INITIAL, "resourceVersion=0", "watch resourceVersion=5", "resourceVersion=5", "watch resourceVersion=8"]
            .map(str::to_owned),
        "never older than what was seen"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_server_does_not_have_is_not_asked_for_twice() {
    let gone = MockResponse(200, PROTO, vec![watch_event("ERROR", refusal(410, "Expired"), "Status")], false);
    let behind = MockResponse(504, PROTO, vec![refusal(504, "Timeout").sealed("Status")], false);
    let lists = vec![no_watch_list(), whole(list("5", &["a"])), gone, behind, whole(list("3", &["b"])), quiet()];
    let setup = Setup::new(lists);
    assert_eq!(setup.after(5).await, ["b@4"]);
    assert_eq!(setup.queries()[3..5], ["resourceVersion=5".to_owned(), String::new()], "then the newest version");
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_json_is_where_json_begins() {
    let json =
        |body: serde_json::Value| MockResponse(200, "application/json", vec![body.to_string().into_bytes()], false);
    let list = serde_json::json!({ "metadata": { "resourceVersion": "5" }, "items": [pod_json("a", "4")] });
    let setup = Setup::new(vec![MockResponse(200, "application/json", Vec::new(), true), json(list), quiet()]);
    assert_eq!(setup.after(1).await, ["a@4"]);
    assert_eq!(setup.queries(), [INITIAL, "json limit=500", "json watch resourceVersion=5"]);
}

#[rstest]
#[case::within_an_item(|body: Vec<u8>| body[..body.len() / 2].to_vec())]
#[case::before_the_last_item(|body: Vec<u8>| body[..body.len() - 10].to_vec())]
#[case::at_once(|_| Vec::new())]
#[case::not_a_list(|_| b"proxy error".to_vec())]
#[tokio::test(start_paused = true)]
async fn half_a_list_is_none(#[case] break_it: fn(Vec<u8>) -> Vec<u8>) {
    let broken = whole(break_it(list("5", &["a", "b"])));
    let setup = Setup::new(vec![no_watch_list(), broken, whole(list("6", &["c"])), quiet()]);
    assert_eq!(setup.after(0).await, Vec::<String>::new());
    assert_eq!(setup.informer.status().failures, 1);
    assert_eq!(setup.after(2).await, ["c@4"]);
    assert!(setup.informer.lister().get(&ObjectKey::new("ns", "a")).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_listed_again() {
    let events = vec![vec![0, 0, 0, 1, 0xff], watch_event("MODIFIED", pod("a", "7"), "Pod")];
    let lists = (whole(list("5", &["a"])), whole(list("8", &["b"])));
    let setup = Setup::new(vec![no_watch_list(), lists.0, MockResponse(200, PROTO, events, true), lists.1, quiet()]);
    assert_eq!(setup.after(2).await, ["b@4"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_falls_silent_is_tried_again() {
    let body = list("5", &["a"]);
    let silent = MockResponse(200, PROTO, vec![body[..20].to_vec()], true);
    let setup = Setup::new(vec![no_watch_list(), silent, whole(body), quiet()]);
    assert_eq!(setup.after(29).await, Vec::<String>::new());
    assert_eq!(setup.after(2).await, ["a@4"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_when_the_watch_begins_is_listed_again() {
    let gone = MockResponse(410, PROTO, vec![refusal(410, "Gone").sealed("Status")], false);
    let setup = Setup::new(vec![no_watch_list(), whole(list("5", &["a"])), gone, whole(list("8", &["b"])), quiet()]);
    assert_eq!(setup.after(0).await, ["b@4"]);
}

proptest! {
    /// The chunks are arbitrary.
    #[test]
    fn a_list_in_pieces_is_the_list(cuts in prop::collection::vec(0..2000_usize, 0..20)) {
        let body = list("5", &["a", "b", "c"]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let mut parser = ListParser::default();
        let mut names = Vec::new();
        let mut version = String::new();
        for piece in cuts.windows(2) {
            parser.buffer.extend_from_slice(&body[piece[0]..piece[1]]);
            parser.run(|part| {
                match part {
                    ListPart::Metadata(metadata) => version = list_version(metadata)?.into_owned(),
                    ListPart::Item(item) => names.push(PodView::protobuf(item)?.name().to_owned()),
                }
                Ok(())
            })
            .unwrap();
        }
        prop_assert!(parser.is_complete());
        prop_assert_eq!((names, version.as_str()), (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], "5"));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut parser = ListParser::default();
        parser.buffer.extend_from_slice(MAGIC);
        parser.buffer.extend_from_slice(&bytes);
        let _ = parser.run(|_| Ok(()));
        let _ = event::<PodView>(&bytes);
        let _ = PodView::protobuf(&bytes);
        let _ = NodeView::protobuf(&bytes);
    }
}
