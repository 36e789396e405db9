//! Oracle of the quarantine: no orphan is collected less than 40 s after the first cycle that can have missed its node.
//! Pure.
//!
//! A cycle begins 20 s after the last one ended, and within a cycle only requests take time. So a request of `PodGC`
//! that follows none for a while begins a cycle, no other one began in the 20 s before it, and a node that was deleted
//! in these 20 s was first missed by this cycle.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::expect::requests;
use plumbline::explore::breach::Breach;
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::pods::is_terminated;
use plumbline::rules::quarantine::{CYCLE, QUARANTINE, THRESHOLD};
use plumbline::transcript::{Actor, Attributed as _, Change, EntryKind, TranscriptEntry};
use serde_json::json;

use crate::explore::histories::facts::{controls_subject, disturbs_watches};
use crate::explore::run::explored::ExploredRun;

/// Time without requests after which a request is the first one of its cycle: longer than clients wait between tries.
const SILENCE: Duration = Duration::from_mins(1);

/// Returns the first pod that is collected before the quarantine of its node can have ended. A controller that is cut
/// off, that starts again or whose requests are limited may begin cycles at other times, and is not judged.
pub(super) fn too_short(fixture: &Fixture, explored: ExploredRun<'_>) -> Option<Breach> {
    let judged = fixture.controllers.contains(&Controller::PodGc)
        && !fixture.flags.contains_key("kube-api-qps")
        && !(controls_subject(fixture) || disturbs_watches(fixture) || !explored.plan.keeps_informed());
    if !judged {
        return None;
    }
    let entries = explored.until_quiet();
    let threshold = fixture.flags.contains_key(THRESHOLD);
    let mut quarantines: BTreeMap<&str, Option<(usize, Duration)>> = BTreeMap::new();
    entries.iter().filter(|entry| entry.actor() == Actor::PodGc).find_map(|entry| {
        let EntryKind::Change(change) = &entry.what else { return None };
        let old = change.old.as_deref().filter(|_| change.resource == "pods")?;
        let node = old["spec"]["nodeName"].as_str().filter(|_| !(threshold && is_terminated(old)))?;
        let (deleted, missed) = (*quarantines.entry(node).or_insert_with(|| first_missed(explored, node)))?;
        let is_early = deleted < entry.seq && entry.at + explored.record.tolerance < missed + QUARANTINE;
        // A node that is there again may be out of service, which needs no quarantine.
        (is_early && is_missing(&entries[..entry.seq.min(entries.len())], node)).then(|| Breach {
            oracle: "quarantine".to_owned(),
            resource: "pods".to_owned(),
            kind: "podgc".to_owned(),
            at: entry.at,
            text: format!(
                "podgc changes pods/{} at {:?}, less than 40 s after it can have missed nodes/{node} first, at {missed:?}",
                change.name, entry.at
            ),
            expected: json!({ "quiet": true }),
        })
    })
}

/// Returns true if the last change of the node deleted it.
fn is_missing(entries: &[TranscriptEntry], node: &str) -> bool {
    let change = entries.iter().rev().find_map(|entry| match &entry.what {
        EntryKind::Change(change) if change.resource == "nodes" && change.name == node => Some(change),
        _ => None,
    });
    change.is_some_and(|change| change.new.is_none())
}

/// Returns the entry at which the node was deleted, and the time of the cycle that missed it first; `None` if no
/// request shows it. Only the first deletion of a name counts: the quarantine goes on when the node comes back.
fn first_missed(explored: ExploredRun<'_>, node: &str) -> Option<(usize, Duration)> {
    let is_node = |object: &serde_json::Value| object["kind"] == "Node" && metadata::name(object) == node;
    if !explored.record.initial.iter().any(|object| is_node(object)) {
        return None;
    }
    let deletes = |change: &Change| change.resource == "nodes" && change.name == node && change.new.is_none();
    let deletion = explored.entries.iter().find(|entry| matches!(&entry.what, EntryKind::Change(it) if deletes(it)))?;
    let (before, after) = explored.entries.split_at(deletion.seq.min(explored.entries.len()));
    let (first, _) = of_cycles(after).next()?;
    let was_silent = of_cycles(before).all(|(at, replied)| at.max(replied).saturating_add(SILENCE) <= first);
    (was_silent && first < deletion.at + CYCLE).then_some((deletion.seq, first))
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
    use plumbline::transcript::{RecordedReply, RecordedRequest, Transcript};
    use rstest::rstest;

    use super::*;
    use crate::explore::judge::testing::{change, exchange, judged_by};

    /// Judges a run in which a node is deleted after 45 s and its pod at `collected`, with requests of pod GC at
    /// `asked` and replies a second later. The node may be back just before.
    fn is_found(asked: &[u64], collected: u64, is_back: bool) -> bool {
        let transcript = Transcript::new();
        let name = "pod-garbage-collector";
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}});
        let ask = |at: u64| {
            let verb = "delete".to_owned();
            let resource = "pods".to_owned();
            let request = RecordedRequest { verb, resource, ..RecordedRequest::default() };
            let reply = RecordedReply::new(Duration::from_secs(at + 1), 200);
            exchange(&transcript, Duration::from_secs(at), name, request, reply);
        };
        asked.iter().filter(|at| **at < 45).for_each(|at| ask(*at));
        change(&transcript, 45, None, "nodes", [Some(node.clone()), None]);
        asked.iter().filter(|at| **at >= 45).for_each(|at| ask(*at));
        if is_back {
            change(&transcript, collected, None, "nodes", [None, Some(node.clone())]);
        }
        let pods = [Some(json!({"spec": {"nodeName": "a"}})), None];
        change(&transcript, collected, Some("pod-garbage-collector"), "pods", pods);
        judged_by("podgc", &transcript, vec![node], |fixture, _, explored| too_short(fixture, explored).is_some())
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
