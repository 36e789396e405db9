//! Serves the kinds of stored definitions: registration, status and finalization. Does the work of upstream's
//! controllers in `staging/src/k8s.io/apiextensions-apiserver/pkg/controller` (`status`, `establish`, `finalizer`), but
//! synchronously after each write.

use std::collections::BTreeMap;

use http::{HeaderValue, Method, header};
use jiff::Timestamp;

use super::{CLEANUP_FINALIZER, GROUP, RESOURCE, kinds, names, text};
use crate::faults::WatchEnd;
use crate::json::{Value, json};
use crate::metadata::{self, is_deleted};
use crate::registry::Resource;
use crate::request::ApiRequest;
use crate::server::{ApiServer, storage_id};
use crate::store::ResourceId;

/// User agent of the requests that the server makes itself.
pub(crate) const USER_AGENT: &str = "kube-apiserver";

/// Most rounds of [`reconcile`]; each round makes one request.
const ROUNDS: usize = 1000;

/// Returns the definition with defaults and the status that the server would give it, for definitions in a fixture's
/// initial state.
pub(crate) fn with_status(mut definition: Value, others: &[Value], now: Timestamp) -> Value {
    use crate::registry::Strategy as _;
    super::DefinitionStrategy.default(&mut definition);
    let stored = super::definition_strategy::stored_versions(&definition["spec"]);
    if definition.pointer("/status/storedVersions").is_none_or(Value::is_null) && definition.is_object() {
        definition["status"]["storedVersions"] = json!(stored);
    }
    definition["status"] = names::status(&definition, others, now);
    definition
}

fn definitions(server: &ApiServer) -> Vec<Value> {
    server.list(&ResourceId::new(GROUP, RESOURCE), None).iter().map(|stored| stored.value()).collect()
}

/// Registers the kinds of all established definitions and removes the kinds of all others. Watches of kinds that change
/// or go end after their last events.
pub(crate) fn sync_registry(server: &ApiServer) {
    let mut served: Vec<_> = definitions(server).iter().flat_map(kinds).collect();
    served.sort_by_cached_key(|kind| {
        (kind.group.to_string(), names::version_rank(&kind.version), kind.plural.to_string())
    });
    let shapes = |kinds: &mut dyn Iterator<Item = &Resource>| -> BTreeMap<ResourceId, [Value; 2]> {
        let custom = kinds.filter_map(|kind| Some((storage_id(kind), kind.custom.as_ref()?.served_as.clone())));
        custom.collect()
    };
    let before = shapes(&mut server.registry().kinds().map(|kind| &**kind));
    let now = shapes(&mut served.iter());
    server.change_registry(|registry| {
        let custom: Vec<_> = registry.kinds().filter(|kind| kind.custom.is_some()).cloned().collect();
        for kind in custom {
            registry.remove(&kind.group, &kind.version, &kind.plural);
        }
        for kind in served {
            registry.insert(kind);
        }
    });
    for (resource, shape) in before {
        if now.get(&resource) != Some(&shape) {
            server.faults().end_watches(Some(&resource), WatchEnd::Drained);
        }
    }
}

impl ApiServer {
    /// Returns the definition with defaults and the status that it has among the stored definitions.
    pub(crate) fn complete_definition(&self, definition: Value) -> Value {
        with_status(definition, &definitions(self), self.clock().now())
    }

    /// Registers the kinds of all established definitions and removes the kinds of all others.
    pub(crate) fn register_definitions(&self) {
        sync_registry(self);
    }
}

/// Returns true if the definition of a kind is being deleted.
pub(crate) fn is_terminating(server: &ApiServer, kind: &Resource) -> bool {
    let Some(custom) = &kind.custom else { return false };
    let definition = server.get(&ResourceId::new(GROUP, RESOURCE), "", &custom.definition);
    definition.is_some_and(|stored| stored.is_terminating())
}

/// Reconciles the stored definitions: their status, the served kinds, and the objects of definitions that are being
/// deleted. Call it after every write to a definition, and after a write to an object of a deleted definition.
pub(crate) async fn reconcile(server: &ApiServer) {
    for _ in 0..ROUNDS {
        sync_registry(server);
        let all = definitions(server);
        let now = server.clock().now();
        let Some(request) = all.iter().find_map(|definition| next_request(server, definition, &all, now)) else {
            return;
        };
        let path = request.path.clone();
        let reply = Box::pin(server.handle(request)).await;
        if reply.status >= 300 {
            tracing::warn!(path, status = reply.status, "unable to bring a custom resource definition in line");
            return;
        }
    }
}

/// Returns the next request that reconciles a definition; `None` if nothing is left to do.
fn next_request(server: &ApiServer, definition: &Value, all: &[Value], now: Timestamp) -> Option<ApiRequest> {
    if is_deleted(definition) {
        return clean_up(server, definition);
    }
    let status = names::status(definition, all, now);
    (definition.get("status") != Some(&status)).then(|| patch(definition, "/status", &json!({"status": status})))
}

fn clean_up(server: &ApiServer, definition: &Value) -> Option<ApiRequest> {
    if !metadata::finalizers(definition).any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        return None;
    }
    let spec = &definition["spec"];
    let resource = ResourceId::new(text(spec, "group"), text(&spec["names"], "plural"));
    let left = server.list(&resource, None);
    if let Some(request) = progress_patch(definition, left.is_empty()) {
        return Some(request);
    }
    let kind = kinds(definition).into_iter().next();
    if let (Some(kind), false) = (kind, left.is_empty()) {
        // Deleted objects may still wait for finalizers of their own.
        let deletable = left.iter().find(|stored| !stored.is_terminating())?;
        let namespace = match deletable.namespace() {
            "" => String::new(),
            namespace => format!("namespaces/{namespace}/"),
        };
        let path = format!("/apis/{}/{}/{namespace}{}/{}", kind.group, kind.version, kind.plural, deletable.name());
        return Some(own_request(Method::DELETE, &path, None));
    }
    let rest: Vec<&str> = metadata::finalizers(definition).filter(|name| *name != CLEANUP_FINALIZER).collect();
    let finalizers = if rest.is_empty() { Value::Null } else { json!(rest) };
    Some(patch(definition, "", &json!({"metadata": {"finalizers": finalizers}})))
}

/// Returns a patch that sets the reason of the condition `Terminating` to `InstanceDeletionInProgress`; `None` if no
/// objects are left or the reason is set.
fn progress_patch(definition: &Value, done: bool) -> Option<ApiRequest> {
    let mut conditions = definition.pointer("/status/conditions")?.clone();
    let condition = conditions.as_array_mut()?.iter_mut().find(|condition| text(condition, "type") == "Terminating")?;
    if done || text(condition, "reason") == "InstanceDeletionInProgress" {
        return None;
    }
    condition["reason"] = json!("InstanceDeletionInProgress");
    condition["message"] = json!("CustomResource deletion is in progress");
    Some(patch(definition, "/status", &json!({"status": {"conditions": conditions}})))
}

fn patch(definition: &Value, subresource: &str, body: &Value) -> ApiRequest {
    let name = metadata::name(definition);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::crd::tests::widgets;
    use crate::request::ReplyBody;
    use crate::{ApiServerConfig, Reply};

    async fn send(server: &ApiServer, method: Method, path: &str, body: Value) -> (u16, Value) {
        let mut request = ApiRequest::new(method.clone(), path);
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if !body.is_null() {
            request.body = body.to_string().into();
        }
        let Reply { status, body: ReplyBody::Full(bytes), .. } = server.handle(request).await else {
            panic!("no full body")
        };
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const WIDGETS: &str = "/apis/h6.example.com/v1/namespaces/default/widgets";

    #[tokio::test(start_paused = true)]
    async fn a_definition_from_its_creation_to_its_end() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        let (code, created) = send(&server, Method::POST, DEFINITIONS, widgets()).await;
        assert_eq!((code, &created["status"]["conditions"]), (201, &Value::Null));
        let path = format!("{DEFINITIONS}/widgets.h6.example.com");
        let (_, definition) = send(&server, Method::GET, &path, Value::Null).await;
        assert_eq!(definition["status"]["conditions"][1]["type"], "Established");

        let (code, list) = send(&server, Method::GET, "/apis/h6.example.com/v1", Value::Null).await;
        assert_eq!((code, &list["resources"][2]["name"]), (200, &json!("widgets/scale")));

        let widget = json!({"apiVersion": "h6.example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
            "spec": {"bogus": 1}, "status": {"replicas": 5}});
        let (code, created) = send(&server, Method::POST, WIDGETS, widget).await;
        assert_eq!((code, &created["spec"], created.get("status")), (201, &json!({"size": 3}), None));
        let (code, refused) = send(&server, Method::PATCH, &format!("{WIDGETS}/w"), json!({"spec": {"size": 0}})).await;
        assert_eq!(code, 422, "{refused}");
        let (_, beta) =
            send(&server, Method::GET, "/apis/h6.example.com/v1beta1/namespaces/default/widgets/w", Value::Null).await;
        assert_eq!(beta["apiVersion"], "h6.example.com/v1beta1");

        let (code, deleted) = send(&server, Method::DELETE, &path, Value::Null).await;
        assert_eq!((code, &deleted["metadata"]["finalizers"][0]), (200, &json!(CLEANUP_FINALIZER)));
        assert_eq!(send(&server, Method::GET, &path, Value::Null).await.0, 404);
        assert_eq!(send(&server, Method::GET, "/apis/h6.example.com/v1", Value::Null).await.0, 404);
        assert!(server.list(&ResourceId::new("h6.example.com", "widgets"), None).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_seeded_definition_is_served_at_once() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        let widget =
            json!({"apiVersion": "h6.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}});
        server.seed([widgets(), widget]).unwrap();
        let (_, found) = send(&server, Method::GET, &format!("{WIDGETS}/w"), Value::Null).await;
        assert_eq!(found["spec"], json!({"size": 3}));
    }

    /// As in "Defaulting" of the documentation of custom resources: a request gets the defaults of its own version, and
    /// a stored object those of the storage version, in each version that is read.
    #[tokio::test(start_paused = true)]
    async fn stored_objects_have_the_defaults_of_the_storage_version() {
        let schema = |default: &str| {
            let own = |name: &str| {
                let text = json!({"type": "string"});
                if name == default { json!({"type": "string", "default": name}) } else { text }
            };
            json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                "properties": {"old": own("old"), "new": own("new")}}}}})
        };
        let mut definition = widgets();
        definition["spec"]["versions"] = json!([
            {"name": "v1beta1", "served": true, "storage": false, "schema": schema("old")},
            {"name": "v1", "served": true, "storage": true, "schema": schema("new")},
        ]);
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        assert_eq!(send(&server, Method::POST, DEFINITIONS, definition).await.0, 201);
        let beta = WIDGETS.replace("/v1/", "/v1beta1/");
        let widget = |version: &str, name: &str| json!({"apiVersion": format!("h6.example.com/{version}"), "kind": "Widget", "metadata": {"name": name}, "spec": {}});
        let both = json!({"old": "old", "new": "new"});
        let (code, created) = send(&server, Method::POST, &beta, widget("v1beta1", "a")).await;
        assert_eq!((code, &created["spec"]), (201, &both));
        assert_eq!(send(&server, Method::GET, &format!("{WIDGETS}/a"), Value::Null).await.1["spec"], both);
        assert_eq!(send(&server, Method::POST, WIDGETS, widget("v1", "b")).await.0, 201);
        let (_, found) = send(&server, Method::GET, &format!("{beta}/b"), Value::Null).await;
        assert_eq!((&found["spec"], &found["apiVersion"]), (&json!({"new": "new"}), &json!("h6.example.com/v1beta1")));
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_read_by_the_schema_of_now_and_watches_end_with_it() {
        use futures::StreamExt as _;
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        assert_eq!(send(&server, Method::POST, DEFINITIONS, widgets()).await.0, 201);
        let widget = json!({"apiVersion": "h6.example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
            "spec": {"replicas": 2}});
        assert_eq!(send(&server, Method::POST, WIDGETS, widget).await.0, 201);
        let mut watch = ApiRequest::new(Method::GET, WIDGETS);
        watch.query = "watch=1&resourceVersion=0".to_owned();
        let ReplyBody::Stream(mut events) = server.handle(watch).await.body else { panic!("no stream") };
        assert!(events.next().await.is_some_and(|event| event.is_ok()));

        let path = format!("{DEFINITIONS}/widgets.h6.example.com");
        let (_, mut definition) = send(&server, Method::GET, &path, Value::Null).await;
        let properties = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties";
        let fields = definition.pointer_mut(properties).and_then(Value::as_object_mut).unwrap();
        fields.remove("replicas");
        fields.insert("color", json!({"type": "string", "default": "red"}));
        assert_eq!(send(&server, Method::PUT, &path, definition).await.0, 200);

        let (_, found) = send(&server, Method::GET, &format!("{WIDGETS}/w"), Value::Null).await;
        assert_eq!(found["spec"], json!({"size": 3, "color": "red"}));
        let (_, list) = send(&server, Method::GET, WIDGETS, Value::Null).await;
        assert_eq!(list["items"][0]["spec"], json!({"size": 3, "color": "red"}));
        assert!(events.next().await.is_none(), "the watch ends");
    }
}
