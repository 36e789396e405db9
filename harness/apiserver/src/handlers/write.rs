//! Creates and updates, and the guaranteed update shared by patches and subresources. Follows
//! `pkg/registry/generic/registry/store.go` and `pkg/registry/rest/{create,update}.go` in
//! `staging/src/k8s.io/apiserver` of Kubernetes 1.36.

use futures::FutureExt as _;
use http::header::CONTENT_TYPE;

use super::admission::Admission;
use super::options::WriteOptions;
use super::reply::{self, ReplyContent};
use super::request_scope::RequestScope;
use super::write_outcome::{UpdateOptions, WriteOutcome, WriteTarget};
use super::{
    authorization, body, certificates, claim_rights, escalation, explicit_empties, field_manager, pod_security, quota,
    service_account, status_update_fast_path,
};
use crate::admission::AdmissionOperation;
use crate::crd;
use crate::json::Value;
use crate::registry::prepare::{copy_field, copy_metadata_fields};
use crate::registry::{self, ErrorList};
use crate::request::Reply;
use crate::server::draft_and_stored;
use crate::status::{GroupResource, Status};
use crate::store::{CommitError, Draft, EventType, StoredObject};
use crate::{managedfields, metadata, object_lifecycle};

/// Largest object in bytes: etcd's limit for a request. Upstream stores most kinds as protobuf, which is slightly
/// shorter.
const OBJECT_MAX: usize = 1536 * 1024;

/// Metadata that a write of the status does not change, for kinds whose status endpoint leaves metadata alone:
/// `ResetObjectMetaForStatus`.
const STATUS_METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// Makes the new object from the current one (`None` if it does not exist).
pub(crate) type UpdateFunc<'t> = dyn FnMut(Option<&Value>) -> Result<Value, Status> + Send + 't;

/// Handles POST to a collection.
pub(crate) async fn create(scope: &RequestScope<'_>) -> Result<WriteOutcome, Status> {
    let options = WriteOptions::parse(scope.query, "CreateOptions", None)?;
    let mut object = body::decode_object(scope, &options)?;
    object_lifecycle::wipe_system_fields(&mut object);
    object_lifecycle::ensure_namespace(&mut object, &scope.path.namespace)?;
    dedup_owners(scope, &mut object, false);
    let generated = metadata::name(&object).is_empty() && !metadata::generate_name(&object).is_empty();
    let manager = scope.manager(&options.field_manager);
    if !generated {
        return create_object(scope, object, &manager, options.dry_run).await;
    }
    let mut last = None;
    for _ in 0..object_lifecycle::GENERATE_NAME_ATTEMPTS {
        match create_object(scope, object.clone(), &manager, options.dry_run).await {
            Err(status) if status.reason == "AlreadyExists" => last = Some(status),
            result => return result,
        }
    }
    Err(last.unwrap_or_else(Status::unknown_resource))
}

/// Passes a decoded object through admission, strategy and validation into the store.
async fn create_object(
    scope: &RequestScope<'_>,
    mut object: Value,
    manager: &str,
    dry_run: bool,
) -> Result<WriteOutcome, Status> {
    object = scope.resolved(|| field_manager::update_managed_fields(scope, None, object.clone(), manager)).await;
    admit_namespace(scope, &object)?;
    service_account::admit(scope, &mut object).await?;
    scope.kind.strategy.admit_create(&mut object, &scope.context())?;
    admit_and_store(scope, object, dry_run).await
}

/// Passes a new object through webhooks and policies, strategy and validation into the store.
async fn admit_and_store(scope: &RequestScope<'_>, mut object: Value, dry_run: bool) -> Result<WriteOutcome, Status> {
    let admission = Admission::of(scope, AdmissionOperation::Create, None, dry_run);
    if let Some(admission) = &admission {
        object = admission.mutate(object).await?;
        dedup_owners(scope, &mut object, true);
    }
    escalation::check(scope, &object, None)?;
    prepare_create(scope, &mut object)?;
    certificates::check_new(scope, &object)?;
    scope.kind.strategy.check_admission("", &object, None, &scope.context())?;
    pod_security::check(scope, WriteTarget::Whole, &object, None)?;
    if let Some(admission) = &admission {
        admission.validate(Some(&object)).await?;
    }
    scope.kind.strategy.canonicalize(&mut object);
    store_new(scope, object, dry_run).await
}

/// `rest.BeforeCreate`: system fields, strategy, validation.
fn prepare_create(scope: &RequestScope<'_>, object: &mut Value) -> Result<(), Status> {
    let context = scope.context();
    let prefix = metadata::generate_name(object).to_owned();
    let name = if metadata::name(object).is_empty() { prefix.clone() } else { metadata::name(object).to_owned() };
    let key = [&*scope.kind.storage.group, &*scope.kind.storage.resource, &*scope.path.namespace, &*name];
    let uid = scope.server.ids().uid_of(&key);
    object_lifecycle::fill_system_fields(object, context.now, uid);
    if metadata::name(object).is_empty() && !prefix.is_empty() {
        let name = scope.server.ids().name_of(&key, &prefix);
        metadata::fields_mut(object).insert("name", name.into());
    }
    if metadata::name(object).is_empty() && scope.kind.strategy.names_new_objects() {
        let name = scope.server.ids().uid_of(&["name", key[0], key[1], key[2]]);
        metadata::fields_mut(object).insert("name", name.into());
    }
    // Admission may have changed it.
    object_lifecycle::ensure_namespace(object, &scope.path.namespace)?;
    scope.kind.strategy.begin_create(object, &context)?;
    scope.kind.strategy.prepare_for_create(object, &context);
    check_valid(scope, object, registry::validate_create(&scope.kind, object, &context))?;
    for warning in scope.kind.strategy.warnings_on_create(object) {
        scope.warn(warning);
    }
    Ok(())
}

async fn store_new(scope: &RequestScope<'_>, mut object: Value, dry_run: bool) -> Result<WriteOutcome, Status> {
    // A text that is no number is ignored; so is any text in a dry run, which does not get to the storage upstream.
    if !dry_run && object_lifecycle::resource_version(&object).is_ok_and(|version| version != 0) {
        return Err(Status::untyped_error("resourceVersion should not be set on objects to be created"));
    }
    quota::charge(scope, &object, None, dry_run)?;
    let generated = !metadata::generate_name(&object).is_empty();
    let name = metadata::name(&object).to_owned();
    let exists = |existing: &StoredObject| already_exists(scope, existing, &name, generated);
    if dry_run {
        if let Some(existing) = scope.server.get(&scope.resource, &scope.path.namespace, &name) {
            return Err(exists(&existing));
        }
        drop_empty_fields(scope, &mut object);
        return Ok(WriteOutcome::Transient { object: scope.read_back(object).await?, created: true });
    }
    metadata::fields_mut(&mut object).remove("resourceVersion");
    let (draft, object) = draft(scope, scope.stored_form(object).await?)?;
    match scope.server.store().create(&scope.resource, draft) {
        Ok(committed) => {
            scope.server.decode_cache().put(object, &committed.new, None);
            scope.record(EventType::Added, &committed);
            WriteOutcome::stored(scope, committed.new, true).await
        }
        Err(CommitError::Exists(existing) | CommitError::Changed(existing)) => Err(exists(&existing)),
        Err(CommitError::NotFound) => Err(scope.not_found(&name)),
    }
}

/// Returns the object ready to be stored and its stored value, unless it is too large. An object that is too large only
/// because of its managed fields is stored without them, except if it is applied.
fn draft(scope: &RequestScope<'_>, mut object: Value) -> Result<(Draft, Value), Status> {
    drop_empty_fields(scope, &mut object);
    let applied = scope.request.header(CONTENT_TYPE).starts_with("application/apply-patch");
    let large = scope.request.body.len() > OBJECT_MAX / 8 && !applied;
    let again = large.then(|| object.clone());
    let mut drafted = draft_and_stored(&scope.kind, object);
    if let Some(mut object) = again.filter(|_| drafted.0.size() > OBJECT_MAX) {
        metadata::fields_mut(&mut object).remove("managedFields");
        drafted = draft_and_stored(&scope.kind, object);
    }
    if drafted.0.size() > OBJECT_MAX {
        return Err(Status::untyped_error("etcdserver: request is too large"));
    }
    Ok(drafted)
}

/// Drops empty lists as a round trip through protobuf does upstream; definitions are stored as JSON.
fn drop_empty_fields(scope: &RequestScope<'_>, object: &mut Value) {
    if scope.kind.group != "apiextensions.k8s.io" {
        scope.schema().drop_empty_fields(object);
    }
}

fn already_exists(scope: &RequestScope<'_>, existing: &StoredObject, name: &str, generated: bool) -> Status {
    let mut status = if generated {
        Status::generate_name_conflict(GroupResource::new(&scope.kind.group, &scope.kind.plural), name)
    } else {
        Status::already_exists(scope.group_resource(), name)
    };
    if metadata::is_deleted(&existing.value()) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Handles PUT of an object or of its status.
pub(crate) async fn update(scope: &RequestScope<'_>, part: WriteTarget) -> Result<WriteOutcome, Status> {
    let options = WriteOptions::parse(scope.query, "UpdateOptions", None)?;
    let object = decode_update(scope, &options)?;
    let manager = scope.manager(&options.field_manager);
    let uid = metadata::uid(&object);
    let rules = UpdateOptions {
        dry_run: options.dry_run,
        create: part == WriteTarget::Whole && scope.kind.strategy.allow_create_on_update(),
        uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        internal: false,
    };
    // Conflicts with another write are rare; only then the body is decoded again.
    let mut sent = Some(object);
    guaranteed_update(scope, part, &rules, &mut |old| {
        let object = sent.take().map_or_else(|| decode_update(scope, &options), Ok)?;
        Ok(field_manager::update_managed_fields(scope, old, object, &manager))
    })
    .await
}

/// Decodes the object in the body of an update.
fn decode_update(scope: &RequestScope<'_>, options: &WriteOptions) -> Result<Value, Status> {
    let mut object = status_update_fast_path::decode(scope).map_or_else(|| body::decode_object(scope, options), Ok)?;
    object_lifecycle::ensure_namespace(&mut object, &scope.path.namespace)?;
    object_lifecycle::check_name(&object, &scope.path.name)?;
    dedup_owners(scope, &mut object, false);
    Ok(object)
}

/// Like [`guaranteed_update`], for the server's own writes: webhooks and policies are not asked.
pub(crate) fn update_internally(
    scope: &RequestScope<'_>,
    part: WriteTarget,
    transform: &mut UpdateFunc<'_>,
) -> Result<WriteOutcome, Status> {
    let rules = UpdateOptions { internal: true, ..UpdateOptions::default() };
    // Only webhooks are waited for.
    let written = guaranteed_update(scope, part, &rules, transform).now_or_never();
    written.unwrap_or_else(|| Err(Status::internal("a write of the server itself waits for something")))
}

/// Reads, transforms, validates and writes; starts again if another write came in between.
pub(crate) async fn guaranteed_update(
    scope: &RequestScope<'_>,
    part: WriteTarget,
    rules: &UpdateOptions,
    transform: &mut UpdateFunc<'_>,
) -> Result<WriteOutcome, Status> {
    loop {
        let current = scope.server.get(&scope.resource, &scope.path.namespace, &scope.path.name);
        let Some(current) = current else {
            if !rules.create {
                return Err(scope.not_found(&scope.path.name));
            }
            match create_on_update(scope, rules, transform).await {
                Err(status) if status.reason == "AlreadyExists" => continue,
                result => return result,
            }
        };
        if let Some(wanted) = rules.uid.as_deref().filter(|uid| *uid != current.uid()) {
            return Err(uid_mismatch(scope, wanted, current.uid(), rules.dry_run));
        }
        let old = scope.current_value(&current).await?;
        let new = scope.resolved(|| transform(Some(&old))).await?;
        let new = prepare_update(scope, (part, rules), new, &old, current.revision()).await?;
        if part != WriteTarget::Status {
            quota::charge(scope, &new, Some(&old), rules.dry_run)?;
        }
        if object_lifecycle::should_delete_during_update(&new, &old) {
            if !rules.dry_run {
                let removed = scope.server.store().delete(&scope.resource, current.key(), current.revision());
                match removed {
                    Ok(committed) => scope.record(EventType::Deleted, &committed),
                    Err(CommitError::NotFound) => {}
                    Err(CommitError::Changed(_) | CommitError::Exists(_)) => continue,
                }
            }
            // The last finalizer was removed, and the object with it: the reply shows the updated object.
            return Ok(WriteOutcome::Transient { object: new, created: false });
        }
        if rules.dry_run {
            let mut new = new;
            drop_empty_fields(scope, &mut new);
            return Ok(WriteOutcome::Transient { object: scope.read_back(new).await?, created: false });
        }
        let (draft, new) = draft(scope, scope.stored_form(new).await?)?;
        match scope.server.store().update(&scope.resource, &current, draft) {
            Ok(committed) => {
                scope.server.decode_cache().put(new, &committed.new, Some(current.revision()));
                scope.record(EventType::Modified, &committed);
                return WriteOutcome::stored(scope, committed.new, false).await;
            }
            Err(CommitError::NotFound | CommitError::Changed(_) | CommitError::Exists(_)) => {}
        }
    }
}

async fn create_on_update(
    scope: &RequestScope<'_>,
    rules: &UpdateOptions,
    transform: &mut UpdateFunc<'_>,
) -> Result<WriteOutcome, Status> {
    if let Some(wanted) = rules.uid.as_deref() {
        return Err(uid_mismatch(scope, wanted, "", rules.dry_run));
    }
    let mut object = scope.resolved(|| transform(None)).await?;
    // The right to update or to patch is not enough.
    authorization::authorize_verb(scope, "create")?;
    object_lifecycle::wipe_system_fields(&mut object);
    // Only creates by POST are refused because of a resourceVersion.
    metadata::fields_mut(&mut object).remove("resourceVersion");
    admit_namespace(scope, &object)?;
    scope.kind.strategy.admit_create(&mut object, &scope.context())?;
    admit_and_store(scope, object, rules.dry_run).await
}

/// `rest.BeforeUpdate`: resourceVersion, admission, strategy, validation.
async fn prepare_update(
    scope: &RequestScope<'_>,
    (part, rules): (WriteTarget, &UpdateOptions),
    mut new: Value,
    old: &Value,
    revision: u64,
) -> Result<Value, Status> {
    let strategy = &*scope.kind.strategy;
    let unconditional = match part {
        WriteTarget::Whole | WriteTarget::Finalize | WriteTarget::Subresource => strategy.allow_unconditional_update(),
        WriteTarget::Status => strategy.allow_unconditional_status_update(),
    };
    let context = scope.context();
    match part {
        WriteTarget::Whole => strategy.admit_update(&mut new, old, &context)?,
        WriteTarget::Subresource => strategy.admit_subresource(&scope.path.subresource, &mut new, old, &context)?,
        WriteTarget::Status | WriteTarget::Finalize => {}
    }
    let admission =
        if rules.internal { None } else { Admission::of(scope, AdmissionOperation::Update, Some(old), rules.dry_run) };
    if let Some(admission) = &admission {
        new = admission.mutate(new).await?;
    }
    dedup_owners(scope, &mut new, true);
    if part == WriteTarget::Whole && !rules.internal {
        escalation::check(scope, &new, Some(old))?;
    }
    // What admission made of it counts.
    check_version(scope, &mut new, revision, unconditional)?;
    object_lifecycle::ensure_namespace(&mut new, &scope.path.namespace)?;
    object_lifecycle::preserve_generation(&mut new, old);
    if part == WriteTarget::Whole {
        strategy.begin_update(&mut new, old, &context)?;
    }
    match part {
        WriteTarget::Whole => strategy.prepare_for_update(&mut new, old, &context),
        WriteTarget::Subresource => {
            strategy.prepare_for_subresource_update(&scope.path.subresource, &mut new, old, &context);
        }
        WriteTarget::Status => {
            strategy.prepare_for_status_update(&mut new, old, &context);
            if scope.kind.status_keeps_metadata {
                copy_metadata_fields(&mut new, old, &STATUS_METADATA);
            }
        }
        WriteTarget::Finalize => copy_field(&mut new, old, "status"),
    }
    object_lifecycle::preserve_immutable_metadata(&mut new, old);
    check_valid(scope, &new, update_errors(scope, part, &new, old))?;
    warn_of_update(scope, part, &new, old);
    certificates::check_update(scope, part, &new, old)?;
    if matches!(part, WriteTarget::Whole | WriteTarget::Subresource) {
        strategy.check_admission(&scope.path.subresource, &new, Some(old), &context)?;
    }
    pod_security::check(scope, part, &new, Some(old))?;
    if let Some(admission) = &admission {
        admission.validate(Some(&new)).await?;
    }
    if part == WriteTarget::Whole {
        strategy.canonicalize(&mut new);
    }
    managedfields::ignore_timestamps(&mut new, old);
    Ok(new)
}

fn warn_of_update(scope: &RequestScope<'_>, part: WriteTarget, new: &Value, old: &Value) {
    let strategy = &scope.kind.strategy;
    let warnings = match part {
        WriteTarget::Whole => strategy.warnings_on_update(new, old),
        WriteTarget::Status => strategy.warnings_on_status_update(new),
        WriteTarget::Finalize | WriteTarget::Subresource => Vec::new(),
    };
    for warning in warnings {
        scope.warn(warning);
    }
}

fn update_errors(scope: &RequestScope<'_>, part: WriteTarget, new: &Value, old: &Value) -> ErrorList {
    match part {
        WriteTarget::Whole => registry::validate_update(&scope.kind, new, old, &scope.context()),
        WriteTarget::Finalize => registry::validate_finalize(new, old),
        WriteTarget::Status => {
            let mut errors = claim_rights::check(scope, new, old);
            errors.append(registry::validate_status_update(&scope.kind, new, old));
            errors
        }
        WriteTarget::Subresource => {
            registry::validate_subresource_update(&scope.kind, &scope.path.subresource, new, old)
        }
    }
}

fn check_version(scope: &RequestScope<'_>, new: &mut Value, revision: u64, unconditional: bool) -> Result<(), Status> {
    match object_lifecycle::resource_version(new)? {
        0 if unconditional => {
            metadata::fields_mut(new).insert("resourceVersion", revision.to_string().into());
            Ok(())
        }
        0 => {
            let mut errors = ErrorList::new();
            let path = registry::Path::new("metadata");
            errors.invalid(&path.child("resourceVersion"), 0, "must be specified for an update");
            Err(Status::invalid(&scope.kind.group, &scope.kind.plural, &scope.path.name, &errors))
        }
        wanted if wanted == revision => Ok(()),
        _ => Err(Status::resource_version_conflict(scope.group_resource(), &scope.path.name)),
    }
}

pub(crate) fn uid_mismatch(scope: &RequestScope<'_>, wanted: &str, found: &str, dry_run: bool) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
        etcd_key(scope, dry_run)
    );
    Status::conflict(scope.group_resource(), &scope.path.name, &why)
}

/// Returns the key that kube-apiserver would use in etcd, for messages. Those of a dry run lack the prefix of all keys:
/// `DryRunnableStorage.GuaranteedUpdate` in `pkg/registry/generic/registry/dryrun.go`.
fn etcd_key(scope: &RequestScope<'_>, dry_run: bool) -> String {
    let prefix = match (&*scope.resource.group, &*scope.resource.resource) {
        ("", "nodes") => "minions",
        ("", "replicationcontrollers") => "controllers",
        ("", "services") => "services/specs",
        ("", "endpoints") => "services/endpoints",
        ("networking.k8s.io", "ingresses") => "ingress",
        (_, resource) => resource,
    };
    let group = &*scope.resource.group;
    let is_grouped = scope.kind.is_unstructured() || body::has_own_server(group);
    let grouped = if is_grouped { group } else { "" };
    let parts = [grouped, prefix, &scope.path.namespace, &scope.path.name];
    let key = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    if dry_run { format!("/{key}") } else { format!("/registry/{key}") }
}

fn check_valid(scope: &RequestScope<'_>, object: &Value, mut errors: ErrorList) -> Result<(), Status> {
    for warning in errors.warnings() {
        scope.warn(warning.clone());
    }
    if errors.is_empty() {
        return Ok(());
    }
    explicit_empties::restore(&scope.request.body, &mut errors);
    Err(Status::invalid(&scope.kind.storage.group, &scope.kind.kind, metadata::name(object), &errors))
}

/// Removes owners that an object has twice, with a warning.
pub(super) fn dedup_owners(scope: &RequestScope<'_>, object: &mut Value, after_admission: bool) {
    let again = object_lifecycle::dedup_owners(object);
    if !again.is_empty() {
        let when = if after_admission { " after mutating admission happens" } else { "" };
        scope.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            again.join(", ")
        ));
    }
}

/// Rejects new objects of a definition that is being deleted, and those in missing or terminating namespaces
/// (`NamespaceLifecycle` admission).
fn admit_namespace(scope: &RequestScope<'_>, object: &Value) -> Result<(), Status> {
    if crd::is_terminating(scope.server, &scope.kind) {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(scope.group_resource(), metadata::name(object), why));
    }
    if !scope.kind.namespaced {
        return Ok(());
    }
    let namespaces = crate::store::ResourceId::new("", "namespaces");
    let name = &scope.path.namespace;
    let Some(namespace) = scope.server.get(&namespaces, "", name) else {
        return Err(Status::not_found(GroupResource::new("", "namespaces"), name));
    };
    if namespace.field("status.phase") != Some("Terminating") {
        return Ok(());
    }
    let deleted = metadata::text(&namespace.value(), "deletionTimestamp").to_owned();
    tracing::debug!(name, deleted, "refused a new object in a terminating namespace");
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    Err(Status::forbidden(scope.group_resource(), metadata::admitted_name(object), &why).with_cause(
        "NamespaceTerminating",
        format!("namespace {name} is being terminated"),
        "metadata.namespace",
    ))
}

/// Writes on behalf of the server: without strategy, validation and managed fields.
pub(crate) fn raw_update(
    scope: &RequestScope<'_>,
    rules: &UpdateOptions,
    change: &mut dyn FnMut(&mut Value) -> Result<(), Status>,
) -> Result<WriteOutcome, Status> {
    loop {
        let current = scope.stored()?;
        let mut new = scope.value(&current);
        change(&mut new)?;
        if rules.dry_run {
            return Ok(WriteOutcome::Transient { object: new, created: false });
        }
        if let Ok(committed) = scope.server.store().update(&scope.resource, &current, draft(scope, new)?.0) {
            scope.record(EventType::Modified, &committed);
            return Ok(WriteOutcome::Stored { stored: committed.new, created: false });
        }
    }
}

/// Makes a write and replies with the object. Negotiates the reply before the write.
pub(crate) async fn respond(
    scope: &RequestScope<'_>,
    write: impl Future<Output = Result<WriteOutcome, Status>>,
) -> Result<Reply, Status> {
    let negotiated = reply::negotiate(scope)?;
    let written = write.await?;
    let code = if written.created() { 201 } else { 200 };
    reply::object(scope, code, ReplyContent::Outcome(&written), negotiated)
}
