//! Reads fields of objects and formats cells, for all printers. PURE. See `pkg/printers/internalversion/printers.go`.

use crate::json::Value;
use crate::metadata;

/// Returns the addresses of a load balancer's ingress points, sorted and without duplicates.
pub(crate) fn ingress_addresses(object: &Value) -> Vec<&str> {
    let mut addresses: Vec<&str> = items(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|ingress| text_or(ingress, "/ip", text(ingress, "/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

pub(crate) fn default_class(class: &Value, annotations: &[&str]) -> String {
    let name = text(class, "/metadata/name");
    let is_default = annotations.iter().any(|annotation| metadata::annotation(class, annotation) == Some("true"));
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}

pub(crate) fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

/// The cell of an empty value.
pub(crate) const NONE: &str = "<none>";

/// The cell of an unset field.
pub(crate) const UNSET: &str = "<unset>";

/// Returns the string at a JSON pointer, or `""`.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the string at a JSON pointer, or `otherwise` if it is absent or empty.
pub(crate) fn text_or<'a>(object: &'a Value, pointer: &str, otherwise: &'a str) -> &'a str {
    match text(object, pointer) {
        "" => otherwise,
        found => found,
    }
}

/// Returns the integer at a JSON pointer, or 0.
pub(crate) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the boolean at a JSON pointer, or `false`.
pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns the items of the list at a JSON pointer; none if it is absent.
pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the number of entries of the map or list at a JSON pointer.
pub(crate) fn count(object: &Value, pointer: &str) -> usize {
    match object.pointer(pointer) {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(list)) => list.len(),
        _ => 0,
    }
}

/// Returns true if the condition of this type has status `True`.
pub(crate) fn condition_is_true(object: &Value, kind: &str) -> bool {
    items(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
        .is_some_and(|condition| text(condition, "/status") == "True")
}

/// Returns an int-or-string value, or `otherwise` if it is absent.
pub(crate) fn int_or_string(object: &Value, pointer: &str, otherwise: &str) -> String {
    match object.pointer(pointer) {
        Some(Value::String(text)) => text.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ => otherwise.to_owned(),
    }
}

/// Returns the names and the images of a list of containers, each joined with commas.
pub(super) fn containers(object: &Value, pointer: &str) -> (String, String) {
    let column = |field: &str| items(object, pointer).iter().map(|c| text(c, field)).collect::<Vec<_>>().join(",");
    (column("/name"), column("/image"))
}

/// Formats a map of labels as `a=b,c=d`; `<none>` if it is empty. The pairs are sorted as they are shown, so that
/// `a.b=` comes before `a=`: `Set.String` of `apimachinery/pkg/labels`.
pub(crate) fn labels(object: &Value, pointer: &str) -> String {
    let Some(map) = object.pointer(pointer).and_then(Value::as_object).filter(|map| !map.is_empty()) else {
        return NONE.to_owned();
    };
    let mut pairs: Vec<_> =
        map.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.sort_unstable();
    pairs.join(",")
}

/// Formats a label selector in canonical form (`a=b,c in (d,e),!f`); `""` if it has no requirements.
pub(crate) fn selector(object: &Value, pointer: &str) -> String {
    let Some(selector) = object.pointer(pointer) else { return String::new() };
    let mut requirements: Vec<(String, String)> = Vec::new();
    if let Some(map) = selector.get("matchLabels").and_then(Value::as_object) {
        for (key, value) in map {
            requirements.push((key.to_string(), format!("{key}={}", value.as_str().unwrap_or_default())));
        }
    }
    for expression in items(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<&str> = items(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        requirements.push((key.to_owned(), shown));
    }
    requirements.sort_by(|left, right| left.0.cmp(&right.0));
    requirements.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(",")
}

/// Like [`selector`], but `<none>` instead of an empty string.
pub(super) fn selector_or_none(object: &Value, pointer: &str) -> String {
    match selector(object, pointer) {
        shown if shown.is_empty() => NONE.to_owned(),
        shown => shown,
    }
}
