//! Evaluates one check at one point of the transcript.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::requests::{is_subject_write, line, requests};
use super::run::Run;
use super::world::{ObjectStates, same_group};
use crate::fixture::check::{BudgetStatus, ConditionPattern, EventPattern, TextPattern};
use crate::fixture::matching::{self, MatchContext, is_in_second, show};
use crate::fixture::pattern::{RequestPattern, Target, glob};
use crate::fixture::{Check, CheckKind};
use crate::metadata;
use crate::transcript::{Attributed as _, Exchange, TranscriptEntry};

/// A point of a run at which checks are evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckPoint<'a> {
    /// The run.
    pub(crate) run: &'a Run<'a>,
    /// The objects at this point.
    pub(crate) world: &'a ObjectStates,
    /// The entries in which to count requests: from the begin of the window, or of the run, up to this point.
    pub(crate) entries: &'a [TranscriptEntry],
    /// The time of the point.
    pub(crate) at: Duration,
    /// True if `entries` is a window, all of which `quiet` inspects.
    pub(crate) window: bool,
}

/// The difference between the expected and the observed state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The expected state.
    pub(crate) expected: String,
    /// The observed state.
    pub(crate) observed: String,
}

impl Gap {
    fn new(expected: impl Into<String>, observed: impl Into<String>) -> Self {
        Self { expected: expected.into(), observed: observed.into() }
    }
}

/// Evaluates `check` at `point`.
///
/// # Errors
///
/// If the check does not hold: the difference.
pub(crate) fn evaluate(check: &Check, point: CheckPoint<'_>) -> Result<(), Gap> {
    match &check.kind {
        CheckKind::Exists(target) => exists(target, point),
        CheckKind::Absent(target) => absent(target, point),
        CheckKind::Budget { target, status } => each(target, point, |object| budget(status, object)),
        CheckKind::Match { target, pattern } => each(target, point, |object| matched(pattern, object, point)),
        CheckKind::Condition { target, condition: wanted } => {
            each(target, point, |object| condition(wanted, object, point))
        }
        CheckKind::Event(pattern) => event(pattern, point),
        CheckKind::Objects { target, labels, count } => {
            let found: Vec<&str> = point
                .world
                .find(target)
                .into_iter()
                .filter(|(_, object)| labels.iter().all(|(key, value)| metadata::labels(object)[key] == value.as_str()))
                .map(|(key, _)| key.name.as_str())
                .collect();
            hold(count.holds(found.len() as u64), || Gap::new(count.to_string(), format!("{} {found:?}", found.len())))
        }
        CheckKind::Requests { pattern, count } => {
            let found = found(pattern, point);
            hold(count.holds(found.len() as u64), || Gap::new(format!("{count} requests"), listed(&found)))
        }
        CheckKind::Never(pattern) => {
            let found = found(pattern, point);
            hold(found.is_empty(), || Gap::new("no such request", listed(&found)))
        }
        CheckKind::Quiet => quiet(point),
        CheckKind::Metric { name, labels, count } => {
            let fits = |text: &str| {
                let value = metric(text, name, labels)?;
                hold(value >= count.min as f64 && value <= count.max as f64, || {
                    Gap::new(count.to_string(), value.to_string())
                })
            };
            let (first, more) = readings(point)?;
            more.fold(fits(first), |before, text| before.or_else(|_| fits(text)))
        }
    }
}

/// Describes a check in the words of a fixture.
pub(crate) fn describe(check: &Check) -> String {
    match &check.kind {
        CheckKind::Exists(target) => format!("exists: {target}"),
        CheckKind::Absent(target) => format!("absent: {target}"),
        CheckKind::Budget { target, .. } => format!("status of {target}"),
        CheckKind::Match { target, .. } => format!("match: {target}"),
        CheckKind::Condition { target, condition } => format!("condition {} of {target}", condition.kind),
        CheckKind::Event(pattern) => format!("event {}", pattern.reason),
        CheckKind::Objects { target, labels, .. } => {
            let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("objects: {target} {}", labels.join(" ")).trim_end().to_owned()
        }
        CheckKind::Requests { pattern, .. } => format!("count: {pattern}"),
        CheckKind::Never(pattern) => format!("never: {pattern}"),
        CheckKind::Quiet => "quiet".to_owned(),
        CheckKind::Metric { name, .. } => format!("metric {name}"),
    }
}

fn hold(holds: bool, gap: impl FnOnce() -> Gap) -> Result<(), Gap> {
    if holds { Ok(()) } else { Err(gap()) }
}

fn exists(target: &Target, point: CheckPoint<'_>) -> Result<(), Gap> {
    hold(!point.world.find(target).is_empty(), || Gap::new(format!("{target} exists"), "no such object"))
}

fn absent(target: &Target, point: CheckPoint<'_>) -> Result<(), Gap> {
    let found: Vec<String> = point.world.find(target).iter().map(|(key, object)| present(&key.name, object)).collect();
    hold(found.is_empty(), || Gap::new(format!("no {target}"), format!("found {}", found.join(", "))))
}

/// Describes an object that still exists. Notes whether it is terminating or held by finalizers, the usual reasons.
fn present(name: &str, object: &Value) -> String {
    match (metadata::is_terminating(object), metadata::finalizers(object)) {
        (false, _) => name.to_owned(),
        (true, []) => format!("{name} (terminating)"),
        (true, _) => format!("{name} (terminating, held by finalizers)"),
    }
}

/// Applies a test to every object that `target` covers. There must be at least one.
fn each(target: &Target, point: CheckPoint<'_>, test: impl Fn(&Value) -> Result<(), Gap>) -> Result<(), Gap> {
    let mut any = false;
    for (key, object) in point.world.find(target) {
        any = true;
        test(object).map_err(|gap| {
            if target.is_glob() { Gap { observed: format!("{}: {}", key.name, gap.observed), ..gap } } else { gap }
        })?;
    }
    hold(any, || Gap::new(format!("{target} exists"), "no such object"))
}

fn budget(wanted: &BudgetStatus, object: &Value) -> Result<(), Gap> {
    let status = &object["status"];
    let numbers = [
        ("allowed", wanted.allowed, "disruptionsAllowed"),
        ("current", wanted.current, "currentHealthy"),
        ("desired", wanted.desired, "desiredHealthy"),
        ("expected", wanted.expected, "expectedPods"),
        ("generation", wanted.generation, "observedGeneration"),
    ];
    let mut expected = Vec::new();
    let mut observed = Vec::new();
    let mut good = true;
    for (name, wanted, field) in numbers {
        // The API omits observedGeneration when it is 0; the other four numbers are always present once there is a
        // status.
        let found = status[field].as_i64().or_else(|| (name == "generation").then_some(0));
        let Some(wanted) = wanted else { continue };
        good &= found == Some(wanted);
        expected.push(format!("{name} {wanted}"));
        observed.push(format!("{name} {}", found.map_or_else(|| "missing".to_owned(), |found| found.to_string())));
    }
    if let Some(wanted) = &wanted.disrupted {
        let found: BTreeSet<&str> =
            status["disruptedPods"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        good &= found == wanted.iter().map(String::as_str).collect();
        expected.push(format!("disrupted {wanted:?}"));
        observed.push(format!("disrupted {found:?}"));
    }
    hold(good, || Gap::new(expected.join(", "), observed.join(", ")))
}

fn match_context<'a>(point: CheckPoint<'a>, uid: &'a dyn Fn(&str) -> Option<String>) -> MatchContext<'a> {
    MatchContext { start: point.run.start, tolerance: point.run.tolerance, uid }
}

fn matched(pattern: &Value, object: &Value, point: CheckPoint<'_>) -> Result<(), Gap> {
    let uid = |name: &str| point.world.uid(name);
    matching::matches(pattern, Some(object), match_context(point, &uid)).map_err(|mismatch| {
        let place = |text: String| if mismatch.path.is_empty() { text } else { format!("{}: {text}", mismatch.path) };
        Gap::new(place(mismatch.wanted.clone()), mismatch.found.clone())
    })
}

fn condition(wanted: &ConditionPattern, object: &Value, point: CheckPoint<'_>) -> Result<(), Gap> {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let found: Vec<&Value> = conditions.iter().filter(|condition| condition["type"] == wanted.kind.as_str()).collect();
    let observed = || match found.as_slice() {
        [] => "no such condition".to_owned(),
        many => many.iter().map(|condition| show(Some(condition))).collect::<Vec<_>>().join(", "),
    };
    let Some(status) = &wanted.status else {
        return hold(found.is_empty(), || Gap::new("no such condition", observed()));
    };
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let good = |condition: &Value| {
        text(condition, "status") == *status
            && wanted.reason.as_ref().is_none_or(|reason| text(condition, "reason") == *reason)
            && wanted.message.as_ref().is_none_or(|message| text_matches(message, &text(condition, "message")))
            && wanted
                .generation
                .is_none_or(|generation| condition["observedGeneration"].as_i64().unwrap_or(0) == generation)
            && wanted.since.is_none_or(|since| changed_at(&text(condition, "lastTransitionTime"), since, point.run))
    };
    hold(matches!(found.as_slice(), [one] if good(one)), || {
        let mut expected = status.clone();
        if let Some(reason) = &wanted.reason {
            expected = format!("{expected}, reason {reason:?}");
        }
        if let Some(TextPattern::Exact(message) | TextPattern::Glob(message)) = &wanted.message {
            expected = format!("{expected}, message {message:?}");
        }
        if let Some(generation) = wanted.generation {
            expected = format!("{expected}, observedGeneration {generation}");
        }
        if let Some(since) = wanted.since {
            expected = format!("{expected}, since t={}s", floor_seconds(since));
        }
        Gap::new(expected, observed())
    })
}

/// Returns true if an API time is `since` after the start, compared in whole seconds.
fn changed_at(text: &str, since: jiff::SignedDuration, run: &Run<'_>) -> bool {
    let found = text.parse::<jiff::Timestamp>().ok();
    let wanted = run.start.checked_add(since).ok();
    found.zip(wanted).is_some_and(|(found, wanted)| is_in_second(found, wanted, (run.tolerance, run.late)))
}

/// Whole seconds, rounded down as the API's times are.
fn floor_seconds(duration: jiff::SignedDuration) -> i64 {
    duration.as_secs() - i64::from(duration.subsec_nanos() < 0)
}

/// Returns true if `text` matches the pattern.
pub(crate) fn text_matches(pattern: &TextPattern, text: &str) -> bool {
    match pattern {
        TextPattern::Exact(wanted) => wanted == text,
        TextPattern::Glob(pattern) => glob(pattern, text),
    }
}

/// Returns true if an Event matches `pattern`, ignoring the count.
pub(crate) fn is_event(pattern: &EventPattern, event: &Value) -> bool {
    let subject = if event["involvedObject"].is_null() { &event["regarding"] } else { &event["involvedObject"] };
    let message = event["message"].as_str().or_else(|| event["note"].as_str()).unwrap_or_default();
    event["reason"] == pattern.reason.as_str()
        && pattern.kind.as_ref().is_none_or(|kind| event["type"] == kind.as_str())
        && pattern.message.as_ref().is_none_or(|wanted| text_matches(wanted, message))
        && pattern.on.as_ref().is_none_or(|target| {
            let namespace = subject["namespace"].as_str().filter(|namespace| !namespace.is_empty());
            subject["kind"] == target.resource.kind.as_ref()
                && glob(&target.name, subject["name"].as_str().unwrap_or_default())
                && (target.namespace.is_none() || target.namespace.as_deref() == namespace)
        })
}

fn event(pattern: &EventPattern, point: CheckPoint<'_>) -> Result<(), Gap> {
    let mut number = 0;
    let mut others = Vec::new();
    for (_, event) in point.world.all("events") {
        if is_event(pattern, event) {
            number += event["count"].as_u64().or_else(|| event["series"]["count"].as_u64()).unwrap_or(1);
        } else {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            others.push(format!("{} {}: {}", text("type"), text("reason"), text("message")));
        }
    }
    hold(pattern.count.holds(number), || {
        let mut expected = pattern.reason.clone();
        if let Some(target) = &pattern.on {
            expected = format!("{expected} on {target}");
        }
        if let Some(TextPattern::Exact(message) | TextPattern::Glob(message)) = &pattern.message {
            expected = format!("{expected}: {message:?}");
        }
        let others =
            if others.is_empty() { "no other events".to_owned() } else { format!("others: {}", others.join("; ")) };
        Gap::new(format!("{} × {expected}", pattern.count), format!("{number} ({others})"))
    })
}

fn found<'a>(pattern: &RequestPattern, point: CheckPoint<'a>) -> Vec<(&'a TranscriptEntry, &'a Exchange)> {
    requests(point.entries).filter(|(entry, exchange)| covers(pattern, entry, exchange, point.run)).collect()
}

fn listed(found: &[(&TranscriptEntry, &Exchange)]) -> String {
    let lines: Vec<String> = found.iter().take(6).map(|(entry, exchange)| line(entry, exchange)).collect();
    match found.len() {
        0 => "none".to_owned(),
        n if n > lines.len() => format!("{n}: {}, …", lines.join(", ")),
        n => format!("{n}: {}", lines.join(", ")),
    }
}

fn quiet(point: CheckPoint<'_>) -> Result<(), Gap> {
    let writes: Vec<_> = requests(point.entries)
        .filter(|(entry, exchange)| {
            is_subject_write(entry, exchange) && (point.window || point.run.is_at(point.at, entry.at))
        })
        .collect();
    hold(writes.is_empty(), || Gap::new("no writes", listed(&writes)))
}

/// Returns true if `pattern` covers this request of `run`.
pub(crate) fn covers(pattern: &RequestPattern, entry: &TranscriptEntry, exchange: &Exchange, run: &Run<'_>) -> bool {
    let request = &exchange.request;
    let by = match &pattern.actor {
        Some(actor) => entry.actor().name() == actor,
        None => entry.actor().is_subject(),
    };
    let target = &pattern.target;
    let created = || request.body.as_ref().and_then(|body| metadata::text(body, "name"));
    let name = request.name.as_deref().or_else(created).unwrap_or_default();
    let group = if same_group(&target.resource.group, &request.group) {
        &target.resource.group
    } else {
        request.group.as_str()
    };
    by && pattern.verb.covers(&request.verb)
        && pattern.at.is_none_or(|at| run.is_at(at, entry.at))
        && target.covers(group, &request.resource, request.namespace.as_deref(), name)
        && match target.subresource.as_deref() {
            Some("*") => true,
            wanted => wanted == request.subresource.as_deref(),
        }
        && pattern.code.is_none_or(|code| exchange.reply.as_ref().is_some_and(|reply| code.covers(reply.status)))
}

/// Returns the metrics that count for this point. On a real clock the first reading is shortly after the step's time;
/// further readings follow if the subject may be late.
fn readings(point: CheckPoint<'_>) -> Result<(&str, impl Iterator<Item = &str>), Gap> {
    let scrapes = point.run.scrapes;
    let latest = point.at + point.run.tolerance;
    let (seen, later) = scrapes.split_at(scrapes.partition_point(|(at, _)| *at <= latest));
    let later = later.iter().take_while(move |(at, _)| *at <= latest + point.run.late);
    let mut all = seen.last().into_iter().chain(later).map(|(_, text)| text.as_str());
    let first = all.next().ok_or_else(|| Gap::new("metrics", "the metrics were not read"))?;
    Ok((first, all))
}

/// Returns the sum of the samples with these labels.
fn metric(text: &str, name: &str, labels: &[(String, String)]) -> Result<f64, Gap> {
    // If the metrics could not be read, the text is a single comment with the reason.
    if let Some(why) = text.strip_prefix("# ").filter(|rest| rest.trim_end().lines().count() == 1) {
        return Err(Gap::new("metrics", why.trim_end()));
    }
    let sample = |line: &str| {
        let (key, value) = line.rsplit_once(' ')?;
        let (found, rest) = key.split_once('{').unwrap_or((key, ""));
        let has = |(label, wanted): &(String, String)| {
            rest.trim_end_matches('}').split(',').any(|pair| {
                pair.split_once('=')
                    .is_some_and(|(key, value)| key.trim() == label && value.trim_matches('"') == wanted)
            })
        };
        (found == name && labels.iter().all(has)).then(|| value.parse::<f64>().ok())?
    };
    Ok(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).sum())
}
