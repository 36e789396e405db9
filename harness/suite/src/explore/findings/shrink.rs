//! Shrinks a finding: drops faults, steps, objects and fields, weakens faults and lowers their occurrences, until
//! nothing can go. A candidate counts only if it fails with the same fingerprint.
//!
//! It works on the text of the fixture, so that the result keeps the short forms of its author.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use plumbline::explore::breach::{Breach, FRESH, QUIET};
use plumbline::explore::faults::inject::RESTART_AFTER;
use plumbline::explore::faults::plan::{FaultPlan, Token};
use plumbline::explore::faults::{Disturbance, FaultTrait};
use plumbline::fixture::decode::Context;
use plumbline::fixture::{Action, Fixture, StepKind, fault_words, matrix, parse, time_text, yaml};
use serde_json::{Map, Value, json};

use super::fixture_text::to_yaml;
use crate::explore::histories::facts::controls_subject;
use crate::explore::histories::random;
use crate::explore::search::runs::{HANG, reference_once, resolve, run_plan};
use crate::process::signals;
use crate::runner::isolate::{self, JobOutcome, JobTimer};
use crate::runner::suite::TestBed;

/// Number of candidates to try at most.
const MOST_TRIES: usize = 600;
/// Deepest level below `given` and `steps` at which parts are dropped.
const DEPTH: usize = 5;
/// Fields of steps that are checks: the oracles replace them.
const CHECKS: [&str; 3] = ["expect", "consistently", "eventually"];
/// Fields of steps that name their time.
pub(in crate::explore) const TIMES: [&str; 6] = ["at", "after", "until", "for", "by", "within"];

/// A finding that cannot be shrunk.
#[derive(Debug, thiserror::Error)]
pub enum ShrinkError {
    /// The file of the fixture cannot be read.
    #[error("unable to read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file of the fixture is no YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::SyntaxError),
    /// The file no longer has the row of a matrix.
    #[error("{} has no such row", .0.display())]
    NoRow(PathBuf),
    /// The finding depends on the checks of its fixture, or on chance.
    #[error("the finding of {0} does not repeat without the checks of its fixture")]
    DoesNotRepeat(Token),
}

/// A finding as small as it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShrunkFinding {
    /// The plan on the original fixture, with the weakest faults that suffice.
    pub token: Token,
    /// The breach by the shrunk fixture.
    pub breach: Breach,
    /// The shrunk history as a fixture that fails while the bug exists.
    pub text: String,
    /// Number of candidates that were tried.
    pub tries: usize,
}

/// A candidate: a document with `given` and `steps`, and the faults to inject.
#[derive(Debug, Clone)]
pub(in crate::explore) struct Case {
    pub(in crate::explore) document: Value,
    pub(in crate::explore) faults: Vec<(Disturbance, String)>,
}

/// Shrinks the finding with `fingerprint` of `plan` on `fixture`.
///
/// # Errors
///
/// Returns the reason if the file of the fixture cannot be read or the finding does not repeat.
pub fn shrink(
    test_bed: &TestBed,
    fixture: &Fixture,
    plan: &FaultPlan,
    fingerprint: &str,
) -> Result<ShrunkFinding, ShrinkError> {
    let document = document(fixture)?;
    let mut case = Case { document, faults: plan.token().faults };
    let mut shrinker = Shrinker { test_bed, fixture, fingerprint, tries: 0, best: None };
    if !shrinker.fails(&case) {
        return Err(ShrinkError::DoesNotRepeat(plan.token()));
    }
    loop {
        let before = shrinker.tries;
        let smaller = shrinker.fewer_faults(&mut case) | shrinker.smaller_document(&mut case);
        if !(smaller | shrinker.weaker_faults(&mut case)) || shrinker.tries >= MOST_TRIES || shrinker.tries == before {
            break;
        }
    }
    let tries = shrinker.tries;
    let (smallest, breach) = shrinker.best.ok_or_else(|| ShrinkError::DoesNotRepeat(plan.token()))?;
    let text = written(&case.document, fixture, plan, &smallest, &breach);
    let token = Token { fixture: fixture.id.clone(), faults: case.faults };
    Ok(ShrunkFinding { token, breach, text, tries })
}

/// Reads the file of `fixture` and returns its row as a document without checks, in which each step has its time.
fn document(fixture: &Fixture) -> Result<Value, ShrinkError> {
    let text = match random::text_of(&fixture.id) {
        Some(text) => text,
        None => fs::read_to_string(&fixture.file)
            .map_err(|source| ShrinkError::Read { file: fixture.file.clone(), source })?,
    };
    document_of(&text, fixture)
}

fn document_of(text: &str, fixture: &Fixture) -> Result<Value, ShrinkError> {
    let root = yaml::parse(text)?;
    let rows = matrix::expand(&root, &Context::default());
    let row = fixture.row.as_ref().map(|row| row.id.as_str());
    let tree = rows.into_iter().find(|(found, _)| found.as_ref().map(|row| row.id.as_str()) == row);
    let (_, tree) = tree.ok_or_else(|| ShrinkError::NoRow(fixture.file.clone()))?;
    let whole = tree.to_value();
    let mut document = Map::new();
    for field in ["level", "feature", "controllers", "flags", "replicas", "given", "waive"] {
        if let Some(value) = whole.get(field) {
            document.insert(field.to_owned(), value.clone());
        }
    }
    let written = whole["steps"].as_array().cloned().unwrap_or_default();
    let timed = written.into_iter().zip(&fixture.steps).filter_map(|(written, step)| {
        if !matches!(step.kind, StepKind::Do { .. }) || CHECKS.iter().any(|check| written.get(check).is_some()) {
            return None;
        }
        timed_step(&written, step.at)
    });
    document.insert("steps".to_owned(), timed.collect());
    Ok(Value::Object(document))
}

/// Returns a step with the time `at` instead of the fields that name it; `None` if it is no object.
pub(in crate::explore) fn timed_step(written: &Value, at: Duration) -> Option<Value> {
    let mut fields = written.as_object()?.clone();
    for field in TIMES.iter().chain(&["note"]) {
        fields.remove(*field);
    }
    fields.insert("at".to_owned(), json!(time_text::seconds(at)));
    Some(Value::Object(fields))
}

/// Returns steps in the order of their times, which they name.
pub(in crate::explore) fn steps_in_order(mut steps: Vec<(Duration, Value)>) -> Vec<Value> {
    steps.sort_by_key(|(at, _)| *at);
    let timed = steps.into_iter().map(|(at, mut step)| {
        step["at"] = json!(time_text::seconds(at));
        step
    });
    timed.collect()
}

/// Returns the breach with this fingerprint, and the plan that shows it.
fn breach_of(
    test_bed: &TestBed,
    fixture: &Arc<Fixture>,
    faults: &[(Disturbance, String)],
    fingerprint: &str,
) -> Option<(FaultPlan, Breach)> {
    let (reference, alone) = reference_once(test_bed, fixture);
    let named = |breaches: Vec<Breach>| breaches.into_iter().find(|breach| breach.fingerprint() == fingerprint);
    if faults.is_empty() {
        return named(alone.breaches).map(|breach| (FaultPlan::calm(&fixture.id), breach));
    }
    let token = Token { fixture: fixture.id.clone(), faults: faults.to_vec() };
    let plan = resolve(test_bed, &reference, &token).ok()?;
    let result = run_plan(test_bed, &reference, plan, |_, _| {});
    named(result.verdict.breaches).map(|breach| (result.plan, breach))
}

struct Shrinker<'a> {
    test_bed: &'a TestBed,
    fixture: &'a Fixture,
    fingerprint: &'a str,
    tries: usize,
    /// The plan and the breach of the smallest case so far.
    best: Option<(FaultPlan, Breach)>,
}

impl Shrinker<'_> {
    /// Returns true if the candidate fails with the fingerprint, and remembers its plan.
    fn fails(&mut self, case: &Case) -> bool {
        // After a signal there is one minute to write the report, so findings stay as large as they are.
        let is_over = self.tries > 0 && signals::requested().is_some();
        if self.tries >= MOST_TRIES || is_over {
            return false;
        }
        self.tries += 1;
        let found = self.run(case);
        let fails = found.is_some();
        self.best = found.or(self.best.take());
        fails
    }

    /// Runs the candidate on a thread of its own, because a part that is dropped may be what ends its history.
    fn run(&self, case: &Case) -> Option<(FaultPlan, Breach)> {
        let fixture = Arc::new(parsed(&case.document, self.fixture)?);
        let test_bed = self.test_bed.clone();
        let fingerprint = self.fingerprint.to_owned();
        let faults = case.faults.clone();
        let work = move |_: usize, _: &JobTimer| breach_of(&test_bed, &fixture, &faults, &fingerprint);
        let mut found = None;
        isolate::run_each(1, 1, HANG, work, |_, outcome| {
            if let JobOutcome::Returned(breach) = outcome {
                found = breach;
            }
            true
        });
        found
    }

    /// Tries `candidate` instead of `case`.
    fn replaces(&mut self, case: &mut Case, candidate: Case) -> bool {
        let fails = self.fails(&candidate);
        if fails {
            *case = candidate;
        }
        fails
    }

    fn fewer_faults(&mut self, case: &mut Case) -> bool {
        let mut any = false;
        for index in (0..case.faults.len()).rev() {
            let mut fewer = case.clone();
            fewer.faults.remove(index);
            any |= self.replaces(case, fewer);
        }
        any
    }

    /// Drops parts of the document, from its end.
    fn smaller_document(&mut self, case: &mut Case) -> bool {
        let mut any = false;
        let mut places = vec!["/replicas".to_owned()];
        for part in ["given", "flags", "steps"] {
            places_in(&case.document[part], &format!("/{part}"), DEPTH, &mut places);
        }
        // Large parts first: a dropped list needs no look at its items.
        places.sort_by_key(|place| place.matches('/').count());
        for place in places {
            let mut smaller = case.clone();
            if remove(&mut smaller.document, &place) && self.replaces(case, smaller) {
                any = true;
            }
        }
        any
    }

    fn weaker_faults(&mut self, case: &mut Case) -> bool {
        let mut any = false;
        for index in 0..case.faults.len() {
            for weaker in case.faults[index].0.weaker() {
                let mut candidate = case.clone();
                candidate.faults[index].0 = weaker;
                if self.replaces(case, candidate) {
                    any = true;
                    break;
                }
            }
            let Some((point, number)) = case.faults[index].1.rsplit_once('#') else { continue };
            let point = point.to_owned();
            let number = number.parse::<u32>().unwrap_or(1);
            for lower in 1..number.min(20) {
                let mut candidate = case.clone();
                candidate.faults[index].1 = format!("{point}#{lower}");
                if self.replaces(case, candidate) {
                    any = true;
                    break;
                }
            }
        }
        any
    }
}

/// Lists the JSON pointers of everything that may be dropped; items of a list from its end, so that earlier pointers
/// stay valid.
pub(in crate::explore) fn places_in(value: &Value, place: &str, depth: usize, places: &mut Vec<String>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate().rev() {
                let place = format!("{place}/{index}");
                places.push(place.clone());
                places_in(item, &place, depth - 1, places);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                let place = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
                places.push(place.clone());
                places_in(item, &place, depth - 1, places);
            }
        }
        _ => {}
    }
}

/// Removes the value at `place`; returns false if there is none.
pub(in crate::explore) fn remove(document: &mut Value, place: &str) -> bool {
    let Some((parent, name)) = place.rsplit_once('/') else { return false };
    match document.pointer_mut(parent) {
        Some(Value::Array(items)) => {
            let index = name.parse::<usize>().ok().filter(|index| *index < items.len());
            index.map(|index| items.remove(index)).is_some()
        }
        Some(Value::Object(fields)) => fields.remove(&name.replace("~1", "/").replace("~0", "~")).is_some(),
        _ => false,
    }
}

/// Parses a document as a fixture; `None` if it is invalid.
fn parsed(document: &Value, original: &Fixture) -> Option<Fixture> {
    let mut document = document.clone();
    document["promise"] = json!("A candidate.");
    document["rule"] = json!(original.rules.first()?);
    document["source"] = json!("explore");
    // A fixture needs a step and a check.
    if let Some(steps) = document["steps"].as_array_mut() {
        steps.push(json!({ "expect": { "quiet": true } }));
    }
    let (fixtures, problems) = parse::read(Path::new("found.yaml"), &original.suite, &to_yaml(&document));
    let fixture = fixtures.into_iter().next().filter(|_| problems.is_empty())?;
    // Random worlds are judged more strictly than fixtures, see [`reference_once`].
    Some(Fixture { id: original.id.clone(), ..fixture })
}

/// Adds the faults of `plan` to the document of a fixture. Returns the steps with their times, and the time of the last
/// step or fault.
fn injected(document: &mut Value, original: &Fixture, plan: &FaultPlan) -> (Vec<Value>, Duration) {
    let restart_after = if controls_subject(original) { Duration::ZERO } else { RESTART_AFTER };
    let mut steps: Vec<(Duration, Value)> = Vec::new();
    if let Some(fixture) = parsed(document, original) {
        let own = document["steps"].as_array().cloned().unwrap_or_default();
        steps.extend(fixture.steps.iter().map(|step| step.at).zip(own));
    }
    let mut faults = Vec::new();
    let mut watches = Vec::new();
    for (disturbance, point) in &plan.faults {
        let injection = disturbance.inject(point, restart_after);
        faults.extend(injection.faults.iter().filter_map(fault_words::of_fault));
        watches.extend(injection.before_start.iter().filter_map(fault_words::of_watch).map(Value::String));
        steps.extend(injection.steps.into_iter().filter_map(|(at, actions)| Some((at, step_of(&actions)?))));
    }
    prepend(document, "faults", faults);
    prepend(document, "watch", watches);
    let end = steps.iter().map(|(at, _)| *at).chain(plan.faults.iter().map(|(_, point)| point.at)).max();
    (steps_in_order(steps), end.unwrap_or_default())
}

/// Adds `items` to the beginning of a list of `given`, which may be a single item.
pub(in crate::explore) fn prepend(document: &mut Value, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let own = match document["given"][field].take() {
        Value::Null => Vec::new(),
        Value::Array(own) => own,
        one => vec![one],
    };
    document["given"][field] = items.into_iter().chain(own).collect();
}

/// Writes the actions of an injected step; `None` if fixtures have words for none of them.
pub(in crate::explore) fn step_of(actions: &[Action]) -> Option<Value> {
    let mut written: Vec<Value> = actions.iter().filter_map(fault_words::of_action).collect();
    match written.len() {
        0 => None,
        1 => written.pop(),
        _ => Some(json!({ "do": written })),
    }
}

/// Writes the shrunk case of the finding `found` as a fixture that fails while the bug exists; `plan` has the faults
/// that are left. Its source repeats the finding on the original fixture.
fn written(document: &Value, original: &Fixture, found: &FaultPlan, plan: &FaultPlan, breach: &Breach) -> String {
    let mut document = document.clone();
    let (mut list, end) = injected(&mut document, original, plan);
    let settled = end + Duration::from_mins(5);
    match breach.oracle.as_str() {
        FRESH => {
            list.push(json!({ "at": time_text::seconds(settled), "controllers": "restart" }));
            list.push(json!({ "for": "2m", "consistently": { "quiet": true } }));
        }
        QUIET => {
            list.push(json!({ "at": time_text::seconds(settled), "expect": { "quiet": true } }));
            list.push(json!({ "for": "5m", "consistently": { "quiet": true } }));
        }
        _ => list.push(json!({ "at": time_text::seconds(settled), "expect": breach.expected })),
    }
    document["steps"] = Value::Array(list);
    document["promise"] = json!(format!("Explored: {}.", breach.text.trim_end_matches('.')));
    document["rule"] = json!(original.rules);
    document["controllers"] = original.controllers.iter().map(|controller| controller.as_str()).collect();
    document["source"] = json!(format!("plumbline explore --replay '{found}'"));
    if plan.faults.iter().any(|(disturbance, _)| disturbance.is(FaultTrait::IsWordless)) {
        let faults = faults_of(plan);
        document["about"] = json!(format!("Fixtures have no words for {faults}: repeat the finding by its source."));
    }
    to_yaml(&document)
}

fn faults_of(plan: &FaultPlan) -> String {
    plan.to_string().split_once(':').map(|(_, faults)| faults.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_dropped_by_pointer() {
        let mut document = json!({ "steps": [{ "at": "1s", "delete": "pods/a" }, { "at": "2s", "delete": "pods/b" }] });
        let mut places = Vec::new();
        places_in(&document["steps"], "/steps", 2, &mut places);
        assert_eq!(
            places,
            ["/steps/1", "/steps/1/at", "/steps/1/delete", "/steps/0", "/steps/0/at", "/steps/0/delete"]
        );
        assert!(remove(&mut document, "/steps/1") && remove(&mut document, "/steps/0/at"));
        assert!(!remove(&mut document, "/steps/1"));
        assert_eq!(document, json!({ "steps": [{ "delete": "pods/a" }] }));
    }

    #[test]
    fn a_row_becomes_a_document_without_checks() {
        let text = "promise: It goes.\nrule: BR-24-03\nlevel: core\nfeature: podgc.orphaned\n\
            matrix: [{ id: one, node: n1 }, { id: two, node: n2 }]\n\
            given: { nodes: [n1, n2], pods: [a on n1] }\nsteps:\n- { at: 5s, delete: \"nodes/${node}\" }\n\
            - { for: 10s, consistently: { exists: pods/a } }\n- { after: 5s, delete: pods/a }\nexpect: { events: none }\n";
        let (fixtures, problems) = parse::read(Path::new("a.yaml"), "podgc", text);
        assert!(problems.is_empty(), "{problems:?}");
        let document = document_of(text, &fixtures[1]).expect("a document");
        assert_eq!(
            document["steps"],
            json!([{ "at": "5s", "delete": "nodes/n2" }, { "at": "20s", "delete": "pods/a" }])
        );
        assert!(document.get("expect").is_none() && document.get("matrix").is_none());
        assert!(parsed(&document, &fixtures[1]).is_some());
    }
}
