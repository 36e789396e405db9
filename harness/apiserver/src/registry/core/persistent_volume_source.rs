//! The sources of persistent volumes: `ValidatePersistentVolumeSpec` and the functions that it calls in
//! `pkg/apis/core/validation/validation.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{non_null, str_field};
use crate::registry::core::volume_sources;
use crate::registry::storage::common::csi_driver_name;
use crate::registry::{checks, names};

/// The volume types with their names in errors, in the order of their checks.
pub(super) const SOURCES: [(&str, &str); 22] = [
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
    ("flexVolume", "flexVolume"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO"),
    ("local", "local"),
    ("storageos", "storageos"),
    ("csi", "csi"),
];

/// Types of a host path.
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Validates the source of a volume: exactly one, with what it needs.
pub(super) fn validate(spec: &Value, root: &Path<'_>, errors: &mut ErrorList) {
    let mut count = 0;
    for (field, shown) in SOURCES {
        let Some(source) = non_null(spec, field) else { continue };
        count += 1;
        if count > 1 && field != "flexVolume" {
            errors.forbidden(&root.child(shown), "may not specify more than 1 volume type");
            continue;
        }
        let path = root.child(match field {
            "gcePersistentDisk" => "persistentDisk",
            field => field,
        });
        match field {
            "hostPath" => {
                if local_path(source, &path, errors) {
                    checks::one_of(source, "type", &HOST_PATH_TYPES, &path, errors);
                }
            }
            "nfs" => nfs(source, &path, errors),
            "csi" => csi(source, &path, errors),
            "iscsi" => volume_sources::persistent_iscsi(source, &path, errors),
            "local" => {
                local_path(source, &path, errors);
                if non_null(spec, "nodeAffinity").is_none() {
                    errors.required(&root.child("nodeAffinity"), "Local volume requires node affinity");
                }
            }
            _ => volume_sources::validate(field, source, &path, errors),
        }
        match field {
            "cinder" | "storageos" => secret_namespace(source, &path, errors),
            "glusterfs" => endpoints_namespace(source, &path, errors),
            "azureFile" if source["secretNamespace"] == "" => errors.required(&path.child("secretNamespace"), ""),
            _ => {}
        }
    }
    if count == 0 {
        errors.required(root, "must specify a volume type");
    }
    let is_root = non_null(spec, "hostPath").is_some_and(|source| {
        let path = str_field(source, "path");
        path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "."))
    });
    if is_root && str_field(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let path = root.child("persistentVolumeReclaimPolicy");
        errors.forbidden(&path, "may not be 'recycle' for a hostPath mount of '/'");
    }
}

/// Validates the path of a source on the node; returns true if there is one.
fn local_path(source: &Value, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let path = path.child("path");
    let text = str_field(source, "path");
    if text.is_empty() {
        errors.required(&path, "");
        return false;
    }
    if text.split('/').any(|part| part == "..") {
        errors.invalid(&path, text, "must not contain '..'");
    }
    true
}

fn nfs(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["server", "path"] {
        if str_field(source, field).is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    let text = str_field(source, "path");
    if !text.starts_with('/') {
        errors.invalid(&path.child("path"), text, "must be an absolute path");
    }
}

/// Validates the namespace of endpoints: `validateGlusterfsPersistentVolumeSource`.
fn endpoints_namespace(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("endpointsNamespace");
    match non_null(source, "endpointsNamespace").and_then(Value::as_str) {
        None => {}
        Some("") => errors.invalid(&path, "", "if the endpointnamespace is set, it must be a valid namespace name"),
        Some(name) => checks::format(name, names::dns1123_label, &path, errors),
    }
}

/// Requires the namespace of a secret: `validateCinderPersistentVolumeSource`,
/// `validateStorageOSPersistentVolumeSource`.
fn secret_namespace(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if non_null(source, "secretRef").is_some_and(|secret| str_field(secret, "namespace").is_empty()) {
        errors.required(&path.child("secretRef").child("namespace"), "");
    }
}

fn csi(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    csi_driver_name(str_field(source, "driver"), &path.child("driver"), errors);
    if str_field(source, "volumeHandle").is_empty() {
        errors.required(&path.child("volumeHandle"), "");
    }
    for field in
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"]
    {
        let Some(secret) = non_null(source, field) else { continue };
        let path = path.child(field);
        for (part, check) in [
            ("name", names::dns1123_subdomain as fn(&str) -> Vec<String>),
            ("namespace", names::dns1123_label as fn(&str) -> Vec<String>),
        ] {
            checks::required_format(secret, part, check, &path, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    /// `TestValidatePersistentVolumes` and `TestValidateLocalVolumes`.
    #[rstest]
    #[case::fine(json!({"nfs": {"server": "s", "path": "/p"}}), &[])]
    #[case::none(json!({}), &["spec: Required value: must specify a volume type"])]
    #[case::two(json!({"nfs": {"server": "s", "path": "/p"}, "hostPath": {"path": "/a"}}),
        &["spec.nfs: Forbidden: may not specify more than 1 volume type"])]
    #[case::back(json!({"hostPath": {"path": "/foo/.."}}), &["spec.hostPath.path: Invalid value: \"/foo/..\": must not contain '..'"])]
    #[case::root(json!({"hostPath": {"path": "/a/.."}, "persistentVolumeReclaimPolicy": "Delete"}),
        &["spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'"])]
    #[case::recycled(json!({"hostPath": {"path": "/."}, "persistentVolumeReclaimPolicy": "Recycle"}),
        &["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"])]
    #[case::nfs(json!({"nfs": {"path": "p"}}), &["spec.nfs.server: Required value",
        "spec.nfs.path: Invalid value: \"p\": must be an absolute path"])]
    #[case::local(json!({"local": {"path": "/a"}}), &["spec.nodeAffinity: Required value: Local volume requires node affinity"])]
    #[case::csi(json!({"csi": {"driver": "d", "controllerPublishSecretRef": {"name": "s"}}}),
        &["spec.csi.volumeHandle: Required value", "spec.csi.controllerPublishSecretRef.namespace: Required value"])]
    #[case::iscsi(json!({"iscsi": {"targetPortal": "t", "iqn": "x", "secretRef": {}, "initiatorName": ""}}), &[
        "spec.iscsi.iqn: Invalid value: \"x\": must be valid format", "spec.iscsi.secretRef.name: Required value",
        "spec.iscsi.initiatorname: Invalid value: \"\": must be valid format"])]
    #[case::storageos(json!({"storageos": {"volumeName": "v", "secretRef": {}}}),
        &["spec.storageos.secretRef.name: Required value", "spec.storageos.secretRef.namespace: Required value"])]
    #[case::glusterfs(json!({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}}), &[
        "spec.glusterfs.endpointsNamespace: Invalid value: \"\": if the endpointnamespace is set, it must be a valid namespace name"])]
    #[case::disk(json!({"gcePersistentDisk": {}}), &["spec.persistentDisk.pdName: Required value"])]
    fn sources(#[case] spec: Value, #[case] expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate(&spec, &Path::new("spec"), &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }
}
