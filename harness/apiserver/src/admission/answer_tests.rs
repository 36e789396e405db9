//! Requests as webhooks and policies see them, and their answers, as upstream's integration tests ask:
//! `test/integration/apiserver/admissionwebhook` and `test/integration/apiserver/cel` of Kubernetes 1.36.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, header};
use parking_lot::Mutex;
use rstest::rstest;

use super::tests::{
    HOOK, MAPS, REGISTRATION, answer, bind, create, map, mutating, patch, policy, reply, send, validating, virtually,
    webhook,
};
use crate::json::{Value, json};
use crate::server::ApiServer;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Rules that match every request.
fn everything() -> Value {
    json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}])
}

/// Registers a webhook for every request, which allows them; returns what it has seen.
async fn seen_by_webhook(server: &ApiServer, mutating: bool) -> Arc<Mutex<Vec<serde_json::Value>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shown = seen.clone();
    server.handle_webhook(HOOK, move |review| {
        shown.lock().push(review["request"].clone());
        async move { answer(&review, true, serde_json::json!({})) }
    });
    webhook(server, mutating, json!({"rules": everything()})).await;
    seen
}

async fn seed(server: &ApiServer) {
    create(server, MAPS, map("a")).await;
    create(server, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    create(server, "/api/v1/nodes", json!({"metadata": {"name": "node"}})).await;
    create(server, "/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await;
    create(server, PODS, json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .await;
}

/// `testResourceDeletecollection`, `testPodConnectSubresource`, `testSubresourceProxy` and the reviews of
/// `admission_test.go`.
#[rstest]
#[case::named(Method::DELETE, "/api/v1/namespaces/default/configmaps/a?gracePeriodSeconds=0", json!(null),
    json!({"operation": "DELETE", "name": "a", "object": null,
        "options": {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 0}}))]
#[case::collection(Method::DELETE, MAPS, json!({}), json!({"operation": "DELETE", "name": null, "namespace": "default"}))]
#[case::conditions(Method::DELETE, "/api/v1/namespaces/default/configmaps/a",
    json!({"dryRun": ["All"], "orphanDependents": true, "preconditions": {"resourceVersion": "RV"}}),
    json!({"options": {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"],
        "orphanDependents": true, "preconditions": {"resourceVersion": "RV"}}}))]
#[case::access(Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    json!({"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}}),
    json!({"operation": "CREATE", "resource": {"group": "authorization.k8s.io", "version": "v1",
        "resource": "subjectaccessreviews"}, "namespace": null}))]
#[case::token(Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": "t"}}),
    json!({"operation": "CREATE", "kind": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenReview"}}))]
#[case::itself(Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({}),
    json!({"operation": "CREATE"}))]
#[case::exec(Method::POST, "/api/v1/namespaces/default/pods/p/exec?command=ls&command=-l&stdin=true", json!(null),
    json!({"operation": "CONNECT", "subResource": "exec", "name": "p", "options": null,
        "object": {"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "command": ["ls", "-l"]}}))]
#[case::forward(Method::GET, "/api/v1/namespaces/default/pods/p/portforward?ports=80&ports=81,82", json!(null),
    json!({"operation": "CONNECT", "subResource": "portforward",
        "object": {"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": [80, 81, 82]}}))]
#[case::proxy(Method::PUT, "/api/v1/namespaces/default/pods/p/proxy/x/y/", json!(null),
    json!({"operation": "CONNECT", "subResource": "proxy", "object": {"kind": "PodProxyOptions", "apiVersion": "v1",
        "path": "/x/y/"}}))]
#[case::node(Method::GET, "/api/v1/nodes/node/proxy", json!(null), json!({"operation": "CONNECT", "name": "node",
    "object": {"kind": "NodeProxyOptions", "apiVersion": "v1"}, "namespace": null}))]
fn webhooks_see_a_request(
    #[case] method: Method,
    #[case] path: &str,
    #[case] body: Value,
    #[case] expected: Value,
    #[values(true, false)] mutating: bool,
) {
    virtually(|server| async move {
        seed(&server).await;
        let (_, stored) = send(&server, Method::GET, &format!("{MAPS}/a"), Value::Null).await;
        let version = stored["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let with_version = |value: Value| -> Value {
            serde_json::from_str(&value.to_string().replace("\"RV\"", &format!("\"{version}\""))).expect("JSON")
        };
        let seen = seen_by_webhook(&server, mutating).await;
        seen.lock().clear();
        send(&server, method, path, with_version(body)).await;
        let seen = seen.lock().clone();
        assert_eq!(seen.len(), 1, "{seen:?}");
        let seen: Value = serde_json::from_str(&seen[0].to_string()).expect("JSON");
        for (field, value) in with_version(expected).as_object().into_iter().flatten() {
            assert_eq!(seen[field.as_str()], *value, "{field}");
        }
    });
}

/// `REST.Delete` of `pkg/registry/core/namespace/storage/storage.go` sets the precondition before it asks.
#[test]
fn the_deletion_of_a_namespace_has_its_uid_and_is_asked_once() {
    virtually(|server| async move {
        seed(&server).await;
        let seen = seen_by_webhook(&server, false).await;
        seen.lock().clear();
        for _ in 0..2 {
            assert_eq!(send(&server, Method::DELETE, "/api/v1/namespaces/n", Value::Null).await.0, 200);
        }
        let seen = seen.lock().clone();
        assert_eq!(seen.len(), 1);
        let uid = &seen[0]["oldObject"]["metadata"]["uid"];
        assert!(uid.is_string());
        assert_eq!(seen[0]["options"]["preconditions"], serde_json::json!({"uid": uid}));
    });
}

/// `Store.Delete` of `pkg/registry/generic/registry/store.go`: `rest.BeforeDelete` comes before the validation.
#[test]
fn preconditions_come_before_webhooks() {
    virtually(|server| async move {
        seed(&server).await;
        server.handle_webhook(HOOK, |review| async move { answer(&review, false, serde_json::json!({})) });
        webhook(&server, false, json!({"rules": everything()})).await;
        let body = json!({"preconditions": {"uid": "other"}});
        let (code, refused) = send(&server, Method::DELETE, &format!("{MAPS}/a"), body).await;
        assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")));
        assert_eq!(send(&server, Method::DELETE, &format!("{MAPS}/a"), Value::Null).await.0, 400);
    });
}

/// `ParseUint` of `Convert_Slice_string_To_Slice_int32`.
#[tokio::test]
async fn ports_that_are_no_numbers_are_refused() {
    let server = ApiServer::builder().build();
    let (code, refused) = send(&server, Method::GET, &format!("{PODS}/p/portforward?ports=x"), Value::Null).await;
    let why = "cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax";
    assert_eq!((code, refused["message"].as_str()), (400, Some(why)));
}

/// `pkg/kubeapiserver/admission/exclusion/resources.go`.
#[test]
fn policies_do_not_see_reviews() {
    virtually(|server| async move {
        let mut all = policy("vap", json!({"validations": [{"expression": "false"}]}));
        all["spec"]["matchConstraints"]["resourceRules"] = everything();
        create(&server, &format!("{REGISTRATION}/validatingadmissionpolicies"), all).await;
        bind(&server, "validatingadmissionpolicybindings", "vap", json!({"validationActions": ["Deny"]})).await;
        let review = json!({"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
        create(&server, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await;
        assert_eq!(send(&server, Method::POST, MAPS, map("a")).await.0, 422);
    });
}

/// Registers a mutating webhook that answers with these operations, and creates a config map.
async fn created_with(server: &ApiServer, operations: serde_json::Value) -> (u16, Value) {
    server.handle_webhook(HOOK, move |review| {
        let operations = operations.clone();
        async move { answer(&review, true, patch(&operations)) }
    });
    webhook(server, true, json!({})).await;
    send(server, Method::POST, MAPS, map("m")).await
}

/// `EnsureObjectNamespaceMatchesRequestNamespace` in `BeforeCreate`, `Convert` at the end of the mutating dispatcher,
/// and the codec, which takes kind and version from the wanted type where they are missing.
#[rstest]
#[case::namespace(json!([{"op": "replace", "path": "/metadata/namespace", "value": "other"}]), 400,
    "the namespace of the provided object does not match the namespace sent on the request")]
#[case::no_namespace(json!([{"op": "remove", "path": "/metadata/namespace"}]), 201, "")]
#[case::kind(json!([{"op": "replace", "path": "/kind", "value": "Pod"}]), 500,
    "converting (v1.Pod) to (core.ConfigMap): unknown conversion")]
#[case::no_kind(json!([{"op": "remove", "path": "/kind"}, {"op": "remove", "path": "/apiVersion"}]), 201, "")]
#[case::object(json!({"op": "add"}), 500, "Internal error occurred: failed calling webhook \"h.example.com\": received \
    undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch")]
#[case::number(json!([1]), 500, "Internal error occurred: failed calling webhook \"h.example.com\": received \
    undecodable patch in webhook response: json: cannot unmarshal number into Go value of type jsonpatch.Operation")]
#[case::null(json!(null), 201, "")]
fn a_patch_of_a_webhook(#[case] operations: Value, #[case] code: u16, #[case] why: &str) {
    virtually(|server| async move {
        let (given, answer) = created_with(&server, operations.into()).await;
        assert_eq!((given, answer["message"].as_str().unwrap_or_default()), (code, why), "{answer}");
        if code == 201 {
            assert_eq!((&answer["kind"], &answer["metadata"]["namespace"]), (&json!("ConfigMap"), &json!("default")));
        }
    });
}

/// `TestInvalidManagedFieldsAfterMutatingAdmission` of `invalid_managedFields_test.go`.
#[test]
fn managed_fields_that_a_webhook_broke_are_restored() {
    virtually(|server| async move {
        server.handle_webhook(HOOK, |review| async move {
            let operations = serde_json::json!([{"op": "remove", "path": "/metadata/managedFields/0/fieldsType"}]);
            answer(&review, true, patch(&operations))
        });
        webhook(&server, true, json!({})).await;
        let created = reply(&server, Method::POST, MAPS, map("m")).await;
        assert_eq!(created.status, 201);
        let warning = created.headers[header::WARNING].to_str().unwrap_or_default().to_owned();
        let why = ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
            mutating admission controller; please fix your requests: missing fieldsType in managed fields entry 0";
        assert!(warning.contains(why), "{warning}");
        let (_, stored) = send(&server, Method::GET, &format!("{MAPS}/m"), Value::Null).await;
        assert_eq!(stored["metadata"]["managedFields"][0]["fieldsType"], "FieldsV1");
    });
}

/// `Test_ValidateNamespace_NoParams_Failures` of `validatingadmissionpolicy_test.go`: null has no fields, and `has` of
/// them is false.
#[rstest]
#[case::field("object.metadata.name.startsWith(params.metadata.name)", "no such key: metadata")]
#[case::item("params['metadata'] == 'x'", "no such key: metadata")]
#[case::text("object.data.k.x == 'x'", "no such key: x")]
#[case::index("object.metadata.managedFields['x'] == 'x'", "unsupported index type 'string' in list")]
#[case::has("has(params.metadata) && has(params.metadata.name)", "")]
#[case::has_text("has(object.data.k.x)", "")]
#[case::has_old("has(oldObject.data)", "")]
fn values_without_fields(#[case] expression: &str, #[case] why: &str) {
    virtually(|server| async move {
        let fields = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": expression}]});
        validating(&server, "vap", fields).await;
        bind(&server, "validatingadmissionpolicybindings", "vap", json!({"validationActions": ["Deny"]})).await;
        let (_, refused) = send(&server, Method::POST, MAPS, map("m")).await;
        let shown = if why.is_empty() {
            format!("failed expression: {expression}")
        } else {
            format!("expression '{expression}' resulted in error: {why}")
        };
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(&format!("denied request: {shown}")), "{message}");
    });
}

/// `testWebhookTimeout` of `timeout_test.go`, and `requestTimeoutUpperBound`.
#[rstest]
#[case::asked("?timeout=3s", 3)]
#[case::bound("", 34)]
#[case::long("?timeout=50s", 34)]
fn a_request_has_less_time_than_its_webhooks(#[case] query: &str, #[case] seconds: u64) {
    virtually(|server| async move {
        server.handle_webhook(HOOK, |_| std::future::pending());
        let hook = |name: &str| {
            json!({"name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/x"}},
                "failurePolicy": "Ignore", "timeoutSeconds": 30, "rules": everything()})
        };
        let body = json!({"metadata": {"name": "two"}, "webhooks": [hook("a"), hook("b")]});
        create(&server, &format!("{REGISTRATION}/mutatingwebhookconfigurations"), body).await;
        let before = server.clock().elapsed();
        let (code, refused) = send(&server, Method::POST, &format!("{MAPS}{query}"), map("m")).await;
        let why = "Timeout: request did not complete within requested timeout - context deadline exceeded";
        assert_eq!((code, refused["message"].as_str(), &refused["reason"]), (504, Some(why), &json!("Timeout")));
        assert_eq!(server.clock().elapsed().saturating_sub(before).as_secs(), Duration::from_secs(seconds).as_secs());
    });
}

fn json_patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// `dispatchInvocations` of `pkg/admission/plugin/policy/mutating/dispatcher.go`: a mutation that fails does not end
/// the policy.
#[rstest]
#[case::ignored("Ignore", 201)]
#[case::counted("Fail", 403)]
fn a_mutation_that_fails_leaves_the_others(#[case] failures: &str, #[case] code: u16) {
    virtually(|server| async move {
        let fails = json_patch("[JSONPatch{op: 'remove', path: '/data/none'}]");
        let adds = json_patch("[JSONPatch{op: 'add', path: '/data/n', value: '1'}]");
        let fields = json!({"mutations": [fails, adds, fails], "failurePolicy": failures});
        mutating(&server, "map", fields).await;
        let (given, answer) = send(&server, Method::POST, MAPS, map("m")).await;
        assert_eq!(given, code, "{answer}");
        if code == 201 {
            assert_eq!(answer["data"], json!({"k": "v", "n": "1"}));
        } else {
            assert_eq!(answer["details"]["causes"].as_array().map(Vec::len), Some(2));
        }
    });
}

/// `jsonPatcher.Patch` of `pkg/admission/plugin/policy/mutating/patch/json_patch.go` decodes strictly, and its errors
/// of decoding end the request with every failure policy.
#[rstest]
#[case::unknown("[JSONPatch{op: 'add', path: '/foo', value: 1}]", "strict decoding error: unknown field \"foo\"")]
#[case::ty(
    "[JSONPatch{op: 'add', path: '/data/x', value: 1}]",
    "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
)]
#[case::kind(
    "[JSONPatch{op: 'replace', path: '/kind', value: 'Secret'}]",
    "failed to convert object: converting (v1.Secret) to (core.ConfigMap): unknown conversion"
)]
fn a_json_patch_of_a_policy_that_cannot_be_decoded(#[case] expression: &str, #[case] why: &str) {
    virtually(|server| async move {
        let fields = json!({"mutations": [json_patch(expression)], "failurePolicy": "Ignore"});
        mutating(&server, "map", fields).await;
        let (code, refused) = send(&server, Method::POST, MAPS, map("m")).await;
        let message = format!("Internal error occurred: {why}");
        assert_eq!((code, refused["message"].as_str()), (500, Some(message.as_str())));
    });
}

/// `RequireReinvokingPreviouslyInvokedPlugins` at the end of `dispatchInvocations` counts for the policy itself.
#[test]
fn a_policy_that_asks_for_it_is_applied_again_after_itself() {
    virtually(|server| async move {
        let count = "[JSONPatch{op: 'replace', path: '/data/k', value: object.data.k + 'v'}]";
        let mut again = policy("map", json!({"mutations": [json_patch(count)]}));
        again["spec"]["reinvocationPolicy"] = "IfNeeded".into();
        create(&server, &format!("{REGISTRATION}/mutatingadmissionpolicies"), again).await;
        bind(&server, "mutatingadmissionpolicybindings", "map", json!({})).await;
        let (_, created) = send(&server, Method::POST, MAPS, map("m")).await;
        assert_eq!(created["data"]["k"], "vvv");
    });
}

/// `ensureParamsForPolicyLocked` of `pkg/admission/plugin/policy/generic/policy_source.go`: the policy is to blame,
/// with and without a `paramRef`.
#[rstest]
#[case::core("v1", "/v1, Kind=Foo")]
#[case::group("a.b/v1", "a.b/v1, Kind=Foo")]
fn the_kind_of_parameters_is_unknown(#[case] api_version: &str, #[case] shown: &str) {
    virtually(|server| async move {
        let fields = json!({"paramKind": {"apiVersion": api_version, "kind": "Foo"},
            "validations": [{"expression": "true"}]});
        validating(&server, "vap", fields).await;
        bind(&server, "validatingadmissionpolicybindings", "vap", json!({"validationActions": ["Deny"]})).await;
        let (code, refused) = send(&server, Method::POST, MAPS, map("m")).await;
        let why = format!(
            "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'vap' denied request: failed to configure policy: \
             failed to find resource referenced by paramKind: '{shown}'"
        );
        assert_eq!((code, refused["message"].as_str()), (422, Some(why.as_str())));
    });
}

/// `Store.Update` of `pkg/registry/generic/registry/store.go` reads the version of the object that `UpdatedObject`
/// made, admission included.
#[rstest]
#[case::none(json!([{"op": "remove", "path": "/metadata/resourceVersion"}]), 200)]
#[case::old(json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]), 409)]
fn the_version_after_admission_counts(#[case] operations: Value, #[case] code: u16) {
    virtually(|server| async move {
        create(&server, MAPS, map("m")).await;
        server.handle_webhook(HOOK, move |review| {
            let operations: serde_json::Value = operations.clone().into();
            async move { answer(&review, true, patch(&operations)) }
        });
        webhook(&server, true, json!({})).await;
        let path = format!("{MAPS}/m");
        assert_eq!(send(&server, Method::PATCH, &path, json!({"data": {"n": "1"}})).await.0, code);
    });
}

/// `TokenREST.Create` of `pkg/registry/core/serviceaccount/storage/token.go`: the token is for the account, whose UID
/// counts, and admission may change what is asked for.
#[test]
fn a_token_request_is_completed() {
    virtually(|server| async move {
        seed(&server).await;
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let (_, account) = send(&server, Method::GET, &format!("{accounts}/default"), Value::Null).await;
        server.handle_webhook(HOOK, |review| async move {
            let operations = serde_json::json!([{"op": "replace", "path": "/spec/expirationSeconds", "value": 900}]);
            answer(&review, true, patch(&operations))
        });
        webhook(&server, true, json!({"rules": everything()})).await;
        let path = format!("{accounts}/default/token");
        let (code, answer) = send(&server, Method::POST, &path, json!({"spec": {}})).await;
        assert_eq!((code, &answer["spec"]["expirationSeconds"]), (201, &json!(900)), "{answer}");
        assert_eq!(answer["metadata"]["uid"], account["metadata"]["uid"]);
        let (code, refused) = send(&server, Method::POST, &path, json!({"metadata": {"uid": "u"}, "spec": {}})).await;
        let why = format!(
            "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"default\": the UID in the token \
             request (u) does not match the UID of the service account ({})",
            account["metadata"]["uid"].as_str().unwrap_or_default()
        );
        assert_eq!((code, refused["message"].as_str()), (409, Some(why.as_str())));
    });
}
