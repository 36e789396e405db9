//! Second calls of what mutated an object before a later change. Follows
//! `plugin/webhook/mutating/reinvocationcontext.go` and `plugin/policy/mutating/reinvocationcontext.go` in
//! `staging/src/k8s.io/apiserver/pkg/admission`.

use std::collections::BTreeSet;

use crate::json::Value;

/// The webhooks or policies, named by keys, that were applied, and those that are to be applied again.
#[derive(Debug)]
pub(super) struct Reinvocation<K> {
    /// Those that were applied and ask to be applied again.
    applied: Vec<K>,
    /// Those of them that were applied before a later change.
    due: BTreeSet<K>,
    /// The object after the last of them.
    output: Option<Value>,
    /// A second round is due, although later changes may have undone the one that asked for it.
    again: bool,
}

impl<K> Default for Reinvocation<K> {
    fn default() -> Self {
        Self { applied: Vec::new(), due: BTreeSet::new(), output: None, again: false }
    }
}

impl<K: Clone + Ord> Reinvocation<K> {
    /// Ends a round, which left this object.
    pub(super) fn end_round(&mut self, object: Option<&Value>) {
        self.output = object.cloned();
    }

    /// Begins the second round with this object: all are due if it was changed since the first.
    pub(super) fn begin_again(&mut self, object: Option<&Value>) {
        if self.output.as_ref() != object {
            self.mark_changed();
        }
    }

    /// Returns true if something changed the object in the first round.
    pub(super) fn is_wanted(&self) -> bool {
        self.again
    }

    /// Records that the object changed: those that were applied before are due.
    pub(super) fn mark_changed(&mut self) {
        self.again = true;
        self.due.extend(self.applied.iter().cloned());
    }

    /// Records that one was applied that asks to be applied again.
    pub(super) fn record(&mut self, key: K) {
        if !self.applied.contains(&key) {
            self.applied.push(key);
        }
    }

    /// Returns whether one is to be applied again.
    pub(super) fn is_due(&self, key: &K) -> bool {
        self.due.contains(key)
    }
}
