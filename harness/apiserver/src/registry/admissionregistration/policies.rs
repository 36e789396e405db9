//! Admission policies of both kinds, with their expressions. See
//! `pkg/apis/admissionregistration/validation/validation.go`. PURE.

use crate::expressions::admission::{AdmissionVariables, ReturnType};
use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, non_null, object_mut, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{CellSource, Column, Description};
use crate::printers::format::{UNSET, text};
use crate::registry::admissionregistration::matching::{
    self, FAILURE_POLICIES, expression, match_conditions, match_resources, mutated_operations,
};
use crate::registry::generic::{Generation, Generic, MetadataRules};
use crate::registry::{checks, names};

const SPEC: Path<'static> = Path::new("spec");

/// The rules of policies and their bindings.
pub(super) const STRATEGY: Generic = Generic {
    generation: Generation::Spec,
    unconditional: false,
    namespaced: false,
    updates: MetadataRules::Whole,
    ..Generic::NEW
};

/// Returns the warning about a name with the suffix of configurations in files: `WarningsForStaticSuffix` in
/// `pkg/apis/admissionregistration/validation/static_suffix.go`.
pub(super) fn name_warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    const SUFFIX: &str = ".static.k8s.io";
    let why = "are reserved for static manifest-based configurations and cannot be managed via the API";
    let is_reserved = metadata::name(object).ends_with(SUFFIX);
    Vec::from_iter(is_reserved.then(|| format!("metadata.name: names ending with {SUFFIX:?} {why}")))
}

/// Defaults of `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`.
pub(super) fn defaults(map: &mut Map) {
    let Some(spec) = object_mut(map, "spec") else { return };
    value_default(spec, "failurePolicy", "Fail");
    if let Some(constraints) = object_mut(spec, "matchConstraints") {
        matching::default_match_resources(constraints);
    }
}

/// Checks the parts that both kinds of policies have; returns the variables of their expressions.
pub(super) fn validate(spec: &Value, validating: bool, errors: &mut ErrorList) -> AdmissionVariables {
    checks::set_one_of(spec, "failurePolicy", &FAILURE_POLICIES, &SPEC, errors);
    let mut known = AdmissionVariables { authorizer: true, ..AdmissionVariables::default() };
    if let Some(kind) = non_null(spec, "paramKind") {
        known.params = true;
        param_kind(kind, &SPEC.child("paramKind"), errors);
    }
    let path = SPEC.child("matchConstraints");
    match non_null(spec, "matchConstraints") {
        None => errors.required(&path, ""),
        Some(constraints) => {
            match_resources(constraints, &path, errors);
            if array_field(constraints, "resourceRules").is_empty() {
                errors.required(&path.child("resourceRules"), "");
            }
            if !validating {
                mutated_operations(constraints, &path, errors);
            }
        }
    }
    match_conditions(spec, &known, &SPEC, errors);
    let mut fields = std::collections::BTreeMap::new();
    let variables = array_field(spec, "variables");
    let root = SPEC.child("variables");
    for (index, variable) in variables.iter().enumerate() {
        let path = root.index(index);
        let name = str_field(variable, "name");
        if name.trim().is_empty() {
            errors.required(&path.child("name"), "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(&path.child("name"), name, "must be a valid CEL identifier");
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
    let version = str_field(kind, "apiVersion");
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
    let name = str_field(kind, "kind");
    let wrong = names::dns1035_label(&name.to_ascii_lowercase());
    if name.is_empty() {
        errors.required(&path.child("kind"), "");
    } else if !wrong.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errors.invalid(&path.child("kind"), name, why);
    }
}

pub(super) const PARAM_KIND: Column = Column::string(
    "ParamKind",
    Description::Text("ParamKind specifies the kind of resources used to parameterize this policy"),
    CellSource::Custom(|policy, _| match policy.pointer("/spec/paramKind").filter(|kind| kind.is_object()) {
        Some(kind) => json!(format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind"))),
        None => json!(UNSET),
    }),
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::tests::defaulted;

    // Expected values recorded from kube-apiserver 1.36.
    #[test]
    fn a_policy_fails_closed_and_looks_at_every_scope() {
        let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]});
        let policy = json!({"spec": {"matchConstraints": {"resourceRules": [rule]}}});
        let mut whole = rule;
        whole["scope"] = "*".into();
        assert_eq!(
            defaulted(defaults, policy),
            json!({"spec": {"failurePolicy": "Fail", "matchConstraints": {"matchPolicy": "Equivalent", "namespaceSelector": {},
                "objectSelector": {}, "resourceRules": [whole]}}})
        );
    }
}
