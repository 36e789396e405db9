//! The requests that recorded events cause.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::BoxFuture;
use rstest::rstest;
use serde_json::{Value, json};

use super::{EventStamps, EventType, ObjectReference, QUEUE_LIMIT, Recorder, event_name};
use crate::runtime::clock::Clock;
use crate::runtime::metrics::Metrics;
use crate::runtime::testing::{MockResponse, ReceivedRequest, RequestLog, failure, script, serve, status};

struct Setup {
    clock: Clock,
    metrics: Metrics,
    recorder: Recorder,
    writing: Option<BoxFuture<'static, ()>>,
    log: RequestLog,
}

impl Setup {
    fn new(answer: impl Fn(&ReceivedRequest) -> MockResponse + Send + Sync + 'static) -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let metrics = Metrics::new();
        let (client, log) = serve(&clock, answer);
        let (recorder, writing) = Recorder::new("controllermanager", client, clock.clone(), metrics.clone());
        Self { clock, metrics, recorder, writing: Some(writing), log }
    }

    fn start(&mut self) {
        tokio::spawn(self.writing.take().unwrap());
    }

    fn warn(&self, message: &str) {
        self.recorder.event(budget(), EventType::Warning, "Reason", message);
    }

    async fn seen(&self) -> Vec<ReceivedRequest> {
        self.clock.sleep(Duration::from_mins(10)).await;
        self.log.lock().clone()
    }

    fn dropped(&self, reason: &str) -> Option<f64> {
        self.metrics.value("plumbline_events_dropped_total", &[("reason", reason)])
    }
}

fn budget() -> ObjectReference {
    ObjectReference {
        kind: "PodDisruptionBudget".into(),
        namespace: "ns".into(),
        name: "pdb".into(),
        uid: "u1".into(),
        api_version: "policy/v1".into(),
        resource_version: "7".into(),
    }
}

/// A server that stores every event.
fn accept(seen: &ReceivedRequest) -> MockResponse {
    let created = seen.line.starts_with("POST");
    if created { MockResponse::Json(201, seen.body.clone()) } else { MockResponse::Json(200, json!({})) }
}

fn lines(seen: &[ReceivedRequest]) -> Vec<&str> {
    seen.iter().map(|seen| seen.line.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_has_the_fields_of_client_go() {
    let mut setup = Setup::new(accept);
    setup.start();
    setup.warn("text");
    let seen = setup.seen().await;
    assert_eq!(lines(&seen), ["POST /api/v1/namespaces/ns/events"]);
    let stamp = setup.clock.now().as_nanosecond() - 600_000_000_000;
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": format!("pdb.{stamp:x}"), "namespace": "ns" },
        "involvedObject": { "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "namespace": "ns", "name": "pdb",
            "uid": "u1", "resourceVersion": "7" },
        "reason": "Reason", "message": "text", "type": "Warning", "count": 1,
        "source": { "component": "controllermanager" },
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "eventTime": null, "reportingComponent": "controllermanager", "reportingInstance": "",
    });
    assert_eq!(seen[0].body, expected);
}

#[tokio::test(start_paused = true)]
async fn recorders_with_the_same_stamps_use_no_name_twice() {
    let stamps = EventStamps::default();
    let names: BTreeSet<String> = [1, 2, 3]
        .map(|_| Setup::new(accept).recorder.with_stamps(stamps.clone()))
        .iter()
        .map(|recorder| recorder.new_event(budget(), EventType::Normal, "Reason", String::new()).metadata.name)
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_patches_its_count() {
    let mut setup = Setup::new(accept);
    setup.start();
    setup.warn("text");
    setup.clock.sleep(Duration::from_secs(30)).await;
    setup.warn("text");
    let seen = setup.seen().await;
    let name = seen[0].body["metadata"]["name"].as_str().unwrap();
    assert_eq!(lines(&seen)[1], format!("PATCH /api/v1/namespaces/ns/events/{name}"));
    assert_eq!(seen[1].body, json!({ "count": 2, "lastTimestamp": "2026-01-01T00:00:30Z", "message": "text" }));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_that_has_expired_is_created_again_with_its_count() {
    let mut setup =
        Setup::new(|seen| if seen.line.starts_with("PATCH") { failure(404, "NotFound") } else { accept(seen) });
    setup.start();
    setup.warn("text");
    setup.warn("text");
    let seen = setup.seen().await;
    assert_eq!(seen.len(), 3);
    assert_eq!((&seen[2].body["count"], &seen[2].body["metadata"]), (&json!(2), &seen[0].body["metadata"]));
}

#[tokio::test(start_paused = true)]
async fn from_the_tenth_message_on_similar_events_are_combined() {
    let mut setup = Setup::new(accept);
    setup.start();
    for n in 1..=12 {
        setup.warn(&format!("message {n}"));
    }
    let seen = setup.seen().await;
    let messages: Vec<_> =
        seen.iter().skip(8).map(|seen| (seen.line.split(' ').next().unwrap(), &seen.body["message"])).collect();
    assert_eq!(
        messages,
        [
            ("POST", &json!("message 9")),
            ("POST", &json!("(combined from similar events): message 10")),
            ("PATCH", &json!("(combined from similar events): message 11")),
            ("PATCH", &json!("(combined from similar events): message 12")),
        ]
    );
    assert_eq!(seen[11].body["count"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_source_may_say_25_things_about_an_object_and_then_one_in_five_minutes() {
    let mut setup = Setup::new(accept);
    setup.start();
    for _ in 0..30 {
        setup.warn("text");
    }
    assert_eq!(setup.seen().await.len(), 25);
    assert_eq!(setup.dropped("spam"), Some(5.0));
    // Ten minutes have passed: two more are allowed. The dropped ones are counted too.
    for _ in 0..3 {
        setup.warn("text");
    }
    let seen = setup.seen().await;
    assert_eq!(seen.len(), 27);
    assert_eq!(seen[25].body["count"], 31);
}

#[rstest]
#[case::conflict(409, "AlreadyExists")]
#[case::forbidden(403, "Forbidden")]
#[case::server_error(500, "InternalError")]
#[tokio::test(start_paused = true)]
async fn a_refused_event_is_not_tried_again(#[case] code: u16, #[case] reason: &'static str) {
    let mut setup = Setup::new(move |_| MockResponse::Json(code, status(code, reason)));
    setup.start();
    setup.warn("text");
    assert_eq!(setup.seen().await.len(), 1);
    assert_eq!(setup.dropped("rejected"), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn an_event_without_an_answer_is_tried_twelve_times_ten_seconds_apart() {
    let mut setup = Setup::new(|_| MockResponse::Reset);
    setup.start();
    setup.warn("text");
    let seen = setup.seen().await;
    assert_eq!(seen.len(), 12);
    assert!(seen[1].at < Duration::from_secs(10), "the first pause is shorter, to spread clients");
    assert!(seen[1..].windows(2).all(|pair| pair[1].at.checked_sub(pair[0].at) == Some(Duration::from_secs(10))));
    assert_eq!(setup.dropped("retries"), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_limit_are_dropped_and_never_block() {
    let setup = Setup::new(accept);
    for n in 0..QUEUE_LIMIT + 3 {
        setup.warn(&n.to_string());
    }
    assert_eq!(setup.dropped("queue-full"), Some(3.0));
}

#[tokio::test(start_paused = true)]
async fn writing_ends_when_all_recorders_are_gone() {
    let Setup { recorder, writing, log, .. } = Setup::new(script(vec![MockResponse::Reset, MockResponse::Reset]));
    recorder.event(budget(), EventType::Normal, "Reason", "text");
    drop(recorder);
    writing.unwrap().await;
    assert_eq!(log.lock().len(), 1, "tried once, without waiting");
}

#[rstest]
#[case::plain("web-0", "web-0.18a")]
#[case::dots("a.b", "a.b.18a")]
fn names(#[case] object: &str, #[case] expected: &str) {
    assert_eq!(event_name(object, 0x18a), expected);
}

#[rstest]
#[case::too_long(&"x".repeat(250))]
#[case::no_subdomain("Upper:case")]
fn names_that_would_be_refused_are_replaced(#[case] object: &str) {
    let name = event_name(object, 0x18a6_1234_5678_9abc);
    assert_eq!((name.len(), name.split('-').count()), (36, 5), "{name}");
    assert_ne!(name, event_name(object, 0x18a6_1234_5678_9abd));
}

#[tokio::test(start_paused = true)]
async fn two_events_at_one_instant_have_different_names() {
    let mut setup = Setup::new(accept);
    setup.start();
    setup.warn("a");
    setup.warn("b");
    let names: Vec<Value> = setup.seen().await.iter().map(|seen| seen.body["metadata"]["name"].clone()).collect();
    assert_ne!(names[0], names[1]);
}
