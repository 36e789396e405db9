//! A cache of server-side applies that changed nothing. Controllers apply the same configuration at every reconcile,
//! and as long as the object has the same resourceVersion, the same apply has the same outcome.
//!
//! Upstream has no such cache; see `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::registry::Resource;

/// Maximum number of objects whose applies are cached.
const MAX_OBJECTS: usize = 512;
/// Maximum number of cached applies of one object: of its managers and subresources.
const MAX_PER_OBJECT: usize = 4;

/// All that the outcome of an apply depends on, besides the stored object.
#[derive(Clone, Debug)]
pub(crate) struct ApplyInput {
    /// The kind as it was served: another definition is another `Arc`.
    pub(crate) kind: Arc<Resource>,
    pub(crate) subresource: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) user: String,
    pub(crate) body: Bytes,
}

impl PartialEq for ApplyInput {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.kind, &other.kind)
            && self.subresource == other.subresource
            && self.query == other.query
            && self.content_type == other.content_type
            && self.user == other.user
            && self.body == other.body
    }
}

/// Applies without a change, by the resourceVersion of their object.
#[derive(Debug, Default)]
pub(crate) struct IdleApplies(Mutex<BTreeMap<u64, Vec<ApplyInput>>>);

impl IdleApplies {
    /// Returns true if this apply is known to leave the object with this resourceVersion as it is.
    pub(crate) fn has(&self, revision: u64, input: &ApplyInput) -> bool {
        self.0.lock().get(&revision).is_some_and(|known| known.contains(input))
    }

    /// Adds an apply that left the object with this resourceVersion as it was.
    pub(crate) fn add(&self, revision: u64, input: ApplyInput) {
        let mut applies = self.0.lock();
        let known = applies.entry(revision).or_default();
        if known.len() == MAX_PER_OBJECT {
            known.remove(0);
        }
        known.push(input);
        if applies.len() > MAX_OBJECTS {
            applies.pop_first();
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn the_latest_applies_are_known() {
        let registry = Registry::builtin();
        let Some(kind) = registry.kinds().next().cloned() else { panic!("built-in kinds") };
        let input = |body: &'static str| ApplyInput {
            kind: kind.clone(),
            subresource: String::new(),
            query: "fieldManager=m".to_owned(),
            content_type: String::new(),
            user: String::new(),
            body: Bytes::from_static(body.as_bytes()),
        };
        let applies = IdleApplies::default();
        for body in ["a", "b", "c", "d", "e"] {
            applies.add(7, input(body));
        }
        assert!(applies.has(7, &input("e")) && !applies.has(7, &input("a")) && !applies.has(8, &input("e")));
        assert!(!applies.has(7, &ApplyInput { user: "other".to_owned(), ..input("e") }));
        for revision in 0..u64::try_from(MAX_OBJECTS).unwrap() {
            applies.add(100 + revision, input("e"));
        }
        assert!(!applies.has(7, &input("e")) && applies.has(100, &input("e")));
    }
}
