//! Bindings of admission policies of both kinds. See
//! `pkg/apis/admissionregistration/validation/validation.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{non_null, object_mut, spec_of, str_field};
use crate::json::{Key, Map, Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{UNSET, items, text};
use crate::registry::admissionregistration::matching::{self, match_resources};
use crate::registry::{checks, label_selector, names};

const SPEC: Path<'static> = Path::new("spec");

/// Defaults of `ValidatingAdmissionPolicyBinding` and `MutatingAdmissionPolicyBinding`.
pub(super) fn defaults(map: &mut Map) {
    if let Some(resources) = object_mut(map, "spec").and_then(|spec| object_mut(spec, "matchResources")) {
        matching::default_match_resources(resources);
    }
}

pub(super) fn validate(object: &Value, validating: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    checks::required_format(spec, "policyName", names::dns1123_subdomain, &SPEC, &mut errors);
    if let Some(reference) = non_null(spec, "paramRef") {
        param_ref(reference, &SPEC.child("paramRef"), &mut errors);
    }
    if let Some(resources) = non_null(spec, "matchResources") {
        let path = SPEC.child("matchResources");
        match_resources(resources, &path, &mut errors);
        if !validating {
            matching::mutated_operations(resources, &path, &mut errors);
        }
    }
    errors
}

fn param_ref(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let name = str_field(reference, "name");
    let selector = non_null(reference, "selector");
    if !name.is_empty() {
        for why in names::path_segment(name, false) {
            errors.invalid(&path.child("name"), name, why);
        }
        if selector.is_some() {
            errors.forbidden(&path.child("name"), EXCLUSIVE);
        }
    }
    label_selector::validate_field(reference, "selector", path, errors);
    match (name, selector) {
        ("", None) => errors.required(path, "one of name or selector must be specified"),
        ("", Some(_)) | (_, None) => {}
        (_, Some(_)) => errors.forbidden(&path.child("selector"), EXCLUSIVE),
    }
    checks::required_one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], path, errors);
}

/// The columns of `validatingadmissionpolicybindings` and `mutatingadmissionpolicybindings`.
pub(super) const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "PolicyName",
        Description::Text("PolicyName indicates the policy definition which the policy binding binded to"),
        CellSource::Text("/spec/policyName", ""),
    ),
    Column::string(
        "ParamRef",
        Description::Text("ParamRef indicates the param resource which sets the configuration param"),
        CellSource::Custom(|binding, _| json!(parameters(binding))),
    ),
    AGE,
];

/// Formats the parameter reference of a policy binding; `*` replaces an absent namespace, because the scope is unknown
/// here.
fn parameters(binding: &Value) -> String {
    let given = |pointer: &str| binding.pointer(pointer).is_some_and(Value::is_object);
    let name = text(binding, "/spec/paramRef/name");
    let namespace = text(binding, "/spec/paramRef/namespace");
    match (name, namespace) {
        ("", _) if given("/spec/paramRef/selector") => go_text(&binding["spec"]["paramRef"]["selector"]),
        ("", _) => UNSET.to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    }
}

/// Formats a label selector as Go prints it.
fn go_text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let label = |(key, value): (&Key, &Value)| format!("{key}: {},", value.as_str().unwrap_or_default());
    let labels = labels.map(label).collect::<Vec<_>>().concat();
    let requirement = |one: &Value| {
        let values = items(one, "/values").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
            text(one, "/key"),
            text(one, "/operator")
        )
    };
    let expressions = items(selector, "/matchExpressions").iter().map(requirement).collect::<Vec<_>>().concat();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
