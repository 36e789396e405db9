//! The named formats of texts. PURE. Follows `format.go` in
//! `staging/src/k8s.io/apiserver/pkg/cel/library` of Kubernetes 1.36, and `pkg/validation/strfmt` of kube-openapi.

use std::sync::LazyLock;

use regex::Regex;

use crate::go_url::Url;
use crate::name_formats;

/// A format of texts: `kubernetes.NamedFormat`.
#[derive(Debug)]
pub(super) struct NamedFormat {
    /// Its name in expressions.
    pub(super) name: &'static str,
    /// Returns what is wrong with a text.
    pub(super) errors: fn(&str) -> Vec<String>,
    /// Length of its regular expression, for the cost.
    pub(super) pattern: u64,
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const fn format(name: &'static str, pattern: u64, errors: fn(&str) -> Vec<String>) -> NamedFormat {
    NamedFormat { name, errors, pattern }
}

/// All formats: `ConstantFormats`.
pub(super) static FORMATS: [NamedFormat; 13] = [
    format("dns1123Label", 30, name_formats::dns1123_label),
    format("dns1123Subdomain", 60, name_formats::dns1123_subdomain),
    format("dns1035Label", 30, name_formats::dns1035_label),
    format("qualifiedName", 60, name_formats::qualified_name),
    format("dns1123LabelPrefix", 30, |text| name_formats::dns1123_label(&name_formats::mask_trailing_dash(text))),
    format("dns1123SubdomainPrefix", 60, |text| {
        name_formats::dns1123_subdomain(&name_formats::mask_trailing_dash(text))
    }),
    format("dns1035LabelPrefix", 30, |text| name_formats::dns1035_label(&name_formats::mask_trailing_dash(text))),
    format("labelValue", 40, name_formats::label_value),
    format("uri", 1103, |text| Url::parse_request_uri(text).err().iter().map(ToString::to_string).collect()),
    format("uuid", 70, |text| unless(is_uuid(text), "does not match the UUID format")),
    format("byte", 84, |text| unless(is_base64(text), "invalid base64")),
    format("date", 71, |text| unless(is_date(text), "invalid date")),
    format("datetime", 71, |text| unless(is_date_time(text), "invalid datetime")),
];

fn unless(valid: bool, why: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![why.to_owned()] }
}

fn is_uuid(text: &str) -> bool {
    const HEX: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(HEX).ok());
    PATTERN.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// Returns true for base 64 with padding; the empty text has no group of four.
pub(crate) fn is_base64(text: &str) -> bool {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !text.is_empty() && text.len().is_multiple_of(4) && digits.bytes().all(is_digit)
}

/// Returns true for a date such as `2006-01-02`.
pub(crate) fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Returns true for a date and a time with its offset, as kube-openapi's `IsDateTime` reads them.
pub(crate) fn is_date_time(text: &str) -> bool {
    const TIME: &str = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(TIME).ok());
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = PATTERN.as_ref().and_then(|pattern| pattern.captures(time)) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn errors(name: &str, text: &str) -> usize {
        let format = FORMATS.iter().find(|format| format.name == name).expect("a format");
        (format.errors)(text).len()
    }

    /// The cases of `format_test.go`, and the boundaries of what is not in it.
    #[rstest]
    #[case("dns1123Label", "my-label-name", "contains a space")]
    #[case("dns1123Subdomain", "apiextensions.k8s.io", "contains a space")]
    #[case("dns1035Label", "my-label-name", "1a")]
    #[case("qualifiedName", "apiextensions.k8s.io/v1beta1", "contains a space")]
    #[case("dns1123LabelPrefix", "my-label-prefix-", "contains a space-")]
    #[case("dns1123SubdomainPrefix", "mysubdomain.prefix.-", "contains a space-")]
    #[case("dns1035LabelPrefix", "my-label-prefix-", "contains a space-")]
    #[case("labelValue", "my-cool-label-Value", "my-cool-label-Value!!\n\n!!!")]
    #[case("uri", "http://example.com", "example.com")]
    #[case("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-42661417400")]
    #[case("uuid", "123E4567E89B12D3A456426614174000", "123E4567E89B12D3A45642661417400g")]
    #[case("byte", "aGVsbG8=", "aGVsbG8")]
    #[case("byte", "aGVs", "")]
    #[case("date", "2021-01-01", "2020-01-32")]
    #[case("datetime", "2021-01-01T00:00:00Z", "2020-01-32T00:00:00Z")]
    #[case("datetime", "2021-01-01t23:59:59.5+01:00", "2021-01-01T24:00:00Z")]
    fn formats(#[case] name: &str, #[case] good: &str, #[case] bad: &str) {
        assert_eq!((errors(name, good), errors(name, bad)), (0, 1));
    }
}
