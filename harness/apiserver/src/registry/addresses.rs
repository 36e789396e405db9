//! Validation of IP addresses and service CIDRs. See `pkg/registry/networking/{ipaddress,servicecidr}/strategy.go` and
//! `pkg/apis/networking/validation/validation.go`.

use std::net::IpAddr;

use super::generic::Generic;
use super::label_selector::array_field;
use super::meta::{self, IMMUTABLE_MESSAGE, non_null, spec_of};
use super::names;
use super::service::is_cidr;
use super::{NameFormat, Strategy, StrategyContext};
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;

const RULES: Generic = Generic { namespaced: false, names: NameFormat::Address, ..Generic::NEW };
const CIDR_RULES: Generic = Generic { namespaced: false, status: true, ..Generic::NEW };
const SPEC: Path<'static> = Path::new("spec");

/// The strategy of `IPAddress`.
#[derive(Debug, Clone, Copy)]
pub(super) struct IpAddress;

impl Strategy for IpAddress {
    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = RULES.validate(object);
        let path = SPEC.child("parentRef");
        let Some(parent) = non_null(spec_of(object), "parentRef") else {
            errors.required(&path, "");
            return errors;
        };
        let group = meta::str_field(parent, "group");
        if !group.is_empty() {
            for message in names::dns1123_subdomain(group) {
                errors.invalid(&path.child("group"), group, message);
            }
        }
        for field in ["resource", "name", "namespace"] {
            let text = meta::str_field(parent, field);
            if text.is_empty() && field != "namespace" {
                errors.required(&path.child(field), "");
            }
            for message in names::path_segment(text, text.is_empty()) {
                errors.invalid(&path.child(field), text, message);
            }
        }
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = RULES.validate_update(new, old);
        let (now, before) = (spec_of(new).get("parentRef"), spec_of(old).get("parentRef"));
        meta::validate_immutable(now, before, &SPEC.child("parentRef"), &mut errors);
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }
}

/// The strategy of `ServiceCIDR`.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        CIDR_RULES.prepare_for_create(object, ctx);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = CIDR_RULES.validate(object);
        ranges(object, &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        CIDR_RULES.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = CIDR_RULES.validate_update(new, old);
        let path = SPEC.child("cidrs");
        let (now, before) = (array_field(spec_of(new), "cidrs"), array_field(spec_of(old), "cidrs"));
        let extended = before.len() == 1 && now.len() == 2;
        if now.len() != before.len() && !extended {
            errors.invalid(&path, spec_of(new).get("cidrs"), IMMUTABLE_MESSAGE);
            return errors;
        }
        for (index, (now, before)) in now.iter().zip(before).enumerate() {
            if now != before {
                errors.invalid(&path.index(index), now, IMMUTABLE_MESSAGE);
            }
        }
        if extended {
            ranges(new, &mut errors);
        }
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        CIDR_RULES.validate_status_update(new, old)
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }
}

/// Checks the ranges of a service CIDR: one or two, of different families.
fn ranges(object: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("cidrs");
    let ranges = array_field(spec_of(object), "cidrs");
    if ranges.is_empty() {
        errors.required(&path, "at least one CIDR required");
        return;
    }
    if ranges.len() > 2 {
        errors.invalid(&path, spec_of(object), "may only hold up to 2 values");
        return;
    }
    for (index, range) in ranges.iter().enumerate() {
        let text = range.as_str().unwrap_or_default();
        if !is_cidr(text) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.invalid(&path.index(index), text, why);
        }
    }
    let families: Vec<Option<bool>> = ranges.iter().map(|range| is_ipv4(range.as_str().unwrap_or_default())).collect();
    if let [Some(first), Some(second)] = families.as_slice()
        && first == second
    {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(&path, spec_of(object).get("cidrs"), why);
    }
}

fn is_ipv4(range: &str) -> Option<bool> {
    range.split('/').next()?.parse::<IpAddr>().ok().map(|address| address.is_ipv4())
}

/// Returns what is wrong with a canonical IP address.
pub(super) fn address(value: &str) -> Vec<String> {
    let Ok(address) = value.parse::<IpAddr>() else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    };
    if matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    let canonical = address.to_string();
    if canonical == value { Vec::new() } else { vec![format!("must be in canonical form ({canonical:?})")] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use rstest::rstest;

    #[rstest]
    #[case("fe80::42:1dff:fe84:f9e2", &[])]
    #[case("10.0.0.1", &[])]
    #[case("FE80::1", &["must be in canonical form (\"fe80::1\")"])]
    #[case("::ffff:1.2.3.4", &["must not be an IPv4-mapped IPv6 address"])]
    #[case("a.b", &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"])]
    fn names_are_addresses(#[case] name: &str, #[case] expected: &[&str]) {
        assert_eq!(address(name), expected);
    }

    fn causes(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(|error| format!("{}: {}", error.cause().field, error.cause().message)).collect()
    }

    #[rstest]
    #[case(json!({"parentRef": {"resource": "services", "name": "a", "namespace": "b"}}), &[])]
    #[case(json!({}), &["spec.parentRef: Required value"])]
    #[case(json!({"parentRef": {"group": "A", "name": "a/b"}}), &["spec.parentRef.group: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
        "spec.parentRef.resource: Required value", "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'"])]
    fn addresses_have_a_parent(#[case] spec: Value, #[case] expected: &[&str]) {
        let errors = IpAddress.validate(&json!({"metadata": {"name": "10.0.0.1"}, "spec": spec}));
        let found = causes(&errors);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{found:?}");
    }

    #[rstest]
    #[case(json!(["10.0.0.0/24", "fd00::/64"]), 0)]
    #[case(json!(["10.0.0.0/24", "10.0.1.0/24"]), 1)]
    #[case(json!(["10.0.0.0"]), 1)]
    #[case(json!([]), 1)]
    fn ranges_of_services(#[case] cidrs: Value, #[case] errors: usize) {
        assert_eq!(ServiceCidr.validate(&json!({"metadata": {"name": "a"}, "spec": {"cidrs": cidrs}})).len(), errors);
    }
}
