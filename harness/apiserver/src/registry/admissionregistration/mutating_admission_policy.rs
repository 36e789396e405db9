//! `admissionregistration.k8s.io/v1` `MutatingAdmissionPolicy`.
//! See `pkg/registry/admissionregistration/mutatingadmissionpolicy/strategy.go`.

use crate::expressions::admission::{AdmissionVariables, ReturnType};
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, non_null, spec_of, str_field};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::admissionregistration::matching::{REINVOCATIONS, expression};
use crate::registry::admissionregistration::policies::{self, PARAM_KIND};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks;
use crate::registry::kind_strategy::KindStrategy;

const SPEC: Path<'static> = Path::new("spec");

/// The resource `mutatingadmissionpolicies` of `admissionregistration.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy",
    )
    .cluster()
    .categories(&["api-extensions"])
    .hash("LYmCf+UMVdg=")
    .rules(
        KindStrategy::new(policies::STRATEGY, policies::defaults)
            .check_with(validate)
            .warn_with(policies::name_warnings),
    )
    .columns(COLUMNS)
}

/// Validates a `MutatingAdmissionPolicy`.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    let known = policies::validate(spec, false, &mut errors);
    let known = AdmissionVariables { patches: true, ..known };
    let mutations = array_field(spec, "mutations");
    let root = SPEC.child("mutations");
    if mutations.is_empty() {
        errors.required(&root, "mutations must contain at least one item");
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let path = root.index(index);
        let (own, other, returns) = match str_field(mutation, "patchType") {
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
        let kind = str_field(mutation, "patchType");
        match non_null(mutation, own) {
            None => errors.required(&path.child(own), format!("must be specified when patchType is {kind}")),
            Some(patch) => {
                let path = path.child(own);
                expression(patch, "expression", &known, returns, &path, &mut errors);
            }
        }
        if non_null(mutation, other).is_some() {
            let why = format!("must not be specified when patchType is {kind}");
            errors.invalid(&path.child(other), format!("{{{other}}}"), why);
        }
    }
    checks::required_one_of(spec, "reinvocationPolicy", &REINVOCATIONS, &SPEC, &mut errors);
    errors
}

/// The columns of `mutatingadmissionpolicies`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::integer(
        "Mutations",
        Description::Text("Mutation indicates the number of mutations rules defined in this configuration"),
        CellSource::Count("/spec/mutations"),
    ),
    PARAM_KIND,
    AGE,
];
