//! Validation of the volume sources of storage systems. See `validateVolumeSource` in
//! `pkg/apis/core/validation/validation.go`. PURE.

use std::sync::LazyLock;

use regex::Regex;

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, is_empty_value, non_null, object_mut, str_field, text_default, value_default};
use crate::json::{Map, Value};
use crate::registry::{checks, names};

/// The required texts and lists of each source, in upstream's order.
const REQUIRED: [(&str, &[&str]); 16] = [
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("gitRepo", &["repository"]),
    ("storageos", &["volumeName"]),
];

/// Largest LUN and partition.
const MOST: i64 = 255;

const BAD_FORMAT: &str = "must be valid format";

const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";

static IQN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"iqn\.\d{4}-\d{2}\.([[:alnum:]\-.]+)(:[^,;*&$|\s]+)$").ok());

static EUI: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^eui.[[:alnum:]]{16}$").ok());

static NAA: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^naa.[[:alnum:]]{32}$").ok());

/// Validates the iSCSI source of a persistent volume: `validateISCSIPersistentVolumeSource`.
pub(in crate::registry) fn persistent_iscsi(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    required_fields("iscsi", source, path, errors);
    iscsi(source, BAD_FORMAT, true, path, errors);
}

fn required_fields(kind: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let required = REQUIRED.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, fields)| fields);
    for field in required.iter().filter(|field| is_empty_value(source.get(**field))) {
        errors.required(&path.child(field), "");
    }
}

/// Validates a source of one of these kinds; other kinds have no rules here.
pub(in crate::registry) fn validate(kind: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    required_fields(kind, source, path, errors);
    match kind {
        // Upstream's message does not name the partition 0, which is allowed.
        "gcePersistentDisk" | "awsElasticBlockStore" => in_range(source, "partition", 1, path, errors),
        "iscsi" => iscsi(source, "must be valid format starting with iqn, eui, or naa", false, path, errors),
        "fc" => fibre_channel(source, path, errors),
        "flocker" => flocker(source, path, errors),
        "quobyte" => quobyte(source, path, errors),
        "flexVolume" => reserved_options(source, path, errors),
        "azureDisk" => azure_disk(source, path, errors),
        "cinder" => secret_name(source, path, errors),
        "storageos" => {
            for field in ["volumeName", "volumeNamespace"] {
                let name = str_field(source, field);
                if !name.is_empty() {
                    checks::format(name, names::dns1123_label, &path.child(field), errors);
                }
            }
            secret_name(source, path, errors);
        }
        _ => {}
    }
}

fn secret_name(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if non_null(source, "secretRef").is_some_and(|secret| str_field(secret, "name").is_empty()) {
        errors.required(&path.child("secretRef").child("name"), "");
    }
}

/// Checks that a number is between 0 and [`MOST`]; the message says that it begins with `shown`.
fn in_range(source: &Value, field: &str, shown: i64, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(number) = source.get(field).and_then(Value::as_i64).filter(|number| !(0..=MOST).contains(number)) {
        errors.invalid(&path.child(field), number, names::inclusive_range_error(shown, MOST));
    }
}

/// Validates an iSCSI source. `odd_name` is the error of a name of an unknown kind.
fn iscsi(source: &Value, odd_name: &str, names_secret: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let name = str_field(source, "iqn");
    if !name.is_empty() {
        qualified_iscsi_name(name, odd_name, &path.child("iqn"), errors);
    }
    in_range(source, "lun", 0, path, errors);
    let asks = |field: &str| source.get(field) == Some(&Value::Bool(true));
    if (asks("chapAuthDiscovery") || asks("chapAuthSession")) && non_null(source, "secretRef").is_none() {
        errors.required(&path.child("secretRef"), "");
    }
    if names_secret {
        secret_name(source, path, errors);
    }
    if let Some(initiator) = non_null(source, "initiatorName").and_then(Value::as_str) {
        qualified_iscsi_name(initiator, odd_name, &path.child("initiatorname"), errors);
    }
}

/// Returns the error of an iSCSI volume whose initiator's path would be too long.
pub(in crate::registry) fn long_initiator(volume: &Value) -> Option<&'static str> {
    const LONGEST: usize = 64;
    let source = non_null(volume, "iscsi")?;
    non_null(source, "initiatorName")?;
    let length = str_field(volume, "name").len() + ":".len() + str_field(source, "targetPortal").len();
    (length > LONGEST).then_some(
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
    )
}

fn qualified_iscsi_name(name: &str, odd_name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let format = match name.get(..3) {
        Some("iqn") => &IQN,
        Some("eui") => &EUI,
        Some("naa") => &NAA,
        _ => return errors.invalid(path, name, odd_name),
    };
    if format.as_ref().is_some_and(|format| !format.is_match(name)) {
        errors.invalid(path, name, BAD_FORMAT);
    }
}

fn fibre_channel(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let targets = array_field(source, "targetWWNs");
    let ids = array_field(source, "wwids");
    let path_of_targets = path.child("targetWWNs");
    if targets.is_empty() && ids.is_empty() {
        errors.required(&path_of_targets, "must specify either targetWWNs or wwids, but not both");
    }
    if targets.is_empty() {
        return;
    }
    if !ids.is_empty() {
        let why = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(&path_of_targets, Value::from(targets.to_vec()), why);
    }
    if non_null(source, "lun").is_none() {
        errors.required(&path.child("lun"), "lun is required if targetWWNs is specified");
    }
    in_range(source, "lun", 0, path, errors);
}

fn flocker(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let name = str_field(source, "datasetName");
    let id = str_field(source, "datasetUUID");
    match (name.is_empty(), id.is_empty()) {
        (true, true) => errors.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
        }
        _ => {}
    }
    if name.contains('/') {
        errors.invalid(&path.child("datasetName"), name, "must not contain '/'");
    }
}

fn quobyte(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    /// Longest tenant in bytes.
    const LONGEST: usize = 64;
    let registry = str_field(source, "registry");
    if registry.is_empty() {
        errors.required(&path.child("registry"), PAIRS);
    } else if str_field(source, "tenant").len() > LONGEST {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&path.child("tenant"), why);
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.invalid(&path.child("registry"), registry, PAIRS);
        }
    }
    if str_field(source, "volume").is_empty() {
        errors.required(&path.child("volume"), "");
    }
}

/// Returns true for texts such as `host:1` and `[::1]:1`, like Go's `net.SplitHostPort`.
fn is_host_and_port(pair: &str) -> bool {
    match pair.rsplit_once(':') {
        None => false,
        Some((host, _)) => match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => !inner.contains(['[', ']']),
            None => !host.contains([':', '[', ']']),
        },
    }
}

fn reserved_options(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("options");
    for key in source.get("options").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        let namespace = key.split_once('/').map_or(key.as_str(), |(namespace, _)| namespace).to_lowercase();
        let reserved = ["kubernetes.io", "k8s.io"];
        if reserved.iter().any(|one| namespace == *one || namespace.ends_with(&format!(".{one}"))) {
            errors.invalid(&path.key(key), key.as_str(), "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

/// Adds the defaults of sources that pods and persistent volumes share: `SetObjectDefaults_PersistentVolume` in
/// `pkg/apis/core/v1/zz_generated.defaults.go`.
pub(super) fn defaults(volume: &mut Map) {
    if let Some(path) = object_mut(volume, "hostPath") {
        value_default(path, "type", "");
    }
    if let Some(iscsi) = object_mut(volume, "iscsi") {
        text_default(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = object_mut(volume, "rbd") {
        text_default(rbd, "pool", "rbd");
        text_default(rbd, "user", "admin");
        text_default(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = object_mut(volume, "azureDisk") {
        value_default(disk, "cachingMode", "ReadWrite");
        value_default(disk, "kind", "Shared");
        value_default(disk, "fsType", "ext4");
        value_default(disk, "readOnly", false);
    }
    if let Some(disk) = object_mut(volume, "scaleIO") {
        text_default(disk, "storageMode", "ThinProvisioned");
        text_default(disk, "fsType", "xfs");
    }
}

fn azure_disk(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    checks::one_of(source, "cachingMode", &["None", "ReadOnly", "ReadWrite"], path, errors);
    checks::one_of(source, "kind", &["Dedicated", "Managed", "Shared"], path, errors);
    let Some(kind) = non_null(source, "kind").and_then(Value::as_str) else { return };
    let uri = str_field(source, "diskURI");
    let path = path.child("diskURI");
    let (prefix, supported) = if kind == "Managed" { ("/subscriptions/", MANAGED) } else { ("https://", BLOB) };
    if !uri.starts_with(prefix) {
        errors.not_supported(&path, uri, &[supported]);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case::disk("gcePersistentDisk", json!({"partition": 256}), &["v.pdName: Required value", "v.partition: Invalid value: 256: must be between 1 and 255, inclusive"])]
    #[case::iscsi("iscsi", json!({"targetPortal": "t", "iqn": "iqn.2015-02.example.com:a", "lun": 0}), &[])]
    #[case::odd_iscsi("iscsi", json!({"targetPortal": "t", "iqn": "x", "chapAuthSession": true, "initiatorName": "iqn"}), &[
        "v.iqn: Invalid value: \"x\": must be valid format starting with iqn, eui, or naa",
        "v.secretRef: Required value",
        "v.initiatorname: Invalid value: \"iqn\": must be valid format"])]
    #[case::fc("fc", json!({}), &["v.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"])]
    #[case::quobyte("quobyte", json!({"registry": "a:1,b", "volume": "v"}), &["v.registry: Invalid value: \"a:1,b\": must be a host:port pair or multiple pairs separated by commas"])]
    #[case::flex("flexVolume", json!({"driver": "d", "options": {"a.k8s.io/b": "c", "x": "y"}}), &["v.options[a.k8s.io/b]: Invalid value: \"a.k8s.io/b\": kubernetes.io and k8s.io namespaces are reserved"])]
    #[case::other("nfs", json!({}), &[])]
    fn sources(#[case] kind: &str, #[case] source: Value, #[case] expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate(kind, &source, &Path::new("v"), &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }
}
