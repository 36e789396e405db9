//! Parts for a proxy that records the requests to a real API server in the form of [`crate::record`].

use std::sync::LazyLock;

use crate::field_errors::{ErrorList, Path};
pub use crate::handlers::{protobuf_body_to_json, record_reply, record_request};
use crate::registry::Registry;
use crate::status::Status;
pub use crate::watch::error_stream;

static BUILTIN: LazyLock<Registry> = LazyLock::new(Registry::builtin);

/// Returns true if the objects of a built-in resource have namespaces; `None` if no built-in resource has these names.
pub fn is_namespaced(group: &str, version: &str, resource: &str) -> Option<bool> {
    BUILTIN.get(group, version, resource).map(|resource| resource.namespaced)
}

/// Returns the error of a server without the feature gate `WatchList` for a streaming list
/// (`staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go`). Clients fall back to a
/// list and a watch.
pub fn watch_list_forbidden() -> Status {
    let mut errors = ErrorList::default();
    let detail = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    errors.forbidden(&Path::new("sendInitialEvents"), detail);
    Status::invalid("meta.k8s.io", "ListOptions", "", &errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_resources_have_a_known_scope() {
        let scopes = ["pods", "nodes", "widgets"].map(|resource| is_namespaced("", "v1", resource));
        assert_eq!(scopes, [Some(true), Some(false), None]);
    }
}
