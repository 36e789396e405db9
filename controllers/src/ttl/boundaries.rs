//! Computes how long kubelets may cache secrets and config maps from the cluster size. PURE.

/// A step of the table: it applies while the number of nodes is within `min..=max`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Boundary {
    /// Below this, the previous step applies.
    pub min: usize,
    /// Above this, the next step applies.
    pub max: usize,
    /// The annotation's value in seconds.
    pub ttl_seconds: i64,
}

/// The steps. They overlap, so that a cluster near a boundary does not flap (BR-19-06).
pub const BOUNDARIES: [Boundary; 5] = [
    Boundary { min: 0, max: 100, ttl_seconds: 0 },
    Boundary { min: 90, max: 500, ttl_seconds: 15 },
    Boundary { min: 450, max: 1000, ttl_seconds: 30 },
    Boundary { min: 900, max: 2000, ttl_seconds: 60 },
    Boundary { min: 1800, max: usize::MAX, ttl_seconds: 300 },
];

/// The number of nodes and the current step.
///
/// In an overlap, the step depends on the history of the number, which a restart loses (T-014).
///
/// ```
/// use plumbline_controllers::ttl::boundaries::ClusterSize;
///
/// let mut size = ClusterSize::default();
/// (0..101).for_each(|_| size.add());
/// assert_eq!(size.ttl_seconds(), 15);
/// size.remove();
/// assert_eq!(size.ttl_seconds(), 15, "the steps overlap");
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClusterSize {
    nodes: usize,
    step: usize,
}

impl ClusterSize {
    /// Counts an added node: up by at most one step.
    pub fn add(&mut self) {
        self.nodes += 1;
        if self.nodes > BOUNDARIES[self.step].max {
            self.step += 1;
        }
    }

    /// Counts a deleted node: down by at most one step.
    pub fn remove(&mut self) {
        self.nodes = self.nodes.saturating_sub(1);
        if self.nodes < BOUNDARIES[self.step].min {
            self.step -= 1;
        }
    }

    /// Returns the value that every node should have.
    pub fn ttl_seconds(self) -> i64 {
        BOUNDARIES[self.step].ttl_seconds
    }
}
