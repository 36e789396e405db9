//! The formats of object names. See `staging/src/k8s.io/apimachinery/pkg/api/validation/generic.go`.

use super::NameFormat;
pub(crate) use crate::name_formats::{
    config_map_key, dns1035_label, dns1123_label, dns1123_subdomain, dns1123_subdomain_with_underscore, env_var_name,
    inclusive_range_error, label_value, mask_trailing_dash, path_segment, percent, port_name, port_number,
    qualified_name, regex_error,
};

/// Validates an object's name or, with `prefix`, its `generateName`.
pub(crate) fn object_name(rule: NameFormat, value: &str, prefix: bool) -> Vec<String> {
    if rule == NameFormat::PathSegment {
        return path_segment(value, prefix);
    }
    if rule == NameFormat::Address {
        return super::addresses::address(value);
    }
    let value = if prefix { mask_trailing_dash(value) } else { value.into() };
    match rule {
        NameFormat::Label => dns1123_label(&value),
        NameFormat::Subdomain | NameFormat::PathSegment | NameFormat::Address => dns1123_subdomain(&value),
    }
}
