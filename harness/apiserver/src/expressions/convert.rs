//! Converts between JSON and CEL values without a schema, as expressions of admission see objects. Follows
//! `DefaultTypeAdapter` of cel-go. PURE.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cel::common::types::{
    CelBytes, CelDouble, CelDuration, CelInt, CelMapKey, CelNull, CelString, CelTimestamp, CelUInt,
};
use cel::common::value::Val;
use chrono::{DateTime, FixedOffset};

use super::shared::SharedValue;
use crate::json::{Map, Number, Value};

/// Deepest level that is converted.
const MAX_VALUE_DEPTH: usize = 200;

/// Returns a JSON value as a CEL value.
pub(crate) fn from_json(value: &Value) -> SharedValue {
    from_json_at(value, 0)
}

fn from_json_at(value: &Value, depth: usize) -> SharedValue {
    match value {
        _ if depth > MAX_VALUE_DEPTH => SharedValue::new(CelNull),
        Value::Null => SharedValue::new(CelNull),
        Value::Bool(flag) => SharedValue::bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => SharedValue::new(CelInt::from(number)),
            None => SharedValue::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => SharedValue::text(text.as_str()),
        Value::Array(items) => SharedValue::list(items.iter().map(|item| from_json_at(item, depth + 1)).collect()),
        Value::Object(fields) => {
            let entry = |(name, value): (&crate::json::Key, &Value)| {
                (CelMapKey::from(name.to_string()), from_json_at(value, depth + 1))
            };
            SharedValue::map(fields.iter().map(entry).collect())
        }
    }
}

/// The kind of a value that has no form in JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("a value that is nested too deeply")]
    Depth,
    #[error("a map with keys of type {0}")]
    Keys(String),
    #[error("{0}")]
    Type(String),
}

/// Returns a CEL value as JSON.
///
/// # Errors
/// The value, or a part of it, has no form in JSON.
pub(crate) fn to_json(value: &SharedValue) -> Result<Value, JsonError> {
    to_json_at(value, 0)
}

fn to_json_at(value: &SharedValue, depth: usize) -> Result<Value, JsonError> {
    let unsupported = || JsonError::Type(value.get_type().name().to_owned());
    if depth > MAX_VALUE_DEPTH {
        return Err(JsonError::Depth);
    }
    if let Some(list) = value.as_list() {
        let items = list.inner().iter().map(|item| to_json_at(&SharedValue::copy(&**item), depth + 1));
        return Ok(Value::Array(items.collect::<Result<_, _>>()?));
    }
    if let Some(map) = value.as_map() {
        let mut fields = Map::new();
        for (key, item) in map.inner() {
            let key = SharedValue::copy(key.inner());
            let key = key.as_text().ok_or_else(|| JsonError::Keys(key.get_type().name().to_owned()))?;
            fields.insert(key, to_json_at(&SharedValue::copy(&**item), depth + 1)?);
        }
        return Ok(Value::Object(fields));
    }
    if let Some(content) = value.as_optional() {
        return content.map_or(Ok(Value::Null), |content| to_json_at(&content, depth + 1));
    }
    if let Some(flag) = value.as_bool() {
        return Ok(flag.into());
    }
    if let Some(number) = value.as_int() {
        return Ok(number.into());
    }
    if let Some(number) = value.downcast::<CelUInt>() {
        return Ok((*number.inner()).into());
    }
    if let Some(number) = value.downcast::<CelDouble>() {
        return Number::from_f64(*number.inner()).map(Value::Number).ok_or_else(unsupported);
    }
    if let Some(text) = value.downcast::<CelString<'static>>() {
        return Ok(text.inner().into());
    }
    if let Some(bytes) = value.downcast::<CelBytes<'static>>() {
        return Ok(STANDARD.encode(bytes.inner()).into());
    }
    if let Some(moment) = value.downcast::<CelTimestamp>() {
        return Ok(rfc3339_nano(&moment.inner().to_utc().fixed_offset()).into());
    }
    if let Some(length) = value.downcast::<CelDuration>() {
        let seconds = length.inner().num_seconds() as f64 + f64::from(length.inner().subsec_nanos()) / 1e9;
        return Ok(format!("{seconds}s").into());
    }
    if value.downcast::<CelNull>().is_some() {
        return Ok(Value::Null);
    }
    Err(unsupported())
}

/// Returns a moment as Go's `time.RFC3339Nano` does: without zeros behind the last digit of a second.
pub(super) fn rfc3339_nano(moment: &DateTime<FixedOffset>) -> String {
    let nanoseconds = format!("{:09}", moment.timestamp_subsec_nanos());
    let part = nanoseconds.trim_end_matches('0');
    let dot = if part.is_empty() { "" } else { "." };
    let zone = if moment.offset().local_minus_utc() == 0 { "Z".to_owned() } else { moment.format("%:z").to_string() };
    format!("{}{dot}{part}{zone}", moment.format("%Y-%m-%dT%H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn an_object_survives_the_way_there_and_back() {
        let object = json!({"a": [1, -2, 1.5, true, null, "x"], "b": {"c-d/e": {}, "namespace": "n"}});
        assert_eq!(to_json(&from_json(&object)), Ok(object));
    }

    #[test]
    fn values_that_json_has_no_form_for_are_named() {
        let map = SharedValue::map(vec![(CelMapKey::from(1_i64), SharedValue::bool(true))]);
        assert_eq!(to_json(&map), Err(JsonError::Keys("int".to_owned())));
    }
}
