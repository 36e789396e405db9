//! Webhooks that answer anything, policies of any expression, and broken protobuf: the server answers each request with
//! an object or a `Status`, and goes on.
//!
//! 64 cases each; `PROPTEST_CASES=100000 cargo test --release -p plumbline-apiserver --lib fuzz::` runs more.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method, header};
use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::tests::{HOOK, MAPS, create, map, send, webhook};
use crate::clock::run_virtual;
use crate::json::{Value, json};
use crate::protobuf;
use crate::request::{ApiRequest, ReplyBody};
use crate::server::ApiServer;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CONVERTED: &str = "/apis/ex.com/v2/namespaces/default/convs";
const PODS: &str = "/api/v1/namespaces/default/pods";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn config() -> ProptestConfig {
    let asked_for = std::env::var_os("PROPTEST_CASES").is_some();
    let usual = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if asked_for { usual } else { ProptestConfig { cases: 64, ..usual } }
}

/// Runs in virtual time; the virtual clock ends tests that wait for something that never happens.
fn virtually<F: Future<Output = ()>>(test: impl FnOnce(ApiServer) -> F) {
    run_virtual(async { test(ApiServer::builder().build()).await }).expect("a runtime");
}

/// Any JSON value, of the words that reviews are made of.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    const WORDS: [&str; 9] =
        ["v1", "", "AdmissionReview", "JSONPatch", "Success", "admission.k8s.io/v1", "ex.com/v1", "W10=", "/a"];
    const FIELDS: [&str; 9] =
        ["kind", "apiVersion", "metadata", "name", "spec", "message", "code", "warnings", "auditAnnotations"];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        select(&WORDS[..]).prop_map(Into::into),
        ".{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(select(&FIELDS[..]), inner, 0..4)
                .prop_map(|fields| { fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }),
        ]
    })
}

/// Replaces the member of a review at a path by another value.
type Replacement = (&'static str, serde_json::Value);

fn changes(paths: &'static [&'static str]) -> impl Strategy<Value = Vec<Replacement>> {
    prop::collection::vec((select(paths), any_json()), 0..3)
}

fn apply(review: &mut serde_json::Value, changes: Vec<Replacement>) {
    for (path, value) in changes {
        if path.is_empty() {
            *review = value;
        } else if let Some(place) = review.pointer_mut(path) {
            *place = value;
        }
    }
}

/// Requires an answer to be an object or a `Status`, and the server to serve others.
async fn check(server: &ApiServer, (code, answer): (u16, Value)) {
    assert!((200..=599).contains(&code), "{code}");
    assert_eq!(code >= 400, answer["kind"] == "Status" && answer["status"] == "Failure", "{code} {answer}");
    let (code, _) = send(server, Method::GET, MAPS, Value::Null).await;
    assert_eq!(code, 200, "the server goes on");
}

async fn post_protobuf(server: &ApiServer, path: &str, body: Vec<u8>) -> (u16, Value) {
    let mut request = ApiRequest::new(Method::POST, path);
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
    request.body = body.into();
    let reply = server.handle(request).await;
    let ReplyBody::Full(bytes) = reply.body else { panic!("no full body") };
    (reply.status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "E", "value": "v"}],
            "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}]}})
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_of_admission_webhooks(
        mutating in any::<bool>(),
        closed in any::<bool>(),
        allowed in any::<bool>(),
        operations in any_json(),
        changes in changes(&["", "/kind", "/apiVersion", "/response", "/response/uid", "/response/allowed",
            "/response/patch", "/response/patchType", "/response/status", "/response/warnings"]),
    ) {
        use base64::Engine as _;
        let patch = base64::engine::general_purpose::STANDARD.encode(operations.to_string());
        let changes = Arc::new(Mutex::new(changes));
        virtually(|server| async move {
            let policy = if closed { "Fail" } else { "Ignore" };
            webhook(&server, mutating, json!({"failurePolicy": policy, "timeoutSeconds": 1})).await;
            server.handle_webhook(HOOK, move |review| {
                let changes = Arc::clone(&changes);
                let patch = patch.clone();
                async move {
                    let mut answer = serde_json::json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                        "response": {"uid": review["request"]["uid"], "allowed": allowed, "patchType": "JSONPatch",
                            "patch": patch, "status": {}, "warnings": []}});
                    apply(&mut answer, changes.lock().clone());
                    answer
                }
            });
            let answer = send(&server, Method::POST, MAPS, map("m")).await;
            check(&server, answer).await;
        });
    }

    #[test]
    fn answers_of_conversion_webhooks(
        changes in changes(&["", "/kind", "/apiVersion", "/response", "/response/uid", "/response/convertedObjects",
            "/response/convertedObjects/0", "/response/convertedObjects/0/metadata",
            "/response/convertedObjects/0/apiVersion", "/response/convertedObjects/0/metadata/name",
            "/response/result", "/response/result/status"]),
    ) {
        let changes = Arc::new(Mutex::new(changes));
        virtually(|server| async move {
            let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
            let client = json!({"service": {"namespace": "default", "name": "hook", "path": "/x"}});
            let definition = json!({"metadata": {"name": "convs.ex.com"}, "spec": {
                "group": "ex.com", "scope": "Namespaced", "names": {"plural": "convs", "kind": "Conv"},
                "versions": [version("v1", true), version("v2", false)],
                "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client,
                    "conversionReviewVersions": ["v1"]}}}});
            create(&server, DEFINITIONS, definition).await;
            let object = json!({"apiVersion": "ex.com/v1", "kind": "Conv", "metadata": {"name": "c"}});
            create(&server, "/apis/ex.com/v1/namespaces/default/convs", object).await;
            server.handle_webhook(HOOK, move |review| {
                let changes = Arc::clone(&changes);
                async move {
                    let mut objects = review["request"]["objects"].clone();
                    for object in objects.as_array_mut().into_iter().flatten() {
                        object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
                    }
                    let mut answer = serde_json::json!({"kind": "ConversionReview",
                        "apiVersion": "apiextensions.k8s.io/v1", "response": {"uid": review["request"]["uid"],
                            "convertedObjects": objects, "result": {"status": "Success"}}});
                    apply(&mut answer, changes.lock().clone());
                    answer
                }
            });
            for (method, path, body) in [
                (Method::GET, CONVERTED.to_owned(), Value::Null),
                (Method::GET, format!("{CONVERTED}/c"), Value::Null),
                (Method::PATCH, format!("{CONVERTED}/c"), json!({"x": 1})),
                (Method::DELETE, format!("{CONVERTED}/c"), Value::Null),
            ] {
                let answer = send(&server, method, &path, body).await;
                check(&server, answer).await;
            }
        });
    }

    #[test]
    fn expressions_of_policies(
        parts in prop::collection::vec(select(&["object", "oldObject", "variables.v", "params", "request.name", "1",
            "'a'", "[1, 2]", "{'a': 1}", "all(x, x == x)", "exists(k, v, k == v)", "map(x, [x, x])",
            "transformMap(k, v, v)", "data", "size()", "optMap(o, o)", "matches('(a+)+$')", "lists.range(99999)"][..]), 1..6),
        operators in prop::collection::vec(select(&[".", " + ", " == ", " || ", "[", " ? ", ".?", "(", " in "][..]), 6),
    ) {
        let mut source = String::new();
        for (part, operator) in parts.iter().zip(operators) {
            source.push_str(part);
            source.push_str(operator);
        }
        source.push_str("true");
        virtually(|server| async move {
            let registration = "/apis/admissionregistration.k8s.io/v1";
            let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
            let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules},
                "variables": [{"name": "v", "expression": "object.data"}], "validations": [{"expression": source}]}});
            let made = send(&server, Method::POST, &format!("{registration}/validatingadmissionpolicies"), policy).await;
            check(&server, made).await;
            let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
            create(&server, &format!("{registration}/validatingadmissionpolicybindings"), binding).await;
            let answer = send(&server, Method::POST, MAPS, map("m")).await;
            check(&server, answer).await;
        });
    }

    #[test]
    fn broken_protobuf(cut in any::<Index>(), place in any::<Index>(), byte in any::<u8>(), kind in select(&["Pod", "Node", "Nothing"][..])) {
        let message = protobuf::object_message(&pod());
        let whole = protobuf::envelope("v1", kind, &message);
        let mut changed = whole.clone();
        let place = place.index(changed.len());
        changed[place] = byte;
        let short = whole[..cut.index(whole.len())].to_vec();
        virtually(|server| async move {
            for body in [whole, changed, short] {
                let answer = post_protobuf(&server, PODS, body).await;
                check(&server, answer).await;
            }
        });
    }
}

#[test]
fn protobuf_nested_ten_thousand_deep() {
    /// Wraps a message in a field of length-delimited bytes.
    fn wrap(field: u8, inner: &[u8]) -> Vec<u8> {
        let mut out = vec![field << 3 | 2];
        let mut length = inner.len();
        while length >= 0x80 {
            out.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
            length >>= 7;
        }
        out.push(u8::try_from(length).expect("seven bits"));
        out.extend_from_slice(inner);
        out
    }
    // `JSONSchemaProps.not` is field 28, whose tag has two bytes.
    let mut schema = Vec::new();
    for _ in 0..10_000 {
        let wrapped = wrap(1, &schema);
        schema = [&[0xe2, 0x01], &wrapped[1..]].concat();
    }
    let validation = wrap(1, &schema);
    let version = wrap(4, &validation);
    let spec = wrap(7, &version);
    let definition = wrap(2, &spec);
    let body = protobuf::envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition);
    virtually(|server| async move {
        let (code, answer) = post_protobuf(&server, DEFINITIONS, body).await;
        assert_eq!(code, 400, "{answer}");
        check(&server, (code, answer)).await;
        assert!(server.clock().elapsed() < Duration::from_secs(1));
    });
}
