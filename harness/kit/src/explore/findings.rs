//! Findings: breaches with the same fingerprint are one finding. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::breach::Breach;
use super::faults::plan::FaultPlan;

/// Number of plans that a finding lists.
const EXAMPLES: usize = 5;

/// A breach, and the plans that lead to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The text that is equal for breaches with the same cause: oracle, resource, kind.
    pub fingerprint: String,
    /// Description of the first breach.
    pub breach: String,
    /// Time of the first breach in milliseconds from the start of its run.
    pub at_millis: u64,
    /// Token of the simplest plan that leads to it.
    pub plan: String,
    /// Number of runs with this breach.
    pub runs: u64,
    /// Number of fixtures whose runs have it.
    pub fixtures: usize,
    /// Tokens of other plans that lead to it.
    pub also: Vec<String>,
    /// The shrunk history as a fixture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixture: Option<String>,
}

impl Finding {
    /// Returns a name for a file: `end-state-pods-is-left`.
    #[must_use]
    pub fn file_name(&self) -> String {
        let words = self.fingerprint.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
    }
}

/// All findings of an exploration, by fingerprint.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    by_fingerprint: BTreeMap<String, FindingEntry>,
}

#[derive(Debug, Clone)]
struct FindingEntry {
    simplest: (FaultPlan, Breach),
    runs: u64,
    fixtures: BTreeMap<String, String>,
}

impl Findings {
    /// Adds a breach; returns true if it is the first with its fingerprint.
    pub fn add(&mut self, plan: &FaultPlan, breach: &Breach) -> bool {
        let fresh = FindingEntry { simplest: (plan.clone(), breach.clone()), runs: 0, fixtures: BTreeMap::new() };
        let mut first = false;
        let entry = self.by_fingerprint.entry(breach.fingerprint()).or_insert_with(|| {
            first = true;
            fresh
        });
        entry.runs += 1;
        entry.fixtures.entry(plan.fixture.clone()).or_insert_with(|| plan.to_string());
        if effort(plan) < effort(&entry.simplest.0) {
            entry.simplest = (plan.clone(), breach.clone());
        }
        first
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_fingerprint.is_empty()
    }

    /// Returns the number of different fingerprints.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_fingerprint.len()
    }

    /// Returns the simplest plan and its breach for each fingerprint, in order.
    pub fn simplest(&self) -> impl Iterator<Item = &(FaultPlan, Breach)> {
        self.by_fingerprint.values().map(|entry| &entry.simplest)
    }

    /// Returns the findings, in order of their fingerprints.
    #[must_use]
    pub fn list(&self) -> Vec<Finding> {
        let finding = |(fingerprint, entry): (&String, &FindingEntry)| {
            let (plan, breach) = &entry.simplest;
            let token = plan.to_string();
            let also = entry.fixtures.values().filter(|other| **other != token).take(EXAMPLES).cloned().collect();
            Finding {
                fingerprint: fingerprint.clone(),
                breach: breach.text.clone(),
                at_millis: u64::try_from(breach.at.as_millis()).unwrap_or(u64::MAX),
                plan: token,
                runs: entry.runs,
                fixtures: entry.fixtures.len(),
                also,
                ..Finding::default()
            }
        };
        self.by_fingerprint.iter().map(finding).collect()
    }
}

/// Orders plans from the simplest: few faults, an early and weak fault, a short name.
fn effort(plan: &FaultPlan) -> (usize, u32, String) {
    let occurrences = plan.faults.iter().map(|(_, point)| point.occurrence).sum();
    (plan.faults.len(), occurrences, plan.to_string())
}
