//! Points in time as the API prints them: whole seconds (`metav1.Time`) or microseconds (`metav1.MicroTime`), in UTC.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// `now` as `metav1.Time`.
pub fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `now` as `metav1.MicroTime`.
pub fn micros(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Rewrites the times under `fields` as `metav1.Time`; what is no time stays for others to refuse.
pub fn normalize_seconds(map: &mut Map<String, Value>, fields: &[&str]) {
    normalize(map, fields, 20, seconds);
}

/// Rewrites the times under `fields` as `metav1.MicroTime`.
pub fn normalize_micros(map: &mut Map<String, Value>, fields: &[&str]) {
    normalize(map, fields, 27, micros);
}

fn normalize(map: &mut Map<String, Value>, fields: &[&str], length: usize, print: fn(Timestamp) -> String) {
    for field in fields {
        let Some(Value::String(text)) = map.get_mut(*field) else { continue };
        if text.len() == length && text.ends_with('Z') {
            continue;
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            *text = print(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

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
