//! The oracle `leader`: a replica that has lost the lease, or could not renew it, sends no write. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use plumbline::expect::{is_subject_write, line};
use plumbline::explore::breach::Breach;
use plumbline::transcript::{Change, EntryKind, RecordedJson, TranscriptEntry, replica_of};
use serde_json::{Value, json};

/// The oracle.
pub const LEADER: &str = "leader";

/// Time until a leader notices that its lease was taken by force: it renews the lease every 2 s.
const NOTICED: Duration = Duration::from_secs(3);

/// The holder of the lease at a time.
struct Holder {
    /// Its number; `None` if it is none of the replicas.
    replica: Option<u8>,
    /// The time from which no other replica may write.
    exclusive: Duration,
    /// The time from which the replica itself may not write, unless it renews the lease.
    over: Duration,
}

/// Returns the time at which a lease that was renewed at `at` is over.
fn end_of(lease: Option<&RecordedJson>, at: Duration) -> Duration {
    let seconds = lease.and_then(|lease| lease["spec"]["leaseDurationSeconds"].as_u64());
    seconds.map_or(Duration::MAX, |seconds| at.saturating_add(Duration::from_secs(seconds)))
}

/// Returns the first write of a replica that does not hold the lease. Standbys wait until a lease has expired, so after
/// them the former leader gets no time; anybody else may take the lease at any moment. A lease that is not renewed is
/// over although no other client takes it.
pub(super) fn writes_after_loss(entries: &[TranscriptEntry]) -> Option<Breach> {
    let mut holder: Option<Holder> = None;
    for entry in entries {
        match &entry.what {
            EntryKind::Change(change) if change.resource == "leases" => {
                let identity = change.new.as_ref().map(|lease| lease["spec"]["holderIdentity"].clone());
                let replica = identity.as_ref().and_then(|name| name.as_str()?.strip_prefix("replica-")?.parse().ok());
                let over = end_of(change.new.as_ref(), entry.at);
                if let Some(lease) = holder.as_mut().filter(|lease| lease.replica == replica) {
                    lease.over = over;
                    continue;
                }
                let by_replica = change.request.and_then(|seq| sender(entries.get(seq)?)).is_some();
                let exclusive = if by_replica { entry.at } else { entry.at + NOTICED };
                holder = Some(Holder { replica, exclusive, over });
            }
            EntryKind::Request(exchange) if is_subject_write(entry, exchange) => {
                let (Some(writer), Some(lease)) = (sender(entry), &holder) else { continue };
                let is_over = lease.replica == Some(writer) && entry.at > lease.over;
                if is_over || lease.replica != Some(writer) && entry.at >= lease.exclusive {
                    let holder = lease.replica.filter(|_| !is_over);
                    let now = holder.map_or("no replica".to_owned(), |number| format!("replica {number}"));
                    return Some(Breach {
                        oracle: LEADER.to_owned(),
                        resource: exchange.request.resource_path(),
                        kind: "write without the lease".to_owned(),
                        at: entry.at,
                        text: format!("replica {writer} sends {}, but {now} holds the lease", line(entry, exchange)),
                        expected: json!({ "quiet": true }),
                    });
                }
            }
            _ => {}
        }
    }
    None
}

/// A leader that could not renew its lease for this long gives up: the default of `--leader-elect-renew-deadline`.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// The lease as its changes show it.
#[derive(Debug, Default)]
pub(super) struct LeaseView {
    holder: Option<Value>,
    /// The time of the last change.
    renewed: Duration,
}

impl LeaseView {
    /// Notes a change of the lease. Returns true if controllers begin with it: those of a new leader, or of one that
    /// had to give up because it could not renew the lease, even if it takes the lease itself again. What they see then
    /// they have seen as standbys.
    pub(super) fn begins_with(&mut self, change: &Change, at: Duration) -> bool {
        let holder = change.new.as_ref().map(|lease| lease["spec"]["holderIdentity"].clone());
        let before = std::mem::replace(self, Self { holder, renewed: at });
        before.holder != self.holder || at > before.renewed + RENEW_DEADLINE
    }
}

/// Returns the times at which controllers begin because of the lease.
pub(super) fn begins(entries: &[TranscriptEntry]) -> BTreeSet<Duration> {
    let mut lease = LeaseView::default();
    let mut begins = |entry: &TranscriptEntry| match &entry.what {
        EntryKind::Change(change) if change.resource == "leases" => lease.begins_with(change, entry.at),
        _ => false,
    };
    entries.iter().filter(|entry| begins(entry)).map(|entry| entry.at).collect()
}

/// Returns the number of the replica that sent a request.
fn sender(entry: &TranscriptEntry) -> Option<u8> {
    match &entry.what {
        EntryKind::Request(exchange) => replica_of(&exchange.request.user_agent),
        _ => None,
    }
}

/// Returns true if the subject of the run elects a leader.
#[must_use]
pub fn elects(entries: &[TranscriptEntry]) -> bool {
    entries.iter().any(|entry| sender(entry).is_some())
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::{ChangeKind, Origin, RecordedRequest, Transcript};
    use rstest::rstest;

    use super::*;

    fn agent(replica: u8, name: &str) -> Origin {
        Origin::client(&format!("plumbline-controllers/1 (replica-{replica}; linux/amd64) kubernetes/1/{name}"), "")
    }

    fn send(transcript: &Transcript, at: u64, origin: Origin, (verb, resource): (&str, &str)) -> usize {
        let user_agent = match &origin {
            Origin::Client { user_agent, .. } => user_agent.to_string(),
            _ => String::new(),
        };
        let verb = verb.to_owned();
        let resource = resource.to_owned();
        let name = Some("a".to_owned());
        let request = RecordedRequest { verb, resource, name, user_agent, ..RecordedRequest::default() };
        transcript.request(Duration::from_secs(at), origin, request)
    }

    fn lease(request: Option<usize>, at: u64, holder: &str) -> Change {
        let lease: Value = json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}});
        Change {
            request,
            kind: ChangeKind::Modified,
            group: "coordination.k8s.io".to_owned(),
            resource: "leases".to_owned(),
            namespace: None,
            name: "a".to_owned(),
            resource_version: at,
            old: None,
            new: Some(lease.into()),
        }
    }

    /// `taken`: the time, the new holder and its replica, if it takes the lease itself.
    fn run(taken: (u64, &str, Option<u8>), writer: u8, at: u64) -> Option<Breach> {
        let transcript = Transcript::new();
        for (at, holder, by) in [(1, "replica-1", Some(1)), taken] {
            let origin = by.map_or_else(|| Origin::client("kubectl", ""), |by| agent(by, "leader-election"));
            let seq = send(&transcript, at, origin.clone(), ("update", "leases"));
            transcript.change(Duration::from_secs(at), origin, lease(Some(seq), at, holder));
        }
        send(&transcript, at, agent(writer, "ttl-controller"), ("patch", "nodes"));
        writes_after_loss(&transcript.entries())
    }

    #[test]
    fn a_leader_begins_when_it_gets_the_lease_or_gets_it_back() {
        let transcript = Transcript::new();
        for (at, holder) in [(1, "replica-1"), (3, "replica-1"), (14, "replica-1"), (20, "replica-2")] {
            transcript.change(Duration::from_secs(at), Origin::Server, lease(None, at, holder));
        }
        let times: Vec<u64> = begins(&transcript.entries()).iter().map(Duration::as_secs).collect();
        assert_eq!(times, [1, 14, 20]);
    }

    #[rstest]
    #[case::the_holder((20, "replica-2", Some(2)), 2, 20, true)]
    #[case::the_former_one((20, "replica-2", Some(2)), 1, 20, false)]
    #[case::before_it_noticed((20, "another", None), 1, 22, true)]
    #[case::after_it_noticed((20, "another", None), 1, 23, false)]
    #[case::released((20, "", Some(1)), 1, 21, false)]
    #[case::renewed((10, "replica-1", Some(1)), 1, 25, true)]
    #[case::not_renewed((10, "replica-1", Some(1)), 1, 26, false)]
    fn only_the_holder_writes(
        #[case] taken: (u64, &str, Option<u8>),
        #[case] writer: u8,
        #[case] at: u64,
        #[case] fine: bool,
    ) {
        assert_eq!(run(taken, writer, at).is_none(), fine);
    }
}
