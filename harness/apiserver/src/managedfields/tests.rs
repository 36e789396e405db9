//! Ownership of fields after updates and applies: `structured-merge-diff` in `k8s.io/`, cases written by hand.

use proptest::prelude::*;
use rstest::rstest;

use super::super::patch::apply::{ApplyRequest, apply};
use super::super::schema::builtin;
use super::super::status::Status;
use super::*;
use crate::json::json;

const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";
const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";

fn write<'a>(manager: &'a str, api_version: &'a str) -> WriteInfo<'a> {
    let now = "2026-01-02T03:04:05.6Z".parse().unwrap();
    WriteInfo { manager, api_version, subresource: "", reset: None, versions: &OneVersion, now }
}

fn managed(schema: &str, live: Option<&Value>, mut new: Value, manager: &str) -> Value {
    let schema = builtin(schema).unwrap();
    schema.normalize(&mut new);
    update(&schema, live, &mut new, &write(manager, "v1"));
    new
}

fn sets(object: &Value) -> Vec<(String, Value)> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
    entries
        .iter()
        .map(|e| (format!("{} {}", e["manager"], e["operation"]).replace('"', ""), e["fieldsV1"].clone()))
        .collect()
}

#[test]
fn create_owns_what_differs_from_an_empty_object() {
    let object = json!({"metadata": {"name": "n", "uid": "u", "labels": {"zone": "1"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let created = managed("io.k8s.api.core.v1.Node", None, object, "example");
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "example", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:zone": {}}}, "f:spec": {"f:taints": {}}},
        }])
    );
}

#[test]
fn list_items_are_owned_by_key() {
    let object = json!({"metadata": {"name": "p", "finalizers": ["x/a"]}, "spec": {"containers": [
        {"name": "c", "ports": [{"containerPort": 80}], "args": ["a"]}]}});
    let created = managed("io.k8s.api.core.v1.Pod", None, object, "m");
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"],
        json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"x/a\"": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:args": {}, "f:name": {}, "f:resources": {},
                "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}},
        })
    );
}

#[test]
fn update_moves_what_changed() {
    let first = managed(CONFIG_MAP, None, json!({"metadata": {"name": "c"}, "data": {"a": "1", "b": "1"}}), "one");
    let mut new = first.clone();
    new["metadata"]["uid"] = json!("u");
    new["data"] = json!({"b": "2", "c": "3"});
    let second = managed(CONFIG_MAP, Some(&first), new, "two");
    assert_eq!(
        sets(&second),
        [
            ("one Update".to_owned(), json!({"f:data": {}})),
            ("two Update".to_owned(), json!({"f:data": {"f:b": {}, "f:c": {}}})),
        ]
    );
}

#[test]
fn an_update_that_changes_nothing_keeps_the_entries() {
    let first = managed(CONFIG_MAP, None, json!({"metadata": {"name": "c", "uid": "u"}, "data": {"a": "1"}}), "one");
    assert_eq!(managed(CONFIG_MAP, Some(&first), first.clone(), "two"), first);
}

#[rstest]
#[case::empty_list(json!([]))]
#[case::empty_entry(json!([{}]))]
fn owners_are_forgotten_on_request(#[case] sent: Value) {
    let first = managed(CONFIG_MAP, None, json!({"metadata": {"name": "c", "uid": "u"}, "data": {"a": "1"}}), "one");
    let mut new = first.clone();
    new["metadata"]["managedFields"] = sent;
    assert_eq!(managed(CONFIG_MAP, Some(&first), new, "two")["metadata"].get("managedFields"), None);
}

#[test]
fn the_oldest_updaters_are_put_together() {
    let fresh = json!({"metadata": {"name": "c", "uid": "u"}, "data": {"k": "0"}});
    let mut object = managed(CONFIG_MAP, None, fresh, "m00");
    for i in 1..12 {
        let mut new = object.clone();
        new["data"][format!("k{i}")] = json!("1");
        object = managed(CONFIG_MAP, Some(&object), new, &format!("m{i:02}"));
    }
    let managers: Vec<String> = sets(&object).into_iter().map(|(m, _)| m).collect();
    assert_eq!(managers.len(), 10);
    assert_eq!(managers[0], "ancient-changes Update");
}

#[test]
fn reset_fields_have_no_owner() {
    let schema = builtin("io.k8s.api.core.v1.Pod").unwrap();
    let mut new = json!({"metadata": {"name": "p", "labels": {"a": "1"}}, "status": {"phase": "Running"}});
    let mut reset = ResetFields::default();
    reset.set("", &[&["status"]]);
    update(&schema, None, &mut new, &WriteInfo { reset: reset.of(""), ..write("m", "v1") });
    assert_eq!(sets(&new)[0].1.get("f:status"), None);
}

fn ssa(schema: &str, live: Option<&Value>, config: Value, manager: &str, force: bool) -> Result<Value, Status> {
    let schema = builtin(schema).unwrap();
    let api_version = config["apiVersion"].as_str().unwrap_or_default().to_owned();
    let kind = config["kind"].as_str().unwrap_or_default().to_owned();
    apply(&schema, live, config, &ApplyRequest { write: write(manager, &api_version), force, kind: &kind })
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
}

#[test]
fn what_is_no_longer_applied_goes_unless_owned() {
    let one = ssa(CONFIG_MAP, None, config_map(json!({"a": "1", "b": "1"})), "one", false).unwrap();
    let two = ssa(CONFIG_MAP, Some(&one), config_map(json!({"b": "1"})), "two", false).unwrap();
    let three = ssa(CONFIG_MAP, Some(&two), config_map(json!({})), "one", false).unwrap();
    assert_eq!(three["data"], json!({"b": "1"}));
    assert_eq!(sets(&three)[0], ("two Apply".to_owned(), json!({"f:data": {"f:b": {}}})));
}

#[test]
fn conflicts_name_managers_and_fields() {
    let one = ssa(CONFIG_MAP, None, config_map(json!({"a": "1", "b": "1"})), "one", false).unwrap();
    let status = ssa(CONFIG_MAP, Some(&one), config_map(json!({"a": "2"})), "two", false).unwrap_err();
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    let status = ssa(CONFIG_MAP, Some(&one), config_map(json!({"a": "2", "b": "2"})), "two", false).unwrap_err();
    assert_eq!(status.message, "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b");
    assert_eq!(status.details.unwrap().causes[1].field, ".data.b");
    let forced = ssa(CONFIG_MAP, Some(&one), config_map(json!({"a": "2"})), "two", true).unwrap();
    assert_eq!(forced["data"], json!({"a": "2", "b": "1"}));
}

#[test]
fn objects_without_owners_belong_to_before_first_apply() {
    let live =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u"}, "data": {"a": "1"}});
    let status = ssa(CONFIG_MAP, Some(&live), config_map(json!({"a": "2"})), "one", false).unwrap_err();
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a");
}

#[test]
fn kubectl_takes_over_what_its_client_side_apply_set() {
    let applied = config_map(json!({"a": "1"}));
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut object = applied.clone();
    object["metadata"]["uid"] = json!("u");
    object["metadata"]["annotations"] = json!({annotation: applied.to_string()});
    let live = managed(CONFIG_MAP, None, object, "kubectl-client-side-apply");
    let after = ssa(CONFIG_MAP, Some(&live), config_map(json!({"a": "2"})), "kubectl", false).unwrap();
    assert_eq!(after["data"], json!({"a": "2"}));
    assert!(after["metadata"]["annotations"][annotation].as_str().unwrap().contains("\"a\":\"2\""));
    assert_eq!(ssa(CONFIG_MAP, Some(&live), config_map(json!({"a": "2"})), "other", false).unwrap_err().code, 409);
}

#[rstest]
#[case(json!({"apiVersion": "v1", "kind": "ConfigMap", "datax": {}}), 500,
    "failed to create typed patch object (/; /v1, Kind=ConfigMap): .datax: field not declared in schema")]
#[case(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": ["b"]}), 500,
    "failed to create typed patch object (/; /v1, Kind=ConfigMap): .data: expected map, got &{[b]}")]
#[case(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": 1}}), 500,
    "failed to create typed patch object (/; /v1, Kind=ConfigMap): .data.b: expected string, got &value.valueUnstructured{Value:1}")]
#[case(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}}), 400,
    "metadata.managedFields must be nil")]
fn malformed_configs(#[case] config: Value, #[case] code: u16, #[case] message: &str) {
    let status = ssa(CONFIG_MAP, None, config, "m", false).unwrap_err();
    assert_eq!((status.code, &*status.message), (code, message));
}

#[test]
fn applied_items_keep_their_order_and_merge_by_key() {
    let deployment = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"template": {"spec": {"containers": containers}}}})
    };
    let one =
        ssa(DEPLOYMENT, None, deployment(json!([{"name": "a"}, {"name": "b", "image": "i"}])), "one", false).unwrap();
    let two = ssa(DEPLOYMENT, Some(&one), deployment(json!([{"name": "c"}, {"name": "b", "tty": true}])), "two", false)
        .unwrap();
    let containers = two["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let names: Vec<&str> = containers.iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "c", "b"]);
    assert_eq!(containers[2], json!({"name": "b", "image": "i", "tty": true, "resources": {}}));
}

#[test]
fn times_go_back_where_nothing_else_changed() {
    let old = managed(CONFIG_MAP, None, json!({"metadata": {"name": "c", "uid": "u"}, "data": {"a": "1"}}), "one");
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = json!("2030-01-01T00:00:00Z");
    let mut changed = new.clone();
    ignore_timestamps(&mut new, &old);
    assert_eq!(new, old);
    changed["data"]["a"] = json!("2");
    let before = changed.clone();
    ignore_timestamps(&mut changed, &old);
    assert_eq!(changed, before);
}

/// Data of a config map. Never empty, because an empty map is applied again each time, also upstream; small enough for
/// values to collide.
fn data() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[a-d]", "[12]", 1..4).prop_map(|m| json!(m))
}

/// Arbitrary JSON.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z$/.~]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, |inner| {
        let keys = prop_oneof![
            Just("metadata"),
            Just("spec"),
            Just("labels"),
            Just("containers"),
            Just("name"),
            Just("ports"),
            Just("containerPort"),
            Just("finalizers"),
            Just("$patch"),
            Just("$retainKeys"),
            Just("managedFields"),
            Just("$setElementOrder/containers"),
            Just("$deleteFromPrimitiveList/finalizers"),
            Just("fieldsV1"),
            Just("."),
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(keys, inner, 0..5)
                .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing(first in data(), second in data(), third in data()) {
        let live = ssa(CONFIG_MAP, None, config_map(first), "one", true).unwrap();
        let live = ssa(CONFIG_MAP, Some(&live), config_map(second), "two", true).unwrap();
        let once = ssa(CONFIG_MAP, Some(&live), config_map(third.clone()), "one", true).unwrap();
        let twice = ssa(CONFIG_MAP, Some(&once), config_map(third.clone()), "one", true).unwrap();
        prop_assert_eq!(&once, &twice);
        for (key, value) in third.as_object().unwrap() {
            prop_assert_eq!(once.pointer(&format!("/data/{key}")), Some(value));
        }
    }

    #[test]
    fn sets_obey_the_laws(a in data(), b in data()) {
        let set = |v: &Value| {
            FieldSet::from_map(v.as_object().unwrap().keys().map(|k| (format!("f:{k}"), json!({}))).collect())
        };
        let a = set(&a);
        let b = set(&b);
        let mut only_a = a.clone();
        only_a.difference(&b);
        prop_assert!(only_a.intersection(&b).is_empty());
        only_a.union(a.intersection(&b));
        prop_assert_eq!(only_a, a);
    }

    #[test]
    fn nothing_panics(live in any_json(), new in any_json(), patch in any_json()) {
        use super::super::patch::{PatchType, apply_patch};
        use super::super::schema::FieldValidation;
        let schema = builtin("io.k8s.api.core.v1.Pod").unwrap();
        for kind in [PatchType::Json, PatchType::Merge, PatchType::Strategic] {
            _ = apply_patch(kind, &schema, live.clone(), patch.to_string().as_bytes(), FieldValidation::Strict);
        }
        let mut updated = new.clone();
        update(&schema, Some(&live), &mut updated, &write("m", "v1"));
        let mut config = patch;
        if let Some(map) = config.as_object_mut() {
            map.insert("apiVersion", json!("v1"));
            map.insert("kind", json!("Pod"));
        }
        _ = ssa("io.k8s.api.core.v1.Pod", Some(&live), config.clone(), "m", true);
        _ = ssa("io.k8s.api.core.v1.Pod", Some(&updated), config, "m", false);
    }

    #[test]
    fn decoding_survives_anything(text in "[\\[\\]{}\",:a-z0-9\\\\ue.+-]{0,40}") {
        let schema = builtin("io.k8s.api.core.v1.Pod").unwrap();
        _ = schema.decode(text.as_bytes());
        let ours = super::super::schema::decode_untyped(text.as_bytes());
        prop_assert_eq!(ours.is_ok(), serde_json::from_str::<Value>(&text).is_ok() || ours.is_ok());
    }
}
