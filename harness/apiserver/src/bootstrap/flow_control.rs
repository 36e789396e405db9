//! Bootstrap objects of priority and fairness and of the aggregator: flow schemas, priority levels, API services.
//!
//! Values as recorded from kube-apiserver 1.36. They are defined in
//! `staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go` and `cmd/kube-apiserver/app/aggregator.go`.

use serde_json::{Map, Value, json};

use super::field_ownership::{MANAGER, labels, manager_entry};

const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";
const FLOW: &str = "flowcontrol.apiserver.k8s.io/v1";
const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// A priority level: its name, nominal shares, lendable percent, and number of queues with hand size, if it queues.
type PriorityLevel = (&'static str, u16, u8, Option<(u16, u8)>);

/// The limited priority levels.
const LEVELS: [PriorityLevel; 7] = [
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("node-high", 40, 25, Some((64, 6))),
    ("system", 30, 33, Some((64, 6))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
];

/// Name, priority level, precedence, distinguisher, subjects (`User/…`, `Group/…`, `ServiceAccount/…`), requests.
const SCHEMAS: [(&str, &str, u16, &str, &str, RuleScope); 11] = [
    ("catch-all", "catch-all", 10_000, "ByUser", EVERYBODY, RuleScope::Everything),
    ("exempt", "exempt", 1, "", "Group/system:masters", RuleScope::Everything),
    ("global-default", "global-default", 9_900, "ByUser", EVERYBODY, RuleScope::Everything),
    (
        "kube-controller-manager",
        "workload-high",
        800,
        "ByNamespace",
        "User/system:kube-controller-manager",
        RuleScope::Everything,
    ),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", "User/system:kube-scheduler", RuleScope::Everything),
    (
        "kube-system-service-accounts",
        "workload-high",
        900,
        "ByNamespace",
        "ServiceAccount/kube-system",
        RuleScope::Everything,
    ),
    ("probes", "exempt", 2, "", EVERYBODY, RuleScope::Probes),
    ("service-accounts", "workload-low", 9_000, "ByUser", "Group/system:serviceaccounts", RuleScope::Everything),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        "User/system:kube-controller-manager User/system:kube-scheduler ServiceAccount/kube-system",
        RuleScope::Elections,
    ),
    ("system-node-high", "node-high", 400, "ByUser", "Group/system:nodes", RuleScope::Nodes),
    ("system-nodes", "system", 500, "ByUser", "Group/system:nodes", RuleScope::Everything),
];

const EVERYBODY: &str = "Group/system:unauthenticated Group/system:authenticated";

/// The requests that a flow schema matches.
#[derive(Clone, Copy)]
enum RuleScope {
    Everything,
    Probes,
    Elections,
    Nodes,
}

/// Version and group, priority of the group and of the version.
const SERVICES: [(&str, &str, u16, u8); 21] = [
    ("v1", "", 18_000, 1),
    ("v1", "admissionregistration.k8s.io", 16_700, 15),
    ("v1", "apiextensions.k8s.io", 16_700, 15),
    ("v1", "apps", 17_800, 15),
    ("v1", "authentication.k8s.io", 17_700, 15),
    ("v1", "authorization.k8s.io", 17_600, 15),
    ("v1", "autoscaling", 17_500, 15),
    ("v1", "batch", 17_400, 15),
    ("v1", "certificates.k8s.io", 17_300, 15),
    ("v1", "coordination.k8s.io", 16_500, 15),
    ("v1", "discovery.k8s.io", 16_200, 15),
    ("v1", "events.k8s.io", 17_750, 15),
    ("v1", "flowcontrol.apiserver.k8s.io", 16_100, 21),
    ("v1", "networking.k8s.io", 17_200, 15),
    ("v1", "node.k8s.io", 16_300, 15),
    ("v1", "policy", 17_100, 15),
    ("v1", "rbac.authorization.k8s.io", 17_000, 15),
    ("v1", "resource.k8s.io", 16_200, 21),
    ("v1", "scheduling.k8s.io", 16_600, 15),
    ("v1", "storage.k8s.io", 16_800, 15),
    ("v2", "autoscaling", 17_500, 30),
];

/// Returns all of these objects.
pub(super) fn objects(now: jiff::Timestamp) -> Vec<Value> {
    let time = format!("{now:.0}");
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let mut objects = vec![priority_level("exempt", exempt)];
    for (name, shares, lendable, queues) in LEVELS {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some((queues, hand)) => {
                json!({"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}})
            }
        };
        let limited =
            json!({"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable});
        objects.push(priority_level(name, json!({"type": "Limited", "limited": limited})));
    }
    objects.extend(SCHEMAS.iter().map(|schema| flow_schema(*schema, &time)));
    objects.extend(SERVICES.iter().map(|service| api_service(*service, &time)));
    objects
}

/// Returns the fields of a spec as a field set; Go structs that are not pointers have no entry of their own.
fn spec_field_set(spec: &Value) -> Value {
    let Value::Object(map) = spec else { return json!({}) };
    let mut set = Map::new();
    for (name, value) in map {
        let mut inside = spec_field_set(value);
        if value.is_object() && name != "priorityLevelConfiguration" {
            inside["."] = json!({});
        }
        set.insert(format!("f:{name}"), inside);
    }
    set.into()
}

fn autoupdate_field_set(spec: &Value) -> Value {
    let mut annotations = json!({".": {}});
    annotations[format!("f:{AUTOUPDATE}")] = json!({});
    json!({"f:metadata": {"f:annotations": annotations}, "f:spec": spec_field_set(spec)})
}

fn priority_level(name: &str, spec: Value) -> Value {
    json!({"apiVersion": FLOW, "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name, "generation": 1, "annotations": {AUTOUPDATE: "true"},
            "managedFields": manager_entry(PRODUCER, autoupdate_field_set(&spec))},
        "spec": spec, "status": {}})
}

fn flow_schema(of: (&str, &str, u16, &str, &str, RuleScope), time: &str) -> Value {
    let (name, level, precedence, distinguisher, subjects, covers) = of;
    let subjects: Vec<Value> = subjects.split(' ').filter_map(|subject| subject.split_once('/')).map(subject).collect();
    let mut rule = rules(covers);
    rule["subjects"] = subjects.into();
    let mut spec = json!({"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence,
        "rules": [rule]});
    if !distinguisher.is_empty() {
        spec["distinguisherMethod"] = json!({"type": distinguisher});
    }
    let mut managed = manager_entry(PRODUCER, autoupdate_field_set(&spec));
    let described = json!({"manager": CONSUMER, "operation": "Apply", "subresource": "status",
        "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Dangling\"}": {".": {}, "f:lastTransitionTime": {},
            "f:message": {}, "f:reason": {}, "f:status": {}, "f:type": {}}}}}});
    if let Some(entries) = managed.as_array_mut() {
        entries.insert(0, described);
    }
    let message =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} and it exists");
    json!({"apiVersion": FLOW, "kind": "FlowSchema",
        "metadata": {"name": name, "generation": 1, "annotations": {AUTOUPDATE: "true"}, "managedFields": managed},
        "spec": spec,
        "status": {"conditions": [{"type": "Dangling", "status": "False", "lastTransitionTime": time,
            "reason": "Found", "message": message}]}})
}

fn subject((kind, name): (&str, &str)) -> Value {
    match kind {
        "User" => json!({"kind": kind, "user": {"name": name}}),
        "Group" => json!({"kind": kind, "group": {"name": name}}),
        _ => json!({"kind": kind, "serviceAccount": {"namespace": name, "name": "*"}}),
    }
}

fn rules(covers: RuleScope) -> Value {
    let leases = |verbs: &[&str]| json!({"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]});
    match covers {
        RuleScope::Everything => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true,
                "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}),
        RuleScope::Probes => json!({
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}),
        RuleScope::Elections => json!({"resourceRules": [leases(&["get", "create", "update"])]}),
        RuleScope::Nodes => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"],
                "clusterScope": true, "namespaces": ["*"]}, leases(&["*"])]}),
    }
}

fn api_service((version, group, group_priority, version_priority): (&str, &str, u16, u8), time: &str) -> Value {
    let kept = "kube-aggregator.kubernetes.io/automanaged";
    let mut spec =
        json!({"version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority});
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    let managed = manager_entry(MANAGER, json!({"f:metadata": labels(&[kept]), "f:spec": spec_field_set(&spec)}));
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}"), "labels": {kept: "onstart"}, "managedFields": managed},
        "spec": spec,
        "status": {"conditions": [{"type": "Available", "status": "True", "lastTransitionTime": time,
            "reason": "Local", "message": "Local APIServices are always available"}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_for_each_level_and_no_level_without_one() {
        let objects = objects(jiff::Timestamp::UNIX_EPOCH);
        let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let levels: Vec<&str> =
            of("PriorityLevelConfiguration").filter_map(|level| level["metadata"]["name"].as_str()).collect();
        for schema in of("FlowSchema") {
            let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap();
            assert!(levels.contains(&level), "{level}");
        }
        for level in levels {
            assert!(of("FlowSchema").any(|schema| schema["spec"]["priorityLevelConfiguration"]["name"] == level));
        }
        assert_eq!(of("APIService").count(), 21);
    }
}
