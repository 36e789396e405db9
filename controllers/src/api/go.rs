//! Go text formats that reach the wire: quoting, integer parsing, JSON of string lists.

use std::fmt::Write as _;

/// Quotes `value` as Go's `%q` does.
pub fn quote(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for character in value.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                let _ = write!(quoted, "\\x{:02x}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// The error of [`atoi`]; its `Display` is the text of Go's `*strconv.NumError`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AtoiError {
    /// Not an optional sign followed by decimal digits.
    #[error("strconv.Atoi: parsing {}: invalid syntax", quote(.0))]
    Syntax(String),
    /// Out of the range of 64 bits.
    #[error("strconv.Atoi: parsing {}: value out of range", quote(.0))]
    Range(String),
}

/// Parses a decimal integer as Go's `strconv.Atoi` does on 64 bits: an optional `+` or `-`, then digits only; no
/// spaces, no underscores.
pub fn atoi(text: &str) -> Result<i64, AtoiError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AtoiError::Syntax(text.to_owned()));
    }
    text.parse().map_err(|_| AtoiError::Range(text.to_owned()))
}

/// Encodes a `[]string` as `encoding/json` does: `null` for a nil slice, which an empty list becomes here, and `<`, `>`
/// and `&` are escaped.
pub fn json_strings(values: &[String]) -> String {
    if values.is_empty() {
        return "null".to_owned();
    }
    let json = serde_json::Value::from(values).to_string();
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
