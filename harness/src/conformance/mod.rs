//! Conformance reports: who was tested, on what, with which result, in a self-consistent document.
//!
//! ```text
//! implementation file ──────┐
//! profiles.yaml ────────────┼─► template (all fixtures `not-run`) ─► report writer ─► report.yaml, report.json
//! deviations/<project>.yaml ┘                                              └─► evidence/ for each failure
//! ```
//!
//! - [`implementation`]: the implementation's own description · [`profile`]: fixtures required for conformance ·
//!   [`deviations`]: known differences
//! - [`template`]: the report before the first fixture
//! - [`report`]: the model; everything derivable from the list of fixtures is derived in one place
//! - [`report_writer`]: fills the report while fixtures run; a killed run leaves `not-run` · [`evidence`]: details of
//!   failed fixtures · [`manifest`]: ties the evidence to the report
//! - [`verify`]: finds later edits and inconsistencies · [`compare`]: compares two subjects
//!
//! Modelled on gateway-api's conformance report, with three differences: the list of fixtures is part of the report,
//! every count and verdict is derived from that list, and a skipped or flaky core fixture prevents conformance (except
//! fixtures that need virtual time, which wall-time subjects may skip).

pub mod compare;
pub mod deviations;
pub mod evidence;
pub mod implementation;
pub mod manifest;
pub mod profile;
pub mod report;
pub mod report_writer;
pub mod template;
pub mod verify;
