//! Converts values of custom resources to CEL values, typed by their schema. Follows
//! `staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go` of Kubernetes 1.36. PURE.

use cel::common::types::{CelBytes, CelDouble, CelDuration, CelInt, CelMapKey, CelNull, CelTimestamp};
use chrono::{DateTime, FixedOffset};

use super::list_kind::ListKind;
use super::shared::SharedValue;
use super::types::escape;
use crate::go_base64;
use crate::go_duration::go_duration;
use crate::json::Value;

/// Deepest level that is converted; expressions see null below it. Schemas are less deep.
const MAX_JSON_DEPTH: usize = 100;

/// A value and its schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypedValue<'a> {
    pub(crate) value: &'a Value,
    pub(crate) schema: &'a Value,
    /// The level of the value within the value that a rule is about.
    pub(crate) depth: usize,
}

impl<'a> TypedValue<'a> {
    fn text(&self, field: &str) -> &'a str {
        self.schema.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn below(&self, value: &'a Value, schema: Option<&'a Value>) -> SharedValue {
        Self { value, schema: schema.unwrap_or(&Value::Null), depth: self.depth + 1 }.to_cel()
    }

    fn list_kind(&self) -> ListKind {
        match self.text("x-kubernetes-list-type") {
            "set" => ListKind::Set,
            "map" => {
                let keys = self.schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                let escaped = keys.map(|key| CelMapKey::from(escape(key).unwrap_or_else(|| key.to_owned())));
                ListKind::Map(escaped.collect())
            }
            _ => ListKind::Atomic,
        }
    }

    /// Returns the CEL value.
    pub(crate) fn to_cel(self) -> SharedValue {
        match self.value {
            _ if self.depth > MAX_JSON_DEPTH => SharedValue::new(CelNull),
            Value::Null => SharedValue::new(CelNull),
            Value::Bool(flag) => SharedValue::bool(*flag),
            Value::Number(number) => match number.as_i64().filter(|_| self.text("type") != "number") {
                Some(number) => SharedValue::new(CelInt::from(number)),
                None => SharedValue::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
            },
            Value::String(text) => self.text_to_cel(text),
            Value::Array(items) => {
                let schema = self.schema.get("items");
                let items = items.iter().map(|item| self.below(item, schema)).collect();
                SharedValue::typed_list(items, self.list_kind())
            }
            Value::Object(fields) => {
                let declared = self.schema.get("properties");
                let extra = self.schema.get("additionalProperties").filter(|extra| extra.is_object());
                let entries = fields.iter().filter_map(|(name, value)| {
                    let known = declared.and_then(|declared| declared.get(name));
                    // Fields that are null are absent: `unstructuredMap.Find`.
                    let is_absent = value.is_null() && declared.is_some();
                    // Keys of maps are data and stay; names of fields are escaped. Those that expressions cannot name
                    // still tell objects apart.
                    let escaped = if extra.is_some() { None } else { escape(name) };
                    let key = escaped.unwrap_or_else(|| name.to_string());
                    (!is_absent).then(|| (CelMapKey::from(key), self.below(value, known.or(extra))))
                });
                SharedValue::map(entries.collect())
            }
        }
    }

    fn text_to_cel(&self, text: &str) -> SharedValue {
        let typed = match self.text("format") {
            "byte" => go_base64::decode(text).ok().map(|bytes| SharedValue::new(CelBytes::from(bytes))),
            "date" | "date-time" => timestamp(text).map(|moment| SharedValue::new(CelTimestamp::from(moment))),
            "duration" => duration(text).map(|length| SharedValue::new(CelDuration::from(length))),
            _ => None,
        };
        typed.unwrap_or_else(|| SharedValue::text(text))
    }
}

/// Returns the key values of an item of a `map` list.
pub(crate) fn keys_of(item: &Value, schema: &Value) -> String {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
    let keys = keys.filter_map(Value::as_str).map(|key| item.get(key).unwrap_or(&Value::Null).to_string());
    keys.collect::<Vec<_>>().join(",")
}

fn timestamp(text: &str) -> Option<DateTime<FixedOffset>> {
    let whole = if text.contains(['T', 't']) { text.to_owned() } else { format!("{text}T00:00:00Z") };
    DateTime::parse_from_rfc3339(&whole).ok()
}

/// Parses a Go duration such as `1h30m` or `-1.5s`.
fn duration(text: &str) -> Option<chrono::Duration> {
    go_duration(text).map(chrono::Duration::nanoseconds)
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
