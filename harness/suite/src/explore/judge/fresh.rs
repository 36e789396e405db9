//! Oracle `fresh`: controllers that start on the final state change nothing: no key was lost, no cache is stale. Pure.

use plumbline::expect::requests;
use plumbline::explore::breach::{Breach, FRESH, restarted_text};
use plumbline::metadata;
use plumbline::rules::nodes::{TTL_ANNOTATION, allows_ttl};
use plumbline::transcript::{Actor, EntryKind, TranscriptEntry};

use super::breaches::of_write;
use super::held::is_held;
use super::others_differ;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};
use crate::explore::run::observation::SubjectWrite;

fn breach(write: &SubjectWrite) -> Breach {
    of_write(FRESH, write, restarted_text(&write.text))
}

/// Returns the first write of fresh controllers after a run with faults, if they do not write after one without.
pub(super) fn writes(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    let restarted_differently = |write: &&SubjectWrite| {
        let mut usual = reference.observation.fresh.iter();
        let is_usual = usual.any(|other| other.key.actor == write.key.actor);
        // Near a bound the TTL depends on the history of the number of nodes, which a restart loses.
        let is_ttl =
            write.key.actor == Actor::Ttl && (others_differ(reference, explored) || had_right_ttl(explored, write));
        !is_usual && !is_ttl && !is_held(explored, write) && !is_faulted_before(explored, write)
    };
    explored.observation.fresh.iter().find(restarted_differently).map(breach).into_iter().collect()
}

/// Returns true if a fault first happens to the fresh controllers, which explains what they write.
fn is_faulted_before(explored: ExploredRun<'_>, write: &SubjectWrite) -> bool {
    let since = explored.observation.quiet_at.min(write.seq);
    requests(&explored.entries[since..write.seq.min(explored.entries.len())])
        .any(|(_, exchange)| exchange.reply.as_ref().is_none_or(|reply| reply.fault.is_some()))
}

/// Returns the first write of fresh controllers after a run without faults.
pub(super) fn calm_write(explored: ExploredRun<'_>) -> Option<Breach> {
    // Near a bound the TTL depends on the history of the number of nodes, which a restart loses.
    let is_judged = |write: &&SubjectWrite| write.key.actor != Actor::Ttl && !is_held(explored, write);
    explored.observation.fresh.iter().find(is_judged).map(breach)
}

/// Returns true if the node of this write had a TTL that the number of nodes allows, or allowed when the node changed
/// for the last time: a node gets its TTL with its own events only. A re-list after a gap shows new nodes before it
/// shows which ones are gone, so the number can pass a bound in between, as in client-go.
fn had_right_ttl(explored: ExploredRun<'_>, write: &SubjectWrite) -> bool {
    let before = explored.objects_before(write.seq);
    let of_node = |entry: &TranscriptEntry| match &entry.what {
        EntryKind::Change(change) => change.resource == "nodes" && change.name == write.key.name,
        _ => false,
    };
    let entries = explored.until(write.seq);
    let changed = entries.iter().rposition(of_node).map_or(0, |at| at + 1);
    let numbers = [&before, &explored.objects_before(changed)].map(|world| world.all("nodes").count());
    let mut written = before.all("nodes").filter(|(key, _)| key.name == write.key.name);
    written.any(|(_, node)| {
        metadata::annotation(node, TTL_ANNOTATION)
            .is_some_and(|ttl| numbers.iter().any(|nodes| allows_ttl(*nodes, ttl)))
    })
}
