//! Formats ages and other durations for tables. Follows `staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go`
//! of Kubernetes 1.36. PURE.

use jiff::Timestamp;

use crate::json::Value;

/// The cell of a missing or zero time.
pub(crate) const UNKNOWN: &str = "<unknown>";

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats a duration of `seconds` in the short form of tables, with less precision for longer durations (`119s`,
/// `5m30s`, `42m`, `3h5m`, `30h`, `2d6h`, `45d`, `2y35d`, `9y`).
///
/// One second in the future counts as now, because clocks differ; anything later is `<invalid>`.
pub(crate) fn human_duration(seconds: i64) -> String {
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two_units(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two_units(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two_units(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two_units(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

fn two_units(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
}

/// Formats the time from `timestamp` (RFC 3339) to `now`; `<unknown>` if it is absent or null.
pub(crate) fn since(timestamp: Option<&Value>, now: Timestamp) -> String {
    match timestamp.and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(then) => human_duration(seconds_between(then, now)),
        None => UNKNOWN.to_owned(),
    }
}

/// Whole seconds from `then` to `now`, truncated towards zero as upstream.
pub(crate) fn seconds_between(then: Timestamp, now: Timestamp) -> i64 {
    i64::try_from((now.as_nanosecond() - then.as_nanosecond()) / 1_000_000_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(-2, "<invalid>")]
    #[case(-1, "0s")]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(599, "9m59s")]
    #[case(600, "10m")]
    #[case(10_799, "179m")]
    #[case(10_800, "3h")]
    #[case(11_100, "3h5m")]
    #[case(28_800, "8h")]
    #[case(172_799, "47h")]
    #[case(172_800, "2d")]
    #[case(176_400, "2d1h")]
    #[case(8 * DAY, "8d")]
    #[case(2 * YEAR, "2y")]
    #[case(2 * YEAR + DAY, "2y1d")]
    #[case(8 * YEAR + DAY, "8y")]
    fn precision_falls_with_length(#[case] seconds: i64, #[case] shown: &str) {
        assert_eq!(human_duration(seconds), shown);
    }
}
