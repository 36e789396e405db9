//! Who was tested, on what, with which result, in a document that cannot disagree with itself.
//!
//! ```text
//! claim (--implementation) ─┐
//! profiles.yaml ────────────┼─► report, every fixture `not-run` ─► record: outcomes as they come ─► report.yaml, report.json
//! deviations/<project>.yaml ┘                                          └─► evidence/ for each failure
//! ```
//!
//! - [`claim`]: who says to be conformant · [`profile`]: which fixtures that takes · [`deviations`]: what is known to differ
//! - [`begin`]: the report before the first fixture
//! - [`report`]: the model; whatever can be derived from the list of fixtures is derived in one place · [`digest`]
//! - [`record`]: fills it while fixtures run; a run that is killed leaves `not-run` · [`evidence`]: what fixtures leave behind ·
//!   [`manifest`]: which evidence belongs to the report
//! - [`verify`]: finds what somebody changed afterwards · [`compare`]: two subjects side by side
//!
//! Modelled on gateway-api's conformance report, with three differences: the list of fixtures is part of it, every count and
//! verdict is derived from that list, and a skipped or flaky core fixture never makes conformant: what only virtual time can show
//! is not asked of those whose time is real, that is all.

pub mod begin;
pub mod claim;
pub mod compare;
pub mod deviations;
pub mod digest;
pub mod evidence;
pub mod manifest;
pub mod profile;
pub mod record;
pub mod report;
pub mod verify;
