//! The expected content of the cluster: pods, their nodes and applications. PURE.

use std::collections::BTreeSet;

use crate::bench::bodies::{LoadSpec, PODS_MAX};

/// The pods of a world, as changed by scenarios.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// The mapping of numbers to applications and nodes.
    pub(super) world: LoadSpec,
    alive: BTreeSet<usize>,
    /// The number of the next pod of each application, in units of the number of applications.
    next: Vec<usize>,
    /// Nodes that receive no new pods.
    closed: BTreeSet<usize>,
}

impl Model {
    /// Creates a model with all pods of the world.
    pub(super) fn new(world: LoadSpec) -> Self {
        let next = vec![world.pods.div_ceil(world.apps.max(1)); world.apps];
        Self { world, alive: (0..world.pods).collect(), next, closed: BTreeSet::new() }
    }

    /// Returns `share` percent of `of`, but at least one.
    pub(super) fn part(of: usize, share: usize) -> usize {
        (of * share / 100).clamp(1, of.max(1))
    }

    /// Returns the pods on these nodes, ordered by node.
    pub(super) fn pods_on(&self, nodes: &[usize]) -> Vec<usize> {
        let mut pods: Vec<usize> =
            self.alive.iter().copied().filter(|pod| nodes.contains(&self.world.place(*pod).1)).collect();
        pods.sort_by_key(|pod| (self.world.place(*pod).1, *pod));
        pods
    }

    /// Returns the pods of an application, oldest first.
    pub(super) fn pods_of(&self, app: usize) -> Vec<usize> {
        (app..PODS_MAX).step_by(self.world.apps).take(self.next[app]).filter(|pod| self.alive.contains(pod)).collect()
    }

    /// Returns the number of pods that the application's replica set wants, and the number it has.
    pub(super) fn counts(&self, app: usize) -> (i64, i64) {
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        (whole(self.world.pods_of(app)), whole(self.pods_of(app).len()))
    }

    /// Excludes these nodes from placement.
    pub(super) fn close(&mut self, nodes: &[usize]) {
        self.closed.extend(nodes);
    }

    /// Removes pods.
    pub(super) fn remove<'a>(&mut self, pods: impl IntoIterator<Item = &'a usize>) {
        for pod in pods {
            self.alive.remove(pod);
        }
    }

    /// Adds a pod to an application; `None` when all numbers or nodes are used up.
    pub(super) fn add(&mut self, app: usize) -> Option<usize> {
        loop {
            let next = self.next.get_mut(app)?;
            let pod = *next * self.world.apps + app;
            if pod >= PODS_MAX || self.closed.len() >= self.world.nodes {
                return None;
            }
            *next += 1;
            if !self.closed.contains(&self.world.place(pod).1) {
                self.alive.insert(pod);
                return Some(pod);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        Model::new(LoadSpec { nodes: 5, apps: 3, pods: 12, namespaces: 2, budget: "", annotated: false })
    }

    #[test]
    fn pods_come_and_go() {
        let mut model = model();
        assert_eq!((model.pods_of(1), model.counts(1)), (vec![1, 4, 7, 10], (4, 4)));
        model.remove(&[4]);
        assert_eq!(model.counts(1), (4, 3));
        assert_eq!(model.add(1), Some(13));
        assert_eq!((model.pods_of(1), model.counts(1)), (vec![1, 7, 10, 13], (4, 4)));
        assert_eq!(model.pods_on(&[2]), [2, 9, 13]);
        assert_eq!(model.pods_on(&[1, 0]), [0, 8, 1, 5], "node after node");
    }

    #[test]
    fn closed_nodes_get_nothing_new() {
        let mut model = model();
        model.close(&[2]);
        assert_eq!(model.add(1), Some(16), "13 would be on node 2");
        model.close(&[0, 1, 3, 4]);
        assert_eq!(model.add(1), None);
    }

    #[test]
    fn shares_are_at_least_one() {
        assert_eq!([Model::part(5000, 10), Model::part(20, 1), Model::part(3, 100)], [500, 1, 3]);
    }
}
