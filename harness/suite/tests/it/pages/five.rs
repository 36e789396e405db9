//! Five pages that show everything: an overview, a failure's timeline, two subjects, changed snapshots, curves.

use std::path::{Path, PathBuf};

use plumbline_suite::scale::report::{CallCount, CurvePoint, KIND, ScenarioResult, SubjectReport, compare};
use plumbline_suite::scale::{ClusterShape, ScaleReport, Scenario, page};

use crate::cli::{GOOD, folder, plumbline};
use crate::reviews;

/// An orphan that is expected to live, and a budget of a deleted pod.
const FAILS: &str = "\
promise: A pod of a missing node lives for ever.
rule: BR-24-03
level: core
feature: podgc.orphaned
given: { nodes: [n1, n2], pods: [a on n1, b on n1, c on n2] }
steps:
- { at: 5s, delete: nodes/n1 }
- { at: 20s, controllers: crash }
- { at: 30s, controllers: start }
- { until: 300s, consistently: { exists: pods/a }, note: \"for ever\" }
- { at: 310s, delete: pods/c }
- { at: 320s, expect: { absent: pods/c } }
allow: [WRITE pods/*, WRITE pods/*/status]
";

/// Three pods that have ended.
const ENDED: &str = "\
promise: Pods that have ended stay.
rule: BR-24-01
level: core
feature: podgc.terminated
given: { nodes: [n1, n2], pods: [{ name: a, node: n1, phase: Failed }, { name: b, node: n1, phase: Failed }] }
steps:
- { at: 5s, delete: nodes/n2 }
- { until: 100s, consistently: { exists: pods/a } }
allow: [WRITE pods/*, WRITE pods/*/status]
";

/// A page: its name and address.
pub(super) type NamedPage = (&'static str, String);

/// Makes the pages in a folder for the test of this name.
pub(super) fn pages(test: &str) -> (PathBuf, Vec<NamedPage>) {
    let files = [("podgc/good.yaml", GOOD), ("podgc/lives.yaml", FAILS), ("podgc/ended.yaml", ENDED)];
    let root = folder(test, &files);
    run(&root, &["run", "--format", "html", "-o", "report.html"], 100);
    let other = "in-process --terminated-pod-gc-threshold=1";
    run(&root, &["compare", "in-process", other, "podgc/ended", "--format", "html", "-o", "compare.html"], 101);
    let review = reviews::repository().review(&["HEAD~1", "--format", "html"]);
    std::fs::write(root.join("review.html"), review.stdout).expect("a writable folder");
    std::fs::write(root.join("curves.html"), curves()).expect("a writable folder");
    let address = |file: &str| format!("file://{}", root.join(file).display());
    let pages = vec![
        ("overview", address("report.html")),
        ("timeline", address("report.html#podgc/lives@60s")),
        ("comparison", address("compare.html#podgc/ended")),
        ("review", address("review.html")),
        ("curves", address("curves.html")),
    ];
    (root, pages)
}

fn run(root: &Path, arguments: &[&str], code: i32) {
    let output = plumbline(root, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A page of measurements with two subjects and three sizes.
fn curves() -> String {
    let mut report = measured(100);
    report.sizes = vec![measured(10), measured(30)];
    page::page(&report, &[])
}

fn measured(percent: usize) -> ScaleReport {
    let shape = ClusterShape::default().percent(percent);
    let pods = shape.pods as f64;
    let subject = |name: &str, tenths: u64| {
        let factor = tenths as f64 / 10.0;
        let scenario = |scenario, seconds: f64| ScenarioResult {
            scenario,
            left: None,
            seconds: seconds * factor,
            cpu_seconds: Some(seconds * factor * 0.7),
            peak_bytes: Some(shape.pods as u64 * 200 * tenths),
            resident_bytes: None,
            server_cpu_seconds: None,
            calls: vec![CallCount {
                verb: "PUT".to_owned(),
                resource: "pods".to_owned(),
                count: shape.pods as u64 / 50,
            }],
            calls_unknown: None,
            details: Vec::new(),
        };
        SubjectReport {
            name: name.to_owned(),
            command: name.to_owned(),
            scenarios: vec![scenario(Scenario::Start, pods / 12_000.0), scenario(Scenario::TaintStorm, pods / 9_000.0)],
            curve: [(1_000, 0.000_3), (10_000, 0.000_32), (50_000, 0.000_4)]
                .map(|(pods, seconds)| CurvePoint {
                    pods,
                    pods_of_budget: 50,
                    syncs: 1_000,
                    cpu_seconds: seconds * factor,
                    seconds: seconds * factor * 3.0,
                })
                .to_vec(),
        }
    };
    let subjects = vec![subject("plumbline-controllers", 10), subject("kube-controller-manager", 26)];
    ScaleReport {
        api_version: "plumbline/v1".to_owned(),
        kind: KIND.to_owned(),
        cluster: "fake".to_owned(),
        kubernetes_version: "v1.36.0".to_owned(),
        processors: 2,
        shape,
        comparisons: compare(shape, &subjects),
        subjects,
        sizes: Vec::new(),
    }
}
