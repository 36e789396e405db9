//! The page of an implementation on a Kubernetes version: its reports, from the verdicts to the transcripts.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::badge;
use super::layout::{self, class, feature_cell, foreign, short_hash, sign};
use super::overview::meaning;
use super::published::PublishedReport;
use super::standing::{Board, BoardCell, BoardRow, Verdict, features};
use crate::conformance::causes::FailureCause;
use crate::conformance::report::{ConformanceOutcome, ConformanceReport, FixtureResult, Mode, OutcomeCounts};

/// Most characters of a transcript on a page. The evidence has all of it.
const TRANSCRIPT_LIMIT: usize = 12_000;
/// Most causes of one outcome with details. The list has all fixtures.
const DETAILS_LIMIT: usize = 100;

/// Returns the page.
pub(super) fn page(row: &BoardRow<'_>, board: &Board<'_>) -> String {
    let title = format!("{} on Kubernetes {}", row.project, row.minor);
    let current = board.window.contains(&row.minor);
    let content = html! {
        p { a href="index.html" { "All implementations" } }
        h1 { (title) }
        @if !current { p.note { "Reports for newer Kubernetes versions exist, so this one counts no longer." } }
        div.scroll { table { tbody { @for cell in &row.cells { (verdict_row(cell)) } } } }
        @for source in row.sources() { (report(source)) }
        @for cell in &row.cells { @if let Some(source) = cell.source { (controller(cell, source)) } }
        (badge_lines(row, board))
    };
    layout::page(&title, &content)
}

fn verdict_row(cell: &BoardCell<'_>) -> Markup {
    let reasons = cell.summary.map(|summary| summary.reasons.join(", ")).unwrap_or_default();
    let is_absent = matches!(cell.verdict, Verdict::NotTested | Verdict::NotImplemented);
    html! {
        tr {
            th scope="row" { @if is_absent { (cell.controller) } @else { a href=(format!("#{}", cell.controller)) { (cell.controller) } } }
            td class=(class(cell.verdict)) {
                (sign(cell.verdict)) " " (cell.verdict.words())
                @if !is_absent && !reasons.is_empty() { small { (reasons) } }
            }
        }
    }
}

/// The origin of a report.
fn report(source: &PublishedReport) -> Markup {
    let report = &source.report;
    let implementation = &report.implementation;
    let subject = &report.subject;
    let suite = &report.suite;
    html! {
        h2 { "Report of " (report.time.get(..10).unwrap_or(&report.time)) }
        dl.facts {
            dt { "Implementation" }
            dd { (foreign(&implementation.organization)) ", " a href=(implementation.url) { (implementation.project) } " " (foreign(&implementation.version)) }
            dt { "Contacts" } dd { @for contact in &implementation.contacts { (foreign(contact)) " " } }
            dt { "Command" } dd { code { (subject.what) } }
            @if let Some(digest) = &subject.digest { dt { "Program" } dd { "SHA-256 " (short_hash(digest)) } }
            @for (name, digest) in &subject.files { dt { "File" } dd { code { (name) } " SHA-256 " (short_hash(digest)) } }
            @if !subject.clients.is_empty() { dt { "Clients" } dd { (foreign(&subject.clients.join(", "))) } }
            @if !subject.environment.is_empty() { dt { "Variables" } dd { (subject.environment.join(", ")) } }
            @if !subject.companions.is_empty() { dt { "Companions" } dd { (subject.companions.join(", ")) } }
            dt { "Cluster" } dd { (report.cluster.name) ", Kubernetes " (report.kubernetes_version) ", " (time_kind(report)) }
            @if let Some(load) = &report.load {
                dt { "Machine" }
                dd {
                    (load.cores) " cores, " (load.jobs) " fixtures in parallel"
                    @if let Some(average) = load.load_average { ", load average up to " (format!("{average:.1}")) }
                    ", timers up to " (load.lateness.max_millis) " ms late (95 %: " (load.lateness.p95_millis) " ms), "
                    (load.repeated) " fixtures repeated alone"
                }
            }
            dt { "Suite" }
            dd {
                (suite.version) ", " (report.fixtures.len()) " fixtures of profile " (report.profile) ", digest " (short_hash(&suite.digest))
                @if let Some(commit) = &suite.commit { ", commit " (short_hash(commit)) @if suite.modified { " with changes" } }
            }
            dt { "Report" }
            dd {
                "digest " (short_hash(&report.digest)) ", started " (report.time)
            }
        }
        @if report.profile != crate::conformance::profile::ALL {
            p.note { "A focused run: only the fixtures of profile " strong { (report.profile) } " were run." }
        }
        (skips(report))
        (bystanders(report))
    }
}

const fn time_kind(report: &ConformanceReport) -> &'static str {
    match report.mode {
        Mode::Virtual => "virtual time",
        Mode::Wall => "real time",
    }
}

/// Fixtures that did not run, by reason.
fn skips(report: &ConformanceReport) -> Markup {
    let mut reasons: BTreeMap<(ConformanceOutcome, &str), Vec<&str>> = BTreeMap::new();
    for fixture in report.fixtures.iter().filter(|fixture| !fixture.outcome.has_run()) {
        reasons.entry((fixture.outcome, &fixture.reason)).or_default().push(&fixture.id);
    }
    html! {
        @if !reasons.is_empty() {
            h3 { "Fixtures that did not run" }
            @for ((outcome, reason), ids) in &reasons {
                details {
                    summary { (ids.len()) " " (outcome.words()) ": " (foreign(reason)) }
                    ul.ids { @for id in ids { li { code { (id) } } } }
                }
            }
        }
    }
}

/// Writes of the program's other controllers, with the number of fixtures in which each was seen.
fn bystanders(report: &ConformanceReport) -> Markup {
    let mut writes: BTreeMap<&str, usize> = BTreeMap::new();
    for write in report.fixtures.iter().flat_map(|fixture| &fixture.bystanders) {
        *writes.entry(write).or_default() += 1;
    }
    html! {
        @if !writes.is_empty() {
            details {
                summary { "Writes by its other clients, which are not judged (" (writes.len()) ")" }
                ul { @for (write, fixtures) in &writes { li { code { (write) } " in " (fixtures) " fixtures" } } }
            }
        }
    }
}

/// The results of a controller.
fn controller(cell: &BoardCell<'_>, source: &PublishedReport) -> Markup {
    let Some(summary) = cell.summary.filter(|_| cell.verdict != Verdict::NotImplemented) else { return html! {} };
    let report = &source.report;
    html! {
        h2 id=(cell.controller) { (cell.controller) ": " (sign(cell.verdict)) " " (cell.verdict.words()) }
        ul { @for (level, counts) in &summary.levels { li { (level) ": " (OutcomeCounts::tally(*counts)) } } }
        div.scroll {
            table {
                thead { tr { th scope="col" { "Feature" } th scope="col" { "Fixtures passed" } } }
                tbody {
                    @for (name, counts) in features(report, cell.controller) {
                        tr { th scope="row" { (name) small { (meaning(name)) } } (feature_cell(Some(counts))) }
                    }
                }
            }
        }
        @for (outcome, title) in [
            (ConformanceOutcome::Fail, "Failures"),
            (ConformanceOutcome::KnownDeviation, "Known deviations"),
            (ConformanceOutcome::Flaky, "Flaky fixtures"),
            (ConformanceOutcome::Inconclusive, "Inconclusive fixtures"),
        ] { (failures(source, cell.controller, outcome, title)) }
    }
}

/// The fixtures of one outcome by cause.
fn failures(source: &PublishedReport, profile: &str, outcome: ConformanceOutcome, title: &str) -> Markup {
    let fixtures: BTreeMap<&str, &FixtureResult> = super::standing::in_profile(&source.report, profile)
        .filter(|fixture: &&FixtureResult| fixture.outcome == outcome)
        .map(|fixture| (fixture.id.as_str(), fixture))
        .collect();
    // The fixtures of a cause belong to the same profiles.
    let is_here = |cause: &&FailureCause| cause.fixtures.first().is_some_and(|id| fixtures.contains_key(id.as_str()));
    let causes: Vec<&FailureCause> =
        source.causes.iter().filter(|cause| cause.outcome == outcome).filter(is_here).collect();
    let (shown, rest) = causes.split_at(causes.len().min(DETAILS_LIMIT));
    html! {
        @if !fixtures.is_empty() {
            h3 { (title) " (" (fixtures.len()) ")" }
            @for cause in shown { (group(cause, &fixtures)) }
            @if !rest.is_empty() {
                details {
                    summary { (rest.len()) " more causes without details here; the evidence has them" }
                    @for cause in rest { (ids(&cause.fixtures, &fixtures)) }
                }
            }
        }
    }
}

/// Fixtures that share a cause: the first in detail, the others by name.
fn group(cause: &FailureCause, fixtures: &BTreeMap<&str, &FixtureResult>) -> Markup {
    let Some((first, others)) = cause.fixtures.split_first() else { return html! {} };
    let Some(fixture) = fixtures.get(first.as_str()) else { return html! {} };
    if others.is_empty() {
        return failure(fixture, cause);
    }
    let share = cause.fixtures.len();
    let all = fixtures.len();
    html! {
        details.failure {
            summary { (share) " of " (all) " share: " (foreign(if cause.cause.is_empty() { "no evidence" } else { &cause.cause })) }
            (failure(fixture, cause))
            (ids(others, fixtures))
        }
    }
}

/// A list of fixtures.
fn ids(ids: &[String], fixtures: &BTreeMap<&str, &FixtureResult>) -> Markup {
    let level = |id: &str| fixtures.get(id).map_or("", |fixture| fixture.level.as_str());
    html! { ul.ids { @for id in ids { li { code { (id) } " " small { (level(id)) } } } } }
}

/// The first fixture of a cause, with its failed checks and its transcript.
fn failure(fixture: &FixtureResult, cause: &FailureCause) -> Markup {
    html! {
        details.failure {
            summary { code { (fixture.id) } " " small { (fixture.level) } }
            @if !cause.promise.is_empty() { p { strong { "Promise: " } (foreign(&cause.promise)) } }
            @if !fixture.reason.is_empty() { p { strong { "Reason: " } (foreign(&fixture.reason)) } }
            @if cause.cause.is_empty() && cause.failures.is_empty() {
                p { "The evidence is not published." }
            } @else {
                pre.checks { (cause.failures.trim()) }
                @match cause.transcript.as_deref().map(str::trim) {
                    None => p { small { "The evidence has its transcript." } },
                    Some("") => p { "The transcript is empty." },
                    Some(text) => { h4 { "Transcript" } (transcript(text)) }
                }
            }
        }
    }
}

/// A transcript up to the limit, ending at a line.
fn transcript(text: &str) -> Markup {
    let limit = text.char_indices().nth(TRANSCRIPT_LIMIT).map(|(at, _)| at);
    let shown = limit.map_or(text, |at| &text[..text[..at].rfind('\n').unwrap_or(at)]);
    html! {
        pre { (shown.trim_end()) }
        @if limit.is_some() { p { small { "The first " (shown.lines().count()) " of " (text.lines().count()) " lines." } } }
    }
}

/// The badges of the implementation, as Markdown to copy.
fn badge_lines(row: &BoardRow<'_>, board: &Board<'_>) -> Markup {
    let badges: Vec<_> = badge::badges(board).into_iter().filter(|badge| badge.project == row.project).collect();
    html! {
        @if !badges.is_empty() {
            h2 { "Badges" }
            p { "Replace SITE by the address of this site, percent-encoded:" }
            pre {
                @for badge in &badges {
                    "![" (badge.controller) "](https://img.shields.io/endpoint?url=SITE%2F" (badge.path().replace('/', "%2F")) ")\n"
                }
            }
        }
    }
}
