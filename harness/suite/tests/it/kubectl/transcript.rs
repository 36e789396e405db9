//! Transcripts of kubectl: `kubectl/*.txt` contain commands and their output against kube-apiserver 1.36 with its
//! controller manager. `sh` runs each of them again in `kubectl/files` against `plumbline serve`; the outputs are
//! compared line by line.
//!
//! A command follows `$ `; its output (standard output and error, in their order) ends before the next one; `[exit N]`
//! is a non-zero exit code. `#flags` in the first line are the server's. Values that differ from run to run are
//! normalized on both sides: see [`Normalizer`]. The texts were recorded from the real server with the same kubectl,
//! never from this one. No kubelet ran beside the real server, so commands that print a pod's status leave out
//! `observedGeneration` and `resources`, which a kubelet of 1.36 writes and `--kubelet` does, too.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use regex::Regex;

use super::{Controllers, Session};

/// The time that a command takes at least on a real machine. Controllers act in it, also where time is virtual.
const COMMAND_TIME: Duration = Duration::from_millis(300);

/// A command and its output.
struct Step<'a> {
    command: &'a str,
    output: String,
}

fn steps(text: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command, output: String::new() });
        } else if let Some(step) = steps.last_mut() {
            step.output.push_str(line);
            step.output.push('\n');
        }
    }
    steps
}

/// Replaces values that differ between runs.
struct Normalizer(Vec<(Regex, &'static str)>);

impl Normalizer {
    fn new() -> Self {
        // The alphabet of generated names.
        const L: &str = "[bcdfghjklmnpqrstvwxz2456789]";
        let rules = [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z".to_owned(), "TIME"),
            (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}".to_owned(), "TIME"),
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".to_owned(), "UID"),
            (r#"(resourceVersion"?: )"\d+""#.to_owned(), "${1}\"N\""),
            (r"(Resource Version:\s+)\d+".to_owned(), "${1}N"),
            (format!(r#"(-|hash=|hash: "?){L}{{8,10}}\b"#), "${1}HASH"),
            (format!(r"-{L}{{5}}\b"), "-RAND"),
            (r"https?://127\.0\.0\.1:\d+".to_owned(), "SERVER"),
            (r"\b10\.\d+\.\d+\.\d+\b".to_owned(), "IP"),
            // No kubelet ran beside the real server: a script wrote the address of its nodes.
            (r"(hostIP:|- ip:) (127\.0\.0\.1|172\.18\.\d+\.\d+)$".to_owned(), "${1} HOST"),
            (r#"/tmp/[^ "]*"#.to_owned(), "TMP"),
            (r"(^|\s)(<invalid>|\d{1,2}s|\d+m(?:\d+s)?|\d+\.\d+s)($|[\s,()])".to_owned(), "${1}AGE${3}"),
        ];
        Self(rules.into_iter().map(|(rule, to)| (Regex::new(&rule).expect("a valid rule"), to)).collect())
    }

    /// Collapses runs of spaces, which depend on the widths of names and ages; keeps indentation.
    fn line(&self, line: &str) -> String {
        let mut text = line.to_owned();
        for (rule, to) in &self.0 {
            text = rule.replace_all(&text, *to).into_owned();
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return String::new();
        }
        let indent = text.len() - text.trim_start_matches(' ').len();
        format!("{}{}", " ".repeat(indent), words.join(" "))
    }

    fn lines(&self, text: &str) -> Vec<String> {
        let mut lines: Vec<String> = text.lines().map(|line| self.line(line)).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }
}

fn run(session: &Session, folder: &Path, command: &str) -> String {
    // One pipe for both streams keeps their order.
    let output = session
        .shell(&format!("exec 2>&1; {command}"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("sh runs");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let _ = writeln!(text, "[exit {}]", output.status.code().unwrap_or(-1));
    }
    text
}

/// Runs `kubectl/NAME.txt`; prints every difference and fails if there is one.
pub(super) fn replay(name: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/kubectl");
    let text = fs::read_to_string(here.join(format!("{name}.txt"))).expect("a transcript");
    let flags: Vec<&str> =
        text.lines().find_map(|line| line.strip_prefix("#flags ")).unwrap_or("").split(' ').collect();
    let flags: Vec<&str> = flags.into_iter().filter(|flag| !flag.is_empty()).collect();
    let Some(session) = Session::start(&flags) else { return };
    let _controllers = flags.contains(&"--kubelet").then(|| Controllers::start(&session, "disruption-controller"));
    let normalizer = Normalizer::new();
    let mut failures = String::new();
    let steps = steps(&text);
    assert!(!steps.is_empty(), "{name}: nothing to run");
    for step in &steps {
        std::thread::sleep(COMMAND_TIME);
        let printed = normalizer.lines(&run(&session, &here.join("files"), step.command));
        // Recorded texts are normalized already; normalizing is idempotent.
        let recorded = normalizer.lines(&step.output);
        if printed != recorded {
            let _ = writeln!(failures, "$ {}", step.command);
            for change in similar::TextDiff::from_lines(&recorded.join("\n"), &printed.join("\n")).iter_all_changes() {
                let sign = match change.tag() {
                    similar::ChangeTag::Equal => continue,
                    similar::ChangeTag::Delete => "real  ",
                    similar::ChangeTag::Insert => "ours  ",
                };
                let _ = writeln!(failures, "{sign}{}", change.value().trim_end_matches('\n'));
            }
        }
    }
    assert!(failures.is_empty(), "{name}: differs from what the real server makes kubectl print\n{failures}");
}

/// A shell with kubectl, the session's kubeconfig and no user-defined editor.
pub(super) fn shell(session: &Session, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    session.set_environment(&mut command);
    command.env("EDITOR", "false");
    let mut path = session.folder.join("bin").into_os_string();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    command.env("PATH", path);
    command
}

#[test]
fn ages_names_and_addresses_are_put_aside() {
    let normalizer = Normalizer::new();
    for (line, expected) in [
        ("web-865dc4c7d9-x2b4c   1/1     Running   0   12s", "web-HASH-RAND 1/1 Running 0 AGE"),
        ("    resourceVersion: \"12\"", "    resourceVersion: \"N\""),
        ("Server at https://127.0.0.1:4711 and 10.96.0.1", "Server at SERVER and IP"),
        ("tolerates it for 300s", "tolerates it for 300s"),
        ("   ", ""),
    ] {
        assert_eq!(normalizer.line(line), expected);
    }
}
