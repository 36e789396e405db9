//! Dispatches a request for a resource by its path and method. Routes agree with
//! `staging/src/k8s.io/apiserver/pkg/endpoints/installer.go` and
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go` of Kubernetes 1.36.

use std::time::Duration;

use http::Method;

use super::options::ListOptions;
use super::reply::ReplyContent;
use super::request_scope::RequestScope;
use super::write_outcome::WriteTarget;
use super::{admission, component_status, delete, patch, proxy, read, reply, reviews, subresources, write};
use crate::discovery;
use crate::object_lifecycle;
use crate::request::Reply;
use crate::status::Status;

/// Dispatches by method and path, as upstream's routes do.
pub(super) async fn dispatch(scope: &RequestScope<'_>, break_after: Option<Duration>) -> Result<Reply, Status> {
    if !scope.kind.is_routed() {
        return dispatch_custom(scope, break_after).await;
    }
    if !scope_matches(scope) {
        return Err(Status::unknown_resource());
    }
    if scope.kind.kind == "ComponentStatus" {
        return component_status::handle(scope);
    }
    if scope.path.watch {
        return watch_by_path(scope, break_after);
    }
    if scope.path.name.is_empty() {
        return handle_collection(scope, break_after).await;
    }
    check_path_name(scope)?;
    if scope.path.subresource.is_empty() {
        return handle_object(scope).await;
    }
    dispatch_subresource(scope).await
}

fn check_path_name(scope: &RequestScope<'_>) -> Result<(), Status> {
    if scope.kind.is_stored() { object_lifecycle::check_name_in_path(&scope.path.name) } else { Ok(()) }
}

/// Handles requests for custom resources. Upstream has one handler for all their paths, which dispatches by verb.
async fn dispatch_custom(scope: &RequestScope<'_>, break_after: Option<Duration>) -> Result<Reply, Status> {
    let verb = &*scope.parsed.verb;
    let across = matches!(verb, "list" | "watch");
    let fits = if scope.kind.namespaced { across || !scope.path.namespace.is_empty() } else { scope_matches(scope) };
    if !fits {
        return Ok(discovery::page_not_found());
    }
    let name = &scope.path.name;
    let subresource = &*scope.path.subresource;
    if subresource.is_empty() {
        return handle_custom(scope, verb, break_after).await;
    }
    if scope.kind.subresource(subresource).is_none() {
        return Err(scope.not_found(name));
    }
    if !matches!(verb, "get" | "update" | "patch") {
        return Err(Status::method_not_supported(scope.group_resource(), verb));
    }
    check_path_name(scope)?;
    handle_subresource(scope, verb).await
}

async fn handle_custom(scope: &RequestScope<'_>, verb: &str, break_after: Option<Duration>) -> Result<Reply, Status> {
    match verb {
        "list" | "watch" => {
            let by_path = scope.path.watch;
            let options = ListOptions::parse(scope.query, &scope.kind, &scope.path.name, by_path)?;
            if by_path || options.watch {
                read::watch(scope, &options, break_after)
            } else {
                read::list(scope, &options).await
            }
        }
        "create" => post(scope).await,
        "deletecollection" => delete::collection(scope).await,
        "patch" => {
            patch::check_content_type(scope)?;
            require_name(scope)?;
            write::respond(scope, patch::object(scope, WriteTarget::Whole)).await
        }
        "get" => {
            require_name(scope)?;
            read::get(scope).await
        }
        "update" => {
            require_name(scope)?;
            write::respond(scope, write::update(scope, WriteTarget::Whole)).await
        }
        "delete" => {
            require_name(scope)?;
            delete::object(scope).await
        }
        _ => Err(Status::method_not_supported(scope.group_resource(), verb)),
    }
}

fn require_name(scope: &RequestScope<'_>) -> Result<(), Status> {
    if scope.path.name.is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    check_path_name(scope)
}

/// Returns true if the path has a namespace exactly if the kind is namespaced, or lists across namespaces.
fn scope_matches(scope: &RequestScope<'_>) -> bool {
    let namespace = &scope.path.namespace;
    let name = &scope.path.name;
    if scope.kind.namespaced { !namespace.is_empty() || name.is_empty() } else { namespace.is_empty() }
}

fn require_verb(scope: &RequestScope<'_>, verb: &str) -> Result<(), Status> {
    if scope.kind.has_verb(verb) { Ok(()) } else { Err(Status::method_not_allowed()) }
}

fn watch_by_path(scope: &RequestScope<'_>, break_after: Option<Duration>) -> Result<Reply, Status> {
    if !scope.path.subresource.is_empty() {
        return Err(Status::unknown_resource());
    }
    if scope.request.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    require_verb(scope, "watch")?;
    let options = ListOptions::parse(scope.query, &scope.kind, &scope.path.name, true)?;
    read::watch(scope, &options, break_after)
}

async fn handle_collection(scope: &RequestScope<'_>, break_after: Option<Duration>) -> Result<Reply, Status> {
    let everywhere = scope.kind.namespaced && scope.path.namespace.is_empty();
    match scope.request.method {
        Method::GET => {
            require_verb(scope, "list")?;
            let options = ListOptions::parse(scope.query, &scope.kind, "", false)?;
            if options.watch { read::watch(scope, &options, break_after) } else { read::list(scope, &options).await }
        }
        Method::POST if !everywhere => {
            require_verb(scope, "create")?;
            if !scope.kind.is_stored() {
                return reviews::create(scope).await;
            }
            post(scope).await
        }
        // Namespaced reviews have no route without a namespace.
        Method::POST if !scope.kind.has_verb("list") => Err(Status::unknown_resource()),
        Method::DELETE if !everywhere => {
            require_verb(scope, "deletecollection")?;
            delete::collection(scope).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// Handles POST of a new object.
async fn post(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let negotiated = reply::negotiate(scope)?;
    let written = write::create(scope).await?;
    reply::object(scope, 201, ReplyContent::Outcome(&written), negotiated)
}

async fn handle_object(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    // Create-only resources (reviews) have no endpoint for single objects.
    if !scope.kind.has_verb("get") && !scope.kind.has_verb("list") {
        return Err(Status::unknown_resource());
    }
    match scope.request.method {
        Method::GET => {
            require_verb(scope, "get")?;
            read::get(scope).await
        }
        Method::PUT => {
            require_verb(scope, "update")?;
            write::respond(scope, write::update(scope, WriteTarget::Whole)).await
        }
        Method::PATCH => {
            require_verb(scope, "patch")?;
            patch::check_content_type(scope)?;
            write::respond(scope, patch::object(scope, WriteTarget::Whole)).await
        }
        Method::DELETE => {
            require_verb(scope, "delete")?;
            delete::object(scope).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

async fn dispatch_subresource(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    if scope.path.subresource == "proxy" && scope.kind.subresource("proxy").is_some() {
        admission::admit_connection(scope).await?;
        return proxy::connect(scope);
    }
    if !scope.path.rest.is_empty() {
        return Err(Status::unknown_resource());
    }
    let subresource = scope.kind.subresource(&scope.path.subresource).ok_or_else(Status::unknown_resource)?;
    let verb = match scope.request.method {
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
    handle_subresource(scope, verb).await
}

/// Handles a verb that the subresource supports.
async fn handle_subresource(scope: &RequestScope<'_>, verb: &str) -> Result<Reply, Status> {
    match (&*scope.path.subresource, verb) {
        ("status" | "finalize", "get") => read::get(scope).await,
        ("status", "update") => write::respond(scope, write::update(scope, WriteTarget::Status)).await,
        ("status", "patch") => {
            patch::check_content_type(scope)?;
            write::respond(scope, patch::object(scope, WriteTarget::Status)).await
        }
        _ => subresources::dispatch(scope, verb).await,
    }
}
