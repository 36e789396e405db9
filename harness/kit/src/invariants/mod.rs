//! Always-on invariants: rules that the controllers must never break, in any fixture. Pure.
//!
//! Each is a function over the transcript of a run and concerns only certain actors. A fixture that breaks one on
//! purpose waives it, with the reason (`waive:`).
//!
//! [`writes`] concerns all controllers; [`budgets`], [`podgc`], [`taint_eviction`], [`ttl`] one each.

use self::violation::Violation;
use crate::expect::world::ObjectStates;
use crate::expect::{BrokenPromise, JudgeContext, Run, line};
use crate::fixture::{Fixture, Level};
use crate::transcript::EntryKind;

mod budgets;
mod podgc;
mod taint_eviction;
mod ttl;
mod violation;
mod writes;

pub use writes::{STORM, is_idle, storm_text, storms_of_instants};

/// An invariant.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// Its name in `waive:`.
    pub name: &'static str,
    /// Ids of the rules in `fixtures/catalogue.yaml`.
    pub ids: &'static [&'static str],
    /// The rule, in a sentence.
    pub doc: &'static str,
    /// `core`: checked in every fixture. `hardened`: only in fixtures of that level, because upstream breaks it.
    pub level: Level,
    check: fn(&JudgeContext<'_>) -> Vec<Violation>,
}

type CheckFn = fn(&JudgeContext<'_>) -> Vec<Violation>;
type Ids = &'static [&'static str];

const fn core(name: &'static str, ids: Ids, check: CheckFn, doc: &'static str) -> Invariant {
    Invariant { name, ids, doc, level: Level::Core, check }
}

const fn hardened(name: &'static str, ids: Ids, check: CheckFn, doc: &'static str) -> Invariant {
    Invariant { name, ids, doc, level: Level::Hardened, check }
}

/// All invariants; their names are those of [`crate::fixture::vocabulary::INVARIANTS`].
pub const ALL: [Invariant; 16] = [
    core(
        "role_limits",
        &["I-D17", "I-T4", "I-X4"],
        writes::role_limits,
        "A controller writes only what its role allows: disruption `pdb/status` and `pods/status`; podgc and taint \
         eviction `pods/status` and deletes of pods; ttl patches of nodes; all of them Events.",
    ),
    core(
        "no_idle_writes",
        &["I-D14", "I-T5"],
        writes::no_idle_writes,
        "A successful update or patch changes the object.",
    ),
    core("no_storms", &["I-X3"], writes::no_storms, "The same request is not made more than 20 times within a second."),
    core(
        "disruptions_allowed",
        &["I-D1", "I-D2", "I-D10"],
        budgets::disruptions_allowed,
        "Every budget status written is consistent: no negative numbers, `disruptionsAllowed = max(0, current - \
         desired)` and 0 if no pods are expected, and the condition matches; after a failed sync \
         `disruptionsAllowed` is 0.",
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
        "DisruptionTarget is set to False only on a pod that is neither terminating nor finished, not for \
         TerminationByKubelet, and not before the condition is two minutes old.",
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
        "PodGC marks a pod as orphaned only after a live GET of its node returned 404 in the same cycle, or a new list \
         did not have it, and not before the node has been missing for 40 s since its deletion or since the controller \
         started.",
    ),
    core(
        "condition_before_delete",
        &["I-N5"],
        taint_eviction::condition_before_delete,
        "Taint eviction deletes a pod only after its DisruptionTarget condition is True with reason \
         DeletionByTaintManager.",
    ),
    core(
        "no_early_eviction",
        &["I-N1", "I-N2", "I-N8", "I-N9"],
        taint_eviction::no_early_eviction,
        "Taint eviction deletes a pod only if it was bound to a node with a NoExecute taint that it does not \
         tolerate, or has stayed there for as long as it tolerates the taint.",
    ),
    core(
        "ttl_values",
        &["I-T1"],
        ttl::ttl_values,
        "The TTL annotation is one of 0, 15, 30, 60, 300, and the controller changes no other field of the node.",
    ),
    hardened(
        "deletes_name_the_uid",
        &["I-G4", "I-N4"],
        writes::deletes_name_the_uid,
        "Every DELETE of a pod carries its UID as a precondition.",
    ),
];

/// Checks all invariants that concern `fixture` and are not waived. Reports at most two violations of each.
pub fn check(fixture: &Fixture, run: &Run<'_>) -> Vec<BrokenPromise> {
    check_from(fixture, run, &ObjectStates::new(run, &fixture.given.namespace))
}

/// Like [`check`], with the objects before the first entry of `run`.
pub fn check_from(fixture: &Fixture, run: &Run<'_>, begin: &ObjectStates) -> Vec<BrokenPromise> {
    check_those(fixture, run, begin, |invariant| {
        (invariant.level == Level::Core || invariant.level == fixture.level)
            && !fixture.waive.contains_key(invariant.name)
    })
}

/// Checks the invariants of these names.
pub(crate) fn check_named(names: &[&str], fixture: &Fixture, run: &Run<'_>) -> Vec<BrokenPromise> {
    let begin = ObjectStates::new(run, &fixture.given.namespace);
    check_those(fixture, run, &begin, |invariant| names.contains(&invariant.name))
}

fn check_those(
    fixture: &Fixture,
    run: &Run<'_>,
    begin: &ObjectStates,
    is_meant: impl Fn(&Invariant) -> bool,
) -> Vec<BrokenPromise> {
    let context = JudgeContext { fixture, run, begin };
    let mut failures = Vec::new();
    for invariant in ALL.iter().filter(|invariant| is_meant(invariant)) {
        for violation in (invariant.check)(&context).into_iter().take(2) {
            let place = match &violation.entry.what {
                EntryKind::Request(exchange) => line(&violation.entry, exchange),
                EntryKind::Change(change) => format!("the change of {}/{}", change.resource, change.name),
                EntryKind::Note(text) => text.clone(),
            };
            failures.push(BrokenPromise {
                line: 0,
                at: violation.entry.at,
                seq: violation.entry.seq,
                check: format!("invariant {}", invariant.name),
                expected: invariant.doc.to_owned(),
                observed: format!("{place}: {}", violation.observed),
            });
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::vocabulary::INVARIANTS;

    #[test]
    fn the_names_are_those_that_fixtures_may_waive() {
        assert_eq!(ALL.map(|invariant| invariant.name), INVARIANTS);
    }
}
