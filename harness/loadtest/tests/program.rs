//! `plumbline-loadtest` on the command line: `scale` with the real controllers on a small cluster (table, JSON, exit
//! codes), and `bench`.

#[path = "../../suite/tests/it/controllers_program.rs"]
mod controllers_program;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use plumbline_guest::in_virtual_time;
use plumbline_loadtest::bench::report::BenchReport;
use plumbline_loadtest::scale::report::{CallCount, KIND, Measure, ScenarioResult};
use plumbline_loadtest::scale::{ScaleReport, Scenario};

const SMALL: [&str; 8] = ["--nodes", "20", "--pods", "200", "--budgets", "20", "--namespaces", "3"];

const PROGRAM: &str = env!("CARGO_BIN_EXE_plumbline-loadtest");

/// The program `plumbline-controllers` of this profile.
fn controllers() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let repository = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    BUILT.get_or_init(|| controllers_program::beside(Path::new(PROGRAM), &repository())).clone()
}

fn scale(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("scale").args(SMALL).args(arguments);
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn report(output: &Output) -> ScaleReport {
    let out = text(&output.stdout);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn calls(measured: &ScenarioResult, verb: &str, resource: &str) -> u64 {
    let found = measured.calls.iter().find(|calls| calls.verb == verb && calls.resource == resource);
    found.map_or(0, |CallCount { count, .. }| *count)
}

#[test]
fn every_scenario_ends_and_is_reported_as_json() {
    controllers();
    let output = scale(&["--scenario", "start,rolling-restart,drain,taint-storm", "--format", "json", "--limit", "2m"]);
    let report = report(&output);
    assert_eq!((report.kind.as_str(), report.cluster.as_str(), report.subjects.len()), (KIND, "fake", 1));
    assert!(report.comparisons.is_empty(), "the reference is about another shape: {:?}", report.comparisons);
    let scenarios = &report.subjects[0].scenarios;
    let names: Vec<Scenario> = scenarios.iter().map(|measured| measured.scenario).collect();
    assert_eq!(names, [Scenario::Start, Scenario::RollingRestart, Scenario::Drain, Scenario::TaintStorm]);
    for measured in scenarios {
        let name = measured.scenario.as_str();
        assert!(measured.left.is_none() && measured.seconds > 0.0, "{name}: {measured:?}");
        assert!(
            measured.peak_bytes > Some(1_000_000) && measured.resident_bytes > Some(1_000_000),
            "{name}: {measured:?}"
        );
        assert!(measured.cpu_seconds.is_some() && measured.server_cpu_seconds.is_some(), "{name}: {measured:?}");
        // The taint storm ends with its last delete; status updates of the budgets may follow.
        let budgets_follow_later = measured.scenario == Scenario::TaintStorm;
        let updates = calls(measured, "PUT", "poddisruptionbudgets/status");
        assert!(updates > 0 || budgets_follow_later, "{name}: {measured:?}");
    }
    let [start, _, drain, storm] = scenarios.as_slice() else { panic!("{scenarios:?}") };
    // Every node once, every budget once; the load's own requests while seeding are not counted.
    assert_eq!((calls(start, "PATCH", "nodes"), calls(start, "POST", "pods")), (20, 0), "{start:?}");
    assert_eq!(calls(start, "PUT", "poddisruptionbudgets/status"), 20, "{start:?}");
    // One node, through the budgets.
    let evicted = drain.details.iter().find(|detail| detail.name == "evictions").map_or(0.0, |detail| detail.value);
    assert!(evicted > 5.0, "{drain:?}");
    // 2 nodes with about 10 pods each, depending on earlier replacements; their taints are set by the load.
    let pods = storm.details.iter().find(|detail| detail.name == "pods").map_or(0.0, |detail| detail.value);
    assert!(pods > 10.0, "{storm:?}");
    // Requests are counted when they are answered, and the scenario ends when the last pod's deletion is seen: a few
    // replies may still be in flight, at most one for each of the eight workers.
    let deletes = calls(storm, "DELETE", "pods") as f64;
    assert!((pods - 8.0..=pods).contains(&deletes), "{storm:?}");
    assert_eq!(calls(storm, "PATCH", "nodes"), 0, "{storm:?}");
}

/// Takes the whole quarantine and one more cycle.
#[test]
fn lost_nodes_lose_their_pods() {
    controllers();
    in_virtual_time(|| {
        let output = scale(&["--scenario", "start,node-loss", "--format", "json", "--limit", "3m"]);
        let report = report(&output);
        let [_, loss] = report.subjects[0].scenarios.as_slice() else { panic!("{report:?}") };
        assert!(loss.left.is_none() && loss.seconds >= 40.0, "an orphan waits for 40 s: {loss:?}");
        assert!(calls(loss, "DELETE", "pods") > 10, "{loss:?}");
    });
}

#[test]
fn two_subjects_are_compared_with_the_targets() {
    let ours = controllers();
    let vs = format!("{} --leader-elect=false --secure-port=0 --kube-api-qps=0", ours.display());
    let output = scale(&["--vs", &vs, "--vs-name", "the-other", "--format", "json"]);
    let report = report(&output);
    let measures: Vec<_> = report.comparisons.iter().map(|c| (c.measure, c.beside.as_str(), c.target)).collect();
    assert_eq!(
        measures,
        [
            (Measure::Time, "the-other", Some(0.5)),
            (Measure::Cpu, "the-other", Some(0.25)),
            (Measure::Memory, "the-other", Some(0.1))
        ]
    );
    // Using only a tenth of its memory is impossible: the target is missed, and --enforce reports it.
    let memory = &report.comparisons[2];
    assert!((0.5..2.0).contains(&memory.ratio) && memory.is_missed(), "{memory:?}");
    assert!(text(&output.stderr).contains("target missed: start, Memory"), "{}", text(&output.stderr));
    let output = scale(&["--vs", &vs, "--enforce"]);
    assert_eq!(output.status.code(), Some(100), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("target 0.10 missed"), "{}", text(&output.stdout));
}

#[test]
fn a_page_has_curves_over_the_size() {
    controllers();
    let before = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scale-before.json");
    let output = scale(&["--format", "json", "--subject-name", "before"]);
    assert_eq!(report(&output).sizes, []);
    std::fs::write(&before, &output.stdout).expect("a writable folder");
    let path = before.to_str().expect("UTF-8");
    let output = scale(&["--format", "html", "--sizes", "50", "--beside", path]);
    let page = text(&output.stdout);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(page.contains("<h1>plumbline: plumbline-controllers and before</h1>"), "{page}");
    let summary = page.split("aria-label=\"start: calls. ").nth(1).and_then(|rest| rest.split('"').next());
    let summary = summary.unwrap_or_else(|| panic!("{page}"));
    let parts = ["plumbline-controllers: ", " at 100 pods, ", " at 200 pods; before: ", " at 200 pods"];
    let found = parts.iter().try_fold(summary, |rest, part| rest.split_once(part).map(|(_, rest)| rest));
    assert_eq!(found, Some(""), "{summary}");

    let other = text(&std::fs::read(&before).expect("a file")).replace("plumbline/v1", "plumbline/v9");
    std::fs::write(&before, other).expect("a writable folder");
    let output = scale(&["--format", "html", "--beside", path]);
    assert_eq!(output.status.code(), Some(2), "a report of another version");
    assert!(text(&output.stderr).contains("it has apiVersion `plumbline/v9` and kind `ScaleReport`"));
}

#[test]
fn a_subject_that_does_nothing_does_not_come_to_its_end() {
    let output = scale(&["--command", "sh -c 'exec sleep 100'", "--limit", "2s"]);
    let out = text(&output.stdout);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(100), "{out}{err}");
    let left = "20 budgets without their status, 20 nodes without their annotation after 2 s";
    assert!(out.contains(left) && err.contains(left), "{out}{err}");
    // The logs are kept, and the error names their folder.
    let logs = err.rsplit_once("  logs: ").map(|(_, folder)| PathBuf::from(folder.trim()));
    let logs = logs.unwrap_or_else(|| panic!("{err}"));
    assert!(logs.join("subject-1/serve.log").is_file(), "{err}");
    std::fs::remove_dir_all(&logs).unwrap_or_else(|error| panic!("{}: {error}", logs.display()));
}

#[test]
fn what_does_not_start_is_the_environments_fault() {
    for (flags, why) in [
        (["--command", "false"], "false exited with code 1"),
        (["--command", "/nowhere/x"], "unable to start /nowhere/x"),
        (["--cluster", "kubeconfig"], "kubeconfig"),
    ] {
        let mut flags = flags.to_vec();
        if flags[0] == "--cluster" {
            flags.extend(["--kubeconfig", "/nowhere/kubeconfig", "--command", "true"]);
        }
        let output = scale(&flags);
        let err = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(96), ""), "{flags:?}: {err}");
        assert!(err.contains(why), "{flags:?}: {err}");
    }
}

#[test]
fn nonsense_is_a_wrong_command_line() {
    for flags in [["--pods", "10"], ["--share", "99"], ["--command", "'"]] {
        let output = scale(&flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_server_is_measured_with_what_was_asked_for() {
    let arguments = "bench server --pods 40 --nodes 7 --budgets 3 --connections 4 --watchers 3 --rate 50 --seconds 1";
    let arguments: Vec<&str> = arguments.split(' ').chain(["--output", "json"]).collect();
    let output = Command::new(PROGRAM).args(arguments).output().expect("the program starts");
    assert_eq!(
        output.status.code(),
        Some(0),
        "missed targets are no failure without --enforce: {}",
        text(&output.stderr)
    );
    let report: BenchReport = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!((report.api_version.as_str(), report.kind.as_str()), ("plumbline/v1", "ServerBenchmark"));
    assert_eq!((report.shape.pods, report.shape.watchers), (40, 3));
    for wanted in ["pods created", "one piece", "p99", "process ready", "in process"] {
        let row = report.rows.iter().find(|row| row.name.contains(wanted));
        assert!(row.is_some_and(|row| row.measured > 0.0), "{wanted}: {row:?}");
    }
}
