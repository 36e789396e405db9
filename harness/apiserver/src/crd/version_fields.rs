//! The fields of a definition's versions: what all have in common, and their text in errors. Upstream validates its
//! internal type, in which the common ones are parts of the spec: see `pkg/apis/apiextensions/v1/conversion.go` in
//! `staging/src/k8s.io/apiextensions-apiserver`. PURE.

use super::root_schema::internal_schema;
use super::text_fields::text;
use crate::field_errors::go_json;
use crate::json::fields::is_empty_value;
use crate::json::{Value, json};

/// Returns a field of a version; `None` if it is empty.
pub(super) fn non_empty_field<'a>(version: &'a Value, field: &str) -> Option<&'a Value> {
    version.get(field).filter(|value| !is_empty_value(Some(value)))
}

/// Returns true if all versions agree in a field. It is then validated once, with the path it had in v1beta1.
pub(super) fn is_shared(versions: &[Value], field: &str) -> bool {
    versions.windows(2).all(|pair| non_empty_field(&pair[0], field) == non_empty_field(&pair[1], field))
}

/// Returns versions as upstream's internal type, in which what all have in common is a part of the spec.
pub(super) fn internal_versions(versions: &[Value]) -> String {
    let shown = versions.iter().map(|version| {
        let flag = |field: &str| version.get(field).and_then(Value::as_bool).unwrap_or_default();
        let part = |field: &str, show: fn(&Value) -> String| match non_empty_field(version, field) {
            Some(part) if !is_shared(versions, field) => show(part),
            _ => "null".to_owned(),
        };
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
            go_json(&json!(text(version, "name"))),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            version.get("deprecationWarning").map_or_else(|| "null".to_owned(), go_json),
            part("schema", |schema| {
                format!("{{\"OpenAPIV3Schema\":{}}}", internal_schema(&schema["openAPIV3Schema"]))
            }),
            part("subresources", internal_subresources),
            part("additionalPrinterColumns", |columns| internal_list(columns, internal_column)),
            part("selectableFields", |fields| {
                internal_list(fields, |field| format!("{{\"JSONPath\":{}}}", go_json(&json!(text(field, "jsonPath")))))
            }),
        )
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(","))
}

fn internal_list(items: &Value, show: fn(&Value) -> String) -> String {
    format!("[{}]", items.as_array().into_iter().flatten().map(show).collect::<Vec<_>>().join(","))
}

fn internal_column(column: &Value) -> String {
    let shown = |field: &str| go_json(&json!(text(column, field)));
    format!(
        "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
        shown("name"),
        shown("type"),
        shown("format"),
        shown("description"),
        column["priority"].as_i64().unwrap_or_default(),
        shown("jsonPath")
    )
}

fn internal_subresources(subresources: &Value) -> String {
    let scale = subresources.get("scale").filter(|scale| scale.is_object()).map_or_else(
        || "null".to_owned(),
        |scale| {
            let path = |field: &str| go_json(&json!(text(scale, field)));
            let labels = scale.get("labelSelectorPath").map_or_else(|| "null".to_owned(), go_json);
            let (spec, status) = (path("specReplicasPath"), path("statusReplicasPath"));
            format!("{{\"SpecReplicasPath\":{spec},\"StatusReplicasPath\":{status},\"LabelSelectorPath\":{labels}}}")
        },
    );
    let status = subresources.get("status").filter(|status| status.is_object()).map_or("null", |_| "{}");
    format!("{{\"Status\":{status},\"Scale\":{scale}}}")
}
