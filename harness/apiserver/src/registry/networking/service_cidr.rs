//! `networking.k8s.io/v1` `ServiceCIDR`. See `pkg/registry/networking/servicecidr/strategy.go` and
//! `pkg/apis/networking/validation/validation.go`.

use std::net::IpAddr;

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, spec_of};
use crate::json::{Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::items;
use crate::registry::addresses;
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::checks::IMMUTABLE_MESSAGE;
use crate::registry::generic::Generic;
use crate::registry::strategy::{Strategy, StrategyContext};

/// The resource `servicecidrs` of `networking.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", "io.k8s.api.networking.v1.ServiceCIDR")
        .cluster()
        .status_without_metadata()
        .hash("gNLvruQhW2g=")
        .rules(ServiceCidr)
        .columns(COLUMNS)
}

const RULES: Generic = Generic { namespaced: false, status: true, ..Generic::NEW };

const SPEC: Path<'static> = Path::new("spec");

/// The strategy of `ServiceCIDR`.
#[derive(Debug, Clone, Copy)]
struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn prepare_for_create(&self, object: &mut Value, ctx: &StrategyContext<'_>) {
        RULES.prepare_for_create(object, ctx);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = RULES.validate(object);
        ranges(object, &mut errors);
        errors
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, ctx: &StrategyContext<'_>) {
        RULES.prepare_for_update(new, old, ctx);
    }

    fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = RULES.validate_update(new, old);
        let path = SPEC.child("cidrs");
        let now = array_field(spec_of(new), "cidrs");
        let before = array_field(spec_of(old), "cidrs");
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
        RULES.validate_status_update(new, old)
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
        let shown = BadValue::Raw(format!("{{\"CIDRs\":{}}}", Value::from(ranges.to_vec())));
        errors.invalid(&path, shown, "may only hold up to 2 values");
        return;
    }
    for (index, range) in ranges.iter().enumerate() {
        addresses::canonical_cidr(range.as_str().unwrap_or_default(), &path.index(index), errors);
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

/// The columns of `servicecidrs`.
pub(in crate::registry) const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "CIDRs",
        Description::Field("api.networking.v1.ServiceCIDRSpec", "cidrs"),
        CellSource::Custom(|range, _| {
            let ranges: Vec<&str> = items(range, "/spec/cidrs").iter().filter_map(Value::as_str).collect();
            json!(ranges.join(","))
        }),
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!(["10.0.0.0/24", "fd00::/64"]), 0)]
    #[case(json!(["10.0.0.0/24", "10.0.1.0/24"]), 1)]
    #[case(json!(["10.0.0.0"]), 1)]
    #[case(json!([]), 1)]
    #[case::host_bits(json!(["10.0.0.1/24"]), 1)]
    #[case::form(json!(["FD00:1234::/64"]), 1)]
    #[case::zeros(json!(["10.0.007.0/24"]), 1)]
    fn ranges_of_services(#[case] cidrs: Value, #[case] errors: usize) {
        assert_eq!(ServiceCidr.validate(&json!({"metadata": {"name": "a"}, "spec": {"cidrs": cidrs}})).len(), errors);
    }
}
