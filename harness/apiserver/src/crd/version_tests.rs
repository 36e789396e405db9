//! Definitions with several versions: storage, defaults and field selectors. The scenarios are those of
//! `defaulting_test.go` and `fieldselector_test.go` in `staging/src/k8s.io/apiextensions-apiserver/test/integration`.

use futures::StreamExt as _;
use http::{HeaderValue, Method, header};

use super::{GROUP, RESOURCE};
use crate::ApiServerConfig;
use crate::clock::Clock;
use crate::json::{Value, json};
use crate::request::{ApiRequest, BodyStream, Reply, ReplyBody};
use crate::server::ApiServer;
use crate::store::ResourceId;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn server() -> ApiServer {
    ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())))
}

async fn reply(server: &ApiServer, method: Method, path: &str, body: Value) -> Reply {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut request = ApiRequest::new(method, path);
    request.query = query.to_owned();
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if !body.is_null() {
        request.body = body.to_string().into();
    }
    server.handle(request).await
}

async fn send(server: &ApiServer, method: Method, path: &str, body: Value) -> Value {
    let reply = reply(server, method, path, body).await;
    let ReplyBody::Full(bytes) = reply.body else { panic!("no full body") };
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    assert!(reply.status < 300, "{value}");
    value
}

/// A definition of cluster-scoped objects.
fn definition(plural: &str, kind: &str, versions: Value) -> Value {
    json!({"metadata": {"name": format!("{plural}.ex.io")}, "spec": {"group": "ex.io", "scope": "Cluster",
        "names": {"plural": plural, "kind": kind}, "versions": versions}})
}

fn version(name: &str, (served, storage): (bool, bool), fields: Value) -> Value {
    json!({"name": name, "served": served, "storage": storage, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": fields, "default": {}},
            "status": {"type": "object", "properties": fields}}}}})
}

/// `testDefaulting`: objects are written and read in v1beta1, and stored in v1beta2, which is not served.
#[tokio::test(start_paused = true)]
async fn the_storage_version_has_defaults_though_it_is_not_served() {
    const FOO: &str = "/apis/ex.io/v1beta1/foos/foo";
    let schemas = |first: Option<&str>, second: Option<&str>| {
        let text = |default: Option<&str>| match default {
            Some(default) => json!({"type": "string", "default": default}),
            None => json!({"type": "string"}),
        };
        let old = json!({"a": text(Some("A")), "c": text(first), "old": text(Some("old")), "new": text(None), "own": text(None)});
        let new = json!({"a": text(Some("A")), "c": text(second), "old": text(None), "new": text(Some("new"))});
        json!([version("v1beta1", (true, false), old), version("v1beta2", (false, true), new)])
    };
    let server = server();
    send(&server, Method::POST, DEFINITIONS, definition("foos", "Foo", schemas(None, None))).await;
    let change = async |first, second| {
        let path = format!("{DEFINITIONS}/foos.ex.io");
        let mut definition = send(&server, Method::GET, &path, Value::Null).await;
        definition["spec"]["versions"] = schemas(first, second);
        send(&server, Method::PUT, &path, definition).await;
    };
    let all = json!({"a": "A", "old": "old", "new": "new"});
    let foo = json!({"apiVersion": "ex.io/v1beta1", "kind": "Foo", "metadata": {"name": "foo"}, "spec": {"own": "x"}});
    for query in ["?dryRun=All", ""] {
        let path = format!("/apis/ex.io/v1beta1/foos{query}");
        let created = send(&server, Method::POST, &path, foo.clone()).await;
        assert_eq!((&created["spec"], created.get("status")), (&all, None), "v1beta2 has no field `own`");
        assert_eq!(created["apiVersion"], "ex.io/v1beta1");
    }
    let stored = server.get(&ResourceId::new("ex.io", "foos"), "", "foo").unwrap().value();
    assert_eq!((&stored["apiVersion"], &stored["spec"]), (&json!("ex.io/v1beta2"), &json!({"a": "A", "old": "old"})));

    let mut with_status = send(&server, Method::GET, FOO, Value::Null).await;
    with_status["status"] = json!({});
    let updated = send(&server, Method::PUT, &format!("{FOO}/status"), with_status).await;
    assert_eq!((&updated["spec"], &updated["status"]), (&all, &all));

    change(None, Some("C")).await;
    let with_c = json!({"a": "A", "c": "C", "old": "old", "new": "new"});
    let found = send(&server, Method::GET, FOO, Value::Null).await;
    assert_eq!((&found["spec"], &found["status"]), (&with_c, &with_c));
    let list = send(&server, Method::GET, "/apis/ex.io/v1beta1/foos?resourceVersion=0", Value::Null).await;
    assert_eq!(list["items"][0]["spec"], with_c);

    change(Some("C"), None).await;
    let found = send(&server, Method::GET, FOO, Value::Null).await;
    assert_eq!((&found["spec"], &found["status"]), (&all, &all));
    let updated = send(&server, Method::PUT, &format!("{FOO}/status"), found).await;
    assert_eq!((&updated["spec"], &updated["status"]), (&all, &with_c), "a request has the defaults of its version");
    change(None, None).await;
    let found = send(&server, Method::GET, FOO, Value::Null).await;
    assert_eq!((&found["spec"], &found["status"]), (&all, &with_c));
}

/// Objects that were stored in an older version are read by the schema of that version.
#[tokio::test(start_paused = true)]
async fn objects_keep_the_fields_of_the_version_in_which_they_were_stored() {
    let versions = |storage: &str| {
        let text = json!({"type": "string"});
        json!([
            version("v1", (true, storage == "v1"), json!({"one": text, "two": text})),
            version("v2", (true, storage == "v2"), json!({"two": text}))
        ])
    };
    let server = server();
    send(&server, Method::POST, DEFINITIONS, definition("bars", "Bar", versions("v1"))).await;
    let bar =
        json!({"apiVersion": "ex.io/v1", "kind": "Bar", "metadata": {"name": "b"}, "spec": {"one": "1", "two": "2"}});
    send(&server, Method::POST, "/apis/ex.io/v1/bars", bar).await;
    let path = format!("{DEFINITIONS}/bars.ex.io");
    let mut changed = send(&server, Method::GET, &path, Value::Null).await;
    changed["spec"]["versions"] = versions("v2");
    send(&server, Method::PUT, &path, changed).await;
    let spec = async |version: &str| {
        send(&server, Method::GET, &format!("/apis/ex.io/{version}/bars/b"), Value::Null).await["spec"].clone()
    };
    assert_eq!(spec("v1").await, json!({"one": "1", "two": "2"}));
    assert_eq!(spec("v2").await, json!({"two": "2"}));
    let mut bar = send(&server, Method::GET, "/apis/ex.io/v1/bars/b", Value::Null).await;
    bar["metadata"]["labels"] = json!({"a": "b"});
    send(&server, Method::PUT, "/apis/ex.io/v1/bars/b", bar).await;
    assert_eq!(spec("v1").await, json!({"two": "2"}), "now it is stored in v2");
    let stored = send(&server, Method::GET, &format!("{DEFINITIONS}/bars.ex.io"), Value::Null).await;
    assert_eq!(stored["status"]["storedVersions"], json!(["v1", "v2"]));
    assert!(server.get(&ResourceId::new(GROUP, RESOURCE), "", "bars.ex.io").is_some());
}

/// The definition of `TestSelectableFields`: the color of v1 is the hue of v1beta1.
fn shirts() -> Value {
    let shirt = |name: &str, storage: bool, color: &str| {
        let mut version = version(name, (true, storage), json!({}));
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({
            color: {"type": "string"}, "quantity": {"type": "integer"}, "branded": {"type": "boolean"}});
        let fields = [color, "quantity", "branded"].map(|field| json!({"jsonPath": format!(".spec.{field}")}));
        version["selectableFields"] = json!(fields);
        version
    };
    let mut definition =
        definition("shirts", "Shirt", json!([shirt("v1", true, "color"), shirt("v1beta1", false, "hue")]));
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/x"}}}});
    definition
}

fn convert(review: &serde_json::Value) -> serde_json::Value {
    let desired = &review["request"]["desiredAPIVersion"];
    let mut objects = review["request"]["objects"].clone();
    for object in objects.as_array_mut().into_iter().flatten() {
        let (from, to) = if desired == "ex.io/v1" { ("hue", "color") } else { ("color", "hue") };
        object["apiVersion"] = desired.clone();
        if let Some(value) = object["spec"].as_object_mut().and_then(|spec| spec.remove(from)) {
            object["spec"][to] = value;
        }
    }
    serde_json::json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": {
        "uid": review["request"]["uid"], "convertedObjects": objects, "result": {"status": "Success"}}})
}

async fn server_with_shirts() -> ApiServer {
    let server = server();
    server.handle_webhook("https://hook.default.svc:443/x", |review| async move { convert(&review) });
    send(&server, Method::POST, DEFINITIONS, shirts()).await;
    server
}

async fn create_shirts(server: &ApiServer) {
    for (name, color, quantity, branded) in
        [("s1", "blue", 2, true), ("s2", "blue", 3, false), ("s3", "green", 2, false)]
    {
        let shirt = json!({"apiVersion": "ex.io/v1", "kind": "Shirt", "metadata": {"name": name},
            "spec": {"color": color, "quantity": quantity, "branded": branded}});
        send(server, Method::POST, "/apis/ex.io/v1/shirts", shirt).await;
    }
}

/// Each selector with the names that it selects, and those that it no longer selects after s1 is deleted and s2 is
/// green.
const SELECTORS: [(&str, &str, &[&str], &[&str]); 7] = [
    ("v1", "spec.color%3Dblue", &["s1", "s2"], &["s1", "s2"]),
    ("v1beta1", "spec.hue%3Dblue", &["s1", "s2"], &["s1", "s2"]),
    ("v1beta1", "spec.quantity%3D2", &["s1", "s3"], &["s1"]),
    ("v1beta1", "spec.branded%3Dfalse", &["s2", "s3"], &[]),
    ("v1beta1", "spec.hue%3Dblue,spec.quantity%3D2", &["s1"], &["s1"]),
    ("v1beta1", "spec.hue%3Dblue,spec.branded%3Dfalse", &["s2"], &["s2"]),
    ("v1beta1", "metadata.name%3Ds1", &["s1"], &["s1"]),
];

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn fields_that_exist_after_a_conversion_select_lists() {
    let server = server_with_shirts().await;
    create_shirts(&server).await;
    for (version, selector, selected, _) in SELECTORS {
        let path = format!("/apis/ex.io/{version}/shirts?fieldSelector={selector}");
        assert_eq!(names(&send(&server, Method::GET, &path, Value::Null).await), selected, "{path}");
    }
    let path = "/apis/ex.io/v1beta1/shirts?fieldSelector=spec.branded%3Dfalse&limit=1";
    let first = send(&server, Method::GET, path, Value::Null).await;
    assert_eq!((names(&first), &first["items"][0]["spec"]["hue"]), (vec!["s2"], &json!("blue")));
    let more = format!("{path}&continue={}", first["metadata"]["continue"].as_str().unwrap());
    let second = send(&server, Method::GET, &more, Value::Null).await;
    assert_eq!((names(&second), &second["metadata"]["continue"]), (vec!["s3"], &json!("")));
    let deleted =
        send(&server, Method::DELETE, "/apis/ex.io/v1beta1/shirts?fieldSelector=spec.hue%3Dblue", Value::Null).await;
    assert_eq!(names(&deleted), ["s1", "s2"]);
    assert_eq!(names(&send(&server, Method::GET, "/apis/ex.io/v1/shirts", Value::Null).await), ["s3"]);
    let unknown = reply(&server, Method::GET, "/apis/ex.io/v1/shirts?fieldSelector=spec.hue%3Dblue", Value::Null).await;
    assert_eq!(unknown.status, 400);
}

/// Returns the names of the next events of a type.
async fn next(events: &mut BodyStream, event_type: &str, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..count {
        let event: Value = serde_json::from_slice(&events.next().await.unwrap().unwrap()).unwrap();
        assert_eq!(event["type"], event_type, "{event}");
        assert!(event.get("previous").is_none(), "{event}");
        names.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
    }
    names
}

#[tokio::test(start_paused = true)]
async fn fields_that_exist_after_a_conversion_select_events() {
    let server = server_with_shirts().await;
    let mut watches = Vec::new();
    for (version, selector, selected, gone) in SELECTORS {
        let path = format!("/apis/ex.io/{version}/shirts?watch=1&timeoutSeconds=60&fieldSelector={selector}");
        let ReplyBody::Stream(events) = reply(&server, Method::GET, &path, Value::Null).await.body else {
            panic!("no stream")
        };
        watches.push((events, selected, gone));
    }
    create_shirts(&server).await;
    send(&server, Method::DELETE, "/apis/ex.io/v1/shirts/s1", Value::Null).await;
    let mut shirt = send(&server, Method::GET, "/apis/ex.io/v1/shirts/s2", Value::Null).await;
    shirt["spec"]["color"] = json!("green");
    send(&server, Method::PUT, "/apis/ex.io/v1/shirts/s2", shirt).await;
    for (events, selected, gone) in &mut watches {
        assert_eq!(next(events, "ADDED", selected.len()).await, *selected);
        assert_eq!(next(events, "DELETED", gone.len()).await, *gone);
    }
    let (rest, ..) = &mut watches[3];
    assert_eq!(next(rest, "MODIFIED", 1).await, ["s2"]);
    assert!(rest.next().await.is_none(), "the watch ends after its time");
}

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Rules about shirts of v1beta1.
fn beta_rules() -> Value {
    json!([{"operations": ["*"], "apiGroups": ["ex.io"], "apiVersions": ["v1beta1"], "resources": ["shirts"]}])
}

/// Creates a webhook for shirts of v1beta1 with this path.
async fn beta_webhook(server: &ApiServer, kind: &str, path: &str) {
    let body = json!({"metadata": {"name": "hooks"}, "webhooks": [{
        "name": "h.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": beta_rules(),
        "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": path}}}]});
    send(server, Method::POST, &format!("{REGISTRATION}/{kind}"), body).await;
}

/// `TestWebhookConverter` and `TestCRDMatchConditions` have no such case; see `ConvertToGVK` of
/// `pkg/admission/conversion.go` in `k8s.io/apiserver`.
#[tokio::test(start_paused = true)]
async fn webhooks_get_the_version_of_their_rules() {
    use base64::Engine as _;

    let server = server_with_shirts().await;
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let reviews = seen.clone();
    server.handle_webhook("https://hook.default.svc:443/admit", move |review| {
        reviews.lock().push(Value::from(review["request"].clone()));
        async move {
            let request = &review["request"];
            let operations = serde_json::json!([{"op": "replace", "path": "/spec/hue", "value": "red"}]);
            let mut response = serde_json::json!({"uid": request["uid"], "allowed": true});
            if request["operation"] != "DELETE" {
                response["patchType"] = "JSONPatch".into();
                response["patch"] = base64::engine::general_purpose::STANDARD.encode(operations.to_string()).into();
            }
            serde_json::json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
        }
    });
    beta_webhook(&server, "mutatingwebhookconfigurations", "/admit").await;
    let shirt =
        json!({"apiVersion": "ex.io/v1", "kind": "Shirt", "metadata": {"name": "s"}, "spec": {"color": "blue"}});
    let created = send(&server, Method::POST, "/apis/ex.io/v1/shirts", shirt).await;
    assert_eq!((&created["apiVersion"], &created["spec"]), (&json!("ex.io/v1"), &json!({"color": "red"})));
    send(&server, Method::DELETE, "/apis/ex.io/v1/shirts/s", Value::Null).await;
    let seen = seen.lock();
    let [create, delete] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!((&create["kind"]["version"], &create["requestKind"]["version"]), (&json!("v1beta1"), &json!("v1")));
    assert_eq!(
        (&create["object"]["apiVersion"], &create["object"]["spec"]),
        (&json!("ex.io/v1beta1"), &json!({"hue": "blue"}))
    );
    assert_eq!(
        (&delete["oldObject"]["apiVersion"], &delete["oldObject"]["spec"]),
        (&json!("ex.io/v1beta1"), &json!({"hue": "red"}))
    );
}

/// The admission of a deletion sees the object in the version of the request, not in that which is stored.
#[tokio::test(start_paused = true)]
async fn policies_see_the_version_of_their_rules() {
    let server = server_with_shirts().await;
    let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": beta_rules()},
        "validations": [{"expression": "(oldObject == null ? object : oldObject).spec.hue != 'blue'", "message": "too blue"}]}});
    let path = format!("{REGISTRATION}/validatingadmissionpolicies");
    send(&server, Method::POST, &path, policy).await;
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    let shirt = |color: &str| json!({"apiVersion": "ex.io/v1", "kind": "Shirt", "metadata": {"name": "s"}, "spec": {"color": color}});
    send(&server, Method::POST, "/apis/ex.io/v1/shirts", shirt("blue")).await;
    send(&server, Method::POST, &format!("{REGISTRATION}/validatingadmissionpolicybindings"), binding).await;
    for version in ["v1", "v1beta1"] {
        let path = format!("/apis/ex.io/{version}/shirts/s");
        let refused = reply(&server, Method::DELETE, &path, Value::Null).await;
        let ReplyBody::Full(bytes) = refused.body else { panic!("no full body") };
        let refused: Value = serde_json::from_slice(&bytes).unwrap();
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(message.ends_with("denied request: too blue"), "{refused}");
    }
    let green =
        json!({"apiVersion": "ex.io/v1", "kind": "Shirt", "metadata": {"name": "g"}, "spec": {"color": "green"}});
    send(&server, Method::POST, "/apis/ex.io/v1/shirts", green).await;
}

/// The managers of another version own what a conversion makes of their fields: `update` and `prune` of
/// `merge/update.go` in `sigs.k8s.io/structured-merge-diff`.
#[tokio::test(start_paused = true)]
async fn managers_of_another_version_own_converted_fields() {
    let server = server_with_shirts().await;
    let apply = async |version: &str, manager: &str, spec: Value| {
        let path = format!("/apis/ex.io/{version}/shirts/s");
        let mut request = ApiRequest::new(Method::PATCH, &path);
        request.query = format!("fieldManager={manager}");
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/apply-patch+yaml"));
        let body =
            json!({"apiVersion": format!("ex.io/{version}"), "kind": "Shirt", "metadata": {"name": "s"}, "spec": spec});
        request.body = body.to_string().into();
        let ReplyBody::Full(bytes) = server.handle(request).await.body else { panic!("no full body") };
        serde_json::from_slice::<Value>(&bytes).unwrap()
    };
    apply("v1beta1", "one", json!({"hue": "blue", "quantity": 1})).await;
    let conflict = apply("v1", "two", json!({"color": "red"})).await;
    let why = "Apply failed with 1 conflict: conflict with \"one\": .spec.hue";
    assert_eq!(conflict["message"], why, "{conflict}");
    let shared = apply("v1", "two", json!({"color": "blue"})).await;
    assert_eq!(shared["spec"], json!({"color": "blue", "quantity": 1}), "{shared}");
    // The first manager goes on in v1 without the color, which the second one still owns.
    let given_up = apply("v1", "one", json!({"branded": true})).await;
    assert_eq!(given_up["spec"], json!({"color": "blue", "branded": true}), "{given_up}");
    let update = async |version: &str, field: &str| {
        let path = format!("/apis/ex.io/{version}/shirts/s");
        let mut shirt = send(&server, Method::GET, &path, Value::Null).await;
        shirt["spec"][field] = "green".into();
        send(&server, Method::PUT, &path, shirt).await
    };
    let updated = update("v1beta1", "hue").await;
    let entries = updated["metadata"]["managedFields"].as_array().unwrap();
    let owners = entries.iter().map(|entry| (entry["apiVersion"].as_str().unwrap(), &entry["fieldsV1"]["f:spec"]));
    let owners: Vec<_> = owners.collect();
    assert_eq!(owners, [("ex.io/v1", &json!({"f:branded": {}})), ("ex.io/v1beta1", &json!({"f:hue": {}})),]);
}

/// `GetObjectMetaWithOptions` of `pkg/apiserver/schema/objectmeta/coerce.go`.
#[tokio::test(start_paused = true)]
async fn metadata_that_is_no_object_is_refused() {
    let server = server();
    let versions = json!([version("v1", (true, true), json!({}))]);
    send(&server, Method::POST, DEFINITIONS, definition("foos", "Foo", versions)).await;
    for (metadata, code, why) in [
        (
            json!("x"),
            400,
            "Foo in version \"v1\" cannot be handled as a Foo: json: cannot unmarshal string into Go value of type v1.ObjectMeta",
        ),
        (
            json!([]),
            400,
            "Foo in version \"v1\" cannot be handled as a Foo: json: cannot unmarshal array into Go value of type v1.ObjectMeta",
        ),
        (
            Value::Null,
            422,
            "Foo.ex.io \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
    ] {
        let foo = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": metadata});
        let refused = reply(&server, Method::POST, "/apis/ex.io/v1/foos", foo).await;
        let ReplyBody::Full(bytes) = refused.body else { panic!("no full body") };
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        assert_eq!((refused.status, answer["message"].as_str()), (code, Some(why)));
    }
}

/// `validateExpressions` of `pkg/apiserver/schema/cel/validation.go`: a broken rule that is ratcheted is a warning.
#[tokio::test(start_paused = true)]
async fn a_rule_that_was_broken_before_is_a_warning() {
    let server = server();
    let rules = |rules: Value| {
        let text = json!({"type": "string", "x-kubernetes-validations": rules});
        json!([version("v1", (true, true), json!({"a": text, "b": {"type": "string"}}))])
    };
    send(&server, Method::POST, DEFINITIONS, definition("foos", "Foo", rules(json!([])))).await;
    let foo = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "foo"}, "spec": {"a": "x"}});
    let mut foo = send(&server, Method::POST, "/apis/ex.io/v1/foos", foo).await;
    let path = format!("{DEFINITIONS}/foos.ex.io");
    let mut changed = send(&server, Method::GET, &path, Value::Null).await;
    changed["spec"]["versions"] = rules(json!([{"rule": "self == 'y'", "message": "not y"}]));
    send(&server, Method::PUT, &path, changed).await;
    foo["spec"]["b"] = "new".into();
    let updated = reply(&server, Method::PUT, "/apis/ex.io/v1/foos/foo", foo).await;
    assert_eq!(updated.status, 200);
    let warning = updated.headers.get(header::WARNING).and_then(|value| value.to_str().ok());
    assert_eq!(warning, Some("299 - \"spec.a: Invalid value: \\\"x\\\": not y\""));
}
