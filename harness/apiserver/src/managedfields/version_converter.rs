//! Converters of objects to the other versions of their kind. Follows `versionconverter.go` in
//! `staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal`.

use std::fmt::Debug;
use std::sync::Arc;

use crate::json::Value;
use crate::schema::Schema;

/// Converts objects of one kind to its other versions.
pub(crate) trait VersionConverter: Debug + Sync {
    /// Returns an object in another version, with the schema of that version; `None` if there is no such version.
    ///
    /// # Errors
    /// The object cannot be converted.
    fn convert(
        &self,
        object: &Value,
        api_version: &str,
    ) -> Result<Option<(Value, Arc<Schema>)>, VersionConversionError>;
}

/// Reasons why an object cannot be converted to another version, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VersionConversionError {
    #[error("request to convert CR to an invalid group/version: {0}")]
    UnknownVersion(String),
    /// The reply of the conversion webhook.
    #[error("{0}")]
    Webhook(String),
    #[error("the conversion webhook has not been asked yet")]
    NotAsked,
    /// The object is not of the types of its schema.
    #[error("{0}")]
    Misfit(String),
}

/// A converter for kinds whose versions do not differ.
#[derive(Debug)]
pub(crate) struct OneVersion;

impl VersionConverter for OneVersion {
    fn convert(&self, _: &Value, _: &str) -> Result<Option<(Value, Arc<Schema>)>, VersionConversionError> {
        Ok(None)
    }
}
