//! Compaction by time: kube-apiserver compacts etcd every five minutes (`--etcd-compaction-interval`) up to the
//! revision of five minutes before. See `staging/src/k8s.io/apiserver/pkg/storage/etcd3/compact.go`.

use std::time::Duration;

use super::server::ApiServer;

/// The time between two compactions.
const INTERVAL: Duration = Duration::from_mins(5);

/// Drops state that is older than the last compaction, every five minutes: lists and watches that continue at an older
/// resourceVersion then get 410. Never returns.
pub async fn compact_periodically(server: ApiServer) {
    let clock = server.clock().clone();
    let mut before = server.store().revision();
    loop {
        clock.sleep(INTERVAL).await;
        server.compact(before);
        before = server.store().revision();
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::ApiServerConfig;
    use crate::clock::Clock;
    use crate::json::json;
    use crate::request::ApiRequest;

    #[tokio::test(start_paused = true)]
    async fn a_list_cannot_be_continued_after_ten_minutes() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        tokio::spawn(compact_periodically(server.clone()));
        let at = server.store().revision();
        server.seed([json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})]).unwrap();
        let exact = || {
            let mut request = ApiRequest::new(Method::GET, "/api/v1/namespaces");
            request.query = format!("resourceVersion={at}&resourceVersionMatch=Exact");
            request
        };
        server.clock().sleep(Duration::from_mins(4)).await;
        assert_eq!(server.handle(exact()).await.status, 200);
        server.clock().sleep(Duration::from_mins(7)).await;
        assert_eq!(server.handle(exact()).await.status, 410);
    }
}
