//! The entries of `metadata.managedFields`. Follows `managedfields.go` and `capmanagers.go` in
//! `staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal` of Kubernetes 1.36.

use std::cmp::Ordering;

use jiff::Timestamp;

use super::set::FieldSet;
use super::versions::Changes;
use super::write_info::WriteInfo;
use crate::json::{Map, Value};

/// Largest number of entries with operation `Update`; older ones are merged.
const MAX_UPDATE_MANAGERS: usize = 10;

/// Manager of the merged entries.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// The operation by which a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// Server-side apply.
    Apply,
    /// Every other write.
    Update,
}

impl Operation {
    /// Returns the name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Reasons why an entry is malformed, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {given:?} in managed fields entry {index}")]
    FieldsType { given: String, index: usize },
    #[error("error decoding set")]
    Set,
}

/// An entry of managedFields.
#[derive(Clone, Debug)]
pub(crate) struct ManagedFieldsEntry {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
    /// RFC 3339 as stored; absent for appliers that never changed anything.
    pub(crate) time: Option<String>,
    pub(crate) set: FieldSet,
}

impl ManagedFieldsEntry {
    /// Returns true if both entries belong to one manager. An applier keeps its entry when it moves to another version.
    fn same_manager(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Returns true if this is the entry of `write`'s manager for `operation`.
    pub(crate) fn belongs_to(&self, write: &WriteInfo<'_>, operation: Operation) -> bool {
        self.manager == manager_name(write)
            && self.operation == operation
            && self.subresource == write.subresource
            && (operation == Operation::Apply || self.api_version == write.api_version)
    }

    /// Creates an entry of `write`'s manager.
    pub(crate) fn of(write: &WriteInfo<'_>, operation: Operation, set: FieldSet) -> Self {
        Self {
            manager: manager_name(write).to_owned(),
            operation,
            api_version: write.api_version.to_owned(),
            subresource: write.subresource.to_owned(),
            time: None,
            set,
        }
    }

    fn read(mut value: Value, index: usize) -> Result<Self, EntryError> {
        let fields = value.get_mut("fieldsV1").map(Value::take);
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(EntryError::Operation),
        };
        if text("apiVersion").is_empty() {
            return Err(EntryError::ApiVersion);
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(EntryError::NoFieldsType(index)),
            other => return Err(EntryError::FieldsType { given: other.to_owned(), index }),
        }
        let set = match fields {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => FieldSet::from_value(fields).ok_or(EntryError::Set)?,
        };
        Ok(Self {
            manager: text("manager").to_owned(),
            operation,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
            time: value.get("time").and_then(Value::as_str).map(ToOwned::to_owned),
            set,
        })
    }

    fn into_value(self) -> Value {
        let mut map = Map::with_capacity(7);
        let mut put = |name: &str, value: Value| {
            if value != "" {
                map.insert(name, value);
            }
        };
        put("apiVersion", self.api_version.into());
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.set.into_value());
        put("manager", self.manager.into());
        put("operation", self.operation.as_str().into());
        put("subresource", self.subresource.into());
        put("time", self.time.unwrap_or_default().into());
        Value::Object(map)
    }

    /// Order on the wire: appliers first, then by time, manager, version, subresource.
    fn order(&self, other: &Self) -> Ordering {
        // Times are RFC 3339 in UTC with seconds, so they sort as text; entries without a time come first.
        self.operation
            .cmp(&other.operation)
            .then_with(|| self.time.cmp(&other.time))
            .then_with(|| self.manager.cmp(&other.manager))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }

    /// Returns the manager as conflicts name it: `"x" with subresource "status" using v1`.
    pub(crate) fn describe(&self) -> String {
        use std::fmt::Write as _;
        let mut out = crate::status::go_quote(&self.manager);
        if !self.subresource.is_empty() {
            _ = write!(out, " with subresource {}", crate::status::go_quote(&self.subresource));
        }
        if self.operation == Operation::Update {
            _ = write!(out, " using {}", self.api_version);
        }
        out
    }

    /// Sort key of managers in conflict messages.
    pub(crate) fn identity(&self) -> (&str, Operation, &str, &str) {
        let version = if self.operation == Operation::Apply { "" } else { &self.api_version };
        (&self.manager, self.operation, version, &self.subresource)
    }
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn manager_name<'a>(write: &WriteInfo<'a>) -> &'a str {
    if write.manager.is_empty() { "unknown" } else { write.manager }
}

/// Formats a time for an entry.
pub(crate) fn stamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// All entries of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManagedEntries(Vec<ManagedFieldsEntry>);

impl ManagedEntries {
    /// Reads a `managedFields` list.
    ///
    /// # Errors
    /// Upstream's message for the first malformed entry.
    pub(crate) fn read(value: Value) -> Result<Self, EntryError> {
        let mut entries: Vec<ManagedFieldsEntry> = Vec::new();
        let Value::Array(list) = value else { return Ok(Self::default()) };
        for (index, value) in list.into_iter().enumerate() {
            let entry = ManagedFieldsEntry::read(value, index)?;
            match entries.iter_mut().find(|e| e.same_manager(&entry)) {
                Some(earlier) => *earlier = entry,
                None => entries.push(entry),
            }
        }
        Ok(Self(entries))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops entries of other API groups than `write`'s: an Event is served by two groups.
    pub(crate) fn retain_group(&mut self, write: &WriteInfo<'_>) {
        self.0.retain(|entry| group_of(&entry.api_version) == group_of(write.api_version));
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, ManagedFieldsEntry> {
        self.0.iter()
    }

    pub(crate) fn find_mut(&mut self, write: &WriteInfo<'_>, operation: Operation) -> Option<&mut ManagedFieldsEntry> {
        self.0.iter_mut().find(|e| e.belongs_to(write, operation))
    }

    pub(crate) fn push(&mut self, entry: ManagedFieldsEntry) {
        self.0.push(entry);
    }

    pub(crate) fn remove_empty(&mut self) {
        self.0.retain(|e| !e.set.is_empty());
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&ManagedFieldsEntry) -> bool) {
        self.0.retain(keep);
    }

    /// Removes these fields from all managers.
    pub(super) fn remove_fields(&mut self, set: &FieldSet) {
        for entry in &mut self.0 {
            entry.set.difference(set);
        }
        self.remove_empty();
    }

    /// Removes the changed and removed fields from all managers.
    pub(super) fn release(&mut self, changes: &Changes) {
        self.release_where(changes, |_| true);
        self.remove_empty();
    }

    /// Removes the changed and removed fields from all managers except the applier.
    pub(crate) fn release_others(&mut self, write: &WriteInfo<'_>, changes: &Changes) {
        self.release_where(changes, |entry| !entry.belongs_to(write, Operation::Apply));
    }

    fn release_where(&mut self, changes: &Changes, of: impl Fn(&ManagedFieldsEntry) -> bool) {
        for entry in self.0.iter_mut().filter(|entry| of(entry)) {
            let changed = changes.of(entry);
            for fields in [&changed.modified, &changed.added, &changed.removed] {
                if !fields.is_empty() {
                    entry.set.difference(fields);
                }
            }
        }
    }

    /// Gives these fields to the writer.
    pub(super) fn add_fields(&mut self, write: &WriteInfo<'_>, set: FieldSet) {
        let time = Some(stamp(write.now));
        if let Some(entry) = self.find_mut(write, Operation::Update) {
            entry.set.union(set);
            entry.time = time;
        } else {
            self.0.push(ManagedFieldsEntry { time, ..ManagedFieldsEntry::of(write, Operation::Update, set) });
        }
    }

    /// Merges the oldest `Update` entries of each version until few enough are left.
    pub(crate) fn cap(&mut self) {
        let updates =
            |entries: &[ManagedFieldsEntry]| entries.iter().filter(|e| e.operation == Operation::Update).count();
        if updates(&self.0) <= MAX_UPDATE_MANAGERS {
            return;
        }
        let (mut updaters, mut rest): (Vec<ManagedFieldsEntry>, Vec<ManagedFieldsEntry>) =
            std::mem::take(&mut self.0).into_iter().partition(|e| e.operation == Operation::Update);
        updaters.sort_by(|a, b| a.time.cmp(&b.time).then_with(|| a.identity().cmp(&b.identity())));
        let mut length = updaters.len();
        let mut kept: Vec<ManagedFieldsEntry> = Vec::new();
        for entry in updaters {
            let first = kept.iter_mut().find(|e| e.api_version == entry.api_version);
            match first {
                Some(bucket) if length > MAX_UPDATE_MANAGERS => {
                    ANCIENT_CHANGES.clone_into(&mut bucket.manager);
                    bucket.subresource.clear();
                    bucket.set.union(entry.set);
                    bucket.time = entry.time;
                    length -= 1;
                }
                _ => kept.push(entry),
            }
        }
        rest.extend(kept);
        self.0 = rest;
    }

    /// Writes the entries into `object.metadata.managedFields`.
    pub(crate) fn write(mut self, object: &mut Value) {
        self.0.sort_by(ManagedFieldsEntry::order);
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if self.0.is_empty() {
            metadata.remove("managedFields");
        } else {
            let entries = self.0.into_iter().map(ManagedFieldsEntry::into_value).collect();
            metadata.insert("managedFields", Value::Array(entries));
        }
    }
}
