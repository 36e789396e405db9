//! Validation errors of fields: path, type and message.
//!
//! They agree with `staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go`: an error's message is
//! `<path>: <type>[: <value>][: <detail>]`, and a Status has a cause with type, body and path for each error.

use std::collections::BTreeSet;
use std::fmt;

use crate::go_float;
use crate::json::Value;

/// The type of a field error; on the wire it is the cause's `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorType {
    /// An object or value that the field refers to does not exist.
    NotFound,
    /// The field is required.
    Required,
    /// The value must be unique but occurs twice.
    Duplicate,
    /// The value is malformed or out of bounds.
    Invalid,
    /// The value is not in the set of supported values.
    NotSupported,
    /// The value is not allowed in this context.
    Forbidden,
    /// The value has too many bytes.
    TooLong,
    /// The list has too many items.
    TooMany,
    /// The list has too few items.
    TooFew,
    /// An internal error, not caused by the client.
    Internal,
    /// The value's type differs from the schema's.
    TypeInvalid,
    /// The value has too few bytes.
    TooShort,
}

impl ErrorType {
    /// Returns the `reason` of the cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooShort => "FieldValueTooShort",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
            Self::TooShort => "Too short",
        }
    }
}

/// The rejected value in its printed form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadValue {
    /// Not printed.
    Omitted,
    /// Printed in Go's quotes.
    Quoted(String),
    /// Printed verbatim: numbers, booleans, `null`, JSON of structures in their own field order.
    Raw(String),
}

impl BadValue {
    /// Returns the form of a value behind a pointer: `null` if there is none, text as JSON.
    pub(crate) fn json(value: Option<&Value>) -> Self {
        Self::Raw(value.map_or_else(|| "null".to_owned(), go_json))
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        Self::Quoted(text.to_owned())
    }
}

impl From<String> for BadValue {
    fn from(text: String) -> Self {
        Self::Quoted(text)
    }
}

impl From<i64> for BadValue {
    fn from(number: i64) -> Self {
        Self::Raw(number.to_string())
    }
}

impl From<i32> for BadValue {
    fn from(number: i32) -> Self {
        Self::Raw(number.to_string())
    }
}

impl From<usize> for BadValue {
    fn from(number: usize) -> Self {
        Self::Raw(number.to_string())
    }
}

impl From<Value> for BadValue {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl From<bool> for BadValue {
    fn from(flag: bool) -> Self {
        Self::Raw(flag.to_string())
    }
}

impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::Quoted(text.to_string()),
            Value::Number(number) if number.is_f64() => {
                Self::Raw(number.as_f64().map(go_float::plain).unwrap_or_default())
            }
            other => Self::Raw(go_json(other)),
        }
    }
}

impl From<Option<&Value>> for BadValue {
    fn from(value: Option<&Value>) -> Self {
        value.map_or_else(|| Self::Raw("null".to_owned()), Self::from)
    }
}

/// A path to a field: a linked list on the stack, formatted only when an error needs it.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: PathElement<'a>,
}

#[derive(Debug, Clone, Copy)]
enum PathElement<'a> {
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// Creates the path of a top-level field.
    pub const fn new(name: &'a str) -> Self {
        Self { parent: None, step: PathElement::Name(name) }
    }

    /// Returns the path of the field `name` below this one. Below an empty path it is `name`.
    #[must_use]
    pub const fn child(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: PathElement::Name(name) }
    }

    /// Returns the path of the item at `index`.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: PathElement::Index(index) }
    }

    /// Returns the path of the entry `key`.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: PathElement::Key(key) }
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            PathElement::Name(name) => {
                if !out.is_empty() && !name.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            PathElement::Index(index) => {
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
            PathElement::Key(key) => {
                out.push('[');
                out.push_str(key);
                out.push(']');
            }
        }
    }
}

/// The path of an error without a field, as upstream prints it.
pub(crate) const NO_FIELD: &str = "[]";

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

/// A validation error of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Type.
    pub error_type: ErrorType,
    /// Path, such as `spec.containers[0].name`.
    pub field: String,
    /// The rejected value.
    pub bad_value: BadValue,
    /// Detail.
    pub detail: String,
}

impl FieldError {
    fn new(error_type: ErrorType, path: &Path<'_>, bad_value: BadValue, detail: impl Into<String>) -> Self {
        Self { error_type, field: path.to_string(), bad_value, detail: detail.into() }
    }

    /// The value at `path` is invalid.
    pub fn invalid(path: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, path, value.into(), detail)
    }

    /// The value at `path` has the wrong type.
    pub fn type_invalid(path: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::TypeInvalid, path, value.into(), detail)
    }

    /// The field at `path` is missing.
    pub fn required(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Required, path, BadValue::Omitted, detail)
    }

    /// The value at `path` occurs twice.
    pub fn duplicate(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorType::Duplicate, path, value.into(), "")
    }

    /// The value at `path` refers to something that does not exist.
    pub fn not_found(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorType::NotFound, path, value.into(), "")
    }

    /// The field at `path` must not be set or changed here.
    pub fn forbidden(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Forbidden, path, BadValue::Omitted, detail)
    }

    /// The value at `path` is not among `supported`, which are printed in the given order.
    pub fn not_supported(path: &Path<'_>, value: impl Into<BadValue>, supported: &[&str]) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|v| go_quote(v)).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorType::NotSupported, path, value.into(), detail)
    }

    /// The value at `path` has more than `max` bytes.
    pub fn too_long(path: &Path<'_>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(ErrorType::TooLong, path, BadValue::Omitted, format!("may not be more than {max} {unit}"))
    }

    /// The list at `path` has `actual` items, more than `max`.
    pub fn too_many(path: &Path<'_>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(ErrorType::TooMany, path, actual.into(), format!("must have at most {max} {unit}"))
    }

    /// The list at `path` has `actual` items, fewer than `min`.
    pub fn too_few(path: &Path<'_>, actual: usize, min: usize) -> Self {
        let unit = if min == 1 { "item" } else { "items" };
        Self::new(ErrorType::TooFew, path, actual.into(), format!("must have at least {min} {unit}"))
    }

    /// An internal error, not caused by the client.
    pub fn internal(path: &Path<'_>, why: impl Into<String>) -> Self {
        Self::new(ErrorType::Internal, path, BadValue::Omitted, why)
    }

    /// Returns the bytes that the error takes in a reply, about.
    fn size(&self) -> usize {
        let value = match &self.bad_value {
            BadValue::Omitted => 0,
            BadValue::Quoted(text) | BadValue::Raw(text) => text.len(),
        };
        CAUSE_SIZE + self.field.len() + value + self.detail.len()
    }

    /// Returns the message without the path, which is the cause's `message`.
    pub fn body(&self) -> String {
        let mut out = String::from(self.error_type.text());
        let with_value = matches!(
            self.error_type,
            ErrorType::Invalid
                | ErrorType::TypeInvalid
                | ErrorType::NotSupported
                | ErrorType::NotFound
                | ErrorType::Duplicate
                | ErrorType::TooMany
                | ErrorType::TooFew
        );
        if with_value {
            match &self.bad_value {
                BadValue::Omitted => {}
                BadValue::Quoted(text) => {
                    out.push_str(": ");
                    out.push_str(&go_quote(text));
                }
                BadValue::Raw(text) => {
                    out.push_str(": ");
                    out.push_str(text);
                }
            }
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// Encodes JSON like Go's `json.Marshal`, which escapes `<`, `>` and `&`.
pub(crate) fn go_json(value: &Value) -> String {
    let text = value.to_string();
    if text.contains(['<', '>', '&']) {
        text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    } else {
        text
    }
}

/// Most bytes of the errors of one object, in fields, values and details; the first error is always kept.
///
/// kube-apiserver has no such bound, and only a hostile object meets it: a request of 3 MiB can have thousands of
/// errors that show a list of a megabyte each.
const SHOWN_MAX: usize = 1 << 20;

/// The bytes of an error in the form of a cause, without its texts.
const CAUSE_SIZE: usize = 64;

/// The validation errors of an object, in the order of the checks.
///
/// Errors beyond [`SHOWN_MAX`] bytes are counted, but not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorList {
    kept: Vec<FieldError>,
    /// The errors that were not kept.
    omitted: usize,
    /// The size of those that are kept.
    size: usize,
    /// Texts for the client about what is accepted though it is not valid.
    warnings: Vec<String>,
}

impl ErrorList {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self { kept: Vec::new(), omitted: 0, size: 0, warnings: Vec::new() }
    }

    /// Returns the errors that are kept, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.kept.iter()
    }

    /// Returns the errors that are kept, in order, to change what they show.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, FieldError> {
        self.kept.iter_mut()
    }

    /// Returns true if there are no errors.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the number of errors, with those that were not kept.
    pub fn len(&self) -> usize {
        self.kept.len() + self.omitted
    }

    /// Returns true if no more errors are kept.
    pub fn is_full(&self) -> bool {
        self.size >= SHOWN_MAX
    }

    /// Adds an error.
    pub fn push(&mut self, error: FieldError) {
        self.push_with(|| error);
    }

    /// Adds an error that is costly to make, as one that shows a whole list. It is not made once the list is full.
    pub fn push_with(&mut self, error: impl FnOnce() -> FieldError) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let error = error();
        let size = self.size + error.size();
        if size > SHOWN_MAX && !self.kept.is_empty() {
            self.size = SHOWN_MAX;
            self.omitted += 1;
            return;
        }
        self.size = size;
        self.kept.push(error);
    }

    /// Adds an error so many times, or until the list is full.
    pub fn push_times(&mut self, times: usize, error: impl Fn() -> FieldError) {
        for _ in 0..times {
            if self.is_full() {
                break;
            }
            self.push_with(&error);
        }
    }

    /// Adds an error before all others, so that it is kept in any case.
    pub fn push_first(&mut self, error: FieldError) {
        self.size = self.size.saturating_add(error.size());
        self.kept.insert(0, error);
    }

    /// Appends the errors of `other`.
    pub fn append(&mut self, other: ErrorList) {
        self.omitted += other.omitted;
        self.warnings.extend(other.warnings);
        self.extend(other.kept);
    }

    /// Returns the errors for which `keep` holds, and all warnings.
    #[must_use]
    pub fn filtered(self, keep: impl Fn(&FieldError) -> bool) -> Self {
        let mut errors = Self { warnings: self.warnings, ..Self::new() };
        errors.extend(self.kept.into_iter().filter(keep));
        errors
    }

    /// Adds a warning, which is no error.
    pub fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Returns the warnings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Prefixes all paths with `field`, for an object embedded in that field of another one.
    #[must_use]
    pub fn below(mut self, field: &str) -> Self {
        for error in &mut self.kept {
            let dot = if error.field.is_empty() { "" } else { "." };
            error.field = format!("{field}{dot}{}", error.field);
        }
        self
    }

    /// See [`FieldError::invalid`].
    pub fn invalid(&mut self, path: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) {
        self.push_with(|| FieldError::invalid(path, value, detail));
    }

    /// See [`FieldError::required`].
    pub fn required(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.push_with(|| FieldError::required(path, detail));
    }

    /// See [`FieldError::duplicate`].
    pub fn duplicate(&mut self, path: &Path<'_>, value: impl Into<BadValue>) {
        self.push_with(|| FieldError::duplicate(path, value));
    }

    /// See [`FieldError::not_found`].
    pub fn not_found(&mut self, path: &Path<'_>, value: impl Into<BadValue>) {
        self.push_with(|| FieldError::not_found(path, value));
    }

    /// See [`FieldError::forbidden`].
    pub fn forbidden(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.push_with(|| FieldError::forbidden(path, detail));
    }

    /// See [`FieldError::not_supported`].
    pub fn not_supported(&mut self, path: &Path<'_>, value: impl Into<BadValue>, supported: &[&str]) {
        self.push_with(|| FieldError::not_supported(path, value, supported));
    }

    /// See [`FieldError::too_long`].
    pub fn too_long(&mut self, path: &Path<'_>, max: usize) {
        self.push_with(|| FieldError::too_long(path, max));
    }

    /// See [`FieldError::too_many`].
    pub fn too_many(&mut self, path: &Path<'_>, actual: usize, max: usize) {
        self.push_with(|| FieldError::too_many(path, actual, max));
    }

    /// Returns the message for a Status: a single error as it is, several in brackets, without duplicates; `None` if
    /// empty.
    pub fn to_aggregate_message(&self) -> Option<String> {
        let all: Vec<String> = self.kept.iter().map(ToString::to_string).collect();
        let mut seen = BTreeSet::new();
        let texts: Vec<&str> = all.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
        match texts.as_slice() {
            [] => None,
            [one] => Some((*one).to_owned()),
            texts => Some(format!("[{}]", texts.join(", "))),
        }
    }
}

impl Extend<FieldError> for ErrorList {
    fn extend<T: IntoIterator<Item = FieldError>>(&mut self, errors: T) {
        for error in errors {
            self.push(error);
        }
    }
}

impl From<FieldError> for ErrorList {
    fn from(error: FieldError) -> Self {
        let mut errors = Self::new();
        errors.push(error);
        errors
    }
}

impl IntoIterator for ErrorList {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

impl<'a> IntoIterator for &'a ErrorList {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.iter()
    }
}

/// Quotes a string like Go's `%q`, the format of names and values in upstream's messages.
pub fn go_quote(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() || (c.is_whitespace() && c != ' ') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_upstream_does() {
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        let limits = first.child("resources").to_string();
        assert_eq!(limits, "spec.containers[0].resources");
        assert_eq!(Path::new("data").key("a.b").to_string(), "data[a.b]");
    }

    #[test]
    fn bodies_carry_type_value_and_detail() {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        errors.invalid(&path, "a\"b", "no");
        errors.required(&path, "");
        errors.not_supported(&path, "x", &["a", "b"]);
        errors.invalid(&path, -1, "must be greater than or equal to 0");
        errors.too_long(&path, 63);
        let bodies: Vec<String> = errors.iter().map(FieldError::body).collect();
        assert_eq!(
            bodies,
            [
                "Invalid value: \"a\\\"b\": no",
                "Required value",
                "Unsupported value: \"x\": supported values: \"a\", \"b\"",
                "Invalid value: -1: must be greater than or equal to 0",
                "Too long: may not be more than 63 bytes",
            ]
        );
    }

    #[test]
    fn equal_errors_are_reported_once() {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        errors.required(&path, "");
        errors.required(&path, "");
        assert_eq!(errors.to_aggregate_message().as_deref(), Some("spec: Required value"));
        errors.required(&Path::new("status"), "");
        assert_eq!(errors.to_aggregate_message().as_deref(), Some("[spec: Required value, status: Required value]"));
    }

    #[test]
    fn errors_have_a_bound_together() {
        let path = Path::new("spec");
        let long = "a".repeat(SHOWN_MAX);
        let mut errors = ErrorList::new();
        errors.invalid(&path, long.as_str(), "the first one is kept");
        errors.invalid(&path, long.as_str(), "");
        errors.push_with(|| panic!("not made"));
        assert_eq!((errors.len(), errors.iter().count()), (3, 1));
        let mut more = ErrorList::new();
        for _ in 0..100_000 {
            more.required(&path, "");
        }
        assert_eq!(more.len(), 100_000);
        let kept = more.iter().count();
        assert!((10_000..20_000).contains(&kept), "{kept}");
        assert!(more.to_aggregate_message().is_some_and(|message| message == "spec: Required value"));
        more.append(errors);
        assert_eq!((more.len(), more.iter().count()), (100_003, kept));
        more.push_first(FieldError::internal(&path, "stopped"));
        let mut all = ErrorList::new();
        all.append(more);
        assert_eq!(all.iter().next().map(ToString::to_string).as_deref(), Some("spec: Internal error: stopped"));
    }
}
