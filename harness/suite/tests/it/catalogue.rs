//! The catalogue: every known behaviour has a fixture, or a reason why it has none.

use std::fs;
use std::path::Path;

use plumbline::fixture::parse;
use plumbline_suite::catalogue::{Catalogue, CoverageMap};
use rstest::rstest;

use crate::source_files::repository;

/// Returns the map of the fixtures in a folder, with snapshots beside it.
fn with_map<T>(folder: &Path, judge: impl FnOnce(&CoverageMap<'_>) -> T) -> T {
    let fixtures = parse::load(folder).unwrap_or_else(|problems| panic!("{problems}"));
    let catalogue = Catalogue::load(folder).unwrap_or_else(|problems| panic!("{problems}"));
    judge(&CoverageMap::new(&catalogue, &fixtures, &folder.with_file_name("snapshots")))
}

#[test]
fn the_catalogue_has_no_gap() {
    with_map(&repository().join("fixtures"), |map| {
        assert_eq!(map.gaps, Vec::<String>::new());
        let of = |prefix: &str| map.rows().filter(|row| row.entry.id.starts_with(prefix)).count();
        let behaviours: usize = ["D-", "E-", "G-", "T-", "N-"].map(of).iter().sum();
        assert_eq!((behaviours, of("BR-"), of("H-")), (228, 25, 53), "somebody shortened the list");
        assert_eq!(map.rows().filter(|row| row.entry.id.contains('#')).count(), 98);
    });
}

/// A small suite of one fixture, `api/a`, that cites `rules`.
fn suite(rules: &str, catalogue: &str, exclusions: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let fixtures = folder.path().join("fixtures");
    fs::create_dir_all(fixtures.join("api")).expect("a folder");
    fs::create_dir_all(folder.path().join("snapshots/api")).expect("a folder");
    let fixture = format!(
        "promise: A pod is there.\nrule: [{rules}]\nlevel: core\nfeature: api.objects\n\
         given: {{ nodes: [n1], pods: [a on n1] }}\nsteps: [{{ at: 1s, expect: {{ exists: pods/a }} }}]\n"
    );
    let list = format!("sections:\n- title: One\n  source: somewhere\n  rules: {{ {catalogue} }}\n");
    for (name, text) in [("api/a.yaml", fixture.as_str()), ("catalogue.yaml", &list), ("NOT-COVERED.md", exclusions)] {
        fs::write(fixtures.join(name), text).expect("a file");
    }
    fs::write(folder.path().join("snapshots/api/a.snap"), "").expect("a file");
    folder
}

#[rstest]
#[case::whole("D-001", "D-001: a, I-D1: b", "", None)]
#[case::excluded("D-001", "D-001: a, D-002: b", "| D-002 | it is not observable |\n", None)]
#[case::missing("D-001", "D-001: a, D-002: b", "", Some("D-002 (b) has no fixture"))]
#[case::unknown("D-001, D-009", "D-001: a", "", Some("api/a cites D-009, which is not in the catalogue"))]
#[case::excused_and_covered(
    "D-001",
    "D-001: a",
    "| D-001 | it is not observable |\n",
    Some("D-001 is covered by api/a, but NOT-COVERED.md lists it")
)]
#[case::excused_and_unknown(
    "D-001",
    "D-001: a",
    "| D-007 | it is not observable |\n",
    Some("NOT-COVERED.md cites D-007, which is not in the catalogue")
)]
#[case::a_rule_of_a_later_release(
    "D-001",
    "D-001: { what: a, since: '1.37' }",
    "",
    Some("api/a cites D-001, which is about Kubernetes 1.37 and later, but is itself about every Kubernetes")
)]
#[case::a_rule_without_bounds("BR-24-01", "BR-24-01: a", "", Some("BR-24-01 (a) needs a case at its boundary"))]
#[case::bounds_that_are_not_there(
    "BR-24-01",
    "BR-24-01: a }\n  bounds: [{ rule: BR-24-01, at: api/a, beyond: api/b }]\n  bugs: [{ id: '#1', what: x, rules: [BR-24-01] }]\n#",
    "",
    Some("BR-24-01 names api/b, which is not a case of any fixture")
)]
#[case::bounds_that_do_not_cite(
    "D-001",
    "D-001: a, BR-24-01: b }\n  bounds: [{ rule: BR-24-01, at: api/a, beyond: api/a }]\n#",
    "",
    Some("BR-24-01 names api/a, which does not cite it")
)]
#[case::one_case_on_both_sides(
    "BR-24-01",
    "BR-24-01: a }\n  bounds: [{ rule: BR-24-01, at: api/a, beyond: api/a }]\n#",
    "",
    Some("BR-24-01 names api/a both at its boundary and beyond it")
)]
fn a_gap_is_reported(#[case] rules: &str, #[case] list: &str, #[case] exclusions: &str, #[case] gap: Option<&str>) {
    let folder = suite(rules, list, exclusions);
    let gaps = with_map(&folder.path().join("fixtures"), |map| map.gaps.join("\n"));
    assert!(gap.map_or(gaps.is_empty(), |gap| gaps.contains(gap)), "{gaps}");
}

#[test]
fn a_fixture_without_a_snapshot_is_a_gap() {
    let folder = suite("D-001", "D-001: a", "");
    fs::remove_file(folder.path().join("snapshots/api/a.snap")).expect("the snapshot");
    let gaps = with_map(&folder.path().join("fixtures"), |map| map.gaps.join("\n"));
    assert!(gaps.contains("api/a has no snapshot"), "{gaps}");
}
