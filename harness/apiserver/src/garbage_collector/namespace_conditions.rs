//! The conditions of a namespace that ends: what could not be deleted, and what is left.
//! See `pkg/controller/namespace/deletion/status_condition_utils.go`. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::json::Value;
use crate::metadata;
use crate::pod_fields::has_ended;
use crate::registry::time::rfc3339;
use crate::registry::{Resource, conditions};
use crate::store::StoredObject;

/// The content of a namespace after a round of deletions.
#[derive(Debug, Default)]
pub(super) struct RemainingContent {
    /// The groups and versions of APIs that do not answer, so that their objects are not known.
    pub(super) undiscovered: Vec<String>,
    /// The errors of the round. The objects whose deletion failed are not counted.
    pub(super) errors: Vec<String>,
    /// The time by which the pods end by themselves, if it is yet to come.
    pub(super) pods_until: Option<Timestamp>,
    /// Number of objects, by `resource.group`.
    objects: BTreeMap<String, usize>,
    /// Number of objects by finalizer.
    finalizers: BTreeMap<String, usize>,
}

impl RemainingContent {
    /// Creates the content of a namespace before a round. `undiscovered` are the APIs that do not answer.
    pub(super) fn new(undiscovered: Vec<String>) -> Self {
        Self { undiscovered, ..Self::default() }
    }

    /// Adds the objects of a resource that are left.
    pub(super) fn add(&mut self, kind: &Resource, left: &[Arc<StoredObject>]) {
        *self.objects.entry(format!("{}.{}", kind.plural, kind.group)).or_default() += left.len();
        for stored in left.iter().filter(|stored| stored.has_finalizers()) {
            for finalizer in metadata::finalizers(&stored.value()) {
                *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }

    /// Returns true if nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.errors.is_empty()
    }
}

/// Returns true for the kind of pods.
pub(super) fn is_pod(kind: &Resource) -> bool {
    kind.group.is_empty() && kind.plural == "pods"
}

/// Returns the longest grace period of the pods that have not ended; zero for other kinds.
pub(super) fn longest_grace_period(kind: &Resource, objects: &[Arc<StoredObject>]) -> SignedDuration {
    if !is_pod(kind) {
        return SignedDuration::ZERO;
    }
    let seconds = objects.iter().filter_map(|pod| {
        let pod = pod.value();
        pod["spec"]["terminationGracePeriodSeconds"].as_i64().filter(|_| !has_ended(&pod))
    });
    SignedDuration::from_secs(seconds.max().unwrap_or(0).max(0))
}

/// The types of the conditions, each with the reason and the message of success.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// Returns the namespace with the conditions of its content, or `None` if they are as before. `counted` is false while
/// only pods are deleted.
pub(super) fn update(mut namespace: Value, content: &RemainingContent, counted: bool, now: Timestamp) -> Option<Value> {
    let now = rfc3339(now);
    let before = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut after = before.clone();
    for (kind, reason, message) in CONDITIONS {
        match problem(kind, content, counted) {
            Some((reason, message)) => conditions::set(&mut after, kind, "True", reason, &message, &now),
            None => conditions::set(&mut after, kind, "False", reason, message, &now),
        }
    }
    (after != before).then(|| {
        namespace["status"]["conditions"] = after.into();
        namespace
    })
}

/// Returns the reason and message of a condition that is true.
fn problem(kind: &str, content: &RemainingContent, counted: bool) -> Option<(&'static str, String)> {
    let texts = |counts: &BTreeMap<String, usize>, text: &str| {
        counts
            .iter()
            .map(|(name, count)| format!("{name} {text} {count} resource instances"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match kind {
        "NamespaceDeletionDiscoveryFailure" if !content.undiscovered.is_empty() => {
            let mut failures: Vec<String> =
                content.undiscovered.iter().map(|of| format!("{of}: stale GroupVersion discovery: {of}")).collect();
            failures.sort();
            let text = format!(
                "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
                failures.len(),
                failures.join(", ")
            );
            Some(("DiscoveryFailed", text))
        }
        "NamespaceDeletionContentFailure" if !content.errors.is_empty() => {
            let mut errors = content.errors.clone();
            errors.sort();
            let count = errors.len();
            let text = format!("Failed to delete all resource types, {count} remaining: {}", errors.join(", "));
            Some(("ContentDeletionFailed", text))
        }
        "NamespaceContentRemaining" if counted && !content.objects.is_empty() => {
            let text = format!("Some resources are remaining: {}", texts(&content.objects, "has"));
            Some(("SomeResourcesRemain", text))
        }
        "NamespaceFinalizersRemaining" if counted && !content.finalizers.is_empty() => {
            let left = texts(&content.finalizers, "in");
            Some(("SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {left}")))
        }
        _ => None,
    }
}
