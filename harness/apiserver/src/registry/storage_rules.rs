//! Validation of storage classes, CSI drivers, capacities and volume attachments. See
//! `pkg/apis/storage/validation/validation.go`. PURE.

use std::collections::{BTreeMap, BTreeSet};

use super::checks;
use super::label_selector::array_field;
use super::meta::{self, non_null, spec_of};
use super::names;
use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::{Map, Value};
use crate::quantity::Quantity;

const SPEC: Path<'static> = Path::new("spec");

/// Most parameters of a class, and bytes of all of them.
const PARAMETERS_MAX: usize = 512;
const PARAMETER_BYTES_MAX: usize = 256 * 1024;

/// Validates a `StorageClass`.
pub(super) fn storage_class(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = |field| Path::new(field);
    provisioner(object, "provisioner", &mut errors);
    parameters(object, true, &mut errors);
    if !meta::str_field(object, "reclaimPolicy").is_empty() {
        let supported = ["Delete", "Retain"];
        let given = meta::str_field(object, "reclaimPolicy");
        if !supported.contains(&given) {
            errors.not_supported(&root("reclaimPolicy"), given, &supported);
        }
    }
    let supported = ["Immediate", "WaitForFirstConsumer"];
    match meta::str_field(object, "volumeBindingMode") {
        "" => errors.required(&root("volumeBindingMode"), ""),
        given if !supported.contains(&given) => {
            errors.not_supported(&root("volumeBindingMode"), given, &supported);
        }
        _ => {}
    }
    let path = root("allowedTopologies");
    let terms = array_field(object, "allowedTopologies");
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index);
        topology_term(term, &path, &mut errors);
        let same = |other: &&Value| topology(other) == topology(term);
        for _ in terms[..index].iter().filter(same) {
            errors.duplicate(&path.child("matchLabelExpressions"), "");
        }
    }
    errors
}

/// Returns the values of each key of a topology term.
fn topology(term: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let all = array_field(term, "matchLabelExpressions").iter();
    all.map(|one| {
        let values = array_field(one, "values").iter().filter_map(Value::as_str).collect();
        (meta::str_field(one, "key"), values)
    })
    .collect()
}

fn topology_term(term: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let root = path.child("matchLabelExpressions");
    let expressions = array_field(term, "matchLabelExpressions");
    for (index, expression) in expressions.iter().enumerate() {
        let path = root.index(index);
        let (key, values) = (meta::str_field(expression, "key"), array_field(expression, "values"));
        let of_values = path.child("values");
        if values.is_empty() {
            errors.required(&of_values, "");
        }
        for (index, value) in values.iter().enumerate().filter(|(index, value)| values[..*index].contains(value)) {
            errors.duplicate(&of_values.index(index), value);
        }
        checks::format(key, names::qualified_name, &path.child("key"), errors);
        if expressions[..index].iter().any(|other| meta::str_field(other, "key") == key) {
            errors.duplicate(&path.child("key"), key);
        }
    }
}

/// Validates an update of a `StorageClass`.
pub(super) fn storage_class_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        meta::validate_immutable(new.get(field), old.get(field), &Path::new(field), &mut errors);
    }
    errors
}

/// Validates an update of a `VolumeAttributesClass`.
pub(super) fn volume_attributes_class_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    for field in ["driverName", "parameters"] {
        if !meta::semantic_equal(new.get(field), old.get(field)) {
            errors.forbidden(&Path::new(field), format!("updates to {field} are forbidden."));
        }
    }
    errors
}

/// Validates an update of a `CSIStorageCapacity`.
pub(super) fn csi_storage_capacity_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if !meta::semantic_equal(new.get("nodeTopology"), old.get("nodeTopology")) {
        let shown = BadValue::Raw(meta::selector_json(non_null(new, "nodeTopology")));
        errors.invalid(&Path::new("nodeTopology"), shown, meta::IMMUTABLE_MESSAGE);
    }
    let field = "storageClassName";
    if meta::str_field(new, field) != meta::str_field(old, field) {
        errors.invalid(&Path::new(field), meta::str_field(new, field), meta::IMMUTABLE_MESSAGE);
    }
    errors
}

/// Validates a `VolumeAttributesClass`.
pub(super) fn volume_attributes_class(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    provisioner(object, "driverName", &mut errors);
    parameters(object, false, &mut errors);
    errors
}

fn provisioner(object: &Value, field: &'static str, errors: &mut ErrorList) {
    let path = Path::new(field);
    match meta::str_field(object, field) {
        "" => errors.required(&path, ""),
        name => checks::format(&name.to_ascii_lowercase(), names::qualified_name, &path, errors),
    }
}

fn parameters(object: &Value, may_be_empty: bool, errors: &mut ErrorList) {
    let path = Path::new("parameters");
    let none = Map::new();
    let all = object.get("parameters").and_then(Value::as_object).unwrap_or(&none);
    if all.len() > PARAMETERS_MAX {
        return errors.too_long(&path, PARAMETERS_MAX);
    }
    if all.contains_key("") {
        errors.invalid(&path, "", "field can not be empty.");
    }
    let bytes: usize = all.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > PARAMETER_BYTES_MAX {
        errors.too_long(&path, PARAMETER_BYTES_MAX);
    }
    if !may_be_empty && all.is_empty() {
        errors.required(&path, "must contain at least one key/value pair");
    }
}

/// Validates a `CSIDriver`.
pub(super) fn csi_driver(object: &Value) -> ErrorList {
    /// Longest and shortest life of a token in seconds.
    const LONGEST: i64 = 1 << 32;
    const SHORTEST: i64 = 600;
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    checks::one_of(spec, "fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"], &SPEC, &mut errors);
    let root = SPEC.child("tokenRequests");
    let requests = array_field(spec, "tokenRequests");
    for (index, request) in requests.iter().enumerate() {
        let (path, audience) = (root.index(index), meta::str_field(request, "audience"));
        if requests[..index].iter().any(|other| meta::str_field(other, "audience") == audience) {
            errors.duplicate(&path.child("audience"), audience);
            continue;
        }
        match request["expirationSeconds"].as_i64() {
            Some(seconds) if seconds < SHORTEST => {
                let why = "may not specify a duration less than 10 minutes";
                errors.invalid(&path.child("expirationSeconds"), seconds, why);
            }
            Some(seconds) if seconds > LONGEST => {
                let why = "may not specify a duration larger than 2^32 seconds";
                errors.invalid(&path.child("expirationSeconds"), seconds, why);
            }
            _ => {}
        }
    }
    let modes = ["Persistent", "Ephemeral"];
    for mode in array_field(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
        if !modes.contains(&mode) {
            errors.not_supported(&SPEC.child("volumeLifecycleModes"), mode, &modes);
        }
    }
    if let Some(seconds) = spec["nodeAllocatableUpdatePeriodSeconds"].as_i64().filter(|seconds| *seconds < 10) {
        let path = SPEC.child("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(&path, seconds, "must be greater than or equal to 10 seconds");
    }
    errors
}

/// Validates a `CSIStorageCapacity`.
pub(super) fn csi_storage_capacity(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let topology = Path::new("nodeTopology");
    errors.append(super::label_selector::validate(non_null(object, "nodeTopology"), false, &topology));
    let class = meta::str_field(object, "storageClassName");
    checks::format(class, names::dns1123_subdomain, &Path::new("storageClassName"), &mut errors);
    if let Some(capacity) = Quantity::of(&object["capacity"]).filter(|capacity| capacity.sign() < 0) {
        let why = "must be greater than or equal to 0";
        errors.invalid(&Path::new("capacity"), capacity.to_string(), why);
    }
    errors
}

/// Validates the name of a driver.
pub(super) fn csi_driver_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const LONGEST: usize = 63;
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > LONGEST {
        errors.too_long(path, LONGEST);
    }
    for why in names::dns1123_subdomain(&name.to_lowercase()) {
        errors.invalid(path, name, why);
    }
}

/// Validates a `VolumeAttachment`.
pub(super) fn volume_attachment(object: &Value) -> ErrorList {
    const EXACTLY_ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    csi_driver_name(meta::str_field(spec, "attacher"), &SPEC.child("attacher"), &mut errors);
    let (source, path) = (&spec["source"], SPEC.child("source"));
    let volume = non_null(source, "persistentVolumeName").and_then(Value::as_str);
    match (volume, non_null(source, "inlineVolumeSpec")) {
        (None, None) => errors.required(&path, EXACTLY_ONE),
        (Some(_), Some(_)) => errors.forbidden(&path, EXACTLY_ONE),
        (Some(""), None) => {
            errors.required(&path.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    checks::format(meta::str_field(spec, "nodeName"), names::dns1123_subdomain, &SPEC.child("nodeName"), &mut errors);
    if let Some(volume) = volume {
        checks::format(volume, names::dns1123_subdomain, &path.child("persistentVolumeName"), &mut errors);
    }
    errors
}
