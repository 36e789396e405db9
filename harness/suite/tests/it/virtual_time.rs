//! Programs in virtual time: `plumbline test`, and `run --command`.
//!
//! Needs a machine on which programs can be traced; others skip.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rstest::rstest;

use crate::support;

/// Returns true if programs can be traced here.
fn can_trace() -> bool {
    let output = plumbline(&["test", "--", "true"]);
    let is_possible = output.status.success();
    if !is_possible {
        crate::skips::skip("virtual_time", &String::from_utf8_lossy(&output.stderr));
    }
    is_possible
}

fn plumbline(arguments: &[&str]) -> Output {
    let mut command = support::program();
    command.args(arguments).env_remove("RUST_LOG").env_remove("PLUMBLINE_FIXTURES");
    command.current_dir(crate::source_files::repository()).output().expect("the program starts")
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn waiting_costs_nothing_and_the_exit_code_is_that_of_the_command() {
    if !can_trace() {
        return;
    }
    let script =
        "test -r \"$KUBECONFIG\" && test $USE_EXISTING_CLUSTER = true && sleep 3600 && date -u +%FT%TZ; exit 7";
    let output = plumbline(&["test", "--epoch", "2030-01-01T00:00:00Z", "--", "sh", "-c", script]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(7), "{out}{err}");
    assert_eq!(out, "2030-01-01T01:00:00Z\n", "{err}");
    assert!(err.contains("plumbline: virtual time: 3600."), "{err}");
    assert!(err.contains("the command ended with exit status: 7; "), "{err}");
    // Heartbeats of nodes, some hundred in an hour, and the cluster's own objects would hide what a test is about.
    assert!(!err.contains("clusterrolebindings/") && !err.contains("kube-node-lease:leases"), "{err}");
}

/// The control API moves the virtual time that the cluster shares with the command.
#[test]
fn a_command_can_move_the_time_and_sees_the_consequences() {
    if Command::new("python3").arg("--version").output().is_err() {
        return crate::skips::skip("virtual_time", "there is no python3");
    }
    if !can_trace() {
        return;
    }
    let script = r#"
import json, os, ssl, time, urllib.request
def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + os.environ["PLUMBLINE_TOKEN"], "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["PLUMBLINE_URL"] + path, data, headers)
    return json.load(urllib.request.urlopen(request, context=ssl._create_unverified_context()))
job = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}
ask("/apis/batch/v1/namespaces/default/cronjobs", {"apiVersion": "batch/v1", "kind": "CronJob",
    "metadata": {"name": "often"}, "spec": {"schedule": "*/10 * * * *", "jobTemplate": job}})
begin = time.time()
now = ask("/plumbline/clock", {"advance": "31m"})
jobs = ask("/apis/batch/v1/namespaces/default/jobs")["items"]
print(now["now"], round(time.time() - begin), [job["status"].get("succeeded") for job in jobs])
settled = ask("/plumbline/clock", {"settle": True})
print(settled["now"], round(time.time() - begin))
"#;
    let output = plumbline(&["test", "--epoch", "2030-01-01T00:00:00Z", "--", "python3", "-c", script]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert_eq!(out, "2030-01-01T00:31:00Z 1860 [1, 1, 1]\n2030-01-01T00:31:00Z 1860\n", "{err}");
}

#[test]
fn what_cannot_be_started_or_takes_too_long_is_named() {
    if !can_trace() {
        return;
    }
    let output = plumbline(&["test", "--", "/no/such/program"]);
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(127), "{err}");
    assert!(err.contains("unable to start /no/such/program"), "{err}");
    let output = plumbline(&["test", "--", "/dev/null"]);
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(126), "{err}");
    assert!(err.contains("unable to start /dev/null: Permission denied"), "{err}");
    // A program that hangs is the one whose transcript is needed.
    let script = "
import os, ssl, time, urllib.request
headers = {'Authorization': 'Bearer ' + os.environ['PLUMBLINE_TOKEN'], 'Content-Type': 'application/json'}
url = os.environ['PLUMBLINE_URL'] + '/api/v1/namespaces'
request = urllib.request.Request(url, b'{\"metadata\": {\"name\": \"shop\"}}', headers)
urllib.request.urlopen(request, context=ssl._create_unverified_context())
time.sleep(7200)
";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("transcript");
    for flags in [&["--transcript", file.to_str().expect("UTF-8")][..], &[]] {
        let output = plumbline(&[&["test", "--limit", "1h"], flags, &["--", "python3", "-c", script]].concat());
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(124), "{err}");
        assert!(err.contains("the limit of virtual time was reached (--limit); everything was killed"), "{err}");
        assert_eq!(
            err.contains("the run was ended; the transcript of the cluster since its"),
            flags.is_empty(),
            "{err}"
        );
    }
    let transcript = std::fs::read_to_string(&file).expect("the transcript");
    assert!(transcript.contains("POST   namespaces/shop 201"), "{transcript}");
}

fn command() -> String {
    format!("{} --leader-elect=false --kube-api-qps=0", support::controllers().display())
}

/// A program of any language is judged to the millisecond, also by fixtures of hours.
#[test]
fn a_program_is_judged_in_virtual_time() {
    if !can_trace() {
        return;
    }
    let command = command();
    let fixtures = [
        "podgc/orphaned-quarantine-to-the-second",
        "taint-eviction/default-tolerations-last-five-minutes",
        // Steps of one instant, and windows of ten milliseconds.
        "disruption/events-are-held-back",
        "disruption/owner-without-pods",
    ];
    let output = plumbline(&[&["run", "--command", &command], &fixtures[..]].concat());
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.contains(" of virtual time") && !out.contains("skipped"), "{out}");
    assert!(err.contains("plumbline: virtual time: "), "{err}");
}

/// The jobs of a run are processes, which get the fixtures as the archive has them.
#[test]
fn failures_of_a_program_are_replayed_in_virtual_time() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [archive, page] = ["out.zip", "page.html"].map(|name| folder.path().join(name).display().to_string());
    // It ignores the flags of the fixture.
    let script = format!("exec {} --kubeconfig=$0 --controllers=$1", command());
    let command = format!("sh -c '{script}' {{kubeconfig}} {{controllers}} {{flags}}");
    let run = ["run", "--command", &command, "--evidence", &archive, "--format", "html", "-o", &page];
    let output = plumbline(&[&run[..], &["podgc/terminated-threshold", "podgc/orphaned-quarantine-40s"]].concat());
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(100), "{out}{err}");
    // The page draws the record of the other process.
    let page = std::fs::read_to_string(&page).expect("a page");
    let block = page.split_once("id=\"block-0\">").and_then(|(_, rest)| rest.split_once("</script>")).expect("a block");
    let block = STANDARD.decode(block.0).expect("base64");
    let mut drawn = String::new();
    flate2::read::ZlibDecoder::new(&block[..]).read_to_string(&mut drawn).expect("JSON");
    assert!(drawn.contains("\"verb\":\"DELETE\""), "{drawn}");
    let output = plumbline(&["replay", "--trust", &archive]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.contains("came out the same: outcome, failures and transcript are equal (failed)"), "{out}");
}

/// A process that runs fixtures may die, for example for lack of memory. That says nothing about the subject.
#[rstest]
#[case::once("mkdir \"$0.killed\"", 0, "2 passed of 2")]
#[case::always("true", 96, "2 not run of 2")]
fn a_process_that_dies_fails_no_fixture(#[case] condition: &str, #[case] code: i32, #[case] tally: &str) {
    if !can_trace() {
        return;
    }
    // From its second start on it kills the process of the fixture, which is the parent of its guard.
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("subject.sh");
    let text = format!(
        "#!/bin/sh\nif test -e \"$0.checked\" && {condition}; then\n  kill -KILL $(ps -o ppid= -p $PPID)\nfi\n\
         touch \"$0.checked\"\nexec \"$@\"\n"
    );
    std::fs::write(&script, text).expect("a file");
    let command = format!("sh {} {}", script.display(), command());
    let fixtures = ["ttl/grow-100-to-101", "podgc/orphaned-quarantine-40s"];
    let output = plumbline(&[&["run", "-j", "1", "--command", &command], &fixtures[..]].concat());
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    assert!(out.contains(tally), "{out}{err}");
    let lost = err.contains("the process that ran the fixture ended with signal: 9");
    assert_eq!(lost, code != 0, "{err}");
}

/// A program that computes without an end lets no virtual time pass, so that only real time can end its fixture.
#[test]
fn a_program_that_never_rests_fails_its_fixture_at_the_limit() {
    if !can_trace() {
        return;
    }
    // From its second start on: the first one is the rehearsal.
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("subject.sh");
    let text =
        "#!/bin/sh\nif test -e \"$0.checked\"; then while :; do :; done; fi\ntouch \"$0.checked\"\nexec \"$@\"\n";
    std::fs::write(&script, text).expect("a file");
    let command = format!("sh {} {}", script.display(), command());
    let run = ["run", "-j", "1", "--fixture-limit", "8s", "--command", &command, "ttl/grow-100-to-101"];
    let output = plumbline(&run);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(100), "{out}{err}");
    for part in ["ttl/grow-100-to-101", "it had not ended after 8 s of real time: the thread sh of ", "--fixture-limit"]
    {
        assert!(out.contains(part), "{part}: {out}{err}");
    }
    let run = ["run", "--fixture-limit", "3s", "--command", "sh -c 'while :; do :; done' {kubeconfig}", "ttl/grow-*"];
    let output = plumbline(&run);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(96), "{out}{err}");
    assert!(err.contains("does not start, so no fixture was run: it had not ended after 3 s"), "{err}");
}

/// A signal ends fixtures in other processes, too, and what has been shown is kept.
#[test]
fn a_signal_ends_the_processes_of_a_run() {
    if !can_trace() {
        return;
    }
    let command = command();
    let mut run = support::program();
    run.args(["run", "-j", "2", "--suite", "podgc,taint-eviction", "--command", &command]);
    run.env_remove("RUST_LOG").env_remove("PLUMBLINE_FIXTURES").current_dir(crate::source_files::repository());
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains(" jobs\n") {
        assert!(said.read_line(&mut text).expect("text") > 0, "{text}");
    }
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    let status = child.wait().expect("an end");
    said.read_to_string(&mut text).expect("text");
    assert_eq!(status.code(), Some(96), "{text}");
    assert!(text.contains("not run: interrupted by SIGTERM") && !text.contains("failed"), "{text}");
}

/// Servers that somebody else started live in the time of their machine.
#[test]
fn only_servers_that_are_started_here_live_in_virtual_time() {
    let output = plumbline(&["run", "--cluster", "kubeconfig", "--time", "virtual", "ttl/grow-100-to-101"]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{out}{err}");
    assert!(err.contains("--time virtual requires --cluster fake or envtest"), "{err}");
}

#[test]
fn runs_of_a_program_are_repeated_and_compared() {
    if !can_trace() {
        return;
    }
    let output = plumbline(&["repeat", "--runs", "3", "--command", &command(), "ttl/grow-100-to-101"]);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.contains("1 fixtures, 3 runs of each") && out.contains("no difference"), "{out}");
    assert!(err.contains("plumbline: virtual time: "), "{err}");
}

/// Go's own test command beside a cluster. The module needs nothing but the standard library.
#[test]
fn a_suite_in_go_waits_for_nothing() {
    if Command::new("go").arg("version").output().is_err() {
        return crate::skips::skip("virtual_time: go", "there is no go");
    }
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("go.mod"), "module example.com/hour\n\ngo 1.22\n").expect("a file");
    let test = r#"package hour

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func TestNodesAreThereAfterAnHour(t *testing.T) {
	start := time.Now()
	time.Sleep(time.Hour)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	request, _ := http.NewRequest("GET", os.Getenv("PLUMBLINE_URL")+"/api/v1/nodes", nil)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("PLUMBLINE_TOKEN"))
	reply, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(reply.Body)
	if !strings.Contains(string(body), "node-1") || time.Since(start) != time.Hour {
		t.Errorf("%v after %v", string(body), time.Since(start))
	}
}
"#;
    std::fs::write(folder.path().join("hour_test.go"), test).expect("a file");
    let arguments =
        ["test", "--", "sh", "-c", "cd \"$0\" && go test -timeout 24h ./...", folder.path().to_str().expect("a path")];
    let output = plumbline(&arguments);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.starts_with("ok  \texample.com/hour\t360"), "{out}");
}
