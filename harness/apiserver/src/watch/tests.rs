//! Watches through a client in virtual time, with and without faults.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use rstest::rstest;

use crate::clock::{Clock, epoch, run_virtual, settle};
use crate::faults::{FaultAction, FaultRule, RequestMatcher, RuleMatcher, WatchEnd};
use crate::json::{Value, json};
use crate::record::{ChangeKind, EntryKind, TranscriptEntry};
use crate::{ApiRequest, ApiServer, ApiServerConfig, ReplyBody, ResourceId};

fn virtually<F: Future>(test: impl FnOnce(ApiServer) -> F) -> F::Output {
    run_virtual(async { test(ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())))).await }).unwrap()
}

fn maps() -> ResourceId {
    ResourceId::new("", "configmaps")
}

fn api(server: &ApiServer) -> Api<ConfigMap> {
    Api::default_namespaced(server.client("test/1 user"))
}

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "data": {"v": value}})).unwrap()
}

async fn set(server: &ApiServer, name: &str, value: &str) {
    let patch = Patch::Merge(json!({"data": {"v": value}}));
    api(server).patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn create(server: &ApiServer, name: &str, value: &str) {
    api(server).create(&PostParams::default(), &map(name, value)).await.unwrap();
}

fn described(event: &WatchEvent<ConfigMap>) -> String {
    let shown = |map: &ConfigMap| {
        let value = map.data.as_ref().and_then(|data| data.get("v")).cloned().unwrap_or_default();
        format!("{}={value}", map.metadata.name.clone().unwrap_or_default())
    };
    match event {
        WatchEvent::Added(map) => format!("+{}", shown(map)),
        WatchEvent::Modified(map) => format!("~{}", shown(map)),
        WatchEvent::Deleted(map) => format!("-{}", shown(map)),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

/// Starts a watch from the current revision in its own task; returns the log of the events received so far.
fn watch(server: &ApiServer) -> std::sync::Arc<parking_lot::Mutex<Vec<String>>> {
    let log = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let maps = api(server);
    let written = log.clone();
    let from = server.store().revision().to_string();
    tokio::spawn(async move {
        let params = WatchParams::default().timeout(290);
        let mut events = maps.watch(&params, &from).await.unwrap().boxed();
        loop {
            let line = match events.next().await {
                Some(Ok(event)) => described(&event),
                Some(Err(_)) => "broken".to_owned(),
                None => "end".to_owned(),
            };
            let over = line == "end" || line == "broken";
            written.lock().push(line);
            if over {
                return;
            }
        }
    });
    log
}

#[rstest]
#[case::each(None, &["+a=1", "~a=2", "-a=2", "+a=3"])]
#[case::merged(Some(()), &["+a=3"])]
fn held_events_are_let_go(#[case] coalesce: Option<()>, #[case] expected: &[&str]) {
    virtually(|server| async move {
        let log = watch(&server);
        settle().await;
        server.faults().hold(&maps());
        create(&server, "a", "1").await;
        set(&server, "a", "2").await;
        api(&server).delete("a", &DeleteParams::default()).await.unwrap();
        create(&server, "a", "3").await;
        settle().await;
        assert!(log.lock().is_empty());
        server.faults().release(&maps(), coalesce.map(|()| server.store().revision()));
        settle().await;
        assert_eq!(*log.lock(), expected);
        set(&server, "a", "4").await;
        settle().await;
        assert_eq!(log.lock().last().unwrap(), "~a=4");
    });
}

/// Between the entries, at the time at which the client got them.
#[test]
fn deliveries_are_recorded_when_they_are_sent() {
    virtually(|server| async move {
        let log = watch(&server);
        settle().await;
        server.faults().hold(&maps());
        create(&server, "a", "1").await;
        set(&server, "a", "2").await;
        server.clock().sleep(Duration::from_secs(5)).await;
        assert!(server.transcript().deliveries().is_empty());
        server.transcript().note(server.clock().elapsed(), "release");
        let released = server.transcript().len();
        server.faults().release(&maps(), None);
        settle().await;
        assert_eq!(*log.lock(), ["+a=1", "~a=2"]);
        let deliveries = server.transcript().deliveries();
        let described: Vec<_> = deliveries
            .iter()
            .map(|sent| (sent.position, sent.at.as_secs(), sent.object.kind, sent.object.namespace.as_deref()))
            .collect();
        let expected = [ChangeKind::Added, ChangeKind::Modified].map(|kind| (released, 5, kind, Some("default")));
        assert_eq!(described, expected);
        let version = |entry: &TranscriptEntry| match &entry.what {
            EntryKind::Change(change) => Some(change.resource_version),
            EntryKind::Request(_) | EntryKind::Note(_) => None,
        };
        let changes: Vec<u64> = server.transcript().entries().iter().filter_map(version).collect();
        assert_eq!(deliveries.iter().map(|sent| sent.object.resource_version).collect::<Vec<_>>(), changes);
        let verb = server.transcript().with(|entries| match &entries[deliveries[0].watch].what {
            EntryKind::Request(exchange) => exchange.request.verb.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(verb, "watch");
    });
}

#[test]
fn events_can_be_delivered_twice() {
    virtually(|server| async move {
        let log = watch(&server);
        settle().await;
        server.faults().set_repeated(&maps(), true);
        create(&server, "a", "1").await;
        settle().await;
        server.faults().set_repeated(&maps(), false);
        set(&server, "a", "2").await;
        settle().await;
        assert_eq!(*log.lock(), ["+a=1", "+a=1", "~a=2"]);
    });
}

/// The bookmark has the version before the held event, so a client that resumes there misses nothing.
#[test]
fn a_bookmark_overtakes_no_held_event() {
    virtually(|server| async move {
        create(&server, "a", "1").await;
        let before = server.store().revision();
        let params = WatchParams::default().timeout(290);
        let mut events = api(&server).watch(&params, "0").await.unwrap().boxed();
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(_)))));
        server.faults().hold(&maps());
        set(&server, "a", "2").await;
        server.faults().send_bookmarks(&maps());
        let Some(Ok(WatchEvent::Bookmark(bookmark))) = events.next().await else { panic!("no bookmark") };
        assert_eq!(bookmark.metadata.resource_version, before.to_string());
        server.faults().release(&maps(), None);
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Modified(_)))));
    });
}

#[test]
fn another_order_loses_nothing() {
    virtually(|server| async move {
        server.faults().set_order(7, 3);
        let logs = [watch(&server), watch(&server)];
        settle().await;
        create(&server, "a", "1").await;
        set(&server, "a", "2").await;
        settle().await;
        for log in logs {
            assert_eq!(*log.lock(), ["+a=1", "~a=2"]);
        }
    });
}

#[test]
fn a_deletion_and_a_creation_merge_into_an_update() {
    virtually(|server| async move {
        create(&server, "a", "1").await;
        let log = watch(&server);
        settle().await;
        server.faults().hold(&maps());
        api(&server).delete("a", &DeleteParams::default()).await.unwrap();
        create(&server, "a", "2").await;
        create(&server, "b", "1").await;
        api(&server).delete("b", &DeleteParams::default()).await.unwrap();
        server.faults().release(&maps(), Some(server.store().revision()));
        settle().await;
        assert_eq!(*log.lock(), ["~a=2"]);
    });
}

#[rstest]
#[case(WatchEnd::Closed, "end")]
#[case(WatchEnd::Broken, "broken")]
fn watches_are_ended_from_outside(#[case] how: WatchEnd, #[case] last: &str) {
    virtually(|server| async move {
        let log = watch(&server);
        settle().await;
        assert_eq!(server.faults().open_watches(Some(&maps())), 1);
        server.faults().end_watches(Some(&ResourceId::new("", "pods")), how);
        settle().await;
        assert!(log.lock().is_empty());
        server.faults().end_watches(Some(&maps()), how);
        settle().await;
        assert_eq!(*log.lock(), [last]);
        assert_eq!(server.faults().open_watches(None), 0);
    });
}

#[test]
fn lists_can_be_stale() {
    virtually(|server| async move {
        create(&server, "a", "1").await;
        server.faults().set_stale(&maps(), Some(server.store().revision()));
        create(&server, "b", "1").await;
        let listed = api(&server).list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.items.len(), 1);
        assert!(api(&server).get("b").await.is_ok(), "a GET is live");
        server.faults().set_stale(&maps(), None);
        assert_eq!(api(&server).list(&ListParams::default()).await.unwrap().items.len(), 2);
    });
}

#[test]
fn a_list_as_a_stream_is_stale_and_not_held() {
    virtually(|server| async move {
        create(&server, "a", "1").await;
        server.faults().set_stale(&maps(), Some(server.store().revision()));
        server.faults().hold(&maps());
        create(&server, "b", "1").await;
        let path = "/api/v1/configmaps?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
        let ReplyBody::Stream(stream) = server.handle(ApiRequest::new(http::Method::GET, path)).await.body else {
            panic!("a watch");
        };
        let described = |bytes: Option<std::io::Result<bytes::Bytes>>| {
            let event: Value = serde_json::from_slice(&bytes.unwrap().unwrap()).unwrap();
            format!("{} {}", event["type"], event["object"]["metadata"]["name"]).replace('"', "")
        };
        let mut stream = stream;
        assert_eq!(described(stream.next().await), "ADDED a");
        assert_eq!(described(stream.next().await), "BOOKMARK null");
        assert!(futures::poll!(stream.next()).is_pending(), "held");
        server.faults().release(&maps(), None);
        assert_eq!(described(stream.next().await), "ADDED b");
    });
}

fn arm(server: &ApiServer, verb: &str, verdict: FaultAction) {
    let on = RuleMatcher::Fields(RequestMatcher { verbs: vec![verb.to_owned()], ..RequestMatcher::default() });
    server.faults().arm(FaultRule { name: None, on, nth: 1, count: Some(1), percent: 100, verdict });
}

#[test]
fn replies_are_lost_and_late() {
    virtually(|server| async move {
        let lost = FaultAction::Reply { code: 504, reason: None, message: None, retry_after: None, applied: true };
        arm(&server, "create", lost);
        let error = api(&server).create(&PostParams::default(), &map("a", "1")).await.unwrap_err();
        assert!(matches!(error, kube::Error::Api(status) if status.code == 504));
        assert!(api(&server).get("a").await.is_ok(), "it took effect all the same");

        arm(&server, "patch", FaultAction::Delay { by: Duration::from_secs(3), applied: false });
        let changed = tokio::spawn({
            let server = server.clone();
            async move { set(&server, "a", "2").await }
        });
        settle().await;
        assert_eq!(api(&server).get("a").await.unwrap().data.unwrap()["v"], "1");
        changed.await.unwrap();
        assert_eq!(server.clock().elapsed(), Duration::from_secs(3));

        arm(&server, "delete", FaultAction::Drop { applied: true });
        api(&server).delete("a", &DeleteParams::default()).await.unwrap_err();
        assert!(api(&server).get("a").await.is_err());
        let faults: Vec<_> = server.transcript().with(|entries| {
            let replies = entries.iter().filter_map(|entry| match &entry.what {
                EntryKind::Request(exchange) => exchange.reply.as_ref(),
                _ => None,
            });
            replies.filter_map(|reply| Some((reply.fault.clone()?, reply.lost))).collect()
        });
        let expected = [("reply 504 Timeout, applied", false), ("delay 3s", false), ("drop, applied", true)];
        assert_eq!(faults, expected.map(|(text, lost)| (text.to_owned(), lost)));
    });
}

#[test]
fn hanging_requests_tell() {
    virtually(|server| async move {
        let described = std::sync::Arc::new(AtomicU32::new(0));
        let tell = {
            let described = described.clone();
            std::sync::Arc::new(move || {
                described.fetch_add(1, Ordering::SeqCst);
            })
        };
        arm(&server, "get", FaultAction::Hang { applied: false, tell });
        let maps = api(&server);
        let hanging = tokio::spawn(async move { maps.get("a").await });
        settle().await;
        assert_eq!(described.load(Ordering::SeqCst), 1);
        assert!(!hanging.is_finished());
        hanging.abort();
    });
}

#[test]
fn a_watch_can_be_refused_with_410_or_broken_later() {
    virtually(|server| async move {
        arm(&server, "watch", FaultAction::Expired);
        let events: Vec<_> =
            api(&server).watch(&WatchParams::default(), "1").await.unwrap().try_collect().await.unwrap();
        assert_eq!(events.iter().map(described).collect::<Vec<_>>(), ["error 410"]);
        arm(&server, "watch", FaultAction::CloseWatch { after: Duration::from_secs(5) });
        let events: Vec<_> = api(&server).watch(&WatchParams::default(), "1").await.unwrap().collect().await;
        assert!(matches!(&events[..], [Err(_)]), "{events:?}");
        assert_eq!(server.clock().elapsed(), Duration::from_secs(5));
    });
}

async fn lines(server: &ApiServer, path: &str) -> Vec<Value> {
    let reply = server.handle(ApiRequest::new(http::Method::GET, path)).await;
    let ReplyBody::Stream(chunks) = reply.body else { panic!("a watch streams") };
    let chunks: Vec<_> = chunks.try_collect().await.unwrap();
    chunks.iter().map(|chunk| serde_json::from_slice(chunk).unwrap()).collect()
}

#[test]
fn initial_events_end_with_a_bookmark() {
    virtually(|server| async move {
        create(&server, "a", "1").await;
        let path = "/api/v1/configmaps?watch=1&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
        let events = lines(&server, path).await;
        let revision = server.store().revision().to_string();
        let bookmark = json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {
            "resourceVersion": revision, "annotations": {"k8s.io/initial-events-end": "true"}}}});
        assert_eq!(events[1], bookmark);
        assert_eq!((events[0]["type"].as_str(), events.len()), (Some("ADDED"), 2));
    });
}

/// Without a resourceVersion or with 0, upstream treats a watch as a request for the existing objects.
#[rstest]
#[case::any("resourceVersion=0&allowWatchBookmarks=true", &["ADDED", "BOOKMARK"])]
#[case::none("allowWatchBookmarks=true", &["ADDED", "BOOKMARK"])]
#[case::without_bookmarks("resourceVersion=0", &["ADDED"])]
#[case::later("resourceVersion=1&allowWatchBookmarks=true", &["ADDED"])]
fn a_watch_from_the_beginning_tells_where_that_ends(#[case] query: &str, #[case] expected: &[&str]) {
    let path = format!("/api/v1/configmaps?watch=1&timeoutSeconds=1&{query}");
    let expected: Vec<String> = expected.iter().map(|&text| text.to_owned()).collect();
    virtually(|server| async move {
        create(&server, "a", "1").await;
        let types: Vec<_> =
            lines(&server, &path).await.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(types, expected);
    });
}

#[test]
fn bookmarks_come_by_the_minute_and_before_the_end() {
    virtually(|server| async move {
        let path = "/api/v1/configmaps?watch=1&timeoutSeconds=130&allowWatchBookmarks=true&resourceVersion=1";
        let events = lines(&server, path).await;
        assert_eq!(events.len(), 3);
        assert!(events.iter().all(|event| event["type"] == "BOOKMARK"));
        assert_eq!(server.clock().elapsed(), Duration::from_secs(130));
    });
}

#[test]
fn bookmarks_of_metadata_have_the_version_of_now() {
    virtually(|server| async move {
        let writer = server.clone();
        tokio::spawn(async move {
            writer.clock().sleep(Duration::from_secs(90)).await;
            create(&writer, "a", "1").await;
        });
        let path = "/api/v1/secrets?watch=1&timeoutSeconds=121&allowWatchBookmarks=true&resourceVersion=1";
        let mut request = ApiRequest::new(http::Method::GET, path);
        let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        request.headers.insert(http::header::ACCEPT, accept.parse().unwrap());
        let before = server.store().revision();
        let ReplyBody::Stream(chunks) = server.handle(request).await.body else { panic!("a watch streams") };
        let chunks: Vec<_> = chunks.try_collect().await.unwrap();
        let events: Vec<Value> = chunks.iter().map(|chunk| serde_json::from_slice(chunk).unwrap()).collect();
        let bookmark = |revision: u64| {
            json!({"type": "BOOKMARK", "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": revision.to_string()}}})
        };
        assert_eq!(events, [bookmark(before), bookmark(before + 1), bookmark(before + 1)]);
    });
}

#[test]
fn a_watch_without_a_version_begins_with_what_is_there() {
    virtually(|server| async move {
        create(&server, "a", "1").await;
        let events = lines(&server, "/api/v1/watch/namespaces/default/configmaps/a?timeoutSeconds=1").await;
        assert_eq!(events.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>(), ["ADDED"]);
    });
}

#[test]
fn tables_are_watched_with_headers_once() {
    virtually(|server| async move {
        create(&server, "a", "1").await;
        create(&server, "b", "1").await;
        let mut request = ApiRequest::new(http::Method::GET, "/api/v1/configmaps?watch=1&timeoutSeconds=1");
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        request.headers.insert(http::header::ACCEPT, accept.parse().unwrap());
        let ReplyBody::Stream(chunks) = server.handle(request).await.body else { panic!("a watch streams") };
        let chunks: Vec<_> = chunks.try_collect().await.unwrap();
        let tables: Vec<Value> = chunks.iter().map(|chunk| serde_json::from_slice(chunk).unwrap()).collect();
        assert_eq!(tables.len(), 2);
        assert!(tables[0]["object"]["columnDefinitions"].is_array());
        assert!(tables[1]["object"]["columnDefinitions"].is_null());
    });
}
