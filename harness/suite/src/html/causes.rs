//! Finds causes: which change reached which client, and which change a controller's write answers. PURE.
//!
//! The evidence for a write's causes is the resource version that the write names; and, unless that reached the client
//! at the same time, the last change of the same object that did, or else of any object. In virtual time controllers
//! react at once, so a write without any of them was made by a timer.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::transcript::{Actor, Attributed as _, EntryKind, Exchange, RecordedRequest, TranscriptEntry};
use serde_json::Value;

use super::model::{Arrow, ArrowKind};
use super::timeline::EventSource;
use super::watches::WatchDelivery;

/// On the wall clock, time within which a write answers a change.
const REACTION: Duration = Duration::from_secs(1);
/// Number of earlier deliveries among which a cause is searched.
const SEARCHED: usize = 300;

/// A delivery of the timeline, with the position of its event.
type PlacedDelivery<'a> = (usize, &'a WatchDelivery<'a>);

/// Finds the arrows of a timeline.
pub(super) struct CauseFinder<'a> {
    /// Time within which a write answers a change; zero in virtual time.
    reaction: Duration,
    deliveries: Vec<PlacedDelivery<'a>>,
    arrows: Vec<Arrow>,
}

impl<'a> CauseFinder<'a> {
    /// Creates a finder. `leeway` is zero in virtual time.
    pub(super) fn new(leeway: Duration) -> Self {
        let reaction = if leeway.is_zero() { Duration::ZERO } else { REACTION };
        Self { reaction, deliveries: Vec::new(), arrows: Vec::new() }
    }

    /// Returns the arrows between `sources`, ordered by cause.
    pub(super) fn arrows(mut self, entries: &[TranscriptEntry], sources: &'a [EventSource<'a>]) -> Vec<Arrow> {
        let origins = origins(entries, sources);
        for (event, source) in sources.iter().enumerate() {
            match source {
                EventSource::Delivery(delivery) => {
                    let object = &delivery.sent.object;
                    // A proxy may see the event before the change.
                    let origin = origins.get(&(object.resource_version, &*object.name));
                    if let Some(from) = origin.filter(|from| **from < event) {
                        self.arrows.push(Arrow { from: *from, to: event, kind: ArrowKind::Delivers });
                    }
                    self.deliveries.push((event, delivery));
                }
                EventSource::Entry(entry) => {
                    if let EntryKind::Request(exchange) = &entry.what
                        && exchange.request.is_write()
                        && entry.actor().is_subject()
                    {
                        let causes = self.causes(entry, exchange);
                        self.arrows.extend(causes.into_iter().map(|(from, kind)| Arrow { from, to: event, kind }));
                    }
                }
            }
        }
        self.arrows.sort_unstable();
        self.arrows
    }

    /// Returns the causes of a write: the version that it names, and what reached the client last, if that is later.
    fn causes(&self, entry: &TranscriptEntry, exchange: &Exchange) -> Vec<(usize, ArrowKind)> {
        let actor = entry.actor();
        let request = &exchange.request;
        let reached =
            |(_, delivery): &&PlacedDelivery<'_>| delivery.actor == Actor::Informers || delivery.actor == actor;
        let is_recent = |(_, delivery): &PlacedDelivery<'_>| delivery.sent.at + self.reaction >= entry.at;
        let named = version(request).and_then(|version| {
            let names = |(_, delivery): &&PlacedDelivery<'_>| delivery.sent.object.resource_version == version;
            self.deliveries.iter().rev().filter(reached).find(names)
        });
        let mut causes: Vec<_> = named.iter().map(|(event, _)| (*event, ArrowKind::Version)).collect();
        if named.is_some_and(is_recent) {
            return causes;
        }
        let recent =
            || self.deliveries.iter().rev().take(SEARCHED).filter(reached).take_while(|delivery| is_recent(delivery));
        let same = recent().find(|(_, delivery)| is_same_object(request, delivery));
        let other = || recent().next().filter(|_| !matches!(request.resource.as_str(), "events" | "leases"));
        let trigger = same.map(|(event, _)| (*event, ArrowKind::Object));
        causes.extend(trigger.or_else(|| other().map(|(event, _)| (*event, ArrowKind::Time))));
        causes
    }
}

/// Returns the event that made each version of an object: the request, or the server's own change.
fn origins<'e>(entries: &'e [TranscriptEntry], sources: &[EventSource<'_>]) -> BTreeMap<(u64, &'e str), usize> {
    let event_of = |(event, source): (usize, &EventSource<'_>)| match source {
        EventSource::Entry(entry) => Some((entry.seq, event)),
        EventSource::Delivery(_) => None,
    };
    let events: BTreeMap<usize, usize> = sources.iter().enumerate().filter_map(event_of).collect();
    let origin = |entry: &'e TranscriptEntry| match &entry.what {
        EntryKind::Change(change) => {
            let event = events.get(&change.request.unwrap_or(entry.seq))?;
            Some(((change.resource_version, change.name.as_str()), *event))
        }
        EntryKind::Request(_) | EntryKind::Note(_) => None,
    };
    entries.iter().filter_map(origin).collect()
}

fn is_same_object(request: &RecordedRequest, delivery: &WatchDelivery<'_>) -> bool {
    let object = &delivery.sent.object;
    request.resource == delivery.resource
        && request.name.as_deref() == Some(&*object.name)
        && request.namespace.as_deref().unwrap_or_default() == object.namespace.as_deref().unwrap_or_default()
}

/// Returns the resource version that a write names.
fn version(request: &RecordedRequest) -> Option<u64> {
    let body = request.body.as_deref()?;
    let places: [&[&str]; 3] = [
        &["preconditions", "resourceVersion"],
        &["deleteOptions", "preconditions", "resourceVersion"],
        &["metadata", "resourceVersion"],
    ];
    let find = |path: &&[&str]| path.iter().try_fold(body, |value, key| value.get(*key)).and_then(Value::as_str);
    places.iter().find_map(find)?.parse().ok()
}
