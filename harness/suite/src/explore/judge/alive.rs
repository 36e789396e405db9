//! Oracle `alive`: the controllers neither panic nor end by themselves, and stop when asked. Pure.

use plumbline::explore::breach::Breach;

use crate::runner::{RunError, RunRecord};

/// Returns breaches by the way in which the run ended, or the reason why the run says nothing about the subject.
pub(super) fn ends(record: &RunRecord) -> (Vec<Breach>, Option<String>) {
    let mut breaches = Vec::new();
    let mut unfit = record.skip.clone();
    for error in &record.errors {
        let kind = match **error {
            RunError::Ended { .. } => "the controllers end by themselves",
            RunError::Panic(_) => "a panic",
            RunError::Stop(_) => "the controllers do not stop",
            _ => {
                unfit.get_or_insert_with(|| error.to_string());
                continue;
            }
        };
        breaches.push(Breach::of_ending(kind, record.end, error.to_string()));
    }
    (breaches, unfit)
}
