//! Five pages that show everything: an overview, a failure's timeline, two subjects, changed snapshots, curves.

use std::path::{Path, PathBuf};

use maud::html;
use plumbline_suite::html::chart::{Chart, Series, charts, legend};
use plumbline_suite::html::plain_page;

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

/// A page of measurements with two subjects and three sizes, as the load tests make it.
fn curves() -> String {
    let names = ["plumbline-controllers", "kube-controller-manager"].map(str::to_owned);
    let title = format!("plumbline: {}", names.join(" and "));
    let content = html! {
        p.soft { "fake v1.36.0 · 2 processors, shared by subject, server and load" }
        (legend(&names))
        @for (scenario, pods_per_second) in [("start", 12_000.0), ("taint-storm", 9_000.0)] {
            section { h2 { (scenario) } (charts(&measured(&names, scenario, pods_per_second))) }
        }
    };
    plain_page(&title, content)
}

/// Charts of a scenario: the second subject takes 2.6 times as long as the first.
fn measured(names: &[String], scenario: &str, pods_per_second: f64) -> Vec<Chart> {
    let series = |value: &dyn Fn(f64, f64) -> f64| -> Vec<Series> {
        let of = |(name, factor): (&String, f64)| {
            Series::new(name, [15_000.0, 45_000.0, 150_000.0].map(|pods| (pods, value(pods, factor))).to_vec())
        };
        names.iter().zip([1.0, 2.6]).map(of).collect()
    };
    let seconds = |value: f64| format!("{value:.2} s");
    let chart = |title: &str, tell: fn(f64) -> String, series| {
        let title = format!("{scenario}: {title}");
        Chart { title, size: "pods", series, limit: None, tell }
    };
    vec![
        chart("time", seconds, series(&|pods, factor| pods / pods_per_second * factor)),
        chart("CPU time", seconds, series(&|pods, factor| pods / pods_per_second * factor * 0.7)),
        chart("peak memory", |bytes| format!("{:.0} MB", bytes / 1e6), series(&|pods, factor| pods * 2_000.0 * factor)),
        chart("calls", |count| format!("{count:.0}"), series(&|pods, _| pods / 50.0)),
    ]
}
