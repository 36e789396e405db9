//! The frame of the page: policy, style, script, data. PURE.
//!
//! The policy permits the page's own style and script, by their digests, and nothing else: no request leaves the page.
//! Texts reach the page through the template library, which escapes them, or as data, which the script shows as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::blocks::TimelineArchive;
use super::model::FORMAT;

/// The style.
const STYLE: &str = concat!(include_str!("page.css"), include_str!("timeline.css"));

/// The script. The files share one scope; the last one starts the page.
const SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("dom.js"),
    include_str!("data.js"),
    include_str!("scale.js"),
    include_str!("timeline.js"),
    include_str!("diff.js"),
    include_str!("details.js"),
    include_str!("panels.js"),
    include_str!("aligned.js"),
    include_str!("overview.js"),
    include_str!("main.js"),
);

/// The parts of a page.
pub(super) struct PageParts<'a> {
    /// The title.
    pub(super) title: &'a str,
    /// The overview.
    pub(super) overview: Markup,
    /// The timelines.
    pub(super) packed: &'a TimelineArchive,
    /// Number of fixtures that ran.
    pub(super) ran: usize,
}

/// Returns the head of a page with a policy and a style. `schemes` are the colours that its controls have.
pub(crate) fn head(policy: &str, title: &str, style: &str, schemes: Option<&str>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="referrer" content="no-referrer";
            @if let Some(schemes) = schemes {
                meta name="color-scheme" content=(schemes);
            }
            title { (title) }
            style { (PreEscaped(style)) }
        }
    }
}

/// Returns the page.
pub(super) fn page(parts: &PageParts<'_>) -> String {
    let style = source(STYLE);
    let script = source(SCRIPT);
    let policy =
        format!("default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'");
    let shown = parts.packed.index.len();
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&policy, parts.title, STYLE, Some("light dark")))
            body {
                main #overview {
                    h1 { (parts.title) }
                    noscript { p.note { "The filter and the timelines need scripts." } }
                    (parts.overview)
                    @if shown < parts.ran {
                        p.note {
                            "Showing the timelines of " (shown) " of " (parts.ran) " fixtures that ran: the page is full."
                        }
                    }
                }
                main #fixture hidden tabindex="-1" {}
                footer { "Made by plumbline " (env!("CARGO_PKG_VERSION")) ". This page is complete: it loads nothing." }
                script type="application/json" id="index" { (PreEscaped(index(parts.packed))) }
                @for (number, block) in parts.packed.blocks.iter().enumerate() {
                    script type="text/plain" id=(format!("block-{number}")) { (PreEscaped(block)) }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// The block of each fixture, as JSON that cannot end the element it is in.
fn index(packed: &TimelineArchive) -> String {
    json!({ "format": FORMAT, "blocks": packed.index }).to_string().replace('<', "\\u003c")
}

/// The source expression of an inline script or style.
fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_and_style_do_not_end_early() {
        assert!(!SCRIPT.contains("</") && !STYLE.contains("</"));
        assert!(!SCRIPT.contains("innerHTML"), "texts are inserted as text");
        let long = SCRIPT.lines().chain(STYLE.lines()).find(|line| line.chars().count() > 120);
        assert_eq!(long, None, "lines have at most 120 columns");
    }
}
