//! Documents and the tree agree: files, links, test programs, the map of the code, and the front page's run.
//!
//! All Markdown files count, and what the `//!` text of sources says about files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use plumbline::fixture::{Capability, Release};
use plumbline_suite::plan::{Capabilities, Filter, Plan};
use regex::Regex;

use super::source_files::{SourceFile, files_below, repository, rust_sources};
use super::support::all_fixtures;

/// Manuals with a limit of lines: what does not fit belongs on a page of its own, or in `harness/MEASUREMENTS.md`.
const LIMITS: [(&str, usize); 4] = [
    ("README.md", 160),
    ("harness/README.md", 350),
    ("harness/apiserver/README.md", 350),
    ("harness/kit/README.md", 120),
];

/// Documents about days: the ledger of measurements and the releases.
const DATED: [&str; 2] = ["harness/MEASUREMENTS.md", "CHANGELOG.md"];

/// The folder of published reports, each about the day of its run.
const REPORTS: &str = "harness/reports/";

/// The sources of the site, and its chapters that `build.py` makes.
const BOOK: &str = "harness/book/";
const MADE: [&str; 2] = ["reference/", "manuals/"];

/// Files that programs write, which `//!` texts name.
const OUTPUTS: [&str; 1] = ["mutants.md"];

/// The map of the code.
const MAP: &str = "ARCHITECTURE.md";

/// Fails if there are `offences`.
fn none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

fn documents() -> Vec<SourceFile> {
    let documents = files_below(&repository(), "md");
    assert!(documents.len() >= 18, "the search is broken: {} documents", documents.len());
    documents
}

/// Returns the lines of a Markdown text outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

#[test]
fn documents_name_files_that_exist() {
    let root = repository();
    let mut offences = Vec::new();
    for document in documents() {
        for path in document.text.split('`').skip(1).step_by(2).filter(|word| is_path(word)) {
            if !root.join(path.trim_end_matches('/')).exists() {
                offences.push(format!("{}: `{path}`", document.path));
            }
        }
        let folder = root.join(&document.path).with_file_name("");
        let prose: String = prose(&document.text).flat_map(|(_, line)| [line, "\n"]).collect();
        // Pages of the site are made from documents and reports.
        let is_made = |link: &str| link.contains("://") || link.contains(".html");
        for link in links(&prose).filter(|link| !is_made(link)) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { root.join(&document.path) } else { folder.join(path) };
            if document.path.starts_with(BOOK)
                && MADE.iter().any(|chapter| path.trim_start_matches("../").starts_with(chapter))
            {
                // The tests of the book build it and check its links.
            } else if !target.exists() {
                offences.push(format!("{}: link to {link}", document.path));
            } else if !anchor.is_empty() && !anchors(&target).contains(anchor) {
                offences.push(format!("{}: no heading for the link to {link}", document.path));
            }
        }
    }
    none("documents name files that exist", &offences);
}

/// The targets of the Markdown links `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Returns the anchors of a document's headings, as GitHub makes them.
fn anchors(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let headings = prose(&text).filter_map(|(_, line)| line.strip_prefix('#')).map(|line| line.trim_start_matches('#'));
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || "-_".contains(letter) => Some(letter),
        _ => None,
    };
    headings.map(|heading| heading.trim().to_lowercase().chars().filter_map(letter).collect()).collect()
}

/// Returns true if a quoted word is a path of this repository.
fn is_path(word: &str) -> bool {
    let tops = ["controllers/", "harness/", "fixtures/", "snapshots/", ".ci/", ".config/", ".github/"];
    tops.iter().any(|top| word.starts_with(top)) && !word.contains([' ', '<', '*', '{', '\n', '…', '['])
}

/// A path in the `//!` text of a source is the end of the path of a file of the repository. Go's files are upstream's.
#[test]
fn module_docs_name_files_that_exist() {
    static FILE: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Za-z0-9_./{},-]*[A-Za-z0-9_}]\.(rs|md|toml)\b"));
    let root = repository();
    let files: Vec<String> = ["rs", "md", "toml"]
        .iter()
        .flat_map(|extension| files_below(&root, extension))
        .map(|file| format!("/{}", file.path))
        .collect();
    let mut offences = Vec::new();
    for source in rust_sources() {
        let docs = source.text.lines().take_while(|line| line.starts_with("//!"));
        for word in docs.flat_map(|line| FILE.find_iter(line)).map(|found| found.as_str()) {
            let is_there = |path: &str| {
                let end =
                    format!("/{}", path.trim_start_matches("../").trim_start_matches("./").trim_start_matches('/'));
                OUTPUTS.contains(&path) || files.iter().any(|file| file.ends_with(&end))
            };
            for path in alternatives(word).iter().filter(|path| !is_there(path)) {
                offences.push(format!("{}: {path}", source.path));
            }
        }
    }
    none("`//!` texts name files that exist", &offences);
}

/// Returns `a/x.rs` and `a/y.rs` of `a/{x,y}.rs`.
fn alternatives(word: &str) -> Vec<String> {
    match word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (names, after))) => names.split(',').map(|name| format!("{before}{name}{after}")).collect(),
        None => vec![word.trim_matches(['{', '}', ',']).to_owned()],
    }
}

/// Test programs that documents, recipes, scripts and sources name after `--test`.
#[test]
fn named_test_programs_exist() {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| pattern(r"--test[ =]([a-z_-]+)"));
    let root = repository();
    let targets = test_targets(&root);
    assert!(["it", "places", "snapshots"].iter().all(|name| targets.contains(*name)), "{targets:?}");
    let mut texts: Vec<SourceFile> =
        ["md", "rs", "yaml", "toml"].iter().flat_map(|ext| files_below(&root, ext)).collect();
    for path in ["Justfile", ".ci/run"] {
        texts.push(SourceFile { path: path.to_owned(), text: fs::read_to_string(root.join(path)).expect("a text") });
    }
    let mut offences = Vec::new();
    for file in texts.iter().filter(|file| !file.path.ends_with("tests/it/documents.rs")) {
        let named = NAMED.captures_iter(&file.text).filter_map(|found| found.get(1));
        for name in named.map(|name| name.as_str()).filter(|name| !targets.contains(*name)) {
            offences.push(format!("{}: --test {name}", file.path));
        }
    }
    none("a test program that is named after --test exists", &offences);
}

/// Returns the names of the test programs of all packages, those of the examples as well.
fn test_targets(root: &Path) -> BTreeSet<String> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r#"\[\[test\]\]\nname = "([^"]+)""#));
    let mut targets = BTreeSet::new();
    for manifest in files_below(root, "toml").iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        targets.extend(NAME.captures_iter(&manifest.text).map(|found| found[1].to_owned()));
        let folder = root.join(&manifest.path).with_file_name("tests");
        for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file() {
                targets.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
    }
    targets
}

/// Every top-level module of every package of the workspace is in the map, and every module of the map exists.
#[test]
fn the_map_names_every_module() {
    let root = repository();
    let map = fs::read_to_string(root.join(MAP)).expect("the map");
    let sections = sections(&map);
    let mut offences = Vec::new();
    for member in members(&root) {
        let modules = modules(&root.join(&member).join("src"));
        let Some(rooms) = sections.get(member.as_str()) else {
            if !modules.is_empty() || !map.contains(&format!("`{member}/`")) {
                offences.push(format!("{MAP} has no section about {member}/"));
            }
            continue;
        };
        let missing = modules.iter().filter(|module| !rooms.contains(*module));
        offences.extend(missing.map(|module| format!("{MAP}: the section about {member}/ lacks `{module}`")));
        let is_gone = |room: &&String| !root.join(&member).join("src").join(room.trim_end_matches('/')).exists();
        offences.extend(rooms.iter().filter(is_gone).map(|room| format!("{MAP}: {member}/ has no `{room}`")));
    }
    none("the map names every top-level module", &offences);
}

/// Returns the packages of the workspace.
fn members(root: &Path) -> Vec<String> {
    let text = fs::read_to_string(root.join("Cargo.toml")).expect("a manifest");
    let list = text.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).expect("members").0;
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the top-level modules of a source folder: `name.rs` or `name/`. Tests do not count.
fn modules(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a source folder").map(|entry| entry.expect("an entry").path());
    let module = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        if path.is_dir() {
            // `bin/` has programs, not modules.
            (name != "bin").then(|| format!("{name}/"))
        } else {
            let stem = path.file_stem()?.to_str()?;
            let is_module = !["lib", "main"].contains(&stem) && !stem.ends_with("tests");
            (path.extension().is_some_and(|end| end == "rs") && is_module).then_some(name)
        }
    };
    entries.filter_map(module).collect()
}

/// Returns the modules in the first column of each section's table, by the package that its heading names.
fn sections(map: &str) -> BTreeMap<&str, BTreeSet<String>> {
    let mut sections = BTreeMap::new();
    for section in map.split("\n### `").skip(1) {
        let Some((package, rest)) = section.split_once("/`") else { continue };
        let rest = rest.split("\n#").next().unwrap_or_default();
        let cells = rest.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
        let rooms = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
        sections.insert(package, rooms);
    }
    sections
}

/// Manuals say how it is. Days, commits and loads of machines are in `harness/MEASUREMENTS.md`.
#[test]
fn manuals_are_no_diaries() {
    const MONTHS: &str = "January|February|March|April|May|June|July|August|September|October|November|December";
    let date = pattern(&format!(r"\b\d{{1,2}} ({MONTHS})\b|\b({MONTHS}) \d{{1,2}}\b|\b20\d\d-\d\d-\d\d\b"));
    let commit = pattern(r"\bcommit [0-9a-f]{7,40}\b|\b[0-9a-f]{40}\b");
    let load = pattern(r"\bload (average )?(of )?\d");
    let mut offences = Vec::new();
    for document in documents() {
        if DATED.contains(&document.path.as_str()) || document.path.starts_with(REPORTS) {
            continue;
        }
        for (number, line) in prose(&document.text) {
            // Times of the virtual clock and of examples are code.
            let words: String = line.split('`').step_by(2).collect();
            for (what, found) in [("a date", &date), ("a commit", &commit), ("a load", &load)] {
                if let Some(found) = found.find(&words) {
                    offences.push(format!("{}:{number}: {what}, {}", document.path, found.as_str()));
                }
            }
        }
    }
    none("manuals have no date, commit or load: write an entry in harness/MEASUREMENTS.md and link to it", &offences);
}

#[test]
fn manuals_keep_their_length() {
    let root = repository();
    let lines = |path: &str| fs::read_to_string(root.join(path)).expect("a manual").lines().count();
    let long = LIMITS.iter().filter(|(path, limit)| lines(path) > *limit);
    let long = long.map(|(path, limit)| format!("{path} has {} lines, at most {limit}", lines(path)));
    none("manuals keep their length", &long.collect::<Vec<_>>());
}

/// The entries of the ledger have each their date, commit, machine, load and command, in the order of their dates.
#[test]
fn measurements_say_how_they_were_made() {
    let text = fs::read_to_string(repository().join(DATED[0])).expect("the ledger");
    let heading = pattern(r"^20\d\d-\d\d-\d\d: ");
    let mut offences = Vec::new();
    let mut before = "";
    for entry in text.split("\n## ").skip(1) {
        let title = entry.lines().next().unwrap_or_default();
        if !heading.is_match(title) || title[..10] < *before {
            offences.push(format!("{title}: the heading is `DATE: what was measured`, dates in order"));
            continue;
        }
        before = &title[..10];
        let missing = ["commit", "machine", "load", "command"].into_iter();
        let missing = missing.filter(|field| !entry.contains(&format!("\n- {field}: ")));
        offences.extend(missing.map(|field| format!("{title}: no line `- {field}: `")));
    }
    assert!(!before.is_empty(), "the ledger has no entry");
    none("measurements say how they were made", &offences);
}

/// The front page shows a run of the suite as it is: rows and total follow from the fixtures and the plan.
#[test]
fn the_front_page_shows_the_suite() {
    let mut offered = Capabilities::everything();
    offered.release = Release::parse("1.36");
    assert!(offered.capabilities.contains(&Capability::VirtualTime));
    let plan = Plan::new(all_fixtures(), &offered, &Filter::default());
    let mut suites: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for entry in &plan.entries {
        let (run, skipped) = suites.entry(&entry.fixture.suite).or_default();
        *if entry.skip.is_some() { skipped } else { run } += 1;
    }
    let skipped = |count: usize| if count == 0 { String::new() } else { format!(", {count} skipped") };
    let mut expected: Vec<String> =
        suites.iter().map(|(suite, (run, skips))| format!("✓ {suite}: {run} passed{}", skipped(*skips))).collect();
    let all = plan.entries.len();
    let skips = plan.entries.iter().filter(|entry| entry.skip.is_some()).count();
    expected.push(format!("{all} fixtures, {} suites", suites.len()));
    expected.push(format!("{} passed{} of {all}", all - skips, skipped(skips)));

    let page = fs::read_to_string(repository().join("README.md")).expect("the front page");
    let block = page.split("```text\n").find(|block| block.contains(" suites, ")).expect("a run of the suite");
    let block = block.split("```").next().unwrap_or_default();
    let rows = pattern(r"(?m)^✓ (\S+) +(\d+ passed(?:, \d+ skipped)?)(?: .*)?$");
    let mut shown: Vec<String> = rows.captures_iter(block).map(|row| format!("✓ {}: {}", &row[1], &row[2])).collect();
    let totals = pattern(r"\d+ fixtures, \d+ suites|(?m)^\d+ passed(?:, \d+ skipped)? of \d+");
    shown.extend(totals.find_iter(block).map(|found| found.as_str().to_owned()));
    assert_eq!(shown, expected, "run the suite and copy its picture to README.md");
}
