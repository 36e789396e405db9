//! Discovery of API groups and resources, version, health and root paths. Follows `pkg/endpoints/discovery` and
//! `pkg/server/routes` in `staging/src/k8s.io/apiserver` of Kubernetes 1.36. PURE.
//!
//! [`respond`] answers every request that is not for an object. Discovery is derived from the [`Registry`] alone, so a
//! custom resource appears as soon as it is served.

mod document;
mod health;
pub(crate) mod openid;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderName, Method};
use serde::Serialize;

use super::etag::document_hash;
use super::go_json;
use super::negotiate::{self, MEDIA_TYPES, MediaType, to_yaml};
use super::registry::Registry;
use super::request::{ApiRequest, Reply};
use super::status::Status;

/// Media type of aggregated discovery.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers requests for discovery, version, health and root paths. Returns `None` for paths below a served group and
/// version (objects) and for the OpenAPI documents.
pub(crate) fn respond(registry: &Registry, request: &ApiRequest) -> Option<Reply> {
    let path = request.path.trim_end_matches('/');
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match segments.as_slice() {
        [] | ["index.html"] => {
            Some(Reply::json(200, go_json::pretty_print(&encode(&document::RootPaths { paths: root_paths(registry) }))))
        }
        ["api"] => Some(check_route(request, &MEDIA_TYPES, || {
            negotiate_root(request, || document::aggregated(registry, true), || legacy_versions(request))
        })),
        ["apis"] => Some(negotiate_root(request, || document::aggregated(registry, false), || legacy_groups(registry))),
        ["api", version] => Some(resources_reply(request, registry, "", version)),
        ["apis", group] => Some(negotiate_document(request, group_reply(registry, group))),
        ["apis", group, version] => Some(resources_reply(request, registry, group, version)),
        ["api" | "apis" | "openapi", ..] => None,
        ["version"] => Some(check_route(request, &["application/json"], || {
            // Always indented.
            let version = document::VersionInfo::of(registry.kubernetes_version(), registry.git_version());
            Reply::json(200, go_json::pretty_print(&encode(&version)))
        })),
        ["healthz" | "livez", ..] if request.path.ends_with('/') => Some(page_not_found()),
        [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
            Some(health::respond(endpoint, &check.join("/"), &request.query))
        }
        _ => {
            tracing::info!(
                path = request.path,
                "no such endpoint; served are /api, /apis, /openapi, /version, /healthz, /livez, /readyz"
            );
            Some(page_not_found())
        }
    }
}

/// Returns the resources of a group and version. Upstream serves those of definitions without going through its router.
fn resources_reply(request: &ApiRequest, registry: &Registry, group: &str, version: &str) -> Reply {
    let reply = || negotiate_document(request, resources(registry, group, version));
    if is_custom(registry, group, version) { reply() } else { check_route(request, &MEDIA_TYPES, reply) }
}

/// Returns true if all kinds of a group and version come from definitions.
fn is_custom(registry: &Registry, group: &str, version: &str) -> bool {
    let mut kinds = registry.kinds().filter(|kind| kind.group == group && kind.version == version).peekable();
    kinds.peek().is_some() && kinds.all(|kind| kind.custom.is_some())
}

/// Applies the checks of upstream's router to a document: GET only, and only the media types that the route produces.
/// Handlers of the other documents check neither.
fn check_route(request: &ApiRequest, produced: &[&str], reply: impl FnOnce() -> Reply) -> Reply {
    let reply = reply();
    if reply.status == 404 {
        return reply;
    }
    if request.method != Method::GET {
        return Status::method_not_allowed().into();
    }
    let accepted = request.header(http::header::ACCEPT);
    if negotiate::routed(Some(accepted), produced) {
        return reply;
    }
    let mut refusal = Reply::from(Status::not_acceptable_route(produced));
    if negotiate::wants_yaml(accepted) {
        to_yaml(&mut refusal);
    }
    refusal
}

/// Encodes a document in the format that the client prefers.
fn negotiate_document(request: &ApiRequest, mut reply: Reply) -> Reply {
    let accepted = request.header(http::header::ACCEPT);
    if reply.status != 200 || reply.headers.get(CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
        return reply;
    }
    match negotiate::negotiate_document(accepted) {
        None => return Status::not_acceptable(&MEDIA_TYPES).into(),
        Some(MediaType::Yaml) => to_yaml(&mut reply),
        Some(MediaType::Json | MediaType::Protobuf) => {}
    }
    reply
}

/// The reply to paths outside of the API: a plain 404.
pub(crate) fn page_not_found() -> Reply {
    with_nosniff(Reply::text(404, "404 page not found\n"))
}

fn with_nosniff(mut reply: Reply) -> Reply {
    reply.headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    reply
}

fn json_reply(document: &impl Serialize) -> Reply {
    Reply::json(200, encode(document))
}

fn encode(document: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Returns `/api` or `/apis` in the format that the client prefers.
fn negotiate_root(
    request: &ApiRequest,
    aggregated: impl FnOnce() -> document::ApiGroupDiscoveryList,
    legacy: impl FnOnce() -> Reply,
) -> Reply {
    let accepted = request.header(http::header::ACCEPT);
    for clause in negotiate::clauses(accepted) {
        if !matches!((clause.kind, clause.subtype), ("application", "json" | "*") | ("*", "*")) {
            continue;
        }
        match (clause.param("as"), clause.param("g"), clause.param("v")) {
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => return with_etag(request, &aggregated()),
            ("", _, _) => return negotiate_document(request, legacy()),
            _ => {}
        }
    }
    negotiate_document(request, legacy())
}

fn with_etag(request: &ApiRequest, document: &document::ApiGroupDiscoveryList) -> Reply {
    let bytes = encode(document);
    let etag = format!("\"{}\"", document_hash(&bytes));
    let mut reply = if request.header(IF_NONE_MATCH) == etag {
        let mut unchanged = Reply::json(304, Vec::new());
        unchanged.headers.remove(CONTENT_TYPE);
        unchanged
    } else {
        let mut full = Reply::json(200, bytes);
        full.headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
        full
    };
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    reply.headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        reply.headers.insert(ETAG, etag);
    }
    reply
}

fn legacy_versions(request: &ApiRequest) -> Reply {
    json_reply(&document::ApiVersions::new(host(request)))
}

fn host(request: &ApiRequest) -> &str {
    match request.header(http::header::HOST) {
        "" => "127.0.0.1:6443",
        host => host,
    }
}

fn legacy_groups(registry: &Registry) -> Reply {
    json_reply(&document::group_list(registry))
}

fn group_reply(registry: &Registry, group: &str) -> Reply {
    match document::group(registry, group) {
        Some(found) => json_reply(&found),
        None => page_not_found(),
    }
}

fn resources(registry: &Registry, group: &str, version: &str) -> Reply {
    let built_in = registry.kinds().any(|kind| kind.group == group && kind.custom.is_none());
    match document::resource_list(registry, group, version) {
        Some(list) => json_reply(&list),
        None if !built_in => page_not_found(),
        None => Status::unknown_resource().into(),
    }
}

fn root_paths(registry: &Registry) -> Vec<String> {
    const PATHS: [&str; 14] = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/flagz",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/statusz",
        "/version",
    ];
    let mut paths: Vec<String> = PATHS.into_iter().map(str::to_owned).collect();
    for group in registry.groups().filter(|group| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(registry.versions(group).iter().map(|version| format!("/apis/{group}/{}", version.version)));
    }
    paths.extend(health::paths());
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Value, json};
    use crate::request::ReplyBody;
    use rstest::rstest;

    fn get(path: &str, accept: &str) -> Reply {
        let mut request = ApiRequest::new(Method::GET, path);
        request.headers.insert(http::header::ACCEPT, HeaderValue::from_str(accept).unwrap());
        respond(&Registry::builtin(), &request).unwrap()
    }

    fn body(reply: &Reply) -> Value {
        match &reply.body {
            ReplyBody::Full(bytes) => serde_json::from_slice(bytes).unwrap(),
            ReplyBody::Stream(_) => panic!("a stream"),
        }
    }

    fn find<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
        list.as_array().unwrap().iter().find(|item| item[field] == name).unwrap()
    }

    #[test]
    fn scale_names_the_group_of_its_kind() {
        let list = body(&get("/apis/apps/v1", "application/json"));
        assert_eq!(
            find(&list["resources"], "name", "deployments/scale"),
            &json!({"name": "deployments/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
                "kind": "Scale", "verbs": ["get", "patch", "update"]})
        );
        assert_eq!(list["apiVersion"], "v1");
    }

    #[test]
    fn the_core_group_has_no_api_version() {
        let list = body(&get("/api/v1", "application/json"));
        assert!(list.get("apiVersion").is_none());
        let pods = find(&list["resources"], "name", "pods");
        assert_eq!((&pods["shortNames"], &pods["categories"]), (&json!(["po"]), &json!(["all"])));
        assert_eq!(pods["storageVersionHash"], "xPOwRZ+Yhw8=");
        let eviction = find(&list["resources"], "name", "pods/eviction");
        assert_eq!((&eviction["group"], &eviction["kind"]), (&json!("policy"), &json!("Eviction")));
    }

    #[test]
    fn groups_prefer_their_first_version() {
        let group = body(&get("/apis/autoscaling", "application/json"));
        assert_eq!(group["preferredVersion"]["version"], "v2");
        let groups = body(&get("/apis", "application/json"));
        assert!(find(&groups["groups"], "name", "policy")["versions"][0]["groupVersion"] == "policy/v1");
    }

    #[test]
    fn aggregated_discovery_is_cached_by_etag() {
        let first = get("/apis", AGGREGATED);
        assert_eq!(first.headers[CONTENT_TYPE], AGGREGATED);
        let mut again = ApiRequest::new(Method::GET, "/apis");
        again.headers.insert(http::header::ACCEPT, HeaderValue::from_static(AGGREGATED));
        again.headers.insert(IF_NONE_MATCH, first.headers[ETAG].clone());
        assert_eq!(respond(&Registry::builtin(), &again).unwrap().status, 304);
        let document = body(&first);
        let apps =
            document["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "apps").unwrap();
        let deployments = find(&apps["versions"][0]["resources"], "resource", "deployments");
        assert_eq!(deployments["responseKind"], json!({"group": "", "version": "", "kind": "Deployment"}));
        assert_eq!(
            deployments["subresources"][0]["responseKind"],
            json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
        );
    }

    #[rstest]
    #[case("/api/v1/pods")]
    #[case("/apis/apps/v1/deployments")]
    #[case("/openapi/v2")]
    fn objects_are_not_discovery(#[case] path: &str) {
        assert!(respond(&Registry::builtin(), &ApiRequest::new(Method::GET, path)).is_none());
    }

    #[rstest]
    #[case(Method::GET, "/nope", 404)]
    #[case(Method::GET, "/apis/nope", 404)]
    #[case(Method::GET, "/apis/apps/v9", 404)]
    #[case(Method::GET, "/api/v2", 404)]
    #[case(Method::DELETE, "/nope", 404)]
    #[case(Method::POST, "/version", 405)]
    #[case(Method::POST, "/api", 405)]
    #[case(Method::GET, "/", 200)]
    #[case(Method::GET, "/version/", 200)]
    #[case(Method::GET, "/healthz", 200)]
    #[case(Method::GET, "/healthz/nope", 404)]
    fn codes(#[case] method: Method, #[case] path: &str, #[case] code: u16) {
        assert_eq!(respond(&Registry::builtin(), &ApiRequest::new(method, path)).unwrap().status, code);
    }

    #[test]
    fn beta_aggregated_discovery_alone_is_not_acceptable() {
        assert_eq!(
            get("/api", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList").status,
            406
        );
    }
}
