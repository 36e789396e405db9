//! `conform`, `verify` and `compare` on the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use plumbline::time::Stopwatch;
use plumbline_suite::conformance::report::{ConformanceOutcome, ConformanceReport};

use crate::support;

/// A pod of a missing node is deleted after its quarantine.
const GOOD: &str = include_str!("../samples/good.yaml");

/// Like [`GOOD`], with an expectation that cannot hold.
const BAD: &str = "\
promise: A pod of a missing node lives for ever.
rule: BR-24-03
level: hardened
feature: podgc.orphaned
source: kubernetes/kubernetes#1
given: { nodes: [n1], pods: [a on n1] }
steps:
- { at: 5s, delete: nodes/n1 }
- { until: 300s, consistently: { exists: pods/a } }
allow: [WRITE pods/a, WRITE pods/a/status]
";

const PROFILES: &str = "\
profiles:
- { name: podgc, about: The collector., fixtures: [podgc/*] }
";

/// The description of our own controllers, the only ones that `--subject in-process` may judge.
const CLAIM: &str = "\
organization: Example
project: plumbline-controllers
url: https://github.com/plumbline/plumbline
version: v1.2.3
contacts: [ops@example.org]
features: [podgc.*]
";

const DEVIATION: &str = "- { fixtures: podgc/bad, reason: Nothing lives for ever., upstream: example/collector#1 }\n";

/// Creates a folder for the test of this name: fixtures, profiles, a claim, and `files`.
fn folder(test: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance").join(test);
    let _ = fs::remove_dir_all(&root);
    let usual = [("fixtures/podgc/good.yaml", GOOD), ("fixtures/profiles.yaml", PROFILES), ("me.yaml", CLAIM)];
    for (name, text) in usual.iter().chain(files) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
        fs::write(path, text).expect("a writable file");
    }
    root
}

fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = support::program();
    command.current_dir(folder).env_remove("PLUMBLINE_FIXTURES").args(arguments.split_whitespace());
    command
}

/// Returns exit code, standard output and standard error.
fn plumbline(folder: &Path, arguments: &str) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(folder, arguments).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn report(folder: &Path) -> ConformanceReport {
    let report = |name: &str| ConformanceReport::read(&read(&folder.join("conformance").join(name)));
    let yaml = report("report.yaml").expect("our own document");
    assert_eq!(report("report.json").as_ref(), Ok(&yaml));
    yaml
}

const CONFORM: &str = "conform --implementation me.yaml --subject in-process";

#[test]
fn who_passes_everything_is_conformant() {
    let root = folder("passes", &[]);
    let (code, out, err) = plumbline(&root, CONFORM);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("plumbline-controllers v1.2.3 (in-process) on embedded v1.36.0"), "{out}");
    assert!(out.contains("podgc            ✓ conformant") && out.contains("conformance/report.yaml"), "{out}");
    let report = report(&root);
    assert_eq!((report.fixtures.len(), report.with(ConformanceOutcome::Pass).count()), (1, 1));
    assert_eq!(report.implementation.features, ["podgc.*"]);
    assert!(report.subject.digest.as_deref().is_some_and(|digest| digest.starts_with("sha256:")));
    assert!(read(&root.join("conformance/junit.xml")).contains("podgc/good"));
    for name in ["report.yaml", "report.json"] {
        let (code, out, err) = plumbline(&root, &format!("verify conformance/{name}"));
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.contains("is consistent: 1 fixtures") && out.contains("all              conformant"), "{out}");
    }
}

/// A forgotten `--command` must not judge our own controllers in the name of another project, nor may its report pass.
#[test]
fn our_controllers_speak_for_no_other_project() {
    let other = CLAIM.replace("project: plumbline-controllers", "project: other");
    let root = folder("other-project", &[("other.yaml", &other)]);
    let cases = [
        ("other.yaml", "", "name the program of other with --command"),
        ("me.yaml", "", "name the program of plumbline-controllers with --command"),
        ("other.yaml", "--subject in-process", "other.yaml describes other: name its program with --command"),
        ("other.yaml", "--subject none", "leaves nothing to judge"),
        ("other.yaml", "--command plumbline-controllers", "--command runs plumbline-controllers: Plumbline's own"),
        ("other.yaml", "--command ./collector", "is that of a program of this installation: Plumbline's own"),
    ];
    // A copy under another name.
    std::os::unix::fs::symlink(support::PROGRAM, root.join("collector")).expect("a writable folder");
    for (claim, flags, says) in cases {
        let (code, out, err) = plumbline(&root, &format!("conform --implementation {claim} {flags}"));
        assert_eq!(code, 2, "{claim} {flags}: {out}{err}");
        assert!(err.contains(says), "{claim} {flags}: {err}");
        assert!(!root.join("conformance").exists(), "{claim} {flags}: nothing was judged");
    }
    assert_eq!(plumbline(&root, CONFORM).0, 0);
    let file = root.join("conformance/report.yaml");
    let mut report = report(&root);
    report.implementation.project = "other".to_owned();
    report.seal();
    fs::write(&file, report.to_yaml().expect("YAML")).expect("a writable file");
    for verb in ["verify", "publish"] {
        let (code, out, err) = plumbline(&root, &format!("{verb} conformance/report.yaml"));
        assert_eq!(code, 5, "{verb}: {out}{err}");
        assert!(err.contains("Plumbline's own controllers were tested, not those of other"), "{verb}: {err}");
    }
    // Edited further, it says what the run has shown.
    report.subject.kind = "command".to_owned();
    report.subject.what = "./collector".to_owned();
    for (field, edit) in [
        ("subject.clients: names plumbline-controllers/", (|_| ()) as fn(&mut ConformanceReport)),
        ("subject.digest: is that of a program of this installation", |report| report.subject.clients.clear()),
    ] {
        edit(&mut report);
        report.seal();
        fs::write(&file, report.to_yaml().expect("YAML")).expect("a writable file");
        let (code, out, err) = plumbline(&root, "verify conformance/report.yaml");
        assert_eq!(code, 5, "{out}{err}");
        assert!(err.contains(field), "{field}: {err}");
    }
}

#[test]
fn two_runs_differ_in_their_time_only() {
    let root = folder("same-bytes", &[("fixtures/podgc/bad.yaml", BAD)]);
    let bytes = || {
        assert_eq!(plumbline(&root, CONFORM).0, 100);
        ["report.yaml", "report.json", "evidence/index.yaml", "evidence/podgc/bad/transcript.txt"].map(|name| {
            let text = read(&root.join("conformance").join(name));
            let lines = text.lines().filter(|line| !line.trim_start().trim_start_matches('"').starts_with("time"));
            lines.collect::<Vec<_>>().join("\n")
        })
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn a_failure_is_named_and_leaves_evidence() {
    let root = folder("fails", &[("fixtures/podgc/bad.yaml", BAD)]);
    let (code, out, _) = plumbline(&root, CONFORM);
    assert_eq!(code, 100);
    assert!(out.contains("FAIL   podgc/bad (hardened)") && out.contains("evidence/index.yaml"), "{out}");
    assert!(out.contains("✓ conformant"), "the core passed: {out}");
    let evidence = root.join("conformance/evidence/podgc/bad");
    assert!(read(&evidence.join("transcript.txt")).contains("DELETE pods/a 200"));
    assert!(read(&evidence.join("failures.txt")).contains("fixtures/podgc/bad.yaml:9: "));
    let objects = read(&evidence.join("objects.yaml"));
    assert!(
        objects.contains("kind: Namespace") && !objects.contains("kind: Node\n"),
        "as it was in the end: {objects}"
    );
    assert!(evidence.join("subject.log").exists());
    assert!(read(&root.join("conformance/evidence/index.yaml")).contains("podgc/bad"));
    assert!(read(&root.join("conformance/evidence/_passed/podgc/good.txt")).contains("DELETE pods/a 200"));
    assert_eq!(plumbline(&root, "verify conformance/report.yaml").0, 0, "the report is true, that is all");
    assert!(out.contains("again     plumbline replay conformance\n"), "{out}");
    let (code, again, err) = plumbline(&root, "replay conformance");
    assert_eq!(code, 0, "{again}{err}");
    assert_eq!(again, "podgc/bad came out the same: outcome, failures and transcript are equal (failed)\n");
    fs::write(evidence.join("failures.txt"), "not our fault").expect("a writable folder");
    let (code, _, err) = plumbline(&root, "verify conformance/report.yaml");
    assert_eq!(code, 5);
    assert!(err.contains("evidence/podgc/bad/failures.txt: does not match its digest in evidence.sha256"), "{err}");
}

#[test]
fn a_known_deviation_is_distinguished() {
    let files = [("fixtures/podgc/bad.yaml", BAD), ("fixtures/deviations/plumbline-controllers.yaml", DEVIATION)];
    let root = folder("deviates", &files);
    let (code, out, err) = plumbline(&root, CONFORM);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("known  podgc/bad (hardened): Nothing lives for ever. (example/collector#1)"), "{out}");
    assert_eq!(report(&root).with(ConformanceOutcome::KnownDeviation).count(), 1);
    let (code, again, err) = plumbline(&root, "replay conformance");
    assert_eq!((code, again.starts_with("podgc/bad came out the same: ")), (0, true), "{again}{err}");
    assert!(root.join("conformance/evidence/podgc/bad/transcript.txt").exists());
    assert_eq!(plumbline(&root, "verify conformance/report.yaml").0, 0);
}

#[test]
fn a_known_deviation_from_the_core_is_no_conformance() {
    let core = BAD.replace("level: hardened", "level: core");
    let files = [("fixtures/podgc/bad.yaml", core.as_str()), ("my.yaml", DEVIATION)];
    let root = folder("deviates-core", &files);
    let (code, out, _) = plumbline(&root, &format!("{CONFORM} --deviations my.yaml"));
    assert_eq!(code, 100);
    assert!(out.contains("✗ not conformant: 1 of 2 core fixtures known to deviate"), "{out}");
    assert!(out.contains("Known deviations in core fixtures still prevent conformance"), "{out}");
}

#[test]
fn deviations_that_are_none_are_errors() {
    let files = [("unneeded.yaml", "- { fixtures: podgc/good, reason: x }\n"), ("nothing.yaml", DEVIATION)];
    let root = folder("unneeded", &files);
    let (code, _, err) = plumbline(&root, &format!("{CONFORM} --deviations unneeded.yaml"));
    assert_eq!(code, 5);
    assert!(err.contains("podgc/good: all of its fixtures passed; remove the entry"), "{err}");
    let (code, _, err) = plumbline(&root, "verify conformance/report.yaml");
    assert_eq!(code, 5);
    assert!(err.contains("deviations[0].fixtures: `podgc/good` is not needed"), "{err}");
    let (code, _, err) = plumbline(&root, &format!("{CONFORM} --deviations nothing.yaml"));
    assert_eq!(code, 3);
    assert!(err.contains("nothing.yaml:1:15: [0].fixtures: `podgc/bad` matches no fixture"), "{err}");
}

#[test]
fn edited_reports_do_not_verify() {
    let root = folder("edited", &[("fixtures/podgc/bad.yaml", BAD)]);
    assert_eq!(plumbline(&root, CONFORM).0, 100);
    let yaml = read(&root.join("conformance/report.yaml"));
    for (from, to, finding) in [
        ("outcome: fail", "outcome: pass", "digest: says sha256:"),
        ("outcome: fail", "outcome: pass", "profiles[0].levels.hardened.fail: says 1, the list of fixtures gives 0"),
        ("fail: 1", "fail: 0", "profiles[0].levels.hardened.fail: says 0, the list of fixtures gives 1"),
        ("id: podgc/bad", "id: podgc/bed", "fixtures[podgc/bad]: is missing, but belongs to profile all"),
        ("id: podgc/bad", "id: podgc/bed", "fixtures[podgc/bed]: the suite has no such fixture"),
        ("id: podgc/bad", "id: podgc/good", "fixtures[podgc/good]: is listed twice"),
        ("mode: virtual", "mode: wall", "mode: contradicts cluster.capabilities"),
        ("outcome: fail", "outcome: splendid", "is not a conformance report: "),
        ("kind: ConformanceReport", "kind: Pod", "kind: says `Pod`"),
    ] {
        assert!(yaml.contains(from), "{yaml}");
        fs::write(root.join("edited.yaml"), yaml.replacen(from, to, 1)).expect("a writable folder");
        let (code, out, err) = plumbline(&root, "verify edited.yaml");
        assert_eq!((code, out.as_str()), (5, ""), "{from} → {to}");
        assert!(err.contains(finding), "{from} → {to}: {err}");
    }
    assert_eq!(plumbline(&root, "run podgc/good --format json --output run.json").0, 0);
    let (code, _, err) = plumbline(&root, "verify run.json");
    assert_eq!(code, 5);
    assert!(err.contains("run.json is not a conformance report: it is a RunReport of `plumbline run`"), "{err}");
    fs::write(root.join("fixtures/podgc/bad.yaml"), format!("# easier\n{BAD}")).expect("a writable folder");
    let (code, _, err) = plumbline(&root, "verify conformance/report.yaml");
    assert_eq!(code, 5);
    assert!(err.contains("suite.digest: says sha256:"), "{err}");
}

#[test]
fn bad_input_is_named_before_anything_runs() {
    let files = [("bad.yaml", "organisation: x\nproject: a/b\n")];
    let root = folder("bad-input", &files);
    for (arguments, code, message) in [
        ("conform --implementation bad.yaml", 3, "bad.yaml:1:1: organisation: unknown field"),
        ("conform --implementation bad.yaml", 3, "bad.yaml:2:10: project: `a/b` cannot be the name of a file"),
        ("conform --implementation none.yaml", 3, "none.yaml: unable to read"),
        ("conform", 2, "--implementation <FILE>"),
        (
            "conform --implementation me.yaml --command sh --profile most",
            2,
            "unknown profile `most`; known: podgc, all",
        ),
        (
            "conform --implementation me.yaml --command sh --fixtures none",
            96,
            "the folder none (--fixtures) does not exist",
        ),
        ("conform --implementation me.yaml --subject in-process --out me.yaml", 96, "unable to write me.yaml"),
        ("conform --implementation me.yaml --command {servr}", 2, "no placeholder {servr}; did you mean {server}?"),
        ("conform --implementation me.yaml --command /no/such/program", 96, "unable to start /no/such/program"),
        ("conform --implementation me.yaml --command sh --features podgc.*", 2, "declare them in me.yaml"),
        ("conform --implementation me.yaml --command sh --tolerance 100s", 2, "applies the fixtures' tolerances"),
        ("verify none.yaml", 96, "unable to read none.yaml"),
        ("verify me.yaml", 5, "is not a conformance report"),
        ("conform --implementation me.yaml --subject in-process --ready-url x", 2, "--ready-url requires --command"),
        ("compare in-process", 2, "<B>"),
        ("compare in-process @none", 96, "unable to read none"),
        ("compare in-process in-process nothing-of-this-name", 4, "selects none of 1 fixtures"),
    ] {
        let (got, out, err) = plumbline(&root, arguments);
        assert_eq!((got, out.as_str()), (code, ""), "{arguments}: {err}");
        assert!(err.contains(message), "{arguments}: {err}");
    }
    fs::remove_file(root.join("fixtures/profiles.yaml")).expect("it is there");
    let (code, _, err) = plumbline(&root, CONFORM);
    assert_eq!(code, 3);
    assert!(err.contains("fixtures/profiles.yaml: unable to read"), "{err}");
}

/// A killed harness leaves `not-run`, never `pass`, for fixtures that had not finished.
#[test]
fn killed_in_mid_run() {
    let root = folder("killed", &[("fixtures/podgc/bad.yaml", BAD)]);
    // On the wall clock both take at least 45 s.
    let mut child = command(&root, &format!("{CONFORM} --wall-clock"));
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let begun = root.join("conformance/report.yaml");
    let waiting = Stopwatch::start();
    while !begun.exists() {
        assert!(waiting.elapsed() < Duration::from_mins(1), "no report was begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(2));
    child.kill().expect("SIGKILL");
    child.wait().expect("an end");
    let report = report(&root);
    assert_eq!(report.with(ConformanceOutcome::NotRun).count(), 2, "{report:?}");
    assert!(report.profiles.iter().all(|profile| !profile.conformant));
    assert!(!root.join("conformance/junit.xml").exists());
    let (code, _, err) = plumbline(&root, "verify conformance/report.yaml");
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("fixtures: none of the 2 listed fixtures has run: the report shows nothing"), "{err}");
}

#[test]
fn two_subjects_are_compared() {
    let root = folder("compare", &[("b.txt", "in-process --kube-api-qps=50\n")]);
    let (code, out, err) = plumbline(&root, "compare in-process @b.txt");
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("no difference in 1 fixtures"), "{out}");
    // A subject that rejects its flags fails where the other passes.
    let arguments = ["compare", "in-process", "in-process --terminated-pod-gc-threshold=x", "--format", "json"];
    let output = command(&root, "").args(arguments).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(101), "{}", String::from_utf8_lossy(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(value["kind"], "Comparison");
    assert_eq!(value["differences"][0]["id"], "podgc/good");
    assert_eq!(value["differences"][0]["a"]["outcome"], "pass");
    assert_eq!(value["differences"][0]["b"]["outcome"], "fail");
    let output =
        command(&root, "").args(&arguments[..3]).args(["--view", "unified"]).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("A: passed") && text.contains("B: failed: "), "{text}");
    assert!(text.contains("- t=+60s") && text.contains("1 of 1 fixtures differ"), "{text}");
    // `explain` runs our controllers without flags, so only one of the subjects has a command that explains it.
    assert!(text.contains("  more of A: plumbline explain podgc/good\n") && !text.contains("more of B"), "{text}");
    assert_eq!(plumbline(&root, "explain podgc/good").0, 0);
}

#[test]
fn reports_become_a_site_with_the_published_ones() {
    let root = folder("site", &[("notes/a.txt", "not a site"), ("fixtures/podgc/bad.yaml", BAD)]);
    let (code, _, err) = plumbline(&root, &format!("{CONFORM} --site notes"));
    assert_eq!(code, 96, "{err}");
    assert!(err.contains("notes contains files that are not a site") && !root.join("conformance").exists(), "{err}");

    let site = format!("{CONFORM} --site site");
    let (code, out, err) = plumbline(&root, &site);
    assert_eq!(code, 100, "a site changes no verdict: {out}{err}");
    assert!(out.contains("site/index.html: ") && out.ends_with("files from 1 report\n"), "{out}");
    assert!(read(&root.join("site/plumbline-controllers-1.36.html")).contains("exists: pods/a"));
    assert_eq!(plumbline(&root, "publish conformance/report.yaml").0, 0);
    let (_, out, err) = plumbline(&root, &format!("{site} --kubernetes-version 1.37"));
    assert!(out.ends_with("files from 2 reports\n"), "{out}{err}");
    let page = read(&root.join("site/index.html"));
    for version in ["1.36", "1.37"] {
        assert!(page.contains(&format!("plumbline-controllers-{version}.html")), "{page}");
    }

    // It shows its run, also in place of a published one of more profiles; a site of both says which one counts.
    let (_, out, err) = plumbline(&root, &format!("{site} --profile podgc"));
    assert!(out.ends_with("files from 1 report\n"), "{out}{err}");
    let (_, out, err) = plumbline(&root, "site harness/reports conformance --out both");
    assert!(out.ends_with("files from 2 reports\n"), "{out}{err}");
    assert!(err.contains("conformance/report.yaml does not count: another report of plumbline-controllers"), "{err}");

    fs::write(root.join("harness/reports/v1.36.0/plumbline-controllers/report.yaml"), "{}").expect("a writable folder");
    let (code, _, err) = plumbline(&root, &site);
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("is not a conformance report"), "{err}");
}

/// Nodes are added, objects contain timestamps, the controllers restart.
const BUSY: &str = "\
promise: Nodes that come get their annotation, also from controllers that have just started.
rule: BR-19-07
level: core
feature: ttl.annotation
given: { nodes: [n1, n2, n3, n4, n5, n6] }
steps:
- { at: 1s, controllers: restart }
- { by: 4s, eventually: { match: { nodes/n6: { metadata: { annotations: { node.alpha.kubernetes.io/ttl: \"0\" } } } } } }
";

/// On the wall clock no two runs agree to the millisecond; a subject compared with itself must not differ all the same.
#[test]
fn who_is_compared_with_himself_on_the_wall_clock_does_not_differ() {
    let root = folder("compare-wall", &[("fixtures/ttl/busy.yaml", BUSY)]);
    let (code, out, err) = plumbline(&root, "compare in-process in-process --wall-clock ttl/busy");
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("no difference in 1 fixtures"), "{out}");
    let (code, _, err) = plumbline(&root, "compare in-process sh --b-flags --no-such-flag ttl/busy");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("flags of one subject, `--no-such-flag`"), "{err}");
}
