//! DELETE of one object or of a collection. Follows `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go` and
//! `staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go` of Kubernetes 1.36.

use super::admission;
use super::body_format::{BodyFormat, body_format};
use super::options::{DeleteOptions, ListOptions, VersionMatch};
use super::read;
use super::reply::{self, ReplyContent};
use super::request_scope::RequestScope;
use crate::json::fields::object_or_insert;
use crate::json::{Value, json};
use crate::object_lifecycle::{self, DeletionStep};
use crate::request::Reply;
use crate::schema;
use crate::server::{draft, draft_and_stored};
use crate::status::{Details, Status, go_quote};
use crate::store::{CommitError, EventType, StoredObject};
use crate::{crd, metadata, yaml};

const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// Priority classes that stay: `pkg/registry/scheduling/priorityclass/storage/storage.go`.
const SYSTEM_PRIORITIES: [&str; 2] = ["system-node-critical", "system-cluster-critical"];

/// The result of a deletion.
pub(crate) struct DeleteOutcome {
    /// The object in the state that the reply shows.
    object: Value,
    /// `true` if the object was removed, `false` if it was only marked.
    gone: bool,
}

/// Handles DELETE of one object.
pub(crate) async fn object(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let negotiated = reply::negotiate(scope)?;
    let options = delete_options(scope)?;
    warn_of_orphans(scope, &options);
    if scope.kind.group == "scheduling.k8s.io" && SYSTEM_PRIORITIES.contains(&&*scope.path.name) {
        let why = "this is a system priority class and cannot be deleted";
        return Err(Status::forbidden(scope.group_resource(), &scope.path.name, why));
    }
    let mut deleted = delete_named(scope, &scope.path.namespace, &scope.path.name, &options).await?;
    if !deleted.gone {
        let shown = scope.converted(vec![deleted.object]).await?.pop();
        deleted.object = shown.unwrap_or_default();
    }
    let marked = !deleted.gone && options.orphan_dependents == Some(false);
    let code = if marked { 202 } else { 200 };
    if deleted.gone && !returns_deleted_object(scope) {
        let status = deleted_status(scope, &deleted.object);
        return reply::object(scope, code, ReplyContent::Status(&status), negotiated);
    }
    reply::object(scope, code, ReplyContent::Value(&deleted.object), negotiated)
}

/// Handles DELETE of a collection: deletes each object separately, in the order of the keys.
pub(crate) async fn collection(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let negotiated = reply::negotiate(scope)?;
    let mut list = ListOptions::parse(scope.query, &scope.kind, "", false)?;
    // Upstream reads the collection in pages, and pages at a resourceVersion are exact.
    if list.version_match.is_none() && !matches!(list.resource_version.as_str(), "" | "0") {
        list.version_match = Some(VersionMatch::Exact);
    }
    let options = delete_options(scope)?;
    warn_of_orphans(scope, &options);
    let listed = read::list_objects(scope, &list).await?;
    for stored in &listed.items {
        match delete_named(scope, stored.namespace(), stored.name(), &options).await {
            Err(status) if status.code != 404 => return Err(status),
            _ => {}
        }
    }
    listed.reply(scope, negotiated)
}

/// Warns about the pods of jobs that are deleted without a policy: `pkg/registry/batch/job/storage/storage.go`.
fn warn_of_orphans(scope: &RequestScope<'_>, options: &DeleteOptions) {
    let is_job = scope.kind.group == "batch" && scope.kind.plural == "jobs";
    if is_job && options.propagation.is_none() && options.orphan_dependents.is_none() {
        scope.warn(JOB_WARNING);
    }
}

fn delete_options(scope: &RequestScope<'_>) -> Result<DeleteOptions, Status> {
    let body = &scope.request.body;
    if body.is_empty() {
        return DeleteOptions::from_query(scope.query);
    }
    let text = match body_format(scope.request.header(http::header::CONTENT_TYPE), body, "DeleteOptions")? {
        BodyFormat::Json => body.to_vec(),
        BodyFormat::Yaml => yaml::to_json(body).map_err(|error| Status::bad_request(error.to_string()))?.json,
    };
    let (kind, api_version) = schema::type_meta(&text).map_err(|error| Status::bad_request(error.to_string()))?;
    if !kind.is_empty() && kind != "DeleteOptions" {
        let version = if api_version.is_empty() { "meta.k8s.io/v1" } else { &api_version };
        return Err(Status::bad_request(format!(
            "no kind {} is registered for version {} in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
            go_quote(&kind),
            go_quote(version)
        )));
    }
    let value = serde_json::from_slice(&text).unwrap_or_else(|_| json!({}));
    DeleteOptions::from_body(&value)
}

/// Returns true for kinds whose deletion is answered with the object instead of a `Status`.
fn returns_deleted_object(scope: &RequestScope<'_>) -> bool {
    matches!(
        (&*scope.kind.group, &*scope.kind.plural),
        (
            "",
            "pods"
                | "services"
                | "serviceaccounts"
                | "namespaces"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "resourcequotas"
        ) | ("storage.k8s.io" | "resource.k8s.io", _)
    ) && !(&*scope.kind.group == "storage.k8s.io" && &*scope.kind.plural == "csistoragecapacities")
}

fn deleted_status(scope: &RequestScope<'_>, object: &Value) -> Status {
    Status::success(Details {
        name: metadata::name(object).to_owned(),
        group: scope.kind.group.to_string(),
        kind: scope.kind.plural.to_string(),
        uid: metadata::uid(object).to_owned(),
        ..Details::default()
    })
}

/// Deletes one object of the kind; starts again if another write came in between.
pub(crate) async fn delete_named(
    scope: &RequestScope<'_>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<DeleteOutcome, Status> {
    loop {
        let current = scope.server.get(&scope.resource, namespace, name).ok_or_else(|| scope.not_found(name))?;
        if scope.webhook().is_some() {
            // Upstream reads the object in the version of the request before it deletes it.
            scope.current_value(&current).await?;
        }
        if scope.server.admission().is_some() {
            if let Some(pending) = before_admission(scope, &current, options)? {
                return Ok(pending);
            }
            admission::admit_deletion(scope, &current, &options_for_admission(scope, &current, options)).await?;
        }
        if let Some(deleted) = try_delete(scope, &current, options)? {
            return Ok(deleted);
        }
    }
}

/// Checks what comes before admission: preconditions, and whether the deletion goes on already, about which admission
/// is not asked again. As `Store.Delete` of the generic registry, and `REST.Delete` of namespaces and definitions.
fn before_admission(
    scope: &RequestScope<'_>,
    current: &StoredObject,
    options: &DeleteOptions,
) -> Result<Option<DeleteOutcome>, Status> {
    let mut object = scope.value(current);
    if is_namespace(scope) || is_definition(scope) {
        check_preconditions(scope, current, options)?;
        if !metadata::is_deleted(&object) {
            return Ok(None);
        }
        if is_namespace(scope) && waits_for_content(&object) {
            return Ok(Some(DeleteOutcome { object, gone: false }));
        }
    }
    let step = object_lifecycle::before_delete(&scope.kind, &mut object, options, scope.server.clock().now())?;
    Ok((step == DeletionStep::Pending).then_some(DeleteOutcome { object, gone: false }))
}

/// Returns the options as admission sees them: those of namespaces and definitions have the UID.
fn options_for_admission(scope: &RequestScope<'_>, current: &StoredObject, options: &DeleteOptions) -> DeleteOptions {
    let mut options = options.clone();
    if options.uid.is_none() && (is_namespace(scope) || is_definition(scope)) {
        options.uid = Some(current.uid().to_owned());
    }
    options
}

/// Returns true if a namespace has finalizers in its spec.
fn waits_for_content(namespace: &Value) -> bool {
    namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

/// Deletes an object on behalf of the server: webhooks and policies are not asked.
pub(crate) fn delete_internally(
    scope: &RequestScope<'_>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<(), Status> {
    loop {
        let current = scope.server.get(&scope.resource, namespace, name).ok_or_else(|| scope.not_found(name))?;
        if try_delete(scope, &current, options)?.is_some() {
            return Ok(());
        }
    }
}

/// Makes one attempt; `None` if another write came first.
fn try_delete(
    scope: &RequestScope<'_>,
    current: &StoredObject,
    options: &DeleteOptions,
) -> Result<Option<DeleteOutcome>, Status> {
    let now = scope.server.clock().now();
    let mut object = scope.value(current);
    if is_namespace(scope)
        && let Some(outcome) = terminate_namespace(scope, current, options, now)?
    {
        return Ok(outcome);
    }
    if let Some(outcome) = terminate_definition(scope, current, options, now)? {
        return Ok(outcome);
    }
    let deletion = object_lifecycle::before_delete(&scope.kind, &mut object, options, now)?;
    if deletion == DeletionStep::Pending {
        return Ok(Some(DeleteOutcome { object, gone: false }));
    }
    let finalizers_changed =
        collects_garbage(scope) && object_lifecycle::set_gc_finalizers(&scope.kind, &mut object, options);
    let waits = metadata::has_finalizers(&object);
    let mut current_revision = current.revision();
    if waits && deletion == DeletionStep::Immediate {
        object_lifecycle::mark_as_deleting(&mut object, now);
    }
    let marks = waits || finalizers_changed || deletion != DeletionStep::Immediate;
    if marks {
        if options.dry_run {
            return Ok(Some(DeleteOutcome {
                object,
                gone: !waits && !matches!(deletion, DeletionStep::Graceful(1..)),
            }));
        }
        let (draft, marked) = draft_and_stored(&scope.kind, object);
        match scope.server.store().update(&scope.resource, current, draft) {
            Ok(committed) => {
                scope.server.decode_cache().put(marked, &committed.new, Some(current.revision()));
                scope.record(EventType::Modified, &committed);
                object = scope.value(&committed.new);
                current_revision = committed.new.revision();
            }
            Err(CommitError::NotFound | CommitError::Changed(_) | CommitError::Exists(_)) => return Ok(None),
        }
        if waits || matches!(deletion, DeletionStep::Graceful(1..)) {
            return Ok(Some(DeleteOutcome { object, gone: false }));
        }
    }
    if options.dry_run {
        return Ok(Some(DeleteOutcome { object, gone: true }));
    }
    match scope.server.store().delete(&scope.resource, current.key(), current_revision) {
        Ok(committed) => {
            scope.record(EventType::Deleted, &committed);
            Ok(Some(DeleteOutcome { object: scope.removed_value(&committed), gone: true }))
        }
        Err(CommitError::NotFound) if marks => Ok(Some(DeleteOutcome { object, gone: true })),
        Err(CommitError::NotFound | CommitError::Changed(_) | CommitError::Exists(_)) => Ok(None),
    }
}

fn is_namespace(scope: &RequestScope<'_>) -> bool {
    scope.kind.group.is_empty() && &*scope.kind.plural == "namespaces"
}

fn is_definition(scope: &RequestScope<'_>) -> bool {
    scope.kind.group == crd::GROUP && scope.kind.plural == crd::RESOURCE
}

/// Returns false for events, which the garbage collector does not watch.
fn collects_garbage(scope: &RequestScope<'_>) -> bool {
    !(&*scope.kind.plural == "events" && matches!(&*scope.kind.group, "" | "events.k8s.io"))
}

/// Starts the termination of a namespace. `None`: proceed as with any object; `Some(None)`: try again.
#[expect(clippy::option_option, reason = "the two layers mean different things to the caller")]
fn terminate_namespace(
    scope: &RequestScope<'_>,
    current: &StoredObject,
    options: &DeleteOptions,
    now: jiff::Timestamp,
) -> Result<Option<Option<DeleteOutcome>>, Status> {
    let mut object = scope.value(current);
    check_preconditions(scope, current, options)?;
    if matches!(current.name(), "default" | "kube-system" | "kube-public") {
        let why = "this namespace may not be deleted";
        return Err(Status::forbidden(scope.group_resource(), current.name(), why));
    }
    if metadata::is_deleted(&object) {
        return Ok(waits_for_content(&object).then_some(Some(DeleteOutcome { object, gone: false })));
    }
    metadata::fields_mut(&mut object).insert("deletionTimestamp", object_lifecycle::rfc3339(now).into());
    if let Some(status) = object_or_insert(&mut object, "status") {
        status.insert("phase", "Terminating".into());
    }
    Ok(Some(store_terminating(scope, current, object, options)))
}

/// Starts the termination of a definition: it is marked, and its custom resources are deleted before it is.
#[expect(clippy::option_option, reason = "as for namespaces")]
fn terminate_definition(
    scope: &RequestScope<'_>,
    current: &StoredObject,
    options: &DeleteOptions,
    now: jiff::Timestamp,
) -> Result<Option<Option<DeleteOutcome>>, Status> {
    if !is_definition(scope) {
        return Ok(None);
    }
    let mut object = scope.value(current);
    if metadata::is_deleted(&object) {
        return Ok(None);
    }
    check_preconditions(scope, current, options)?;
    let moment = object_lifecycle::rfc3339(now);
    metadata::fields_mut(&mut object).insert("deletionTimestamp", moment.as_str().into());
    if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.retain(|condition| condition["type"] != "Terminating");
        conditions.push(json!({
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": moment,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }));
    }
    Ok(Some(store_terminating(scope, current, object, options)))
}

/// Stores an object whose termination starts; `None` if another write came first.
fn store_terminating(
    scope: &RequestScope<'_>,
    current: &StoredObject,
    mut object: Value,
    options: &DeleteOptions,
) -> Option<DeleteOutcome> {
    object_lifecycle::set_gc_finalizers(&scope.kind, &mut object, options);
    if options.dry_run {
        return Some(DeleteOutcome { object, gone: false });
    }
    match scope.server.store().update(&scope.resource, current, draft(&scope.kind, object)) {
        Ok(committed) => {
            scope.record(EventType::Modified, &committed);
            Some(DeleteOutcome { object: scope.value(&committed.new), gone: false })
        }
        Err(CommitError::NotFound | CommitError::Changed(_) | CommitError::Exists(_)) => None,
    }
}

fn check_preconditions(
    scope: &RequestScope<'_>,
    current: &StoredObject,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let refuse = |what: &str, wanted: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Err(Status::conflict(scope.group_resource(), current.name(), &why))
    };
    if let Some(wanted) = options.uid.as_deref().filter(|uid| *uid != current.uid()) {
        return refuse("UID", wanted, current.uid());
    }
    let revision = current.revision().to_string();
    match options.resource_version.as_deref().filter(|version| *version != revision) {
        Some(wanted) => refuse("ResourceVersion", wanted, &revision),
        None => Ok(()),
    }
}
