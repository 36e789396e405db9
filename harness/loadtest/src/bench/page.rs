//! Measurements of API servers as an HTML page with a curve for each row. PURE.

use maud::{Markup, html};
use plumbline_suite::html::chart::{Chart, Series, charts, distinct, legend};
use plumbline_suite::html::plain_page;

use super::report::{BenchReport, Measurement, Unit, tell};

/// Returns the page of a report, with the other sizes that it has and with reports `beside` it.
#[must_use]
pub fn page(report: &BenchReport, beside: &[BenchReport]) -> String {
    let all: Vec<&BenchReport> =
        [report].into_iter().chain(beside).flat_map(|one| [one].into_iter().chain(&one.sizes)).collect();
    let names = distinct(all.iter().map(|report| &report.server));
    let title = format!("plumbline: {}", names.join(" and "));
    plain_page(&title, content(report, &all, &names))
}

fn content(report: &BenchReport, all: &[&BenchReport], names: &[String]) -> Markup {
    let shape = report.shape;
    let missed: Vec<&Measurement> = report.missed().collect();
    html! {
        p.soft {
            (shape.nodes) " nodes and " (shape.budgets) " budgets at " (shape.pods) " pods · " (shape.writers())
            " · " (shape.watchers) " watchers at " (shape.rate) " writes/s · " (report.processors)
            " processors, shared with the clients"
        }
        (legend(names))
        @if !missed.is_empty() {
            ul.note { @for row in missed { li { "target missed: " (row.name) } } }
        }
        section { h2 { "Measurements" } (charts(&row_charts(report, all, names))) }
    }
}

/// Returns a chart for each row of `report`.
fn row_charts(report: &BenchReport, all: &[&BenchReport], names: &[String]) -> Vec<Chart> {
    let chart = |row: &Measurement| Chart {
        title: row.name.clone(),
        size: "pods",
        series: names.iter().map(|name| series(all, name, &row.name)).collect(),
        limit: row.target.map(|target| ("target".to_owned(), target)),
        tell: match row.unit {
            Unit::Seconds => |value| tell(value, Unit::Seconds),
            Unit::PerSecond => |value| tell(value, Unit::PerSecond),
            Unit::Bytes => |value| tell(value, Unit::Bytes),
            Unit::Count => |value| tell(value, Unit::Count),
        },
    };
    report.rows.iter().map(chart).collect()
}

fn series(all: &[&BenchReport], server: &str, row: &str) -> Series {
    let of_server = all.iter().filter(|report| report.server == server);
    let value = |report: &&&BenchReport| {
        let found = report.rows.iter().find(|measured| measured.name == row)?;
        Some((report.shape.pods as f64, found.measured))
    };
    Series::new(server, of_server.filter_map(|report| value(&report)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::LoadShape;
    use super::super::report::API_VERSION;
    use super::*;

    fn report(server: &str, percent: usize, rate: f64) -> BenchReport {
        BenchReport {
            api_version: API_VERSION.to_owned(),
            kind: "ServerBenchmark".to_owned(),
            server: server.to_owned(),
            processors: 2,
            shape: LoadShape::default().percent(percent),
            rows: vec![
                Measurement::new("pods", Unit::PerSecond, rate).wanted(8_000.0),
                Measurement::new("memory", Unit::Bytes, rate * 1e5),
            ],
            sizes: Vec::new(),
        }
    }

    #[test]
    fn each_row_has_a_curve_for_each_server() {
        let mut ours = report("plumbline serve", 100, 7_000.0);
        ours.sizes = vec![report("plumbline serve", 10, 9_000.0)];
        let page = page(&ours, &[report("<i>", 100, 850.0)]);
        for part in [
            "<h1>plumbline: plumbline serve and &lt;i&gt;</h1>",
            "pods. plumbline serve: 9000/s at 15,000 pods, 7000/s at 150,000 pods; &lt;i&gt;: 850/s at 150,000 pods",
            "memory. plumbline serve: 900 MB at 15,000 pods, 700 MB",
            "target missed: pods",
            ">target 8000/s</text>",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
    }
}
