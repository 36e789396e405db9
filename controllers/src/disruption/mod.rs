//! The disruption controller: keeps the status of every `PodDisruptionBudget` true.
//!
//! # Promise
//! `status.disruptionsAllowed` is what the eviction API may grant. It follows the pods, the budget's
//! spec and the scale of the pods' owners; when it cannot be computed it is 0 (fail safe).
//!
//! # Map
//! | file | holds |
//! | --- | --- |
//! | [`expected`] | PURE: spec and owners' scales to expected and desired counts |
//! | [`decide`] | PURE: pods, counts and claims to a status, and when to look again |
//! | [`budget_index`] | PURE: the budgets of a pod |
//! | [`stale`] | PURE: which `DisruptionTarget` conditions have outlived their disruption |
//! | `handlers` | SHELL: events to keys |
//! | `queues` | SHELL: the work queues |
//! | `scale` | SHELL: the owners of pods and their scales |
//! | [`controller`] | SHELL: the queues; gather, decide, act |
//!
//! # Events to keys
//! | seen | queued |
//! | --- | --- |
//! | budget added, changed, deleted | the budget |
//! | pod added, deleted | every budget whose selector matches it (D-110) |
//! | pod changed | every budget that matches its old or its new labels (D-109) |
//! | `spec.replicas` of a cached owner changed | every budget that matches one of its pods (D-108) |
//! | pod with a `DisruptionTarget` condition | the pod, for when the condition becomes stale |
//! | a claim in `disruptedPods` | the budget, for when the claim runs out |
//!
//! # Where this is safer than kube-controller-manager 1.36
//! - Sums of scales saturate instead of wrapping, and say so in the log (D-104).
//! - Owners are watched; a scale change alone updates the budget (D-108). Owners that are only known
//!   through the scale subresource are not watched.
//! - A relabelled pod updates the budget it left (D-109).
//! - All budgets of a pod are updated. The Warning `MultiplePodDisruptionBudgets` stays; the budget it
//!   says was chosen is the first by name, so the text is the same each time (D-110).
//! - A failed sync is retried with back-off after its fail-safe write, and the fail-safe status is not
//!   written a second time when nothing changes (D-111).

use jiff::SignedDuration;

pub mod budget_index;
pub mod controller;
pub mod decide;
pub mod expected;
mod handlers;
mod queues;
mod scale;
pub mod stale;

/// How long a granted eviction counts against the budget before the pod's deletion is seen.
///
/// Long against the latency between API server and controller, short enough that a crashed evictor
/// does not block a drain (BR-25-04).
pub const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// How long a pod may announce its disruption without being deleted (BR-25-05).
pub const STALE_POD_DISRUPTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
