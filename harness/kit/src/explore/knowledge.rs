//! The states of objects that the subject could know, from the record alone: the lists that it got, the watch events
//! that left for it, and the replies to its own requests. Pure.
//!
//! A controller decides with what it knew when its work began, or learned since. So each request has a
//! [`WorkWindow`], and [`Knowledge::states`] returns all states of an object that its sender may have had in mind.
//! Nothing here reads the faults of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::entries::{is_start, is_start_of, key_of_request};
use super::work::{WorkWindow, begins_of_work, replica};
use crate::expect::world::{Key, ObjectStates, key_of_change};
use crate::metadata;
use crate::transcript::{
    Attributed, ChangeKind, Delivery, EntryKind, Exchange, RecordedJson, RecordedReply, RecordedRequest,
    TranscriptEntry, replica_of,
};

/// A state of an object that an informer of the subject shows from a moment on.
#[derive(Debug, Clone, Copy)]
pub struct Sighting<'a> {
    /// The place of the object's key in the names of the knowledge.
    object: usize,
    /// The replica whose informers they are; `None` if the subject has no replicas.
    replica: Option<u8>,
    /// Number of entries before it.
    pub position: usize,
    /// Its time.
    pub at: Duration,
    /// The state; `None` if there is no such object.
    pub state: Option<&'a RecordedJson>,
    /// The entry of the change that made the state; `None` if it is older than the run.
    pub change: Option<usize>,
}

/// The reply to a request of the subject about an object.
#[derive(Debug, Clone, Copy)]
struct Reading<'a> {
    position: usize,
    /// The time of the reply.
    at: Duration,
    /// The request.
    seq: usize,
    state: Option<&'a RecordedJson>,
}

/// A step of the history as a replica of the subject sees it.
#[derive(Debug, Clone, Copy)]
pub enum KnownStep<'k, 'a> {
    /// The controllers start and know nothing.
    Starts(&'a TranscriptEntry),
    /// An informer shows a state.
    Sees(&'k Key, Sighting<'a>),
    /// Another entry of the transcript.
    Entry(&'a TranscriptEntry),
}

/// The moment from which on controllers act on what their informers show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The moment at which it left the server: no controller can act sooner.
    Possible,
    /// The same, but not before all informers have their first list: controllers wait for that.
    Certain,
}

impl KnownStep<'_, '_> {
    /// Returns the time of the step.
    #[must_use]
    pub fn at(&self) -> Duration {
        match self {
            Self::Sees(_, sighting) => sighting.at,
            Self::Starts(entry) | Self::Entry(entry) => entry.at,
        }
    }
}

/// A state of an object on the server.
#[derive(Debug, Clone, Copy)]
struct Version<'a> {
    /// Number of entries before it.
    position: usize,
    /// Its resourceVersion.
    number: u64,
    /// `None` if the object was deleted.
    state: Option<&'a RecordedJson>,
}

/// The knowledge of the subject of a run.
#[derive(Debug, Clone)]
pub struct Knowledge<'a> {
    entries: &'a [TranscriptEntry],
    keys: BTreeMap<Key, usize>,
    names: Vec<Key>,
    versions: Vec<Vec<Version<'a>>>,
    sightings: Vec<Sighting<'a>>,
    /// The places in `sightings` of those of an object.
    of_object: Vec<Vec<usize>>,
    readings: Vec<Vec<Reading<'a>>>,
    /// The begin of the work to which a request of the subject belongs.
    begins: BTreeMap<usize, usize>,
}

/// Returns the resourceVersion of a state as a number.
pub(super) fn version(object: &RecordedJson) -> Option<u64> {
    metadata::resource_version(object)?.parse().ok()
}

/// Returns true for a list, and for a watch that begins with one.
fn is_list(request: &RecordedRequest) -> bool {
    let begins_with_one = || request.query_value("sendInitialEvents") == Some("true");
    request.verb == "list" || (request.verb == "watch" && begins_with_one())
}

impl<'a> Knowledge<'a> {
    /// Reads the record of a run that began with the objects of `begin`.
    #[must_use]
    pub fn new(begin: &'a ObjectStates, entries: &'a [TranscriptEntry], deliveries: &[Delivery]) -> Self {
        let mut knowledge = Self {
            entries,
            keys: BTreeMap::new(),
            names: Vec::new(),
            versions: Vec::new(),
            sightings: Vec::new(),
            of_object: Vec::new(),
            readings: Vec::new(),
            begins: begins_of_work(entries),
        };
        for (key, object) in begin.keyed().filter(|(key, _)| key.resource != "events") {
            let number = version(object).unwrap_or_default();
            knowledge.note(key.clone(), Version { position: 0, number, state: Some(object) });
        }
        for entry in entries {
            if let EntryKind::Change(change) = &entry.what
                && change.resource != "events"
            {
                let number = change.resource_version;
                let version = Version { position: entry.seq + 1, number, state: change.new.as_ref() };
                knowledge.note(key_of_change(change), version);
            }
        }
        knowledge.follow(deliveries);
        knowledge
    }

    fn note(&mut self, key: Key, version: Version<'a>) {
        let object = self.object(key);
        self.versions[object].push(version);
    }

    fn object(&mut self, key: Key) -> usize {
        if let Some(object) = self.keys.get(&key) {
            return *object;
        }
        let object = self.names.len();
        self.names.push(key.clone());
        self.keys.insert(key, object);
        self.versions.push(Vec::new());
        self.of_object.push(Vec::new());
        self.readings.push(Vec::new());
        object
    }

    /// Follows lists, replies and watch events in the order in which they left the server.
    fn follow(&mut self, deliveries: &[Delivery]) {
        let mut replies: Vec<(usize, &'a TranscriptEntry, &'a Exchange, &'a RecordedReply)> = Vec::new();
        for entry in self.entries {
            let EntryKind::Request(exchange) = &entry.what else { continue };
            let Some(reply) = exchange.reply.as_ref().filter(|reply| !reply.lost) else { continue };
            if entry.actor().is_subject() && exchange.request.resource != "events" {
                replies.push((self.position(entry, reply), entry, exchange, reply));
            }
        }
        replies.sort_by_key(|(position, ..)| *position);
        let mut replies = replies.into_iter().peekable();
        for delivery in deliveries {
            while let Some((position, entry, exchange, reply)) = replies.next_if(|it| it.0 <= delivery.position) {
                self.replied(position, entry, exchange, reply);
            }
            self.delivered(delivery);
        }
        for (position, entry, exchange, reply) in replies {
            self.replied(position, entry, exchange, reply);
        }
    }

    /// Returns the number of entries before the moment of a reply.
    fn position(&self, entry: &TranscriptEntry, reply: &RecordedReply) -> usize {
        self.entries.partition_point(|other| other.at < reply.at).max(entry.seq + 1)
    }

    fn replied(&mut self, position: usize, entry: &TranscriptEntry, exchange: &'a Exchange, reply: &'a RecordedReply) {
        let request = &exchange.request;
        if is_list(request) {
            if let Some(revision) = reply.revision {
                self.listed((position, reply.at), exchange, revision);
            }
            return;
        }
        let Some(key) = key_of_request(request).filter(|_| request.verb != "watch") else { return };
        let state = match reply.status {
            200..300 if request.subresource.as_deref().is_none_or(|of| of == "status") => reply.body.as_ref(),
            404 => None,
            _ => return,
        };
        let object = self.object(key);
        self.readings[object].push(Reading { position, at: reply.at, seq: entry.seq, state });
    }

    /// Notes the reply to a list: the state of each object of the resource at the revision.
    fn listed(&mut self, (position, at): (usize, Duration), exchange: &Exchange, revision: u64) {
        let request = &exchange.request;
        let replica = replica_of(&request.user_agent);
        let lists = |key: &Key| {
            let near = |namespace| key.namespace.as_ref() == Some(namespace);
            key.resource == request.resource
                && key.group == request.group
                && request.namespace.as_ref().is_none_or(near)
        };
        for object in 0..self.names.len() {
            if !lists(&self.names[object]) {
                continue;
            }
            let shown = self.versions[object].iter().rev().find(|version| version.number <= revision);
            let change = shown.and_then(|version| version.position.checked_sub(1));
            let state = shown.and_then(|version| version.state);
            self.see(Sighting { object, replica, position, at, state, change });
        }
    }

    fn delivered(&mut self, delivery: &Delivery) {
        let Some(entry) = self.entries.get(delivery.watch).filter(|entry| entry.actor().is_subject()) else { return };
        let EntryKind::Request(watch) = &entry.what else { return };
        let seen = &delivery.object;
        let key = Key {
            group: watch.request.group.clone(),
            resource: watch.request.resource.clone(),
            namespace: seen.namespace.as_deref().map(str::to_owned),
            name: seen.name.to_string(),
        };
        let Some(object) = self.keys.get(&key).copied() else { return };
        let of_event = |version: &&Version<'a>| version.number == seen.resource_version;
        let shown = self.versions[object].iter().rev().find(of_event);
        let state = match shown {
            _ if seen.kind == ChangeKind::Deleted => None,
            Some(version) => version.state,
            None => return,
        };
        let change = shown.and_then(|version| version.position.checked_sub(1));
        let replica = replica_of(&watch.request.user_agent);
        self.see(Sighting { object, replica, position: delivery.position, at: delivery.at, state, change });
    }

    fn see(&mut self, sighting: Sighting<'a>) {
        self.of_object[sighting.object].push(self.sightings.len());
        self.sightings.push(sighting);
    }

    /// Returns the window in which the request at `seq` was decided upon.
    #[must_use]
    pub fn window(&self, seq: usize) -> WorkWindow {
        WorkWindow { begin: self.begins.get(&seq).copied().unwrap_or(seq), seq }
    }

    /// Returns the states of an object that the sender of a request may have had in mind: those that its informers
    /// showed in the window, and those of replies that it got in the window. `None`: there was no such object.
    #[must_use]
    pub fn states(&self, key: &Key, window: WorkWindow) -> Vec<Option<&'a RecordedJson>> {
        let Some(object) = self.keys.get(key).copied() else { return vec![None] };
        let replica = self.replica_of(window.seq);
        let mut states: Vec<Option<&'a RecordedJson>> = Vec::new();
        let mut before = None;
        for sighting in self.of_object[object].iter().map(|place| &self.sightings[*place]) {
            if sighting.replica != replica || sighting.position > window.seq {
                continue;
            }
            if sighting.position <= window.begin {
                before = sighting.state;
            } else {
                states.push(sighting.state);
            }
        }
        states.push(before);
        states.extend(self.read_states(object, window));
        states
    }

    /// Returns the states of an object in the replies to GET requests that the sender of a request got in the window,
    /// in the order of the replies.
    #[must_use]
    pub fn live_reads(&self, key: &Key, window: WorkWindow) -> Vec<Option<&'a RecordedJson>> {
        let Some(object) = self.keys.get(key).copied() else { return Vec::new() };
        let begin = self.entries.get(window.begin).map_or(Duration::ZERO, |entry| entry.at);
        let is_live = |reading: &&Reading<'a>| {
            let entry = self.entries.get(reading.seq).map(|entry| &entry.what);
            let is_get = matches!(entry, Some(EntryKind::Request(exchange)) if exchange.request.verb == "get");
            is_get && reading.at >= begin
        };
        self.read_in(object, window).filter(is_live).map(|reading| reading.state).collect()
    }

    fn read_states(&self, object: usize, window: WorkWindow) -> impl Iterator<Item = Option<&'a RecordedJson>> {
        self.read_in(object, window).map(|reading| reading.state)
    }

    /// Returns the replies about an object that the sender of a request got in the window.
    fn read_in(&self, object: usize, window: WorkWindow) -> impl Iterator<Item = &Reading<'a>> {
        let client = |seq: usize| self.entries.get(seq).map(|entry| (entry.actor(), replica(entry)));
        let sender = client(window.seq);
        self.readings[object].iter().filter(move |reading| {
            (window.begin..=window.seq).contains(&reading.position) && client(reading.seq) == sender
        })
    }

    /// Returns true if the present state of an object is among those that the sender of a request may have had in mind.
    #[must_use]
    pub fn is_current(&self, key: &Key, window: WorkWindow) -> bool {
        let Some(object) = self.keys.get(key).copied() else { return true };
        let present = self.present_version(object, window.seq);
        self.states(key, window).iter().any(|known| known.and_then(version) == present)
    }

    /// Returns true if the sender of a request may have had another state of the object in mind than the one that the
    /// request met.
    #[must_use]
    pub fn may_be_outdated(&self, key: &Key, window: WorkWindow) -> bool {
        let Some(object) = self.keys.get(key).copied() else { return false };
        let present = self.present_version(object, window.seq);
        let replied = self.entries.get(window.seq).map_or(window.seq, |entry| self.end_of(entry));
        let changes = |version: &Version<'a>| version.position > window.begin && version.position <= replied;
        self.versions[object].iter().any(changes)
            || self.states(key, window).iter().any(|known| known.and_then(version) != present)
    }

    /// Returns the number of entries before the reply to a request.
    fn end_of(&self, entry: &TranscriptEntry) -> usize {
        let reply = match &entry.what {
            EntryKind::Request(exchange) => exchange.reply.as_ref(),
            EntryKind::Change(_) | EntryKind::Note(_) => None,
        };
        reply.map_or(usize::MAX, |reply| self.position(entry, reply))
    }

    /// Returns the state of an object before the entry at `seq`.
    #[must_use]
    pub fn present(&self, key: &Key, seq: usize) -> Option<&'a RecordedJson> {
        self.version_before(*self.keys.get(key)?, seq)?.state
    }

    /// Returns true if the subject made the state of an object before the entry at `seq`.
    #[must_use]
    pub fn is_own(&self, key: &Key, seq: usize) -> bool {
        let version = self.keys.get(key).and_then(|object| self.version_before(*object, seq));
        let change = version.and_then(|version| self.entries.get(version.position.checked_sub(1)?));
        change.is_some_and(|entry| entry.actor().is_subject())
    }

    fn version_before(&self, object: usize, seq: usize) -> Option<&Version<'a>> {
        self.versions[object].iter().rev().find(|version| version.position <= seq)
    }

    /// Returns the resourceVersion of an object before the entry at `seq`; `None` if there is no such object.
    fn present_version(&self, object: usize, seq: usize) -> Option<u64> {
        self.version_before(object, seq).and_then(|version| version.state).and_then(version)
    }

    /// Returns the objects of that name that the sender of a request may have had in mind, or that a reply showed any
    /// client of the subject last, since the subject started.
    #[must_use]
    pub fn known_objects(&self, key: &Key, seq: usize) -> Vec<&'a RecordedJson> {
        let Some(object) = self.keys.get(key).copied() else { return Vec::new() };
        let is_start = |entry: &TranscriptEntry| self.entries.get(seq).is_some_and(|sent| is_start_of(entry, sent));
        let started = self.entries[..seq.min(self.entries.len())].iter().rposition(is_start).unwrap_or_default();
        let is_recent = |position: usize| (started..=seq).contains(&position);
        let mut seen = self.of_object[object].iter().map(|place| &self.sightings[*place]);
        let seen = seen.rfind(|sighting| is_recent(sighting.position)).and_then(|sighting| sighting.state);
        let read = self.readings[object].iter().rfind(|reading| is_recent(reading.position));
        let mut known = self.states(key, self.window(seq));
        known.extend([seen, read.and_then(|reading| reading.state)]);
        known.into_iter().flatten().collect()
    }

    /// Returns the sightings of an object by a replica, in order.
    pub fn sightings(&self, key: &Key, replica: Option<u8>) -> impl Iterator<Item = &Sighting<'a>> {
        let places = self.keys.get(key).map_or(&[][..], |object| &self.of_object[*object]);
        places.iter().map(|place| &self.sightings[*place]).filter(move |sighting| sighting.replica == replica)
    }

    /// Returns the number of sightings in a period, both ends included.
    #[must_use]
    pub fn sightings_between(&self, since: Duration, until: Duration) -> i64 {
        let first = self.sightings.partition_point(|sighting| sighting.at < since);
        let count = self.sightings[first..].iter().take_while(|sighting| sighting.at <= until).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// Returns true if an object that is meant changed, and no informer ever showed it.
    #[must_use]
    pub fn is_changed_unseen(&self, is_meant: impl Fn(&Key) -> bool) -> bool {
        let changes = |object: usize| self.versions[object].iter().any(|version| version.position > 0);
        let is_unseen = |object: usize| self.of_object[object].is_empty() && changes(object);
        self.names.iter().enumerate().any(|(object, key)| is_meant(key) && is_unseen(object))
    }

    /// Returns the times at which informers first showed changes of the objects that are meant, if that was later than
    /// the change. Changes that no later state hides and that no informer ever showed are those of the end of the run.
    pub fn late_news(&self, is_meant: impl Fn(&Key) -> bool) -> impl Iterator<Item = Duration> {
        self.names.iter().enumerate().filter(move |(_, key)| is_meant(key)).flat_map(move |(object, _)| {
            let seen = &self.of_object[object];
            self.versions[object].iter().filter(|version| version.position > 0).filter_map(move |version| {
                let at = self.entries.get(version.position - 1)?.at;
                let shows = |place: &&usize| {
                    let change = self.sightings[**place].change;
                    change.is_some_and(|change| change + 1 >= version.position)
                };
                let shown = seen.iter().find(shows).map(|place| self.sightings[*place].at)?;
                (shown > at).then_some(shown)
            })
        })
    }

    /// Returns the number of sightings of the objects that are meant between these entries.
    #[must_use]
    pub fn sightings_within(&self, entries: RangeInclusive<usize>, is_meant: impl Fn(&Key) -> bool) -> usize {
        let is_within = |sighting: &&Sighting<'a>| entries.contains(&sighting.position);
        self.sightings.iter().filter(is_within).filter(|sighting| is_meant(&self.names[sighting.object])).count()
    }

    /// Returns the replicas with informers; `None` is a subject without replicas.
    #[must_use]
    pub fn replicas(&self) -> BTreeSet<Option<u8>> {
        self.sightings.iter().map(|sighting| sighting.replica).collect()
    }

    /// Returns the replica that sent the request at `seq`.
    #[must_use]
    pub fn replica_of(&self, seq: usize) -> Option<u8> {
        self.entries.get(seq).and_then(replica)
    }

    /// Returns the number of entries before the last start of the controllers before the entry at `seq`.
    #[must_use]
    pub fn started(&self, seq: usize) -> usize {
        self.entries[..seq.min(self.entries.len())].iter().rposition(is_start).unwrap_or_default()
    }

    /// Returns the number of entries before a time.
    #[must_use]
    pub fn position_at(&self, time: Duration) -> usize {
        self.entries.partition_point(|entry| entry.at < time)
    }

    /// Returns the history as the informers of a replica show it, with the entries of the transcript in between.
    pub fn steps(&self, replica: Option<u8>, view: View) -> impl Iterator<Item = KnownStep<'_, 'a>> {
        let synced = if view == View::Certain { self.synced(replica) } else { Vec::new() };
        let noticed = move |sighting: &Sighting<'a>| {
            let started = synced.partition_point(|sync| sync.started < sighting.position).checked_sub(1);
            let Some(sync) = started.map(|place| &synced[place]) else { return Some(*sighting) };
            let (position, at) = sync.done?;
            Some(Sighting { position: sighting.position.max(position), at: sighting.at.max(at), ..*sighting })
        };
        let mut sightings =
            self.sightings.iter().filter(move |sighting| sighting.replica == replica).filter_map(noticed).peekable();
        let mut entries = self.entries.iter().peekable();
        std::iter::from_fn(move || {
            let next = entries.peek().map_or(usize::MAX, |entry| entry.seq);
            if let Some(sighting) = sightings.next_if(|sighting| sighting.position <= next) {
                return Some(KnownStep::Sees(&self.names[sighting.object], sighting));
            }
            let entry = entries.next()?;
            Some(if is_start(entry) { KnownStep::Starts(entry) } else { KnownStep::Entry(entry) })
        })
    }

    /// Returns each start of the controllers, and the time at which all informers of a replica had a first list;
    /// `None`: never.
    #[must_use]
    pub fn first_lists(&self, replica: Option<u8>) -> Vec<(usize, Option<Duration>)> {
        self.synced(replica).into_iter().map(|first| (first.started, first.done.map(|(_, at)| at))).collect()
    }

    /// Returns for each start of the controllers when all informers of a replica had a first list of their resource.
    fn synced(&self, replica: Option<u8>) -> Vec<FirstLists> {
        let mut starts = vec![FirstLists { started: 0, done: Some((0, Duration::ZERO)) }];
        // The resources that were asked for since the last start, and the first list of each.
        let mut lists: BTreeMap<(&str, &str), Option<(usize, Duration)>> = BTreeMap::new();
        for entry in self.entries {
            if is_start(entry) {
                starts.push(FirstLists { started: entry.seq, done: Some((entry.seq, entry.at)) });
                lists.clear();
            }
            let EntryKind::Request(exchange) = &entry.what else { continue };
            let request = &exchange.request;
            if !is_list(request) || !entry.actor().is_subject() || self.replica_of(entry.seq) != replica {
                continue;
            }
            let reply = exchange.reply.as_ref().filter(|reply| !reply.lost && reply.status == 200);
            let list = lists.entry((&request.group, &request.resource)).or_default();
            if list.is_none() {
                *list = reply.map(|reply| (self.position(entry, reply), reply.at));
                let all: Option<Vec<(usize, Duration)>> = lists.values().copied().collect();
                let last = all.map(|all| all.into_iter().fold((0, Duration::ZERO), Ord::max));
                starts.last_mut().expect("the first start").done = last;
            }
        }
        starts
    }
}

/// The moment in which the informers of controllers that started had their first lists.
#[derive(Debug, Clone, Copy)]
struct FirstLists {
    /// The entry of the start.
    started: usize,
    /// The number of entries before that moment, and its time; `None` if it never came.
    done: Option<(usize, Duration)>,
}
