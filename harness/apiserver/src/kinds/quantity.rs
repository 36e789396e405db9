//! Resource quantities: parsed exactly, printed in canonical form (`0.5` → `500m`, `1024Mi` → `1Gi`).
//!
//! See `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go`.

use std::fmt;

use crate::json::Value;

/// Number of nanos in 1; a nano is upstream's finest precision.
const NANO: i128 = 1_000_000_000;

/// Maximum magnitude in nanos; larger quantities are capped, as upstream does.
const MAX: i128 = i64::MAX as i128 * NANO;

/// The suffix family in which a quantity was written and is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `m`, `k`, `M` …
    DecimalSi,
    /// `Ki`, `Mi` …
    BinarySi,
    /// `e3`, `e6` …
    DecimalExponent,
}

/// A number with a suffix family.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.nano.partial_cmp(&other.nano)
    }
}

impl Quantity {
    /// Parses a quantity; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty() || fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let (base, exponent, format) = suffix_of(suffix)?;
        let nano = scaled(whole, fraction, base, exponent).min(MAX);
        Some(Self { nano: if negative { -nano } else { nano }, format })
    }

    /// Rounds away from zero to thousandths, as in resource lists.
    #[must_use]
    pub fn rounded_to_milli(self) -> Self {
        const MICRO: i128 = 1_000_000;
        let rest = self.nano % MICRO;
        let nano = match rest {
            0 => self.nano,
            r if r > 0 => self.nano - r + MICRO,
            r => self.nano - r - MICRO,
        };
        Self { nano, ..self }
    }

    /// Returns -1, 0 or 1 for a negative, zero or positive quantity.
    pub fn sign(self) -> i128 {
        self.nano.signum()
    }

    /// Returns true for an integer.
    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// Returns true for a positive integer multiple of `part`.
    pub fn is_multiple_of(self, part: Self) -> bool {
        self.nano > 0 && part.nano > 0 && self.nano % part.nano == 0
    }

    /// Returns the value rounded up to an integer.
    pub fn ceil(self) -> i128 {
        self.nano.div_euclid(NANO) + i128::from(self.nano.rem_euclid(NANO) != 0)
    }

    /// Returns the sum in the format of `self`, or of `other` if `self` is zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.nano == 0 { other.format } else { self.format };
        Self { nano: self.nano.saturating_add(other.nano), format }
    }

    /// Returns the difference in the format of `self`.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { nano: self.nano.saturating_sub(other.nano), ..self }
    }

    /// Rounds up to an integer.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        Self { nano: self.ceil().saturating_mul(NANO), ..self }
    }

    /// Returns the nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// Parses the quantity in a JSON value; `None` if it is malformed.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Self { nano: i128::from(number) * NANO, format: Format::DecimalSi }
    }
}

/// Returns base, exponent and family of a suffix.
fn suffix_of(suffix: &str) -> Option<(i128, i32, Format)> {
    let found = match suffix {
        "" => (10, 0, Format::DecimalSi),
        "n" => (10, -9, Format::DecimalSi),
        "u" => (10, -6, Format::DecimalSi),
        "m" => (10, -3, Format::DecimalSi),
        "k" => (10, 3, Format::DecimalSi),
        "M" => (10, 6, Format::DecimalSi),
        "G" => (10, 9, Format::DecimalSi),
        "T" => (10, 12, Format::DecimalSi),
        "P" => (10, 15, Format::DecimalSi),
        "E" => (10, 18, Format::DecimalSi),
        "Ki" => (2, 10, Format::BinarySi),
        "Mi" => (2, 20, Format::BinarySi),
        "Gi" => (2, 30, Format::BinarySi),
        "Ti" => (2, 40, Format::BinarySi),
        "Pi" => (2, 50, Format::BinarySi),
        "Ei" => (2, 60, Format::BinarySi),
        _ => {
            let digits = suffix.strip_prefix(['e', 'E'])?;
            (10, digits.parse().ok()?, Format::DecimalExponent)
        }
    };
    Some(found)
}

/// Returns `whole.fraction × base^exponent` in nanos, rounded up, saturating.
fn scaled(whole: &str, fraction: &str, base: i128, exponent: i32) -> i128 {
    let fraction = fraction.trim_end_matches('0');
    let whole = whole.trim_start_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return 0;
    }
    // Digits beyond the precision of 128 bits matter only for rounding up.
    let kept: String = whole.chars().chain(fraction.chars()).take(30).collect();
    let dropped = whole.len() + fraction.len() - kept.len();
    let lost = whole.chars().chain(fraction.chars()).skip(30).any(|c| c != '0');
    let Ok(mantissa) = kept.parse::<i128>() else { return MAX };
    let mut ten = 9_i64 + i64::try_from(dropped).unwrap_or(i64::MAX / 4) - i64::try_from(fraction.len()).unwrap_or(0);
    let mut value = mantissa;
    if base == 10 {
        ten = ten.saturating_add(i64::from(exponent));
    } else {
        value = value.checked_mul(1_i128 << exponent.clamp(0, 60)).unwrap_or(i128::MAX);
    }
    if ten >= 0 {
        for _ in 0..ten {
            value = value.saturating_mul(10);
            if value > MAX {
                return MAX;
            }
        }
        return value + i128::from(lost);
    }
    let mut inexact = lost;
    for _ in 0..-ten {
        inexact |= value % 10 != 0;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    value + i128::from(inexact || value == 0 && mantissa != 0)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        let small = self.nano.abs() < 1024 * NANO;
        if self.format == Format::BinarySi && !small && self.is_whole() {
            let mut value = self.nano / NANO;
            let mut step = 0;
            while value % 1024 == 0 && step < 6 {
                value /= 1024;
                step += 1;
            }
            return write!(f, "{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step]);
        }
        let mut value = self.nano;
        let mut step = 0;
        while value % 1000 == 0 && step < 9 {
            value /= 1000;
            step += 1;
        }
        if self.format == Format::DecimalExponent {
            let exponent = (i32::try_from(step).unwrap_or(0) - 3) * 3;
            return if exponent == 0 { write!(f, "{value}") } else { write!(f, "{value}e{exponent}") };
        }
        write!(f, "{value}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][step])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1", "1")]
    #[case("0.5", "500m")]
    #[case("1000m", "1")]
    #[case("1500m", "1500m")]
    #[case("1024Mi", "1Gi")]
    #[case("100Mi", "100Mi")]
    #[case("1.5Gi", "1536Mi")]
    #[case("0.5Ki", "512")]
    #[case("1000", "1k")]
    #[case("110", "110")]
    #[case("1e3", "1e3")]
    #[case("12e2", "1200")]
    #[case("0", "0")]
    #[case("0Mi", "0")]
    #[case("-1", "-1")]
    #[case("+2", "2")]
    #[case(".5", "500m")]
    #[case("5.", "5")]
    #[case("0.0000000001", "1n")]
    #[case("100E", "9223372036854775807")]
    fn canonical_form(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(Quantity::parse(text).expect("quantity").to_string(), expected);
    }

    #[rstest]
    #[case("")]
    #[case("abc")]
    #[case("1.2.3")]
    #[case("1 Gi")]
    #[case("1gi")]
    #[case(".")]
    #[case("--1")]
    #[case("e3")]
    fn malformed(#[case] text: &str) {
        assert!(Quantity::parse(text).is_none());
    }

    #[test]
    fn lists_round_up_to_thousandths() {
        assert_eq!(Quantity::parse("0.0001").expect("quantity").rounded_to_milli().to_string(), "1m");
        assert_eq!(Quantity::parse("-0.0001").expect("quantity").rounded_to_milli().to_string(), "-1m");
    }

    proptest! {
        #[test]
        fn printing_keeps_the_value(number in -1_000_000_000_000_i64..1_000_000_000_000, suffix in "|m|k|Mi|Gi|e2") {
            let parsed = Quantity::parse(&format!("{number}{suffix}")).expect("quantity");
            let again = Quantity::parse(&parsed.to_string()).expect("canonical");
            prop_assert_eq!(parsed, again);
            prop_assert_eq!(parsed.to_string(), again.to_string());
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = Quantity::parse(&text).map(|q| (q.to_string(), q.rounded_to_milli().to_string(), q.ceil()));
        }
    }
}
