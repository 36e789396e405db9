//! The context of a request for a resource, like upstream's `RequestScope` in
//! `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go`.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::options::manager_or_user_agent;
use super::parsed_request::ParsedRequest;
use super::service_addresses;
use super::versions::Conversions;
use crate::audit::AuditAnnotations;
use crate::crd::{WebhookConversion, conversion};
use crate::json::Value;
use crate::metadata;
use crate::record::Change;
use crate::registry::{self, Resource};
use crate::request::{ApiRequest, Query, ResourcePath};
use crate::schema::{self, Schema};
use crate::server::{ApiServer, RecordMode, storage_id};
use crate::status::{GroupResource, Status};
use crate::store::{CommitResult, EventType, ResourceId, StoredObject};
use crate::subresources::scale::ScalePaths;

/// A request for a resource with its context. `path` is that of the request, or of another object that the request
/// reads or writes.
pub(crate) struct RequestScope<'a> {
    pub(crate) server: &'a ApiServer,
    pub(crate) kind: Arc<Resource>,
    pub(crate) resource: ResourceId,
    pub(crate) path: Cow<'a, ResourcePath>,
    pub(crate) query: &'a Query,
    pub(crate) request: &'a ApiRequest,
    pub(crate) parsed: &'a ParsedRequest,
    warnings: Mutex<Vec<String>>,
    annotations: Mutex<AuditAnnotations>,
    schema: OnceLock<Arc<Schema>>,
    pub(super) conversions: Mutex<Conversions>,
}

impl<'a> RequestScope<'a> {
    pub(crate) fn new(
        server: &'a ApiServer,
        kind: Arc<Resource>,
        path: Cow<'a, ResourcePath>,
        parsed: &'a ParsedRequest,
    ) -> Self {
        Self {
            server,
            resource: storage_id(&kind),
            kind,
            path,
            query: &parsed.query,
            request: &parsed.request,
            parsed,
            warnings: Mutex::new(Vec::new()),
            annotations: Mutex::default(),
            schema: OnceLock::new(),
            conversions: Mutex::default(),
        }
    }

    /// Returns group and plural name, for messages.
    pub(crate) fn group_resource(&self) -> GroupResource<'_> {
        self.kind.group_resource()
    }

    pub(crate) fn not_found(&self, name: &str) -> Status {
        Status::not_found(self.group_resource(), name)
    }

    /// Returns the field manager of this request.
    pub(crate) fn manager(&self, parameter: &str) -> String {
        manager_or_user_agent(parameter, self.request.user_agent())
    }

    /// Adds a warning to the reply; repeated texts are added once.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let mut warnings = self.warnings.lock();
        let text = text.into();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Returns true if a warning was added.
    pub(crate) fn has_warnings(&self) -> bool {
        !self.warnings.lock().is_empty()
    }

    /// Takes the warnings added so far.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock())
    }

    /// Adds an annotation to the request's audit event.
    pub(crate) fn annotate(&self, key: String, value: String) {
        self.annotations.lock().add(key, value);
    }

    /// Takes the annotations added so far; `None` if there are none.
    pub(crate) fn take_annotations(&self) -> Option<AuditAnnotations> {
        let annotations = std::mem::take(&mut *self.annotations.lock());
        Some(annotations).filter(|annotations| !annotations.0.is_empty())
    }

    /// Returns the context for strategies.
    pub(crate) fn context(&self) -> registry::StrategyContext<'_> {
        registry::StrategyContext {
            now: self.server.clock().now(),
            user: self.parsed.acting_user(),
            lookup: self.server,
            dry_run: self.query.get("dryRun") == Some("All"),
        }
    }

    /// Returns the stored object that the path names.
    pub(crate) fn stored(&self) -> Result<Arc<StoredObject>, Status> {
        let found = self.server.get(&self.resource, &self.path.namespace, &self.path.name);
        found.ok_or_else(|| self.not_found(&self.path.name))
    }

    /// Returns a stored object in this version's form. One that is not cached is decoded and not added to the cache,
    /// because lists read thousands.
    pub(crate) fn value(&self, stored: &StoredObject) -> Value {
        let is_shown = self.kind.shows_as_stored(stored.revision());
        let known = if is_shown { self.server.decode_cache().find(stored) } else { None };
        known.map_or_else(|| self.kind.from_storage(stored.value()), |known| Value::clone(&known))
    }

    /// Returns the last state of an object that was removed.
    pub(crate) fn removed_value(&self, removed: &CommitResult) -> Value {
        let old = removed.old.as_ref().filter(|old| self.kind.shows_as_stored(old.revision()));
        let Some(old) = old else { return self.value(&removed.new) };
        let mut object = self.value(old);
        metadata::fields_mut(&mut object).insert("resourceVersion", removed.new.revision().to_string().into());
        object
    }

    /// Returns objects of this resource in the version of the request; a conversion webhook is asked if there is one.
    pub(crate) async fn converted(&self, objects: Vec<Value>) -> Result<Vec<Value>, Status> {
        let Some(webhook) = self.webhook() else { return Ok(objects) };
        let desired = self.kind.api_version();
        let objects = objects.into_iter().map(|object| self.kind.read_as_stored(object)).collect();
        let converted = Box::pin(conversion::convert(self.server, webhook, objects, &desired)).await?;
        Ok(converted.into_iter().map(|object| self.kind.read_as_own(object)).collect())
    }

    /// Returns an object of the request's version in the version in which it is stored.
    pub(crate) async fn stored_form(&self, object: Value) -> Result<Value, Status> {
        let (Some(own), Some(webhook)) = (&self.kind.custom, self.webhook()) else { return Ok(object) };
        let converting = conversion::convert(self.server, webhook, vec![object], &own.storage);
        let mut converted = Box::pin(converting).await?;
        Ok(converted.pop().unwrap_or_default())
    }

    /// Returns an object of the request's version as a read would show it after it was stored: the storage version may
    /// have other fields and defaults.
    pub(crate) async fn read_back(&self, object: Value) -> Result<Value, Status> {
        if self.kind.custom.is_none() || self.kind.conversion.is_none() {
            return Ok(object);
        }
        let stored = self.kind.to_storage(self.stored_form(object).await?);
        if self.webhook().is_none() {
            return Ok(self.kind.from_storage(stored));
        }
        let mut converted = self.converted(vec![stored]).await?;
        Ok(converted.pop().unwrap_or_default())
    }

    /// Returns the conversion webhook of a custom resource.
    pub(crate) fn webhook(&self) -> Option<&WebhookConversion> {
        self.kind.custom.as_ref()?.conversion.as_ref()
    }

    /// Like [`RequestScope::value`], in the version of the request even if a webhook converts it.
    pub(crate) async fn current_value(&self, stored: &StoredObject) -> Result<Arc<Value>, Status> {
        if self.webhook().is_none() {
            return Ok(self.cached_value(stored));
        }
        let mut converted = self.converted(vec![stored.value()]).await?;
        Ok(Arc::new(converted.pop().unwrap_or_default()))
    }

    /// Like [`RequestScope::value`], but does not decode an object that was written just now.
    pub(crate) fn cached_value(&self, stored: &StoredObject) -> Arc<Value> {
        if self.kind.shows_as_stored(stored.revision()) {
            self.server.decode_cache().get(stored)
        } else {
            Arc::new(self.value(stored))
        }
    }

    /// Records a change in the transcript, and follows it where other objects depend on it.
    pub(crate) fn record(&self, event_type: EventType, committed: &CommitResult) {
        if self.resource.group.is_empty() && &*self.resource.resource == "services" {
            service_addresses::follow(self.server, event_type, committed);
        }
        if !committed.changed || self.server.config().record == RecordMode::Off {
            return;
        }
        let new = &committed.new;
        let change = Change {
            request: self.parsed.number,
            kind: event_type.into(),
            group: self.resource.group.to_string(),
            resource: self.resource.resource.to_string(),
            namespace: Some(new.namespace().to_owned()).filter(|namespace| !namespace.is_empty()),
            name: new.name().to_owned(),
            resource_version: new.revision(),
            old: committed.old.clone().map(Into::into),
            new: (event_type != EventType::Deleted).then(|| new.clone().into()),
        };
        self.server.transcript().change(self.server.clock().elapsed(), self.parsed.origin.clone(), change);
    }

    /// Returns the schema of the path's kind.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        self.schema.get_or_init(|| match &self.kind.custom {
            Some(custom) => custom.types.clone(),
            None => schema::builtin(&self.kind.schema).unwrap_or_else(|| {
                let open = Schema::from_structural(None, true);
                Arc::new(open.expect("a schema that allows everything is structural"))
            }),
        })
    }

    /// Returns the fields of a custom kind that its Scale shows; `None` for built-in kinds.
    pub(crate) fn scale_paths(&self) -> Option<ScalePaths> {
        let scale = self.kind.custom.as_ref()?.scale.as_ref()?;
        Some(ScalePaths {
            spec_replicas: scale.spec_replicas.clone(),
            status_replicas: scale.status_replicas.clone(),
            label_selector: scale.label_selector.clone(),
        })
    }

    /// Returns the scope of another object on this server, for the same caller.
    pub(crate) fn scope_for(
        &self,
        group: &str,
        version: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<RequestScope<'_>, Status> {
        let registry = self.server.registry();
        let kind = registry.get(group, version, plural).ok_or_else(Status::unknown_resource)?;
        let path = ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            resource: plural.to_owned(),
            name: name.to_owned(),
            ..ResourcePath::default()
        };
        Ok(RequestScope::new(self.server, kind.clone(), Cow::Owned(path), self.parsed))
    }
}
