//! Validation of what the status of a pod says about its claims, users and devices: `ValidatePodStatusUpdate` and the
//! functions that it calls in `pkg/apis/core/validation/validation.go`. PURE.

use std::collections::BTreeSet;

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, items_mut, non_null, object_or_insert, str_field};
use crate::registry::core::pod::containers;
use crate::registry::{checks, names};

/// The lists of statuses of containers, with those of the containers themselves.
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// Drops fields behind feature gates that are off by default.
pub(super) fn drop_disabled(pod: &mut Value) {
    let Some(status) = object_or_insert(pod, "status") else { return };
    status.remove("nodeAllocatableResourceClaimStatuses");
    for (field, _) in STATUSES {
        for container in items_mut(status, field) {
            for mount in items_mut(container, "volumeMounts") {
                mount.remove("volumeStatus");
            }
        }
    }
}

/// Validates the claims of a pod that are allocated for it.
pub(super) fn claims(status: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list = path.child("resourceClaimStatuses");
    let statuses = array_field(status, "resourceClaimStatuses");
    let known: BTreeSet<&str> =
        array_field(spec, "resourceClaims").iter().map(|claim| str_field(claim, "name")).collect();
    let repeated = checks::repeated(statuses, |one| str_field(one, "name"));
    for (index, one) in statuses.iter().enumerate() {
        let path = list.index(index);
        let name = str_field(one, "name");
        if !known.contains(name) {
            errors.invalid(&path.child("name"), name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if repeated[index] {
            errors.duplicate(&path.child("name"), name);
        }
        if let Some(claim) = non_null(one, "resourceClaimName").and_then(Value::as_str) {
            checks::format(claim, names::dns1123_subdomain, &path.child("resourceClaimName"), errors);
        }
    }
    if let Some(extended) = non_null(status, "extendedResourceClaimStatus") {
        extended_claim(extended, spec, &path.child("extendedResourceClaimStatus"), errors);
    }
}

/// Validates the claim for extended resources: `validatePodExtendedResourceClaimStatus`.
fn extended_claim(status: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list = path.child("requestMappings");
    let mappings = array_field(status, "requestMappings");
    if mappings.is_empty() {
        errors.required(&list, "at least one request mapping is required");
    }
    let key =
        |mapping: &Value| ["containerName", "resourceName", "requestName"].map(|f| str_field(mapping, f).to_owned());
    let repeated = checks::repeated(mappings, key);
    for (index, mapping) in mappings.iter().enumerate() {
        let at = list.index(index);
        let [container, resource, request] = key(mapping);
        let named = ["containers", "initContainers"].iter().flat_map(|list| array_field(spec, list));
        match named.into_iter().find(|one| str_field(one, "name") == container) {
            None => {
                let why = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.invalid(&at.child("containerName"), container.as_str(), why);
            }
            Some(found) if found["resources"]["requests"].get(&resource).is_none() => {
                let why = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(&at.child("resourceName"), resource.as_str(), why);
            }
            Some(_) => {}
        }
        checks::format(&request, names::dns1123_label, &path.child("requestName"), errors);
        if repeated[index] {
            for (field, value) in [("containerName", container), ("resourceName", resource), ("requestName", request)] {
                errors.duplicate(&at.child(field), value);
            }
        }
    }
    match str_field(status, "resourceClaimName") {
        "" => errors.required(&path.child("resourceClaimName"), ""),
        name => checks::format(name, names::dns1123_subdomain, &path.child("resourceClaimName"), errors),
    }
}

/// Validates the users of containers and the state of their devices.
pub(super) fn users_and_devices(status: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let windows = spec["os"]["name"] == "windows";
    for (field, _) in STATUSES {
        let list = path.child(field);
        for (index, container) in array_field(status, field).iter().enumerate() {
            let Some(user) = non_null(&container["user"], "linux") else { continue };
            let path = list.index(index);
            let path = path.child("user");
            let path = path.child("linux");
            if windows {
                errors.forbidden(&path, "cannot be set for a windows pod");
                continue;
            }
            containers::id(user.get("uid"), &path.child("uid"), errors);
            containers::id(user.get("gid"), &path.child("gid"), errors);
            for (at, group) in array_field(user, "supplementalGroups").iter().enumerate() {
                containers::id(Some(group), &path.child("supplementalGroups").index(at), errors);
            }
        }
    }
    for (field, containers) in STATUSES {
        let list = path.child(field);
        for (index, one) in array_field(status, field).iter().enumerate() {
            let devices = array_field(one, "allocatedResourcesStatus");
            let path = list.index(index);
            let path = path.child("allocatedResourcesStatus");
            if containers == "ephemeralContainers" && !devices.is_empty() {
                errors.forbidden(&path, "must not be specified in container status");
                continue;
            }
            let same = |container: &&Value| str_field(container, "name") == str_field(one, "name");
            let container = array_field(spec, containers).iter().find(same);
            for (at, resource) in devices.iter().enumerate() {
                device(resource, container, &path.index(at), errors);
            }
        }
    }
}

/// Validates the state of a resource of a container: `validateContainerStatusAllocatedResourcesStatus`.
fn device(resource: &Value, container: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    /// Longest message about a device in bytes.
    const MESSAGE_MAX: usize = 1024;
    let name = str_field(resource, "name");
    if let Some(resources) = container.map(|container| &container["resources"]) {
        let (found, why) = if name.starts_with("claim:") {
            let is_named = |claim: &Value| match str_field(claim, "request") {
                "" => format!("claim:{}", str_field(claim, "name")) == name,
                request => format!("claim:{}/{request}", str_field(claim, "name")) == name,
            };
            let why = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            (array_field(resources, "claims").iter().any(is_named), why)
        } else {
            (resources["requests"].get(name).is_some(), "must match one of the container's resource requests")
        };
        if !found {
            errors.invalid(&path.child("name"), name, why);
        }
    }
    let list = path.child("resources");
    let units = array_field(resource, "resources");
    let repeated = checks::repeated(units, |unit| str_field(unit, "resourceID"));
    for (index, unit) in units.iter().enumerate() {
        let path = list.index(index);
        let health = str_field(unit, "health");
        if !["Healthy", "Unhealthy", "Unknown"].contains(&health) {
            errors.not_supported(&path.child("health"), health, &["Healthy", "Unhealthy", "Unknown"]);
        }
        match non_null(unit, "message").and_then(Value::as_str) {
            Some("") => errors.required(&path.child("message"), "must be non-empty if specified"),
            Some(message) if message.len() > MESSAGE_MAX => errors.too_long(&path.child("message"), MESSAGE_MAX),
            _ => {}
        }
        let id = str_field(unit, "resourceID");
        if repeated[index] {
            errors.duplicate(&path.child("resourceID"), id);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    /// `TestValidatePodStatusUpdate` in `pkg/apis/core/validation/validation_test.go`.
    #[rstest]
    #[case::claims(json!({"resourceClaimStatuses": [{"name": "a"}, {"name": "b"}, {"name": "a", "resourceClaimName": "A"}]}), &[
        "status.resourceClaimStatuses[1].name: Invalid value: \"b\": must match the name of an entry in `spec.resourceClaims`",
        "status.resourceClaimStatuses[2].name: Duplicate value: \"a\"",
        "status.resourceClaimStatuses[2].resourceClaimName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"])]
    #[case::extended(json!({"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [
            {"containerName": "c", "resourceName": "x.y/gpu", "requestName": "r"},
            {"containerName": "c", "resourceName": "x.y/cpu", "requestName": "r"},
            {"containerName": "d", "resourceName": "x.y/gpu", "requestName": "r"}]}}), &[
        "status.extendedResourceClaimStatus.requestMappings[1].resourceName: Invalid value: \"x.y/cpu\": must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
        "status.extendedResourceClaimStatus.requestMappings[2].containerName: Invalid value: \"d\": must match the name of an entry in spec.initContainers.name or spec.containers.name"])]
    #[case::no_mappings(json!({"extendedResourceClaimStatus": {}}), &[
        "status.extendedResourceClaimStatus.requestMappings: Required value: at least one request mapping is required",
        "status.extendedResourceClaimStatus.resourceClaimName: Required value"])]
    #[case::users(json!({"containerStatuses": [{"name": "c", "user": {"linux": {"uid": -1, "gid": 0, "supplementalGroups": [-1]}}}]}), &[
        "status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        "status.containerStatuses[0].user.linux.supplementalGroups[0]: Invalid value: -1: must be between 0 and 2147483647, inclusive"])]
    #[case::devices(json!({"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [
            {"name": "claim:a", "resources": [{"resourceID": "1", "health": "Healthy"}, {"resourceID": "1", "health": "Ill"}]},
            {"name": "claim:b"}, {"name": "x.y/gpu"}, {"name": "x.y/cpu"}]}],
            "ephemeralContainerStatuses": [{"name": "e", "allocatedResourcesStatus": [{"name": "x"}]}]}), &[
        "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].health: Unsupported value: \"Ill\": supported values: \"Healthy\", \"Unhealthy\", \"Unknown\"",
        "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: Duplicate value: \"1\"",
        "status.containerStatuses[0].allocatedResourcesStatus[1].name: Invalid value: \"claim:b\": must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
        "status.containerStatuses[0].allocatedResourcesStatus[3].name: Invalid value: \"x.y/cpu\": must match one of the container's resource requests",
        "status.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden: must not be specified in container status"])]
    fn statuses(#[case] status: Value, #[case] expected: &[&str]) {
        let spec = json!({"resourceClaims": [{"name": "a"}], "containers": [
            {"name": "c", "resources": {"requests": {"x.y/gpu": "1"}, "claims": [{"name": "a"}]}}]});
        let mut errors = ErrorList::new();
        let path = Path::new("status");
        claims(&status, &spec, &path, &mut errors);
        users_and_devices(&status, &spec, &path, &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn disabled_fields_are_dropped() {
        let mount = json!({"name": "v", "mountPath": "/v", "volumeStatus": {"image": {}}});
        let mut pod = json!({"status": {"nodeAllocatableResourceClaimStatuses": [{}],
            "containerStatuses": [{"name": "c", "volumeMounts": [mount]}]}});
        drop_disabled(&mut pod);
        let mount = json!({"name": "v", "mountPath": "/v"});
        assert_eq!(pod, json!({"status": {"containerStatuses": [{"name": "c", "volumeMounts": [mount]}]}}));
    }
}
