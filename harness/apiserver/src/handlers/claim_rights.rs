//! Rights to write the status of claims for devices: allocations need one for `resourceclaims/binding`, the states of
//! devices one for `resourceclaims/driver` and the driver, and administrative access a label of the namespace.
//!
//! Follows `pkg/registry/resource/utils.go` and `pkg/registry/resource/resourceclaim/strategy.go` of Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};

use super::authorization;
use super::impersonation::EffectiveUser;
use super::request_scope::RequestScope;
use crate::field_errors::{ErrorList, Path};
use crate::json::Value;
use crate::json::fields::{array_field, non_null, semantic_equal, str_field};
use crate::request::ResourcePath;

const GROUP: &str = "resource.k8s.io";
const STATUS: Path<'static> = Path::new("status");
/// The label of namespaces whose claims may have administrative access.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
/// The `extra` key with the node of a service account's token.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Returns the errors of a user who may not write what an update of a claim's status changes. Other kinds have none.
pub(super) fn check(scope: &RequestScope<'_>, new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if scope.kind.group != GROUP || scope.kind.plural != "resourceclaims" {
        return errors;
    }
    admin_access(scope, new, old, &mut errors);
    let Some(user) = authorization::limited_user(scope.parsed) else { return errors };
    let verb = &*scope.parsed.verb;
    let change = StatusChange { scope, user: &user, verb };
    change.binding(&new["status"], &old["status"], &mut errors);
    if non_null(&new["status"], "allocation").is_some() {
        change.devices(&new["status"], &old["status"], &mut errors);
    }
    errors
}

/// Requires the label of the namespace for a first allocation with administrative access: `AuthorizedForAdminStatus`.
fn admin_access(scope: &RequestScope<'_>, new: &Value, old: &Value, errors: &mut ErrorList) {
    let index = |claim: &Value| {
        let results = array_field(&claim["status"]["allocation"]["devices"], "results");
        results.iter().position(|result| result["adminAccess"] == Value::Bool(true))
    };
    let Some(index) = index(new).filter(|_| index(old).is_none()) else { return };
    let context = scope.context();
    if context.lookup.label("", "namespaces", "", &scope.path.namespace, ADMIN_LABEL).as_deref() != Some("true") {
        let allocation = STATUS.child("allocation");
        let devices = allocation.child("devices");
        let why =
            format!("admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace");
        errors.forbidden(&devices.child("results").index(index).child("adminAccess"), why);
    }
}

/// A write of a claim's status by a user who has not all rights.
struct StatusChange<'a> {
    scope: &'a RequestScope<'a>,
    user: &'a EffectiveUser,
    verb: &'a str,
}

impl StatusChange<'_> {
    /// Checks a change of who has which devices: `AuthorizedForBinding`.
    fn binding(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if ["allocation", "reservedFor"].iter().all(|field| semantic_equal(new.get(field), old.get(field))) {
            return;
        }
        if let Err(refused) = self.authorize("binding", "", "", self.verb) {
            let why = format!(
                "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
                 verb=\"{}\" permission: {refused}",
                self.verb
            );
            errors.forbidden(&STATUS.child("allocation"), why);
        }
    }

    /// Checks changes of the states of devices, for each driver: `AuthorizedForDeviceStatus`.
    fn devices(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut verbs = vec![format!("arbitrary-node:{}", self.verb)];
        if self.runs_on(node_of(&new["allocation"])) {
            verbs.insert(0, format!("associated-node:{}", self.verb));
        }
        for driver in changed_drivers(new, old) {
            let allowed = |verb: &String| self.authorize("driver", &self.scope.path.namespace, driver, verb);
            let refusals: Vec<String> = verbs.iter().map_while(|verb| allowed(verb).err()).collect();
            if refusals.len() == verbs.len() {
                let why = format!(
                    "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {}",
                    verbs.join(" "),
                    refusals[0]
                );
                errors.forbidden(&STATUS.child("devices"), why);
            }
        }
    }

    /// Returns true if the user is a service account whose token is of a pod on this node.
    fn runs_on(&self, node: &str) -> bool {
        let nodes = self.user.extra.get(NODE_NAME).and_then(Value::as_array);
        !node.is_empty()
            && self.user.name.starts_with("system:serviceaccount:")
            && nodes.is_some_and(|nodes| matches!(&**nodes, [only] if *only == node))
    }

    /// Asks for a right, and returns the message of its refusal.
    fn authorize(&self, subresource: &str, namespace: &str, name: &str, verb: &str) -> Result<(), String> {
        let path = ResourcePath {
            group: GROUP.to_owned(),
            version: self.scope.path.version.clone(),
            resource: "resourceclaims".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            ..ResourcePath::default()
        };
        if authorization::may(self.scope.server, self.user, &path, verb) {
            return Ok(());
        }
        Err(authorization::refusal(&self.user.name, (&path, name), verb, "").message)
    }
}

/// Returns the drivers whose devices are new, changed or gone: `getModifiedDrivers`.
fn changed_drivers<'v>(new: &'v Value, old: &'v Value) -> BTreeSet<&'v str> {
    let by_id = |status: &'v Value| -> BTreeMap<[&'v str; 4], &'v Value> {
        let devices = array_field(status, "devices").iter();
        devices.map(|one| (["driver", "pool", "device", "shareID"].map(|field| str_field(one, field)), one)).collect()
    };
    let (new, old) = (by_id(new), by_id(old));
    let differs = |id: &&[&str; 4]| !semantic_equal(new.get(*id).copied(), old.get(*id).copied());
    new.keys().chain(old.keys()).filter(differs).map(|[driver, ..]| *driver).collect()
}

/// Returns the name of the node to which an allocation leads, if it is one: `nodeNameFromAllocation`.
fn node_of(allocation: &Value) -> &str {
    let [term] = array_field(&allocation["nodeSelector"], "nodeSelectorTerms") else { return "" };
    let ([], [field]) = (array_field(term, "matchExpressions"), array_field(term, "matchFields")) else { return "" };
    match array_field(field, "values") {
        [node] if str_field(field, "key") == "metadata.name" && str_field(field, "operator") == "In" => {
            node.as_str().unwrap_or_default()
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;
    use http::{HeaderValue, Method};
    use rstest::rstest;

    use super::*;
    use crate::clock::{Clock, epoch};
    use crate::json::json;
    use crate::request::{ApiRequest, ReplyBody};
    use crate::{ApiServer, ApiServerConfig};

    const CLAIM: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c";

    async fn send(server: &ApiServer, user: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let mut request = ApiRequest::new(method, path);
        if !user.is_empty() {
            request.headers.insert("impersonate-user", HeaderValue::from_str(user).expect("a header"));
        }
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = body.to_string().into();
        let reply = server.handle(request).await;
        let ReplyBody::Full(bytes) = reply.body else { panic!("no stream was asked for") };
        (reply.status, serde_json::from_slice(&bytes).expect("JSON"))
    }

    fn rule(resource: &str, verb: &str) -> Value {
        json!({"verbs": [verb], "apiGroups": [GROUP], "resources": [resource]})
    }

    /// Gives `alice` these rights beside that to write statuses.
    fn server(rights: &[(&str, &str)]) -> ApiServer {
        let mut rules = vec![rule("resourceclaims/status", "update")];
        rules.extend(rights.iter().map(|(resource, verb)| rule(resource, verb)));
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"});
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
        let objects = [
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}, "rules": rules}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "a"},
                "roleRef": role, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]}),
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "default"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g", "allocationMode": "ExactCount", "count": 1}}]}}}),
        ];
        server.seed(objects).expect("seeded");
        server
    }

    const BINDING: (&str, &str) = ("resourceclaims/binding", "update");
    const DRIVER: (&str, &str) = ("resourceclaims/driver", "arbitrary-node:update");
    const NO_BINDING: &str = "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"update\" permission: resourceclaims.resource.k8s.io is forbidden: User \"alice\" cannot update resource \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster scope";
    const NO_DRIVER: &str = "status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[arbitrary-node:update]\" permission: resourceclaims.resource.k8s.io \"d.io\" is forbidden: User \"alice\" cannot arbitrary-node:update resource \"resourceclaims/driver\" in API group \"resource.k8s.io\" in the namespace \"default\"";

    /// `TestAuthorizedForBinding` and `TestAuthorizedForDeviceStatus` in `pkg/registry/resource/utils_test.go`.
    #[rstest]
    #[case::everything(&[BINDING, DRIVER], &[])]
    #[case::no_driver(&[BINDING], &[NO_DRIVER])]
    #[case::neither(&[], &[NO_BINDING, NO_DRIVER])]
    #[tokio::test(start_paused = true)]
    async fn a_status_needs_rights_for_what_it_changes(#[case] rights: &[(&str, &str)], #[case] errors: &[&str]) {
        let server = server(rights);
        let device = json!({"driver": "d.io", "pool": "p", "device": "v"});
        let mut claim = send(&server, "", Method::GET, CLAIM, &Value::Null).await.1;
        claim["status"] = json!({
            "allocation": {"devices": {"results": [{"request": "r", "driver": "d.io", "pool": "p", "device": "v"}]}},
            "devices": [device],
        });
        let (status, reply) = send(&server, "alice", Method::PUT, &format!("{CLAIM}/status"), &claim).await;
        let causes = array_field(&reply["details"], "causes").iter();
        let causes: Vec<_> =
            causes.map(|cause| format!("{}: {}", str_field(cause, "field"), str_field(cause, "message"))).collect();
        assert_eq!(
            (status, causes),
            (if errors.is_empty() { 200 } else { 422 }, errors.iter().map(|e| (*e).to_owned()).collect()),
            "{reply}"
        );
    }

    #[test]
    fn drivers_and_nodes() {
        let device =
            |driver: &str, ready: bool| json!({"driver": driver, "pool": "p", "device": "d", "conditions": [ready]});
        let old = json!({"devices": [device("a", true), device("b", true), device("c", true)]});
        let new = json!({"devices": [device("b", false), device("c", true), device("d", true)]});
        assert_eq!(changed_drivers(&new, &old), BTreeSet::from(["a", "b", "d"]));
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["n"]});
        let allocation = |terms: Value| json!({"nodeSelector": {"nodeSelectorTerms": terms}});
        assert_eq!(node_of(&allocation(json!([{"matchFields": [field]}]))), "n");
        assert_eq!(node_of(&allocation(json!([{"matchFields": [field]}, {}]))), "");
        assert_eq!(node_of(&json!({})), "");
    }
}
