//! States of pods and nodes that the sender of a request may have had in mind. Pure.

use std::time::Duration;

use jiff::SignedDuration;
use plumbline::expect::world::Key;
use plumbline::metadata;
use plumbline::rules::nodes::NodeState;
use plumbline::rules::taints::toleration_limit_on;
use plumbline::transcript::{EntryKind, RecordedJson, RecordedRequest, TranscriptEntry};
use serde_json::Value;

use plumbline::explore::entries::change_of;
use plumbline::explore::knowledge::Knowledge;
use plumbline::explore::work::WorkWindow;

/// Returns the key of a pod.
pub(super) fn pod_key(namespace: Option<&str>, name: &str) -> Key {
    let namespace = namespace.map(str::to_owned);
    Key { group: String::new(), resource: "pods".to_owned(), namespace, name: name.to_owned() }
}

/// Returns the key of a node.
pub(super) fn node_key(name: &str) -> Key {
    Key { group: String::new(), resource: "nodes".to_owned(), namespace: None, name: name.to_owned() }
}

/// Returns true for objects of custom kinds: Kubernetes' own groups have no dot, or end with `.k8s.io`.
pub(super) fn is_custom(key: &Key) -> bool {
    key.group.contains('.') && !key.group.ends_with(".k8s.io")
}

/// Returns the states of a node that the sender of a request may have had in mind: that of its last live read in the
/// window, or, without one, those that its informers showed.
pub(super) fn node_states(knowledge: &Knowledge<'_>, node: &str, window: WorkWindow) -> Vec<NodeState> {
    let read = last_read(knowledge, node, window);
    let states = || knowledge.states(&node_key(node), window).into_iter().map(node_state).collect();
    read.map_or_else(states, |state| vec![state])
}

/// Returns the state of a node in the last live read of it that the sender of a request made in the window.
pub(super) fn last_read(knowledge: &Knowledge<'_>, node: &str, window: WorkWindow) -> Option<NodeState> {
    knowledge.live_reads(&node_key(node), window).last().copied().map(node_state)
}

fn node_state(node: Option<&RecordedJson>) -> NodeState {
    node.map_or(NodeState::Missing, |node| NodeState::of(node))
}

/// The states of pods and nodes that news of the same instant replaced. News of pods and of nodes come on connections
/// of their own, so that a controller may read those of a pod first, and act upon each.
#[derive(Debug, Default)]
pub(super) struct ReplacedStates {
    instant: Duration,
    nodes: Vec<RecordedJson>,
    pods: Vec<RecordedJson>,
}

impl ReplacedStates {
    /// Notes news of an object at `now`, after which its state is no longer `old`.
    pub(super) fn note(&mut self, key: &Key, old: Option<&RecordedJson>, now: Duration) {
        if self.instant != now {
            *self = Self { instant: now, ..Self::default() };
        }
        match key.resource.as_str() {
            "nodes" => self.nodes.extend(old.cloned()),
            "pods" => self.pods.extend(old.cloned()),
            _ => {}
        }
    }

    /// Returns how long `pod` may stay in a replaced state of its node, at least; `None`: indefinitely in each.
    pub(super) fn toleration_limit(&self, pod: &Value) -> Option<Duration> {
        Self::limits(pod, self.nodes.iter()).flatten().min()
    }

    /// Returns how long `pod` may stay in each state of it and its node that the controller may have met in this
    /// instant; `None`: indefinitely. `node` is the present state of the node.
    pub(super) fn toleration_limits(&self, pod: &Value, node: Option<&RecordedJson>) -> Vec<Option<Duration>> {
        let is_same = |other: &&RecordedJson| metadata::uid(other) == metadata::uid(pod);
        let pods = self.pods.iter().filter(is_same).map(|pod| &**pod).chain([pod]);
        pods.flat_map(|pod| Self::limits(pod, self.nodes.iter().chain(node))).collect()
    }

    /// Returns how long `pod` may stay in each of the states that are those of its node.
    fn limits<'s>(
        pod: &'s Value,
        nodes: impl Iterator<Item = &'s RecordedJson>,
    ) -> impl Iterator<Item = Option<Duration>> {
        let its_own = nodes.filter(|node| node["metadata"]["name"] == pod["spec"]["nodeName"]);
        its_own.map(|node| toleration_limit_on(node, pod))
    }
}

/// Returns the states of the pod of a request that its sender may have had in mind.
pub(super) fn pod_states<'a>(
    knowledge: &Knowledge<'a>,
    request: &RecordedRequest,
    window: WorkWindow,
) -> Vec<&'a RecordedJson> {
    let key = pod_key(request.namespace.as_deref(), request.name.as_deref().unwrap_or_default());
    knowledge.states(&key, window).into_iter().flatten().collect()
}

/// The note of a step of the controllers' clock, before the time.
const CLOCK: &str = "the controllers' clock is ";

/// Returns how far the controllers' wall clock was ahead at each moment of a window; negative: behind.
pub(super) fn clock_offsets(entries: &[TranscriptEntry], window: WorkWindow) -> Vec<SignedDuration> {
    let mut offsets = vec![SignedDuration::ZERO];
    for (seq, offset) in clock_steps(&entries[..window.seq.min(entries.len())]) {
        if seq <= window.begin {
            offsets.clear();
        }
        offsets.push(offset);
    }
    offsets
}

/// Returns the steps of the controllers' wall clock: the entry of each, and how far the clock is ahead afterwards.
pub(super) fn clock_steps(entries: &[TranscriptEntry]) -> impl Iterator<Item = (usize, SignedDuration)> {
    entries.iter().filter_map(|entry| match &entry.what {
        EntryKind::Note(text) => Some((entry.seq, text.strip_prefix(CLOCK).and_then(offset)?)),
        EntryKind::Request(_) | EntryKind::Change(_) => None,
    })
}

/// Reads `10m ahead`, `1h behind`.
fn offset(text: &str) -> Option<SignedDuration> {
    let (duration, which) = text.rsplit_once(' ')?;
    let duration: SignedDuration = duration.parse().ok()?;
    Some(if which == "behind" { -duration } else { duration })
}

/// Returns true if a request had an effect: it succeeded, or changed an object before its connection was lost.
pub(super) fn took_effect(entries: &[TranscriptEntry], seq: usize) -> bool {
    let Some(EntryKind::Request(exchange)) = entries.get(seq).map(|entry| &entry.what) else { return false };
    match &exchange.reply {
        Some(reply) => (200..300).contains(&reply.status),
        None => change_of(entries, seq).is_some(),
    }
}

/// Returns the time of the first entry of a window.
pub(super) fn begin_of(entries: &[TranscriptEntry], window: WorkWindow) -> Duration {
    entries.get(window.begin).map_or(Duration::ZERO, |entry| entry.at)
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::{RecordedReply, Transcript};
    use rstest::rstest;
    use serde_json::json;

    use super::super::testing::{change, exchange, judged_by};
    use super::*;

    /// `WatchList`: a watch with `sendInitialEvents` shows a whole list, in which an object that is gone is missing.
    #[rstest]
    #[case::of_a_list("list", "", true)]
    #[case::of_a_watch_that_begins_with_a_list("watch", "true", true)]
    #[case::of_another_watch("watch", "", false)]
    fn a_list_shows_what_is_gone(#[case] verb: &str, #[case] initial: &str, #[case] is_gone: bool) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "resourceVersion": "1"},
        });
        let transcript = Transcript::new();
        let list = |verb: &str, initial: &str, at: u64, revision: u64| {
            let query = vec![("sendInitialEvents".to_owned(), initial.to_owned())];
            let (verb, resource) = (verb.to_owned(), "nodes".to_owned());
            let request = RecordedRequest { verb, resource, query, ..RecordedRequest::default() };
            let at = Duration::from_secs(at);
            let reply = RecordedReply { revision: Some(revision), ..RecordedReply::new(at, 200) };
            exchange(&transcript, at, "shared-informers", request, reply);
        };
        list("list", "", 1, 1);
        change(&transcript, 3, None, "nodes", [Some(node.clone()), None]);
        list(verb, initial, 5, 3);
        let known = judged_by("ttl", &transcript, vec![node], |_, _, explored| {
            let known = explored.knowledge.states(&node_key("a"), WorkWindow { begin: 4, seq: 4 });
            known.iter().map(Option::is_none).collect::<Vec<_>>()
        });
        assert_eq!(known, [is_gone]);
    }

    #[rstest]
    #[case::ahead("10m ahead", 600)]
    #[case::behind("1h 30m behind", -5400)]
    fn notes_have_the_offset_of_the_clock(#[case] text: &str, #[case] seconds: i64) {
        assert_eq!(offset(text), Some(SignedDuration::from_secs(seconds)));
    }
}
