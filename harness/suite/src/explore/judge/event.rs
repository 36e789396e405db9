//! Oracle `event`: Events say what the controllers do, once, and no more often than the recorder's limit allows. Pure.
//!
//! | kind | holds if |
//! |---|---|
//! | `eviction` | a pod that taint eviction deletes has an Event that says so |
//! | `a countdown ends` | a countdown that ends without an eviction has an Event that says so |
//! | `no countdown ends` | there are no more such Events than countdowns that ended |
//! | `a countdown ended before` | such an Event comes at once, in runs without faults |
//! | `failure` | a budget that cannot be computed has an Event with the reason |
//! | `limit` | a controller sends 25 Events of a type about an object, then one in five minutes |
//!
//! Sources: `pkg/controller/tainteviction/taint_eviction.go` (`emitPodDeletionEvent`, `emitCancelPodDeletionEvent`),
//! `pkg/controller/disruption/disruption.go` (`trySync`), client-go `tools/record/events_cache.go` (`defaultSpamBurst`,
//! `defaultSpamQPS`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::expect::requests;
use plumbline::expect::world::ObjectStates;
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::{changes, is_start};
use plumbline::explore::knowledge::{KnownStep, View};
use plumbline::fixture::{Controller, Fixture};
use plumbline::metadata;
use plumbline::rules::budgets::{BUDGETS, says_sync_failed};
use plumbline::rules::recorder::{SPAM_BURST, count_of, event_of, most_events, object_of};
use plumbline::rules::taints::toleration_limit_of;
use plumbline::transcript::{Actor, Attributed as _, Change, EntryKind, RecordedJson, RecordedReply, TranscriptEntry};
use serde_json::{Value, json};

use super::breaches::of_change;
use super::disturbances::is_calm;
use super::known::ReplacedStates;
use crate::explore::run::explored::ExploredRun;

/// The reason of the Events about evictions because of a taint.
const EVICTED: &str = "TaintManagerEviction";
/// The beginning of the message of an Event about a countdown that ends without an eviction.
const CANCELLED: &str = "Cancelling deletion";
/// The reasons of the Events about budgets that cannot be computed.
const FAILED: [&str; 2] = ["CalculateExpectedPodCountFailed", "NoPods"];
/// The name of the oracle.
const ORACLE: &str = "event";
/// The kind of events, as the resource of changes.
const EVENTS: &str = "events";
/// Time by which a countdown is known, and by which it must end before the eviction, to be judged.
const CLEARLY: Duration = Duration::from_secs(1);

/// Returns the breaches about Events.
pub(super) fn breaches(fixture: &Fixture, begin: &ObjectStates, explored: ExploredRun<'_>) -> Vec<Breach> {
    // Each replica has a recorder of its own.
    if explored.knowledge.replicas().iter().any(Option::is_some) {
        return Vec::new();
    }
    let entries = explored.until_quiet();
    let mut breaches: Vec<Breach> = too_many(entries).into_iter().collect();
    let calm = is_calm(explored);
    let limited = fixture.flags.contains_key("kube-api-qps");
    if fixture.controllers.contains(&Controller::TaintEviction) && !limited && !loses_events(entries) {
        breaches.extend(cancellations(begin, explored, calm));
    }
    if calm {
        breaches.extend(silent_eviction(entries));
        breaches.extend(silent_failure(entries));
    }
    breaches
}

/// Returns true if a request about an Event failed, or was answered late: the Event may be lost, or counted with
/// others.
pub(super) fn loses_events(entries: &[TranscriptEntry]) -> bool {
    requests(entries).any(|(entry, exchange)| {
        let is_prompt = |reply: &RecordedReply| !reply.lost && reply.status < 400 && reply.at == entry.at;
        exchange.request.resource == EVENTS
            && entry.actor().is_subject()
            && !exchange.reply.as_ref().is_some_and(is_prompt)
    })
}

/// Returns the objects and reasons of all Events.
fn reported(entries: &[TranscriptEntry]) -> BTreeSet<(String, String)> {
    let events = entries.iter().filter_map(|entry| match &entry.what {
        EntryKind::Change(change) if change.resource == EVENTS => change.new.as_deref().map(event_of),
        _ => None,
    });
    events.collect()
}

/// Returns the first pod whose deletion by taint eviction has no Event.
fn silent_eviction(entries: &[TranscriptEntry]) -> Option<Breach> {
    let events = reported(entries);
    let terminating = |pod: &Value| metadata::is_terminating(pod);
    let deletes = |change: &Change| {
        change.new.as_deref().is_none_or(|new| terminating(new) && !change.old.as_deref().is_some_and(terminating))
    };
    let has_event = |change: &Change| events.contains(&(format!("Pod/{}", change.name), EVICTED.to_owned()));
    let mut deletions = changes(entries, Actor::TaintEviction, "pods").filter(|(_, change)| deletes(change));
    let (entry, change) = deletions.find(|(_, change)| !has_event(change))?;
    let text = format!("pods/{} is evicted, and there is no Event {EVICTED} about it", change.name);
    Some(of_change(ORACLE, change, "eviction".to_owned(), entry.at, text))
}

/// Returns the first budget that begins to fail and has no Event with the reason. One whose status was refused needs
/// none, nor does one about which the recorder has sent as many warnings as it may.
fn silent_failure(entries: &[TranscriptEntry]) -> Option<Breach> {
    let events = reported(entries);
    let begins = |change: &Change| {
        change.new.as_deref().is_some_and(says_sync_failed) && !change.old.as_deref().is_some_and(says_sync_failed)
    };
    let has_event = |change: &Change| {
        let about = format!("PodDisruptionBudget/{}", change.name);
        FAILED.iter().any(|reason| events.contains(&(about.clone(), (*reason).to_owned())))
    };
    let is_refused = |change: &Change| {
        requests(entries).any(|(entry, exchange)| {
            entry.actor() == Actor::Disruption
                && exchange.request.name.as_ref() == Some(&change.name)
                && exchange.reply.as_ref().is_some_and(|reply| reply.status >= 400)
        })
    };
    let mut failures = changes(entries, Actor::Disruption, BUDGETS).filter(|(_, change)| begins(change));
    let is_silent = |entry: &TranscriptEntry, change: &Change| {
        !has_event(change) && !is_refused(change) && warnings(entries, &change.name, entry.at) < u64::from(SPAM_BURST)
    };
    let (entry, change) = failures.find(|(entry, change)| is_silent(entry, change))?;
    let text = format!("pdb/{} cannot be computed, and there is no Event {} about it", change.name, FAILED[0]);
    Some(of_change(ORACLE, change, "failure".to_owned(), entry.at, text))
}

/// Returns the number of warnings about budgets of this name that the disruption controller has sent until `at`.
fn warnings(entries: &[TranscriptEntry], budget: &str, at: Duration) -> u64 {
    let about = format!("PodDisruptionBudget/{budget}");
    let is_warning = |event: &Value| event["type"] == "Warning" && event_of(event).0 == about;
    let sent = changes(entries, Actor::Disruption, EVENTS).filter(|(entry, _)| entry.at <= at);
    sent.filter(|(_, change)| change.new.as_deref().is_some_and(is_warning)).count() as u64
}

/// Returns the first Event that a recorder sends although it has sent too many of its type about its object. Each
/// replica, and each program, has a recorder of its own, so that only runs with one are judged.
fn too_many(entries: &[TranscriptEntry]) -> Option<Breach> {
    let mut sent: BTreeMap<(Actor, String, String), (u32, Duration)> = BTreeMap::new();
    for entry in entries {
        if is_start(entry) {
            sent.clear();
        }
        let EntryKind::Change(change) = &entry.what else { continue };
        if !entry.actor().is_subject() {
            continue;
        }
        let Some(event) = change.new.as_deref().filter(|_| change.resource == EVENTS) else { continue };
        let key = (entry.actor(), object_of(event).to_string(), event["type"].to_string());
        let (count, first) = sent.entry(key).or_insert((0, entry.at));
        *count += 1;
        if u64::from(*count) > most_events(entry.at.saturating_sub(*first)) {
            let about = event_of(event).0;
            let text = format!("the {count}th Event about {about} is sent at {:?}, above the limit", entry.at);
            return Some(of_change(ORACLE, change, "limit".to_owned(), entry.at, text));
        }
    }
    None
}

/// The countdown of a pod, or its eviction.
#[derive(Debug, Clone, Copy)]
struct Countdown {
    since: Duration,
    /// The time of the eviction.
    deadline: Duration,
    /// False if the pod is being deleted already, so that its eviction may be over.
    is_certain: bool,
}

/// The Events about countdowns of the pods of one name that ended without an eviction.
#[derive(Debug, Clone, Default)]
struct Cancellations {
    /// The ends of countdowns that were certainly running.
    certain: Vec<Duration>,
    /// Number of evictions that were called off while they were tried.
    tried: usize,
    /// Number that there may be.
    most: usize,
    /// The end of the last countdown.
    last: Duration,
}

/// Pods by namespace and name.
type PodKey = (String, String);

/// The countdowns of a history.
#[derive(Debug, Default)]
struct Countdowns {
    /// By the pod's UID.
    running: BTreeMap<String, Countdown>,
    ended: BTreeMap<PodKey, Cancellations>,
    /// UIDs of pods whose eviction was called off when it was due, and the times of that.
    due: Vec<(String, PodKey, Duration)>,
    /// The last end of a countdown, by the pod's UID.
    ends: BTreeMap<String, Duration>,
}

impl Countdowns {
    /// Updates the countdowns of these pods of `world`.
    fn update<'w>(&mut self, world: &ObjectStates, pods: impl Iterator<Item = &'w Value>, now: Duration) {
        for pod in pods {
            let uid = metadata::uid(pod).unwrap_or_default();
            match (self.running.get_mut(uid), toleration_limit_of(world, pod)) {
                (None, Some(limit)) => {
                    let countdown = Countdown { since: now, deadline: now.saturating_add(limit), is_certain: true };
                    self.running.insert(uid.to_owned(), countdown);
                }
                // After an eviction another countdown begins with the next change, which may have been any since then.
                (Some(countdown), Some(limit)) if countdown.deadline <= now && metadata::is_terminating(pod) => {
                    *countdown = Countdown { since: now, deadline: now.saturating_add(limit), is_certain: false };
                    self.ended.entry(key_of(pod)).or_default().most += usize::from(limit.is_zero());
                }
                // The eviction at once takes the place of the countdown.
                (Some(countdown), Some(Duration::ZERO)) if countdown.deadline > now => {
                    countdown.deadline = now;
                    self.ended.entry(key_of(pod)).or_default().most += 1;
                }
                // The deletion of a node ends no countdown.
                (Some(_), None) if world.all("nodes").any(|(key, _)| pod["spec"]["nodeName"] == *key.name) => {
                    self.end(pod, now);
                }
                _ => {}
            }
        }
    }

    /// Notes that a countdown of the pod may have begun and ended at once.
    fn begin_and_end(&mut self, pod: &Value) {
        if !self.running.contains_key(metadata::uid(pod).unwrap_or_default()) {
            self.ended.entry(key_of(pod)).or_default().most += 1;
        }
    }

    /// Notes a live read of a node: it may call off the evictions of its pods, whose countdowns go on.
    fn read(&mut self, world: &ObjectStates, node: &str) {
        let pods = world.all("pods").filter(|(_, pod)| pod["spec"]["nodeName"] == node);
        for (_, pod) in pods.filter(|(_, pod)| self.running.contains_key(metadata::uid(pod).unwrap_or_default())) {
            self.ended.entry(key_of(pod)).or_default().most += 1;
        }
    }

    /// Ends an instant. A countdown that begins with a state that does not outlast it, or after the end of another one,
    /// may not be noticed. Neither may an end after which another one begins, or the node is deleted, which ends none.
    fn settle(&mut self, world: &ObjectStates, instant: Duration) {
        let is_lost = |pod: &Value| !world.all("nodes").any(|(key, _)| pod["spec"]["nodeName"] == *key.name);
        for (_, pod) in world.all("pods") {
            let uid = metadata::uid(pod).unwrap_or_default();
            let has_ended = self.ends.get(uid) == Some(&instant);
            let begun = self.running.get_mut(uid).filter(|countdown| countdown.since == instant);
            let begins = begun.is_some();
            if let Some(countdown) = begun {
                countdown.is_certain &= !has_ended && toleration_limit_of(world, pod).is_some();
            }
            if has_ended && (begins || is_lost(pod)) {
                self.ended.entry(key_of(pod)).or_default().certain.retain(|end| *end != instant);
                self.due.retain(|(other, _, at)| other != uid || *at != instant);
            }
        }
    }

    /// Ends the countdown of a pod that may stay, or has been deleted.
    fn end(&mut self, pod: &Value, now: Duration) {
        let uid = metadata::uid(pod).unwrap_or_default();
        let Some(Countdown { since, deadline, is_certain }) = self.running.remove(uid) else { return };
        self.ends.insert(uid.to_owned(), now);
        let ended = self.ended.entry(key_of(pod)).or_default();
        (ended.most, ended.last) = (ended.most + 1, now);
        let is_known = is_certain && now >= since + CLEARLY;
        if is_known && now + CLEARLY <= deadline {
            ended.certain.push(now);
        } else if is_known && !metadata::is_terminating(pod) {
            self.due.push((uid.to_owned(), key_of(pod), now));
        }
    }
}

/// Returns the node that taint eviction reads before it evicts a pod.
fn live_read(entry: &TranscriptEntry) -> Option<&str> {
    match &entry.what {
        EntryKind::Request(exchange) if entry.actor() == Actor::TaintEviction => {
            let request = &exchange.request;
            request.name.as_deref().filter(|_| request.verb == "get" && request.resource == "nodes")
        }
        _ => None,
    }
}

fn key_of(pod: &Value) -> PodKey {
    (metadata::namespace(pod).unwrap_or_default().to_owned(), metadata::name(pod).to_owned())
}

/// Returns the first pod with fewer or more Events about cancelled evictions than countdowns that ended, or, if nothing
/// delays them, with one that comes late. Countdowns are those of the objects that the informers show.
fn cancellations(begin: &ObjectStates, explored: ExploredRun<'_>, calm: bool) -> Option<Breach> {
    let mut world = begin.without_objects();
    let mut countdowns = Countdowns::default();
    let mut replaced_states = ReplacedStates::default();
    let mut reported: BTreeMap<PodKey, Reports> = BTreeMap::new();
    let mut instant = Duration::ZERO;
    for step in explored.knowledge.steps(None, View::Certain) {
        if step.at() > instant {
            countdowns.settle(&world, instant);
            instant = step.at();
        }
        match step {
            KnownStep::Starts(_) => {
                // Countdowns and unsent Events are lost with the memory of the controllers.
                world = begin.without_objects();
                countdowns = Countdowns::default();
                reported.clear();
            }
            KnownStep::Sees(key, sighting) => {
                let old = world.get(key).cloned();
                replaced_states.note(key, old.as_ref(), sighting.at);
                world.put(key.clone(), sighting.state.cloned());
                match (key.resource.as_str(), old, sighting.state) {
                    ("pods", old, Some(new)) => {
                        let is_another = |old: &RecordedJson| metadata::uid(old) != metadata::uid(new);
                        old.filter(is_another).iter().for_each(|old| countdowns.end(old, sighting.at));
                        if replaced_states.toleration_limit(new).is_some() {
                            countdowns.begin_and_end(new);
                        }
                        countdowns.update(&world, [&**new].into_iter(), sighting.at);
                    }
                    ("pods", Some(old), None) => countdowns.end(&old, sighting.at),
                    ("nodes", ..) => {
                        let on_node = world.all("pods").filter(|(_, pod)| pod["spec"]["nodeName"] == *key.name);
                        countdowns.update(&world, on_node.map(|(_, pod)| &**pod), sighting.at);
                    }
                    _ => {}
                }
            }
            KnownStep::Entry(entry) if entry.seq >= explored.observation.quiet_at => break,
            KnownStep::Entry(entry) => {
                if let Some(node) = live_read(entry) {
                    countdowns.read(&world, node);
                }
                let EntryKind::Change(change) = &entry.what else { continue };
                let event =
                    change.new.as_deref().filter(|event| change.resource == EVENTS && event["reason"] == EVICTED);
                if let Some(event) = event {
                    let about = event_of(event).0.trim_start_matches("Pod/").to_owned();
                    let key = (change.namespace.clone().unwrap_or_default(), about);
                    reported.entry(key).or_default().note(change.old.as_deref(), event, entry.at);
                }
            }
        }
    }
    // An eviction that was called off while it was tried is reported if the pod stays.
    let Countdowns { mut ended, due, .. } = countdowns;
    for (uid, key, at) in due {
        let stays = |pod: &Value| metadata::uid(pod) == Some(&*uid) && !metadata::is_terminating(pod);
        if world.all("pods").any(|(_, pod)| stays(pod)) {
            let ended = ended.entry(key).or_default();
            (ended.tried, ended.last) = (ended.tried + 1, ended.last.max(at));
        }
    }
    let names: BTreeSet<&PodKey> = ended.keys().chain(reported.keys()).collect();
    names.into_iter().find_map(|key| {
        let reports = reported.get(key).cloned().unwrap_or_default();
        let Cancellations { certain, tried, most, last } = ended.get(key).cloned().unwrap_or_default();
        let count = reports.cancelled.len();
        let kind = match count {
            // Beyond the recorder's limit Events wait.
            _ if reports.all >= i64::from(SPAM_BURST) => return None,
            _ if count < certain.len() + tried => "a countdown ends",
            _ if count > most => "no countdown ends",
            _ if calm && !reports.are_prompt(&certain) => "a countdown ended before",
            _ => return None,
        };
        let text = format!(
            "{count} Events say that the eviction of pods/{} is cancelled, at {:?}; its countdowns ended at {certain:?}",
            key.1, reports.cancelled
        );
        let oracle = ORACLE.to_owned();
        let resource = "pods".to_owned();
        Some(Breach { oracle, resource, kind: kind.to_owned(), at: last, text, expected: json!({ "quiet": true }) })
    })
}

/// The Events about evictions of the pods of one name.
#[derive(Debug, Clone, Default)]
struct Reports {
    all: i64,
    /// The times of those about cancelled evictions.
    cancelled: Vec<Duration>,
}

impl Reports {
    /// Notes a new Event, or one that is counted once more.
    fn note(&mut self, old: Option<&Value>, event: &Value, now: Duration) {
        let more = count_of(event) - old.map_or(0, count_of);
        let is_cancelled = |field: &str| event[field].as_str().is_some_and(|text| text.starts_with(CANCELLED));
        self.all += more;
        if is_cancelled("message") || is_cancelled("note") {
            self.cancelled.extend((0..more).map(|_| now));
        }
    }

    /// Returns true if each of these ends of countdowns has an Event of its own just after it.
    fn are_prompt(&self, ends: &[Duration]) -> bool {
        let mut left = self.cancelled.clone();
        ends.iter().all(|end| {
            let found = left.iter().position(|at| (*end..*end + CLEARLY).contains(at));
            found.map(|found| left.remove(found)).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::Transcript;
    use rstest::rstest;

    use super::*;
    use crate::explore::judge::testing::{History, change, change_in, judged_by};

    fn judged(controller: &str, transcript: &Transcript, initial: Vec<Value>) -> Vec<String> {
        judged_by(controller, transcript, initial, |fixture, begin, explored| {
            breaches(fixture, begin, explored).into_iter().map(|breach| breach.fingerprint()).collect()
        })
    }

    #[rstest]
    #[case::with_its_event("a", &[])]
    #[case::of_another_pod("b", &["event · pods · eviction"])]
    fn an_eviction_has_an_event(#[case] about: &str, #[case] found: &[&str]) {
        let transcript = Transcript::new();
        let event = json!({"regarding": {"kind": "Pod", "name": about}, "reason": EVICTED});
        change_in(Some("default"), &transcript, 5, Some("taint-eviction-controller"), "events", [None, Some(event)]);
        let pod = Some(json!({"metadata": {"name": "a"}}));
        change_in(Some("default"), &transcript, 5, Some("taint-eviction-controller"), "pods", [pod, None]);
        assert_eq!(judged("taint-eviction", &transcript, Vec::new()), found);
    }

    fn node(taints: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"taints": taints}})
    }

    fn pod() -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default", "uid": "u"},
            "spec": {"nodeName": "a", "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 60}]}})
    }

    /// The pod tolerates the taint of its node for 60 s. The taint goes at `gone`, and an Event of the time `at`
    /// counts `reported` cancelled evictions.
    #[rstest]
    #[case::reported(30, 1, 30, &[])]
    #[case::not_reported(30, 0, 30, &["event · pods · a countdown ends"])]
    #[case::reported_late(30, 1, 60, &["event · pods · a countdown ended before"])]
    #[case::reported_twice(30, 2, 30, &["event · pods · no countdown ends"])]
    #[case::perhaps_too_late(60, 0, 60, &[])]
    #[case::perhaps_not_known(0, 0, 0, &[])]
    fn the_end_of_a_countdown_has_an_event(
        #[case] gone: u64,
        #[case] reported: i64,
        #[case] at: u64,
        #[case] found: &[&str],
    ) {
        let tainted = node(json!([{"key": "k", "effect": "NoExecute"}]));
        let mut history = History::new(&[tainted, pod()]);
        history.happens(gone, "nodes/a", Some(node(json!([]))));
        let message = format!("{CANCELLED} of Pod default/a");
        let event = json!({"involvedObject": {"kind": "Pod", "name": "a"}, "reason": EVICTED, "message": message,
            "count": reported});
        if reported > 0 {
            history.reports(at, Actor::TaintEviction, event);
        }
        // A pod that goes later has no countdown any more.
        history.happens(90, "pods/a", None);
        let judged = history.judged("taint-eviction", |fixture, begin, explored| {
            breaches(fixture, begin, explored).into_iter().map(|breach| breach.fingerprint()).collect::<Vec<_>>()
        });
        assert_eq!(judged, found);
    }

    #[rstest]
    #[case::reported("CalculateExpectedPodCountFailed", 1, &[])]
    #[case::about_something_else("UnmanagedPods", 24, &["event · poddisruptionbudgets · failure"])]
    #[case::held_back("UnmanagedPods", 25, &[])]
    fn the_failure_of_a_budget_has_an_event(#[case] reason: &str, #[case] number: usize, #[case] found: &[&str]) {
        let transcript = Transcript::new();
        let failed = json!({"status": {"conditions": [{"reason": "SyncFailed"}]}});
        let objects = [Some(json!({})), Some(failed)];
        change(&transcript, 5, Some("disruption-controller"), "poddisruptionbudgets", objects);
        let event = json!({"involvedObject": {"kind": "PodDisruptionBudget", "name": "a"}, "reason": reason,
            "type": "Warning"});
        for _ in 0..number {
            change(&transcript, 5, Some("disruption-controller"), "events", [None, Some(event.clone())]);
        }
        assert_eq!(judged("disruption", &transcript, Vec::new()), found);
    }

    #[rstest]
    #[case::the_first_ones(25, "Normal", 5, true)]
    #[case::one_too_many(26, "Normal", 5, false)]
    #[case::five_minutes_later(26, "Normal", 300, true)]
    #[case::of_another_type(26, "Warning", 5, true)]
    fn a_recorder_has_a_limit(#[case] number: usize, #[case] kind: &str, #[case] last: u64, #[case] fine: bool) {
        let transcript = Transcript::new();
        for index in 0..number {
            let (at, kind) = if index + 1 == number { (last, kind) } else { (0, "Normal") };
            let event = json!({"involvedObject": {"kind": "Pod", "name": "a"}, "type": kind});
            change(&transcript, at, Some("disruption-controller"), "events", [None, Some(event)]);
        }
        assert_eq!(judged("disruption", &transcript, Vec::new()).is_empty(), fine);
    }
}
