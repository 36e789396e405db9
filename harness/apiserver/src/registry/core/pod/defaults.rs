//! Default values of pods and pod templates. See `pkg/apis/core/v1/defaults.go`.

use crate::json::fields::{is_empty_value, items_mut, object_mut, object_or_insert, text_default, value_default};
use crate::json::{Map, Value, json};
use crate::quantity::Quantity;
use crate::registry::core::{persistent_volume_claim, volume_sources};
use crate::registry::resource_list::{quantities, quantity_text, resource_lists};
use crate::registry::time;

/// Sets a number that is missing or 0.
fn number_default(map: &mut Map, field: &str, value: i64) {
    if map.get(field).and_then(Value::as_i64).unwrap_or(0) == 0 {
        map.insert(field.to_owned(), value.into());
    }
}

/// Removes flags that are false, which upstream's types omit.
fn drop_false(map: &mut Map, fields: &[&str]) {
    for field in fields {
        if map.get(*field) == Some(&Value::Bool(false)) {
            map.remove(*field);
        }
    }
}

/// Defaults of a pod.
pub(super) fn pod(object: &mut Value) {
    let Some(spec) = object_or_insert(object, "spec") else { return };
    pod_spec(spec);
    for field in ["containers", "initContainers"] {
        for container in items_mut(spec, field) {
            requests_from_limits(container);
        }
    }
    pod_level_requests(spec);
    value_default(spec, "enableServiceLinks", true);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|s| s < 0) {
        spec.insert("terminationGracePeriodSeconds", 1.into());
    }
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for field in ["containers", "initContainers"] {
            for container in items_mut(spec, field) {
                for port in items_mut(container, "ports") {
                    let own = port.get("containerPort").and_then(Value::as_i64).unwrap_or(0);
                    if own != 0 {
                        number_default(port, "hostPort", own);
                    }
                }
            }
        }
    }
    status(object);
}

/// Defaults of a pod's status.
pub(super) fn status(object: &mut Value) {
    if let Some(status) = object_or_insert(object, "status") {
        pod_status(status);
    }
}

/// Defaults of a `PodTemplateSpec`.
pub(in crate::registry) fn template(template: &mut Value) {
    object_or_insert(template, "metadata");
    if let Some(spec) = object_or_insert(template, "spec") {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Map) {
    if spec.get("containers").is_none() {
        spec.insert("containers", Value::Null);
    }
    text_default(spec, "dnsPolicy", "ClusterFirst");
    text_default(spec, "restartPolicy", "Always");
    value_default(spec, "securityContext", json!({}));
    value_default(spec, "terminationGracePeriodSeconds", 30);
    text_default(spec, "schedulerName", "default-scheduler");
    drop_false(spec, &["hostNetwork", "hostPID", "hostIPC"]);
    if let Some(account) = spec.get("serviceAccountName").or_else(|| spec.get("serviceAccount")).cloned()
        && !is_empty_value(Some(&account))
    {
        spec.insert("serviceAccountName", account.clone());
        spec.insert("serviceAccount", account);
    }
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items_mut(spec, field) {
            container_defaults(container);
        }
    }
    for volume in items_mut(spec, "volumes") {
        volume_defaults(volume);
    }
    if let Some(resources) = object_mut(spec, "resources") {
        resource_lists(resources);
    }
    quantities(spec, "overhead");
    // Behind a feature gate that is off by default.
    spec.remove("schedulingGroup");
}

fn container_defaults(container: &mut Map) {
    let latest = image_is_latest(container.get("image").and_then(Value::as_str).unwrap_or_default());
    text_default(container, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" });
    text_default(container, "terminationMessagePath", "/dev/termination-log");
    text_default(container, "terminationMessagePolicy", "File");
    drop_false(container, &["stdin", "stdinOnce", "tty"]);
    value_default(container, "resources", json!({}));
    if let Some(resources) = object_mut(container, "resources") {
        resource_lists(resources);
    }
    for port in items_mut(container, "ports") {
        text_default(port, "protocol", "TCP");
    }
    for env in items_mut(container, "env") {
        if let Some(from) = object_mut(env, "valueFrom") {
            if let Some(field) = object_mut(from, "fieldRef") {
                text_default(field, "apiVersion", "v1");
            }
            if let Some(resource) = object_mut(from, "resourceFieldRef") {
                divisor(resource);
            }
            if let Some(key) = object_mut(from, "fileKeyRef") {
                value_default(key, "optional", false);
            }
        }
    }
    for mount in items_mut(container, "volumeMounts") {
        drop_false(mount, &["readOnly"]);
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = object_mut(container, field) {
            number_default(probe, "timeoutSeconds", 1);
            number_default(probe, "periodSeconds", 10);
            number_default(probe, "successThreshold", 1);
            number_default(probe, "failureThreshold", 3);
            handler_defaults(probe);
            if let Some(grpc) = object_mut(probe, "grpc") {
                value_default(grpc, "service", "");
            }
        }
    }
    if let Some(lifecycle) = object_mut(container, "lifecycle") {
        // Behind a feature gate that is off by default.
        let is_empty = lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty();
        for field in ["postStart", "preStop"] {
            if let Some(handler) = object_mut(lifecycle, field) {
                handler_defaults(handler);
            }
        }
        if is_empty {
            container.remove("lifecycle");
        }
    }
}

fn divisor(selector: &mut Map) {
    value_default(selector, "divisor", "0");
    if let Some(text) = selector.get("divisor").map(quantity_text)
        && let Some(quantity) = Quantity::parse(&text)
    {
        selector.insert("divisor", quantity.to_string().into());
    }
}

fn handler_defaults(handler: &mut Map) {
    if let Some(get) = object_mut(handler, "httpGet") {
        text_default(get, "path", "/");
        text_default(get, "scheme", "HTTP");
    }
}

/// Returns true if an image without a pull policy is always pulled: it has the tag `latest`, or neither tag nor
/// digest.
fn image_is_latest(image: &str) -> bool {
    if !is_image_reference(image) || is_too_long(image) || image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Returns true if an image name, including the implied registry, exceeds 255 characters.
fn is_too_long(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or(image);
    let name = match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => name,
    };
    let unsaid = match name.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => "",
        Some(_) => "docker.io/",
        None => "docker.io/library/",
    };
    unsaid.len() + name.len() > 255
}

/// Returns true for a valid image reference: no white space, no capitals in the path after the registry, no empty
/// component.
fn is_image_reference(image: &str) -> bool {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let (registry, path) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => ("", name),
    };
    let path = path.rsplit_once(':').map_or(path, |(path, tag)| if tag.contains('/') { name } else { path });
    (registry.is_empty() || is_registry(registry)) && path.split('/').all(is_path_component)
}

/// Returns true for a host with an optional port: `domainAndPort` of `github.com/distribution/reference`.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_address = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    let is_label = |text: &str| {
        let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        ends(text.bytes().next())
            && ends(text.bytes().last())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => is_address(address),
        None => host.split('.').all(is_label),
    };
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns true for letters and digits, separated by a dot, one or two underscores, or dashes: `pathComponent` of
/// `github.com/distribution/reference`.
fn is_path_component(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let mut separators = text.split(is_plain).filter(|separator| !separator.is_empty());
    text.starts_with(is_plain)
        && text.ends_with(is_plain)
        && separators.all(|part| matches!(part, "." | "_" | "__") || part.bytes().all(|b| b == b'-'))
}

fn requests_from_limits(container: &mut Map) {
    let Some(resources) = object_mut(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    if !resources.get("requests").is_some_and(Value::is_object) {
        resources.insert("requests", Value::Object(Map::new()));
    }
    let Some(requests) = object_mut(resources, "requests") else { return };
    for (name, value) in limits {
        requests.entry(name).or_insert(value);
    }
}

/// Sets pod-level requests to the sum of the containers' requests, or else to the pod-level limits.
fn pod_level_requests(spec: &mut Map) {
    let Some(limits) = spec
        .get("resources")
        .and_then(|r| r.get("limits"))
        .and_then(Value::as_object)
        .filter(|l| !l.is_empty())
        .cloned()
    else {
        return;
    };
    let mut sums: Vec<(String, Quantity)> = Vec::new();
    for container in spec.get("containers").and_then(Value::as_array).into_iter().flatten() {
        let requests = container.get("resources").and_then(|r| r.get("requests")).and_then(Value::as_object);
        for (name, value) in requests.into_iter().flatten() {
            let Some(quantity) = Quantity::parse(&quantity_text(value)) else { continue };
            match sums.iter_mut().find(|(n, _)| n == name) {
                Some((_, sum)) => *sum = sum.plus(quantity),
                None => sums.push((name.to_string(), quantity)),
            }
        }
    }
    let Some(resources) = object_mut(spec, "resources") else { return };
    if !resources.get("requests").is_some_and(Value::is_object) {
        resources.insert("requests", Value::Object(Map::new()));
    }
    let Some(requests) = object_mut(resources, "requests") else { return };
    for (name, sum) in sums {
        if name == "cpu" || name == "memory" {
            requests.entry(name).or_insert_with(|| sum.to_string().into());
        }
    }
    for (name, limit) in limits {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            requests.entry(name).or_insert(limit);
        }
    }
}

const MODE: i64 = 0o644;

fn volume_defaults(volume: &mut Map) {
    let has_source = volume.iter().any(|(field, value)| field != "name" && !value.is_null());
    if !has_source {
        volume.insert("emptyDir", json!({}));
    }
    for field in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object_mut(volume, field) {
            value_default(source, "defaultMode", MODE);
            downward_items(source);
            for projection in items_mut(source, "sources") {
                if let Some(token) = object_mut(projection, "serviceAccountToken") {
                    value_default(token, "expirationSeconds", 3600);
                }
                // Behind feature gates that are off by default.
                for field in ["clusterTrustBundle", "podCertificate"] {
                    projection.remove(field);
                }
                if let Some(downward) = object_mut(projection, "downwardAPI") {
                    downward_items(downward);
                }
            }
        }
    }
    volume_sources::defaults(volume);
    if let Some(image) = object_mut(volume, "image") {
        let latest = image_is_latest(image.get("reference").and_then(Value::as_str).unwrap_or_default());
        text_default(image, "pullPolicy", if latest { "Always" } else { "IfNotPresent" });
    }
    if let Some(disk) = object_mut(volume, "emptyDir")
        && let Some(quantity) = disk.get("sizeLimit").map(quantity_text).and_then(|t| Quantity::parse(&t))
    {
        disk.insert("sizeLimit", quantity.to_string().into());
    }
    if let Some(claim) = object_mut(volume, "ephemeral").and_then(|e| object_mut(e, "volumeClaimTemplate")) {
        value_default(claim, "metadata", json!({}));
        if let Some(spec) = object_mut(claim, "spec") {
            persistent_volume_claim::spec_defaults(spec);
        }
    }
}

fn downward_items(source: &mut Map) {
    for item in items_mut(source, "items") {
        if let Some(field) = object_mut(item, "fieldRef") {
            text_default(field, "apiVersion", "v1");
        }
        if let Some(resource) = object_mut(item, "resourceFieldRef") {
            divisor(resource);
        }
    }
}

/// Adds the fields of a pod status that are always encoded, and keeps `podIP` and `podIPs` consistent.
fn pod_status(status: &mut Map) {
    time::normalize_seconds(status, &["startTime"]);
    let single = status.get("podIP").filter(|ip| !is_empty_value(Some(ip))).cloned();
    let first = status.get("podIPs").and_then(|ips| ips.get(0)).and_then(|ip| ip.get("ip")).cloned();
    match (single, first) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            status.insert("podIPs", json!([{"ip": single}]));
        }
        (None, Some(first)) => {
            status.insert("podIP", first);
        }
        _ => {}
    }
    for condition in items_mut(status, "conditions") {
        for field in ["lastProbeTime", "lastTransitionTime"] {
            condition.entry(field).or_insert(Value::Null);
        }
        time::normalize_seconds(condition, &["lastProbeTime", "lastTransitionTime"]);
    }
    for field in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for container in items_mut(status, field) {
            for state in ["state", "lastState"] {
                value_default(container, state, json!({}));
                if let Some(state) = object_mut(container, state) {
                    container_state(state);
                }
            }
            value_default(container, "ready", false);
            value_default(container, "restartCount", 0);
            for text in ["image", "imageID"] {
                value_default(container, text, "");
            }
        }
    }
}

fn container_state(state: &mut Map) {
    if let Some(running) = object_mut(state, "running") {
        running.entry("startedAt").or_insert(Value::Null);
    }
    if let Some(ended) = object_mut(state, "terminated") {
        ended.entry("exitCode").or_insert_with(|| 0.into());
        for field in ["startedAt", "finishedAt"] {
            ended.entry(field).or_insert(Value::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// `ParseImageName` in `pkg/util/parsers/parsers.go`, which `SetDefaults_Container` calls; what is no reference has
    /// no tag. The grammar is that of `github.com/distribution/reference`; compared with kube-apiserver 1.36.2.
    #[rstest]
    #[case("web", true)]
    #[case("web:latest", true)]
    #[case("web:1", false)]
    #[case("a.b:5000/web", true)]
    #[case("localhost/a__b-c.d", true)]
    #[case("[::1]:5000/web", true)]
    #[case("../x", false)]
    #[case("a.b:x/web", false)]
    #[case("-a.b/web", false)]
    #[case("a..b", false)]
    #[case("a___b", false)]
    #[case("a/Web", false)]
    fn images(#[case] image: &str, #[case] expected: bool) {
        assert_eq!(image_is_latest(image), expected);
    }
}
