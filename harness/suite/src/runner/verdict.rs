//! Judges the record of a run and builds the report.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use plumbline::expect::world::ObjectStates;
use plumbline::expect::{self, BrokenPromise, Run};
use plumbline::fixture::Fixture;
use plumbline::invariants;
use plumbline::transcript::render::{self, Paragraph, render, to_text};
use plumbline::transcript::{Actor, Attributed as _, RecordedJson, TranscriptEntry, is_judged};

use super::RunRecord;
use crate::load::RunLoad;
use crate::report::{Failure, FixtureReport, JudgedRun, Outcome};
use crate::subject::BystanderWrites;

/// Most letters of a client's name.
const MAX_CLIENT: usize = 80;

/// Number of transcript lines shown before and after a failure.
const CONTEXT: usize = 6;

/// Creates a report about `fixture` with only this outcome and reason.
#[must_use]
pub fn blank(fixture: &Fixture, outcome: Outcome, reason: impl Into<String>) -> FixtureReport {
    FixtureReport {
        id: fixture.id.clone(),
        suite: fixture.suite.clone(),
        file: fixture.file.display().to_string(),
        promise: fixture.promise.clone(),
        rules: fixture.rules.clone(),
        rule_texts: fixture.rule_texts.clone(),
        level: fixture.level.to_string(),
        feature: fixture.feature.clone(),
        outcome,
        reason: reason.into(),
        failures: Vec::new(),
        transcript: String::new(),
        log: Vec::new(),
        bystanders: Vec::new(),
        load: None,
        virtual_millis: 0,
        wall_micros: 0,
    }
}

/// Judges the record of a run that ended normally.
#[must_use]
pub fn judge(fixture: &Fixture, record: &RunRecord) -> JudgedRun {
    let entries = record.transcript.entries();
    if let Some(why) = &record.skip {
        let report = blank(fixture, Outcome::Skip, why.as_str());
        let transcript = String::new();
        let objects = Vec::new();
        let leeway = Duration::ZERO;
        let load = RunLoad::default();
        let initial = record.initial.clone();
        let deliveries = Vec::new();
        return JudgedRun {
            report,
            transcript,
            clients: BTreeSet::new(),
            entries,
            deliveries,
            initial,
            start: record.start,
            leeway,
            load,
            objects,
        };
    }
    let mut failures: Vec<Failure> = record.errors.iter().map(|error| plain(&error.to_string())).collect();
    failures.extend(record.idle_faults.iter().map(|on| {
        plain(&format!(
            "the fault on `{on}` affected nothing: no request matched it (write `*:pods` for objects of all namespaces)"
        ))
    }));
    failures.extend(visits_to_the_harness(&entries).iter().map(|visit| plain(visit)));
    failures.extend(record.misuse.iter().map(|misuse| plain(misuse)));
    failures.extend(promises(fixture, record, &entries));
    let bystanders = match record.bystander_writes {
        BystanderWrites::Allow => Vec::new(),
        BystanderWrites::Report => bystander_writes(fixture, &entries),
        BystanderWrites::Fail => {
            failures.extend(bystander_writes(fixture, &entries).iter().map(|write| {
                plain(&format!("a bystander of the subject wrote, which --bystander-writes=fail forbids: {write}"))
            }));
            Vec::new()
        }
    };
    let mut judged = report(fixture, record, entries, failures);
    judged.report.bystanders = bystanders;
    judged
}

/// Reports a run that was cut short by a panic or a hang. Its promises are not judged, because the cluster is in an
/// undefined state.
#[must_use]
pub fn broken(fixture: &Fixture, record: &RunRecord, message: &str) -> JudgedRun {
    report(fixture, record, record.transcript.entries(), vec![plain(message)])
}

/// Start of the paths that only the harness's API server has: its transcript, clock and faults.
const HARNESS_PATHS: &str = "/plumbline";

/// Returns a sentence for each path of the harness that the subject asked for, without repetitions. It was answered as
/// by a kube-apiserver, which has none of them: 404.
fn visits_to_the_harness(entries: &[TranscriptEntry]) -> BTreeSet<String> {
    let visits = expect::requests(entries).filter(|(entry, exchange)| {
        let path = &exchange.request.path;
        let is_below = path.strip_prefix(HARNESS_PATHS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        is_below && !matches!(entry.actor(), Actor::User | Actor::Kubelet | Actor::Server | Actor::Harness)
    });
    visits
        .map(|(entry, exchange)| {
            let request = &exchange.request;
            format!(
                "{} asked for a path of the test harness, {} {}, which was answered 404: a program under test may use the \
                 API of Kubernetes only",
                entry.actor(),
                render::verb(request),
                request.path
            )
        })
        .collect()
}

/// Returns the writes of the subject's bystanders to resources that no fixture judges, without repetitions. Leases are
/// part of an election.
fn bystander_writes(fixture: &Fixture, entries: &[TranscriptEntry]) -> Vec<String> {
    let unjudged = expect::requests(entries).filter(|(entry, exchange)| {
        matches!(entry.actor(), Actor::Bystander(_))
            && exchange.request.is_write()
            && !is_judged(&exchange.request.resource)
            && !(fixture.elects_leader() && exchange.request.resource == "leases")
    });
    let texts: BTreeSet<String> = unjudged
        .map(|(entry, exchange)| {
            let request = &exchange.request;
            format!("{} {} {}", entry.actor(), render::verb(request), render::target(request))
        })
        .collect();
    texts.into_iter().collect()
}

/// Returns how the subject's clients called themselves.
fn clients(entries: &[TranscriptEntry]) -> BTreeSet<String> {
    let of_subject = entries.iter().filter(|entry| entry.actor().is_subject());
    let agents: BTreeSet<&str> = of_subject.filter_map(|entry| entry.origin.user_agent()).collect();
    agents.into_iter().filter_map(client).collect()
}

/// Returns how a client calls itself: the first word of its user agent, `kubectl/v1.36.0`. Other words name the
/// machine and the controller.
fn client(user_agent: &str) -> Option<String> {
    let word = user_agent.split_whitespace().next()?;
    Some(word.chars().filter(|letter| !letter.is_control()).take(MAX_CLIENT).collect())
}

fn plain(message: &str) -> Failure {
    Failure { message: message.to_owned(), ..Failure::default() }
}

fn report(
    fixture: &Fixture,
    record: &RunRecord,
    entries: Vec<TranscriptEntry>,
    mut failures: Vec<Failure>,
) -> JudgedRun {
    let paragraphs = render(record.start, &record.initial, &entries);
    let mut shown = String::new();
    for failure in &mut failures {
        let excerpt = excerpt(&paragraphs, failure.at_millis);
        // Failures of the same moment share one excerpt.
        if excerpt != shown {
            shown.clone_from(&excerpt);
            failure.excerpt = excerpt;
        }
    }
    let transcript = to_text(&paragraphs);
    let failed = !failures.is_empty();
    let outcome = if failed { Outcome::Fail } else { Outcome::Pass };
    let report = FixtureReport {
        failures,
        transcript: if failed { transcript.clone() } else { String::new() },
        log: if failed { record.log.clone() } else { Vec::new() },
        virtual_millis: u64::try_from(record.end.as_millis()).unwrap_or(u64::MAX),
        ..blank(fixture, outcome, "")
    };
    let objects = if failed { objects_at_the_end(record, &entries) } else { Vec::new() };
    let leeway = record.tolerance + record.late;
    let load = record.load.clone();
    let initial = record.initial.clone();
    let deliveries = record.transcript.deliveries();
    let clients = clients(&entries);
    JudgedRun { report, transcript, clients, entries, deliveries, initial, start: record.start, leeway, load, objects }
}

fn objects_at_the_end(record: &RunRecord, entries: &[TranscriptEntry]) -> Vec<RecordedJson> {
    let run = record.run(entries, record.end);
    ObjectStates::new(&run, "").after(entries).objects().cloned().collect()
}

/// Judges a run by the fixture's own promises and by the always-on invariants, in order of the transcript.
#[must_use]
pub fn broken_promises(fixture: &Fixture, run: &Run<'_>) -> Vec<BrokenPromise> {
    let mut failures = expect::judge(fixture, run);
    failures.extend(invariants::check(fixture, run));
    failures.sort_by_key(|failure| failure.seq);
    failures
}

/// Converts the broken promises of the run to failures of the report.
fn promises(fixture: &Fixture, record: &RunRecord, entries: &[TranscriptEntry]) -> Vec<Failure> {
    let run = record.run(entries, record.end);
    let failures = broken_promises(fixture, &run);
    let to_report = |failure: BrokenPromise| Failure {
        message: failure.check,
        line: failure.line,
        expected: failure.expected,
        observed: failure.observed,
        at_millis: Some(u64::try_from(failure.at.as_millis()).unwrap_or(u64::MAX)),
        excerpt: String::new(),
    };
    failures.into_iter().map(to_report).collect()
}

/// Returns the part of the transcript around `at`, or its end if there is no time.
fn excerpt(paragraphs: &[Paragraph], at: Option<u64>) -> String {
    let centre = match at {
        Some(millis) => paragraphs.partition_point(|paragraph| paragraph.at <= Duration::from_millis(millis)),
        None => paragraphs.len(),
    };
    let from = centre.saturating_sub(CONTEXT);
    let to = (centre + CONTEXT / 2).min(paragraphs.len());
    let mut out = String::new();
    if from > 0 {
        let _ = writeln!(out, "… {from} earlier");
    }
    out.push_str(&to_text(&paragraphs[from..to]));
    if to < paragraphs.len() {
        let _ = writeln!(out, "… {} later", paragraphs.len() - to);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_named_by_product_and_version() {
        assert_eq!(client("kubectl/v1.36.0 (linux/amd64) kubernetes/abc").as_deref(), Some("kubectl/v1.36.0"));
        assert_eq!(client("a\u{7}b c").as_deref(), Some("ab"));
        assert_eq!(client(" "), None);
        assert_eq!(client(&"x".repeat(500)).map(|name| name.len()), Some(MAX_CLIENT));
    }
}
