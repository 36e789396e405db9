//! RBAC: authorizes by the stored roles and bindings of `rbac.authorization.k8s.io`.
//!
//! Follows `plugin/pkg/auth/authorizer/rbac/rbac.go` of Kubernetes 1.36.

use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::server::ApiServer;
use crate::status::{GroupResource, Status};
use crate::store::ResourceId;

/// The API group of roles and bindings.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";
/// Members of this group may do everything; no role is consulted.
pub(super) const MASTERS: &str = "system:masters";

/// A binding that applies to a user.
struct RoleBindingMatch<'s> {
    /// `ClusterRoleBinding` or `RoleBinding`.
    kind: &'static str,
    /// The namespace to which it applies; empty for all.
    scope: &'s str,
    binding: Value,
    /// The subject of the binding that matches the user.
    subject: Value,
    /// The rules of the role, or the reason why there are none.
    rules: Result<Vec<Value>, Status>,
}

impl RoleBindingMatch<'_> {
    fn rules(&self) -> &[Value] {
        self.rules.as_deref().unwrap_or_default()
    }
}

/// Returns the status of an access review with this spec.
pub(super) fn authorize(server: &ApiServer, spec: &Value) -> Value {
    let groups: Vec<&str> = array_field(spec, "groups").iter().filter_map(Value::as_str).collect();
    if groups.contains(&MASTERS) {
        return json!({"allowed": true});
    }
    let namespace = spec.pointer("/resourceAttributes/namespace").and_then(Value::as_str).unwrap_or_default();
    let mut all = matching_bindings(server, (str_field(spec, "user"), &groups), namespace);
    match all.find(|one| one.rules().iter().any(|rule| rule_allows(rule, spec))) {
        Some(one) => json!({"allowed": true, "reason": explain(one.kind, one.scope, &one.binding, &one.subject)}),
        None => json!({"allowed": false}),
    }
}

/// Returns the rules that apply to a user in a namespace: resource rules and non-resource rules.
pub(super) fn rules_of(server: &ApiServer, user: (&str, &[&str]), namespace: &str) -> (Vec<Value>, Vec<Value>) {
    let part = |rule: &Value, fields: &[&str]| {
        let given = |field: &&&str| !array_field(rule, field).is_empty();
        fields.iter().filter(given).map(|field| ((*field).to_owned(), rule[*field].clone())).collect::<Value>()
    };
    let mut resources = Vec::new();
    let mut paths = Vec::new();
    for one in matching_bindings(server, user, namespace) {
        for rule in one.rules() {
            if !array_field(rule, "resources").is_empty() {
                resources.push(part(rule, &["verbs", "apiGroups", "resources", "resourceNames"]));
            }
            if !array_field(rule, "nonResourceURLs").is_empty() {
                paths.push(part(rule, &["verbs", "nonResourceURLs"]));
            }
        }
    }
    (resources, paths)
}

/// Returns the whole rules that apply to a user in a namespace, and the errors of bindings whose role does not exist.
pub(super) fn all_rules_of(server: &ApiServer, user: (&str, &[&str]), namespace: &str) -> (Vec<Value>, Vec<Status>) {
    let mut rules = Vec::new();
    let mut errors = Vec::new();
    for one in matching_bindings(server, user, namespace) {
        match one.rules {
            Ok(own) => rules.extend(own),
            Err(error) => errors.push(error),
        }
    }
    (rules, errors)
}

/// Returns the bindings that apply to a user (name and groups) in a namespace, cluster role bindings first.
fn matching_bindings<'s>(
    server: &'s ApiServer,
    (user, groups): (&'s str, &'s [&'s str]),
    namespace: &'s str,
) -> impl Iterator<Item = RoleBindingMatch<'s>> + 's {
    let own = Some(("rolebindings", "RoleBinding", namespace)).filter(|_| !namespace.is_empty());
    let scopes = std::iter::once(("clusterrolebindings", "ClusterRoleBinding", "")).chain(own);
    scopes.flat_map(move |(resource, kind, scope)| {
        let within = Some(scope).filter(|scope| !scope.is_empty());
        let bindings = server.list(&ResourceId::new(GROUP, resource), within).into_iter();
        bindings.filter_map(move |binding| {
            let binding = binding.value();
            let subject =
                array_field(&binding, "subjects").iter().find(|one| subject_matches(one, user, groups, scope))?.clone();
            let rules = referenced_rules(server, &binding["roleRef"], scope);
            Some(RoleBindingMatch { kind, scope, binding, subject, rules })
        })
    })
}

/// Returns true if a subject of a binding matches the user. Service accounts without a namespace belong to `scope`.
fn subject_matches(subject: &Value, user: &str, groups: &[&str], scope: &str) -> bool {
    let name = str_field(subject, "name");
    match str_field(subject, "kind") {
        "User" => name == user,
        "Group" => groups.contains(&name),
        "ServiceAccount" => match account_namespace(subject, scope) {
            "" => false,
            namespace => user == format!("system:serviceaccount:{namespace}:{name}"),
        },
        _ => false,
    }
}

fn account_namespace<'a>(subject: &'a Value, scope: &'a str) -> &'a str {
    match str_field(subject, "namespace") {
        "" => scope,
        namespace => namespace,
    }
}

/// Returns the rules of the role that a binding refers to; `namespace` is the binding's.
pub(super) fn referenced_rules(server: &ApiServer, role: &Value, namespace: &str) -> Result<Vec<Value>, Status> {
    let (resource, namespace) = match str_field(role, "kind") {
        "Role" if namespace.is_empty() => return Err(Status::bad_request("Namespace parameter required.")),
        "Role" => ("roles", namespace),
        "ClusterRole" => ("clusterroles", ""),
        kind => return Err(Status::untyped_error(format!("unsupported role reference kind: {kind:?}"))),
    };
    let name = str_field(role, "name");
    match server.get(&ResourceId::new(GROUP, resource), namespace, name) {
        Some(role) => Ok(array_field(&role.value(), "rules").to_vec()),
        None => Err(Status::not_found(GroupResource::new(GROUP, resource), name)),
    }
}

fn rule_allows(rule: &Value, spec: &Value) -> bool {
    let holds = |field: &str, wanted: &str| array_field(rule, field).iter().any(|one| one == "*" || one == wanted);
    if let Some(path) = spec.get("nonResourceAttributes").filter(|part| !part.is_null()) {
        let wanted = str_field(path, "path");
        let fits = |url: &str| url == wanted || url.strip_suffix('*').is_some_and(|start| wanted.starts_with(start));
        let urls = array_field(rule, "nonResourceURLs");
        return holds("verbs", str_field(path, "verb")) && urls.iter().filter_map(Value::as_str).any(fits);
    }
    let part = &spec["resourceAttributes"];
    let resource = str_field(part, "resource");
    let sub = str_field(part, "subresource");
    let whole = if sub.is_empty() { resource.to_owned() } else { format!("{resource}/{sub}") };
    let names = array_field(rule, "resourceNames");
    holds("verbs", str_field(part, "verb"))
        && holds("apiGroups", str_field(part, "group"))
        && (holds("resources", &whole) || (!sub.is_empty() && holds("resources", &format!("*/{sub}"))))
        && (names.is_empty() || names.iter().any(|name| name == str_field(part, "name")))
}

fn explain(kind: &str, namespace: &str, binding: &Value, subject: &Value) -> String {
    let name = metadata::name(binding);
    let place = if namespace.is_empty() { name.to_owned() } else { format!("{name}/{namespace}") };
    let role = &binding["roleRef"];
    let who = match str_field(subject, "kind") {
        "ServiceAccount" => {
            format!("ServiceAccount \"{}/{}\"", str_field(subject, "name"), account_namespace(subject, namespace))
        }
        kind => format!("{kind} {:?}", str_field(subject, "name")),
    };
    let role_kind = str_field(role, "kind");
    let role = str_field(role, "name");
    format!("RBAC: allowed by {kind} {place:?} of {role_kind} {role:?} to {who}")
}
