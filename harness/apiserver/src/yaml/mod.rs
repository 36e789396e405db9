//! Encodes YAML like `sigs.k8s.io/yaml`, which Go clients and kube-apiserver use: sorted keys, the same quoting, the
//! same folding of long lines. Own code, because no crate quotes and folds in the same way. PURE.

mod plain_json;
mod read;

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;

use crate::json::{Key, Map, Value};

pub(crate) use read::{duplicate_keys_error, is_plain_json, to_json};

/// Lines are folded at the first space after this many characters.
const WIDTH: usize = 80;

/// Encodes a value as a YAML document.
pub(crate) fn to_string(value: &Value) -> String {
    let mut writer = Emitter { text: String::new(), column: 0 };
    match value {
        Value::Object(map) if !map.is_empty() => writer.mapping(map, 0, false),
        Value::Array(list) if !list.is_empty() => writer.list(list, 0, false),
        scalar => {
            writer.scalar(scalar, 0);
            writer.line();
        }
    }
    writer.text
}

struct Emitter {
    text: String,
    column: usize,
}

impl Emitter {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
        self.column += text.chars().count();
    }

    fn line(&mut self) {
        self.text.push('\n');
        self.column = 0;
    }

    fn indent(&mut self, depth: usize) {
        self.put(&" ".repeat(depth));
    }

    /// `started`: the first key continues the current line.
    fn mapping(&mut self, map: &Map, depth: usize, started: bool) {
        let mut keys: Vec<&Key> = map.keys().collect();
        keys.sort_by(|a, b| compare_keys(a, b));
        for (i, key) in keys.into_iter().enumerate() {
            if i > 0 || !started {
                self.indent(depth);
            }
            self.text_scalar(key, None, depth);
            self.put(":");
            match &map[key] {
                Value::Object(inner) if !inner.is_empty() => {
                    self.line();
                    self.mapping(inner, depth + 2, false);
                }
                Value::Array(inner) if !inner.is_empty() => {
                    self.line();
                    self.list(inner, depth, false);
                }
                scalar => {
                    self.put(" ");
                    self.scalar(scalar, depth + 2);
                    self.line();
                }
            }
        }
    }

    fn list(&mut self, list: &[Value], depth: usize, started: bool) {
        for (i, item) in list.iter().enumerate() {
            if i > 0 || !started {
                self.indent(depth);
            }
            self.put("- ");
            match item {
                Value::Object(inner) if !inner.is_empty() => self.mapping(inner, depth + 2, true),
                Value::Array(inner) if !inner.is_empty() => self.list(inner, depth + 2, true),
                scalar => {
                    self.scalar(scalar, depth + 2);
                    self.line();
                }
            }
        }
    }

    fn scalar(&mut self, value: &Value, depth: usize) {
        match value {
            Value::String(text) => self.text_scalar(text, Some(depth), depth),
            Value::Object(_) => self.put("{}"),
            Value::Array(_) => self.put("[]"),
            other => self.put(&other.to_string()),
        }
    }

    /// `fold` is the indentation of folded lines; keys are not folded.
    fn text_scalar(&mut self, text: &str, fold: Option<usize>, depth: usize) {
        if !text.chars().all(is_printable) || (fold.is_none() && text.contains('\n')) {
            self.double_quoted(text);
        } else if text.contains('\n') {
            self.literal(text, depth);
        } else if resolves_to_non_string(text) {
            self.double_quoted(text);
        } else if is_plain(text) {
            self.folded(text, fold);
        } else {
            self.put("'");
            self.folded(&text.replace('\'', "''"), fold);
            self.put("'");
        }
    }

    fn folded(&mut self, text: &str, fold: Option<usize>) {
        let chars: Vec<char> = text.chars().collect();
        for (i, &char) in chars.iter().enumerate() {
            let lone = char == ' ' && i > 0 && chars[i - 1] != ' ' && chars.get(i + 1).is_some_and(|next| *next != ' ');
            match fold {
                Some(depth) if lone && self.column > WIDTH => {
                    self.line();
                    self.indent(depth);
                }
                _ => self.put(char.encode_utf8(&mut [0; 4])),
            }
        }
    }

    fn literal(&mut self, text: &str, depth: usize) {
        let body = text.trim_end_matches('\n');
        self.put(match text.len() - body.len() {
            0 => "|-",
            1 => "|",
            _ => "|+",
        });
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            self.line();
            if !line.is_empty() {
                self.indent(depth);
                self.put(line);
            }
        }
    }

    fn double_quoted(&mut self, text: &str) {
        let mut quoted = String::from("\"");
        for char in text.chars() {
            match char {
                '"' => quoted.push_str("\\\""),
                '\\' => quoted.push_str("\\\\"),
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                '\r' => quoted.push_str("\\r"),
                '\0' => quoted.push_str("\\0"),
                char if is_printable(char) => quoted.push(char),
                char => {
                    let _ = write!(quoted, "\\x{:02X}", u32::from(char));
                }
            }
        }
        quoted.push('"');
        self.put(&quoted);
    }
}

fn is_printable(char: char) -> bool {
    char == '\n' || !(char.is_control() || char == '\u{feff}')
}

/// Returns true if plain text would be parsed as something other than a string.
fn resolves_to_non_string(text: &str) -> bool {
    static OTHER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(concat!(
            r"^(?:|~|<<|y|Y|n|N|(?:[yY]es|YES|[nN]o|NO|[tT]rue|TRUE|[fF]alse|FALSE|[oO]n|ON|[oO]ff|OFF|[nN]ull|NULL)",
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
            r"|[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
            r"|[-+]?0x[0-9a-fA-F_]+|[-+]?0b[01_]+|[-+]?0o[0-7_]+",
            r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[-+][0-9:]+)?)?",
            r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)$",
        ))
        .ok()
    });
    OTHER.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// Returns true if a string needs no quotes.
fn is_plain(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let space_after = |i: usize| chars.get(i + 1).is_none_or(|next| next.is_whitespace());
    let Some(&first) = chars.first() else { return false };
    if first == ' ' || chars.last() == Some(&' ') || text.starts_with("---") || text.starts_with("...") {
        return false;
    }
    if "#,[]{}&*!|>'\"%@`".contains(first) || ("?:-".contains(first) && space_after(0)) {
        return false;
    }
    !chars.iter().enumerate().skip(1).any(|(i, &char)| match char {
        ':' => space_after(i),
        '#' => chars[i - 1].is_whitespace(),
        _ => false,
    })
}

/// Compares keys: letters after everything else, numbers by their value.
fn compare_keys(a: &str, b: &str) -> Ordering {
    let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = left.iter().zip(&right).position(|(a, b)| a != b) else { return left.len().cmp(&right.len()) };
    let x = left[at];
    let y = right[at];
    let after_digit = at > 0 && left[at - 1].is_numeric();
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => x.cmp(&y),
        (true, false) if after_digit => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if after_digit => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let number = |chars: &[char]| -> (usize, String) {
                let start = (0..at).rev().take_while(|&i| chars[i].is_ascii_digit()).last().unwrap_or(at);
                let digits: String = chars[start..].iter().take_while(|char| char.is_ascii_digit()).collect();
                let digits = digits.trim_start_matches('0').to_owned();
                (digits.len(), digits)
            };
            if x.is_ascii_digit() && y.is_ascii_digit() { number(&left).cmp(&number(&right)) } else { x.cmp(&y) }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case::plain(json!("img:1"), "img:1")]
    #[case::owned_field(json!({"k:{\"name\":\"c\"}": {".": {}}}), "k:{\"name\":\"c\"}:\n  .: {}")]
    #[case::time(json!("2026-11-21T04:03:35Z"), "\"2026-11-21T04:03:35Z\"")]
    #[case::number(json!("222"), "\"222\"")]
    #[case::boolean(json!("on"), "\"on\"")]
    #[case::empty(json!(""), "\"\"")]
    #[case::colon(json!("a: b"), "'a: b'")]
    #[case::star(json!("*"), "'*'")]
    #[case::quote(json!("'a'"), "'''a'''")]
    #[case::lines(json!({"m": "a\nb"}), "m: |-\n  a\n  b")]
    #[case::list(json!({"l": [{"a": 1, "b": []}]}), "l:\n- a: 1\n  b: []")]
    #[case::order(json!({"a10": 1, "a9": 2, "ab": 3}), "a9: 2\na10: 1\nab: 3")]
    #[case::nothing(json!({"n": null, "k": null}), "k: null\n\"n\": null")]
    fn written(#[case] value: Value, #[case] text: &str) {
        assert_eq!(to_string(&value), format!("{text}\n"));
    }

    #[test]
    fn long_lines_are_folded_at_a_space() {
        let text = "word ".repeat(20).trim_end().to_owned();
        let written = to_string(&json!({"message": text}));
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() > WIDTH && lines[1].starts_with("  word"));
    }
}
