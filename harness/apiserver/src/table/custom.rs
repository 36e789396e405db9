//! Columns of custom resources: `additionalPrinterColumns`, read by simple JSON paths. Follows
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go` of
//! Kubernetes 1.36. PURE.

use jiff::Timestamp;

use super::age;
use super::column::{self, definition, describe};
use crate::json::{Value, json};

/// The columns that a version of a custom resource declares.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomColumns {
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
    /// A column whose path cannot be parsed stays, with empty cells.
    pub fn parse(declared: Option<&Value>) -> Self {
        let declared = declared.and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        if declared.is_empty() {
            return Self { columns: vec![CustomColumn::age()] };
        }
        Self { columns: declared.iter().map(CustomColumn::parse).collect() }
    }

    /// Returns the columns of a custom resource's Scale.
    pub fn of_scale() -> Self {
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

    fn parse(declared: &Value) -> Self {
        let text = |field: &str| declared[field].as_str().unwrap_or_default().to_owned();
        let description = match text("description") {
            empty if empty.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath"))
            }
            given => given,
        };
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description,
            priority: declared["priority"].as_i64().unwrap_or_default(),
            path: JsonPath::parse(&text("jsonPath")).unwrap_or_default(),
        }
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.first(object) else { return Value::Null };
        match (self.kind.as_str(), value) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(text)) => json!(text),
            ("string", other) => json!(other.to_string()),
            ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => json!(integer),
                (None, Some(float)) => json!(float as i64),
                (None, None) => Value::Null,
            },
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(_) => json!(age::since(Some(value), now)),
                Err(_) => json!("<invalid>"),
            },
            _ => Value::Null,
        }
    }
}

/// A simple JSON path: fields, indexes, `[*]` and equality filters, the forms that printer columns may use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Each,
    Where { path: Vec<String>, equals: bool, value: Value },
}

impl JsonPath {
    /// Parses a path such as `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, `.a['b.c'][0]`.
    ///
    /// Returns `None` for paths of any other form.
    pub fn parse(path: &str) -> Option<Self> {
        let mut rest = path.trim();
        rest = rest.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(rest);
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('[') {
                Some(inner) => Self::bracket(inner)?,
                None => Self::field(rest)?,
            };
            steps.extend(step);
            rest = after;
        }
        Some(Self { steps })
    }

    fn field(rest: &str) -> Option<(Option<Step>, &str)> {
        let rest = rest.strip_prefix('.')?;
        let mut name = String::new();
        let mut chars = rest.char_indices();
        let mut end = rest.len();
        while let Some((index, letter)) = chars.next() {
            match letter {
                '\\' => name.push(chars.next()?.1),
                '.' | '[' => {
                    end = index;
                    break;
                }
                other => name.push(other),
            }
        }
        let step = match name.as_str() {
            "" => None,
            "*" => Some(Step::Each),
            _ => Some(Step::Field(name)),
        };
        Some((step, &rest[end..]))
    }

    fn bracket(inner: &str) -> Option<(Option<Step>, &str)> {
        if let Some(filter) = inner.strip_prefix("?(") {
            let (condition, after) = filter.split_once(")]")?;
            return Some((Some(Self::filter(condition)?), after));
        }
        if let Some(quoted) = inner.strip_prefix('\'') {
            let (name, after) = quoted.split_once("']")?;
            return Some((Some(Step::Field(name.replace("\\.", "."))), after));
        }
        let (index, after) = inner.split_once(']')?;
        let step = if index == "*" { Step::Each } else { Step::Index(index.trim().parse().ok()?) };
        Some((Some(step), after))
    }

    fn filter(condition: &str) -> Option<Step> {
        let (left, right, equals) = match (condition.split_once("=="), condition.split_once("!=")) {
            (Some((left, right)), _) => (left, right, true),
            (None, Some((left, right))) => (left, right, false),
            (None, None) => return None,
        };
        let path = left.trim().strip_prefix("@.")?.split('.').map(str::to_owned).collect();
        let right = right.trim();
        let quoted = |quote: char| right.strip_prefix(quote).and_then(|inner| inner.strip_suffix(quote));
        let value = match quoted('"').or_else(|| quoted('\'')) {
            Some(text) => json!(text),
            None => serde_json::from_str(right).ok()?,
        };
        Some(Step::Where { path, equals, value })
    }

    /// Returns the first value that the path selects.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let mut found = vec![object];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        found.into_iter().next()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(map)) => map.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(list)) => {
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length + index } else { *index };
                usize::try_from(index).ok().and_then(|index| list.get(index)).into_iter().collect()
            }
            (Self::Each, Value::Array(list)) => list.iter().collect(),
            (Self::Each, Value::Object(map)) => map.values().collect(),
            (Self::Where { path, equals, value: wanted }, Value::Array(list)) => list
                .iter()
                .filter(|item| {
                    let found = path.iter().try_fold(*item, |value, field| value.get(field));
                    found.is_some_and(|found| (found == wanted) == *equals)
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(".spec.replicas", json!({"spec": {"replicas": 3}}), Some(json!(3)))]
    #[case(".status.conditions[?(@.type==\"Ready\")].status",
        json!({"status": {"conditions": [{"type": "A", "status": "x"}, {"type": "Ready", "status": "True"}]}}), Some(json!("True")))]
    #[case(".a[1]", json!({"a": [1, 2]}), Some(json!(2)))]
    #[case(".a[-1]", json!({"a": [1, 2]}), Some(json!(2)))]
    #[case(".a[*].b", json!({"a": [{"b": 5}]}), Some(json!(5)))]
    #[case(".metadata.labels['x.y/z']", json!({"metadata": {"labels": {"x.y/z": "v"}}}), Some(json!("v")))]
    #[case(".metadata.labels.x\\.y/z", json!({"metadata": {"labels": {"x.y/z": "v"}}}), Some(json!("v")))]
    #[case(".missing.field", json!({}), None)]
    fn paths(#[case] path: &str, #[case] object: Value, #[case] found: Option<Value>) {
        assert_eq!(JsonPath::parse(path).unwrap().first(&object).cloned(), found);
    }

    #[rstest]
    #[case("spec")]
    #[case(".a[")]
    #[case(".a[?(@.b)]")]
    fn bad_paths(#[case] path: &str) {
        assert_eq!(JsonPath::parse(path), None);
    }

    proptest::proptest! {
        #[test]
        fn no_path_makes_it_panic(path in "[.a-z\\[\\]*0-9'?()@=!\"\\\\{}$-]{0,40}") {
            if let Some(path) = JsonPath::parse(&path) {
                path.first(&json!({"a": [{"b": 1}, 2], "c": {"d": "e"}}));
            }
        }
    }

    #[rstest]
    #[case("string", json!(5), json!("5"))]
    #[case("string", json!("five"), json!("five"))]
    #[case("integer", json!(5.7), json!(5))]
    #[case("integer", json!("5"), Value::Null)]
    #[case("boolean", json!(true), json!(true))]
    #[case("date", json!("2026-01-01T00:00:00Z"), json!("60s"))]
    #[case("date", json!("yesterday"), json!("<invalid>"))]
    fn cells_follow_the_declared_type(#[case] kind: &str, #[case] value: Value, #[case] cell: Value) {
        let columns = CustomColumns::parse(Some(&json!([{"name": "C", "type": kind, "jsonPath": ".v"}])));
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(columns.cells(&json!({"metadata": {"name": "n"}, "v": value}), now), vec![json!("n"), cell]);
    }
}
