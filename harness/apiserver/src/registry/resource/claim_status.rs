//! Validation of the status of claims for devices: `ValidateResourceClaimStatusUpdate` in
//! `pkg/apis/resource/validation/validation.go`. PURE.

use crate::field_errors::{BadValue, ErrorList, Path};
use crate::json::fields::{array_field, non_null, spec_of, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::registry::core::{internal_json, node_selector};
use crate::registry::resource::claim_spec::{self, MOST, for_items, for_set, raw_object, text_of};
use crate::registry::resource::resource_slice::{binding_conditions, pool_name};
use crate::registry::storage::common::csi_driver_name;
use crate::registry::{addresses, checks, conditions, names};

const STATUS: Path<'static> = Path::new("status");

/// Most consumers of a claim, conditions and addresses of a device.
const MOST_CONSUMERS: usize = 256;

const MOST_REPORTED: usize = 8;

const MOST_ADDRESSES: usize = 16;

/// Longest name and hardware address of a network interface in bytes.
const LONGEST_INTERFACE: usize = 256;

const LONGEST_HARDWARE_ADDRESS: usize = 128;

/// Returns what identifies a device, or a share of it: driver, pool, device and share.
fn device_id(device: &Value) -> [&str; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| str_field(device, field))
}

/// Returns the ID of a device as the value of an error.
fn shown_id(device: &Value) -> BadValue {
    let [driver, pool, device, share] = device_id(device).map(|part| json!(part));
    BadValue::Raw(format!(r#"{{"Driver":{driver},"Pool":{pool},"Device":{device},"ShareID":{share}}}"#))
}

fn results(claim: &Value) -> &[Value] {
    array_field(&claim["status"]["allocation"]["devices"], "results")
}

fn is_allocated(claim: &Value, device: &Value) -> bool {
    results(claim).iter().any(|result| device_id(result) == device_id(device))
}

/// Drops the state of devices that are no longer allocated: `dropDeallocatedStatusDevices` in
/// `pkg/registry/resource/resourceclaim/strategy.go`.
pub(super) fn drop_deallocated(new: &mut Value, old: &Value) {
    let devices = array_field(&new["status"], "devices");
    let is_kept = |device: &&Value| !is_allocated(old, device) || is_allocated(new, device);
    let kept: Vec<Value> = devices.iter().filter(is_kept).cloned().collect();
    if let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) {
        if kept.is_empty() {
            status.remove("devices");
        } else {
            status.insert("devices", kept.into());
        }
    }
}

/// Validates a write to the status.
pub(super) fn validate(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let status = &new["status"];
    let consumers = array_field(status, "reservedFor");
    let path = STATUS.child("reservedFor");
    for_set(
        consumers,
        MOST_CONSUMERS,
        |one| str_field(one, "uid"),
        &path,
        &mut errors,
        |consumer, path, errors| {
            for field in ["resource", "name", "uid"].into_iter().filter(|field| str_field(consumer, field).is_empty()) {
                errors.required(&path.child(field), "");
            }
        },
    );
    let devices = array_field(status, "devices");
    let root = STATUS.child("devices");
    for_items(devices, usize::MAX, &root, &mut errors, |one, path, errors| device(one, new, path, errors));
    let repeated = checks::repeated(devices, device_id);
    for (index, one) in devices.iter().enumerate().filter(|(index, _)| repeated[*index]) {
        errors.duplicate(&root.index(index), shown_id(one));
    }
    let allocation = non_null(status, "allocation");
    let before = non_null(&old["status"], "allocation");
    if !consumers.is_empty() && allocation.is_none() {
        errors.forbidden(&path, "may not be specified when `allocated` is not set");
    } else if metadata::is_deleted(new) {
        let known = array_field(&old["status"], "reservedFor");
        if consumers.iter().any(|consumer| !known.contains(consumer)) {
            let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.forbidden(&path, why);
        }
    }
    let path = STATUS.child("allocation");
    match (allocation, before) {
        (Some(_), Some(_)) => internal_json::immutable("=AllocationResult", allocation, before, &path, &mut errors),
        (Some(allocation), None) => {
            let requests = array_field(&spec_of(new)["devices"], "requests");
            allocation_result(allocation, requests, &path, &mut errors);
        }
        (None, _) => {}
    }
    errors
}

/// Validates what identifies a device.
fn device_names(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let [driver, pool, name, _] = device_id(device);
    csi_driver_name(driver, &path.child("driver"), errors);
    pool_name(pool, &path.child("pool"), errors);
    checks::format(name, names::dns1123_label, &path.child("device"), errors);
}

/// Validates the state that a driver reports of a device.
fn device(device: &Value, claim: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    device_names(device, path, errors);
    share(device, path, errors);
    if !is_allocated(claim, device) {
        errors.invalid(path, shown_id(device), "must be an allocated device in the claim");
    }
    let reported = array_field(device, "conditions");
    let path_of_conditions = path.child("conditions");
    if reported.len() > MOST_REPORTED {
        errors.too_many(&path_of_conditions, reported.len(), MOST_REPORTED);
    }
    conditions::validate(reported, &path_of_conditions, errors);
    if let Some(data) = non_null(device, "data") {
        raw_object(data, &path.child("data"), errors);
    }
    let Some(network) = non_null(device, "networkData") else { return };
    let path = path.child("networkData");
    for (field, longest) in [("interfaceName", LONGEST_INTERFACE), ("hardwareAddress", LONGEST_HARDWARE_ADDRESS)] {
        if str_field(network, field).len() > longest {
            errors.too_long(&path.child(field), longest);
        }
    }
    let ips = array_field(network, "ips");
    for_set(ips, MOST_ADDRESSES, text_of, &path.child("ips"), errors, |ip, path, errors| {
        addresses::interface_address(text_of(ip), path, errors);
    });
}

fn allocation_result(allocation: &Value, requests: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let devices = &allocation["devices"];
    let root = path.child("devices");
    for_items(array_field(devices, "results"), MOST, &root.child("results"), errors, |result, path, errors| {
        claim_spec::request_name(str_field(result, "request"), requests, &path.child("request"), errors);
        device_names(result, path, errors);
        binding_conditions(result, path, errors);
        share(result, path, errors);
    });
    for_items(array_field(devices, "config"), 2 * MOST, &root.child("config"), errors, |config, path, errors| {
        checks::required_one_of(config, "source", &["FromClaim", "FromClass"], path, errors);
        claim_spec::request_names(config, requests, path, errors);
        claim_spec::configuration(config, path, errors);
    });
    if let Some(selector) = non_null(allocation, "nodeSelector") {
        node_selector::validate(selector, &path.child("nodeSelector"), errors);
    }
}

/// Validates the ID of a share of a device: `validateUID`, and `Validate` of `github.com/google/uuid`.
fn share(device: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(uid) = non_null(device, "shareID").and_then(Value::as_str) else { return };
    let path = path.child("shareID");
    let is_uid = |text: &str| {
        text.bytes().enumerate().all(|(i, byte)| match i {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    let wrong = match uid.len() {
        36 => (!is_uid(uid)).then(|| "invalid UUID format".to_owned()),
        length => Some(format!("invalid UUID length: {length}")),
    };
    if let Some(wrong) = wrong {
        errors.invalid(&path, uid, format!("error validating uid: {wrong}"));
    } else if uid.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let why = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
        errors.invalid(&path, uid, why);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const UID: &str = "12345678-1234-1234-1234-123456789abc";

    fn claim(status: Value) -> Value {
        json!({"spec": {"devices": {"requests": [{"name": "r"}]}}, "status": status})
    }

    fn allocation() -> Value {
        json!({"devices": {"results": [{"request": "r", "driver": "d.io", "pool": "p/q", "device": "x"}]}})
    }

    fn consumer(uid: &str) -> Value {
        json!({"resource": "pods", "name": "p", "uid": uid})
    }

    /// `TestValidateClaimStatusUpdate` in `validation_resourceclaim_test.go` next to upstream's file.
    #[rstest]
    #[case::allocated(json!({}), json!({"allocation": allocation(), "reservedFor": [consumer("1")]}), &[])]
    #[case::released(json!({"allocation": allocation()}), json!({}), &[])]
    #[case::not_allocated(json!({}), json!({"reservedFor": [consumer("1")]}),
        &["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"])]
    #[case::consumers(json!({}), json!({"allocation": allocation(), "reservedFor": [consumer("1"), {"uid": "1"}]}), &[
        "status.reservedFor[1].resource: Required value",
        "status.reservedFor[1].name: Required value",
        "status.reservedFor[1]: Duplicate value: \"1\"",
    ])]
    #[case::unknown_request(json!({}), json!({"allocation": {"devices": {"results": [
        {"request": "s", "driver": "d.io", "pool": "", "device": "x", "shareID": "1"}]}}}), &[
        "status.allocation.devices.results[0].request: Invalid value: \"s\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
        "status.allocation.devices.results[0].pool: Required value",
        "status.allocation.devices.results[0].shareID: Invalid value: \"1\": error validating uid: invalid UUID length: 1",
    ])]
    #[case::source(json!({}), json!({"allocation": {"devices": {"config": [{"source": "x", "opaque": {"driver": "d.io", "parameters": {}}}]}}}),
        &["status.allocation.devices.config[0].source: Unsupported value: \"x\": supported values: \"FromClaim\", \"FromClass\""])]
    #[case::device(json!({"allocation": allocation()}), json!({"allocation": allocation(), "devices": [{"driver": "d.io", "pool": "p/q",
        "device": "x", "networkData": {"ips": ["10.9.8.0/24", "2001:db8::1/64", "::ffff:1.2.3.4/120"]},
        "data": [], "conditions": [{"type": "Ready", "status": "True", "reason": "a", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Ready", "status": "x", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "a"}]}]}), &[
        "status.devices[0].conditions[1].type: Duplicate value: \"Ready\"",
        "status.devices[0].conditions[1].status: Unsupported value: \"x\": supported values: \"False\", \"True\", \"Unknown\"",
        "status.devices[0].data: Invalid value: \"<value omitted>\": must be a valid JSON object",
        "status.devices[0].networkData.ips[2]: Invalid value: \"::ffff:1.2.3.4/120\": must be in canonical form (\"1.2.3.4/24\")",
    ])]
    #[case::other_device(json!({"allocation": allocation()}), json!({"allocation": allocation(),
        "devices": [{"driver": "d.io", "pool": "p", "device": "y", "shareID": UID}]}),
        &[&*format!("status.devices[0]: Invalid value: {{\"Driver\":\"d.io\",\"Pool\":\"p\",\"Device\":\"y\",\"ShareID\":\"{UID}\"}}: must be an allocated device in the claim")])]
    fn statuses(#[case] before: Value, #[case] after: Value, #[case] expected: &[&str]) {
        let errors = validate(&claim(after), &claim(before));
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_allocation_stays() {
        let errors = validate(&claim(json!({"allocation": {}})), &claim(json!({"allocation": allocation()})));
        let errors: Vec<_> = errors.iter().map(|error| (&*error.field, &*error.detail)).collect();
        assert_eq!(errors, [("status.allocation", "field is immutable")]);
    }

    #[test]
    fn a_claim_that_is_deleted_gets_no_consumers() {
        let mut new = claim(json!({"allocation": allocation(), "reservedFor": [consumer("1"), consumer("2")]}));
        new["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let old = claim(json!({"allocation": allocation(), "reservedFor": [consumer("1")]}));
        let why = "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        assert_eq!(validate(&new, &old).iter().map(ToString::to_string).collect::<Vec<_>>(), [why]);
        assert!(validate(&old, &new).is_empty());
    }

    #[test]
    fn devices_that_are_not_allocated_have_no_state() {
        let devices = json!([{"driver": "d.io", "pool": "p/q", "device": "x"}]);
        let old = claim(json!({"allocation": allocation(), "devices": devices}));
        let mut new = claim(json!({"devices": devices}));
        drop_deallocated(&mut new, &old);
        assert_eq!(new["status"], json!({}));
        let mut kept = old.clone();
        drop_deallocated(&mut kept, &old);
        assert_eq!(kept, old);
    }
}
