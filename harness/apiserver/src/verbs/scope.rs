//! What a handler knows about its request.

use std::sync::{Arc, Mutex, PoisonError};

use super::options::manager_or_user_agent;
use crate::identity::User;
use crate::json::Value;
use crate::kinds::{self, Kind};
use crate::record::{Change, ChangeKind, Origin};
use crate::request::{ApiRequest, Query, ResourcePath};
use crate::server::{ApiServer, Record, storage_id};
use crate::status::{GroupResource, Status};
use crate::store::{Committed, EventType, ResourceId, Stored};

/// On whose behalf something is done.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Who it is, in the record.
    pub(crate) origin: Origin,
    /// Number of the request in the transcript.
    pub(crate) request: Option<usize>,
    /// Name in managedFields, before a `fieldManager` parameter is looked at.
    pub(crate) user_agent: String,
    /// Who it is, by the token.
    pub(crate) user: User,
}

/// A request to a resource, and what belongs to it.
pub(crate) struct Scope<'a> {
    pub(crate) server: &'a ApiServer,
    pub(crate) kind: Arc<Kind>,
    pub(crate) resource: ResourceId,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    pub(crate) request: &'a ApiRequest,
    pub(crate) caller: Caller,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(
        server: &'a ApiServer,
        kind: Arc<Kind>,
        path: ResourcePath,
        request: &'a ApiRequest,
        caller: Caller,
    ) -> Self {
        Self {
            server,
            resource: storage_id(&kind),
            kind,
            path,
            query: Query::parse(&request.query),
            request,
            caller,
            warnings: Mutex::new(Vec::new()),
        }
    }

    /// Group and plural name, for messages.
    pub(crate) fn group_resource(&self) -> GroupResource<'_> {
        self.kind.group_resource()
    }

    pub(crate) fn not_found(&self, name: &str) -> Status {
        Status::not_found(self.group_resource(), name)
    }

    /// The manager that owns the fields which this request sets.
    pub(crate) fn manager(&self, parameter: &str) -> String {
        manager_or_user_agent(parameter, &self.caller.user_agent)
    }

    /// Adds a warning to the reply, each text once.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let (mut warnings, text) = (self.warnings.lock().unwrap_or_else(PoisonError::into_inner), text.into());
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// The warnings so far.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What strategies may know.
    pub(crate) fn context(&self) -> kinds::Context<'_> {
        kinds::Context { now: self.server.clock().now(), user: &self.caller.user, lookup: self.server }
    }

    /// The stored object the path names.
    pub(crate) fn stored(&self) -> Result<Arc<Stored>, Status> {
        let found = self.server.get(&self.resource, &self.path.namespace, &self.path.name);
        found.ok_or_else(|| self.not_found(&self.path.name))
    }

    /// An object at rest in this version's form.
    pub(crate) fn value(&self, stored: &Stored) -> Value {
        self.kind.from_storage(stored.value())
    }

    /// As [`Scope::value`], without decoding what was written just now.
    pub(crate) fn recent_value(&self, stored: &Stored) -> Arc<Value> {
        if self.kind.conversion.is_none() { self.server.recent().get(stored) } else { Arc::new(self.value(stored)) }
    }

    /// Writes a change into the transcript.
    pub(crate) fn record(&self, event_type: EventType, committed: &Committed) {
        record(self.server, &self.caller, &self.resource, event_type, committed);
    }
}

/// A state as the transcript keeps it: in `serde_json`'s values, read at once.
fn recorded(stored: &Stored) -> Arc<serde_json::Value> {
    Arc::new(serde_json::from_slice(&stored.bytes()).unwrap_or_default())
}

/// Writes a change into the transcript.
pub(crate) fn record(
    server: &ApiServer,
    caller: &Caller,
    resource: &ResourceId,
    event_type: EventType,
    committed: &Committed,
) {
    if !committed.changed || server.config().record == Record::Nothing {
        return;
    }
    let new = &committed.new;
    let change = Change {
        request: caller.request,
        kind: match event_type {
            EventType::Added => ChangeKind::Added,
            EventType::Modified => ChangeKind::Modified,
            EventType::Deleted => ChangeKind::Deleted,
        },
        group: resource.group.to_string(),
        resource: resource.resource.to_string(),
        namespace: Some(new.namespace().to_owned()).filter(|namespace| !namespace.is_empty()),
        name: new.name().to_owned(),
        resource_version: new.revision(),
        old: committed.old.as_deref().map(recorded),
        new: (event_type != EventType::Deleted).then(|| recorded(new)),
    };
    server.transcript().change(server.clock().elapsed(), caller.origin.clone(), change);
}
