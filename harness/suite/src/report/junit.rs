//! Reports the run as `JUnit` XML, one suite per folder of fixtures.

use std::io::{self, Write};
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};

use super::{Event, FixtureReport, Outcome, Reporter, RunReport};

/// Writes the document when the run has ended.
#[derive(Debug)]
pub struct Junit<W>(pub W);

impl<W: Write> Reporter for Junit<W> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        let Event::Ended(report) = event else { return Ok(()) };
        document(report).serialize(&mut self.0).map_err(io::Error::other)?;
        self.0.flush()
    }
}

fn document(run: &RunReport) -> Report {
    let mut report = Report::new("plumbline");
    report.set_time(Duration::from_millis(run.wall_millis));
    for (name, fixtures) in run.suites() {
        let mut suite = TestSuite::new(name);
        suite.add_property(("subject", run.subject.as_str()));
        suite.add_property(("cluster", run.cluster.as_str()));
        if let Some(load) = &run.load {
            suite.add_property(("cores", load.cores.to_string().as_str()));
            suite.add_property(("maxLatenessMillis", load.lateness.max_millis.to_string().as_str()));
            suite.add_property(("p95LatenessMillis", load.lateness.p95_millis.to_string().as_str()));
        }
        suite.set_time(Duration::from_micros(fixtures.iter().map(|fixture| fixture.wall_micros).sum()));
        suite.add_test_cases(fixtures.into_iter().map(|fixture| case(fixture, run)));
        report.add_test_suite(suite);
    }
    report
}

fn case(fixture: &FixtureReport, run: &RunReport) -> TestCase {
    let failures = || fixture.failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n");
    let status = match fixture.outcome {
        Outcome::Pass => TestCaseStatus::success(),
        Outcome::Flaky => {
            let mut run = TestRerun::new(NonSuccessKind::Failure);
            run.set_message(fixture.reason.as_str());
            run.set_description(failures());
            let mut status = TestCaseStatus::success();
            status.add_rerun(run);
            status
        }
        Outcome::Fail => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let first = fixture.failures.first().map_or("failed", |failure| failure.message.as_str());
            status.set_message(first);
            status.set_description(failures());
            status
        }
        // The result is unknown, so it must not count as a success.
        Outcome::NotRun | Outcome::Inconclusive => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_message(format!("{}: {}", fixture.outcome.participle(), fixture.reason));
            if !fixture.failures.is_empty() {
                status.set_description(failures());
            }
            status
        }
        Outcome::Skip | Outcome::Unsupported => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(format!("{}: {}", fixture.outcome.participle(), fixture.reason));
            status
        }
    };
    let mut case = TestCase::new(fixture.id.as_str(), status);
    case.set_classname(fixture.suite.as_str());
    case.set_time(Duration::from_micros(fixture.wall_micros));
    case.add_property(("level", fixture.level.as_str()));
    case.add_property(("feature", fixture.feature.as_str()));
    case.add_property(("rules", fixture.rules.join(" ").as_str()));
    case.add_property(("virtualSeconds", (fixture.virtual_millis / 1000).to_string().as_str()));
    if let Some(cause) = run.shared_causes.iter().find(|cause| cause.fixtures.contains(&fixture.id)) {
        case.add_property(("sharedCause", cause.title().as_str()));
    }
    if !fixture.transcript.is_empty() {
        case.set_system_out(fixture.transcript.as_str());
    }
    if !fixture.log.is_empty() {
        case.set_system_err(fixture.log.join("\n"));
    }
    case
}

#[cfg(test)]
mod tests {
    use super::super::tests::canned;
    use super::*;

    #[test]
    fn document_of_a_canned_run() {
        let mut out = Vec::new();
        Junit(&mut out).event(Event::Ended(&canned())).expect("memory can be written");
        let text = String::from_utf8(out).expect("UTF-8");
        let shown: Vec<&str> = text.lines().filter(|line| !line.contains("property name")).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="plumbline" tests="3" skipped="1" failures="1" errors="0" time="1.234">
            <testsuite name="podgc" tests="1" skipped="0" errors="0" failures="1" time="0.002">
                <properties>
                </properties>
                <testcase name="podgc/orphaned" classname="podgc" time="0.002">
                    <properties>
                    </properties>
                    <failure message="pods/a must exist until t=+59s">pods/a must exist until t=+59s
        expected: phase: Running
        ready: true
        observed: phase: Failed
        ready: true</failure>
                    <system-out>t=+40s    podgc          DELETE pods/a 200
        </system-out>
                    <system-err>WARN it was me</system-err>
                </testcase>
            </testsuite>
            <testsuite name="ttl" tests="2" skipped="1" errors="0" failures="0" time="0.003">
                <properties>
                </properties>
                <testcase name="ttl/far" classname="ttl" time="0.002">
                    <properties>
                    </properties>
                    <skipped message="skipped: needs faults"/>
                </testcase>
                <testcase name="ttl/near" classname="ttl" time="0.002">
                    <properties>
                    </properties>
                </testcase>
            </testsuite>
        </testsuites>
        "#);
    }

    #[test]
    fn fixtures_of_one_cause_say_so() {
        let mut fixtures = canned().fixtures;
        fixtures.push(FixtureReport { id: "podgc/same".to_owned(), ..fixtures[0].clone() });
        let mut out = Vec::new();
        Junit(&mut out).event(Event::Ended(&RunReport::new("me", "fake", 1, fixtures))).expect("memory can be written");
        let text = String::from_utf8(out).expect("UTF-8");
        let property =
            r#"<property name="sharedCause" value="2 of 2 failures share: pods/a must exist until t=+59s"/>"#;
        assert_eq!(text.matches(property).count(), 2, "{text}");
    }

    /// Fixtures that did not run or are inconclusive are errors, and flaky ones show their failure.
    #[test]
    fn an_unknown_result_is_an_error_and_flaky_shows_its_failure() {
        let mut run = canned();
        for (fixture, outcome) in run.fixtures.iter_mut().zip([Outcome::Flaky, Outcome::NotRun, Outcome::Inconclusive])
        {
            (fixture.outcome, fixture.reason) = (outcome, "the cluster broke".to_owned());
        }
        let mut out = Vec::new();
        Junit(&mut out).event(Event::Ended(&run)).expect("memory can be written");
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.contains(r#"tests="3" skipped="0" failures="0" errors="2""#), "{text}");
        for word in ["not run", "inconclusive"] {
            assert!(text.contains(&format!(r#"<error message="{word}: the cluster broke"/>"#)), "{text}");
        }
        assert!(text.contains("<flakyFailure") && text.contains("pods/a must exist until t=+59s"), "{text}");
    }
}
