//! The facts of a run, from its record. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plumbline::expect::world::{Key, ObjectStates, kinds};
use plumbline::expect::{StepReply, line, requests};
use plumbline::explore::blind::{blind, undone};
use plumbline::explore::breach::Breach;
use plumbline::explore::entries::{change_of, is_of_subject, key_of_request};
use plumbline::explore::faults::point::{FaultPoint, Site, is_review, points};
use plumbline::explore::knowledge::Knowledge;
use plumbline::explore::left::left;
use plumbline::fixture::pattern::Verb;
use plumbline::fixture::{Resource, StepKind, Target};
use plumbline::invariants::is_idle;
use plumbline::metadata;
use plumbline::transcript::render::{render, to_text};
use plumbline::transcript::{
    Actor, Attributed as _, Change, Delivery, EntryKind, Exchange, RecordedJson, RecordedRequest, TranscriptEntry,
};
use serde_json::Value;

use super::job::{Blind, Deletion, Ending, EndingKind, Facts, Point, RecordedExit, Request, millis};
use super::locks::Locks;
use super::rights::used_rights;
use super::script::ProgramScript;
use super::state::{EVENTS, EndState, Expected, key, stable_name};
use crate::explore::histories::facts::step_times;
use crate::runner::{ProgramExit, RunError, RunRecord};

/// Number of requests that the facts list.
const MOST_REQUESTS: usize = 5000;
/// Length of the transcript in the facts.
const MOST_TEXT: usize = 400_000;
/// Time before the end of a program in which a loss may be its reason: informers that may not list give up after two
/// minutes.
const LOSS: Duration = Duration::from_mins(3);
/// Time without any answer from which on a program has lost its server.
const OUTAGE: Duration = Duration::from_secs(5);
/// Most steps of a scenario before which states are compared.
const MOST_BEGINNINGS: usize = 16;
/// Renewals of a lock that are points.
const LOCK_POINTS: u32 = 2;
/// Parts of the output of a program that ends by a mistake of its own.
const PANICS: [&str; 8] = [
    "panic: ",
    "goroutine ",
    "Traceback (most recent call last)",
    "thread 'main' panicked",
    "' panicked at ",
    "Exception in thread",
    "fatal error: ",
    "Segmentation fault",
];

/// Objects that every server has, which a run concerns only if it changes them.
const OF_SERVERS: [&str; 8] = [
    "apiservices",
    "clusterroles",
    "clusterrolebindings",
    "flowschemas",
    "prioritylevelconfigurations",
    "roles",
    "rolebindings",
    "customresourcedefinitions",
];

/// Returns the state at the end of `entries`.
pub(super) fn state(record: &RunRecord, entries: &[TranscriptEntry], expected: Option<&Expected>) -> EndState {
    let locks = locks(entries, expected);
    let states = ObjectStates::new(&record.run(entries, record.end), "default").after(entries);
    let changed: BTreeSet<Key> = changes(entries).map(plumbline::expect::world::key_of_change).collect();
    let counts = |found: &Key| {
        changed.contains(found)
            || !OF_SERVERS.contains(&found.resource.as_str())
            || expected.is_some_and(|expected| {
                let name = key(&found.resource, found.namespace.as_deref(), &found.name);
                expected.state.objects.contains_key(&name)
            })
    };
    let is_lock = |found: &Key| locks.has(&found.resource, found.namespace.as_deref(), &found.name);
    let objects: Vec<(&Key, &RecordedJson)> = states.keyed().filter(|(key, _)| counts(key) && !is_lock(key)).collect();
    let named = objects.iter().map(|(key, object)| (&*key.resource, key.namespace.as_deref(), &*key.name, &***object));
    EndState::new(named, &random_names(entries))
}

fn changes(entries: &[TranscriptEntry]) -> impl Iterator<Item = &Change> {
    entries.iter().filter_map(|entry| match &entry.what {
        EntryKind::Change(change) => Some(&**change),
        _ => None,
    })
}

pub(super) fn locks(entries: &[TranscriptEntry], expected: Option<&Expected>) -> Locks {
    Locks::new(entries, expected.map(|expected| &expected.locks))
}

/// Returns true if the program changed nothing from `since` on.
pub(super) fn is_calm(entries: &[TranscriptEntry], since: Duration, expected: &Expected) -> bool {
    let locks = locks(entries, Some(expected));
    let mut recent = entries.iter().rev().take_while(|entry| entry.at >= since);
    !recent.any(|entry| effective(entry, entries, &locks).is_some())
}

/// Returns the request of the program that made this change, unless it changes nothing or is about a lock or an Event.
fn effective<'e>(
    entry: &TranscriptEntry,
    entries: &'e [TranscriptEntry],
    locks: &Locks,
) -> Option<&'e TranscriptEntry> {
    let EntryKind::Change(change) = &entry.what else { return None };
    if is_idle(change) || change.resource == EVENTS || locks.has_change(change) {
        return None;
    }
    let request = entries.get(change.request?)?;
    request.actor().is_subject().then_some(request)
}

/// Collects the facts of a run. `deliveries` are the watch events that were sent.
pub(super) fn survey(
    script: &ProgramScript,
    record: &RunRecord,
    deliveries: &[Delivery],
    over_at: Option<usize>,
    expected: Option<&Expected>,
) -> Facts {
    record.transcript.with(|entries| {
        let locks = locks(entries, expected);
        let mark = |step: usize| record.marks.get(step).copied().unwrap_or(entries.len()).min(entries.len());
        let converged = mark(over_at.unwrap_or(script.converged));
        let quiet = if over_at.is_some() { converged } else { mark(script.quiet) };
        let begin = record.begin.min(entries.len());
        let until = &entries[..quiet];
        let states = ObjectStates::new(&record.run(entries, record.end), "default").after(until);
        let random = random_names(entries);
        let finalizers = finalizers(until, expected);
        let mut facts = Facts {
            ending: ending(record),
            exits: exits(record, entries, &locks),
            failed_steps: failed_steps(script, record),
            points: found_points(record, &entries[..converged.max(begin)], script, (&random, &locks)),
            state: state(record, until, expected),
            left: left(&states, until)
                .into_iter()
                .map(|(left, why)| (key(&left.resource, left.namespace.as_deref(), &left.name), why))
                .collect(),
            stuck: stuck(&states, &finalizers),
            by_steps: by_steps(until, &random),
            idle_faults: record.idle_faults.clone(),
            early: over_at.is_some(),
            end: millis(record.end),
            rights: used_rights(&entries[begin..]),
            log: record.log.iter().rev().take(40).rev().cloned().collect(),
            transcript: text(record, entries),
            ..Facts::default()
        };
        (facts.before, facts.strayed) = before_steps(script, record, entries, expected);
        collect_requests(&mut facts, &entries[..quiet], begin, (&random, &locks));
        let written = |from: usize, to: usize| -> Vec<String> {
            let window = entries[..to].iter().filter(|entry| entry.seq >= from);
            let writes =
                window.filter_map(|entry| effective(entry, entries, &locks).filter(|request| request.seq >= from));
            writes.filter_map(described).collect()
        };
        facts.late = written(converged, quiet);
        facts.busy = entries[converged..quiet].iter().filter(|entry| is_work(entry, &locks)).count();
        if over_at.is_none() {
            facts.fresh = written(quiet, entries.len());
        }
        facts.deleted = deleted(until, &step_times(&script.fixture), (&random, &locks));
        follow(&mut facts, record, until, deliveries);
        facts.locks.clone_from(locks.names());
        facts.finalizers = finalizers;
        facts
    })
}

/// Returns the states before the steps of the scenario; with an expected state the steps before which it is another.
fn before_steps(
    script: &ProgramScript,
    record: &RunRecord,
    entries: &[TranscriptEntry],
    expected: Option<&Expected>,
) -> (BTreeMap<usize, EndState>, Vec<usize>) {
    let reached = script.later.iter().filter(|(_, at)| *at <= record.end).take(MOST_BEGINNINGS);
    let mut states: BTreeMap<usize, EndState> = reached
        .map(|(step, at)| {
            let until = entries.partition_point(|entry| entry.at < *at);
            (*step, state(record, &entries[..until], expected))
        })
        .collect();
    let Some(expected) = expected else { return (states, Vec::new()) };
    states.retain(|step, state| {
        let wanted = expected.before.get(step);
        wanted.is_some_and(|wanted| !wanted.differences(state, &expected.volatile).is_empty())
    });
    (BTreeMap::new(), states.into_keys().collect())
}

/// Returns the objects that the program deleted, with the requests.
fn deleted(
    entries: &[TranscriptEntry],
    steps: &[Duration],
    (random, locks): (&BTreeMap<String, String>, &Locks),
) -> BTreeMap<String, Deletion> {
    let step = |at: Duration| millis(steps.iter().copied().filter(|step| *step <= at).max().unwrap_or_default());
    let requests = entries.iter().filter_map(|entry| match &entry.what {
        EntryKind::Request(exchange) if entry.actor().is_subject() && exchange.request.verb == "delete" => {
            Some((entry, exchange))
        }
        _ => None,
    });
    let done = requests.filter(|(_, exchange)| {
        exchange.request.subresource.is_none()
            && !locks.has_request(&exchange.request)
            && exchange.reply.as_ref().is_some_and(|reply| reply.status < 300)
    });
    let mut found: BTreeMap<String, Deletion> = BTreeMap::new();
    for (entry, exchange) in done {
        let request = &exchange.request;
        let Some(name) = request.name.as_deref() else { continue };
        let name = random.get(name).map_or(name, String::as_str);
        let text = line(entry, exchange);
        let deletion = found.entry(key(&request.resource, request.namespace.as_deref(), name)).or_insert_with(|| {
            Deletion { at: millis(entry.at), step: step(entry.at), request: text.clone(), ..Deletion::default() }
        });
        if change_of(entries, entry.seq).is_some_and(|(_, change)| !is_idle(change)) {
            deletion.effective = (deletion.effective.0 + 1, text);
        }
    }
    found
}

fn described(entry: &TranscriptEntry) -> Option<String> {
    match &entry.what {
        EntryKind::Request(exchange) => Some(line(entry, exchange)),
        _ => None,
    }
}

/// Returns true for requests of the program, but not for watches and those about locks.
pub(super) fn is_work(entry: &TranscriptEntry, locks: &Locks) -> bool {
    let EntryKind::Request(exchange) = &entry.what else { return false };
    entry.actor().is_subject() && exchange.request.verb != "watch" && !locks.has_request(&exchange.request)
}

/// Returns the names that the server made up, with what is left of them. Pods of stateful sets have `generateName` and
/// a name that was asked for.
fn random_names(entries: &[TranscriptEntry]) -> BTreeMap<String, String> {
    let is_asked_for = |change: &Change| {
        let request = change.request.and_then(|seq| entries.get(seq));
        let exchange = request.and_then(|entry| match &entry.what {
            EntryKind::Request(exchange) => Some(exchange),
            _ => None,
        });
        exchange.is_some_and(|exchange| {
            exchange.request.body.as_deref().is_some_and(|body| !metadata::name(body).is_empty())
        })
    };
    let created = changes(entries).filter(|change| change.old.is_none() && !is_asked_for(change));
    let named = created.filter_map(|change| {
        let stable = stable_name(change.new.as_deref()?, &change.name)?;
        Some((change.name.clone(), stable))
    });
    named.collect()
}

fn collect_requests(
    facts: &mut Facts,
    entries: &[TranscriptEntry],
    begin: usize,
    (random, locks): (&BTreeMap<String, String>, &Locks),
) {
    let changed: BTreeMap<usize, &str> = changes(entries)
        .filter(|change| !is_idle(change))
        .filter_map(|change| change.request.map(|request| (request, &*change.name)))
        .collect();
    let mut existed: BTreeSet<Key> = BTreeSet::new();
    for entry in entries {
        let exchange = match &entry.what {
            EntryKind::Change(change) => {
                existed.insert(plumbline::expect::world::key_of_change(change));
                continue;
            }
            EntryKind::Request(exchange) if entry.seq >= begin => exchange,
            _ => continue,
        };
        let request = &exchange.request;
        if !entry.actor().is_subject() || locks.has_request(request) {
            continue;
        }
        if facts.requests.len() == MOST_REQUESTS {
            facts.omitted += 1;
            continue;
        }
        let reply = exchange.reply.as_ref();
        let name = request.name.as_deref().or_else(|| changed.get(&entry.seq).copied());
        let name = name.map(|name| random.get(name).map_or(name, String::as_str));
        let refused = reply.filter(|reply| reply.status >= 400);
        let words = refused.into_iter().flat_map(|reply| [reply.reason.as_deref(), reply.message.as_deref()]).flatten();
        facts.requests.push(Request {
            at: millis(entry.at),
            verb: request.verb.clone(),
            resource: request.resource_path(),
            object: match &*request.resource {
                "" => request.path.clone(),
                _ => format!("{}/{}", request.namespace.as_deref().unwrap_or_default(), name.unwrap_or_default()),
            },
            code: reply.map_or(0, |reply| reply.status),
            refusal: words.collect::<Vec<_>>().join(": "),
            faulted: reply.is_none_or(|reply| reply.fault.is_some() || reply.lost),
            changed: changed.contains_key(&entry.seq),
            existed: key_of_request(request).is_some_and(|key| existed.contains(&key)),
            text: line(entry, exchange),
        });
    }
}

/// Follows the run with what the program knew.
fn follow(facts: &mut Facts, record: &RunRecord, entries: &[TranscriptEntry], deliveries: &[Delivery]) {
    let begin = ObjectStates::new(&record.run(&[], Duration::ZERO), "default");
    let knowledge = Knowledge::new(&begin, entries, deliveries);
    for (entry, exchange) in requests(entries).filter(|(entry, _)| entry.actor().is_subject()) {
        facts.by_update.extend(status_by_update(entry, exchange, &knowledge, entries));
        facts.blind.extend(blind(&knowledge, entries, entry, exchange).map(blind_write));
    }
    facts.blind.extend(undone(&knowledge, entries).into_iter().map(blind_write));
}

fn blind_write(breach: Breach) -> Blind {
    Blind { resource: breach.resource, verb: breach.kind, at: millis(breach.at), text: breach.text }
}

/// Describes a write of the main resource that tries to change a status, and does not because the status is a
/// subresource.
fn status_by_update(
    entry: &TranscriptEntry,
    exchange: &Exchange,
    knowledge: &Knowledge<'_>,
    entries: &[TranscriptEntry],
) -> Option<String> {
    let request = &exchange.request;
    let writes = matches!(request.verb.as_str(), "update" | "patch") && request.subresource.is_none();
    if !writes || exchange.reply.as_ref().is_none_or(|reply| reply.status >= 300) {
        return None;
    }
    let status = request.body.as_deref()?.get("status").filter(|status| status.is_object())?;
    let old: &Value = knowledge.present(&key_of_request(request)?, entry.seq)?;
    let made = change_of(entries, entry.seq).and_then(|(_, change)| change.new.as_deref());
    let now = made.unwrap_or(old);
    let ignored = now["status"] == old["status"] && !is_part_of(status, &old["status"]);
    let next = "write it through the subresource /status";
    ignored.then(|| format!("{}: its status is ignored: {next}", line(entry, exchange)))
}

/// Returns true if all fields of `part` are in `whole`. The zero values that Go writes for fields without `omitempty`
/// are the same as none.
fn is_part_of(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(_)) => part.iter().all(|(name, value)| is_part_of(value, &whole[name])),
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => {
            part.iter().zip(whole).all(|(part, whole)| is_part_of(part, whole))
        }
        (part, Value::Null) => is_zero(part),
        (part, whole) => part == whole,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
    }
}

/// Describes the steps with another reply than the scenario names, which is success by default.
fn failed_steps(script: &ProgramScript, record: &RunRecord) -> Vec<String> {
    let described = |reply: &StepReply| {
        let step = script.fixture.steps.get(reply.step)?;
        let StepKind::Do { reply: expected, .. } = &step.kind else { return None };
        let is_unexpected = match expected {
            Some(expected) => expected.code.is_some_and(|code| code != reply.code),
            None => reply.code >= 400,
        };
        let why = reply.body["message"].as_str().unwrap_or("no reply");
        is_unexpected.then(|| format!("the step at {}s got {}: {why}", step.at.as_secs_f64(), reply.code))
    };
    record.replies.iter().filter_map(described).collect()
}

/// Returns the ends of the program by itself.
fn exits(record: &RunRecord, entries: &[TranscriptEntry], locks: &Locks) -> Vec<RecordedExit> {
    let mut begin = Duration::ZERO;
    let exit = |exit: &ProgramExit| {
        let panicked = exit.log.iter().any(|line| PANICS.iter().any(|word| line.contains(word)));
        let killed = exit.reason.contains("killed by signal");
        let since = begin.max(exit.at.saturating_sub(LOSS));
        begin = exit.at;
        let recent = entries.iter().filter(|entry| (since..=exit.at).contains(&entry.at));
        RecordedExit {
            at: millis(exit.at),
            reason: exit.reason.clone(),
            panicked: panicked || killed,
            lost: lost(recent, locks).map(str::to_owned),
        }
    };
    record.exits.iter().map(exit).collect()
}

/// Returns the thing that the program lost in these entries.
fn lost<'e>(entries: impl Iterator<Item = &'e TranscriptEntry>, locks: &Locks) -> Option<&'static str> {
    let mut unanswered: Vec<Duration> = Vec::new();
    for entry in entries {
        match &entry.what {
            EntryKind::Request(exchange) if entry.actor().is_subject() => {
                let status = exchange.reply.as_ref().filter(|reply| !reply.lost).map(|reply| reply.status);
                match status {
                    Some(401 | 403) => return Some("a right"),
                    Some(400..) if locks.has_request(&exchange.request) => return Some("its lease"),
                    Some(_) => unanswered.clear(),
                    None => unanswered.push(entry.at),
                }
            }
            EntryKind::Change(change) if locks.has_change(change) && !entry.actor().is_subject() => {
                return Some("its lease");
            }
            _ => {}
        }
    }
    let silence = unanswered.last()?.saturating_sub(*unanswered.first()?);
    (silence >= OUTAGE).then_some("its server")
}

/// Counts the creations and deletions of objects by the clients of the steps, and their requests that were refused. A
/// deletion counts when it begins.
fn by_steps(entries: &[TranscriptEntry], random: &BTreeMap<String, String>) -> BTreeMap<String, [u32; 3]> {
    let mut counts: BTreeMap<String, [u32; 3]> = BTreeMap::new();
    let mut add = |resource: &str, namespace: Option<&str>, name: &str, added: [bool; 3]| {
        let name = random.get(name).map_or(name, String::as_str);
        let count = counts.entry(key(resource, namespace, name)).or_default();
        for (count, added) in count.iter_mut().zip(added) {
            *count += u32::from(added);
        }
    };
    for entry in entries.iter().filter(|entry| entry.actor() == Actor::User) {
        let change = match &entry.what {
            EntryKind::Change(change) => change,
            EntryKind::Request(exchange) if exchange.reply.as_ref().is_some_and(|reply| reply.status >= 400) => {
                let request = &exchange.request;
                let name = request.name.as_deref().unwrap_or_default();
                add(&request.resource, request.namespace.as_deref(), name, [false, false, true]);
                continue;
            }
            _ => continue,
        };
        let is_going = |object: Option<&RecordedJson>| object.is_none_or(|object| metadata::is_terminating(object));
        let created = change.old.is_none();
        let deleted = !created && is_going(change.new.as_ref()) && !is_going(change.old.as_ref());
        if created || deleted {
            add(&change.resource, change.namespace.as_deref(), &change.name, [created, deleted, false]);
        }
    }
    counts
}

fn ending(record: &RunRecord) -> Option<Ending> {
    let error = record.errors.first()?;
    let kind = match &**error {
        RunError::Seed(_) => EndingKind::Seed,
        RunError::Launch(_) | RunError::NotReady(_) => EndingKind::Launch,
        RunError::Ended { .. } => EndingKind::Exits,
        RunError::Storm(_) => EndingKind::Storm,
        _ => EndingKind::Environment,
    };
    Some(Ending { kind, text: error.to_string() })
}

/// Returns the transcript.
fn text(record: &RunRecord, entries: &[TranscriptEntry]) -> String {
    let mut text = to_text(&render(record.start, &record.initial, entries));
    if text.len() > MOST_TEXT {
        let cut = text.floor_char_boundary(MOST_TEXT);
        text.truncate(cut);
        text.push_str("\n(the rest is left out)\n");
    }
    text
}

/// Returns the finalizers that the program adds or removes, in this run or in that without faults.
fn finalizers(entries: &[TranscriptEntry], expected: Option<&Expected>) -> BTreeSet<String> {
    let names = |object: Option<&RecordedJson>| -> BTreeSet<String> {
        let all = object.map_or(&[][..], |object| metadata::finalizers(object));
        all.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let mut own: BTreeSet<String> = expected.map(|expected| expected.finalizers.clone()).unwrap_or_default();
    for change in changes(entries) {
        if is_of_subject(change, entries) {
            let (old, new) = (names(change.old.as_ref()), names(change.new.as_ref()));
            own.extend(old.symmetric_difference(&new).cloned());
        }
    }
    own
}

/// Returns the objects that are being deleted and keep finalizers of the program (`own`): others are not its to remove.
fn stuck(states: &ObjectStates, own: &BTreeSet<String>) -> BTreeMap<String, String> {
    let terminating = states.keyed().filter(|(_, object)| metadata::is_terminating(object));
    let stuck = terminating.filter_map(|(found, object)| {
        let left = metadata::finalizers(object).iter().filter_map(Value::as_str);
        let left: Vec<&str> = left.filter(|name| own.contains(*name)).collect();
        let text = format!("it is being deleted and keeps the finalizers {}", left.join(", "));
        (!left.is_empty()).then(|| (key(&found.resource, found.namespace.as_deref(), &found.name), text))
    });
    stuck.collect()
}

/// Returns the points at which faults can happen; random names become patterns.
fn found_points(
    record: &RunRecord,
    entries: &[TranscriptEntry],
    script: &ProgramScript,
    (random, locks): (&BTreeMap<String, String>, &Locks),
) -> Vec<Point> {
    let begin = record.begin.min(entries.len());
    let resources = kinds(record.initial.iter().map(|object| &**object));
    let is_lock = |point: &FaultPoint| {
        let target = &point.target;
        locks.has(&target.resource.plural, target.namespace.as_deref(), &target.name)
    };
    let is_own = |request: &RecordedRequest| is_review(request) || locks.has_request(request);
    let mut found: Vec<FaultPoint> = points(entries, &resources, &step_times(&script.fixture), is_own);
    found.retain(|point| !is_lock(point));
    found.extend(renewals(&entries[begin..], locks));
    found.retain(|point| point.seq >= begin);
    found.sort_by_key(|point| point.seq);
    let moments = changes_around(entries, &found, locks);
    let mut occurrences: BTreeMap<String, u32> = BTreeMap::new();
    let mut all = Vec::with_capacity(found.len());
    for (mut point, around) in found.into_iter().zip(moments) {
        let about = about(&point, entries, random);
        if let Some(stable) = random.get(&point.target.name) {
            point.target.name = stable.replace("(random)", "*");
        }
        point.occurrence = 0;
        let count = occurrences.entry(point.to_string()).or_default();
        *count += 1;
        point.occurrence = *count;
        let lock = is_lock(&point);
        all.push(Point { lock, about, ..Point::new(&point, around) });
    }
    all
}

/// Returns the name of the object that a creation made, or the kind of a change and who made it.
fn about(point: &FaultPoint, entries: &[TranscriptEntry], random: &BTreeMap<String, String>) -> String {
    match (point.site, entries.get(point.seq).map(|entry| &entry.what)) {
        (Site::Request(Verb::Post), _) => {
            let name = change_of(entries, point.seq).map(|(_, change)| change.name.as_str()).unwrap_or_default();
            random.get(name).map_or(name, String::as_str).to_owned()
        }
        (Site::Event, Some(EntryKind::Change(change))) => {
            let is_going = |object: Option<&RecordedJson>| object.is_none_or(|object| metadata::is_terminating(object));
            let kind = match (&change.old, &change.new) {
                (None, _) => "created",
                (_, None) => "gone",
                (old, new) if is_going(new.as_ref()) && !is_going(old.as_ref()) => "deleted",
                _ => "changed",
            };
            let by = match entries[point.seq].actor() {
                Actor::User => "a step",
                actor if actor.is_subject() => "the program",
                _ => "others",
            };
            format!("{kind} by {by}")
        }
        _ => String::new(),
    }
}

/// Returns the number of changes before each point, and after it took effect. Requests that change nothing do not
/// count, so that the points of a loop without work are equal.
fn changes_around(entries: &[TranscriptEntry], points: &[FaultPoint], locks: &Locks) -> Vec<(usize, usize)> {
    let mut count = 0;
    let mut before = Vec::with_capacity(entries.len());
    let mut after = BTreeMap::new();
    for entry in entries {
        before.push(count);
        let EntryKind::Change(change) = &entry.what else { continue };
        let is_heartbeat = change.resource == "leases" && !is_of_subject(change, entries);
        if !is_idle(change) && change.resource != EVENTS && !locks.has_change(change) && !is_heartbeat {
            count += 1;
            after.extend(change.request.map(|request| (request, count)));
        }
    }
    let around = |point: &FaultPoint| {
        let before = before.get(point.seq).copied().unwrap_or(count);
        (before, after.get(&point.seq).copied().unwrap_or(before))
    };
    points.iter().map(around).collect()
}

/// Returns the first renewals of each lock of the program.
fn renewals(entries: &[TranscriptEntry], locks: &Locks) -> Vec<FaultPoint> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in entries.iter().filter(|entry| entry.actor().is_subject()) {
        let EntryKind::Request(exchange) = &entry.what else { continue };
        let request = &exchange.request;
        let verb = match request.verb.as_str() {
            "update" => Verb::Put,
            "patch" => Verb::Patch,
            _ => continue,
        };
        let Some(name) = request.name.clone().filter(|_| locks.has_request(request)) else { continue };
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        if *count > LOCK_POINTS {
            continue;
        }
        let resource = Resource {
            group: request.group.clone().into(),
            version: request.version.clone().into(),
            plural: request.resource.clone().into(),
            kind: "".into(),
            namespaced: true,
        };
        let target = Target { resource, namespace: request.namespace.clone(), name, subresource: None };
        let at = entry.at;
        let seq = entry.seq;
        found.push(FaultPoint { site: Site::Request(verb), target, occurrence: *count, at, seq, next_step: None });
    }
    found
}

#[cfg(test)]
mod tests {
    use plumbline::transcript::{RecordedReply, RecordedRequest, Transcript};
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::a_right(&[(1, "pods", Some(200)), (2, "pods", Some(403))], Some("a right"))]
    #[case::the_lease(&[(1, "leases", Some(409)), (2, "pods", Some(200))], Some("its lease"))]
    #[case::the_server(&[(1, "pods", None), (3, "leases", None), (7, "pods", None)], Some("its server"))]
    #[case::one_reply(&[(1, "pods", None)], None)]
    #[case::replies_that_come_again(&[(1, "pods", None), (7, "pods", None), (8, "pods", Some(200))], None)]
    #[case::a_conflict(&[(1, "pods", Some(409)), (2, "pods", Some(500))], None)]
    fn losses_are_read_from_the_record(
        #[case] requests: &[(u64, &str, Option<u16>)],
        #[case] expected: Option<&'static str>,
    ) {
        let transcript = Transcript::new();
        for (at, resource, status) in requests {
            let at = Duration::from_secs(*at);
            let verb = "update".to_owned();
            let name = Some("a".to_owned());
            let request =
                RecordedRequest { verb, resource: (*resource).to_owned(), name, ..RecordedRequest::default() };
            let seq = transcript.request(at, Actor::Bystander("manager".to_owned()), request);
            if let Some(status) = status {
                transcript.reply(seq, RecordedReply::new(at, *status));
            }
        }
        let locks = Locks::new(&[], Some(&BTreeSet::from(["leases a".to_owned()])));
        assert_eq!(transcript.with(|entries| lost(entries.iter(), &locks)), expected);
    }

    #[rstest]
    #[case::none(json!({}), json!({}), true)]
    #[case::zero_values(json!({"replicas": 0, "conditions": null, "time": {"at": null}, "phase": ""}), Value::Null, true)]
    #[case::zero_in_a_list(json!({"list": [{"a": 1, "b": ""}]}), json!({"list": [{"a": 1}]}), true)]
    #[case::another_value(json!({"replicas": 0}), json!({"replicas": 1}), false)]
    #[case::a_new_value(json!({"replicas": 1}), Value::Null, false)]
    fn zero_values_are_no_status(#[case] sent: Value, #[case] stored: Value, #[case] expected: bool) {
        assert_eq!(is_part_of(&sent, &stored), expected);
    }
}
