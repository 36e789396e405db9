//! Decodes request bodies. Follows `staging/src/k8s.io/apiserver/pkg/endpoints/handlers` (`create.go`, `update.go`) of
//! Kubernetes 1.36.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;

use super::body_format::{BodyFormat, body_format};
use super::options::WriteOptions;
use super::request_scope::RequestScope;
use crate::crd;
use crate::json::{Map, Value};
use crate::metadata;
use crate::registry::{ErrorList, Path, meta};
use crate::schema::{self, DecodeError, DecodedBody, FieldValidation, NO_KIND, Schema, TypeMetaError};
use crate::status::{Status, go_quote};
use crate::yaml;

/// Largest request body in bytes, upstream's limit.
pub(crate) const BODY_MAX: usize = 3 * 1024 * 1024;

/// Versions of kinds that are registered but no longer served.
const RETIRED: [(&str, &str); 12] = [
    ("apps/v1beta1", "Scale"),
    ("apps/v1beta2", "Scale"),
    ("extensions/v1beta1", "Scale"),
    ("apps/v1beta1", "Deployment"),
    ("apps/v1beta1", "StatefulSet"),
    ("apps/v1beta2", "DaemonSet"),
    ("apps/v1beta2", "Deployment"),
    ("apps/v1beta2", "ReplicaSet"),
    ("apps/v1beta2", "StatefulSet"),
    ("policy/v1beta1", "PodDisruptionBudget"),
    ("batch/v1beta1", "CronJob"),
    ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"),
];

pub(crate) fn unrecognized_object(kind: &str, why: &str, body: &[u8]) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({})",
        summary(body)
    ))
}

/// Returns the beginning of a body as upstream quotes it.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let head = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            use std::fmt::Write as _;
            let mut hex = String::new();
            for byte in head {
                let _ = write!(hex, "{byte:02x}");
            }
            hex + more
        }
    }
}

/// The errors of strict decoding.
#[derive(Debug, thiserror::Error)]
#[error("strict decoding error: {}", .0.join(", "))]
struct StrictDecodingError(Vec<String>);

/// Like [`schema::type_meta`] for text that has been decoded: parses the text again only if decoding found something
/// unusual.
fn decoded_type_meta(
    decoded: &Result<DecodedBody, DecodeError>,
    text: &[u8],
) -> Result<(String, String), TypeMetaError> {
    if let Ok(DecodedBody { value: Value::Object(map), strict }) = decoded
        && strict.is_empty()
    {
        let text = |name: &str| map.get(name).map_or(Some(""), Value::as_str);
        if let (Some(kind), Some(api_version)) = (text("kind"), text("apiVersion")) {
            return Ok((kind.to_owned(), api_version.to_owned()));
        }
    }
    schema::type_meta(text)
}

fn decode_as(schema: Option<&Schema>, text: &[u8]) -> Result<DecodedBody, DecodeError> {
    match schema {
        Some(schema) => schema.decode(text),
        None => schema::decode_untyped(text),
    }
}

/// Decodes the object in the body: of the path's kind, with defaults, validated as strictly as requested.
pub(crate) fn decode_object(scope: &RequestScope<'_>, options: &WriteOptions) -> Result<Value, Status> {
    let kind = scope.kind.clone();
    let mut object = decode_kind(scope, options, &kind.kind, &kind.group, &kind.version, Some(scope.schema().clone()))?;
    scope.kind.strategy.default(&mut object);
    Ok(object)
}

/// Decodes the object in the body as kind `wanted`, without defaults.
pub(crate) fn decode_kind(
    scope: &RequestScope<'_>,
    options: &WriteOptions,
    wanted: &str,
    group: &str,
    version: &str,
    schema: Option<Arc<Schema>>,
) -> Result<Value, Status> {
    let body = &scope.request.body;
    let own_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let (text, again): (Bytes, Vec<String>) = match body_format(scope.request.header(CONTENT_TYPE), body, wanted)? {
        BodyFormat::Json => (body.clone(), Vec::new()),
        BodyFormat::Yaml => {
            let read = yaml::to_json(body).map_err(|error| unrecognized_object(wanted, &error.to_string(), body))?;
            (read.json.into(), read.again)
        }
    };
    let decoded = decode_as(schema.as_deref(), &text);
    let (kind, api_version) =
        decoded_type_meta(&decoded, &text).map_err(|error| unrecognized_object(wanted, &error.to_string(), body))?;
    if scope.kind.is_unstructured() && schema.as_ref().is_some_and(|schema| schema.is_structural()) {
        // Custom resources must have kind and apiVersion.
        if kind.is_empty() {
            let shown = String::from_utf8_lossy(&text);
            return Err(unrecognized_object(wanted, &format!("Object 'Kind' is missing in '{shown}'"), body));
        }
        if api_version.is_empty() {
            return Err(Status::bad_request(format!(
                "the API version in the data () does not match the expected API version ({own_version})"
            )));
        }
    }
    let api_version = if api_version.is_empty() { own_version.clone() } else { api_version };
    // An empty group before the slash is the core group.
    let api_version = match api_version.strip_prefix('/') {
        Some(version) if !version.is_empty() && !version.contains('/') => version.to_owned(),
        _ => api_version,
    };
    if api_version.matches('/').count() > 1 {
        return Err(unrecognized_object(wanted, &format!("unexpected GroupVersion string: {api_version}"), body));
    }
    let kind = if kind.is_empty() { wanted.to_owned() } else { kind };
    let version = api_version.rsplit_once('/').map_or(api_version.as_str(), |(_, version)| version);
    let wrong = |why: &str| {
        let version = go_quote(version);
        Status::bad_request(format!("{kind} in version {version} cannot be handled as a {wanted}: {why}"))
    };
    // Upstream detects excessive depth while it looks for the kind, before anything else.
    let deep = |error: &DecodeError| unrecognized_object(wanted, &format!("{NO_KIND}{error}"), body);
    let decoded = decoded.map_err(|error| if error.too_deep() { deep(&error) } else { wrong(&error.message) })?;
    let mut object = decoded.value;
    let mut strict = decoded.strict;
    if scope.kind.is_unstructured() && wanted == scope.kind.kind {
        strict.sort_by_cached_key(|what| strict_error_rank(what));
        metadata_error(scope, &object).map_or(Ok(()), |why| Err(wrong(&why)))?;
        check_custom_type(scope, &object, &kind, &api_version)?;
    }
    if kind != wanted {
        return Err(wrong(&wrong_kind_error(scope, &kind, &api_version)));
    }
    // Evictions are still accepted in their old version.
    let old_eviction = wanted == "Eviction" && api_version == "policy/v1beta1";
    if api_version != own_version && !old_eviction {
        return Err(wrong_version_error(scope, &kind, &api_version, &own_version, &wrong));
    }
    apply_field_validation(scope, options.field_validation, again, strict)
        .map_err(|error| wrong(&error.to_string()))?;
    set_type_meta(&mut object, wanted, &own_version);
    Ok(object)
}

/// Decodes the object in the body of a subresource as a built-in kind of its own, without defaults.
pub(crate) fn decode_builtin(
    scope: &RequestScope<'_>,
    api_version: &str,
    kind: &str,
    schema_name: &str,
) -> Result<Value, Status> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let options = WriteOptions::parse(scope.query, "CreateOptions", None)?;
    decode_kind(scope, &options, kind, group, version, schema::builtin(schema_name))
}

/// Applies `fieldValidation` to the errors of strict decoding. `again` holds the duplicate keys of YAML.
fn apply_field_validation(
    scope: &RequestScope<'_>,
    validation: FieldValidation,
    again: Vec<String>,
    mut strict: Vec<String>,
) -> Result<(), StrictDecodingError> {
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => again.into_iter().chain(strict).for_each(|warning| scope.warn(warning)),
        FieldValidation::Strict => {
            if !again.is_empty() {
                strict.insert(0, yaml::duplicate_keys_error(&again));
            }
            if !strict.is_empty() {
                return Err(StrictDecodingError(strict));
            }
        }
    }
    Ok(())
}

/// Rejects another kind or version of a custom resource, with the messages specific to custom resources.
fn check_custom_type(scope: &RequestScope<'_>, object: &Value, kind: &str, api_version: &str) -> Result<(), Status> {
    let expected = scope.kind.api_version();
    if api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if kind == scope.kind.kind {
        return Ok(());
    }
    let mut errors = ErrorList::new();
    errors.invalid(&Path::new("kind"), kind, format!("must be {}", scope.kind.kind));
    Err(Status::invalid(&scope.kind.group, kind, metadata::name(object), &errors))
}

/// Returns the reason for rejecting an object of another kind.
pub(crate) fn wrong_kind_error(scope: &RequestScope<'_>, kind: &str, api_version: &str) -> String {
    let version = api_version.split_once('/').map_or(api_version, |(_, version)| version);
    if !recognizes(scope, api_version, kind) {
        return kind_not_registered(scope, kind, api_version);
    }
    let own = match scope.path.subresource.as_str() {
        "scale" => "autoscaling.Scale".to_owned(),
        "eviction" => "policy.Eviction".to_owned(),
        "token" => "authentication.TokenRequest".to_owned(),
        "binding" => "core.Binding".to_owned(),
        _ => match scope.kind.group.split('.').next().unwrap_or_default() {
            "" => format!("core.{}", scope.kind.kind),
            first => format!("{first}.{}", scope.kind.kind),
        },
    };
    // These have one type for all groups, that of `meta/v1`.
    let shared = kind == "WatchEvent" || kind.ends_with("Options") && !kind.starts_with("Pod");
    let version = if shared { "v1" } else { version };
    format!("converting ({version}.{kind}) to ({own}): unknown conversion")
}

fn wrong_version_error(
    scope: &RequestScope<'_>,
    kind: &str,
    api_version: &str,
    own_version: &str,
    wrong: &dyn Fn(&str) -> Status,
) -> Status {
    let retired = RETIRED.contains(&(api_version, kind)) && scheme_of(&scope.kind.group).is_none();
    if !retired && !recognizes(scope, api_version, kind) {
        return wrong(&kind_not_registered(scope, kind, api_version));
    }
    Status::bad_request(format!(
        "the API version in the data ({api_version}) does not match the expected API version ({own_version})"
    ))
}

/// Sets kind and apiVersion.
fn set_type_meta(object: &mut Value, kind: &str, api_version: &str) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let Some(map) = object.as_object_mut() {
        map.insert("kind", kind.into());
        map.insert("apiVersion", api_version.into());
    }
}

/// Returns the error of decoding the metadata of a custom resource, or an object that is embedded in it.
pub(crate) fn metadata_error(scope: &RequestScope<'_>, object: &Value) -> Option<String> {
    let metadata = object.get("metadata").filter(|metadata| !metadata.is_null())?;
    meta::decode_error(metadata).or_else(|| {
        let own = scope.kind.custom.as_ref()?;
        crd::embedded_error(&own.schema, object, "").map(|error| error.to_string())
    })
}

/// Sort key for errors of the custom resource decoder: duplicate fields in the order of the text, then metadata, then
/// pruned fields, then metadata of embedded objects, each by name.
fn strict_error_rank(what: &str) -> (u8, String) {
    let rank = match what.strip_prefix("unknown field \"") {
        None => return (0, String::new()),
        Some(field) if field.starts_with("metadata.") => 1,
        Some(field) if field.contains(".metadata.") => 3,
        Some(_) => 2,
    };
    (rank, what.to_owned())
}

/// The place of the scheme that knows all other kinds.
pub(super) const LEGACY_SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// Returns the place of the scheme that knows the kinds of a group. The aggregation layer and the server of definitions
/// have their own, which know no other group.
fn scheme_of(group: &str) -> Option<&'static str> {
    match group {
        "apiregistration.k8s.io" => Some("k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28"),
        "apiextensions.k8s.io" => Some("k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55"),
        _ => None,
    }
}

/// Returns true if the kinds of a group have a server of their own.
pub(super) fn has_own_server(group: &str) -> bool {
    scheme_of(group).is_some()
}

/// Returns true if the scheme of a request's server knows a kind.
fn recognizes(scope: &RequestScope<'_>, api_version: &str, kind: &str) -> bool {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_own = !has_own_server(&scope.kind.group) || group == scope.kind.group;
    is_own && scope.server.registry().recognizes(group, version, kind)
}

fn kind_not_registered(scope: &RequestScope<'_>, kind: &str, api_version: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"{}\"",
        go_quote(kind),
        go_quote(api_version),
        scheme_of(&scope.kind.group).unwrap_or(LEGACY_SCHEME)
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bodies whose kind and apiVersion are malformed in many ways.
    fn bodies() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec!["kind", "apiVersion", "metadata", "Kind", "x", "ki\\u006ed"]);
        let word = prop::sample::select(vec!["\"Pod\"", "\"\"", "null", "1", "{}", "[]", "\"v1\"", "{\"name\":\"n\"}"]);
        let member = (name, word).prop_map(|(name, word)| format!("\"{name}\":{word}"));
        let members = prop::collection::vec(member, 0..4).prop_map(|members| members.join(","));
        let around =
            prop::sample::select(vec![("{", "}"), ("[", "]"), ("{", ""), ("", ""), (" {", "} x"), ("[{", "}]")]);
        prop_oneof![
            6 => members.clone().prop_map(|members| format!("{{{members}}}")),
            1 => (members, around).prop_map(|(members, (open, close))| format!("{open}{members}{close}")),
            1 => (100..140_usize).prop_map(|depth| format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth))),
            1 => Just("null".to_owned()),
        ]
    }

    #[test]
    fn duplicate_fields_stay_in_order() {
        let mut what = ["duplicate field \"z\"", "unknown field \"b\"", "duplicate field \"c\"", "unknown field \"a\""];
        what.sort_by_cached_key(|what| strict_error_rank(what));
        let fields = what.map(|what| what.split('"').nth(1).unwrap_or_default());
        assert_eq!(fields, ["z", "c", "a", "b"]);
    }

    #[test]
    fn complaints_about_embedded_metadata_come_last() {
        let mut what = ["emb.metadata.a", "junk", "metadata.z"].map(|field| format!("unknown field \"{field}\""));
        what.sort_by_cached_key(|what| strict_error_rank(what));
        assert_eq!(what, ["metadata.z", "junk", "emb.metadata.a"].map(|field| format!("unknown field \"{field}\"")));
    }

    proptest! {
        #[test]
        fn a_decoded_body_is_of_the_kind_that_its_text_says(text in bodies(), custom in any::<bool>()) {
            let custom = custom.then(|| Arc::new(Schema::from_structural(None, true).unwrap()));
            for schema in [custom, schema::builtin("io.k8s.api.core.v1.Pod"), None] {
                let decoded = decode_as(schema.as_deref(), text.as_bytes());
                prop_assert_eq!(decoded_type_meta(&decoded, text.as_bytes()), schema::type_meta(text.as_bytes()), "{}", text);
            }
        }
    }
}
