//! Annotations of pods that have a meaning for the server: `ValidatePodSpecificAnnotations` and the functions that
//! compare them with fields and with the old object, in `pkg/apis/core/validation/validation.go`. PURE.

use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, non_null, spec_of, str_field};
use crate::metadata;
use crate::registry::core::pod::paths;
use crate::registry::core::pod::profiles::{APP_ARMOR, CONTAINER_SECCOMP, CONTAINERS, POD_SECCOMP, profile};
use crate::status::go_quote;

const METADATA: Path<'static> = Path::new("metadata");

const MIRROR: &str = "kubernetes.io/config.mirror";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Validates the annotations of a pod or a template at `path`.
pub(super) fn validate(pod: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(annotations) = metadata::annotations(pod) else { return };
    let value = |key: &str| annotations.get(key).and_then(Value::as_str);
    if let Some(mirror) = value(MIRROR).filter(|_| str_field(spec_of(pod), "nodeName").is_empty()) {
        errors.invalid(&path.key(MIRROR), mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    let is_number =
        |text: &str| text.parse::<i32>().is_ok_and(|_| !text.starts_with('+') && !text.starts_with('0') || text == "0");
    if let Some(cost) = value(COST).filter(|cost| !is_number(cost)) {
        errors.invalid(&path.key(COST), cost, "must be a 32bit integer");
    }
    for (key, value) in annotations {
        let value = value.as_str().unwrap_or_default();
        if key == POD_SECCOMP || key.starts_with(CONTAINER_SECCOMP) {
            seccomp_profile(value, &path.child(key), errors);
        } else if let Some(container) = key.strip_prefix(APP_ARMOR) {
            app_armor_profile(pod, container, value, &path.key(key), errors);
        }
    }
}

fn seccomp_profile(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if matches!(value, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match value.strip_prefix("localhost/") {
        Some(file) => paths::descending_path(file, path, errors),
        None => errors.invalid(path, value, "must be a valid seccomp profile"),
    }
}

fn app_armor_profile(pod: &Value, container: &str, value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut all = CONTAINERS.iter().flat_map(|list| array_field(spec_of(pod), list));
    if all.all(|one| str_field(one, "name") != container) {
        errors.invalid(path, container, "container not found");
    }
    if !matches!(value, "" | "runtime/default" | "unconfined") && !value.starts_with("localhost/") {
        errors.invalid(path, value, format!("invalid AppArmor profile name: {}", go_quote(value)));
    }
}

/// Validates the change of a pod's annotations: `ValidatePodSpecificAnnotationUpdates`.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = METADATA.child("annotations");
    let fixed = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        _ if key.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    for (key, value) in metadata::annotations(old).into_iter().flatten() {
        if let Some(what) = fixed(key).filter(|_| metadata::annotation(new, key) != value.as_str()) {
            errors.forbidden(&path.key(key), format!("may not remove or update {what}"));
        }
    }
    for (key, _) in metadata::annotations(new).into_iter().flatten() {
        if let Some(what) = fixed(key).filter(|_| metadata::annotation(old, key).is_none()) {
            errors.forbidden(&path.key(key), format!("may not add {what}"));
        }
    }
    validate(new, &path, errors);
}

/// Requires annotations with profiles to agree with the fields of a new pod or a template, whose spec is at `path`:
/// `validateSeccompAnnotationsAndFields` and `validateAppArmorAnnotationsAndFieldsMatchOnCreate`.
pub(super) fn match_fields(pod: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let spec = spec_of(pod);
    let field = "seccompProfile";
    if let (Some(wanted), Some(annotation)) = (profile(spec, field), metadata::annotation(pod, POD_SECCOMP)) {
        match_profile("seccomp", annotation, wanted, &path.child("securityContext").child(field), errors);
    }
    match_containers(pod, path, ("seccomp", field, CONTAINER_SECCOMP), None, errors);
    if spec["os"]["name"] != "windows" {
        let field = "appArmorProfile";
        match_containers(pod, path, ("apparmor", field, APP_ARMOR), profile(spec, field), errors);
    }
}

/// Requires the annotations of containers with this prefix to agree with this field, or with the pod's profile.
fn match_containers(
    pod: &Value,
    path: &Path<'_>,
    (kind, field, prefix): (&str, &str, &str),
    of_pod: Option<&Value>,
    errors: &mut ErrorList,
) {
    for list in CONTAINERS {
        let all = path.child(list);
        for (index, container) in array_field(spec_of(pod), list).iter().enumerate() {
            let annotation = metadata::annotation(pod, &format!("{prefix}{}", str_field(container, "name")));
            let wanted = profile(container, field).or(of_pod);
            let (Some(wanted), Some(annotation)) = (wanted, annotation) else { continue };
            let container = all.index(index);
            match_profile(kind, annotation, wanted, &container.child("securityContext").child(field), errors);
        }
    }
}

fn match_profile(kind: &str, annotation: &str, field: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let same_type = match str_field(field, "type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => annotation == "runtime/default" || kind == "seccomp" && annotation == "docker/default",
        "Localhost" => annotation.starts_with("localhost/"),
        _ => return,
    };
    if !same_type {
        errors.forbidden(&path.child("type"), format!("{kind} type in annotation and field must match"));
    } else if let Some(profile) = annotation.strip_prefix("localhost/")
        && non_null(field, "localhostProfile").is_none_or(|known| known != profile)
    {
        let why = format!("{kind} profile in annotation and field must match");
        errors.forbidden(&path.child("localhostProfile"), why);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::json::json;

    fn texts(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    /// `TestValidatePod` and `TestValidateSeccompAnnotationsAndFieldsMatch` next to upstream's file.
    #[rstest]
    #[case::same(json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a"}}),
        json!({"container.seccomp.security.alpha.kubernetes.io/c": "localhost/a"}), &[])]
    #[case::other_type(json!({"seccompProfile": {"type": "Unconfined"}}),
        json!({"container.seccomp.security.alpha.kubernetes.io/c": "runtime/default"}),
        &["spec.containers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"])]
    #[case::other_profile(json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}}),
        json!({"container.apparmor.security.beta.kubernetes.io/c": "localhost/b"}),
        &["spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and field must match"])]
    fn profiles_agree(#[case] context: Value, #[case] annotations: Value, #[case] expected: &[&str]) {
        let pod = json!({"metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "c", "securityContext": context}]}});
        let mut errors = ErrorList::new();
        match_fields(&pod, &Path::new("spec"), &mut errors);
        assert_eq!(texts(&errors), expected);
    }

    #[test]
    fn profiles_belong_to_containers() {
        let pod = json!({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/d": "x"}},
            "spec": {"containers": [{"name": "c"}]}});
        let mut errors = ErrorList::new();
        validate(&pod, &METADATA.child("annotations"), &mut errors);
        let path = "metadata.annotations[container.apparmor.security.beta.kubernetes.io/d]";
        let expected = [
            format!("{path}: Invalid value: \"d\": container not found"),
            format!("{path}: Invalid value: \"x\": invalid AppArmor profile name: \"x\""),
        ];
        assert_eq!(texts(&errors), expected);
    }

    /// `TestValidatePodUpdate`.
    #[rstest]
    #[case::added(json!({}), json!({MIRROR: "x"}), &["may not add mirror pod annotation"])]
    #[case::changed(json!({MIRROR: "x"}), json!({MIRROR: "y"}), &["may not remove or update mirror pod annotation"])]
    #[case::other(json!({"a": "b"}), json!({}), &[])]
    fn annotations_stay(#[case] old: Value, #[case] new: Value, #[case] expected: &[&str]) {
        let pod = |annotations: Value| json!({"metadata": {"annotations": annotations}, "spec": {"nodeName": "n"}});
        let mut errors = ErrorList::new();
        validate_update(&pod(new), &pod(old), &mut errors);
        assert_eq!(errors.iter().map(|error| error.detail.as_str()).collect::<Vec<_>>(), expected);
    }
}
