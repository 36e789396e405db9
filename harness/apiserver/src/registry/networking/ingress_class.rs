//! `networking.k8s.io/v1` `IngressClass`. See `pkg/registry/networking/ingressclass/strategy.go` and
//! `pkg/apis/networking/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{non_null, object_mut, spec_of, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{NONE, default_class, text};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::default_class::INGRESS_CLASS;
use crate::registry::generic::{Generation, Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::networking::reference::typed_reference;
use crate::registry::{checks, names};

const RULES: Generic =
    Generic { generation: Generation::Spec, namespaced: false, updates: MetadataRules::ChangesFirst, ..Generic::NEW };

const SPEC: Path<'static> = Path::new("spec");

/// The resource `ingressclasses` of `networking.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", "io.k8s.api.networking.v1.IngressClass")
        .cluster()
        .hash("l/iqIbDgFyQ=")
        .rules(KindStrategy::new(RULES, defaults).check_with(validate).check_update_with(|new, old| {
            // A text, which is empty if it is missing.
            let of = |class: &Value| Value::from(str_field(spec_of(class), "controller"));
            let mut errors = ErrorList::new();
            checks::validate_immutable(Some(&of(new)), Some(&of(old)), &SPEC.child("controller"), &mut errors);
            errors
        }))
        .columns(COLUMNS)
}

/// Defaults of `IngressClass`.
fn defaults(map: &mut Map) {
    if let Some(parameters) = object_mut(map, "spec").and_then(|spec| object_mut(spec, "parameters")) {
        value_default(parameters, "scope", "Cluster");
    }
}

/// Longest controller of an ingress class in bytes.
const LONGEST_CONTROLLER: usize = 250;

/// Validates an `IngressClass`, except for its metadata.
fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let controller = str_field(spec_of(object), "controller");
    let path = SPEC.child("controller");
    if controller.len() > LONGEST_CONTROLLER {
        errors.too_long(&path, LONGEST_CONTROLLER);
    }
    checks::domain_prefixed_path(controller, &path, &mut errors);
    if let Some(parameters) = non_null(spec_of(object), "parameters") {
        let path = SPEC.child("parameters");
        typed_reference(parameters, &path, &mut errors);
        parameters_scope(parameters, &path, &mut errors);
    }
    errors
}

fn parameters_scope(parameters: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let scope = non_null(parameters, "scope");
    let namespace = non_null(parameters, "namespace");
    let path_of_namespace = path.child("namespace");
    match scope.and_then(Value::as_str) {
        None => errors.required(&path.child("scope"), ""),
        Some("Namespace") => match namespace.and_then(Value::as_str) {
            None => errors.required(&path_of_namespace, "`parameters.scope` is set to 'Namespace'"),
            Some(name) => checks::format(name, names::dns1123_label, &path_of_namespace, errors),
        },
        Some("Cluster") if namespace.is_some() => {
            errors.forbidden(&path_of_namespace, "`parameters.scope` is set to 'Cluster'");
        }
        Some("Cluster") => {}
        Some(other) => errors.not_supported(&path.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

/// The columns of `ingressclasses`.
const COLUMNS: &[Column] = &[
    NAME.with_source(CellSource::Custom(|class, _| json!(default_class(class, INGRESS_CLASS)))),
    Column::string(
        "Controller",
        Description::Text("Controller that is responsible for handling this class"),
        CellSource::Text("/spec/controller", ""),
    ),
    Column::string(
        "Parameters",
        Description::Text("A reference to a resource with additional parameters"),
        CellSource::Custom(|class, _| {
            match class.pointer("/spec/parameters").filter(|parameters| parameters.is_object()) {
                None => json!(NONE),
                Some(reference) => {
                    let group = reference.get("apiGroup").and_then(Value::as_str);
                    let group = group.map(|group| format!(".{group}")).unwrap_or_default();
                    json!(format!("{}{group}/{}", text(reference, "/kind"), text(reference, "/name")))
                }
            }
        }),
    ),
    AGE,
];
