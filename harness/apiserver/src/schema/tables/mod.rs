//! The fields of all built-in types, one compact line per type. They are those of `staging/src/k8s.io/api`, with the
//! markers of its structs (`+listType`, `patchMergeKey`, …).
//!
//! The notation is made for grepping (`^PodSpec:`); [`super::builtin_types`] parses it:
//!
//! ```text
//! Name: [=atomic] field type[marks]; field type[marks]; …      a struct; continuation lines begin with a space
//! = type: Name Name …                                          named types over another type
//!
//! type     string bool int int32 int64 uint8 float64 · bytes (base64) · quantity · intorstr · time microtime duration
//!          raw (any JSON) · Name · package.Name · []T (list) · {}T (map by string)
//!          {K}T (map by another type of strings) · *T (pointer: absent differs from zero)
//! field    &T embeds the fields of T
//! marks    !           always encoded, even when zero
//!          ~           omitted when the struct is zero (omitzero)
//!          @key,key    list type map with these keys; strategic merge merges by the first
//!          +retainKeys strategic merge keeps only the keys named by `$retainKeys`
//!          =map(key,…) =set =atomic =granular    list type or map type
//!          %merge %merge(key) %replace %retainKeys    strategic merge strategy where it differs from the list type
//!          :value      default of a list-map key
//! ```

mod access;
mod admission;
mod core_v1;
mod extension;
mod infrastructure;
mod legacy;
mod meta;
mod workloads;

/// A package of types: its name in other tables, its OpenAPI prefix, its Go package name and its table.
pub(super) struct Package {
    /// The name by which the tables of other packages refer to it.
    pub(super) short: &'static str,
    /// The prefix of its types' OpenAPI names.
    pub(super) prefix: &'static str,
    /// The Go package name, which decode errors print.
    pub(super) go: &'static str,
    /// The table.
    pub(super) text: &'static str,
    /// Definitions that replace those of the table, in the same notation.
    pub(super) replaced: &'static str,
    /// The `apiVersion` of its kinds; `None` if it has none.
    pub(super) api_version: Option<&'static str>,
}

impl Package {
    const fn serving(self, api_version: &'static str) -> Self {
        Self { api_version: Some(api_version), ..self }
    }

    const fn replacing(self, replaced: &'static str) -> Self {
        Self { replaced, ..self }
    }
}

const fn package(short: &'static str, prefix: &'static str, go: &'static str, text: &'static str) -> Package {
    Package { short, prefix, go, text, replaced: "", api_version: None }
}

/// All packages of built-in types.
pub(super) const PACKAGES: &[Package] = &[
    package("meta", "io.k8s.apimachinery.pkg.apis.meta.v1", "v1", meta::META),
    package("core", "io.k8s.api.core.v1", "v1", core_v1::CORE).serving("v1"),
    package("apps", "io.k8s.api.apps.v1", "v1", workloads::APPS).serving("apps/v1"),
    package("autoscaling", "io.k8s.api.autoscaling.v1", "v1", workloads::AUTOSCALING).serving("autoscaling/v1"),
    package("autoscalingv2", "io.k8s.api.autoscaling.v2", "v2", workloads::AUTOSCALINGV2).serving("autoscaling/v2"),
    package("batch", "io.k8s.api.batch.v1", "v1", workloads::BATCH).serving("batch/v1"),
    package("policy", "io.k8s.api.policy.v1", "v1", workloads::POLICY).serving("policy/v1"),
    package("scheduling", "io.k8s.api.scheduling.v1", "v1", workloads::SCHEDULING).serving("scheduling.k8s.io/v1"),
    package("authentication", "io.k8s.api.authentication.v1", "v1", access::AUTHENTICATION)
        .serving("authentication.k8s.io/v1"),
    package("authorization", "io.k8s.api.authorization.v1", "v1", access::AUTHORIZATION)
        .serving("authorization.k8s.io/v1"),
    package("certificates", "io.k8s.api.certificates.v1", "v1", access::CERTIFICATES).serving("certificates.k8s.io/v1"),
    package("flowcontrol", "io.k8s.api.flowcontrol.v1", "v1", access::FLOWCONTROL)
        .serving("flowcontrol.apiserver.k8s.io/v1"),
    package("admission", "io.k8s.api.admission.v1", "v1", admission::ADMISSION),
    package("rbac", "io.k8s.api.rbac.v1", "v1", access::RBAC).serving("rbac.authorization.k8s.io/v1"),
    package("admissionregistration", "io.k8s.api.admissionregistration.v1", "v1", extension::ADMISSIONREGISTRATION)
        .serving("admissionregistration.k8s.io/v1"),
    package(
        "apiextensions",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        "v1",
        extension::APIEXTENSIONS,
    )
    .serving("apiextensions.k8s.io/v1"),
    package("apiregistration", "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1", "v1", extension::APIREGISTRATION)
        .serving("apiregistration.k8s.io/v1"),
    package("coordination", "io.k8s.api.coordination.v1", "v1", infrastructure::COORDINATION)
        .serving("coordination.k8s.io/v1"),
    package("discovery", "io.k8s.api.discovery.v1", "v1", infrastructure::DISCOVERY).serving("discovery.k8s.io/v1"),
    package("events", "io.k8s.api.events.v1", "v1", infrastructure::EVENTS).serving("events.k8s.io/v1"),
    package("networking", "io.k8s.api.networking.v1", "v1", infrastructure::NETWORKING).serving("networking.k8s.io/v1"),
    package("node", "io.k8s.api.node.v1", "v1", infrastructure::NODE).serving("node.k8s.io/v1"),
    package("resource", "io.k8s.api.resource.v1", "v1", infrastructure::RESOURCE).serving("resource.k8s.io/v1"),
    package("storage", "io.k8s.api.storage.v1", "v1", infrastructure::STORAGE).serving("storage.k8s.io/v1"),
    // Versions that Kubernetes removed, with the types of the version that is stored (`registry/legacy.rs`).
    package("policyv1beta1", "io.k8s.api.policy.v1beta1", "v1beta1", workloads::POLICY)
        .replacing(legacy::POLICY)
        .serving("policy/v1beta1"),
    package("batchv1beta1", "io.k8s.api.batch.v1beta1", "v1beta1", workloads::BATCH).serving("batch/v1beta1"),
    package("autoscalingv2beta2", "io.k8s.api.autoscaling.v2beta2", "v2beta2", workloads::AUTOSCALINGV2)
        .replacing(legacy::AUTOSCALING)
        .serving("autoscaling/v2beta2"),
    package("networkingv1beta1", "io.k8s.api.networking.v1beta1", "v1beta1", infrastructure::NETWORKING)
        .replacing(legacy::NETWORKING)
        .serving("networking.k8s.io/v1beta1"),
    package("schedulingv1beta1", "io.k8s.api.scheduling.v1beta1", "v1beta1", workloads::SCHEDULING)
        .serving("scheduling.k8s.io/v1beta1"),
    package("rbacv1beta1", "io.k8s.api.rbac.v1beta1", "v1beta1", access::RBAC)
        .serving("rbac.authorization.k8s.io/v1beta1"),
    package(
        "admissionregistrationv1beta1",
        "io.k8s.api.admissionregistration.v1beta1",
        "v1beta1",
        extension::ADMISSIONREGISTRATION,
    )
    .serving("admissionregistration.k8s.io/v1beta1"),
    package(
        "apiextensionsv1beta1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1",
        "v1beta1",
        extension::APIEXTENSIONS,
    )
    .replacing(legacy::APIEXTENSIONS)
    .serving("apiextensions.k8s.io/v1beta1"),
    package(
        "apiregistrationv1beta1",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1beta1",
        "v1beta1",
        extension::APIREGISTRATION,
    )
    .serving("apiregistration.k8s.io/v1beta1"),
    package("coordinationv1beta1", "io.k8s.api.coordination.v1beta1", "v1beta1", infrastructure::COORDINATION)
        .serving("coordination.k8s.io/v1beta1"),
    package("eventsv1beta1", "io.k8s.api.events.v1beta1", "v1beta1", infrastructure::EVENTS)
        .serving("events.k8s.io/v1beta1"),
    package("nodev1beta1", "io.k8s.api.node.v1beta1", "v1beta1", infrastructure::NODE).serving("node.k8s.io/v1beta1"),
    package("storagev1beta1", "io.k8s.api.storage.v1beta1", "v1beta1", infrastructure::STORAGE)
        .serving("storage.k8s.io/v1beta1"),
];
