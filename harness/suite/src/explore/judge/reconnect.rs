//! Oracle `late` about watches: controllers that do not come back after they were cut off. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::explore::breach::Breach;
use plumbline::explore::entries::is_start;
use plumbline::transcript::{Attributed as _, EntryKind};
use serde_json::json;

use super::late::LATE_ORACLE;
use super::tolerance::RECONNECT;
use crate::explore::histories::facts::controls_subject;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};

/// The note of the server that watches break, before the resource, and after it.
const BREAK: (&str, &str) = ("watches of ", " break");
/// All resources in that note.
const EVERYTHING: &str = "everything";

/// Returns a resource that the controllers watched, and neither listed nor watched again in time after the watch had
/// broken or an attempt had failed.
pub(super) fn stays_away(reference: &ReferenceRun, explored: ExploredRun<'_>) -> Vec<Breach> {
    // Controllers that the fixture has stopped have no watches.
    if controls_subject(&reference.fixture) || reference.broken.iter().any(|oracle| oracle == LATE_ORACLE) {
        return Vec::new();
    }
    resource_without_watch(explored).into_iter().collect()
}

fn resource_without_watch(explored: ExploredRun<'_>) -> Option<Breach> {
    // The time since which no informer has watched a resource, `None` if one does, and the reply to the last attempt.
    let mut away: BTreeMap<&str, (Option<Duration>, Duration)> = BTreeMap::new();
    let is_overdue = |since: Option<Duration>, at: Duration| since.is_some_and(|since| at > since + RECONNECT);
    for entry in explored.until_quiet() {
        match &entry.what {
            EntryKind::Request(exchange) if matches!(exchange.request.verb.as_str(), "list" | "watch") => {
                if !entry.actor().is_subject() {
                    continue;
                }
                let resource = exchange.request.resource.as_str();
                let reply = exchange.reply.as_ref();
                let failed = reply.filter(|reply| reply.lost || reply.status >= 400).map(|reply| reply.at);
                let replied = reply.map_or(entry.at, |reply| reply.at);
                let before = away.insert(resource, (failed, replied)).and_then(|(since, _)| since);
                if let Some(since) = before.filter(|_| is_overdue(before, entry.at)) {
                    return Some(breach(resource, since));
                }
            }
            EntryKind::Note(_) if is_start(entry) => away.clear(),
            EntryKind::Note(text) => {
                let broken = text.strip_prefix(BREAK.0).and_then(|rest| rest.strip_suffix(BREAK.1));
                for (resource, (since, replied)) in &mut away {
                    let is_meant = broken.is_some_and(|broken| broken == EVERYTHING || broken == *resource);
                    // A watch that has not begun cannot break.
                    if is_meant && *replied <= entry.at {
                        since.get_or_insert(entry.at);
                    }
                }
            }
            EntryKind::Request(_) | EntryKind::Change(_) => {}
        }
    }
    let end = explored.record.end;
    let mut overdue = away.into_iter().filter(|(_, (since, _))| is_overdue(*since, end));
    overdue.find_map(|(resource, (since, _))| Some(breach(resource, since?)))
}

fn breach(resource: &str, since: Duration) -> Breach {
    Breach {
        oracle: LATE_ORACLE.to_owned(),
        resource: resource.to_owned(),
        kind: "reconnect".to_owned(),
        at: since + RECONNECT,
        text: format!("{resource} are neither listed nor watched within {RECONNECT:?} after {since:?}"),
        expected: json!({ "quiet": true }),
    }
}
