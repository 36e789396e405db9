//! Renders a review: text for a terminal, Markdown for the summary of a CI job, HTML. PURE.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::{ChangeGroup, ChangeKind, DiffLine, SnapshotChange};
use crate::html::{TranscriptChange, changes_page};

/// Number of names that are listed for a group.
const NAMES: usize = 40;
/// Size limit of a Markdown summary in bytes: GitHub drops one of more than 1 MiB.
const SUMMARY: usize = 900_000;
/// Number of lines that a difference shows.
const LINES: usize = 400;

/// Number of characters of a line that are shown.
const COLUMNS: usize = 1000;

/// A part of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewSection {
    /// The heading.
    pub title: &'static str,
    /// The result in a sentence.
    pub summary: String,
    /// The changes.
    pub groups: Vec<ChangeGroup>,
    /// Fixtures that fail their expectations, a line for each.
    pub failures: Vec<String>,
    /// True if a run saw them, false if they are between commits.
    pub is_run: bool,
}

impl ReviewSection {
    /// Creates the section about two commits.
    #[must_use]
    pub fn of_commits(groups: Vec<ChangeGroup>) -> Self {
        let count: usize = groups.iter().map(|group| group.changes.len()).sum();
        let summary = match (count, groups.len()) {
            (0, _) => "No snapshot changed.".to_owned(),
            (1, _) => "1 snapshot changed.".to_owned(),
            (count, 1) => format!("{count} snapshots changed, all alike."),
            (count, groups) => format!("{count} snapshots changed, in {groups} groups."),
        };
        Self { title: "Snapshots", summary, groups, failures: Vec::new(), is_run: false }
    }

    /// Creates the section about the files that an earlier run left. `outcome` is how the comparison with the snapshots
    /// ended; that nothing is new is good only if it is `success`, and says nothing if it is `unknown`.
    #[must_use]
    pub fn of_pending(groups: Vec<ChangeGroup>, outcome: &str) -> Self {
        let count: usize = groups.iter().map(|group| group.changes.len()).sum();
        let summary = match (count, outcome) {
            (0, "success") => "The run saw what the snapshots say.".to_owned(),
            (0, "failure") => "The comparison failed without a new snapshot: see its log.".to_owned(),
            (0, "unknown") => {
                "No file *.snap.new is there. Nothing was run now, so this does not say that the snapshots \
                               are right: `plumbline review --run` runs all fixtures."
                    .to_owned()
            }
            (0, other) => format!("Nothing was compared: the comparison did not run ({other})."),
            (count, "unknown") => format!("An earlier run saw something else in {count} of them."),
            (count, _) => format!("The run saw something else in {count} of them."),
        };
        Self { title: "Snapshots of the run", summary, groups, failures: Vec::new(), is_run: true }
    }

    /// Creates the section about a run of all fixtures that was made now.
    #[must_use]
    pub fn of_run(groups: Vec<ChangeGroup>, failures: Vec<String>) -> Self {
        let count: usize = groups.iter().map(|group| group.changes.len()).sum();
        let summary = match (count, failures.len()) {
            (0, 0) => "All fixtures were run and saw what the snapshots say.".to_owned(),
            (count, 0) => format!("All fixtures were run: {count} saw something else than their snapshots."),
            (0, failed) => format!("All fixtures were run: {failed} fail their expectations."),
            (count, failed) => format!(
                "All fixtures were run: {failed} fail their expectations, {count} saw something else than their snapshots."
            ),
        };
        Self { title: "Snapshots of the run", summary, groups, failures, is_run: true }
    }
}

/// Returns the promise, rules and changed fixtures of a group, one per line.
fn facts(group: &ChangeGroup) -> Vec<String> {
    let first = group.first();
    let mut facts = Vec::new();
    if !first.promise.is_empty() {
        facts.push(format!("promise: {}", first.promise));
    }
    let rules = group.rules();
    if !rules.is_empty() {
        facts.push(format!("rules: {}", rules.join(" ")));
    }
    match (group.changed_fixtures(), group.changes.len()) {
        (0, _) => facts.push("the expectations did not change".to_owned()),
        (1, 1) => facts.push("the fixture changed as well".to_owned()),
        (changed, all) => facts.push(format!("the fixture changed as well in {changed} of {all}")),
    }
    facts
}

/// Returns the lines to show, and the number of those that are left out.
fn shown(group: &ChangeGroup) -> (Vec<DiffLine>, usize) {
    let mut lines = group.first().lines();
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    for line in &mut lines {
        if let Some((end, _)) = line.text.char_indices().nth(COLUMNS) {
            line.text.truncate(end);
            line.text.push_str(" … (cut off)");
        }
    }
    (lines, more)
}

/// Returns the names of the other members, and the number of those that are left out.
fn others(group: &ChangeGroup) -> (Vec<&str>, usize) {
    let names: Vec<&str> = group.changes.iter().map(|change| change.id.as_str()).collect();
    let more = names.len().saturating_sub(NAMES);
    (names.into_iter().take(NAMES).collect(), more)
}

/// Returns the text for a terminal.
#[must_use]
pub fn text(sections: &[ReviewSection], colour: bool) -> String {
    let paint = |code: &str, text: &str| if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    let part = |section: &ReviewSection| {
        let groups: String = section.groups.iter().map(|group| text_group(group, &paint)).collect();
        let failures: Vec<String> = section.failures.iter().map(|line| format!("  fails: {line}\n")).collect();
        let failures = failures.concat();
        format!("{}\n{failures}{groups}", section.summary)
    };
    sections.iter().map(part).collect::<Vec<_>>().join("\n")
}

fn text_group(group: &ChangeGroup, paint: &impl Fn(&str, &str) -> String) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "\n{}", paint("1", &group.title()));
    for fact in facts(group) {
        let _ = writeln!(out, "  {fact}");
    }
    if group.changes.len() > 1 {
        let (names, more) = others(group);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(out, "  in: {}{more}", names.join(", "));
    }
    let (lines, more) = shown(group);
    for line in lines {
        let code = if line.sign == '-' { "31" } else { "32" };
        let full = format!("    {}{}", line.sign, line.text);
        let _ = writeln!(out, "{}", if line.sign == ' ' { full } else { paint(code, &full) });
    }
    if more > 0 {
        let _ = writeln!(out, "    … {more} more lines");
    }
    out
}

/// Returns Markdown of at most [`SUMMARY`] bytes, and says how many groups it leaves out.
#[must_use]
pub fn markdown(sections: &[ReviewSection]) -> String {
    let mut out = String::new();
    for section in sections {
        let _ = write!(out, "### {}\n\n{}\n\n", section.title, section.summary);
        for line in &section.failures {
            let _ = writeln!(out, "- fails: {}", plain(line));
        }
        if !section.failures.is_empty() {
            out.push('\n');
        }
        for (index, group) in section.groups.iter().enumerate() {
            let part = markdown_group(group);
            if out.len() + part.len() > SUMMARY {
                let all = section.groups.len();
                let _ = writeln!(out, "**{} of {all} groups are left out.**\n", all - index);
                break;
            }
            out.push_str(&part);
        }
    }
    out
}

/// Returns a text in which nothing is a tag.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn markdown_group(group: &ChangeGroup) -> String {
    let mut out = format!("<details><summary>{}</summary>\n\n", plain(&group.title()));
    for fact in facts(group) {
        let _ = writeln!(out, "- {}", plain(&fact));
    }
    if group.changes.len() > 1 {
        let (names, more) = others(group);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(out, "- in: `{}`{more}", names.join("`, `"));
    }
    let (lines, more) = shown(group);
    if !lines.is_empty() {
        // The fence is longer than any in the transcript.
        out.push_str("\n``````diff\n");
        for line in lines {
            let _ = writeln!(out, "{}{}", line.sign, line.text);
        }
        if more > 0 {
            let _ = writeln!(out, "  … {more} more lines");
        }
        out.push_str("``````\n");
    }
    out.push_str("\n</details>\n\n");
    out
}

/// Returns the HTML page: the groups, and both timelines of each change.
#[must_use]
pub fn page(sections: &[ReviewSection]) -> String {
    let content = html! {
        @for section in sections {
            h2 { (section.title) }
            p { (section.summary) }
            @if !section.failures.is_empty() { ul { @for line in &section.failures { li { "fails: " (line) } } } }
            @for (index, group) in section.groups.iter().enumerate() { (page_group(group, section, index < 5)) }
        }
    };
    let changes = |section| section_changes(section).map(move |change| (anchor(section, change), change));
    let all: Vec<(String, &SnapshotChange)> = sections.iter().flat_map(changes).collect();
    let pairs: Vec<TranscriptChange<'_>> = all
        .iter()
        .map(|(id, change)| TranscriptChange {
            id,
            promise: &change.promise,
            rules: &change.rules,
            texts: [&change.before, &change.after],
        })
        .collect();
    changes_page("plumbline: changed snapshots", content, ["before", "after"], &pairs)
}

/// Returns the changes of a section that have a transcript.
fn section_changes(section: &ReviewSection) -> impl Iterator<Item = &SnapshotChange> {
    let changes = section.groups.iter().flat_map(|group| &group.changes);
    changes.filter(|change| change.kind != ChangeKind::Unreadable)
}

/// Returns the anchor of a change: its id, or one that differs from those of the commits.
fn anchor(section: &ReviewSection, change: &SnapshotChange) -> String {
    if section.is_run { format!("run:{}", change.id) } else { change.id.clone() }
}

fn page_group(group: &ChangeGroup, section: &ReviewSection, is_open: bool) -> Markup {
    let (lines, more) = shown(group);
    html! {
        details.cause open[is_open] {
            summary { (group.title()) }
            ul {
                @for fact in facts(group) { li { (fact) } }
                @if group.changes.len() == 1 && group.first().kind != ChangeKind::Unreadable {
                    li { a href=(format!("#{}", anchor(section, group.first()))) { "timelines before and after" } }
                }
            }
            @if group.changes.len() > 1 {
                details {
                    summary { "timelines of " (group.changes.len()) " fixtures" }
                    ul.ids {
                        @for change in &group.changes {
                            li { a href=(format!("#{}", anchor(section, change))) { (change.id) } }
                        }
                    }
                }
            }
            @if !lines.is_empty() {
                pre.diff tabindex="0" {
                    @for line in &lines { span class=(class(line)) { (line.sign) (line.text) "\n" } }
                    @if more > 0 { "… " (more) " more lines" }
                }
            }
        }
    }
}

const fn class(line: &DiffLine) -> &'static str {
    match line.sign {
        '-' => "removed",
        '+' => "added",
        _ => "same",
    }
}
