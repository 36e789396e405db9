//! Definitions in `apiextensions.k8s.io/v1beta1`, as Kubernetes 1.21 served them: conversion, strategy, validation.
//! Follows `pkg/apis/apiextensions/{v1/conversion.go,v1beta1/defaults.go,validation/validation.go}` in
//! `staging/src/k8s.io/apiextensions-apiserver`. PURE.
//!
//! In `v1beta1`, fields in which all versions of a definition agree are at the top of its spec.

use std::sync::Arc;

use super::definition_strategy::{self, DefinitionStrategy, RequestVersion};
use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, is_empty_value, non_null, semantic_equal, spec_of, str_field, text_default};
use crate::json::{Map, Value, json};
use crate::registry::custom::{GROUP, RESOURCE};
use crate::registry::legacy::View;
use crate::registry::{Conversion, Strategy, StrategyContext};

/// The view of definitions.
pub(super) const VIEW: View = View {
    group: GROUP,
    version: "v1beta1",
    of: "v1",
    plurals: &[RESOURCE],
    releases: ("1.16", "1.22"),
    names_replacement: true,
    replacement: None,
    conversion: &Conversion { to_storage: to_v1, from_storage: from_v1 },
    strategy: Some(|_| Arc::new(BetaDefinitionStrategy)),
};

/// Fields of a version that are at the top of the spec if all versions agree, with their names there.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

fn versions_mut(spec: &mut Map) -> impl Iterator<Item = &mut Map> {
    spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Renames a field of the columns of a version, or of those at the top of a spec.
fn rename_paths(fields: &mut Map, from: &str, to: &'static str) {
    let columns = fields.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(path) = column.remove(from) {
            column.insert(to, path);
        }
    }
}

fn to_v1(mut object: Value) -> Value {
    object["apiVersion"] = "apiextensions.k8s.io/v1".into();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    let version = spec.remove("version");
    if is_empty_value(spec.get("versions")) && !is_empty_value(version.as_ref()) {
        spec.insert("versions", json!([{"name": version, "served": true, "storage": true}]));
    }
    for (field, name) in SHARED {
        if let Some(value) = spec.remove(name).filter(|value| !value.is_null()) {
            versions_mut(spec).for_each(|version| {
                version.insert(field, value.clone());
            });
        }
    }
    versions_mut(spec).for_each(|version| rename_paths(version, "JSONPath", "jsonPath"));
    if let Some(Value::Object(conversion)) = spec.get_mut("conversion") {
        let mut webhook = Map::new();
        for (name, field) in [("webhookClientConfig", "clientConfig"), (REVIEWS, REVIEWS)] {
            if let Some(value) = conversion.remove(name).filter(|value| !value.is_null()) {
                webhook.insert(field, value);
            }
        }
        if !webhook.is_empty() {
            conversion.insert("webhook", Value::Object(webhook));
        }
    }
    if spec.get("preserveUnknownFields") != Some(&json!(true)) {
        spec.remove("preserveUnknownFields");
    }
    object
}

const REVIEWS: &str = "conversionReviewVersions";

fn from_v1(mut object: Value) -> Value {
    object["apiVersion"] = "apiextensions.k8s.io/v1beta1".into();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    versions_mut(spec).for_each(|version| rename_paths(version, "jsonPath", "JSONPath"));
    let first = versions_mut(spec).next().cloned().unwrap_or_default();
    if let Some(name) = first.get("name") {
        spec.insert("version", name.clone());
    }
    for (field, name) in SHARED {
        if versions_mut(spec).all(|version| semantic_equal(version.get(field), first.get(field))) {
            versions_mut(spec).for_each(|version| {
                version.remove(field);
            });
            if let Some(value) = first.get(field) {
                spec.insert(name, value.clone());
            }
        }
    }
    if let Some(Value::Object(conversion)) = spec.get_mut("conversion")
        && let Some(Value::Object(mut webhook)) = conversion.remove("webhook")
    {
        for (field, name) in [("clientConfig", "webhookClientConfig"), (REVIEWS, REVIEWS)] {
            if let Some(value) = webhook.remove(field) {
                conversion.insert(name, value);
            }
        }
    }
    spec.entry("preserveUnknownFields").or_insert(json!(false));
    object
}

/// The strategy of definitions in `v1beta1`.
#[derive(Debug, Clone, Copy)]
struct BetaDefinitionStrategy;

impl Strategy for BetaDefinitionStrategy {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            default_spec(spec);
        }
        DefinitionStrategy.default(object);
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        DefinitionStrategy.prepare_for_create(object, ctx);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = definition_strategy::validate_new(&to_v1(object.clone()), RequestVersion::V1Beta1);
        validate_shared(spec_of(object), &mut errors);
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        DefinitionStrategy.warnings_on_create(&to_v1(object.clone()))
    }

    fn warnings_on_update(&self, new: &Value, old: &Value) -> Vec<String> {
        DefinitionStrategy.warnings_on_update(&to_v1(new.clone()), &to_v1(old.clone()))
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        // The spec stays as it was sent, for the validation; only the comparison is that of `v1`.
        let mut prepared = to_v1(new.clone());
        DefinitionStrategy.prepare_for_update(&mut prepared, &to_v1(old.clone()), ctx);
        for field in ["metadata", "status"] {
            new[field] = prepared[field].take();
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let (v1, before) = (to_v1(new.clone()), to_v1(old.clone()));
        let mut errors = definition_strategy::validate_replacement(&v1, &before, RequestVersion::V1Beta1);
        validate_shared(spec_of(new), &mut errors);
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// Defaults that `v1` does not have: `SetDefaults_CustomResourceDefinitionSpec`.
fn default_spec(spec: &mut Map) {
    text_default(spec, "scope", "Namespaced");
    let version = spec.get("version").filter(|version| !is_empty_value(Some(version))).cloned();
    match version {
        Some(version) if is_empty_value(spec.get("versions")) => {
            spec.insert("versions", json!([{"name": version, "served": true, "storage": true}]));
        }
        Some(_) => {}
        None => {
            let first = versions_mut(spec).next().and_then(|first| first.get("name")).cloned();
            if let Some(name) = first {
                spec.insert("version", name);
            }
        }
    }
    if let Some(Value::Object(conversion)) = spec.get_mut("conversion") {
        if conversion.get("strategy").is_some_and(|strategy| strategy == "Webhook")
            && is_empty_value(conversion.get(REVIEWS))
        {
            conversion.insert(REVIEWS, json!(["v1beta1"]));
        }
        if let Some(Value::Object(service)) =
            conversion.get_mut("webhookClientConfig").and_then(|it| it.get_mut("service"))
        {
            service.entry("port").or_insert(json!(443));
        }
    }
    if spec.get("preserveUnknownFields").is_none_or(Value::is_null) {
        spec.insert("preserveUnknownFields", json!(true));
    }
}

/// Refuses what has two places: a field at the top and in versions, or the same in all versions.
fn validate_shared(spec: &Value, errors: &mut ErrorList) {
    let versions = array_field(spec, "versions");
    let path = Path::new("spec");
    let names = ["schemas", "subresources", "additionalPrinterColumns"];
    let given = |holder: &Value, field: &str| match field {
        "additionalPrinterColumns" => !array_field(holder, field).is_empty(),
        _ => non_null(holder, field).is_some(),
    };
    for ((field, top), name) in SHARED.into_iter().zip(names) {
        if given(spec, top) && versions.iter().any(|version| given(version, field)) {
            errors.forbidden(&path.child(top), format!("top-level and per-version {name} are mutually exclusive"));
        }
    }
    for ((field, top), name) in SHARED.into_iter().zip(names) {
        let is_same = |version: &Value| given(version, field) && version[field] == versions[0][field];
        if !versions.is_empty() && versions.iter().all(is_same) {
            let why = format!(
                "per-version {name} may not all be set to identical values (top-level {top} should be used instead)"
            );
            errors.invalid(&path.child("versions"), spec.get("versions"), why);
        }
    }
    let version = str_field(spec, "version");
    if versions.first().is_some_and(|first| !version.is_empty() && str_field(first, "name") != version) {
        errors.invalid(&path.child("version"), version, "must match the first version in spec.versions");
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::crd::tests::widgets;

    /// Makes all versions the same but for their names, and adds what has another place in `v1beta1`.
    fn uniform(conversion: Value) -> Value {
        let mut object = widgets();
        let last = object["spec"]["versions"][1].clone();
        for name in ["schema", "subresources", "additionalPrinterColumns"] {
            object["spec"]["versions"][0][name] = last[name].clone();
        }
        object["spec"]["conversion"] = conversion;
        object["spec"]["preserveUnknownFields"] = json!(true);
        object
    }

    #[rstest]
    #[case::differing_versions(widgets())]
    #[case::equal_versions(uniform(json!({"strategy": "None"})))]
    #[case::webhook(uniform(json!({"strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/"}}})))]
    fn conversions_lose_nothing(#[case] object: Value) {
        let beta = from_v1(object.clone());
        assert_eq!(
            (&beta["spec"]["version"], &beta["apiVersion"]),
            (&json!("v1beta1"), &json!("apiextensions.k8s.io/v1beta1"))
        );
        assert_eq!(beta["spec"].get("validation").is_some(), object["spec"].get("preserveUnknownFields").is_some());
        assert_eq!(to_v1(beta), object);
    }
}
