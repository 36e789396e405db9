//! Tracks the objects of a fixture's slice of the server by watches, and attributes each change to a request.
//!
//! The server's watches report every change in commit order, but not its author. The proxy announces each write it
//! forwards ([`ChangeTracker::begin`]) and reports its outcome ([`ChangeTracker::end`]). A change belongs to the write
//! whose response has its resourceVersion, otherwise to the write in flight for that object.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use plumbline::expect::world::Key;
use plumbline::metadata;
use plumbline::time::Clock;
use plumbline::transcript::{Actor, Change, ChangeKind, RecordedJson, Transcript};
use plumbline_apiserver::request::ResourcePath;
use serde_json::Value;
use tokio::sync::Notify;

/// Maximum delay between the response to a write and its watch event.
const LATE: Duration = Duration::from_secs(2);
/// Maximum time that a response is held until its change was observed.
const WATCH_PATIENCE: Duration = Duration::from_millis(500);

/// The objects of one fixture, and the record of their changes.
#[derive(Debug)]
pub(super) struct ChangeTracker {
    state: Mutex<TrackerState>,
    changed: Notify,
    transcript: Transcript,
    clock: Clock,
}

#[derive(Debug, Default)]
struct TrackerState {
    objects: BTreeMap<Key, RecordedJson>,
    /// The last observed resourceVersion of each object, deletions included.
    versions: BTreeMap<Key, u64>,
    /// The highest observed resourceVersion.
    revision: u64,
    writes: Vec<InFlightWrite>,
    /// Recorded changes by resourceVersion.
    recorded: BTreeMap<u64, RecordedChange>,
    /// True if changes are recorded; false while the fixture's objects are seeded.
    recording: bool,
    /// Resources that are followed.
    followed: Vec<(String, String)>,
}

/// A change in the transcript.
#[derive(Clone, Copy, Debug)]
struct RecordedChange {
    /// Position in the transcript.
    at: usize,
    request: Option<usize>,
    /// True if a write was answered with this resourceVersion. A later write with the same resourceVersion changed
    /// nothing.
    sure: bool,
}

/// A write in flight, or one answered recently.
#[derive(Debug)]
struct InFlightWrite {
    request: usize,
    actor: Actor,
    group: String,
    resource: String,
    namespace: String,
    /// Empty for collections and for names that the server generates.
    name: String,
    evicts: bool,
    /// Time of the response, and the resourceVersion in it.
    answered: Option<(Duration, Option<u64>)>,
    seen: bool,
}

impl InFlightWrite {
    fn is_about(&self, key: &Key) -> bool {
        self.group == key.group
            && self.resource == key.resource
            && self.namespace == key.namespace.as_deref().unwrap_or_default()
            && (self.name.is_empty() || self.name == key.name)
    }
}

/// A change as reported by a watch.
pub(super) struct ObservedChange {
    pub(super) key: Key,
    pub(super) version: u64,
    /// `None` if the object was deleted.
    pub(super) object: Option<RecordedJson>,
}

/// Returns the resourceVersion of an object; 0 if it has none.
pub(super) fn version(object: &Value) -> u64 {
    metadata::resource_version(object).and_then(|text| text.parse().ok()).unwrap_or_default()
}

impl ChangeTracker {
    pub(super) fn new(transcript: Transcript, clock: Clock) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), transcript, clock }
    }

    /// The highest resourceVersion so far.
    pub(super) fn revision(&self) -> u64 {
        self.state.lock().revision
    }

    /// Records a resourceVersion that occurred in a response.
    pub(super) fn saw_revision(&self, revision: u64) {
        let mut state = self.state.lock();
        state.revision = state.revision.max(revision);
    }

    /// Returns all known objects.
    pub(super) fn objects(&self) -> Vec<(Key, RecordedJson)> {
        self.state.lock().objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect()
    }

    /// Replaces the state of a resource by a list at `revision`, and follows the resource from now on. Differences to
    /// the known state are changes.
    pub(super) fn reset(&self, group: &str, resource: &str, listed: Vec<(Key, Value)>, revision: u64) {
        let known: Vec<Key> = {
            let mut state = self.state.lock();
            state.revision = state.revision.max(revision);
            let id = (group.to_owned(), resource.to_owned());
            if !state.followed.contains(&id) {
                state.followed.push(id);
            }
            let mine = state.objects.keys().filter(|key| key.group == group && key.resource == resource);
            mine.filter(|key| !listed.iter().any(|(other, _)| other == *key)).cloned().collect()
        };
        for (key, object) in listed {
            self.observe(ObservedChange { key, version: version(&object), object: Some(object.into()) });
        }
        for key in known {
            self.observe(ObservedChange { key, version: revision, object: None });
        }
    }

    /// Starts to record changes in the transcript. Returns the current objects: other clients in the cluster may have
    /// changed them since the list.
    pub(super) fn record(&self) -> Vec<RecordedJson> {
        let mut state = self.state.lock();
        state.recording = true;
        state.objects.values().cloned().collect()
    }

    /// Records a watch event.
    pub(super) fn observe(&self, seen: ObservedChange) {
        let mut state = self.state.lock();
        let ObservedChange { key, version, object } = seen;
        state.revision = state.revision.max(version);
        if state.versions.get(&key).is_some_and(|known| *known >= version) {
            return;
        }
        state.versions.insert(key.clone(), version);
        let old = match &object {
            Some(object) => state.objects.insert(key.clone(), object.clone()),
            None => state.objects.remove(&key),
        };
        let kind = match (&old, &object) {
            (_, None) => ChangeKind::Deleted,
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), Some(_)) => ChangeKind::Modified,
        };
        if !state.recording || (old.is_none() && object.is_none()) {
            return;
        }
        let now = self.clock.elapsed();
        state.writes.retain(|write| write.answered.is_none_or(|(at, _)| now.saturating_sub(at) < LATE));
        let cause = state.cause(&key, version, old.as_deref(), object.as_deref());
        let (request, actor, sure) = match cause {
            Some(index) => {
                let write = &mut state.writes[index];
                write.seen = true;
                (
                    Some(write.request),
                    write.actor.clone(),
                    write.answered.is_some_and(|(_, answered)| answered == Some(version)),
                )
            }
            None => (None, Actor::Server, false),
        };
        let Key { group, resource, namespace, name } = key;
        let change =
            Change { request, kind, group, resource, namespace, name, resource_version: version, old, new: object };
        let at = self.transcript.change(now, actor, change);
        state.recorded.insert(version, RecordedChange { at, request, sure });
        drop(state);
        self.changed.notify_waiters();
    }

    /// Announces the write with request number `request` to `path`.
    pub(super) fn begin(&self, request: usize, actor: Actor, path: &ResourcePath) {
        let write = InFlightWrite {
            request,
            actor,
            // Events are served in two groups and followed in one.
            group: if path.resource == "events" { String::new() } else { path.group.clone() },
            resource: path.resource.clone(),
            namespace: path.namespace.clone(),
            name: path.name.clone(),
            evicts: path.subresource == "eviction",
            answered: None,
            seen: false,
        };
        self.state.lock().writes.push(write);
    }

    /// Records the outcome of a write and the object in its response. Waits until the change was observed, if there is
    /// one.
    pub(super) async fn end(&self, request: usize, succeeded: bool, object: Option<&Value>) {
        let version = object.map(version).filter(|version| *version > 0);
        let waits = {
            let mut state = self.state.lock();
            let now = self.clock.elapsed();
            if !succeeded {
                state.writes.retain(|write| write.request != request);
                return;
            }
            if let Some(version) = version {
                state.revision = state.revision.max(version);
            }
            state.settle(request, version, now, &self.transcript)
        };
        if !waits {
            return;
        }
        let limit = self.clock.elapsed() + WATCH_PATIENCE;
        loop {
            let changed = self.changed.notified();
            let left = limit.saturating_sub(self.clock.elapsed());
            if left.is_zero() || self.state.lock().is_done(request, version) {
                return;
            }
            self.clock.timeout(left, changed).await;
        }
    }
}

impl TrackerState {
    /// Returns the index of the write that caused a change.
    fn cause(&self, key: &Key, version: u64, old: Option<&Value>, new: Option<&Value>) -> Option<usize> {
        let exact = |write: &InFlightWrite| {
            write.is_about(key) && write.answered.is_some_and(|(_, answered)| answered == Some(version))
        };
        let open = |write: &InFlightWrite| write.is_about(key) && write.answered.is_none();
        let late = |write: &InFlightWrite| {
            write.is_about(key)
                && !write.seen
                && write.answered.is_some_and(|(_, answered)| answered.is_none_or(|answered| answered < version))
        };
        let claims = |write: &InFlightWrite| {
            let claimed = |budget: Option<&Value>| {
                budget.is_some_and(|budget| !budget["status"]["disruptedPods"][&write.name].is_null())
            };
            write.evicts
                && key.resource == "poddisruptionbudgets"
                && key.namespace.as_deref() == Some(write.namespace.as_str())
                && claimed(new)
                && !claimed(old)
        };
        let find = |fits: &dyn Fn(&InFlightWrite) -> bool| self.writes.iter().position(fits);
        find(&exact).or_else(|| find(&claims)).or_else(|| find(&open)).or_else(|| find(&late))
    }

    /// Records the response to a write. Returns true if its change has not been observed yet.
    fn settle(&mut self, request: usize, version: Option<u64>, now: Duration, transcript: &Transcript) -> bool {
        let Some(index) = self.writes.iter().position(|write| write.request == request) else { return false };
        self.writes[index].answered = Some((now, version));
        let (actor, evicts, seen) = {
            let write = &self.writes[index];
            (write.actor.clone(), write.evicts, write.seen)
        };
        let followed = {
            let write = &self.writes[index];
            self.followed.iter().any(|(group, resource)| *group == write.group && *resource == write.resource)
        };
        if !followed {
            return false;
        }
        let Some(version) = version.filter(|_| !evicts) else { return !seen };
        if let Some(recorded) = self.recorded.get_mut(&version) {
            if !recorded.sure && recorded.request != Some(request) {
                // The change was attributed to another write in flight for the same object.
                transcript.attribute(recorded.at, actor, request);
                recorded.request = Some(request);
            }
            recorded.sure = true;
            self.writes[index].seen = true;
            return false;
        }
        let write = &self.writes[index];
        let known = self.versions.iter().filter(|(key, _)| write.is_about(key)).map(|(_, version)| *version).max();
        // A response with a known version changed nothing, unless the write deletes.
        known.is_none_or(|known| known < version)
    }

    fn is_done(&self, request: usize, version: Option<u64>) -> bool {
        let write = self.writes.iter().find(|write| write.request == request);
        write.is_none_or(|write| write.seen) || version.is_some_and(|version| self.recorded.contains_key(&version))
    }
}

#[cfg(test)]
mod tests {
    use plumbline::time::epoch;
    use plumbline::transcript::{Attributed as _, EntryKind, RecordedRequest};
    use plumbline_apiserver::request::Target;
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> ResourcePath {
        match Target::parse(text) {
            Target::Resource(path) => path,
            Target::NonResource(path) => panic!("{path}"),
        }
    }

    fn key(resource: &str, group: &str, name: &str) -> Key {
        Key {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: Some("d".to_owned()),
            name: name.to_owned(),
        }
    }

    fn object(version: u64) -> Value {
        json!({"metadata": {"name": "a", "namespace": "d", "resourceVersion": version.to_string()}})
    }

    fn pod(version: u64) -> ObservedChange {
        ObservedChange { key: key("pods", "", "a"), version, object: Some(object(version).into()) }
    }

    fn changes(transcript: &Transcript) -> Vec<(u64, Option<usize>, String)> {
        let changes = transcript.entries().into_iter().filter_map(|entry| match &entry.what {
            EntryKind::Change(change) => {
                Some((change.resource_version, change.request, entry.actor().name().to_owned()))
            }
            _ => None,
        });
        changes.collect()
    }

    /// Returns a tracker that knows `pods/a` at version 1 and records.
    fn tracker() -> (ChangeTracker, Transcript) {
        let transcript = Transcript::new();
        let tracker = ChangeTracker::new(transcript.clone(), Clock::virtual_from(epoch()));
        tracker.reset("", "pods", vec![(key("pods", "", "a"), object(1))], 1);
        tracker.reset("policy", "poddisruptionbudgets", Vec::new(), 1);
        tracker.record();
        (tracker, transcript)
    }

    fn virtually(test: impl AsyncFnOnce(ChangeTracker, Transcript)) {
        plumbline::time::run_virtual(async {
            let (tracker, transcript) = tracker();
            test(tracker, transcript).await;
        })
        .unwrap();
    }

    fn ask(transcript: &Transcript, actor: &Actor) -> usize {
        transcript.request(Duration::ZERO, actor.clone(), RecordedRequest::default())
    }

    #[test]
    fn a_change_belongs_to_the_write_under_way() {
        virtually(async |tracker, transcript| {
            let request = ask(&transcript, &Actor::PodGc);
            tracker.begin(request, Actor::PodGc, &path("/api/v1/namespaces/d/pods/a/status"));
            tracker.observe(pod(2));
            tracker.end(request, true, Some(&object(2))).await;
            // Observed twice, recorded once; a later change has no author.
            tracker.observe(pod(2));
            tracker.observe(pod(3));
            let described = changes(&transcript);
            assert_eq!(described, [(2, Some(request), "podgc".to_owned()), (3, None, "server".to_owned())]);
            assert_eq!(tracker.revision(), 3);
        });
    }

    #[test]
    fn of_two_writes_the_answer_says_whose_a_change_was() {
        virtually(async |tracker, transcript| {
            let one = ask(&transcript, &Actor::User);
            let two = ask(&transcript, &Actor::Disruption);
            tracker.begin(one, Actor::User, &path("/api/v1/namespaces/d/pods/a"));
            tracker.begin(two, Actor::Disruption, &path("/api/v1/namespaces/d/pods/a/status"));
            tracker.observe(pod(2));
            assert_eq!(changes(&transcript)[0].1, Some(one), "a guess");
            tracker.end(two, true, Some(&object(2))).await;
            assert_eq!(changes(&transcript), [(2, Some(two), "disruption".to_owned())]);
        });
    }

    #[test]
    fn an_answer_waits_for_its_change_but_not_for_ever() {
        virtually(async |tracker, transcript| {
            let request = ask(&transcript, &Actor::User);
            tracker.begin(request, Actor::User, &path("/api/v1/namespaces/d/pods/a"));
            let five = object(5);
            let ended = tracker.end(request, true, Some(&five));
            let event = async { tracker.observe(pod(5)) };
            let clock = Clock::virtual_from(epoch());
            futures::join!(ended, event);
            assert!(clock.elapsed() < WATCH_PATIENCE);
            assert_eq!(changes(&transcript)[0].1, Some(request));

            // A write that changed nothing does not wait; one whose change never arrives waits for the limit.
            let idle = ask(&transcript, &Actor::User);
            tracker.begin(idle, Actor::User, &path("/api/v1/namespaces/d/pods/a"));
            tracker.end(idle, true, Some(&object(5))).await;
            assert!(clock.elapsed() < WATCH_PATIENCE);
            assert_eq!(changes(&transcript)[0].1, Some(request), "it does not take the change of the one before");
            let lost = ask(&transcript, &Actor::User);
            tracker.begin(lost, Actor::User, &path("/api/v1/namespaces/d/pods/a"));
            tracker.end(lost, true, Some(&object(9))).await;
            assert!(clock.elapsed() >= WATCH_PATIENCE);
        });
    }

    #[test]
    fn a_claim_in_a_budget_belongs_to_the_eviction() {
        virtually(async |tracker, transcript| {
            let update = ask(&transcript, &Actor::Disruption);
            let eviction = ask(&transcript, &Actor::User);
            tracker.begin(eviction, Actor::User, &path("/api/v1/namespaces/d/pods/a/eviction"));
            tracker.begin(
                update,
                Actor::Disruption,
                &path("/apis/policy/v1/namespaces/d/poddisruptionbudgets/b/status"),
            );
            let budget = json!({"metadata": {"resourceVersion": "2"}, "status": {"disruptedPods": {"a": "t"}}});
            let key = key("poddisruptionbudgets", "policy", "b");
            tracker.observe(ObservedChange { key, version: 2, object: Some(budget.into()) });
            assert_eq!(changes(&transcript), [(2, Some(eviction), "user".to_owned())]);
        });
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        virtually(async |tracker, transcript| {
            tracker.reset("", "pods", Vec::new(), 7);
            assert_eq!(changes(&transcript), [(7, None, "server".to_owned())]);
            assert!(tracker.objects().is_empty());
        });
    }
}
