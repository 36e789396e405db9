//! A sample of plans for another program, such as kube-controller-manager, on the wall clock: each plan becomes a
//! fixture that expects the end state of the subject's own run.

use std::path::Path;

use plumbline::expect::requests;
use plumbline::explore::disturbance::TOUCH;
use plumbline::explore::state::{ChangedObjects, changed_objects};
use plumbline::fixture::{Fixture, Level, parse};
use plumbline::object_meta;
use plumbline::transcript::{Actor, Attributed as _, TranscriptEntry};
use serde_json::{Value, json};

use super::engine::{self, ExploreOptions};
use super::model::TTL_ANNOTATION;
use super::oracle::OracleVerdict;
use super::plan::FaultPlan;
use super::script::is_beginning;
use super::shrink;
use crate::runner::suite::TestBed;

/// Longest history of a sampled fixture: it is repeated on the wall clock.
const LONGEST: std::time::Duration = std::time::Duration::from_mins(1);
/// The numbers of a budget's status that are compared.
const NUMBERS: [&str; 4] = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];

/// A plan as a fixture for another program.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledPlan {
    /// The plan.
    pub plan: FaultPlan,
    /// The fixture.
    pub fixture: Fixture,
    /// Its text.
    pub text: String,
}

/// Returns `count` single faults of rare kinds first, as fixtures. Plans for which fixtures have no words, and those
/// without any effect to compare, are left out.
#[must_use]
pub fn sample(fixtures: &[Fixture], test_bed: &TestBed, options: &ExploreOptions, count: usize) -> Vec<SampledPlan> {
    let is_short =
        |fixture: &&Fixture| fixture.end() <= LONGEST && matches!(fixture.level, Level::Core | Level::Extended);
    let chosen: Vec<Fixture> = fixtures.iter().filter(is_short).cloned().collect();
    let mut sampled = Vec::new();
    engine::each_single_plan(&chosen, test_bed, options, |reference, plan| {
        let (disturbance, _) = plan.faults[0];
        let is_said = disturbance.has_words() && !disturbance.steps_clock() && disturbance.cut_off().is_none();
        if is_beginning(&plan.fixture) || !is_said {
            return true;
        }
        let (mut objects, mut refused) = (ChangedObjects::new(), false);
        let result = engine::run_plan(test_bed, reference, plan.clone(), |_, entries| {
            (objects, refused) = (changed_objects(entries), is_touch_refused(entries));
        });
        let namespace = &reference.fixture.given.namespace;
        let Some(checks) = checks(&objects, namespace).filter(|_| !refused && fits(&result.verdict)) else {
            return true;
        };
        if let Ok(text) = shrink::as_fixture(&reference.fixture, &plan, &checks)
            && let Some(fixture) = parsed(&text, &reference.fixture, sampled.len())
        {
            sampled.push(SampledPlan { plan, fixture, text });
        }
        sampled.len() < count
    });
    sampled
}

/// Returns true if the steps of the run had the replies that the fixture expects of them.
const fn fits(verdict: &OracleVerdict) -> bool {
    verdict.unfit.is_none() && !verdict.diverged
}

/// Returns true if the server refuses the write of another client that a fault makes: the object was seeded with values
/// that the API does not allow. Such a step fails in a fixture.
fn is_touch_refused(entries: &[TranscriptEntry]) -> bool {
    requests(entries).any(|(entry, exchange)| {
        let touches = exchange.request.body.as_ref().is_some_and(|body| object_meta::annotation(body, TOUCH).is_some());
        entry.actor() == Actor::User && touches && exchange.reply.as_ref().is_some_and(|reply| reply.status >= 400)
    })
}

/// Parses the text of a sampled plan; `None` if it is no fixture.
fn parsed(text: &str, original: &Fixture, number: usize) -> Option<Fixture> {
    let (fixtures, problems) = parse::read(Path::new("explored.yaml"), &original.suite, text);
    let fixture = fixtures.into_iter().next().filter(|_| problems.is_empty())?;
    Some(Fixture { id: format!("explored/{number}"), ..fixture })
}

/// Returns checks of the end state; `None` if nothing was changed that could be checked.
fn checks(objects: &ChangedObjects, namespace: &str) -> Option<Value> {
    let (mut absent, mut exists) = (Vec::new(), Vec::new());
    let mut matched = serde_json::Map::new();
    for (key, object) in objects {
        let prefix = key.namespace.as_deref().filter(|own| *own != namespace && !namespace.is_empty());
        let name = format!("{}{}/{}", prefix.map(|own| format!("{own}:")).unwrap_or_default(), key.resource, key.name);
        match (key.resource.as_str(), object) {
            ("pods", None) => absent.push(name),
            ("pods", Some(_)) => exists.push(name),
            ("poddisruptionbudgets", Some(budget)) => {
                let numbers = NUMBERS.iter().map(|field| ((*field).to_owned(), budget["status"][*field].clone()));
                let numbers: serde_json::Map<String, Value> = numbers.filter(|(_, value)| !value.is_null()).collect();
                matched.insert(name, json!({ "status": numbers }));
            }
            ("nodes", Some(node)) => {
                if let Some(value) = object_meta::annotation(node, TTL_ANNOTATION) {
                    matched.insert(name, json!({ "metadata": { "annotations": { TTL_ANNOTATION: value } } }));
                }
            }
            _ => {}
        }
    }
    if absent.is_empty() && matched.is_empty() {
        return None;
    }
    let mut checks = serde_json::Map::new();
    for (word, names) in [("absent", absent), ("exists", exists)] {
        if !names.is_empty() {
            checks.insert(word.to_owned(), json!(names));
        }
    }
    if !matched.is_empty() {
        checks.insert("match".to_owned(), Value::Object(matched));
    }
    Some(Value::Object(checks))
}

#[cfg(test)]
mod tests {
    use plumbline::expect::world::Key;
    use plumbline::transcript::{RecordedReply, RecordedRequest, Transcript};
    use rstest::rstest;

    use super::*;
    use crate::explore::decisions::tests::exchange;

    #[test]
    fn the_end_state_becomes_checks() {
        let key = |resource: &str, name: &str| Key {
            group: String::new(),
            resource: resource.to_owned(),
            namespace: (resource == "pods").then(|| "default".to_owned()),
            name: name.to_owned(),
        };
        let node = json!({ "metadata": { "annotations": { TTL_ANNOTATION: "15" } } });
        let objects = ChangedObjects::from([
            (key("pods", "a"), None),
            (key("pods", "b"), Some(json!({}).into())),
            (key("nodes", "n1"), Some(node.clone().into())),
        ]);
        let wanted = json!({ "absent": ["pods/a"], "exists": ["pods/b"], "match": { "nodes/n1": node } });
        assert_eq!(checks(&objects, "default"), Some(wanted));
        assert_eq!(checks(&ChangedObjects::from([(key("events", "e"), None)]), "default"), None);
    }

    #[rstest]
    #[case::refused("user", 422, true)]
    #[case::accepted("user", 200, false)]
    #[case::of_the_subject("ttl-controller", 422, false)]
    fn a_refused_touch_is_noticed(#[case] name: &str, #[case] status: u16, #[case] refused: bool) {
        let transcript = Transcript::new();
        let body = json!({ "metadata": { "annotations": { TOUCH: "1" } } });
        let request = RecordedRequest { body: Some(body.into()), ..RecordedRequest::default() };
        let at = std::time::Duration::ZERO;
        exchange(&transcript, at, name, request, RecordedReply::new(at, status));
        assert_eq!(is_touch_refused(&transcript.entries()), refused);
    }
}
