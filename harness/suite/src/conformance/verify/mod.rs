//! Verification of a report: everything derived is derived again, and the list is compared with the available fixtures.
//!
//! A digest is not a signature: an edited report with a recomputed digest can claim false outcomes, as long as they are
//! possible. To detect that, run the suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use plumbline::fixture::pattern::glob;
use plumbline::fixture::{Capability, Controller, Fixture, Release};
use serde_json::Value;

use super::deviations;
use super::history;
use super::profile::Profiles;
use super::report::{self, API_VERSION, ConformanceOutcome, ConformanceReport, FixtureResult, KIND, Mode};
use super::tested_program::{self, OwnPrograms};
use crate::cluster::remote;
use crate::digest;
use crate::subject::Subject as _;
use crate::subject::command::{self, Command};
use crate::subject::external::{self, External};
use crate::subject::in_process;

/// The name of the API server that draws.
const FAKE: &str = "fake";
/// Number of missing fixtures that are listed by name.
const MISSING: usize = 10;

/// The suite to compare with.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceSuite<'a> {
    /// All its fixtures.
    pub fixtures: &'a [Fixture],
    /// Its profiles.
    pub profiles: &'a Profiles,
    /// Its digest.
    pub digest: &'a str,
    /// The programs of this repository, which other projects' reports must not be about.
    pub own: &'a OwnPrograms,
}

/// An inconsistency in a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The field, such as `profiles[0].levels.core.pass`, or `fixtures[podgc/x].outcome`.
    pub field: String,
    /// The problem.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Returns every inconsistency of `report`; empty if there is none.
#[must_use]
pub fn verify(report: &ConformanceReport, reference: ReferenceSuite<'_>) -> Vec<Finding> {
    let mut check = Verifier { report, findings: Vec::new() };
    check.head();
    check.subject(reference.own);
    check.suite(reference);
    check.list(reference);
    check.outcomes(reference);
    check.known_deviations();
    check.derived();
    check.findings
}

/// Returns the inconsistencies that `report` shows without its suite: wrong fields, verdicts or digest.
#[must_use]
pub fn verify_alone(report: &ConformanceReport) -> Vec<Finding> {
    let mut check = Verifier { report, findings: Vec::new() };
    check.head();
    check.subject(&OwnPrograms::default());
    check.known_deviations();
    check.derived();
    check.findings
}

struct Verifier<'a> {
    report: &'a ConformanceReport,
    findings: Vec<Finding>,
}

impl Verifier<'_> {
    fn note(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Finding { field: field.into(), message: message.into() });
    }

    /// Adds a finding unless the values are equal.
    fn same(&mut self, field: &str, says: &str, should: &str) {
        if says != should {
            self.note(field, format!("says `{says}`, should be `{should}`"));
        }
    }

    fn head(&mut self) {
        let report = self.report;
        self.same("apiVersion", &report.api_version, API_VERSION);
        self.same("kind", &report.kind, KIND);
        if report.time.parse::<Timestamp>().is_err() || !report.time.ends_with('Z') {
            self.note("time", format!("`{}` is not a UTC time such as 2030-01-01T00:00:00Z", report.time));
        }
        for (field, message) in report.implementation.problems() {
            self.note(format!("implementation.{field}"), message);
        }
        if report.subject.digest.as_deref().is_some_and(|text| !digest::is_digest(text)) {
            self.note("subject.digest", "is not a SHA-256 digest");
        }
        for (index, name) in report.subject.controllers.iter().enumerate() {
            if Controller::parse(name).is_none() {
                self.note(format!("subject.controllers[{index}]"), format!("there is no controller `{name}`"));
            }
        }
        for (name, digest) in &report.subject.files {
            if !digest::is_digest(digest) {
                self.note(format!("subject.files[{name}]"), "is not a SHA-256 digest");
            }
        }
        if report.suite.commit.as_deref().is_some_and(|commit| !history::is_commit(commit)) {
            self.note("suite.commit", "is not a full commit hash");
        }
        if !is_version(&report.kubernetes_version) {
            self.note("kubernetesVersion", format!("`{}` is not a version such as v1.36.0", report.kubernetes_version));
        }
        if !report.fixtures.is_sorted_by(|a, b| a.id < b.id) {
            self.note("fixtures", "is not in the order of ids, each of them once");
        }
        for (index, name) in report.cluster.capabilities.iter().enumerate() {
            if Capability::parse(name).is_none() {
                self.note(format!("cluster.capabilities[{index}]"), format!("there is no capability `{name}`"));
            }
        }
        let is_virtual = report.cluster.capabilities.iter().any(|name| name == Capability::VirtualTime.as_str());
        if is_virtual != (report.mode == Mode::Virtual) {
            self.note("mode", "contradicts cluster.capabilities");
        }
    }

    /// Checks that the subject is one of the implementation's.
    fn subject(&mut self, own: &OwnPrograms) {
        let report = self.report;
        if report.subject.kind == in_process::KIND && !report.implementation.is_own() {
            let message = format!(
                "is in-process: Plumbline's own controllers were tested, not those of {}; run `conform --command '…'`",
                report.implementation.project
            );
            self.note("subject.kind", message);
        }
        for (field, message) in tested_program::problems(&report.implementation, &report.subject, own) {
            self.note(field, message);
        }
    }

    /// Checks that the report is of this suite.
    fn suite(&mut self, reference: ReferenceSuite<'_>) {
        let report = self.report;
        if report.suite.digest != reference.digest {
            let theirs = &report.suite.digest;
            let ours = reference.digest;
            let message = format!(
                "says {theirs}, the fixtures at hand have {ours}: select those of version {} with --fixtures",
                report.suite.version
            );
            self.note("suite.digest", message);
        }
        let draws = report.subject.kind == command::KIND && report.cluster.name == FAKE;
        match (draws, report.seed) {
            // Suites that do not measure what a program passes that does nothing draw nothing either.
            (true, None) if !reference.profiles.idle.is_empty() => {
                let message = "is missing: what a program cannot know is drawn for each run on the fake server";
                self.note("seed", message);
            }
            (false, Some(_)) if report.cluster.name != FAKE => {
                self.note("seed", "is there, but nothing is drawn for this subject on this cluster");
            }
            _ => {}
        }
        if !reference.profiles.has(&report.profile) {
            let known = reference.profiles.names().join(", ");
            self.note("profile", format!("there is no profile `{}`; there are {known}", report.profile));
        }
    }

    /// Checks that every fixture of the profile is listed, with the suite's metadata.
    fn list(&mut self, reference: ReferenceSuite<'_>) {
        let report = self.report;
        let release = Release::of_git_version(&report.kubernetes_version);
        let holds = |fixture: &&Fixture| release.is_none_or(|release| fixture.releases.contains(release));
        let known: BTreeMap<&str, &Fixture> =
            reference.fixtures.iter().filter(holds).map(|fixture| (fixture.id.as_str(), fixture)).collect();
        let mut seen = BTreeSet::new();
        for result in &report.fixtures {
            let at = |field: &str| format!("fixtures[{}]{field}", result.id);
            if !seen.insert(result.id.as_str()) {
                self.note(at(""), "is listed twice");
            }
            match known.get(result.id.as_str()) {
                None => {
                    let version = &report.kubernetes_version;
                    self.note(at(""), format!("the suite has no such fixture for Kubernetes {version}"));
                }
                Some(fixture) => {
                    self.same(&at(".level"), &result.level, fixture.level.as_str());
                    self.same(&at(".feature"), &result.feature, &fixture.feature);
                    let virtual_time = fixture.requires.contains(&Capability::VirtualTime);
                    self.same(&at(".virtualTime"), &result.virtual_time.to_string(), &virtual_time.to_string());
                    let others = reference.profiles.other_controllers(fixture).join(", ");
                    self.same(&at(".otherControllers"), &result.other_controllers.join(", "), &others);
                    let idle = reference.profiles.is_passed_idly(&result.id);
                    self.same(&at(".idle"), &result.idle.to_string(), &idle.to_string());
                    let profiles = reference.profiles.of(&result.id);
                    self.same(&at(".profiles"), &result.profiles.join(", "), &profiles.join(", "));
                    if !reference.profiles.selects(&report.profile, &result.id) {
                        self.note(at(""), format!("does not belong to profile {}", report.profile));
                    }
                }
            }
        }
        let of_profile = || known.keys().filter(|id| reference.profiles.selects(&report.profile, id));
        let missing: Vec<&&str> = of_profile().filter(|id| !seen.contains(*id)).collect();
        self.coverage(of_profile().count(), &missing);
    }

    /// Refuses reports of focused runs and reports without results. `total` is the number of fixtures of the profile,
    /// `missing` are those that the report does not list.
    fn coverage(&mut self, total: usize, missing: &[&&str]) {
        let report = self.report;
        if !report.fixtures.iter().any(|result| result.outcome.has_run()) {
            let listed = report.fixtures.len();
            self.note("fixtures", format!("none of the {listed} listed fixtures has run: the report shows nothing"));
        }
        if missing.is_empty() {
            return;
        }
        let listed = total - missing.len();
        let profile = &report.profile;
        let message = format!(
            "lists {listed} of the {total} fixtures of profile {profile}: it is of a focused run, or was edited; write \
             a full report with `plumbline conform --profile {profile}`"
        );
        self.note("fixtures", message);
        for id in missing.iter().take(MISSING) {
            self.note(format!("fixtures[{id}]"), format!("is missing, but belongs to profile {profile}"));
        }
        if let Some(rest) = missing.len().checked_sub(MISSING).filter(|rest| *rest > 0) {
            self.note("fixtures", format!("{rest} more are missing"));
        }
    }

    /// Checks that each outcome is possible for this fixture, subject and cluster.
    fn outcomes(&mut self, reference: ReferenceSuite<'_>) {
        let report = self.report;
        for result in &report.fixtures {
            let field = format!("fixtures[{}]", result.id);
            if result.outcome.needs_reason() == result.reason.is_empty() {
                let message = if result.reason.is_empty() { "is missing" } else { "is not needed" };
                self.note(format!("{field}.reason"), message);
            }
            if !result.outcome.has_run() && !result.bystanders.is_empty() {
                self.note(format!("{field}.bystanders"), "lists writes, but the fixture has not run");
            }
            if let Some(fixture) = reference.fixtures.iter().find(|fixture| fixture.id == result.id)
                && let Some(why) = impossible(report, fixture, result)
            {
                self.note(format!("{field}.outcome"), why);
            }
        }
    }

    fn known_deviations(&mut self) {
        let report = self.report;
        for (index, deviation) in report.deviations.iter().enumerate() {
            let field = format!("deviations[{index}].fixtures");
            if !report.fixtures.iter().any(|result| deviation.covers(&result.id)) {
                self.note(field, format!("`{}` matches no fixture in the list", deviation.fixtures));
            } else if deviations::unneeded(std::slice::from_ref(deviation), &report.fixtures).len() == 1 {
                self.note(field, format!("`{}` is not needed: all of its fixtures passed", deviation.fixtures));
            }
        }
        for result in &report.fixtures {
            let entry = report.deviations.iter().find(|deviation| deviation.covers(&result.id));
            let field = format!("fixtures[{}]", result.id);
            match (result.outcome, entry) {
                (ConformanceOutcome::KnownDeviation, None) => {
                    self.note(format!("{field}.outcome"), "is `known-deviation`, but no entry in deviations covers it");
                }
                (ConformanceOutcome::KnownDeviation, Some(entry)) => {
                    self.same(&format!("{field}.reason"), &result.reason, &entry.text());
                }
                (ConformanceOutcome::Fail, Some(_)) => {
                    self.note(format!("{field}.outcome"), "is `fail`, but an entry in deviations covers it");
                }
                _ => {}
            }
        }
    }

    fn derived(&mut self) {
        let mut fixtures = self.report.fixtures.clone();
        fixtures.sort_by(|a, b| a.id.cmp(&b.id));
        let derived = report::summaries(&self.report.profile, &fixtures, &self.report.subject.controllers);
        let says = serde_json::to_value(&self.report.profiles);
        let should = serde_json::to_value(&derived);
        let mut differences = Vec::new();
        walk("profiles", &says.unwrap_or_default(), &should.unwrap_or_default(), &mut differences);
        self.findings.extend(differences);
        let digest = self.report.digest();
        if self.report.digest != digest {
            let message = format!("says {}, the content has {digest}: the report was changed", self.report.digest);
            self.note("digest", message);
        }
    }
}

/// Returns true if `text` is a Kubernetes version that is safe in file names: `v1.36.0`, `v1.36.1+k3s1`.
fn is_version(text: &str) -> bool {
    let digit = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let parts: Vec<&str> = text.strip_prefix('v').unwrap_or_default().splitn(3, '.').collect();
    let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
    parts.len() == 3 && parts.iter().all(|part| digit(part)) && text.chars().all(usual)
}

/// Returns the reason if a fixture cannot have had this outcome.
fn impossible(report: &ConformanceReport, fixture: &Fixture, result: &FixtureResult) -> Option<String> {
    let can = |capability: &Capability| report.cluster.capabilities.iter().any(|name| name == capability.as_str());
    let lacks: Vec<&str> =
        fixture.requires.iter().filter(|capability| !can(capability)).map(|capability| capability.as_str()).collect();
    let declared = report.implementation.features.iter().any(|pattern| glob(pattern, &fixture.feature));
    let undeclared = fixture.needs_declaration() && !declared;
    let has = |controller: &Controller| report.subject.controllers.iter().any(|name| name == controller.as_str());
    let absent: Vec<&str> = fixture
        .controllers
        .iter()
        .filter(|controller| !has(controller))
        .map(|controller| controller.as_str())
        .collect();
    match result.outcome {
        outcome if outcome.has_run() && !absent.is_empty() => {
            Some(format!("cannot have run: subject.controllers lacks {}", absent.join(", ")))
        }
        outcome if outcome.has_run() && !lacks.is_empty() => {
            Some(format!("cannot have run: the cluster lacks {}", lacks.join(", ")))
        }
        outcome if outcome.has_run() && undeclared => {
            Some(format!("cannot have run: the implementation does not declare {}", fixture.feature))
        }
        ConformanceOutcome::Inconclusive if report.mode == Mode::Virtual => {
            Some("is `inconclusive`, but in virtual time nothing is late".to_owned())
        }
        ConformanceOutcome::Unsupported if absent.is_empty() && !undeclared && !refuses_flags(report, fixture) => Some(
            "is `unsupported`, but the subject has its controllers, declares its feature and accepts its flags"
                .to_owned(),
        ),
        ConformanceOutcome::Skip if !absent.is_empty() => {
            Some(format!("should be `unsupported`: subject.controllers lacks {}", absent.join(", ")))
        }
        ConformanceOutcome::Skip if undeclared => {
            Some("should be `unsupported`: its feature is not declared".to_owned())
        }
        ConformanceOutcome::Skip if lacks.is_empty() && !may_be_skipped(report, fixture, &result.reason) => {
            Some("was skipped, but the cluster has all capabilities that it requires".to_owned())
        }
        _ => None,
    }
}

/// Returns true if the subject does not accept the flags that a fixture sets.
fn refuses_flags(report: &ConformanceReport, fixture: &Fixture) -> bool {
    let what = || shell_words::split(&report.subject.what).unwrap_or_default();
    let refused = match report.subject.kind.as_str() {
        external::KIND => External::default().refuses(&fixture.flags),
        command::KIND => Command { argv: what(), ..Command::default() }.refuses(&fixture.flags),
        _ => None,
    };
    refused.is_some()
}

/// Returns true if this reason for a skip is valid although the cluster has every required capability: real servers
/// reject some objects or are shared, and an external subject's requests are not recorded.
fn may_be_skipped(report: &ConformanceReport, fixture: &Fixture, reason: &str) -> bool {
    let external = report.subject.kind == external::KIND;
    (external && external::cannot_show(fixture).as_deref() == Some(reason))
        || (remote::is_real(&report.cluster.name)
            && (remote::is_refusal(reason) || remote::refusals(fixture).iter().any(|refusal| refusal == reason)))
}

/// Collects the differences of two trees.
fn walk(path: &str, says: &Value, should: &Value, out: &mut Vec<Finding>) {
    match (says, should) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let field = |tree: &serde_json::Map<String, Value>| tree.get(key).cloned().unwrap_or_default();
                walk(&format!("{path}.{key}"), &field(a), &field(b), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(&format!("{path}[{index}]"), a, b, out);
            }
        }
        _ if says == should => {}
        _ => out.push(Finding {
            field: path.to_owned(),
            message: format!("says {}, the list of fixtures gives {}", short(says), short(should)),
        }),
    }
}

/// Formats a value for a sentence.
fn short(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "a map".to_owned(),
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests;
