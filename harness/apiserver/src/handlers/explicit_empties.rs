//! Empty lists and maps that a request sends, in the messages of errors. PURE.
//!
//! Upstream validates typed objects, in which a list or map that was sent empty is not one that is absent, and shows
//! it as `[]` or `{}`. Here objects lose such fields when they are decoded, so the body is asked.

use crate::field_errors::{BadValue, ErrorList, FieldError};
use crate::json::Value;
use crate::schema::decode_untyped;
use crate::yaml;

/// Changes `null` in the message of each error about a list or map that the body has empty.
pub(super) fn restore(body: &[u8], errors: &mut ErrorList) {
    let is_absent = |error: &FieldError| matches!(&error.bad_value, BadValue::Raw(shown) if shown == "null");
    if !errors.iter().any(is_absent) {
        return;
    }
    let decoded = decode_untyped(body).ok();
    let decoded = decoded.or_else(|| decode_untyped(yaml::to_json(body).ok()?.json.as_ref()).ok());
    let Some(decoded) = decoded else { return };
    for error in errors.iter_mut().filter(|error| is_absent(error)) {
        let shown = match find(&decoded.value, &error.field) {
            Some(Value::Array(items)) if items.is_empty() => "[]",
            Some(Value::Object(map)) if map.is_empty() => "{}",
            _ => continue,
        };
        error.bad_value = BadValue::Raw(shown.to_owned());
    }
}

/// Returns the value at the path of an error.
fn find<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split(['.', '[']).try_fold(value, |value, part| match part.strip_suffix(']') {
        None => value.get(part),
        Some(index) => match index.parse::<usize>() {
            Ok(index) if value.is_array() => value.as_array()?.get(index),
            _ => value.get(index),
        },
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::field_errors::Path;

    /// `field.Error` in `staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go` shows values as JSON;
    /// compared with kube-apiserver 1.36.2.
    #[rstest]
    #[case(r#"{"spec":{"labels":{}}}"#, "{}")]
    #[case(r#"{"spec":{"labels":[]}}"#, "[]")]
    #[case("spec:\n  labels: {}\n", "{}")]
    #[case(r#"{"spec":{"labels":null}}"#, "null")]
    #[case(r#"{"spec":{}}"#, "null")]
    #[case(r#"[{"op":"remove","path":"/spec/labels"}]"#, "null")]
    fn what_was_sent_empty_is_shown_so(#[case] body: &str, #[case] expected: &str) {
        let path = Path::new("spec");
        let error = FieldError::invalid(&path.child("labels"), BadValue::Raw("null".to_owned()), "no");
        let mut errors = ErrorList::from(error);
        restore(body.as_bytes(), &mut errors);
        let shown: Vec<_> = errors.iter().map(|error| error.bad_value.clone()).collect();
        assert_eq!(shown, [BadValue::Raw(expected.to_owned())]);
    }

    #[test]
    fn paths_have_indexes_and_keys() {
        let object = crate::json::json!({"a": [{"b": {"c": 1}}]});
        assert_eq!(find(&object, "a[0].b[c]"), Some(&1.into()));
        assert_eq!(find(&object, "a[1].b[c]"), None);
    }
}
