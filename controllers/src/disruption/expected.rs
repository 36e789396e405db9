//! Computes how many pods a budget expects, and how many of them must be healthy. PURE.

use crate::api::int_or_percent::{IntOrPercent, Rounding, ScaleError};
use crate::api::pdb::PdbSpec;

/// Pod counts derived from a budget's spec and the scales of its pods' owners.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ExpectedCounts {
    /// `status.expectedPods`
    pub expected_pods: i32,
    /// `status.desiredHealthy`
    pub desired_healthy: i32,
    /// `true` if the sum of the owners' scales exceeds 32 bits, so that `expected_pods` is the maximum instead (D-104).
    pub saturated: bool,
}

/// Returns true if the counts depend on the owners' scales rather than on the number of pods alone.
///
/// An integer `minAvailable` never requires an owner lookup (D-003, D-118).
pub fn needs_scales(spec: &PdbSpec) -> bool {
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrPercent::Text(_)))
}

/// Computes both counts (BR-25-01, BR-25-02).
///
/// `pods` is the number of selected pods, `scales` the desired replicas of their distinct owners. `rounding` applies to
/// a percentage in `maxUnavailable`; one in `minAvailable` is always rounded up.
/// A budget with neither field expects no pods and therefore allows no disruption (D-100).
/// A negative `minAvailable` stays negative: the server then rejects the status and the fail-safe allows no disruption
/// (D-102). Treating it as 0 would allow everything.
///
/// # Errors
/// [`ScaleError`] for a string that is not a percentage.
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

/// Returns the sum of `scales`, and true if it had to be clamped.
fn total(scales: impl IntoIterator<Item = i32>) -> (i32, bool) {
    let sum = scales.into_iter().fold(0_i64, |sum, scale| sum.saturating_add(i64::from(scale)));
    i32::try_from(sum.max(0)).map_or((i32::MAX, true), |sum| (sum, false))
}

/// Clamps a count to `0..=i32::MAX` (D-102).
fn clamp(count: i64) -> i32 {
    i32::try_from(count.max(0)).unwrap_or(i32::MAX)
}
