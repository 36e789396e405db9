//! Idle connections to webhooks, which the next calls use, as with Go's `net/http/transport.go`.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;

use super::target::Endpoint;

/// Most idle connections to one target: a hundred requests at once can be in admission.
const MOST_IDLE: usize = 100;

/// A connection that requests are sent on.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// The idle connections by target. A target is an address with all that its certificate is checked by.
#[derive(Default)]
pub(super) struct IdleConnections(Mutex<BTreeMap<Endpoint, Vec<Connection>>>);

impl fmt::Debug for IdleConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleConnections").finish_non_exhaustive()
    }
}

impl IdleConnections {
    /// Takes the latest connection to a target that is still open.
    pub(super) async fn take(&self, target: &Endpoint) -> Option<Connection> {
        loop {
            let mut connection = {
                let mut all = self.0.lock();
                let idle = all.get_mut(target)?;
                let latest = idle.pop();
                if idle.is_empty() {
                    all.remove(target);
                }
                latest?
            };
            if !connection.is_closed() && connection.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(super) fn put(&self, target: &Endpoint, connection: Connection) {
        if connection.is_closed() {
            return;
        }
        let mut all = self.0.lock();
        // Targets whose connections are all closed are forgotten.
        all.retain(|_, idle| {
            idle.retain(|connection| !connection.is_closed());
            !idle.is_empty()
        });
        let idle = all.entry(target.clone()).or_default();
        if idle.len() < MOST_IDLE {
            idle.push(connection);
        }
    }
}
