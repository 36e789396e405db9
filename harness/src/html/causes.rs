//! Finds causes: which change reached which client, and which change a controller's write answers. PURE.
//!
//! The evidence for a write's causes is the resource version that the write names; and, unless that reached the client
//! at the same time, the last change of the same object that did, or else of any object. In virtual time controllers
//! react at once, so a write without any of them was made by a timer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::model::{Arrow, ArrowKind};
use super::timeline::EventSource;
use crate::transcript::{Actor, Attributed as _, Change, EntryKind, Exchange, RecordedRequest, TranscriptEntry};

/// On the wall clock, time within which a write answers a change.
const REACTION: Duration = Duration::from_secs(1);
/// Number of earlier deliveries among which a cause is searched.
const SEARCHED: usize = 300;

/// A delivery that was seen.
struct DeliveryRecord<'a> {
    event: usize,
    at: Duration,
    actor: Actor,
    change: &'a Change,
}

/// Finds the arrows of a timeline.
pub(super) struct CauseFinder<'a> {
    /// Time within which a write answers a change; zero in virtual time.
    reaction: Duration,
    deliveries: Vec<DeliveryRecord<'a>>,
    /// The event of each request and change, by sequence number.
    events: BTreeMap<usize, usize>,
    arrows: Vec<Arrow>,
}

impl<'a> CauseFinder<'a> {
    /// Creates a finder. `leeway` is zero in virtual time.
    pub(super) fn new(leeway: Duration) -> Self {
        let reaction = if leeway.is_zero() { Duration::ZERO } else { REACTION };
        Self { reaction, deliveries: Vec::new(), events: BTreeMap::new(), arrows: Vec::new() }
    }

    /// Returns the arrows between `sources`, ordered by cause.
    pub(super) fn arrows(mut self, sources: &[EventSource<'a>]) -> Vec<Arrow> {
        for (event, source) in sources.iter().enumerate() {
            match source {
                EventSource::Delivery(at, delivery) => {
                    let origin = delivery.change.request.unwrap_or(delivery.seq);
                    if let Some(from) = self.events.get(&origin) {
                        self.arrows.push(Arrow { from: *from, to: event, kind: ArrowKind::Delivers });
                    }
                    let (actor, change) = (delivery.actor.clone(), delivery.change);
                    self.deliveries.push(DeliveryRecord { event, at: *at, actor, change });
                }
                EventSource::Entry(entry) => {
                    self.events.insert(entry.seq, event);
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
        let (actor, request) = (entry.actor(), &exchange.request);
        let reached = |delivery: &&DeliveryRecord<'_>| delivery.actor == Actor::Informers || delivery.actor == actor;
        let is_recent = |delivery: &DeliveryRecord<'_>| delivery.at + self.reaction >= entry.at;
        let named = version(request).and_then(|version| {
            let names = |delivery: &&DeliveryRecord<'_>| delivery.change.resource_version == version;
            self.deliveries.iter().rev().filter(reached).find(names)
        });
        let mut causes: Vec<_> = named.iter().map(|delivery| (delivery.event, ArrowKind::Version)).collect();
        if named.is_some_and(is_recent) {
            return causes;
        }
        let recent =
            || self.deliveries.iter().rev().take(SEARCHED).filter(reached).take_while(|delivery| is_recent(delivery));
        let same = recent().find(|delivery| is_same_object(request, delivery.change));
        let other = || recent().next().filter(|_| !matches!(request.resource.as_str(), "events" | "leases"));
        let trigger = same.map(|delivery| (delivery.event, ArrowKind::Object));
        causes.extend(trigger.or_else(|| other().map(|delivery| (delivery.event, ArrowKind::Time))));
        causes
    }
}

fn is_same_object(request: &RecordedRequest, change: &Change) -> bool {
    request.resource == change.resource
        && request.name.as_deref() == Some(change.name.as_str())
        && request.namespace.as_deref().unwrap_or_default() == change.namespace.as_deref().unwrap_or_default()
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
