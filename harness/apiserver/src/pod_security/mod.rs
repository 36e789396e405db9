//! Pod Security: the levels that the labels of a namespace ask for, and what they forbid in pods. PURE.
//!
//! Follows `staging/src/k8s.io/pod-security-admission/{api/helpers.go,policy,admission}` of Kubernetes 1.36, with the
//! default configuration: without labels everything is allowed, and there are no exemptions.

mod checks;

use std::collections::BTreeMap;

use checks::{CheckedPod, Violation};

use crate::field_errors::{ErrorList, Path};
use crate::json::fields::{array_field, str_field};
use crate::json::{Map, Value};
use crate::metadata;

/// Prefix of the labels of namespaces and of audit annotations.
pub(crate) const PREFIX: &str = "pod-security.kubernetes.io/";

/// The largest number of pods that a stricter level of a namespace is checked against.
const PODS_MAX: usize = 3000;

/// A level of the Pod Security Standards, from none to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        [Self::Privileged, Self::Baseline, Self::Restricted].into_iter().find(|level| level.as_str() == text)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// A level in a version; `None` is the latest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LevelVersion {
    pub(crate) level: Level,
    version: Option<u32>,
}

impl LevelVersion {
    /// Returns true if a change from another level in the same version allows more.
    pub(crate) fn is_relaxed_from(self, before: Self) -> bool {
        self.version == before.version && self.level <= before.level
    }
}

impl std::fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.version {
            Some(minor) => write!(f, "{}:v1.{minor}", self.level.as_str()),
            None => write!(f, "{}:latest", self.level.as_str()),
        }
    }
}

/// The levels that a namespace asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamespacePolicy {
    pub(crate) enforce: LevelVersion,
    pub(crate) audit: LevelVersion,
    pub(crate) warn: LevelVersion,
}

impl NamespacePolicy {
    /// Reads the labels of a namespace; wrong ones are errors and count as strict, for audit and warnings as none:
    /// `PolicyToEvaluate`.
    pub(crate) fn of_labels(labels: Option<&Map>) -> (Self, ErrorList) {
        let none = LevelVersion { level: Level::Privileged, version: None };
        let mut policy = Self { enforce: none, audit: none, warn: none };
        let mut errors = ErrorList::new();
        let label = |name: &str| labels.and_then(|labels| labels.get(&*format!("{PREFIX}{name}"))?.as_str());
        let mut has_level = false;
        for (mode, part) in [("enforce", &mut policy.enforce), ("audit", &mut policy.audit), ("warn", &mut policy.warn)]
        {
            if let Some(text) = label(mode) {
                let level = Level::parse(text);
                has_level |= mode == "enforce" && level.is_some();
                let wrong = if mode == "enforce" { Level::Restricted } else { Level::Privileged };
                part.level = level.unwrap_or(wrong);
                if level.is_none() {
                    add_error(mode, text, "must be one of privileged, baseline, restricted", &mut errors);
                }
            }
            let version_label = format!("{mode}-version");
            if let Some(text) = label(&version_label) {
                let version = parse_version(text);
                part.version = version.flatten();
                if version.is_none() {
                    add_error(&version_label, text, "must be \"latest\" or \"v1.x\"", &mut errors);
                }
            }
        }
        if label("warn").is_none() && has_level && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if label("warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    /// Returns true if everything is allowed.
    pub(crate) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|part| part.level == Level::Privileged)
    }
}

fn add_error(label: &str, value: &str, why: &str, errors: &mut ErrorList) {
    let path = Path::new("metadata");
    errors.invalid(&path.child("labels").key(&format!("{PREFIX}{label}")), value, why);
}

/// Returns the version in `latest` or `v1.x`.
#[expect(clippy::option_option, reason = "the latest version is none")]
fn parse_version(text: &str) -> Option<Option<u32>> {
    if text == "latest" {
        return Some(None);
    }
    let minor = text.strip_prefix("v1.")?;
    let is_number = minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor == "0" || !minor.starts_with('0'));
    if is_number { minor.parse().ok().map(Some) } else { None }
}

/// The findings of a level in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict(Vec<Violation>);

impl Verdict {
    /// Checks a pod, or the template of one with its metadata, against a level.
    pub(crate) fn of(wanted: LevelVersion, pod: &Value) -> Self {
        let checked = CheckedPod { pod, spec: &pod["spec"], version: wanted.version.unwrap_or(u32::MAX) };
        Self(if wanted.level == Level::Privileged { Vec::new() } else { checks::violations(wanted.level, checked) })
    }

    /// Returns true if nothing is forbidden.
    pub(crate) fn is_allowed(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the reasons alone.
    fn reason(&self) -> String {
        self.0.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
    }

    /// Returns the reasons with their details.
    pub(crate) fn detail(&self) -> String {
        let detailed = self.0.iter().map(|violation| format!("{} ({})", violation.reason, violation.detail));
        detailed.collect::<Vec<_>>().join(", ")
    }
}

/// Returns true if an update of a pod has to be checked: images or containers change.
pub(crate) fn is_significant(new: &Value, old: &Value) -> bool {
    let images = |pod: &Value, list: &str| -> Vec<Value> {
        array_field(&pod["spec"], list).iter().map(|container| container["image"].clone()).collect()
    };
    let before = array_field(&old["spec"], "ephemeralContainers");
    let is_new = |container: &Value| {
        let known = before.iter().find(|known| known["name"] == container["name"]);
        known.is_none_or(|known| known["image"] != container["image"])
    };
    ["containers", "initContainers"].iter().any(|list| images(new, list) != images(old, list))
        || array_field(&new["spec"], "ephemeralContainers").iter().any(is_new)
}

/// Returns the warnings about the pods of a namespace whose level becomes stricter: `EvaluatePodsInNamespace`.
pub(crate) fn warnings_about(pods: Vec<Value>, namespace: &str, wanted: LevelVersion) -> Vec<String> {
    let all = pods.len();
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in one_per_controller(pods).iter().take(PODS_MAX) {
        let verdict = Verdict::of(wanted, pod);
        if !verdict.is_allowed() {
            let name = metadata::name(pod);
            let (first, count) = found.entry(verdict.reason()).or_insert_with(|| (name.to_owned(), 0));
            if name < first.as_str() {
                name.clone_into(first);
            }
            *count += 1;
        }
    }
    let mut warnings = Vec::new();
    if all > PODS_MAX {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_MAX} of {all} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{wanted}\""
        ));
    }
    let mut of_pods: Vec<String> = found
        .into_iter()
        .map(|(reason, (first, count))| match count {
            1 => format!("{first}: {reason}"),
            2 => format!("{first} (and 1 other pod): {reason}"),
            _ => format!("{first} (and {} other pods): {reason}", count - 1),
        })
        .collect();
    of_pods.sort();
    warnings.extend(of_pods);
    warnings
}

/// Returns the pods with one of each controller before the others: `prioritizePods`.
fn one_per_controller(pods: Vec<Value>) -> Vec<Value> {
    let mut seen: Vec<String> = Vec::new();
    let mut first = Vec::new();
    let mut others = Vec::new();
    for pod in pods {
        match metadata::controller(&pod).map(|owner| str_field(owner, "uid").to_owned()) {
            Some(uid) if seen.contains(&uid) => others.push(pod),
            owner => {
                seen.extend(owner);
                first.push(pod);
            }
        }
    }
    first.append(&mut others);
    first
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn policy(labels: Value) -> (String, Vec<String>) {
        let labels = labels
            .as_object()
            .map(|labels| labels.iter().map(|(key, value)| (format!("{PREFIX}{key}"), value.clone())).collect::<Map>());
        let (policy, errors) = NamespacePolicy::of_labels(labels.as_ref());
        let shown = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        (shown, errors.iter().map(ToString::to_string).collect())
    }

    /// `TestPolicyToEvaluate`.
    #[rstest]
    #[case(json!({}), "privileged:latest privileged:latest privileged:latest", &[])]
    #[case(json!({"enforce": "baseline", "audit": "privileged", "warn": "privileged"}),
        "baseline:latest privileged:latest privileged:latest", &[])]
    #[case(json!({"enforce": "baseline", "audit-version": "v1.22"}),
        "baseline:latest privileged:v1.22 baseline:latest", &[])]
    #[case(json!({"enforce": "restricted", "enforce-version": "v1.25"}),
        "restricted:v1.25 privileged:latest restricted:v1.25", &[])]
    #[case(json!({"enforce": "baseline", "warn": "foo"}), "baseline:latest privileged:latest privileged:latest",
        &["metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"foo\": must be one of privileged, baseline, restricted"])]
    #[case(json!({"enforce": "foo", "enforce-version": "v1.01"}), "restricted:latest privileged:latest privileged:latest",
        &["metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"foo\": must be one of privileged, baseline, restricted",
            "metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: \"v1.01\": must be \"latest\" or \"v1.x\""])]
    fn labels(#[case] given: Value, #[case] expected: &str, #[case] errors: &[&str]) {
        let found = policy(given);
        assert_eq!(
            (found.0.as_str(), found.1.as_slice()),
            (expected, errors.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>().as_slice())
        );
    }

    const RESTRICTED: LevelVersion = LevelVersion { level: Level::Restricted, version: None };
    const BASELINE: LevelVersion = LevelVersion { level: Level::Baseline, version: None };

    /// Each check with a pod that it refuses: `test/fixtures_*.go`.
    #[rstest]
    #[case::plain(BASELINE, json!({"containers": [{"name": "a"}]}), "")]
    #[case::plain_restricted(RESTRICTED, json!({"containers": [{"name": "a"}]}),
        "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")")]
    #[case::fine(RESTRICTED, json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}), "")]
    #[case::app_armor(BASELINE, json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
        "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\")")]
    #[case::capabilities(BASELINE, json!({"initContainers": [{"name": "i", "securityContext": {"capabilities": {"add": ["SYS_TIME"]}}}],
        "containers": [{"name": "a", "securityContext": {"capabilities": {"add": ["NET_ADMIN", "CHOWN"]}}}]}),
        "non-default capabilities (containers \"i\", \"a\" must not include \"NET_ADMIN\", \"SYS_TIME\" in securityContext.capabilities.add)")]
    #[case::namespaces(BASELINE, json!({"hostIPC": true, "hostNetwork": true}), "host namespaces (hostNetwork=true, hostIPC=true)")]
    #[case::paths(BASELINE, json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), "hostPath volumes (volume \"v\")")]
    #[case::ports(BASELINE, json!({"containers": [{"name": "a", "ports": [{"hostPort": 80}, {"hostPort": 443}, {"containerPort": 1}]}]}),
        "hostPort (container \"a\" uses hostPorts 443, 80)")]
    #[case::probes(BASELINE, json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}}]}),
        "probe or lifecycle host (container \"a\" uses probe or lifecycle host \"h\")")]
    #[case::probes_before(LevelVersion { version: Some(33), ..BASELINE },
        json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}}]}), "")]
    #[case::privileged(BASELINE, json!({"containers": [{"name": "a", "securityContext": {"privileged": true}}]}),
        "privileged (container \"a\" must not set securityContext.privileged=true)")]
    #[case::proc_mount(BASELINE, json!({"containers": [{"name": "a", "securityContext": {"procMount": "Unmasked"}}]}),
        "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")")]
    #[case::own_users(BASELINE, json!({"hostUsers": false, "containers": [{"name": "a", "securityContext": {"procMount": "Unmasked"}}]}), "")]
    #[case::se_linux(BASELINE, json!({"securityContext": {"seLinuxOptions": {"type": "foo", "user": "u"}}}),
        "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"foo\"; user may not be set)")]
    #[case::se_linux_engine(LevelVersion { version: Some(30), ..BASELINE },
        json!({"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}}),
        "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")")]
    #[case::seccomp(BASELINE, json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
        "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")")]
    #[case::sysctls(BASELINE, json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "a"}]}}), "forbidden sysctls (a)")]
    #[case::sysctls_before(LevelVersion { version: Some(31), ..BASELINE },
        json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}), "forbidden sysctls (net.ipv4.tcp_rmem)")]
    #[case::windows(BASELINE, json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)")]
    #[case::volumes(RESTRICTED, json!({"volumes": [{"name": "v", "hostPath": {}}, {"name": "n", "nfs": {}}, {"name": "e", "emptyDir": {}}]}),
        "restricted volume types (volumes \"v\", \"n\" use restricted volume types \"hostPath\", \"nfs\")")]
    #[case::root(RESTRICTED, json!({"securityContext": {"runAsNonRoot": false, "runAsUser": 0}}),
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set runAsUser=0)")]
    #[case::windows_pod(RESTRICTED, json!({"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "a"}]}), "")]
    #[case::bind(RESTRICTED, json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "Localhost"}},
        "containers": [{"name": "a", "securityContext": {"allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CHOWN"]}}}]}),
        "unrestricted capabilities (container \"a\" must not include \"CHOWN\" in securityContext.capabilities.add)")]
    fn pods(#[case] level: LevelVersion, #[case] spec: Value, #[case] expected: &str) {
        assert_eq!(Verdict::of(level, &json!({"metadata": {"name": "p"}, "spec": spec})).detail(), expected);
    }

    #[test]
    fn annotations_count_before_fields_did() {
        let pod = json!({"metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined",
            "container.apparmor.security.beta.kubernetes.io/a": "unconfined"}}, "spec": {"containers": [{"name": "a"}]}});
        let verdict = Verdict::of(LevelVersion { version: Some(18), ..BASELINE }, &pod);
        let expected = "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
            \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\"), \
            seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")";
        assert_eq!(verdict.detail(), expected);
    }

    #[test]
    fn pods_that_violate_a_stricter_level() {
        let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"hostNetwork": true, "containers": [{"name": "a"}]}});
        let warnings = warnings_about(vec![pod("b"), pod("a"), pod("c")], "n", BASELINE);
        let expected = [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 2 other pods): host namespaces",
        ];
        assert_eq!(warnings, expected);
    }
}
