//! Sends the requests of a fixture's steps, as a user, an evictor or a kubelet.

use std::cell::RefCell;
use std::collections::BTreeMap;

use http::Method;
use jiff::Timestamp;
use plumbline::explore::faults::inject::hold_patch;
use plumbline::faults::resource_id;
use plumbline::fixture::{Edit, Interference, Operation, PatchKind, Target, UserRequest, WatchStart, time_text};
use plumbline::metadata;
use serde_json::{Value, json};

use crate::cluster::{Answer, Call, Sandbox};
use crate::url::escape;

const JSON: &str = "application/json";
/// The code of a write whose object has changed since it was read.
const CONFLICT: u16 = 409;
/// Most writes of the status of an object that a step creates.
const STATUS_ATTEMPTS: usize = 8;
/// The annotation of the bookmark that follows the initial events. Source: `metav1.InitialEventsAnnotationKey`.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The resourceVersion at which each collection was last listed or followed, by path.
pub type ListVersions = RefCell<BTreeMap<String, String>>;

/// Sends `request`, which may take several calls. Returns the first failed reply, or the reply to the main call.
/// Relative times in bodies refer to `now` and `start`.
pub async fn send(
    (sandbox, versions): (&dyn Sandbox, &ListVersions),
    request: &UserRequest,
    now: Timestamp,
    start: Timestamp,
) -> Answer {
    let caller = Caller { sandbox, request };
    let resolved = |value: &Value| {
        let mut value = value.clone();
        time_text::resolve(&mut value, now, start);
        value
    };
    let object = || path(&request.target, true);
    match &request.operation {
        Operation::Get => caller.call(Method::GET, object(), None).await,
        Operation::List { labels } => caller.list(labels.as_deref(), versions).await,
        Operation::DeleteCollection { labels } => {
            let path = path(&request.target, false);
            caller.call(Method::DELETE, format!("{path}{}", selected(labels.as_deref())), None).await
        }
        Operation::Follow { labels, from } => caller.follow(labels.as_deref(), from, versions).await,
        Operation::Create { object } => caller.create(resolved(object)).await,
        Operation::Update { edit } => caller.update(edit, &resolved).await,
        Operation::Replace { object: body } => caller.call(Method::PUT, object(), Some((JSON, resolved(body)))).await,
        Operation::Patch { kind, body } => {
            let path = match kind {
                PatchKind::Apply { manager, force } => {
                    let force = if *force { "&force=true" } else { "" };
                    format!("{}?fieldManager={manager}{force}", object())
                }
                _ => object(),
            };
            caller.call(Method::PATCH, path, Some((kind.content_type(), resolved(body)))).await
        }
        Operation::Delete { options } => {
            let mut options = resolved(options);
            caller.preconditions(&mut options).await;
            if let Some(fields) = options.as_object_mut() {
                fields.insert("kind".to_owned(), json!("DeleteOptions"));
                fields.insert("apiVersion".to_owned(), json!("v1"));
            }
            caller.call(Method::DELETE, object(), Some((JSON, options))).await
        }
        Operation::Post { body } => {
            let mut body = resolved(body);
            if let Some(options) = body.get_mut("deleteOptions") {
                caller.preconditions(options).await;
            }
            caller.call(Method::POST, object(), Some((JSON, body))).await
        }
    }
}

/// Disturbs the run, as another client.
pub async fn interfere(target: (&dyn Sandbox, &ListVersions), how: &Interference, times: (Timestamp, Timestamp)) {
    match how {
        Interference::Delete { target: object, again } => delete_at_once(target, object, *again, times).await,
        Interference::Hold { target: object, is_held } => hold(target, object, *is_held, times).await,
    }
}

/// Deletes an object at once, as a user. If `again` is true, an equal object with another uid is created afterwards,
/// unless finalizers keep the first. Does nothing if the object does not exist.
async fn delete_at_once(
    target: (&dyn Sandbox, &ListVersions),
    object: &Target,
    again: bool,
    (now, start): (Timestamp, Timestamp),
) {
    let request = |operation| of_user(object, operation);
    let found = send(target, &request(Operation::Get), now, start).await;
    if found.code != 200 {
        return;
    }
    let options = json!({ "gracePeriodSeconds": 0 });
    send(target, &request(Operation::Delete { options }), now, start).await;
    // Finalizers keep the object, and its name is taken.
    if again && metadata::finalizers(&found.body).is_empty() {
        let object = without_identity(found.body);
        send(target, &request(Operation::Create { object }), now, start).await;
    }
}

/// Adds another client's finalizer to an object, or takes it away. Does nothing if the object does not exist.
async fn hold(
    target: (&dyn Sandbox, &ListVersions),
    object: &Target,
    is_held: bool,
    (now, start): (Timestamp, Timestamp),
) {
    let found = send(target, &of_user(object, Operation::Get), now, start).await;
    let patch = if found.code == 200 { hold_patch(&found.body, is_held) } else { None };
    if let Some(body) = patch {
        send(target, &of_user(object, Operation::Patch { kind: PatchKind::Merge, body }), now, start).await;
    }
}

/// A request of a user about one object.
fn of_user(object: &Target, operation: Operation) -> UserRequest {
    UserRequest { actor: "user".to_owned(), target: object.clone(), operation, query: Vec::new(), together: None }
}

/// Removes what the server gives to a new object.
fn without_identity(mut object: Value) -> Value {
    const GIVEN: [&str; 7] = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
    ];
    metadata::remove(&mut object, &GIVEN);
    object
}

struct Caller<'a> {
    sandbox: &'a dyn Sandbox,
    request: &'a UserRequest,
}

impl Caller<'_> {
    async fn call(&self, method: Method, mut path: String, body: Option<(&'static str, Value)>) -> Answer {
        for (key, value) in &self.request.query {
            path.push(if path.contains('?') { '&' } else { '?' });
            for part in [escape(key), "=".to_owned(), escape(value)] {
                path.push_str(&part);
            }
        }
        let user_agent = format!("plumbline/{} {}", env!("CARGO_PKG_VERSION"), self.request.actor);
        self.sandbox.send(Call { method, path, body, user_agent }).await
    }

    /// POST, then PUT of the status through its subresource, as a kubelet or controller writes it.
    async fn create(&self, object: Value) -> Answer {
        let resource = resource_id(&self.request.target.resource);
        let kept_back = self.sandbox.hold_events(&resource);
        let answer = self.create_with_status(object).await;
        if kept_back {
            self.sandbox.release_events(&resource);
        }
        answer
    }

    async fn create_with_status(&self, mut object: Value) -> Answer {
        let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
        let target = &self.request.target;
        let answer = self.call(Method::POST, path(target, false), Some((JSON, object))).await;
        let dry_run = self.request.query.iter().any(|(key, _)| key == "dryRun");
        let Some(status) = status.filter(|_| answer.code < 300 && answer.code > 0 && !dry_run) else { return answer };
        let mut created = answer.body.clone();
        let Some(fields) = created.as_object_mut() else { return answer };
        fields.insert("status".to_owned(), status);
        let name = metadata::text(&created, "name").unwrap_or(&target.name).to_owned();
        let object = Target { name, ..target.clone() };
        let of_status = Target { subresource: Some("status".to_owned()), ..object.clone() };
        let status = created["status"].clone();
        let mut second = self.call(Method::PUT, path(&of_status, true), Some((JSON, created))).await;
        for _ in 1..STATUS_ATTEMPTS {
            if second.code != CONFLICT {
                break;
            }
            // On a cluster in real time the controller under test can write in between; a kubelet tries again, too.
            let Answer { code: 200, body: mut current, .. } = self.call(Method::GET, path(&object, true), None).await
            else {
                break;
            };
            let Some(fields) = current.as_object_mut() else { break };
            fields.insert("status".to_owned(), status.clone());
            second = self.call(Method::PUT, path(&of_status, true), Some((JSON, current))).await;
        }
        if (200..300).contains(&second.code) { answer } else { second }
    }

    /// GET of the collection; remembers the resourceVersion of the list.
    async fn list(&self, labels: Option<&str>, versions: &ListVersions) -> Answer {
        let collection = path(&self.request.target, false);
        let answer = self.call(Method::GET, format!("{collection}{}", selected(labels)), None).await;
        if let Some(version) = metadata::resource_version(&answer.body) {
            versions.borrow_mut().insert(collection, version.to_owned());
        }
        answer
    }

    /// A watch that the server ends after one second. Its events become the reply's body, and its last resourceVersion
    /// is remembered.
    async fn follow(&self, labels: Option<&str>, from: &WatchStart, versions: &ListVersions) -> Answer {
        let collection = path(&self.request.target, false);
        let begin = match from {
            WatchStart::Last => versions.borrow().get(&collection).cloned().unwrap_or_default(),
            WatchStart::Version(version) => version.clone(),
            WatchStart::Initial => String::new(),
        };
        let mut query = format!("?watch=true&timeoutSeconds=1&resourceVersion={}", escape(&begin));
        if *from == WatchStart::Initial {
            query.push_str("&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        }
        if let Some(labels) = labels {
            query.push_str("&labelSelector=");
            query.push_str(&escape(labels));
        }
        let answer = self.call(Method::GET, format!("{collection}{query}"), None).await;
        let lines: Vec<Value> = match &answer.body {
            Value::String(text) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
            // A single event is parsed as JSON by the client already.
            one if one.get("type").is_some() => vec![one.clone()],
            _ => return answer,
        };
        let last = lines.iter().filter_map(|event| metadata::resource_version(&event["object"])).next_back();
        if let Some(version) = last.filter(|version| !version.is_empty()) {
            versions.borrow_mut().insert(collection, version.to_owned());
        }
        let events: Vec<String> = lines.iter().filter_map(describe_event).collect();
        Answer { body: json!({ "events": events }), ..answer }
    }

    /// Replaces `current` in preconditions by the object's current values.
    async fn preconditions(&self, options: &mut Value) {
        let Some(wanted) = options.get_mut("preconditions").and_then(Value::as_object_mut) else { return };
        if !wanted.values().any(|value| value == CURRENT) {
            return;
        }
        let now = self.call(Method::GET, path(&self.request.target.object(), true), None).await;
        for (name, value) in wanted.iter_mut().filter(|(_, value)| **value == CURRENT) {
            *value = now.body["metadata"][name.as_str()].clone();
        }
    }

    /// GET, edit, PUT.
    async fn update(&self, edit: &Edit, resolved: &impl Fn(&Value) -> Value) -> Answer {
        let path = path(&self.request.target, true);
        let current = self.call(Method::GET, path.clone(), None).await;
        if current.code != 200 {
            return current;
        }
        let mut object = current.body;
        edit.apply(&mut object);
        self.call(Method::PUT, path, Some((JSON, resolved(&object)))).await
    }
}

/// Returns the query of a collection with this label selector.
fn selected(labels: Option<&str>) -> String {
    labels.map(|labels| format!("?labelSelector={}", escape(labels))).unwrap_or_default()
}

/// Placeholder in a precondition for the object's current value.
const CURRENT: &str = "current";

/// Describes a watch event in a few words. Returns nothing for progress bookmarks, whose number depends on the server.
fn describe_event(event: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&event["type"]);
    let object = &event["object"];
    let what = match kind.as_str() {
        "ERROR" => object["code"].to_string(),
        "BOOKMARK" if metadata::annotation(object, INITIAL_EVENTS_END) == Some("true") => {
            "initial-events-end".to_owned()
        }
        "BOOKMARK" => return None,
        _ => metadata::name(object).to_owned(),
    };
    Some(format!("{kind} {what}"))
}

/// Returns the URL path of a target, with or without the object's name and subresource.
fn path(target: &Target, with_name: bool) -> String {
    let resource = &target.resource;
    let mut path = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if let Some(namespace) = target.namespace.as_deref().filter(|name| resource.namespaced && *name != "*") {
        path.push_str("/namespaces/");
        path.push_str(&escape(namespace));
    }
    path.push('/');
    path.push_str(&resource.plural);
    if with_name && !target.name.is_empty() {
        path.push('/');
        path.push_str(&escape(&target.name));
        if let Some(subresource) = &target.subresource {
            path.push('/');
            path.push_str(subresource);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use plumbline::fixture::pattern::Resources;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({"type": "ADDED", "object": {"metadata": {"name": "a"}}}), Some("ADDED a"))]
    #[case(json!({"type": "ERROR", "object": {"kind": "Status", "code": 410}}), Some("ERROR 410"))]
    #[case(json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}), None)]
    #[case(
        json!({"type": "BOOKMARK", "object": {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}}),
        Some("BOOKMARK initial-events-end")
    )]
    fn events_in_words(#[case] event: Value, #[case] words: Option<&str>) {
        assert_eq!(describe_event(&event).as_deref(), words);
    }

    #[test]
    fn paths() {
        let of = |text: &str| path(&Target::parse(text, "default", &Resources::default()).expect("a target"), true);
        assert_eq!(of("other:pods/a/status"), "/api/v1/namespaces/other/pods/a/status");
        assert_eq!(of("nodes/n 1"), "/api/v1/nodes/n%201");
        assert_eq!(of("pdb/x"), "/apis/policy/v1/namespaces/default/poddisruptionbudgets/x");
        assert_eq!(of("pods"), "/api/v1/namespaces/default/pods");
        assert_eq!(of("*:pods"), "/api/v1/pods");
    }
}
