//! Core `v1` Secret. See `ValidateSecret` in `pkg/apis/core/validation/validation.go`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{is_empty_value, object_or_insert, str_field};
use crate::json::{Map, Value};
use crate::metadata;
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::core::data::{MAX_SIZE, decoded_length, drop_empty, entries, validate_immutable_data};
use crate::registry::names::{self, NameFormat};
use crate::registry::strategy::Strategy;
use crate::registry::{checks, meta};
use crate::x509::pem_block;

const METADATA: Path<'static> = Path::new("metadata");

/// The resource `secrets`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("", "v1", "secrets", "Secret", "io.k8s.api.core.v1.Secret")
        .hash("S6u1pOWzb84=")
        .fields(&[("type", "")])
        .rules(Secret)
        .columns(COLUMNS)
}

/// The strategy of secrets.
#[derive(Debug, Clone, Copy)]
struct Secret;

impl Strategy for Secret {
    fn default(&self, object: &mut Value) {
        let Some(map) = object.as_object_mut() else { return };
        let plain = map.remove("stringData");
        if let Some(Value::Object(plain)) = plain
            && let Some(data) = object_or_insert(object, "data")
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
            && is_empty_value(map.get("type"))
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
        if str_field(new, "type") != str_field(old, "type") {
            errors.invalid(&Path::new("type"), str_field(new, "type"), checks::IMMUTABLE_MESSAGE);
        }
        validate_immutable_data(new, old, &["data"], &mut errors);
        errors.append(self.validate(new));
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        Vec::from_iter(key_pair_error(object).filter(|_| str_field(object, "type") == "kubernetes.io/tls"))
    }

    fn warnings_on_update(&self, new: &Value, _old: &Value) -> Vec<String> {
        self.warnings_on_create(new)
    }
}

/// Returns the error of Go's `tls.X509KeyPair` about a pair that is no PEM. Pairs of PEM are not read further.
fn key_pair_error(secret: &Value) -> Option<String> {
    let of = |key: &str| decode(str_field(&secret["data"], key));
    let certificate = pem_types(&of("tls.crt"));
    let wrong = |what: &str, wanted: &str, types: &[String]| match types {
        [] => format!("tls: failed to find any PEM data in {what} input"),
        _ => format!(
            "tls: failed to find {wanted} in {what} input after skipping PEM blocks of the following types: [{}]",
            types.join(" ")
        ),
    };
    if !certificate.iter().any(|kind| kind == "CERTIFICATE") {
        let switched = matches!(&*certificate, [kind] if kind.ends_with("PRIVATE KEY"));
        return Some(if switched {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned()
        } else {
            wrong("certificate", "\"CERTIFICATE\" PEM block", &certificate)
        });
    }
    let key = pem_types(&of("tls.key"));
    if key.iter().any(|kind| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) {
        return None;
    }
    let switched = matches!(&*key, [kind] if kind == "CERTIFICATE");
    Some(if switched {
        "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
    } else {
        wrong("key", "PEM block with type ending in \"PRIVATE KEY\"", &key)
    })
}

/// Returns the types of the PEM blocks in a text, in their order. A block begins at the last `BEGIN` before its `END`.
fn pem_types(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let parts: Vec<&str> = text.split("-----END ").collect();
    let blocks = parts.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        let (_, block) = before.rsplit_once("-----BEGIN ")?;
        let (kind, _) = block.split_once("-----").filter(|(kind, _)| !kind.contains('\n'))?;
        let (end, _) = after.split_once("-----")?;
        let block = format!("-----BEGIN {block}-----END {end}-----");
        pem_block(&block, kind).filter(|content| !content.is_empty()).map(|_| kind.to_owned())
    });
    blocks.collect()
}

/// Validates the keys that a secret's type requires.
fn validate_type(object: &Value, errors: &mut ErrorList) {
    let none = Map::new();
    let data = object.get("data").and_then(Value::as_object).unwrap_or(&none);
    let path = Path::new("data");
    let kind = str_field(object, "type");
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
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").is_none_or(|v| is_empty_value(Some(v))) => {
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
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let mut group = 0_u32;
    let mut bits = 0;
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

/// The columns of `secrets`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string("Type", Description::Field("api.core.v1.Secret", "type"), CellSource::Text("/type", "")),
    Column::string("Data", Description::Field("api.core.v1.Secret", "data"), CellSource::Count("/data")),
    AGE,
];

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

    #[rstest]
    #[case::none("", &[])]
    #[case::one("text\n-----BEGIN A-----\ndg==\n-----END A-----\n", &["A"])]
    #[case::two("-----BEGIN A-----\ndg==\n-----END A-----\n-----BEGIN B C-----\ndg==\n-----END B C-----", &["A", "B C"])]
    #[case::without_an_end("-----BEGIN A-----\ndg==\n-----BEGIN B-----\ndg==\n-----END B-----\n", &["B"])]
    #[case::another_end("-----BEGIN A-----\ndg==\n-----END B-----\n", &[])]
    #[case::empty("-----BEGIN A-----\n-----END A-----\n", &[])]
    fn types_of_blocks(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(pem_types(text.as_bytes()), expected);
    }

    /// A reader that looks at the whole rest for each of them would take minutes.
    #[test]
    fn blocks_without_an_end_cost_no_more_than_their_length() {
        assert_eq!(pem_types("-----BEGIN A-----\n".repeat(60_000).as_bytes()), Vec::<String>::new());
    }
}
