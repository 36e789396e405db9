//! PATCH: builds the new object from the patch; the guaranteed update does the rest. Follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go` of Kubernetes 1.36.

use http::header::CONTENT_TYPE;

use super::body::unfit_metadata;
use super::options::WriteOptions;
use super::scope::Scope;
use super::write::{Part, UpdateRules, Written};
use crate::json::{Map, Value};
use crate::kinds::{ErrorList, Path, meta};
use crate::lifecycle;
use crate::patch::{self, PatchType};
use crate::schema;
use crate::status::Status;

/// Content types of patches.
pub(crate) const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

impl Scope<'_> {
    /// Handles PATCH of an object or of its status.
    pub(crate) fn patch(&self, part: Part) -> Result<Written, Status> {
        let content_type = self.request.header(CONTENT_TYPE);
        let patch_type = match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => PatchType::Json,
            "application/merge-patch+json" => PatchType::Merge,
            "application/strategic-merge-patch+json" => PatchType::Strategic,
            _ => return self.apply(part),
        };
        let options = WriteOptions::parse(&self.query, "PatchOptions", Some(false))?;
        let manager = self.manager(&options.field_manager);
        let rules = UpdateRules { dry_run: options.dry_run, ..UpdateRules::default() };
        self.guaranteed_update(part, &rules, &mut |old| {
            let old = old.ok_or_else(|| self.not_found(&self.path.name))?;
            let new = self.patched(patch_type, old.clone(), &options)?;
            Ok(self.manage(Some(old), new, &manager))
        })
    }

    /// Returns the patched object: decoded, with defaults, checked to be still the object of the path.
    fn patched(&self, patch_type: PatchType, old: Value, options: &WriteOptions) -> Result<Value, Status> {
        let body = &self.request.body;
        let foreign = |value: &Value| self.foreign(value);
        let patched = patch::apply_patch_as(patch_type, &self.schema(), old, body, options.field_validation, &foreign)?;
        let mut value = patched.value;
        self.refuse_foreign_custom(&value)?;
        if is_untyped(&value) {
            // Upstream then decodes into a type without any JSON fields, so every field of the object is unknown.
            for field in value.as_object().into_iter().flat_map(Map::keys) {
                self.warn(format!("unknown field \"{field}\""));
            }
            lifecycle::check_name(&Value::Null, &self.path.name)?;
        }
        if !self.is_custom() && meta::text(&value, "kind").is_empty() && !meta::text(&value, "apiVersion").is_empty() {
            value["kind"] = self.kind.kind.as_ref().into();
        }
        patched.warnings.into_iter().for_each(|warning| self.warn(warning));
        self.kind.strategy.default(&mut value);
        lifecycle::ensure_namespace(&mut value, &self.path.namespace)?;
        lifecycle::check_name(&value, &self.path.name)?;
        Ok(value)
    }

    /// Rejects a patch that changes kind or apiVersion of a custom resource, with the message specific to custom
    /// resources.
    fn refuse_foreign_custom(&self, value: &Value) -> Result<(), Status> {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        if !self.is_custom() || (kind == self.kind.kind && api_version == self.kind.api_version()) {
            return Ok(());
        }
        let (field, found, wanted) = if kind == self.kind.kind {
            ("apiVersion", api_version, self.kind.api_version())
        } else {
            ("kind", kind, self.kind.kind.to_string())
        };
        let mut errors = ErrorList::new();
        errors.invalid(&Path::new(field), found, format!("must be {wanted}"));
        Err(Status::invalid(&self.kind.group, kind, &self.path.name, &errors))
    }

    /// Returns an error if a patched object is of another kind than the path; of custom resources only the metadata is
    /// checked.
    fn foreign(&self, value: &Value) -> Option<String> {
        if self.is_custom() {
            return unfit_metadata(value);
        }
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        // An apiVersion without a kind counts as the path's kind.
        let own = (kind == self.kind.kind || kind.is_empty()) && api_version == self.kind.api_version();
        if own || is_untyped(value) {
            return None;
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let registry = self.server.registry();
        let other = registry.by_kind(group, version, kind).and_then(|other| schema::builtin(&other.schema));
        let unreadable = other.and_then(|schema| schema.decode(value.to_string().as_bytes()).err());
        Some(unreadable.map_or_else(|| self.foreign_kind(kind, api_version), |error| error.to_string()))
    }

    /// Handles server-side apply.
    fn apply(&self, part: Part) -> Result<Written, Status> {
        let options = WriteOptions::parse(&self.query, "PatchOptions", Some(true))?;
        let rules = UpdateRules { dry_run: options.dry_run, create: part == Part::Whole, uid: None };
        let force = options.force.unwrap_or(false);
        self.guaranteed_update(part, &rules, &mut |old| {
            let mut new = self.applied(old, &options.field_manager, force)?;
            if old.is_none() && !lifecycle::metadata_text(&new, "uid").is_empty() {
                let uid = lifecycle::metadata_text(&new, "uid");
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(Status::conflict(self.group_resource(), &self.path.name, &why));
            }
            lifecycle::ensure_namespace(&mut new, &self.path.namespace)?;
            lifecycle::check_name(&new, &self.path.name)?;
            Ok(new)
        })
    }
}

/// Returns true if an object has neither kind nor apiVersion.
fn is_untyped(value: &Value) -> bool {
    ["kind", "apiVersion"].iter().all(|field| value.get(field).is_none_or(|found| found.is_null() || found == ""))
}
