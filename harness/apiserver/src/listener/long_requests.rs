//! Requests that may keep a processor busy, and the place where they hold up no others.

use std::pin::pin;
use std::task::Poll;

use http::Method;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::crd;
use crate::request::{ApiRequest, Target};
use crate::server::ApiServer;

/// Length of a body in bytes from which its processing can take milliseconds.
const LONG_BODY: usize = 32 * 1024;

/// Returns true for requests that may take more than a few milliseconds: large bodies, lists, documents, and writes of
/// definitions and custom resources, whose rules are evaluated.
pub(super) fn may_take_long(server: &ApiServer, request: &ApiRequest, target: &Target) -> bool {
    if request.body.len() >= LONG_BODY {
        return true;
    }
    let reads = matches!(request.method, Method::GET | Method::HEAD);
    match target {
        Target::NonResource(path) => path.starts_with("/openapi"),
        Target::Resource(path) if reads => path.name.is_empty() && !path.watch,
        Target::Resource(path) => {
            let registry = server.registry();
            let kind = registry.get(&path.group, &path.version, &path.resource);
            server.admission().is_some() || path.group == crd::GROUP || kind.is_some_and(|kind| kind.custom.is_some())
        }
    }
}

/// Completes a future; while it is busy, another thread takes over the other tasks of its thread. In a runtime of one
/// thread, such as that of virtual time, it is an ordinary future.
pub(super) async fn apart<F: Future>(future: F) -> F::Output {
    if Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
        return future.await;
    }
    let mut future = pin!(future);
    std::future::poll_fn(|context| -> Poll<F::Output> { tokio::task::block_in_place(|| future.as_mut().poll(context)) })
        .await
}
