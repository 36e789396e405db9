//! Roles and bindings grant only what their author has: refuses a role with rules that the user does not hold, and a
//! binding to such a role, unless the user may `escalate` or `bind`.
//!
//! Follows `pkg/registry/rbac/{role,rolebinding,clusterrole,clusterrolebinding}/policybased/storage.go`,
//! `pkg/registry/rbac/validation` and `staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go`
//! of Kubernetes 1.36.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::authorization::{self, DISCOVERY, PUBLIC};
use super::impersonation::{AUTHENTICATED, EffectiveUser};
use super::rbac;
use super::request_scope::RequestScope;
use crate::json::fields::{array_field, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::request::ResourcePath;
use crate::status::{GroupResource, Status};

/// Refuses a new role or binding, or an update (`old`), that grants what its author does not hold. Other kinds pass.
pub(super) fn check(scope: &RequestScope<'_>, new: &Value, old: Option<&Value>) -> Result<(), Status> {
    if scope.kind.group != rbac::GROUP {
        return Ok(());
    }
    let Some(user) = authorization::limited_user(scope.parsed) else { return Ok(()) };
    if user.groups.iter().any(|group| group == rbac::MASTERS) {
        return Ok(());
    }
    let change = RoleChange { scope, user, new };
    match &*scope.kind.plural {
        "roles" | "clusterroles" => change.check_role(old),
        "rolebindings" | "clusterrolebindings" => change.check_binding(old),
        _ => Ok(()),
    }
}

/// A write of a role or binding by a user who has not all rights.
struct RoleChange<'a> {
    scope: &'a RequestScope<'a>,
    user: Cow<'a, EffectiveUser>,
    new: &'a Value,
}

impl RoleChange<'_> {
    fn check_role(&self, old: Option<&Value>) -> Result<(), Status> {
        if authorization::authorize_verb(self.scope, "escalate").is_ok() || self.changes_only_owners(old) {
            return Ok(());
        }
        let granted = self.granted_rules();
        self.confirm_held(&granted, array_field(self.new, "rules"))?;
        let aggregates = |role: &Value| {
            role.get("aggregationRule").is_some_and(|rule| !array_field(rule, "clusterRoleSelectors").is_empty())
        };
        if self.scope.kind.plural == "clusterroles" && (aggregates(self.new) || old.is_some_and(aggregates)) {
            let everything = [
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
                json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
            ];
            if self.confirm_held(&granted, &everything).is_err() {
                return Err(self.forbidden("must have cluster-admin privileges to use the aggregationRule"));
            }
        }
        Ok(())
    }

    fn check_binding(&self, old: Option<&Value>) -> Result<(), Status> {
        if self.changes_only_owners(old) || self.may_bind() {
            return Ok(());
        }
        let rules = rbac::referenced_rules(self.scope.server, &self.new["roleRef"], &self.scope.path.namespace)?;
        self.confirm_held(&self.granted_rules(), &rules)
    }

    /// Returns true if the user may bind the role without holding its rights.
    fn may_bind(&self) -> bool {
        let role = &self.new["roleRef"];
        let resource = match str_field(role, "kind") {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            _ => return false,
        };
        let path = ResourcePath {
            group: str_field(role, "apiGroup").to_owned(),
            resource: resource.to_owned(),
            namespace: self.scope.path.namespace.clone(),
            name: str_field(role, "name").to_owned(),
            ..ResourcePath::default()
        };
        authorization::may(self.scope.server, &self.user, &path, "bind")
    }

    /// Returns true for an update of nothing but owners and finalizers, as the garbage collector makes:
    /// `IsOnlyMutatingGCFields`.
    fn changes_only_owners(&self, old: Option<&Value>) -> bool {
        let plain = |object: &Value| {
            let mut object = object.clone();
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                metadata::fields_mut(&mut object).remove(field);
            }
            self.scope.schema().drop_empty_fields(&mut object);
            object
        };
        old.is_some_and(|old| plain(old) == plain(self.new))
    }

    /// Returns the rules that apply to the user in the namespace of the object, and the errors of bindings whose role
    /// does not exist.
    fn granted_rules(&self) -> (Vec<Value>, Vec<Status>) {
        let groups: Vec<&str> = self.user.groups.iter().map(String::as_str).collect();
        let user = (self.user.name.as_str(), &*groups);
        let (mut rules, errors) = rbac::all_rules_of(self.scope.server, user, &self.scope.path.namespace);
        rules.extend(default_rules(groups.contains(&AUTHENTICATED)));
        (rules, errors)
    }

    fn confirm_held(&self, held: &(Vec<Value>, Vec<Status>), wanted: &[Value]) -> Result<(), Status> {
        let missing = uncovered(&held.0, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let described: BTreeSet<String> = compacted(missing).iter().map(PolicyRule::describe).collect();
        let described = Vec::from_iter(described).join("\n");
        let groups: Vec<String> = self.user.groups.iter().map(|group| format!("{group:?}")).collect();
        let errors: Vec<&str> = held.1.iter().map(|status| status.message.as_str()).collect();
        let errors = match errors[..] {
            [] => String::new(),
            [one] => format!("; resolution errors: [{one}]"),
            _ => format!("; resolution errors: [[{}]]", errors.join(", ")),
        };
        let why = format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{described}{errors}",
            self.user.name,
            groups.join(" ")
        );
        Err(self.forbidden(&why))
    }

    fn forbidden(&self, why: &str) -> Status {
        let resource = GroupResource::new(rbac::GROUP, &self.scope.kind.plural);
        Status::forbidden(resource, metadata::name(self.new), why)
    }
}

/// The rules of the roles that kube-apiserver binds to every user, which need not be stored here.
fn default_rules(authenticated: bool) -> Vec<Value> {
    let mut rules = vec![json!({"verbs": ["get"], "nonResourceURLs": PUBLIC})];
    if authenticated {
        rules.push(json!({"verbs": ["get"], "nonResourceURLs": DISCOVERY}));
        let reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
        rules.push(json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": reviews}));
        let own = ["selfsubjectreviews"];
        rules.push(json!({"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": own}));
    }
    rules
}

/// One right: a verb for a resource, for one of its objects, or for a path. Compacted, several verbs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PolicyRule<'a> {
    target: RuleTarget<'a>,
    verbs: Vec<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum RuleTarget<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path(&'a str),
}

impl<'a> PolicyRule<'a> {
    /// Splits a rule into single rights: `BreakdownRule`.
    fn split(rule: &'a Value) -> Vec<Self> {
        let names: Vec<Option<&str>> = match array_field(rule, "resourceNames") {
            [] => vec![None],
            _ => texts(rule, "resourceNames").map(Some).collect(),
        };
        let mut targets = Vec::new();
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for verb in texts(rule, "verbs") {
                    let of = |name| RuleTarget::Resource { group, resource, name };
                    targets.extend(names.iter().map(|name| Self { target: of(*name), verbs: vec![verb] }));
                }
            }
        }
        for path in texts(rule, "nonResourceURLs") {
            targets.extend(texts(rule, "verbs").map(|verb| Self { target: RuleTarget::Path(path), verbs: vec![verb] }));
        }
        targets
    }

    /// Returns true if the stored rule gives this right: `ruleCovers`.
    fn is_covered_by(&self, held: &Value) -> bool {
        let has = |field: &str, wanted: &str| texts(held, field).any(|one| one == "*" || one == wanted);
        if !self.verbs.iter().all(|verb| has("verbs", verb)) {
            return false;
        }
        match self.target {
            RuleTarget::Path(path) => texts(held, "nonResourceURLs")
                .any(|url| url == path || url.ends_with('*') && path.starts_with(url.trim_end_matches('*'))),
            RuleTarget::Resource { group, resource, name } => {
                let subresource = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
                let of_any = subresource.is_some_and(|any| texts(held, "resources").any(|one| one == any));
                let names = array_field(held, "resourceNames");
                has("apiGroups", group)
                    && (has("resources", resource) || of_any)
                    && (names.is_empty() || name.is_some_and(|name| names.iter().any(|one| one == name)))
            }
        }
    }

    /// Writes the rule as in messages: `CompactString`.
    fn describe(&self) -> String {
        let verbs: Vec<String> = self.verbs.iter().map(|verb| format!("{verb:?}")).collect();
        let verbs = verbs.join(" ");
        match self.target {
            RuleTarget::Path(path) => format!("{{NonResourceURLs:[{path:?}], Verbs:[{verbs}]}}"),
            RuleTarget::Resource { group, resource, name } => {
                let name = name.map_or_else(String::new, |name| format!(", ResourceNames:[{name:?}]"));
                format!("{{APIGroups:[{group:?}], Resources:[{resource:?}]{name}, Verbs:[{verbs}]}}")
            }
        }
    }
}

fn texts<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    array_field(rule, field).iter().filter_map(Value::as_str)
}

/// Returns the wanted rights that no held rule gives: `Covers`.
fn uncovered<'a>(held: &[Value], wanted: &'a [Value]) -> Vec<PolicyRule<'a>> {
    let rights = wanted.iter().flat_map(PolicyRule::split);
    rights.filter(|right| !held.iter().any(|rule| right.is_covered_by(rule))).collect()
}

/// Joins the verbs of the same resource: `CompactRules`. Rules about paths are not joined.
fn compacted(rights: Vec<PolicyRule<'_>>) -> Vec<PolicyRule<'_>> {
    let mut joined: BTreeMap<RuleTarget<'_>, Vec<&str>> = BTreeMap::new();
    let mut all = Vec::new();
    for right in rights {
        match right.target {
            RuleTarget::Path(_) => all.push(right),
            RuleTarget::Resource { .. } => joined.entry(right.target).or_default().extend(right.verbs),
        }
    }
    all.extend(joined.into_iter().map(|(target, verbs)| PolicyRule { target, verbs }));
    all
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method, header};
    use rstest::rstest;

    use super::*;
    use crate::clock::{Clock, epoch};
    use crate::request::{ApiRequest, ReplyBody};
    use crate::{ApiServer, ApiServerConfig, ClientUsers};

    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

    async fn send(server: &ApiServer, user: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let mut request = ApiRequest::new(method.clone(), path);
        if !user.is_empty() {
            request.headers.insert("impersonate-user", HeaderValue::from_str(user).expect("a header"));
        }
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        request.body = body.to_string().into();
        let reply = server.handle(request).await;
        let ReplyBody::Full(bytes) = reply.body else { panic!("no stream was asked for") };
        (reply.status, serde_json::from_slice(&bytes).expect("JSON"))
    }

    fn rbac_object(kind: &str, name: &str, rest: Value) -> Value {
        let mut object =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
        for (field, value) in rest.as_object().expect("an object") {
            object[field.as_str()] = value.clone();
        }
        object
    }

    fn rule(verbs: &[&str], group: &str, resource: &str) -> Value {
        json!({"verbs": verbs, "apiGroups": [group], "resources": [resource]})
    }

    /// A server on which alice may write roles and bindings in the namespace default and everywhere, and read pods in
    /// default. Further rules of hers are `more`.
    fn server(more: &[Value]) -> ApiServer {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        let all = |resource: &str| rule(&["get", "create", "update", "patch"], rbac::GROUP, resource);
        let mut rules: Vec<Value> = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"].map(all).into();
        rules.extend_from_slice(more);
        let bound = |kind: &str, name: &str, role: &str| {
            rbac_object(
                kind,
                name,
                json!({
                "roleRef": {"apiGroup": rbac::GROUP, "kind": role, "name": name},
                "subjects": [{"kind": "User", "apiGroup": rbac::GROUP, "name": "alice"}]}),
            )
        };
        let pods = [rule(&["get", "list"], "", "pods")];
        let objects = [
            rbac_object("ClusterRole", "writer", json!({"rules": rules})),
            bound("ClusterRoleBinding", "writer", "ClusterRole"),
            rbac_object("Role", "reader", json!({"rules": pods})),
            bound("RoleBinding", "reader", "Role"),
            rbac_object("ClusterRole", "secrets", json!({"rules": [rule(&["get"], "", "secrets")]})),
            rbac_object("ClusterRole", "pods", json!({"rules": pods})),
        ];
        server.seed(objects).expect("seeded");
        server
    }

    const MISSING: &str = "user \"alice\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions \
                           not currently held:\n";

    /// `TestCovers` and the messages of `ConfirmNoEscalation`.
    #[rstest]
    #[case::held(rule(&["get"], "", "pods"), "")]
    #[case::one_object(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}), "")]
    #[case::more_verbs(rule(&["get", "delete", "watch"], "", "pods"),
        r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete" "watch"]}"#)]
    #[case::any_verb(rule(&["*"], "", "pods"), r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#)]
    #[case::subresource(rule(&["get"], "", "pods/log"), r#"{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}"#)]
    #[case::other_group(rule(&["get"], "apps", "pods"), r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get"]}"#)]
    #[case::two_resources(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets", "nodes"]}),
        "{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}")]
    #[case::one_secret(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]}),
        r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}"#)]
    #[tokio::test(start_paused = true)]
    async fn a_role_has_only_rights_of_its_author(#[case] wanted: Value, #[case] missing: &str) {
        let path = format!("{RBAC}/namespaces/default/roles");
        let role = rbac_object("Role", "new", json!({"rules": [wanted]}));
        let server = server(&[]);
        let (status, reply) = send(&server, "alice", Method::POST, &path, &role).await;
        if missing.is_empty() {
            assert_eq!(status, 201, "{reply}");
            return;
        }
        let why = format!("roles.rbac.authorization.k8s.io \"new\" is forbidden: {MISSING}{missing}");
        assert_eq!((status, reply["message"].as_str()), (403, Some(&*why)));
        // The administrator grants everything; a dry run is checked, too.
        assert_eq!(send(&server, "alice", Method::POST, &format!("{path}?dryRun=All"), &role).await.0, 403);
        assert_eq!(send(&server, "", Method::POST, &path, &role).await.0, 201);
    }

    /// A right in one namespace does not grant the same right in all.
    #[rstest]
    #[case::role_here("namespaces/default/roles", "Role", 201)]
    #[case::role_elsewhere("namespaces/kube-public/roles", "Role", 403)]
    #[case::cluster_role("clusterroles", "ClusterRole", 403)]
    #[tokio::test(start_paused = true)]
    async fn rights_count_where_they_apply(#[case] path: &str, #[case] kind: &str, #[case] expected: u16) {
        let role = rbac_object(kind, "new", json!({"rules": [rule(&["get"], "", "pods")]}));
        let (status, reply) = send(&server(&[]), "alice", Method::POST, &format!("{RBAC}/{path}"), &role).await;
        assert_eq!(status, expected, "{reply}");
    }

    /// The verbs `escalate` and `bind`, of all roles or of one.
    #[rstest]
    #[case::escalate_role(rule(&["escalate"], rbac::GROUP, "roles"), "namespaces/default/roles", "Role", 201)]
    #[case::escalate_other(rule(&["escalate"], rbac::GROUP, "clusterroles"), "namespaces/default/roles", "Role", 403)]
    #[case::escalate_cluster(rule(&["escalate"], rbac::GROUP, "clusterroles"), "clusterroles", "ClusterRole", 201)]
    #[case::bind_is_not_escalate(rule(&["bind"], rbac::GROUP, "roles"), "namespaces/default/roles", "Role", 403)]
    #[case::bind(rule(&["bind"], rbac::GROUP, "clusterroles"), "namespaces/default/rolebindings", "RoleBinding", 201)]
    #[case::bind_everywhere(rule(&["bind"], rbac::GROUP, "clusterroles"), "clusterrolebindings", "ClusterRoleBinding", 201)]
    #[case::bind_another(json!({"verbs": ["bind"], "apiGroups": [rbac::GROUP], "resources": ["clusterroles"], "resourceNames": ["x"]}),
        "clusterrolebindings", "ClusterRoleBinding", 403)]
    #[case::escalate_is_not_bind(rule(&["escalate"], rbac::GROUP, "clusterroles"), "clusterrolebindings", "ClusterRoleBinding", 403)]
    #[tokio::test(start_paused = true)]
    async fn some_may_escalate_or_bind(
        #[case] held: Value,
        #[case] path: &str,
        #[case] kind: &str,
        #[case] expected: u16,
    ) {
        let object = rbac_object(
            kind,
            "new",
            match kind {
                "Role" | "ClusterRole" => json!({"rules": [rule(&["get"], "", "secrets")]}),
                _ => json!({"roleRef": {"apiGroup": rbac::GROUP, "kind": "ClusterRole", "name": "secrets"},
                "subjects": [{"kind": "Group", "apiGroup": rbac::GROUP, "name": "g"}]}),
            },
        );
        let (status, reply) = send(&server(&[held]), "alice", Method::POST, &format!("{RBAC}/{path}"), &object).await;
        assert_eq!(status, expected, "{reply}");
    }

    #[rstest]
    #[case::held("pods", 201, "")]
    #[case::not_held("secrets", 403, "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}")]
    #[case::missing("nope", 404, "clusterroles.rbac.authorization.k8s.io \"nope\" not found")]
    #[tokio::test(start_paused = true)]
    async fn a_binding_grants_only_rights_of_its_author(#[case] role: &str, #[case] expected: u16, #[case] why: &str) {
        let path = format!("{RBAC}/namespaces/default/rolebindings");
        let binding = rbac_object(
            "RoleBinding",
            "new",
            json!({
            "roleRef": {"apiGroup": rbac::GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "apiGroup": rbac::GROUP, "name": "bob"}]}),
        );
        let (status, reply) = send(&server(&[]), "alice", Method::POST, &path, &binding).await;
        assert_eq!(status, expected, "{reply}");
        assert!(reply["message"].as_str().unwrap_or_default().ends_with(why), "{reply}");
    }

    /// Aggregation gives rights that are not known yet.
    #[rstest]
    #[case::not_held(&[], 403)]
    #[case::all_resources(&[rule(&["get", "create", "update", "delete"], "*", "*")], 403)]
    #[case::every_verb_is_escalate_too(&[rule(&["*"], "*", "*")], 201)]
    #[case::everything(&[rule(&["*"], "*", "*"), json!({"verbs": ["*"], "nonResourceURLs": ["*"]})], 201)]
    #[tokio::test(start_paused = true)]
    async fn aggregation_needs_every_right(#[case] held: &[Value], #[case] expected: u16) {
        let rest = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
        let role = rbac_object("ClusterRole", "new", rest);
        let (status, reply) = send(&server(held), "alice", Method::POST, &format!("{RBAC}/clusterroles"), &role).await;
        assert_eq!(status, expected, "{reply}");
        if expected == 403 {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            assert!(reply["message"].as_str().unwrap_or_default().ends_with(why), "{reply}");
        }
    }

    /// Updates, patches and creations by PUT are checked; changes of owners and finalizers are not.
    #[rstest]
    #[case::label(json!({"metadata": {"labels": {"a": "b"}}}), 403)]
    #[case::finalizer(json!({"metadata": {"finalizers": ["example.com/a"]}}), 200)]
    #[case::fewer_rules(json!({"rules": []}), 200)]
    #[tokio::test(start_paused = true)]
    async fn an_update_is_checked_as_a_whole(#[case] patch: Value, #[case] expected: u16) {
        let path = format!("{RBAC}/clusterroles/secrets");
        let (status, reply) = send(&server(&[]), "alice", Method::PATCH, &path, &patch).await;
        assert_eq!(status, expected, "{reply}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_put_of_a_new_role_is_checked() {
        let path = format!("{RBAC}/clusterroles/new");
        let role = rbac_object("ClusterRole", "new", json!({"rules": [rule(&["get"], "", "secrets")]}));
        let (status, reply) = send(&server(&[]), "alice", Method::PUT, &path, &role).await;
        assert_eq!(status, 403, "{reply}");
    }

    /// A member of `system:masters` holds everything, also one that is impersonated.
    #[tokio::test(start_paused = true)]
    async fn masters_grant_everything() {
        let server = server(&[]);
        let mut request = ApiRequest::new(Method::POST, &format!("{RBAC}/clusterroles"));
        request.headers.insert("impersonate-user", HeaderValue::from_static("root"));
        request.headers.insert("impersonate-group", HeaderValue::from_static("system:masters"));
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let all = rbac_object("ClusterRole", "all", json!({"rules": [rule(&["*"], "*", "*")]}));
        request.body = all.to_string().into();
        assert_eq!(server.handle(request).await.status, 201);
    }

    /// Clients that act as a user, as the kit's `run_as` makes them, have its rights and no more.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_acts_as_a_user_is_checked() {
        let mut config = ApiServerConfig::new(Clock::virtual_from(epoch()));
        config.user_of_client = ClientUsers::new(|client| (client.short_name() == "robot").then(|| "robot".to_owned()));
        let server = ApiServer::new(config);
        let own = [rule(&["create"], rbac::GROUP, "clusterroles"), rule(&["get"], "", "pods")];
        let role = json!({"apiGroup": rbac::GROUP, "kind": "ClusterRole", "name": "robot"});
        server
            .seed([
                rbac_object("ClusterRole", "robot", json!({"rules": own})),
                rbac_object(
                    "ClusterRoleBinding",
                    "robot",
                    json!({"roleRef": role,
                    "subjects": [{"kind": "User", "apiGroup": rbac::GROUP, "name": "robot"}]}),
                ),
            ])
            .expect("seeded");
        for (resource, expected) in [("pods", 201), ("secrets", 403)] {
            let mut request = ApiRequest::new(Method::POST, &format!("{RBAC}/clusterroles"));
            request.headers.insert(header::USER_AGENT, HeaderValue::from_static("robot/v1"));
            request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let role = rbac_object("ClusterRole", resource, json!({"rules": [rule(&["get"], "", resource)]}));
            request.body = role.to_string().into();
            assert_eq!(server.handle(request).await.status, expected, "{resource}");
        }
    }

    /// A role with very many rules is refused, too.
    #[tokio::test(start_paused = true)]
    async fn many_rules_are_refused() {
        let names: Vec<String> = (0..2000).map(|number| format!("r{number}")).collect();
        let rules = json!([{"verbs": ["get", "list"], "apiGroups": ["a", "b"], "resources": names}]);
        let role = rbac_object("ClusterRole", "new", json!({"rules": rules}));
        let (status, _) = send(&server(&[]), "alice", Method::POST, &format!("{RBAC}/clusterroles"), &role).await;
        assert_eq!(status, 403);
    }
}
