//! Validation of containers: names, ports, environment, mounts, probes, handlers, resources, security.
//!
//! See `validateContainers`, `validateInitContainers` and `validateEphemeralContainers` in
//! `pkg/apis/core/validation/validation.go`.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_errors::{BadValue, ErrorList, FieldError, Path};
use crate::json::Value;
use crate::json::fields::{array_field, is_empty_value, non_null, str_field};
use crate::registry::checks::{self, repeated, validate_enum};
use crate::registry::core::internal_json;
use crate::registry::core::pod::volumes::ValidVolumes;
use crate::registry::core::pod::{env, paths, resources, windows};
use crate::registry::names;

/// Requires the image of a container to have no spaces around it.
pub(super) fn trimmed_image(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let image = str_field(container, "image");
    if image.trim() != image {
        errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
}

/// The pod-level data that the validation of containers needs.
pub(super) struct PodContext<'a> {
    pub(super) spec: &'a Value,
    pub(super) volumes: &'a ValidVolumes<'a>,
    pub(super) grace_period: Option<i64>,
}

fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

fn label(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    for message in names::dns1123_label(value) {
        errors.invalid(path, value, message);
    }
}

/// Validates `spec.containers`.
pub(super) fn validate_containers(around: &PodContext<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let containers = array_field(around.spec, "containers");
    if containers.is_empty() {
        errors.required(path, "");
        return;
    }
    let again = repeated(containers, |container| str_field(container, "name"));
    for (i, container) in containers.iter().enumerate() {
        let path = path.index(i);
        validate_common(container, around, &path, errors);
        let name = str_field(container, "name");
        if again[i] {
            errors.duplicate(&path.child("name"), name);
        }
        lifecycle_and_probes(container, around, &path, errors);
        restart_policy(container, &path, errors);
    }
    host_ports(containers, path, errors);
}

/// Validates `spec.initContainers`.
pub(super) fn validate_init_containers(around: &PodContext<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let containers = array_field(around.spec, "initContainers");
    let again = repeated(containers, |container| str_field(container, "name"));
    let others: BTreeSet<&str> =
        array_field(around.spec, "containers").iter().map(|one| str_field(one, "name")).collect();
    for (i, container) in containers.iter().enumerate() {
        let path_of_all = path;
        let path = path.index(i);
        validate_common(container, around, &path, errors);
        init_restart_policy(container, &path, errors);
        let name = str_field(container, "name");
        // Upstream does not note names that are missing.
        if (again[i] && !name.is_empty()) || others.contains(name) {
            errors.duplicate(&path.child("name"), name);
        }
        host_ports(std::slice::from_ref(container), path_of_all, errors);
        if str_field(container, "restartPolicy") == "Always" {
            lifecycle_and_probes(container, around, &path, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if non_null(container, field).is_some() {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(&path.child(field), why);
            }
        }
        let policies = path.child("resizePolicy");
        for (i, policy) in array_field(container, "resizePolicy").iter().enumerate() {
            if str_field(policy, "restartPolicy") == "RestartContainer" {
                let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.invalid(&policies.index(i).child("restartPolicy"), "RestartContainer", why);
            }
        }
    }
}

/// Fields that an ephemeral container must not have, in the order of upstream's type.
const FIELDS_NOT_ALLOWED_IN_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Validates `spec.ephemeralContainers`.
pub(super) fn validate_ephemeral_containers(around: &PodContext<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let list = array_field(around.spec, "ephemeralContainers");
    let lasting = array_field(around.spec, "containers").iter().chain(array_field(around.spec, "initContainers"));
    let lasting: BTreeSet<&str> = lasting.map(|one| str_field(one, "name")).collect();
    let again = repeated(list, |container| str_field(container, "name"));
    for (i, container) in list.iter().enumerate() {
        let path = path.index(i);
        validate_common(container, around, &path, errors);
        trimmed_image(container, &path, errors);
        let name = str_field(container, "name");
        if again[i] || lasting.contains(name) {
            errors.duplicate(&path.child("name"), name);
        }
        let target = str_field(container, "targetContainerName");
        if !target.is_empty() && !lasting.contains(target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        for field in FIELDS_NOT_ALLOWED_IN_EPHEMERAL {
            // Pointers and lists are set even if they lead to nothing.
            let can_be_empty = field == "resources";
            if non_null(container, field).is_some_and(|value| !(can_be_empty && is_empty_value(Some(value)))) {
                errors.forbidden(&path.child(field), WHY);
            }
        }
        let mounts = path.child("volumeMounts");
        for (j, mount) in array_field(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !str_field(mount, field).is_empty() {
                    errors.forbidden(&mounts.index(j).child(field), WHY);
                }
            }
        }
    }
}

/// Most restart rules of a container, and exit codes of a rule.
const MOST_RESTART_RULES: usize = 20;

const MOST_EXIT_CODES: usize = 255;

/// Validates the restart policy of an init container; rules without a policy are not looked into.
fn init_restart_policy(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if non_null(container, "restartPolicy").is_some() {
        return restart_policy(container, path, errors);
    }
    if !array_field(container, "restartPolicyRules").is_empty() {
        errors.required(&path.child("restartPolicy"), RULES_NEED_POLICY);
    }
}

const RULES_NEED_POLICY: &str = "must specify restartPolicy when restart rules are used";

fn restart_policy(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rules = array_field(container, "restartPolicyRules");
    match non_null(container, "restartPolicy").and_then(Value::as_str) {
        None if rules.is_empty() => {}
        None => {
            errors.required(&path.child("restartPolicy"), RULES_NEED_POLICY);
        }
        Some(policy) => {
            let allowed = ["Always", "Never", "OnFailure"];
            if !allowed.contains(&policy) {
                errors.not_supported(&path.child("restartPolicy"), policy, &allowed);
            }
        }
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > MOST_RESTART_RULES {
        errors.too_many(&path, rules.len(), MOST_RESTART_RULES);
    }
    for (i, rule) in rules.iter().enumerate() {
        restart_rule(rule, &path.index(i), errors);
    }
}

fn restart_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let action = str_field(rule, "action");
    let actions = ["Restart", "RestartAllContainers"];
    if !actions.contains(&action) {
        errors.not_supported(&path.child("action"), action, &actions);
    }
    let path = path.child("exitCodes");
    let Some(codes) = non_null(rule, "exitCodes") else { return errors.required(&path, "must be specified") };
    let operator = str_field(codes, "operator");
    let operators = ["In", "NotIn"];
    if !operators.contains(&operator) {
        errors.not_supported(&path.child("operator"), operator, &operators);
    }
    let values = array_field(codes, "values");
    if values.len() > MOST_EXIT_CODES {
        errors.too_many(&path.child("values"), values.len(), MOST_EXIT_CODES);
    }
}

fn validate_common(container: &Value, around: &PodContext<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let name = str_field(container, "name");
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        label(name, &path.child("name"), errors);
    }
    if str_field(container, "image").is_empty() {
        errors.required(&path.child("image"), "");
    }
    let policy = str_field(container, "terminationMessagePolicy");
    validate_enum(policy, &["File", "FallbackToLogsOnError"], &path.child("terminationMessagePolicy"), errors);
    ports(array_field(container, "ports"), &path.child("ports"), errors);
    env::variables(array_field(container, "env"), &path.child("env"), errors);
    env::sources(array_field(container, "envFrom"), &path.child("envFrom"), errors);
    mounts(container, around.volumes, path, errors);
    let policy = str_field(container, "imagePullPolicy");
    validate_enum(policy, &["Always", "IfNotPresent", "Never"], &path.child("imagePullPolicy"), errors);
    if let Some(resources) = non_null(container, "resources") {
        resources::requirements(resources, false, &path.child("resources"), errors);
        let claims = path.child("resources");
        validate_claims(array_field(resources, "claims"), around.spec, &claims.child("claims"), errors);
    }
    resize_policies(container, around.spec, &path.child("resizePolicy"), errors);
    if let Some(context) = non_null(container, "securityContext") {
        let path = path.child("securityContext");
        security_context(context, &path, errors);
        if context["procMount"] == "Unmasked" && around.spec.get("hostUsers") != Some(&Value::Bool(false)) {
            let why = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(&path.child("procMount"), "Unmasked", why);
        }
    }
}

/// Validates a container's resource claims: no duplicates, and all of them declared by the pod.
pub(super) fn validate_claims(claims: &[Value], spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut known: Vec<&str> =
        array_field(spec, "resourceClaims").iter().map(|claim| str_field(claim, "name")).collect();
    known.retain(|name| !name.is_empty());
    known.sort_unstable();
    known.dedup();
    // The requests that were claimed of each name; that of the whole claim is empty.
    let mut before: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        let (name, request) = (str_field(claim, "name"), str_field(claim, "request"));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let requests = before.entry(name).or_default();
        if !request.is_empty() && !requests.contains("") {
            label(request, &path.child("request"), errors);
        }
        if requests.contains("") {
            errors.duplicate(&path, name);
        } else if requests.contains(request) {
            errors.duplicate(&path, format!("{name}/{request}"));
        } else if request.is_empty() && !requests.is_empty() {
            errors.duplicate(&path, name);
        }
        requests.insert(request);
        if known.binary_search(&name).is_err() {
            errors.push_with(|| {
                let detail = match known.as_slice() {
                    [] => "must be one of the names in pod.spec.resourceClaims which is empty".to_owned(),
                    known => format!("must be one of the names in pod.spec.resourceClaims: {}", known.join(", ")),
                };
                FieldError { detail, ..FieldError::not_found(&path, name) }
            });
        }
    }
}

fn resize_policies(container: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let policies = array_field(container, "resizePolicy");
    let repeated = repeated(policies, |policy| str_field(policy, "resourceName"));
    for (i, policy) in policies.iter().enumerate() {
        let resource = str_field(policy, "resourceName");
        if repeated[i] {
            errors.duplicate(&path.index(i), resource);
        }
        validate_enum(resource, &["cpu", "memory"], path, errors);
        let restart = str_field(policy, "restartPolicy");
        validate_enum(restart, &["NotRequired", "RestartContainer"], path, errors);
        if str_field(spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

fn ports(ports: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let again = repeated(ports, |port| str_field(port, "name"));
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = str_field(port, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if messages.is_empty() && again[i] {
                errors.duplicate(&path.child("name"), name);
            }
            for message in messages {
                errors.invalid(&path.child("name"), name, message);
            }
        }
        let number_of = |field: &str| number(port, field);
        match number_of("containerPort") {
            0 => errors.required(&path.child("containerPort"), ""),
            port => {
                if let Some(message) = names::port_number(port) {
                    errors.invalid(&path.child("containerPort"), port, message);
                }
            }
        }
        let host = number_of("hostPort");
        if let Some(message) = names::port_number(host).filter(|_| host != 0) {
            errors.invalid(&path.child("hostPort"), host, message);
        }
        validate_enum(str_field(port, "protocol"), &["SCTP", "TCP", "UDP"], &path.child("protocol"), errors);
    }
}

/// Requires host ports to be unique.
fn host_ports(containers: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in array_field(container, "ports").iter().enumerate() {
            let host = number(port, "hostPort");
            if host == 0 {
                continue;
            }
            let key = format!("{}/{}/{host}", str_field(port, "protocol"), str_field(port, "hostIP"));
            if seen.contains(&key) {
                let (container, ports);
                container = path.index(i);
                ports = container.child("ports");
                errors.duplicate(&ports.index(j).child("hostPort"), key);
            } else {
                seen.insert(key);
            }
        }
    }
}

fn mounts(container: &Value, volumes: &ValidVolumes<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let mounts = array_field(container, "volumeMounts");
    let devices = array_field(container, "volumeDevices");
    let mounts_path = path.child("volumeMounts");
    let device_names = texts_of(devices, "name");
    let device_paths = texts_of(devices, "devicePath");
    let again = repeated(mounts, |mount| str_field(mount, "mountPath"));
    for (i, mount) in mounts.iter().enumerate() {
        let path = mounts_path.index(i);
        let name = str_field(mount, "name");
        let target = str_field(mount, "mountPath");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        if !volumes.has(name) {
            errors.not_found(&path.child("name"), name);
        }
        if target.is_empty() {
            errors.required(&path.child("mountPath"), "");
        }
        if again[i] {
            errors.invalid(&path.child("mountPath"), target, "must be unique");
        }
        if device_names.contains(name) {
            errors.invalid(&path.child("name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(target) {
            errors.invalid(&path.child("mountPath"), target, "must not already exist as a path in volumeDevices");
        }
        sub_path(mount, &path, &mounts_path, errors);
        propagation(mount, container, &mounts_path.child("mountPropagation"), errors);
        recursive_read_only(mount, &mounts_path.child("recursiveReadOnly"), errors);
    }
    validate_devices(devices, mounts, volumes, &path.child("volumeDevices"), errors);
}

/// Validates the block devices of a container: `ValidateVolumeDevices`.
fn validate_devices(
    devices: &[Value],
    mounts: &[Value],
    volumes: &ValidVolumes<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mount_names = texts_of(mounts, "name");
    let mount_paths = texts_of(mounts, "mountPath");
    let again = repeated(devices, |device| str_field(device, "name"));
    let path_again = repeated(devices, |device| str_field(device, "devicePath"));
    for (i, device) in devices.iter().enumerate() {
        let path = path.index(i);
        let name = str_field(device, "name");
        let target = str_field(device, "devicePath");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        if again[i] && !name.is_empty() {
            errors.invalid(&path.child("name"), name, "must be unique");
        }
        match volumes.source(name) {
            None => errors.not_found(&path.child("name"), name),
            Some(source)
                if non_null(source, "persistentVolumeClaim").is_none() && non_null(source, "ephemeral").is_none() =>
            {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&path.child("name"), name, why);
            }
            Some(_) => {}
        }
        if target.is_empty() {
            errors.required(&path.child("devicePath"), "");
        }
        let steps_back = target.split('/').any(|part| part == "..");
        if path_again[i] && !steps_back {
            errors.invalid(&path.child("devicePath"), target, "must be unique");
        }
        if steps_back {
            errors.invalid(&path.child("devicePath"), target, "can not contain backsteps ('..')");
        }
        if mount_names.contains(name) {
            errors.invalid(&path.child("name"), name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(target) {
            errors.invalid(&path.child("devicePath"), target, "must not already exist as a path in volumeMounts");
        }
    }
}

/// Returns the texts of a field of all items.
fn texts_of<'a>(list: &'a [Value], field: &str) -> BTreeSet<&'a str> {
    list.iter().map(|one| str_field(one, field)).collect()
}

fn propagation(mount: &Value, container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const KNOWN: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    let Some(wanted) = non_null(mount, "mountPropagation").and_then(Value::as_str) else { return };
    if !KNOWN.contains(&wanted) {
        errors.not_supported(path, wanted, &KNOWN);
    }
    let privileged = container.pointer("/securityContext/privileged") == Some(&Value::Bool(true));
    if wanted == "Bidirectional" && !privileged {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(mount: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const KNOWN: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];
    match non_null(mount, "recursiveReadOnly").and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.get("readOnly") != Some(&Value::Bool(true)) {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if !matches!(str_field(mount, "mountPropagation"), "" | "None") {
                errors.forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => errors.not_supported(path, other, &KNOWN),
    }
}

fn sub_path(mount: &Value, path: &Path<'_>, of_all: &Path<'_>, errors: &mut ErrorList) {
    let fixed = str_field(mount, "subPath");
    let expanded = str_field(mount, "subPathExpr");
    if !fixed.is_empty() {
        paths::descending_path(fixed, &of_all.child("subPath"), errors);
    }
    if !expanded.is_empty() {
        if !fixed.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&path.child("subPathExpr"), expanded, why);
        }
        paths::descending_path(expanded, &of_all.child("subPathExpr"), errors);
    }
}

fn lifecycle_and_probes(container: &Value, around: &PodContext<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(lifecycle) = non_null(container, "lifecycle") {
        let path = path.child("lifecycle");
        for field in ["postStart", "preStop"] {
            if let Some(handler) = non_null(lifecycle, field) {
                validate_handler(handler, around.grace_period, &path.child(field), errors);
            }
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = non_null(container, field) else { continue };
        let path = path.child(field);
        validate_handler(probe, around.grace_period, &path, errors);
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            checks::validate_non_negative(probe.get(field), &path.child(field), errors);
        }
        let grace = non_null(probe, "terminationGracePeriodSeconds").and_then(Value::as_i64);
        let grace_path = path.child("terminationGracePeriodSeconds");
        if let Some(grace) = grace.filter(|g| *g <= 0) {
            errors.invalid(&grace_path, grace, checks::POSITIVE_MESSAGE);
        }
        if field == "readinessProbe" {
            if let Some(grace) = grace {
                errors.invalid(&grace_path, grace, "must not be set for readinessProbes");
            }
        } else if number(probe, "successThreshold") != 1 {
            errors.invalid(&path.child("successThreshold"), number(probe, "successThreshold"), "must be 1");
        }
    }
}

fn validate_handler(handler: &Value, grace_period: Option<i64>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = non_null(handler, kind) else { continue };
        let path = path.child(kind);
        if found {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match kind {
            "exec" => {
                if array_field(action, "command").is_empty() {
                    errors.required(&path.child("command"), "");
                }
            }
            "httpGet" => http_get(action, &path, errors),
            "sleep" => {
                let seconds = number(action, "seconds");
                let grace = grace_period.unwrap_or(i64::MAX);
                if seconds < 0 || seconds > grace {
                    let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.invalid(&path, seconds, why);
                }
            }
            _ => port_number_or_name(action.get("port"), &path.child("port"), errors),
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

fn http_get(action: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    port_number_or_name(action.get("port"), &path.child("port"), errors);
    let scheme = str_field(action, "scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in array_field(action, "httpHeaders") {
        let name = str_field(header, "name");
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
            let message = names::regex_error(message, "[-A-Za-z0-9]+", &["X-Header-Name"]);
            errors.invalid(&path.child("httpHeaders"), name, message);
        }
    }
}

fn port_number_or_name(port: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(name) = port.and_then(Value::as_str) {
        for message in names::port_name(name) {
            errors.invalid(path, name, message);
        }
        return;
    }
    let number = port.and_then(Value::as_i64).unwrap_or(0);
    if let Some(message) = names::port_number(number) {
        errors.invalid(path, number, message);
    }
}

fn security_context(context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["runAsUser", "runAsGroup"] {
        id(context.get(field), &path.child(field), errors);
    }
    if let Some(mount) = non_null(context, "procMount").and_then(Value::as_str)
        && !matches!(mount, "Default" | "Unmasked")
    {
        errors.not_supported(&path.child("procMount"), mount, &["Default", "Unmasked"]);
    }
    profile(context, "seccompProfile", path, errors);
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let shown = || BadValue::Raw(internal_json::compact("SecurityContext", context));
        if context.get("privileged") == Some(&Value::Bool(true)) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, shown(), why);
        }
        let added = context.get("capabilities").map_or(&[][..], |c| array_field(c, "add"));
        if added.iter().any(|c| c == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, shown(), why);
        }
    }
    windows::options(context, path, errors);
    profile(context, "appArmorProfile", path, errors);
}

/// Validates a user or group id.
pub(super) fn id(value: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(id) = value.and_then(Value::as_i64) else { return };
    if !(0..=i64::from(i32::MAX)).contains(&id) {
        errors.invalid(path, id, names::inclusive_range_error(0, i64::from(i32::MAX)));
    }
}

/// Validates a seccomp or `AppArmor` profile.
pub(super) fn profile(context: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(profile) = non_null(context, field) else { return };
    let path = path.child(field);
    let kind = str_field(profile, "type");
    let file = non_null(profile, "localhostProfile");
    let what = if field == "appArmorProfile" { "AppArmor" } else { "seccomp" };
    match kind {
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        "" => errors.required(&path.child("type"), format!("type is required when {field} is set")),
        other => {
            errors.not_supported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
    }
    if what == "AppArmor" && !matches!(kind, "Localhost" | "RuntimeDefault" | "Unconfined") {
        return;
    }
    let file_path = path.child("localhostProfile");
    match file {
        file if kind == "Localhost" && (file.is_none() || (what == "AppArmor" && is_empty_value(file))) => {
            errors.required(&file_path, format!("must be set when {what} type is Localhost"));
        }
        Some(file) if kind == "Localhost" && what == "seccomp" => {
            paths::descending_path(file.as_str().unwrap_or_default(), &file_path, errors);
        }
        Some(file) if kind == "Localhost" => app_armor_file(file.as_str().unwrap_or_default(), &file_path, errors),
        Some(file) => {
            let why = format!("can only be set when {what} type is Localhost");
            let whole = format!("{{\"Type\":{},\"LocalhostProfile\":{file}}}", Value::from(kind));
            let shown = if what == "seccomp" { BadValue::Raw(whole) } else { BadValue::from(file) };
            errors.invalid(&file_path, shown, why);
        }
        None => {}
    }
}

/// Validates the name of an `AppArmor` profile on the node.
fn app_armor_file(file: &str, path: &Path<'_>, errors: &mut ErrorList) {
    /// Longest name in bytes: that of a path.
    const PROFILE_MAX: usize = 4095;
    if file.trim() != file {
        errors.invalid(path, file, "must not be padded with whitespace");
    }
    if file.len() > PROFILE_MAX {
        errors.too_long(path, PROFILE_MAX);
    }
}
