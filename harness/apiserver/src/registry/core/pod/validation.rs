//! Validation of pods and pod templates, in upstream's order.
//!
//! See `ValidatePodCreate`, `ValidatePodSpec`, `ValidatePodUpdate` and `ValidatePodStatusUpdate` in
//! `pkg/apis/core/validation/validation.go`.

use crate::field_errors::{BadValue, ErrorList, FieldError, Path};
use crate::json::fields::{array_field, non_null, spec_of, str_field};
use crate::json::{Map, Value, json};
use crate::metadata;
use crate::registry::addresses;
use crate::registry::core::internal_json;
use crate::registry::core::pod::containers::{self, PodContext, trimmed_image};
use crate::registry::core::pod::{annotations, env, os, resources, scheduling, status, volumes, windows};
use crate::registry::names::{self, NameFormat};
use crate::registry::prepare::{copy_member, spec_values_equal, specs_equal};
use crate::registry::resource_list::{amounts, container_resources};
use crate::registry::{checks, meta};

pub(super) const METADATA: Path<'static> = Path::new("metadata");

pub(super) const SPEC: Path<'static> = Path::new("spec");

const MAX_INT32: i64 = i32::MAX as i64;

/// Validates a new pod.
pub(super) fn create(pod: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    metadata_and_spec(pod, &mut errors);
    let spec = spec_of(pod);
    if !array_field(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(&SPEC.child("ephemeralContainers"), "cannot be set on create");
    }
    if !str_field(spec, "nodeName").is_empty() && !array_field(spec, "schedulingGates").is_empty() {
        errors.forbidden(&SPEC.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    annotations::match_fields(pod, &SPEC, &mut errors);
    errors
}

pub(super) fn metadata_and_spec(pod: &Value, errors: &mut ErrorList) {
    errors.append(meta::validate(pod, true, NameFormat::Subdomain, &METADATA));
    annotations::validate(pod, &METADATA.child("annotations"), errors);
    let spec = spec_of(pod);
    pod_spec(spec, Some(metadata::name(pod)), &SPEC, errors);
    if str_field(spec, "serviceAccountName").is_empty() {
        tokens_without_account(spec, errors);
    }
    for field in ["containers", "initContainers"] {
        let path = SPEC.child(field);
        for (i, container) in array_field(spec, field).iter().enumerate() {
            trimmed_image(container, &path.index(i), errors);
        }
    }
}

/// Rejects projected service account tokens if the pod has no service account.
fn tokens_without_account(spec: &Value, errors: &mut ErrorList) {
    let volumes = SPEC.child("volumes");
    for (i, volume) in array_field(spec, "volumes").iter().enumerate() {
        let (volume_path, projected, sources);
        volume_path = volumes.index(i);
        projected = volume_path.child("projected");
        sources = projected.child("sources");
        let all = volume.get("projected").map_or(&[][..], |p| array_field(p, "sources"));
        for (j, source) in all.iter().enumerate() {
            if non_null(source, "serviceAccountToken").is_some() {
                let why = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&sources.index(j).child("serviceAccountToken"), why);
            }
        }
    }
}

/// Validates a pod template.
pub(in crate::registry) fn template(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        meta::validate_labels(labels, &path.child("labels"), errors);
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        meta::validate_annotations(annotations, &path.child("annotations"), errors);
    }
    annotations::validate(template, &path.child("annotations"), errors);
    let spec = spec_of(template);
    let path = path.child("spec");
    pod_spec(spec, None, &path, errors);
    annotations::match_fields(template, &path, errors);
    if !array_field(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(&path.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// Requires the resources of a pod to suffice for those of its containers: `validatePodResourceConsistency`.
fn pod_level(spec: &Value, own: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["requests", "limits"] {
        let path = path.child(field);
        let given = amounts(own.get(field));
        for (name, sum) in container_resources(spec, field) {
            let counts = field == "requests" || name.starts_with("hugepages-");
            if let Some(given) = given.get(&name).filter(|given| counts && sum > **given) {
                let why = format!("must be greater than or equal to aggregate container {field} of {sum}");
                errors.invalid(&path.key(&name), given.to_string(), why);
            }
        }
    }
    let limits = amounts(own.get("limits"));
    let all = path.child("containers");
    for (index, container) in array_field(spec, "containers").iter().enumerate() {
        for (name, limit) in amounts(container.pointer("/resources/limits")) {
            if let Some(most) = limits.get(&name).filter(|most| limit > **most) {
                let path = all.index(index);
                let path = path.key(&name);
                let why = format!("must be less than or equal to pod limits of {most}");
                errors.invalid(&path.child("limits"), limit.to_string(), why);
            }
        }
    }
}

/// Validates a spec. `pod` is the name of the pod; `None` for a template.
fn pod_spec(spec: &Value, pod: Option<&str>, path: &Path<'_>, errors: &mut ErrorList) {
    let volumes = volumes::validate(spec, pod, &path.child("volumes"), errors);
    let grace_period = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    resource_claims(array_field(spec, "resourceClaims"), &path.child("resourceClaims"), errors);
    let around = PodContext { spec, volumes: &volumes, grace_period };
    containers::validate_containers(&around, &path.child("containers"), errors);
    containers::validate_init_containers(&around, &path.child("initContainers"), errors);
    containers::validate_ephemeral_containers(&around, &path.child("ephemeralContainers"), errors);
    if let Some(own) = non_null(spec, "resources") {
        let path = path.child("resources");
        if non_null(own, "claims").is_some() {
            errors.forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level");
        }
        resources::requirements(own, true, &path, errors);
        containers::validate_claims(array_field(own, "claims"), spec, &path.child("claims"), errors);
        pod_level(spec, own, &path, errors);
    }
    host_network(spec, pod.is_some(), path, errors);
    let policies = ["Always", "OnFailure", "Never"];
    checks::validate_enum(str_field(spec, "restartPolicy"), &policies, &path.child("restartPolicy"), errors);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    checks::validate_enum(str_field(spec, "dnsPolicy"), &policies, &path.child("dnsPolicy"), errors);
    if let Some(labels) = spec.get("nodeSelector").and_then(Value::as_object) {
        meta::validate_labels(labels, &path.child("nodeSelector"), errors);
    }
    security_context(spec, &path.child("securityContext"), errors);
    windows::host_processes(spec, path, errors);
    host_users(spec, path, errors);
    hostname_override(spec, path, errors);
    if let Some(affinity) = non_null(spec, "affinity") {
        scheduling::affinity(affinity, &path.child("affinity"), errors);
    }
    dns_config(spec, &path.child("dnsConfig"), errors);
    let gates = path.child("readinessGates");
    for (i, gate) in array_field(spec, "readinessGates").iter().enumerate() {
        validate_qualified_name(str_field(gate, "conditionType"), &gates.index(i).child("conditionType"), errors);
    }
    scheduling::validate_scheduling_gates(array_field(spec, "schedulingGates"), &path.child("schedulingGates"), errors);
    let constraints = array_field(spec, "topologySpreadConstraints");
    scheduling::validate_topology_spread_constraints(constraints, &path.child("topologySpreadConstraints"), errors);
    names_in_spec(spec, path, errors);
    env::volumes_of_files(spec, path, errors);
}

fn hostname_override(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    /// Longest host name in bytes.
    const LONGEST: usize = 64;
    let Some(name) = non_null(spec, "hostnameOverride").and_then(Value::as_str) else { return };
    let path = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.get(field) == Some(&Value::Bool(true)) {
            errors.forbidden(&path, format!("may not be specified when {field} is true"));
        }
    }
    if name.len() > LONGEST {
        errors.too_long(&path, LONGEST);
    }
    push_messages(name, names::dns1123_subdomain(name), &path, errors);
}

fn validate_qualified_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    for message in names::qualified_name(name) {
        errors.invalid(path, name, message);
    }
}

fn push_messages(value: &str, messages: Vec<String>, path: &Path<'_>, errors: &mut ErrorList) {
    for message in messages {
        errors.invalid(path, value, message);
    }
}

/// Validates the names and numbers at the end of a spec.
fn names_in_spec(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["serviceAccountName", "nodeName"] {
        let name = str_field(spec, field);
        if !name.is_empty() {
            push_messages(name, names::dns1123_subdomain(name), &path.child(field), errors);
        }
    }
    if let Some(seconds) = non_null(spec, "activeDeadlineSeconds").and_then(Value::as_i64)
        && !(1..=MAX_INT32).contains(&seconds)
    {
        let why = names::inclusive_range_error(1, MAX_INT32);
        errors.invalid(&path.child("activeDeadlineSeconds"), seconds, why);
    }
    for field in ["hostname", "subdomain"] {
        let name = str_field(spec, field);
        if !name.is_empty() {
            push_messages(name, names::dns1123_label(name), &path.child(field), errors);
        }
    }
    scheduling::tolerations(array_field(spec, "tolerations"), &path.child("tolerations"), errors);
    let aliases = path.child("hostAliases");
    for (i, alias) in array_field(spec, "hostAliases").iter().enumerate() {
        let path = aliases.index(i);
        addresses::legacy_ip(str_field(alias, "ip"), &path.child("ip"), errors);
        let names_path = path.child("hostnames");
        for (j, name) in array_field(alias, "hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            push_messages(name, names::dns1123_subdomain(name), &names_path.index(j), errors);
        }
    }
    let class = Some(str_field(spec, "priorityClassName")).filter(|class| !class.is_empty());
    let runtime = non_null(spec, "runtimeClassName").and_then(Value::as_str);
    for (field, name) in [("priorityClassName", class), ("runtimeClassName", runtime)] {
        if let Some(name) = name {
            push_messages(name, names::dns1123_subdomain(name), &path.child(field), errors);
        }
    }
    if let Some(policy) = non_null(spec, "preemptionPolicy").and_then(Value::as_str) {
        let allowed = ["PreemptLowerPriority", "Never"];
        checks::validate_enum(policy, &allowed, &path.child("preemptionPolicy"), errors);
    }
    if let Some(overhead) = non_null(spec, "overhead") {
        resources::requirements(&json!({"limits": overhead}), false, &path.child("overhead"), errors);
    }
    if let Some(os) = non_null(spec, "os") {
        let name = str_field(os, "name");
        let path_of_system = path.child("os");
        if name.is_empty() {
            errors.required(&path_of_system.child("name"), "");
        } else {
            checks::validate_enum(name, &["linux", "windows"], &path_of_system, errors);
        }
        os::validate(spec, name, path, errors);
    }
}

/// Validates the resource claims of a pod: unique names, and one source each.
fn resource_claims(claims: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let again = checks::repeated(claims, |claim| str_field(claim, "name"));
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        let name = str_field(claim, "name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if again[i] {
            errors.duplicate(&path.child("name"), name);
        } else {
            push_messages(name, names::dns1123_label(name), &path.child("name"), errors);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let shown = || {
            let of = |field: &str| non_null(claim, field).map_or("null".to_owned(), Value::to_string);
            let name = Value::from(name);
            let own = of(sources[0]);
            let template = of(sources[1]);
            BadValue::Raw(format!(
                "{{\"Name\":{name},\"ResourceClaimName\":{own},\"ResourceClaimTemplateName\":{template}}}"
            ))
        };
        match sources.iter().filter(|field| non_null(claim, field).is_some()).count() {
            0 => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid(&path, shown(), why);
            }
            2 => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(&path, shown(), why);
            }
            _ => {}
        }
        for field in sources {
            if let Some(name) = non_null(claim, field).and_then(Value::as_str) {
                push_messages(name, names::dns1123_subdomain(name), &path.child(field), errors);
            }
        }
    }
}

fn host_network(spec: &Value, is_pod: bool, path: &Path<'_>, errors: &mut ErrorList) {
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    let all = path.child("containers");
    for (i, container) in array_field(spec, "containers").iter().enumerate() {
        let (container_path, ports);
        container_path = all.index(i);
        ports = container_path.child("ports");
        for (j, port) in array_field(container, "ports").iter().enumerate() {
            let of = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or(0);
            let host = of("hostPort");
            let own = of("containerPort");
            if (is_pod || host != 0) && host != own {
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&ports.index(j).child("hostPort"), host, why);
            }
        }
    }
}

/// Validates a pod with its own user namespace, which may not share the host's other namespaces.
fn host_users(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const WHY: &str = "when `hostUsers` is false";
    if spec.get("hostUsers") != Some(&Value::Bool(false)) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.get(field) == Some(&Value::Bool(true)) {
            errors.forbidden(&path.child(shown), WHY);
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let path = path.child(list);
        for (i, container) in array_field(spec, list).iter().enumerate() {
            if !array_field(container, "volumeDevices").is_empty() {
                errors.forbidden(&path.index(i).child("volumeDevices"), WHY);
            }
        }
    }
}

fn security_context(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(context) = non_null(spec, "securityContext") else { return };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        containers::id(context.get(field), &path.child(field), errors);
    }
    let groups = path.child("supplementalGroups");
    for (i, group) in array_field(context, "supplementalGroups").iter().enumerate() {
        containers::id(Some(group), &groups.index(i), errors);
    }
    if spec.get("shareProcessNamespace") == Some(&Value::Bool(true)) && spec.get("hostPID") == Some(&Value::Bool(true))
    {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, why);
    }
    sysctls(spec, context, &path.child("sysctls"), errors);
    if let Some(policy) = non_null(context, "fsGroupChangePolicy").and_then(Value::as_str)
        && !matches!(policy, "Always" | "OnRootMismatch")
    {
        errors.not_supported(&path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    }
    containers::profile(context, "seccompProfile", path, errors);
    windows::options(context, path, errors);
    containers::profile(context, "appArmorProfile", path, errors);
    if let Some(policy) = non_null(context, "supplementalGroupsPolicy").and_then(Value::as_str)
        && !matches!(policy, "Merge" | "Strict")
    {
        errors.not_supported(&path.child("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    }
    if let Some(policy) = non_null(context, "seLinuxChangePolicy").and_then(Value::as_str)
        && policy != "Recursive"
    {
        errors.not_supported(&path.child("seLinuxChangePolicy"), policy, &["Recursive"]);
    }
}

fn sysctls(spec: &Value, context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let all = array_field(context, "sysctls");
    let again = checks::repeated(all, |sysctl| str_field(sysctl, "name"));
    for (i, sysctl) in all.iter().enumerate() {
        let name = str_field(sysctl, "name");
        let path = path.index(i);
        let path = path.child("name");
        if name.is_empty() {
            errors.required(&path, "");
        } else if !is_sysctl(name) {
            let pattern = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&path, name, format!("must have at most 253 characters and match regex {pattern}"));
        } else if again[i] {
            errors.duplicate(&path, name);
        }
        let shared = sysctl_namespace(name).filter(|field| spec.get(*field) == Some(&Value::Bool(true)));
        if let Some(field) = shared {
            errors.invalid(&path, name, format!("may not be specified when '{field}' is true"));
        }
    }
}

/// Returns the field with which a pod shares the namespace of a kernel parameter with its node: `GetNamespace` in
/// `staging/src/k8s.io/component-helpers/node/util/sysctl/namespace.go`.
fn sysctl_namespace(name: &str) -> Option<&'static str> {
    // With a slash before the first dot, slashes and dots change places.
    let swap = |c: char| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let with_slashes = name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/'));
    let dotted: String = if with_slashes { name.chars().map(swap).collect() } else { name.to_owned() };
    let within = |prefix: &str| dotted.starts_with(prefix);
    if dotted == "kernel.sem" || within("kernel.shm") || within("kernel.msg") || within("fs.mqueue.") {
        Some("hostIPC")
    } else {
        within("net.").then_some("hostNetwork")
    }
}

fn is_sysctl(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let ends = bytes.first().zip(bytes.last()).is_some_and(|(first, last)| plain(*first) && plain(*last));
        ends && bytes.iter().all(|&byte| plain(byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}

fn dns_config(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let config = non_null(spec, "dnsConfig");
    if str_field(spec, "dnsPolicy") == "None" {
        let Some(config) = config else {
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        };
        if array_field(config, "nameservers").is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&path.child("nameservers"), why);
            return;
        }
    }
    let Some(config) = config else { return };
    let servers = array_field(config, "nameservers");
    let path_of = path.child("nameservers");
    if servers.len() > 3 {
        let shown = BadValue::Raw(Value::Array(servers.to_vec()).to_string());
        errors.invalid(&path_of, shown, "must not have more than 3 nameservers");
    }
    for (i, server) in servers.iter().enumerate() {
        addresses::legacy_ip(server.as_str().unwrap_or_default(), &path_of.index(i), errors);
    }
    let searches = array_field(config, "searches");
    let path_of = path.child("searches");
    let shown = || BadValue::Raw(Value::Array(searches.to_vec()).to_string());
    if searches.len() > 32 {
        errors.invalid(&path_of, shown(), "must not have more than 32 search paths");
    }
    let length: usize = searches.iter().filter_map(Value::as_str).map(|search| search.len() + 1).sum();
    if length.saturating_sub(1) > 2048 {
        let why = "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(&path_of, shown(), why);
    }
    for (i, search) in searches.iter().filter_map(Value::as_str).enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            push_messages(search, names::dns1123_subdomain_with_underscore(search), &path_of.index(i), errors);
        }
    }
    let path_of = path.child("options");
    for (i, option) in array_field(config, "options").iter().enumerate() {
        if str_field(option, "name").is_empty() {
            errors.required(&path_of.index(i), "must not be empty");
        }
    }
}

/// The mutable fields of a pod, as upstream's message lists them.
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates an update of a pod.
pub(super) fn update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = meta::validate_update(new, old, &METADATA);
    metadata_and_spec(new, &mut errors);
    annotations::validate_update(new, old, &mut errors);
    let now = spec_of(new);
    let before = spec_of(old);
    for field in ["containers", "initContainers"] {
        let path = SPEC.child(field);
        let now = array_field(now, field);
        let before = array_field(before, field);
        if now.len() != before.len() {
            errors.forbidden(&path, "pod updates may not add or remove containers");
            return errors;
        }
        for (i, container) in now.iter().enumerate() {
            let path = path.index(i);
            if str_field(container, "image").is_empty() {
                errors.required(&path.child("image"), "");
            }
            trimmed_image(container, &path, &mut errors);
        }
    }
    if !validate_deadline_update(now, before, &mut errors) {
        return errors;
    }
    let path = SPEC.child("tolerations");
    scheduling::validate_only_added_tolerations(
        array_field(now, "tolerations"),
        array_field(before, "tolerations"),
        &path,
        &mut errors,
    );
    let path = SPEC.child("schedulingGates");
    scheduling::validate_only_deleted_scheduling_gates(
        array_field(now, "schedulingGates"),
        array_field(before, "schedulingGates"),
        &path,
        &mut errors,
    );
    if specs_equal(new, old) {
        return errors;
    }
    if !array_field(before, "schedulingGates").is_empty() {
        scheduling::validate_gated_pod_update(now, before, &SPEC, &mut errors);
    }
    let munged = with_old_mutable_fields(now, before);
    if !spec_values_equal(new, &munged, before) {
        let difference = internal_json::difference(before, &munged);
        errors.forbidden(&SPEC, format!("pod updates may not change fields other than {UPDATABLE}\n{difference}"));
    }
    errors
}

/// Returns false if upstream skips the remaining checks.
fn validate_deadline_update(now: &Value, before: &Value, errors: &mut ErrorList) -> bool {
    let path = SPEC.child("activeDeadlineSeconds");
    let of = |spec: &Value| non_null(spec, "activeDeadlineSeconds").and_then(Value::as_i64);
    match (of(now), of(before)) {
        (Some(now), _) if !(0..=MAX_INT32).contains(&now) => {
            errors.invalid(&path, now, names::inclusive_range_error(0, MAX_INT32));
            return false;
        }
        (Some(now), Some(before)) if before < now => {
            errors.invalid(&path, now, "must be less than or equal to previous value");
            return false;
        }
        (None, Some(_)) => {
            let shown = BadValue::Raw("null".to_owned());
            errors.invalid(&path, shown, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    true
}

/// Returns the new spec with the old values of all mutable fields.
fn with_old_mutable_fields(now: &Value, before: &Value) -> Value {
    let mut munged = now.clone();
    let Some(map) = munged.as_object_mut() else { return munged };
    for field in ["containers", "initContainers"] {
        let old = array_field(before, field);
        let containers = map.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, old) in containers.zip(old) {
            container["image"] = str_field(old, "image").into();
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        copy_member(map, before, field);
    }
    let grace = |spec: &Value| spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace(before).is_some_and(|g| g < 0) && grace(now) == Some(1) {
        copy_member(map, before, "terminationGracePeriodSeconds");
    }
    if !array_field(before, "schedulingGates").is_empty() {
        // A gated pod may restrict the eligible nodes; `only_narrower` checks that.
        copy_member(map, before, "nodeSelector");
        put_back_node_affinity(map, before);
    }
    munged
}

/// Restores the node affinity and keeps the new pod affinity and anti-affinity.
fn put_back_node_affinity(map: &mut Map, before: &Value) {
    let old = non_null(before, "affinity");
    let wanted = old.and_then(|old| non_null(old, "nodeAffinity"));
    if map.get("affinity").and_then(|affinity| non_null(affinity, "nodeAffinity")) == wanted {
        return;
    }
    let Some(affinity) = map.get_mut("affinity").and_then(Value::as_object_mut) else {
        if let Some(wanted) = wanted {
            map.insert("affinity", json!({ "nodeAffinity": wanted }));
        }
        return;
    };
    match old {
        Some(old) => copy_member(affinity, old, "nodeAffinity"),
        None if ["podAffinity", "podAntiAffinity"]
            .iter()
            .any(|field| !affinity.get(*field).is_none_or(Value::is_null)) =>
        {
            affinity.remove("nodeAffinity");
        }
        None => {
            map.remove("affinity");
        }
    }
}

/// Validates a status update of a pod.
pub(super) fn status_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = meta::validate_update(new, old, &METADATA);
    annotations::validate_update(new, old, &mut errors);
    let empty = Value::Null;
    let now = new.get("status").unwrap_or(&empty);
    let before = old.get("status").unwrap_or(&empty);
    let path = Path::new("status");
    conditions(now, &path.child("conditions"), &mut errors);
    nominated_node(now, before, spec_of(old), &path, &mut errors);
    if let Some(generation) = now.get("observedGeneration").and_then(Value::as_i64).filter(|g| *g < 0) {
        errors.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
    }
    checks::validate_immutable(now.get("qosClass"), before.get("qosClass"), &path.child("qosClass"), &mut errors);
    for field in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        let statuses = (array_field(now, field), array_field(before, field));
        state_transitions(field, statuses, spec_of(old), &path.child(field), &mut errors);
    }
    status::claims(now, spec_of(new), &path, &mut errors);
    let ips = path.child("podIPs");
    for (i, address) in array_field(now, "podIPs").iter().enumerate() {
        addresses::legacy_ip(str_field(address, "ip"), &ips.index(i), &mut errors);
    }
    validate_one_ip_per_family(array_field(now, "podIPs"), &ips, &mut errors);
    let hosts = array_field(now, "hostIPs");
    let root = path;
    let path = root.child("hostIPs");
    if let Some(first) = hosts.first().map(|h| str_field(h, "ip")).filter(|ip| *ip != str_field(now, "hostIP")) {
        errors.invalid(&path.index(0).child("ip"), first, "must be equal to `hostIP`");
    }
    for (i, address) in hosts.iter().enumerate() {
        addresses::legacy_ip(str_field(address, "ip"), &path.index(i), &mut errors);
    }
    validate_one_ip_per_family(hosts, &path, &mut errors);
    status::users_and_devices(now, spec_of(new), &root, &mut errors);
    errors
}

/// Requires at most one address per IP family.
fn validate_one_ip_per_family(addresses: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    if addresses.len() < 2 {
        return;
    }
    let mut sixes = 0;
    let mut bad = None;
    for (i, address) in addresses.iter().enumerate() {
        match str_field(address, "ip").parse::<std::net::IpAddr>() {
            Ok(ip) => sixes += usize::from(ip.is_ipv6()),
            Err(_) => bad = bad.or(Some((i, str_field(address, "ip")))),
        }
    }
    if let Some((i, text)) = bad {
        let why = format!("failed to check for dual stack with error:invalid IP[{i}]: {text}");
        errors.push(FieldError::internal(path, why));
    }
    let both = bad.is_none() && sixes > 0 && sixes < addresses.len();
    if !both || addresses.len() > 2 {
        let shown: Vec<String> =
            addresses.iter().map(|a| format!("{{\"IP\":{}}}", Value::from(str_field(a, "ip")))).collect();
        let shown = BadValue::Raw(format!("[{}]", shown.join(",")));
        errors.invalid(path, shown, "may specify no more than one IP for each IP family");
    }
}

fn conditions(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (i, condition) in array_field(status, "conditions").iter().enumerate() {
        let path = path.index(i);
        if let Some(generation) = condition.get("observedGeneration").and_then(Value::as_i64).filter(|g| *g < 0) {
            errors.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
        }
        let kind = str_field(condition, "type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            validate_qualified_name(kind, &path.child("Type"), errors);
        }
    }
}

fn nominated_node(now: &Value, before: &Value, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let nominated = str_field(now, "nominatedNodeName");
    if nominated.is_empty() || nominated == str_field(before, "nominatedNodeName") {
        return;
    }
    push_messages(nominated, names::dns1123_subdomain(nominated), &path.child("nominatedNodeName"), errors);
    if !str_field(spec, "nodeName").is_empty() {
        let why = "may not be set on pods that are already bound to a node";
        errors.forbidden(&path.child("nominatedNodeName"), why);
    }
}

/// Rejects transitions out of the terminated state for containers that are not restarted.
fn state_transitions(
    field: &str,
    (now, before): (&[Value], &[Value]),
    spec: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let policy = str_field(spec, "restartPolicy");
    for (i, old) in before.iter().enumerate() {
        let Some(ended) = old.pointer("/state/terminated").filter(|t| !t.is_null()) else { continue };
        let name = str_field(old, "name");
        let failed = ended.get("exitCode").and_then(Value::as_i64).unwrap_or(0) != 0;
        let own = match field {
            "containerStatuses" => container_policy(array_field(spec, "containers"), name),
            "initContainerStatuses" => container_policy(array_field(spec, "initContainers"), name),
            _ => Some("Never"),
        };
        let restarts = match own.unwrap_or(policy) {
            "Always" => true,
            "OnFailure" => failed,
            _ => false,
        };
        let runs = |n: &&Value| {
            str_field(n, "name") == name && non_null(n.get("state").unwrap_or(&Value::Null), "terminated").is_none()
        };
        if !restarts && now.iter().any(|n| runs(&n)) {
            errors.forbidden(&path.index(i).child("state"), "may not be transitioned to non-terminated state");
        }
    }
}

fn container_policy<'a>(containers: &'a [Value], name: &str) -> Option<&'a str> {
    let container = containers.iter().find(|c| str_field(c, "name") == name)?;
    non_null(container, "restartPolicy").and_then(Value::as_str)
}
