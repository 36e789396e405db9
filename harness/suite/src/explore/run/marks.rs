//! Marks: what explorations are to see at least once, so that a run can say what it never reached. Pure.
//!
//! A mark is a situation of the controllers (a request with its reply, an Event) or an invariant that was not vacuous.
//! The rules of the catalogue are marks of the fixtures that cite them, see [`super::report`].

use std::collections::BTreeSet;

use plumbline::expect::requests;
use plumbline::invariants;
use plumbline::transcript::{Attributed as _, TranscriptEntry};

/// Situations that histories with faults can lead to, in the form of [`marks`].
const SITUATIONS: [&str; 40] = [
    "disruption update poddisruptionbudgets/status 200",
    "disruption update poddisruptionbudgets/status 404",
    "disruption update poddisruptionbudgets/status 409",
    "disruption update poddisruptionbudgets/status 429",
    "disruption update poddisruptionbudgets/status 500",
    "disruption update poddisruptionbudgets/status 504",
    "disruption update pods/status 200",
    "disruption update pods/status 404",
    "disruption update pods/status 409",
    "disruption update pods/status 500",
    "podgc get nodes 200",
    "podgc get nodes 404",
    "podgc get nodes 500",
    "podgc patch pods/status 200",
    "podgc patch pods/status 404",
    "podgc patch pods/status 409",
    "podgc patch pods/status 500",
    "podgc delete pods 200",
    "podgc delete pods 404",
    "podgc delete pods 409",
    "podgc delete pods 500",
    "taint-eviction get nodes 200",
    "taint-eviction get nodes 404",
    "taint-eviction get pods 200",
    "taint-eviction get pods 404",
    "taint-eviction patch pods/status 200",
    "taint-eviction patch pods/status 404",
    "taint-eviction patch pods/status 409",
    "taint-eviction delete pods 200",
    "taint-eviction delete pods 404",
    "taint-eviction delete pods 409",
    "taint-eviction delete pods 500",
    "ttl patch nodes 200",
    "ttl patch nodes 404",
    "ttl patch nodes 409",
    "event TaintManagerEviction",
    "event NoPods",
    "event UnmanagedPods",
    "event NotDeleted",
    "event MultiplePodDisruptionBudgets",
];

/// The request that an invariant is about: its name, the actor, the verb and the resource; empty parts match any.
const CONCERNS: [(&str, &str, &str, &str); 16] = [
    ("role_limits", "", "", ""),
    ("no_idle_writes", "", "patch", ""),
    ("no_storms", "", "", ""),
    ("disruptions_allowed", "disruption", "update", "poddisruptionbudgets/status"),
    ("status_carries_version", "disruption", "update", "poddisruptionbudgets/status"),
    ("generation_never_falls", "disruption", "update", "poddisruptionbudgets/status"),
    ("claims_are_not_invented", "disruption", "update", "poddisruptionbudgets/status"),
    ("foreign_conditions_survive", "disruption", "update", "poddisruptionbudgets/status"),
    ("conditions_age_two_minutes", "disruption", "update", "pods/status"),
    ("force_deletes_have_grace_zero", "podgc", "delete", "pods"),
    ("failed_before_delete", "podgc", "delete", "pods"),
    ("orphans_are_confirmed", "podgc", "patch", "pods/status"),
    ("condition_before_delete", "taint-eviction", "delete", "pods"),
    ("no_early_eviction", "taint-eviction", "delete", "pods"),
    ("ttl_values", "ttl", "patch", "nodes"),
    ("deletes_name_the_uid", "", "delete", "pods"),
];

/// Returns the marks of a run.
#[must_use]
pub fn marks(entries: &[TranscriptEntry]) -> BTreeSet<String> {
    let mut marks = BTreeSet::new();
    for (entry, exchange) in requests(entries).filter(|(entry, _)| entry.actor().is_subject()) {
        let request = &exchange.request;
        let actor = entry.actor();
        if matches!(request.verb.as_str(), "list" | "watch") {
            continue;
        }
        let resource = request.resource_path();
        if resource == "events" {
            let reason = request.body.as_ref().and_then(|body| body["reason"].as_str());
            marks.extend(reason.map(|reason| format!("event {reason}")));
            continue;
        }
        let status = exchange.reply.as_ref().map(|reply| reply.status).unwrap_or_default();
        // Creations are 201; nothing else depends on which kind of success it is.
        let status = if (200..300).contains(&status) { 200 } else { status };
        marks.insert(format!("{actor} {} {resource} {status}", request.verb));
        let actor = actor.to_string();
        let fits = |part: &str, found: &str| part.is_empty() || part == found;
        let concerned = CONCERNS
            .iter()
            .filter(|(_, by, verb, about)| fits(by, &actor) && fits(verb, &request.verb) && fits(about, &resource));
        marks.extend(concerned.map(|(name, ..)| format!("invariant {name}")));
    }
    marks
}

/// Returns all marks that explorations are to see.
#[must_use]
pub fn wanted() -> BTreeSet<String> {
    let invariants = invariants::ALL.iter().map(|invariant| format!("invariant {}", invariant.name));
    SITUATIONS.iter().map(|mark| (*mark).to_owned()).chain(invariants).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_invariant_has_a_mark() {
        assert_eq!(CONCERNS.map(|(name, ..)| name), invariants::ALL.map(|invariant| invariant.name));
        assert_eq!(wanted().len(), SITUATIONS.len() + CONCERNS.len(), "they are distinct");
    }
}
