//! Conformance suite for Kubernetes' disruption, podgc, taint-eviction and ttl controllers.
//!
//! A [`cluster`] is the environment of a run: the API server of [`plumbline_apiserver`] in this process and in virtual
//! time, or a real one. A [`subject`] is the program under test. A [`plumbline::fixture`] is one promise about the
//! subject: the initial objects, the steps, and the expectations.
//!
//! ```text
//! fixtures/*.yaml ─► fixture ─► plan ─► runner ──steps──► apiserver ◄──requests── subject
//!                                                            │ record
//!                                                        transcript ─► expect, invariants ─► report ─► terminal,
//!                                                            └───────► snapshot ─► snapshots/*.snap    JSON, JUnit
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`fixtures`], [`plan`] | the fixtures that the program carries; what runs, with the reason for each skip |
//! | [`cluster`] | the environments that fixtures run in |
//! | [`subject`], [`process`] | start, crash and stop the subject; clean up after the harness |
//! | [`runner`] | runs a fixture from seeding to verdict, several at a time |
//! | [`load`] | load of the machine: whether a run on the wall clock counts, and how many run in parallel |
//! | [`report`], [`snapshot`] | present the results |
//! | [`serve`] | clusters for clients in other processes, with a clock that they can move |
//! | [`html`] | a run as one HTML file with timelines |
//! | [`review`] | groups the changes of snapshots between two commits |
//! | [`explore`] | injects faults into the histories of fixtures and judges them by oracles |
//! | [`catalogue`] | maps fixtures to the rules of Kubernetes that they cover |
//! | [`conformance`] | conformance reports: writing, verifying, comparing, publishing |
//! | [`site`] | a website of published reports |
//! | [`guest`] | this program in virtual time, with all that it starts |
//! | [`cli`], [`exit`] | the program |
//!
//! Fixtures are read, and runs are judged, by modules of the test kit [`plumbline`] that have no stability: `fixture`,
//! `expect`, `invariants`, `transcript`.
//!
//! Invariants: the judge (the API server, the kit) shares no code with the controllers, which only
//! `subject/in_process.rs` imports; no order depends on a hash, a thread or a random number.

pub mod catalogue;
pub mod cli;
pub mod cluster;
pub mod conformance;
pub mod digest;
pub mod duration;
pub mod exit;
pub mod explore;
pub mod fixtures;
mod git;
pub mod guest;
pub mod html;
pub mod load;
pub mod plan;
pub(crate) mod plural;
pub mod process;
pub mod report;
pub mod review;
pub mod runner;
pub mod serve;
pub mod site;
pub mod snapshot;
pub(crate) mod strict;
pub mod subject;
pub(crate) mod url;
