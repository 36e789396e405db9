//! The strategy of resources without defaults and kind-specific rules: generation, names and the scope of the status.
//!
//! Its options are the methods of `RESTCreateStrategy` and `RESTUpdateStrategy`
//! (`staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update}.go`) in which such resources differ.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::semantic_equal;
use crate::json::{Key, Value};
use crate::metadata;
use crate::registry::meta;
use crate::registry::names::NameFormat;
use crate::registry::prepare::{copy_field, drop_status, set_generation, specs_equal, values_equal};
use crate::registry::strategy::{Strategy, StrategyContext};

/// The changes that increment `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// None; the resource has no generation.
    None,
    /// Changes of `spec`.
    Spec,
    /// Changes of `spec`; a new object has no generation.
    SpecOnceChanged,
    /// Changes outside of metadata and status.
    AllButStatus,
    /// Changes outside of metadata and status, and of the labels.
    LabelsAndAllButStatus,
    /// None; the generation is always 1.
    Fixed,
}

/// The rules of metadata in `ValidateUpdate` of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetadataRules {
    /// `ValidateObjectMetaUpdate`.
    Changes,
    /// `ValidateObjectMeta`, as for new objects.
    Whole,
    /// `ValidateObjectMetaUpdate`, then `ValidateObjectMeta`.
    Both,
    /// The new object is validated as for a creation, then its changes.
    ObjectFirst,
    /// The changes are validated, those of fields that cannot change among them, then the new object.
    ChangesFirst,
    /// `ValidateObjectMeta`, then `ValidateObjectMetaUpdate`.
    MetadataFirst,
}

/// A part of the validation of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdatePart {
    /// The change of the metadata: `ValidateObjectMetaUpdate`.
    Changes,
    /// The metadata of the new object: `ValidateObjectMeta`.
    Metadata,
    /// The other fields of the new object.
    Fields,
    /// The fields that may not change.
    Stable,
}

impl MetadataRules {
    /// Returns the parts of the validation of an update in upstream's order, which is that of the errors.
    pub(super) fn parts(self) -> &'static [UpdatePart] {
        use UpdatePart::{Changes, Fields, Metadata, Stable};
        match self {
            Self::Changes => &[Changes, Fields, Stable],
            Self::Whole => &[Metadata, Fields, Stable],
            Self::Both => &[Changes, Metadata, Fields, Stable],
            Self::ObjectFirst => &[Metadata, Fields, Changes, Stable],
            Self::ChangesFirst => &[Changes, Stable, Metadata, Fields],
            Self::MetadataFirst => &[Metadata, Changes, Fields, Stable],
        }
    }
}

/// A configurable strategy.
#[expect(clippy::struct_excessive_bools, reason = "each is one of upstream's independent strategy methods")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Generic {
    /// The changes that increment the generation.
    pub generation: Generation,
    /// There is a status that can be written only through `/status`.
    pub status: bool,
    /// Updates need no resourceVersion.
    pub unconditional: bool,
    /// PUT creates missing objects.
    pub create_on_update: bool,
    /// The name format.
    pub names: NameFormat,
    /// Objects are namespaced.
    pub namespaced: bool,
    /// The rules of metadata that updates run beside those of all kinds, which is visible in the number of causes.
    pub updates: MetadataRules,
}

impl Generic {
    /// Namespaced, RFC 1123 names, unconditional updates, no generation and no status.
    pub(crate) const NEW: Self = Self {
        generation: Generation::None,
        status: false,
        unconditional: true,
        create_on_update: false,
        names: NameFormat::Subdomain,
        namespaced: true,
        updates: MetadataRules::Changes,
    };
}

impl Strategy for Generic {
    fn prepare_for_create(&self, object: &mut Value, _ctx: &StrategyContext<'_>) {
        if !matches!(self.generation, Generation::None | Generation::SpecOnceChanged) {
            set_generation(object, 1);
        }
        if self.status {
            drop_status(object);
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        meta::validate(object, self.namespaced, self.names, &Path::new("metadata"))
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &StrategyContext<'_>) {
        if self.status {
            copy_field(new, old, "status");
        }
        if changed(self.generation, new, old) {
            set_generation(new, metadata::generation(old) + 1);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        for part in self.updates.parts() {
            match part {
                UpdatePart::Changes => errors.append(meta::validate_update(new, old, &Path::new("metadata"))),
                UpdatePart::Metadata => errors.append(self.validate(new)),
                UpdatePart::Fields | UpdatePart::Stable => {}
            }
        }
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        meta::validate_update(new, old, &Path::new("metadata"))
    }

    fn allow_create_on_update(&self) -> bool {
        self.create_on_update
    }

    fn allow_unconditional_update(&self) -> bool {
        self.unconditional
    }
}

fn changed(generation: Generation, new: &Value, old: &Value) -> bool {
    match generation {
        Generation::None | Generation::Fixed => false,
        Generation::Spec | Generation::SpecOnceChanged => !specs_equal(new, old),
        Generation::LabelsAndAllButStatus => {
            let [of_new, of_old] = [new, old].map(|object| object.pointer("/metadata/labels"));
            !semantic_equal(of_new, of_old) || changed(Generation::AllButStatus, new, old)
        }
        Generation::AllButStatus => {
            let outside = |k: &&Key| !matches!(k.as_str(), "metadata" | "status" | "kind" | "apiVersion");
            let keys = |v: &Value| -> Vec<Key> {
                v.as_object().map_or_else(Vec::new, |m| m.keys().filter(outside).cloned().collect())
            };
            let mut all = keys(new);
            all.extend(keys(old));
            all.iter().any(|k| !values_equal(new, &[k.as_str()], new.get(k), old.get(k)))
        }
    }
}
