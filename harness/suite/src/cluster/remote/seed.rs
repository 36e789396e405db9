//! Creates a fixture's objects on a real server with ordinary requests, and deletes them afterwards.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use http::Method;
use plumbline::expect::world::Key;
use plumbline::fixture::Resource;
use plumbline::fixture::pattern::Resources;
use plumbline::metadata;
use plumbline::time::Clock;
use plumbline_apiserver::request::ResourcePath;
use serde_json::{Value, json};

use super::error::ServerError;
use super::proxy::{Proxy, ServerResponse};
use crate::cluster::error::SeedError;
use crate::cluster::provision::leftovers;
use crate::url::escape;

/// Maximum number of concurrent requests.
const AT_ONCE: usize = 16;
/// Time limit for things that the server creates asynchronously: an established definition, a service account.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time limit for an object of the same name that is being deleted: a definition goes only after the server has deleted
/// all its objects, possibly with retries.
const GOING: Duration = Duration::from_mins(1);
/// Time during which an object of the same name may still appear to exist although it was just deleted.
const GONE: Duration = Duration::from_millis(500);
/// Attempts to write an object that another client keeps changing.
const CONFLICTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);
/// Prefix of messages about rejected objects.
pub(super) const REFUSES: &str = "the server refuses ";
/// Status code for objects that no client can create.
pub(super) const INVALID: u16 = 422;

/// Returns the path of a fixture's resource, in the fixture's names.
pub(super) fn path_of(resource: &Resource, namespace: Option<&str>, name: &str, subresource: &str) -> ResourcePath {
    ResourcePath {
        group: resource.group.to_string(),
        version: resource.version.to_string(),
        namespace: namespace.filter(|_| resource.namespaced).unwrap_or_default().to_owned(),
        resource: resource.plural.to_string(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        ..ResourcePath::default()
    }
}

/// Creates the namespaces that the fixture refers to but does not define itself.
pub(super) async fn namespaces(proxy: &Proxy, names: &[String]) -> Result<(), ServerError> {
    for name in names {
        let name = proxy.names().cluster_name(name);
        let labels = json!({leftovers::LABEL: leftovers::owner()});
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        let answered = proxy.ask(Method::POST, "/api/v1/namespaces", Some(&body)).await?;
        if !answered.is_success() {
            return Err(ServerError::Refused(refused(proxy, &format!("the namespace {name}"), &answered)));
        }
    }
    Ok(())
}

/// Creates `objects` in order; consecutive objects of one kind are created concurrently.
pub(super) async fn objects(proxy: &Proxy, resources: &Resources, objects: Vec<Value>) -> Result<(), SeedError> {
    let runs = objects.chunk_by(|one, other| one["kind"] == other["kind"]).map(<[Value]>::to_vec);
    for run in runs.collect::<Vec<_>>() {
        let mut seeded =
            stream::iter(run.into_iter().map(|object| seed_object(proxy, resources, object))).buffer_unordered(AT_ONCE);
        while let Some(result) = seeded.next().await {
            result?;
        }
    }
    Ok(())
}

async fn seed_object(proxy: &Proxy, resources: &Resources, mut object: Value) -> Result<(), SeedError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let kind = text(&object["kind"]);
    let resource = resources.of_kind(&version, &kind);
    let resource = resource.map_err(|_| SeedError::Failed(format!("no kind {kind} in {version}")))?;
    let name = metadata::name(&object).to_owned();
    let namespace = metadata::namespace(&object).unwrap_or_default().to_owned();
    let what = format!("{}/{name}", resource.plural);
    let mut take = |field: &str| metadata::fields_mut(&mut object).and_then(|fields| fields.remove(field));
    let uid = take("uid");
    let ending = take("deletionTimestamp");
    let grace = take("deletionGracePeriodSeconds");
    for field in ["creationTimestamp", "resourceVersion", "generation"] {
        take(field);
    }
    let collection = path_of(&resource, Some(&namespace), "", "");
    let path = |subresource: &str| {
        proxy.names().path(&path_of(&resource, Some(&namespace), &name, subresource), resource.namespaced, None)
    };
    proxy.names().to_cluster(&mut object, &collection);
    let custom = resource.group.contains('.') && Resources::default().of_kind(&version, &kind).is_err();
    let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
    if let Some(status) = status.clone().filter(|_| custom) {
        object["status"] = status;
    }
    let to = proxy.names().path(&collection, resource.namespaced, None);
    let mut made = create(proxy, &to, &what, &object).await?;
    if let (Some(Value::String(fixture)), Some(server)) = (uid, metadata::uid(&made)) {
        proxy.names().learn_uid(&fixture, server);
    }
    if kind == "Node" && made["spec"]["taints"] != object["spec"]["taints"] {
        // The server taints new nodes as not ready, and the controller that would remove the taint does not run here.
        let taints = |node: &mut Value| node["spec"]["taints"] = object["spec"]["taints"].clone();
        let answered = put(proxy, (&path(""), &path("")), made, taints).await?;
        if !answered.is_success() {
            return Err(seed_error(proxy, &what, &answered));
        }
        made = answered.value();
    }
    if let Some(Value::Object(status)) = status {
        let over = |object: &mut Value| {
            if !object["status"].is_object() {
                object["status"] = json!({});
            }
            for (field, value) in &status {
                object["status"][field] = value.clone();
            }
        };
        let answered = put(proxy, (&path(""), &path("status")), made, over).await?;
        // A custom resource need not have a status subresource.
        let fine = answered.is_success() || (custom && answered.code == 404);
        if !fine {
            return Err(seed_error(proxy, &format!("the status of {what}"), &answered));
        }
    }
    if ending.is_some_and(|time| !time.is_null()) {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace.unwrap_or(json!(30))});
        let answered = proxy.ask(Method::DELETE, &path(""), Some(&options)).await?;
        if !answered.is_success() {
            return Err(seed_error(proxy, &format!("the deletion of {what}"), &answered));
        }
    }
    if kind == "CustomResourceDefinition" {
        in_force(proxy, &path(""), &what).await?;
    }
    Ok(())
}

/// Creates an object. Retries while a dependency is still being created or an earlier fixture's object of the same name
/// is being deleted.
async fn create(proxy: &Proxy, to: &str, what: &str, object: &Value) -> Result<Value, SeedError> {
    let clock = Clock::wall();
    // Time limit of the current kind of failure, and the time at which it began.
    let mut failure = (Duration::ZERO, Duration::ZERO);
    loop {
        let answered = proxy.ask(Method::POST, to, Some(object)).await?;
        let text = String::from_utf8_lossy(&answered.body);
        if answered.is_success() {
            return Ok(answered.value());
        }
        let patience = match answered.code {
            403 if text.contains("serviceaccount") => PATIENCE,
            404 if text.contains("page not found") => PATIENCE,
            409 if text.contains("object is being deleted") => GOING,
            // The server saw an object of the same name and then checked whether it is terminating; it may have gone in
            // between.
            409 if text.contains("already exists") => GONE,
            _ => Duration::ZERO,
        };
        if failure.0 != patience {
            failure = (patience, clock.elapsed());
        }
        if clock.elapsed() >= failure.1 + patience {
            return Err(seed_error(proxy, what, &answered));
        }
        clock.sleep(PAUSE).await;
    }
}

/// Applies `change` to `object` and writes it; reads from and writes to `paths`. Retries on conflict, because the
/// cluster's own controllers may change the object at the same time.
async fn put(
    proxy: &Proxy,
    paths: (&str, &str),
    mut object: Value,
    change: impl Fn(&mut Value),
) -> Result<ServerResponse, ServerError> {
    let mut tries = 0;
    loop {
        change(&mut object);
        let answered = proxy.ask(Method::PUT, paths.1, Some(&object)).await?;
        tries += 1;
        if answered.code != 409 || tries == CONFLICTS {
            return Ok(answered);
        }
        let read = proxy.ask(Method::GET, paths.0, None).await?;
        if !read.is_success() {
            return Ok(read);
        }
        object = read.value();
    }
}

/// Waits until a definition is established.
async fn in_force(proxy: &Proxy, path: &str, what: &str) -> Result<(), ServerError> {
    let clock = Clock::wall();
    loop {
        let answered = proxy.ask(Method::GET, path, None).await?;
        let value = answered.value();
        let conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
            return Ok(());
        }
        if clock.elapsed() > PATIENCE {
            return Err(ServerError::NotEstablished { what: what.to_owned(), limit: PATIENCE });
        }
        clock.sleep(PAUSE).await;
    }
}

/// Maps 422 (no client can create this object) to `Refused` and everything else to `Failed`.
fn seed_error(proxy: &Proxy, what: &str, answered: &ServerResponse) -> SeedError {
    let why = refused(proxy, what, answered);
    if answered.code == INVALID { SeedError::Refused(why) } else { SeedError::Failed(why) }
}

fn refused(proxy: &Proxy, what: &str, answered: &ServerResponse) -> String {
    let value = answered.value();
    let message = value["message"]
        .as_str()
        .map_or_else(|| String::from_utf8_lossy(&answered.body).trim().to_owned(), str::to_owned);
    // Use the fixture's names: the server's differ in each run, and this text appears in reports.
    proxy.names().to_fixture_text(&format!("{REFUSES}{what} with {}: {message}", answered.code))
}

/// Deletes everything the fixture left: `known` objects, its `namespaces` with their contents, its custom
/// `definitions`.
pub(super) async fn clear(
    proxy: &Proxy,
    resources: &Resources,
    known: Vec<(Key, Value)>,
    namespaces: &[String],
    definitions: &[String],
) -> Result<(), ServerError> {
    let mut calls: Vec<(Method, String, Option<Value>)> = Vec::new();
    let mut nodes: Vec<(Method, String, Option<Value>)> = Vec::new();
    for (key, object) in &known {
        let kind = (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default());
        let Ok(resource) = resources.of_kind(kind.0, kind.1) else { continue };
        let path =
            proxy.names().path(&path_of(&resource, key.namespace.as_deref(), &key.name, ""), resource.namespaced, None);
        if !metadata::finalizers(object).is_empty() && kind.1 != "Namespace" {
            calls.push((Method::PATCH, path.clone(), Some(json!([{"op": "remove", "path": "/metadata/finalizers"}]))));
        }
        if kind.1 == "Node" {
            nodes.push((Method::DELETE, path, None));
        }
    }
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let cluster_name: Vec<String> = namespaces
        .iter()
        .map(|name| format!("/api/v1/namespaces/{}", escape(&proxy.names().cluster_name(name))))
        .collect();
    // These nodes have no kubelet: without a forced deletion the pods, and so their namespace, would never go.
    let pods = cluster_name.iter().map(|path| (Method::DELETE, format!("{path}/pods"), Some(now.clone()))).collect();
    let last = cluster_name.iter().map(|path| (Method::DELETE, path.clone(), None));
    let definitions = definitions.iter().map(|name| {
        (Method::DELETE, format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", escape(name)), None)
    });
    for batch in [calls, pods, nodes, last.chain(definitions).collect()] {
        all(proxy, batch).await?;
    }
    Ok(())
}

async fn all(proxy: &Proxy, calls: Vec<(Method, String, Option<Value>)>) -> Result<(), ServerError> {
    let one = |(method, path, body): (Method, String, Option<Value>)| async move {
        let answered = if method == Method::PATCH {
            proxy.patch(&path, body.as_ref()).await?
        } else {
            proxy.ask(method, &path, body.as_ref()).await?
        };
        // Objects that are gone already or never existed are fine.
        if answered.is_success() || matches!(answered.code, 404 | 409 | 422) {
            Ok(())
        } else {
            Err(ServerError::Refused(refused(proxy, &path, &answered)))
        }
    };
    let mut done = stream::iter(calls.into_iter().map(one)).buffer_unordered(AT_ONCE);
    let mut first = Ok(());
    while let Some(result) = done.next().await {
        first = first.and(result);
    }
    first
}
