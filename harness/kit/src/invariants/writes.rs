//! Invariants of the writes of all controllers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::violation::{Violation, deletes_pod};
use crate::expect::races::OwnNews;
use crate::expect::{JudgeContext, is_subject_write, requests};
use crate::metadata;
use crate::rules::recorder::object_of;
use crate::transcript::{Actor, Attributed as _, Change, EntryKind, Exchange, TranscriptEntry};

/// See [`super::ALL`].
pub(super) fn role_limits(context: &JudgeContext<'_>) -> Vec<Violation> {
    let violation = |(entry, exchange): (&TranscriptEntry, &Exchange)| {
        let request = &exchange.request;
        let what = (request.verb.as_str(), request.resource.as_str(), request.subresource.as_deref());
        let status = |resource| matches!(what, ("update" | "patch", found, Some("status")) if found == resource);
        let allowed = match what {
            ("create" | "update" | "patch", "events", None) => true,
            _ => match entry.actor() {
                Actor::Disruption => status("poddisruptionbudgets") || status("pods"),
                Actor::PodGc | Actor::TaintEviction => status("pods") || what == ("delete", "pods", None),
                Actor::Ttl => what == ("patch", "nodes", None),
                _ => false,
            },
        };
        if let Actor::Bystander(name) = entry.actor()
            && !is_of_election(exchange)
        {
            return Some(Violation::new(entry, bystander(&name, entry.origin.user_agent().unwrap_or_default())));
        }
        (!allowed).then(|| Violation::new(entry, "this controller may not write this"))
    };
    let writes = requests(context.run.entries).filter(|(entry, exchange)| is_subject_write(entry, exchange));
    writes.filter_map(violation).collect()
}

/// Returns true if a request says in an Event what happened to a Lease. No fixture judges elections by their Events.
fn is_of_election(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let is_event = request.verb == "create" && request.resource == "events";
    is_event && request.body.as_ref().is_some_and(|event| object_of(event)["kind"] == "Lease")
}

/// Describes a write that no controller under test can be blamed for.
fn bystander(name: &str, agent: &str) -> String {
    format!(
        "the subject's client `{name}` (user agent `{agent}`) is none of the controllers under test; if it belongs to \
         one, end its user agent in that controller's name, such as `ttl-controller`, or map it: --agent ttl=PATTERN"
    )
}

/// See [`super::ALL`].
pub(super) fn no_idle_writes(context: &JudgeContext<'_>) -> Vec<Violation> {
    let mut effects: BTreeMap<usize, bool> = BTreeMap::new();
    for entry in context.run.entries {
        if let EntryKind::Change(change) = &entry.what
            && let Some(seq) = change.request
        {
            *effects.entry(seq).or_default() |= !is_idle(change);
        }
    }
    let news = OwnNews::of(context.run);
    let mut written: BTreeMap<(Actor, &str), &TranscriptEntry> = BTreeMap::new();
    let mut repeats: BTreeSet<usize> = BTreeSet::new();
    for (entry, exchange) in requests(context.run.entries).filter(|(entry, exchange)| is_subject_write(entry, exchange))
    {
        let key = (entry.actor(), exchange.request.path.as_str());
        let has_effect = effects.get(&entry.seq).copied().unwrap_or_default();
        let unknown = written.get(&key).filter(|_| !has_effect).zip(news.as_ref());
        if unknown.is_some_and(|(before, news)| news.may_be_unknown(before, (entry, exchange))) {
            repeats.insert(entry.seq);
        } else {
            written.insert(key, entry);
        }
    }
    requests(context.run.entries)
        .filter(|(entry, exchange)| {
            is_subject_write(entry, exchange)
                && !repeats.contains(&entry.seq)
                && matches!(exchange.request.verb.as_str(), "update" | "patch")
                && exchange.request.resource != "events"
                && exchange
                    .reply
                    .as_ref()
                    .is_some_and(|reply| reply.fault.is_none() && (200..300).contains(&reply.status))
                && !effects.get(&entry.seq).copied().unwrap_or_default()
        })
        .map(|(entry, _)| Violation::new(entry, "it changed nothing"))
        .collect()
}

/// Returns true if nothing has changed but what the server changes by itself.
pub fn is_idle(change: &Change) -> bool {
    change.old.as_deref().zip(change.new.as_deref()).is_some_and(|(old, new)| metadata::is_same(old, new))
}

/// Most equal requests within a second.
pub const STORM: usize = 20;

/// See [`super::ALL`].
pub(super) fn no_storms(context: &JudgeContext<'_>) -> Vec<Violation> {
    let writes = requests(context.run.entries).filter(|(entry, exchange)| is_subject_write(entry, exchange));
    storms(writes).into_iter().map(|(entry, _)| Violation::new(entry, storm_text())).collect()
}

/// Returns the requests of the subject that are too many within a second, if its reads count, too, and of equal
/// requests in one instant the first alone: what works on several objects at once may read another one for each.
#[must_use]
pub fn storms_of_instants(entries: &[TranscriptEntry]) -> Vec<(&TranscriptEntry, &Exchange)> {
    let mut last: BTreeMap<(&str, &str), Duration> = BTreeMap::new();
    let is_meant = |entry: &TranscriptEntry, exchange: &Exchange| {
        is_subject_write(entry, exchange)
            || entry.actor().is_subject() && !exchange.request.resource.is_empty() && !exchange.request.is_write()
    };
    let all = requests(entries).filter(|(entry, exchange)| is_meant(entry, exchange));
    storms(all.filter(|(entry, exchange)| {
        let request = &exchange.request;
        last.insert((&request.verb, &request.path), entry.at) != Some(entry.at)
    }))
}

/// Describes a request that is too many.
#[must_use]
pub fn storm_text() -> String {
    format!("the {}th within a second", STORM + 1)
}

/// Returns the requests before which as many equal ones as allowed came within a second.
fn storms<'e>(
    requests: impl Iterator<Item = (&'e TranscriptEntry, &'e Exchange)>,
) -> Vec<(&'e TranscriptEntry, &'e Exchange)> {
    let mut recent: BTreeMap<String, VecDeque<Duration>> = BTreeMap::new();
    let mut found = Vec::new();
    for (entry, exchange) in requests {
        let request = &exchange.request;
        let body = request.body.as_deref().filter(|_| request.name.is_none());
        let created = body.map(metadata::name).unwrap_or_default();
        let times = recent.entry(format!("{} {} {} {created}", entry.actor(), request.verb, request.path)).or_default();
        times.push_back(entry.at);
        while times.front().is_some_and(|first| *first + Duration::from_secs(1) < entry.at) {
            times.pop_front();
        }
        if times.len() == STORM + 1 {
            found.push((entry, exchange));
        }
    }
    found
}

/// See [`super::ALL`].
pub(super) fn deletes_name_the_uid(context: &JudgeContext<'_>) -> Vec<Violation> {
    let mine = requests(context.run.entries).filter(|(entry, exchange)| {
        deletes_pod(exchange) && matches!(entry.actor(), Actor::PodGc | Actor::TaintEviction)
    });
    let is_named = |exchange: &Exchange| {
        let body = exchange.request.body.as_deref();
        body.is_some_and(|body| body["preconditions"]["uid"].as_str().is_some_and(|uid| !uid.is_empty()))
    };
    let nameless = mine.filter(|(_, exchange)| !is_named(exchange));
    nameless.map(|(entry, _)| Violation::new(entry, "no uid among the preconditions")).collect()
}
