//! Requests that would keep a server busy: each is refused with an error that says why, and others are answered at the
//! same time.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rstest::rstest;
use serde_json::{Value, json};

use crate::serving::{Answer, PATIENCE, Server, read_all, request};

const JSON: &str = "application/json";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OBJECTS: &str = "/apis/example.com/v1/namespaces/default/things";

/// Returns a definition of things with these properties.
fn definition(properties: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": properties}}}],
        },
    })
}

fn thing(fields: &Value) -> Value {
    let mut thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    for (name, value) in fields.as_object().expect("fields") {
        thing[name] = value.clone();
    }
    thing
}

fn send(server: &Server, path: &str, body: &Value) -> Answer {
    start(server, path, body, &Arc::default()).join().expect("an answer")
}

/// Creates the definition of things, and waits for nothing: it is served at once.
fn define(server: &Server, properties: &Value) {
    let answer = send(server, DEFINITIONS, &definition(properties));
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// A list whose rule costs too much for 725 items; the estimate of its cost is below the limit.
fn costly_list() -> Value {
    json!({"type": "array", "maxItems": 725, "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == x))"}]})
}

#[test]
fn a_rule_that_costs_too_much_is_an_error_of_the_definition() {
    let server = Server::start(&["--http"]);
    let rule = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))";
    let list = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": rule}]});
    let answer = send(&server, DEFINITIONS, &definition(&json!({"l": list})));
    let path = "spec.validation.openAPIV3Schema.properties[l].x-kubernetes-validations[0].rule";
    let hint = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    let message = answer.refusal();
    for expected in [
        format!("{path}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {hint}"),
        format!(
            "{path}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        ),
        format!(
            "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {hint}"
        ),
    ] {
        assert!(message.contains(&expected), "{expected}\n{message}");
    }
}

#[test]
fn an_object_that_costs_too_much_is_refused() {
    let server = Server::start(&["--http"]);
    define(&server, &json!({"l": costly_list()}));
    let list = |length: u32| json!({"l": (0..length).collect::<Vec<_>>()});
    assert_eq!(send(&server, OBJECTS, &thing(&list(300))).status, 201);
    let message = send(&server, OBJECTS, &thing(&list(725))).refusal();
    let expected = "l: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(x, self.all(y, x == x))";
    assert!(message.ends_with(expected), "{message}");
}

/// Sends a request and waits longer than usual for the reply: a debug build takes seconds for the largest requests.
fn start(server: &Server, path: &str, body: &Value, ended: &Arc<AtomicBool>) -> JoinHandle<Answer> {
    let mut stream = server.connect();
    let ended = ended.clone();
    let bytes = request("POST", path, JSON, body.to_string().as_bytes());
    std::thread::spawn(move || {
        stream.set_read_timeout(Some(10 * PATIENCE)).expect("a timeout");
        stream.write_all(&bytes).expect("the server reads");
        let answer = read_all(stream);
        ended.store(true, Ordering::SeqCst);
        answer
    })
}

/// Sends objects whose rules need the whole budget, one for each of more threads than the server has.
fn send_costly_objects(server: &Server, ended: &Arc<AtomicBool>) -> Vec<JoinHandle<Answer>> {
    let names = || (0..20).map(|number| format!("l{number}"));
    define(server, &names().map(|name| (name, costly_list())).collect());
    let list: Vec<u32> = (0..430).collect();
    let body = thing(&names().map(|name| (name, json!(list))).collect());
    (0..8).map(|_| start(server, OBJECTS, &body, ended)).collect()
}

#[test]
fn other_requests_are_answered_while_rules_are_evaluated() {
    let server = Server::start(&["--http"]);
    let ended = Arc::new(AtomicBool::new(false));
    let busy = send_costly_objects(&server, &ended);
    let mut answered = 0;
    while !ended.load(Ordering::SeqCst) {
        assert_eq!(server.get("/api/v1/namespaces/default").status, 200);
        answered += 1;
    }
    assert!(answered > 1, "{answered} requests were answered");
    for thread in busy {
        let message = thread.join().expect("an answer").refusal();
        assert!(message.contains("no further validation rules will be run"), "{message}");
    }
}

/// Four nested loops over 400 numbers, in a policy: the evaluation ends at its cost limit.
#[test]
fn a_policy_that_costs_too_much_denies_while_others_are_answered() {
    let server = Server::start(&["--http"]);
    let list = "lists.range(400)";
    let rule = ["a", "b", "c", "d"]
        .iter()
        .rev()
        .fold("a + b + c + d >= 0".to_owned(), |inner, name| format!("{list}.all({name}, {inner})"));
    let registration = "/apis/admissionregistration.k8s.io/v1";
    let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": rule}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    for (plural, object) in [("policies", &policy), ("policybindings", &binding)] {
        let answer = send(&server, &format!("{registration}/validatingadmission{plural}"), object);
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let ended = Arc::new(AtomicBool::new(false));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let busy: Vec<_> = (0..8).map(|_| start(&server, "/api/v1/namespaces/default/configmaps", &map, &ended)).collect();
    let mut answered = 0;
    while answered == 0 || !ended.load(Ordering::SeqCst) {
        assert_eq!(server.get("/api/v1/namespaces/default").status, 200);
        answered += 1;
    }
    for thread in busy {
        let message = thread.join().expect("an answer").refusal();
        assert!(message.contains("operation cancelled: actual cost limit exceeded"), "{message}");
    }
}

#[cfg(unix)]
#[test]
fn the_server_stops_while_rules_are_evaluated() {
    let mut server = Server::start(&["--http"]);
    let busy = send_costly_objects(&server, &Arc::default());
    assert_eq!(server.get("/api/v1/namespaces/default").status, 200);
    assert_eq!(server.stop(), Some(0));
    for thread in busy {
        thread.join().expect("an answer or the end of the connection");
    }
}

/// The unit tests of the validation have the other ways to need many steps.
#[test]
fn a_validation_that_takes_too_long_is_ended() {
    let many = (0..5_000).collect::<Vec<_>>();
    let properties = json!({"l": {"type": "array", "items": {"type": "integer", "enum": many}}});
    let fields = json!({"l": vec![-1; 300_000]});
    let server = Server::start(&["--http"]);
    define(&server, &properties);
    let ended = Arc::new(AtomicBool::new(false));
    let busy = start(&server, OBJECTS, &thing(&fields), &ended);
    let mut answered = 0;
    while !ended.load(Ordering::SeqCst) {
        assert_eq!(server.get("/api/v1/namespaces/default").status, 200);
        answered += 1;
    }
    assert!(answered > 1, "{answered} requests were answered");
    let message = busy.join().expect("an answer").refusal();
    assert!(message.contains("validation stopped after 20000000 steps"), "{}", &message[..message.len().min(400)]);
}

#[rstest]
#[case::pattern_for_each_item(
    json!({"l": {"type": "array", "items": {"type": "string", "pattern": "^([a-z]{1,20}\\.){1,20}$"}}}),
    json!({"l": vec!["a.b."; 100_000]}),
    201
)]
#[case::large_set(
    json!({"l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}}),
    json!({"l": (0..10_000).collect::<Vec<_>>()}),
    201
)]
#[case::defaults_that_fill_the_memory(
    json!({"l": {"type": "array", "items": {"type": "object",
        "properties": {"a": {"type": "string", "default": "x".repeat(100_000)}}}}}),
    json!({"l": vec![json!({}); 200_000]}),
    500
)]
fn large_values_take_no_longer_than_they_must(#[case] properties: Value, #[case] fields: Value, #[case] status: u16) {
    let server = Server::start(&["--http"]);
    define(&server, &properties);
    let answer = send(&server, OBJECTS, &thing(&fields));
    assert_eq!(answer.status, status, "{}", answer.body.chars().take(400).collect::<String>());
}

#[rstest]
#[case::too_large("((([a-z]{100}){100}){100}){100}")]
#[case::unfinished("([a-z]")]
fn a_pattern_that_cannot_be_compiled_is_an_error_of_the_definition(#[case] pattern: &str) {
    let server = Server::start(&["--http"]);
    let answer = send(&server, DEFINITIONS, &definition(&json!({"s": {"type": "string", "pattern": pattern}})));
    let message = answer.refusal();
    assert!(message.contains("properties[s].pattern: Invalid value:"), "{message}");
    assert!(message.contains("must be a valid regular expression, but isn't"), "{message}");
}

#[test]
fn deep_objects_without_a_schema() {
    let server = Server::start(&["--http"]);
    define(&server, &json!({"any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}));
    for (depth, expected) in [(100, 201), (100_000, 400)] {
        let nested = "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth);
        let body = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"d{depth}"}},"any":{nested}}}"#
        );
        let answer = server.ask("POST", OBJECTS, JSON, body.as_bytes());
        assert_eq!(answer.status, expected, "{depth}: {}", answer.body.chars().take(300).collect::<String>());
    }
}
