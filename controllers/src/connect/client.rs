//! Clients as kube makes them, over connections that notice when the server is gone without a word.
//!
//! A watch only listens: where the server's host lost power, or its address moved to another one, nothing is ever sent
//! that could be answered with a reset, and the caches would stand still until the watch should have ended anyway
//! (295 s). client-go pings over HTTP/2; kube speaks HTTP/1.1, so TCP asks.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// How long a connection may be silent before the other end is asked whether it is still there. With
/// [`KEEPALIVE_INTERVAL`] and [`KEEPALIVE_PROBES`] a dead one is given up after 45 s, as client-go's (30 s until the
/// ping, 15 s for its answer: `apimachinery/pkg/util/net/http.go`).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Between two of these questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// How many of them may stay without an answer.
const KEEPALIVE_PROBES: u32 = 3;
/// How long what was sent may stay without TCP's acknowledgement: no questions are asked meanwhile.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(45);

/// A client for the server of `config`: kube's own (`TryFrom<Config> for ClientBuilder`) but for its connector, and
/// without retries, which are ours (`runtime::client`).
pub(super) fn client(config: &Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // Kube knows which proxies it can use, and what to say of the others.
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
    // The layer around it speaks TLS where the address says https.
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
        let (idle, interval) = (sockopt::tcp_keepidle(socket).unwrap(), sockopt::tcp_keepintvl(socket).unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(sockopt::tcp_user_timeout(socket).unwrap(), 45_000);
        assert_eq!(idle + interval * sockopt::tcp_keepcnt(socket).unwrap(), Duration::from_secs(45));
    }
}
