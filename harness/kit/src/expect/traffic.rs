//! Judges the subject's requests over the whole run: order, completeness, and an explanation for every write.

use serde_json::Value;

use super::broken_promise::BrokenPromise;
use super::checks::{covers, is_event};
use super::judge_context::JudgeContext;
use super::requests::{is_subject_write, line, requests};
use super::run::Run;
use super::world::{ObjectStates, same_group};
use crate::fixture::check::RequestCheck;
use crate::fixture::matching::{self, MatchContext};
use crate::fixture::parse::step_checks;
use crate::fixture::pattern::Target;
use crate::fixture::{Check, CheckKind, Fixture};
use crate::transcript::{Exchange, TranscriptEntry};

/// Judges `order`, `writes`, `only`, and that nothing else was written.
pub(super) fn judge(context: JudgeContext<'_>) -> Vec<BrokenPromise> {
    let mut failures = order(context);
    failures.extend(writes(context));
    failures.extend(unexplained(context));
    failures
}

/// Judges `order`, `writes` and `only`.
pub(super) fn judge_listed(context: JudgeContext<'_>) -> Vec<BrokenPromise> {
    let mut failures = order(context);
    failures.extend(writes(context));
    if context.fixture.traffic.only.is_some() {
        failures.extend(unexplained(context));
    }
    failures.retain(|failure| failure.check != "nothing else was written");
    failures
}

fn end_of(run: &Run<'_>) -> usize {
    run.entries.len().saturating_sub(1)
}

/// Returns true if the request matches, including its body. If only the body differs, returns the difference as an
/// error.
fn meets(
    wanted: &RequestCheck,
    entry: &TranscriptEntry,
    exchange: &Exchange,
    world: &ObjectStates,
    run: &Run<'_>,
) -> Result<bool, String> {
    if !covers(&wanted.pattern, entry, exchange, run) {
        return Ok(false);
    }
    let Some(pattern) = &wanted.body else { return Ok(true) };
    let uid = |name: &str| world.uid(name);
    let body = exchange.request.body.as_deref();
    matching::matches(pattern, body, MatchContext { start: run.start, tolerance: run.tolerance, uid: &uid })
        .map(|()| true)
        .map_err(|mismatch| format!("{} with body.{mismatch}", line(entry, exchange)))
}

fn order(JudgeContext { fixture, run, begin }: JudgeContext<'_>) -> Vec<BrokenPromise> {
    let mut world = begin.clone();
    let mut wanted = fixture.traffic.order.iter().peekable();
    let mut passed = Vec::new();
    let mut near = None;
    for entry in run.entries {
        let crate::transcript::EntryKind::Request(exchange) = &entry.what else {
            world.step(entry);
            continue;
        };
        let Some(next) = wanted.peek() else { return Vec::new() };
        match meets(next, entry, exchange, &world, run) {
            Ok(true) => {
                passed.push(line(entry, exchange));
                near = None;
                wanted.next();
            }
            Ok(false) => {}
            Err(difference) => near = Some(difference),
        }
    }
    let Some(missing) = wanted.next() else { return Vec::new() };
    let after = passed.last().map_or_else(|| "from the start".to_owned(), |last| format!("after {last}"));
    let observed = near.unwrap_or_else(|| {
        let same = requests(run.entries).filter(|(entry, exchange)| {
            let mut anytime = missing.pattern.clone();
            (anytime.at, anytime.code) = (None, None);
            covers(&anytime, entry, exchange, run)
        });
        let seen: Vec<String> = same.map(|(entry, exchange)| line(entry, exchange)).take(6).collect();
        if seen.is_empty() { "no such request".to_owned() } else { format!("only {}", seen.join(", ")) }
    });
    vec![BrokenPromise {
        line: missing.line,
        at: run.end,
        seq: end_of(run),
        check: "order".to_owned(),
        expected: format!("{} {after}", missing.pattern),
        observed,
    }]
}

fn is_event_write(exchange: &Exchange) -> bool {
    exchange.request.resource == "events"
}

fn writes(JudgeContext { fixture, run, begin }: JudgeContext<'_>) -> Vec<BrokenPromise> {
    let Some(wanted) = &fixture.traffic.writes else { return Vec::new() };
    let mut world = begin.clone();
    let mut wanted = wanted.iter();
    for entry in run.entries {
        world.step(entry);
        let crate::transcript::EntryKind::Request(exchange) = &entry.what else { continue };
        if !is_subject_write(entry, exchange) || is_event_write(exchange) {
            continue;
        }
        let next = wanted.next();
        let result = next.map_or(Ok(false), |next| meets(next, entry, exchange, &world, run));
        if result != Ok(true) {
            return vec![BrokenPromise {
                line: next.map_or(0, |next| next.line),
                at: entry.at,
                seq: entry.seq,
                check: "writes".to_owned(),
                expected: next.map_or_else(|| "no further write".to_owned(), |next| next.pattern.to_string()),
                observed: result.err().unwrap_or_else(|| line(entry, exchange)),
            }];
        }
    }
    let missing = wanted.next().map(|next| BrokenPromise {
        line: next.line,
        at: run.end,
        seq: end_of(run),
        check: "writes".to_owned(),
        expected: next.pattern.to_string(),
        observed: "no further write".to_owned(),
    });
    missing.into_iter().collect()
}

/// A check of an object, which explains writes to that object.
#[derive(Debug, Clone, Copy)]
struct Explanation<'a> {
    target: &'a Target,
    /// True if it also explains deletes.
    deletes: bool,
}

fn all_checks(fixture: &Fixture) -> impl Iterator<Item = &Check> {
    fixture.steps.iter().flat_map(step_checks).chain(&fixture.expect)
}

fn explanations(fixture: &Fixture) -> Vec<Explanation<'_>> {
    all_checks(fixture).filter_map(|check| explanation(&check.kind)).collect()
}

fn explanation(kind: &CheckKind) -> Option<Explanation<'_>> {
    match kind {
        CheckKind::Absent(target) | CheckKind::Objects { target, .. } => Some(Explanation { target, deletes: true }),
        CheckKind::Match { target, pattern } => {
            Some(Explanation { target, deletes: pattern["metadata"].get("deletionTimestamp").is_some() })
        }
        CheckKind::Budget { target, .. } | CheckKind::Condition { target, .. } => {
            Some(Explanation { target, deletes: false })
        }
        _ => None,
    }
}

fn unexplained(JudgeContext { fixture, run, begin }: JudgeContext<'_>) -> Vec<BrokenPromise> {
    let traffic = &fixture.traffic;
    let explanations = explanations(fixture);
    let mut world = begin.clone();
    let mut failures: Vec<BrokenPromise> = Vec::new();
    for entry in run.entries {
        world.step(entry);
        let crate::transcript::EntryKind::Request(exchange) = &entry.what else { continue };
        if !is_subject_write(entry, exchange) {
            continue;
        }
        let patterns = traffic.order.iter().chain(traffic.writes.iter().flatten()).map(|check| &check.pattern);
        let patterns = patterns.chain(&traffic.allow).chain(traffic.only.iter().flatten());
        let counted = all_checks(fixture).filter_map(|check| match &check.kind {
            CheckKind::Requests { pattern, count } if count.max > 0 => Some(pattern),
            _ => None,
        });
        let named = patterns.chain(counted).any(|pattern| covers(pattern, entry, exchange, run));
        let expected_event = is_event_write(exchange) && explains_event(fixture, exchange, &world);
        let strict = traffic.only.is_some() && !is_event_write(exchange);
        // `writes` is judged separately and more strictly.
        let listed = traffic.writes.is_some() && !is_event_write(exchange);
        if named || expected_event || listed || (!strict && explained(&explanations, exchange)) {
            continue;
        }
        failures.push(BrokenPromise {
            line: 0,
            at: entry.at,
            seq: entry.seq,
            check: if strict { "only" } else { "nothing else was written" }.to_owned(),
            expected: "only writes that the fixture expects or allows".to_owned(),
            observed: described(entry, exchange),
        });
    }
    // More than three failures of the same kind add no information.
    let total = failures.len();
    failures.truncate(3);
    if let Some(last) = failures.last_mut().filter(|_| total > 3) {
        last.observed = format!("{} (and {} more unexplained writes)", last.observed, total - 3);
    }
    failures
}

fn described(entry: &TranscriptEntry, exchange: &Exchange) -> String {
    let body = exchange.request.body.as_deref();
    match body.filter(|_| is_event_write(exchange)) {
        Some(event) => {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}: {}", line(entry, exchange), text("type"), text("reason"), text("message"))
        }
        None => line(entry, exchange),
    }
}

fn explained(explanations: &[Explanation<'_>], exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let Some(name) = request.name.as_deref() else { return false };
    let deletes = matches!(request.verb.as_str(), "delete" | "deletecollection");
    explanations.iter().any(|explains| {
        let group = &explains.target.resource.group;
        same_group(group, &request.group)
            && explains.target.covers(group, &request.resource, request.namespace.as_deref(), name)
            && (explains.deletes || !deletes)
    })
}

/// Returns true if `events` expects this Event. A PATCH that increments the count has no reason in its body: then the
/// stored Event or the reply decides.
fn explains_event(fixture: &Fixture, exchange: &Exchange, world: &ObjectStates) -> bool {
    let body = exchange.request.body.as_deref().filter(|body| body["reason"].is_string()).cloned();
    let stored = || {
        let name = exchange.request.name.as_deref()?;
        world.all("events").find(|(key, _)| key.name == name).map(|(_, event)| Value::clone(event))
    };
    let later = || {
        let replied = exchange.reply.as_ref()?.body.as_deref()?;
        replied["reason"].is_string().then(|| replied.clone())
    };
    let Some(event) = body.or_else(stored).or_else(later) else { return false };
    all_checks(fixture).any(|check| match &check.kind {
        CheckKind::Event(pattern) => pattern.count.max > 0 && is_event(pattern, &event),
        _ => false,
    })
}
