//! `storage.k8s.io/v1` `VolumeAttachment`. See `pkg/registry/storage/volumeattachment/strategy.go` and
//! `pkg/apis/storage/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{non_null, object_or_default, spec_of, str_field, value_default};
use crate::json::{Map, Value, json};
use crate::name_formats;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::flag;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::{internal_json, persistent_volume};
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::storage::common::csi_driver_name;
use crate::registry::{checks, names};

const SPEC: Path<'static> = Path::new("spec");

/// The resource `volumeattachments` of `storage.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", "io.k8s.api.storage.v1.VolumeAttachment")
        .cluster()
        .status_without_metadata()
        .hash("tJx/ezt6UDU=")
        .rules(
            KindStrategy::new(
                Generic {
                    status: true,
                    unconditional: false,
                    namespaced: false,
                    updates: MetadataRules::Whole,
                    ..Generic::NEW
                },
                defaults,
            )
            .check_with(validate)
            .check_update_with(spec_stays)
            .check_status_with(|new, _| validate_status(new)),
        )
        .columns(COLUMNS)
}

/// Defaults of `VolumeAttachment`.
fn defaults(map: &mut Map) {
    if let Some(status) = object_or_default(map, "status") {
        value_default(status, "attached", false);
    }
}

/// Requires the spec to be unchanged.
fn spec_stays(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    internal_json::immutable("=VolumeAttachmentSpec", new.get("spec"), old.get("spec"), &SPEC, &mut errors);
    errors
}

/// Validates a `VolumeAttachment`.
fn validate(object: &Value) -> ErrorList {
    const EXACTLY_ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let mut errors = ErrorList::new();
    let spec = spec_of(object);
    csi_driver_name(str_field(spec, "attacher"), &SPEC.child("attacher"), &mut errors);
    let source = &spec["source"];
    let path = SPEC.child("source");
    let volume = non_null(source, "persistentVolumeName").and_then(Value::as_str);
    match (volume, non_null(source, "inlineVolumeSpec")) {
        (None, None) => errors.required(&path, EXACTLY_ONE),
        (Some(_), Some(_)) => errors.forbidden(&path, EXACTLY_ONE),
        (Some(""), None) => {
            errors.required(&path.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        (None, Some(spec)) => persistent_volume::validate_inline(spec, &path.child("inlineVolumeSpec"), &mut errors),
        (Some(_), None) => {}
    }
    checks::format(str_field(spec, "nodeName"), names::dns1123_subdomain, &SPEC.child("nodeName"), &mut errors);
    if let Some(volume) = volume {
        checks::format(volume, names::dns1123_subdomain, &path.child("persistentVolumeName"), &mut errors);
    }
    errors
}

/// Validates the status of a `VolumeAttachment`. Too long a message gets upstream's number.
fn validate_status(object: &Value) -> ErrorList {
    const METADATA_MAX: usize = 256 * 1024;
    const MESSAGE_MAX: usize = 1024;
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let status = &object["status"];
    let metadata = status["attachmentMetadata"].as_object().into_iter().flatten();
    let size: usize = metadata.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > METADATA_MAX {
        errors.too_long(&path.child("attachmentMetadata"), METADATA_MAX);
    }
    for field in ["attachError", "detachError"] {
        let path = path.child(field);
        if str_field(&status[field], "message").len() > MESSAGE_MAX {
            errors.too_long(&path.child("message"), METADATA_MAX);
        }
        if let Some(code) = status[field]["errorCode"].as_i64().filter(|code| *code < 0) {
            let why = name_formats::inclusive_range_error(0, i32::MAX.into());
            errors.invalid(&path.child("errorCode"), code, why);
        }
    }
    errors
}

/// The columns of `volumeattachments`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Attacher",
        Description::Field("api.storage.v1.VolumeAttachmentSpec", "attacher"),
        CellSource::Text("/spec/attacher", ""),
    )
    .named(),
    Column::string(
        "PV",
        Description::Field("api.storage.v1.VolumeAttachmentSource", "persistentVolumeName"),
        CellSource::Text("/spec/source/persistentVolumeName", ""),
    ),
    Column::string(
        "Node",
        Description::Field("api.storage.v1.VolumeAttachmentSpec", "nodeName"),
        CellSource::Text("/spec/nodeName", ""),
    ),
    Column::boolean(
        "Attached",
        Description::Field("api.storage.v1.VolumeAttachmentStatus", "attached"),
        CellSource::Custom(|o, _| json!(flag(o, "/status/attached"))),
    ),
    AGE,
];
