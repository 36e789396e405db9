//! The knowledge that a program had of each object, from the record alone: the lists that it got, the watch events that
//! left for it, and the replies to its own requests. Pure.

use std::collections::BTreeMap;

use plumbline::expect::world::{Key, key_of_change};
use plumbline::metadata;
use plumbline::transcript::{Attributed as _, Delivery, EntryKind, Exchange, RecordedJson, TranscriptEntry};
use serde_json::Value;

use super::job::{Blind, millis};

/// The notes of a server whose lists lag behind, before and after the resource.
const LAGS: (&str, &str) = ("lists of ", " stay as they are now");
/// The note of a server whose lists are current again.
const CURRENT: &str = " are current again";

/// The version and uid of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ObjectVersion {
    uid: String,
    version: u64,
}

/// The objects, and what the program knows of them.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    present: BTreeMap<Key, RecordedJson>,
    known: BTreeMap<Key, ObjectVersion>,
    /// The objects of resources whose lists lag behind.
    lagging: BTreeMap<String, BTreeMap<Key, ObjectVersion>>,
    /// The objects that the program itself wrote last.
    own: BTreeMap<Key, u64>,
}

fn seen(object: &Value) -> Option<ObjectVersion> {
    let version = metadata::resource_version(object)?.parse().ok()?;
    Some(ObjectVersion { uid: metadata::uid(object)?.to_owned(), version })
}

impl Knowledge {
    /// Begins with the objects that exist when the program starts.
    pub(super) fn new<'o>(objects: impl Iterator<Item = (&'o Key, &'o RecordedJson)>) -> Self {
        Self { present: objects.map(|(key, object)| (key.clone(), object.clone())).collect(), ..Self::default() }
    }

    /// Returns the present state of an object.
    pub(super) fn present(&self, key: &Key) -> Option<&RecordedJson> {
        self.present.get(key)
    }

    /// The program starts again and knows nothing.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// A watch event reached the program.
    pub(super) fn delivered(&mut self, delivery: &Delivery, entries: &[TranscriptEntry]) {
        let Some(EntryKind::Request(watch)) = entries.get(delivery.watch).map(|entry| &entry.what) else { return };
        let object = &delivery.object;
        let key = Key {
            group: watch.request.group.clone(),
            resource: watch.request.resource.clone(),
            namespace: object.namespace.as_deref().map(str::to_owned),
            name: object.name.to_string(),
        };
        // The event of an older state than the present one has the uid of the object that had it.
        let state = self.present.get(&key).and_then(|object| seen(object));
        let uid = match state {
            Some(state) if state.version == object.resource_version => state.uid,
            _ => self.known.get(&key).map(|known| known.uid.clone()).unwrap_or_default(),
        };
        self.known.insert(key, ObjectVersion { uid, version: object.resource_version });
    }

    /// Follows an entry. Returns a write of an object whose present state the program had not seen.
    pub(super) fn step(&mut self, entry: &TranscriptEntry) -> Option<Blind> {
        match &entry.what {
            EntryKind::Change(change) => {
                let key = key_of_change(change);
                match &change.new {
                    Some(object) => {
                        if entry.actor().is_subject()
                            && let Some(written) = seen(object)
                        {
                            self.own.insert(key.clone(), written.version);
                            self.known.insert(key.clone(), written);
                        }
                        self.present.insert(key, object.clone());
                    }
                    None => _ = self.present.remove(&key),
                }
                None
            }
            EntryKind::Note(text) => {
                self.noted(text);
                None
            }
            EntryKind::Request(exchange) if entry.actor().is_subject() => self.requested(entry, exchange),
            EntryKind::Request(_) => None,
        }
    }

    fn noted(&mut self, text: &str) {
        if let Some(resource) = text.strip_prefix(LAGS.0).and_then(|rest| rest.strip_suffix(LAGS.1)) {
            let of = |(key, object): (&Key, &RecordedJson)| Some((key.clone(), seen(object)?));
            let now = self.present.iter().filter(|(key, _)| key.resource == resource).filter_map(of).collect();
            self.lagging.insert(resource.to_owned(), now);
        } else if let Some(resource) = text.strip_prefix(LAGS.0).and_then(|rest| rest.strip_suffix(CURRENT)) {
            self.lagging.remove(resource);
        }
    }

    fn requested(&mut self, entry: &TranscriptEntry, exchange: &Exchange) -> Option<Blind> {
        let request = &exchange.request;
        let answered = exchange.reply.as_ref().is_some_and(|reply| reply.status == 200 && !reply.lost);
        if request.verb == "list" && answered {
            let lists = |key: &Key| {
                let near = |namespace| key.namespace.as_ref() == Some(namespace);
                key.resource == request.resource
                    && key.group == request.group
                    && request.namespace.as_ref().is_none_or(near)
            };
            if let Some(old) = self.lagging.get(&request.resource) {
                self.known.extend(old.iter().map(|(key, seen)| (key.clone(), seen.clone())));
            } else {
                let listed = self.present.iter().filter(|(key, _)| lists(key));
                self.known.extend(listed.filter_map(|(key, object)| Some((key.clone(), seen(object)?))));
            }
            return None;
        }
        let key = Key {
            group: request.group.clone(),
            resource: request.resource.clone(),
            namespace: request.namespace.clone(),
            name: request.name.clone()?,
        };
        if request.verb == "get" && answered {
            let now = self.present.get(&key).and_then(|object| seen(object))?;
            self.known.insert(key, now);
            return None;
        }
        if request.subresource.is_some() || exchange.reply.as_ref().is_none_or(|reply| reply.status >= 300) {
            return None;
        }
        self.blind(entry, exchange, &key)
    }

    /// Returns the breach if a write without a precondition concerns a state that the program had not seen.
    fn blind(&self, entry: &TranscriptEntry, exchange: &Exchange, key: &Key) -> Option<Blind> {
        let request = &exchange.request;
        let now = self.present.get(key).and_then(|object| seen(object))?;
        let known = self.known.get(key)?;
        let body = request.body.as_deref().unwrap_or(&Value::Null);
        let what = match request.verb.as_str() {
            "delete"
                if body["preconditions"]["uid"].is_null() && body["preconditions"]["resourceVersion"].is_null() =>
            {
                if known.uid.is_empty() || known.uid == now.uid {
                    return None;
                }
                "another object of that name than the one that it had seen is deleted: send preconditions.uid"
            }
            "update" if metadata::resource_version(body).is_none_or(str::is_empty) => {
                if known.version >= now.version || self.own.get(key) == Some(&now.version) {
                    return None;
                }
                "a change by another client that it had not seen is overwritten: send metadata.resourceVersion"
            }
            _ => return None,
        };
        let text = format!("{}: {what}", plumbline::expect::line(entry, exchange));
        Some(Blind { resource: request.resource.clone(), verb: request.verb.clone(), at: millis(entry.at), text })
    }
}
