//! Constrained impersonation: which users a caller may impersonate, for which requests. Follows
//! `impersonation/{constrained_impersonation,mode}.go` in `staging/src/k8s.io/apiserver/pkg/endpoints/filters` of
//! Kubernetes 1.36. Its caches of past decisions have no counterpart here: the modes are always tried in order.

use super::authorization::{self, VerbCheck};
use super::impersonation::{EffectiveUser, account_of};
use super::parsed_request::ParsedRequest;
use super::rbac::MASTERS;
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::name_formats::dns1123_subdomain;
use crate::registry::checks::domain_prefixed_path;
use crate::request::ResourcePath;
use crate::server::ApiServer;
use crate::status::Status;
use crate::user::UserInfo;

const AUTHENTICATION: &str = "authentication.k8s.io";
/// The `extra` of a service account that says on which node its pod runs.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// Number of groups or extra values from which one check of all is tried first.
const MANY: usize = 4;

/// A way to impersonate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    /// The verb `impersonate`, for any request.
    Legacy,
}

impl Mode {
    const ALL: [Self; 5] =
        [Self::AssociatedNode, Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> String {
        if self == Self::Legacy { "impersonate".to_owned() } else { format!("impersonate:{}", self.name()) }
    }

    /// Returns true if a user can be impersonated in this mode at all.
    fn fits(self, wanted: &EffectiveUser, caller: &UserInfo) -> bool {
        let bare = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_of(&wanted.name);
        let account = account_of(&wanted.name);
        match self {
            Self::AssociatedNode => {
                let own = caller.extra.get(NODE_NAME).map(Vec::as_slice);
                let here = matches!((own, node), (Some([own]), Some(node)) if own == node);
                bare && here && account_of(&caller.name).is_some()
            }
            Self::ArbitraryNode => bare && node.is_some(),
            Self::ServiceAccount => bare && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

/// Replaces the user that a request wants to impersonate by the one that it is made for, or by the refusal.
pub(super) fn resolve(server: &ApiServer, parsed: &mut ParsedRequest) {
    let Ok(Some(wanted)) = &parsed.impersonated else { return };
    let resolved = impersonated(server, parsed, wanted);
    parsed.set_impersonated(resolved);
}

/// Returns the user that the request is made for, and the verb of the constrained mode that allowed it.
fn impersonated(
    server: &ApiServer,
    parsed: &ParsedRequest,
    wanted: &EffectiveUser,
) -> Result<(EffectiveUser, String), Status> {
    let limited = EffectiveUser::unless_privileged(&parsed.user);
    let mut first = None;
    for mode in Mode::ALL.into_iter().filter(|mode| mode.fits(wanted, &parsed.user)) {
        let attempt = Attempt { server, parsed, mode, caller: limited.as_ref() };
        match attempt.check(wanted) {
            Ok(user) => {
                let constraint = if mode == Mode::Legacy { String::new() } else { mode.verb() };
                return Ok((user, constraint));
            }
            Err(refusal) => first = first.or(Some(refusal)),
        }
    }
    Err(first.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

/// An attempt to impersonate in one mode.
struct Attempt<'a> {
    server: &'a ApiServer,
    parsed: &'a ParsedRequest,
    mode: Mode,
    /// The caller; `None` if it may do everything.
    caller: Option<&'a EffectiveUser>,
}

impl Attempt<'_> {
    fn check(&self, wanted: &EffectiveUser) -> Result<EffectiveUser, Status> {
        if self.mode != Mode::Legacy
            && let Some(caller) = self.caller
        {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), self.parsed.verb);
            let asked = VerbCheck { shown: &verb, verb: &self.parsed.verb };
            authorization::permit(self.server, caller, self.parsed, (self.parsed.target.resource(), asked))?;
        }
        let mut user = wanted.clone();
        self.check_name(&mut user)?;
        if !wanted.uid.is_empty() {
            self.check_one(AUTHENTICATION, ["uids", "", ""], &wanted.uid)?;
        }
        self.check_groups(&wanted.groups)?;
        self.check_extra(wanted)?;
        Ok(user.with_implied_groups())
    }

    /// Checks one right about the resource, subresource and namespace.
    fn check_one(&self, group: &str, [resource, subresource, namespace]: [&str; 3], name: &str) -> Result<(), Status> {
        let Some(caller) = self.caller else { return Ok(()) };
        let path = path_to(group, [resource, subresource, namespace], name);
        let verb = self.mode.verb();
        let asked = VerbCheck { shown: &verb, verb: &verb };
        authorization::permit(self.server, caller, self.parsed, (Some(&path), asked)).map(drop)
    }

    /// Returns the refusal of something that cannot be impersonated in this mode.
    fn never(&self, resource: &str, name: &str, why: &str) -> Status {
        let path = path_to(AUTHENTICATION, [resource, "", ""], name);
        authorization::refusal(&self.parsed.user.name, (&path, name), &self.mode.verb(), why)
    }

    fn names_group(&self) -> &'static str {
        if self.mode == Mode::Legacy { "" } else { AUTHENTICATION }
    }

    fn check_name(&self, user: &mut EffectiveUser) -> Result<(), Status> {
        let group = self.names_group();
        let name = user.name.clone();
        if let Some((namespace, account)) = account_of(&name) {
            if user.groups.is_empty() {
                user.groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
            }
            return self.check_one(group, ["serviceaccounts", "", namespace], account);
        }
        match node_of(&name).filter(|_| self.mode != Mode::Legacy) {
            Some(node) => {
                user.groups = vec!["system:nodes".to_owned()];
                // The right has to be one for all nodes, of which the caller's is one.
                let node = if self.mode == Mode::AssociatedNode { "*" } else { node };
                self.check_one(group, ["nodes", "", ""], node)
            }
            None => self.check_one(group, ["users", "", ""], &name),
        }
    }

    fn check_groups(&self, groups: &[String]) -> Result<(), Status> {
        if self.mode != Mode::Legacy {
            if groups.iter().any(String::is_empty) {
                return Err(self.never("groups", "", "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == MASTERS) {
                return Err(self.never("groups", MASTERS, "impersonating the system:masters group is not allowed"));
            }
        }
        let check = |name: &str| self.check_one(self.names_group(), ["groups", "", ""], name);
        if self.mode != Mode::Legacy && groups.len() >= MANY && check("*").is_ok() {
            return Ok(());
        }
        groups.iter().try_for_each(|group| check(group))
    }

    fn check_extra(&self, wanted: &EffectiveUser) -> Result<(), Status> {
        let pairs: Vec<(&str, &str)> = wanted
            .extra
            .iter()
            .flat_map(|(key, values)| {
                let values = values.as_array().map_or(&[][..], Vec::as_slice);
                values.iter().filter_map(Value::as_str).map(|value| (key.as_str(), value))
            })
            .collect();
        let check = |key: &str, value: &str| self.check_one(AUTHENTICATION, ["userextras", key, ""], value);
        if self.mode != Mode::Legacy {
            if let Some(why) = pairs.iter().find_map(|(key, value)| extra_error(key, value)) {
                return Err(self.never("userextras", "", &why));
            }
            if pairs.len() >= MANY && check("*", "*").is_ok() {
                return Ok(());
            }
        }
        pairs.into_iter().try_for_each(|(key, value)| check(key, value))
    }
}

/// Returns the path of what is impersonated.
fn path_to(group: &str, [resource, subresource, namespace]: [&str; 3], name: &str) -> ResourcePath {
    ResourcePath {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..ResourcePath::default()
    }
}

fn extra_error(key: &str, value: &str) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let mut errors = ErrorList::new();
    domain_prefixed_path(key, &Path::new("extra").child("key"), &mut errors);
    if let Some(why) = errors.to_aggregate_message() {
        return Some(format!("impersonating an invalid key in extra is not allowed: {why}"));
    }
    if key != key.to_lowercase() {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key:?}"));
    }
    value.is_empty().then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

fn node_of(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| dns1123_subdomain(name).is_empty())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, Method};
    use rstest::rstest;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::json::json;
    use crate::request::{ApiRequest, ReplyBody};

    /// A server on which bob has a role of the cluster with these rules, each a group, resource and verb.
    fn server_with(rules: &[(&str, &str, &str)]) -> ApiServer {
        let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
        let rules = rules
            .iter()
            .map(|(group, resource, verb)| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]}));
        server
            .seed([
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
                    "rules": rules.collect::<Vec<_>>()}),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                    "metadata": {"name": "b"},
                    "subjects": [{"kind": "User", "name": "bob"}, {"kind": "User", "name": AGENT}],
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}),
            ])
            .expect("seeded");
        server
    }

    const AGENT: &str = "system:serviceaccount:kube:agent";
    const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

    /// A user who runs on node `n`.
    fn caller(name: &str, groups: &[&str]) -> UserInfo {
        UserInfo {
            name: name.to_owned(),
            uid: String::new(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            extra: [(NODE_NAME.to_owned(), vec!["n".to_owned()])].into(),
        }
    }

    /// Asks who a caller is who sends these headers.
    async fn who(server: &ApiServer, caller: UserInfo, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut request = ApiRequest::new(Method::POST, REVIEWS);
        request.certificate = Some(crate::request::CertificateUser(caller.into()));
        request.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = json!({}).to_string().into();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            request.headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        let ReplyBody::Full(bytes) = server.handle(request).await.body else { panic!("no stream was asked for") };
        let body: Value = serde_json::from_slice(&bytes).expect("JSON");
        match body["code"].as_u64() {
            Some(code) => (u16::try_from(code).expect("a code"), body["message"].clone()),
            None => (201, body["status"]["userInfo"].clone()),
        }
    }

    const AS_CAROL: (&str, &str) = ("impersonate-user", "carol");
    const ON: (&str, &str, &str) = ("authentication.k8s.io", "selfsubjectreviews", "impersonate-on:user-info:create");
    const USERS: (&str, &str, &str) = ("authentication.k8s.io", "users", "impersonate:user-info");
    const GROUPS: (&str, &str, &str) = ("authentication.k8s.io", "groups", "impersonate:user-info");
    const EXTRA: (&str, &str, &str) = ("authentication.k8s.io", "userextras/acme.com/project", "impersonate:user-info");

    /// The cases are those of `constrained_impersonation_test.go`; the first refusal is the one that is shown.
    #[rstest]
    #[case::nothing(&[], &[AS_CAROL],
        "selfsubjectreviews.authentication.k8s.io is forbidden: User \"bob\" cannot impersonate-on:user-info:create resource \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope")]
    #[case::the_verb_alone(&[ON], &[AS_CAROL],
        "users.authentication.k8s.io \"carol\" is forbidden: User \"bob\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope")]
    #[case::a_group(&[ON, USERS], &[AS_CAROL, ("impersonate-group", "g")],
        "groups.authentication.k8s.io \"g\" is forbidden: User \"bob\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope")]
    #[case::masters(&[ON, USERS, GROUPS], &[AS_CAROL, ("impersonate-group", "system:masters")],
        "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"bob\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the system:masters group is not allowed")]
    #[case::a_uid(&[ON, USERS], &[AS_CAROL, ("impersonate-uid", "1")],
        "uids.authentication.k8s.io \"1\" is forbidden: User \"bob\" cannot impersonate:user-info resource \"uids\" in API group \"authentication.k8s.io\" at the cluster scope")]
    #[case::an_extra(&[ON, USERS], &[AS_CAROL, ("impersonate-extra-acme.com%2fproject", "x")],
        "userextras.authentication.k8s.io \"x\" is forbidden: User \"bob\" cannot impersonate:user-info resource \"userextras/acme.com/project\" in API group \"authentication.k8s.io\" at the cluster scope")]
    #[case::a_bad_extra(&[ON, USERS], &[AS_CAROL, ("impersonate-extra-project", "x")],
        "userextras.authentication.k8s.io is forbidden: User \"bob\" cannot impersonate:user-info resource \"userextras\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"project\": must be a domain-prefixed path (such as \"acme.io/foo\")")]
    #[case::an_account(&[ON, USERS], &[("impersonate-user", "system:serviceaccount:a:b")],
        "selfsubjectreviews.authentication.k8s.io is forbidden: User \"bob\" cannot impersonate-on:serviceaccount:create resource \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope")]
    #[tokio::test]
    async fn refusals(#[case] rules: &[(&str, &str, &str)], #[case] headers: &[(&str, &str)], #[case] why: &str) {
        let refused = who(&server_with(rules), caller("bob", &["system:authenticated"]), headers).await;
        assert_eq!(refused, (403, json!(why)));
    }

    #[rstest]
    #[case::constrained(&[ON, USERS, GROUPS, EXTRA], "bob",
        &[AS_CAROL, ("impersonate-group", "g"), ("impersonate-extra-acme.com%2fproject", "x")],
        json!({"username": "carol", "groups": ["g", "system:authenticated"], "extra": {"acme.com/project": ["x"]}}))]
    #[case::legacy(&[("", "users", "impersonate")], "bob", &[AS_CAROL],
        json!({"username": "carol", "groups": ["system:authenticated"]}))]
    #[case::a_node(&[("authentication.k8s.io", "selfsubjectreviews", "impersonate-on:arbitrary-node:create"),
        ("authentication.k8s.io", "nodes", "impersonate:arbitrary-node")], "bob",
        &[("impersonate-user", "system:node:m")],
        json!({"username": "system:node:m", "groups": ["system:nodes", "system:authenticated"]}))]
    #[case::its_own_node(&[("authentication.k8s.io", "selfsubjectreviews", "impersonate-on:associated-node:create"),
        ("authentication.k8s.io", "nodes", "impersonate:associated-node")], AGENT,
        &[("impersonate-user", "system:node:n")],
        json!({"username": "system:node:n", "groups": ["system:nodes", "system:authenticated"]}))]
    #[case::an_account(&[("authentication.k8s.io", "selfsubjectreviews", "impersonate-on:serviceaccount:create"),
        ("authentication.k8s.io", "serviceaccounts", "impersonate:serviceaccount")], "bob",
        &[("impersonate-user", "system:serviceaccount:a:b")],
        json!({"username": "system:serviceaccount:a:b",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]}))]
    #[tokio::test]
    async fn users(
        #[case] rules: &[(&str, &str, &str)],
        #[case] name: &str,
        #[case] headers: &[(&str, &str)],
        #[case] user: Value,
    ) {
        let server = server_with(rules);
        assert_eq!(who(&server, caller(name, &["system:authenticated"]), headers).await, (201, user));
    }

    /// The administrator passes the first mode that fits, and legacy impersonation where none does.
    #[tokio::test]
    async fn the_administrator_may_impersonate_everybody() {
        let server = server_with(&[]);
        let admin = || caller("admin", &[MASTERS]);
        let node = who(&server, admin(), &[("impersonate-user", "system:node:m")]).await;
        assert_eq!(node.1["groups"], json!(["system:nodes", "system:authenticated"]));
        let root = who(&server, admin(), &[AS_CAROL, ("impersonate-group", MASTERS)]).await;
        assert_eq!(root.1["groups"], json!([MASTERS, "system:authenticated"]));
    }
}
