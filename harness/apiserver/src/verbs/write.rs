//! Creates and updates, and the guaranteed update shared by patches and subresources. Follows
//! `pkg/registry/generic/registry/store.go` and `pkg/registry/rest/{create,update}.go` in
//! `staging/src/k8s.io/apiserver` of Kubernetes 1.36.

use std::sync::Arc;

use bytes::Bytes;

use super::options::WriteOptions;
use super::reply::{self, Shown};
use super::scope::Scope;
use super::{body, manage, quota, repeated};
use crate::encoding;
use crate::json::Value;
use crate::kinds::{self, ErrorList, meta};
use crate::lifecycle;
use crate::managedfields;
use crate::request::Reply;
use crate::server::draft_of;
use crate::status::{GroupResource, Status};
use crate::store::{CommitError, Draft, EventType, Stored};

/// Largest object in bytes: etcd's limit for a request. Upstream stores most kinds as protobuf, which is slightly
/// shorter.
const OBJECT_MAX: usize = 1536 * 1024;

/// The result of a write.
pub(crate) enum Written {
    /// The object is stored.
    Stored { stored: Arc<Stored>, created: bool },
    /// The object is not stored: a dry run, or the last state of an object that this write removed.
    Shown { object: Value, created: bool },
}

impl Written {
    pub(crate) fn created(&self) -> bool {
        match self {
            Self::Stored { created, .. } | Self::Shown { created, .. } => *created,
        }
    }

    /// Returns the object that the write resulted in.
    pub(crate) fn value(&self, scope: &Scope<'_>) -> Value {
        match self {
            Self::Stored { stored, .. } => scope.value(stored),
            Self::Shown { object, .. } => object.clone(),
        }
    }

    /// Returns the encoded object for the reply.
    pub(crate) fn bytes(&self, scope: &Scope<'_>) -> Bytes {
        match self {
            Self::Stored { stored, .. } if scope.kind.conversion.is_none() => stored.document(),
            Self::Stored { stored, .. } => encoding::document(&scope.value(stored)).into(),
            Self::Shown { object, .. } => encoding::document(object).into(),
        }
    }
}

/// Makes the new object from the current one (`None` if it does not exist).
pub(crate) type Transform<'t> = dyn FnMut(Option<&Value>) -> Result<Value, Status> + 't;

/// Conditions of a guaranteed update.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpdateRules {
    pub(crate) dry_run: bool,
    /// Create the object if it does not exist.
    pub(crate) create: bool,
    /// Update only an object with this UID.
    pub(crate) uid: Option<String>,
}

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
    /// A namespace's `spec.finalizers`.
    Finalize,
    /// The part that one of the kind's own subresources may change.
    Special,
}

/// Handles POST to a collection.
pub(crate) fn create(scope: &Scope<'_>) -> Result<Written, Status> {
    let options = WriteOptions::parse(&scope.query, "CreateOptions", None)?;
    let mut object = body::decode_object(scope, &options)?;
    lifecycle::wipe_system_fields(&mut object);
    lifecycle::ensure_namespace(&mut object, &scope.path.namespace)?;
    dedup_owners(scope, &mut object, false);
    let generated = lifecycle::metadata_text(&object, "name").is_empty()
        && !lifecycle::metadata_text(&object, "generateName").is_empty();
    let manager = scope.manager(&options.field_manager);
    if !generated {
        return create_object(scope, object, &manager, options.dry_run);
    }
    let mut last = None;
    for _ in 0..lifecycle::GENERATE_NAME_ATTEMPTS {
        match create_object(scope, object.clone(), &manager, options.dry_run) {
            Err(status) if status.reason == "AlreadyExists" => last = Some(status),
            result => return result,
        }
    }
    Err(last.unwrap_or_else(Status::unknown_resource))
}

/// Passes a decoded object through admission, strategy and validation into the store.
fn create_object(scope: &Scope<'_>, mut object: Value, manager: &str, dry_run: bool) -> Result<Written, Status> {
    object = manage::update_managed_fields(scope, None, object, manager);
    admit_namespace(scope, &object)?;
    scope.kind.strategy.admit_create(&mut object, &scope.context())?;
    prepare_create(scope, &mut object)?;
    store_new(scope, object, dry_run)
}

/// `rest.BeforeCreate`: system fields, strategy, validation.
fn prepare_create(scope: &Scope<'_>, object: &mut Value) -> Result<(), Status> {
    let context = scope.context();
    let uid = scope.server.ids().uid();
    lifecycle::fill_system_fields(object, context.now, uid);
    let prefix = lifecycle::metadata_text(object, "generateName").to_owned();
    if lifecycle::metadata_text(object, "name").is_empty() && !prefix.is_empty() {
        let name = scope.server.ids().name(&prefix);
        lifecycle::metadata_mut(object).insert("name", name.into());
    }
    scope.kind.strategy.prepare_for_create(object, &context);
    refuse_invalid(scope, object, &kinds::validate_create(&scope.kind, object))?;
    scope.kind.strategy.begin_create(object, &context)?;
    for warning in scope.kind.strategy.warnings_on_create(object) {
        scope.warn(warning);
    }
    Ok(())
}

fn store_new(scope: &Scope<'_>, mut object: Value, dry_run: bool) -> Result<Written, Status> {
    if lifecycle::resource_version(&object)? != 0 {
        return Err(Status::raw_error("resourceVersion should not be set on objects to be created"));
    }
    quota::charge(scope, &object, None, dry_run)?;
    let generated = !lifecycle::metadata_text(&object, "generateName").is_empty();
    let name = lifecycle::metadata_text(&object, "name").to_owned();
    let exists = |existing: &Stored| already_exists(scope, existing, &name, generated);
    if dry_run {
        if let Some(existing) = scope.server.get(&scope.resource, &scope.path.namespace, &name) {
            return Err(exists(&existing));
        }
        lifecycle::metadata_mut(&mut object).remove("resourceVersion");
        forget_emptiness(scope, &mut object);
        return Ok(Written::Shown { object, created: true });
    }
    let (draft, object) = draft(scope, object)?;
    match scope.server.store().create(&scope.resource, draft) {
        Ok(committed) => {
            scope.server.recent().put(object, &committed.new, None);
            scope.record(EventType::Added, &committed);
            Ok(Written::Stored { stored: committed.new, created: true })
        }
        Err(CommitError::Exists(existing) | CommitError::Changed(existing)) => Err(exists(&existing)),
        Err(CommitError::NotFound) => Err(scope.not_found(&name)),
    }
}

/// Returns the object ready to be stored and its stored value, unless it is too large.
fn draft(scope: &Scope<'_>, mut object: Value) -> Result<(Draft, Value), Status> {
    forget_emptiness(scope, &mut object);
    let (draft, object) = draft_of(&scope.kind, object);
    if draft.size() > OBJECT_MAX {
        return Err(Status::raw_error("etcdserver: request is too large"));
    }
    Ok((draft, object))
}

/// Drops empty lists as a round trip through protobuf does upstream; definitions are stored as JSON.
fn forget_emptiness(scope: &Scope<'_>, object: &mut Value) {
    if scope.kind.group != "apiextensions.k8s.io" {
        scope.schema().forget_emptiness(object);
    }
}

fn already_exists(scope: &Scope<'_>, existing: &Stored, name: &str, generated: bool) -> Status {
    let mut status = if generated {
        Status::generate_name_conflict(GroupResource::new(&scope.kind.group, &scope.kind.plural), name)
    } else {
        Status::already_exists(scope.group_resource(), name)
    };
    if lifecycle::is_terminating(&existing.value()) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Handles PUT of an object or of its status.
pub(crate) fn update(scope: &Scope<'_>, part: Part) -> Result<Written, Status> {
    let options = WriteOptions::parse(&scope.query, "UpdateOptions", None)?;
    let object = sent_update(scope, &options)?;
    let manager = scope.manager(&options.field_manager);
    let uid = lifecycle::metadata_text(&object, "uid");
    let rules = UpdateRules {
        dry_run: options.dry_run,
        create: part == Part::Whole && scope.kind.strategy.allow_create_on_update(),
        uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
    };
    // Conflicts with another write are rare; only then the body is decoded again.
    let mut sent = Some(object);
    guaranteed_update(scope, part, &rules, &mut |old| {
        let object = sent.take().map_or_else(|| sent_update(scope, &options), Ok)?;
        Ok(manage::update_managed_fields(scope, old, object, &manager))
    })
}

/// Decodes the object in the body of an update.
fn sent_update(scope: &Scope<'_>, options: &WriteOptions) -> Result<Value, Status> {
    let mut object = repeated::decode(scope).map_or_else(|| body::decode_object(scope, options), Ok)?;
    lifecycle::ensure_namespace(&mut object, &scope.path.namespace)?;
    lifecycle::check_name(&object, &scope.path.name)?;
    dedup_owners(scope, &mut object, false);
    Ok(object)
}

/// Reads, transforms, validates and writes; starts again if another write came in between.
pub(crate) fn guaranteed_update(
    scope: &Scope<'_>,
    part: Part,
    rules: &UpdateRules,
    transform: &mut Transform<'_>,
) -> Result<Written, Status> {
    loop {
        let current = scope.server.get(&scope.resource, &scope.path.namespace, &scope.path.name);
        let Some(current) = current else {
            if !rules.create {
                return Err(scope.not_found(&scope.path.name));
            }
            match create_on_update(scope, rules, transform) {
                Err(status) if status.reason == "AlreadyExists" => continue,
                result => return result,
            }
        };
        if let Some(wanted) = rules.uid.as_deref().filter(|uid| *uid != current.uid()) {
            return Err(uid_mismatch(scope, wanted, current.uid()));
        }
        let old = scope.recent_value(&current);
        let new = transform(Some(&old))?;
        let new = prepare_update(scope, part, new, &old, current.revision())?;
        if part != Part::Status {
            quota::charge(scope, &new, Some(&old), rules.dry_run)?;
        }
        if lifecycle::ends_deletion(&new, &old) {
            if !rules.dry_run {
                let removed = scope.server.store().delete(&scope.resource, current.key(), current.revision());
                match removed {
                    Ok(committed) => scope.record(EventType::Deleted, &committed),
                    Err(CommitError::NotFound) => {}
                    Err(CommitError::Changed(_) | CommitError::Exists(_)) => continue,
                }
            }
            // The last finalizer was removed, and the object with it: the reply shows the updated object.
            return Ok(Written::Shown { object: new, created: false });
        }
        if rules.dry_run {
            let mut new = new;
            forget_emptiness(scope, &mut new);
            return Ok(Written::Shown { object: new, created: false });
        }
        let (draft, new) = draft(scope, new)?;
        match scope.server.store().update(&scope.resource, &current, draft) {
            Ok(committed) => {
                scope.server.recent().put(new, &committed.new, Some(current.revision()));
                scope.record(EventType::Modified, &committed);
                return Ok(Written::Stored { stored: committed.new, created: false });
            }
            Err(CommitError::NotFound | CommitError::Changed(_) | CommitError::Exists(_)) => {}
        }
    }
}

fn create_on_update(scope: &Scope<'_>, rules: &UpdateRules, transform: &mut Transform<'_>) -> Result<Written, Status> {
    if let Some(wanted) = rules.uid.as_deref() {
        return Err(uid_mismatch(scope, wanted, ""));
    }
    let mut object = transform(None)?;
    lifecycle::wipe_system_fields(&mut object);
    // Only creates by POST are refused because of a resourceVersion.
    lifecycle::metadata_mut(&mut object).remove("resourceVersion");
    admit_namespace(scope, &object)?;
    scope.kind.strategy.admit_create(&mut object, &scope.context())?;
    prepare_create(scope, &mut object)?;
    store_new(scope, object, rules.dry_run)
}

/// `rest.BeforeUpdate`: resourceVersion, admission, strategy, validation.
fn prepare_update(scope: &Scope<'_>, part: Part, mut new: Value, old: &Value, revision: u64) -> Result<Value, Status> {
    let strategy = &*scope.kind.strategy;
    let unconditional = match part {
        Part::Whole | Part::Finalize | Part::Special => strategy.allow_unconditional_update(),
        Part::Status => strategy.allow_unconditional_status_update(),
    };
    check_version(scope, &mut new, revision, unconditional)?;
    let context = scope.context();
    if part == Part::Whole {
        strategy.admit_update(&mut new, old, &context)?;
    }
    dedup_owners(scope, &mut new, true);
    lifecycle::before_strategy(&mut new, old);
    match part {
        Part::Whole => strategy.prepare_for_update(&mut new, old, &context),
        Part::Special => {
            strategy.prepare_for_subresource_update(&scope.path.subresource, &mut new, old, &context);
        }
        Part::Status => strategy.prepare_for_status_update(&mut new, old, &context),
        Part::Finalize => meta::keep_field(&mut new, old, "status"),
    }
    lifecycle::after_strategy(&mut new, old);
    let errors = match part {
        Part::Whole => kinds::validate_update(&scope.kind, &new, old),
        Part::Finalize => kinds::validate_finalize(&new, old),
        Part::Status => kinds::validate_status_update(&scope.kind, &new, old),
        Part::Special => kinds::validate_subresource_update(&scope.kind, &scope.path.subresource, &new, old),
    };
    refuse_invalid(scope, &new, &errors)?;
    if part == Part::Special {
        strategy.admit_subresource(&scope.path.subresource, &new, old, &context)?;
    }
    if part == Part::Whole {
        strategy.begin_update(&mut new, old, &context)?;
        for warning in strategy.warnings_on_update(&new, old) {
            scope.warn(warning);
        }
    }
    managedfields::ignore_timestamps(&mut new, old);
    Ok(new)
}

fn check_version(scope: &Scope<'_>, new: &mut Value, revision: u64, unconditional: bool) -> Result<(), Status> {
    match lifecycle::resource_version(new)? {
        0 if unconditional => {
            lifecycle::metadata_mut(new).insert("resourceVersion", revision.to_string().into());
            Ok(())
        }
        0 => {
            let mut errors = ErrorList::new();
            let path = kinds::Path::new("metadata");
            errors.invalid(&path.child("resourceVersion"), 0, "must be specified for an update");
            Err(Status::invalid(&scope.kind.group, &scope.kind.plural, &scope.path.name, &errors))
        }
        wanted if wanted == revision => Ok(()),
        _ => Err(Status::modified(scope.group_resource(), &scope.path.name)),
    }
}

pub(crate) fn uid_mismatch(scope: &Scope<'_>, wanted: &str, found: &str) -> Status {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
        etcd_key(scope)
    );
    Status::conflict(scope.group_resource(), &scope.path.name, &why)
}

/// Returns the key that kube-apiserver would use in etcd, for messages.
fn etcd_key(scope: &Scope<'_>) -> String {
    let prefix = match (&*scope.resource.group, &*scope.resource.resource) {
        ("", "nodes") => "minions",
        ("", "replicationcontrollers") => "controllers",
        ("", "services") => "services/specs",
        ("", "endpoints") => "services/endpoints",
        ("networking.k8s.io", "ingresses") => "ingress",
        (_, resource) => resource,
    };
    let group = &*scope.resource.group;
    let grouped = if scope.kind.is_unstructured() || group == "apiextensions.k8s.io" { group } else { "" };
    let parts = ["/registry", grouped, prefix, &scope.path.namespace, &scope.path.name];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn refuse_invalid(scope: &Scope<'_>, object: &Value, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&scope.kind.storage.group, &scope.kind.kind, meta::name(object), errors))
}

fn dedup_owners(scope: &Scope<'_>, object: &mut Value, after_admission: bool) {
    let again = lifecycle::dedup_owners(object);
    if !again.is_empty() {
        let when = if after_admission { " after mutating admission happens" } else { "" };
        scope.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            again.join(", ")
        ));
    }
}

/// `NamespaceLifecycle` admission: rejects new objects in missing or terminating namespaces.
fn admit_namespace(scope: &Scope<'_>, object: &Value) -> Result<(), Status> {
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
    let deleted = lifecycle::metadata_text(&namespace.value(), "deletionTimestamp").to_owned();
    tracing::debug!(name, deleted, "refused a new object in a terminating namespace");
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    Err(Status::forbidden(scope.group_resource(), meta::name(object), &why).with_cause(
        "NamespaceTerminating",
        format!("namespace {name} is being terminated"),
        "metadata.namespace",
    ))
}

/// Writes on behalf of the server: without strategy, validation and managed fields.
pub(crate) fn raw_update(
    scope: &Scope<'_>,
    rules: &UpdateRules,
    change: &mut dyn FnMut(&mut Value) -> Result<(), Status>,
) -> Result<Written, Status> {
    loop {
        let current = scope.stored()?;
        let mut new = scope.value(&current);
        change(&mut new)?;
        if rules.dry_run {
            return Ok(Written::Shown { object: new, created: false });
        }
        if let Ok(committed) = scope.server.store().update(&scope.resource, &current, draft(scope, new)?.0) {
            scope.record(EventType::Modified, &committed);
            return Ok(Written::Stored { stored: committed.new, created: false });
        }
    }
}

/// Makes a write and replies with the object. Negotiates the reply before the write.
pub(crate) fn respond(scope: &Scope<'_>, write: impl FnOnce() -> Result<Written, Status>) -> Result<Reply, Status> {
    let negotiated = reply::negotiate(scope)?;
    let written = write()?;
    let code = if written.created() { 201 } else { 200 };
    reply::object(scope, code, Shown::Written(&written), negotiated)
}
