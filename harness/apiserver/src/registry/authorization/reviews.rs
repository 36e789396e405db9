//! `authorization.k8s.io/v1` reviews, which are not stored. See
//! `pkg/registry/authorization/rest/storage_authorization.go`.

use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::served_resource::CREATE_ONLY_VERBS;

/// The resource `localsubjectaccessreviews` of `authorization.k8s.io/v1`.
pub(in crate::registry) fn local_subject_access_review() -> ResourceBuilder {
    resource(
        "authorization.k8s.io",
        "v1",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    )
    .verbs(CREATE_ONLY_VERBS)
}

/// The resource `selfsubjectaccessreviews` of `authorization.k8s.io/v1`.
pub(in crate::registry) fn self_subject_access_review() -> ResourceBuilder {
    resource(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    )
    .cluster()
    .verbs(CREATE_ONLY_VERBS)
}

/// The resource `selfsubjectrulesreviews` of `authorization.k8s.io/v1`.
pub(in crate::registry) fn self_subject_rules_review() -> ResourceBuilder {
    resource(
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    )
    .cluster()
    .verbs(CREATE_ONLY_VERBS)
}

/// The resource `subjectaccessreviews` of `authorization.k8s.io/v1`.
pub(in crate::registry) fn subject_access_review() -> ResourceBuilder {
    resource(
        "authorization.k8s.io",
        "v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
        "io.k8s.api.authorization.v1.SubjectAccessReview",
    )
    .cluster()
    .verbs(CREATE_ONLY_VERBS)
}
