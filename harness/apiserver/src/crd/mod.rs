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
//! - `kinds`: the kinds of a definition as resources; `text_fields`: strings in definitions
//! - `index`: registration of the kinds; `controller`: the status and clean-up of definitions

mod ca_bundle;
mod cel;
mod controller;
pub(crate) mod conversion;
mod defaults;
mod definition_strategy;
mod embedded;
mod field_path;
mod formats;
mod index;
mod kinds;
mod legacy;
mod names;
mod root_schema;
mod schema_defaults;
mod selectable_fields;
mod strategy;
mod structural_schema;
mod text_fields;
mod validate;
mod version_fields;
#[cfg(test)]
mod version_tests;

pub(crate) use super::registry::custom::{GROUP, RESOURCE, WebhookConversion};
use super::registry::legacy::VIEWS;
use super::registry::{ObjectLister, Registry};
use crate::request::ResourcePath;
use text_fields::text;

pub(crate) use controller::{USER_AGENT, is_terminating, reconcile};
pub(crate) use definition_strategy::DefinitionStrategy;
pub(crate) use embedded::embedded_error;

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

#[cfg(test)]
pub(super) mod tests {
    use crate::json::{Value, json};

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
}
