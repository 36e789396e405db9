//! Custom resources: definitions are validated and established, and their kinds are served, defaulted and validated.
//! Follows `staging/src/k8s.io/apiextensions-apiserver` of Kubernetes 1.36.
//!
//! - [`CustomResource`] (in `registry/custom.rs`): the extra data of a [`Resource`] that a definition declares
//! - `definition_strategy`, `selectable_fields`: strategy and validation of `CustomResourceDefinition` objects
//! - `structural_schema`, `root_schema`, `schema_defaults`: validation of the schemas in definitions
//! - `legacy`: definitions in `v1beta1`
//! - `names`: accepted names, and the conditions of a definition
//! - `strategy`, `defaults`, `validate`: strategy, defaulting and validation of custom resources
//! - `formats`: the formats of their strings; `embedded`: the objects that are embedded in them
//! - `conversion`: webhooks that convert between versions
//! - `cel`: the expressions in `x-kubernetes-validations`
//! - `index`: registration of the kinds; `controller`: the status and clean-up of definitions

mod ca_bundle;
mod cel;
mod controller;
pub(crate) mod conversion;
mod defaults;
mod definition_strategy;
mod embedded;
mod formats;
mod index;
mod legacy;
mod names;
mod root_schema;
mod schema_defaults;
mod selectable_fields;
mod strategy;
mod structural_schema;
mod validate;
#[cfg(test)]
mod version_tests;

use std::sync::Arc;

use base64::Engine as _;
use ring::digest::{SHA256, digest};

pub(crate) use super::registry::custom::{
    CLEANUP_FINALIZER, CustomResource, CustomResourceScale, GROUP, OtherVersion, RESOURCE, WebhookConversion,
};
use super::registry::legacy::VIEWS;
use super::registry::{
    Conversion, ObjectLister, Registry, Resource, SelectableField, StaticStr, StorageId, Subresource,
};
use super::schema::Schema;
use crate::json::{Value, json};
use crate::managedfields::ResetFields;
use crate::metadata;
use crate::printers::TableHandler;
use crate::request::ResourcePath;
use strategy::CustomResourceStrategy;

pub(crate) use controller::{USER_AGENT, is_terminating, reconcile};
pub(crate) use definition_strategy::DefinitionStrategy;
pub(crate) use embedded::embedded_error;

/// The verbs of custom resources, in discovery's order.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Marks kinds whose objects may be stored in another version; [`Resource::to_storage`] and [`Resource::from_storage`]
/// convert them by the definition.
static SHARED: Conversion = Conversion { to_storage: |object| object, from_storage: |object| object };

impl Registry {
    /// Returns all built-in resources that kube-apiserver 1.36 serves by default, in every version.
    pub(crate) fn builtin() -> Self {
        Self::with_definitions(DefinitionStrategy)
    }

    /// Returns this registry with the versions that Kubernetes removed.
    pub(crate) fn with_legacy_apis(self) -> Self {
        self.with_views(VIEWS.iter().chain([&legacy::VIEW]))
    }
}

/// Returns the kinds of a definition, the preferred version first; empty if the definition is not established.
fn kinds(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    if !names::is_established(definition) {
        return Vec::new();
    }
    let mut served: Vec<&Value> = versions.iter().filter(|version| version["served"] == json!(true)).collect();
    served.sort_by_key(|version| names::version_rank(text(version, "name")));
    let several = served.len() > 1;
    let others = if versions.len() > 1 { other_versions(definition, versions) } else { Vec::new() };
    served.into_iter().map(|version| kind(definition, version, &others, several)).collect()
}

/// Returns all versions of a definition, for the objects that are stored in them.
fn other_versions(definition: &Value, versions: &[Value]) -> Vec<OtherVersion> {
    let versions = versions.iter().map(|version| {
        let own = Arc::new(custom_kind(definition, version));
        let name = text(version, "name");
        OtherVersion {
            api_version: format!("{}/{name}", text(&definition["spec"], "group")),
            types: own.types.clone(),
            strategy: strategy(definition, &own, name),
        }
    });
    versions.collect()
}

fn strategy(definition: &Value, own: &Arc<CustomResource>, version: &str) -> Arc<CustomResourceStrategy> {
    let spec = &definition["spec"];
    let kind = text(&definition["status"]["acceptedNames"], "kind");
    let namespaced = text(spec, "scope") == "Namespaced";
    Arc::new(CustomResourceStrategy::new(own.clone(), text(spec, "group"), version, kind, namespaced))
}

/// Returns true if the resource of a path has a definition whose conversion webhook cannot be called because of its
/// bundle. kube-apiserver answers all requests for it with an internal error.
pub(crate) fn is_unresolvable(lister: &dyn ObjectLister, path: &ResourcePath) -> bool {
    let name = format!("{}.{}", path.resource, path.group);
    let Some(definition) = lister.get(GROUP, RESOURCE, "", &name) else { return false };
    let spec = &definition["spec"];
    let mut versions = spec["versions"].as_array().into_iter().flatten();
    let served = versions.any(|version| version["name"] == *path.version && version["served"] == true);
    let namespaced = text(spec, "scope") == "Namespaced";
    // Only lists and watches may span namespaces.
    let in_scope = if path.namespace.is_empty() { !namespaced || path.name.is_empty() } else { namespaced };
    served && in_scope && names::are_accepted(&definition) && ca_bundle::error_in(&definition).is_some()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<StaticStr> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| StaticStr::Owned(name.to_owned()))
        .collect()
}

fn kind(definition: &Value, version: &Value, versions: &[OtherVersion], several: bool) -> Resource {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let group = text(spec, "group").to_owned();
    let version_name = text(version, "name").to_owned();
    let api_version = format!("{group}/{version_name}");
    let mut own = custom_kind(definition, version);
    own.others = versions.iter().filter(|other| other.api_version != api_version).cloned().collect();
    let own = Arc::new(own);
    let elsewhere = several || own.conversion.is_some() || own.storage != api_version;
    let mut subresources = Vec::new();
    let mut add = |name: &'static str, group: &'static str, version: &'static str, kind: &str| {
        subresources.push(Subresource {
            name: name.into(),
            group: group.into(),
            version: version.into(),
            kind: kind.to_owned().into(),
            verbs: ["get", "patch", "update"].map(StaticStr::Borrowed).to_vec(),
        });
    };
    let mut reset_fields = ResetFields::default();
    if own.status {
        add("status", "", "", text(names, "kind"));
        reset_fields.set("", &[&["status"]]);
        reset_fields.set("scale", &[&["status"]]);
        reset_fields.set("status", &[&["metadata"], &["spec"]]);
    }
    if own.scale.is_some() {
        add("scale", "autoscaling", "v1", "Scale");
    }
    Resource {
        kind: text(names, "kind").to_owned().into(),
        list_kind: text(names, "listKind").to_owned().into(),
        plural: text(names, "plural").to_owned().into(),
        singular: text(names, "singular").to_owned().into(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: text(spec, "scope") == "Namespaced",
        verbs: VERBS.iter().map(|verb| StaticStr::Borrowed(*verb)).collect(),
        subresources,
        schema: "".into(),
        storage: StorageId { group: group.clone().into(), resource: text(names, "plural").to_owned().into() },
        conversion: elsewhere.then_some(&SHARED),
        storage_version_hash: storage_version_hash(spec).into(),
        deprecation: (version["deprecated"] == json!(true)).then(|| deprecation(spec, version).into()),
        reset_fields,
        status_keeps_metadata: false,
        table: TableHandler::DEFAULT,
        selectable: selectable(version),
        strategy: strategy(definition, &own, &version_name),
        custom: Some(own),
        group: group.into(),
        version: version_name.into(),
    }
}

fn custom_kind(definition: &Value, version: &Value) -> CustomResource {
    let name = metadata::name(definition).to_owned();
    let mut schema = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({}));
    let types = if definition_strategy::is_preserving(&definition["spec"]) {
        // Unknown fields are kept at every level, and clients must not take them for mistakes.
        schema[PRESERVE] = json!(true);
        Schema::from_structural(None, true)
    } else {
        Schema::from_structural(Some(&schema), schema[PRESERVE] == json!(true))
    };
    let types = types.or_else(|error| {
        tracing::warn!(definition = name, %error, "serving a custom resource without its schema");
        Schema::from_structural(None, true)
    });
    let types = Arc::new(types.expect("a schema of nothing is not nested"));
    let subresources = &version["subresources"];
    let scale = subresources.get("scale").filter(|scale| scale.is_object()).map(|scale| CustomResourceScale {
        spec_replicas: text(scale, "specReplicasPath").to_owned(),
        status_replicas: text(scale, "statusReplicasPath").to_owned(),
        label_selector: scale.get("labelSelectorPath").and_then(Value::as_str).map(str::to_owned),
    });
    let columns = version.get("additionalPrinterColumns").cloned();
    let status = subresources.get("status").is_some_and(Value::is_object);
    let ending = metadata::is_deleted(definition);
    CustomResource {
        definition: name,
        schema,
        types,
        columns,
        scale,
        status,
        ending,
        conversion: webhook_conversion(&definition["spec"]),
        revision: metadata::resource_version(definition).parse().unwrap_or(0),
        storage: storage_version(&definition["spec"])
            .map(|storage| format!("{}/{}", text(&definition["spec"], "group"), text(storage, "name")))
            .unwrap_or_default(),
        others: Vec::new(),
    }
}

/// Returns the version of a definition in which objects are stored.
fn storage_version(spec: &Value) -> Option<&Value> {
    spec["versions"].as_array()?.iter().find(|version| version["storage"] == json!(true))
}

/// Returns the webhook that converts the objects of a definition.
fn webhook_conversion(spec: &Value) -> Option<WebhookConversion> {
    let conversion = &spec["conversion"];
    (text(conversion, "strategy") == "Webhook").then(|| WebhookConversion {
        client_config: conversion["webhook"]["clientConfig"].clone(),
        review_versions: texts(&conversion["webhook"]["conversionReviewVersions"])
            .into_iter()
            .map(StaticStr::into_owned)
            .collect(),
    })
}

/// Returns the warning of a deprecated version: its own, or one that names the preferred served version that is not
/// deprecated.
fn deprecation(spec: &Value, version: &Value) -> String {
    if let Some(own) = version.get("deprecationWarning").and_then(Value::as_str) {
        return own.to_owned();
    }
    let group = text(spec, "group");
    let kind = text(&spec["names"], "kind");
    let name = text(version, "name");
    let better = spec["versions"].as_array().into_iter().flatten().filter(|other| {
        other["served"] == json!(true)
            && other["deprecated"] != json!(true)
            && names::version_rank(text(other, "name")) < names::version_rank(name)
    });
    match better.map(|other| text(other, "name")).min_by_key(|other| names::version_rank(other)) {
        Some(best) => format!("{group}/{name} {kind} is deprecated; use {group}/{best} {kind}"),
        None => format!("{group}/{name} {kind} is deprecated"),
    }
}

fn selectable(version: &Value) -> Vec<SelectableField> {
    let declared = version["selectableFields"].as_array().into_iter().flatten();
    let paths = declared.filter_map(|field| field["jsonPath"].as_str()).map(|path| path.trim_start_matches('.'));
    paths
        .map(|path| SelectableField {
            label: path.to_owned().into(),
            pointer: format!("/{}", path.replace('.', "/")).into(),
            fallback: "".into(),
            absent: "",
        })
        .collect()
}

/// Returns `storageVersionHash` as discovery shows it: a hash of group, storage version and kind.
fn storage_version_hash(spec: &Value) -> String {
    let versions = spec["versions"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let stored =
        versions.iter().find(|version| version["storage"] == json!(true)).map_or("", |version| text(version, "name"));
    let name = format!("{}/{stored}/{}", text(spec, "group"), text(&spec["names"], "kind"));
    base64::engine::general_purpose::STANDARD.encode(&digest(&SHA256, name.as_bytes()).as_ref()[..8])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A definition of namespaced widgets that uses every feature.
    pub(crate) fn widgets() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.h6.example.com", "uid": "u1"},
            "spec": {
                "group": "h6.example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
                    "shortNames": ["wd"], "categories": ["all"]},
                "conversion": {"strategy": "None"},
                "versions": [
                    {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}},
                    {"name": "v1", "served": true, "storage": true,
                        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                            "spec": {"type": "object", "properties": {
                                "size": {"type": "integer", "minimum": 1, "default": 3}, "replicas": {"type": "integer"}}},
                            "status": {"type": "object", "properties": {
                                "replicas": {"type": "integer"}, "selector": {"type": "string"}}}}}}},
                ],
            },
        })
    }

    #[test]
    fn the_hash_is_that_of_the_stored_version() {
        assert_eq!(storage_version_hash(&widgets()["spec"]), "/lURAAgY/5k=");
    }

    #[test]
    fn an_established_definition_becomes_kinds() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let definition = controller::with_status(widgets(), &[], now);
        let kinds = kinds(&definition);
        assert_eq!(kinds.iter().map(|kind| kind.version.as_ref()).collect::<Vec<_>>(), ["v1", "v1beta1"]);
        assert_eq!(kinds[0].subresources.iter().map(|sub| sub.name.as_ref()).collect::<Vec<_>>(), ["status", "scale"]);
        assert!(kinds[1].subresources.is_empty());
        assert!(super::kinds(&widgets()).is_empty());
    }
}
