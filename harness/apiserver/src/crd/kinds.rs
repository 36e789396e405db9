//! The kinds of a definition as resources:
//! `pkg/apiserver/{customresource_handler,customresource_discovery_controller}.go` in
//! `staging/src/k8s.io/apiextensions-apiserver`.

use std::sync::Arc;

use base64::Engine as _;
use ring::digest::{SHA256, digest};

use super::definition_strategy;
use super::names;
use super::strategy::CustomResourceStrategy;
use super::text_fields::{text, texts};
use crate::json::{Value, json};
use crate::managedfields::ResetFields;
use crate::metadata;
use crate::printers::TableHandler;
use crate::registry::custom::{CustomResource, CustomResourceScale, OtherVersion, WebhookConversion};
use crate::registry::{Conversion, Resource, SelectableField, StaticStr, StorageId, Subresource};
use crate::schema::Schema;

/// The verbs of custom resources, in discovery's order.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Marks kinds whose objects may be stored in another version; [`Resource::to_storage`] and [`Resource::from_storage`]
/// convert them by the definition.
static SHARED: Conversion = Conversion { to_storage: |object| object, from_storage: |object| object };

/// Returns the kinds of a definition, the preferred version first; empty if the definition is not established.
pub(super) fn kinds(definition: &Value) -> Vec<Resource> {
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
mod tests {
    use super::*;
    use crate::crd::controller;
    use crate::crd::tests::widgets;

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
