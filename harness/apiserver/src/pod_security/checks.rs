//! The checks of the Pod Security Standards: what each level forbids, by version. PURE.
//!
//! Follows `staging/src/k8s.io/pod-security-admission/policy/check_*.go` of Kubernetes 1.36.

use std::collections::BTreeSet;

use super::Level;
use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::metadata;

/// The finding of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

/// A pod or the template of one, and the version of the standards that is asked about.
#[derive(Clone, Copy)]
pub(super) struct CheckedPod<'a> {
    /// The object with the pod's metadata.
    pub(super) pod: &'a Value,
    /// The pod's spec.
    pub(super) spec: &'a Value,
    /// The minor version.
    pub(super) version: u32,
}

/// A check.
pub(super) struct Check {
    id: &'static str,
    level: Level,
    /// The first version that has it.
    since: u32,
    /// The check of the lower level that it replaces.
    replaces: &'static str,
    find: fn(CheckedPod<'_>) -> Option<Violation>,
}

const fn baseline(id: &'static str, since: u32, find: fn(CheckedPod<'_>) -> Option<Violation>) -> Check {
    Check { id, level: Level::Baseline, since, replaces: "", find }
}

const fn restricted(
    id: &'static str,
    since: u32,
    replaces: &'static str,
    find: fn(CheckedPod<'_>) -> Option<Violation>,
) -> Check {
    Check { id, level: Level::Restricted, since, replaces, find }
}

/// All checks in the order of messages.
const CHECKS: [Check; 19] = [
    baseline("appArmorProfile", 0, app_armor),
    baseline("capabilities_baseline", 0, capabilities),
    baseline("hostNamespaces", 0, host_namespaces),
    baseline("hostPathVolumes", 0, host_paths),
    baseline("hostPorts", 0, host_ports),
    baseline("hostProbesAndHostLifecycle", 34, probe_hosts),
    baseline("privileged", 0, privileged),
    baseline("procMount", 0, proc_mount_baseline),
    baseline("seLinuxOptions", 0, se_linux),
    baseline("seccompProfile_baseline", 0, seccomp),
    baseline("sysctls", 0, sysctls),
    baseline("windowsHostProcess", 0, host_processes),
    restricted("allowPrivilegeEscalation", 8, "", privilege_escalation),
    restricted("capabilities_restricted", 22, "capabilities_baseline", capabilities_restricted),
    restricted("procMount_restricted", 35, "procMount", proc_mount),
    restricted("restrictedVolumes", 0, "hostPathVolumes", volume_types),
    restricted("runAsNonRoot", 0, "", non_root),
    restricted("runAsUser", 23, "", root_user),
    restricted("seccompProfile_restricted", 19, "seccompProfile_baseline", seccomp_restricted),
];

/// Returns what a level forbids in a pod.
pub(super) fn violations(level: Level, checked: CheckedPod<'_>) -> Vec<Violation> {
    let applies = |check: &&Check| check.level <= level && check.since <= checked.version;
    let replaced: Vec<&str> = CHECKS.iter().filter(applies).map(|check| check.replaces).collect();
    let wanted = CHECKS.iter().filter(applies).filter(|check| !replaced.contains(&check.id));
    wanted.filter_map(|check| (check.find)(checked)).collect()
}

impl<'a> CheckedPod<'a> {
    fn containers(self) -> impl Iterator<Item = &'a Value> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(move |list| array_field(self.spec, list))
    }

    /// Returns the names of the containers that fit.
    fn bad(self, is_bad: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(is_bad).map(|container| str_field(container, "name")).collect()
    }

    fn is_for_windows(self) -> bool {
        self.version >= 25 && self.spec["os"]["name"] == "windows"
    }

    /// Returns true if the users of the containers are not those of the host.
    fn has_own_users(self) -> bool {
        self.version >= 35 && self.spec["hostUsers"] == false
    }
}

fn plural<'t>(one: &'t str, many: &'t str, count: usize) -> &'t str {
    if count == 1 { one } else { many }
}

fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

fn of_containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Returns who sets something: the pod, containers.
fn setters(pod: bool, containers: &[&str]) -> String {
    let of_pod = pod.then(|| "pod".to_owned());
    let of_containers = (!containers.is_empty()).then(|| of_containers(containers));
    of_pod.into_iter().chain(of_containers).collect::<Vec<_>>().join(" and ")
}

const fn found(reason: &'static str, detail: String) -> Violation {
    Violation { reason, detail }
}

/// Returns a violation if containers are named.
fn if_any(containers: &[&str], reason: &'static str, rest: &str) -> Option<Violation> {
    if containers.is_empty() { None } else { Some(found(reason, format!("{} {rest}", of_containers(containers)))) }
}

fn context(object: &Value) -> &Value {
    &object["securityContext"]
}

fn texts<'v>(list: &'v Value, field: &str) -> impl Iterator<Item = &'v str> {
    array_field(list, field).iter().filter_map(Value::as_str)
}

fn app_armor(checked: CheckedPod<'_>) -> Option<Violation> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let bad_type = |object: &Value| {
        let profile = context(object).get("appArmorProfile").filter(|profile| profile.is_object())?;
        let kind = str_field(profile, "type");
        (!matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_owned())
    };
    let of_pod = bad_type(checked.spec);
    let containers = checked.bad(|container| bad_type(container).is_some());
    let values: BTreeSet<String> =
        of_pod.clone().into_iter().chain(checked.containers().filter_map(bad_type)).collect();
    let annotations = checked.pod["metadata"]["annotations"].as_object();
    let forbidden: Vec<String> = annotations
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with(PREFIX))
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(_, value)| !value.is_empty() && *value != "runtime/default" && !value.starts_with("localhost/"))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let mut who = setters(of_pod.is_some(), &containers);
    if !forbidden.is_empty() {
        let annotations = plural("annotation", "annotations", forbidden.len());
        who = if who.is_empty() { annotations.to_owned() } else { format!("{who} and {annotations}") };
    }
    if who.is_empty() {
        return None;
    }
    let all: Vec<String> = values.into_iter().chain(forbidden).collect();
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", all.len());
    Some(found(reason, format!("{who} must not set AppArmor profile type to {}", quoted(&all))))
}

fn capabilities(checked: CheckedPod<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let mut added = BTreeSet::new();
    let bad = checked.bad(|container| {
        let own: Vec<&str> =
            texts(&context(container)["capabilities"], "add").filter(|name| !ALLOWED.contains(name)).collect();
        added.extend(own.iter().copied());
        !own.is_empty()
    });
    let rest = format!("must not include {} in securityContext.capabilities.add", quoted(&added));
    if_any(&bad, "non-default capabilities", &rest)
}

fn capabilities_restricted(checked: CheckedPod<'_>) -> Option<Violation> {
    if checked.is_for_windows() {
        return None;
    }
    let own = |container: &Value| context(container)["capabilities"].clone();
    let missing = checked.bad(|container| !texts(&own(container), "drop").any(|name| name == "ALL"));
    let is_forbidden = |name: &&str| *name != "NET_BIND_SERVICE";
    let adding = checked.bad(|container| texts(&own(container), "add").any(|name| is_forbidden(&name)));
    let mut details = Vec::new();
    if !missing.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", of_containers(&missing)));
    }
    if !adding.is_empty() {
        let added: BTreeSet<&str> = checked
            .containers()
            .flat_map(|container| texts(&context(container)["capabilities"], "add"))
            .filter(is_forbidden)
            .collect();
        let who = of_containers(&adding);
        details.push(format!("{who} must not include {} in securityContext.capabilities.add", quoted(&added)));
    }
    if details.is_empty() { None } else { Some(found("unrestricted capabilities", details.join("; "))) }
}

fn host_namespaces(checked: CheckedPod<'_>) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"];
    let set: Vec<String> =
        fields.iter().filter(|field| checked.spec[**field] == true).map(|field| format!("{field}=true")).collect();
    if set.is_empty() { None } else { Some(found("host namespaces", set.join(", "))) }
}

fn host_paths(checked: CheckedPod<'_>) -> Option<Violation> {
    let volumes = array_field(checked.spec, "volumes").iter().filter(|volume| volume["hostPath"].is_object());
    let names: Vec<&str> = volumes.map(|volume| str_field(volume, "name")).collect();
    if names.is_empty() {
        return None;
    }
    Some(found("hostPath volumes", format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names))))
}

fn host_ports(checked: CheckedPod<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let bad = checked.bad(|container| {
        let own = array_field(container, "ports").iter().filter_map(|port| port["hostPort"].as_i64());
        let own: Vec<String> = own.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        ports.extend(own.iter().cloned());
        !own.is_empty()
    });
    let many = plural("hostPort", "hostPorts", ports.len());
    let rest = format!("{} {many} {}", plural("uses", "use", bad.len()), Vec::from_iter(ports).join(", "));
    if_any(&bad, "hostPort", &rest)
}

fn probe_hosts(checked: CheckedPod<'_>) -> Option<Violation> {
    fn hosts(handler: &Value) -> impl Iterator<Item = &str> {
        ["httpGet", "tcpSocket"]
            .into_iter()
            .map(|kind| str_field(&handler[kind], "host"))
            .filter(|host| !host.is_empty())
    }
    let mut forbidden = BTreeSet::new();
    let bad: BTreeSet<&str> = checked
        .bad(|container| {
            let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]);
            let hooks = ["postStart", "preStop"].map(|hook| &container["lifecycle"][hook]);
            let own: Vec<&str> = probes.into_iter().chain(hooks).flat_map(hosts).collect();
            forbidden.extend(own.iter().copied());
            !own.is_empty()
        })
        .into_iter()
        .collect();
    let bad = Vec::from_iter(bad);
    let many = plural("probe or lifecycle host", "probe or lifecycle hosts", forbidden.len());
    let rest = format!("{} {many} {}", plural("uses", "use", bad.len()), quoted(&forbidden));
    if_any(&bad, "probe or lifecycle host", &rest)
}

fn privileged(checked: CheckedPod<'_>) -> Option<Violation> {
    let bad = checked.bad(|container| context(container)["privileged"] == true);
    if_any(&bad, "privileged", "must not set securityContext.privileged=true")
}

fn proc_mount_baseline(checked: CheckedPod<'_>) -> Option<Violation> {
    if checked.has_own_users() { None } else { proc_mount(checked) }
}

fn proc_mount(checked: CheckedPod<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let bad = checked.bad(|container| {
        let kind = context(container)["procMount"].as_str().filter(|kind| *kind != "Default");
        kinds.extend(kind);
        kind.is_some()
    });
    if_any(&bad, "procMount", &format!("must not set securityContext.procMount to {}", quoted(&kinds)))
}

fn se_linux(checked: CheckedPod<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let mut sets_user = false;
    let mut sets_role = false;
    let mut is_bad = |object: &Value| {
        let Some(options) = context(object).get("seLinuxOptions").filter(|options| options.is_object()) else {
            return false;
        };
        let kind = str_field(options, "type");
        let fits = matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || checked.version >= 31 && kind == "container_engine_t";
        if !fits {
            kinds.insert(kind.to_owned());
        }
        let has = |field: &str| !str_field(options, field).is_empty();
        sets_user |= has("user");
        sets_role |= has("role");
        !fits || has("user") || has("role")
    };
    let of_pod = is_bad(checked.spec);
    let containers = checked.bad(|container| is_bad(container));
    let who = setters(of_pod, &containers);
    if who.is_empty() {
        return None;
    }
    let mut data = Vec::new();
    if !kinds.is_empty() {
        data.push(format!("{} {}", plural("type", "types", kinds.len()), quoted(&kinds)));
    }
    data.extend(sets_user.then(|| "user may not be set".to_owned()));
    data.extend(sets_role.then(|| "role may not be set".to_owned()));
    let what = format!("{who} set forbidden securityContext.seLinuxOptions: {}", data.join("; "));
    Some(found("seLinuxOptions", what))
}

/// Returns the type of an object's seccomp profile, if it has one.
fn seccomp_type(object: &Value) -> Option<&str> {
    let profile = context(object).get("seccompProfile").filter(|profile| profile.is_object())?;
    Some(str_field(profile, "type"))
}

fn is_bad_seccomp(kind: &str) -> bool {
    !matches!(kind, "Localhost" | "RuntimeDefault")
}

fn seccomp(checked: CheckedPod<'_>) -> Option<Violation> {
    if checked.version < 19 {
        return seccomp_annotations(checked);
    }
    let bad = |object: &Value| seccomp_type(object).is_some_and(is_bad_seccomp);
    let containers = checked.bad(|container| bad(container));
    let who = setters(bad(checked.spec), &containers);
    if who.is_empty() {
        return None;
    }
    let all = std::iter::once(checked.spec).chain(checked.containers());
    let values: BTreeSet<&str> = all.filter_map(seccomp_type).filter(|kind| is_bad_seccomp(kind)).collect();
    let what = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&values));
    Some(found("seccompProfile", what))
}

fn seccomp_annotations(checked: CheckedPod<'_>) -> Option<Violation> {
    const POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
    let of_container =
        |container: &Value| format!("container.{}/{}", &POD[..POD.len() - "/pod".len()], str_field(container, "name"));
    let keys = std::iter::once(POD.to_owned()).chain(checked.containers().map(of_container));
    let forbidden: BTreeSet<String> = keys
        .filter_map(|key| {
            let value = metadata::annotation(checked.pod, &key)?;
            let fits = matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (!fits).then(|| format!("{key}={value:?}"))
        })
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let many = plural("annotation", "annotations", forbidden.len());
    Some(found("seccompProfile", format!("forbidden {many} {}", Vec::from_iter(forbidden).join(", "))))
}

fn seccomp_restricted(checked: CheckedPod<'_>) -> Option<Violation> {
    if checked.is_for_windows() {
        return None;
    }
    let of_profiles = seccomp(checked);
    if of_profiles.is_some() {
        return of_profiles;
    }
    let pod_is_set = seccomp_type(checked.spec).is_some();
    let missing = checked.bad(|container| !pod_is_set && seccomp_type(container).is_none());
    if missing.is_empty() {
        return None;
    }
    let who = of_containers(&missing);
    let what = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    Some(found("seccompProfile", format!("pod or {who} {what}")))
}

fn sysctls(checked: CheckedPod<'_>) -> Option<Violation> {
    /// Names, and the version that allows them.
    const ALLOWED: [(&str, u32); 12] = [
        ("kernel.shm_rmid_forced", 0),
        ("net.ipv4.ip_local_port_range", 0),
        ("net.ipv4.tcp_syncookies", 0),
        ("net.ipv4.ping_group_range", 0),
        ("net.ipv4.ip_unprivileged_port_start", 0),
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_keepalive_time", 29),
        ("net.ipv4.tcp_fin_timeout", 29),
        ("net.ipv4.tcp_keepalive_intvl", 29),
        ("net.ipv4.tcp_keepalive_probes", 29),
        ("net.ipv4.tcp_rmem", 32),
        ("net.ipv4.tcp_wmem", 32),
    ];
    let names = array_field(context(checked.spec), "sysctls").iter().map(|sysctl| str_field(sysctl, "name"));
    let is_allowed = |name: &&str| ALLOWED.iter().any(|(known, since)| name == known && *since <= checked.version);
    let forbidden: Vec<&str> = names.filter(|name| !is_allowed(name)).collect();
    if forbidden.is_empty() { None } else { Some(found("forbidden sysctls", forbidden.join(", "))) }
}

fn host_processes(checked: CheckedPod<'_>) -> Option<Violation> {
    let is_set = |object: &Value| context(object)["windowsOptions"]["hostProcess"] == true;
    let who = setters(is_set(checked.spec), &checked.bad(|container| is_set(container)));
    if who.is_empty() {
        return None;
    }
    Some(found("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true")))
}

fn privilege_escalation(checked: CheckedPod<'_>) -> Option<Violation> {
    if checked.is_for_windows() {
        return None;
    }
    let bad = checked.bad(|container| context(container)["allowPrivilegeEscalation"] != false);
    let rest = "must set securityContext.allowPrivilegeEscalation=false";
    if_any(&bad, "allowPrivilegeEscalation != false", rest)
}

fn volume_types(checked: CheckedPod<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    const KNOWN: [&str; 21] = [
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "nfs",
        "iscsi",
        "glusterfs",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    ];
    let has = |volume: &Value, kinds: &[&'static str]| kinds.iter().find(|kind| volume[**kind].is_object()).copied();
    let bad: Vec<&Value> =
        array_field(checked.spec, "volumes").iter().filter(|volume| has(volume, &ALLOWED).is_none()).collect();
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<&str> = bad.iter().map(|volume| has(volume, &KNOWN).unwrap_or("unknown")).collect();
    let what = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        quoted(bad.iter().map(|volume| str_field(volume, "name"))),
        plural("uses", "use", bad.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(&kinds),
    );
    Some(found("restricted volume types", what))
}

fn non_root(checked: CheckedPod<'_>) -> Option<Violation> {
    if checked.has_own_users() {
        return None;
    }
    let set = |object: &Value| context(object)["runAsNonRoot"].as_bool();
    let who = setters(set(checked.spec) == Some(false), &checked.bad(|container| set(container) == Some(false)));
    if !who.is_empty() {
        return Some(found("runAsNonRoot != true", format!("{who} must not set securityContext.runAsNonRoot=false")));
    }
    let missing = checked.bad(|container| set(checked.spec) != Some(true) && set(container).is_none());
    if missing.is_empty() {
        return None;
    }
    let what = format!("pod or {} must set securityContext.runAsNonRoot=true", of_containers(&missing));
    Some(found("runAsNonRoot != true", what))
}

fn root_user(checked: CheckedPod<'_>) -> Option<Violation> {
    if checked.has_own_users() {
        return None;
    }
    let is_root = |object: &Value| context(object)["runAsUser"] == 0;
    let who = setters(is_root(checked.spec), &checked.bad(|container| is_root(container)));
    if who.is_empty() { None } else { Some(found("runAsUser=0", format!("{who} must not set runAsUser=0"))) }
}
