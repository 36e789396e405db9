//! The formats of object names. See `staging/src/k8s.io/apimachinery/pkg/api/validation/generic.go`.

use std::net::IpAddr;

pub(crate) use crate::name_formats::{
    config_map_key, dns1035_label, dns1123_label, dns1123_subdomain, dns1123_subdomain_with_underscore, env_var_name,
    inclusive_range_error, label_value, long_name, mask_trailing_dash, path_segment, percent, port_name, port_number,
    qualified_name, regex_error, wildcard_subdomain,
};
use crate::registry::addresses::BAD_ADDRESS;

/// The required format of object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameFormat {
    /// A lowercase RFC 1123 subdomain (most resources).
    Subdomain,
    /// A lowercase RFC 1123 label (namespaces, and services since 1.35's relaxed names).
    Label,
    /// A valid URL path segment (RBAC roles, legacy event names).
    PathSegment,
    /// A lowercase RFC 1123 subdomain, judged by `k8s-long-name`: its length is in bytes, and `generateName` is judged
    /// by the name that is made of it alone.
    LongName,
    /// An IP address in its canonical form.
    Address,
}

/// Returns what is wrong with a canonical IP address.
fn address(value: &str) -> Vec<String> {
    let Ok(address) = value.parse::<IpAddr>() else {
        return vec![BAD_ADDRESS.to_owned()];
    };
    if matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    let canonical = address.to_string();
    if canonical == value { Vec::new() } else { vec![format!("must be in canonical form ({canonical:?})")] }
}

/// Validates an object's name or, with `prefix`, its `generateName`.
pub(crate) fn object_name(rule: NameFormat, value: &str, prefix: bool) -> Vec<String> {
    if rule == NameFormat::PathSegment {
        return path_segment(value, prefix);
    }
    if rule == NameFormat::Address {
        return address(value);
    }
    if rule == NameFormat::LongName {
        return if prefix { Vec::new() } else { long_name(value) };
    }
    let value = if prefix { mask_trailing_dash(value) } else { value.into() };
    match rule {
        NameFormat::Label => dns1123_label(&value),
        NameFormat::Subdomain | NameFormat::PathSegment | NameFormat::LongName | NameFormat::Address => {
            dns1123_subdomain(&value)
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("fe80::42:1dff:fe84:f9e2", &[])]
    #[case("10.0.0.1", &[])]
    #[case("FE80::1", &["must be in canonical form (\"fe80::1\")"])]
    #[case("::ffff:1.2.3.4", &["must not be an IPv4-mapped IPv6 address"])]
    #[case("a.b", &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"])]
    fn names_are_addresses(#[case] name: &str, #[case] expected: &[&str]) {
        assert_eq!(address(name), expected);
    }
}
