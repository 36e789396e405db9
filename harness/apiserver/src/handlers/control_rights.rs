//! The right to control the server itself, beyond the API of Kubernetes: to inject faults, or to set the clock. It is
//! that for a path, as in `staging/src/k8s.io/apiserver/pkg/endpoints/filters/authorization.go`.

use super::parsed_request::ParsedRequest;
use super::{impersonation_modes, rbac};
use crate::json::json;
use crate::request::ApiRequest;
use crate::server::ApiServer;
use crate::status::{GroupResource, Status};
use crate::user::UserInfo;

/// Refuses a request about the server itself to users who are no administrators. Unlike for the API, the accounts of
/// kube-system need a role.
pub(super) fn check(server: &ApiServer, request: &ApiRequest) -> Result<(), Status> {
    if !server.holds_present_token(request) {
        return Err(Status::unauthorized());
    }
    let mut parsed = ParsedRequest::new(server, request.clone());
    impersonation_modes::resolve(server, &mut parsed);
    parsed.impersonated.as_ref().map_err(Status::clone)?;
    let UserInfo { name, groups, .. } = parsed.acting_user();
    let verb = request.method.as_str().to_ascii_lowercase();
    let path = &request.path;
    let asked = json!({"path": path, "verb": verb});
    let decided = rbac::authorize(server, &json!({"user": name, "groups": groups, "nonResourceAttributes": asked}));
    if decided["allowed"] == json!(true) {
        return Ok(());
    }
    Err(Status::forbidden(GroupResource::new("", ""), "", &format!("User {name:?} cannot {verb} path {path:?}")))
}
