//! The kinds that are served: what discovery says about each, and the rules of each in one [`Strategy`].
//!
//! A request for a kind goes through its strategy in kube-apiserver's order:
//!
//! | step | create | update | status update |
//! | --- | --- | --- | --- |
//! | 1 | [`Strategy::default`] | [`Strategy::default`] | [`Strategy::default`] |
//! | 2 | [`Strategy::admit_create`] | [`Strategy::admit_update`] | – |
//! | 3 | [`Strategy::prepare_for_create`] | [`Strategy::prepare_for_update`] | [`Strategy::prepare_for_status_update`] |
//! | 4 | [`validate_create`] | [`validate_update`] | [`validate_status_update`] |
//! | 5 | [`Strategy::begin_create`] | [`Strategy::begin_update`] | – |
//! | 6 | [`Strategy::warnings_on_create`] | [`Strategy::warnings_on_update`] | – |
//!
//! Strategies are pure: they see the object, the old object and a [`Context`], never the store or the clock.
//! Nothing here imports the production controllers.

mod autoscaler;
mod batch;
mod bounds;
mod builder;
pub mod builtin;
mod claims;
pub mod conditions;
pub mod config;
pub mod csr;
pub mod endpoints;
pub mod event;
pub mod extensions;
pub mod field;
pub mod generic;
pub mod int_or_percent;
pub mod lease;
mod limits;
pub mod meta;
pub mod names;
pub mod namespace;
mod networking;

pub mod node;
pub mod pdb;
pub mod pod;
pub mod quantity;
pub mod quota;
mod registry;
pub mod selector;
pub mod service;
pub mod stored;
pub mod time;
pub mod volume;
pub mod workloads;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use jiff::Timestamp;

use crate::json::{Map, Value};

pub use field::{ErrorList, NOWHERE, Path};
pub use registry::{Registry, VersionInfo};

use super::identity::User;
use super::status::Status;
pub(crate) use time::go_duration;

/// A name that is static for built-in kinds and owned for custom ones.
pub type Text = Cow<'static, str>;

/// Verbs of an ordinary stored resource, as discovery lists them.
pub const STANDARD_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Verbs of a resource that only answers creations and stores nothing (reviews, bindings).
pub const CREATE_ONLY: &[&str] = &["create"];

/// One served resource: a kind in a version of a group.
#[derive(Debug, Clone)]
pub struct Kind {
    /// API group, empty for core.
    pub group: Text,
    /// Version in the group.
    pub version: Text,
    /// `Pod`.
    pub kind: Text,
    /// `PodList`.
    pub list_kind: Text,
    /// `pods`.
    pub plural: Text,
    /// `pod`.
    pub singular: Text,
    /// `po`.
    pub short_names: Vec<Text>,
    /// `all`.
    pub categories: Vec<Text>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs in discovery's order.
    pub verbs: Vec<Text>,
    /// Subresources in discovery's order (by name).
    pub subresources: Vec<Subresource>,
    /// Name of the type in the OpenAPI document, such as `io.k8s.api.core.v1.Pod`; empty for custom kinds.
    pub schema: Text,
    /// Where objects live: group and resource, the same for all versions and for both faces of Event.
    pub storage: StorageId,
    /// How the stored form differs from this version's; most kinds are stored as they are.
    pub conversion: Option<&'static Conversion>,
    /// `storageVersionHash` of legacy discovery; empty when nothing is stored.
    pub storage_version_hash: Text,
    /// Fields that field selectors know beside `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<SelectableField>,
    /// The rules of the kind.
    pub strategy: Arc<dyn Strategy>,
    /// What the definition of a custom resource adds; built-in kinds have none.
    pub custom: Option<Arc<super::crd::CustomKind>>,
}

impl Kind {
    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The subresource called `name`.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Whether the resource (not a subresource) has `verb`.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Whether objects of this kind are kept at all (reviews and bindings are not).
    pub fn is_stored(&self) -> bool {
        self.has_verb("get") && !self.storage_version_hash.is_empty()
    }

    /// Group and resource, as messages name them.
    pub fn group_resource(&self) -> super::status::GroupResource<'_> {
        super::status::GroupResource::new(&self.group, &self.plural)
    }

    /// The stored form of `object`, which is in this version's form.
    pub fn to_storage(&self, object: Value) -> Value {
        match self.conversion {
            Some(conversion) => (conversion.to_storage)(object),
            None => object,
        }
    }

    /// This version's form of `object`, which is in its stored form.
    pub fn from_storage(&self, object: Value) -> Value {
        let mut object = match self.conversion {
            Some(conversion) => (conversion.from_storage)(object),
            None => return object,
        };
        if self.custom.is_some() {
            object["apiVersion"] = self.api_version().into();
        }
        object
    }
}

/// A subresource as discovery tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// `status`, `scale`, `eviction` …
    pub name: Text,
    /// Group of its body's kind, where it differs from the resource's (`policy` for evictions).
    pub group: Text,
    /// Version of its body's kind, where it differs from the resource's.
    pub version: Text,
    /// Kind of its body.
    pub kind: Text,
    /// Verbs in discovery's order.
    pub verbs: Vec<Text>,
}

impl Subresource {
    /// Whether the subresource has `verb`.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

/// Where a kind's objects live.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StorageId {
    /// Group.
    pub group: Text,
    /// Plural resource name.
    pub resource: Text,
}

/// A pair of functions between the stored form of an object and the form of one version.
#[derive(Debug)]
pub struct Conversion {
    /// Version's form in, stored form out.
    pub to_storage: fn(Value) -> Value,
    /// Stored form in, version's form out.
    pub from_storage: fn(Value) -> Value,
}

/// A field that field selectors know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectableField {
    /// Its name in a selector: `spec.nodeName`.
    pub label: Text,
    /// JSON pointer to its value in the stored form: `/spec/nodeName`.
    pub pointer: Text,
    /// JSON pointer to what stands in for an empty value; usually none.
    pub fallback: Text,
    /// What a missing value selects as.
    pub absent: &'static str,
}

impl SelectableField {
    /// The value of the field in `object` (in its stored form) as selectors compare it.
    pub fn value_in<'a>(&self, object: &'a Value) -> Cow<'a, str> {
        let at = |pointer: &str| meta::at(object, pointer).filter(|v| !meta::is_empty(Some(v)));
        let value = at(&self.pointer).or_else(|| if self.fallback.is_empty() { None } else { at(&self.fallback) });
        match value {
            None => Cow::Borrowed(self.absent),
            Some(Value::String(text)) => Cow::Borrowed(text),
            Some(Value::Array(_) | Value::Object(_)) => Cow::Borrowed(""),
            Some(other) => Cow::Owned(other.to_string()),
        }
    }
}

/// What a strategy may know about a request beside the objects.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Server time.
    pub now: Timestamp,
    /// Who asks.
    pub user: &'a User,
    /// Other objects, for admission (priority classes, services' addresses, namespaces).
    pub lookup: &'a dyn Lookup,
}

impl Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("now", &self.now).field("user", &self.user.name).finish_non_exhaustive()
    }
}

/// Read access to stored objects for the few admission rules that need other objects.
pub trait Lookup {
    /// The stored object, or nothing.
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value>;
    /// A label of a stored object.
    fn label(&self, group: &str, resource: &str, namespace: &str, name: &str, label: &str) -> Option<String> {
        let object = self.get(group, resource, namespace, name)?;
        object.pointer("/metadata/labels")?.get(label)?.as_str().map(str::to_owned)
    }
    /// All stored objects of a resource, in one namespace or (empty) in all.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value>;
    /// At least those of them in whose JSON, which has no spaces, `text` stands: the others need not be decoded.
    fn list_holding(&self, group: &str, resource: &str, namespace: &str, _text: &str) -> Vec<Value> {
        self.list(group, resource, namespace)
    }
    /// Whether an admission plugin is on.
    fn admits_by(&self, _plugin: Plugin) -> bool {
        true
    }
}

/// An admission plugin that is on by default and that servers without nodes are started without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// New nodes are tainted until they are seen ready.
    TaintNodesByCondition,
    /// New pods tolerate nodes that are not ready or unreachable for five minutes.
    DefaultTolerationSeconds,
}

/// A [`Lookup`] that knows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLookup;

impl Lookup for NoLookup {
    fn get(&self, _group: &str, _resource: &str, _namespace: &str, _name: &str) -> Option<Value> {
        None
    }

    fn list(&self, _group: &str, _resource: &str, _namespace: &str) -> Vec<Value> {
        Vec::new()
    }
}

/// The zone and region labels of a node: pods that are bound to it get them, too.
pub fn topology_labels(lookup: &dyn Lookup, node: &str) -> Map {
    if node.is_empty() {
        return Map::new();
    }
    ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"]
        .into_iter()
        .filter_map(|key| Some((key, lookup.label("", "nodes", "", node, key)?)))
        .collect()
}

/// How an object's name must look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// A lower case RFC 1123 subdomain (most kinds).
    Subdomain,
    /// A lower case RFC 1123 label (namespaces, and services since 1.35's relaxed names).
    Label,
    /// A DNS-1035 label (services).
    Label1035,
    /// Anything that can stand in a URL path (roles, events' older names).
    PathSegment,
}

/// The rules of one kind: `RESTCreateStrategy`, `RESTUpdateStrategy`, defaulting and the default admission plugins.
///
/// Every method has the neutral meaning as default, so that a kind which is only stored needs no code.
pub trait Strategy: Send + Sync + Debug {
    /// Fills in default values; runs on every decoded object before anything else looks at it.
    fn default(&self, _object: &mut Value) {}

    /// The same for an object that has default values everywhere but in its status.
    fn default_status(&self, object: &mut Value) {
        self.default(object);
    }

    /// Mutating and validating admission on create, as far as it is on by default.
    fn admit_create(&self, _object: &mut Value, _ctx: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Mutating and validating admission on update.
    fn admit_update(&self, _new: &mut Value, _old: &Value, _ctx: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Drops what a client may not set on create (status), sets the first generation.
    fn prepare_for_create(&self, _object: &mut Value, _ctx: &Context<'_>) {}

    /// Kind-specific validation on create; [`validate_create`] adds the rules for all metadata.
    fn validate(&self, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Runs on a valid new object right before it is stored: gives out what the server gives out (addresses, ports).
    fn begin_create(&self, _object: &mut Value, _ctx: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// The same for a valid update.
    fn begin_update(&self, _new: &mut Value, _old: &Value, _ctx: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Keeps what this endpoint may not change (status), bumps the generation.
    fn prepare_for_update(&self, _new: &mut Value, _old: &Value, _ctx: &Context<'_>) {}

    /// Kind-specific validation on update; [`validate_update`] adds the rules for all metadata.
    fn validate_update(&self, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Keeps all but status (and what else the kind lets through) on a write to `/status`.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _ctx: &Context<'_>) {
        meta::keep_all_but_status(new, old);
    }

    /// Kind-specific validation on a write to `/status`.
    fn validate_status_update(&self, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Puts back what a write through `subresource` (neither the object itself nor its status) may not change. Runs when
    /// the fields have their owners, as upstream does: who tried to change one owns it.
    fn narrow(&self, _subresource: &str, _new: &mut Value, _old: &Value) {}

    /// Makes a write through `subresource` ready to be stored.
    fn prepare_for_subresource_update(&self, subresource: &str, new: &mut Value, old: &Value, ctx: &Context<'_>) {
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
        _ctx: &Context<'_>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Warnings for the client, without a prefix.
    fn warnings_on_create(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Warnings for the client, without a prefix.
    fn warnings_on_update(&self, _new: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Whether PUT on a name that does not exist creates the object.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether an update without resourceVersion is taken as it is.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// The same for writes to `/status`.
    fn allow_unconditional_status_update(&self) -> bool {
        self.allow_unconditional_update()
    }

    /// How names must look. Checked with the other metadata before kind-specific rules where upstream does so.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Grace period of a graceful deletion in seconds; `None` when the kind has none (deleted at once).
    ///
    /// `wanted` is `gracePeriodSeconds` of the request.
    fn grace_period(&self, _object: &Value, _wanted: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether dependents are orphaned when a deletion names no policy (batch/v1 Job is the last of its kind).
    fn orphans_by_default(&self) -> bool {
        false
    }
}

/// The strategy of kinds that are stored as they come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Strategy for Plain {}

/// Everything that is wrong with a new object: the kind's rules, then (only if those pass) the generic metadata rules.
pub fn validate_create(kind: &Kind, object: &Value) -> ErrorList {
    let errors = fitting(kind, kind.strategy.validate(object));
    if !errors.is_empty() {
        return errors;
    }
    fitting(kind, meta::validate(object, kind.namespaced, NameRule::PathSegment, &Path::new("metadata")))
}

/// Without the rule for finalizers where the core's own validation of metadata is not asked: for what extensions serve, and
/// for a few kinds.
fn fitting(kind: &Kind, errors: ErrorList) -> ErrorList {
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
    fitting.extend(errors.into_iter().filter(|error| error.detail != meta::UNQUALIFIED_FINALIZER));
    fitting
}

/// Everything that is wrong with an update: generic metadata rules first, then the kind's.
pub fn validate_update(kind: &Kind, new: &Value, old: &Value) -> ErrorList {
    update_errors(kind, new, old, kind.strategy.validate_update(new, old))
}

/// Everything that is wrong with a write to `/status`.
pub fn validate_status_update(kind: &Kind, new: &Value, old: &Value) -> ErrorList {
    update_errors(kind, new, old, kind.strategy.validate_status_update(new, old))
}

/// Everything that is wrong with a write through a subresource of a kind's own.
pub fn validate_subresource_update(kind: &Kind, subresource: &str, new: &Value, old: &Value) -> ErrorList {
    update_errors(kind, new, old, kind.strategy.validate_subresource_update(subresource, new, old))
}

/// Everything that is wrong with a write to a namespace's `/finalize`.
pub fn validate_finalize(new: &Value, old: &Value) -> ErrorList {
    let path = Path::new("metadata");
    let mut errors = meta::validate(new, false, NameRule::PathSegment, &path);
    errors.append(meta::validate_update(new, old, &path));
    errors.append(namespace::validate_finalize(new, old));
    errors
}

/// The rules for all metadata do not know the one for finalizers; kinds that have none of their own borrow it from there.
fn merged(common: ErrorList, own: ErrorList) -> ErrorList {
    let told = own.iter().any(|error| error.detail == meta::UNQUALIFIED_FINALIZER);
    let mut errors = ErrorList::new();
    errors.extend(common.into_iter().filter(|error| !told || error.detail != meta::UNQUALIFIED_FINALIZER));
    errors.append(own);
    errors
}

/// The rules for all metadata, then the kind's `own` errors.
fn update_errors(kind: &Kind, new: &Value, old: &Value, own: ErrorList) -> ErrorList {
    let path = Path::new("metadata");
    let mut common = meta::validate(new, kind.namespaced, NameRule::PathSegment, &path);
    common.append(meta::validate_update(new, old, &path));
    fitting(kind, merged(common, own))
}

#[cfg(test)]
mod tests;
