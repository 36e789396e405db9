//! Floating-point numbers as Go writes them: in JSON (`floatEncoder` in Go's `encoding/json/encode.go`), and as text
//! (`strconv/ftoa.go`). PURE.

/// Returns a number as `fmt.Sprint` writes it: with an exponent below -4 and from 6, `FormatFloat(number, 'g', -1, 64)`
/// of Go's `strconv`.
pub(crate) fn plain(number: f64) -> String {
    let (digits, exponent) = parts(number);
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Returns a number as Go's `encoding/json` writes it: with an exponent below 1e-6 and from 1e21.
pub(crate) fn json(number: f64) -> String {
    let (digits, exponent) = parts(number);
    if (-6..21).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { "" } else { "+" };
    format!("{digits}e{sign}{exponent}")
}

/// Returns the shortest digits of a number, the first of them before the point, and its exponent.
fn parts(number: f64) -> (String, i32) {
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.to_owned(), exponent.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `ftoatests` in Go's `src/strconv/ftoa_test.go`, and `encode_test.go` of `encoding/json`.
    #[rstest]
    #[case(0.0, "0", "0")]
    #[case(-0.0, "-0", "-0")]
    #[case(1.0, "1", "1")]
    #[case(200_000.0, "200000", "200000")]
    #[case(1e6, "1e+06", "1000000")]
    #[case(2_000_000.0, "2e+06", "2000000")]
    #[case(-1_234_567.5, "-1.2345675e+06", "-1234567.5")]
    #[case(1e20, "1e+20", "100000000000000000000")]
    #[case(1e21, "1e+21", "1e+21")]
    #[case(1e100, "1e+100", "1e+100")]
    #[case(0.0001, "0.0001", "0.0001")]
    #[case(0.000_01, "1e-05", "0.00001")]
    #[case(0.000_001, "1e-06", "0.000001")]
    #[case(1e-7, "1e-07", "1e-7")]
    fn numbers(#[case] number: f64, #[case] as_text: &str, #[case] as_json: &str) {
        assert_eq!(plain(number), as_text);
        assert_eq!(json(number), as_json);
    }
}
