//! The overview of a run: failures by cause, differences from a former run, skips, and all fixtures. PURE.

use std::collections::BTreeSet;
use std::time::Duration;

use maud::{Markup, html};
use plumbline::transcript::redact;

use super::history::RunHistory;
use super::timeline::state;
use crate::report::terminal::time_of;
use crate::report::{Failure, FixtureReport, Outcome, RunReport, tally};

/// Number of fixtures of a cause that are listed at once; the others are behind "more".
const LISTED: usize = 8;

/// Number of failures of a fixture that are shown.
const FAILURES: usize = 10;

/// Returns the content of the overview.
pub(super) fn overview(report: &RunReport, history: Option<&RunHistory>) -> Markup {
    html! {
        (summary(report))
        @if let Some(history) = history { (changes(history)) }
        (failures(report))
        (reasons(report))
        (fixtures(report))
    }
}

/// The sign of an outcome, for those who do not see its colour.
const fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "✓",
        Outcome::Fail => "✗",
        Outcome::Flaky => "≈",
        Outcome::Inconclusive => "?",
        Outcome::Skip | Outcome::Unsupported | Outcome::NotRun => "–",
    }
}

/// The style class of an outcome.
const fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "fail",
        Outcome::Flaky | Outcome::Inconclusive => "doubt",
        Outcome::Skip | Outcome::Unsupported | Outcome::NotRun => "none",
    }
}

fn summary(report: &RunReport) -> Markup {
    html! {
        ul.tally aria-label="Outcomes" {
            @for outcome in Outcome::ALL {
                @if report.count(outcome) > 0 {
                    li class=(class(outcome)) {
                        span.sign aria-hidden="true" { (sign(outcome)) } " "
                        strong { (report.count(outcome)) } " " (outcome.participle())
                    }
                }
            }
        }
        p.soft {
            (report.fixtures.len()) " fixtures · " (time_of(&report.fixtures))
            @if let Some(real) = report.real_time() { " in " (real) }
            " · "
            (report.subject) " on " (report.cluster) " · plumbline " (report.plumbline)
        }
    }
}

fn changes(history: &RunHistory) -> Markup {
    let lists = [
        ("New failures", "fail", &history.new),
        ("Fixed", "pass", &history.fixed),
        ("Still failing", "fail", &history.still),
        ("Failed before, no result now", "none", &history.unknown),
    ];
    html! {
        section #since {
            h2 { @if history.runs == 1 { "Since the former run" } @else { "Since the last of " (history.runs) " runs" } }
            @if lists.iter().all(|(.., ids)| ids.is_empty()) && history.flaky.is_empty() {
                p { "Nothing failed, then or now." }
            }
            @for (title, class, ids) in lists {
                @if !ids.is_empty() {
                    details open[ids.len() <= LISTED] {
                        summary { span.badge.(class) { (ids.len()) } " " (title) }
                        ul.ids { @for id in ids { li { a href=(format!("#{id}")) { (id) } } } }
                    }
                }
            }
            @if !history.flaky.is_empty() { (flaky(&history.flaky)) }
        }
    }
}

/// Fixtures whose outcome changes from run to run, with their outcomes.
fn flaky(fixtures: &[(String, Vec<Outcome>)]) -> Markup {
    html! {
        details open[fixtures.len() <= LISTED] {
            summary { span.badge.doubt { (fixtures.len()) } " Flaky" }
            ul.ids {
                @for (id, outcomes) in fixtures {
                    li {
                        a href=(format!("#{id}")) { (id) }
                        small {
                            @for (index, outcome) in outcomes.iter().enumerate() {
                                @if index > 0 { ", " }
                                (outcome.participle())
                            }
                        }
                    }
                }
            }
        }
    }
}

fn failures(report: &RunReport) -> Markup {
    let groups = report.failures_by_cause();
    html! {
        @if !groups.is_empty() {
            section #failures {
                h2 { "Failures by cause" }
                @for (index, group) in groups.iter().enumerate() {
                    details.cause open[index < 3] {
                        summary {
                            @match (group.cause, group.fixtures.first()) {
                                (Some(cause), _) => { (cause.title()) },
                                (None, Some(one)) => {
                                    (one.id) ": " (one.failures.first().map_or("failed", |one| one.message.as_str()))
                                },
                                (None, None) => {},
                            }
                        }
                        @if let Some(first) = group.fixtures.first() { (failed(first)) }
                        @if group.fixtures.len() > 1 { (others(&group.fixtures[1..])) }
                    }
                }
            }
        }
    }
}

fn others(fixtures: &[&FixtureReport]) -> Markup {
    let (listed, more) = fixtures.split_at(fixtures.len().min(LISTED));
    let list = |fixtures: &[&FixtureReport]| {
        html! { ul.ids { @for one in fixtures { li { (link(one)) (provisional(one)) } } } }
    };
    html! {
        p { "The same in:" }
        (list(listed))
        @if !more.is_empty() { details { summary { (more.len()) " more" } (list(more)) } }
    }
}

fn provisional(fixture: &FixtureReport) -> Markup {
    html! { @if fixture.level == "provisional" { " " small { "provisional, does not count" } } }
}

fn link(fixture: &FixtureReport) -> Markup {
    html! { a href=(format!("#{}", fixture.anchor())) { (fixture.id) } }
}

fn failed(fixture: &FixtureReport) -> Markup {
    html! {
        div.failure {
            p { (link(fixture)) (provisional(fixture)) " " small { (fixture.place()) } }
            p { (fixture.promise) }
            @for failure in fixture.failures.iter().take(FAILURES) { (failure_text(failure)) }
            @if fixture.failures.len() > FAILURES {
                p.note { "Showing " (FAILURES) " of " (fixture.failures.len()) " failures." }
            }
        }
    }
}

fn failure_text(failure: &Failure) -> Markup {
    let at = failure.at_millis.map(|millis| redact::at(Duration::from_millis(millis)));
    html! {
        p.broken { span.sign aria-hidden="true" { "✗" } " " (failure.message) @if let Some(at) = at { " at " (at) } }
        @if !failure.expected.is_empty() || !failure.observed.is_empty() {
            dl.gap {
                dt { "expected" } dd { pre { (state(&failure.expected)) } }
                dt { "observed" } dd { pre { (state(&failure.observed)) } }
            }
        }
    }
}

fn reasons(report: &RunReport) -> Markup {
    let reasons = report.reasons();
    html! {
        @if !reasons.is_empty() {
            section #reasons {
                h2 { "Not run, or in doubt" }
                ul { @for reason in reasons { li { (reason) } } }
            }
        }
        @let writes = report.bystander_writes();
        @if !writes.is_empty() {
            section {
                h2 { "Writes of the subject's other clients, not judged" }
                ul { @for write in writes { li { (write) } } }
            }
        }
    }
}

fn fixtures(report: &RunReport) -> Markup {
    html! {
        section #fixtures {
            h2 { "Fixtures" }
            (controls(report))
            @let count = report.fixtures.len();
            p #shown aria-live="polite" { "Showing " (count) " of " (count) " fixtures." }
            div #groups {
                @for (suite, fixtures) in report.suites() { (group(suite, fixtures)) }
            }
        }
    }
}

fn controls(report: &RunReport) -> Markup {
    let levels: BTreeSet<&str> = report.fixtures.iter().map(|fixture| fixture.level.as_str()).collect();
    html! {
        form #controls role="search" {
            label {
                "Filter "
                input #filter type="search" placeholder="words of id, promise, rule, feature" autocomplete="off";
            }
            label {
                "Outcome " select #outcome {
                    option value="" { "all" }
                    @for outcome in Outcome::ALL {
                        @if report.count(outcome) > 0 { option value=(outcome.participle()) { (outcome.participle()) } }
                    }
                }
            }
            label {
                "Level " select #level {
                    option value="" { "all" }
                    @for level in levels { option value=(level) { (level) } }
                }
            }
            label {
                "Group by " select #grouping {
                    @for name in ["suite", "level", "feature", "rule", "outcome"] { option value=(name) { (name) } }
                }
            }
            label {
                "Order " select #order {
                    option value="" { "failed first" }
                    option value="time" { "slowest first" }
                    option value="id" { "id" }
                }
            }
        }
    }
}

/// A group of fixtures, failed ones first. It is open if one has failed.
fn group(name: &str, mut fixtures: Vec<&FixtureReport>) -> Markup {
    let rank = |fixture: &&FixtureReport| match fixture.outcome {
        Outcome::Fail => 0,
        Outcome::Flaky | Outcome::Inconclusive => 1,
        Outcome::Pass => 2,
        Outcome::Skip | Outcome::Unsupported | Outcome::NotRun => 3,
    };
    fixtures.sort_by_key(rank);
    let worst = fixtures.first().map_or(Outcome::NotRun, |fixture| fixture.outcome);
    html! {
        details.group open[worst == Outcome::Fail] {
            summary {
                span.sign.(class(worst)) aria-hidden="true" { (sign(worst)) } " "
                strong { (name) } " " span.count { (tally(fixtures.iter().copied())) }
            }
            div.scroll {
                table {
                    thead {
                        tr {
                            th scope="col" { "Fixture" } th scope="col" { "Level" } th scope="col" { "Feature" }
                            th scope="col" { "Rules" } th.number scope="col" { "Time" }
                        }
                    }
                    tbody { @for fixture in fixtures { (row(fixture)) } }
                }
            }
        }
    }
}

fn row(fixture: &FixtureReport) -> Markup {
    let outcome = fixture.outcome;
    let simulated = Duration::from_millis(fixture.virtual_millis);
    let is_measured = fixture.wall_micros > 0;
    let time = if is_measured { fixture.wall_micros } else { fixture.virtual_millis };
    html! {
        tr data-suite=(fixture.suite) data-level=(fixture.level) data-feature=(fixture.feature)
            data-outcome=(outcome.participle()) data-rule=(fixture.rules.join(" ")) data-time=(time) {
            td {
                span.sign.(class(outcome)) aria-hidden="true" { (sign(outcome)) } " "
                (link(fixture)) span.hidden { " " (outcome.participle()) }
                small { (fixture.promise) }
                @if !fixture.reason.is_empty() { small.reason { (fixture.reason) } }
            }
            td { (fixture.level) }
            td { (fixture.feature) }
            td {
                @for rule in &fixture.rules {
                    span.inline title=[fixture.rule_texts.get(rule)] { (rule) } " "
                }
            }
            td.number {
                @if outcome.has_run() {
                    @if is_measured { (format!("{:.1} ms", fixture.wall_micros as f64 / 1000.0)) }
                    @if !simulated.is_zero() { small { (redact::seconds(simulated)) " virtual" } }
                }
            }
        }
    }
}
