//! The types of custom resources, from their definitions. Does the work of
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go` of Kubernetes 1.36. PURE.

use super::types;
use crate::json::{Map, json};
use crate::registry::Resource;
use crate::registry::custom::CustomResource;

/// The built-in type from which the descriptions of common fields are taken.
const LIKE: &str = "api.core.v1.Pod";

const META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1";

/// Returns the name of a custom kind's type: its group reversed, version and kind.
pub(super) fn name_of(kind: &Resource) -> String {
    let mut parts: Vec<&str> = kind.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{}", parts.join("."), kind.version, kind.kind)
}

/// Adds the types of a kind and of its list.
pub(super) fn add(kind: &Resource, own: &CustomResource, schemas: &mut Map) {
    let name = name_of(kind);
    let gvk = |kind_name: &str| json!([{"group": kind.group, "kind": kind_name, "version": kind.version}]);
    let mut schema = if own.schema.is_object() { own.schema.clone() } else { json!({}) };
    schema["type"] = json!("object");
    schema["x-kubernetes-group-version-kind"] = gvk(&kind.kind);
    for field in ["apiVersion", "kind"] {
        if schema["properties"][field].is_null() {
            schema["properties"][field] = json!({"type": "string", "description": types::description(LIKE, field)});
        }
    }
    let metadata = types::description(LIKE, "metadata");
    schema["properties"]["metadata"] =
        json!({"description": metadata, "allOf": [{"$ref": format!("{META}.ObjectMeta")}]});
    let list = json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": format!("{META}.ListMeta")}]},
            "items": {"type": "array", "items": {"$ref": format!("#/components/schemas/{name}")}},
        },
        "x-kubernetes-group-version-kind": gvk(&kind.list_kind),
    });
    schemas.insert(format!("{name}List"), list);
    schemas.insert(name, schema);
}
