//! Follows the open watches of a run and derives which change reached which client, and when. PURE.
//!
//! The record has requests and changes, but no entries for deliveries. A watch without selectors delivers every later
//! change of its resource; faults hold the events back or break the watch. Watches with selectors are left out.

use std::collections::BTreeMap;

use super::notes::HarnessNote;
use crate::transcript::{Actor, Change, Exchange};

/// A change that a watch delivers.
#[derive(Clone, Debug)]
pub(super) struct WatchDelivery<'a> {
    /// The client.
    pub(super) actor: Actor,
    /// The change.
    pub(super) change: &'a Change,
    /// Sequence number of the change's entry.
    pub(super) seq: usize,
}

/// A watch: client, group, resource, namespace.
type WatchKey = (Actor, String, String, Option<String>);

/// The watches that are open.
#[derive(Debug, Default)]
pub(super) struct OpenWatches<'a> {
    /// With the sequence number of the request.
    open: BTreeMap<WatchKey, usize>,
    /// Changes that are held back, by resource.
    held: BTreeMap<String, Vec<WatchDelivery<'a>>>,
}

impl<'a> OpenWatches<'a> {
    /// Opens a watch, if the request is one that delivers every change.
    pub(super) fn request(&mut self, actor: Actor, exchange: &Exchange, seq: usize) {
        let request = &exchange.request;
        let is_open = exchange.reply.as_ref().is_none_or(|reply| reply.status < 400 && !reply.lost);
        let selects = ["labelSelector", "fieldSelector"].iter().any(|key| request.query_value(key).is_some());
        if request.verb == "watch" && is_open && !selects && actor.is_subject() {
            let key = (actor, request.group.clone(), request.resource.clone(), request.namespace.clone());
            self.open.insert(key, seq);
        }
    }

    /// Returns the deliveries of a change.
    pub(super) fn change(&mut self, change: &'a Change, seq: usize) -> Vec<WatchDelivery<'a>> {
        let covers = |(_, group, resource, namespace): &&WatchKey| {
            *group == change.group
                && *resource == change.resource
                && namespace.as_ref().is_none_or(|namespace| Some(namespace) == change.namespace.as_ref())
        };
        let reached = self.open.keys().filter(covers);
        let found: Vec<_> = reached.map(|(actor, ..)| WatchDelivery { actor: actor.clone(), change, seq }).collect();
        match self.held.get_mut(&change.resource) {
            Some(held) => {
                held.extend(found);
                Vec::new()
            }
            None => found,
        }
    }

    /// Applies a note. Returns what it delivers.
    pub(super) fn note(&mut self, note: HarnessNote<'_>) -> Vec<WatchDelivery<'a>> {
        match note {
            HarnessNote::Crash | HarnessNote::Stop => {
                self.open.clear();
                self.held.values_mut().for_each(Vec::clear);
            }
            HarnessNote::Outage => self.open.clear(),
            HarnessNote::WatchEnd(which) => {
                self.open.retain(|(_, _, resource, _), _| which != "everything" && which != resource);
            }
            HarnessNote::Hold(resource) => {
                self.held.entry(resource.to_owned()).or_default();
            }
            HarnessNote::Release(resource, coalesced) => {
                let held = self.held.remove(resource).unwrap_or_default();
                return if coalesced { last_of_each(held) } else { held };
            }
            HarnessNote::Start
            | HarnessNote::OutageEnd
            | HarnessNote::StaleList(_)
            | HarnessNote::FreshList(_)
            | HarnessNote::Skew
            | HarnessNote::Other => {}
        }
        Vec::new()
    }
}

/// Keeps the last delivery for each client and object, in order.
fn last_of_each(deliveries: Vec<WatchDelivery<'_>>) -> Vec<WatchDelivery<'_>> {
    let mut last = BTreeMap::new();
    for delivery in deliveries {
        let change = delivery.change;
        let key = (delivery.actor.clone(), change.namespace.clone(), change.name.clone());
        last.insert(key, delivery);
    }
    let mut kept: Vec<_> = last.into_values().collect();
    kept.sort_by_key(|delivery| delivery.seq);
    kept
}
