//! A cache of recently written objects in decoded form. Most writes are followed by a read and another write of the
//! same object (a status after a creation), and decoding is the most expensive part of those.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lifecycle;
use super::store::Stored;
use crate::json::Value;

/// Maximum number of cached new objects, some 10 KB each: about as many as many clients create before they write the
/// statuses, and few enough for the processor's caches.
const NEW_KEPT: usize = 96;
/// Maximum number of cached changed objects; they are written again less often.
const CHANGED_KEPT: usize = 32;

/// Decoded objects by resourceVersion.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    new: BTreeMap<u64, Arc<Value>>,
    changed: BTreeMap<u64, Arc<Value>>,
}

impl Recent {
    /// Caches `object`, the content that was stored as `stored`, in place of the state at `before`. The
    /// resourceVersion in `object` is replaced.
    pub(crate) fn put(&self, mut object: Value, stored: &Stored, before: Option<u64>) {
        lifecycle::metadata_mut(&mut object).insert("resourceVersion", stored.revision().to_string().into());
        let object = Arc::new(object);
        let mut kept = self.lock();
        let replaced = before.and_then(|before| kept.new.remove(&before).or_else(|| kept.changed.remove(&before)));
        let (objects, most) =
            if before.is_none() { (&mut kept.new, NEW_KEPT) } else { (&mut kept.changed, CHANGED_KEPT) };
        objects.insert(stored.revision(), object);
        let oldest = if objects.len() > most { objects.pop_first() } else { None };
        // Dropped after the lock is released: freeing large objects takes time.
        drop(kept);
        drop((replaced, oldest));
    }

    /// Returns the decoded object, from the cache if possible.
    pub(crate) fn get(&self, stored: &Stored) -> Arc<Value> {
        self.find(stored).unwrap_or_else(|| Arc::new(stored.value()))
    }

    /// Returns the decoded object if it is cached.
    pub(crate) fn find(&self, stored: &Stored) -> Option<Arc<Value>> {
        let kept = self.lock();
        let known = kept.new.get(&stored.revision()).or_else(|| kept.changed.get(&stored.revision())).cloned()?;
        drop(kept);
        debug_assert_eq!(*known, stored.value(), "what is remembered is what is stored");
        Some(known)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::store::{Draft, ResourceId, Store};

    #[test]
    fn the_last_ones_are_remembered_and_the_others_read() {
        let (store, recent, id) = (Store::default(), Recent::default(), ResourceId::new("", "x"));
        let object = |number: usize, text: &str| json!({"metadata": {"name": format!("o{number}")}, "data": {"n": 1.5, "m": -3, "l": [null], "t": text}});
        let mut all = Vec::new();
        for number in 0..NEW_KEPT + 2 {
            let object = object(number, "new");
            let stored = store.create(&id, Draft::new(&object, Vec::new())).unwrap().new;
            recent.put(object, &stored, None);
            all.push(stored);
        }
        assert_eq!(recent.lock().new.len(), NEW_KEPT);
        let mut changed = Vec::new();
        for (number, before) in all.iter().enumerate() {
            let object = object(number, "changed");
            let stored = store.update(&id, before, Draft::new(&object, Vec::new())).unwrap().new;
            recent.put(object, &stored, Some(before.revision()));
            assert!(recent.find(before).is_none());
            changed.push(stored);
        }
        let kept = |kept: &Kept| (kept.new.len(), kept.changed.len());
        assert_eq!(kept(&recent.lock()), (0, CHANGED_KEPT));
        for stored in changed.iter().chain(&all) {
            assert_eq!(*recent.get(stored), stored.value());
        }
    }
}
