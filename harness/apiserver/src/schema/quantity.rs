//! Resource quantities (`100m`, `1.5Gi`, `2e3`) and their canonical form.
//!
//! See `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go`.

use std::cmp::Ordering;
use std::fmt;

use super::leaf::QUANTITY_FORMAT;

/// Number of nanos in 1.
const ONE: i128 = 1_000_000_000;

/// A resource quantity with the precision of a nano.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// The reason for rejecting a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
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

impl Quantity {
    /// Parses a quantity like the server.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
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
        if whole.is_empty() && fraction.is_empty() && !rest.is_empty() && rest.starts_with('.') {
            return Err(QuantityError::Numeric);
        }
        if whole.is_empty() && fraction.is_empty() && !suffix.is_empty() {
            return Err(QuantityError::Numeric);
        }
        let nanos = scaled(whole, fraction, base, exponent);
        Ok(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// Returns the value in billionths.
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// Returns the value rounded up to an integer.
    pub fn value(&self) -> i128 {
        self.nanos.div_euclid(ONE) + i128::from(self.nanos.rem_euclid(ONE) != 0)
    }

    /// Returns true if the value is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
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
    let cap = i128::from(i64::MAX) * ONE;
    let mut mantissa: i128 = 0;
    let mut scale = 0_i32;
    let mut lost = false;
    for (i, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let after_point = i >= whole.len();
        if mantissa < cap / 16 {
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
            None => return cap,
        }
    } else {
        ten = ten.saturating_add(exponent);
    }
    while ten > 0 {
        ten -= 1;
        match mantissa.checked_mul(10) {
            Some(next) if next <= cap => mantissa = next,
            _ => return cap,
        }
    }
    while ten < 0 && mantissa != 0 {
        ten += 1;
        lost |= mantissa % 10 != 0;
        mantissa /= 10;
    }
    (mantissa + i128::from(lost)).min(cap)
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
