//! Subjects that cannot run: fixtures that say nothing about them are repeated alone, and are never failures.

use std::fs;
use std::path::{Path, PathBuf};

use plumbline_suite::report::{FixtureReport, Outcome, RunReport};

use crate::support;

const FIXTURE: &str = "\
promise: A new node gets the annotation within a second.
rule: BR-19-07
level: core
feature: ttl.annotation
given: { nodes: [{ name: n1, ttl: 0 }] }
steps:
- { at: 4s, create: { nodes: [n2] } }
- { by: 5s, eventually: { match: { nodes/n2: { metadata: { annotations: { node.alpha.kubernetes.io/ttl: \"0\" } } } } } }
";

/// The rehearsal, and four runs.
const MOST_STARTS: u32 = 5;

/// Runs `FIXTURE` on the real controllers. A start whose number, from 0, fulfils `condition` of the shell is stopped by
/// SIGSTOP while the node appears. Returns exit code, standard error, the fixture's report and the number of starts.
fn run(name: &str, condition: &str) -> (i32, String, FixtureReport, u32) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("busy").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("fixtures/ttl")).expect("a writable folder");
    fs::write(folder.join("fixtures/ttl/new-node.yaml"), FIXTURE).expect("a writable folder");
    let starts: PathBuf = folder.join("starts");
    let script = format!(
        "n=$(cat {starts} 2>/dev/null || echo 0); echo $((n+1)) >{starts}; \
         {controllers} --leader-elect=false --secure-port=0 --kubeconfig={{kubeconfig}} --controllers={{controllers}} & \
         p=$!; if [ $n {condition} ]; then sleep 3; kill -STOP $p; sleep 5; kill -CONT $p; fi; wait $p",
        starts = starts.display(),
        controllers = support::controllers().display(),
    );
    let mut command = support::program();
    command.current_dir(&folder).args(["run", "--time", "wall", "--fixtures", "fixtures", "--format", "json"]);
    command.args(["--command", &format!("sh -c '{script}'"), "--subject-controllers", "ttl"]);
    let output = command.output().expect("the program starts");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut report: RunReport = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {err}"));
    let load = report.load.expect("the load of a run on the wall clock");
    assert!(load.cores > 0 && load.jobs > 0 && load.repeated == 1, "{load:?}");
    let starts = fs::read_to_string(starts).expect("a file").trim().parse().expect("a number");
    (output.status.code().unwrap_or(-1), err, report.fixtures.remove(0), starts)
}

/// A condition of the shell for the number of a start, and what comes of it.
struct Case {
    name: &'static str,
    /// The rehearsal is start 0, the first run start 1.
    is_stopped: &'static str,
    code: i32,
    outcome: Outcome,
    least_starts: u32,
}

const CASES: [Case; 3] = [
    Case { name: "once", is_stopped: "-eq 1", code: 0, outcome: Outcome::Pass, least_starts: 3 },
    Case { name: "twice", is_stopped: "-eq 1 -o $n -eq 2", code: 0, outcome: Outcome::Pass, least_starts: 4 },
    Case { name: "again", is_stopped: "-ge 1", code: 102, outcome: Outcome::Inconclusive, least_starts: MOST_STARTS },
];

/// The cases run side by side, since they wait nearly all of the time.
#[test]
fn a_stopped_subject_is_tried_again_alone() {
    std::thread::scope(|scope| {
        let threads = CASES.map(|case| scope.spawn(move || case.check()));
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

impl Case {
    fn check(&self) {
        let name = self.name;
        let (status, err, fixture, starts) = run(name, self.is_stopped);
        assert_eq!((status, fixture.outcome), (self.code, self.outcome), "{name}: {fixture:?}\n{err}");
        // On a busy machine a run that was not stopped may say nothing, either.
        assert!((self.least_starts..=MOST_STARTS).contains(&starts), "{name}: {starts} starts\n{err}");
        let load = fixture.load.clone().expect("the load of a repeated fixture");
        assert!(load.repeated.contains("stopped by a signal for "), "{name}: {}", load.repeated);
        assert!(err.contains("fixtures run in parallel: a start of the subject takes "), "{name}: {err}");
        let is_stopped = self.outcome == Outcome::Inconclusive;
        let says = fixture.reason.contains("(alone; before: the subject was stopped");
        assert_eq!(says, is_stopped, "{name}: {}", fixture.reason);
        assert_eq!(load.stopped_millis > 0, is_stopped, "{name}: {fixture:?}");
    }
}
