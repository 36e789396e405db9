//! The server, as far as admission needs it: what upstream's plugins get from
//! `staging/src/k8s.io/apiserver/pkg/admission/initializer`.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::clock::Clock;
use crate::expressions::AccessReviewer;
use crate::json::Value;
use crate::outbound::Outbound;
use crate::registry::{ObjectLister, Registry, Resource};
use crate::schema::Schema;
use crate::status::Status;

/// The server, as far as admission needs it.
pub(crate) trait AdmissionHost: Sync {
    /// Returns read access to the stored objects.
    fn lister(&self) -> &dyn ObjectLister;
    /// Returns the served resources.
    fn registry(&self) -> Arc<Registry>;
    /// Returns the client of webhooks.
    fn outbound(&self) -> &Outbound;
    /// Returns the server's clock.
    fn clock(&self) -> &Clock;
    /// Returns the function that answers access reviews.
    fn reviewer(&self) -> AccessReviewer;
    /// Returns the seconds that the request has left, rounded up; `None` for requests without a limit.
    fn seconds_left(&self) -> Option<u64>;
    /// Returns a new UID.
    fn uid(&self) -> String;
    /// Adds a warning to the reply.
    fn warn(&self, text: String);
    /// Adds an annotation to the request's audit event.
    fn annotate(&self, key: String, value: String);
    /// Returns the schema of the objects that are admitted.
    fn schema(&self) -> Arc<Schema>;
    /// Returns the reason why an object is not of the kind that is admitted, in the version of the request or another.
    fn kind_error(&self, kind: Option<&Resource>, object: &Value) -> Option<String>;
    /// Returns the kind that is admitted; `None` for a body of another kind, such as an eviction.
    fn own_kind<'k>(&'k self, kind: Option<&'k Resource>) -> Option<&'k Resource>;
    /// Fills in the defaults of the object that is admitted, or of one of its other versions.
    fn default(&self, kind: Option<&Resource>, object: &mut Value);
    /// Converts an object from a version of its resource to another one.
    fn convert<'c>(
        &'c self,
        own: &'c Resource,
        other: &'c Resource,
        object: Value,
    ) -> BoxFuture<'c, Result<Value, Status>>;
    /// Runs the mutating admission plugins again, after a webhook or a policy changed the object.
    fn admit_again(&self, object: &mut Value) -> Result<(), Status>;
}
