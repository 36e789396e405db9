//! Checks that have to hold all the time.

use super::transcript::TranscriptView;

/// Returns the reason if the transcript is not as it must be.
pub(super) type TranscriptCheck = Box<dyn Fn(&TranscriptView) -> Option<String>>;

/// A check of [`World::always`].
pub(super) struct AlwaysCheck {
    pub(super) name: String,
    pub(super) check: TranscriptCheck,
}
