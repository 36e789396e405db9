//! Scalar types with their own Go decoder: quantities, times, durations and bytes.
//!
//! See `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go` and
//! `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time,duration}.go`.

use std::borrow::Cow;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::types::Scalar;
use crate::go_base64;
use crate::json::Value;
pub(super) use crate::quantity::QUANTITY_FORMAT;
use crate::quantity::Quantity;

/// The reason for rejecting a scalar.
#[derive(Debug)]
pub(super) enum ScalarError {
    /// The JSON type is wrong.
    WrongType,
    /// The type's own decoder rejected the text.
    InvalidValue(String),
}

/// Decodes a scalar given as a string.
pub(super) fn from_text(scalar: Scalar, text: Cow<'_, str>) -> Result<Value, ScalarError> {
    match scalar {
        Scalar::String | Scalar::IntOrString | Scalar::Duration => Ok(text.into()),
        Scalar::Quantity => match Quantity::shown(text.trim()) {
            Ok(shown) => Ok(shown.into()),
            Err(error) => Err(ScalarError::InvalidValue(error.to_string())),
        },
        // Most times are in the server's own format, since clients send back objects that they have read.
        Scalar::Time if is_canonical_time(&text) && text != ZERO_TEXT => Ok(text.into()),
        Scalar::Time => {
            let time = parse_time(&text, "2006-01-02T15:04:05Z07:00")?;
            Ok(unless_zero(time, "%Y-%m-%dT%H:%M:%SZ"))
        }
        Scalar::MicroTime => {
            let time = parse_time(&text, "2006-01-02T15:04:05.000000Z07:00")?;
            Ok(unless_zero(time, "%Y-%m-%dT%H:%M:%S%.6fZ"))
        }
        Scalar::Bytes => {
            let bad = |at| ScalarError::InvalidValue(format!("illegal base64 data at input byte {at}"));
            go_base64::canonical(&text).map(Value::from).map_err(bad)
        }
        Scalar::Bool | Scalar::Int { .. } | Scalar::Float => Err(ScalarError::WrongType),
    }
}

/// Decodes a scalar given as a number.
pub(super) fn from_number(scalar: Scalar, text: &str) -> Result<Value, ScalarError> {
    let whole = |min: i64, max: i64| match text.parse::<i64>() {
        Ok(n) if (min..=max).contains(&n) => Ok(Value::from(n)),
        _ => Err(ScalarError::WrongType),
    };
    match scalar {
        Scalar::Int { min, max } => whole(min, max),
        Scalar::IntOrString => whole(i32::MIN.into(), i32::MAX.into()),
        Scalar::Float => Ok(super::decode::number(text)),
        Scalar::Quantity => match Quantity::shown(text) {
            Ok(shown) => Ok(shown.into()),
            Err(error) => Err(ScalarError::InvalidValue(error.to_string())),
        },
        _ => Err(ScalarError::WrongType),
    }
}

/// The zero time of Go, the first second of year 1, which Kubernetes writes as null.
pub(crate) const ZERO_TIME: Timestamp = Timestamp::constant(-62_135_596_800, 0);

const ZERO_TEXT: &str = "0001-01-01T00:00:00Z";

fn unless_zero(time: Timestamp, layout: &str) -> Value {
    if time == ZERO_TIME { Value::Null } else { time.strftime(layout).to_string().into() }
}

/// Returns true for a valid time in the server's format. It does not recognize all of them: days after the 28th are
/// left to the general path.
fn is_canonical_time(text: &str) -> bool {
    let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T', h0, h1, b':', i0, i1, b':', s0, s1, b'Z'] = text.as_bytes()
    else {
        return false;
    };
    let number =
        |tens: u8, ones: u8| (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| (tens - b'0') * 10 + ones - b'0');
    let within = |tens, ones, first, last| number(tens, ones).is_some_and(|number| (first..=last).contains(&number));
    within(y0, y1, 0, 99)
        && within(y2, y3, 0, 99)
        && within(m0, m1, 1, 12)
        && within(d0, d1, 1, 28)
        && within(h0, h1, 0, 23)
        && within(i0, i1, 0, 59)
        && within(s0, s1, 0, 59)
}

/// Parses a time as Go does with `time.RFC3339`; the error is Go's.
pub(crate) fn go_time(text: &str) -> Result<Timestamp, String> {
    parse_time(text, "2006-01-02T15:04:05Z07:00").map_err(|error| match error {
        ScalarError::InvalidValue(why) => why,
        ScalarError::WrongType => String::new(),
    })
}

/// Quotes a text as Go's package `time` does, whose quotes are its own: `quote` in `src/time/format.go`.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' | 0x7f => quoted.push(char::from(byte)),
            _ => _ = write!(quoted, "\\x{byte:02x}"),
        }
    }
    quoted.push('"');
    quoted
}

fn parse_time(text: &str, layout: &str) -> Result<Timestamp, ScalarError> {
    // Go accepts exactly this format; jiff alone would also accept spaces and shorter dates.
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| bytes.get(from..to).is_some_and(|d| d.iter().all(u8::is_ascii_digit));
    let refuse = |rest: &str, want: &str| {
        let [text, layout, rest, want] = [text, layout, rest, want].map(quote);
        let message = format!("parsing time {text} as {layout}: cannot parse {rest} as {want}");
        Err(ScalarError::InvalidValue(message))
    };
    let parts: [(usize, usize, &str); 6] =
        [(0, 4, "2006"), (5, 7, "01"), (8, 10, "02"), (11, 13, "15"), (14, 16, "04"), (17, 19, "05")];
    let separators = ["-", "-", "T", ":", ":"];
    for (i, (from, to, want)) in parts.into_iter().enumerate() {
        if !digits(from, to) {
            return refuse(text.get(from..).unwrap_or_default(), want);
        }
        if let Some(separator) = separators.get(i)
            && text.get(to..=to) != Some(*separator)
        {
            return refuse(text.get(to..).unwrap_or_default(), separator);
        }
    }
    let number = |from: usize| text.get(from..from + 2).and_then(|d| d.parse::<u8>().ok()).unwrap_or_default();
    for (what, value, range) in [
        ("month", number(5), 1..=12),
        ("hour", number(11), 0..=23),
        ("minute", number(14), 0..=59),
        ("second", number(17), 0..=59),
    ] {
        if !range.contains(&value) {
            return Err(ScalarError::InvalidValue(format!("parsing time {}: {what} out of range", quote(text))));
        }
    }
    let rest = text.get(19..).unwrap_or_default();
    if layout.contains(".000000") {
        let digits = rest.bytes().skip(1).take(6).filter(u8::is_ascii_digit).count();
        if !rest.starts_with('.') || digits < 6 {
            return refuse(rest, ".000000");
        }
        if rest.as_bytes().get(7).is_some_and(u8::is_ascii_digit) {
            return refuse(&rest[7..], "Z07:00");
        }
    }
    match text.parse::<Timestamp>() {
        Ok(time) => Ok(time),
        Err(_) if text.len() == 19 => refuse("", "Z07:00"),
        Err(_) if text.ends_with('Z') && text.get(19..) == Some("Z") => {
            Err(ScalarError::InvalidValue(format!("parsing time {}: day out of range", quote(text))))
        }
        Err(_) => refuse(text.get(19..).unwrap_or_default(), "Z07:00"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// `quote` in Go's `src/time/format.go`: bytes outside of ASCII and control characters in hexadecimal.
    #[rstest]
    #[case("é", r#""\xc3\xa9""#)]
    #[case("a\"b\\c\td", r#""a\"b\\c\x09d""#)]
    #[case("\u{7f}", "\"\u{7f}\"")]
    fn times_have_quotes_of_their_own(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(quote(text), expected);
    }

    proptest! {
        #[test]
        fn a_time_that_is_kept_as_it_is_would_be_written_so(
            text in "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](Z|Z|Z|z|\\+00:00|\\.0Z)"
        ) {
            if is_canonical_time(&text) {
                let time = parse_time(&text, "2006-01-02T15:04:05Z07:00").expect("a time");
                prop_assert_eq!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), text);
            }
        }
    }
}
