//! Subjects with deliberate flaws: each must fail exactly the fixtures that test the flawed behaviour, and the report
//! must name them. The same subjects without the flaw pass these fixtures, so the flaw alone is the cause.
//!
//! They run a part of the profile of their controller, and of what must fail, in virtual time: our own controllers
//! behind a connection that falsifies data (`broken/lies.rs`), or small controllers with an error in them
//! (`broken/small.rs`). One also runs through `conform --command`: see `bad_subjects.rs`.

mod expected;
pub(crate) mod lies;
pub(crate) mod small;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumbline::fixture::{Controller, Fixture};
use plumbline_suite::cluster::EmbeddedCluster;
use plumbline_suite::conformance::evidence::RunOrigin;
use plumbline_suite::conformance::implementation::Implementation;
use plumbline_suite::conformance::profile::Profiles;
use plumbline_suite::conformance::report::{ConformanceOutcome, ConformanceReport, Suite};
use plumbline_suite::conformance::report_writer::ReportWriter;
use plumbline_suite::conformance::template::{ReportInput, not_run_report};
use plumbline_suite::conformance::tested_program::OwnPrograms;
use plumbline_suite::conformance::verify::{ReferenceSuite, verify};
use plumbline_suite::digest;
use plumbline_suite::plan::{Filter, Plan};
use plumbline_suite::runner::suite::{self, RunOptions, TestBed};
use plumbline_suite::subject::task::{TaskController, TaskSubject};
use rstest::rstest;

use crate::source_files::repository;
use crate::support::{all_fixtures, is_full};
use expected::{CONDITION, FLOOR, HYSTERESIS, QUARANTINE, TOLERATION};
use lies::Lie;
use small::BrokenPart;

/// The profiles of the controllers.
const DISRUPTION: &[&str] = &["disruption/*"];
const PODGC: &[&str] = &["podgc/*"];
const TAINT_EVICTION: &[&str] = &["taint-eviction/*"];
/// The number of nodes changes. The rows of larger clusters differ from these in their numbers and take ten times as
/// long.
const TTL: &[&str] = &[
    "ttl/between-*",
    "ttl/grow-100-*",
    "ttl/grow-over-a-boundary[100-*",
    "ttl/grow-over-a-boundary[500-*",
    "ttl/hysteresis-*",
    "ttl/node*",
    "ttl/repeated-*",
    "ttl/restart-*[475-nodes]",
    "ttl/restart-*[95-nodes]",
    "ttl/shrink-*[450-*",
    "ttl/shrink-*[90-*",
];

/// One of this many fixtures is tried, and one of [`SHARE_OF_FLAW`] of those that the flaw must fail; the sound
/// controllers pass them all in `snapshots`. All are tried with `PLUMBLINE_TESTS=full`.
const SHARE: usize = 20;
const SHARE_OF_FLAW: usize = 4;

fn fixtures() -> PathBuf {
    repository().join("fixtures")
}

/// Returns the report about `subject` on a part of the fixtures that `globs` select, with those that `expected` names.
fn conform(
    name: &str,
    subject: TaskSubject<impl TaskController + 'static>,
    globs: &[&str],
    expected: &[&str],
) -> ConformanceReport {
    let all = all_fixtures();
    let text = format!("profiles: [{{ name: part, about: A part of the suite., fixtures: {globs:?} }}]");
    let profiles = Profiles::parse(Path::new("profiles.yaml"), &text, all).expect("a profile");
    let test_bed = TestBed::new(Arc::new(EmbeddedCluster::default()), Arc::new(subject));
    let mut place = test_bed.capabilities();
    place.features = ["*".to_owned()].into();
    let release = place.release;
    let holds = |fixture: &Fixture| release.is_none_or(|release| fixture.releases.contains(release));
    let selected = all.iter().filter(|fixture| profiles.selects("part", &fixture.id) && holds(fixture));
    let (of_flaw, others): (Vec<_>, Vec<_>) = selected.partition(|fixture| expected.contains(&fixture.id.as_str()));
    let part = |fixtures: Vec<&Fixture>, share: usize| {
        let share = if is_full() { 1 } else { share };
        fixtures.into_iter().step_by(share).cloned().collect::<Vec<_>>()
    };
    let mut chosen = part(of_flaw, SHARE_OF_FLAW);
    chosen.extend(part(others, SHARE));
    chosen.sort_by(|a, b| a.id.cmp(&b.id));
    // Changed copies of our own controllers run in process, where no other project's may.
    let implementation = Implementation {
        organization: "Example".to_owned(),
        project: "plumbline-controllers".to_owned(),
        url: env!("CARGO_PKG_REPOSITORY").to_owned(),
        version: "v0".to_owned(),
        contacts: vec!["maintainers@example.com".to_owned()],
        program: None,
        features: vec!["*".to_owned()],
    };
    let suite = Suite {
        version: "test".to_owned(),
        digest: digest::suite(&fixtures()).expect("a digest"),
        commit: None,
        modified: false,
    };
    let scope = ReportInput {
        implementation: &implementation,
        profile: "part",
        profiles: &profiles,
        fixtures: &chosen,
        deviations: &[],
        suite: &suite,
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken").join(name);
    let begun = not_run_report(scope, &test_bed).expect("a not_run_report report");
    let mut writer = ReportWriter::create(begun, &RunOrigin::default(), &folder).expect("a writable folder");
    let plan = Plan::new(&chosen, &place, &Filter::default());
    let options = RunOptions { jobs: 2, ..RunOptions::one_by_one() };
    suite::run(&plan, &test_bed, options, &mut writer).expect("a report");
    let report = writer.report().clone();
    let own = OwnPrograms::at_hand();
    let reference = ReferenceSuite { fixtures: &chosen, profiles: &profiles, digest: &suite.digest, own: &own };
    let findings = verify(&report, reference);
    assert!(findings.is_empty(), "the report holds: {findings:?}");
    assert!(report.fixtures.iter().all(|fixture| fixture.outcome != ConformanceOutcome::NotRun), "it is complete");
    report
}

fn failed(report: &ConformanceReport) -> Vec<&str> {
    report.with(ConformanceOutcome::Fail).map(|fixture| fixture.id.as_str()).collect()
}

#[rstest]
#[case::disruption("sound-disruption", DISRUPTION)]
#[case::taint_eviction("sound-taint-eviction", TAINT_EVICTION)]
fn the_truth_passes(#[case] name: &str, #[case] profile: &[&str]) {
    let report = conform(name, TaskSubject::new(Lie::None), profile, &[]);
    assert_eq!(failed(&report), <[&str; 0]>::default());
    assert!(report.with(ConformanceOutcome::Pass).count() > 5);
}

/// Returns those of `expected` that were tried.
fn tried<'a>(report: &ConformanceReport, expected: &[&'a str]) -> Vec<&'a str> {
    let ids: BTreeSet<_> = report.fixtures.iter().map(|fixture| fixture.id.as_str()).collect();
    let tried: Vec<_> = expected.iter().copied().filter(|id| ids.contains(id)).collect();
    assert!(tried.len() >= expected.len().div_ceil(SHARE_OF_FLAW), "{} of {}", tried.len(), expected.len());
    tried
}

fn must_fail(report: &ConformanceReport, expected: &[&str]) {
    let expected = &tried(report, expected)[..];
    assert_eq!(failed(report), expected);
    // The report names each fixture, and the verdict on the profile follows from them.
    let yaml = report.to_yaml().expect("YAML");
    for id in expected {
        assert!(yaml.contains(id), "{id}: {yaml}");
    }
    assert!(!report.is_success());
    let core = report.with(ConformanceOutcome::Fail).any(|fixture| fixture.level == "core");
    assert_eq!(report.profiles[0].conformant, !core);
}

/// A small controller implements only part of the profile, so failures of the correct twin are subtracted.
fn must_fail_beyond(sound: &ConformanceReport, report: &ConformanceReport, expected: &[&str]) {
    let small = failed(sound);
    let both = failed(report);
    let flaw: Vec<&str> = both.iter().filter(|id| !small.contains(id)).copied().collect();
    let expected = &tried(report, expected)[..];
    assert_eq!(flaw, expected);
    let mended: Vec<&&str> = small.iter().filter(|id| !both.contains(id)).collect();
    assert!(mended.is_empty(), "a flaw mends nothing: {mended:?}");
    assert!(sound.with(ConformanceOutcome::Pass).count() > 2 && !report.is_success());
    let yaml = report.to_yaml().expect("YAML");
    assert!(expected.iter().all(|id| yaml.contains(id)), "named in the document");
}

/// Rounds a percentage in maxUnavailable down.
#[test]
fn floor_instead_of_ceil() {
    let report = conform("floor", TaskSubject::new(Lie::RoundsDown), DISRUPTION, FLOOR);
    must_fail(&report, FLOOR);
}

/// Does not see the first toleration of any pod.
#[test]
fn first_toleration_ignored() {
    let report = conform("toleration", TaskSubject::new(Lie::FirstTolerationHidden), TAINT_EVICTION, TOLERATION);
    must_fail(&report, TOLERATION);
}

/// Deletes without setting the condition: its patches of pod statuses never arrive.
#[test]
fn no_condition_before_the_delete() {
    let report = conform("condition", TaskSubject::new(Lie::MarksLost), TAINT_EVICTION, CONDITION);
    must_fail(&report, CONDITION);
}

/// Acts 39 s after it first missed a node.
#[test]
fn quarantine_of_39_seconds() {
    let sound = conform("sound-orphans", TaskSubject::new(BrokenPart::Orphans { quarantine: 40 }), PODGC, QUARANTINE);
    let report = conform("quarantine", TaskSubject::new(BrokenPart::Orphans { quarantine: 39 }), PODGC, QUARANTINE);
    must_fail_beyond(&sound, &report, QUARANTINE);
}

/// Looks only at the number of nodes, not at its direction of change.
#[test]
fn no_hysteresis() {
    let sound = conform("sound-nodes", TaskSubject::new(BrokenPart::Ttl { remembers: true }), TTL, HYSTERESIS);
    let report = conform("hysteresis", TaskSubject::new(BrokenPart::Ttl { remembers: false }), TTL, HYSTERESIS);
    must_fail_beyond(&sound, &report, HYSTERESIS);
}

#[test]
fn they_have_the_controllers_they_say() {
    assert_eq!(BrokenPart::Ttl { remembers: true }.controllers(), [Controller::Ttl].into());
    assert_eq!(BrokenPart::Orphans { quarantine: 40 }.controllers(), [Controller::PodGc].into());
}

/// Maintains the annotation correctly, and changes nodes through a second client that hides behind another user agent.
#[rstest]
#[case::unknown("unknown-agent", "OpenAPI-Generator/37.0.2/python")]
#[case::none("no-agent", "")]
#[case::another_controller("another-controller", "small/1 pod-garbage-collector")]
#[case::informers("informers-agent", "small/1 shared-informers")]
#[case::kubelet("kubelets-agent", "kubelet/v1.36.0 kubelet")]
#[case::steps("agent-of-steps", plumbline::transcript::USER_AGENT_OF_STEPS)]
fn writes_behind_another_user_agent(#[case] name: &str, #[case] agent: &'static str) {
    let report = conform(name, TaskSubject::new(BrokenPart::Labels { agent }), &["ttl/grow-*"], &[]);
    let passed: Vec<_> = report.with(ConformanceOutcome::Pass).map(|fixture| fixture.id.as_str()).collect();
    assert!(
        !failed(&report).is_empty() && passed.is_empty(),
        "{agent}: passed {passed:?}, failed {:?}",
        failed(&report)
    );
}
