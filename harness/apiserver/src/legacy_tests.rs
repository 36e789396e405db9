//! Requests through versions that Kubernetes removed.

use std::sync::Arc;

use futures::StreamExt as _;
use http::{HeaderValue, Method, header};
use rstest::rstest;

use crate::clock::Clock;
use crate::json::{Value, json};
use crate::registry::Registry;
use crate::request::{ApiRequest, Reply, ReplyBody};
use crate::server::ApiServer;
use crate::store::ResourceId;
use crate::{clock, protobuf, schema};

const BUDGETS: &str = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets";

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";

const WIDGETS: &str = "/apis/ex.io/v1/namespaces/default/widgets";

fn server() -> ApiServer {
    ApiServer::builder().clock(Clock::virtual_from(clock::epoch())).legacy_apis().build()
}

async fn reply(server: &ApiServer, method: Method, path: &str, (media, body): (&str, Value)) -> Reply {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut request = ApiRequest::new(method, path);
    request.query = query.to_owned();
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(media).unwrap());
    if !body.is_null() {
        request.body = body.to_string().into();
    }
    server.handle(request).await
}

fn value(reply: &Reply) -> Value {
    let ReplyBody::Full(bytes) = &reply.body else { panic!("no full body") };
    serde_json::from_slice(bytes).unwrap_or_default()
}

async fn send(server: &ApiServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let reply = reply(server, method, path, ("application/json", body)).await;
    (reply.status, value(&reply))
}

async fn get(server: &ApiServer, path: &str) -> Value {
    let (code, found) = send(server, Method::GET, path, Value::Null).await;
    assert_eq!(code, 200, "{path}: {found}");
    found
}

async fn created(server: &ApiServer, path: &str, body: Value) -> Value {
    let (code, made) = send(server, Method::POST, path, body).await;
    assert_eq!(code, 201, "{path}: {made}");
    made
}

fn v1(path: &str) -> String {
    path.replace("v1beta1", "v1").replace("v2beta2", "v2")
}

fn budget(name: &str, selector: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}})
}

fn definition(fields: Value) -> Value {
    let mut spec = json!({"group": "ex.io", "names": {"plural": "widgets", "kind": "Widget"}, "version": "v1"});
    for (name, value) in fields.as_object().into_iter().flatten() {
        spec[name.as_str()] = value.clone();
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.ex.io"}, "spec": spec})
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

#[tokio::test]
async fn without_the_setting_nothing_is_served() {
    let server = ApiServer::builder().clock(Clock::virtual_from(clock::epoch())).build();
    for path in [BUDGETS, DEFINITIONS, "/apis/batch/v1beta1", "/openapi/v3/apis/policy/v1beta1"] {
        assert_eq!(reply(&server, Method::GET, path, ("", Value::Null)).await.status, 404, "{path}");
    }
}

/// A pair of selectors, in `v1beta1` and in `v1`: `pkg/apis/policy/v1beta1/conversion_test.go`.
#[rstest]
#[case::nothing(json!({}), json!({"matchExpressions": [
    {"key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "operator": "Exists"}]}))]
#[case::everything(json!({"matchExpressions": [
    {"key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "operator": "DoesNotExist"}]}), json!({}))]
#[case::some(json!({"matchLabels": {"a": "b"}}), json!({"matchLabels": {"a": "b"}}))]
#[case::absent(Value::Null, Value::Null)]
#[tokio::test]
async fn selectors_of_budgets_are_converted(#[case] beta: Value, #[case] stable: Value) {
    let server = server();
    let made = created(&server, BUDGETS, budget("a", &beta)).await;
    assert_eq!((&made["spec"]["selector"], &made["apiVersion"]), (&beta, &json!("policy/v1beta1")));
    assert_eq!(get(&server, &format!("{}/a", v1(BUDGETS))).await["spec"]["selector"], stable);
    created(&server, &v1(BUDGETS), budget("b", &stable)).await;
    let found = get(&server, &format!("{BUDGETS}/b")).await;
    assert_eq!((&found["spec"]["selector"], &found["kind"]), (&beta, &json!("PodDisruptionBudget")));
    let list = get(&server, BUDGETS).await;
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("policy/v1beta1"), &json!("PodDisruptionBudgetList")));
    assert_eq!(list["items"][0]["spec"], list["items"][1]["spec"]);
}

#[tokio::test]
async fn the_marked_key_is_dropped_among_others() {
    let server = server();
    let marked = json!({"key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "operator": "Exists"});
    let other = json!({"key": "a", "operator": "Exists"});
    created(&server, BUDGETS, budget("a", &json!({"matchExpressions": [marked, other]}))).await;
    let stored = get(&server, &format!("{}/a", v1(BUDGETS))).await;
    assert_eq!(stored["spec"]["selector"], json!({"matchExpressions": [other]}));
}

#[tokio::test]
async fn every_patch_works_in_both_versions() {
    let server = server();
    created(&server, BUDGETS, budget("a", &json!({"matchLabels": {"a": "b"}}))).await;
    let path = format!("{BUDGETS}/a");
    let patches = [
        ("application/json-patch+json", json!([{"op": "replace", "path": "/spec/minAvailable", "value": 2}])),
        ("application/merge-patch+json", json!({"spec": {"minAvailable": 3}})),
        ("application/strategic-merge-patch+json", json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}})),
    ];
    for patch in patches {
        assert_eq!(reply(&server, Method::PATCH, &path, patch).await.status, 200);
    }
    let found = get(&server, &v1(&path)).await;
    assert_eq!(found["spec"], json!({"minAvailable": 3, "selector": {"matchLabels": {"a": "b", "c": "d"}}}));
    assert_eq!(found["metadata"]["generation"], 4);

    let mut applied = budget("a", &json!({"matchLabels": {"a": "b", "c": "d"}}));
    (applied["apiVersion"], applied["kind"]) = ("policy/v1beta1".into(), "PodDisruptionBudget".into());
    applied["spec"]["minAvailable"] = json!(4);
    let query = format!("{path}?fieldManager=me&force=true");
    let patch = ("application/apply-patch+yaml", applied);
    assert_eq!(reply(&server, Method::PATCH, &query, patch).await.status, 200);
    let found = get(&server, &v1(&path)).await;
    let entries = found["metadata"]["managedFields"].as_array().unwrap();
    let mine = entries.iter().find(|entry| entry["manager"] == "me").unwrap();
    assert_eq!((&mine["apiVersion"], &mine["operation"]), (&json!("policy/v1beta1"), &json!("Apply")));
    assert_eq!(found["spec"]["minAvailable"], 4);

    let status = json!({"status": {"disruptionsAllowed": 1}});
    let patch = ("application/merge-patch+json", status);
    assert_eq!(reply(&server, Method::PATCH, &format!("{path}/status"), patch).await.status, 200);
    assert_eq!(get(&server, &v1(&path)).await["status"]["disruptionsAllowed"], 1);
    assert_eq!(send(&server, Method::DELETE, BUDGETS, Value::Null).await.0, 200);
    assert_eq!(get(&server, &v1(BUDGETS)).await["items"], json!([]));
}

#[rstest]
#[case("v1beta1", "v1")]
#[case("v1", "v1beta1")]
#[tokio::test]
async fn watches_see_the_writes_of_the_other_version(#[case] watched: &str, #[case] written: &str) {
    let server = server();
    let path = |version: &str| BUDGETS.replace("v1beta1", version);
    let watch = format!("{}?watch=true", path(watched));
    let reply = reply(&server, Method::GET, &watch, ("", Value::Null)).await;
    let ReplyBody::Stream(mut events) = reply.body else { panic!("no stream") };
    created(&server, &path(written), budget("a", &json!({"matchLabels": {"a": "b"}}))).await;
    let event: Value = serde_json::from_slice(&events.next().await.unwrap().unwrap()).unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ADDED"), &json!("PodDisruptionBudget")));
    assert_eq!(event["object"]["apiVersion"], *format!("policy/{watched}"));
}

#[tokio::test]
async fn the_wrong_version_in_a_body_is_refused() {
    let server = server();
    let mut wrong = budget("a", &json!({}));
    (wrong["apiVersion"], wrong["kind"]) = ("policy/v1".into(), "PodDisruptionBudget".into());
    let (code, status) = send(&server, Method::POST, BUDGETS, wrong).await;
    let why = "the API version in the data (policy/v1) does not match the expected API version (policy/v1beta1)";
    assert_eq!((code, &status["message"]), (400, &json!(why)));
    let unknown = json!({"apiVersion": "policy/v1beta1", "kind": "Budget", "metadata": {"name": "a"}});
    let (code, status) = send(&server, Method::POST, BUDGETS, unknown).await;
    assert_eq!(code, 400);
    assert!(
        status["message"].as_str().unwrap().contains("no kind \"Budget\" is registered for version \"policy/v1beta1\"")
    );
}

#[tokio::test]
async fn replies_warn_of_the_removal() {
    let server = server();
    for (path, expected) in [
        (
            BUDGETS,
            "policy/v1beta1 PodDisruptionBudget is deprecated in v1.21+, unavailable in v1.25+; use policy/v1 PodDisruptionBudget",
        ),
        (
            DEFINITIONS,
            "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; use apiextensions.k8s.io/v1 CustomResourceDefinition",
        ),
        (
            "/apis/node.k8s.io/v1beta1/runtimeclasses",
            "node.k8s.io/v1beta1 RuntimeClass is deprecated in v1.22+, unavailable in v1.25+",
        ),
    ] {
        let reply = reply(&server, Method::GET, path, ("", Value::Null)).await;
        assert_eq!(reply.headers[header::WARNING], format!("299 - {expected:?}"));
        assert!(
            !self::reply(&server, Method::GET, &v1(path), ("", Value::Null))
                .await
                .headers
                .contains_key(header::WARNING)
        );
    }
}

/// Each view has types for JSON and for protobuf.
#[test]
fn every_version_has_types() {
    let present = Registry::builtin();
    for kind in Registry::builtin().with_legacy_apis().kinds() {
        if present.get(&kind.group, &kind.version, &kind.plural).is_none() {
            let by_kind = schema::schema_of(&kind.api_version(), &kind.kind).unwrap();
            assert!(Arc::ptr_eq(&by_kind, &schema::builtin(&kind.schema).unwrap()), "{}", kind.schema);
            let object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "a"}});
            assert!(!protobuf::object_message(&object).is_empty(), "{}", kind.schema);
        }
    }
}

/// An object of each view whose shape is that of the stored version.
#[rstest]
#[case("/apis/batch/v1beta1/namespaces/default/cronjobs", json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec":
    {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}))]
#[case("/apis/autoscaling/v2beta2/namespaces/default/horizontalpodautoscalers", json!({"spec": {"maxReplicas": 3,
    "scaleTargetRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "d"}}}))]
#[case("/apis/rbac.authorization.k8s.io/v1beta1/clusterroles", json!({"rules": [{"verbs": ["get"], "apiGroups": [""],
    "resources": ["pods"]}]}))]
#[case("/apis/rbac.authorization.k8s.io/v1beta1/namespaces/default/rolebindings", json!({"roleRef": {"kind": "ClusterRole",
    "name": "r", "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [{"kind": "User", "name": "u"}]}))]
#[case("/apis/storage.k8s.io/v1beta1/storageclasses", json!({"provisioner": "p"}))]
#[case("/apis/storage.k8s.io/v1beta1/csidrivers", json!({"spec": {}}))]
#[case("/apis/scheduling.k8s.io/v1beta1/priorityclasses", json!({"value": 7}))]
#[case("/apis/coordination.k8s.io/v1beta1/namespaces/default/leases", json!({"spec": {"holderIdentity": "me"}}))]
#[case("/apis/node.k8s.io/v1beta1/runtimeclasses", json!({"handler": "runc"}))]
#[tokio::test]
async fn objects_have_the_same_shape_in_both_versions(#[case] path: &str, #[case] mut object: Value) {
    let server = server();
    object["metadata"] = json!({"name": "a"});
    let made = created(&server, path, object).await;
    let version = path.trim_start_matches("/apis/").split('/').take(2).collect::<Vec<_>>().join("/");
    assert_eq!(made["apiVersion"], *version);
    let mut stable = get(&server, &format!("{}/a", v1(path))).await;
    assert_eq!(stable["apiVersion"], *v1(&version));
    stable["apiVersion"] = version.into();
    assert_eq!(stable, made);
    let (code, updated) = send(&server, Method::PUT, &format!("{path}/a"), made.clone()).await;
    assert_eq!((code, updated), (200, made));
}

/// `pkg/apis/networking/v1beta1/conversion_test.go`, and `defaults.go` there.
#[tokio::test]
async fn backends_of_ingresses_are_converted() {
    let server = server();
    let path = "/apis/networking.k8s.io/v1beta1/namespaces/default/ingresses";
    let backend = |name: &str, port: Value| json!({"serviceName": name, "servicePort": port});
    let resource = json!({"apiGroup": "example.com", "kind": "K", "name": "n"});
    let rules = json!([{"http": {"paths": [{"path": "/x", "backend": backend("t", json!("http"))},
        {"backend": {"resource": resource}}]}}]);
    let ingress = |port: Value| {
        json!({"apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress", "metadata": {"name": "a"},
            "spec": {"backend": backend("s", port), "rules": rules}})
    };
    let (code, refused) = send(&server, Method::POST, path, ingress(json!(70_000))).await;
    assert_eq!(code, 422, "{refused}");
    let made = created(&server, path, ingress(json!(80))).await;
    let kind = "ImplementationSpecific";
    assert_eq!(
        made["spec"],
        json!({"backend": backend("s", json!(80)), "rules": [{"http": {"paths": [
            {"path": "/x", "pathType": kind, "backend": backend("t", json!("http"))},
            {"pathType": kind, "backend": {"resource": resource, "servicePort": 0}}]}}]})
    );
    let stable = get(&server, &format!("{}/a", v1(path))).await;
    let service = |name: &str, port: Value| json!({"service": {"name": name, "port": port}});
    assert_eq!(
        stable["spec"],
        json!({"defaultBackend": service("s", json!({"number": 80})), "rules": [{"http": {"paths": [
            {"path": "/x", "pathType": kind, "backend": service("t", json!({"name": "http"}))},
            {"pathType": kind, "backend": {"resource": resource}}]}}]})
    );
    let (code, updated) = send(&server, Method::PUT, &format!("{path}/a"), made.clone()).await;
    assert_eq!((code, &updated), (200, &made));
    let bytes = protobuf::from_json(&made).unwrap();
    let again: Value = serde_json::from_slice(&protobuf::to_json(&bytes).unwrap()).unwrap();
    assert_eq!(again["spec"], made["spec"]);
    let classes = "/apis/networking.k8s.io/v1beta1/ingressclasses";
    let class = json!({"metadata": {"name": "a"}, "spec": {"controller": "example.com/c"}});
    let reply = reply(&server, Method::POST, classes, ("application/json", class)).await;
    let warning = "networking.k8s.io/v1beta1 IngressClass is deprecated in v1.19+, unavailable in v1.22+; use networking.k8s.io/v1 IngressClassList";
    assert!(reply.headers[header::WARNING].to_str().unwrap().contains(warning), "{:?}", reply.headers);
}

/// `ValidateEventCreate` asks less of `v1beta1` than of `v1`.
#[tokio::test]
async fn events_are_validated_as_those_of_core() {
    let server = server();
    let path = "/apis/events.k8s.io/v1beta1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "text", "type": "Odd", "deprecatedCount": 2});
    created(&server, path, event.clone()).await;
    assert_eq!(get(&server, "/api/v1/namespaces/default/events/e").await["message"], "text");
    assert_eq!(get(&server, &format!("{path}/e")).await["apiVersion"], "events.k8s.io/v1beta1");
    assert_eq!(send(&server, Method::POST, &v1(path), event).await.0, 422);
}

/// Defaults of `pkg/apis/admissionregistration/v1beta1/defaults.go`. Side effects stay allowed in updates through `v1`.
#[tokio::test]
async fn webhooks_have_the_defaults_of_their_version() {
    let server = server();
    let path = "/apis/admissionregistration.k8s.io/v1beta1/mutatingwebhookconfigurations";
    let configuration = |name: &str| {
        json!({"metadata": {"name": name},
            "webhooks": [{"name": "a.example.com", "clientConfig": {"service": {"name": "s", "namespace": "n"}}}]})
    };
    let made = created(&server, path, configuration("c")).await;
    let expected = json!({"failurePolicy": "Ignore", "matchPolicy": "Exact", "sideEffects": "Unknown", "timeoutSeconds": 30,
        "reinvocationPolicy": "Never", "admissionReviewVersions": ["v1beta1"]});
    for (field, wanted) in expected.as_object().unwrap() {
        assert_eq!(made["webhooks"][0][field.as_str()], *wanted, "{field}");
    }
    let mut stable = get(&server, &format!("{}/c", v1(path))).await;
    stable["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(send(&server, Method::PUT, &format!("{}/c", v1(path)), stable).await.0, 200);
    let (code, status) = send(&server, Method::POST, &v1(path), configuration("d")).await;
    assert_eq!(code, 422);
    assert!(status["message"].as_str().unwrap().contains("must specify one of None, NoneOnDryRun"), "{status}");
}

#[tokio::test]
async fn evictions_take_the_old_version() {
    let server = server();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    created(&server, "/api/v1/namespaces/default/pods", pod).await;
    let eviction = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}});
    created(&server, "/api/v1/namespaces/default/pods/p/eviction", eviction).await;
    let (code, _) = send(&server, Method::GET, "/api/v1/namespaces/default/pods/p", Value::Null).await;
    assert_eq!(code, 404, "it has no node, so that nothing has to end");
}

#[tokio::test]
async fn discovery_lists_the_versions_after_the_present_ones() {
    let server = server();
    let group = get(&server, "/apis/policy").await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"][1]["groupVersion"], "policy/v1beta1");
    let resources = get(&server, "/apis/apiextensions.k8s.io/v1beta1").await;
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["customresourcedefinitions", "customresourcedefinitions/status"]);
}

#[tokio::test]
async fn the_documents_describe_the_versions() {
    let server = server();
    let document = get(&server, "/openapi/v3/apis/apiextensions.k8s.io/v1beta1").await;
    let schemas = &document["components"]["schemas"];
    let name = |short: &str| format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.{short}");
    let spec = &schemas[&*name("CustomResourceDefinitionSpec")]["properties"];
    let validation = format!("#/components/schemas/{}", name("CustomResourceValidation"));
    assert_eq!(spec["validation"], json!({"$ref": validation}));
    let kind = &schemas[&*name("CustomResourceDefinition")]["x-kubernetes-group-version-kind"];
    assert_eq!(kind[0]["version"], "v1beta1");
    let text = document.to_string();
    for target in text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(schemas.get(target).is_some(), "{target}");
    }
    let document = get(&server, "/openapi/v2").await;
    let selector =
        &document["definitions"]["io.k8s.api.policy.v1beta1.PodDisruptionBudgetSpec"]["properties"]["selector"];
    assert!(selector["$ref"].is_string() && selector.get("x-kubernetes-patch-strategy").is_none(), "{selector}");
}

#[tokio::test]
async fn protobuf_is_understood() {
    let server = server();
    let mut object =
        definition(json!({"additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".a"}]}));
    object["spec"]["names"] =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let mut request = ApiRequest::new(Method::POST, DEFINITIONS);
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(protobuf::MEDIA_TYPE));
    request.headers.insert(header::ACCEPT, HeaderValue::from_static(protobuf::MEDIA_TYPE));
    request.body = protobuf::from_json(&object).unwrap().into();
    let reply = server.handle(request).await;
    let ReplyBody::Full(bytes) = &reply.body else { panic!("no full body") };
    let made: Value = serde_json::from_slice(&protobuf::to_json(bytes).unwrap()).unwrap();
    assert_eq!((reply.status, &made["apiVersion"]), (201, &json!("apiextensions.k8s.io/v1beta1")), "{made}");
    assert_eq!(made["spec"]["additionalPrinterColumns"], object["spec"]["additionalPrinterColumns"]);
}

/// A definition as controller-gen of that time made them: one version, a schema that is not structural.
#[tokio::test]
async fn a_definition_keeps_unknown_fields_by_default() {
    let server = server();
    let schema = json!({"properties": {"spec": {"properties": {"size": {"type": "integer", "minimum": 1}}}}});
    let made = created(
        &server,
        DEFINITIONS,
        definition(json!({"validation": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}]})),
    )
    .await;
    let spec = &made["spec"];
    assert_eq!((&spec["scope"], &spec["preserveUnknownFields"]), (&json!("Namespaced"), &json!(true)));
    assert_eq!(spec["versions"], json!([{"name": "v1", "served": true, "storage": true}]));
    let stable = get(&server, &format!("{}/widgets.ex.io", v1(DEFINITIONS))).await;
    assert_eq!(
        stable["spec"]["versions"],
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]}])
    );
    assert_eq!(get(&server, &format!("{DEFINITIONS}/widgets.ex.io")).await["spec"], *spec);

    let kept = created(&server, WIDGETS, widget(json!({"size": 3, "more": {"x": [1]}}))).await;
    assert_eq!(kept["spec"], json!({"size": 3, "more": {"x": [1]}}));
    let (code, status) = send(&server, Method::PUT, &format!("{WIDGETS}/w"), {
        let mut small = kept.clone();
        small["spec"]["size"] = json!(0);
        small
    })
    .await;
    assert_eq!(code, 422);
    assert!(status["message"].as_str().unwrap().contains("spec.size in body should be greater than or equal to 1"));

    // A client of `v1` may change it, although a new one would be refused.
    let mut labelled = stable.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let path = format!("{}/widgets.ex.io", v1(DEFINITIONS));
    let (code, updated) = send(&server, Method::PUT, &path, labelled.clone()).await;
    assert_eq!((code, &updated["metadata"]["generation"]), (200, &json!(1)), "{updated}");
    let mut again = get(&server, &format!("{DEFINITIONS}/widgets.ex.io")).await;
    again["spec"]["versions"] = Value::Null;
    let (code, updated) = send(&server, Method::PUT, &format!("{DEFINITIONS}/widgets.ex.io"), again).await;
    assert_eq!((code, &updated["metadata"]["generation"]), (200, &json!(1)), "{updated}");
}

#[tokio::test]
async fn a_definition_without_a_schema_is_served() {
    let server = server();
    created(&server, DEFINITIONS, definition(json!({}))).await;
    created(&server, WIDGETS, widget(json!({"any": true}))).await;
    let definition =
        server.get(&ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions"), "", "widgets.ex.io");
    assert_eq!(definition.unwrap().value()["apiVersion"], "apiextensions.k8s.io/v1");
    let (code, _) = send(&server, Method::DELETE, &format!("{DEFINITIONS}/widgets.ex.io"), Value::Null).await;
    assert_eq!(code, 200);
    assert_eq!(reply(&server, Method::GET, WIDGETS, ("", Value::Null)).await.status, 404);
}

#[tokio::test]
async fn unknown_fields_are_pruned_on_request() {
    let server = server();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties":
        {"size": {"type": "integer"}}}}});
    let fields = json!({"preserveUnknownFields": false, "validation": {"openAPIV3Schema": schema}});
    created(&server, DEFINITIONS, definition(fields)).await;
    assert_eq!(created(&server, WIDGETS, widget(json!({"size": 3, "more": 1}))).await["spec"], json!({"size": 3}));
}

/// Texts of `validation.go` in `staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation` of 1.21.
#[rstest]
#[case(json!({"validation": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}}}),
    "spec.validation.openAPIV3Schema.properties[a].default: Forbidden: must not be set (cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)")]
#[case(json!({"preserveUnknownFields": false}),
    "spec.versions[0].schema.openAPIV3Schema: Required value: because otherwise all fields are pruned")]
#[case(json!({"preserveUnknownFields": false, "validation": {"openAPIV3Schema": {"properties": {"a": {"type": "string"}}}}}),
    "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root")]
#[case(json!({"validation": {"openAPIV3Schema": {"properties": {"a": {"x-kubernetes-int-or-string": true}}}}}),
    "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root")]
#[case(json!({"version": "v2", "versions": [{"name": "v1", "served": true, "storage": true}]}),
    "spec.version: Invalid value: \"v2\": must match the first version in spec.versions")]
#[case(json!({"subresources": {"status": {}},
    "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}]}),
    "spec.subresources: Forbidden: top-level and per-version subresources are mutually exclusive")]
#[case(json!({"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}),
    "per-version schemas may not all be set to identical values (top-level validation should be used instead)")]
#[case(json!({"conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://x/"}}}),
    "spec.conversion.strategy: Invalid value: \"Webhook\": must be None if spec.preserveUnknownFields is true")]
#[case(json!({"additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": "a["}]}),
    "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"a[\"")]
#[tokio::test]
async fn bad_definitions_are_refused(#[case] fields: Value, #[case] expected: &str) {
    let (code, status) = send(&server(), Method::POST, DEFINITIONS, definition(fields)).await;
    assert_eq!(code, 422);
    assert!(status["message"].as_str().unwrap().contains(expected), "{}", status["message"]);
}

#[tokio::test]
async fn a_webhook_for_conversions_has_the_defaults_of_its_version() {
    let server = server();
    let fields = json!({"preserveUnknownFields": false, "validation": {"openAPIV3Schema": {"type": "object"}},
        "conversion": {"strategy": "Webhook",
            "webhookClientConfig": {"service": {"name": "s", "namespace": "n"}}}});
    let made = created(&server, DEFINITIONS, definition(fields)).await;
    let conversion = json!({"strategy": "Webhook", "conversionReviewVersions": ["v1beta1"],
        "webhookClientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}}});
    assert_eq!(made["spec"]["conversion"], conversion);
    let stable = get(&server, &format!("{}/widgets.ex.io", v1(DEFINITIONS))).await;
    assert_eq!(
        stable["spec"]["conversion"],
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1beta1"],
            "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}}}})
    );
    assert_eq!(stable["spec"].get("preserveUnknownFields"), None);
}

#[tokio::test]
async fn old_definitions_can_be_seeded() {
    let server = server();
    server.seed([definition(json!({})), widget(json!({"a": 1}))]).unwrap();
    assert_eq!(get(&server, WIDGETS).await["items"][0]["spec"], json!({"a": 1}));
    let seeded = get(&server, &format!("{DEFINITIONS}/widgets.ex.io")).await;
    assert_eq!((&seeded["spec"]["version"], &seeded["spec"]["preserveUnknownFields"]), (&json!("v1"), &json!(true)));
}
