//! Subjects that are wrong on purpose: each must fail exactly the fixtures that are about what it does wrong, and the report
//! must name them. Their sound twins pass the same fixtures, so that it is the flaw that fails and nothing else.
//!
//! All of them run in virtual time: our own controllers behind a connection that lies (`broken/lies.rs`), or small controllers
//! that were written wrong (`broken/small.rs`).

#[path = "broken/lies.rs"]
mod lies;
#[path = "broken/small.rs"]
mod small;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lies::{Lie, Lied};
use plumbline::cluster::Embedded;
use plumbline::conformance::begin::{Scope, blank};
use plumbline::conformance::claim::Implementation;
use plumbline::conformance::digest;
use plumbline::conformance::profile::Profiles;
use plumbline::conformance::record::Record;
use plumbline::conformance::report::{ConformanceReport, Outcome, Suite};
use plumbline::conformance::verify::{Bench, verify};
use plumbline::fixture::Controller;
use plumbline::fixture::parse;
use plumbline::plan::{Filter, Plan};
use plumbline::runner::suite::{self, Arena, Options};
use plumbline::subject::Subject;
use rstest::rstest;
use small::{Small, What};

const BUDGETS: &[&str] = &["disruption/status-*", "disruption/max-unavailable-rounding-flag*"];
const ORPHANS: &[&str] = &[
    "podgc/orphaned-quarantine-40s",
    "podgc/orphaned-unknown-node-at-start",
    "podgc/orphaned-node-back-in-time*",
    "podgc/orphaned-only-pods-of-the-missing-node",
    "podgc/orphaned-late-pod-shares-the-quarantine",
    "podgc/orphaned-duplicate-env-and-ports",
];
const TOLERATIONS: &[&str] = &[
    "taint-eviction/toleration-*",
    "taint-eviction/several-taints*",
    "taint-eviction/untolerated-*",
    "taint-eviction/other-effects-*",
    "taint-eviction/any-pod-is-evicted*",
];
const MARKS: &[&str] = &[
    "taint-eviction/the-mark-before-the-delete",
    "taint-eviction/untolerated-is-immediate",
    "taint-eviction/toleration-shapes*",
    "taint-eviction/pods-of-other-nodes-stay",
    "taint-eviction/other-effects-*",
    "taint-eviction/untaint-cancels*",
    "taint-eviction/tolerated-for-ever-cancels",
];
const NODES: &[&str] = &[
    "ttl/hysteresis-down",
    "ttl/grow-*",
    "ttl/shrink-*",
    "ttl/between-the-bounds-history-decides*",
    "ttl/equal-value-is-not-written*",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("harness/ lies in the repository").join("fixtures")
}

/// The report about `subject` on the fixtures that `globs` name.
fn conform(name: &str, subject: impl Subject + 'static, globs: &[&str]) -> ConformanceReport {
    let all = parse::load(&fixtures()).expect("well-formed fixtures");
    let named: Vec<String> = globs.iter().map(|glob| format!("\"{glob}\"")).collect();
    let text = format!("profiles: [{{ name: part, about: A part of the suite., fixtures: [{}] }}]", named.join(", "));
    let profiles = Profiles::parse(Path::new("profiles.yaml"), &text, &all).expect("a profile");
    let chosen: Vec<_> = all.into_iter().filter(|fixture| profiles.selects("part", &fixture.id)).collect();
    let implementation = Implementation {
        organization: "Nobody".to_owned(),
        project: name.to_owned(),
        url: "https://example.com".to_owned(),
        version: "v0".to_owned(),
        contacts: vec!["nobody@example.com".to_owned()],
        features: vec!["*".to_owned()],
    };
    let suite = Suite { version: "test".to_owned(), digest: digest::suite(&fixtures()).expect("a digest") };
    let arena = Arena { cluster: Arc::new(Embedded::default()), subject: Arc::new(subject) };
    let scope = Scope {
        implementation: &implementation,
        profile: "part",
        profiles: &profiles,
        fixtures: &chosen,
        deviations: &[],
        suite: &suite,
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken").join(name);
    let mut record = Record::begin(blank(scope, &arena).expect("a blank report"), &folder).expect("a writable folder");
    let mut place = arena.place();
    place.features = ["*".to_owned()].into();
    let plan = Plan::new(&chosen, &place, &Filter::default());
    let options = Options { jobs: 2, ..Options::one_by_one() };
    suite::run(&plan, &arena, options, &mut record).expect("a report");
    let report = record.report().clone();
    let findings = verify(&report, Bench { fixtures: &chosen, profiles: &profiles, digest: &suite.digest });
    assert!(findings.is_empty(), "the report holds: {findings:?}");
    assert!(report.fixtures.iter().all(|fixture| fixture.outcome != Outcome::NotRun), "it is complete");
    report
}

fn failed(report: &ConformanceReport) -> Vec<&str> {
    report.with(Outcome::Fail).map(|fixture| fixture.id.as_str()).collect()
}

#[rstest]
#[case::budgets("sound-budgets", Lie::None, BUDGETS)]
#[case::tolerations("sound-tolerations", Lie::None, TOLERATIONS)]
#[case::marks("sound-marks", Lie::None, MARKS)]
fn the_truth_passes(#[case] name: &str, #[case] lie: Lie, #[case] globs: &[&str]) {
    let report = conform(name, Lied(lie), globs);
    assert_eq!(failed(&report), <[&str; 0]>::default());
    assert!(report.with(Outcome::Pass).count() > 10);
}

#[rstest]
#[case::orphans("sound-orphans", What::Orphans { quarantine: 40 }, ORPHANS)]
#[case::nodes("sound-nodes", What::Ttl { remembers: true }, NODES)]
fn sound_small_controllers_pass(#[case] name: &str, #[case] what: What, #[case] globs: &[&str]) {
    let report = conform(name, Small(what), globs);
    assert_eq!(failed(&report), <[&str; 0]>::default());
    assert!(report.with(Outcome::Pass).count() > 5);
}

fn must_fail(report: &ConformanceReport, expected: &[&str]) {
    assert_eq!(failed(report), expected);
    // Named in the document, with the verdict that follows.
    let yaml = report.to_yaml().expect("YAML");
    for id in expected {
        assert!(yaml.contains(&format!("id: {id}")) || yaml.contains(&format!("id: '{id}'")), "{id}: {yaml}");
    }
    assert!(!report.is_success());
    let core = report.with(Outcome::Fail).any(|fixture| fixture.level == "core");
    assert_eq!(report.profiles[0].conformant, !core);
}

/// Rounds a percentage in maxUnavailable down.
#[test]
fn floor_instead_of_ceil() {
    let report = conform("floor", Lied(Lie::RoundsDown), BUDGETS);
    must_fail(&report, &FLOOR);
}

/// Where the percentage of the scale is no whole number; minAvailable is not concerned.
const FLOOR: [&str; 8] = [
    "disruption/status-max-unavailable-percent[1-of-1-is-1]",
    "disruption/status-max-unavailable-percent[30-of-3-is-1]",
    "disruption/status-max-unavailable-percent[30-of-7-at-the-limit]",
    "disruption/status-max-unavailable-percent[30-of-7-is-3]",
    "disruption/status-max-unavailable-percent[30-of-7-one-above]",
    "disruption/status-max-unavailable-percent[30-of-7-one-healthy]",
    "disruption/status-max-unavailable-percent[50-of-5-is-3]",
    "disruption/status-max-unavailable-percent[more-pods-than-scale]",
];

/// Sees every pod without its first toleration.
#[test]
fn first_toleration_ignored() {
    let report = conform("toleration", Lied(Lie::FirstTolerationHidden), TOLERATIONS);
    must_fail(&report, &TOLERATION);
}

/// Pods that some toleration keeps for a while or for ever. Those that go at once do so without it too.
const TOLERATION: [&str; 17] = [
    "taint-eviction/several-taints[both-for-a-time]",
    "taint-eviction/several-taints[both-forever]",
    "taint-eviction/several-taints[one-forever]",
    "taint-eviction/several-taints[one-serves-both]",
    "taint-eviction/several-taints[order-does-not-matter]",
    "taint-eviction/toleration-seconds[10s]",
    "taint-eviction/toleration-seconds[1s]",
    "taint-eviction/toleration-seconds[exists-without-key]",
    "taint-eviction/toleration-seconds[first-fitting-counts]",
    "taint-eviction/toleration-shapes[any-effect]",
    "taint-eviction/toleration-shapes[equal]",
    "taint-eviction/toleration-shapes[everything]",
    "taint-eviction/toleration-shapes[exists-any-effect]",
    "taint-eviction/toleration-shapes[exists]",
    "taint-eviction/toleration-shapes[forever-first-counts]",
    "taint-eviction/toleration-shapes[operator-left-out]",
    "taint-eviction/untolerated-taint-ends-the-countdown",
];

/// Deletes without having set the condition: its patches of pods' statuses never arrive.
#[test]
fn no_condition_before_the_delete() {
    let report = conform("condition", Lied(Lie::MarksLost), MARKS);
    must_fail(&report, &CONDITION);
}

/// Wherever a pod is evicted.
const CONDITION: [&str; 10] = [
    "taint-eviction/pods-of-other-nodes-stay",
    "taint-eviction/the-mark-before-the-delete",
    "taint-eviction/toleration-shapes[empty-value]",
    "taint-eviction/toleration-shapes[negative-seconds]",
    "taint-eviction/toleration-shapes[none]",
    "taint-eviction/toleration-shapes[other-effect]",
    "taint-eviction/toleration-shapes[other-key]",
    "taint-eviction/toleration-shapes[other-value]",
    "taint-eviction/toleration-shapes[zero-seconds]",
    "taint-eviction/untolerated-is-immediate",
];

/// Acts 39 s after it first missed a node.
#[test]
fn quarantine_of_39_seconds() {
    let report = conform("quarantine", Small(What::Orphans { quarantine: 39 }), ORPHANS);
    must_fail(&report, &QUARANTINE);
}

/// Not where 41 s or 61 s are early enough to look.
const QUARANTINE: [&str; 5] = [
    "podgc/orphaned-duplicate-env-and-ports",
    "podgc/orphaned-late-pod-shares-the-quarantine",
    "podgc/orphaned-node-back-in-time[just-before-the-cycle]",
    "podgc/orphaned-quarantine-40s",
    "podgc/orphaned-unknown-node-at-start",
];

/// Looks at the number of nodes only, not at where it came from.
#[test]
fn no_hysteresis() {
    let report = conform("hysteresis", Small(What::Ttl { remembers: false }), NODES);
    must_fail(&report, &HYSTERESIS);
}

/// Where nodes go; growing clusters have no use for it.
const HYSTERESIS: [&str; 6] = [
    "ttl/between-the-bounds-history-decides[from-above]",
    "ttl/hysteresis-down",
    "ttl/shrink-under-a-boundary[1800-to-1799]",
    "ttl/shrink-under-a-boundary[450-to-449]",
    "ttl/shrink-under-a-boundary[90-to-89]",
    "ttl/shrink-under-a-boundary[900-to-899]",
];

#[test]
fn they_have_the_controllers_they_say() {
    assert_eq!(Small(What::Ttl { remembers: true }).controllers(), [Controller::Ttl].into());
    assert_eq!(Small(What::Orphans { quarantine: 40 }).controllers(), [Controller::PodGc].into());
}
