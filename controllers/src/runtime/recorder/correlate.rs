//! Counts, aggregates and filters events before they are written, as client-go's `EventCorrelator` with its default
//! options.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::{Event, event_name};
use crate::runtime::backoff::TokenBucket;
use crate::runtime::clock::Clock;

/// Maximum number of entries in each of the three caches; the least recently used is dropped first.
pub(super) const MEMORY_LIMIT: usize = 4096;
/// Number of different messages about the same subject from which they are aggregated.
pub(super) const AGGREGATE_FROM: usize = 10;
/// Interval after which the messages about a subject are counted from zero again.
pub(super) const AGGREGATE_WITHIN: Duration = Duration::from_mins(10);
/// Burst of events that a source may write about one object…
pub(super) const SPAM_BURST: u32 = 25;
/// …and the interval after which one more is allowed.
pub(super) const SPAM_REFILL: Duration = Duration::from_mins(5);

/// The decision about an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Correlation {
    /// Write it: create it if its count is 1, else patch the existing one.
    Write(Box<Event>),
    /// Drop it: its source has written too many events about its object.
    Skip,
}

/// The correlator of one recorder.
#[derive(Debug, Default)]
pub struct Correlator {
    aggregates: Lru<AggregateRecord>,
    logs: Lru<EventLog>,
    spam: Lru<TokenBucket>,
}

/// Messages about one subject.
#[derive(Debug, Default)]
struct AggregateRecord {
    messages: BTreeSet<String>,
    last: Option<Duration>,
}

/// An event as last written.
#[derive(Clone, Debug)]
struct EventLog {
    count: i32,
    first_timestamp: Timestamp,
    name: String,
}

impl Correlator {
    /// Decides about the next event of the recorder.
    pub fn correlate(&mut self, event: Event, clock: &Clock) -> Correlation {
        let spam_key = spam_key(&event);
        let (event, key) = self.aggregate(event, clock);
        let event = self.count_repeats(event, key);
        let now = clock.monotonic();
        let bucket = self.spam.entry(spam_key, || TokenBucket::new(1.0 / SPAM_REFILL.as_secs_f64(), SPAM_BURST));
        if bucket.try_accept(now) { Correlation::Write(Box::new(event)) } else { Correlation::Skip }
    }

    /// Records an event as the server stored it.
    pub fn update(&mut self, event: &Event) {
        self.logs.insert(event_key(event), EventLog::of(event));
    }

    fn aggregate(&mut self, event: Event, clock: &Clock) -> (Event, String) {
        let now = clock.monotonic();
        let key = aggregate_key(&event);
        let similar = self.aggregates.entry(key.clone(), AggregateRecord::default);
        if similar.last.is_none_or(|last| now.saturating_sub(last) > AGGREGATE_WITHIN) {
            similar.messages.clear();
        }
        similar.last = Some(now);
        similar.messages.insert(event.message.clone());
        if similar.messages.len() < AGGREGATE_FROM {
            let key = event_key(&event);
            return (event, key);
        }
        // The set only reaches the limit with a new message: keep the first ones, which were written.
        similar.messages.remove(&event.message);
        let at = clock.now();
        let mut combined = event;
        combined.metadata.name = match combined.metadata.name.rsplit_once('.') {
            // The recorder's stamp is unique, the time may not be.
            Some((_, stamp)) => i64::from_str_radix(stamp, 16)
                .map_or(combined.metadata.name.clone(), |stamp| event_name(&combined.involved_object.name, stamp)),
            None => combined.metadata.name,
        };
        combined.message = format!("(combined from similar events): {}", combined.message);
        combined.first_timestamp = at;
        combined.last_timestamp = at;
        combined.reporting_component = String::new();
        combined.reporting_instance = String::new();
        (combined, key)
    }

    fn count_repeats(&mut self, mut event: Event, key: String) -> Event {
        if let Some(seen) = self.logs.get(&key).filter(|seen| seen.count > 0) {
            event.metadata.name.clone_from(&seen.name);
            event.first_timestamp = seen.first_timestamp;
            event.count = seen.count.saturating_add(1);
        }
        self.logs.insert(key, EventLog::of(&event));
        event
    }
}

impl EventLog {
    fn of(event: &Event) -> Self {
        Self { count: event.count, first_timestamp: event.first_timestamp, name: event.metadata.name.clone() }
    }
}

fn join(parts: &[&str]) -> String {
    parts.join("\0")
}

fn event_type(event: &Event) -> &'static str {
    match event.event_type {
        super::EventType::Normal => "Normal",
        super::EventType::Warning => "Warning",
    }
}

fn event_key(event: &Event) -> String {
    join(&[&spam_key(event), &event.reason, &event.message])
}

fn aggregate_key(event: &Event) -> String {
    join(&[&spam_key(event), &event.reason, &event.reporting_component, &event.reporting_instance])
}

fn spam_key(event: &Event) -> String {
    let about = &event.involved_object;
    let source = &event.source.component;
    join(&[source, &about.kind, &about.namespace, &about.name, &about.uid, &about.api_version, event_type(event)])
}

/// A map of at most [`MEMORY_LIMIT`] entries that drops the least recently used.
#[derive(Debug)]
struct Lru<T> {
    entries: BTreeMap<String, (u64, T)>,
    by_use: BTreeMap<u64, String>,
    uses: u64,
}

impl<T> Default for Lru<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }
}

impl<T> Lru<T> {
    fn get(&mut self, key: &str) -> Option<&mut T> {
        self.uses += 1;
        let (used, value) = self.entries.get_mut(key)?;
        let key = self.by_use.remove(used)?;
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(value)
    }

    fn insert(&mut self, key: String, value: T) {
        self.uses += 1;
        if let Some((used, _)) = self.entries.insert(key.clone(), (self.uses, value)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, key);
        if self.entries.len() > MEMORY_LIMIT
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    fn entry(&mut self, key: String, make: impl FnOnce() -> T) -> &mut T {
        if self.get(&key).is_none() {
            self.insert(key.clone(), make());
        }
        &mut self.entries.get_mut(&key).expect("just used, so it is the last to be forgotten").1
    }
}
