//! Writes as data: the part of an object that is written, the conditions, and the outcome. Upstream passes them as
//! arguments and results of `Create` and `Update` in `staging/src/k8s.io/apiserver/pkg/registry/rest/rest.go`.

use std::sync::Arc;

use bytes::Bytes;

use super::request_scope::RequestScope;
use crate::go_json;
use crate::json::Value;
use crate::status::Status;
use crate::store::StoredObject;

/// Conditions of a guaranteed update.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpdateOptions {
    pub(crate) dry_run: bool,
    /// Create the object if it does not exist.
    pub(crate) create: bool,
    /// Update only an object with this UID.
    pub(crate) uid: Option<String>,
    /// The server itself writes: webhooks and policies are not asked.
    pub(crate) internal: bool,
}

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteTarget {
    Whole,
    Status,
    /// A namespace's `spec.finalizers`.
    Finalize,
    /// The part that one of the kind's own subresources may change.
    Subresource,
}

/// The result of a write.
pub(crate) enum WriteOutcome {
    /// The object is stored.
    Stored { stored: Arc<StoredObject>, created: bool },
    /// The object is not stored: a dry run, or the last state of an object that this write removed.
    Transient { object: Value, created: bool },
}

impl WriteOutcome {
    /// Returns the outcome of a write that is stored, in the version of the request.
    pub(super) async fn stored(
        scope: &RequestScope<'_>,
        stored: Arc<StoredObject>,
        created: bool,
    ) -> Result<Self, Status> {
        if scope.webhook().is_none() {
            return Ok(Self::Stored { stored, created });
        }
        let object = Arc::unwrap_or_clone(scope.current_value(&stored).await?);
        Ok(Self::Transient { object, created })
    }

    pub(crate) fn created(&self) -> bool {
        match self {
            Self::Stored { created, .. } | Self::Transient { created, .. } => *created,
        }
    }

    /// Returns the object that the write resulted in.
    pub(crate) fn value(&self, scope: &RequestScope<'_>) -> Value {
        match self {
            Self::Stored { stored, .. } => scope.value(stored),
            Self::Transient { object, .. } => object.clone(),
        }
    }

    /// Returns the encoded object for the reply.
    pub(crate) fn bytes(&self, scope: &RequestScope<'_>) -> Bytes {
        match self {
            Self::Stored { stored, .. } if scope.kind.shows_as_stored(stored.revision()) => stored.document(),
            Self::Stored { stored, .. } => go_json::encode_document(&scope.value(stored)).into(),
            Self::Transient { object, .. } => go_json::encode_document(object).into(),
        }
    }
}
