//! The formats that schemas of custom resources can ask of strings and numbers. Follows
//! `staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go` of Kubernetes 1.36, and
//! `pkg/validation/strfmt` of kube-openapi. PURE.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::text_fields::text;
use crate::expressions::{is_base64, is_date, is_date_time};
use crate::go_duration::go_duration;
use crate::go_url::Url;
use crate::json::Value;
use crate::name_formats::{dns1123_label, dns1123_subdomain};

/// String formats that are checked, without their dashes.
const FORMATS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Regular expressions of formats, by the name without dashes.
const PATTERNS: [(&str, &str); 10] = [
    (
        "creditcard",
        concat!(
            "^(4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}",
            "|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35[0-9]{3})[0-9]{11})$"
        ),
    ),
    ("hexcolor", "^#?([0-9a-fA-F]{3}){1,2}$"),
    ("hostlabel", r"^[a-zA-Z0-9\p{S}\p{L}-]+$"),
    ("hosttop", r"^[a-zA-Z\p{L}]+$"),
    (
        "rgbcolor",
        concat!(
            r"^rgb\([\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9]{1,2}|2[0-4][0-9]|25[0-5])",
            r"([\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9]{1,2}|2[0-4][0-9]|25[0-5])){2}[\t\n\f\r ]*\)$"
        ),
    ),
    ("ssn", "^[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}$"),
    ("uuid", "(?i)^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$"),
    ("uuid3", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    ("uuid4", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
    ("uuid5", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
];

/// Returns the format of a schema; `None` if it has none, or one that is not supported for its type.
pub(super) fn format_of(schema: &Value) -> Option<&str> {
    let format = text(schema, "format");
    let known = match text(schema, "type") {
        "" | "string" => FORMATS.contains(&&*format.replace('-', "")),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    known.then_some(format)
}

/// Returns true if a string has the given format. Unknown formats accept every string.
pub(super) fn has_format(format: &str, text: &str) -> bool {
    match &*format.replace('-', "") {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "byte" => is_base64(text),
        "cidr" => is_cidr(text),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && ip(text).is_some(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8slongname" => dns1123_subdomain(text).is_empty(),
        "k8sshortname" => dns1123_label(text).is_empty(),
        "mac" => is_mac(text),
        "uri" => Url::parse_request_uri(text).is_ok(),
        name @ ("hexcolor" | "rgbcolor" | "ssn" | "uuid" | "uuid3" | "uuid4" | "uuid5") => matches(name, text),
        _ => true,
    }
}

/// Returns true if a text matches one of [`PATTERNS`].
fn matches(name: &str, text: &str) -> bool {
    static COMPILED: LazyLock<BTreeMap<&str, Regex>> = LazyLock::new(|| {
        PATTERNS.iter().filter_map(|(name, pattern)| Some((*name, Regex::new(pattern).ok()?))).collect()
    });
    COMPILED.get(name).is_some_and(|pattern| pattern.is_match(text))
}

/// Parses an IP address, whose decimal parts may have leading zeros: `ParseIPSloppy` of k8s.io/utils.
fn ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let part = |part: &str| if part.starts_with(['+', '-']) { None } else { part.parse::<u8>().ok() };
    let parts: Option<Vec<u8>> = text.split('.').map(part).collect();
    let parts: [u8; 4] = parts?.try_into().ok()?;
    Some(Ipv4Addr::from(parts).into())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let most = ip(address).map(|ip| if ip.is_ipv4() { 32 } else { 128 });
    digits && most.is_some_and(|most| bits.parse::<u8>().is_ok_and(|bits| bits <= most))
}

/// Returns true for 6, 8 or 20 bytes in hexadecimal: Go's `net.ParseMAC`.
fn is_mac(text: &str) -> bool {
    let width = if text.get(4..5) == Some(".") { 4 } else { 2 };
    let Some(separator) = text.get(width..=width).filter(|separator| [":", "-", "."].contains(separator)) else {
        return false;
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let is_group = |group: &&str| group.len() == width && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    (separator == ".") == (width == 4)
        && groups.iter().all(is_group)
        && [6, 8, 20].contains(&(groups.len() * width / 2))
}

/// Returns true for a number of a card whose check digit is right. Other characters than digits are ignored.
fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits.bytes().rev().enumerate().map(|(index, digit)| luhn(index, u32::from(digit - b'0'))).sum();
    matches("creditcard", &digits) && sum.is_multiple_of(10)
}

/// Returns the part of a digit in the sum of Luhn's algorithm; `index` counts from the last digit.
fn luhn(index: usize, digit: u32) -> u32 {
    match digit * if index.is_multiple_of(2) { 1 } else { 2 } {
        large if large >= 10 => large % 10 + 1,
        small => small,
    }
}

/// Returns the digits of a book number without spaces and dashes.
fn isbn_digits(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !b"\t\n\x0c\r -".contains(byte)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let bytes = isbn_digits(text);
    let digit = |(index, byte): (usize, &u8)| match byte {
        b'0'..=b'9' => Some(usize::from(byte - b'0') * (index + 1)),
        b'X' if index == 9 => Some(100),
        _ => None,
    };
    let sum: Option<usize> = bytes.iter().enumerate().map(digit).sum();
    bytes.len() == 10 && sum.is_some_and(|sum| sum.is_multiple_of(11))
}

fn is_isbn13(text: &str) -> bool {
    let bytes = isbn_digits(text);
    let factor = |index: usize| if index.is_multiple_of(2) { 1 } else { 3 };
    let sum = bytes.iter().enumerate().map(|(index, byte)| u32::from(byte.wrapping_sub(b'0')) * factor(index));
    bytes.len() == 13 && bytes.iter().all(u8::is_ascii_digit) && sum.sum::<u32>().is_multiple_of(10)
}

/// Returns true for a host name: one label with at most one dash, after its first character, or several labels of which
/// the last consists of at least two letters (`HostnamePattern` of `default.go`).
fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let Some((top, others)) = labels.split_last() else { return false };
    let fits = text.len() <= 255 && labels.iter().all(|label| label.len() <= 63);
    let inner = |label: &&str| matches("hostlabel", label) && !label.starts_with('-') && !label.ends_with('-');
    if !others.is_empty() {
        return fits && others.iter().all(inner) && matches("hosttop", top) && top.chars().count() >= 2;
    }
    let mut letters = top.chars();
    let first = letters.next().is_some_and(|first| first != '-');
    let rest = letters.as_str().strip_prefix('-').unwrap_or(letters.as_str());
    fits && first && matches("hostlabel", top) && !rest.contains('-') && rest.chars().count() <= 62
}

/// Returns true for Go's durations, and for texts that have a number with a unit in words: `ParseDuration` of
/// `duration.go`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const WORDS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    if go_duration(text).is_some() {
        return true;
    }
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[start..];
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let unit = number[end..].trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let length = unit.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(unit.len());
        let name = unit[..length].to_lowercase();
        if !name.is_empty() && number[..end].parse::<i64>().is_err() {
            return false;
        }
        found |= UNITS.contains(&name.as_str()) || WORDS.iter().any(|word| name.starts_with(word));
        rest = &unit[length..];
    }
    found
}

/// Returns true for a mail address, with or without a name before it in angle brackets: Go's `mail.ParseAddress`,
/// without its comments and groups.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if is_address(text) {
        return true;
    }
    let Some((name, address)) = text.strip_suffix('>').and_then(|text| split_unquoted(text, '<')) else {
        return false;
    };
    is_phrase(name) && is_address(address)
}

/// Splits a text at the first `mark` outside of double quotes.
fn split_unquoted(text: &str, mark: char) -> Option<(&str, &str)> {
    let mut quoted = false;
    let mut escaped = false;
    let at = text.find(|c: char| {
        let found = c == mark && !quoted;
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
        found
    })?;
    Some((&text[..at], &text[at + mark.len_utf8()..]))
}

/// Returns true for the words of a name: atoms, which may have dots, and texts in double quotes.
fn is_phrase(text: &str) -> bool {
    let mut rest = text.trim_matches([' ', '\t']);
    while !rest.is_empty() {
        rest = if let Some(quoted) = rest.strip_prefix('"') {
            let Some((_, after)) = split_quote(quoted) else { return false };
            after
        } else {
            let end = rest.find(|c: char| !is_atom_text(c) && c != '.').unwrap_or(rest.len());
            if end == 0 {
                return false;
            }
            &rest[end..]
        };
        rest = rest.trim_start_matches([' ', '\t']);
    }
    true
}

/// Splits a text after its closing double quote.
fn split_quote(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.find(|c: char| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// Returns true for a local part and a domain: dotted atoms, a local part in quotes, a domain in square brackets.
fn is_address(text: &str) -> bool {
    let Some((local, domain)) = split_unquoted(text, '@') else { return false };
    let quoted = local.strip_prefix('"').and_then(split_quote);
    let literal = domain.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let local = quoted.map_or_else(|| is_dotted(local), |(inner, after)| !inner.is_empty() && after.is_empty());
    local && literal.map_or_else(|| is_dotted(domain), |literal| ip(literal.trim_start_matches("IPv6:")).is_some())
}

fn is_dotted(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_text))
}

/// Returns true for a character that mail addresses may have without quotes.
fn is_atom_text(c: char) -> bool {
    !c.is_ascii() || (c.is_ascii_graphic() && !"()<>[]:;@\\,\".".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    #[rstest]
    #[case("bsonobjectid", &["0123456789abcdefABCDEF01"], &["0123", "0123456789abcdefABCDEFXY"])]
    #[case("byte", &["YQ=="], &["", "YQ", "Y!=="])]
    #[case("cidr", &["10.0.0.0/8", "010.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8"])]
    #[case("creditcard", &["4111 1111 1111 1111", "4111-1111-1111-1111"], &["4111111111111112", "1"])]
    #[case("date", &["2020-02-29"], &["2021-02-29", "20200101", "2020-01-01T00:00:00Z"])]
    #[case("date-time", &["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.5+01:00"],
        &["2020-01-01 00:00:00Z", "2020-01-01T00:00Z", "2020-01-01T00:00:00", "2020-01-01T24:00:00Z"])]
    #[case("duration", &["1h30m", "0", "-1.5h", "1w", "2 wk", "3 hr", "1 Day 2 minutes", "5 weeks", "P1D", "x 1s"],
        &["", "1", "1 fortnight", "3 hrs", "1.5 x", "99999999999999999999 s"])]
    #[case("email", &["a@b.c", "Bob <a@b.c>", "<a@b.c>", "\"B. <ob>\" <a@b.c>", "B. Ob <a@b>", "\"a b\"@c"],
        &["a", "@b", "a@", "a@b@c", "a..b@c", "Bob a@b.c", "Bob <a@b.c", "a b@c"])]
    #[case("hexcolor", &["#fff", "FF00aa"], &["#ff", "#ggg", "#fffff"])]
    #[case("hostname", &["a", "a-bc", "localhost", "a-b.co", "1.com", "ä.com"],
        &["", "ab-c", "-a", "a_b", "a.b", "a.b1", "a.com.", "a-.com", "a..com"])]
    #[case("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["1.2.3", "::1", "256.1.1.1", "1.2.3.+4"])]
    #[case("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4", "::1%eth0"])]
    #[case("isbn", &["0321751043", "978-0321751041"], &["0321751044", "978-0321751042", "1"])]
    #[case("isbn10", &["0321751043", "0-8044-2957-X"], &["978-0321751041", "X321751043"])]
    #[case("isbn13", &["978-0321751041"], &["0321751043"])]
    #[case("k8s-short-name", &["a-1"], &["A_", "-a", "a.b", ""])]
    #[case("k8s-long-name", &["a-1.b"], &["A", "a..b", "a.-b"])]
    #[case("mac", &["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef"],
        &["zz", "01:23", "01:23-45:67:89:ab", "01.23.45.67.89.ab", "0123:4567:89ab", ""])]
    #[case("password", &["anything"], &[])]
    #[case("rgbcolor", &["rgb(0,10, 255)"], &["rgb(0,10)", "rgb(0,10,256)", "0,1,2"])]
    #[case("ssn", &["111-22-3333", "111 22 3333"], &["111223333", "11-22-3333"])]
    #[case("uri", &["http://a/b", "/a", "urn:a"], &["a", "http://a b"])]
    #[case("uuid", &["0123456789abcdef0123456789ABCDEF", "01234567-89ab-cdef-0123-456789abcdef"], &["01234567", "0123456789abcdef0123456789abcdeg"])]
    #[case("uuid3", &["01234567-89ab-3def-0123-456789abcdef"], &["01234567-89ab-4def-0123-456789abcdef"])]
    #[case("uuid4", &["01234567-89ab-4def-a123-456789abcdef"], &["01234567-89ab-4def-0123-456789abcdef"])]
    #[case("uuid5", &["0123456789ab5defA123456789abcdef"], &["01234567-89ab-4def-a123-456789abcdef"])]
    #[case("unknown", &["anything"], &[])]
    fn formats(#[case] format: &str, #[case] good: &[&str], #[case] bad: &[&str]) {
        let refused: Vec<&&str> = good.iter().filter(|text| !has_format(format, text)).collect();
        assert!(refused.is_empty(), "refused: {refused:?}");
        let accepted: Vec<&&str> = bad.iter().filter(|text| has_format(format, text)).collect();
        assert!(accepted.is_empty(), "accepted: {accepted:?}");
    }

    #[rstest]
    #[case(json!({"type": "string", "format": "date-time"}), Some("date-time"))]
    #[case(json!({"format": "uuid"}), Some("uuid"))]
    #[case::unknown(json!({"type": "string", "format": "bogus"}), None)]
    #[case::of_another_type(json!({"type": "integer", "format": "uuid"}), None)]
    #[case(json!({"type": "integer", "format": "int32"}), Some("int32"))]
    #[case(json!({"type": "string"}), None)]
    fn the_format_of_a_schema(#[case] schema: Value, #[case] format: Option<&str>) {
        assert_eq!(format_of(&schema), format);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_a_format_panic(text in "[a-zA-Z0-9 .:@<>\"\\\\\\-µ/é]{0,30}") {
            for format in FORMATS {
                has_format(format, &text);
            }
        }
    }
}
