//! The frame of all pages, and parts that several pages share.

use maud::{DOCTYPE, Markup, html};

use crate::html::head;

use super::standing::{BoardRow, FeatureCounts, Verdict};

/// The style of all pages: one column, wide tables scroll, colours for light and dark.
const STYLE: &str = include_str!("style.css");

/// The guide for implementers.
pub(super) const GUIDE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/harness/CONFORMANCE.md");

/// Returns a page. The policy forbids scripts and everything from elsewhere, in any content.
pub(super) fn page(title: &str, content: &Markup) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(policy, title, STYLE, None))
            body {
                main { (content) }
                footer {
                    "Made by " code { "plumbline site" } " from the reports alone. "
                    a href=(GUIDE) { "Prove your implementation" } " · "
                    a href=(env!("CARGO_PKG_REPOSITORY")) { "plumbline" }
                }
            }
        }
    }
    .into_string()
}

/// The sign of a verdict, for those who do not see its colour.
pub(super) const fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Conformant => "✓",
        Verdict::NotConformant => "✗",
        Verdict::Inconclusive => "?",
        Verdict::Incomplete => "…",
        Verdict::NotImplemented | Verdict::NotTested => "–",
    }
}

/// The style class of a verdict.
pub(super) const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Conformant => "yes",
        Verdict::NotConformant => "no",
        Verdict::Inconclusive | Verdict::Incomplete => "part",
        Verdict::NotImplemented | Verdict::NotTested => "none",
    }
}

/// A table cell with the numbers of a feature: `✓ 12` or `✗ 10 of 12`. Known deviations alone make no `✗`, and
/// inconclusive fixtures have a number of their own.
pub(super) fn feature_cell(counts: Option<FeatureCounts>) -> Markup {
    let Some(counts) = counts else { return html! { td.none { "–" } } };
    let FeatureCounts { passed, deviations, inconclusive, ran, expected } = counts;
    let known = html! {
        @if deviations > 0 { small { (deviations) " known to deviate" } }
        @if inconclusive > 0 { small { (inconclusive) " inconclusive" } }
    };
    html! {
        @if ran == 0 {
            td.none { "– " small { "no result of " (expected) } (known) }
        } @else if passed == expected {
            td.yes { "✓ " (passed) }
        } @else if passed + deviations == ran {
            td.part { "… " (passed) " of " (expected) (known) }
        } @else {
            td.no { "✗ " (passed) " of " (expected) (known) }
        }
    }
}

/// Text by strangers: its direction does not leak into the text around it.
pub(super) fn foreign(text: &str) -> Markup {
    html! { bdi { (text) } }
}

/// The first characters of a digest or a commit; the title has all of them.
pub(super) fn short_hash(hash: &str) -> Markup {
    let digits = hash.trim_start_matches("sha256:");
    html! { code title=(hash) { (digits.chars().take(12).collect::<String>()) } }
}

/// Returns the file name of the page about a row.
pub(super) fn page_name(row: &BoardRow<'_>) -> String {
    format!("{}-{}.html", row.project, row.minor)
}
