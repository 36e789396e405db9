//! Fields that an endpoint never changes, whatever the request says; nobody comes to own them through it.

/// Reset fields of a built-in type's endpoint; `subresource` is empty for the object itself.
/// For custom resources see [`CUSTOM_MAIN`] and [`CUSTOM_STATUS`].
pub fn reset_fields(schema: &str, subresource: &str) -> &'static [&'static [&'static str]] {
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

/// Reset fields of a custom resource's endpoint.
pub const CUSTOM_MAIN: &[&[&str]] = &[&["status"]];

/// Reset fields of a custom resource's status endpoint.
pub const CUSTOM_STATUS: &[&[&str]] = &[&["metadata"], &["spec"]];

/// Kinds whose main endpoint leaves the status alone.
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

/// Kinds whose status endpoint leaves the metadata alone, too.
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
