//! Endpoints that are about the server itself: `/metrics`, as in
//! `staging/src/k8s.io/apiserver/pkg/server/routes/metrics.go`, and the paths under `/plumbline`, which only this
//! server has.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};

use super::parsed_request::ParsedRequest;
use crate::discovery;
use crate::json::json;
use crate::record::EntryKind;
use crate::request::Reply;
use crate::server::ApiServer;
use crate::status::Status;

/// Serves `/metrics`, and the paths under `/plumbline` that only this server has, unless they are off.
pub(super) fn respond(server: &ApiServer, parsed: &ParsedRequest) -> Option<Reply> {
    let request = &parsed.request;
    if request.path == "/metrics" {
        return Some(metrics(server, &request.method));
    }
    let path = request.path.strip_prefix("/plumbline/").filter(|_| server.config().own_paths)?;
    Some(match (path, &request.method) {
        ("compact", &Method::POST) => {
            let revision = parsed.query.get("resourceVersion").and_then(|text| text.parse().ok());
            server.compact(revision.unwrap_or_else(|| server.store().revision()));
            Reply::json(200, json!({"resourceVersion": server.store().revision().to_string()}).to_string())
        }
        ("compact" | "transcript", _) if request.method != Method::GET || path == "compact" => {
            Status::method_not_allowed().into()
        }
        ("transcript", _) => transcript_reply(server),
        _ => {
            tracing::info!(
                path = request.path,
                "no such endpoint; served are /plumbline/compact, /plumbline/transcript"
            );
            discovery::page_not_found()
        }
    })
}

/// Serves the counters; DELETE resets them, as upstream.
fn metrics(server: &ApiServer, method: &Method) -> Reply {
    if method == Method::DELETE {
        server.counters().reset();
        return Reply::text(200, "metrics reset\n");
    }
    #[cfg_attr(not(feature = "listener"), expect(unused_mut, reason = "flow schemas classify requests over sockets"))]
    let mut text = server.counters().text();
    #[cfg(feature = "listener")]
    text.push_str(&server.flow_schemas().metrics());
    let mut reply = Reply::text(200, text);
    let kind = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// Serves the transcript, one JSON object per line.
fn transcript_reply(server: &ApiServer) -> Reply {
    let mut lines = String::new();
    server.transcript().with(|entries| {
        for entry in entries {
            let what = match &entry.what {
                EntryKind::Request(exchange) => json!({
                    "verb": exchange.request.verb,
                    "path": exchange.request.path,
                    "userAgent": exchange.request.user_agent,
                    "body": exchange.request.body.as_deref(),
                    "status": exchange.reply.as_ref().map(|reply| reply.status),
                    "reason": exchange.reply.as_ref().and_then(|reply| reply.reason.clone()),
                    "fault": exchange.reply.as_ref().and_then(|reply| reply.fault.clone()),
                    "annotations": exchange.reply.as_ref().map(|reply| &reply.annotations),
                }),
                EntryKind::Change(change) => json!({
                    "change": format!("{:?}", change.kind),
                    "group": change.group,
                    "resource": change.resource,
                    "namespace": change.namespace,
                    "name": change.name,
                    "resourceVersion": change.resource_version.to_string(),
                    "request": change.request,
                }),
                EntryKind::Note(text) => json!({"note": text}),
            };
            let line = json!({
                "seq": entry.seq,
                "seconds": entry.at.as_secs_f64(),
                "actor": (server.config().actor_name)(&entry.origin),
                "what": what,
            });
            lines.push_str(&line.to_string());
            lines.push('\n');
        }
    });
    let mut reply = Reply::json(200, lines);
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    reply
}
