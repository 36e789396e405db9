//! The objects written last, decoded: what is written is mostly read and written again at once (a status after a
//! creation), and reading it back from its bytes is the dearest part of that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::lifecycle;
use super::store::Stored;
use crate::apiserver::json::Value;

/// Objects that are kept, some 10 KB each: as many as are written between a client's creation and its status, with many
/// clients, and no more than the processor's caches hold.
const KEPT: usize = 128;

/// Decoded objects by resourceVersion, the newest ones.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<BTreeMap<u64, Arc<Value>>>);

impl Recent {
    /// Remembers the object that was stored as `stored`, in place of what was there as `before`; `object` is its content,
    /// under whatever resourceVersion.
    pub(crate) fn put(&self, mut object: Value, stored: &Stored, before: Option<u64>) {
        lifecycle::metadata_mut(&mut object).insert("resourceVersion", stored.revision().to_string().into());
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.insert(stored.revision(), Arc::new(object));
        let replaced = before.and_then(|before| objects.remove(&before));
        let oldest = if objects.len() > KEPT { objects.pop_first() } else { None };
        // Dropped, with all that hangs on them, when others may go on.
        drop(objects);
        drop((replaced, oldest));
    }

    /// The object, decoded.
    pub(crate) fn get(&self, stored: &Stored) -> Arc<Value> {
        self.find(stored).unwrap_or_else(|| Arc::new(stored.value()))
    }

    /// The object, if it is remembered.
    pub(crate) fn find(&self, stored: &Stored) -> Option<Arc<Value>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&stored.revision()).cloned()?;
        debug_assert_eq!(*known, stored.value(), "what is remembered is what is stored");
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::json::json;
    use crate::apiserver::store::{Draft, ResourceId, Store};

    #[test]
    fn the_last_ones_are_remembered_and_the_others_read() {
        let (store, recent) = (Store::default(), Recent::default());
        let mut all = Vec::new();
        for number in 0..KEPT + 2 {
            let object = json!({"metadata": {"name": format!("o{number}")}, "data": {"n": 1.5, "m": -3, "l": [null]}});
            let stored = store.create(&ResourceId::new("", "x"), Draft::new(&object, Vec::new())).unwrap().new;
            recent.put(object, &stored, None);
            all.push(stored);
        }
        assert_eq!(recent.0.lock().unwrap().len(), KEPT);
        for stored in [&all[0], &all[1], &all[2], &all[KEPT + 1]] {
            assert_eq!(*recent.get(stored), stored.value());
        }
    }
}
