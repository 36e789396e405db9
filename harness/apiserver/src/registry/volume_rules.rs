//! Validation of persistent volumes. See `ValidatePersistentVolume` in `pkg/apis/core/validation/validation.go`. PURE.

use super::label_selector::array_field;
use super::meta::{self, non_null, spec_of};
use super::{checks, names, pod};
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::Value;
use crate::quantity::Quantity;

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
pub(super) fn persistent_volume(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    access_modes(spec, &mut errors);
    capacity(spec, &mut errors);
    if let Some(required) = non_null(&spec["nodeAffinity"], "required") {
        pod::scheduling::node_selector(required, &SPEC.child("nodeAffinity").child("required"), &mut errors);
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
        if meta::str_field(path, "path").is_empty() {
            errors.required(&own.child("path"), "");
        }
        checks::one_of(path, "type", &HOST_PATH_TYPES, &own, &mut errors);
    }
    checks::one_of(spec, "persistentVolumeReclaimPolicy", &RECLAIM_POLICIES, &SPEC, &mut errors);
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let name = meta::str_field(spec, field);
        if !name.is_empty() {
            checks::format(name, names::dns1123_subdomain, &SPEC.child(field), &mut errors);
        }
    }
    checks::one_of(spec, "volumeMode", &["Block", "Filesystem"], &SPEC, &mut errors);
    errors
}

fn access_modes(spec: &Value, errors: &mut ErrorList) {
    let (path, modes) = (SPEC.child("accessModes"), array_field(spec, "accessModes"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    /// Answers of kube-apiserver 1.36.2.
    #[test]
    fn a_volume_has_one_type_and_a_capacity() {
        let volume = json!({"spec": {"accessModes": ["Often"], "capacity": {"x": "0"}, "nfs": {}, "csi": {}}});
        let described: Vec<String> = persistent_volume(&volume).iter().map(ToString::to_string).collect();
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
}
