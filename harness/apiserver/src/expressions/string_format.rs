//! The function `format` of texts. PURE.
//!
//! Follows `ext/formatting.go` of `github.com/google/cel-go`, the version that Kubernetes has; the crate's own function
//! is as the next one. Doubles are printed as in English.

use cel::ExecutionError;
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelNull, CelString, CelTimestamp, CelType, CelUInt,
};
use cel::common::value::{CowVal, Val};
use thiserror::Error;

use super::library;
use super::shared::SharedValue;
use crate::field_errors::go_quote;

/// Digits behind the point, if a clause does not say how many.
const DIGITS: usize = 6;

/// Most digits behind the point.
const MAX_DIGITS: usize = 1_000;

/// Types that `%s` prints, in the words of its error.
pub(super) const TEXT_CLAUSE: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
     lists, types, durations, and timestamps";

/// Says why a clause cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum ClauseError {
    #[error("error while parsing precision: could not find end of precision specifier")]
    OpenPrecision,
    #[error(
        "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \"\": \
         invalid syntax"
    )]
    EmptyPrecision,
    #[error("unrecognized formatting clause \"{0}\"")]
    UnknownLetter(char),
}

/// Says why a clause cannot print an argument.
#[derive(Debug, Error)]
pub(super) enum ArgumentError {
    #[error("{wanted}, was given {given}")]
    WrongType { wanted: &'static str, given: String },
    #[error("no formatting function for {0}")]
    WrongMember(String),
    #[error(transparent)]
    Conversion(#[from] ExecutionError),
}

/// Says why a text cannot be formatted.
#[derive(Debug, Error)]
pub(super) enum FormattingError {
    #[error("index {0} out of range")]
    MissingArgument(usize),
    #[error("unexpected end of string")]
    MissingClause,
    #[error("could not parse formatting clause: {0}")]
    Clause(#[from] ClauseError),
    #[error("error during formatting: {0}")]
    Argument(#[from] ArgumentError),
}

/// A clause such as `%.2f`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FormatClause {
    pub(super) letter: char,
    digits: Option<usize>,
}

/// Reads a clause behind its `%`; returns the text after it, too.
pub(super) fn clause(text: &str) -> Result<(FormatClause, &str), ClauseError> {
    let (digits, text) = match text.strip_prefix('.') {
        None => (None, text),
        Some(digits) => {
            let after = digits.trim_start_matches(|c: char| c.is_ascii_digit());
            let digits = &digits[..digits.len() - after.len()];
            if after.is_empty() {
                return Err(ClauseError::OpenPrecision);
            }
            if digits.is_empty() {
                return Err(ClauseError::EmptyPrecision);
            }
            (Some(digits.parse().unwrap_or(usize::MAX)), after)
        }
    };
    let mut characters = text.chars();
    match characters.next() {
        Some(letter @ ('s' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o')) => {
            Ok((FormatClause { letter, digits }, characters.as_str()))
        }
        other => Err(ClauseError::UnknownLetter(other.unwrap_or_default())),
    }
}

/// Returns a text with its clauses replaced by arguments, or what is wrong.
pub(super) fn formatted(format: &str, arguments: &[SharedValue]) -> Result<String, FormattingError> {
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    let mut arguments = arguments.iter().enumerate();
    let mut asked = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let Some((index, argument)) = arguments.next() else { return Err(FormattingError::MissingArgument(asked)) };
        asked = index + 1;
        if rest.is_empty() {
            return Err(FormattingError::MissingClause);
        }
        let (clause, after) = clause(rest)?;
        out.push_str(&clause.text(argument)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns what the argument of a clause, other than `%s`, has to be.
pub(super) fn wanted(letter: char) -> &'static str {
    match letter {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        'o' => "octal clause can only be used on integers",
        _ => TEXT_CLAUSE,
    }
}

impl ArgumentError {
    fn wrong_type(wanted: &'static str, argument: &SharedValue) -> Self {
        Self::WrongType { wanted, given: argument.get_type().name().to_owned() }
    }
}

impl FormatClause {
    fn text(self, argument: &SharedValue) -> Result<String, ArgumentError> {
        let digits = self.digits.unwrap_or(DIGITS).min(MAX_DIGITS);
        let text = match self.letter {
            's' => return text_of(argument),
            'f' => double_argument(argument).map(|number| fixed(number, digits)),
            'e' => double_argument(argument).map(|number| scientific(number, digits)),
            letter => in_base(letter, argument),
        };
        text.ok_or_else(|| ArgumentError::wrong_type(wanted(self.letter), argument))
    }
}

/// Prints an integer, or what else a base has, as `d`, `b`, `o`, `x` or `X` ask.
fn in_base(letter: char, argument: &SharedValue) -> Option<String> {
    let hexadecimal = |bytes: &[u8]| -> String {
        bytes.iter().map(|byte| if letter == 'X' { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
    };
    let is_hexadecimal = matches!(letter, 'x' | 'X');
    if let Some(flag) = argument.as_bool().filter(|_| letter == 'b') {
        return Some(u8::from(flag).to_string());
    }
    if let Some(text) = argument.as_text().filter(|_| is_hexadecimal) {
        return Some(hexadecimal(text.as_bytes()));
    }
    if let Some(bytes) = argument.downcast::<CelBytes<'static>>().filter(|_| is_hexadecimal) {
        return Some(hexadecimal(bytes.inner()));
    }
    let (sign, number) = match (argument.as_int(), argument.downcast::<CelUInt>()) {
        (Some(number), _) => (if number < 0 { "-" } else { "" }, number.unsigned_abs()),
        (None, Some(number)) => ("", *number.inner()),
        (None, None) => return None,
    };
    Some(match letter {
        'b' => format!("{sign}{number:b}"),
        'o' => format!("{sign}{number:o}"),
        'x' => format!("{sign}{number:x}"),
        'X' => format!("{sign}{number:X}"),
        _ => format!("{sign}{number}"),
    })
}

/// Returns the number of a double, or of a text that names what is no number.
fn double_argument(argument: &SharedValue) -> Option<f64> {
    match argument.as_text() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => argument.downcast::<CelDouble>().map(|number| *number.inner()),
    }
}

fn no_number(number: f64) -> Option<String> {
    let sign = if number < 0.0 { "-" } else { "" };
    if number.is_nan() { Some("NaN".to_owned()) } else { number.is_infinite().then(|| format!("{sign}∞")) }
}

/// Prints a double as in English, with commas.
fn fixed(number: f64, digits: usize) -> String {
    if let Some(text) = no_number(number) {
        return text;
    }
    let text = format!("{:.digits$}", number.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut out = if number.is_sign_negative() { "-".to_owned() } else { String::new() };
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Prints a double with a power of ten, such as `3.1×10⁰⁰`.
fn scientific(number: f64, digits: usize) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if let Some(text) = no_number(number) {
        return text;
    }
    let text = format!("{number:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |exponent| ("⁻", exponent));
    let raised = |digit: char| RAISED.get(usize::try_from(digit.to_digit(10)?).ok()?).copied();
    let power: String = format!("{exponent:0>2}").chars().filter_map(raised).collect();
    format!("{mantissa}×10{sign}{power}")
}

/// Prints a value as `%s` does.
fn text_of(value: &SharedValue) -> Result<String, ArgumentError> {
    if let Some(text) = value.as_text() {
        return Ok(text.to_owned());
    }
    if value.downcast::<CelNull>().is_some() {
        return Ok("null".to_owned());
    }
    if let Some(ty) = value.downcast::<CelType>() {
        return Ok(ty.name().to_owned());
    }
    if let Some(list) = value.as_list() {
        let members = list.inner().iter().map(|member| member_text(&SharedValue::copy(&**member)));
        return Ok(format!("[{}]", members.collect::<Result<Vec<_>, _>>()?.join(", ")));
    }
    if let Some(map) = value.as_map() {
        let entries = map.inner().iter().map(|(key, value)| {
            Ok::<_, ArgumentError>((
                member_text(&SharedValue::copy(key.inner()))?,
                member_text(&SharedValue::copy(&**value))?,
            ))
        });
        let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
        entries.sort();
        let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
        return Ok(format!("{{{}}}", entries.join(", ")));
    }
    let arguments: Vec<CowVal<'_, 'static>> = vec![CowVal::Borrowed(value)];
    let printed = library::ENV.find_overload("string", &arguments).filter(|_| is_printed(value));
    let Some(function) = printed else {
        return Err(ArgumentError::wrong_type(TEXT_CLAUSE, value));
    };
    let text = function(arguments)?;
    Ok(text.downcast_ref::<CelString<'_>>().map(|text| text.inner().to_owned()).unwrap_or_default())
}

/// Returns true for scalars that have a form as a text.
fn is_printed(value: &SharedValue) -> bool {
    value.is_bytes()
        || value.downcast::<CelBool>().is_some()
        || value.downcast::<CelInt>().is_some()
        || value.downcast::<CelUInt>().is_some()
        || value.downcast::<CelDouble>().is_some()
        || value.downcast::<CelTimestamp>().is_some()
        || value.downcast::<CelDuration>().is_some()
}

/// Prints a member of a list or map so that it can be a part of an expression.
fn member_text(value: &SharedValue) -> Result<String, ArgumentError> {
    if let Some(number) = value.downcast::<CelDouble>().map(|number| *number.inner()) {
        let infinite = if number > 0.0 { "+Inf" } else { "-Inf" };
        let text = if number.is_nan() { "NaN" } else { infinite };
        return Ok(if number.is_finite() { format!("{number:.DIGITS$}") } else { go_quote(text) });
    }
    if value.as_text().is_none() && !value.is_bytes() && value.as_list().is_none() && value.as_map().is_none() {
        let known = is_printed(value) || value.downcast::<CelNull>().is_some() || value.downcast::<CelType>().is_some();
        if !known {
            return Err(ArgumentError::WrongMember(value.get_type().name().to_owned()));
        }
    }
    let text = text_of(value)?;
    Ok(if value.as_text().is_some() {
        go_quote(&text)
    } else if value.is_bytes() {
        format!("b{}", go_quote(&text))
    } else if value.downcast::<CelTimestamp>().is_some() {
        format!("timestamp({})", go_quote(&text))
    } else if value.downcast::<CelDuration>().is_some() {
        format!("duration({})", go_quote(&text))
    } else {
        text
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::super::{EvaluationError, describe, evaluate, library};
    use rstest::rstest;

    /// Evaluates an expression to a text, or to the text of its error.
    fn text(source: &str) -> String {
        let program = parse(source).expect("an expression").program;
        match evaluate(&program, &library::ENV, Vec::new()).0 {
            Ok(value) => value.as_text().expect("a text").to_owned(),
            Err(EvaluationError::Failed(error)) => describe(&error),
            Err(EvaluationError::Limit) => "limit".to_owned(),
        }
    }

    /// Those of `celcoststability_test.go` and `strings_test.go` of cel-go, and the boundaries of what is not there.
    #[rstest]
    #[case(
        "'%d %s %f %s %s'.format([1, 'abc', 1.0, duration('1m'), timestamp('2000-01-01T00:00:00.000Z')])",
        "1 abc 1.000000 60s 2000-01-01T00:00:00Z"
    )]
    #[case("'%e'.format([3.14])", "3.140000×10⁰⁰")]
    #[case("'%.2e %e'.format([1052.0, -0.0000123])", "1.05×10⁰³ -1.230000×10⁻⁰⁵")]
    #[case("'%o %o %o'.format([7, 8, 9])", "7 10 11")]
    #[case("'%b %b %b %b'.format([7, -8, 9u, true])", "111 -1000 1001 1")]
    #[case("'%x %X %x %X %x'.format([255, 255u, 'az', b'az', -1])", "ff FF 617a 617A -1")]
    #[case("'%.2f %.0f %f'.format([1234567.891, 999.5, -1000.0])", "1,234,567.89 1,000 -1,000.000000")]
    #[case("'%f %f %e'.format(['NaN', 'Infinity', '-Infinity'])", "NaN ∞ -∞")]
    #[case(
        "'%s'.format([[1, 'a\"b', 2.5, null, b'x', true, [2u], duration('1s'), timestamp(0)]])",
        "[1, \"a\\\"b\", 2.500000, null, b\"x\", true, [2], duration(\"1s\"), timestamp(\"1970-01-01T00:00:00Z\")]"
    )]
    #[case("'%s'.format([{'b': 1, 'a': [2]}])", "{\"a\":[2], \"b\":1}")]
    #[case("'%s %s %s %s'.format([null, int, 1.5, b'x'])", "null int 1.5 x")]
    #[case("'100%% %s'.format(['a', 'b'])", "100% a")]
    #[case(
        "'%d'.format([1.5])",
        "error during formatting: decimal clause can only be used on integers, was given double"
    )]
    #[case(
        "'%s'.format([ip('::1')])",
        "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given net.IP"
    )]
    #[case("'%s'.format([[ip('::1')]])", "error during formatting: no formatting function for net.IP")]
    #[case("'%s %s'.format([1])", "index 1 out of range")]
    #[case("'%q'.format([1])", "could not parse formatting clause: unrecognized formatting clause \"q\"")]
    fn formats(#[case] source: &str, #[case] expected: &str) {
        assert_eq!(text(source), expected);
    }
}
