//! Webhooks and policies on a server in virtual time. The messages are those of kube-apiserver 1.36.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Method, header};

use crate::audit::AuditAnnotations;
use crate::clock::run_virtual;
use crate::json::{Value, json};
use crate::request::{ApiRequest, Reply, ReplyBody};
use crate::server::ApiServer;

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
pub(super) const HOOK: &str = "https://hook.default.svc:443/x";

pub(super) async fn reply(server: &ApiServer, method: Method, path: &str, body: Value) -> Reply {
    let mut request = ApiRequest::new(method.clone(), path);
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if !body.is_null() {
        request.body = body.to_string().into();
    }
    server.handle(request).await
}

pub(super) async fn send(server: &ApiServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let reply = reply(server, method, path, body).await;
    let ReplyBody::Full(bytes) = reply.body else { panic!("no full body") };
    (reply.status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

pub(super) async fn create(server: &ApiServer, path: &str, body: Value) {
    let (code, answer) = send(server, Method::POST, path, body).await;
    assert_eq!(code, 201, "{answer}");
}

pub(super) fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

pub(super) fn rules(resources: &str) -> Value {
    json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resources]}])
}

/// Returns a policy for config maps with these fields of the spec.
pub(super) fn policy(name: &str, fields: Value) -> Value {
    let mut spec = json!({"matchConstraints": {"resourceRules": rules("configmaps")}});
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field.as_str()] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

pub(super) async fn bind(server: &ApiServer, kind: &str, name: &str, fields: Value) {
    let mut spec = json!({"policyName": name});
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field.as_str()] = value.clone();
    }
    create(server, &format!("{REGISTRATION}/{kind}"), json!({"metadata": {"name": name}, "spec": spec})).await;
}

pub(super) async fn validating(server: &ApiServer, name: &str, fields: Value) {
    create(server, &format!("{REGISTRATION}/validatingadmissionpolicies"), policy(name, fields)).await;
}

pub(super) async fn mutating(server: &ApiServer, name: &str, fields: Value) {
    let mut policy = policy(name, fields);
    policy["spec"]["reinvocationPolicy"] = "Never".into();
    create(server, &format!("{REGISTRATION}/mutatingadmissionpolicies"), policy).await;
    bind(server, "mutatingadmissionpolicybindings", name, json!({})).await;
}

pub(super) async fn webhook(server: &ApiServer, mutating: bool, fields: Value) {
    let mut hook = json!({
        "name": "h.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/x"}},
        "rules": rules("configmaps"),
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        hook[field.as_str()] = value.clone();
    }
    let kind = if mutating { "mutatingwebhookconfigurations" } else { "validatingwebhookconfigurations" };
    let body = json!({"metadata": {"name": "hooks"}, "webhooks": [hook]});
    create(server, &format!("{REGISTRATION}/{kind}"), body).await;
}

pub(super) fn answer(review: &serde_json::Value, allowed: bool, more: serde_json::Value) -> serde_json::Value {
    let mut response = serde_json::json!({"uid": review["request"]["uid"], "allowed": allowed});
    for (field, value) in more.as_object().into_iter().flatten() {
        response[field] = value.clone();
    }
    serde_json::json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
}

pub(super) fn patch(operations: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({"patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

pub(super) fn virtually<F: Future<Output = ()>>(test: impl FnOnce(ApiServer) -> F) {
    run_virtual(async { test(ApiServer::builder().build()).await }).expect("a runtime");
}

#[test]
fn a_policy_denies_with_its_message() {
    virtually(|server| async move {
        validating(
            &server,
            "vap",
            json!({
                "variables": [{"name": "n", "expression": "object.metadata.name"}],
                "matchConditions": [{"name": "not-free", "expression": "object.metadata.name != 'free'"}],
                "validations": [{"expression": "variables.n == 'good'",
                    "messageExpression": "'not ' + variables.n + ' in ' + namespaceObject.metadata.name"}],
            }),
        )
        .await;
        assert_eq!(send(&server, Method::POST, MAPS, map("unbound")).await.0, 201);
        bind(&server, "validatingadmissionpolicybindings", "vap", json!({"validationActions": ["Deny"]})).await;
        let (code, refused) = send(&server, Method::POST, MAPS, map("bad")).await;
        let why = "ValidatingAdmissionPolicy 'vap' with binding 'vap' denied request: not bad in default";
        assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")));
        assert_eq!(refused["message"], format!("configmaps \"bad\" is forbidden: {why}"));
        assert_eq!(refused["details"]["causes"][0]["message"], why);
        for name in ["good", "free"] {
            assert_eq!(send(&server, Method::POST, MAPS, map(name)).await.0, 201);
        }
    });
}

#[test]
fn a_policy_warns_and_reads_its_parameters() {
    virtually(|server| async move {
        create(&server, MAPS, json!({"metadata": {"name": "limit"}, "data": {"most": "3"}})).await;
        validating(
            &server,
            "vap",
            json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "validations": [{"expression": "size(object.metadata.name) <= int(params.data.most)", "message": "long"}]}),
        )
        .await;
        let reference = json!({"name": "limit", "parameterNotFoundAction": "Deny"});
        bind(
            &server,
            "validatingadmissionpolicybindings",
            "vap",
            json!({"validationActions": ["Warn"], "paramRef": reference}),
        )
        .await;
        let warned = reply(&server, Method::POST, MAPS, map("four")).await;
        assert_eq!(warned.status, 201);
        let warning = "Validation failed for ValidatingAdmissionPolicy 'vap' with binding 'vap': long";
        assert_eq!(warned.headers[header::WARNING], format!("299 - \"{warning}\""));
        assert!(!reply(&server, Method::POST, MAPS, map("abc")).await.headers.contains_key(header::WARNING));
    });
}

#[test]
fn a_policy_that_costs_too_much_or_fails_counts_as_its_failure_policy_says() {
    let nested = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, \
        [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))";
    for (expression, why) in [
        (nested, "operation cancelled: actual cost limit exceeded"),
        ("object.data.missing == 'x'", "no such key: missing"),
    ] {
        virtually(|server| async move {
            let fields = json!({"validations": [{"expression": expression}]});
            validating(&server, "fails", fields.clone()).await;
            bind(&server, "validatingadmissionpolicybindings", "fails", json!({"validationActions": ["Deny"]})).await;
            let (code, refused) = send(&server, Method::POST, MAPS, map("a")).await;
            let text = refused["message"].as_str().unwrap_or_default();
            assert_eq!(code, 422);
            assert!(text.ends_with(&format!("expression '{expression}' resulted in error: {why}")), "{text}");
            let path = format!("{REGISTRATION}/validatingadmissionpolicies/fails");
            let lenient = json!({"spec": {"failurePolicy": "Ignore"}});
            assert_eq!(send(&server, Method::PATCH, &path, lenient).await.0, 200);
            assert_eq!(send(&server, Method::POST, MAPS, map("a")).await.0, 201);
        });
    }
}

/// `PolicyAuditAnnotationActionError`: an annotation without a value denies, with any action of the binding.
#[test]
fn an_audit_annotation_that_fails_denies_unless_failures_are_ignored() {
    virtually(|server| async move {
        let annotations = json!([{"key": "size", "valueExpression": "string(int(object.data.k))"}]);
        validating(&server, "audit", json!({"auditAnnotations": annotations})).await;
        let actions = json!({"validationActions": ["Audit"]});
        bind(&server, "validatingadmissionpolicybindings", "audit", actions).await;
        let number = json!({"metadata": {"name": "n"}, "data": {"k": "7"}});
        assert_eq!(annotations_of(&server, number).await, [("audit/size".to_owned(), json!("7"))]);
        let (code, refused) = send(&server, Method::POST, MAPS, map("a")).await;
        let text = refused["message"].as_str().unwrap_or_default();
        assert_eq!(code, 422, "{text}");
        assert!(text.contains("ValidatingAdmissionPolicy 'audit' with binding 'audit' denied request: "), "{text}");
        let path = format!("{REGISTRATION}/validatingadmissionpolicies/audit");
        let lenient = json!({"spec": {"failurePolicy": "Ignore"}});
        assert_eq!(send(&server, Method::PATCH, &path, lenient).await.0, 200);
        assert_eq!(send(&server, Method::POST, MAPS, map("a")).await.0, 201);
    });
}

/// Creates a config map and returns the audit annotations of the request. Values that are JSON are decoded.
async fn annotations_of(server: &ApiServer, body: Value) -> Vec<(String, Value)> {
    let reply = reply(server, Method::POST, MAPS, body).await;
    let annotations = AuditAnnotations::of(&reply).iter();
    let decoded = |text: &str| serde_json::from_str(text).ok().filter(|value: &Value| !value.is_number());
    annotations.map(|(key, value)| (key.clone(), decoded(value).unwrap_or_else(|| json!(value)))).collect()
}

/// `validation_failure` of `pkg/admission/plugin/policy/validating/dispatcher.go`.
#[test]
fn a_failed_validation_and_the_values_of_all_bindings_are_annotations() {
    virtually(|server| async move {
        let annotations = json!([{"key": "of", "valueExpression": "'param ' + params.metadata.name"}]);
        let validations = json!([{"expression": "true"}, {"expression": "false", "message": "no"}]);
        let params = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        for name in ["one", "two"] {
            create(&server, MAPS, map(name)).await;
        }
        let fields = json!({"auditAnnotations": annotations, "validations": validations, "paramKind": params});
        validating(&server, "vap", fields).await;
        for name in ["one", "two"] {
            let reference = json!({"name": name, "namespace": "default", "parameterNotFoundAction": "Deny"});
            let fields = json!({"policyName": "vap", "validationActions": ["Audit"], "paramRef": reference});
            bind(&server, "validatingadmissionpolicybindings", name, fields).await;
        }
        let failure = json!([{"message": "no", "policy": "vap", "binding": "one", "expressionIndex": 1,
            "validationActions": ["Audit"]}]);
        let expected = [
            ("validation.policy.admission.k8s.io/validation_failure".to_owned(), failure),
            ("vap/of".to_owned(), json!("param one, param two")),
        ];
        assert_eq!(annotations_of(&server, map("a")).await, expected);
    });
}

#[test]
fn calls_of_webhooks_are_annotations() {
    let key = "mutation.webhook.admission.k8s.io/round_0_index_0";
    let call = &json!({"configuration": "hooks", "webhook": "h.example.com", "mutated": false});
    virtually(|server| async move {
        server.handle_webhook(HOOK, |review| async move {
            answer(&review, true, serde_json::json!({"auditAnnotations": {"seen": "yes"}}))
        });
        webhook(&server, true, json!({})).await;
        let expected = [("h.example.com/seen".to_owned(), json!("yes")), (key.to_owned(), call.clone())];
        assert_eq!(annotations_of(&server, map("a")).await, expected);
    });
    virtually(|server| async move {
        server.handle_webhook(HOOK, |_| async move { serde_json::json!({}) });
        webhook(&server, true, json!({"failurePolicy": "Ignore"})).await;
        let expected = [(format!("failed-open.{key}"), json!("h.example.com")), (key.to_owned(), call.clone())];
        assert_eq!(annotations_of(&server, map("a")).await, expected);
    });
}

#[test]
fn the_authorizer_knows_the_user_of_the_request() {
    virtually(|server| async move {
        let check = "authorizer.group('').resource('pods').namespace('default').check('create').allowed()";
        let own = "authorizer.requestResource.check('delete').allowed()";
        let robot = "authorizer.serviceAccount('a', 'b').path('/x').check('get').allowed()";
        // Three checks in one expression would cost too much, as upstream.
        let validations = json!([{"expression": format!("{check} && {own}")}, {"expression": format!("!{robot}")}]);
        validating(&server, "vap", json!({"validations": validations})).await;
        bind(&server, "validatingadmissionpolicybindings", "vap", json!({"validationActions": ["Deny"]})).await;
        let (code, answer) = send(&server, Method::POST, MAPS, map("a")).await;
        assert_eq!(code, 201, "{answer}");
    });
}

#[test]
fn policies_mutate_by_configuration_and_by_patch() {
    virtually(|server| async move {
        let apply = "Object{metadata: Object.metadata{labels: {'by': 'policy', 'of': string(object.metadata.name)}}}";
        let mutations = json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": apply}}]);
        mutating(&server, "apply", json!({"mutations": mutations})).await;
        let patch = "[JSONPatch{op: 'test', path: '/data/k', value: 'v'}, JSONPatch{op: 'add', \
            path: '/data/' + 'n', value: jsonpatch.escapeKey('a/b~') + string(size(object.data))}]";
        let mutations = json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]);
        mutating(&server, "patch", json!({"mutations": mutations})).await;
        let (code, created) = send(&server, Method::POST, MAPS, map("m")).await;
        assert_eq!(code, 201, "{created}");
        assert_eq!(created["metadata"]["labels"], json!({"by": "policy", "of": "m"}));
        assert_eq!(created["data"], json!({"k": "v", "n": "a~1b~01"}));
        // A `test` that fails leaves the object as it is.
        let other = json!({"metadata": {"name": "o"}, "data": {"k": "w"}});
        assert_eq!(send(&server, Method::POST, MAPS, other).await.1["data"], json!({"k": "w"}));
    });
}

#[test]
fn webhooks_change_refuse_and_warn() {
    virtually(|server| async move {
        server.handle_webhook(HOOK, |review| async move {
            let name = review["request"]["object"]["metadata"]["name"].clone();
            if name == "no" {
                return answer(&review, false, serde_json::json!({"status": {"code": 418, "message": "tea"}}));
            }
            let operations = serde_json::json!([{"op": "add", "path": "/data/seen", "value": name}]);
            let mut more = patch(&operations);
            more["warnings"] = serde_json::json!(["careful"]);
            answer(&review, true, more)
        });
        webhook(&server, true, json!({})).await;
        let created = reply(&server, Method::POST, MAPS, map("yes")).await;
        assert_eq!(
            (created.status, &created.headers[header::WARNING]),
            (201, &HeaderValue::from_static("299 - \"careful\""))
        );
        let (_, found) = send(&server, Method::GET, &format!("{MAPS}/yes"), Value::Null).await;
        assert_eq!(found["data"], json!({"k": "v", "seen": "yes"}));
        let (code, refused) = send(&server, Method::POST, MAPS, map("no")).await;
        let why = "admission webhook \"h.example.com\" denied the request: tea";
        assert_eq!((code, refused["message"].as_str()), (418, Some(why)));
    });
}

#[test]
fn a_webhook_that_hangs_answers_nonsense_or_is_missing_fails_open_or_closed() {
    let hanging =
        "failed to call webhook: Post \"https://hook.default.svc:443/x?timeout=10s\": context deadline exceeded";
    let nonsense = "received invalid webhook response: webhook response was absent";
    let list = "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal array into \
        Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
        Kind string \"json:\\\"kind,omitempty\\\"\" }";
    let missing =
        "failed to call webhook: Post \"https://hook.default.svc:443/x?timeout=10s\": service \"hook\" not found";
    for (kind, why) in [("hangs", hanging), ("nonsense", nonsense), ("list", list), ("missing", missing)] {
        virtually(|server| async move {
            match kind {
                "hangs" => server.handle_webhook(HOOK, |_| std::future::pending()),
                "nonsense" => server.handle_webhook(HOOK, |_| async { serde_json::json!({"a": 1}) }),
                "list" => server.handle_webhook(HOOK, |_| async { serde_json::json!([1]) }),
                _ => {}
            }
            webhook(&server, false, json!({})).await;
            let (code, refused) = send(&server, Method::POST, MAPS, map("a")).await;
            let message = format!("Internal error occurred: failed calling webhook \"h.example.com\": {why}");
            assert_eq!((code, refused["message"].as_str()), (500, Some(&*message)), "{kind}");
            // Other requests do not wait.
            let before = server.clock().elapsed();
            assert_eq!(send(&server, Method::GET, MAPS, Value::Null).await.0, 200);
            assert_eq!(server.clock().elapsed(), before);
            let path = format!("{REGISTRATION}/validatingwebhookconfigurations/hooks");
            assert_eq!(send(&server, Method::DELETE, &path, Value::Null).await.0, 200);
            webhook(&server, false, json!({"failurePolicy": "Ignore"})).await;
            assert_eq!(send(&server, Method::POST, MAPS, map("a")).await.0, 201, "{kind}");
        });
    }
}

#[test]
fn a_webhook_may_call_the_server() {
    virtually(|server| async move {
        let inner = server.clone();
        server.handle_webhook(HOOK, move |review| {
            let server = inner.clone();
            async move {
                let name = review["request"]["name"].as_str().unwrap_or_default().to_owned();
                let secret = json!({"metadata": {"name": format!("for-{name}")}});
                let path = "/api/v1/namespaces/default/secrets";
                let (code, _) = send(&server, Method::POST, path, secret).await;
                answer(&review, code == 201, serde_json::json!({}))
            }
        });
        webhook(&server, false, json!({})).await;
        assert_eq!(send(&server, Method::POST, MAPS, map("a")).await.0, 201);
        assert_eq!(send(&server, Method::GET, "/api/v1/namespaces/default/secrets/for-a", Value::Null).await.0, 200);
    });
}

#[test]
fn a_dry_run_asks_only_webhooks_without_side_effects() {
    virtually(|server| async move {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        server.handle_webhook(HOOK, move |review| {
            counted.fetch_add(1, Ordering::Relaxed);
            let dry = review["request"]["dryRun"] == true;
            async move { answer(&review, dry, serde_json::json!({})) }
        });
        webhook(&server, false, json!({"sideEffects": "NoneOnDryRun"})).await;
        assert_eq!(send(&server, Method::POST, &format!("{MAPS}?dryRun=All"), map("a")).await.0, 201);
        assert_eq!(send(&server, Method::POST, MAPS, map("a")).await.0, 400);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn selectors_and_conditions_choose_the_requests() {
    virtually(|server| async move {
        server.handle_webhook(HOOK, |review| async move { answer(&review, false, serde_json::json!({})) });
        let conditions =
            json!([{"name": "c", "expression": "request.operation == 'CREATE' && !has(object.immutable)"}]);
        let selector = json!({"matchLabels": {"checked": "yes"}});
        webhook(&server, false, json!({"objectSelector": selector, "matchConditions": conditions})).await;
        let labelled = |name: &str, immutable: bool| {
            let mut map = json!({"metadata": {"name": name, "labels": {"checked": "yes"}}});
            if immutable {
                map["immutable"] = true.into();
            }
            map
        };
        assert_eq!(send(&server, Method::POST, MAPS, map("unlabelled")).await.0, 201);
        assert_eq!(send(&server, Method::POST, MAPS, labelled("fixed", true)).await.0, 201);
        let (code, refused) = send(&server, Method::POST, MAPS, labelled("a", false)).await;
        let why = "admission webhook \"h.example.com\" denied the request without explanation";
        assert_eq!((code, refused["message"].as_str()), (400, Some(why)));
    });
}

#[test]
fn a_webhook_that_asks_for_it_sees_later_changes() {
    virtually(|server| async move {
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = seen.clone();
        server.handle_webhook("https://a.default.svc:443/", move |review| {
            if review["request"]["object"]["data"]["late"] == "1" {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            async move { answer(&review, true, serde_json::json!({})) }
        });
        server.handle_webhook("https://b.default.svc:443/", |review| async move {
            let operations = serde_json::json!([{"op": "add", "path": "/data/late", "value": "1"}]);
            answer(&review, true, patch(&operations))
        });
        let hook = |name: &str, reinvocation: &str| {
            json!({"name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": "default", "name": name}},
                "rules": rules("configmaps"), "reinvocationPolicy": reinvocation})
        };
        let hooks = json!([hook("a", "IfNeeded"), hook("b", "Never")]);
        let body = json!({"metadata": {"name": "two"}, "webhooks": hooks});
        create(&server, &format!("{REGISTRATION}/mutatingwebhookconfigurations"), body).await;
        assert_eq!(send(&server, Method::POST, MAPS, map("m")).await.0, 201);
        assert_eq!(seen.load(Ordering::Relaxed), 1);
    });
}

/// `matchPolicy: Equivalent`: the webhook gets the version of its rule, with fields that only the other version has.
#[test]
fn a_webhook_for_another_version_of_a_custom_resource_keeps_its_fields() {
    virtually(|server| async move {
        let version = |name: &str, field: &str| {
            json!({"name": name, "served": true, "storage": name == "v2", "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {field: {"type": "string"}}}}})
        };
        let definition = json!({"metadata": {"name": "eqs.ex.com"}, "spec": {"group": "ex.com", "scope": "Namespaced",
            "names": {"plural": "eqs", "kind": "Eq"}, "versions": [version("v1", "one"), version("v2", "two")]}});
        create(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        server.handle_webhook(HOOK, |review| async move {
            let object = &review["request"]["object"];
            let fits = object["apiVersion"] == "ex.com/v1" && object["two"] == "2";
            let operations = serde_json::json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]);
            answer(&review, fits, patch(&operations))
        });
        let rules =
            json!([{"operations": ["CREATE"], "apiGroups": ["ex.com"], "apiVersions": ["v1"], "resources": ["eqs"]}]);
        webhook(&server, true, json!({"rules": rules, "matchPolicy": "Equivalent"})).await;
        let object = json!({"apiVersion": "ex.com/v2", "kind": "Eq", "metadata": {"name": "e"}, "two": "2"});
        let (code, created) = send(&server, Method::POST, "/apis/ex.com/v2/namespaces/default/eqs", object).await;
        assert_eq!(
            (code, &created["two"], &created["apiVersion"]),
            (201, &json!("2"), &json!("ex.com/v2")),
            "{created}"
        );
        assert_eq!(created["metadata"]["labels"], json!({"seen": "yes"}));
    });
}

#[test]
fn objects_are_converted_by_a_webhook() {
    virtually(|server| async move {
        let version = |name: &str, storage: bool| {
            json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        };
        let client = json!({"service": {"namespace": "default", "name": "hook", "path": "/x"}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "convs.ex.com"},
            "spec": {"group": "ex.com", "scope": "Namespaced", "names": {"plural": "convs", "kind": "Conv"},
                "versions": [version("v1", true), version("v2", false)],
                "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client,
                    "conversionReviewVersions": ["v1"]}}},
        });
        create(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        let path = |version: &str| format!("/apis/ex.com/{version}/namespaces/default/convs");
        let object = json!({"apiVersion": "ex.com/v1", "kind": "Conv", "metadata": {"name": "c"}, "host": "h:1"});
        create(&server, &path("v1"), object).await;
        let (code, refused) = send(&server, Method::GET, &format!("{}/c", path("v2")), Value::Null).await;
        let why = "conversion webhook for ex.com/v1, Kind=Conv failed: Post \"https://hook.default.svc:443/x?timeout=30s\": service \"hook\" not found";
        assert_eq!((code, refused["message"].as_str()), (500, Some(why)));
        server.handle_webhook(HOOK, |review| async move {
            let desired = review["request"]["desiredAPIVersion"].clone();
            let convert = |object: &serde_json::Value| {
                let mut object = object.clone();
                object["apiVersion"] = desired.clone();
                if desired == "ex.com/v2" {
                    let host = object["host"].as_str().unwrap_or_default().to_owned();
                    let (host, port) = host.split_once(':').unwrap_or((&host, ""));
                    object["at"] = serde_json::json!({"host": host, "port": port});
                } else {
                    let text = |field: &str| object["at"][field].as_str().unwrap_or_default().to_owned();
                    object["host"] = format!("{}:{}", text("host"), text("port")).into();
                }
                object
            };
            let objects: Vec<_> = review["request"]["objects"].as_array().into_iter().flatten().map(convert).collect();
            serde_json::json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
                "response": {"uid": review["request"]["uid"], "convertedObjects": objects,
                    "result": {"status": "Success"}}})
        });
        let (code, list) = send(&server, Method::GET, &path("v2"), Value::Null).await;
        assert_eq!((code, &list["items"][0]["at"]), (200, &json!({"host": "h", "port": "1"})));
        let change = json!({"at": {"port": "2"}});
        let (code, changed) = send(&server, Method::PATCH, &format!("{}/c", path("v2")), change).await;
        assert_eq!((code, &changed["apiVersion"]), (200, &json!("ex.com/v2")), "{changed}");
        let (_, stored) = send(&server, Method::GET, &format!("{}/c", path("v1")), Value::Null).await;
        assert_eq!((&stored["apiVersion"], &stored["host"]), (&json!("ex.com/v1"), &json!("h:2")));
        assert!(server.clock().elapsed() < Duration::from_secs(30));
    });
}

/// Returns the message of a request whose object a webhook patches with these operations.
async fn patched_with(server: &ApiServer, operations: serde_json::Value) -> String {
    server.handle_webhook(HOOK, move |review| {
        let operations = operations.clone();
        async move { answer(&review, true, patch(&operations)) }
    });
    let (code, answer) = send(server, Method::POST, MAPS, map("m")).await;
    assert_eq!((code, &answer["reason"]), (500, &json!("InternalError")), "{answer}");
    answer["message"].as_str().unwrap_or_default().to_owned()
}

/// The texts of `patch.go` in `gopkg.in/evanphx/json-patch.v4`, which
/// `pkg/admission/plugin/webhook/mutating/dispatcher.go` of `k8s.io/apiserver` passes on.
#[test]
fn a_patch_that_cannot_be_applied_is_an_internal_error() {
    let cases = [
        (
            r#"{"op": "remove", "path": "/data/z"}"#,
            "error in remove for path: '/data/z': Unable to remove nonexistent key: z: missing value",
        ),
        (
            r#"{"op": "add", "path": "/x/y", "value": 1}"#,
            "add operation does not apply: doc is missing path: \"/x/y\": missing value",
        ),
        (
            r#"{"op": "replace", "path": "/x/y", "value": 1}"#,
            "replace operation does not apply: doc is missing path: /x/y: missing value",
        ),
        (r#"{"op": "test", "path": "/data/k", "value": "w"}"#, "testing value /data/k failed: test failed"),
        (
            r#"{"op": "test", "path": "/x/y", "value": 1}"#,
            "test operation does not apply: is missing path: /x/y: missing value",
        ),
        (
            r#"{"op": "move", "from": "/data/z", "path": "/data/y"}"#,
            "error in move for path: 'z': Unable to remove nonexistent key: z: missing value",
        ),
        (
            r#"{"op": "copy", "from": "/x/z", "path": "/data/y"}"#,
            "copy operation does not apply: doc is missing from path: /x/z: missing value",
        ),
        (
            r#"{"op": "add", "path": "/metadata/finalizers/7", "value": "a/b"}"#,
            "error in add for path: '/metadata/finalizers/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            r#"{"op": "add", "path": "/metadata/finalizers/q", "value": "a/b"}"#,
            "error in add for path: '/metadata/finalizers/q': value was not a proper array index: 'q': strconv.Atoi: parsing \"q\": invalid syntax",
        ),
        (r#"{"op": "add", "value": 1}"#, "add operation failed to decode path: missing value"),
        (
            r#"{"op": "test", "value": 1}"#,
            "test operation failed to decode path: operation missing path field: missing value",
        ),
        (
            r#"{"op": "copy", "path": "/data/y"}"#,
            "copy operation failed to decode from: operation, missing from field: missing value",
        ),
        (r#"{"op": "swap", "path": "/data/y"}"#, "Unexpected kind: swap"),
        (
            r#"{"op": "add", "path": "/data", "value": {"a": 1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            r#"{"op": "replace", "path": "/kind", "value": "Foo"}"#,
            "no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
    ];
    virtually(|server| async move {
        webhook(&server, true, json!({"failurePolicy": "Ignore"})).await;
        for (operation, why) in cases {
            let first = serde_json::json!({"op": "add", "path": "/metadata/finalizers", "value": ["a/a"]});
            let operation: serde_json::Value = serde_json::from_str(operation).unwrap();
            let message = patched_with(&server, serde_json::json!([first, operation])).await;
            assert_eq!(message, format!("Internal error occurred: {why}"));
        }
    });
}

/// A mutating policy's patch leaves the object as it is if a `test` fails, but not if a path is missing:
/// `pkg/admission/plugin/policy/mutating/patch/json_patch.go`.
#[test]
fn a_policy_whose_patch_cannot_be_applied_denies() {
    virtually(|server| async move {
        let patch = "[JSONPatch{op: 'test', path: '/x/y', value: 'v'}]";
        let mutations = json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]);
        mutating(&server, "patch", json!({"mutations": mutations})).await;
        let (code, refused) = send(&server, Method::POST, MAPS, map("m")).await;
        let why = "JSON Patch: test operation does not apply: is missing path: /x/y: missing value";
        let message = format!("policy 'patch' with binding 'patch' denied request: {why}");
        assert_eq!((code, refused["message"].as_str()), (403, Some(message.as_str())));
    });
}
