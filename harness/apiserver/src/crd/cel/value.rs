//! Converts values of custom resources to CEL values, typed by their schema. Follows
//! `staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go` of Kubernetes 1.36. PURE.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, FixedOffset};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::types::escape;
use crate::json::Value;

/// A value and its schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct TypedValue<'a> {
    pub(super) value: &'a Value,
    pub(super) schema: &'a Value,
    /// Sorts lists of type `set` and `map`, so that their order does not matter in comparisons.
    pub(super) ordered: bool,
}

impl<'a> TypedValue<'a> {
    fn text(&self, field: &str) -> &'a str {
        self.schema.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn below(&self, value: &'a Value, schema: Option<&'a Value>) -> Self {
        Self { value, schema: schema.unwrap_or(&Value::Null), ordered: self.ordered }
    }

    fn items(&self, items: &'a [Value]) -> Vec<&'a Value> {
        let mut items: Vec<&Value> = items.iter().collect();
        if self.ordered && self.text("x-kubernetes-list-type") == "set" {
            items.sort_by_cached_key(ToString::to_string);
        }
        if self.ordered && self.text("x-kubernetes-list-type") == "map" {
            items.sort_by_cached_key(|item| keys_of(item, self.schema));
        }
        items
    }
}

/// Returns the key values of an item of a `map` list.
pub(super) fn keys_of(item: &Value, schema: &Value) -> String {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
    let keys = keys.filter_map(Value::as_str).map(|key| item.get(key).unwrap_or(&Value::Null).to_string());
    keys.collect::<Vec<_>>().join(",")
}

impl Serialize for TypedValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Null => serializer.serialize_none(),
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::Number(number) => match number.as_i64().filter(|_| self.text("type") != "number") {
                Some(number) => serializer.serialize_i64(number),
                None => serializer.serialize_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => self.serialize_text(text, serializer),
            Value::Array(items) => {
                let items = self.items(items);
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&self.below(item, self.schema.get("items")))?;
                }
                list.end()
            }
            Value::Object(fields) => {
                let declared = self.schema.get("properties");
                let extra = self.schema.get("additionalProperties").filter(|extra| extra.is_object());
                let mut map = serializer.serialize_map(None)?;
                for (name, value) in fields {
                    let known = declared.and_then(|declared| declared.get(name));
                    // Keys of maps are data and stay; names of fields are escaped.
                    let key = if extra.is_some() { Some(name.to_string()) } else { escape(name) };
                    if let Some(key) = key {
                        map.serialize_entry(&key, &self.below(value, known.or(extra)))?;
                    }
                }
                map.end()
            }
        }
    }
}

impl TypedValue<'_> {
    fn serialize_text<S: Serializer>(&self, text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        match self.text("format") {
            "byte" => match STANDARD.decode(text) {
                Ok(bytes) => serializer.serialize_bytes(&bytes),
                Err(_) => serializer.serialize_str(text),
            },
            "date" | "date-time" => match timestamp(text) {
                Some(moment) => cel::Timestamp(moment).serialize(serializer),
                None => serializer.serialize_str(text),
            },
            "duration" => match duration(text) {
                Some(length) => cel::Duration(length).serialize(serializer),
                None => serializer.serialize_str(text),
            },
            _ => serializer.serialize_str(text),
        }
    }
}

fn timestamp(text: &str) -> Option<DateTime<FixedOffset>> {
    let whole = if text.contains(['T', 't']) { text.to_owned() } else { format!("{text}T00:00:00Z") };
    DateTime::parse_from_rfc3339(&whole).ok()
}

/// Parses a Go duration such as `1h30m` or `-1.5s`.
fn duration(text: &str) -> Option<chrono::Duration> {
    crate::registry::go_duration(text).map(chrono::Duration::nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("1h30m", Some(5400))]
    #[case("-90s", Some(-90))]
    #[case("0", Some(0))]
    #[case("soon", None)]
    #[case("", None)]
    fn durations(#[case] text: &str, #[case] seconds: Option<i64>) {
        assert_eq!(duration(text).map(|length| length.num_seconds()), seconds);
    }
}
