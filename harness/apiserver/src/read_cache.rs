//! A cache of what was read from stored configurations, until one of them is written. Upstream keeps the same up to
//! date with informers: see `staging/src/k8s.io/apiserver/pkg/admission/configuration`.

use parking_lot::Mutex;

/// The cache of a value that is read from the configurations of an API group.
#[derive(Debug, Default)]
pub(crate) struct ReadCache<T> {
    /// The number of writes to the group at which it was read, and what was read.
    known: Mutex<(u64, T)>,
}

impl<T: Clone + Default> ReadCache<T> {
    /// Returns what `read` returned after this number of writes to the group; the default before the first one.
    pub(crate) fn get(&self, writes: u64, read: impl FnOnce() -> T) -> T {
        if writes == 0 {
            return T::default();
        }
        let mut known = self.known.lock();
        if known.0 != writes {
            *known = (writes, read());
        }
        known.1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_once_for_each_number_of_writes() {
        let cache = ReadCache::default();
        let read = [(0, 1), (2, 5), (2, 6), (3, 7)].map(|(writes, value)| cache.get(writes, || value));
        assert_eq!(read, [0, 5, 5, 7]);
    }
}
