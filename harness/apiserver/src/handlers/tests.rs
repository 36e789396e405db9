//! Differences from kube-apiserver that upstream's tests in `test/integration/apiserver/*.go` found.

use http::{HeaderValue, Method, header};
use rstest::rstest;

use crate::bootstrap;
use crate::clock::Clock;
use crate::json::{Value, json};
use crate::protobuf;
use crate::request::{ApiRequest, ReplyBody};
use crate::server::ApiServer;
use crate::{ApiServerConfig, Reply};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server() -> ApiServer {
    ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())))
}

fn request(method: Method, path: &str, content_type: &'static str, body: &Value) -> ApiRequest {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut request = ApiRequest::new(method, path);
    request.query = query.to_owned();
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if !body.is_null() {
        request.body = body.to_string().into();
    }
    request
}

async fn send(server: &ApiServer, request: ApiRequest) -> (u16, Value) {
    let Reply { status, body, .. } = server.handle(request).await;
    let ReplyBody::Full(bytes) = body else { panic!("no full body") };
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[rstest]
#[case::no_number("abc", "", 201)]
#[case::number("7", "", 500)]
#[case::number_in_a_dry_run("7", "?dryRun=All", 201)]
#[tokio::test(start_paused = true)]
async fn a_new_object_with_a_resource_version(#[case] version: &str, #[case] query: &str, #[case] expected: u16) {
    let mut object = map("a");
    object["metadata"]["resourceVersion"] = json!(version);
    let path = format!("{MAPS}{query}");
    let (status, reply) = send(&server(), request(Method::POST, &path, "application/json", &object)).await;
    assert_eq!(status, expected, "{reply}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_group_in_an_api_version() {
    let mut object = map("a");
    object["apiVersion"] = json!("/v1");
    let (status, created) = send(&server(), request(Method::POST, MAPS, "application/json", &object)).await;
    assert_eq!((status, &created["apiVersion"]), (201, &json!("v1")));
}

/// Three servers with schemes of their own answer; recorded from kube-apiserver 1.36.2.
#[rstest]
#[case("/api/v1/configmaps", "pkg/api/legacyscheme/scheme.go:30")]
#[case("/apis/apiregistration.k8s.io/v1/apiservices", "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28")]
#[case(
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55"
)]
#[tokio::test(start_paused = true)]
async fn kinds_that_no_scheme_knows(#[case] path: &str, #[case] scheme: &str) {
    let path = path.replace("/configmaps", "/namespaces/default/configmaps");
    let object = json!({"apiVersion": "v1", "kind": "Other", "metadata": {"name": "a"}});
    let (_, reply) = send(&server(), request(Method::POST, &path, "application/json", &object)).await;
    let message = reply["message"].as_str().unwrap_or_default();
    let why = format!("no kind \"Other\" is registered for version \"v1\" in scheme \"{scheme}\"");
    assert!(message.ends_with(&why), "{message}");
}

#[rstest]
#[case("/version?timeout=invalid")]
#[case("/apis?timeout=invalid")]
#[case("/api/v1/namespaces?timeout=invalid")]
#[tokio::test(start_paused = true)]
async fn a_timeout_is_checked_on_every_path(#[case] path: &str) {
    let (status, reply) = send(&server(), request(Method::GET, path, "application/json", &Value::Null)).await;
    let why = "invalid timeout specified in the request URL - time: invalid duration \"invalid\"";
    assert_eq!((status, &reply["message"]), (400, &json!(why)));
}

/// The names of the keys make the managed fields as large as the object.
#[rstest]
#[case::stored_without_managed_fields(10_000, 201)]
#[case::too_large_in_any_case(25_000, 500)]
#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_large_with_its_managed_fields(#[case] keys: usize, #[case] expected: u16) {
    let mut object = map("large");
    let data: Value = (0..keys).map(|key| (format!("{key:075}"), json!("v"))).collect();
    object["data"] = data;
    let (status, created) = send(&server(), request(Method::POST, MAPS, "application/json", &object)).await;
    assert_eq!(status, expected, "{}", created["message"]);
    assert!(created["metadata"].get("managedFields").is_none());
}

/// A server on which alice may do what one rule says.
fn server_with_role(rule: &Value) -> ApiServer {
    let server = server();
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": "r"}, "rules": [rule]});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "b"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "alice"}]});
    server.seed([role, binding]).expect("objects");
    server
}

fn as_alice(mut request: ApiRequest) -> ApiRequest {
    request.headers.insert("impersonate-user", HeaderValue::from_static("alice"));
    request
}

#[rstest]
#[case(json!(["patch"]), 403)]
#[case(json!(["patch", "create"]), 201)]
#[tokio::test(start_paused = true)]
async fn apply_of_a_new_object_needs_the_right_to_create(#[case] verbs: Value, #[case] expected: u16) {
    let server = server_with_role(&json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}));
    let path = format!("{MAPS}/a?fieldManager=m");
    let apply = as_alice(request(Method::PATCH, &path, "application/apply-patch+yaml", &map("a")));
    let (status, reply) = send(&server, apply).await;
    assert_eq!(status, expected, "{reply}");
    if status == 403 {
        let message = reply["message"].as_str().unwrap_or_default();
        assert!(message.contains("cannot create resource \"configmaps\""), "{message}");
    }
}

#[rstest]
#[case::configuration("configmaps", "v1", &json!({"data": {"a": "1"}}))]
#[case::workload("deployments", "apps/v1", &json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
    "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}))]
#[tokio::test(start_paused = true)]
async fn the_same_apply_is_known_until_the_object_changes(
    #[case] plural: &str,
    #[case] api_version: &str,
    #[case] content: &Value,
) {
    let server = server();
    let kind = if plural == "configmaps" { "ConfigMap" } else { "Deployment" };
    let root = if api_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api_version}") };
    let path = format!("{root}/namespaces/default/{plural}/a");
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
    for (name, value) in content.as_object().into_iter().flatten() {
        object[name.as_str()] = value.clone();
    }
    let apply = |manager: &str, object: &Value| {
        request(Method::PATCH, &format!("{path}?fieldManager={manager}"), "application/apply-patch+yaml", object)
    };
    let (_, created) = send(&server, apply("m", &object)).await;
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    assert_eq!(server.idle_applies().count(), 0, "the first one creates");
    for _ in 0..3 {
        let (status, again) = send(&server, apply("m", &object)).await;
        assert_eq!((status, &again), (200, &created));
        assert_eq!(server.idle_applies().count(), 1);
    }
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    let (_, labelled) = send(&server, request(Method::PATCH, &path, "application/merge-patch+json", &label)).await;
    assert_ne!(version(&labelled), version(&created));
    let (_, again) = send(&server, apply("m", &object)).await;
    assert_eq!(again, labelled, "the present object");
    let (_, other) = send(&server, apply("n", &object)).await;
    assert_ne!(version(&other), version(&again), "another manager owns the fields, too");
    object["metadata"]["labels"] = json!({"x": "z"});
    let (status, conflict) = send(&server, apply("m", &object)).await;
    assert_eq!(status, 409, "{conflict}");
}

#[rstest]
#[case(json!(["get"]), 403)]
#[case(json!(["get", "create"]), 404)]
#[tokio::test(start_paused = true)]
async fn exec_over_web_sockets_needs_the_right_to_create(#[case] verbs: Value, #[case] expected: u16) {
    let server = server_with_role(&json!({"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}));
    let exec =
        request(Method::GET, "/api/v1/namespaces/default/pods/p/exec?command=ls", "application/json", &Value::Null);
    let (status, reply) = send(&server, as_alice(exec)).await;
    assert_eq!(status, expected, "{reply}");
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_service_cidr_leaves_its_labels_alone() {
    let server = server();
    let all = "/apis/networking.k8s.io/v1/servicecidrs";
    let cidr = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "c"},
        "spec": {"cidrs": ["10.9.0.0/24"]}});
    assert_eq!(send(&server, request(Method::POST, all, "application/json", &cidr)).await.0, 201);
    let patch = json!({"metadata": {"labels": {"a": "b"}}, "status": {"conditions": []}});
    let path = format!("{all}/c/status");
    let (status, patched) = send(&server, request(Method::PATCH, &path, "application/merge-patch+json", &patch)).await;
    assert_eq!((status, patched["metadata"].get("labels")), (200, None));
}

/// Defines a kind, and adds an object of it.
fn seed_clus(server: &ApiServer) {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clus.ex.io"}, "spec": {"group": "ex.io", "scope": "Cluster",
        "names": {"plural": "clus", "kind": "Clu"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let clu = json!({"apiVersion": "ex.io/v1", "kind": "Clu", "metadata": {"name": "a"}});
    server.seed([definition, clu]).expect("objects");
}

/// `TestAPICRDProtobuf`: custom resources have no protobuf form, but errors do.
#[rstest]
#[case::of_a_custom_resource("/apis/ex.io/v1/clus/a", "application/vnd.kubernetes.protobuf", 406, protobuf::MEDIA_TYPE)]
#[case::of_its_status("/apis/ex.io/v1/clus/a/status", "application/vnd.kubernetes.protobuf", 406, protobuf::MEDIA_TYPE)]
#[case::with_json(
    "/apis/ex.io/v1/clus/a",
    "application/vnd.kubernetes.protobuf,application/json",
    200,
    "application/json"
)]
#[case::of_a_kind("/api/v1/nodes/a", "application/vnd.kubernetes.protobuf,application/json", 404, protobuf::MEDIA_TYPE)]
#[case::json_first("/api/v1/nodes/a", "application/json,application/vnd.kubernetes.protobuf", 404, "application/json")]
#[case::metadata(
    "/api/v1/nodes/a",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
    404,
    "application/json"
)]
#[tokio::test(start_paused = true)]
async fn errors_are_protobuf_for_clients_that_prefer_it(
    #[case] path: &str,
    #[case] accept: &'static str,
    #[case] status: u16,
    #[case] media: &str,
) {
    let server = server();
    seed_clus(&server);
    let mut get = request(Method::GET, path, "application/json", &Value::Null);
    get.headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    let reply = server.handle(get).await;
    assert_eq!((reply.status, reply.headers[header::CONTENT_TYPE].to_str().unwrap()), (status, media));
    let ReplyBody::Full(bytes) = reply.body else { panic!("no full body") };
    let json =
        if media == protobuf::MEDIA_TYPE { protobuf::to_json(&bytes).expect("a message") } else { bytes.to_vec() };
    let value: Value = serde_json::from_slice(&json).expect("JSON");
    let code = if status < 300 { Value::Null } else { json!(status) };
    assert_eq!(value["code"], code, "{value}");
}

/// `upgradeaware.go`: a request without an upgrade is refused, and one with an upgrade goes to a kubelet that is not
/// there.
#[rstest]
#[case::without_upgrade("", 400, "Upgrade request required")]
#[case::web_socket(
    "websocket",
    500,
    "error dialing backend: dial tcp 192.0.2.1:10250: no container runs here: exec needs the annotation plumbline.dev/exec, and WebSocket"
)]
#[tokio::test(start_paused = true)]
async fn connections_into_pods_end_at_the_kubelet(
    #[case] upgrade: &'static str,
    #[case] status: u16,
    #[case] message: &str,
) {
    let server = server();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    server.seed([node, pod]).expect("objects");
    let path = "/api/v1/namespaces/default/pods/p/exec?command=ls";
    let mut exec = request(Method::GET, path, "application/json", &Value::Null);
    if !upgrade.is_empty() {
        exec.headers.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
    }
    let (code, reply) = send(&server, exec).await;
    assert_eq!((code, &reply["message"]), (status, &json!(message)));
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const RANGES: &str = "/api/v1/namespaces/default/limitranges";

fn range(name: &str, limit: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": [limit]}})
}

fn pod(container: &str, resources: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": container, "image": "i", "resources": resources}]}})
}

/// `Admit` and `Validate` of `plugin/pkg/admission/limitranger/admission.go`: validation is between them.
#[rstest]
#[case::invalid("C", json!({"limits": {"cpu": "2"}}), 422, "Invalid")]
#[case::too_much("c", json!({"limits": {"cpu": "2"}}), 403, "Forbidden")]
#[case::by_default("c", json!({}), 201, "")]
#[tokio::test(start_paused = true)]
async fn limits_are_checked_in_valid_pods(
    #[case] container: &str,
    #[case] resources: Value,
    #[case] expected: u16,
    #[case] reason: &str,
) {
    let server = server();
    let limits = range("r", &json!({"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}}));
    assert_eq!(send(&server, request(Method::POST, RANGES, "application/json", &limits)).await.0, 201);
    let pod = pod(container, &resources);
    let (status, reply) = send(&server, request(Method::POST, PODS, "application/json", &pod)).await;
    assert_eq!((status, reply["reason"].as_str().unwrap_or_default()), (expected, reason), "{reply}");
}

/// `SupportsAttributes` in the same file: a resize gets the defaults, too.
#[tokio::test(start_paused = true)]
async fn a_resize_gets_the_defaults_of_a_later_range() {
    let server = server();
    let pod = pod("c", &json!({"requests": {"cpu": "1"}}));
    assert_eq!(send(&server, request(Method::POST, PODS, "application/json", &pod)).await.0, 201);
    let limits = range("r", &json!({"type": "Container", "defaultRequest": {"memory": "1Gi"}}));
    assert_eq!(send(&server, request(Method::POST, RANGES, "application/json", &limits)).await.0, 201);
    let change = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
    let resize = request(Method::PATCH, &format!("{PODS}/p/resize"), "application/strategic-merge-patch+json", &change);
    let (status, resized) = send(&server, resize).await;
    let requests = &resized["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!((status, requests), (200, &json!({"cpu": "2", "memory": "1Gi"})));
    assert!(resized["metadata"].get("annotations").is_none(), "{resized}");
}

/// The mandatory objects of priority and fairness have the specs that validation demands, and all of them are valid:
/// `default_test.go` in `pkg/apis/flowcontrol/internalbootstrap`.
#[rstest]
#[case("flowschemas", "FlowSchema", 11)]
#[case("prioritylevelconfigurations", "PriorityLevelConfiguration", 8)]
#[tokio::test(start_paused = true)]
async fn objects_of_priority_and_fairness_are_valid(#[case] plural: &str, #[case] kind: &str, #[case] count: usize) {
    let server = server();
    server.seed(bootstrap::objects(([127, 0, 0, 1], 6443).into(), crate::clock::epoch())).expect("valid objects");
    let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/{plural}");
    let (_, list) = send(&server, ApiRequest::new(Method::GET, &path)).await;
    let items = list["items"].as_array().expect("a list");
    assert_eq!(items.len(), count);
    for item in items {
        let mut object = item.clone();
        object["apiVersion"] = json!("flowcontrol.apiserver.k8s.io/v1");
        object["kind"] = json!(kind);
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        let (status, reply) = send(&server, request(Method::PUT, &path, "application/json", &object)).await;
        assert_eq!(status, 200, "{reply}");
    }
}

/// The storages of `pkg/registry/*/*/storage/storage.go` and `etcd.go` of the other servers: those of some subresources
/// have no `ConvertToTable`.
#[rstest]
#[case::status("/apis/apps/v1/namespaces/default/deployments/d/status", 200)]
#[case::scale("/apis/apps/v1/namespaces/default/deployments/d/scale", 200)]
#[case::status_of_a_definition("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clus.ex.io/status", 406)]
#[case::resize("/api/v1/namespaces/default/pods/p/resize", 406)]
#[case::status_of_a_custom_resource("/apis/ex.io/v1/clus/a/status", 200)]
#[tokio::test(start_paused = true)]
async fn tables_of_subresources(#[case] path: &str, #[case] expected: u16) {
    let server = server();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
    server.seed([pod, deployment]).expect("objects");
    seed_clus(&server);
    let mut get = request(Method::GET, path, "application/json", &Value::Null);
    get.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json;as=Table;v=v1;g=meta.k8s.io"));
    let (status, reply) = send(&server, get).await;
    assert_eq!((status, reply["kind"] == "Table"), (expected, expected == 200), "{reply}");
}

/// `limitrangeStrategy.PrepareForCreate`: a limit range without a name gets a random one.
#[tokio::test(start_paused = true)]
async fn a_limit_range_needs_no_name() {
    let server = server();
    let path = "/api/v1/namespaces/default/limitranges";
    let object = json!({"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": []}});
    let mut names = Vec::new();
    for _ in 0..2 {
        let (status, created) = send(&server, request(Method::POST, path, "application/json", &object)).await;
        assert_eq!(status, 201, "{created}");
        names.push(created["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    }
    assert!(names.iter().all(|name| name.len() == 36) && names[0] != names[1], "{names:?}");
}

/// `ValidateAPIService` judges the prefix of a name as it judges the name.
#[tokio::test(start_paused = true)]
async fn names_of_api_services_are_not_generated() {
    let object = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"generateName": "a"},
        "spec": {"group": "ex.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}});
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let (status, reply) = send(&server(), request(Method::POST, path, "application/json", &object)).await;
    let fields: Vec<&Value> =
        reply["details"]["causes"].as_array().expect("causes").iter().map(|c| &c["field"]).collect();
    assert_eq!((status, fields), (422, vec![&json!("metadata.generateName"), &json!("metadata.name")]), "{reply}");
}

/// `Unstructured.GetManagedFields` finds nothing in a value that is no list of entries; then it does not fit the type.
#[rstest]
#[case::text(json!("x"), 500, "expected list, got &{x}")]
#[case::text_in_a_list(json!(["x"]), 500, "expected map, got &{x}")]
#[case::entry(json!([{"manager": "a"}]), 400, "metadata.managedFields must be nil")]
#[case::empty(json!([]), 400, "metadata.managedFields must be nil")]
#[tokio::test(start_paused = true)]
async fn managed_fields_in_an_apply(#[case] fields: Value, #[case] expected: u16, #[case] why: &str) {
    let mut object = map("a");
    object["metadata"]["managedFields"] = fields;
    let path = format!("{MAPS}/a?fieldManager=m");
    let (status, reply) = send(&server(), request(Method::PATCH, &path, "application/apply-patch+yaml", &object)).await;
    let message = reply["message"].as_str().unwrap_or_default();
    assert!(status == expected && message.ends_with(why), "{reply}");
}

/// Go's decoder of YAML reads one document.
#[rstest]
#[case::second("---\nkind: X\n")]
#[case::not_yaml("---\n[\n")]
#[case::ended("...\n]\n")]
#[case::same_keys("--- # more\na: 1\na: 2\n")]
#[tokio::test(start_paused = true)]
async fn documents_after_the_first_are_not_read(#[case] more: &str) {
    let first = "# A comment.\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    ---\n";
    let path = format!("{MAPS}/a?fieldManager=m&fieldValidation=Strict");
    let mut apply = request(Method::PATCH, &path, "application/apply-patch+yaml", &Value::Null);
    apply.body = format!("{first}{more}").into();
    let (status, reply) = send(&server(), apply).await;
    assert_eq!((status, &reply["data"]["k"]), (201, &json!("---\n")), "{reply}");
}

/// `plugin/pkg/admission/runtimeclass/admission.go`: a class is looked for by a request, which cannot have every name.
#[rstest]
#[case::empty("", "resource name may not be empty")]
#[case::slash("a/b", "invalid resource name \"a/b\": [may not contain '/']")]
#[tokio::test(start_paused = true)]
async fn odd_runtime_classes(#[case] class: &str, #[case] message: &str) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"runtimeClassName": class, "containers": [{"name": "c", "image": "i"}]}});
    let builder = ApiServer::builder().clock(Clock::virtual_from(crate::clock::epoch()));
    let server = builder.disable_plugin(crate::AdmissionPlugin::ServiceAccount).build();
    let post = request(Method::POST, "/api/v1/namespaces/default/pods", "application/json", &pod);
    let (code, reply) = send(&server, post).await;
    assert_eq!((code, reply["message"].as_str()), (500, Some(message)));
}

/// `ReturnTypes` in `plugin/policy/mutating/patch/json_patch.go`: the type of a list must be known.
#[tokio::test(start_paused = true)]
async fn a_list_of_nothing_is_no_list_of_patches() {
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "p"}, "spec": {"reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"]}]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]}});
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    let (_, reply) = send(&server(), request(Method::POST, path, "application/json", &policy)).await;
    let why = "Invalid value: \"[]\": must evaluate to list(JSONPatch) but got list(dyn)";
    assert_eq!(reply["details"]["causes"][0]["message"], *why, "{reply}");
}

/// The warning about a deprecated kind is that of a handler: `restfulCreateResource` and others in
/// `staging/src/k8s.io/apiserver/pkg/endpoints/installer.go`.
#[rstest]
#[case::missing(Method::GET, "/api/v1/namespaces/default/endpoints/x", true)]
#[case::no_namespace(Method::GET, "/api/v1/endpoints/x", false)]
#[case::method(Method::POST, "/api/v1/endpoints", false)]
#[case::content_type(Method::PATCH, "/api/v1/namespaces/default/endpoints/x", false)]
#[tokio::test(start_paused = true)]
async fn only_handlers_warn_of_deprecated_kinds(#[case] method: Method, #[case] path: &str, #[case] warned: bool) {
    let reply = server().handle(request(method, path, "application/json", &json!({}))).await;
    assert_eq!(reply.headers.contains_key(header::WARNING), warned);
}

/// `DecodeContinue` in `staging/src/k8s.io/apiserver/pkg/storage/continue.go`.
#[rstest]
#[case::future(
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5OTk5OTk5OTksInN0YXJ0IjoiYzMifQ",
    504,
    "Timeout: Too large resource version: 99999999999, current: "
)]
#[case::text(
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6IngifQ",
    400,
    "invalid continue token: continue key is not valid: json: cannot unmarshal string into Go struct field continueToken.rv of type int64"
)]
#[tokio::test(start_paused = true)]
async fn odd_continue_tokens(#[case] token: &str, #[case] status: u16, #[case] begin: &str) {
    let path = format!("{MAPS}?limit=1&continue={token}");
    let (code, reply) = send(&server(), request(Method::GET, &path, "application/json", &Value::Null)).await;
    let message = reply["message"].as_str().unwrap_or_default();
    assert!(code == status && message.starts_with(begin), "{code} {message}");
}

/// `pkg/apis/resource/v1/conversion.go` names the kind.
#[tokio::test(start_paused = true)]
async fn slices_are_not_selected_by_other_fields() {
    let path = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=type%3Dx";
    let (_, reply) = send(&server(), request(Method::GET, path, "application/json", &Value::Null)).await;
    let message = reply["message"].as_str().unwrap_or_default();
    assert!(
        message.ends_with("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: type"),
        "{message}"
    );
}

/// `BuildEvaluationError` in `pkg/registry/authorization/util/helpers.go`.
#[tokio::test(start_paused = true)]
async fn reviews_with_selectors_that_cannot_be_read() {
    let selectors = json!({"fieldSelector": {"rawSelector": "a"}, "labelSelector": {"rawSelector": "a in"}});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": selectors}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (_, reply) = send(&server(), request(Method::POST, path, "application/json", &review)).await;
    let why = ["fieldSelector", "labelSelector"]
        .map(|name| format!("spec.resourceAttributes.{name} ignored due to parse error"));
    assert_eq!(reply["status"]["evaluationError"], *why.join("; "), "{reply}");
}

/// `applyPatcher` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go` reads the body once the object is
/// found, and `uid` of a Binding in the old collection is removed like that of other new objects (`create.go`).
#[rstest]
#[case::scale(Method::PATCH, "/apis/apps/v1/namespaces/default/deployments/d/scale?fieldManager=m",
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": "x"}}), 404, "deployments.apps \"d\" not found")]
#[case::binding(Method::POST, "/api/v1/namespaces/default/bindings",
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "uid": "u"}, "target": {"name": "n"}}), 409,
    "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"")]
#[case::uid(Method::POST, "/api/v1/namespaces/default/pods/p/binding?dryRun=All",
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "uid": "u"}, "target": {"name": "n"}}), 409,
    "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: /pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID in object meta: v")]
#[tokio::test(start_paused = true)]
async fn what_is_found_first(
    #[case] method: Method,
    #[case] path: &str,
    #[case] body: Value,
    #[case] status: u16,
    #[case] message: &str,
) {
    let server = server();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "v"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    server.seed([pod]).expect("a pod");
    let media = if method == Method::PATCH { "application/apply-patch+yaml" } else { "application/json" };
    let (code, reply) = send(&server, request(method, path, media, &body)).await;
    assert_eq!((code, reply["message"].as_str()), (status, Some(message)));
}
