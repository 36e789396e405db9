//! A served resource: its discovery data, its strategy, and what the server knows about its fields.

use std::borrow::Cow;
use std::sync::Arc;

use crate::json::Value;
use crate::json::fields::{is_empty_value, value_at_pointer};
use crate::managedfields::ResetFields;
use crate::metadata;
use crate::printers::custom::CustomColumns;
use crate::printers::{Printer, TableHandler};
use crate::registry::custom::{self, CustomResource, OtherVersion};
use crate::registry::strategy::Strategy;
use crate::status::GroupResource;

/// A string that is static for built-in resources and owned for custom ones.
pub(crate) type StaticStr = Cow<'static, str>;

/// The verbs of an ordinary stored resource, in discovery's order.
pub(super) const STANDARD_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The verbs of a resource that is not stored and supports only create (reviews, bindings).
pub(super) const CREATE_ONLY_VERBS: &[&str] = &["create"];

/// A served resource: a kind in a version of a group.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    /// API group, empty for core.
    pub group: StaticStr,
    /// Version in the group.
    pub version: StaticStr,
    /// Kind, such as `Pod`.
    pub kind: StaticStr,
    /// List kind, such as `PodList`.
    pub list_kind: StaticStr,
    /// Plural resource name, such as `pods`.
    pub plural: StaticStr,
    /// Singular resource name, such as `pod`.
    pub singular: StaticStr,
    /// Short names, such as `po`.
    pub short_names: Vec<StaticStr>,
    /// Categories, such as `all`.
    pub categories: Vec<StaticStr>,
    /// Objects are namespaced.
    pub namespaced: bool,
    /// Verbs in discovery's order.
    pub verbs: Vec<StaticStr>,
    /// Subresources in discovery's order (by name).
    pub subresources: Vec<Subresource>,
    /// OpenAPI name of the type, such as `io.k8s.api.core.v1.Pod`; empty for custom resources.
    pub schema: StaticStr,
    /// Storage location, shared by all versions and by both Event resources.
    pub storage: StorageId,
    /// Conversion between the storage version and this one; most resources need none.
    pub conversion: Option<&'static Conversion>,
    /// `storageVersionHash` in discovery; empty if nothing is stored.
    pub storage_version_hash: StaticStr,
    /// The warning that is sent with every reply about a deprecated version.
    pub deprecation: Option<StaticStr>,
    /// Fields that an endpoint does not change.
    pub reset_fields: ResetFields,
    /// The status endpoint leaves labels, annotations, finalizers and owners as they are.
    pub status_keeps_metadata: bool,
    /// The table that kubectl shows; custom resources declare their own columns.
    pub table: TableHandler,
    /// Fields for field selectors in addition to `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<SelectableField>,
    /// The resource's strategy.
    pub strategy: Arc<dyn Strategy>,
    /// Data from the `CustomResourceDefinition`; `None` for built-in resources.
    pub custom: Option<Arc<CustomResource>>,
}

impl Resource {
    /// Returns `apps/v1`, or `v1` for the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the subresource `name`.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Returns true if the resource (not a subresource) supports `verb`.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Returns true if objects are stored, which reviews and bindings are not.
    pub(crate) fn is_stored(&self) -> bool {
        self.has_verb("get") && !self.storage_version_hash.is_empty()
    }

    /// Returns true if upstream has a route for each path and verb of the resource. Custom resources have none: one
    /// handler serves all their paths.
    pub(crate) fn is_routed(&self) -> bool {
        self.custom.is_none()
    }

    /// Returns true if upstream has no Go type for the kind and handles its objects as maps.
    pub(crate) fn is_unstructured(&self) -> bool {
        self.custom.is_some()
    }

    /// Returns the content types of patches that the resource supports.
    pub(crate) fn patch_types(&self) -> &'static [&'static str] {
        const TYPES: [&str; 4] = [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
            "application/strategic-merge-patch+json",
        ];
        if self.is_unstructured() { &TYPES[..3] } else { &TYPES }
    }

    /// Returns the printer of the kind; for a custom resource, with the columns of its definition.
    pub(crate) fn printer(&self) -> Printer {
        match &self.custom {
            Some(custom) => Printer::Custom(CustomColumns::parse(custom.columns.as_ref())),
            None => Printer::BuiltIn(match self.conversion {
                Some(conversion) => self.table.stored_as(conversion.to_storage),
                None => self.table,
            }),
        }
    }

    /// Returns an object of a built-in kind in the storage version, from which upstream takes the metadata that it
    /// shows alone. That of custom resources is the same in all versions.
    pub(crate) fn internal<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        match self.conversion {
            Some(conversion) => Cow::Owned((conversion.to_storage)(object.clone())),
            None => Cow::Borrowed(object),
        }
    }

    /// Returns group and resource in the form of messages.
    pub(crate) fn group_resource(&self) -> GroupResource<'_> {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Converts `object` from this version to the storage version.
    pub(crate) fn to_storage(&self, object: Value) -> Value {
        match (&self.custom, self.conversion) {
            (Some(own), _) => own.to_storage(object),
            (None, Some(conversion)) => (conversion.to_storage)(object),
            (None, None) => object,
        }
    }

    /// Returns true if an object that was stored at this resourceVersion is shown as it is stored: there are no other
    /// versions, and it was written after the last change of its definition.
    pub(crate) fn shows_as_stored(&self, revision: u64) -> bool {
        self.conversion.is_none() && self.custom.as_ref().is_none_or(|own| revision >= own.revision)
    }

    /// Converts `object` from the storage version to this one.
    #[expect(clippy::wrong_self_convention, reason = "the counterpart of `to_storage`")]
    pub(crate) fn from_storage(&self, object: Value) -> Value {
        let Some(own) = &self.custom else {
            return match self.conversion {
                Some(conversion) => (conversion.from_storage)(object),
                None => object,
            };
        };
        let revision = metadata::resource_version(&object).parse().unwrap_or(0);
        // A webhook converts later, where requests can wait for it.
        if self.shows_as_stored(revision) || own.conversion.is_some() {
            return object;
        }
        let object = self.read_as_stored(object);
        if object["apiVersion"] == *self.api_version() { object } else { self.read_as_own(object) }
    }

    /// Returns an object of this resource in another version of it, with all its fields. A conversion webhook is not
    /// asked.
    pub(crate) fn converted_to(&self, other: &Resource, mut object: Value) -> Value {
        if other.custom.is_none() {
            return other.from_storage(self.to_storage(object));
        }
        object["apiVersion"] = other.api_version().into();
        object
    }

    /// Returns another version of a custom resource, which is not served, without its subresources.
    pub(super) fn in_version(&self, other: &OtherVersion, version: &str) -> Self {
        let custom = self.custom.as_ref().map(|own| {
            let others = Vec::new();
            Arc::new(CustomResource { types: other.types.clone(), others, ..CustomResource::clone(own) })
        });
        Self {
            version: version.to_owned().into(),
            subresources: Vec::new(),
            strategy: other.strategy.clone(),
            custom,
            ..self.clone()
        }
    }

    /// Returns a stored object of a custom resource as the version in which it is stored has it. Like upstream, reads
    /// it by the present schema: unknown fields are dropped, defaults are added.
    pub(crate) fn read_as_stored(&self, object: Value) -> Value {
        let Some(own) = &self.custom else { return object };
        let stored = object["apiVersion"].as_str().unwrap_or_default();
        let (types, strategy) = if stored == self.api_version() {
            (&own.types, &self.strategy)
        } else if let Some(other) = own.other(stored) {
            (&other.types, &other.strategy)
        } else {
            // The definition does not have the version any more.
            return object;
        };
        let mut object = custom::pruned(types, object);
        strategy.default(&mut object);
        object
    }

    /// Returns an object of a custom resource as this version shows it, without the defaults of this version.
    pub(crate) fn read_as_own(&self, object: Value) -> Value {
        let Some(own) = &self.custom else { return object };
        let mut object = if own.others.is_empty() { object } else { custom::pruned(&own.types, object) };
        object["apiVersion"] = self.api_version().into();
        object
    }
}

/// A subresource as discovery lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    /// Name: `status`, `scale`, `eviction` …
    pub name: StaticStr,
    /// Group of the body's kind if it differs from the resource's (`policy` for evictions).
    pub group: StaticStr,
    /// Version of the body's kind if it differs from the resource's.
    pub version: StaticStr,
    /// Kind of the body.
    pub kind: StaticStr,
    /// Verbs in discovery's order.
    pub verbs: Vec<StaticStr>,
}

impl Subresource {
    /// Returns true if the subresource supports `verb`.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

/// The storage location of a resource's objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StorageId {
    /// Group.
    pub group: StaticStr,
    /// Plural resource name.
    pub resource: StaticStr,
}

/// A pair of functions that convert between a version and the storage version.
#[derive(Debug)]
pub(crate) struct Conversion {
    /// Converts to the storage version.
    pub to_storage: fn(Value) -> Value,
    /// Converts from the storage version.
    pub from_storage: fn(Value) -> Value,
}

/// A field that field selectors can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectableField {
    /// Label in a selector: `spec.nodeName`.
    pub label: StaticStr,
    /// JSON pointer to the value in the storage version: `/spec/nodeName`.
    pub pointer: StaticStr,
    /// JSON pointer to the value used instead of an empty one; usually none.
    pub fallback: StaticStr,
    /// The value of a missing field.
    pub absent: &'static str,
}

impl SelectableField {
    /// Returns the value of the field in `object` (in the storage version) for comparison with selectors.
    pub(crate) fn value_in<'a>(&self, object: &'a Value) -> Cow<'a, str> {
        let at = |pointer: &str| value_at_pointer(object, pointer).filter(|v| !is_empty_value(Some(v)));
        let value = at(&self.pointer).or_else(|| if self.fallback.is_empty() { None } else { at(&self.fallback) });
        match value {
            None => Cow::Borrowed(self.absent),
            Some(Value::String(text)) => Cow::Borrowed(text),
            Some(Value::Array(_) | Value::Object(_)) => Cow::Borrowed(""),
            Some(other) => Cow::Owned(other.to_string()),
        }
    }
}
