//! Malformed fixtures: every error names its position, its field and the remedy.

use std::path::Path;

use plumbline::fixture::{Fixture, Problem, parse};
use rstest::rstest;

const HEAD: &str = "promise: x\nrule: G-001\nlevel: core\nfeature: podgc.orphaned\n";

fn read(text: &str) -> (Vec<Fixture>, Vec<Problem>) {
    parse::read(Path::new("fixtures/podgc/case.yaml"), "podgc", text)
}

/// Returns the problems of a fixture with a valid head and this rest, which begins at line 5.
fn problems(rest: &str) -> Vec<String> {
    let (fixtures, problems) = read(&format!("{HEAD}{rest}"));
    assert!(fixtures.is_empty(), "a fixture with problems must not be run");
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn the_example_of_the_design_is_read_literally() {
    let text = r#"
promise: A pod of a missing node is deleted only after 40 s in quarantine and a live GET that says 404.
rule: BR-24-03          # also the link to upstream: podgc/gc_controller.go, quarantineTime
level: core
feature: podgc.orphaned
given: { nodes: [n1], pods: [{ name: a, node: n1, phase: Running }] }
steps:
- { at: 0s, delete: nodes/n1 }
- { until: 59s, consistently: { exists: pods/a } }
- { by: 80s, eventually: { absent: pods/a } }
order: [ "GET nodes/n1", "PATCH pods/a/status", "DELETE pods/a" ]
"#;
    let (fixtures, problems) = read(text);
    assert_eq!(problems, []);
    let fixture = &fixtures[0];
    assert_eq!(fixture.id, "podgc/case");
    assert_eq!(fixture.end().as_secs(), 80);
    assert_eq!(fixture.steps.iter().map(|step| step.at.as_secs()).collect::<Vec<_>>(), [0, 0, 59]);
    assert_eq!(fixture.given.objects.len(), 2);
    assert_eq!(fixture.given.objects[1]["spec"]["nodeName"], "n1");
    assert_eq!(fixture.traffic.order.len(), 3);
}

#[test]
fn a_second_is_tolerated_where_a_fixture_says_nothing() {
    let tolerance = |rest: &str| {
        let (fixtures, problems) = read(&format!("{HEAD}{rest}expect: {{ exists: pods/a }}\n"));
        assert_eq!(problems, []);
        fixtures[0].tolerance.as_millis()
    };
    assert_eq!([tolerance(""), tolerance("tolerance: 300ms\n"), tolerance("tolerance: 5s\n")], [1000, 300, 5000]);
}

#[rstest]
#[case::no_tolerance(
    "tolerance: 0s\nexpect: { exists: pods/a }",
    "case.yaml:5:12: tolerance: the tolerance 0s is out of range",
    "real clocks are never exact"
)]
#[case::too_tolerant(
    "tolerance: 5.001s\nexpect: { exists: pods/a }",
    "case.yaml:5:12: tolerance: the tolerance 5.001s is out of range",
    "at most 5s"
)]
#[case::too_late("late: 61s\nexpect: { exists: pods/a }", "case.yaml:5:7: late: 61s is too late", "at most 60s")]
#[case::unknown_field(
    "stpes: []\nexpect: { exists: pods/a }",
    "case.yaml:5:1: stpes: unknown field `stpes` in fixture",
    "did you mean `steps`?"
)]
#[case::unknown_field_inside(
    "given: { nodez: [n1] }\nexpect: { exists: pods/a }",
    "case.yaml:5:10: given.nodez: unknown field `nodez` in given",
    "did you mean `nodes`?"
)]
#[case::unknown_kind(
    "given: { objects: [{ apiVersion: v1, kind: Pdo, metadata: { name: a } }] }\nexpect: { exists: pods/a }",
    "given.objects[0]: no kind `Pdo` in `v1`",
    "did you mean `Pod`?"
)]
#[case::kind_of_another_group(
    "given: { objects: [{ apiVersion: v1, kind: ReplicaSet, metadata: { name: a } }] }\nexpect: { exists: pods/a }",
    "no kind `ReplicaSet` in `v1`",
    "did you mean apiVersion `apps/v1`?"
)]
#[case::unknown_resource(
    "expect: { exists: pdos/a }",
    "case.yaml:5:19: expect.exists: `pdos` is not a resource",
    "did you mean `pods`?"
)]
#[case::no_name("expect: { exists: pods }", "`pods` does not name an object", "write `pods/NAME`")]
#[case::bad_duration(
    "steps: [{ at: 40, expect: { exists: pods/a } }]",
    "case.yaml:5:15: steps[0].at: `40` is not a duration",
    "did you mean `40s`?"
)]
#[case::bad_unit(
    "steps: [{ at: 4days, expect: { exists: pods/a } }]",
    "`4days` is not a duration",
    "units are ns, us, ms, s, m, h"
)]
#[case::back_in_time(
    "steps:\n- { at: 40s, delete: pods/a }\n- { at: 20s, expect: { absent: pods/a } }",
    "case.yaml:7:9: steps[1].at: the schedule goes back in time: 20s comes after 40s",
    "in order of time"
)]
#[case::before_a_window_ends(
    "steps:\n- { until: 59s, consistently: { exists: pods/a } }\n- { at: 10s, delete: pods/a }",
    "steps[1].at: the schedule goes back in time: 10s comes after 59s",
    "lasts until that time"
)]
#[case::before_the_start(
    "steps: [{ at: -5s, expect: { exists: pods/a } }]",
    "steps[0].at: the time is before the start",
    "describe the state before the start in `given`"
)]
#[case::two_times(
    "steps: [{ at: 5s, after: 5s, expect: { exists: pods/a } }]",
    "both `at` and `after`",
    "only one time"
)]
#[case::window_without_end(
    "steps: [{ at: 5s, consistently: { exists: pods/a } }]",
    "`consistently` needs `until` or `for`",
    "write e.g. `{ until: 59s"
)]
#[case::end_without_window(
    "steps: [{ by: 5s, delete: pods/a }, { expect: { absent: pods/a } }]",
    "`by` needs a window",
    "`by` and `within` with `eventually`"
)]
#[case::two_things(
    "steps: [{ delete: pods/a, expect: { exists: pods/a } }]",
    "more than one action or check in a step: delete, expect",
    "put several actions under `do:`"
)]
#[case::nothing_in_a_step(
    "steps: [{ at: 5s }]\nexpect: { exists: pods/a }",
    "the step has no action and no check",
    "add e.g."
)]
#[case::reply_to_nothing("steps: [{ controllers: crash, reply: 200 }]", "`reply` needs a request", "")]
#[case::nothing_expected("given: { nodes: [n1] }", "the fixture expects nothing", "add `expect`")]
#[case::no_checks("expect: {}", "expect: no checks", "")]
#[case::bad_reference(
    "given: { pods: [a of rs/web] }\nexpect: { exists: pods/a }",
    "case.yaml:5:17: given.pods[0]: the owner `rs/web` is not declared",
    "write `missing rs/web`"
)]
#[case::not_missing(
    "given: { owners: [rs/web], pods: [a of missing rs/web] }\nexpect: { exists: pods/a }",
    "the owner `rs/web` is declared, so it is not missing",
    ""
)]
#[case::bad_pod(
    "given: { pods: [7 ready] }\nexpect: { exists: pods/a }",
    "given.pods[0]: no `×` after `7`",
    "write `7 × ready`"
)]
#[case::twins("given: { pods: [a, a] }\nexpect: { exists: pods/a }", "given: Pod default/a is declared twice", "")]
#[case::bad_budget(
    "given: { budget: minAvailable some }\nexpect: { exists: pods/a }",
    "`some` is neither a number nor a percentage",
    ""
)]
#[case::no_budget(
    "expect: { status: [1, 1, 1, 1] }",
    "`status` without a name needs exactly one budget",
    "name the budget"
)]
#[case::short_status(
    "given: { budget: minAvailable 1 }\nexpect: { status: [1, 1] }",
    "expected 4 numbers, found 2",
    "[allowed, current, desired, expected]"
)]
#[case::bad_condition(
    "expect: { condition: { pods/a: Ready=Yes } }",
    "`Yes` is not a condition status",
    "one of: True"
)]
#[case::bad_count("expect: { count: { DELETE pods/a: many } }", "`many` is not a count", "write `2`")]
#[case::bad_verb("order: [DELTE pods/a]", "case.yaml:5:9: order[0]: `DELTE` is not a verb", "did you mean `DELETE`?")]
#[case::bad_operator(
    "expect: { match: { pods/a: { x: { $ayn: 1 } } } }",
    "`$ayn` is not an operator",
    "did you mean `$any`?"
)]
#[case::bad_flag(
    "flags: { terminated-pod-gc-treshold: 1 }\nexpect: { exists: pods/a }",
    "flags.terminated-pod-gc-treshold",
    "did you mean `terminated-pod-gc-threshold`?"
)]
#[case::bad_capability(
    "requires: [virtual-tyme]\nexpect: { exists: pods/a }",
    "requires[0]: unknown value `virtual-tyme`",
    "did you mean `virtual-time`?"
)]
#[case::bad_waiver(
    "waive: { no_strms: because I say so }\nexpect: { exists: pods/a }",
    "`no_strms` is not an invariant",
    "did you mean `no_storms`?"
)]
#[case::waiver_without_reason(
    "waive: { no_storms: because }\nexpect: { exists: pods/a }",
    "a waiver needs a reason",
    "a sentence"
)]
#[case::bad_fault(
    "given: { faults: [DELETE pods/a] }\nexpect: { exists: pods/a }",
    "no status code at the end",
    "write `PUT pdb/*/status 409`"
)]
#[case::two_effects(
    "given: { faults: [{ on: DELETE pods/a, reply: 409, drop: after }] }\nexpect: { exists: pods/a }",
    "exactly one of `reply`",
    ""
)]
#[case::bad_watch(
    "given: { watch: [hodl pods] }\nexpect: { exists: pods/a }",
    "`hodl` is not a watch fault",
    "did you mean `hold`?"
)]
#[case::unknown_variable(
    "matrix: [{ id: a, n: 1 }]\nexpect: { count: { DELETE pods/a: $m, GET pods/a: $n } }",
    "the matrix has no variable `m`",
    "did you mean `n`?"
)]
#[case::unused_variable(
    "matrix: [{ id: a, n: 1 }]\nexpect: { exists: pods/a }",
    "case.yaml:5:22: matrix: the variable `n` is never used",
    "use it as `$n`"
)]
#[case::brace_in_flow(
    "matrix: [{ id: a, n: 1 }]\nexpect: { count: { DELETE pods/a: ${n} } }",
    "case.yaml:6",
    "write a variable as `$name`"
)]
#[case::both_lists("only: [DELETE pods/a]\nwrites: [DELETE pods/a]", "both `writes` and `only`", "")]
#[case::created_with_reserved(
    "steps: [{ create: { faults: [DELETE pods/a 409] } }, { expect: { exists: pods/a } }]",
    "`faults` is not valid in `create`",
    "move it to `given`"
)]
#[case::created_terminating(
    "steps: [{ create: { pods: [a terminating] } }, { expect: { exists: pods/a } }]",
    "a client cannot create an object with deletionTimestamp",
    "create it with a finalizer"
)]
fn a_mistake_is_reported_with_place_and_hint(#[case] rest: &str, #[case] says: &str, #[case] hint: &str) {
    let found = problems(rest);
    assert!(found.iter().any(|problem| problem.contains(says) && problem.contains(hint)), "{found:#?}");
}

#[rstest]
#[case::missing("promise: x\n", "`rule` is missing", "hint: rule: id, or list of ids")]
#[case::level(
    "promise: x\nrule: G-001\nlevel: cor\nfeature: podgc.cycle\nexpect: { exists: pods/a }",
    "case.yaml:3:8: level: unknown value `cor`",
    "did you mean `core`?"
)]
#[case::feature(
    "promise: x\nrule: G-001\nlevel: core\nfeature: podgc.orphand\nexpect: { exists: pods/a }",
    "case.yaml:4:10: feature: `podgc.orphand` is not a feature",
    "did you mean `podgc.orphaned`?"
)]
#[case::rule(
    "promise: x\nrule: [G-1, BR-24-3]\nlevel: core\nfeature: podgc.cycle\nexpect: { exists: pods/a }",
    "case.yaml:2:8: rule[0]: `G-1` is not a rule id",
    "write it like `G-034`"
)]
#[case::source(
    "promise: x\nrule: G-001\nlevel: hardened\nfeature: podgc.cycle\nexpect: { exists: pods/a }",
    "a hardened fixture must cite its source",
    "source: "
)]
#[case::core_of_an_optional_feature(
    "promise: x\nrule: G-001\nlevel: core\nfeature: faults.leader-election\nexpect: { exists: pods/a }",
    "a core fixture is for every subject, and faults.leader-election is optional",
    "level: extended"
)]
#[case::flag_of_another_feature(
    "promise: x\nrule: G-001\nlevel: core\nfeature: podgc.cycle\nflags: { leader-elect: true }\nexpect: { exists: pods/a }",
    "only subjects with faults.leader-election know `leader-elect`, and the feature is podgc.cycle",
    "feature: faults.leader-election"
)]
#[case::metric_of_another_feature(
    "promise: x\nrule: G-001\nlevel: core\nfeature: podgc.metrics\nexpect: { metrics: { \"plumbline_pending{name=a}\": 0 } }",
    "only subjects with disruption.kept or podgc.kept or taint-eviction.kept know `plumbline_pending`",
    "feature: disruption.kept or"
)]
#[case::malformed("promise: [x\n", "not well-formed YAML", "")]
#[case::duplicate_key("promise: x\npromise: y\n", "case.yaml:2:1", "")]
#[case::a_list("- x\n", "expected a map (fixture), found a list", "")]
#[case::empty("", "expected a map (fixture), found nothing", "")]
fn a_bad_head_is_reported(#[case] text: &str, #[case] says: &str, #[case] hint: &str) {
    let (fixtures, problems) = read(text);
    assert!(fixtures.is_empty());
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(found.iter().any(|problem| problem.contains(says) && problem.contains(hint)), "{found:#?}");
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = problems(
        "given: { nodez: [n1], pods: [a redy] }\nsteps: [{ at: 40, delete: pdos/a }]\nexpect: { exist: pods/a }",
    );
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn a_problem_of_one_row_names_the_row_and_a_problem_of_all_is_reported_once() {
    let rows = "matrix: [{ id: a, n: 1 }, { id: b, n: x }]\nexpect: { count: { DELETE pods/a: $n }, exsts: pods/a }";
    let found = problems(rows);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().any(|problem| problem.contains("[row b]")), "{found:#?}");
}

#[test]
fn ids_are_unique_over_folders() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = format!("{HEAD}expect: {{ exists: pods/a }}\n");
    for name in ["podgc/x/case.yaml", "podgc/y/case.yaml", "podgc/other.yml", "stray.yaml", "nosuite/case.yaml"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("create a folder");
        std::fs::write(path, &text).expect("write a fixture");
    }
    let problems = parse::load(folder.path()).expect_err("five bad files").to_string();
    for says in [
        "the id podgc/case is already used by",
        "rename it to other.yaml",
        "the fixture is in no suite",
        "`nosuite` is not a suite",
        "nothing was run",
    ] {
        assert!(problems.contains(says), "no {says:?} in\n{problems}");
    }
}

#[test]
fn no_fixtures_is_a_problem() {
    let problems = parse::load(Path::new("/nonexistent")).expect_err("no folder").to_string();
    assert!(problems.contains("unable to read the folder"), "{problems}");
}

#[rstest]
#[case::number("since: 1.37", "case.yaml:5:8: since: `1.37` is not a release", "with quotes")]
#[case::patch_release("until: \"1.37.1\"", "until: `1.37.1` is not a release", "write it like \"1.37\"")]
#[case::word("since: \"latest\"", "since: `latest` is not a release", "write it like")]
#[case::nothing_left("{since: \"1.37\", until: \"1.36\"}", "no release is left: since 1.37, until 1.36", "")]
fn releases_are_checked(#[case] rest: &str, #[case] message: &str, #[case] hint: &str) {
    let rest = rest.trim_matches(['{', '}']).replace(", until", "\nuntil");
    let found = problems(&format!("{rest}\nexpect: {{ exists: pods/a }}\n"));
    assert!(found[0].contains(message) && found[0].contains(hint), "{found:#?}");
}

#[test]
fn a_range_of_releases_is_read() {
    let (fixtures, problems) = read(&format!("{HEAD}since: \"1.36\"\nuntil: \"1.37\"\nexpect: {{ exists: pods/a }}\n"));
    assert_eq!(problems, []);
    assert_eq!(fixtures[0].releases.to_string(), "Kubernetes 1.36 to 1.37");
}
