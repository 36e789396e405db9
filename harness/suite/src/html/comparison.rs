//! The page of a comparison: the differences of two subjects, with both timelines of each. PURE.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Serialize;
use serde_json::json;

use super::blocks::{self, TimelineText};
use super::model::AlignedLines;
use super::page::{PageParts, page};
use crate::conformance::compare::{Comparison, Difference, SubjectResult};

/// The timelines of a subject as JSON, by the fixture's id.
pub type TimelineTexts = BTreeMap<String, String>;

/// Returns the page. `source` returns the text of a fixture's file.
#[must_use]
pub fn comparison_page(comparison: &Comparison, runs: [&TimelineTexts; 2], source: impl Fn(&str) -> String) -> String {
    let texts: Vec<TimelineText> =
        comparison.differences.iter().map(|difference| pair(comparison, difference, runs)).collect();
    let ran = texts.len();
    let packed = blocks::pack(texts, blocks::ALL_BLOCKS, source);
    let title = format!("plumbline: {} and {}", comparison.a, comparison.b);
    page(&PageParts { title: &title, overview: overview(comparison), packed: &packed, ran })
}

/// A fixture's two timelines.
fn pair(comparison: &Comparison, difference: &Difference, runs: [&TimelineTexts; 2]) -> TimelineText {
    let id = &difference.id;
    let pair = TranscriptPair {
        id,
        file: &difference.file,
        promise: &difference.promise,
        names: [&comparison.a, &comparison.b],
        absent: "did not run it",
        lines: AlignedLines::around_first_difference(&difference.rows),
    };
    pair.text(runs.map(|timelines| timelines.get(id).map_or("null", String::as_str)))
}

/// Two transcripts side by side, with their timelines.
#[derive(Serialize)]
pub(super) struct TranscriptPair<'a> {
    /// The fixture's id.
    pub(super) id: &'a str,
    /// The fixture's file.
    pub(super) file: &'a str,
    /// The promise, in a sentence.
    pub(super) promise: &'a str,
    /// The names of both sides.
    pub(super) names: [&'a str; 2],
    /// The text in place of a timeline that is not there.
    pub(super) absent: &'a str,
    /// The transcripts.
    pub(super) lines: AlignedLines,
}

impl TranscriptPair<'_> {
    /// Adds the timelines, which are JSON, or `null`.
    pub(super) fn text(&self, runs: [&str; 2]) -> TimelineText {
        let head = json!(self).to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        let json = format!("{head},\"runs\":[{},{}]}}", runs[0], runs[1]);
        TimelineText { id: self.id.to_owned(), file: self.file.to_owned(), is_important: true, json }
    }
}

fn overview(comparison: &Comparison) -> Markup {
    let different = comparison.differences.len();
    let equal = comparison.fixtures - different - comparison.not_comparable.len();
    html! {
        ul.tally aria-label="Result" {
            li.fail[different > 0] { strong { (different) } " different" }
            li.pass[different == 0] { strong { (equal) } " equal" }
            @if !comparison.not_comparable.is_empty() {
                li.none { strong { (comparison.not_comparable.len()) } " not comparable" }
            }
        }
        dl.facts { dt { "A" } dd { code { (comparison.a) } } dt { "B" } dd { code { (comparison.b) } } }
        @if different > 0 {
            section {
                h2 { "Differences" }
                div.scroll {
                    table {
                        thead { tr { th scope="col" { "Fixture" } th scope="col" { "A" } th scope="col" { "B" } } }
                        tbody { @for one in &comparison.differences { (row(one)) } }
                    }
                }
            }
        }
        @if !comparison.not_comparable.is_empty() {
            section {
                h2 { "Not comparable" }
                ul { @for one in &comparison.not_comparable { li { code { (one.id) } ": " (one.reason) } } }
            }
        }
    }
}

fn row(difference: &Difference) -> Markup {
    html! {
        tr {
            td { a href=(format!("#{}", difference.id)) { (difference.id) } small { (difference.promise) } }
            (result(&difference.a))
            (result(&difference.b))
        }
    }
}

fn result(result: &SubjectResult) -> Markup {
    html! {
        td {
            (result.outcome.map_or("not run", crate::report::Outcome::participle))
            @if !result.reason.is_empty() { small { (result.reason) } }
            @for failure in result.failures.iter().take(3) { small { (failure) } }
            @if result.failures.len() > 3 { small { "showing 3 of " (result.failures.len()) " failures" } }
        }
    }
}
