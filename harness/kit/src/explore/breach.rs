//! Breaches of oracles. Pure.

use std::time::Duration;

use serde_json::{Value, json};

/// The oracle of the way in which a run ends.
pub const ALIVE: &str = "alive";
/// The oracle that compares the final objects with those of the run without faults.
pub const END_STATE: &str = "end state";
/// The oracle of writes by converged controllers.
pub const QUIET: &str = "quiet";
/// The oracle of writes by controllers that start on the final state.
pub const FRESH: &str = "fresh";

/// A breach of an oracle by a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The oracle.
    pub oracle: String,
    /// The resource of the object concerned; empty if it concerns none.
    pub resource: String,
    /// The kind of the breach; equal for breaches with the same cause.
    pub kind: String,
    /// Time of the breach, as an offset from the start.
    pub at: Duration,
    /// Description with the object and its values.
    pub text: String,
    /// The checks of a fixture that this breach fails. Invariants need none: they are always checked.
    pub expected: Value,
}

impl Breach {
    /// Creates a breach by the whole run.
    #[must_use]
    pub fn of_run(oracle: &str, kind: &str, at: Duration, text: String) -> Self {
        let oracle = oracle.to_owned();
        let kind = kind.to_owned();
        Self { oracle, resource: String::new(), kind, at, text, expected: json!({ "quiet": true }) }
    }

    /// Creates the breach of a run that ended in the wrong way.
    #[must_use]
    pub fn of_ending(kind: &str, at: Duration, text: String) -> Self {
        Self::of_run(ALIVE, kind, at, text)
    }

    /// Returns the text that is equal for breaches with the same cause.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let parts = [&self.oracle, &self.resource, &self.kind];
        parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join(" · ")
    }
}

/// Describes a write of converged controllers.
#[must_use]
pub fn converged_text(write: &str) -> String {
    format!("{write} after everything has converged")
}

/// Describes a write of controllers that start on the final state.
#[must_use]
pub fn restarted_text(write: &str) -> String {
    format!("{write}: controllers that start on the final state still change it")
}
