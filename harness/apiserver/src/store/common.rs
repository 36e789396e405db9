//! What many objects have in common, held once for all of them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

/// What is known but not shared is looked for when so much is known.
const SWEEP_MIN: usize = 1024;

/// Texts, or parts of encoded objects, of which there is one each.
#[derive(Debug)]
pub(super) struct Common<T: ?Sized> {
    /// By their hashes: comparing long parts with each other on the way to one of them would take long.
    known: BTreeMap<u64, SmallVec<[Arc<T>; 1]>>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Common<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), sweep_at: SWEEP_MIN }
    }
}

impl<T: ?Sized + Eq + Hash> Common<T> {
    /// The one that is like `part`.
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
            // What only one object holds, such as a pod's address, has been found by nobody else so far: each of a large
            // number of objects would make the search longer for all.
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
    fn what_nobody_shares_is_forgotten() {
        let mut known = Common::<str>::default();
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
