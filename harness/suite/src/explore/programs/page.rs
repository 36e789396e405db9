//! The result of an exploration of a program as one HTML page: each finding with the timelines of its run and of the
//! run without the fault.

use maud::{Markup, html};

use super::report::{ProgramFinding, ProgramReport, ScenarioReport};
use crate::explore::findings::page::title;
use crate::html::{TranscriptChange, changes_page};

/// Returns the page of `report`.
#[must_use]
pub fn page(report: &ProgramReport) -> String {
    let all =
        || report.scenarios.iter().flat_map(|scenario| scenario.findings.iter().map(move |found| (scenario, found)));
    let ids: Vec<String> = all().map(|(scenario, found)| id(scenario, found)).collect();
    let changes: Vec<TranscriptChange<'_>> = all()
        .zip(&ids)
        .map(|((scenario, found), id)| TranscriptChange {
            id,
            promise: &found.finding.breach,
            rules: &[],
            texts: [&scenario.transcript, &found.transcript],
        })
        .collect();
    changes_page(
        &title(&report.program, changes.len()),
        content(report),
        ["without the fault", "with the fault"],
        &changes,
    )
}

fn id(scenario: &ScenarioReport, found: &ProgramFinding) -> String {
    format!("{}/{}", scenario.scenario, found.finding.file_name())
}

fn content(report: &ProgramReport) -> Markup {
    html! {
        p { "Program: " code { (report.command) } }
        @for scenario in &report.scenarios {
            h2 { (scenario.scenario) }
            @if let Some(why) = scenario.refused.as_ref().or(scenario.left_out.as_ref()) {
                p.note { "It was not explored: " (why) }
            } @else {
                p {
                    (scenario.tried) " of " (scenario.planned) " plans at " (scenario.points) " points, "
                    (scenario.plans_per_hour) " an hour."
                }
            }
            @for found in &scenario.findings {
                h3 { a href={ "#" (id(scenario, found)) } { (found.finding.fingerprint) } }
                p { (found.finding.breach) }
                pre { (report.replay(scenario, &found.finding)) }
                @if let Some(text) = &found.finding.fixture {
                    p { "The history, shrunk:" }
                    pre { (text) }
                }
            }
            @if let Some(faults) = &scenario.faults {
                @let (kinds, met) = faults.kinds();
                p { (met) " of " (kinds) " kinds of fault were met." }
                @for (why, kinds) in faults.unmet() {
                    details {
                        summary { "Kinds of fault that no run met, " (why) ": " (kinds.len()) }
                        ul { @for kind in kinds { li { code { (kind) } } } }
                    }
                }
            }
            @if !scenario.rights.is_empty() {
                details {
                    summary { "Rights that the program needed: " (scenario.rights.len()) " resources" }
                    ul { @for right in &scenario.rights { li { code { (right.line()) } } } }
                }
            }
            @if !scenario.volatile.is_empty() {
                details {
                    summary { "Fields that differ between runs without faults: " (scenario.volatile.len()) }
                    ul { @for field in &scenario.volatile { li { code { (field) } } } }
                }
            }
        }
    }
}
