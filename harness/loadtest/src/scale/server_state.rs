//! The state of the server according to its watches, compared with the expected state. PURE.
//!
//! Every event updates a few counters; waiting only reads those.

use std::collections::BTreeMap;
use std::time::Duration;

use super::event::{BudgetNumbers, WatchEvent, WatchedKind};
use crate::bench::bodies;

/// Returns the expected status of an application's budget. Source: the API's description of
/// `PodDisruptionBudgetStatus`, for `maxUnavailable: 10%`, which rounds up.
pub(super) fn right_status(expected: i64, healthy: i64) -> BudgetNumbers {
    let unavailable = (expected + 9) / 10;
    let desired = (expected - unavailable).max(0);
    let allowed = if expected == 0 { 0 } else { (healthy - desired).max(0) };
    BudgetNumbers {
        expected_pods: Some(expected),
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        disruptions_allowed: Some(allowed),
        observed_generation: None,
    }
}

/// Expected deletion of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedDeletion {
    /// Its deletion must have begun.
    Begun,
    /// It must be gone.
    Gone,
}

/// Number of objects that are not as expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Remaining {
    /// Budgets with a wrong status, or a status of another generation.
    pub(super) budgets: usize,
    /// Nodes without the annotation of the ttl controller.
    pub(super) nodes: usize,
    /// Pods that should be gone.
    pub(super) pods: usize,
}

#[derive(Clone, Debug, Default)]
struct BudgetState {
    wanted: BudgetNumbers,
    wanted_generation: i64,
    seen: BudgetNumbers,
    generation: i64,
    right: bool,
    /// Time of the last change of its status.
    at: Duration,
}

impl BudgetState {
    fn judge(&mut self) {
        let observed =
            self.seen.observed_generation == Some(self.generation) && self.generation >= self.wanted_generation;
        self.right = observed && BudgetNumbers { observed_generation: None, ..self.seen } == self.wanted;
    }
}

/// The state of the server.
#[derive(Debug, Default)]
pub(super) struct ServerState {
    budgets: Vec<BudgetState>,
    annotated: Vec<bool>,
    going: BTreeMap<usize, ExpectedDeletion>,
    left: Remaining,
    /// Time at which the last expected deletion happened.
    pods_gone: Duration,
    /// Time at which `left` last decreased.
    progress: Duration,
}

impl ServerState {
    /// Creates the state before any of the budgets and nodes was seen.
    pub(super) fn new(budgets: usize, nodes: usize) -> Self {
        Self {
            budgets: vec![BudgetState::default(); budgets],
            annotated: vec![false; nodes],
            left: Remaining { budgets, nodes, pods: 0 },
            ..Self::default()
        }
    }

    /// Returns the number of objects that are not as expected.
    pub(super) fn left(&self) -> Remaining {
        self.left
    }

    /// Returns the time of the last progress.
    pub(super) fn progress(&self) -> Duration {
        self.progress
    }

    /// Returns the time at which the last expected deletion happened.
    pub(super) fn pods_gone(&self) -> Duration {
        self.pods_gone
    }

    /// Expects the status of an application's budget to describe this generation or a later one.
    pub(super) fn expect_generation(&mut self, app: usize, generation: i64) {
        self.change(app, |budget| budget.wanted_generation = generation);
    }

    /// Returns the time at which the status of an application's budget last changed, if it is correct.
    pub(super) fn right_since(&self, app: usize) -> Option<Duration> {
        self.budgets.get(app).filter(|budget| budget.right).map(|budget| budget.at)
    }

    /// Expects an application's budget to report `expected` pods, `healthy` of them healthy.
    pub(super) fn expect(&mut self, app: usize, expected: i64, healthy: i64) {
        self.change(app, |budget| budget.wanted = right_status(expected, healthy));
    }

    /// Expects these pods to go.
    pub(super) fn expect_to_go(&mut self, pods: impl IntoIterator<Item = usize>, how: ExpectedDeletion) {
        self.going.extend(pods.into_iter().map(|pod| (pod, how)));
        self.left.pods = self.going.len();
    }

    /// Stops to count a node because it is gone.
    pub(super) fn forget_node(&mut self, node: usize) {
        self.annotate(node);
    }

    /// Processes an event that arrived at `now`.
    pub(super) fn take(&mut self, kind: WatchedKind, event: &WatchEvent<'_>, now: Duration) {
        let before = self.left;
        let metadata = &event.object.metadata;
        match kind {
            WatchedKind::Budgets => {
                let Some(app) = bodies::app_number(&metadata.name) else { return };
                let status = event.object.status.unwrap_or_default();
                let generation = metadata.generation.unwrap_or_default();
                self.change(app, |budget| {
                    if budget.seen != status {
                        budget.at = now;
                    }
                    budget.seen = status;
                    budget.generation = generation;
                });
            }
            WatchedKind::Nodes => {
                if metadata.annotations.as_ref().is_some_and(|annotations| annotations.ttl.is_some())
                    && let Some(node) = bodies::node_number(&metadata.name)
                {
                    self.annotate(node);
                }
            }
            WatchedKind::Pods => {
                let Some(pod) = bodies::pod_number(&metadata.name) else { return };
                let gone = event.kind == "DELETED";
                let begun = gone || metadata.deletion_timestamp.is_some();
                let done =
                    self.going.get(&pod).is_some_and(|how| if *how == ExpectedDeletion::Gone { gone } else { begun });
                if done {
                    self.going.remove(&pod);
                    self.left.pods = self.going.len();
                    self.pods_gone = now;
                }
            }
        }
        self.progressed(before, now);
    }

    /// Processes a list of all pods that arrived at `now`: the existing pods, with true if their deletion has begun.
    pub(super) fn pods_are(&mut self, present: &BTreeMap<usize, bool>, now: Duration) {
        let before = self.left;
        self.going.retain(|pod, how| match present.get(pod) {
            Some(begun) => *how == ExpectedDeletion::Gone || !begun,
            None => false,
        });
        self.left.pods = self.going.len();
        if self.left.pods < before.pods {
            self.pods_gone = now;
        }
        self.progressed(before, now);
    }

    fn progressed(&mut self, before: Remaining, now: Duration) {
        let Remaining { budgets, nodes, pods } = self.left;
        if budgets < before.budgets || nodes < before.nodes || pods < before.pods {
            self.progress = now;
        }
    }

    fn annotate(&mut self, node: usize) {
        if let Some(annotated) = self.annotated.get_mut(node)
            && !std::mem::replace(annotated, true)
        {
            self.left.nodes -= 1;
        }
    }

    fn change(&mut self, app: usize, change: impl FnOnce(&mut BudgetState)) {
        let Some(budget) = self.budgets.get_mut(app) else { return };
        let before = budget.right;
        change(budget);
        budget.judge();
        match (before, budget.right) {
            (false, true) => self.left.budgets -= 1,
            (true, false) => self.left.budgets += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::issue(50, 50, (45, 5))]
    #[case::rounded_up(3, 3, (2, 1))]
    #[case::one_is_missing(50, 49, (45, 4))]
    #[case::too_many_are_missing(50, 44, (45, 0))]
    #[case::none(0, 0, (0, 0))]
    fn statuses(#[case] expected: i64, #[case] healthy: i64, #[case] wanted: (i64, i64)) {
        let status = right_status(expected, healthy);
        assert_eq!((status.desired_healthy, status.disruptions_allowed), (Some(wanted.0), Some(wanted.1)));
        assert_eq!((status.expected_pods, status.current_healthy), (Some(expected), Some(healthy)));
    }

    fn take(state: &mut ServerState, kind: WatchedKind, at: u64, line: &str) -> Remaining {
        state.take(kind, &serde_json::from_str(line).unwrap(), Duration::from_secs(at));
        state.left()
    }

    fn budget(generation: i64, observed: i64, healthy: i64) -> String {
        format!(
            r#"{{"type":"MODIFIED","object":{{"metadata":{{"name":"shop-00001","generation":{generation}}},"status":{{"observedGeneration":{observed},"currentHealthy":{healthy},"desiredHealthy":2,"expectedPods":3,"disruptionsAllowed":{},"conditions":[]}}}}}}"#,
            (healthy - 2).max(0)
        )
    }

    #[test]
    fn budgets_are_right_when_numbers_and_generation_are() {
        let mut state = ServerState::new(2, 0);
        state.expect(1, 3, 3);
        assert_eq!(state.left().budgets, 2);
        assert_eq!(take(&mut state, WatchedKind::Budgets, 1, &budget(2, 1, 3)).budgets, 2, "about an older generation");
        assert_eq!(take(&mut state, WatchedKind::Budgets, 2, &budget(2, 2, 2)).budgets, 2, "another number");
        assert_eq!(take(&mut state, WatchedKind::Budgets, 3, &budget(2, 2, 3)).budgets, 1);
        assert_eq!(
            (state.progress(), state.right_since(1), state.right_since(0)),
            (Duration::from_secs(3), Some(Duration::from_secs(3)), None)
        );
        state.expect_generation(1, 3);
        assert_eq!(state.left().budgets, 2, "generation 3 is on its way");
        assert_eq!(take(&mut state, WatchedKind::Budgets, 3, &budget(3, 3, 3)).budgets, 1);
        state.expect(1, 3, 2);
        assert_eq!((state.left().budgets, state.right_since(1)), (2, None), "what was right is not any more");
        assert_eq!(take(&mut state, WatchedKind::Budgets, 4, &budget(3, 3, 2)).budgets, 1);
        assert_eq!(
            take(&mut state, WatchedKind::Budgets, 5, r#"{"type":"ADDED","object":{"metadata":{"name":"foreign"}}}"#)
                .budgets,
            1
        );
    }

    #[test]
    fn nodes_count_once() {
        let mut state = ServerState::new(0, 3);
        let node = |ttl: &str| {
            format!(
                r#"{{"type":"MODIFIED","object":{{"metadata":{{"name":"{}","annotations":{{"a":"b"{ttl}}}}},"status":{{}}}}}}"#,
                bodies::node_name(1)
            )
        };
        assert_eq!(take(&mut state, WatchedKind::Nodes, 1, &node("")).nodes, 3);
        for at in 2..4 {
            assert_eq!(
                take(&mut state, WatchedKind::Nodes, at, &node(r#","node.alpha.kubernetes.io/ttl":"300""#)).nodes,
                2
            );
        }
        assert_eq!(state.progress(), Duration::from_secs(2));
        state.forget_node(0);
        assert_eq!(state.left().nodes, 1);
    }

    #[test]
    fn a_list_tells_who_has_gone() {
        let mut state = ServerState::new(0, 0);
        state.expect_to_go([1, 2], ExpectedDeletion::Gone);
        state.expect_to_go([3, 4, 5], ExpectedDeletion::Begun);
        state.pods_are(&BTreeMap::from([(1, true), (3, true), (4, false)]), Duration::from_secs(3));
        assert_eq!(state.going, BTreeMap::from([(1, ExpectedDeletion::Gone), (4, ExpectedDeletion::Begun)]));
        assert_eq!(
            (state.left().pods, state.pods_gone(), state.progress()),
            (2, Duration::from_secs(3), Duration::from_secs(3))
        );
        state.pods_are(&BTreeMap::from([(1, true), (4, false)]), Duration::from_secs(4));
        assert_eq!((state.left().pods, state.pods_gone()), (2, Duration::from_secs(3)), "nothing new");
    }

    #[rstest]
    #[case(ExpectedDeletion::Begun, [2, 1, 1])]
    #[case(ExpectedDeletion::Gone, [2, 2, 1])]
    fn pods_go(#[case] how: ExpectedDeletion, #[case] left: [usize; 3]) {
        let mut state = ServerState::new(0, 0);
        state.expect_to_go([7, 8], how);
        let event = |kind: &str, more: &str| {
            format!(
                r#"{{"type":"{kind}","object":{{"metadata":{{"name":"{}"{more}}}}}}}"#,
                bodies::pod_name("shop-00000", 7)
            )
        };
        let deleted = r#","deletionTimestamp":"2026-01-01T00:00:00Z""#;
        let described = [event("MODIFIED", ""), event("MODIFIED", deleted), event("DELETED", deleted)];
        assert_eq!([0, 1, 2].map(|at| take(&mut state, WatchedKind::Pods, 1, &described[at]).pods), left);
    }
}
