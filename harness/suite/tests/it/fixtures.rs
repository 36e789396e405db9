//! The repository's fixtures and their reference documentation.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use plumbline::fixture::vocabulary::{Capability, FEATURES, is_optional};
use plumbline::fixture::{Fixture, Level};
use plumbline::fixture::{matching, parse, schema};
use plumbline::invariants;
use plumbline_suite::conformance::{deviations, idle};
use plumbline_suite::fixtures::json_schema;

use crate::source_files::repository;
use crate::support::{all_fixtures, is_full};

#[test]
fn every_fixture_is_well_formed() {
    match parse::load(&repository().join("fixtures")) {
        Ok(fixtures) => assert!(!fixtures.is_empty()),
        Err(problems) => panic!("\n{problems}"),
    }
}

/// One fixture of eight is tried, and all with `PLUMBLINE_TESTS=full`.
#[test]
fn what_a_program_passes_that_does_nothing_is_in_its_list() {
    let share = if is_full() { 1 } else { 8 };
    let tried: Vec<Fixture> = all_fixtures().iter().step_by(share).cloned().collect();
    let passed = idle::passed(&tried, 2).expect("nothing is written");
    let file = repository().join("fixtures").join(idle::FILE);
    let text = fs::read_to_string(&file).expect("the file");
    let mut listed = idle::load(&file).unwrap_or_else(|problems| panic!("\n{problems}"));
    assert_eq!(text, idle::text(&listed), "run `cargo run -p xtask -- idle`");
    let id_of = |fixture: &Fixture| fixture.id.clone();
    assert!(listed.is_subset(&all_fixtures().iter().map(id_of).collect()), "run `cargo run -p xtask -- idle`");
    let tried: BTreeSet<String> = tried.iter().map(id_of).collect();
    listed.retain(|id| tried.contains(id));
    assert_eq!(listed, passed, "run `cargo run -p xtask -- idle`");
    assert!(!passed.is_empty());
}

/// A whole run on the wall clock takes as long as its longest fixture, so this bounds an author's waiting time.
const LONGEST_ON_THE_WALL_CLOCK: Duration = Duration::from_secs(200);

#[test]
fn no_fixture_keeps_the_wall_clock_waiting() {
    let long: Vec<String> = all_fixtures()
        .iter()
        .filter(|fixture| !fixture.requires.contains(&Capability::VirtualTime))
        .map(|fixture| (fixture.wall_end(Duration::from_secs(3)), fixture))
        .filter(|(end, _)| *end > LONGEST_ON_THE_WALL_CLOCK)
        .map(|(end, fixture)| format!("{}: {} s", fixture.id, end.as_secs()))
        .collect();
    assert!(long.is_empty(), "shorten, or require virtual-time:\n{}", long.join("\n"));
}

#[test]
fn known_deviations_are_well_formed() {
    let root = repository().join("fixtures");
    let fixtures = all_fixtures();
    let mut files = 0;
    for entry in fs::read_dir(root.join("deviations")).expect("a folder") {
        let file = entry.expect("an entry").path();
        match deviations::load(&file, fixtures) {
            Ok(known) => {
                assert!(!known.is_empty(), "{}", file.display());
                let core = |id: &str| known.iter().any(|deviation| deviation.covers(id));
                let excused = fixtures.iter().find(|fixture| fixture.level == Level::Core && core(&fixture.id));
                assert_eq!(excused.map(|fixture| &fixture.id), None, "the core is what everybody does");
            }
            Err(problems) => panic!("\n{problems}"),
        }
        files += 1;
    }
    assert!(files > 0);
}

/// The sections of `fixtures/README.md` that are generated from code: name and text.
fn sections() -> Vec<(&'static str, String)> {
    let mut operators = String::from("| operator | argument | meaning |\n| --- | --- | --- |\n");
    for (name, argument, meaning) in matching::OPERATORS {
        let _ = writeln!(operators, "| `{name}` | {argument} | {meaning} |");
    }
    let mut invariants = String::from("| invariant | catalogue | what must hold |\n| --- | --- | --- |\n");
    for invariant in invariants::ALL {
        let level = if invariant.level == Level::Core { "" } else { " (only in `hardened` fixtures)" };
        let ids = invariant.ids.join(", ");
        let _ = writeln!(invariants, "| `{}` | {ids} | {}{level} |", invariant.name, invariant.doc);
    }
    let mut features = String::from("| feature | what it is |\n| --- | --- |\n");
    for (name, doc) in FEATURES {
        let optional = if is_optional(name) { " (optional)" } else { "" };
        let _ = writeln!(features, "| `{name}` | {doc}{optional} |");
    }
    let names: Vec<String> = Capability::ALL.iter().map(|capability| format!("`{capability}`")).collect();
    let lines: Vec<String> = names.chunks(8).map(|line| line.join(", ")).collect();
    let capabilities = format!("{}.\n", lines.join(",\n"));
    vec![
        ("operators", operators),
        ("invariants", invariants),
        ("features", features),
        ("capabilities", capabilities),
        ("reference", schema::reference()),
    ]
}

#[test]
fn the_reference_is_what_the_reader_accepts() {
    let path = repository().join("fixtures/README.md");
    let old = fs::read_to_string(&path).expect("fixtures/README.md");
    let mut new = old.clone();
    for (name, text) in sections() {
        let begin = format!("<!-- {name} -->\n");
        let (head, rest) = new.split_once(&begin).unwrap_or_else(|| panic!("no section {name}"));
        let (_, tail) = rest.split_once("<!-- end -->").expect("the section ends");
        new = format!("{head}{begin}\n{}\n\n<!-- end -->{tail}", text.trim());
    }
    if new == old {
        return;
    }
    assert!(
        std::env::var_os("PLUMBLINE_UPDATE").is_some(),
        "fixtures/README.md is out of date: PLUMBLINE_UPDATE=1 cargo test -p plumbline-suite --test it fixtures::"
    );
    fs::write(&path, new).expect("write fixtures/README.md");
}

/// The schema is committed so that editors can use it without the program.
#[test]
fn the_committed_schema_is_the_generated_one() {
    let path = repository().join("fixtures/fixture.schema.json");
    let new = format!("{:#}\n", json_schema::document());
    if fs::read_to_string(&path).is_ok_and(|old| old == new) {
        return;
    }
    assert!(
        std::env::var_os("PLUMBLINE_UPDATE").is_some(),
        "fixtures/fixture.schema.json is out of date: PLUMBLINE_UPDATE=1 cargo test -p plumbline-suite --test it fixtures::"
    );
    fs::write(&path, new).expect("write the schema");
}

#[test]
fn every_fixture_satisfies_the_schema() {
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    compiler.add_resource("fixture.schema.json", json_schema::document()).expect("a resource");
    let index = compiler.compile("fixture.schema.json", &mut schemas).expect("a schema");
    let check = |text: &str| {
        let value: serde_json::Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        schemas.validate(&value, index).map_err(|error| error.to_string())
    };
    let mut problems = Vec::new();
    let mut files = 0;
    for suite in ["api", "disruption", "faults", "podgc", "taint-eviction", "ttl"] {
        for entry in fs::read_dir(repository().join("fixtures").join(suite)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).expect("a fixture");
            let first = text.lines().next().unwrap_or_default();
            if first != "# yaml-language-server: $schema=../fixture.schema.json" {
                problems.push(format!("{}: the first line does not name the schema", path.display()));
            }
            problems.extend(check(&text).err().map(|error| format!("{}: {error}", path.display())));
            files += 1;
        }
    }
    assert!(files > 200, "the search is broken: {files} files");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let text = include_str!("../samples/good.yaml");
    assert_eq!(check(text), Ok(()));
    let unknown = check(&text.replace("level:", "levle:")).expect_err("an unknown field");
    assert!(unknown.contains("levle"), "{unknown}");
    assert!(check(&format!("{text}\nlate: [1]\nlevel: high\n")).is_err());
}

/// An example that names a file shows that file, without the line that names the schema.
#[test]
fn examples_in_the_readme_are_the_files_they_name() {
    let readme = fs::read_to_string(repository().join("fixtures/README.md")).expect("fixtures/README.md");
    let mut examples = 0;
    for (head, block) in readme.split("\n```yaml\n").zip(readme.split("\n```yaml\n").skip(1)) {
        let named = head.trim_end().lines().last().and_then(|line| line.strip_prefix('`')?.strip_suffix("`:"));
        let Some(name) = named.filter(|name| name.contains(".yaml")) else { continue };
        let file = fs::read_to_string(repository().join("fixtures").join(name)).expect("the file of the example");
        let (_, file) = file.split_once('\n').expect("a line that names the schema");
        let example = block.split("```").next().unwrap_or_default();
        assert_eq!(example, file, "the example of {name} is not the file");
        examples += 1;
    }
    assert!(examples > 0, "no example names a file");
}
