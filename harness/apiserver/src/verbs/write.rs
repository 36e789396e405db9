//! Creates and updates, and the guaranteed update shared by patches and subresources. Follows
//! `pkg/registry/generic/registry/store.go` and `pkg/registry/rest/{create,update}.go` in
//! `staging/src/k8s.io/apiserver` of Kubernetes 1.36.

use std::sync::Arc;

use bytes::Bytes;

use super::options::WriteOptions;
use super::scope::Scope;
use crate::encoding;
use crate::json::Value;
use crate::kinds::{self, ErrorList, meta};
use crate::lifecycle;
use crate::managedfields;
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

impl Scope<'_> {
    /// Handles POST to a collection.
    pub(crate) fn create(&self) -> Result<Written, Status> {
        let options = WriteOptions::parse(&self.query, "CreateOptions", None)?;
        let mut object = self.decode(&options)?;
        lifecycle::wipe_system_fields(&mut object);
        lifecycle::ensure_namespace(&mut object, &self.path.namespace)?;
        self.dedup_owners(&mut object, false);
        let generated = lifecycle::metadata_text(&object, "name").is_empty()
            && !lifecycle::metadata_text(&object, "generateName").is_empty();
        let manager = self.manager(&options.field_manager);
        if !generated {
            return self.create_object(object, &manager, options.dry_run);
        }
        let mut last = None;
        for _ in 0..lifecycle::GENERATE_NAME_ATTEMPTS {
            match self.create_object(object.clone(), &manager, options.dry_run) {
                Err(status) if status.reason == "AlreadyExists" => last = Some(status),
                result => return result,
            }
        }
        Err(last.unwrap_or_else(Status::unknown_resource))
    }

    /// Passes a decoded object through admission, strategy and validation into the store.
    fn create_object(&self, mut object: Value, manager: &str, dry_run: bool) -> Result<Written, Status> {
        object = self.manage(None, object, manager);
        self.admit_namespace(&object)?;
        self.kind.strategy.admit_create(&mut object, &self.context())?;
        self.prepare_create(&mut object)?;
        self.store_new(object, dry_run)
    }

    /// `rest.BeforeCreate`: system fields, strategy, validation.
    fn prepare_create(&self, object: &mut Value) -> Result<(), Status> {
        let context = self.context();
        let uid = self.server.ids().uid();
        lifecycle::fill_system_fields(object, context.now, uid);
        let prefix = lifecycle::metadata_text(object, "generateName").to_owned();
        if lifecycle::metadata_text(object, "name").is_empty() && !prefix.is_empty() {
            let name = self.server.ids().name(&prefix);
            lifecycle::metadata_mut(object).insert("name", name.into());
        }
        self.kind.strategy.prepare_for_create(object, &context);
        self.refuse_invalid(object, &kinds::validate_create(&self.kind, object))?;
        self.kind.strategy.begin_create(object, &context)?;
        for warning in self.kind.strategy.warnings_on_create(object) {
            self.warn(warning);
        }
        Ok(())
    }

    fn store_new(&self, mut object: Value, dry_run: bool) -> Result<Written, Status> {
        if lifecycle::resource_version(&object)? != 0 {
            return Err(Status::raw_error("resourceVersion should not be set on objects to be created"));
        }
        self.charge_quotas(&object, None, dry_run)?;
        let generated = !lifecycle::metadata_text(&object, "generateName").is_empty();
        let name = lifecycle::metadata_text(&object, "name").to_owned();
        let exists = |existing: &Stored| self.already_exists(existing, &name, generated);
        if dry_run {
            if let Some(existing) = self.server.get(&self.resource, &self.path.namespace, &name) {
                return Err(exists(&existing));
            }
            lifecycle::metadata_mut(&mut object).remove("resourceVersion");
            self.forget_emptiness(&mut object);
            return Ok(Written::Shown { object, created: true });
        }
        let (draft, object) = self.draft(object)?;
        match self.server.store().create(&self.resource, draft) {
            Ok(committed) => {
                self.server.recent().put(object, &committed.new, None);
                self.record(EventType::Added, &committed);
                Ok(Written::Stored { stored: committed.new, created: true })
            }
            Err(CommitError::Exists(existing) | CommitError::Changed(existing)) => Err(exists(&existing)),
            Err(CommitError::NotFound) => Err(self.not_found(&name)),
        }
    }

    /// Returns the object ready to be stored and its stored value, unless it is too large.
    fn draft(&self, mut object: Value) -> Result<(Draft, Value), Status> {
        self.forget_emptiness(&mut object);
        let (draft, object) = draft_of(&self.kind, object);
        if draft.size() > OBJECT_MAX {
            return Err(Status::raw_error("etcdserver: request is too large"));
        }
        Ok((draft, object))
    }

    /// Drops empty lists as a round trip through protobuf does upstream; definitions are stored as JSON.
    fn forget_emptiness(&self, object: &mut Value) {
        if self.kind.group != "apiextensions.k8s.io" {
            self.schema().forget_emptiness(object);
        }
    }

    fn already_exists(&self, existing: &Stored, name: &str, generated: bool) -> Status {
        let mut status = if generated {
            Status::generate_name_conflict(GroupResource::new(&self.kind.group, &self.kind.plural), name)
        } else {
            Status::already_exists(self.group_resource(), name)
        };
        if lifecycle::is_terminating(&existing.value()) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        status
    }

    /// Handles PUT of an object or of its status.
    pub(crate) fn update(&self, part: Part) -> Result<Written, Status> {
        let options = WriteOptions::parse(&self.query, "UpdateOptions", None)?;
        let object = self.sent_update(&options)?;
        let manager = self.manager(&options.field_manager);
        let uid = lifecycle::metadata_text(&object, "uid");
        let rules = UpdateRules {
            dry_run: options.dry_run,
            create: part == Part::Whole && self.kind.strategy.allow_create_on_update(),
            uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        };
        // Conflicts with another write are rare; only then the body is decoded again.
        let mut sent = Some(object);
        self.guaranteed_update(part, &rules, &mut |old| {
            let object = sent.take().map_or_else(|| self.sent_update(&options), Ok)?;
            Ok(self.manage(old, object, &manager))
        })
    }

    /// Decodes the object in the body of an update.
    fn sent_update(&self, options: &WriteOptions) -> Result<Value, Status> {
        let mut object = self.repeated().map_or_else(|| self.decode(options), Ok)?;
        lifecycle::ensure_namespace(&mut object, &self.path.namespace)?;
        lifecycle::check_name(&object, &self.path.name)?;
        self.dedup_owners(&mut object, false);
        Ok(object)
    }

    /// Reads, transforms, validates and writes; starts again if another write came in between.
    pub(crate) fn guaranteed_update(
        &self,
        part: Part,
        rules: &UpdateRules,
        transform: &mut Transform<'_>,
    ) -> Result<Written, Status> {
        loop {
            let current = self.server.get(&self.resource, &self.path.namespace, &self.path.name);
            let Some(current) = current else {
                if !rules.create {
                    return Err(self.not_found(&self.path.name));
                }
                match self.create_on_update(rules, transform) {
                    Err(status) if status.reason == "AlreadyExists" => continue,
                    result => return result,
                }
            };
            if let Some(wanted) = rules.uid.as_deref().filter(|uid| *uid != current.uid()) {
                return Err(self.uid_mismatch(wanted, current.uid()));
            }
            let old = self.recent_value(&current);
            let new = transform(Some(&old))?;
            let new = self.prepare_update(part, new, &old, current.revision())?;
            if part != Part::Status {
                self.charge_quotas(&new, Some(&old), rules.dry_run)?;
            }
            if lifecycle::ends_deletion(&new, &old) {
                if !rules.dry_run {
                    let removed = self.server.store().delete(&self.resource, current.key(), current.revision());
                    match removed {
                        Ok(committed) => self.record(EventType::Deleted, &committed),
                        Err(CommitError::NotFound) => {}
                        Err(CommitError::Changed(_) | CommitError::Exists(_)) => continue,
                    }
                }
                // The last finalizer was removed, and the object with it: the reply shows the updated object.
                return Ok(Written::Shown { object: new, created: false });
            }
            if rules.dry_run {
                let mut new = new;
                self.forget_emptiness(&mut new);
                return Ok(Written::Shown { object: new, created: false });
            }
            let (draft, new) = self.draft(new)?;
            match self.server.store().update(&self.resource, &current, draft) {
                Ok(committed) => {
                    self.server.recent().put(new, &committed.new, Some(current.revision()));
                    self.record(EventType::Modified, &committed);
                    return Ok(Written::Stored { stored: committed.new, created: false });
                }
                Err(CommitError::NotFound | CommitError::Changed(_) | CommitError::Exists(_)) => {}
            }
        }
    }

    fn create_on_update(&self, rules: &UpdateRules, transform: &mut Transform<'_>) -> Result<Written, Status> {
        if let Some(wanted) = rules.uid.as_deref() {
            return Err(self.uid_mismatch(wanted, ""));
        }
        let mut object = transform(None)?;
        lifecycle::wipe_system_fields(&mut object);
        // Only creates by POST are refused because of a resourceVersion.
        lifecycle::metadata_mut(&mut object).remove("resourceVersion");
        self.admit_namespace(&object)?;
        self.kind.strategy.admit_create(&mut object, &self.context())?;
        self.prepare_create(&mut object)?;
        self.store_new(object, rules.dry_run)
    }

    /// `rest.BeforeUpdate`: resourceVersion, admission, strategy, validation.
    fn prepare_update(&self, part: Part, mut new: Value, old: &Value, revision: u64) -> Result<Value, Status> {
        let strategy = &*self.kind.strategy;
        let unconditional = match part {
            Part::Whole | Part::Finalize | Part::Special => strategy.allow_unconditional_update(),
            Part::Status => strategy.allow_unconditional_status_update(),
        };
        self.check_version(&mut new, revision, unconditional)?;
        let context = self.context();
        if part == Part::Whole {
            strategy.admit_update(&mut new, old, &context)?;
        }
        self.dedup_owners(&mut new, true);
        lifecycle::before_strategy(&mut new, old);
        match part {
            Part::Whole => strategy.prepare_for_update(&mut new, old, &context),
            Part::Special => {
                strategy.prepare_for_subresource_update(&self.path.subresource, &mut new, old, &context);
            }
            Part::Status => strategy.prepare_for_status_update(&mut new, old, &context),
            Part::Finalize => meta::keep_field(&mut new, old, "status"),
        }
        lifecycle::after_strategy(&mut new, old);
        let errors = match part {
            Part::Whole => kinds::validate_update(&self.kind, &new, old),
            Part::Finalize => kinds::validate_finalize(&new, old),
            Part::Status => kinds::validate_status_update(&self.kind, &new, old),
            Part::Special => kinds::validate_subresource_update(&self.kind, &self.path.subresource, &new, old),
        };
        self.refuse_invalid(&new, &errors)?;
        if part == Part::Special {
            strategy.admit_subresource(&self.path.subresource, &new, old, &context)?;
        }
        if part == Part::Whole {
            strategy.begin_update(&mut new, old, &context)?;
            for warning in strategy.warnings_on_update(&new, old) {
                self.warn(warning);
            }
        }
        managedfields::ignore_timestamps(&mut new, old);
        Ok(new)
    }

    fn check_version(&self, new: &mut Value, revision: u64, unconditional: bool) -> Result<(), Status> {
        match lifecycle::resource_version(new)? {
            0 if unconditional => {
                lifecycle::metadata_mut(new).insert("resourceVersion", revision.to_string().into());
                Ok(())
            }
            0 => {
                let mut errors = ErrorList::new();
                let path = kinds::Path::new("metadata");
                errors.invalid(&path.child("resourceVersion"), 0, "must be specified for an update");
                Err(Status::invalid(&self.kind.group, &self.kind.plural, &self.path.name, &errors))
            }
            wanted if wanted == revision => Ok(()),
            _ => Err(Status::modified(self.group_resource(), &self.path.name)),
        }
    }

    pub(crate) fn uid_mismatch(&self, wanted: &str, found: &str) -> Status {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
            self.etcd_key()
        );
        Status::conflict(self.group_resource(), &self.path.name, &why)
    }

    /// Returns the key that kube-apiserver would use in etcd, for messages.
    fn etcd_key(&self) -> String {
        let prefix = match (&*self.resource.group, &*self.resource.resource) {
            ("", "nodes") => "minions",
            ("", "replicationcontrollers") => "controllers",
            ("", "services") => "services/specs",
            ("", "endpoints") => "services/endpoints",
            ("networking.k8s.io", "ingresses") => "ingress",
            (_, resource) => resource,
        };
        let group = &*self.resource.group;
        let grouped = if self.is_custom() || group == "apiextensions.k8s.io" { group } else { "" };
        let parts = ["/registry", grouped, prefix, &self.path.namespace, &self.path.name];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    fn refuse_invalid(&self, object: &Value, errors: &ErrorList) -> Result<(), Status> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&self.kind.storage.group, &self.kind.kind, meta::name(object), errors))
    }

    fn dedup_owners(&self, object: &mut Value, after_admission: bool) {
        let again = lifecycle::dedup_owners(object);
        if !again.is_empty() {
            let when = if after_admission { " after mutating admission happens" } else { "" };
            self.warn(format!(
                ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
                again.join(", ")
            ));
        }
    }

    /// `NamespaceLifecycle` admission: rejects new objects in missing or terminating namespaces.
    fn admit_namespace(&self, object: &Value) -> Result<(), Status> {
        if !self.kind.namespaced {
            return Ok(());
        }
        let namespaces = crate::store::ResourceId::new("", "namespaces");
        let name = &self.path.namespace;
        let Some(namespace) = self.server.get(&namespaces, "", name) else {
            return Err(Status::not_found(GroupResource::new("", "namespaces"), name));
        };
        if namespace.field("status.phase") != Some("Terminating") {
            return Ok(());
        }
        let deleted = lifecycle::metadata_text(&namespace.value(), "deletionTimestamp").to_owned();
        tracing::debug!(name, deleted, "refused a new object in a terminating namespace");
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        Err(Status::forbidden(self.group_resource(), meta::name(object), &why).with_cause(
            "NamespaceTerminating",
            format!("namespace {name} is being terminated"),
            "metadata.namespace",
        ))
    }

    /// Writes on behalf of the server: without strategy, validation and managed fields.
    pub(crate) fn raw_update(
        &self,
        rules: &UpdateRules,
        change: &mut dyn FnMut(&mut Value) -> Result<(), Status>,
    ) -> Result<Written, Status> {
        loop {
            let current = self.stored()?;
            let mut new = self.value(&current);
            change(&mut new)?;
            if rules.dry_run {
                return Ok(Written::Shown { object: new, created: false });
            }
            if let Ok(committed) = self.server.store().update(&self.resource, &current, self.draft(new)?.0) {
                self.record(EventType::Modified, &committed);
                return Ok(Written::Stored { stored: committed.new, created: false });
            }
        }
    }

    /// Returns the object that a write resulted in.
    pub(crate) fn written_value(&self, written: &Written) -> Value {
        match written {
            Written::Stored { stored, .. } => self.value(stored),
            Written::Shown { object, .. } => object.clone(),
        }
    }

    /// Returns the encoded object for the reply to a write.
    pub(crate) fn written_bytes(&self, written: &Written) -> Bytes {
        match written {
            Written::Stored { stored, .. } if self.kind.conversion.is_none() => stored.document(),
            Written::Stored { stored, .. } => encoding::document(&self.value(stored)).into(),
            Written::Shown { object, .. } => encoding::document(object).into(),
        }
    }
}
