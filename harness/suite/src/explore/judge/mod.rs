//! Oracles: judge a run with faults without the expectations of its fixture. Pure.
//!
//! | oracle | holds if |
//! |---|---|
//! | `invariant NAME` | the always-on invariant holds at each step |
//! | `alive` | the controllers neither panic nor end by themselves, and stop when asked |
//! | `end state` | after the faults have ended and time has passed, the objects are those of the run without faults |
//! | `quiet` | converged controllers do not write |
//! | `fresh` | controllers that start on the final state change nothing: no key was lost, no cache is stale |
//! | `model` | the objects agree with each other: numbers of budgets, TTL values, no pods on lost or tainted nodes |
//! | `uid` | the subject writes to no object that is newer than the request, or that it has just seen gone |
//! | `late` | what the run without faults writes is not written much later than the faults explain, evictions neither |
//! | `early` | no pod is evicted or collected without a reason that the controllers could know |
//! | `condition` | a pod says why in a condition before a controller deletes it |
//! | `claim` | a claim of a pod that is still there stays in its budget for two minutes |
//! | `ttl` | the TTL follows the number of nodes with hysteresis |
//! | `repeats` | an Event is counted once for each change |
//! | `event` | Events say what the controllers do |
//! | `retry` | failed requests are repeated when the work queue's back-off ends |
//! | `quarantine` | no orphan is collected less than 40 s after the first cycle without its node |
//! | `server` | dry runs change nothing, and preconditions that hold refuse nothing |
//! | `metrics` | no measured time is longer than the run, and deletions are counted by their reasons |
//! | `clock` | durations are not measured on the wall clock |
//! | `leader` | a replica that has lost the lease sends no write |
//! | `writes` | an object is not written more often than the run without faults and the faults explain |
//!
//! A fault can legitimately change the outcome: an eviction that a crash delays can be called off by a later step. So
//! the end states are compared only if the state before each step, and the reply to it, are those of the run without
//! faults. The other oracles hold for every history.
//!
//! Each oracle has a file, and its judges are rows of [`ORACLES`]. [`known`] has the states of pods and nodes that the
//! sender of a request may have had in mind, from the record of the run; [`backoff`] and [`held`] say what may have
//! delayed a write.

use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::{ALIVE, Breach, END_STATE, FRESH};
use plumbline::fixture::Fixture;
use plumbline::rules::budgets::BUDGETS;

use self::disturbances::{ends_at_work, is_seen_late};
use self::known::is_custom;
use self::models::MODEL;
use crate::explore::histories::facts::stays_uninformed;
use crate::explore::run::explored::{ExploredRun, ReferenceRun};

mod alive;
mod backoff;
mod breaches;
mod claim;
mod clock;
mod condition;
mod disturbances;
mod early;
mod end_state;
mod event;
mod fresh;
mod held;
mod invariant;
mod known;
mod late;
pub mod leader;
mod lost_events;
mod metrics;
mod model;
mod models;
mod overdue;
mod quarantine;
mod quiet;
mod reconnect;
mod repeats;
mod retry;
mod server;
#[cfg(test)]
mod testing;
mod tolerance;
mod ttl;
mod uid;
mod writes;

/// Number of answers by a fixture's own faults above which its outcome depends on the number of failures: controllers
/// may give up after several.
const OWN_FAULTS: usize = 2;

/// Judges a run by itself, from the objects before its first entry.
type Alone = fn(&Fixture, &ObjectStates, ExploredRun<'_>) -> Vec<Breach>;
/// Judges a run by the one of the same fixture without faults.
type Comparing = fn(&ReferenceRun, ExploredRun<'_>) -> Vec<Breach>;

/// The runs that a judge is for.
#[derive(Clone, Copy)]
enum Judge {
    /// Every run.
    Always(Alone),
    /// Runs that end alive, of fixtures that do not keep the controllers uninformed until the end.
    Informed(Alone),
    /// Runs that end alive, compared with the one without faults.
    Compared(Comparing),
    /// The same, of fixtures that are not about failures.
    WithoutFailures(Comparing),
    /// The same, whose history is that of the run without faults.
    OfSameHistory(Comparing),
}

/// The judges of all oracles but `alive`, in the order in which they judge. An oracle may have several.
const ORACLES: [(&str, Judge); 28] = [
    ("invariant", Judge::Always(invariant::broken)),
    ("early", Judge::Always(early::collection)),
    ("early", Judge::Always(early::unconfirmed)),
    ("early", Judge::Always(early::eviction)),
    ("condition", Judge::Always(condition::unexplained)),
    ("condition", Judge::Always(condition::unmarked)),
    ("claim", Judge::Always(claim::dropped)),
    ("ttl", Judge::Always(ttl::wrong_values)),
    ("repeats", Judge::Always(repeats::repeated)),
    ("event", Judge::Always(event::breaches)),
    ("retry", Judge::Always(|fixture, _, run| retry::untimely(fixture, run).into_iter().collect())),
    ("quarantine", Judge::Always(|fixture, _, run| quarantine::too_short(fixture, run).into_iter().collect())),
    (MODEL, Judge::Informed(models::broken)),
    ("uid", Judge::Informed(|_, _, run| uid::unknown_objects(run.entries))),
    ("uid", Judge::Informed(|_, _, run| uid::seen_gone(run.entries).into_iter().collect())),
    ("leader", Judge::Informed(|_, _, run| leader::writes_after_loss(run.entries).into_iter().collect())),
    ("late", Judge::Informed(overdue::evictions)),
    ("server", Judge::Informed(|_, begin, run| server::misbehaves(begin, run).into_iter().collect())),
    ("metrics", Judge::Informed(|_, _, run| metrics::impossible(&run.record.scrapes).into_iter().collect())),
    ("metrics", Judge::Informed(|fixture, _, run| metrics::miscounted(fixture, run).into_iter().collect())),
    (END_STATE, Judge::OfSameHistory(end_state::differs)),
    ("writes", Judge::OfSameHistory(writes::excess)),
    ("late", Judge::OfSameHistory(late::writes)),
    ("clock", Judge::OfSameHistory(clock::follows_wall_clock)),
    (END_STATE, Judge::OfSameHistory(lost_events::lost_event)),
    ("late", Judge::WithoutFailures(reconnect::stays_away)),
    ("quiet", Judge::Compared(quiet::writes)),
    (FRESH, Judge::WithoutFailures(fresh::writes)),
];

/// The result of a run with faults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OracleVerdict {
    /// The breaches, in order of the oracles.
    pub breaches: Vec<Breach>,
    /// True if a fault changed the history, so that the end states were not compared.
    pub diverged: bool,
    /// The reason if the plan cannot be run with this fixture.
    pub unfit: Option<String>,
}

/// Judges a run by `reference`, the run of the same fixture without faults.
#[must_use]
pub fn judge(reference: &ReferenceRun, explored: ExploredRun<'_>) -> OracleVerdict {
    let OracleVerdict { mut breaches, unfit, .. } = judge_alone(&reference.fixture, explored);
    breaches.retain(|breach| !reference.broken.contains(&breach.oracle));
    if unfit.is_some() || breaches.iter().any(|breach| breach.oracle == ALIVE) {
        return OracleVerdict { breaches, diverged: false, unfit };
    }
    let normal = &reference.observation;
    let about_failures = normal.faulted > OWN_FAULTS || stays_uninformed(&reference.fixture);
    let diverged = others_differ(reference, explored)
        || lacks_refusal(reference, explored)
        || normal.replies != explored.observation.replies
        || normal.boundaries != explored.observation.boundaries;
    for (_, judge) in ORACLES {
        match judge {
            Judge::OfSameHistory(judge) if !diverged && !about_failures => breaches.extend(judge(reference, explored)),
            Judge::WithoutFailures(judge) if !about_failures => breaches.extend(judge(reference, explored)),
            Judge::Compared(judge) => breaches.extend(judge(reference, explored)),
            _ => {}
        }
    }
    let is_unfinished = ends_at_work(explored);
    breaches.retain(|breach| {
        let is_of_end = [END_STATE, FRESH, MODEL].contains(&breach.oracle.as_str());
        !(is_late_owner(breach, explored) || is_of_end && is_unfinished)
    });
    OracleVerdict { breaches, diverged, unfit: None }
}

/// Returns true if other clients created or deleted other objects than in the run without faults.
fn others_differ(reference: &ReferenceRun, explored: ExploredRun<'_>) -> bool {
    reference.observation.others != explored.observation.others
}

/// Returns true for a budget whose numbers follow an owner that an informer showed late: the deletion of an owner, and
/// the scale of one, lead to no sync by themselves, as upstream, and after a new list pods may come before their
/// owners. No informer shows owners of custom kinds.
fn is_late_owner(breach: &Breach, explored: ExploredRun<'_>) -> bool {
    const OWNERS: [&str; 4] = ["replicasets", "replicationcontrollers", "statefulsets", "deployments"];
    breach.resource.starts_with(BUDGETS)
        && [END_STATE, FRESH, MODEL].contains(&breach.oracle.as_str())
        && (is_seen_late(explored, |key| OWNERS.contains(&key.resource.as_str()))
            || explored.knowledge.is_changed_unseen(is_custom))
}

/// Judges a run without faults: there is nothing to compare it with.
#[must_use]
pub fn judge_alone(fixture: &Fixture, explored: ExploredRun<'_>) -> OracleVerdict {
    let (mut breaches, unfit) = alive::ends(explored.record);
    if unfit.is_none() {
        let is_informed = !stays_uninformed(fixture) && breaches.is_empty();
        for (_, judge) in ORACLES {
            match judge {
                Judge::Always(judge) => breaches.extend(judge(fixture, explored.begin, explored)),
                Judge::Informed(judge) if is_informed => breaches.extend(judge(fixture, explored.begin, explored)),
                _ => {}
            }
        }
    }
    OracleVerdict { breaches, diverged: false, unfit }
}

/// Judges a run without faults by the oracles that otherwise compare with it: converged controllers do not write, and
/// fresh ones agree with the final state.
#[must_use]
pub fn judge_calm(explored: ExploredRun<'_>) -> Vec<Breach> {
    quiet::calm_write(explored).into_iter().chain(fresh::calm_write(explored)).collect()
}

/// Returns true if a request that a fault of the fixture refused in the run without faults took effect here. Then the
/// end is another one.
fn lacks_refusal(reference: &ReferenceRun, explored: ExploredRun<'_>) -> bool {
    let refused = &explored.observation.refused;
    let mut normal = reference.observation.refused.iter();
    normal.any(|(key, count)| refused.get(key).is_none_or(|found| found < count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the module's documentation has each oracle once.
    #[test]
    fn each_oracle_is_documented() {
        let text = include_str!("mod.rs");
        for (name, _) in ORACLES {
            let row = |line: &&str| line.starts_with("//! |") && line.contains(&format!("`{name}"));
            assert_eq!(text.lines().filter(row).count(), 1, "{name}");
        }
    }
}
