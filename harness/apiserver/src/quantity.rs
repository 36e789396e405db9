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

/// The largest amount with a binary suffix; larger ones are capped.
const BINARY_MAX: i128 = i64::MAX as i128;

/// The smallest exponent: a nano. What is finer is rounded away from zero.
const NANO: i64 = -9;

/// Most digits that are kept. Upstream keeps all of them.
const DIGITS_MAX: i128 = 10_i128.pow(37);

/// Most digits that upstream's fast path takes.
const FAST_DIGITS: usize = 18;

/// A resource quantity: digits, a power of ten, and the suffix family in which it was written.
///
/// The digits do not end in 0, and the exponent of 0 is 0, so equal quantities have equal fields but for the family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    digits: i128,
    exponent: i64,
    format: Format,
    /// Was written as digits of 64 bits and a power of ten that is not negative, as upstream's `int64Amount`.
    is_integer: bool,
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
}

/// A quantity taken apart: `parseQuantityString`. No digits at all are a zero.
struct Parts<'a> {
    is_negative: bool,
    /// The digits before the point without leading zeros.
    whole: &'a str,
    /// The digits after the point.
    fraction: &'a str,
    base: u32,
    exponent: i64,
    format: Format,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = |s: &str| s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        let unsigned = unsigned.trim_start_matches('0');
        let (whole, rest) = unsigned.split_at(digits(unsigned));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        check_suffix(suffix)?;
        let (base, exponent, format) = read_suffix(suffix).ok_or(QuantityError::Suffix)?;
        Ok(Self { is_negative: text.starts_with('-'), whole, fraction, base, exponent, format })
    }

    /// Returns the number of digits. A missing whole part counts as the digit 0.
    fn len(&self) -> usize {
        self.whole.len().max(1) + self.fraction.len()
    }

    fn fraction_len(&self) -> i64 {
        i64::try_from(self.fraction.len()).unwrap_or(i64::MAX)
    }

    /// Returns true if upstream reads the quantity into an integer of 64 bits and a power of ten.
    fn is_fast(&self) -> bool {
        match self.format {
            Format::Binary => {
                let digits = i64::try_from(self.len()).unwrap_or(i64::MAX);
                self.fraction.is_empty() && digits + self.exponent * 3 / 10 < 15
            }
            _ => self.len() <= FAST_DIGITS && self.exponent.saturating_sub(self.fraction_len()) >= NANO,
        }
    }

    /// Returns true if upstream takes the text for its canonical form, and prints it again as it was written. It does
    /// so for some texts that are not: `+1`, `01`, `1.500`.
    fn is_kept(&self) -> bool {
        if !self.is_fast() {
            return false;
        }
        if self.format == Format::Binary {
            // The last three digits decide about divisibility by 8.
            let tail = self.whole.bytes().rev().take(3).collect::<Vec<_>>();
            return tail.iter().rev().fold(0, |rest, digit| (rest * 10 + u32::from(digit - b'0')) % 8) != 0;
        }
        let zeros = self.whole.bytes().chain(self.fraction.bytes()).rev().take_while(|digit| *digit == b'0').count();
        (self.exponent - self.fraction_len()) % 3 == 0 && zeros < 3 && !self.whole.is_empty()
    }

    fn quantity(&self) -> Quantity {
        let (mut digits, mut exponent, mut lost) = (0_i128, -self.fraction_len(), false);
        for digit in self.whole.bytes().chain(self.fraction.bytes()) {
            if digits < DIGITS_MAX {
                digits = digits * 10 + i128::from(digit - b'0');
            } else {
                lost |= digit != b'0';
                exponent += 1;
            }
        }
        let mut format = self.format;
        let is_integer = self.is_fast() && (format == Format::Binary || self.exponent >= self.fraction_len());
        if self.base == 2 {
            let factor = 1_i128 << self.exponent.clamp(0, 60);
            while digits.checked_mul(factor).is_none() {
                lost |= digits % 10 != 0;
                digits /= 10;
                exponent += 1;
            }
            digits *= factor;
        } else {
            exponent = exponent.saturating_add(self.exponent);
        }
        while exponent < NANO && digits != 0 {
            lost |= digits % 10 != 0;
            digits /= 10;
            exponent += 1;
        }
        if lost && (digits == 0 || exponent == NANO) {
            digits += 1;
            exponent = NANO;
        }
        let found = Quantity { digits, exponent, format, is_integer }.normal();
        let one = Quantity::from(1);
        if format == Format::Binary && found.digits != 0 && found < one {
            format = Format::Decimal;
        }
        let cap = Quantity::from(i64::MAX);
        let found = if format == Format::Binary && found > cap { Quantity { is_integer: false, ..cap } } else { found };
        let digits = if self.is_negative { -found.digits } else { found.digits };
        Quantity { digits, format, ..found }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Parts::of(text).map(|parts| parts.quantity())
    }
}

impl Quantity {
    /// Parses a quantity; `None` if it is malformed. For the reason, use [`str::parse`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    /// Returns the form in which upstream prints a quantity that it has read and not changed.
    pub(crate) fn shown(text: &str) -> Result<String, QuantityError> {
        let parts = Parts::of(text)?;
        Ok(if parts.is_kept() { text.to_owned() } else { parts.quantity().to_string() })
    }

    /// Moves factors of ten from the digits to the exponent.
    fn normal(mut self) -> Self {
        while self.digits % 10 == 0 && self.digits != 0 {
            self.digits /= 10;
            self.exponent += 1;
        }
        if self.digits == 0 {
            self.exponent = 0;
        }
        self
    }

    /// Returns the amount in units of `10^exponent`; `None` if there are too many, or parts of one.
    fn scaled(self, exponent: i64) -> Option<i128> {
        let power = u32::try_from(self.exponent - exponent).ok()?;
        10_i128.checked_pow(power).and_then(|factor| self.digits.checked_mul(factor))
    }

    /// Returns the amount in units of `10^exponent`, rounded by `round` of the digits and of the digits in a unit.
    ///
    /// Amounts beyond 64 bits are the largest or smallest of them.
    fn rounded(self, exponent: i64, round: impl Fn(i128, i128) -> i128) -> i128 {
        let amount = match u32::try_from(exponent - self.exponent) {
            Ok(power) => 10_i128.checked_pow(power).map(|unit| round(self.digits, unit)),
            Err(_) => self.scaled(exponent),
        };
        amount.unwrap_or(BINARY_MAX * self.digits.signum()).clamp(-BINARY_MAX, BINARY_MAX)
    }

    /// Rounds away from zero to units of `10^exponent`.
    fn rounded_away(self, exponent: i64) -> Self {
        let Ok(power) = u32::try_from(exponent - self.exponent) else { return self };
        if power == 0 || self.digits == 0 {
            return self;
        }
        let unit = 10_i128.checked_pow(power).unwrap_or(i128::MAX);
        let digits = self.digits / unit + (self.digits % unit).signum();
        Self { digits, exponent, is_integer: false, ..self }.normal()
    }

    /// Rounds away from zero to thousandths, as in resource lists.
    #[must_use]
    pub(crate) fn rounded_to_milli(self) -> Self {
        self.rounded_away(-3)
    }

    /// Returns -1, 0 or 1 for a negative, zero or positive quantity.
    pub(crate) fn sign(self) -> i128 {
        self.digits.signum()
    }

    /// Returns true for an integer.
    pub(crate) fn is_whole(self) -> bool {
        self.exponent >= 0
    }

    /// Returns the integer of 64 bits as which it was written: `AsInt64`.
    pub(crate) fn as_int64(self) -> Option<i64> {
        let value = self.scaled(0).filter(|_| self.is_integer)?;
        i64::try_from(value).ok()
    }

    /// Returns true for a positive integer multiple of `part`.
    pub(crate) fn is_multiple_of(self, part: Self) -> bool {
        let unit = self.exponent.min(part.exponent);
        let (Some(all), Some(one)) = (self.scaled(unit), part.scaled(unit)) else { return false };
        all > 0 && one > 0 && all % one == 0
    }

    /// Returns the value rounded up to an integer.
    pub(crate) fn ceil(self) -> i128 {
        self.rounded(0, |digits, unit| digits.div_euclid(unit) + i128::from(digits.rem_euclid(unit) != 0))
    }

    /// Returns the value rounded away from zero to an integer, as `Quantity.Value` does: 0 or the lower 64 bits if it
    /// is larger than that.
    pub(crate) fn value(self) -> i64 {
        let whole = self.rounded_away(0);
        let fitting = whole.scaled(0).and_then(|value| i64::try_from(value).ok());
        let low = |number: i128| u64::try_from(number & i128::from(u64::MAX)).map_or(0, u64::cast_signed);
        fitting.unwrap_or_else(|| match u32::try_from(whole.exponent) {
            Ok(power) if !self.is_integer => low(whole.digits).wrapping_mul(10_i64.wrapping_pow(power)),
            _ => 0,
        })
    }

    /// Returns the value in thousandths, rounded up.
    #[cfg_attr(not(feature = "controllers"), expect(dead_code, reason = "kubelets alone count in thousandths"))]
    pub(crate) fn millis(self) -> i128 {
        self.rounded(-3, |digits, unit| digits.div_euclid(unit) + i128::from(digits.rem_euclid(unit) != 0))
    }

    /// Returns the sum in the format of `self`, or of `other` if `self` is zero.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        if other.digits == 0 {
            return self;
        }
        if self.digits == 0 {
            return other;
        }
        let unit = self.exponent.min(other.exponent);
        let sum = self.scaled(unit).zip(other.scaled(unit)).and_then(|(own, more)| own.checked_add(more));
        let is_integer = self.is_integer && other.is_integer;
        match sum {
            Some(digits) => {
                let sum = Self { digits, exponent: unit, is_integer, ..self }.normal();
                Self { is_integer: sum.as_int64().is_some(), ..sum }
            }
            // The smaller one is not among the digits of the larger one.
            None if self.magnitude(other) == Ordering::Less => Self { format: self.format, ..other },
            None => self,
        }
    }

    /// Returns the difference in the format of `self`, or of `other` if `self` is zero.
    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        self.plus(Self { digits: -other.digits, ..other })
    }

    /// Rounds up to an integer.
    #[must_use]
    pub(crate) fn rounded_up(self) -> Self {
        if self.is_whole() { self } else { Self { digits: self.ceil(), exponent: 0, ..self }.normal() }
    }

    /// Returns the nearest floating-point number.
    pub(crate) fn to_f64(self) -> f64 {
        let exponent = i32::try_from(self.exponent).unwrap_or(i32::MAX);
        let digits = self.digits as f64;
        if exponent < 0 { digits / 10_f64.powi(-exponent) } else { digits * 10_f64.powi(exponent) }
    }

    /// Parses the quantity in a JSON value; `None` if it is malformed.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// Compares two quantities without their signs.
    fn magnitude(self, other: Self) -> Ordering {
        let unit = self.exponent.min(other.exponent);
        match (self.scaled(unit), other.scaled(unit)) {
            (Some(own), Some(theirs)) => own.unsigned_abs().cmp(&theirs.unsigned_abs()),
            // Only the one with the larger exponent can have too many digits.
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
        }
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Self { digits: i128::from(number), exponent: 0, format: Format::Decimal, is_integer: true }.normal()
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        (self.digits, self.exponent) == (other.digits, other.exponent)
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
        let signs = self.sign().cmp(&other.sign());
        signs.then_with(|| match self.sign() {
            0 => Ordering::Equal,
            sign if sign < 0 => other.magnitude(*self),
            _ => self.magnitude(*other),
        })
    }
}

/// Checks that a suffix has letters of the suffix alphabet, then an optional sign, then digits.
fn check_suffix(suffix: &str) -> Result<(), QuantityError> {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    if rest.bytes().all(|c| c.is_ascii_digit()) { Ok(()) } else { Err(QuantityError::Format) }
}

fn read_suffix(suffix: &str) -> Option<(u32, i64, Format)> {
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
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Upstream keeps the lower 32 bits.
            (10, (exponent << 32) >> 32, Format::Exponent)
        }
    })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        let is_small = self.magnitude(Self::from(1024)) == Ordering::Less;
        if self.format == Format::Binary
            && !is_small
            && let Some(mut amount) = self.scaled(0)
        {
            let mut names = BINARY.iter();
            let mut name = names.next();
            while amount % 1024 == 0 {
                let Some(next) = names.next() else { break };
                name = Some(next);
                amount /= 1024;
            }
            return write!(f, "{amount}{}", name.unwrap_or(&""));
        }
        let zeros = self.exponent.rem_euclid(3);
        let exponent = self.exponent - zeros;
        write!(f, "{}{}", self.digits, &"00"[..usize::try_from(zeros).unwrap_or(0)])?;
        match self.format {
            Format::Exponent if exponent != 0 => write!(f, "e{exponent}"),
            Format::Exponent => Ok(()),
            // Upstream prints no suffix where there is none, and another amount.
            _ => {
                let suffix = usize::try_from(exponent / 3 + 3).ok().and_then(|index| DECIMAL.get(index));
                f.write_str(suffix.unwrap_or(&""))
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
    #[case(".5", "500m")]
    #[case("5.", "5")]
    #[case("0.0000000001", "1n")]
    #[case("100E", "100E")]
    #[case("12E", "12E")]
    #[case("1e30", "1e30")]
    #[case("10e29", "1e30")]
    #[case("1e31", "10e30")]
    #[case("123e29", "12300e27")]
    #[case("-1e30", "-1e30")]
    #[case("1e2147483647", "10e2147483646")]
    #[case("1e4294967296", "1")]
    #[case("9223372036854775808", "9223372036854775808")]
    #[case("9223372036854775807000", "9223372036854775807k")]
    #[case("1000E", "1")]
    #[case("8Ei", "9223372036854775807")]
    #[case("-9Ei", "-9223372036854775807")]
    #[case("7Ei", "7Ei")]
    #[case("9223372036854775807Ki", "9223372036854775807")]
    #[case("0.025Ti", "27487790694400m")]
    #[case("1e-9", "1e-9")]
    #[case("1.1E-9", "2e-9")]
    #[case("0.5e-10", "1e-9")]
    #[case("0.000000000001Ki", "2n")]
    #[case("100.035Ki", "102435840m")]
    #[case("1.3E+6", "1300e3")]
    #[case("+", "0")]
    #[case(".", "0")]
    #[case("e3", "0")]
    #[case("Ki", "0")]
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
    #[case("--1")]
    #[case("1.1.M")]
    #[case("1+1.0M")]
    #[case("0.1mi")]
    #[case("-3.01e-")]
    #[case("1e")]
    #[case(" 1")]
    fn malformed(#[case] text: &str) {
        assert!(Quantity::parse(text).is_none());
    }

    #[rstest]
    #[case::empty("", QuantityError::Format)]
    #[case::letters("abc", QuantityError::Format)]
    #[case::suffix("1eE", QuantityError::Suffix)]
    #[case::no_exponent("1e", QuantityError::Suffix)]
    #[case::long_exponent("1e99999999999999999999", QuantityError::Suffix)]
    #[case::sign("1-", QuantityError::Suffix)]
    fn reasons(#[case] text: &str, #[case] reason: QuantityError) {
        assert_eq!(text.parse::<Quantity>(), Err(reason));
    }

    /// `ParseQuantity` keeps some texts as they are written (in its field `s`), and makes others canonical.
    #[rstest]
    #[case("+2", "+2")]
    #[case("007", "007")]
    #[case("1.500", "1.500")]
    #[case("1.50", "1500m")]
    #[case("0.500", "500m")]
    #[case("1.5000", "1500m")]
    #[case("1e+3", "1e+3")]
    #[case("1E3", "1E3")]
    #[case("1e4", "10e3")]
    #[case("12345678901234567800", "12345678901234567800")]
    #[case("1000", "1k")]
    #[case("1500", "1500")]
    #[case("0100Mi", "0100Mi")]
    #[case("1024Mi", "1Gi")]
    #[case("8Ki", "8Ki")]
    #[case("12345678901Ki", "12345678901Ki")]
    #[case("+1024Ki", "1Mi")]
    #[case("0.0", "0")]
    fn texts_are_kept_or_made_canonical(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(Quantity::shown(text).as_deref(), Ok(expected));
    }

    /// `TestQuantityCmp`, and amounts of unlike size.
    #[rstest]
    #[case("10000T", "100Gi", Ordering::Greater)]
    #[case("100m", "50m", Ordering::Greater)]
    #[case("1e30", "1e29", Ordering::Greater)]
    #[case("1e2000000", "9Ei", Ordering::Greater)]
    #[case("-1e2000000", "9Ei", Ordering::Less)]
    #[case("-1e30", "-1e31", Ordering::Greater)]
    #[case("1e30", "1000000000000000000000000000000", Ordering::Equal)]
    #[case("0", "0Ki", Ordering::Equal)]
    #[case("1n", "0", Ordering::Greater)]
    fn amounts_are_ordered(#[case] one: &str, #[case] other: &str, #[case] expected: Ordering) {
        let [one, other] = [one, other].map(|text| Quantity::parse(text).expect("quantity"));
        assert_eq!(one.cmp(&other), expected);
        assert_eq!(other.cmp(&one), expected.reverse());
    }

    #[rstest]
    #[case("1e30", "1", "1000000000000000000000000000001")]
    #[case("1e2000000", "1Gi", "100e1999998")]
    #[case("0", "1Gi", "1Gi")]
    #[case("512Mi", "512Mi", "1Gi")]
    #[case("1", "-1n", "999999999n")]
    fn sums_have_the_first_format(#[case] one: &str, #[case] other: &str, #[case] expected: &str) {
        let [one, other] = [one, other].map(|text| Quantity::parse(text).expect("quantity"));
        assert_eq!(one.plus(other).to_string(), expected);
        assert_eq!(one.plus(other).minus(other).cmp(&one), Ordering::Equal);
    }

    /// `AsInt64`: an amount with decimals has none, nor one beyond 64 bits.
    #[rstest]
    #[case("5", Some(5))]
    #[case("3Ki", Some(3072))]
    #[case("2k", Some(2000))]
    #[case("1000m", None)]
    #[case("1.0", None)]
    #[case("9Ei", None)]
    #[case("100E", None)]
    fn integers_are_written_so(#[case] text: &str, #[case] expected: Option<i64>) {
        assert_eq!(Quantity::parse(text).expect("quantity").as_int64(), expected);
    }

    /// `int64Amount.AsScaledInt64` and `scaledValue`.
    #[rstest]
    #[case("1e30", 0)]
    #[case("-1e30", 0)]
    #[case("100E", 0)]
    #[case("9223372036854775808", i64::MIN)]
    #[case("18446744073709551617", 1)]
    #[case("9Ei", i64::MAX)]
    #[case("1500m", 2)]
    #[case("-1500m", -2)]
    fn values_have_64_bits(#[case] text: &str, #[case] expected: i64) {
        assert_eq!(Quantity::parse(text).expect("quantity").value(), expected);
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
