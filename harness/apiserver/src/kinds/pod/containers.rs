//! Validation of containers: names, ports, environment, mounts, probes, handlers, resources, security.
//!
//! See `validateContainers`, `validateInitContainers` and `validateEphemeralContainers` in
//! `pkg/apis/core/validation/validation.go`.

use super::volumes::Volumes;
use crate::field::{BadValue, Error, ErrorList, Path};
use crate::json::Value;
use crate::kinds::meta::given;
use crate::kinds::selector::array;
use crate::kinds::{meta, names};

/// The pod-level data that the validation of containers needs.
pub(super) struct Surroundings<'a> {
    pub(super) spec: &'a Value,
    pub(super) volumes: &'a Volumes<'a>,
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

/// Requires one of the `allowed` values, which are printed in this order.
pub(super) fn one_of(value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        errors.required(path, "");
    } else if !allowed.contains(&value) {
        errors.not_supported(path, value, allowed);
    }
}

/// Validates `spec.containers`.
pub(super) fn regular(around: &Surroundings<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let containers = array(around.spec, "containers");
    if containers.is_empty() {
        errors.required(path, "");
        return;
    }
    for (i, container) in containers.iter().enumerate() {
        let path = path.index(i);
        common(container, around, &path, errors);
        let name = meta::text(container, "name");
        if containers[..i].iter().any(|c| meta::text(c, "name") == name) {
            errors.duplicate(&path.child("name"), name);
        }
        lifecycle_and_probes(container, around, &path, errors);
        restart_policy(container, &path, errors);
    }
    host_ports(containers, path, errors);
}

/// Validates `spec.initContainers`.
pub(super) fn init(around: &Surroundings<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let containers = array(around.spec, "initContainers");
    for (i, container) in containers.iter().enumerate() {
        let path_of_all = path;
        let path = path.index(i);
        common(container, around, &path, errors);
        restart_policy(container, &path, errors);
        let name = meta::text(container, "name");
        let same = |c: &Value| meta::text(c, "name") == name;
        if array(around.spec, "containers").iter().any(same) || containers[..i].iter().any(same) {
            errors.duplicate(&path.child("name"), name);
        }
        host_ports(std::slice::from_ref(container), path_of_all, errors);
        if meta::text(container, "restartPolicy") == "Always" {
            lifecycle_and_probes(container, around, &path, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if given(container, field).is_some() {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(&path.child(field), why);
            }
        }
    }
}

/// Fields that an ephemeral container must not have, in the order of upstream's type.
const NOT_EPHEMERAL: [&str; 9] = [
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
pub(super) fn ephemeral(around: &Surroundings<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let list = array(around.spec, "ephemeralContainers");
    let lasting = || array(around.spec, "containers").iter().chain(array(around.spec, "initContainers"));
    for (i, container) in list.iter().enumerate() {
        let path = path.index(i);
        common(container, around, &path, errors);
        super::validation::trimmed_image(container, &path, errors);
        let name = meta::text(container, "name");
        if lasting().chain(&list[..i]).any(|other| meta::text(other, "name") == name) {
            errors.duplicate(&path.child("name"), name);
        }
        let target = meta::text(container, "targetContainerName");
        if !target.is_empty() && !lasting().any(|other| meta::text(other, "name") == target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        for field in NOT_EPHEMERAL {
            if !meta::is_empty(container.get(field)) {
                errors.forbidden(&path.child(field), WHY);
            }
        }
        let mounts = path.child("volumeMounts");
        for (j, mount) in array(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !meta::text(mount, field).is_empty() {
                    errors.forbidden(&mounts.index(j).child(field), WHY);
                }
            }
        }
    }
}

fn restart_policy(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rules = array(container, "restartPolicyRules");
    match given(container, "restartPolicy").and_then(Value::as_str) {
        None if rules.is_empty() => {}
        None => {
            let why = "must specify restartPolicy when restart rules are used";
            errors.required(&path.child("restartPolicy"), why);
        }
        Some(policy) => {
            let allowed = ["Always", "Never", "OnFailure"];
            if !allowed.contains(&policy) {
                errors.not_supported(&path.child("restartPolicy"), policy, &allowed);
            }
        }
    }
    if rules.len() > 20 {
        errors.too_many(&path.child("restartPolicyRules"), rules.len(), 20);
    }
}

fn common(container: &Value, around: &Surroundings<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let name = meta::text(container, "name");
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        label(name, &path.child("name"), errors);
    }
    if meta::text(container, "image").is_empty() {
        errors.required(&path.child("image"), "");
    }
    let policy = meta::text(container, "terminationMessagePolicy");
    one_of(policy, &["File", "FallbackToLogsOnError"], &path.child("terminationMessagePolicy"), errors);
    ports(array(container, "ports"), &path.child("ports"), errors);
    super::env::variables(array(container, "env"), &path.child("env"), errors);
    super::env::sources(array(container, "envFrom"), &path.child("envFrom"), errors);
    mounts(container, around.volumes, path, errors);
    let policy = meta::text(container, "imagePullPolicy");
    one_of(policy, &["Always", "IfNotPresent", "Never"], &path.child("imagePullPolicy"), errors);
    if let Some(resources) = given(container, "resources") {
        super::resources::requirements(resources, false, &path.child("resources"), errors);
        let claims = path.child("resources");
        claimed(array(resources, "claims"), around.spec, &claims.child("claims"), errors);
    }
    resize_policies(container, around.spec, &path.child("resizePolicy"), errors);
    if let Some(context) = given(container, "securityContext") {
        security_context(context, &path.child("securityContext"), errors);
    }
}

/// Validates a container's resource claims: no duplicates, and all of them declared by the pod.
fn claimed(claims: &[Value], spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut known: Vec<&str> = array(spec, "resourceClaims").iter().map(|claim| meta::text(claim, "name")).collect();
    known.sort_unstable();
    known.dedup();
    let key = |claim: &Value| (meta::text(claim, "name").to_owned(), meta::text(claim, "request").to_owned());
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        let (name, request) = key(claim);
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let before = || claims[..i].iter().map(key);
        if before().any(|(other, part)| other == name && part.is_empty()) {
            errors.duplicate(&path, name.as_str());
        } else if before().any(|(other, part)| other == name && part == request) {
            errors.duplicate(&path, format!("{name}/{request}"));
        } else if request.is_empty() && before().any(|(other, _)| other == name) {
            errors.duplicate(&path, name.as_str());
        }
        if !known.contains(&name.as_str()) {
            let mut error = Error::not_found(&path, name);
            error.detail = match known.as_slice() {
                [] => "must be one of the names in pod.spec.resourceClaims which is empty".to_owned(),
                known => format!("must be one of the names in pod.spec.resourceClaims: {}", known.join(", ")),
            };
            errors.push(error);
        }
    }
}

fn resize_policies(container: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let policies = array(container, "resizePolicy");
    for (i, policy) in policies.iter().enumerate() {
        let resource = meta::text(policy, "resourceName");
        if policies[..i].iter().any(|p| meta::text(p, "resourceName") == resource) {
            errors.duplicate(&path.index(i), resource);
        }
        one_of(resource, &["cpu", "memory"], path, errors);
        let restart = meta::text(policy, "restartPolicy");
        one_of(restart, &["NotRequired", "RestartContainer"], path, errors);
        if meta::text(spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

fn ports(ports: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = meta::text(port, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if messages.is_empty() && ports[..i].iter().any(|p| meta::text(p, "name") == name) {
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
        one_of(meta::text(port, "protocol"), &["SCTP", "TCP", "UDP"], &path.child("protocol"), errors);
    }
}

/// Requires host ports to be unique.
fn host_ports(containers: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen: Vec<String> = Vec::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in array(container, "ports").iter().enumerate() {
            let host = number(port, "hostPort");
            if host == 0 {
                continue;
            }
            let key = format!("{}/{}/{host}", meta::text(port, "protocol"), meta::text(port, "hostIP"));
            if seen.contains(&key) {
                let (container, ports);
                container = path.index(i);
                ports = container.child("ports");
                errors.duplicate(&ports.index(j).child("hostPort"), key);
            } else {
                seen.push(key);
            }
        }
    }
}

fn mounts(container: &Value, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (mounts, devices) = (array(container, "volumeMounts"), array(container, "volumeDevices"));
    let mounts_path = path.child("volumeMounts");
    for (i, mount) in mounts.iter().enumerate() {
        let path = mounts_path.index(i);
        let (name, target) = (meta::text(mount, "name"), meta::text(mount, "mountPath"));
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        if !volumes.has(name) {
            errors.not_found(&path.child("name"), name);
        }
        if target.is_empty() {
            errors.required(&path.child("mountPath"), "");
        }
        if mounts[..i].iter().any(|m| meta::text(m, "mountPath") == target) {
            errors.invalid(&path.child("mountPath"), target, "must be unique");
        }
        if devices.iter().any(|d| meta::text(d, "name") == name) {
            errors.invalid(&path.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|d| meta::text(d, "devicePath") == target) {
            errors.invalid(&path.child("mountPath"), target, "must not already exist as a path in volumeDevices");
        }
        sub_path(mount, &path, &mounts_path, errors);
        propagation(mount, container, &mounts_path.child("mountPropagation"), errors);
    }
    let devices_path = path.child("volumeDevices");
    for (i, device) in devices.iter().enumerate() {
        let path = devices_path.index(i);
        let (name, target) = (meta::text(device, "name"), meta::text(device, "devicePath"));
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        if devices[..i].iter().any(|d| meta::text(d, "name") == name) {
            errors.invalid(&path.child("name"), name, "must be unique");
        }
        match volumes.source(name) {
            None => errors.not_found(&path.child("name"), name),
            Some(source)
                if given(source, "persistentVolumeClaim").is_none() && given(source, "ephemeral").is_none() =>
            {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&path.child("name"), name, why);
            }
            Some(_) => {}
        }
        if target.is_empty() {
            errors.required(&path.child("devicePath"), "");
        }
        if mounts.iter().any(|mount| meta::text(mount, "name") == name) {
            errors.invalid(&path.child("name"), name, "must not already exist in volumeMounts");
        }
    }
}

fn propagation(mount: &Value, container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const KNOWN: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    let Some(wanted) = given(mount, "mountPropagation").and_then(Value::as_str) else { return };
    if !KNOWN.contains(&wanted) {
        errors.not_supported(path, wanted, &KNOWN);
    }
    let privileged = container.pointer("/securityContext/privileged") == Some(&Value::Bool(true));
    if wanted == "Bidirectional" && !privileged {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn sub_path(mount: &Value, path: &Path<'_>, of_all: &Path<'_>, errors: &mut ErrorList) {
    let (fixed, expanded) = (meta::text(mount, "subPath"), meta::text(mount, "subPathExpr"));
    if !fixed.is_empty() {
        super::volumes::descending_path(fixed, &of_all.child("subPath"), errors);
    }
    if !expanded.is_empty() {
        if !fixed.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&path.child("subPathExpr"), expanded, why);
        }
        super::volumes::descending_path(expanded, &of_all.child("subPathExpr"), errors);
    }
}

fn lifecycle_and_probes(container: &Value, around: &Surroundings<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(lifecycle) = given(container, "lifecycle") {
        let path = path.child("lifecycle");
        for field in ["postStart", "preStop"] {
            if let Some(handler) = given(lifecycle, field) {
                handler_of(handler, around.grace_period, &path.child(field), errors);
            }
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = given(container, field) else { continue };
        let path = path.child(field);
        handler_of(probe, around.grace_period, &path, errors);
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            meta::non_negative(probe.get(field), &path.child(field), errors);
        }
        let grace = given(probe, "terminationGracePeriodSeconds").and_then(Value::as_i64);
        let grace_path = path.child("terminationGracePeriodSeconds");
        if let Some(grace) = grace.filter(|g| *g <= 0) {
            errors.invalid(&grace_path, grace, meta::POSITIVE);
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

fn handler_of(handler: &Value, grace_period: Option<i64>, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = given(handler, kind) else { continue };
        let path = path.child(kind);
        if found {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match kind {
            "exec" => {
                if array(action, "command").is_empty() {
                    errors.required(&path.child("command"), "");
                }
            }
            "httpGet" => http_get(action, &path, errors),
            "sleep" => {
                let (seconds, grace) = (number(action, "seconds"), grace_period.unwrap_or(i64::MAX));
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
    let scheme = meta::text(action, "scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in array(action, "httpHeaders") {
        let name = meta::text(header, "name");
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
            let message = names::regex(message, "[-A-Za-z0-9]+", &["X-Header-Name"]);
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
    if context.get("privileged") == Some(&Value::Bool(true)) {
        // Upstream's `--allow-privileged` flag is off by default.
        errors.forbidden(&path.child("privileged"), "disallowed by cluster policy");
    }
    for field in ["runAsUser", "runAsGroup"] {
        id(context.get(field), &path.child(field), errors);
    }
    if let Some(mount) = given(context, "procMount").and_then(Value::as_str)
        && !matches!(mount, "Default" | "Unmasked")
    {
        errors.not_supported(&path.child("procMount"), mount, &["Default", "Unmasked"]);
    }
    profile(context, "seccompProfile", path, errors);
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let shown = || BadValue::Raw(super::dump::compact("SecurityContext", context));
        if context.get("privileged") == Some(&Value::Bool(true)) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, shown(), why);
        }
        let added = context.get("capabilities").map_or(&[][..], |c| array(c, "add"));
        if added.iter().any(|c| c == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, shown(), why);
        }
    }
    profile(context, "appArmorProfile", path, errors);
}

/// Validates a user or group id.
pub(super) fn id(value: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(id) = value.and_then(Value::as_i64) else { return };
    if !(0..=i64::from(i32::MAX)).contains(&id) {
        errors.invalid(path, id, names::inclusive_range(0, i64::from(i32::MAX)));
    }
}

/// Validates a seccomp or `AppArmor` profile.
pub(super) fn profile(context: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(profile) = given(context, field) else { return };
    let path = path.child(field);
    let kind = meta::text(profile, "type");
    let file = given(profile, "localhostProfile");
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
        file if kind == "Localhost" && (file.is_none() || (what == "AppArmor" && meta::is_empty(file))) => {
            errors.required(&file_path, format!("must be set when {what} type is Localhost"));
        }
        Some(file) if kind == "Localhost" && what == "seccomp" => {
            super::volumes::descending_path(file.as_str().unwrap_or_default(), &file_path, errors);
        }
        Some(file) if kind != "Localhost" => {
            let why = format!("can only be set when {what} type is Localhost");
            let whole = format!("{{\"Type\":{},\"LocalhostProfile\":{file}}}", Value::from(kind));
            let shown = if what == "seccomp" { BadValue::Raw(whole) } else { BadValue::from(file) };
            errors.invalid(&file_path, shown, why);
        }
        _ => {}
    }
}
