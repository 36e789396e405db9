//! The first page: the table of implementations, and their features side by side.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use plumbline::fixture::Controller;
use plumbline::fixture::vocabulary::FEATURES;

use super::layout::page_name;
use super::layout::{self, class, feature_cell, foreign, sign};
use super::standing::{Board, BoardCell, BoardRow, CoreCounts, FeatureCounts, Verdict, core, features};

/// Returns the page.
pub(super) fn page(board: &Board<'_>) -> String {
    let versions: Vec<String> = board.window.iter().map(ToString::to_string).collect();
    let content = html! {
        h1 { "Conformance of disruption-class controllers" }
        p {
            "Four controllers of kube-controller-manager decide which pods may be disrupted and which are deleted. Each \
             implementation below ran the fixtures of "
            a href=(env!("CARGO_PKG_REPOSITORY")) { "plumbline" }
            "; each cell comes from a report with its evidence."
        }
        @if board.current.is_empty() {
            p { "There is no report yet." }
        } @else {
            p { "Current Kubernetes versions, as the reports have them: " strong { (versions.join(", ")) } "." }
            (table(&board.current))
        }
        (legend())
        @if !board.former.is_empty() {
            h2 { "Older Kubernetes versions" }
            p { "These reports count no longer, because newer versions have reports." }
            (table(&board.former))
        }
        @if !board.current.is_empty() {
            h2 id="features" { "Features" }
            p { "Fixtures passed, of those that the subject could have run." }
            @for controller in Controller::ALL { (feature_table(board, controller.as_str())) }
        }
        h2 { "Add yours" }
        p {
            "Any program in any language can be tested, in about ten minutes: "
            a href=(layout::GUIDE) { "prove your implementation" } "."
        }
    };
    layout::page("Conformance of disruption-class controllers", &content)
}

fn table(rows: &[BoardRow<'_>]) -> Markup {
    html! {
        div.scroll {
            table.board {
                thead {
                    tr {
                        th scope="col" { "Implementation" }
                        th scope="col" { "Kubernetes" }
                        @for controller in Controller::ALL { th scope="col" { (controller) } }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { a href=(page_name(row)) { (row.project) } (versions(row)) }
                            td data-label="Kubernetes" { (row.minor) }
                            @for cell in &row.cells { (board_cell(row, cell)) }
                        }
                    }
                }
            }
        }
    }
}

/// The tested versions of an implementation.
fn versions(row: &BoardRow<'_>) -> Markup {
    let versions: BTreeSet<&str> =
        row.sources().iter().map(|source| source.report.implementation.version.as_str()).collect();
    html! { @for version in versions { small { (foreign(version)) } } }
}

fn board_cell(row: &BoardRow<'_>, cell: &BoardCell<'_>) -> Markup {
    let CoreCounts { passed, inconclusive, required } =
        cell.source.map(|source| core(&source.report, cell.controller)).unwrap_or_default();
    html! {
        td class=(class(cell.verdict)) data-label=(cell.controller) {
            @if matches!(cell.verdict, Verdict::NotTested | Verdict::NotImplemented) {
                (sign(cell.verdict)) " " small { (cell.verdict.words()) }
            } @else {
                a href=(format!("{}#{}", page_name(row), cell.controller)) { (sign(cell.verdict)) " " (cell.verdict.words()) }
                small { (passed) " of " (required) " core fixtures passed" }
                @if inconclusive > 0 { small { (inconclusive) " inconclusive" } }
            }
        }
    }
}

fn legend() -> Markup {
    html! {
        details {
            summary { "Meaning of the words" }
            dl {
                dt { "conformant" }
                dd {
                    "Every core fixture of the controller passed. Skipped and flaky ones do not count as passed, except \
                     that fixtures for virtual time are not asked of programs that run in real time."
                }
                dt { "not conformant" } dd { "At least one core fixture did not pass. The report shows which, and why." }
                dt { "inconclusive" }
                dd {
                    "No core fixture failed, but the machine was too busy for some, also when they were repeated alone. \
                     They are not counted as passed."
                }
                dt { "incomplete run" } dd { "The run ended before all fixtures had run." }
                dt { "not implemented" } dd { "The implementation does not have this controller." }
                dt { "not tested" } dd { "The report covers other controllers only." }
            }
            p {
                "A report of all controllers counts before one of a single controller, and a finished run before one \
                 that was interrupted. The two newest Kubernetes versions that have a report are current."
            }
        }
    }
}

/// The features of a controller as rows, implementations as columns.
fn feature_table(board: &Board<'_>, controller: &str) -> Markup {
    let tested = |row: &&BoardRow<'_>| row.cells.iter().any(|cell| cell.controller == controller && is_shown(cell));
    let rows: Vec<&BoardRow<'_>> = board.current.iter().filter(tested).collect();
    let counts: Vec<BTreeMap<&str, FeatureCounts>> = rows
        .iter()
        .map(|row| {
            let source = row.cells.iter().find(|cell| cell.controller == controller).and_then(|cell| cell.source);
            source.map(|source| features(&source.report, controller)).unwrap_or_default()
        })
        .collect();
    let names: BTreeSet<&str> = counts.iter().flat_map(BTreeMap::keys).copied().collect();
    html! {
        @if !rows.is_empty() {
            h3 { (controller) }
            div.scroll {
                table {
                    thead {
                        tr {
                            th scope="col" { "Feature" }
                            @for row in &rows { th scope="col" { (row.project) small { "Kubernetes " (row.minor) } } }
                        }
                    }
                    tbody {
                        @for name in names {
                            tr {
                                th scope="row" { (name) small { (meaning(name)) } }
                                @for counts in &counts { (feature_cell(counts.get(name).copied())) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns true if a cell has outcomes to show.
fn is_shown(cell: &BoardCell<'_>) -> bool {
    !matches!(cell.verdict, Verdict::NotTested | Verdict::NotImplemented)
}

/// The description of a feature.
pub(super) fn meaning(feature: &str) -> &'static str {
    FEATURES.iter().find(|(name, _)| *name == feature).map_or("", |(_, meaning)| meaning)
}
