//! Pending and running evictions, at most one per pod UID. PURE.
//!
//! ```text
//!            After(t)             t has passed              done
//!  nothing ───────────► waiting ─────────────► running ──────────► nothing
//!     │                    │ Keep, pod gone: cancelled  ▲    │ failed
//!     │ Now                └─ Now: cancelled, then ─────┤    ▼
//!     └─────────────────────────────────────────────────┘  failing ── Keep: cancelled; pod gone ─► nothing
//! ```
//!
//! An eviction that is cancelled after its deadline ends with its current attempt, or at once if there is none. A later
//! taint starts a new countdown.
//!
//! A waiting eviction keeps its first deadline, even if later taints or tolerations would give another one (N-017,
//! N-080), also for changes at the same instant. Entries belong to a UID, so a pod that reuses a name starts from
//! nothing (N-082, N-083, N-084), and a running eviction cannot remove another pod's entry (N-085).
//!
//! Times are [`crate::runtime::clock::Clock::monotonic`]'s, so that a step of the system clock does not shorten or
//! lengthen a countdown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::decide::EvictionPlan;
use crate::api::object_key::ObjectKey;

/// A pod: identified by its UID; the key is for lookups and messages.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PodRef {
    /// `metadata.uid`
    pub uid: Arc<str>,
    /// Namespace and name.
    pub key: ObjectKey,
}

/// The effect of an operation, from which the caller derives events and requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Transition {
    /// A waiting or failing eviction was cancelled.
    pub cancelled: bool,
    /// The eviction must start now; it is recorded as running.
    pub fire: bool,
}

/// An eviction whose deadline has passed.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct DueEviction {
    /// The pod.
    pub pod: PodRef,
    /// The deadline on the monotonic clock, from which the latency is measured.
    pub fire_at: Duration,
}

/// All waiting and running evictions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Schedule {
    waiting: BTreeMap<Arc<str>, PendingEviction>,
    deadlines: BTreeSet<(Duration, Arc<str>)>,
    running: BTreeMap<Arc<str>, InFlight>,
    /// UIDs of pods that an attempt has written, until they are gone: the cache may not show it yet.
    written: BTreeSet<Arc<str>>,
}

/// The origin of the taints from which a plan was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaintSource {
    /// From a node update: the scheduler cannot have known the taint when it bound the pod.
    NodeUpdate,
    /// Before the pod was bound. The scheduler may have newer information: the taint may have been removed since.
    AlreadyKnown,
}

/// An eviction before its deadline.
#[derive(Clone, Debug, Eq, PartialEq)]
struct PendingEviction {
    due: DueEviction,
    source: TaintSource,
}

/// An eviction after its deadline, until it is done or cancelled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct InFlight {
    fire_at: Duration,
    phase: EvictionPhase,
    source: TaintSource,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum EvictionPhase {
    /// No worker has started it yet.
    Fired,
    /// An attempt is in progress.
    Trying,
    /// An attempt failed and the next one waits for its back-off.
    Failing,
}

impl Schedule {
    /// Updates the entry of `pod` according to `plan` at `now`. A deadline that has passed already is returned by the
    /// next [`Self::take_due`]. The first taint source of an eviction is kept.
    pub fn apply_plan(
        &mut self,
        pod: &PodRef,
        (plan, source): (EvictionPlan, TaintSource),
        now: Duration,
    ) -> Transition {
        match plan {
            EvictionPlan::Keep => {
                // The result of an attempt in progress is not known yet; its end will report it.
                let idle = self.running.remove(&pod.uid).is_some_and(|running| running.phase != EvictionPhase::Trying);
                Transition { cancelled: self.cancel(&pod.uid) || idle, fire: false }
            }
            EvictionPlan::Now => {
                if self.running.contains_key(&pod.uid) {
                    return Transition::default();
                }
                // If the countdown exists, the pod was there before this update.
                let source = self.waiting.get(&pod.uid).map_or(source, |waiting| waiting.source);
                let cancelled = self.cancel(&pod.uid);
                self.running
                    .insert(Arc::clone(&pod.uid), InFlight { fire_at: now, phase: EvictionPhase::Fired, source });
                Transition { cancelled, fire: true }
            }
            EvictionPlan::After(_) if self.contains(&pod.uid) => Transition::default(),
            EvictionPlan::After(time) => {
                let fire_at = now.saturating_add(time);
                self.deadlines.insert((fire_at, Arc::clone(&pod.uid)));
                let due = DueEviction { pod: pod.clone(), fire_at };
                self.waiting.insert(Arc::clone(&pod.uid), PendingEviction { due, source });
                Transition::default()
            }
        }
    }

    /// Handles a deleted pod. An eviction without an attempt is cancelled; after an attempt the pod was evicted as
    /// announced.
    pub fn pod_deleted(&mut self, uid: &str) -> Transition {
        self.written.remove(uid);
        let untried = self.running.remove(uid).is_some_and(|running| running.phase == EvictionPhase::Fired);
        Transition { cancelled: self.cancel(uid) || untried, fire: false }
    }

    /// Cancels a waiting eviction; returns true if there was one.
    fn cancel(&mut self, uid: &str) -> bool {
        let Some(PendingEviction { due, .. }) = self.waiting.remove(uid) else { return false };
        self.deadlines.remove(&(due.fire_at, due.pod.uid));
        true
    }

    /// Records the evictions whose deadline has passed as running and returns them, earliest first.
    pub fn take_due(&mut self, now: Duration) -> Vec<DueEviction> {
        let mut due = Vec::new();
        while let Some((fire_at, uid)) = self.deadlines.first().cloned() {
            if fire_at > now {
                break;
            }
            self.deadlines.pop_first();
            if let Some(waiting) = self.waiting.remove(&uid) {
                self.running.insert(uid, InFlight { fire_at, phase: EvictionPhase::Fired, source: waiting.source });
                due.push(waiting.due);
            }
        }
        due
    }

    /// Returns the next deadline on the monotonic clock.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Starts an attempt. Returns the taint source, or `None` if the eviction was cancelled after its deadline.
    pub fn start_attempt(&mut self, due: &DueEviction) -> Option<TaintSource> {
        self.set_phase(due, EvictionPhase::Trying)
    }

    /// Records a failed attempt. Returns true if there will be another one: not if the eviction was cancelled in the
    /// meantime.
    pub fn fail_attempt(&mut self, due: &DueEviction) -> bool {
        self.set_phase(due, EvictionPhase::Failing).is_some()
    }

    /// Records that the attempt writes to its pod next. Returns false if the eviction was cancelled in the meantime:
    /// then nothing may be written.
    pub fn begin_write(&mut self, due: &DueEviction) -> bool {
        let runs = self.is_running(due);
        if runs {
            self.written.insert(Arc::clone(&due.pod.uid));
        }
        runs
    }

    /// Returns true if an attempt has written to the pod of this UID.
    pub fn is_written(&self, uid: &str) -> bool {
        self.written.contains(uid)
    }

    /// Returns true if the eviction was not cancelled after its deadline.
    pub fn is_running(&self, due: &DueEviction) -> bool {
        self.running.get(&due.pod.uid).is_some_and(|running| running.fire_at == due.fire_at)
    }

    fn set_phase(&mut self, due: &DueEviction, phase: EvictionPhase) -> Option<TaintSource> {
        let running = self.running.get_mut(&due.pod.uid).filter(|running| running.fire_at == due.fire_at)?;
        running.phase = phase;
        Some(running.source)
    }

    /// Ends a running eviction, with any result. An eviction that the pod got since then is kept.
    pub fn finish(&mut self, due: &DueEviction) {
        if self.is_running(due) {
            self.running.remove(&due.pod.uid);
        }
    }

    /// Returns the number of waiting and running evictions.
    pub fn count(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    fn contains(&self, uid: &str) -> bool {
        self.waiting.contains_key(uid) || self.running.contains_key(uid)
    }
}
