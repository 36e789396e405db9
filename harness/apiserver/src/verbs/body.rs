//! Decodes request bodies and encodes replies in the negotiated representation. Follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers` (`create.go`, `update.go`, `response.go`) of Kubernetes 1.36.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE};

use super::media::{Format, format_of};
use super::options::{WriteOptions, go_type};
use super::scope::Scope;
use super::write::Written;
use super::yaml;
use crate::encoding;
use crate::json::{Map, Value, json};
use crate::kinds::{ErrorList, Path, meta};
use crate::request::{Reply, ReplyBody};
use crate::schema::{self, DecodeError, Decoded, FieldValidation, Schema};
use crate::status::{Status, go_quote};
use crate::store::Stored;
use crate::table::accept::{self, MediaType, Negotiated, Transform};
use crate::table::{self, IncludeObject, Rendering};

/// Largest request body in bytes, upstream's limit.
pub(crate) const BODY_MAX: usize = 3 * 1024 * 1024;

/// Media types that are decoded and encoded, in the order in which errors list them.
pub(crate) const MEDIA_TYPES: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Further media types that routes of collections and watches produce.
pub(crate) const STREAM_TYPES: [&str; 2] =
    ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// Versions of kinds that are registered but no longer served.
const RETIRED: [(&str, &str); 9] = [
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

pub(crate) fn unrecognized(kind: &str, why: &str, body: &[u8]) -> Status {
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

#[derive(serde::Deserialize)]
struct TypeMeta {
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "apiVersion")]
    api_version: String,
}

const GO_TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Prefix of errors about text in which no kind could be found.
const NO_KIND: &str = "couldn't get version/kind; json parse error: ";

/// Returns kind and apiVersion of a body; empty if they are absent.
pub(crate) fn type_meta(text: &[u8]) -> Result<(String, String), String> {
    // serde would accept a list as the fields in order.
    let is_list = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if let Ok(found) = serde_json::from_slice::<TypeMeta>(text)
        && !is_list
    {
        return Ok((found.kind, found.api_version));
    }
    let why = match schema::decode_untyped(text) {
        Err(error) => error.message,
        Ok(decoded) => match &decoded.value {
            Value::Null => return Ok((String::new(), String::new())),
            Value::Object(map) => {
                let wrong = |name: &str, go: &str| {
                    let value = map.get(name).filter(|value| !value.is_string() && !value.is_null())?;
                    let found = go_type(value);
                    Some(format!("json: cannot unmarshal {found} into Go struct field .{go} of type string"))
                };
                let Some(error) = wrong("apiVersion", "apiVersion").or_else(|| wrong("kind", "kind")) else {
                    let text = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                    return Ok((text("kind"), text("apiVersion")));
                };
                error
            }
            other => format!("json: cannot unmarshal {} into Go value of type {GO_TYPE_META}", go_type(other)),
        },
    };
    Err(format!("{NO_KIND}{why}"))
}

/// Like [`type_meta`] for text that has been decoded: parses the text again only if decoding found something unusual.
fn decoded_type_meta(decoded: &Result<Decoded, DecodeError>, text: &[u8]) -> Result<(String, String), String> {
    if let Ok(Decoded { value: Value::Object(map), strict }) = decoded
        && strict.is_empty()
    {
        let text = |name: &str| map.get(name).map_or(Some(""), Value::as_str);
        if let (Some(kind), Some(api_version)) = (text("kind"), text("apiVersion")) {
            return Ok((kind.to_owned(), api_version.to_owned()));
        }
    }
    type_meta(text)
}

fn decode_as(schema: Option<&Schema>, text: &[u8]) -> Result<Decoded, DecodeError> {
    match schema {
        Some(schema) => schema.decode(text),
        None => schema::decode_untyped(text),
    }
}

impl Scope<'_> {
    /// Decodes the object in the body: of the path's kind, with defaults, validated as strictly as requested.
    pub(crate) fn decode(&self, options: &WriteOptions) -> Result<Value, Status> {
        let kind = self.kind.clone();
        let mut object = self.decode_kind(options, &kind.kind, &kind.group, &kind.version, Some(self.schema()))?;
        self.kind.strategy.default(&mut object);
        Ok(object)
    }

    /// Decodes the object in the body as kind `wanted`, without defaults.
    pub(crate) fn decode_kind(
        &self,
        options: &WriteOptions,
        wanted: &str,
        group: &str,
        version: &str,
        schema: Option<Arc<Schema>>,
    ) -> Result<Value, Status> {
        let body = &self.request.body;
        let own_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let (text, again): (Bytes, Vec<String>) = match format_of(self.request.header(CONTENT_TYPE), body, wanted)? {
            Format::Json => (body.clone(), Vec::new()),
            Format::Yaml => {
                let read = yaml::to_json(body).map_err(|why| unrecognized(wanted, &why, body))?;
                (read.json.into(), read.again)
            }
        };
        let decoded = decode_as(schema.as_deref(), &text);
        let (kind, api_version) = decoded_type_meta(&decoded, &text).map_err(|why| unrecognized(wanted, &why, body))?;
        if self.is_custom() && schema.as_ref().is_some_and(|schema| schema.is_structural()) {
            // Custom resources must have kind and apiVersion.
            if kind.is_empty() {
                let shown = String::from_utf8_lossy(&text);
                return Err(unrecognized(wanted, &format!("Object 'Kind' is missing in '{shown}'"), body));
            }
            if api_version.is_empty() {
                return Err(Status::bad_request(format!(
                    "the API version in the data () does not match the expected API version ({own_version})"
                )));
            }
        }
        let api_version = if api_version.is_empty() { own_version.clone() } else { api_version };
        if api_version.matches('/').count() > 1 {
            return Err(unrecognized(wanted, &format!("unexpected GroupVersion string: {api_version}"), body));
        }
        let kind = if kind.is_empty() { wanted.to_owned() } else { kind };
        let version = api_version.rsplit_once('/').map_or(api_version.as_str(), |(_, version)| version);
        let wrong = |why: &str| {
            let version = go_quote(version);
            Status::bad_request(format!("{kind} in version {version} cannot be handled as a {wanted}: {why}"))
        };
        // Upstream detects excessive depth while it looks for the kind, before anything else.
        let deep = |error: &DecodeError| unrecognized(wanted, &format!("{NO_KIND}{error}"), body);
        let decoded = decoded.map_err(|error| if error.too_deep() { deep(&error) } else { wrong(&error.message) })?;
        let (mut object, mut strict) = (decoded.value, decoded.strict);
        if self.is_custom() && wanted == self.kind.kind {
            strict.sort_by_cached_key(|what| (order_of_complaint(what), what.clone()));
            unfit_metadata(&object).map_or(Ok(()), |why| Err(wrong(&why)))?;
            self.check_custom_type(&object, &kind, &api_version)?;
        }
        if kind != wanted {
            return Err(wrong(&self.foreign_kind(&kind, &api_version)));
        }
        // Evictions are still accepted in their old version.
        let old_eviction = wanted == "Eviction" && api_version == "policy/v1beta1";
        if api_version != own_version && !old_eviction {
            return Err(self.foreign_version(&kind, &api_version, &own_version, &wrong));
        }
        self.judge_strictly(options.field_validation, again, strict).map_err(|why| wrong(&why))?;
        set_type_meta(&mut object, wanted, &own_version);
        Ok(object)
    }

    /// Applies `fieldValidation` to the errors of strict decoding. `again` holds the duplicate keys of YAML.
    fn judge_strictly(
        &self,
        validation: FieldValidation,
        again: Vec<String>,
        mut strict: Vec<String>,
    ) -> Result<(), String> {
        match validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => again.into_iter().chain(strict).for_each(|warning| self.warn(warning)),
            FieldValidation::Strict => {
                if !again.is_empty() {
                    strict.insert(0, yaml::complaints(&again));
                }
                if !strict.is_empty() {
                    return Err(format!("strict decoding error: {}", strict.join(", ")));
                }
            }
        }
        Ok(())
    }

    /// Rejects another kind or version of a custom resource, with the messages specific to custom resources.
    fn check_custom_type(&self, object: &Value, kind: &str, api_version: &str) -> Result<(), Status> {
        let expected = self.kind.api_version();
        if api_version != expected {
            return Err(Status::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            )));
        }
        if kind == self.kind.kind {
            return Ok(());
        }
        let mut errors = ErrorList::new();
        errors.invalid(&Path::new("kind"), kind, format!("must be {}", self.kind.kind));
        Err(Status::invalid(&self.kind.group, kind, meta::name(object), &errors))
    }

    /// Returns the reason for rejecting an object of another kind.
    pub(crate) fn foreign_kind(&self, kind: &str, api_version: &str) -> String {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if !self.server.registry().knows(group, version, kind) {
            return unregistered(kind, api_version);
        }
        let own = match self.path.subresource.as_str() {
            "scale" => "autoscaling.Scale".to_owned(),
            "eviction" => "policy.Eviction".to_owned(),
            "token" => "authentication.TokenRequest".to_owned(),
            "binding" => "core.Binding".to_owned(),
            _ => match self.kind.group.split('.').next().unwrap_or_default() {
                "" => format!("core.{}", self.kind.kind),
                first => format!("{first}.{}", self.kind.kind),
            },
        };
        format!("converting ({version}.{kind}) to ({own}): unknown conversion")
    }

    fn foreign_version(
        &self,
        kind: &str,
        api_version: &str,
        own_version: &str,
        wrong: &dyn Fn(&str) -> Status,
    ) -> Status {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let retired = RETIRED.contains(&(api_version, kind));
        if !retired && !self.server.registry().knows(group, version, kind) {
            return wrong(&unregistered(kind, api_version));
        }
        Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({own_version})"
        ))
    }

    /// Negotiates the reply.
    pub(crate) fn negotiate(&self) -> Result<Negotiated, Status> {
        self.negotiate_if(|_| true)
    }

    /// Negotiates a reply that is not a stored object. It has no table form, so clients that accept only tables are
    /// refused before anything is done.
    pub(crate) fn negotiate_answer(&self) -> Result<Negotiated, Status> {
        self.negotiate_if(|negotiated| !matches!(negotiated.transform, Some((Transform::Table, _))))
    }

    fn negotiate_if(&self, fits: impl Fn(&Negotiated) -> bool) -> Result<Negotiated, Status> {
        let accepted = self.request.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        if !self.is_custom() && !accept::routed(accepted, &MEDIA_TYPES) {
            let collection = self.request.method == http::Method::GET && self.path.name.is_empty();
            let streams: &[&str] = if collection || self.path.watch { &STREAM_TYPES } else { &[] };
            return Err(Status::not_routed(&[&MEDIA_TYPES, streams].concat()));
        }
        accept::negotiate_if(accepted, fits).ok_or_else(|| Status::not_acceptable(&MEDIA_TYPES))
    }

    /// Builds the reply to a refused request, in YAML if the client prefers it.
    pub(crate) fn refusal(&self, status: &Status) -> Reply {
        let mut reply = Reply::status(status);
        if self.negotiate().is_ok_and(|negotiated| negotiated.media == MediaType::Yaml) {
            in_yaml(&mut reply);
        }
        reply
    }

    pub(crate) fn rendering(&self, version: &'static str) -> Result<Rendering, Status> {
        let include = IncludeObject::parse(self.query.get("includeObject")).map_err(Status::bad_request)?;
        Ok(Rendering { include, version, now: self.server.clock().now() })
    }

    /// Builds the reply for one object.
    pub(crate) fn show(&self, code: u16, object: Shown<'_>, negotiated: Negotiated) -> Result<Reply, Status> {
        if negotiated == Negotiated::JSON {
            return Ok(Reply::json(code, object.bytes(self)));
        }
        let value = object.value(self);
        let value = match negotiated.transform {
            None => value,
            Some(_) if value["kind"] == "Status" => value,
            Some((Transform::Table, version)) => {
                let printer = table::printer_of(&self.kind);
                table::table_of_object(&printer, &value, &self.rendering(version)?, true)
            }
            Some((Transform::PartialObjectMetadata, version)) => table::partial_metadata(&value, version),
            Some((Transform::PartialObjectMetadataList, _)) => {
                let package = if self.kind.group.is_empty() {
                    "core"
                } else {
                    self.kind.group.split('.').next().unwrap_or_default()
                };
                return Err(Status::failure(
                    406,
                    "NotAcceptable",
                    format!(
                        "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.{})",
                        self.kind.kind
                    ),
                ));
            }
        };
        Ok(encode(code, &value, negotiated.media))
    }

    /// Builds the reply for a list of stored objects.
    pub(crate) fn show_list(
        &self,
        metadata: Value,
        items: &[Arc<Stored>],
        negotiated: Negotiated,
    ) -> Result<Reply, Status> {
        if negotiated == Negotiated::JSON && self.kind.conversion.is_none() {
            return Ok(self.concatenate(&metadata, items));
        }
        self.show_values(metadata, items.iter().map(|stored| self.value(stored)).collect(), negotiated)
    }

    /// Builds the reply for a list of values, which need not be stored.
    pub(crate) fn show_values(
        &self,
        metadata: Value,
        values: Vec<Value>,
        negotiated: Negotiated,
    ) -> Result<Reply, Status> {
        let value = match negotiated.transform {
            None => {
                let mut metadata = metadata;
                self.complete_list(&mut metadata);
                self.list_value(&metadata, values)
            }
            Some((Transform::Table, version)) => {
                let printer = table::printer_of(&self.kind);
                table::table_of_list(&printer, metadata, &values, &self.rendering(version)?)
            }
            Some((Transform::PartialObjectMetadataList, version)) => {
                table::partial_metadata_list(metadata, &values, version)
            }
            Some((Transform::PartialObjectMetadata, _)) => {
                let package = if self.kind.group.is_empty() {
                    "core"
                } else {
                    self.kind.group.split('.').next().unwrap_or_default()
                };
                return Err(Status::failure(
                    406,
                    "NotAcceptable",
                    format!(
                        "you requested PartialObjectMetadata, but the requested object is a list (*{package}.{})",
                        self.kind.list_kind
                    ),
                ));
            }
        };
        Ok(encode(200, &value, negotiated.media))
    }

    /// Builds a list by concatenating the stored encodings; a large list is assembled while it is sent.
    fn concatenate(&self, metadata: &Value, items: &[Arc<Stored>]) -> Reply {
        let mut metadata = metadata.clone();
        self.complete_list(&mut metadata);
        let metadata = String::from_utf8_lossy(&encoding::list_metadata(&metadata, self.is_custom())).into_owned();
        let (kind, version) = (json!(self.kind.list_kind), json!(self.kind.api_version()));
        // Lists of custom resources are maps in Go, whose keys are sorted.
        let (head, end) = if self.is_custom() {
            (
                format!("{{\"apiVersion\":{version},\"items\":["),
                format!("],\"kind\":{kind},\"metadata\":{metadata}}}\n"),
            )
        } else {
            let head = format!("{{\"kind\":{kind},\"apiVersion\":{version},\"metadata\":{metadata},\"items\":[");
            (head, "]}\n".to_owned())
        };
        let size: usize = items.iter().map(|stored| stored.size()).sum();
        let mut pieces = ListPieces {
            head: head.into_bytes(),
            end,
            items: items.to_vec(),
            next: 0,
            whole: self.is_custom(),
            over: false,
            expected: size,
        };
        if size < LARGE_LIST {
            return Reply::json(200, pieces.next_piece(usize::MAX));
        }
        let mut reply = Reply::json(200, Bytes::new());
        let pieces = std::iter::from_fn(move || (!pieces.over).then(|| Ok(pieces.next_piece(PIECE))));
        reply.body = ReplyBody::Stream(Box::pin(futures::stream::iter(pieces)));
        reply
    }

    /// Adds the `continue` field that lists of custom resources always have.
    fn complete_list(&self, metadata: &mut Value) {
        if let Some(metadata) = metadata.as_object_mut().filter(|_| self.is_custom()) {
            metadata.entry("continue").or_insert_with(|| "".into());
        }
    }

    /// Builds a list value. Items of typed lists have no kind and apiVersion; those of custom resources have both.
    fn list_value(&self, metadata: &Value, mut items: Vec<Value>) -> Value {
        if !self.is_custom() {
            for item in items.iter_mut().filter_map(Value::as_object_mut) {
                item.remove("kind");
                item.remove("apiVersion");
            }
        }
        json!({
            "kind": self.kind.list_kind,
            "apiVersion": self.kind.api_version(),
            "metadata": metadata,
            "items": items,
        })
    }
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

/// Lists of at least this size are never held in one buffer.
const LARGE_LIST: usize = 512 << 10;
/// Size of the pieces of a large list.
const PIECE: usize = 128 << 10;
/// Spare capacity of a piece: pieces end with a whole item, and most exceed their size by no more than this.
const ROOM: usize = 8 << 10;

/// The body of a list, produced in pieces.
struct ListPieces {
    /// Text before the items; taken by the first piece.
    head: Vec<u8>,
    /// Text after the items.
    end: String,
    items: Vec<Arc<Stored>>,
    next: usize,
    /// Items include their kind and apiVersion.
    whole: bool,
    over: bool,
    /// Approximate size of all items in bytes.
    expected: usize,
}

impl ListPieces {
    /// Returns the next piece, of about `size` bytes.
    fn next_piece(&mut self, size: usize) -> Bytes {
        let mut piece = std::mem::take(&mut self.head);
        piece.reserve(size.min(self.expected) + ROOM);
        while let Some(stored) = self.items.get(self.next) {
            if piece.len() >= size {
                return piece.into();
            }
            if self.next > 0 {
                piece.push(b',');
            }
            if self.whole {
                stored.write(&mut piece);
            } else {
                piece.push(b'{');
                stored.write_tail(&mut piece);
            }
            self.next += 1;
        }
        piece.extend_from_slice(self.end.as_bytes());
        self.over = true;
        piece.into()
    }
}

/// Returns the error of decoding the metadata of a custom resource.
pub(crate) fn unfit_metadata(object: &Value) -> Option<String> {
    let metadata = object.get("metadata").filter(|metadata| metadata.is_object())?;
    let schema = schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
    schema.decode(metadata.to_string().as_bytes()).err().map(|error| error.message)
}

/// Sort key for errors of the custom resource decoder: duplicate fields, then metadata, then pruned fields, then
/// metadata of embedded objects.
fn order_of_complaint(what: &str) -> u8 {
    match what.strip_prefix("unknown field \"") {
        None => 0,
        Some(field) if field.starts_with("metadata.") => 1,
        Some(field) if field.contains(".metadata.") => 3,
        Some(_) => 2,
    }
}

fn unregistered(kind: &str, api_version: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        go_quote(kind),
        go_quote(api_version)
    )
}

/// The content of a reply.
pub(crate) enum Shown<'s> {
    Stored(&'s Stored),
    Written(&'s Written),
    Value(&'s Value),
    Status(&'s Status),
}

impl Shown<'_> {
    fn bytes(&self, scope: &Scope<'_>) -> Bytes {
        match self {
            Self::Stored(stored) if scope.kind.conversion.is_none() => stored.document(),
            Self::Stored(stored) => encoding::document(&scope.value(stored)).into(),
            Self::Written(written) => scope.written_bytes(written),
            Self::Value(value) => encoding::document(value).into(),
            Self::Status(status) => encoding::document(&status.to_value()).into(),
        }
    }

    fn value(&self, scope: &Scope<'_>) -> Value {
        match self {
            Self::Stored(stored) => scope.value(stored),
            Self::Written(Written::Stored { stored, .. }) => scope.value(stored),
            Self::Written(Written::Shown { object, .. }) => object.clone(),
            Self::Value(value) => (*value).clone(),
            Self::Status(status) => status.to_value(),
        }
    }
}

/// Encodes a value in a media type.
pub(crate) fn encode(code: u16, value: &Value, media: MediaType) -> Reply {
    let mut reply = Reply::json(code, encoding::document(value));
    if media == MediaType::Yaml {
        in_yaml(&mut reply);
    }
    reply
}

/// Re-encodes a JSON reply as YAML.
pub(crate) fn in_yaml(reply: &mut Reply) {
    let ReplyBody::Full(bytes) = &reply.body else { return };
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    reply.body = ReplyBody::Full(yaml::to_string(&value).into());
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::{Draft, ResourceId, Store};

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
    fn complaints_about_embedded_metadata_come_last() {
        let mut what = ["emb.metadata.a", "junk", "metadata.z"].map(|field| format!("unknown field \"{field}\""));
        what.sort_by_cached_key(|what| order_of_complaint(what));
        assert_eq!(what, ["metadata.z", "junk", "emb.metadata.a"].map(|field| format!("unknown field \"{field}\"")));
    }

    proptest! {
        #[test]
        fn a_decoded_body_is_of_the_kind_that_its_text_says(text in bodies(), custom in any::<bool>()) {
            let custom = custom.then(|| Arc::new(Schema::from_structural("X", None, true).unwrap()));
            for schema in [custom, schema::builtin("io.k8s.api.core.v1.Pod"), None] {
                let decoded = decode_as(schema.as_deref(), text.as_bytes());
                prop_assert_eq!(decoded_type_meta(&decoded, text.as_bytes()), type_meta(text.as_bytes()), "{}", text);
            }
        }
    }

    #[test]
    fn pieces_join_to_the_list() {
        let (store, resource) = (Store::default(), ResourceId::new("", "pods"));
        for number in 0..20 {
            let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": format!("p{number}")}});
            store.create(&resource, Draft::new(&object, Vec::new())).unwrap();
        }
        let (items, _) = store.list(&resource, crate::store::Range::default());
        let pieces = || ListPieces {
            head: b"{\"items\":[".to_vec(),
            end: "]}".to_owned(),
            items: items.clone(),
            next: 0,
            whole: true,
            over: false,
            expected: 0,
        };
        let whole = pieces().next_piece(usize::MAX);
        let (mut small, mut joined, mut count) = (pieces(), Vec::new(), 0);
        while !small.over {
            joined.extend_from_slice(&small.next_piece(200));
            count += 1;
        }
        assert_eq!(joined, whole);
        assert!(count > 5);
        assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap()["items"].as_array().unwrap().len(), 20);
    }
}
