//! Core `v1` `PersistentVolume`: its phase and the time of the last phase transition.
//!
//! See `pkg/registry/core/persistentvolume/strategy.go`.

use super::defaults::{self, Defaults};
use super::generic::Generic;
use super::time::rfc3339;
use super::{Strategy, StrategyContext, meta, volume_rules};
use crate::field_errors::ErrorList;
use crate::json::{Value, json};
use crate::status::Status;

/// The strategy of persistent volumes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PersistentVolume;

const STRATEGY: Defaults = Defaults {
    finalizer: defaults::VOLUME_FINALIZER,
    ..Defaults::new(Generic { status: true, namespaced: false, ..Generic::NEW }, defaults::volume)
};

const LAST_PHASE_TRANSITION_TIME: &str = "lastPhaseTransitionTime";

impl Strategy for PersistentVolume {
    fn default(&self, object: &mut Value) {
        STRATEGY.default(object);
    }

    fn admit_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) -> Result<(), Status> {
        STRATEGY.admit_create(object, ctx)
    }

    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_create(object, ctx);
        if let Some(map) = object.as_object_mut() {
            map.insert("status", json!({"phase": "Pending", LAST_PHASE_TRANSITION_TIME: rfc3339(ctx.now)}));
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = STRATEGY.validate(object);
        errors.append(volume_rules::persistent_volume(object));
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = STRATEGY.validate_update(new, old);
        errors.append(volume_rules::persistent_volume(new));
        errors
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        meta::reset_all_but_status(new, old);
        let of = |object: &Value, field: &str| object.get("status").and_then(|status| status.get(field)).cloned();
        let (before, after) = (of(old, LAST_PHASE_TRANSITION_TIME), of(new, LAST_PHASE_TRANSITION_TIME));
        let moved = of(old, "phase") != of(new, "phase");
        let Some(status) = meta::object_or_insert(new, "status") else { return };
        if moved && (after.is_none() || after == before) {
            status.insert(LAST_PHASE_TRANSITION_TIME, rfc3339(ctx.now).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::NO_USER;
    use crate::registry::EmptyLister;

    #[test]
    fn the_phase_knows_since_when() {
        let at = |second| StrategyContext {
            now: jiff::Timestamp::from_second(second).unwrap(),
            user: &NO_USER,
            lookup: &EmptyLister,
        };
        let mut volume = json!({"metadata": {"name": "v"}, "spec": {}});
        PersistentVolume.prepare_for_create(&mut volume, &at(0));
        assert_eq!(volume["status"], json!({"phase": "Pending", LAST_PHASE_TRANSITION_TIME: "1970-01-01T00:00:00Z"}));
        let mut bound = volume.clone();
        bound["status"]["phase"] = "Bound".into();
        PersistentVolume.prepare_for_status_update(&mut bound, &volume, &at(60));
        assert_eq!(bound["status"][LAST_PHASE_TRANSITION_TIME], "1970-01-01T00:01:00Z");
        let mut still = bound.clone();
        PersistentVolume.prepare_for_status_update(&mut still, &bound, &at(90));
        assert_eq!(still["status"][LAST_PHASE_TRANSITION_TIME], "1970-01-01T00:01:00Z");
    }
}
