//! The events of `events.k8s.io`, which only the scheduler writes: repeated ones are a series. See
//! `staging/src/k8s.io/client-go/tools/events/event_broadcaster.go` of Kubernetes 1.36.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::object::collection;
use crate::controllers::{ControllerClient, MERGE_PATCH};
use crate::event_sink::Event;
use crate::json::{Value, json};
use crate::metadata;

/// Time without a repetition after which a series is at its end (`finishTime`).
const FINISH: Duration = Duration::from_mins(6);
/// Period after which the counts of series are written (`refreshTime`).
const REFRESH: Duration = Duration::from_mins(30);

/// The events that may come again.
#[derive(Default)]
pub(super) struct EventSeriesLog {
    known: BTreeMap<String, KnownEvent>,
    /// The next times at which counts are written and ends looked for.
    refresh: Option<Timestamp>,
    finish: Option<Timestamp>,
}

/// An event, and its repetitions.
struct KnownEvent {
    collection: String,
    object: Value,
    first: Timestamp,
    /// Number of the same events, and the time of the last one; `None` if there was one only.
    series: Option<(u32, Timestamp)>,
}

impl EventSeriesLog {
    /// Writes an event, or that it is a series at its second time. Later ones are counted. A series may have several
    /// messages, of which the first is shown.
    pub(super) async fn write(&mut self, agent: &ControllerClient, event: &Event, number: i128) {
        let now = agent.server().clock().now();
        self.refresh.get_or_insert(now + REFRESH);
        self.finish.get_or_insert(now + FINISH);
        let key =
            format!("{} {} {} {} {}", event.type_name(), event.action(), event.reason, event.about, event.related);
        if let Some(known) = self.known.get_mut(&key) {
            let count = known.series.map_or(1, |(count, _)| count);
            known.series = Some((count.saturating_add(1), now));
            if count == 1 {
                known.record(agent).await;
            }
            return;
        }
        let known = KnownEvent {
            collection: collection(&event.about),
            object: event.object(now, number),
            first: now,
            series: None,
        };
        known.record(agent).await;
        self.known.insert(key, known);
    }

    /// Returns the next time at which there is something to do; `None` if no event can come again.
    pub(super) fn next(&self) -> Option<Timestamp> {
        [self.refresh, self.finish].into_iter().flatten().min()
    }

    /// Writes the counts of series that are due, and forgets what is at its end.
    pub(super) async fn tick(&mut self, agent: &ControllerClient) {
        let now = agent.server().clock().now();
        if self.refresh.is_some_and(|at| at <= now) {
            self.refresh = Some(now + REFRESH);
            for known in self.known.values().filter(|known| known.series.is_some()) {
                known.record(agent).await;
            }
        }
        if self.finish.is_some_and(|at| at <= now) {
            self.finish = Some(now + FINISH);
            let ended = |known: &mut KnownEvent| known.series.map_or(known.first, |(_, last)| last) + FINISH < now;
            for (_, known) in self.known.extract_if(.., |_, known| ended(known)) {
                if known.series.is_some() {
                    known.record(agent).await;
                }
            }
        }
        if self.known.is_empty() {
            (self.refresh, self.finish) = (None, None);
        }
    }
}

impl KnownEvent {
    /// Creates the event, or writes the series of one that is there.
    async fn record(&self, agent: &ControllerClient) {
        let Some((count, last)) = self.series else {
            agent.create(&self.collection, &self.object).await;
            return;
        };
        let series = json!({"count": count, "lastObservedTime": format!("{last:.6}")});
        let path = format!("{}/{}", self.collection, metadata::name(&self.object));
        if agent.patch(&path, MERGE_PATCH, &json!({"series": series.clone()})).await.code == 404 {
            let mut object = self.object.clone();
            object["series"] = series;
            agent.create(&self.collection, &object).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServer;
    use crate::clock::run_virtual;
    use crate::events::object::SCHEDULER;
    use crate::store::ResourceId;

    /// As `TestEventSeriesf`, `TestRefreshExistingEventSeries` and `TestFinishSeries` in
    /// `staging/src/k8s.io/client-go/tools/events`.
    #[test]
    fn a_series_is_written_at_its_second_event_then_now_and_then_and_at_its_end() {
        run_virtual(async {
            let server = ApiServer::builder().build();
            let agent = ControllerClient::new(&server, "recorder");
            let mut log = EventSeriesLog::default();
            let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": "u"});
            let event =
                |message: &str| Event::warning(about.clone(), SCHEDULER, "FailedScheduling", message.to_owned());
            let counts = || {
                let all = server.list(&ResourceId::new("", "events"), None);
                let shown = |event: Value| (event["message"].clone(), event["series"]["count"].clone());
                all.iter().map(|stored| shown(stored.value())).collect::<Vec<_>>()
            };
            log.write(&agent, &event("no node"), 1).await;
            assert_eq!(counts(), [("no node".into(), Value::Null)]);
            for number in 2..30 {
                log.write(&agent, &event("no room"), number).await;
            }
            assert_eq!(counts(), [("no node".into(), json!(2))], "the others are counted and not written");
            for _ in 0..5 {
                server.clock().sleep(FINISH).await;
                log.tick(&agent).await;
                log.write(&agent, &event("no node"), 30).await;
            }
            assert_eq!(counts(), [("no node".into(), json!(33))], "after half an hour");
            server.clock().sleep(FINISH).await;
            log.tick(&agent).await;
            assert_eq!(counts(), [("no node".into(), json!(33))]);
            server.clock().sleep(FINISH).await;
            log.tick(&agent).await;
            assert_eq!(counts(), [("no node".into(), json!(34))], "at the end");
            assert_eq!(log.next(), None);
            log.write(&agent, &event("no node"), 31).await;
            assert_eq!(counts().len(), 2, "then there is another event");
        })
        .expect("a runtime");
    }
}
