//! Always-on checkers: what the controllers must never do, whatever a fixture is about. Pure.
//!
//! Each is a function over the transcript of a run, and speaks only of the actors it concerns. A fixture that
//! shows an implementation breaking one on purpose waives it, with the reason (`waive:`).
//!
//! [`writes`] concerns all controllers; [`budgets`], [`podgc`], [`taint_eviction`], [`ttl`] one each.

use std::sync::Arc;

use serde_json::Value;

use crate::expect::world::World;
use crate::expect::{Failure, Scene, line};
use crate::fixture::Level;
use crate::transcript::{Actor, Attributed as _, Change, Entry, Exchange, Happening};

mod budgets;
mod podgc;
mod taint_eviction;
mod ttl;
mod writes;

/// An invariant.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// Its name in `waive:`.
    pub name: &'static str,
    /// Ids of the catalogue (Part 4).
    pub ids: &'static [&'static str],
    /// What must hold, in a sentence.
    pub doc: &'static str,
    /// `core`: checked in every fixture. `hardened`: only in fixtures of that level, because upstream breaks it.
    pub level: Level,
    check: fn(&Scene<'_>) -> Vec<Breach>,
}

type Check = fn(&Scene<'_>) -> Vec<Breach>;
type Ids = &'static [&'static str];

const fn core(name: &'static str, ids: Ids, check: Check, doc: &'static str) -> Invariant {
    Invariant { name, ids, doc, level: Level::Core, check }
}

const fn hardened(name: &'static str, ids: Ids, check: Check, doc: &'static str) -> Invariant {
    Invariant { name, ids, doc, level: Level::Hardened, check }
}

/// All invariants.
pub const ALL: [Invariant; 16] = [
    core(
        "role_limits",
        &["I-D17", "I-T4", "I-X4"],
        writes::role_limits,
        "A controller writes only what its role is for: disruption `pdb/status` and `pods/status`; podgc and taint eviction `pods/status` and deletes of pods; ttl patches of nodes; all of them Events.",
    ),
    core("no_idle_writes", &["I-D14", "I-T5"], writes::no_idle_writes, "A successful write changes something."),
    core("no_storms", &["I-X3"], writes::no_storms, "The same request is not made more than 20 times within a second."),
    core(
        "disruptions_allowed",
        &["I-D1", "I-D2", "I-D10"],
        budgets::disruptions_allowed,
        "Every budget status written is consistent: no negative numbers, `disruptionsAllowed = max(0, current - desired)` and 0 if nothing is expected, the condition agrees; after a failed sync it is 0.",
    ),
    core(
        "status_carries_version",
        &["I-D5"],
        budgets::status_carries_version,
        "A budget's status is written with the resourceVersion it was computed from.",
    ),
    core(
        "generation_never_falls",
        &["I-D8"],
        budgets::generation_never_falls,
        "`observedGeneration` never falls and is never ahead of the generation.",
    ),
    core(
        "claims_are_not_invented",
        &["I-D12"],
        budgets::claims_are_not_invented,
        "The disruption controller never adds a pod to `disruptedPods`.",
    ),
    core(
        "foreign_conditions_survive",
        &["I-D13"],
        budgets::foreign_conditions_survive,
        "Status conditions of other types survive every write of the disruption controller.",
    ),
    core(
        "conditions_age_two_minutes",
        &["I-D16"],
        budgets::conditions_age_two_minutes,
        "DisruptionTarget is set to False only on a pod that is neither terminating nor finished, not for TerminationByKubelet, and not before the condition is two minutes old.",
    ),
    core(
        "force_deletes_have_grace_zero",
        &["I-G13"],
        podgc::force_deletes_have_grace_zero,
        "PodGC deletes with gracePeriodSeconds 0.",
    ),
    core(
        "failed_before_delete",
        &["I-G6", "I-G8"],
        podgc::failed_before_delete,
        "PodGC deletes a pod only once its phase is Failed or Succeeded, and never rewrites such a phase.",
    ),
    core(
        "orphans_are_confirmed",
        &["I-G1", "I-G2", "I-G12"],
        podgc::orphans_are_confirmed,
        "PodGC marks a pod as orphaned only after a live GET of its node that said 404 at the same instant, and 40 s after the node was last there or the controller started.",
    ),
    core(
        "condition_before_delete",
        &["I-N5"],
        taint_eviction::condition_before_delete,
        "Taint eviction deletes a pod only after its DisruptionTarget condition is True with reason DeletionByTaintManager.",
    ),
    core(
        "no_early_eviction",
        &["I-N1", "I-N2", "I-N8", "I-N9"],
        taint_eviction::no_early_eviction,
        "Taint eviction deletes a pod only if it was bound to a node with a NoExecute taint that it does not tolerate, or for at least the time it tolerates.",
    ),
    core(
        "ttl_values",
        &["I-T1"],
        ttl::ttl_values,
        "The TTL annotation is one of 0, 15, 30, 60, 300, and nothing else of the node is touched.",
    ),
    hardened(
        "deletes_name_the_uid",
        &["I-G4", "I-N4"],
        writes::deletes_name_the_uid,
        "Every DELETE of a pod carries its UID as a precondition.",
    ),
];

/// An invariant broken at an entry.
#[derive(Debug)]
struct Breach {
    entry: Entry,
    observed: String,
}

impl Breach {
    fn new(entry: &Entry, observed: impl Into<String>) -> Self {
        Self { entry: entry.clone(), observed: observed.into() }
    }
}

impl<'a> Scene<'a> {
    /// Requests with the world just before each.
    fn requests(&self, mut visit: impl FnMut(&'a Entry, &'a Exchange, &World) -> Option<Breach>) -> Vec<Breach> {
        let mut world = self.begin.clone();
        let mut breaches = Vec::new();
        for entry in self.run.entries {
            match &entry.what {
                Happening::Request(exchange) => breaches.extend(visit(entry, exchange, &world)),
                Happening::Change(_) | Happening::Note(_) => world.step(entry),
            }
        }
        breaches
    }

    /// Changes of a resource's objects by `actor`, with the object before (if there was one) and after.
    fn changes(
        &self,
        actor: &Actor,
        resource: &str,
        mut visit: impl FnMut(&'a Entry, &'a Change, Option<&Arc<Value>>, &Arc<Value>) -> Option<Breach>,
    ) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for entry in self.run.entries.iter().filter(|entry| entry.actor() == *actor) {
            if let Happening::Change(change) = &entry.what
                && change.resource == resource
                && let Some(new) = &change.new
            {
                breaches.extend(visit(entry, change, change.old.as_ref(), new));
            }
        }
        breaches
    }
}

/// Whether a DELETE of a pod is asked for.
fn deletes_pod(exchange: &Exchange) -> bool {
    exchange.request.verb == "delete" && exchange.request.resource == "pods" && exchange.request.subresource.is_none()
}

/// The pod a request is about, as it is in `world`.
fn pod_of<'w>(exchange: &Exchange, world: &'w World) -> Option<&'w Arc<Value>> {
    let request = &exchange.request;
    world.get(&crate::expect::world::Key {
        group: String::new(),
        resource: "pods".to_owned(),
        namespace: request.namespace.clone(),
        name: request.name.clone()?,
    })
}

/// The condition of that type.
fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Checks all invariants that concern `fixture` and are not waived; at most two breaches of each are told.
pub(crate) fn check(scene: Scene<'_>) -> Vec<Failure> {
    let fixture = scene.fixture;
    let concerns = |invariant: &&Invariant| {
        (invariant.level == Level::Core || invariant.level == fixture.level)
            && !fixture.waive.contains_key(invariant.name)
    };
    let mut failures = Vec::new();
    for invariant in ALL.iter().filter(concerns) {
        for breach in (invariant.check)(&scene).into_iter().take(2) {
            let place = match &breach.entry.what {
                Happening::Request(exchange) => line(&breach.entry, exchange),
                Happening::Change(change) => format!("the change of {}/{}", change.resource, change.name),
                Happening::Note(text) => text.clone(),
            };
            failures.push(Failure {
                line: 0,
                at: breach.entry.at,
                seq: breach.entry.seq,
                check: format!("invariant {}", invariant.name),
                expected: invariant.doc.to_owned(),
                observed: format!("{place}: {}", breach.observed),
            });
        }
    }
    failures
}
