//! The controller of the status of validating admission policies, optional: type errors in their expressions, as
//! warnings. See `pkg/controller/validatingadmissionpolicystatus/controller.go` and
//! `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::Method;

use crate::admission::{self, GROUP};
use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::expressions::CelType;
use crate::json::fields::array_field;
use crate::json::{Value, json};
use crate::registry::{Registry, Resource};
use crate::server::ApiServer;
use crate::store::ResourceId;
use crate::{metadata, openapi};

const RESOURCE: &str = "validatingadmissionpolicies";

/// The controller's field manager.
const MANAGER: &str = "validatingadmissionpolicy-status-controller";

/// Most kinds that a policy is checked against.
const MAX_KINDS: usize = 10;

/// Checks the types of each policy whose spec is new and writes its status. Never returns.
pub async fn publish_policy_status(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/validatingadmissionpolicy-status-controller");
    let mut feed = WatchMux::new(&server, WatchSet::Resources(vec![ResourceId::new(GROUP, RESOURCE)]));
    let mut retries: Retries<String> = Retries::default();
    loop {
        let mut due = BTreeSet::new();
        for (_, change) in feed.next_until(retries.next()).await {
            due.extend(change.objects().iter().map(|stored| stored.name().to_owned()));
        }
        due.extend(retries.due(server.clock().now()));
        for name in due {
            sync(&agent, &name).await;
            retries.settle(&name, agent.take_refusal(), server.clock().now());
        }
    }
}

async fn sync(agent: &ControllerClient, name: &str) {
    let server = agent.server();
    let Some(policy) = server.get(&ResourceId::new(GROUP, RESOURCE), "", name).map(|stored| stored.value()) else {
        return;
    };
    let generation = metadata::generation(&policy);
    if generation <= policy["status"]["observedGeneration"].as_i64().unwrap_or(0) {
        return;
    }
    let warnings: Vec<Value> = check(&server.registry(), &policy["spec"])
        .into_iter()
        .map(|(field, warning)| json!({"fieldRef": field, "warning": warning}))
        .collect();
    let checking = if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) };
    let applied = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "status": {"observedGeneration": generation, "typeChecking": checking}});
    let path = format!("/apis/{GROUP}/v1/{RESOURCE}/{name}/status?fieldManager={MANAGER}&force=true");
    agent.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(&applied)).await;
}

/// Returns the fields of a policy with type errors, in their order, each with the errors for all kinds.
fn check(registry: &Registry, spec: &Value) -> Vec<(String, String)> {
    let params = &spec["paramKind"];
    let api_version = params["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let params = registry.resource_for_kind(group, version, params["kind"].as_str().unwrap_or_default());
    let params = params.and_then(|kind| CelType::of_published(&openapi::populated_schema(kind)));
    let mut warnings: Vec<(String, Vec<String>)> = Vec::new();
    for kind in kinds(registry, spec) {
        let object = CelType::of_published(&openapi::populated_schema(&kind)).unwrap_or(CelType::Dyn);
        let api_version = if kind.group.is_empty() { format!("/{}", kind.version) } else { kind.api_version() };
        for (field, errors) in admission::type_errors(spec, &object, params.as_ref()) {
            let text = format!("{api_version}, Kind={}: {errors}\n", kind.kind);
            match warnings.iter_mut().find(|(known, _)| *known == field) {
                Some((_, texts)) => texts.push(text),
                None => warnings.push((field, vec![text])),
            }
        }
    }
    // The fields as the policy has them, not in the order of the kinds for which each has errors.
    let index = |field: &str| {
        let number = field.split(['[', ']']).nth(1).and_then(|number| number.parse::<usize>().ok());
        (number, field.ends_with(".messageExpression"))
    };
    warnings.sort_by_key(|(field, _)| index(field));
    warnings.into_iter().map(|(field, texts)| (field, texts.join("\n"))).collect()
}

/// Returns the kinds that a policy names without wildcards, by group, version and kind.
fn kinds(registry: &Registry, spec: &Value) -> Vec<Arc<Resource>> {
    let mut found = BTreeMap::new();
    for rule in array_field(&spec["matchConstraints"], "resourceRules") {
        let sorted = |field: &str| {
            let mut texts: Vec<&str> = array_field(rule, field).iter().filter_map(Value::as_str).collect();
            texts.sort_unstable();
            texts
        };
        let groups = sorted("apiGroups");
        let versions = sorted("apiVersions");
        let mut resources = sorted("resources");
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        resources.retain(|resource| !resource.contains(['*', '/']));
        let mut count = 0;
        for group in groups {
            for version in &versions {
                for resource in &resources {
                    let Some(kind) = registry.get(group, version, resource) else { continue };
                    found.insert((kind.group.clone(), kind.version.clone(), kind.kind.clone()), Arc::clone(kind));
                    count += 1;
                    if count == MAX_KINDS {
                        return found.into_values().collect();
                    }
                }
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::clock::{Clock, epoch, run_virtual, settle};
    use crate::controllers::MERGE_PATCH;
    use crate::server::ApiServerConfig;

    fn policy(resources: &Value, validations: &Value) -> Value {
        let mut rule = resources.clone();
        rule["operations"] = json!(["CREATE"]);
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "p"},
            "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}})
    }

    fn deployments() -> Value {
        json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]})
    }

    #[rstest]
    #[case::right("object.spec.replicas > 1", None)]
    #[case::comparison(
        "object.spec.replicas > '1'",
        Some(
            "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to \
            '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n"
        )
    )]
    #[case::unknown_field(
        "object.spec.replica == 1",
        Some(
            "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n | object.spec.replica == 1\n | ...........^\n"
        )
    )]
    #[case::deep("object.spec.template.spec.containers.all(c, c.image.startsWith('a'))", None)]
    #[case::metadata("object.metadata.labels.exists(k, k == 'a')", None)]
    #[case::reserved_word("object.metadata.namespace == 'a' && object.metadata.__namespace__ == 'a'", None)]
    #[case::port("object.spec.template.spec.containers.all(c, c.livenessProbe.httpGet.port == 80)", None)]
    #[case::quantities_are_not_seen(
        "object.spec.template.spec.overhead.size() == 0",
        Some(
            "apps/v1, Kind=Deployment: ERROR: <input>:1:26: undefined field 'overhead'\n | object.spec.template.spec.overhead.size() == 0\n | .........................^\n"
        )
    )]
    fn expressions_about_deployments(#[case] source: &str, #[case] expected: Option<&str>) {
        let spec = &policy(&deployments(), &json!([{"expression": source}]))["spec"];
        let warnings = check(&Registry::builtin(), spec);
        let expected = expected.map(|text| ("spec.validations[0].expression".to_owned(), text.to_owned()));
        assert_eq!(warnings, Vec::from_iter(expected));
    }

    #[rstest]
    #[case::two(json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["replicasets", "deployments"]}),
        &["Deployment", "ReplicaSet"])]
    #[case::subresource(json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/status", "pods"]}), &["Pod"])]
    #[case::any_group(json!({"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["pods"]}), &[])]
    #[case::any_version(json!({"apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}), &[])]
    #[case::unknown(json!({"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["crontabs"]}), &[])]
    fn kinds_of_rules(#[case] rule: Value, #[case] expected: &[&str]) {
        let spec = &policy(&rule, &json!([]))["spec"];
        let found: Vec<String> = kinds(&Registry::builtin(), spec).iter().map(|kind| kind.kind.to_string()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_policy_is_checked_once_for_each_spec() {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(publish_policy_status(server.clone()));
            let client = ControllerClient::new(&server, "user");
            let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
            let validations = json!([{"expression": "object.spec.replicas > 1"},
                {"expression": "object.spec.replicas > 1", "messageExpression": "'replicas: ' + object.spec.replicas"}]);
            let reply = client.create(path, &policy(&deployments(), &validations)).await;
            assert!(reply.is_ok(), "{}", reply.body());
            settle().await;
            let read = || server.get(&ResourceId::new(GROUP, RESOURCE), "", "p").expect("the policy").value();
            let first = read();
            let warnings = first["status"]["typeChecking"]["expressionWarnings"].as_array().expect("warnings").clone();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert_eq!(warnings[0]["fieldRef"], "spec.validations[1].messageExpression");
            let text = warnings[0]["warning"].as_str().unwrap_or_default();
            assert!(text.contains("found no matching overload for '_+_' applied to '(string, int)'"), "{text}");
            assert_eq!(first["status"]["observedGeneration"], 1);

            let labels = json!({"metadata": {"labels": {"a": "b"}}});
            let labelled = client.patch(&format!("{path}/p"), MERGE_PATCH, &labels).await;
            settle().await;
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            assert_eq!(version(&read()), version(&labelled.body()), "a label is no new spec");

            let fixed = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
            client.patch(&format!("{path}/p"), MERGE_PATCH, &fixed).await;
            settle().await;
            assert_eq!(read()["status"], json!({"observedGeneration": 2, "typeChecking": {}}));
        })
        .expect("a runtime");
    }
}
