//! From stored definitions to served kinds: registration, status, and the end of a definition.

use http::{HeaderValue, Method, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CLEANUP_FINALIZER, GROUP, RESOURCE, kinds, names, text};
use crate::apiserver::request::ApiRequest;
use crate::apiserver::server::ApiServer;
use crate::apiserver::store::ResourceId;

/// The user agent of what the server does by itself.
const USER_AGENT: &str = "kube-apiserver";

/// How often definitions are looked at again after a change of them; each round does one thing.
const ROUNDS: usize = 1000;

/// The definition with the status that the server would give it: for definitions that a fixture begins with.
pub fn completed(mut definition: Value, others: &[Value], now: Timestamp) -> Value {
    use crate::apiserver::kinds::Strategy as _;
    super::Definition.default(&mut definition);
    if let Some(fields) = definition.as_object_mut() {
        let status = fields.entry("status").or_insert_with(|| json!({}));
        if status["storedVersions"].is_null() {
            status["storedVersions"] = json!(super::definition::stored_versions(&fields["spec"]));
        }
    }
    definition["status"] = names::status(&definition, others, now);
    definition
}

fn definitions(server: &ApiServer) -> Vec<Value> {
    server.list(&ResourceId::new(GROUP, RESOURCE), None).iter().map(|stored| stored.value()).collect()
}

/// Serves the kinds of all established definitions and no others.
pub fn register(server: &ApiServer) {
    let mut served: Vec<_> = definitions(server).iter().flat_map(kinds).collect();
    served.sort_by_cached_key(|kind| (kind.group.to_string(), names::version_rank(&kind.version), kind.plural.to_string()));
    server.change_registry(|registry| {
        let custom: Vec<_> = registry.kinds().filter(|kind| kind.custom.is_some()).cloned().collect();
        for kind in custom {
            registry.remove(&kind.group, &kind.version, &kind.plural);
        }
        for kind in served {
            registry.insert(kind);
        }
    });
}

/// Brings everything in line with the stored definitions: their status, the served kinds, and the objects of definitions
/// that are being deleted. To be called after every write to a definition, and to an object of a deleted one.
pub async fn settle(server: &ApiServer) {
    for _ in 0..ROUNDS {
        register(server);
        let all = definitions(server);
        let now = server.clock().now();
        let Some(request) = all.iter().find_map(|definition| next(server, definition, &all, now)) else { return };
        let path = request.path.clone();
        let reply = Box::pin(server.handle(request)).await;
        if reply.status >= 300 {
            tracing::warn!(path, status = reply.status, "unable to bring a custom resource definition in line");
            return;
        }
    }
}

/// The next thing to do about a definition.
fn next(server: &ApiServer, definition: &Value, all: &[Value], now: Timestamp) -> Option<ApiRequest> {
    if definition.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return clean_up(server, definition);
    }
    let status = names::status(definition, all, now);
    (definition.get("status") != Some(&status)).then(|| patch(definition, "/status", &json!({"status": status})))
}

fn clean_up(server: &ApiServer, definition: &Value) -> Option<ApiRequest> {
    let finalizers = definition["metadata"]["finalizers"].as_array()?;
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        return None;
    }
    let spec = &definition["spec"];
    let resource = ResourceId::new(text(spec, "group"), text(&spec["names"], "plural"));
    let left = server.list(&resource, None);
    let kind = kinds(definition).into_iter().next();
    if let (Some(kind), false) = (kind, left.is_empty()) {
        // Objects with finalizers of their own are waited for.
        let deletable = left.iter().find(|stored| {
            stored.value().pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null)
        })?;
        let namespace = match deletable.namespace() {
            "" => String::new(),
            namespace => format!("namespaces/{namespace}/"),
        };
        let path = format!("/apis/{}/{}/{namespace}{}/{}", kind.group, kind.version, kind.plural, deletable.name());
        return Some(own_request(Method::DELETE, &path, None));
    }
    let rest: Vec<&Value> = finalizers.iter().filter(|finalizer| *finalizer != CLEANUP_FINALIZER).collect();
    let finalizers = if rest.is_empty() { Value::Null } else { json!(rest) };
    Some(patch(definition, "", &json!({"metadata": {"finalizers": finalizers}})))
}

fn patch(definition: &Value, subresource: &str, body: &Value) -> ApiRequest {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    own_request(Method::PATCH, &format!("/apis/{GROUP}/v1/{RESOURCE}/{name}{subresource}"), Some(body))
}

fn own_request(method: Method, path: &str, body: Option<&Value>) -> ApiRequest {
    let mut request = ApiRequest::new(method, path);
    request.headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    if let Some(body) = body {
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/merge-patch+json"));
        request.body = body.to_string().into();
    }
    request
}
