//! A fixture's given objects on a real server, made as any client would make them, and taken away again.

use futures::StreamExt as _;
use futures::stream;
use http::Method;
use serde_json::{Value, json};

use super::proxy::{Answered, Proxy};
use crate::apiserver::request::ResourcePath;
use crate::cluster::Unplanted;
use crate::cluster::provision::leftovers;
use crate::expect::world::Key;
use crate::fixture::Resource;
use crate::fixture::pattern::Resources;
use crate::time::Clock;
use crate::url::escape;
use std::time::Duration;

/// How many requests are under way at once.
const AT_ONCE: usize = 16;
/// How long something may take that the server makes by itself: a definition comes into force, a service account appears.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a namesake may take to go: a definition waits until the server has found all objects of its kind, for which it may try again and again.
const GOING: Duration = Duration::from_mins(1);
/// How long a namesake may seem to be there that has just gone.
const GONE: Duration = Duration::from_millis(500);
/// How often an object is written again that another changed meanwhile.
const CONFLICTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);
/// How sentences about refusals begin.
pub(super) const REFUSES: &str = "the server refuses ";
/// The status code for what no client can make.
pub(super) const INVALID: u16 = 422;

/// The path of a resource of the fixture, in its own names.
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

/// Makes the namespaces that the fixture speaks of and that it does not make itself.
pub(super) async fn namespaces(proxy: &Proxy, names: &[String]) -> Result<(), String> {
    for name in names {
        let name = proxy.names().outer(name);
        let labels = json!({leftovers::LABEL: leftovers::owner()});
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        let answered = proxy.ask(Method::POST, "/api/v1/namespaces", Some(&body)).await?;
        if !answered.is_success() {
            return Err(refused(proxy, &format!("the namespace {name}"), &answered));
        }
    }
    Ok(())
}

/// Makes `objects` in their order; those of one kind that follow each other at the same time.
pub(super) async fn objects(proxy: &Proxy, resources: &Resources, objects: Vec<Value>) -> Result<(), Unplanted> {
    let runs = objects.chunk_by(|one, other| one["kind"] == other["kind"]).map(<[Value]>::to_vec);
    for run in runs.collect::<Vec<_>>() {
        let mut planted =
            stream::iter(run.into_iter().map(|object| plant(proxy, resources, object))).buffer_unordered(AT_ONCE);
        while let Some(result) = planted.next().await {
            result?;
        }
    }
    Ok(())
}

async fn plant(proxy: &Proxy, resources: &Resources, mut object: Value) -> Result<(), Unplanted> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let resource = resources.of_kind(&version, &kind).map_err(|_| format!("no kind {kind} in {version}"))?;
    let (name, namespace) = (text(&object["metadata"]["name"]), text(&object["metadata"]["namespace"]));
    let what = format!("{}/{name}", resource.plural);
    let mut take = |field: &str| object["metadata"].as_object_mut().and_then(|fields| fields.remove(field));
    let (uid, ending, grace) = (take("uid"), take("deletionTimestamp"), take("deletionGracePeriodSeconds"));
    for field in ["creationTimestamp", "resourceVersion", "generation"] {
        take(field);
    }
    let collection = path_of(&resource, Some(&namespace), "", "");
    let path = |subresource: &str| {
        proxy.names().path(&path_of(&resource, Some(&namespace), &name, subresource), resource.namespaced, None)
    };
    proxy.names().outward(&mut object, &collection);
    let custom = resource.group.contains('.') && Resources::default().of_kind(&version, &kind).is_err();
    let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
    if let Some(status) = status.clone().filter(|_| custom) {
        object["status"] = status;
    }
    let to = proxy.names().path(&collection, resource.namespaced, None);
    let mut made = create(proxy, &to, &what, &object).await?;
    if let (Some(Value::String(fixture)), Some(server)) = (uid, made["metadata"]["uid"].as_str()) {
        proxy.names().learn_uid(&fixture, server);
    }
    if kind == "Node" && made["spec"]["taints"] != object["spec"]["taints"] {
        // The server marks new nodes as not ready; whoever would take that away does not run here.
        let taints = |node: &mut Value| node["spec"]["taints"] = object["spec"]["taints"].clone();
        let answered = put(proxy, (&path(""), &path("")), made, taints).await?;
        if !answered.is_success() {
            return Err(unplanted(proxy, &what, &answered));
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
        // A definition need not have a status of its own.
        let fine = answered.is_success() || (custom && answered.code == 404);
        if !fine {
            return Err(unplanted(proxy, &format!("the status of {what}"), &answered));
        }
    }
    if ending.is_some_and(|time| !time.is_null()) {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace.unwrap_or(json!(30))});
        let answered = proxy.ask(Method::DELETE, &path(""), Some(&options)).await?;
        if !answered.is_success() {
            return Err(unplanted(proxy, &format!("the deletion of {what}"), &answered));
        }
    }
    if kind == "CustomResourceDefinition" {
        in_force(proxy, &path(""), &what).await?;
    }
    Ok(())
}

/// POST; what the object needs may still be on its way, and a namesake of an earlier fixture on its way out.
async fn create(proxy: &Proxy, to: &str, what: &str, object: &Value) -> Result<Value, Unplanted> {
    let clock = Clock::wall();
    // How long the present trouble may last, and since when it does.
    let mut trouble = (Duration::ZERO, Duration::ZERO);
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
            // The server saw a namesake and then looked whether it is on its way out; it may have gone between the two.
            409 if text.contains("already exists") => GONE,
            _ => Duration::ZERO,
        };
        if trouble.0 != patience {
            trouble = (patience, clock.elapsed());
        }
        if clock.elapsed() >= trouble.1 + patience {
            return Err(unplanted(proxy, what, &answered));
        }
        clock.sleep(PAUSE).await;
    }
}

/// Sends `object` with `change` made to it, read and written at `paths`; again when another was faster: who runs in the cluster acts on what is
/// being made, too.
async fn put(
    proxy: &Proxy,
    paths: (&str, &str),
    mut object: Value,
    change: impl Fn(&mut Value),
) -> Result<Answered, String> {
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

/// Waits until a definition's resources are served.
async fn in_force(proxy: &Proxy, path: &str, what: &str) -> Result<(), String> {
    let clock = Clock::wall();
    loop {
        let answered = proxy.ask(Method::GET, path, None).await?;
        let value = answered.value();
        let conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
            return Ok(());
        }
        if clock.elapsed() > PATIENCE {
            return Err(format!("{what} is not in force after {} s", PATIENCE.as_secs()));
        }
        clock.sleep(PAUSE).await;
    }
}

/// Invalid is what no client can make there; anything else is a failure.
fn unplanted(proxy: &Proxy, what: &str, answered: &Answered) -> Unplanted {
    let why = refused(proxy, what, answered);
    if answered.code == INVALID { Unplanted::Refused(why) } else { Unplanted::Failed(why) }
}

fn refused(proxy: &Proxy, what: &str, answered: &Answered) -> String {
    let value = answered.value();
    let message = value["message"]
        .as_str()
        .map_or_else(|| String::from_utf8_lossy(&answered.body).trim().to_owned(), str::to_owned);
    // In the fixture's names: the server's differ from run to run, and what is told stands in reports.
    proxy.names().inward_text(&format!("{REFUSES}{what} with {}: {message}", answered.code))
}

/// Takes away what the fixture left: `known` objects, its `namespaces` with everything in them, its custom `definitions`.
pub(super) async fn clear(
    proxy: &Proxy,
    resources: &Resources,
    known: Vec<(Key, Value)>,
    namespaces: &[String],
    definitions: &[String],
) -> Result<(), String> {
    let mut calls: Vec<(Method, String, Option<Value>)> = Vec::new();
    let mut nodes: Vec<(Method, String, Option<Value>)> = Vec::new();
    for (key, object) in &known {
        let kind = (object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default());
        let Ok(resource) = resources.of_kind(kind.0, kind.1) else { continue };
        let path =
            proxy.names().path(&path_of(&resource, key.namespace.as_deref(), &key.name, ""), resource.namespaced, None);
        if object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
            && kind.1 != "Namespace"
        {
            calls.push((Method::PATCH, path.clone(), Some(json!([{"op": "remove", "path": "/metadata/finalizers"}]))));
        }
        if kind.1 == "Node" {
            nodes.push((Method::DELETE, path, None));
        }
    }
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let outer: Vec<String> =
        namespaces.iter().map(|name| format!("/api/v1/namespaces/{}", escape(&proxy.names().outer(name)))).collect();
    // No kubelet ends pods of these nodes: without force their namespace would never end.
    let pods = outer.iter().map(|path| (Method::DELETE, format!("{path}/pods"), Some(now.clone()))).collect();
    let last = outer.iter().map(|path| (Method::DELETE, path.clone(), None));
    let definitions = definitions.iter().map(|name| {
        (Method::DELETE, format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", escape(name)), None)
    });
    for stage in [calls, pods, nodes, last.chain(definitions).collect()] {
        all(proxy, stage).await?;
    }
    Ok(())
}

async fn all(proxy: &Proxy, calls: Vec<(Method, String, Option<Value>)>) -> Result<(), String> {
    let one = |(method, path, body): (Method, String, Option<Value>)| async move {
        let answered = if method == Method::PATCH {
            proxy.patch(&path, body.as_ref()).await?
        } else {
            proxy.ask(method, &path, body.as_ref()).await?
        };
        // What is gone already, or was never made, is fine.
        if answered.is_success() || matches!(answered.code, 404 | 409 | 422) {
            Ok(())
        } else {
            Err(refused(proxy, &path, &answered))
        }
    };
    let mut done = stream::iter(calls.into_iter().map(one)).buffer_unordered(AT_ONCE);
    let mut first = Ok(());
    while let Some(result) = done.next().await {
        first = first.and(result);
    }
    first
}
