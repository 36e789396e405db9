//! `admissionregistration.k8s.io/v1` `ValidatingAdmissionPolicy`.
//! See `pkg/registry/admissionregistration/validatingadmissionpolicy/strategy.go`.

use crate::expressions::admission::{AdmissionVariables, ReturnType};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, spec_of, str_field};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::admissionregistration::matching::expression;
use crate::registry::admissionregistration::policies::{self, PARAM_KIND};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::internal_json;
use crate::registry::generic::Generic;
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::{checks, conditions, names};

const SPEC: Path<'static> = Path::new("spec");

/// The resource `validatingadmissionpolicies` of `admissionregistration.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
    )
    .cluster()
    .categories(&["api-extensions"])
    .status_without_metadata()
    .hash("6OxvlMmQ6is=")
    .rules(
        KindStrategy::new(STRATEGY, policies::defaults)
            .check_with(validate)
            .check_status_with(|new, _| validate_status(&new["status"]))
            .warn_with(policies::name_warnings),
    )
    .columns(COLUMNS)
}

/// The rules of policies with a status.
const STRATEGY: Generic = Generic { status: true, ..policies::STRATEGY };

/// Most annotations of audit events: `maxAuditAnnotations`.
const MOST_ANNOTATIONS: usize = 20;

/// Longest expression of an annotation's value in bytes: `maxAuditAnnotationValueExpressionLength`.
const LONGEST_VALUE: usize = 5 * 1024;

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// Validates a `ValidatingAdmissionPolicy`.
pub(super) fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let known = policies::validate(spec, true, &mut errors);
    let validations = array_field(spec, "validations");
    let annotations = array_field(spec, "auditAnnotations");
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
    if annotations.len() > MOST_ANNOTATIONS {
        let shown = internal_json::compact_list("AuditAnnotation", annotations);
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.invalid(&root, BadValue::Raw(shown), why);
    }
    let repeated = checks::repeated(annotations, |one| str_field(one, "key"));
    for (index, one) in annotations.iter().enumerate() {
        let path = root.index(index);
        let key = str_field(one, "key");
        match metadata::name(object) {
            "" => errors.invalid(&path.child("key"), key, "requires metadata.name be non-empty"),
            name => checks::format(&format!("{name}/{key}"), names::qualified_name, &path.child("key"), &mut errors),
        }
        if str_field(one, "valueExpression").trim().len() > LONGEST_VALUE {
            let why = format!("must not exceed {LONGEST_VALUE} bytes in length");
            errors.required(&path.child("valueExpression"), why);
        } else {
            expression(one, "valueExpression", &known, ReturnType::TextOrNull, &path, &mut errors);
        }
        if repeated[index] {
            errors.duplicate(&path.child("key"), key);
        }
    }
    errors
}

/// Validates a status: `validateValidatingAdmissionPolicyStatus` in
/// `pkg/apis/admissionregistration/validation/validation.go`, except for the syntax of paths.
fn validate_status(status: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let checking = path.child("typeChecking");
    let root = checking.child("expressionWarnings");
    for (index, warning) in array_field(&status["typeChecking"], "expressionWarnings").iter().enumerate() {
        for field in ["warning", "fieldRef"].into_iter().filter(|field| str_field(warning, field).trim().is_empty()) {
            errors.required(&root.index(index).child(field), "");
        }
    }
    conditions::validate(array_field(status, "conditions"), &path.child("conditions"), &mut errors);
    errors
}

fn validation(validation: &Value, known: &AdmissionVariables, path: &Path<'_>, errors: &mut ErrorList) {
    expression(validation, "expression", known, ReturnType::Bool, path, errors);
    let text = |field: &str| str_field(validation, field);
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

/// The columns of `validatingadmissionpolicies`.
pub(in crate::registry) const COLUMNS: &[Column] = &[
    NAME,
    Column::integer(
        "Validations",
        Description::Text("Validations indicates the number of validation rules defined in this configuration"),
        CellSource::Count("/spec/validations"),
    ),
    PARAM_KIND,
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn described(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
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
        assert_eq!(described(&validate(&policy("variables.a + 1"))), Vec::<String>::new());
        let errors = described(&validate(&policy("variables.c")));
        assert!(errors[0].contains("undefined field 'c'"), "{errors:?}");
    }
}
