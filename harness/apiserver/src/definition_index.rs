//! The definitions that the server knows, with the kinds that it serves for each. [`crate::crd`] keeps it up to date.
//! Upstream's counterpart is the storage map of
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;

use parking_lot::{Mutex, MutexGuard};

use crate::json::Value;
use crate::store::{ResourceId, WatchCursor};

/// The stored definitions, as the server knows them.
#[derive(Debug)]
pub(crate) struct DefinitionIndex {
    state: Mutex<IndexState>,
    /// Held while definitions are brought in line, so that a request waits for what another one has begun.
    ///
    /// A panic leaves nothing half done in it.
    pub(crate) turn: AssertUnwindSafe<tokio::sync::Mutex<()>>,
}

impl Default for DefinitionIndex {
    fn default() -> Self {
        Self { state: Mutex::default(), turn: AssertUnwindSafe(tokio::sync::Mutex::new(())) }
    }
}

#[derive(Debug, Default)]
pub(crate) struct IndexState {
    pub(crate) cursor: Option<WatchCursor>,
    pub(crate) definitions: BTreeMap<String, KnownDefinition>,
    /// The names of the definitions of each group.
    pub(crate) groups: BTreeMap<String, BTreeSet<String>>,
    /// The definitions that may be out of line.
    pub(crate) due: BTreeSet<String>,
    /// The definitions that a task of their own looks after, because it takes long.
    pub(crate) tended: BTreeSet<String>,
}

/// A stored definition.
#[derive(Debug)]
pub(crate) struct KnownDefinition {
    pub(crate) revision: u64,
    pub(crate) group: String,
    /// The names that it has.
    pub(crate) accepted: Value,
    /// The definition wants names that another one has.
    pub(crate) conflicted: bool,
    pub(crate) ending: bool,
    /// All its objects have been deleted or wait for their finalizers.
    pub(crate) swept: bool,
    pub(crate) spec: Value,
    /// Version and plural of the kinds that are served for it, with the storage of their objects.
    pub(crate) served: Vec<(String, String, ResourceId)>,
}

impl DefinitionIndex {
    /// Locks the state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock()
    }

    /// Returns the names that the other definitions of a group have.
    pub(crate) fn rivals(&self, group: &str, name: &str) -> Vec<Value> {
        let state = self.lock();
        let names = state.groups.get(group).into_iter().flatten().filter(|other| *other != name);
        names.filter_map(|other| Some(state.definitions.get(other)?.accepted.clone())).collect()
    }

    /// Returns a definition that may be out of line.
    pub(crate) fn next_due(&self) -> Option<String> {
        self.lock().due.first().cloned()
    }

    /// Notes that a definition is in line, or that a task looks after it.
    pub(crate) fn clear_due(&self, name: &str) {
        self.lock().due.remove(name);
    }

    /// Notes that a definition may be out of line.
    pub(crate) fn mark_due(&self, name: &str) {
        self.lock().due.insert(name.to_owned());
    }

    /// Notes that a task looks after a definition; `false` if one does already.
    pub(crate) fn begin_tending(&self, name: &str) -> bool {
        self.lock().tended.insert(name.to_owned())
    }

    /// Notes that the task of a definition has ended.
    pub(crate) fn end_tending(&self, name: &str) {
        self.lock().tended.remove(name);
    }

    /// Returns true if a task looks after a definition.
    pub(crate) fn is_tended(&self, name: &str) -> bool {
        self.lock().tended.contains(name)
    }

    /// Notes that all objects of a definition have been deleted or wait for their finalizers.
    pub(crate) fn mark_swept(&self, name: &str) {
        if let Some(known) = self.lock().definitions.get_mut(name) {
            known.swept = true;
        }
    }

    /// Returns true if all objects of a definition have been deleted or wait for their finalizers.
    pub(crate) fn is_swept(&self, name: &str) -> bool {
        self.lock().definitions.get(name).is_some_and(|known| known.swept)
    }
}
