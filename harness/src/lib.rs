//! Conformance suite for Kubernetes' disruption, podgc, taint-eviction and ttl controllers.
//!
//! A [`cluster`] is the environment of a run: the API server of [`apiserver`] in this process and in virtual time, or a
//! real one. A [`subject`] is the program under test. A [`fixture`] is one promise about the subject: the initial
//! objects, the steps, and the expectations.
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
//! | [`time`] | the clock of a run, and `settle`, which returns when every task waits |
//! | [`fixture`], [`plan`] | read fixtures strictly; select what runs, with the reason for each skip |
//! | [`apiserver`], [`cluster`] | the API server, and the environments that fixtures run in |
//! | [`subject`], [`process`] | start, crash and stop the subject; clean up after the harness |
//! | [`runner`] | runs a fixture from seeding to verdict, several at a time |
//! | [`transcript`] | the server's record of a run, by controller, and its text form |
//! | [`expect`], [`invariants`] | judge a run from its transcript |
//! | [`faults`] | translates faults in the words of fixtures into rules of the server |
//! | [`world`] | the test kit: any controller in a test of yours, in virtual time |
//! | [`load`] | load of the machine: whether a run on the wall clock counts, and how many run in parallel |
//! | [`report`], [`snapshot`] | present the results |
//! | [`serve`] | clusters for clients in other processes, with a clock that they can move |
//! | [`html`] | a run as one HTML file with timelines, or as a trace |
//! | [`review`] | groups the changes of snapshots between two commits |
//! | [`capsule`] | one zip file for each failure, to run it again |
//! | [`explore`] | injects faults into the histories of fixtures and judges them by oracles |
//! | [`catalogue`] | maps fixtures to the rules of Kubernetes that they cover |
//! | [`conformance`] | conformance reports: writing, verifying, comparing, publishing |
//! | [`site`] | a website of published reports |
//! | [`upstream`] | Kubernetes' own end-to-end tests as judge of the API server |
//! | `bench`, `scale` | load tests of the API server and of controllers (feature `loadtest`) |
//! | [`cli`], [`exit`] | the program |
//!
//! Feature `suite`, on by default: everything but the test kit [`world`] and the modules that it needs ([`expect`],
//! [`faults`], [`fixture`], [`invariants`], [`time`], [`transcript`], [`apiserver`]).
//!
//! Invariants: the judge (`expect`, `invariants`, `apiserver`) shares no code with the controllers, which only
//! `subject/in_process.rs` imports; only `time` reads a clock or sleeps; no order depends on a hash, a thread or a
//! random number.

#[cfg(feature = "loadtest")]
pub mod bench;
#[cfg(feature = "suite")]
pub mod capsule;
#[cfg(feature = "suite")]
pub mod catalogue;
#[cfg(feature = "suite")]
pub mod cli;
#[cfg(feature = "suite")]
pub mod cluster;
#[cfg(feature = "suite")]
pub mod conformance;
#[cfg(feature = "suite")]
pub mod digest;
#[cfg(feature = "suite")]
pub mod exit;
pub mod expect;
pub mod explore;
pub mod faults;
pub mod fixture;
#[cfg(feature = "suite")]
pub mod html;
pub mod invariants;
#[cfg(feature = "suite")]
pub mod load;
pub(crate) mod object_meta;
#[cfg(feature = "suite")]
pub mod plan;
#[cfg(feature = "suite")]
pub mod process;
#[cfg(feature = "suite")]
pub mod report;
#[cfg(feature = "suite")]
pub mod review;
#[cfg(feature = "suite")]
pub mod runner;
#[cfg(feature = "loadtest")]
pub mod scale;
#[cfg(feature = "suite")]
pub mod serve;
#[cfg(feature = "suite")]
pub mod site;
#[cfg(feature = "suite")]
pub mod snapshot;
#[cfg(feature = "suite")]
pub mod subject;
pub mod time;
pub mod transcript;
#[cfg(feature = "suite")]
pub mod upstream;
#[cfg(feature = "suite")]
pub(crate) mod url;
pub mod world;

pub use plumbline_apiserver as apiserver;
pub use world::{Error, Result};

/// Compiles and runs the examples of the page about the test kit.
#[cfg(doctest)]
#[doc = include_str!("../KIT.md")]
struct KitDoctests;
