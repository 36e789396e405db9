//! The objects written last, decoded: what is written is mostly read and written again at once (a status after a
//! creation), and reading it back from its bytes is the dearest part of that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lifecycle;
use super::store::Stored;
use crate::json::Value;

/// New objects that are kept, some 10 KB each: as many as are written between a client's creation and its status, with many
/// clients, and no more than the processor's caches hold.
const NEW_KEPT: usize = 96;
/// Changed objects that are kept; they are less often written again at once.
const CHANGED_KEPT: usize = 32;

/// Decoded objects by resourceVersion, the newest ones.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    new: BTreeMap<u64, Arc<Value>>,
    changed: BTreeMap<u64, Arc<Value>>,
}

impl Recent {
    /// Remembers the object that was stored as `stored`, in place of what was there as `before`; `object` is its content,
    /// under whatever resourceVersion.
    pub(crate) fn put(&self, mut object: Value, stored: &Stored, before: Option<u64>) {
        lifecycle::metadata_mut(&mut object).insert("resourceVersion", stored.revision().to_string().into());
        let object = Arc::new(object);
        let mut kept = self.lock();
        let replaced = before.and_then(|before| kept.new.remove(&before).or_else(|| kept.changed.remove(&before)));
        let (objects, most) =
            if before.is_none() { (&mut kept.new, NEW_KEPT) } else { (&mut kept.changed, CHANGED_KEPT) };
        objects.insert(stored.revision(), object);
        let oldest = if objects.len() > most { objects.pop_first() } else { None };
        // Dropped, with all that hangs on them, when others may go on.
        drop(kept);
        drop((replaced, oldest));
    }

    /// The object, decoded.
    pub(crate) fn get(&self, stored: &Stored) -> Arc<Value> {
        self.find(stored).unwrap_or_else(|| Arc::new(stored.value()))
    }

    /// The object, if it is remembered.
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
