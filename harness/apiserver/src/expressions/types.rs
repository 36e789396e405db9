//! CEL types of schemas. Follows `common/schemas.go` and `escaping.go` in `staging/src/k8s.io/apiserver/pkg/cel` of
//! Kubernetes 1.36. PURE.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::json::Value;

/// Deepest schema level that is visited.
const MAX_SCHEMA_DEPTH: usize = 64;

/// Reserved words of CEL; fields of these names are escaped.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A CEL type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CelType {
    /// Any type; known only at evaluation.
    Dyn,
    /// A type parameter that nothing is bound to, such as that of the elements of `[]`. It occurs only in other types.
    Free,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    /// The type of a type.
    Type(Box<Self>),
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
    /// An object with these fields.
    Object(Arc<BTreeMap<String, Self>>),
    Optional(Box<Self>),
    /// A type that Kubernetes' libraries add.
    Other(&'static str),
}

impl CelType {
    /// Returns the type of a schema's values; `None` if expressions cannot see them, as those of no type, or of
    /// containers of such. `root` objects have apiVersion, kind and metadata. See `SchemaDeclType`.
    pub(crate) fn of(schema: &Value, root: bool) -> Option<Self> {
        of_schema(schema, root, 0)
    }

    /// Returns the type of the objects of a published schema without references; `None` if expressions cannot see them.
    /// Its texts may be integers, as `int-or-string` says. See `SchemaDeclType`.
    #[cfg(feature = "controllers")]
    pub(crate) fn of_published(schema: &Value) -> Option<Self> {
        of_published(schema, 0)
    }

    /// Returns the type of a list of this type.
    pub(crate) fn list(self) -> Self {
        Self::List(Box::new(self))
    }

    /// Returns the optional of this type.
    pub(crate) fn optional(self) -> Self {
        Self::Optional(Box::new(self))
    }

    /// Returns the type of an element of a literal; `optional` ones, as in `[?a]`, are given as optional values.
    pub(crate) fn content(self, optional: bool) -> Self {
        match self {
            Self::Optional(content) if optional => *content,
            other => other,
        }
    }

    /// Returns true if a value of type `other` is accepted where this type is expected, or if that is unknown.
    pub(crate) fn takes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.takes(b),
            (Self::Map(k, v), Self::Map(l, w)) => k.takes(l) && v.takes(w),
            (Self::Dyn | Self::Free, _)
            | (_, Self::Dyn | Self::Free)
            | (Self::Object(_), Self::Object(_))
            | (Self::Type(_), Self::Type(_))
            | (Self::Object(_) | Self::Timestamp | Self::Duration | Self::Optional(_) | Self::Other(_), Self::Null)
            | (Self::Null, Self::Object(_) | Self::Timestamp | Self::Duration | Self::Optional(_) | Self::Other(_)) => {
                true
            }
            (a, b) => a == b,
        }
    }

    /// Returns the type of values that are of this type or of another one that it takes: `mostGeneral` of cel-go's
    /// `checker/types.go`.
    pub(crate) fn join(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Free, ty) | (ty, Self::Free) => ty.clone(),
            (Self::List(a), Self::List(b)) => a.join(b).list(),
            (Self::Optional(a), Self::Optional(b)) => a.join(b).optional(),
            (Self::Map(k, v), Self::Map(l, w)) => Self::Map(Box::new(k.join(l)), Box::new(v.join(w))),
            (Self::Dyn, _) | (_, Self::Dyn) => Self::Dyn,
            // Types of schemas have names, which decide; here are only their fields.
            (Self::Object(a), Self::Object(b)) if a != b => Self::Dyn,
            (a, _) => a.clone(),
        }
    }

    /// Returns true if the types are the same but for type parameters: `IsEquivalentType` of cel-go.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Free, _) | (_, Self::Free) => true,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.is_equivalent(b),
            (Self::Map(k, v), Self::Map(l, w)) => k.is_equivalent(l) && v.is_equivalent(w),
            (a, b) => a == b,
        }
    }

    /// Returns the type with any type in place of type parameters: `substitute` there.
    pub(crate) fn substituted(&self) -> Self {
        match self {
            Self::Free => Self::Dyn,
            Self::List(item) => item.substituted().list(),
            Self::Optional(content) => content.substituted().optional(),
            Self::Map(key, value) => Self::Map(Box::new(key.substituted()), Box::new(value.substituted())),
            other => other.clone(),
        }
    }

    /// Returns the type of the items of a list, or of the values of a map.
    pub(crate) fn element(&self) -> Option<Self> {
        match self {
            Self::List(element) | Self::Map(_, element) => Some((**element).clone()),
            _ => None,
        }
    }

    /// Returns the name of this type as that of an output: `DeclaredTypeName` of cel-go, which differs from
    /// `FormatCELType` of its errors.
    pub(crate) fn declared(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Type(of) => format!("type({})", of.declared()),
            Self::List(item) => format!("list({})", item.declared()),
            Self::Map(key, value) => format!("map({}, {})", key.declared(), value.declared()),
            Self::Optional(content) => format!("optional_type({})", content.declared()),
            other => other.to_string(),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }
}

impl fmt::Display for CelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Free => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(_) => f.write_str("object"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

fn of_schema(schema: &Value, root: bool, depth: usize) -> Option<CelType> {
    let flag = |field: &str| schema.get(field) == Some(&Value::Bool(true));
    if depth > MAX_SCHEMA_DEPTH || flag("x-kubernetes-int-or-string") {
        return Some(CelType::Dyn);
    }
    let below = |schema: &Value| of_schema(schema, false, depth + 1);
    match schema.get("type").and_then(Value::as_str).unwrap_or(if root { "object" } else { "" }) {
        "object" => {
            if let Some(values) = schema.get("additionalProperties").filter(|one| one.is_object()) {
                return Some(CelType::Map(Box::new(CelType::Text), Box::new(below(values)?)));
            }
            let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            let mut fields: BTreeMap<String, CelType> =
                fields.filter_map(|(name, schema)| Some((escape(name)?, below(schema)?))).collect();
            if root || flag("x-kubernetes-embedded-resource") {
                fields.insert("apiVersion".to_owned(), CelType::Text);
                fields.insert("kind".to_owned(), CelType::Text);
                let own = ["name", "generateName"].map(|name| (name.to_owned(), CelType::Text));
                fields.insert("metadata".to_owned(), CelType::Object(Arc::new(own.into())));
            }
            Some(CelType::Object(Arc::new(fields)))
        }
        "array" => Some(below(schema.get("items")?)?.list()),
        "string" => Some(match schema.get("format").and_then(Value::as_str).unwrap_or_default() {
            "byte" => CelType::Bytes,
            "duration" => CelType::Duration,
            "date" | "date-time" => CelType::Timestamp,
            _ => CelType::Text,
        }),
        "boolean" => Some(CelType::Bool),
        "integer" => Some(CelType::Int),
        "number" => Some(CelType::Double),
        _ => None,
    }
}

#[cfg(feature = "controllers")]
fn of_published(schema: &Value, depth: usize) -> Option<CelType> {
    let flag = |field: &str| schema.get(field) == Some(&Value::Bool(true));
    if depth > MAX_SCHEMA_DEPTH || flag("x-kubernetes-int-or-string") || schema["format"] == "int-or-string" {
        return Some(CelType::Dyn);
    }
    match schema["type"].as_str()? {
        "object" => {
            if let Some(values) = schema.get("additionalProperties").filter(|one| one.is_object()) {
                return Some(CelType::Map(Box::new(CelType::Text), Box::new(of_published(values, depth + 1)?)));
            }
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields = fields.filter_map(|(name, schema)| Some((escape(name)?, of_published(schema, depth + 1)?)));
            Some(CelType::Object(Arc::new(fields.collect())))
        }
        "array" => Some(of_published(schema.get("items")?, depth + 1)?.list()),
        _ => of_schema(schema, false, depth),
    }
}

/// Returns the escaped form of a reserved word. Selections may have the word itself, but for those of the grammar.
pub(super) fn escape_reserved(name: &str) -> Option<String> {
    RESERVED.contains(&name).then(|| format!("__{name}__"))
}

/// Returns the name of a field in expressions; `None` if expressions cannot name it.
pub(crate) fn escape(name: &str) -> Option<String> {
    if let Some(escaped) = escape_reserved(name) {
        return Some(escaped);
    }
    let mut escaped = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match first {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c == '_' || c.is_ascii_alphanumeric() => escaped.push(c),
            _ => return None,
        }
        rest = &rest[first.len_utf8()..];
    }
    (!name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())).then_some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    #[rstest]
    #[case("a", Some("a"))]
    #[case("x-prop", Some("x__dash__prop"))]
    #[case("namespace", Some("__namespace__"))]
    #[case("a__b.c/d", Some("a__underscores__b__dot__c__slash__d"))]
    #[case("-a", Some("__dash__a"))]
    #[case("__proto__", Some("__underscores__proto__underscores__"))]
    #[case("", None)]
    #[case("1a", None)]
    #[case("a b", None)]
    fn names(#[case] name: &str, #[case] expected: Option<&str>) {
        assert_eq!(escape(name).as_deref(), expected);
    }

    #[rstest]
    #[case(json!({"type": "integer"}), "int")]
    #[case(json!({"type": "number"}), "double")]
    #[case(json!({"type": "array", "items": {"type": "string", "format": "date-time"}}), "list(timestamp)")]
    #[case(json!({"type": "object", "additionalProperties": {"type": "string"}}), "map(string, string)")]
    #[case(json!({"x-kubernetes-int-or-string": true}), "dyn")]
    #[case(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), "object")]
    #[case(json!({"x-kubernetes-preserve-unknown-fields": true}), "")]
    #[case(json!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}}), "")]
    #[case(json!({"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true}}), "")]
    fn types(#[case] schema: Value, #[case] expected: &str) {
        assert_eq!(CelType::of(&schema, false).map(|ty| ty.to_string()).unwrap_or_default(), expected);
    }
}
