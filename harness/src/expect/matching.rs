//! Partial match of JSON values, with a few operators.
//!
//! A map matches if every field of the pattern matches; it may have other fields. A list matches item by item and must
//! have the same length. A scalar must be equal; `null` matches a missing or null value. A map with a key that begins
//! with `$` is an operator, see [`OPERATORS`].

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::fixture::error::Fail;
use crate::fixture::pattern::glob;
use crate::fixture::time_text;

/// The operators: name, argument, meaning.
pub const OPERATORS: [(&str, &str, &str); 12] = [
    ("$any", "pattern", "at least one item of the list matches"),
    ("$all", "pattern", "every item of the list matches (an empty list does)"),
    ("$none", "pattern", "no item of the list matches (a missing list does)"),
    ("$one", "pattern", "exactly one item of the list matches"),
    ("$len", "number", "length of the list, number of fields of the map; a missing one has 0"),
    ("$keys", "list of names", "the fields of the map are exactly these; a missing map has none"),
    ("$not", "pattern", "does not match"),
    ("$like", "text with `*`", "a text that matches the glob"),
    ("$min", "number", "a number not below"),
    ("$max", "number", "a number not above"),
    ("$time", "time from the start, e.g. `40s`, `-2m`", "an RFC 3339 time in that second"),
    ("$uid", "object, e.g. `pods/a`", "the uid of the object of that name (the last one that had it)"),
];

/// Context of a match.
#[derive(Clone, Copy)]
pub struct MatchContext<'a> {
    /// The time of `t=+0s`.
    pub start: Timestamp,
    /// Allowed deviation of times.
    pub tolerance: Duration,
    /// Finds the uid of an object named as in a fixture.
    pub uid: &'a dyn Fn(&str) -> Option<String>,
}

impl fmt::Debug for MatchContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("start", &self.start).finish_non_exhaustive()
    }
}

/// A difference between a value and its pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The field, e.g. `status.conditions[0].reason`.
    pub path: String,
    /// The expected value.
    pub wanted: String,
    /// The actual value.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "expected {}, found {}", self.wanted, self.found)
    }
}

/// Checks the operators of `pattern`.
///
/// # Errors
///
/// If an operator is unknown, has sibling fields, or has an argument of the wrong type.
pub fn lint(pattern: &Value) -> Result<(), Fail> {
    match pattern {
        Value::Array(items) => items.iter().try_for_each(lint),
        Value::Object(fields) => {
            let Some((name, argument)) = fields.iter().find(|(name, _)| name.starts_with('$')) else {
                return fields.values().try_for_each(lint);
            };
            let Some((_, wants, _)) = OPERATORS.iter().find(|(known, ..)| known == name) else {
                let known = OPERATORS.iter().map(|(known, ..)| *known);
                return Err(Fail::new(format!("`{name}` is not an operator")).did_you_mean(name, known));
            };
            if fields.len() > 1 {
                return Err(Fail::new(format!("`{name}` has sibling fields"))
                    .hint("an operator must be the only key of its map"));
            }
            let good = match name.as_str() {
                "$len" | "$min" | "$max" => argument.is_number(),
                "$keys" => argument.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
                "$like" | "$uid" => argument.is_string(),
                "$time" => argument.as_str().is_some_and(|text| time_text::signed(text).is_ok()),
                _ => return lint(argument),
            };
            if good { Ok(()) } else { Err(Fail::new(format!("`{name}` takes a {wants}"))) }
        }
        _ => Ok(()),
    }
}

/// Compares `value` with `pattern`.
///
/// # Errors
///
/// The first difference.
pub fn matches(pattern: &Value, value: Option<&Value>, around: MatchContext<'_>) -> Result<(), Mismatch> {
    compare(pattern, value, "", around)
}

fn compare(pattern: &Value, value: Option<&Value>, path: &str, around: MatchContext<'_>) -> Result<(), Mismatch> {
    let value = value.filter(|value| !value.is_null());
    let differ = |wanted: String| Err(Mismatch { path: path.to_owned(), wanted, found: show(value) });
    match pattern {
        Value::Object(fields) => {
            if let Some((name, argument)) = fields.iter().find(|(name, _)| name.starts_with('$')) {
                return operator(name, argument, value, path, around);
            }
            let empty = value.is_none() && fields.values().all(takes_nothing);
            if !empty && !value.is_some_and(Value::is_object) {
                return differ(pattern.to_string());
            }
            for (name, pattern) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(pattern, value.and_then(|value| value.get(name)), &path, around)?;
            }
            Ok(())
        }
        Value::Array(items) => {
            let found = list(value);
            if found.len() != items.len() || value.is_some_and(|value| !value.is_array()) {
                return differ(format!("{} ({} items)", pattern, items.len()));
            }
            for (index, (pattern, value)) in items.iter().zip(found).enumerate() {
                compare(pattern, Some(value), &format!("{path}[{index}]"), around)?;
            }
            Ok(())
        }
        Value::Null if value.is_none() => Ok(()),
        Value::Null => differ("nothing".to_owned()),
        Value::Number(wanted) => match value {
            Some(Value::Number(found)) if same_number(wanted, found) => Ok(()),
            _ => differ(pattern.to_string()),
        },
        _ if value == Some(pattern) => Ok(()),
        _ => differ(pattern.to_string()),
    }
}

/// Returns true if a missing value matches the pattern, so that `{ a: { b: null } }` matches `{}`.
fn takes_nothing(pattern: &Value) -> bool {
    match pattern {
        Value::Null => true,
        Value::Object(fields) => fields.iter().all(|(name, argument)| match name.as_str() {
            "$none" | "$all" => true,
            "$len" => argument.as_u64() == Some(0),
            "$not" => !takes_nothing(argument),
            name if name.starts_with('$') => false,
            _ => takes_nothing(argument),
        }),
        _ => false,
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn same_number(a: &serde_json::Number, b: &serde_json::Number) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a.total_cmp(&b).is_eq())
}

fn operator(
    name: &str,
    argument: &Value,
    value: Option<&Value>,
    path: &str,
    around: MatchContext<'_>,
) -> Result<(), Mismatch> {
    let hits = || list(value).iter().filter(|item| compare(argument, Some(item), path, around).is_ok()).count();
    let (holds, wanted) = match name {
        "$any" => (hits() > 0, format!("an item like {argument}")),
        "$all" => (hits() == list(value).len(), format!("only items like {argument}")),
        "$none" => (hits() == 0, format!("no item like {argument}")),
        "$one" => (hits() == 1, format!("exactly one item like {argument}")),
        "$len" => {
            let length = value.map_or(0, |value| match value {
                Value::Array(items) => items.len(),
                Value::Object(fields) => fields.len(),
                _ => usize::MAX,
            });
            (argument.as_u64().is_some_and(|wanted| u64::try_from(length) == Ok(wanted)), format!("{argument} items"))
        }
        "$keys" => {
            let mut wanted: Vec<&str> = list(Some(argument)).iter().filter_map(Value::as_str).collect();
            wanted.sort_unstable();
            let mut found: Vec<&str> = value
                .and_then(Value::as_object)
                .map(|fields| fields.keys().map(String::as_str).collect())
                .unwrap_or_default();
            found.sort_unstable();
            (wanted == found, format!("exactly the fields {wanted:?}"))
        }
        "$not" => (compare(argument, value, path, around).is_err(), format!("anything but {argument}")),
        "$like" => {
            let pattern = argument.as_str().unwrap_or_default();
            (value.and_then(Value::as_str).is_some_and(|text| glob(pattern, text)), format!("a text like {argument}"))
        }
        "$min" => (number(value) >= number(Some(argument)), format!("at least {argument}")),
        "$max" => (value.is_some() && number(value) <= number(Some(argument)), format!("at most {argument}")),
        "$time" => {
            let offset = argument.as_str().and_then(|text| time_text::signed(text).ok()).unwrap_or_default();
            let wanted = around.start.checked_add(offset).unwrap_or_default();
            let found = value.and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
            let text = argument.as_str().unwrap_or_default();
            let holds = found.is_some_and(|found| is_in_second(found, wanted, (around.tolerance, Duration::ZERO)));
            (holds, format!("the time {text} ({})", time_text::rfc3339(wanted)))
        }
        "$uid" => {
            let wanted = (around.uid)(argument.as_str().unwrap_or_default());
            (wanted.is_some() && value.and_then(Value::as_str) == wanted.as_deref(), format!("the uid of {argument}"))
        }
        _ => (false, format!("{name}: {argument}")),
    };
    if holds { Ok(()) } else { Err(Mismatch { path: path.to_owned(), wanted, found: show(value) }) }
}

fn number(value: Option<&Value>) -> f64 {
    value.and_then(Value::as_f64).unwrap_or(f64::NEG_INFINITY)
}

/// Formats a value for a message, truncated to 240 characters.
pub fn show(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    if text.chars().count() <= 240 { text } else { format!("{}…", text.chars().take(240).collect::<String>()) }
}

/// Returns true if `found`, which the API truncates to whole seconds, may stand for `wanted`: off by at most
/// `tolerance`, or up to `late` later still.
pub(crate) fn is_in_second(found: Timestamp, wanted: Timestamp, (tolerance, late): (Duration, Duration)) -> bool {
    const NANOS: i128 = 1_000_000_000;
    let begin = found.as_nanosecond().div_euclid(NANOS) * NANOS;
    let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX / 4);
    let wanted = wanted.as_nanosecond();
    begin <= wanted + nanos(tolerance + late) && wanted - nanos(tolerance) < begin + NANOS
}

/// Formats a duration as `t=+40s`.
pub fn at(offset: Duration) -> String {
    format!("t=+{}", time_text::seconds(offset))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn check(pattern: &Value, value: &Value) -> Result<(), Mismatch> {
        let start = "2030-01-01T00:00:00Z".parse().unwrap();
        let uid = |name: &str| (name == "pods/a").then(|| "u1".to_owned());
        matches(pattern, Some(value), MatchContext { start, tolerance: Duration::ZERO, uid: &uid })
    }

    #[rstest]
    #[case(json!({}), json!({"a": 1}))]
    #[case(json!({"a": 1}), json!({"a": 1, "b": 2}))]
    #[case(json!({"a": 1}), json!({"a": 1.0}))]
    #[case(json!({"a": null}), json!({}))]
    #[case(json!({"a": {"b": null}}), json!({}))]
    #[case(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 2, "c": 3}]}))]
    #[case(json!({"a": []}), json!({}))]
    #[case(json!({"a": {"$any": {"t": "x"}}}), json!({"a": [{"t": "y"}, {"t": "x"}]}))]
    #[case(json!({"a": {"$all": {"t": "x"}}}), json!({"a": []}))]
    #[case(json!({"a": {"$none": {"t": "x"}}}), json!({}))]
    #[case(json!({"a": {"$one": {"t": "x"}}}), json!({"a": [{"t": "x"}, {"t": "y"}]}))]
    #[case(json!({"a": {"$len": 0}}), json!({}))]
    #[case(json!({"a": {"$len": 2}}), json!({"a": {"x": 1, "y": 2}}))]
    #[case(json!({"a": {"$keys": ["y", "x"]}}), json!({"a": {"x": 1, "y": 2}}))]
    #[case(json!({"a": {"$not": "x"}}), json!({}))]
    #[case(json!({"a": {"$like": "b*d"}}), json!({"a": "bcd"}))]
    #[case(json!({"a": {"$min": 2}}), json!({"a": 2}))]
    #[case(json!({"a": {"$max": 2}}), json!({"a": 2}))]
    #[case(json!({"a": {"$time": "40s"}}), json!({"a": "2030-01-01T00:00:40Z"}))]
    #[case(json!({"a": {"$time": "-1s"}}), json!({"a": "2029-12-31T23:59:59.999Z"}))]
    #[case(json!({"a": {"$uid": "pods/a"}}), json!({"a": "u1"}))]
    fn these_match(#[case] pattern: Value, #[case] value: Value) {
        assert_eq!(lint(&pattern), Ok(()));
        assert_eq!(check(&pattern, &value), Ok(()));
    }

    #[rstest]
    #[case(json!({"a": 1}), json!({"a": "1"}), "a: expected 1, found \"1\"")]
    #[case(json!({"a": {"b": 1}}), json!({}), "a: expected {\"b\":1}, found nothing")]
    #[case(json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), "a.b: expected 1, found 2")]
    #[case(json!({"a": null}), json!({"a": 1}), "a: expected nothing, found 1")]
    #[case(json!({"a": [1]}), json!({"a": [1, 2]}), "a: expected [1] (1 items), found [1,2]")]
    #[case(json!({"a": [1]}), json!({"a": {"0": 1}}), "a: expected [1] (1 items), found {\"0\":1}")]
    #[case(json!({"a": {"$any": 1}}), json!({"a": [2]}), "a: expected an item like 1, found [2]")]
    #[case(json!({"a": {"$all": 1}}), json!({"a": [1, 2]}), "a: expected only items like 1, found [1,2]")]
    #[case(json!({"a": {"$none": 1}}), json!({"a": [1]}), "a: expected no item like 1, found [1]")]
    #[case(json!({"a": {"$one": 1}}), json!({"a": [1, 1]}), "a: expected exactly one item like 1, found [1,1]")]
    #[case(json!({"a": {"$len": 1}}), json!({"a": []}), "a: expected 1 items, found []")]
    #[case(json!({"a": {"$min": 2}}), json!({}), "a: expected at least 2, found nothing")]
    #[case(json!({"a": {"$max": 2}}), json!({}), "a: expected at most 2, found nothing")]
    #[case(json!({"a": {"$like": "x*"}}), json!({"a": 1}), "a: expected a text like \"x*\", found 1")]
    #[case(json!({"a": {"$uid": "pods/b"}}), json!({"a": "u1"}), "a: expected the uid of \"pods/b\", found \"u1\"")]
    fn these_do_not(#[case] pattern: Value, #[case] value: Value, #[case] text_matches: &str) {
        assert_eq!(check(&pattern, &value).unwrap_err().to_string(), text_matches);
    }

    #[rstest]
    #[case(json!({"$ayn": 1}), "did you mean `$any`?")]
    #[case(json!({"a": [{"$any": 1, "b": 2}]}), "only key of its map")]
    #[case(json!({"$len": "x"}), "takes a number")]
    #[case(json!({"$time": "40"}), "takes a time")]
    #[case(json!({"$all": {"$len": "x"}}), "takes a number")]
    fn bad_patterns(#[case] pattern: Value, #[case] text_matches: &str) {
        let fail = lint(&pattern).unwrap_err();
        assert!(fail.to_string().contains(text_matches), "{fail}");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z$]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{1,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_value_matches_itself(value in any_json()) {
            prop_assert!(check(&value, &value).is_ok());
        }

        #[test]
        fn nothing_panics(pattern in any_json(), value in any_json()) {
            let _ = lint(&pattern);
            let _ = check(&pattern, &value);
        }
    }
}
