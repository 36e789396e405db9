//! Core `v1` `PersistentVolume`: its phase and the time of the last phase transition.
//!
//! See `pkg/registry/core/persistentvolume/strategy.go`.

use super::generic::Generic;
use super::stored::{self, WithDefaults};
use super::time::rfc3339;
use super::{Context, Strategy, meta};
use crate::field::ErrorList;
use crate::json::{Value, json};
use crate::status::Status;

/// The strategy of persistent volumes.
#[derive(Debug, Clone, Copy)]
pub struct PersistentVolume;

const RULES: WithDefaults = WithDefaults {
    finalizer: "kubernetes.io/pv-protection",
    ..WithDefaults::new(Generic { status: true, namespaced: false, ..Generic::NEW }, stored::volume)
};

const SINCE: &str = "lastPhaseTransitionTime";

impl Strategy for PersistentVolume {
    fn default(&self, object: &mut Value) {
        RULES.default(object);
    }

    fn admit_create(&self, object: &mut Value, ctx: &Context<'_>) -> Result<(), Status> {
        RULES.admit_create(object, ctx)
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &Context<'_>) {
        RULES.prepare_for_create(object, ctx);
        if let Some(map) = object.as_object_mut() {
            map.insert("status", json!({"phase": "Pending", SINCE: rfc3339(ctx.now)}));
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        RULES.validate(object)
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        RULES.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        RULES.validate_update(new, old)
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, ctx: &Context<'_>) {
        meta::keep_all_but_status(new, old);
        let of = |object: &Value, field: &str| object.get("status").and_then(|status| status.get(field)).cloned();
        let (before, after) = (of(old, SINCE), of(new, SINCE));
        let moved = of(old, "phase") != of(new, "phase");
        let Some(status) = meta::object_at(new, "status") else { return };
        if moved && (after.is_none() || after == before) {
            status.insert(SINCE, rfc3339(ctx.now).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::NOBODY;
    use crate::kinds::NoLookup;

    #[test]
    fn the_phase_knows_since_when() {
        let at =
            |second| Context { now: jiff::Timestamp::from_second(second).unwrap(), user: &NOBODY, lookup: &NoLookup };
        let mut volume = json!({"metadata": {"name": "v"}, "spec": {}});
        PersistentVolume.prepare_for_create(&mut volume, &at(0));
        assert_eq!(volume["status"], json!({"phase": "Pending", SINCE: "1970-01-01T00:00:00Z"}));
        let mut bound = volume.clone();
        bound["status"]["phase"] = "Bound".into();
        PersistentVolume.prepare_for_status_update(&mut bound, &volume, &at(60));
        assert_eq!(bound["status"][SINCE], "1970-01-01T00:01:00Z");
        let mut still = bound.clone();
        PersistentVolume.prepare_for_status_update(&mut still, &bound, &at(90));
        assert_eq!(still["status"][SINCE], "1970-01-01T00:01:00Z");
    }
}
