//! Expectations in the words of fixtures, checks that have to hold all the time, and rules for every controller.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::always_check::AlwaysCheck;
use super::cluster::World;
use super::error::{Error, Result};
use super::resources::NAMESPACE;
use super::rule::Rule;
use super::transcript::TranscriptView;
use crate::expect::world::ObjectStates;
use crate::expect::{BrokenPromise, Run, is_subject_write, judge_now, line};
use crate::fixture::check::Checks;
use crate::fixture::{Fixture, Traffic, words};
use crate::invariants;
use crate::metadata;
use crate::transcript::{Attributed as _, EntryKind, Exchange, RecordedJson, TranscriptEntry};

/// Lines of the transcript that an error shows before the one that broke the expectation.
const LINES: usize = 5;
/// Virtual time that an object may be held by finalizers after its deletion.
const FINALIZERS: Duration = Duration::from_mins(1);
/// Virtual time without a change after which everything has converged.
const QUIET: Duration = Duration::from_mins(10);

impl World {
    /// Checks expectations in the words of fixtures, about the state now and all requests so far: `exists`, `absent`,
    /// `match`, `condition`, `events`, `objects`, `count`, `never`, `order`, `writes`, `only`; and `quiet: true`, which
    /// means no write since the begin of the last [`World::advance`].
    ///
    /// Without an actor, request patterns mean any controller under test. `fixtures/README.md` has the reference.
    ///
    /// # Errors
    ///
    /// Returns what does not hold, with the lines of the transcript around it; or the unknown words of the text.
    #[track_caller]
    pub fn expect(&self, text: &str) -> Result {
        here!(self.judge(text))
    }

    fn judge(&self, text: &str) -> Result {
        let (checks, traffic) = words::expectations(text, NAMESPACE, &self.resources())?;
        let fixture = of(checks, traffic);
        self.with_run(|run| failure(&judge_now(&fixture, run, self.mark.get()), run))
    }

    /// Adds a check that has to hold at the end of each [`World::advance`] and at the end of the test.
    ///
    /// ```
    /// # use plumbline::world::{World, seconds};
    /// # fn main() -> plumbline::Result {
    /// World::test(async |t| {
    ///     t.always("no secret is written", |transcript| match transcript.to_string().contains("secrets/") {
    ///         true => Err("a secret".to_owned()),
    ///         false => Ok(()),
    ///     });
    ///     t.advance(seconds(1)).await
    /// })
    /// # }
    /// ```
    pub fn always<E: fmt::Display>(
        &self,
        name: &str,
        check: impl Fn(&TranscriptView) -> std::result::Result<(), E> + 'static,
    ) {
        let check = Box::new(move |view: &TranscriptView| check(view).err().map(|error| error.to_string()));
        self.always.borrow_mut().push(AlwaysCheck { name: name.to_owned(), check });
    }

    /// Requires these rules to hold at the end of the test: [`Rule::ALL`], or some of them.
    pub fn uphold(&self, rules: impl IntoIterator<Item = Rule>) {
        self.rules.borrow_mut().extend(rules);
    }

    pub(super) fn judge_always(&self) -> Result {
        let always = self.always.borrow();
        if always.is_empty() {
            return Ok(());
        }
        let view = self.transcript();
        let failed = always.iter().find_map(|one| Some((&one.name, (one.check)(&view)?)));
        let Some((name, why)) = failed else { return Ok(()) };
        let lines = indented(&view.last(LINES));
        Err(Error::new(format!("{name}: {why}; the last lines of the transcript:{lines}")))
    }

    pub(super) fn judge_rules(&self) -> Result {
        let rules = self.rules.borrow();
        if rules.is_empty() {
            return Ok(());
        }
        let fixture = of(Vec::new(), Traffic::default());
        let named = |rule: &Rule| match rule {
            Rule::NoIdleWrites => Some("no_idle_writes"),
            Rule::NoStorms => Some("no_storms"),
            Rule::StatusBySubresource | Rule::FinalizersAreRemoved | Rule::NoWritesAfterQuiet => None,
        };
        let names: Vec<&str> = rules.iter().filter_map(named).collect();
        self.with_run(|run| {
            let mut failures = invariants::check_named(&names, &fixture, run);
            if rules.contains(&Rule::NoStorms) && failures.iter().all(|failure| failure.check != Rule::NoStorms.check())
            {
                failures.extend(storms(run));
            }
            if rules.contains(&Rule::StatusBySubresource) {
                failures.extend(misplaced_status(run));
            }
            if rules.contains(&Rule::FinalizersAreRemoved) {
                failures.extend(held_objects(run));
            }
            if rules.contains(&Rule::NoWritesAfterQuiet) {
                failures.extend(late_writes(run));
            }
            for failure in &mut failures {
                if let Some(rule) = Rule::ALL.into_iter().find(|rule| rule.check() == failure.check) {
                    failure.check = format!("Rule::{rule:?}: {}", failure.check);
                }
            }
            failure(&failures, run)
        })
    }

    pub(super) fn with_run<T>(&self, judge: impl FnOnce(&Run<'_>) -> T) -> T {
        let initial = self.initial.borrow();
        let clock = self.server().clock();
        self.server().transcript().with(|entries| {
            judge(&Run {
                start: clock.epoch(),
                initial: &initial,
                entries,
                marks: &[],
                replies: &[],
                scrapes: &[],
                end: clock.elapsed(),
                tolerance: Duration::ZERO,
                late: Duration::ZERO,
                deliveries: None,
            })
        })
    }
}

fn of(checks: Checks, traffic: Traffic) -> Fixture {
    let mut fixture = Fixture::of_expectations(checks, traffic);
    NAMESPACE.clone_into(&mut fixture.given.namespace);
    fixture
}

/// Returns the failures as one error, with the lines of the transcript before the first one.
fn failure(failures: &[BrokenPromise], run: &Run<'_>) -> Result {
    let Some(first) = failures.first() else { return Ok(()) };
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    let view = TranscriptView::new(run.start, run.initial.to_vec(), run.entries.to_vec());
    let lines = indented(&view.until(first.seq, LINES));
    let lines = if lines.is_empty() { String::new() } else { format!("\n  the transcript there:{lines}") };
    Err(Error::new(format!("{}{lines}", texts.join("\n"))))
}

/// Puts each paragraph on a line of its own below an error.
fn indented(paragraphs: &[String]) -> String {
    paragraphs.iter().flat_map(|paragraph| ["\n    ", paragraph]).collect()
}

fn broken(entry: &TranscriptEntry, check: &str, expected: &str, observed: String) -> BrokenPromise {
    let check = check.to_owned();
    let expected = expected.to_owned();
    BrokenPromise { line: 0, at: entry.at, seq: entry.seq, check, expected, observed }
}

/// Returns the requests, reads among them, that are sent too often.
fn storms(run: &Run<'_>) -> Vec<BrokenPromise> {
    let failure = |(entry, exchange): (&TranscriptEntry, &Exchange)| {
        let observed = format!("{}, {}", line(entry, exchange), invariants::storm_text());
        broken(entry, Rule::NoStorms.check(), "no request more than 20 times within a second", observed)
    };
    invariants::storms_of_instants(run.entries).into_iter().map(failure).collect()
}

/// Returns the writes of a status that the server ignores.
fn misplaced_status(run: &Run<'_>) -> Vec<BrokenPromise> {
    let mut world = ObjectStates::new(run, NAMESPACE);
    let mut failures = Vec::new();
    for entry in run.entries {
        world.step(entry);
        let EntryKind::Request(exchange) = &entry.what else { continue };
        let request = &exchange.request;
        let is_meant = is_subject_write(entry, exchange)
            && request.subresource.is_none()
            && matches!(request.verb.as_str(), "update" | "patch");
        let body = request.body.as_deref().filter(|_| is_meant);
        let Some(status) =
            body.map(|body| &body["status"]).filter(|status| status.as_object().is_some_and(|map| !map.is_empty()))
        else {
            continue;
        };
        let key = crate::expect::world::Key {
            group: request.group.clone(),
            resource: request.resource.clone(),
            namespace: request.namespace.clone(),
            name: request.name.clone().unwrap_or_default(),
        };
        // An update of a whole object carries the status that was read.
        let same = world.get(&key).is_some_and(|object| object["status"] == *status);
        if !same {
            let expected = format!("status in {}/{}/status only", request.resource, key.name);
            failures.push(broken(entry, "status by subresource", &expected, line(entry, exchange)));
        }
    }
    failures
}

/// Returns the first change of each controller after a time without changes.
fn late_writes(run: &Run<'_>) -> Vec<BrokenPromise> {
    let mut own = BTreeMap::new();
    let mut last = Duration::ZERO;
    let mut failures: BTreeMap<String, BrokenPromise> = BTreeMap::new();
    for entry in run.entries {
        match &entry.what {
            EntryKind::Note(_) => last = entry.at,
            EntryKind::Request(exchange) => {
                if is_subject_write(entry, exchange) {
                    own.insert(entry.seq, (entry, exchange));
                }
                // The controller has to repeat it.
                if exchange.reply.as_ref().is_none_or(|reply| reply.fault.is_some()) {
                    last = entry.at;
                }
            }
            // A holder renews its lease again and again.
            EntryKind::Change(change) if change.resource == "leases" || invariants::is_idle(change) => {}
            EntryKind::Change(change) => {
                let quiet = entry.at.saturating_sub(std::mem::replace(&mut last, entry.at));
                let Some((request, exchange)) = change.request.and_then(|seq| own.get(&seq)) else { continue };
                if quiet >= QUIET {
                    let expected = format!("no change by a controller when all is quiet for {} s", quiet.as_secs());
                    let failure = broken(request, "no writes after quiet", &expected, line(request, exchange));
                    failures.entry(request.actor().to_string()).or_insert(failure);
                }
            }
        }
    }
    failures.into_values().collect()
}

/// Returns the objects that are held by finalizers at the end.
fn held_objects(run: &Run<'_>) -> Vec<BrokenPromise> {
    let world = ObjectStates::new(run, NAMESPACE).after(run.entries);
    let Some(last) = run.entries.last() else { return Vec::new() };
    let limit = run.end.saturating_sub(FINALIZERS);
    let is_old = |object: &RecordedJson| {
        let deleted = metadata::text(object, "deletionTimestamp").and_then(|text| text.parse().ok());
        deleted.is_some_and(|at: jiff::Timestamp| {
            Duration::try_from(at.duration_since(run.start)).is_ok_and(|at| at < limit)
        })
    };
    let left = world.objects().filter(|object| is_old(object) && !metadata::finalizers(object).is_empty());
    left.map(|object| {
        let kind = object["kind"].as_str().unwrap_or_default();
        let finalizers = Value::from(metadata::finalizers(object));
        let observed = format!("{kind} {} has {finalizers}", metadata::name(object));
        broken(last, "finalizers are removed", "no deleted object with finalizers after a minute", observed)
    })
    .collect()
}
