//! The server's certificate authority and certificate. See `staging/src/k8s.io/client-go/util/cert/cert.go`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CipherSuite, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use super::ListenError;
use crate::request::CertificateUser;
use crate::user::UserInfo;
use crate::x509::{CertificateAuthority, ReadCertificate};

/// DNS names of the certificate.
const NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// A certificate and the authority that signed it.
pub(super) struct ServerCertificate {
    /// The authority's certificate in PEM.
    pub(super) authority_pem: String,
    /// The authority's certificate and key.
    pub(super) authority: CertificateAuthority,
    /// Verifies the certificates of clients.
    pub(super) clients: ClientCertificates,
    /// TLS configuration with the certificate, for HTTP/2 and HTTP/1.1.
    pub(super) config: Arc<rustls::ServerConfig>,
}

impl std::fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

pub(super) fn certificate_error(error: impl std::fmt::Display) -> ListenError {
    ListenError::Certificate(error.to_string())
}

impl ServerCertificate {
    /// Creates an authority, and a certificate for `address`, loopback and the names of the service `kubernetes`.
    pub(super) fn make(address: IpAddr) -> Result<Self, ListenError> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "plumbline-ca");
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().map_err(certificate_error)?)
            .map_err(certificate_error)?;

        let names: Vec<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(certificate_error)?;
        let addresses = [address, IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST.octets())];
        params.subject_alt_names.extend(addresses.map(SanType::IpAddress));
        params.distinguished_name.push(DnType::CommonName, "plumbline");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // As Go adds it. Python refuses certificates without it from 3.13 on.
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(certificate_error)?;
        let certificate = params.signed_by(&key, &authority).map_err(certificate_error)?;

        let chain = vec![certificate.der().clone(), authority.der().clone()];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut provider = rustls::crypto::ring::default_provider();
        // kube-apiserver prefers AES with 128 bit keys, too. It is also the fastest.
        provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
        let provider = Arc::new(provider);
        let clients = ClientCertificates::of(authority.der().clone(), provider.clone())?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(certificate_error)?
            .with_client_cert_verifier(Arc::new(clients.clone()))
            .with_single_cert(chain, key)
            .map_err(certificate_error)?;
        config.ignore_client_order = true;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let signer = CertificateAuthority::of_der(authority.der(), &authority.key().serialize_der());
        let signer = signer.map_err(certificate_error)?;
        Ok(Self { authority_pem: authority.pem(), authority: signer, clients, config: Arc::new(config) })
    }
}

/// The client of a connection, by its handshake.
#[derive(Debug, Clone)]
pub(super) enum ClientIdentity {
    /// No certificate.
    None,
    /// A certificate of the authority.
    User(CertificateUser),
    /// Another certificate, which is refused with 401 unless the request has a token, as kube-apiserver does.
    Untrusted,
}

/// Verifies the certificates of clients, which may have none. The handshake accepts every certificate whose key the
/// client has; the authority is checked for the reply. See
/// `staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go`.
#[derive(Debug, Clone)]
pub(super) struct ClientCertificates(Arc<dyn ClientCertVerifier>);

impl ClientCertificates {
    fn of(authority: CertificateDer<'static>, provider: Arc<CryptoProvider>) -> Result<Self, ListenError> {
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(certificate_error)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(certificate_error)?;
        Ok(Self(verifier))
    }

    /// Returns the client of a connection.
    pub(super) fn identify(&self, connection: &rustls::ServerConnection) -> ClientIdentity {
        let Some([own, chain @ ..]) = connection.peer_certificates() else { return ClientIdentity::None };
        if let Err(error) = self.0.verify_client_cert(own, chain, UnixTime::now()) {
            tracing::debug!(%error, "the certificate of a client is not trusted");
            return ClientIdentity::Untrusted;
        }
        match ReadCertificate::of(own) {
            Ok(certificate) => {
                let hash = ring::digest::digest(&ring::digest::SHA256, own);
                let hash = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
                let mut groups = certificate.subject.organizations;
                groups.push("system:authenticated".to_owned());
                let credential =
                    ("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("X509SHA256={hash}")]);
                let name = certificate.subject.common_name;
                let user = UserInfo { name, uid: String::new(), groups, extra: BTreeMap::from([credential]) };
                ClientIdentity::User(CertificateUser(Arc::new(user)))
            }
            Err(_) => ClientIdentity::Untrusted,
        }
    }
}

impl ClientCertVerifier for ClientCertificates {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use crate::clock::Clock;
    use crate::json::{Value, json};
    use crate::listener::{ApiListener, ListenOptions, listen};
    use crate::{ApiServer, ApiServerConfig};

    const RBAC: &str = "rbac.authorization.k8s.io";

    async fn listening() -> ApiListener {
        let server = ApiServer::new(ApiServerConfig::new(Clock::wall()));
        let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        let name = "kubeadm:cluster-admins";
        let api_version = format!("{RBAC}/v1");
        server
            .seed([
                json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": "cluster-admin"}, "rules": rules}),
                json!({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
                    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
                    "subjects": [{"kind": "Group", "apiGroup": RBAC, "name": name}]}),
            ])
            .expect("seeded");
        listen(server, ListenOptions::loopback()).await.expect("listens")
    }

    /// Sends a request with the credentials of a kubeconfig.
    async fn ask(kubeconfig: &str, path: &str, body: &Value) -> Result<serde_json::Value, kube::Error> {
        let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("usable");
        let client = kube::Client::try_from(config).expect("a client");
        let request = http::Request::post(path).header("content-type", "application/json");
        client.request(request.body(body.to_string().into_bytes()).expect("a request")).await
    }

    /// Server and client know each other by the same authority: the user is that of the certificate, with its rights.
    #[tokio::test]
    async fn a_client_certificate_names_its_user() {
        let listening = listening().await;
        let kubeconfig = listening.kubeconfig_with_certificate().expect("a kubeconfig");
        let stop = CancellationToken::new();
        let task = tokio::spawn(listening.serve(stop.clone()));
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let user =
            ask(&kubeconfig, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await.expect("a reply");
        let user = &user["status"]["userInfo"];
        assert_eq!(user["username"], "kubernetes-admin");
        assert_eq!(user["groups"], serde_json::json!(["kubeadm:cluster-admins", "system:authenticated"]));
        let credential = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap_or_default();
        assert!(credential.starts_with("X509SHA256="), "{user}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        ask(&kubeconfig, "/api/v1/namespaces/default/configmaps", &map).await.expect("it may do everything");
        stop.cancel();
        task.await.expect("it ends");
    }

    /// A certificate of another authority is refused with 401, not by the handshake.
    #[tokio::test]
    async fn a_foreign_certificate_is_refused() {
        let ours = listening().await;
        let theirs = listening().await;
        let their = theirs.kubeconfig_with_certificate().expect("a kubeconfig");
        let credentials = their
            .split_once("  user:\n")
            .map_or("", |(_, rest)| rest.rsplit_once("  user:\n").map_or(rest, |(_, last)| last));
        let own = ours.kubeconfig();
        let (head, _) = own.rsplit_once("    token:").expect("a token");
        let mixed = format!("{head}{credentials}");
        let stop = CancellationToken::new();
        let task = tokio::spawn(ours.serve(stop.clone()));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let refused = ask(&mixed, "/api/v1/namespaces/default/configmaps", &map).await.expect_err("refused");
        assert!(refused.to_string().contains("Unauthorized"), "{refused}");
        stop.cancel();
        task.await.expect("it ends");
    }
}
