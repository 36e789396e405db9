//! How many pods a budget counts on, and how many of them must be healthy. PURE.

use crate::api::int_or_percent::{IntOrPercent, Rounding, ScaleError};
use crate::api::pdb::PdbSpec;

/// What a budget's spec and the scale of its pods' owners come to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ExpectedCounts {
    /// `status.expectedPods`
    pub expected_pods: i32,
    /// `status.desiredHealthy`
    pub desired_healthy: i32,
    /// Whether the owners' scales add up to more than 32 bits hold, so that `expected_pods` is the
    /// largest number there is instead of the sum (D-104).
    pub saturated: bool,
}

/// Whether the owners' scales decide, rather than the number of pods alone.
///
/// An integer `minAvailable` never looks an owner up (D-003, D-118).
pub fn needs_scales(spec: &PdbSpec) -> bool {
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrPercent::Text(_)))
}

/// Computes both counts (BR-25-01, BR-25-02).
///
/// `pods` is the number of selected pods, `scales` the wanted replicas of their distinct owners,
/// `rounding` goes for a percentage in `maxUnavailable`; one in `minAvailable` always goes up.
/// A budget with neither field expects nothing and so allows nothing (D-100).
/// A negative `minAvailable` stays negative: the server then refuses the status and the fail-safe allows
/// nothing (D-102). Counting it as 0 would allow everything.
///
/// # Errors
/// A text that is no percentage.
pub fn expected_counts(
    spec: &PdbSpec,
    pods: usize,
    scales: impl IntoIterator<Item = i32>,
    rounding: Rounding,
) -> Result<ExpectedCounts, ScaleError> {
    if let Some(max_unavailable) = &spec.max_unavailable {
        let (expected_pods, saturated) = total(scales);
        let away = max_unavailable.scaled(i64::from(expected_pods), rounding)?;
        let desired_healthy = clamp(i64::from(expected_pods).saturating_sub(away));
        return Ok(ExpectedCounts { expected_pods, desired_healthy, saturated });
    }
    match &spec.min_available {
        None => Ok(ExpectedCounts::default()),
        Some(IntOrPercent::Int(count)) => Ok(ExpectedCounts {
            expected_pods: i32::try_from(pods).unwrap_or(i32::MAX),
            desired_healthy: *count,
            saturated: false,
        }),
        Some(percentage) => {
            let (expected_pods, saturated) = total(scales);
            let wanted = percentage.scaled(i64::from(expected_pods), Rounding::Up)?;
            let desired_healthy = i32::try_from(wanted).unwrap_or(i32::MAX);
            Ok(ExpectedCounts { expected_pods, desired_healthy, saturated })
        }
    }
}

/// The sum of `scales`, and whether it had to be cut to fit.
fn total(scales: impl IntoIterator<Item = i32>) -> (i32, bool) {
    let sum = scales.into_iter().fold(0_i64, |sum, scale| sum.saturating_add(i64::from(scale)));
    i32::try_from(sum.max(0)).map_or((i32::MAX, true), |sum| (sum, false))
}

/// A count: never negative (D-102), never beyond 32 bits.
fn clamp(count: i64) -> i32 {
    i32::try_from(count.max(0)).unwrap_or(i32::MAX)
}
