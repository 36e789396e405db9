//! The data of custom resources that the rest of the server needs. [`crate::crd`] makes it from definitions.
//! See `crdInfo` in `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go`.

use std::sync::Arc;

use crate::json::Value;
use crate::registry::strategy::Strategy;
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
}

/// Another version of a definition, served or not, in which objects can be stored.
#[derive(Debug, Clone)]
pub(crate) struct OtherVersion {
    /// The apiVersion of its objects.
    pub api_version: String,
    /// The schema as a type tree.
    pub types: Arc<Schema>,
    /// The strategy, for its defaults.
    pub strategy: Arc<dyn Strategy>,
}

/// The extra data of a kind that one served version of a definition declares.
#[derive(Debug, Clone)]
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
    /// `true` while the definition is being deleted: objects cannot be created then.
    pub ending: bool,
    /// The resourceVersion of the definition. Objects that were stored before it may be of another schema.
    pub revision: u64,
    /// The webhook that converts between versions, if the definition has one.
    pub conversion: Option<WebhookConversion>,
    /// The apiVersion in which objects are stored.
    pub storage: String,
    /// The other versions.
    pub others: Vec<OtherVersion>,
}

impl CustomResource {
    /// Returns the other version with this apiVersion.
    pub(crate) fn other(&self, api_version: &str) -> Option<&OtherVersion> {
        self.others.iter().find(|other| other.api_version == api_version)
    }

    /// Returns an object as it is stored: in the storage version, without fields that this version does not have. What
    /// a webhook has not converted to the storage version stays as it is.
    pub(super) fn to_storage(&self, object: Value) -> Value {
        let Some(storage) = self.other(&self.storage) else { return object };
        if self.conversion.is_some() && object["apiVersion"] != *self.storage {
            return object;
        }
        let mut object = pruned(&storage.types, object);
        object["apiVersion"] = self.storage.as_str().into();
        object
    }
}

/// Returns an object without the fields that a schema does not have.
pub(super) fn pruned(types: &Schema, object: Value) -> Value {
    types.decode(object.to_string().as_bytes()).map_or(object, |read| read.value)
}
