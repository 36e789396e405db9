//! Simple JSON paths, as printer columns and the `scale` subresource of definitions use them. Pure.
//! See `staging/src/k8s.io/client-go/util/jsonpath`.

use super::{Value, json};

/// A simple JSON path: fields, indexes, `[*]` and equality filters, the forms that printer columns may use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JsonPath {
    steps: Vec<PathStep>,
}

#[derive(Debug, Clone, PartialEq)]
enum PathStep {
    Field(String),
    Index(i64),
    Wildcard,
    Filter { path: Vec<String>, equals: bool, value: Value },
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

    fn field(rest: &str) -> Option<(Option<PathStep>, &str)> {
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
            "*" => Some(PathStep::Wildcard),
            _ => Some(PathStep::Field(name)),
        };
        Some((step, &rest[end..]))
    }

    fn bracket(inner: &str) -> Option<(Option<PathStep>, &str)> {
        if let Some(filter) = inner.strip_prefix("?(") {
            let (condition, after) = filter.split_once(")]")?;
            return Some((Some(Self::filter(condition)?), after));
        }
        if let Some(quoted) = inner.strip_prefix('\'') {
            let (name, after) = quoted.split_once("']")?;
            return Some((Some(PathStep::Field(name.replace("\\.", "."))), after));
        }
        let (index, after) = inner.split_once(']')?;
        let step = if index == "*" { PathStep::Wildcard } else { PathStep::Index(index.trim().parse().ok()?) };
        Some((Some(step), after))
    }

    fn filter(condition: &str) -> Option<PathStep> {
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
        Some(PathStep::Filter { path, equals, value })
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

impl PathStep {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(map)) => map.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(list)) => {
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length + index } else { *index };
                usize::try_from(index).ok().and_then(|index| list.get(index)).into_iter().collect()
            }
            (Self::Wildcard, Value::Array(list)) => list.iter().collect(),
            (Self::Wildcard, Value::Object(map)) => map.values().collect(),
            (Self::Filter { path, equals, value: wanted }, Value::Array(list)) => list
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
    use rstest::rstest;

    use super::*;

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
}
