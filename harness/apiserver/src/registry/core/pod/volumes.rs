//! Validation of volumes. See `ValidateVolumes` in `pkg/apis/core/validation/validation.go`.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, non_null, str_field};
use crate::quantity::Quantity;
use crate::registry::core::persistent_volume_claim;
use crate::registry::core::pod::env;
use crate::registry::core::pod::paths::{descending_path, local_path, mode, validate_no_backsteps};
use crate::registry::core::volume_sources;
use crate::registry::resource_list;
use crate::registry::{checks, names, template_metadata};
use crate::status::go_quote;

/// The valid volumes of a pod; others cannot be mounted.
pub(super) struct ValidVolumes<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> ValidVolumes<'a> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.source(name).is_some()
    }

    pub(super) fn source(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).copied()
    }
}

/// Validates `spec.volumes` and returns the valid ones. `pod` is the name of the pod; `None` for a template.
pub(super) fn validate<'a>(
    spec: &'a Value,
    pod: Option<&str>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> ValidVolumes<'a> {
    let mut valid = ValidVolumes(BTreeMap::new());
    let created = created_claims(spec, pod);
    for (i, volume) in array_field(spec, "volumes").iter().enumerate() {
        let path = path.index(i);
        let name = str_field(volume, "name");
        let before = errors.len();
        source(volume, pod.is_some(), &path, errors);
        if let Some(why) = volume_sources::long_initiator(volume) {
            errors.invalid(&path.child("name"), name, why);
        }
        claim_name(volume, pod, &path, errors);
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
            valid.0.insert(name, volume);
        }
        let claim = str_field(&volume["persistentVolumeClaim"], "claimName");
        if created.contains(claim) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&path.child("persistentVolumeClaim").child("claimName"), claim, why);
        }
    }
    valid
}

/// Returns the names of the claims that are created for a pod's ephemeral volumes.
fn created_claims(spec: &Value, pod: Option<&str>) -> BTreeSet<String> {
    let Some(pod) = pod.filter(|pod| !pod.is_empty()) else { return BTreeSet::new() };
    let ephemeral = array_field(spec, "volumes").iter().filter(|volume| non_null(volume, "ephemeral").is_some());
    ephemeral.map(|volume| format!("{pod}-{}", str_field(volume, "name"))).collect()
}

/// Volume sources in upstream's order.
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

fn source(volume: &Value, of_pod: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for kind in SOURCES {
        let Some(source) = non_null(volume, kind) else { continue };
        if found {
            errors.forbidden(&path.child(shown_kind(kind)), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        // Upstream calls this source differently here.
        let shown = if *kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
        validate_source(kind, source, of_pod, &path.child(shown), errors);
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

/// Returns the name of a source in the error for a second one, which is misspelled upstream.
fn shown_kind(kind: &str) -> &str {
    match kind {
        "cephfs" => "cephFS",
        "downwardAPI" => "downwarAPI",
        other => other,
    }
}

fn required_text(source: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if str_field(source, field).is_empty() {
        errors.required(&path.child(field), "");
    }
}

fn validate_source(kind: &str, source: &Value, of_pod: bool, path: &Path<'_>, errors: &mut ErrorList) {
    match kind {
        "emptyDir" => {
            let limit = source.get("sizeLimit").map(resource_list::quantity_text);
            if limit.and_then(|t| Quantity::parse(&t)).is_some_and(|q| q.sign() < 0) {
                errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => host_path(source, path, errors),
        "secret" => {
            required_text(source, "secretName", path, errors);
            mode(source.get("defaultMode"), &path.child("defaultMode"), errors);
            env::key_items(source, path, errors);
        }
        "configMap" => {
            required_text(source, "name", path, errors);
            mode(source.get("defaultMode"), &path.child("defaultMode"), errors);
            env::key_items(source, path, errors);
        }
        "downwardAPI" => {
            mode(source.get("defaultMode"), &path.child("defaultMode"), errors);
            env::downward_items(array_field(source, "items"), path, errors);
        }
        "persistentVolumeClaim" => required_text(source, "claimName", path, errors),
        "nfs" => {
            required_text(source, "server", path, errors);
            required_text(source, "path", path, errors);
            let target = str_field(source, "path");
            if !target.starts_with('/') {
                errors.invalid(&path.child("path"), target, "must be an absolute path");
            }
        }
        "gitRepo" => {
            volume_sources::validate(kind, source, path, errors);
            descending_path(str_field(source, "directory"), &path.child("directory"), errors);
        }
        "image" => image(source, of_pod, path, errors),
        "csi" => {
            driver(str_field(source, "driver"), &path.child("driver"), errors);
            if let Some(secret) = non_null(source, "nodePublishSecretRef") {
                match str_field(secret, "name") {
                    "" => errors.required(&path.child("nodePublishSecretRef").child("name"), ""),
                    // Upstream names no more of the path.
                    name => checks::format(name, names::dns1123_subdomain, &path.child("name"), errors),
                }
            }
        }
        "ephemeral" => claim(source, &path.child("volumeClaimTemplate"), errors),
        "projected" => projected(source, path, errors),
        _ => volume_sources::validate(kind, source, path, errors),
    }
}

fn image(source: &Value, of_pod: bool, path: &Path<'_>, errors: &mut ErrorList) {
    if of_pod {
        required_text(source, "reference", path, errors);
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    checks::validate_enum(str_field(source, "pullPolicy"), &policies, &path.child("pullPolicy"), errors);
}

/// Validates the name of a CSI driver.
fn driver(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    if name.len() > 63 {
        errors.too_long(path, 63);
    }
    for message in names::dns1123_subdomain(&name.to_lowercase()) {
        errors.invalid(path, name, message);
    }
}

/// Validates the claim template of an ephemeral volume.
fn claim(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(template) = non_null(source, "volumeClaimTemplate") else {
        errors.required(path, "");
        return;
    };
    template_metadata::validate(template, &path.child("metadata"), errors);
    persistent_volume_claim::validate_spec(
        template.get("spec").unwrap_or(&Value::Null),
        false,
        &path.child("spec"),
        errors,
    );
}

/// Validates the name of an ephemeral volume's claim, which combines the names of pod and volume.
fn claim_name(volume: &Value, pod: Option<&str>, path: &Path<'_>, errors: &mut ErrorList) {
    let name = str_field(volume, "name");
    let Some(pod) = pod.filter(|pod| !pod.is_empty() && !name.is_empty()) else { return };
    if SOURCES.iter().find(|kind| non_null(volume, kind).is_some()) != Some(&"ephemeral") {
        return;
    }
    let claim = format!("{pod}-{name}");
    for message in names::dns1123_subdomain(&claim) {
        errors.invalid(&path.child("name"), name, format!("PVC name {}: {message}", go_quote(&claim)));
    }
}

fn host_path(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target = str_field(source, "path");
    if target.is_empty() {
        errors.required(&path.child("path"), "");
        return;
    }
    validate_no_backsteps(target, &path.child("path"), errors);
    let kind = str_field(source, "type");
    let allowed = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if !allowed.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &allowed);
    }
}

const CONFLICT: &str = "conflicting duplicate paths";

/// Calls `twice` for each path of the items that is in `taken`, and adds all of them.
fn collect_paths<'a>(holder: &'a Value, taken: &mut BTreeSet<&'a str>, mut twice: impl FnMut(&str)) {
    for target in array_field(holder, "items").iter().map(|item| str_field(item, "path")).filter(|t| !t.is_empty()) {
        if !taken.insert(target) {
            twice(target);
        }
    }
}

fn projected(source: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    let path = all;
    mode(source.get("defaultMode"), &path.child("defaultMode"), errors);
    let sources_path = path.child("sources");
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for (i, source) in array_field(source, "sources").iter().enumerate() {
        let path = sources_path.index(i);
        let mut count = 0;
        for field in ["secret", "configMap"] {
            let Some(part) = non_null(source, field) else { continue };
            count += 1;
            required_text(part, "name", &path.child(field), errors);
            env::key_items(part, &path.child(field), errors);
            let name = str_field(part, "name");
            collect_paths(part, &mut taken, |_| errors.invalid(all, name, CONFLICT));
        }
        if let Some(part) = non_null(source, "downwardAPI") {
            count += 1;
            env::downward_items(array_field(part, "items"), &path.child("downwardAPI"), errors);
            collect_paths(part, &mut taken, |target| errors.invalid(all, target, CONFLICT));
        }
        if let Some(token) = non_null(source, "serviceAccountToken") {
            count += 1;
            token_life(token, &path.child("serviceAccountToken").child("expirationSeconds"), errors);
            if str_field(token, "path").is_empty() {
                errors.required(&all.child("path"), "");
            } else {
                local_path(str_field(token, "path"), &all.child("path"), errors);
            }
        }
        if count > 1 {
            errors.forbidden(&path, "may not specify more than 1 volume type per source");
        }
    }
}

/// Validates the life of a projected token in seconds.
fn token_life(token: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    /// Shortest and longest life.
    const SHORTEST: i64 = 600;
    const LONGEST_LIFE: i64 = 1 << 32;
    let Some(seconds) = token.get("expirationSeconds").and_then(Value::as_i64) else { return };
    if seconds < SHORTEST {
        errors.invalid(path, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > LONGEST_LIFE {
        errors.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds");
    }
}
