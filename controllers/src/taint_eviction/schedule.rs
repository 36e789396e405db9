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
    /// When it was due, on the monotonic clock: latency counts from here.
    pub fire_at: Duration,
}

/// All evictions that wait or run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Schedule {
    waiting: BTreeMap<Arc<str>, Waiting>,
    deadlines: BTreeSet<(Duration, Arc<str>)>,
    running: BTreeMap<Arc<str>, Running>,
}

/// What the node's taints are known from, when a plan is made of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Known {
    /// From news of the node: whoever bound the pod before cannot have known it.
    New,
    /// From before the pod was there. Who bound it may know better: the taint may have gone since.
    Before,
}

/// An eviction that waits for its time.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Waiting {
    due: Due,
    known: Known,
}

/// An eviction whose time has come, until it is done or called off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Running {
    fire_at: Duration,
    stage: Stage,
    known: Known,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
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
    pub fn follow(&mut self, pod: &PodRef, (plan, known): (EvictionPlan, Known), now: Duration) -> Step {
        match plan {
            EvictionPlan::Keep => {
                // Whether a try under way succeeds is not known yet: its end says what became of the pod.
                let idle = self.running.remove(&pod.uid).is_some_and(|running| running.stage != Stage::Trying);
                Step { cancelled: self.cancel(&pod.uid) || idle, fire: false }
            }
            EvictionPlan::Now => {
                if self.running.contains_key(&pod.uid) {
                    return Step::default();
                }
                // The pod was there before this news if its countdown was.
                let known = self.waiting.get(&pod.uid).map_or(known, |waiting| waiting.known);
                let cancelled = self.cancel(&pod.uid);
                self.running.insert(Arc::clone(&pod.uid), Running { fire_at: now, stage: Stage::Fired, known });
                Step { cancelled, fire: true }
            }
            EvictionPlan::After(_) if self.has(&pod.uid) => Step::default(),
            EvictionPlan::After(time) => {
                let fire_at = now.saturating_add(time);
                self.deadlines.insert((fire_at, Arc::clone(&pod.uid)));
                let due = Due { pod: pod.clone(), fire_at };
                self.waiting.insert(Arc::clone(&pod.uid), Waiting { due, known });
                Step::default()
            }
        }
    }

    /// The pod is gone. An eviction that no try was made of is cancelled; after a try it went as announced.
    pub fn gone(&mut self, uid: &str) -> Step {
        let untried = self.running.remove(uid).is_some_and(|running| running.stage == Stage::Fired);
        Step { cancelled: self.cancel(uid) || untried, fire: false }
    }

    /// Calls off a waiting eviction and says whether there was one.
    fn cancel(&mut self, uid: &str) -> bool {
        let Some(Waiting { due, .. }) = self.waiting.remove(uid) else { return false };
        self.deadlines.remove(&(due.fire_at, due.pod.uid));
        true
    }

    /// Books the evictions whose time has come as running, earliest first.
    pub fn due(&mut self, now: Duration) -> Vec<Due> {
        let mut due = Vec::new();
        while let Some((fire_at, uid)) = self.deadlines.first().cloned() {
            if fire_at > now {
                break;
            }
            self.deadlines.pop_first();
            if let Some(waiting) = self.waiting.remove(&uid) {
                self.running.insert(uid, Running { fire_at, stage: Stage::Fired, known: waiting.known });
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
    pub fn begin(&mut self, due: &Due) -> Option<Known> {
        self.stage(due, Stage::Trying)
    }

    /// A try failed, the next one waits. Says whether there is to be one: not if the eviction was called off meanwhile.
    pub fn fail(&mut self, due: &Due) -> bool {
        self.stage(due, Stage::Failing).is_some()
    }

    /// Whether the eviction is still wanted: not if it was called off since it fired.
    pub fn runs(&self, due: &Due) -> bool {
        self.running.get(&due.pod.uid).is_some_and(|running| running.fire_at == due.fire_at)
    }

    fn stage(&mut self, due: &Due, stage: Stage) -> Option<Known> {
        let running = self.running.get_mut(&due.pod.uid).filter(|running| running.fire_at == due.fire_at)?;
        running.stage = stage;
        Some(running.known)
    }

    /// A running eviction is over, whatever came of it. One that the pod got since then stays.
    pub fn finish(&mut self, due: &Due) {
        if self.runs(due) {
            self.running.remove(&due.pod.uid);
        }
    }

    /// How many evictions wait or run.
    pub fn count(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    fn has(&self, uid: &str) -> bool {
        self.waiting.contains_key(uid) || self.running.contains_key(uid)
    }
}
