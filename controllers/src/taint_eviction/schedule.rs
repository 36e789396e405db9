//! Evictions that wait for their time, at most one per pod UID. PURE.
//!
//! ```text
//!            After(t)             t has passed              done
//!  nothing ───────────► waiting ─────────────► running ──────────► nothing
//!     │                    │ Keep, pod gone: cancelled  ▲    │ failed
//!     │ Now                └─ Now: cancelled, then ─────┤    ▼
//!     └─────────────────────────────────────────────────┘  failing ── Keep: cancelled; pod gone ─► nothing
//! ```
//!
//! An eviction that is called off after its time has come ends with the try it is in, at once if there is
//! none; what comes after that counts from nothing: a new taint gives the pod a new time.
//!
//! A waiting eviction keeps its first deadline whatever later taints or tolerations would give it
//! (N-017, N-080); that holds for changes at the same instant as well. Entries belong to a UID, so a pod
//! that takes over a name starts from nothing (N-082, N-083, N-084), and a running eviction cannot remove
//! another pod's entry (N-085).
//!
//! Times are [`crate::runtime::clock::Clock::monotonic`]'s: a countdown is only waited for, so that no step of the system's
//! clock may shorten or lengthen it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::decide::EvictionPlan;
use crate::api::object_key::ObjectKey;

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
pub struct Transition {
    /// A waiting or failing eviction was called off.
    pub cancelled: bool,
    /// The eviction must start now; it is booked as running.
    pub fire: bool,
}

/// An eviction whose time has come.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct DueEviction {
    /// The pod.
    pub pod: PodRef,
    /// When it was due, on the monotonic clock: latency counts from here.
    pub fire_at: Duration,
}

/// All evictions that wait or run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Schedule {
    waiting: BTreeMap<Arc<str>, PendingEviction>,
    deadlines: BTreeSet<(Duration, Arc<str>)>,
    running: BTreeMap<Arc<str>, InFlight>,
}

/// What the node's taints are known from, when a plan is made of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaintSource {
    /// From news of the node: whoever bound the pod before cannot have known it.
    NodeUpdate,
    /// From before the pod was there. Who bound it may know better: the taint may have gone since.
    AlreadyKnown,
}

/// An eviction that waits for its time.
#[derive(Clone, Debug, Eq, PartialEq)]
struct PendingEviction {
    due: DueEviction,
    source: TaintSource,
}

/// An eviction whose time has come, until it is done or called off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct InFlight {
    fire_at: Duration,
    phase: EvictionPhase,
    source: TaintSource,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum EvictionPhase {
    /// No worker has taken it up yet.
    Fired,
    /// A try is under way.
    Trying,
    /// A try failed and the next one waits for its back-off.
    Failing,
}

impl Schedule {
    /// Brings the entry of `pod` in line with `plan` as of `now`. A deadline that has come already is [`Self::due`] at once.
    /// What was known when the eviction was planned first holds for it.
    pub fn apply_plan(
        &mut self,
        pod: &PodRef,
        (plan, source): (EvictionPlan, TaintSource),
        now: Duration,
    ) -> Transition {
        match plan {
            EvictionPlan::Keep => {
                // Whether a try under way succeeds is not known yet: its end says what became of the pod.
                let idle = self.running.remove(&pod.uid).is_some_and(|running| running.phase != EvictionPhase::Trying);
                Transition { cancelled: self.cancel(&pod.uid) || idle, fire: false }
            }
            EvictionPlan::Now => {
                if self.running.contains_key(&pod.uid) {
                    return Transition::default();
                }
                // The pod was there before this news if its countdown was.
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

    /// The pod is gone. An eviction that no try was made of is cancelled; after a try it went as announced.
    pub fn pod_deleted(&mut self, uid: &str) -> Transition {
        let untried = self.running.remove(uid).is_some_and(|running| running.phase == EvictionPhase::Fired);
        Transition { cancelled: self.cancel(uid) || untried, fire: false }
    }

    /// Calls off a waiting eviction and says whether there was one.
    fn cancel(&mut self, uid: &str) -> bool {
        let Some(PendingEviction { due, .. }) = self.waiting.remove(uid) else { return false };
        self.deadlines.remove(&(due.fire_at, due.pod.uid));
        true
    }

    /// Books the evictions whose time has come as running, earliest first.
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

    /// When the next eviction is due, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// A try starts. Says what was known when it was planned, or that it is not to be made: the eviction was called off since it
    /// fired.
    pub fn start_attempt(&mut self, due: &DueEviction) -> Option<TaintSource> {
        self.set_phase(due, EvictionPhase::Trying)
    }

    /// A try failed, the next one waits. Says whether there is to be one: not if the eviction was called off meanwhile.
    pub fn fail_attempt(&mut self, due: &DueEviction) -> bool {
        self.set_phase(due, EvictionPhase::Failing).is_some()
    }

    /// Whether the eviction is still wanted: not if it was called off since it fired.
    pub fn is_running(&self, due: &DueEviction) -> bool {
        self.running.get(&due.pod.uid).is_some_and(|running| running.fire_at == due.fire_at)
    }

    fn set_phase(&mut self, due: &DueEviction, phase: EvictionPhase) -> Option<TaintSource> {
        let running = self.running.get_mut(&due.pod.uid).filter(|running| running.fire_at == due.fire_at)?;
        running.phase = phase;
        Some(running.source)
    }

    /// A running eviction is over, whatever came of it. One that the pod got since then stays.
    pub fn finish(&mut self, due: &DueEviction) {
        if self.is_running(due) {
            self.running.remove(&due.pod.uid);
        }
    }

    /// How many evictions wait or run.
    pub fn count(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    fn contains(&self, uid: &str) -> bool {
        self.waiting.contains_key(uid) || self.running.contains_key(uid)
    }
}
