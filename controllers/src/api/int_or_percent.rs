//! `intstr.IntOrString` and its scaling.

use serde::{Deserialize, Serialize};

use super::go;

/// An integer, or a string that should be a percentage.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum IntOrPercent {
    /// A count.
    Int(i32),
    /// A percentage such as `30%`. Any other string is an error when scaled.
    Text(String),
}

/// Rounding of a fraction of a pod.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Rounding {
    /// Up to the next whole pod, as Kubernetes does.
    #[default]
    Up,
    /// Down to a whole pod, as design document 25 requires for `maxUnavailable`.
    Down,
}

/// A string that is not a percentage; `Display` is upstream's message.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ScaleError {
    /// No trailing `%`.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    /// The part before the `%` is not an integer.
    #[error("invalid value for IntOrString: invalid value {}: {cause}", go::quote(.text))]
    NotANumber {
        /// The whole string.
        text: String,
        /// Go's error for the number.
        cause: go::AtoiError,
    },
}

impl IntOrPercent {
    /// Returns the count itself, or the percentage of `total`, rounded by `rounding`.
    ///
    /// The product is exact; a result beyond 64 bits saturates.
    pub fn scaled(&self, total: i64, rounding: Rounding) -> Result<i64, ScaleError> {
        let text = match self {
            Self::Int(count) => return Ok(i64::from(*count)),
            Self::Text(text) => text,
        };
        let number = text.strip_suffix('%').ok_or(ScaleError::NotAPercentage)?;
        let percent = go::atoi(number).map_err(|cause| ScaleError::NotANumber { text: text.clone(), cause })?;
        let product = i128::from(percent) * i128::from(total);
        let whole = match rounding {
            Rounding::Up => -(-product).div_euclid(100),
            Rounding::Down => product.div_euclid(100),
        };
        Ok(i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX }))
    }
}
