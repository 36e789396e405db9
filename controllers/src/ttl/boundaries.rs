//! How long kubelets may cache secrets and config maps, by cluster size. PURE.

/// A step of the table: it holds while the number of nodes is within `min..=max`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Boundary {
    /// Below this the step before holds.
    pub min: usize,
    /// Above this the next step holds.
    pub max: usize,
    /// The value for every node.
    pub ttl_seconds: i64,
}

/// The steps. They overlap, so that a cluster at a border does not flap (BR-19-06).
pub const BOUNDARIES: [Boundary; 5] = [
    Boundary { min: 0, max: 100, ttl_seconds: 0 },
    Boundary { min: 90, max: 500, ttl_seconds: 15 },
    Boundary { min: 450, max: 1000, ttl_seconds: 30 },
    Boundary { min: 900, max: 2000, ttl_seconds: 60 },
    Boundary { min: 1800, max: usize::MAX, ttl_seconds: 300 },
];

/// The number of nodes and the step it has led to.
///
/// The step depends on the way the number came about, which a restart forgets (T-014).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClusterSize {
    nodes: usize,
    step: usize,
}

impl ClusterSize {
    /// A node came: up by at most one step.
    pub fn add(&mut self) {
        self.nodes += 1;
        if self.nodes > BOUNDARIES[self.step].max {
            self.step += 1;
        }
    }

    /// A node went: down by at most one step.
    pub fn remove(&mut self) {
        self.nodes = self.nodes.saturating_sub(1);
        if self.nodes < BOUNDARIES[self.step].min {
            self.step -= 1;
        }
    }

    /// The value every node should carry.
    pub fn ttl_seconds(self) -> i64 {
        BOUNDARIES[self.step].ttl_seconds
    }
}
