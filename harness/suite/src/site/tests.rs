use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::badge::badges;
use super::standing::{CoreCounts, FeatureCounts, Minor, Verdict, core, features};
use super::*;
use crate::conformance::causes;
use crate::conformance::evidence::FixtureEvidence;
use crate::conformance::profile::ALL;
use crate::conformance::report::ConformanceOutcome;
use crate::conformance::report::tests::{report, result};
use crate::report::Failure;
use ConformanceOutcome::{Fail, Inconclusive, KnownDeviation, NotRun, Pass, Skip};

/// A report of one core fixture each of podgc and ttl, as far as the profile has them.
fn published(project: &str, version: &str, profile: &str, time: &str, outcome: ConformanceOutcome) -> PublishedReport {
    let list = ["podgc", "ttl"].into_iter().filter(|name| [name, ALL].contains(&profile));
    let list = list.map(|name| result(&format!("{name}/a"), "core", outcome)).collect();
    let mut report = report(profile, list);
    project.clone_into(&mut report.implementation.project);
    version.clone_into(&mut report.kubernetes_version);
    report.time = format!("{time}T00:00:00Z");
    report.seal();
    PublishedReport { report, causes: Vec::new() }
}

fn verdict(board: &Board<'_>, project: &str, controller: &str) -> (Verdict, String) {
    let row = board.rows().find(|row| row.project == project).expect("a row");
    let cell = row.cells.iter().find(|cell| cell.controller == controller).expect("a cell");
    (cell.verdict, cell.source.map(|source| source.report.time[..10].to_owned()).unwrap_or_default())
}

#[rstest]
#[case("v1.36.0", Some("1.36"))]
#[case("v1.36.1+k3s1", Some("1.36"))]
#[case("v1.9.11", Some("1.9"))]
#[case("1.36.0", None)]
#[case("v1", None)]
#[case("v1.x.0", None)]
fn minor_versions(#[case] text: &str, #[case] minor: Option<&str>) {
    assert_eq!(Minor::parse(text).map(|minor| minor.to_string()).as_deref(), minor);
}

/// The window comes from finished runs; numbers are compared, not texts.
#[rstest]
#[case::two(&[("v1.36.0", Pass), ("v1.35.2", Pass), ("v1.34.0", Pass)], &["1.36", "1.35"])]
#[case::gap(&[("v1.36.0", Pass), ("v1.31.0", Fail)], &["1.36", "1.31"])]
#[case::numbers(&[("v1.9.0", Pass), ("v1.10.0", Pass), ("v1.11.0", Pass)], &["1.11", "1.10"])]
#[case::patches(&[("v1.36.0", Pass), ("v1.36.4", Pass)], &["1.36"])]
#[case::unfinished(&[("v9.0.0", NotRun), ("v1.36.0", Pass)], &["1.36"])]
#[case::only_unfinished(&[("v1.36.0", NotRun)], &["1.36"])]
#[case::none(&[], &[])]
fn the_window_is_computed(#[case] reports: &[(&str, ConformanceOutcome)], #[case] window: &[&str]) {
    let reports: Vec<_> =
        reports.iter().map(|(version, outcome)| published("a", version, ALL, "2030-01-01", *outcome)).collect();
    let board = Board::new(&reports);
    assert_eq!(board.window.iter().map(ToString::to_string).collect::<Vec<_>>(), window);
    assert!(board.former.iter().all(|row| !board.window.contains(&row.minor)));
}

/// Each report is (profile, day, outcome); the expected source of ttl's cell is the one of this day.
#[rstest]
#[case::newer_full(&[(ALL, "2030-01-01", Fail), (ALL, "2030-01-02", Pass)], "2030-01-02", Verdict::Conformant)]
#[case::newer_and_worse(&[(ALL, "2030-01-01", Pass), (ALL, "2030-01-02", Fail)], "2030-01-02", Verdict::NotConformant)]
#[case::focused(&[(ALL, "2030-01-01", Fail), ("ttl", "2030-01-02", Pass)], "2030-01-01", Verdict::NotConformant)]
#[case::incomplete(&[(ALL, "2030-01-01", Pass), (ALL, "2030-01-02", NotRun)], "2030-01-01", Verdict::Conformant)]
#[case::focused_before_incomplete(&[("ttl", "2030-01-01", Pass), (ALL, "2030-01-02", NotRun)], "2030-01-01", Verdict::Conformant)]
#[case::inconclusive(&[(ALL, "2030-01-01", Pass), (ALL, "2030-01-02", Inconclusive)], "2030-01-01", Verdict::Conformant)]
#[case::inconclusive_before_unfinished(&[(ALL, "2030-01-01", Inconclusive), (ALL, "2030-01-02", NotRun)], "2030-01-01", Verdict::Inconclusive)]
#[case::only_incomplete(&[(ALL, "2030-01-02", NotRun)], "2030-01-02", Verdict::Incomplete)]
#[case::other_focus(&[("podgc", "2030-01-02", Pass)], "", Verdict::NotTested)]
fn a_full_report_counts_before_others(
    #[case] reports: &[(&str, &str, ConformanceOutcome)],
    #[case] day: &str,
    #[case] expected: Verdict,
) {
    let reports: Vec<_> =
        reports.iter().map(|(profile, day, outcome)| published("a", "v1.36.0", profile, day, *outcome)).collect();
    assert_eq!(verdict(&Board::new(&reports), "a", "ttl"), (expected, day.to_owned()));
    let reversed: Vec<_> = reports.into_iter().rev().collect();
    assert_eq!(verdict(&Board::new(&reversed), "a", "ttl"), (expected, day.to_owned()), "in any order");
}

#[test]
fn controllers_that_do_not_exist_are_not_failures() {
    let mut one = published("a", "v1.36.0", ALL, "2030-01-01", Pass);
    one.report.subject.controllers = vec!["podgc".to_owned()];
    let reports = [one];
    let board = Board::new(&reports);
    assert_eq!(verdict(&board, "a", "ttl").0, Verdict::NotImplemented);
    assert_eq!(verdict(&board, "a", "podgc").0, Verdict::Conformant);
    assert_eq!(badges(&board).iter().map(|badge| badge.controller).collect::<Vec<_>>(), ["podgc"]);
}

/// An inconclusive fixture is never a pass, and hides no failure.
#[rstest]
#[case::alone(&[Inconclusive], Verdict::Inconclusive, "lightgrey")]
#[case::beside_passes(&[Pass, Inconclusive], Verdict::Inconclusive, "lightgrey")]
#[case::beside_a_failure(&[Pass, Inconclusive, Fail], Verdict::NotConformant, "red")]
#[case::beside_a_deviation(&[Inconclusive, KnownDeviation], Verdict::NotConformant, "red")]
#[case::beside_a_skip(&[Inconclusive, Skip], Verdict::NotConformant, "red")]
#[case::unfinished(&[Inconclusive, NotRun], Verdict::Incomplete, "lightgrey")]
fn inconclusive_fixtures_have_a_word_of_their_own(
    #[case] outcomes: &[ConformanceOutcome],
    #[case] expected: Verdict,
    #[case] color: &str,
) {
    let mut one = published("a", "v1.36.0", "ttl", "2030-01-01", Pass);
    let fixtures = outcomes.iter().enumerate();
    one.report.fixtures = fixtures.map(|(index, outcome)| result(&format!("ttl/{index}"), "core", *outcome)).collect();
    one.report.seal();
    let reports = [one];
    let board = Board::new(&reports);
    assert_eq!(verdict(&board, "a", "ttl").0, expected);
    assert_eq!(badges(&board)[0].color, color);
    let page = page_of(&reports, "index.html");
    let count = " inconclusive</small>";
    assert!(page.contains(count) && page.contains(expected.words()), "{page}");
}

#[test]
fn a_report_without_fixtures_is_not_conformant() {
    let mut one = published("a", "v1.36.0", "ttl", "2030-01-01", Pass);
    one.report.fixtures.clear();
    one.report.seal();
    let reports = [one];
    assert_eq!(verdict(&Board::new(&reports), "a", "ttl").0, Verdict::NotConformant);
    assert_eq!(badges(&Board::new(&reports))[0].color, "red");
}

#[test]
fn badges_are_endpoints_of_the_newest_version() {
    let reports = [
        published("a", "v1.36.0", ALL, "2030-01-01", Fail),
        published("a", "v1.37.0", "ttl", "2030-01-01", Pass),
        published("b", "v1.36.0", ALL, "2030-01-01", NotRun),
        published("c", "v1.30.0", ALL, "2030-01-01", Pass),
    ];
    let files: BTreeMap<String, String> = files(&reports).into_iter().collect();
    let badge = |path: &str| serde_json::from_str::<Value>(&files[path]).expect("JSON");
    assert_eq!(
        badge("badges/a/ttl.json"),
        json!({ "schemaVersion": 1, "label": "ttl", "message": "conformant, Kubernetes 1.37", "color": "brightgreen", "isError": false })
    );
    assert_eq!(badge("badges/a/podgc.json")["message"], "not conformant, Kubernetes 1.36");
    assert_eq!(badge("badges/a/podgc.json")["isError"], true);
    assert_eq!(badge("badges/b/ttl.json")["color"], "lightgrey");
    assert_eq!(badge("badges/c/ttl.json")["message"], "conformant, Kubernetes 1.30, outdated");
    assert_eq!(badge("badges/c/ttl.json")["color"], "lightgrey", "an old success makes no green badge");
    let table = badge("site.json");
    assert_eq!(table["window"], json!(["1.37", "1.36"]));
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(4));
    assert!(files["index.html"].contains("Older Kubernetes versions"), "{}", files["index.html"]);
}

#[test]
fn features_count_what_could_have_run() {
    let feature = |id: &str, outcome, virtual_time| crate::conformance::report::FixtureResult {
        virtual_time,
        ..result(id, "core", outcome)
    };
    let list = vec![
        feature("podgc/a", Pass, false),
        feature("podgc/b", Fail, false),
        feature("podgc/c", Skip, true),
        feature("podgc/d", Skip, false),
        feature("podgc/e", Inconclusive, false),
        feature("podgc/f", KnownDeviation, false),
    ];
    let one = report("podgc", list);
    assert_eq!(
        features(&one, "podgc")["podgc.orphaned"],
        FeatureCounts { passed: 1, deviations: 1, inconclusive: 1, ran: 3, expected: 5 }
    );
    assert_eq!(core(&one, "podgc"), CoreCounts { passed: 1, inconclusive: 1, required: 5 });
}

const HOSTILE: &str = "</pre></details><script>alert(1)</script><img src=x onerror='a\"b'>\u{202e}&amp;";

/// Returns a report whose texts are `text` wherever a stranger can write.
fn hostile(text: &str) -> PublishedReport {
    let mut one = published("a", "v1.36.0", ALL, "2030-01-01", Fail);
    let report = &mut one.report;
    for field in [
        &mut report.implementation.organization,
        &mut report.implementation.url,
        &mut report.implementation.version,
        &mut report.subject.what,
        &mut report.subject.name,
        &mut report.cluster.name,
        &mut report.suite.version,
    ] {
        text.clone_into(field);
    }
    let [first, second, ..] = report.fixtures.as_mut_slice() else { panic!("two fixtures") };
    for field in [&mut first.id, &mut first.feature, &mut first.level, &mut second.reason] {
        text.clone_into(field);
    }
    second.outcome = Skip;
    first.bystanders = vec![text.to_owned()];
    report.implementation.contacts = vec![text.to_owned()];
    report.subject.environment = vec![text.to_owned()];
    report.subject.files = [(text.to_owned(), text.to_owned())].into();
    report.seal();
    let [fixture, file, fixture_text, promise, outcome, failures, transcript] = [(); 7].map(|()| text.to_owned());
    let checks = vec![failure(text, text)];
    let evidence =
        FixtureEvidence { fixture, file, text: fixture_text, promise, outcome, checks, failures, transcript };
    one.causes = causes::of(&one.report, &[evidence]);
    one
}

fn failure(message: &str, observed: &str) -> Failure {
    Failure { message: message.to_owned(), observed: observed.to_owned(), ..Failure::default() }
}

/// Fixtures of one cause are below one title with one transcript; the causes of other outcomes are counted apart.
#[test]
fn failures_are_grouped_by_cause() {
    let mut one = published("me", "v1.36.0", "ttl", "2030-01-01", Pass);
    let outcomes = [("a", Fail), ("b", Fail), ("c", Fail), ("d", Pass), ("e", KnownDeviation), ("f", Fail)];
    one.report.fixtures =
        outcomes.iter().map(|(name, outcome)| result(&format!("ttl/{name}"), "core", *outcome)).collect();
    one.report.seal();
    let evidence = |name: &str, observed: &str| FixtureEvidence {
        fixture: format!("ttl/{name}"),
        file: format!("fixtures/ttl/{name}.yaml"),
        text: String::new(),
        promise: "A promise.".to_owned(),
        outcome: "fail".to_owned(),
        checks: vec![failure("nothing else was written", observed)],
        failures: format!("nothing else was written\nobserved: {observed}"),
        transcript: format!("the transcript of {name}\n"),
    };
    let all = [
        evidence("a", "t=+1s ttl PATCH nodes/n1 200"),
        evidence("b", "t=+1s ttl PUT nodes/n1 200"),
        evidence("c", "t=+9s ttl PATCH nodes/n2 200"),
        evidence("e", "t=+1s ttl PATCH nodes/n1 200"),
    ];
    one.causes = causes::of(&one.report, &all);
    let page = page_of(&[one], "me-1.36.html");
    let title = "2 of 4 share: <bdi>nothing else was written: ttl PATCH nodes/… 200";
    assert_eq!(page.matches(title).count(), 1, "{page}");
    let order = [title, "ttl/a<", "the transcript of a", "ttl/c<", "ttl/b<", "the transcript of b", "ttl/f<"];
    assert!(page.contains("The evidence is not published."), "{page}");
    let mut rest = page.as_str();
    for part in order {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is missing or too early in:\n{page}")).1;
    }
    assert!(!page.contains("the transcript of c"), "{page}");
    assert!(page.contains("Known deviations (1)") && page.contains("the transcript of e"), "{page}");
}

fn page_of(reports: &[PublishedReport], name: &str) -> String {
    files(reports).into_iter().find(|(path, _)| path == name).expect("a page").1
}

proptest! {
    #[test]
    fn no_text_becomes_markup(noise in "[<>&'\"/a-z =]{0,40}") {
        let text = format!("{HOSTILE}{noise}");
        let reports = [hostile(&text)];
        for (path, page) in files(&reports).iter().filter(|(path, _)| path.rsplit_once('.').is_some_and(|(_, end)| end == "html")) {
            let tags: Vec<&str> = page.match_indices('<').map(|(at, _)| &page[at..page.len().min(at + 8)]).collect();
            prop_assert!(!tags.iter().any(|tag| tag.starts_with("<script") || tag.starts_with("<img")), "{path}: {tags:?}");
            prop_assert!(page.contains("default-src 'none'"), "{}", path);
            let opened = page.matches("<pre").count();
            prop_assert_eq!(opened, page.matches("</pre>").count());
            prop_assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
        }
        let detail = page_of(&reports, "a-1.36.html");
        prop_assert!(detail.contains("&lt;script&gt;alert(1)"), "{}", detail);
    }
}

#[test]
fn transcripts_are_cut_at_a_line() {
    let mut one = hostile("x");
    one.causes[0].transcript = Some("t=+0s é GET nodes 200\n".repeat(2000));
    let reports = [one];
    let page = page_of(&reports, "a-1.36.html");
    assert!(page.contains(" of 2000 lines.") && page.len() < 40_000, "{}", page.len());
}

#[test]
fn sites_are_replaced_and_other_folders_are_not() {
    let root = tempfile::tempdir().expect("a folder");
    let out = root.path().join("out");
    let both = [published("a", "v1.36.0", ALL, "2030-01-01", Pass), published("b", "v1.36.0", ALL, "2030-01-01", Pass)];
    write(&files(&both), &out).expect("an empty folder");
    assert!(out.join("b-1.36.html").is_file());
    write(&files(&both[..1]), &out).expect("a site");
    assert!(!out.join("b-1.36.html").exists() && out.join("badges/a/ttl.json").is_file());
    fs::remove_file(out.join(TABLE)).expect("a file");
    let refused = write(&files(&both), &out).expect_err("not a site").to_string();
    assert!(refused.contains("choose another folder"), "{refused}");
}

#[test]
fn inconsistent_reports_are_refused() {
    let root = tempfile::tempdir().expect("a folder");
    let one = published("a", "v1.36.0", ALL, "2030-01-01", Fail).report;
    let folder = root.path().join("v1.36.0/a");
    fs::create_dir_all(&folder).expect("a folder");
    let put = |text: &str| fs::write(folder.join(YAML), text).expect("a file");
    let yaml = one.to_yaml().expect("YAML");
    put(&yaml);
    let found = find(&[root.path().to_owned()]).expect("a report");
    assert_eq!(found, [folder.join(YAML)]);
    assert_eq!(load(&found[0]).expect("a consistent report").report, one);
    put(&yaml.replacen("outcome: fail", "outcome: pass", 1));
    let refused = load(&found[0]).expect_err("edited").to_string();
    assert!(refused.contains("the report was changed"), "{refused}");
    put("- nothing\n");
    assert!(load(&found[0]).expect_err("no report").to_string().contains("is not a conformance report"));
    assert!(
        find(&[root.path().join("v1.36.0/a/none")]).is_ok_and(|paths| paths.len() == 1),
        "a missing file is named later"
    );
    fs::remove_file(folder.join(YAML)).expect("a file");
    assert!(find(&[root.path().to_owned()]).expect_err("nothing").to_string().contains("no report found"));
}
