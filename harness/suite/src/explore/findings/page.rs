//! The result of an exploration as one HTML page that loads nothing.

use maud::{Markup, html};
use plumbline::explore::findings::Finding;

use super::report::{ExploreReport, Marks};
use crate::html::plain_page;
use crate::plural::counted;
use crate::subject::in_process;

/// Returns the page of `report`.
#[must_use]
pub fn page(report: &ExploreReport) -> String {
    plain_page(&title(subject(report), report.findings.len()), content(report))
}

/// Returns the title of a page about a program with so many findings.
pub(crate) fn title(program: &str, findings: usize) -> String {
    match findings {
        0 => format!("Exploration of {program} without findings"),
        count => format!("Exploration of {program} with {}", counted(count as u64, "finding")),
    }
}

/// Returns the name of the subject for people.
fn subject(report: &ExploreReport) -> &str {
    if report.subject == in_process::KIND { "Plumbline's controllers" } else { &report.subject }
}

fn content(report: &ExploreReport) -> Markup {
    let left = report.planned.saturating_sub(report.tried);
    html! {
        p {
            (counted(report.runs, "run")) " of " (report.histories()) ", "
            (report.runs_per_hour) " an hour; subject " code { (report.subject) } ", strategy "
            code { (report.strategy) } ", seed " (report.seed) ", part " (report.shard.0) " of " (report.shard.1) "."
        }
        @if !report.canary {
            p.note { "The planted bug was not found, so the absence of findings means nothing." }
        }
        @if left > 0 {
            p.note {
                (left) " of " (report.planned) " plans were not tried: raise --budget, or split the work with --shard."
            }
        }
        @for finding in &report.findings {
            (section(finding))
        }
        (divergent(report))
        h2 { "Marks" }
        p {
            (report.marks.rules) " rules of the catalogue and " (report.marks.reached.len())
            " situations and invariants were reached."
        }
        (by_strategy(&report.marks))
        (list("Situations and invariants that no run reached", report.marks.unreached.iter()))
        (list("Rules whose fixtures were not explored", report.marks.missed.iter()))
        (list("Fixtures that were not explored", report.left_out.keys()))
    }
}

fn section(finding: &Finding) -> Markup {
    html! {
        h2 { (finding.fingerprint) }
        p { (finding.breach) }
        p { (finding.runs) " runs of " (finding.fixtures) " fixtures. Repeat it:" }
        pre { "plumbline explore --replay '" (finding.plan) "'" }
        @if let Some(text) = &finding.fixture {
            p { "The history, shrunk:" }
            pre { (text) }
        }
        (list("Other plans that lead to it", finding.also.iter()))
    }
}

fn divergent(report: &ExploreReport) -> Markup {
    html! {
        @for (fixture, divergence) in &report.divergent {
            h2 { "The subject is not deterministic on " (fixture) }
            pre { (divergence) }
        }
    }
}

/// Returns a table of the situations and invariants: which of them the runs of each strategy reached.
fn by_strategy(marks: &Marks) -> Markup {
    let strategies = &marks.strategies.0;
    html! {
        table {
            thead {
                tr { th { "Strategy" } th { "Runs" } th { "Rules" } th { "Situations and invariants" } }
            }
            tbody {
                @for (strategy, covered) in strategies {
                    tr {
                        td { (strategy.name()) } td { (covered.runs) } td { (covered.rules.len()) }
                        td { (covered.marks.len()) " of " (marks.reached.len() + marks.unreached.len()) }
                    }
                }
            }
        }
        details {
            summary { "Situations and invariants by strategy" }
            table {
                thead { tr { th { "Mark" } @for strategy in strategies.keys() { th { (strategy.name()) } } } }
                tbody {
                    @for mark in marks.reached.union(&marks.unreached) {
                        tr {
                            td { code { (mark) } }
                            @for covered in strategies.values() {
                                @if covered.marks.contains(mark) { td { "reached" } } @else { td { "–" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn list<'a>(title: &str, items: impl Iterator<Item = &'a String>) -> Markup {
    let items: Vec<&String> = items.collect();
    html! {
        @if !items.is_empty() {
            details {
                summary { (title) ": " (items.len()) }
                ul { @for item in items { li { code { (item) } } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plumbline::explore::faults::plan::FaultPlan;

    use super::*;
    use crate::explore::search::{Exploration, ExploreOptions};

    #[test]
    fn the_page_names_findings_and_gaps_and_escapes_texts() {
        let mut exploration = Exploration { planned: 9, done: 7, ..Exploration::default() };
        exploration.coverage.add(&FaultPlan::calm("podgc/a"), ["event <Seen>".to_owned()]);
        let mut report = ExploreReport::new("x", &ExploreOptions::default(), &exploration, true, &[]);
        report.findings = vec![Finding {
            fingerprint: "end state · pods".to_owned(),
            breach: "<b> is left".to_owned(),
            plan: "podgc/a:500@GET:nodes/n1#1".to_owned(),
            ..Finding::default()
        }];
        let page = page(&report);
        for part in [
            "Exploration of x with 1 finding<",
            "&lt;b&gt; is left",
            "--replay 'podgc/a:500@",
            "2 of 9 plans",
            "event &lt;Seen&gt;",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
}
