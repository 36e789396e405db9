//! Validation of scheduling constraints: tolerations, affinities, topology spread, gates.
//!
//! See `pkg/apis/core/validation/validation.go`.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, is_empty_value, non_null, object_or_insert, semantic_equal, str_field};
use crate::json::{Key, Value, json};
use crate::registry::core::internal_json;
use crate::registry::core::node_selector;
use crate::registry::{checks, label_selector, names};

/// Validates `spec.tolerations`.
pub(in crate::registry) fn tolerations(tolerations: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let path = path.index(i);
        let of = |field: &str| str_field(toleration, field);
        let key = of("key");
        let operator = of("operator");
        let value = of("value");
        let effect = of("effect");
        if key.is_empty() {
            if operator != "Exists" {
                let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                errors.invalid(&path.child("operator"), operator, why);
            }
        } else {
            for message in names::qualified_name(key) {
                errors.invalid(&path.child("key"), key, message);
            }
        }
        if non_null(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&path.child("effect"), effect, why);
        }
        match operator {
            "Equal" | "" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    errors.invalid(&path.child("operator"), value, messages.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    errors.invalid(&path.child("operator"), value, "value must be empty when `operator` is 'Exists'");
                }
            }
            "Lt" | "Gt" => errors.not_supported(&path.child("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]),
            _ => errors.not_supported(&path.child("operator"), operator, &["Equal", "Exists"]),
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            errors.not_supported(&path.child("effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    }
}

/// Validates an update of tolerations: it may add some and change `tolerationSeconds` of existing ones.
pub(super) fn validate_only_added_tolerations(new: &[Value], old: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let fields = ["key", "operator", "value", "effect"];
    let same = |a: &Value, b: &Value| fields.iter().all(|f| str_field(a, f) == str_field(b, f));
    if !old.iter().all(|o| new.iter().any(|n| same(o, n))) {
        errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
        return;
    }
    tolerations(new, path, errors);
}

/// Validates `spec.schedulingGates`.
pub(super) fn validate_scheduling_gates(gates: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let again = checks::repeated(gates, |gate| str_field(gate, "name"));
    for (i, gate) in gates.iter().enumerate() {
        let name = str_field(gate, "name");
        for message in names::qualified_name(name) {
            errors.invalid(&path.index(i), name, message);
        }
        if again[i] {
            errors.duplicate(&path.index(i), name);
        }
    }
}

/// Validates an update of scheduling gates: it may only remove some.
pub(super) fn validate_only_deleted_scheduling_gates(
    new: &[Value],
    old: &[Value],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (i, gate) in new.iter().enumerate() {
        let name = str_field(gate, "name");
        if old.iter().all(|g| str_field(g, "name") != name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&path.index(i).child("name"), why);
        }
    }
}

/// Merges `matchLabelKeys` and `mismatchLabelKeys`, applied to the pod's labels, into the selectors of their terms
/// (`applyMatchLabelKeysAndMismatchLabelKeys` in `pkg/registry/core/pod/strategy.go`).
pub(super) fn apply_label_keys(pod: &mut Value) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let Some(labels) = pod.pointer("/metadata/labels").cloned() else { return };
    let Some(spec) = pod.get_mut("spec") else { return };
    for constraint in items(spec, "topologySpreadConstraints") {
        label_keys_to_selector(constraint, &labels);
    }
    let Some(affinity) = spec.get_mut("affinity") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.get_mut(kind) else { continue };
        for term in items(pods, REQUIRED) {
            label_keys_to_selector(term, &labels);
        }
        for term in items(pods, PREFERRED).filter_map(|t| t.get_mut("podAffinityTerm")) {
            label_keys_to_selector(term, &labels);
        }
    }
}

fn items<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn label_keys_to_selector(term: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in array_field(term, field).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if added.is_empty() || !term.get("labelSelector").is_some_and(Value::is_object) {
        return;
    }
    let Some(selector) = object_or_insert(term, "labelSelector") else { return };
    let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(expressions) = expressions.as_array_mut() {
        expressions.extend(added);
    }
}

/// Validates `spec.affinity`.
pub(super) fn affinity(affinity: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(node) = non_null(affinity, "nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(required) = non_null(node, REQUIRED) {
            node_selector::validate(required, &path.child(REQUIRED), errors);
        }
        let path = path.child(PREFERRED);
        for (i, term) in array_field(node, PREFERRED).iter().enumerate() {
            let path = path.index(i);
            validate_weight(term, &path, errors);
            if let Some(preference) = non_null(term, "preference") {
                node_selector::validate_term(preference, true, &path.child("preference"), errors);
            }
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = non_null(affinity, kind) else { continue };
        let path = path.child(kind);
        let required = path.child(REQUIRED);
        for (i, term) in array_field(pods, REQUIRED).iter().enumerate() {
            pod_term(term, &required.index(i), errors);
        }
        let preferred = path.child(PREFERRED);
        for (i, term) in array_field(pods, PREFERRED).iter().enumerate() {
            let path = preferred.index(i);
            validate_weight(term, &path, errors);
            pod_term(term.get("podAffinityTerm").unwrap_or(&Value::Null), &path.child("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(term: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let weight = term.get("weight").and_then(Value::as_i64).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn pod_term(term: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["labelSelector", "namespaceSelector"] {
        errors.append(label_selector::validate(non_null(term, field), false, &path.child(field)));
    }
    for namespace in array_field(term, "namespaces") {
        let namespace = namespace.as_str().unwrap_or_default();
        for message in names::dns1123_label(namespace) {
            errors.invalid(&path.child("namespace"), namespace, message);
        }
    }
    label_keys(term, path, errors);
    let key = str_field(term, "topologyKey");
    if key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    for message in names::qualified_name(key) {
        errors.invalid(&path.child("topologyKey"), key, message);
    }
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`: valid label keys, only with a selector, and not in it already.
fn label_keys(term: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let selector = non_null(term, "labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = array_field(term, field);
        let path = path.child(field);
        if selector.is_none() && !keys.is_empty() {
            errors.forbidden(&path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in keys.iter().enumerate() {
            let key = key.as_str().unwrap_or_default();
            for message in names::qualified_name(key) {
                errors.invalid(&path.index(i), key, message);
            }
        }
    }
    let keys = array_field(term, "matchLabelKeys");
    let labels = selector.and_then(|s| s.get("matchLabels")).and_then(Value::as_object);
    let mut seen: BTreeSet<&str> = labels.into_iter().flat_map(|labels| labels.keys().map(Key::as_str)).collect();
    let mut places = BTreeMap::new();
    for (i, key) in keys.iter().enumerate() {
        places.entry(key.as_str().unwrap_or_default()).or_insert(i);
    }
    for expression in selector.map_or(&[][..], |s| array_field(s, "matchExpressions")) {
        let key = str_field(expression, "key");
        // An expression that the keys themselves added occurs once.
        if let Some(i) = places.get(key).filter(|_| seen.contains(key)) {
            errors.invalid(&path.index(*i), key, "exists in both matchLabelKeys and labelSelector");
        }
        seen.insert(key);
    }
    let others: BTreeSet<&str> = array_field(term, "mismatchLabelKeys").iter().filter_map(Value::as_str).collect();
    let keys = keys.iter().map(|key| key.as_str().unwrap_or_default());
    for (i, key) in keys.enumerate().filter(|(_, key)| others.contains(key)) {
        errors.invalid(
            &path.child("matchLabelKeys").index(i),
            key,
            "exists in both matchLabelKeys and mismatchLabelKeys",
        );
    }
}

/// Validates `spec.topologySpreadConstraints`.
pub(super) fn validate_topology_spread_constraints(constraints: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.index(i);
        let skew = constraint.get("maxSkew").and_then(Value::as_i64).unwrap_or(0);
        if skew <= 0 {
            errors.invalid(&path.child("maxSkew"), skew, "must be greater than zero");
        }
        let key = str_field(constraint, "topologyKey");
        let action = str_field(constraint, "whenUnsatisfiable");
        if key.is_empty() {
            errors.required(&path.child("topologyKey"), "can not be empty");
        }
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            errors.not_supported(&path.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let same = |c: &Value| str_field(c, "topologyKey") == key && str_field(c, "whenUnsatisfiable") == action;
        if constraints[i + 1..].iter().any(same) {
            let shown = format!("{{{key}, {action}}}");
            errors.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), shown);
        }
        if let Some(domains) = non_null(constraint, "minDomains").and_then(Value::as_i64) {
            if domains <= 0 {
                errors.invalid(&path.child("minDomains"), domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&path.child("minDomains"), domains, why);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = non_null(constraint, field).and_then(Value::as_str)
                && !matches!(policy, "Honor" | "Ignore")
            {
                errors.not_supported(&path.child(field), policy, &["Honor", "Ignore"]);
            }
        }
        label_keys(constraint, &path, errors);
        errors.append(label_selector::validate(
            non_null(constraint, "labelSelector"),
            false,
            &path.child("labelSelector"),
        ));
    }
}

/// Validates an update of a gated pod, which may only restrict the eligible nodes further.
pub(super) fn validate_gated_pod_update(now: &Value, before: &Value, spec: &Path<'_>, errors: &mut ErrorList) {
    let new = now.get("nodeSelector");
    let old = before.get("nodeSelector");
    let mut selected = old.and_then(Value::as_object).into_iter().flatten();
    if selected.any(|(key, value)| new.and_then(|new| new.get(key)) != Some(value)) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        let shown = new.filter(|new| !is_empty_value(Some(new)));
        errors.invalid(&spec.child("nodeSelector"), BadValue::from(shown), why);
    }
    let new = required_terms(now);
    let old = required_terms(before);
    let affinity = spec.child("affinity");
    let shown = |term| internal_json::compact("NodeSelectorTerm", term);
    let node = affinity.child("nodeAffinity");
    let required = node.child("requiredDuringSchedulingIgnoredDuringExecution");
    let path = required.child("nodeSelectorTerms");
    if !old.is_empty() && old.len() != new.len() {
        let all: Vec<_> = new.iter().map(shown).collect();
        let all = if all.is_empty() { "null".to_owned() } else { format!("[{}]", all.join(",")) };
        errors.invalid(
            &path,
            BadValue::Raw(all),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
        return;
    }
    for (index, (new, old)) in new.iter().zip(old).enumerate() {
        if !is_extension_of(new, old) {
            let why = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&path.index(index), BadValue::Raw(shown(new)), why);
        }
    }
}

fn required_terms(spec: &Value) -> &[Value] {
    let required = spec.pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    required.map_or(&[], |required| array_field(required, "nodeSelectorTerms"))
}

/// Returns true if a term only gains requirements. An empty term matches nothing and must remain empty.
fn is_extension_of(new: &Value, old: &Value) -> bool {
    let fields = ["matchExpressions", "matchFields"];
    if fields.iter().all(|field| array_field(old, field).is_empty()) {
        return fields.iter().all(|field| array_field(new, field).is_empty());
    }
    fields.iter().all(|field| {
        let new = array_field(new, field);
        let old = array_field(old, field);
        new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| semantic_equal(Some(new), Some(old)))
    })
}
