//! `intstr.IntOrString` and its scaling.

use serde::{Deserialize, Serialize};

use super::go;

/// An integer, or text that should be a percentage.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum IntOrPercent {
    /// A count.
    Int(i32),
    /// A percentage such as `30%`; anything else is refused when it is scaled.
    Text(String),
}

/// Which way a fraction of a pod goes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Rounding {
    /// To the next whole pod: what Kubernetes does.
    #[default]
    Up,
    /// To the whole pod below: what design document 25 says of `maxUnavailable`.
    Down,
}

/// Text that is no percentage; `Display` is upstream's message.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ScaleError {
    /// No trailing `%`.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    /// The part before the `%` is no integer.
    #[error("invalid value for IntOrString: invalid value {}: {cause}", go::quote(.text))]
    NotANumber {
        /// The whole text.
        text: String,
        /// What Go says of the number.
        cause: go::AtoiError,
    },
}

impl IntOrPercent {
    /// The count itself, or the percentage of `total` rounded as asked.
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
