//! Connections that have left HTTP: a WebSocket or a SPDY connection between a client and an aggregated API server, or
//! one that this server answers. See `staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go`.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use crate::streaming::UpgradeHandler;

/// Serves a connection until it ends or the server stops.
pub(super) async fn serve(client: OnUpgrade, handler: UpgradeHandler, stopped: impl Future<Output = ()>) {
    let served = async {
        match client.await {
            Ok(client) => handler.serve(Box::new(TokioIo::new(client))).await,
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
    };
    tokio::select! {
        biased;
        () = served => {}
        () = stopped => {}
    }
}

/// Copies between both connections until one ends or the server stops.
pub(super) async fn join(client: OnUpgrade, backend: OnUpgrade, stopped: impl Future<Output = ()>) {
    let copied = async {
        let (client, backend) = tokio::try_join!(client, backend).map_err(std::io::Error::other)?;
        copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(backend)).await
    };
    tokio::select! {
        biased;
        outcome = copied => {
            if let Err(error) = outcome {
                tracing::debug!(%error, "an upgraded connection ended");
            }
        }
        () = stopped => {}
    }
}
