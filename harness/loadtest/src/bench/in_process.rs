//! Servers in this process, without sockets.

use std::ops::Range;
use std::time::Duration;

use futures::StreamExt as _;
use plumbline::time::Clock;
use plumbline_apiserver::{ApiRequest, ApiServer, ApiServerConfig, ReplyBody, ResourceId};
use tokio::task::JoinSet;

use super::bodies::{self, LoadPod};
use super::error::BenchError;
use super::figures;
use super::median::middle;
use super::report::{Measurement, Unit};

/// Most writes of each kind.
const WRITES: usize = 20_000;

/// Measures servers in this process, each until its first response. The first one also builds the tables that all
/// share.
pub(super) async fn start(clock: &Clock, rows: &mut Vec<Measurement>) -> Result<(), BenchError> {
    let mut times = Vec::new();
    for _ in 0..=100 {
        let start = clock.elapsed();
        let server = ApiServer::new(ApiServerConfig::new(clock.clone()));
        let request = ApiRequest::new(::http::Method::GET, "/api/v1/namespaces/default");
        let reply = server.handle(request).await;
        times.push(clock.elapsed().saturating_sub(start));
        if reply.status != 200 {
            return Err(BenchError::Reply(format!("GET of a namespace returned {}", reply.status)));
        }
    }
    let first = times.remove(0).as_secs_f64();
    rows.push(Measurement::new("in process, first server", Unit::Seconds, first).wanted(figures::READY_IN_PROCESS));
    rows.push(
        Measurement::new("in process, each further (median of 100)", Unit::Seconds, middle(times))
            .wanted(figures::READY_IN_PROCESS),
    );
    Ok(())
}

/// Sends a request and returns its status.
async fn send(server: &ApiServer, method: http::Method, path: &str, body: String) -> Result<(), BenchError> {
    let mut request = ApiRequest::new(method, path);
    let json = http::HeaderValue::from_static("application/json");
    request.headers.insert(http::header::CONTENT_TYPE, json);
    request.body = body.into();
    let reply = server.handle(request).await;
    if reply.status >= 300 {
        return Err(BenchError::Reply(format!("a write to {path} returned {}", reply.status)));
    }
    Ok(())
}

/// Path of the definitions.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Most definitions: as many as ten large projects have together.
const DEFINITION_COUNT: usize = 107;
/// Fields of a definition's schema, which makes it as large as that of a middling project.
const FIELDS: usize = 2_000;

/// Returns the body of a definition of a group of its own.
fn definition(number: usize) -> String {
    use std::fmt::Write as _;
    let mut fields = String::new();
    for field in 0..FIELDS {
        let comma = if field == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        _ = write!(
            fields,
            r#"{comma}"field{field}":{{"type":"string","maxLength":63,"description":"The field {field}."}}"#
        );
    }
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"things.g{number}.example.com"}},"spec":{{"group":"g{number}.example.com","scope":"Namespaced","names":{{"plural":"things","kind":"Thing"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{{fields}}}}}}}}}}}}}]}}}}"#
    )
}

/// Measures definitions that are created one after the other, and the time of the last tenth in percent of that of the
/// first: 100 if a write costs the same however many definitions there are. There are as many definitions as pods, but
/// at least ten and at most [`DEFINITION_COUNT`].
pub(super) async fn definitions(clock: &Clock, pods: usize, rows: &mut Vec<Measurement>) -> Result<(), BenchError> {
    let count = pods.clamp(10, DEFINITION_COUNT);
    let server = ApiServer::new(ApiServerConfig::new(clock.clone()));
    let mut times = Vec::new();
    for number in 0..count {
        let begun = clock.elapsed();
        send(&server, http::Method::POST, DEFINITIONS, definition(number)).await?;
        times.push(clock.elapsed().saturating_sub(begun));
    }
    let sum = |times: &[Duration]| times.iter().sum::<Duration>().as_secs_f64();
    let tenth = count / 10;
    let first = sum(&times[..tenth]);
    let last = sum(&times[count - tenth..]);
    let name = format!("in process, {count} definitions created");
    rows.push(Measurement::new(name, Unit::Seconds, sum(&times)).wanted(figures::DEFINITIONS));
    rows.push(
        Measurement::new(
            "in process, last tenth of definitions in percent of the first",
            Unit::Count,
            100.0 * last / first.max(f64::MIN_POSITIVE),
        )
        .wanted(figures::DEFINITIONS_PERCENT),
    );
    Ok(())
}

/// Path of the leases.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
/// Number of leases.
const LEASE_COUNT: usize = 100;
/// Time in which the watchers get the events of all renewals.
const PATIENCE: Duration = Duration::from_mins(2);
/// Watchers of the leases.
const WATCHERS: usize = 100;

/// Returns the body of a lease, which is another one for each number. It is renewed by its version only.
fn lease(number: usize, version: &str) -> String {
    let name = bodies::node_name(number % LEASE_COUNT);
    format!(
        r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},"spec":{{"holderIdentity":"{name}","leaseDurationSeconds":40,"renewTime":"2026-01-01T00:00:00.{number:06}Z"}}}}"#
    )
}

/// Renews leases in turn, once for each number.
async fn renew(server: &ApiServer, numbers: Range<usize>) -> Result<(), BenchError> {
    let leases = ResourceId::new("coordination.k8s.io", "leases");
    for number in numbers {
        let name = bodies::node_name(number % LEASE_COUNT);
        let version = server.get(&leases, "default", &name).map_or(0, |stored| stored.revision());
        send(server, http::Method::PUT, &format!("{LEASES}/{name}"), lease(number, &version.to_string())).await?;
    }
    Ok(())
}

/// Measures writes by one task, so that one core works: `pods` pods that are created (at most [`WRITES`]), and as many
/// renewals of leases; then renewals while others watch the leases.
pub(super) async fn writes(clock: &Clock, pods: usize, rows: &mut Vec<Measurement>) -> Result<(), BenchError> {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let writes = WRITES.min(pods);
    let server = ApiServer::new(ApiServerConfig::new(clock.clone()));
    let rate = |begun: Duration| {
        let took = clock.elapsed().saturating_sub(begun);
        writes as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE)
    };
    let begun = clock.elapsed();
    for number in 0..writes {
        let name = format!("p-{number:08}");
        let pod = LoadPod { namespace: "default", name: &name, app: "p", owner: None, node: number % 100 };
        send(&server, http::Method::POST, PODS, bodies::pod(&pod)).await?;
    }
    rows.push(Measurement::new("in process, pods created on one core", Unit::PerSecond, rate(begun)));
    for number in 0..LEASE_COUNT {
        send(&server, http::Method::POST, LEASES, lease(number, "")).await?;
    }
    let begun = clock.elapsed();
    renew(&server, LEASE_COUNT..LEASE_COUNT + writes).await?;
    rows.push(Measurement::new("in process, leases renewed on one core", Unit::PerSecond, rate(begun)));
    let watchers = watch(&server, writes).await?;
    let begun = clock.elapsed();
    renew(&server, LEASE_COUNT + writes..LEASE_COUNT + 2 * writes).await?;
    // Counted until each watcher has the last event.
    for seen in clock.timeout(PATIENCE, watchers.join_all()).await.ok_or(BenchError::Lost)? {
        seen?;
    }
    let name = format!("in process, leases renewed with {WATCHERS} watchers");
    rows.push(Measurement::new(name, Unit::PerSecond, rate(begun)).wanted(figures::RENEWALS));
    Ok(())
}

/// Opens watches of all leases, each of which ends after the events of [`renew`].
async fn watch(server: &ApiServer, writes: usize) -> Result<JoinSet<Result<(), BenchError>>, BenchError> {
    let mut watchers = JoinSet::new();
    let query = format!("watch=1&resourceVersion={}", server.revision());
    for _ in 0..WATCHERS {
        let reply = server.handle(ApiRequest::new(http::Method::GET, &format!("{LEASES}?{query}"))).await;
        let ReplyBody::Stream(mut events) = reply.body else {
            return Err(BenchError::Reply(format!("a watch returned {}", reply.status)));
        };
        watchers.spawn(async move {
            let mut seen = 0;
            while seen < writes {
                let lines = events.next().await.and_then(Result::ok).ok_or(BenchError::Lost)?;
                seen += memchr::memchr_iter(b'\n', &lines).count();
            }
            Ok(())
        });
    }
    Ok(watchers)
}
