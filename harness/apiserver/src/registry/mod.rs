//! The served resources: discovery data, and the rules of each resource in one [`Strategy`].
//!
//! A request passes through the strategy in the order of
//! `staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update}.go`:
//!
//! | step | create | update | status update |
//! | --- | --- | --- | --- |
//! | 1 | [`Strategy::default`] | [`Strategy::default`] | [`Strategy::default`] |
//! | 2 | [`Strategy::admit_create`] | [`Strategy::admit_update`] | – |
//! | 3 | [`Strategy::prepare_for_create`] | [`Strategy::prepare_for_update`] | [`Strategy::prepare_for_status_update`]|
//! | 4 | [`validate_create`] | [`validate_update`] | [`validate_status_update`] |
//! | 5 | [`Strategy::begin_create`] | [`Strategy::begin_update`] | – |
//! | 6 | [`Strategy::warnings_on_create`] | [`Strategy::warnings_on_update`] | – |
//!
//! Strategies are pure: they get the object, the old object and a [`StrategyContext`], but neither the store nor the
//! clock.

mod access_rules;
mod addresses;
pub(crate) mod admission_defaults;
mod admission_group;
pub(crate) mod admission_rules;
mod autoscaler_rules;
mod autoscaling;
mod batch;
mod bounds;
mod builder;
pub(crate) mod builtin;
mod checks;
pub(crate) mod conditions;
pub(crate) mod config_map_and_secret;
pub(crate) mod csr;
pub(crate) mod custom;
pub(crate) mod endpoints;
pub(crate) mod event;
mod flow_rules;
mod flow_schema;
pub(crate) mod generic;
pub(crate) mod int_or_percent;
mod job_rules;
pub(crate) mod lease;
mod limit_ranger;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod namespace;
mod networking;
mod volume_claims;
mod volume_rules;

pub(crate) mod defaults;
mod device_rules;
mod device_slice_rules;
pub(crate) mod label_selector;
pub(crate) mod node;
pub(crate) mod pdb;
pub(crate) mod persistent_volume;
pub(crate) mod pod;
pub(crate) mod quota;
mod scheme;
pub(crate) mod service;
mod slice_rules;
mod storage_rules;
pub(crate) mod time;
pub(crate) mod workloads;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;

use crate::json::{Map, Value};
use crate::managedfields::ResetFields;
use crate::printers::custom::CustomColumns;
use crate::printers::{Printer, TableHandler};

pub(crate) use crate::field_errors::{ErrorList, NO_FIELD, Path};
pub(crate) use scheme::{GroupVersion, Registry};

use super::status::Status;
use super::user::UserInfo;

/// A string that is static for built-in resources and owned for custom ones.
pub(crate) type StaticStr = Cow<'static, str>;

/// The verbs of an ordinary stored resource, in discovery's order.
pub(crate) const STANDARD_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The verbs of a resource that is not stored and supports only create (reviews, bindings).
pub(crate) const CREATE_ONLY_VERBS: &[&str] = &["create"];

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
    pub custom: Option<Arc<custom::CustomResource>>,
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
            None => Printer::BuiltIn(self.table),
        }
    }

    /// Returns group and resource in the form of messages.
    pub(crate) fn group_resource(&self) -> super::status::GroupResource<'_> {
        super::status::GroupResource::new(&self.group, &self.plural)
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
        let revision = crate::metadata::resource_version(&object).parse().unwrap_or(0);
        // A webhook converts later, where requests can wait for it.
        if self.shows_as_stored(revision) || own.conversion.is_some() {
            return object;
        }
        let object = self.read_as_stored(object);
        if object["apiVersion"] == *self.api_version() { object } else { self.read_as_own(object) }
    }

    /// Returns an object of this resource in another version of it for admission, with all its fields. Objects that a
    /// webhook would have to convert stay as they are.
    pub(crate) fn converted_to(&self, other: &Resource, mut object: Value) -> Value {
        match &other.custom {
            None => other.from_storage(self.to_storage(object)),
            Some(own) if own.conversion.is_some() => object,
            Some(_) => {
                object["apiVersion"] = other.api_version().into();
                object
            }
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
        let at = |pointer: &str| meta::value_at_pointer(object, pointer).filter(|v| !meta::is_empty_value(Some(v)));
        let value = at(&self.pointer).or_else(|| if self.fallback.is_empty() { None } else { at(&self.fallback) });
        match value {
            None => Cow::Borrowed(self.absent),
            Some(Value::String(text)) => Cow::Borrowed(text),
            Some(Value::Array(_) | Value::Object(_)) => Cow::Borrowed(""),
            Some(other) => Cow::Owned(other.to_string()),
        }
    }
}

/// The data of a request that strategies may use in addition to the objects.
#[derive(Clone, Copy)]
pub(crate) struct StrategyContext<'a> {
    /// Server time.
    pub now: Timestamp,
    /// The requesting user.
    pub user: &'a UserInfo,
    /// Other objects, for admission (priority classes, services' addresses, namespaces).
    pub lookup: &'a dyn ObjectLister,
}

impl Debug for StrategyContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("now", &self.now).field("user", &self.user.name).finish_non_exhaustive()
    }
}

/// Read access to stored objects for the few admission rules that need other objects.
pub(crate) trait ObjectLister: Sync {
    /// Returns a stored object.
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value>;
    /// Returns a label of a stored object.
    fn label(&self, group: &str, resource: &str, namespace: &str, name: &str, label: &str) -> Option<String> {
        let object = self.get(group, resource, namespace, name)?;
        crate::metadata::labels(&object)?.get(label)?.as_str().map(str::to_owned)
    }
    /// Returns the objects of a resource in one namespace, or in all if `namespace` is empty.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value>;
    /// Like [`ObjectLister::list`], but may skip objects whose compact JSON does not contain `text`, which saves
    /// decoding them.
    fn list_holding(&self, group: &str, resource: &str, namespace: &str, _text: &str) -> Vec<Value> {
        self.list(group, resource, namespace)
    }
    /// Returns true if an admission plugin is enabled.
    fn admits_by(&self, _plugin: AdmissionPlugin) -> bool {
        true
    }
}

/// An admission plugin that can be disabled. Servers without nodes, kubelets or controllers cannot do what some expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionPlugin {
    /// Taints new nodes until they are ready.
    TaintNodesByCondition,
    /// Makes new pods tolerate not-ready and unreachable nodes for five minutes.
    DefaultTolerationSeconds,
    /// Gives new pods the service account `default` and a volume with its token, and refuses pods whose account does
    /// not exist. Disabled by default, as in envtest: a controller has to create the accounts
    /// ([`crate::service_accounts`]).
    ServiceAccount,
}

impl AdmissionPlugin {
    /// Returns the plugins that a server does not have unless they are enabled.
    pub(crate) fn disabled_by_default() -> Vec<Self> {
        vec![Self::ServiceAccount]
    }
}

/// An [`ObjectLister`] without objects.
#[derive(Debug, Clone, Copy, Default)]
#[cfg(test)]
pub(crate) struct EmptyLister;

#[cfg(test)]
impl ObjectLister for EmptyLister {
    fn get(&self, _group: &str, _resource: &str, _namespace: &str, _name: &str) -> Option<Value> {
        None
    }

    fn list(&self, _group: &str, _resource: &str, _namespace: &str) -> Vec<Value> {
        Vec::new()
    }
}

/// Returns the zone and region labels of a node, which bound pods get too.
pub(crate) fn topology_labels(lookup: &dyn ObjectLister, node: &str) -> Map {
    if node.is_empty() {
        return Map::new();
    }
    ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"]
        .into_iter()
        .filter_map(|key| Some((key, lookup.label("", "nodes", "", node, key)?)))
        .collect()
}

/// The required format of object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameFormat {
    /// A lowercase RFC 1123 subdomain (most resources).
    Subdomain,
    /// A lowercase RFC 1123 label (namespaces, and services since 1.35's relaxed names).
    Label,
    /// A valid URL path segment (RBAC roles, legacy event names).
    PathSegment,
    /// An IP address in its canonical form.
    Address,
}

/// The rules of a resource: `RESTCreateStrategy`, `RESTUpdateStrategy`, defaulting and the default admission plugins.
///
/// The default methods do nothing, so a resource without rules needs no code.
pub(crate) trait Strategy: Send + Sync + Debug {
    /// Fills in default values; runs first on every decoded object.
    fn default(&self, _object: &mut Value) {}

    /// Like [`Strategy::default`] for an object that has its defaults except in the status.
    fn default_status(&self, object: &mut Value) {
        self.default(object);
    }

    /// Mutating and validating admission on create, for the plugins that are enabled by default.
    fn admit_create(&self, _object: &mut Value, _ctx: &StrategyContext<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Mutating and validating admission on update.
    fn admit_update(&self, _new: &mut Value, _old: &Value, _ctx: &StrategyContext<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Drops fields that clients may not set on create (status) and sets the first generation.
    fn prepare_for_create(&self, _object: &mut Value, _ctx: &StrategyContext<'_>) {}

    /// Kind-specific validation on create; [`validate_create`] adds the rules for all metadata.
    fn validate(&self, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Validation on create that needs other objects; its errors come first.
    fn validate_among_others(&self, _object: &Value, _ctx: &StrategyContext<'_>) -> ErrorList {
        ErrorList::new()
    }

    /// Runs on a valid new object right before it is stored, to allocate IP addresses and ports.
    fn begin_create(&self, _object: &mut Value, _ctx: &StrategyContext<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Like [`Strategy::begin_create`] for a valid update.
    fn begin_update(&self, _new: &mut Value, _old: &Value, _ctx: &StrategyContext<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Restores fields that this endpoint may not change (status) and increments the generation.
    fn prepare_for_update(&self, _new: &mut Value, _old: &Value, _ctx: &StrategyContext<'_>) {}

    /// Kind-specific validation on update; [`validate_update`] adds the rules for all metadata.
    fn validate_update(&self, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Restores all fields except the status (and others that the kind allows) on a write to `/status`.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        meta::reset_all_but_status(new, old);
    }

    /// Kind-specific validation on a write to `/status`.
    fn validate_status_update(&self, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Restores fields that a write through `subresource` (not the object itself or its status) may not change. As
    /// upstream, this runs after field ownership is updated: a manager that tried to change such a field owns it.
    fn narrow(&self, _subresource: &str, _new: &mut Value, _old: &Value) {}

    /// Prepares a write through `subresource` for storage.
    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        new: &mut Value,
        old: &Value,
        ctx: &StrategyContext<'_>,
    ) {
        self.narrow(subresource, new, old);
        self.prepare_for_update(new, old, ctx);
    }

    /// Kind-specific validation on a write through `subresource`.
    fn validate_subresource_update(&self, _subresource: &str, new: &Value, old: &Value) -> ErrorList {
        self.validate_update(new, old)
    }

    /// Validating admission on a valid write through `subresource`.
    fn admit_subresource(
        &self,
        _subresource: &str,
        _new: &Value,
        _old: &Value,
        _ctx: &StrategyContext<'_>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Returns warnings for the client, without a prefix.
    fn warnings_on_create(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns warnings for the client, without a prefix.
    fn warnings_on_update(&self, _new: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns true if PUT on a name that does not exist creates the object.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Returns true if updates do not need a resourceVersion.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Like [`Strategy::allow_unconditional_update`] for writes to `/status`.
    fn allow_unconditional_status_update(&self) -> bool {
        self.allow_unconditional_update()
    }

    /// Returns the grace period in seconds of a graceful deletion; `None` for kinds that are deleted immediately.
    ///
    /// `wanted` is `gracePeriodSeconds` of the request.
    fn grace_period(&self, _object: &Value, _wanted: Option<i64>) -> Option<i64> {
        None
    }

    /// Returns true if dependents are orphaned when a deletion has no policy (batch/v1 Job and core/v1
    /// `ReplicationController`).
    fn orphans_by_default(&self) -> bool {
        false
    }
}

/// The strategy of resources without rules.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DefaultStrategy;

impl Strategy for DefaultStrategy {}

/// Validates a new object: the kind's rules, then (only if those pass) the generic metadata rules.
pub(crate) fn validate_create(kind: &Resource, object: &Value, ctx: &StrategyContext<'_>) -> ErrorList {
    let mut errors = kind.strategy.validate_among_others(object, ctx);
    errors.append(drop_finalizer_errors(kind, kind.strategy.validate(object)));
    if !errors.is_empty() {
        return errors;
    }
    drop_finalizer_errors(
        kind,
        meta::validate(object, kind.namespaced, NameFormat::PathSegment, &Path::new("metadata")),
    )
}

/// Drops errors about unqualified finalizers for resources whose upstream validation uses apimachinery's metadata
/// rules instead of those of `pkg/apis/core/validation`: custom resources, extension groups and a few others.
fn drop_finalizer_errors(kind: &Resource, errors: ErrorList) -> ErrorList {
    let unasked = matches!(
        (&*kind.group, &*kind.plural),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io" | "admissionregistration.k8s.io", _)
            | ("policy", "poddisruptionbudgets")
            | ("", "events")
            | ("coordination.k8s.io", "leases")
    );
    if kind.custom.is_none() && !unasked {
        return errors;
    }
    let mut fitting = ErrorList::new();
    fitting.extend(errors.into_iter().filter(|error| error.detail != meta::UNQUALIFIED_FINALIZER_MESSAGE));
    fitting
}

/// Validates an update: generic metadata rules first, then the kind's.
pub(crate) fn validate_update(kind: &Resource, new: &Value, old: &Value) -> ErrorList {
    validate_metadata_update(kind, new, old, kind.strategy.validate_update(new, old))
}

/// Validates a write to `/status`.
pub(crate) fn validate_status_update(kind: &Resource, new: &Value, old: &Value) -> ErrorList {
    validate_metadata_update(kind, new, old, kind.strategy.validate_status_update(new, old))
}

/// Validates a write through a kind-specific subresource.
pub(crate) fn validate_subresource_update(kind: &Resource, subresource: &str, new: &Value, old: &Value) -> ErrorList {
    validate_metadata_update(kind, new, old, kind.strategy.validate_subresource_update(subresource, new, old))
}

/// Validates a write to a namespace's `/finalize`.
pub(crate) fn validate_finalize(new: &Value, old: &Value) -> ErrorList {
    let path = Path::new("metadata");
    let mut errors = meta::validate(new, false, NameFormat::PathSegment, &path);
    errors.append(meta::validate_update(new, old, &path));
    errors.append(namespace::validate_finalize(new, old));
    errors
}

/// Joins the generic metadata errors and the kind's own. Both check for unqualified finalizers, which is reported
/// once.
fn merged(common: ErrorList, own: ErrorList) -> ErrorList {
    let described = own.iter().any(|error| error.detail == meta::UNQUALIFIED_FINALIZER_MESSAGE);
    let mut errors = ErrorList::new();
    errors.extend(common.into_iter().filter(|error| !described || error.detail != meta::UNQUALIFIED_FINALIZER_MESSAGE));
    errors.append(own);
    errors
}

/// Joins the generic metadata errors of an update and the kind's `own` errors.
fn validate_metadata_update(kind: &Resource, new: &Value, old: &Value, own: ErrorList) -> ErrorList {
    let path = Path::new("metadata");
    let mut common = meta::validate(new, kind.namespaced, NameFormat::PathSegment, &path);
    common.append(meta::validate_update(new, old, &path));
    drop_finalizer_errors(kind, merged(common, own))
}

#[cfg(test)]
mod tests;
