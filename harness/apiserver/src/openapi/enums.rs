//! The values a field may have, as kube-apiserver's OpenAPI documents list them (`kubectl explain` prints them). PURE.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::json::{Value, json};

/// What stands in a description before the values.
pub(super) const VALUES: &str = "\n\nPossible enum values:";

/// Values by type (without `io.k8s.`) and field.
static ENUMS: LazyLock<BTreeMap<(&str, &str), Vec<&str>>> = LazyLock::new(|| {
    let rows = include_str!("enums.tsv").lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| {
        let mut cells = row.split('\t');
        let (kind, field, values) = (cells.next()?, cells.next()?, cells.next()?);
        Some(((kind, field), values.split('|').collect()))
    })
    .collect()
});

/// Adds the values of `field` of the type `name` to its schema.
pub(super) fn add(name: &str, field: &str, schema: &mut Value) {
    let kind = name.strip_prefix("io.k8s.").unwrap_or(name);
    if let Some(values) = ENUMS.get(&(kind, field)) {
        schema["enum"] = json!(values);
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        // Upstream tells here what each value means, too.
        let listed: Vec<String> = values.iter().map(|value| format!("\n - `{value:?}`")).collect();
        schema["description"] = json!(format!("{about}{VALUES}{}", listed.concat()));
    }
    if let Some(values) = ENUMS.get(&(kind, format!("{field}[]").as_str()))
        && schema["items"].is_object()
    {
        schema["items"]["enum"] = json!(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_items_get_their_values() {
        let mut effect = json!({"type": "string"});
        add("io.k8s.api.core.v1.Taint", "effect", &mut effect);
        assert_eq!(effect["enum"], json!(["NoExecute", "NoSchedule", "PreferNoSchedule"]));
        let listed = "\n\nPossible enum values:\n - `\"NoExecute\"`\n - `\"NoSchedule\"`\n - `\"PreferNoSchedule\"`";
        assert_eq!(effect["description"], listed);
        let mut types = json!({"type": "array", "items": {"type": "string"}});
        add("io.k8s.api.networking.v1.NetworkPolicySpec", "policyTypes", &mut types);
        assert_eq!(types, json!({"type": "array", "items": {"type": "string", "enum": ["Egress", "Ingress"]}}));
        let mut other = json!({"type": "string"});
        add("io.k8s.api.core.v1.Taint", "key", &mut other);
        assert_eq!(other, json!({"type": "string"}));
    }
}
