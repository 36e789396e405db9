//! The harness's one reading of what Kubernetes asks of the four controllers: numbers, limits, times and states, each
//! with its source. Pure.
//!
//! [`invariants`](crate::invariants) and the oracles of explorations judge by these functions and constants. They are
//! written from Kubernetes' sources and documentation and share no code with any controller.
//!
//! - [`budgets`]: numbers and conditions of disruption budgets, and how long claims and announcements last
//! - [`scales`]: the scales of the owners of pods
//! - [`taints`]: how long a pod may stay on a tainted node
//! - [`nodes`]: states of nodes, and the ranges of the TTL annotation
//! - [`quarantine`]: times and reasons of pod garbage collection
//! - [`pods`]: phases and conditions of pods
//! - [`queue`]: back-off and tokens of work queues
//! - [`recorder`]: limits and retries of Events
//! - [`selectors`]: label selectors that cannot be evaluated

pub mod budgets;
pub mod nodes;
pub mod pods;
pub mod quarantine;
pub mod queue;
pub mod recorder;
pub mod scales;
pub mod selectors;
pub mod taints;
