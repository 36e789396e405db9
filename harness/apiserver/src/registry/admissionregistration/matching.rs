//! Rules, match conditions and expressions of webhooks and policies. See
//! `pkg/apis/admissionregistration/validation/validation.go`. PURE.

use std::collections::BTreeSet;

use crate::expressions::admission::{AdmissionExpression, AdmissionVariables, ReturnType};
use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, items_mut, non_null, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::registry::{checks, label_selector, names};

pub(super) const REINVOCATIONS: [&str; 2] = ["IfNeeded", "Never"];

/// Defaults of the match rules of policies and webhooks.
pub(super) fn default_match_resources(map: &mut Map) {
    value_default(map, "matchPolicy", "Equivalent");
    value_default(map, "namespaceSelector", json!({}));
    value_default(map, "objectSelector", json!({}));
    for field in ["resourceRules", "excludeResourceRules", "rules"] {
        for rule in items_mut(map, field) {
            value_default(rule, "scope", "*");
        }
    }
}

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

const MUTATED: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];

pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];

/// Most match conditions of a webhook or policy.
const CONDITIONS_MAX: usize = 64;

fn has_wildcard(list: &[Value]) -> bool {
    list.len() > 1 && list.iter().any(|one| *one == "*")
}

pub(super) fn rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let operations = array_field(rule, "operations");
    if operations.is_empty() {
        errors.required(&path.child("operations"), "");
    }
    if has_wildcard(operations) {
        let why = "if '*' is present, must not specify other operations";
        errors.invalid(&path.child("operations"), &rule["operations"], why);
    }
    for (index, operation) in operations.iter().enumerate() {
        let operation = operation.as_str().unwrap_or_default();
        if !OPERATIONS.contains(&operation) {
            errors.not_supported(&path.child("operations").index(index), operation, &OPERATIONS);
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = array_field(rule, field);
        if list.is_empty() {
            errors.required(&path.child(field), "");
        }
        if has_wildcard(list) {
            let why = format!("if '*' is present, must not specify other {what}");
            errors.invalid(&path.child(field), &rule[field], why);
        }
    }
    for (index, version) in array_field(rule, "apiVersions").iter().enumerate() {
        if *version == "" {
            errors.required(&path.child("apiVersions").index(index), "");
        }
    }
    resources(rule, &path.child("resources"), errors);
    checks::one_of(rule, "scope", &SCOPES, path, errors);
}

fn resources(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let resources: Vec<&str> = array_field(rule, "resources").iter().filter_map(Value::as_str).collect();
    if resources.is_empty() {
        errors.required(path, "");
    }
    let mut before = BTreeSet::new();
    for (index, resource) in resources.iter().enumerate() {
        if resource.is_empty() {
            errors.required(&path.index(index), "");
        }
        let Some((name, subresource)) = resource.split_once('/') else { continue };
        if before.contains(&(name, "*")) {
            let why = format!("if '{name}/*' is present, must not specify {resource}");
            errors.invalid(&path.index(index), *resource, why);
        }
        if before.contains(&("*", subresource)) {
            let why = format!("if '*/{subresource}' is present, must not specify {resource}");
            errors.invalid(&path.index(index), *resource, why);
        }
        before.insert((name, subresource));
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        errors.invalid(path, &rule["resources"], "if '*/*' is present, must not specify other resources");
    }
    if resources.contains(&"*") && resources.iter().any(|one| !one.contains('/') && *one != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, &rule["resources"], why);
    }
}

pub(super) fn match_conditions(object: &Value, known: &AdmissionVariables, path: &Path<'_>, errors: &mut ErrorList) {
    let conditions = array_field(object, "matchConditions");
    let path = path.child("matchConditions");
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(&path, conditions.len(), CONDITIONS_MAX);
    }
    let repeated = checks::repeated(conditions, |condition| str_field(condition, "name"));
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let source = str_field(condition, "expression").trim();
        if source.is_empty() {
            errors.required(&path.child("expression"), "");
        } else if let Some(error) = AdmissionExpression::compile(source, known, ReturnType::Bool).error() {
            errors.invalid(&path.child("expression"), source, error.to_string());
        }
        match str_field(condition, "name") {
            "" => errors.required(&path.child("name"), ""),
            name => {
                checks::format(name, names::qualified_name, &path.child("name"), errors);
                if repeated[index] {
                    errors.duplicate(&path.child("name"), name);
                }
            }
        }
    }
}

/// Checks an expression that must be set; returns it compiled.
pub(super) fn expression(
    object: &Value,
    field: &str,
    known: &AdmissionVariables,
    returns: ReturnType,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<AdmissionExpression> {
    let source = str_field(object, field);
    if source.trim().is_empty() {
        let why = match (field, returns) {
            ("expression", ReturnType::Bool | ReturnType::Any) => "expression is not specified",
            ("valueExpression", _) => "valueExpression is not specified",
            _ => "",
        };
        errors.required(&path.child(field), why);
        return None;
    }
    // Upstream compiles some expressions without the space around them, and shows one of these as it is given.
    let of_mutation = field == "expression" && !matches!(returns, ReturnType::Bool | ReturnType::Any);
    let trimmed = if of_mutation || field == "valueExpression" { source.trim() } else { source };
    let compiled = AdmissionExpression::compile(trimmed, known, returns);
    if let Some(error) = compiled.error() {
        let shown = if of_mutation { trimmed } else { source };
        errors.invalid(&path.child(field), shown, error.to_string());
    }
    Some(compiled)
}

/// Validates the match rules of policies and bindings.
pub(super) fn match_resources(resources: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    checks::set_one_of(resources, "matchPolicy", &MATCH_POLICIES, path, errors);
    for field in ["namespaceSelector", "objectSelector"] {
        if non_null(resources, field).is_none() {
            errors.required(&path.child(field), "");
        }
        label_selector::validate_field(resources, field, path, errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let root = path.child(field);
        for (index, one) in array_field(resources, field).iter().enumerate() {
            let path = root.index(index);
            names_of_rule(one, &path.child("resourceNames"), errors);
            rule(one, &path, errors);
        }
    }
}

/// Requires the operations of mutating policies and bindings to be writes.
pub(super) fn mutated_operations(resources: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rules = path.child("resourceRules");
    for operation in array_field(resources, "resourceRules").iter().flat_map(|rule| array_field(rule, "operations")) {
        let operation = operation.as_str().unwrap_or_default();
        if !MUTATED.contains(&operation) {
            errors.not_supported(&rules.child("operations"), operation, &MUTATED);
        }
    }
}

fn names_of_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let all = array_field(rule, "resourceNames");
    let repeated = checks::repeated(all, Value::as_str);
    for (index, name) in all.iter().enumerate() {
        let text = name.as_str().unwrap_or_default();
        for why in names::path_segment(text, false) {
            errors.invalid(&path.index(index), text, why);
        }
        if repeated[index] {
            errors.duplicate(&path.index(index), text);
        }
    }
}
