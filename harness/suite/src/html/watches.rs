//! The watch events that reached the subject, by client. PURE.

use std::collections::BTreeMap;
use std::iter::Peekable;

use plumbline::transcript::{Actor, Attributed as _, Delivery, EntryKind, TranscriptEntry};

/// A watch event that was sent to a client of the subject.
#[derive(Clone, Debug)]
pub(super) struct WatchDelivery<'a> {
    /// The client.
    pub(super) actor: Actor,
    /// The watched resource.
    pub(super) resource: &'a str,
    /// The record of the event.
    pub(super) sent: &'a Delivery,
}

/// Hands out the deliveries of a record in step with its entries.
pub(super) struct DeliveryReader<'a, I: Iterator<Item = &'a Delivery>> {
    rest: Peekable<I>,
    /// Client and resource of each watch of the subject, by the number of its request.
    watches: BTreeMap<usize, (Actor, &'a str)>,
}

/// Reads the deliveries of a record.
pub(super) fn read<'a>(
    entries: &'a [TranscriptEntry],
    deliveries: &'a [Delivery],
) -> DeliveryReader<'a, std::slice::Iter<'a, Delivery>> {
    let watch = |entry: &'a TranscriptEntry| match &entry.what {
        EntryKind::Request(exchange) if exchange.request.verb == "watch" => {
            let actor = Some(entry.actor()).filter(Actor::is_subject)?;
            Some((entry.seq, (actor, exchange.request.resource.as_str())))
        }
        EntryKind::Request(_) | EntryKind::Change(_) | EntryKind::Note(_) => None,
    };
    DeliveryReader { rest: deliveries.iter().peekable(), watches: entries.iter().filter_map(watch).collect() }
}

impl<'a, I: Iterator<Item = &'a Delivery>> DeliveryReader<'a, I> {
    /// Returns what was sent before the entry at `position`, and was not returned yet.
    pub(super) fn before(&mut self, position: usize) -> Vec<WatchDelivery<'a>> {
        let mut out = Vec::new();
        while let Some(sent) = self.rest.next_if(|sent| sent.position <= position) {
            if let Some((actor, resource)) = self.watches.get(&sent.watch) {
                out.push(WatchDelivery { actor: actor.clone(), resource, sent });
            }
        }
        out
    }
}
