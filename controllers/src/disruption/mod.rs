//! The disruption controller: maintains the status of every `PodDisruptionBudget`.
//!
//! # Guarantee
//! `status.disruptionsAllowed` is the number of disruptions that the eviction API may grant. It follows the pods, the
//! budget's spec and the scale of the pods' owners; if it cannot be computed, it is 0 (fail-safe).
//!
//! # Files
//! | file | contents |
//! | --- | --- |
//! | [`expected`] | PURE: expected and desired counts from the spec and the owners' scales |
//! | [`decide`] | PURE: the status from pods, counts and granted evictions, and when to look again |
//! | [`budget_index`] | PURE: the budgets of a pod |
//! | [`stale`] | PURE: stale `DisruptionTarget` conditions |
//! | `handlers` | SHELL: maps events to keys |
//! | `queues` | SHELL: the work queues |
//! | `scale` | SHELL: the owners of pods and their scales |
//! | [`controller`] | SHELL: the syncs; gather, decide, act |
//!
//! # Events and keys
//! | event | queued |
//! | --- | --- |
//! | budget added, changed, deleted | the budget |
//! | pod added, deleted | every budget whose selector matches it (D-110) |
//! | pod changed | every budget that matches its old or its new labels (D-109) |
//! | `spec.replicas` of a cached owner changed | every budget that matches one of its pods (D-108) |
//! | pod with a `DisruptionTarget` condition | the pod, for when the condition becomes stale |
//! | an entry in `disruptedPods` | the budget, for when the entry expires |
//!
//! # Where this is safer than kube-controller-manager 1.36
//! - Sums of scales saturate instead of overflowing, with a log line (D-104).
//! - Owners are watched; a scale change alone updates the budget (D-108). Owners that are only known through the scale
//!   subresource are not watched.
//! - A relabelled pod updates the budgets that matched its old labels (D-109).
//! - All budgets of a pod are updated. The Warning `MultiplePodDisruptionBudgets` stays; the budget that it names is
//!   the first by name, so the text is the same each time (D-110).
//! - A failed sync is retried with back-off after its fail-safe write, and the fail-safe status is not written again
//!   while nothing changes (D-111).

use jiff::SignedDuration;

pub mod budget_index;
pub mod controller;
pub mod decide;
pub mod expected;
mod handlers;
mod queues;
mod scale;
pub mod stale;

/// Time for which a granted eviction counts against the budget while its pod is not deleted.
///
/// Long compared to the latency between API server and controller, short enough that a crashed evictor does not block a
/// drain (BR-25-04).
pub const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Time for which a pod may have the condition `DisruptionTarget` without being deleted (BR-25-05).
pub const STALE_POD_DISRUPTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
