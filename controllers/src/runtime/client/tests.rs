//! The client against a misbehaving server.

use http::Request;
use rstest::rstest;
use serde_json::json;

use super::transport::is_watch;
use super::*;
use crate::runtime::testing::{MockResponse, failure, script, serve};

async fn get(client: &Client) -> Result<serde_json::Value, crate::runtime::error::ApiError> {
    Ok(client.request(Request::get("/api/v1/nodes/n1").body(Vec::new()).unwrap()).await?)
}

fn clock() -> Clock {
    Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_burst_are_spaced_by_the_rate_in_order() {
    let clock = clock();
    let (plain, log) = serve(&clock, |_| MockResponse::Json(200, json!({})));
    let limits = Limits { qps: 10.0, burst: 2, ..Limits::default() };
    let client = ClientBuilder::new(names::TTL, clock.clone(), limits).build(plain);
    futures::future::join_all((0..5).map(|_| get(&client))).await;
    let at: Vec<_> = log.lock().iter().map(|seen| seen.at.as_millis()).collect();
    assert_eq!(at, [0, 0, 100, 200, 300]);
}

#[tokio::test(start_paused = true)]
async fn the_server_is_asked_at_most_eleven_times() {
    let clock = clock();
    let (plain, log) = serve(&clock, |_| MockResponse::RetryAfter(429, 2));
    let client = ClientBuilder::new(names::TTL, clock.clone(), Limits::default()).build(plain);
    let error = get(&client).await.unwrap_err();
    assert_eq!(log.lock().len(), 11);
    let crate::runtime::error::ApiError::TooManyRequests { after, .. } = error else { panic!("{error:?}") };
    assert_eq!(after, Some(Duration::from_secs(2)), "from the header into the class");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_not_sent_without_leadership_and_not_repeated_beyond_it() {
    let clock = clock();
    let (plain, log) = serve(&clock, |_| MockResponse::RetryAfter(429, 4));
    let leadership = Leadership::candidate();
    let builder = ClientBuilder::new(names::TTL, clock.clone(), Limits::default());
    let client = builder.require_leadership(leadership.clone()).build(plain);
    let patch = || Request::patch("/api/v1/nodes/n1").body(Vec::new()).unwrap();
    let write =
        async || crate::runtime::error::ApiError::from(client.request::<serde_json::Value>(patch()).await.unwrap_err());
    assert_eq!(write().await.class(), "not-leader");
    assert_eq!(log.lock().len(), 0);
    leadership.renew((clock.monotonic(), clock.now()), Duration::from_secs(10));
    assert_eq!(write().await.class(), "not-leader", "sent at 0, 4 and 8 s, not at 12 s");
    assert_eq!(log.lock().len(), 3);
    assert!(get(&client).await.is_err());
    assert_eq!(log.lock().len(), 3 + 11, "reads need no leadership");
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_write_is_not_waited_for_beyond_leadership() {
    let clock = clock();
    let (plain, _) = serve(&clock, |_| MockResponse::Hang);
    let leadership = Leadership::candidate();
    let builder = ClientBuilder::new(names::TTL, clock.clone(), Limits::default());
    let client = builder.require_leadership(leadership.clone()).build(plain);
    leadership.renew((clock.monotonic(), clock.now()), Duration::from_secs(10));
    let write = client.request::<serde_json::Value>(Request::delete("/api/v1/nodes/n1").body(Vec::new()).unwrap());
    assert_eq!(crate::runtime::error::ApiError::from(write.await.unwrap_err()).class(), "timeout");
    assert_eq!(clock.monotonic(), Duration::from_secs(10));
}

#[rstest]
#[case::client_error(failure(409, "Conflict"))]
#[case::no_header(failure(503, "ServiceUnavailable"))]
#[case::not_asked_to(MockResponse::RetryAfter(404, 1))]
#[tokio::test(start_paused = true)]
async fn other_answers_stand(#[case] answer: MockResponse) {
    let clock = clock();
    let (plain, log) = serve(&clock, script(vec![answer]));
    let client = ClientBuilder::new(names::TTL, clock.clone(), Limits::default()).build(plain);
    assert!(get(&client).await.is_err());
    assert_eq!(log.lock().len(), 1);
}

#[rstest]
#[case("watch=true", true)]
#[case("limit=5&watch=1", true)]
#[case("watch=false", false)]
#[case("rewatch=true", false)]
#[case("", false)]
fn watches_are_known_by_their_query(#[case] query: &str, #[case] expected: bool) {
    assert_eq!(is_watch(query), expected);
}
