//! Kinds that are stored faithfully: no defaults, no rules of their own, but the right generation, names and scope
//! of their status.

use super::field::{ErrorList, Path};
use super::{Context, NameRule, Strategy, meta};
use crate::json::{Key, Map, Value};

/// Which changes raise `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    None,
    /// Changes of `spec`.
    Spec,
    /// Changes of anything but metadata and status.
    Content,
    /// It is 1 and stays so.
    Fixed,
}

/// Rules of a stored kind without code of its own.
#[expect(clippy::struct_excessive_bools, reason = "each is one of upstream's independent strategy methods")]
#[derive(Debug, Clone, Copy)]
pub struct Generic {
    /// Which changes count.
    pub generation: Generation,
    /// Whether there is a status that only `/status` may write.
    pub status: bool,
    /// Whether updates need no resourceVersion.
    pub unconditional: bool,
    /// Whether PUT creates.
    pub create_on_update: bool,
    /// Names.
    pub names: NameRule,
    /// Whether the kind lives in namespaces.
    pub namespaced: bool,
    /// Whether updates run the rules for creations again (it shows in the number of causes).
    pub revalidates: bool,
}

impl Generic {
    /// Namespaced, RFC 1123 names, unconditional updates, no generation and no status.
    pub const NEW: Self = Self {
        generation: Generation::None,
        status: false,
        unconditional: true,
        create_on_update: false,
        names: NameRule::Subdomain,
        namespaced: true,
        revalidates: false,
    };
}

impl Strategy for Generic {
    fn prepare_for_create(&self, object: &mut Value, _ctx: &Context<'_>) {
        if self.generation != Generation::None {
            meta::set_generation(object, 1);
        }
        if self.status {
            drop_status(object);
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        meta::validate(object, self.namespaced, self.names, &Path::new("metadata"))
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _ctx: &Context<'_>) {
        if self.status {
            meta::keep_field(new, old, "status");
        }
        if changed(self.generation, new, old) {
            meta::set_generation(new, meta::generation(old) + 1);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &Path::new("metadata"));
        if self.revalidates {
            errors.append(self.validate(new));
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

    fn name_rule(&self) -> NameRule {
        self.names
    }
}

/// Removes what a client may not say about the state of a new object; an empty status stays where one is always shown.
pub fn drop_status(object: &mut Value) {
    if let Some(map) = object.as_object_mut()
        && map.contains_key("status")
    {
        map.insert("status", Value::Object(Map::new()));
    }
}

fn changed(generation: Generation, new: &Value, old: &Value) -> bool {
    match generation {
        Generation::None | Generation::Fixed => false,
        Generation::Spec => !meta::same_spec(new, old),
        Generation::Content => {
            let outside = |k: &&Key| !matches!(k.as_str(), "metadata" | "status" | "kind" | "apiVersion");
            let keys = |v: &Value| -> Vec<Key> {
                v.as_object().map_or_else(Vec::new, |m| m.keys().filter(outside).cloned().collect())
            };
            let mut all = keys(new);
            all.extend(keys(old));
            all.iter().any(|k| !meta::equal(new.get(k), old.get(k)))
        }
    }
}
