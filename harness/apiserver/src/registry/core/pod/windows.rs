//! Validation of the Windows options of pods and containers. See `validateWindowsSecurityContextOptions` and
//! `validateWindowsHostProcessPod` in `pkg/apis/core/validation/validation.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, non_null};
use crate::registry::{checks, names};

/// Largest credential specification in KiB.
const CREDENTIAL_KIB: usize = 64;

/// Longest domain and user in bytes.
const LONGEST_DOMAIN: usize = 256;

const LONGEST_USER: usize = 104;

/// Longest `NetBIOS` name in bytes.
const LONGEST_NETBIOS: usize = 15;

const OPTIONS: &str = "windowsOptions";

/// Validates the options in a security context.
pub(super) fn options(context: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(options) = non_null(context, OPTIONS) else { return };
    let path = path.child(OPTIONS);
    let text = |field: &str| non_null(options, field).and_then(Value::as_str);
    if let Some(name) = text("gmsaCredentialSpecName") {
        checks::format(name, names::dns1123_subdomain, &path.child("gmsaCredentialSpecName"), errors);
    }
    if let Some(credential) = text("gmsaCredentialSpec") {
        let path = path.child("gmsaCredentialSpec");
        if credential.is_empty() {
            errors.invalid(&path, credential, "gmsaCredentialSpec cannot be an empty string");
        } else if credential.len() > CREDENTIAL_KIB * 1024 {
            let why = format!("gmsaCredentialSpec size must be under {CREDENTIAL_KIB} KiB");
            errors.invalid(&path, credential, why);
        }
    }
    if let Some(name) = text("runAsUserName") {
        for why in user_name_errors(name) {
            errors.invalid(&path.child("runAsUserName"), name, why);
        }
    }
}

fn user_name_errors(name: &str) -> Vec<String> {
    let one = |why: &str| vec![format!("runAsUserName {why}")];
    if name.is_empty() {
        return one("cannot be an empty string");
    }
    if name.chars().any(|letter| letter.is_ascii_control()) {
        return one("cannot contain control characters");
    }
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts.as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return one("cannot contain more than one backslash"),
    };
    let mut found = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= LONGEST_DOMAIN {
            found.push(format!("runAsUserName's Domain length must be under {LONGEST_DOMAIN} characters"));
        }
        if !is_netbios(domain) && !names::dns1123_subdomain(domain).is_empty() {
            found.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
        }
    }
    if user.is_empty() {
        found.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > LONGEST_USER {
        found.push(format!("runAsUserName's User length must not be longer than {LONGEST_USER} characters"));
    }
    if !user.is_empty() && user.chars().all(|letter| letter == '.' || letter == ' ') {
        found.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(|letter| "\"/\\:;|=,+*?<>@[]".contains(letter)) {
        found.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]".to_owned());
    }
    found
}

fn is_netbios(domain: &str) -> bool {
    (1..=LONGEST_NETBIOS).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|letter| "\\/:*?\"<>|".contains(letter))
}

fn host_process(context: Option<&Value>) -> Option<bool> {
    non_null(context?, OPTIONS)?.get("hostProcess")?.as_bool()
}

/// Validates that all or no containers of a pod are processes of the host.
pub(super) fn host_processes(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let of_pod = host_process(non_null(spec, "securityContext"));
    let mut all = 0;
    let mut of_host = 0;
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let root = path.child(list);
        for (index, container) in array_field(spec, list).iter().enumerate() {
            let own = host_process(non_null(container, "securityContext"));
            if let (Some(pod), Some(own)) = (of_pod, own)
                && pod != own
            {
                let path = root.index(index);
                let path = path.child("securityContext");
                let path = path.child(OPTIONS);
                let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
                errors.invalid(&path.child("hostProcess"), own, why);
            }
            all += 1;
            of_host += usize::from(own.or(of_pod) == Some(true));
        }
    }
    if of_host == 0 {
        return;
    }
    if of_host != all {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", why);
    }
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), false, why);
    }
}

/// Returns true if a container of the pod is a process of the host.
pub(super) fn has_host_processes(spec: &Value) -> bool {
    let of_pod = host_process(non_null(spec, "securityContext"));
    ["initContainers", "containers", "ephemeralContainers"].iter().any(|list| {
        let own = |container| host_process(non_null(container, "securityContext")).or(of_pod);
        array_field(spec, list).iter().any(|container| own(container) == Some(true))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    #[rstest]
    #[case("user", &[])]
    #[case("DOMAIN\\user", &[])]
    #[case("a\\b\\c", &["runAsUserName cannot contain more than one backslash"])]
    #[case("...", &["runAsUserName's User cannot contain only periods or spaces"])]
    #[case("d:\\", &["runAsUserName's Domain doesn't match the NetBios nor the DNS format", "runAsUserName's User cannot be empty"])]
    #[case("a?b", &["runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"])]
    fn user_names(#[case] name: &str, #[case] expected: &[&str]) {
        assert_eq!(user_name_errors(name), expected);
    }

    #[test]
    fn containers_are_all_processes_of_the_host_or_none() {
        let own = json!({"windowsOptions": {"hostProcess": true}});
        let spec = json!({"containers": [{"securityContext": own}, {}]});
        let mut errors = ErrorList::new();
        host_processes(&spec, &Path::new("spec"), &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("spec: Invalid value: \"\": If pod contains any"), "{found:?}");
    }
}
