//! Authorization of requests that are not the administrator's: impersonation (`kubectl --as`) and service account
//! tokens.
//!
//! The administrator may impersonate every user, other callers those that their roles allow (`impersonation_modes`).
//! The request itself is then authorized by the stored roles and bindings, and by the rights of every authenticated
//! user. Follows `authorization.go` in `staging/src/k8s.io/apiserver/pkg/endpoints/filters` of Kubernetes 1.36.

use std::borrow::Cow;

use http::HeaderValue;
use http::header::HeaderName;

use super::impersonation::{AUTHENTICATED, EffectiveUser, UNAUTHENTICATED};
use super::parsed_request::ParsedRequest;
use super::rbac;
use super::request_scope::RequestScope;
use crate::audit::Decision;
use crate::json::{Map, Value, json};
use crate::registry::names;
use crate::request::{Query, Reply, ResourcePath};
use crate::selectors::FieldSelector;
use crate::server::ApiServer;
use crate::status::{GroupResource, Status};

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

/// Returns the refusal of a request that its user, impersonated or not, may not make.
pub(super) fn authorize_request(server: &ApiServer, parsed: &ParsedRequest) -> Option<Reply> {
    decision(server, parsed).as_ref().err().cloned().map(with_nosniff)
}

/// Checks a right beyond the one for the request's own verb.
pub(super) fn authorize_verb(scope: &RequestScope<'_>, verb: &str) -> Result<(), Status> {
    decide(scope.server, scope.parsed, Some(&scope.path), verb).map(drop)
}

/// Returns the decision about a request, for the audit log.
pub(super) fn audited_decision(server: &ApiServer, parsed: &ParsedRequest) -> Decision {
    match decision(server, parsed) {
        Ok(reason) => Decision { allowed: true, reason: reason.clone() },
        Err(_) => Decision { allowed: false, reason: String::new() },
    }
}

/// Returns the decision about a request, which is made when it is asked for the first time.
fn decision<'r>(server: &ApiServer, parsed: &'r ParsedRequest) -> &'r Result<String, Status> {
    parsed.decision.get_or_init(|| decide(server, parsed, parsed.target.resource(), &parsed.verb))
}

/// Returns the reason why the user of a request may do something, to a resource or with the request's path, or the
/// refusal. What the administrator does needs no reason; the refusal of an impersonation comes first.
fn decide(
    server: &ApiServer,
    parsed: &ParsedRequest,
    resource: Option<&ResourcePath>,
    verb: &str,
) -> Result<String, Status> {
    parsed.impersonated.as_ref().map_err(Status::clone)?;
    let Some(user) = limited_user(parsed) else { return Ok(String::new()) };
    permit(server, &user, parsed, (resource, VerbCheck { shown: verb, verb }))
}

/// The verb for which a user needs a right.
#[derive(Clone, Copy, Debug)]
pub(super) struct VerbCheck<'v> {
    /// The verb that roles name.
    pub(super) shown: &'v str,
    /// The verb of the request.
    pub(super) verb: &'v str,
}

/// Returns the reason why a user may do something, to a resource or with the request's path.
///
/// # Errors
/// The user may not do it.
pub(super) fn permit(
    server: &ApiServer,
    user: &EffectiveUser,
    parsed: &ParsedRequest,
    (resource, asked): (Option<&ResourcePath>, VerbCheck<'_>),
) -> Result<String, Status> {
    let verb = asked.shown;
    let mut spec = user.spec();
    if let Some(path) = resource {
        let name = authorized_name(path, asked.verb, &parsed.query);
        spec["resourceAttributes"] = attributes(path, verb);
        spec["resourceAttributes"]["name"] = json!(name);
        allowance(server, user, &spec).ok_or_else(|| refusal(&user.name, (path, &name), verb, ""))
    } else {
        let path = &parsed.request.path;
        spec["nonResourceAttributes"] = json!({"path": path, "verb": verb});
        let why = || format!("User {:?} cannot {verb} path {path:?}", user.name);
        allowance(server, user, &spec).ok_or_else(|| Status::forbidden(GroupResource::new("", ""), "", &why()))
    }
}

/// Returns the refusal of something that a user may not do to a resource: `ForbiddenStatusError` of
/// `handlers/responsewriters/errors.go`.
pub(super) fn refusal(user: &str, (path, name): (&ResourcePath, &str), verb: &str, why: &str) -> Status {
    let colon = if why.is_empty() { "" } else { ": " };
    let why = format!("User {user:?} cannot {}{colon}{why}", describe_attributes(path, verb));
    Status::forbidden(GroupResource::new(&path.group, &path.resource), name, &why)
}

/// Returns the user whose rights a request has; `None` if it may do everything.
pub(super) fn limited_user(parsed: &ParsedRequest) -> Option<Cow<'_, EffectiveUser>> {
    match &parsed.acting {
        Some(user) => Some(Cow::Borrowed(user)),
        None => EffectiveUser::unless_privileged(&parsed.user).map(Cow::Owned),
    }
}

/// Returns true if the user may do something with the object that the path names.
pub(super) fn may(server: &ApiServer, user: &EffectiveUser, path: &ResourcePath, verb: &str) -> bool {
    let mut spec = user.spec();
    spec["resourceAttributes"] = attributes(path, verb);
    is_allowed(server, user, &spec)
}

/// Returns the object name to authorize. A list or watch of one object by field selector is authorized like a request
/// for that object, because roles may name single objects.
fn authorized_name<'p>(path: &'p ResourcePath, verb: &str, query: &Query) -> Cow<'p, str> {
    if !path.name.is_empty() || !matches!(verb, "list" | "watch") {
        return Cow::Borrowed(&path.name);
    }
    let selector = query.get("fieldSelector").and_then(|text| FieldSelector::parse(text).ok());
    let name = selector.as_ref().and_then(|selector| selector.required_value("metadata.name"));
    let name = name.filter(|name| names::path_segment(name, false).is_empty());
    Cow::Owned(name.unwrap_or_default().to_owned())
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
    use crate::request::{ApiRequest, ReplyBody};

    async fn ask(server: &ApiServer, method: Method, path: &str, user: &str, body: Value) -> (u16, Value) {
        let mut request = ApiRequest::new(method, path);
        request.headers.insert("impersonate-user", HeaderValue::from_str(user).expect("a header"));
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
}
