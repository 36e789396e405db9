//! Authorization of requests that are not the administrator's: impersonation (`kubectl --as`) and service account
//! tokens.
//!
//! The administrator may impersonate every user, other callers those that their roles allow. The request itself is then
//! authorized by the stored roles and bindings, and by the rights of every authenticated user. Follows
//! `impersonation/impersonation.go` and `authorization.go` in `staging/src/k8s.io/apiserver/pkg/endpoints/filters` of
//! Kubernetes 1.36.

use std::borrow::Cow;

use http::HeaderValue;
use http::header::HeaderName;

use super::rbac::{self, MASTERS};
use super::request_scope::RequestScope;
use crate::audit::Decision;
use crate::authn;
use crate::crd;
use crate::json::{Key, Map, Value, json};
use crate::record::Origin;
use crate::registry::names;
use crate::request::{ApiRequest, Query, Reply, ResourcePath, Target};
use crate::selectors::FieldSelector;
use crate::server::ApiServer;
use crate::status::{GroupResource, Status};

const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Start of the names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const SYSTEM_ACCOUNTS: &str = "system:serviceaccounts:kube-system";

/// Paths that every authenticated user may read.
pub(super) const DISCOVERY: [&str; 11] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];
pub(super) const SERVICE_ACCOUNT_ISSUER: [&str; 2] = ["/.well-known", "/.well-known/*"];
/// Paths that every user may read, also unauthenticated ones.
pub(super) const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// The user on whose behalf a request is authorized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EffectiveUser {
    pub(super) name: String,
    pub(super) groups: Vec<String>,
    pub(super) uid: String,
    pub(super) extra: Map,
}

impl EffectiveUser {
    /// Returns the user that the request impersonates, if any.
    ///
    /// # Errors
    /// Groups, a UID or extra fields are given without a name.
    pub(super) fn of(request: &ApiRequest) -> Result<Option<Self>, Status> {
        if !request.headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
            return Ok(None);
        }
        let texts = |name: &str| -> Vec<String> {
            let values = request.headers.get_all(name).iter();
            values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
        };
        let first = |name: &str| texts(name).into_iter().next().unwrap_or_default();
        let (name, groups, uid) = (first(USER), texts(GROUP), first(UID));
        let mut extra = Map::new();
        for header in request.headers.keys() {
            if let Some(key) = header.as_str().strip_prefix(EXTRA) {
                extra.insert(key.to_owned(), json!(texts(header.as_str())));
            }
        }
        if !name.is_empty() {
            let groups = with_implied_groups(&name, groups);
            return Ok(Some(Self { name, groups, uid, extra }));
        }
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        Err(missing_user_name(&groups, &uid, &extra))
    }

    /// Returns the configured user of the program under test, if there is one and the request comes from that program:
    /// not from a step of a fixture and not from the server itself.
    fn test_subject(server: &ApiServer, request: &ApiRequest, caller: &authn::UserInfo) -> Option<Self> {
        let config = server.config();
        let agent = request.user_agent();
        let other = config.subject_user.as_ref()?;
        if agent.starts_with("plumbline/") || agent == crd::USER_AGENT || caller.name == ANONYMOUS {
            return None;
        }
        let name = if caller.name.starts_with(SERVICE_ACCOUNT) {
            &caller.name
        } else {
            config.subject_users.get(Origin::short_name_of(agent)).unwrap_or(other)
        };
        let groups = with_implied_groups(name, Vec::new());
        Some(Self { name: name.clone(), groups, uid: String::new(), extra: Map::new() })
    }

    /// Returns the caller, unless it may do everything: the administrator and the accounts of kube-system. Upstream
    /// gives the accounts of its controllers roles; here these roles need not exist.
    pub(super) fn unless_privileged(caller: &authn::UserInfo) -> Option<Self> {
        let authn::UserInfo { name, uid, groups, extra } = caller;
        if groups.iter().any(|group| group == MASTERS || group == SYSTEM_ACCOUNTS) {
            return None;
        }
        let extra = extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
        Some(Self { name: name.clone(), groups: groups.clone(), uid: uid.clone(), extra })
    }

    /// Returns the user's part of an access review's spec.
    pub(super) fn spec(&self) -> Value {
        json!({"user": self.name, "groups": self.groups})
    }

    /// Returns the user as `SelfSubjectReview` shows it.
    pub(super) fn info(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = Value::Object(self.extra.clone());
        }
        info
    }
}

/// Adds the groups that follow from a name.
fn with_implied_groups(name: &str, mut groups: Vec<String>) -> Vec<String> {
    if let (true, Some((namespace, _))) =
        (groups.is_empty(), name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':')))
    {
        groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    let own = if name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        groups.push(own.to_owned());
    }
    groups
}

/// Upstream prints the user in Go syntax.
fn missing_user_name(groups: &[String], uid: &str, extra: &Map) -> Status {
    let list = |texts: &[String]| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
    let groups = if groups.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", list(groups)) };
    let extra = if extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let one = |(key, values): (&Key, &Value)| {
            let values = values.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str);
            format!("{key:?}:[]string{{{}}}", list(&values.map(str::to_owned).collect::<Vec<_>>()))
        };
        format!("map[string][]string{{{}}}", extra.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    Status::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:{groups}, Extra:{extra}}} without impersonating a user name"
    ))
}

/// Returns the refusal of a request that its user, impersonated or not, may not make.
pub(super) fn authorize_request(
    server: &ApiServer,
    request: &ApiRequest,
    target: &Target,
    caller: &authn::UserInfo,
    verb: impl Fn() -> String,
) -> Option<Reply> {
    decide(server, request, target, caller, verb).err().map(with_nosniff)
}

/// Checks a right beyond the one for the request's own verb.
pub(super) fn authorize_verb(scope: &RequestScope<'_>, verb: &str) -> Result<(), Status> {
    let target = Target::Resource(scope.path.clone());
    decide(scope.server, scope.request, &target, &scope.caller.user, || verb.to_owned()).map(drop)
}

/// Returns the user that a request impersonates, as audit events show it.
pub(super) fn impersonated(request: &ApiRequest) -> Option<Value> {
    EffectiveUser::of(request).ok().flatten().map(|user| user.info())
}

/// Returns the decision about a request, for the audit log.
pub(super) fn decision(
    server: &ApiServer,
    request: &ApiRequest,
    target: &Target,
    caller: &authn::UserInfo,
    verb: &str,
) -> Decision {
    match decide(server, request, target, caller, || verb.to_owned()) {
        Ok(reason) => Decision { allowed: true, reason },
        Err(_) => Decision { allowed: false, reason: String::new() },
    }
}

/// Returns the reason why a request is allowed, or its refusal. What the administrator does needs no reason.
fn decide(
    server: &ApiServer,
    request: &ApiRequest,
    target: &Target,
    caller: &authn::UserInfo,
    verb: impl Fn() -> String,
) -> Result<String, Status> {
    let user = match EffectiveUser::of(request)? {
        None => {
            let limited = EffectiveUser::test_subject(server, request, caller);
            match limited.or_else(|| EffectiveUser::unless_privileged(caller)) {
                Some(user) => user,
                None => return Ok(String::new()),
            }
        }
        Some(user) => {
            let refused = EffectiveUser::unless_privileged(caller)
                .and_then(|limited| check_impersonation(server, &limited, &user));
            if let Some(refused) = refused {
                return Err(refused);
            }
            user
        }
    };
    let (mut spec, verb) = (user.spec(), verb());
    let verb = verb.as_str();
    let (resource, name, why) = match target {
        Target::Resource(path) => {
            let name = authorized_name(path, verb, &request.query);
            spec["resourceAttributes"] = attributes(path, verb);
            spec["resourceAttributes"]["name"] = json!(name);
            (GroupResource::new(&path.group, &path.resource), name, describe_attributes(path, verb))
        }
        Target::NonResource(_) => {
            let verb = request.method.as_str().to_ascii_lowercase();
            spec["nonResourceAttributes"] = json!({"path": request.path, "verb": verb});
            (GroupResource::new("", ""), Cow::Borrowed(""), format!("{verb} path {:?}", request.path))
        }
    };
    allowance(server, &user, &spec).ok_or_else(|| {
        let why = format!("User {:?} cannot {why}", user.name);
        Status::forbidden(resource, &name, &why)
    })
}

/// Returns the object name to authorize. A list or watch of one object by field selector is authorized like a request
/// for that object, because roles may name single objects.
fn authorized_name<'p>(path: &'p ResourcePath, verb: &str, query: &str) -> Cow<'p, str> {
    if !path.name.is_empty() || !matches!(verb, "list" | "watch") {
        return Cow::Borrowed(&path.name);
    }
    let query = Query::parse(query);
    let selector = query.get("fieldSelector").and_then(|text| FieldSelector::parse(text).ok());
    let name = selector.as_ref().and_then(|selector| selector.required_value("metadata.name"));
    let name = name.filter(|name| names::path_segment(name, false).is_empty());
    Cow::Owned(name.unwrap_or_default().to_owned())
}

/// Returns the refusal of a user who may not impersonate another one: checks the name and each of the groups.
fn check_impersonation(server: &ApiServer, user: &EffectiveUser, wanted: &EffectiveUser) -> Option<Status> {
    let account = wanted.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    let name = match account {
        Some((namespace, name)) => ("serviceaccounts", namespace, name),
        None => ("users", "", wanted.name.as_str()),
    };
    let groups = wanted.groups.iter().filter(|group| account.is_none() && *group != AUTHENTICATED);
    let groups = groups.map(|group| ("groups", "", group.as_str()));
    std::iter::once(name).chain(groups).find_map(|(resource, namespace, name)| {
        let path = ResourcePath {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: "v1".to_owned(),
            ..ResourcePath::default()
        };
        let mut spec = user.spec();
        spec["resourceAttributes"] = attributes(&path, "impersonate");
        let why = || format!("User {:?} cannot {}", user.name, describe_attributes(&path, "impersonate"));
        let refused = || Status::forbidden(GroupResource::new("", resource), name, &why());
        (!is_allowed(server, user, &spec)).then(refused)
    })
}

/// Returns the status of a review about the user in its spec.
pub(super) fn review(server: &ApiServer, spec: &Value) -> Value {
    let texts = |field: &str| {
        let list = spec[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let name = spec["user"].as_str().unwrap_or_default().to_owned();
    let user = EffectiveUser { name, groups: texts("groups"), uid: String::new(), extra: Map::new() };
    let decided = rbac::authorize(server, spec);
    let allowed = decided["allowed"] == json!(true) || is_allowed(server, &user, spec);
    json!({"allowed": allowed, "reason": decided["reason"]})
}

/// Returns true if the user may do what the access review's spec describes.
pub(super) fn is_allowed(server: &ApiServer, user: &EffectiveUser, spec: &Value) -> bool {
    allowance(server, user, spec).is_some()
}

/// Returns the reason why the user may do what the access review's spec describes; `None` if it may not.
fn allowance(server: &ApiServer, user: &EffectiveUser, spec: &Value) -> Option<String> {
    // The roles that kube-apiserver creates, which need not exist here.
    let by_default = |role: &str, group: &str| {
        Some(format!("RBAC: allowed by ClusterRoleBinding \"{role}\" of ClusterRole \"{role}\" to Group \"{group}\""))
    };
    let member = |group: &str| user.groups.iter().any(|one| one == group);
    let known = member(AUTHENTICATED);
    if let Some(asked) = spec.get("nonResourceAttributes").filter(|part| !part.is_null()) {
        let path = asked["path"].as_str().unwrap_or_default();
        let fits = |url: &&str| *url == path || url.strip_suffix('*').is_some_and(|start| path.starts_with(start));
        let group = if known { AUTHENTICATED } else { UNAUTHENTICATED };
        match asked["verb"] == "get" {
            true if PUBLIC.iter().any(&fits) => return by_default("system:public-info-viewer", group),
            true if known && DISCOVERY.iter().any(&fits) => return by_default("system:discovery", group),
            _ => {}
        }
    } else if known {
        let asked = &spec["resourceAttributes"];
        let own = matches!(
            (asked["group"].as_str(), asked["resource"].as_str()),
            (Some("authorization.k8s.io"), Some("selfsubjectaccessreviews" | "selfsubjectrulesreviews"))
                | (Some("authentication.k8s.io"), Some("selfsubjectreviews"))
        );
        if own && asked["verb"] == "create" {
            return by_default("system:basic-user", AUTHENTICATED);
        }
    }
    let decided = rbac::authorize(server, spec);
    let reason = || decided["reason"].as_str().unwrap_or_default().to_owned();
    (decided["allowed"] == json!(true)).then(reason)
}

fn attributes(path: &ResourcePath, verb: &str) -> Value {
    json!({
        "verb": verb, "group": path.group, "version": path.version, "resource": path.resource,
        "subresource": path.subresource, "namespace": namespace(path), "name": path.name,
    })
}

/// Returns the namespace of a request; a request for a Namespace is in that namespace.
fn namespace(path: &ResourcePath) -> &str {
    if path.group.is_empty() && path.resource == "namespaces" { &path.name } else { &path.namespace }
}

fn describe_attributes(path: &ResourcePath, verb: &str) -> String {
    let whole = match path.subresource.as_str() {
        "" => path.resource.clone(),
        sub => format!("{}/{sub}", path.resource),
    };
    let place = match namespace(path) {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    format!("{verb} resource {whole:?} in API group {:?} {place}", path.group)
}

fn with_nosniff(status: Status) -> Reply {
    let mut reply = Reply::from(status);
    reply.headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    reply
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rstest::rstest;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::request::ReplyBody;

    async fn ask(server: &ApiServer, method: Method, path: &str, user: &str, body: Value) -> (u16, Value) {
        let mut request = ApiRequest::new(method, path);
        request.headers.insert(USER, HeaderValue::from_str(user).expect("a header"));
        request.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if !body.is_null() {
            request.body = body.to_string().into();
        }
        let reply = server.handle(request).await;
        let ReplyBody::Full(bytes) = reply.body else { panic!("no stream was asked for") };
        (reply.status, serde_json::from_slice(&bytes).expect("JSON"))
    }

    fn server() -> ApiServer {
        ApiServer::new(ApiServerConfig::new(Clock::wall()))
    }

    /// A server on which alice has a role with one rule in the default namespace.
    fn server_with_role(rule: Value) -> ApiServer {
        let server = server();
        server
            .seed([
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
                    "rules": [rule]}),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                    "subjects": [{"kind": "User", "name": "alice"}]}),
            ])
            .expect("seeded");
        server
    }

    /// Replies of kube-apiserver 1.36 to `--as=alice`.
    #[rstest]
    #[case::list(
        Method::GET,
        "/api/v1/namespaces/default/pods",
        r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default""#
    )]
    #[case::cluster(
        Method::GET,
        "/api/v1/pods",
        r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope"#
    )]
    #[case::namespace(Method::GET, "/api/v1/namespaces/default",
        r#"namespaces "default" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "default""#)]
    #[case::subresource(Method::GET, "/apis/apps/v1/namespaces/default/deployments/x/scale",
        r#"deployments.apps "x" is forbidden: User "alice" cannot get resource "deployments/scale" in API group "apps" in the namespace "default""#)]
    #[case::all(Method::DELETE, "/api/v1/namespaces/default/pods",
        r#"pods is forbidden: User "alice" cannot deletecollection resource "pods" in API group "" in the namespace "default""#)]
    #[case::path(Method::GET, "/nope", r#"forbidden: User "alice" cannot get path "/nope""#)]
    #[tokio::test]
    async fn without_a_role_most_is_forbidden(#[case] method: Method, #[case] path: &str, #[case] why: &str) {
        let (status, body) = ask(&server(), method, path, "alice", Value::Null).await;
        assert_eq!((status, body["message"].as_str()), (403, Some(why)));
    }

    #[rstest]
    #[case::discovery("/apis/apps/v1")]
    #[case::version("/version")]
    #[tokio::test]
    async fn discovery_is_for_everybody(#[case] path: &str) {
        assert_eq!(ask(&server(), Method::GET, path, "alice", Value::Null).await.0, 200);
    }

    #[tokio::test]
    async fn a_role_allows_what_it_names() {
        let server = server_with_role(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}));
        let path = "/api/v1/namespaces/default/pods";
        assert_eq!(ask(&server, Method::GET, path, "alice", Value::Null).await.0, 200);
        assert_eq!(ask(&server, Method::GET, path, "bob", Value::Null).await.0, 403);
        assert_eq!(ask(&server, Method::POST, path, "alice", json!({})).await.0, 403);
        let review = json!({"spec": {"namespace": "default"}});
        let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let own = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]});
        for (user, has) in [("alice", true), ("bob", false)] {
            let (_, body) = ask(&server, Method::POST, rules, user, review.clone()).await;
            let described = body["status"]["resourceRules"].as_array().expect("rules");
            assert_eq!(described.contains(&own), has, "{user}: {described:?}");
        }
    }

    #[rstest]
    #[case::its_own("?fieldSelector=metadata.name%3Dx", 200)]
    #[case::among_others("?fieldSelector=status.phase%3DRunning%2Cmetadata.name%3Dx", 200)]
    #[case::another("?fieldSelector=metadata.name%3Dy", 403)]
    #[case::all_but_it("?fieldSelector=metadata.name%21%3Dx", 403)]
    #[case::all("", 403)]
    #[tokio::test]
    async fn a_list_of_one_object_needs_the_right_to_it_alone(#[case] query: &str, #[case] expected: u16) {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"], "verbs": ["list"]});
        let server = server_with_role(rule);
        let path = format!("/api/v1/namespaces/default/pods{query}");
        let (status, body) = ask(&server, Method::GET, &path, "alice", Value::Null).await;
        assert_eq!(status, expected, "{body}");
        if let Some(name) = query.strip_prefix("?fieldSelector=metadata.name%3D").filter(|_| status == 403) {
            assert_eq!(body["details"]["name"], name);
        }
    }

    #[tokio::test]
    async fn reviews_are_about_the_impersonated_user() {
        let server = server();
        let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let (status, body) = ask(&server, Method::POST, path, "alice", review).await;
        assert_eq!((status, &body["status"]), (201, &json!({"allowed": false})));
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let (_, body) = ask(&server, Method::POST, path, "system:serviceaccount:a:b", json!({})).await;
        let groups = ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"];
        let info = json!({"username": "system:serviceaccount:a:b", "groups": groups});
        assert_eq!(body["status"]["userInfo"], info);
    }

    #[test]
    fn groups_without_a_name_are_refused() {
        let mut request = ApiRequest::new(Method::GET, "/api");
        request.headers.insert(GROUP, HeaderValue::from_static("x"));
        let refused = EffectiveUser::of(&request).expect_err("refused");
        assert_eq!(
            refused.message,
            "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"x\"}, Extra:map[string][]string(nil)} without impersonating a user name"
        );
    }
}
