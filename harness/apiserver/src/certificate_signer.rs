//! Signs approved certificate signing requests, approves those of kubelets, and removes old ones, optional. See
//! `pkg/controller/certificates/{signer/signer.go,approver/sarapprove.go,cleaner/cleaner.go}` and
//! `pkg/apis/certificates/helpers.go` of Kubernetes 1.36.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::backoff::Retries;
use crate::controllers::{ControllerClient, WatchMux, WatchSet};
use crate::json::fields::{array_field, is_empty_value, str_field};
use crate::json::{Value, json};
use crate::metadata;
use crate::object_lifecycle::rfc3339;
use crate::server::ApiServer;
use crate::store::ResourceId;
use crate::x509::{self, CertificateRequest};

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";

/// Longest life of a certificate: `--cluster-signing-duration`.
const LIFE: Duration = Duration::from_hours(24 * 365);
/// Shortest life of a certificate.
const SHORTEST: Duration = Duration::from_mins(10);
/// Time between two looks for old requests.
const CLEANING_PERIOD: Duration = Duration::from_hours(1);
/// Time after which a request with a decision goes.
const DECIDED_LIFE: Duration = Duration::from_hours(1);
/// Time after which a request without a decision goes, or an approved one without a certificate.
const PENDING_LIFE: Duration = Duration::from_hours(24);

/// Signs and approves requests. Never returns.
pub async fn sign_certificates(server: ApiServer) {
    let agent = ControllerClient::new(&server, "plumbline/certificate-controller");
    let resource = ResourceId::new("certificates.k8s.io", "certificatesigningrequests");
    let mut feed = WatchMux::new(&server, WatchSet::Resources(vec![resource.clone()]));
    let mut retries: Retries<String> = Retries::default();
    let mut next_cleaning: Option<Timestamp> = None;
    loop {
        let changes = feed.next_until(retries.next().into_iter().chain(next_cleaning).min()).await;
        let now = server.clock().now();
        let mut due: BTreeSet<String> = retries.due(now);
        for (_, change) in changes {
            if !change.is_deletion() {
                due.extend(change.objects().iter().map(|request| request.name().to_owned()));
            }
        }
        for name in due {
            if let Some(stored) = server.get(&resource, "", &name) {
                sync(&agent, &server.decoded(&stored)).await;
            }
            let refused = agent.take_refusal();
            retries.settle(&name, refused, now);
        }
        if next_cleaning.is_some_and(|at| at <= now) {
            for stored in server.list(&resource, None) {
                if is_old(&server.decoded(&stored), now) {
                    agent.delete(&format!("{PATH}/{}", stored.name()), None).await;
                }
            }
            // What was refused is tried at the next cleaning.
            agent.take_refusal();
            next_cleaning = None;
        }
        if next_cleaning.is_none() && !server.list(&resource, None).is_empty() {
            next_cleaning = Some(now.checked_add(CLEANING_PERIOD).unwrap_or(Timestamp::MAX));
        }
    }
}

async fn sync(agent: &ControllerClient, request: &Value) {
    let server = agent.server();
    let spec = &request["spec"];
    let signer = str_field(spec, "signerName");
    if !matches!(signer, CLIENT | KUBELET_CLIENT | KUBELET_SERVING)
        || !is_empty_value(request["status"].get("certificate"))
    {
        return;
    }
    let pem = STANDARD.decode(str_field(spec, "request")).unwrap_or_default();
    let Ok(parsed) = CertificateRequest::from_pem(&String::from_utf8_lossy(&pem)) else { return };
    let usages: Vec<&str> = array_field(spec, "usages").iter().filter_map(Value::as_str).collect();
    let path = format!("{PATH}/{}", metadata::name(request));
    let now = server.clock().now();
    if !has_condition(request, "Approved") {
        let is_open = !has_condition(request, "Denied");
        if is_open && signer == KUBELET_CLIENT && check_kubelet_client(&parsed, &usages).is_ok() {
            approve(agent, request, &parsed.subject.common_name, &path).await;
        }
        return;
    }
    if has_condition(request, "Failed") {
        return;
    }
    let checked = match signer {
        CLIENT => check_client(&usages),
        KUBELET_CLIENT => check_kubelet_client(&parsed, &usages),
        _ => check_kubelet_serving(&parsed, &usages),
    };
    let mut changed = request.clone();
    if let Err(why) = checked {
        let failed = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why.to_string(),
            "lastUpdateTime": rfc3339(now)});
        if let Some(conditions) = changed["status"]["conditions"].as_array_mut() {
            conditions.push(failed);
        }
        agent.replace(&format!("{path}/status"), &changed).await;
        return;
    }
    let Some(authority) = server.authority() else { return };
    let life = match spec["expirationSeconds"].as_u64() {
        Some(seconds) => Duration::from_secs(seconds).clamp(SHORTEST, LIFE),
        None => LIFE,
    };
    match authority.sign(&parsed, &usages, life, now) {
        Ok(certificate) => {
            changed["status"]["certificate"] = STANDARD.encode(certificate).into();
            agent.replace(&format!("{path}/status"), &changed).await;
        }
        Err(error) => tracing::warn!(request = metadata::name(request), %error, "a certificate is not signed"),
    }
}

/// Approves the request of a kubelet whose user may have it, as `kubeadm` lets nodes do.
async fn approve(agent: &ControllerClient, request: &Value, node: &str, path: &str) {
    let spec = &request["spec"];
    let is_own = str_field(spec, "username") == node;
    let subresources = if is_own { &["selfnodeclient", "nodeclient"][..] } else { &["nodeclient"][..] };
    for subresource in subresources {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": spec["username"], "uid": spec["uid"], "groups": spec["groups"], "extra": spec["extra"],
            "resourceAttributes": {
                "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
                "subresource": subresource, "version": "*"}}});
        let reply = agent.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await;
        if reply.body()["status"]["allowed"] != true {
            continue;
        }
        let what = if *subresource == "nodeclient" { "kubelet" } else { "self kubelet" };
        let approved = json!({"type": "Approved", "status": "True", "reason": "AutoApproved",
            "message": format!("Auto approving {what} client certificate after SubjectAccessReview.")});
        let mut changed = request.clone();
        let mut conditions = array_field(&request["status"], "conditions").to_vec();
        conditions.push(approved);
        changed["status"]["conditions"] = Value::from(conditions);
        agent.replace(&format!("{path}/approval"), &changed).await;
        return;
    }
}

fn has_condition(request: &Value, kind: &str) -> bool {
    array_field(&request["status"], "conditions").iter().any(|one| one["type"] == kind && one["status"] == "True")
}

/// Returns true for requests that are no longer needed: `handle` of `CSRCleanerController`.
fn is_old(request: &Value, now: Timestamp) -> bool {
    let conditions = array_field(&request["status"], "conditions");
    let is_older = |time: &str, most: Duration| {
        let time = time.parse::<Timestamp>().ok();
        time.is_some_and(|time| now.duration_since(time).unsigned_abs() > most)
    };
    let certificate = str_field(&request["status"], "certificate");
    let is_settled = conditions.iter().any(|one| {
        let decided = str_field(one, "lastUpdateTime");
        match str_field(one, "type") {
            "Approved" if certificate.is_empty() => is_older(decided, PENDING_LIFE),
            "Approved" => is_older(decided, DECIDED_LIFE) || has_ended(certificate, now),
            "Denied" | "Failed" => is_older(decided, DECIDED_LIFE),
            _ => false,
        }
    });
    is_settled || conditions.is_empty() && is_older(metadata::text(request, "creationTimestamp"), PENDING_LIFE)
}

/// Returns true if the first certificate of a PEM text in base64 is not valid any more.
fn has_ended(certificate: &str, now: Timestamp) -> bool {
    let pem = STANDARD.decode(certificate).unwrap_or_default();
    x509::certificate_end(&String::from_utf8_lossy(&pem)).is_some_and(|end| end < now)
}

fn has_usages(usages: &[&str], wanted: &[&str]) -> bool {
    let set = |usages: &[&str]| -> BTreeSet<String> { usages.iter().map(|usage| (*usage).to_owned()).collect() };
    let with_encipherment: Vec<&str> = wanted.iter().copied().chain(["key encipherment"]).collect();
    set(usages) == set(wanted) || set(usages) == set(&with_encipherment)
}

/// The reason why a signer does not sign a request, in the words of upstream's validators.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum SignerRefusal {
    #[error("invalid usage for client certificate: {0}")]
    ClientUsage(String),
    #[error("missing required usage for client certificate: client auth")]
    NoClientUsage,
    #[error("usages did not match [{0}]")]
    Usages(&'static str),
    #[error("{0} subjectAltNames are not allowed")]
    AlternativeNames(&'static str),
    #[error("DNS or IP subjectAltName is required")]
    NoAlternativeName,
    #[error("subject organization is not system:nodes")]
    Organization,
    #[error("subject common name does not begin with system:node:")]
    CommonName,
}

/// `validAPIServerClientUsages`.
fn check_client(usages: &[&str]) -> Result<(), SignerRefusal> {
    let known = ["digital signature", "key encipherment", "client auth"];
    if let Some(usage) = usages.iter().find(|usage| !known.contains(usage)) {
        return Err(SignerRefusal::ClientUsage((*usage).to_owned()));
    }
    if usages.contains(&"client auth") { Ok(()) } else { Err(SignerRefusal::NoClientUsage) }
}

/// `ValidateKubeletClientCSR`.
fn check_kubelet_client(request: &CertificateRequest, usages: &[&str]) -> Result<(), SignerRefusal> {
    check_organization(request)?;
    let CertificateRequest { dns, emails, addresses, uris, .. } = request;
    for (is_there, names) in [
        (!dns.is_empty(), "DNS"),
        (!emails.is_empty(), "Email"),
        (!addresses.is_empty(), "IP"),
        (!uris.is_empty(), "URI"),
    ] {
        if is_there {
            return Err(SignerRefusal::AlternativeNames(names));
        }
    }
    check_node(request)?;
    if has_usages(usages, &["digital signature", "client auth"]) {
        return Ok(());
    }
    Err(SignerRefusal::Usages("client auth digital signature key encipherment"))
}

/// `ValidateKubeletServingCSR`.
fn check_kubelet_serving(request: &CertificateRequest, usages: &[&str]) -> Result<(), SignerRefusal> {
    check_organization(request)?;
    if request.dns.is_empty() && request.addresses.is_empty() {
        return Err(SignerRefusal::NoAlternativeName);
    }
    if !request.emails.is_empty() {
        return Err(SignerRefusal::AlternativeNames("Email"));
    }
    if !request.uris.is_empty() {
        return Err(SignerRefusal::AlternativeNames("URI"));
    }
    if !has_usages(usages, &["digital signature", "server auth"]) {
        return Err(SignerRefusal::Usages("digital signature key encipherment server auth"));
    }
    check_node(request)
}

fn check_organization(request: &CertificateRequest) -> Result<(), SignerRefusal> {
    if request.subject.organizations == ["system:nodes"] { Ok(()) } else { Err(SignerRefusal::Organization) }
}

fn check_node(request: &CertificateRequest) -> Result<(), SignerRefusal> {
    if request.subject.common_name.starts_with("system:node:") { Ok(()) } else { Err(SignerRefusal::CommonName) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::{Clock, epoch, run_virtual, settle};

    const JANE: &str = include_str!("x509/jane.csr");

    fn request(signer: &str, usages: &[&str]) -> Value {
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
            "spec": {"request": STANDARD.encode(JANE), "signerName": signer, "usages": usages, "expirationSeconds": 3600}})
    }

    async fn approved(client: &ControllerClient, request: &Value) -> Value {
        assert!(client.create(PATH, request).await.is_ok());
        settle().await;
        let mut object = client.send(http::Method::GET, &format!("{PATH}/r"), "", None).await.body();
        assert!(object["status"].get("certificate").is_none(), "not before it is approved");
        object["status"] =
            json!({"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]});
        assert!(client.replace(&format!("{PATH}/r/approval"), &object).await.is_ok());
        settle().await;
        client.send(http::Method::GET, &format!("{PATH}/r"), "", None).await.body()
    }

    /// An approved request has a certificate; one with other usages fails; those of other signers wait.
    #[rstest]
    #[case::client(CLIENT, &["client auth", "digital signature"], Ok(true))]
    #[case::usages(CLIENT, &["server auth"], Err("invalid usage for client certificate: server auth"))]
    #[case::kubelet(KUBELET_SERVING, &["digital signature", "server auth"], Err("subject organization is not system:nodes"))]
    #[case::other("example.com/signer", &["client auth"], Ok(false))]
    fn approved_requests_are_signed(
        #[case] signer: &str,
        #[case] usages: &[&str],
        #[case] expected: Result<bool, &str>,
    ) {
        run_virtual(async {
            let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(epoch())));
            tokio::spawn(sign_certificates(server.clone()));
            let client = ControllerClient::new(&server, "user");
            let object = approved(&client, &request(signer, usages)).await;
            let pem = STANDARD.decode(str_field(&object["status"], "certificate")).unwrap_or_default();
            let failure = array_field(&object["status"], "conditions").iter().find(|one| one["type"] == "Failed");
            match expected {
                Ok(signed) => assert_eq!(pem.starts_with(b"-----BEGIN CERTIFICATE-----"), signed, "{object}"),
                Err(why) => assert_eq!(failure.expect("a condition")["message"], why),
            }
            // Requests with a decision go after an hour, open ones after a day.
            server.clock().sleep(Duration::from_hours(3)).await;
            settle().await;
            let is_left =
                server.get(&ResourceId::new("certificates.k8s.io", "certificatesigningrequests"), "", "r").is_some();
            assert_eq!(is_left, signer == "example.com/signer");
        })
        .unwrap();
    }

    /// The cases of `TestCleanerWithApprovedExpiredCSR` in `pkg/controller/certificates/cleaner/cleaner_test.go`.
    #[rstest]
    #[case::no_deletion(30, 0, Some(30), "Approved", false)]
    #[case::approved_and_issued(90, 0, Some(90), "Approved", true)]
    #[case::approved_and_not_issued(90, 0, None, "Approved", false)]
    #[case::approved_and_not_issued_for_a_day(25 * 60, 0, None, "Approved", true)]
    #[case::expired(30, 20, Some(30), "Approved", true)]
    #[case::denied(61, 0, None, "Denied", true)]
    #[case::failed(61, 0, None, "Failed", true)]
    fn old_requests_go(
        #[case] decided_before: i64,
        #[case] valid_for: u64,
        #[case] issued_before: Option<i64>,
        #[case] condition: &str,
        #[case] expected: bool,
    ) {
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().expect("a time");
        let before = |minutes: i64| Timestamp::from_second(now.as_second() - 60 * minutes).expect("a time");
        let mut object = json!({"metadata": {"creationTimestamp": before(decided_before).to_string()},
            "status": {"conditions": [{"type": condition, "lastUpdateTime": before(decided_before).to_string()}]}});
        if let Some(minutes) = issued_before {
            let authority = x509::CertificateAuthority::of_seed(1, before(10_000)).expect("an authority");
            let request = CertificateRequest::from_pem(JANE).expect("a request");
            let life = if valid_for == 0 { LIFE } else { Duration::from_mins(valid_for) };
            let pem = authority.sign(&request, &["client auth"], life, before(minutes)).expect("signed");
            object["status"]["certificate"] = STANDARD.encode(pem).into();
        }
        assert_eq!(is_old(&object, now), expected);
    }
}
