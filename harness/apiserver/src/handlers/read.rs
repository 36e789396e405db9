//! GET of one object, lists in pages and at older resourceVersions, and the start of watches. Follows
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go` and
//! `staging/src/k8s.io/apiserver/pkg/storage/continue.go` of Kubernetes 1.36.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{self, GeneralPurpose};
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use super::event_converter::EventConverter;
use super::options::{ListOptions, VersionMatch};
use super::reply::{self, ReplyContent};
use super::request_scope::RequestScope;
use crate::field_errors::{self, Path};
use crate::json::{Map, Value, json};
use crate::negotiate::{self, MediaType, Negotiation, Representation};
use crate::object_lifecycle::parse_version;
use crate::printers::{IncludeObject, TableOptions};
use crate::protobuf;
use crate::request::{Reply, ReplyBody};
use crate::selectors::ListSelector;
use crate::status::{NumberError, Status, StatusMeta};
use crate::store::{KeyRange, StoredObject};
#[cfg(feature = "listener")]
use crate::streaming::{WatchMessages, watch_socket};
use crate::watch::{self, EventEncoding, Watch, WatchScope, WatchStart};

/// Shortest random timeout, in seconds, of a watch that sets none; the longest is twice that.
const WATCH_TIMEOUT_MIN: u64 = 1800;

const EXPIRED_LIST: &str = "The resourceVersion for the provided list is too old.";
const EXPIRED_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.";
const INCONSISTENT_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// The result of a list.
pub(crate) struct ListResult {
    pub(crate) items: Vec<Arc<StoredObject>>,
    /// The items in the version of the request, if a webhook converts them.
    converted: Option<Vec<Value>>,
    metadata: Map,
    revision: u64,
}

/// The resourceVersion of the state that the reply to a list shows, for the transcript.
#[derive(Clone, Copy)]
pub(super) struct ShownRevision(pub(super) u64);

impl ListResult {
    /// Builds the reply.
    pub(crate) fn reply(self, scope: &RequestScope<'_>, negotiated: Negotiation) -> Result<Reply, Status> {
        let metadata = Value::Object(self.metadata);
        let mut reply = match self.converted {
            Some(objects) => reply::values(scope, metadata, objects, negotiated),
            None => reply::list(scope, metadata, &self.items, negotiated),
        }?;
        reply.extensions.insert(ShownRevision(self.revision));
        Ok(reply)
    }
}

/// Handles GET of one object.
pub(crate) async fn get(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let negotiated = reply::negotiate(scope)?;
    if scope.query.flag("export") == Some(true) {
        return Err(Status::bad_request("the export parameter, deprecated since v1.14, is no longer supported"));
    }
    let version = scope.query.get("resourceVersion").unwrap_or_default();
    if !version.is_empty() {
        let wanted =
            parse_version(version).map_err(|error| Status::untyped_error(resource_version_error(version, &error)))?;
        let current = scope.server.store().revision();
        if wanted > current {
            return Err(Status::too_large_resource_version(wanted, current));
        }
    }
    let stored = scope.stored()?;
    if scope.webhook().is_some() {
        let value = scope.current_value(&stored).await?;
        return reply::object(scope, 200, ReplyContent::Value(&value), negotiated);
    }
    reply::object(scope, 200, ReplyContent::Stored(&stored), negotiated)
}

/// Handles GET of a collection.
pub(crate) async fn list(scope: &RequestScope<'_>, options: &ListOptions) -> Result<Reply, Status> {
    let negotiated = reply::negotiate(scope)?;
    list_objects(scope, options).await?.reply(scope, negotiated)
}

/// Returns the selected objects and the list's metadata.
pub(crate) async fn list_objects(scope: &RequestScope<'_>, options: &ListOptions) -> Result<ListResult, Status> {
    let page = page(scope, options)?;
    let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0 && !page.unlimited);
    let most = scope.server.faults().page_size(&scope.resource).unwrap_or(usize::MAX);
    let limit = limit.map_or(usize::MAX, |limit| limit.min(most.max(1)));
    if scope.webhook().is_none() {
        return list_stored(scope, options, &page, &options.selection, limit);
    }
    let by_content = options.selection.reads_content();
    let (selection, count) =
        if by_content { (&options.selection.by_identity(), usize::MAX) } else { (&options.selection, limit) };
    let mut listed = list_stored(scope, options, &page, selection, count)?;
    let objects = scope.converted(listed.items.iter().map(|stored| stored.value()).collect()).await?;
    listed.converted = Some(objects);
    if by_content {
        select_converted(scope, options, &mut listed, limit);
    }
    Ok(listed)
}

/// Keeps the converted objects that match, up to the limit.
fn select_converted(scope: &RequestScope<'_>, options: &ListOptions, listed: &mut ListResult, limit: usize) {
    let objects = listed.converted.take().unwrap_or_default();
    let pairs = std::mem::take(&mut listed.items).into_iter().zip(objects);
    let mut selected = pairs.filter(|(_, object)| options.selection.matches_object(&scope.kind, object));
    let (items, objects) = selected.by_ref().take(limit).unzip();
    (listed.items, listed.converted) = (items, Some(objects));
    if let Some(last) = listed.items.last().filter(|_| selected.next().is_some()) {
        listed.metadata.insert("continue", encode_continue(scope, last.key(), listed.revision).into());
    }
}

/// Returns the objects whose stored form is selected.
fn list_stored(
    scope: &RequestScope<'_>,
    options: &ListOptions,
    page: &ListPosition,
    selection: &ListSelector,
    limit: usize,
) -> Result<ListResult, Status> {
    let mut range = range(scope, options);
    range.after = page.after.as_deref();
    let stale = scope.server.faults().stale_at(&scope.resource);
    let everything = selection.is_everything();
    let matches = |stored: &StoredObject| selection.matches(&scope.kind, stored);
    let select: Option<&dyn Fn(&StoredObject) -> bool> = if everything { None } else { Some(&matches) };
    let revision = page.revision.or(stale);
    let found = scope.server.store().page(&scope.resource, range, revision, limit, select);
    let found = found.map_err(|_| expired_error(scope, options, page))?;
    let mut metadata = Map::new();
    metadata.insert("resourceVersion", found.revision.to_string().into());
    if let Some(last) = found.objects.last().filter(|_| found.left > 0) {
        metadata.insert("continue", encode_continue(scope, last.key(), found.revision).into());
        if everything {
            metadata.insert("remainingItemCount", found.left.into());
        }
    }
    Ok(ListResult { items: found.objects, converted: None, metadata, revision: found.revision })
}

/// Returns the part of the store that can hold selected objects.
fn range<'o>(scope: &'o RequestScope<'_>, options: &'o ListOptions) -> KeyRange<'o> {
    let fields = &options.selection.fields;
    let path = Some(scope.path.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let namespace = if scope.kind.namespaced { path.or(fields.required_value("metadata.namespace")) } else { Some("") };
    let name = fields.required_value("metadata.name");
    KeyRange {
        namespace: if scope.kind.namespaced { namespace } else { name.map(|_| "") },
        name,
        node: fields.required_value("spec.nodeName").filter(|_| &*scope.kind.plural == "pods"),
        after: None,
    }
}

/// Returns the resourceVersion and the key at which a list starts.
fn page(scope: &RequestScope<'_>, options: &ListOptions) -> Result<ListPosition, Status> {
    let version = options.resource_version.as_str();
    if !options.continue_token.is_empty() {
        let page = decode_continue(scope, &options.continue_token)?;
        let current = scope.server.store().revision();
        if let Some(wanted) = page.revision.filter(|wanted| *wanted > current) {
            return Err(Status::too_large_resource_version(wanted, current));
        }
        if version == "0" {
            return Ok(ListPosition { unlimited: true, ..page });
        }
        if !version.is_empty() {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        return Ok(page);
    }
    if version.is_empty() {
        return Ok(ListPosition::default());
    }
    let wanted = parse_version(version).map_err(|error| {
        Status::bad_request(format!("invalid resource version: {}", resource_version_error(version, &error)))
    })?;
    let current = scope.server.store().revision();
    // A limited list at an old resourceVersion without a match is served at exactly that version.
    let exact = options.version_match == Some(VersionMatch::Exact)
        || (options.limit > 0 && options.version_match.is_none() && wanted > 0);
    if wanted > current {
        return Err(Status::too_large_resource_version(wanted, current));
    }
    if exact {
        return Ok(ListPosition { revision: Some(wanted), ..ListPosition::default() });
    }
    // `resourceVersion=0` is answered from a cache that ignores the limit.
    Ok(ListPosition { unlimited: wanted == 0, ..ListPosition::default() })
}

fn encode_continue(scope: &RequestScope<'_>, last: &str, revision: u64) -> String {
    // The key is relative to the start of the list, with a NUL appended: the smallest key after it.
    let prefix = if scope.path.namespace.is_empty() { String::new() } else { format!("{}/", scope.path.namespace) };
    let start = last.strip_prefix(prefix.as_str()).unwrap_or(last);
    let start = Value::from(format!("{start}\0"));
    BASE64.encode(format!("{{\"v\":\"meta.k8s.io/v1\",\"rv\":{revision},\"start\":{start}}}"))
}

fn decode_continue(scope: &RequestScope<'_>, token: &str) -> Result<ListPosition, Status> {
    let invalid = |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let bytes = decode_base64(token).map_err(|at| invalid(&format!("illegal base64 data at input byte {at}")))?;
    let decoded = crate::schema::decode_untyped(&bytes).map_err(|error| invalid(&error.message))?.value;
    let start = decoded.get("start").and_then(Value::as_str).unwrap_or_default();
    let found = decoded.get("v").and_then(Value::as_str).unwrap_or_default();
    if found != "meta.k8s.io/v1" {
        return Err(invalid(&format!("server does not recognize this encoded version {found}")));
    }
    let revision = match decoded.get("rv") {
        None | Some(Value::Null) => 0,
        Some(found) => found.as_i64().ok_or_else(|| {
            let ty = found.json_type();
            invalid(&format!("json: cannot unmarshal {ty} into Go struct field continueToken.rv of type int64"))
        })?,
    };
    if revision == 0 {
        return Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
    }
    if start.is_empty() {
        return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
    }
    // `path.Clean` would change such a key.
    if start.strip_prefix('/').unwrap_or(start).split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(invalid(start));
    }
    let prefix = if scope.path.namespace.is_empty() { String::new() } else { format!("{}/", scope.path.namespace) };
    Ok(ListPosition {
        revision: u64::try_from(revision).ok(),
        after: Some(format!("{prefix}{}", start.trim_end_matches('\0'))),
        unlimited: false,
    })
}

fn expired_error(scope: &RequestScope<'_>, options: &ListOptions, page: &ListPosition) -> Status {
    let Some(after) = page.after.as_deref().filter(|_| !options.continue_token.is_empty()) else {
        return Status::expired(EXPIRED_LIST);
    };
    let prefix = if scope.path.namespace.is_empty() { String::new() } else { format!("{}/", scope.path.namespace) };
    let start = after.strip_prefix(prefix.as_str()).unwrap_or(after);
    if start.is_empty() {
        return Status::expired(EXPIRED_CONTINUE);
    }
    let token = json!({"v": "meta.k8s.io/v1", "rv": -1, "start": format!("{start}\0")});
    let mut status = Status::expired(INCONSISTENT_CONTINUE);
    status.metadata = StatusMeta { continue_token: BASE64.encode(token.to_string()) };
    status
}

/// Opens a watch. A fault sets `break_after`.
pub(crate) fn watch(
    scope: &RequestScope<'_>,
    options: &ListOptions,
    break_after: Option<Duration>,
) -> Result<Reply, Status> {
    let negotiated = negotiate::stream(scope.request, &scope.path, &scope.kind)?;
    let protobuf = negotiated.media == MediaType::Protobuf;
    let transform = match negotiated.transform {
        None => None,
        Some((Representation::Table, version)) => Some((Representation::Table, reply::rendering(scope, version)?)),
        // Only tables include objects.
        Some((how, version)) => {
            Some((how, TableOptions { include: IncludeObject::None, version, now: scope.server.clock().now() }))
        }
    };
    let mut view = WatchScope {
        kind: scope.kind.clone(),
        resource: scope.resource.clone(),
        namespace: Some(scope.path.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        selection: options.selection.clone(),
        transform,
        bookmarks: options.bookmarks,
        encoding: if protobuf { EventEncoding::Protobuf } else { EventEncoding::Json },
        request: scope.parsed.number,
        with_previous: false,
    };
    let start = watch_start(scope, options)?;
    let shown = start.as_ref().ok().and_then(|opening| opening.initial_end);
    let stream = match start {
        Ok(opening) => {
            let timeout = watch_timeout(scope, options);
            let converter = scope.webhook().map(|webhook| EventConverter::new(scope.server, webhook, &mut view));
            let events = Watch::open(scope.server, view, opening, timeout, break_after);
            match converter {
                Some(converter) => converter.convert_all(events),
                None => events,
            }
        }
        Err(refused) => Watch::error_stream_as(&refused, view.encoding),
    };
    #[cfg(feature = "listener")]
    let stream = {
        let messages = if protobuf { WatchMessages::Binary } else { WatchMessages::Text };
        match watch_socket(scope.server, scope.request, stream, messages) {
            Ok(reply) => return Ok(reply),
            Err(stream) => stream,
        }
    };
    let mut reply = Reply::json(200, Bytes::new());
    if protobuf {
        let media = HeaderValue::from_static(protobuf::STREAM_MEDIA_TYPE);
        reply.headers.insert(CONTENT_TYPE, media);
    }
    if let Some(revision) = shown {
        reply.extensions.insert(ShownRevision(revision));
    }
    reply.body = ReplyBody::Stream(stream);
    Ok(reply)
}

/// Returns the start of the watch; an inner error is sent as the first event.
fn watch_start(scope: &RequestScope<'_>, options: &ListOptions) -> Result<Result<WatchStart, Status>, Status> {
    let version = options.resource_version.as_str();
    let wanted = match version {
        "" => 0,
        text => parse_version(text).map_err(|error| Status::untyped_error(resource_version_error(text, &error)))?,
    };
    let store = scope.server.store();
    let any = wanted == 0;
    let initial = options.send_initial_events.unwrap_or(any);
    if initial || any {
        let (mut items, mut revision, mut cursor) = store.list_and_watch(&scope.resource, range(scope, options));
        if wanted > revision {
            return Ok(Err(Status::too_large_resource_version(wanted, revision)));
        }
        // A streamed list is as stale as any other.
        if let Some(stale) = scope.server.faults().stale_at(&scope.resource) {
            let page = store.page(&scope.resource, range(scope, options), Some(stale), usize::MAX, None);
            if let (Ok(page), Ok(from)) = (page, store.watch_from(&scope.resource, stale)) {
                (items, revision, cursor) = (page.objects, stale, from);
            }
        }
        // A watch without a resourceVersion or from `0` counts as one with `sendInitialEvents=true`
        // (`SetListOptionsDefaults`), unless only its path makes it a watch.
        let asked = options.send_initial_events == Some(true) || scope.query.flag("watch") == Some(true);
        let announced = initial && asked && options.bookmarks;
        return Ok(Ok(WatchStart {
            initial: if initial { items } else { Vec::new() },
            cursor,
            after: revision,
            initial_end: announced.then_some(revision),
        }));
    }
    Ok(match store.watch_from(&scope.resource, wanted) {
        Ok(cursor) => Ok(WatchStart { initial: Vec::new(), cursor, after: wanted, initial_end: None }),
        Err(compacted) => Err(watch::too_old_resource_version(wanted, compacted.oldest)),
    })
}

fn watch_timeout(scope: &RequestScope<'_>, options: &ListOptions) -> Duration {
    match options.timeout_seconds.filter(|seconds| *seconds != 0) {
        // A negative timeout has already expired.
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
        None => Duration::from_secs(WATCH_TIMEOUT_MIN + scope.server.ids().number() % WATCH_TIMEOUT_MIN),
    }
}

#[derive(Debug, Default)]
struct ListPosition {
    revision: Option<u64>,
    after: Option<String>,
    unlimited: bool,
}

fn resource_version_error(text: &str, error: &NumberError) -> String {
    field_errors::FieldError::invalid(&Path::new("resourceVersion"), text, error.to_string()).to_string()
}

/// Base 64 for URLs, without padding. As in Go, unused bits of the last character may be set.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, general_purpose::NO_PAD.with_decode_allow_trailing_bits(true));

/// Decodes a token; the error is the position of the first wrong character, as Go reports it.
fn decode_base64(text: &str) -> Result<Vec<u8>, usize> {
    let is_wrong = |byte: u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let wrong = || text.bytes().position(is_wrong).unwrap_or(text.len().saturating_sub(1));
    BASE64.decode(text).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_are_upstreams() {
        let token = r#"{"v":"meta.k8s.io/v1","rv":748,"start":"gen-pzlrc\u0000"}"#;
        let text = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzQ4LCJzdGFydCI6Imdlbi1wemxyY1x1MDAwMCJ9";
        assert_eq!(BASE64.encode(token), text);
        assert_eq!(decode_base64(text).unwrap(), token.as_bytes());
        assert_eq!(decode_base64("a*"), Err(1));
        assert_eq!(decode_base64("abcde"), Err(4));
        assert_eq!(decode_base64("abc*e"), Err(3));
        assert_eq!(decode_base64("YQ=="), Err(2));
        assert_eq!(decode_base64("YR"), Ok(b"a".to_vec()));
        assert_eq!(decode_base64(""), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn base64_is_reversible(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(decode_base64(&BASE64.encode(&bytes)).unwrap(), bytes);
        }
    }
}
