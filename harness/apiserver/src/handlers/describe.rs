//! Describes requests and replies as the transcript records them. The harness's proxy to a real API server uses the
//! same descriptions, so that both transcripts have the same form.
//! Verbs are those of `staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::CONTENT_TYPE;

use super::body::BODY_MAX;
use crate::protobuf;
use crate::record;
use crate::request::{ApiRequest, Query, Reply, ReplyBody, ResourcePath, Target};
use crate::yaml;

/// Describes a request for the transcript; the body is decoded only if it is recorded.
pub fn record_request(request: &ApiRequest, target: &Target, recorded: bool) -> record::RecordedRequest {
    let query = Query::parse(&request.query);
    let none = ResourcePath::default();
    let path = match target {
        Target::Resource(path) => path,
        Target::NonResource(_) => &none,
    };
    let set = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    record::RecordedRequest {
        verb: verb_of(request, path, &query),
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
        body: recorded.then(|| decode_body(request).map(Arc::new)).flatten(),
    }
}

pub(super) fn decode_body(request: &ApiRequest) -> Option<serde_json::Value> {
    if request.body.is_empty() || request.body.len() > BODY_MAX {
        return None;
    }
    if request.header(CONTENT_TYPE).contains("yaml") {
        return yaml::to_json(&request.body).ok().and_then(|read| serde_json::from_slice(&read.json).ok());
    }
    serde_json::from_slice(&request.body).ok()
}

pub(super) fn verb_of(request: &ApiRequest, path: &ResourcePath, query: &Query) -> String {
    if path.resource.is_empty() {
        return request.method.as_str().to_ascii_lowercase();
    }
    let watch = path.watch || (path.name.is_empty() && query.flag("watch").unwrap_or(false));
    match request.method {
        Method::GET if watch => "watch",
        Method::GET | Method::HEAD if path.name.is_empty() => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if path.name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        _ => "",
    }
    .to_owned()
}

/// Returns the object in a reply of either encoding.
fn decode_reply(reply: &Reply, bytes: &[u8]) -> Option<serde_json::Value> {
    let protobuf = reply.headers.get(CONTENT_TYPE).is_some_and(|media| media == protobuf::MEDIA_TYPE);
    let json = if protobuf { Cow::Owned(protobuf::to_json(bytes).ok()?) } else { Cow::Borrowed(bytes) };
    serde_json::from_slice(&json).ok()
}

/// Describes a reply for the transcript.
pub fn record_reply(at: Duration, reply: &Reply, fault: Option<String>, lost: bool) -> record::RecordedReply {
    const LONGEST: usize = 256 * 1024;
    let mut told = record::RecordedReply::new(at, reply.status);
    told.fault = fault;
    told.lost = lost;
    if let ReplyBody::Full(bytes) = &reply.body
        && bytes.len() <= LONGEST
        && let Some(value) = decode_reply(reply, bytes)
    {
        let text = |field: &str| value[field].as_str().map(str::to_owned);
        if value["kind"] == "Status" {
            told.reason = text("reason");
            told.message = text("message");
        }
        if value.get("items").is_none() {
            told.body = Some(Arc::new(value));
        }
    }
    told
}
