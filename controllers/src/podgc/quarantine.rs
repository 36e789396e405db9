//! The quarantine of unknown nodes before they are read from the API server. PURE.
//!
//! The states of a node name:
//!
//! ```text
//!            observe             release (40 s later)            take
//!  unknown ──────────► waiting ─────────────────────► released ───────► read once
//!                         ▲                              │ observe: waits a second time as well
//!                         └──────────────────────────────┘
//! ```
//!
//! As in upstream's delaying queue, a waiting name keeps its first deadline no matter how often it is observed (G-038),
//! and nothing removes a name early, not even the return of the node (G-035). The cycle that takes a released name has
//! observed it again before, so the name waits once more: if the live GET or a deletion fails, the node is read again
//! 40 s later (G-037).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::QUARANTINE_TIME;

/// Names in quarantine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Quarantine {
    /// Deadlines by name, on the monotonic clock.
    waiting: BTreeMap<String, Duration>,
    released: Vec<String>,
}

impl Quarantine {
    /// Puts an unknown node into quarantine at monotonic time `now`, unless it is waiting already.
    pub fn observe(&mut self, name: &str, now: Duration) {
        if self.waiting.contains_key(name) {
            return;
        }
        let deadline = now.saturating_add(QUARANTINE_TIME);
        self.waiting.insert(name.to_owned(), deadline);
    }

    /// Releases the names whose deadline has passed, earliest deadline first, ties by name. Returns their deadlines.
    pub fn release(&mut self, now: Duration) -> Vec<Duration> {
        let mut due: Vec<_> = self.waiting.extract_if(.., |_, deadline| *deadline <= now).collect();
        due.sort_by_key(|(_, deadline)| *deadline);
        let deadlines = due.iter().map(|(_, deadline)| *deadline).collect();
        for (name, _) in due {
            if !self.released.contains(&name) {
                self.released.push(name);
            }
        }
        deadlines
    }

    /// Takes all released names and returns those that are still not `known`, earliest deadline first.
    pub fn take(&mut self, known: &BTreeSet<String>) -> Vec<String> {
        let mut released = std::mem::take(&mut self.released);
        released.retain(|name| !known.contains(name));
        released
    }

    /// Number of waiting names.
    pub fn count(&self) -> usize {
        self.waiting.len()
    }
}
