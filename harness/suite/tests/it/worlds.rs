//! `plumbline serve` as a cluster for tests in any language: our controllers inside, a clock that clients move, faults,
//! saved states, and several worlds behind one listener.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use crate::serving::{Answer, Server, TOKEN, request};

const JSON: &str = "application/json";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLOCK: &str = "/plumbline/clock";

/// A world: the server, and the prefix of its paths.
struct World<'a>(&'a Server, String);

impl World<'_> {
    #[track_caller]
    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        answer.json()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.0.ask(method, &format!("{}{path}", self.1), JSON, body.as_bytes())
    }

    fn status(&self, path: &str) -> u16 {
        self.ask("GET", path, &Value::Null).status
    }

    #[track_caller]
    fn advance(&self, duration: &str) -> jiff::Timestamp {
        time(&self.send("POST", CLOCK, &json!({"advance": duration})))
    }

    fn now(&self) -> jiff::Timestamp {
        time(&self.send("GET", CLOCK, &Value::Null))
    }
}

fn time(reading: &Value) -> jiff::Timestamp {
    assert_eq!(reading["mode"], "manual", "{reading}");
    reading["now"].as_str().and_then(|now| now.parse().ok()).unwrap_or_else(|| panic!("no time in {reading}"))
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

fn pod(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

#[test]
fn the_quarantine_of_an_orphan_passes_in_milliseconds() {
    let server = Server::start(&["--http", "--clock", "manual", "--controllers", "podgc"]);
    let world = World(&server, String::new());
    let start = world.now();
    assert_eq!(start.subsec_nanosecond(), 0, "times of objects are whole seconds");
    world.send("POST", PODS, &pod("orphan", "gone"));
    // The first round of podgc is after 20 seconds; an orphan waits for 40 more.
    assert_eq!(world.advance("59s").duration_since(start).as_secs(), 59);
    assert_eq!(world.status(&format!("{PODS}/orphan")), 200);
    world.advance("21s");
    assert_eq!(world.status(&format!("{PODS}/orphan")), 404);
    assert_eq!(world.now().duration_since(start).as_secs(), 80, "nothing else moves the clock");
    let settled = world.send("POST", CLOCK, &json!({"settle": true}));
    assert_eq!(settled["now"], world.send("GET", CLOCK, &Value::Null)["now"], "{settled}");
    let text = world.ask("GET", "/plumbline/transcript?format=text", &Value::Null);
    assert!(text.body.contains("podgc          DELETE pods/orphan 200"), "{}", text.body);
    let log = server.log();
    assert!(!log.contains("plumbline_controllers") && !log.contains('\u{1b}'), "no colors in a file: {log}");
}

#[test]
fn a_cluster_like_kind_runs_deployments_and_counts_budgets() {
    let server = Server::start(&["--http", "--clock", "manual", "--like", "kind", "--nodes", "1"]);
    let world = World(&server, String::new());
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": {
            "metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    world.send("POST", "/apis/apps/v1/namespaces/default/deployments", &deployment);
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "x"}}}});
    world.send("POST", budgets, &budget);
    world.advance("30s");
    world.send("GET", "/api/v1/namespaces/kube-system/serviceaccounts/default", &Value::Null);
    let status = &world.send("GET", &format!("{budgets}/web"), &Value::Null)["status"];
    assert_eq!((&status["currentHealthy"], &status["disruptionsAllowed"]), (&3.into(), &1.into()), "{status}");
    // The TTL controller needs no time; the node is tainted, and its pods leave at once.
    let nodes = world.send("GET", "/api/v1/nodes", &Value::Null);
    assert_eq!(nodes["items"][0]["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"], "0", "{nodes}");
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    let merge = "application/merge-patch+json";
    let answer = server.ask("PATCH", "/api/v1/nodes/node-1", merge, taint.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    world.advance("1s");
    let events = world.send("GET", "/api/v1/namespaces/default/events", &Value::Null).to_string();
    assert!(events.contains("TaintManagerEviction"), "{events}");
}

#[test]
fn a_cluster_like_kind_gives_pods_accounts_and_volumes() {
    let server = Server::start(&["--http", "--clock", "manual", "--like", "kind"]);
    let world = World(&server, String::new());
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "serviceName": "db", "replicas": 2, "selector": {"matchLabels": {"app": "db"}}, "volumeClaimTemplates": [claim],
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    // The account of a new namespace is there when the reply to its creation is.
    world.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "shop"}}));
    world.send("POST", "/apis/apps/v1/namespaces/shop/statefulsets", &set);
    world.advance("30s");
    let pod = world.send("GET", "/api/v1/namespaces/shop/pods/db-1", &Value::Null);
    assert_eq!((&pod["status"]["phase"], &pod["spec"]["serviceAccountName"]), (&"Running".into(), &"default".into()));
    let mounts = &pod["spec"]["containers"][0]["volumeMounts"];
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    assert_eq!((&mounts[0]["mountPath"], &mounts[0]["readOnly"]), (&path.into(), &true.into()), "{mounts}");
    let claim = world.send("GET", "/api/v1/namespaces/shop/persistentvolumeclaims/data-db-1", &Value::Null);
    assert_eq!((&claim["status"]["phase"], &claim["spec"]["storageClassName"]), (&"Bound".into(), &"standard".into()));
    let volumes = world.send("GET", "/api/v1/persistentvolumes", &Value::Null);
    assert_eq!(volumes["items"].as_array().map(Vec::len), Some(2), "{volumes}");
    let mut pod = self::pod("p", "");
    pod["spec"]["serviceAccountName"] = "robot".into();
    let refused = world.ask("POST", "/api/v1/namespaces/shop/pods", &pod);
    assert_eq!(refused.status, 403);
    let why = r#"error looking up service account shop/robot: serviceaccount \"robot\" not found"#;
    assert!(refused.body.contains(why), "{}", refused.body);
}

#[test]
fn worlds_are_apart_and_states_come_back() {
    let server = Server::start(&["--http", "--clock", "manual"]);
    let first = World(&server, String::new());
    let described = first.send("POST", "/plumbline/worlds", &json!({"name": "a"}));
    // The requests' header `Host`: the server can have another address for its clients, such as a container's.
    let url = "http://x/plumbline/worlds/a";
    assert_eq!(described["url"], url);
    let kubeconfig = described["kubeconfig"].as_str().expect("a kubeconfig");
    assert!(kubeconfig.contains(&format!("server: {url}\n")) && kubeconfig.contains(TOKEN), "{kubeconfig}");
    let second = World(&server, "/plumbline/worlds/a".to_owned());
    second.send("POST", "/api/v1/nodes", &node("n1"));
    assert_eq!((first.status("/api/v1/nodes/n1"), second.status("/api/v1/nodes/n1")), (404, 200));

    let before = second.now();
    let uid = second.send("GET", "/api/v1/nodes/n1", &Value::Null)["metadata"]["uid"].clone();
    second.send("POST", "/plumbline/state", &json!({"save": "one node"}));
    second.advance("1h");
    second.send("POST", "/api/v1/nodes", &node("n2"));
    second.send("POST", "/plumbline/state", &json!({"restore": "one node"}));
    assert_eq!((second.now(), second.status("/api/v1/nodes/n2")), (before, 404));
    assert_eq!(second.send("GET", "/api/v1/nodes/n1", &Value::Null)["metadata"]["uid"], uid);

    let deleted = second.send("DELETE", "/plumbline/state?name=one%20node", &Value::Null);
    assert_eq!(deleted, json!({"deleted": "one node"}));
    for number in 0..64 {
        second.send("POST", "/plumbline/state", &json!({"save": format!("s{number}")}));
    }
    second.send("POST", "/plumbline/state", &json!({"save": "s0"}));
    let full = second.ask("POST", "/plumbline/state", &json!({"save": "s64"}));
    assert!(full.status == 409 && full.refusal().contains("has 64 saved states"), "{full:?}");

    let state = second.send("GET", "/plumbline/state", &Value::Null);
    first.send("PUT", "/plumbline/state", &state);
    assert_eq!(first.send("GET", "/api/v1/nodes/n1", &Value::Null)["metadata"]["uid"], uid);
    first.send("DELETE", "/plumbline/state", &Value::Null);
    assert_eq!(first.status("/api/v1/nodes/n1"), 404);
    assert_eq!(first.status("/api/v1/namespaces/default"), 200);

    let listed = first.send("GET", "/plumbline/worlds", &Value::Null);
    assert_eq!(listed["items"][0]["name"], "a");
    first.send("DELETE", "/plumbline/worlds/a", &Value::Null);
    let answer = second.ask("GET", "/api/v1/nodes", &Value::Null);
    assert_eq!((answer.status, answer.refusal().contains("POST /plumbline/worlds creates one")), (404, true));
}

#[test]
fn kubectl_works_in_a_world_and_moves_its_clock() {
    let Some(kubectl) = crate::kubectl::kubectl() else { return };
    // kubectl sends no token over plain HTTP.
    let server = Server::start(&["--clock", "manual", "--like", "kind"]);
    let run = |kubeconfig: &Path, line: &str| {
        let mut command = Command::new(&kubectl);
        let output = command.env("KUBECONFIG", kubeconfig).env("HOME", &server.folder).args(line.split(' ')).output();
        let output = output.expect("kubectl starts");
        assert!(output.status.success(), "kubectl {line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let post = |path: &str, body: &str| {
        let file = server.folder.join("body");
        std::fs::write(&file, body).expect("a writable folder");
        run(&server.kubeconfig(), &format!("create --raw {path} -f {}", file.display()))
    };
    let described: Value = serde_json::from_str(&post("/plumbline/worlds", "{}")).expect("a world");
    let world = server.folder.join("world");
    std::fs::write(&world, described["kubeconfig"].as_str().expect("a kubeconfig")).expect("a writable folder");
    let created = run(&world, "create deployment web --image nginx --replicas 2");
    assert_eq!(created, "deployment.apps/web created\n");
    assert!(run(&world, "get deployment web").contains("0/2"));
    post("/plumbline/worlds/world-1/plumbline/clock", "{\"advance\": \"30s\"}");
    assert!(run(&world, "get deployment web").contains("2/2"), "its pods are ready after half a minute");
    assert_eq!(run(&server.kubeconfig(), "get pods -o name"), "", "the first world has none");
    let healthy = run(&world, "get componentstatuses");
    assert!(healthy.contains("scheduler") && !healthy.contains("Unhealthy"), "{healthy}");
    let trusted = run(&world, "get configmap extension-apiserver-authentication -n kube-system -o yaml");
    assert!(trusted.contains("client-ca-file: |\n    -----BEGIN CERTIFICATE-----"), "{trusted}");
}

#[test]
fn watches_pass_events_and_end_with_the_state() {
    let server = Server::start(&["--http", "--clock", "manual"]);
    let world = World(&server, String::new());
    let mut stream = server.connect();
    stream.write_all(&request("GET", "/api/v1/nodes?watch=true", "", b"")).expect("a connection");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.next().expect("a reply").contains("200"));
    world.send("POST", "/api/v1/nodes", &node("n1"));
    assert!(lines.any(|line| line.contains("ADDED") && line.contains("\"n1\"")), "the event arrives");
    world.advance("10m");
    world.send("DELETE", "/plumbline/state", &Value::Null);
    assert_eq!(lines.last().as_deref(), Some(""), "the last chunk");
}

#[test]
fn a_fault_delays_a_request_until_time_has_passed() {
    let server = Server::start(&["--http", "--clock", "manual"]);
    let world = World(&server, String::new());
    let rule = json!({"name": "slow", "on": {"verbs": ["create"], "resource": "nodes"}, "count": 1,
        "verdict": {"delay": {"milliseconds": 60_000}}});
    assert_eq!(world.send("POST", "/plumbline/faults", &rule)["armed"], 1);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| world.send("POST", "/api/v1/nodes", &node("n1")));
        while world.send("GET", "/plumbline/faults?name=slow", &Value::Null)["hits"] == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(world.status("/api/v1/nodes/n1"), 404, "other requests are answered");
        world.advance("1m");
        slow.join().expect("the delayed reply");
    });
    assert_eq!(world.status("/api/v1/nodes/n1"), 200);
    assert_eq!(world.send("DELETE", "/plumbline/faults?name=slow", &Value::Null)["cleared"], 1);
}

#[rstest]
#[case::the_past("POST", CLOCK, json!({"advance": "-5s"}), 400, "a duration cannot be negative")]
#[case::no_time("POST", CLOCK, json!({"advance": "0s"}), 400, "advance must be longer than zero")]
#[case::too_far("POST", CLOCK, json!({"advance": "9000h"}), 400, "advance is longer than 366 days")]
#[case::no_duration("POST", CLOCK, json!({"advance": "soon"}), 400, "write it like 250ms, 5s, 1m30s")]
#[case::no_field("POST", CLOCK, json!({"by": "5s"}), 400, "unknown field `by`, expected `advance` or `settle`")]
#[case::no_order("POST", CLOCK, json!({}), 400, "expected {\"advance\": \"2m\"} or {\"settle\": true}")]
#[case::two_orders("POST", CLOCK, json!({"advance": "5s", "settle": true}), 400, "expected {\"advance\": \"2m\"} or")]
#[case::not_settled("POST", CLOCK, json!({"settle": false}), 400, "expected {\"advance\": \"2m\"} or {\"settle\": true}")]
#[case::no_method("DELETE", CLOCK, Value::Null, 405, "allowed are GET, POST")]
#[case::no_world("GET", "/plumbline/worlds/b", Value::Null, 404, "there is no world \"b\"")]
#[case::no_name("POST", "/plumbline/worlds", json!({"name": "A/b"}), 400, "1 to 63 of the characters a-z, 0-9 and -")]
#[case::no_rule("POST", "/plumbline/faults", json!({"verdict": {"explode": {}}}), 400, "unknown variant `explode`")]
#[case::no_code("POST", "/plumbline/faults", json!({"verdict": {"reply": {"code": 99}}}), 400, "rule 1 (without a name)")]
#[case::no_state("POST", "/plumbline/state", json!({"restore": "x"}), 404, "no state \"x\" was saved in this world; none was: POST")]
#[case::no_saved_state("DELETE", "/plumbline/state?name=x", Value::Null, 404, "no state \"x\" was saved")]
#[case::another_version("PUT", "/plumbline/state", json!({"apiVersion": "v9", "kind": "WorldState",
    "time": "2030-01-01T00:00:00Z", "resourceVersion": "1", "objects": []}), 400, "this program reads \"plumbline.dev/v1\"")]
#[case::unknown_kind("PUT", "/plumbline/state", json!({"apiVersion": "plumbline.dev/v1", "kind": "WorldState",
    "time": "2030-01-01T00:00:00Z", "resourceVersion": "1", "objects": [{"apiVersion": "v9", "kind": "No",
    "metadata": {"name": "n"}}]}), 400, "No \"n\": kind \"No\" in apiVersion \"v9\" is not served")]
fn what_cannot_be_done_is_refused(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: Value,
    #[case] status: u16,
    #[case] message: &str,
) {
    let server = Server::start(&["--http", "--clock", "manual", "--bare"]);
    let world = World(&server, String::new());
    let answer = world.ask(method, path, &body);
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.refusal().contains(message), "{answer:?}");
    assert_eq!(world.status("/api/v1/namespaces/default"), 200, "the world goes on");
}

#[test]
fn the_clock_of_the_machine_cannot_be_moved() {
    let server = Server::start(&["--http", "--controllers", "all"]);
    let world = World(&server, String::new());
    assert_eq!(world.send("GET", CLOCK, &Value::Null)["mode"], "wall");
    let answer = world.ask("POST", CLOCK, &json!({"advance": "5s"}));
    assert!(answer.refusal().contains("--clock manual"), "{answer:?}");
    let answer = World(&server, String::new()).ask("POST", CLOCK, &json!({"settle": true}));
    assert!(answer.refusal().contains("--clock manual"), "{answer:?}");
    assert!(!server.log().contains("budgets are not counted"), "{}", server.log());
}

#[test]
fn the_start_names_what_is_missing() {
    let server = Server::start(&["--http"]);
    for part in ["pods stay Pending", "--loops gc,namespaces,workloads", "--controllers all", "--like kind"] {
        assert!(server.log().contains(part), "{part} in {}", server.log());
    }
}

/// Each path and method of the document is served.
#[test]
fn the_document_describes_what_is_served() {
    let server = Server::start(&["--http", "--clock", "manual"]);
    let world = World(&server, String::new());
    world.send("POST", "/plumbline/worlds", &json!({"name": "w"}));
    let document = world.send("GET", "/plumbline/openapi.json", &Value::Null);
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        // Deleting the world comes last.
        for method in ["get", "put", "post", "delete"].into_iter().filter(|method| item.get(method).is_some()) {
            let answer = world.ask(&method.to_uppercase(), &path.replace("{name}", "w"), &Value::Null);
            assert!(!matches!(answer.status, 404 | 405 | 500..), "{method} {path}: {answer:?}");
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked} operations");
}
