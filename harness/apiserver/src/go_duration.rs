//! Durations in Go's notation, such as `1h30m`, as Go's `time/format.go` reads them. PURE.

/// Parses a duration like Go's `time.ParseDuration` (`1h30m`, `-1.5s`, `0`) and returns its nanoseconds.
pub(crate) fn go_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0_f64;
    while !rest.is_empty() {
        let of_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let number = &rest[..rest.find(|letter| !of_number(letter))?];
        if !number.bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        rest = &rest[number.len()..];
        let unit = &rest[..rest.find(of_number).unwrap_or(rest.len())];
        rest = &rest[unit.len()..];
        nanos += number.parse::<f64>().ok()?
            * match unit {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 60e9,
                "h" => 3600e9,
                _ => return None,
            };
    }
    // Go durations are limited to 292 years.
    let within = nanos <= i64::MAX as f64;
    within.then_some(if negative { -nanos } else { nanos } as i64)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1h30m", Some(5_400_000_000_000))]
    #[case("-90s", Some(-90_000_000_000))]
    #[case("1.5s", Some(1_500_000_000))]
    #[case(".5s", Some(500_000_000))]
    #[case("0", Some(0))]
    #[case("+0", Some(0))]
    #[case("1h0", None)]
    #[case("1", None)]
    #[case(".s", None)]
    #[case("s", None)]
    #[case("", None)]
    #[case("-", None)]
    #[case("1x", None)]
    #[case("9999999h", None)]
    fn durations(#[case] text: &str, #[case] nanos: Option<i64>) {
        assert_eq!(go_duration(text), nanos);
    }
}
