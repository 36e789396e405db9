//! `/healthz`, `/livez` and `/readyz` with their individual checks. Follows
//! `staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go` of Kubernetes 1.36. PURE.
//!
//! Every check passes: a server that answers is healthy. The checks have kube-apiserver's names, for clients that look
//! for one of them.

use http::{HeaderName, HeaderValue};

use crate::request::Reply;

const FIRST: &[&str] = &["ping", "log"];
const LIVE: &[&str] = &["loopback-serving-certificate", "etcd"];
const READY: &[&str] = &["etcd", "etcd-readiness", "informer-sync"];
const HOOKS: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

fn checks(endpoint: &str) -> Vec<&'static str> {
    let (own, last): (&[&str], &[&str]) = if endpoint == "readyz" { (READY, &["shutdown"]) } else { (LIVE, &[]) };
    [FIRST, own, HOOKS, last].concat()
}

/// Returns the paths of all endpoints and checks.
pub(super) fn paths() -> impl Iterator<Item = String> {
    ["healthz", "livez", "readyz"].into_iter().flat_map(|endpoint| {
        let single = checks(endpoint).into_iter().map(move |check| format!("/{endpoint}/{check}"));
        std::iter::once(format!("/{endpoint}")).chain(single)
    })
}

/// Answers for an endpoint, or for one of its checks if `check` is not empty.
pub(super) fn respond(endpoint: &str, check: &str, query: &str) -> Reply {
    let all = checks(endpoint);
    match check {
        "" => nosniff(Reply::text(200, summary(endpoint, &all, query))),
        known if all.contains(&known) => Reply::text(200, "ok"),
        _ => super::page_not_found(),
    }
}

fn nosniff(mut reply: Reply) -> Reply {
    reply.headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    reply
}

fn summary(endpoint: &str, all: &[&str], query: &str) -> String {
    let parameters: Vec<(&str, &str)> =
        query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    if !parameters.iter().any(|(name, _)| *name == "verbose") {
        return "ok".to_owned();
    }
    let excluded: Vec<&str> =
        parameters.iter().filter(|(name, _)| *name == "exclude").map(|(_, value)| *value).collect();
    let mut lines: Vec<String> = all
        .iter()
        .map(
            |check| {
                if excluded.contains(check) { format!("[+]{check} excluded: ok") } else { format!("[+]{check} ok") }
            },
        )
        .collect();
    let unknown: Vec<String> =
        excluded.iter().filter(|name| !all.contains(name)).map(|name| format!("{name:?}")).collect();
    if !unknown.is_empty() {
        lines.push(format!("warn: some health checks cannot be excluded: no matches for {}", unknown.join(",")));
    }
    lines.push(format!("{endpoint} check passed\n"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("livez", "", "ok", "ok")]
    #[case(
        "readyz",
        "verbose",
        "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n",
        "[+]shutdown ok\nreadyz check passed\n"
    )]
    #[case("livez", "verbose=true&exclude=ping", "[+]ping excluded: ok\n", "livez check passed\n")]
    #[case("livez", "exclude=nope&verbose", "[+]ping ok\n", "no matches for \"nope\"\nlivez check passed\n")]
    fn summaries(#[case] endpoint: &str, #[case] query: &str, #[case] start: &str, #[case] end: &str) {
        let text = summary(endpoint, &checks(endpoint), query);
        assert!(text.starts_with(start) && text.ends_with(end), "{text}");
    }
}
