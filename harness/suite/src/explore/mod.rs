//! Explores: injects faults that no fixture names into the histories of fixtures, and judges each run by oracles that
//! need no expectations.
//!
//! ```text
//! fixture ─► reference run ─► points ─┬─► plans ─► runs ─► oracles ─► findings ─► shrunk plan, fixture
//!                  │                  │                       ▲
//!                  └── end state, writes, replies ────────────┘
//! ```
//!
//! | room | has |
//! |---|---|
//! | [`plumbline::explore`] | kinds of fault, points, plans, states and findings, which the test kit uses, too |
//! | [`plumbline::rules`] | what Kubernetes asks of the controllers |
//! | [`histories`] | the histories to disturb: fixtures, their beginnings, and random ones |
//! | [`run`] | a run of a history with faults, its facts, and the states that the subject could know |
//! | [`judge`] | the oracles |
//! | [`search`] | which plans are tried, in which order |
//! | [`findings`] | shrinking, and the report |
//! | [`programs`] | the same for any program, judged by oracles that do not know what it is for |
//!
//! A room imports only from those above it.

pub mod findings;
pub mod histories;
pub mod judge;
pub mod programs;
pub mod run;
pub mod search;
