//! The program `e2e.test`: its specs, and runs of single specs with a time limit.
//!
//! Its reports are those of Ginkgo, see `github.com/onsi/ginkgo/v2/types`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbline::time::{Clock, Stopwatch};
use plumbline_suite::process::{GuardedProcess, ProcessSpec};
use serde::{Deserialize, Serialize};

use super::error::UpstreamError;
use super::options::RunOptions;
use super::selection::SelectedSpec;
use super::spec::Spec;

/// Time limit for listing the specs.
const LIST_LIMIT: Duration = Duration::from_mins(5);
/// Time that Ginkgo gives a spec to clean up after its limit.
const GRACE: Duration = Duration::from_secs(20);
/// Further time until a process that does not end is killed.
const HANG_LIMIT: Duration = Duration::from_secs(40);
/// Pause between two checks for the end of a process.
const POLL: Duration = Duration::from_millis(20);

/// The outcome of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SpecOutcome {
    /// It passed.
    Passed,
    /// It found that it does not apply to this cluster.
    Skipped,
    /// It failed.
    Failed,
    /// It was not done within its limit.
    TimedOut,
    /// Its process ended without a report.
    Crashed,
}

impl SpecOutcome {
    /// Returns true for specs that passed or skipped themselves.
    #[must_use]
    pub(crate) const fn is_good(self) -> bool {
        matches!(self, Self::Passed | Self::Skipped)
    }
}

/// The result of a spec.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpecResult {
    /// The outcome.
    pub(crate) outcome: SpecOutcome,
    /// The failure, or the reason for skipping; empty if it passed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// File and line of the failure; empty if it passed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) place: String,
    /// Its duration, in seconds.
    pub(crate) seconds: f64,
}

impl fmt::Display for SpecResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            SpecOutcome::Passed => "passed",
            SpecOutcome::Skipped => "skipped",
            SpecOutcome::Failed => "FAILED",
            SpecOutcome::TimedOut => "TIMED OUT",
            SpecOutcome::Crashed => "CRASHED",
        };
        write!(f, "{outcome} ({:.1} s)", self.seconds)
    }
}

/// A suite in a report of Ginkgo.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GinkgoSuite {
    suite_description: String,
    spec_reports: Option<Vec<GinkgoReport>>,
}

/// The report of one node.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GinkgoReport {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    #[serde(default)]
    leaf_node_labels: Option<Vec<String>>,
    #[serde(default)]
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    is_serial: bool,
    /// Nanoseconds.
    #[serde(default)]
    run_time: u64,
    #[serde(default)]
    failure: Option<GinkgoFailure>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct GinkgoFailure {
    #[serde(default)]
    message: String,
    #[serde(default)]
    location: GinkgoLocation,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct GinkgoLocation {
    file_name: String,
    line_number: u64,
}

impl GinkgoReport {
    fn text(&self) -> String {
        let containers = self.container_hierarchy_texts.iter().flatten().map(String::as_str);
        containers.chain([self.leaf_node_text.as_str()]).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn spec(&self) -> Spec {
        let text = self.text();
        let sig = text.strip_prefix("[sig-").and_then(|rest| rest.split_once(']')).map(|(sig, _)| sig.to_owned());
        let labels = self.leaf_node_labels.as_deref().unwrap_or_default();
        Spec {
            suite: sig.unwrap_or_else(|| "other".to_owned()),
            conformance: labels.iter().any(|label| label == "Conformance") || text.contains("[Conformance]"),
            serial: self.is_serial || text.contains("[Serial]"),
            text,
        }
    }

    fn result(&self) -> SpecResult {
        let outcome = match self.state.as_str() {
            "passed" => SpecOutcome::Passed,
            "skipped" | "pending" => SpecOutcome::Skipped,
            "timedout" | "interrupted" => SpecOutcome::TimedOut,
            _ => SpecOutcome::Failed,
        };
        let failure = self.failure.as_ref();
        let place = failure.map(|failure| &failure.location).filter(|location| !location.file_name.is_empty());
        SpecResult {
            outcome,
            message: failure.map(|failure| failure.message.clone()).unwrap_or_default(),
            place: place.map(|at| format!("{}:{}", at.file_name, at.line_number)).unwrap_or_default(),
            seconds: Duration::from_nanos(self.run_time).as_secs_f64(),
        }
    }
}

/// Returns the result of a spec from the report of a run of it alone. A failure of the suite's own preparation fails
/// the spec.
fn result_of(suites: &[GinkgoSuite], text: &str) -> Option<SpecResult> {
    let reports = || suites.iter().filter_map(|suite| suite.spec_reports.as_ref()).flatten();
    let broken = |report: &&GinkgoReport| {
        report.leaf_node_type != "It" && !matches!(report.state.as_str(), "passed" | "skipped" | "")
    };
    let spec =
        reports().find(|report| report.leaf_node_type == "It" && report.text() == text).map(GinkgoReport::result);
    match reports().find(broken) {
        Some(node) if spec.as_ref().is_none_or(|spec| spec.outcome.is_good()) => {
            let mut result = node.result();
            result.message = format!("{}: {}", node.leaf_node_type, result.message);
            Some(result)
        }
        _ => spec,
    }
}

/// The test program.
pub(super) struct E2eProgram<'a> {
    options: &'a RunOptions,
    logs: PathBuf,
}

impl<'a> E2eProgram<'a> {
    /// The program of these options; it logs into this folder.
    pub(super) fn new(options: &'a RunOptions, logs: PathBuf) -> Self {
        Self { options, logs }
    }

    /// Returns the release that the program was built from.
    pub(super) async fn version(&self) -> Result<String, UpstreamError> {
        let mut process = self.start("version", vec!["--version".into()])?;
        self.wait(&mut process, LIST_LIMIT).await?;
        let said = process.log_tail(1).pop().unwrap_or_default();
        if said.starts_with('v') { Ok(said) } else { Err(self.unusable(&process, "--version does not say a version")) }
    }

    /// Returns all specs.
    pub(super) async fn specs(&self) -> Result<Vec<Spec>, UpstreamError> {
        let file = self.logs.join("specs.json");
        let flags = vec!["--ginkgo.dry-run".into(), flag("--ginkgo.json-report", &file)];
        let mut process = self.start("specs", flags)?;
        self.wait(&mut process, LIST_LIMIT).await?;
        let suites = self.read(&file).map_err(|error| match error {
            UpstreamError::File { .. } => self.unusable(&process, "--ginkgo.dry-run writes no report"),
            other => other,
        })?;
        let reports = suites.iter().filter_map(|suite| suite.spec_reports.as_ref()).flatten();
        let mut specs: Vec<Spec> =
            reports.filter(|report| report.leaf_node_type == "It").map(GinkgoReport::spec).collect();
        specs.sort_by(|left, right| left.text.cmp(&right.text));
        specs.dedup();
        tracing::debug!(suite = suites.first().map(|suite| suite.suite_description.as_str()), specs = specs.len());
        Ok(specs)
    }

    /// Runs one spec. `number` names its log.
    pub(super) async fn run(
        &self,
        target: &str,
        kubeconfig: &Path,
        selected: &SelectedSpec,
        number: usize,
    ) -> Result<SpecResult, UpstreamError> {
        let SelectedSpec { spec, limit } = selected;
        let name = format!("{target}-{number:04}");
        let file = self.logs.join(format!("{name}.json"));
        let mut flags = vec![
            flag("--kubeconfig", kubeconfig),
            format!("--ginkgo.focus={}$", regex::escape(&spec.text)).into(),
            format!("--ginkgo.timeout={}s", limit.as_secs()).into(),
            format!("--ginkgo.grace-period={}s", GRACE.as_secs()).into(),
            flag("--ginkgo.json-report", &file),
            "--disable-log-dump".into(),
            "--dump-logs-on-failure=false".into(),
        ];
        if let Some(kubectl) = &self.options.kubectl {
            flags.push(flag("--kubectl-path", kubectl));
        }
        flags.extend(self.options.flags.iter().map(OsString::from));
        let watch = Stopwatch::start();
        let mut process = self.start(&name, flags)?;
        let ended = Clock::wall().timeout(*limit + GRACE + HANG_LIMIT, end_of(&mut process)).await;
        let seconds = watch.elapsed().as_secs_f64();
        drop(process);
        let report = self.read(&file).ok().and_then(|suites| result_of(&suites, &spec.text));
        // The report has all specs of the program and is of no use to people; the log has the story of this one.
        let _ = std::fs::remove_file(&file);
        let lost = |outcome, message: String| SpecResult { outcome, message, place: String::new(), seconds };
        Ok(match (report, ended) {
            (Some(result), _) => result,
            (None, None) => lost(SpecOutcome::TimedOut, format!("killed after {seconds:.0} s")),
            (None, Some(why)) => lost(SpecOutcome::Crashed, why),
        })
    }

    fn start(&self, name: &str, flags: Vec<OsString>) -> Result<GuardedProcess, UpstreamError> {
        let mut argv = vec![self.options.e2e_test.clone().into_os_string(), "--ginkgo.no-color".into()];
        argv.extend(flags);
        let log = self.logs.join(format!("{name}.log"));
        ProcessSpec { argv, log, ..ProcessSpec::default() }
            .spawn()
            .map_err(|error| UpstreamError::Process(error.to_string()))
    }

    async fn wait(&self, process: &mut GuardedProcess, limit: Duration) -> Result<(), UpstreamError> {
        match Clock::wall().timeout(limit, end_of(process)).await {
            None => Err(self.unusable(process, &format!("it did not end within {} s", limit.as_secs()))),
            Some(why) if why.ends_with("exited with code 0") => Ok(()),
            Some(why) => Err(self.unusable(process, &why)),
        }
    }

    fn unusable(&self, process: &GuardedProcess, why: &str) -> UpstreamError {
        let program = self.options.e2e_test.display();
        let said = process.log_tail(5).join("\n  ");
        UpstreamError::Process(format!("{program} is no e2e.test of Kubernetes: {why}\n  {said}"))
    }

    fn read(&self, file: &Path) -> Result<Vec<GinkgoSuite>, UpstreamError> {
        let bytes = std::fs::read(file).map_err(UpstreamError::file(file))?;
        let program = self.options.e2e_test.display().to_string();
        serde_json::from_slice(&bytes).map_err(|error| UpstreamError::Report { program, why: error.to_string() })
    }
}

fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push("=");
    flag.push(path);
    flag
}

/// Waits for the end of a process and returns the reason.
async fn end_of(process: &mut GuardedProcess) -> String {
    loop {
        if let Some(why) = process.ended() {
            return why;
        }
        Clock::wall().sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn node(kind: &str, text: &str, state: &str) -> Value {
        json!({"ContainerHierarchyTexts": ["[sig-apps] Deployment"], "LeafNodeType": kind, "LeafNodeText": text,
            "LeafNodeLabels": ["Conformance"], "State": state, "RunTime": 1_500_000_000, "IsSerial": false,
            "Failure": {"Message": "no", "Location": {"FileName": "x.go", "LineNumber": 7}}})
    }

    fn suites(nodes: &[Value]) -> Vec<GinkgoSuite> {
        serde_json::from_value(json!([{"SuiteDescription": "s", "SpecReports": nodes}])).expect("a report")
    }

    #[test]
    fn a_spec_has_its_group_and_labels() {
        let suites = suites(&[node("It", "should work [Serial]", "passed")]);
        let spec = suites[0].spec_reports.as_ref().expect("specs")[0].spec();
        let text = "[sig-apps] Deployment should work [Serial]".to_owned();
        assert_eq!(spec, Spec { text, suite: "apps".to_owned(), conformance: true, serial: true });
    }

    #[rstest]
    #[case("passed", SpecOutcome::Passed)]
    #[case("skipped", SpecOutcome::Skipped)]
    #[case("timedout", SpecOutcome::TimedOut)]
    #[case("interrupted", SpecOutcome::TimedOut)]
    #[case("failed", SpecOutcome::Failed)]
    #[case("panicked", SpecOutcome::Failed)]
    fn states_are_outcomes(#[case] state: &str, #[case] expected: SpecOutcome) {
        let suites = suites(&[node("It", "other", "failed"), node("It", "a", state)]);
        let result = result_of(&suites, "[sig-apps] Deployment a").expect("a result");
        assert_eq!((result.outcome, result.place.as_str(), result.seconds), (expected, "x.go:7", 1.5));
    }

    #[test]
    fn a_failed_preparation_fails_the_spec() {
        let suites = suites(&[node("SynchronizedBeforeSuite", "", "failed"), node("It", "a", "skipped")]);
        let result = result_of(&suites, "[sig-apps] Deployment a").expect("a result");
        assert_eq!((result.outcome, result.message.as_str()), (SpecOutcome::Failed, "SynchronizedBeforeSuite: no"));
        assert!(result_of(&[], "a").is_none());
    }
}
