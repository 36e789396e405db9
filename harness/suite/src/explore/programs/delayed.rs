//! Runs whose steps come later, or in another order. They decide about breaches that depend on the steps after a
//! fault.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::explore::breach::{Breach, END_STATE};

use super::history;
use super::job::{Facts, PlannedFault, StepDelay, StepMerge, WorkerJob, millis};
use super::launch::Launcher;
use super::oracles;
use super::reference::Reference;
use super::state::{Expected, LEFT, MISSING, family};
use super::subject::ScenarioSubject;

/// Delay of the steps after a fault that gives the program time to recover first: more than the longest back-off of a
/// work queue, beyond the time that the fault lasts.
const RECOVERY: Duration = Duration::from_mins(20);
/// The times that faults last are rounded up to this many milliseconds, so that few runs without faults are needed.
const TEN_MINUTES: u64 = 600_000;
/// Number of plans of a breach that are tried with this delay.
const MOST_DELAYED: u32 = 8;

/// Runs whose steps after the fault come much later. A program that is cut off while a step happens need not do what
/// the step before it asked for, so that another end is right; with the delay it has the time.
#[derive(Debug)]
pub struct Delayed<'a> {
    subject: &'a ScenarioSubject,
    launcher: &'a Launcher,
    /// The objects at the end of runs without faults in which later steps come first.
    others: BTreeMap<StepMerge, Option<BTreeSet<String>>>,
    /// The runs without faults by the time after which steps are delayed.
    references: BTreeMap<StepDelay, Reference>,
    /// Number of plans that were tried for each breach.
    tried: BTreeMap<String, u32>,
}

impl<'a> Delayed<'a> {
    /// Makes the runs of a scenario.
    #[must_use]
    pub fn new(subject: &'a ScenarioSubject, launcher: &'a Launcher) -> Self {
        Self { subject, launcher, others: BTreeMap::new(), references: BTreeMap::new(), tried: BTreeMap::new() }
    }

    /// Returns true unless a breach of this plan, whose run has these facts, is only that the program had no time
    /// between the fault and the next step.
    pub fn confirms(&mut self, reference: &Reference, plan: &[PlannedFault], found: (&Breach, &Facts)) -> bool {
        let (breach, facts) = found;
        let Some(delay) = self.delay(plan).filter(|_| oracles::depends_on_steps(breach)) else { return true };
        let tried = self.tried.entry(breach.fingerprint()).or_default();
        *tried += 1;
        if *tried > MOST_DELAYED {
            return false;
        }
        let job = |plan: &[PlannedFault], expected: Option<&Reference>| WorkerJob {
            delay: Some(delay),
            ..self.subject.job(plan, expected, false)
        };
        let without = self.references.entry(delay).or_insert_with(|| {
            let facts = self.launcher.run(0, job(&[], Some(reference)));
            let before = facts.before.clone();
            let expected = Expected { state: facts.state.clone(), before, ..reference.expected.clone() };
            Reference { facts, expected, ..reference.clone() }
        });
        let again = self.launcher.run(0, job(plan, Some(without)));
        if oracles::judge(without, &again).iter().any(|other| other.fingerprint() == breach.fingerprint()) {
            return true;
        }
        let delayed = names(&without.facts);
        is_about_objects(breach) && self.is_no_order(delay, (&names(facts), &delayed))
    }

    /// Returns true if the steps after the fault only add objects, which takes nothing back, and no order of steps
    /// leads to the objects that were found.
    fn is_no_order(&mut self, delay: StepDelay, (found, delayed): (&BTreeSet<String>, &BTreeSet<String>)) -> bool {
        let Some(merge) = history::additions(&self.subject.fixture, delay.after) else { return false };
        let other = self.others.entry(merge).or_insert_with(|| {
            let facts = self.launcher.run(0, WorkerJob { merge: Some(merge), ..self.subject.job(&[], None, false) });
            facts.ending.is_none().then(|| names(&facts))
        });
        found != delayed && other.as_ref().is_some_and(|other| other != found)
    }

    /// Returns the delay of the steps after the first fault of a plan; `None` if there are none. Faults between the
    /// same steps have the same run without them.
    fn delay(&self, plan: &[PlannedFault]) -> Option<StepDelay> {
        let first = plan.iter().map(|(_, point)| point.at).min()?;
        let lasts = plan.iter().map(|(fault, _)| fault.duration()).max()?;
        let times = || self.subject.fixture.steps.iter().map(|step| millis(step.at));
        let after = times().filter(|at| *at <= first).max().unwrap_or_default();
        let rounded = millis(lasts).div_ceil(TEN_MINUTES) * TEN_MINUTES;
        let by = millis(RECOVERY) + rounded;
        times().any(|at| at > first).then_some(StepDelay { after, by })
    }
}

/// Returns true if an object is left or missing.
fn is_about_objects(breach: &Breach) -> bool {
    breach.oracle == END_STATE && [LEFT, MISSING].contains(&breach.kind.as_str())
}

/// Returns the names of the objects at the end of a run, without hashes at their ends.
fn names(facts: &Facts) -> BTreeSet<String> {
    facts.state.objects.keys().map(|key| family(key).unwrap_or(key).to_owned()).collect()
}
