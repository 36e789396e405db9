//! The address of a webhook or an aggregated API server: a URL, or a service of the cluster
//! (`staging/src/k8s.io/apiserver/pkg/util/webhook/client.go`). PURE.

use super::error::OutboundError;
use crate::go_base64;
use crate::json::Value;
use crate::json::fields::array_field;
use crate::registry::ObjectLister;

/// The port of a service unless another one is given.
const HTTPS_PORT: u64 = 443;

/// The `clientConfig` of a webhook, or the service of an `APIService`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientConfig {
    url: String,
    /// Namespace and name of the service.
    service: Option<(String, String)>,
    port: u64,
    path: String,
    /// Certificates of the authorities, in PEM; empty for those of the system.
    authorities: Vec<u8>,
    /// Certificates are not checked.
    insecure: bool,
}

impl ClientConfig {
    /// Reads a `clientConfig`.
    pub(crate) fn of(config: &Value) -> Self {
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let service = &config["service"];
        let path = text(service, "path");
        Self {
            url: text(config, "url"),
            service: service.is_object().then(|| (text(service, "namespace"), text(service, "name"))),
            port: service["port"].as_u64().unwrap_or(HTTPS_PORT),
            path: if path.starts_with('/') { path } else { format!("/{path}") },
            authorities: go_base64::decode(&text(config, "caBundle")).unwrap_or_default(),
            insecure: config["insecureSkipTLSVerify"] == Value::Bool(true),
        }
    }

    /// Returns the URL, which for a service has its name in the cluster's DNS.
    pub(crate) fn url(&self) -> String {
        match &self.service {
            Some((namespace, name)) => format!("https://{name}.{namespace}.svc:{}{}", self.port, self.path),
            None => self.url.clone(),
        }
    }

    /// Returns where the target is now.
    ///
    /// # Errors
    /// There is no such service, it has no such port, or the URL has no host.
    pub(super) fn resolve(&self, lister: &dyn ObjectLister) -> Result<Endpoint, OutboundError> {
        let Some((namespace, name)) = &self.service else { return self.resolve_url() };
        let missing = || OutboundError::NoService(name.clone());
        let service = lister.get("", "services", namespace, name).ok_or_else(missing)?;
        let port = array_field(&service["spec"], "ports").iter().find(|port| port["port"].as_u64() == Some(self.port));
        let port = port.ok_or_else(|| OutboundError::NoServicePort { service: name.clone(), port: self.port })?;
        let (host, port) = match service["spec"]["type"].as_str() {
            Some("ExternalName") => {
                (service["spec"]["externalName"].as_str().unwrap_or_default().to_owned(), self.port)
            }
            _ => backend(lister, namespace, name, port)
                .unwrap_or_else(|| (service["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned(), self.port)),
        };
        Ok(Endpoint {
            host,
            port: u16::try_from(port).map_err(|_| OutboundError::InvalidPort(port))?,
            server_name: format!("{name}.{namespace}.svc"),
            path: self.path.clone(),
            authorities: self.authorities.clone(),
            insecure: self.insecure,
            plain: false,
        })
    }

    fn resolve_url(&self) -> Result<Endpoint, OutboundError> {
        let invalid = || OutboundError::InvalidUrl(self.url.clone());
        let uri: http::Uri = self.url.parse().map_err(|_| invalid())?;
        let host = uri.host().ok_or_else(invalid)?.trim_matches(['[', ']']).to_owned();
        let plain = uri.scheme_str() == Some("http");
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        Ok(Endpoint {
            port: uri.port_u16().unwrap_or(if plain { 80 } else { 443 }),
            server_name: host.clone(),
            host,
            path,
            authorities: self.authorities.clone(),
            insecure: self.insecure,
            plain,
        })
    }
}

/// Returns an address behind a service. No packets reach the addresses of services here, so that the endpoints are
/// asked.
fn backend(lister: &dyn ObjectLister, namespace: &str, name: &str, port: &Value) -> Option<(String, u64)> {
    let named = |one: &&Value| one["name"].as_str().unwrap_or_default() == port["name"].as_str().unwrap_or_default();
    let slices = lister.list_holding("discovery.k8s.io", "endpointslices", namespace, name);
    let own =
        |slice: &&Value| slice.pointer("/metadata/labels/kubernetes.io~1service-name").is_some_and(|l| *l == *name);
    for slice in slices.iter().filter(own) {
        let endpoints = array_field(slice, "endpoints").iter();
        let mut ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != Value::Bool(false));
        let address = ready.find_map(|endpoint| array_field(endpoint, "addresses").first()?.as_str());
        let port = array_field(slice, "ports").iter().find(named).and_then(|port| port["port"].as_u64());
        if let (Some(address), Some(port)) = (address, port) {
            return Some((address.to_owned(), port));
        }
    }
    let endpoints = lister.get("", "endpoints", namespace, name)?;
    array_field(&endpoints, "subsets").iter().find_map(|subset| {
        let address = array_field(subset, "addresses").first()?["ip"].as_str()?;
        let port = array_field(subset, "ports").iter().find(named)?["port"].as_u64()?;
        Some((address.to_owned(), port))
    })
}

/// The place of a target.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "listener", derive(PartialEq, Eq, PartialOrd, Ord))]
#[cfg_attr(not(feature = "listener"), expect(dead_code, reason = "read by `https` only"))]
pub(crate) struct Endpoint {
    /// Name or address to connect to.
    pub(crate) host: String,
    /// Port to connect to.
    pub(crate) port: u16,
    /// The name in the certificate.
    pub(crate) server_name: String,
    /// Path and query of the target.
    pub(crate) path: String,
    /// Certificates of the authorities, in PEM.
    pub(crate) authorities: Vec<u8>,
    /// Certificates are not checked.
    pub(crate) insecure: bool,
    /// HTTP instead of HTTPS.
    pub(crate) plain: bool,
}
