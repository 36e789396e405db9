//! Measurements as an HTML page with curves: time, CPU time, memory and calls of each scenario over the size. PURE.

use maud::{Markup, html};
use plumbline_suite::html::chart::{Chart, Series, charts, distinct, legend};
use plumbline_suite::html::plain_page;

use super::report::{CurvePoint, MeasureComparison, ScaleReport, Scenario, ScenarioResult, SubjectReport};
use crate::bench::report::{Unit, tell};

/// A measure of a scenario: heading, format, value.
type ScenarioMeasure = (&'static str, fn(f64) -> String, fn(&ScenarioResult) -> Option<f64>);

const MEASURES: [ScenarioMeasure; 4] = [
    ("time", seconds, |measured| measured.left.is_none().then_some(measured.seconds)),
    ("CPU time", seconds, |measured| measured.cpu_seconds),
    ("peak memory", bytes, |measured| measured.peak_bytes.map(|bytes| bytes as f64)),
    ("calls", calls, |measured| {
        let count: u64 = measured.calls.iter().map(|calls| calls.count).sum();
        (measured.calls_unknown.is_none()).then_some(count as f64)
    }),
];

const SCENARIOS: [Scenario; 5] =
    [Scenario::Start, Scenario::RollingRestart, Scenario::Drain, Scenario::TaintStorm, Scenario::NodeLoss];

fn seconds(value: f64) -> String {
    tell(value, Unit::Seconds)
}

fn bytes(value: f64) -> String {
    tell(value, Unit::Bytes)
}

fn calls(value: f64) -> String {
    tell(value, Unit::Count)
}

/// Returns the page of a report, with the other sizes that it has and with reports `beside` it.
#[must_use]
pub fn page(report: &ScaleReport, beside: &[ScaleReport]) -> String {
    let all: Vec<&ScaleReport> =
        [report].into_iter().chain(beside).flat_map(|one| [one].into_iter().chain(&one.sizes)).collect();
    let names = distinct(all.iter().flat_map(|report| &report.subjects).map(|subject| &subject.name));
    let title = format!("plumbline: {}", names.join(" and "));
    plain_page(&title, content(report, &all, &names))
}

fn content(report: &ScaleReport, all: &[&ScaleReport], names: &[String]) -> Markup {
    let unfinished: Vec<_> = all.iter().flat_map(|report| report.unfinished()).collect();
    html! {
        p.soft {
            (report.cluster) " " (report.kubernetes_version) " · " (report.processors)
            " processors, shared by subject, server and load"
        }
        (legend(names))
        @if !unfinished.is_empty() {
            ul.note {
                @for (subject, measured) in &unfinished {
                    li {
                        (subject.name) ", " (measured.scenario.as_str()) ": did not finish: "
                        (measured.left.as_deref().unwrap_or_default())
                    }
                }
            }
        }
        @for scenario in SCENARIOS {
            @let of_scenario = scenario_charts(all, names, scenario);
            @if of_scenario.iter().any(|chart| chart.series.iter().any(|series| !series.points.is_empty())) {
                section { h2 { (scenario.as_str()) } (charts(&of_scenario)) }
            }
        }
        @if all.iter().flat_map(|report| &report.subjects).any(|subject| !subject.curve.is_empty()) {
            section { h2 { "A budget's sync in one namespace" } (charts(&curves(all, names))) }
        }
        @if !report.comparisons.is_empty() { (comparisons(&report.comparisons)) }
    }
}

fn scenario_charts(all: &[&ScaleReport], names: &[String], scenario: Scenario) -> Vec<Chart> {
    let chart = |(title, tell, value): &ScenarioMeasure| Chart {
        title: format!("{}: {title}", scenario.as_str()),
        size: "pods",
        series: series(all, names, |report, subject| {
            let measured = subject.scenarios.iter().filter(|measured| measured.scenario == scenario);
            measured.filter_map(|measured| Some((report.shape.pods as f64, value(measured)?))).collect()
        }),
        limit: None,
        tell: *tell,
    };
    MEASURES.iter().map(chart).collect()
}

fn curves(all: &[&ScaleReport], names: &[String]) -> Vec<Chart> {
    let chart = |title: &str, value: fn(&CurvePoint) -> f64| Chart {
        title: title.to_owned(),
        size: "pods of the namespace",
        series: series(all, names, |_, subject| {
            subject.curve.iter().map(|point| (point.pods as f64, value(point))).collect()
        }),
        limit: None,
        tell: seconds,
    };
    vec![
        chart("CPU time of a sync", |point| point.cpu_seconds),
        chart("from a change to the status (median)", |point| point.seconds),
    ]
}

/// Returns a series for each name, ordered by size.
fn series(
    all: &[&ScaleReport],
    names: &[String],
    points: impl Fn(&ScaleReport, &SubjectReport) -> Vec<(f64, f64)>,
) -> Vec<Series> {
    let of = |name: &String| {
        let subjects = all.iter().flat_map(|report| report.subjects.iter().map(move |subject| (*report, subject)));
        let named = subjects.filter(|(_, subject)| subject.name == *name);
        Series::new(name, named.flat_map(|(report, subject)| points(report, subject)).collect())
    };
    names.iter().map(of).collect()
}

fn comparisons(comparisons: &[MeasureComparison]) -> Markup {
    let beside = comparisons.first().map(|first| first.beside.as_str()).unwrap_or_default();
    html! {
        section {
            h2 { "Compared with " (beside) }
            div.scroll tabindex="0" role="region" aria-label="Comparison" {
                table {
                    thead {
                        tr {
                            @for name in ["Scenario", "Measure"] { th scope="col" { (name) } }
                            @for name in ["Measured", "Other", "Ratio", "Target"] { th.number scope="col" { (name) } }
                            th scope="col" { "Verdict" }
                        }
                    }
                    tbody { @for one in comparisons { (comparison(one)) } }
                }
            }
        }
    }
}

fn comparison(one: &MeasureComparison) -> Markup {
    use super::report::Measure;
    let (name, tell): (&str, fn(f64) -> String) = match one.measure {
        Measure::Time => ("time", seconds),
        Measure::Cpu => ("CPU time", seconds),
        Measure::Memory => ("peak memory", bytes),
    };
    html! {
        tr.failed[one.is_missed()] {
            td { (one.scenario.as_str()) }
            td { (name) }
            td.number { (tell(one.measured)) }
            td.number { (tell(one.other)) }
            td.number { (format!("{:.3}", one.ratio)) }
            td.number { (one.target.map_or_else(|| "–".to_owned(), |target| format!("{target:.2}"))) }
            td { @if one.is_missed() { "✗ missed" } @else if one.target.is_some() { "✓ reached" } @else { "–" } }
        }
    }
}
