//! Decode errors, normalization and canonical quantities of the built-in types.

use rstest::rstest;

use super::*;
use crate::json::{Value, json};

fn pod() -> std::sync::Arc<Schema> {
    builtin("io.k8s.api.core.v1.Pod").unwrap()
}

#[test]
fn every_type_resolves() {
    for name in builtin_names() {
        let schema = builtin(&name).unwrap();
        for ty in &schema.types {
            assert!(
                !matches!(ty.shape, TypeKind::Any)
                    || matches!(&*ty.go, "v1.JSON" | "v1beta1.JSON" | "runtime.RawExtension"),
                "{name}: {} is not defined",
                ty.go
            );
        }
    }
}

#[rstest]
#[case::type_of_a_list(
    r#"{"spec":{"containers":"x"}}"#,
    "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container"
)]
#[case::first_error_wins(
    r#"{"metadata":{"name":5},"spec":"x"}"#,
    "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string"
)]
#[case::embedded_struct(
    r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":1.5}}}]}}"#,
    "json: cannot unmarshal number 1.5 into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32"
)]
#[case::quantity(
    r#"{"spec":{"x":1,"containers":[{"resources":{"limits":{"cpu":true}}}]}}"#,
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)]
#[case::time(
    r#"{"metadata":{"creationTimestamp":"x"}}"#,
    r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#
)]
#[case::syntax(r#"{"metadata":[],}"#, "invalid character '}' looking for beginning of object key string")]
#[case::end("", "unexpected end of JSON input")]
#[case::trailing("{} x", "invalid character 'x' after top-level value")]
#[case::list("[]", "json: cannot unmarshal array into Go value of type v1.Pod")]
fn decode_errors(#[case] text: &str, #[case] message: &str) {
    assert_eq!(pod().decode(text.as_bytes()).unwrap_err().message, message);
}

#[test]
fn strict_errors_come_in_the_order_of_the_text() {
    let text = br#"{"spec":{"foo":1,"containers":[{"name":"a","name":"b","image":"x","bar":2}]},"x":1}"#;
    let decoded = pod().decode(text).unwrap();
    assert_eq!(
        decoded.strict,
        [
            r#"unknown field "spec.foo""#,
            r#"duplicate field "spec.containers[0].name""#,
            r#"unknown field "spec.containers[0].bar""#,
            r#"unknown field "x""#,
        ]
    );
    assert_eq!(decoded.value["spec"]["containers"][0], json!({"name": "b", "image": "x", "resources": {}}));
}

#[test]
fn fields_that_pruning_removes_are_decoded_first() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {}}}}});
    let schema = Schema::from_structural(Some(&schema), false).unwrap();
    let text = br#"{"spec":{"x":1,"x":2,"y":{"z":1,"z":2},"a":1},"metadata":{"u":1,"u":2}}"#;
    let decoded = schema.decode(text).unwrap();
    assert_eq!(
        decoded.strict,
        [
            r#"unknown field "spec.x""#,
            r#"duplicate field "spec.x""#,
            r#"unknown field "spec.y""#,
            r#"duplicate field "spec.y.z""#,
            r#"unknown field "metadata.u""#,
            r#"duplicate field "metadata.u""#,
        ]
    );
    assert_eq!(decoded.value["spec"], json!({"a": 1}));
}

#[rstest]
#[case("io.k8s.api.core.v1.Pod", json!({}), json!({"metadata": {}, "spec": {"containers": null}, "status": {}}))]
#[case("io.k8s.api.apps.v1.Deployment", json!({"spec": {"paused": false, "replicas": 0}}), json!({
    "metadata": {},
    "spec": {"replicas": 0, "selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}},
    "status": {},
}))]
#[case("io.k8s.api.core.v1.ConfigMap", json!({"metadata": {"labels": {}, "annotations": {"a": null}}, "data": {}}),
    json!({"metadata": {"annotations": {"a": ""}}}))]
fn normalized(#[case] name: &str, #[case] mut value: Value, #[case] expected: Value) {
    let schema = builtin(name).unwrap();
    schema.normalize(&mut value);
    assert_eq!(value, expected);
    schema.normalize(&mut value);
    assert_eq!(value, expected);
}

#[test]
fn every_field_is_found_by_its_name_and_by_no_other() {
    for schema in builtin_names().filter_map(|name| builtin(&name)) {
        for ty in &schema.types {
            let TypeKind::Struct(shape) = &ty.shape else { continue };
            let names: Vec<&str> = shape.fields.iter().map(|field| &*field.name).collect();
            for &name in &names {
                assert!(shape.field(name).is_some_and(|found| *found.name == *name), "{} {name}", ty.go);
                for other in [&name[1..], &name[..name.len() - 1], &format!("{name}s"), &format!("{name}\0")] {
                    assert_eq!(shape.field(other).is_some(), names.contains(&other), "{} {other}", ty.go);
                }
            }
        }
    }
}

#[rstest]
#[case::rules("io.k8s.api.rbac.v1.Role", json!({"rules": []}), json!({"rules": null}))]
#[case::nested("io.k8s.api.core.v1.LimitRange", json!({"spec": {"limits": []}}), json!({"spec": {"limits": null}}))]
#[case::bytes("io.k8s.api.core.v1.Secret", json!({"data": {"a": null}}), json!({"data": {"a": ""}}))]
#[case::with_items("io.k8s.api.rbac.v1.Role", json!({"rules": [{"verbs": ["get"]}]}), json!({"rules": [{"verbs": ["get"]}]}))]
fn what_is_stored_has_no_empty_lists(#[case] name: &str, #[case] mut value: Value, #[case] expected: Value) {
    builtin(name).expect("known").drop_empty_fields(&mut value);
    assert_eq!(value, expected);
}

#[test]
fn bytes_may_be_written_as_numbers() {
    let schema = builtin("io.k8s.api.core.v1.Secret").expect("known");
    let decoded = schema.decode(br#"{"data": {"a": [], "b": [104, 105]}}"#).expect("fits");
    assert_eq!(decoded.value["data"], json!({"a": "", "b": "aGk="}));
    assert!(schema.decode(br#"{"data": {"a": [256]}}"#).is_err());
}

#[test]
fn a_cursor_finds_what_a_search_finds() {
    let schema = builtin("io.k8s.api.core.v1.PodSpec").unwrap();
    let shape = schema.root_struct().unwrap();
    let names = ["", "a", "containers", "containersX", "hostIPC", "hostNetwork", "hostPID", "nodeName", "volumes", "z"];
    let mut cursor = FieldCursor::new(shape);
    let found = names.map(|name| cursor.index(name));
    assert_eq!(found, names.map(|name| shape.index(name)));
    assert_eq!(found.iter().flatten().count(), 6);
}

/// `prune` and `skipPrune` of `pkg/apiserver/schema/pruning/algorithm.go` in `apiextensions-apiserver`.
#[rstest]
#[case::any_values(json!({"additionalProperties": true}), r#"{"a": {"b": 1}, "c": [{"d": 1}, 2], "e": 3}"#,
    json!({"a": {}, "c": [{}, 2], "e": 3}), &["v.a.b", "v.c[0].d"])]
#[case::preserved_around_values(json!({"x-kubernetes-preserve-unknown-fields": true,
    "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}}),
    r#"{"a": {"k": "1", "x": 2}}"#, json!({"a": {"k": "1"}}), &["v.a.x"])]
#[case::preserved_around_fields(json!({"x-kubernetes-preserve-unknown-fields": true,
    "properties": {"a": {"type": "object", "properties": {"k": {"type": "string"}}}}}),
    r#"{"a": {"k": "1", "x": 2}, "b": {"x": 2}}"#, json!({"a": {"k": "1"}, "b": {"x": 2}}), &["v.a.x"])]
#[case::a_text_is_expected(json!({"properties": {"a": {"type": "string"}}}), r#"{"a": {"x": 1}, "b": 1}"#, json!({"a": {}}), &["v.a.x", "v.b"])]
#[case::a_list_is_expected(json!({"properties": {"a": {"type": "array", "items": {"type": "string"}}}}),
    r#"{"a": {"x": 1}}"#, json!({"a": {}}), &["v.a.x"])]
#[case::an_object_is_expected(json!({"properties": {"a": {"type": "object"}}}), r#"{"a": [{"x": 1}]}"#, json!({"a": [{}]}), &["v.a[0].x"])]
#[case::a_number_or_text(json!({"properties": {"a": {"x-kubernetes-int-or-string": true}}}), r#"{"a": {"x": 1}}"#, json!({"a": {}}), &["v.a.x"])]
#[case::items_of_a_preserved_list(json!({"properties": {"a": {"type": "array", "x-kubernetes-preserve-unknown-fields": true,
    "items": {"type": "object", "properties": {"k": {"type": "object"}}}}}}),
    r#"{"a": [{"x": 1, "k": {"y": 1}}]}"#, json!({"a": [{"x": 1, "k": {}}]}), &["v.a[0].k.y"])]
#[case::a_preserved_value_of_another_type(json!({"properties": {"a": {"type": "string", "x-kubernetes-preserve-unknown-fields": true}}}),
    r#"{"a": {"x": 1}}"#, json!({"a": {"x": 1}}), &[])]
#[case::embedded(json!({"properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": true,
    "properties": {"spec": {"type": "object"}}}}}),
    r#"{"a": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"x": 1}, "z": 1}}"#,
    json!({"a": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {}}}), &["v.a.spec.x", "v.a.z"])]
fn unknown_fields_are_pruned(
    #[case] schema: Value,
    #[case] value: &str,
    #[case] kept: Value,
    #[case] unknown: &[&str],
) {
    let mut inner = schema;
    inner["type"] = "object".into();
    let root = json!({"type": "object", "properties": {"v": inner}});
    let types = Schema::from_structural(Some(&root), false).unwrap();
    let decoded = types.decode(format!("{{\"v\": {value}}}").as_bytes()).unwrap();
    let unknown: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    assert_eq!((&decoded.value["v"], decoded.strict), (&kept, unknown));
}

const DEFINITION: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";

fn definition(schema: &Value) -> Value {
    json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": schema}}}}]}})
}

/// Names of types as `reflect.Type.String` writes them: `map[QualifiedName]DeviceAttribute` and
/// `map[v1.ResourceName]NodeAllocatableResourceMapping` of `k8s.io/api/resource/v1/types.go`, and the fields of
/// `JSONSchemaProps`, a type that contains itself.
#[rstest]
#[case::keys("io.k8s.api.resource.v1.Device", json!({"attributes": 1}),
    "json: cannot unmarshal number into Go struct field Device.attributes of type map[v1.QualifiedName]v1.DeviceAttribute")]
#[case::keys_of_another_package("io.k8s.api.resource.v1.Device", json!({"nodeAllocatableResourceMappings": []}),
    "json: cannot unmarshal array into Go struct field Device.nodeAllocatableResourceMappings of type map[v1.ResourceName]v1.NodeAllocatableResourceMapping")]
#[case::recursive("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", json!({"allOf": 1}),
    "json: cannot unmarshal number into Go struct field JSONSchemaProps.allOf of type []v1.JSONSchemaProps")]
#[case::any_items("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", json!({"enum": "x"}),
    "json: cannot unmarshal string into Go struct field JSONSchemaProps.enum of type []v1.JSON")]
fn names_of_types(#[case] name: &str, #[case] value: Value, #[case] message: &str) {
    assert_eq!(builtin(name).expect("known").convert(&value).expect_err("another type").message, message);
}

/// `UnmarshalJSON` of `apiextensions/v1/marshal.go`, and `addErrorContext` of `sigs.k8s.io/json`.
#[rstest]
#[case::type_below_items(json!({"items": {"type": 5}}),
    "json: cannot unmarshal number into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.items.type of type string")]
#[case::rule_below_values(json!({"additionalProperties": {"x-kubernetes-validations": [{"rule": 5}]}}),
    "json: cannot unmarshal number into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.additionalProperties.x-kubernetes-validations.rule of type string")]
#[case::no_boolean(json!({"additionalProperties": "x"}), "boolean or JSON schema expected")]
#[case::no_names(json!({"dependencies": {"b": [5]}}),
    "json: cannot unmarshal number into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.dependencies of type string")]
fn schemas_below_others_are_typed(#[case] schema: Value, #[case] message: &str) {
    let decoded = builtin(DEFINITION).expect("known").convert(&definition(&schema));
    assert_eq!(decoded.expect_err("another type").message, message);
}

/// Schemas below `items` and `additionalProperties` are read by a decoder that is not strict.
#[test]
fn schemas_below_others_are_normalized() {
    let given = json!({"items": {"description": "", "type": "string", "foo": 1},
        "additionalProperties": {"required": [], "items": {"nullable": false, "foo": 1}}, "additionalItems": false});
    let decoded = builtin(DEFINITION).expect("known").convert(&definition(&given)).expect("fits");
    assert_eq!(decoded.strict, Vec::<String>::new());
    let expected =
        json!({"items": {"type": "string"}, "additionalProperties": {"items": {}}, "additionalItems": false});
    let found = decoded.value.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/a");
    assert_eq!(found, Some(&expected));
}
