//! Largest sizes of the values of a schema. Follows `staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go` and
//! `staging/src/k8s.io/apiserver/pkg/cel/limits.go` of Kubernetes 1.36. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::types::escape;
use crate::json::Value;

/// Largest request in bytes.
const REQUEST_BYTES: u64 = 3 * 1024 * 1024;

/// Deepest schema level that is visited.
const MAX_SCHEMA_DEPTH: usize = 64;

/// The sizes of a schema's values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SizedType {
    /// Most characters, bytes, items or entries; 0 for values without a size.
    pub(crate) most: u64,
    /// Least bytes of an encoded value.
    least_bytes: u64,
    /// Items of a list, or values of a map.
    pub(crate) element: Option<Arc<Self>>,
    /// True for a map.
    pub(crate) is_map: bool,
    pub(crate) fields: BTreeMap<String, Arc<Self>>,
}

impl SizedType {
    /// Returns the sizes of a schema's values. `root` objects have apiVersion, kind and metadata.
    pub(crate) fn of(schema: &Value, root: bool) -> Arc<Self> {
        Arc::new(of_schema(schema, root, 0).unwrap_or_default())
    }

    fn scalar(least_bytes: u64) -> Self {
        Self { least_bytes, ..Self::default() }
    }

    fn text(most: u64, least_bytes: u64) -> Self {
        Self { most, least_bytes, ..Self::default() }
    }

    /// Returns how often the value can be in a request.
    pub(crate) fn cardinality(&self) -> u64 {
        REQUEST_BYTES / (self.least_bytes + 1)
    }
}

/// Returns a limit of a schema; negative ones count as 0.
pub(crate) fn limit(schema: &Value, field: &str) -> Option<u64> {
    let limit = schema.get(field)?;
    limit.as_u64().or_else(|| limit.as_i64().map(|_| 0))
}

fn flag(schema: &Value, field: &str) -> bool {
    schema.get(field) == Some(&Value::Bool(true))
}

/// Returns the sizes of a schema's values; `None` if expressions do not see them.
fn of_schema(schema: &Value, root: bool, depth: usize) -> Option<SizedType> {
    let below = |schema: &Value| of_schema(schema, false, depth + 1);
    let longest = |bytes: u64| limit(schema, "maxLength").map_or(bytes, |length| length.saturating_mul(4));
    if depth > MAX_SCHEMA_DEPTH {
        return None;
    }
    if flag(schema, "x-kubernetes-int-or-string") {
        return Some(SizedType::text(longest(REQUEST_BYTES - 2), 1));
    }
    let embedded = root || flag(schema, "x-kubernetes-embedded-resource");
    Some(match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
        "array" => {
            let items = below(schema.get("items")?)?;
            let most = limit(schema, "maxItems").unwrap_or((REQUEST_BYTES - 2) / (items.least_bytes + 1));
            SizedType { most, least_bytes: 2, element: Some(Arc::new(items)), ..SizedType::default() }
        }
        "object" => match schema.get("additionalProperties").filter(|values| values.is_object()) {
            Some(values) => {
                let values = below(values)?;
                let most = limit(schema, "maxProperties").unwrap_or((REQUEST_BYTES - 2) / (values.least_bytes + 6));
                let element = Some(Arc::new(values));
                SizedType { most, least_bytes: 2, element, is_map: true, ..SizedType::default() }
            }
            None => object(schema, embedded, depth),
        },
        "string" => match schema.get("format").and_then(Value::as_str).unwrap_or_default() {
            "byte" => SizedType::text(limit(schema, "maxLength").unwrap_or(REQUEST_BYTES - 2), 2),
            "duration" => SizedType::text(32, 3),
            "date" => SizedType::text(12, 12),
            "date-time" => SizedType::text(32, 21),
            _ => {
                let choices = schema.get("enum").and_then(Value::as_array).filter(|choices| !choices.is_empty());
                let lengths = choices.map(|all| all.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0));
                let bytes = lengths.and_then(|length| u64::try_from(length).ok()).unwrap_or(REQUEST_BYTES - 2);
                SizedType::text(longest(bytes), 2)
            }
        },
        "boolean" => SizedType::scalar(4),
        "number" | "integer" => SizedType::scalar(1),
        _ if embedded => object(schema, embedded, depth),
        _ => return None,
    })
}

fn object(schema: &Value, embedded: bool, depth: usize) -> SizedType {
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let mut object = SizedType { least_bytes: 2, ..SizedType::default() };
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Some(field) = of_schema(property, false, depth + 1) else { continue };
        if required.contains(&name.as_str()) && property.get("default").is_none() {
            object.least_bytes += u64::try_from(name.len()).unwrap_or(0) + field.least_bytes + 4;
        }
        object.fields.extend(escape(name).map(|name| (name, Arc::new(field))));
    }
    if embedded {
        let text = || Arc::new(SizedType::text(REQUEST_BYTES - 2, 2));
        let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
        let metadata = SizedType { least_bytes: 2, fields: names.into(), ..SizedType::default() };
        object.fields.extend(["kind", "apiVersion"].map(|name| (name.to_owned(), text())));
        object.fields.insert("metadata".to_owned(), Arc::new(metadata));
    }
    object
}
