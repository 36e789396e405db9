//! Encodes replies in the negotiated representation. Follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go` of Kubernetes 1.36.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use super::request_scope::RequestScope;
use super::write_outcome::WriteOutcome;
use crate::go_json;
use crate::json::{Value, json};
use crate::negotiate::{self, MediaType, Negotiation, Representation, to_yaml};
use crate::printers::{self, IncludeObject, TableOptions};
use crate::protobuf::{self, ListPieces};
use crate::request::{ApiRequest, PIECE, Query, ROOM, Reply, ReplyBody};
use crate::status::Status;
use crate::store::StoredObject;

/// Negotiates the reply with an object or a list.
pub(crate) fn negotiate(scope: &RequestScope<'_>) -> Result<Negotiation, Status> {
    if has_table(scope) {
        negotiate::resource(scope.request, &scope.path, &scope.kind)
    } else {
        negotiate_transient(scope)
    }
}

/// Returns false for subresources whose storage has no `ConvertToTable`: `storage.go` and `etcd.go` of each kind below
/// `pkg/registry`, `kube-aggregator` and `apiextensions-apiserver`.
fn has_table(scope: &RequestScope<'_>) -> bool {
    match &*scope.path.subresource {
        "" | "scale" => true,
        "status" => {
            let without = ["apiservices", "customresourcedefinitions", "resourceclaims"];
            scope.kind.custom.is_some() || !without.contains(&&*scope.kind.plural)
        }
        _ => false,
    }
}

/// Negotiates a reply that is not a stored object.
pub(crate) fn negotiate_transient(scope: &RequestScope<'_>) -> Result<Negotiation, Status> {
    negotiate::transient(scope.request, &scope.path, &scope.kind)
}

/// Converts an error or a discovery document to YAML, or indents JSON, as the client prefers.
pub(crate) fn format(request: &ApiRequest, query: &Query, reply: &mut Reply) {
    let is_json = reply.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if is_json && negotiate::prefers_yaml(request) {
        to_yaml(reply);
    }
    if negotiate::wants_pretty(request, query, reply)
        && let ReplyBody::Full(bytes) = &reply.body
    {
        reply.body = ReplyBody::Full(go_json::pretty_print(bytes).into());
    }
}

/// Encodes an error in protobuf for clients that prefer it.
pub(crate) fn error_to_protobuf(request: &ApiRequest, reply: &mut Reply) {
    let is_json = reply.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if reply.status < 400 || !is_json || !negotiate::prefers_protobuf(request) {
        return;
    }
    let ReplyBody::Full(bytes) = &reply.body else { return };
    let status = serde_json::from_slice::<Value>(bytes).ok().filter(|status| status["kind"] == "Status");
    if let Some(body) = status.and_then(|status| protobuf::from_json(&status)) {
        reply.body = ReplyBody::Full(body.into());
        reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(protobuf::MEDIA_TYPE));
    }
}

/// Builds the reply to a request whose credentials are refused, encoded as the client prefers.
pub(crate) fn unauthorized(request: &ApiRequest) -> Reply {
    let mut reply = Reply::from(Status::unauthorized());
    format(request, &Query::parse(&request.query), &mut reply);
    error_to_protobuf(request, &mut reply);
    reply
}

/// Builds the reply to a refused request, in YAML if the client prefers it.
pub(crate) fn error(scope: &RequestScope<'_>, status: &Status) -> Reply {
    let mut reply = Reply::status(status);
    if negotiate(scope).is_ok_and(|negotiated| negotiated.media == MediaType::Yaml) {
        to_yaml(&mut reply);
    }
    reply
}

/// Returns how tables are rendered: the `includeObject` parameter and the current time.
pub(crate) fn rendering(scope: &RequestScope<'_>, version: &'static str) -> Result<TableOptions, Status> {
    let include = IncludeObject::parse(scope.query.get("includeObject"));
    let include = include.map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(TableOptions { include, version, now: scope.server.clock().now() })
}

/// Builds the reply for one object.
pub(crate) fn object(
    scope: &RequestScope<'_>,
    code: u16,
    object: ReplyContent<'_>,
    negotiated: Negotiation,
) -> Result<Reply, Status> {
    if negotiated == Negotiation::JSON {
        return Ok(Reply::json(code, object.bytes(scope)));
    }
    if negotiated == Negotiation::PROTOBUF
        && let Some(stored) = object.stored().filter(|stored| scope.kind.shows_as_stored(stored.revision()))
    {
        let raw = stored.protobuf(protobuf::object_message);
        return Ok(protobuf_reply(code, protobuf::envelope(&scope.kind.api_version(), &scope.kind.kind, &raw)));
    }
    let value = object.value(scope);
    let value = match negotiated.transform {
        None => value,
        Some(_) if value["kind"] == "Status" => value,
        Some((Representation::Table, version)) => {
            let printer = scope.kind.printer();
            printers::table_of_object(&printer, &value, &rendering(scope, version)?, true)
        }
        Some((Representation::PartialObjectMetadata, version)) => {
            printers::partial_metadata(&scope.kind.internal(&value), version)
        }
        Some((Representation::PartialObjectMetadataList, _)) => {
            return Err(negotiate::not_a_list(&scope.kind));
        }
    };
    Ok(encode(code, &value, negotiated.media))
}

/// Builds the reply for a list of stored objects.
pub(crate) fn list(
    scope: &RequestScope<'_>,
    metadata: Value,
    items: &[Arc<StoredObject>],
    negotiated: Negotiation,
) -> Result<Reply, Status> {
    let plain = scope.kind.conversion.is_none() && items.iter().all(|item| scope.kind.shows_as_stored(item.revision()));
    if negotiated == Negotiation::JSON && plain {
        return Ok(concatenated_list(scope, &metadata, items));
    }
    if negotiated == Negotiation::PROTOBUF && plain && !scope.kind.is_unstructured() {
        return Ok(protobuf_list(scope, &metadata, items));
    }
    values(scope, metadata, items.iter().map(|stored| scope.value(stored)).collect(), negotiated)
}

/// Builds the reply for a list of values, which need not be stored.
pub(crate) fn values(
    scope: &RequestScope<'_>,
    metadata: Value,
    values: Vec<Value>,
    negotiated: Negotiation,
) -> Result<Reply, Status> {
    let value = match negotiated.transform {
        None => {
            let mut metadata = metadata;
            complete_list(scope, &mut metadata);
            list_value(scope, &metadata, values)
        }
        Some((Representation::Table, version)) => {
            let printer = scope.kind.printer();
            printers::table_of_list(&printer, metadata, &values, &rendering(scope, version)?)
        }
        Some((Representation::PartialObjectMetadataList, version)) => {
            let internal: Vec<_> = values.iter().map(|value| scope.kind.internal(value)).collect();
            printers::partial_metadata_list(metadata, internal.iter().map(AsRef::as_ref), version)
        }
        Some((Representation::PartialObjectMetadata, _)) => {
            return Err(negotiate::is_a_list(&scope.kind));
        }
    };
    Ok(encode(200, &value, negotiated.media))
}

/// Builds a list by concatenating the stored encodings; a large list is assembled while it is sent.
fn concatenated_list(scope: &RequestScope<'_>, metadata: &Value, items: &[Arc<StoredObject>]) -> Reply {
    let mut metadata = metadata.clone();
    complete_list(scope, &mut metadata);
    let metadata =
        String::from_utf8_lossy(&go_json::list_metadata(&metadata, scope.kind.is_unstructured())).into_owned();
    let kind = json!(scope.kind.list_kind);
    let version = json!(scope.kind.api_version());
    // Lists of custom resources are maps in Go, whose keys are sorted.
    let (head, end) = if scope.kind.is_unstructured() {
        (format!("{{\"apiVersion\":{version},\"items\":["), format!("],\"kind\":{kind},\"metadata\":{metadata}}}\n"))
    } else {
        let head = format!("{{\"kind\":{kind},\"apiVersion\":{version},\"metadata\":{metadata},\"items\":[");
        (head, "]}\n".to_owned())
    };
    let size: usize = items.iter().map(|stored| stored.size()).sum();
    let mut pieces = ListChunks {
        head: head.into_bytes(),
        end,
        items: items.to_vec(),
        next: 0,
        whole: scope.kind.is_unstructured(),
        over: false,
        expected: size,
    };
    if size < LARGE_LIST {
        return Reply::json(200, pieces.next_chunk(usize::MAX));
    }
    let pieces = std::iter::from_fn(move || (!pieces.over).then(|| pieces.next_chunk(PIECE)));
    streamed(Reply::json(200, Bytes::new()), pieces)
}

/// Builds a list from the messages of its items; a large list is assembled while it is sent.
fn protobuf_list(scope: &RequestScope<'_>, metadata: &Value, items: &[Arc<StoredObject>]) -> Reply {
    let items = items.iter().map(|stored| stored.protobuf(protobuf::object_message)).collect();
    let mut pieces = ListPieces::new(&scope.kind.api_version(), &scope.kind.list_kind, metadata, items);
    let first = pieces.next().unwrap_or_default();
    if pieces.is_over() {
        return protobuf_reply(200, first);
    }
    streamed(protobuf_reply(200, Bytes::new()), std::iter::once(first).chain(pieces))
}

/// Gives a reply a body that is made while it is sent.
fn streamed(mut reply: Reply, pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Reply {
    reply.body = ReplyBody::Stream(Box::pin(futures::stream::iter(pieces.map(Ok))));
    reply
}

/// Adds the `continue` field that lists of custom resources always have.
fn complete_list(scope: &RequestScope<'_>, metadata: &mut Value) {
    if let Some(metadata) = metadata.as_object_mut().filter(|_| scope.kind.is_unstructured()) {
        metadata.entry("continue").or_insert_with(|| "".into());
    }
}

/// Builds a list value. Items of typed lists have no kind and apiVersion; those of custom resources have both.
fn list_value(scope: &RequestScope<'_>, metadata: &Value, mut items: Vec<Value>) -> Value {
    if !scope.kind.is_unstructured() {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("kind");
            item.remove("apiVersion");
        }
    }
    json!({
        "kind": scope.kind.list_kind,
        "apiVersion": scope.kind.api_version(),
        "metadata": metadata,
        "items": items,
    })
}

/// Lists of at least this size are never held in one buffer.
const LARGE_LIST: usize = 512 << 10;

/// The body of a list, produced in pieces.
struct ListChunks {
    /// Text before the items; taken by the first piece.
    head: Vec<u8>,
    /// Text after the items.
    end: String,
    items: Vec<Arc<StoredObject>>,
    next: usize,
    /// Items include their kind and apiVersion.
    whole: bool,
    over: bool,
    /// Approximate size of all items in bytes.
    expected: usize,
}

impl ListChunks {
    /// Returns the next piece, of about `size` bytes.
    fn next_chunk(&mut self, size: usize) -> Bytes {
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

/// The content of a reply.
pub(crate) enum ReplyContent<'s> {
    Stored(&'s StoredObject),
    Outcome(&'s WriteOutcome),
    Value(&'s Value),
    Status(&'s Status),
}

impl ReplyContent<'_> {
    fn stored(&self) -> Option<&StoredObject> {
        match self {
            Self::Stored(stored) => Some(stored),
            Self::Outcome(WriteOutcome::Stored { stored, .. }) => Some(stored),
            _ => None,
        }
    }

    fn bytes(&self, scope: &RequestScope<'_>) -> Bytes {
        match self {
            Self::Stored(stored) if scope.kind.shows_as_stored(stored.revision()) => stored.document(),
            Self::Stored(stored) => go_json::encode_document(&scope.value(stored)).into(),
            Self::Outcome(written) => written.bytes(scope),
            Self::Value(value) => go_json::encode_document(value).into(),
            Self::Status(status) => go_json::encode_document(&status.to_value()).into(),
        }
    }

    fn value(&self, scope: &RequestScope<'_>) -> Value {
        match self {
            Self::Stored(stored) => scope.value(stored),
            Self::Outcome(written) => written.value(scope),
            Self::Value(value) => (*value).clone(),
            Self::Status(status) => status.to_value(),
        }
    }
}

fn protobuf_reply(code: u16, body: impl Into<Bytes>) -> Reply {
    let mut reply = Reply::json(code, body);
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(protobuf::MEDIA_TYPE));
    reply
}

/// Encodes a value in a media type.
pub(crate) fn encode(code: u16, value: &Value, media: MediaType) -> Reply {
    if media == MediaType::Protobuf
        && let Some(bytes) = protobuf::from_json(value)
    {
        return protobuf_reply(code, bytes);
    }
    let mut reply = Reply::json(code, go_json::encode_document(value));
    if media == MediaType::Yaml {
        to_yaml(&mut reply);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Draft, ResourceId, Store};

    #[test]
    fn pieces_join_to_the_list() {
        let store = Store::default();
        let resource = ResourceId::new("", "pods");
        for number in 0..20 {
            let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": format!("p{number}")}});
            store.create(&resource, Draft::new(&object, Vec::new())).unwrap();
        }
        let (items, _) = store.list(&resource, crate::store::KeyRange::default());
        let pieces = || ListChunks {
            head: b"{\"items\":[".to_vec(),
            end: "]}".to_owned(),
            items: items.clone(),
            next: 0,
            whole: true,
            over: false,
            expected: 0,
        };
        let whole = pieces().next_chunk(usize::MAX);
        let mut small = pieces();
        let mut joined = Vec::new();
        let mut count = 0;
        while !small.over {
            joined.extend_from_slice(&small.next_chunk(200));
            count += 1;
        }
        assert_eq!(joined, whole);
        assert!(count > 5);
        assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap()["items"].as_array().unwrap().len(), 20);
    }
}
