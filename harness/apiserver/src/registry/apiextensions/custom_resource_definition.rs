//! `apiextensions.k8s.io/v1` `CustomResourceDefinition`, whose strategy is in [`crate::crd`].

use crate::registry::builder::{ResourceBuilder, resource};

/// The resource `customresourcedefinitions` of `apiextensions.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    )
    .cluster()
    .short(&["crd", "crds"])
    .categories(&["api-extensions"])
    .status_without_metadata()
    .hash("jfWCUB31mvA=")
}
