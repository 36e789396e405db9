//! Makes breaches of changes and of writes. Pure.

use std::time::Duration;

use plumbline::explore::breach::Breach;
use plumbline::transcript::Change;
use serde_json::json;

use crate::explore::run::observation::SubjectWrite;

/// Returns the breach of an oracle by a change.
pub(super) fn of_change(oracle: &str, change: &Change, kind: String, at: Duration, text: String) -> Breach {
    let oracle = oracle.to_owned();
    let resource = change.resource.clone();
    Breach { oracle, resource, kind, at, text, expected: json!({ "quiet": true }) }
}

/// Returns the breach of an oracle by a write of the subject.
pub(super) fn of_write(oracle: &str, write: &SubjectWrite, text: String) -> Breach {
    let kind = format!("{} {}", write.key.actor, write.key.verb);
    let oracle = oracle.to_owned();
    let resource = write.key.resource.clone();
    Breach { oracle, resource, kind, at: write.at, text, expected: json!({ "quiet": true }) }
}
