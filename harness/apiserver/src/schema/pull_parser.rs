//! A pull parser for JSON with the error messages of Go's `encoding/json`.
//! See `sigs.k8s.io/json`, upstream's copy of that package.
//!
//! Clients see these messages in `Status` replies, so they are part of the API's behaviour; no Rust parser produces
//! them.

use std::borrow::Cow;
use std::fmt;

use crate::byte_scan::{least, min};

/// Maximum nesting of decoded values. Go allows 10 000, but stored objects are decoded with `serde_json`, whose limit
/// is 128.
const MAX_JSON_DEPTH: usize = 120;
/// Maximum nesting of skipped values (undeclared fields), which is Go's limit.
const MAX_DEPTH_SKIPPED: usize = 10_000;
/// The end of the message for text that nests deeper.
pub(super) const TOO_DEEP: &str = "exceeded max depth";

/// The text is not JSON; the message is Go's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError(pub(super) String);

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Result<T> = std::result::Result<T, SyntaxError>;

/// The type of the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonToken {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// A pull parser over a byte slice.
pub(super) struct PullParser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> PullParser<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Creates a reader for the text of a single field, which starts at nesting depth 1.
    pub(super) fn for_field(text: &'a [u8]) -> Self {
        Self { text, at: 0, depth: 1 }
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// Returns the error for the byte at the current position.
    fn unexpected<T>(&self, context: &str) -> Result<T> {
        Err(match self.text.get(self.at) {
            None => SyntaxError("unexpected end of JSON input".to_owned()),
            Some(&c) => SyntaxError(format!("invalid character {} {context}", quote_char(c))),
        })
    }

    /// Returns the type of the value at the current position.
    pub(super) fn peek(&mut self) -> Result<JsonToken> {
        self.skip_whitespace();
        match self.text.get(self.at) {
            Some(b'{') => Ok(JsonToken::Object),
            Some(b'[') => Ok(JsonToken::Array),
            Some(b'"') => Ok(JsonToken::String),
            Some(b'-' | b'0'..=b'9') => Ok(JsonToken::Number),
            Some(b't') => Ok(JsonToken::True),
            Some(b'f') => Ok(JsonToken::False),
            Some(b'n') => Ok(JsonToken::Null),
            _ => self.unexpected("looking for beginning of value"),
        }
    }

    /// Enters the object or array at the current position.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.enter_nested(MAX_JSON_DEPTH)
    }

    fn enter_nested(&mut self, limit: usize) -> Result<()> {
        self.depth += 1;
        if self.depth > limit {
            return self.unexpected(TOO_DEEP);
        }
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    /// Reads the next key of the current object, and its colon; `None` at the object's end.
    pub(super) fn key(&mut self, first: &mut bool) -> Result<Option<Cow<'a, str>>> {
        self.skip_whitespace();
        match self.text.get(self.at) {
            Some(b'}') => {
                self.leave();
                return Ok(None);
            }
            Some(b',') if !*first => {
                self.at += 1;
                self.skip_whitespace();
            }
            _ if !*first => return self.unexpected("after object key:value pair"),
            _ => {}
        }
        *first = false;
        if self.text.get(self.at) != Some(&b'"') {
            return self.unexpected("looking for beginning of object key string");
        }
        let key = self.string()?;
        self.skip_whitespace();
        if self.text.get(self.at) != Some(&b':') {
            return self.unexpected("after object key");
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Moves to the next item of the current array. Returns false at its end.
    pub(super) fn item(&mut self, first: &mut bool) -> Result<bool> {
        self.skip_whitespace();
        match self.text.get(self.at) {
            Some(b']') => {
                self.leave();
                return Ok(false);
            }
            Some(b',') if !*first => self.at += 1,
            _ if !*first => return self.unexpected("after array element"),
            _ => {}
        }
        *first = false;
        Ok(true)
    }

    /// Reads the string at the current position.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        self.at += plain_length(&self.text[start..]);
        match self.text.get(self.at) {
            Some(b'"') => {}
            Some(b'\\') => return self.escaped(start),
            _ => return self.unexpected("in string literal"),
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        // Validating UTF-8 is faster than the lossy conversion, which is seldom needed.
        Ok(std::str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed))
    }

    /// Reads the rest of a string from its first backslash.
    fn escaped(&mut self, start: usize) -> Result<Cow<'a, str>> {
        let mut out = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        loop {
            let plain = self.at;
            while matches!(self.text.get(self.at), Some(&c) if c >= 0x20 && c != b'"' && c != b'\\') {
                self.at += 1;
            }
            out.push_str(&String::from_utf8_lossy(&self.text[plain..self.at]));
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(out));
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return self.unexpected("in string literal"),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        let plain = match self.text.get(self.at) {
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            Some(&c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            _ => return self.unexpected("in string escape code"),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode(&mut self) -> Result<char> {
        let unit = self.hex4()?;
        if (0xD800..0xDC00).contains(&unit) && self.text[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let low = self.hex4()?;
            if (0xDC00..0xE000).contains(&low) {
                let joined = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Result<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.text.get(self.at).and_then(|&c| char::from(c).to_digit(16)) else {
                return self.unexpected("in \\u hexadecimal character escape");
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Reads the number at the current position and returns its text.
    pub(super) fn number(&mut self) -> Result<&'a str> {
        let start = self.at;
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.unexpected("in numeric literal"),
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            if !matches!(self.text.get(self.at), Some(b'0'..=b'9')) {
                return self.unexpected("after decimal point in numeric literal");
            }
            self.digits();
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            if !matches!(self.text.get(self.at), Some(b'0'..=b'9')) {
                return self.unexpected("in exponent of numeric literal");
            }
            self.digits();
        }
        Ok(std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// Reads `true`, `false` or `null`.
    pub(super) fn literal(&mut self, token: JsonToken) -> Result<()> {
        let word: &str = match token {
            JsonToken::True => "true",
            JsonToken::False => "false",
            _ => "null",
        };
        for expected in word.bytes() {
            if self.text.get(self.at) != Some(&expected) {
                return self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(expected)));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Skips the value at the current position. Nesting uses heap, not stack.
    pub(super) fn skip(&mut self) -> Result<()> {
        let mut open: Vec<(JsonToken, bool)> = Vec::new();
        loop {
            match self.peek()? {
                token @ (JsonToken::Object | JsonToken::Array) => {
                    self.enter_nested(MAX_DEPTH_SKIPPED)?;
                    open.push((token, true));
                }
                JsonToken::String => drop(self.string()?),
                JsonToken::Number => _ = self.number()?,
                token => self.literal(token)?,
            }
            // Continues in the innermost container that has another value.
            loop {
                let Some((token, first)) = open.last_mut() else { return Ok(()) };
                let more = if *token == JsonToken::Object { self.key(first)?.is_some() } else { self.item(first)? };
                if more {
                    break;
                }
                open.pop();
            }
        }
    }

    /// Checks that only white space follows the value.
    pub(super) fn end(&mut self) -> Result<()> {
        self.skip_whitespace();
        if self.at == self.text.len() { Ok(()) } else { self.unexpected("after top-level value") }
    }
}

/// Returns zero for the bytes that end the plain part of a string.
#[expect(clippy::inline_always, reason = "as in `byte_scan`")]
#[inline(always)]
const fn distance_from_end(byte: u8) -> u8 {
    min(min(byte ^ b'"', byte ^ b'\\'), byte & 0xe0)
}

/// Returns the length of the plain part at the beginning of a string's text.
fn plain_length(text: &[u8]) -> usize {
    let is_plain = |chunk: &&[u8; 16]| least(chunk, distance_from_end) > 0;
    let from = text.as_chunks::<16>().0.iter().take_while(is_plain).count() * 16;
    text[from..].iter().position(|byte| distance_from_end(*byte) == 0).map_or(text.len(), |length| from + length)
}

/// Returns the `value`s of a JSON patch's operations as they were sent, without white space, for messages.
pub(super) fn operation_values(text: &[u8]) -> Result<Vec<Option<String>>> {
    let mut reader = PullParser::new(text);
    let mut out = Vec::new();
    if reader.peek()? != JsonToken::Array {
        return Ok(out);
    }
    reader.enter()?;
    let mut first = true;
    while reader.item(&mut first)? {
        let mut value = None;
        if reader.peek()? != JsonToken::Object {
            reader.skip()?;
            continue;
        }
        reader.enter()?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            reader.peek()?;
            let start = reader.at;
            reader.skip()?;
            if key == "value" {
                value = Some(without_spaces(&text[start..reader.at]));
            }
        }
        out.push(value);
    }
    Ok(out)
}

fn without_spaces(text: &[u8]) -> String {
    let mut quoted = false;
    let mut escaped = false;
    let kept = text.iter().copied().filter(|&c| {
        if quoted {
            quoted = escaped || c != b'"';
            escaped = !escaped && c == b'\\';
            return true;
        }
        quoted = c == b'"';
        !matches!(c, b' ' | b'\t' | b'\n' | b'\r')
    });
    String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
}

/// Quotes a byte like Go's `quoteChar`.
fn quote_char(c: u8) -> String {
    match c {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        7 => r"'\a'".to_owned(),
        8 => r"'\b'".to_owned(),
        11 => r"'\v'".to_owned(),
        12 => r"'\f'".to_owned(),
        0x80..=0xa0 | 0xad => format!("'\\u{c:04x}'"),
        0x20..=0x7e | 0xa1.. => format!("'{}'", char::from(c)),
        _ => format!("'\\x{c:02x}'"),
    }
}
