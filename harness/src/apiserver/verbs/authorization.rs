//! Who may do what, by the stored roles and bindings of `rbac.authorization.k8s.io`.
//!
//! Source: `plugin/pkg/auth/authorizer/rbac` of Kubernetes 1.36.

use serde_json::{Value, json};

use crate::apiserver::kinds::meta;
use crate::apiserver::kinds::selector::array;
use crate::apiserver::server::ApiServer;
use crate::apiserver::store::ResourceId;

const GROUP: &str = "rbac.authorization.k8s.io";
/// Members may do everything, without a look at any role.
const MASTERS: &str = "system:masters";

/// The status of an access review with this spec.
pub(super) fn decide(server: &ApiServer, spec: &Value) -> Value {
    let groups: Vec<&str> = array(spec, "groups").iter().filter_map(Value::as_str).collect();
    if groups.contains(&MASTERS) {
        return json!({"allowed": true});
    }
    let user = meta::text(spec, "user");
    let namespace = spec.pointer("/resourceAttributes/namespace").and_then(Value::as_str).unwrap_or_default();
    let mut scopes = vec![("clusterrolebindings", "ClusterRoleBinding", "")];
    if !namespace.is_empty() {
        scopes.push(("rolebindings", "RoleBinding", namespace));
    }
    for (resource, kind, scope) in scopes {
        let within = Some(scope).filter(|scope| !scope.is_empty());
        for binding in server.list(&ResourceId::new(GROUP, resource), within) {
            let binding = binding.value();
            let Some(subject) = array(&binding, "subjects").iter().find(|one| is_meant(one, user, &groups)) else {
                continue;
            };
            if rules(server, &binding["roleRef"], scope).iter().any(|rule| allows(rule, spec)) {
                let reason = explain(kind, scope, &binding, subject);
                return json!({"allowed": true, "reason": reason});
            }
        }
    }
    json!({"allowed": false})
}

fn is_meant(subject: &Value, user: &str, groups: &[&str]) -> bool {
    let name = meta::text(subject, "name");
    match meta::text(subject, "kind") {
        "User" => name == user,
        "Group" => groups.contains(&name),
        "ServiceAccount" => user == format!("system:serviceaccount:{}:{name}", meta::text(subject, "namespace")),
        _ => false,
    }
}

fn rules(server: &ApiServer, role: &Value, namespace: &str) -> Vec<Value> {
    let (resource, namespace) = match meta::text(role, "kind") {
        "Role" => ("roles", namespace),
        _ => ("clusterroles", ""),
    };
    let found = server.get(&ResourceId::new(GROUP, resource), namespace, meta::text(role, "name"));
    found.map_or_else(Vec::new, |role| array(&role.value(), "rules").to_vec())
}

fn allows(rule: &Value, spec: &Value) -> bool {
    let holds = |field: &str, wanted: &str| array(rule, field).iter().any(|one| one == "*" || one == wanted);
    if let Some(path) = spec.get("nonResourceAttributes").filter(|part| !part.is_null()) {
        let wanted = meta::text(path, "path");
        let fits = |url: &str| url == wanted || url.strip_suffix('*').is_some_and(|start| wanted.starts_with(start));
        let urls = array(rule, "nonResourceURLs");
        return holds("verbs", meta::text(path, "verb")) && urls.iter().filter_map(Value::as_str).any(fits);
    }
    let part = &spec["resourceAttributes"];
    let (resource, sub) = (meta::text(part, "resource"), meta::text(part, "subresource"));
    let whole = if sub.is_empty() { resource.to_owned() } else { format!("{resource}/{sub}") };
    let names = array(rule, "resourceNames");
    holds("verbs", meta::text(part, "verb"))
        && holds("apiGroups", meta::text(part, "group"))
        && (holds("resources", &whole) || (!sub.is_empty() && holds("resources", &format!("*/{sub}"))))
        && (names.is_empty() || names.iter().any(|name| name == meta::text(part, "name")))
}

fn explain(kind: &str, namespace: &str, binding: &Value, subject: &Value) -> String {
    let name = meta::name(binding);
    let place = if namespace.is_empty() { name.to_owned() } else { format!("{name}/{namespace}") };
    let role = &binding["roleRef"];
    let who = match meta::text(subject, "kind") {
        "ServiceAccount" => {
            format!("ServiceAccount \"{}/{}\"", meta::text(subject, "name"), meta::text(subject, "namespace"))
        }
        kind => format!("{kind} {:?}", meta::text(subject, "name")),
    };
    let (role_kind, role) = (meta::text(role, "kind"), meta::text(role, "name"));
    format!("RBAC: allowed by {kind} {place:?} of {role_kind} {role:?} to {who}")
}
