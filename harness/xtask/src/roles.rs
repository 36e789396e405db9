//! The table of roles and bindings that kube-apiserver creates when it starts (`bootstrap/roles.txt`), from the
//! expected output of upstream's tests. `bootstrap/roles.rs` has the notation.

use serde_json::Value;

use crate::source::{Checkout, Error};

/// Folder of upstream's expected output.
const FOLDER: &str = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata";

/// Files there. `cluster-roles-featuregates.yaml` is for feature gates that are off by default.
const FILES: [&str; 6] = [
    "cluster-roles",
    "controller-roles",
    "namespace-roles",
    "cluster-role-bindings",
    "controller-role-bindings",
    "namespace-role-bindings",
];

/// Kinds in the table's order.
const KINDS: [&str; 4] = ["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"];

const GROUP: &str = "rbac.authorization.k8s.io/";

/// Roles and bindings that the fork `openshift/kubernetes` adds; a checkout of the fork serves as well as upstream's.
const FOREIGN_NAMES: [&str; 2] = ["system:openshift:", "system:controller:service-ca-cert-publisher"];

/// A resource in rules that the fork adds, for an admission plugin of its own.
const FOREIGN_RESOURCE: &str = "endpointslices/restricted";

/// The text of the table.
pub(crate) fn table(checkout: &Checkout, header: &str) -> Result<String, Error> {
    let mut objects = Vec::new();
    for file in FILES {
        let path = format!("{FOLDER}/{file}.yaml");
        let Value::Array(items) = checkout.yaml(&path)?["items"].take() else {
            return Err(Error::input(path, "no items"));
        };
        objects.extend(items);
    }
    let mut lines = Vec::new();
    for object in &objects {
        let name = name(object);
        if FOREIGN_NAMES.iter().any(|foreign| name.starts_with(foreign)) {
            continue;
        }
        let kind = text(&object["kind"]);
        let rank = KINDS.iter().position(|known| *known == kind);
        let line = line(object).ok_or_else(|| Error::input(format!("{kind} {name}"), "not as the table can say it"))?;
        lines.push((rank, name, line));
    }
    lines.sort();
    let lines: Vec<&str> = lines.iter().map(|(.., line)| line.as_str()).collect();
    Ok(format!("# {header} roles.rs has the notation.\n{}\n", lines.join("\n")))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The name with its namespace.
fn name(object: &Value) -> String {
    let name = text(&object["metadata"]["name"]);
    object["metadata"]["namespace"].as_str().map_or_else(|| name.to_owned(), |space| format!("{space}/{name}"))
}

/// The line of an object; `None` if the notation lacks something that it has.
fn line(object: &Value) -> Option<String> {
    let metadata = object["metadata"].as_object()?;
    let known = ["annotations", "creationTimestamp", "labels", "name", "namespace"];
    let annotations: Vec<&String> = metadata.get("annotations")?.as_object()?.keys().collect();
    if metadata.keys().any(|key| !known.contains(&key.as_str()))
        || annotations != ["rbac.authorization.kubernetes.io/autoupdate"]
    {
        return None;
    }
    let mut head = format!("{} {}", text(&object["kind"]), name(object));
    for label in metadata.get("labels")?.as_object()?.keys().filter(|label| *label != "kubernetes.io/bootstrapping") {
        head.push_str(" +");
        head.push_str(label.strip_prefix(GROUP)?);
    }
    let body = if let Some(role) = object.get("roleRef") {
        head = format!("{head} > {} {}", text(&role["kind"]), text(&role["name"]));
        all(object["subjects"].as_array().into_iter().flatten(), subject)?
    } else if let Some(gathered) = object.get("aggregationRule") {
        format!("*{}", label_of(gathered)?)
    } else {
        let own = |rule: &&Value| rule["resources"][0] != FOREIGN_RESOURCE;
        all(object["rules"].as_array().into_iter().flatten().filter(own), rule)?
    };
    Some(if body.is_empty() { format!("{head} =") } else { format!("{head} = {body}") })
}

fn all<'a>(list: impl Iterator<Item = &'a Value>, written: impl Fn(&Value) -> Option<String>) -> Option<String> {
    let parts: Option<Vec<String>> = list.map(written).collect();
    parts.map(|parts| parts.join("; "))
}

/// The only label of the only selector.
fn label_of(gathered: &Value) -> Option<&str> {
    let [selector] = &gathered["clusterRoleSelectors"].as_array()?[..] else { return None };
    let labels: Vec<&String> = selector["matchLabels"].as_object()?.keys().collect();
    let [label] = labels[..] else { return None };
    label.strip_prefix(GROUP)
}

fn rule(rule: &Value) -> Option<String> {
    let list = |field: &str| -> Option<String> {
        let items = rule.get(field)?.as_array()?;
        let items: Vec<&str> =
            items.iter().map(|item| if text(item).is_empty() { "core" } else { text(item) }).collect();
        Some(items.join(","))
    };
    let verbs = list("verbs")?;
    Some(match (list("nonResourceURLs"), list("resourceNames")) {
        (Some(paths), None) if rule.get("resources").is_none() => format!("{verbs} @ {paths}"),
        (None, Some(names)) => format!("{verbs} {} {} {names}", list("apiGroups")?, list("resources")?),
        (None, None) => format!("{verbs} {} {}", list("apiGroups")?, list("resources")?),
        _ => return None,
    })
}

fn subject(subject: &Value) -> Option<String> {
    let kind = text(&subject["kind"]);
    let name = text(&subject["name"]);
    match subject.get("namespace").and_then(Value::as_str) {
        Some(namespace) => Some(format!("{kind} {namespace}/{name}")),
        // The reader takes a slash for the namespace's end.
        None => (!name.contains('/')).then(|| format!("{kind} {name}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(name: &str) -> Value {
        json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}})
    }

    #[test]
    fn roles_and_bindings_are_written() {
        let mut role = json!({"kind": "ClusterRole", "metadata": metadata("a"), "rules": [
            {"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get", "list"], "resourceNames": ["x"]},
            {"nonResourceURLs": ["/healthz"], "verbs": ["get"]},
        ]});
        assert_eq!(line(&role).as_deref(), Some("ClusterRole a = get,list core,apps pods x; get @ /healthz"));
        role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] = json!("true");
        role["rules"] = Value::Null;
        assert_eq!(line(&role).as_deref(), Some("ClusterRole a +aggregate-to-view ="));
        role["aggregationRule"] =
            json!({"clusterRoleSelectors": [{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}]});
        assert_eq!(line(&role).as_deref(), Some("ClusterRole a +aggregate-to-view = *aggregate-to-edit"));
        let mut binding = json!({"kind": "RoleBinding", "metadata": metadata("b"),
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
        binding["metadata"]["namespace"] = json!("m");
        assert_eq!(line(&binding).as_deref(), Some("RoleBinding m/b > Role r = User u; ServiceAccount n/s"));
    }

    #[test]
    fn an_unknown_annotation_is_an_error() {
        let mut role = json!({"kind": "Role", "metadata": metadata("a"), "rules": []});
        role["metadata"]["annotations"]["other"] = json!("x");
        assert_eq!(line(&role), None);
    }
}
