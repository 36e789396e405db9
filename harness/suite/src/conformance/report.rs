//! The conformance report: a list of fixtures with their outcomes, and everything that follows from it.
//!
//! Derived values are never set by hand: [`ConformanceReport::seal`] sorts the list and derives counts, verdicts and
//! the digest from it; [`super::verify`] derives them again and compares. The bytes depend only on the content, of
//! which only `time` and, on the wall clock, `load` with the digest differ between two runs with the same outcomes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ParseError;
use super::archive::PublishedEvidence;
use super::deviations::Deviation;
use super::implementation::Implementation;
use super::outcomes::is_zero;
use super::profile::ALL;
use crate::digest;
use crate::load::MachineLoad;

pub use super::outcomes::{ConformanceOutcome, OutcomeCounts};

/// Version of [`ConformanceReport`]. Fields may be added within a version; none changes its meaning.
pub const API_VERSION: &str = "plumbline/v1";

/// `kind` of the document.
pub const KIND: &str = "ConformanceReport";

/// Fields that the digest does not cover.
const NOT_DIGESTED: [&str; 3] = ["time", "digest", "evidence"];

/// The kind of time in which fixtures ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Time that advances only when every task waits; nothing is late.
    Virtual,
    /// Wall-clock time, with the fixtures' tolerances.
    Wall,
}

/// A conformance report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConformanceReport {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// Start of the run, in UTC. The only time in the report. `digest` does not cover it.
    pub time: String,
    /// Digest over the canonical JSON of all fields but `time`, `evidence` and itself.
    pub digest: String,
    /// Digests of what is published with the report; absent until it is. Evidence has times and process ids, while two
    /// runs with equal outcomes have equal reports, so `digest` does not cover it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<PublishedEvidence>,
    /// The implementation's own description.
    pub implementation: Implementation,
    /// The tested subject.
    pub subject: TestedSubject,
    /// The suite that tested it.
    pub suite: Suite,
    /// Kubernetes version that the API server has or emulates.
    pub kubernetes_version: String,
    /// The cluster it ran on.
    pub cluster: ClusterInfo,
    /// The kind of time.
    pub mode: Mode,
    /// Seed of what was drawn for each fixture, such as the names of its objects; absent if nothing was, and in reports
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Load of the machine; absent in virtual time and in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<MachineLoad>,
    /// The requested profile.
    pub profile: String,
    /// Known deviations that apply to fixtures in the list.
    pub deviations: Vec<Deviation>,
    /// The verdicts; derived from `fixtures`.
    pub profiles: Vec<ProfileSummary>,
    /// Every fixture of the profile, sorted by id.
    pub fixtures: Vec<FixtureResult>,
}

/// The tested subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestedSubject {
    /// The name in reports.
    pub name: String,
    /// `in-process`, `command`, …
    pub kind: String,
    /// Name and version, or command line.
    pub what: String,
    /// Digest of the program file; absent if no file is accessible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Digests of the files that its command line names, such as the script that an interpreter runs, by argument.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The names by which its clients called themselves in the fixtures that ran, `kubectl/v1.36.0`, sorted; at most
    /// 20. Absent in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// The controllers that it declares, sorted. Absent in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<String>,
    /// Names of the variables added to its environment, sorted. Values are left out because they may be secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Controllers that ran alongside some of its own, `taint-eviction=daemonset-controller`, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub companions: Vec<String>,
}

/// The fixtures and the program that ran them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Suite {
    /// Version of plumbline.
    pub version: String,
    /// Digest over all fixture files, see [`digest::suite`].
    pub digest: String,
    /// The commit that last changed the fixtures. Absent outside of a git repository, and in reports of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// True if the fixtures differ from that commit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub modified: bool,
}

/// The cluster of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterInfo {
    /// The name.
    pub name: String,
    /// The image it ran from, `rancher/k3s:v1.36.1-k3s1`; absent if there was none or the program chose it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Capabilities that cluster and subject had in common, sorted.
    pub capabilities: Vec<String>,
}

/// The outcome of one fixture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FixtureResult {
    /// `podgc/orphaned-quarantine-40s`, `ttl/boundary[up-100]`.
    pub id: String,
    /// The profiles that contain it, without [`ALL`].
    pub profiles: Vec<String>,
    /// `core`, `extended`, `hardened`, `upstream`, `provisional`.
    pub level: String,
    /// The tested feature.
    pub feature: String,
    /// True if it requires virtual time. Subjects in wall time may skip it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_time: bool,
    /// Controllers that it needs besides those of its profiles, sorted. Subjects without them need not pass it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_controllers: Vec<String>,
    /// The outcome.
    pub outcome: ConformanceOutcome,
    /// The reason, where the outcome needs one; see [`ConformanceOutcome::needs_reason`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Writes by clients of the subject that are none of the controllers under test, to resources that no fixture
    /// judges; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bystanders: Vec<String>,
    /// True if a program passes it that does nothing: a pass alone shows little.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
}

/// The result of a profile; derived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileSummary {
    /// The profile's name.
    pub name: String,
    /// True if every core fixture passed, at least one of them shows work, and no binding fixture is inconclusive.
    pub conformant: bool,
    /// Reasons against conformance; empty if conformant.
    pub reasons: Vec<String>,
    /// Numbers of fixtures by level.
    pub levels: BTreeMap<String, OutcomeCounts>,
    /// Number of passed fixtures that a program passes, too, that does nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_passes: usize,
    /// Features of level `extended` whose fixtures all passed. Fixtures that require virtual time do not count in wall
    /// time.
    pub supported_features: Vec<String>,
    /// Declared features of level `extended` with a fixture that did not pass.
    pub failed_features: Vec<String>,
    /// Features of level `extended` that were not declared.
    pub unsupported_features: Vec<String>,
}

impl ProfileSummary {
    /// Says how many of the passed fixtures show no work; `None` if all do.
    #[must_use]
    pub fn idle_line(&self) -> Option<String> {
        let passed: usize = self.levels.values().map(|counts| counts.pass).sum();
        let count = self.idle_passes;
        (count > 0)
            .then(|| format!("{count} of the {passed} passed fixtures also pass for a program that does nothing"))
    }
}

impl ConformanceReport {
    /// Sorts the list and derives everything else from it.
    pub fn seal(&mut self) {
        self.fixtures.sort_by(|a, b| a.id.cmp(&b.id));
        self.profiles = summaries(&self.profile, &self.fixtures, &self.subject.controllers);
        self.digest = self.digest();
    }

    /// Computes the digest of the content.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut value = self.value();
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, _| !NOT_DIGESTED.contains(&name.as_str()));
        }
        digest::bytes(digest::canonical(&value).as_bytes())
    }

    /// The report as a JSON tree.
    #[must_use]
    pub fn value(&self) -> Value {
        // Text, numbers and lists with text keys always convert to JSON.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the document as JSON.
    ///
    /// # Errors
    ///
    /// Never for a report that was parsed or created here.
    pub fn to_json(&self) -> io::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Returns the document as YAML.
    ///
    /// # Errors
    ///
    /// Never for a report that was parsed or created here.
    pub fn to_yaml(&self) -> io::Result<String> {
        serde_saphyr::to_string(self).map_err(io::Error::other)
    }

    /// Parses a document, JSON if it begins with a brace, YAML otherwise. Does not verify it.
    ///
    /// # Errors
    ///
    /// Returns the problem with line and column: unknown, missing and duplicate fields, unknown words.
    pub fn read(text: &str) -> Result<Self, ParseError> {
        if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| ParseError(error.to_string()))
        } else {
            serde_saphyr::from_str(text).map_err(|error| ParseError(error.without_snippet().to_string()))
        }
    }

    /// Returns the fixtures with this outcome.
    pub fn with(&self, outcome: ConformanceOutcome) -> impl Iterator<Item = &FixtureResult> {
        self.fixtures.iter().filter(move |fixture| fixture.outcome == outcome)
    }

    /// Returns true if the run reached its end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.with(ConformanceOutcome::NotRun).next().is_none()
    }

    /// Returns true if the run reached its end, and every result shows something.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.fixtures.iter().any(|fixture| fixture.outcome.is_open())
    }

    /// Returns true if every profile is conformant and no fixture failed, except those that conformance does not need:
    /// provisional ones, and those that show how upstream does it.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let failed = self.with(ConformanceOutcome::Fail).any(FixtureResult::is_binding);
        !failed && !self.profiles.is_empty() && self.profiles.iter().all(|profile| profile.conformant)
    }

    /// Returns true if only inconclusive fixtures prevent the success.
    #[must_use]
    pub fn is_inconclusive(&self) -> bool {
        let mut fixtures = self.fixtures.clone();
        for fixture in &mut fixtures {
            match fixture.outcome {
                ConformanceOutcome::Inconclusive => fixture.outcome = ConformanceOutcome::Pass,
                ConformanceOutcome::Fail if fixture.is_binding() => return false,
                _ => {}
            }
        }
        let profiles = summaries(&self.profile, &fixtures, &self.subject.controllers);
        !self.is_success() && !profiles.is_empty() && profiles.iter().all(|profile| profile.conformant)
    }
}

/// Returns the summary of the requested profile; for [`ALL`], also of each of its parts. `controllers` are the
/// subject's.
#[must_use]
pub fn summaries(profile: &str, fixtures: &[FixtureResult], controllers: &[String]) -> Vec<ProfileSummary> {
    let part = |name: &str| summary(name, fixtures.iter().filter(|fixture| fixture.is_in(name)), controllers);
    if profile != ALL {
        return vec![part(profile)];
    }
    let parts: BTreeSet<&str> = fixtures.iter().flat_map(|fixture| &fixture.profiles).map(String::as_str).collect();
    parts.into_iter().map(part).chain([summary(ALL, fixtures.iter(), controllers)]).collect()
}

/// Returns true for levels whose failures count.
fn is_binding(level: &str) -> bool {
    !matches!(level, "upstream" | "provisional")
}

impl FixtureResult {
    /// Returns true if a failure of the fixture counts.
    #[must_use]
    pub fn is_binding(&self) -> bool {
        is_binding(&self.level)
    }

    fn is_in(&self, profile: &str) -> bool {
        self.profiles.iter().any(|name| name == profile)
    }

    /// Returns true if `profile` does not require this fixture of a subject with these controllers: it needs virtual
    /// time, which the subject does not run in, or a controller of another profile, which the subject does not have.
    #[must_use]
    pub fn is_out_of_reach(&self, profile: &str, controllers: &[String]) -> bool {
        let lacks_another = || self.other_controllers.iter().any(|name| !controllers.contains(name));
        match self.outcome {
            ConformanceOutcome::Skip => self.virtual_time,
            ConformanceOutcome::Unsupported => profile != ALL && lacks_another(),
            _ => false,
        }
    }
}

fn summary<'a>(
    name: &str,
    fixtures: impl Iterator<Item = &'a FixtureResult>,
    controllers: &[String],
) -> ProfileSummary {
    let mut levels: BTreeMap<String, Vec<ConformanceOutcome>> = BTreeMap::new();
    let (mut required, mut idle_passes, mut shows_work) = (Vec::new(), 0, false);
    let mut features: BTreeMap<&str, Vec<ConformanceOutcome>> = BTreeMap::new();
    for fixture in fixtures {
        let is_out_of_reach = fixture.is_out_of_reach(name, controllers);
        if fixture.level == "core" && !is_out_of_reach {
            required.push(fixture.outcome);
            shows_work |= fixture.outcome == ConformanceOutcome::Pass && !fixture.idle;
        }
        idle_passes += usize::from(fixture.outcome == ConformanceOutcome::Pass && fixture.idle);
        levels.entry(fixture.level.clone()).or_default().push(fixture.outcome);
        if fixture.level == "extended" && !is_out_of_reach {
            features.entry(&fixture.feature).or_default().push(fixture.outcome);
        }
    }
    let levels: BTreeMap<String, OutcomeCounts> =
        levels.into_iter().map(|(level, outcomes)| (level, OutcomeCounts::of(outcomes))).collect();
    let required = OutcomeCounts::of(required);
    let mut reasons: Vec<String> = ConformanceOutcome::ALL
        .into_iter()
        .filter(|outcome| *outcome != ConformanceOutcome::Pass && required.get(*outcome) > 0)
        .map(|outcome| format!("{} of {} core fixtures {}", required.get(outcome), required.total, outcome.words()))
        .collect();
    let beyond = |(level, counts): (&String, &OutcomeCounts)| {
        (level != "core" && is_binding(level) && counts.inconclusive > 0)
            .then(|| format!("{} of {} {level} fixtures inconclusive", counts.inconclusive, counts.total))
    };
    reasons.extend(levels.iter().filter_map(beyond));
    if required.total == 0 {
        reasons.push("there is no core fixture".to_owned());
    } else if required.pass > 0 && !shows_work {
        reasons.push("a program that does nothing passes all core fixtures that passed, too".to_owned());
    }
    let named = |means: fn(&[ConformanceOutcome]) -> bool| {
        features.iter().filter(|(_, outcomes)| means(outcomes)).map(|(name, _)| (*name).to_owned()).collect()
    };
    ProfileSummary {
        name: name.to_owned(),
        conformant: reasons.is_empty(),
        reasons,
        supported_features: named(|outcomes| outcomes.iter().all(|outcome| *outcome == ConformanceOutcome::Pass)),
        failed_features: named(|outcomes| {
            let lost = |outcome: &ConformanceOutcome| {
                !matches!(outcome, ConformanceOutcome::Pass | ConformanceOutcome::Unsupported)
            };
            outcomes.iter().any(lost)
                || (outcomes.contains(&ConformanceOutcome::Pass) && outcomes.contains(&ConformanceOutcome::Unsupported))
        }),
        unsupported_features: named(|outcomes| {
            outcomes.iter().all(|outcome| *outcome == ConformanceOutcome::Unsupported)
        }),
        levels,
        idle_passes,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use plumbline::fixture::{Fixture, Level, parse};
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Returns a fixture that does nothing.
    pub(crate) fn fixture(id: &str, level: &str) -> Fixture {
        let text = "\
promise: A pod of a missing node is deleted after its quarantine.
rule: BR-24-03
level: core
feature: podgc.orphaned
controllers: [podgc]
steps:
- { at: 5s, expect: { absent: pods/a } }
";
        let (mut made, problems) = parse::read(std::path::Path::new("fixtures/podgc/x.yaml"), "podgc", text);
        assert!(problems.is_empty(), "{problems:?}");
        let mut fixture = made.remove(0);
        id.clone_into(&mut fixture.id);
        fixture.suite = id.split('/').next().unwrap_or_default().to_owned();
        fixture.level = Level::parse(level).expect("a level");
        fixture
    }

    /// Returns a consistent result.
    pub(crate) fn result(id: &str, level: &str, outcome: ConformanceOutcome) -> FixtureResult {
        FixtureResult {
            id: id.to_owned(),
            profiles: vec![id.split('/').next().unwrap_or_default().to_owned()],
            level: level.to_owned(),
            feature: "podgc.orphaned".to_owned(),
            virtual_time: false,
            other_controllers: Vec::new(),
            outcome,
            reason: if outcome.needs_reason() { "because".to_owned() } else { String::new() },
            bystanders: Vec::new(),
            idle: false,
        }
    }

    /// Returns a sealed report of these fixtures.
    pub(crate) fn report(profile: &str, fixtures: Vec<FixtureResult>) -> ConformanceReport {
        let text = |text: &str| text.to_owned();
        let mut report = ConformanceReport {
            api_version: text(API_VERSION),
            kind: text(KIND),
            time: text("2030-01-01T00:00:00Z"),
            digest: String::new(),
            evidence: None,
            implementation: Implementation {
                organization: text("Example"),
                project: text("collector"),
                url: text("https://example.org"),
                version: text("v1.2"),
                contacts: vec![text("ops@example.org")],
                program: Some(text("collector")),
                features: vec![text("podgc.*")],
            },
            subject: TestedSubject {
                name: text("collector"),
                kind: text("command"),
                what: text("collector --now"),
                digest: Some(digest::bytes(b"program")),
                files: [("collector.py".to_owned(), digest::bytes(b"script"))].into(),
                clients: vec![text("collector/v1.2")],
                controllers: plumbline::fixture::Controller::ALL.map(|controller| controller.to_string()).into(),
                environment: vec![text("GOGC")],
                companions: vec![text("taint-eviction=daemonset-controller")],
            },
            suite: Suite {
                version: text("0.1.0"),
                digest: digest::bytes(b"suite"),
                commit: Some("5".repeat(40)),
                modified: false,
            },
            kubernetes_version: text("v1.36.0"),
            cluster: ClusterInfo {
                name: text("fake"),
                image: Some(text("rancher/k3s:v1.36.1-k3s1")),
                capabilities: vec![text("crash"), text("faults")],
            },
            mode: Mode::Wall,
            seed: Some(7),
            load: Some(MachineLoad { cores: 2, load_average: Some(18.25), ..MachineLoad::default() }),
            profile: text(profile),
            deviations: Vec::new(),
            profiles: Vec::new(),
            fixtures,
        };
        report.seal();
        report
    }

    pub(crate) fn outcomes() -> impl Strategy<Value = ConformanceOutcome> {
        prop::sample::select(ConformanceOutcome::ALL.to_vec())
    }

    /// Generates lists of results with distinct ids.
    pub(crate) fn lists() -> impl Strategy<Value = Vec<FixtureResult>> {
        let level = prop::sample::select(vec!["core", "extended", "hardened", "upstream", "provisional"]);
        let suite = prop::sample::select(vec!["podgc", "ttl"]);
        prop::collection::vec((suite, level, outcomes()), 0..24).prop_map(|rows| {
            let rows = rows.into_iter().enumerate();
            rows.map(|(index, (suite, level, outcome))| result(&format!("{suite}/{index:02}"), level, outcome))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_list(list in lists()) {
            let report = report(ALL, list.clone());
            for summary in &report.profiles {
                let mine: Vec<_> = list.iter().filter(|one| summary.name == ALL || one.id.starts_with(&format!("{}/", summary.name))).collect();
                let total: usize = summary.levels.values().map(|counts| counts.total).sum();
                prop_assert_eq!(total, mine.len());
                for (level, counts) in &summary.levels {
                    let sum: usize = ConformanceOutcome::ALL.into_iter().map(|outcome| counts.get(outcome)).sum();
                    prop_assert_eq!(sum, counts.total);
                    for outcome in ConformanceOutcome::ALL {
                        let here = mine.iter().filter(|one| one.level == *level && one.outcome == outcome).count();
                        prop_assert_eq!(here, counts.get(outcome));
                    }
                }
                let core = || mine.iter().filter(|one| one.level == "core");
                let doubtful =
                    |one: &&&FixtureResult| one.outcome == ConformanceOutcome::Inconclusive && one.is_binding();
                let conformant = core().count() > 0
                    && core().all(|one| one.outcome == ConformanceOutcome::Pass)
                    && !mine.iter().any(|one| doubtful(&one));
                prop_assert_eq!(conformant, summary.conformant);
                prop_assert_eq!(conformant, summary.reasons.is_empty());
            }
        }

        #[test]
        fn documents_can_be_read_back(list in lists(), text in "\\PC{0,20}") {
            let mut report = report(ALL, list);
            report.implementation.organization.clone_from(&text);
            report.subject.what = format!("{text}: [x]\n#{text}");
            report.seal();
            let json = report.to_json().expect("JSON");
            let yaml = report.to_yaml().expect("YAML");
            let from_json = ConformanceReport::read(&json);
            let from_yaml = ConformanceReport::read(&yaml);
            prop_assert_eq!(from_json.as_ref(), Ok(&report), "{}", json);
            prop_assert_eq!(from_yaml.as_ref(), Ok(&report), "{}", yaml);
        }

        #[test]
        fn bytes_do_not_depend_on_the_order_of_arrival(list in lists().prop_shuffle()) {
            let mut sorted = list.clone();
            sorted.sort_by(|a, b| a.id.cmp(&b.id));
            prop_assert_eq!(report(ALL, list).to_yaml().ok(), report(ALL, sorted).to_yaml().ok());
        }
    }

    #[rstest]
    #[case(ConformanceOutcome::Pass, None)]
    #[case(ConformanceOutcome::Fail, Some("1 of 2 core fixtures failed"))]
    #[case(ConformanceOutcome::KnownDeviation, Some("1 of 2 core fixtures known to deviate"))]
    #[case(ConformanceOutcome::Flaky, Some("1 of 2 core fixtures flaky"))]
    #[case(ConformanceOutcome::Inconclusive, Some("1 of 2 core fixtures inconclusive"))]
    #[case(ConformanceOutcome::Skip, Some("1 of 2 core fixtures skipped"))]
    #[case(ConformanceOutcome::Unsupported, Some("1 of 2 core fixtures unsupported"))]
    #[case(ConformanceOutcome::NotRun, Some("1 of 2 core fixtures not run"))]
    fn only_passing_makes_conformant(#[case] outcome: ConformanceOutcome, #[case] reason: Option<&str>) {
        let list = vec![result("podgc/a", "core", ConformanceOutcome::Pass), result("podgc/b", "core", outcome)];
        let report = report("podgc", list);
        assert_eq!(report.profiles[0].reasons, reason.into_iter().collect::<Vec<_>>());
        assert_eq!((report.profiles[0].conformant, report.is_success()), (reason.is_none(), reason.is_none()));
    }

    /// Fixtures that need virtual time are required only for subjects that run in virtual time.
    #[rstest]
    #[case::out_of_reach(ConformanceOutcome::Skip, true)]
    #[case::failed(ConformanceOutcome::Fail, false)]
    #[case::not_run(ConformanceOutcome::NotRun, false)]
    fn virtual_time_is_required_only_in_virtual_time(#[case] outcome: ConformanceOutcome, #[case] conformant: bool) {
        let far = FixtureResult { virtual_time: true, ..result("podgc/b", "core", outcome) };
        let report = report("podgc", vec![result("podgc/a", "core", ConformanceOutcome::Pass), far.clone()]);
        assert_eq!((report.profiles[0].conformant, report.profiles[0].levels["core"].total), (conformant, 2));
        let alone = summaries("podgc", &[far], &[]);
        assert!(!alone[0].conformant, "nothing was seen");
    }

    /// A subject of one controller conforms to its profile without the fixtures that need another controller as well.
    #[rstest]
    #[case::without_the_other("podgc", "podgc", ConformanceOutcome::Unsupported, true)]
    #[case::with_the_other("podgc", "podgc ttl", ConformanceOutcome::Unsupported, false)]
    #[case::failed("podgc", "podgc ttl", ConformanceOutcome::Fail, false)]
    #[case::skipped("podgc", "podgc", ConformanceOutcome::Skip, false)]
    #[case::of_all(ALL, "podgc", ConformanceOutcome::Unsupported, false)]
    fn fixtures_that_need_another_controller(
        #[case] profile: &str,
        #[case] controllers: &str,
        #[case] outcome: ConformanceOutcome,
        #[case] conformant: bool,
    ) {
        let shared = FixtureResult { other_controllers: vec!["ttl".to_owned()], ..result("podgc/b", "core", outcome) };
        let list = [result("podgc/a", "core", ConformanceOutcome::Pass), shared];
        let controllers: Vec<String> = controllers.split(' ').map(str::to_owned).collect();
        let summaries = summaries(profile, &list, &controllers);
        let summary = summaries.last().expect("a summary");
        assert_eq!((summary.conformant, summary.levels["core"].total), (conformant, 2));
    }

    #[test]
    fn beyond_the_core_failures_count_and_deviations_do_not() {
        let with = |level, outcome| {
            let report = report(
                "podgc",
                vec![result("podgc/a", "core", ConformanceOutcome::Pass), result("podgc/b", level, outcome)],
            );
            (report.profiles[0].conformant, report.is_success())
        };
        assert_eq!(with("hardened", ConformanceOutcome::Fail), (true, false));
        assert_eq!(with("hardened", ConformanceOutcome::KnownDeviation), (true, true));
        assert_eq!(with("provisional", ConformanceOutcome::Fail), (true, true));
        assert_eq!(with("upstream", ConformanceOutcome::Fail), (true, true), "how upstream does it is not asked");
        assert_eq!(with("hardened", ConformanceOutcome::Inconclusive), (false, false));
        assert_eq!(with("provisional", ConformanceOutcome::Inconclusive), (true, true));
        assert_eq!(with("extended", ConformanceOutcome::Unsupported), (true, true));
        let empty = report("podgc", vec![result("podgc/a", "hardened", ConformanceOutcome::Pass)]);
        assert_eq!(empty.profiles[0].reasons, ["there is no core fixture"]);
    }

    #[test]
    fn features_are_supported_failed_or_not_declared() {
        let feature = |name: &str, outcome| FixtureResult {
            feature: name.to_owned(),
            ..result(&format!("podgc/{name}{}", outcome as u8), "extended", outcome)
        };
        let list = vec![
            feature("podgc.a", ConformanceOutcome::Pass),
            feature("podgc.b", ConformanceOutcome::Pass),
            feature("podgc.b", ConformanceOutcome::Flaky),
            feature("podgc.c", ConformanceOutcome::Unsupported),
            feature("podgc.d", ConformanceOutcome::Pass),
            FixtureResult { virtual_time: true, ..feature("podgc.d", ConformanceOutcome::Skip) },
            FixtureResult { virtual_time: true, ..feature("podgc.e", ConformanceOutcome::Skip) },
            feature("podgc.f", ConformanceOutcome::Skip),
        ];
        let summary = &report("podgc", list).profiles[0];
        assert_eq!(summary.supported_features, ["podgc.a", "podgc.d"]);
        assert_eq!(summary.failed_features, ["podgc.b", "podgc.f"]);
        assert_eq!(summary.unsupported_features, ["podgc.c"]);
    }

    #[rstest]
    #[case::only_that(&[("core", ConformanceOutcome::Inconclusive)], true)]
    #[case::beyond_the_core(&[("hardened", ConformanceOutcome::Inconclusive)], true)]
    #[case::and_a_failure(&[("core", ConformanceOutcome::Inconclusive), ("hardened", ConformanceOutcome::Fail)], false)]
    #[case::and_a_skip(&[("core", ConformanceOutcome::Inconclusive), ("core", ConformanceOutcome::Skip)], false)]
    #[case::none(&[], false)]
    fn a_busy_machine_is_no_failure(#[case] more: &[(&str, ConformanceOutcome)], #[case] expected: bool) {
        let more = more.iter().enumerate();
        let more = more.map(|(index, (level, outcome))| result(&format!("podgc/b{index}"), level, *outcome));
        let list = [result("podgc/a", "core", ConformanceOutcome::Pass)].into_iter().chain(more).collect();
        assert_eq!(report("podgc", list).is_inconclusive(), expected);
    }

    #[test]
    fn reports_without_load_can_be_read() {
        let with = report("podgc", vec![result("podgc/a", "core", ConformanceOutcome::Pass)]);
        let mut without = ConformanceReport { load: None, ..with };
        without.seal();
        let text = without.to_yaml().expect("YAML");
        assert!(!text.contains("load:") && !text.contains("inconclusive"), "as earlier versions wrote it: {text}");
        assert_eq!(ConformanceReport::read(&text), Ok(without));
    }

    #[rstest]
    #[case::unknown("profile: podgc", "profile: podgc\nverdict: fine", "verdict")]
    #[case::missing("mode: wall\n", "", "mode")]
    #[case::word("mode: wall", "mode: dream", "dream")]
    #[case::outcome("outcome: pass", "outcome: passed", "passed")]
    #[case::twice("mode: wall", "mode: wall\nmode: wall", "mode")]
    #[case::broken("mode: wall", "mode: [", "line")]
    fn reading_is_strict(#[case] from: &str, #[case] to: &str, #[case] message: &str) {
        let yaml = report("podgc", vec![result("podgc/a", "core", ConformanceOutcome::Pass)]).to_yaml().expect("YAML");
        assert!(yaml.contains(from), "{yaml}");
        let error = ConformanceReport::read(&yaml.replacen(from, to, 1)).expect_err("not a report").to_string();
        assert!(error.contains(message), "{error}");
    }
}
