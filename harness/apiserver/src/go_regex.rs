//! Regular expressions in Go's syntax, RE2, for the crate `regex`. PURE.
//!
//! Follows `regexp/syntax/parse.go` and `perl_groups.go` of Go, including the messages. The crate's own syntax differs:
//! its classes are of Unicode, can be nested and intersected, and braces have to be quoted.

use regex::{Regex, RegexBuilder};

/// Largest number of a repetition, and largest product of nested ones: `maxRepeat`.
const MAX_REPEAT: u64 = 1_000;

/// Largest height of an expression: `maxHeight`.
const MAX_HEIGHT: usize = 1_000;

/// Most instructions of a compiled expression: `maxSize`.
const MAX_INSTRUCTIONS: u64 = (128 << 20) / 40;

/// A class without characters, for code points that texts do not contain.
const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

/// The kind of a mistake in a regular expression, in Go's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GoRegexFault {
    #[error("invalid character class range")]
    CharRange,
    #[error("invalid escape sequence")]
    Escape,
    #[error("invalid named capture")]
    NamedCapture,
    #[error("invalid or unsupported Perl syntax")]
    PerlOperator,
    #[error("invalid nested repetition operator")]
    RepeatOperator,
    #[error("invalid repeat count")]
    RepeatSize,
    #[error("missing closing ]")]
    MissingBracket,
    #[error("missing closing )")]
    MissingParen,
    #[error("missing argument to repetition operator")]
    MissingRepeatArgument,
    #[error("trailing backslash at end of expression")]
    TrailingBackslash,
    #[error("unexpected )")]
    UnexpectedParen,
    #[error("expression nests too deeply")]
    NestingDepth,
    #[error("expression too large")]
    Large,
}

/// A mistake in a regular expression, as Go describes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {fault}: `{part}`")]
pub(crate) struct GoRegexError {
    fault: GoRegexFault,
    /// The part of the expression that is wrong.
    part: String,
}

fn wrong<T>(fault: GoRegexFault, part: &str) -> Result<T, GoRegexError> {
    Err(GoRegexError { fault, part: part.to_owned() })
}

/// Compiles a regular expression of Go. One that takes more than `bytes` of memory is an error.
///
/// # Errors
/// The expression is not valid in Go, or too large.
pub(crate) fn go_regex(pattern: &str, bytes: usize) -> Result<Regex, GoRegexError> {
    let translated = translated(pattern)?;
    RegexBuilder::new(&translated).size_limit(bytes).build().or_else(|error| match error {
        regex::Error::CompiledTooBig(_) => wrong(GoRegexFault::Large, pattern),
        // All that is left is the crate's own limit of nesting.
        _ => wrong(GoRegexFault::NestingDepth, pattern),
    })
}

/// Returns the error of a regular expression that is not valid in Go.
pub(crate) fn go_regex_error(pattern: &str) -> Option<GoRegexError> {
    translated(pattern).err()
}

/// Returns a regular expression of Go in the syntax of the crate. Its groups have no numbers.
fn translated(pattern: &str) -> Result<String, GoRegexError> {
    let mut parser = PatternParser { pattern, at: 0, flags: Flags::default(), groups: vec![Group::default()] };
    let mut last_repeat = None;
    while parser.at < pattern.len() {
        last_repeat = parser.step(last_repeat)?;
    }
    match (parser.groups.pop(), parser.groups.is_empty()) {
        (Some(group), true) => {
            let whole = group.ended();
            parser.limited(whole.height, whole.size)?;
            Ok(whole.text)
        }
        _ => wrong(GoRegexFault::MissingParen, pattern),
    }
}

/// The flags `i`, `m`, `s` and `U`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags([bool; 4]);

impl Flags {
    const LETTERS: [char; 4] = ['i', 'm', 's', 'U'];

    /// Returns the text that sets and clears the flags, such as `i-msU`.
    fn text(self) -> String {
        let letters = |wanted: bool| Self::LETTERS.into_iter().zip(self.0).filter(move |(_, flag)| *flag == wanted);
        let set: String = letters(true).map(|(letter, _)| letter).collect();
        let cleared: String = letters(false).map(|(letter, _)| letter).collect();
        if cleared.is_empty() { set } else { format!("{set}-{cleared}") }
    }
}

/// A part of an expression.
#[derive(Debug, Default)]
struct Fragment {
    text: String,
    /// Levels of nodes.
    height: usize,
    /// Instructions of the compiled expression.
    size: u64,
    /// Largest product of nested repetitions.
    repeats: u64,
    /// A repetition applies to all of the text.
    whole: bool,
}

impl Fragment {
    fn one(text: String, whole: bool) -> Self {
        Self { text, height: 1, size: 1, repeats: 1, whole }
    }

    /// Returns the fragment in a form to which a repetition applies.
    fn grouped(&self) -> String {
        if self.whole { self.text.clone() } else { format!("(?:{})", self.text) }
    }
}

/// A group that is not closed, or the whole expression.
#[derive(Debug, Default)]
struct Group {
    /// The text that opens it.
    opening: &'static str,
    /// The text of its own flags.
    own: String,
    capture: bool,
    /// The flags around it.
    outer: Flags,
    /// The alternatives before the current one.
    alternatives: Vec<Fragment>,
    /// The current alternative. Flags are fragments of height 0.
    items: Vec<Fragment>,
}

/// Returns a fragment of parts that stand beside each other.
fn combined(parts: Vec<Fragment>, between: &str) -> Fragment {
    let nodes = parts.iter().filter(|part| part.height > 0).count();
    let height = parts.iter().map(|part| part.height).max().unwrap_or(0).max(1);
    let separators = if between.is_empty() { 0 } else { u64::try_from(nodes.saturating_sub(1)).unwrap_or(u64::MAX) };
    let size = parts.iter().fold(separators, |sum, part| sum.saturating_add(part.size));
    let texts: Vec<String> = parts.iter().map(|part| part.text.clone()).collect();
    Fragment {
        text: texts.join(between),
        height: height + usize::from(nodes > 1),
        size: size.max(1),
        repeats: parts.iter().map(|part| part.repeats).max().unwrap_or(1).max(1),
        whole: false,
    }
}

impl Group {
    fn end_alternative(&mut self) {
        let items = std::mem::take(&mut self.items);
        self.alternatives.push(combined(items, ""));
    }

    fn ended(mut self) -> Fragment {
        self.end_alternative();
        let inner = combined(self.alternatives, "|");
        if self.opening.is_empty() {
            return inner;
        }
        let more = usize::from(self.capture);
        Fragment {
            text: format!("{}{}{}{})", self.opening, self.own, if self.own.is_empty() { "" } else { ":" }, inner.text),
            height: inner.height + more,
            size: inner.size.saturating_add(if self.capture { 2 } else { 0 }),
            repeats: inner.repeats,
            whole: true,
        }
    }
}

/// A repetition: its smallest and largest number, `None` if there is no largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repetition {
    least: u64,
    most: Option<u64>,
    /// It is written with braces.
    counted: bool,
}

struct PatternParser<'a> {
    pattern: &'a str,
    /// The place in the pattern.
    at: usize,
    flags: Flags,
    /// The open groups, beginning with the whole expression.
    groups: Vec<Group>,
}

impl<'a> PatternParser<'a> {
    fn rest(&self) -> &'a str {
        &self.pattern[self.at..]
    }

    fn group(&mut self) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }

    fn push(&mut self, text: String, whole: bool) {
        self.group().items.push(Fragment::one(text, whole));
    }

    fn literal(&mut self, character: u32) {
        let text = char::from_u32(character)
            .map_or_else(|| NOTHING.to_owned(), |character| regex::escape(&character.to_string()));
        self.push(text, true);
    }

    fn limited(&self, height: usize, size: u64) -> Result<(), GoRegexError> {
        if height > MAX_HEIGHT {
            return wrong(GoRegexFault::NestingDepth, self.pattern);
        }
        if size > MAX_INSTRUCTIONS { wrong(GoRegexFault::Large, self.pattern) } else { Ok(()) }
    }

    /// Reads one element; returns the place of a repetition, if it was one. `last_repeat` is that of the one before.
    fn step(&mut self, last_repeat: Option<usize>) -> Result<Option<usize>, GoRegexError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(None) };
        match first {
            '(' if rest.starts_with("(?") => self.perl_flags()?,
            '(' => self.open(true, ""),
            '|' => {
                self.at += 1;
                self.group().end_alternative();
            }
            ')' => self.close()?,
            '^' | '$' | '.' => {
                self.at += 1;
                self.push(first.to_string(), first == '.');
            }
            '[' => self.class()?,
            '*' | '+' | '?' => {
                let least = u64::from(first == '+');
                let most = (first == '?').then_some(1);
                return self.repeat(Repetition { least, most, counted: false }, 1, last_repeat).map(Some);
            }
            '{' => {
                if let Some((repetition, length)) = repetition(rest)? {
                    return self.repeat(repetition, length, last_repeat).map(Some);
                }
                self.at += 1;
                self.literal('{'.into());
            }
            '\\' => self.escape()?,
            other => {
                self.at += other.len_utf8();
                self.literal(other.into());
            }
        }
        Ok(None)
    }

    fn open(&mut self, capture: bool, own: &str) {
        self.at += usize::from(capture);
        let outer = self.flags;
        let opening = if own.is_empty() { "(?:" } else { "(?" };
        self.groups.push(Group { opening, own: own.to_owned(), capture, outer, ..Group::default() });
    }

    fn close(&mut self) -> Result<(), GoRegexError> {
        if self.groups.len() < 2 {
            return wrong(GoRegexFault::UnexpectedParen, self.pattern);
        }
        self.at += 1;
        let Some(group) = self.groups.pop() else { return Ok(()) };
        self.flags = group.outer;
        let fragment = group.ended();
        self.limited(fragment.height, fragment.size)?;
        self.group().items.push(fragment);
        Ok(())
    }

    /// Repeats the last element; `length` is that of the operator.
    fn repeat(
        &mut self,
        repetition: Repetition,
        length: usize,
        last_repeat: Option<usize>,
    ) -> Result<usize, GoRegexError> {
        let (pattern, start) = (self.pattern, self.at);
        let operator = &pattern[start..start + length];
        let lazy = if pattern[start + length..].starts_with('?') { "?" } else { "" };
        self.at = start + length + lazy.len();
        let written = &pattern[start..self.at];
        if let Some(before) = last_repeat {
            return wrong(GoRegexFault::RepeatOperator, &pattern[before..self.at]);
        }
        let Some(last) = self.group().items.iter_mut().rev().find(|item| item.height > 0) else {
            return wrong(GoRegexFault::MissingRepeatArgument, written);
        };
        let times = repetition.most.unwrap_or(repetition.least);
        let repeats = if repetition.counted { last.repeats.saturating_mul(times.max(1)) } else { last.repeats };
        let copies = last.size.saturating_mul(times);
        let repeated = Fragment {
            text: format!("{}{operator}{lazy}", last.grouped()),
            height: last.height + 1,
            size: match (repetition.least, repetition.most) {
                (0, None) => last.size.saturating_add(2),
                (_, None) => copies.saturating_add(1),
                (least, Some(most)) => copies.saturating_add(most - least).max(1),
            },
            // What is repeated zero times has no limit.
            repeats: if repetition.most == Some(0) { 1 } else { repeats },
            whole: false,
        };
        let too_many = repetition.counted && times >= 2 && repeated.repeats > MAX_REPEAT;
        let (height, size) = (repeated.height, repeated.size);
        *last = repeated;
        self.limited(height, size)?;
        if too_many { wrong(GoRegexFault::RepeatSize, written) } else { Ok(start) }
    }

    /// Reads `(?i)`, `(?i:`, `(?:`, `(?P<name>` and `(?<name>`.
    fn perl_flags(&mut self) -> Result<(), GoRegexError> {
        let rest = self.rest();
        let named = [("(?P<", 5), ("(?<", 4)]
            .into_iter()
            .find(|(begin, least)| rest.starts_with(begin) && rest.len() >= *least);
        if let Some((begin, _)) = named {
            let Some(end) = rest.find('>') else { return wrong(GoRegexFault::NamedCapture, rest) };
            let name = &rest[begin.len()..end];
            if name.is_empty() || !name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
                return wrong(GoRegexFault::NamedCapture, &rest[..=end]);
            }
            self.open(false, "");
            self.group().capture = true;
            self.at += end + 1;
            return Ok(());
        }
        let mut flags = self.flags;
        let (mut negative, mut any) = (false, false);
        let mut end = rest.len();
        for (index, letter) in rest.char_indices().skip(2) {
            end = index + letter.len_utf8();
            if let Some(place) = Flags::LETTERS.iter().position(|known| *known == letter) {
                flags.0[place] = !negative;
                any = true;
                continue;
            }
            match letter {
                '-' if !negative => (negative, any) = (true, false),
                ':' | ')' if !negative || any => {
                    if letter == ':' {
                        let own = if flags == self.flags { String::new() } else { flags.text() };
                        self.open(false, &own);
                    } else {
                        let text = format!("(?{})", flags.text());
                        self.group().items.push(Fragment { text, ..Fragment::default() });
                    }
                    self.flags = flags;
                    self.at += end;
                    return Ok(());
                }
                _ => break,
            }
        }
        wrong(GoRegexFault::PerlOperator, &rest[..end])
    }

    /// Reads what begins with a backslash, outside of a class.
    fn escape(&mut self) -> Result<(), GoRegexError> {
        let rest = self.rest();
        let assertion = match rest.as_bytes().get(1) {
            Some(b'A') => r"\A",
            Some(b'z') => r"\z",
            Some(b'b') => r"(?-u:\b)",
            Some(b'B') => r"(?-u:\B)",
            Some(b'C') => return wrong(GoRegexFault::Escape, &rest[..2]),
            Some(b'Q') => {
                let (quoted, length) = match rest[2..].split_once(r"\E") {
                    Some((quoted, _)) => (quoted, quoted.len() + 4),
                    None => (&rest[2..], rest.len()),
                };
                quoted.chars().for_each(|character| self.literal(character.into()));
                self.at += length;
                return Ok(());
            }
            _ => "",
        };
        if !assertion.is_empty() {
            self.at += 2;
            self.push(assertion.to_owned(), false);
            return Ok(());
        }
        if let Some((class, length)) = class_escape(rest)? {
            self.at += length;
            let text = if class.starts_with('[') || class.starts_with('\\') { class } else { format!("[{class}]") };
            self.push(text, true);
            return Ok(());
        }
        let (character, length) = escaped(rest)?;
        self.at += length;
        self.literal(character);
        Ok(())
    }

    /// Reads a class such as `[^a-z]`.
    fn class(&mut self) -> Result<(), GoRegexError> {
        let whole = self.rest();
        let (negated, mut rest) = match whole[1..].strip_prefix('^') {
            Some(rest) => ("^", rest),
            None => ("", &whole[1..]),
        };
        let mut members = String::new();
        let mut first = true;
        while first || !rest.starts_with(']') {
            first = false;
            let member = match named_class(rest)? {
                Some(member) => Some(member),
                None => class_escape(rest)?,
            };
            let (text, length) = match member {
                Some(member) => member,
                None => range(rest, whole)?,
            };
            members.push_str(&text);
            rest = &rest[length..];
        }
        let text = match (members.is_empty(), negated.is_empty()) {
            (false, _) => format!("[{negated}{members}]"),
            (true, true) => NOTHING.to_owned(),
            (true, false) => r"[\x{0}-\x{10FFFF}]".to_owned(),
        };
        self.at += whole.len() - rest.len() + 1;
        self.push(text, true);
        Ok(())
    }
}

/// Reads `{2}`, `{2,}` or `{2,3}`; returns its length, too. `None` if the brace is a literal.
fn repetition(text: &str) -> Result<Option<(Repetition, usize)>, GoRegexError> {
    let Some(end) = text.find('}') else { return Ok(None) };
    let (least, most) = match text[1..end].split_once(',') {
        Some((least, most)) => (least, most),
        None => (&text[1..end], &text[1..end]),
    };
    let is_number = |digits: &str| {
        let digits = digits.as_bytes();
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && (digits.len() == 1 || digits[0] != b'0')
    };
    if !is_number(least) || !(most.is_empty() || is_number(most)) {
        return Ok(None);
    }
    let number = |digits: &str| digits.parse().unwrap_or(u64::MAX);
    let repetition = Repetition { least: number(least), most: (!most.is_empty()).then(|| number(most)), counted: true };
    let largest = repetition.most.unwrap_or(repetition.least);
    if repetition.least > largest || largest > MAX_REPEAT {
        return wrong(GoRegexFault::RepeatSize, &text[..=end]);
    }
    Ok(Some((repetition, end + 1)))
}

/// Reads a class such as `[:alpha:]` within a class; the crate has the same ones.
fn named_class(text: &str) -> Result<Option<(String, usize)>, GoRegexError> {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
        "word", "xdigit",
    ];
    let Some((name, _)) = text.strip_prefix("[:").and_then(|after| after.split_once(":]")) else { return Ok(None) };
    let class = &text[..name.len() + 4];
    if NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
        Ok(Some((class.to_owned(), class.len())))
    } else {
        wrong(GoRegexFault::CharRange, class)
    }
}

/// Reads a class such as `\d` or `\p{Greek}`, in a form that can be a part of a class.
fn class_escape(text: &str) -> Result<Option<(String, usize)>, GoRegexError> {
    let Some(letter) = text.strip_prefix('\\').and_then(|rest| rest.chars().next()) else { return Ok(None) };
    let members = match letter.to_ascii_lowercase() {
        'd' => "0-9",
        's' => r"\t\n\x0C\r\x20",
        'w' => "0-9A-Za-z_",
        'p' => return unicode_class(text).map(Some),
        _ => return Ok(None),
    };
    let class = if letter.is_ascii_uppercase() { format!("[^{members}]") } else { members.to_owned() };
    Ok(Some((class, 2)))
}

/// Reads a class such as `\pL` or `\P{^Greek}`.
fn unicode_class(text: &str) -> Result<(String, usize), GoRegexError> {
    let negative = text.starts_with(r"\P");
    let after = &text[2..];
    let (name, length) = match after.chars().next() {
        None => return wrong(GoRegexFault::CharRange, text),
        Some('{') => match after.find('}') {
            None => return wrong(GoRegexFault::CharRange, text),
            Some(end) => (&after[1..end], end + 3),
        },
        Some(letter) => (&after[..letter.len_utf8()], 2 + letter.len_utf8()),
    };
    let (negative, name) = match name.strip_prefix('^') {
        Some(name) => (!negative, name),
        None => (negative, name),
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_- ".contains(letter);
    let forms = match name.to_ascii_lowercase().as_str() {
        "any" | "assigned" | "ascii" => vec![name.to_owned()],
        // Categories and scripts, but none of the crate's other properties.
        _ if name.chars().all(is_name) => vec![format!("gc={name}"), format!("sc={name}")],
        _ => Vec::new(),
    };
    match forms.into_iter().find(|form| Regex::new(&format!(r"\p{{{form}}}")).is_ok()) {
        Some(form) => Ok((format!(r"\{}{{{form}}}", if negative { 'P' } else { 'p' }), length)),
        None => wrong(GoRegexFault::CharRange, &text[..length]),
    }
}

/// Reads a character or a range within the class `whole`.
fn range(text: &str, whole: &str) -> Result<(String, usize), GoRegexError> {
    let (low, length) = class_character(text, whole)?;
    let after = &text[length..];
    let (high, length) = match after.strip_prefix('-') {
        Some(end) if !end.is_empty() && !end.starts_with(']') => {
            let (high, more) = class_character(end, whole)?;
            (high, length + 1 + more)
        }
        _ => (low, length),
    };
    if high < low {
        return wrong(GoRegexFault::CharRange, &text[..length]);
    }
    // Texts do not contain surrogates.
    let is_surrogate = |code: u32| (0xD800..=0xDFFF).contains(&code);
    let low = if is_surrogate(low) { 0xE000 } else { low };
    let high = if is_surrogate(high) { 0xD7FF } else { high };
    let members = if low > high { String::new() } else { format!(r"\x{{{low:X}}}-\x{{{high:X}}}") };
    Ok((members, length))
}

fn class_character(text: &str, whole: &str) -> Result<(u32, usize), GoRegexError> {
    match text.chars().next() {
        None => wrong(GoRegexFault::MissingBracket, whole),
        Some('\\') => escaped(text),
        Some(character) => Ok((character.into(), character.len_utf8())),
    }
}

/// Reads an escaped character: `parseEscape`.
fn escaped(text: &str) -> Result<(u32, usize), GoRegexError> {
    let after = &text[1..];
    let Some(letter) = after.chars().next() else { return wrong(GoRegexFault::TrailingBackslash, "") };
    let length = 1 + letter.len_utf8();
    let control = match letter {
        'a' => 7,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '0'..='7' => {
            let digits: String = after.chars().take(3).take_while(|digit| ('0'..='7').contains(digit)).collect();
            if letter != '0' && digits.len() < 2 {
                return wrong(GoRegexFault::Escape, &text[..length]);
            }
            return Ok((u32::from_str_radix(&digits, 8).unwrap_or_default(), 1 + digits.len()));
        }
        'x' => return hexadecimal(text),
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => other.into(),
        _ => return wrong(GoRegexFault::Escape, &text[..length]),
    };
    Ok((control, length))
}

/// Reads `\x41` or `\x{41}`.
fn hexadecimal(text: &str) -> Result<(u32, usize), GoRegexError> {
    let braced = text[2..].starts_with('{');
    let mut code = 0_u32;
    let mut digits = 0;
    for (index, letter) in text.char_indices().skip(if braced { 3 } else { 2 }) {
        let end = index + letter.len_utf8();
        if braced && letter == '}' && digits > 0 {
            return Ok((code, end));
        }
        // Without braces, Go looks at two characters before it complains.
        let Some(digit) = letter.to_digit(16) else {
            let more = text[end..].chars().next().filter(|_| !braced && digits == 0).map_or(0, char::len_utf8);
            return wrong(GoRegexFault::Escape, &text[..end + more]);
        };
        code = code * 16 + digit;
        digits += 1;
        if code > char::MAX.into() {
            return wrong(GoRegexFault::Escape, &text[..end]);
        }
        if !braced && digits == 2 {
            return Ok((code, end));
        }
    }
    wrong(GoRegexFault::Escape, text)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const BYTES: usize = 1 << 20;

    /// The text is matched, and the other one is not.
    #[rstest]
    #[case("^{[a-z]+}$", "{ab}", "ab")]
    #[case("x{a}", "x{a}", "xa")]
    #[case("x{,2}", "x{,2}", "xx")]
    #[case("x{02}", "x{02}", "xx")]
    #[case("x{2", "x{2", "xx")]
    #[case("^x{2,3}$", "xxx", "x")]
    #[case("^[a-z[]+$", "a[b", "a]")]
    #[case(r"^[^[\]]*$", "ab", "a[")]
    #[case("^[]a]$", "]", "b")]
    #[case("^[a-]$", "-", "b")]
    #[case("^[a-c-e]+$", "b-e", "d")]
    #[case(r"^[a\d-f]+$", "a5-f", "b")]
    #[case(r"^\Qa.b\E$", "a.b", "axb")]
    #[case(r"^\Qa.b", "a.b", "axb")]
    #[case::ascii_digits(r"^\d+$", "0123", "٣")]
    #[case::ascii_words(r"^\w+$", "aZ_9", "é")]
    #[case::not_a_word(r"^\W+$", "é-", "a")]
    #[case::ascii_spaces(r"^\s+$", "\t\n\u{c}\r ", "\u{b}")]
    #[case::no_unicode_space(r"^\S+$", "\u{a0}\u{b}", " ")]
    #[case::ascii_boundary(r"a\b", "aé", "ab")]
    #[case::no_boundary(r"^a\B", "ab", "aé")]
    #[case::no_intersection(r"^[\w&&[^\d]]+$", "&]", "a")]
    #[case::no_difference(r"^[a-c--b]+$", "b-", "d")]
    #[case::posix("^[[:alpha:]_]+$", "aZ_", "é")]
    #[case::not_posix("^[[:^digit:]]+$", "aé", "1")]
    #[case::unfinished_posix("^[[:a]+$", "[:a", "b")]
    #[case::category(r"^\pL+$", "aé", "1")]
    #[case::script(r"^\p{Greek}+$", "αβ", "a")]
    #[case::not_a_script(r"^\P{Greek}+$", "ab", "α")]
    #[case::doubly_negative(r"^[\P{^Greek}1]+$", "α1", "a")]
    #[case::octal(r"^\101\012$", "A\n", "A")]
    #[case::zero(r"^\0$", "\0", "0")]
    #[case::hexadecimal(r"^\x41\x{1F600}$", "A😀", "A")]
    #[case::surrogates(r"^[\x{D800}-\x{DFFF}b]$", "b", "a")]
    #[case::flags("(?i)^abc$", "aBC", "ab")]
    #[case::flags_of_a_group("^(?i:a)b$", "Ab", "AB")]
    #[case::flags_end_with_the_group("^((?i)a)b$", "Ab", "AB")]
    #[case::cleared_flags("(?i)^a(?-i)b$", "Ab", "AB")]
    #[case::flags_twice("(?ii)^a$", "A", "b")]
    #[case::lines("(?m)^b$", "a\nb", "ab")]
    #[case::one_line("^b$", "b", "b\n")]
    #[case::any_character("(?s)^a.b$", "a\nb", "ab")]
    #[case::not_a_newline("^a.b$", "axb", "a\nb")]
    #[case::repeated_after_flags("^a(?i)*b$", "aaB", "A")]
    #[case::names("^(?P<1>a)(?<1>b)$", "ab", "a")]
    #[case::empty("^(|a)()$", "a", "b")]
    #[case::repeated_assertion("^(^)*a$", "a", "b")]
    #[case::repeated_again("^(?:a{2})+$", "aaaa", "aaa")]
    #[case::escaped_sign(r"^\-\_\/$", "-_/", "-")]
    fn matches(#[case] pattern: &str, #[case] yes: &str, #[case] no: &str) {
        let regex = go_regex(pattern, BYTES).expect("a pattern");
        assert_eq!((regex.is_match(yes), regex.is_match(no)), (true, false), "{regex}");
    }

    #[rstest]
    #[case("a{1,2000}", "invalid repeat count: `{1,2000}`")]
    #[case("a{1001}", "invalid repeat count: `{1001}`")]
    #[case("a{3,2}", "invalid repeat count: `{3,2}`")]
    #[case("(a{40}){40}?", "invalid repeat count: `{40}?`")]
    #[case("a**", "invalid nested repetition operator: `**`")]
    #[case("a{2}+?", "invalid nested repetition operator: `{2}+?`")]
    #[case("*a", "missing argument to repetition operator: `*`")]
    #[case("(+?)", "missing argument to repetition operator: `+?`")]
    #[case("a|{2}", "missing argument to repetition operator: `{2}`")]
    #[case("(?x)a b", "invalid or unsupported Perl syntax: `(?x`")]
    #[case("(?R)a", "invalid or unsupported Perl syntax: `(?R`")]
    #[case("(?=a)", "invalid or unsupported Perl syntax: `(?=`")]
    #[case("(?i-)", "invalid or unsupported Perl syntax: `(?i-)`")]
    #[case("(?i", "invalid or unsupported Perl syntax: `(?i`")]
    #[case("(?P<n-a>a)", "invalid named capture: `(?P<n-a>`")]
    #[case("(?<n", "invalid named capture: `(?<n`")]
    #[case(r"\u0041", r"invalid escape sequence: `\u`")]
    #[case(r"\1", r"invalid escape sequence: `\1`")]
    #[case(r"\Z", r"invalid escape sequence: `\Z`")]
    #[case(r"\C", r"invalid escape sequence: `\C`")]
    #[case(r"\é", r"invalid escape sequence: `\é`")]
    #[case(r"\xg1", r"invalid escape sequence: `\xg1`")]
    #[case(r"\x4", r"invalid escape sequence: `\x4`")]
    #[case(r"\x{}", r"invalid escape sequence: `\x{}`")]
    #[case(r"\x{110000}", r"invalid escape sequence: `\x{110000`")]
    #[case(r"[\b]", r"invalid escape sequence: `\b`")]
    #[case("a\\", "trailing backslash at end of expression: ``")]
    #[case("a[b-a]", "invalid character class range: `b-a`")]
    #[case("[[:foo:]]", "invalid character class range: `[:foo:]`")]
    #[case(r"\p{Foo}", r"invalid character class range: `\p{Foo}`")]
    #[case(r"\p{Alphabetic}", r"invalid character class range: `\p{Alphabetic}`")]
    #[case(r"\p{gc=L}", r"invalid character class range: `\p{gc=L}`")]
    #[case("a[b", "missing closing ]: `[b`")]
    #[case("[]", "missing closing ]: `[]`")]
    #[case("a(b", "missing closing ): `a(b`")]
    #[case("a)b", "unexpected ): `a)b`")]
    fn mistakes(#[case] pattern: &str, #[case] why: &str) {
        assert_eq!(
            go_regex_error(pattern).map(|error| error.to_string()),
            Some(format!("error parsing regexp: {why}"))
        );
    }

    #[rstest]
    #[case::product("(a{10}){100}", true)]
    #[case::larger_product("(a{10}){101}", false)]
    #[case::zero_times("((a{900}){0}){900}", true)]
    #[case::braced_boundary(r"\b{start}x", true)]
    #[case::large("((((a{100}){10}){1,}){1,}b{1000}){1,}", true)]
    fn limits(#[case] pattern: &str, #[case] valid: bool) {
        assert_eq!(go_regex_error(pattern).is_none(), valid);
    }

    #[test]
    fn deep_nesting_is_refused() {
        let nested = |depth: usize| go_regex_error(&("(".repeat(depth) + &")".repeat(depth)));
        assert_eq!(nested(900), None);
        assert_eq!(nested(1_001).map(|error| error.fault), Some(GoRegexFault::NestingDepth));
    }

    #[test]
    fn the_first_match_is_that_of_go() {
        let found =
            |pattern: &str| go_regex(pattern, BYTES).expect("a pattern").find("xaab").map(|found| found.range());
        assert_eq!(found("a+?"), Some(1..2));
        assert_eq!(found("(?U)a+"), Some(1..2));
        assert_eq!(found("(?U)a+?"), Some(1..3));
        assert_eq!(found("a|aa"), Some(1..2));
    }
}
