//! `xtask upstream` with a small program in the place of Kubernetes' e2e.test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/fake-e2e.sh");

fn run(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["upstream", "--e2e-test", program, "--limit", "5s"]).args(arguments);
    command.output().expect("the program starts")
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Returns the last word of each spec of a JSON report with the value of a field.
fn by_spec(report: &Value, pointer: &str) -> Vec<(String, String)> {
    let specs = report["specs"].as_array().expect("specs").iter();
    let name =
        |spec: &Value| spec["text"].as_str().expect("a text").split(" should ").nth(1).expect("a name").to_owned();
    specs.map(|spec| (name(spec), spec.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned())).collect()
}

fn pairs(pairs: [(&str, &str); 5]) -> Vec<(String, String)> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

#[test]
fn each_failing_spec_is_a_new_difference() {
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upstream-logs");
    let _ = std::fs::remove_dir_all(&logs);
    let folder = logs.display().to_string();
    let (code, out, err) = texts(&run(FAKE, &["--format", "json", "--logs", &folder, "--", "--extra"]));
    assert_eq!(code, Some(101), "{err}");
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((report["kubernetes"].as_str(), report["controllers"].as_str()), (Some("v1.36.2"), Some("plumbline")));
    let outcomes = pairs([
        ("crash", "crashed"),
        ("read flags", "passed"),
        ("refuse", "failed"),
        ("wait", "timedOut"),
        ("work [Conformance]", "passed"),
    ]);
    assert_eq!(by_spec(&report, "/ours/outcome"), outcomes);
    let verdicts = pairs([
        ("crash", "new"),
        ("read flags", "same"),
        ("refuse", "new"),
        ("wait", "new"),
        ("work [Conformance]", "same"),
    ]);
    assert_eq!(by_spec(&report, "/verdict"), verdicts);
    assert_eq!(report["conformance"]["api-machinery"], serde_json::json!({"specs": 1, "ours": 1}));
    let refused = &report["specs"][2]["ours"];
    assert_eq!((&refused["message"], &refused["place"]), (&"expected 403, got 201".into(), &"fake.go:7".into()));
    assert!(err.contains("5/5 serve: ") && err.contains("again serve: CRASHED"), "{err}");
    assert!(logs.join("serve.log").is_file() && logs.join("serve-0000.log").is_file());
}

#[test]
fn specs_are_compared_with_a_real_cluster() {
    let real = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-kubeconfig");
    std::fs::write(&real, "kind: Config\n").expect("a writable folder");
    let (code, out, err) = texts(&run(FAKE, &["--beside", &real.display().to_string()]));
    assert_eq!(code, Some(101), "{err}");
    assert!(out.contains("suite                      specs    real    ours    both\n"), "{out}");
    assert!(out.contains("api-machinery                  5       5       1       1\n"), "{out}");
    assert!(out.contains("of these [Conformance]         1       1       1       1\n"), "{out}");
    assert!(out.contains("new differences: 4\n"), "{out}");
    let refused = "  [sig-api-machinery] ResourceQuota should refuse\n    here: FAILED (0.0 s) expected 403, got 201 fake.go:7\n    real: passed (0.0 s)";
    assert!(out.contains(refused), "{out}");
}

#[test]
fn a_run_without_new_differences_succeeds() {
    let (code, out, err) = texts(&run(FAKE, &["--focus", "should work", "--serve", "--nodes 1 --kubelet"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("e2e.test v1.36.2 against plumbline serve --nodes 1 --kubelet, controllers: plumbline\n"));
    assert!(out.ends_with("of these [Conformance]         1       1\n"), "{out}");
    let (code, out, err) = texts(&run(FAKE, &["--list"]));
    assert_eq!((code, out.lines().count()), (Some(0), 5), "{err}");
    assert!(out.contains(" s  [sig-api-machinery] ResourceQuota should refuse\n"), "{out}");
}

#[test]
fn what_cannot_be_run_is_said() {
    let (code, _, err) = texts(&run(FAKE, &["--focus", "no such spec"]));
    assert_eq!((code, err.contains("none of the 6 specs of the test program is selected")), (Some(4), true), "{err}");
    let (code, _, err) = texts(&run("/no/such/e2e.test", &[]));
    assert_eq!((code, err.contains("/no/such/e2e.test")), (Some(2), true), "{err}");
    let (code, _, err) = texts(&run("/bin/true", &[]));
    assert_eq!((code, err.contains("/bin/true is no e2e.test of Kubernetes")), (Some(96), true), "{err}");
    let (code, _, err) = texts(&run(FAKE, &["--serve", "--no-such-flag"]));
    assert_eq!((code, err.contains("plumbline serve: ")), (Some(96), true), "{err}");
    let manager: PathBuf = "/bin/false".into();
    let (code, _, err) = texts(&run(FAKE, &["--controller-manager", &manager.display().to_string()]));
    let why = "kube-controller-manager ended during the run: /usr/bin/false exited with code 1";
    assert_eq!((code, err.contains(why) || err.contains(&why.replace("/usr", ""))), (Some(96), true), "{err}");
}
