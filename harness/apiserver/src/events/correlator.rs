//! The events of the core API: similar ones are combined, repeated ones counted, too many dropped. See
//! `EventCorrelator` in `staging/src/k8s.io/client-go/tools/record/events_cache.go` and `recordEvent` in `event.go` of
//! Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::object::collection;
use crate::controllers::{ControllerClient, MERGE_PATCH};
use crate::event_sink::Event;
use crate::json::{Value, json};
use crate::metadata;
use crate::object_lifecycle::rfc3339;

/// Most entries of each memory of a correlator (`maxLruCacheEntries`).
const ENTRIES_MAX: usize = 4096;
/// The number of messages of the same reason from which on they are combined, and the pause after which they count
/// from the beginning (`defaultAggregateMaxEvents`, `defaultAggregateIntervalInSeconds`).
const SIMILAR: (usize, Duration) = (10, Duration::from_mins(10));
/// Most events at once of one type about one object, and the time after which there may be one more
/// (`defaultSpamBurst`, `defaultSpamQPS`).
const BURST: (u32, Duration) = (25, Duration::from_mins(5));

/// The events that may come again, of all components.
#[derive(Default)]
pub(super) struct EventCorrelator {
    similar: RecentEntries<Similar>,
    observed: RecentEntries<Observation>,
    tokens: RecentEntries<TokenBucket>,
}

/// Events that differ in their messages.
#[derive(Default)]
struct Similar {
    messages: BTreeSet<String>,
    last: Option<Timestamp>,
}

/// An event that was observed: its object, with the count of the last observation.
struct Observation {
    object: Value,
    count: u32,
}

/// The events that may still come, and the time until which that holds.
struct TokenBucket {
    left: u32,
    since: Timestamp,
}

impl EventCorrelator {
    /// Writes an event, or a higher count of the one that says the same. An event that is dropped counts as well.
    pub(super) async fn write(&mut self, agent: &ControllerClient, event: Event, number: i128) {
        let now = agent.server().clock().now();
        let about = ["kind", "namespace", "name", "uid", "apiVersion"];
        let about = about.map(|field| event.about[field].as_str().unwrap_or_default()).join("/");
        let source = format!("{} {} {about} {}", event.component, event.host, event.type_name());
        let (event, key) = self.combined(event, &source, now);
        let path = collection(&event.about);
        let observation = self.observed.entry(key, || Observation { object: event.object(now, number), count: 0 });
        observation.count += 1;
        let count = observation.count;
        let object = &mut observation.object;
        let changes = json!({"count": count, "lastTimestamp": rfc3339(now), "message": event.message});
        for (field, value) in changes.as_object().into_iter().flatten() {
            object[field.as_str()] = value.clone();
        }
        if !self.tokens.entry(source, || TokenBucket { left: BURST.0, since: now }).take(now) {
            return;
        }
        if count > 1 {
            let known = format!("{path}/{}", metadata::name(object));
            if agent.patch(&known, MERGE_PATCH, &changes).await.code != 404 {
                return;
            }
        }
        agent.create(&path, object).await;
    }

    /// Returns the event and the key of its observation; those of the combined event if there are many similar ones.
    fn combined(&mut self, event: Event, source: &str, now: Timestamp) -> (Event, String) {
        let (most, pause) = SIMILAR;
        let key = format!("{source} {}", event.reason);
        let similar = self.similar.entry(key.clone(), Similar::default);
        if similar.last.is_some_and(|last| now > last + pause) {
            similar.messages.clear();
        }
        similar.messages.insert(event.message.clone());
        similar.last = Some(now);
        if similar.messages.len() < most {
            let place = event.about["fieldPath"].as_str().unwrap_or_default();
            let key = format!("{key} {place} {}", event.message);
            return (event, key);
        }
        similar.messages.pop_first();
        let message = format!("(combined from similar events): {}", event.message);
        (Event { message, ..event }, key)
    }
}

impl TokenBucket {
    /// Takes a token; `false` if there is none.
    fn take(&mut self, now: Timestamp) -> bool {
        let (most, refill) = BURST;
        while self.left < most && self.since + refill <= now {
            self.left += 1;
            self.since += refill;
        }
        if self.left == most {
            self.since = now;
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

/// Entries by key, of which the one that was used least recently goes when there are too many.
struct RecentEntries<T> {
    entries: BTreeMap<String, (u64, T)>,
    keys: BTreeMap<u64, String>,
    uses: u64,
}

impl<T> Default for RecentEntries<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), keys: BTreeMap::new(), uses: 0 }
    }
}

impl<T> RecentEntries<T> {
    /// Returns the entry of a key, which is created if there is none.
    fn entry(&mut self, key: String, create: impl FnOnce() -> T) -> &mut T {
        self.uses += 1;
        let present = self.entries.get(&key).map(|(used, _)| *used);
        match present {
            Some(used) => _ = self.keys.remove(&used),
            None if self.entries.len() == ENTRIES_MAX => {
                let oldest = self.keys.pop_first();
                self.entries.remove(&oldest.expect("a key for each entry").1);
            }
            None => {}
        }
        self.keys.insert(self.uses, key.clone());
        let entry = self.entries.entry(key).or_insert_with(|| (0, create()));
        entry.0 = self.uses;
        &mut entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServer;
    use crate::clock::run_virtual;
    use crate::store::ResourceId;

    fn event(message: &str) -> Event {
        let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": "u"});
        Event::warning(about, "c", "Failed", message.to_owned())
    }

    /// Returns count and message of each event.
    fn written(server: &ApiServer) -> Vec<(i64, String)> {
        let all = server.list(&ResourceId::new("", "events"), None);
        let shown = |event: Value| {
            (event["count"].as_i64().unwrap_or(0), event["message"].as_str().unwrap_or_default().to_owned())
        };
        all.iter().map(|stored| shown(stored.value())).collect()
    }

    /// As `TestEventCorrelator`: what the limit drops is counted by the next one that passes.
    #[test]
    fn an_event_that_comes_again_has_a_count_and_many_are_dropped() {
        run_virtual(async {
            let server = ApiServer::builder().build();
            let agent = ControllerClient::new(&server, "recorder");
            let mut log = EventCorrelator::default();
            for number in 0..40 {
                log.write(&agent, event("no"), number).await;
            }
            assert_eq!(written(&server), [(25, "no".to_owned())]);
            // Events of the other type have a limit of their own.
            log.write(&agent, Event { warning: false, ..event("yes") }, 40).await;
            assert_eq!(written(&server).len(), 2);
            server.clock().sleep(BURST.1).await;
            log.write(&agent, event("no"), 41).await;
            assert!(written(&server).contains(&(41, "no".to_owned())), "{:?}", written(&server));
            let path = "/api/v1/namespaces/default/events";
            agent.send(http::Method::DELETE, path, "", None).await;
            server.clock().sleep(BURST.1).await;
            log.write(&agent, event("no"), 42).await;
            assert_eq!(written(&server), [(42, "no".to_owned())], "one that is gone is created with its count");
        })
        .expect("a runtime");
    }

    /// As `TestEventCorrelator`, "create-many-diff-messages": the tenth message of a reason is the combined one.
    #[test]
    fn similar_events_are_combined() {
        run_virtual(async {
            let server = ApiServer::builder().build();
            let agent = ControllerClient::new(&server, "recorder");
            let mut log = EventCorrelator::default();
            for number in 0..12 {
                log.write(&agent, event(&format!("pod {number}")), number).await;
            }
            let combined = "(combined from similar events): pod 11".to_owned();
            assert_eq!(written(&server).len(), 10);
            assert!(written(&server).contains(&(3, combined)), "{:?}", written(&server));
            server.clock().sleep(SIMILAR.1 + Duration::from_secs(1)).await;
            log.write(&agent, event("pod 12"), 12).await;
            assert!(written(&server).contains(&(1, "pod 12".to_owned())), "after a pause they are apart again");
        })
        .expect("a runtime");
    }

    #[test]
    fn the_entry_that_was_used_least_recently_goes() {
        let mut entries = RecentEntries::default();
        for number in 0..ENTRIES_MAX {
            entries.entry(number.to_string(), || number);
        }
        entries.entry("0".to_owned(), || 1);
        entries.entry("new".to_owned(), || 2);
        assert_eq!(*entries.entry("0".to_owned(), || 3), 0);
        assert_eq!(*entries.entry("1".to_owned(), || 4), 4);
        assert_eq!((entries.entries.len(), entries.keys.len()), (ENTRIES_MAX, ENTRIES_MAX));
    }
}
