//! Patches of the three types, with the results of `staging/src/k8s.io/apimachinery/pkg/util/strategicpatch`.

use rstest::rstest;

use super::super::schema::builtin;
use super::*;
use crate::json::json;

fn patch(kind: PatchType, live: Value, body: &str) -> Result<Value, Status> {
    let schema = builtin("io.k8s.api.core.v1.Pod").unwrap();
    apply_patch(kind, &schema, live, body.as_bytes(), FieldValidation::Strict).map(|p| p.value)
}

fn live() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "1"}, "finalizers": ["x/a", "x/b"]},
        "spec": {"containers": [
            {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {}},
            {"name": "d", "image": "j", "resources": {}},
        ]},
        "status": {},
    })
}

/// The text of a refused document is that of its last state, and so is what is decoded from it.
#[rstest]
#[case::replaced(r#"[{"op":"add","path":"/metadata/ownerReferences","value":[{}]},{"op":"replace","path":"/metadata/ownerReferences/0","value":"x"}]"#,
    "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.ownerReferences of type v1.OwnerReference")]
#[case::overwritten(
    r#"[{"op":"add","path":"/spec/affinity","value":{}},{"op":"add","path":"/spec/affinity","value":{"x":1}}]"#,
    "strict decoding error: unknown field \"spec.affinity.x\""
)]
#[case::removed(r#"[{"op":"add","path":"/metadata/finalizers/0","value":5},{"op":"remove","path":"/metadata/finalizers/0"},{"op":"add","path":"/spec/x","value":1}]"#,
    "strict decoding error: unknown field \"spec.x\"")]
fn json_patches_of_one_place(#[case] body: &str, #[case] expected: &str) {
    let message = patch(PatchType::Json, live(), body).expect_err("refused").message;
    assert!(message.ends_with(expected), "{message}");
}

#[rstest]
#[case::add(r#"[{"op":"add","path":"/metadata/labels/x~1y","value":"2"}]"#, "/metadata/labels", json!({"a": "1", "x/y": "2"}))]
#[case::append(r#"[{"op":"add","path":"/metadata/finalizers/-","value":"x/c"}]"#, "/metadata/finalizers", json!(["x/a", "x/b", "x/c"]))]
#[case::insert_from_the_end(r#"[{"op":"add","path":"/metadata/finalizers/-1","value":"x/c"}]"#, "/metadata/finalizers", json!(["x/a", "x/b", "x/c"]))]
#[case::remove_from_the_end(r#"[{"op":"remove","path":"/metadata/finalizers/-1"}]"#, "/metadata/finalizers", json!(["x/a"]))]
#[case::replace_missing(r#"[{"op":"replace","path":"/metadata/labels/n","value":"x"}]"#, "/metadata/labels", json!({"a": "1", "n": "x"}))]
#[case::copy_missing(r#"[{"op":"copy","from":"/metadata/labels/q","path":"/metadata/labels/b"}]"#, "/metadata/labels", json!({"a": "1", "b": ""}))]
#[case::move_(r#"[{"op":"move","from":"/metadata/finalizers/0","path":"/metadata/finalizers/1"}]"#, "/metadata/finalizers", json!(["x/b", "x/a"]))]
#[case::test_missing_null(r#"[{"op":"test","path":"/metadata/labels/zz","value":null}]"#, "/metadata/labels", json!({"a": "1"}))]
#[case::null("null", "/metadata/labels", json!({"a": "1"}))]
fn json_patches(#[case] body: &str, #[case] pointer: &str, #[case] expected: Value) {
    assert_eq!(patch(PatchType::Json, live(), body).unwrap().pointer(pointer), Some(&expected));
}

#[rstest]
#[case(r#"[{"op":"x","path":"/a"}]"#)]
#[case(r#"[{"op":"add"}]"#)]
#[case(r#"[{"op":"add","path":"/metadata/nope/b","value":"2"}]"#)]
#[case(r#"[{"op":"remove","path":"/metadata/labels/nope"}]"#)]
#[case(r#"[{"op":"remove","path":""}]"#)]
#[case(r#"[{"op":"remove","path":"/metadata/finalizers/5"}]"#)]
#[case(r#"[{"op":"test","path":"/metadata/labels/a","value":"2"}]"#)]
#[case(r#"[{"op":"test","path":"/nope/zz","value":null}]"#)]
#[case(r#"[{"op":"replace","path":"","value":3}]"#)]
#[case(r#"[{"op":"add","path":"/metadata/finalizers/7","value":"x"}]"#)]
fn json_patches_refused(#[case] body: &str) {
    let status = patch(PatchType::Json, live(), body).unwrap_err();
    assert_eq!(status.code, 422);
    assert_eq!(status.message, "the server rejected our request due to an error in our request");
}

#[rstest]
#[case("{}", "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp")]
#[case("[1]", "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp")]
#[case(
    r#"[{"op":5}]"#,
    "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
)]
#[case("[", "error decoding patch: unexpected end of JSON input")]
fn json_patches_malformed(#[case] body: &str, #[case] message: &str) {
    let status = patch(PatchType::Json, live(), body).unwrap_err();
    assert_eq!((status.code, &*status.message), (400, message));
}

#[test]
fn merge_patch_prunes_nulls_only_where_new() {
    let mut value = json!({"a": {"b": 1, "c": 2}, "l": [1]});
    let patch = json!({"a": {"b": null, "d": {"e": null}}, "l": [null, {"x": null}], "n": null});
    let Value::Object(patch) = patch else { unreachable!() };
    merge::merge(&mut value, patch);
    assert_eq!(value, json!({"a": {"c": 2, "d": {}}, "l": [null, {}]}));
}

#[rstest]
#[case::by_key(r#"{"spec":{"containers":[{"name":"c","image":"n"}]}}"#, "/spec/containers/0/image", json!("n"))]
#[case::delete_item(r#"{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}"#, "/spec/containers/0/name", json!("d"))]
#[case::replace_list(r#"{"spec":{"containers":[{"$patch":"replace"},{"name":"e"}]}}"#, "/spec/containers", json!([{"name": "e", "resources": {}}]))]
#[case::replace_map(r#"{"metadata":{"labels":{"$patch":"replace","z":"1"}}}"#, "/metadata/labels", json!({"z": "1"}))]
#[case::primitive_merge(r#"{"metadata":{"finalizers":["x/b","x/c"]}}"#, "/metadata/finalizers", json!(["x/a", "x/b", "x/c"]))]
#[case::primitive_delete(r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/a"]}}"#, "/metadata/finalizers", json!(["x/b"]))]
#[case::element_order(
    r#"{"metadata":{"$setElementOrder/finalizers":["x/b","x/a"]}}"#, "/metadata/finalizers", json!(["x/b", "x/a"])
)]
#[case::order_of_items(
    r#"{"spec":{"$setElementOrder/containers":[{"name":"d"},{"name":"n"},{"name":"c"}],"containers":[{"name":"n"}]}}"#,
    "/spec/containers/1/name", json!("n")
)]
#[case::retain_keys(r#"{"metadata":{"$retainKeys":["name","labels"],"labels":{"b":"2"}}}"#, "/metadata", json!({"name": "p", "labels": {"a": "1", "b": "2"}}))]
fn strategic_patches(#[case] body: &str, #[case] pointer: &str, #[case] expected: Value) {
    assert_eq!(patch(PatchType::Strategic, live(), body).unwrap().pointer(pointer), Some(&expected));
}

#[rstest]
#[case(
    r#"{"spec":{"containers":[{"image":"x"}]}}"#,
    500,
    "map: map[image:x] does not contain declared merge key: name"
)]
#[case(
    r#"{"spec":{"containers":[{"name":"c","$patch":"foo"}]}}"#,
    500,
    "unknown patch type: foo in map: map[$patch:foo name:c]"
)]
#[case(
    r#"{"metadata":{"$setElementOrder/finalizers":["x"],"finalizers":["y"]}}"#,
    500,
    "The order in patch list:\n[y]\n doesn't match $setElementOrder list:\n[x]\n"
)]
#[case(r#"{"metadata":{"$setElementOrder/finalizers":"x"}}"#, 500, "expected a []interface {}, but received a string")]
#[case(r#"{"metadata":{"$retainKeys":"x"}}"#, 400, "invalid patch format of retainKeys")]
#[case(r#"{"metadata":{"$deleteFromPrimitiveList":["x"]}}"#, 400, "invalid patch format of primitive list")]
#[case(r#"{"metadata":{"finalizers":[1]}}"#, 500, "list element types are not identical: [[x/a x/b] [1]]")]
#[case("[]", 400, "json: cannot unmarshal array into Go value of type map[string]interface {}")]
#[case(
    r#"{"spec":{"activeDeadlineSeconds":"x"}}"#,
    422,
    r#" "" is invalid: patch: Invalid value: "map[spec:map[activeDeadlineSeconds:x]]": unrecognized type: int64"#
)]
#[case(
    r#"{"spec":{"containers":[{"name":"c","foo":1}],"z":1},"bar":2,"bar":3}"#, 422,
    r#" "" is invalid: patch: Invalid value: "map[bar:3 spec:map[containers:[map[foo:1 name:c]] z:1]]": strict decoding error: duplicate field "bar", unknown field "bar", unknown field "spec.containers[0].foo", unknown field "spec.z""#
)]
fn strategic_patches_refused(#[case] body: &str, #[case] code: u16, #[case] message: &str) {
    let status = patch(PatchType::Strategic, live(), body).unwrap_err();
    assert_eq!((status.code, &*status.message), (code, message));
}

#[test]
fn refusals_show_where_the_patch_went() {
    let live = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "1"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}, "status": {}});
    let status = patch(PatchType::Merge, live.clone(), r#"{"spec":{"foo":1}}"#).unwrap_err();
    assert_eq!(
        status.details.unwrap().causes[0].message,
        r#"Invalid value: "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"labels\":{\"a\":\"1\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}],\"foo\":1,\"nodeName\":\"n\"},\"status\":{}}": strict decoding error: unknown field "spec.foo""#
    );
    let status = patch(PatchType::Json, live, r#"[{"op":"add","path":"/metadata/foo","value":1}]"#).unwrap_err();
    assert_eq!(
        status.details.unwrap().causes[0].message,
        r#"Invalid value: "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"foo\":1,\"labels\":{\"a\":\"1\"},\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}],\"nodeName\":\"n\"},\"status\":{}}": strict decoding error: unknown field "metadata.foo""#
    );
}
