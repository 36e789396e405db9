//! `networking.k8s.io/v1` `NetworkPolicy`. See `pkg/registry/networking/networkpolicy/strategy.go` and
//! `pkg/apis/networking/validation/validation.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{
    array_field, is_empty_value, items_mut, non_null, object_or_default, spec_of, str_field, value_default,
};
use crate::json::{Map, Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::{Generation, Generic};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::label_selector;
use crate::registry::{addresses, names};

const SPEC: Path<'static> = Path::new("spec");

/// The resource `networkpolicies` of `networking.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "io.k8s.api.networking.v1.NetworkPolicy")
        .short(&["netpol"])
        .hash("YpfwF18m1G8=")
        .rules(
            KindStrategy::new(Generic { generation: Generation::Spec, ..Generic::NEW }, defaults)
                .check_with(validate)
                .warn_with(warnings),
        )
        .columns(COLUMNS)
}

/// Defaults of `NetworkPolicy`.
fn defaults(map: &mut Map) {
    let Some(spec) = object_or_default(map, "spec") else { return };
    if is_empty_value(spec.get("policyTypes")) {
        let egress = !is_empty_value(spec.get("egress"));
        spec.insert("policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
    for rules in ["ingress", "egress"] {
        for rule in items_mut(spec, rules) {
            for port in items_mut(rule, "ports") {
                value_default(port, "protocol", "TCP");
            }
        }
    }
}

/// Validates a `NetworkPolicy`, except for its metadata.
fn validate(object: &Value) -> ErrorList {
    let spec = spec_of(object);
    let mut errors = label_selector::validate(non_null(spec, "podSelector"), false, &SPEC.child("podSelector"));
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        let all = SPEC.child(rules);
        for (i, rule) in array_field(spec, rules).iter().enumerate() {
            let path = all.index(i);
            let ports_path = path.child("ports");
            let peers_path = path.child(peers);
            for (j, port) in array_field(rule, "ports").iter().enumerate() {
                policy_port(port, &ports_path.index(j), &mut errors);
            }
            for (j, peer) in array_field(rule, peers).iter().enumerate() {
                policy_peer(peer, &peers_path.index(j), &mut errors);
            }
        }
    }
    let types = array_field(spec, "policyTypes");
    let path = SPEC.child("policyTypes");
    if types.len() > 2 {
        errors.invalid(&path, Value::from(types.to_vec()), "may not specify more than two policyTypes");
        return errors;
    }
    for (i, kind) in types.iter().map(|kind| kind.as_str().unwrap_or_default()).enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            errors.not_supported(&path.index(i), kind, &["Ingress", "Egress"]);
        }
    }
    errors
}

/// Returns the warnings about unusual ranges: `networkPolicyWarnings` of the strategy.
fn warnings(policy: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in array_field(spec_of(policy), rules).iter().enumerate() {
            for (j, peer) in array_field(rule, peers).iter().enumerate() {
                let Some(block) = non_null(peer, "ipBlock") else { continue };
                let path = format!("spec.{rules}[{i}].{peers}[{j}].ipBlock");
                warnings.extend(addresses::cidr_warnings(&format!("{path}.cidr"), str_field(block, "cidr")));
                for (k, text) in array_field(block, "except").iter().filter_map(Value::as_str).enumerate() {
                    warnings.extend(addresses::cidr_warnings(&format!("{path}.except[{k}]"), text));
                }
            }
        }
    }
    warnings
}

fn policy_port(port: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let protocol = str_field(port, "protocol");
    if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
        errors.not_supported(&path.child("protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    }
    let end = non_null(port, "endPort").and_then(Value::as_i64);
    let end_path = path.child("endPort");
    match (non_null(port, "port"), end) {
        (None, Some(end)) => errors.invalid(&end_path, end, "may not be specified when `port` is not specified"),
        (Some(Value::String(name)), end) => {
            if let Some(end) = end {
                errors.invalid(&end_path, end, "may not be specified when `port` is non-numeric");
            }
            for message in names::port_name(name) {
                errors.invalid(&path.child("port"), name.as_str(), message);
            }
        }
        (Some(number), end) => {
            let number = number.as_i64().unwrap_or(0);
            if let Some(message) = names::port_number(number) {
                errors.invalid(&path.child("port"), number, message);
            }
            if end.is_some_and(|end| end < number) {
                errors.invalid(&end_path, number, "must be greater than or equal to `port`");
            }
            if let Some((end, message)) = end.and_then(|end| Some((end, names::port_number(end)?))) {
                errors.invalid(&end_path, end, message);
            }
        }
        (None, None) => {}
    }
}

fn policy_peer(peer: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let selectors = ["podSelector", "namespaceSelector"].into_iter().filter(|field| non_null(peer, field).is_some());
    let mut count = 0;
    for field in selectors {
        count += 1;
        errors.append(label_selector::validate(non_null(peer, field), false, &path.child(field)));
    }
    let Some(block) = non_null(peer, "ipBlock") else {
        if count == 0 {
            errors.required(path, "must specify a peer");
        }
        return;
    };
    let cidr = str_field(block, "cidr");
    let block_path = path.child("ipBlock");
    if cidr.is_empty() {
        errors.required(&block_path.child("cidr"), "");
    } else if let Some(outer) = addresses::legacy_cidr(cidr, &block_path.child("cidr"), errors) {
        let all = block_path.child("except");
        for (index, text) in array_field(block, "except").iter().filter_map(Value::as_str).enumerate() {
            let inner = addresses::legacy_cidr(text, &all.index(index), errors);
            if inner.is_some_and(|inner| !outer.strictly_contains(&inner)) {
                errors.invalid(&all.index(index), text, "must be a strict subset of `cidr`");
            }
        }
    }
    if count > 0 {
        errors.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

/// The columns of `networkpolicies`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "Pod-Selector",
        Description::Field("api.networking.v1.NetworkPolicySpec", "podSelector"),
        CellSource::Selector("/spec/podSelector"),
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[rstest]
    #[case::fine(json!({"policyTypes": ["Ingress"], "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}), &[])]
    #[case::odd(
        json!({"policyTypes": ["X"], "ingress": [{"from": [{"ipBlock": {"cidr": "bad"}}, {}],
            "ports": [{"port": 99999, "protocol": "X"}]}]}),
        &[
            "spec.ingress[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
            "spec.ingress[0].ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive",
            "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"bad\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            "spec.ingress[0].from[1]: Required value: must specify a peer",
            "spec.policyTypes[0]: Unsupported value: \"X\": supported values: \"Ingress\", \"Egress\"",
        ]
    )]
    fn network_policies_are_refused(#[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(texts(&validate(&json!({"spec": spec}))), expected);
    }
}
