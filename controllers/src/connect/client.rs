//! kube clients whose connections detect a dead server.
//!
//! A watch only receives. If the server's host loses power or its address moves, no packet is ever answered with a
//! reset, and the caches would be stale until the watch times out (295 s). client-go sends HTTP/2 pings; kube uses
//! HTTP/1.1, so TCP keepalive is used here.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// Idle time before the first keepalive probe. With [`KEEPALIVE_INTERVAL`] and [`KEEPALIVE_PROBES`] a dead connection
/// is closed after 45 s, as client-go does (30 s until the ping, 15 s for its reply:
/// `apimachinery/pkg/util/net/http.go`).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Interval between keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of unanswered probes after which the connection is closed.
const KEEPALIVE_PROBES: u32 = 3;
/// Time for which sent data may remain unacknowledged: no keepalive probes are sent during that time.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(45);

/// Creates a client for the server of `config`: as kube does (`TryFrom<Config> for ClientBuilder`), but with this
/// module's connector and without kube's retries; `runtime::client` retries.
pub(super) fn client(config: &Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // kube supports some proxies and reports the others.
        return Client::try_from(config.clone());
    }
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp())?);
    connector.set_connect_timeout(config.connect_timeout);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    // The TLS layer around it handles https URLs.
    tcp.enforce_http(false);
    tcp.set_keepalive(Some(KEEPALIVE_IDLE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt;
    use tokio::net::TcpListener;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_silent_connection_is_asked_whether_it_lives() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
        let stream = tcp().oneshot(url).await.unwrap();
        let socket = stream.inner();
        assert!(sockopt::socket_keepalive(socket).unwrap());
        let idle = sockopt::tcp_keepidle(socket).unwrap();
        let interval = sockopt::tcp_keepintvl(socket).unwrap();
        #[cfg(target_os = "linux")]
        assert_eq!(sockopt::tcp_user_timeout(socket).unwrap(), 45_000);
        assert_eq!(idle + interval * sockopt::tcp_keepcnt(socket).unwrap(), Duration::from_secs(45));
    }
}
