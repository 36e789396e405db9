//! Durations in the format of Go's `time.ParseDuration`: `15s`, `1m30s`, `1.5h`, `300ms`. PURE.
//!
//! jiff's friendly format is another one: it accepts days and spelled-out units and prints `1m 30s`. The flags are
//! kube-controller-manager's, so they keep Go's format.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration in a flag or configuration file. Negative durations are rejected: no flag uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoDuration(pub Duration);

/// Errors of parsing a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a Go duration.
    #[error("{0:?} is not a duration such as 15s, 1m30s or 500ms")]
    Syntax(String),
    /// A number without unit: `15` instead of `15s`.
    #[error("missing unit in duration {0:?}: write {0}s for seconds")]
    NoUnit(String),
    /// Below zero.
    #[error("{0:?} is negative")]
    Negative(String),
    /// More than Go can represent, 292 years.
    #[error("{0:?} is too long")]
    TooLong(String),
}

const NANOS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let syntax = || DurationError::Syntax(text.to_owned());
        if let Some(positive) = text.strip_prefix('-') {
            return match Self::from_str(positive) {
                Ok(zero @ Self(Duration::ZERO)) => Ok(zero),
                Ok(_) => Err(DurationError::Negative(text.to_owned())),
                Err(_) => Err(syntax()),
            };
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self(Duration::ZERO));
        }
        if rest.is_empty() {
            return Err(syntax());
        }
        let mut nanos: u128 = 0;
        while !rest.is_empty() {
            let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
            let (value, after) = rest.split_at(number);
            let unit = after.len() - after.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.').len();
            let (unit, after) = after.split_at(unit);
            if unit.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(DurationError::NoUnit(text.to_owned()));
            }
            let (_, factor) = NANOS.iter().find(|(name, _)| *name == unit).ok_or_else(syntax)?;
            let part = scaled(value, *factor).ok_or_else(syntax)?;
            nanos = nanos.checked_add(part).ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
            rest = after;
        }
        let limit = u64::try_from(nanos).ok().filter(|nanos| i64::try_from(*nanos).is_ok());
        limit.map(|nanos| Self(Duration::from_nanos(nanos))).ok_or_else(|| DurationError::TooLong(text.to_owned()))
    }
}

/// Returns `value · factor` for a decimal number, truncated to nanoseconds; saturates far above the accepted maximum.
fn scaled(value: &str, factor: u128) -> Option<u128> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    // A number with too many digits saturates here and is rejected as too long later.
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_or(u64::MAX.into(), u128::from) };
    let mut part = 0;
    let mut scale = factor;
    for digit in fraction.bytes().take(20) {
        part += u128::from(digit - b'0') * scale / 10;
        scale /= 10;
        if scale == 0 {
            break;
        }
    }
    Some(whole.saturating_mul(factor).saturating_add(part))
}

/// Formats as Go does: `15s`, `1m30s`, `1h0m0s`, `1.5s`, `300ms`.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let fraction = |f: &mut fmt::Formatter<'_>, nanos: u128, unit: u128, name: &str| {
            let whole = nanos / unit;
            let part = nanos % unit;
            write!(f, "{whole}")?;
            if part > 0 {
                let width = unit.ilog10() as usize;
                let digits = format!("{part:0width$}");
                write!(f, ".{}", digits.trim_end_matches('0'))?;
            }
            f.write_str(name)
        };
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => fraction(f, nanos, 1_000, "µs"),
            1_000_000..1_000_000_000 => fraction(f, nanos, 1_000_000, "ms"),
            _ => {
                let minutes = nanos / 60_000_000_000;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                fraction(f, nanos % 60_000_000_000, 1_000_000_000, "s")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("15s", 15_000)]
    #[case("1m30s", 90_000)]
    #[case("1.5h", 5_400_000)]
    #[case("300ms", 300)]
    #[case("0", 0)]
    #[case("-0s", 0)]
    #[case("+2s", 2_000)]
    #[case(".5s", 500)]
    #[case("1.s", 1_000)]
    #[case("2h45m", 9_900_000)]
    fn reads_as_go(#[case] text: &str, #[case] millis: u64) {
        assert_eq!(text.parse(), Ok(GoDuration(Duration::from_millis(millis))));
    }

    #[rstest]
    #[case("", "\"\" is not a duration such as 15s, 1m30s or 500ms")]
    #[case("15", "missing unit in duration \"15\": write 15s for seconds")]
    #[case("-15s", "\"-15s\" is negative")]
    #[case("s", "\"s\" is not a duration such as 15s, 1m30s or 500ms")]
    #[case("1.2.3s", "\"1.2.3s\" is not a duration such as 15s, 1m30s or 500ms")]
    #[case("1d", "\"1d\" is not a duration such as 15s, 1m30s or 500ms")]
    #[case(".s", "\".s\" is not a duration such as 15s, 1m30s or 500ms")]
    #[case("3000000h", "\"3000000h\" is too long")]
    #[case("99999999999999999999999h", "\"99999999999999999999999h\" is too long")]
    fn refuses(#[case] text: &str, #[case] message: &str) {
        assert_eq!(text.parse::<GoDuration>().unwrap_err().to_string(), message);
    }

    #[rstest]
    #[case(15_000_000_000, "15s")]
    #[case(90_000_000_000, "1m30s")]
    #[case(3_600_000_000_000, "1h0m0s")]
    #[case(1_500_000_000, "1.5s")]
    #[case(300_000_000, "300ms")]
    #[case(1_500, "1.5µs")]
    #[case(1, "1ns")]
    #[case(0, "0s")]
    fn prints_as_go(#[case] nanos: u64, #[case] text: &str) {
        assert_eq!(GoDuration(Duration::from_nanos(nanos)).to_string(), text);
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(nanos in 0..=i64::MAX.cast_unsigned()) {
            let duration = GoDuration(Duration::from_nanos(nanos));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
