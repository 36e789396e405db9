//! Servers in this process, without sockets.

use std::time::Duration;

use super::bodies::{self, LoadPod};
use super::figures;
use super::report::{Measurement, Unit};
use super::{BenchError, middle};
use crate::apiserver::{ApiRequest, ApiServer, ApiServerConfig, ResourceId};
use crate::time::Clock;

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

/// Measures writes by one task, so that one core works: `pods` pods that are created (at most [`WRITES`]), and as many
/// renewals of leases.
pub(super) async fn writes(clock: &Clock, pods: usize, rows: &mut Vec<Measurement>) -> Result<(), BenchError> {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let writes = WRITES.min(pods);
    let server = ApiServer::new(ApiServerConfig::new(clock.clone()));
    // A lease is renewed by its version only.
    let lease = |number: usize, version: &str| {
        let (name, second) = (bodies::node_name(number % 100), number % 60);
        format!(
            r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},"spec":{{"holderIdentity":"{name}","leaseDurationSeconds":40,"renewTime":"2026-01-01T00:00:{second:02}.000000Z"}}}}"#
        )
    };
    let rate = |took: Duration| writes as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
    let begun = clock.elapsed();
    for number in 0..writes {
        let name = format!("p-{number:08}");
        let pod = LoadPod { namespace: "default", name: &name, app: "p", owner: None, node: number % 100 };
        send(&server, http::Method::POST, PODS, bodies::pod(&pod)).await?;
    }
    let created = clock.elapsed().saturating_sub(begun);
    rows.push(Measurement::new("in process, pods created on one core", Unit::PerSecond, rate(created)));
    for number in 0..100 {
        send(&server, http::Method::POST, LEASES, lease(number, "")).await?;
    }
    let leases = ResourceId::new("coordination.k8s.io", "leases");
    let begun = clock.elapsed();
    for number in 0..writes {
        let name = bodies::node_name(number % 100);
        let version = server.get(&leases, "default", &name).map_or(0, |stored| stored.revision());
        send(&server, http::Method::PUT, &format!("{LEASES}/{name}"), lease(number, &version.to_string())).await?;
    }
    let renewed = clock.elapsed().saturating_sub(begun);
    rows.push(Measurement::new("in process, leases renewed on one core", Unit::PerSecond, rate(renewed)));
    Ok(())
}
