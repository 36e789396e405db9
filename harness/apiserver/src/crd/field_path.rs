//! Paths of fields in a schema, which rules and selectable fields name: `ValidFieldPath` of
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go` of Kubernetes 1.36. PURE.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::json::Value;

/// Reasons why a path leads to no field, in upstream's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FieldPathError {
    #[error("array notation is not allowed")]
    Brackets,
    #[error("expected [ or . but got: {0}")]
    Begin(String),
    #[error("unexpected end of JSON path")]
    End,
    #[error("expected single quoted string but got {0}")]
    Unquoted(String),
    #[error("invalid string literal: invalid escape char \\{0}")]
    Escape(char),
    #[error("expected ] but got {0}")]
    Unclosed(String),
    #[error("does not refer to a valid field")]
    Nowhere,
}

/// A path that leads to a field.
#[derive(Debug)]
pub(super) struct FieldPath<'a> {
    /// The names on the way.
    pub(super) steps: Vec<Cow<'a, str>>,
    /// The path as errors show it.
    pub(super) shown: String,
    /// The schema of the field.
    pub(super) schema: &'a Value,
}

/// Follows a path such as `.a.b` or, with `brackets`, `.a['b']` from a schema.
pub(super) fn field_path<'a>(
    path: &'a str,
    schema: &'a Value,
    brackets: bool,
) -> Result<FieldPath<'a>, FieldPathError> {
    let mut found = FieldPath { steps: Vec::new(), shown: String::new(), schema };
    let mut rest = path;
    while let Some(token) = path_token(&mut rest) {
        let in_brackets = match token {
            "[" if !brackets => return Err(FieldPathError::Brackets),
            "[" => true,
            "." => false,
            other => return Err(FieldPathError::Begin(other.to_owned())),
        };
        let name = path_token(&mut rest).ok_or(FieldPathError::End)?;
        let name = if in_brackets {
            let quoted = name.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
            unescaped(quoted.ok_or_else(|| FieldPathError::Unquoted(name.to_owned()))?)?
        } else {
            Cow::Borrowed(name)
        };
        found.enter(name)?;
        if in_brackets {
            match path_token(&mut rest) {
                Some("]") => {}
                Some(other) => return Err(FieldPathError::Unclosed(other.to_owned())),
                None => return Err(FieldPathError::End),
            }
        }
    }
    Ok(found)
}

impl<'a> FieldPath<'a> {
    /// Goes on to a property, or to a value of a map.
    fn enter(&mut self, name: Cow<'a, str>) -> Result<(), FieldPathError> {
        let properties = self.schema["properties"].as_object().filter(|properties| !properties.is_empty());
        if let Some(properties) = properties {
            let dot = if self.shown.is_empty() { "" } else { "." };
            let _ = write!(self.shown, "{dot}{name}");
            self.schema = properties.get(&*name).ok_or(FieldPathError::Nowhere)?;
        } else {
            let _ = write!(self.shown, "[{name}]");
            let values = self.schema.get("additionalProperties");
            self.schema =
                values.filter(|values| values.is_object() || **values == true).ok_or(FieldPathError::Nowhere)?;
        }
        self.steps.push(name);
        Ok(())
    }
}

/// Reads the escapes of a text in single quotes.
fn unescaped(text: &str) -> Result<Cow<'_, str>, FieldPathError> {
    if !text.contains('\\') {
        return Ok(Cow::Borrowed(text));
    }
    let mut read = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let meant = match (letter, letter == '\\') {
            (_, true) => letters.next(),
            (plain, false) => {
                read.push(plain);
                continue;
            }
        };
        read.push(match meant {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(same @ ('\'' | '\\')) => same,
            Some(other) => return Err(FieldPathError::Escape(other)),
            None => '\\',
        });
    }
    Ok(Cow::Owned(read))
}

/// Takes the next token of a path: a dot, a square bracket, a text in single quotes, or what is between them.
fn path_token<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let first = rest.chars().next()?;
    let mut before = '\\';
    let end = match first {
        '.' | '[' | ']' => Some(1),
        '\'' => rest.char_indices().find_map(|(index, letter)| {
            let closes = index > 0 && letter == '\'' && before != '\\';
            before = letter;
            closes.then_some(index + 1)
        }),
        _ => rest.find(['.', '[', ']']),
    };
    let (token, after) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = after;
    Some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    /// The cases of `TestValidateFieldPath`.
    #[test]
    fn paths_lead_to_fields() {
        const NOWHERE: &str = "does not refer to a valid field";
        let number = || json!({"type": "number"});
        let object = |properties: Value| json!({"type": "object", "properties": properties});
        let item = object(json!({"a": number(), "a-b.3'4": number()}));
        let schema = object(json!({
            "foo": {"type": "object", "additionalProperties": object(json!({"subAdd": number()}))},
            "white space": number(),
            "'foo'bar": number(),
            "a": object(json!({"foo's": number(), "test\u{7}": number(), "bb[b": number(),
                "bbb": object(json!({"c": number(), "34": number()})),
                "bbb.c": object(json!({"a-b.3'4": number()}))})),
            "list": {"type": "array", "items": item},
        }));
        let cases = [
            (".a", Ok("a")),
            (r"['\'foo\'bar']", Ok("'foo'bar")),
            (r".\'foo\'bar", Err(NOWHERE)),
            (". a", Err(NOWHERE)),
            (".white space", Ok("white space")),
            ("['white space']", Ok("white space")),
            (".a.bb[b", Err(NOWHERE)),
            (".a['bbb.c']", Ok("a.bbb.c")),
            (".a['bbb.c'", Err("unexpected end of JSON path")),
            (".", Err("unexpected end of JSON path")),
            (".foo.subAdd", Ok("foo[subAdd]")),
            (".foo['subAdd']", Ok("foo[subAdd]")),
            (".foo.any.subAdd", Ok("foo[any].subAdd")),
            (".a.foo's", Ok("a.foo's")),
            (r".a['foo\'s']", Ok("a.foo's")),
            (r".a['test\a']", Ok("a.test\u{7}")),
            (r".a['test\q']", Err(r"invalid string literal: invalid escape char \q")),
            (".a.foo", Err(NOWHERE)),
            (".a.bbb[0]", Err("expected single quoted string but got 0")),
            (".a.bbb.34", Ok("a.bbb.34")),
            (".a.bbb['34']", Ok("a.bbb.34")),
            (".a['bbb'.c", Err("expected ] but got .")),
            (".list", Ok("list")),
            (".list[0]", Err("expected single quoted string but got 0")),
            (".list. a", Err(NOWHERE)),
            (".list['a']", Err(NOWHERE)),
            ("a", Err("expected [ or . but got: a")),
            (".c", Err(NOWHERE)),
            (".a..b", Err(NOWHERE)),
            (".list.a-b.34", Err(NOWHERE)),
        ];
        for (path, expected) in cases {
            let found = field_path(path, &schema, true);
            let found = found.map(|found| found.shown).map_err(|error| error.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{path}");
        }
        assert_eq!(field_path("['a']", &schema, false).map(|_| ()), Err(FieldPathError::Brackets));
    }
}
