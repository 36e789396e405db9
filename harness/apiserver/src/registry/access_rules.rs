//! Validation of roles and role bindings. See `pkg/apis/rbac/validation/validation.go`. PURE.

use super::checks;
use super::label_selector::{self, array_field};
use super::{meta, names};
use crate::field_errors::{ErrorList, Path};
use crate::json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";
const SUBJECT_KINDS: [&str; 3] = ["ServiceAccount", "User", "Group"];

fn segment(text: &str) -> Vec<String> {
    names::path_segment(text, false)
}

/// Validates a role.
pub(super) fn role(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    rules(object, true, &mut errors);
    errors
}

/// Validates a cluster role.
pub(super) fn cluster_role(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    rules(object, false, &mut errors);
    let Some(aggregation) = meta::non_null(object, "aggregationRule") else { return errors };
    let root = Path::new("aggregationRule");
    let path = root.child("clusterRoleSelectors");
    let selectors = array_field(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        errors.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        let wrong = label_selector::validate(Some(selector), false, &path.index(index));
        if !wrong.is_empty() {
            errors.append(wrong);
            errors.invalid(&path.index(index), Value::Null, "invalid label selector.");
        }
    }
    errors
}

fn rules(object: &Value, namespaced: bool, errors: &mut ErrorList) {
    let root = Path::new("rules");
    for (index, rule) in array_field(object, "rules").iter().enumerate() {
        let path = root.index(index);
        let given = |field: &str| !array_field(rule, field).is_empty();
        if !given("verbs") {
            errors.required(&path.child("verbs"), "verbs must contain at least one value");
        }
        if given("nonResourceURLs") {
            let path = path.child("nonResourceURLs");
            if namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(&path, &rule["nonResourceURLs"], why);
            }
            if given("apiGroups") || given("resources") || given("resourceNames") {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&path, &rule["nonResourceURLs"], why);
            }
            continue;
        }
        if !given("apiGroups") {
            errors.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if !given("resources") {
            errors.required(&path.child("resources"), "resource rules must supply at least one resource");
        }
    }
}

/// Validates a role binding.
pub(super) fn role_binding(object: &Value) -> ErrorList {
    binding(object, true)
}

/// Validates a cluster role binding.
pub(super) fn cluster_role_binding(object: &Value) -> ErrorList {
    binding(object, false)
}

/// Validates an update of a binding: the role stays (`pkg/apis/rbac/validation/validation.go`).
pub(super) fn role_stays(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if new["roleRef"] != old["roleRef"] {
        let part = |field: &str| meta::str_field(&new["roleRef"], field);
        // Go prints the internal type, whose fields have no JSON names.
        let role = json!({"APIGroup": part("apiGroup"), "Kind": part("kind"), "Name": part("name")});
        errors.invalid(&Path::new("roleRef"), role, "cannot change roleRef");
    }
    errors
}

fn binding(object: &Value, namespaced: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let (role, path) = (&object["roleRef"], Path::new("roleRef"));
    let group = meta::str_field(role, "apiGroup");
    if group != GROUP {
        errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = meta::str_field(role, "kind");
    if !kinds.contains(&kind) {
        errors.not_supported(&path.child("kind"), kind, kinds);
    }
    checks::required_format(role, "name", segment, &path, &mut errors);
    let subjects = Path::new("subjects");
    for (index, one) in array_field(object, "subjects").iter().enumerate() {
        subject(one, namespaced, &subjects.index(index), &mut errors);
    }
    errors
}

fn subject(subject: &Value, namespaced: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let text = |field: &str| meta::str_field(subject, field);
    if text("name").is_empty() {
        errors.required(&path.child("name"), "");
    }
    let group = text("apiGroup");
    match text("kind") {
        "ServiceAccount" => {
            if !text("name").is_empty() {
                checks::format(text("name"), names::dns1123_subdomain, &path.child("name"), errors);
            }
            if !group.is_empty() {
                errors.not_supported(&path.child("apiGroup"), group, &[""]);
            }
            if !namespaced && text("namespace").is_empty() {
                errors.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" if group != GROUP => errors.not_supported(&path.child("apiGroup"), group, &[GROUP]),
        "User" | "Group" => {}
        kind => errors.not_supported(&path.child("kind"), kind, &SUBJECT_KINDS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Answers of kube-apiserver 1.36.2.
    #[rstest]
    #[case::both(
        json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/x"]}]}),
        &[r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#,
            r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#]
    )]
    #[case::nothing(
        json!({"rules": [{}]}),
        &["rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource"]
    )]
    #[case::fine(json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}), &[])]
    fn roles(#[case] object: Value, #[case] expected: &[&str]) {
        let described: Vec<String> = role(&object).iter().map(ToString::to_string).collect();
        assert_eq!(described, expected);
    }

    #[test]
    fn a_cluster_role_binding_names_a_cluster_role() {
        let object = json!({"roleRef": {"apiGroup": "x", "kind": "Role", "name": "a"},
            "subjects": [{"kind": "Robot", "name": "r"}, {"kind": "ServiceAccount", "name": "s"}]});
        let described: Vec<String> = cluster_role_binding(&object).iter().map(ToString::to_string).collect();
        assert_eq!(
            described,
            [
                r#"roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
                r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#,
                r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
                "subjects[1].namespace: Required value",
            ]
        );
    }
}
