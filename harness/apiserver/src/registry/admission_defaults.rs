//! Defaults of admission policies, webhooks and resource claims.
//!
//! See `pkg/apis/admissionregistration/v1/defaults.go` and `pkg/apis/resource/v1/defaults.go`.

use super::meta::{self, value_default};
use crate::json::{Map, Value, json};

fn inner<'a>(map: &'a mut Map, field: &str) -> Option<&'a mut Map> {
    map.get_mut(field).and_then(Value::as_object_mut)
}

fn each<'a>(map: &'a mut Map, field: &str) -> impl Iterator<Item = &'a mut Map> {
    map.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Defaults of the match rules of policies and webhooks.
fn match_resources(map: &mut Map) {
    value_default(map, "matchPolicy", "Equivalent");
    value_default(map, "namespaceSelector", json!({}));
    value_default(map, "objectSelector", json!({}));
    for field in ["resourceRules", "excludeResourceRules", "rules"] {
        for rule in each(map, field) {
            value_default(rule, "scope", "*");
        }
    }
}

/// Defaults of `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`.
pub(super) fn admission_policy(map: &mut Map) {
    let Some(spec) = inner(map, "spec") else { return };
    value_default(spec, "failurePolicy", "Fail");
    if let Some(constraints) = inner(spec, "matchConstraints") {
        match_resources(constraints);
    }
}

/// Defaults of `ValidatingAdmissionPolicyBinding` and `MutatingAdmissionPolicyBinding`.
pub(super) fn admission_policy_binding(map: &mut Map) {
    if let Some(resources) = inner(map, "spec").and_then(|spec| inner(spec, "matchResources")) {
        match_resources(resources);
    }
}

/// Defaults of `ValidatingWebhookConfiguration`.
pub(super) fn validating_webhooks(map: &mut Map) {
    const TIMEOUT_SECONDS: i64 = 10;
    for webhook in each(map, "webhooks") {
        value_default(webhook, "failurePolicy", "Fail");
        value_default(webhook, "timeoutSeconds", TIMEOUT_SECONDS);
        match_resources(webhook);
        if let Some(service) = inner(webhook, "clientConfig").and_then(|config| inner(config, "service")) {
            value_default(service, "port", 443);
        }
    }
}

/// Defaults of `MutatingWebhookConfiguration`.
pub(super) fn mutating_webhooks(map: &mut Map) {
    validating_webhooks(map);
    for webhook in each(map, "webhooks") {
        value_default(webhook, "reinvocationPolicy", "Never");
    }
}

fn device_request(request: &mut Map) {
    value_default(request, "allocationMode", "ExactCount");
    if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount")
        && request.get("count").and_then(Value::as_i64).unwrap_or(0) == 0
    {
        request.insert("count", 1.into());
    }
    for toleration in each(request, "tolerations") {
        if meta::is_empty_value(toleration.get("operator")) {
            toleration.insert("operator", "Equal".into());
        }
    }
}

/// Defaults of `ResourceClaim`.
pub(super) fn resource_claim(map: &mut Map) {
    let Some(devices) = inner(map, "spec").and_then(|spec| inner(spec, "devices")) else { return };
    for request in each(devices, "requests") {
        if let Some(exactly) = inner(request, "exactly") {
            device_request(exactly);
        }
        each(request, "firstAvailable").for_each(device_request);
    }
}

/// Defaults of `ResourceClaimTemplate`.
pub(super) fn resource_claim_template(map: &mut Map) {
    if let Some(spec) = inner(map, "spec") {
        resource_claim(spec);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(default: fn(&mut Map), object: Value) -> Value {
        let Value::Object(mut map) = object else { return Value::Null };
        default(&mut map);
        Value::Object(map)
    }

    // Expected values recorded from kube-apiserver 1.36.
    #[test]
    fn a_policy_fails_closed_and_looks_at_every_scope() {
        let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]});
        let policy = json!({"spec": {"matchConstraints": {"resourceRules": [rule]}}});
        let mut whole = rule;
        whole["scope"] = "*".into();
        assert_eq!(
            defaulted(admission_policy, policy),
            json!({"spec": {"failurePolicy": "Fail", "matchConstraints": {"matchPolicy": "Equivalent", "namespaceSelector": {},
                "objectSelector": {}, "resourceRules": [whole]}}})
        );
    }

    #[test]
    fn a_request_for_a_device_is_for_one() {
        let claim = json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}});
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
        let expected = json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
        assert_eq!(defaulted(resource_claim, claim), expected);
    }
}
