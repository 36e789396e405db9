//! OpenAPI documents: v3 by group and version, v2 as a whole. Serves the paths of `k8s.io/kube-openapi/pkg/handler` and
//! `k8s.io/kube-openapi/pkg/handler3`. PURE.
//!
//! Types come from a table made of upstream's documents; paths from the [`Registry`]. The documents hold the data that
//! kubectl reads: descriptions for `explain`, support of `fieldValidation` and `dryRun`, and merge strategies of lists.

mod custom;
mod paths;
mod protobuf;
mod protobuf_v3;
mod root_documents;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderName;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use parking_lot::Mutex;

use super::etag::document_hash;
use super::negotiate;
use super::registry::{Registry, Resource};
use super::request::{ApiRequest, GzipThreshold, Reply};
use crate::json::{Key, Map, Value, json};
use crate::version::KubernetesVersion;

#[cfg(test)]
pub(crate) use types::read as definitions;

/// Answers requests under `/openapi`; `None` for other paths.
pub(crate) fn respond(registry: &Registry, request: &ApiRequest, now: Timestamp) -> Option<Reply> {
    // Of these documents only the index has a path with a slash at its end.
    let path = request.path.strip_prefix("/openapi/")?;
    let path = if path == "v3/" { "v3" } else { path };
    Some(match path.split_once('/') {
        None if path == "v2" => v2_reply(registry, request),
        None if path == "v3" => {
            let mut index = Reply::json(200, index(registry).to_string());
            index.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            index
        }
        Some(("v3", document)) => v3_reply(registry, request, document, now),
        _ => return None,
    })
}

/// Returns the schema of a kind as it is published, with the types that it refers to in place.
#[cfg(feature = "controllers")]
pub(crate) fn populated_schema(kind: &Resource) -> Value {
    let Some(own) = &kind.custom else {
        let name = kind.schema.to_string();
        return types::populated(&json!({"$ref": format!("{}{name}", types::PREFIX)}));
    };
    let mut schemas = Map::new();
    custom::add(kind, own, false, &mut schemas);
    schemas.get(&*custom::name_of(kind)).map_or(Value::Null, types::populated)
}

fn not_found() -> Reply {
    let mut reply = Reply::json(404, "");
    reply.headers.remove(CONTENT_TYPE);
    reply
}

/// Returns the groups and versions that have a document, named `apis/apps/v1` or `api/v1`.
fn documents(registry: &Registry) -> Vec<(String, &str, &str)> {
    let mut found = Vec::new();
    for group in registry.groups() {
        for version in registry.versions(group) {
            let name = if group.is_empty() {
                format!("api/{}", version.version)
            } else {
                format!("apis/{group}/{}", version.version)
            };
            found.push((name, group, version.version));
        }
    }
    found.sort();
    found
}

fn index(registry: &Registry) -> Value {
    let versions = documents(registry).into_iter().map(|(name, group, version)| {
        let hash = document(registry, group, version).hash.clone();
        (name, hash)
    });
    let others = root_documents::documents(registry).into_iter().map(|one| {
        let hash = document_hash(one.text(&info(registry.kubernetes_version())).as_bytes());
        (one.name, hash)
    });
    let mut entries: Vec<(String, String)> = versions.chain(others).collect();
    entries.sort_unstable();
    let entries: Map = entries
        .into_iter()
        .map(|(name, hash)| {
            let url = format!("/openapi/v3/{name}?hash={hash}");
            (name, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": entries})
}

/// An encoded document.
struct EncodedDocument {
    bytes: Bytes,
    hash: String,
}

/// Identifies a built-in document: release of Kubernetes, group and version.
type DocumentKey = (KubernetesVersion, String, String);

/// Documents of built-in groups, once they were made.
type KnownDocuments<T> = Mutex<BTreeMap<DocumentKey, Arc<T>>>;

/// Returns the document of a group and version. Those of built-in groups never change and are cached.
fn document(registry: &Registry, group: &str, version: &str) -> Arc<EncodedDocument> {
    static KNOWN: KnownDocuments<EncodedDocument> = Mutex::new(BTreeMap::new());
    known_or_made(&KNOWN, registry, group, version, |kinds| {
        let bytes = Bytes::from(group_document(registry, group, version, kinds, false).to_string());
        EncodedDocument { hash: document_hash(&bytes), bytes }
    })
}

/// Returns what is made of the kinds of a group and version; what is made of built-in kinds is kept in `known`.
fn known_or_made<T>(
    known: &KnownDocuments<T>,
    registry: &Registry,
    group: &str,
    version: &str,
    make: impl Fn(&[Arc<Resource>]) -> T,
) -> Arc<T> {
    let kinds: Vec<Arc<Resource>> =
        registry.kinds().filter(|kind| kind.group == group && kind.version == version).cloned().collect();
    if kinds.iter().any(|kind| kind.custom.is_some()) {
        return Arc::new(make(&kinds));
    }
    let key = (registry.kubernetes_version(), group.to_owned(), version.to_owned());
    if let Some(found) = known.lock().get(&key) {
        return Arc::clone(found);
    }
    // Built outside the lock: two threads may build the same document, and either is correct.
    let made = Arc::new(make(&kinds));
    known.lock().insert(key, Arc::clone(&made));
    made
}

fn info(version: KubernetesVersion) -> Value {
    json!({"title": "Kubernetes", "version": version.to_string()})
}

/// The title of documents about custom resources: `generateBuilder` in
/// `staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go`.
fn custom_info() -> Value {
    json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
}

fn group_document(registry: &Registry, group: &str, version: &str, kinds: &[Arc<Resource>], v2: bool) -> Value {
    let mut roots = vec![
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions".to_owned(),
        "io.k8s.apimachinery.pkg.apis.meta.v1.Status".to_owned(),
    ];
    let mut schemas = Map::new();
    for kind in kinds {
        if let Some(own) = &kind.custom {
            custom::add(kind, own, v2, &mut schemas);
            roots.push("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta".to_owned());
            roots.push("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta".to_owned());
        } else {
            roots.push(kind.schema.to_string());
            roots.push(format!("{}List", kind.schema));
        }
        roots.extend(kind.subresources.iter().filter_map(|sub| paths::body_of(kind, sub)));
    }
    for (name, schema) in types::closure(roots) {
        schemas.insert(name.to_owned(), schema.clone());
    }
    let is_custom = kinds.iter().all(|kind| kind.custom.is_some());
    json!({
        "openapi": "3.0.0",
        "info": if is_custom { custom_info() } else { info(registry.kubernetes_version()) },
        "paths": paths::version_paths(group, version, kinds),
        "components": {"schemas": schemas},
    })
}

fn v3_reply(registry: &Registry, request: &ApiRequest, name: &str, now: Timestamp) -> Reply {
    let found = documents(registry).into_iter().find(|(document, _, _)| document == name);
    let small = || root_documents::documents(registry).into_iter().find(|document| document.name == name);
    let document = match (found, small) {
        (Some((_, group, version)), _) => document(registry, group, version),
        (None, small) => {
            let Some(small) = small() else { return not_found() };
            let bytes = Bytes::from(small.text(&info(registry.kubernetes_version())));
            Arc::new(EncodedDocument { hash: document_hash(&bytes), bytes })
        }
    };
    let chosen = accepted(request, &protobuf_v3::ACCEPTED);
    match chosen {
        AcceptedEncoding::Nothing => return without_content(406),
        AcceptedEncoding::Unread => return without_content(200),
        AcceptedEncoding::Json | AcceptedEncoding::Protobuf => {}
    }
    let wanted = request.query.split('&').find_map(|pair| pair.strip_prefix("hash=")).unwrap_or_default();
    let etag = format!("\"{}\"", document.hash);
    let mut reply = if !wanted.is_empty() && wanted != document.hash {
        let mut moved = Reply::json(301, "");
        let location = format!("{}?hash={}", request.path, document.hash);
        if let Ok(location) = HeaderValue::from_str(&location) {
            moved.headers.insert(LOCATION, location);
        }
        moved
    } else if request.header(IF_NONE_MATCH) == etag {
        Reply::json(304, "")
    } else if chosen == AcceptedEncoding::Protobuf {
        let value = serde_json::from_slice(&document.bytes).unwrap_or_default();
        Reply::json(200, protobuf_v3::document(&value))
    } else {
        Reply::json(200, document.bytes.clone())
    };
    if chosen == AcceptedEncoding::Protobuf {
        reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(protobuf_v3::MEDIA_TYPE));
    }
    if wanted == document.hash {
        reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        if let Some(end) = in_a_year(now).and_then(|end| HeaderValue::from_str(&end).ok()) {
            reply.headers.insert(EXPIRES, end);
        }
    }
    with_etag(reply, &etag)
}

/// Returns the time a year from now in the form of HTTP: `HandleGroupVersion` of
/// `k8s.io/kube-openapi/pkg/handler3/handler.go`, in a server whose time zone is UTC.
fn in_a_year(now: Timestamp) -> Option<String> {
    let end = now.to_zoned(TimeZone::UTC).checked_add(1.year()).ok()?;
    Some(end.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string())
}

/// The encoding of a document that a request selects by its `Accept` header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AcceptedEncoding {
    Json,
    Protobuf,
    /// Only what is not served.
    Nothing,
    /// A header without a media type.
    Unread,
}

/// Returns the first media type in the `Accept` header that is served; `protobuf` are the names of that encoding.
fn accepted(request: &ApiRequest, protobuf: &[&str; 2]) -> AcceptedEncoding {
    let header = Some(request.header(ACCEPT)).filter(|header| !header.is_empty()).unwrap_or("*/*");
    let clauses = negotiate::clauses(header);
    let is_protobuf = |media: String| protobuf.contains(&&*media);
    let found = clauses.iter().find_map(|clause| match (clause.kind, clause.subtype) {
        ("application" | "*", "json" | "*") => Some(AcceptedEncoding::Json),
        ("application" | "*", subtype) if is_protobuf(format!("application/{subtype}")) => {
            Some(AcceptedEncoding::Protobuf)
        }
        _ => None,
    });
    found.unwrap_or(if clauses.is_empty() { AcceptedEncoding::Unread } else { AcceptedEncoding::Nothing })
}

/// Returns a reply without a body, in place of a document.
fn without_content(code: u16) -> Reply {
    let mut reply = Reply::json(code, "");
    reply.headers.remove(CONTENT_TYPE);
    reply.headers.insert(VARY, HeaderValue::from_static("Accept"));
    reply
}

fn with_etag(mut reply: Reply, etag: &str) -> Reply {
    reply.headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(etag) = HeaderValue::from_str(etag) {
        reply.headers.insert(ETAG, etag);
    }
    reply.headers.insert(HeaderName::from_static("accept-ranges"), HeaderValue::from_static("bytes"));
    reply
}

/// A group and version in the document of v2.
struct V2Part {
    paths: Map,
    definitions: Map,
}

/// Returns a part of the document of v2. Those of built-in groups never change and are cached: clients that wait for
/// the types of a definition read the document again and again.
fn v2_part(registry: &Registry, group: &str, version: &str) -> Arc<V2Part> {
    static KNOWN: KnownDocuments<V2Part> = Mutex::new(BTreeMap::new());
    known_or_made(&KNOWN, registry, group, version, |kinds| {
        let mut document = group_document(registry, group, version, kinds, true);
        let mut part = V2Part { paths: Map::new(), definitions: Map::new() };
        if let Value::Object(found) = document["paths"].take() {
            part.paths.extend(found.into_iter().map(|(path, item)| (path, paths::to_v2(item))));
        }
        if let Value::Object(found) = document["components"]["schemas"].take() {
            part.definitions.extend(found.into_iter().map(|(name, schema)| (name, types::to_v2(schema))));
        }
        part
    })
}

/// Returns all groups in one document, with v2's references and types; as protobuf if the client accepts it (kubectl
/// accepts nothing else).
fn v2_reply(registry: &Registry, request: &ApiRequest) -> Reply {
    let chosen = accepted(request, &protobuf::ACCEPTED_V2);
    if matches!(chosen, AcceptedEncoding::Nothing | AcceptedEncoding::Unread) {
        return without_content(406);
    }
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for (_, group, version) in documents(registry) {
        let part = v2_part(registry, group, version);
        let shared = |(name, value): (&Key, &Value)| (name.clone(), value.clone());
        paths.extend(part.paths.iter().map(shared));
        definitions.extend(part.definitions.iter().map(shared));
    }
    let document = json!({"swagger": "2.0", "info": info(registry.kubernetes_version()), "paths": paths, "definitions": definitions});
    let as_protobuf = chosen == AcceptedEncoding::Protobuf;
    let bytes = if as_protobuf { protobuf::document(&document) } else { document.to_string().into_bytes() };
    let etag = format!("\"{}\"", document_hash(&bytes));
    let unchanged = request.header(IF_NONE_MATCH) == etag;
    let mut reply = if unchanged { Reply::json(304, "") } else { Reply::json(200, bytes) };
    if as_protobuf {
        reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(protobuf::MEDIA_TYPE));
    }
    reply.extensions.insert(GzipThreshold::OPENAPI);
    let mut reply = with_etag(reply, &etag);
    reply.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    reply
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rstest::rstest;

    use super::*;
    use crate::request::ReplyBody;

    fn get(path: &str) -> (u16, Value) {
        let reply = respond(&Registry::builtin(), &ApiRequest::new(Method::GET, path), Timestamp::UNIX_EPOCH).unwrap();
        let ReplyBody::Full(bytes) = &reply.body else { panic!("no full body") };
        (reply.status, serde_json::from_slice(bytes).unwrap_or(Value::Null))
    }

    #[test]
    fn documents_are_found_through_the_index() {
        let (_, index) = get("/openapi/v3");
        let url = index["paths"]["apis/policy/v1"]["serverRelativeURL"].as_str().unwrap();
        let request = ApiRequest::new(Method::GET, url);
        let hashed = respond(&Registry::builtin(), &request, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(hashed.headers[EXPIRES], "Fri, 01 Jan 1971 00:00:00 UTC");
        let (code, document) = get(url);
        assert_eq!(code, 200);
        let budget = &document["components"]["schemas"]["io.k8s.api.policy.v1.PodDisruptionBudget"];
        assert_eq!(
            budget["x-kubernetes-group-version-kind"],
            json!([{"group": "policy", "kind": "PodDisruptionBudget", "version": "v1"}])
        );
        assert_eq!(
            budget["properties"]["spec"]["allOf"][0]["$ref"],
            "#/components/schemas/io.k8s.api.policy.v1.PodDisruptionBudgetSpec"
        );
        let patch = &document["paths"]["/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}"]["patch"];
        let names: Vec<&str> =
            patch["parameters"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
        assert!(names.contains(&"fieldValidation") && names.contains(&"dryRun"), "{names:?}");
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "PodDisruptionBudget");
    }

    /// `RegisterOpenAPIVersionedService` of `k8s.io/kube-openapi/pkg/handler/handler.go`, and `HandleGroupVersion` of
    /// `k8s.io/kube-openapi/pkg/handler3/handler.go`.
    #[rstest]
    #[case("", 200, 200)]
    #[case("application/json", 200, 200)]
    #[case("application/*", 200, 200)]
    #[case("text/html, */*;q=0.1", 200, 200)]
    #[case("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", 200, 406)]
    #[case("application/com.github.proto-openapi.spec.v3@v1.0+protobuf", 406, 200)]
    #[case("application/com.github.proto-openapi.spec.v3.v1.0+protobuf,application/json", 200, 200)]
    #[case("application/yaml", 406, 406)]
    #[case("text/html", 406, 406)]
    #[case("garbage", 406, 200)]
    fn only_what_is_accepted_is_served(#[case] accept: &str, #[case] v2: u16, #[case] v3: u16) {
        let registry = Registry::builtin();
        for (path, expected) in [("/openapi/v2", v2), ("/openapi/v3/apis/policy/v1", v3)] {
            let mut request = ApiRequest::new(Method::GET, path);
            request.headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
            let reply = respond(&registry, &request, Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(reply.status, expected, "{path}");
            assert_eq!(reply.headers[VARY], "Accept");
            if accept.contains("spec.v3") && reply.status == 200 && path.contains("v3") {
                assert_eq!(reply.headers[CONTENT_TYPE], protobuf_v3::MEDIA_TYPE);
            }
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        for (name, group, version) in documents(&Registry::builtin()) {
            let registry = Registry::builtin();
            let document = document(&registry, group, version);
            let value: Value = serde_json::from_slice(&document.bytes).unwrap();
            let text = std::str::from_utf8(&document.bytes).unwrap();
            for part in text.split("\"#/components/schemas/").skip(1) {
                let target = part.split('"').next().unwrap();
                assert!(value["components"]["schemas"].get(target).is_some(), "{name}: {target}");
            }
        }
    }

    #[test]
    fn lists_say_how_they_merge() {
        let (_, document) = get("/openapi/v3/api/v1");
        let containers = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    }

    #[test]
    fn version_two_is_one_document() {
        let (code, document) = get("/openapi/v2");
        assert_eq!((code, &document["swagger"]), (200, &json!("2.0")));
        let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["$ref"];
        assert_eq!(pod, "#/definitions/io.k8s.api.core.v1.PodSpec");
        // `test/cmd/discovery.sh` looks for these texts.
        let text = document.to_string();
        for part in ["list of returned", "List of services", "Watch for changes to the described resources"] {
            assert!(text.contains(part), "{part}");
        }
        let path = "/api/v1/namespaces/{namespace}/services/{name}";
        let patch = &document["paths"][path]["patch"];
        assert_eq!(patch["description"], "partially update the specified Service");
        assert_eq!(patch["consumes"].as_array().map(Vec::len), Some(4), "{}", patch["consumes"]);
        assert_eq!(
            patch["produces"],
            json!(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])
        );
        let roles = &document["paths"]["/apis/rbac.authorization.k8s.io/v1/clusterroles"]["delete"];
        assert_eq!(roles["operationId"], "deleteRbacAuthorizationV1CollectionClusterRole");
        assert_eq!(roles["tags"], json!(["rbacAuthorization_v1"]));
        assert_eq!(get("/openapi/v3/apis/none/v1").0, 404);
    }
}
