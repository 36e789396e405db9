//! Always-on checkers: what the controllers must never do, whatever a fixture is about. Pure.
//!
//! Each is a function over the transcript of a run, and speaks only of the actors it concerns. A fixture that
//! shows an implementation breaking one on purpose waives it, with the reason (`waive:`).

use crate::expect::{Failure, Run};
use crate::fixture::{Fixture, Level};

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
}

const fn core(name: &'static str, ids: &'static [&'static str], doc: &'static str) -> Invariant {
    Invariant { name, ids, doc, level: Level::Core }
}

const fn hardened(name: &'static str, ids: &'static [&'static str], doc: &'static str) -> Invariant {
    Invariant { name, ids, doc, level: Level::Hardened }
}

/// All invariants.
pub const ALL: [Invariant; 16] = [
    core(
        "role_limits",
        &["I-D17", "I-T4", "I-X4"],
        "A controller writes only what its role is for: disruption `pdb/status` and `pods/status`; podgc and taint eviction `pods/status` and deletes of pods; ttl patches of nodes; all of them Events.",
    ),
    core("no_idle_writes", &["I-D14", "I-T5"], "A successful write changes something."),
    core("no_storms", &["I-X3"], "The same request is not made more than 20 times within a second."),
    core(
        "disruptions_allowed",
        &["I-D1", "I-D2", "I-D10"],
        "Every budget status written is consistent: no negative numbers, `disruptionsAllowed = max(0, current - desired)` and 0 if nothing is expected, the condition agrees; after a failed sync it is 0.",
    ),
    core(
        "status_carries_version",
        &["I-D5"],
        "A budget's status is written with the resourceVersion it was computed from.",
    ),
    core("generation_never_falls", &["I-D8"], "`observedGeneration` never falls and is never ahead of the generation."),
    core("claims_are_not_invented", &["I-D12"], "The disruption controller never adds a pod to `disruptedPods`."),
    core(
        "foreign_conditions_survive",
        &["I-D13"],
        "Status conditions of other types survive every write of the disruption controller.",
    ),
    core(
        "conditions_age_two_minutes",
        &["I-D16"],
        "DisruptionTarget is set to False only on a pod that is neither terminating nor finished, not for TerminationByKubelet, and not before the condition is two minutes old.",
    ),
    core("force_deletes_have_grace_zero", &["I-G13"], "PodGC deletes with gracePeriodSeconds 0."),
    core(
        "failed_before_delete",
        &["I-G6", "I-G8"],
        "PodGC deletes a pod only once its phase is Failed or Succeeded, and never rewrites such a phase.",
    ),
    core(
        "orphans_are_confirmed",
        &["I-G1", "I-G2", "I-G12"],
        "PodGC marks a pod as orphaned only after a live GET of its node that said 404 at the same instant, and 40 s after the node was last there or the controller started.",
    ),
    core(
        "condition_before_delete",
        &["I-N5"],
        "Taint eviction deletes a pod only after its DisruptionTarget condition is True with reason DeletionByTaintManager.",
    ),
    core(
        "no_early_eviction",
        &["I-N1", "I-N2", "I-N8", "I-N9"],
        "Taint eviction deletes a pod only if it was bound to a node with a NoExecute taint that it does not tolerate, or for at least the time it tolerates.",
    ),
    core(
        "ttl_values",
        &["I-T1"],
        "The TTL annotation is one of 0, 15, 30, 60, 300, and nothing else of the node is touched.",
    ),
    hardened("deletes_name_the_uid", &["I-G4", "I-N4"], "Every DELETE of a pod carries its UID as a precondition."),
];

/// Checks all invariants that concern `fixture`.
pub fn check(_fixture: &Fixture, _run: &Run<'_>) -> Vec<Failure> {
    Vec::new()
}
