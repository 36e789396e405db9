//! The kinds of fault that an exploration has met. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::candidates::Candidates;
use super::job::PlannedFault;

/// The plans with a kind of fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultCount {
    /// Plans of the strategy.
    pub planned: usize,
    /// Those that were tried.
    pub tried: usize,
    /// Those whose faults came to their points.
    pub met: usize,
    /// Plans that were left out because another one has the same run.
    pub equal: usize,
}

/// The plans by kind of fault; kinds that no point suits have none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FaultCoverage(BTreeMap<&'static str, FaultCount>);

impl FaultCoverage {
    /// Counts plans, and those that were left out.
    #[must_use]
    pub fn new(candidates: &Candidates, plans: &[Vec<PlannedFault>]) -> Self {
        let mut coverage = Self::default();
        for (kind, equal) in &candidates.left_out {
            coverage.0.entry(kind).or_default().equal = *equal;
        }
        for plan in plans {
            coverage.count(plan, |count| count.planned += 1);
        }
        coverage
    }

    /// Counts a plan that was tried; `met`: its faults came to their points.
    pub fn add(&mut self, plan: &[PlannedFault], met: bool) {
        self.count(plan, |count| {
            count.tried += 1;
            count.met += usize::from(met);
        });
    }

    fn count(&mut self, plan: &[PlannedFault], add: impl Fn(&mut FaultCount)) {
        let kinds: BTreeSet<&'static str> = plan.iter().map(|(fault, _)| fault.name()).collect();
        for kind in kinds {
            add(self.0.entry(kind).or_default());
        }
    }

    /// Returns the kinds of fault that no run has met, by the reason.
    #[must_use]
    pub fn unmet(&self) -> BTreeMap<&'static str, Vec<&'static str>> {
        let mut unmet: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (kind, count) in self.0.iter().filter(|(_, count)| count.met == 0) {
            let why = match count {
                FaultCount { tried: 1.., .. } => "their points did not come again",
                FaultCount { planned: 1.., .. } => "not tried",
                FaultCount { equal: 1.., .. } => "the same runs as those of other faults",
                _ => "no request or event suits them",
            };
            unmet.entry(why).or_default().push(kind);
        }
        unmet
    }

    /// Returns the number of kinds, and of those that a run has met.
    #[must_use]
    pub fn kinds(&self) -> (usize, usize) {
        (self.0.len(), self.0.values().filter(|count| count.met > 0).count())
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidates::{FaultProfile, candidates};
    use super::super::job::Point;
    use super::*;

    fn point(verb: &str) -> Point {
        Point {
            verb: verb.to_owned(),
            plural: "pods".to_owned(),
            version: "v1".to_owned(),
            namespaced: true,
            name: "a".to_owned(),
            occurrence: 1,
            after: 1,
            ..Point::default()
        }
    }

    #[test]
    fn kinds_of_fault_that_no_run_has_met_have_a_reason() {
        let found = candidates(&[point("PUT")], 1, FaultProfile::All);
        let plans: Vec<Vec<PlannedFault>> = found.plans.iter().map(|fault| vec![fault.clone()]).collect();
        let mut coverage = FaultCoverage::new(&found, &plans);
        let plan = |kind: &str| plans.iter().find(|plan| plan[0].0.name() == kind).expect("a plan");
        coverage.add(plan("500"), true);
        coverage.add(plan("409"), false);
        let unmet = coverage.unmet();
        let why = |kind: &str| unmet.iter().find(|(_, kinds)| kinds.contains(&kind)).map(|(why, _)| *why);
        assert_eq!(why("500"), None);
        assert_eq!(why("409"), Some("their points did not come again"));
        assert_eq!(why("lost-reply"), Some("not tried"));
        assert_eq!(why("hold-30s"), Some("no request or event suits them"), "there is no event");
        assert_eq!(coverage.kinds().1, 1);
        assert!(why("order-2").is_none() && why("clock-ahead-10m").is_none(), "they are not for programs");

        // A second crash before the same state of the world has the same run.
        let found = candidates(&[point("PUT"), Point { occurrence: 2, ..point("PUT") }], 1, FaultProfile::All);
        let none = FaultCoverage::new(&found, &[]);
        assert!(none.unmet()["the same runs as those of other faults"].contains(&"crash-before"));
    }
}
