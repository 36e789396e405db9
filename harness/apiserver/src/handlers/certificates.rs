//! Admission of certificate signing requests: the plugins `CertificateSubjectRestriction`, `CertificateApproval` and
//! `CertificateSigning`. Follows `plugin/pkg/admission/certificates/{subjectrestriction,approval,signing}/admission.go`
//! and `pkg/certauthorization/certauthorization.go` of Kubernetes 1.36.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::authorization;
use super::request_scope::RequestScope;
use super::write_outcome::WriteTarget;
use crate::json::Value;
use crate::json::fields::str_field;
use crate::metadata;
use crate::request::ResourcePath;
use crate::status::Status;
use crate::x509::CertificateRequest;

const GROUP: &str = "certificates.k8s.io";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

fn is_request(scope: &RequestScope<'_>) -> bool {
    scope.kind.group == GROUP && scope.kind.plural == "certificatesigningrequests"
}

/// Refuses a new request for a client certificate of the group that may do everything.
pub(super) fn check_new(scope: &RequestScope<'_>, object: &Value) -> Result<(), Status> {
    if !is_request(scope) || str_field(&object["spec"], "signerName") != CLIENT_SIGNER {
        return Ok(());
    }
    let forbid = |why: &str| Err(Status::forbidden(scope.group_resource(), metadata::name(object), why));
    let decoded = STANDARD.decode(str_field(&object["spec"], "request")).unwrap_or_default();
    match CertificateRequest::from_pem(&String::from_utf8_lossy(&decoded)) {
        Err(error) => forbid(&format!("failed to parse CSR: {error}")),
        Ok(request) if request.subject.organizations.iter().any(|group| group == MASTERS) => {
            forbid(&format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
        }
        Ok(_) => Ok(()),
    }
}

/// Refuses approvals and certificates by users who may not `approve` or `sign` for the signer.
pub(super) fn check_update(
    scope: &RequestScope<'_>,
    part: WriteTarget,
    new: &Value,
    old: &Value,
) -> Result<(), Status> {
    if !is_request(scope) {
        return Ok(());
    }
    let verb = match part {
        WriteTarget::Subresource if scope.path.subresource == "approval" => "approve",
        WriteTarget::Status
            if ["certificate", "conditions"].iter().any(|field| new["status"][*field] != old["status"][*field]) =>
        {
            "sign"
        }
        _ => return Ok(()),
    };
    let signer = str_field(&old["spec"], "signerName");
    let Some(user) = authorization::limited_user(scope.parsed) else { return Ok(()) };
    let domain = signer.split('/').next().unwrap_or_default();
    let may = [signer.to_owned(), format!("{domain}/*")].into_iter().any(|name| {
        let path = ResourcePath {
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name,
            ..ResourcePath::default()
        };
        authorization::may(scope.server, &user, &path, verb)
    });
    if may {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(Status::forbidden(scope.group_resource(), metadata::name(old), &why))
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method, header};
    use rstest::rstest;

    use super::*;
    use crate::clock::{Clock, epoch};
    use crate::json::json;
    use crate::request::{ApiRequest, ReplyBody};
    use crate::{ApiServer, ApiServerConfig};

    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    const JANE: &str = include_str!("../x509/jane.csr");
    /// Made by `openssl req -new -newkey rsa:2048 -subj '/O=system:masters/CN=root'`.
    const MASTER: &str = include_str!("../x509/masters.csr");

    async fn send(server: &ApiServer, user: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let mut request = ApiRequest::new(method, path);
        if !user.is_empty() {
            request.headers.insert("impersonate-user", HeaderValue::from_str(user).expect("a header"));
        }
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = body.to_string().into();
        let reply = server.handle(request).await;
        let ReplyBody::Full(bytes) = reply.body else { panic!("no stream was asked for") };
        (reply.status, serde_json::from_slice(&bytes).expect("JSON"))
    }

    fn signing_request(pem: &str, signer: &str) -> Value {
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
            "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"]}})
    }

    fn server() -> ApiServer {
        ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())))
    }

    #[rstest]
    #[case::user(JANE, CLIENT_SIGNER, 201, "")]
    #[case::master(
        MASTER,
        CLIENT_SIGNER,
        403,
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of \
        kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )]
    #[case::another_signer(MASTER, "example.com/signer", 201, "")]
    #[tokio::test(start_paused = true)]
    async fn no_certificate_for_masters(
        #[case] pem: &str,
        #[case] signer: &str,
        #[case] expected: u16,
        #[case] why: &str,
    ) {
        let (status, reply) = send(&server(), "", Method::POST, REQUESTS, &signing_request(pem, signer)).await;
        assert_eq!((status, reply["message"].as_str().unwrap_or_default()), (expected, why));
    }

    /// Gives the user `alice` these rules in all namespaces.
    fn allow_alice(server: &ApiServer, rules: &Value) {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"});
        let objects = [
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}, "rules": rules}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "a"},
                "roleRef": role, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]}),
        ];
        server.seed(objects).expect("seeded");
    }

    /// The user of a request is the one that asks, also if the administrator impersonates it.
    #[tokio::test(start_paused = true)]
    async fn a_request_names_its_user() {
        let server = server();
        let rules = json!([{"verbs": ["create"], "apiGroups": [GROUP], "resources": ["certificatesigningrequests"]}]);
        allow_alice(&server, &rules);
        let (status, object) =
            send(&server, "alice", Method::POST, REQUESTS, &signing_request(JANE, CLIENT_SIGNER)).await;
        assert_eq!((status, &object["spec"]["username"]), (201, &json!("alice")), "{object}");
        assert_eq!(object["spec"]["groups"], json!(["system:authenticated"]));
    }

    /// Rights for one signer, for all of its domain, and for another.
    #[rstest]
    #[case::one("approve", "kubernetes.io/kube-apiserver-client", 200)]
    #[case::domain("approve", "kubernetes.io/*", 200)]
    #[case::other_signer("approve", "example.com/*", 403)]
    #[case::other_verb("sign", "kubernetes.io/*", 403)]
    #[tokio::test(start_paused = true)]
    async fn approving_needs_a_right_for_the_signer(#[case] verb: &str, #[case] name: &str, #[case] expected: u16) {
        let server = server();
        let mut object = send(&server, "", Method::POST, REQUESTS, &signing_request(JANE, CLIENT_SIGNER)).await.1;
        let rules = json!([
            {"verbs": ["update"], "apiGroups": [GROUP], "resources": ["certificatesigningrequests/approval"]},
            {"verbs": [verb], "apiGroups": [GROUP], "resources": ["signers"], "resourceNames": [name]},
        ]);
        allow_alice(&server, &rules);
        object["status"] =
            json!({"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]});
        let path = format!("{REQUESTS}/r/approval");
        let (status, reply) = send(&server, "alice", Method::PUT, &path, &object).await;
        assert_eq!(status, expected, "{reply}");
        if expected == 403 {
            let why = "user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\"";
            assert!(reply["message"].as_str().unwrap_or_default().ends_with(why), "{reply}");
        }
    }
}
