//! Expiry of Events: kube-apiserver stores them for an hour (`--event-ttl`) after their last write.
//!
//! Upstream they have an etcd lease (`staging/src/k8s.io/apiserver/pkg/storage/etcd3/lease_manager.go`), so their
//! removal is not a request but does appear as a watch event; the same holds here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::controllers::{WatchChange, WatchMux, WatchSet};
use super::server::ApiServer;
use super::store::{EventType, ResourceId, StoredObject};

/// The lifetime of an Event after its last write.
const EVENT_TTL: Duration = Duration::from_hours(1);

/// The times at which Events end, one for each Event.
#[derive(Default)]
struct EventLeases {
    /// The end and the revision of the last write, by key.
    of_event: BTreeMap<Arc<str>, (Duration, u64)>,
    order: BTreeSet<(Duration, u64, Arc<str>)>,
}

impl EventLeases {
    fn renew(&mut self, stored: &StoredObject, ends: Duration) {
        let key = stored.key().clone();
        self.end(&key);
        self.order.insert((ends, stored.revision(), key.clone()));
        self.of_event.insert(key, (ends, stored.revision()));
    }

    fn end(&mut self, key: &Arc<str>) {
        if let Some((ends, revision)) = self.of_event.remove(key) {
            self.order.remove(&(ends, revision, key.clone()));
        }
    }

    fn next(&self) -> Option<Duration> {
        self.order.first().map(|(ends, ..)| *ends)
    }

    /// Removes the next lease that is over; returns its key and revision.
    fn take_due(&mut self, now: Duration) -> Option<(Arc<str>, u64)> {
        let (_, revision, key) = self.order.first().filter(|(ends, ..)| *ends <= now)?.clone();
        self.end(&key);
        Some((key, revision))
    }
}

/// Removes Events an hour after their last write, by the server's clock. For Events that exist at the start the hour
/// begins then. Never returns.
pub async fn expire_events(server: ApiServer) {
    let events = ResourceId::new("", "events");
    let clock = server.clock().clone();
    let mut feed = WatchMux::new(&server, WatchSet::Resources(vec![events.clone()]));
    let mut leases = EventLeases::default();
    loop {
        let next = leases.next();
        let ended = async {
            match next {
                Some(ends) => clock.sleep_until_offset(ends).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            changes = feed.next() => {
                let ends = clock.elapsed() + EVENT_TTL;
                for (_, change) in changes {
                    match change {
                        WatchChange::Replace(objects) => objects.iter().for_each(|stored| leases.renew(stored, ends)),
                        WatchChange::Event(event) if event.event_type == EventType::Deleted => {
                            leases.end(event.current.key());
                        }
                        WatchChange::Event(event) => leases.renew(&event.current, ends),
                    }
                }
            }
            () = ended => {
                let now = clock.elapsed();
                while let Some((key, revision)) = leases.take_due(now) {
                    // Rejected if the Event was written again: the watch brings the new state.
                    if server.store().delete(&events, &key, revision).is_ok() {
                        tracing::debug!(key = &*key, "event expired");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ApiServerConfig;
    use super::*;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::json::json;

    fn there(server: &ApiServer) -> Vec<String> {
        let events = server.list(&ResourceId::new("", "events"), None);
        events.iter().map(|event| event.name().to_owned()).collect()
    }

    #[test]
    fn events_go_an_hour_after_they_were_written_last() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            let write = |name: &str, count: i32| {
                let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "count": count});
                server.seed([event]).expect("seeded");
            };
            write("before", 1);
            let expiring = tokio::spawn(expire_events(server.clone()));
            settle().await;
            let minutes = |count| server.clock().sleep(Duration::from_mins(count));
            minutes(30).await;
            write("once", 1);
            write("twice", 1);
            minutes(29).await;
            write("twice", 2);
            assert_eq!(there(&server), ["before", "once", "twice"]);
            minutes(2).await;
            assert_eq!(there(&server), ["once", "twice"]);
            minutes(30).await;
            assert_eq!(there(&server), ["twice"]);
            minutes(30).await;
            assert_eq!(there(&server), Vec::<String>::new());
            expiring.abort();
        })
        .expect("a runtime");
    }
}
