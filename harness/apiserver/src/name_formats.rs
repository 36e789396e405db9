//! Formats of names, labels, keys and ports with upstream's messages. Checked without a regex engine, as these run on
//! every write.
//!
//! See `staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go`.

use std::borrow::Cow;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035_FORMAT: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE_FORMAT: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const CONFIG_KEY_FORMAT: &str = "[-._a-zA-Z0-9]+";

const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const QUALIFIED_MESSAGE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const CONFIG_KEY_MESSAGE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";

/// The message for a name of more than `max` characters.
pub(crate) fn max_len_error(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// The message for a label of more than `max` bytes; upstream's messages say bytes for labels and characters for
/// names.
fn max_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// The message for a value that does not match a regular expression.
pub(crate) fn regex_error(message: &str, format: &str, examples: &[&str]) -> String {
    let mut out = format!("{message} (e.g. ");
    for (i, example) in examples.iter().enumerate() {
        if i > 0 {
            out.push_str(" or ");
        }
        out.push('\'');
        out.push_str(example);
        out.push_str("', ");
    }
    out.push_str("regex used for validation is '");
    out.push_str(format);
    out.push_str("')");
    out
}

/// The message for a number outside of `low..=high`.
pub(crate) fn inclusive_range_error(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Matches `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => inner(first) && inner(last) && bytes.iter().all(|b| inner(b) || *b == b'-'),
        _ => false,
    }
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Validates a lowercase RFC 1123 label.
pub(crate) fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_len_error(LABEL_MAX));
    }
    if !is_label(value) {
        if is_subdomain(value) {
            errors.push("must not contain dots".to_owned());
        } else {
            errors.push(regex_error(LABEL_MESSAGE, LABEL_FORMAT, &["my-name", "123-abc"]));
        }
    }
    errors
}

/// Validates a lowercase RFC 1123 subdomain.
pub(crate) fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        errors.push(max_len_error(SUBDOMAIN_MAX));
    }
    if !is_subdomain(value) {
        errors.push(regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN_FORMAT, &["example.com"]));
    }
    errors
}

/// Validates a lowercase RFC 1123 subdomain whose length is given in bytes: `k8s-long-name`.
pub(crate) fn long_name(value: &str) -> Vec<String> {
    let mut errors = dns1123_subdomain(value);
    if let Some(length) = errors.first_mut().filter(|_| value.len() > SUBDOMAIN_MAX) {
        *length = max_bytes(SUBDOMAIN_MAX);
    }
    errors
}

/// Validates a subdomain with a wildcard as its first label: `IsWildcardDNS1123Subdomain`.
pub(crate) fn wildcard_subdomain(value: &str) -> Vec<String> {
    const MESSAGE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        errors.push(max_len_error(SUBDOMAIN_MAX));
    }
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        errors.push(regex_error(MESSAGE, &format!("\\*\\.{SUBDOMAIN_FORMAT}"), &["*.example.com"]));
    }
    errors
}

/// Validates a subdomain in which underscores are allowed.
pub(crate) fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        errors.push(max_len_error(SUBDOMAIN_MAX));
    }
    let label = |text: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = text.strip_prefix('_').unwrap_or(text).as_bytes();
        bytes.first().is_some_and(|b| inner(*b))
            && bytes.last().is_some_and(|b| inner(*b))
            && bytes.iter().all(|b| inner(*b) || matches!(b, b'-' | b'_'))
    };
    if !value.split('.').all(label) {
        let message = SUBDOMAIN_MESSAGE.replace("characters, '-'", "characters, '_', '-'");
        let format = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
        errors.push(regex_error(&message, format, &["example.com"]));
    }
    errors
}

/// Validates a DNS-1035 label.
pub(crate) fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_len_error(LABEL_MAX));
    }
    if !(is_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        errors.push(regex_error(LABEL_1035_MESSAGE, LABEL_1035_FORMAT, &["my-name", "abc-123"]));
    }
    errors
}

/// Matches `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`.
fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        }
        _ => false,
    }
}

/// Validates a qualified name: a label key, a resource name, a finalizer.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > SUBDOMAIN_MAX {
                    errors.push(format!("prefix part {}", max_bytes(SUBDOMAIN_MAX)));
                }
                if !is_subdomain(prefix) {
                    errors.push(format!(
                        "prefix part {}",
                        regex_error(SUBDOMAIN_MESSAGE, SUBDOMAIN_FORMAT, &["example.com"])
                    ));
                }
            }
            name
        }
        Some(_) => {
            let what = QUALIFIED_MESSAGE.replace("name part", "a valid label key");
            errors.push(
                regex_error(&what, QUALIFIED_FORMAT, &["MyName", "my.name", "123-abc"])
                    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            );
            return errors;
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", max_bytes(LABEL_MAX)));
    }
    if !is_qualified_part(name) {
        errors.push(regex_error(QUALIFIED_MESSAGE, QUALIFIED_FORMAT, &["MyName", "my.name", "123-abc"]));
    }
    errors
}

/// Validates a label value.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_bytes(LABEL_MAX));
    }
    if !(value.is_empty() || is_qualified_part(value)) {
        errors.push(regex_error(LABEL_VALUE_MESSAGE, LABEL_VALUE_FORMAT, &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// Validates a key of a `ConfigMap` or Secret.
pub(crate) fn config_map_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        errors.push(max_len_error(SUBDOMAIN_MAX));
    }
    let fine = !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if !fine {
        errors.push(regex_error(CONFIG_KEY_MESSAGE, CONFIG_KEY_FORMAT, &["key.name", "KEY_NAME", "key-name"]));
    }
    errors.extend(path_backsteps(value));
    errors
}

fn path_backsteps(value: &str) -> Option<String> {
    if value == "." {
        Some("must not be '.'".to_owned())
    } else if value == ".." {
        Some("must not be '..'".to_owned())
    } else if value.starts_with("..") {
        Some("must not start with '..'".to_owned())
    } else {
        None
    }
}

/// Validates the name of an environment variable (relaxed rules, the default since 1.34).
pub(crate) fn env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if value.bytes().any(|b| !(0x20..0x7f).contains(&b) || b == b'=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    errors
}

/// Validates the name of a port.
pub(crate) fn port_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 15 {
        errors.push(max_len_error(15));
    }
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || (value.len() > 1 && value.ends_with('-')) {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// Validates a port number.
pub(crate) fn port_number(value: i64) -> Option<String> {
    (!(1..=65535).contains(&value)).then(|| inclusive_range_error(1, 65535))
}

/// Validates a percentage such as `30%`.
pub(crate) fn percent(value: &str) -> Vec<String> {
    let fine = value.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    if fine {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(message, "[0-9]+%", &["1%", "93%"])]
}

/// Validates a URL path segment.
pub(crate) fn path_segment(value: &str, prefix: bool) -> Vec<String> {
    if !prefix && (value == "." || value == "..") {
        return vec![format!("may not be '{value}'")];
    }
    ["/", "%"].iter().filter(|c| value.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// Returns a prefix of a name as the beginning of a name. Upstream's `maskTrailingDash` replaces the last two
/// characters by one: the generated suffix follows anyway.
pub(crate) fn mask_trailing_dash(prefix: &str) -> Cow<'_, str> {
    let head = prefix.get(..prefix.len().saturating_sub(2)).filter(|_| prefix.len() > 1 && prefix.ends_with('-'));
    head.map_or(prefix.into(), |head| format!("{head}a").into())
}
