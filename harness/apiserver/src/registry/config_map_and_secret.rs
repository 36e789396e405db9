//! Core `v1` `ConfigMap` and Secret.
//!
//! See `ValidateConfigMap` and `ValidateSecret` in `pkg/apis/core/validation/validation.go`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{NameFormat, Strategy, meta, names};
use crate::field_errors::{BadValue, ErrorList, NO_FIELD, Path};
use crate::json::{Key, Map, Value};
use crate::metadata;

/// The strategy of config maps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigMap;

/// The strategy of secrets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secret;

const METADATA: Path<'static> = Path::new("metadata");

/// Maximum size in bytes of all data together.
const MAX_SIZE: usize = 1024 * 1024;

const IMMUTABLE_MESSAGE: &str = "field is immutable when `immutable` is set";

fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a Key, &'a Value)> {
    object.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn drop_empty(object: &mut Value, fields: &[&str]) {
    if let Some(map) = object.as_object_mut() {
        for field in fields {
            if meta::is_empty_value(map.get(*field)) {
                map.remove(*field);
            }
        }
    }
}

fn validate_immutable_data(new: &Value, old: &Value, fields: &[&str], errors: &mut ErrorList) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    if new.get("immutable") != Some(&Value::Bool(true)) {
        errors.forbidden(&Path::new("immutable"), IMMUTABLE_MESSAGE);
    }
    for field in fields {
        if !meta::semantic_equal(new.get(*field), old.get(*field)) {
            errors.forbidden(&Path::new(field), IMMUTABLE_MESSAGE);
        }
    }
}

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

/// Returns the decoded length of a base64 text.
fn decoded_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

impl Strategy for Secret {
    fn default(&self, object: &mut Value) {
        let Some(map) = object.as_object_mut() else { return };
        let plain = map.remove("stringData");
        if let Some(Value::Object(plain)) = plain
            && let Some(data) = meta::object_or_insert(object, "data")
        {
            for (key, value) in plain {
                data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
            }
        }
        // Null bytes become empty, as in a Go `[]byte`.
        for value in object.get_mut("data").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            if value.is_null() {
                *value = "".into();
            }
        }
        if let Some(map) = object.as_object_mut()
            && meta::is_empty_value(map.get("type"))
        {
            map.insert("type", "Opaque".into());
        }
        drop_empty(object, &["data"]);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = meta::validate(object, true, NameFormat::Subdomain, &METADATA);
        let path = Path::new("data");
        let mut size = 0;
        for (key, value) in entries(object, "data") {
            for message in names::config_map_key(key) {
                errors.invalid(&path.key(key), key.as_str(), message);
            }
            size += value.as_str().map_or(0, decoded_length);
        }
        if size > MAX_SIZE {
            errors.too_long(&path, MAX_SIZE);
        }
        validate_type(object, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = meta::validate_update(new, old, &METADATA);
        if meta::str_field(new, "type") != meta::str_field(old, "type") {
            errors.invalid(&Path::new("type"), meta::str_field(new, "type"), meta::IMMUTABLE_MESSAGE);
        }
        validate_immutable_data(new, old, &["data"], &mut errors);
        errors.append(self.validate(new));
        errors
    }
}

/// Validates the keys that a secret's type requires.
fn validate_type(object: &Value, errors: &mut ErrorList) {
    let none = Map::new();
    let data = object.get("data").and_then(Value::as_object).unwrap_or(&none);
    let path = Path::new("data");
    let kind = meta::str_field(object, "type");
    match kind {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            let annotation = metadata::annotation(object, key).unwrap_or_default();
            if annotation.is_empty() {
                errors.required(&METADATA.child("annotations").key(key), "");
            }
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.contains_key(key) {
                    errors.required(&path.key(key), "");
                }
            }
        }
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            errors.required(&path.key("username"), "");
            errors.required(&path.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").is_none_or(|v| meta::is_empty_value(Some(v))) => {
            errors.required(&path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/dockerconfigjson" | "kubernetes.io/dockercfg" => {
            let key = if kind.ends_with("json") { ".dockerconfigjson" } else { ".dockercfg" };
            match data.get(key).and_then(Value::as_str) {
                None => errors.required(&path.key(key), ""),
                Some(text) => {
                    if let Some(problem) = json_error(&decode(text)) {
                        let shown = BadValue::Quoted("<secret contents redacted>".to_owned());
                        errors.invalid(&path.key(key), shown, problem);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Returns the error of Go's decoder for bytes that are not JSON, in the common cases.
fn json_error(bytes: &[u8]) -> Option<String> {
    if serde_json::from_slice::<Map>(bytes).is_ok() {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    match text.trim_start().chars().next() {
        Some(c) if !matches!(c, '{' | '[' | '"' | '0'..='9' | '-' | 't' | 'f' | 'n') => {
            Some(format!("invalid character '{c}' looking for beginning of value"))
        }
        None | Some(_) => Some("unexpected end of JSON input".to_owned()),
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes base64, skipping characters outside of the alphabet.
fn decode(text: &str) -> Vec<u8> {
    let (mut out, mut group, mut bits) = (Vec::with_capacity(text.len() * 3 / 4), 0_u32, 0);
    for value in text.bytes().filter_map(|b| ALPHABET.iter().position(|a| *a == b)) {
        group = group << 6 | value as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((group >> bits) as u8);
            group &= (1 << bits) - 1;
        }
    }
    out
}

/// Reduces the secrets of a service account to their names. See `pkg/registry/core/serviceaccount/strategy.go`.
pub(super) fn keep_names_of_secrets(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten().filter_map(Value::as_object_mut) {
        secret.retain(|field, _| field.as_str() == "name");
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case("", "")]
    #[case("v", "dg==")]
    #[case("ab", "YWI=")]
    #[case("abc", "YWJj")]
    #[case("abcd", "YWJjZA==")]
    fn base64_both_ways(#[case] plain: &str, #[case] encoded: &str) {
        assert_eq!(STANDARD.encode(plain), encoded);
        assert_eq!(decode(encoded), plain.as_bytes());
    }

    #[test]
    fn string_data_moves_into_data() {
        let mut secret = json!({"stringData": {"k": "v"}});
        Secret.default(&mut secret);
        assert_eq!(secret, json!({"data": {"k": "dg=="}, "type": "Opaque"}));
    }

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
