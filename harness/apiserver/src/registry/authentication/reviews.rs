//! `authentication.k8s.io/v1` reviews, which are not stored. See
//! `pkg/registry/authentication/rest/storage_authentication.go`.

use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::served_resource::CREATE_ONLY_VERBS;

/// The resource `selfsubjectreviews` of `authentication.k8s.io/v1`.
pub(in crate::registry) fn self_subject_review() -> ResourceBuilder {
    resource(
        "authentication.k8s.io",
        "v1",
        "selfsubjectreviews",
        "SelfSubjectReview",
        "io.k8s.api.authentication.v1.SelfSubjectReview",
    )
    .cluster()
    .verbs(CREATE_ONLY_VERBS)
}

/// The resource `tokenreviews` of `authentication.k8s.io/v1`.
pub(in crate::registry) fn token_review() -> ResourceBuilder {
    resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", "io.k8s.api.authentication.v1.TokenReview")
        .cluster()
        .verbs(CREATE_ONLY_VERBS)
}
