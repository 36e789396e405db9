//! Validation of webhook configurations, admission policies and their bindings, expressions included. See
//! `pkg/apis/admissionregistration/validation/validation.go`. PURE.

use super::checks;
use super::label_selector::array_field;
use super::{meta, names};
use crate::expressions::admission::{AdmissionExpression, AdmissionVariables, ReturnType};
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::metadata;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MUTATED: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const REINVOCATIONS: [&str; 2] = ["IfNeeded", "Never"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const SPEC: Path<'static> = Path::new("spec");

/// Most match conditions of a webhook or policy.
const CONDITIONS_MAX: usize = 64;

/// Validates a webhook configuration.
pub(super) fn validating_webhooks(object: &Value) -> ErrorList {
    webhooks(object, false)
}

/// Validates a configuration of mutating webhooks.
pub(super) fn mutating_webhooks(object: &Value) -> ErrorList {
    webhooks(object, true)
}

fn webhooks(object: &Value, mutating: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = Path::new("webhooks");
    let hooks = array_field(object, "webhooks");
    for (index, hook) in hooks.iter().enumerate() {
        let path = root.index(index);
        webhook(hook, mutating, &path, &mut errors);
        let name = meta::str_field(hook, "name");
        if !name.is_empty() && hooks[..index].iter().any(|other| meta::str_field(other, "name") == name) {
            errors.duplicate(&path.child("name"), name);
        }
    }
    errors
}

fn webhook(hook: &Value, mutating: bool, path: &Path<'_>, errors: &mut ErrorList) {
    qualified_name(meta::str_field(hook, "name"), &path.child("name"), errors);
    let rules = path.child("rules");
    for (index, one) in array_field(hook, "rules").iter().enumerate() {
        rule(one, &rules.index(index), errors);
    }
    checks::one_of(hook, "failurePolicy", &FAILURE_POLICIES, path, errors);
    checks::one_of(hook, "matchPolicy", &MATCH_POLICIES, path, errors);
    if meta::str_field(hook, "sideEffects").is_empty() {
        errors.required(&path.child("sideEffects"), format!("must specify one of {}", SIDE_EFFECTS.join(", ")));
    }
    checks::one_of(hook, "sideEffects", &SIDE_EFFECTS, path, errors);
    if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&path.child("timeoutSeconds"), seconds, why);
    }
    checks::selector(hook, "namespaceSelector", path, errors);
    checks::selector(hook, "objectSelector", path, errors);
    if mutating {
        checks::one_of(hook, "reinvocationPolicy", &REINVOCATIONS, path, errors);
    }
    client_config(&hook["clientConfig"], &path.child("clientConfig"), errors);
    let known = AdmissionVariables { authorizer: true, ..AdmissionVariables::default() };
    match_conditions(hook, &known, path, errors);
    admission_review_versions(hook, &path.child("admissionReviewVersions"), errors);
}

/// Checks a name of at least three parts.
fn qualified_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let wrong = names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        return errors.invalid(path, name, wrong.join(","));
    }
    if name.split('.').count() < 3 {
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
}

/// Validates the address of a webhook.
pub(crate) fn client_config(config: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match (meta::non_null(config, "url").and_then(Value::as_str), meta::non_null(config, "service")) {
        (None, None) | (Some(_), Some(_)) => errors.required(path, "exactly one of url or service is required"),
        (Some(url), None) => webhook_url(url, &path.child("url"), errors),
        (None, Some(service)) => {
            let path = path.child("service");
            for field in ["name", "namespace"] {
                if meta::str_field(service, field).is_empty() {
                    errors.required(&path.child(field), format!("service {field} is required"));
                }
            }
            if let Some(port) = service["port"].as_i64().filter(|port| names::port_number(*port).is_some()) {
                let why = names::port_number(port).unwrap_or_default();
                errors.invalid(&path.child("port"), port, format!("port is not valid: {why}"));
            }
        }
    }
}

fn webhook_url(url: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Ok(uri) = url.parse::<http::Uri>() else {
        return errors.required(path, format!("url must be a valid URL: {url:?}{FORM}"));
    };
    if uri.scheme_str() != Some("https") {
        let scheme = uri.scheme_str().unwrap_or_default();
        errors.invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if uri.host().unwrap_or_default().is_empty() {
        errors.invalid(path, "", format!("host must be specified{FORM}"));
    }
    if let Some((user, _)) = uri.authority().and_then(|authority| authority.as_str().split_once('@')) {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    if let Some((_, fragment)) = url.split_once('#') {
        errors.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if let Some(query) = uri.query() {
        errors.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

fn admission_review_versions(hook: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let versions = array_field(hook, "admissionReviewVersions");
    if versions.is_empty() {
        return errors.required(path, format!("must specify one of {}", VERSIONS.join(", ")));
    }
    review_versions(versions, path, errors);
}

/// Validates the versions of reviews that a webhook understands.
pub(crate) fn review_versions(versions: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, version) in versions.iter().enumerate() {
        let text = version.as_str().unwrap_or_default();
        if versions[..index].contains(version) {
            errors.invalid(&path.index(index), text, "duplicate version");
        } else {
            checks::format(text, names::dns1035_label, &path.index(index), errors);
        }
    }
    if !versions.iter().any(|version| VERSIONS.iter().any(|known| version == known)) {
        let why = format!("must include at least one of {}", VERSIONS.join(", "));
        errors.invalid(path, Value::from(versions.to_vec()), why);
    }
}

fn has_wildcard(list: &[Value]) -> bool {
    list.len() > 1 && list.iter().any(|one| *one == "*")
}

fn rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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
    for (index, resource) in resources.iter().enumerate() {
        if resource.is_empty() {
            errors.required(&path.index(index), "");
        }
        let Some((name, subresource)) = resource.split_once('/') else { continue };
        let before = &resources[..index];
        if before.iter().any(|other| *other == format!("{name}/*")) {
            let why = format!("if '{name}/*' is present, must not specify {resource}");
            errors.invalid(&path.index(index), *resource, why);
        }
        if before.iter().any(|other| *other == format!("*/{subresource}")) {
            let why = format!("if '*/{subresource}' is present, must not specify {resource}");
            errors.invalid(&path.index(index), *resource, why);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        errors.invalid(path, &rule["resources"], "if '*/*' is present, must not specify other resources");
    }
    if resources.contains(&"*") && resources.iter().any(|one| !one.contains('/') && *one != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, &rule["resources"], why);
    }
}

fn match_conditions(object: &Value, known: &AdmissionVariables, path: &Path<'_>, errors: &mut ErrorList) {
    let conditions = array_field(object, "matchConditions");
    let path = path.child("matchConditions");
    if conditions.len() > CONDITIONS_MAX {
        return errors.too_many(&path, conditions.len(), CONDITIONS_MAX);
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        expression(condition, "expression", known, ReturnType::Bool, &path, errors);
        match meta::str_field(condition, "name") {
            "" => errors.required(&path.child("name"), ""),
            name => {
                checks::format(name, names::qualified_name, &path.child("name"), errors);
                if conditions[..index].iter().any(|other| meta::str_field(other, "name") == name) {
                    errors.duplicate(&path.child("name"), name);
                }
            }
        }
    }
}

/// Checks an expression that must be set; returns it compiled.
fn expression(
    object: &Value,
    field: &str,
    known: &AdmissionVariables,
    returns: ReturnType,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<AdmissionExpression> {
    let source = meta::str_field(object, field);
    if source.trim().is_empty() {
        let why = match (field, returns) {
            ("expression", ReturnType::Bool | ReturnType::Any) => "expression is not specified",
            ("valueExpression", _) => "valueExpression is not specified",
            _ => "",
        };
        errors.required(&path.child(field), why);
        return None;
    }
    let compiled = AdmissionExpression::compile(source, known, returns);
    if let Some(error) = compiled.error() {
        errors.invalid(&path.child(field), source, error.to_string());
    }
    Some(compiled)
}

/// Validates a `ValidatingAdmissionPolicy`.
pub(super) fn validating_policy(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = meta::spec_of(object);
    let known = policy(spec, true, &mut errors);
    let (validations, annotations) = (array_field(spec, "validations"), array_field(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.required(&SPEC.child("validations"), why);
        errors.required(&SPEC.child("auditAnnotations"), why);
    }
    let root = SPEC.child("validations");
    for (index, one) in validations.iter().enumerate() {
        validation(one, &known, &root.index(index), &mut errors);
    }
    let root = SPEC.child("auditAnnotations");
    for (index, one) in annotations.iter().enumerate() {
        let (path, key) = (root.index(index), meta::str_field(one, "key"));
        let whole = format!("{}/{key}", metadata::name(object));
        for why in names::qualified_name(&whole) {
            errors.invalid(&path.child("key"), whole.as_str(), why);
        }
        if annotations[..index].iter().any(|other| meta::str_field(other, "key") == key) {
            errors.duplicate(&path.child("key"), key);
        }
        expression(one, "valueExpression", &known, ReturnType::TextOrNull, &path, &mut errors);
    }
    errors
}

fn validation(validation: &Value, known: &AdmissionVariables, path: &Path<'_>, errors: &mut ErrorList) {
    expression(validation, "expression", known, ReturnType::Bool, path, errors);
    let text = |field: &str| meta::str_field(validation, field);
    for field in ["messageExpression", "message"] {
        if !text(field).is_empty() && text(field).trim().is_empty() {
            errors.invalid(&path.child(field), text(field), "must be non-empty if specified");
        }
    }
    if !text("messageExpression").trim().is_empty() {
        let known = AdmissionVariables { authorizer: false, ..known.clone() };
        expression(validation, "messageExpression", &known, ReturnType::Text, path, errors);
    }
    if text("message").trim().contains(['\n', '\r']) {
        errors.invalid(&path.child("message"), text("message"), "must not contain line breaks");
    }
    checks::one_of(validation, "reason", &REASONS, path, errors);
}

/// Checks the parts that both kinds of policies have; returns the variables of their expressions.
fn policy(spec: &Value, validating: bool, errors: &mut ErrorList) -> AdmissionVariables {
    checks::required_one_of(spec, "failurePolicy", &FAILURE_POLICIES, &SPEC, errors);
    let mut known = AdmissionVariables { authorizer: true, ..AdmissionVariables::default() };
    if let Some(kind) = meta::non_null(spec, "paramKind") {
        known.params = true;
        param_kind(kind, &SPEC.child("paramKind"), errors);
    }
    let path = SPEC.child("matchConstraints");
    match meta::non_null(spec, "matchConstraints") {
        None => errors.required(&path, ""),
        Some(constraints) => {
            match_resources(constraints, validating, &path, errors);
            if array_field(constraints, "resourceRules").is_empty() {
                errors.required(&path.child("resourceRules"), "");
            }
        }
    }
    match_conditions(spec, &known, &SPEC, errors);
    let mut fields = std::collections::BTreeMap::new();
    let (variables, root) = (array_field(spec, "variables"), SPEC.child("variables"));
    for (index, variable) in variables.iter().enumerate() {
        let (path, name) = (root.index(index), meta::str_field(variable, "name"));
        if name.is_empty() {
            errors.required(&path.child("name"), "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(&path.child("name"), name, "name is not a valid CEL identifier");
        }
        known.fields = Some(fields.clone());
        if let Some(compiled) = expression(variable, "expression", &known, ReturnType::Any, &path, errors) {
            fields.insert(name.to_owned(), compiled.ty);
        }
    }
    known.fields = (!variables.is_empty()).then_some(fields);
    known
}

fn is_identifier(name: &str) -> bool {
    let reserved = ["true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"];
    let more = ["import", "let", "loop", "package", "namespace", "return", "var", "void", "while"];
    let starts = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    starts
        && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !reserved.contains(&name)
        && !more.contains(&name)
}

fn param_kind(kind: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let version = meta::str_field(kind, "apiVersion");
    let path_of_version = path.child("apiVersion");
    match version.matches('/').count() {
        _ if version.is_empty() => errors.required(&path_of_version, ""),
        0 | 1 => {
            let (group, number) = version.split_once('/').unwrap_or(("", version));
            let wrong = names::dns1123_subdomain(group);
            if !group.is_empty() && !wrong.is_empty() {
                errors.invalid(&path_of_version, group, wrong.join(","));
            }
            let wrong = names::dns1035_label(number);
            if number.is_empty() {
                errors.invalid(&path_of_version, version, "version must be specified");
            } else if !wrong.is_empty() {
                errors.invalid(&path_of_version, number, wrong.join(","));
            }
        }
        _ => errors.invalid(&path_of_version, version, format!("unexpected GroupVersion string: {version}")),
    }
    let name = meta::str_field(kind, "kind");
    let wrong = names::dns1035_label(&name.to_ascii_lowercase());
    if name.is_empty() {
        errors.required(&path.child("kind"), "");
    } else if !wrong.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errors.invalid(&path.child("kind"), name, why);
    }
}

fn match_resources(resources: &Value, validating: bool, path: &Path<'_>, errors: &mut ErrorList) {
    checks::required_one_of(resources, "matchPolicy", &MATCH_POLICIES, path, errors);
    for field in ["namespaceSelector", "objectSelector"] {
        if meta::non_null(resources, field).is_none() {
            errors.required(&path.child(field), "");
        }
        checks::selector(resources, field, path, errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let root = path.child(field);
        for (index, one) in array_field(resources, field).iter().enumerate() {
            let path = root.index(index);
            names_of_rule(one, &path.child("resourceNames"), errors);
            rule(one, &path, errors);
            if field == "resourceRules" && !validating {
                for operation in array_field(one, "operations").iter().filter_map(Value::as_str) {
                    if !MUTATED.contains(&operation) {
                        errors.not_supported(&root.child("operations"), operation, &MUTATED);
                    }
                }
            }
        }
    }
}

fn names_of_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let all = array_field(rule, "resourceNames");
    for (index, name) in all.iter().enumerate() {
        let text = name.as_str().unwrap_or_default();
        for why in names::path_segment(text, false) {
            errors.invalid(&path.index(index), text, why);
        }
        if all[..index].contains(name) {
            errors.duplicate(&path.index(index), text);
        }
    }
}

/// Validates a `MutatingAdmissionPolicy`.
pub(super) fn mutating_policy(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = meta::spec_of(object);
    let known = policy(spec, false, &mut errors);
    let known = AdmissionVariables { patches: true, ..known };
    let (mutations, root) = (array_field(spec, "mutations"), SPEC.child("mutations"));
    if mutations.is_empty() {
        errors.required(&root, "mutations must contain at least one item");
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let path = root.index(index);
        let (own, other, returns) = match meta::str_field(mutation, "patchType") {
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", ReturnType::Object),
            "JSONPatch" => ("jsonPatch", "applyConfiguration", ReturnType::JsonPatches),
            "" => {
                errors.required(&path.child("patchType"), "");
                continue;
            }
            kind => {
                errors.not_supported(&path.child("patchType"), kind, &["ApplyConfiguration", "JSONPatch"]);
                continue;
            }
        };
        let kind = meta::str_field(mutation, "patchType");
        if meta::non_null(mutation, other).is_some() {
            errors.forbidden(&path.child(other), format!("must not be set when patchType is {kind}"));
        }
        match meta::non_null(mutation, own) {
            None => errors.required(&path.child(own), format!("must be set when patchType is {kind}")),
            Some(patch) => {
                let path = path.child(own);
                expression(patch, "expression", &known, returns, &path, &mut errors);
            }
        }
    }
    checks::required_one_of(spec, "reinvocationPolicy", &REINVOCATIONS, &SPEC, &mut errors);
    errors
}

/// Validates a `ValidatingAdmissionPolicyBinding`.
pub(super) fn validating_binding(object: &Value) -> ErrorList {
    const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
    let mut errors = binding(object, true);
    let (spec, path) = (meta::spec_of(object), SPEC.child("validationActions"));
    let actions = array_field(spec, "validationActions");
    if actions.is_empty() {
        errors.required(&path, "at least one validation action is required");
    }
    for (index, action) in actions.iter().enumerate() {
        let text = action.as_str().unwrap_or_default();
        if !ACTIONS.contains(&text) {
            errors.not_supported(&path.index(index), text, &ACTIONS);
        }
        if actions[..index].contains(action) {
            errors.duplicate(&path.index(index), text);
        }
    }
    if ["Deny", "Warn"].iter().all(|wanted| actions.iter().any(|action| action == wanted)) {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(&path, &spec["validationActions"], why);
    }
    errors
}

/// Validates a `MutatingAdmissionPolicyBinding`.
pub(super) fn mutating_binding(object: &Value) -> ErrorList {
    binding(object, false)
}

fn binding(object: &Value, validating: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = meta::spec_of(object);
    checks::required_format(spec, "policyName", names::dns1123_subdomain, &SPEC, &mut errors);
    if let Some(reference) = meta::non_null(spec, "paramRef") {
        param_ref(reference, &SPEC.child("paramRef"), &mut errors);
    }
    if let Some(resources) = meta::non_null(spec, "matchResources") {
        match_resources(resources, validating, &SPEC.child("matchResources"), &mut errors);
    }
    errors
}

fn param_ref(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector) = (meta::str_field(reference, "name"), meta::non_null(reference, "selector"));
    if !name.is_empty() {
        for why in names::path_segment(name, false) {
            errors.invalid(&path.child("name"), name, why);
        }
        if selector.is_some() {
            errors.forbidden(&path.child("name"), EXCLUSIVE);
        }
    }
    checks::selector(reference, "selector", path, errors);
    match (name, selector) {
        ("", None) => errors.required(path, "one of name or selector must be specified"),
        ("", Some(_)) | (_, None) => {}
        (_, Some(_)) => errors.forbidden(&path.child("selector"), EXCLUSIVE),
    }
    checks::required_one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], path, errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn described(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    /// Answers of kube-apiserver 1.36.2.
    #[test]
    fn expressions_are_compiled() {
        let hook = json!({"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://x/"}, "matchConditions": [{"name": "n", "expression": "object.x +"}]});
        let errors = described(&validating_webhooks(&json!({"webhooks": [hook]})));
        assert_eq!(errors.len(), 1, "{errors:?}");
        let start =
            "webhooks[0].matchConditions[0].expression: Invalid value: \"object.x +\": compilation failed: ERROR: ";
        assert!(errors[0].starts_with(start), "{errors:?}");
    }

    #[test]
    fn variables_see_those_before_them() {
        let policy = |second: &str| {
            json!({"metadata": {"name": "p"}, "spec": {"failurePolicy": "Fail",
                "matchConstraints": {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                    "resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                        "resources": ["pods"]}]},
                "variables": [{"name": "a", "expression": "1"}, {"name": "b", "expression": second}],
                "validations": [{"expression": "variables.b == 2"}]}})
        };
        assert_eq!(described(&validating_policy(&policy("variables.a + 1"))), Vec::<String>::new());
        let errors = described(&validating_policy(&policy("variables.c")));
        assert!(errors[0].contains("undefined field 'c'"), "{errors:?}");
    }

    #[test]
    fn a_binding_has_a_name_or_a_selector() {
        let binding = json!({"spec": {"policyName": "p", "validationActions": ["Deny", "Warn"],
            "paramRef": {"parameterNotFoundAction": "Deny"}}});
        assert_eq!(
            described(&validating_binding(&binding)),
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
            ]
        );
    }
}
