//! The roles and bindings of a new cluster, from the table `roles.txt`, one object per line. Upstream defines them in
//! `plugin/pkg/auth/authorizer/rbac/bootstrappolicy` of Kubernetes 1.36.
//!
//! ```text
//! Kind [namespace/]name [+label …] = verbs groups resources [names]; verbs @ paths; …     rules of a role
//! Kind [namespace/]name [+label …] = *label                                               a role aggregated by label
//! Kind [namespace/]name > Kind role = Kind [namespace/]name; …                            subjects of a binding
//! ```
//!
//! Labels are those of `rbac.authorization.k8s.io`, with the value `true`; the core group is written `core`.

use serde_json::{Map, Value, json};

use super::field_ownership::{MANAGER, field_set, labels, manager_entry};

const TABLE: &str = include_str!("roles.txt");
const GROUP: &str = "rbac.authorization.k8s.io";
const DEFAULTS: &str = "kubernetes.io/bootstrapping";
const UPDATED: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Returns all of these objects.
pub(super) fn objects() -> Vec<Value> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| object(line).unwrap_or_else(|| panic!("unreadable line: {line}"))).collect()
}

fn object(line: &str) -> Option<Value> {
    let (head, body) = line.split_once(" = ").or_else(|| Some((line.strip_suffix(" =")?, "")))?;
    let (head, role) = head.split_once(" > ").map_or((head, None), |(head, role)| (head, Some(role)));
    let mut words = head.split(' ');
    let kind = words.next()?;
    let full_name = words.next()?;
    let (namespace, name) = full_name.split_once('/').map_or((None, full_name), |(space, name)| (Some(space), name));
    let mut marks = Map::from_iter([(DEFAULTS.to_owned(), "rbac-defaults".into())]);
    for word in words {
        marks.insert(format!("{GROUP}/{}", word.strip_prefix('+')?), "true".into());
    }
    let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind,
        "metadata": {"name": name, "annotations": {UPDATED: "true"}}});
    let owned = match (role, body.strip_prefix('*').filter(|label| !label.contains(' '))) {
        (Some(role), _) => {
            let (kind, name) = role.split_once(' ')?;
            object["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": name});
            if body.is_empty() {
                vec!["roleRef"]
            } else {
                object["subjects"] = body.split("; ").map(subject).collect::<Option<Vec<_>>>()?.into();
                vec!["roleRef", "subjects"]
            }
        }
        (None, Some(label)) => {
            let label = format!("{GROUP}/{label}");
            object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
            object["rules"] = Value::Null;
            vec![]
        }
        (None, None) => {
            object["rules"] = body.split("; ").map(rule).collect::<Option<Vec<_>>>()?.into();
            vec!["rules"]
        }
    };
    let mut owned = field_set(&owned);
    if object.get("aggregationRule").is_some() {
        owned["f:aggregationRule"] = json!({".": {}, "f:clusterRoleSelectors": {}});
    }
    let names: Vec<&str> = marks.keys().map(String::as_str).collect();
    let mut metadata = labels(&names);
    let mut annotations = field_set(&[UPDATED]);
    annotations["."] = json!({});
    metadata["f:annotations"] = annotations;
    owned["f:metadata"] = metadata;
    object["metadata"]["managedFields"] = manager_entry(MANAGER, owned);
    object["metadata"]["labels"] = marks.into();
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    Some(object)
}

fn list(text: &str) -> Value {
    text.split(',').map(|item| if item == "core" { "" } else { item }).collect()
}

fn rule(text: &str) -> Option<Value> {
    let words: Vec<&str> = text.split(' ').collect();
    Some(match words[..] {
        [verbs, "@", paths] => json!({"verbs": list(verbs), "nonResourceURLs": list(paths)}),
        [verbs, groups, resources] => {
            json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)})
        }
        [verbs, groups, resources, names] => {
            let names = list(names);
            json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources), "resourceNames": names})
        }
        _ => return None,
    })
}

fn subject(text: &str) -> Option<Value> {
    let (kind, name) = text.split_once(' ')?;
    Some(match name.split_once('/') {
        Some((namespace, name)) => json!({"kind": kind, "name": name, "namespace": namespace}),
        None => json!({"kind": kind, "apiGroup": GROUP, "name": name}),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rules_of(line: &str) -> Value {
        object(line).expect("readable")["rules"].clone()
    }

    #[test]
    fn every_line_is_read_and_every_role_that_is_bound_is_there() {
        let objects = objects();
        assert_eq!(objects.len(), 133);
        let id = |kind: &Value, namespace: &Value, name: &Value| format!("{kind} {namespace} {name}");
        let known: Vec<String> =
            objects.iter().map(|o| id(&o["kind"], &o["metadata"]["namespace"], &o["metadata"]["name"])).collect();
        for binding in objects.iter().filter(|object| object.get("roleRef").is_some()) {
            let role = &binding["roleRef"];
            let space = if role["kind"] == "Role" { &binding["metadata"]["namespace"] } else { &Value::Null };
            assert!(known.contains(&id(&role["kind"], space, &role["name"])), "{role}");
        }
    }

    #[rstest]
    #[case("ClusterRole a = get core,apps pods x; get @ /healthz", json!([
        {"verbs": ["get"], "apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["x"]},
        {"verbs": ["get"], "nonResourceURLs": ["/healthz"]},
    ]))]
    #[case("ClusterRole a = * * *; * @ *", json!([
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]))]
    #[case("ClusterRole a = *aggregate-to-view", Value::Null)]
    fn rules_are_read(#[case] line: &str, #[case] rules: Value) {
        assert_eq!(rules_of(line), rules);
    }

    #[test]
    fn a_binding_is_read() {
        let binding = object("RoleBinding n/b > Role r = ServiceAccount m/s; Group g").expect("readable");
        assert_eq!(binding["metadata"]["namespace"], "n");
        assert_eq!(binding["roleRef"], json!({"apiGroup": GROUP, "kind": "Role", "name": "r"}));
        let subjects = json!([{"kind": "ServiceAccount", "name": "s", "namespace": "m"}, {"kind": "Group", "apiGroup": GROUP, "name": "g"}]);
        assert_eq!(binding["subjects"], subjects);
    }
}
