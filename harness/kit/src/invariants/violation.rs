//! Violations of invariants, and visits of the entries that can have them. Pure.

use crate::expect::JudgeContext;
use crate::expect::world::{Key, ObjectStates};
use crate::transcript::{Actor, Attributed as _, Change, EntryKind, Exchange, RecordedJson, TranscriptEntry};

/// A violation of an invariant by an entry.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) entry: TranscriptEntry,
    pub(super) observed: String,
}

impl Violation {
    pub(super) fn new(entry: &TranscriptEntry, observed: impl Into<String>) -> Self {
        Self { entry: entry.clone(), observed: observed.into() }
    }
}

impl<'a> JudgeContext<'a> {
    /// Visits the requests that are meant, each with the objects just before it.
    pub(super) fn requests(
        &self,
        is_meant: impl Fn(&TranscriptEntry, &Exchange) -> bool,
        mut visit: impl FnMut(&'a TranscriptEntry, &'a Exchange, &ObjectStates) -> Option<Violation>,
    ) -> Vec<Violation> {
        let mut world = None;
        let mut stepped = 0;
        let mut violations = Vec::new();
        for (index, entry) in self.run.entries.iter().enumerate() {
            let EntryKind::Request(exchange) = &entry.what else { continue };
            if is_meant(entry, exchange) {
                let world = world.get_or_insert_with(|| self.begin.clone());
                self.run.entries[stepped..index].iter().for_each(|entry| world.step(entry));
                stepped = index;
                violations.extend(visit(entry, exchange, world));
            }
        }
        violations
    }

    /// Visits the changes that `actor` made to a resource's objects, with the object before (if it existed) and after.
    pub(super) fn changes(
        &self,
        actor: &Actor,
        resource: &str,
        mut visit: impl FnMut(&'a TranscriptEntry, &'a Change, Option<&RecordedJson>, &RecordedJson) -> Option<Violation>,
    ) -> Vec<Violation> {
        let mut violations = Vec::new();
        for entry in self.run.entries {
            if let EntryKind::Change(change) = &entry.what
                && change.resource == resource
                && entry.actor() == *actor
                && let Some(new) = &change.new
            {
                violations.extend(visit(entry, change, change.old.as_ref(), new));
            }
        }
        violations
    }
}

/// Returns true if the request deletes a pod.
pub(super) fn deletes_pod(exchange: &Exchange) -> bool {
    exchange.request.verb == "delete" && exchange.request.resource == "pods" && exchange.request.subresource.is_none()
}

/// Returns a predicate for deletions of pods by this actor.
pub(super) fn deletes_pod_as(actor: Actor) -> impl Fn(&TranscriptEntry, &Exchange) -> bool {
    move |entry, exchange| deletes_pod(exchange) && entry.actor() == actor
}

/// Returns the pod of a request, as it is in `world`.
pub(super) fn pod_of<'w>(exchange: &Exchange, world: &'w ObjectStates) -> Option<&'w RecordedJson> {
    let request = &exchange.request;
    world.get(&Key {
        group: String::new(),
        resource: "pods".to_owned(),
        namespace: request.namespace.clone(),
        name: request.name.clone()?,
    })
}
