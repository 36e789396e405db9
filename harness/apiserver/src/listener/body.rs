//! Reads the bodies of requests, within a limit for each and one for all together.
//! See `limitedReadBody` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::clock::Clock;
use crate::status::Status;

/// Bytes of a too large body that are read and discarded before the reply, and the time spent on it.
const DISCARDED_MAX: usize = 16 * 1024 * 1024;
const DISCARDING_TIME: Duration = Duration::from_secs(1);

/// Total bytes of the bodies held at present.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyBudget(Arc<AtomicUsize>);

/// A body, counted in the total until it is dropped.
#[derive(Debug, Default)]
pub(super) struct BufferedBody {
    pub(super) bytes: Bytes,
    _share: BudgetShare,
}

#[derive(Debug, Default)]
struct BudgetShare {
    all: BodyBudget,
    own: usize,
}

impl BudgetShare {
    /// Adds bytes to the total; `false` if the total exceeds `limit`.
    fn grow(&mut self, by: usize, limit: usize) -> bool {
        self.own += by;
        self.all.0.fetch_add(by, Ordering::Relaxed) + by <= limit
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.own, Ordering::Relaxed);
    }
}

/// Reads a body of at most `limit` bytes, while all bodies together have at most `limit_of_all`.
///
/// # Errors
/// 413 if the body is too large, 429 if all bodies together are, 500 if it is truncated or wrongly framed.
pub(super) async fn read(
    mut body: Incoming,
    headers: &header::HeaderMap,
    limit: usize,
    all: &BodyBudget,
    limit_of_all: usize,
    clock: &Clock,
) -> Result<BufferedBody, Status> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let too_large = async |body: &mut Incoming| {
        // Clients that send everything before they read would otherwise never see the reply.
        clock.timeout(DISCARDING_TIME, discard(body)).await;
        Err(Status::too_large(limit))
    };
    if announced.is_some_and(|length| length > limit as u64) {
        return too_large(&mut body).await;
    }
    let mut share = BudgetShare { all: all.clone(), own: 0 };
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            tracing::debug!(%error, "unable to read a body");
            Status::untyped_error("unexpected EOF")
        })?;
        if let Ok(data) = frame.into_data() {
            if collected.len() + data.len() > limit {
                drop((collected, share));
                return too_large(&mut body).await;
            }
            if !share.grow(data.len(), limit_of_all) {
                return Err(Status::too_many_requests("Too many requests, please try again later.", 1));
            }
            collected.extend_from_slice(&data);
        }
    }
    Ok(BufferedBody { bytes: collected.freeze(), _share: share })
}

async fn discard(body: &mut Incoming) {
    let mut read = 0;
    while read < DISCARDED_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        read += frame.data_ref().map_or(0, Bytes::len);
    }
}
