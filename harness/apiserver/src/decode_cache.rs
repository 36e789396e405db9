//! A cache of recently written and read objects in decoded form. Most writes are followed by a read and another write
//! of the same object (a status after a creation), and decoding is the most expensive part of those.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::store::StoredObject;
use crate::json::Value;
use crate::metadata;

/// Maximum number of cached new objects, some 10 KB each: about as many as many clients create before they write the
/// statuses, and few enough for the processor's caches.
const MAX_NEW: usize = 96;
/// Maximum number of cached changed objects: those of a small test. They are written again less often.
const MAX_CHANGED: usize = 96;
/// Maximum number of cached objects that were decoded for a read: those of a small test, which the simulated
/// controllers read again and again.
const MAX_READ: usize = 256;

/// Decoded objects by resourceVersion.
#[derive(Debug, Default)]
pub(crate) struct DecodeCache(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    new: BTreeMap<u64, Arc<Value>>,
    changed: BTreeMap<u64, Arc<Value>>,
    read: BTreeMap<u64, Arc<Value>>,
}

impl DecodeCache {
    /// Caches `object`, the content that was stored as `stored`, in place of the state at `before`. The
    /// resourceVersion in `object` is replaced.
    pub(crate) fn put(&self, mut object: Value, stored: &StoredObject, before: Option<u64>) {
        metadata::fields_mut(&mut object).insert("resourceVersion", stored.revision().to_string().into());
        let object = Arc::new(object);
        let mut kept = self.0.lock();
        let CacheState { new, changed, read } = &mut *kept;
        let replaced = before.and_then(|before| [new, changed, read].into_iter().find_map(|kept| kept.remove(&before)));
        let (objects, most) =
            if before.is_none() { (&mut kept.new, MAX_NEW) } else { (&mut kept.changed, MAX_CHANGED) };
        objects.insert(stored.revision(), object);
        let oldest = if objects.len() > most { objects.pop_first() } else { None };
        // Dropped after the lock is released: freeing large objects takes time.
        drop(kept);
        drop((replaced, oldest));
    }

    /// Returns the decoded object, from the cache if possible.
    pub(crate) fn get(&self, stored: &StoredObject) -> Arc<Value> {
        if let Some(known) = self.find(stored) {
            return known;
        }
        let object = Arc::new(stored.value());
        let mut kept = self.0.lock();
        kept.read.insert(stored.revision(), object.clone());
        let oldest = if kept.read.len() > MAX_READ { kept.read.pop_first() } else { None };
        drop(kept);
        drop(oldest);
        object
    }

    /// Returns the decoded object if it is cached.
    pub(crate) fn find(&self, stored: &StoredObject) -> Option<Arc<Value>> {
        let kept = self.0.lock();
        let maps = [&kept.new, &kept.changed, &kept.read];
        let known = maps.into_iter().find_map(|kept| kept.get(&stored.revision())).cloned()?;
        drop(kept);
        #[cfg(any(test, feature = "checks"))]
        assert!(is_same(&known, &stored.value()), "remembered: {known:?}\nstored: {:?}", stored.value());
        Some(known)
    }
}

/// Compares objects. A whole number that a client sent as `9.0` is stored as `9`, as Go writes it.
#[cfg(any(test, feature = "checks"))]
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && is_same(a, b))
        }
        (Value::Number(_), Value::Number(_)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_lose_their_fraction_in_the_store() {
        let object = |maximum: Value| json!({"spec": {"limits": [{"maximum": maximum}], "name": "x"}});
        assert!(is_same(&object(9.0.into()), &object(9.into())));
        assert!(!is_same(&object(9.5.into()), &object(9.into())));
        assert!(!is_same(&object(9.into()), &object("9".into())));
    }
    use crate::json::json;
    use crate::store::{Draft, ResourceId, Store};

    #[test]
    fn the_last_ones_are_remembered_and_the_others_read() {
        let store = Store::default();
        let recent = DecodeCache::default();
        let id = ResourceId::new("", "x");
        let object = |number: usize, text: &str| json!({"metadata": {"name": format!("o{number}")}, "data": {"n": 1.5, "m": -3, "l": [null], "t": text}});
        let mut all = Vec::new();
        for number in 0..MAX_NEW + 2 {
            let object = object(number, "new");
            let stored = store.create(&id, Draft::new(&object, Vec::new())).unwrap().new;
            recent.put(object, &stored, None);
            all.push(stored);
        }
        assert_eq!(recent.0.lock().new.len(), MAX_NEW);
        let mut changed = Vec::new();
        for (number, before) in all.iter().enumerate() {
            let object = object(number, "changed");
            let stored = store.update(&id, before, Draft::new(&object, Vec::new())).unwrap().new;
            recent.put(object, &stored, Some(before.revision()));
            assert!(recent.find(before).is_none());
            changed.push(stored);
        }
        let kept = |kept: &CacheState| (kept.new.len(), kept.changed.len());
        assert_eq!(kept(&recent.0.lock()), (0, MAX_CHANGED));
        for stored in changed.iter().chain(&all) {
            assert_eq!(*recent.get(stored), stored.value());
        }
    }
}
