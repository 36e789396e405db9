//! The definitions that the server knows, with the kinds that it serves for each. It follows the store's log, so that
//! the work after a write depends on the definitions that changed and not on the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::kinds::kinds;
use super::names;
use super::text_fields::text;
use crate::definition_index::{IndexState, KnownDefinition};
use crate::faults::WatchEnd;
use crate::json::Value;
use crate::metadata::{self, is_deleted};
use crate::registry::Resource;
use crate::registry::custom::{GROUP, RESOURCE};
use crate::server::{ApiServer, storage_id};
use crate::store::{EventPoll, KeyRange, ResourceId, StoredObject};

/// Most events of the log that are read at once.
const BATCH: usize = 256;

/// Registers the kinds of the established definitions that were written since the last call, and removes the kinds of
/// others. Watches of kinds that change or go end after their last events.
pub(super) fn sync_registry(server: &ApiServer) {
    let mut state = server.definitions().lock();
    for name in changed(server, &mut state) {
        let resource = ResourceId::new(GROUP, RESOURCE);
        match server.get(&resource, "", &name) {
            Some(stored) => update(server, &mut state, &name, &stored),
            None => remove(server, &mut state, &name),
        }
    }
}

/// Returns the names of the definitions that were written since the last call.
fn changed(server: &ApiServer, state: &mut IndexState) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    loop {
        let Some(cursor) = &mut state.cursor else {
            let resource = ResourceId::new(GROUP, RESOURCE);
            let (stored, _, cursor) = server.store().list_and_watch(&resource, KeyRange::default());
            names.extend(stored.iter().map(|stored| stored.name().to_owned()));
            names.extend(state.definitions.keys().cloned());
            state.cursor = Some(cursor);
            continue;
        };
        match server.store().poll_events(cursor, BATCH, &Context::from_waker(Waker::noop())) {
            EventPoll::Events(events) => names.extend(events.iter().map(|event| event.current.name().to_owned())),
            EventPoll::Idle { .. } => return names,
            EventPoll::Compacted(_) => state.cursor = None,
        }
    }
}

fn update(server: &ApiServer, state: &mut IndexState, name: &str, stored: &StoredObject) {
    if state.definitions.get(name).is_some_and(|known| known.revision == stored.revision()) {
        return;
    }
    state.due.insert(name.to_owned());
    let definition = server.decode_cache().get(stored);
    let served = if names::is_established(&definition) { &definition["spec"] } else { &Value::Null };
    let accepted = &definition["status"]["acceptedNames"];
    let conflicted = !names::are_accepted(&definition);
    let ending = is_deleted(&definition);
    let known = state.definitions.get_mut(name);
    if let Some(known) =
        known.filter(|known| known.spec == *served && known.accepted == *accepted && known.ending == ending)
    {
        // The kinds stay as they are, and with them the revision since which objects are of their schema.
        known.revision = stored.revision();
        known.conflicted = conflicted;
        return;
    }
    let group = text(&definition["spec"], "group").to_owned();
    let kinds = kinds(&definition);
    let old = state.definitions.remove(name);
    let entries = kinds.iter().map(|kind| (kind.version.to_string(), kind.plural.to_string(), storage_id(kind)));
    let known = KnownDefinition {
        revision: stored.revision(),
        group: group.clone(),
        accepted: accepted.clone(),
        conflicted,
        ending,
        swept: false,
        spec: served.clone(),
        served: entries.collect(),
    };
    if old.as_ref().is_some_and(|old| old.accepted != known.accepted) {
        release_names(state, &group);
    }
    replace(server, old.as_ref(), Some(&known), &group, kinds);
    state.groups.entry(group).or_default().insert(name.to_owned());
    state.definitions.insert(name.to_owned(), known);
}

fn remove(server: &ApiServer, state: &mut IndexState, name: &str) {
    state.due.remove(name);
    let Some(old) = state.definitions.remove(name) else { return };
    if let Some(names) = state.groups.get_mut(&old.group) {
        names.remove(name);
        if names.is_empty() {
            state.groups.remove(&old.group);
        }
    }
    release_names(state, &old.group);
    replace(server, Some(&old), None, &old.group, Vec::new());
}

/// Marks the definitions of a group that lack names: they may get them now.
fn release_names(state: &mut IndexState, group: &str) {
    let names = state.groups.get(group).into_iter().flatten();
    let waiting = names.filter(|name| state.definitions.get(*name).is_some_and(|known| known.conflicted));
    state.due.extend(waiting.cloned());
}

/// Replaces the served kinds of a definition of a group.
fn replace(
    server: &ApiServer,
    old: Option<&KnownDefinition>,
    new: Option<&KnownDefinition>,
    group: &str,
    kinds: Vec<Resource>,
) {
    let served = |known: Option<&KnownDefinition>| known.map(|known| known.served.clone()).unwrap_or_default();
    let before = served(old);
    let now = served(new);
    if !before.is_empty() || !kinds.is_empty() {
        server.change_registry(|registry| {
            for (version, plural, _) in before.iter().filter(|entry| !now.contains(entry)) {
                registry.remove(group, version, plural);
            }
            for kind in kinds {
                registry.insert_sorted(kind, names::version_rank);
            }
        });
    }
    let shape = |known: &KnownDefinition| (known.spec.clone(), known.accepted.clone());
    if old.map(shape) != new.map(shape) {
        let ended: BTreeSet<ResourceId> = before.into_iter().map(|(_, _, resource)| resource).collect();
        for resource in ended {
            server.faults().end_watches(Some(&resource), WatchEnd::Drained);
        }
    }
}

impl ApiServer {
    /// Registers the kinds of the established definitions that were written since the last call.
    pub(crate) fn register_definitions(&self) {
        sync_registry(self);
    }

    /// Returns a definition, if it is stored.
    pub(super) fn definition(&self, name: &str) -> Option<Arc<Value>> {
        let stored = self.get(&ResourceId::new(GROUP, RESOURCE), "", name)?;
        Some(self.decode_cache().get(&stored))
    }

    /// Returns the definition with defaults and the status that it has among the stored definitions.
    pub(crate) fn complete_definition(&self, definition: Value) -> Value {
        sync_registry(self);
        let rivals = self.definitions().rivals(text(&definition["spec"], "group"), metadata::name(&definition));
        super::controller::with_status(definition, &rivals, self.clock().now())
    }
}
