//! Races of a program's threads, as far as the record shows them. Pure.
//!
//! The threads that read a program's watches race with each other and with those that write. So a controller may write
//! with an old resourceVersion and try again after a back-off, or repeat a write whose news is on the way. The record
//! shows both: conflicts are replies, and the server records when each watch event was sent.

use std::collections::BTreeMap;
use std::time::Duration;

use super::requests::{is_subject_write, requests};
use super::run::Run;
use crate::transcript::{Actor, Attributed as _, Delivery, EntryKind, Exchange, TranscriptEntry};

/// The first delay of a work queue after a failure; each further one in a row is twice as long.
///
/// Source: client-go `util/workqueue/default_rate_limiters.go`.
const FIRST_DELAY: Duration = Duration::from_millis(5);

/// Returns the time until which the subject tries writes again that have failed at `from` because the object had
/// changed, and those of these that fail again; `from` if there are none. Conflicts that a fault has made do not count.
#[must_use]
pub fn retries_until(entries: &[TranscriptEntry], from: Duration) -> Duration {
    let mut until = from;
    let mut conflicts: BTreeMap<(Actor, &str), u32> = BTreeMap::new();
    for (entry, exchange) in requests(entries).filter(|(entry, exchange)| is_subject_write(entry, exchange)) {
        let Some(reply) = &exchange.reply else { continue };
        let key = (entry.actor(), exchange.request.path.as_str());
        if reply.status == 409 && reply.fault.is_none() && exchange.request.verb != "create" {
            let count = conflicts.entry(key).or_default();
            let delay = 2_u32.checked_pow(*count).and_then(|factor| FIRST_DELAY.checked_mul(factor));
            if (from..=until).contains(&reply.at) {
                until = until.max(reply.at.saturating_add(delay.unwrap_or(Duration::MAX)));
            }
            *count += 1;
        } else if reply.status < 400 {
            conflicts.remove(&key);
        }
    }
    until
}

/// The watch events and reads that show the subject what its own writes have done.
pub(crate) struct OwnNews<'a> {
    run: &'a Run<'a>,
    deliveries: &'a [Delivery],
    /// The watches by the numbers of their requests.
    watches: BTreeMap<usize, &'a Exchange>,
    /// The resourceVersions that requests have made.
    versions: BTreeMap<usize, u64>,
}

impl<'a> OwnNews<'a> {
    /// Reads the record of a run. `None` if the subject's tasks run one at a time: then it knows its own writes.
    pub(crate) fn of(run: &'a Run<'a>) -> Option<Self> {
        let deliveries = run.deliveries?;
        let watches = requests(run.entries).filter(|(_, exchange)| exchange.request.verb == "watch");
        let watches = watches.map(|(entry, exchange)| (entry.seq, exchange)).collect();
        let changes = run.entries.iter().filter_map(|entry| match &entry.what {
            EntryKind::Change(change) => Some((change.request?, change.resource_version)),
            _ => None,
        });
        Some(Self { run, deliveries, watches, versions: changes.collect() })
    }

    /// Returns true if the subject may not have known the result of its write `before` when it sent `next`, for the
    /// same object: no watch event and no read at an earlier time had shown it. What happens at one instant has no
    /// order; on the wall clock, neither has what happens within the error of its durations.
    pub(crate) fn may_be_unknown(&self, before: &TranscriptEntry, next: (&TranscriptEntry, &Exchange)) -> bool {
        let entry = next.0;
        let request = &next.1.request;
        let Some(version) = self.versions.get(&before.seq) else { return false };
        let is_earlier = |at: Duration| at.saturating_add(self.run.slack()) < entry.at;
        let is_delivered = self.deliveries.iter().any(|delivery| {
            let object = &delivery.object;
            let watch = self.watches.get(&delivery.watch);
            is_earlier(delivery.at)
                && object.resource_version >= *version
                && request.name.as_deref() == Some(&*object.name)
                && request.namespace.as_deref() == object.namespace.as_deref()
                && watch.is_some_and(|watch| {
                    (&watch.request.group, &watch.request.resource) == (&request.group, &request.resource)
                })
        });
        let has_read = requests(self.run.entries).any(|(read, exchange)| {
            let what = &exchange.request;
            read.at >= before.at
                && read.seq > before.seq
                && read.actor().is_subject()
                && matches!(what.verb.as_str(), "get" | "list")
                && (&what.group, &what.resource) == (&request.group, &request.resource)
                && (what.name.is_none() || what.name == request.name)
                && exchange
                    .reply
                    .as_ref()
                    .is_some_and(|reply| reply.status < 300 && !reply.lost && is_earlier(reply.at))
        });
        !is_delivered && !has_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::{Change, ChangeKind, DeliveredObject, RecordedReply, RecordedRequest, Transcript};

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn request(verb: &str, name: Option<&str>) -> RecordedRequest {
        RecordedRequest {
            verb: verb.to_owned(),
            path: format!("/api/v1/nodes/{}", name.unwrap_or_default()),
            version: "v1".to_owned(),
            resource: "nodes".to_owned(),
            name: name.map(str::to_owned),
            ..RecordedRequest::default()
        }
    }

    fn exchange(transcript: &Transcript, at: Duration, verb: &str, name: Option<&str>, status: u16) -> usize {
        let seq = transcript.request(at, Actor::Ttl, request(verb, name));
        transcript.reply(seq, RecordedReply::new(at, status));
        seq
    }

    #[test]
    fn conflicts_are_retried_after_their_back_off() {
        let transcript = Transcript::new();
        for (at, status) in [(1000, 409), (1005, 409), (1015, 200), (1015, 409), (3000, 409)] {
            exchange(&transcript, ms(at), "update", Some("a"), status);
        }
        exchange(&transcript, ms(5000), "create", Some("b"), 409);
        let entries = transcript.entries();
        let until = |from| retries_until(&entries, ms(from));
        assert_eq!(until(1000), ms(1020), "5 ms, 10 ms, and 5 ms after a success");
        assert_eq!(until(1001), ms(1001), "nothing has failed at that time");
        assert_eq!(until(3000), ms(3010), "the second in a row");
        assert_eq!(until(5000), ms(5000), "what exists is not tried again");
    }

    fn run<'a>(entries: &'a [TranscriptEntry], deliveries: &'a [Delivery]) -> Run<'a> {
        Run {
            start: jiff::Timestamp::UNIX_EPOCH,
            initial: &[],
            entries,
            marks: &[],
            replies: &[],
            scrapes: &[],
            end: ms(10_000),
            tolerance: Duration::ZERO,
            late: Duration::ZERO,
            deliveries: Some(deliveries),
        }
    }

    /// Returns true if the second of two writes, at 1 s and at `next`, may not know the first one, which was delivered
    /// at `delivered` and read at `read`.
    fn is_unknown(delivered: Option<u64>, read: Option<u64>, next: u64) -> bool {
        let transcript = Transcript::new();
        let watch = exchange(&transcript, ms(0), "watch", None, 200);
        let first = exchange(&transcript, ms(1000), "patch", Some("a"), 200);
        transcript.change(
            ms(1000),
            Actor::Ttl,
            Change {
                request: Some(first),
                kind: ChangeKind::Modified,
                group: String::new(),
                resource: "nodes".to_owned(),
                namespace: None,
                name: "a".to_owned(),
                resource_version: 7,
                old: None,
                new: None,
            },
        );
        let object = |resource_version| DeliveredObject {
            kind: ChangeKind::Modified,
            namespace: None,
            name: "a".into(),
            resource_version,
        };
        transcript.delivery(ms(1000), watch, object(6));
        if let Some(at) = delivered {
            transcript.delivery(ms(at), watch, object(7));
        }
        if let Some(at) = read {
            exchange(&transcript, ms(at), "get", Some("a"), 200);
        }
        let second = exchange(&transcript, ms(next), "patch", Some("a"), 200);
        let entries = transcript.entries();
        let deliveries = transcript.deliveries();
        let run = run(&entries, &deliveries);
        let find = |seq| requests(&entries).find(|(entry, _)| entry.seq == seq).expect("a request");
        let news = OwnNews::of(&run).expect("deliveries");
        news.may_be_unknown(find(first).0, find(second))
    }

    #[test]
    fn writes_are_known_once_their_news_was_sent_at_an_earlier_time() {
        assert!(is_unknown(Some(1000), None, 1000), "at the same instant");
        assert!(is_unknown(None, None, 9000), "the watch is held");
        assert!(!is_unknown(Some(1000), None, 1001));
        assert!(!is_unknown(None, Some(1000), 1005));
        assert!(is_unknown(None, Some(1005), 1005));
    }
}
