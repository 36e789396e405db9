//! `resource.k8s.io/v1` `ResourceClaim`. See `pkg/registry/resource/resourceclaim/strategy.go`.

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{is_empty_value, items_mut, object_mut, spec_of, value_default};
use crate::json::{Map, Value, json};
use crate::printers::column::{AGE, CellSource, Column, Description, NAME};
use crate::printers::format::{items, joined};
use crate::registry::builder::{ResourceBuilder, resource};
use crate::registry::generic::{Generic, MetadataRules};
use crate::registry::kind_strategy::KindStrategy;
use crate::registry::resource::claim_spec::{self, access, claim_spec};
use crate::registry::resource::claim_status;
use crate::registry::strategy::StrategyContext;

const SPEC: Path<'static> = Path::new("spec");

/// The resource `resourceclaims` of `resource.k8s.io/v1`.
pub(in crate::registry) fn definition() -> ResourceBuilder {
    resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", "io.k8s.api.resource.v1.ResourceClaim")
        .status_without_metadata()
        .hash("wgAZaHcZxUg=")
        .rules(
            KindStrategy::new(
                Generic { status: true, updates: MetadataRules::MetadataFirst, ..Generic::NEW },
                defaults,
            )
            .check_new_with(validate)
            .check_among_others_with(validate_access)
            .check_update_with(claim_spec::spec_stays)
            .check_status_with(claim_status::validate)
            .drop_status_with(claim_status::drop_deallocated),
        )
        .columns(COLUMNS)
}

/// Defaults of `ResourceClaim`.
pub(super) fn defaults(map: &mut Map) {
    let allocation = object_mut(map, "status").and_then(|status| object_mut(status, "allocation"));
    if let Some(devices) = allocation.and_then(|allocation| object_mut(allocation, "devices")) {
        items_mut(devices, "results").for_each(default_tolerations);
    }
    let Some(devices) = object_mut(map, "spec").and_then(|spec| object_mut(spec, "devices")) else { return };
    for request in items_mut(devices, "requests") {
        if let Some(exactly) = object_mut(request, "exactly") {
            default_request(exactly);
        }
        items_mut(request, "firstAvailable").for_each(default_request);
    }
}

fn default_request(request: &mut Map) {
    value_default(request, "allocationMode", "ExactCount");
    if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount")
        && request.get("count").and_then(Value::as_i64).unwrap_or(0) == 0
    {
        request.insert("count", 1.into());
    }
    default_tolerations(request);
}

fn default_tolerations(holder: &mut Map) {
    for toleration in items_mut(holder, "tolerations") {
        if is_empty_value(toleration.get("operator")) {
            toleration.insert("operator", "Equal".into());
        }
    }
}

/// Validates a `ResourceClaim`, except for administrative access.
pub(super) fn validate(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    claim_spec(spec_of(object), &SPEC, &mut errors);
    errors
}

/// Requires the label of a claim's namespace that allows administrative access, if the claim asks for it.
fn validate_access(object: &Value, ctx: &StrategyContext<'_>) -> ErrorList {
    access(spec_of(object), object, ctx)
}

/// The columns of `resourceclaims`.
const COLUMNS: &[Column] = &[
    NAME,
    Column::string(
        "State",
        Description::Text("A summary of the current state (allocated, pending, reserved, etc.)."),
        CellSource::Custom(|claim, _| json!(state(claim))),
    ),
    AGE,
];

fn state(claim: &Value) -> String {
    let there = |pointer: &str| claim.pointer(pointer).is_some_and(|value| !value.is_null());
    let deleted = there("/metadata/deletionTimestamp");
    let allocated = there("/status/allocation");
    let reserved = allocated && !items(claim, "/status/reservedFor").is_empty();
    let states =
        [(deleted, "deleted"), (!allocated && !deleted, "pending"), (allocated, "allocated"), (reserved, "reserved")];
    joined(states.into_iter().filter(|(holds, _)| *holds).map(|(_, state)| state))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::registry::tests::defaulted;

    #[test]
    fn a_request_for_a_device_is_for_one() {
        let claim = json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}});
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
        let expected = json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
        assert_eq!(defaulted(defaults, claim), expected);
    }

    #[rstest]
    #[case::fine(json!({"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
        "selectors": [{"cel": {"expression": "device.attributes['x'].model == 'a' && device.capacity['x'].memory.isGreaterThan(quantity('1Gi'))"}}]}}],
        "constraints": [{"requests": ["a"], "matchAttribute": "x.io/model"}]}), &[])]
    #[case::neither(json!({"requests": [{"name": "A"}]}), &[
        "spec.devices.requests[0].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"])]
    #[case::selector(json!({"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "All",
        "selectors": [{"cel": {"expression": "device.driver"}}, {"cel": {"expression": "devices"}}]}}]}), &[
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: \"device.driver\": must evaluate to bool or the unknown type, not string",
        "spec.devices.requests[0].exactly.selectors[1].cel.expression: Invalid value: \"devices\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'devices' (in container '')\n | devices\n | ^"])]
    #[case::twice(json!({"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "All", "count": 2}}, {"name": "a", "exactly": {"deviceClassName": "g", "allocationMode": "Some"}}]}), &[
        "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
        "spec.devices.requests[1].exactly.allocationMode: Unsupported value: \"Some\": supported values: \"All\", \"ExactCount\"",
        "spec.devices.requests[1]: Duplicate value: \"a\""])]
    #[case::constraints(json!({"constraints": [{"requests": ["b"], "distinctAttribute": "x"}, {}]}), &[
        "spec.devices.constraints[0].requests[0]: Invalid value: \"b\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
        "spec.devices.constraints[0].distinctAttribute: Invalid value: \"x\": a fully qualified name must be a domain and a name separated by a slash",
        "spec.devices.constraints[1]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set"])]
    #[case::config(json!({"config": [{}, {"opaque": {"driver": "d", "parameters": {}}}, {"opaque": {}}]}), &[
        "spec.devices.config[0].opaque: Required value",
        "spec.devices.config[2].opaque.driver: Required value",
        "spec.devices.config[2].opaque.parameters: Required value"])]
    fn claims(#[case] devices: Value, #[case] expected: &[&str]) {
        let errors = validate(&json!({"spec": {"devices": devices}}));
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }
}
