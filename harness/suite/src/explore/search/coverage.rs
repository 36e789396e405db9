//! Coverage of marks and rules by each strategy of an exploration. Pure.

use std::collections::{BTreeMap, BTreeSet};

use plumbline::explore::faults::FaultTrait;
use plumbline::explore::faults::plan::FaultPlan;
use serde::{Deserialize, Serialize};

use crate::explore::histories::random;

/// The strategy to which a run belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunStrategy {
    /// A fixture without faults.
    Reference,
    /// One fault.
    Single,
    /// Simultaneous work in another order.
    Order,
    /// Two faults.
    Pairs,
    /// A random history, without or with faults.
    Random,
}

impl RunStrategy {
    /// Returns the strategy to which the run of `plan` belongs.
    #[must_use]
    pub fn of(plan: &FaultPlan) -> Self {
        match plan.faults.as_slice() {
            _ if random::is_random(&plan.fixture) => Self::Random,
            [] => Self::Reference,
            [(disturbance, _)] if disturbance.is(FaultTrait::Reorders) => Self::Order,
            [_] => Self::Single,
            _ => Self::Pairs,
        }
    }

    /// Returns its name in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Single => "single",
            Self::Order => "order",
            Self::Pairs => "pairs",
            Self::Random => "random",
        }
    }
}

/// The marks and rules that the runs of one strategy reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StrategyCoverage {
    /// Number of runs.
    pub runs: u64,
    /// Situations and invariants, see [`marks`](crate::explore::run::marks).
    pub marks: BTreeSet<String>,
    /// Rules of the catalogue that the fixtures of the runs cite; random histories cite none.
    pub rules: BTreeSet<String>,
}

/// The marks and rules that the runs of each strategy reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage(pub BTreeMap<RunStrategy, StrategyCoverage>);

impl Coverage {
    /// Adds a run and its marks.
    pub fn add(&mut self, plan: &FaultPlan, marks: impl IntoIterator<Item = String>) {
        let covered = self.0.entry(RunStrategy::of(plan)).or_default();
        covered.runs += 1;
        covered.marks.extend(marks);
    }

    /// Adds the rules of a fixture to the strategy of a plan.
    pub fn cite(&mut self, plan: &FaultPlan, rules: &BTreeSet<String>) {
        let cited = &mut self.0.entry(RunStrategy::of(plan)).or_default().rules;
        if !rules.is_subset(cited) {
            cited.extend(rules.iter().cloned());
        }
    }

    /// Adds the coverage of other runs.
    pub fn merge(&mut self, other: Self) {
        for (strategy, added) in other.0 {
            let covered = self.0.entry(strategy).or_default();
            covered.runs += added.runs;
            covered.marks.extend(added.marks);
            covered.rules.extend(added.rules);
        }
    }

    /// Returns true if a run of any strategy reached the mark.
    #[must_use]
    pub fn has(&self, mark: &str) -> bool {
        self.0.values().any(|covered| covered.marks.contains(mark))
    }

    /// Returns the marks that the runs of any strategy reached.
    #[must_use]
    pub fn marks(&self) -> BTreeSet<String> {
        self.0.values().flat_map(|covered| covered.marks.iter().cloned()).collect()
    }

    /// Returns the rules that the fixtures of any strategy cite.
    #[must_use]
    pub fn rules(&self) -> BTreeSet<String> {
        self.0.values().flat_map(|covered| covered.rules.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use plumbline::explore::faults::Disturbance;
    use plumbline::explore::faults::point::FaultPoint;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::calm("podgc/a", &[], RunStrategy::Reference)]
    #[case::one("podgc/a", &["500"], RunStrategy::Single)]
    #[case::order("podgc/a", &["order-2"], RunStrategy::Order)]
    #[case::two("podgc/a", &["500", "touch"], RunStrategy::Pairs)]
    #[case::random("random/7", &["500"], RunStrategy::Random)]
    #[case::calm_random("random/7", &[], RunStrategy::Random)]
    fn each_run_belongs_to_one_strategy(#[case] fixture: &str, #[case] faults: &[&str], #[case] strategy: RunStrategy) {
        let fault = |name: &&str| (Disturbance::parse(name).expect("a fault"), FaultPoint::of_run(1));
        let plan = FaultPlan { fixture: fixture.to_owned(), faults: faults.iter().map(fault).collect() };
        assert_eq!(RunStrategy::of(&plan), strategy);
    }

    #[test]
    fn parts_are_added_by_strategy() {
        let mut coverage = Coverage::default();
        coverage.add(&FaultPlan::calm("podgc/a"), ["one".to_owned()]);
        coverage.cite(&FaultPlan::calm("podgc/a"), &["G-001".to_owned()].into());
        let mut other = Coverage::default();
        other.add(&FaultPlan::calm("podgc/b"), ["two".to_owned()]);
        other.add(&FaultPlan::calm("random/1"), ["one".to_owned(), "three".to_owned()]);
        coverage.merge(other);
        let of = |strategy: RunStrategy| (coverage.0[&strategy].runs, coverage.0[&strategy].marks.len());
        assert_eq!((of(RunStrategy::Reference), of(RunStrategy::Random)), ((2, 2), (1, 2)));
        assert_eq!((coverage.marks().len(), coverage.rules().len()), (3, 1));
        assert!(coverage.has("three") && !coverage.has("four"));
    }
}
