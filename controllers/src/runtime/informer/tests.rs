//! The informer against a server whose lists and watches misbehave.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};

use super::Informer;
use crate::api::object_key::ObjectKey;
use crate::api::pod::{BY_NODE, PodView};
use crate::runtime::cache::Change;
use crate::runtime::client::{ClientBuilder, Limits, names};
use crate::runtime::clock::Clock;
use crate::runtime::metrics::Metrics;
use crate::runtime::testing::{MockResponse, ReceivedRequest, RequestLog, failure, must_end, script, serve, status};

struct Setup {
    clock: Clock,
    informer: Arc<Informer<PodView>>,
    /// `+name/uid@rv`, `~name…`, `-name…`, in the order the handler saw them.
    changes: Arc<Mutex<Vec<String>>>,
    log: RequestLog,
    _running: tokio::task::JoinSet<()>,
}

impl Setup {
    fn new(answer: impl Fn(&ReceivedRequest) -> MockResponse + Send + Sync + 'static) -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let (plain, log) = serve(&clock, answer);
        let informer = Arc::new(Informer::<PodView>::new(clock.clone(), &Metrics::new()));
        let changes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&changes);
        informer.add_event_handler(move |change| seen.lock().push(describe(change)));
        let builder = ClientBuilder::new(names::INFORMERS, clock.clone(), Limits::default());
        let mut running = tokio::task::JoinSet::new();
        let run = Arc::clone(&informer);
        running.spawn(async move { run.run(&builder, plain).await });
        Self { clock, informer, changes, log, _running: running }
    }

    fn script(answers: Vec<MockResponse>) -> Self {
        Self::new(script(answers))
    }

    async fn after(&self, seconds: u64) -> String {
        // One millisecond more, so that even after(0) lets all tasks become idle.
        self.clock.sleep(Duration::from_millis(seconds * 1000 + 1)).await;
        std::mem::take(&mut *self.changes.lock()).join(" ")
    }

    fn requests(&self) -> Vec<String> {
        let short = |seen: &ReceivedRequest| match seen.line.split_once("resourceVersion=") {
            Some((_, rest)) => format!("watch {}", rest.split('&').next().unwrap()),
            None => "list".to_owned(),
        };
        self.log.lock().iter().map(short).collect()
    }
}

fn describe(change: &Change<PodView>) -> String {
    use crate::api::cache_object::CacheObject as _;
    let sign = match change {
        Change::Added(_) => '+',
        Change::Updated { .. } => '~',
        Change::Deleted(_) => '-',
    };
    let pod = change.object();
    format!("{sign}{}/{}@{}", pod.key().name, pod.uid(), pod.resource_version())
}

fn pod(name: &str, uid: &str, version: u32, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string() },
        "spec": { "nodeName": node },
    })
}

fn list(version: u32, items: &[Value]) -> MockResponse {
    let metadata = json!({ "resourceVersion": version.to_string() });
    MockResponse::Json(200, json!({ "apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": items }))
}

fn event(kind: &str, object: Value) -> (Duration, Value) {
    (Duration::ZERO, json!({ "type": kind, "object": object }))
}

fn quiet() -> MockResponse {
    MockResponse::Watch(Vec::new(), true)
}

#[tokio::test(start_paused = true)]
async fn synced_means_that_handlers_have_seen_the_list() {
    let setup = Setup::script(vec![list(5, &[pod("b", "1", 3, "n1"), pod("a", "2", 4, "n1")]), quiet()]);
    assert!(!setup.informer.has_synced());
    must_end(setup.informer.wait_synced()).await;
    assert_eq!(setup.after(0).await, "+a/2@4 +b/1@3", "in key order");
    let lister = setup.informer.lister();
    assert_eq!(lister.len(), 2);
    assert_eq!(lister.by_index(BY_NODE, "n1").len(), 2);
    assert_eq!(lister.list_namespace("ns").len(), 2);
    assert!(lister.list_namespace("n").is_empty());
    assert!(lister.get(&ObjectKey::new("ns", "a")).is_some());
}

#[tokio::test(start_paused = true)]
async fn events_change_cache_and_indexes_before_handlers_run() {
    let watch = MockResponse::Watch(
        vec![
            event("ADDED", pod("b", "2", 6, "")),
            event("MODIFIED", pod("b", "2", 7, "n2")),
            event("MODIFIED", pod("b", "2", 7, "n2")),
            event("MODIFIED", pod("a", "9", 8, "n2")),
            event("DELETED", pod("b", "2", 9, "n2")),
        ],
        true,
    );
    let setup = Setup::script(vec![list(5, &[pod("a", "1", 4, "n1")]), watch]);
    let expected = "+a/1@4 +b/2@6 ~b/2@7 ~b/2@7 -a/1@4 +a/9@8 -b/2@7";
    let why = "a repeated event is an update, another UID is another object, what goes is what was there";
    assert_eq!(setup.after(1).await, expected, "{why}");
    let lister = setup.informer.lister();
    assert_eq!((lister.len(), lister.by_index(BY_NODE, "n1").len(), lister.by_index(BY_NODE, "n2").len()), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_not_opened_one_after_the_other() {
    let setup = Setup::new(|seen| {
        let is_watch = seen.line.contains("resourceVersion=");
        if is_watch { MockResponse::Watch(Vec::new(), false) } else { list(5, &[pod("a", "1", 4, "")]) }
    });
    assert_eq!(setup.after(600).await, "+a/1@4");
    let watches = setup.requests().iter().filter(|line| *line == "watch 5").count();
    assert!((10..40).contains(&watches), "{watches} watches in ten minutes");
    assert_eq!(setup.requests().len(), watches + 1, "the version is known, so there is one list");
}

/// A controller adds its handlers when its replica becomes the leader.
#[tokio::test(start_paused = true)]
async fn a_late_handler_sees_the_cached_objects_and_then_every_change() {
    let later = (Duration::from_secs(10), event("MODIFIED", pod("a", "1", 8, "")).1);
    let watch = MockResponse::Watch(vec![event("DELETED", pod("b", "2", 7, "")), later], true);
    let setup =
        Setup::script(vec![list(5, &[pod("c", "3", 3, ""), pod("b", "2", 2, ""), pod("a", "1", 1, "")]), watch]);
    setup.after(5).await;
    let note = |seen: &Arc<Mutex<Vec<String>>>| {
        let seen = Arc::clone(seen);
        move |change: &Change<PodView>| seen.lock().push(describe(change))
    };
    let all = Arc::default();
    let rest = Arc::default();
    setup.informer.add_event_handler(note(&all));
    setup.informer.add_event_handler_without_replay(note(&rest));
    assert_eq!(all.lock().join(" "), "+a/1@1 +c/3@3");
    setup.after(10).await;
    assert_eq!(all.lock().join(" "), "+a/1@1 +c/3@3 ~a/1@8");
    assert_eq!(rest.lock().join(" "), "~a/1@8");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_resumes_where_it_was() {
    let watch = MockResponse::Watch(vec![event("ADDED", pod("b", "2", 6, ""))], false);
    let setup = Setup::script(vec![list(5, &[]), watch, quiet()]);
    setup.after(1).await;
    assert_eq!(setup.requests(), ["list", "watch 5", "watch 6"]);
}

#[tokio::test(start_paused = true)]
async fn gone_lists_again_at_once_but_not_twice_and_reports_the_differences() {
    let gone = || MockResponse::Watch(vec![event("ERROR", status(410, "Expired"))], false);
    let first = || list(5, &[pod("kept", "1", 1, ""), pod("gone", "2", 2, ""), pod("changed", "3", 3, "")]);
    let second = list(9, &[pod("changed", "3", 8, ""), pod("kept", "1", 1, ""), pod("new", "4", 7, "")]);
    let setup = Setup::script(vec![first(), gone(), first(), gone(), second, quiet()]);
    assert_eq!(setup.after(0).await, "+changed/3@3 +gone/2@2 +kept/1@1 ~changed/3@3 ~gone/2@2 ~kept/1@1");
    let before = setup.informer.lister().get(&ObjectKey::new("ns", "kept")).unwrap();
    assert_eq!(setup.after(2).await, "~changed/3@8 ~kept/1@1 +new/4@7 -gone/2@2");
    let after = setup.informer.lister().get(&ObjectKey::new("ns", "kept")).unwrap();
    assert!(Arc::ptr_eq(&before, &after), "an unchanged object is not kept twice");
    assert_eq!(setup.requests(), ["list", "watch 5", "list", "watch 5", "list", "watch 9"]);
    assert_eq!(setup.informer.status().lists, 3);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_listed_again() {
    let unreadable = event("MODIFIED", json!({ "kind": "Pod", "metadata": "?" }));
    let watch = MockResponse::Watch(vec![unreadable, event("ADDED", pod("b", "2", 7, ""))], true);
    let setup = Setup::script(vec![list(5, &[pod("a", "1", 4, "")]), watch, list(8, &[pod("a", "1", 6, "")]), quiet()]);
    assert_eq!(setup.after(2).await, "+a/1@4 ~a/1@6");
    assert_eq!(setup.requests(), ["list", "watch 5", "list", "watch 8"]);
}

#[tokio::test(start_paused = true)]
async fn events_that_can_never_be_read_are_no_hot_loop() {
    let unreadable = || MockResponse::Watch(vec![event("MODIFIED", json!("?"))], true);
    let setup = Setup::new(move |seen| if seen.line.contains("watch=true") { unreadable() } else { list(5, &[]) });
    setup.after(120).await;
    let lists: Vec<u128> = setup.log.lock().iter().step_by(2).map(|seen| seen.at.as_millis()).collect();
    assert_eq!(lists, [0, 800, 2400, 5600, 12_000, 24_800, 50_400, 80_400, 110_400]);
}

#[rstest]
#[case::server_error(|| failure(500, "InternalError"))]
#[case::reset(|| MockResponse::Reset)]
#[case::torn(|| MockResponse::Torn)]
#[case::not_json(|| MockResponse::Json(200, json!("proxy error")))]
#[tokio::test(start_paused = true)]
async fn a_failed_list_is_tried_again(#[case] broken: fn() -> MockResponse) {
    let setup = Setup::script(vec![broken(), list(5, &[pod("a", "1", 4, "")]), quiet()]);
    assert_eq!(setup.after(2).await, "+a/1@4");
    assert_eq!(setup.informer.status().stale_since, None);
}

#[tokio::test(start_paused = true)]
async fn failures_wait_longer_and_longer_without_jitter() {
    let setup = Setup::new(|_| failure(403, "Forbidden"));
    setup.after(120).await;
    let starts: Vec<u128> = setup.log.lock().iter().map(|seen| seen.at.as_millis()).collect();
    assert_eq!(starts, [0, 800, 2400, 5600, 12_000, 24_800, 50_400, 80_400, 110_400]);
    let status = setup.informer.status();
    assert_eq!(status.failures, 9);
    assert_eq!(status.stale_since.unwrap().to_string(), "2026-01-01T00:00:00Z");
    assert!(status.last_error.unwrap().contains("Forbidden"));
}

#[tokio::test(start_paused = true)]
async fn hanging_headers_end_at_the_time_limit() {
    let setup = Setup::script(vec![MockResponse::Hang, list(5, &[]), MockResponse::Hang, quiet()]);
    setup.after(64).await;
    assert_eq!(setup.requests(), ["list"], "the server itself may take 60 s to say no");
    setup.after(3).await;
    assert!(setup.informer.has_synced());
    setup.after(70).await;
    assert_eq!(setup.requests(), ["list", "list", "watch 5", "watch 5"]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let setup = Setup::script(vec![MockResponse::RetryAfter(429, 7), list(5, &[]), quiet()]);
    must_end(setup.informer.wait_synced()).await;
    assert_eq!(setup.clock.monotonic(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_not_stormed() {
    let setup = Setup::new(|seen| {
        if seen.line.contains("watch=true") { MockResponse::Watch(Vec::new(), false) } else { list(5, &[]) }
    });
    setup.after(60).await;
    assert!(setup.log.lock().len() < 12, "{:?}", setup.requests());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_that_works_again_is_not_called_stale() {
    let bookmark = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "resourceVersion": "6" } });
    let quiet =
        MockResponse::Watch(vec![(Duration::from_secs(20), json!({ "type": "BOOKMARK", "object": bookmark }))], true);
    let setup = Setup::script(vec![list(5, &[]), failure(500, "InternalError"), quiet]);
    setup.after(0).await;
    assert!(setup.informer.status().stale_since.is_some());
    setup.after(30).await;
    let status = setup.informer.status();
    assert_eq!((status.failures, status.stale_since), (0, None));
    assert!(status.last_contact.unwrap().to_string().starts_with("2026-01-01T00:00:20.8"), "the bookmark");
}

#[tokio::test(start_paused = true)]
async fn requests_carry_the_user_agent() {
    let setup = Setup::script(vec![list(5, &[]), quiet()]);
    setup.after(1).await;
    assert!(setup.log.lock()[0].user_agent.ends_with("/shared-informers"));
}
