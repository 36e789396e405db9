//! Validation of custom resources by their OpenAPI v3 schema. Follows `k8s.io/kube-openapi/pkg/validation/validate`,
//! including its messages, and `listtype` and `objectmeta` in
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema` of Kubernetes 1.36. PURE.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::embedded::{embedded_metadata, embedded_type};
use super::formats::{format_of, has_format};
use crate::field_errors::{BadValue, ErrorList, FieldError, Path, go_json};
use crate::go_float;
use crate::go_regex::{GoRegexError, go_regex};
use crate::json::{Key, Map, Value};

/// Deepest value that is visited; the decoder of request bodies rejects deeper ones.
const MAX_VALUE_DEPTH: usize = 200;

/// Most steps of one validation. Upstream has no limit; an object of the largest size takes about a tenth of it with an
/// ordinary schema.
const MAX_STEPS: usize = if cfg!(test) { 1_000_000 } else { 20_000_000 };

/// Steps of the validation of one value.
const STEPS_PER_VALUE: usize = 5;

/// Bytes of a path that count as one step.
const PATH_BYTES_PER_STEP: usize = 64;

/// Largest compiled pattern in bytes.
const PATTERN_BYTES: usize = 4 << 20;

/// Validates `value` by `schema`. `name` is the value's path, empty for the whole object. Parts that are as in `old`
/// may be invalid, because the schema may have changed since they were written.
pub(super) fn validate(schema: &Value, value: &Value, old: Option<&Value>, name: &str) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut validator = SchemaValidator::default();
    validator.value(schema, (value, old), name, &mut errors);
    validator.embedded(schema, value, name, &mut errors);
    let had_duplicates = old.is_some_and(|old| {
        let mut before = ErrorList::new();
        validator.list_types(schema, old, name, &mut before);
        !before.is_empty()
    });
    if !had_duplicates {
        validator.list_types(schema, value, name, &mut errors);
    }
    if validator.steps > MAX_STEPS {
        let why = format!(
            "validation stopped after {MAX_STEPS} steps: make the object smaller, or its schema simpler (enum, anyOf, oneOf, allOf)"
        );
        errors.push_first(FieldError::invalid(&path("<nil>"), None::<&Value>, why));
    }
    errors
}

/// Validates `value` by `schema` only, without embedded objects and list types.
pub(super) fn validate_value(schema: &Value, value: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    SchemaValidator::default().value(schema, (value, None), "", &mut errors);
    errors
}

/// Validates the type and metadata of embedded objects.
pub(super) fn validate_embedded(schema: &Value, value: &Value, name: &str) -> ErrorList {
    let mut errors = ErrorList::new();
    SchemaValidator::default().embedded(schema, value, name, &mut errors);
    errors
}

/// Compiles a pattern of a schema. One that needs too much memory is an error.
pub(super) fn compile_pattern(pattern: &str) -> Result<Regex, GoRegexError> {
    go_regex(pattern, PATTERN_BYTES)
}

/// A value, and the one that it replaces.
type Compared<'v> = (&'v Value, Option<&'v Value>);

#[derive(Default)]
struct SchemaValidator<'a> {
    depth: usize,
    /// The work until now.
    steps: usize,
    /// The compiled patterns; `None` for one that does not compile.
    patterns: BTreeMap<&'a str, Option<Regex>>,
}

pub(super) fn path(name: &str) -> Path<'_> {
    Path::new(name)
}

pub(super) fn child(name: &str, field: &str) -> String {
    if name.is_empty() { field.to_owned() } else { format!("{name}.{field}") }
}

fn integer(schema: &Value, field: &str) -> Option<usize> {
    schema.get(field).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok())
}

pub(super) fn flag(schema: &Value, field: &str) -> bool {
    schema.get(field).and_then(Value::as_bool) == Some(true)
}

/// Returns the name of a value's type in messages.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(value: &Value, wanted: &str) -> bool {
    match (type_of(value), wanted) {
        ("integer", "number") => true,
        ("number", "integer") => value.as_f64().is_some_and(is_json_integer),
        (actual, wanted) => actual == wanted,
    }
}

impl<'a> SchemaValidator<'a> {
    /// Counts a step at a path; false if there were too many.
    fn step(&mut self, name: &str) -> bool {
        self.count(1 + name.len() / PATH_BYTES_PER_STEP)
    }

    fn count(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(steps);
        self.steps <= MAX_STEPS
    }

    /// Validates a value. Follows `apiserver/validation/ratcheting.go` in
    /// `staging/src/k8s.io/apiextensions-apiserver/pkg`.
    fn value(&mut self, schema: &'a Value, (value, old): Compared<'_>, name: &str, errors: &mut ErrorList) {
        if self.depth > MAX_VALUE_DEPTH || !self.step(name) {
            return;
        }
        if value.is_null() && flag(schema, "nullable") {
            return self.enumeration(schema, value, name, errors);
        }
        self.steps += STEPS_PER_VALUE - 1;
        if old.is_some_and(|old| is_unchanged(schema, value, old)) {
            return;
        }
        self.depth += 1;
        check_type(schema, value, name, errors);
        self.combinations(schema, value, name, errors);
        match value {
            Value::String(text) => self.text(schema, text, name, errors),
            Value::Number(_) => check_number(schema, value, name, errors),
            Value::Array(list) => self.list(schema, (list, old), name, errors),
            _ => {}
        }
        self.enumeration(schema, value, name, errors);
        if let Value::Object(fields) = value {
            self.object(schema, (fields, old), name, errors);
        }
        self.depth -= 1;
    }

    fn list(&mut self, schema: &'a Value, (list, old): (&[Value], Option<&Value>), name: &str, errors: &mut ErrorList) {
        if let Some(items) = schema.get("items") {
            let before = by_keys(schema, old);
            for (index, item) in list.iter().enumerate() {
                let before = before.as_ref().and_then(|before| before.get(&identity_of(schema, item)?).copied());
                self.value(items, (item, before), &format!("{name}[{index}]"), errors);
            }
        }
        if let Some(least) = integer(schema, "minItems").filter(|&least| list.len() < least) {
            errors.invalid(&path(name), list.len(), format!("{name} in body should have at least {least} items"));
        }
        if let Some(most) = integer(schema, "maxItems").filter(|&most| list.len() > most) {
            errors.too_many(&path(name), list.len(), most);
        }
    }

    fn object(&mut self, schema: &'a Value, (fields, old): (&Map, Option<&Value>), name: &str, errors: &mut ErrorList) {
        if let Some(least) = integer(schema, "minProperties").filter(|&least| fields.len() < least) {
            errors.invalid(
                &path(name),
                fields.len(),
                format!("{name} in body should have at least {least} properties"),
            );
        }
        if let Some(most) = integer(schema, "maxProperties").filter(|&most| fields.len() > most) {
            errors.too_many(&path(name), fields.len(), most);
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = schema.get("additionalProperties");
        for (field, value) in fields {
            let known = properties.and_then(|known| known.get(field));
            let of_all = name.is_empty() && matches!(field.as_str(), "apiVersion" | "kind" | "metadata");
            if of_all && known.is_none() {
                continue;
            }
            // A change of the version is not visible here, because both objects are of the version of the request.
            let old = old.filter(|_| !(name.is_empty() && matches!(field.as_str(), "apiVersion" | "kind")));
            let both = (value, old.and_then(|old| old.get(field)));
            match (known, additional) {
                (Some(known), _) => self.value(known, both, &child(name, field), errors),
                (None, Some(values @ Value::Object(_))) => self.value(values, both, &child(name, field), errors),
                (None, Some(Value::Bool(false))) => {
                    errors.invalid(&path(name), "", format!("{} in body is a forbidden property", child(name, field)));
                }
                _ => {}
            }
        }
        let required = schema.get("required").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        if !self.count(required.len()) {
            return;
        }
        for required in required.iter().filter_map(Value::as_str) {
            if !fields.contains_key(required) {
                errors.required(&path(&child(name, required)), "");
            }
        }
    }

    /// Checks `allOf`, `anyOf`, `oneOf` and `not`.
    fn combinations(&mut self, schema: &'a Value, value: &Value, name: &str, errors: &mut ErrorList) {
        let mut outcomes = |kind: &str| -> Vec<ErrorList> {
            let schemas = schema.get(kind).and_then(Value::as_array).into_iter().flatten();
            schemas
                .map(|one| {
                    let mut own = ErrorList::new();
                    self.value(one, (value, None), name, &mut own);
                    own
                })
                .collect()
        };
        let any = outcomes("anyOf");
        let one = outcomes("oneOf");
        let all = outcomes("allOf");
        if !any.is_empty() && any.iter().all(|own| !own.is_empty()) {
            errors.invalid(&path("<nil>"), "", format!("{name:?} must validate at least one schema (anyOf)"));
            append_best(any, errors);
        }
        let valid = one.iter().filter(|own| own.is_empty()).count();
        if !one.is_empty() && valid != 1 {
            let found =
                if valid == 0 { "Found none valid".to_owned() } else { format!("Found {valid} valid alternatives") };
            errors.invalid(
                &path("<nil>"),
                "",
                format!("{name:?} must validate one and only one schema (oneOf). {found}"),
            );
            if valid == 0 {
                append_best(one, errors);
            }
        }
        if all.iter().any(|own| !own.is_empty()) {
            let none = if all.iter().all(|own| !own.is_empty()) { ". None validated" } else { "" };
            for own in all {
                errors.append(own);
            }
            errors.invalid(&path("<nil>"), "", format!("{name:?} must validate all the schemas (allOf){none}"));
        }
        if let Some(forbidden) = schema.get("not").filter(|not| not.is_object()) {
            let mut own = ErrorList::new();
            self.value(forbidden, (value, None), name, &mut own);
            if own.is_empty() {
                errors.invalid(&path("<nil>"), "", format!("{name:?} must not validate the schema (not)"));
            }
        }
    }

    fn enumeration(&mut self, schema: &'a Value, value: &Value, name: &str, errors: &mut ErrorList) {
        let Some(allowed) = schema.get("enum").and_then(Value::as_array).filter(|allowed| !allowed.is_empty()) else {
            return;
        };
        // Upstream compares Go types, and null has none.
        if !self.count(allowed.len()) || !value.is_null() && allowed.contains(value) {
            return;
        }
        let texts: Vec<String> =
            allowed.iter().map(|one| one.as_str().map_or_else(|| go_json(one), str::to_owned)).collect();
        // The message has all of them, and the reply has it twice.
        if self.count(texts.iter().map(|text| 10 * text.len()).sum()) {
            errors.not_supported(&path(name), value, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    /// Reports the first violated constraint of a string; the format is checked separately.
    fn text(&mut self, schema: &'a Value, text: &str, name: &str, errors: &mut ErrorList) {
        let length = text.chars().count();
        let pattern = schema.get("pattern").and_then(Value::as_str).filter(|pattern| !pattern.is_empty());
        if let Some(most) = integer(schema, "maxLength").filter(|&most| length > most) {
            errors.push(FieldError::too_long(&path(name), most));
        } else if let Some(least) = integer(schema, "minLength").filter(|&least| length < least) {
            errors.invalid(&path(name), text, format!("{name} in body should be at least {least} chars long"));
        } else if let Some(pattern) = pattern.filter(|pattern| !self.matches(pattern, text)) {
            errors.invalid(&path(name), text, format!("{name} in body should match '{pattern}'"));
        }
        if let Some(format) = format_of(schema).filter(|format| !has_format(format, text)) {
            errors.push(FieldError::type_invalid(
                &path(name),
                text,
                format!("{name} in body must be of type {format}: {text:?}"),
            ));
        }
    }

    /// Returns true if a text matches a pattern, or if the pattern is not usable.
    fn matches(&mut self, pattern: &'a str, text: &str) -> bool {
        // The time of a match grows with the text and with the pattern.
        if !self.count(text.len() / 8 * (1 + pattern.len() / 64)) {
            return true;
        }
        let compiled = self.patterns.entry(pattern).or_insert_with(|| compile_pattern(pattern).ok());
        compiled.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }

    /// Checks that embedded objects have an apiVersion and a kind.
    fn embedded(&mut self, schema: &'a Value, value: &Value, name: &str, errors: &mut ErrorList) {
        if !self.step(name) {
            return;
        }
        match value {
            Value::Object(fields) => {
                if flag(schema, "x-kubernetes-embedded-resource") {
                    embedded_type(fields, name, errors);
                    embedded_metadata(fields, name, errors);
                }
                for (field, value) in fields {
                    if let Some(schema) = schema_of(schema, field) {
                        self.embedded(schema, value, &child(name, field), errors);
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = schema.get("items") else { return };
                for (index, item) in list.iter().enumerate() {
                    self.embedded(items, item, &format!("{name}[{index}]"), errors);
                }
            }
            _ => {}
        }
    }

    /// Checks that items of sets, and key combinations of maps, are unique.
    fn list_types(&mut self, schema: &'a Value, value: &Value, name: &str, errors: &mut ErrorList) {
        if !self.step(name) {
            return;
        }
        match value {
            Value::Array(list) => {
                if let Some(items) = schema.get("items") {
                    for (index, item) in list.iter().enumerate() {
                        self.list_types(items, item, &format!("{name}[{index}]"), errors);
                    }
                }
                check_unique(schema, list, name, errors);
            }
            Value::Object(fields) => {
                for (field, value) in fields {
                    if let Some(schema) = schema_of(schema, field) {
                        self.list_types(schema, value, &child(name, field), errors);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns true if a value is as before, which errors in it are then allowed to be. The order of a list of type `map`
/// does not count; a field without a schema counts as changed, so an object with metadata always has a change at its
/// root (`CachedDeepEqual` in `staging/src/k8s.io/apiserver/pkg/cel/common/equality.go`).
pub(super) fn is_unchanged(schema: &Value, value: &Value, old: &Value) -> bool {
    match (value, old) {
        (Value::Object(new), Value::Object(old)) => {
            let same = |(field, value): (&Key, &Value)| {
                let both = schema_of(schema, field).zip(old.get(field));
                both.is_some_and(|(schema, old)| is_unchanged(schema, value, old))
            };
            new.len() == old.len() && new.iter().all(same)
        }
        (Value::Array(new), Value::Array(before)) if new.len() == before.len() => {
            let Some(before) = by_keys(schema, Some(old)) else { return new == before };
            new.iter().all(|item| {
                let before = identity_of(schema, item).and_then(|identity| before.get(&identity));
                before.zip(schema.get("items")).is_some_and(|(before, items)| is_unchanged(items, item, before))
            })
        }
        _ => value == old,
    }
}

/// Returns the items of an old list of type `map` by their keys; `None` for lists whose items have no identity.
fn by_keys<'v>(schema: &Value, old: Option<&'v Value>) -> Option<BTreeMap<String, &'v Value>> {
    let items = old?.as_array()?;
    let with_keys = items.iter().rev().map(|item| Some((identity_of(schema, item)?, item)));
    with_keys.collect()
}

/// Returns the values of the keys of an item of a list of type `map`.
fn identity_of(schema: &Value, item: &Value) -> Option<String> {
    if schema.get("x-kubernetes-list-type")? != "map" {
        return None;
    }
    let keys = schema.get("x-kubernetes-list-map-keys")?.as_array()?.iter().filter_map(Value::as_str);
    Some(keys.map(|key| item.get(key).unwrap_or(&Value::Null).to_string()).collect::<Vec<_>>().join(","))
}

/// Returns the schema of a field: its own, or that of all further fields.
pub(super) fn schema_of<'a>(schema: &'a Value, field: &str) -> Option<&'a Value> {
    let known = schema.get("properties").and_then(|known| known.get(field));
    known.or_else(|| schema.get("additionalProperties").filter(|extra| extra.is_object()))
}

/// Appends the errors of the alternative that has the fewest.
fn append_best(outcomes: Vec<ErrorList>, errors: &mut ErrorList) {
    if let Some(best) = outcomes.into_iter().min_by_key(ErrorList::len) {
        errors.append(best);
    }
}

fn check_type(schema: &Value, value: &Value, name: &str, errors: &mut ErrorList) {
    let wanted = if flag(schema, "x-kubernetes-int-or-string") {
        if has_type(value, "integer") || value.is_string() {
            return;
        }
        "integer,string"
    } else {
        match schema.get("type").and_then(Value::as_str) {
            Some(wanted) if !wanted.is_empty() && !has_type(value, wanted) => wanted,
            _ => return,
        }
    };
    let mut actual = type_of(value);
    let mut wanted = wanted;
    let format = format_of(schema).unwrap_or_default();
    if !format.is_empty() && !matches!(value, Value::String(_) | Value::Array(_) | Value::Null) {
        // Upstream's validator compares formats here.
        wanted = format;
        actual = match actual {
            "number" => "float64",
            "integer" => "int64",
            _ => "",
        };
    }
    errors.push(FieldError::type_invalid(
        &path(name),
        actual,
        format!("{name} in body must be of type {wanted}: {actual:?}"),
    ));
}

/// The first float beyond the integers of 64 bits.
const BEYOND_INT64: f64 = 9_223_372_036_854_775_808.0;

fn check_number(schema: &Value, value: &Value, name: &str, errors: &mut ErrorList) {
    let Some(number) = value.as_f64() else { return };
    let limit = |field: &str| schema.get(field).and_then(Value::as_f64);
    let format = format_of(schema).unwrap_or_default();
    let fits = match format {
        "int32" => {
            value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
                || number.fract() == 0.0 && number.abs() < 2e9
        }
        "int64" => value.as_i64().is_some() || number.fract() == 0.0 && number.abs() < BEYOND_INT64,
        _ => true,
    };
    let whole = !format.is_empty() || number.fract() == 0.0;
    if !(fits && whole) && schema.get("type").is_some_and(|kind| kind == "integer") {
        let how = if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
        let why = format!("Checked value must be of type integer {how} in {name}");
        errors.invalid(&path("<nil>"), "", why);
    }
    if format == "float" && number.abs() > f64::from(f32::MAX) {
        let why = format!("Checked value must be of type number with format float in {name}");
        errors.invalid(&path("<nil>"), "", why);
    }
    // For integers, upstream truncates bounds and factors to integers, which have no negative zero.
    let whole = value.as_i64().is_some();
    let limit = |field: &str| limit(field).map(|limit| if whole { limit.trunc() + 0.0 } else { limit });
    let shown = |limit: f64| if whole { limit.to_string() } else { go_float::plain(limit) };
    if let Some(factor) = limit("multipleOf") {
        if factor <= 0.0 {
            let factor = shown(factor);
            let why = format!("factor MultipleOf declared for {name} must be positive: {factor}");
            errors.invalid(&path(name), BadValue::Raw(factor), why);
        } else if !is_multiple(number, factor) {
            errors.invalid(&path(name), value, format!("{name} in body should be a multiple of {}", shown(factor)));
        }
    }
    if let Some(most) = limit("maximum") {
        let exclusive = flag(schema, "exclusiveMaximum");
        if number > most || (exclusive && number >= most) {
            let bound = if exclusive { "less than" } else { "less than or equal to" };
            errors.invalid(&path(name), value, format!("{name} in body should be {bound} {}", shown(most)));
        }
    }
    if let Some(least) = limit("minimum") {
        let exclusive = flag(schema, "exclusiveMinimum");
        if number < least || (exclusive && number <= least) {
            let bound = if exclusive { "greater than" } else { "greater than or equal to" };
            errors.invalid(&path(name), value, format!("{name} in body should be {bound} {}", shown(least)));
        }
    }
}

/// Returns true if a number is a multiple of a factor: `MultipleOf` of kube-openapi's
/// `pkg/validation/validate/values.go`.
fn is_multiple(number: f64, factor: f64) -> bool {
    is_json_integer(if factor < 1.0 { 1.0 / factor * number } else { number / factor })
}

/// Returns true for a whole number that a float holds exactly, but for a rounding error of one in a billion:
/// `IsFloat64AJSONInteger` of swag.
fn is_json_integer(number: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    const TOLERANCE: f64 = 1e-9;
    let whole = number.round();
    number.abs() <= LARGEST && (number - whole).abs() <= TOLERANCE * whole.abs()
}

fn check_unique(schema: &Value, list: &[Value], name: &str, errors: &mut ErrorList) {
    let keys: Vec<&str> = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Vec::new(),
        Some("map") => schema
            .get("x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect(),
        _ => return,
    };
    let other = |item: &Value| !matches!(item, Value::Object(_) | Value::Null);
    if !keys.is_empty()
        && let Some(index) = list.iter().position(other)
    {
        let why = "must be an object for an array of list-type map";
        return errors.invalid(&path(&format!("{name}[{index}]")), &list[index], why);
    }
    let identity = |item: &Value| match keys.as_slice() {
        [] => item.clone(),
        keys => keys.iter().filter_map(|&key| item.get(key).map(|value| (key, value.clone()))).collect::<Map>().into(),
    };
    let mut seen = BTreeSet::new();
    for (index, item) in list.iter().enumerate() {
        let identity = identity(item);
        if !seen.insert(identity.to_string()) {
            errors.duplicate(&path(&format!("{name}[{index}]")), identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    fn messages(schema: &Value, value: &Value) -> Vec<String> {
        validate(schema, value, None, "")
            .iter()
            .map(|error| format!("{}: {}", error.cause().field, error.cause().message))
            .collect()
    }

    #[rstest]
    #[case::enumeration(
        json!({"type": "array", "items": {"type": "integer", "enum": (0..2_000).collect::<Vec<_>>()}}),
        json!(vec![-1; 2_000])
    )]
    #[case::alternatives(
        json!({"type": "array", "items": {"type": "integer",
            "anyOf": (0..1_000).map(|least| json!({"minimum": least + 10})).collect::<Vec<_>>()}}),
        json!(vec![1; 2_000])
    )]
    #[case::a_long_key(
        json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}),
        json!({ ("k".repeat(100_000)): vec![1; 2_000] })
    )]
    fn a_validation_with_too_many_steps_is_ended(#[case] schema: Value, #[case] value: Value) {
        let found = validate(&schema, &value, None, "f");
        let first = found.iter().next().map(|error| error.cause().message).unwrap_or_default();
        assert!(first.contains("validation stopped after 1000000 steps"), "{first}");
    }

    #[rstest]
    #[case(json!({"type": "integer"}), json!("x"), &["f: Invalid value: \"string\": f in body must be of type integer: \"string\""])]
    #[case(json!({"type": "integer", "minimum": 1}), json!(0), &["f: Invalid value: 0: f in body should be greater than or equal to 1"])]
    #[case(json!({"type": "number", "maximum": 2, "exclusiveMaximum": true}), json!(2), &["f: Invalid value: 2: f in body should be less than 2"])]
    #[case(json!({"type": "string", "enum": ["red", "blue"]}), json!("green"), &["f: Unsupported value: \"green\": supported values: \"red\", \"blue\""])]
    #[case(json!({"x-kubernetes-int-or-string": true}), json!(true), &["f: Invalid value: \"boolean\": f in body must be of type integer,string: \"boolean\""])]
    #[case::whole_float(json!({"x-kubernetes-int-or-string": true}), json!(1e10), &[])]
    #[case::large_float(json!({"type": "integer"}), json!(1e18), &["f: Invalid value: \"number\": f in body must be of type integer: \"number\""])]
    #[case::list_map_of_text(json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object"}}), json!(["x"]), &[
        "f[0]: Invalid value: \"string\": f[0] in body must be of type object: \"string\"",
        "f[0]: Invalid value: \"x\": must be an object for an array of list-type map"])]
    #[case(json!({"type": "array", "maxItems": 2}), json!([1, 2, 3]), &["f: Too many: 3: must have at most 2 items"])]
    #[case(json!({"type": "string", "maxLength": 5}), json!("abcdef"), &["f: Too long: may not be more than 5 bytes"])]
    #[case(json!({"type": "string", "pattern": "^[a-z]+$"}), json!("A"), &["f: Invalid value: \"A\": f in body should match '^[a-z]+$'"])]
    #[case(json!({"type": "object", "required": ["a"]}), json!({}), &["f.a: Required value"])]
    #[case(json!({"type": "string", "nullable": true}), json!(null), &[])]
    #[case::null_in_enum(json!({"type": "string", "nullable": true, "enum": ["q", null]}), json!(null),
        &["f: Unsupported value: null: supported values: \"q\", \"null\""])]
    #[case(json!({"type": "object", "x-kubernetes-embedded-resource": true}), json!({"apiVersion": "a/b/c", "kind": ""}),
        &["f.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c", "f.kind: Invalid value: \"\": must not be empty"])]
    #[case(json!({"type": "array", "items": {"type": "integer"}}), json!([1, "x"]), &["f[1]: Invalid value: \"string\": f[1] in body must be of type integer: \"string\""])]
    #[case(json!({"type": "object", "additionalProperties": {"type": "string"}}), json!({"k": 1}),
        &["f.k: Invalid value: \"integer\": f.k in body must be of type string: \"integer\""])]
    #[case(json!({"type": "string", "format": "date-time"}), json!("now"), &["f: Invalid value: \"now\": f in body must be of type date-time: \"now\""])]
    #[case(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}), json!(["a", "a"]), &["f[1]: Duplicate value: \"a\""])]
    #[case(json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object"}}),
        json!([{"k": 1, "v": 1}, {"k": 1, "v": 2}]), &["f[1]: Duplicate value: {\"k\":1}"])]
    #[case(json!({"type": "integer"}), json!(1.5), &["f: Invalid value: \"number\": f in body must be of type integer: \"number\"",
        "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in f"])]
    #[case(json!({"type": "number", "format": "float"}), json!(1e50), &["<nil>: Invalid value: \"\": Checked value must be of type number with format float in f"])]
    #[case(json!({"type": "string", "format": "hostname"}), json!("a_b"), &["f: Invalid value: \"a_b\": f in body must be of type hostname: \"a_b\""])]
    #[case(json!({"type": "string", "format": "hostname"}), json!("a-b.co"), &[])]
    #[case::unknown_format(json!({"type": "integer", "format": "bogus"}), json!("x"), &["f: Invalid value: \"string\": f in body must be of type integer: \"string\""])]
    #[case(json!({"type": "number", "multipleOf": 0.1}), json!(0.3), &[])]
    #[case(json!({"type": "number", "multipleOf": 0.1}), json!(0.7), &[])]
    #[case(json!({"type": "number", "multipleOf": 0.01}), json!(0.29), &[])]
    #[case(json!({"type": "number", "multipleOf": 0.01}), json!(0.295), &["f: Invalid value: 0.295: f in body should be a multiple of 0.01"])]
    #[case(json!({"type": "number", "multipleOf": 2}), json!(0.0), &[])]
    #[case(json!({"type": "number", "multipleOf": 2}), json!(0.000_000_000_1), &["f: Invalid value: 1e-10: f in body should be a multiple of 2"])]
    #[case(json!({"type": "number", "multipleOf": -0.5}), json!(1.5), &["f: Invalid value: -0.5: factor MultipleOf declared for f must be positive: -0.5"])]
    #[case::factors_of_integers_are_cut(json!({"type": "number", "multipleOf": 1.5}), json!(4), &[])]
    #[case(json!({"type": "integer", "multipleOf": 0.5}), json!(4), &["f: Invalid value: 0: factor MultipleOf declared for f must be positive: 0"])]
    #[case(json!({"type": "integer", "multipleOf": -0.5}), json!(4), &["f: Invalid value: 0: factor MultipleOf declared for f must be positive: 0"])]
    #[case(json!({"type": "integer", "multipleOf": 3}), json!(4), &["f: Invalid value: 4: f in body should be a multiple of 3"])]
    #[case::bounds_of_integers_are_cut(json!({"type": "number", "maximum": 1.5, "exclusiveMaximum": true}), json!(1), &["f: Invalid value: 1: f in body should be less than 1"])]
    #[case(json!({"allOf": [{"minimum": 2}, {"maximum": 5}]}), json!(1), &["f: Invalid value: 1: f in body should be greater than or equal to 2",
        "<nil>: Invalid value: \"\": \"f\" must validate all the schemas (allOf)"])]
    #[case(json!({"type": "object", "required": ["n"], "properties": {"z": {"type": "integer"}}}), json!({"z": "x"}),
        &["f.z: Invalid value: \"string\": f.z in body must be of type integer: \"string\"", "f.n: Required value"])]
    #[case(json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}), json!(1), &[])]
    fn one_field(#[case] field: Value, #[case] value: Value, #[case] expected: &[&str]) {
        let schema = json!({"type": "object", "properties": {"f": field}});
        assert_eq!(messages(&schema, &json!({"f": value, "kind": "X", "metadata": {}})), expected);
    }

    #[test]
    fn names_have_the_schemas_bounds() {
        let schema = json!({"type": "object", "properties": {"metadata": {"type": "object",
            "properties": {"name": {"type": "string", "maxLength": 3}}}}});
        assert_eq!(
            messages(&schema, &json!({"kind": 5, "metadata": {"name": "long"}})),
            ["metadata.name: Too long: may not be more than 3 bytes"]
        );
    }

    #[test]
    fn texts_have_one_error_besides_their_format() {
        let schema = json!({"type": "string", "maxLength": 2, "pattern": "^x"});
        assert_eq!(messages(&schema, &json!("abc")), [": Too long: may not be more than 2 bytes"]);
    }

    #[rstest]
    #[case::unchanged(json!({"e": "old", "n": 1}), 0)]
    #[case::changed(json!({"e": "older", "n": 1}), 1)]
    #[case::unchanged_item(json!({"e": "old", "l": [{"k": "b", "v": "x"}, {"k": "a", "v": "old"}]}), 1)]
    #[case::changed_item(json!({"e": "old", "l": [{"k": "a", "v": "older"}]}), 1)]
    #[case::reordered(json!({"e": "old", "many": [{"k": "b"}, {"k": "a"}]}), 0)]
    #[case::reordered_and_changed(json!({"e": "old", "many": [{"k": "b"}, {"k": "c"}]}), 1)]
    #[case::items_without_identity(json!({"e": "old", "p": ["old", "new"]}), 1)]
    #[case::unchanged_list(json!({"e": "old", "p": ["old"], "n": 2}), 0)]
    #[case::unchanged_in_an_atomic_map(json!({"e": "old", "at": {"a": "old", "b": 2}}), 0)]
    #[case::beside_a_field_without_schema(json!({"e": "old", "any": {"a": "old", "x": 1}}), 0)]
    #[case::unchanged_but_for_a_field_without_schema(json!({"e": "old", "few": {"x": 1}}), 1)]
    #[case::alternatives_see_all(json!({"e": "old", "o": {"a": "old", "b": 1}}), 2)]
    fn what_was_invalid_before_may_stay(#[case] new: Value, #[case] errors: usize) {
        let choice = json!({"type": "string", "enum": ["new"]});
        let schema = json!({"type": "object", "properties": {"e": choice, "n": {"type": "integer"},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": choice}}},
            "many": {"type": "array", "maxItems": 1, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "p": {"type": "array", "items": choice},
            "at": {"type": "object", "x-kubernetes-map-type": "atomic",
                "properties": {"a": choice, "b": {"type": "integer"}}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": choice}},
            "few": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "minProperties": 2},
            "o": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                "anyOf": [{"properties": {"a": choice}}]}}});
        let old = json!({"e": "old", "l": [{"k": "a", "v": "old"}], "p": ["old"], "o": {"a": "old"},
            "many": [{"k": "a"}, {"k": "b"}], "at": {"a": "old", "b": 1}, "any": {"a": "old", "x": 1}, "few": {"x": 1}});
        assert_eq!(validate(&schema, &new, Some(&old), "").len(), errors);
    }

    /// `TestInternalVersionIsHandlerVersion`: the old object is converted to the version of the request, so the version
    /// of an object that is patched in another version seems unchanged.
    #[rstest]
    #[case(json!({"apiVersion": "ex.io/v2", "kind": "X", "a": 2}), 2)]
    #[case::nothing_changed_but_a_field_has_no_schema(json!({"apiVersion": "ex.io/v2", "kind": "X", "a": 1}), 2)]
    #[case::only_at_the_root(json!({"apiVersion": "ex.io/v1", "kind": "Y", "a": 2, "in": {"kind": "X"}}), 0)]
    fn type_and_version_are_validated_though_they_are_as_before(#[case] new: Value, #[case] errors: usize) {
        let of_type = json!({"apiVersion": {"type": "string", "pattern": "^ex.io/v1$"}, "kind": {"type": "string", "enum": ["Y"]}});
        let mut schema = json!({"type": "object", "properties": of_type});
        schema["properties"]["in"] = json!({"type": "object", "properties": of_type});
        let old = json!({"apiVersion": "ex.io/v2", "kind": "X", "a": 1, "in": {"kind": "X"}});
        let mut new = new;
        new["in"] = json!({"kind": "X"});
        assert_eq!(validate(&schema, &new, Some(&old), "").len(), errors);
    }

    #[test]
    fn alternatives() {
        let schema = json!({"type": "object", "properties": {"f": {"oneOf": [{"minimum": 1}, {"minimum": 2}]}}});
        assert!(messages(&schema, &json!({"f": 1})).is_empty());
        assert_eq!(
            messages(&schema, &json!({"f": 3})),
            [
                "<nil>: Invalid value: \"\": \"f\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
            ]
        );
    }
}
