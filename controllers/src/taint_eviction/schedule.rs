//! Evictions that wait for their time, at most one per pod UID. PURE.
//!
//! ```text
//!             At(t)                 due at t
//!  nothing ───────────► waiting ─────────────► running ──► nothing
//!     │                    │ Keep, pod gone: cancelled       ▲
//!     │ Now                └─ Now: cancelled, then ──────────┤
//!     └──────────────────────────────────────────────────────┘
//! ```
//!
//! A waiting eviction keeps its first deadline whatever later taints or tolerations would give it
//! (N-017, N-080); that holds for changes at the same instant as well. Entries belong to a UID, so a pod
//! that takes over a name starts from nothing (N-082, N-083, N-084), and a running eviction cannot remove
//! another pod's entry (N-085).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::decide::EvictionPlan;
use crate::runtime::cache::ObjectKey;

/// One pod: its UID decides, its key is for finding and naming it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PodRef {
    /// `metadata.uid`
    pub uid: Arc<str>,
    /// Namespace and name.
    pub key: ObjectKey,
}

/// What a step did; the caller makes events and requests of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Step {
    /// A waiting or failing eviction was called off.
    pub cancelled: bool,
    /// The eviction must start now; it is booked as running.
    pub fire: bool,
}

/// An eviction whose time has come.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Due {
    /// The pod.
    pub pod: PodRef,
    /// When it was due: latency counts from here.
    pub fire_at: Timestamp,
}

/// All evictions that wait or run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Schedule {
    waiting: BTreeMap<Arc<str>, Due>,
    deadlines: BTreeSet<(Timestamp, Arc<str>)>,
    running: BTreeSet<Arc<str>>,
}

impl Schedule {
    /// Brings the entry of `pod` in line with `plan`. A deadline that has come already is [`Self::due`] at once.
    pub fn follow(&mut self, pod: &PodRef, plan: EvictionPlan) -> Step {
        match plan {
            EvictionPlan::Keep => Step { cancelled: self.cancel(&pod.uid), fire: false },
            EvictionPlan::Now => {
                if self.running.contains(&pod.uid) {
                    return Step::default();
                }
                let cancelled = self.cancel(&pod.uid);
                self.running.insert(Arc::clone(&pod.uid));
                Step { cancelled, fire: true }
            }
            EvictionPlan::At(_) if self.has(&pod.uid) => Step::default(),
            EvictionPlan::At(fire_at) => {
                self.deadlines.insert((fire_at, Arc::clone(&pod.uid)));
                self.waiting.insert(Arc::clone(&pod.uid), Due { pod: pod.clone(), fire_at });
                Step::default()
            }
        }
    }

    /// Calls off a waiting eviction and says whether there was one. A running one goes on.
    pub fn cancel(&mut self, uid: &str) -> bool {
        let Some(due) = self.waiting.remove(uid) else { return false };
        self.deadlines.remove(&(due.fire_at, due.pod.uid));
        true
    }

    /// Books the evictions whose time has come as running, earliest first.
    pub fn due(&mut self, now: Timestamp) -> Vec<Due> {
        let mut due = Vec::new();
        while let Some((fire_at, uid)) = self.deadlines.first().cloned() {
            if fire_at > now {
                break;
            }
            self.deadlines.pop_first();
            if let Some(eviction) = self.waiting.remove(&uid) {
                self.running.insert(uid);
                due.push(eviction);
            }
        }
        due
    }

    /// When the next eviction is due.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// A running eviction is over, whatever came of it.
    pub fn finish(&mut self, uid: &str) {
        self.running.remove(uid);
    }

    /// How many evictions wait or run.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn has(&self, uid: &str) -> bool {
        self.waiting.contains_key(uid) || self.running.contains(uid)
    }
}
