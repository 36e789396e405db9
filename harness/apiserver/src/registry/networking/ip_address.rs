//! `networking.k8s.io/v1` `IPAddress`. See `pkg/registry/networking/ipaddress/strategy.go` and
//! `pkg/apis/networking/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{non_null, spec_of, str_field};
use crate::json::{Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{NONE, text};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks;
use crate::registry::generic::Generic;
use crate::registry::names::{self, NameFormat};
use crate::registry::prepare::values_equal;
use crate::registry::strategy::Strategy;

const SPEC: Path<'static> = Path::new("spec");

/// The resource `ipaddresses` of `networking.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("networking.k8s.io", "v1", "ipaddresses", "IPAddress", "io.k8s.api.networking.v1.IPAddress")
        .cluster()
        .short(&["ip"])
        .hash("3f/plJFChNE=")
        .rules(IpAddress)
        .columns(COLUMNS)
}

const RULES: Generic = Generic { namespaced: false, names: NameFormat::Address, ..Generic::NEW };

/// The strategy of `IPAddress`.
#[derive(Debug, Clone, Copy)]
struct IpAddress;

impl Strategy for IpAddress {
    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = RULES.validate(object);
        let path = SPEC.child("parentRef");
        let Some(parent) = non_null(spec_of(object), "parentRef") else {
            errors.required(&path, "");
            return errors;
        };
        let group = str_field(parent, "group");
        if !group.is_empty() {
            for message in names::dns1123_subdomain(group) {
                errors.invalid(&path.child("group"), group, message);
            }
        }
        for field in ["resource", "name", "namespace"] {
            let text = str_field(parent, field);
            if text.is_empty() && field != "namespace" {
                errors.required(&path.child(field), "");
            }
            for message in names::path_segment(text, text.is_empty()) {
                errors.invalid(&path.child(field), text, message);
            }
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(new);
        errors.append(RULES.validate_update(new, old));
        let (now, before) = (non_null(spec_of(new), "parentRef"), non_null(spec_of(old), "parentRef"));
        if !values_equal(new, &["spec", "parentRef"], now, before) {
            let shown = now.map_or_else(
                || "null".to_owned(),
                |now| {
                    let text = |field: &str| Value::from(str_field(now, field));
                    let (group, resource) = (text("group"), text("resource"));
                    let (namespace, name) = (text("namespace"), text("name"));
                    format!("{{\"Group\":{group},\"Resource\":{resource},\"Namespace\":{namespace},\"Name\":{name}}}")
                },
            );
            errors.invalid(&SPEC.child("parentRef"), BadValue::Raw(shown), checks::IMMUTABLE_MESSAGE);
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }
}

/// The columns of `ipaddresses`; upstream's rows end with an age for which no column is defined.
pub(in crate::registry) const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "ParentRef",
        Description::Field("api.networking.v1.IPAddressSpec", "parentRef"),
        CellSource::Custom(|address, _| {
            if !address.pointer("/spec/parentRef").is_some_and(Value::is_object) {
                return json!(NONE);
            }
            let parent = |field: &str| text(address, &format!("/spec/parentRef/{field}")).to_owned();
            let resource = match parent("group").as_str() {
                "" => parent("resource"),
                group => format!("{}.{group}", parent("resource")),
            };
            let parts = [resource.to_lowercase(), parent("namespace"), parent("name")];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            json!(parts.join("/"))
        }),
    ),
    AGE.undefined(),
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn causes(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(|error| format!("{}: {}", error.cause().field, error.cause().message)).collect()
    }

    #[rstest]
    #[case(json!({"parentRef": {"resource": "services", "name": "a", "namespace": "b"}}), &[])]
    #[case(json!({}), &["spec.parentRef: Required value"])]
    #[case(json!({"parentRef": {"group": "A", "name": "a/b"}}), &["spec.parentRef.group: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
        "spec.parentRef.resource: Required value", "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'"])]
    fn addresses_have_a_parent(#[case] spec: Value, #[case] expected: &[&str]) {
        let errors = IpAddress.validate(&json!({"metadata": {"name": "10.0.0.1"}, "spec": spec}));
        let found = causes(&errors);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{found:?}");
    }
}
