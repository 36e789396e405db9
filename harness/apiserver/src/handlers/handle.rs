//! Handles one request from arrival to reply: records it, applies faults, dispatches it, records the reply.
//! See `staging/src/k8s.io/apiserver/pkg/server/config.go` (`DefaultBuildHandlerChain`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};

use super::body::BODY_MAX;
use super::describe::{record_parsed, record_reply};
use super::impersonation::EffectiveUser;
use super::parsed_request::ParsedRequest;
use super::request_scope::RequestScope;
use super::{aggregate, authorization, debug_endpoints, impersonation_modes, reply, route};
use crate::audit::PendingEvent;
use crate::crd;
use crate::discovery;
use crate::faults::{FaultAction, execute};
use crate::go_duration::go_duration;
use crate::openapi;
use crate::protobuf::{self, ProtobufError};
use crate::registry::Registry;
use crate::registry::Resource;
use crate::request::{ApiRequest, GzipThreshold, Reply, ReplyBody, ResourcePath, Target};
use crate::server::{ApiServer, RecordMode};
use crate::status::Status;
use crate::watch::{Watch, too_old_resource_version};

/// Handles a request.
pub(crate) async fn handle(server: &ApiServer, mut parsed: ParsedRequest) -> Reply {
    let is_broken = body_to_json(&mut parsed.request) == Err(ProtobufError::Raw);
    impersonation_modes::resolve(server, &mut parsed);
    let recorded = server.config().record != RecordMode::Off;
    let arrived = server.transcript().names().request(record_parsed(&parsed, recorded));
    let event = server.config().audit.as_ref().map(|log| {
        let impersonated = parsed.impersonated().map(EffectiveUser::info);
        PendingEvent::new(
            (log, server.clock()),
            &parsed.request,
            &parsed.target,
            &parsed.verb,
            (&parsed.user, impersonated, &parsed.constraint),
        )
    });
    let faults = server.faults();
    let waiting = faults.is_blocked(&arrived).then(|| arrived.clone());
    let verdict = if waiting.is_none() { faults.judge(&arrived, &parsed.origin) } else { FaultAction::Pass };
    let turns = faults.turns(|| format!("{} {} {}", arrived.user_agent, arrived.verb, arrived.resource));
    if recorded {
        let number = server.transcript().request(server.clock().elapsed(), parsed.origin.clone(), arrived);
        parsed.number = Some(number);
    }
    let verdict = match waiting {
        Some(arrived) => {
            faults.turn().await;
            faults.judge(&arrived, &parsed.origin)
        }
        None => verdict,
    };
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
    let fault = verdict.fault();
    // kube-apiserver panics over an object that it cannot encode.
    let verdict = if is_broken { FaultAction::Drop { applied: false } } else { verdict };
    let serve = |break_after| serve(server, &parsed, break_after);
    let (mut reply, lost) = execute(verdict, server.clock(), serve, || gone(server, &parsed)).await;
    let ParsedRequest { request, target, query, .. } = &parsed;
    if let Target::Resource(path) = target {
        server.counters().count(&request.method, path, query, reply.status);
    }
    reply::format(request, query, &mut reply);
    if let Some(number) = parsed.number {
        server.transcript().reply(number, record_reply(server.clock().elapsed(), &reply, fault, lost));
    }
    if let Some(event) = event {
        event.replied(authorization::audited_decision(server, &parsed), &mut reply);
    }
    reply::error_to_protobuf(request, &mut reply);
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
fn gone(server: &ApiServer, parsed: &ParsedRequest) -> Reply {
    if !parsed.asks_for_watch() {
        return Status::expired("The resourceVersion for the provided list is too old.").into();
    }
    let wanted = parsed.query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut reply = Reply::json(200, "");
    reply.body = ReplyBody::Stream(Watch::error_stream(&too_old_resource_version(wanted, server.store().revision())));
    reply
}

async fn serve(server: &ApiServer, parsed: &ParsedRequest, break_after: Option<Duration>) -> Reply {
    let request = &parsed.request;
    if request.body.len() > BODY_MAX {
        return Status::too_large(BODY_MAX).into();
    }
    if let Err(status) = check_timeout_parameter(parsed) {
        return status.into();
    }
    if let Some(reply) = authorization::authorize_request(server, parsed) {
        return reply;
    }
    if let Some(reply) = debug_endpoints::respond(server, parsed) {
        return reply;
    }
    let registry = server.registry();
    if let Some(reply) = aggregate::forward(server, &registry, parsed).await {
        return reply;
    }
    let document = discovery::openid::respond(server.tokens(), request);
    if let Some(mut reply) = document.or_else(|| discovery::respond(&registry, request)) {
        if aggregate::lists_groups(request) {
            Box::pin(aggregate::extend_discovery(server, &registry, parsed, &mut reply)).await;
        }
        reply.extensions.insert(GzipThreshold::OBJECT);
        return reply;
    }
    if let Some(reply) = openapi::respond(&registry, request, server.clock().now()) {
        return reply;
    }
    let Target::Resource(path) = &parsed.target else { return discovery::page_not_found() };
    let Some(kind) = registry.get(&path.group, &path.version, &path.resource).cloned() else {
        return unknown_resource(server, &registry, path, request);
    };
    let scope = RequestScope::new(server, kind, Cow::Borrowed(path), parsed);
    let dispatched = Box::pin(route::dispatch(&scope, break_after)).await;
    let handled = dispatched.as_ref().err().is_none_or(|status| is_from_handler(&scope, status));
    let mut reply = dispatched.unwrap_or_else(|status| reply::error(&scope, &status));
    // Watches and logs are sent piece by piece, and a proxied backend chooses its own encoding.
    if !path.watch && !parsed.asks_for_watch() && !matches!(&*path.subresource, "log" | "proxy") {
        reply.extensions.insert(GzipThreshold::OBJECT);
    }
    let deprecated = deprecation(&scope.kind, &request.method).filter(|_| handled);
    let mut warnings: Vec<String> = deprecated.map(Cow::into_owned).into_iter().collect();
    warnings.extend(scope.take_warnings());
    reply.add_warnings(&warnings);
    if let Some(annotations) = scope.take_annotations() {
        reply.extensions.insert(annotations);
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
fn check_timeout_parameter(parsed: &ParsedRequest) -> Result<(), Status> {
    let Some(timeout) = parsed.query.get("timeout").filter(|text| !text.is_empty()) else { return Ok(()) };
    let long = parsed.target.resource().is_some_and(|path| path.watch) || parsed.asks_for_watch();
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
    let group = path.group.as_str();
    let version = path.version.as_str();
    let known = registry.has_version(group, version);
    let names: BTreeSet<String> = if known {
        let kinds = registry.kinds().filter(|kind| kind.group == group && kind.version == version);
        kinds.map(|kind| kind.plural.to_string()).collect()
    } else {
        registry.kinds().map(|kind| kind.api_version()).collect()
    };
    let served = names.into_iter().collect::<Vec<_>>().join(", ");
    let what = if known { "no such resource" } else { "no such group and version" };
    if server.is_first_unknown(&format!("{group}/{version}/{}", if known { &path.resource } else { "" })) {
        tracing::info!(method = %request.method, path = request.path, served, "{what}; logged once");
    }
    let unknown_group = !known && registry.versions(group).is_empty();
    if unknown_group || is_custom_group(registry, group) {
        discovery::page_not_found()
    } else {
        Status::unknown_resource().into()
    }
}

/// Returns true if the group comes from definitions: unknown resources in it get a plain-text 404.
fn is_custom_group(registry: &Registry, group: &str) -> bool {
    registry.kinds().any(|kind| kind.group == group && kind.custom.is_some())
}

/// Returns false for an error of upstream's router, which does not call the handler that warns. Custom resources have
/// none.
fn is_from_handler(scope: &RequestScope<'_>, status: &Status) -> bool {
    let refused = match status.code {
        404 => status.message == Status::unknown_resource().message,
        405 => true,
        406 => status.message.starts_with("406: "),
        415 => scope.request.method == Method::PATCH,
        _ => false,
    };
    !(refused && scope.kind.is_routed())
}

/// Returns the warning that is sent with every reply for a deprecated kind.
fn deprecation(kind: &Resource, method: &Method) -> Option<Cow<'static, str>> {
    let text = match (&*kind.group, &*kind.plural) {
        ("", "endpoints") => "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ("", "componentstatuses") if method == Method::GET => "v1 ComponentStatus is deprecated in v1.19+",
        _ => return kind.deprecation.clone(),
    };
    Some(Cow::Borrowed(text))
}
