//! Validates an applied object against its type. Follows `typed/validate.go` of `sigs.k8s.io/structured-merge-diff/v6`,
//! including its messages.

use std::collections::BTreeSet;

use super::super::super::managedfields::{format_path_element, list_item_path_element};
use super::super::super::schema::{ElementRelationship, ListType, Scalar, Schema, TypeKind, TypeRef};
use super::super::super::status::go_quote;
use super::super::go_text::go_text;
use crate::json::{Map, Value};

/// Returns the errors, each with its path.
pub(super) fn validate(schema: &Schema, value: &Value) -> Vec<String> {
    errors(schema, value, false)
}

/// Returns true if an object fits its schema. Unlike in an applied object, items may occur twice.
pub(crate) fn fits(schema: &Schema, value: &Value) -> bool {
    errors(schema, value, true).is_empty()
}

/// Returns why an object does not fit its schema, in which items may occur twice.
pub(crate) fn misfit(schema: &Schema, value: &Value) -> Option<String> {
    let errors = errors(schema, value, true);
    (!errors.is_empty()).then(|| message(&errors))
}

fn errors(schema: &Schema, value: &Value, duplicates: bool) -> Vec<String> {
    let mut validator = Validator { schema, path: String::new(), errors: Vec::new(), duplicates };
    validator.value(schema.root(), value);
    validator.errors
}

/// Joins all errors into one message.
pub(super) fn message(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        all => format!("errors:\n  {}", all.join("\n  ")),
    }
}

struct Validator<'a> {
    schema: &'a Schema,
    path: String,
    errors: Vec<String>,
    /// Items may occur twice.
    duplicates: bool,
}

impl Validator<'_> {
    fn error(&mut self, text: &str) {
        let error = if self.path.is_empty() { text.to_owned() } else { format!("{}: {text}", self.path) };
        self.errors.push(error);
    }

    fn within(&mut self, step: &str, check: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        check(self);
        self.path.truncate(length);
    }

    fn value(&mut self, ty: TypeRef, value: &Value) {
        if value.is_null() {
            return;
        }
        match (self.schema.shape(ty), value) {
            (TypeKind::Any | TypeKind::SchemaForm(_), _) => {}
            (TypeKind::Scalar(scalar), _) => self.scalar(*scalar, value),
            (TypeKind::List(list), Value::Array(items)) => self.list(list, items),
            (TypeKind::List(_), other) => self.error(&format!("expected list, got {}", go_wrapped(other))),
            (TypeKind::Struct(_) | TypeKind::Map(_), Value::Object(map)) => self.object(ty, map),
            (TypeKind::Struct(_) | TypeKind::Map(_), other) => {
                self.error(&format!("expected map, got {}", go_wrapped(other)));
            }
        }
    }

    fn object(&mut self, ty: TypeRef, map: &Map) {
        for (name, value) in map {
            let Some(child) = self.schema.field_type(ty, name) else {
                // Upstream does not validate the rest of this object.
                self.within(&format!(".{name}"), |v| v.error("field not declared in schema"));
                return;
            };
            self.within(&format!(".{name}"), |v| v.value(child, value));
        }
    }

    fn list(&mut self, list: &ListType, items: &[Value]) {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            let step = if list.topology == ElementRelationship::Atomic {
                format!("[{i}]")
            } else {
                match list_item_path_element(self.schema, list, item) {
                    Ok(key) => {
                        let shown = format_path_element(&key);
                        if !seen.insert(key) && !self.duplicates {
                            self.error(&format!("duplicate entries for key {shown}"));
                        }
                        shown
                    }
                    Err(error) => {
                        self.error(&format!("element {i}: {error}"));
                        return;
                    }
                }
            };
            self.within(&step, |v| v.value(list.items, item));
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let fits = match scalar {
            Scalar::Int { .. } | Scalar::Float => value.is_number(),
            Scalar::Bool => value.is_boolean(),
            // The published schema allows numbers for quantities, too, and texts with a format are untyped:
            // `convertPrimitive` in kube-openapi's `pkg/schemaconv/openapi.go`.
            Scalar::Quantity | Scalar::IntOrString | Scalar::Time | Scalar::MicroTime => {
                value.is_number() || value.is_string() || value.is_boolean()
            }
            _ => value.is_string(),
        };
        if fits {
            return;
        }
        let message = match scalar {
            Scalar::Int { .. } | Scalar::Float => {
                format!("expected numeric (int or float), got {}", super::super::go_text::go_type(value))
            }
            Scalar::Bool => format!("expected boolean, got {}", go_wrapped(value)),
            Scalar::Quantity | Scalar::IntOrString | Scalar::Time | Scalar::MicroTime => {
                format!("expected any scalar, got {}", go_wrapped(value))
            }
            _ => format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)),
        };
        self.error(&message);
    }
}

/// Formats a value wrapped in upstream's `value.Value`, as Go's `%v` prints it.
fn go_wrapped(value: &Value) -> String {
    format!("&{{{}}}", go_text(value))
}

/// Formats a value as Go's `%#v` does.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => go_quote(text),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map.iter().map(|(k, v)| format!("{}:{}", go_quote(k), go_syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", items.join(", "))
        }
    }
}
