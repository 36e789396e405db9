//! The data of custom resources that the rest of the server needs. [`crate::crd`] makes it from definitions.
//! See `crdInfo` in `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go`.

use std::sync::Arc;

use super::Strategy;
use crate::json::Value;
use crate::schema::Schema;

/// Resource name of definitions.
pub(crate) const RESOURCE: &str = "customresourcedefinitions";
/// API group of definitions.
pub(crate) const GROUP: &str = "apiextensions.k8s.io";
/// The finalizer that keeps a definition until its objects are deleted.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The `subresources.scale` of a definition: the fields that a Scale reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CustomResourceScale {
    /// JSON path of the desired replicas, such as `.spec.replicas`.
    pub spec_replicas: String,
    /// JSON path of the observed replicas.
    pub status_replicas: String,
    /// JSON path of the selector in string form, if declared.
    pub label_selector: Option<String>,
}

/// The webhook of a definition that converts its objects between versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebhookConversion {
    /// The `clientConfig`.
    pub client_config: Value,
    /// The versions of reviews that it accepts.
    pub review_versions: Vec<String>,
    /// The apiVersion in which objects are stored.
    pub storage: String,
}

/// The version of a definition in which objects are stored, for readers of another version.
#[derive(Debug)]
pub(crate) struct StorageVersion {
    /// The schema as a type tree.
    pub types: Arc<Schema>,
    /// The strategy, for its defaults.
    pub strategy: Arc<dyn Strategy>,
}

/// The extra data of a kind that one served version of a definition declares.
#[derive(Debug)]
pub(crate) struct CustomResource {
    /// Name of the definition.
    pub definition: String,
    /// The `openAPIV3Schema` as declared.
    pub schema: Value,
    /// The schema as a type tree, for decoding, pruning, patches and field ownership.
    pub types: Arc<Schema>,
    /// The `additionalPrinterColumns` as declared.
    pub columns: Option<Value>,
    /// The fields behind the `scale` subresource, if it has one.
    pub scale: Option<CustomResourceScale>,
    /// `true` if `status` is a subresource.
    pub status: bool,
    /// The warning sent to clients of a deprecated version.
    pub deprecation: Option<String>,
    /// `true` while the definition is being deleted: objects cannot be created then.
    pub ending: bool,
    /// The resourceVersion of the definition. Objects that were stored before it may be of another schema.
    pub revision: u64,
    /// The webhook that converts between versions, if the definition has one.
    pub conversion: Option<WebhookConversion>,
    /// The storage version, if that is another one.
    pub storage: Option<StorageVersion>,
    /// The spec and the accepted names of the definition. Watches end when they change.
    pub served_as: [Value; 2],
}
