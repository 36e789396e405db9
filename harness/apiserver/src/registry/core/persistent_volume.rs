//! Core `v1` `PersistentVolume`: its phase and the time of the last phase transition.
//!
//! See `pkg/registry/core/persistentvolume/strategy.go`.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{
    array_field, non_null, object_mut, object_or_default, object_or_insert, spec_of, str_field, text_default,
    value_default,
};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{UNSET, items, text, text_or};
use crate::quantity::Quantity;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::node_selector;
use crate::registry::generic::Generic;
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::prepare::reset_all_but_status;
use crate::registry::strategy::{Strategy, StrategyContext};
use crate::registry::time::rfc3339;
use crate::registry::{checks, names};
use crate::status::Status;

/// The resource `persistentvolumes`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "persistentvolumes", "PersistentVolume", "io.k8s.api.core.v1.PersistentVolume")
        .cluster()
        .short(&["pv"])
        .status()
        .hash("HN/zwEC+JgM=")
        .rules(PersistentVolume)
        .columns(COLUMNS)
}

/// The strategy of persistent volumes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PersistentVolume;

const STRATEGY: KindStrategy = KindStrategy::new(Generic { status: true, namespaced: false, ..Generic::NEW }, defaults)
    .with_finalizer(VOLUME_FINALIZER);

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
        errors.append(validate_spec(object));
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        STRATEGY.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = STRATEGY.validate_update(new, old);
        errors.append(validate_spec(new));
        errors
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        reset_all_but_status(new, old);
        let of = |object: &Value, field: &str| object.get("status").and_then(|status| status.get(field)).cloned();
        let before = of(old, LAST_PHASE_TRANSITION_TIME);
        let after = of(new, LAST_PHASE_TRANSITION_TIME);
        let moved = of(old, "phase") != of(new, "phase");
        let Some(status) = object_or_insert(new, "status") else { return };
        if moved && (after.is_none() || after == before) {
            status.insert(LAST_PHASE_TRANSITION_TIME, rfc3339(ctx.now).into());
        }
    }
}

/// The finalizer of each persistent volume.
pub(crate) const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// Defaults of `PersistentVolume`.
fn defaults(map: &mut Map) {
    if let Some(spec) = object_or_default(map, "spec") {
        text_default(spec, "persistentVolumeReclaimPolicy", "Retain");
        text_default(spec, "volumeMode", "Filesystem");
        if let Some(path) = object_mut(spec, "hostPath") {
            value_default(path, "type", "");
        }
    }
    if let Some(status) = object_or_default(map, "status") {
        text_default(status, "phase", "Pending");
    }
}

const SPEC: Path<'static> = Path::new("spec");

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];

/// The volume types with their names in errors, in the order of their checks.
const SOURCES: [(&str, &str); 22] = [
    ("hostPath", "hostPath"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("nfs", "nfs"),
    ("rbd", "rbd"),
    ("quobyte", "quobyte"),
    ("cephfs", "cephFS"),
    ("iscsi", "iscsi"),
    ("cinder", "cinder"),
    ("fc", "fc"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO"),
    ("local", "local"),
    ("storageos", "storageos"),
    ("csi", "csi"),
    ("image", "image"),
];

/// Types of a host path.
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Validates a `PersistentVolume`.
fn validate_spec(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    access_modes(spec, &mut errors);
    capacity(spec, &mut errors);
    if let Some(required) = non_null(&spec["nodeAffinity"], "required") {
        node_selector::validate(required, &SPEC.child("nodeAffinity").child("required"), &mut errors);
    }
    let present: Vec<&(&str, &str)> = SOURCES.iter().filter(|(field, _)| non_null(spec, field).is_some()).collect();
    for (_, shown) in present.iter().skip(1) {
        errors.forbidden(&SPEC.child(shown), "may not specify more than 1 volume type");
    }
    if present.is_empty() {
        errors.required(&SPEC, "must specify a volume type");
    }
    if let Some(path) = non_null(spec, "hostPath") {
        let own = SPEC.child("hostPath");
        if str_field(path, "path").is_empty() {
            errors.required(&own.child("path"), "");
        }
        checks::one_of(path, "type", &HOST_PATH_TYPES, &own, &mut errors);
    }
    checks::one_of(spec, "persistentVolumeReclaimPolicy", &RECLAIM_POLICIES, &SPEC, &mut errors);
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let name = str_field(spec, field);
        if !name.is_empty() {
            checks::format(name, names::dns1123_subdomain, &SPEC.child(field), &mut errors);
        }
    }
    checks::one_of(spec, "volumeMode", &["Block", "Filesystem"], &SPEC, &mut errors);
    errors
}

fn access_modes(spec: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("accessModes");
    let modes = array_field(spec, "accessModes");
    if modes.is_empty() {
        errors.required(&path, "");
    }
    for mode in modes.iter().filter_map(Value::as_str).filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(&path, mode, &ACCESS_MODES);
    }
    if modes.len() > 1 && modes.iter().any(|mode| *mode == "ReadWriteOncePod") {
        errors.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn capacity(spec: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("capacity");
    let Some(capacity) = spec.get("capacity").and_then(Value::as_object).filter(|capacity| !capacity.is_empty()) else {
        return errors.required(&path, "");
    };
    if capacity.len() > 1 || !capacity.contains_key("storage") {
        errors.not_supported(&path, BadValue::from(&spec["capacity"]), &["storage"]);
    }
    for (name, amount) in capacity {
        if let Some(amount) = Quantity::of(amount).filter(|amount| amount.sign() <= 0) {
            errors.invalid(&path.key(name), amount.to_string(), "must be greater than zero");
        }
    }
}

/// The columns of `persistentvolumes`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Capacity",
        Description::Field("api.core.v1.PersistentVolumeSpec", "capacity"),
        CellSource::Text("/spec/capacity/storage", "0"),
    ),
    Column::string(
        "Access Modes",
        Description::Field("api.core.v1.PersistentVolumeSpec", "accessModes"),
        CellSource::Custom(|volume, _| json!(shown_modes(volume, "/spec/accessModes"))),
    ),
    Column::string(
        "Reclaim Policy",
        Description::Field("api.core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy"),
        CellSource::Text("/spec/persistentVolumeReclaimPolicy", ""),
    ),
    Column::string(
        "Status",
        Description::Field("api.core.v1.PersistentVolumeStatus", "phase"),
        CellSource::Custom(|volume, _| json!(shown_phase(volume))),
    ),
    Column::string(
        "Claim",
        Description::Field("api.core.v1.PersistentVolumeSpec", "claimRef"),
        CellSource::Custom(|volume, _| match volume.pointer("/spec/claimRef").filter(|claim| claim.is_object()) {
            Some(claim) => json!(format!("{}/{}", text(claim, "/namespace"), text(claim, "/name"))),
            None => json!(""),
        }),
    ),
    Column::string(
        "StorageClass",
        Description::Text("StorageClass of the pv"),
        CellSource::Custom(|volume, _| json!(shown_class(volume))),
    ),
    Column::string(
        "VolumeAttributesClass",
        Description::Text("VolumeAttributesClass of the pv"),
        CellSource::Text("/spec/volumeAttributesClassName", UNSET),
    ),
    Column::string(
        "Reason",
        Description::Field("api.core.v1.PersistentVolumeStatus", "reason"),
        CellSource::Text("/status/reason", ""),
    ),
    AGE,
    Column::string(
        "VolumeMode",
        Description::Field("api.core.v1.PersistentVolumeSpec", "volumeMode"),
        CellSource::Text("/spec/volumeMode", UNSET),
    )
    .wide(),
];

/// Returns the phase that the columns of volumes and claims show.
pub(super) fn shown_phase(object: &Value) -> &str {
    if metadata::is_deleted(object) { "Terminating" } else { text(object, "/status/phase") }
}

/// Returns the storage class that the columns show.
pub(super) fn shown_class(object: &Value) -> &str {
    text_or(
        object,
        "/metadata/annotations/volume.beta.kubernetes.io~1storage-class",
        text(object, "/spec/storageClassName"),
    )
}

/// Formats the access modes at a pointer.
pub(super) fn shown_modes(object: &Value, pointer: &str) -> String {
    let modes =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let present = items(object, pointer);
    let shown: Vec<&str> = modes
        .iter()
        .filter(|(mode, _)| present.iter().any(|m| m.as_str() == Some(mode)))
        .map(|(_, short)| *short)
        .collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::NO_USER;
    use crate::registry::lister::EmptyLister;

    /// Answers of kube-apiserver 1.36.2.
    #[test]
    fn a_volume_has_one_type_and_a_capacity() {
        let volume = json!({"spec": {"accessModes": ["Often"], "capacity": {"x": "0"}, "nfs": {}, "csi": {}}});
        let described: Vec<String> = validate_spec(&volume).iter().map(ToString::to_string).collect();
        assert_eq!(
            described,
            [
                "spec.accessModes: Unsupported value: \"Often\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.capacity: Unsupported value: {\"x\":\"0\"}: supported values: \"storage\"",
                "spec.capacity[x]: Invalid value: \"0\": must be greater than zero",
                "spec.csi: Forbidden: may not specify more than 1 volume type",
            ]
        );
    }

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
