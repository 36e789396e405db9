//! The default one of several storage or ingress classes, as `plugin/pkg/admission/storage/storageclass/setdefault`,
//! `plugin/pkg/admission/network/defaultingressclass` and the controller of persistent volumes choose it. PURE.

use core::cmp::Reverse;

use crate::json::Value;
use crate::metadata;

/// The annotations of a storage class that makes it the default; the second one is from beta.
pub(crate) const STORAGE_CLASS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The annotation of an ingress class that makes it the default.
pub(in crate::registry) const INGRESS_CLASS: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];
/// A text that each default class holds.
pub(crate) const HELD: &str = "is-default-class";

/// Returns the name of the newest class with one of the annotations, of several the first by name.
pub(crate) fn newest<'c>(classes: &'c [Value], annotations: &[&str]) -> Option<&'c str> {
    let is_default = |class: &&Value| annotations.iter().any(|key| metadata::annotation(class, key) == Some("true"));
    let found = classes.iter().filter(is_default);
    let aged = found.map(|class| (Reverse(metadata::text(class, "creationTimestamp")), metadata::name(class)));
    aged.min().map(|(_, name)| name)
}
