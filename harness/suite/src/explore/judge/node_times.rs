//! The states of nodes over time. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::world::ObjectStates;
use plumbline::rules::nodes::NodeState;
use plumbline::transcript::{EntryKind, TranscriptEntry};

/// The states of all nodes over time.
pub(super) struct NodeTimes(BTreeMap<String, Vec<(Duration, NodeState)>>);

impl NodeTimes {
    pub(super) fn new(begin: &ObjectStates, entries: &[TranscriptEntry]) -> Self {
        let initial =
            begin.all("nodes").map(|(key, node)| (key.name.clone(), vec![(Duration::ZERO, NodeState::of(node))]));
        let mut times: BTreeMap<String, Vec<(Duration, NodeState)>> = initial.collect();
        for entry in entries {
            let EntryKind::Change(change) = &entry.what else { continue };
            if change.resource == "nodes" {
                let state = change.new.as_deref().map_or(NodeState::Missing, NodeState::of);
                let missing = || vec![(Duration::ZERO, NodeState::Missing)];
                times.entry(change.name.clone()).or_insert_with(missing).push((entry.at, state));
            }
        }
        Self(times)
    }

    /// Returns true if the node was in `state` at some time of this period, both ends included.
    pub(super) fn was(&self, node: &str, state: NodeState, from: Duration, until: Duration) -> bool {
        let Some(times) = self.0.get(node) else { return state == NodeState::Missing };
        let ends = times.iter().skip(1).map(|(at, _)| *at).chain([Duration::MAX]);
        times.iter().zip(ends).any(|((begin, found), end)| *found == state && *begin <= until && end >= from)
    }
}
