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
}
