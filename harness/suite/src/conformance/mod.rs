//! Conformance reports: who was tested, on what, with which result, in a self-consistent document.
//!
//! ```text
//! implementation file ──────┐
//! profiles.yaml ────────────┼─► template (all fixtures `not-run`) ─► report writer ─► report.yaml, report.json
//! deviations/<project>.yaml ┘                                              └─► evidence/ for each failure
//! ```
//!
//! - [`implementation`]: the implementation's own description · [`profile`]: fixtures required for conformance ·
//!   [`deviations`]: known differences · [`idle`]: fixtures whose pass shows no work
//! - [`template`]: the report before the first fixture
//! - [`report`]: the model, with `outcomes`; everything derivable from the list of fixtures is derived in one place
//! - [`report_writer`]: fills the report while fixtures run; a killed run leaves `not-run`
//! - [`evidence`]: details of failed fixtures · [`archive`]: reads and packs them · [`manifest`]: ties them to the
//!   report
//! - [`publish`]: the folder of published reports · [`slim`]: a published report · [`causes`], [`summary`]: what it
//!   says about failures · [`history`]: the fixtures of former commits
//! - [`tested_program`]: checks whose program it was
//! - [`verify`]: finds later edits and inconsistencies · [`compare`]: compares two subjects
//!
//! Modelled on gateway-api's conformance report, with three differences: the list of fixtures is part of the report,
//! every count and verdict is derived from that list, and a skipped or flaky core fixture prevents conformance (except
//! fixtures that need virtual time, which wall-time subjects may skip).

pub mod archive;
pub mod causes;
pub mod compare;
pub mod deviations;
pub mod evidence;
pub mod history;
pub mod idle;
pub mod implementation;
pub mod manifest;
mod outcomes;
pub mod profile;
pub mod publish;
pub mod report;
pub mod report_writer;
pub mod slim;
pub mod summary;
pub mod template;
pub mod tested_program;
pub mod verify;

/// Failures while a conformance report is written.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The tested subject cannot be identified.
    #[error(transparent)]
    Subject(#[from] crate::subject::SubjectError),
    /// The cluster does not report its version.
    #[error(transparent)]
    Cluster(#[from] crate::cluster::ClusterError),
    /// A file or folder of the report cannot be written.
    #[error("{0}")]
    Unwritable(String),
    /// The evidence folder contains files that are not evidence.
    #[error("{0}")]
    ForeignFolder(String),
}

/// A document that is not a conformance report: the problem, with line and column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);
