//! Plumbline: integration harness and conformance suite for Kubernetes' disruption-class controllers.
//!
//! Three nouns. A [`cluster`] is where things run: here the API server of [`apiserver`], in this process, in virtual time.
//! A [`subject`] is what is tested: the controllers, seen from outside. A [`fixture`] is one promise of theirs, with the world it
//! starts from, the steps, and what must be seen.
//!
//! ```text
//! fixtures/*.yaml ─► fixture ─► plan ─► runner ──steps──► apiserver ◄──requests── subject
//!                                                            │ writes
//!                                                        transcript ─► expect, invariants ─► report ─► terminal, JSON, JUnit
//!                                                            └───────► snapshot ─► snapshots/*.snap
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`time`] | one clock; `settle`: the exact moment at which every task waits |
//! | [`fixture`], [`plan`] | reads fixtures strictly; decides what runs and says why the rest does not |
//! | [`apiserver`], [`cluster`] | the fake Kubernetes API, and the place that fixtures see |
//! | [`subject`], [`process`] | launches, crashes and stops what is tested; no process outlives the harness |
//! | [`runner`] | one fixture from seed to end; many side by side |
//! | [`transcript`] | the server's record of everything, and its form for people |
//! | [`expect`], [`invariants`] | judge a run, afterwards and purely from the transcript |
//! | [`report`], [`snapshot`] | tell about it |
//! | [`catalogue`] | which fixture shows which rule of Kubernetes, and what is missing |
//! | [`conformance`] | who was tested against what, in a document that cannot disagree with itself |
//! | [`bench`] | how fast and how small the API server is |
//! | [`scale`] | how fast and how small controllers are in a large cluster |
//! | [`cli`], [`exit`] | the program |
//!
//! Absences that matter: the judge (`expect`, `invariants`, `apiserver`) shares no code with the judged, only
//! `subject/in_process.rs` knows the controllers' crate; nothing but `time` reads a clock or sleeps; no order depends on a
//! hash, a thread or a random number.

#[cfg(feature = "loadtest")]
pub mod bench;
pub mod catalogue;
pub mod cli;
pub mod cluster;
pub mod conformance;
pub mod digest;
pub mod exit;
pub mod expect;
pub mod fixture;
pub mod invariants;
pub mod plan;
pub mod process;
pub mod report;
pub mod runner;
#[cfg(feature = "loadtest")]
pub mod scale;
pub mod snapshot;
pub mod subject;
pub mod time;
pub mod transcript;
pub(crate) mod url;

pub use plumbline_apiserver as apiserver;
