//! Times in jobs, for `pkg/controller/{job,cronjob}`.

use jiff::Timestamp;

use crate::json::Value;

/// Returns the earlier of two times.
pub(super) fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

/// Returns a time as `metav1.Time` shows it.
pub(super) fn time_of(object: &Value, pointer: &str) -> Option<Timestamp> {
    object.pointer(pointer)?.as_str()?.parse().ok()
}
