//! Decodes YAML like `sigs.k8s.io/yaml`, with its error messages. PURE.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::plain_json::is_plain_object;
use crate::json::{Map, Value};

/// Reasons why a text is not YAML, in the words of Go's parser.
#[derive(Debug, thiserror::Error)]
pub(crate) enum YamlError {
    /// The text is not UTF-8.
    #[error("yaml: invalid leading UTF-8 octet")]
    Encoding,
    /// The text has control characters.
    #[error("yaml: control characters are not allowed")]
    ControlCharacters,
    /// The document begins with a tab.
    #[error("yaml: found character that cannot start any token")]
    Tab,
    /// The document is nested too deeply.
    #[error("yaml: exceeded max depth of 10000")]
    TooDeep,
    /// The document is not well-formed.
    #[error("yaml: {0}")]
    Malformed(String),
    /// The document has no form in JSON.
    #[error("yaml: {0}")]
    Json(#[from] serde_json::Error),
}

/// A decoded YAML document.
pub(crate) struct JsonDocument {
    /// The document as JSON text.
    pub(crate) json: Vec<u8>,
    /// Complaints about duplicate keys, worded as Go's parser does; the last value counts.
    pub(crate) again: Vec<String>,
}

/// Returns true for JSON that [`to_json`] leaves as it is.
pub(crate) fn is_plain_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| !text.contains(is_control) && is_plain_object(text))
}

/// Converts a YAML document to JSON text; errors are worded as Go's parser does. Only the first document counts.
pub(crate) fn to_json(text: &[u8]) -> Result<JsonDocument, YamlError> {
    let text = std::str::from_utf8(text).map_err(|_| YamlError::Encoding)?;
    if text.contains(is_control) {
        return Err(YamlError::ControlCharacters);
    }
    if text.trim_start_matches('\n').starts_with('\t') {
        return Err(YamlError::Tab);
    }
    if is_plain_object(text) {
        return Ok(JsonDocument { json: text.as_bytes().to_vec(), again: Vec::new() });
    }
    let (value, again) = read_all(first_document(text))?;
    let json = serde_json::to_vec(&value)?;
    Ok(JsonDocument { json, again })
}

/// Returns the first document of a stream. What follows is not read, so it need not be YAML.
fn first_document(text: &str) -> &str {
    let marks = |line: &str, mark: &str| {
        line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let (mut at, mut is_open) = (0, false);
    for line in text.split_inclusive('\n') {
        let starts = marks(line, "---");
        if is_open && (starts || marks(line, "...")) {
            return &text[..at];
        }
        let is_blank = line.trim().is_empty() || line.starts_with(['#', '%']);
        is_open |= starts || !is_blank && !marks(line, "...");
        at += line.len();
    }
    text
}

/// Decodes a document of any permitted depth, with complaints about duplicate keys.
pub(super) fn read_all(text: &str) -> Result<(Value, Vec<String>), YamlError> {
    match read_yaml(text, DEPTH_USUAL) {
        Err(YamlError::TooDeep) => with_large_stack(|| read_yaml(text, DEPTH)).unwrap_or(Err(YamlError::TooDeep)),
        read => read,
    }
}

/// Joins complaints of Go's YAML parser into one message.
pub(crate) fn duplicate_keys_error(again: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", again.join("\n  "))
}

/// Deepest nesting of YAML; stored objects are not deeper either.
const DEPTH: usize = 120;
/// Depth for which the parser needs no larger stack.
const DEPTH_USUAL: usize = 48;

/// Decodes the first document, with complaints about duplicate keys; errors are worded as Go's parser does.
fn read_yaml(text: &str, depth: usize) -> Result<(Value, Vec<String>), YamlError> {
    // A document has fewer nodes than bytes, except for aliases, which upstream limits, too.
    let nodes = text.len().max(10_000);
    let options = |duplicates| {
        serde_saphyr::options! {
            duplicate_keys: duplicates,
            budget: serde_saphyr::budget! {
                max_depth: depth,
                flow_nesting_limit: depth,
                max_nodes: nodes,
                max_events: nodes.saturating_mul(3),
            },
        }
    };
    let once = || options(DuplicateKeyPolicy::Error);
    let read = match serde_saphyr::from_str_with_options::<Value>(text, once()) {
        Err(error) if error.to_string().contains("multiple YAML documents") => {
            let mut bytes = text.as_bytes();
            serde_saphyr::read_with_options(&mut bytes, once()).next().unwrap_or(Ok(Value::Null))
        }
        read => read,
    };
    match read.map_err(|error| error.to_string()) {
        Ok(value) => Ok((value, Vec::new())),
        Err(error) if error.contains("duplicate mapping key") => {
            last_wins(text, options(DuplicateKeyPolicy::LastWins)).map_err(|error| go_error(text, &error.to_string()))
        }
        Err(error) => Err(go_error(text, &error)),
    }
}

/// Runs `read` on a thread with a stack large enough for the deepest document; `None` if there is no such thread.
fn with_large_stack<T: Send>(read: impl FnOnce() -> T + Send) -> Option<T> {
    const STACK: usize = 16 * 1024 * 1024;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, read);
        thread.ok()?.join().ok()
    })
}

/// Returns true for characters that Go's YAML reader rejects everywhere.
fn is_control(letter: char) -> bool {
    !matches!(letter, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Returns the first alias whose anchor does not precede it.
fn unknown_anchor(text: &str) -> &str {
    let name_at = |at: usize| {
        let rest = text.get(at + 1..).unwrap_or_default();
        &rest[..rest.find(|letter: char| letter.is_whitespace() || "[]{},".contains(letter)).unwrap_or(rest.len())]
    };
    let aliases = text.match_indices('*').map(|(at, _)| (at, name_at(at))).filter(|(_, name)| !name.is_empty());
    let mut unknown = aliases.filter(|(at, name)| !text[..*at].contains(&format!("&{name}")));
    unknown.next().map_or("", |(_, name)| name)
}

/// Translates an error to the words of Go's YAML parser, which gives a line only from the second on.
fn go_error(text: &str, error: &str) -> YamlError {
    let first = error.lines().next().unwrap_or_default();
    if first.contains("recursion limit") || first.contains("Depth {") {
        return YamlError::TooDeep;
    }
    if first.contains("unknown anchor") {
        return YamlError::Malformed(format!("unknown anchor '{}' referenced", unknown_anchor(text)));
    }
    if first.contains("alias") || first.contains("budget breached") {
        return YamlError::Malformed("document contains excessive aliasing".to_owned());
    }
    let rest = first.strip_prefix("error: ").unwrap_or(first);
    let line = rest.strip_prefix("line ").and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok()).unwrap_or(1);
    let message = rest.split_once(": ").map_or(rest, |(_, message)| message);
    let (line, message) = if message.contains("unclosed bracket") {
        let opened = text.trim_end().ends_with(['[', '{', ',']);
        let brace = text.rfind('{') > text.rfind('[');
        let what = match (opened, brace) {
            (true, _) => "node content",
            (false, true) => "',' or '}'",
            (false, false) => "',' or ']'",
        };
        (text.lines().count() + 1, format!("did not find expected {what}"))
    } else if message.contains("unclosed quote") || message.contains("indentation in multiline quoted") {
        (line, "found unexpected end of stream".to_owned())
    } else if message.contains("tabs disallowed") || message.starts_with("unexpected character") {
        (line, "found character that cannot start any token".to_owned())
    } else if message.contains("invalid !!binary base64") {
        (line, "!!binary value contains invalid base64 data".to_owned())
    } else if message.contains("mismatched bracket") {
        (line, "did not find expected node content".to_owned())
    } else {
        // Go omits the context of the error.
        let found = message.split_once(", did not find").map(|(_, rest)| format!("did not find{rest}"));
        (line, found.unwrap_or_else(|| message.to_owned()))
    };
    YamlError::Malformed(match line {
        0 | 1 => message,
        // Marks of Go's parser count from zero, those of its scanner from one.
        line if message.starts_with("did not") => format!("line {}: {message}", line - 1),
        line => format!("line {line}: {message}"),
    })
}

/// Decodes a document with duplicate keys: the last value counts, and every duplicate is reported with its line.
fn last_wins(text: &str, options: serde_saphyr::Options) -> Result<(Value, Vec<String>), serde_saphyr::Error> {
    let read: YamlNode = serde_saphyr::from_str_with_options(text, options)?;
    Ok((read.value, read.again.into_iter().map(|(_, complaint)| complaint).collect()))
}

/// A value, and the duplicate keys in it with their lines.
struct YamlNode {
    value: Value,
    again: Vec<(u64, String)>,
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl NodeVisitor {
    fn plain(value: impl Into<Value>) -> YamlNode {
        YamlNode { value: value.into(), again: Vec::new() }
    }
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = YamlNode;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<YamlNode, E> {
        Ok(Self::plain(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<YamlNode, E> {
        Ok(Self::plain(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<YamlNode, E> {
        Ok(Self::plain(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<YamlNode, E> {
        Ok(Self::plain(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<YamlNode, E> {
        Ok(Self::plain(value))
    }

    fn visit_unit<E>(self) -> Result<YamlNode, E> {
        Ok(Self::plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<YamlNode, E> {
        Ok(Self::plain(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlNode, D::Error> {
        YamlNode::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<YamlNode, A::Error> {
        let mut items = Vec::new();
        let mut again = Vec::new();
        while let Some(item) = list.next_element::<YamlNode>()? {
            items.push(item.value);
            again.extend(item.again);
        }
        Ok(YamlNode { value: items.into(), again })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<YamlNode, A::Error> {
        let mut map = Map::new();
        let mut again = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let line = key.referenced.line();
            if map.contains_key(&key.value) {
                again.push((line, format!("line {line}: key {:?} already set in map", key.value)));
            }
            let item: YamlNode = entries.next_value()?;
            again.extend(item.again);
            map.insert(key.value, item.value);
        }
        again.sort_by_key(|(line, _)| *line);
        Ok(YamlNode { value: map.into(), again })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn the_last_of_equal_keys_counts() {
        let text = "metadata:\n  name: a\n  name: b\ndata: {a: b, a: c}\nlist:\n- {x: 1}\n";
        let last = DuplicateKeyPolicy::LastWins;
        let (value, again) = last_wins(text, serde_saphyr::options! { duplicate_keys: last }).unwrap();
        assert_eq!(value, json!({"metadata": {"name": "b"}, "data": {"a": "c"}, "list": [{"x": 1}]}));
        assert_eq!(again, ["line 3: key \"name\" already set in map", "line 4: key \"a\" already set in map"]);
    }
}
