//! Fields that an endpoint never changes and that no writer owns through it: `GetResetFields` of upstream's strategies.
//! See `pkg/registry/GROUP/KIND/strategy.go`.

use std::sync::{Mutex, PoisonError};

use super::set::FieldSet;

/// Paths of fields.
pub(crate) type ResetFields = &'static [&'static [&'static str]];

/// Returns the set of these fields; each is built once.
pub(super) fn reset_set(reset: ResetFields) -> FieldSet {
    // Bounded: one entry for each list below.
    static SETS: Mutex<Vec<(ResetFields, FieldSet)>> = Mutex::new(Vec::new());
    let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, set)) = sets.iter().find(|(known, _)| *known == reset) {
        return set.clone();
    }
    let set = FieldSet::of_fields(reset);
    sets.push((reset, set.clone()));
    set
}

/// Returns the reset fields of a built-in type's endpoint; `subresource` is empty for the object itself.
/// For custom resources see [`CUSTOM_MAIN`] and [`CUSTOM_STATUS`].
pub(crate) fn reset_fields(schema: &str, subresource: &str) -> ResetFields {
    let name = schema.rsplit('.').next().unwrap_or_default();
    match (subresource, name) {
        ("", "CertificateSigningRequest") => &[&["spec"], &["status"]],
        ("", name) if HAS_STATUS.contains(&name) => &[&["status"]],
        ("status", "Pod") => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
        ("status", "Deployment") => &[&["spec"], &["metadata", "labels"]],
        ("status", "CertificateSigningRequest") => &[&["spec"], &["status", "conditions"]],
        ("status", name) if STATUS_KEEPS_METADATA.contains(&name) => &[&["metadata"], &["spec"]],
        ("status", name) if HAS_STATUS.contains(&name) => &[&["spec"]],
        ("finalize", "Namespace") => &[&["status"]],
        ("approval", "CertificateSigningRequest") => &[&["spec"], &["status", "certificate"]],
        _ => &[],
    }
}

/// Returns true if the status endpoint of a built-in type leaves labels, annotations, finalizers and owners as they
/// are.
pub(crate) fn status_keeps_metadata(schema: &str) -> bool {
    STATUS_KEEPS_METADATA.contains(&schema.rsplit('.').next().unwrap_or_default())
}

/// Reset fields of a custom resource's main endpoint.
pub(crate) const CUSTOM_MAIN: &[&[&str]] = &[&["status"]];

/// Reset fields of a custom resource's status endpoint.
pub(crate) const CUSTOM_STATUS: &[&[&str]] = &[&["metadata"], &["spec"]];

/// Kinds whose main endpoint does not change the status.
const HAS_STATUS: &[&str] = &[
    "APIService",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "FlowSchema",
    "HorizontalPodAutoscaler",
    "Ingress",
    "Job",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PriorityLevelConfiguration",
    "ReplicaSet",
    "ReplicationController",
    "ResourceClaim",
    "ResourceQuota",
    "Service",
    "ServiceCIDR",
    "StatefulSet",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];

/// Kinds whose status endpoint does not change the metadata.
const STATUS_KEEPS_METADATA: &[&str] = &[
    "APIService",
    "CustomResourceDefinition",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ResourceClaim",
    "ServiceCIDR",
    "ValidatingAdmissionPolicy",
    "VolumeAttachment",
];
