//! The number of objects after a page of a list, remembered for the next page.
//! See `remainingItemCount` in `staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go`.
//!
//! A list at a resourceVersion never changes, so a page that starts where `n` objects follow is itself followed by
//! `n` less its own length. Counting again for every page of a large resource would cost more than the pages.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{KeyRange, ResourceId};

/// Maximum number of remembered pages; other lists are counted.
const MAX_PAGES: usize = 64;

/// The end of a page.
#[derive(Debug)]
struct PageEnd {
    resource: ResourceId,
    namespace: Option<Arc<str>>,
    revision: u64,
    last: Arc<str>,
    left: usize,
}

/// The ends of the latest pages.
#[derive(Debug, Default)]
pub(super) struct PageCounts(Mutex<VecDeque<PageEnd>>);

impl PageCounts {
    /// Remembers that `left` objects of `range` follow `last` at `revision`.
    pub(super) fn put(&self, resource: &ResourceId, range: &KeyRange<'_>, revision: u64, last: &Arc<str>, left: usize) {
        if left == 0 || range.name.is_some() || range.node.is_some() {
            return;
        }
        let namespace = range.namespace.map(Arc::from);
        let mark = PageEnd { resource: resource.clone(), namespace, revision, last: last.clone(), left };
        let mut marks = self.0.lock();
        if marks.len() == MAX_PAGES {
            marks.pop_front();
        }
        marks.push_back(mark);
    }

    /// Returns the number of objects of `range` at `revision`, if the page that it continues is remembered.
    pub(super) fn left(&self, resource: &ResourceId, range: &KeyRange<'_>, revision: u64) -> Option<usize> {
        let after = range.after.filter(|_| range.name.is_none() && range.node.is_none())?;
        let marks = self.0.lock();
        let fits = |mark: &&PageEnd| {
            mark.revision == revision
                && *mark.last == *after
                && mark.namespace.as_deref() == range.namespace
                && mark.resource == *resource
        };
        marks.iter().rev().find(fits).map(|mark| mark.left)
    }
}
