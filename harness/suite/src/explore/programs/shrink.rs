//! Shrinks a finding of a program: faults, steps, objects and fields are dropped as long as it stays the same. The
//! result is a scenario that brings the faults along.

use std::time::Duration;

use plumbline::explore::breach::Breach;
use plumbline::explore::faults::inject::RESTART_AFTER;
use plumbline::explore::faults::plan::Token;
use plumbline::fixture::{fault_words, time_text, yaml};
use plumbline::time::Stopwatch;
use serde_json::{Map, Value, json};

use super::delayed::Delayed;
use super::job::{PlannedFault, Scenario};
use super::launch::Launcher;
use super::oracles;
use super::search::{ProgramOptions, reference, resolve};
use super::subject::{ScenarioSubject, subject};
use crate::explore::findings::fixture_text::to_yaml;
use crate::explore::findings::shrink::{Case, TIMES, places_in, prepend, remove, step_of, steps_in_order, timed_step};
use crate::process::signals;

/// Number of candidates to try at most, each of which needs runs without faults and one with them.
const MOST_TRIES: usize = 30;
/// Wall time after which no candidate is tried.
const LONGEST: Duration = Duration::from_mins(2);
/// Deepest level below `given` and `steps` at which parts are dropped.
const DEPTH: usize = 3;

struct ScenarioShrinker<'a> {
    subject: &'a ScenarioSubject,
    launcher: &'a Launcher,
    options: &'a ProgramOptions,
    fingerprint: &'a str,
    tries: usize,
    watch: Stopwatch,
    /// The plan of the smallest case so far.
    plan: Vec<PlannedFault>,
}

/// Returns the shrunk scenario of the finding with `fingerprint`, whose plan is `token`; `why` describes the breach.
#[must_use]
pub fn shrink(
    subject: &ScenarioSubject,
    (launcher, options): (&Launcher, &ProgramOptions),
    plan: &[PlannedFault],
    token: &Token,
    (fingerprint, why): (&str, &str),
) -> Option<String> {
    let mut case = Case { document: document(subject)?, faults: token.faults.clone() };
    let tries = 0;
    let watch = Stopwatch::start();
    let mut shrinker = ScenarioShrinker { subject, launcher, options, fingerprint, tries, watch, plan: plan.to_vec() };
    for index in (0..case.faults.len()).rev().filter(|_| token.faults.len() > 1) {
        let mut fewer = case.clone();
        fewer.faults.remove(index);
        shrinker.replaces(&mut case, fewer);
    }
    let mut places = Vec::new();
    for part in ["given", "steps"] {
        places_in(&case.document[part], &format!("/{part}"), DEPTH, &mut places);
    }
    places.sort_by_key(|place| place.matches('/').count());
    for place in places.into_iter().filter(|place| !TIMES.iter().any(|time| place.ends_with(&format!("/{time}")))) {
        let mut smaller = case.clone();
        if remove(&mut smaller.document, &place) {
            shrinker.replaces(&mut case, smaller);
        }
    }
    Some(written(&case.document, &shrinker.plan, why))
}

/// Returns the scenario as a document in which each step has its time.
fn document(subject: &ScenarioSubject) -> Option<Value> {
    let whole = yaml::parse(&subject.scenario.text).ok()?.to_value();
    let mut document = Map::new();
    document.insert("given".to_owned(), whole.get("given").cloned().unwrap_or_else(|| json!({})));
    let steps = whole["steps"].as_array().cloned().unwrap_or_default().into_iter().zip(&subject.fixture.steps);
    let timed = steps.filter_map(|(written, step)| timed_step(&written, step.at));
    document.insert("steps".to_owned(), timed.collect());
    Some(Value::Object(document))
}

impl ScenarioShrinker<'_> {
    /// Takes `candidate` instead of `case` if it shows the finding.
    fn replaces(&mut self, case: &mut Case, candidate: Case) -> bool {
        let is_over = self.tries >= MOST_TRIES || self.watch.elapsed() > LONGEST || signals::requested().is_some();
        if is_over {
            return false;
        }
        self.tries += 1;
        let Some(plan) = self.shown(&candidate) else { return false };
        self.plan = plan;
        *case = candidate;
        true
    }

    /// Returns the plan with which the candidate shows the finding.
    fn shown(&self, case: &Case) -> Option<Vec<PlannedFault>> {
        let text = to_yaml(&case.document);
        let scenario = Scenario { text, ..self.subject.scenario.clone() };
        let candidate = subject(&self.subject.program, scenario).ok()?;
        let without = reference(&candidate, self.launcher, self.options).ok()?;
        if case.faults.is_empty() {
            return self.found(&oracles::judge_alone(&without.facts)).map(|_| Vec::new());
        }
        let token = Token { fixture: candidate.fixture.id.clone(), faults: case.faults.clone() };
        let plan = resolve(&without, &token).ok()?;
        let facts = self.launcher.run(0, candidate.job(&plan, Some(&without), false));
        let breaches = oracles::judge(&without, &facts);
        let breach = self.found(&breaches)?;
        Delayed::new(&candidate, self.launcher).confirms(&without, &plan, (breach, &facts)).then_some(plan)
    }

    fn found<'b>(&self, breaches: &'b [Breach]) -> Option<&'b Breach> {
        breaches.iter().find(|breach| breach.fingerprint() == self.fingerprint)
    }
}

/// Writes the scenario with the faults of the plan.
fn written(document: &Value, plan: &[PlannedFault], why: &str) -> String {
    let mut document = document.clone();
    let own = document["steps"].as_array().cloned().unwrap_or_default();
    let time = |step: &Value| step["at"].as_str().and_then(time_of).unwrap_or_default();
    let mut steps: Vec<(Duration, Value)> = own.into_iter().map(|step| (time(&step), step)).collect();
    let mut faults = Vec::new();
    let mut watches = Vec::new();
    let mut wordless = Vec::new();
    for (disturbance, point) in plan {
        let injection = disturbance.inject(&point.point(), RESTART_AFTER);
        let words: Vec<Value> = injection.faults.iter().filter_map(fault_words::of_fault).collect();
        let watch: Vec<Value> =
            injection.before_start.iter().filter_map(fault_words::of_watch).map(Value::String).collect();
        let acts: Vec<(Duration, Value)> =
            injection.steps.iter().filter_map(|(at, actions)| Some((*at, step_of(actions)?))).collect();
        if words.len() + watch.len() + acts.len()
            < injection.faults.len() + injection.before_start.len() + injection.steps.len()
        {
            wordless.push(format!("{disturbance}@{}", point.point()));
        }
        faults.extend(words);
        watches.extend(watch);
        steps.extend(acts);
    }
    prepend(&mut document, "faults", faults);
    prepend(&mut document, "watch", watches);
    document["steps"] = steps_in_order(steps).into();
    document["promise"] = json!(format!("Explored: {}.", why.trim_end_matches('.')));
    if !wordless.is_empty() {
        let faults = wordless.join(", ");
        document["about"] = json!(format!("Scenarios have no words for {faults}: repeat the finding with --replay."));
    }
    let text = to_yaml(&document);
    // The first line names the schema of fixtures.
    text.split_once('\n').map_or(text.clone(), |(_, rest)| rest.to_owned())
}

/// Reads a time as [`time_text::seconds`] writes it.
fn time_of(text: &str) -> Option<Duration> {
    time_text::duration(text).ok()
}
