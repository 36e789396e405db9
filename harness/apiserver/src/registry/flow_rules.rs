//! Validation of flow schemas and priority levels. See `pkg/apis/flowcontrol/validation/validation.go`. PURE.

use super::checks;
use super::label_selector::array_field;
use super::meta::{self, non_null, spec_of};
use super::names;
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;
use crate::metadata;

const SPEC: Path<'static> = Path::new("spec");
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const SUBJECTS: [&str; 3] = ["Group", "ServiceAccount", "User"];
/// Largest matching precedence.
const PRECEDENCE_MAX: i64 = 10_000;

/// Validates a `FlowSchema`.
pub(super) fn flow_schema(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let (path, precedence) = (SPEC.child("matchingPrecedence"), spec["matchingPrecedence"].as_i64().unwrap_or(0));
    match precedence {
        ..=0 => errors.invalid(&path, precedence, "must be a positive value"),
        1 if metadata::name(object) != "exempt" => {
            errors.invalid(&path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
        }
        _ if precedence > PRECEDENCE_MAX => {
            errors.invalid(&path, precedence, format!("must not be greater than {PRECEDENCE_MAX}"));
        }
        _ => {}
    }
    if let Some(method) = non_null(spec, "distinguisherMethod") {
        let (supported, kind) = (["ByNamespace", "ByUser"], meta::str_field(method, "type"));
        if !supported.contains(&kind) {
            let shown = BadValue::Raw(format!("{{\"Type\":{}}}", Value::from(kind)));
            errors.not_supported(&SPEC.child("distinguisherMethod").child("type"), shown, &supported);
        }
    }
    let (path, level) = (SPEC.child("priorityLevelConfiguration"), &spec["priorityLevelConfiguration"]);
    match meta::str_field(level, "name") {
        "" => errors.required(&path.child("name"), "must reference a priority level"),
        name => checks::format(name, names::dns1123_subdomain, &path.child("name"), &mut errors),
    }
    let root = SPEC.child("rules");
    for (index, one) in array_field(spec, "rules").iter().enumerate() {
        rules_with_subjects(one, &root.index(index), &mut errors);
    }
    errors
}

fn rules_with_subjects(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (root, subjects) = (path.child("subjects"), array_field(rule, "subjects"));
    if subjects.is_empty() {
        errors.required(&root, "subjects must contain at least one value");
    }
    for (index, one) in subjects.iter().enumerate() {
        subject(one, &root.index(index), errors);
    }
    let (resources, paths) = (array_field(rule, "resourceRules"), array_field(rule, "nonResourceRules"));
    if resources.is_empty() && paths.is_empty() {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let root = path.child("resourceRules");
    for (index, one) in resources.iter().enumerate() {
        resource_rule(one, &root.index(index), errors);
    }
    let root = path.child("nonResourceRules");
    for (index, one) in paths.iter().enumerate() {
        let path = root.index(index);
        verbs(one, &path.child("verbs"), errors);
        let urls = array_field(one, "nonResourceURLs");
        let path = path.child("nonResourceURLs");
        if list(
            one,
            "nonResourceURLs",
            ("nonResourceURLs must contain at least one value", "non-resource URLs"),
            &path,
            errors,
        ) {
            for (index, url) in urls.iter().filter_map(Value::as_str).enumerate() {
                if !url.starts_with('/') {
                    errors.invalid(&path.index(index), url, "must start with slash");
                }
            }
        }
    }
}

fn subject(subject: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = meta::str_field(subject, "kind");
    let fields = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let Some((_, own)) = fields.iter().find(|(name, _)| *name == kind) else {
        return errors.not_supported(&path.child("kind"), kind, &SUBJECTS);
    };
    match non_null(subject, own) {
        None => errors.required(&path.child(own), format!("{own} is required when subject kind is '{kind}'")),
        Some(named) => {
            let path = path.child(own);
            match meta::str_field(named, "name") {
                "" => errors.required(&path.child("name"), ""),
                name if kind == "ServiceAccount" && name != "*" => {
                    checks::format(name, names::dns1123_subdomain, &path.child("name"), errors);
                }
                _ => {}
            }
            if kind == "ServiceAccount" {
                match meta::str_field(named, "namespace") {
                    "" => errors.required(&path.child("namespace"), "must specify namespace for service account"),
                    name => checks::format(name, names::dns1123_label, &path.child("namespace"), errors),
                }
            }
        }
    }
    for (other, field) in fields.iter().filter(|(name, _)| *name != kind) {
        if non_null(subject, field).is_some() {
            errors.forbidden(&path.child(field), format!("{field} is forbidden when subject kind is not '{other}'"));
        }
    }
}

fn verbs(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let supported = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    if list(rule, "verbs", ("verbs must contain at least one value", "verbs"), path, errors)
        && !array_field(rule, "verbs").iter().all(supported)
    {
        errors.not_supported(path, &rule["verbs"], &VERBS);
    }
}

/// Checks that a list is not empty, and that `*` is its only item. Returns true for a list without `*`.
fn list(rule: &Value, field: &str, (required, others): (&str, &str), path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let all = array_field(rule, field);
    if all.is_empty() {
        errors.required(path, required);
        return false;
    }
    let open = all.iter().any(|one| *one == "*");
    if open && all.len() > 1 {
        errors.invalid(path, &rule[field], format!("if '*' is present, must not specify other {others}"));
    }
    !open
}

fn resource_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const NAMESPACE: &str = "each member of this list must be '*' or a DNS-1123 label; ";
    verbs(rule, &path.child("verbs"), errors);
    for (field, required, others) in [
        ("apiGroups", "resource rules must supply at least one api group", "api groups"),
        ("resources", "resource rules must supply at least one resource", "resources"),
    ] {
        list(rule, field, (required, others), &path.child(field), errors);
    }
    let (path, namespaces) = (path.child("namespaces"), array_field(rule, "namespaces"));
    let open = namespaces.iter().any(|one| *one == "*");
    if namespaces.is_empty() && rule["clusterScope"] != Value::Bool(true) {
        errors.required(&path, "resource rules that are not cluster scoped must supply at least one namespace");
    } else if open && namespaces.len() > 1 {
        errors.invalid(&path, &rule["namespaces"], "if '*' is present, must not specify other namespaces");
    } else if !open {
        for (index, name) in namespaces.iter().filter_map(Value::as_str).enumerate() {
            for why in names::dns1123_label(name) {
                errors.invalid(&path.index(index), name, format!("{NAMESPACE}{why}"));
            }
        }
    }
}

/// Validates a `PriorityLevelConfiguration`.
pub(super) fn priority_level(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let (path, kind) = (SPEC.child("type"), meta::str_field(spec, "type"));
    if (metadata::name(object) == "exempt") != (kind == "Exempt") {
        errors.invalid(&path, kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let given = |field: &str| non_null(spec, field).is_some();
    match kind {
        "Exempt" if given("limited") => {
            errors.forbidden(&SPEC.child("limited"), "must be nil if the type is not Limited");
        }
        "Exempt" => {}
        "Limited" => {
            if given("exempt") {
                errors.forbidden(&SPEC.child("exempt"), "must be nil if the type is Limited");
            }
            if !given("limited") {
                errors.required(&SPEC.child("limited"), "must not be empty when type is Limited");
            }
        }
        _ => errors.not_supported(&path, kind, &["Exempt", "Limited"]),
    }
    errors
}
