//! Infrastructure shared by the optional controllers: a multi-resource watch and an in-process API client.
//!
//! A controller reads the store's log directly, so nothing is encoded or decoded for it, but it writes through API
//! requests that are validated, recorded and exposed to faults like any client's. Time is the server's clock.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::registry::{Registry, Resource};
use super::request::{ApiRequest, ReplyBody};
use super::server::{ApiServer, storage_id};
use super::store::{EventPoll, EventType, KeyRange, LogEntry, ResourceId, StoredObject, WatchCursor};
use crate::json::Value;

/// Maximum number of events of one resource read at once.
const BATCH: usize = 256;
/// On the wall clock, the pause before each read of a feed that follows all resources. A read visits all of them, and
/// under many writes there would be a read per write.
const BATCH_DELAY: Duration = Duration::from_millis(5);

/// A change of a resource's objects.
pub(crate) enum WatchChange {
    /// One object changed.
    Event(Arc<LogEntry>),
    /// The complete list: at the start, and after the feed fell behind the store's log. In that case the deletions of
    /// objects that the feed has reported, and that are gone, come before it.
    Replace(Vec<Arc<StoredObject>>),
}

impl WatchChange {
    /// Adds the namespaces of the objects; that of cluster-scoped ones is empty.
    pub(crate) fn add_namespaces(&self, namespaces: &mut BTreeSet<String>) {
        match self {
            Self::Replace(objects) => namespaces.extend(objects.iter().map(|object| object.namespace().to_owned())),
            Self::Event(event) => {
                namespaces.insert(event.current.namespace().to_owned());
            }
        }
    }

    /// Returns true if an object was deleted.
    pub(crate) fn is_deletion(&self) -> bool {
        matches!(self, Self::Event(event) if event.event_type == EventType::Deleted)
    }

    /// Returns the objects as they are after the change, a deleted one as it was.
    pub(crate) fn objects(self) -> Vec<Arc<StoredObject>> {
        match self {
            Self::Replace(objects) => objects,
            Self::Event(event) => vec![event.current.clone()],
        }
    }
}

/// The resources that a feed follows.
pub(crate) enum WatchSet {
    /// These resources.
    Resources(Vec<ResourceId>),
    /// All stored resources; those of custom resources from the moment they are served.
    All,
}

/// Watches several resources.
pub(crate) struct WatchMux {
    server: ApiServer,
    follow: WatchSet,
    followed: BTreeMap<ResourceId, ResourceWatch>,
    registry: Option<Arc<Registry>>,
    task: Arc<Mutex<Option<Waker>>>,
}

/// A resource that is watched.
struct ResourceWatch {
    cursor: Option<WatchCursor>,
    flag: Arc<WatchWaker>,
    /// The objects that were reported, by uid.
    known: BTreeMap<Arc<str>, Arc<StoredObject>>,
}

impl ResourceWatch {
    /// Notes a change that is reported.
    fn note(&mut self, event: &LogEntry) {
        let uid = event.current.shared_uid();
        if event.event_type == EventType::Deleted {
            self.known.remove(uid);
        } else {
            self.known.insert(uid.clone(), event.current.clone());
        }
    }

    /// Notes a list that is reported; returns the deletions of what is gone: `DeletedFinalStateUnknown` in
    /// `staging/src/k8s.io/client-go/tools/cache/delta_fifo.go`.
    fn note_all(&mut self, objects: &[Arc<StoredObject>]) -> impl Iterator<Item = WatchChange> {
        let present = objects.iter().map(|stored| (stored.shared_uid().clone(), stored.clone())).collect();
        let mut gone = std::mem::replace(&mut self.known, present);
        gone.retain(|uid, _| !self.known.contains_key(uid));
        gone.into_values().map(|stored| {
            let previous = Some(stored.clone());
            WatchChange::Event(Arc::new(LogEntry::new(EventType::Deleted, stored, previous)))
        })
    }
}

/// Marks a resource as having news and wakes the controller, so that a feed reads only the resources with news.
struct WatchWaker {
    raised: AtomicBool,
    task: Arc<Mutex<Option<Waker>>>,
}

impl Wake for WatchWaker {
    fn wake(self: Arc<Self>) {
        self.raised.store(true, Ordering::Release);
        let task = self.task.lock().clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl WatchMux {
    pub(crate) fn new(server: &ApiServer, follow: WatchSet) -> Self {
        Self { server: server.clone(), follow, followed: BTreeMap::new(), registry: None, task: Arc::default() }
    }

    /// Waits for changes and returns them in order of their resources.
    pub(crate) async fn next(&mut self) -> Vec<(ResourceId, WatchChange)> {
        let clock = self.server.clock();
        if matches!(self.follow, WatchSet::All) && !clock.is_exact() {
            clock.sleep(BATCH_DELAY).await;
        }
        poll_fn(|context| self.poll(context)).await
    }

    /// Waits for changes, or until a time, and returns the changes in order of their resources.
    pub(crate) async fn next_until(&mut self, at: Option<Timestamp>) -> Vec<(ResourceId, WatchChange)> {
        let server = self.server.clone();
        tokio::select! {
            biased;
            changes = self.next() => changes,
            () = server.clock().wait_until(at) => Vec::new(),
        }
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<Vec<(ResourceId, WatchChange)>> {
        self.add_resources();
        *self.task.lock() = Some(context.waker().clone());
        let mut changes = Vec::new();
        let mut behind = false;
        for (resource, followed) in &mut self.followed {
            if !followed.flag.raised.swap(false, Ordering::Acquire) {
                continue;
            }
            if followed.cursor.is_none() {
                let (objects, _, cursor) = self.server.store().list_and_watch(resource, KeyRange::default());
                followed.cursor = Some(cursor);
                changes.extend(followed.note_all(&objects).map(|deletion| (resource.clone(), deletion)));
                changes.push((resource.clone(), WatchChange::Replace(objects)));
            }
            let Some(cursor) = &mut followed.cursor else { continue };
            let waker = Waker::from(followed.flag.clone());
            match self.server.store().poll_events(cursor, BATCH, &Context::from_waker(&waker)) {
                EventPoll::Events(events) => {
                    for event in &events {
                        followed.note(event);
                    }
                    changes.extend(events.into_iter().map(|event| (resource.clone(), WatchChange::Event(event))));
                    // The log may have more events, for which no waker is registered.
                    followed.flag.raised.store(true, Ordering::Release);
                }
                EventPoll::Idle { .. } => {}
                EventPoll::Compacted(_) => {
                    self.server.store().unwatch(cursor);
                    followed.cursor = None;
                    followed.flag.raised.store(true, Ordering::Release);
                    behind = true;
                }
            }
        }
        if changes.is_empty() && !behind {
            return Poll::Pending;
        }
        Poll::Ready(changes)
    }

    fn add_resources(&mut self) {
        let registry = self.server.registry();
        if self.registry.as_ref().is_some_and(|known| Arc::ptr_eq(known, &registry)) {
            return;
        }
        let wanted: Vec<ResourceId> = match &self.follow {
            WatchSet::Resources(resources) => resources.clone(),
            WatchSet::All => registry.kinds().filter(|kind| kind.is_stored()).map(|kind| storage_id(kind)).collect(),
        };
        for resource in wanted {
            let flag = || Arc::new(WatchWaker { raised: AtomicBool::new(true), task: self.task.clone() });
            self.followed.entry(resource).or_insert_with(|| ResourceWatch {
                cursor: None,
                flag: flag(),
                known: BTreeMap::new(),
            });
        }
        self.registry = Some(registry);
    }
}

impl Drop for WatchMux {
    fn drop(&mut self) {
        for cursor in self.followed.values().filter_map(|followed| followed.cursor.as_ref()) {
            self.server.store().unwatch(cursor);
        }
    }
}

/// A client that sends requests to the server in process.
#[derive(Clone)]
pub(crate) struct ControllerClient {
    server: ApiServer,
    user_agent: HeaderValue,
    /// A request of this client or a clone was refused.
    refused: Arc<AtomicBool>,
}

/// A reply.
pub(crate) struct ControllerResponse {
    pub(crate) code: u16,
    body: Bytes,
}

impl ControllerResponse {
    /// Decodes the body. Most replies are not looked at.
    pub(crate) fn body(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns true if a request was refused for a reason that can pass. That the object is gone, or that its namespace
    /// ends, are reasons to do nothing more.
    fn calls_for_retry(&self, method: &Method) -> bool {
        !(self.is_ok() || self.code == 404 && *method != Method::POST || self.is_for_ending_namespace())
    }

    /// Returns true if a write was refused because the namespace is being deleted.
    pub(crate) fn is_for_ending_namespace(&self) -> bool {
        let ends = || {
            let body = self.body();
            let causes = body.pointer("/details/causes").and_then(Value::as_array);
            causes.into_iter().flatten().any(|cause| cause["reason"] == "NamespaceTerminating")
        };
        self.code == 403 && ends()
    }

    /// Returns the message of a refusal.
    pub(crate) fn message(&self) -> String {
        self.body()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns true if the reply is a refusal with this reason.
    pub(crate) fn has_reason(&self, reason: &str) -> bool {
        !self.is_ok() && self.body()["reason"] == *reason
    }

    /// Returns true if the status code is that of a success.
    pub(crate) fn is_ok(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// The patch type of most controller writes.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
/// The default patch type of typed clients.
pub(crate) const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

impl ControllerClient {
    /// Creates a client whose user agent and field manager are `name`.
    pub(crate) fn new(server: &ApiServer, name: &'static str) -> Self {
        Self { server: server.clone(), user_agent: HeaderValue::from_static(name), refused: Arc::default() }
    }

    /// Returns a client with another user agent; [`Self::take_refusal`] is about the writes of both.
    pub(crate) fn named(&self, name: &'static str) -> Self {
        Self { user_agent: HeaderValue::from_static(name), ..self.clone() }
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Returns true if a request was refused since the last call, so that what it was for has to be tried again.
    pub(crate) fn take_refusal(&self) -> bool {
        self.refused.swap(false, Ordering::Relaxed)
    }

    /// Sends a request. `content_type` applies only if there is a body.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Option<&Value>,
    ) -> ControllerResponse {
        let mut request = ApiRequest::new(method.clone(), path);
        request.headers.insert(header::USER_AGENT, self.user_agent.clone());
        if let Some(body) = body {
            request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
            request.body = body.to_string().into();
        }
        let reply = self.server.handle(request).await;
        let body = match reply.body {
            ReplyBody::Full(bytes) => bytes,
            ReplyBody::Stream(_) => Bytes::new(),
        };
        // A lost connection has no code, even if the request took effect.
        let code = if reply.drop_connection { 0 } else { reply.status };
        let response = ControllerResponse { code, body };
        if response.calls_for_retry(&method) {
            self.refused.store(true, Ordering::Relaxed);
        }
        if !response.is_ok() && !matches!(response.code, 404 | 409) {
            tracing::debug!(
                path,
                status = reply.status,
                message = response.body()["message"].as_str(),
                "a loop's request was refused"
            );
        }
        response
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> ControllerResponse {
        self.send(Method::POST, path, "application/json", Some(object)).await
    }

    pub(crate) async fn replace(&self, path: &str, object: &Value) -> ControllerResponse {
        self.send(Method::PUT, path, "application/json", Some(object)).await
    }

    pub(crate) async fn patch(&self, path: &str, content_type: &'static str, patch: &Value) -> ControllerResponse {
        self.send(Method::PATCH, path, content_type, Some(patch)).await
    }

    pub(crate) async fn delete(&self, path: &str, options: Option<&Value>) -> ControllerResponse {
        self.send(Method::DELETE, path, "application/json", options).await
    }
}

/// Returns the path of an object or, with an empty `name`, of a collection.
pub(crate) fn path_of(kind: &Resource, namespace: &str, name: &str) -> String {
    let root = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    let namespace =
        if kind.namespaced && !namespace.is_empty() { format!("/namespaces/{namespace}") } else { String::new() };
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("{root}/{}{namespace}/{}{name}", kind.version, kind.plural)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    /// As after a relist of client-go: `Replace` in `staging/src/k8s.io/client-go/tools/cache/delta_fifo.go`.
    #[tokio::test]
    async fn a_feed_that_falls_behind_reports_what_is_gone() {
        let server = ApiServer::builder().build();
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        server.seed(["a", "b"].map(map)).expect("seeded");
        let mut feed = WatchMux::new(&server, WatchSet::Resources(vec![ResourceId::new("", "configmaps")]));
        assert_eq!(feed.next().await.len(), 1);
        let client = ControllerClient::new(&server, "user");
        let maps = "/api/v1/namespaces/default/configmaps";
        assert!(client.delete(&format!("{maps}/a"), None).await.is_ok());
        assert!(client.create(maps, &map("c")).await.is_ok());
        server.store().compact(server.revision());
        let mut seen = Vec::new();
        while !seen.iter().any(|(is_deletion, _): &(bool, String)| !is_deletion) {
            for (_, change) in feed.next().await {
                let is_deletion = change.is_deletion();
                let names: Vec<String> = change.objects().iter().map(|stored| stored.name().to_owned()).collect();
                seen.push((is_deletion, names.join(" ")));
            }
        }
        assert_eq!(seen, [(true, "a".to_owned()), (false, "b c".to_owned())]);
    }
}
