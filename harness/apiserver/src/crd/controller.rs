//! Brings stored definitions in line: their status, and the objects of definitions that are being deleted. Does the
//! work of upstream's controllers in `staging/src/k8s.io/apiextensions-apiserver/pkg/controller` (`status`,
//! `establish`, `finalizer`), as far as it is short before the reply to the write. Many objects of a deleted
//! definition are deleted by a task of their own.

use http::{HeaderValue, Method, header};
use jiff::Timestamp;

use super::index::sync_registry;
use super::kinds::kinds;
use super::names;
use super::text_fields::text;
use crate::backoff::{Backoff, CONTROLLER};
use crate::json::{Value, json};
use crate::metadata::{self, is_deleted};
use crate::registry::Resource;
use crate::registry::custom::{CLEANUP_FINALIZER, GROUP, RESOURCE};
use crate::request::ApiRequest;
use crate::server::ApiServer;
use crate::store::{KeyRange, ResourceId, StoredObject};

/// User agent of the requests that the server makes itself.
pub(crate) const USER_AGENT: &str = "kube-apiserver";

/// Most requests that bring one definition in line: statuses, the reason of the deletion, the end.
const ROUNDS: usize = 8;

/// Most objects that are deleted before the reply to the request that deletes their definition.
const SHORT: usize = 10;

/// Returns the definition with defaults and the status that the server would give it, for definitions that are seeded.
/// `rivals` are the accepted names of the other definitions of the group.
pub(crate) fn with_status(mut definition: Value, rivals: &[Value], now: Timestamp) -> Value {
    use crate::registry::Strategy as _;
    super::definition_strategy::DefinitionStrategy.default(&mut definition);
    let stored = super::definition_strategy::stored_versions(&definition["spec"]);
    if definition.pointer("/status/storedVersions").is_none_or(Value::is_null) && definition.is_object() {
        definition["status"]["storedVersions"] = json!(stored);
    }
    definition["status"] = names::status(&definition, rivals, now);
    definition
}

/// Returns true if the definition of a kind is being deleted.
pub(crate) fn is_terminating(server: &ApiServer, kind: &Resource) -> bool {
    let Some(custom) = &kind.custom else { return false };
    let definition = server.get(&ResourceId::new(GROUP, RESOURCE), "", &custom.definition);
    definition.is_some_and(|stored| stored.is_terminating())
}

/// Brings the definitions in line that were written since the last call, and the definition of an object that was
/// written, if it is being deleted. Call it after every write to a definition, and after a write to an object of a
/// deleted definition.
pub(crate) async fn reconcile(server: &ApiServer, kind: &Resource) {
    let turn = server.definitions().turn.lock().await;
    sync_registry(server);
    if let Some(custom) = &kind.custom {
        server.definitions().mark_due(&custom.definition);
    }
    while let Some(name) = server.definitions().next_due() {
        if !server.definitions().is_tended(&name) && !bring_in_line(server, &name, SHORT).await {
            tend(server, name.clone());
        }
        server.definitions().clear_due(&name);
    }
    drop(turn);
}

/// Starts a task that brings a definition in line, with more and more time between its tries.
fn tend(server: &ApiServer, name: String) {
    if tokio::runtime::Handle::try_current().is_err() || !server.definitions().begin_tending(&name) {
        return;
    }
    let server = server.clone();
    tokio::spawn(async move {
        let mut backoff = Backoff::default();
        while !bring_in_line(&server, &name, usize::MAX).await {
            server.clock().sleep(backoff.next(CONTROLLER)).await;
        }
        server.definitions().end_tending(&name);
        // Writes during the task were left to it.
        if server.definition(&name).is_some_and(|definition| next_step(&server, &definition) != Step::Done) {
            tend(&server, name);
        }
    });
}

/// The next step that brings a definition in line.
#[derive(Debug)]
enum Step {
    /// Nothing.
    Done,
    /// A request about the definition.
    Send(Box<ApiRequest>),
    /// The deletion of its objects.
    Sweep(ResourceId, Box<Resource>),
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Done, Self::Done))
    }
}

/// Brings a definition in line, if no more than `most` objects are to be deleted for it. Returns false if something is
/// left to do.
async fn bring_in_line(server: &ApiServer, name: &str, most: usize) -> bool {
    for _ in 0..ROUNDS {
        sync_registry(server);
        let Some(definition) = server.definition(name) else { return true };
        match next_step(server, &definition) {
            Step::Done => return true,
            Step::Send(request) => {
                let path = request.path.clone();
                let reply = Box::pin(server.handle(*request)).await;
                if reply.status >= 300 || reply.drop_connection {
                    tracing::warn!(path, status = reply.status, "unable to bring a custom resource definition in line");
                    return false;
                }
            }
            Step::Sweep(resource, kind) => {
                if !sweep(server, &resource, &kind, most).await {
                    return false;
                }
                server.definitions().mark_swept(name);
            }
        }
    }
    false
}

/// Deletes the objects of a definition. Returns false if there are more than `most`, or if one was not deleted.
async fn sweep(server: &ApiServer, resource: &ResourceId, kind: &Resource, most: usize) -> bool {
    let mut left = server.list(resource, None);
    // Deleted objects may still wait for finalizers of their own.
    left.retain(|stored| !stored.is_terminating());
    if left.len() > most {
        return false;
    }
    let mut all = true;
    for stored in left {
        let namespace = match stored.namespace() {
            "" => String::new(),
            namespace => format!("namespaces/{namespace}/"),
        };
        let path = format!("/apis/{}/{}/{namespace}{}/{}", kind.group, kind.version, kind.plural, stored.name());
        let reply = Box::pin(server.handle(own_request(Method::DELETE, &path, None))).await;
        all &= !reply.drop_connection && (reply.status < 300 || reply.status == 404);
        // Others come in between.
        tokio::task::yield_now().await;
    }
    all
}

fn next_step(server: &ApiServer, definition: &Value) -> Step {
    if is_deleted(definition) {
        return clean_up(server, definition);
    }
    let rivals = server.definitions().rivals(text(&definition["spec"], "group"), metadata::name(definition));
    let status = names::status(definition, &rivals, server.clock().now());
    if definition.get("status") == Some(&status) {
        return Step::Done;
    }
    Step::Send(Box::new(patch(definition, "/status", &json!({"status": status}))))
}

fn clean_up(server: &ApiServer, definition: &Value) -> Step {
    if !metadata::finalizers(definition).any(|finalizer| finalizer == CLEANUP_FINALIZER) {
        return Step::Done;
    }
    let spec = &definition["spec"];
    let resource = ResourceId::new(text(spec, "group"), text(&spec["names"], "plural"));
    // Its state is known without a look at all objects, since there can be many.
    let any = |_: &StoredObject| true;
    let first = server.store().page(&resource, KeyRange::default(), None, 1, Some(&any)).ok();
    let first = first.and_then(|page| page.objects.into_iter().next());
    if let Some(request) = progress_patch(definition, first.is_none()) {
        return Step::Send(Box::new(request));
    }
    if let Some(first) = first {
        if first.is_terminating() && server.definitions().is_swept(metadata::name(definition)) {
            return Step::Done;
        }
        if let Some(kind) = kinds(definition).into_iter().next() {
            return Step::Sweep(resource, Box::new(kind));
        }
    }
    let rest: Vec<&str> = metadata::finalizers(definition).filter(|name| *name != CLEANUP_FINALIZER).collect();
    let finalizers = if rest.is_empty() { Value::Null } else { json!(rest) };
    Step::Send(Box::new(patch(definition, "", &json!({"metadata": {"finalizers": finalizers}}))))
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

    /// Makes a server with the definition of widgets and this many of them, whose finalizers are as given.
    async fn server_with_widgets(count: usize, finalizers: &Value) -> ApiServer {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        assert_eq!(send(&server, Method::POST, DEFINITIONS, widgets()).await.0, 201);
        for number in 0..count {
            let widget = json!({"apiVersion": "h6.example.com/v1", "kind": "Widget", "spec": {},
                "metadata": {"name": format!("w{number}"), "finalizers": finalizers}});
            assert_eq!(send(&server, Method::POST, WIDGETS, widget).await.0, 201);
        }
        server
    }

    fn widgets_left(server: &ApiServer) -> usize {
        server.list(&ResourceId::new("h6.example.com", "widgets"), None).len()
    }

    /// Upstream's finalizer controller deletes the objects after the reply to the deletion, however many there are.
    #[tokio::test(start_paused = true)]
    async fn a_definition_with_many_objects_is_deleted_after_the_reply() {
        let server = server_with_widgets(1_500, &Value::Null).await;
        let path = format!("{DEFINITIONS}/widgets.h6.example.com");
        assert_eq!(send(&server, Method::DELETE, &path, Value::Null).await.0, 200);
        assert_eq!(widgets_left(&server), 1_500, "the reply does not wait");
        let widget = json!({"apiVersion": "h6.example.com/v1", "kind": "Widget", "metadata": {"name": "late"}});
        assert_eq!(send(&server, Method::POST, WIDGETS, widget).await.0, 403);
        crate::clock::settle().await;
        assert_eq!(widgets_left(&server), 0);
        assert_eq!(send(&server, Method::GET, &path, Value::Null).await.0, 404);
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_waits_for_the_finalizers_of_its_objects() {
        let server = server_with_widgets(20, &json!(["example.com/wait"])).await;
        let path = format!("{DEFINITIONS}/widgets.h6.example.com");
        assert_eq!(send(&server, Method::DELETE, &path, Value::Null).await.0, 200);
        crate::clock::settle().await;
        for number in 0..20 {
            assert_eq!(send(&server, Method::GET, &path, Value::Null).await.0, 200, "before {number}");
            let patch = json!({"metadata": {"finalizers": null}});
            assert_eq!(send(&server, Method::PATCH, &format!("{WIDGETS}/w{number}"), patch).await.0, 200);
        }
        assert_eq!(send(&server, Method::GET, &path, Value::Null).await.0, 404);
    }

    /// The finalizer controller's queue retries with back-off.
    #[tokio::test(start_paused = true)]
    async fn refused_deletions_of_objects_are_repeated() {
        use crate::faults::FaultRuleSpec;
        let server = server_with_widgets(3, &Value::Null).await;
        let refuse = serde_json::json!({"on": {"verbs": ["delete"], "resource": "widgets"}, "count": 7,
            "verdict": {"reply": {"code": 500}}});
        server.faults().arm(serde_json::from_value::<FaultRuleSpec>(refuse).unwrap().into());
        let path = format!("{DEFINITIONS}/widgets.h6.example.com");
        assert_eq!(send(&server, Method::DELETE, &path, Value::Null).await.0, 200);
        server.clock().sleep(std::time::Duration::from_mins(1)).await;
        assert_eq!(widgets_left(&server), 0);
        assert_eq!(send(&server, Method::GET, &path, Value::Null).await.0, 404);
    }

    /// `requeueAllOtherGroupCRDs` of the naming controller.
    #[tokio::test(start_paused = true)]
    async fn names_that_become_free_are_accepted_elsewhere() {
        let server = ApiServer::new(ApiServerConfig::new(Clock::virtual_from(crate::clock::epoch())));
        assert_eq!(send(&server, Method::POST, DEFINITIONS, widgets()).await.0, 201);
        let mut rival = widgets();
        rival["metadata"]["name"] = json!("wadgets.h6.example.com");
        rival["spec"]["names"]["plural"] = json!("wadgets");
        assert_eq!(send(&server, Method::POST, DEFINITIONS, rival).await.0, 201);
        let established = async |name: &str| {
            let path = format!("{DEFINITIONS}/{name}.h6.example.com");
            let (_, definition) = send(&server, Method::GET, &path, Value::Null).await;
            definition["status"]["conditions"][1]["status"].clone()
        };
        assert_eq!(established("wadgets").await, "False");
        let path = format!("{DEFINITIONS}/widgets.h6.example.com");
        assert_eq!(send(&server, Method::DELETE, &path, Value::Null).await.0, 200);
        assert_eq!(established("wadgets").await, "True");
        let (code, _) = send(&server, Method::GET, "/apis/h6.example.com/v1/wadgets", Value::Null).await;
        assert_eq!(code, 200);
    }
}
