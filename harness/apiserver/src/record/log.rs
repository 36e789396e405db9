//! The entries, and the limit on their size.

use super::delivery::Delivery;
use super::entry::{EntryKind, TranscriptEntry};
use super::json::RecordedJson;

/// Approximate size of an entry without its objects, in bytes.
const ENTRY: usize = 512;
/// Approximate size of a delivery, in bytes.
const DELIVERY: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) entries: Vec<TranscriptEntry>,
    /// The watch events that were sent.
    pub(super) deliveries: Vec<Delivery>,
    /// `seq` of the first entry, which is the number of dropped entries.
    pub(super) first: usize,
    /// Size limit in bytes, above which the older half is dropped; `None` keeps everything.
    pub(super) keep: Option<usize>,
    /// Approximate size of the entries in bytes; counted only if there is a limit.
    bytes: usize,
}

impl Log {
    /// Makes room for one more entry.
    pub(super) fn grow(&mut self, what: &EntryKind) {
        if self.keep.is_some() {
            self.bytes += ENTRY;
            match what {
                EntryKind::Request(exchange) => self.count(exchange.request.body.iter()),
                EntryKind::Change(change) => self.count(change.old.iter().chain(&change.new)),
                EntryKind::Note(text) => self.bytes += text.len(),
            }
        }
    }

    /// Adds the size of an entry's objects, and drops old entries above the limit.
    pub(super) fn count<'v>(&mut self, values: impl Iterator<Item = &'v RecordedJson>) {
        let Some(keep) = self.keep else { return };
        self.bytes += values.map(RecordedJson::size).sum::<usize>();
        if self.bytes > keep {
            let old = self.entries.len().div_ceil(2);
            self.entries.drain(..old);
            self.first += old;
            let first = self.first;
            self.deliveries.retain(|delivery| delivery.position > first);
            self.bytes = self.entries.iter().map(weight).sum::<usize>() + DELIVERY * self.deliveries.len();
        }
    }

    /// Adds a delivery.
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        self.deliveries.push(delivery);
        if self.keep.is_some() {
            self.bytes += DELIVERY;
            self.count(std::iter::empty());
        }
    }
}

fn weight(entry: &TranscriptEntry) -> usize {
    let objects = match &entry.what {
        EntryKind::Request(exchange) => {
            let reply = exchange.reply.as_ref().and_then(|reply| reply.body.as_ref());
            exchange.request.body.iter().chain(reply).map(RecordedJson::size).sum()
        }
        EntryKind::Change(change) => change.old.iter().chain(&change.new).map(RecordedJson::size).sum(),
        EntryKind::Note(text) => text.len(),
    };
    ENTRY + objects
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::super::{ChangeKind, DeliveredObject, EntryKind, Origin, RecordedReply, RecordedRequest, Transcript};
    use super::*;

    #[test]
    fn the_older_half_is_forgotten_and_numbers_go_on() {
        let transcript = Transcript::of_recent(100_000);
        let body = RecordedJson::from(Value::from("x".repeat(10_000)));
        let mut last = 0;
        for _ in 0..100 {
            let request = RecordedRequest { body: Some(body.clone()), ..RecordedRequest::default() };
            last = transcript.request(Duration::ZERO, Origin::client("user", ""), request);
            transcript.reply(last, RecordedReply::new(Duration::ZERO, 200));
        }
        assert_eq!((last, transcript.len()), (99, 100));
        let entries = transcript.entries();
        assert!((4..=10).contains(&entries.len()), "{}", entries.len());
        assert_eq!(entries.last().map(|entry| entry.seq), Some(99));
        let answered =
            |entry: &TranscriptEntry| matches!(&entry.what, EntryKind::Request(exchange) if exchange.reply.is_some());
        assert!(entries.iter().all(answered));
        // A reply to a dropped request is ignored.
        transcript.reply(0, RecordedReply::new(Duration::ZERO, 200));
    }

    #[test]
    fn deliveries_count_and_are_forgotten_with_their_entries() {
        let transcript = Transcript::of_recent(100_000);
        let watch = transcript.request(Duration::ZERO, Origin::client("user", ""), RecordedRequest::default());
        let object =
            DeliveredObject { kind: ChangeKind::Added, namespace: None, name: "a".into(), resource_version: 1 };
        for _ in 0..10_000 {
            transcript.note(Duration::ZERO, "change");
            transcript.delivery(Duration::ZERO, watch, object.clone());
        }
        let deliveries = transcript.deliveries();
        assert!((10..1000).contains(&deliveries.len()), "{}", deliveries.len());
        assert_eq!(deliveries.last().map(|delivery| (delivery.position, delivery.watch)), Some((10_001, watch)));
    }

    #[test]
    fn without_a_limit_everything_is_kept() {
        let transcript = Transcript::new();
        for _ in 0..1000 {
            transcript.note(Duration::ZERO, "x".repeat(1000));
        }
        assert_eq!(transcript.entries().len(), 1000);
    }
}
