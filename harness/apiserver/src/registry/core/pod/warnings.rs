//! Warnings about valid pods and pod templates that probably contain a mistake. See `pkg/api/pod/warnings.go`.

use std::collections::BTreeMap;

use crate::field_errors::Path;
use crate::json::Value;
use crate::json::fields::{array_field, str_field};
use crate::metadata;
use crate::quantity::Quantity;
use crate::registry::addresses;
use crate::registry::core::node_selector;
use crate::registry::core::persistent_volume_claim;
use crate::registry::core::pod::profiles::{APP_ARMOR, CONTAINER_SECCOMP, CONTAINERS, POD_SECCOMP, profile};
use crate::registry::core::pod::{app_armor, overlaps};
use crate::registry::resource_list::quantity_text;
use crate::registry::{checks, names};
use crate::status::go_quote;

/// Most ports with one number that are compared with each other.
const COMPARED_PORTS: usize = 100;

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Returns the warnings about a pod (`prefix` empty) or about the template at `prefix`.
pub(in crate::registry) fn pod_warnings(pod: &Value, prefix: &str) -> Vec<String> {
    let mut warnings = Warnings { root: Path::new(prefix), found: Vec::new() };
    let empty = Value::Null;
    let spec = pod.get("spec").unwrap_or(&empty);
    warnings.scheduling(spec);
    warnings.annotations(pod);
    warnings.volumes(spec);
    warnings.found.extend(overlaps::overlap_warnings(spec));
    warnings.duplicate_item_warnings(spec);
    if profile(spec, "seccompProfile").is_none() && metadata::annotation(pod, POD_SECCOMP).is_some() {
        warnings.annotation(POD_SECCOMP, SECCOMP_ADVICE);
    }
    for field in CONTAINERS {
        for (i, container) in array_field(spec, field).iter().enumerate() {
            let spec_path = warnings.root.child("spec");
            let all = spec_path.child(field);
            let path = all.index(i).to_string();
            warnings.profiles(pod, container, !prefix.is_empty());
            warnings.container(container, &path);
        }
    }
    warnings.ports(spec);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|s| s < 0) {
        let path = warnings.in_spec("terminationGracePeriodSeconds");
        warnings.add(&path, "must be >= 0; negative values are invalid and will be treated as 1");
    }
    warnings.affinity(spec);
    warnings.addresses(spec);
    warnings.found
}

/// Returns the warning about the name of an object whose name becomes a part of pod names.
pub(in crate::registry) fn name_warning(object: &Value) -> Option<String> {
    let why = names::dns1123_label(metadata::name(object));
    let what =
        "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended";
    (!why.is_empty()).then(|| format!("metadata.name: {what}: [{}]", why.join(" ")))
}

/// Returns the warnings about a `PodTemplate`.
pub(in crate::registry) fn pod_template_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| metadata::generation(old) == metadata::generation(object)) {
        return Vec::new();
    }
    pod_warnings(object.get("template").unwrap_or(&Value::Null), "template")
}

/// Annotations without a function.
const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

/// Deprecated volume types.
const DEPRECATED_VOLUMES: &[(&str, &str)] = &[
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const SECCOMP_ADVICE: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

struct Warnings<'a> {
    root: Path<'a>,
    found: Vec<String>,
}

fn number(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

impl Warnings<'_> {
    fn add(&mut self, path: &str, text: &str) {
        self.found.push(format!("{path}: {text}"));
    }

    fn in_spec(&self, field: &str) -> String {
        self.root.child("spec").child(field).to_string()
    }

    fn scheduling(&mut self, spec: &Value) {
        for label in spec.get("nodeSelector").and_then(Value::as_object).into_iter().flatten().map(|(k, _)| k) {
            if let Some(text) = node_selector::deprecated_label(label) {
                let path = format!("{}[{label}]", self.in_spec("nodeSelector"));
                self.add(&path, text);
            }
        }
        let preferred = "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";
        let terms = spec.pointer("/affinity/nodeAffinity").unwrap_or(&Value::Null);
        if let Some(required) = terms.get("requiredDuringSchedulingIgnoredDuringExecution") {
            let path = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
            for (i, term) in array_field(required, "nodeSelectorTerms").iter().enumerate() {
                let path = format!("{}[{i}]", self.in_spec(path));
                self.found.extend(node_selector::term_warnings(term, false, &path));
            }
        }
        for (i, term) in array_field(terms, "preferredDuringSchedulingIgnoredDuringExecution").iter().enumerate() {
            let path = format!("{}[{i}].preference", self.in_spec(preferred));
            self.found.extend(node_selector::term_warnings(&term["preference"], true, &path));
        }
        for (i, constraint) in array_field(spec, "topologySpreadConstraints").iter().enumerate() {
            let path = format!("{}[{i}]", self.in_spec("topologySpreadConstraints"));
            let key = str_field(constraint, "topologyKey");
            if let Some(text) = node_selector::deprecated_label(key) {
                self.add(&format!("{path}.topologyKey"), &format!("{key} is {text}"));
            }
            if constraint.get("labelSelector").is_none_or(Value::is_null) {
                self.add(&format!("{path}.labelSelector"), NO_SELECTOR);
            }
        }
    }

    /// Warns about annotations that are replaced by fields.
    fn annotations(&mut self, pod: &Value) {
        for (key, text) in DEPRECATED_ANNOTATIONS {
            if metadata::annotation(pod, key).is_some() {
                self.annotation(key, text);
            }
        }
    }

    fn annotation(&mut self, key: &str, text: &str) {
        let metadata = self.root.child("metadata");
        let path = metadata.child("annotations").key(key).to_string();
        self.add(&path, text);
    }

    fn volumes(&mut self, spec: &Value) {
        for (i, volume) in array_field(spec, "volumes").iter().enumerate() {
            for (kind, text) in DEPRECATED_VOLUMES {
                if volume.get(*kind).is_some_and(|v| !v.is_null()) {
                    let path = format!("{}[{i}].{kind}", self.in_spec("volumes"));
                    self.add(&path, text);
                }
            }
            if let Some(claim) = volume.pointer("/ephemeral/volumeClaimTemplate/spec") {
                let path = format!("{}[{i}].ephemeral.volumeClaimTemplate.spec", self.in_spec("volumes"));
                self.found.extend(persistent_volume_claim::spec_warnings(claim, &path));
            }
        }
    }

    /// Warns about duplicate and empty list items.
    fn duplicate_item_warnings(&mut self, spec: &Value) {
        for (list, field, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
            let items = array_field(spec, list);
            let again = checks::repeated(items, |item| str_field(item, field));
            for (i, item) in items.iter().enumerate() {
                let value = str_field(item, field);
                if again[i] {
                    let path = format!("{}[{i}].{field}", self.in_spec(list));
                    self.add(&path, &format!("duplicate {what} {}", go_quote(value)));
                }
            }
        }
        for (i, secret) in array_field(spec, "imagePullSecrets").iter().enumerate() {
            if str_field(secret, "name").is_empty() {
                let path = format!("{}[{i}].name", self.in_spec("imagePullSecrets"));
                self.add(&path, "invalid empty name \"\"");
            }
        }
        self.fractional_byte_warnings(
            spec.get("overhead"),
            &self.in_spec("overhead"),
            &["memory", "ephemeral-storage"],
        );
    }

    /// Warns about fractional amounts of bytes.
    fn fractional_byte_warnings(&mut self, list: Option<&Value>, path: &str, names: &[&str]) {
        for name in names {
            let Some(text) = list.and_then(|l| l.get(*name)).map(quantity_text) else { continue };
            if Quantity::parse(&text).is_some_and(|q| !q.is_whole()) {
                let why = format!("fractional byte value {} is invalid, must be an integer", go_quote(&text));
                self.add(&format!("{path}[{name}]"), &why);
            }
        }
    }

    /// Warns about annotations that hold the profiles of a container. Those of `AppArmor` in pods become fields.
    fn profiles(&mut self, pod: &Value, container: &Value, is_template: bool) {
        let name = str_field(container, "name");
        let key = format!("{CONTAINER_SECCOMP}{name}");
        if profile(container, "seccompProfile").is_none() && metadata::annotation(pod, &key).is_some() {
            self.annotation(&key, SECCOMP_ADVICE);
        }
        if is_template && app_armor::ignores_annotation(pod, container) {
            let advice = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
            self.annotation(&format!("{APP_ARMOR}{name}"), advice);
        }
    }

    /// Warns about addresses in an unusual form.
    fn addresses(&mut self, spec: &Value) {
        let servers = array_field(&spec["dnsConfig"], "nameservers").iter().filter_map(Value::as_str);
        let servers = servers.enumerate().map(|(i, server)| (format!("dnsConfig.nameservers[{i}]"), server));
        let aliases = array_field(spec, "hostAliases").iter().enumerate();
        let aliases = aliases.map(|(i, alias)| (format!("hostAliases[{i}].ip"), str_field(alias, "ip")));
        for (field, address) in servers.chain(aliases) {
            let path = self.in_spec(&field);
            self.found.extend(addresses::ip_warning(&path, address));
        }
    }

    fn container(&mut self, container: &Value, path: &str) {
        for name in ["memory", "ephemeral-storage"] {
            for field in ["limits", "requests"] {
                let list = container.get("resources").and_then(|r| r.get(field));
                self.fractional_byte_warnings(list, &format!("{path}.resources.{field}"), &[name]);
            }
        }
        let variables = array_field(container, "env");
        let again = checks::repeated(variables, |variable| str_field(variable, "name"));
        for (i, variable) in variables.iter().enumerate() {
            let name = str_field(variable, "name");
            if !again[i] {
                continue;
            }
            let value = str_field(variable, "value");
            let reference = format!("$({name})");
            let from = variable.get("valueFrom").is_some_and(|v| !v.is_null());
            if from || value == reference || !value.contains(&reference) {
                let why =
                    format!("hides previous definition of {}, which may be dropped when using apply", go_quote(name));
                self.add(&format!("{path}.env[{i}]"), &why);
            }
        }
    }

    fn ports(&mut self, spec: &Value) {
        let mut ports: Vec<(String, &Value)> = Vec::new();
        for field in CONTAINERS {
            for (i, container) in array_field(spec, field).iter().enumerate() {
                for (j, port) in array_field(container, "ports").iter().enumerate() {
                    ports.push((format!("{}[{i}].ports[{j}]", self.in_spec(field)), port));
                }
            }
        }
        // Of the ports with the same number, the first ones are compared: replies have no room for more warnings.
        let mut alike: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (i, (path, port)) in ports.iter().enumerate() {
            let host_port = number(port, "hostPort");
            let ip = str_field(port, "hostIP");
            if !ip.is_empty() && host_port == 0 {
                let name = str_field(port, "name");
                let own = number(port, "containerPort");
                let protocol = str_field(port, "protocol");
                let shown = format!("{{Name:{name} HostPort:0 ContainerPort:{own} Protocol:{protocol} HostIP:{ip}}}");
                self.add(path, &format!("hostIP set without hostPort: {shown}"));
            }
            let same = alike.entry(number(port, "containerPort")).or_default();
            for (other_path, other) in same.iter().map(|index| &ports[*index]) {
                if let Some(how) = port_conflict(port, other) {
                    self.add(path, &format!("{how} port definition with {other_path}"));
                }
            }
            if same.len() < COMPARED_PORTS {
                same.push(i);
            }
        }
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        for (path, port) in &ports {
            let name = str_field(port, "name");
            if name.is_empty() {
                continue;
            }
            if let Some(other) = first.get(name) {
                let why = format!(
                    "duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                    go_quote(name)
                );
                self.add(path, &why);
            } else {
                first.insert(name, path);
            }
        }
    }

    fn affinity(&mut self, spec: &Value) {
        let Some(affinity) = spec.get("affinity") else { return };
        let all = self.in_spec("affinity");
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(pods) = affinity.get(kind) else { continue };
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            for (i, term) in array_field(pods, required).iter().enumerate() {
                if term.get("labelSelector").is_none_or(Value::is_null) {
                    self.add(&format!("{all}.{kind}.{required}[{i}].labelSelector"), NO_SELECTOR);
                }
            }
            let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
            for (i, term) in array_field(pods, preferred).iter().enumerate() {
                if term.pointer("/podAffinityTerm/labelSelector").is_none_or(Value::is_null) {
                    let path = format!("{all}.{kind}.{preferred}[{i}].podAffinityTerm.labelSelector");
                    self.add(&path, NO_SELECTOR);
                }
            }
        }
    }
}

/// Returns the kind of conflict between two definitions of the same container port.
fn port_conflict(port: &Value, other: &Value) -> Option<&'static str> {
    let protocol = |p| str_field(p, "protocol");
    if number(port, "containerPort") != number(other, "containerPort") || protocol(port) != protocol(other) {
        return None;
    }
    let host = number(port, "hostPort");
    let other_host = number(other, "hostPort");
    let ip = str_field(port, "hostIP");
    let other_ip = str_field(other, "hostIP");
    if ip == other_ip && host == other_host {
        Some("duplicate")
    } else if host == 0 || other_host == 0 {
        Some("overlapping")
    } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case::fine(json!({"containers": [{"env": [{"name": "a", "value": "b"}]}]}), &[])]
    #[case::label(
        json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
        &["spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead"]
    )]
    #[case::env(
        json!({"containers": [{"env": [{"name": "a"}, {"name": "a", "value": "$(a)b"}, {"name": "a", "value": "x"}]}]}),
        &["spec.containers[0].env[2]: hides previous definition of \"a\", which may be dropped when using apply"]
    )]
    #[case::ports(
        json!({"containers": [{"ports": [{"containerPort": 1}, {"containerPort": 1}, {"containerPort": 1, "hostPort": 2}]}]}),
        &[
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[1]",
        ]
    )]
    #[case::bytes(
        json!({"containers": [{"resources": {"limits": {"memory": "100m"}}}]}),
        &["spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer"]
    )]
    #[case::addresses(
        json!({"dnsConfig": {"nameservers": ["FD00::1"]}, "hostAliases": [{"ip": "fd00:0::1"}]}),
        &["spec.dnsConfig.nameservers[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")",
            "spec.hostAliases[0].ip: IPv6 address \"fd00:0::1\" should be in RFC 5952 canonical format (\"fd00::1\")"]
    )]
    #[case::claim(
        json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {
            "requests": {"storage": "1500m"}}}}}}]}),
        &["spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer"]
    )]
    #[case::host(
        json!({"containers": [{"ports": [{"name": "n", "containerPort": 1, "protocol": "TCP", "hostIP": "1.2.3.4"}]}]}),
        &["spec.containers[0].ports[0]: hostIP set without hostPort: {Name:n HostPort:0 ContainerPort:1 Protocol:TCP HostIP:1.2.3.4}"]
    )]
    #[case::overlaps(
        json!({"volumes": [{"name": "v", "secret": {"secretName": "s", "items": [{"path": "b"}, {"path": "b/c"}]}},
            {"name": "p", "projected": {"sources": [{}]}}]}),
        &[
            "volume \"v\" (Secret \"s\"): overlapping paths: \"b/c\" with \"b\"",
            "volume \"p\" (Projected) has no sources provided",
        ]
    )]
    fn texts(#[case] spec: Value, #[case] expected: &[&str]) {
        assert_eq!(pod_warnings(&json!({"spec": spec}), ""), expected);
    }

    /// `TestWarnings` in `pkg/api/pod/warnings_test.go`.
    #[test]
    fn annotations_without_a_field() {
        let annotations = json!({"scheduler.alpha.kubernetes.io/critical-pod": "", "seccomp.security.alpha.kubernetes.io/pod": "x",
            "container.seccomp.security.alpha.kubernetes.io/c": "x", "container.apparmor.security.beta.kubernetes.io/c": "unconfined"});
        let pod = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c"}]}});
        let critical = "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead";
        let of_pod = "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead";
        let of_container = "metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the \"seccompProfile\" field instead";
        assert_eq!(pod_warnings(&pod, ""), [critical, of_pod, of_container]);
        let of_template = pod_warnings(&pod, "template");
        let armor = "template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the \"appArmorProfile\" field instead";
        assert_eq!(of_template[3], armor);
    }
}
