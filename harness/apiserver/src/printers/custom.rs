//! Columns of custom resources: `additionalPrinterColumns`, read by JSON paths. Follows
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go` of
//! Kubernetes 1.36. PURE.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;

use super::column::{self, definition, describe};
use super::duration;
use crate::field_errors::go_json;
use crate::go_float;
use crate::json::path::JsonPath;
use crate::json::{Value, json};
use crate::schema::ZERO_TIME;

/// The columns that a version of a custom resource declares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CustomColumns {
    columns: Vec<CustomColumn>,
}

#[derive(Debug, Clone, PartialEq)]
struct CustomColumn {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    path: JsonPath,
}

impl CustomColumns {
    /// Parses `additionalPrinterColumns`; without any, the age is the only column after the name.
    ///
    /// A column whose path cannot be parsed ends the list.
    pub(crate) fn parse(declared: Option<&Value>) -> Self {
        let declared = declared.and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        if declared.is_empty() {
            return Self { columns: vec![CustomColumn::age()] };
        }
        Self { columns: declared.iter().map_while(CustomColumn::parse).collect() }
    }

    /// Returns the columns of a custom resource's Scale.
    pub(crate) fn for_scale() -> Self {
        let replicas = |name: &str, description: &str, path: &str| CustomColumn {
            name: name.to_owned(),
            kind: "integer".to_owned(),
            description: description.to_owned(),
            path: JsonPath::parse(path).unwrap_or_default(),
            ..CustomColumn::age()
        };
        Self {
            columns: vec![
                replicas("Desired", "Number of desired replicas", ".spec.replicas"),
                replicas("Available", "Number of actual replicas", ".status.replicas"),
                CustomColumn::age(),
            ],
        }
    }

    pub(super) fn definitions(&self) -> Vec<Value> {
        let own = self.columns.iter().map(|c| definition(&c.name, &c.kind, &c.format, &c.description, c.priority));
        std::iter::once(column::NAME.definition()).chain(own).collect()
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object.pointer("/metadata/name").cloned().unwrap_or_else(|| json!(""));
        std::iter::once(name).chain(self.columns.iter().map(|column| column.cell(object, now))).collect()
    }
}

impl CustomColumn {
    fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: describe("apimachinery.pkg.apis.meta.v1.ObjectMeta", "creationTimestamp"),
            priority: 0,
            path: JsonPath::parse(".metadata.creationTimestamp").unwrap_or_default(),
        }
    }

    fn parse(declared: &Value) -> Option<Self> {
        let text = |field: &str| declared[field].as_str().unwrap_or_default().to_owned();
        let description = match text("description") {
            empty if empty.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath"))
            }
            given => given,
        };
        Some(Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description,
            priority: declared["priority"].as_i64().unwrap_or_default(),
            path: JsonPath::parse(&text("jsonPath"))?,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.first(object) else { return Value::Null };
        match (self.kind.as_str(), &*value) {
            ("string", Value::Null) => json!("<no value>"),
            (_, Value::Null) => Value::Null,
            ("string", Value::String(text)) => json!(text),
            ("string", other @ (Value::Array(_) | Value::Object(_))) => json!(go_json(other)),
            ("string", Value::Number(number)) if number.is_f64() => {
                number.as_f64().map_or(Value::Null, |float| json!(go_float::plain(float)))
            }
            ("string", other) => json!(other.to_string()),
            ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => json!(integer),
                (None, Some(float)) => json!(truncated(float)),
                (None, None) => Value::Null,
            },
            ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
            ("boolean", Value::Bool(_)) => value.into_owned(),
            ("date", Value::String(text)) if text.is_empty() || text == "null" => json!(duration::UNKNOWN),
            ("date", Value::String(text)) if !is_rfc3339(text) => json!("<invalid>"),
            ("date", Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(then) if then == ZERO_TIME => json!(duration::UNKNOWN),
                Ok(_) => json!(duration::since(Some(&value), now)),
                Err(_) => json!("<invalid>"),
            },
            _ => Value::Null,
        }
    }
}

/// Converts a number to an integer as Go does on amd64: what does not fit becomes the least integer.
fn truncated(float: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&float) { float as i64 } else { i64::MIN }
}

/// Returns true for the form that Go's `time.RFC3339` has; the crate `jiff` reads more.
fn is_rfc3339(text: &str) -> bool {
    const FORM: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$";
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(FORM).ok());
    PATTERN.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("string", json!(5), json!("5"))]
    #[case("string", json!("five"), json!("five"))]
    #[case("integer", json!(5.7), json!(5))]
    #[case("integer", json!("5"), Value::Null)]
    #[case("boolean", json!(true), json!(true))]
    #[case("date", json!("2026-01-01T00:00:00Z"), json!("60s"))]
    #[case("date", json!("yesterday"), json!("<invalid>"))]
    #[case("date", json!("2026-01-01 00:00:00Z"), json!("<invalid>"))]
    #[case("date", json!("2026-01-01T00:00Z"), json!("<invalid>"))]
    #[case("date", json!("2026-01-01T01:00:00+01:00"), json!("60s"))]
    #[case("date", json!("0001-01-01T00:00:00Z"), json!("<unknown>"))]
    #[case("date", json!(5), Value::Null)]
    #[case("number", json!(5), json!(5.0))]
    #[case("number", json!(1e21), json!(1e21))]
    #[case("number", json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0))]
    #[case("string", json!(1_234_567.5), json!("1.2345675e+06"))]
    #[case("string", json!(1_234_567), json!("1234567"))]
    #[case("string", json!(0.5), json!("0.5"))]
    #[case("integer", json!(1e30), json!(i64::MIN))]
    #[case("boolean", json!("true"), Value::Null)]
    #[case("string", json!({"a": "<b>"}), json!("{\"a\":\"\\u003cb\\u003e\"}"))]
    #[case("string", json!(["a", 1]), json!("[\"a\",1]"))]
    #[case("string", json!(true), json!("true"))]
    #[case("date", json!(""), json!("<unknown>"))]
    #[case("string", json!(null), json!("<no value>"))]
    #[case("integer", json!(null), Value::Null)]
    #[case("string", json!({"a": [1]}), json!("{\"a\":[1]}"))]
    fn cells_follow_the_declared_type(#[case] kind: &str, #[case] value: Value, #[case] cell: Value) {
        let columns = CustomColumns::parse(Some(&json!([{"name": "C", "type": kind, "jsonPath": ".v"}])));
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(columns.cells(&json!({"metadata": {"name": "n"}, "v": value}), now), vec![json!("n"), cell]);
    }

    #[test]
    fn a_path_that_cannot_be_parsed_ends_the_columns() {
        let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
        let declared = json!([column("A", ".a"), column("B", ".b[?(@.x=="), column("C", ".c")]);
        let columns = CustomColumns::parse(Some(&declared));
        let names: Vec<Value> = columns.definitions().iter().map(|definition| definition["name"].clone()).collect();
        assert_eq!(names, ["Name", "A"]);
        assert_eq!(columns.cells(&json!({"metadata": {"name": "n"}, "a": 1}), Timestamp::UNIX_EPOCH).len(), 2);
    }
}
