//! Times in jobs, and the pause before another try, for `pkg/controller/{job,cronjob}`.

use std::time::Duration;

use jiff::Timestamp;

use crate::json::Value;

/// Pause before a sync whose write was refused is repeated.
pub(super) const RETRY: Duration = Duration::from_secs(10);

/// Returns the earlier of two times.
pub(super) fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

/// Returns a time as `metav1.Time` shows it.
pub(super) fn time_of(object: &Value, pointer: &str) -> Option<Timestamp> {
    object.pointer(pointer)?.as_str()?.parse().ok()
}
