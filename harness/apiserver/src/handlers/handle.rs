//! Handles one request from arrival to reply: records it, applies faults, dispatches it, records the reply.
//! See `staging/src/k8s.io/apiserver/pkg/server/config.go` (`DefaultBuildHandlerChain`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};

use super::body::BODY_MAX;
use super::describe::{record_reply, record_request, verb_of};
use super::request_scope::{RequestContext, RequestScope};
use super::{aggregate, impersonation, reply, route};
use crate::audit::PendingEvent;
use crate::crd;
use crate::discovery;
use crate::faults::{FaultAction, execute};
use crate::go_duration::go_duration;
use crate::json::json;
use crate::openapi;
use crate::protobuf::{self, ProtobufError};
use crate::record::{self, Origin};
use crate::registry::Registry;
use crate::registry::Resource;
use crate::request::{ApiRequest, Query, Reply, ReplyBody, ResourcePath, Target};
use crate::server::{ApiServer, RecordMode};
use crate::status::Status;
use crate::watch::{Watch, too_old_resource_version};

/// Handles a request; `target` is its parsed path.
pub(crate) async fn handle(server: &ApiServer, mut request: ApiRequest, target: Target) -> Reply {
    let is_broken = body_to_json(&mut request) == Err(ProtobufError::Raw);
    let user = server.user_of(&request);
    let origin = Origin::client(request.user_agent(), &user.name).attributed(request.attribution.clone());
    let recorded = server.config().record != RecordMode::Off;
    let arrived = record::RecordedRequest { user: user.name.clone(), ..record_request(&request, &target, recorded) };
    let event = server.config().audit.as_ref().map(|log| {
        let (verb, impersonated) = (&arrived.verb, impersonation::impersonated(&request));
        let mut event = PendingEvent::new((log, server.clock()), &request, &target, verb, (&user, impersonated));
        event.decided(impersonation::decision(server, &request, &target, &user, verb));
        event
    });
    let faults = server.faults();
    let waiting = faults.is_blocked(&arrived).then(|| arrived.clone());
    let verdict = if waiting.is_none() { faults.judge(&arrived, &origin) } else { FaultAction::Pass };
    let turns = faults.turns(|| format!("{} {} {}", arrived.user_agent, arrived.verb, arrived.resource));
    let number = recorded.then(|| server.transcript().request(server.clock().elapsed(), origin.clone(), arrived));
    let verdict = match waiting {
        Some(arrived) => {
            faults.turn().await;
            faults.judge(&arrived, &origin)
        }
        None => verdict,
    };
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
    let caller = RequestContext { origin, request: number, user_agent: request.user_agent().to_owned(), user };
    let fault = verdict.fault();
    // kube-apiserver panics over an object that it cannot encode.
    let verdict = if is_broken { FaultAction::Drop { applied: false } } else { verdict };
    let serve = |break_after| serve(server, &request, &target, caller.clone(), break_after);
    let (mut reply, lost) = execute(verdict, server.clock(), serve, || gone(server, &request)).await;
    if let Target::Resource(path) = &target {
        server.counters().count(&request.method, path, &request.query, reply.status);
    }
    reply::format(&request, &mut reply);
    if let Some(number) = number {
        server.transcript().reply(number, record_reply(server.clock().elapsed(), &reply, fault, lost));
    }
    if let Some(event) = event {
        event.replied(&mut reply);
    }
    reply::error_to_protobuf(&request, &mut reply);
    reply
}

/// Converts a protobuf body to JSON for all later steps. A body that cannot be decoded is refused later.
pub fn protobuf_body_to_json(request: &mut ApiRequest) {
    // The error is logged.
    let _ = body_to_json(request);
}

fn body_to_json(request: &mut ApiRequest) -> Result<(), ProtobufError> {
    if request.body.is_empty() || !request.header(CONTENT_TYPE).starts_with(protobuf::MEDIA_TYPE) {
        return Ok(());
    }
    let converted = protobuf::to_json(&request.body);
    let json = converted.inspect_err(|error| {
        tracing::info!(path = request.path, %error, "unable to read a protobuf body");
    })?;
    request.body = json.into();
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(())
}

/// Builds the 410 reply of a watch or a list.
fn gone(server: &ApiServer, request: &ApiRequest) -> Reply {
    let query = Query::parse(&request.query);
    if !query.flag("watch").unwrap_or(false) {
        return Status::expired("The resourceVersion for the provided list is too old.").into();
    }
    let wanted = query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut reply = Reply::json(200, "");
    reply.body = ReplyBody::Stream(Watch::error_stream(&too_old_resource_version(wanted, server.store().revision())));
    reply
}

async fn serve(
    server: &ApiServer,
    request: &ApiRequest,
    target: &Target,
    caller: RequestContext,
    break_after: Option<Duration>,
) -> Reply {
    if request.body.len() > BODY_MAX {
        return Status::too_large(BODY_MAX).into();
    }
    if let Err(status) = check_timeout_parameter(request, target) {
        return status.into();
    }
    let verb = || match target {
        Target::Resource(path) => verb_of(request, path, &Query::parse(&request.query)),
        Target::NonResource(_) => String::new(),
    };
    if let Some(reply) = impersonation::authorize_request(server, request, target, &caller.user, verb) {
        return reply;
    }
    if let Some(reply) = debug_endpoints(server, request) {
        return reply;
    }
    let registry = server.registry();
    if let Some(reply) = aggregate::forward(server, &registry, request, &caller).await {
        return reply;
    }
    if let Some(mut reply) = discovery::respond(&registry, request) {
        if aggregate::lists_groups(request) {
            Box::pin(aggregate::extend_discovery(server, &registry, &caller, &mut reply)).await;
        }
        return reply;
    }
    if let Some(reply) = openapi::respond(&registry, request) {
        return reply;
    }
    let Target::Resource(path) = target else { return discovery::page_not_found() };
    let Some(kind) = registry.get(&path.group, &path.version, &path.resource).cloned() else {
        return unknown_resource(server, &registry, path, request);
    };
    let scope = RequestScope::new(server, kind, path.clone(), request, caller);
    let dispatched = Box::pin(route::dispatch(&scope, break_after)).await;
    let mut reply = dispatched.unwrap_or_else(|status| reply::error(&scope, &status));
    for warning in scope.take_warnings() {
        reply.warn(&warning);
    }
    if let Some(annotations) = scope.take_annotations() {
        reply.extensions.insert(annotations);
    }
    if let Some(warning) = deprecation(&scope.kind, &request.method) {
        reply.warn(&warning);
    }
    let definition = path.group == crd::GROUP && path.resource == crd::RESOURCE;
    let ours = request.user_agent() == crd::USER_AGENT;
    if !ours && request.method != Method::GET && (definition || crd::is_terminating(server, &scope.kind)) {
        crd::reconcile(server, &scope.kind).await;
    }
    reply
}

/// Checks the `timeout` parameter: it must be a duration, although no request here takes that long. Watches have their
/// own timeout.
fn check_timeout_parameter(request: &ApiRequest, target: &Target) -> Result<(), Status> {
    if !request.query.contains("timeout") && !request.query.contains('%') {
        return Ok(());
    }
    let query = Query::parse(&request.query);
    let Some(timeout) = query.get("timeout").filter(|text| !text.is_empty()) else { return Ok(()) };
    let long = matches!(target, Target::Resource(path) if path.watch) || query.flag("watch").unwrap_or(false);
    if long || go_duration(timeout).is_some() {
        return Ok(());
    }
    let missing = timeout.trim_start_matches(['-', '+']).parse::<f64>().is_ok();
    let what = if missing { "missing unit in duration" } else { "invalid duration" };
    let why = format!("invalid timeout specified in the request URL - time: {what} {timeout:?}");
    Err(Status::bad_request(why))
}

/// Builds the 404 for an unknown resource, and logs the resources that exist.
fn unknown_resource(server: &ApiServer, registry: &Registry, path: &ResourcePath, request: &ApiRequest) -> Reply {
    if crd::is_unresolvable(server, path) {
        return Status::internal("error resolving resource").into();
    }
    let (group, version) = (path.group.as_str(), path.version.as_str());
    let known = registry.has_version(group, version);
    let names: BTreeSet<String> = if known {
        let kinds = registry.kinds().filter(|kind| kind.group == group && kind.version == version);
        kinds.map(|kind| kind.plural.to_string()).collect()
    } else {
        registry.kinds().map(|kind| kind.api_version()).collect()
    };
    let served = names.into_iter().collect::<Vec<_>>().join(", ");
    let what = if known { "no such resource" } else { "no such group and version" };
    tracing::info!(method = %request.method, path = request.path, served, "{what}");
    let nobodys = if known { false } else { registry.versions(group).is_empty() };
    if nobodys || is_custom_group(registry, group) {
        discovery::page_not_found()
    } else {
        Status::unknown_resource().into()
    }
}

/// Returns true if the group comes from definitions: unknown resources in it get a plain-text 404.
fn is_custom_group(registry: &Registry, group: &str) -> bool {
    registry.kinds().any(|kind| kind.group == group && kind.custom.is_some())
}

/// Returns the warning that is sent with every reply for a deprecated kind.
fn deprecation(kind: &Resource, method: &Method) -> Option<Cow<'static, str>> {
    let text = match (&*kind.group, &*kind.plural) {
        ("", "endpoints") => "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ("", "componentstatuses") if method == Method::GET => "v1 ComponentStatus is deprecated in v1.19+",
        _ => return kind.custom.as_ref()?.deprecation.clone().map(Cow::Owned),
    };
    Some(Cow::Borrowed(text))
}

/// Serves `/metrics`, and the paths under `/plumbline` that only this server has.
fn debug_endpoints(server: &ApiServer, request: &ApiRequest) -> Option<Reply> {
    if request.path == "/metrics" {
        return Some(metrics(server, &request.method));
    }
    let path = request.path.strip_prefix("/plumbline/")?;
    Some(match (path, &request.method) {
        ("compact", &Method::POST) => {
            let query = Query::parse(&request.query);
            let revision = query.get("resourceVersion").and_then(|text| text.parse().ok());
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
                record::EntryKind::Request(exchange) => json!({
                    "verb": exchange.request.verb,
                    "path": exchange.request.path,
                    "userAgent": exchange.request.user_agent,
                    "body": exchange.request.body.as_deref(),
                    "status": exchange.reply.as_ref().map(|reply| reply.status),
                    "reason": exchange.reply.as_ref().and_then(|reply| reply.reason.clone()),
                    "fault": exchange.reply.as_ref().and_then(|reply| reply.fault.clone()),
                    "annotations": exchange.reply.as_ref().map(|reply| &reply.annotations),
                }),
                record::EntryKind::Change(change) => json!({
                    "change": format!("{:?}", change.kind),
                    "group": change.group,
                    "resource": change.resource,
                    "namespace": change.namespace,
                    "name": change.name,
                    "resourceVersion": change.resource_version.to_string(),
                    "request": change.request,
                }),
                record::EntryKind::Note(text) => json!({"note": text}),
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
