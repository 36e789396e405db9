//! The work to which the requests of a controller belong: a controller decides with what it knew when its work began,
//! or learned since. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::entries::{has_failed, is_start};
use crate::transcript::{Actor, Attributed as _, EntryKind, Exchange, TranscriptEntry, replica_of};

/// Time between a reply and the sender's next request within which both belong to the same work: pauses between tries
/// are shorter, and those between the cycles of a controller longer.
const PAUSE: Duration = Duration::from_millis(500);

/// The entries in which a request was decided upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkWindow {
    /// The first entry of the instant in which the sender's work began.
    pub begin: usize,
    /// The request.
    pub seq: usize,
}

/// Returns the replica that sent a request.
pub(super) fn replica(entry: &TranscriptEntry) -> Option<u8> {
    match &entry.what {
        EntryKind::Request(exchange) => replica_of(&exchange.request.user_agent),
        EntryKind::Change(_) | EntryKind::Note(_) => None,
    }
}

/// The requests that belong to the same work: of a replica's controller, apart from those about Events, which are sent
/// beside the other work. Taint eviction works on each pod, and the TTL controller on each node, by itself.
type Sender = (Actor, Option<u8>, bool, String);

/// The current work of a sender.
struct Work<'a> {
    begin: usize,
    /// The time of the last reply.
    until: Duration,
    /// The requests that are sent again without another decision.
    refused: Vec<&'a Exchange>,
}

fn sender(entry: &TranscriptEntry, exchange: &Exchange) -> Sender {
    let actor = entry.actor();
    let is_by_object = match exchange.request.resource.as_str() {
        "pods" => actor == Actor::TaintEviction,
        "nodes" => actor == Actor::Ttl,
        _ => false,
    };
    let name = exchange.request.name.as_ref().filter(|_| is_by_object);
    let object = name.map(|name| format!("{}/{name}", exchange.request.namespace.as_deref().unwrap_or_default()));
    (actor, replica(entry), exchange.request.resource == "events", object.unwrap_or_default())
}

/// Returns true if the sender repeats the request later without another decision: the client waits as long as a busy
/// server asks it to, and the recorder of Events and the queue of taint eviction repeat what failed.
fn is_repeated(actor: &Actor, exchange: &Exchange) -> bool {
    let is_asked_to_wait = exchange.reply.as_ref().is_some_and(|reply| reply.status == 429);
    let repeats_failures = *actor == Actor::TaintEviction || exchange.request.resource == "events";
    is_asked_to_wait || repeats_failures && has_failed(exchange)
}

/// Returns the first entry of the instant in which the work of each request of the subject began. A request continues
/// the work of its sender if it follows the last reply soon, or repeats a request that failed.
pub(super) fn begins_of_work(entries: &[TranscriptEntry]) -> BTreeMap<usize, usize> {
    let mut begins = BTreeMap::new();
    let mut works: BTreeMap<Sender, Work<'_>> = BTreeMap::new();
    for entry in entries {
        let EntryKind::Request(exchange) = &entry.what else {
            if is_start(entry) {
                works.clear();
            }
            continue;
        };
        let actor = entry.actor();
        if !actor.is_subject() || matches!(exchange.request.verb.as_str(), "list" | "watch") {
            continue;
        }
        let replied = exchange.reply.as_ref().map_or(Duration::MAX, |reply| reply.at);
        let is_same = |other: &&Exchange| {
            (&other.request.verb, &other.request.path) == (&exchange.request.verb, &exchange.request.path)
        };
        let goes_on =
            |work: &Work<'_>| entry.at <= work.until.saturating_add(PAUSE) || work.refused.iter().any(is_same);
        let new = || {
            let begin = entries.partition_point(|other| other.at < entry.at);
            Work { begin, until: replied, refused: Vec::new() }
        };
        let sender = sender(entry, exchange);
        let work = works.entry(sender.clone()).or_insert_with(new);
        if !goes_on(work) {
            *work = new();
        }
        begins.insert(entry.seq, work.begin);
        // A request about no object of its own belongs to all work of the sender that goes on.
        let is_general = sender.3.is_empty() && !sender.2;
        let concerned = works.iter_mut().filter(|(other, work)| {
            **other == sender
                || is_general && (&other.0, other.1, other.2) == (&sender.0, sender.1, false) && goes_on(work)
        });
        for (_, work) in concerned {
            work.until = work.until.max(replied);
            work.refused.retain(|other| !is_same(other));
            work.refused.extend(is_repeated(&actor, exchange).then_some(&**exchange));
        }
    }
    begins
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::transcript::{Origin, RecordedReply, RecordedRequest, Transcript};

    /// Requests by their time in milliseconds, verb and path, and the status of their reply.
    type Requests<'a> = &'a [(u64, &'a str, u16)];

    const PODGC: &str = "pod-garbage-collector";
    const EVICTION: &str = "taint-eviction-controller";

    #[rstest]
    #[case::one_after_the_other(PODGC, &[(0, "get nodes/n", 404), (0, "patch pods/a", 200), (400, "delete pods/a", 200)], 0)]
    #[case::after_a_pause(PODGC, &[(0, "get nodes/n", 404), (20_000, "delete pods/a", 200)], 1)]
    #[case::as_a_busy_server_asks(PODGC, &[(0, "patch pods/a", 429), (2000, "patch pods/a", 200)], 0)]
    #[case::a_later_cycle_decides_again(PODGC, &[(0, "patch pods/a", 500), (20_000, "patch pods/a", 200)], 1)]
    #[case::a_queue_repeats(EVICTION, &[(0, "patch pods/a", 500), (20_000, "patch pods/a", 200)], 0)]
    #[case::another_pod(EVICTION, &[(0, "patch pods/a", 200), (400, "patch pods/b", 200)], 1)]
    #[case::a_node_belongs_to_the_pod(
        EVICTION, &[(0, "get pods/a", 200), (0, "get nodes/n", 429), (2000, "get nodes/n", 200), (2000, "patch pods/a", 200)], 0
    )]
    fn requests_belong_to_a_work(#[case] agent: &str, #[case] requests: Requests<'_>, #[case] begin: usize) {
        let transcript = Transcript::new();
        let agent = format!("x/1 {agent}");
        for (at, what, status) in requests {
            let at = Duration::from_millis(*at);
            let (verb, path) = what.split_once(' ').expect("a verb and a path");
            let (resource, name) = path.split_once('/').expect("a resource and a name");
            let request = RecordedRequest {
                verb: verb.to_owned(),
                path: path.to_owned(),
                resource: resource.to_owned(),
                name: Some(name.to_owned()),
                user_agent: agent.clone(),
                ..RecordedRequest::default()
            };
            let seq = transcript.request(at, Origin::client(&agent, ""), request);
            transcript.reply(seq, RecordedReply::new(at, *status));
        }
        let begins = begins_of_work(&transcript.entries());
        assert_eq!(begins.get(&(requests.len() - 1)), Some(&begin));
    }
}
