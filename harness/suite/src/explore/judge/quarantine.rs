//! Oracle of the quarantine: no orphan is collected less than 40 s after the first cycle that can have missed its node.
//! Pure.
//!
//! A cycle begins 20 s after the last one ended, and within a cycle only requests take time. So a request of `PodGC`
//! that follows none for a while begins a cycle, no other one began in the 20 s before it, and a node that was deleted
//! in these 20 s was first missed by this cycle.

use std::time::Duration;

use plumbline::expect::requests;
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::changes;
use plumbline::explore::work::WorkWindow;
use plumbline::fixture::{Controller, Fixture};
use plumbline::rules::nodes::NodeState;
use plumbline::rules::pods::is_terminated;
use plumbline::rules::quarantine::{CYCLE, QUARANTINE, THRESHOLD};
use plumbline::transcript::{Actor, Attributed as _, TranscriptEntry};

use super::breaches::of_change;
use super::known::{node_key, node_states};
use crate::explore::run::explored::ExploredRun;

/// Time without requests after which a request is the first one of its cycle: longer than clients wait between tries.
const SILENCE: Duration = Duration::from_mins(1);

/// Returns the first pod that is collected before the quarantine of its node can have ended.
pub(super) fn too_short(fixture: &Fixture, explored: ExploredRun<'_>) -> Option<Breach> {
    // Limits of the client's rate hide when cycles begin.
    if !fixture.controllers.contains(&Controller::PodGc) || fixture.flags.contains_key("kube-api-qps") {
        return None;
    }
    let threshold = fixture.flags.contains_key(THRESHOLD);
    changes(explored.until_quiet(), Actor::PodGc, "pods").find_map(|(entry, change)| {
        let old = change.old.as_deref()?;
        let node = old["spec"]["nodeName"].as_str().filter(|_| !(threshold && is_terminated(old)))?;
        let window = explored.knowledge.window(change.request?);
        let sent = explored.entries.get(window.seq)?.at;
        // A node that is there again may be out of service, which needs no quarantine.
        let is_missing = node_states(explored.knowledge, node, window).iter().all(|it| *it == NodeState::Missing);
        let missed = first_missed(explored, node, window).filter(|_| is_missing)?;
        (sent + explored.record.tolerance < missed + QUARANTINE).then(|| {
            let text = format!(
                "podgc changes pods/{} at {:?}, less than 40 s after it can have missed nodes/{node} first, at {missed:?}",
                change.name, entry.at
            );
            of_change("quarantine", change, "podgc".to_owned(), entry.at, text)
        })
    })
}

/// Returns the time of the cycle that missed the node first since the controllers started; `None` if no request shows
/// it. Only the first time counts: the quarantine goes on when the node comes back.
fn first_missed(explored: ExploredRun<'_>, node: &str, window: WorkWindow) -> Option<Duration> {
    let key = node_key(node);
    let started = explored.knowledge.started(window.seq);
    let replica = explored.knowledge.replica_of(window.seq);
    let mut seen = explored.knowledge.sightings(&key, replica).filter(|sighting| sighting.position > started);
    seen.next().filter(|first| first.state.is_some())?;
    let gone = seen.find(|sighting| sighting.state.is_none())?;
    let (before, after) = explored.entries.split_at(gone.position.min(explored.entries.len()));
    let (first, _) = of_cycles(after).next()?;
    let was_silent = of_cycles(before).all(|(at, replied)| at.max(replied).saturating_add(SILENCE) <= first);
    (was_silent && first < gone.at + CYCLE).then_some(first)
}

/// Returns the times of the requests of `PodGC`'s cycles and of their replies. Informers list and watch.
fn of_cycles(entries: &[TranscriptEntry]) -> impl Iterator<Item = (Duration, Duration)> {
    requests(entries)
        .filter(|(entry, exchange)| {
            entry.actor() == Actor::PodGc && !matches!(exchange.request.verb.as_str(), "list" | "watch")
        })
        .map(|(entry, exchange)| (entry.at, exchange.reply.as_ref().map_or(Duration::MAX, |reply| reply.at)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::explore::judge::testing::History;

    /// Judges a run in which a node is deleted after 45 s and its pod at `collected`, with requests of pod GC at
    /// `asked` and replies a second later. The node may be back just before.
    fn is_found(asked: &[u64], collected: u64, is_back: bool) -> bool {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
            "spec": {"nodeName": "a"}});
        let mut history = History::new(&[node.clone(), pod]);
        let (before, after): (Vec<u64>, Vec<u64>) = asked.iter().partition(|at| **at < 45);
        for at in before {
            history.asks(at, Actor::PodGc, "delete pods/other", 1);
        }
        history.happens(45, "nodes/a", None);
        for at in after {
            history.asks(at, Actor::PodGc, "delete pods/other", 1);
        }
        if is_back {
            history.happens(collected, "nodes/a", Some(node));
        }
        history.writes(collected, Actor::PodGc, "delete pods/p", json!({}), None);
        history.judged("podgc", |fixture, _, explored| too_short(fixture, explored)).is_some()
    }

    #[rstest]
    #[case::in_time(&[60], 100, false, false)]
    #[case::a_second_early(&[60], 99, false, true)]
    #[case::a_cycle_may_have_been_silent(&[65], 99, false, false)]
    #[case::a_cycle_may_go_on(&[40, 60], 99, false, false)]
    #[case::no_request_shows_a_cycle(&[], 99, false, false)]
    #[case::the_node_is_back(&[60], 99, true, false)]
    fn orphans_wait_for_forty_seconds(
        #[case] asked: &[u64],
        #[case] collected: u64,
        #[case] is_back: bool,
        #[case] found: bool,
    ) {
        assert_eq!(is_found(asked, collected, is_back), found);
    }
}
