//! Describes requests and replies as the transcript records them. Proxies to a real API server use the same
//! descriptions, so that both transcripts have the same form.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use serde::de::IgnoredAny;

use super::body::BODY_MAX;
use super::parsed_request::{ParsedRequest, verb_of};
use super::read::ShownRevision;
use crate::audit::AuditAnnotations;
use crate::protobuf;
use crate::record::{Encoding, RecordedJson, RecordedReply, RecordedRequest};
use crate::request::{ApiRequest, Query, Reply, ReplyBody, ResourcePath, Target};
use crate::yaml;

/// Describes a request for the transcript; the body is decoded only if it is recorded. The user is not known.
pub fn record_request(request: &ApiRequest, target: &Target, recorded: bool) -> RecordedRequest {
    let query = Query::parse(&request.query);
    let verb = verb_of(&request.method, target.resource(), &query);
    describe(request, target, &query, &verb, recorded)
}

/// Describes a parsed request for the transcript; the body is decoded only if it is recorded.
pub(super) fn record_parsed(parsed: &ParsedRequest, recorded: bool) -> RecordedRequest {
    let described = describe(&parsed.request, &parsed.target, &parsed.query, &parsed.verb, recorded);
    RecordedRequest { user: parsed.user.name.clone(), ..described }
}

fn describe(request: &ApiRequest, target: &Target, query: &Query, verb: &str, recorded: bool) -> RecordedRequest {
    let none = ResourcePath::default();
    let path = target.resource().unwrap_or(&none);
    let set = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    RecordedRequest {
        verb: verb.to_owned(),
        path: request.path.clone(),
        group: path.group.clone(),
        version: path.version.clone(),
        resource: path.resource.clone(),
        subresource: set(&path.subresource),
        namespace: set(&path.namespace),
        name: set(&path.name),
        query: query.pairs().to_vec(),
        user_agent: request.user_agent().to_owned(),
        user: String::new(),
        content_type: set(request.header(CONTENT_TYPE)),
        body: recorded.then(|| recorded_body(request)).flatten(),
    }
}

fn recorded_body(request: &ApiRequest) -> Option<RecordedJson> {
    if request.body.is_empty() || request.body.len() > BODY_MAX {
        return None;
    }
    let body = &request.body;
    let is_yaml = request.header(CONTENT_TYPE).contains("yaml");
    if is_yaml && !yaml::is_plain_json(body) {
        return Some(RecordedJson::sent(yaml::to_json(body).ok()?.json.into(), Encoding::Json));
    }
    if !is_yaml {
        serde_json::from_slice::<IgnoredAny>(body).ok()?;
    }
    Some(RecordedJson::sent(body.clone(), Encoding::Json))
}

/// The fields of a reply that tell an object from a list and from a `Status`.
#[derive(serde::Deserialize)]
struct ReplyHead<'r> {
    #[serde(borrow, default)]
    kind: Cow<'r, str>,
    items: Option<IgnoredAny>,
}

/// Returns the object or the `Status` in a reply; `None` for lists and for what is not JSON.
fn recorded_reply(reply: &Reply, bytes: &Bytes) -> Option<(RecordedJson, bool)> {
    let media = reply.headers.get(CONTENT_TYPE)?;
    if media == protobuf::MEDIA_TYPE {
        let kind = protobuf::kind_of(bytes)?;
        let body = RecordedJson::sent(bytes.clone(), Encoding::Protobuf);
        return (!kind.ends_with("List")).then_some((body, kind == "Status"));
    }
    let body = RecordedJson::sent(bytes.clone(), Encoding::Json);
    if let Some(kind) = leading_kind(bytes).filter(|kind| !kind.ends_with("List")) {
        return Some((body, kind == "Status"));
    }
    let head: ReplyHead<'_> = serde_json::from_slice(bytes).ok()?;
    head.items.is_none().then_some((body, head.kind == "Status"))
}

/// Returns the kind at the begin of a document. Built-in kinds have it there; objects of custom resources have it after
/// the version, and lists of them after their items.
fn leading_kind(bytes: &[u8]) -> Option<&str> {
    let rest = bytes.strip_prefix(b"{")?;
    let rest = match rest.strip_prefix(b"\"apiVersion\":\"") {
        Some(version) => version[memchr::memchr(b'"', version)?..].strip_prefix(b"\",")?,
        None => rest,
    };
    let rest = rest.strip_prefix(b"\"kind\":\"")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric())?;
    std::str::from_utf8(&rest[..end]).ok().filter(|_| rest[end] == b'"')
}

/// Describes a reply for the transcript.
pub fn record_reply(at: Duration, reply: &Reply, fault: Option<String>, lost: bool) -> RecordedReply {
    const LONGEST: usize = 256 * 1024;
    let mut described = RecordedReply::new(at, reply.status);
    described.fault = fault;
    described.lost = lost;
    described.annotations.clone_from(AuditAnnotations::of(reply));
    described.revision = reply.extensions.get::<ShownRevision>().map(|shown| shown.0);
    if let ReplyBody::Full(bytes) = &reply.body
        && bytes.len() <= LONGEST
        && let Some((body, is_status)) = recorded_reply(reply, bytes)
    {
        if is_status {
            let text = |field: &str| body[field].as_str().map(str::to_owned);
            described.reason = text("reason");
            described.message = text("message");
        }
        described.body = Some(body);
    }
    described
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::typed(r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#, Some("Pod"))]
    #[case::status(r#"{"kind":"Status","apiVersion":"v1","reason":"NotFound"}"#, Some("Status"))]
    #[case::custom(r#"{"apiVersion":"x.io/v1","kind":"Cache","spec":{}}"#, Some("Cache"))]
    #[case::custom_list(r#"{"apiVersion":"x.io/v1","items":[],"kind":"CacheList"}"#, None)]
    #[case::other_order(r#"{"metadata":{},"kind":"Pod"}"#, None)]
    #[case::spaced(r#"{ "kind": "Pod" }"#, None)]
    #[case::cut(r#"{"kind":"Po"#, None)]
    #[case::cut_version(r#"{"apiVersion":"x"#, None)]
    #[case::text("ok", None)]
    fn the_kind_at_the_begin_of_a_document(#[case] document: &str, #[case] kind: Option<&str>) {
        assert_eq!(leading_kind(document.as_bytes()), kind);
    }
}
