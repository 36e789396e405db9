//! An interner for byte and text fragments that many stored objects have in common.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

/// Minimum number of hash entries at which fragments that fewer than two objects use are swept.
const SWEEP_MIN: usize = 1024;

/// A set of shared fragments: texts, or parts of encoded objects.
#[derive(Debug)]
pub(super) struct Interner<T: ?Sized> {
    /// Keyed by hash, since comparing long fragments at every step of a search would be slow.
    known: BTreeMap<u64, SmallVec<[Arc<T>; 1]>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), sweep_at: SWEEP_MIN }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    /// Returns the shared fragment that equals `part`, adding it if it is new.
    pub(super) fn get<'p>(&mut self, part: &'p T) -> Arc<T>
    where
        Arc<T>: From<&'p T>,
    {
        let hash = FixedState::default().hash_one(part);
        let alike = self.known.get(&hash).into_iter().flatten();
        if let Some(known) = alike.into_iter().find(|known| ***known == *part) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at {
            // Fragments with a single user, such as a pod's IP address, have not been found by a second object. In
            // large clusters they would make each search longer.
            self.known.retain(|_, parts| {
                parts.retain(|part| Arc::strong_count(part) > 2);
                !parts.is_empty()
            });
            self.sweep_at = SWEEP_MIN.max(self.known.len() * 2);
        }
        let part: Arc<T> = part.into();
        self.known.entry(hash).or_default().push(part.clone());
        part
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.values().map(SmallVec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_other_owners_are_dropped() {
        let mut known = Interner::<str>::default();
        let shared = [known.get("shared"), known.get("shared")];
        let alone = known.get("alone");
        for number in 0..3 * SWEEP_MIN {
            known.get(&number.to_string());
        }
        assert!(known.len() <= SWEEP_MIN + 1);
        assert!(shared.iter().all(|shared| Arc::ptr_eq(shared, &known.get("shared"))));
        assert!(!Arc::ptr_eq(&alone, &known.get("alone")));
    }
}
