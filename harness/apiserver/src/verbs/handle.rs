//! Handles one request from arrival to reply: records it, applies faults, dispatches it, records the reply. Routes
//! agree with `staging/src/k8s.io/apiserver/pkg/endpoints/installer.go` and
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go` of Kubernetes 1.36.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};

use super::body::{BODY_MAX, Shown};
use super::impersonation;
use super::options::ListOptions;
use super::patch::PATCH_TYPES;
use super::scope::{Caller, Scope};
use super::write::{Part, Written};
use super::yaml;
use crate::crd;
use crate::discovery;
use crate::encoding;
use crate::faults::{Verdict, carry_out};
use crate::json::json;
use crate::kinds::Kind;
use crate::kinds::Registry;
use crate::kinds::names;
use crate::openapi;
use crate::protobuf;
use crate::record::{self, Origin};
use crate::request::{ApiRequest, Query, Reply, ReplyBody, ResourcePath, Target};
use crate::server::{ApiServer, Record};
use crate::status::{Details, Status, go_quote};
use crate::table::accept;
use crate::watch::{Watch, too_old};

/// Handles a request.
pub async fn handle(server: &ApiServer, mut request: ApiRequest) -> Reply {
    read_protobuf(&mut request);
    let target = Target::parse(&request.path);
    let user = server.user_of(&request);
    let origin = Origin::client(request.user_agent(), &user.name);
    let recorded = server.config().record != Record::Nothing;
    let arrived = record::Request { user: user.name.clone(), ..describe(&request, &target, recorded) };
    let faults = server.faults();
    let waiting = faults.keeps_waiting(&arrived).then(|| arrived.clone());
    let verdict = if waiting.is_none() { faults.judge(&arrived, &origin) } else { Verdict::Pass };
    let number = recorded.then(|| server.transcript().request(server.clock().elapsed(), origin.clone(), arrived));
    let verdict = match waiting {
        Some(arrived) => {
            faults.turn().await;
            faults.judge(&arrived, &origin)
        }
        None => verdict,
    };
    let caller = Caller { origin, request: number, user_agent: request.user_agent().to_owned(), user };
    let fault = verdict.fault();
    let yaml = wants_yaml(&request);
    let serve = |break_after| serve(server, &request, &target, caller.clone(), break_after);
    let (mut reply, lost) = carry_out(verdict, server.clock(), serve, || gone(server, &request)).await;
    if let Target::Resource(path) = &target {
        server.counters().count(&request.method, path, &request.query, reply.status);
    }
    if yaml && reply.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json") {
        super::in_yaml(&mut reply);
    }
    if wants_lines(&request, &reply) {
        in_lines(&mut reply);
    }
    if let Some(number) = number {
        server.transcript().reply(number, describe_reply(server.clock().elapsed(), &reply, fault, lost));
    }
    reply
}

/// Returns true if errors and discovery documents should be YAML. Replies with objects are negotiated by their
/// handlers.
fn wants_yaml(request: &ApiRequest) -> bool {
    is_api(request) && accept::wants_yaml(request.header(http::header::ACCEPT))
}

fn is_api(request: &ApiRequest) -> bool {
    ["/api", "/apis"]
        .iter()
        .any(|root| request.path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Returns true if JSON should be indented: for `?pretty`, for the user agents of curl, Wget and browsers, and for
/// errors sent to clients that do not accept plain objects.
fn wants_lines(request: &ApiRequest, reply: &Reply) -> bool {
    if !is_api(request) || reply.headers.get(CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
        return false;
    }
    let refused = reply.status >= 400 && !accept::takes_objects(request.header(http::header::ACCEPT));
    let browser = || ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| request.user_agent().starts_with(name));
    let asked = match Query::parse(&request.query).get("pretty").filter(|text| !text.is_empty()) {
        Some(text) => matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => browser(),
    };
    refused || asked
}

fn in_lines(reply: &mut Reply) {
    if let ReplyBody::Full(bytes) = &reply.body {
        reply.body = ReplyBody::Full(encoding::indented(bytes).into());
    }
}

/// Converts a protobuf body to JSON for all later steps. A body that cannot be decoded is refused later.
pub fn read_protobuf(request: &mut ApiRequest) {
    if request.body.is_empty() || !request.header(CONTENT_TYPE).starts_with(protobuf::MEDIA_TYPE) {
        return;
    }
    match protobuf::to_json(&request.body) {
        Ok(json) => {
            request.body = json.into();
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Err(error) => tracing::info!(path = request.path, %error, "unable to read a protobuf body"),
    }
}

/// Builds the 410 reply of a watch or a list.
fn gone(server: &ApiServer, request: &ApiRequest) -> Reply {
    let query = Query::parse(&request.query);
    if !query.flag("watch").unwrap_or(false) {
        return Status::expired("The resourceVersion for the provided list is too old.").into();
    }
    let wanted = query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut reply = Reply::json(200, "");
    reply.body = ReplyBody::Stream(Watch::failed(&too_old(wanted, server.store().revision())));
    reply
}

async fn serve(
    server: &ApiServer,
    request: &ApiRequest,
    target: &Target,
    caller: Caller,
    break_after: Option<Duration>,
) -> Reply {
    if request.body.len() > BODY_MAX {
        return Status::too_large(BODY_MAX).into();
    }
    let verb = || match target {
        Target::Resource(path) => verb_of(request, path, &Query::parse(&request.query)),
        Target::Other(_) => String::new(),
    };
    if let Some(reply) = impersonation::refusal(server, request, target, &caller.user, verb) {
        return reply;
    }
    if let Some(reply) = own_paths(server, request) {
        return reply;
    }
    let registry = server.registry();
    if let Some(reply) = discovery::respond(&registry, request) {
        return reply;
    }
    if let Some(reply) = openapi::respond(&registry, request) {
        return reply;
    }
    let Target::Resource(path) = target else { return discovery::page_not_found() };
    let Some(kind) = registry.lookup(&path.group, &path.version, &path.resource).cloned() else {
        return not_served(&registry, path, request);
    };
    if let Err(status) = check_deadline(request, target) {
        return status.into();
    }
    let scope = Scope::new(server, kind, path.clone(), request, caller);
    let mut reply = scope.dispatch(break_after).await.unwrap_or_else(|status| scope.refusal(&status));
    for warning in scope.take_warnings() {
        reply.warn(&warning);
    }
    if let Some(warning) = deprecation(&scope.kind, &request.method) {
        reply.warn(&warning);
    }
    let definition = path.group == crd::GROUP && path.resource == crd::RESOURCE;
    let ours = request.user_agent() == crd::USER_AGENT;
    if !ours && request.method != Method::GET && (definition || crd::is_ending(server, &scope.kind)) {
        crd::settle(server).await;
    }
    reply
}

/// Checks the `timeout` parameter: it must be a duration, although no request here takes that long. Watches have their
/// own timeout.
fn check_deadline(request: &ApiRequest, target: &Target) -> Result<(), Status> {
    let query = Query::parse(&request.query);
    let Some(timeout) = query.get("timeout").filter(|text| !text.is_empty()) else { return Ok(()) };
    let long = matches!(target, Target::Resource(path) if path.watch) || query.flag("watch").unwrap_or(false);
    if long || crate::kinds::go_duration(timeout).is_some() {
        return Ok(());
    }
    let missing = timeout.trim_start_matches(['-', '+']).parse::<f64>().is_ok();
    let what = if missing { "missing unit in duration" } else { "invalid duration" };
    let why = format!("invalid timeout specified in the request URL - time: {what} {timeout:?}");
    Err(Status::bad_request(why))
}

/// Builds the 404 for an unknown resource, and logs the resources that exist.
fn not_served(registry: &Registry, path: &ResourcePath, request: &ApiRequest) -> Reply {
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
fn deprecation(kind: &Kind, method: &Method) -> Option<Cow<'static, str>> {
    let text = match (&*kind.group, &*kind.plural) {
        ("", "endpoints") => "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ("", "componentstatuses") if method == Method::GET => "v1 ComponentStatus is deprecated in v1.19+",
        _ => return kind.custom.as_ref()?.deprecation.clone().map(Cow::Owned),
    };
    Some(Cow::Borrowed(text))
}

/// Serves `/metrics`, and the paths under `/plumbline` that only this server has.
fn own_paths(server: &ApiServer, request: &ApiRequest) -> Option<Reply> {
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
    let mut reply = Reply::text(200, server.counters().text());
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
                record::Happening::Request(exchange) => json!({
                    "verb": exchange.request.verb,
                    "path": exchange.request.path,
                    "userAgent": exchange.request.user_agent,
                    "body": exchange.request.body.as_deref(),
                    "status": exchange.reply.as_ref().map(|reply| reply.status),
                    "reason": exchange.reply.as_ref().and_then(|reply| reply.reason.clone()),
                    "fault": exchange.reply.as_ref().and_then(|reply| reply.fault.clone()),
                }),
                record::Happening::Change(change) => json!({
                    "change": format!("{:?}", change.kind),
                    "group": change.group,
                    "resource": change.resource,
                    "namespace": change.namespace,
                    "name": change.name,
                    "resourceVersion": change.resource_version.to_string(),
                    "request": change.request,
                }),
                record::Happening::Note(text) => json!({"note": text}),
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

impl Scope<'_> {
    /// Dispatches by method and path, as upstream's routes do.
    async fn dispatch(&self, break_after: Option<Duration>) -> Result<Reply, Status> {
        if self.is_custom() {
            return self.custom(break_after).await;
        }
        if !self.fits_scope() {
            return Err(Status::unknown_resource());
        }
        if self.kind.kind == "ComponentStatus" {
            return self.components();
        }
        if self.path.watch {
            return self.old_watch(break_after);
        }
        if self.path.name.is_empty() {
            return self.collection(break_after);
        }
        self.check_path_name()?;
        if self.path.subresource.is_empty() {
            return self.object();
        }
        self.subresource().await
    }

    fn check_path_name(&self) -> Result<(), Status> {
        let why = names::path_segment(&self.path.name, false);
        if why.is_empty() || !self.kind.is_stored() {
            return Ok(());
        }
        let why = format!("Name parameter invalid: {}: {}", go_quote(&self.path.name), why.join(";"));
        Err(Status::bad_request(why))
    }

    /// Handles requests for custom resources. Upstream has one handler for all their paths, which dispatches by verb.
    async fn custom(&self, break_after: Option<Duration>) -> Result<Reply, Status> {
        let verb = verb_of(self.request, &self.path, &self.query);
        let across = matches!(&*verb, "list" | "watch");
        let fits = if self.kind.namespaced { across || !self.path.namespace.is_empty() } else { self.fits_scope() };
        if !fits {
            return Ok(discovery::page_not_found());
        }
        let (name, subresource) = (&self.path.name, &*self.path.subresource);
        if subresource.is_empty() {
            return self.custom_object(&verb, break_after);
        }
        if self.kind.subresource(subresource).is_none() {
            return Err(self.not_found(name));
        }
        if !matches!(&*verb, "get" | "update" | "patch") {
            return Err(Status::method_not_supported(self.group_resource(), &verb));
        }
        self.check_path_name()?;
        self.part(&verb).await
    }

    fn custom_object(&self, verb: &str, break_after: Option<Duration>) -> Result<Reply, Status> {
        match verb {
            "list" | "watch" => {
                let by_path = self.path.watch;
                let options = ListOptions::parse(&self.query, &self.kind, &self.path.name, by_path)?;
                if by_path || options.watch { self.watch(&options, break_after) } else { self.list(&options) }
            }
            "create" => self.post(),
            "deletecollection" => self.delete_collection(),
            "patch" => {
                self.check_patch_type()?;
                self.check_named()?;
                self.write_reply(|| self.patch(Part::Whole))
            }
            "get" => {
                self.check_named()?;
                self.get()
            }
            "update" => {
                self.check_named()?;
                self.write_reply(|| self.update(Part::Whole))
            }
            "delete" => {
                self.check_named()?;
                self.delete()
            }
            _ => Err(Status::method_not_supported(self.group_resource(), verb)),
        }
    }

    fn check_named(&self) -> Result<(), Status> {
        if self.path.name.is_empty() {
            return Err(Status::bad_request("name must be provided"));
        }
        self.check_path_name()
    }

    /// Returns true if the path has a namespace exactly if the kind is namespaced, or lists across namespaces.
    fn fits_scope(&self) -> bool {
        let (namespace, name) = (&self.path.namespace, &self.path.name);
        if self.kind.namespaced { !namespace.is_empty() || name.is_empty() } else { namespace.is_empty() }
    }

    fn allow(&self, verb: &str) -> Result<(), Status> {
        if self.kind.has_verb(verb) { Ok(()) } else { Err(Status::method_not_allowed()) }
    }

    fn old_watch(&self, break_after: Option<Duration>) -> Result<Reply, Status> {
        if !self.path.subresource.is_empty() {
            return Err(Status::unknown_resource());
        }
        if self.request.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        self.allow("watch")?;
        let options = ListOptions::parse(&self.query, &self.kind, &self.path.name, true)?;
        self.watch(&options, break_after)
    }

    fn collection(&self, break_after: Option<Duration>) -> Result<Reply, Status> {
        let everywhere = self.kind.namespaced && self.path.namespace.is_empty();
        match self.request.method {
            Method::GET => {
                self.allow("list")?;
                let options = ListOptions::parse(&self.query, &self.kind, "", false)?;
                if options.watch { self.watch(&options, break_after) } else { self.list(&options) }
            }
            Method::POST if !everywhere => {
                self.allow("create")?;
                if !self.kind.is_stored() {
                    return self.review();
                }
                self.post()
            }
            // Namespaced reviews have no route without a namespace.
            Method::POST if !self.kind.has_verb("list") => Err(Status::unknown_resource()),
            Method::DELETE if !everywhere => {
                self.allow("deletecollection")?;
                self.delete_collection()
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// Handles POST of a new object.
    fn post(&self) -> Result<Reply, Status> {
        let negotiated = self.negotiate()?;
        self.refuse_in_ending_definition()?;
        let written = self.create()?;
        self.show(201, Shown::Written(&written), negotiated)
    }

    fn refuse_in_ending_definition(&self) -> Result<(), Status> {
        if !crd::is_ending(self.server, &self.kind) {
            return Ok(());
        }
        let name = self.decode_name();
        let why = "create not allowed while custom resource definition is terminating";
        Err(Status::forbidden(self.group_resource(), &name, why))
    }

    /// Returns the name in the body, if it can be decoded.
    fn decode_name(&self) -> String {
        let body = decode_body(self.request);
        body.map_or_else(String::new, |body| body["metadata"]["name"].as_str().unwrap_or_default().to_owned())
    }

    fn object(&self) -> Result<Reply, Status> {
        // Create-only resources (reviews) have no endpoint for single objects.
        if !self.kind.has_verb("get") && !self.kind.has_verb("list") {
            return Err(Status::unknown_resource());
        }
        match self.request.method {
            Method::GET => {
                self.allow("get")?;
                self.get()
            }
            Method::PUT => {
                self.allow("update")?;
                self.write_reply(|| self.update(Part::Whole))
            }
            Method::PATCH => {
                self.allow("patch")?;
                self.check_patch_type()?;
                self.write_reply(|| self.patch(Part::Whole))
            }
            Method::DELETE => {
                self.allow("delete")?;
                self.delete()
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    pub(crate) fn write_reply(&self, write: impl FnOnce() -> Result<Written, Status>) -> Result<Reply, Status> {
        let negotiated = self.negotiate()?;
        let written = write()?;
        let code = if written.created() { 201 } else { 200 };
        self.show(code, Shown::Written(&written), negotiated)
    }

    /// Checks that the content type of a PATCH is one of the patch formats.
    pub(crate) fn check_patch_type(&self) -> Result<(), Status> {
        let content_type = self.request.header(CONTENT_TYPE);
        let content_type = content_type.split(';').next().unwrap_or_default().trim();
        if self.is_custom() {
            let types: Vec<&str> = PATCH_TYPES.into_iter().filter(|name| !name.contains("strategic")).collect();
            return if types.contains(&content_type) { Ok(()) } else { Err(Status::unsupported_media_type(&types)) };
        }
        if PATCH_TYPES.contains(&content_type) {
            return Ok(());
        }
        Err(Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type")
            .with_details(Details::default()))
    }

    async fn subresource(&self) -> Result<Reply, Status> {
        if self.path.subresource == "proxy" && self.kind.subresource("proxy").is_some() {
            return self.proxy();
        }
        if !self.path.rest.is_empty() {
            return Err(Status::unknown_resource());
        }
        let subresource = self.kind.subresource(&self.path.subresource).ok_or_else(Status::unknown_resource)?;
        let verb = match self.request.method {
            Method::GET => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::POST => "create",
            Method::DELETE => "delete",
            _ => return Err(Status::method_not_allowed()),
        };
        if !subresource.has_verb(verb) {
            return Err(Status::method_not_allowed());
        }
        self.part(verb).await
    }

    /// Handles a verb that the subresource supports.
    async fn part(&self, verb: &str) -> Result<Reply, Status> {
        match (&*self.path.subresource, verb) {
            ("status" | "finalize", "get") => self.get(),
            ("status", "update") => self.write_reply(|| self.update(Part::Status)),
            ("status", "patch") => {
                self.check_patch_type()?;
                self.write_reply(|| self.patch(Part::Status))
            }
            _ => self.special_subresource(verb).await,
        }
    }
}

/// Describes a request for the transcript; the body is decoded only if it is recorded.
pub fn describe(request: &ApiRequest, target: &Target, recorded: bool) -> record::Request {
    let query = Query::parse(&request.query);
    let none = ResourcePath::default();
    let path = match target {
        Target::Resource(path) => path,
        Target::Other(_) => &none,
    };
    let set = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    record::Request {
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

fn decode_body(request: &ApiRequest) -> Option<serde_json::Value> {
    if request.body.is_empty() || request.body.len() > BODY_MAX {
        return None;
    }
    if request.header(CONTENT_TYPE).contains("yaml") {
        return yaml::to_json(&request.body).ok().and_then(|read| serde_json::from_slice(&read.json).ok());
    }
    serde_json::from_slice(&request.body).ok()
}

fn verb_of(request: &ApiRequest, path: &ResourcePath, query: &Query) -> String {
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

/// Describes a reply for the transcript.
pub fn describe_reply(at: Duration, reply: &Reply, fault: Option<String>, lost: bool) -> record::Reply {
    const LONGEST: usize = 256 * 1024;
    let mut told = record::Reply::new(at, reply.status);
    told.fault = fault;
    told.lost = lost;
    if let ReplyBody::Full(bytes) = &reply.body
        && bytes.len() <= LONGEST
        && let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes)
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
