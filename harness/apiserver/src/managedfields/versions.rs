//! Objects in the versions of the entries of managedFields. Follows `versionconverter.go` in
//! `staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal` of Kubernetes 1.36, and `update` in
//! `merge/update.go` of `sigs.k8s.io/structured-merge-diff/v6`.

use std::sync::Arc;

use super::compare::{Comparison, compare};
use super::entry::{ManagedEntries, ManagedFieldsEntry};
use super::path_element::PathElementError;
use super::version_converter::{VersionConversionError, VersionConverter};
use super::write_info::WriteInfo;
use crate::json::Value;
use crate::schema::Schema;

/// Reasons why field ownership cannot be computed, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnershipError {
    #[error("failed to compare objects: {0}")]
    Compare(#[from] PathElementError),
    #[error("failed to convert {what}: {why}")]
    Convert { what: &'static str, why: VersionConversionError },
}

/// An object in one of its versions.
#[derive(Clone, Debug)]
pub(crate) struct VersionedObject<'s> {
    pub(crate) object: Value,
    schema: SchemaOf<'s>,
}

#[derive(Clone, Debug)]
enum SchemaOf<'s> {
    Request(&'s Schema),
    Other(Arc<Schema>),
}

impl<'s> VersionedObject<'s> {
    /// Returns an object of the version with this schema, which is that of the request.
    pub(crate) fn of_request(schema: &'s Schema, object: Value) -> Self {
        Self { object, schema: SchemaOf::Request(schema) }
    }

    /// Returns another object of the same version.
    pub(crate) fn with(&self, object: Value) -> Self {
        Self { object, schema: self.schema.clone() }
    }

    pub(crate) fn schema(&self) -> &Schema {
        match &self.schema {
            SchemaOf::Request(schema) => schema,
            SchemaOf::Other(schema) => schema,
        }
    }
}

/// The versions of the object that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions<'v> {
    /// The schema of the request's version.
    pub(crate) schema: &'v Schema,
    /// The request's version.
    pub(crate) own: &'v str,
    pub(crate) converter: &'v dyn VersionConverter,
}

impl<'v> Versions<'v> {
    /// Returns the versions of a write.
    pub(crate) fn of(schema: &'v Schema, write: &WriteInfo<'v>) -> Self {
        Self { schema, own: write.api_version, converter: write.versions }
    }

    /// Returns an object in a version; `None` if there is no such version.
    ///
    /// # Errors
    /// The object cannot be converted.
    pub(crate) fn convert(
        &self,
        given: &VersionedObject<'v>,
        version: &str,
        what: &'static str,
    ) -> Result<Option<VersionedObject<'v>>, OwnershipError> {
        let present = given.object.get("apiVersion").and_then(Value::as_str).unwrap_or(self.own);
        if present == version {
            return Ok(Some(given.clone()));
        }
        let converted = self.converter.convert(&given.object, version);
        let converted = converted.map_err(|why| OwnershipError::Convert { what, why })?;
        Ok(converted.map(|(object, schema)| {
            let schema = if version == self.own { SchemaOf::Request(self.schema) } else { SchemaOf::Other(schema) };
            VersionedObject { object, schema }
        }))
    }
}

/// The changes of a write, in the version of the request and in those of all entries.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The changes in the version of the request.
    pub(crate) own: Comparison,
    others: Vec<(String, Comparison)>,
}

impl Changes {
    /// Compares the object before and after a write. Entries of versions that do not exist are dropped; those that
    /// `skip` names are not looked at.
    ///
    /// # Errors
    /// Items of a list cannot be identified, or an object cannot be converted.
    pub(crate) fn between(
        schema: &Schema,
        (live, new): (Option<&Value>, &Value),
        entries: &mut ManagedEntries,
        write: &WriteInfo<'_>,
        skip: impl Fn(&ManagedFieldsEntry) -> bool,
    ) -> Result<Self, OwnershipError> {
        let mut own = compare(schema, live.unwrap_or_else(|| schema.empty()), new)?;
        own.exclude(write.reset);
        let mut others: Vec<(String, Comparison)> = Vec::new();
        let foreign = entries.iter().filter(|entry| entry.api_version != write.api_version && !skip(entry));
        let mut foreign: Vec<String> = foreign.map(|entry| entry.api_version.clone()).collect();
        foreign.sort_unstable();
        foreign.dedup();
        let versions = Versions::of(schema, write);
        for version in foreign {
            let in_version = |object: &Value, what| {
                versions.convert(&VersionedObject::of_request(schema, object.clone()), &version, what)
            };
            let old = live.map(|live| in_version(live, "old object")).transpose()?;
            let (Some(new), Some(old)) = (in_version(new, "new object")?, old.map_or(Some(None), |old| old.map(Some)))
            else {
                entries.retain(|entry| entry.api_version != version || skip(entry));
                continue;
            };
            let schema = new.schema();
            let old = old.as_ref().map_or_else(|| schema.empty(), |old| &old.object);
            let mut comparison = compare(schema, old, &new.object)?;
            comparison.exclude(write.reset);
            others.push((version, comparison));
        }
        Ok(Self { own, others })
    }

    /// Returns the changes in the version of an entry.
    pub(crate) fn of(&self, entry: &ManagedFieldsEntry) -> &Comparison {
        let other = self.others.iter().find(|(version, _)| *version == entry.api_version);
        other.map_or(&self.own, |(_, comparison)| comparison)
    }
}
