//! Core `v1` `ConfigMap`. See `ValidateConfigMap` in `pkg/apis/core/validation/validation.go`.

use crate::field_errors::{ErrorList, NO_FIELD, Path};
use crate::json::{Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::count;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::data::{MAX_SIZE, decoded_length, drop_empty, entries, validate_immutable_data};
use crate::registry::meta;
use crate::registry::names::{self, NameFormat};
use crate::registry::strategy::Strategy;

const METADATA: Path<'static> = Path::new("metadata");

/// The resource `configmaps`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "configmaps", "ConfigMap", "io.k8s.api.core.v1.ConfigMap")
        .short(&["cm"])
        .hash("qFsyl6wFWjQ=")
        .rules(ConfigMap)
        .columns(COLUMNS)
}

/// The strategy of config maps.
#[derive(Debug, Clone, Copy)]
struct ConfigMap;

impl Strategy for ConfigMap {
    fn default(&self, object: &mut Value) {
        drop_empty(object, &["data", "binaryData"]);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &METADATA);
        let mut size = 0;
        for (field, other) in [("data", Some("binaryData")), ("binaryData", None)] {
            let path = Path::new(field);
            for (key, value) in entries(object, field) {
                size += value.as_str().map_or(0, if field == "data" { str::len } else { decoded_length });
                for message in names::config_map_key(key) {
                    errors.invalid(&path.key(key), key.as_str(), message);
                }
                let twice = other.is_some_and(|o| object.get(o).is_some_and(|o| o.get(key).is_some()));
                if twice {
                    errors.invalid(&path.key(key), key.as_str(), "duplicate of key present in binaryData");
                }
            }
        }
        if size > MAX_SIZE {
            errors.too_long(&Path::new(NO_FIELD), MAX_SIZE);
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        validate_immutable_data(new, old, &["data", "binaryData"], &mut errors);
        errors.append(self.validate(new));
        errors
    }
}

/// The columns of `configmaps`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Data",
        Description::Field("api.core.v1.ConfigMap", "data"),
        CellSource::Custom(|object, _| json!(count(object, "/data") + count(object, "/binaryData"))),
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_maps_stay() {
        let old = json!({"metadata": {"name": "c", "namespace": "n", "resourceVersion": "1"}, "data": {"a": "b"}, "immutable": true});
        let mut new = old.clone();
        new["data"]["a"] = "c".into();
        new["immutable"] = false.into();
        let fields: Vec<String> = ConfigMap.validate_update(&new, &old).into_iter().map(|e| e.field).collect();
        assert_eq!(fields, ["immutable", "data"]);
    }
}
