//! Judges a run of a program by its facts and those of the run without faults. No oracle knows what the program is for.
//! Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use plumbline::explore::breach::{ALIVE, Breach, END_STATE, FRESH, QUIET, converged_text, restarted_text};
use serde_json::{Value, json};

use super::job::{Deletion, EndingKind, Facts, Request};
use super::reference::Reference;
use super::state::{LEFT, MISSING, StateDifference, Volatile};

/// The oracles, with what each promises.
pub const ORACLES: [(&str, &str); 16] = [
    (ALIVE, "the program neither panics nor ends, nor does its run hang"),
    (END_STATE, "the objects at the end are those of the run without the fault"),
    (FRESH, "a program that starts on the final state changes nothing"),
    (QUIET, "a program that has converged writes nothing"),
    ("busy", "a program that has converged makes few requests"),
    ("storm", "no request is repeated more than 50 times within a second, or 3000 requests are made in one"),
    ("idle update", "no update changes nothing, in the run without faults"),
    ("status", "a status is written through its subresource"),
    ("left", "nothing is left of an object that was deleted"),
    ("stuck", "no object waits for its finalizers at the end"),
    ("refused", "the server refuses no request of the run without faults as invalid"),
    ("rights", "the program has the rights for what it requests"),
    ("blind", "no object is deleted or overwritten of which the program had not seen the present state"),
    (DELETES, "no object is deleted that the program leaves alone, or deletes later or less often, without the fault"),
    ("writes", "no object is written far more often than without the fault"),
    (HISTORY, "the objects at the end do not depend on states that a watch may skip, in the run without faults"),
];

/// The oracle of states that a watch may skip.
pub(super) const HISTORY: &str = "history";
/// The oracle of deletions.
const DELETES: &str = "deletes";
/// Most equal requests within a second.
const STORM: usize = 50;
/// Requests in the quiet window beyond those of the run without faults from which on a program is busy.
const BUSY: usize = 300;
/// Writes of an object beyond those of the run without faults.
const MORE_WRITES: usize = 20;
/// Time by which a deletion comes before that of the run without faults, in milliseconds, from which on it is early.
const EARLY: u64 = 1000;
/// The same for deletions after the step that led to them, in milliseconds: the longest round of a program that polls.
const ROUND: u64 = 15_000;
/// Updates without a change that are one too many.
const IDLE_UPDATES: usize = 3;

/// Returns the breaches of the run without faults by itself.
#[must_use]
pub fn judge_alone(facts: &Facts) -> Vec<Breach> {
    let mut found = anywhere(facts);
    found.extend(refused(facts));
    found.extend(idle_updates(facts));
    found.extend(at_the_end(facts));
    for (object, why) in &facts.skipped {
        let text = format!("{object}: {why}");
        let expected = json!({ "quiet": true });
        found.push(of_object(HISTORY, object, "depends on a skipped state", facts, text, &expected));
    }
    found
}

/// Returns the breaches of a run with faults.
#[must_use]
pub fn judge(reference: &Reference, facts: &Facts) -> Vec<Breach> {
    let without = &reference.facts;
    let mut found = anywhere(facts);
    found.extend(exits(facts));
    if facts.ending.is_some() {
        return without_known(found, reference);
    }
    // Where other clients created and deleted other objects, another end is right.
    let is_same_history = without.by_steps == facts.by_steps;
    if is_same_history {
        let differences = reference.expected.state.differences(&facts.state, &reference.expected.volatile);
        found.extend(differences.iter().map(|difference| of_difference(difference, facts)));
    }
    found.extend(at_the_end(facts));
    if facts.busy > without.busy * 2 + BUSY {
        let text = format!("{} requests in the quiet window; without the fault {}", facts.busy, without.busy);
        found.push(Breach::of_run("busy", "", end(facts), text));
    }
    if is_same_history {
        found.extend(more_deletions(&reference.expected.volatile, without, facts));
    }
    found.extend(more_writes(without, facts));
    without_known(found, reference)
}

/// Returns true for breaches that compare the run with one in which each step found what the steps before it had led
/// to.
#[must_use]
pub fn depends_on_steps(breach: &Breach) -> bool {
    matches!(breach.oracle.as_str(), END_STATE | DELETES)
}

/// Returns the breaches that the end of a run shows by itself: it is not quiet, a fresh start changes something, or
/// objects are left behind.
fn at_the_end(facts: &Facts) -> Vec<Breach> {
    let mut found = Vec::new();
    if let Some(first) = facts.late.first() {
        found.push(Breach::of_run(QUIET, "", end(facts), converged_text(first)));
    }
    if let Some(first) = facts.fresh.first() {
        found.push(Breach::of_run(FRESH, "", end(facts), restarted_text(first)));
    }
    for (object, why) in &facts.left {
        found.push(of_object(
            "left",
            object,
            LEFT,
            facts,
            format!("{object}: {why}"),
            &json!({ "absent": target(object) }),
        ));
    }
    found
}

/// Leaves out what the run without faults shows as well.
fn without_known(mut found: Vec<Breach>, reference: &Reference) -> Vec<Breach> {
    let known: Vec<String> = judge_alone(&reference.facts).iter().map(Breach::fingerprint).collect();
    found.retain(|breach| !known.contains(&breach.fingerprint()));
    found
}

/// Returns the breaches that count in every run, with or without faults.
fn anywhere(facts: &Facts) -> Vec<Breach> {
    let mut found = Vec::new();
    if let Some(ending) = &facts.ending {
        let (oracle, kind) = match ending.kind {
            EndingKind::Storm => ("storm", "requests without an end"),
            EndingKind::Exits => (ALIVE, "ends again and again"),
            EndingKind::Hang => (ALIVE, "a run without an end"),
            EndingKind::Environment | EndingKind::Seed | EndingKind::Launch => (ALIVE, "the run failed"),
        };
        found.push(Breach::of_run(oracle, kind, end(facts), ending.text.clone()));
    }
    for exit in facts.exits.iter().filter(|exit| exit.panicked) {
        let at = Duration::from_millis(exit.at);
        found.push(Breach::of_ending("a panic", at, format!("the program crashed: {}", exit.reason)));
    }
    for (object, why) in &facts.stuck {
        found.push(of_object(
            "stuck",
            object,
            "finalizers",
            facts,
            format!("{object}: {why}"),
            &json!({ "absent": target(object) }),
        ));
    }
    for blind in &facts.blind {
        found.push(Breach {
            oracle: "blind".to_owned(),
            resource: blind.resource.clone(),
            kind: blind.verb.clone(),
            at: Duration::from_millis(blind.at),
            text: blind.text.clone(),
            expected: json!({ "quiet": true }),
        });
    }
    for text in &facts.by_update {
        let resource = text.split_whitespace().nth(3).and_then(|object| object.split('/').next()).unwrap_or_default();
        found.push(Breach {
            resource: resource.to_owned(),
            ..Breach::of_run("status", "by an update", end(facts), text.clone())
        });
    }
    found.extend(storms(&facts.requests));
    found
}

/// Returns the first end of the program that is no panic. A program may end when it has lost its lease, a right or its
/// server.
fn exits(facts: &Facts) -> Option<Breach> {
    let exit = facts.exits.iter().find(|exit| !exit.panicked && exit.lost.is_none())?;
    let text = format!("the program ended by itself: {}", exit.reason);
    Some(Breach::of_ending("ends by itself", Duration::from_millis(exit.at), text))
}

fn end(facts: &Facts) -> Duration {
    Duration::from_millis(facts.end)
}

/// Returns an object in the words of fixtures: `configmaps default/a` is `configmaps/a`.
fn target(object: &str) -> String {
    let object = object.split(" #").next().unwrap_or_default();
    let Some((resource, name)) = object.split_once(' ') else { return object.to_owned() };
    match name.split_once('/') {
        Some(("default", name)) => format!("{resource}/{name}"),
        Some((namespace, name)) => format!("{namespace}:{resource}/{name}"),
        None => format!("{resource}/{name}"),
    }
}

fn of_object(oracle: &str, object: &str, kind: &str, facts: &Facts, text: String, expected: &Value) -> Breach {
    let resource = object.split(' ').next().unwrap_or_default().to_owned();
    let expected = expected.clone();
    Breach { oracle: oracle.to_owned(), resource, kind: kind.to_owned(), at: end(facts), text, expected }
}

fn of_difference(difference: &StateDifference, facts: &Facts) -> Breach {
    let object = target(&difference.object);
    let expected = match (&*difference.kind, &difference.wanted) {
        (LEFT, _) => json!({ "absent": object }),
        (MISSING, _) | (_, None) => json!({ "exists": object }),
        (path, Some(value)) if !path.contains('*') && !value.to_string().contains("\"(") => {
            let nested = path.rsplit('.').fold(value.clone(), |value, name| json!({ name: value }));
            json!({ "match": { object: nested } })
        }
        _ => json!({ "exists": object }),
    };
    let text = format!("{}: {}", difference.object, difference.text);
    of_object(END_STATE, &difference.object, &difference.kind, facts, text, &expected)
}

/// Returns requests that the server refuses in the run without faults: conflicts of a program with itself, invalid
/// objects, missing rights. A 404 of a GET or a DELETE, and a 409 of a creation are answers.
fn refused(facts: &Facts) -> Vec<Breach> {
    let mut found = BTreeMap::new();
    for request in facts.requests.iter().filter(|request| !request.faulted && (400..500).contains(&request.code)) {
        let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
        let (oracle, wrong) = match request.code {
            401 | 403 => ("rights", true),
            // An object that is gone may still be in the program's cache.
            404 => ("refused", matches!(request.verb.as_str(), "update" | "create") && !request.existed),
            409 | 410 | 429 => ("refused", false),
            _ => ("refused", !reads || request.code != 400),
        };
        if wrong {
            let text = format!("{}: {}", request.text, request.refusal);
            let at = Duration::from_millis(request.at);
            let oracle = oracle.to_owned();
            let kind = format!("{} {}", request.verb, request.code);
            let expected = json!({ "quiet": true });
            let breach = Breach { oracle, resource: request.resource.clone(), kind, at, text, expected };
            found.entry(breach.fingerprint()).or_insert(breach);
        }
    }
    found.into_values().collect()
}

/// Returns updates and patches that change nothing.
fn idle_updates(facts: &Facts) -> Vec<Breach> {
    let mut counts: BTreeMap<(&str, &str), Vec<&Request>> = BTreeMap::new();
    for request in &facts.requests {
        let writes = matches!(request.verb.as_str(), "update" | "patch") && request.code == 200;
        if writes && !request.changed && !request.resource.starts_with("events") {
            counts.entry((&request.resource, &request.verb)).or_default().push(request);
        }
    }
    let breach = |((resource, verb), requests): ((&str, &str), Vec<&Request>)| {
        let first = requests.first().filter(|_| requests.len() >= IDLE_UPDATES)?;
        let text = format!("{} such requests change nothing; the first: {}", requests.len(), first.text);
        let at = Duration::from_millis(first.at);
        Some(Breach { resource: resource.to_owned(), ..Breach::of_run("idle update", verb, at, text) })
    };
    counts.into_iter().filter_map(breach).collect()
}

/// Returns equal requests that are repeated too often within a second.
fn storms(requests: &[Request]) -> Vec<Breach> {
    let mut recent: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut found: BTreeMap<String, Breach> = BTreeMap::new();
    for request in requests {
        let name = format!("{} {} {}", request.verb, request.resource, request.object);
        let times = recent.entry(name.clone()).or_default();
        times.retain(|at| *at + 1000 > request.at);
        times.push(request.at);
        if times.len() > STORM && !found.contains_key(&name) {
            let text = format!("more than {STORM} times within a second: {}", request.text);
            let at = Duration::from_millis(request.at);
            let breach = Breach::of_run("storm", &request.verb, at, text);
            found.insert(name, Breach { resource: request.resource.clone(), ..breach });
        }
    }
    found.into_values().collect()
}

/// Returns objects that the program deletes, and leaves alone without the fault, or deletes later or less often: a
/// fault delays, and hastens nothing. What has a random name, or exists in some runs only, may go in any of them.
fn more_deletions(volatile: &Volatile, without: &Facts, facts: &Facts) -> Vec<Breach> {
    let breach = |(object, deletion): (&String, &Deletion)| {
        if object.contains("(random)") || volatile.contains(object) {
            return None;
        }
        let usual = without.deleted.get(object);
        let is_early = usual.is_none_or(|usual| is_early(deletion.at, usual));
        let is_repeated = usual.is_some_and(|usual| deletion.effective.0 > usual.effective.0);
        let text = match usual {
            None => format!("{}: without the fault the program never deletes it", deletion.request),
            Some(usual) if is_early => {
                let seconds = usual.at / 1000;
                format!("{}: without the fault the program deletes it not before {seconds} s", deletion.request)
            }
            Some(usual) if is_repeated => {
                let (count, last) = &deletion.effective;
                format!("{last}: it is deleted {count} times; without the fault {}", usual.effective.0)
            }
            Some(_) => return None,
        };
        Some(of_object(DELETES, object, "deleted", facts, text, &json!({ "exists": target(object) })))
    };
    facts.deleted.iter().filter_map(breach).collect()
}

/// Returns true for a deletion long before that of the run without faults, which may be part of a loop: a program that
/// started again at another time answers a step sooner, but not before it.
fn is_early(at: u64, usual: &Deletion) -> bool {
    let tolerance = if at >= usual.step { ROUND } else { EARLY };
    at + tolerance < usual.at
}

/// Returns objects that are written far more often than without the fault.
fn more_writes(without: &Facts, facts: &Facts) -> Vec<Breach> {
    let counted = |facts: &Facts| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for request in
            facts.requests.iter().filter(|request| request.changed && !request.resource.starts_with("events"))
        {
            *counts.entry(format!("{} {} {}", request.verb, request.resource, request.object)).or_default() += 1;
        }
        counts
    };
    let before = counted(without);
    let mut found = Vec::new();
    for (name, count) in counted(facts) {
        let usual = before.get(&name).copied().unwrap_or_default();
        if count > usual * 3 + MORE_WRITES {
            let mut words = name.split(' ');
            let verb = words.next().unwrap_or_default();
            let resource = words.next().unwrap_or_default().to_owned();
            let text = format!("{count} times {name}; without the fault {usual} times");
            found.push(Breach { resource, ..Breach::of_run("writes", verb, end(facts), text) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::another_round(56_000, 60_000, 50_000, false)]
    #[case::before_the_step(49_000, 60_000, 50_000, true)]
    #[case::without_the_countdown(51_000, 110_000, 50_000, true)]
    #[case::later(61_000, 60_000, 50_000, false)]
    fn deletions_may_come_a_round_earlier(
        #[case] at: u64,
        #[case] usual: u64,
        #[case] step: u64,
        #[case] expected: bool,
    ) {
        assert_eq!(is_early(at, &Deletion { at: usual, step, ..Deletion::default() }), expected);
    }
}
