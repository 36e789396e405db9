//! The messages between this program and its processes that run fixtures: one line of JSON each.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::JudgedRun;

/// A message to a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum GuestOrder {
    /// Starts the subject once in an empty cluster.
    Check,
    /// Runs a fixture.
    Run(Box<FixtureSource>),
}

/// A fixture as its file has it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FixtureSource {
    /// The id, with the row of a matrix.
    pub(super) id: String,
    /// The path of the file, for reports.
    pub(super) file: PathBuf,
    /// The content of the file.
    pub(super) text: String,
    /// True if the result is to have the raw record, which pages draw.
    pub(super) keeps_record: bool,
}

/// The reply to an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum GuestReply {
    /// The subject starts; user agents of its clients that name none of its controllers.
    Starts(BTreeSet<String>),
    /// The subject does not start, for this reason.
    DoesNotStart(String),
    /// The result of a fixture.
    Ran(Box<JudgedRun>),
    /// The order cannot be carried out, for this reason.
    Failed(String),
}
