//! Resource quantities (`100m`, `1.5Gi`, `2e3`) and their canonical form.
//!
//! See `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::json::Value;

/// Upstream's message for a malformed quantity.
pub(crate) const QUANTITY_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Number of nanos in 1.
const ONE: i128 = 1_000_000_000;

/// Maximum magnitude in nanos; larger quantities are capped, as upstream does.
const MAX: i128 = i64::MAX as i128 * ONE;

/// A resource quantity with the precision of a nano and the suffix family in which it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

/// The suffix family in which a quantity was written and is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `m`, `k`, `M` …
    Decimal,
    /// `e3`, `e6` …
    Exponent,
    /// `Ki`, `Mi` …
    Binary,
}

/// The reason for rejecting a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    /// The text does not have the format of a quantity.
    #[error("{QUANTITY_FORMAT}")]
    Format,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The number is malformed.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let negative = text.starts_with('-');
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let digits = |s: &str| s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        let (whole, rest) = unsigned.split_at(digits(unsigned));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        check_suffix(suffix)?;
        let (base, exponent, format) = read_suffix(suffix).ok_or(QuantityError::Suffix)?;
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Numeric);
        }
        let nanos = scaled(whole, fraction, base, exponent);
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }
}

impl Quantity {
    /// Parses a quantity; `None` if it is malformed. For the reason, use [`str::parse`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    /// Rounds away from zero to thousandths, as in resource lists.
    #[must_use]
    pub(crate) fn rounded_to_milli(self) -> Self {
        const MICRO: i128 = 1_000_000;
        let rest = self.nanos % MICRO;
        let nanos = match rest {
            0 => self.nanos,
            r if r > 0 => self.nanos - r + MICRO,
            r => self.nanos - r - MICRO,
        };
        Self { nanos, ..self }
    }

    /// Returns -1, 0 or 1 for a negative, zero or positive quantity.
    pub(crate) fn sign(self) -> i128 {
        self.nanos.signum()
    }

    /// Returns true for an integer.
    pub(crate) fn is_whole(self) -> bool {
        self.nanos % ONE == 0
    }

    /// Returns true for a positive integer multiple of `part`.
    pub(crate) fn is_multiple_of(self, part: Self) -> bool {
        self.nanos > 0 && part.nanos > 0 && self.nanos % part.nanos == 0
    }

    /// Returns the value rounded up to an integer.
    pub(crate) fn ceil(self) -> i128 {
        self.nanos.div_euclid(ONE) + i128::from(self.nanos.rem_euclid(ONE) != 0)
    }

    /// Returns the value rounded away from zero to an integer, as `Quantity.Value` does.
    pub(crate) fn value(self) -> i128 {
        self.nanos / ONE + (self.nanos % ONE).signum()
    }

    /// Returns the value in thousandths, rounded up.
    #[cfg_attr(not(feature = "controllers"), expect(dead_code, reason = "kubelets alone count in thousandths"))]
    pub(crate) fn millis(self) -> i128 {
        const MICRO: i128 = 1_000_000;
        self.nanos.div_euclid(MICRO) + i128::from(self.nanos.rem_euclid(MICRO) != 0)
    }

    /// Returns the sum in the format of `self`, or of `other` if `self` is zero.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// Returns the difference in the format of `self`.
    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), ..self }
    }

    /// Rounds up to an integer.
    #[must_use]
    pub(crate) fn rounded_up(self) -> Self {
        Self { nanos: self.ceil().saturating_mul(ONE), ..self }
    }

    /// Returns the nearest floating-point number.
    pub(crate) fn to_f64(self) -> f64 {
        self.nanos as f64 / ONE as f64
    }

    /// Parses the quantity in a JSON value; `None` if it is malformed.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Self { nanos: i128::from(number) * ONE, format: Format::Decimal }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// Checks that a suffix has letters of the suffix alphabet, then an optional sign, then digits.
fn check_suffix(suffix: &str) -> Result<(), QuantityError> {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    if rest.bytes().all(|c| c.is_ascii_digit()) { Ok(()) } else { Err(QuantityError::Format) }
}

fn read_suffix(suffix: &str) -> Option<(u32, i32, Format)> {
    Some(match suffix {
        "" => (10, 0, Format::Decimal),
        "n" => (10, -9, Format::Decimal),
        "u" => (10, -6, Format::Decimal),
        "m" => (10, -3, Format::Decimal),
        "k" => (10, 3, Format::Decimal),
        "M" => (10, 6, Format::Decimal),
        "G" => (10, 9, Format::Decimal),
        "T" => (10, 12, Format::Decimal),
        "P" => (10, 15, Format::Decimal),
        "E" => (10, 18, Format::Decimal),
        "Ki" => (2, 10, Format::Binary),
        "Mi" => (2, 20, Format::Binary),
        "Gi" => (2, 30, Format::Binary),
        "Ti" => (2, 40, Format::Binary),
        "Pi" => (2, 50, Format::Binary),
        "Ei" => (2, 60, Format::Binary),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            (10, exponent.parse().ok()?, Format::Exponent)
        }
    })
}

/// Returns `whole.fraction × base^exponent` in nanos, rounded up and capped at `i64::MAX` units.
fn scaled(whole: &str, fraction: &str, base: u32, exponent: i32) -> i128 {
    let mut mantissa: i128 = 0;
    let mut scale = 0_i32;
    let mut lost = false;
    for (i, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let after_point = i >= whole.len();
        if mantissa < MAX / 16 {
            mantissa = mantissa * 10 + i128::from(digit - b'0');
            scale -= i32::from(after_point);
        } else if after_point {
            lost |= digit != b'0';
        } else {
            scale += 1;
        }
    }
    if mantissa == 0 {
        return i128::from(lost);
    }
    let mut ten = scale.saturating_add(9);
    if base == 2 {
        match u32::try_from(exponent).ok().and_then(|e| mantissa.checked_mul(1_i128 << e.min(60))) {
            Some(shifted) => mantissa = shifted,
            None => return MAX,
        }
    } else {
        ten = ten.saturating_add(exponent);
    }
    while ten > 0 {
        ten -= 1;
        match mantissa.checked_mul(10) {
            Some(next) if next <= MAX => mantissa = next,
            _ => return MAX,
        }
    }
    while ten < 0 && mantissa != 0 {
        ten += 1;
        lost |= mantissa % 10 != 0;
        mantissa /= 10;
    }
    (mantissa + i128::from(lost)).min(MAX)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let small = self.nanos.abs() < 1024 * ONE;
        if self.format == Format::Binary && !small && self.nanos % ONE == 0 {
            let mut amount = self.nanos / ONE;
            let mut suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter();
            let mut name = suffix.next().unwrap_or(&"");
            while amount % 1024 == 0 {
                let Some(next) = suffix.next() else { break };
                name = next;
                amount /= 1024;
            }
            return write!(f, "{amount}{name}");
        }
        let mut amount = self.nanos;
        let mut exponent = -9_i32;
        while amount % 1000 == 0 && (self.format == Format::Exponent || exponent < 18) {
            amount /= 1000;
            exponent += 3;
        }
        match (self.format, exponent) {
            (_, 0) => write!(f, "{amount}"),
            (Format::Exponent, e) => write!(f, "{amount}e{e}"),
            (_, e) => {
                let names = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                let name = usize::try_from(e / 3 + 3).ok().and_then(|i| names.get(i)).unwrap_or(&"");
                write!(f, "{amount}{name}")
            }
        }
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
    #[case("0.5Mi", "512Ki")]
    #[case("1023", "1023")]
    #[case("100Ki", "100Ki")]
    #[case("1024", "1024")]
    #[case("1200", "1200")]
    #[case("2E2", "200")]
    #[case("-5m", "-5m")]
    #[case("1n", "1n")]
    #[case("0.1n", "1n")]
    #[case("64Mi", "64Mi")]
    #[case("1000Ki", "1000Ki")]
    #[case("12.5Ki", "12800")]
    #[case("000", "0")]
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
    #[case("+")]
    fn malformed(#[case] text: &str) {
        assert!(Quantity::parse(text).is_none());
    }

    #[rstest]
    #[case::empty("", QuantityError::Format)]
    #[case::letters("abc", QuantityError::Format)]
    #[case::suffix("1eE", QuantityError::Suffix)]
    #[case::no_digits(".", QuantityError::Numeric)]
    fn reasons(#[case] text: &str, #[case] reason: QuantityError) {
        assert_eq!(text.parse::<Quantity>(), Err(reason));
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
