use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::conformance::deviations::Deviation;
use crate::conformance::profile::Profile;
use crate::conformance::report::tests::{fixture, outcomes, result};

const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

struct SuiteUnderTest {
    fixtures: Vec<Fixture>,
    profiles: Profiles,
}

impl SuiteUnderTest {
    /// Six fixtures: four of podgc, one of ttl, one outside of all profiles.
    fn new() -> Self {
        let mut fixtures: Vec<Fixture> = [
            ("api/none", "core"),
            ("podgc/a", "core"),
            ("podgc/b", "extended"),
            ("podgc/c", "hardened"),
            ("podgc/far", "hardened"),
            ("ttl/a", "core"),
        ]
        .map(|(id, level)| fixture(id, level))
        .into();
        fixtures[4].requires = BTreeSet::from([Capability::ManyNodes]);
        fixtures[5].controllers = vec![Controller::Ttl];
        let profile = |name: &str| Profile {
            name: name.to_owned(),
            about: "About it.".to_owned(),
            fixtures: vec![format!("{name}/*")],
        };
        Self { fixtures, profiles: Profiles { list: vec![profile("podgc"), profile("ttl")], idle: BTreeSet::new() } }
    }

    fn verify(&self, report: &ConformanceReport) -> Vec<String> {
        let reference = ReferenceSuite {
            fixtures: &self.fixtures,
            profiles: &self.profiles,
            digest: DIGEST,
            own: &OwnPrograms::default(),
        };
        verify(report, reference).iter().map(ToString::to_string).collect()
    }
}

/// A consistent report: one hardened fixture is a known deviation, one requires a capability that the cluster lacks.
fn good() -> ConformanceReport {
    let mut far = result("podgc/far", "hardened", ConformanceOutcome::Skip);
    "the cluster cannot do: many-nodes".clone_into(&mut far.reason);
    let mut known = result("podgc/c", "hardened", ConformanceOutcome::KnownDeviation);
    "As ever.".clone_into(&mut known.reason);
    let list = vec![
        result("podgc/a", "core", ConformanceOutcome::Pass),
        result("podgc/b", "extended", ConformanceOutcome::Pass),
        known,
        far,
        result("ttl/a", "core", ConformanceOutcome::Pass),
    ];
    let mut report = report::tests::report("all", list);
    DIGEST.clone_into(&mut report.suite.digest);
    let reason = "As ever.".to_owned();
    report.deviations.push(Deviation {
        fixtures: "podgc/c".to_owned(),
        reason,
        upstream: String::new(),
        sometimes: false,
    });
    report.seal();
    report
}

#[test]
fn a_true_report_holds() {
    assert_eq!(SuiteUnderTest::new().verify(&good()), <[&str; 0]>::default());
    let read = ConformanceReport::read(&good().to_yaml().expect("YAML")).expect("our own document");
    assert_eq!(SuiteUnderTest::new().verify(&read), <[&str; 0]>::default());
}

#[rstest]
#[case("v1.36.0", true)]
#[case("v1.36.1+k3s1", true)]
#[case("v1.37.0-alpha.1", true)]
#[case("1.36.0", false)]
#[case("v1.36", false)]
#[case("v1.36.0/../..", false)]
#[case("v1..0", false)]
fn versions_are_safe_in_file_names(#[case] text: &str, #[case] good: bool) {
    assert_eq!(is_version(text), good);
}

#[test]
fn a_report_without_its_suite_is_checked_against_itself() {
    assert_eq!(verify_alone(&good()), []);
    let mut edited = good();
    edited.fixtures[0].outcome = ConformanceOutcome::Fail;
    let findings = verify_alone(&edited);
    assert!(findings.iter().any(|finding| finding.field == "digest"), "{findings:?}");
    edited.seal();
    assert_eq!(verify_alone(&edited), [], "only the suite shows more");
}

#[rstest]
#[case::another_release("v1.36.0", "fixtures[ttl/a]: the suite has no such fixture for Kubernetes v1.36.0")]
#[case::its_release("v1.37.1", "digest: says sha256:")]
#[case::unreadable("later", "kubernetesVersion: `later` is not a version such as v1.36.0")]
fn a_report_lists_the_fixtures_of_its_release(#[case] version: &str, #[case] finding: &str) {
    let mut suite = SuiteUnderTest::new();
    suite.fixtures[5].releases.since = Release::parse("1.37");
    let mut report = good();
    version.clone_into(&mut report.kubernetes_version);
    let findings = suite.verify(&report);
    assert!(findings.iter().any(|text| text.starts_with(finding)), "{findings:#?}");
    // Without the fixture of 1.37 a report about 1.36 is complete.
    report.fixtures.retain(|result| result.id != "ttl/a" || version != "v1.36.0");
    report.profiles = report::summaries("all", &report.fixtures, &report.subject.controllers);
    report.seal();
    assert_eq!(suite.verify(&report).is_empty(), version != "later", "{version}");
}

#[test]
fn a_report_of_a_run_that_was_killed_holds_and_is_not_conformant() {
    let mut report = good();
    report.deviations.clear();
    for one in report.fixtures.iter_mut().filter(|one| one.level != "extended") {
        (one.outcome, one.reason) = (ConformanceOutcome::NotRun, "the run did not finish".to_owned());
    }
    report.seal();
    assert_eq!(SuiteUnderTest::new().verify(&report), <[&str; 0]>::default());
    let conformant: Vec<_> = report.profiles.iter().filter(|profile| profile.conformant).collect();
    assert!(conformant.iter().all(|profile| profile.name == "podgc"), "its only core fixture has run: {conformant:?}");
}

/// A report without a single result shows nothing, even if it is consistent.
#[rstest]
#[case::none_has_run(5, "fixtures: none of the 5 listed fixtures has run: the report shows nothing")]
#[case::none_is_listed(0, "fixtures: none of the 0 listed fixtures has run: the report shows nothing")]
#[case::none_is_listed(0, "fixtures: lists 0 of the 5 fixtures of profile all: it is of a focused run, or was edited")]
#[case::some_are_listed(2, "fixtures: lists 2 of the 5 fixtures of profile all: it is of a focused run, or was edited")]
fn reports_without_results_and_of_focused_runs_are_refused(#[case] listed: usize, #[case] finding: &str) {
    let mut report = good();
    report.deviations.clear();
    report.fixtures.truncate(listed);
    for one in &mut report.fixtures {
        (one.outcome, one.reason) = (ConformanceOutcome::NotRun, "the run did not finish".to_owned());
    }
    report.seal();
    let findings = SuiteUnderTest::new().verify(&report);
    assert!(findings.iter().any(|text| text.starts_with(finding)), "{findings:#?}");
}

#[test]
fn many_missing_fixtures_are_counted() {
    let mut world = SuiteUnderTest::new();
    world.fixtures.extend((0..30).map(|index| fixture(&format!("podgc/more-{index:02}"), "core")));
    let findings = world.verify(&good());
    assert_eq!(findings.iter().filter(|text| text.contains("is missing, but belongs to")).count(), 10);
    assert!(findings.contains(&"fixtures: 20 more are missing".to_owned()), "{findings:#?}");
}

type ReportEdit = fn(&mut ConformanceReport);

/// Edits that leave derived fields and digests unchanged.
#[rstest]
#[case::outcome("digest: says sha256:", |r: &mut ConformanceReport| r.fixtures[0].outcome = ConformanceOutcome::Fail)]
#[case::outcome_and_counts("profiles[0].conformant: says true, the list of fixtures gives false", |r: &mut ConformanceReport| r.fixtures[0].outcome = ConformanceOutcome::Fail)]
#[case::count("profiles[0].levels.core.pass: says 7, the list of fixtures gives 1", |r: &mut ConformanceReport| r.profiles[0].levels.get_mut("core").expect("core").pass = 7)]
#[case::verdict("profiles[2].conformant: says false, the list of fixtures gives true", |r: &mut ConformanceReport| r.profiles[2].conformant = false)]
#[case::summary("profiles: says a list of 2, the list of fixtures gives a list of 3", |r: &mut ConformanceReport| r.profiles.truncate(2))]
#[case::version("digest: says", |r: &mut ConformanceReport| "v9".clone_into(&mut r.implementation.version))]
fn edits_are_found(#[case] finding: &str, #[case] edit: ReportEdit) {
    let mut report = good();
    edit(&mut report);
    let findings = SuiteUnderTest::new().verify(&report);
    assert!(findings.iter().any(|text| text.starts_with(finding)), "{findings:#?}");
}

/// Edits followed by deriving everything again.
#[rstest]
#[case::gone("fixtures[ttl/a]: is missing, but belongs to profile all", |r: &mut ConformanceReport| { r.fixtures.pop(); })]
#[case::twice("fixtures[podgc/a]: is listed twice", |r: &mut ConformanceReport| r.fixtures.push(r.fixtures[0].clone()))]
#[case::invented("fixtures[podgc/z]: the suite has no such fixture", |r: &mut ConformanceReport| r.fixtures.push(result("podgc/z", "core", ConformanceOutcome::Pass)))]
#[case::foreign("fixtures[api/none]: does not belong to profile all", |r: &mut ConformanceReport| r.fixtures.push(result("api/none", "core", ConformanceOutcome::Pass)))]
#[case::level("fixtures[podgc/a].level: says `hardened`, should be `core`", |r: &mut ConformanceReport| "hardened".clone_into(&mut r.fixtures[0].level))]
#[case::version("kubernetesVersion: `v1/../..` is not a version", |r: &mut ConformanceReport| "v1/../..".clone_into(&mut r.kubernetes_version))]
#[case::commit("suite.commit: is not a full commit hash", |r: &mut ConformanceReport| r.suite.commit = Some("HEAD".to_owned()))]
#[case::file("subject.files[x.py]: is not a SHA-256 digest", |r: &mut ConformanceReport| drop(r.subject.files.insert("x.py".to_owned(), "same".to_owned())))]
#[case::feature("fixtures[podgc/a].feature: says `x`", |r: &mut ConformanceReport| "x".clone_into(&mut r.fixtures[0].feature))]
#[case::other_controllers("fixtures[podgc/a].otherControllers: says `ttl`, should be ``", |r: &mut ConformanceReport| r.fixtures[0].other_controllers = vec!["ttl".to_owned()])]
#[case::bystanders("fixtures[podgc/far].bystanders: lists writes, but the fixture has not run", |r: &mut ConformanceReport| r.fixtures[3].bystanders = vec!["x POST leases/a".to_owned()])]
#[case::profiles("fixtures[podgc/a].profiles: says `ttl`, should be `podgc`", |r: &mut ConformanceReport| r.fixtures[0].profiles = vec!["ttl".to_owned()])]
#[case::skipped("fixtures[podgc/a].outcome: was skipped, but the cluster has all capabilities", |r: &mut ConformanceReport| { r.fixtures[0] = result("podgc/a", "core", ConformanceOutcome::Skip); })]
#[case::cannot_have_run("fixtures[podgc/far].outcome: cannot have run: the cluster lacks many-nodes", |r: &mut ConformanceReport| r.fixtures[3] = result("podgc/far", "hardened", ConformanceOutcome::Pass))]
#[case::not_declared("fixtures[podgc/b].outcome: cannot have run: the implementation does not declare podgc.orphaned", |r: &mut ConformanceReport| r.implementation.features.clear())]
#[case::unsupported("fixtures[podgc/c].outcome: is `unsupported`, but the subject has its controllers", |r: &mut ConformanceReport| { r.fixtures[2] = result("podgc/c", "hardened", ConformanceOutcome::Unsupported); })]
#[case::declared("fixtures[podgc/b].outcome: is `unsupported`, but the subject has its controllers", |r: &mut ConformanceReport| { r.fixtures[1] = result("podgc/b", "extended", ConformanceOutcome::Unsupported); })]
#[case::no_controllers("fixtures[podgc/a].outcome: cannot have run: subject.controllers lacks podgc", |r: &mut ConformanceReport| r.subject.controllers.clear())]
#[case::no_such_controller("subject.controllers[0]: there is no controller `magic`", |r: &mut ConformanceReport| "magic".clone_into(&mut r.subject.controllers[0]))]
#[case::no_reason("fixtures[podgc/far].reason: is missing", |r: &mut ConformanceReport| r.fixtures[3].reason.clear())]
#[case::reason("fixtures[podgc/a].reason: is not needed", |r: &mut ConformanceReport| "x".clone_into(&mut r.fixtures[0].reason))]
#[case::excused("fixtures[podgc/a].outcome: is `known-deviation`, but no entry in deviations covers it", |r: &mut ConformanceReport| { r.fixtures[0] = result("podgc/a", "core", ConformanceOutcome::KnownDeviation); })]
#[case::not_excused("fixtures[podgc/c].outcome: is `fail`, but an entry in deviations covers it", |r: &mut ConformanceReport| { r.fixtures[2] = result("podgc/c", "hardened", ConformanceOutcome::Fail); })]
#[case::excuse("fixtures[podgc/c].reason: says `because`", |r: &mut ConformanceReport| "because".clone_into(&mut r.fixtures[2].reason))]
#[case::unneeded("deviations[0].fixtures: `podgc/c` is not needed", |r: &mut ConformanceReport| { r.fixtures[2] = result("podgc/c", "hardened", ConformanceOutcome::Pass); })]
#[case::matches_nothing("deviations[0].fixtures: `x` matches no fixture", |r: &mut ConformanceReport| "x".clone_into(&mut r.deviations[0].fixtures))]
#[case::suite("suite.digest: says sha256:x, the fixtures at hand have sha256:ba78", |r: &mut ConformanceReport| "sha256:x".clone_into(&mut r.suite.digest))]
#[case::profile("profile: there is no profile `most`; there are podgc, ttl, all", |r: &mut ConformanceReport| "most".clone_into(&mut r.profile))]
#[case::capability("cluster.capabilities[0]: there is no capability `magic`", |r: &mut ConformanceReport| "magic".clone_into(&mut r.cluster.capabilities[0]))]
#[case::mode("mode: contradicts cluster.capabilities", |r: &mut ConformanceReport| r.mode = Mode::Virtual)]
#[case::time("time: `yesterday` is not a UTC time", |r: &mut ConformanceReport| "yesterday".clone_into(&mut r.time))]
#[case::kind("kind: says `RunReport`, should be `ConformanceReport`", |r: &mut ConformanceReport| "RunReport".clone_into(&mut r.kind))]
#[case::api_version("apiVersion: says `v2`", |r: &mut ConformanceReport| "v2".clone_into(&mut r.api_version))]
#[case::contacts("implementation.contacts: is empty", |r: &mut ConformanceReport| r.implementation.contacts.clear())]
#[case::own_program("subject.what: runs plumbline-controllers: Plumbline's own controllers were tested, not those of collector", |r: &mut ConformanceReport| "env plumbline-controllers collector".clone_into(&mut r.subject.what))]
#[case::own_clients("subject.clients: names plumbline-controllers/0.2.0: Plumbline's own", |r: &mut ConformanceReport| r.subject.clients = vec!["plumbline-controllers/0.2.0".to_owned()])]
#[case::other_program("subject.what: does not run collector, the program that collector describes", |r: &mut ConformanceReport| "other --now".clone_into(&mut r.subject.what))]
#[case::subject("subject.digest: is not a SHA-256 digest", |r: &mut ConformanceReport| r.subject.digest = Some("abc".to_owned()))]
fn careful_edits_are_found(#[case] finding: &str, #[case] edit: ReportEdit) {
    let mut report = good();
    edit(&mut report);
    report.seal();
    let findings = SuiteUnderTest::new().verify(&report);
    assert!(findings.iter().any(|text| text.starts_with(finding)), "{findings:#?}");
    assert!(!findings.iter().any(|text| text.starts_with("digest:")), "sealed again: {findings:#?}");
}

/// A skip reason that a real server or a shared cluster causes is accepted; any other reason is not.
#[rstest]
#[case::changes_nodes(
    "kubeconfig",
    "command",
    "it changes nodes or other cluster-scoped objects; allow it with --allow-disruptive, on a disposable cluster only",
    true
)]
#[case::scheduler("kind", "command", "the cluster's scheduler would bind its pods", true)]
#[case::invalid("envtest", "command", "the server refuses pods/a with 422: Pod \"a\" is invalid", true)]
#[case::conflict("envtest", "command", "the server refuses pods/a with 409: it exists", false)]
#[case::not_seen(
    "k3s",
    "external",
    "it checks the subject's requests, and those of an external subject are not recorded",
    true
)]
#[case::seen(
    "k3s",
    "command",
    "it checks the subject's requests, and those of an external subject are not recorded",
    false
)]
#[case::fake("fake", "command", "the cluster's scheduler would bind its pods", false)]
#[case::own_words("kubeconfig", "command", "it failed", false)]
fn skips_have_reasons(#[case] cluster: &str, #[case] kind: &str, #[case] reason: &str, #[case] holds: bool) {
    let mut world = SuiteUnderTest::new();
    let text = "\
promise: A pod of a missing node is deleted after its quarantine.
rule: BR-24-03
level: core
feature: podgc.orphaned
given: { nodes: [n1], pods: [a] }
steps: [{ at: 5s, delete: nodes/n1 }, { by: 80s, eventually: { absent: pods/a } }]
order: [DELETE pods/a 200]
";
    let (mut made, problems) = plumbline::fixture::parse::read(Path::new("fixtures/podgc/a.yaml"), "podgc", text);
    assert!(problems.is_empty(), "{problems:?}");
    world.fixtures[1] = made.remove(0);
    world.fixtures[1].id = "podgc/a".to_owned();
    let mut report = good();
    cluster.clone_into(&mut report.cluster.name);
    kind.clone_into(&mut report.subject.kind);
    // Names are drawn for programs on the fake server only.
    report.seed = report.seed.filter(|_| cluster == "fake" && kind == "command");
    report.cluster.capabilities = world.fixtures[1].requires.iter().map(ToString::to_string).collect();
    report.fixtures[0] =
        FixtureResult { reason: reason.to_owned(), ..result("podgc/a", "core", ConformanceOutcome::Skip) };
    report.seal();
    assert!(report.profiles.iter().any(|profile| !profile.conformant), "a skip never makes conformant");
    assert_eq!(world.verify(&report).is_empty(), holds, "{:?}", world.verify(&report));
}

/// Collects every scalar of a tree, with its path.
fn leaves(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, field)| {
            leaves(field, &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), out);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| leaves(item, &format!("{path}/{index}"), out));
        }
        _ => out.push(path.to_owned()),
    }
}

/// Returns another value of the same kind.
fn changed(value: &Value, by: usize) -> Value {
    match value {
        Value::Bool(value) => Value::Bool(!value),
        Value::Number(number) => Value::from(number.as_u64().unwrap_or_default() + 1 + by as u64),
        Value::String(text) => {
            let words = ["pass", "fail", "not-run", "core", "hardened", "virtual", "podgc", "ttl/a", "x"];
            let word = words[by % words.len()];
            Value::String(if word == text { format!("{text}x") } else { word.to_owned() })
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Editing any single field that a verdict depends on makes the document unreadable or its verification fail.
    #[test]
    fn any_edited_field_is_noticed(which in any::<prop::sample::Index>(), by in 0_usize..9) {
        let value = good().value();
        let mut paths = Vec::new();
        leaves(&value, "", &mut paths);
        paths.retain(|path| !path.starts_with("/load/"));
        let path = &paths[which.index(paths.len())];
        let mut edited = value.clone();
        let leaf = edited.pointer_mut(path).expect("a leaf");
        *leaf = changed(leaf, by);
        prop_assert_ne!(&edited, &value);
        if let Ok(report) = ConformanceReport::read(&edited.to_string()) {
            let findings = SuiteUnderTest::new().verify(&report);
            prop_assert!(!findings.is_empty(), "{path} was edited");
        }
    }

    /// Sealing produces counts that verify, for any outcomes.
    #[test]
    fn sealed_counts_verify(all in prop::collection::vec(outcomes(), 5)) {
        let mut report = good();
        for (fixture, outcome) in report.fixtures.iter_mut().zip(all) {
            fixture.outcome = outcome;
        }
        report.seal();
        let findings = SuiteUnderTest::new().verify(&report);
        prop_assert!(!findings.iter().any(|text| text.starts_with("profiles") || text.starts_with("digest")), "{findings:?}");
    }
}

#[test]
fn every_fixture_of_the_suite_is_in_a_profile_or_about_the_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let fixtures = plumbline::fixture::parse::load(&root).expect("good fixtures");
    let profiles = Profiles::load(&root, &fixtures).expect("good profiles");
    assert_eq!(profiles.names(), ["disruption", "podgc", "taint-eviction", "ttl", "all"]);
    for fixture in &fixtures {
        let expected = usize::from(!fixture.controllers.is_empty());
        assert_eq!(profiles.of(&fixture.id).len(), expected, "{} belongs where its controller does", fixture.id);
    }
    let shared = fixtures.iter().filter(|fixture| !profiles.other_controllers(fixture).is_empty());
    let shared: Vec<_> = shared.map(|fixture| fixture.id.as_str()).collect();
    let with_podgc = ["faults/taint-eviction-and-podgc-on-a-dead-node", "faults/taint-eviction-mark-without-a-delete"];
    assert_eq!(shared, with_podgc, "the only ones with two controllers");
}
