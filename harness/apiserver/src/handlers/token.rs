//! The `token` subresource of service accounts. Follows `pkg/registry/core/serviceaccount/storage/token.go` of
//! Kubernetes 1.36.

use super::admission::Admission;
use super::options::WriteOptions;
use super::reply::ReplyContent;
use super::request_scope::RequestScope;
use super::{body, reply};
use crate::admission::AdmissionOperation;
use crate::authn::{Claims, ISSUER};
use crate::json::fields::{array_field, is_empty_value, str_field};
use crate::json::{Value, json};
use crate::managedfields::{self, OneVersion, WriteInfo};
use crate::registry::{ErrorList, Path};
use crate::request::Reply;
use crate::status::{GroupResource, Status};
use crate::store::ResourceId;
use crate::{metadata, object_lifecycle, schema};

const SCHEMA: &str = "io.k8s.api.authentication.v1.TokenRequest";

/// Seconds for which a token is valid that is requested without a time.
const LIFETIME_SECONDS: i64 = 3600;

/// Checks that the object to which a token is bound exists, is the one that is meant, and runs as this account:
/// `TokenREST.Create` in `pkg/registry/core/serviceaccount/storage/token.go`.
fn check_bound_object(scope: &RequestScope<'_>, target: &Value) -> Result<(String, String, String), Status> {
    let kind = str_field(target, "kind");
    let name = str_field(target, "name");
    let (group, version) = match str_field(target, "apiVersion").split('/').collect::<Vec<_>>()[..] {
        [version] => ("", version),
        [group, version] => (group, version),
        _ => ("", ""),
    };
    // Upstream looks at the group alone.
    let (plural, namespace) = match (group, kind) {
        ("", "Pod") => ("pods", &*scope.path.namespace),
        ("", "Secret") => ("secrets", &*scope.path.namespace),
        ("", "Node") => ("nodes", ""),
        _ => {
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(why));
        }
    };
    let Some(found) = scope.server.get(&ResourceId::new("", plural), namespace, name) else {
        return Err(Status::not_found(GroupResource::new("", plural), name));
    };
    let account = &*scope.path.name;
    if kind == "Pod" && found.field("spec.serviceAccountName").unwrap_or_default() != account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    let wanted = str_field(target, "uid");
    if !wanted.is_empty() && wanted != found.uid() {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have \
             been deleted and then recreated"
        );
        return Err(Status::conflict(GroupResource::new("", kind), name, &why));
    }
    Ok((kind.to_ascii_lowercase(), name.to_owned(), found.uid().to_owned()))
}

/// Returns name and UID of the node of the pod that a token is bound to.
fn node_of_pod(scope: &RequestScope<'_>, bound: Option<&(String, String, String)>) -> Option<(String, String)> {
    let (_, name, _) = bound.filter(|(kind, ..)| kind == "pod")?;
    let pod = scope.server.get(&ResourceId::new("", "pods"), &scope.path.namespace, name)?;
    let node = pod.field("spec.nodeName").filter(|node| !node.is_empty())?;
    let stored = scope.server.get(&ResourceId::new("", "nodes"), "", node);
    Some((node.to_owned(), stored.map(|node| node.uid().to_owned()).unwrap_or_default()))
}

/// Checks the name and the UID in a request, and fills its metadata and audiences; then checks how long the token is to
/// be valid, and returns that.
fn complete(scope: &RequestScope<'_>, body: &mut Value) -> Result<i64, Status> {
    const SHORTEST_SECONDS: i64 = 600;
    const LONGEST_SECONDS: i64 = 1 << 32;
    let invalid =
        |name: &str, errors: &ErrorList| Status::invalid("authentication.k8s.io", "TokenRequest", name, errors);
    let mut errors = ErrorList::new();
    let named = metadata::name(body);
    if !named.is_empty() && named != scope.path.name {
        let why = "must match the service account name if specified";
        errors.invalid(&Path::new("metadata").child("name"), named, why);
        return Err(invalid(&scope.path.name, &errors));
    }
    let account = scope.stored()?;
    let uid = str_field(&body["metadata"], "uid");
    if !uid.is_empty() && uid != account.uid() {
        let why = format!(
            "the UID in the token request ({uid}) does not match the UID of the service account ({})",
            account.uid()
        );
        let resource = GroupResource::new("authentication.k8s.io", "TokenRequest");
        return Err(Status::conflict(resource, &scope.path.name, &why));
    }
    if is_empty_value(body["spec"].get("audiences")) {
        body["spec"]["audiences"] = json!([ISSUER]);
    }
    let metadata = metadata::fields_mut(body);
    metadata.insert("name", scope.path.name.as_str().into());
    metadata.insert("namespace", scope.path.namespace.as_str().into());
    metadata.insert("uid", account.uid().into());
    metadata.insert("creationTimestamp", object_lifecycle::rfc3339(scope.server.clock().now()).into());
    let seconds = body.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(LIFETIME_SECONDS);
    let why = match seconds {
        ..SHORTEST_SECONDS => "may not specify a duration less than 10 minutes",
        SHORTEST_SECONDS..=LONGEST_SECONDS => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    errors.invalid(&Path::new("spec").child("expirationSeconds"), seconds, why);
    Err(invalid("", &errors))
}

/// Issues a token for a service account.
pub(super) async fn issue(scope: &RequestScope<'_>) -> Result<Reply, Status> {
    let negotiated = reply::negotiate_transient(scope)?;
    let mut body = body::decode_builtin(scope, "authentication.k8s.io/v1", "TokenRequest", SCHEMA)?;
    object_lifecycle::ensure_namespace(&mut body, &scope.path.namespace)?;
    let now = scope.server.clock().now();
    if body.pointer("/spec/expirationSeconds").is_none_or(Value::is_null) {
        body["spec"]["expirationSeconds"] = LIFETIME_SECONDS.into();
    }
    let options = WriteOptions::parse(scope.query, "CreateOptions", None)?;
    if let Some(schema) = schema::builtin(SCHEMA) {
        let manager = scope.manager(&options.field_manager);
        let api_version = "authentication.k8s.io/v1";
        let versions = &OneVersion;
        let write = WriteInfo { manager: &manager, api_version, subresource: "token", reset: None, versions, now };
        managedfields::update(&schema, None, &mut body, &write);
    }
    let dry_run = scope.query.all("dryRun").next().is_some();
    let admission = Admission::of(scope, AdmissionOperation::Create, None, dry_run);
    if let Some(admission) = &admission {
        body = admission.mutate(body).await?;
    }
    let seconds = complete(scope, &mut body)?;
    if let Some(admission) = &admission {
        admission.validate(Some(&body)).await?;
    }
    let end = now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(now);
    let target = body["spec"].get("boundObjectRef").filter(|target| !target.is_null());
    let bound = target.map(|target| check_bound_object(scope, target)).transpose()?;
    let audiences = array_field(&body["spec"], "audiences").iter().filter_map(Value::as_str);
    let token = scope.server.tokens().sign(&Claims {
        namespace: scope.path.namespace.clone(),
        account: scope.path.name.clone(),
        uid: str_field(&body["metadata"], "uid").to_owned(),
        node: node_of_pod(scope, bound.as_ref()),
        bound,
        audiences: audiences.map(str::to_owned).collect(),
        id: scope.server.ids().uid(),
        issued: now.as_second(),
        expires: end.as_second(),
    });
    body["status"] = json!({"token": token, "expirationTimestamp": object_lifecycle::rfc3339(end)});
    reply::object(scope, 201, ReplyContent::Value(&body), negotiated)
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rstest::rstest;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::controllers::ControllerClient;
    use crate::server::ApiServer;

    /// `FromAPIVersionAndKind` in `staging/src/k8s.io/apimachinery/pkg/runtime/schema/group_version.go`: a version with
    /// two slashes is none.
    #[rstest]
    #[case::core("v1", "Pod", "p", None)]
    #[case::other_version("v2", "Pod", "p", None)]
    #[case::no_version("a/b/c", "Pod", "p", None)]
    #[case::other_group("apps/v1", "Pod", "p", Some("cannot bind token to object of type apps/v1, Kind=Pod"))]
    #[case::other_kind("v1", "Service", "p", Some("cannot bind token to object of type /v1, Kind=Service"))]
    #[case::missing("v1", "Secret", "x", Some("secrets \"x\" not found"))]
    #[tokio::test]
    async fn tokens_are_bound_by_group_and_kind(
        #[case] version: &str,
        #[case] kind: &str,
        #[case] name: &str,
        #[case] refusal: Option<&str>,
    ) {
        let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
        let account = serde_json::json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}});
        let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"serviceAccountName": "s", "containers": [{"name": "c", "image": "i"}]}});
        server.seed([account, pod]).expect("seeded");
        let client = ControllerClient::new(&server, "user");
        let request = json!({"spec": {"boundObjectRef": {"apiVersion": version, "kind": kind, "name": name}}});
        let path = "/api/v1/namespaces/default/serviceaccounts/s/token";
        let reply = client.send(Method::POST, path, "application/json", Some(&request)).await;
        assert_eq!((reply.is_ok(), reply.message()), (refusal.is_none(), refusal.unwrap_or_default().to_owned()));
    }
}
