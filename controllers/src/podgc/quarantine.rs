//! Unknown nodes wait here before anybody asks the API server about them. PURE.
//!
//! The states of a node name and what moves it:
//!
//! ```text
//!            observe             release (40 s later)            take
//!  unknown ──────────► waiting ─────────────────────► released ───────► asked once
//!                         ▲                              │ observe: waits a second time beside it
//!                         └──────────────────────────────┘
//! ```
//!
//! As upstream's delaying queue has it: a waiting name keeps its first deadline however often it is
//! seen (G-038), and nothing takes a name out early, not even the node's return (G-035). The cycle that
//! takes a released name has seen it again before, so the name waits once more: if the live GET failed
//! or a deletion did, it is asked again 40 s later (G-037).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::QUARANTINE_TIME;

/// Names in quarantine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Quarantine {
    /// Deadlines by name, on the monotonic clock: they are only waited for.
    waiting: BTreeMap<String, Duration>,
    released: Vec<String>,
}

impl Quarantine {
    /// Puts an unknown node into quarantine at monotonic time `now`, unless it waits already.
    pub fn observe(&mut self, name: &str, now: Duration) {
        if self.waiting.contains_key(name) {
            return;
        }
        let deadline = now.saturating_add(QUARANTINE_TIME);
        self.waiting.insert(name.to_owned(), deadline);
    }

    /// Releases the names whose time is over, oldest deadline first, names of one deadline in their order.
    pub fn release(&mut self, now: Duration) {
        let mut due: Vec<_> = self.waiting.extract_if(.., |_, deadline| *deadline <= now).collect();
        due.sort_by_key(|(_, deadline)| *deadline);
        for (name, _) in due {
            if !self.released.contains(&name) {
                self.released.push(name);
            }
        }
    }

    /// Takes all released names and gives back those that are still not `known`, oldest deadline first.
    pub fn take(&mut self, known: &BTreeSet<String>) -> Vec<String> {
        let mut released = std::mem::take(&mut self.released);
        released.retain(|name| !known.contains(name));
        released
    }

    /// How many names wait.
    pub fn count(&self) -> usize {
        self.waiting.len()
    }
}
