//! Request counters by verb, resource and code: `apiserver_request_total` on `/metrics`, labelled as in
//! `staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go` of Kubernetes 1.36.
//!
//! kube-apiserver counts a watch when it ends, this server when it is answered. Only requests for resources are
//! counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::Method;
use parking_lot::Mutex;

use super::request::{Query, ResourcePath};

/// Most combinations of verb, resource and code that are counted. Clients choose the paths, so the map needs a bound;
/// further combinations are ignored.
const MAX_COUNTERS: usize = 4096;

/// The counters of one server, or of one client.
#[derive(Debug, Default)]
pub struct RequestCounters {
    requests: Mutex<BTreeMap<CounterKey, u64>>,
}

/// The labels of one counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CounterKey {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    code: u16,
}

impl RequestCounters {
    /// Counts a request that was answered with `code`.
    pub fn count(&self, method: &Method, path: &ResourcePath, query: &Query, code: u16) {
        let key = CounterKey {
            verb: verb(method, path, query),
            group: path.group.clone(),
            version: path.version.clone(),
            resource: path.resource.clone(),
            subresource: path.subresource.clone(),
            code,
        };
        let mut requests = self.requests.lock();
        if requests.len() < MAX_COUNTERS || requests.contains_key(&key) {
            *requests.entry(key).or_default() += 1;
        }
    }

    /// Returns the sum of all counters.
    pub fn total(&self) -> u64 {
        self.requests.lock().values().sum()
    }

    /// Sets all counters to 0.
    pub(crate) fn reset(&self) {
        self.requests.lock().clear();
    }

    /// Renders the counters in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = "# HELP apiserver_request_total [STABLE] Requests by verb, resource and code.\n\
                        # TYPE apiserver_request_total counter\n"
            .to_owned();
        for (key, count) in self.requests.lock().iter() {
            let CounterKey { verb, group, version, resource, subresource, code } = key;
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",group=\"{group}\",\
                 resource=\"{resource}\",subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\"}} {count}"
            );
        }
        text
    }
}

/// Returns the `verb` label of a request, as kube-apiserver's metrics set it.
pub(crate) fn verb(method: &Method, path: &ResourcePath, query: &Query) -> &'static str {
    let watches = || path.watch || query.flag("watch").unwrap_or(false);
    match (method.as_str(), path.name.is_empty()) {
        ("GET", true) if watches() => "WATCH",
        ("GET" | "HEAD", true) => "LIST",
        ("GET", false) if path.watch => "WATCH",
        ("GET" | "HEAD", false) => "GET",
        ("POST", _) => "POST",
        ("PUT", _) => "PUT",
        ("PATCH", _) => "PATCH",
        ("DELETE", true) => "DELETECOLLECTION",
        ("DELETE", false) => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ApiRequest, Target};
    use rstest::rstest;

    fn asked(method: Method, path: &str) -> (ApiRequest, ResourcePath) {
        let request = ApiRequest::new(method, path);
        match Target::parse(&request.path) {
            Target::Resource(path) => (request, path),
            Target::NonResource(other) => panic!("{other}"),
        }
    }

    #[rstest]
    #[case(Method::GET, "/api/v1/pods", "LIST")]
    #[case(Method::GET, "/api/v1/pods?watch=1", "WATCH")]
    #[case(Method::GET, "/api/v1/watch/pods", "WATCH")]
    #[case(Method::GET, "/api/v1/nodes/n", "GET")]
    #[case(Method::POST, "/api/v1/namespaces/n/pods/p/eviction", "POST")]
    #[case(Method::PUT, "/apis/policy/v1/namespaces/n/poddisruptionbudgets/b/status", "PUT")]
    #[case(Method::DELETE, "/api/v1/namespaces/n/pods/p", "DELETE")]
    #[case(Method::DELETE, "/api/v1/namespaces/n/pods", "DELETECOLLECTION")]
    fn verbs(#[case] method: Method, #[case] path: &str, #[case] expected: &str) {
        let (request, path) = asked(method, path);
        assert_eq!(verb(&request.method, &path, &Query::parse(&request.query)), expected);
    }

    #[test]
    fn requests_add_up_and_can_be_forgotten() {
        let counters = RequestCounters::default();
        let (request, path) = asked(Method::PUT, "/apis/policy/v1/namespaces/n/poddisruptionbudgets/b/status");
        let query = Query::default();
        counters.count(&request.method, &path, &query, 200);
        counters.count(&request.method, &path, &query, 200);
        counters.count(&request.method, &path, &query, 409);
        let text = counters.text();
        for (code, count) in [(200, 2), (409, 1)] {
            let line = format!(
                "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",group=\"policy\",resource=\"poddisruptionbudgets\",subresource=\"status\",verb=\"PUT\",version=\"v1\"}} {count}\n"
            );
            assert!(text.contains(&line), "{text}");
        }
        assert_eq!(counters.total(), 3);
        counters.reset();
        assert!(!counters.text().contains("verb="));
    }
}
