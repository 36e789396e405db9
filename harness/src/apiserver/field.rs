//! Field errors as `k8s.io/apimachinery/pkg/util/validation/field` makes and prints them.

use serde_json::Value;

use super::status::{Cause, go_quote};

/// Path of a field, such as `spec.containers[0].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// Starts a path.
    pub fn new(first: impl Into<String>) -> Self {
        Self(first.into())
    }

    /// The root, which prints nothing before its first child (and `<nil>` alone).
    pub fn root() -> Self {
        Self(String::new())
    }

    /// `path.name`.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// `path[index]`.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// `path[key]`.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The printed path.
    pub fn as_str(&self) -> &str {
        if self.0.is_empty() { "<nil>" } else { &self.0 }
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for Path {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Kind of a field error; the cause's `reason` on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// `FieldValueNotFound`
    NotFound,
    /// `FieldValueRequired`
    Required,
    /// `FieldValueDuplicate`
    Duplicate,
    /// `FieldValueInvalid`
    Invalid,
    /// `FieldValueNotSupported`
    NotSupported,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueTooLong`
    TooLong,
    /// `FieldValueTooShort`
    TooShort,
    /// `FieldValueTooMany`
    TooMany,
    /// `FieldValueTooFew`
    TooFew,
    /// `InternalError`
    Internal,
    /// `FieldValueTypeInvalid`
    TypeInvalid,
}

impl ErrorType {
    /// The cause type on the wire.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn phrase(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooShort => "Too short",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal)
    }
}

/// The offending value as an [`Error`] prints it.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// Not shown.
    Omitted,
    /// Shown as JSON; strings quoted as Go does.
    Json(Value),
    /// Shown as it stands: for structs whose field order in Go is not alphabetical.
    Raw(String),
}

impl<T: Into<Value>> From<T> for BadValue {
    fn from(value: T) -> Self {
        Self::Json(value.into())
    }
}

/// One field error.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// Kind of error.
    pub error_type: ErrorType,
    /// Printed path.
    pub field: String,
    /// Offending value.
    pub bad_value: BadValue,
    /// What is wrong with it; may be empty.
    pub detail: String,
}

impl Error {
    fn make(error_type: ErrorType, path: &Path, bad_value: BadValue, detail: impl Into<String>) -> Self {
        Self { error_type, field: path.to_string(), bad_value, detail: detail.into() }
    }

    /// The value is malformed.
    pub fn invalid(path: &Path, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::make(ErrorType::Invalid, path, value.into(), detail)
    }

    /// The value has the wrong type.
    pub fn type_invalid(path: &Path, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::make(ErrorType::TypeInvalid, path, value.into(), detail)
    }

    /// The value is missing.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::make(ErrorType::Required, path, BadValue::Omitted, detail)
    }

    /// The value must be unique and is not.
    pub fn duplicate(path: &Path, value: impl Into<BadValue>) -> Self {
        Self::make(ErrorType::Duplicate, path, value.into(), "")
    }

    /// The value refers to something that does not exist.
    pub fn not_found(path: &Path, value: impl Into<BadValue>) -> Self {
        Self::make(ErrorType::NotFound, path, value.into(), "")
    }

    /// The value is none of `supported` (printed in the order given).
    pub fn not_supported(path: &Path, value: impl Into<BadValue>, supported: &[&str]) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<_> = supported.iter().map(|s| go_quote(s)).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self::make(ErrorType::NotSupported, path, value.into(), detail)
    }

    /// The value is well formed but not allowed here.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::make(ErrorType::Forbidden, path, BadValue::Omitted, detail)
    }

    /// The value is longer than `max_bytes`.
    pub fn too_long(path: &Path, max_bytes: usize) -> Self {
        let unit = if max_bytes == 1 { "byte" } else { "bytes" };
        Self::make(ErrorType::TooLong, path, BadValue::Omitted, format!("may not be more than {max_bytes} {unit}"))
    }

    /// The list has more than `max` items.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::make(ErrorType::TooMany, path, actual.into(), format!("must have at most {max} {unit}"))
    }

    /// The list has fewer than `min` items.
    pub fn too_few(path: &Path, actual: usize, min: usize) -> Self {
        let unit = if min == 1 { "item" } else { "items" };
        Self::make(ErrorType::TooFew, path, actual.into(), format!("must have at least {min} {unit}"))
    }

    /// Something went wrong that is not the user's fault.
    pub fn internal(path: &Path, why: impl Into<String>) -> Self {
        Self::make(ErrorType::Internal, path, BadValue::Omitted, why)
    }

    /// The error without the field: `Invalid value: "x": detail`.
    pub fn body(&self) -> String {
        let mut text = self.error_type.phrase().to_owned();
        if self.error_type.shows_value() {
            match &self.bad_value {
                BadValue::Omitted => {}
                BadValue::Json(Value::String(s)) => {
                    text.push_str(": ");
                    text.push_str(&go_quote(s));
                }
                BadValue::Json(value) => {
                    text.push_str(": ");
                    text.push_str(&go_json(value));
                }
                BadValue::Raw(raw) => {
                    text.push_str(": ");
                    text.push_str(raw);
                }
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The error as a cause of a `Status`.
    pub fn cause(&self) -> Cause {
        Cause { reason: self.error_type.reason().to_owned(), message: self.body(), field: self.field.clone() }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// JSON as Go's `json.Marshal` writes it: `<`, `>` and `&` are escaped.
pub fn go_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Field errors in the order found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorList(Vec<Error>);

impl ErrorList {
    /// No errors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, error: Error) {
        self.0.push(error);
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many errors there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// In the order found.
    pub fn iter(&self) -> std::slice::Iter<'_, Error> {
        self.0.iter()
    }

    /// One text for all, as Go's `Aggregate` prints it: repeated messages once, several in brackets.
    pub fn aggregate(&self) -> Option<String> {
        let mut messages: Vec<String> = Vec::new();
        for error in &self.0 {
            let text = error.to_string();
            if !messages.contains(&text) {
                messages.push(text);
            }
        }
        match messages.len() {
            0 => None,
            1 => messages.pop(),
            _ => Some(format!("[{}]", messages.join(", "))),
        }
    }
}

impl Extend<Error> for ErrorList {
    fn extend<T: IntoIterator<Item = Error>>(&mut self, errors: T) {
        self.0.extend(errors);
    }
}

impl FromIterator<Error> for ErrorList {
    fn from_iter<T: IntoIterator<Item = Error>>(errors: T) -> Self {
        Self(errors.into_iter().collect())
    }
}

impl IntoIterator for ErrorList {
    type Item = Error;
    type IntoIter = std::vec::IntoIter<Error>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a ErrorList {
    type Item = &'a Error;
    type IntoIter = std::slice::Iter<'a, Error>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl From<Error> for ErrorList {
    fn from(error: Error) -> Self {
        Self(vec![error])
    }
}
