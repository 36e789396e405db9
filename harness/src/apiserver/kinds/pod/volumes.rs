//! Validation of volumes.

use serde_json::Value;

use crate::apiserver::field::{ErrorList, Path};
use crate::apiserver::kinds::quantity::Quantity;
use crate::apiserver::kinds::selector::array;
use crate::apiserver::kinds::{meta, names};

/// The valid volumes of a pod: only those can be mounted.
pub(super) struct Volumes<'a>(Vec<&'a Value>);

impl<'a> Volumes<'a> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.source(name).is_some()
    }

    pub(super) fn source(&self, name: &str) -> Option<&'a Value> {
        self.0.iter().find(|v| meta::text(v, "name") == name).copied()
    }
}

fn given<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|v| !v.is_null())
}

/// Checks `spec.volumes`; gives those without errors.
pub(super) fn validate<'a>(spec: &'a Value, path: &Path<'_>, errors: &mut ErrorList) -> Volumes<'a> {
    let mut valid = Volumes(Vec::new());
    for (i, volume) in array(spec, "volumes").iter().enumerate() {
        let path = path.index(i);
        let name = meta::text(volume, "name");
        let before = errors.len();
        source(volume, &path, errors);
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            for message in names::dns1123_label(name) {
                errors.invalid(&path.child("name"), name, message);
            }
        }
        if valid.has(name) {
            errors.duplicate(&path.child("name"), name);
        }
        if errors.len() == before {
            valid.0.push(volume);
        }
    }
    valid
}

/// Sources in the order in which upstream looks at them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn source(volume: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for kind in SOURCES {
        let Some(source) = given(volume, kind) else { continue };
        let path = path.child(kind);
        if found {
            errors.forbidden(&path, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        one(kind, source, &path, errors);
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

fn required_text(source: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if meta::text(source, field).is_empty() {
        errors.required(&path.child(field), "");
    }
}

fn one(kind: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match kind {
        "emptyDir" => {
            let limit = source.get("sizeLimit").map(super::defaults::quantity_text);
            if limit.and_then(|t| Quantity::parse(&t)).is_some_and(|q| q.sign() < 0) {
                errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => host_path(source, path, errors),
        "secret" => {
            required_text(source, "secretName", path, errors);
            mode(source.get("defaultMode"), &path.child("defaultMode"), errors);
            super::env::key_items(source, path, errors);
        }
        "configMap" => {
            required_text(source, "name", path, errors);
            mode(source.get("defaultMode"), &path.child("defaultMode"), errors);
            super::env::key_items(source, path, errors);
        }
        "downwardAPI" => {
            mode(source.get("defaultMode"), &path.child("defaultMode"), errors);
            super::env::downward_items(array(source, "items"), path, errors);
        }
        "persistentVolumeClaim" => required_text(source, "claimName", path, errors),
        "nfs" => {
            required_text(source, "server", path, errors);
            required_text(source, "path", path, errors);
            let target = meta::text(source, "path");
            if !target.is_empty() && !target.starts_with('/') {
                errors.invalid(&path.child("path"), target, "must be an absolute path");
            }
        }
        "gitRepo" => required_text(source, "repository", path, errors),
        "csi" => required_text(source, "driver", path, errors),
        "ephemeral" if given(source, "volumeClaimTemplate").is_none() => {
            errors.required(&path.child("volumeClaimTemplate"), "");
        }
        "projected" => projected(source, path, errors),
        _ => {}
    }
}

fn host_path(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target = meta::text(source, "path");
    if target.is_empty() {
        errors.required(&path.child("path"), "");
        return;
    }
    no_backsteps(target, &path.child("path"), errors);
    let kind = meta::text(source, "type");
    let allowed = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if !allowed.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &allowed);
    }
}

fn projected(source: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    let path = all;
    mode(source.get("defaultMode"), &path.child("defaultMode"), errors);
    let sources_path = path.child("sources");
    for (i, source) in array(source, "sources").iter().enumerate() {
        let path = sources_path.index(i);
        let mut count = 0;
        for field in ["secret", "configMap"] {
            let Some(part) = given(source, field) else { continue };
            count += 1;
            if count > 1 {
                errors.forbidden(&path.child(field), "may not specify more than 1 volume type per source");
                continue;
            }
            required_text(part, "name", &path.child(field), errors);
            super::env::key_items(part, &path.child(field), errors);
        }
        if let Some(part) = given(source, "downwardAPI") {
            super::env::downward_items(array(part, "items"), &path.child("downwardAPI"), errors);
        }
        if let Some(token) = given(source, "serviceAccountToken") {
            let token_path = path.child("serviceAccountToken");
            if let Some(seconds) = token.get("expirationSeconds").and_then(Value::as_i64).filter(|s| *s < 600) {
                let why = "may not specify a duration less than 10 minutes";
                errors.invalid(&token_path.child("expirationSeconds"), seconds, why);
            }
            if meta::text(token, "path").is_empty() {
                errors.required(&all.child("path"), "");
            }
        }
    }
}

/// A file mode.
pub(super) fn mode(value: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = value.and_then(Value::as_i64)
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// A path that stays below where it starts.
pub(super) fn descending_path(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    no_backsteps(target, path, errors);
}

fn no_backsteps(target: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if target.split('/').any(|step| step == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}
