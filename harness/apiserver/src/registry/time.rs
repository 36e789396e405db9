//! Times in the API's format: whole seconds (`metav1.Time`) or microseconds (`metav1.MicroTime`), in UTC.
//! See `time.go` and `micro_time.go` in `staging/src/k8s.io/apimachinery/pkg/apis/meta/v1`.

use jiff::Timestamp;

use crate::json::{Map, Value};

/// Formats a time like `metav1.Time`: whole seconds, UTC.
pub(crate) fn rfc3339(moment: Timestamp) -> String {
    Timestamp::from_second(moment.as_second()).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

/// Formats `now` as `metav1.Time`.
pub(crate) fn format_time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats `now` as `metav1.MicroTime`.
pub(crate) fn format_micro_time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reformats the times under `fields` as `metav1.Time`. Malformed times are left for the validation to reject.
pub(crate) fn normalize_seconds(map: &mut Map, fields: &[&str]) {
    normalize(map, fields, 20, format_time);
}

/// Reformats the times under `fields` as `metav1.MicroTime`.
pub(crate) fn normalize_micros(map: &mut Map, fields: &[&str]) {
    normalize(map, fields, 27, format_micro_time);
}

fn normalize(map: &mut Map, fields: &[&str], length: usize, print: fn(Timestamp) -> String) {
    for field in fields {
        let Some(Value::String(text)) = map.get_mut(*field) else { continue };
        if text.len() == length && text.ends_with('Z') {
            continue;
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            *text = print(time).into();
        }
    }
}

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
    use crate::json::json;

    #[rstest]
    #[case("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000000Z")]
    #[case("2024-01-01T00:00:00.9Z", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.900000Z")]
    #[case("2024-01-01T01:00:00+01:00", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000000Z")]
    #[case("never", "never", "never")]
    fn times_become_canonical(#[case] given: &str, #[case] seconds: &str, #[case] micros: &str) {
        let mut value = json!({"a": given, "b": given});
        let map = value.as_object_mut().expect("object");
        normalize_seconds(map, &["a"]);
        normalize_micros(map, &["b"]);
        assert_eq!(value, json!({"a": seconds, "b": micros}));
    }

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
