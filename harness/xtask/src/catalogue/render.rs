//! Renders the map as a table for terminals, as Markdown, HTML and JSON. Pure.

use std::fmt::Write as _;

use plumbline_suite::catalogue::{CatalogueEntry, CoverageMap, CoverageRow};
use serde_json::{Value, json};

/// Renders a table for terminals: one line per id.
#[must_use]
pub(crate) fn table(map: &CoverageMap<'_>) -> String {
    let mut text = String::new();
    let width = map.rows().map(|row| row.entry.id.chars().count()).max().unwrap_or_default();
    for (title, rows) in &map.sections {
        let _ = writeln!(text, "{title}");
        for row in rows {
            let _ = writeln!(text, "  {:<width$}  {:<40}  {}", row.entry.id, what(row), shown(row).join(", "));
        }
    }
    let _ = writeln!(text, "\n{}", summary(map));
    text
}

/// Renders Markdown, with links relative to the root of the repository.
#[must_use]
pub(crate) fn markdown(map: &CoverageMap<'_>) -> String {
    let mut text = format!("# Catalogue\n\n{}\n", summary(map));
    for (title, rows) in &map.sections {
        let source = rows.first().map_or("", |row| row.source);
        let _ = write!(text, "\n## {title}\n\nUpstream: {}\n\n", escape_bar(source));
        text.push_str("| id | what | fixtures | snapshots |\n| --- | --- | --- | --- |\n");
        for row in rows {
            let fixtures =
                row.fixtures.iter().map(|(stem, cases)| format!("[{stem}](fixtures/{stem}.yaml){}", times(*cases)));
            let checks = row.invariants.iter().map(|name| format!("invariant `{name}`"));
            let bounds = bounds(row).into_iter().map(|(where_, cases)| format!("{where_}: {}", escape_bar(&cases)));
            let shown = fixtures.chain(checks).chain(bounds).collect::<Vec<_>>().join("<br>");
            let shown = row.exclusion.map_or(shown, |exclusion| format!("not covered: {}", escape_bar(exclusion)));
            let snapshots = row.snapshots();
            let snapshots = snapshots.iter().map(|file| format!("[snap]({})", file.display())).collect::<Vec<_>>();
            let _ =
                writeln!(text, "| {} | {} | {shown} | {} |", name(row), escape_bar(&what(row)), snapshots.join("<br>"));
        }
    }
    text
}

/// Renders a single HTML page without scripts.
#[must_use]
pub(crate) fn html(map: &CoverageMap<'_>) -> String {
    let mut text = String::from(HEAD);
    let _ = writeln!(text, "<h1>Catalogue</h1>\n<p>{}</p>", escape(&summary(map)));
    for (title, rows) in &map.sections {
        let source = rows.first().map_or("", |row| row.source);
        let _ = writeln!(text, "<h2>{}</h2>\n<p>Upstream: <code>{}</code></p>", escape(title), escape(source));
        text.push_str("<table>\n<tr><th>id</th><th>what</th><th>fixtures</th><th>snapshots</th></tr>\n");
        for row in rows {
            text.push_str(&html_row(row));
        }
        text.push_str("</table>\n");
    }
    text.push_str("</body>\n</html>\n");
    text
}

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<title>Plumbline: catalogue</title>
<style>
body { font: 15px/1.4 sans-serif; margin: 2em; }
table { border-collapse: collapse; }
th, td { border: 1px solid #ccc; padding: .2em .6em; text-align: left; vertical-align: top; }
td:first-child { white-space: nowrap; }
.not { color: #777; }
</style>
</head>
<body>
";

fn html_row(row: &CoverageRow<'_>) -> String {
    let fixtures = row
        .fixtures
        .iter()
        .map(|(stem, cases)| format!("<a href=\"fixtures/{0}.yaml\">{0}</a>{1}", escape(stem), escape(&times(*cases))));
    let checks = row.invariants.iter().map(|name| format!("invariant <code>{}</code>", escape(name)));
    let bounds = bounds(row).into_iter().map(|(where_, cases)| format!("{where_}: {}", escape(&cases)));
    let shown = fixtures.chain(checks).chain(bounds).collect::<Vec<_>>().join("<br>");
    let exclusion =
        row.exclusion.map(|exclusion| format!("<span class=\"not\">not covered: {}</span>", escape(exclusion)));
    let snapshots = row.snapshots();
    let snapshots =
        snapshots.iter().map(|file| format!("<a href=\"{}\">snap</a>", escape(&file.display().to_string())));
    format!(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escape(&name(row)),
        escape(&what(row)),
        exclusion.unwrap_or(shown),
        snapshots.collect::<Vec<_>>().join("<br>")
    )
}

/// Renders JSON.
#[must_use]
pub(crate) fn json(map: &CoverageMap<'_>) -> String {
    let row = |title: &str, row: &CoverageRow<'_>| {
        json!({
            "id": row.entry.id,
            "also": row.entry.also,
            "section": title,
            "what": row.entry.what,
            "since": row.entry.releases.since.map(|release| release.to_string()),
            "until": row.entry.releases.until.map(|release| release.to_string()),
            "source": row.source,
            "fixtures": row.fixtures.iter().map(|(stem, cases)| json!({ "fixture": stem, "cases": cases })).collect::<Vec<_>>(),
            "snapshots": row.snapshots().iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
            "invariants": row.invariants,
            "atTheBoundary": row.entry.at,
            "beyond": row.entry.beyond,
            "notCovered": row.exclusion,
        })
    };
    let rows: Vec<Value> =
        map.sections.iter().flat_map(|(title, rows)| rows.iter().map(|one| row(title, one))).collect();
    let document = json!({ "apiVersion": "plumbline/v1", "kind": "Catalogue", "rows": rows, "gaps": map.gaps });
    format!("{document:#}\n")
}

fn name(row: &CoverageRow<'_>) -> String {
    std::iter::once(&row.entry.id).chain(&row.entry.also).cloned().collect::<Vec<_>>().join(" ")
}

/// Returns the description, and the releases if it does not hold in all of them.
fn what(row: &CoverageRow<'_>) -> String {
    let CatalogueEntry { what, releases, .. } = row.entry;
    if releases.is_unlimited() { what.clone() } else { format!("{what} ({releases})") }
}

fn shown(row: &CoverageRow<'_>) -> Vec<String> {
    let fixtures = row.fixtures.iter().map(|(stem, cases)| format!("{stem}{}", times(*cases)));
    let checks = row.invariants.iter().map(|name| format!("invariant {name}"));
    let bounds = bounds(row).into_iter().map(|(where_, cases)| format!("{where_}: {cases}"));
    let exclusion = row.exclusion.map(|exclusion| format!("not covered: {exclusion}"));
    fixtures.chain(checks).chain(bounds).chain(exclusion).collect()
}

/// Returns the cases at the boundary of a rule and beyond it, if they are listed.
fn bounds(row: &CoverageRow<'_>) -> Vec<(&'static str, String)> {
    let sides = [("at the boundary", &row.entry.at), ("beyond", &row.entry.beyond)];
    sides.into_iter().filter(|(_, cases)| !cases.is_empty()).map(|(where_, cases)| (where_, cases.join(", "))).collect()
}

fn times(cases: usize) -> String {
    if cases == 1 { String::new() } else { format!(" ×{cases}") }
}

fn summary(map: &CoverageMap<'_>) -> String {
    let total = map.rows().count();
    let excluded = map.rows().filter(|row| row.exclusion.is_some()).count();
    let shown = map.rows().filter(|row| !row.fixtures.is_empty()).count();
    let gaps = map.gaps.len();
    format!(
        "{total} ids: {shown} shown by fixtures, {} by invariants alone, {excluded} not covered with a reason, {gaps} gaps.",
        map.rows().filter(|row| row.fixtures.is_empty() && !row.invariants.is_empty()).count()
    )
}

fn escape_bar(text: &str) -> String {
    text.replace('|', "\\|")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
